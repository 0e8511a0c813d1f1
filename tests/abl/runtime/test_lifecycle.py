"""Around the flow: the start, hooks, errors, messages, templates, people and the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import memoranda
from memoranda.abl import Behaviour
from memoranda.abl.agent import start_fixture

WAIT = """
    FLOW:
      work:
        REASONING: false
        RESPOND: "At work."
        ON_INPUT:
          - ELSE:
            RESPOND: "Heard {{input}}."
"""


def failing(*answers: Any) -> Callable[[], Any]:
    """Return a tool that gives or raises one answer after the other, then the last for ever."""
    left = list(answers)

    def tool() -> Any:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return tool


# --- the start ----------------------------------------------------------------------------------------------------


def test_on_start_runs_once_before_the_flow_and_its_call_before_its_words(load: Any, talk: Any):
    agent = load(
        """
        ON_START:
          RESPOND: "Welcome, {{call_result.name}}, number {{visits}}."
          SET: visits = 7
          CALL: who()
        FLOW:
          work:
            REASONING: false
            RESPOND: "At work."
            THEN: COMPLETE
        """,
        tools={"who": lambda: {"name": "Ada"}},
    )
    session = agent.start()
    assert session.opening.messages == ["Welcome, Ada, number 7.", "At work."]
    assert session.say("again").messages == ["At work."]  # a second activation does not start it again


def test_on_start_sees_what_was_remembered_and_what_the_program_gave(load: Any, memory: memoranda.Memory):
    memory.scope(user="ada").set("name", "Ada")
    agent = load("""
        MEMORY:
          persistent:
            - user.name
        ON_START:
          SET: greeting = "Hello {{user.name}} at {{place}}"
          RESPOND: "{{greeting}}."
        FLOW:
          work:
            REASONING: false
            THEN: COMPLETE
        """)
    assert start_fixture(agent, user="ada", vars={"place": "the quay"}).opening.messages == ["Hello Ada at the quay."]


def test_on_start_may_choose_and_may_lead_to_a_step(load: Any):
    agent = load("""
        ON_START:
          BRANCHES:
            - IF: member == true
              RESPOND: "Welcome back."
              THEN: lounge
            - ELSE:
              RESPOND: "Welcome."
        FLOW:
          hall:
            REASONING: false
            RESPOND: "The hall."
            THEN: COMPLETE
          lounge:
            REASONING: false
            RESPOND: "The lounge."
            THEN: COMPLETE
        """)
    assert start_fixture(agent, vars={"member": True}).opening.messages == ["Welcome back.", "The lounge."]
    assert agent.start().opening.messages == ["Welcome.", "The hall."]


def test_on_start_may_ask_and_the_flow_begins_when_it_has_its_answer(load: Any):
    agent = load("""
        ON_START:
          GATHER:
            - name:
              prompt: "Your name?"
          RESPOND: "Hello {{name}}."
        FLOW:
          work:
            REASONING: false
            RESPOND: "To work, {{name}}."
            THEN: COMPLETE
        """)
    session = agent.start()
    assert (session.opening.messages, session.step) == (["Your name?"], None)
    assert session.say("Ada").messages == ["Hello Ada.", "To work, Ada."]


# --- hooks --------------------------------------------------------------------------------------------------------


def test_hooks_run_around_the_agent_and_around_each_turn(load: Any, talk: Any, told: Any):
    agent = load(
        """
        HOOKS:
          before_agent:
            SET: log = ["before agent"]
          before_turn:
            RESPOND: "(before {{input}})"
            SET: turns = COALESCE(turns, 0) + 1
          after_turn:
            SET: after = COALESCE(after, 0) + 1
          after_agent:
            RESPOND: "(after agent)"
        """,
        WAIT,
    )
    session = agent.start()
    assert session.opening.messages == ["At work."]
    assert session.vars["log"] == ["before agent"]
    assert talk(session, "one", "two") == [["(before one)", "Heard one."], ["(before two)", "Heard two."]]
    # The opening is a turn without input: there is an end to it, but nothing it could come before.
    assert (session.vars["turns"], session.vars["after"]) == (2, 3)
    assert session.end().messages == ["(after agent)"]


def test_a_hook_may_lead_elsewhere(load: Any):
    agent = load(
        """
        HOOKS:
          before_turn:
            BRANCHES:
              - IF: input == "stop"
                THEN: ESCALATE
        """,
        WAIT,
    )
    session = agent.start()
    assert session.say("go").messages == ["Heard go."]
    stopped = session.say("stop")
    assert (stopped.messages, stopped.status) == ([], "escalated")


def test_a_hook_that_fails_is_noted_and_only_a_critical_one_ends_the_turn(load: Any, told: Any):
    for critical, messages in (
        ("false", ["Heard x."]),
        ("true", ["Something went wrong. Please try again."]),
    ):
        agent = load(
            f"""
        HOOKS:
          before_turn:
            CALL: audit()
            critical: {critical}
        """,
            WAIT,
            tools={"audit": failing(RuntimeError("no paper"))},
        )
        turn = agent.start().say("x")
        assert turn.messages == messages
        assert told(turn, "error") == ["error tool_error: message no paper"]


def test_a_critical_hook_that_fails_is_told_in_the_words_of_the_agent(load: Any):
    text = """
        HOOKS:
          before_turn:
            CALL: audit()
            critical: true
        {messages}
        """
    tools = {"audit": failing(RuntimeError("no paper"))}
    own = 'MESSAGES:\n          error_default: "The ledger is stuck."'
    assert load(text.format(messages=own), WAIT, tools=tools).start().say("x").messages == ["The ledger is stuck."]
    closer = f'{own}\n          tool_error: "No audit today."'
    assert load(text.format(messages=closer), WAIT, tools=tools).start().say("x").messages == ["No audit today."]


@pytest.mark.parametrize("hook", ["before_turn", "after_turn"])
def test_a_check_that_fails_in_a_hook_does_not_make_the_agent_forget_its_question(load: Any, hook: str):
    agent = load(f"""
        HOOKS:
          {hook}:
            CHECK: allowed == true
        FLOW:
          work:
            REASONING: false
            GATHER:
              - reason:
                prompt: "Why?"
            RESPOND: "Because {{{{reason}}}}."
            THEN: COMPLETE
        """)
    session = agent.start()
    assert session.say("just like that").messages == ["Because just like that."]


# --- errors -------------------------------------------------------------------------------------------------------


def test_an_error_is_answered_as_its_type_says_and_the_flow_goes_on(load: Any):
    agent = load(
        """
        ON_ERROR:
          tool_error:
            RESPOND: "The books are closed."
            SET: closed = true
            THEN: CONTINUE
        FLOW:
          work:
            REASONING: false
            CALL: look()
            RESPOND: "So much for that: {{closed}}."
            THEN: COMPLETE
        """,
        tools={"look": failing(RuntimeError("x"))},
    )
    assert agent.start().opening.messages == ["The books are closed.", "So much for that: true."]


@pytest.mark.parametrize(
    ("then", "status", "messages"),
    [
        ("ESCALATE", "escalated", ["Oh."]),
        ("COMPLETE", "completed", ["Oh."]),
        ("HANDOFF Elsewhere", "handed_off", ["Oh."]),
        ("other", "completed", ["Oh.", "The other way."]),
    ],
)
def test_an_error_may_lead_anywhere(load: Any, then: str, status: str, messages: list[str]):
    agent = load(
        f"""
        ON_ERROR:
          tool_error:
            RESPOND: "Oh."
            THEN: {then}
        FLOW:
          work:
            REASONING: false
            CALL: look()
            RESPOND: "Looked."
            THEN: COMPLETE
          other:
            REASONING: false
            RESPOND: "The other way."
            THEN: COMPLETE
        """,
        tools={"look": failing(RuntimeError("x"))},
    )
    turn = agent.start().opening
    assert (turn.status, turn.messages) == (status, messages)


def test_the_step_s_handler_beats_the_agent_s(load: Any):
    agent = load(
        """
        ON_ERROR:
          tool_error:
            RESPOND: "Of the agent."
            THEN: CONTINUE
        FLOW:
          one:
            REASONING: false
            CALL: look()
            ON_ERROR:
              tool_error:
                RESPOND: "Of the step."
                THEN: CONTINUE
            THEN: two
          two:
            REASONING: false
            CALL: look()
            THEN: COMPLETE
        """,
        tools={"look": failing(RuntimeError("x"))},
    )
    assert agent.start().opening.messages == ["Of the step.", "Of the agent."]


def test_a_handler_for_the_subtype_beats_one_for_all_of_the_type(load: Any):
    text = """
        ON_ERROR:
          - TYPE: tool_error
            RESPOND: "Some error."
            THEN: CONTINUE
          - TYPE: tool_error
            SUBTYPES: [KeyError, IndexError]
            RESPOND: "Nothing there."
            THEN: CONTINUE
        FLOW:
          work:
            REASONING: false
            CALL: look()
            THEN: COMPLETE
        """
    said = [
        load(text, tools={"look": failing(error)}).start().opening.messages
        for error in (KeyError("a"), IndexError("b"), ValueError("c"))
    ]
    assert said == [["Nothing there."], ["Nothing there."], ["Some error."]]


@pytest.mark.parametrize("kind", ["tool_timeout", "timeout", "tool_error", "unknown_error", "default"])
def test_a_timeout_is_answered_by_the_closest_type_there_is(load: Any, kind: str):
    import threading

    done = threading.Event()
    agent = load(
        f"""
        TOOLS:
          slow()
            timeout: 20
        ON_ERROR:
          {kind}:
            RESPOND: "Too slow, says {kind}."
            THEN: CONTINUE
          llm_error:
            RESPOND: "Never this."
        FLOW:
          work:
            REASONING: false
            CALL: slow()
            THEN: COMPLETE
        """,
        tools={"slow": lambda: done.wait(30)},
    )
    assert agent.start().opening.messages == [f"Too slow, says {kind}."]
    done.set()


@pytest.mark.parametrize(
    ("backoff", "waited"),
    [("fixed", [0.2, 0.2, 0.2]), ("linear", [0.2, 0.4, 0.5]), ("exponential", [0.2, 0.4, 0.5])],
)
def test_an_error_is_tried_again_after_a_growing_time(load: Any, backoff: str, waited: list[float]):
    slept: list[float] = []
    text = f"""
        ON_ERROR:
          tool_error:
            RETRY: 3
            RETRY_DELAY: 200
            RETRY_BACKOFF: {backoff}
            RETRY_MAX_DELAY: 500
            RESPOND: "I give up."
            THEN: COMPLETE
        FLOW:
          work:
            REASONING: false
            RESPOND: "Begun."
            CALL: look()
            RESPOND: "Got {{{{call_result}}}}."
            THEN: COMPLETE
        """
    no = RuntimeError("no")
    agent = load(text, tools={"look": failing(no, no, no, "it")}, behaviour=Behaviour(sleep=slept.append))
    assert agent.start().opening.messages == ["Begun.", "Got it."]
    assert slept == pytest.approx(waited)
    agent = load(text, tools={"look": failing(no)}, behaviour=Behaviour(sleep=slept.append))
    assert agent.start().opening.messages == ["Begun.", "I give up."]


def test_no_handler_tries_again_more_often_than_the_behaviour_allows(load: Any):
    calls: list[int] = []

    def look() -> None:
        calls.append(1)
        raise RuntimeError("no")

    agent = load(
        """
        ON_ERROR:
          tool_error:
            RETRY: 1000
            THEN: COMPLETE
        FLOW:
          work:
            REASONING: false
            CALL: look()
            THEN: COMPLETE
        """,
        tools={"look": look},
        behaviour=Behaviour(retries=2, sleep=lambda seconds: None),
    )
    agent.start()
    assert len(calls) == 3


def test_an_error_may_go_back_to_the_step_before_or_to_a_named_one(load: Any):
    text = """
        FLOW:
          first:
            REASONING: false
            SET: tries = COALESCE(tries, 0) + 1
            RESPOND: "First, {{{{tries}}}}."
            THEN: second
          second:
            REASONING: false
            RESPOND: "Second."
            THEN: third
          third:
            REASONING: false
            CALL: look()
            ON_ERROR:
              tool_error:
                THEN: backtrack
                {to}
            RESPOND: "Third."
            THEN: COMPLETE
        """
    no = RuntimeError("no")
    agent = load(text.format(to=""), tools={"look": failing(no, "it")})
    assert agent.start().opening.messages == ["First, 1.", "Second.", "Second.", "Third."]
    agent = load(text.format(to="BACKTRACK_TO: first"), tools={"look": failing(no, "it")})
    assert agent.start().opening.messages == ["First, 1.", "Second.", "First, 2.", "Second.", "Third."]


def test_going_back_from_the_very_start_begins_the_flow(load: Any):
    agent = load(
        """
        ON_START:
          CALL: look()
          RESPOND: "Never said."
        ON_ERROR:
          tool_error:
            RESPOND: "Without the books, then."
            THEN: backtrack
        FLOW:
          work:
            REASONING: false
            RESPOND: "At work."
            THEN: COMPLETE
        """,
        tools={"look": failing(RuntimeError("no"))},
    )
    assert agent.start().opening.messages == ["Without the books, then.", "At work."]


def test_a_computation_that_cannot_be_done_is_an_error_of_the_step(load: Any, told: Any):
    agent = load("""
        ON_ERROR:
          validation_error:
            RESPOND: "That does not compute."
            THEN: COMPLETE
        FLOW:
          work:
            REASONING: false
            SET: room = "blue"
            SET: room.beds = 2
            RESPOND: "Never said."
            THEN: COMPLETE
        """)
    turn = agent.start().opening
    assert turn.messages == ["That does not compute."]
    assert "`room` is not an object" in told(turn, "error")[0]


# --- messages and templates ---------------------------------------------------------------------------------------


def test_messages_of_the_runtime_can_be_put_in_other_words(load: Any):
    text = """
        {messages}
        FLOW:
          work:
            REASONING: false
            SET: name = "Ada"
            CALL: look()
            THEN: COMPLETE
        """
    own = 'MESSAGES:\n          error_default: "Sorry, {{name}}."'
    tools = {"look": failing(RuntimeError("x"))}
    assert load(text.format(messages=own), tools=tools).start().opening.messages == ["Sorry, Ada."]
    closer = f'{own}\n          tool_error: "No answer, {{{{name}}}}."'
    assert load(text.format(messages=closer), tools=tools).start().opening.messages == ["No answer, Ada."]
    assert load(text.format(messages=""), tools=tools).start().opening.messages == [
        "Something went wrong. Please try again."
    ]


def test_a_reply_may_name_a_template(load: Any):
    agent = load("""
        TEMPLATES:
          receipt: |
            {{#each lines}}
            {{add @index 1}}. {{this}}
            {{/each}}
            {{#if lines.length > 1}}Several.{{else}}One.{{/if}}
          plain:
            DEFAULT: "Plain {{name}}."
        FLOW:
          work:
            REASONING: false
            SET: name = "words"
            SET: lines = ["tea", "cake"]
            RESPOND: TEMPLATE(receipt)
            RESPOND: TEMPLATE("plain")
            RESPOND: "TEMPLATE(plain)"
            THEN: COMPLETE
        """)
    assert agent.start().opening.messages == ["1. tea\n2. cake\nSeveral.", "Plain words.", "TEMPLATE(plain)"]


# --- the end ------------------------------------------------------------------------------------------------------


def test_the_first_ending_that_holds_is_taken_says_its_words_and_stores_its_value(
    load: Any, memory: memoranda.Memory, told: Any
):
    agent = load("""
        COMPLETE:
          - WHEN: input == "never"
            RESPOND: "Not this."
          - WHEN: input == "bye"
            RESPOND: "Until soon, {{name}}."
            STORE: {name: name, turns: turn_count} -> user.visit
          - WHEN: input == "bye"
            RESPOND: "Nor this."
        FLOW:
          work:
            REASONING: false
            SET: name = "Ada"
            RESPOND: "Yes?"
            ON_INPUT:
              - ELSE:
                RESPOND: "Go on."
        """)
    session = agent.start(user="ada")
    assert session.say("x").status == "waiting"
    assert memory.scope(user="ada").get("visit") is None
    turn = session.say("bye")
    assert (turn.messages, turn.status) == (["Go on.", "Until soon, Ada."], "completed")
    assert memory.scope(user="ada").value("visit") == {"name": "Ada", "turns": 2}
    assert told(turn, "remembered") == ['remembered user.visit: value {"name":"Ada","turns":2}']


def test_an_ending_may_store_a_variable_under_its_own_name(load: Any, memory: memoranda.Memory):
    agent = load("""
        MEMORY:
          persistent:
            - user.last_order
        COMPLETE:
          - WHEN: order IS SET
            STORE: order -> user.last_order
        FLOW:
          work:
            REASONING: false
            GATHER:
              - order:
                prompt: "What may it be?"
            RESPOND: "{{order}}."
            ON_INPUT:
              - ELSE:
                RESPOND: "Coming."
        """)
    session = agent.start(user="ada")
    assert memory.scope(user="ada").get("last_order") is None
    assert session.say("tea").status == "completed"
    assert memory.scope(user="ada").value("last_order") == "tea"


# --- people -------------------------------------------------------------------------------------------------------


def test_a_person_is_called_with_the_reason_the_urgency_and_what_they_should_know(load: Any, told: Any):
    agent = load("""
        ESCALATE:
          triggers:
            - WHEN: input contains "fire"
              REASON: "{{name}} reports a fire"
              PRIORITY: critical
              TAGS: [safety, urgent]
            - WHEN: anger > 3
              REASON: "Anger is {{anger}}"
              PRIORITY: low
          context_for_human: [name, floor, missing]
        FLOW:
          work:
            REASONING: false
            SET:
              - name = "Ada"
              - floor = 3
              - anger = 0
            RESPOND: "Yes?"
            ON_INPUT:
              - IF: input contains "grr"
                SET: anger = anger + 4
                RESPOND: "I see."
              - ELSE:
                RESPOND: "Hm."
        """)
    session = agent.start()
    assert session.say("all is well").escalation is None
    turn = session.say("there is a fire")
    assert turn.status == "escalated" and session.status == "escalated"
    assert turn.escalation == {
        "reason": "Ada reports a fire",
        "priority": "critical",
        "tags": ["safety", "urgent"],
        "context": {"name": "Ada", "floor": 3},
    }
    assert told(turn, "escalated")[0].startswith("escalated Ada reports a fire: priority critical")
    other = agent.start()
    assert other.say("grr").escalation["reason"] == "Anger is 4"


def test_while_a_person_has_the_conversation_the_agent_is_silent_until_it_is_given_back(load: Any):
    agent = load("""
        ESCALATE:
          triggers:
            - WHEN: input == "person"
              REASON: "asked for"
        FLOW:
          work:
            REASONING: false
            RESPOND: "Yes?"
            ON_INPUT:
              - ELSE:
                RESPOND: "Heard {{input}}."
        """)
    session = agent.start()
    session.say("person")
    silent = session.say("hello?")
    assert (silent.messages, silent.status) == ([], "escalated")
    session.take_back()
    spoken = session.say("hello?")
    assert (spoken.messages, spoken.status) == (["Heard hello?."], "waiting")


def test_a_person_is_shown_facts_and_parts_of_values_and_the_trace_not_what_is_sensitive(
    load: Any, memory: memoranda.Memory, told: Any
):
    ada = memory.scope(user="ada")
    ada.set("name", "Ada")
    ada.set("code", "7001")
    agent = load(
        """
        MEMORY:
          persistent:
            - user.name
            - user.code
              SENSITIVE: true
        ESCALATE:
          triggers:
            - WHEN: angry
          context_for_human: [user.name, user.code, parcel.to, parcel.by]
        FLOW:
          post:
            REASONING: false
            SET:
              - parcel.to = "Oslo"
              - angry = true
            THEN: COMPLETE
        """
    )
    turn = agent.start(user="ada").opening
    assert turn.escalation is not None
    assert turn.escalation["context"] == {"user.name": "Ada", "user.code": "7001", "parcel.to": "Oslo"}
    (line,) = told(turn, "escalated")
    assert "Oslo" in line and "7001" not in line


def test_what_is_remembered_when_the_session_ends_is_kept(load: Any, memory: memoranda.Memory, told: Any):
    agent = load(
        """
        MEMORY:
          persistent:
            - user.parting
        HOOKS:
          after_agent:
            SET: user.parting = "see you"
        FLOW:
          hall:
            REASONING: false
            GATHER: [name]
            THEN: COMPLETE
        """
    )
    ended = agent.start(user="ada").end()
    assert told(ended, "remembered") == ["remembered user.parting: value see you"]
    assert memory.scope(user="ada").value("parting") == "see you"
    # No user has signed in here, so there is nothing to remember, and the session still ends.
    ended = agent.start().end()
    assert told(ended, "remembered") == [] and len(told(ended, "refused")) == 1


def test_when_a_session_ends_all_agents_of_it_are_done(load: Any, memory: memoranda.Memory):
    parting = """
        MEMORY:
          persistent:
            - user.NAME
        HOOKS:
          after_agent:
            SET: user.NAME = "done"
        """
    guide = load(
        parting.replace("NAME", "guide"),
        """
        FLOW:
          show:
            REASONING: false
            GATHER: [town]
            THEN: COMPLETE
        """,
        name="Guide",
    )
    agent = load(
        parting.replace("NAME", "desk"),
        """
        HANDOFF:
          - TO: Guide
            RETURN: true
        FLOW:
          hall:
            REASONING: false
            THEN: HANDOFF Guide
        """,
        agents=[guide],
    )
    session = agent.start(user="ada")
    assert session.agent == "Guide" and memory.scope(user="ada").list() == []
    session.end()
    assert {fact.key: fact.value for fact in memory.scope(user="ada").list()} == {"guide": "done", "desk": "done"}
    session = agent.start(user="bo")
    assert session.say("Porto").status == "completed"
    for name in ("guide", "desk"):
        assert memory.scope(user="bo").delete(name)
    session.end()
    assert memory.scope(user="bo").list() == []
