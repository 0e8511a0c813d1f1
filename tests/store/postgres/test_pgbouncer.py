"""PgBouncer between a program and PostgreSQL: it works, or is refused with what to change."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pgbouncer
import postgres_server
import psycopg
import pytest

import memoranda
from memoranda.errors import Unavailable
from memoranda.store.postgres.errors import translate

pooled = pytest.mark.capability("pooler", backend="postgres")
WITHOUT = "PgBouncer is not installed (Debian and Ubuntu: apt-get install pgbouncer)"


@pytest.fixture
def program() -> Path:
    found = pgbouncer.program()
    if found is None:
        pytest.skip(WITHOUT)
    return found


def write_together(address: str) -> None:
    """Write and recall in six threads; everything is there."""
    with memoranda.open(address, embedder="hashing:32", busy_timeout=30) as memory:

        def work(number: int) -> None:
            own = memory.scope(user=f"user{number}")
            for turn in range(10):
                assert own.set("turn", turn).version == turn + 1
                own.remember(f"Note {turn} of {number}", collection="notes")
                assert own.recall(f"note {turn}", collection="notes").count > 0

        with ThreadPoolExecutor(6) as threads:
            for one in [threads.submit(work, number) for number in range(6)]:
                one.result(60)
        assert [memory.scope(user=f"user{number}").value("turn") for number in range(6)] == [9] * 6
        assert memory.ledger.verify().ok


@pooled
def test_sessions_are_pooled(postgres: postgres_server.PostgresServer, database: str, program: Path):
    with pgbouncer.pooling(program, postgres, mode="session", connections=20) as address:
        write_together(address)


@pooled
def test_transactions_are_pooled_where_prepared_statements_are_kept(
    postgres: postgres_server.PostgresServer, database: str, program: Path
):
    if not pgbouncer.keeps_statements(program):
        pytest.skip("this PgBouncer is older than 1.21, which keeps prepared statements")
    with pgbouncer.pooling(program, postgres, more="max_prepared_statements = 200") as address:
        write_together(address)


@pooled
def test_transactions_are_not_pooled_where_prepared_statements_are_mixed_up(
    postgres: postgres_server.PostgresServer, database: str, program: Path
):
    more = "max_prepared_statements = 0" if pgbouncer.keeps_statements(program) else ""
    with pgbouncer.pooling(program, postgres, more=more) as address:
        for _ in range(3):  # also when its connections have seen us before
            with pytest.raises(Unavailable, match="prepared statements") as caught:
                memoranda.open(address)
            assert "pool_mode = session" in (caught.value.hint or "")
    with memoranda.open(database) as memory:  # the server itself is not
        assert memory.scope(user="ada").set("k", 1).version == 1


@pooled
def test_a_pooler_without_a_free_connection_does_not_hold_up_opening(
    postgres: postgres_server.PostgresServer, database: str, program: Path
):
    with pgbouncer.pooling(program, postgres, mode="session", connections=1) as address:
        with memoranda.open(address) as memory:
            assert memory.scope(user="ada").set("k", 1).version == 1


def test_a_name_that_is_taken_is_told_as_a_poolers_doing():
    """What the check may have missed is told with what to change."""
    told = translate(psycopg.errors.DuplicatePreparedStatement("prepared statement _pg3_0 already exists"), "url")
    assert isinstance(told, Unavailable) and "max_prepared_statements" in (told.hint or "")
