"""Behaviours 5, 6 and 42 to 52: the action that writes memory, and models that see it and may change it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import memoranda
from memoranda.api.memory import Memory
from memoranda.errors import SourceError
from memoranda.model.definition import Definition
from memoranda.workflow import Run, action
from memoranda.workflow.actions.builtin import BUILTIN

Define = Callable[..., Definition]
Load = Callable[..., Any]
Keep = Callable[..., Run]
Asking = Callable[..., Run]

AI = ("ai_agent", "ai_generate_reply", "ai_generate_text", "ai_generate_object", "ai_infer_object")


def told(model: Any, at: int = 1) -> list[dict[str, Any]]:
    """Return what a model was told about its calls, when it was asked for the time after."""
    return [json.loads(said.text) for said in model.asked[at].messages if said.role == "tool"]


# --- the tool ---------------------------------------------------------------------------------------------------


def test_05_without_definitions_there_is_no_tool(define: Define, ask: Asking, scripted: Any) -> None:
    plot = define("plot")
    bare, mounted = scripted("In March."), scripted("In March.")
    ask(bare).check()
    ask(mounted, plot).check()
    assert [spec.name for spec in bare.asked[0].tools] == []
    assert [spec.name for spec in mounted.asked[0].tools] == ["update_memory"]


@pytest.mark.parametrize(
    ("arguments", "stored"),
    [
        ({"memory": {"plot": {"n": 3}}}, {"plot": {"n": 3}}),
        ({"memory": {}}, {}),
        ({}, None),
        ({"memory": {"plot": {}}}, None),
        ({"memory": {"plot": {"n": "three"}}}, None),
        ({"memory": [{"plot": {"n": 3}}]}, None),
        ({"memory": {"plot": {"n": 3}}, "reason": "asked to"}, None),
    ],
    ids=["right", "empty", "without memory", "a required field is missing", "wrong type", "a list", "more"],
)
def test_06_the_tool_takes_right_values_and_an_empty_batch_and_refuses_the_rest(
    memory: Memory, define: Define, ask: Asking, scripted: Any, wants: Any, arguments: Any, stored: Any
) -> None:
    model = scripted(wants(("update_memory", arguments)), "Noted.")
    run = ask(model, define("plot")).check()
    [answer] = told(model)
    assert run.outputs["answer"]["tool_calls"] == [{"name": "update_memory", "failed": stored is None}]
    assert ("error" in answer) == (stored is None)
    assert run.context["memory"] == (stored or {})
    assert memory.scope(user="nora").value("plot") == (stored or {}).get("plot")


# --- the action -------------------------------------------------------------------------------------------------


def test_42_the_action_gives_what_was_stored_with_defaults(define: Define, keep: Keep) -> None:
    properties = {"n": {"type": "integer"}, "fence": {"type": "string", "default": "hazel"}}
    define("plot", schema={"type": "object", "properties": properties})
    run = keep({"plot": {"n": 1}}).check()
    assert run.outputs == {"keep": {"memory": {"plot": {"n": 1, "fence": "hazel"}}}}
    assert run.context["memory"] == {"plot": {"n": 1, "fence": "hazel"}}


@pytest.mark.parametrize("slug", ["bad-slug", "Plot", "a.b", ""])
def test_43_a_bad_slug_is_refused_by_what_the_action_takes(
    memory: Memory, define: Define, keep: Keep, load: Load, slug: str
) -> None:
    define("plot")
    run = keep({slug: {"n": 1}, "plot": {"n": 1}})
    assert run.error is not None
    assert (run.error.type, run.error.step) == ("schema_violation", "keep")
    assert memory.definitions.records("plot") == []
    # Where it is written in the file, it is seen before anything runs.
    written = "defs:\n  keep: {kind: task, action: update_memory, inputs: {memory: {%s: {n: 1}}}}\nflow: [{do: keep}]\n"
    with pytest.raises(SourceError):
        load(written % json.dumps(slug))
    assert load(written % "plot").run(owner="nora").check().context["memory"] == {"plot": {"n": 1}}


def test_44_an_update_without_memory_is_refused(define: Define, load: Load, keep: Keep) -> None:
    define("plot")
    with pytest.raises(SourceError, match="memory"):
        load("defs:\n  keep: {kind: task, action: update_memory}\nflow: [{do: keep}]\n")
    task = '{kind: task, action: update_memory, inputs: {memory: "=$input.none"}}'
    run = load(f"defs:\n  keep: {task}\nflow: [{{do: keep}}]\n").run(owner="nora")
    assert run.error is not None
    assert (run.error.type, run.error.step) == ("schema_violation", "keep")
    assert keep({"plot": {"n": 1}}).check().status == "completed"


# --- models and memory ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", AI)
def test_45_actions_that_ask_a_model_take_tools_servers_a_model_and_memory(name: str) -> None:
    assert BUILTIN[name].bindings == ("tools", "mcp", "model", "memory")
    assert BUILTIN["update_memory"].bindings == ()
    text = "defs:\n  note: {kind: task, action: update_memory, inputs: {memory: {}}, bindings: {memory: [m]}}\n"
    text += "  m: {kind: memory, settings: {definition_id: 11111111-2222-4333-8444-555555555555}}\nflow: [{do: note}]\n"
    codes = {one.code for one in memoranda.workflow.check(text)}
    assert "unsupported_binding" in codes
    asking = text.replace("action: update_memory, inputs: {memory: {}}", f"action: {name}")
    assert "unsupported_binding" not in {one.code for one in memoranda.workflow.check(asking)}


def test_46_without_mounted_memory_the_instruction_stays_alone(
    define: Define, keep: Keep, ask: Asking, scripted: Any
) -> None:
    plot = define("plot")
    keep({"plot": {"n": 4}}).check()
    bare, mounted = scripted("In March."), scripted("In March.")
    ask(bare).check()
    ask(mounted, plot).check()
    assert bare.asked[0].instructions == "Answer briefly."
    assert mounted.asked[0].instructions == "Answer briefly.\n\n# Working Memory\n## Plot\n- N: 4"


def test_47_the_whole_prompt_of_two_definitions(memory: Memory, define: Define, ask: Asking, scripted: Any) -> None:
    fields = ("main_crop", "beds", "fenced", "sown_at", "neighbour", "water", "empty")
    plot = define("plot", schema={"type": "object", "properties": {name: {} for name in fields}})
    gardener = define("gardener", schema={"type": "object", "properties": {"first_name": {"title": "Called"}}})
    nora = memory.scope(user="nora")
    nora.set("gardener", {"first_name": "Nora"})
    value = {"beds": 4, "main_crop": "leeks", "fenced": True, "sown_at": "2031-03-01T08:00:00.000Z"}
    nora.set("plot", {**value, "neighbour": {"name": "Jiří", "plots": [3, 5]}, "water": None})
    model = scripted("In March.")
    ask(model, gardener, plot).check()
    assert model.asked[0].instructions == (
        "Answer briefly.\n\n"
        "# Working Memory\n"
        "## Gardener\n"
        "- Called: Nora\n\n"
        "## Plot\n"
        "- Main crop: leeks\n"
        "- Beds: 4\n"
        "- Fenced: true\n"
        "- Sown at: 2031-03-01T08:00:00.000Z\n"
        '- Neighbour: {"name":"Jiří","plots":[3,5]}\n'
        "- Water: null"
    )


@action("forecast")
def forecast(day: str) -> dict[str, str]:
    """Say what the weather will be."""
    return {"sky": f"clear on {day}"}


@action("look_up")
def look_up(word: str) -> dict[str, str]:
    """Look a word up in the almanac."""
    return {"entry": word.upper()}


TOOLS = """
defs:
  plot_memory: {{kind: memory, settings: {{definition_id: {plot}}}}}
  search: {{kind: tools, action: look_up, settings: {{}}}}
  {second}: {{kind: tools, action: forecast, settings: {{}}}}
  weather: {{kind: mcp, settings: {{}}}}
  primary: {{kind: model, settings: {{provider: openai}}}}
  answer:
    kind: task
    action: ai_agent
    inputs: {{prompt: "What now?"}}
    bindings: {{model: primary, memory: [plot_memory], tools: [search, {second}], mcp: [weather]}}
flow:
  - do: answer
"""


@action("radar")
def radar() -> str:
    """Show the rain."""
    return "none"


def test_48_tools_come_in_their_order_then_those_of_servers_then_memory_and_each_does_what_it_says(
    memory: Memory, define: Define, load: Load, scripted: Any, wants: Any
) -> None:
    text = TOOLS.format(plot=define("plot").id, second="sky")
    calls = (("search", {"word": "pea"}), ("sky", {"day": "Monday"}), ("radar", {}))
    model = scripted(wants(*calls, ("update_memory", {"memory": {"plot": {"n": 8}}})), "Sow.")
    flow = load(text, model=model, actions=[forecast, look_up], servers={"weather": [radar]})
    run = flow.run(owner="nora").check()
    assert [spec.name for spec in model.asked[0].tools] == ["search", "sky", "radar", "update_memory"]
    assert told(model) == [{"entry": "PEA"}, {"sky": "clear on Monday"}, "none", {"memory": {"plot": {"n": 8}}}]
    assert [one["failed"] for one in run.outputs["answer"]["tool_calls"]] == [False] * 4
    assert memory.scope(user="nora").value("plot") == {"n": 8}


def test_49_two_tools_of_one_name_are_refused_before_a_model_is_asked(
    define: Define, load: Load, scripted: Any
) -> None:
    """A tool of a server may have the name of one in the file; the list calls for a warning, we refuse."""
    text = TOOLS.format(plot=define("plot").id, second="radar")
    model = scripted("Sow.")
    options: dict[str, Any] = {"model": model, "actions": [forecast, look_up], "servers": {"weather": [radar]}}
    with pytest.raises(memoranda.MemorandaError, match="radar"):
        load(text, **options).run(owner="nora").check()
    assert model.asked == []
    load(text.replace("radar", "sky"), **options).run(owner="nora").check()
    assert len(model.asked) == 1


@pytest.mark.parametrize("name", ["ai_agent", "ai_generate_text", "ai_generate_reply"])
def test_50_mounted_memory_brings_the_heading_and_the_tool_with_the_schema_of_the_mounted_slugs(
    define: Define, keep: Keep, ask: Asking, scripted: Any, name: str
) -> None:
    plot = define("plot")
    define("not_mounted")
    keep({"plot": {"n": 4}, "not_mounted": {"n": 5}}).check()
    model = scripted("In March.")
    ask(model, plot, action=name).check()
    [spec] = model.asked[0].tools
    assert spec.name == "update_memory"
    memory_schema = spec.parameters["properties"]["memory"]
    assert list(memory_schema["properties"]) == ["plot"]
    assert memory_schema["properties"]["plot"]["properties"] == {"n": {"type": "integer"}}
    assert (spec.parameters["required"], memory_schema.get("required", [])) == (["memory"], [])
    assert "# Working Memory\n## Plot\n- N: 4" in model.asked[0].instructions
    assert "5" not in model.asked[0].instructions


def test_51_a_run_that_is_found_again_has_its_memory_as_it_stands_now(
    memory: Memory, define: Define, load: Load
) -> None:
    define("plot")
    text = """
    defs:
      hear: {kind: task, action: wait_for_reply}
    flow:
      - do: hear
    outputs: {seen: "=$context.memory"}
    """
    memory.scope(user="nora").set("plot", {"n": 1})
    flow = load(text, name="garden")
    run = flow.run(owner="nora", thread="t1")
    assert run.status == "waiting"
    assert run.context["memory"] == {"plot": {"n": 1}}
    memory.scope(user="nora").set("plot", {"n": 2})
    done = memoranda.workflow.find(memory, run.id).deliver("go on").check()
    assert done.output == {"seen": {"plot": {"n": 2}}}
    assert done.context["memory"] == {"plot": {"n": 2}}
    assert flow.find(run.id).context["memory"] == {"plot": {"n": 2}}


@pytest.mark.parametrize("name", AI)
def test_52_the_old_setting_memory_enabled_is_refused(load: Load, scripted: Any, name: str) -> None:
    shape = ", output_schema: {type: object, properties: {crop: {type: string}}}" if "object" in name else ""
    text = (
        "defs:\n  primary: {kind: model, settings: {provider: openai}}\n"
        f"  answer: {{kind: task, action: {name}, bindings: {{model: primary}}, "
        f"settings: {{memory_enabled: true{shape}}}}}\n"
        "flow: [{do: answer}]\n"
    )
    with pytest.raises(SourceError, match="memory_enabled") as caught:
        load(text, model=scripted("Peas."))
    assert "legacy_setting" in {one.code for one in caught.value.diagnostics}
    assert load(text.replace("memory_enabled: true, ", "").replace("memory_enabled: true", "")) is not None
