"""Writers of one tenant beside each other: who waits for whom, the order of the ledger, and what chains it."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import postgres_server
import psycopg
import pytest

import memoranda
from memoranda.errors import Busy
from memoranda.model.event import Event, hash_event
from memoranda.model.scope import Scope
from memoranda.store.base import FactQuery, Progress, Reader, TenantState, Widen
from memoranda.store.postgres import PostgresStore, connection, ledger

Server = postgres_server.PostgresServer
ADA, BOB = Scope(path="user:ada"), Scope(path="user:bob")


@pytest.fixture
def memory(database: str) -> Iterator[memoranda.Memory]:
    with memoranda.open(database, embedder="hashing:64", busy_timeout=10) as opened:
        opened.scope(user="ada").set("first", 0)
        yield opened


def store_of(memory: memoranda.Memory) -> PostgresStore:
    return memory._gate._store  # type: ignore[attr-defined, return-value]


def note(rows: Any, scope: Scope = ADA) -> None:
    """Read something of a scope, which takes its lock."""
    rows.fact(scope, "first")


# who waits for whom


@pytest.mark.parametrize(
    ("within", "beside", "waits"),
    [
        ([ADA], [BOB], False),
        ([ADA], [], False),
        ([ADA], [ADA], True),
        ([ADA], [Scope(path="user:ada/agent:x")], True),
        ([ADA], [BOB, ADA], True),
        ([Scope()], [ADA], False),
        ([Scope()], [Scope()], True),
        ([ADA], None, True),
        (None, [], True),
    ],
)
def test_writers_wait_for_those_of_their_subjects_alone(database: str, within: Any, beside: Any, waits: bool):
    inside, leave = threading.Event(), threading.Event()

    def hold(rows: Any) -> None:
        rows.tenant_state("default")
        inside.set()
        assert leave.wait(60)

    with PostgresStore(database, busy_timeout=0.3) as store, ThreadPoolExecutor(1) as threads:
        store.transact(lambda rows: rows.tenant_state("default"))  # adds the row of the tenant
        holding = threads.submit(store.transact, hold, within=within)
        assert inside.wait(60)
        refused: list[Busy] = []
        try:
            store.transact(lambda rows: rows.tenant_state("default"), within=beside)
        except Busy as error:
            refused.append(error)
        leave.set()
        holding.result()
        assert bool(refused) == waits


def test_work_that_goes_beyond_its_scopes_is_run_again_alone(database: str):
    def runs_of(store: PostgresStore, action: Callable[[Any], Any]) -> list[bool]:
        alone: list[bool] = []

        def work(rows: Any) -> None:
            alone.append(rows._within is None)
            action(rows)

        store.transact(work, within=[ADA])
        return alone

    beyond: list[Callable[[Any], Any]] = [
        lambda rows: rows.fact(BOB, "k"),
        lambda rows: rows.set_tenant_state("default", TenantState(1, 0)),
        lambda rows: list(rows.facts(FactQuery(Scope(), below=True))),
        lambda rows: rows.newest_below(ADA),
        lambda rows: rows.tenants(),
    ]
    inside: list[Callable[[Any], Any]] = [
        lambda rows: rows.fact(ADA, "k"),
        lambda rows: rows.tenant_state("default"),
        lambda rows: list(rows.facts(FactQuery(ADA, below=True))),
    ]
    with PostgresStore(database) as store:
        assert [runs_of(store, action) for action in beyond] == [[False, True]] * len(beyond)
        assert [runs_of(store, action) for action in inside] == [[False]] * len(inside)


def test_common_writes_share_their_tenant(memory: memoranda.Memory, monkeypatch: pytest.MonkeyPatch):
    ada = memory.scope(user="ada")
    ada.remember("The kiln is in the shed.", collection="notes")
    ada.learn([{"role": "user", "content": "I live in Paris."}], conversation="c1")
    widened: list[str] = []

    class Watched(Widen):
        def __init__(self, *said: Any) -> None:
            widened.append(str(said))

    for module in (ledger, connection):
        monkeypatch.setattr(module, "Widen", Watched)
    ada.set("profile.language", "en", idempotency_key="k")
    ada.set("profile.language", "fr", expect=1)
    ada.delete("profile.language")
    ada.remember("The key hangs by the door.", collection="notes", key="door")
    ada.remember("The key lies under the mat.", collection="notes", key="door")
    ada.forget("door", collection="notes")
    ada.learn([{"role": "user", "content": "I live in Rome now, and I like tea."}], conversation="c1")
    ada.session("s1").set("step", 1)
    ada.recall("kiln")
    with ada.batch() as batch:
        batch.set("profile.city", "Rome")
        batch.remember("The shed is locked.", collection="notes")
    memory.settle()
    assert widened == []
    memory.scope(user="ada").remember("new", collection="a_new_one")  # adds a collection: only one may
    assert widened != []


# the order


class Write(NamedTuple):
    """A write as its client saw it, and its position in the ledger."""

    key: str
    version: int
    called: int
    returned: int
    position: int


def misorders(history: list[Write]) -> Iterator[tuple[Write, Write]]:
    """Yield pairs of writes of which the second could know the first, and comes before it in the ledger.

    A write knows the one whose version it replaced, and what had returned before it was called.
    """
    for _, chain in itertools.groupby(sorted(history, key=lambda one: (one.key, one.version)), key=lambda one: one.key):
        for before, after in itertools.pairwise(chain):
            if after.position < before.position:
                yield before, after
    returned = sorted(history, key=lambda one: one.returned)
    newest: Write | None = None
    place = 0
    for write in sorted(history, key=lambda one: one.called):
        while place < len(returned) and returned[place].returned < write.called:
            if newest is None or returned[place].position > newest.position:
                newest = returned[place]
            place += 1
        if newest is not None and newest.position > write.position:
            yield newest, write


COUNT = """
import sys
import json
import time
import threading
import memoranda

done = []

def run(memory, thread):
    for number in range(25):
        user = ("common", f"u{sys.argv[2]}{thread}", "other")[number % 3]
        called = time.monotonic_ns()
        fact = memory.scope(user=user).update("count", lambda count: count + 1, default=0)
        done.append((user, fact.version, called, time.monotonic_ns()))

with memoranda.open(sys.argv[1], busy_timeout=60) as memory:
    print("ready", flush=True)
    sys.stdin.readline()
    threads = [threading.Thread(target=run, args=(memory, thread)) for thread in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(done), flush=True)
"""


def positions_of(events: list[Event]) -> dict[tuple[str, int], int]:
    return {
        (event.scope.removeprefix("user:"), event.version): event.position
        for event in events
        if event.effect == "set_fact" and event.key == "count" and event.version is not None
    }


def test_whoever_knew_of_a_write_comes_after_it_in_the_ledger(
    memory: memoranda.Memory, run_child: Callable[..., Any], database: str
):
    children = [run_child(COUNT, database, str(number)) for number in range(3)]
    assert [one.hear() for one in children] == ["ready"] * 3
    for one in children:
        one.say()
    stop, verified = threading.Event(), list[bool]()

    def verify() -> None:
        while not stop.is_set():
            verified.append(memory.ledger.verify().ok)
            anchors.append(memory.ledger.anchor())

    anchors: list[Any] = []
    with ThreadPoolExecutor(1) as threads:
        verifying = threads.submit(verify)
        heard = [one.hear() for one in children]
        stop.set()
        verifying.result()
    assert verified and all(verified)
    memory.settle()
    events = memory.ledger.events()
    places = positions_of(events)
    history = [
        Write(user, version, called, returned, places[user, version])
        for lines in heard
        for user, version, called, returned in json.loads(lines)
    ]
    assert len(history) == 3 * 3 * 25
    assert list(misorders(history)) == []
    assert [event.position for event in events] == list(range(1, len(events) + 1))
    assert all(hash_event(event) == event.hash for event in events)
    assert all(after.prev_hash == before.hash for before, after in itertools.pairwise(events))
    assert all(memory.ledger.verify(anchor=anchor).ok for anchor in anchors)
    # More than one of these processes chained.
    with psycopg.connect(database) as link:
        (rows,) = link.execute("SELECT count(*) FROM memoranda.chain").fetchone() or (0,)
    assert rows > 1


def test_positions_that_are_leased_ahead_are_noticed(database: str, monkeypatch: pytest.MonkeyPatch):
    """The proof above can fail: here each store takes positions for later, as an allocator by blocks would."""
    take = ledger.Positions.take
    leased: dict[int, list[int]] = {}

    def lease(self: ledger.Positions, tenant: str, count: int) -> int:
        block = leased.setdefault(id(self), [])
        if len(block) < count:
            last = take(self, tenant, 10)
            block[:] = range(last - 9, last + 1)
        return [block.pop(0) for _ in range(count)][-1]

    monkeypatch.setattr(ledger.Positions, "take", lease)
    monkeypatch.setattr(ledger, "_PATIENCE", 0.0)
    with memoranda.open(database) as one, memoranda.open(database) as other:
        history: list[tuple[str, int, int, int]] = []
        for number in range(8):
            called = time.monotonic_ns()
            fact = (one, other)[number % 2].scope(user="ada").update("count", lambda count: count + 1, default=0)
            history.append(("ada", fact.version, called, time.monotonic_ns()))
        events = store_of(one).read(lambda rows: list(rows.events("default")))
    places = positions_of(events)
    found = [Write(user, version, called, back, places[user, version]) for user, version, called, back in history]
    assert list(misorders(found)) != []


# gaps


def leave_a_gap(store: PostgresStore, count: int = 1) -> int:
    """Take positions as a writer does that then dies."""
    return store._positions.take("default", count)


def look(memory: memoranda.Memory, question: Callable[[Reader], Any]) -> Any:
    return store_of(memory).read(question)


def test_events_behind_a_missing_one_are_shown_and_not_chained(memory: memoranda.Memory):
    store = store_of(memory)
    memory.settle()
    gap = leave_a_gap(store)
    memory.scope(user="ada").set("k", 1)
    assert memory.scope(user="ada").value("k") == 1
    events = look(memory, lambda rows: list(rows.events("default")))
    assert [(event.position, bool(event.hash), bool(event.prev_hash)) for event in events[-2:]] == [
        (gap - 1, True, True),
        (gap + 1, False, False),
    ]
    assert look(memory, lambda rows: rows.progress("default")) == Progress(gap - 1, (gap + 1,))
    assert look(memory, lambda rows: rows.head("default"))[0] == gap - 1


def test_a_missing_event_is_filled_when_its_writer_had_its_time(
    memory: memoranda.Memory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ledger, "_PATIENCE", 0.2)
    gap = leave_a_gap(store_of(memory), 2) - 1
    ada = memory.scope(user="ada")
    ada.set("k", 1)
    verification = memory.ledger.verify()
    assert (verification.ok, verification.length) == (True, gap + 2)
    events = memory.ledger.events(start=gap)
    assert [(event.effect, event.decision) for event in events] == [("void", "refused")] * 2 + [("set_fact", "allow")]
    assert all(hash_event(event) == event.hash for event in events)
    ada.set("k", 2)
    assert memory.ledger.verify().length == gap + 3


def test_a_failed_work_leaves_a_void_event_at_once(memory: memoranda.Memory):
    def fail(rows: Any) -> None:
        rows.reserve("default", 1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store_of(memory).transact(fail, within=[ADA])
    memory.scope(user="ada").set("k", 1)
    begun = time.monotonic()
    memory.settle()
    assert time.monotonic() - begun < ledger._PATIENCE
    assert [event.effect for event in memory.ledger.tail(2)] == ["void", "set_fact"]
    # In a transaction that has its tenant to itself, the positions are undone with the rest.
    with pytest.raises(ZeroDivisionError):
        store_of(memory).transact(fail)
    memory.scope(user="ada").set("k", 2)
    assert [event.effect for event in memory.ledger.tail(2)] == ["set_fact", "set_fact"]


def test_a_writer_that_comes_too_late_writes_again_with_another_position(memory: memoranda.Memory):
    store = store_of(memory)
    memory.settle()
    taken: list[int] = []
    take = store._positions.take

    def take_and_dawdle(tenant: str, count: int) -> int:
        taken.append(take(tenant, count))
        if len(taken) == 1:
            store._sequencer.abandon({"default": taken})
            threads.submit(fill).result(60)
        return taken[-1]

    def fill() -> None:
        memory.scope(user="bob").set("k", 1)
        memory.settle()

    with ThreadPoolExecutor(1) as threads, pytest.MonkeyPatch.context() as patched:
        patched.setattr(store._positions, "take", take_and_dawdle)
        memory.scope(user="ada").set("k", 2)
    assert memory.scope(user="ada").value("k") == 2
    events = memory.ledger.events(start=taken[0])
    assert [(event.effect, event.scope) for event in events] == [
        ("void", ""),
        ("set_fact", "user:bob"),
        ("set_fact", "user:ada"),
    ]
    assert memory.ledger.verify().ok


def test_another_process_chains_what_a_killed_one_left(database: str, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patched, contextlib.ExitStack() as stack:
        patched.setattr(ledger.Sequencer, "follow", lambda self, tenants: None)
        patched.setattr(ledger.Sequencer, "close", lambda self: None)
        memory = stack.enter_context(memoranda.open(database))
        for number in range(5):
            memory.scope(user="ada").set(f"k{number}", number)
    with psycopg.connect(database) as link:
        assert link.execute("SELECT length FROM memoranda.tenants").fetchone() == (0,)
    with memoranda.open(database) as memory:
        assert len(memory.ledger.events()) == 5
        assert all(event.hash for event in memory.ledger.events())  # a reader works the hashes out
        memory.settle()
    with psycopg.connect(database) as link:
        assert link.execute("SELECT length FROM memoranda.tenants").fetchone() == (5,)


@pytest.mark.parametrize("chained", [True, False])
def test_a_changed_event_is_found(
    memory: memoranda.Memory, database: str, monkeypatch: pytest.MonkeyPatch, chained: bool
):
    if not chained:
        monkeypatch.setattr(ledger.Sequencer, "_advance", lambda self, tenant: (0, 0))
    memory.scope(user="ada").set("k", 1)
    memory.settle()
    assert memory.ledger.verify().ok
    with psycopg.connect(database, autocommit=True) as link:
        link.execute(
            "UPDATE memoranda.events SET body = "
            "convert_to(replace(convert_from(body, 'UTF8'), 'owner', 'mallet'), 'UTF8') WHERE position = 2"
        )
    found = look(memory, lambda rows: memoranda.governance.ledger.verify(rows, "default"))
    assert (found.ok, found.position) == (False, 2)


# round trips


class Line:
    """A socket in front of a server that counts how often a client speaks after it was answered."""

    def __init__(self, folder: Path, server: Path) -> None:
        self.turns = 0
        self._open: list[socket.socket] = []
        self._server = server
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        self._threads: list[threading.Thread] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        for thread in self._threads:
            thread.join(10)
        for end in self._open:
            end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._server))
                self._open += [client, server]
                answered = [True]
                for pair in ((client, server, False), (server, client, True)):
                    self._threads.append(threading.Thread(target=self._pass_on, args=(*pair, answered), daemon=True))
                    self._threads[-1].start()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_server: bool, answered: list[bool]) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(65_536):
                if not is_server and answered[0]:
                    self.turns += 1
                answered[0] = is_server
                target.sendall(part)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def line(postgres: Server) -> Iterator[tuple[Line, str]]:
    with tempfile.TemporaryDirectory(prefix="line-") as folder:  # short: the path of a socket is limited
        counted = Line(Path(folder), postgres.folder / ".s.PGSQL.5432")
        yield counted, f"postgresql://owner@/postgres?host={folder}"
        counted.close()


def test_a_set_makes_four_round_trips(database: str, line: tuple[Line, str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ledger.Sequencer, "follow", lambda self, tenants: None)  # which has round trips of its own
    counted, url = line
    with memoranda.open(url) as memory:
        ada = memory.scope(user="ada")
        for number in range(10):  # prepares the statements
            ada.set("k", number)
        before = counted.turns
        for number in range(10):
            ada.set("k", number)
        assert counted.turns - before <= 4 * 10


def test_a_thread_waits_for_positions_no_longer_than_its_patience(database: str):
    with PostgresStore(database, busy_timeout=0.05) as store, ThreadPoolExecutor(1) as threads:
        positions = store._positions
        with positions._asking:  # as while another thread asks
            failed = threads.submit(positions.take, "default", 1).exception(postgres_server.PATIENCE)
            assert isinstance(failed, psycopg.errors.LockNotAvailable)
        assert positions.take("default", 1) == 1
