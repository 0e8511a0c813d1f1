"""Each section of a workflow file is parsed, with its location and its path."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import memoranda.workflow
from memoranda.errors import NotFound, SourceError
from memoranda.workflow.document import Conditional, Do, Document, Expression, Fields, Items, Loop, Parallel, plain
from memoranda.workflow.parser import parse_document, read_source
from memoranda.workflow.runtime.plan import Policy, Retrying, policy_of

EVERYTHING = (Path(__file__).parent / "samples" / "everything.yaml").read_text()

SMALL = "defs:\n  a: {kind: task, action: send_text_message, inputs: {text: hi}}\nflow:\n  - do: a\n"


@pytest.fixture(scope="module")
def whole() -> Document:
    return parse_document(EVERYTHING)


def test_the_least_file_has_definitions_and_a_flow_and_no_outputs() -> None:
    document = parse_document(SMALL)
    assert [one.name.text for one in document.defs] == ["a"]
    assert [step.task.text for step in document.flow if isinstance(step, Do)] == ["a"]
    assert document.outputs is None and document.schema is None and document.context is None


def test_tasks_have_an_action_inputs_bindings_and_settings(whole: Document) -> None:
    task = whole.find("diagnose")
    assert task is not None and task.kind is not None and task.action is not None and task.description is not None
    assert (task.kind.text, task.action.text, task.description.text) == ("task", "ai_agent", "Finds out what is wrong.")
    assert plain(task.inputs) == {
        "input_mode": "history",
        "messages_limit": 6,
        "system": "You repair bicycles.\nAsk when you are not sure.\n",
    }
    assert {one.kind.text: ([name.text for name in one.names], one.listed) for one in task.bindings} == {
        "model": (["mechanic"], False),
        "memory": (["rider_memory"], True),
        "tools": (["parts_list"], True),
        "mcp": (["catalogue"], True),
    }
    assert task.settings is not None and task.settings.timeout_ms == 0
    assert plain(task.settings.others) == {"stop_step_count": 5}


def test_memories_and_models_have_settings(whole: Document) -> None:
    memory, model = whole.find("rider_memory"), whole.find("mechanic")
    assert memory is not None and memory.settings is not None and model is not None and model.settings is not None
    assert plain(memory.settings.others) == {"definition_id": "7d1f2a90-3c5b-4e8d-9f60-a1b2c3d4e5f6"}
    assert isinstance(model.settings.others, Fields)
    assert model.settings.others.find("provider") is not None and model.settings.others.find("nobody") is None


def test_steps_run_one_after_the_other_at_once_by_condition_and_again(whole: Document) -> None:
    do, parallel, first, second, each, loop = whole.flow
    assert isinstance(do, Do) and do.task.text == "say_hello"
    assert isinstance(parallel, Parallel) and (parallel.strategy, len(parallel.steps)) == ("wait_any", 2)
    assert isinstance(first, Conditional) and isinstance(second, Conditional)
    assert isinstance(each, Loop) and isinstance(loop, Loop)
    assert (each.type, loop.type) == ("for_each", "while")
    assert each.name is not None and each.item is not None and each.accumulate is not None
    assert (each.name.text, each.item.text, each.max_concurrency) == ("prices", "bike", 2)
    assert (plain(each.items), plain(each.until)) == ("=$input.bikes", "=$accumulator > 100")
    assert (each.accumulate.name.text, plain(each.accumulate.initial)) == ("total", 0)
    assert plain(loop.test) == "=$not($exists($output.write_down))" and loop.items is None


ELSES = {
    "an item that is marked": "when: [{condition: =true, steps: [{do: a}]}, {else: true, steps: [{do: b}]}]",
    "an item that holds a list": "when: [{condition: =true, steps: [{do: a}]}, {else: [{do: b}]}]",
    "an item that holds steps": "when: [{condition: =true, steps: [{do: a}]}, {else: {steps: [{do: b}]}}]",
    "an item without a condition": "when: [{condition: =true, steps: [{do: a}]}, {steps: [{do: b}]}]",
    "a sibling that holds a list": "when: [{condition: =true, steps: [{do: a}]}]\n      else: [{do: b}]",
    "a sibling that holds steps": "when: [{condition: =true, steps: [{do: a}]}]\n      else: {steps: [{do: b}]}",
}


@pytest.mark.parametrize("name", ELSES)
def test_an_else_is_the_last_branch_however_it_is_written(name: str) -> None:
    document = parse_document(f"{SMALL}  - conditional:\n      {ELSES[name]}\n")
    step = document.flow[1]
    assert isinstance(step, Conditional)
    assert [plain(branch.condition) for branch in step.branches] == ["=true", None]
    assert [[one.task.text for one in branch.steps if isinstance(one, Do)] for branch in step.branches] == [
        ["a"],
        ["b"],
    ]


def test_a_text_is_computed_where_it_begins_with_the_sign_and_only_where_values_are_computed(whole: Document) -> None:
    task = whole.find("price_one")
    assert task is not None and task.inputs is not None
    values = task.inputs.find("values")
    assert values is not None and isinstance(values.value, Fields)
    lines = values.value.find("lines")
    assert lines is not None and isinstance(lines.value, Items)
    assert [isinstance(item, Expression) for item in lines.value.items] == [True, False, False]
    assert whole.schema is not None
    note = plain(whole.schema)["properties"]["note"]  # type: ignore[index]
    assert note["description"] == "=not computed"
    assert not any(isinstance(entry.value, Expression) for entry in whole.schema.entries)


def test_white_space_before_the_sign_keeps_a_text_a_text() -> None:
    document = parse_document(SMALL.replace("text: hi", 'text: " =1+1"'))
    assert plain(document.defs[0].inputs) == {"text": " =1+1"}
    computed = parse_document(SMALL.replace("text: hi", 'text: "=1+1"')).defs[0].inputs
    assert computed is not None and isinstance(computed.entries[0].value, Expression)


def test_parts_know_their_path_in_the_file(whole: Document) -> None:
    task, loop = whole.find("write_down"), whole.flow[4]
    assert task is not None and task.inputs is not None and isinstance(loop, Loop) and loop.accumulate is not None
    card = task.inputs.entries[0].value
    assert isinstance(card, Fields) and isinstance(card.entries[0].value, Fields)
    assert card.entries[0].value.entries[1].path == "defs.write_down.inputs.memory.rider_card.visits"
    assert loop.accumulate.path == "flow[4].loop.accumulate"
    assert loop.steps[0].path == "flow[4].loop.steps[0]"


def test_files_that_say_the_same_are_equal_wherever_it_stands() -> None:
    moved = "# a comment\n\n" + SMALL.replace("  - do: a", "      - do:    a")
    assert parse_document(moved) == parse_document(SMALL)
    assert parse_document(SMALL.replace("hi", "ho")) != parse_document(SMALL)


def test_settings_of_a_task_come_before_those_of_all_tasks_and_those_before_the_defaults(whole: Document) -> None:
    def holds(name: str) -> Policy:
        task = whole.find(name)
        assert task is not None
        return policy_of(whole.defaults, task.settings)

    everywhere = Retrying(enabled=True, max_attempts=4, backoff_ms=50, max_delay_ms=2000, jitter=0.2, multiplier=2)
    assert holds("say_hello") == Policy(timeout_ms=20000, retries=everywhere)
    assert holds("diagnose") == Policy(timeout_ms=0, retries=msgspec.structs.replace(everywhere, enabled=False))
    assert policy_of(None, None) == Policy(
        timeout_ms=0,
        retries=Retrying(enabled=False, max_attempts=3, backoff_ms=25, max_delay_ms=10000, jitter=0, multiplier=1),
    )


def test_a_file_is_given_as_text_or_as_its_path(tmp_path: Path) -> None:
    path = tmp_path / "small.yml"
    path.write_text(SMALL)
    assert memoranda.workflow.parse(path) == memoranda.workflow.parse(str(path)) == memoranda.workflow.parse(SMALL)
    assert memoranda.workflow.check(path) == memoranda.workflow.check(SMALL) == ()
    with pytest.raises(NotFound, match="does not exist"):
        memoranda.workflow.parse(tmp_path / "nobody.yaml")
    path.write_text(SMALL.replace("flow", "flew"))
    with pytest.raises(SourceError, match=r"small\.yml:3:1.*not a key of a workflow"):
        memoranda.workflow.parse(path)


def test_the_nodes_of_the_file_come_with_what_was_read() -> None:
    reading = read_source(SMALL)
    assert reading.lines is not None and reading.lines.entries is not None
    assert [key.scalar for key, _ in reading.lines.entries] == ["defs", "flow"]
    assert read_source("").lines is None
