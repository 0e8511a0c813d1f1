"""`docs/checklist.md` lists every numbered test, and no other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFORMANCE = [ROOT / "tests" / language / "conformance" for language in ("abl", "mashin", "workflow")]
PAGE = ROOT / "docs/checklist.md"

_TEST = re.compile(r"^ *(?:async )?def (test_[a-z]{1,2}\d+[a-z]?_\w+)", re.MULTILINE)
_ROW = re.compile(r"^\| ([a-z]{1,2}\d+) \| (.+?) \| (\[.+) \|$", re.MULTILINE)
_FILE = re.compile(r"\[[^\]]+\]\(\.\./([^)]+)\)")


def rows() -> list[tuple[str, str, set[tuple[str, str]]]]:
    """Return the number, the sentence and the tests of each row, a test as its file and name."""
    found: list[tuple[str, str, set[tuple[str, str]]]] = []
    for number, sentence, cell in _ROW.findall(PAGE.read_text(encoding="utf-8")):
        tests: set[tuple[str, str]] = set()
        for part in cell.split("<br>"):
            file = _FILE.match(part)
            assert file, f"{number} has a cell that does not begin with a link to a file"
            tests |= {(file[1], name) for name in re.findall(r"`(test_\w+)`", part)}
        found.append((number, sentence, tests))
    return found


def test_the_checklist_has_every_numbered_test_and_no_other() -> None:
    written = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.parent not in CONFORMANCE  # the pages of the languages list these
        for name in _TEST.findall(path.read_text(encoding="utf-8"))
    }
    listed = {test for _, _, tests in rows() for test in tests}
    assert listed - written == set(), "these tests do not exist"
    assert written - listed == set(), "put these tests into a row of docs/checklist.md"


def test_each_row_has_a_sentence_and_tests_that_are_named_after_it() -> None:
    for number, sentence, tests in rows():
        assert sentence.endswith(".") and tests, number
        for _, name in tests:
            numbers = {f"{letters}{int(digits)}" for letters, digits in re.findall(r"_([a-z]{1,2})(\d+)(?=_)", name)}
            assert number in numbers or "_to_" in name, f"{name} in the row of {number}"


def test_no_number_has_two_rows_in_a_section() -> None:
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        numbers = [number for number, _, _ in _ROW.findall(section)]
        assert len(numbers) == len(set(numbers)), section.partition("\n")[0]
