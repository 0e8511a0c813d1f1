"""Claims T1 to T20 of the checklist, through whole runs; T1 and T2 on the original texts are in `test_originals`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda.api.memory import Memory
from memoranda.errors import InvalidKey, NotFound, SchemaViolation, SourceError
from memoranda.model.definition import Definition
from memoranda.runs.records import load_memory, sweep_expired
from memoranda.testing import FakeClock
from memoranda.workflow import Behaviour, Run, action

Define = Callable[..., Definition]
Load = Callable[..., Any]
Keep = Callable[..., Run]
Look = Callable[..., dict[str, Any]]
Asking = Callable[..., Run]

PLOT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "main_crop": {"type": "string"},
        "beds": {"type": "integer"},
        "tools": {"type": "array", "items": {"type": "string"}},
        "fence": {"type": "object", "properties": {"wood": {"type": "string"}}},
    },
}


def failure(run: Run) -> str:
    assert run.status == "failed"
    assert run.error is not None
    assert run.verify().ok
    return run.error.type


# --- T1, T2: samples and the prompt -----------------------------------------------------------------------------

ANSWER = """
defs:
  plot_memory:
    kind: memory
    description: What is known about the gardener's plot.
    settings:
      definition_id: {plot}

  primary:
    kind: model
    settings:
      provider: openai
      model_id: gpt-5.2

  answer:
    kind: task
    action: ai_generate_reply
    inputs:
      input_mode: history
      messages_limit: 2
      system: "You help gardeners. Use what you remember."
    bindings:
      model: primary
      memory:
        - plot_memory

flow:
  - do: answer
"""
GREET = """
defs:
  greet:
    kind: task
    action: send_text_message
    inputs:
      text: "='Good day, grower of ' & ($context.memory.plot.main_crop ? $context.memory.plot.main_crop : 'anything')"

flow:
  - do: greet
"""


def test_t1_workflows_with_definitions_and_a_flow_alone_are_valid_and_run(
    memory: Memory, define: Define, load: Load, scripted: Any
) -> None:
    text = ANSWER.format(plot=define("plot", schema=PLOT).id)
    for one in (text, GREET):
        assert [said for said in memoranda.workflow.check(one) if said.severity == "error"] == []
    model = scripted("In March.", "In May.")
    flow = load(text, model=model)
    assert flow.run({"text": "When do I sow peas?"}, owner="nora", thread="t1").check().output == {}
    run = flow.run({"text": "And beans?"}, owner="nora", thread="t1").check()
    assert run.outputs["answer"]["text"] == "In May."
    assert [said.text for said in model.asked[0].messages] == ["When do I sow peas?"]
    assert [said.text for said in model.asked[1].messages] == ["When do I sow peas?", "And beans?"]
    assert load(GREET).run(owner="nora").check().messages == ["Good day, grower of anything"]
    memory.scope(user="nora").set("plot", {"main_crop": "leeks"})
    assert load(GREET).run(owner="nora").check().messages == ["Good day, grower of leeks"]


def test_t2_what_is_remembered_stands_below_the_instruction_word_for_word(
    memory: Memory, define: Define, ask: Asking, scripted: Any
) -> None:
    plot = define("plot", schema=PLOT)
    memory.scope(user="nora").set("plot", {"tools": ["spade", "rake"], "beds": 3, "main_crop": "leeks"})
    model = scripted("In March.")
    ask(model, plot).check()
    assert model.asked[0].instructions == (
        'Answer briefly.\n\n# Working Memory\n## Plot\n- Main crop: leeks\n- Beds: 3\n- Tools: ["spade","rake"]'
    )


# --- T3 to T7: what a record is ---------------------------------------------------------------------------------


def test_t3_a_write_replaces_the_record_and_what_is_not_sent_is_gone(define: Define, keep: Keep, look: Look) -> None:
    define("plot", schema=PLOT)
    define("merged", schema=PLOT, mode="merge")
    for slug in ("plot", "merged"):
        keep({slug: {"main_crop": "leeks", "beds": 3}}).check()
        keep({slug: {"beds": 4}}).check()
    assert look() == {"plot": {"beds": 4}, "merged": {"main_crop": "leeks", "beds": 4}}


def test_t4_two_owners_are_apart_and_one_owner_is_the_same_in_two_workflows(
    define: Define, keep: Keep, look: Look
) -> None:
    define("plot")
    keep({"plot": {"n": 1}}, owner="nora", name="garden").check()
    assert look(owner="otto", name="garden") == {}
    keep({"plot": {"n": 2}}, owner="otto", name="garden").check()
    assert look(owner="nora", name="market") == {"plot": {"n": 1}}
    assert look(owner="otto", name="market") == {"plot": {"n": 2}}


def test_t5_records_of_a_workflow_are_shared_by_its_runs_and_hidden_from_other_workflows(
    keep: Keep, look: Look, scoped: list[Definition]
) -> None:
    keep({"season": {"n": 1}}, *scoped, thread="t1").check()
    assert look(*scoped) == {"season": {"n": 1}}
    assert look(*scoped, name="market") == {}
    assert look(*scoped, owner="otto") == {}


def test_t5_records_of_a_thread_are_shared_by_workflows_and_hidden_from_other_threads(
    keep: Keep, look: Look, scoped: list[Definition]
) -> None:
    keep({"gossip": {"n": 1}}, *scoped, thread="t1").check()
    assert look(*scoped, thread="t1", name="market") == {"gossip": {"n": 1}}
    assert look(*scoped, thread="t2") == {}
    assert look(*scoped) == {}
    assert look(*scoped, thread="t1", owner="otto") == {}


ERRAND = """
defs:
  errand_memory: {{kind: memory, settings: {{definition_id: {errand}}}}}
  note: {{kind: task, action: update_memory, inputs: {{memory: {{errand: {{n: "=$input.n"}}}}}}}}
  hear: {{kind: task, action: wait_for_reply}}
  fail: {{kind: task, action: update_memory, inputs: {{memory: {{errand: {{n: "=$output.hear.text"}}}}}}}}
flow:
  - do: note
  - do: hear
  - conditional:
      when:
        - condition: "=$output.hear.text = 'fail'"
          steps: [{{do: fail}}]
outputs: {{seen: "=$context.memory"}}
"""


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_t5_records_of_a_run_are_kept_over_a_pause_hidden_from_the_next_and_go_with_the_run(
    memory: Memory, load: Load, scoped: list[Definition], end: str
) -> None:
    flow = load(ERRAND.format(errand=scoped[3].id), name="garden")
    run, other = flow.run({"n": 1}, owner="nora"), flow.run({"n": 2}, owner="nora")
    assert (run.status, other.status) == ("waiting", "waiting")
    assert memory.scope(user="nora", run=run.id).value("errand") == {"n": 1}
    assert (run.context["memory"], other.context["memory"]) == ({"errand": {"n": 1}}, {"errand": {"n": 2}})
    again = memoranda.workflow.find(memory, run.id)
    done = again.cancel(reason="done") if end == "cancelled" else again.deliver("fail" if end == "failed" else "on")
    assert done.status == end
    if end == "completed":
        assert done.output == {"seen": {"errand": {"n": 1}}}
    assert memory.scope(user="nora", run=run.id).get("errand") is None
    assert memory.scope(user="nora", run=run.id).history("errand") == []
    assert memory.scope(user="nora", run=other.id).value("errand") == {"n": 2}


def test_t6_a_record_is_gone_at_exactly_its_end_and_a_write_begins_its_time_anew(
    memory: Memory, clock: FakeClock, define: Define, keep: Keep, look: Look
) -> None:
    define("frost", ttl=60)
    define("plot")
    keep({"frost": {"n": 1}, "plot": {"n": 1}}).check()
    clock.advance(59)
    keep({"frost": {"n": 2}}).check()
    clock.advance(59.999)
    assert sweep_expired(memory) == {}
    assert look() == {"frost": {"n": 2}, "plot": {"n": 1}}
    clock.advance(0.001)
    assert look() == {"plot": {"n": 1}}
    assert sweep_expired(memory) == {"frost": 1}
    assert sweep_expired(memory) == {}
    clock.advance(86_400 * 365)
    assert look() == {"plot": {"n": 1}}


def test_t7_a_write_after_the_end_makes_one_record_without_old_fields(
    memory: Memory, clock: FakeClock, define: Define, keep: Keep, look: Look
) -> None:
    define("plot", schema=PLOT, ttl=60, mode="merge")
    keep({"plot": {"main_crop": "leeks"}}).check()
    clock.advance(60)
    keep({"plot": {"beds": 3}}).check()
    assert look() == {"plot": {"beds": 3}}
    assert len(memory.definitions.records("plot")) == 1
    keep({"plot": {"main_crop": "peas"}}).check()
    assert look() == {"plot": {"beds": 3, "main_crop": "peas"}}


# --- T8 to T11: in which order a write is checked ---------------------------------------------------------------


@pytest.mark.parametrize("bad", [{"main_crop": "leeks", "pond": 1}, {"fence": {"wood": "oak", "height": 2}}])
def test_t8_a_property_that_the_schema_does_not_list_is_refused_and_a_nested_one_too(
    define: Define, keep: Keep, look: Look, bad: Any
) -> None:
    define("plot", schema=PLOT)
    assert failure(keep({"plot": bad})) == "schema_violation"
    assert look() == {}
    keep({"plot": {"fence": {"wood": "oak"}}}).check()
    assert look() == {"plot": {"fence": {"wood": "oak"}}}


def test_t9_a_bad_slug_is_told_before_an_unknown_one(memory: Memory, define: Define, keep: Keep) -> None:
    define("plot")
    run = keep({"nobody": {}, "bad-slug": {}})
    assert failure(run) == "schema_violation"
    assert run.error is not None and "bad-slug" in run.error.message
    assert failure(keep({"nobody": {}})) == "not_found"
    with pytest.raises(InvalidKey):
        load_memory(memory, owner="nora").write({"nobody": {}, "bad-slug": {}})


def test_t10_an_unknown_slug_is_told_before_a_value_that_does_not_fit(define: Define, keep: Keep) -> None:
    define("plot")
    assert failure(keep({"plot": {"n": "wrong"}, "nobody": {"n": 1}})) == "not_found"
    assert failure(keep({"plot": {"n": "wrong"}})) == "schema_violation"
    assert keep({"plot": {"n": 1}}).check().status == "completed"


def test_t11_a_definition_of_another_scope_is_unknown_until_it_is_named_and_a_global_one_is_known(
    keep: Keep, scoped: list[Definition]
) -> None:
    for slug, definition in zip(("season", "gossip", "errand"), scoped[1:], strict=True):
        assert failure(keep({slug: {"n": 1}}, thread="t1")) == "not_found"
        assert keep({slug: {"n": 1}}, definition, thread="t1").check().status == "completed"
    assert keep({"plot": {"n": 1}}).check().status == "completed"


# --- T12, T13: expressions --------------------------------------------------------------------------------------


def test_t12_what_is_missing_takes_the_other_way_and_exists_says_so(memory: Memory, define: Define, load: Load) -> None:
    define("plot", schema=PLOT)
    flow = load("""
    defs:
      say:
        kind: task
        action: set_context
        inputs:
          values:
            crop: "=$context.memory.plot.main_crop ? $context.memory.plot.main_crop : 'nothing'"
            known: "=$exists($context.memory.plot)"
            bare: "=$context.memory.plot.main_crop"
    flow:
      - conditional:
          when:
            - condition: "=$context.memory.plot.main_crop"
              steps: [{do: say}]
            - else:
              steps: [{do: say}, {do: say}]
    outputs: {crop: "=$context.crop", known: "=$context.known", bare: "=$context.bare"}
    """)
    without = flow.run(owner="nora").check()
    assert without.output == {"crop": "nothing", "known": False}
    assert [event.step for event in without.events].count("say") == 2
    memory.scope(user="nora").set("plot", {"beds": 2})
    assert flow.run(owner="nora").check().output == {"crop": "nothing", "known": True}
    memory.scope(user="nora").set("plot", {"main_crop": "peas"})
    with_one = flow.run(owner="nora").check()
    assert with_one.output == {"crop": "peas", "known": True, "bare": "peas"}
    assert [event.step for event in with_one.events].count("say") == 1


def test_t13_a_later_step_sees_the_write_of_an_earlier_one(define: Define, load: Load, keep: Keep) -> None:
    define("plot")
    keep({"plot": {"n": 1}}).check()
    run = (
        load("""
    defs:
      more: {kind: task, action: update_memory, inputs: {memory: {plot: {n: "=$context.memory.plot.n + 1"}}}}
      say: {kind: task, action: send_text_message, inputs: {text: "=$string($context.memory.plot.n)"}}
    flow:
      - do: say
      - do: more
      - do: say
      - do: more
      - do: say
    """)
        .run(owner="nora")
        .check()
    )
    assert run.messages == ["1", "2", "3"]


# --- T14, T15: models -------------------------------------------------------------------------------------------


def test_t14_a_model_cannot_write_a_global_record_that_is_not_mounted(
    memory: Memory, define: Define, keep: Keep, ask: Asking, scripted: Any, wants: Any
) -> None:
    plot = define("plot")
    define("other")
    keep({"other": {"n": 1}}).check()
    both = {"memory": {"plot": {"n": 7}, "other": {"n": 7}}}
    model = scripted(wants(("update_memory", both)), wants(("update_memory", {"memory": {"plot": {"n": 7}}})), "Noted.")
    run = ask(model, plot).check()
    assert [one["failed"] for one in run.outputs["answer"]["tool_calls"]] == [True, False]
    assert "other" in model.asked[1].messages[-1].text
    assert run.context["memory"] == {"plot": {"n": 7}, "other": {"n": 1}}
    assert memory.scope(user="nora").value("other") == {"n": 1}


def test_t15_without_a_call_nothing_is_written(
    memory: Memory, define: Define, ask: Asking, scripted: Any, wants: Any
) -> None:
    plot = define("plot")
    said = 'I called update_memory({"memory": {"plot": {"n": 7}}}) for you.'
    ask(scripted(said), plot).check()
    assert memory.definitions.records("plot") == []
    ask(scripted(wants(("update_memory", {"memory": {"plot": {"n": 7}}})), "Noted."), plot).check()
    assert [one.value for one in memory.definitions.records("plot")] == [{"n": 7}]


# --- T16 to T18: definitions that change ------------------------------------------------------------------------


def test_t16_a_stored_record_that_no_longer_fits_keeps_a_run_from_beginning_with_its_slug_and_id(
    memory: Memory, define: Define, keep: Keep, look: Look
) -> None:
    plot = define("plot", schema={"type": "object", "properties": {"n": {}}})
    define("other")
    keep({"plot": {"n": "many"}, "other": {"n": 1}}).check()
    kept = memory.scope(user="nora").get("plot")
    assert kept is not None
    stricter = {"type": "object", "properties": {"n": {"type": "integer"}}}
    memory.definitions.update("plot", schema=stricter, stale="keep")
    before = len(memory.runs.list())
    with pytest.raises(SchemaViolation) as caught:
        keep({}, plot)
    assert (caught.value.slug, caught.value.id) == ("plot", kept.id)
    assert "plot" in str(caught.value) and kept.id in str(caught.value)
    assert len(memory.runs.list()) == before

    # One that does not name it is not stopped, and neither is one that skips what does not fit.
    for skipping in (keep({}).check(), keep({}, plot, behaviour=Behaviour(on_invalid="skip")).check()):
        assert skipping.context["memory"] == {"other": {"n": 1}}
        assert "plot" in str(skipping.events[0].detail), "what was left out is on record"
        assert "many" not in str(skipping.events[0].detail)
    assert keep({"plot": {"n": 2}}, behaviour=Behaviour(on_invalid="skip")).check().status == "completed"
    assert look() == {"plot": {"n": 2}, "other": {"n": 1}}


def test_t17_another_name_is_another_heading_and_nothing_else(
    memory: Memory, define: Define, keep: Keep, look: Look, ask: Asking, scripted: Any
) -> None:
    plot = define("plot")
    keep({"plot": {"n": 1}}).check()
    model = scripted("Yes.", "Yes.")
    ask(model, plot).check()
    memory.definitions.update("plot", name="Patch of land")
    ask(model, plot).check()
    shown = [asked.instructions.partition("\n\n")[2] for asked in model.asked]
    assert shown == ["# Working Memory\n## Plot\n- N: 1", "# Working Memory\n## Patch of land\n- N: 1"]
    assert look(plot) == {"plot": {"n": 1}}


def test_t18_a_deleted_definition_takes_its_records_and_a_workflow_that_names_it_does_not_begin(
    memory: Memory, keep: Keep, look: Look, scoped: list[Definition]
) -> None:
    keep({"plot": {"n": 1}, "season": {"n": 2}}, *scoped).check()
    assert memory.definitions.delete("season") == 1
    assert memory.scope(user="nora", workflow="garden").get("season") is None
    before = memory.ledger.anchor()
    with pytest.raises(NotFound, match=scoped[1].id):
        look(*scoped)
    assert memory.ledger.anchor() == before
    assert look(scoped[0], scoped[3]) == {"plot": {"n": 1}}


# --- T19, T20: traps --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["=1+1", "='a' & 'b'", "=$context", "=$input.secret", "= (((", "=", "==1"])
def test_t19_text_that_comes_in_is_never_computed(
    memory: Memory, define: Define, load: Load, scripted: Any, text: str
) -> None:
    define("note", schema={"type": "object", "properties": {"text": {"type": "string"}, "list": {"type": "array"}}})
    seen: list[Any] = []

    @action("watch")
    def watch(text: str, nested: list[dict[str, str]]) -> dict[str, Any]:
        """Keep what it is given."""
        seen.append((text, nested))
        return {"text": text}

    flow = load(
        """
        context: {first: "=$input.text"}
        defs:
          primary: {kind: model, settings: {provider: openai}}
          watch: {kind: task, action: watch, inputs: {text: "=$input.text", nested: "=[{'t': $input.text}]"}}
          note:
            kind: task
            action: update_memory
            inputs: {memory: {note: {text: "=$output.watch.text", list: ["=$input.text"]}}}
          put: {kind: task, action: set_context, inputs: {values: {second: "=$context.memory.note.text"}}}
          answer:
            kind: task
            action: ai_generate_text
            inputs: {prompt: "=$context.second"}
            bindings: {model: primary}
          say: {kind: task, action: send_text_message, inputs: {text: "=$output.answer.text"}}
        flow:
          - do: watch
          - do: note
          - do: put
          - do: answer
          - do: say
          - loop:
              type: for_each
              name: each
              for_each: {item: one, in: "=[$input.text]"}
              accumulate: {as: all, initial: [], merge: "=$append($accumulator, $iteration.item)"}
              steps: [{do: watch}]
        outputs: {first: "=$context.first", second: "=$context.second", each: "=$output.each.all", plain: "=1+1"}
        """,
        actions=[watch],
        model=scripted(text),
    )
    run = flow.run({"text": text, "secret": "s3cret"}, owner="nora", thread="t1").check()
    assert seen == [(text, [{"t": text}])] * 2
    assert memory.scope(user="nora").value("note") == {"text": text, "list": [text]}
    assert run.messages == [text]
    each = run.output["each"]
    assert (each if isinstance(each, list) else [each]) == [text]
    assert (run.output["first"], run.output["second"]) == (text, text)
    assert run.output["plain"] == 2, "what the file itself writes is computed"


RESERVED = """
defs:
  plot_memory: {{kind: memory, settings: {{definition_id: {plot}}}}}
  primary: {{kind: model, settings: {{provider: openai}}}}
  {tool}: {{kind: tools, action: set_context, settings: {{}}}}
  answer:
    kind: task
    action: ai_agent
    inputs: {{prompt: "What now?"}}
    bindings: {{model: primary, memory: [{mounted}], tools: [{tool}]}}
flow:
  - do: answer
"""


def test_t20_a_tool_named_update_memory_beside_mounted_memory_is_refused_with_its_place(
    define: Define, load: Load, scripted: Any
) -> None:
    plot = define("plot").id
    both = RESERVED.format(plot=plot, tool="update_memory", mounted="plot_memory")
    with pytest.raises(SourceError) as caught:
        load(both, model=scripted("Sow."))
    [said] = [one for one in caught.value.diagnostics if one.severity == "error"]
    assert (said.code, said.path) == ("reserved_tool", "defs.answer.bindings.tools[0]")
    for tool, mounted in (("update_plot", "plot_memory"), ("update_memory", "")):
        text = RESERVED.format(plot=plot, tool=tool, mounted=mounted)
        assert load(text, model=scripted("Sow.")).run(owner="nora").check().status == "completed"


# --- on a file --------------------------------------------------------------------------------------------------


def test_what_a_workflow_keeps_is_there_when_the_file_is_opened_again(tmp_path: Path, clock: FakeClock) -> None:
    task = '{kind: task, action: update_memory, inputs: {memory: {plot: {n: "=$input.n"}}}}'
    text = f"defs:\n  keep: {task}\nflow: [{{do: keep}}]\n"
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    with memoranda.open(tmp_path / "m.db", clock=clock) as memory:
        memory.definitions.create(name="Plot", slug="plot", schema=schema)
        id = memoranda.workflow.load(text, memory=memory, name="garden").run({"n": 1}, owner="nora").check().id
    with memoranda.open(tmp_path / "m.db", clock=clock) as memory:
        found = memoranda.workflow.find(memory, id)
        assert (found.status, found.workflow, found.owner, found.input) == ("completed", "garden", "nora", {"n": 1})
        assert found.outputs == {"keep": {"memory": {"plot": {"n": 1}}}}
        assert found.verify().ok
        flow = memoranda.workflow.load(text, memory=memory, name="garden")
        assert flow.run({"n": 2}, owner="nora").check().context["memory"] == {"plot": {"n": 2}}
        assert all(finding.ok for finding in memory.inspect())
