"""How the checker's findings look in a terminal."""

from __future__ import annotations

from pathlib import Path

from memoranda.abl.checker.check import check_source
from memoranda.lang.diagnostics import render_all

SAMPLES = Path(__file__).parent / "samples"


def test_all_faults_of_a_file_are_shown_in_its_order() -> None:
    reading, _, diagnostics = check_source((SAMPLES / "faults.agent.abl").read_text(), name="faults.agent.abl")
    assert render_all(diagnostics, reading.source) + "\n" == (SAMPLES / "faults.rendered.txt").read_text()


def test_a_place_inside_a_block_of_text_is_shown_on_its_own_line() -> None:
    text = (
        "AGENT: Desk\nGOAL: help\nMEMORY:\n  persistent:\n    - user.notes\n      ACCESS: write\n"
        "FLOW:\n  show:\n    REASONING: false\n    RESPOND: |\n      Your notes:\n      {{user.notes}}\n"
    )
    reading, _, diagnostics = check_source(text, name="desk.abl")
    assert render_all(diagnostics, reading.source) == (
        "desk.abl:12:9: error[access]: `user.notes` cannot be read: it is declared with `ACCESS: write`\n"
        "  12 |       {{user.notes}}\n"
        "     |         ^^^^^^^^^^\n"
        "     = Declare `ACCESS: readwrite`, or keep the value in a variable"
    )
