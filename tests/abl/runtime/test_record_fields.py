"""A persistent path as a field of a record: what a workflow wrote as `customer_profile`, an agent reads and changes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import Memory, Policy
from memoranda.abl import Turn
from memoranda.model.policy import Access
from memoranda.testing import FakeClock

NAME = "user.customer_profile.preferred_name"
PROFILE = {
    "type": "object",
    "properties": {
        "preferred_name": {"type": "string", "maxLength": 20},
        "language": {"type": "string"},
        "visits": {"type": "array", "items": {"type": "string"}},
        "address": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
    "required": ["preferred_name"],
    "additionalProperties": False,
}
WORKFLOW = """
defs:
  keep: {kind: task, action: update_memory, inputs: {memory: {customer_profile: "=$input.profile"}}}
flow: [{do: keep}]
outputs: {profile: "=$context.memory.customer_profile"}
"""


@pytest.fixture
def profile(memory: Memory) -> memoranda.Definition:
    return memory.definitions.create(name="Customer", slug="customer_profile", schema=PROFILE, ttl=3600)


def by_workflow(memory: Memory, value: dict[str, Any], user: str = "ada") -> Any:
    flow = memoranda.workflow.load(WORKFLOW, memory=memory, name="desk")
    return flow.run({"profile": value}, owner=user).check().output["profile"]


def desk(load: Callable[..., Any], declared: str, step: str, more: str = "", **options: Any) -> Any:
    """Load an agent with declared paths, and one step that answers each message."""
    text = f"MEMORY:\n  persistent:\n{declared}\n{more}FLOW:\n  serve:\n    REASONING: false\n{step}\n"
    return load(text, **options)


SHOW = f'    RESPOND: "Hello {{{{{NAME}}}}}."'
RENAME = f"""
    ON_INPUT:
      - IF: input == "show"
        RESPOND: "Hello {{{{{NAME}}}}}."
      - IF: input == "forget"
        CLEAR: [{NAME}]
      - IF: {NAME} == "Grace"
        RESPOND: "Hello again."
      - ELSE:
        SET: {NAME} = input
        RESPOND: "Hello {{{{{NAME}}}}}."
"""


def about(turn: Turn, kind: str) -> list[str]:
    return [entry.about for entry in turn.trace if entry.kind == kind]


def why(turn: Turn) -> str:
    return " ".join(str(entry.detail.get("why")) for entry in turn.trace if entry.kind == "refused")


def test_an_agent_reads_and_writes_a_field_of_what_a_workflow_wrote(
    load: Any, memory: Memory, profile: Any, clock: FakeClock
) -> None:
    by_workflow(memory, {"preferred_name": "Ada", "language": "en"})
    session = desk(load, f"    - {NAME}", RENAME).start(user="ada")
    assert session.say("show").messages == ["Hello Ada."]
    clock.advance(60)
    turn = session.say("Grace")
    assert turn.messages == ["Hello Grace."]
    assert about(turn, "remembered") == [NAME]
    ada = memory.scope(user="ada")
    fact = ada.get("customer_profile")
    assert fact is not None
    assert fact.value == {"preferred_name": "Grace", "language": "en"}
    assert (fact.origin.door, fact.origin.source) == ("abl", "Desk")
    assert fact.expires_at == clock.now() + timedelta(hours=1), "as every write of the record, by its definition"
    assert ada.get("customer_profile.preferred_name") is None
    assert session.say("hi").messages == ["Hello again."]
    assert [one.origin.door for one in ada.history("customer_profile")] == ["workflow", "abl"]
    assert desk(load, f"    - {NAME}", SHOW).start(user="bea").opening.messages == ["Hello ."]


def test_recall_triggers_and_domains_see_the_field(load: Any, memory: Memory, profile: Any) -> None:
    by_workflow(memory, {"preferred_name": "Ada", "address": {"city": "Rome"}, "visits": ["May"]})
    more = f"""
  remember:
    - WHEN: input == "June"
      STORE: input -> user.customer_profile.visits
      TTL: 1m
  recall:
    - ON: session:start
      ACTION: inject_context
      PATHS: [{NAME}]
    - ON: session:start
      ACTION: load_memory
      DOMAIN: user.customer_profile.address
"""
    declared = f"    - {NAME}\n    - user.customer_profile.visits\n      TYPE: array"
    session = desk(load, declared, '    RESPOND: "{{user.customer_profile.visits}}"', more).start(user="ada")
    assert session.vars["user"] == {"customer_profile": {"preferred_name": "Ada", "address": {"city": "Rome"}}}
    turn = session.say("June")
    ada = memory.scope(user="ada")
    assert ada.value("customer_profile.visits") is None
    assert ada.value("customer_profile")["visits"] == ["May", "June"]
    fact = ada.get("customer_profile")
    assert fact is not None and fact.expires_at is not None
    assert fact.expires_at > memory.clock.now() + timedelta(minutes=59)
    assert any("keeps its own time to live" in one for one in about(turn, "warning"))


def test_nested_objects_and_lists_are_reached(load: Any, memory: Memory) -> None:
    ada = memory.scope(user="ada")
    ada.set("profile", {"addresses": [{"city": "Rome"}], "home": {"city": "Oslo"}})
    step = """
    ON_INPUT:
      - IF: input == "move"
        SET: user.profile.home.city = "Bern"
      - ELSE:
        RESPOND: "{{user.profile.addresses[0].city}} {{user.profile.home.city}}"
"""
    session = desk(load, "    - user.profile.home.city\n    - user.profile.addresses", step).start(user="ada")
    assert session.say("show").messages == ["Rome Oslo"]
    session.say("move")
    assert ada.value("profile") == {"addresses": [{"city": "Rome"}], "home": {"city": "Bern"}}


def test_a_fact_without_a_definition_keeps_its_end_and_its_domain(load: Any, memory: Memory, clock: FakeClock) -> None:
    ada = memory.scope(user="ada")
    ada.set("customer_profile", {"language": "en"}, ttl="1h", domain="customers")
    before = ada.get("customer_profile")
    assert before is not None
    end = before.expires_at
    clock.advance(600)
    desk(load, f"    - {NAME}", RENAME).start(user="ada").say("Ada")
    fact = ada.get("customer_profile")
    assert fact is not None
    assert fact.value == {"language": "en", "preferred_name": "Ada"}
    assert (fact.expires_at, fact.domain) == (end, "customers")
    clock.advance(3600)
    session = desk(load, f"    - {NAME}", RENAME).start(user="ada")
    assert session.say("show").messages == ["Hello ."], "an expired record has no fields"
    session.say("Eve")
    assert (ada.get("customer_profile"), ada.value("customer_profile.preferred_name")) == (None, "Eve")


# --- resolution -------------------------------------------------------------------------------------------------


def test_the_exact_key_wins_then_the_longest_object(load: Any, memory: Memory) -> None:
    ada = memory.scope(user="ada")
    session = desk(load, "    - user.a.b.c", '    RESPOND: "{{user.a.b.c}}"').start(user="ada")
    ada.set("a", {"b": {"c": 1}})
    assert session.say("").messages == ["1"]
    ada.set("a.b", {"c": 2})
    assert session.say("").messages == ["2"]
    ada.set("a.b", "text")
    assert session.say("").messages == ["1"], "what is not an object has no fields"
    ada.set("a.b.c", 3)
    assert session.say("").messages == ["3"]


def test_without_a_fact_a_record_or_a_definition_the_exact_key_is_written(load: Any, memory: Memory) -> None:
    ada = memory.scope(user="ada")
    ada.set("customer_profile", "a text")
    desk(load, f"    - {NAME}", RENAME).start(user="ada").say("Ada")
    assert ada.value("customer_profile") == "a text"
    assert ada.value("customer_profile.preferred_name") == "Ada"


def test_a_record_of_the_same_name_in_another_scope_is_another(load: Any, memory: Memory) -> None:
    memory.definitions.create(name="Shared", slug="customer_profile", schema=PROFILE, scope="project")
    memory.scope(project="p").set("customer_profile", {"preferred_name": "Everyone"})
    declared = f"    - {NAME}\n    - project.customer_profile.preferred_name"
    session = desk(load, declared, RENAME).start(user="ada", project="p")
    assert session.say("show").messages == ["Hello ."]
    session.say("Ada")
    assert memory.scope(user="ada").value("customer_profile.preferred_name") == "Ada"
    assert memory.scope(project="p").value("customer_profile") == {"preferred_name": "Everyone"}


def test_a_field_of_a_field_that_is_not_an_object_is_an_error_of_the_step(load: Any, memory: Memory) -> None:
    memory.scope(user="ada").set("profile", {"name": "Ada"})
    session = desk(load, "    - user.profile.name.first", "    SET: user.profile.name.first = input").start(user="ada")
    turn = session.say("Grace")
    message = next(entry.detail["message"] for entry in turn.trace if entry.kind == "error")
    assert message == "`user.profile.name` is not an object, so its field `first` cannot be set"
    assert memory.scope(user="ada").value("profile") == {"name": "Ada"}


# --- schemas ----------------------------------------------------------------------------------------------------


def test_the_record_is_created_if_its_schema_allows_it(load: Any, memory: Memory, profile: Any) -> None:
    ada = memory.scope(user="ada")
    session = desk(load, f"    - {NAME}", RENAME).start(user="ada")
    assert session.say("Ada").messages == ["Hello Ada."]
    assert ada.value("customer_profile") == {"preferred_name": "Ada"}
    assert by_workflow(memory, {"preferred_name": "Grace"}) == {"preferred_name": "Grace"}
    assert session.say("show").messages == ["Hello Grace."]


def test_a_record_that_lacks_fields_is_refused_by_their_names(load: Any, memory: Memory, profile: Any) -> None:
    step = """
    ON_INPUT:
      - IF: input == "both"
        SET:
          - user.customer_profile.language = "en"
          - user.customer_profile.preferred_name = "Ada"
      - ELSE:
        SET: user.customer_profile.language = "en"
"""
    declared = f"    - {NAME}\n    - user.customer_profile.language"
    session = desk(load, declared, step).start(user="ada")
    turn = session.say("one")
    assert about(turn, "refused") == ["user.customer_profile.language"]
    assert "preferred_name" in why(turn)
    assert memory.scope(user="ada").get("customer_profile") is None
    assert about(session.say("both"), "refused") == [], "fields that one turn sets are one write"
    [revision] = memory.scope(user="ada").history("customer_profile")
    assert revision.value == {"language": "en", "preferred_name": "Ada"}


def test_a_field_that_the_schema_refuses_is_left_out_alone(load: Any, memory: Memory, profile: Any) -> None:
    by_workflow(memory, {"preferred_name": "Ada", "language": "en"})
    step = """
    SET:
      - user.customer_profile.preferred_name = "a name with more than twenty letters"
      - user.customer_profile.language = "de"
      - user.customer_profile.shoe = 38
"""
    declared = f"    - {NAME}\n    - user.customer_profile.language\n    - user.customer_profile.shoe"
    turn = desk(load, declared, step).start(user="ada").opening
    assert sorted(about(turn, "refused")) == [NAME, "user.customer_profile.shoe"]
    assert about(turn, "remembered") == ["user.customer_profile.language"]
    assert memory.scope(user="ada").value("customer_profile") == {"preferred_name": "Ada", "language": "de"}


def test_a_required_field_cannot_be_cleared(load: Any, memory: Memory, profile: Any) -> None:
    by_workflow(memory, {"preferred_name": "Ada"})
    session = desk(load, f"    - {NAME}", RENAME).start(user="ada")
    assert about(session.say("forget"), "refused") == [NAME]
    assert memory.scope(user="ada").value("customer_profile") == {"preferred_name": "Ada"}
    memory.definitions.delete("customer_profile")
    assert session.say("show").messages == ["Hello ."]
    assert about(session.say("forget"), "refused") == []


def test_a_definition_that_is_deleted_meanwhile_leaves_a_plain_fact(load: Any, memory: Memory, profile: Any) -> None:
    by_workflow(memory, {"preferred_name": "Ada"})

    def drop() -> str:
        memory.definitions.delete("customer_profile")
        return "dropped"

    tools = "TOOLS:\n  drop() -> string\n"
    step = f'    SET: {NAME} = "Eve"\n    CALL: drop\n    RESPOND: "Hello {{{{{NAME}}}}}."'
    agent = desk(load, f"    - {NAME}", step, tools, tools={"drop": drop})
    assert agent.start(user="ada").opening.messages == ["Hello Eve."]
    ada = memory.scope(user="ada")
    assert (ada.get("customer_profile"), ada.value("customer_profile.preferred_name")) == (None, "Eve")


# --- others -----------------------------------------------------------------------------------------------------


def test_two_sessions_and_a_workflow_that_write_one_record_lose_nothing(tmp_path: Path) -> None:
    fields = [f"f{number}" for number in range(6)]
    properties = {name: {"type": "string"} for name in (*fields, "flow")}
    with memoranda.open(tmp_path / "memory.db") as memory:
        schema = {"type": "object", "properties": properties, "x-mode": "merge"}
        memory.definitions.create(name="Customer", slug="customer_profile", schema=schema)
        text = 'AGENT: Desk\nGOAL: "Serve"\nMEMORY:\n  persistent:\n    - user.customer_profile.{0}\nFLOW:\n  serve:\n'
        text += "    REASONING: false\n    SET: user.customer_profile.{0} = input\n"
        sessions = {name: memoranda.abl.load(text.format(name), memory=memory).start(user="ada") for name in fields}
        memory.scope(user="ada").set("customer_profile", {"flow": "0"})
        ready = threading.Barrier(len(fields) + 1)

        def say(name: str) -> None:
            ready.wait()
            for number in range(4):
                sessions[name].say(f"{name}-{number}")

        def work() -> None:
            ready.wait()
            for number in range(4):
                by_workflow(memory, {"flow": str(number)})

        threads = [threading.Thread(target=say, args=(name,)) for name in fields] + [threading.Thread(target=work)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expected = {**{name: f"{name}-3" for name in fields}, "flow": "3"}
        assert memory.scope(user="ada").value("customer_profile") == expected


def test_a_field_is_granted_without_the_rest_of_the_record(load: Any, memory: Memory, profile: Any) -> None:
    by_workflow(memory, {"preferred_name": "Ada", "language": "en"})
    step = '    SET: user.customer_profile.preferred_name = "Eve"\n    RESPOND: "{{user.customer_profile.language}}!"'
    other = load(f"FLOW:\n  greet:\n    REASONING: false\n{step}\n    THEN: COMPLETE\n", name="Greeter")
    handoff = f"""
HANDOFF:
  - TO: Greeter
    WHEN: input == "greet"
    CONTEXT:
      memory_grants:
        - path: {NAME}
          access: readwrite
"""
    agent = desk(load, f"    - {NAME}", '    RESPOND: "Desk"', handoff, agents=[other])
    turn = agent.start(user="ada").say("greet")
    assert "!" in turn.messages, "what was not granted is not shown"
    assert memory.scope(user="ada").value("customer_profile") == {"preferred_name": "Eve", "language": "en"}


def test_sensitive_and_write_only_fields_stay_hidden(load: Any, memory: Memory) -> None:
    memory.scope(user="ada").set("profile", {"name": "Ada", "pin": "4711-0815", "note": "private words"})
    declared = """    - user.profile
    - user.profile.pin
      SENSITIVE: true
    - user.profile.note
      ACCESS: write"""
    step = """
    ON_INPUT:
      - IF: input == "set"
        SET: user.profile.pin = "1234-5678"
      - ELSE:
        RESPOND: "{{user.profile.name}} {{user.profile.pin}} {{user.profile}}"
"""
    more = """
  recall:
    - ON: session:start
      ACTION: load_memory
      DOMAIN: user.profile
"""
    session = desk(load, declared, step, more).start(user="ada")
    shown = session.say("show")
    [said] = shown.messages
    assert said.startswith("Ada (kept from view) {") and "Ada" in said.partition("{")[2]
    assert "private words" not in said and "4711" not in said
    assert "private words" not in str(session.vars)
    turn = session.say("set")
    assert "1234" not in str(list(turn.trace))
    assert memory.scope(user="ada").value("profile")["pin"] == "1234-5678"


def test_a_stored_value_that_no_longer_fits_is_not_quoted_in_the_trace(load: Any, memory: Memory) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"pin": {"type": "string"}, "name": {"type": "string"}}}
    memory.definitions.create(name="Profile", slug="profile", schema=schema)
    memory.scope(user="ada").set("profile", {"pin": "4711-0815"})
    schema["properties"]["pin"] = {"type": "string", "pattern": "^x"}
    memory.definitions.update("profile", schema=schema, stale="keep")
    declared = "    - user.profile.name\n    - user.profile.pin\n      SENSITIVE: true"
    turn = desk(load, declared, "    SET: user.profile.name = input").start(user="ada").say("Ada")
    assert about(turn, "refused") == ["user.profile.name"]
    assert "at $.pin" in why(turn) and "4711" not in str(list(turn.trace))


def test_policies_of_the_record_and_of_the_field_both_count(load: Any, memory: Memory, profile: Any) -> None:
    by_workflow(memory, {"preferred_name": "Ada", "language": "en"})

    def narrow(**access: Access) -> Memory:
        paths: dict[str, Access] = {name.replace("__", "."): level for name, level in access.items()}
        return memory.narrowed(Policy.of(allow=("*",), access={**paths, "*": "readwrite"}))

    free = desk(load, f"    - {NAME}", RENAME, on=narrow()).start(user="ada")
    assert free.say("show").messages == ["Hello Ada."]
    closed = narrow(customer_profile="none")
    assert desk(load, f"    - {NAME}", SHOW, on=closed).start(user="ada").opening.messages == ["Hello ."]
    read_only = narrow(customer_profile__preferred_name="read")
    session = desk(load, f"    - {NAME}", RENAME, on=read_only).start(user="ada")
    assert session.say("show").messages == ["Hello Ada."]
    assert about(session.say("Eve"), "refused") == [NAME]
    assert memory.scope(user="ada").value("customer_profile")["preferred_name"] == "Ada"


def test_a_plain_path_costs_one_read_and_a_field_one_too(load: Any, memory: Memory, profile: Any) -> None:
    by_workflow(memory, {"preferred_name": "Ada"})
    plain = desk(load, "    - user.language", '    RESPOND: "{{user.language}}"').start(user="ada")
    field = desk(load, f"    - {NAME}", SHOW).start(user="ada")
    reads: list[str] = []
    perform = type(memory).perform

    def count(self: Memory, effect: Any) -> Any:
        if effect.name in ("get_fact", "get_facts") and effect.scope.path == "user:ada":
            reads.append(effect.name)
        return perform(self, effect)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(memory), "perform", count)
        plain.say("")
        assert reads == ["get_fact"]
        field.say("")
        assert reads == ["get_fact", "get_facts"]


# --- loading ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ("user.customer_profile\n      TYPE: string", "which the schema of `customer_profile` refuses"),
        ("user.customer_profile.visits\n      TYPE: number", "`customer_profile.visits` refuses"),
        ("user.customer_profile.langage", "has no field `langage`"),
        ("user.customer_profile.language.code", "`customer_profile.language` is not an object"),
        ("user.customer_profile.address.city\n      TYPE: string", None),
        ("user.customer_profile.visits", None),
        ("user.other.visits\n      TYPE: number", None),
        ("project.customer_profile.langage", None),
    ],
)
def test_loading_warns_about_a_path_that_its_record_cannot_have(
    load: Any, memory: Memory, profile: Any, declared: str, says: str | None
) -> None:
    agent = desk(load, f"    - {declared}", '    RESPOND: "Hello."')
    found = [one for one in agent.diagnostics if one.code == "record_field"]
    assert [one.severity for one in found] == ([] if says is None else ["warning"])
    assert all(str(says) in one.message for one in found)
    blind = memory.narrowed(Policy.of(allow=("memory",)))
    assert desk(load, f"    - {declared}", '    RESPOND: "Hello."', on=blind).diagnostics == ()
