"""Files without a fault give no diagnostics, whatever constructs they use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memoranda.abl.checker.check import check_source

HERE = Path(__file__).parent
LIBRARY = (HERE / "samples" / "library.agent.abl").read_text()
PARSED = HERE.parent / "parser" / "samples"


def test_an_agent_that_uses_everything_is_passed_without_a_word() -> None:
    _, _, diagnostics = check_source(LIBRARY, name="library.agent.abl")
    assert diagnostics == ()
    _, _, diagnostics = check_source(LIBRARY.replace("ON_EXHAUSTED: give_up", "ON_EXHAUSTED: give_in"))
    assert [one.code for one in diagnostics] == ["unknown_step"]


EXPECTED = {
    "11 a computed object": ["undeclared_path"],
    "12 recall at the start": ["undeclared_path"] * 3,
    "13 recall before a search": ["deprecated"],
    "C02 the skeleton of session": ["shared_by_all"],
    "C05 remember triggers": ["undeclared_path"] * 2,
    "C06 three recalls": ["undeclared_path", "deprecated"],
}
"""What those samples do on purpose that deserves a warning."""


def pieces() -> dict[str, str]:
    text = "".join((PARSED / name).read_text() for name in ("state.txt", "constraints.txt"))
    parts = re.split(r"^=== (.+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("title", pieces())
def test_every_piece_of_the_language_is_passed(title: str) -> None:
    _, _, diagnostics = check_source(pieces()[title], fragment=True)
    assert [one.code for one in diagnostics] == EXPECTED.get(title, [])
    assert all(one.severity == "warning" for one in diagnostics)


def test_the_two_dialects_are_judged_alike() -> None:
    said = [
        [(one.code, one.severity, one.message) for one in check_source((PARSED / name).read_text(), name=name)[2]]
        for name in ("baker.agent.abl", "baker.agent.yaml")
    ]
    assert said[0] == said[1]
    assert [code for code, _, _ in said[0]] == ["no_on_fail"]
