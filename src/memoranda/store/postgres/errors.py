"""Translation of PostgreSQL's errors into ours: `raise translate(error, url) from error`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import psycopg

from memoranda.errors import Busy, Corrupt, Full, ReadOnly, StorageError, Unavailable

_RETRY = "Try again; give busy_timeout more seconds if others write for long"
_SLOTS = "Let fewer programs use the server, give each a smaller `pool`, or raise the server's max_connections"
_SPACE = "Make room on the server's disk, then try again; nothing of the write was kept"
_SHORTER = "Use shorter names, or split the value: tenant, scope and key together fit into about 2,600 bytes"
_PRIMARY = "Connect to the primary: name all hosts and add target_session_attrs=read-write to the address"
_FAILOVER = (
    "If the primary failed, promote a standby (pg_promote), or give busy_timeout more seconds to wait for that; "
    "otherwise name the primary in the address"
)
_DAMAGED = "Stop writing to it, keep a copy of the server's files as they are, and restore a backup"
_REACH = "Check that the server runs, and that host, port and network in the address are right"
_STARTING = "Check that the server runs and has started, or give busy_timeout more seconds"
_SIGN_IN = (
    "Check the user and the password, in the address, in PGPASSWORD or in ~/.pgpass, and the server's pg_hba.conf"
)
_CREATE = "Make it first: createdb --encoding UTF8 NAME"
_RIGHTS = (
    "Open it once as the owner of the database; or let the owner give this user's role what it needs, "
    "with SELECT memoranda.grant_rights('…'), and name its tenants in memoranda.roles"
)
_MEMORY = "Give the server more memory, or write less at once"
_DISK = "Look into the server's log: its disk or its files have a fault"
_STALE = "Another program may have changed the tables while this one was running: open the store again"
_INTERRUPTED = "It was interrupted, or took longer than `statement_timeout`: try again, or raise that"
_TOO_LONG = "Do less in one call, or raise the server's idle_in_transaction_session_timeout and transaction_timeout"
_POOLER = (
    "If there is a connection pooler in between, let it keep prepared statements (PgBouncer: max_prepared_statements)"
)
_NUL = "Remove the NUL character: no text in PostgreSQL can hold it"
_REPORT = "This should not happen: please report it together with the text of this error"

# Codes of our own, in a class that PostgreSQL does not use.
_NO_PRIMARY = "M0001"
_NO_STANDBY = "M0002"

ERRORS: Mapping[str, tuple[type[StorageError], str]] = MappingProxyType(
    {
        # others are using it
        "40": (Busy, _RETRY),
        "55": (Busy, _RETRY),
        "53300": (Busy, _SLOTS),
        # no room
        "53100": (Full, _SPACE),
        "54": (Full, _SHORTER),
        # no right to write
        "25006": (ReadOnly, _PRIMARY),
        # no host that was tried is the primary, or a standby
        _NO_PRIMARY: (Unavailable, _FAILOVER),
        _NO_STANDBY: (Unavailable, _REACH),
        # damage
        "XX001": (Corrupt, _DAMAGED),
        "XX002": (Corrupt, _DAMAGED),
        # cannot be reached
        "08": (Unavailable, _REACH),
        "28": (Unavailable, _SIGN_IN),
        "3D": (Unavailable, _CREATE),
        "42501": (Unavailable, _RIGHTS),
        "53": (Unavailable, _MEMORY),
        "57": (Unavailable, _REACH),
        "57P03": (Unavailable, _STARTING),
        "57014": (Unavailable, _INTERRUPTED),
        "25P03": (Unavailable, _TOO_LONG),
        "25P04": (Unavailable, _TOO_LONG),
        "58": (Unavailable, _DISK),
        "26": (Unavailable, _POOLER),
        "42P05": (Unavailable, _POOLER),
        # the tables are not what we expect
        "3F": (StorageError, _STALE),
        "42": (StorageError, _STALE),
        "23": (StorageError, _STALE),
        "22021": (StorageError, _NUL),
    }
)
"""Our error and hint for each SQLSTATE, or for the class that its first two characters name."""

# While connecting, the driver gives no code, only the message of the server.
_WHILE_CONNECTING: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), code)
    for pattern, code in (
        (r"database .* does not exist", "3D000"),
        (r"password|authentication failed|role .* does not exist|pg_hba|not permitted to log in", "28000"),
        (r"too many clients|too many connections|remaining connection slots", "53300"),
        (r"starting up|shutting down|recovery mode|not (yet )?accepting connections", "57P03"),
        (r"not read-write|session is read-only|server is in hot standby", _NO_PRIMARY),
    )
)


class NoPrimary(psycopg.OperationalError):
    """The server that answers is a standby, and a primary was expected: perhaps it is about to take over."""

    sqlstate = _NO_PRIMARY

    def __init__(self, host: str, silent: Sequence[str] = (), *, replaced: bool = False) -> None:
        """Name the host that was asked, and those that do not answer."""
        what = "was the primary until another took its place" if replaced else "is a standby"
        others = "".join(f", and `{one}` does not answer" for one in silent)
        super().__init__(f"no primary yet: `{host}` {what}{others}")


class NoStandby(psycopg.OperationalError):
    """The server that answers is a primary, and a standby was looked for."""

    sqlstate = _NO_STANDBY

    def __init__(self, host: str) -> None:
        """Name the host that was asked."""
        super().__init__(f"no standby: `{host}` is a primary")


class Behind(psycopg.OperationalError):
    """A standby has not replayed yet what a read must see."""

    sqlstate = "40001"


def translate(error: psycopg.Error, url: str) -> StorageError:
    """Return a new error of ours for one of PostgreSQL's; raise it `from` the original."""
    code = code_of(error)
    kind, hint = ERRORS.get(code) or ERRORS.get(code[:2]) or (StorageError, _REPORT)
    return kind(f"`{url}`: {_message(error)}", hint=hint, url=url)


def commit_failure(url: str) -> StorageError:
    """Return the error for a COMMIT that the server answered with a rollback."""
    return StorageError(f"`{url}`: a statement had failed, so nothing of the write was kept", hint=_REPORT, url=url)


def is_temporary(error: psycopg.Error) -> bool:
    """Say whether the same work may succeed a moment later, on another connection."""
    code = code_of(error)
    if code == "23505":  # the position of an event was filled, because its writer took too long
        return (error.diag.table_name or "").startswith("events")
    return code[:2] in ("08", "40", "M0") or code in ("53300", "57P01", "57P02", "57P03", "57P05", "26000")


def is_standby(error: psycopg.Error) -> bool:
    """Say whether a connection was refused because the server is a standby, and the address asks for a primary."""
    return code_of(error) == _NO_PRIMARY


def is_worth_waiting_for(error: psycopg.Error) -> bool:
    """Say whether a server that is being opened has no free connection, is starting or stopping, or is a standby."""
    return code_of(error) in ("53300", "57P03", _NO_PRIMARY)


def code_of(error: psycopg.Error) -> str:
    """Return the SQLSTATE of an error; one of the driver gets the code of what it means."""
    if error.sqlstate is not None:
        return error.sqlstate
    if isinstance(error, psycopg.errors.PipelineAborted):
        return "25P02"  # as the server says it outside of a pipeline: a statement before this one has failed
    if isinstance(error, psycopg.DataError):
        return "22021"
    if isinstance(error, psycopg.OperationalError):
        said = str(error)
        return next((code for pattern, code in _WHILE_CONNECTING if pattern.search(said)), "08006")
    return "XX000"


def _message(error: psycopg.Error) -> str:
    """Return the error in one line, without the statement that the server quotes."""
    said = error.diag.message_primary or str(error)
    return " ".join(said.split()) or type(error).__name__
