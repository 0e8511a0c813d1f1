"""Moving a database with some of everything: between both stores, interrupted, refused and damaged."""

from __future__ import annotations

import re
import runpy
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import msgspec
import postgres_server
import psycopg
import pytest

import memoranda
from memoranda import MoveProgress, migrate
from memoranda.api.memory import Memory, open_store
from memoranda.model.entry import Collection
from memoranda.model.policy import Grant, Policy, Quota
from memoranda.model.scope import Scope
from memoranda.store.base import EntryQuery, FactQuery, Reader, RevisionQuery
from memoranda.store.postgres import migration as postgres_migration
from memoranda.store.postgres import move as postgres_move
from memoranda.store.sql import move
from memoranda.store.sqlite import connection as sqlite_connection
from memoranda.store.sqlite import move as sqlite_move
from memoranda.testing import CountingIds, FakeClock
from memoranda.testing.conformance.base import EMBEDDER

DATABASES = Path(__file__).parents[1] / "fixtures" / "databases"
WRITING = runpy.run_path(str(DATABASES / "writing.py"))
KINDS = ("sqlite", "postgres")
NUMBERS = count(1)

Place = Callable[..., str]


def write_the_rest(memory: Memory) -> None:
    """Write what no chapter of the releases' databases has."""
    ida, page = memory.scope(user="ida"), memory.from_origin("tool_external").scope(user="ida")
    memory.guard.set(origins=["tool_external"], secrets="refuse")
    counted = Policy.of(allow=("memory",), quota=Quota(writes=5, per="1h"))
    memory.acting_as("agent:counted", policy=counted).scope(user="ida").set("counted", 1)
    said = page.remember("The glaze is called Nordmark", collection="notes")
    ida.remember("Cups can be glazed with it", collection="notes", derived_from=[said.ref])
    ida.reject(ida.remember("She is allergic to walnuts", collection="notes").ref)
    ida.remember_many([{"content": f"Jar {number} has plums"} for number in range(40)], collection="shelf")
    for number in range(60):
        ida.set(f"jar.n{number % 20}", {"number": number, "text": "plum – jam"})
    # The last numbers were given to what is gone.
    ida.forget(ida.remember("The last jar is empty", collection="shelf").ref)
    gone = memory.scope(user="gone")
    gone.remember("Erased with its subject", collection="shelf")
    memory.erase(user="gone")


def write_everything(url: str) -> None:
    with memoranda.open(url, clock=FakeClock(), ids=CountingIds(), embedder=EMBEDDER, ledger_text=True) as memory:
        for chapter in (*WRITING["CHAPTERS"], write_the_rest):
            chapter(memory)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("everything") / "memory.db"
    write_everything(str(path))
    return path


@pytest.fixture(scope="module")
def written_there(postgres: postgres_server.PostgresServer) -> Iterator[str]:
    postgres.execute("CREATE DATABASE everything")
    write_everything(postgres.url("everything"))
    yield "everything"
    postgres.execute("DROP DATABASE everything WITH (FORCE)")


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Return a function that makes an address of a kind: with some of everything, or without anything."""
    made: list[str] = []

    def address(kind: str, *, empty: bool = False) -> str:
        if kind == "sqlite":
            path = tmp_path / f"memory{next(NUMBERS)}.db"
            return str(path if empty else shutil.copyfile(request.getfixturevalue("written"), path))
        server = request.getfixturevalue("postgres")
        made.append(f"moved{next(NUMBERS)}")
        template = "" if empty else f" TEMPLATE {request.getfixturevalue('written_there')}"
        server.execute(f"CREATE DATABASE {made[-1]}{template}")
        return server.url(made[-1])

    yield address
    for name in made:
        request.getfixturevalue("postgres").execute(f"DROP DATABASE {name} WITH (FORCE)")


def execute(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run a statement behind our back."""
    if "://" not in url:
        with closing(apsw.Connection(url)) as connection:
            return list(connection.execute(statement, values))
    with psycopg.connect(url, autocommit=True, options="-c search_path=memoranda") as connection:
        cursor = connection.execute(statement.replace("?", "%s").encode(), values)
        return cursor.fetchall() if cursor.description else []


def remember_numbered(memory: Memory) -> int:
    """Remember a new text and return its sequence."""
    memory.scope(user="ida").remember(f"Numbered {next(NUMBERS)}", collection="shelf")
    version = memory.ledger.tail(1)[0].version
    assert version is not None
    return version


def readable(url: str) -> dict[str, Any]:
    """Return everything that can be read through the contract of a store."""

    def read(rows: Reader, tenant: str) -> dict[str, Any]:
        shared = Scope.of(tenant=tenant)
        found: dict[str, Any] = {
            "state": rows.tenant_state(tenant),
            "head": rows.head(tenant),
            "bodies": list(rows.bodies(tenant)),
            "events": list(rows.events(tenant)),
            "facts": list(rows.facts(FactQuery(shared, below=True))),
            "revisions": list(rows.revisions(RevisionQuery(shared))),
            "live": list(rows.entries(EntryQuery(below=shared))),
            "states": rows.shelf_states(shared, below=True),
            "newest": rows.newest_below(shared),
            "scopes": rows.scopes(tenant),
        }
        events: list[Any] = found["events"]
        highest = max((event.version or 0 for event in events if event.effect == "remember"), default=0)
        everything = EntryQuery(tenant=tenant, sequences=range(1, highest + 10))
        found["entries"] = sorted(rows.entries(everything), key=lambda entry: entry.sequence)
        found["links"] = [rows.links(tenant, child=f"fact:{event.key}") for event in events]
        for collection in rows.scan(Collection, tenant):
            every = EntryQuery(tenant=tenant, collection=collection.name, limit=1_000)
            found[collection.name] = (
                rows.shelves(tenant, collection.name),
                rows.vector_counts(tenant, collection.name),
                list(rows.index_rows(every, collection.space.embedder)),
            )
        kinds = {kind.__name__: kind for kind in memoranda.store.base.PlainRow.__args__}
        for name in ("Collection", "Definition", "Grant", "GuardRule", "Approval", "Session", "Replay"):
            found[name] = rows.scan(kinds[name], tenant)
        found["rejections"] = rows.scan(kinds["StoredRejection"], tenant)
        found["omissions"] = rows.scan(kinds["Omission"], tenant, below=Scope.of(tenant=tenant, user="ida"))
        found["erasures"] = [
            rows.get(kinds["Erasure"], Scope.of(tenant=tenant, user=user)) for user in ("otis", "gone")
        ]
        found["keys"] = [rows.get(kinds["ContentKey"], tenant, path) for path in ("", *rows.scopes(tenant))]
        found["epochs"] = [rows.get(kinds["ScopeEpoch"], tenant, path) for path in ("", "*", "project:orchard")]
        return found

    with closing(open_store(url)) as store:
        tenants = store.read(lambda rows: rows.tenants())
        return {tenant: store.read(lambda rows, tenant=tenant: read(rows, tenant)) for tenant in tenants}


def recalled(url: str) -> list[Any]:
    with memoranda.open(url, clock=FakeClock(), embedder=EMBEDDER) as memory:
        ida = memory.scope(user="ida")
        questions = ("Which pears are ripe?", "cider press", "plums in jar 7", "glaze")
        return [
            [(match.content, match.score, match.ref) for match in ida.recall(question).results]
            for question in questions
        ]


def everything_is_there(source: str, target: str) -> None:
    before, after = readable(source), readable(target)
    assert before.keys() == after.keys()
    for tenant in before:
        for what, value in before[tenant].items():
            assert after[tenant][what] == value, (tenant, what)
    assert recalled(target) == recalled(source) != [[]] * 4
    with memoranda.open(target, embedder=EMBEDDER) as memory:
        assert [finding for finding in memory.inspect() if not finding.ok] == []


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_everything_is_moved(place: Place, source: str, target: str):
    there, here = place(source), place(target, empty=True)
    with memoranda.open(there, embedder=EMBEDDER) as memory:
        anchor = memory.ledger.anchor()
        exported = memory.export_lines(lambda lines: list(lines)[1:])
        last = remember_numbered(memory)
    told: list[MoveProgress] = []
    moved = migrate(there, here, progress=told.append)
    assert (moved.continued, moved.restarted, moved.written_since) == (False, False, 0)
    assert [table.name for table in moved.tables if not table.rows] == []  # so that nothing below is about nothing
    assert {step.stage for step in told} == {"copying", "comparing", "verifying"}
    assert [(step.done, step.total) for step in told if step.stage == "comparing"][-1] == (moved.rows, moved.rows)
    everything_is_there(there, here)
    with memoranda.open(here, clock=FakeClock(), embedder=EMBEDDER) as memory:
        assert memory.ledger.verify(anchor=anchor).ok
        assert remember_numbered(memory) > last
        assert [line for line in memory.export_lines(lambda lines: list(lines)[1:]) if line in exported] == exported
        [waiting] = [run for run in memory.runs.list() if run.status == "waiting"]
        harvest = memoranda.workflow.find(memory, waiting.id).deliver({"text": "The fourth"})
        assert (harvest.status, harvest.output) == ("completed", {"row": "The fourth"})
        assert memory.runs.verify(harvest.id).ok
        session = memoranda.abl.load(WRITING["DESK"], memory=memory).resume("order")
        assert [turn.input for turn in session.turns()] == [None, "six"]
        again = memory.scope(user="ida").remember("She is ALLERGIC to walnuts", collection="notes")
        assert (again.stored, again.rejected is None) == (False, False)
        # What is ordered by its place, and what has a number of its own, goes on after what was moved.
        granted = memory.permissions.grant("agent:late", "memory.read")
        assert memory.permissions.list()[-1].id == granted.id
        memory.scope(user="new").remember("A shelf of its own", collection="notes")


@pytest.mark.parametrize("kind", KINDS)
def test_no_number_is_given_again_that_was_given_to_what_is_gone(place: Place, kind: str):
    there, here = place("sqlite"), place(kind, empty=True)
    ((given,),) = execute(there, "SELECT seq FROM sqlite_sequence")
    ((left,),) = execute(there, "SELECT max(sequence) FROM entries")
    assert left < given
    migrate(there, here)
    back = place("sqlite", empty=True)
    migrate(here, back)
    for url in (here, back):
        with memoranda.open(url, embedder=EMBEDDER) as memory:
            assert remember_numbered(memory) > given


# the list of tables


def columns_of_sqlite() -> dict[str, tuple[set[str], tuple[str, ...]]]:
    """Return the columns and the primary key of each table."""
    connection = apsw.Connection(":memory:")
    connection.execute(sqlite_connection.SCHEMA)
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    info = {name: list(connection.execute(f"SELECT name, pk FROM pragma_table_info('{name}')")) for name in names}
    return {
        str(name): (
            {str(column) for column, _ in rows},
            tuple(str(c) for c, pk in sorted(rows, key=lambda r: r[1]) if pk),
        )
        for name, rows in info.items()
        if name != "sqlite_sequence"
    }


def columns_of_postgres(url: str) -> dict[str, tuple[set[str], tuple[str, ...]]]:
    found = execute(
        url,
        """SELECT relname, array_agg(DISTINCT attname), (
            SELECT array_agg(key.attname ORDER BY place)
            FROM pg_index, unnest(indkey) WITH ORDINALITY AS part (number, place)
            JOIN pg_attribute AS key ON attnum = number
            WHERE indrelid = pg_class.oid AND indisprimary AND key.attrelid = pg_class.oid
        ) FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0
        WHERE relnamespace = 'memoranda'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
        GROUP BY relname, pg_class.oid""",
    )
    return {name: (set(columns), tuple(key or ())) for name, columns, key in found}


def test_no_table_and_no_column_is_forgotten(database: str):
    """A new table has to be listed in `store/sql/move.py`: as copied, as derived from others, or as local."""
    sqlite, postgres = columns_of_sqlite(), columns_of_postgres(database)
    copied = {table.name: table for table in move.COPIED}
    assert len(copied) == len(move.COPIED)
    assert not copied.keys() & (move.DERIVED | move.LOCAL)
    assert sqlite.keys() - move.DERIVED - move.LOCAL == copied.keys()
    assert postgres.keys() - move.DERIVED - move.LOCAL == copied.keys()
    for name, table in copied.items():
        assert postgres[name][1] == table.key, name
        if name not in ("entries", "vectors", "events"):  # of which each store has another form
            assert sqlite[name][0] == postgres[name][0], name
    assert sqlite["entries"][0] | {"tenant"} == postgres["entries"][0]
    assert {"place", "vector"} < sqlite["vectors"][0] and postgres["vectors"][0] == {
        "tenant",
        "sequence",
        "slot",
        "vector",
    }


def test_rows_are_read_in_the_order_of_an_index(written: Path):
    """Otherwise a database of any size would be sorted before its first row is read."""
    with closing(sqlite_move.open_source(str(written), busy_timeout=1.0)) as side:
        for table in move.COPIED:
            if table.name == "events":
                continue
            key = side._key(table)
            parts = {
                "columns": ", ".join(side.columns(table)),
                "key": ", ".join(key),
                "marks": ", ".join("?" * len(key)),
            }
            rows = sqlite_move._TEXTS.get(f"rows_of_{table.name}", table.name)
            for name in ("read_rows", "read_rows_after"):
                statement = sqlite_move._fill(name, **parts, rows=rows)
                values = ("",) * len(key) if name == "read_rows_after" else ()
                plan = str(side.connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall())
                assert "TEMP B-TREE" not in plan, (table.name, plan)


def test_rows_are_read_in_the_order_of_an_index_there(place: Place):
    with closing(postgres_move.open_source(place("postgres"), busy_timeout=1.0)) as side, side.snapshot():
        for table in move.COPIED:
            key = ", ".join(table.key)
            parts = {"columns": ", ".join(side.columns(table)), "key": key, "rows": side._rows_of(table)}
            statement = postgres_move._fill("read_rows", **parts).decode()
            query = statement.partition("(")[2].rpartition(") TO STDOUT")[0]
            plan = str(side.connection.execute(f"EXPLAIN {query}".encode()).fetchall())
            assert "Index" in plan and "Sort  (cost" not in plan, (table.name, plan)


# interrupted

KILLED = """
    import os, signal, sys
    from memoranda import migrate
    from memoranda.store.sql import move
    from memoranda.store.sqlite.move import SqliteTarget

    source, target, stage, steps = sys.argv[1:]
    move.PAGE_ROWS = 7
    left = int(steps)
    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)
    def tell(at):
        global left
        if at.stage == stage:
            left -= 1
            if left <= 0:
                die()
    if stage == "finishing":
        from memoranda.store.postgres.move import PostgresTarget
        for kind in (SqliteTarget, PostgresTarget):
            finish = kind.finish
            kind.finish = (lambda target, counters: die()) if left == 0 else (
                lambda target, counters, finish=finish: (finish(target, counters), die()))
    migrate(source, target, progress=tell)
"""

POINTS = [
    *(("sqlite", "sqlite", *point) for point in (("copying", 1), ("copying", 2), ("copying", 30), ("comparing", 5))),
    *(("sqlite", "postgres", *point) for point in (("copying", 2), ("copying", 70), ("finishing", 0))),
    *(("postgres", "sqlite", *point) for point in (("copying", 30), ("finishing", 0))),
]


def kill(run_child: Callable[..., Any], source: str, target: str, stage: str, steps: int) -> None:
    child = run_child(KILLED, source, target, stage, steps)
    with pytest.raises(AssertionError, match="ended with -9"):
        child.finish()


@pytest.mark.parametrize(("source", "target", "stage", "steps"), POINTS)
def test_a_killed_move_goes_on_where_it_was(
    place: Place, run_child: Callable[..., Any], source: str, target: str, stage: str, steps: int
):
    there, here = place(source), place(target, empty=True)
    whole = migrate(there, place("sqlite", empty=True))
    kill(run_child, there, here, stage, steps)
    with pytest.raises(memoranda.Incomplete, match=r"migrate SOURCE .*--restart"):
        memoranda.open(here)
    told: list[MoveProgress] = []
    again = migrate(there, here, progress=told.append)
    assert (again.continued, again.restarted) == (True, False)
    assert again.tables == whole.tables
    if stage == "copying" and steps > 2:
        assert 0 < told[0].done < whole.rows
    assert readable(here) == readable(there)


@pytest.mark.parametrize("kind", KINDS)
def test_a_move_that_ended_without_a_word_is_only_compared(place: Place, run_child: Callable[..., Any], kind: str):
    there, here = place("sqlite"), place(kind, empty=True)
    kill(run_child, there, here, "finishing", 1)
    again = migrate(there, here)
    assert again.continued
    assert again.tables == migrate(there, place("sqlite", empty=True)).tables
    memoranda.open(here).close()


class Stopped(Exception):
    """Raised by a test in the middle of a move."""


def stop_after(steps: int) -> Callable[[MoveProgress], None]:
    left = iter(range(steps))

    def tell(at: MoveProgress) -> None:
        if at.stage == "copying" and next(left, None) is None:
            raise Stopped

    return tell


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(move, "PAGE_ROWS", 7)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("kind", KINDS)
def test_a_move_begins_again_if_the_source_was_written_to(place: Place, kind: str):
    there, here = place("sqlite"), place(kind, empty=True)
    with pytest.raises(Stopped):
        migrate(there, here, progress=stop_after(60))
    with memoranda.open(there, embedder=EMBEDDER) as memory:
        memory.scope(user="ida").set("jar.n1", "written meanwhile")
        memory.erase(user="ida", agent="desk")
    again = migrate(there, here)
    assert (again.continued, again.restarted) == (True, True)
    everything_is_there(there, here)


@pytest.mark.usefixtures("small_pages")
def test_a_move_from_a_server_is_stopped_in_the_middle(place: Place):
    there, here = place("postgres"), place("sqlite", empty=True)
    with pytest.raises(Stopped):
        migrate(there, here, progress=stop_after(60))
    assert migrate(there, here).continued
    assert readable(here) == readable(there)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("kind", KINDS)
def test_another_source_does_not_continue_a_move(place: Place, tmp_path: Path, kind: str):
    there, here = place("sqlite"), place(kind, empty=True)
    with pytest.raises(Stopped):
        migrate(there, here, progress=stop_after(60))
    other = str(tmp_path / "other.db")
    with memoranda.open(other) as memory:
        memory.scope(user="bo").set("tea", "green")
    with pytest.raises(memoranda.AlreadyExists, match=re.escape(f"from `{there}`, not from this source")):
        migrate(other, here)
    moved = migrate(other, here, restart=True)
    assert (moved.restarted, moved.tenants) == (True, 1)
    assert readable(here) == readable(other)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("kind", KINDS)
def test_two_moves_to_one_target_do_not_mix(place: Place, kind: str):
    there, here = place("sqlite"), place(kind, empty=True)
    left = iter(range(30))

    def move_too(at: MoveProgress) -> None:
        if next(left, None) == 29:
            with pytest.raises(Stopped):
                migrate(there, here, progress=stop_after(60))

    with pytest.raises(memoranda.Conflict, match="another process is moving memory to"):
        migrate(there, here, progress=move_too)
    migrate(there, here)
    assert readable(here) == readable(there)


@pytest.mark.usefixtures("small_pages")
def test_a_connection_that_is_lost_interrupts_a_move(place: Place):
    for source, target in (("postgres", "sqlite"), ("sqlite", "postgres")):
        there, here = place(source), place(target, empty=True)
        server = there if source == "postgres" else here
        left = iter(range(30))

        def cut(at: MoveProgress, left: Iterator[int] = left, server: str = server) -> None:
            if next(left, None) == 29:
                execute(server, CUT)

        with pytest.raises(memoranda.Unavailable, match="run the same move again"):
            migrate(there, here, progress=cut)
        assert migrate(there, here).continued
        assert readable(here) == readable(there)


@pytest.mark.usefixtures("small_pages")
def test_a_full_disk_interrupts_a_move(place: Place, monkeypatch: pytest.MonkeyPatch):
    there, here = place("sqlite"), place("sqlite", empty=True)
    opened = sqlite_move.open_target

    def on_a_small_disk(path: str, **options: Any) -> Any:
        target = opened(path, **options)
        assert target is not None
        target.connection.pragma("max_page_count", target.connection.pragma("page_count") + 4)
        return target

    monkeypatch.setattr(sqlite_move, "open_target", on_a_small_disk)
    with pytest.raises(memoranda.Full, match="run the same move again"):
        migrate(there, here)
    monkeypatch.undo()
    assert migrate(there, here).continued
    assert readable(here) == readable(there)


CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


# written to meanwhile


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_meanwhile_is_counted_or_an_error(place: Place, kind: str):
    there, here = place(kind), place("sqlite", empty=True)
    left = iter(range(30))

    def write(at: MoveProgress) -> None:
        if next(left, None) == 29:
            with memoranda.open(there, embedder=EMBEDDER) as memory:
                memory.scope(user="ida").set("jar.n3", "written during the move")
                memory.erase(user="ida", agent="desk")

    before = readable(there)
    moved = migrate(there, here, progress=write)
    assert moved.written_since == 2
    assert readable(here) == before != readable(there)
    left, here = iter(range(30)), place("sqlite", empty=True)
    with pytest.raises(memoranda.Conflict, match=r"was written to during the move \(events: 2\)"):
        migrate(there, here, progress=write, exclusive=True)
    with pytest.raises(memoranda.Incomplete):
        memoranda.open(here)
    assert migrate(there, here, exclusive=True).restarted
    assert readable(here) == readable(there)


# refused


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_with_memory_is_refused(place: Place, kind: str):
    there, here = place("sqlite"), place(kind)
    with memoranda.open(here, embedder=EMBEDDER) as memory:
        memory.scope(user="ida").set("tea", "green")
    before = readable(here)
    choices: tuple[dict[str, Any], ...] = ({}, {"restart": True}, {"dry_run": True})
    for options in choices:
        with pytest.raises(memoranda.AlreadyExists, match=r"has memory already\. Move to an empty database"):
            migrate(there, here, **options)
    assert readable(here) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_that_was_only_opened_is_empty(place: Place, kind: str):
    there, here = place("sqlite"), place(kind, empty=True)
    with memoranda.open(here) as memory, pytest.raises(memoranda.NotFound):
        memory.approvals.approve("approval_x")
    execute(here, "DELETE FROM events") if kind == "sqlite" else execute(here, "DELETE FROM memoranda.events")
    execute(here, "UPDATE tenants SET length = 0, head = ''")
    if kind == "sqlite":
        execute(here, "DELETE FROM tenants")
    migrate(there, here)
    assert readable(here) == readable(there)


def test_a_tenant_that_was_only_asked_for_is_not_moved(place: Place):
    there, here = place("postgres"), place("sqlite", empty=True)
    execute(there, "INSERT INTO tenants (tenant, revision, epoch, length, head) VALUES ('asked', 0, 0, 0, '')")
    migrate(there, here)
    assert execute(here, "SELECT tenant FROM tenants ORDER BY 1") == [
        ("default",),
        ("recollect.system",),
        ("vineyard",),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_database_is_refused(place: Place, kind: str):
    there = place(kind)
    other = there.replace("memory", "./memory") if kind == "sqlite" else there + "&application_name=other"
    with pytest.raises(memoranda.UsageError, match="are the same database"):
        migrate(there, other)


def test_a_source_that_is_missing_is_refused(place: Place, tmp_path: Path):
    here = str(tmp_path / "target.db")
    with pytest.raises(memoranda.NotFound, match="no database exists"):
        migrate(tmp_path / "missing.db", here)
    with pytest.raises(memoranda.NotFound, match="has no memory"):
        migrate(place("postgres", empty=True), here)
    with pytest.raises(memoranda.UsageError, match="ends with this process"):
        migrate(":memory:", here)
    assert not Path(here).exists()
    with pytest.raises(memoranda.UsageError, match="ends with this process"):
        migrate(place("sqlite"), ":memory:")


@pytest.mark.parametrize("kind", KINDS)
def test_other_schemas_are_refused(place: Place, kind: str):
    there, here = place("sqlite"), place(kind)
    version = sqlite_connection.VERSION if kind == "sqlite" else postgres_migration.VERSION

    def set_version(number: int) -> None:
        execute(here, f"PRAGMA user_version = {number}") if kind == "sqlite" else execute(
            here, f"UPDATE memoranda.migrated SET version = {number}"
        )

    for number, error, said in (
        (version + 1, memoranda.MigrationNeeded, "Upgrade Memoranda here"),
        (version - 1, memoranda.AlreadyExists, "was written by an older Memoranda"),
        (1_000_000 + version + 1, memoranda.MigrationNeeded, "Continue with the version that began it"),
    ):
        set_version(number)
        with pytest.raises(error, match=said):
            migrate(there, here)
    set_version(1_000_000 + version)
    with pytest.raises(memoranda.Incomplete):  # nor is it a source
        migrate(here, place("sqlite", empty=True))


def test_a_database_of_a_release_is_moved_and_not_moved_to(place: Place, tmp_path: Path):
    there = shutil.copyfile(DATABASES / "0.1.0.db", tmp_path / "old.db")
    with pytest.raises(memoranda.AlreadyExists, match="was written by an older Memoranda"):
        migrate(place("sqlite"), there)
    assert there.read_bytes() == (DATABASES / "0.1.0.db").read_bytes()
    here = place("postgres", empty=True)
    migrate(there, here)
    assert readable(here) == readable(str(there))


def test_a_role_that_does_not_own_the_tables_is_refused(place: Place, postgres: postgres_server.PostgresServer):
    there, here = place("postgres"), place("sqlite", empty=True)
    name = there.partition("@/")[2].partition("?")[0]
    postgres.execute(
        "CREATE ROLE mover LOGIN", "SELECT memoranda.grant_rights('mover')",
        "INSERT INTO memoranda.roles VALUES ('default', 'mover')", database=name,
    )  # fmt: skip
    try:
        with pytest.raises(memoranda.Unavailable, match="does not own the tables"):
            migrate(postgres.url(name, user="mover"), here)
    finally:
        postgres.execute("DROP OWNED BY mover", "DROP ROLE mover", database=name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_dry_run_changes_nothing(place: Place, kind: str):
    there, here = place("sqlite"), place(kind, empty=True)
    planned = migrate(there, here, dry_run=True)
    if kind == "sqlite":
        assert not Path(here).exists()
    else:
        assert execute(here, "SELECT to_regnamespace('memoranda')") == [(None,)]
    moved = migrate(there, here)
    counts = [(table.name, table.rows) for table in moved.tables]
    assert ([(table.name, table.rows) for table in planned.tables], planned.rows) == (counts, moved.rows)


# damaged


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE facts SET payload = x'7B' WHERE key = 'jar.n5'", r"key='jar.n5'\) of `facts` cannot be moved"),
        ("UPDATE entries SET shelf = 99 WHERE sequence = 4", r"\(sequence=4\) of `entries` .* does not belong"),
        ("UPDATE vectors SET metadata = x'7B7D20' WHERE place / 256 = 4", r"\(place=1024\) of `vectors`"),
        ("DELETE FROM tenants WHERE tenant = 'vineyard'; DELETE FROM facts WHERE tenant = 'vineyard'", None),
        ("UPDATE facts SET key = CAST(x'6AFF' AS TEXT) WHERE key = 'jar.n5'", r"'j\\\\xff'\) of `facts` .* not UTF-8"),
        ("UPDATE events SET hash = 'sha256:0' WHERE position = 1", "broken at position 1"),
        ("UPDATE events SET body = x'7B' WHERE position = 9", "event 9 of tenant `default` cannot be read"),
        ("UPDATE tenants SET head = 'sha256:0' WHERE tenant = 'default'", "broken at position"),
    ],
)  # fmt: skip
def test_a_damaged_row_is_named(place: Place, statement: str, said: str | None):
    there, here = place("sqlite"), place("sqlite", empty=True)
    execute(there, statement)
    if said is None:  # whose events are there all the same
        assert readable(there)["vineyard"]["bodies"]
        said = "broken at position"
    with pytest.raises(memoranda.Corrupt, match=said) as caught:
        migrate(there, here)
    assert caught.value.hint
    with pytest.raises(memoranda.Incomplete):
        memoranda.open(here)


@pytest.mark.parametrize("column", ["actor", "key"])
def test_a_text_that_postgresql_cannot_store_is_named(place: Place, column: str):
    there, here = place("sqlite"), place("postgres", empty=True)
    execute(there, f"UPDATE facts SET {column} = 'j' || char(0) WHERE key = 'jar.n5'")
    with pytest.raises(memoranda.InvalidValue, match=rf"`{column}` of the row \(tenant='default', .* of `facts`"):
        migrate(there, here)
    execute(there, f"UPDATE facts SET {column} = 'jar.n5' WHERE {column} = 'j' || char(0)")
    assert migrate(there, here).continued


def test_a_row_that_postgresql_refuses_is_named(place: Place):
    there, here = place("sqlite"), place("postgres", empty=True)
    name = "".join(sha256(str(number).encode()).hexdigest() for number in range(100))
    execute(there, "UPDATE content_keys SET scope = ? WHERE scope = 'user:ida'", name)  # too long for an index there
    with pytest.raises(
        memoranda.Full, match=r"when writing the row \(tenant='default', scope='5feceb66.* `content_keys`"
    ):
        migrate(there, here)


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_that_differs_is_an_error_that_names_the_table(
    place: Place, monkeypatch: pytest.MonkeyPatch, kind: str
):
    there, here = place("sqlite"), place(kind, empty=True)

    def change(at: MoveProgress) -> None:
        if at.stage == "copying" and at.table == "events":
            execute(here, "UPDATE revisions SET actor = 'other' WHERE key = 'jar.n5' AND version = 1")

    with pytest.raises(memoranda.Corrupt, match="`revisions` has other rows") as caught:
        migrate(there, here, progress=change)
    assert caught.value.table == "revisions"
    with pytest.raises(memoranda.Incomplete):
        memoranda.open(here)
    assert migrate(there, here, restart=True).restarted
    assert readable(here) == readable(there)


# how it is copied


def test_a_page_has_a_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = str(tmp_path / "large.db")
    with memoranda.open(path) as memory:
        for number in range(12):
            memory.scope().set(f"k{number}", "x" * 50_000)
    monkeypatch.setattr(move, "PAGE_BYTES", 100_000)
    with closing(sqlite_move.open_source(path, busy_timeout=1.0)) as side, side.snapshot():
        sizes = [len(page.rows) for table in move.COPIED if table.name == "facts" for page in side.pages(table)]
    assert sizes == [2] * 6


def test_the_sum_of_rows_does_not_depend_on_their_order_or_pages():
    rows = [("a", 1, None), ("b", 2, b"x"), ("a", 1, None)]
    whole = move.Sum().add(rows)
    assert whole == move.Sum().add(rows[2:]).add(rows[:2]) == move.Sum().add(reversed(rows))
    assert whole != move.Sum().add(rows[:2]) and whole != move.Sum().add([*rows[:2], ("a", 1, b"")])
    assert msgspec.json.decode(msgspec.json.encode(whole), type=move.Sum) == whole


def test_grants_keep_their_order(place: Place):
    there, here = place("sqlite"), place("postgres", empty=True)
    execute(there, "UPDATE grants SET place = place + 100 WHERE place = 1")
    migrate(there, here)
    for url in (there, here):
        with closing(open_store(url)) as store:
            assert len(store.read(lambda rows: rows.scan(Grant, "default"))) == 2
    assert readable(here)["default"]["Grant"] == readable(there)["default"]["Grant"]


def test_the_indexes_are_those_of_a_new_database(place: Place, postgres: postgres_server.PostgresServer):
    there, here, file = place("sqlite"), place("postgres", empty=True), place("sqlite", empty=True)
    migrate(there, here)
    migrate(there, file)
    asked = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'memoranda' ORDER BY 1"
    assert len(postgres_move._INDEX.findall(postgres_migration.SCHEMA)) > 15
    assert execute(here, asked) == execute(place("postgres"), asked)
    asked = "SELECT name, sql FROM sqlite_schema ORDER BY 1"
    assert execute(file, asked) == execute(there, asked)
