"""Tools inside of turns: whatever they do, the session stays whole."""

from __future__ import annotations

import datetime
import decimal
import threading
import time
from typing import Any

import pytest

import memoranda
from memoranda import Limits, Memory
from memoranda.abl import Behaviour
from memoranda.abl.agent import start_fixture

ASK = """
    TOOLS:
      act(text: string) -> object
        timeout: 50
    FLOW:
      ask:
        REASONING: false
        RESPOND: "Yes?"
        ON_INPUT:
          - ELSE:
            CALL: act(input)
            ON_SUCCESS:
              RESPOND: "Gave {{call_result}}."
            ON_FAIL:
              RESPOND: "Failed {{tool_failures}} times."
"""


class Nasty(Exception):
    def __str__(self) -> str:
        raise RuntimeError("cannot even be described")


def raising(error: BaseException) -> Any:
    def act(text: str) -> None:
        raise error

    return act


@pytest.mark.parametrize(
    "error",
    [
        ValueError("wrong"),
        KeyError("missing"),
        SystemExit(3),
        KeyboardInterrupt(),
        Nasty(),
        RecursionError("deep"),
        MemoryError(),
        ExceptionGroup("several", [ValueError("a"), TypeError("b")]),
        memoranda.NotFound("nothing there"),
        memoranda.Conflict("somebody else"),
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "no"),
        ValueError("\ud800 \0"),
        StopIteration("end"),
        GeneratorExit(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_tool_raises_is_a_failure_that_the_flow_can_answer(load: Any, memory: Memory, error: BaseException):
    agent = load(ASK, tools={"act": raising(error)})
    session = agent.start(user="ada")
    assert session.say("x").messages == ["Failed 1 times."]
    assert session.say("x").messages == ["Failed 2 times."]
    assert memoranda.abl.resume(memory, session.id).say("x").messages == ["Failed 3 times."]


def nest(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def holding_itself() -> Any:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


@pytest.mark.parametrize(
    "result",
    [
        {1, 2},
        b"bytes",
        object(),
        float("nan"),
        float("inf"),
        "\ud800",
        "a\0b",
        2**70,
        nest(500),
        holding_itself(),
        "x" * 3_000_000,
        (number for number in range(3)),
        lambda: 1,
        NotImplemented,
    ],
    ids=lambda result: type(result).__name__,
)
def test_a_result_that_cannot_be_kept_is_a_failure(load: Any, memory: Memory, result: Any):
    agent = load(ASK, tools={"act": lambda text: result})
    session = agent.start(user="ada")
    assert session.say("x").messages == ["Failed 1 times."]
    assert memoranda.abl.resume(memory, session.id).say("x").status == "waiting"


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (None, ""),
        (True, "true"),
        (1.0, "1"),
        (decimal.Decimal("2.50"), "2.5"),
        (datetime.date(2026, 5, 1), "2026-05-01"),
        ((1, 2), "[1,2]"),
        ({"a": {"b": [None]}}, '{"a":{"b":[null]}}'),
        ("", ""),
        ("{{secret}}", "{{secret}}"),
    ],
)
def test_a_result_that_has_a_plain_form_is_kept_as_that(load: Any, memory: Memory, result: Any, shown: str):
    agent = load(ASK, tools={"act": lambda text: result})
    session = start_fixture(agent, user="ada", vars={"secret": "no"})
    assert session.say("x").messages == [f"Gave {shown}."]
    assert memoranda.abl.resume(memory, session.id).say("x").messages == [f"Gave {shown}."]


def test_a_tool_that_is_too_slow_fails_and_its_late_answer_reaches_nobody(load: Any, told: Any):
    done, ended = threading.Event(), threading.Event()
    slow = [True, False]

    def act(text: str) -> str:
        if slow.pop(0):
            done.wait(30)
            ended.set()
            return "too late"
        return "in time"

    session = load(ASK, tools={"act": act}).start()
    began = time.perf_counter()
    turn = session.say("x")
    assert time.perf_counter() - began < 10  # and not the half minute that the tool would take
    assert turn.messages == ["Failed 1 times."]
    assert told(turn, "called") == ["called act: failed the tool `act` did not answer within 0.05 s"]
    done.set()
    assert ended.wait(10)
    assert "call_result" not in session.vars
    assert session.say("y").messages == ["Gave in time."]


def test_a_tool_without_a_time_of_its_own_has_that_of_the_behaviour(load: Any):
    done = threading.Event()
    text = ASK.replace("        timeout: 50\n", "")
    session = load(text, tools={"act": lambda text: done.wait(30)}, behaviour=Behaviour(tool_seconds=0.02)).start()
    assert session.say("x").messages == ["Failed 1 times."]
    done.set()
    session = load(text, tools={"act": lambda text: "quick"}, behaviour=Behaviour(tool_seconds=20)).start()
    assert session.say("x").messages == ["Gave quick."]


def test_a_coroutine_is_awaited(load: Any):
    async def act(text: str) -> str:
        return f"later {text}"

    assert load(ASK, tools={"act": act}).start().say("x").messages == ["Gave later x."]


def test_what_a_tool_does_to_its_arguments_does_not_reach_the_session(load: Any, memory: Memory):
    held: list[dict[str, Any]] = []

    def spoil(basket: dict[str, Any], items: list[str]) -> None:
        held.append(basket)
        basket["price"] = 0
        basket["inner"]["deep"] = "changed"
        items.clear()

    agent = load(
        """
        MEMORY:
          persistent:
            - user.basket
        FLOW:
          ask:
            REASONING: false
            SET:
              - basket = {price: 10, inner: {deep: "kept"}}
              - items = ["a", "b"]
              - user.basket = basket
            CALL: spoil(basket, items)
            CALL: spoil(user.basket, items)
            RESPOND: "{{basket.price}} {{basket.inner.deep}} {{items.length}} {{user.basket.price}}"
            ON_INPUT:
              - ELSE:
                RESPOND: "{{basket.price}} {{basket.inner.deep}} {{items.length}} {{user.basket.price}}"
        """,
        tools={"spoil": spoil},
    )
    session = agent.start(user="ada")
    assert session.opening.messages == ["10 kept 2 10"]
    held[0]["price"] = 1
    assert session.say("x").messages == ["10 kept 2 10"]
    assert held[0]["price"] == 1  # it was changed, elsewhere
    assert memory.scope(user="ada").value("basket")["price"] == 10


def test_what_a_tool_does_to_its_result_later_does_not_reach_the_session(load: Any, memory: Memory):
    shelf = {"books": ["one"], "inner": {"open": True}}
    agent = load(
        """
        FLOW:
          ask:
            REASONING: false
            CALL: look()
            AS: shelf
            RESPOND: "{{shelf.books.length}} {{books.length}} {{call_result.inner.open}}"
            ON_INPUT:
              - ELSE:
                RESPOND: "{{shelf.books.length}} {{books.length}} {{call_result.inner.open}}"
        """,
        tools={"look": lambda: shelf},
    )
    session = agent.start()
    assert session.opening.messages == ["1 1 true"]
    shelf["books"].append("two")
    shelf["inner"]["open"] = False
    assert session.say("x").messages == ["1 1 true"]
    # The next call sees what became of it.
    assert agent.start().opening.messages == ["2 2 false"]


def test_a_result_that_is_too_large_to_be_kept_serves_the_turn_and_is_gone_afterwards(load: Any, told: Any):
    with memoranda.open(":memory:", limits=Limits(value_bytes=20_000)) as small:
        agent = load(
            """
            FLOW:
              ask:
                REASONING: false
                CALL: tiny()
                CALL: large()
                RESPOND: "{{LENGTH(parts)}} {{size}}"
                ON_INPUT:
                  - ELSE:
                    RESPOND: "[{{parts}}][{{LENGTH(last_large_result.parts)}}] {{size}} {{call_result.size}}"
            """,
            tools={"tiny": lambda: {"size": 3}, "large": lambda: {"parts": ["x" * 100] * 300}},
            on=small,
        )
        session = agent.start()
        assert session.opening.messages == ["300 3"]
        assert "too large to be saved" in told(session.opening, "warning")[0]
        # The older one goes first; it is the other that does not fit, so both are gone.
        later = session.say("x").messages
        assert later[0].startswith("[][0]")
        assert memoranda.abl.resume(small, session.id).say("x").messages == later


def test_a_tool_may_use_the_memory_of_its_agent(load: Any, memory: Memory):
    def note(text: str) -> int:
        ada = memory.scope(user="ada")
        ada.set("noted", text)
        return len(ada.list())

    session = load(ASK, tools={"act": note}).start(user="ada")
    assert session.say("x").messages == ["Gave 1."]
    assert memory.scope(user="ada").value("noted") == "x"


def test_a_tool_may_talk_to_another_session_of_the_same_agent(load: Any, memory: Memory):
    agents: list[Any] = []

    def act(text: str) -> str:
        if text == "inner":
            return "bottom"
        return agents[0].start(user="bo").say("inner").text

    agents.append(load(ASK.replace("timeout: 50", "timeout: 5000"), tools={"act": act}))
    assert agents[0].start(user="ada").say("outer").messages == ["Gave Gave bottom.."]


def test_semantic_memory_is_a_tool_of_every_agent(load: Any, memory: Memory):
    agent = load("""
        FLOW:
          ask:
            REASONING: false
            RESPOND: "Yes?"
            ON_INPUT:
              - IF: input startsWith "note "
                CALL: memory.remember(input)
                RESPOND: "Noted."
              - ELSE:
                CALL: memory.recall(input, limit = 1)
                RESPOND: "{{call_result.results[0].content}}"
        """)
    session = agent.start(user="ada")
    assert session.say("note the ferry leaves at dawn").messages == ["Noted."]
    assert session.say("when does the ferry leave").messages == ["note the ferry leaves at dawn"]
    other = agent.start(user="bo")
    other.say("note the bakery opens at six")
    assert "ferry" not in other.say("when does the ferry leave").text
