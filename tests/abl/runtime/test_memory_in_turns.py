"""Stored memory in a turn: what recall injects, what expressions read, what is logged, and whose facts are open."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from memoranda import Memory


def test_recall_injects_what_lies_below_a_path(load: Any, memory: Memory) -> None:
    ada = memory.scope(user="ada")
    ada.set("preferences.seat", "aisle")
    ada.set("preferences.food.main", "fish")
    ada.set("preferred", "no part of it")
    agent = load(
        """
        MEMORY:
          persistent:
            - user.preferences
          recall:
            - ON: session:start
              ACTION: inject_context
              PATHS: [user.preferences]
        FLOW:
          show:
            REASONING: false
            RESPOND: "{{user.preferences.seat}}, {{user.preferences.food.main}}"
        """
    )
    session = agent.start(user="ada")
    assert session.opening.messages == ["aisle, fish"]
    assert session.vars["user"] == {"preferences": {"seat": "aisle", "food": {"main": "fish"}}}
    assert agent.start(user="bea").opening.messages == [", "]


@pytest.mark.parametrize("domain", ["history", "user.history"])
def test_a_domain_may_name_its_scope(load: Any, memory: Memory, domain: str) -> None:
    memory.scope(user="ada").set("history.last", "Rome")
    memory.scope(project="p").set("history.first", "Oslo")
    agent = load(
        f"""
        MEMORY:
          recall:
            - ON: session:start
              ACTION: load_memory
              DOMAIN: "{domain}"
        FLOW:
          show:
            REASONING: false
            RESPOND: "{{{{user.history.last}}}}"
        """
    )
    session = agent.start(user="ada", project="p")
    assert session.opening.messages == ["Rome"]
    assert ("project" in session.vars) is (domain == "history")


def test_retrieve_is_another_word_for_paths(load: Any, memory: Memory) -> None:
    memory.scope(user="ada").set("name", "Ada")
    agent = load("MEMORY:\n  recall:\n    - ON: session:start\n      RETRIEVE: [user.name]\n", 'PERSONA: "Kind"')
    assert agent.start(user="ada").vars["user"] == {"name": "Ada"}


@pytest.mark.parametrize("value", ["{{user.name}}", "COALESCE({{user.name}}, 'x')", "{{ user.name }} + ''"])
def test_a_path_in_braces_is_read_in_set(load: Any, memory: Memory, value: str) -> None:
    memory.scope(user="ada").set("name", "Ada")
    agent = load(
        f"""
        MEMORY:
          persistent:
            - user.name
        FLOW:
          show:
            REASONING: false
            SET: who = {value}
            RESPOND: "{{{{who}}}}"
        """
    )
    assert agent.start(user="ada").opening.messages == ["Ada"]


# --- logs ---------------------------------------------------------------------------------------------------------


def test_warnings_and_stopped_turns_are_logged(load: Any, caplog: pytest.LogCaptureFixture) -> None:
    agent = load(
        """
        MEMORY:
          session:
            - count
              TYPE: number
        CONSTRAINTS:
          always:
            - WARN LENGTH(input) < 5
              ON_FAIL: "A long message."
        FLOW:
          hear:
            REASONING: false
            ON_INPUT:
              - IF: input == "loop"
                THEN: loop
              - ELSE:
                SET: count = "many"
          loop:
            REASONING: false
            THEN: loop
        """
    )
    session = agent.start()
    with caplog.at_level(logging.WARNING, logger="memoranda"):
        session.say("short")
        assert caplog.messages == [
            f"session {session.id}: `count` is declared number and got another type",
            f"session {session.id}: A long message. (WARN LENGTH(input) < 5)",
        ]
        caplog.clear()
        session.say("loop")
        assert [message.split(": ")[1].split(" (")[0] for message in caplog.messages] == ["the flow"]
        caplog.clear()
        assert load('FLOW:\n  a:\n    REASONING: false\n    RESPOND: "Hi"\n').start().opening.messages == ["Hi"]
        assert caplog.messages == []


# --- what users notice --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "question"),
    [
        ("guests: required\n        type: number", "How many guests?"),
        ("dates: required", "What are the dates?"),
        ("address: required", "What is the address?"),
        ("agreed: required\n        type: boolean", "Agreed: yes or no?"),
        ("room_type: required\n        options: [single, double]", "What is the room type? (single, double)"),
    ],
)
def test_a_default_question_reads_as_english(load: Any, field: str, question: str) -> None:
    agent = load(f"FLOW:\n  ask:\n    REASONING: false\n    GATHER:\n      - {field}\n")
    assert agent.start().opening.messages == [question]


def test_words_that_change_a_field_keep_the_new_value(load: Any, talk: Any) -> None:
    agent = load(
        """
        FLOW:
          trip:
            REASONING: false
            GATHER:
              - destination: required
                prompt: "Where to?"
              - guests: required
                type: number
            SUB_INTENTS:
              - INTENT: "change destination"
                CLEAR: [destination]
                RESPOND: "Sure, where to?"
            RESPOND: "{{destination}} for {{guests}}"
            THEN: COMPLETE
        """
    )
    assert talk(agent.start(), "Rome", "change destination to Paris", "2")[1:] == [
        ["Sure, where to?", "How many guests?"],
        ["Paris for 2"],
    ]
    assert talk(agent.start(), "Rome", "change destination", "Oslo", "2")[1:] == [
        ["Sure, where to?"],
        ["How many guests?"],
        ["Oslo for 2"],
    ]


def test_an_agent_that_hands_over_does_not_ask_first(load: Any) -> None:
    other = load('FLOW:\n  a:\n    REASONING: false\n    RESPOND: "Repairs here."\n', name="Repairs")
    agent = load(
        """
        HANDOFF:
          - TO: Repairs
            WHEN: input contains "broken"
        FLOW:
          ask:
            REASONING: false
            GATHER:
              - name:
                prompt: "Your name?"
              - street:
                prompt: "Your street?"
        """,
        agents=[other],
    )
    assert agent.start().say("it is broken").messages == ["Repairs here."]
    assert agent.start().say("Ada").messages == ["Your street?"]


def test_grants_restrict_facts_that_are_not_declared(load: Any, memory: Memory) -> None:
    ada = memory.scope(user="ada")
    ada.set("name", "Ada")
    ada.set("diary", "secret")
    other = load(
        """
        FLOW:
          look:
            REASONING: false
            SET: user.extra = 1
            RESPOND: "{{user.name}}|{{user.diary}}"
        """,
        name="Other",
    )
    grants = "\n    CONTEXT:\n      memory_grants:\n        - {path: user.name, access: read}"
    for granted, said in ((grants, "Ada|"), ("", "Ada|secret")):
        agent = load(
            f"HANDOFF:\n  - TO: Other{granted}\n",
            "FLOW:\n  go:\n    REASONING: false\n    THEN: HANDOFF Other\n",
            agents=[other],
        )
        assert agent.start(user="ada").opening.messages == [said]
        assert ada.value("extra") is None


def test_money_is_printed_and_stored_as_money(load: Any, memory: Memory) -> None:
    agent = load(
        """
        MEMORY:
          persistent:
            - user.spent
              TYPE: number
              UNIT: USD
            - user.length
              TYPE: number
              UNIT: km
        FLOW:
          sum:
            REASONING: false
            SET: total = 299.97 * 1.12
            SET: user.spent = total
            SET: user.length = total
            RESPOND: "${{total}}, {{total}}, {{user.spent}}, ${{3 * 100}}, €{{0.5 + 0.25 * 2}}, £{{35.5}}"
        """
    )
    assert agent.start(user="ada").opening.messages == ["$335.97, 335.9664, 335.97, $300, €1, £35.50"]
    ada = memory.scope(user="ada")
    assert (ada.value("spent"), ada.value("length")) == (335.97, 299.97 * 1.12)


def test_a_trigger_runs_again_when_something_that_it_reads_may_have_changed(load: Any, memory: Memory) -> None:
    agent = load(
        """
        MEMORY:
          session:
            - seat
              INPUT: true
          persistent:
            - user.seat
            - user.copy
          remember:
            - WHEN: seat IS SET
              STORE: seat -> user.seat
            - WHEN: user.seat IS SET
              STORE: user.seat -> user.copy
        FLOW:
          ask:
            REASONING: false
            ON_INPUT:
              - IF: input == "leave"
                CLEAR: seat
              - ELSE:
                RESPOND: "Noted."
        """
    )
    ada = memory.scope(user="ada")
    session = agent.start(user="ada")

    def remembered(words: str) -> list[str]:
        turn = session.say(words)
        return [entry.about for entry in turn.trace if entry.kind == "remembered"]

    assert remembered("hm") == []
    session.vars["seat"] = "C4"
    assert remembered("hm") == ["user.seat", "user.copy"]
    assert remembered("hm") == []
    ada.set("seat", "D1")
    assert remembered("hm") == ["user.copy"]  # what another program wrote stays
    assert (ada.value("seat"), ada.value("copy")) == ("D1", "D1")
    remembered("leave")
    session.vars["seat"] = "C4"
    assert remembered("hm") == ["user.seat", "user.copy"]
    assert ada.value("copy") == "C4"
