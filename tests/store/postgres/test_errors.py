"""Every error PostgreSQL has is one of ours, with something to do about it."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors as postgres_errors

from memoranda.errors import Busy, Corrupt, Full, ReadOnly, StorageError, Unavailable
from memoranda.store.postgres.errors import ERRORS, is_temporary, translate

URL = "postgresql://ada@db.example/team"


@pytest.mark.parametrize(
    ("error", "expected", "advice"),
    [
        (postgres_errors.LockNotAvailable, Busy, "busy_timeout"),
        (postgres_errors.DeadlockDetected, Busy, "Try again"),
        (postgres_errors.SerializationFailure, Busy, "Try again"),
        (postgres_errors.TooManyConnections, Busy, "max_connections"),
        (postgres_errors.DiskFull, Full, "Make room"),
        (postgres_errors.ProgramLimitExceeded, Full, "shorter names"),
        (postgres_errors.ReadOnlySqlTransaction, ReadOnly, "target_session_attrs=read-write"),
        (postgres_errors.DataCorrupted, Corrupt, "restore a backup"),
        (postgres_errors.IndexCorrupted, Corrupt, "restore a backup"),
        (postgres_errors.InvalidPassword, Unavailable, "PGPASSWORD"),
        (postgres_errors.InvalidCatalogName, Unavailable, "createdb"),
        (postgres_errors.InsufficientPrivilege, Unavailable, "memoranda.grant_rights"),
        (postgres_errors.AdminShutdown, Unavailable, "the server runs"),
        (postgres_errors.CannotConnectNow, Unavailable, "the server runs"),
        (postgres_errors.ConnectionFailure, Unavailable, "the server runs"),
        (postgres_errors.OutOfMemory, Unavailable, "memory"),
        (postgres_errors.IdleInTransactionSessionTimeout, Unavailable, "idle_in_transaction_session_timeout"),
        (postgres_errors.IoError, Unavailable, "log"),
        (postgres_errors.UndefinedTable, StorageError, "open the store again"),
        (postgres_errors.InternalError_, StorageError, "report"),
    ],
)
def test_the_ones_people_meet(error: type[psycopg.Error], expected: type[StorageError], advice: str):
    found = translate(error("what the server\n  said"), URL)
    assert type(found) is expected
    assert found.url == URL
    assert f"`{URL}`: what the server said" in str(found)
    assert advice in found.hint


@pytest.mark.parametrize(
    ("said", "expected", "advice"),
    [
        ('FATAL:  database "team" does not exist', Unavailable, "createdb"),
        ('FATAL:  password authentication failed for user "ada"', Unavailable, "PGPASSWORD"),
        ("fe_sendauth: no password supplied", Unavailable, "PGPASSWORD"),
        ('FATAL:  role "ada" does not exist', Unavailable, "PGPASSWORD"),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1"', Unavailable, "pg_hba.conf"),
        ("FATAL:  sorry, too many clients already", Busy, "max_connections"),
        ("FATAL:  the database system is starting up", Unavailable, "the server runs"),
        ("session is read-only", Unavailable, "pg_promote"),
        ("connection refused", Unavailable, "the server runs"),
    ],
)
def test_what_is_said_while_connecting_is_told_apart(said: str, expected: type[StorageError], advice: str):
    found = translate(psycopg.OperationalError(f"connection failed: {said}"), URL)
    assert type(found) is expected
    assert advice in found.hint


def test_every_code_is_mapped_and_says_what_to_do():
    codes = [code for code in dir(postgres_errors) if isinstance(getattr(postgres_errors, code), type)]
    kinds = [getattr(postgres_errors, code) for code in codes]
    kinds = [kind for kind in kinds if issubclass(kind, psycopg.Error) and kind.sqlstate]
    assert len(kinds) > 200
    for kind in kinds:
        found = translate(kind("?"), URL)
        assert isinstance(found, StorageError)
        assert found.hint
    assert all(hint and issubclass(kind, StorageError) for kind, hint in ERRORS.values())


def test_only_what_may_go_by_itself_is_tried_again():
    passing = (
        postgres_errors.DeadlockDetected,
        postgres_errors.SerializationFailure,
        postgres_errors.AdminShutdown,
        postgres_errors.CrashShutdown,
        postgres_errors.CannotConnectNow,
        postgres_errors.TooManyConnections,
        psycopg.OperationalError,
    )
    staying = (
        postgres_errors.LockNotAvailable,
        postgres_errors.DiskFull,
        postgres_errors.ReadOnlySqlTransaction,
        postgres_errors.InvalidPassword,
        postgres_errors.InvalidCatalogName,
        postgres_errors.UndefinedTable,
        psycopg.DataError,
    )
    assert all(is_temporary(kind("?")) for kind in passing)
    assert not any(is_temporary(kind("?")) for kind in staying)
    assert not is_temporary(psycopg.OperationalError('FATAL:  database "team" does not exist'))
    assert is_temporary(psycopg.OperationalError("connection failed: session is read-only"))  # a standby may take over
