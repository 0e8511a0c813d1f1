"""The forms in which people write agents, each with an agent of its own: they load, run, and say what has no effect."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import memoranda
from memoranda import Memory, SourceError
from memoranda.abl import Agent

END = """
FLOW:
  only:
    REASONING: false
    RESPOND: "Fine."
    THEN: COMPLETE
"""


class Judge:
    """A model that answers each kind of request with one answer, and keeps the prompts."""

    def __init__(self, text: str = "Well.", **answers: Any) -> None:
        self._text = text
        self._answers = answers
        self.prompts: list[str] = []
        self.model = FunctionModel(self._reply)

    def _reply(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.prompts.append("\n".join(str(message) for message in messages if isinstance(message, ModelRequest)))
        for tool in info.output_tools:
            wanted = tool.parameters_json_schema.get("properties", {})
            if wanted.keys() & self._answers.keys():
                given = {name: self._answers[name] for name in wanted.keys() & self._answers.keys()}
                return ModelResponse(parts=[ToolCallPart(tool.name, given)])
            return ModelResponse(parts=[ToolCallPart(tool.name, {})])
        return ModelResponse(parts=[TextPart(self._text)])


def warnings_of(agent: Agent, code: str) -> list[str]:
    return [one.message for one in agent.diagnostics if (one.code, one.severity) == (code, "warning")]


# --- what a broken rule does, in one line ------------------------------------------------------------------------


def ship(weight: float) -> None:
    raise AssertionError("the rule forbids it")


def rule(on_fail: str) -> str:
    return f"""
CONSTRAINTS:
  - REQUIRE weight < 20 BEFORE calling ship
    ON_FAIL: {on_fail}
FLOW:
  weigh:
    REASONING: false
    SET: weight = 30
    CALL: ship(weight)
    RESPOND: "Shipped."
    THEN: COMPLETE
  scales:
    REASONING: false
    RESPOND: "Please use the scales."
    THEN: COMPLETE
"""


@pytest.mark.parametrize(
    ("on_fail", "status", "messages"),
    [
        ("BLOCK", "blocked", []),
        ("block", "blocked", []),
        ('Block "too heavy"', "blocked", []),
        ("escalate", "escalated", []),
        ("Escalate", "escalated", []),
        ('ESCALATE "Too heavy: {{weight}}"', "escalated", []),
        ("GOTO scales", "completed", ["Please use the scales."]),
        ("goto scales", "completed", ["Please use the scales."]),
        ("Handoff Porter", "handed_off", []),
        ('"Block it."', "blocked", ["Block it."]),
    ],
)
def test_a_word_of_on_fail_is_never_sent_to_the_user(load: Any, on_fail: str, status: str, messages: list[str]) -> None:
    turn = load(rule(on_fail), tools={"ship": ship}).start().opening
    assert (turn.status, turn.messages) == (status, messages)


def test_an_escalation_of_a_rule_has_its_reason(load: Any) -> None:
    said = 'ESCALATE "Too heavy: {{weight}}"'
    turn = load(rule(said), tools={"ship": ship}).start().opening
    assert turn.escalation["reason"] == "Too heavy: 30"


def test_a_step_that_a_rule_goes_to_has_to_exist(load: Any) -> None:
    with pytest.raises(SourceError) as caught:
        load(rule("GOTO scale"))
    assert [(one.code, one.hint) for one in caught.value.diagnostics if one.severity == "error"] == [
        ("unknown_step", "Did you mean `scales`?")
    ]


def test_an_agent_that_a_rule_hands_over_to_is_declared_or_loaded_or_warned_about(load: Any) -> None:
    porter = load(END, name="Porter")
    near = load(rule("HANDOFF Proter"), agents=[porter])
    (found,) = [one for one in near.diagnostics if one.code == "unknown_agent"]
    assert (found.severity, found.hint) == ("warning", "Did you mean `Porter`?")
    assert warnings_of(load(rule("HANDOFF Porter"), agents=[porter]), "unknown_agent") == []
    declared = "HANDOFF:\n  - TO: Porter\n"
    assert warnings_of(load(rule("HANDOFF Porter"), declared), "unknown_agent") == []


# --- conditions in plain language ----------------------------------------------------------------------------------

ROUTER = """
HANDOFF:
  - TO: Bakery
    WHEN: user asks about bread, rolls, or cakes
  - TO: Dairy
    WHEN: "the customer wants milk or cheese"
"""


def test_a_sentence_is_judged_by_the_model(load: Any, memory: Memory) -> None:
    judge = Judge("What do you need?", true=[2])
    dairy = load(END, name="Dairy")
    shop = load(ROUTER, kind="SUPERVISOR", name="Shop", agents=[dairy], model=judge.model)
    turn = shop.start().say("A litre of the fresh one, please")
    assert (turn.agent, turn.messages[-1]) == ("Dairy", "Fine.")
    asked = next(prompt for prompt in judge.prompts if "Which of these statements" in prompt)
    assert "1. user asks about bread, rolls, or cakes" in asked
    assert "2. the customer wants milk or cheese" in asked


def test_a_sentence_is_never_true_without_a_model_and_load_says_so(load: Any) -> None:
    shop = load(ROUTER, kind="SUPERVISOR", name="Shop")
    assert len(warnings_of(shop, "only_words")) == 2
    assert shop.start().say("the customer wants milk or cheese").status == "waiting"


def test_a_condition_with_a_mistake_is_still_an_error(load: Any) -> None:
    with pytest.raises(SourceError):
        load("HANDOFF:\n  - TO: Bakery\n    WHEN: intent == \n")
    with pytest.raises(SourceError):
        load("HANDOFF:\n  - TO: Bakery\n    WHEN: bread IS SETT AND fresh\n")


# --- returns ------------------------------------------------------------------------------------------------------

TILL = """
MEMORY:
  session:
    - total
FLOW:
  sum:
    REASONING: false
    SET: total = 12
    THEN: COMPLETE
"""
COUNTER = """
MEMORY:
  session:
    - to_pay
HANDOFF:
  - TO: Till
    WHEN: input contains "pay"
    RETURN: true
    ON_RETURN: "tell the price kindly"
    MAP:
      total: to_pay
FLOW:
  hello:
    REASONING: false
    RESPOND: "Anything else?"
    ON_INPUT:
      - ELSE:
        RESPOND: "Let me see."
"""


def test_map_of_a_handoff_brings_values_back_and_a_text_of_on_return_is_told_to_the_model(load: Any) -> None:
    counter = load(COUNTER, agents=[load(TILL, name="Till")])
    assert warnings_of(counter, "only_words") == [
        "`tell the price kindly` is not a return handler: only a model is told"
    ]
    session = counter.start()
    session.say("I want to pay")
    assert session.vars["to_pay"] == 12
    assert session._state.frames[0].told == ["tell the price kindly"]


# --- layout -------------------------------------------------------------------------------------------------------


def test_sections_may_be_indented_below_the_agent_and_labels_may_have_comments(memory: Memory) -> None:
    agent = memoranda.abl.load(
        """
AGENT: Gate
  GOAL: "Let people in"
  CONSTRAINTS:
    tickets: # only a label
      REQUIRE ticket IS SET BEFORE calling open_gate
        ON_FAIL: "A ticket, please."
  FLOW:
    ask:
      REASONING: false
      CLEAR: [ticket]   # from the last visitor
      CALL: open_gate()
      THEN: COMPLETE
""",
        memory=memory,
        tools={"open_gate": lambda: None},
    )
    assert len([one for one in agent.diagnostics if one.code == "inline_comment"]) == 2
    assert agent.start().opening.messages == ["A ticket, please."]


def test_a_file_may_hold_several_agents(memory: Memory) -> None:
    text = """
AGENT: Front
GOAL: "Welcome"
FLOW:
  hello:
    REASONING: false
    RESPOND: "Welcome."
    THEN: HANDOFF Back

AGENT: Back
GOAL: "Serve"
FLOW:
  serve:
    REASONING: false
    RESPOND: "Here you are."
    THEN: COMPLETE
"""
    turn = memoranda.abl.load(text, memory=memory).start().opening
    assert turn.messages == ["Welcome.", "Here you are."]
    assert memoranda.abl.check(text) == ()
    (wrong,) = memoranda.abl.check(text.replace("THEN: COMPLETE", "THEN: sleep"))
    assert (wrong.code, text.replace("THEN: COMPLETE", "THEN: sleep")[wrong.span.start : wrong.span.end]) == (
        "unknown_step",
        "sleep",
    )


def test_steps_may_be_written_beside_the_flow(memory: Memory) -> None:
    agent = memoranda.abl.load(
        """
AGENT: Bell
GOAL: "Ring"
FLOW:
  entry_point: ring
  steps:
    - ring

ring:
  REASONING: false
  RESPOND: "Ding."
  THEN: COMPLETE
""",
        memory=memory,
    )
    assert agent.diagnostics == ()
    assert agent.start().opening.messages == ["Ding."]


@pytest.mark.parametrize(
    "text",
    [
        "- TO: Porter\n  WHEN: heavy == true\n  RETURN: true\n",
        "context_for_human:\n  - NAME: case\n    TEMPLATE: '{{case}}'\n",
        "WHEN: a == 1\n\n# or\nWHEN: b == 2\n",
        "ON_FAIL: BLOCK\nON_FAIL: ESCALATE\n",
        "FLOW:\n  steps:\n    - one\n    - two\n",
        "FLOW:\n  steps:\n    - one\n\none:\n  REASONING: false\n  RESPOND: hi\n",
        "CONTEXT:\n  pass: [a]\n  history: last_n: 10\n",
        "INPUT:\n  name: guest   # of the parent\n",
        "FLOW:\n  one:\n    RESPOND: hi\n",
        "AGENT: One\nAGENT: Two\n",
        "triggers:\n  - WHEN: tries > 3\n    PRIORITY: 2\n",
    ],
)
def test_a_part_of_an_agent_can_be_read_alone(text: str) -> None:
    assert [one for one in memoranda.abl.check(text, fragment=True) if one.severity == "error"] == []


def test_memory_in_the_forms_of_other_documents(load: Any) -> None:
    agent = load(
        """
        MEMORY:
          basket:
            type: object[]
          persistent:
            - user.visits
              TYPE: array<string>
          remember:
            - WHEN: shop IS SET
              STORE:
                {shop: shop, at: now} -> user.visits
        FLOW:
          only:
            REASONING: false
            SET: shop = "north"
            THEN: COMPLETE
        """
    )
    memory = agent.document.memory
    assert [(one.name.text, one.type) for one in memory.session] == [("basket", "array")]
    assert memory.persistent[0].type == "array"
    assert [one.kind for one in agent.start(user="ada").opening.events] == ["remembered", "completed"]


def test_a_map_may_be_in_quotes(load: Any) -> None:
    agent = load(
        """
        FLOW:
          sort:
            REASONING: false
            SET: rows = [{n: 2}, {n: 1}]
            TRANSFORM:
              SOURCE: rows AS row
              INTO: sorted
              MAP: "{number: row.n, twice: row.n * 2}"
              SORT_BY: number
            RESPOND: "{{sorted[0].twice}} {{sorted[1].twice}}"
            THEN: COMPLETE
        """
    )
    assert agent.start().opening.messages == ["2 4"]


def test_parts_that_are_not_run_have_a_warning_with_their_name(load: Any) -> None:
    agent = load(
        """
        USE BEHAVIOR_PROFILE: by_phone
        GUARDRAILS:
          polite:
            kind: output
        BEHAVIOR_PROFILE: hurried
        PRIORITY: 3
        WHEN: channel == "sms"
        INSTRUCTIONS: "Be short."
        """,
        END,
    )
    named = " ".join(warnings_of(agent, "not_acted_on"))
    for word in ("USE BEHAVIOR_PROFILE", "GUARDRAILS", "BEHAVIOR_PROFILE", "PRIORITY", "WHEN", "INSTRUCTIONS"):
        assert f"`{word}` has no effect" in named
    assert agent.start().opening.messages == ["Fine."]


# --- tools --------------------------------------------------------------------------------------------------------


def test_tools_may_be_a_list_of_names_with_descriptions_and_have_an_address_in_common(load: Any) -> None:
    agent = load(
        """
        TOOLS:
          file: "./more.tools.abl" [find]
          base_url: "https://stock.example/v1/"
          auth: bearer
          timeout: 700
          headers:
            Accept: "text/plain"
          - count: "Count what is there"
          find(name: string) -> object
            endpoint: "/items/{{name}}"
            timeout: 900
        """,
        END,
    )
    count, find = agent.document.tools
    assert (count.name.text, count.description.text) == ("count", "Count what is there")
    assert (find.endpoint.text, find.auth, find.timeout) == ("https://stock.example/v1/items/{{name}}", "bearer", 900)
    assert [header.name.text for header in find.headers] == ["Accept"]
    assert warnings_of(agent, "not_acted_on") == ["`file` has no effect: tools of another file"]


# --- choices ------------------------------------------------------------------------------------------------------

CHOICES = """
FLOW:
  offer:
    REASONING: false
    RESPOND: "Which colour?"
      ACTIONS:
        - BUTTON: "Dark red"
          ID: red
          VALUE: "r"
        - SELECT: "Others"
          ID: others
          OPTIONS:
            - {id: blue, label: "Sky blue"}
    ON_ACTION:
      - ACTION_ID: red
        SET: colour = "red"
        RESPOND: "Red it is."
        THEN: COMPLETE
      - ACTION: blue
        RESPOND: "Blue it is."
        THEN: COMPLETE
"""


@pytest.mark.parametrize(
    ("said", "messages"),
    [("dark red", ["Red it is."]), ("R", ["Red it is."]), ("Sky blue", ["Blue it is."]), ("green", [])],
)
def test_choices_are_shown_as_text_and_taken_by_their_names(load: Any, said: str, messages: list[str]) -> None:
    session = load(CHOICES).start()
    assert session.opening.messages == ["Which colour?\n- Dark red\n- Sky blue"]
    assert session.say(said).messages == messages


def test_choices_with_arrows_and_handlers_as_blocks(load: Any) -> None:
    session = load(
        """
        FLOW:
          offer:
            REASONING: false
            RESPOND: "What now?"
            ACTIONS:
              - BUTTON: "Track it" -> track
              - BUTTON: "Leave" -> leave
            ON_ACTION:
              track:
                DO:
                  - SET: place = "Porto"
                  - RESPOND: "It is in {{place}}."
              leave:
                RESPOND: "Goodbye."
                COMPLETE: true
        """
    ).start()
    assert session.opening.messages == ["What now?\n- Track it\n- Leave"]
    assert session.say("track it").messages == ["It is in Porto."]
    turn = session.say("leave")
    assert (turn.messages, turn.status) == (["Goodbye."], "completed")


# --- errors and logs ------------------------------------------------------------------------------------------------


def test_escalate_and_log_below_an_error(load: Any, told: Any) -> None:
    def lift(floor: int) -> None:
        raise OSError("stuck")

    agent = load(
        """
        FLOW:
          go:
            REASONING: false
            SET: floor = 7
            LOG: "going to {{floor}}"
            CALL: lift(floor)
            THEN: COMPLETE
        ON_ERROR:
          tool_error:
            LOG: {floor}
            RESPOND: "One moment."
            ESCALATE: "The lift is stuck at {{floor}}"
        """,
        tools={"lift": lift},
    )
    turn = agent.start().opening
    assert (turn.status, turn.messages) == ("escalated", ["One moment."])
    assert turn.escalation["reason"] == "The lift is stuck at 7"
    assert told(turn, "logged") == ["logged going to 7", "logged: floor 7"]


def test_instructions_of_a_reasoning_step_are_told_to_the_model(load: Any) -> None:
    judge = Judge("Let us see.")
    agent = load(
        """
        FLOW:
          think:
            REASONING: true
            INSTRUCTIONS: |
              Weigh both sides.
            THEN: COMPLETE
        """,
        model=judge.model,
    )
    agent.start().say("Shall I?")
    assert "Weigh both sides." in judge.prompts[-1]


def test_now_in_milliseconds(load: Any) -> None:
    agent = load(
        """
        HOOKS:
          before_turn:
            SET: began = NOW_MS()
        FLOW:
          only:
            REASONING: false
            RESPOND: "{{SUB(NOW_MS(), began)}} {{TODAY()}}"
            ON_INPUT:
              - ELSE:
                RESPOND: "{{SUB(NOW_MS(), began)}}"
        """
    )
    assert agent.start().say("now").messages == ["0"]


# --- validation -----------------------------------------------------------------------------------------------------


def field(*lines: str) -> str:
    below = "\n".join(f"        {line}" for line in lines)
    return f"""
FLOW:
  ask:
    REASONING: false
    GATHER:
      - size: required
{below}
    RESPOND: "It is {{{{size}}}}."
    THEN: COMPLETE
"""


@pytest.mark.parametrize(
    ("lines", "wrong", "right"),
    [
        (("type: number", "validate: min(10)"), "9", "10"),
        (("type: number", "validate: max(10)"), "11", "10"),
        (("type: number", "validate: range(5, 10)"), "4", "5"),
        (("type: number", "validate:", '  range: "5-10"'), "11", "10"),
        (("validate: enum(small, large)",), "huge", "large"),
        (("validate: pattern(^[A-Z]{3}$)",), "ab", "ABC"),
        (("validate:", "  type: pattern", '  rule: "^[A-Z]{3}$"'), "ab", "ABC"),
        (("validate:", "  type: enum", '  rule: "small, large"'), "huge", "small"),
        (("validate:", "  type: custom", '  rule: "value != 7"', "type: number"), "7", "8"),
        (('validate: "value >= 18 AND value <= 99"', "type: number"), "17", "18"),
        (('validation: "^[0-9]{4}$"', "validation_process: REGEX"), "12", "1234"),
        (("validate: email()",), "ada", "ada@example.org"),
        (("validate: email", "type: string"), "ada", "ada@example.org"),
    ],
)
def test_every_form_of_validate_refuses_and_accepts(load: Any, lines: tuple[str, ...], wrong: str, right: str) -> None:
    session = load(field(*lines, 'retry_prompt: "Not {{asked_for}} like that."')).start()
    assert "Not  like that." in session.say(wrong).messages
    assert session.say(right).messages == [f"It is {right}."]


def test_the_error_of_a_rule_is_its_message(load: Any) -> None:
    lines = ("type: number", "validate:", "  type: range", '  rule: "1-3"', '  error: "One to three."')
    assert "One to three." in load(field(*lines)).start().say("9").messages


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("validate: smallish", "wrong_value"),
        ("validate: minn(3)", "unknown_function"),
        ("validate: min(few)", "wrong_value"),
        ("validate: range(few)", "wrong_value"),
        ("validate: enum()", "wrong_value"),
        ("validate: pattern([)", "bad_pattern"),
        ("validate: {smalest: 3}", "wrong_value"),
    ],
)
def test_an_unknown_form_of_validate_is_an_error(load: Any, line: str, code: str) -> None:
    with pytest.raises(SourceError) as caught:
        load(field(line))
    assert [one.code for one in caught.value.diagnostics if one.severity == "error"] == [code]


def test_a_sentence_about_a_value_is_judged_by_the_model(load: Any) -> None:
    judge = Judge(valid=False)
    lines = field("type: number", 'validate: "Must be a size that exists"')
    assert len(warnings_of(load(lines), "only_words")) == 1
    assert load(lines).start().say("3").messages == ["It is 3."]
    said = load(lines, model=judge.model).start().say("3").messages
    assert said[0] == "That cannot be the size: Must be a size that exists"


# --- sensitive values -----------------------------------------------------------------------------------------------

CARD = """
MEMORY:
  persistent:
    - user.pin
      SENSITIVE: true
      SENSITIVE_DISPLAY: replace
  remember:
    - WHEN: pin IS SET
      STORE: pin -> user.pin
TOOLS:
  charge(card: string) -> {card: string}
FLOW:
  pay:
    REASONING: false
    GATHER:
      - card: required
        sensitive: true
        sensitive_display: mask
        mask_config:
          showFirst: 0
          showLast: 4
          char: "#"
    SET: pin = 4711
    CALL: charge(card)
    LOG: {card}
    RESPOND: "Charged {{card}}."
    THEN: talk
  talk:
    REASONING: true
    GOAL: "Say goodbye to the owner of {{card}}"
    THEN: COMPLETE
"""
NUMBER = "5555444433331111"


def test_a_sensitive_value_is_masked_in_messages_traces_prompts_and_the_ledger(load: Any, memory: Memory) -> None:
    charged: list[str] = []
    judge = Judge("Goodbye.")

    def charge(card: str) -> dict[str, str]:
        charged.append(card)
        return {"card": card}

    session = load(CARD, tools={"charge": charge}, model=judge.model).start(user="ada")
    turn = session.say(NUMBER)
    assert charged == [NUMBER]
    assert turn.messages == ["Charged ############1111.", "Goodbye."]
    assert NUMBER not in str(turn.trace)
    assert "############1111" in str(turn.trace)
    assert judge.prompts
    assert not [prompt for prompt in judge.prompts if NUMBER in prompt]
    assert not [event for event in memory.ledger.events() if NUMBER in str(event)]


def test_a_sensitive_path_is_masked_in_messages(load: Any, memory: Memory) -> None:
    memory.scope(user="ada").set("pin", "4711")
    agent = load(
        """
        MEMORY:
          persistent:
            - user.pin
              SENSITIVE: true
              SENSITIVE_DISPLAY: replace
            - user.code
              SENSITIVE: true
              DEFAULT: "abcdef"
              MASK_CONFIG: {showFirst: 2, showLast: 0}
        FLOW:
          only:
            REASONING: false
            RESPOND: "{{user.pin}} {{UPPER(user.code)}} {{#if user.pin == '4711'}}right{{/if}}"
            THEN: COMPLETE
        """
    )
    assert agent.start(user="ada").opening.messages == ["[PIN] AB**** right"]


# --- delegation -----------------------------------------------------------------------------------------------------

ASKS = """
MEMORY:
  session:
    - price
DELEGATE:
  - AGENT: Pricing
    WHEN: input contains "price"
    RETURNS:
      total: price
    USE_RESULT: "Name {{price}} and no other price"
    TIMEOUT: {timeout}
    ON_FAILURE: RESPOND "No price today."
FLOW:
  ask:
    REASONING: false
    RESPOND: "Yes?"
    ON_INPUT:
      - ELSE:
        SET: heard = true
"""
SLOW = """
MEMORY:
  session:
    - total
FLOW:
  first:
    REASONING: false
    CALL: look()
    THEN: second
  second:
    REASONING: false
    SET: total = 30
    THEN: COMPLETE
"""


def test_use_result_is_told_to_the_model(load: Any) -> None:
    pricing = load(SLOW, name="Pricing", tools={"look": lambda: None})
    session = load(ASKS.replace("{timeout}", "10s"), agents=[pricing]).start()
    session.say("the price?")
    assert session.vars["price"] == 30
    assert session._state.frames[0].told == ["Name 30 and no other price"]


def test_a_delegation_that_takes_too_long_fails(load: Any, told: Any) -> None:
    pricing = load(SLOW, name="Pricing", tools={"look": lambda: time.sleep(1.1)})
    session = load(ASKS.replace("{timeout}", '"1s"'), agents=[pricing]).start()
    turn = session.say("the price?")
    assert turn.messages == ["No price today."]
    assert session.vars["price"] is None
    assert told(turn, "stopped") == ["stopped Pricing: why the time that the other agent gives it is over"]
