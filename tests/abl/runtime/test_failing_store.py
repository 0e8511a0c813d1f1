"""If the store fails in the middle of a turn, nothing of the turn is kept, and it can be repeated."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import Memory
from memoranda.abl import Behaviour
from memoranda.errors import StorageError, Unavailable
from memoranda.governance.gate import Caller, Gate
from memoranda.model.effect import Effect
from memoranda.store.sqlite import SqliteStore
from memoranda.testing import CountingIds, FakeClock, FaultyDisk, Trial, sweep

NOTES = """
AGENT: Notes
GOAL: "Keep notes"
MEMORY:
  session:
    - count
      TYPE: number
      INITIAL: 0
    - note
  persistent:
    - user.notes
      TYPE: array
      DEFAULT: []
    - user.last
    - user.gone
    - user.profile
    - project.count
      DEFAULT: 0
    - workflow.trail
      TYPE: array
  remember:
    - WHEN: note IS SET
      STORE: note -> user.notes
    - WHEN: note IS SET
      STORE: {said: note, number: count} -> workflow.trail
FLOW:
  listen:
    REASONING: false
    RESPOND: "Listening."
    ON_INPUT:
      - ELSE:
        SET:
          - count = count + 1
          - note = input
          - user.last = input
          - user.profile.word = input
          - project.count = project.count + 1
        CLEAR: [user.gone]
        CALL: weigh(input)
        RESPOND: "{{count}}: {{input}} weighs {{grams}}, {{user.notes.length}} before, {{project.count}} in all."
        THEN: listen
"""


def weigh(text: str) -> dict[str, int]:
    return {"grams": len(text)}


def load(memory: Memory) -> memoranda.abl.Agent:
    return memoranda.abl.load(NOTES, memory=memory, tools={"weigh": weigh})


def standing(memory: Memory, id: str) -> list[dict[str, Any]]:
    """Return every fact that the session has to do with, the session's own included."""
    places: list[dict[str, str]] = [{"user": "ada"}, {"project": "default"}, {"tree": id}, {"session": id}]
    return [{fact.key: (fact.value, fact.version) for fact in memory.scope(**place).list()} for place in places]


class Failing:
    """Lets the calls of a gate fail: one of them, or all from one on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._left = 0
        self._for_good = False
        self.fired = False
        perform = Gate.perform

        def counting(gate: Gate, effect: Effect, caller: Caller) -> Any:
            if self._left:
                self._left -= 1
                if not self._left:
                    self._left = 1 if self._for_good else 0
                    self.fired = True
                    raise Unavailable("the disk is gone", hint="Wait for it")
            return perform(gate, effect, caller)

        monkeypatch.setattr(Gate, "perform", counting)

    def at(self, number: int, *, for_good: bool = False) -> None:
        self._left, self._for_good, self.fired = number, for_good, False

    def heal(self) -> None:
        self._left = 0


@pytest.mark.parametrize("for_good", [False, True])
def test_a_turn_whose_store_fails_leaves_everything_as_it_was_and_can_be_said_again(
    monkeypatch: pytest.MonkeyPatch, for_good: bool
):
    with memoranda.open(":memory:", clock=FakeClock(), ids=CountingIds()) as straight_memory:
        straight = load(straight_memory).start(user="ada", id="s")
        expected = [straight.say(text).messages for text in ("one", "two", "three")]
        expected_facts = standing(straight_memory, "s")
    failing = Failing(monkeypatch)
    failures = 0
    for number in range(1, 100):
        with memoranda.open(":memory:", clock=FakeClock(), ids=CountingIds()) as memory:
            memory.scope(user="ada").set("gone", "soon")
            session = load(memory).start(user="ada", id="s")
            assert session.say("one").messages == expected[0]
            before, variables = standing(memory, "s"), dict(session.vars)
            failing.at(number, for_good=for_good)
            try:
                said = session.say("two").messages
            except StorageError:
                failures += 1
                failing.heal()
                assert standing(memory, "s") == before
                assert dict(session.vars) == variables
                said = session.say("two").messages
            failing.heal()
            assert said == expected[1]
            assert session.say("three").messages == expected[2]
            last = standing(memory, "s")
            assert {key: value for key, (value, _) in last[0].items()} == {
                key: value for key, (value, _) in expected_facts[0].items()
            }
            assert last[1:] == expected_facts[1:]
            if not failing.fired:
                break
    assert number > 5 and failures == number - 1  # each call was made to fail once, and none was swallowed


def test_a_session_whose_opening_fails_can_be_begun_again_under_its_id(monkeypatch: pytest.MonkeyPatch):
    failing = Failing(monkeypatch)
    for number in range(1, 100):
        with memoranda.open(":memory:", clock=FakeClock(), ids=CountingIds()) as memory:
            agent = load(memory)
            failing.at(number)
            try:
                session = agent.start(user="ada", id="s")
            except StorageError:
                failing.heal()
                session = agent.start(user="ada", id="s")
            failing.heal()
            assert session.opening is not None and session.opening.messages == ["Listening."]
            assert session.say("one").messages[0] == "1: one weighs 3, 0 before, 1 in all."
            if not failing.fired:
                break
    assert number > 3


def test_a_recall_that_cannot_read_is_noted_and_the_turn_goes_on(monkeypatch: pytest.MonkeyPatch, load: Any, told: Any):
    agent = load("""
        MEMORY:
          persistent:
            - user.name
          recall:
            - ON: session:start
              ACTION: load_memory
              DOMAIN: taste
        FLOW:
          ask:
            REASONING: false
            RESPOND: "Hello."
            THEN: COMPLETE
        """)
    perform = Gate.perform

    def unable(gate: Gate, effect: Effect, caller: Caller) -> Any:
        if effect.name in ("list_facts", "recall"):
            raise Unavailable("the disk is gone", hint="Wait for it")
        return perform(gate, effect, caller)

    fine = agent.start(user="ada")
    assert told(fine.opening, "warning") == []
    monkeypatch.setattr(Gate, "perform", unable)
    turn = agent.start(user="ada").opening
    assert turn.messages == ["Hello."]
    assert told(turn, "warning") == ["warning recall at session:start failed: why the disk is gone, code unavailable"]


def test_whatever_ends_a_turn_from_outside_nothing_of_it_is_kept(memory: Memory, write: Any):
    patience: list[BaseException] = []

    def sleep(seconds: float) -> None:
        if patience:
            raise patience.pop()

    answers = ["fine", RuntimeError("no"), RuntimeError("no"), "fine"]

    def ring() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    text = write("""
        MEMORY:
          persistent:
            - user.last
        ON_ERROR:
          tool_error:
            RETRY: 3
            THEN: CONTINUE
        FLOW:
          listen:
            REASONING: false
            ON_INPUT:
              - ELSE:
                SET:
                  - note = input
                  - user.last = input
                CALL: ring()
                RESPOND: "Rang for {{input}}."
        """)
    agent = memoranda.abl.load(text, memory=memory, tools={"ring": ring}, behaviour=Behaviour(sleep=sleep))
    session = agent.start(user="ada", id="s")
    session.say("one")
    before = standing(memory, "s")
    patience.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        session.say("two")
    assert standing(memory, "s") == before and session.vars["note"] == "one"
    assert session.say("two").messages == ["Rang for two."]
    assert memory.scope(user="ada").value("last") == "two"


def test_a_fact_that_another_process_makes_impossible_at_the_last_moment_is_left_out(
    monkeypatch: pytest.MonkeyPatch, memory: Memory, told: Any
):
    session = load(memory).start(user="ada", id="s")
    session.say("one")
    perform = Gate.perform
    meddled: list[str] = []

    def meddling(gate: Gate, effect: Effect, caller: Caller) -> Any:
        if effect.name == "write_facts" and not meddled:
            meddled.append("once")
            memory.scope(user="ada").set("profile", "only a text")
        return perform(gate, effect, caller)

    monkeypatch.setattr(Gate, "perform", meddling)
    turn = session.say("two")
    assert turn.messages[0].startswith("2: two")
    refused = told(turn, "refused")
    assert len(refused) == 1 and "user.profile" in refused[0]
    ada = memory.scope(user="ada")
    assert (ada.value("profile"), ada.value("last"), ada.value("notes")) == ("only a text", "two", ["one", "two"])


# --- a real disk ----------------------------------------------------------------------------------------------------

STRIDE = 1 if os.environ.get("MEMORANDA_DEPTH") == "deep" else 5


@pytest.fixture
def in_memory_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.access("/dev/shm", os.W_OK):
        monkeypatch.setattr(tempfile, "tempdir", "/dev/shm")


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    with FaultyDisk() as disk:
        yield disk


def opened(directory: Path, **options: Any) -> Memory:
    store = SqliteStore(str(directory / "memory.db"), busy_timeout=0.1, **options)
    return Memory(store, clock=FakeClock(), ids=CountingIds())


@pytest.mark.slow
@pytest.mark.usefixtures("in_memory_directories")
def test_a_turn_on_a_failing_disk_is_kept_whole_or_not_at_all(disk: FaultyDisk):
    def prepare(trial: Trial) -> None:
        with opened(trial.directory) as memory:
            session = load(memory).start(user="ada", id="s")
            session.say("one")

    def body(trial: Trial) -> None:
        with opened(trial.directory, vfs=disk.vfs) as memory:
            session = load(memory).resume("s")
            trial.acknowledged.append(session.say("two").messages)

    def check(trial: Trial) -> None:
        with opened(trial.directory) as memory:
            session = load(memory).resume("s")
            turns = [turn.input for turn in session.turns()]
            ada = memory.scope(user="ada")
            if trial.acknowledged:
                assert turns == [None, "one", "two"]
            # A commit that failed may have happened; then all of it has.
            count = len(turns) - 1
            assert session.vars["count"] == count and memory.scope(project="default").value("count") == count
            assert ada.value("notes") == turns[1:] and ada.value("last") == turns[-1]
            assert ada.value("profile") == {"word": turns[-1]}
            assert [one["said"] for one in memory.scope(tree="s").value("trail")] == turns[1:]
            assert session.say("three").messages[0].startswith(f"{count + 1}: three")
            assert memory.ledger.verify().ok

    done = sweep(body, check, disk=disk, prepare=prepare, expected=(StorageError,), step=STRIDE)
    assert done.complete and len(done.points) > 10
    assert done.raised > 5
