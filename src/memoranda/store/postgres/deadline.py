"""Waits that end: a server may stop answering and keep its connections open.

A frozen machine, or a server all of whose processes are stopped, still acknowledges what it is sent, so neither TCP nor
the driver notices, and the driver has no timeout for an answer. A slow statement looks the same from here, and so does
the wait for a lock. So after a second of silence the server is asked on another connection: as long as it answers
that, the statement goes on.
"""

from __future__ import annotations

import errno
import os
import select
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.pq import ConnStatus, PGconn, PollingStatus, abc

from memoranda.store.postgres.dialect import SQL

SILENCE = 1.0
"""Seconds without a byte from a server after which it is asked whether it answers at all."""
PROBE = 2.0
"""Seconds that it has to answer that."""
LONGEST_ANSWER = 600.0
"""Seconds without a byte after which one statement counts as lost, even if the server answers others."""
LONGEST_COMMIT = 60.0
"""The same for a COMMIT, which waits for disks and synchronous standbys only."""
LONGEST_REWRITE = 86_400.0
"""The same for what takes time in proportion to the database: a migration, and a scrub."""

_READABLE = 1
"""The bit of `psycopg.waiting.Ready` that says that bytes have come."""


class Silent(psycopg.OperationalError):
    """A server did not answer in time; the connection is closed."""

    sqlstate = "08006"
    server_answers = False
    """Whether it answered on another connection, so that this one waited for a lock or a slow statement."""


class Server:
    """One host of an address, and when it last answered any of our connections."""

    def __init__(self, name: str) -> None:
        """Know nothing about it yet; `name` is for errors."""
        self.name = name
        self.heard = 0.0
        """When it last sent something, as `time.monotonic` counts."""
        self.failed = 0.0
        """When it last failed to answer."""
        self.asked = 0
        """How often it was asked since whether it is back."""
        self.is_pooler: bool | None = None
        """Whether a connection pooler answers in its name; None until the first connection."""
        self._asking = threading.Lock()

    def answers(self, conninfo: bytes) -> bool:
        """Say whether it answered a moment ago, on any connection; without news, ask it on a new one."""
        with self._asking:  # one thread asks for all that wait
            now = time.monotonic()
            if now - self.heard < SILENCE:
                return True
            if now - self.failed < SILENCE:
                return False
            if answers_within(conninfo, PROBE):
                self.heard = time.monotonic()
                return True
            self.failed = time.monotonic()
            return False


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection on which no wait is for ever."""

    server: Server | None = None
    """The host it leads to; without one, only `limit` counts."""
    limit = LONGEST_ANSWER
    """Seconds without a byte after which a wait ends."""
    replayed = 0
    """The position in the write-ahead log up to which its server is known to show everything."""
    shows = 0
    """The same for what this process changed."""

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **options: Any) -> Any:
        """Run a generator of the driver that waits for the server; raise `Silent` if it waits for nothing."""
        return super().wait(self._watch(gen), *args, **options)

    @contextmanager
    def pipeline(self) -> Generator[psycopg.Pipeline]:
        """Send statements without waiting for each answer; after an error, prepare all of them again.

        One that was to be prepared behind the error was not, and the driver may take it for prepared.
        """
        try:
            with super().pipeline() as pipeline:
                yield pipeline
        except BaseException:
            self._prepared.clear()
            raise

    def _watch(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        # The driver wakes ten times a second, ready or not.
        server = self.server
        try:
            state = next(gen)
            heard = time.monotonic()
            while True:
                ready = yield state
                if ready:
                    if ready & _READABLE:
                        heard = time.monotonic()
                        if server is not None:
                            server.heard = heard
                elif time.monotonic() - heard > SILENCE:
                    self._ensure_alive(time.monotonic() - heard)
                state = gen.send(ready)
        except StopIteration as end:
            return end.value

    def _ensure_alive(self, silent: float) -> None:
        """Close the connection and raise `Silent` if its server does not answer at all, or not here for too long."""
        answers = self.server is None or self.server.answers(self._own_address())
        if answers and silent <= self.limit:
            return
        where = f"`{self.server.name}`" if self.server is not None else "the server"
        self.close()
        error = Silent(f"{where} does not answer: no word on this connection for {silent:.0f} seconds")
        error.server_answers = answers
        raise error

    def _own_address(self) -> bytes:
        # The address that was resolved then, so that no name has to be looked up now.
        info = self.info
        given = {key: value for key, value in info.get_parameters().items() if key not in _OF_ALL_HOSTS}
        place = {"host": info.host, "port": info.port, "password": info.password or None}
        if info.hostaddr and not info.host.startswith("/"):
            place["hostaddr"] = info.hostaddr
        return make_conninfo("", **given, **{key: value for key, value in place.items() if value}).encode()


def lock_timeout(seconds: float) -> str:
    """Return the setting of how long to wait for a lock, at least a millisecond: 0 would mean forever."""
    return str(max(1, int(seconds * 1000)))


_OF_ALL_HOSTS = frozenset({"host", "hostaddr", "port", "password", "target_session_attrs", "load_balance_hosts"})


_UNREACHABLE = tuple(
    os.strerror(code).encode()
    for code in (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENOENT, errno.ETIMEDOUT)
)
"""What the driver says of an address without a server; anything else was said by one."""


def answers_within(conninfo: bytes, seconds: float) -> bool:
    """Say whether a server answers a question, be it with a refusal: then it has something to say."""
    deadline = time.monotonic() + seconds
    link = PGconn.connect_start(conninfo)
    try:
        while link.status != ConnStatus.BAD:
            state = link.connect_poll()
            if state == PollingStatus.OK:
                return _answers_question(link, deadline)
            if state == PollingStatus.FAILED:
                break
            if not _wait_for(link, deadline, writing=state == PollingStatus.WRITING):
                return False
        return not any(said in link.error_message for said in _UNREACHABLE)
    finally:
        link.finish()


def _answers_question(link: abc.PGconn, deadline: float) -> bool:
    # Behind a pooler a connection alone says nothing about the server.
    try:
        link.send_query(SQL["ask"])
        while link.is_busy():
            if not _wait_for(link, deadline):
                return False
            link.consume_input()
    except psycopg.OperationalError:
        return False
    return True


def _wait_for(link: abc.PGconn, deadline: float, *, writing: bool = False) -> bool:
    """Wait until a socket can be used; return False if the time is over first."""
    left = deadline - time.monotonic()
    if left <= 0:
        return False
    socket = select.poll()
    socket.register(link.socket, select.POLLOUT if writing else select.POLLIN)
    return bool(socket.poll(left * 1000))
