"""Each rule of the checker reports its fault at the right location, and accepts the same workflow without the fault.

The cases are in `samples/`: a title, the code and the words under the caret, a part of the message and of the hint,
the path, and the workflow. `«wrong¦right»` gives the wording for the faulty and for the correct workflow.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

import memoranda.workflow
from memoranda.lang.diagnostics import Diagnostic
from memoranda.workflow.actions.base import Call, action
from memoranda.workflow.checker.check import check_source
from memoranda.workflow.parser import PathDiagnostic

SAMPLES = Path(__file__).parent / "samples"
EVERYTHING = Path(__file__).parents[1] / "parser" / "samples" / "everything.yaml"
_CHOICE = re.compile("«([^¦»]*)¦([^»]*)»")


class Case(msgspec.Struct, frozen=True):
    """A workflow with a fault and without it, and what is to be said."""

    code: str
    at: str
    says: str
    hint: str
    path: str
    text: str

    def file(self, *, wrong: bool) -> str:
        return _CHOICE.sub(r"\1" if wrong else r"\2", self.text)


def cases(name: str) -> dict[str, Case]:
    parts = re.split(r"^=== (.+)\n", (SAMPLES / name).read_text(), flags=re.MULTILINE)
    return {title: _case(body) for title, body in zip(parts[1::2], parts[2::2], strict=True)}


def _case(body: str) -> Case:
    head, _, text = body.partition("---\n")
    said = dict(line.split(" ", 1) for line in head.splitlines()[1:])
    code, _, at = head.partition("\n")[0].partition(" at ")
    return Case(code, at, said["says"], said["hint"], said["path"], text)


ERRORS, WARNINGS, NOTES = cases("errors.txt"), cases("warnings.txt"), cases("notes.txt")


def found(text: str) -> list[Diagnostic]:
    _, _, diagnostics = check_source(text, name="garden.yaml")
    assert {one.source for one in diagnostics} <= {"garden.yaml"}
    return list(diagnostics)


def judge(case: Case, severity: str) -> None:
    text = case.file(wrong=True)
    (one,) = found(text)
    assert (one.code, one.severity) == (case.code, severity)
    assert text[one.span.start : one.span.end] == case.at
    assert case.says in one.message
    assert case.hint in one.hint
    assert isinstance(one, PathDiagnostic)
    assert (one.path, f"`{case.path}`" in one.message) == (case.path, True)
    assert found(case.file(wrong=False)) == []


@pytest.mark.parametrize("title", ERRORS)
def test_a_fault_is_found_and_the_workflow_without_it_has_nothing_to_say(title: str) -> None:
    judge(ERRORS[title], "error")


@pytest.mark.parametrize("title", WARNINGS)
def test_a_doubt_is_said_and_the_workflow_without_it_has_nothing_to_say(title: str) -> None:
    judge(WARNINGS[title], "warning")


@pytest.mark.parametrize("title", NOTES)
def test_what_is_good_to_know_is_noted_and_the_workflow_without_it_has_nothing_to_say(title: str) -> None:
    judge(NOTES[title], "note")


def test_a_workflow_with_every_word_has_nothing_to_say() -> None:
    assert memoranda.workflow.check(EVERYTHING) == ()


def test_an_action_that_a_program_registers_is_checked_by_its_own_schemas() -> None:
    schema = {"type": "object", "properties": {"bed": {"type": "integer"}}, "additionalProperties": False}

    @action("water_bed", inputs={**schema, "required": ["bed"]}, bindings=["memory"])
    def water_bed(call: Call) -> int:
        """Water a bed."""
        return call.inputs["bed"]

    text = (
        "defs:\n"
        "  plants: {kind: memory, settings: {definition_id: 0f6c1d2e-5a3b-4c7d-8e9f-001122334455}}\n"
        "  water: {kind: task, action: water_bed, inputs: {bed: 3}, bindings: {memory: [plants]}}\n"
        "flow: [{do: water}]\n"
    )
    assert [one.code for one in memoranda.workflow.check(text)] == ["unknown_action"]
    assert memoranda.workflow.check(text, actions=[water_bed]) == ()
    wrong = text.replace("bed: 3", "bed: three, well: 1")
    assert [one.code for one in memoranda.workflow.check(wrong, actions=[water_bed])] == [
        "wrong_value",
        "unknown_input",
    ]
    misspelt = text.replace("bed: 3", "bde: 3")
    assert [one.code for one in memoranda.workflow.check(misspelt, actions=[water_bed])] == ["unknown_input"]


def test_a_value_that_is_partly_computed_is_judged_by_its_kind_alone() -> None:
    text = "defs:\n  save: {kind: task, action: update_memory, inputs: {memory: VALUE}}\nflow: [{do: save}]\n"
    assert found(text.replace("VALUE", "{bed: {size: =$input.size}}")) == []
    assert found(text.replace("VALUE", "=$input.all")) == []
    assert [one.code for one in found(text.replace("VALUE", "[=$input.size]"))] == ["wrong_value"]


def test_names_that_an_expression_gives_itself_are_no_unknown_variables() -> None:
    text = "defs:\n  tell: {kind: task, action: send_text_message, inputs: {text: 'TEXT'}}\nflow: [{do: tell}]\n"
    own = "=($f := function($x, $y) {{ $x & $y }}; $input.beds@$b#$i.($f($b.name, $string($i))) ~> $join)"
    assert found(text.replace("TEXT", own.replace("{{", "{").replace("}}", "}"))) == []
    assert [one.code for one in found(text.replace("TEXT", "=$map($input.beds, function($x) { $y })"))] == [
        "unknown_variable"
    ]
    assert found(text.replace("TEXT", "=$map($input.beds, $string)[size > 1].name ~> $join")) == []


def test_a_task_that_runs_in_two_places_is_only_doubted_where_no_place_fits() -> None:
    text = (
        "defs:\n  tell: {kind: task, action: send_text_message,\n"
        "    inputs: {text: =$output.water.text & $iteration.item}}\n"
        "  water: {kind: task, action: ai_agent}\nflow:\n  - do: tell\n  - do: water\n"
    )
    assert {one.code for one in found(text)} == {"reads_later", "outside_loop"}
    again = "  - loop: {type: for_each, for_each: {in: [a]}, steps: [{do: tell}]}\n"
    assert found(text + again) == []


def test_outputs_may_read_what_ran_in_a_branch_but_not_what_never_runs() -> None:
    text = (
        "defs:\n  water: {kind: task, action: ai_agent}\n  rest: {kind: task, action: ai_agent}\n"
        "flow:\n  - conditional: {when: [{condition: =$input.dry, steps: [{do: water}]}]}\n"
        "outputs: {said: =$output.NAME.text}\n"
    )
    assert [one.code for one in found(text.replace("NAME", "water"))] == ["never_runs"]
    assert [(one.code, one.severity) for one in found(text.replace("NAME", "rest"))] == [
        ("never_runs", "note"),
        ("reads_never", "warning"),
    ]


def test_what_a_loop_accumulates_is_read_by_its_name() -> None:
    text = (
        "defs:\n  water: {kind: task, action: ai_agent}\nflow:\n"
        "  - loop: {type: for_each, name: beds, for_each: {in: [1]}, steps: [{do: water}],\n"
        "      accumulate: {as: wet, initial: 0, merge: =$accumulator + 1}}\n"
        "outputs: {wet: =$output.NAME.wet}\n"
    )
    assert found(text.replace("NAME", "beds")) == []
    assert [one.code for one in found(text.replace("NAME", "bads"))] == ["unknown_output"]
