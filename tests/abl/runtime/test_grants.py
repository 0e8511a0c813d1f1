"""Paths that one agent lets another one use: in whose scope, how far, and what of it is shown."""

from __future__ import annotations

from typing import Any

import memoranda
from memoranda import Memory

OWNER = """
    MEMORY:
      persistent:
        - user.berth
          SCOPE: execution_tree
        - user.boat.name
        - user.crew
          TYPE: array
        - user.code
          SENSITIVE: true
        - user.licence
          ACCESS: read
    HANDOFF:
      - TO: Pilot
        CONTEXT:
          memory_grants:
            - {path: user.berth, access: readwrite}
            - {path: user.boat.name, access: readwrite}
            - {path: user.crew, access: readwrite}
            - {path: user.code, access: readwrite}
            - {path: user.licence, access: readwrite}
    FLOW:
      moor:
        REASONING: false
        SET:
          - user.berth = "A4"
          - user.boat.name = "Tern"
          - user.code = "7001"
        THEN: HANDOFF Pilot
"""


def pilot(*actions: str) -> str:
    lines = "\n".join(f"    {line}" for line in actions)
    return f'AGENT: Pilot\nGOAL: "Steer"\nFLOW:\n  steer:\n    REASONING: false\n{lines}\n    THEN: COMPLETE\n'


def test_a_granted_path_is_that_of_its_owner_whatever_its_name_begins_with(load: Any, memory: Memory):
    ada = memory.scope(user="ada")
    steer = pilot(
        'RESPOND: "{{user.berth}} {{user.boat.name}}"',
        "SET:",
        '  - user.berth = "B1"',
        '  - user.boat.name = "Gull"',
        'RESPOND: "{{user.berth}} {{user.boat.name}}"',
    )
    session = load(OWNER, agents=[steer]).start(user="ada")
    assert session.opening.messages == ["A4 Tern", "B1 Gull"]
    assert memory.scope(tree=session.id).value("berth") == "B1"
    assert ada.value("boat.name") == "Gull"
    assert ada.get("berth") is None and ada.get("boat") is None


def test_a_granted_path_can_be_cleared(load: Any, memory: Memory, told: Any):
    steer = pilot("CLEAR: [user.berth, user.boat.name]", 'RESPOND: "[{{user.berth}}] {{user.code}}"')
    session = load(OWNER, agents=[steer]).start(user="ada")
    assert session.opening.messages == ["[] 7001"]
    assert memory.scope(tree=session.id).get("berth") is None
    assert [fact.key for fact in memory.scope(user="ada").list()] == ["code"]
    assert told(session.opening, "forgot") == ["forgot user.berth", "forgot user.boat.name"]


def test_nobody_grants_more_than_they_have(load: Any, memory: Memory, told: Any):
    ada = memory.scope(user="ada")
    ada.set("licence", "inland")
    steer = pilot('SET: user.licence = "ocean"', 'SET: user.code = "7002"')
    session = load(OWNER, agents=[steer]).start(user="ada")
    assert (ada.value("licence"), ada.value("code")) == ("inland", "7002")
    assert [line for line in told(session.opening, "refused") if "user.licence" in line]


def test_what_was_granted_is_granted_on_as_far_as_it_goes(load: Any, memory: Memory):
    relay = """
        AGENT: Pilot
        GOAL: "Steer"
        HANDOFF:
          - TO: Mate
            CONTEXT:
              memory_grants:
                - {path: user.berth, access: readwrite}
                - {path: user.licence, access: readwrite}
        FLOW:
          steer:
            REASONING: false
            THEN: HANDOFF Mate
        """
    mate = pilot('SET: user.berth = "C2"', 'SET: user.licence = "ocean"').replace("Pilot", "Mate")
    memory.scope(user="ada").set("licence", "inland")
    session = load(OWNER, agents=[memoranda.abl.load(relay, memory=memory, agents=[mate])]).start(user="ada")
    assert memory.scope(tree=session.id).value("berth") == "C2"
    assert memory.scope(user="ada").value("licence") == "inland"


def test_a_part_of_a_fact_can_be_granted(load: Any, memory: Memory):
    agent = load(
        """
        MEMORY:
          persistent:
            - user.boat
        HANDOFF:
          - TO: Pilot
            CONTEXT:
              memory_grants:
                - {path: user.boat.sail, access: readwrite}
        FLOW:
          moor:
            REASONING: false
            SET: user.boat = {name: "Tern", sail: "red"}
            THEN: HANDOFF Pilot
        """,
        agents=[
            pilot('RESPOND: "{{user.boat.sail}}"', 'SET: user.boat.sail = "white"', 'SET: user.boat.name = "Gull"')
        ],
    )
    assert agent.start(user="ada").opening.messages == ["red"]
    assert memory.scope(user="ada").value("boat") == {"name": "Tern", "sail": "white"}


def test_a_list_that_was_granted_is_added_to(load: Any, memory: Memory):
    helper = """
        AGENT: Pilot
        GOAL: "Steer"
        MEMORY:
          remember:
            - WHEN: hand IS SET
              STORE: hand -> user.crew
        FLOW:
          steer:
            REASONING: false
            SET: hand = "Bo"
            THEN: COMPLETE
        """
    load(OWNER, agents=[helper]).start(user="ada")
    assert memory.scope(user="ada").value("crew") == ["Bo"]


def test_a_sensitive_path_stays_out_of_the_trace_of_whom_it_was_granted_to(load: Any, memory: Memory):
    session = load(OWNER, agents=[pilot('SET: user.code = "7002"', 'SET: user.berth = "B1"')]).start(user="ada")
    assert memory.scope(user="ada").value("code") == "7002"
    trace = str(session.opening.trace)
    assert "7001" not in trace and "7002" not in trace
    assert "B1" in trace


def test_a_grant_lasts_when_the_session_is_taken_up_elsewhere(load: Any, memory: Memory, write: Any):
    helper = pilot("GATHER: [place]", "SET: user.berth = place")
    agent = load(OWNER, agents=[helper])
    session = agent.start(user="ada")
    resumed = memoranda.abl.resume(memory, session.id, agent=load(OWNER, agents=[helper]))
    resumed.say("D9")
    assert memory.scope(tree=session.id).value("berth") == "D9"
    assert memory.scope(user="ada").get("berth") is None
