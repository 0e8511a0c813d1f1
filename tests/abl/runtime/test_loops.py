"""Agents in endless loops are stopped, the trace says so, and the session can be used afterwards."""

from __future__ import annotations

from typing import Any

from memoranda.abl import Behaviour


def test_steps_that_lead_to_each_other_are_stopped_at_the_limit(load: Any, told: Any):
    agent = load(
        """
        MEMORY:
          session:
            - way_out
              INPUT: true
        FLOW:
          here:
            REASONING: false
            SET: rounds = COALESCE(rounds, 0) + 1
            THEN:
              - IF: rounds >= way_out
                THEN: out
              - ELSE:
                THEN: there
          there:
            REASONING: false
            THEN: here
          out:
            REASONING: false
            RESPOND: "Out after {{rounds}}."
            ON_INPUT:
              - ELSE:
                RESPOND: "Yes?"
        """,
        behaviour=Behaviour(transitions=20),
    )
    fine = agent.start(vars={"way_out": 10})
    assert fine.opening.messages == ["Out after 10."]
    assert told(fine.opening, "stopped") == []
    lost = agent.start(vars={"way_out": 1000})
    assert lost.opening.messages == ["This is going in circles, so I stopped. Please try something else."]
    assert told(lost.opening, "stopped") == [
        "stopped the flow: why 20 steps were entered in one turn, so it counts as looping"
    ]
    assert lost.opening.status == "waiting"
    # It goes on when the reason is gone.
    lost.vars["way_out"] = 1
    assert lost.say("again").messages[0].startswith("Out after")
    assert lost.say("hello").messages == ["Yes?"]


def test_the_message_about_a_circle_can_be_put_in_other_words(load: Any):
    agent = load("""
        MESSAGES:
          error_default: "I am dizzy."
        FLOW:
          here:
            REASONING: false
            THEN: here
        """)
    assert agent.start().opening.messages == ["I am dizzy."]


def test_steps_that_skip_to_each_other_are_stopped(load: Any, told: Any):
    agent = load("""
        FLOW:
          here:
            REASONING: false
            WHEN: open == true
            RESPOND: "Here."
            THEN: there
          there:
            REASONING: false
            WHEN: open == true
            THEN: here
        """)
    session = agent.start()
    assert len(told(session.opening, "stopped")) == 1
    assert len(told(session.opening, "skipped")) == 100


def test_a_step_that_is_exhausted_into_itself_is_stopped(load: Any, told: Any):
    agent = load("""
        FLOW:
          here:
            REASONING: false
            MAX_ATTEMPTS: 1
            ON_EXHAUSTED: here
            THEN: here
        """)
    assert len(told(agent.start().opening, "stopped")) == 1


def test_a_rule_that_sends_back_and_forth_is_stopped(load: Any, told: Any):
    calls: list[int] = []
    agent = load(
        """
        MEMORY:
          session:
            - needed
              INPUT: true
        CONSTRAINTS:
          rules:
            - REQUIRE ready == true BEFORE calling act
              ON_FAIL:
                GOTO: prepare
        FLOW:
          act:
            REASONING: false
            CALL: act()
            RESPOND: "Done."
            THEN: COMPLETE
          prepare:
            REASONING: false
            SET: tries = COALESCE(tries, 0) + 1
            SET: ready = tries >= needed
            THEN: act
        """,
        tools={"act": lambda: calls.append(1)},
    )
    session = agent.start(vars={"needed": 1000})
    assert len(told(session.opening, "stopped")) == 1 and calls == []
    session.vars["needed"] = 3
    assert session.say("again").messages == ["Done."]
    assert calls == [1]


def test_a_rule_before_results_that_sends_away_for_ever_is_stopped(load: Any, told: Any):
    agent = load(
        """
        MEMORY:
          session:
            - checked
              INPUT: true
        CONSTRAINTS:
          rules:
            - REQUIRE checked == true BEFORE returning results
              ON_FAIL:
                GOTO: work
        FLOW:
          work:
            REASONING: false
            CALL: look()
            RESPOND: "Found {{call_result}}."
            ON_INPUT:
              - ELSE:
                RESPOND: "More?"
        """,
        tools={"look": lambda: 1},
    )
    session = agent.start()
    assert len(told(session.opening, "stopped")) == 1
    assert session.opening.messages == ["That is not possible right now."]
    session.vars["checked"] = True
    assert session.say("again").messages == ["Found 1."]
    assert session.say("again").messages == ["More?"]
    assert agent.start(vars={"checked": True}).opening.messages == ["Found 1."]


def test_a_rule_that_is_tried_again_and_again_is_tried_a_few_times(load: Any, told: Any):
    agent = load(
        """
        MEMORY:
          session:
            - ready
              INPUT: true
        CONSTRAINTS:
          rules:
            - REQUIRE ready == true BEFORE calling act
              ON_FAIL:
                RESPOND: "Not ready."
                RETRY: true
        FLOW:
          act:
            REASONING: false
            SET: entered = COALESCE(entered, 0) + 1
            CALL: act()
            RESPOND: "Done."
            THEN: COMPLETE
        """,
        tools={"act": lambda: None},
        behaviour=Behaviour(retries=2),
    )
    session = agent.start()
    assert told(session.opening, "stopped") == [
        "stopped repeating: why a rule was still broken after 2 attempts",
    ]
    assert session.vars["entered"] == 3
    assert session.opening.status == "blocked"
    session.vars["ready"] = True
    assert session.say("again").messages == ["Done."]


def test_an_error_that_is_sent_back_for_ever_is_stopped(load: Any, told: Any):
    calls: list[int] = []

    def break_down() -> None:
        calls.append(1)
        raise RuntimeError("no")

    agent = load(
        """
        ON_ERROR:
          tool_error:
            THEN: backtrack
        FLOW:
          here:
            REASONING: false
            THEN: there
          there:
            REASONING: false
            CALL: break_down()
            RESPOND: "Fine."
            THEN: COMPLETE
        """,
        tools={"break_down": break_down},
        behaviour=Behaviour(transitions=11),
    )
    session = agent.start()
    assert len(told(session.opening, "stopped")) == 1
    assert len(calls) == 5


PLAYER = """
    HANDOFF:
      - TO: OTHER
        WHEN: input == "play"
    FLOW:
      only:
        REASONING: false
        RESPOND: "NAME."
        ON_INPUT:
          - ELSE:
            RESPOND: "NAME heard {{input}}."
"""


def player(load: Any, name: str, other: str, **options: Any) -> Any:
    return load(PLAYER.replace("NAME", name).replace("OTHER", other), name=name, **options)


def test_agents_that_hand_over_to_each_other_are_stopped(load: Any, told: Any):
    ping = player(load, "Ping", "Pong")
    pong = player(load, "Pong", "Ping", agents=[ping], behaviour=Behaviour(handoffs=4))
    session = pong.start()
    assert session.say("x").messages == ["Pong heard x."]
    turn = session.say("play")
    assert told(turn, "stopped") == ["stopped the agents: why control changed hands too often in one turn"]
    assert len(told(turn, "handed_off")) == 4
    assert session.say("x").messages[-1] in ("Ping heard x.", "Pong heard x.")


def test_an_agent_that_hands_over_to_itself_is_stopped(load: Any, told: Any):
    agent = player(load, "Solo", "Solo")
    turn = agent.start().say("play")
    assert len(told(turn, "stopped")) == 1


def test_agents_that_return_and_hand_over_again_are_stopped(load: Any, told: Any):
    child = load(
        """
        FLOW:
          only:
            REASONING: false
            RESPOND: "Child."
            THEN: COMPLETE
        """,
        name="Child",
    )
    agent = load(
        """
        HANDOFF:
          - TO: Child
            RETURN: true
            ON_RETURN: again
        RETURN_HANDLERS:
          again:
            THEN: only
        FLOW:
          only:
            REASONING: false
            RESPOND: "Parent."
            THEN: HANDOFF Child
        """,
        agents=[child],
    )
    session = agent.start()
    assert len(told(session.opening, "stopped")) == 1
    assert len(session.opening.messages) <= 25


def test_agents_that_ask_each_other_for_ever_are_stopped(load: Any, told: Any):
    for place in ("ON_START:\n  DELEGATE: Desk", "HOOKS:\n  before_agent:\n    DELEGATE: Desk"):
        agent = load(
            place,
            """
            FLOW:
              only:
                REASONING: false
                RESPOND: "Done."
                ON_INPUT:
                  - ELSE:
                    RESPOND: "Heard."
            """,
        )
        session = agent.start()
        assert len(told(session.opening, "stopped")) == 1
        assert session.status == "waiting"


def test_a_step_that_asks_its_own_agent_for_ever_is_stopped(load: Any, told: Any):
    agent = load("""
        FLOW:
          only:
            REASONING: false
            DELEGATE: Desk
            RESPOND: "Done."
            THEN: COMPLETE
        """)
    session = agent.start()
    assert told(session.opening, "stopped")
    assert session.opening.messages == ["Something went wrong. Please try again."]


def test_a_digression_into_a_circle_is_stopped_and_the_session_goes_on(load: Any, told: Any):
    agent = load("""
        FLOW:
          global_digressions:
            - INTENT: "spin"
              GOTO: here
            - INTENT: "stop it"
              GOTO: out
          ask:
            REASONING: false
            GATHER:
              - name:
                prompt: "Name?"
            RESPOND: "{{name}}."
            THEN: COMPLETE
          here:
            REASONING: false
            THEN: there
          there:
            REASONING: false
            THEN: here
          out:
            REASONING: false
            RESPOND: "Out."
            THEN: ask
        """)
    session = agent.start()
    assert len(told(session.say("spin"), "stopped")) == 1
    assert session.say("stop it").messages == ["Out.", "Name?"]
    assert session.say("Ada").messages == ["Ada."]
