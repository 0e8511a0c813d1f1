"""The check of commit messages that the commit-msg hook and the hosted CI run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from commit_message import mistakes

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "message",
    [
        "store: retry after a lost connection",
        "store, docs: retry after a lost connection\n\nBefore, the write failed.",
        "a" * 10 + ": " + "b" * 60,
        "Merge branch 'main' into fix",
        'Revert "store: retry after a lost connection"',
        "cli: say where the file is\n# Please enter the commit message",
    ],
)
def test_good_messages_pass(message: str) -> None:
    assert mistakes(message) == []


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("Fix the store", "area"),
        ("store:retry", "area"),
        ("Store: retry", "area"),
        ("store: " + "b" * 66, "72 characters; it has 73"),
        ("store: retry.", "period"),
        ("store: retry\nBecause it failed.", "second line"),
    ],
)
def test_each_mistake_is_named(message: str, said: str) -> None:
    (found,) = mistakes(message)
    assert said in found


@pytest.mark.parametrize(("message", "code"), [("store: retry\n", 0), ("Retry.\n", 1)])
def test_the_hook_refuses_what_has_mistakes(message: str, code: int, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", repository], check=True)
    (repository / "tools").mkdir()
    (repository / "tools" / "commit_message.py").write_bytes((ROOT / "tools" / "commit_message.py").read_bytes())
    (tmp_path / "message").write_text(message, encoding="utf-8")
    hook = [ROOT / "tools" / "hooks" / "commit-msg", tmp_path / "message"]
    done = subprocess.run(hook, cwd=repository, capture_output=True, text=True, check=False)
    assert (done.returncode, "area" in done.stderr) == (code, code == 1)


def test_a_range_of_commits_is_checked(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    for subject in ("First.", "store: retry", "cli: say more"):
        git("commit", "-q", "--allow-empty", "-m", subject)
    check = [sys.executable, ROOT / "tools" / "commit_message.py", "--range"]
    assert subprocess.run([*check, "main~2..main"], cwd=tmp_path, check=False).returncode == 0
    found = subprocess.run([*check, "main"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr.splitlines()[0]) == (1, "First.")
