"""What happens when control returns from a person or another agent, and after the end."""

from __future__ import annotations

from typing import Any


def test_after_a_person_the_same_trigger_does_not_call_another_at_once(load: Any):
    session = load("""
        ESCALATE:
          triggers:
            - WHEN: angry == true
              REASON: "angry"
        FLOW:
          work:
            REASONING: false
            ON_INPUT:
              - IF: input == "calm"
                SET: angry = false
                RESPOND: "Good."
              - IF: input == "grr"
                SET: angry = true
                RESPOND: "Oh."
              - ELSE:
                RESPOND: "Heard."
        """).start()
    assert session.say("grr").status == "escalated"
    session.take_back()
    assert session.say("hello").status == "waiting"
    session.say("calm")
    assert session.say("grr").status == "escalated"


def test_after_a_person_a_step_that_ends_in_escalate_is_not_followed_again(load: Any):
    session = load("""
        FLOW:
          work:
            REASONING: false
            RESPOND: "Begin."
            ON_INPUT:
              - ELSE:
                THEN: person
          person:
            REASONING: false
            THEN: ESCALATE
        """).start()
    assert session.say("x").status == "escalated"
    session.take_back()
    turn = session.say("hello")
    assert turn.status == "waiting" or turn.messages != []


def test_an_ending_that_was_reached_is_not_reached_again_by_every_later_message(load: Any, memory: Any):
    session = load("""
        MEMORY:
          persistent:
            - user.trips
              TYPE: array
        COMPLETE:
          - WHEN: booked == true
            RESPOND: "Thanks."
            STORE: {trip: 1} -> user.trips
        FLOW:
          work:
            REASONING: false
            ON_INPUT:
              - IF: input == "book"
                SET: booked = true
                RESPOND: "Booked."
              - ELSE:
                RESPOND: "Hm."
        """).start(user="ada")
    assert session.say("book").messages == ["Booked.", "Thanks."]
    session.say("one more question")
    assert memory.scope(user="ada").value("trips") == [{"trip": 1}]


def test_who_took_over_from_an_agent_that_was_to_give_back_gives_back(load: Any):
    last = load(
        """
        FLOW:
          only:
            REASONING: false
            GATHER:
              - answer:
                prompt: "Well?"
            THEN: COMPLETE
        """,
        name="Last",
    )
    middle = load(
        """
        FLOW:
          only:
            REASONING: false
            THEN: HANDOFF Last
        """,
        name="Middle",
        agents=[last],
    )
    first = load(
        """
        HANDOFF:
          - TO: Middle
            WHEN: input == "go"
            RETURN: true
        FLOW:
          only:
            REASONING: false
            ON_INPUT:
              - ELSE:
                RESPOND: "First heard."
        """,
        name="First",
        agents=[middle],
    )
    session = first.start()
    session.say("go")
    session.say("fine")
    assert session.agent == "First"


def test_resume_intent_after_a_rule_s_handoff_takes_the_words_up_again(load: Any):
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
    agent = load(
        """
        CONSTRAINTS:
          safety:
            - REQUIRE handoff.completed == true
              WHEN: input contains "send"
              ON_FAIL: HANDOFF Check
        HANDOFF:
          - TO: Check
            RETURN: true
            ON_RETURN:
              action: resume_intent
        FLOW:
          pay:
            REASONING: false
            RESPOND: "Yes?"
            ON_INPUT:
              - IF: input contains "send"
                RESPOND: "Sent."
              - ELSE:
                RESPOND: "What?"
        """,
        agents=[check],
    )
    assert agent.start().say("send it").messages == ["Checked.", "Sent."]
