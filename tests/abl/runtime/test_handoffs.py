"""Several agents in one session: who takes over, what they know, and what comes back."""

from __future__ import annotations

from typing import Any

import pytest

import memoranda
from memoranda import Memory

DESK = """
    MEMORY:
      session:
        - city
          TYPE: string
    FLOW:
      desk:
        REASONING: false
        SET:
          - city = "Porto"
          - secret = "desk only"
        RESPOND: "The desk."
        ON_INPUT:
          - IF: input == "show"
            RESPOND: "Desk has {{city}}, {{verdict}}."
          - ELSE:
            RESPOND: "Desk heard {{input}}."
"""

GUIDE = """
    MEMORY:
      session:
        - wish
          RESET: per_activation
    FLOW:
      guide:
        REASONING: false
        RESPOND: "Guide in {{city}} knows [{{secret}}]."
        GATHER:
          - wish:
            prompt: "What do you like?"
        SET: tip = "{{wish}} in {{city}}"
        RESPOND: "Then {{tip}}."
        THEN: COMPLETE
"""


def test_another_agent_takes_over_with_what_is_passed_and_nothing_else(load: Any, told: Any):
    guide = load(GUIDE, name="Guide")
    agent = load(
        DESK,
        """
        HANDOFF:
          - TO: Guide
            WHEN: input == "guide"
            CONTEXT:
              pass: [city]
        """,
        agents=[guide],
    )
    session = agent.start()
    assert session.say("hello").status == "waiting"
    turn = session.say("guide")
    assert turn.messages == ["Desk heard guide.", "Guide in Porto knows [].", "What do you like?"]
    assert (turn.status, turn.agent, session.agent) == ("handed_off", "Guide", "Guide")
    assert told(turn, "handed_off") == ['handed off Guide: by Desk, given {"city":"Porto"}']
    assert dict(session.vars) == {"wish": None, "city": "Porto"}
    last = session.say("bridges")
    # There is no agent to return to, so the session ends when the guide is done.
    assert (last.messages, last.status) == (["Then bridges in Porto."], "completed")


def test_values_may_be_computed_for_the_agent_that_takes_over(load: Any):
    guide = load(GUIDE, name="Guide")
    agent = load(
        DESK,
        """
        HANDOFF:
          - TO: Guide
            WHEN: input == "guide"
            CONTEXT:
              set:
                city: UPPER(city) + "!"
        """,
        agents=[guide],
    )
    assert agent.start().say("guide").messages[1] == "Guide in PORTO! knows []."


def test_the_user_s_words_are_heard_by_the_agent_that_takes_over_if_nobody_used_them(load: Any):
    billing = load(
        """
        FLOW:
          bill:
            REASONING: false
            RESPOND: "You said {{input}}."
            ON_INPUT:
              - IF: input contains "refund"
                RESPOND: "A refund, then."
              - ELSE:
                RESPOND: "What about it?"
        """,
        name="Billing",
    )
    front = load(
        """
        HANDOFF:
          - TO: Billing
            WHEN: input contains "bill"
        """,
        kind="SUPERVISOR",
        name="Front",
        agents=[billing],
    )
    turn = front.start().say("my bill needs a refund")
    assert turn.messages == ["You said my bill needs a refund.", "A refund, then."]


def test_control_comes_back_with_values_under_other_names(load: Any, told: Any, talk: Any):
    guide = load(GUIDE, name="Guide")
    agent = load(
        DESK,
        """
        HANDOFF:
          - TO: Guide
            WHEN: input == "guide"
            CONTEXT:
              pass: [city]
            RETURN: true
            ON_RETURN:
              action: continue
              map:
                tip: verdict
              set:
                returns: COALESCE(returns, 0) + 1
        """,
        agents=[guide],
    )
    session = agent.start()
    assert session.say("guide").agent == "Guide"
    back = session.say("bridges")
    assert back.messages == ["Then bridges in Porto."]
    assert (back.status, back.agent, session.step) == ("waiting", "Desk", "desk")
    assert told(back, "returned") == ["returned Desk: by Guide"]
    assert session.say("show").messages == ["Desk has Porto, bridges in Porto."]
    assert session.vars["returns"] == 1 and "wish" not in session.vars
    # It can be asked again, and begins anew.
    assert talk(session, "guide", "boats", "show")[-1] == ["Desk has Porto, boats in Porto."]
    assert session.vars["returns"] == 2


def test_an_answer_to_the_other_agent_is_no_choice_in_a_step_of_the_same_name(load: Any):
    other = load(
        """
        FLOW:
          ask:
            REASONING: false
            GATHER:
              - wish:
                prompt: "What do you like?"
            THEN: COMPLETE
        """,
        name="Other",
    )
    agent = load(
        """
        HANDOFF:
          - TO: Other
            WHEN: input == "other"
            RETURN: true
        FLOW:
          ask:
            REASONING: false
            ON_INPUT:
              - ELSE:
                RESPOND: "Desk heard {{input}}."
        """,
        agents=[other],
    )
    session = agent.start()
    session.say("other")
    back = session.say("bridges")
    assert (back.agent, back.messages) == ("Desk", [])
    assert session.say("bridges").messages == ["Desk heard bridges."]


def test_a_handler_says_what_follows_the_return(load: Any):
    guide = load(GUIDE, name="Guide")
    agent = load(
        DESK,
        """
          later:
            REASONING: false
            RESPOND: "Later: {{found}}."
            THEN: COMPLETE
        HANDOFF:
          - TO: Guide
            WHEN: input == "guide"
            RETURN: true
            ON_RETURN:
              handler: welcome_back
              map:
                wish: found
        RETURN_HANDLERS:
          welcome_back:
            RESPOND: "Back from the guide."
            THEN: later
        """,
        agents=[guide],
    )
    session = agent.start()
    session.say("guide")
    back = session.say("bridges")
    assert back.messages == ["Then bridges in .", "Back from the guide.", "Later: bridges."]
    assert back.status == "completed"


def test_the_intent_may_be_taken_up_again_on_return(load: Any):
    check = load(
        """
        FLOW:
          check:
            REASONING: false
            RESPOND: "Checked."
            THEN: COMPLETE
        """,
        name="Check",
    )
    for action, messages in (
        ("resume_intent", ["Checked.", "Sent."]),
        ("continue", ["Checked."]),
    ):
        agent = load(
            f"""
            HANDOFF:
              - TO: Check
                RETURN: true
                ON_RETURN:
                  action: {action}
                  set:
                    checked: true
            FLOW:
              pay:
                REASONING: false
                RESPOND: "Yes?"
                ON_INPUT:
                  - IF: input == "send" AND checked != true
                    THEN: HANDOFF Check
                  - IF: input == "send"
                    RESPOND: "Sent."
                  - ELSE:
                    RESPOND: "What?"
            """,
            agents=[check],
        )
        session = agent.start()
        assert session.say("send").messages == messages
        # The step was left by its transition, so other words begin the flow anew.
        assert session.say("send").messages[-1] == "Sent."


def test_the_lowest_priority_number_is_looked_at_first(load: Any):
    ends = [
        load(
            f"""
            FLOW:
              only:
                REASONING: false
                RESPOND: "{name}."
                ON_INPUT:
                  - ELSE:
                    RESPOND: "Yes?"
            """,
            name=name,
        )
        for name in ("Late", "Early", "Usual")
    ]

    def first(*handoffs: str) -> list[str]:
        listed = "".join(f"  - TO: {handoff}\n    WHEN: true\n" for handoff in handoffs)
        return load("HANDOFF:\n" + listed, kind="SUPERVISOR", agents=ends).start().opening.messages

    assert first("Late\n    PRIORITY: 9", "Early\n    PRIORITY: 1") == ["Early."]
    assert first("Early\n    PRIORITY: 1", "Late\n    PRIORITY: 9") == ["Early."]
    assert first("Late\n    PRIORITY: 9", "Usual") == ["Late."]  # without one it comes last
    assert first("Usual", "Late") == ["Usual."]


def test_an_agent_that_is_not_loaded_is_the_program_s_to_find(load: Any, told: Any):
    agent = load(
        DESK,
        """
        HANDOFF:
          - TO: Abroad
            WHEN: input == "abroad"
        """,
    )
    session = agent.start()
    turn = session.say("abroad")
    assert (turn.status, turn.agent) == ("handed_off", "Desk")
    assert told(turn, "handed_off")[0].startswith("handed off Abroad: by Desk")
    assert session.say("hello?").messages == []
    session.take_back()
    assert session.say("hello?").messages == ["Desk heard hello?."]


def test_a_step_that_ends_in_a_handoff_is_not_done_again_on_return(load: Any):
    guide = load(
        """
        FLOW:
          only:
            REASONING: false
            RESPOND: "The guide."
            THEN: COMPLETE
        """,
        name="Guide",
    )
    agent = load(
        """
        HANDOFF:
          - TO: Guide
            RETURN: true
        FLOW:
          only:
            REASONING: false
            RESPOND: "The desk."
            THEN: HANDOFF Guide
        """,
        agents=[guide],
    )
    session = agent.start()
    assert session.opening.messages == ["The desk.", "The guide."]
    assert session.agent == "Desk"
    assert session.say("more").messages == ["The desk.", "The guide."]


@pytest.mark.parametrize(
    ("failure", "status", "said"),
    [
        ("CONTINUE", "waiting", []),
        ("ESCALATE", "escalated", []),
        ('"Nobody is abroad, {{city}} is all we have."', "waiting", ["Nobody is abroad, Porto is all we have."]),
    ],
)
def test_a_handoff_says_what_follows_when_the_agent_cannot_be_reached(
    load: Any, failure: str, status: str, said: list[str]
):
    agent = load(
        DESK,
        f"""
        HANDOFF:
          - TO: Abroad
            WHEN: input == "abroad"
            ON_FAILURE: {failure}
        """,
    )
    session = agent.start()
    turn = session.say("abroad")
    assert (turn.status, turn.messages) == (status, ["Desk heard abroad.", *said])
    session.take_back()
    assert session.say("hello").messages == ["Desk heard hello."]


# --- the memory of a tree -------------------------------------------------------------------------------------------

CASE = """
    MEMORY:
      persistent:
        - workflow.case
          SCOPE: execution_tree
    FLOW:
      open:
        REASONING: false
        RESPOND: "Case: [{{workflow.case}}]."
        ON_INPUT:
          - IF: input == "open"
            SET: workflow.case = "C-{{user_id}}"
            RESPOND: "Opened {{workflow.case}}."
          - ELSE:
            RESPOND: "Case: [{{workflow.case}}]."
"""


def test_facts_of_the_tree_are_shared_by_the_agents_of_one_session_and_not_with_another(load: Any, memory: Memory):
    clerk = load(CASE, name="Clerk")
    agent = load(
        CASE,
        """
        HANDOFF:
          - TO: Clerk
            WHEN: input == "clerk"
        """,
        agents=[clerk],
    )
    ada, bo = agent.start(user="ada"), agent.start(user="bo")
    assert ada.say("open").messages == ["Opened C-ada."]
    assert ada.say("clerk").messages[-2:] == ["Case: [C-ada].", "Case: [C-ada]."]
    assert bo.say("clerk").messages[-1] == "Case: []."
    assert memory.scope(tree=ada.id).value("case") == "C-ada"
    assert agent.start(user="ada").opening.messages == ["Case: []."]


def test_a_session_may_join_the_tree_of_another(load: Any, memory: Memory):
    agent = load(CASE)
    first = agent.start(user="ada")
    first.say("open")
    joined = agent.start(user="bo", tree=first.id)
    assert joined.opening.messages == ["Case: [C-ada]."]
    joined.end()
    # The tree ends with the session that began it.
    assert memory.scope(tree=first.id).value("case") == "C-ada"
    first.end()
    assert memory.scope(tree=first.id).get("case") is None


GRANTED = """
    FLOW:
      look:
        REASONING: false
        SET: workflow.plan = "boats"
        RESPOND: "Plan {{workflow.plan}}."
        THEN: COMPLETE
"""


@pytest.mark.parametrize(
    ("access", "kept"),
    [("readwrite", "boats"), ("read", "bridges")],
)
def test_a_grant_says_what_the_other_agent_may_do_with_a_path(load: Any, memory: Memory, access: str, kept: str):
    helper = load(GRANTED, name="Helper")
    agent = load(
        """
        MEMORY:
          persistent:
            - workflow.plan
        HANDOFF:
          - TO: Helper
            CONTEXT:
              memory_grants:
                - path: workflow.plan
                  access: ACCESS
        FLOW:
          plan:
            REASONING: false
            SET: workflow.plan = "bridges"
            THEN: HANDOFF Helper
        """.replace("ACCESS", access),
        agents=[helper],
    )
    session = agent.start(user="ada")
    assert memory.scope(tree=session.id).value("plan") == kept


def test_a_trigger_keeps_to_the_grant_too(load: Any, memory: Memory, told: Any):
    helper = load(
        """
        MEMORY:
          remember:
            - WHEN: plan IS SET
              STORE: plan -> workflow.plan
        FLOW:
          look:
            REASONING: false
            SET: plan = "boats"
            THEN: COMPLETE
        """,
        name="Helper",
    )
    for access, kept in (("readwrite", "boats"), ("read", "bridges")):
        agent = load(
            f"""
            MEMORY:
              persistent:
                - workflow.plan
            HANDOFF:
              - TO: Helper
                CONTEXT:
                  memory_grants:
                    - path: workflow.plan
                      access: {access}
            FLOW:
              plan:
                REASONING: false
                SET: workflow.plan = "bridges"
                THEN: HANDOFF Helper
            """,
            agents=[helper],
        )
        session = agent.start(user="ada")
        assert memory.scope(tree=session.id).value("plan") == kept
        assert len(told(session.opening, "refused")) == (access == "read")


def test_without_a_grant_a_path_that_the_agent_does_not_declare_is_its_own_variable(load: Any, memory: Memory):
    helper = load(GRANTED, name="Helper")
    agent = load(
        """
        MEMORY:
          persistent:
            - workflow.plan
        FLOW:
          plan:
            REASONING: false
            SET: workflow.plan = "bridges"
            THEN: HANDOFF Helper
        """,
        agents=[helper],
    )
    session = agent.start(user="ada")
    assert session.opening.messages == ["Plan boats."]
    assert memory.scope(tree=session.id).value("plan") == "bridges"


# --- a part of the work ---------------------------------------------------------------------------------------------

COUNTER = """
    FLOW:
      count:
        REASONING: false
        SET: seen = [base, secret, input, city]
        SET: total = base * 2
        RESPOND: "This is never said."
        THEN: COMPLETE
"""


def test_another_agent_does_a_part_on_what_it_is_given_and_cannot_speak(load: Any, told: Any):
    counter = load(COUNTER, name="Counter")
    agent = load(
        """
        DELEGATE:
          - AGENT: Counter
            INPUT:
              base: guests + 1
            RETURNS:
              total: rooms
              seen: seen
        FLOW:
          work:
            REASONING: false
            SET:
              - guests = 2
              - secret = "mine"
              - city = "Porto"
            DELEGATE: Counter
            RESPOND: "{{rooms}} rooms; it saw {{seen}}."
            THEN: COMPLETE
        """,
        agents=[counter],
    )
    session = agent.start()
    assert session.opening.messages == ["6 rooms; it saw [3,null,null,null]."]
    assert told(session.opening, "delegated") == ['delegated Counter: given {"base":3}, finished true']
    assert session.agent == "Desk" and "total" not in session.vars


def test_a_delegation_of_the_agent_is_done_once_while_its_condition_holds(load: Any):
    calls: list[int] = []
    counter = load(
        """
        FLOW:
          count:
            REASONING: false
            CALL: count()
            SET: total = call_result
            THEN: COMPLETE
        """,
        name="Counter",
        tools={"count": lambda: calls.append(1) or len(calls)},
    )
    agent = load(
        """
        DELEGATE:
          - AGENT: Counter
            WHEN: counting == true
            RETURNS:
              total: total
        FLOW:
          work:
            REASONING: false
            RESPOND: "Yes?"
            ON_INPUT:
              - IF: input == "on"
                SET: counting = true
                RESPOND: "On."
              - IF: input == "off"
                SET: counting = false
                RESPOND: "Off."
              - ELSE:
                RESPOND: "Total {{total}}."
        """,
        agents=[counter],
    )
    session = agent.start()
    said = [session.say(text).messages for text in ("x", "on", "x", "x", "off", "on", "x")]
    assert said == [["Total ."], ["On."], ["Total 1."], ["Total 1."], ["Off."], ["On."], ["Total 2."]]


UNFINISHED = """
    FLOW:
      ask:
        REASONING: false
        GATHER:
          - something:
            prompt: "It cannot ask."
        THEN: COMPLETE
"""


@pytest.mark.parametrize(
    ("failure", "status", "messages"),
    [
        ("ON_FAILURE: continue", "completed", ["Went on."]),
        ('ON_FAILURE: "No luck, {{name}}."', "completed", ["No luck, Ada.", "Went on."]),
        ("ON_FAILURE: escalate", "escalated", []),
        ("ON_FAILURE: retry", "completed", ["Went on."]),
        ("", "waiting", ["Something went wrong. Please try again."]),
    ],
)
@pytest.mark.parametrize("loaded", [True, False])
def test_an_agent_that_does_not_finish_its_part_is_a_failure(
    load: Any, failure: str, status: str, messages: list[str], loaded: bool
):
    helper = load(UNFINISHED, name="Helper")
    agent = load(
        f"""
        DELEGATE:
          - AGENT: Helper
            {failure}
        FLOW:
          work:
            REASONING: false
            SET: name = "Ada"
            DELEGATE: Helper
            RESPOND: "Went on."
            THEN: COMPLETE
        """,
        agents=[helper] if loaded else [],
    )
    turn = agent.start().opening
    assert (turn.status, turn.messages) == (status, messages)


def test_an_agent_that_cannot_do_its_part_is_an_error_that_can_be_answered(load: Any):
    agent = load(
        """
        ON_ERROR:
          agent_unavailable:
            RESPOND: "Nobody is there."
            THEN: CONTINUE
        FLOW:
          work:
            REASONING: false
            DELEGATE: Nobody
            RESPOND: "Alone, then."
            THEN: COMPLETE
        """
    )
    assert agent.start().opening.messages == ["Nobody is there.", "Alone, then."]


def test_what_a_delegated_agent_remembers_is_kept(load: Any, memory: Memory):
    helper = load(
        """
        MEMORY:
          persistent:
            - user.score
          remember:
            - WHEN: total IS SET
              STORE: total -> user.score
        FLOW:
          count:
            REASONING: false
            SET: total = base + 1
            THEN: COMPLETE
        """,
        name="Helper",
    )
    agent = load(
        """
        MEMORY:
          persistent:
            - user.score
        DELEGATE:
          - AGENT: Helper
            INPUT:
              base: 4
        FLOW:
          work:
            REASONING: false
            DELEGATE: Helper
            RESPOND: "Score {{user.score}}."
            THEN: COMPLETE
        """,
        agents=[helper],
    )
    assert agent.start(user="ada").opening.messages == ["Score 5."]
    fact = memory.scope(user="ada").get("score")
    assert fact is not None and (fact.value, fact.origin.source) == (5, "Helper")


def test_a_delegated_agent_ends_as_its_sections_say(load: Any, memory: Memory):
    helper = load(
        """
        MEMORY:
          persistent:
            - user.closed
        COMPLETE:
          - WHEN: total > 3
            STORE: total -> user.score
        HOOKS:
          after_agent:
            SET: user.closed = true
        FLOW:
          count:
            REASONING: false
            SET: total = base + 1
            ON_INPUT:
              - ELSE:
                RESPOND: "It is never asked."
        """,
        name="Helper",
    )
    text = """
        DELEGATE:
          - AGENT: Helper
            INPUT:
              base: BASE
            RETURNS:
              total: total
            ON_FAILURE: continue
        FLOW:
          work:
            REASONING: false
            DELEGATE: Helper
            RESPOND: "Total {{total}}."
            THEN: COMPLETE
        """
    ada, bo = memory.scope(user="ada"), memory.scope(user="bo")
    assert load(text.replace("BASE", "1"), agents=[helper]).start(user="bo").opening.messages == ["Total ."]
    assert (bo.get("score"), bo.get("closed")) == (None, None)
    assert load(text.replace("BASE", "4"), agents=[helper]).start(user="ada").opening.messages == ["Total 5."]
    assert (ada.value("score"), ada.value("closed")) == (5, True)


# --- supervisors ----------------------------------------------------------------------------------------------------


def test_a_supervisor_routes_every_message_to_whom_it_concerns(load: Any):
    def desk(name: str) -> Any:
        return load(
            f"""
            FLOW:
              only:
                REASONING: false
                RESPOND: "{name} heard {{{{input}}}}."
                THEN: COMPLETE
            """,
            name=name,
        )

    front = load(
        """
        HANDOFF:
          - TO: Billing
            WHEN: input contains "bill"
            RETURN: true
          - TO: Repairs
            WHEN: input contains "broken" OR input contains "repair"
            RETURN: true
        """,
        kind="SUPERVISOR",
        name="Front",
        agents=[desk("Billing"), desk("Repairs")],
    )
    session = front.start()
    assert session.opening.messages == []
    said = ["the bill", "another bill", "it is broken", "hm", "a bill"]
    assert [session.say(text).messages for text in said] == [
        ["Billing heard the bill."],
        ["Billing heard another bill."],
        ["Repairs heard it is broken."],
        ["I cannot answer: I need a language model, and none is set up."],
        ["Billing heard a bill."],
    ]
    assert session.agent == "Front"


def test_an_agent_edited_while_another_had_the_conversation_takes_it_back_all_the_same(load: Any, memory: Memory):
    guide = load(GUIDE, name="Guide")
    session = load(
        DESK,
        """
        HANDOFF:
          - TO: Guide
            WHEN: input == "guide"
            RETURN: true
        """,
        agents=[guide],
    ).start()
    session.say("guide")
    edited = load(DESK.replace("Desk heard", "Desk, edited, heard"), agents=[guide])
    resumed = edited.resume(session.id)
    back = resumed.say("bridges")
    assert (back.agent, back.messages[0]) == ("Desk", "Then bridges in .")
    assert resumed.say("x").messages == ["Desk, edited, heard x."]


def test_an_agent_that_comes_back_in_the_same_turn_keeps_its_new_variables(load: Any, memory: Memory):
    text = """
        HANDOFF:
          - TO: OTHER
            WHEN: input == "swap" AND COALESCE(handoff.to, "") != "OTHER"
        FLOW:
          only:
            REASONING: false
            SET: seen = COALESCE(seen, 0) + 1
            RESPOND: "NAME {{seen}}."
            ON_INPUT:
              - ELSE:
                RESPOND: "NAME still {{seen}}."
        """
    left = load(text.replace("NAME", "Left").replace("OTHER", "Right"), name="Left")
    right = load(text.replace("NAME", "Right").replace("OTHER", "Left"), name="Right", agents=[left])
    session = right.start()
    session.say("swap")
    again = memoranda.abl.resume(memory, session.id)
    assert dict(again.vars) == dict(session.vars) and session.vars["seen"] >= 1
    assert again.agent == session.agent


# --- paths instead of names -----------------------------------------------------------------------------------------

SCALES = """
    FLOW:
      weigh:
        REASONING: false
        RESPOND: "{{parcel.to}} for {{user.name}}"
        GATHER:
          - kilos:
            type: number
        SET: slip.kilos = kilos
        THEN: COMPLETE
"""


def test_parts_of_values_and_facts_go_along_and_come_back(load: Any, memory: Memory):
    memory.scope(user="ada").set("name", "Ada")
    agent = load(
        """
        MEMORY:
          persistent:
            - user.name
            - user.heaviest
        HANDOFF:
          - TO: Scales
            CONTEXT:
              pass: [parcel.to, user.name]
              set:
                parcel.from: "here"
            ON_RETURN:
              map:
                slip.kilos: user.heaviest
              set:
                parcel.weighed: true
        FLOW:
          post:
            REASONING: false
            SET: parcel.to = "Oslo"
            THEN: HANDOFF Scales
        """,
        agents=[load(SCALES, name="Scales")],
    )
    session = agent.start(user="ada")
    assert session.opening.messages == ["Oslo for Ada", "How many kilos?"]
    assert session.vars["parcel"] == {"to": "Oslo", "from": "here"}
    session.say("12")
    assert session.vars["parcel"] == {"to": "Oslo", "weighed": True}
    assert memory.scope(user="ada").value("heaviest") == 12


def test_what_a_return_brings_is_remembered_in_the_same_turn(load: Any, memory: Memory):
    for user, ending, said in (
        ("ada", "", []),
        ("bo", 'COMPLETE:\n  - WHEN: heaviest > 10\n    RESPOND: "Heavy."\n', ["Heavy."]),
    ):
        agent = load(
            """
            MEMORY:
              persistent:
                - user.heaviest
              remember:
                - WHEN: heaviest IS SET
                  STORE: heaviest -> user.heaviest
            HANDOFF:
              - TO: Scales
                ON_RETURN:
                  map:
                    kilos: heaviest
            FLOW:
              post:
                REASONING: false
                THEN: HANDOFF Scales
            """,
            ending,
            agents=[load(SCALES, name="Scales")],
        )
        session = agent.start(user=user)
        turn = session.say("12")
        assert (turn.status, turn.agent, turn.messages) == ("completed", "Desk", said)
        assert memory.scope(user=user).value("heaviest") == 12


def test_a_part_of_what_another_agent_made_comes_back(load: Any):
    counter = load(COUNTER.replace("SET: total = base * 2", "SET: sums.total = base * 2"), name="Counter")
    agent = load(
        """
        DELEGATE:
          - AGENT: Counter
            INPUT:
              base: 4
            RETURNS:
              sums.total: bill.total
        FLOW:
          ask:
            REASONING: false
            DELEGATE: Counter
            RESPOND: "{{bill.total}}"
            THEN: COMPLETE
        """,
        agents=[counter],
    )
    assert agent.start().opening.messages == ["8"]


def test_an_agent_whose_flow_led_to_a_handoff_gives_back_when_it_gets_control_back(load: Any):
    relay = """
        HANDOFF:
          - TO: Scales
            ON_RETURN:
              map:
                kilos: kilos
        FLOW:
          carry:
            REASONING: false
            THEN: HANDOFF Scales
        """
    agent = load(
        """
        HANDOFF:
          - TO: Relay
            ON_RETURN:
              map:
                kilos: kilos
        FLOW:
          post:
            REASONING: false
            GATHER: [parcel]
            THEN: HANDOFF Relay
        """,
        agents=[load(relay, name="Relay", agents=[load(SCALES, name="Scales")])],
    )
    session = agent.start()
    assert session.say("a box").agent == "Scales"
    turn = session.say("12")
    assert (turn.agent, session.vars["kilos"]) == ("Desk", 12)
