"""Agents and the gate: forbidden effects are refused, recorded and reported, and the conversation continues."""

from __future__ import annotations

from typing import Any

import pytest

import memoranda
from memoranda import Limits, Memory, Policy, Quota, Rule, Scope
from memoranda.testing import FakeClock

NOTES = """
    MEMORY:
      persistent:
        - user.closed
        - user.open
        - user.log
          TYPE: array
      remember:
        - WHEN: note IS SET
          STORE: note -> user.closed
        - WHEN: note IS SET
          STORE: note -> user.open
    FLOW:
      ask:
        REASONING: false
        RESPOND: "Closed [{{user.closed}}], open [{{user.open}}]."
        ON_INPUT:
          - IF: input == "show"
            RESPOND: "Closed [{{user.closed}}], open [{{user.open}}]."
          - IF: input startsWith "set "
            SET:
              - user.closed = input
              - user.open = input
            RESPOND: "Closed [{{user.closed}}], open [{{user.open}}]."
          - IF: input == "clear"
            CLEAR: [user.closed]
            RESPOND: "Closed [{{user.closed}}]."
          - ELSE:
            SET: note = input
            RESPOND: "Noted."
"""


def refusals(memory: Memory) -> list[tuple[str, str, str | None, str]]:
    return [
        (event.effect, event.scope, event.key, event.door)
        for event in memory.ledger.events()
        if event.decision in ("deny", "pending")
    ]


def test_facts_of_an_agent_say_through_which_door_and_from_which_agent_they_came(load: Any, memory: Memory):
    session = load(NOTES).start(user="ada")
    session.say("set x")
    session.say("y")
    for key in ("closed", "open"):
        fact = memory.scope(user="ada").get(key)
        assert fact is not None and (fact.origin.door, fact.origin.source) == ("abl", "Desk")
    kept = memory.scope(session=session.id).get("note")
    assert kept is not None and kept.origin.door == "abl"
    doors = {event.door for event in memory.ledger.events()}
    assert doors == {"abl"}
    memory.scope(user="ada").set("closed", "by hand")
    assert memory.ledger.tail(1)[0].door == "python"


def test_facts_of_other_doors_are_read_at_once_and_the_other_way_round(load: Any, memory: Memory):
    session = load(NOTES).start(user="ada")
    assert session.say("show").messages == ["Closed [], open []."]
    memory.through("cli").scope(user="ada").set("closed", "from outside")
    assert session.say("show").messages == ["Closed [from outside], open []."]
    session.say("set me")
    assert memory.scope(user="ada").value("closed") == "set me"
    memory.scope(user="ada").delete("closed")
    assert session.say("show").messages == ["Closed [], open [set me]."]


@pytest.mark.parametrize(
    "policy",
    [
        Policy.of(allow=("*",), access={"closed": "read", "*": "readwrite"}),
        Policy(rules=(Rule("allow", "*"), Rule("deny", "memory.write", scope=Scope.of(user="ada"), path="closed"))),
    ],
    ids=["access", "rule"],
)
def test_a_write_that_the_handle_may_not_do_is_refused_told_and_recorded_and_the_rest_is_kept(
    load: Any, memory: Memory, told: Any, policy: Policy
):
    memory.scope(user="ada").set("closed", "as it was")
    session = load(NOTES, on=memory.narrowed(policy)).start(user="ada")
    assert refusals(memory) == []
    stored = session.say("note")
    assert stored.messages == ["Noted."]
    assert len(told(stored, "refused")) == 1 and told(stored, "refused")[0].startswith("refused user.closed: why")
    assert [one.partition(":")[0] for one in told(stored, "remembered")] == ["remembered user.open"]
    # One refusal in the ledger, about the fact itself, from the agent's door.
    assert refusals(memory) == [("set_fact", "user:ada", "closed", "abl")]
    written = session.say("set x")
    # What was refused is not seen in the rest of the turn either.
    assert written.messages == ["Closed [as it was], open [set x]."]
    cleared = session.say("clear")
    assert cleared.messages == ["Closed [as it was]."]
    assert [effect for effect, *_ in refusals(memory)] == ["set_fact", "set_fact", "delete_fact"]
    ada = memory.scope(user="ada")
    assert (ada.value("closed"), ada.value("open")) == ("as it was", "set x")
    free = load(NOTES).start(user="ada")
    assert free.say("set y").messages == ["Closed [set y], open [set y]."]


def test_a_read_that_the_handle_may_not_do_gives_nothing_and_is_told(load: Any, memory: Memory, told: Any):
    memory.scope(user="ada").set("closed", "secret")
    memory.scope(user="ada").set("open", "plain")
    policy = Policy.of(allow=("*",), access={"closed": "none", "*": "readwrite"})
    session = load(NOTES, on=memory.narrowed(policy)).start(user="ada")
    assert session.opening.messages == ["Closed [], open [plain]."]
    turn = session.say("show")
    assert turn.messages == ["Closed [], open [plain]."]
    assert any("closed" in one for one in told(turn, "refused"))
    assert load(NOTES).start(user="ada").opening.messages == ["Closed [secret], open [plain]."]


def test_what_may_be_written_and_not_read_is_written(load: Any, memory: Memory):
    memory.scope(user="ada").set("closed", "secret")
    policy = Policy.of(allow=("*",), access={"closed": "write", "*": "readwrite"})
    session = load(NOTES, on=memory.narrowed(policy)).start(user="ada")
    assert session.say("note").messages == ["Noted."]
    assert session.say("show").messages == ["Closed [], open [note]."]
    assert memory.scope(user="ada").value("closed") == "note"


def test_a_list_that_may_be_written_and_not_read_is_not_overwritten(load: Any, memory: Memory, told: Any):
    text = """
        MEMORY:
          persistent:
            - user.log
              TYPE: array
              ACCESS: write
          remember:
            - WHEN: note IS SET
              STORE: note -> user.log
        FLOW:
          ask:
            REASONING: false
            ON_INPUT:
              - ELSE:
                SET: note = input
                RESPOND: "Noted."
        """
    memory.scope(user="ada").set("log", ["before"])
    assert load(text).start(user="ada").say("one").messages == ["Noted."]
    assert memory.scope(user="ada").value("log") == ["before", "one"]
    policy = Policy.of(allow=("*",), access={"log": "write", "*": "readwrite"})
    turn = load(text, on=memory.narrowed(policy)).start(user="ada").say("two")
    assert turn.messages == ["Noted."]
    assert any("user.log" in one for one in told(turn, "refused"))
    assert memory.scope(user="ada").value("log") == ["before", "one"]


def test_somebody_without_grants_cannot_begin_a_session(load: Any, memory: Memory):
    agent = load(NOTES, on=memory.acting_as("bo"))
    with pytest.raises(memoranda.Denied):
        agent.start(user="ada", id="s1")
    assert any(effect == "start_session" for effect, *_ in refusals(memory))
    memory.permissions.grant("bo", "memory", scope=Scope.of(session="s1"))
    memory.permissions.grant("bo", "memory.read", scope=Scope.of(user="ada"))
    memory.permissions.grant("bo", "memory.write", scope=Scope.of(user="ada"), path="open")
    session = agent.start(user="ada", id="s1")
    turn = session.say("note")
    assert turn.messages == ["Noted."]
    ada = memory.scope(user="ada")
    assert (ada.get("closed"), ada.value("open")) == (None, "note")
    fact = ada.get("open")
    assert fact is not None and (fact.origin.actor, fact.origin.door) == ("bo", "abl")


def test_a_grant_that_is_taken_away_counts_from_the_next_turn_on(load: Any, memory: Memory):
    for scope in (Scope.of(session="s1"), Scope.of(user="ada")):
        memory.permissions.grant("bo", "memory", scope=scope)
    session = load(NOTES, on=memory.acting_as("bo")).start(user="ada", id="s1")
    session.say("one")
    grants = [grant for grant in memory.permissions.list() if grant.rule.scope == Scope.of(user="ada")]
    memory.permissions.revoke(grants[0].id)
    assert session.say("two").messages == ["Noted."]
    assert memory.scope(user="ada").value("open") == "one"
    memory.permissions.grant("bo", "memory", scope=Scope.of(user="ada"))
    session.say("three")
    assert memory.scope(user="ada").value("open") == "three"


def test_a_write_that_needs_approval_waits_alone_and_the_turn_goes_on(load: Any, memory: Memory, told: Any):
    policy = Policy(
        rules=(Rule("allow", "*"), Rule("approve", "memory.write", scope=Scope.of(user="ada"), path="closed"))
    )
    agent = load(NOTES, on=memory.acting_as("bo", policy=policy))
    session = agent.start(user="ada")
    turn = session.say("note")
    assert turn.messages == ["Noted."]
    assert "approval" in told(turn, "refused")[0]
    waiting = memory.approvals.list()
    assert len(waiting) == 1 and waiting[0].effect is not None
    assert (waiting[0].effect.name, waiting[0].effect.place) == ("set_fact", "closed")
    ada = memory.scope(user="ada")
    assert (ada.get("closed"), ada.value("open")) == (None, "note")
    assert session.say("show").messages == ["Closed [], open [note]."]
    memory.approvals.approve(waiting[0].id)
    assert session.say("show").messages == ["Closed [note], open [note]."]
    assert memory.ledger.verify().ok


def test_a_quota_that_is_used_up_costs_facts_first_then_turns_until_the_next_window(
    load: Any, memory: Memory, clock: FakeClock, told: Any
):
    narrowed = memory.narrowed(Policy.of(allow=("*",), quota=Quota(writes=14, per="1h")))
    session = load(NOTES, on=narrowed).start(user="ada")
    ada = memory.scope(user="ada")
    kept: list[str] = []
    said: list[str] = []
    with pytest.raises(memoranda.QuotaExceeded):
        for number in range(20):
            turn = session.say(f"note {number}")
            said.append(f"note {number}")
            refused = told(turn, "refused")
            assert all("writes per 1h" in one for one in refused)
            kept.extend([] if refused else said[-1:])
    assert kept and (ada.value("open"), ada.value("closed")) == (kept[-1], kept[-1])
    # What could not be kept at all did not happen.
    assert session.vars["note"] == said[-1]
    assert [turn.input for turn in session.turns()][1:] == said
    assert any(effect == "write_facts" for effect, *_ in refusals(memory))
    clock.advance(3601)
    assert session.say("at last").messages == ["Noted."]
    assert ada.value("open") == "at last"


def test_what_a_trigger_could_not_store_for_want_of_room_is_stored_once_there_is_some(
    load: Any, memory: Memory, clock: FakeClock, told: Any
):
    text = """
        MEMORY:
          persistent:
            - user.names
              TYPE: array
          remember:
            - WHEN: name IS SET
              STORE: name -> user.names
        FLOW:
          ask:
            REASONING: false
            GATHER: [name]
            THEN: more
          more:
            REASONING: false
            ON_INPUT:
              - ELSE:
                RESPOND: "Yes."
        """
    narrowed = memory.narrowed(Policy.of(allow=("*",), quota=Quota(writes=4, per="1h")))
    session = load(text, on=narrowed).start(user="ada")
    assert "writes per 1h" in told(session.say("Ada"), "refused")[0]
    assert memory.scope(user="ada").get("names") is None
    for _ in range(3):
        clock.advance(3601)
        session.say("and?")
    assert memory.scope(user="ada").value("names") == ["Ada"]


def test_a_definition_that_refuses_a_value_leaves_the_other_facts_of_the_turn(load: Any, memory: Memory, told: Any):
    text = """
        MEMORY:
          persistent:
            - user.form
            - user.open
          remember:
            - WHEN: note IS SET
              STORE: note -> user.open
            - WHEN: note IS SET
              STORE: {text: note} -> user.form
            - WHEN: note IS SET
              STORE: note -> user.third
        FLOW:
          ask:
            REASONING: false
            ON_INPUT:
              - IF: input startsWith "set "
                SET:
                  - user.form = {text: input}
                  - user.open = input
                RESPOND: "Set."
              - ELSE:
                SET: note = input
                RESPOND: "Noted."
        """
    schema = {"type": "object", "properties": {"text": {"type": "string", "maxLength": 5}}}
    memory.definitions.create(name="Form", slug="form", schema=schema)
    session = load(text).start(user="ada")
    ada = memory.scope(user="ada")

    def standing() -> list[Any]:
        return [ada.value(key) for key in ("open", "form", "third")]

    assert session.say("short").messages == ["Noted."]
    assert standing() == ["short", {"text": "short"}, "short"]
    turn = session.say("much too long")
    assert turn.messages == ["Noted."]
    assert standing() == ["much too long", {"text": "short"}, "much too long"]
    assert len(told(turn, "refused")) == 1 and "user.form" in told(turn, "refused")[0]
    assert [one.partition(":")[0] for one in told(turn, "remembered")] == [
        "remembered user.open",
        "remembered user.third",
    ]
    written = session.say("set something long")
    assert standing() == ["set something long", {"text": "short"}, "much too long"]
    assert "user.form" in told(written, "refused")[0]
    # What was refused is tried again when there is something else to keep.
    session.say("brief")
    assert standing() == ["brief", {"text": "brief"}, "brief"]


def test_a_value_that_is_too_large_for_a_fact_is_refused_and_the_turn_goes_on(load: Any, told: Any):
    with memoranda.open(":memory:", limits=Limits(value_bytes=5_000)) as small:
        agent = load(
            """
            MEMORY:
              persistent:
                - user.text
            FLOW:
              ask:
                REASONING: false
                ON_INPUT:
                  - ELSE:
                    SET:
                      - text = REPEAT(input, 1000)
                      - user.text = text
                      - user.small = "fine"
                    RESPOND: "Done."
            """,
            on=small,
        )
        session = agent.start(user="ada")
        turn = session.say("0123456789")
        assert turn.messages == ["Done."]
        assert any("user.text" in one for one in told(turn, "refused"))
        assert any("cannot be saved" in one for one in told(turn, "warning"))
        assert small.scope(user="ada").get("text") is None
        assert session.say("x").messages == ["Done."]
        assert small.scope(user="ada").value("text") == "x" * 1000


def test_a_value_that_cannot_be_computed_does_not_keep_the_other_facts_back(load: Any, memory: Memory, told: Any):
    session = load("""
        MEMORY:
          remember:
            - WHEN: note IS SET
              STORE: REPEAT(REPEAT(note, 100000), 100000) -> user.large
            - WHEN: note IS SET
              STORE: note -> user.small
        COMPLETE:
          - WHEN: note == "end"
            RESPOND: "The end."
        FLOW:
          ask:
            REASONING: false
            ON_INPUT:
              - ELSE:
                SET: note = input
                RESPOND: "Noted."
        """).start(user="ada")
    turn = session.say("end")
    assert (turn.messages, turn.status) == (["Noted.", "The end."], "completed")
    assert len(told(turn, "error")) == 1 and "note IS SET" in told(turn, "error")[0]
    ada = memory.scope(user="ada")
    assert (ada.get("large"), ada.value("small")) == (None, "end")


def test_without_a_user_nothing_of_users_is_read_or_written(load: Any, memory: Memory, told: Any):
    agent = load(NOTES)
    agent.start(user="ada").say("private")
    nobody = agent.start()
    assert nobody.opening.messages == ["Closed [], open []."]
    turn = nobody.say("set mine")
    assert turn.messages == ["Closed [], open []."]
    assert len(told(turn, "refused")) == 2
    assert memory.scope(user="ada").value("open") == "private"
    assert {event.scope for event in memory.ledger.events() if event.scope.startswith("user:")} == {"user:ada"}


def test_a_tenant_s_agents_stay_in_it(load: Any, memory: Memory):
    agent = load(NOTES)
    agent.start(user="ada").say("ours")
    with memoranda.open(":memory:", tenant="other") as other:
        assert load(NOTES, on=other).start(user="ada").opening.messages == ["Closed [], open []."]
    assert agent.start(user="ada").opening.messages == ["Closed [ours], open [ours]."]


def test_the_ledger_holds_after_everything_above_in_one_life(load: Any, memory: Memory):
    session = load(NOTES).start(user="ada")
    for text in ("note", "set x", "clear", "show", "other"):
        session.say(text)
    session.end()
    memory.erase(user="ada")
    assert memory.ledger.verify().ok
    assert [finding for finding in memory.inspect() if not finding.ok] == []


def test_why_a_sensitive_value_was_refused_does_not_show_it(load: Any, memory: Memory, told: Any):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    for name in ("code", "size"):
        memory.definitions.create(name=name.title(), slug=name, schema=schema)
    agent = load(
        """
        MEMORY:
          persistent:
            - user.code
              SENSITIVE: true
            - user.size
        FLOW:
          note:
            REASONING: false
            SET:
              - user.code = {n: "seven"}
              - user.size = {n: "eleven"}
            THEN: COMPLETE
        """
    )
    size, code = sorted(told(agent.start(user="ada").opening, "refused"), key=lambda line: "code:" in line)
    assert "eleven" in size and "schema_violation" in size
    assert "seven" not in code and "schema_violation" in code
