"""One agent, compiled once, on many memory handles: each session has the rights of its own handle only."""

from __future__ import annotations

from typing import Any

import pytest

import memoranda
from memoranda import Memory, NotFound, Policy, Scope
from memoranda.model.policy import Rule

KEEPER = """
    MEMORY:
      persistent:
        - shelf
    FLOW:
      listen:
        REASONING: false
        RESPOND: "Yes?"
        ON_INPUT:
          - IF: input == "binder"
            RESPOND: "One moment."
            THEN: HANDOFF Binder
          - ELSE:
            SET: shelf = "{{input}}"
            RESPOND: "On {{shelf}}."
    HANDOFF:
      - TO: Binder
"""
BINDER = """
    MEMORY:
      persistent:
        - thread
    FLOW:
      bind:
        REASONING: false
        RESPOND: "Bound."
        SET: thread = "linen"
        THEN: COMPLETE
"""


@pytest.fixture
def keeper(load: Any) -> memoranda.abl.Agent:
    keeper = load(KEEPER, name="Keeper")
    keeper.meet([load(BINDER, name="Binder")])
    return keeper


def handle(memory: Memory, user: str, *also: Scope) -> Memory:
    places = (Scope.of(user=user), *also)
    rules = tuple(Rule("allow", one, place) for place in places for one in ("memory.read", "memory.write"))
    return memory.acting_as(f"user:{user}", policy=Policy(rules=rules), door="rest")


def test_what_an_agent_does_is_done_by_whoever_it_was_put_on(keeper: Any, memory: Memory):
    ada = keeper.on(handle(memory, "ada", Scope.of(session="s1"), Scope.of(tree="s1")))
    session = ada.start(user="ada", id="s1")
    assert session.say("the top").messages == ["On the top."]
    assert session.say("binder").messages == ["One moment.", "Bound."]
    for key, value in (("shelf", "the top"), ("thread", "linen")):
        fact = memory.scope(user="ada").get(key)
        assert fact is not None
        assert (fact.value, fact.origin.actor, fact.origin.door) == (value, "user:ada", "abl")
    assert keeper.start(user="bob").say("the floor").messages == ["On the floor."]
    written = memory.scope(user="bob").get("shelf")
    assert written is not None and written.origin.actor != "user:ada"


def test_it_may_there_only_what_that_handle_may(keeper: Any, memory: Memory):
    own = handle(memory, "ada", Scope.of(session="s2"), Scope.of(tree="s2"))
    keeper.on(own).start(user="bob", id="s2").say("the top")
    assert memory.scope(user="bob").get("shelf") is None
    assert any(event.decision == "deny" for event in memory.ledger.events())
    keeper.start(user="bob", id="s3").say("the top")
    assert memory.scope(user="bob").value("shelf") == "the top"


def test_nothing_is_compiled_again_and_sessions_are_taken_up_on_either(keeper: Any, memory: Memory):
    other = keeper.on(memory)
    assert other is not keeper
    assert other.plan is keeper.plan
    assert (other.name, other.file, other.diagnostics) == (keeper.name, keeper.file, keeper.diagnostics)
    session = keeper.start(user="ada", id="s4")
    session.say("the top")
    assert other.resume("s4").say("the middle").messages == ["On the middle."]
    with pytest.raises(NotFound):
        keeper.on(memory.in_tenant("elsewhere")).resume("s4")
