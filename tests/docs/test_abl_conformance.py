"""`docs/languages/abl-conformance.md` lists every conformance test of ABL, and no other."""

from __future__ import annotations

import re

import pytest

import abl_conformance

_ROW = re.compile(r"^\| (s\d-\d+) \| (.+?) \| `(test_\w+)` \| (.+) \|$", re.MULTILINE)
_RESULT = re.compile(r"passes|expected to fail: .+")
_TEST = re.compile(r"^def (test_\w+)", re.MULTILINE)


def test_the_page_lists_exactly_the_tests_that_exist() -> None:
    rows = _ROW.findall(abl_conformance.PAGE.read_text(encoding="utf-8"))
    assert len(rows) > 200
    listed = {test: result for _, _, test, result in rows}
    assert abl_conformance.PAGE.read_text(encoding="utf-8") == abl_conformance.page(listed), "run `make reference`"
    assert [row for row in rows if not _RESULT.fullmatch(row[3])] == []


@pytest.mark.parametrize("file", abl_conformance.SOURCES.values())
def test_each_test_has_a_number_and_a_sentence(file: str) -> None:
    found = abl_conformance.statements(file)
    assert [one.test for one in found] == _TEST.findall((abl_conformance.TESTS / file).read_text(encoding="utf-8"))
    assert [int(one.number.partition("-")[2]) for one in found] == list(range(1, len(found) + 1))
    assert [one.test for one in found if not one.text.endswith(".")] == []


def test_each_file_of_tests_has_a_section() -> None:
    written = {path.name for path in abl_conformance.TESTS.glob("test_*.py")}
    assert written == set(abl_conformance.SOURCES.values())
