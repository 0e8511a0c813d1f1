"""The vendor's reference page "Memory": one test for each of its statements."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from memoranda import Memory
from memoranda.errors import (
    AlreadyExists,
    InvalidDefinition,
    MemorandaError,
    SchemaViolation,
    SourceError,
    StaleRecords,
)
from memoranda.model.definition import Definition
from memoranda.testing import FakeClock
from memoranda.workflow import Run

Define = Callable[..., Definition]
Load = Callable[..., Any]
Keep = Callable[..., Run]
Look = Callable[..., dict[str, Any]]
Asking = Callable[..., Run]

HIVE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "queen_name": {"type": "string", "description": "What the keeper calls the queen."},
        "frames": {"type": "integer", "description": "How many frames the hive has."},
        "plants": {"type": "array", "items": {"type": "string"}},
    },
}
QUEEN: dict[str, Any] = {**HIVE, "required": ["queen_name"]}
STUDIO = "studio: not yet"


def failed(run: Run) -> str:
    assert run.status == "failed" and run.error is not None
    return run.error.type


# --- definitions --------------------------------------------------------------------------------------------------


def test_s4_01_a_definition_is_a_contract(memory: Memory) -> None:
    """A definition gives a memory its name, a stable slug, a scope, an optional TTL and a JSON schema."""
    made = memory.definitions.create(name="Hive", slug="hive", scope="thread", ttl=60, schema=HIVE)
    found = memory.definitions.get(made.id)
    assert (found.name, found.slug, found.scope, found.ttl) == ("Hive", "hive", "thread", 60)
    assert found.schema["properties"] == HIVE["properties"]


def test_s4_02_records_are_created_when_something_writes(define: Define, keep: Keep, look: Look) -> None:
    """A definition has no values of its own: records are created when a workflow or an AI action writes one."""
    define("hive", schema=HIVE)
    assert look() == {}
    keep({"hive": {"frames": 9}}).check()
    assert look() == {"hive": {"frames": 9}}


def test_s4_03_memory_survives_a_step_and_a_run(define: Define, keep: Keep, look: Look) -> None:
    """Memory is for facts that survive beyond one step of a workflow, and beyond its run."""
    define("hive", schema=HIVE)
    run = keep({"hive": {"queen_name": "Maud"}}).check()
    assert run.output["seen"] == {"hive": {"queen_name": "Maud"}}
    assert look() == {"hive": {"queen_name": "Maud"}}


def test_s4_04_a_page_lists_definitions(pages: Any) -> None:
    """A page lists each definition's name, slug, scope, TTL, creation date and last update."""
    body = {"name": "Listed Hive", "slug": "listed_hive", "scope": "thread", "ttl": 90, "schema": HIVE}
    assert pages.api.post("/memory/definitions", json=body).status_code == 201
    page = pages.read("/definitions")
    assert re.findall(r"<th>([^<]+)</th>", page) == ["Name", "Slug", "Scope", "Time to live", "Created", "Updated"]
    row = page.partition("Listed Hive")[2].partition("</tr>")[0]
    assert "listed_hive" in row and "thread" in row and "90 s" in row and row.count("<time") == 2


def test_s4_05_the_page_searches_definitions(pages: Any) -> None:
    """From the page, definitions can be searched."""
    for slug in ("apple_tree", "pear_tree"):
        body = {"name": slug.replace("_", " ").title(), "slug": slug, "schema": HIVE}
        assert pages.api.post("/memory/definitions", json=body).status_code == 201
    found = pages.read("/definitions?search=pear")
    assert "Pear Tree" in found and "Apple Tree" not in found


def test_s4_06_the_page_creates_edits_and_deletes(pages: Any) -> None:
    """From the page, definitions can be created, edited and deleted."""
    schema = '{"type": "object", "properties": {"n": {"type": "integer"}}}'
    fields = {"slug": "shed", "scope": "global", "ttl": "", "mode": "replace", "schema": schema}
    pages.send("/definitions/new", name="Shed", **fields)
    [made] = [one for one in pages.api.get("/memory/definitions").json()["definitions"] if one["slug"] == "shed"]
    pages.send(f"/definitions/{made['id']}/edit", name="Garden Shed", **fields)
    assert "Garden Shed" in pages.read("/definitions")
    pages.send(f"/definitions/{made['id']}/delete", typed="shed")
    assert "Garden Shed" not in pages.read("/definitions")


def test_s4_07_who_lacks_the_permission_cannot_change_definitions(pages: Any) -> None:
    """Managing definitions takes a role with the permission for it; others are refused."""
    key = pages.api.post("/keys", json={"user": "bo", "role": "member"}).json()["token"]
    body = {"name": "Forbidden", "slug": "forbidden", "schema": HIVE}
    own = {"Authorization": f"Bearer {key}"}
    assert pages.api.post("/memory/definitions", json=body, headers=own).status_code == 403
    assert pages.api.post("/memory/definitions", json=body).status_code == 201


def test_s4_08_names_are_unique(define: Define) -> None:
    """The name is a label for people, and unique."""
    define("hive", name="Hive")
    with pytest.raises(AlreadyExists):
        define("other", name="Hive")
    assert define("other", name="Other Hive").name == "Other Hive"


def test_s4_09_the_name_is_the_heading_for_models(define: Define, memory: Memory, ask: Asking, scripted: Any) -> None:
    """The name is the heading when an AI action receives memory."""
    hive = define("hive", name="The Red Hive", schema=HIVE)
    memory.scope(user="nora").set("hive", {"frames": 9})
    model = scripted("Nine.")
    ask(model, hive).check()
    assert "## The Red Hive\n- Frames: 9" in model.asked[0].instructions


def test_s4_10_a_slug_has_lower_case_letters_digits_and_underscores(define: Define) -> None:
    """A slug consists of lower-case letters, digits and underscores only."""
    for slug in ("Hive", "red-hive", "red hive", "", "hivé"):
        with pytest.raises(MemorandaError):
            define(slug, name=f"x{slug}")
    assert define("red_hive_2").slug == "red_hive_2"


def test_s4_11_slugs_are_unique(define: Define) -> None:
    """Slugs are unique."""
    define("hive")
    with pytest.raises(AlreadyExists):
        define("hive", name="Another")


def test_s4_12_the_slug_is_the_technical_key(define: Define, keep: Keep) -> None:
    """The slug is the key in `$context.memory` and in the inputs of `update_memory`."""
    define("hive", schema=HIVE)
    run = keep({"hive": {"frames": 9}}).check()
    assert run.output == {"given": {"memory": {"hive": {"frames": 9}}}, "seen": {"hive": {"frames": 9}}}


def test_s4_13_a_scope_is_one_of_four(define: Define) -> None:
    """The scope is global, workflow, thread or run; another word is refused with the choices."""
    for scope in ("global", "workflow", "thread", "run"):
        assert define(f"in_{scope}", scope=scope).scope == scope
    with pytest.raises(MemorandaError) as refused:
        define("elsewhere", scope="globl")
    assert all(scope in str(refused.value) for scope in ("global", "workflow", "thread", "run"))


def test_s4_14_without_a_ttl_memory_is_permanent(define: Define, keep: Keep, look: Look, clock: FakeClock) -> None:
    """The TTL is optional: without one a record is permanent, with one it expires after that many seconds."""
    define("hive", schema=HIVE)
    define("swarm", schema=HIVE, ttl=60)
    keep({"hive": {"frames": 9}, "swarm": {"frames": 1}}).check()
    clock.advance(59)
    assert set(look()) == {"hive", "swarm"}
    clock.advance(1)
    assert set(look()) == {"hive"}
    clock.advance(10 * 365 * 86_400)
    assert set(look()) == {"hive"}


def test_s4_15_a_ttl_is_a_positive_integer(define: Define) -> None:
    """A TTL is a positive whole number of seconds."""
    for ttl in (0, -1, 1.5):
        with pytest.raises(MemorandaError):
            define("hive", ttl=ttl)
    assert define("hive", ttl=1).ttl == 1


def test_s4_16_the_schema_validates_every_value(define: Define, keep: Keep, look: Look, memory: Memory) -> None:
    """The schema validates every value that is saved for a memory, through every door."""
    define("hive", schema=HIVE)
    assert failed(keep({"hive": {"frames": "nine"}})) == "schema_violation"
    with pytest.raises(SchemaViolation, match="frames"):
        memory.scope(user="nora").set("hive", {"frames": "nine"})
    assert look() == {}
    keep({"hive": {"frames": 9}}).check()


def test_s4_17_the_schema_is_one_of_an_object(define: Define) -> None:
    """The schema is a JSON schema of an object."""
    with pytest.raises(InvalidDefinition):
        define("hive", schema={"type": "string"})
    with pytest.raises(InvalidDefinition):
        define("hive", schema={"type": "object", "properties": {"n": {"type": "nothing"}}})
    assert define("hive", schema=HIVE).slug == "hive"


@pytest.mark.xfail(reason=STUDIO, strict=True)
def test_s4_18_a_schema_builder_creates_schemas(pages: Any) -> None:
    """A schema builder creates object schemas with named properties, each with a type, description and flag."""
    page = pages.read("/definitions/new")
    assert 'name="property' in page or "data-schema-builder" in page


def test_s4_19_properties_have_types_descriptions_and_required_flags(define: Define, keep: Keep) -> None:
    """Each property has a type, and may have a description and be required."""
    made = define("hive", schema=QUEEN)
    assert made.schema["properties"]["queen_name"]["description"] == "What the keeper calls the queen."
    assert failed(keep({"hive": {"frames": 9}})) == "schema_violation"
    keep({"hive": {"queen_name": "Maud"}}).check()


def test_s4_20_objects_are_strict(define: Define, keep: Keep, look: Look) -> None:
    """Object schemas are strict: unexpected properties are rejected when memory is written, nested ones too."""
    nested = {"type": "object", "properties": {"box": {"type": "object", "properties": {"n": {"type": "integer"}}}}}
    define("hive", schema=nested)
    for value in ({"bees": 1}, {"box": {"n": 1, "m": 2}}):
        assert failed(keep({"hive": value})) == "schema_violation"
    keep({"hive": {"box": {"n": 1}}}).check()
    assert look() == {"hive": {"box": {"n": 1}}}


# --- scopes -------------------------------------------------------------------------------------------------------


def test_s4_21_global_is_not_shared_between_owners(define: Define, keep: Keep, look: Look) -> None:
    """Every scope belongs to the current owner: global is not one value for all subscribers."""
    define("hive", schema=HIVE)
    keep({"hive": {"frames": 9}}, owner="nora").check()
    assert look(owner="otto") == {}
    assert look(owner="nora") == {"hive": {"frames": 9}}


def test_s4_22_global_follows_the_owner_across_workflows(define: Define, keep: Keep, look: Look) -> None:
    """Global: a record of the owner and the definition, the same in all workflows."""
    define("hive", schema=HIVE)
    keep({"hive": {"frames": 9}}, name="garden").check()
    assert look(name="market") == {"hive": {"frames": 9}}


def test_s4_23_workflow_is_shared_by_the_runs_of_one_workflow(define: Define, keep: Keep, look: Look) -> None:
    """Workflow: a record of the owner, the workflow and the definition, shared by its runs, unknown to others."""
    hive = define("hive", schema=HIVE, scope="workflow")
    keep({"hive": {"frames": 9}}, hive, name="garden").check()
    assert look(hive, name="garden") == {"hive": {"frames": 9}}
    assert look(hive, name="market") == {}
    assert look(hive, name="garden", owner="otto") == {}


def test_s4_24_thread_is_shared_in_one_conversation(define: Define, keep: Keep, look: Look) -> None:
    """Thread: a record of the owner, the thread and the definition, for the runs in that thread."""
    hive = define("hive", schema=HIVE, scope="thread")
    keep({"hive": {"frames": 9}}, hive, thread="t1").check()
    assert look(hive, thread="t1", name="garden") == {"hive": {"frames": 9}}
    assert look(hive, thread="t2") == {}


def test_s4_25_run_is_scratch_data_of_one_run(define: Define, keep: Keep, look: Look) -> None:
    """Run: a record of the owner, the run and the definition, seen by that run alone."""
    hive = define("hive", schema=HIVE, scope="run")
    run = keep({"hive": {"frames": 9}}, hive).check()
    assert run.output["seen"] == {"hive": {"frames": 9}}
    assert look(hive) == {}


def test_s4_26_run_data_disappears_after_the_run(define: Define, keep: Keep, memory: Memory) -> None:
    """Data of a run disappears when the run is over."""
    hive = define("hive", schema=HIVE, scope="run")
    other = define("shed", schema=HIVE)
    keep({"hive": {"frames": 9}, "shed": {"frames": 1}}, hive).check()
    assert memory.definitions.records(hive.id) == []
    assert len(memory.definitions.records(other.id)) == 1


def test_s4_27_an_update_refreshes_the_expiry(define: Define, keep: Keep, look: Look, clock: FakeClock) -> None:
    """The TTL is applied when a record is created or updated: an update refreshes its expiry."""
    define("hive", schema=HIVE, ttl=60)
    keep({"hive": {"frames": 9}}).check()
    clock.advance(50)
    keep({"hive": {"frames": 10}}).check()
    clock.advance(50)
    assert look() == {"hive": {"frames": 10}}
    clock.advance(10)
    assert look() == {}


def test_s4_28_expired_records_can_be_cleaned_up(define: Define, keep: Keep, memory: Memory, clock: FakeClock) -> None:
    """Expired records are no longer loaded, and maintenance removes them."""
    define("hive", schema=HIVE, ttl=60)
    keep({"hive": {"frames": 9}}).check()
    assert memory.sweep().facts == 0
    clock.advance(61)
    assert memory.scope(user="nora").get("hive") is None
    assert memory.sweep().facts == 1


# --- creating one -------------------------------------------------------------------------------------------------


def test_s4_29_the_page_suggests_a_slug(pages: Any) -> None:
    """The form generates a slug from the name of a new definition, and keeps that of an existing one."""
    assert 'data-slug-of="name"' in pages.read("/definitions/new")
    body = {"name": "Kept Slug", "slug": "kept_slug", "schema": HIVE}
    made = pages.api.post("/memory/definitions", json=body).json()
    assert "data-slug-of" not in pages.read(f"/definitions/{made['id']}/edit")


def test_s4_30_a_slug_stays_when_the_name_changes(define: Define, keep: Keep, look: Look, memory: Memory) -> None:
    """The slug is stable: another name changes neither the slug nor the records."""
    hive = define("hive", schema=HIVE)
    keep({"hive": {"frames": 9}}).check()
    assert memory.definitions.update(hive.id, name="Great Hive").slug == "hive"
    assert look() == {"hive": {"frames": 9}}


def test_s4_31_a_profile_schema_is_accepted(define: Define, keep: Keep, look: Look) -> None:
    """A schema with a title, closed properties, descriptions and lists of texts is accepted as it is written."""
    schema = {"title": "Keeper", "additionalProperties": False, **HIVE}
    assert define("keeper", schema=schema).schema["title"] == "Keeper"
    keep({"keeper": {"queen_name": "Maud", "plants": ["clover", "lime"]}}).check()
    assert look()["keeper"]["plants"] == ["clover", "lime"]


def test_s4_32_an_update_replaces_the_value(define: Define, keep: Keep, look: Look) -> None:
    """An update replaces the stored value of its slug, so required fields must be in each update."""
    define("hive", schema=QUEEN)
    keep({"hive": {"queen_name": "Maud", "frames": 9}}).check()
    assert failed(keep({"hive": {"frames": 10}})) == "schema_violation"
    assert look() == {"hive": {"queen_name": "Maud", "frames": 9}}
    keep({"hive": {"queen_name": "Edith"}}).check()
    assert look() == {"hive": {"queen_name": "Edith"}}


# --- bindings -----------------------------------------------------------------------------------------------------

REPLY = """
defs:
  {binding}:
    kind: memory
    description: What is known about the hive.
    settings:
      definition_id: {id}
  thinker:
    kind: model
    settings:
      provider: openai
      model_id: gpt-5.2
  reply:
    kind: task
    action: ai_generate_reply
    inputs:
      input_mode: history
      messages_limit: 6
      system: "You keep bees."
    bindings:
      model: thinker
      memory:
        - {binding}
flow:
  - do: reply
"""


def test_s4_33_a_workflow_uses_memory_through_a_binding(
    define: Define, load: Load, memory: Memory, scripted: Any
) -> None:
    """A workflow uses memory through a binding, which points to one definition by its id."""
    hive = define("hive", schema=HIVE)
    memory.scope(user="nora").set("hive", {"frames": 9})
    model = scripted("Nine.")
    run = load(REPLY.format(binding="hive_memory", id=hive.id), model=model).run(
        {"text": "How many frames?"}, owner="nora", thread="t1"
    )
    assert run.check().outputs["reply"]["text"] == "Nine."
    assert "- Frames: 9" in model.asked[0].instructions
    unknown = load(REPLY.format(binding="hive_memory", id="00000000-0000-4000-8000-000000000000"), model=scripted())
    with pytest.raises(MemorandaError, match="00000000-0000-4000-8000-000000000000"):
        unknown.run({"text": "How many?"}, owner="nora", thread="t1").check()


def test_s4_34_the_name_of_a_binding_is_local(define: Define, load: Load, memory: Memory, scripted: Any) -> None:
    """The name of a binding only identifies it inside its workflow; at runtime the key is the slug."""
    hive = define("hive", schema=HIVE)
    memory.scope(user="nora").set("hive", {"frames": 9})
    for binding in ("hive_memory", "something_else"):
        text = REPLY.format(binding=binding, id=hive.id) + 'outputs: {seen: "=$context.memory"}\n'
        run = load(text, model=scripted("Nine.")).run({"text": "How many?"}, owner="nora", thread=binding).check()
        assert run.output == {"seen": {"hive": {"frames": 9}}}


@pytest.mark.xfail(reason=STUDIO, strict=True)
def test_s4_35_an_editor_adds_bindings(pages: Any) -> None:
    """In a workflow editor, a memory binding is added to an action and its definition is selected."""
    assert pages.client.get("/admin/workflows").status_code == 200


def test_s4_36_only_actions_that_support_memory_take_bindings(define: Define, load: Load) -> None:
    """Only actions that support memory, such as AI actions, take a memory binding."""
    text = (
        f"defs:\n  hive_memory: {{kind: memory, settings: {{definition_id: {define('hive').id}}}}}\n"
        "  say: {kind: task, action: send_text_message, inputs: {text: Hello}, bindings: {memory: [hive_memory]}}\n"
        "flow:\n  - do: say\n"
    )
    with pytest.raises(SourceError, match="memory"):
        load(text)
    assert load(text.replace(", bindings: {memory: [hive_memory]}", "")).run(owner="nora").status == "completed"


# --- expressions --------------------------------------------------------------------------------------------------

GREET = """
defs:
  greet:
    kind: task
    action: send_text_message
    inputs:
      text: "='The queen is ' & ($context.memory.hive.queen_name ? $context.memory.hive.queen_name : 'nameless')"
flow:
  - do: greet
outputs:
  known: "=$exists($context.memory.hive)"
"""


def test_s4_37_values_are_read_in_expressions_by_slug(define: Define, load: Load, memory: Memory) -> None:
    """Loaded values are available to expressions under `$context.memory`, by slug."""
    define("hive", schema=HIVE)
    memory.scope(user="nora").set("hive", {"queen_name": "Maud"})
    run = load(GREET).run(owner="nora").check()
    assert (run.messages, run.output) == (["The queen is Maud"], {"known": True})


def test_s4_38_without_a_record_the_key_is_missing(define: Define, load: Load) -> None:
    """Without an active record the key is missing: `$exists` and a fallback handle it."""
    define("hive", schema=HIVE)
    run = load(GREET).run(owner="nora").check()
    assert (run.messages, run.output) == (["The queen is nameless"], {"known": False})


# --- AI actions ---------------------------------------------------------------------------------------------------


def test_s4_39_the_ai_actions_support_memory(define: Define, load: Load, memory: Memory, scripted: Any) -> None:
    """`ai_agent` and the actions that generate replies, texts and objects, or infer objects, take memory bindings."""
    from memoranda.agent.models import Reply

    hive = define("hive", schema=HIVE)
    memory.scope(user="nora").set("hive", {"frames": 9})
    objects = ", settings: {output_schema: {type: object, properties: {frames: {type: integer}}}}"
    actions = ("ai_agent", "ai_generate_reply", "ai_generate_text", "ai_generate_object", "ai_infer_object")
    for action in actions:
        text = (
            f"defs:\n  hive_memory: {{kind: memory, settings: {{definition_id: {hive.id}}}}}\n"
            "  thinker: {kind: model, settings: {provider: openai, model_id: gpt-5.2}}\n"
            f"  think: {{kind: task, action: {action}, inputs: {{prompt: 'How many frames?'}}, "
            f"bindings: {{model: thinker, memory: [hive_memory]}}{objects if action.endswith('object') else ''}}}\n"
            "flow:\n  - do: think\n"
        )
        model = scripted(Reply(value={"frames": 9}) if action.endswith("object") else "Nine.")
        load(text, model=model).run(owner="nora").check()
        assert "# Working Memory\n## Hive\n- Frames: 9" in model.asked[0].instructions, action
        assert "update_memory" in [tool.name for tool in model.asked[0].tools], action


def test_s4_40_active_records_of_the_owner_are_loaded(
    define: Define, memory: Memory, ask: Asking, scripted: Any, clock: FakeClock
) -> None:
    """Active records of the current owner and a matching scope are loaded; others and expired ones are not."""
    hive, swarm = define("hive", schema=HIVE), define("swarm", schema=HIVE, ttl=60)
    memory.scope(user="otto").set("hive", {"queen_name": "Edith"})
    memory.scope(user="nora").set("hive", {"queen_name": "Maud"})
    memory.scope(user="nora").set("swarm", {"frames": 1})
    clock.advance(61)
    model = scripted("Maud.")
    ask(model, hive, swarm, owner="nora").check()
    told = model.asked[0].instructions
    assert "Maud" in told and "Edith" not in told and "Swarm" not in told


def test_s4_41_values_are_appended_to_the_instructions(
    define: Define, memory: Memory, ask: Asking, scripted: Any
) -> None:
    """Values are appended to the instructions under `# Working Memory`, grouped by the names of the definitions."""
    hive, shed = define("hive", schema=HIVE), define("shed", schema=HIVE)
    memory.scope(user="nora").set("hive", {"queen_name": "Maud"})
    memory.scope(user="nora").set("shed", {"frames": 2})
    model = scripted("Well.")
    ask(model, hive, shed).check()
    assert model.asked[0].instructions == (
        "Answer briefly.\n\n# Working Memory\n## Hive\n- Queen name: Maud\n\n## Shed\n- Frames: 2"
    )


def test_s4_42_undefined_fields_are_omitted(define: Define, memory: Memory, ask: Asking, scripted: Any) -> None:
    """Fields without a value are omitted, and a definition without a record has no heading."""
    hive, shed = define("hive", schema=HIVE), define("shed", schema=HIVE)
    memory.scope(user="nora").set("hive", {"frames": 9})
    model = scripted("Well.")
    ask(model, hive, shed).check()
    told = model.asked[0].instructions
    assert "Frames: 9" in told and "Queen name" not in told and "Shed" not in told


def test_s4_43_a_field_is_shown_with_its_label_and_value(
    define: Define, memory: Memory, ask: Asking, scripted: Any
) -> None:
    """A field is a line of its label and its value: texts as they are, lists as compact JSON."""
    hive = define("hive", schema=HIVE)
    memory.scope(user="nora").set("hive", {"queen_name": "Maud", "plants": ["clover", "lime tree"]})
    model = scripted("Well.")
    ask(model, hive).check()
    assert model.asked[0].instructions.endswith(
        '# Working Memory\n## Hive\n- Queen name: Maud\n- Plants: ["clover","lime tree"]'
    )


def test_s4_44_models_get_a_tool_to_update_memory(
    define: Define, ask: Asking, scripted: Any, wants: Any, look: Look
) -> None:
    """Models get the tool `update_memory` for the bound slugs, and what they pass is saved."""
    hive = define("hive", schema=HIVE)
    model = scripted(wants(("update_memory", {"memory": {"hive": {"frames": 9}}})), "Saved.")
    ask(model, hive).check()
    assert [tool.name for tool in model.asked[0].tools] == ["update_memory"]
    assert look() == {"hive": {"frames": 9}}


def test_s4_45_memory_is_not_written_because_it_is_visible(
    define: Define, ask: Asking, memory: Memory, scripted: Any
) -> None:
    """Memory is not written just because a model sees it."""
    hive = define("hive", schema=HIVE)
    before = memory.scope(user="nora").set("hive", {"frames": 9})
    ask(scripted("You told me that the queen is called Maud."), hive).check()
    assert memory.scope(user="nora").get("hive") == before


def test_s4_46_the_tool_is_limited_to_what_is_bound(
    define: Define, ask: Asking, scripted: Any, wants: Any, look: Look
) -> None:
    """The tool is limited to the bindings of its task: another slug is not written."""
    hive = define("hive", schema=HIVE)
    define("shed", schema=HIVE)
    calls = wants(("update_memory", {"memory": {"shed": {"frames": 1}}}))
    model = scripted(calls, wants(("update_memory", {"memory": {"hive": {"frames": 9}}})), "Saved.")
    ask(model, hive).check()
    assert list(model.asked[0].tools[0].parameters["properties"]["memory"]["properties"]) == ["hive"]
    assert look() == {"hive": {"frames": 9}}


def test_s4_47_the_input_of_the_tool_has_a_value_for_each_slug(define: Define, ask: Asking, scripted: Any) -> None:
    """The input of the tool is an object `memory` with a value for each slug, as its schema says."""
    model = scripted("Well.")
    ask(model, define("hive", schema=QUEEN), define("shed", schema=HIVE)).check()
    parameters = model.asked[0].tools[0].parameters
    slugs = parameters["properties"]["memory"]["properties"]
    assert parameters["required"] == ["memory"] and list(slugs) == ["hive", "shed"]
    assert slugs["hive"]["properties"]["queen_name"]["type"] == "string"


def test_s4_48_each_value_has_to_match_its_schema(
    define: Define, ask: Asking, scripted: Any, wants: Any, look: Look
) -> None:
    """Each value has to match its schema: the model is told what does not, and nothing is written."""
    hive = define("hive", schema=HIVE)
    wrong = wants(("update_memory", {"memory": {"hive": {"frames": "nine"}}}))
    model = scripted(wrong, "It did not work.")
    ask(model, hive).check()
    result = model.asked[1].messages[-1]
    assert result.failed and "frames" in result.text
    assert look() == {}


def test_s4_49_an_update_may_name_some_slugs(
    define: Define, ask: Asking, memory: Memory, scripted: Any, wants: Any, look: Look
) -> None:
    """The object `memory` is partial: one slug can be updated without the others."""
    hive, shed = define("hive", schema=HIVE), define("shed", schema=QUEEN)
    memory.scope(user="nora").set("shed", {"queen_name": "Maud"})
    ask(scripted(wants(("update_memory", {"memory": {"hive": {"frames": 9}}})), "Saved."), hive, shed).check()
    assert look() == {"hive": {"frames": 9}, "shed": {"queen_name": "Maud"}}


def test_s4_50_the_value_of_a_slug_is_its_new_value(
    define: Define, ask: Asking, memory: Memory, scripted: Any, wants: Any, look: Look
) -> None:
    """The value for a slug is its new value: fields that it leaves out are gone."""
    hive = define("hive", schema=HIVE)
    memory.scope(user="nora").set("hive", {"queen_name": "Maud", "frames": 9})
    ask(scripted(wants(("update_memory", {"memory": {"hive": {"frames": 10}}})), "Saved."), hive).check()
    assert look() == {"hive": {"frames": 10}}


# --- the action ---------------------------------------------------------------------------------------------------

SAVE = """
defs:
  save:
    kind: task
    action: update_memory
    inputs:
      memory:
        hive:
          queen_name: "=$input.name"
          frames: "=$input.frames"
flow:
  - do: save
"""


def test_s4_51_a_task_writes_memory_without_a_model(define: Define, load: Load, look: Look) -> None:
    """`update_memory` as a task writes values that the workflow has, computed by expressions, without a model."""
    define("hive", schema=HIVE)
    load(SAVE).run({"name": "Maud", "frames": 9}, owner="nora").check()
    assert look() == {"hive": {"queen_name": "Maud", "frames": 9}}


def test_s4_52_global_definitions_are_loaded_by_themselves(define: Define, keep: Keep, look: Look) -> None:
    """Global definitions are loaded automatically, and the task needs no bindings."""
    define("hive", schema=HIVE)
    assert keep({"hive": {"frames": 9}}).check().status == "completed"
    assert look() == {"hive": {"frames": 9}}


def test_s4_53_definitions_of_other_scopes_have_to_be_declared(define: Define, keep: Keep) -> None:
    """A definition of the scope workflow, thread or run has to be declared in `defs`."""
    for scope in ("workflow", "thread", "run"):
        made = define(f"in_{scope}", scope=scope, schema=HIVE)
        assert failed(keep({made.slug: {"frames": 9}}, thread="t1")) == "not_found"
        keep({made.slug: {"frames": 9}}, made, thread="t1").check()


def test_s4_54_slugs_are_checked_first_then_values(define: Define, keep: Keep) -> None:
    """The names of slugs are checked first, then whether a slug is known, then whether its value fits."""
    define("hive", schema=HIVE)
    wrong = {"frames": "nine"}
    named = keep({"not-a-slug": wrong, "unknown": wrong, "hive": wrong})
    assert failed(named) == "schema_violation" and "not-a-slug" in str(named.error)
    assert failed(keep({"unknown": wrong, "hive": wrong})) == "not_found"
    assert failed(keep({"hive": wrong})) == "schema_violation"
    keep({"hive": {"frames": 9}}).check()


# --- guidelines ---------------------------------------------------------------------------------------------------


def test_s4_55_descriptions_tell_models_what_belongs_where(define: Define, ask: Asking, scripted: Any) -> None:
    """Descriptions of fields reach the model, so that it knows what belongs in each of them."""
    model = scripted("Well.")
    ask(model, define("hive", schema=HIVE)).check()
    hive = model.asked[0].tools[0].parameters["properties"]["memory"]["properties"]["hive"]
    assert hive["properties"]["frames"]["description"] == "How many frames the hive has."


def test_s4_56_keys_are_credentials_and_not_memory(define: Define, load: Load, memory: Memory) -> None:
    """API keys are credentials, which a model names: they are neither in the file nor in memory."""
    text = (
        "defs:\n  thinker: {kind: model, settings: {provider: openai, model_id: gpt-5.2, api_key: HIVE_KEY}}\n"
        "  think: {kind: task, action: ai_generate_text, inputs: {prompt: Hello}, bindings: {model: thinker}}\n"
        "flow:\n  - do: think\n"
    )
    run = load(text).run(owner="nora")
    assert run.error is not None and "HIVE_KEY" in run.error.message
    assert memory.scope(user="nora").list() == []


def test_s4_57_a_run_can_be_looked_into(define: Define, keep: Keep, memory: Memory) -> None:
    """Diagnostics belong to runs, not to memory: the events of a run say what it did."""
    define("hive", schema=HIVE)
    run = keep({"hive": {"frames": 9}}).check()
    assert "keep" in [event.step for event in memory.runs.events(run.id)]
    assert memory.scope(user="nora").list()[0].key == "hive"


def test_s4_58_a_tightened_schema_can_make_records_fail(define: Define, keep: Keep, memory: Memory) -> None:
    """Kept records that no longer fit a tightened schema stop a workflow that names it, and updates must fit it."""
    hive = define("hive", schema=HIVE)
    keep({"hive": {"frames": 9}}).check()
    with pytest.raises(StaleRecords, match="`user:nora`"):
        memory.definitions.update(hive.id, schema=QUEEN)
    assert keep({}, hive).check().context["memory"] == {"hive": {"frames": 9}}
    memory.definitions.update(hive.id, schema=QUEEN, stale="keep")
    before = len(memory.runs.list())
    with pytest.raises(SchemaViolation, match="hive"):
        keep({"hive": {"queen_name": "Edith"}}, hive)
    assert len(memory.runs.list()) == before
    assert keep({}).check().context["memory"] == {}
    assert failed(keep({"hive": {"frames": 10}})) == "schema_violation"
    memory.scope(user="nora").set("hive", {"queen_name": "Maud"})
    assert keep({}, hive).check().context["memory"] == {"hive": {"queen_name": "Maud"}}


def test_s4_59_the_name_of_the_tool_is_reserved(define: Define, load: Load, scripted: Any) -> None:
    """The name `update_memory` is reserved: a tool of that name beside memory bindings is refused."""
    text = (
        f"defs:\n  hive_memory: {{kind: memory, settings: {{definition_id: {define('hive').id}}}}}\n"
        "  update_memory: {kind: tools, action: set_context, settings: {}}\n"
        "  thinker: {kind: model, settings: {provider: openai}}\n"
        "  think: {kind: task, action: ai_agent, inputs: {prompt: Hello}, "
        "bindings: {model: thinker, memory: [hive_memory], tools: [update_memory]}}\nflow:\n  - do: think\n"
    )
    with pytest.raises(SourceError, match="update_memory"):
        load(text)
    other = text.replace("update_memory", "set_hive")
    assert load(other, model=scripted("Hello.")).run(owner="nora").status == "completed"
