"""What programs write is theirs, trusted at medium; they still update what a user wrote where they are declared to."""

from __future__ import annotations

import memoranda
from memoranda import abl, mashin, workflow

AGENT = """\
AGENT: Doorman
GOAL: "Know the guests"

MEMORY:
  persistent:
    - user.name
  remember:
    - WHEN: called IS SET
      STORE: called -> user.name

FLOW:
  hall:
    REASONING: false
    RESPOND: "Who are you?"
    ON_INPUT:
      - IF: input startsWith "I am "
        SET: called = REPLACE(input, "I am ", "")
        RESPOND: "Welcome, {{called}}."
        THEN: hall
      - ELSE:
        RESPOND: "Who are you?"
"""
MACHINE = """\
machine keeper
  ensures
    permissions
      allowed to memory.write
  implements
    remember keep
      content: "The hive is calm"
      collection: "hives"
"""


def test_g45_an_agent_writes_as_an_agent_and_keeps_its_authority() -> None:
    with memoranda.open(":memory:", embedder="hashing:64") as memory:
        ada = memory.scope(user="ada")
        session = abl.load(AGENT, memory=memory).start(user="ada")
        session.say("I am Ada")
        (key,) = [fact.key for fact in ada.list()]
        first = ada.history(key)[-1].origin
        assert (first.kind, first.trust, first.door) == ("agent", "medium", "abl")
        assert ada.set(key, "Countess").origin.trust == "high"
        session.say("I am Lovelace")
        assert ada.value(key) == "Lovelace" and memory.conflicts() == []
        assert [one.origin.kind for one in ada.history(key)] == ["agent", "user", "agent"]


def test_g45_a_machine_and_a_workflow_write_as_agents() -> None:
    with memoranda.open(":memory:", embedder="hashing:64") as memory:
        mashin.load(MACHINE, memory=memory).run({}, user="ada")
        (kept,) = memory.scope(user="ada").entries(collection="hives")
        assert (kept.origin.kind, kept.origin.trust) == ("agent", "medium")
        # A run for a tool writes what the tool may: no program raises it.
        page = memory.acting_as("tool:web", policy=memoranda.Policy.of(allow=("*",)))
        mashin.load(MACHINE.replace("calm", "wild"), memory=page).run({}, user="bob")
        (low,) = memory.scope(user="bob").entries(collection="hives")
        assert (low.origin.kind, low.origin.trust) == ("tool_external", "low")
        through = memory.through(workflow.Workflow.DOOR or "", origin="agent").scope(user="ada").set("k", 1)
        assert (through.origin.kind, through.origin.door) == ("agent", "workflow")
