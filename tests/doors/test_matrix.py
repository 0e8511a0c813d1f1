"""One memory: what is written in any way is read in every other that can name it, with all that belongs to it.

The table of ways is in `tests/support/ways.py`. Each test writes one thing in one way and looks at it in all others:
its value, its end, its contract, its history, its line in the ledger, and that an erasure takes it from everybody.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from clocked_server import Served
from mcp_client import doors_to
from ways import (
    APART,
    BAD,
    DESK,
    DOORS,
    GOOD,
    HOUR,
    LISTENERS,
    OTHER,
    READERS,
    SIGNS,
    SLUGS,
    SPEAKERS,
    TALKS_APART,
    WRITERS,
    Door,
    House,
    Kind,
    Place,
    ScopeName,
    Talk,
    Way,
    cases,
    doors_that_find,
    found_by_command,
    page_tables,
    readers_of,
    refused,
    shared_by,
    why_nothing,
)

import memoranda
from memoranda.model.clock import SystemClock
from memoranda.model.scope import ENDING_KINDS, KINDS
from memoranda.testing import FakeClock
from memoranda.testing.conformance.base import EMBEDDER

ROOT = Path(__file__).parents[2]
ALL = list(cases())
NAMES = ["-".join((writer.name.replace(" ", "_"), kind, scope)) for writer, kind, scope in ALL]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("house") / "memory.db"


@pytest.fixture(scope="module")
def served(path: Path) -> Iterator[Served]:
    server = Served(path)
    yield server
    server.close()


@pytest.fixture(scope="module")
def clock() -> FakeClock:
    """One clock for this process and its commands; the server's is moved with it."""
    return FakeClock()


@pytest.fixture(scope="module")
def house(path: Path, clock: FakeClock, served: Served) -> Iterator[House]:
    clients: dict[str, memoranda.Client] = {}

    def client(user: str) -> memoranda.Client:
        if user not in clients:
            key = served.ask(key={"tenant": "default", "user": user, "role": "member"})
            clients[user] = memoranda.Client(served.url, key)
        return clients[user]

    with memoranda.open(path, clock=clock, embedder=EMBEDDER) as memory, doors_to(memory, agent=DESK.id) as mcp:
        yield House(memory, path.parent, cli=found_by_command, client=client, mcp=mcp)
    for one in clients.values():
        one.close()


@pytest.fixture
def later(clock: FakeClock, served: Served) -> Callable[[float], None]:
    """Return how time passes, here and in the server."""

    def pass_by(seconds: float) -> None:
        clock.advance(seconds)
        served.ask(clock=clock.now().isoformat())

    return pass_by


@pytest.fixture(autouse=True)
def commands_have_our_clock(path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("MEMORANDA_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MEMORANDA_DB", str(path))
    monkeypatch.setenv("MEMORANDA_EMBEDDER", EMBEDDER)
    monkeypatch.setattr(SystemClock, "now", lambda _: clock.now())


@pytest.mark.parametrize(("writer", "kind", "scope"), ALL, ids=NAMES)
def test_what_is_written_in_one_way_is_one_memory_in_all_others(
    house: House,
    clock: FakeClock,
    later: Callable[[float], None],
    record_property: Callable[[str, object], None],
    writer: Way,
    kind: Kind,
    scope: ScopeName,
) -> None:
    place = Place(kind, scope, f"{writer.name.replace(' ', '_').replace('.', '_').lower()}_{kind}_{scope}")
    other = place._replace(name="somebody_else")
    readers = readers_of(kind, scope)

    def seen(where: Place = place) -> dict[str, Any]:
        return {reader.name: reader.go(house, where) for reader in readers}

    nothing = {reader.name: None for reader in readers}
    assert seen() == nothing
    writer.go(house, place, GOOD[kind])
    assert seen() == {reader.name: GOOD[kind] for reader in readers}
    found = doors_that_find(house, place, "red kite Ruby", SIGNS[kind])
    assert [door for door in found if not found[door]] == [], "everything is recalled and told by every door"
    if scope != "shared":
        assert seen(other) == nothing, "what is somebody's is nobody else's"

    assert end_of(house, place) == ends(writer, place, clock.now())
    assert doors_in_history(house, place) == [writer.door]
    assert doors_in_ledger(house, place) == [writer.door]

    if kind in BAD and has_contract(place) and can_misspeak(writer, place):
        refused(lambda: writer.go(house, place, BAD[kind]))
        assert READERS[0].go(house, place) == GOOD[kind], "what does not fit changes nothing"
    later(1)
    writer.go(house, place, OTHER[kind])
    assert any(OTHER[kind] == one or OTHER[kind] in one for one in everything(house, place))
    assert doors_in_history(house, place) == [writer.door] * 2

    if end_of(house, place) is not None:
        later(HOUR)
        assert seen() == nothing, "what has ended has ended for all"
        writer.go(house, place, GOOD[kind])
        assert seen() == {reader.name: GOOD[kind] for reader in readers}
    if scope != "shared":
        outermost = next(iter(place.ids.items()))
        assert sum(house.memory.erase(**dict([outermost])).removed.values()) > 0
        assert seen() == nothing, "what was erased is gone for all"
        assert doors_in_history(house, place) == []
    for reader in readers:
        record_property("memory", [writer.name, reader.name, f"{kind} of {scope}"])


def has_contract(place: Place) -> bool:
    return place.kind != "record" or place.scope in SLUGS


def can_misspeak(writer: Way, place: Place) -> bool:
    """Say whether what does not fit can be asked for: rules give single lines, and leave out what is too much."""
    if writer.name == "ABL SET of fields":
        return False  # A field that does not fit is left out alone, and the others are written.
    return writer.name != "sleep-time job" or place.scope == "agent"


def everything(house: House, place: Place) -> list[Any]:
    if place.kind != "entry":
        return [READERS[0].go(house, place)]
    return [entry.content for entry in house.at(place).entries(collection=place.collection)]


def end_of(house: House, place: Place) -> datetime | None:
    if place.kind == "entry":
        return next(iter(house.at(place).entries(collection=place.collection))).expires_at
    return house.at(place).get(place.key).expires_at


def ends(writer: Way, place: Place, now: datetime) -> datetime | None:
    """Return when a memory should end: after the hour of its definition, or that was asked for."""
    forever = place.kind in ("core", "archive") or writer.name == "ABL memory.remember"
    if forever or (writer.name == "ABL SET" and not has_contract(place)):
        return None
    return now + timedelta(seconds=HOUR)


def doors_in_history(house: House, place: Place) -> list[str]:
    """Return through which doors a memory came to be as it is, oldest first."""
    if place.kind == "entry":
        return [entry.origin.door for entry in house.at(place).entries(collection=place.collection)]
    return [revision.origin.door for revision in house.at(place).history(place.key)]


def doors_in_ledger(house: House, place: Place) -> list[str]:
    """Return through which doors a memory was written, by the ledger."""
    path = house.at(place).scope.path
    written = ("set_fact", "remember", "write_facts", "import")
    return [
        event.door
        for event in house.memory.ledger.events()
        if event.effect in written and event.scope == path and event.key == place.key
    ]


@pytest.mark.parametrize(("learner", "next_one"), list(zip(DOORS, (*DOORS[1:], DOORS[0]), strict=True)))
def test_what_one_door_learned_is_found_by_all_and_replaced_by_the_next(
    house: House, later: Callable[[float], None], learner: Door, next_one: Door
) -> None:
    user = f"learner_{learner.name.replace(' ', '_').lower()}"
    place, other = Place("entry", "user", user), Place("entry", "user", "somebody_else")
    ruby, sapphire = "Favourite kite: Ruby", "Favourite kite: Sapphire"

    def found(sign: str, where: Place = place) -> set[bool]:
        return set(doors_that_find(house, where, "favourite kite", sign).values())

    assert found(ruby) == {False}
    learner.learn(house, user, "c1", "My favourite kite is Ruby.")
    assert (found(ruby), found("My favourite kite is Ruby."), found(ruby, other)) == ({True}, {True}, {False})
    as_agent = doors_that_find(house, Place("entry", "agent", user), "favourite kite", ruby)
    assert set(as_agent.values()) == {True}, "an agent sees what is known of its user"
    later(1)
    next_one.learn(house, user, "c2", "My favourite kite is Sapphire.")
    if next_one.door == "mcp":  # a model: what its user said elsewhere it contradicts, and does not replace
        assert (found(sapphire), found(ruby)) == ({False}, {True})
        (conflict,) = house.memory.conflicts()
        house.memory.resolve(conflict.id, "take")
    assert (found(sapphire), found(ruby)) == ({True}, {False})
    learned = [event.door for event in house.memory.ledger.events() if event.effect == "learn" and user in event.scope]
    assert learned == [learner.door, next_one.door]
    archive = house.memory.scope(user=user).blocks.get("archival")
    has_line = "sleep" in (learner.door, next_one.door)
    assert (None if archive is None else archive.content) == (f"- {sapphire}" if has_line else None)
    house.memory.erase(user=user)
    assert found(sapphire) == {False}


@pytest.mark.parametrize("speaker", SPEAKERS, ids=lambda one: f"{one.name}-{one.kind}")
def test_what_was_said_is_read_in_every_way_of_its_kind_and_in_no_other(house: House, speaker: Talk) -> None:
    user, id = f"speaker_{speaker.name.lower()}_{speaker.kind}", f"talk_{speaker.name.lower()}_{speaker.kind}"
    words = "The red kite flies"
    speaker.go(house, user, id, words)
    for listener in LISTENERS:
        # The same user and id: only the kind keeps them apart.
        assert (words in listener.go(house, user, id)) == (speaker.kind == listener.kind), listener.name
    kinds = {one.kind for one in LISTENERS}
    assert all((one, other) in TALKS_APART or (other, one) in TALKS_APART for one in kinds for other in kinds - {one})


def test_the_page_about_what_crosses_has_the_tables_of_these_tests() -> None:
    page = (ROOT / "docs" / "what-crosses.md").read_text(encoding="utf-8")
    for name, lines in page_tables().items():
        _, _, below = page.partition(f"<!-- {name} -->\n")
        assert below.split("\n\n")[0].strip().splitlines() == lines, f"write it below `<!-- {name} -->`"


def test_no_two_ways_are_apart_without_a_reason() -> None:
    for writer in WRITERS:
        for reader in READERS:
            assert shared_by(writer, reader) or why_nothing(writer, reader)
    assert set(APART) == {(one, two) for number, one in enumerate(GOOD) for two in list(GOOD)[number + 1 :]}


def test_every_scope_that_lasts_is_in_the_table() -> None:
    named = {kind for writer, memory, scope in ALL for kind in Place(memory, scope, "x").ids}
    # What ends with a session, a run or a tree is seen from inside of it, in the tests of the languages.
    assert named == set(KINDS) - ENDING_KINDS


def test_the_whole_house_is_in_order(house: House) -> None:
    assert house.memory.ledger.verify().ok
    assert all(finding.ok for finding in house.memory.inspect())
