"""Steps of a flow: what each directive does, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

import memoranda
from memoranda.abl.agent import start_fixture


def test_a_step_whose_guard_is_false_is_skipped_to_where_it_leads(load: Any, told: Any):
    agent = load("""
        FLOW:
          first:
            REASONING: false
            WHEN: member == true
            SET: reached = true
            RESPOND: "Members only."
            THEN: second
          second:
            REASONING: false
            RESPOND: "Everybody."
            THEN: COMPLETE
        """)
    member = start_fixture(agent, vars={"member": True})
    guest = agent.start()
    assert member.opening.messages == ["Members only.", "Everybody."]
    assert guest.opening.messages == ["Everybody."]
    assert told(guest.opening, "skipped") == ["skipped first: because its WHEN does not hold"]
    assert member.vars["reached"] is True and "reached" not in guest.vars


def test_a_skipped_step_without_a_then_ends_the_flow(load: Any):
    agent = load("""
        FLOW:
          only:
            REASONING: false
            WHEN: open == true
            RESPOND: "Come in."
            ON_INPUT:
              - ELSE:
                RESPOND: "Yes?"
        """)
    assert agent.start().opening.status == "completed"
    assert start_fixture(agent, vars={"open": True}).opening.status == "waiting"


def test_actions_run_in_the_order_in_which_they_are_written(load: Any):
    agent = load(
        """
        FLOW:
          work:
            REASONING: false
            RESPOND: "Before: {{weight}}{{call_result.kilos}}."
            SET: weight = 2
            RESPOND: "After SET: {{weight}}."
            CALL: weigh()
            RESPOND: "After CALL: {{call_result.kilos}}."
            CHECK: call_result.kilos > weight
            CLEAR: [weight]
            RESPOND: "After CLEAR: {{weight}}."
            TRANSFORM: call_result.parts AS part INTO names
              MAP:
                name: part
            RESPOND: "After TRANSFORM: {{names[1].name}}."
            THEN: COMPLETE
        """,
        tools={"weigh": lambda: {"kilos": 5, "parts": ["box", "lid"]}},
    )
    assert agent.start().opening.messages == [
        "Before: .",
        "After SET: 2.",
        "After CALL: 5.",
        "After CLEAR: .",
        "After TRANSFORM: lid.",
    ]


def test_what_is_presented_stands_before_the_question_wherever_it_is_written_and_only_once(load: Any):
    agent = load("""
        FLOW:
          form:
            REASONING: false
            RESPOND: "One moment."
            GATHER:
              - colour:
                prompt: "Which colour?"
              - material:
                prompt: "Which material?"
            PRESENT: "We dye in {{shades}} shades."
            SET: shades = 7
            THEN: COMPLETE
        """)
    session = start_fixture(agent, vars={"shades": 5})
    assert session.opening.messages == ["One moment.", "We dye in 5 shades.", "Which colour?"]
    assert session.say("red").messages == ["Which material?"]


def test_a_choice_by_words_comes_after_the_actions_and_waits_for_new_words(load: Any, talk: Any):
    agent = load("""
        FLOW:
          ask:
            REASONING: false
            ON_INPUT:
              - IF: input == "left"
                THEN: hall
              - IF: input == "right"
                RESPOND: "A wall."
            RESPOND: "Left or right?"
            THEN: hall
          hall:
            REASONING: false
            RESPOND: "A hall."
            ON_INPUT:
              - IF: input == "left"
                RESPOND: "Left again."
              - ELSE:
                RESPOND: "Hm."
        """)
    session = agent.start()
    assert session.opening.messages == ["Left or right?"]
    # One that matches nothing waits silently; one without THEN stays; one message is not used twice.
    assert talk(session, "up", "right", "left", "left", "up") == [
        [],
        ["A wall."],
        ["A hall."],
        ["Left again."],
        ["Hm."],
    ]
    assert session.step == "hall"


def test_one_message_feeds_the_gathering_and_the_choice_of_its_step(load: Any, talk: Any):
    agent = load("""
        FLOW:
          ask:
            REASONING: false
            GATHER:
              - town:
                prompt: "Which town?"
            ON_INPUT:
              - IF: LOWER(input) contains "porto"
                RESPOND: "A fine town, {{town}}."
                THEN: COMPLETE
              - ELSE:
                RESPOND: "We are not in {{town}}."
                CLEAR: [town]
        """)
    session = agent.start()
    assert session.say("Porto").messages == ["A fine town, Porto."]
    assert agent.start().say("Basel").messages == ["We are not in Basel."]


def test_conditions_of_a_choice_see_the_state_before_any_branch_changed_it(load: Any):
    agent = load("""
        FLOW:
          ask:
            REASONING: false
            SET: count = 1
            ON_INPUT:
              - IF: count == 1
                SET: count = 2
                RESPOND: "one"
              - IF: count == 2
                SET: count = 1
                RESPOND: "two"
        """)
    session = agent.start()
    assert [session.say("x").messages for _ in range(3)] == [["one"], ["two"], ["one"]]


def test_then_may_be_a_list_of_conditions(load: Any):
    agent = load("""
        FLOW:
          sort:
            REASONING: false
            THEN:
              - IF: size > 10
                RESPOND: "Large."
                THEN: shelf
              - IF: size > 5
                THEN: shelf
              - ELSE:
                SET: size = 0
                THEN: COMPLETE
          shelf:
            REASONING: false
            RESPOND: "On the shelf: {{size}}."
            THEN: COMPLETE
        """)
    assert start_fixture(agent, vars={"size": 12}).opening.messages == ["Large.", "On the shelf: 12."]
    assert start_fixture(agent, vars={"size": 6}).opening.messages == ["On the shelf: 6."]
    small = start_fixture(agent, vars={"size": 3})
    assert small.opening.messages == [] and small.opening.status == "completed" and small.vars["size"] == 0


def test_a_list_of_conditions_of_which_none_holds_ends_the_flow(load: Any):
    agent = load("""
        FLOW:
          sort:
            REASONING: false
            THEN:
              - IF: size > 10
                THEN: shelf
          shelf:
            REASONING: false
            RESPOND: "On the shelf."
            ON_INPUT:
              - ELSE:
                RESPOND: "Still."
        """)
    assert start_fixture(agent, vars={"size": 11}).opening.status == "waiting"
    assert start_fixture(agent, vars={"size": 1}).opening.status == "completed"


def test_a_check_that_fails_without_a_place_to_go_holds_the_step_until_it_passes(load: Any, told: Any):
    agent = load("""
        MEMORY:
          session:
            - keys
              INPUT: true
        FLOW:
          door:
            REASONING: false
            CHECK: keys > 0
            RESPOND: "Open."
            THEN: COMPLETE
        """)
    session = agent.start()
    assert (session.opening.messages, session.opening.status) == ([], "waiting")
    assert told(session.opening, "checked") == ["checked keys > 0: holds false"]
    assert session.say("please").messages == []
    session.vars["keys"] = 1
    assert session.say("please").messages == ["Open."]


def test_a_check_may_lead_to_a_step_or_to_actions(load: Any):
    agent = load("""
        FLOW:
          door:
            REASONING: false
            CHECK: keys > 0
            ON_FAIL: porch
            CHECK: hands > 0
            ON_FAIL:
              SET: hands = 1
              RESPOND: "Take these."
              THEN: door
            RESPOND: "Open with {{hands}}."
            THEN: COMPLETE
          porch:
            REASONING: false
            RESPOND: "Locked."
            THEN: COMPLETE
        """)
    assert agent.start().opening.messages == ["Locked."]
    assert start_fixture(agent, vars={"keys": 1}).opening.messages == ["Take these.", "Open with 1."]
    assert start_fixture(agent, vars={"keys": 1, "hands": 2}).opening.messages == ["Open with 2."]


def test_a_step_that_is_attempted_too_often_leads_elsewhere(load: Any, talk: Any, told: Any):
    agent = load("""
        FLOW:
          code:
            REASONING: false
            MAX_ATTEMPTS: 2
            ON_EXHAUSTED: locked
            RESPOND: "Code?"
            ON_INPUT:
              - IF: input == "4711"
                RESPOND: "Right."
                THEN: COMPLETE
              - ELSE:
                RESPOND: "Wrong."
                THEN: code
          locked:
            REASONING: false
            RESPOND: "Locked."
            THEN: COMPLETE
        """)
    session = agent.start()
    assert talk(session, "1", "2") == [["Wrong.", "Code?"], ["Wrong.", "Locked."]]
    session = agent.start()
    assert talk(session, "1", "4711") == [["Wrong.", "Code?"], ["Right."]]


def test_answers_that_give_no_value_are_attempts_too(load: Any, told: Any):
    agent = load("""
        FLOW:
          age:
            REASONING: false
            MAX_ATTEMPTS: 2
            ON_EXHAUSTED: person
            GATHER:
              - age:
                type: number
                prompt: "How old?"
            RESPOND: "{{age}}."
            THEN: COMPLETE
          person:
            REASONING: false
            RESPOND: "I call somebody."
            THEN: ESCALATE
        """)
    session = agent.start()
    assert session.say("hm").messages == ["How old?"]
    last = session.say("hm")
    assert last.messages == ["I call somebody."] and last.status == "escalated"
    assert told(last, "exhausted") == ["exhausted age: attempts 2"]
    session = agent.start()
    session.say("hm")
    assert session.say("41").messages == ["41."]


def test_a_step_without_a_place_for_too_many_attempts_ends_the_flow(load: Any):
    agent = load("""
        FLOW:
          again:
            REASONING: false
            MAX_ATTEMPTS: 3
            SET: count = count + 1
            THEN: again
        """)
    session = start_fixture(agent, vars={"count": 0})
    assert session.opening.status == "completed"
    assert session.vars["count"] == 3


def test_values_given_earlier_can_be_corrected_and_take_what_depends_on_them_along(load: Any, told: Any):
    agent = load("""
        FLOW:
          trip:
            REASONING: false
            CORRECTIONS: true
            GATHER:
              - destination:
                prompt: "Where to?"
              - hotel:
                prompt: "Which house in {{destination}}?"
                depends_on: [destination]
              - guests:
                type: number
                prompt: "How many guests?"
            RESPOND: "{{guests}} at the {{hotel}} in {{destination}}."
            THEN: COMPLETE
        """)
    session = agent.start()
    assert session.say("Porto").messages == ["Which house in Porto?"]
    assert session.say("Miramar").messages == ["How many guests?"]
    turn = session.say("actually, change the destination to Faro")
    assert turn.messages == ["Which house in Faro?"]
    assert told(turn, "corrected") == ["corrected destination: to Faro"]
    assert told(turn, "cleared") == ["cleared hotel: because destination"]
    assert session.say("Sol").messages == ["How many guests?"]
    assert session.say("2").messages == ["2 at the Sol in Faro."]


def test_words_that_correct_one_answer_are_not_the_whole_of_another(load: Any):
    agent = load("""
        FLOW:
          trip:
            REASONING: false
            CORRECTIONS: true
            GATHER:
              - guests:
                type: number
                prompt: "How many guests?"
              - wish:
                prompt: "Any wish?"
            RESPOND: "{{guests}}: {{wish}}"
            THEN: COMPLETE
        """)
    session = agent.start()
    assert session.say("2").messages == ["Any wish?"]
    assert session.say("actually 4 guests").messages == ["Any wish?"]
    assert session.say("a quiet room").messages == ["4: a quiet room"]


def test_without_corrections_a_value_given_earlier_stays(load: Any):
    agent = load("""
        FLOW:
          trip:
            REASONING: false
            GATHER:
              - destination:
                prompt: "Where to?"
              - guests:
                type: number
                prompt: "How many guests?"
            RESPOND: "{{guests}} in {{destination}}."
            THEN: COMPLETE
        """)
    session = agent.start()
    session.say("Porto")
    session.say("actually, change the destination to Faro")
    assert session.vars["destination"] == "Porto"
    assert session.say("3").messages == ["3 in Porto."]


def test_a_gathering_is_done_when_its_condition_says_so(load: Any):
    agent = load("""
        FLOW:
          ask:
            REASONING: false
            GATHER:
              - email: required
              - phone: required
            COMPLETE_WHEN: email IS SET OR phone IS SET
            RESPOND: "Thank you."
            THEN: COMPLETE
        """)
    session = agent.start()
    assert session.opening.messages == ["What is the email?"]
    assert session.say("ada@example.org").messages == ["Thank you."]
    assert "phone" not in session.vars


def test_optional_fields_are_taken_but_not_asked_for_and_defaults_fill_what_is_left(load: Any):
    agent = load("""
        FLOW:
          ask:
            REASONING: false
            GATHER:
              - name:
                prompt: "Name?"
              - nickname: optional
              - paper:
                default: "A4"
                prompt: "Paper?"
            RESPOND: "{{name}} on {{paper}}{{nickname}}."
            THEN: COMPLETE
        """)
    session = agent.start()
    assert session.opening.messages == ["Name?"]
    assert session.say("Ada").messages == ["Ada on A4."]


def test_clearing_a_field_asks_again_only_when_the_step_is_entered_again(load: Any, talk: Any):
    agent = load("""
        FLOW:
          ask:
            REASONING: false
            GATHER:
              - name:
                prompt: "Name?"
            CLEAR: [name]
            RESPOND: "Gone: {{name}}."
            ON_INPUT:
              - IF: input == "again"
                THEN: ask
              - ELSE:
                RESPOND: "Hm."
        """)
    session = agent.start()
    assert talk(session, "Ada") == [["Gone: .", "Hm."]]
    assert talk(session, "x", "again") == [["Hm."], ["Name?"]]


def test_the_entry_point_the_order_and_the_first_step_say_where_a_flow_begins(load: Any):
    steps = """
          one:
            REASONING: false
            RESPOND: "one"
            THEN: COMPLETE
          two:
            REASONING: false
            RESPOND: "two"
            THEN: COMPLETE
        """
    assert load("FLOW:" + steps).start().opening.messages == ["one"]
    assert load("FLOW:\n          entry_point: two" + steps).start().opening.messages == ["two"]
    assert load("FLOW:\n          two -> one" + steps).start().opening.messages == ["two"]


def test_the_exact_name_of_a_step_beats_a_word_of_the_language(load: Any):
    agent = load("""
        FLOW:
          begin:
            REASONING: false
            THEN: complete
          complete:
            REASONING: false
            RESPOND: "Not yet."
            ON_INPUT:
              - ELSE:
                THEN: COMPLETE
        """)
    session = agent.start()
    assert session.opening.messages == ["Not yet."] and session.step == "complete"
    assert session.say("x").status == "completed"


def test_a_completed_agent_begins_anew_when_the_user_goes_on_and_keeps_its_variables(load: Any, talk: Any):
    agent = load("""
        MEMORY:
          session:
            - rounds
              TYPE: number
              INITIAL: 0
        FLOW:
          play:
            REASONING: false
            SET: rounds = rounds + 1
            RESPOND: "Round {{rounds}}."
            THEN: COMPLETE
        """)
    session = agent.start()
    assert session.opening.messages == ["Round 1."]
    assert talk(session, "again", "again") == [["Round 2."], ["Round 3."]]


@pytest.mark.parametrize(
    ("then", "status", "reason"),
    [("COMPLETE", "completed", None), ("complete", "completed", None), ("ESCALATE", "escalated", "")],
)
def test_words_of_the_language_end_a_flow_in_any_case(load: Any, then: str, status: str, reason: str | None):
    agent = load(f"""
        FLOW:
          end:
            REASONING: false
            THEN: {then}
        """)
    turn = agent.start().opening
    assert turn.status == status
    assert (turn.escalation or {}).get("reason") == reason


def test_an_escalation_says_why_with_the_values_of_the_moment(load: Any):
    agent = load("""
        FLOW:
          end:
            REASONING: false
            SET: amount = 900
            THEN: ESCALATE with REASON: "Somebody must sign {{amount}}"
        """)
    turn = agent.start().opening
    assert turn.escalation is not None and turn.escalation["reason"] == "Somebody must sign 900"


def test_a_file_with_an_unknown_step_is_refused_with_the_place(load: Any):
    with pytest.raises(memoranda.SourceError) as caught:
        load("""
            FLOW:
              one:
                REASONING: false
                THEN: tow
              two:
                REASONING: false
                THEN: one
            """)
    assert any("tow" in one.message for one in caught.value.diagnostics)


def test_items_without_fields_are_sorted_by_themselves(load: Any):
    agent = load(
        """
        FLOW:
          sort:
            REASONING: false
            TRANSFORM:
              SOURCE: [4, 12, 9] AS score
              INTO: best
              SORT_BY: score desc
              LIMIT: 2
            TRANSFORM:
              SOURCE: ["oak", "ash", "elm"] AS tree
              INTO: trees
              SORT_BY: tree
            RESPOND: "{{best}} {{trees}}"
            THEN: COMPLETE
        """
    )
    assert agent.start().opening.messages == ['[12,9] ["ash","elm","oak"]']


def test_texts_that_are_numbers_are_sorted_and_cut_as_numbers(load: Any):
    agent = load(
        """
        FLOW:
          sort:
            REASONING: false
            SET: most = "2"
            TRANSFORM:
              SOURCE: [{price: "120.50"}, {price: "9.90"}, {price: 30}, {price: "free"}] AS room
              INTO: cheap
              SORT_BY: price
              LIMIT: most
            RESPOND: "{{cheap}}"
            THEN: COMPLETE
        """
    )
    assert agent.start().opening.messages == ['[{"price":"9.90"},{"price":30}]']


@pytest.mark.parametrize("otherwise", ["", '- ELSE:\n            RESPOND: "One or two."'])
def test_words_that_lead_nowhere_are_attempts_in_a_step_with_a_choice_too(load: Any, otherwise: str):
    agent = load(
        """
        FLOW:
          pick:
            REASONING: false
            MAX_ATTEMPTS: 2
            ON_EXHAUSTED: sorry
            RESPOND: "Which?"
            ON_INPUT:
              - IF: input IN ["one", "two"]
                THEN: COMPLETE
              OTHERWISE
          sorry:
            REASONING: false
            RESPOND: "Never mind."
            THEN: COMPLETE
        """.replace("OTHERWISE", otherwise.replace("            ", " " * 16))
    )
    session = agent.start()
    assert (session.say("three").status, session.step) == ("waiting", "pick")
    turn = session.say("four")
    assert (turn.status, turn.messages[-1]) == ("completed", "Never mind.")


def test_values_that_do_not_fit_are_attempts_in_a_step_with_a_choice_too(load: Any):
    agent = load(
        """
        FLOW:
          pick:
            REASONING: false
            MAX_ATTEMPTS: 2
            ON_EXHAUSTED: sorry
            GATHER:
              - seats:
                type: number
                validate:
                  max: 5
            ON_INPUT:
              - IF: seats > 0
                THEN: COMPLETE
          sorry:
            REASONING: false
            RESPOND: "Never mind."
            THEN: COMPLETE
        """
    )
    session = agent.start()
    assert session.say("9").status == "waiting"
    assert session.say("8").messages[-1] == "Never mind."


def test_an_agent_that_begins_anew_has_all_its_attempts_again(load: Any):
    agent = load(
        """
        FLOW:
          pick:
            REASONING: false
            MAX_ATTEMPTS: 1
            ON_EXHAUSTED: sorry
            RESPOND: "Picked."
            THEN: COMPLETE
          sorry:
            REASONING: false
            RESPOND: "Never mind."
            THEN: COMPLETE
        """
    )
    session = agent.start()
    assert [session.opening.messages, session.say("again").messages] == [["Picked."], ["Picked."]]


def test_a_correction_takes_along_what_depends_on_what_depends_on_it(load: Any):
    agent = load(
        """
        FLOW:
          trip:
            REASONING: false
            GATHER:
              - country:
                options: [France, Spain]
              - town:
                depends_on: [country]
              - hotel:
                depends_on: [town]
              - nights:
                type: number
            CORRECTIONS: true
            THEN: COMPLETE
        """
    )
    session = agent.start()
    for said in ("France", "Lyon", "Grand"):
        session.say(said)
    assert dict(session.vars) == {"country": "France", "town": "Lyon", "hotel": "Grand"}
    assert session.say("actually Spain").text == "What is the town?"
    assert dict(session.vars) == {"country": "Spain"}


def test_a_value_that_a_rule_refused_can_be_given_anew_after_other_words_too(load: Any):
    agent = load(
        """
        CONSTRAINTS:
          always:
            - LIMIT seats <= 6
              WHEN: seats IS SET
              ON_FAIL: "Six at most."
        FLOW:
          ask:
            REASONING: false
            GATHER:
              - seats:
                type: number
              - guest:
                prompt: "For whom?"
            THEN: COMPLETE
        """
    )
    session = agent.start()
    said = ["9", "oh dear", "8", "5"]
    assert [session.say(words).text for words in said] == ["Six at most."] * 3 + ["For whom?"]
    assert session.vars["seats"] == 5
    assert session.say("Ada").status == "completed"
