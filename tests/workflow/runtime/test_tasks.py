"""Tasks in sequence: their inputs, their outputs, and how the run uses them."""

from __future__ import annotations

from typing import Any

import pytest

import memoranda
from memoranda.api.memory import Memory
from memoranda.errors import InvalidScope, InvalidValue, MemorandaError, NotFound, SchemaViolation, UsageError
from memoranda.workflow.actions.base import Call
from memoranda.workflow.behaviour import Behaviour

# what a task gives


def test_tasks_are_done_in_order_and_see_what_came_before(load: Any, kitchen: Any) -> None:
    flow = load("""
    defs:
      knead: {kind: task, action: note, inputs: {flour: "=$input.flour", kind: rye}}
      bake: {kind: task, action: note, inputs: {grams: "=$output.knead.flour * 2", of: "=$output.knead.kind"}}
    flow:
      - do: knead
      - do: bake
    outputs:
      weight: "=$output.bake.grams"
      plan: {first: "=$output.knead", last: done}
    """)
    run = flow.run({"flour": 500}, owner="mira")
    assert run.status == "completed"
    assert kitchen.done == [{"flour": 500, "kind": "rye"}, {"grams": 1000, "of": "rye"}]
    assert run.outputs == {"knead": {"flour": 500, "kind": "rye"}, "bake": {"grams": 1000, "of": "rye"}}
    assert run.output == {"weight": 1000, "plan": {"first": {"flour": 500, "kind": "rye"}, "last": "done"}}
    assert (run.error, run.waiting, run.messages) == (None, None, [])
    assert run.input == {"flour": 500}
    assert (run.workflow, run.owner, run.thread) == ("workflow", "mira", None)
    assert run.check() is run


def test_without_outputs_a_run_gives_nothing(load: Any) -> None:
    flow = load("defs: {one: {kind: task, action: give, inputs: {value: 1}}}\nflow: [{do: one}]\n")
    run = flow.run(owner="mira")
    assert run.output == {}
    assert run.outputs == {"one": 1}


def test_a_flow_without_steps_completes(load: Any) -> None:
    flow = load("defs: {}\nflow: []\noutputs: {said: '=$input.text'}\n")
    run = flow.run({"text": "hello"}, owner="mira")
    assert (run.status, run.output, run.outputs) == ("completed", {"said": "hello"}, {})
    assert run.verify().ok


def test_doing_a_task_twice_replaces_its_output(load: Any) -> None:
    flow = load("""
    defs:
      rise: {kind: task, action: note, inputs: {n: "=$exists($output.rise) ? $output.rise.n + 1 : 1"}}
    flow: [{do: rise}, {do: rise}, {do: rise}]
    """)
    assert flow.run(owner="mira").outputs == {"rise": {"n": 3}}


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}, "=1+1", [None], {"a": None}, 1.5, "ü\u2028"])
def test_whatever_json_a_task_gives_is_its_output(load: Any, kitchen: Any, value: Any) -> None:
    kitchen.add("give", lambda call: value)
    flow = load("""
    defs:
      one: {kind: task, action: give}
      two: {kind: task, action: note, inputs: {seen: "=$output.one", there: "=$exists($output.one)"}}
    flow: [{do: one}, {do: two}]
    """)
    run = flow.run(owner="mira").check()
    assert run.outputs["one"] == value
    assert type(run.outputs["one"]) is type(value)
    assert kitchen.done == [{"seen": value, "there": True}]
    assert flow.find(run.id).outputs["one"] == value


def test_result_is_what_the_task_before_gave(load: Any, kitchen: Any) -> None:
    flow = load("""
    defs:
      first: {kind: task, action: note, inputs: {seen: "=$result", n: 1}}
      second: {kind: task, action: note, inputs: {seen: "=$result.n", n: 2}}
      third: {kind: task, action: note, inputs: {seen: "=$result.n"}}
    flow: [{do: first}, {do: second}, {do: third}]
    """)
    flow.run(owner="mira").check()
    assert kitchen.done == [{"n": 1}, {"seen": 1, "n": 2}, {"seen": 2}]


# what is not there


def test_what_is_undefined_is_absent_and_null_is_there(load: Any, kitchen: Any) -> None:
    flow = load("""
    defs:
      one:
        kind: task
        action: note
        inputs:
          gone: "=$input.no.such.path"
          nothing: null
          given: "=$input.nothing"
          listed: ["=$input.missing", 1, "=$input.nothing", {deep: "=$input.missing", kept: 2}]
    flow: [{do: one}]
    outputs: {gone: "=$output.one.gone", nothing: "=$output.one.nothing"}
    """)
    run = flow.run({"nothing": None}, owner="mira").check()
    assert kitchen.done == [{"nothing": None, "given": None, "listed": [1, None, {"kept": 2}]}]
    assert run.output == {"nothing": None}


def test_an_input_that_is_undefined_is_missing_where_it_is_required(load: Any) -> None:
    text = """
    defs: {say: {kind: task, action: send_text_message, inputs: {text: "=$input.line"}}}
    flow: [{do: say}]
    """
    assert load(text).run({"line": "hello"}, owner="mira").check().messages == ["hello"]
    failed = load(text).run({}, owner="mira")
    assert failed.status == "failed"
    assert (failed.error.type, failed.error.step) == ("schema_violation", "say")
    assert "text" in failed.error.message
    assert failed.messages == []


# text that looks like an expression


def test_text_from_outside_is_never_computed(load: Any, kitchen: Any, define: Any) -> None:
    define("diary", schema={"type": "object", "properties": {"line": {"type": "string"}}})
    kitchen.add("echo", lambda call: {"text": call.inputs["text"], "list": [call.inputs["text"]]})
    flow = load("""
    context: {first: "=$input.text"}
    defs:
      one: {kind: task, action: echo, inputs: {text: "=$input.text"}}
      two: {kind: task, action: note, inputs: {text: "=$output.one.text", ctx: "=$context.first", all: "=$output.one"}}
      keep: {kind: task, action: set_context, inputs: {values: "=$output.one"}}
      remember: {kind: task, action: update_memory, inputs: {memory: {diary: {line: "=$context.text"}}}}
      say: {kind: task, action: send_text_message, inputs: {text: "=$context.memory.diary.line"}}
      each: {kind: task, action: note, inputs: {item: "=$iteration.item", so_far: "=$accumulator"}}
    flow:
      - do: one
      - do: two
      - do: keep
      - do: remember
      - do: say
      - loop:
          type: for_each
          name: all
          for_each: {item: line, in: "=$output.one.list"}
          accumulate: {as: last, initial: "=$input.text", merge: "=$iteration.item"}
          steps: [{do: each}]
    outputs: {text: "=$output.all.last"}
    """)
    attack = "=1+1"
    run = flow.run({"text": attack}, owner="mira").check()
    assert kitchen.done == [
        {"text": attack, "ctx": attack, "all": {"text": attack, "list": [attack]}},
        {"item": attack, "so_far": attack},
    ]
    assert run.messages == [attack]
    assert run.output == {"text": attack}
    assert run.context["memory"] == {"diary": {"line": attack}}
    assert flow.run({"text": "plain"}, owner="mira").check().output == {"text": "plain"}


# context


def test_the_context_is_computed_from_the_input_and_changed_by_tasks(load: Any, kitchen: Any) -> None:
    flow = load("""
    context: {shop: "='Bakery ' & $input.street", open: true, tags: [new, "=$input.street"]}
    defs:
      before: {kind: task, action: note, inputs: {seen: "=$context.shop"}}
      rename: {kind: task, action: set_context, inputs: {values: {shop: Mill, more: {deep: [1]}}}}
      after: {kind: task, action: note, inputs: {seen: "=$context.shop", open: "=$context.open"}}
    flow: [{do: before}, {do: rename}, {do: after}]
    """)
    run = flow.run({"street": "Elm"}, owner="mira").check()
    assert kitchen.done == [{"seen": "Bakery Elm"}, {"seen": "Mill", "open": True}]
    expected = {"shop": "Mill", "open": True, "tags": ["new", "Elm"], "more": {"deep": [1]}, "memory": {}}
    assert run.context == expected
    assert flow.find(run.id).context == expected
    again = flow.run({"street": "Oak"}, owner="mira").check()
    assert again.context["tags"] == ["new", "Oak"]


def test_the_context_of_one_run_does_not_reach_the_next(load: Any, kitchen: Any) -> None:
    flow = load("""
    context: {list: [1]}
    defs:
      look: {kind: task, action: note, inputs: {ctx: "=$context.list", more: "=$context.more", out: "=$output.look"}}
      put: {kind: task, action: set_context, inputs: {values: {list: [1, 2], more: 3}}}
    flow: [{do: look}, {do: put}]
    """)
    flow.run(owner="mira").check()
    flow.run(owner="mira").check()
    assert kitchen.done == [{"ctx": [1]}, {"ctx": [1]}]


# before anything is recorded


CLOSED = """
inputs:
  schema:
    type: object
    properties: {loaves: {type: integer, minimum: 1}}
    required: [loaves]
    additionalProperties: false
defs: {one: {kind: task, action: note, inputs: {n: "=$input.loaves"}}}
flow: [{do: one}]
"""


@pytest.mark.parametrize("wrong", [{}, {"loaves": 0}, {"loaves": "3"}, {"loaves": 1, "more": 2}, {"loaves": None}])
def test_an_input_that_does_not_fit_is_refused_and_nothing_is_recorded(
    load: Any, memory: Memory, kitchen: Any, wrong: Any
) -> None:
    flow = load(CLOSED)
    before = memory.ledger.verify().length
    with pytest.raises(SchemaViolation) as caught:
        flow.run(wrong, owner="mira", thread="t1")
    assert caught.value.hint or caught.value.expected
    assert (memory.runs.list(), kitchen.done, memory.ledger.verify().length) == ([], [], before)
    assert flow.run({"loaves": 3}, owner="mira", thread="t1").check().outputs == {"one": {"n": 3}}
    assert memory.ledger.verify().length > before


@pytest.mark.parametrize("wrong", [{"x": {1, 2}}, {"x": float("nan")}, {1: "x"}, {"x": b"bytes"}, [1], "text", 5])
def test_an_input_that_is_no_json_object_is_refused_and_nothing_is_recorded(
    load: Any, memory: Memory, wrong: Any
) -> None:
    flow = load("defs: {}\nflow: []\n")
    with pytest.raises(UsageError):
        flow.run(wrong, owner="mira")
    assert memory.runs.list() == []
    assert flow.run({"x": [1]}, owner="mira").check().input == {"x": [1]}


@pytest.mark.parametrize("owner", ["", None, 7, " mira", "mi\nra", "x" * 1000])
def test_a_run_without_an_owner_is_refused(load: Any, memory: Memory, owner: Any) -> None:
    flow = load("defs: {}\nflow: []\n")
    with pytest.raises(InvalidScope):
        flow.run(owner=owner)
    assert memory.runs.list() == []
    assert flow.run(owner="mira").status == "completed"


@pytest.mark.parametrize("thread", ["", 7, "t\n1", "x" * 1000])
def test_a_thread_that_cannot_be_one_is_refused(load: Any, memory: Memory, thread: Any) -> None:
    flow = load("defs: {}\nflow: []\n")
    with pytest.raises(UsageError):
        flow.run(owner="mira", thread=thread)
    assert memory.runs.list() == []
    assert flow.run(owner="mira", thread="t1").thread == "t1"


def test_definitions_that_are_missing_are_all_named_and_nothing_is_recorded(
    load: Any, memory: Memory, define: Any
) -> None:
    gone = ["5c2e7f0a-9d41-4b7e-8a36-1f0c9b6d2e48", "0d6c1f5e-3b0b-4a57-9a3c-77b9f6f0a111"]
    there = define("oven", scope="workflow")
    text = """
    defs:
      a: {kind: memory, settings: {definition_id: %s}}
      b: {kind: memory, settings: {definition_id: %s}}
      c: {kind: memory, settings: {definition_id: %s}}
    flow: []
    """
    with pytest.raises(NotFound) as caught:
        load(text % (gone[0], there.id, gone[1])).run(owner="mira")
    assert all(id in str(caught.value) for id in gone)
    assert there.id not in str(caught.value)
    assert memory.runs.list() == []
    assert load(f"defs: {{c: {{kind: memory, settings: {{definition_id: {there.id}}}}}}}\nflow: []").run(owner="mira")


def test_a_stored_record_that_no_longer_fits_is_refused_or_skipped(
    load: Any, memory: Memory, define: Any, kitchen: Any
) -> None:
    bad, good = define("bad"), define("good")
    text = """
    defs:
      look: {kind: task, action: note, inputs: {seen: "=$context.memory"}}
      %s
    flow: [{do: look}]
    """
    named = text % f"bad: {{kind: memory, settings: {{definition_id: {bad.id}}}}}"
    owner = memory.scope(user="mira")
    owner.set("bad", {"n": 1})
    owner.set("good", {"n": 2})
    assert load(named).run(owner="mira").check().outputs["look"]["seen"] == {"bad": {"n": 1}, "good": {"n": 2}}
    tighter = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 5}}, "required": ["n"]}
    memory.definitions.update(bad.id, schema=tighter, stale="keep")
    runs = len(memory.runs.list())
    with pytest.raises(SchemaViolation) as caught:
        load(named).run(owner="mira")
    assert "bad" in (caught.value.slug, *str(caught.value).split("`"))
    assert len(memory.runs.list()) == runs
    for lenient in (load(named, behaviour=Behaviour(on_invalid="skip")), load(text % "")):
        run = lenient.run(owner="mira").check()
        assert run.outputs["look"]["seen"] == {good.slug: {"n": 2}}
        assert "bad" in str(run.events[0].detail)


# failures


def test_a_task_that_fails_ends_the_run_with_what_was_done_on_record(load: Any, kitchen: Any, memory: Memory) -> None:
    flow = load("""
    context: {shop: Mill}
    defs:
      knead: {kind: task, action: note, inputs: {n: 1}}
      say: {kind: task, action: send_text_message, inputs: {text: In the oven.}}
      set: {kind: task, action: set_context, inputs: {values: {hot: true}}}
      bake: {kind: task, action: burn, inputs: {why: the oven is cold}}
      sell: {kind: task, action: note, inputs: {n: 2}}
    flow: [{do: knead}, {do: say}, {do: set}, {do: bake}, {do: sell}]
    outputs: {n: "=$output.sell.n"}
    """)
    run = flow.run(owner="mira")
    assert run.status == "failed"
    assert run.output is None
    assert run.outputs == {"knead": {"n": 1}, "say": {"text": "In the oven."}, "set": {"hot": True}}
    assert run.context["hot"] is True
    assert run.messages == ["In the oven."]
    assert (run.error.type, run.error.step) == ("action_failed", "bake")
    assert "the oven is cold" in run.error.message
    assert kitchen.done == [{"n": 1}, {"burnt": "bake"}]
    with pytest.raises(memoranda.RunFailed) as caught:
        run.check()
    assert caught.value.run == run.id
    assert (caught.value.type, caught.value.step) == ("action_failed", "bake")
    found = flow.find(run.id)
    assert (found.status, found.outputs, found.error, found.messages) == (
        "failed",
        run.outputs,
        run.error,
        run.messages,
    )
    assert memory.runs.list()[0].status == "failed"
    assert run.verify().ok


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidValue("no value", path="$"), "invalid_value"),
        (NotFound("no such loaf"), "not_found"),
        (SchemaViolation("does not fit", path="$", expected="a loaf"), "schema_violation"),
        (memoranda.ActionFailed("too hot", type="heat"), "heat"),
        (memoranda.ActionFailed("too hot", type="error"), "action_failed"),
        (memoranda.ActionFailed("too hot"), "action_failed"),
        (KeyError("flour"), "action_failed"),
        (RecursionError("deep"), "action_failed"),
        (MemoryError(), "action_failed"),
        (StopIteration(), "action_failed"),
        (AssertionError(), "action_failed"),
        (TimeoutError("slow"), "action_failed"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, BaseException) else one,
)
def test_whatever_an_action_raises_is_a_failure_of_its_task(load: Any, kitchen: Any, error: Any, code: str) -> None:
    def act(call: Call) -> Any:
        raise error

    kitchen.add("burn", act)
    run = load("defs: {bake: {kind: task, action: burn}}\nflow: [{do: bake}]").run(owner="mira")
    assert run.status == "failed"
    assert (run.error.type, run.error.step) == (code, "bake")
    assert run.error.message
    assert run.verify().ok
    if isinstance(error, MemorandaError):
        assert error.message in run.error.message


def test_an_error_with_details_that_are_no_json_is_a_failure_all_the_same(load: Any, kitchen: Any) -> None:
    def act(call: Call) -> Any:
        raise memoranda.ActionFailed(
            "odd", type="error", about={1, 2}, call=call, self=act, n=float("nan"), deep=[[b"x"]], big="x" * 5_000_000
        )

    kitchen.add("burn", act)
    flow = load("defs: {bake: {kind: task, action: burn}}\nflow: [{do: bake}]")
    run = flow.run(owner="mira")
    assert (run.status, run.error.type, run.error.step) == ("failed", "action_failed", "bake")
    assert flow.find(run.id).error == run.error


def test_an_error_with_a_huge_message_is_kept_short(load: Any, kitchen: Any) -> None:
    def act(call: Call) -> Any:
        raise ValueError("x" * 5_000_000)

    kitchen.add("burn", act)
    flow = load("defs: {bake: {kind: task, action: burn}}\nflow: [{do: bake}]")
    run = flow.run(owner="mira")
    assert (run.status, run.error.type) == ("failed", "action_failed")
    assert len(run.error.message) < 100_000
    assert flow.find(run.id).status == "failed"


def test_an_error_that_cannot_be_shown_is_a_failure_all_the_same(load: Any, kitchen: Any) -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise ValueError("not even this")

    def act(call: Call) -> Any:
        raise Odd

    kitchen.add("burn", act)
    run = load("defs: {bake: {kind: task, action: burn}}\nflow: [{do: bake}]").run(owner="mira")
    assert (run.status, run.error.type, run.error.step) == ("failed", "action_failed", "bake")
    assert "Odd" in run.error.message


# names and loading


def test_a_workflow_is_called_as_its_file_or_as_one_says(load: Any, tmp_path: Any) -> None:
    text = "defs: {}\nflow: []\n"
    path = tmp_path / "night_shift.yaml"
    path.write_text(text)
    assert load(text).name == "workflow"
    assert load(text, name="morning").run(owner="mira").workflow == "morning"
    assert memoranda.workflow.load(path, memory=load(text).memory).name == "night_shift"
    assert memoranda.workflow.load(str(path), memory=load(text).memory).name == "night_shift"
    for wrong in ("", "night\nshift", "x" * 1000):
        with pytest.raises(UsageError):
            load(text, name=wrong)


def test_files_that_differ_after_a_dot_are_different_workflows_with_memory_of_their_own(
    memory: Memory, define: Any, tmp_path: Any
) -> None:
    text = f"""
defs:
  batches: {{kind: memory, settings: {{definition_id: {define("batches", scope="workflow").id}}}}}
  keep: {{kind: task, action: update_memory, inputs: {{memory: {{batches: "=$input"}}}}}}
flow: [{{do: keep}}]
outputs: {{batches: "=$context.memory.batches"}}
"""
    flows = []
    for name in ("oven.left.yaml", "oven.right.yml"):
        (tmp_path / name).write_text(text)
        flows.append(memoranda.workflow.load(tmp_path / name, memory=memory))
    assert [flow.name for flow in flows] == ["oven.left", "oven.right"]
    runs = [flow.run({"n": n}, owner="mira").check() for n, flow in enumerate(flows)]
    assert [run.output for run in runs] == [{"batches": {"n": 0}}, {"batches": {"n": 1}}]
    kept = [memory.scope(user="mira", workflow=flow.name).value("batches") for flow in flows]
    assert kept == [{"n": 0}, {"n": 1}]


def test_a_file_with_faults_is_refused_with_all_of_them(load: Any) -> None:
    with pytest.raises(memoranda.SourceError) as caught:
        load("defs: {a: {kind: task, action: note, inputs: {x: '=1 +'}}}\nflow: [{do: b}, {do: c}]\n")
    codes = {one.code for one in caught.value.diagnostics}
    assert {"unknown_task", "invalid_expression"} <= codes


def test_an_action_that_nobody_has_is_refused_at_load(load: Any) -> None:
    text = "defs: {a: {kind: task, action: nots}}\nflow: [{do: a}]\n"
    with pytest.raises(UsageError, match="nots"):
        load(text)
    load(text.replace("nots", "note")).run(owner="mira").check()
