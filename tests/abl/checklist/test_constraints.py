"""Business rules while an agent runs: what breaks them, what then happens, and what they let pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import dedent, indent
from typing import Any

import pytest

import memoranda
from memoranda.abl import Agent, Behaviour, Session, Turn
from memoranda.abl.agent import start_fixture
from memoranda.agent.models import Reply, ToolCall
from memoranda.api.memory import Memory
from memoranda.errors import SourceError
from memoranda.testing import FakeClock

Load = Callable[..., Agent]
Rules = Callable[..., Agent]


@pytest.fixture
def rules(load: Load) -> Rules:
    """Return a function that loads an agent with these rules; it answers what it lets pass with `Done.`"""

    def make(text: str, label: str = "always", inputs: Sequence[str] = (), **options: Any) -> Agent:
        below = indent(dedent(text).strip("\n"), " " * 4)
        return load(
            f"{with_inputs(*inputs) if inputs else ''}CONSTRAINTS:\n  {label}:\n{below}\n"
            "FLOW:\n"
            "  desk:\n"
            "    REASONING: false\n"
            "    ON_INPUT:\n"
            "      - ELSE:\n"
            '        RESPOND: "Done."\n',
            **options,
        )

    return make


def with_inputs(*names: str) -> str:
    """Return the section that lets a program set these variables."""
    return "MEMORY:\n  session:\n" + "".join(f"    - {name}\n      INPUT: true\n" for name in names)


def say(agent: Agent, text: str = "go", **given: Any) -> Turn:
    """Say something to an agent whose variables are these."""
    return start_fixture(agent, user="ada", vars=given).say(text)


def entered(turn: Turn) -> list[str]:
    return [one.about for one in turn.trace if one.kind == "entered"]


def called(turn: Turn) -> list[str]:
    return [one.about for one in turn.trace if one.kind == "called"]


def warned(turn: Turn) -> list[str]:
    return [one.about for one in turn.events if one.kind == "warning"]


def codes(agent: Agent) -> list[str]:
    return [one.code for one in agent.diagnostics]


# --- C1 to C8: memory -------------------------------------------------------------------------------------------

FOUR_PARTS = """
MEMORY:
  session:
    - basket
  persistent:
    - user.name
      DEFAULT: "friend"
  remember:
    - WHEN: typed_name IS SET
      STORE: typed_name -> user.name
  recall:
    - ON: session:start
      ACTION: inject_context
      PATHS: [user.name]
FLOW:
  desk:
    REASONING: false
    SET: who = COALESCE(user.name, "stranger")
    RESPOND: "Hello {{who}}, you have {{basket.length}} things"
    ON_INPUT:
      - ELSE:
        SET:
          - typed_name = input
          - basket = [input]
"""


def test_c01_the_four_parts_of_memory_work_together(load: Load, memory: Memory) -> None:
    agent = load(FOUR_PARTS)
    session = agent.start(user="ada")
    assert session.opening.messages == ["Hello friend, you have  things"]
    assert session.vars["user"] == {"name": "friend"}
    session.say("Ada")
    assert (memory.scope(user="ada").value("name"), session.vars["basket"]) == ("Ada", ["Ada"])
    later = agent.start(user="ada")
    assert later.opening.messages == ["Hello Ada, you have  things"]
    assert (later.vars["user"], later.vars["basket"]) == ({"name": "Ada"}, None)


def test_c02_a_session_variable_may_have_all_its_properties(load: Load) -> None:
    agent = load(
        """
        MEMORY:
          session:
            - plain
            - flag
              TYPE: boolean
              DESCRIPTION: "Whether the visitor agreed"
              INITIAL: false
              RESET: per_activation
        """
    )
    session = agent.start()
    assert dict(session.vars) == {"plain": None, "flag": False}


def test_c03_typed_variables_begin_with_what_is_declared(load: Load) -> None:
    agent = load(
        """
        MEMORY:
          session:
            - lines
              TYPE: array
              INITIAL: []
            - tries
              TYPE: number
              INITIAL: 0
              RESET: per_step
        """
    )
    assert dict(agent.start().vars) == {"lines": [], "tries": 0}


def test_c04_persistent_paths_have_a_scope_an_access_and_a_default(load: Load, memory: Memory) -> None:
    memory.scope(project="bank").set("rates", {"EUR": 1.1})
    agent = load(
        """
        MEMORY:
          persistent:
            - user.alias
            - user.orders
              ACCESS: readwrite
              DEFAULT: []
            - project.rates
              ACCESS: read
        FLOW:
          desk:
            REASONING: false
            SET: user.alias = "lovelace"
            RESPOND: "{{user.alias}} {{user.orders.length}} {{project.rates.EUR}}"
        """
    )
    assert agent.start(user="ada", project="bank").opening.messages == ["lovelace 0 1.1"]
    assert memory.scope(user="ada").value("alias") == "lovelace"


def test_c05_a_trigger_stores_with_or_without_an_end(load: Load, memory: Memory, clock: FakeClock) -> None:
    agent = load(
        """
        MEMORY:
          remember:
            - WHEN: typed_name IS SET
              STORE: typed_name -> user.name
              TTL: 24h
            - WHEN: tongue IS SET
              STORE: tongue -> user.tongue
        """
    )
    session = start_fixture(agent, user="ada", vars={"typed_name": "Ada", "tongue": "pt"})
    clock.advance(86_399)
    assert memory.scope(user="ada").value("name") == "Ada"
    clock.advance(1)
    assert memory.scope(user="ada").get("name") is None
    assert memory.scope(user="ada").value("tongue") == "pt"
    assert session.status == "waiting"


def test_c06_three_recalls_do_three_things(load: Load, memory: Memory, puppet: Any) -> None:
    ada = memory.scope(user="ada")
    ada.set("name", "Ada")
    ada.set("orders.last", "tea")
    model = puppet()
    agent = load(
        """
        MEMORY:
          recall:
            - ON: session:start
              ACTION: inject_context
              PATHS: [user.name]
            - ON: search:before
              ACTION: load_memory
              DOMAIN: "orders"
            - ON: session:start
              ACTION: prompt_llm
              INSTRUCTION: "Be brief with regulars"
        FLOW:
          first:
            REASONING: false
            RESPOND: "Hello"
            ON_INPUT:
              - ELSE:
                CALL: search_shop(input)
                THEN: talk
          talk:
            REASONING: true
            GOAL: "Sell tea"
        """,
        tools={"search_shop": lambda text: []},
        model=model,
    )
    session = agent.start(user="ada")
    assert session.vars["user"] == {"name": "Ada"}
    session.say("anything green")
    assert session.vars["user"] == {"name": "Ada", "orders": {"last": "tea"}}
    assert "Be brief with regulars" in model.asked[0].instructions


def test_c07_a_reply_reads_session_variables(load: Load) -> None:
    agent = load(
        """
        FLOW:
          show:
            REASONING: false
            RESPOND: "{{lines.length}} lines, the first is {{lines[0].name}}"
        """
    )
    assert start_fixture(agent, vars={"lines": [{"name": "tea"}, {"name": "cake"}]}).opening.messages == [
        "2 lines, the first is tea"
    ]


def test_c08_a_name_that_is_not_known_has_a_substitute(load: Load, memory: Memory) -> None:
    agent = load(
        """
        MEMORY:
          persistent:
            - user.name
        FLOW:
          show:
            REASONING: false
            SET: who = COALESCE(user.name, "friend")
            RESPOND: "Hello {{who}}"
        """
    )
    assert agent.start(user="ada").opening.messages == ["Hello friend"]
    memory.scope(user="ada").set("name", "Ada")
    assert agent.start(user="ada").opening.messages == ["Hello Ada"]


# --- C9 and C10: labels -----------------------------------------------------------------------------------------

LABELS = """
CONSTRAINTS:
  always:
    - REQUIRE terms == true
      ON_FAIL: "Accept the terms first."
  before_paying:
    - REQUIRE balance >= amount
      ON_FAIL: "You have {{balance}}, this costs {{amount}}."
    - REQUIRE screened == true
      ON_FAIL: HANDOFF Screening
FLOW:
  desk:
    REASONING: false
    ON_INPUT:
      - ELSE:
        RESPOND: "Done."
"""
SCREENING = """
AGENT: Screening
GOAL: "Look closely"
FLOW:
  look:
    REASONING: false
    RESPOND: "Screening here."
    ON_INPUT:
      - IF: input == "and now?"
        RESPOND: "I look."
"""


def test_c09_rules_under_several_labels_are_one_list(load: Load) -> None:
    agent = load(LABELS, agents=[load(SCREENING)])
    assert say(agent, balance=1, amount=5, screened=True).messages == ["Accept the terms first."]
    assert say(agent, terms=True, balance=1, amount=5).messages == ["You have 1, this costs 5."]
    handed = say(agent, terms=True, balance=9, amount=5)
    assert (handed.messages, handed.status, handed.agent) == (["Screening here."], "handed_off", "Screening")
    passed = say(agent, terms=True, balance=9, amount=5, screened=True)
    assert (passed.messages, passed.status) == (["Done."], "waiting")


@pytest.mark.parametrize("label", ["always", "pre_booking", "eligibility_check", "some_label"])
def test_c10_a_label_is_only_a_name(rules: Rules, label: str) -> None:
    agent = rules(
        """
        - REQUIRE a == b
          ON_FAIL: "no"
        """,
        label=label,
    )
    assert say(agent, a=1, b=2).messages == ["no"]
    assert say(agent, a=1, b=1).messages == ["Done."]


# --- C11 to C15: the rules --------------------------------------------------------------------------------------


def test_c11_require_is_broken_when_its_condition_is_false(rules: Rules) -> None:
    agent = rules('- REQUIRE state == "open"\n  ON_FAIL: "It is closed."')
    assert say(agent, state="shut").messages == ["It is closed."]
    assert say(agent, state="open").messages == ["Done."]


def test_c12_limit_is_broken_above_its_bound(rules: Rules) -> None:
    agent = rules('- LIMIT sent_today + amount <= day_limit\n  ON_FAIL: "Too much for one day."')
    assert say(agent, sent_today=60, amount=41, day_limit=100).messages == ["Too much for one day."]
    assert say(agent, sent_today=60, amount=40, day_limit=100).messages == ["Done."]


def test_c13_restrict_is_broken_when_its_condition_is_true(rules: Rules) -> None:
    agent = rules('- RESTRICT land IN ["XX", "YY"]\n  ON_FAIL: "We do not send there."')
    assert say(agent, land="YY").messages == ["We do not send there."]
    assert say(agent, land="PT").messages == ["Done."]
    assert say(agent).messages == ["Done."]


BY_CHANNEL = """
CONSTRAINTS:
  always:
    - REQUIRE card_number IS NOT SET
      WHEN: channel == "voice"
      ON_FAIL: "Do not say card numbers aloud."
ON_START:
  SET: channel = used
FLOW:
  desk:
    REASONING: false
    ON_INPUT:
      - ELSE:
        RESPOND: "Done."
"""


def test_c14_a_gate_says_where_a_rule_applies(load: Load) -> None:
    agent = load(BY_CHANNEL)
    assert say(agent, used="voice", card_number="4000").messages == ["Do not say card numbers aloud."]
    assert say(agent, used="voice").messages == ["Done."]
    assert say(agent, used="chat", card_number="4000").messages == ["Done."]


BEFORE = """
CONSTRAINTS:
  always:
    - REQUIRE town IS SET BEFORE calling search_rooms
      ON_FAIL: "Which town?"
    - REQUIRE reviewed == true BEFORE returning results
      ON_FAIL: "One moment."
FLOW:
  desk:
    REASONING: false
    ON_INPUT:
      - IF: input == "count"
        CALL: count_rooms
        RESPOND: "{{call_result}} rooms."
      - IF: input == "look"
        CALL: search_rooms(town)
        RESPOND: "Found {{call_result}}."
      - ELSE:
        RESPOND: "Hello."
"""
ROOMS = {"count_rooms": lambda: 7, "search_rooms": lambda town: f"a room in {town}"}


def test_c15_checkpoints_stand_before_one_tool_and_before_results(load: Load) -> None:
    agent = load(BEFORE, tools=ROOMS)
    assert say(agent, "hello").messages == ["Hello."]
    no_town = say(agent, "look", reviewed=True)
    assert (no_town.messages, called(no_town)) == (["Which town?"], [])
    other_tool = say(agent, "count", reviewed=True)
    assert (other_tool.messages, called(other_tool)) == (["7 rooms."], ["count_rooms"])
    not_reviewed = say(agent, "look", town="Porto")
    assert (not_reviewed.messages, called(not_reviewed)) == (["One moment."], ["search_rooms"])
    passed = say(agent, "look", town="Porto", reviewed=True)
    assert passed.messages == ["Found a room in Porto."]


# --- C16 to C19: ON_FAIL in one word ----------------------------------------------------------------------------


def test_c16_a_message_is_sent_and_what_was_wanted_is_stopped(rules: Rules) -> None:
    agent = rules('- REQUIRE grown_up == true\n  ON_FAIL: "Only for adults."')
    stopped = say(agent, grown_up=False)
    assert (stopped.messages, stopped.status, stopped.step) == (["Only for adults."], "blocked", "desk")
    assert [one.about for one in stopped.events if one.kind == "blocked"] == ["REQUIRE grown_up == true"]
    passed = say(agent, grown_up=True)
    assert (passed.messages, passed.status) == (["Done."], "waiting")
    assert [one.about for one in passed.events if one.kind == "blocked"] == []


def test_c16_the_session_goes_on_where_it_was_once_the_rule_holds(rules: Rules) -> None:
    session = rules('- REQUIRE grown_up == true\n  ON_FAIL: "Only for adults."', inputs=["grown_up"]).start()
    assert session.say("go").messages == ["Only for adults."]
    assert session.say("go").messages == ["Only for adults."]
    session.vars["grown_up"] = True
    assert session.say("go").messages == ["Done."]


HANDOFF = """
CONSTRAINTS:
  always:
    - REQUIRE clean == true
      ON_FAIL: HANDOFF Screening
FLOW:
  desk:
    REASONING: false
    ON_INPUT:
      - ELSE:
        RESPOND: "Done."
"""


def test_c17_a_handoff_happens_at_once_and_stays(load: Load) -> None:
    agent = load(HANDOFF, agents=[load(SCREENING)])
    session = start_fixture(agent, user="ada", vars={"clean": False})
    assert session.agent == "Clerk"
    turn = session.say("go")
    assert (turn.messages, turn.status, session.agent) == (["Screening here."], "handed_off", "Screening")
    assert session.say("and now?").messages == ["I look."]
    clean = start_fixture(agent, user="ada", vars={"clean": True})
    assert (clean.say("go").messages, clean.agent) == (["Done."], "Clerk")


def test_c17_a_handoff_uses_the_context_that_is_declared_for_it(load: Load) -> None:
    declared = """
HANDOFF:
  - TO: Screening
    CONTEXT:
      pass: [amount]
      summary: "{{amount}} looked odd"
"""
    screening = load(SCREENING.replace("Screening here.", "Screening {{amount}}{{secret}}."))
    given = {"amount": 70, "secret": "x"}
    assert say(load(HANDOFF + declared, agents=[screening]), **given).messages == ["Screening 70."]
    assert say(load(HANDOFF, agents=[screening]), **given).messages == ["Screening ."]


def test_c17_an_agent_that_is_elsewhere_is_named_to_the_program(load: Load) -> None:
    turn = say(load(HANDOFF), clean=False)
    assert (turn.messages, turn.status) == ([], "handed_off")
    assert [one.about for one in turn.events if one.kind == "handed_off"] == ["Screening"]


def test_c18_a_person_is_called(rules: Rules) -> None:
    agent = rules("- REQUIRE calm == true\n  ON_FAIL: ESCALATE")
    session = start_fixture(agent, vars={"calm": False})
    turn = session.say("go")
    assert (turn.messages, turn.status) == ([], "escalated")
    assert turn.escalation is not None
    assert "calm == true" in turn.escalation["reason"]
    assert session.say("go").messages == []
    assert say(agent, calm=True).status == "waiting"


def test_c19_a_block_says_nothing(rules: Rules) -> None:
    agent = rules("- RESTRICT attack == true\n  ON_FAIL: BLOCK")
    turn = say(agent, attack=True)
    assert (turn.messages, turn.status) == ([], "blocked")
    assert [one.about for one in turn.events if one.kind == "blocked"] == ["RESTRICT attack == true"]
    assert say(agent).messages == ["Done."]


# --- C20 to C22: ON_FAIL in several words -----------------------------------------------------------------------

PAYING = """
CONSTRAINTS:
  always:
    - REQUIRE card IS SET BEFORE calling pay
      ON_FAIL:
        RESPOND: "How do you want to pay?"
        COLLECT: [card]
        THEN: retry
FLOW:
  desk:
    REASONING: false
    ON_INPUT:
      - IF: input == "pay"
        SET: asked_for = asked_for + 1
        CALL: pay(card)
        RESPOND: "Paid with {{card}}."
      - ELSE:
        RESPOND: "Hm."
"""


def test_c20_what_is_missing_is_collected_and_the_stopped_call_is_made(load: Load) -> None:
    paid: list[str] = []
    agent = load(PAYING, tools={"pay": lambda card: paid.append(card)})
    session = start_fixture(agent, vars={"asked_for": 0})
    asked = session.say("pay")
    assert (asked.messages, paid) == (["How do you want to pay?"], [])
    answered = session.say("amex")
    assert (answered.messages, paid) == (["Paid with amex."], ["amex"])
    assert (session.vars["card"], session.vars["asked_for"]) == ("amex", 1)
    assert say(agent, "pay", card="visa").messages == ["Paid with visa."]


COLLECTING = """
MEMORY:
  session:
    - first_day
      TYPE: date
    - last_day
      TYPE: date
CONSTRAINTS:
  dates:
    - REQUIRE first_day IS SET AND last_day IS SET
      WHEN: wants_room == true
      ON_FAIL:
        RESPOND: "Which days?"
        COLLECT: [first_day, last_day]
        THEN: retry
    - REQUIRE first_day > NOW()
      WHEN: wants_room == true
      ON_FAIL:
        RESPOND: "That day is gone."
        COLLECT: [first_day]
        THEN: retry
FLOW:
  desk:
    REASONING: false
    ON_INPUT:
      - ELSE:
        RESPOND: "From {{first_day}} to {{last_day}}: {{input}}"
"""


def test_c21_a_rule_asks_again_until_it_holds(load: Load) -> None:
    session = start_fixture(load(COLLECTING), vars={"wants_room": True})
    assert session.say("a room").messages[0] == "Which days?"
    half = session.say("2025-06-01")
    assert (called(half), session.vars["first_day"], session.vars["last_day"]) == ([], "2025-06-01", None)
    gone = session.say("2026-06-04")
    assert gone.messages[0] == "That day is gone."
    assert session.vars["last_day"] == "2026-06-04"
    again = session.say("2025-06-02")
    assert again.messages[0] == "That day is gone."
    good = session.say("2026-06-01")
    assert (session.vars["first_day"], good.status) == ("2026-06-01", "waiting")


def test_c21_the_words_that_were_stopped_are_taken_up_when_the_rule_holds(load: Load) -> None:
    session = start_fixture(load(COLLECTING), vars={"wants_room": True, "last_day": "2026-06-04"})
    assert session.say("a room").messages[0] == "Which days?"
    assert session.say("2026-06-01").messages == ["From 2026-06-01 to 2026-06-04: a room"]


GOTO = """
CONSTRAINTS:
  always:
    - REQUIRE user.verified == true
      WHEN: proving != true
      ON_FAIL:
        RESPOND: "I have to know who you are."
        GOTO: prove
MEMORY:
  persistent:
    - user.verified
FLOW:
  desk:
    REASONING: false
    ON_INPUT:
      - IF: input == "pay"
        CALL: pay
        RESPOND: "Paid."
      - ELSE:
        RESPOND: "Hm."
  prove:
    REASONING: false
    SET: proving = true
    RESPOND: "Your code?"
    ON_INPUT:
      - IF: input == "1234"
        SET: user.verified = true
        THEN: desk
      - ELSE:
        RESPOND: "Wrong code."
"""


def test_c22_a_rule_leads_to_another_step_which_waits_for_words_of_its_own(load: Load, memory: Memory) -> None:
    agent = load(GOTO, tools={"pay": lambda: None})
    session = agent.start(user="ada")
    turn = session.say("pay")
    assert (turn.messages, turn.step) == (["I have to know who you are.", "Your code?"], "prove")
    assert called(turn) == []
    assert session.say("4321").messages == ["Wrong code."]
    session.say("1234")
    assert (memory.scope(user="ada").value("verified"), session.step) == (True, "desk")
    assert session.say("pay").messages == ["Paid."]
    assert agent.start(user="ada").say("pay").messages == ["Paid."]


# --- C23 and C24: warnings and texts ----------------------------------------------------------------------------

WARN = """
CONSTRAINTS:
  always:
    - WARN fraud_score < 60
      ON_FAIL: "Score {{fraud_score}} of {{who}}"
FLOW:
  desk:
    REASONING: false
    ON_INPUT:
      - ELSE:
        RESPOND: "Done, {{_constraint_warnings.length}} warnings."
"""


def test_c23_a_warning_is_logged_not_sent_and_stops_nothing(load: Load) -> None:
    agent = load(WARN)
    session = start_fixture(agent, vars={"fraud_score": 80, "who": "ada"})
    turn = session.say("go")
    assert (turn.messages, turn.status) == (["Done, 1 warnings."], "waiting")
    assert warned(turn) == ["Score 80 of ada"]
    assert session.say("go").messages == ["Done, 2 warnings."]
    low = say(agent, fraud_score=10)
    assert (low.messages, warned(low)) == (["Done,  warnings."], [])


def test_c24_a_message_tells_the_values_that_broke_the_rule(rules: Rules) -> None:
    agent = rules('- LIMIT (spent + amount) <= ceiling\n  ON_FAIL: "{{spent}} of {{ceiling}} are gone."')
    assert say(agent, spent=90, amount=20, ceiling=100).messages == ["90 of 100 are gone."]
    assert say(agent, spent=80, amount=20, ceiling=100).messages == ["Done."]


# --- order ------------------------------------------------------------------------------------------------------

MIXED = """
CONSTRAINTS:
  first:
    - WARN a > 0
      ON_FAIL: "a"
    - REQUIRE b > 0
      ON_FAIL: "b"
  second:
    - WARN c > 0
      ON_FAIL: "c"
    - REQUIRE d > 0
      ON_FAIL: "d"
FLOW:
  desk:
    REASONING: false
    ON_INPUT:
      - ELSE:
        RESPOND: "Done."
"""


@pytest.mark.parametrize(
    ("given", "messages", "warnings"),
    [
        ({"a": 1, "b": 1, "c": 1, "d": 1}, ["Done."], []),
        ({"b": 1, "d": 1}, ["Done."], ["a", "c"]),
        ({}, ["b"], ["a"]),
        ({"b": 1}, ["d"], ["a", "c"]),
        ({"a": 1, "c": 1}, ["b"], []),
    ],
)
def test_rules_are_looked_at_in_the_order_of_the_file_until_the_first_error(
    load: Load, given: dict[str, Any], messages: list[str], warnings: list[str]
) -> None:
    turn = say(load(MIXED), **given)
    assert (turn.messages, warned(turn)) == (messages, warnings)


def test_only_the_first_error_is_answered_and_counted(load: Load) -> None:
    agent = load(
        with_inputs("b", "d") + MIXED.replace('RESPOND: "Done."', 'RESPOND: "{{constraint_failures}} failures"'),
    )
    session = agent.start()
    session.say("go")
    session.say("go")
    session.vars["b"] = session.vars["d"] = 1
    assert session.say("go").messages == ["2 failures"]


def test_rules_are_looked_at_in_every_turn_and_not_before_the_user_said_something(load: Load) -> None:
    agent = load(
        """
        MEMORY:
          session:
            - open
              INPUT: true
        CONSTRAINTS:
          always:
            - REQUIRE open == true
              ON_FAIL: "Closed."
        FLOW:
          desk:
            REASONING: false
            RESPOND: "Welcome."
            ON_INPUT:
              - ELSE:
                RESPOND: "Done."
        """
    )
    session = agent.start(vars={"open": True})
    assert session.opening.messages == ["Welcome."]
    assert session.say("go").messages == ["Done."]
    session.vars["open"] = False
    assert session.say("go").messages == ["Closed."]
    session.vars["open"] = True
    assert session.say("go").messages == ["Done."]


def test_a_rule_sees_what_the_words_of_the_turn_gave(load: Load) -> None:
    agent = load(
        """
        CONSTRAINTS:
          always:
            - LIMIT guests <= 4
              ON_FAIL: "{{guests}} are too many."
        FLOW:
          ask:
            REASONING: false
            GATHER:
              - guests:
                type: number
                prompt: "How many?"
            THEN: book
          book:
            REASONING: false
            CALL: book(guests)
            RESPOND: "Booked for {{guests}}."
        """,
        tools={"book": lambda guests: None},
    )
    session = agent.start()
    refused = session.say("9")
    assert (refused.messages[0], called(refused)) == ("9 are too many.", [])
    passed = session.say("3")
    assert (passed.messages, called(passed)) == (["Booked for 3."], ["book"])


def test_a_broken_rule_changes_no_variable(rules: Rules) -> None:
    session = rules('- REQUIRE a == b\n  ON_FAIL: "no"', inputs=["a", "b"]).start(vars={"a": 1, "b": 2})
    before = dict(session.vars)
    assert session.say("go").messages == ["no"]
    assert dict(session.vars) == before
    session.vars["b"] = 1
    assert session.say("go").messages == ["Done."]


def test_what_a_stopped_turn_set_is_remembered_all_the_same(load: Load, memory: Memory) -> None:
    agent = load(
        """
        MEMORY:
          remember:
            - WHEN: guests IS SET
              STORE: guests -> user.party
        CONSTRAINTS:
          always:
            - LIMIT guests <= 4
              ON_FAIL: "Too many."
        FLOW:
          ask:
            REASONING: false
            GATHER:
              - guests:
                type: number
            THEN: COMPLETE
        """
    )
    session = agent.start(user="ada")
    assert memory.scope(user="ada").get("party") is None
    assert session.say("9").messages[0] == "Too many."
    assert memory.scope(user="ada").value("party") == 9


# --- gates, implications, and what is not set -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        ("REQUIRE ok == true", {(True, False)}),
        ("LIMIT cost <= 10", {(True, False)}),
        ("RESTRICT bad == true", {(True, False)}),
        ("WARN ok == true", {(True, False)}),
    ],
)
@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize("good", [True, False])
def test_a_gate_opens_each_kind_of_rule(
    rules: Rules, rule: str, broken: set[tuple[bool, bool]], gate: bool, good: bool
) -> None:
    agent = rules(f'- {rule}\n  WHEN: gate == true\n  ON_FAIL: "no"')
    turn = say(agent, gate=gate, ok=good, cost=1 if good else 11, bad=not good)
    is_broken = (gate, good) in broken
    said = "Done." if rule.startswith("WARN") or not is_broken else "no"
    assert turn.messages == [said]
    assert warned(turn) == (["no"] if rule.startswith("WARN") and is_broken else [])


@pytest.mark.parametrize(
    ("given", "said"),
    [({"a": 1, "b": 1}, "Done."), ({"a": 1, "b": 2}, "no"), ({"a": 2, "b": 2}, "Done."), ({"a": 2, "b": 1}, "Done.")],
)
def test_an_implication_binds_only_where_its_left_side_holds(rules: Rules, given: dict[str, Any], said: str) -> None:
    assert say(rules('- REQUIRE a == 1 IMPLIES b == 1\n  ON_FAIL: "no"'), **given).messages == [said]


def test_an_implication_in_restrict_is_pointed_out(rules: Rules) -> None:
    backwards = rules('- RESTRICT a == 1 IMPLIES b == 1\n  ON_FAIL: "no"')
    assert "implies_in_restrict" in codes(backwards)
    assert say(backwards, a=2).messages == ["no"]
    assert "implies_in_restrict" not in codes(rules('- REQUIRE a == 1 IMPLIES b == 1\n  ON_FAIL: "no"'))


def test_an_equality_with_an_unset_variable_fails_and_a_comparison_of_two_passes(rules: Rules) -> None:
    verified = rules('- REQUIRE verified == true\n  ON_FAIL: "no"')
    within = rules('- LIMIT amount <= limit\n  ON_FAIL: "no"')
    assert say(verified).messages == ["no"]
    assert say(verified, verified=True).messages == ["Done."]
    assert say(within).messages == ["Done."]
    assert say(within, amount=1).messages == ["no"]


# --- checkpoints ------------------------------------------------------------------------------------------------


def test_a_rule_before_a_tool_is_looked_at_right_before_it_and_only_then(load: Load) -> None:
    agent = load(
        """
        CONSTRAINTS:
          always:
            - REQUIRE ready == true BEFORE calling pay
              ON_FAIL: "Not ready."
        FLOW:
          desk:
            REASONING: false
            ON_INPUT:
              - IF: input == "pay"
                CALL: prepare
                SET: ready = call_result
                CALL: pay
                RESPOND: "Paid."
              - ELSE:
                RESPOND: "Hm."
        """,
        tools={"prepare": lambda: True, "pay": lambda: None},
    )
    assert say(agent, "hello", ready=False).messages == ["Hm."]
    turn = say(agent, "pay", ready=False)
    assert (turn.messages, called(turn)) == (["Paid."], ["prepare", "pay"])


def test_what_stood_before_a_stopped_call_happened_and_what_stands_after_it_did_not(load: Load) -> None:
    agent = load(
        """
        CONSTRAINTS:
          always:
            - REQUIRE ready == true BEFORE calling pay
              ON_FAIL: "Not ready."
        FLOW:
          desk:
            REASONING: false
            ON_INPUT:
              - ELSE:
                CALL: prepare
                CALL: pay
                RESPOND: "Paid."
                THEN: COMPLETE
        """,
        tools={"prepare": lambda: None, "pay": lambda: None},
    )
    stopped = say(agent)
    assert (stopped.messages, called(stopped), stopped.status) == (["Not ready."], ["prepare"], "blocked")
    passed = say(agent, ready=True)
    assert (passed.messages, called(passed), passed.status) == (["Paid."], ["prepare", "pay"], "completed")


REASONING = """
TOOLS:
  pay(amount: number) -> {ok: boolean}
CONSTRAINTS:
  always:
    - LIMIT amount_left >= 0
      ON_FAIL: "Nothing is left."
    - REQUIRE ready == true BEFORE calling pay
      ON_FAIL: "Not ready."
FLOW:
  talk:
    REASONING: true
    GOAL: "Pay bills"
    AVAILABLE_TOOLS: [pay]
"""


def test_a_rule_before_a_tool_holds_for_the_model_too(load: Load, puppet: Any) -> None:
    paid: list[float] = []
    calls = Reply(calls=(ToolCall("1", "pay", {"amount": 5}),))
    agent = load(REASONING, tools={"pay": lambda amount: paid.append(amount)}, model=puppet("Hi.", calls, "Paid."))
    session = start_fixture(agent, vars={"ready": False})
    assert (session.say("pay it").messages, paid) == (["Not ready."], [])
    ready = load(REASONING, tools={"pay": lambda amount: paid.append(amount)}, model=puppet("Hi.", calls, "Paid."))
    session = start_fixture(ready, vars={"ready": True})
    assert (session.say("pay it").messages, paid) == (["Paid."], [5])


def test_a_handoff_of_a_rule_takes_the_model_out_at_once(load: Load, puppet: Any) -> None:
    text = REASONING.replace('ON_FAIL: "Not ready."', "ON_FAIL: HANDOFF Screening")
    calls = Reply(calls=(ToolCall("1", "pay", {"amount": 5}),))
    model = puppet("Hi.", calls, "Paid.")
    agent = load(text, tools={"pay": lambda amount: None}, model=model, agents=[load(SCREENING)])
    turn = start_fixture(agent, vars={"ready": False}).say("pay it")
    assert (turn.messages, turn.agent) == (["Screening here."], "Screening")
    assert (called(turn), len(model.asked)) == ([], 2)


RETURNING = """
MEMORY:
  session:
    - reviewed
      INPUT: true
CONSTRAINTS:
  always:
    - REQUIRE reviewed == true BEFORE returning results
      ON_FAIL: "One moment."
FLOW:
  desk:
    REASONING: false
    RESPOND: "Welcome."
    ON_INPUT:
      - IF: input == "look"
        CALL: look
        RESPOND: "Found {{call_result}}."
      - IF: input == "bye"
        RESPOND: "Goodbye."
        THEN: COMPLETE
      - ELSE:
        RESPOND: "Hm."
"""


def test_results_are_held_back_until_the_rule_lets_them_pass(load: Load) -> None:
    session = load(RETURNING, tools={"look": lambda: "a ring"}).start()
    assert session.opening.messages == ["Welcome."]
    held = session.say("look")
    assert (held.messages, held.status) == (["One moment."], "blocked")
    assert session.say("and?").messages == ["One moment."]
    session.vars["reviewed"] = True
    freed = session.say("and?")
    assert freed.messages[0] == "Found a ring."
    assert session.say("look").messages == ["Found a ring."]


def test_the_end_of_the_flow_is_a_result(load: Load) -> None:
    agent = load(RETURNING, tools={"look": lambda: "a ring"})
    session = agent.start()
    assert (session.say("bye").messages, session.step) == (["One moment."], None)
    session.vars["reviewed"] = True
    freed = session.say("so?")
    assert (freed.messages, freed.status) == (["Goodbye."], "completed")
    assert say(agent, "bye", reviewed=True).messages == ["Goodbye."]


def test_every_reply_can_be_made_a_result(load: Load) -> None:
    options = {"tools": {"look": lambda: "a ring"}}
    assert say(load(RETURNING, **options), "hello").messages == ["Hm."]
    strict = load(RETURNING, behaviour=Behaviour(returning="every_reply"), **options)
    session = start_fixture(strict, vars={"reviewed": True})
    assert (session.opening.messages, session.say("hello").messages) == (["Welcome."], ["Hm."])
    session.vars["reviewed"] = False
    assert session.say("hello").messages == ["One moment."]


def test_a_rule_before_something_else_lets_calls_and_results_pass_too(load: Load) -> None:
    text = """
CONSTRAINTS:
  always:
    - REQUIRE ready == true BEFORE {checkpoint}
      ON_FAIL: "no"
FLOW:
  desk:
    REASONING: false
    ON_INPUT:
      - ELSE:
        CALL: book
        RESPOND: "Booked."
        THEN: COMPLETE
"""
    tools = {"book": lambda: 1}
    assert say(load(text.replace("{checkpoint}", "booking"), tools=tools)).messages == ["Booked."]
    assert say(load(text.replace("{checkpoint}", "returning results"), tools=tools)).messages == ["no"]
    assert say(load(text.replace("{checkpoint}", "calling book"), tools=tools)).messages == ["no"]


# --- CHECK, severity, and rules without an answer ---------------------------------------------------------------


def test_a_check_without_an_answer_stops_the_step(load: Load) -> None:
    agent = load(
        """
        FLOW:
          desk:
            REASONING: false
            RESPOND: "Before."
            CHECK: b == 1
            RESPOND: "After."
        """
    )
    assert start_fixture(agent, vars={"b": 2}).opening.messages == ["Before."]
    assert start_fixture(agent, vars={"b": 1}).opening.messages == ["Before.", "After."]


def test_severity_makes_any_rule_a_warning(rules: Rules) -> None:
    soft = say(rules('- REQUIRE a == 1\n  severity: warning\n  ON_FAIL: "no"'))
    assert (soft.messages, warned(soft)) == (["Done."], ["no"])
    hard = say(rules('- REQUIRE a == 1\n  severity: error\n  ON_FAIL: "no"'))
    assert (hard.messages, warned(hard)) == (["no"], [])


def test_a_rule_without_an_answer_says_that_it_is_not_possible(rules: Rules) -> None:
    bare = rules("- REQUIRE a == 1")
    assert "no_on_fail" in codes(bare)
    refused = say(bare)
    assert (len(refused.messages), refused.status) == (1, "blocked")
    assert refused.messages != ["Done."]
    assert say(bare, a=1).messages == ["Done."]
    assert "no_on_fail" not in codes(rules('- REQUIRE a == 1\n  ON_FAIL: "no"'))


def test_a_sentence_among_the_rules_is_no_rule(rules: Rules) -> None:
    agent = rules('- "Always be polite"\n- REQUIRE a == 1\n  ON_FAIL: "no"')
    assert "no_rule" in codes(agent)
    assert (say(agent).messages, say(agent, a=1).messages) == (["no"], ["Done."])


# --- ON_FAIL in several words: every combination ----------------------------------------------------------------


def flow_with_rule(load: Load, failure: str, **options: Any) -> Session:
    """Start an agent whose only tool is guarded by a rule with this failure."""
    below = indent(dedent(failure).strip("\n"), " " * 8)
    agent = load(
        "CONSTRAINTS:\n"
        "  always:\n"
        "    - REQUIRE pin == 42 BEFORE calling open_safe\n"
        f"      ON_FAIL:\n{below}\n"
        "MEMORY:\n"
        "  session:\n"
        "    - pin\n"
        "      TYPE: number\n"
        "      INPUT: true\n"
        "FLOW:\n"
        "  desk:\n"
        "    REASONING: false\n"
        "    ON_INPUT:\n"
        "      - ELSE:\n"
        "        THEN: safe\n"
        "  safe:\n"
        "    REASONING: false\n"
        '    RESPOND: "Opening."\n'
        "    CALL: open_safe\n"
        '    RESPOND: "Open."\n'
        "  help:\n"
        "    REASONING: false\n"
        '    RESPOND: "Help is here."\n'
        "    ON_INPUT:\n"
        "      - ELSE:\n",
        tools={"open_safe": lambda: None},
        **options,
    )
    return agent.start()


def test_respond_alone_answers_and_stops(load: Load) -> None:
    session = flow_with_rule(load, 'RESPOND: "PIN?"')
    turn = session.say("go")
    assert (turn.messages, turn.status, called(turn)) == (["Opening.", "PIN?"], "blocked", [])
    session.vars["pin"] = 42
    opened = session.say("go")
    assert (opened.messages[-1], called(opened)) == ("Open.", ["open_safe"])


def test_collect_alone_looks_again(load: Load) -> None:
    session = flow_with_rule(load, "COLLECT: [pin]")
    asked = session.say("go")
    assert (len(asked.messages), asked.status) == (2, "blocked")
    assert "pin" in asked.messages[1]
    wrong = session.say("41")
    assert (wrong.status, called(wrong), session.vars["pin"]) == ("blocked", [], 41)
    right = session.say("42")
    assert (right.messages, called(right)) == (["Open."], ["open_safe"])


def test_collect_then_retry_looks_again(load: Load) -> None:
    session = flow_with_rule(load, 'RESPOND: "PIN?"\nCOLLECT: [pin]\nTHEN: retry')
    assert session.say("go").messages == ["Opening.", "PIN?"]
    assert session.say("41").messages == ["PIN?"]
    assert session.say("42").messages == ["Open."]


def test_continue_excuses_the_rule_once(load: Load) -> None:
    agent = load(
        """
        CONSTRAINTS:
          always:
            - REQUIRE pin == 42 BEFORE calling open_safe
              ON_FAIL:
                RESPOND: "PIN?"
                COLLECT: [pin]
                THEN: continue
        FLOW:
          desk:
            REASONING: false
            ON_INPUT:
              - ELSE:
                CALL: open_safe
                RESPOND: "Open."
        """,
        tools={"open_safe": lambda: None},
    )
    session = agent.start()
    assert session.say("go").messages == ["PIN?"]
    assert session.say("41").messages == ["Open."]
    assert session.say("go").messages == ["PIN?"]


def test_respond_then_continue_warns_and_goes_on(load: Load) -> None:
    turn = flow_with_rule(load, 'RESPOND: "Careful."\nTHEN: continue').say("go")
    assert (turn.messages, called(turn)) == (["Opening.", "Careful.", "Open."], ["open_safe"])


def test_goto_leads_elsewhere_after_the_message(load: Load) -> None:
    turn = flow_with_rule(load, 'RESPOND: "No."\nGOTO: help').say("go")
    assert (turn.messages, turn.step, called(turn)) == (["Opening.", "No.", "Help is here."], "help", [])


def test_goto_beats_retry(load: Load) -> None:
    turn = flow_with_rule(load, "GOTO: help\nRETRY: true").say("go")
    assert (turn.messages, turn.step) == (["Opening.", "Help is here."], "help")


@pytest.mark.parametrize("failure", ["RETRY: true", "THEN: retry", 'RESPOND: "PIN?"\nRETRY: true'])
def test_a_retry_that_changes_nothing_ends_at_a_limit(load: Load, failure: str) -> None:
    session = flow_with_rule(load, failure, behaviour=Behaviour(retries=2))
    turn = session.say("go")
    assert (turn.messages.count("Opening."), turn.status, called(turn)) == (3, "blocked", [])
    assert [one.about for one in turn.events if one.kind == "stopped"] == ["repeating"]
    session.vars["pin"] = 42
    assert session.say("go").messages[-1] == "Open."


def test_a_retry_runs_the_step_again_and_may_succeed(load: Load) -> None:
    agent = load(
        """
        CONSTRAINTS:
          always:
            - REQUIRE fresh > 1 BEFORE calling open_safe
              ON_FAIL:
                RESPOND: "Once more."
                RETRY: true
        FLOW:
          safe:
            REASONING: false
            SET: fresh = fresh + 1
            CALL: open_safe
            RESPOND: "Open."
        """,
        tools={"open_safe": lambda: None},
    )
    opening = start_fixture(agent, vars={"fresh": 0}).opening
    assert (opening.messages, entered(opening)) == (["Once more.", "Open."], ["safe", "safe"])
    assert start_fixture(agent, vars={"fresh": 1}).opening.messages == ["Open."]


def test_an_answer_to_collect_is_checked_against_its_type(load: Load) -> None:
    session = flow_with_rule(load, 'RESPOND: "PIN?"\nCOLLECT: [pin]')
    session.say("go")
    turn = session.say("I have forgotten it")
    assert (called(turn), session.vars["pin"]) == ([], None)
    assert session.say("42").messages == ["Open."]


def test_several_values_are_collected_one_after_the_other(load: Load) -> None:
    agent = load(
        """
        MEMORY:
          session:
            - pin
              TYPE: number
            - colour
              TYPE: string
        CONSTRAINTS:
          always:
            - REQUIRE pin IS SET AND colour IS SET BEFORE calling open_safe
              ON_FAIL:
                RESPOND: "PIN and colour?"
                COLLECT: [pin, colour]
                THEN: retry
        FLOW:
          desk:
            REASONING: false
            ON_INPUT:
              - ELSE:
                CALL: open_safe
                RESPOND: "Open."
        """,
        tools={"open_safe": lambda: None},
    )
    session = agent.start()
    assert session.say("go").messages == ["PIN and colour?"]
    second = session.say("42")
    assert called(second) == []
    assert "colour" in second.messages[0]
    assert session.say("red").messages == ["Open."]
    assert (session.vars["pin"], session.vars["colour"]) == (42, "red")


def test_what_a_rule_collects_survives_a_restart(load: Load, memory: Memory) -> None:
    session = flow_with_rule(load, 'RESPOND: "PIN?"\nCOLLECT: [pin]')
    session.say("go")
    turn = memoranda.abl.resume(memory, session.id).say("42")
    assert (turn.messages, called(turn)) == (["Open."], ["open_safe"])


# --- a rule of every turn cannot be got around ------------------------------------------------------------------

GUARDED = """
CONSTRAINTS:
  always:
    - REQUIRE verified == true
      ON_FAIL:
        RESPOND: "Who are you?"
        {failure}
FLOW:
  desk:
    REASONING: false
    RESPOND: "Desk."
    ON_INPUT:
      - IF: input == "pay"
        CALL: pay
        RESPOND: "Paid."
      - ELSE:
        RESPOND: "Hm."
    DIGRESSIONS:
      - INTENT: "cancel everything"
        CALL: pay
        RESPOND: "Cancelled."
        RESUME: true
  prove:
    REASONING: false
    RESPOND: "Your code?"
    ON_INPUT:
      - ELSE:
        RESPOND: "Wrong code."
"""


@pytest.mark.parametrize("failure", ["RETRY: true", "THEN: retry", "GOTO: prove", "COLLECT: [code]"])
@pytest.mark.parametrize("words", ["pay", "cancel everything"])
def test_what_a_rule_stopped_does_not_happen_in_the_same_turn(load: Load, failure: str, words: str) -> None:
    agent = load(GUARDED.replace("{failure}", failure), tools={"pay": lambda: None})
    stopped = say(agent, words)
    assert stopped.messages[0] == "Who are you?"
    assert (called(stopped), "Paid." in stopped.messages, "Cancelled." in stopped.messages) == ([], False, False)
    assert "Wrong code." not in stopped.messages
    assert called(say(agent, words, verified=True)) == ["pay"]


def test_continue_lets_what_was_wanted_happen(load: Load) -> None:
    agent = load(GUARDED.replace("{failure}", "THEN: continue"), tools={"pay": lambda: None})
    turn = say(agent, "pay")
    assert (turn.messages, called(turn)) == (["Who are you?", "Paid."], ["pay"])


def test_an_unknown_step_in_goto_is_a_fault_of_the_file(load: Load) -> None:
    assert load(GUARDED.replace("{failure}", "GOTO: prove")).name == "Clerk"
    with pytest.raises(SourceError) as caught:
        load(GUARDED.replace("{failure}", "GOTO: nowhere"))
    assert [one.code for one in caught.value.diagnostics if one.severity == "error"] == ["unknown_step"]
