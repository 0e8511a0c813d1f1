"""The tool that builds a release."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from release import main, notes_of

ROOT = Path(__file__).parents[2]
CHANGELOG = """# Changelog

## Unreleased

- Later.

## 0.2.0 - 2026-12-01

- More.

## 0.1.0 - 2026-11-16

- First.
"""


@pytest.mark.parametrize(
    ("version", "notes"), [("0.2.0", "- More."), ("0.1.0", "- First."), ("0.3.0", ""), ("0.2", "")]
)
def test_the_notes_are_the_section_of_the_version(version: str, notes: str) -> None:
    assert notes_of(CHANGELOG, version) == notes


def test_another_version_than_the_projects_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    before = set((ROOT / "dist").glob("*"))
    assert main(["99.0.0"]) == 1
    assert re.search(r"pyproject.toml has version \d", capsys.readouterr().err)
    assert set((ROOT / "dist").glob("*")) == before
