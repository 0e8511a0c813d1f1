"""Rules cannot be bypassed, and leave the user a way out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from memoranda import Memory
from memoranda.abl.runtime import constraints
from memoranda.agent.models import Ask, Reply, ToolCall

FAILURES = {
    "message": '"Too much."',
    "block": "BLOCK",
    "retry": '\n        RESPOND: "Too much."\n        RETRY: true',
    "then retry": '\n        RESPOND: "Too much."\n        THEN: retry',
    "goto": '\n        RESPOND: "Too much."\n        GOTO: ask',
    "collect": '\n        RESPOND: "Too much."\n        COLLECT: [amount]',
}
RULE = """
CONSTRAINTS:
  always:
    - REQUIRE amount < 100
      ON_FAIL: {failure}
"""
PAY = """
  pay:
    REASONING: false
    CALL: send(amount)
    RESPOND: "Sent {{amount}}."
    THEN: COMPLETE
"""
GATHERED = """
FLOW:
  ask:
    REASONING: false
    GATHER:
      - amount:
        type: number
        prompt: "How much?"
    THEN: pay
"""
BY_INPUT = """
FLOW:
  ask:
    REASONING: false
    RESPOND: "How much?"
    ON_INPUT:
      - IF: abl.is_number(input)
        SET: amount = TO_NUMBER(input)
        THEN: pay
"""
IN_ONE_STEP = """
FLOW:
  ask:
    REASONING: false
    GATHER:
      - amount:
        type: number
        prompt: "How much?"
    CALL: send(amount)
    RESPOND: "Sent {{amount}}."
    THEN: COMPLETE
"""


class Calls(list[Any]):
    """The arguments of each call of a tool."""

    def __call__(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        """Record a call."""
        self.append(named.get("amount", *arguments))
        return {"id": len(self)}


class Script:
    """A model that gives the replies it was made with."""

    name = "script"

    def __init__(self, replies: Sequence[Reply]) -> None:
        self.replies = list(replies)

    def reply(self, ask: Ask, *, timeout: float | None = None) -> Reply:
        return self.replies.pop(0)


@pytest.fixture
def sent() -> Calls:
    return Calls()


# --- a broken rule lets nothing through ---------------------------------------------------------------------------


@pytest.mark.parametrize("flow", [GATHERED + PAY, BY_INPUT + PAY, IN_ONE_STEP], ids=["gather", "input", "one step"])
@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_no_tool_runs_while_a_rule_is_broken_and_the_next_answer_repairs_it(
    load: Any, sent: Calls, flow: str, failure: str
) -> None:
    session = load(RULE.replace("{failure}", failure), flow, tools={"send": sent}).start()
    for words in ("500", "hm", "500", "700"):
        turn = session.say(words)
        assert (sent, turn.messages.count("Too much.") <= 1, "Sent 500." in turn.messages) == ([], True, False)
    assert session.say("50").messages == ["Sent 50."]
    assert sent == [50]


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_value_that_a_step_sets_is_checked_before_it_is_used(load: Any, sent: Calls, failure: str) -> None:
    flow = """
FLOW:
  ask:
    REASONING: false
    RESPOND: "What for?"
    ON_INPUT:
      - ELSE:
        SET: amount = LENGTH(input) * 100
        THEN: tell
  tell:
    REASONING: false
    RESPOND: "That makes {{amount}}."
    CALL: send(amount)
    THEN: COMPLETE
"""
    agent = load(RULE.replace("{failure}", failure), flow, tools={"send": sent})
    turn = agent.start().say("rent")
    assert (sent, "That makes 400." in turn.messages) == ([], False)
    assert agent.start().say("").messages == ["That makes 0."]
    assert sent == [0]


def test_a_result_that_breaks_a_rule_stops_what_follows(load: Any, sent: Calls) -> None:
    agent = load(
        RULE.replace("{failure}", '"Too much."'),
        """
        MEMORY:
          session:
            - price
              INPUT: true
        FLOW:
          look:
            REASONING: false
            CALL: quote(price)
            SET: amount = call_result.price
            CALL: send(amount)
            RESPOND: "Sent."
        """,
        tools={"send": sent, "quote": lambda price: {"price": price}},
    )
    assert agent.start(vars={"price": 300}).opening.messages == ["Too much."]
    assert sent == []
    assert agent.start(vars={"price": 30}).opening.messages == ["Sent."]
    assert sent == [30]


@pytest.mark.parametrize("before", ["", " BEFORE calling send"], ids=["always", "before the call"])
def test_a_model_cannot_pass_an_argument_that_breaks_a_rule(load: Any, sent: Calls, before: str) -> None:
    calls = [Reply("", calls=(ToolCall(str(amount), "send", {"amount": amount}),)) for amount in (500, 50)]
    agent = load(
        f"""
        TOOLS:
          send(amount: number) -> {{id: number}}
            description: "Send money"
        CONSTRAINTS:
          always:
            - REQUIRE amount < 100{before}
              ON_FAIL: "{{{{amount}}}} is too much."
        """,
        tools={"send": sent},
        model=Script([Reply("Hello."), *calls, Reply("Sent.")]),
    )
    session = agent.start()
    assert (session.say("500 please").messages, sent) == (["500 is too much."], [])
    assert (session.say("50 then").messages, sent) == (["Sent."], [50])


def test_a_harmless_call_does_not_let_the_next_one_pass(load: Any, sent: Calls) -> None:
    calls = [Reply("", calls=(ToolCall(str(amount), "send", {"amount": amount}),)) for amount in (50, 500)]
    agent = load(
        """
        TOOLS:
          send(amount: number) -> {id: number}
        """,
        RULE.replace("{failure}", '"Too much."'),
        tools={"send": sent},
        model=Script([Reply("Hello."), *calls, Reply("Sent.")]),
    )
    assert (agent.start().say("50, then 500").messages, sent) == (["Too much."], [50])


@pytest.mark.parametrize("amount", [500, 60])
def test_a_harmless_argument_does_not_hide_what_breaks_a_rule_in_the_session(
    load: Any, sent: Calls, amount: int
) -> None:
    agent = load(
        "MEMORY:\n  session:\n    - amount\n      INPUT: true\n",
        "TOOLS:\n  send(amount: number) -> {id: number}\n",
        RULE.replace("{failure}", '"Too much."'),
        """
        FLOW:
          pay:
            REASONING: false
            ON_INPUT:
              - ELSE:
                CALL: send(amount = 50)
                RESPOND: "Sent."
        """,
        tools={"send": sent},
    )
    turn = agent.start(vars={"amount": amount}).say("go")
    assert (turn.messages, sent) == ((["Too much."], []) if amount == 500 else (["Sent."], [50]))


def test_what_a_model_sets_is_checked_before_it_answers(load: Any) -> None:
    def note(amount: int) -> Reply:
        return Reply("", calls=(ToolCall("1", "set_variables", {"values": {"amount": amount}}),))

    agent = load(
        "MEMORY:\n  session:\n    - amount\n      TYPE: number\n      INPUT: true\n",
        RULE.replace("{failure}", '"Too much."'),
        model=Script([Reply("Hello."), note(500), Reply("500 it is."), note(50), Reply("50 it is.")]),
    )
    session = agent.start()
    assert session.say("500").messages == ["Too much."]
    assert session.say("50").messages == ["50 it is."]


@pytest.mark.parametrize("position", ["positional", "named"])
def test_arguments_of_a_call_are_visible_to_its_rule(load: Any, sent: Calls, position: str) -> None:
    arguments = "TO_NUMBER(input)" if position == "positional" else "amount = TO_NUMBER(input)"
    agent = load(
        f"""
        TOOLS:
          send(amount: number) -> {{id: number}}
        CONSTRAINTS:
          always:
            - LIMIT amount <= 100 BEFORE calling send
              ON_FAIL: "Too much."
        FLOW:
          ask:
            REASONING: false
            ON_INPUT:
              - ELSE:
                CALL: send({arguments})
                RESPOND: "Sent."
        """,
        tools={"send": sent},
    )
    session = agent.start()
    assert (session.say("101").messages, session.say("100").messages, sent) == (["Too much."], ["Sent."], [100])


def test_an_agent_does_not_end_while_a_rule_is_broken(load: Any) -> None:
    agent = load(
        """
        MEMORY:
          session:
            - agreed
              INPUT: true
        CONSTRAINTS:
          always:
            - REQUIRE agreed == true
              ON_FAIL: "Please agree first."
        FLOW:
          ask:
            REASONING: false
            GATHER:
              - name:
                prompt: "Name?"
            THEN: COMPLETE
        """
    )
    session = agent.start()
    turn = session.say("Ada")
    assert (turn.messages, turn.status) == (["Please agree first."], "blocked")
    session.vars["agreed"] = True
    assert session.say("Ada").status == "completed"


def test_a_rule_that_holds_costs_no_second_check(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    monkeypatch.setattr("memoranda.abl.runtime.constraints._is_broken", lambda rule, *_: checked.append(rule.text))
    steps = (("one", "two"), ("two", "three"), ("three", "ask"))
    agent = load(
        RULE.replace("{failure}", '"Too much."'),
        "FLOW:\n  ask:\n    REASONING: false\n    ON_INPUT:\n      - ELSE:\n        THEN: one\n"
        + "".join(
            f'  {name}:\n    REASONING: false\n    RESPOND: "{name}"\n    THEN: {then}\n' for name, then in steps
        ),
    )
    assert agent.start().say("go").messages == ["one", "two", "three"]
    assert checked == ["REQUIRE amount < 100"]


@pytest.mark.parametrize(
    ("rule", "checks"),
    [
        ("REQUIRE amount < 100", [0, 0, 1, 0]),
        ("REQUIRE turn_count < 100", [1, 1, 1, 1]),
        ("REQUIRE user.limit IS NOT SET", [1, 1, 1, 1]),
        ("REQUIRE NOW_MS() > 0", [1, 1, 1, 1]),
        ('RESTRICT amount matches "([0-9])000"', [1, 1, 1, 1]),
    ],
)
def test_a_rule_that_holds_is_checked_again_when_something_that_it_reads_may_have_changed(
    load: Any, monkeypatch: pytest.MonkeyPatch, rule: str, checks: list[int]
) -> None:
    checked: list[str] = []
    is_broken = constraints._is_broken  # pyright: ignore[reportPrivateUsage]

    def count(rule: Any, *rest: Any) -> bool:
        checked.append(rule.text)
        return is_broken(rule, *rest)

    monkeypatch.setattr(constraints, "_is_broken", count)
    memory = "MEMORY:\n  session:\n    - amount\n      TYPE: number\n      INITIAL: 1\n"
    rules = f'CONSTRAINTS:\n  always:\n    - {rule}\n      ON_FAIL: "No."\n'
    flow = """
FLOW:
  ask:
    REASONING: false
    RESPOND: "Well?"
    ON_INPUT:
      - IF: input == "more"
        SET: amount = amount + 1
        RESPOND: "More."
      - ELSE:
        RESPOND: "Same."
"""
    session = load(memory, rules, flow).start(user="ada")
    session.say("first")
    found: list[int] = []
    for words in ("same", "same", "more", "same"):
        checked.clear()
        assert session.say(words).messages == ["More." if words == "more" else "Same."]
        found.append(len(checked))
    assert found == checks


def test_a_rule_sees_what_a_caller_or_another_process_changes_between_two_turns(load: Any, memory: Memory) -> None:
    agent = load(
        """
        MEMORY:
          session:
            - amount
              TYPE: number
              INPUT: true
          persistent:
            - user.closed
        CONSTRAINTS:
          always:
            - RESTRICT amount > 100
              ON_FAIL: "Too much."
            - RESTRICT user.closed == true
              ON_FAIL: "Closed."
        FLOW:
          ask:
            REASONING: false
            RESPOND: "Well?"
            ON_INPUT:
              - ELSE:
                RESPOND: "Done."
        """
    )
    session = agent.start(user="ada")
    for again in range(2):
        assert session.say("go").messages == ["Done."], again
        session.vars["amount"] = 500
        assert session.say("go").messages == ["Too much."]
        session.vars["amount"] = 50
        assert session.say("go").messages == ["Done."]
        memory.scope(user="ada").set("closed", True)
        assert session.say("go").messages == ["Closed."]
        memory.scope(user="ada").set("closed", False)


@pytest.mark.parametrize("hook", ["before_turn", "after_turn"])
def test_a_rule_that_stops_an_action_of_a_hook_adds_no_warning(load: Any, sent: Calls, hook: str, told: Any) -> None:
    text = f"""
        CONSTRAINTS:
          always:
            - REQUIRE amount < 100
              ON_FAIL: "Too much."
        HOOKS:
          {hook}:
            SET: amount = 500
            CALL: send(amount)
        FLOW:
          ask:
            REASONING: false
            ON_INPUT:
              - IF: input == "go"
                RESPOND: "Done."
        """
    turn = load(text, tools={"send": sent}).start().say("go")
    assert (sent, told(turn, "warning")) == ([], [])
    assert told(turn, "blocked") != []
    waits = text.replace("500", "5").replace("CALL: send(amount)", "GATHER:\n              - name: required")
    warned = load(waits).start().say("go")
    assert told(warned, "warning") == ["warning an action outside the flow cannot wait for the user"]


# --- a rule never locks its user out ------------------------------------------------------------------------------

VERIFIED = """
MEMORY:
  persistent:
    - user.verified
CONSTRAINTS:
  always:
    - REQUIRE user.verified == true
      ON_FAIL:
        RESPOND: "Please verify first."
        GOTO: identity
FLOW:
  desk:
    REASONING: false
    RESPOND: "Desk."
    ON_INPUT:
      - IF: input == "pay"
        CALL: send(1)
        RESPOND: "Paid."
      - ELSE:
        RESPOND: "Hm."
"""
BY_WORDS = """
  identity:
    REASONING: false
    RESPOND: "Your code?"
    ON_INPUT:
      - IF: input == "4711"
        SET: user.verified = true
        RESPOND: "Thanks."
        THEN: desk
      - ELSE:
        RESPOND: "Wrong."
"""
BY_TOOL = """
  identity:
    REASONING: false
    GATHER:
      - code:
        type: number
        prompt: "Your code?"
    CALL: check(code)
    SET: user.verified = call_result
    THEN: desk
"""


@pytest.mark.parametrize(
    ("step", "wrong", "right"),
    [(BY_WORDS, ["Wrong."], ["Thanks.", "Desk."]), (BY_TOOL, ["Please verify first.", "Your code?"], ["Desk."])],
    ids=["input", "gather"],
)
def test_a_rule_does_not_fire_in_the_step_that_repairs_it(
    load: Any, talk: Any, sent: Calls, step: str, wrong: list[str], right: list[str]
) -> None:
    agent = load(VERIFIED + step, tools={"send": sent, "check": lambda code: code == 4711})
    session = agent.start(user="ada")
    ask = ["Please verify first.", "Your code?"]
    assert talk(session, "pay", "1111", "1112", "4711") == [ask, wrong, wrong, right]
    assert sent == []
    assert (session.say("pay").messages, sent) == (["Paid."], [1])


def test_the_step_that_repairs_a_rule_cannot_make_the_call_that_was_stopped(load: Any, sent: Calls) -> None:
    agent = load(
        VERIFIED + '  identity:\n    REASONING: false\n    CALL: send(2)\n    RESPOND: "Done."\n', tools={"send": sent}
    )
    session = agent.start(user="ada")
    assert (session.say("pay").messages, sent) == (["Please verify first."], [])
    assert (session.say("pay").messages, sent) == (["Please verify first."], [])


DIGRESSIONS = """
  global_digressions:
    - INTENT: "cancel"
      RESPOND: "Cancelled."
      GOTO: bye
    - INTENT: "opening hours"
      RESPOND: "Nine to five."
      RESUME: true
    - INTENT: "send anyway"
      CALL: send(amount)
      RESPOND: "Sent."
      RESUME: true
"""
BYE = """
  bye:
    REASONING: false
    RESPOND: "Bye."
    THEN: COMPLETE
"""


def test_a_digression_always_works_but_calls_no_tool(load: Any, sent: Calls) -> None:
    agent = load(
        RULE.replace("{failure}", '"Too much."'),
        GATHERED.replace("FLOW:\n", f"FLOW:{DIGRESSIONS}") + PAY + BYE,
        tools={"send": sent},
    )
    session = agent.start()
    assert session.say("500").messages == ["Too much."]
    assert session.say("opening hours").messages == ["Nine to five.", "How much?"]
    assert (session.say("send anyway").messages, sent) == (["Too much."], [])
    turn = session.say("cancel")
    assert (turn.messages, turn.status, sent) == (["Cancelled.", "Bye."], "completed", [])


def test_a_field_of_another_step_that_a_rule_needs_is_asked_for(load: Any, talk: Any) -> None:
    agent = load(
        """
        CONSTRAINTS:
          always:
            - REQUIRE town IS SET
              ON_FAIL: "I need a town."
        FLOW:
          who:
            REASONING: false
            GATHER:
              - name:
                prompt: "Name?"
            THEN: where
          where:
            REASONING: false
            GATHER:
              - town:
                prompt: "Where to?"
            RESPOND: "{{name}} to {{town}}."
            THEN: COMPLETE
        """
    )
    assert talk(agent.start(), "Ada", "Paris") == [["I need a town.", "Where to?"], ["Ada to Paris."]]


def test_a_field_that_is_about_to_be_asked_for_breaks_no_rule(load: Any, talk: Any) -> None:
    agent = load(
        """
        CONSTRAINTS:
          always:
            - REQUIRE town IS SET
              ON_FAIL: "I need a town."
        FLOW:
          who:
            REASONING: false
            GATHER:
              - name:
                prompt: "Name?"
              - town:
                prompt: "Where to?"
            RESPOND: "{{name}} to {{town}}."
            THEN: COMPLETE
        """
    )
    assert talk(agent.start(), "Ada", "Paris") == [["Where to?"], ["Ada to Paris."]]


def test_a_rule_is_judged_after_what_the_words_have_changed(load: Any, talk: Any, sent: Calls) -> None:
    agent = load(
        """
        CONSTRAINTS:
          always:
            - REQUIRE known == true
              ON_FAIL: "Say the word."
        FLOW:
          desk:
            REASONING: false
            ON_INPUT:
              - IF: input == "please"
                SET: known = true
                RESPOND: "Good."
              - ELSE:
                CALL: send(1)
                RESPOND: "Sent."
        """,
        tools={"send": sent},
    )
    assert talk(agent.start(), "go", "please", "go") == [["Say the word."], ["Good."], ["Sent."]]


def test_a_rule_clears_no_variable(load: Any) -> None:
    session = load(RULE.replace("{failure}", '"Too much."'), GATHERED + PAY, tools={"send": Calls()}).start()
    session.say("500")
    assert session.vars["amount"] == 500


def test_a_greeting_and_what_an_agent_loads_first_need_no_rule(load: Any) -> None:
    accounts = [False, True]
    agent = load(
        """
        CONSTRAINTS:
          always:
            - REQUIRE account.active == true
              ON_FAIL: "Your account is closed."
        ON_START:
          CALL: account
          SET: account = call_result
        FLOW:
          hello:
            REASONING: false
            RESPOND: "Hello."
            ON_INPUT:
              - ELSE:
                RESPOND: "Done."
        """,
        tools={"account": lambda: {"active": accounts.pop()}},
    )
    session = agent.start()
    assert (session.opening.messages, session.say("go").messages) == (["Hello."], ["Done."])
    assert agent.start().opening.messages == ["Your account is closed."]
