"""The conformance page of each language lists every conformance test of it, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import conformance
from conformance import LANGUAGES, Language

_ROW = re.compile(r"^\| (s\d-\d+) \| (.+?) \| `(test_\w+)` \| (.+) \|$", re.MULTILINE)
_RESULT = re.compile(r"passes|expected to fail: .+")
_TEST = re.compile(r"^def (test_\w+)", re.MULTILINE)
_LEAST = {"abl": 200, "mashin": 40, "workflow": 50}
FILES = [language.tests / file for language in LANGUAGES.values() for file in language.sources.values()]


@pytest.mark.parametrize("name", LANGUAGES)
def test_the_page_lists_exactly_the_tests_that_exist(name: str) -> None:
    language = LANGUAGES[name]
    rows = _ROW.findall(language.page.read_text(encoding="utf-8"))
    assert len(rows) > _LEAST[name]
    listed = {test: result for _, _, test, result in rows}
    assert language.page.read_text(encoding="utf-8") == conformance.page(language, listed), "run `make reference`"
    assert [row for row in rows if not _RESULT.fullmatch(row[3])] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parents[1].name}/{file.name}")
def test_each_test_has_a_number_and_a_sentence(file: Path) -> None:
    found = conformance.statements(file)
    assert [one.test for one in found] == _TEST.findall(file.read_text(encoding="utf-8"))
    assert [int(one.number.partition("-")[2]) for one in found] == list(range(1, len(found) + 1))
    assert [one.test for one in found if not one.text.endswith(".")] == []


@pytest.mark.parametrize("language", LANGUAGES.values(), ids=list(LANGUAGES))
def test_each_file_of_tests_has_a_section(language: Language) -> None:
    written = {path.name for path in language.tests.glob("test_*.py")}
    assert written == set(language.sources.values())
