"""What a model that drives an agent knows of its memory, what it may set, and how it routes to other agents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from memoranda import Memory
from memoranda.agent.models import Ask, Reply, ToolCall


class Script:
    """A model that gives the replies it was made with, and keeps what it was asked."""

    name = "script"

    def __init__(self, *replies: str | dict[str, Any]) -> None:
        self.replies = list(replies)
        self.asked: list[Ask] = []

    def reply(self, ask: Ask, *, timeout: float | None = None) -> Reply:
        self.asked.append(ask)
        reply = self.replies.pop(0) if self.replies else "…"
        if isinstance(reply, str):
            return Reply(reply)
        [(tool, arguments)] = reply.items()
        return Reply("", (ToolCall("1", tool, arguments),))

    def tool(self, name: str) -> Any:
        return next(tool for tool in self.asked[-1].tools if tool.name == name)

    @property
    def told(self) -> Any:
        """What the last tool answered."""
        return json.loads(self.asked[-1].messages[-1].text)


def setting(**values: Any) -> dict[str, Any]:
    return {"set_variables": {"values": values}}


TRAVEL = """
MEMORY:
  session:
    - guests
      TYPE: number
      DESCRIPTION: "How many people travel"
    - checked
      TYPE: boolean
  persistent:
    - user.seat
      TYPE: string
      DESCRIPTION: "Where the user likes to sit"
    - user.tier
      ACCESS: read
    - user.card
      SENSITIVE: true
    - user.log
      ACCESS: write
    - user.verified
      TYPE: boolean
  remember:
    - WHEN: town IS SET
      STORE: town -> user.home
  recall:
    - ON: session:start
      INSTRUCTION: "Greet regulars by name"
CONSTRAINTS:
  always:
    - REQUIRE user.verified == true BEFORE calling pay
      ON_FAIL: "No."
"""


def shown(model: Script) -> dict[str, Any]:
    """Return the variables in the last prompt, by their paths."""
    fence = model.asked[-1].instructions.split('<data name="variables">\n')[1]
    return json.loads(fence.split("\n</data>")[0])


def test_the_prompt_lists_what_the_model_may_set_with_its_current_value(load: Any, memory: Memory) -> None:
    memory.scope(user="ada").set("seat", "aisle")
    memory.scope(user="ada").set("card", "4000")
    memory.scope(user="ada").set("log", "secret")
    model = Script("Hello.")
    load(TRAVEL, model=model).start(user="ada")
    assert shown(model) == {
        "guests": {"type": "number", "description": "How many people travel", "value": "not set"},
        "checked": {"type": "boolean", "value": "not set"},
        "town": {"remembered as": ["user.home"], "value": "not set"},
        "user.seat": {"type": "string", "description": "Where the user likes to sit", "value": "aisle"},
        "user.card": {"value": "(kept from view)"},
        "user.log": {"value": "(kept from view)"},
    }
    assert "Greet regulars by name" in model.asked[0].instructions
    assert "4000" not in model.asked[0].instructions and "secret" not in model.asked[0].instructions
    properties = model.tool("set_variables").parameters["properties"]["values"]["properties"]
    assert properties["guests"] == {"description": "How many people travel", "type": "number"}


def test_what_the_model_sets_is_kept_and_remembered(load: Any, memory: Memory) -> None:
    model = Script("Hello.", setting(guests=2, town="Porto", **{"user.seat": "window"}), "Noted.")
    session = load(TRAVEL, model=model).start(user="ada")
    assert session.say("two of us, from Porto").messages == ["Noted."]
    assert model.told == {"kept": ["guests", "town", "user.seat"]}
    ada = memory.scope(user="ada")
    assert (session.vars["guests"], ada.value("seat"), ada.value("home")) == (2, "window", "Porto")


@pytest.mark.parametrize(
    ("path", "value"),
    [("guests", "two"), ("user.seat", 7), ("user.tier", "gold"), ("user.verified", True), ("user", {})],
)
def test_an_error_goes_back_to_the_model_and_nothing_is_set(load: Any, memory: Memory, path: str, value: Any) -> None:
    model = Script("Hello.", setting(**{"checked": True, path: value}), "Hm.")
    session = load(TRAVEL, model=model).start(user="ada")
    session.say("go")
    assert (model.told["kept"], list(model.told["refused"])) == (["checked"], [path])
    assert model.told["refused"][path] != ""
    assert (session.vars["guests"], session.vars["checked"]) == (None, True)
    assert memory.scope(user="ada").value(path.removeprefix("user.")) is None


def test_a_gathered_field_is_validated_when_a_model_sets_it(load: Any) -> None:
    agent = """
    GATHER:
      colour:
        type: string
        options: [red, green]
        required: false
      age:
        type: number
        required: false
        validate:
          min: 18
    """
    model = Script("Hello.", setting(colour="blue", age=7), "Hm.", setting(colour="Green", age=20), "Good.")
    session = load(agent, model=model).start()
    session.say("blue, 7")
    assert sorted(model.told["refused"]) == ["age", "colour"]
    session.say("green, 20")
    assert (session.vars["colour"], session.vars["age"]) == ("green", 20)


# --- routing ------------------------------------------------------------------------------------------------------

DESK = """
DESCRIPTION: "Answers questions about {name}"
FLOW:
  hear:
    REASONING: false
    RESPOND: "{name} here."
    ON_INPUT:
      - ELSE:
        RESPOND: "{name} heard it."
"""
FRONT = """
HANDOFF:
  - TO: Billing
    WHEN: intent.category == "billing"
  - TO: Vault
    WHEN: user.verified == true
DELEGATE:
  - AGENT: Rates
    PURPOSE: "Name a rate"
    RETURNS: {rate: rate}
"""
RATES = """
FLOW:
  name:
    REASONING: false
    SET: rate = 7
    THEN: COMPLETE
"""


def front(load: Any, *replies: str | dict[str, Any]) -> tuple[Any, Script]:
    model = Script(*replies)
    desks = [load(DESK.replace("{name}", name), name=name) for name in ("Billing", "Vault")]
    agents = [*desks, load(RATES, name="Rates")]
    return load(FRONT, kind="SUPERVISOR", name="Front", agents=agents, model=model if replies else None), model


def test_a_model_hears_of_the_other_agents_and_hands_over(load: Any) -> None:
    agent, model = front(load, "Hello.", {"hand_off": {"agent": "Billing", "reason": "an invoice"}})
    session = agent.start(user="ada")
    told = model.tool("hand_off").description
    assert 'Billing: Answers questions about Billing. When: intent.category == "billing"' in told
    turn = session.say("my invoice is wrong")
    assert (turn.agent, turn.status) == ("Billing", "handed_off")


def test_a_model_cannot_hand_over_against_a_condition(load: Any, memory: Memory) -> None:
    for verified, agent_after in ((False, "Front"), (True, "Vault")):
        memory.scope(user="ada").set("verified", verified)
        agent, model = front(load, "Hello.", {"hand_off": {"agent": "Vault"}}, "Sorry.")
        session = agent.start(user="ada")
        session.say("open the vault")
        assert session.agent == agent_after
        assert verified or "user.verified == true" in model.told["error"]


def test_a_model_delegates_and_gets_the_results(load: Any) -> None:
    agent, model = front(load, "Hello.", {"delegate": {"agent": "Rates"}}, "Seven percent.")
    session = agent.start()
    assert session.say("which rate?").messages == ["Seven percent."]
    assert (model.told, session.vars["rate"]) == ({"rate": 7}, 7)


def test_an_unknown_agent_is_an_error_for_the_model(load: Any) -> None:
    agent, model = front(load, "Hello.", {"hand_off": {"agent": "Biling"}}, "Hm.")
    agent.start().say("go")
    assert "Billing" in model.told["error"]


@pytest.mark.parametrize("by", ["words", "model"])
def test_the_category_of_an_intent_routes(load: Any, by: str) -> None:
    replies: Sequence[str | dict[str, Any]] = (
        () if by == "words" else ("Hello.", setting(**{"intent.category": "billing"}), "One moment.")
    )
    agent, _ = front(load, *replies)
    session = agent.start()
    turn = session.say("a question about billing" if by == "words" else "the invoice")
    assert turn.agent == "Billing"


def test_an_agent_that_only_a_model_could_drive_says_so(load: Any) -> None:
    agent = load('PERSONA: "Kind"')
    assert [(one.code, one.severity) for one in agent.diagnostics] == [("no_model", "warning")]
    session = agent.start()
    said = [session.say(words).messages for words in ("hello", "anybody?")]
    assert (session.opening.messages, said) == (
        [],
        [["I cannot answer: I need a language model, and none is set up."], []],
    )
    assert [one.code for one in load('PERSONA: "Kind"', model=Script("Hi.")).diagnostics] == []
