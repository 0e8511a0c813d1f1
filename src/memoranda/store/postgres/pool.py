"""The connections of a process: where they lead, when they are opened, lent and replaced.

An address may name several hosts. Each is tried on its own, the one that worked last first, and those that did not
answer a moment ago last, so that a frozen host costs its timeout once and not with every connection.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Semaphore
from typing import Any, Literal

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper

from memoranda.errors import Busy, UsageError
from memoranda.store.postgres.connection import Partitions, PostgresRows, Rights
from memoranda.store.postgres.deadline import LONGEST_ANSWER, PROBE, SILENCE, Connection, Server, answers_within
from memoranda.store.postgres.dialect import SQL
from memoranda.store.postgres.errors import NoPrimary, NoStandby, code_of, is_standby
from memoranda.store.sql.errors import use_after_close, without_secrets

Durability = Literal["full", "normal"]
ReadFrom = Literal["primary", "standby"]

_DOUBT = 2.0
"""Seconds for which a host that did not answer is not tried, if there is another."""
_BRIEFLY = 0.3
"""Seconds that such a host has to answer when it is asked again."""
_THOROUGHLY = 8
"""Every how many times it has as long as any other."""
_ABSENT = {False: 0.2, True: 5.0}
"""Seconds after which a primary, or a standby, is looked for again where there was none."""
_CONNECT_TIMEOUT = 2
"""Seconds to connect to one of several hosts, the fewest that PostgreSQL's library counts."""
# Dead connections are noticed after half a minute without an answer and three probes.
_KEEPALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
_STATEMENTS = 512
"""Statements that a connection keeps prepared: those in use, of each partition."""
_PREPARED_AFTER = 2
"""How often a statement is executed on a connection before it is prepared."""
_WRITABLE = frozenset({"read-write", "primary"})
"""The values of `target_session_attrs` that ask for a primary."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How the connections of one store are opened, and how its transactions begin."""

    url: str
    """The address without secrets."""
    hosts: tuple[dict[str, Any], ...]
    """The parameters of a connection, for each host of the address."""
    target: str
    """What the address says of the session it wants (`target_session_attrs`); empty if it says nothing."""
    durability: Durability
    busy_timeout: float
    pool: int
    """The maximum number of connections; several processes share those of a server, which has 100 by default."""
    statement_timeout: float | None
    read_from: ReadFrom

    @property
    def has_standbys(self) -> bool:
        """Whether reads may be answered by a standby."""
        return self.read_from == "standby" or len(self.hosts) > 1


def read_address(
    url: str,
    *,
    durability: Durability,
    busy_timeout: float,
    pool: int = 16,
    statement_timeout: float | None = None,
    read_from: ReadFrom = "primary",
) -> Settings:
    """Return the settings for an address; what it says overrides our defaults and the other arguments."""
    shown = without_secrets(url)
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # Without the driver's message, and without its error as the cause: both may quote a part of a password.
        raise UsageError(
            f"`{shown}` is not an address of PostgreSQL",
            hint="Write postgresql://user@host:5432/database; in a password, write special characters as %40",
        ) from None
    places = list(_places(given))
    if given.get("load_balance_hosts") == "random":
        random.shuffle(places)
    waits = max(2, math.ceil(busy_timeout)) if len(places) == 1 else _CONNECT_TIMEOUT
    fixed = {"client_encoding": "UTF8", "fallback_application_name": "memoranda"}
    common: dict[str, Any] = {"connect_timeout": waits, **_KEEPALIVE, **given, **fixed}
    if "statement_timeout" in str(given.get("options") or os.environ.get("PGOPTIONS", "")):
        statement_timeout = None
    return Settings(
        url=shown,
        hosts=tuple(common | place for place in places),
        target=str(given.get("target_session_attrs") or os.environ.get("PGTARGETSESSIONATTRS", "")),
        durability=durability,
        busy_timeout=busy_timeout,
        pool=pool,
        statement_timeout=statement_timeout,
        read_from=read_from,
    )


def _places(given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what distinguishes the hosts of an address.

    Nothing does if there is one, if the driver must compare them, or if it must say what is wrong.
    """
    lists = {
        name: str(given.get(name) or os.environ.get(variable) or "").split(",")
        for name, variable in (("host", "PGHOST"), ("hostaddr", "PGHOSTADDR"), ("port", "PGPORT"))
    }
    count = max(len(lists["host"]), len(lists["hostaddr"]))
    compares = given.get("target_session_attrs") == "prefer-standby"
    if count == 1 or compares or any(len(values) not in (1, count) for values in lists.values()):
        yield {}
        return
    for number in range(count):
        yield {name: values[number if len(values) > 1 else 0] or None for name, values in lists.items()}


class Pool:
    """Connections to the primary, or to a standby: opened when needed, replaced when lost, kept until it is closed."""

    def __init__(self, settings: Settings, *, beside: Pool | None = None) -> None:
        """Open no connection yet; `beside` is the pool of the primary, if this one is to lead to standbys."""
        self._settings = settings
        self._standby = beside is not None
        self._rights = Rights(settings.url)
        self._partitions = Partitions()
        self._idle: deque[PostgresRows] = deque()
        self._slots = Semaphore(settings.pool)
        self._lock = Lock()
        self._closed = False
        # What one pool finds out about a host is known to the other.
        self._hosts: deque[tuple[Server, dict[str, Any]]] = deque(
            [(Server(_name_of(one)), one) for one in settings.hosts] if beside is None else beside._hosts
        )
        # Until when none is looked for, because there was none.
        self._absent: tuple[float, psycopg.Error] | None = None
        self._timeline = 0
        self._expects_primary = settings.target in _WRITABLE or (not settings.target and len(settings.hosts) > 1)
        self._statement_timeout = _set_statement_timeout(settings.statement_timeout)
        # The server ends what takes too long, statements and waits for locks; this is for what it cannot end any more.
        longest = settings.statement_timeout or max(LONGEST_ANSWER, settings.busy_timeout)
        self._limit = longest + SILENCE

    @contextmanager
    def rows(self) -> Generator[PostgresRows]:
        """Lend a connection; a broken one is not taken back."""
        if not self._slots.acquire(timeout=self._settings.busy_timeout):
            most = self._settings.pool
            raise Busy(
                f"`{self._settings.url}`: all {most} connections of this process are in use",
                hint=f"Try again; use fewer threads, a `pool` of more than {most}, or a longer busy_timeout",
                url=self._settings.url,
            )
        try:
            rows = self._take()
            rows.connection.limit = self._limit
            try:
                yield rows
            finally:
                rows.end()
                self._give_back(rows)
        finally:
            self._slots.release()

    @property
    def expects_primary(self) -> bool:
        """Whether a server that refuses writes is a standby where a primary was expected."""
        return self._expects_primary

    def distrust(self) -> None:
        """Close idle connections: one was lost, and the others most likely with it."""
        with self._lock:
            doubtful = list(self._idle)
            self._idle.clear()
        for rows in doubtful:
            _close(rows.connection)

    def close(self) -> None:
        """Close idle connections now, the others after use."""
        self._closed = True
        self.distrust()

    def _connect(self) -> Connection:
        """Open a connection to the first host that fits."""
        if self._absent is not None and time.monotonic() < self._absent[0]:
            raise self._absent[1].with_traceback(None)
        failures: list[tuple[Server, psycopg.Error]] = []
        for server, parameters in self._candidates():
            try:
                connection = self._open(server, parameters)
            except psycopg.Error as error:
                failures.append((server, error))
                continue
            with self._lock:
                while self._hosts[0][0] is not server:
                    self._hosts.rotate(-1)
            self._absent = None
            return connection
        error = self._failure(failures)
        if isinstance(error, NoPrimary | NoStandby):
            self._absent = time.monotonic() + _ABSENT[self._standby], error
        raise error from failures[-1][1]

    def _take(self) -> PostgresRows:
        if self._closed:
            raise use_after_close(self._settings.url)
        with self._lock:
            if self._idle:
                return self._idle.pop()
        rows = PostgresRows(self._connect(), self._settings.url, self._rights, self._partitions)
        rows.statement_timeout = self._statement_timeout
        rows.tells_position = self._settings.has_standbys
        return rows

    def _give_back(self, rows: PostgresRows) -> None:
        sound = rows.connection.info.transaction_status == TransactionStatus.IDLE
        with self._lock:
            if sound and not self._closed:
                self._idle.append(rows)
                return
        _close(rows.connection)

    def _candidates(self) -> Iterator[tuple[Server, dict[str, Any]]]:
        """Yield the hosts to try now, in order."""
        with self._lock:
            known = list(self._hosts)
        silent = [one for one in known if one[0].failed > one[0].heard]
        if len(silent) == len(known):
            yield from known
            return
        yield from (one for one in known if one not in silent)
        for server, parameters in silent:
            with self._lock:
                if time.monotonic() - server.failed < _DOUBT:
                    continue
                server.failed = time.monotonic()  # one thread asks, and the others go on without this host
                server.asked += 1
            # Reads that another host could answer wait here too, so it is asked briefly, and thoroughly now and then.
            patience = PROBE if server.asked % _THOROUGHLY == 0 else _BRIEFLY
            if answers_within(make_conninfo("", **parameters).encode(), patience):
                server.asked = 0
                yield server, parameters
            else:
                server.failed = time.monotonic()

    def _silent(self) -> list[str]:
        return [one.name for one, _ in list(self._hosts) if one.failed > one.heard]

    def _open(self, server: Server, parameters: dict[str, Any]) -> Connection:
        """Connect to one host; raise an error if it is not of the kind that is wanted."""
        if self._standby:
            parameters = parameters | {"target_session_attrs": "any"}
        try:
            connection = Connection.connect(
                **parameters, autocommit=True, prepare_threshold=None, cursor_factory=psycopg.RawCursor
            )
        except psycopg.errors.ConnectionTimeout:
            server.failed = time.monotonic()
            raise
        except psycopg.Error as error:
            if is_standby(error):
                server.heard = time.monotonic()
                raise NoPrimary(server.name, self._silent()) from error
            raise
        server.heard = time.monotonic()
        connection.server = server
        try:
            if server.is_pooler is None:
                server.is_pooler = _row(connection, SQL["get_backend"])[0] != connection.info.backend_pid
            self._ensure_kind(connection, server)
        except BaseException:
            _close(connection)
            raise
        # A pooler may let others use our names of prepared statements, for statements of their own.
        connection.prepare_threshold = None if server.is_pooler else _PREPARED_AFTER
        connection.prepared_max = _STATEMENTS
        # All our numbers are BIGINT; by default their size decides, which makes several statements of one. Lists are
        # sent as text, and the first list would decide for all that follow it.
        connection.adapters.register_dumper(int, Int8Dumper)
        connection.adapters.register_dumper(int, Int8BinaryDumper)
        return connection

    def _ensure_kind(self, connection: Connection, server: Server) -> None:
        if self._standby:
            if not is_in_recovery(connection):
                raise NoStandby(server.name)
            return
        if not self._settings.target or self._settings.target in _WRITABLE:
            if is_in_recovery(connection):
                if self._expects_primary:
                    raise NoPrimary(server.name, self._silent())
                return
            self._expects_primary = True  # from now on: a standby at this address means that another takes over
        if len(self._settings.hosts) > 1:
            self._refuse_former_primary(connection, server)

    def _refuse_former_primary(self, connection: Connection, server: Server) -> None:
        """Refuse a primary that another one has replaced, such as one that was frozen and goes on."""
        (timeline,) = _row(connection, SQL["get_timeline"])
        if timeline is None:
            return
        with self._lock:
            if timeline < self._timeline:
                raise NoPrimary(server.name, replaced=True)
            self._timeline = timeline

    def _failure(self, failures: list[tuple[Server, psycopg.Error]]) -> psycopg.Error:
        """Return one error for all hosts: what the first standby said, or the last of them with what all said."""
        for _, error in failures:
            if isinstance(error, NoPrimary | NoStandby):
                return error
        _, last = failures[-1]
        if len(failures) == 1:
            return last
        # One that may go by itself comes first: the host that is misconfigured may not be the primary.
        kind = next((type(one) for _, one in failures if code_of(one).startswith(("08", "57", "53"))), type(last))
        return kind("; ".join(f"{server.name}: {' '.join(str(error).split())}" for server, error in failures))


def _name_of(parameters: dict[str, Any]) -> str:
    host = parameters.get("host") or parameters.get("hostaddr") or "the server"
    port = parameters.get("port")
    return f"{host}:{port}" if port and not host.startswith("/") else host


def is_in_recovery(connection: Connection) -> bool:
    """Say whether the server of a connection is a standby."""
    # Servers since 14 say so without being asked; a pooler may not pass it on.
    said = connection.pgconn.parameter_status(b"in_hot_standby")
    return _row(connection, SQL["is_standby"])[0] if said is None else said == b"on"


def _row(connection: Connection, statement: bytes) -> tuple[Any, ...]:
    row = connection.execute(statement).fetchone()
    assert row is not None, "it returns one row"
    return row


def _set_statement_timeout(seconds: float | None) -> bytes | None:
    """Return the statement that sets it for a transaction: behind a pooler, a session is not ours alone."""
    return None if seconds is None else f"SET LOCAL statement_timeout = {max(1, math.ceil(seconds * 1000))}".encode()


def _close(connection: Connection) -> None:
    with suppress(psycopg.Error):
        connection.close()
