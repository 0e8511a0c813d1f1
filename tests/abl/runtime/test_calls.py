"""CALL: how arguments are passed, where results go, and where each outcome leads."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.abl import Behaviour
from memoranda.abl.agent import start_fixture


def add(left: float, right: float = 10) -> dict[str, float]:
    return {"sum": left + right}


@pytest.mark.parametrize(
    ("call", "total"),
    [
        ("CALL: add(2, 3)", 5),
        ("CALL: add(2)", 12),
        ("CALL: add(right = 1, left = base)", 5),
        ("CALL: add(base, right = base * 2)", 12),
        ("CALL: add\n              WITH:\n                left: base\n                right: 7", 11),
        ("CALL: add\n            WITH:\n              left: base", 14),
        ("CALL: add(1)\n            AS: base", 11),
    ],
)
def test_arguments_are_given_by_position_by_name_or_as_a_map(load: Any, call: str, total: float):
    agent = load(
        f"""
        FLOW:
          work:
            REASONING: false
            SET: base = 4
            {call}
            RESPOND: "{{{{call_result.sum}}}}"
            THEN: COMPLETE
        """,
        tools={"add": add},
    )
    assert agent.start().opening.messages == [str(total)]


def test_a_result_has_four_names_and_its_fields_have_their_own(load: Any):
    agent = load(
        """
        FLOW:
          work:
            REASONING: false
            CALL: add(1, 2)
            AS: answer
            RESPOND: "{{call_result.sum}} {{result.sum}} {{answer.sum}} {{last_add_result.sum}} {{sum}}"
            CALL: add(5, 5)
            RESPOND: "{{call_result.sum}} {{result.sum}} {{answer.sum}} {{last_add_result.sum}} {{sum}}"
            THEN: COMPLETE
        """,
        tools={"add": add},
    )
    assert agent.start().opening.messages == ["3 3 3 3 3", "10 10 3 10 10"]


def test_fields_of_a_result_never_replace_what_has_their_name(load: Any):
    given = {"count": "many", "owner": "tool", "label": "from the tool", "user_id": "eve", "_hidden": 1, "free": "yes"}
    agent = load(
        """
        MEMORY:
          session:
            - count
              TYPE: number
              INITIAL: 1
            - label
              TYPE: string
        FLOW:
          work:
            REASONING: false
            SET: owner = "session"
            CALL: look()
            RESPOND: "{{count}} {{owner}} {{label}} {{user_id}} {{free}}"
            THEN: COMPLETE
        """,
        tools={"look": lambda: given},
    )
    session = agent.start(user="ada")
    # A declared variable takes a field of its own type; a number does not take a text.
    assert session.opening.messages == ["1 session from the tool ada yes"]
    assert "_hidden" not in session.vars


def test_fields_of_results_can_be_left_where_they_are(load: Any):
    text = """
        FLOW:
          work:
            REASONING: false
            CALL: add(1, 2)
            RESPOND: "[{{sum}}] [{{call_result.sum}}]"
            ON_INPUT:
              - ELSE:
                RESPOND: "[{{sum}}] [{{call_result.sum}}]"
        """
    plain = load(text, tools={"add": add}, behaviour=Behaviour(results_become_variables=False)).start()
    usual = load(text, tools={"add": add}).start()
    assert plain.opening.messages == ["[] [3]"]
    assert usual.opening.messages == ["[3] [3]"]


def test_only_the_newest_result_of_a_tool_gives_its_fields(load: Any):
    results = iter([{"seat": "12A", "gate": 3}, {"gate": 4}])
    agent = load(
        """
        FLOW:
          work:
            REASONING: false
            CALL: look()
            RESPOND: "{{seat}} {{gate}}"
            CALL: look()
            RESPOND: "{{seat}} {{gate}}"
            THEN: COMPLETE
        """,
        tools={"look": lambda: next(results)},
    )
    assert agent.start().opening.messages == ["12A 3", " 4"]


def test_a_name_that_was_cleared_takes_a_new_result_again(load: Any):
    agent = load(
        """
        FLOW:
          work:
            REASONING: false
            SET: sum = "mine"
            CALL: add(1, 1)
            RESPOND: "{{sum}}"
            CLEAR: [sum]
            RESPOND: "[{{sum}}]"
            CALL: add(2, 2)
            RESPOND: "{{sum}}"
            THEN: COMPLETE
        """,
        tools={"add": add},
    )
    assert agent.start().opening.messages == ["mine", "[]", "4"]


def test_success_and_failure_lead_to_blocks_of_their_own(load: Any):
    agent = load(
        """
        FLOW:
          work:
            REASONING: false
            CALL: divide(amount)
            ON_SUCCESS:
              SET: share = call_result
              RESPOND: "Each gets {{share}}."
              THEN: COMPLETE
            ON_FAIL:
              RESPOND: "That cannot be divided."
              SET: failed = true
              THEN: rest
          rest:
            REASONING: false
            RESPOND: "Failures so far: {{tool_failures}}."
            ON_INPUT:
              - ELSE:
                RESPOND: "Yes?"
        """,
        tools={"divide": lambda amount: 10 / amount},
    )
    fine = start_fixture(agent, vars={"amount": 4})
    assert (fine.opening.messages, fine.opening.status) == (["Each gets 2.5."], "completed")
    bad = start_fixture(agent, vars={"amount": 0})
    assert bad.opening.messages == ["That cannot be divided.", "Failures so far: 1."]
    assert bad.step == "rest" and bad.vars["failed"] is True
    assert "failed" not in fine.vars


def test_outcomes_may_be_lists_of_conditions_of_which_the_first_that_holds_is_taken(load: Any):
    agent = load(
        """
        FLOW:
          work:
            REASONING: false
            CALL: count(what)
            ON_SUCCESS:
              - IF: call_result > 100
                RESPOND: "Many."
              - IF: call_result > 10
                RESPOND: "Some."
              - ELSE:
                RESPOND: "Few."
            ON_FAIL:
              - IF: what == "sand"
                RESPOND: "Nobody counts sand."
              - ELSE:
                RESPOND: "I lost count."
            THEN: COMPLETE
        """,
        tools={"count": lambda what: {"bees": 500, "dogs": 11, "cats": 2}[what]},
    )
    said = {
        what: start_fixture(agent, vars={"what": what}).opening.messages
        for what in ("bees", "dogs", "cats", "sand", "air")
    }
    assert said == {
        "bees": ["Many."],
        "dogs": ["Some."],
        "cats": ["Few."],
        "sand": ["Nobody counts sand."],
        "air": ["I lost count."],
    }


def test_the_result_itself_may_choose_among_several_ways(load: Any):
    agent = load(
        """
        FLOW:
          work:
            REASONING: false
            CALL: judge()
            ON_RESULT:
              - IF: result.verdict == "yes"
                RESPOND: "Granted."
                THEN: COMPLETE
              - IF: result.verdict == "later"
                THEN: waiting
              - ELSE:
                RESPOND: "Refused."
                THEN: ESCALATE
          waiting:
            REASONING: false
            RESPOND: "Come back."
            ON_INPUT:
              - ELSE:
                THEN: work
        """,
        tools={"judge": iter(["later", "yes", "no"]).__next__},
    )
    assert agent.start().opening.status == "escalated"  # a text has no field `verdict`
    verdicts = iter([{"verdict": "later"}, {"verdict": "yes"}, {"verdict": "no"}])
    agent = load(
        """
        FLOW:
          work:
            REASONING: false
            CALL: judge()
            ON_RESULT:
              - IF: result.verdict == "yes"
                RESPOND: "Granted."
                THEN: COMPLETE
              - IF: result.verdict == "later"
                THEN: waiting
              - ELSE:
                RESPOND: "Refused."
                THEN: ESCALATE
          waiting:
            REASONING: false
            RESPOND: "Come back."
            ON_INPUT:
              - ELSE:
                THEN: work
        """,
        tools={"judge": lambda: next(verdicts)},
    )
    session = agent.start()
    assert session.opening.messages == ["Come back."]
    assert session.say("now?").messages == ["Granted."]
    refused = agent.start().opening
    assert (refused.messages, refused.status) == (["Refused."], "escalated")


def test_calls_inside_of_outcomes_have_outcomes_of_their_own(load: Any):
    def reserve(kind: str) -> dict[str, str]:
        if kind == "boat":
            raise RuntimeError("no boats")
        return {"id": f"R-{kind}"}

    agent = load(
        """
        FLOW:
          work:
            REASONING: false
            CALL: reserve(first)
            ON_SUCCESS:
              RESPOND: "First {{call_result.id}}."
              CALL: reserve(second)
              ON_SUCCESS:
                RESPOND: "Second {{call_result.id}}."
                THEN: done
              ON_FAIL:
                RESPOND: "Only one."
                THEN: done
            ON_FAIL:
              RESPOND: "None."
            RESPOND: "After all of it."
            THEN: COMPLETE
          done:
            REASONING: false
            RESPOND: "Done."
            THEN: COMPLETE
        """,
        tools={"reserve": reserve},
    )

    def opening(first: str, second: str) -> list[str]:
        return start_fixture(agent, vars={"first": first, "second": second}).opening.messages

    assert opening("car", "bike") == ["First R-car.", "Second R-bike.", "Done."]
    assert opening("car", "boat") == ["First R-car.", "Only one.", "Done."]
    assert opening("boat", "car") == ["None.", "After all of it."]


def test_a_block_that_leads_nowhere_comes_back_to_the_step(load: Any):
    agent = load(
        """
        FLOW:
          work:
            REASONING: false
            CALL: add(1, 2)
            ON_SUCCESS:
              SET: seen = call_result.sum
            RESPOND: "Seen {{seen}}."
            THEN: COMPLETE
        """,
        tools={"add": add},
    )
    assert agent.start().opening.messages == ["Seen 3."]


def test_a_gathering_inside_of_an_outcome_keeps_its_place_between_turns(load: Any):
    calls: list[int] = []

    def look() -> dict[str, int]:
        calls.append(1)
        return {"rooms": 3}

    agent = load(
        """
        FLOW:
          work:
            REASONING: false
            CALL: look()
            ON_SUCCESS:
              RESPOND: "{{call_result.rooms}} rooms."
              GATHER:
                - room:
                  prompt: "Which one?"
              RESPOND: "Room {{room}}."
            RESPOND: "Good night."
            THEN: COMPLETE
        """,
        tools={"look": look},
    )
    session = agent.start()
    assert session.opening.messages == ["3 rooms.", "Which one?"]
    assert session.say("the blue one").messages == ["Room the blue one.", "Good night."]
    assert len(calls) == 1


def test_a_failure_without_a_way_out_says_so_and_is_tried_again_with_the_next_words(load: Any, told: Any):
    answers: list[Any] = [RuntimeError("the line is dead"), {"ok": True}]

    def ring() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    agent = load(
        """
        FLOW:
          work:
            REASONING: false
            RESPOND: "Ringing."
            CALL: ring()
            RESPOND: "Answered."
            THEN: COMPLETE
        """,
        tools={"ring": ring},
    )
    session = agent.start()
    assert session.opening.messages == ["Ringing.", "Something went wrong. Please try again."]
    assert told(session.opening, "error") == ["error tool_error: message the line is dead, subtype RuntimeError"]
    assert session.say("again").messages == ["Answered."]


def test_a_tool_that_is_unknown_or_called_wrongly_is_a_failure_that_names_it(load: Any, told: Any):
    agent = load(
        """
        FLOW:
          work:
            REASONING: false
            CALL: ad(1)
            ON_FAIL:
              RESPOND: "One."
            CALL: add(1, 2, 3)
            ON_FAIL:
              RESPOND: "Two."
            CALL: add(1, 2)
            ON_FAIL:
              RESPOND: "Three."
            THEN: COMPLETE
        """,
        tools={"add": add},
    )
    turn = agent.start().opening
    assert turn.messages == ["One.", "Two."]
    failed = told(turn, "called")
    assert "`ad`" in failed[0] and "`add`" in failed[0]  # and which one was probably meant
    assert "takes 2 arguments" in failed[1]
    assert failed[2] == 'called add: gave {"sum":3}'
