"""How the checker's findings look in a terminal."""

from __future__ import annotations

from pathlib import Path

from memoranda.lang.diagnostics import render_all
from memoranda.workflow.checker.check import check_source

SAMPLES = Path(__file__).parent / "samples"


def test_all_faults_of_a_file_are_shown_in_its_order() -> None:
    reading, _, diagnostics = check_source((SAMPLES / "faults.yaml").read_text(), name="faults.yaml")
    assert render_all(diagnostics, reading.source) + "\n" == (SAMPLES / "faults.rendered.txt").read_text()


def test_a_place_inside_an_expression_over_several_lines_is_shown_on_its_own_line() -> None:
    text = (
        "defs:\n  tell:\n    kind: task\n    action: send_text_message\n    inputs:\n      text: >-\n"
        "        =$input.name\n        & $nobody.name\nflow: [{do: tell}]\n"
    )
    reading, _, diagnostics = check_source(text, name="desk.yaml")
    assert render_all(diagnostics, reading.source) == (
        "desk.yaml:8:11: error[unknown_variable]: unknown variable `$nobody`, in `defs.tell.inputs.text`\n"
        "  8 |         & $nobody.name\n"
        "    |           ^^^^^^^^^^^^\n"
        "    = The variables are $input, $context, $output, $iteration, $accumulator, $result"
    )
