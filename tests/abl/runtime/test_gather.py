"""A whole conversation of a GATHER: what is asked, what is taken, and what is asked again."""

from __future__ import annotations

from typing import Any

import pytest

STAY = """
    FLOW:
      collect:
        REASONING: false
        GATHER:
          - destination
          - guest_name
          - has_pets
          - wants_breakfast
        CORRECTIONS: true
        RESPOND: "{{destination}}, {{guest_name}}, {{has_pets}}, {{wants_breakfast}}"
        THEN: COMPLETE
    """


def test_values_that_a_type_lists_are_kept_as_they_are_written(load: Any):
    agent = load("""
        FLOW:
          pay:
            REASONING: false
            GATHER:
              - means
                type: "PayPal|Credit card|cash"
              - nights
                type: Integer
            THEN:
              - IF: means == "PayPal"
                THEN: online
              - ELSE: desk
          online:
            REASONING: false
            RESPOND: "{{nights}} nights, online."
            THEN: COMPLETE
          desk:
            REASONING: false
            RESPOND: "At the desk."
            THEN: COMPLETE
        """)
    session = agent.start()
    session.say("paypal")
    assert session.vars["means"] == "PayPal"
    assert session.say("2").messages == ["2 nights, online."]


def test_what_answers_a_question_with_a_not_in_it_changes_no_other_value(load: Any):
    session = load(STAY).start()
    session.say("Lisbon")
    session.say("Ada, not Eve")
    assert (session.vars["destination"], session.vars["guest_name"]) == ("Lisbon", "Ada")
    session.say("no")
    assert session.say("actually, yes").messages == ["Lisbon, Ada, false, true"]


def test_a_word_of_correction_changes_a_value_while_another_is_asked_for(load: Any):
    session = load(STAY).start()
    session.say("Lisbon")
    assert session.say("no, make it Porto").messages == ["What is the guest name?"]
    assert session.vars["destination"] == "Porto"


def test_what_is_taken_back_within_an_answer_is_not_taken(load: Any):
    session = load(STAY).start()
    assert session.say("lisbon or porto").messages == ["What is the destination?"]
    session.say("Lisbon, no wait, Porto")
    assert session.vars["destination"] == "Porto"


ISSUE = """
FLOW:
  ask:
    REASONING: false
    GATHER:
      - issue: required
        type: string
        prompt: "Please describe your issue."
    RESPOND: "Noted: {{issue}}"
    THEN: COMPLETE
"""


@pytest.mark.parametrize(
    "said",
    [
        "I can't log in",
        "I don't know my password",
        "where is my order?",
        "not sure, it just stopped",
        "no connection since Monday",
        "It says error 500",
        "help! I was billed twice, $50 on 3 March",
        "why was I charged?",
        "can you look at it",
    ],
)
def test_an_open_question_takes_the_whole_message(load: Any, said: str) -> None:
    assert load(ISSUE).start().say(said).messages == [f"Noted: {said}"]


@pytest.mark.parametrize("said", ["no idea", "hello", "I forgot"])
def test_an_answer_that_says_nothing_is_taken_the_second_time(load: Any, talk: Any, said: str) -> None:
    assert talk(load(ISSUE).start(), said, said) == [["Please describe your issue."], [f"Noted: {said}"]]


def test_a_name_is_taken_as_it_is_if_it_is_said_twice(load: Any, talk: Any) -> None:
    session = load(ISSUE.replace("issue", "first_name")).start()
    assert talk(session, "it is what it is", "it is what it is")[1] == ["Noted: it is what it is"]


def test_a_number_is_never_taken_from_other_words(load: Any, talk: Any) -> None:
    session = load(ISSUE.replace("type: string", "type: number")).start()
    assert talk(session, "many", "many", "3") == [["Please describe your issue."]] * 2 + [["Noted: 3"]]
