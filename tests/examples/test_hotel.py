"""The hotel example, by hand: one guest comes back, another is a stranger, and the facts are open to every door."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import memoranda
from memoranda.abl.scripts import run_scripts
from memoranda.testing import FakeClock

HOTEL = Path(__file__).parents[2] / "examples" / "abl" / "hotel"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memory(tmp_path: Path, clock: FakeClock) -> Iterator[memoranda.Memory]:
    with memoranda.open(tmp_path / "hotel.db", clock=clock) as opened:
        yield opened


@pytest.fixture
def desk(memory: memoranda.Memory):
    tools = HOTEL / "tools.py"
    concierge = memoranda.abl.load(HOTEL / "concierge.abl", memory=memory, tools=tools)
    return memoranda.abl.load(HOTEL / "hotel.abl", memory=memory, tools=tools, agents=[concierge])


def said(turn) -> str:
    return "\n".join(turn.messages)


def book(session) -> str:
    """Book the second room in Lisbon, and return its number."""
    session.say("Lisbon, 12 January to 15 January, 2 guests")
    session.say("2")
    if session.step == "paperwork":
        session.say("Portuguese")
    session.say("yes")
    return session.vars["chosen_stay"]


def test_the_scripts_pass():
    report = run_scripts(HOTEL / "hotel.abl")
    assert [(case.name, case.failure) for case in report.cases if not case.passed] == []
    assert report.passed >= 15


def test_it_has_nothing_to_complain_about():
    agent = memoranda.abl.check(HOTEL / "hotel.abl")
    assert [one.code for one in agent] == ["deprecated"]
    assert memoranda.abl.check(HOTEL / "concierge.abl") == ()


def test_a_fact_of_one_session_greets_in_the_next_and_no_stranger(desk, memory, clock):
    first = desk.start(user="ada", project="quay")
    assert "dear guest" in said(first.opening)
    first.say("I'm Ada")
    number = book(first)
    first.end()

    ada = memory.scope(user="ada")
    assert ada.value("name") == "Ada"
    assert ada.value("language") == "Portuguese"
    [stay] = ada.value("stays")
    assert (stay["booking_id"], stay["action"], stay["town"]) == (number, "booked", "Lisbon")
    name = ada.get("name")
    assert name is not None and name.expires_at is not None
    assert (name.expires_at - clock.now()).days == 90

    stranger = desk.start(user="bob", project="quay")
    assert "dear guest" in said(stranger.opening)
    assert "Ada" not in said(stranger.opening)
    assert memory.scope(user="bob").list() == []

    second = desk.start(user="ada", project="quay")
    assert "Welcome to Quay Hotels, Ada!" in said(second.opening)
    assert second.step == "plan_trip"


def test_a_session_goes_on_after_a_restart(tmp_path, clock):
    file = tmp_path / "hotel.db"
    tools = HOTEL / "tools.py"
    with memoranda.open(file, clock=clock) as memory:
        session = memoranda.abl.load(HOTEL / "hotel.abl", memory=memory, tools=tools).start(user="ada", project="quay")
        session.say("I'm Ada")
        session.say("Lisbon")
        number = session.id
    with memoranda.open(file, clock=clock) as memory:
        memoranda.abl.load(HOTEL / "hotel.abl", memory=memory, tools=tools)
        session = memoranda.abl.resume(memory, number)
        assert (session.step, session.vars["destination"]) == ("plan_trip", "Lisbon")
        turn = session.say("from 12 January to 15 January")
        assert "For how many guests?" in said(turn)


def test_the_desk_cannot_change_what_it_may_only_read(desk, memory):
    memory.scope(user="ada").set("tier", "gold")
    memory.scope(project="quay").set("city_tax", 7)
    session = desk.start(user="ada", project="quay")
    assert "one of our gold guests" in said(session.opening)
    session.say("I'm Ada")
    session.say("Lisbon, 12 January to 15 January, 2 guests")
    assert "$402 (including $42 city tax)" in said(session.say("2"))
    assert memory.scope(user="ada").history("tier")[-1].value == "gold"


def test_the_back_office_reads_what_the_desk_writes_down(desk, memory):
    session = desk.start(user="ada", project="quay")
    session.say("I'm Ada")
    number = book(session)
    assert memory.scope(user="ada").value("desk_log") == [f"booked {number}"]
    assert "desk_log" not in str(session.vars)


def test_the_concierge_sees_the_stay_and_nothing_else(desk, memory):
    session = desk.start(user="ada", project="quay")
    session.say("I'm Ada")
    book(session)
    session.say("quiet")
    turn = session.say("yes")
    assert session.agent == "Concierge"
    assert "I see Courtyard Room in Lisbon" in said(turn)
    assert set(session.vars) <= {"arranged", "destination", "check_in", "kind"}
    turn = session.say("a transfer")
    assert session.agent == "Hotel_Desk"
    assert "a car from the station in Lisbon" in said(turn)
    assert turn.status == "completed"


def test_the_ledger_tells_who_wrote_what(desk, memory):
    desk.start(user="ada", project="quay").say("I'm Ada")
    assert memory.ledger.verify().ok
    [fact] = memory.scope(user="ada").list()
    assert fact.key == "name"
    assert "Hotel_Desk" in f"{fact.origin.actor} {fact.origin.source}"
