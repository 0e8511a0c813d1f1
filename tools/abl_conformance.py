"""Write the page of ABL's conformance tests: `python tools/abl_conformance.py [--check]`.

Each test in `tests/abl/conformance` is named after one statement of a reference page of the language's vendor, and its
docstring is that statement. The page lists them with the result of a run; `--check` compares and writes nothing.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests/abl/conformance"
PAGE = ROOT / "docs/languages/abl-conformance.md"
SOURCES = {
    "Memory and Constraints": "test_memory_and_constraints.py",
    "Memory and State": "test_memory_and_state.py",
}
"""The reference pages of the vendor, and the file with the tests of each."""

_NAME = re.compile(r"test_(s\d)_(\d+)_\w+")
_INTRODUCTION = """\
# ABL: conformance

<!-- Written by `python tools/abl_conformance.py`; change the tests, then run it. -->

The vendor of ABL describes memory and rules on two reference pages, "Memory and Constraints" and "Memory and State".
Each row is one statement of such a page, in our words, with the test that checks it and the result of its last run.
Each test loads an agent of its own through the public API. How Memoranda reads what the pages leave open is in the
[reference](abl.md)."""


class Statement(NamedTuple):
    """A statement of a page, and its test."""

    number: str
    text: str
    test: str


def statements(file: str) -> list[Statement]:
    """Return the statements that a file tests, in its order."""
    found: list[Statement] = []
    for node in ast.parse((TESTS / file).read_text(encoding="utf-8")).body:
        name = _NAME.fullmatch(node.name) if isinstance(node, ast.FunctionDef) else None
        if isinstance(node, ast.FunctionDef) and name:
            text = " ".join((ast.get_docstring(node) or "").split())
            found.append(Statement(f"{name[1]}-{name[2]}", text, node.name))
    return found


def results() -> dict[str, str]:
    """Run the tests, and return the result of each by its name."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", str(TESTS), "--quiet", "--tb=short", f"--junitxml={report}"]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if not report.exists():
            raise SystemExit(run.stdout + run.stderr)
        cases = ElementTree.parse(report).getroot().iter("testcase")
        return {case.attrib["name"]: _result(case) for case in cases}


def _result(case: ElementTree.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "fails"
    skipped = case.find("skipped")
    if skipped is None:
        return "passes"
    expected = skipped.get("type") == "pytest.xfail"
    return f"{'expected to fail' if expected else 'skipped'}: {skipped.get('message', '')}"


def page(found: Mapping[str, str]) -> str:
    """Return the page, with the result of each test by its name."""
    summary = ["| page | statements | results |", "|---|---|---|"]
    sections: list[str] = []
    for title, file in SOURCES.items():
        listed = statements(file)
        counted = Counter(found[one.test].partition(":")[0] for one in listed)
        shown = ", ".join(f"{result}: {number}" for result, number in sorted(counted.items()))
        summary.append(f"| [{title}](#{title.lower().replace(' ', '-')}) | {len(listed)} | {shown} |")
        rows = [f"| {one.number} | {_cell(one.text)} | `{one.test}` | {_cell(found[one.test])} |" for one in listed]
        where = f"[{file}](../../{TESTS.relative_to(ROOT).as_posix()}/{file})"
        head = f"## {title}\n\nTests: {where}\n\n| number | statement | test | result |\n|---|---|---|---|"
        sections.append("\n".join([head, *rows]))
    return "\n\n".join([_INTRODUCTION, "\n".join(summary), *sections]) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare the page and write nothing")
    check = parser.parse_args().check
    text = page(results())
    if not check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        raise SystemExit(f"{PAGE.relative_to(ROOT)} is not up to date: run `python tools/abl_conformance.py`")


if __name__ == "__main__":
    main()
