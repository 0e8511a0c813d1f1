"""The tour shows what is true: each of its commands is carried out, and nothing is left behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from memoranda.cli.tour import CHAPTERS, empty_folder

REFUSED = {
    "schema_violation": "facts set stay '{\"room\": 0}'",
    "conflict": "blocks set core --user ada -- '- Prefers long",
}
"""What the tour shows being refused, on purpose."""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tour")
    away = {**os.environ, "MEMORANDA_DB": str(folder / "mine.db"), "TMPDIR": str(folder), "COLUMNS": "100"}
    ran = subprocess.run(
        [sys.executable, "-m", "memoranda.cli", "tour"],
        env=away,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    assert list(folder.iterdir()) == [], "the tour has a memory of its own, which goes with it"
    return ran.stdout


def test_every_chapter_and_every_command_is_shown(shown: str) -> None:
    for number, chapter in enumerate(CHAPTERS, 1):
        assert f"{number} of {len(CHAPTERS)} · {chapter.title}" in shown
        for command in chapter.commands:
            assert f"$ memoranda {command.split('{run}')[0]}" in shown


def test_files_fit_a_narrow_terminal() -> None:
    for chapter in CHAPTERS:
        for name, text in chapter.files:
            assert max(map(len, text.splitlines())) + len("  ") <= 80, name


def test_only_what_should_be_refused_is(shown: str) -> None:
    steps = shown.split("\n$ memoranda ")[1:]
    refused = [(code[1], step) for step in steps if (code := re.search(r"^error\[(\w+)\]", step, re.M))]
    assert [code for code, _ in refused] == list(REFUSED)
    assert all(step.startswith(REFUSED[code]) for code, step in refused)
    assert len(steps) == sum(len(chapter.commands) for chapter in CHAPTERS)
    assert "Traceback" not in shown


def test_it_shows_one_memory(shown: str) -> None:
    said = [
        "Good day, stranger.\nHow is Porto?",
        "is the same again: completed",
        "Your room is 12.",
        "Which room do you want?",
        "Ada wants a quiet room",
        "tulips on May 12",
        "Nothing found in notes of user:bob.",
        "Nothing found in notes of user:ada.",
        "Good day, stranger.\nHow is your city?",
    ]
    places = [shown.index(words) for words in said]
    assert min(places) >= 0
    assert re.findall(r"^ok, (\d+) events", shown, re.M)


def test_settings_are_as_they_were(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMORANDA_DB", "mine.db")
    with pytest.raises(ZeroDivisionError), empty_folder():
        assert "MEMORANDA_DB" not in os.environ
        assert Path.cwd() != tmp_path
        raise ZeroDivisionError
    assert (os.environ["MEMORANDA_DB"], Path.cwd()) == ("mine.db", tmp_path)
