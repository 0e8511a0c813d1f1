"""Intents beside the step: sub-intents stay in it, digressions come back or lead away."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.abl import Behaviour
from memoranda.abl.agent import start_fixture

FORM = """
    MEMORY:
      session:
        - town
          TYPE: string
    FLOW:
      {globals}
      form:
        REASONING: false
        RESPOND: "The form."
        GATHER:
          - town:
            prompt: "Which town?"
          - street:
            prompt: "Which street?"
        {own}
        RESPOND: "{{{{street}}}} in {{{{town}}}}."
        THEN: COMPLETE
      help_desk:
        REASONING: false
        RESPOND: "The help desk."
        ON_INPUT:
          - IF: input == "back"
            THEN: form
          - ELSE:
            RESPOND: "Yes?"
"""


def form(*, own: str = "", everywhere: str = "") -> str:
    return FORM.format(own=own.strip(), globals=everywhere.strip())


def test_a_sub_intent_stays_in_the_step_and_asks_again_for_what_it_cleared(load: Any, told: Any):
    session = load(
        form(
            own="""
        SUB_INTENTS:
          - INTENT: "change the town"
            CLEAR: [town]
            RESPOND: "Of course."
        """
        )
    ).start()
    assert session.opening.messages == ["The form.", "Which town?"]
    assert session.say("Porto").messages == ["Which street?"]
    turn = session.say("please change the town")
    assert turn.messages[0] == "Of course." and told(turn, "intent") == ["intent change the town"]
    assert session.vars["town"] is None and session.step == "form"
    session.say("Faro")
    assert session.say("Rua Nova").messages == ["Rua Nova in Faro."]


def test_a_sub_intent_that_clears_nothing_repeats_the_question(load: Any):
    session = load(
        form(
            own="""
        SUB_INTENTS:
          - INTENT: "opening hours"
            KEYWORDS: [hours]
            SET: asked_hours = true
            RESPOND: "Nine to five."
        """
        )
    ).start()
    session.say("Porto")
    assert session.say("what are your opening hours?").messages == ["Nine to five.", "Which street?"]
    assert session.vars["asked_hours"] is True
    assert session.say("Rua Nova").messages == ["Rua Nova in Porto."]


def test_a_sub_intent_may_call_a_tool(load: Any):
    session = load(
        form(
            own="""
        SUB_INTENTS:
          - INTENT: "check the weather"
            CALL: weather(town)
            ON_SUCCESS:
              RESPOND: "It is {{call_result}} in {{town}}."
        """
        ),
        tools={"weather": lambda town: "dry"},
    ).start()
    session.say("Porto")
    assert session.say("check the weather please").messages[0] == "It is dry in Porto."
    assert session.step == "form"


def test_a_digression_that_resumes_comes_back_to_the_question(load: Any):
    session = load(
        form(
            own="""
        DIGRESSIONS:
          - INTENT: "parking"
            KEYWORDS: ["car park"]
            RESPOND: "Parking is free."
            RESUME: true
        """
        )
    ).start()
    assert session.say("is there a car park?").messages == ["Parking is free.", "Which town?"]
    assert session.say("Porto").messages == ["Which street?"]


def test_the_question_is_asked_again_after_a_digression_that_goes_nowhere(load: Any):
    session = load(
        form(
            own="""
        DIGRESSIONS:
          - INTENT: "parking"
            RESPOND: "Parking is free."
        """
        )
    ).start()
    assert session.say("parking?").messages == ["Parking is free.", "Which town?"]
    assert session.step == "form"
    assert session.say("Porto").messages == ["Which street?"]


def test_a_digression_may_go_elsewhere_with_or_without_words(load: Any):
    for respond in ("", 'RESPOND: "One moment."'):
        session = load(
            form(
                own=f"""
        DIGRESSIONS:
          - INTENT: "help me"
            GOTO: help_desk
            {respond}
        """
            )
        ).start()
        session.say("Porto")
        first = ["One moment."] if respond else []
        assert session.say("help me").messages == [*first, "The help desk."]
        assert session.step == "help_desk"
        # What was given stays given.
        assert session.say("back").messages == ["The form.", "Which street?"]


def test_the_actions_of_a_do_list_run_in_their_order(load: Any):
    session = load(
        form(
            own="""
        DIGRESSIONS:
          - INTENT: "start over"
            DO:
              - RESPOND: "You were at {{town}}."
              - CLEAR: [town]
              - SET: restarts = COALESCE(restarts, 0) + 1
              - RESPOND: "Now at {{town}}nothing, {{restarts}}."
              - RESUME
        """
        )
    ).start()
    session.say("Porto")
    turn = session.say("start over")
    assert turn.messages[:2] == ["You were at Porto.", "Now at nothing, 1."]
    assert session.step == "form" and session.vars["town"] is None


def test_a_do_list_may_end_elsewhere(load: Any):
    session = load(
        form(
            own="""
        DIGRESSIONS:
          - INTENT: "help me"
            DO:
              - SET: lost = true
              - GOTO: help_desk
        """
        )
    ).start()
    assert session.say("help me").messages == ["The help desk."]
    assert session.vars["lost"] is True


def test_a_global_digression_is_heard_at_every_step(load: Any):
    text = form(
        everywhere="""
      global_digressions:
        - INTENT: "help me"
          GOTO: help_desk
        - INTENT: "parking"
          RESPOND: "Parking is free."
          RESUME: true
    """
    )
    session = load(text).start()
    assert session.say("parking").messages == ["Parking is free.", "Which town?"]
    assert session.say("help me").messages == ["The help desk."]
    assert session.say("parking").messages == ["Parking is free."]
    assert session.step == "help_desk"


def test_a_sub_intent_is_heard_before_a_digression_and_that_before_a_global_one(load: Any):
    everywhere = """
      global_digressions:
        - INTENT: "first aid"
          KEYWORDS: ["help me"]
          RESPOND: "Everywhere."
          RESUME: true
    """
    digression = """
        DIGRESSIONS:
          - INTENT: "second aid"
            KEYWORDS: ["help me"]
            RESPOND: "Here."
            RESUME: true
    """
    sub_intent = """
        SUB_INTENTS:
          - INTENT: "third aid"
            KEYWORDS: ["help me"]
            RESPOND: "In this step."
    """
    heard = [
        load(form(own=own, everywhere=everywhere)).start().say("help me").messages[0]
        for own in ("", digression, digression.rstrip() + sub_intent)
    ]
    assert heard == ["Everywhere.", "Here.", "In this step."]


def test_an_intent_whose_condition_is_false_is_not_heard(load: Any):
    text = form(
        own="""
        DIGRESSIONS:
          - INTENT: "discount"
            CONDITION: member == true
            RESPOND: "Ten per cent."
            RESUME: true
        """
    )
    assert start_fixture(load(text), vars={"member": True}).say("discount").messages[0] == "Ten per cent."
    session = load(text).start()
    assert session.say("discount").messages == ["Which street?"]  # it was taken as the town
    assert session.vars["town"] == "discount"


def test_words_of_an_intent_are_not_taken_as_a_value(load: Any):
    session = load(
        form(
            own="""
        SUB_INTENTS:
          - INTENT: "opening hours"
            RESPOND: "Nine to five."
        """
        )
    ).start()
    session.say("opening hours")
    assert session.vars.get("town") is None
    session.say("Porto")
    assert session.vars["town"] == "Porto"


def test_a_digression_may_hand_over_and_may_ask_another_agent(load: Any):
    other = load(
        """
        FLOW:
          look:
            REASONING: false
            SET: answer = 42
            RESPOND: "Here is the librarian."
            ON_INPUT:
              - ELSE:
                RESPOND: "Shh."
        """,
        name="Librarian",
    )
    helper = load(
        """
        FLOW:
          look:
            REASONING: false
            SET: hint = "third shelf"
            THEN: COMPLETE
        """,
        name="Index",
    )
    text = (
        form(
            own="""
        DIGRESSIONS:
          - INTENT: "librarian"
            HANDOFF: Librarian
          - INTENT: "hint"
            DELEGATE: Index
            RESPOND: "Try the {{hint}}."
            RESUME: true
        """
        )
        + """
    DELEGATE:
      - AGENT: Index
        RETURNS:
          hint: hint
    """
    )
    session = load(text, agents=[other, helper]).start()
    assert session.say("a hint?").messages == ["Try the third shelf.", "Which town?"]
    turn = session.say("the librarian please")
    assert turn.messages == ["Here is the librarian."] and turn.status == "handed_off"
    assert session.agent == "Librarian"


def test_an_interruption_does_not_count_as_a_failed_attempt(load: Any):
    session = load(
        form(
            own="""
        MAX_ATTEMPTS: 2
        ON_EXHAUSTED: help_desk
        DIGRESSIONS:
          - INTENT: "parking"
            RESPOND: "Parking is free."
            RESUME: true
        """
        ),
        behaviour=Behaviour(),
    ).start()
    for _ in range(4):
        assert session.say("parking").messages == ["Parking is free.", "Which town?"]
    assert session.step == "form"
    # Answers that say nothing are attempts, so the limit is there.
    session.say("?")
    assert session.say("?").messages == ["The help desk."]


def test_during_the_questions_of_a_rule_an_intent_is_answered_and_the_question_comes_back(load: Any):
    agent = load(
        """
        CONSTRAINTS:
          rules:
            - REQUIRE pin IS SET BEFORE calling pay
              ON_FAIL:
                RESPOND: "I need your code."
                COLLECT: [pin]
                THEN: retry
        FLOW:
          global_digressions:
            - INTENT: "why"
              RESPOND: "For your safety."
              RESUME: true
          pay:
            REASONING: false
            CALL: pay()
            RESPOND: "Paid with {{pin}}."
            THEN: COMPLETE
        """,
        tools={"pay": lambda: "ok"},
    )
    session = agent.start()
    assert session.opening.messages == ["I need your code."]
    assert session.say("why?").messages == ["For your safety.", "I need your code."]
    assert session.say("4711").messages == ["Paid with 4711."]


FERRY = """
    TOOLS:
      timetable() -> object
    FLOW:
      ask:
        REASONING: false
        GATHER:
          - island:
            prompt: "Which island?"
        SUB_INTENTS:
          - INTENT: "timetable"
            CALL: timetable()
            RESPOND: "Every hour."
        RESPOND: "To {{island}}."
        THEN: pick
      pick:
        REASONING: false
        ON_INPUT:
          - IF: input == "yes"
            THEN: COMPLETE
          - ELSE:
            RESPOND: "Yes?"
        DIGRESSIONS:
          - INTENT: "timetable"
            CALL: timetable()
            RESUME: true
"""


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("", "Something went wrong. Please try again."),
        ("ON_ERROR:\n  tool_error:\n    RESPOND: The board is dark.\n", "The board is dark."),
        (
            "CONSTRAINTS:\n  all:\n    - REQUIRE member BEFORE calling timetable\n      ON_FAIL: Members only.\n",
            "Members only.",
        ),
    ],
)
def test_an_answer_to_an_intent_that_comes_to_nothing_leaves_the_step_as_it_was(load: Any, rule: str, said: str):
    def timetable() -> None:
        raise OSError("no connection")

    session = load(FERRY, rule, tools={"timetable": timetable}).start()
    assert session.say("show me the timetable").text == said
    assert session.say("Fanø").text == "To Fanø."
    assert session.say("show me the timetable").text == said
    assert session.say("no").text == "Yes?"
    assert session.say("yes").status == "completed"
