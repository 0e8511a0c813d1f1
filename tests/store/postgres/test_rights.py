"""A role that does not own the tables: all of its own tenants, by any way; nothing of the others, by no way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote

import postgres_server
import psycopg
import pytest
from psycopg import errors as refusals
from psycopg import sql

import memoranda
from memoranda.errors import ApprovalRequired, Unavailable
from memoranda.model.entry import Shelf
from memoranda.model.policy import Policy, Quota
from memoranda.model.scope import Scope
from memoranda.store.base import Portion, SegmentPiece, Store
from memoranda.store.postgres import PostgresStore, connection, store
from memoranda.store.postgres.dialect import PARTITIONED, SQL
from memoranda.store.postgres.migration import VERSION
from memoranda.testing.conformance.base import ConformanceBase, present, snapshot
from memoranda.testing.conformance.definitions import DefinitionPromises
from memoranda.testing.conformance.entries import EntryLifePromises, EntryPromises
from memoranda.testing.conformance.facts import ErasurePromises, SessionPromises
from memoranda.testing.conformance.ledger import LedgerPromises
from memoranda.testing.conformance.permissions import ScopePromises
from memoranda.testing.conformance.transfer import TransferPromises
from memoranda.testing.fakes import FakeClock

from .test_conformance import Stock

Server = postgres_server.PostgresServer
GUIDE = Path(__file__).parents[3] / "docs" / "storage.md"
APART = {"roles", "migrated"}
"""The tables that belong to no tenant."""

GIVE = "INSERT INTO memoranda.roles (tenant, role) VALUES ('{}', 'orchard')"
PARTS = "SELECT relname FROM pg_class WHERE relnamespace = 'memoranda'::regnamespace AND relkind IN ('r', 'p')"
OURS = PARTS + " AND NOT relispartition"
UPDATABLE = """
SELECT column_name::text FROM information_schema.column_privileges
WHERE table_schema = 'memoranda' AND table_name = %s AND privilege_type = 'UPDATE' AND column_name <> 'place' LIMIT 1
"""
REMOVERS = """
SELECT DISTINCT substring(proname FROM '^remove_(.*?)(?:_[0-9]+)?$') FROM pg_proc
WHERE pronamespace = 'memoranda'::regnamespace AND proname LIKE 'remove%'
"""
FILES = """
SELECT relname, relfilenode FROM pg_class
WHERE relnamespace = 'memoranda'::regnamespace AND relkind = 'r' AND relname ~ '^(facts|entries|event_texts)_[0-9]$'
"""


TENANTS = ("default", "other", "acme", "t", "Default", "defaul", "default0", "default ä", "%", "_")
"""Those that the promises are about."""


class Party(NamedTuple):
    """One database and two ways to it."""

    owner: str
    """The address for the owner of the tables."""
    role: str
    """The address for `orchard`, which was given the tenant of that name."""


@pytest.fixture(scope="module")
def recipe() -> str:
    """Return the statements that the guide tells operators to run."""
    return guide_statements()[0]


def guide_statements() -> list[str]:
    """Return what owners run to make roles, and what superusers run to keep those from changing the schema."""
    return re.findall(r"```sql\n(.*?) *```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def roles(postgres: Server, recipe: str) -> Iterator[None]:
    """Let the guide be followed."""
    postgres.empty()
    postgres.execute(recipe)
    yield
    postgres.execute("DROP OWNED BY orchard, memoranda_tenants", "DROP ROLE orchard, memoranda_tenants")


@pytest.fixture
def party(postgres: Server, roles: None, database: str) -> Party:
    postgres.execute(GIVE.format("orchard"))
    return Party(database, postgres.url(user="orchard"))


def remember_all_kinds(url: str, tenant: str) -> None:
    """Leave something in every table that has a tenant."""
    with memoranda.open(url, tenant=tenant, embedder="hashing:64", ledger_text=True) as memory:
        ada = memory.scope(user="ada")
        memory.definitions.create(name="Shed", slug="shed", schema={"type": "object"})
        ada.set("weight", 61, idempotency_key="first")
        ada.set("weight", 62)
        ada.remember(f"The kiln of {tenant} is cold", collection="notes", key="kiln")
        ada.remember(f"The kiln of {tenant} is lit on Fridays", collection="notes", key="kiln")
        ada.set("height.unit", "cm", derived_from=["fact:user:ada#weight"])
        ada.session("s1").set("mood", "calm")
        ada.reject("The kiln is never lit")
        memory.permissions.grant("agent", "memory", level="approve")
        memory.guard.set(origins=["import"], secrets="refuse")
        with pytest.raises(ApprovalRequired):
            memory.acting_as("agent").scope(user="ada").set("weight", 7)
        counted = Policy.of(allow=("memory",), quota=Quota(writes=9, per="1h"))
        memory.acting_as("counted", policy=counted).scope(user="ada").set("height", 170)
        memory.scope(user="gone").set("weight", 80)
        memory.erase(user="gone")
    with PostgresStore(url) as opened:
        piece = SegmentPiece(tenant=tenant, subject="user:ada", name="n", number=0, data=b"d")
        opened.transact(lambda rows: rows.put(piece))
        shelf = Shelf(Scope(tenant, "user:ada"), "notes", "")
        portion = Portion(namespace="", first=1, last=1, mark=1, embedder="hashing:64")
        assert opened.transact(lambda rows: rows.add_portion(shelf, portion, {"rows": b"d"}))


NEW_TABLES = {
    *("rejections", "guards", "links", "epochs", "omissions", "positions", "chain", "removals", "segments"),
    *("portions", "parts"),
}
ADDED = ["kind", "trust", "cause", "findings", "rules", "rejected"]
"""Tables and columns that the first version did not have."""


def rows_of(url: str, tenant: str) -> dict[str, list[str]]:
    """Return what plain SQL sees of a tenant, by table, in the columns of the first version."""
    with psycopg.connect(url, autocommit=True) as connection:
        tables = [name for (name,) in connection.execute(OURS) if name not in APART]
        asked = sql.SQL("SELECT (to_jsonb(t) - %s::text[])::text FROM memoranda.{} AS t WHERE tenant = %s ORDER BY 1")
        return {
            table: [row for (row,) in connection.execute(asked.format(sql.Identifier(table)), (ADDED, tenant))]
            for table in sorted(tables)
        }


class OfTheRole(Stock):
    """Connections of another role than those that the owner leaves."""

    left: ClassVar[list[connection.PostgresRows]] = []


@pytest.fixture(scope="module")
def stock(roles: None) -> Iterator[type[Stock]]:
    yield OfTheRole
    for rows in OfTheRole.left:
        rows.connection.close()
    OfTheRole.left.clear()


class TestAsARole(
    ScopePromises,
    DefinitionPromises,
    LedgerPromises,
    ErasurePromises,
    SessionPromises,
    TransferPromises,
    EntryPromises,
    EntryLifePromises,
    ConformanceBase,
):
    """A role keeps in its tenants what the owner keeps: the promises that use every table, in every way."""

    @pytest.fixture
    def store(self, reopen_store: Callable[[], Store]) -> Store:
        return reopen_store()

    @pytest.fixture
    def reopen_store(
        self, postgres: Server, party: Party, stock: type[Stock], monkeypatch: pytest.MonkeyPatch
    ) -> Callable[[], Store]:
        postgres.execute(*(GIVE.format(tenant) for tenant in TENANTS))
        monkeypatch.setattr(store, "Pool", stock)
        return lambda: PostgresStore(party.role)


def test_all_of_a_memory_works_in_the_tenant_that_was_given(party: Party, tmp_path: Path):
    clock = FakeClock()
    with memoranda.open(party.role, tenant="orchard", embedder="hashing:64", clock=clock) as memory:
        ada = memory.scope(user="ada")
        memory.definitions.create(name="Shed", slug="shed", schema={"type": "object"})
        assert [ada.set("weight", 61).version, ada.set("weight", 62).version] == [1, 2]
        assert [revision.value for revision in ada.history("weight")] == [61, 62]
        ada.set("otp", 4711, ttl="10m")
        ada.remember("The kiln is lit on Fridays", collection="notes")
        assert ada.recall("kiln", collection="notes").count == 1
        ada.session("s1").set("mood", "calm")
        ada.reject("The kiln is never lit")
        assert ada.session("s1").end()["facts"] == 1
        clock.advance(601)
        assert memory.sweep().facts == 1
        assert memory.export(tmp_path / "all.jsonl") == 2
        receipt = memory.erase(user="ada")
        assert (receipt.removed["facts"], receipt.removed["entries"]) == (1, 1)
        assert memory.import_file(tmp_path / "all.jsonl").written == 0  # what was erased stays so
        assert memory.tenants() == ["orchard"]
        memory.settle()
        assert {"set_fact", "recall", "erase"} <= {event.effect for event in memory.ledger.events()}
        assert memory.ledger.verify().ok
        assert all(finding.ok for finding in memory.inspect())
    with memoranda.open(party.owner, tenant="orchard") as memory:
        assert memory.ledger.verify().ok
        assert memory.ledger.tail(1)[0].tenant == "orchard"


CALLS: dict[str, Callable[[memoranda.Memory, Path], object]] = {
    "get": lambda memory, _: memory.scope(user="ada").get("weight"),
    "list": lambda memory, _: memory.scope(user="ada").list(),
    "history": lambda memory, _: memory.scope(user="ada").history("weight"),
    "set": lambda memory, _: memory.scope(user="ada").set("weight", 99),
    "delete": lambda memory, _: memory.scope(user="ada").delete("weight"),
    "remember": lambda memory, _: memory.scope(user="ada").remember("x", collection="notes"),
    "recall": lambda memory, _: memory.scope(user="ada").recall("kiln", collection="notes"),
    "forget": lambda memory, _: memory.scope(user="ada").forget("e", collection="notes"),
    "session": lambda memory, _: memory.scope(user="ada").session("s1"),
    "define": lambda memory, _: memory.definitions.create(name="Pond", slug="pond", schema={"type": "object"}),
    "definitions": lambda memory, _: memory.definitions.list(),
    "grant": lambda memory, _: memory.permissions.grant("agent", "memory"),
    "approvals": lambda memory, _: memory.approvals.list(),
    "collections": lambda memory, _: memory.collections.list(),
    "erase": lambda memory, _: memory.erase(user="ada"),
    "sweep": lambda memory, _: memory.sweep(),
    "export": lambda memory, path: memory.export(path),
    "ledger": lambda memory, _: memory.ledger.events(),
    "verify": lambda memory, _: memory.ledger.verify(),
}


def test_a_tenant_that_was_not_given_is_refused_and_left_as_it_was(party: Party, tmp_path: Path):
    for tenant in ("orchard", "quarry"):
        remember_all_kinds(party.owner, tenant)
    before = rows_of(party.owner, "quarry")
    with memoranda.open(party.role, tenant="orchard", embedder="hashing:64") as memory:
        other = memory.in_tenant("quarry")
        for name, call in CALLS.items():
            with pytest.raises(Unavailable, match=r"`orchard` may see nothing of the tenant `quarry`.*INSERT INTO"):
                pytest.fail(f"{name} gave {call(other, tmp_path / 'quarry.jsonl')}")
        assert memory.tenants() == ["orchard"]
        assert not (tmp_path / "quarry.jsonl").exists()
        # Nothing of it is left over that would be in the way of what the role may do.
        assert (
            memory.scope(user="ada").recall("kiln", collection="notes").results[0].content.startswith("The kiln of o")
        )
        memory.settle()
        assert memory.ledger.tail(1)[0].effect == "recall"
        assert memory.ledger.verify().ok
        findings = memory.inspect()
        assert [finding for finding in findings if not finding.ok] == []
        assert "quarry" not in str(findings)
    assert rows_of(party.owner, "quarry") == before
    with memoranda.open(party.owner, tenant="quarry", embedder="hashing:64") as memory:
        assert memory.tenants() == ["orchard", "quarry"]
        for name, call in CALLS.items():  # each of them does something when it is permitted
            assert call(memory, tmp_path / "quarry.jsonl") is not None, name


def test_plain_sql_sees_and_changes_the_given_tenants_alone(postgres: Server, party: Party):
    for tenant in ("orchard", "quarry"):
        remember_all_kinds(party.owner, tenant)
    theirs, ours = rows_of(party.owner, "quarry"), rows_of(party.owner, "orchard")
    assert all(theirs.values())
    assert all(ours.values())
    assert rows_of(party.role, "orchard") == ours
    assert rows_of(party.role, "quarry") == {table: [] for table in theirs}
    with psycopg.connect(party.role, autocommit=True) as connection:
        for table in theirs:
            name = sql.Identifier(table)
            steal = sql.SQL("UPDATE memoranda.{} SET tenant = 'quarry' WHERE tenant = 'orchard'").format(name)
            with pytest.raises(refusals.InsufficientPrivilege):
                connection.execute(steal)
            with pytest.raises(refusals.InsufficientPrivilege):
                connection.execute(sql.SQL("TRUNCATE memoranda.{}").format(name))
            with pytest.raises(refusals.InsufficientPrivilege):
                connection.execute(sql.SQL("DELETE FROM memoranda.{}").format(name))
            column = connection.execute(UPDATABLE, (table,)).fetchone()
            assert (column is None) == (table in ("events", "chain", "erasures"))  # which the role can only add to
            if column:
                change = sql.SQL("UPDATE memoranda.{} SET {} = {} WHERE tenant = %s")
                lock = sql.SQL("SELECT 1 FROM memoranda.{} WHERE tenant = %s FOR UPDATE").format(name)
                change = change.format(name, *[sql.Identifier(*column)] * 2)
                for tenant, rows in (("orchard", len(ours[table])), ("quarry", 0)):
                    with connection.transaction(force_rollback=True):
                        assert connection.execute(lock, (tenant,)).rowcount == rows
                        assert connection.execute(change, (tenant,)).rowcount == rows
        with pytest.raises(refusals.InsufficientPrivilege):
            connection.execute("INSERT INTO memoranda.tenants VALUES ('quarry', 0, 0, 0, '') ON CONFLICT DO NOTHING")
        with pytest.raises(refusals.InsufficientPrivilege):
            connection.execute(
                "INSERT INTO memoranda.grants (tenant, id, actor, rule) VALUES ('quarry', 'g', 'a', '{}')"
            )
        with pytest.raises(refusals.InsufficientPrivilege):
            connection.execute("DELETE FROM memoranda.events")
        assert connection.execute("SELECT DISTINCT tenant FROM memoranda.facts").fetchall() == [("orchard",)]
    assert rows_of(party.owner, "quarry") == theirs
    assert rows_of(party.owner, "orchard") == ours
    postgres.execute(GIVE.format("quarry"))
    assert rows_of(party.role, "quarry") == theirs
    assert rows_of(party.role, "orchard") == ours


def test_a_tenant_is_seen_as_soon_as_it_is_given_and_no_longer_than_that(postgres: Server, party: Party):
    with memoranda.open(party.role, tenant="orchard") as memory:
        there = memory.scope(tenant="quarry", user="ada")
        with pytest.raises(Unavailable, match="quarry"):
            there.set("weight", 61)
        postgres.execute(GIVE.format("quarry"))
        assert there.set("weight", 61).version == 1
        assert memory.tenants() == ["quarry"]
        postgres.execute("DELETE FROM memoranda.roles WHERE tenant = 'quarry'")
        assert there.get("weight") is None
        with pytest.raises(Unavailable, match=r"may not change rows.*memoranda\.roles"):
            there.set("weight", 62)
        assert memory.scope(user="ada").set("weight", 63).version == 1
    with memoranda.open(party.owner, tenant="quarry") as memory:
        assert memory.scope(user="ada").value("weight") == 61


@pytest.mark.parametrize("role", ["plain", "o'brien", 'the "best"', "Größe"])
def test_a_role_without_a_tenant_is_refused_and_what_it_is_told_to_do_helps(
    postgres: Server, roles: None, database: str, role: str
):
    quoted = '"' + role.replace('"', '""') + '"'
    postgres.execute(f"CREATE ROLE {quoted} LOGIN IN ROLE memoranda_tenants")
    try:
        url = postgres.url(user=quote(role, safe=""))
        with pytest.raises(Unavailable, match="may see no tenant") as caught:
            memoranda.open(url)
        asked, colon, statement = caught.value.hint.partition(": ")
        assert (asked, colon) == ("As the owner of the tables", ": ")
        postgres.execute(statement)
        with memoranda.open(url) as memory:
            assert memory.scope(user="ada").set("weight", 61).version == 1
    finally:
        postgres.execute(f"DROP ROLE {quoted}")


def test_what_only_an_owner_may_do_is_refused_with_what_to_do(postgres: Server, party: Party):
    attempts = (
        GIVE.format("quarry"),
        "INSERT INTO memoranda.migrated (version) VALUES (99)",
        "ALTER TABLE memoranda.facts DISABLE ROW LEVEL SECURITY",
        "DROP POLICY own_tenants ON memoranda.facts",
        "SET ROLE owner",
        "SELECT setval('memoranda.numbers', 1)",
        "DELETE FROM memoranda.events",
        "UPDATE memoranda.roles SET tenant = 'quarry'",
        "DELETE FROM memoranda.migrated",
        "SELECT memoranda.grant_rights('orchard')",
        "SELECT memoranda.check_tenant('orchard')",
    )
    with PostgresStore(party.role) as opened:
        for attempt in attempts:
            with pytest.raises(Unavailable, match=r"owner of the database.*memoranda\.roles"):
                opened.transact(lambda rows, sent=attempt: rows.connection.execute(sent.encode()).fetchall())  # type: ignore[attr-defined]
    with psycopg.connect(party.owner) as connection:
        assert connection.execute("SELECT tenant, role FROM memoranda.roles").fetchall() == [("orchard", "orchard")]
        assert connection.execute("SELECT version FROM memoranda.migrated").fetchall() == [(VERSION,)]


def test_a_role_needs_no_advisory_locks_of_its_own(postgres: Server, party: Party):
    (guide,) = re.findall(r"REVOKE EXECUTE ON FUNCTION pg_advisory_lock.*?PUBLIC;", GUIDE.read_text(), re.DOTALL)
    with psycopg.connect(party.role, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(1), pg_advisory_unlock(1)")
        postgres.execute(guide)
        try:
            with memoranda.open(party.role, tenant="orchard") as memory:
                assert memory.scope(user="ada").set("weight", 61).version == 1
                memory.permissions.grant("agent", "memory")
            for call in re.findall(r"pg_\w+", guide):
                with pytest.raises(refusals.InsufficientPrivilege):
                    connection.execute(f"SELECT {call}(1)".encode())
            with pytest.raises(refusals.InsufficientPrivilege, match="tenant quarry"):
                connection.execute("SELECT memoranda.lock_subjects('quarry', NULL)")
        finally:
            postgres.execute(guide.replace("REVOKE", "GRANT").replace("FROM PUBLIC", "TO PUBLIC"))


def files(url: str) -> dict[str, int]:
    """Return the file that each partition is in: another one once it was rewritten."""
    with psycopg.connect(url) as connection:
        return dict(connection.execute(FILES).fetchall())


def test_a_scrub_says_that_the_tables_were_not_rewritten_where_they_are_anothers(postgres: Server, party: Party):
    with memoranda.open(party.role, tenant="orchard") as memory:
        before = files(party.owner)
        assert memory.scrub() is False
        memory.scope(user="ada").set("weight", 61)
        receipt = memory.erase(user="ada")
        assert receipt.removed["facts"] == 1
        assert (receipt.scrubbed, receipt.remains.rows, receipt.remains.dead_rows) == (False, "gone", "remains")
        assert "the role may not vacuum" in present(receipt.remains.reason)
        postgres.execute("ALTER ROLE orchard SET client_min_messages = error")
        with memoranda.open(party.role, tenant="orchard") as quiet:
            assert quiet.scrub() is False
        assert files(party.owner) == before
        postgres.execute("GRANT MAINTAIN ON ALL TABLES IN SCHEMA memoranda TO orchard")
        memory.scope(user="ada").set("weight", 61)
        assert memory.erase(user="ada").remains.dead_rows == "gone"
        assert files(party.owner) == before  # nothing was rewritten so far
        assert memory.scrub() is True
        rewritten = {table for table, file in files(party.owner).items() if file != before[table]}
        assert len(rewritten) == 3 < len(before) == 24  # of each table the partition of this tenant
        assert len({table[-1] for table in rewritten}) == 1
        postgres.execute("SELECT memoranda.grant_rights('orchard')")  # which takes it away again


def test_numbers_of_entries_go_up_whichever_role_takes_them(postgres: Server, party: Party):
    postgres.execute(GIVE.format("default"))
    with (
        memoranda.open(party.owner, tenant="orchard", embedder="hashing:64") as owner,
        memoranda.open(party.role, tenant="orchard", embedder="hashing:64") as role,
    ):
        for number in range(6):
            memory = (owner, role)[number % 2]
            tenant = ("orchard", "default")[number // 2 % 2]
            memory.in_tenant(tenant).scope(user="ada").remember(f"note {number}", collection="notes")
        for memory in (owner, role):
            found = {
                tenant: [one.content for one in memory.in_tenant(tenant).scope(user="ada").entries(collection="notes")]
                for tenant in ("orchard", "default")
            }
            assert found == {"orchard": ["note 0", "note 1", "note 4", "note 5"], "default": ["note 2", "note 3"]}
        asked = "SELECT array_agg(sequence ORDER BY created_at, sequence) FROM memoranda.entries"
        with psycopg.connect(party.owner) as connection:
            (taken,) = present(connection.execute(asked).fetchone())
        assert taken == sorted(set(taken))
        assert len(taken) == 6


MODES = ("SHARE UPDATE EXCLUSIVE", "SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE")
"""Lock modes that writers, or readers, would have to wait for."""


def old_rows_of(url: str, tenant: str) -> dict[str, list[str]]:
    """Return what plain SQL sees of a tenant in the tables of the first version."""
    return {table: rows for table, rows in rows_of(url, tenant).items() if table not in NEW_TABLES}


def lockable(url: str, *modes: str) -> set[tuple[str, str]]:
    """Return the tables of ours that a role can lock, and in which of these modes."""
    found: set[tuple[str, str]] = set()
    with psycopg.connect(url, autocommit=True) as connection:
        for (table,) in connection.execute(PARTS).fetchall():
            for mode in modes:
                with suppress(refusals.InsufficientPrivilege), connection.transaction():
                    connection.execute(f'LOCK TABLE memoranda."{table}" IN {mode} MODE'.encode())
                    found.add((table, mode))
    return found


def test_a_role_can_lock_no_table_against_others(party: Party):
    everything = lockable(party.owner, *MODES)
    assert len(everything) == (31 + 8 * len(PARTITIONED)) * len(MODES)
    assert lockable(party.role, *MODES) == set()
    # The lock of ordinary writes, which blocks no other writer, is permitted on tables that the role may write to.
    tables = {table for table, _ in everything}
    assert {table for table, _ in lockable(party.role, "ROW EXCLUSIVE")} == tables - APART
    with psycopg.connect(party.role, autocommit=True) as connection:
        with pytest.raises(refusals.WrongObjectType), connection.transaction():
            connection.execute("LOCK TABLE memoranda.numbers IN ACCESS EXCLUSIVE MODE")
        for attempt in (
            "ALTER TABLE memoranda.facts ADD COLUMN x INTEGER",
            "CREATE INDEX ON memoranda.facts (tenant)",
            "REINDEX TABLE memoranda.facts",
            "CLUSTER memoranda.facts USING facts_pkey",
            "ALTER SEQUENCE memoranda.numbers RESTART",
            "DROP FUNCTION memoranda.remove_facts_0",
        ):
            with pytest.raises(refusals.InsufficientPrivilege):
                connection.execute(attempt.encode())


QUEUES = (
    "CREATE RULE mine AS ON UPDATE TO memoranda.facts DO NOTHING",
    "CREATE TRIGGER mine AFTER INSERT ON memoranda.facts EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "CREATE TEMPORARY TABLE mine (tenant TEXT REFERENCES memoranda.facts)",
)
"""PostgreSQL waits for a lock before it looks whether these are allowed; others then wait behind."""


def test_the_guard_of_the_guide_refuses_what_would_wait_for_a_lock(postgres: Server, party: Party):
    def attempt(statement: str) -> type[psycopg.Error]:
        with psycopg.connect(party.role) as holding, psycopg.connect(party.role) as waiting:
            holding.execute("LOCK TABLE memoranda.facts IN ROW EXCLUSIVE MODE")
            waiting.execute("SET lock_timeout = 100")
            with pytest.raises(psycopg.Error) as caught:
                waiting.execute(statement.encode())
            return caught.type

    assert {attempt(statement) for statement in QUEUES} == {refusals.LockNotAvailable}
    _, guard = guide_statements()
    postgres.execute(guard)
    try:
        assert {attempt(statement) for statement in QUEUES} == {refusals.InsufficientPrivilege}
        with memoranda.open(party.role, tenant="orchard") as memory:
            assert memory.scope(user="ada").set("weight", 61).version == 1
            assert memory.erase(user="ada").removed["facts"] == 1
        # Owners, roles that cannot reach our schema, and databases without one go on as before.
        postgres.execute("CREATE ROLE bystander LOGIN", "ALTER SCHEMA memoranda RENAME TO put_aside")
        postgres.execute("ALTER SCHEMA put_aside RENAME TO memoranda")
        with psycopg.connect(postgres.url(user="bystander"), autocommit=True) as bystander:
            bystander.execute("CREATE TEMPORARY TABLE mine (a INTEGER)")
    finally:
        postgres.execute("DROP EVENT TRIGGER memoranda_guard", "DROP FUNCTION public.memoranda_guard")
        postgres.execute("DROP ROLE IF EXISTS bystander")


@pytest.fixture
def gateway(postgres: Server, party: Party) -> Iterator[str]:
    """Return the address for a role that was given `quarry`, and can act as `orchard`."""
    postgres.execute("CREATE ROLE gateway LOGIN NOINHERIT IN ROLE memoranda_tenants, orchard")
    postgres.execute("SELECT memoranda.grant_rights('gateway')")
    postgres.execute("INSERT INTO memoranda.roles (tenant, role) VALUES ('quarry', 'gateway')")
    yield postgres.url(user="gateway")
    postgres.execute("DROP OWNED BY gateway", "DROP ROLE gateway")


def test_rows_are_removed_for_those_who_may_see_them_alone(postgres: Server, party: Party, gateway: str):
    for tenant in ("orchard", "quarry"):
        remember_all_kinds(party.owner, tenant)
    with psycopg.connect(party.owner, autocommit=True) as owner:
        tables = [table for (table,) in owner.execute(REMOVERS).fetchall()]
        asked = sql.SQL("SELECT tenant, array_agg(ctid::text) FROM memoranda.{} GROUP BY tenant")
        rows = {table: dict(owner.execute(asked.format(sql.Identifier(table))).fetchall()) for table in tables}
        place = SQL["get_partition"].replace(b"$1", b"%s")
        places = {of: present(owner.execute(place, (of,)).fetchone())[0] for of in ("orchard", "quarry")}
    assert len(tables) == 23

    def remove(connection: psycopg.Connection[Any], table: str, tenant: str, of: str) -> int | None:
        """Remove the rows of one tenant in the name of one; return how many went, None where that is refused."""
        name = f"remove_{table}_{places[of]}" if table in PARTITIONED else f"remove_{table}"
        call = sql.SQL("SELECT memoranda.{}(%s, %s::tid[])").format(sql.Identifier(name))
        try:
            with connection.transaction(force_rollback=True):
                (removed,) = present(connection.execute(call, (tenant, rows[table][of])).fetchone())
                return removed
        except refusals.InsufficientPrivilege:
            return None

    def removed_by(url: str, first: str = "RESET ROLE") -> set[tuple[str, str, bool | None]]:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(first.encode())
            return {
                (tenant, of, None if (gone := remove(connection, table, tenant, of)) is None else gone > 0)
                for table in tables
                for tenant in ("orchard", "quarry")
                for of in ("orchard", "quarry")
            }

    def may(*given: str) -> set[tuple[str, str, bool | None]]:
        both = ("orchard", "quarry")
        return {(tenant, of, tenant == of if tenant in given else None) for tenant in both for of in both}

    assert removed_by(party.owner) == may("orchard", "quarry")
    assert removed_by(party.role) == may("orchard")
    assert removed_by(party.role, "SET row_security = off") == may("orchard")
    assert removed_by(party.role, "SET search_path = pg_temp, memoranda") == may("orchard")
    assert removed_by(gateway) == may("quarry")
    assert removed_by(gateway, "SET ROLE orchard") == may("orchard")
    assert removed_by(gateway, "SET ROLE memoranda_tenants") == may()
    postgres.execute("ALTER ROLE orchard BYPASSRLS")
    try:
        assert removed_by(party.role) == may("orchard", "quarry")  # as it sees all, too
    finally:
        postgres.execute("ALTER ROLE orchard NOBYPASSRLS")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            "GRANT UPDATE, DELETE ON memoranda.facts TO orchard",
            r"`?orchard`? .*DELETE, UPDATE.*grant_rights\('orchard'\)",
        ),
        ("GRANT MAINTAIN ON memoranda.facts TO orchard", r"orchard .*MAINTAIN"),
        ("GRANT REFERENCES (tenant) ON memoranda.facts TO orchard", r"orchard .*REFERENCES"),
        ("GRANT TRIGGER ON memoranda.facts TO PUBLIC", r"PUBLIC .*TRIGGER.*FROM PUBLIC"),
        ("GRANT pg_write_all_data TO orchard", r"orchard .*REVOKE pg_write_all_data FROM orchard"),
    ],
)
def test_inspecting_names_roles_that_can_lock_tables_and_what_it_says_helps(
    postgres: Server, party: Party, given: str, said: str
):
    with memoranda.open(party.owner, tenant="orchard") as memory:
        memory.scope(user="ada").set("weight", 61)
        well = memory.inspect()
        assert all(finding.ok for finding in well)
        postgres.execute(given)
        (warned,) = [finding for finding in memory.inspect() if not finding.ok]
        assert re.search(said, warned.detail)
        assert len(memory.inspect()) == len(well) + 1  # the ledgers are looked at all the same
        postgres.execute(warned.detail.partition(": ")[2])
        assert memory.inspect() == well


def test_the_rights_are_given_to_no_owner(postgres: Server, party: Party):
    with pytest.raises(refusals.InsufficientPrivilege, match="owns the tables"):
        postgres.execute("SELECT memoranda.grant_rights('owner')")


WITHOUT_POSITIONS = """
DROP TABLE memoranda.positions, memoranda.chain;
DROP FUNCTION memoranda.lock_subjects;
UPDATE memoranda.migrated SET version = 4;
"""
"""Makes the fourth version of the schema of the fifth, where events are chained in their own bytes."""


def chain_in_place(url: str) -> None:
    """Write the hashes that chain events into them, as the fourth version did."""
    with psycopg.connect(url, autocommit=True) as connection:
        for (tenant,) in connection.execute("SELECT tenant FROM memoranda.tenants").fetchall():
            with PostgresStore(url) as store:
                store.settle(tenant)
                found = store.read(lambda rows, tenant=tenant: list(rows.bodies(tenant)))
            for position, hash, body in found:
                connection.execute(
                    "UPDATE memoranda.events SET hash = %s, body = %s WHERE tenant = %s AND position = %s",
                    (hash, body, tenant, position),
                )


WITHOUT_TRUST = """
ALTER TABLE memoranda.migrated DROP COLUMN prepared;
ALTER TABLE memoranda.facts DROP COLUMN kind, DROP COLUMN trust;
ALTER TABLE memoranda.revisions DROP COLUMN kind, DROP COLUMN trust;
ALTER TABLE memoranda.entries DROP COLUMN kind, DROP COLUMN trust;
ALTER TABLE memoranda.approvals
    DROP COLUMN kind, DROP COLUMN trust, DROP COLUMN cause, DROP COLUMN findings, DROP COLUMN rules;
ALTER TABLE memoranda.tenants DROP COLUMN rejected;
DROP TABLE memoranda.rejections, memoranda.guards, memoranda.links, memoranda.epochs,
    memoranda.omissions, memoranda.removals, memoranda.segments, memoranda.portions, memoranda.parts;
DROP FUNCTION memoranda.remove_rejections, memoranda.remove_guards, memoranda.remove_links,
    memoranda.remove_omissions, memoranda.remove_removals,
    memoranda.remove_segments, memoranda.remove_portions, memoranda.remove_parts;
UPDATE memoranda.migrated SET version = 3;
"""
"""Makes the third version of the schema of the fifth, with all it holds, where the tables are not partitioned."""

WITHOUT_FUNCTIONS = """
DO $$
DECLARE
    held REGPROCEDURE;
BEGIN
    FOR held IN SELECT oid FROM pg_proc WHERE pronamespace = 'memoranda'::regnamespace LOOP
        EXECUTE format('DROP FUNCTION %s', held);
    END LOOP;
    UPDATE memoranda.migrated SET version = 2;
END
$$
"""
"""Makes the second version of the schema of the third, with all it holds."""

WITHOUT_ROLES = """
DO $$
DECLARE
    held RECORD;
BEGIN
    FOR held IN
        SELECT polname, polrelid::regclass AS name FROM pg_policy WHERE polrelid::regclass::text LIKE 'memoranda.%'
    LOOP
        EXECUTE format('DROP POLICY %I ON %s', held.polname, held.name);
        EXECUTE format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', held.name);
    END LOOP;
    DROP TABLE memoranda.roles;
    UPDATE memoranda.migrated SET version = 1;
END
$$
"""
"""Makes the first version of the schema of the second."""

SECOND_RECIPE = """
CREATE ROLE old_tenants NOLOGIN;
GRANT USAGE ON SCHEMA memoranda TO old_tenants;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA memoranda TO old_tenants;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA memoranda TO old_tenants;
REVOKE UPDATE, DELETE ON memoranda.events, memoranda.erasures FROM old_tenants;
ALTER DEFAULT PRIVILEGES IN SCHEMA memoranda GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO old_tenants;
ALTER DEFAULT PRIVILEGES IN SCHEMA memoranda GRANT USAGE ON SEQUENCES TO old_tenants;
CREATE ROLE meadow LOGIN IN ROLE old_tenants;
INSERT INTO memoranda.roles (tenant, role) VALUES ('meadow', 'meadow');
CREATE ROLE generous LOGIN;
GRANT USAGE ON SCHEMA memoranda TO generous;
GRANT ALL ON ALL TABLES IN SCHEMA memoranda TO generous WITH GRANT OPTION;
CREATE ROLE "Second hand" LOGIN;
GRANT USAGE ON SCHEMA memoranda TO "Second hand";
CREATE ROLE cleaner LOGIN;
GRANT USAGE ON SCHEMA memoranda TO cleaner;
GRANT SELECT, DELETE ON memoranda.usage TO cleaner;
"""
"""What the guide said for the second version; then a role with all rights, one that has them from it, one with few."""


def test_roles_of_the_second_version_lose_their_locks_and_nothing_else(
    postgres: Server, database: str, unpartitioned: None
):
    names = ("meadow", "old_tenants", '"Second hand"', "generous", "cleaner", "app")
    postgres.execute("CREATE ROLE app LOGIN CREATEROLE", "CREATE DATABASE old OWNER app")
    app, meadow, generous, second, cleaner = (
        postgres.url("old", user=role) for role in ("app", "meadow", "generous", "Second%20hand", "cleaner")
    )
    try:
        remember_all_kinds(app, "meadow")
        chain_in_place(app)
        postgres.execute(WITHOUT_POSITIONS, WITHOUT_TRUST, WITHOUT_FUNCTIONS, database="old")
        with psycopg.connect(app, autocommit=True) as connection:
            connection.execute(SECOND_RECIPE.encode())
        with psycopg.connect(generous, autocommit=True) as connection:
            connection.execute('GRANT UPDATE, DELETE ON memoranda.facts TO "Second hand"')
        assert len(lockable(meadow, *MODES)) == 18 * len(MODES)
        assert len(lockable(generous, "ACCESS EXCLUSIVE")) == 20
        assert lockable(second, "EXCLUSIVE") == {("facts", "EXCLUSIVE")}
        assert lockable(cleaner, "EXCLUSIVE") == {("usage", "EXCLUSIVE")}
        PostgresStore(app).close()
        for role in (meadow, generous, second, cleaner):
            assert lockable(role, *MODES) == set()
        assert len(lockable(app, *MODES)) == 31 * len(MODES)
        with PostgresStore(app) as store:
            assert store.warnings() == []
        with memoranda.open(meadow, tenant="meadow", embedder="hashing:64") as memory:
            assert memory.scope(user="ada").set("weight", 63).version == 3
            assert memory.collections.delete("notes")
            assert memory.erase(user="ada").removed["facts"] == 4
            assert memory.ledger.verify().ok
        with psycopg.connect(app, autocommit=True) as connection:
            connection.execute("CREATE TABLE memoranda.added (tenant TEXT)")  # as a later migration would
        assert ("added", "EXCLUSIVE") not in lockable(meadow, "EXCLUSIVE")
        with psycopg.connect(cleaner, autocommit=True) as connection:
            allowed = "SELECT has_function_privilege(%s, 'EXECUTE')"
            for function, expected in (("usage", True), ("facts", False)):
                asked = (f"memoranda.remove_{function}(text, tid[])",)
                assert connection.execute(allowed, asked).fetchone() == (expected,)
    finally:
        postgres.execute("DROP DATABASE old WITH (FORCE)")
        for role in names:
            postgres.execute(f"DROP ROLE IF EXISTS {role}")


@pytest.mark.parametrize("who", ["app", "owner"])
def test_a_database_of_the_first_version_is_migrated_with_all_it_holds(
    postgres: Server, recipe: str, who: str, unpartitioned: None
):
    postgres.execute("CREATE ROLE app LOGIN CREATEROLE", "CREATE ROLE stranger LOGIN", "CREATE DATABASE old OWNER app")
    app, meadow, stranger = (postgres.url("old", user=role) for role in ("app", "meadow", "stranger"))
    tenants = ("meadow", "quarry")
    try:
        for tenant in tenants:
            remember_all_kinds(app, tenant)
        chain_in_place(app)
        before = {tenant: old_rows_of(app, tenant) for tenant in tenants}
        postgres.execute(WITHOUT_POSITIONS, WITHOUT_TRUST, WITHOUT_FUNCTIONS, WITHOUT_ROLES, database="old")
        with psycopg.connect(app, autocommit=True) as connection:
            connection.execute("GRANT USAGE ON SCHEMA memoranda TO stranger")
            connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA memoranda TO stranger")
        assert old_rows_of(stranger, "quarry") == before["quarry"]
        with pytest.raises(Unavailable, match="Open it once as the owner"):
            PostgresStore(stranger)
        PostgresStore(postgres.url("old", user=who)).close()  # a member of the owner role migrates as the owner
        with psycopg.connect(app, autocommit=True) as connection:
            owners = connection.execute(OURS.replace("relname", "pg_get_userbyid(relowner)", 1)).fetchall()
            assert set(owners) == {("app",)}
            connection.execute(recipe.replace("memoranda_tenants", "meadows").replace("orchard", "meadow").encode())
        assert {tenant: old_rows_of(app, tenant) for tenant in tenants} == before
        with PostgresStore(app) as opened:
            assert set(snapshot(opened)) == set(tenants)
        assert old_rows_of(meadow, "meadow") == before["meadow"]
        assert not any(old_rows_of(meadow, "quarry").values())
        with memoranda.open(meadow, tenant="meadow", embedder="hashing:64") as memory:
            assert memory.scope(user="ada").set("weight", 63).version == 3
            assert memory.ledger.verify().ok
        with pytest.raises(Unavailable, match="name its tenants"):  # which it was never asked to have
            PostgresStore(stranger)
    finally:
        postgres.execute("DROP DATABASE old WITH (FORCE)")
        for role in ("meadow", "meadows", "stranger", "app"):
            postgres.execute(f"DROP ROLE IF EXISTS {role}")
