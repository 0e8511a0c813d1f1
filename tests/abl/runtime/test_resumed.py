"""A session that is resumed after each turn answers like one that is never interrupted, for any message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import memoranda
from memoranda import Memory
from memoranda.abl import Agent, Session, Turn
from memoranda.testing import CountingIds, FakeClock

SAMPLES = Path(__file__).parent / "samples"
TOOLS = str(SAMPLES / "harbour.py")

WORDS = [
    *("Ada", "Faro", "Lagos", "Basel", "Nowhere", "Atlantis", "2", "5", "9", "three of us", "1", "3", "pick Lag-0"),
    *("actually 4 travellers", "no, make the port Porto", "change the port", "weather", "timetable", "start over"),
    *("purser", "soft", "hard", "4711", "yes", "no", "round and round", "farewell", "?", "", "{{user.pin}}", "0"),
]

BOOKED = ["Ada", "Faro", "2", "1", "4711", "yes", "Lagos", "3", "1", "yes", "no"]
WANDERING = [
    "Ada",
    "purser",
    "soft",
    "Nowhere",
    "Basel",
    "2",
    "Faro",
    "weather",
    "9",
    "2",
    "0",
    "purser",
    "hard",
    "Faro",
]

said = st.lists(st.sampled_from(WORDS), max_size=14)


def load(memory: Memory) -> Agent:
    others = [str(SAMPLES / "purser.abl"), str(SAMPLES / "counter.abl")]
    return memoranda.abl.load(str(SAMPLES / "ferry.abl"), memory=memory, tools=TOOLS, agents=others)


def opened(clock: FakeClock | None = None) -> Memory:
    memory = memoranda.open(":memory:", clock=clock or FakeClock(), ids=CountingIds())
    memory.scope(user="ada").set("cabin.view", "sea")
    return memory


def seen(turn: Turn, session: Session, memory: Memory) -> dict[str, Any]:
    """Return all that can be seen of a turn, and of what it left behind."""
    places = [{"user": "ada"}, {"project": "default"}, {"tree": session.id}]
    return {
        "messages": turn.messages,
        "turn": (turn.number, turn.status, turn.step, turn.agent, turn.escalation),
        "session": (session.step, session.agent, session.status),
        "vars": dict(session.vars),
        "facts": [{fact.key: fact.value for fact in memory.scope(**place).list()} for place in places],
        "happened": [str(happening) for happening in turn.trace],
    }


def again(memory: Memory, agent: Agent, session: Session, way: int) -> Session:
    """Resume a session: by its agent, by its memory, or where nothing was loaded."""
    if way == 0:
        return agent.resume(session.id)
    if way == 1:
        return memoranda.abl.resume(memory, session.id)
    return memoranda.abl.resume(memory.through("elsewhere"), session.id, tools=TOOLS)


@given(texts=said, ways=st.lists(st.integers(0, 2), min_size=1, max_size=5))
@example(texts=BOOKED, ways=[0])
@example(texts=BOOKED, ways=[2, 1])
@example(texts=WANDERING, ways=[0, 2])
def test_a_session_resumed_after_each_turn_goes_on_as_if_nothing_had_happened(texts: list[str], ways: list[int]):
    with opened() as one, opened() as two:
        straight = load(one).start(user="ada", id="s")
        agent = load(two)
        rested = agent.start(user="ada", id="s")
        assert rested.opening is not None and straight.opening is not None
        assert seen(rested.opening, rested, two) == seen(straight.opening, straight, one)
        for number, text in enumerate(texts):
            rested = again(two, agent, rested, ways[number % len(ways)])
            expected = seen(straight.say(text), straight, one)
            assert seen(rested.say(text), rested, two) == expected
        assert [turn.messages for turn in rested.turns()] == [turn.messages for turn in straight.turns()]


@given(texts=said)
@example(texts=BOOKED)
@example(texts=WANDERING)
def test_every_conversation_can_be_replayed_without_tools_and_says_the_same(texts: list[str]):
    clock = FakeClock()
    with opened(clock) as memory:
        session = load(memory).start(user="ada", id="s")
        for text in texts:
            session.say(text)
            clock.advance(60)
        before = memory.ledger.tail(1)
        replay = session.replay()
        assert [turn.says for turn in replay.turns] == [turn.said for turn in replay.turns]
        assert replay.same
        assert memory.ledger.tail(1) == before  # nothing was written


def test_the_sample_reaches_what_it_is_for():
    """If the words above led nowhere, the properties would hold of nothing."""
    with opened() as memory:
        session = load(memory).start(user="ada", id="s")
        turns = [session.say(text) for text in BOOKED]
        messages = [message for turn in turns for message in turn.messages]
        assert any(message.startswith("Booked T-") for message in messages)
        assert "Do you accept the terms?" in messages and "Your code, please." in messages
        assert turns[-1].status == "completed"
        assert len(memory.scope(user="ada").value("trips")) == 2
        assert memory.scope(project="default").value("sold") == 2
    with opened() as memory:
        session = load(memory).start(user="ada", id="t")
        kinds = {happening.kind for text in WANDERING for happening in session.say(text).trace}
        assert {"returned", "handed_off", "error", "recalled", "intent", "rule"} <= kinds


CHILD = """
import json, sys
import memoranda
path, session, tools, text = sys.argv[1:]
with memoranda.open(path) as memory:
    resumed = memoranda.abl.resume(memory, session, tools=tools)
    turn = resumed.say(text)
    print(json.dumps([turn.messages, turn.status, resumed.step, resumed.agent, dict(resumed.vars)]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("texts", [BOOKED, WANDERING[:6]])
def test_each_turn_may_be_taken_by_another_process(tmp_path: Path, texts: list[str], run_child: Any):
    path = str(tmp_path / "memory.db")
    with memoranda.open(path) as memory:
        session = load(memory).start(user="ada", id="s")
    with memoranda.open(":memory:") as straight_memory:
        straight = load(straight_memory).start(user="ada", id="s")
        for text in texts:
            turn = straight.say(text)
            [said] = run_child(CHILD, path, session.id, TOOLS, text).finish()
            heard = json.loads(said)
            expected = [turn.messages, turn.status, straight.step, straight.agent, dict(straight.vars)]
            assert heard == json.loads(json.dumps(expected))


RIVAL = """
import sys
import memoranda
path, session, tools, name, count = sys.argv[1:]
with memoranda.open(path, busy_timeout=60) as memory:
    resumed = memoranda.abl.resume(memory, session, tools=tools)
    print("ready", flush=True)
    sys.stdin.readline()
    won = 0
    for number in range(int(count)):
        try:
            resumed.say(f"{name}-{number}")
            won += 1
        except memoranda.Conflict:
            pass
    print(won, flush=True)
"""

CHORUS = """
AGENT: Chorus
GOAL: "Count voices"
MEMORY:
  session:
    - heard
      INITIAL: 0
  persistent:
    - user.voices
      TYPE: array
    - user.last
  remember:
    - WHEN: voice IS SET
      STORE: voice -> user.voices
FLOW:
  listen:
    REASONING: false
    RESPOND: "I listen."
    ON_INPUT:
      - ELSE:
        SET:
          - heard = heard + 1
          - voice = input
          - user.last = input
        RESPOND: "{{heard}}"
"""


@pytest.mark.slow
def test_of_two_processes_that_speak_at_once_one_is_heard_each_time(tmp_path: Path, run_child: Any):
    path = str(tmp_path / "memory.db")
    with memoranda.open(path) as memory:
        session = memoranda.abl.load(CHORUS, memory=memory).start(user="ada")
    children = [run_child(RIVAL, path, session.id, TOOLS, name, 15) for name in ("left", "right")]
    won = [int(count) for [count] in children[0].run_together(children)]
    with memoranda.open(path) as memory:
        resumed = memoranda.abl.resume(memory, session.id)
        turns = [turn.input for turn in resumed.turns()[1:]]
        # Every turn that was acknowledged is there once, in one order, and nothing of those that were not.
        assert len(turns) == sum(won) and resumed.vars["heard"] == sum(won)
        ada = memory.scope(user="ada")
        assert ada.value("voices") == turns
        assert ada.value("last") == turns[-1]
        assert won[0] + won[1] >= 15
