"""How the checker's findings look in a terminal."""

from __future__ import annotations

from pathlib import Path

from memoranda.lang.diagnostics import render_all
from memoranda.mashin.checker import check_source

SAMPLES = Path(__file__).parent / "samples"


def test_all_faults_of_a_file_are_shown_in_its_order() -> None:
    reading, _, diagnostics = check_source((SAMPLES / "faults.mashin").read_text(), name="faults.mashin")
    assert render_all(diagnostics, reading.source) + "\n" == (SAMPLES / "faults.rendered.txt").read_text()


def test_a_place_inside_a_bracket_over_several_lines_is_shown_on_its_own_line() -> None:
    text = "machine desk\n  implements\n    compute first\n      {\n        a: 1, // one\n        b: boat\n      }\n"
    reading, _, diagnostics = check_source(text, name="desk.mashin")
    assert render_all(diagnostics, reading.source) == (
        "desk.mashin:6:12: error[unknown_name]: nothing is called `boat`\n"
        "  6 |         b: boat\n"
        "    |            ^^^^\n"
        "    = A name is a step, a field of `accepts`, or bound by `let`"
    )
