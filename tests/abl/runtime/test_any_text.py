"""For any message, an agent answers or raises a typed error, and its session can be loaded again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import memoranda
from memoranda import Memory
from memoranda.abl import Session
from memoranda.abl.agent import start_fixture
from memoranda.testing import CountingIds, FakeClock

SAMPLES = Path(__file__).parent / "samples"

KNOWN = st.sampled_from(
    [
        "Ada",
        "Faro",
        "2",
        "1",
        "4711",
        "yes",
        "no",
        "purser",
        "soft",
        "start over",
        "Nowhere",
        "weather",
        "round and round",
    ]
)
ANY = st.text(st.characters(), max_size=40)
"""Any characters at all, including lone surrogates, control characters and characters without a glyph."""
LONG = st.builds(lambda text, times: (text * times)[:20_000], st.text(min_size=1, max_size=8), st.just(20_000))
SAID = st.lists(st.one_of(KNOWN, KNOWN, ANY, LONG), max_size=10)

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def begin(memory: Memory, **variables: Any) -> Session:
    others = [str(SAMPLES / "purser.abl"), str(SAMPLES / "counter.abl")]
    agent = memoranda.abl.load(
        str(SAMPLES / "ferry.abl"), memory=memory, tools=str(SAMPLES / "harbour.py"), agents=others
    )
    return start_fixture(agent, user="ada", vars=variables)


def opened() -> Memory:
    return memoranda.open(":memory:", clock=FakeClock(), ids=CountingIds())


@given(said=SAID)
@example(said=["\ud800", "\0", "\x1b[31m", "\u202e", "\ufeff", "💣" * 100])
@example(said=["x" * 20_000, "9" * 20_000, "{{" * 10_000, "(" * 20_000, "\n" * 20_000, "tomorrow " * 2_000])
@example(said=["Ada", "Faro", "9" * 400, "-1", "1e999", "NaN", "٣", "½"])
def test_any_words_are_answered_and_the_session_can_be_loaded_again(said: list[str]):
    with opened() as memory:
        session = begin(memory)
        for text in said:
            turn = session.say(text)
            assert turn.status in ("waiting", "completed", "escalated", "handed_off", "blocked")
            assert all(isinstance(message, str) and message.strip() for message in turn.messages)
            str(turn.trace).encode()
            resumed = memoranda.abl.resume(memory, session.id)
            assert dict(resumed.vars) == dict(session.vars)
            assert (resumed.step, resumed.agent) == (session.step, session.agent)
        assert memory.ledger.verify().ok
        session.end()


@given(
    values=st.dictionaries(st.sampled_from(["port", "travellers", "sailing", "shown", "sold", "pin", "extra"]), JSON)
)
def test_any_values_of_the_program_are_taken_or_refused_with_a_reason(values: dict[str, Any]):
    with opened() as memory:
        session = begin(memory)
        taken: dict[str, Any] = {}
        for name, value in values.items():
            try:
                session.vars[name] = value
            except memoranda.UsageError as error:
                assert error.message and error.hint
            else:
                assert name in ("port", "travellers", "sailing")  # what the agent declares as input
                taken[name] = value
        for name, value in taken.items():
            assert session.vars.get(name) == value
        for text in ("Ada", "Faro", "2", "1", "4711", "purser", "hard"):
            session.say(text)
            memoranda.abl.resume(memory, session.id)


def test_more_words_than_the_limit_are_refused_with_the_limit():
    with opened() as memory:
        session = begin(memory)
        with pytest.raises(memoranda.LimitExceeded, match="20,000"):
            session.say("x" * 20_001)
        assert session.say("x" * 20_000).number == 1


@given(results=st.lists(st.one_of(JSON, st.binary(max_size=3), st.sets(st.integers(), max_size=2)), max_size=4))
def test_any_results_of_a_tool_are_bound_or_a_failure(results: list[Any]):
    left = list(results)
    source = """
AGENT: Desk
GOAL: "Look"
MEMORY:
  session:
    - count
      TYPE: number
      INITIAL: 1
  persistent:
    - user.last
FLOW:
  look:
    REASONING: false
    RESPOND: "Yes?"
    ON_INPUT:
      - ELSE:
        CALL: look()
        AS: found
        ON_SUCCESS:
          SET: user.last = found
          RESPOND: "Found: {{found}} {{count}} {{found.length}} {{found[0]}}"
        ON_FAIL:
          RESPOND: "Not found."
"""
    with opened() as memory:
        session = memoranda.abl.load(source, memory=memory, tools={"look": lambda: left.pop(0)}).start(user="ada")
        for _ in results:
            turn = session.say("look")
            assert len(turn.messages) == 1
            resumed = memoranda.abl.resume(memory, session.id)
            assert dict(resumed.vars) == dict(session.vars)
