"""Tests that were run in, a JUnit file out, as servers that build and test programs read it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from xml.etree import ElementTree

from memoranda.cli.writing import write_file

_UNSPEAKABLE = re.compile(r"[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML has no way to write, not even as an escape."""


class Outcome(NamedTuple):
    """One test: where it is, and what there is to say if it failed."""

    name: str
    line: int
    failure: str | None


class Suite(NamedTuple):
    """The tests of one file."""

    file: str
    tests: Sequence[Outcome]


def write_junit(path: str, suites: Sequence[Suite]) -> None:
    """Write a file with one suite for each file of tests."""
    root = ElementTree.Element("testsuites", _counts([one for suite in suites for one in suite.tests]))
    for suite in suites:
        about = {"name": _written(suite.file), **_counts(suite.tests)}
        element = ElementTree.SubElement(root, "testsuite", about)
        for test in suite.tests:
            _add(element, suite.file, test)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode", xml_declaration=False)
    write_file(path, f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n')


def _counts(tests: Sequence[Outcome]) -> dict[str, str]:
    failures = sum(test.failure is not None for test in tests)
    return {"tests": str(len(tests)), "failures": str(failures), "errors": "0", "skipped": "0"}


def _add(suite: ElementTree.Element, file: str, test: Outcome) -> None:
    about = {"classname": _written(file), "name": _written(test.name), "file": _written(file), "line": str(test.line)}
    case = ElementTree.SubElement(suite, "testcase", about)
    if test.failure is not None:
        told = _written(test.failure)
        failure = ElementTree.SubElement(case, "failure", {"message": told.partition("\n")[0]})
        failure.text = told


def _written(text: str) -> str:
    return _UNSPEAKABLE.sub("\ufffd", text)
