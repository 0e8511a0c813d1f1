"""Write the pages of the languages' conformance tests: `python tools/conformance.py [--check] [LANGUAGE...]`.

Each test in `tests/<language>/conformance` is named after one statement of a reference page of the language's vendor,
and its docstring is that statement. A page lists them with the results of a run; `--check` compares and writes nothing.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
_NAME = re.compile(r"test_(s\d)_(\d+)_\w+")
_WRITTEN = "<!-- Written by `python tools/conformance.py`; change the tests, then run it. -->"


class Language(NamedTuple):
    """A language: the title of its page, the folder of its tests, and the pages of its vendor with the test files."""

    title: str
    folder: str
    sources: Mapping[str, str]
    introduction: str

    @property
    def tests(self) -> Path:
        """The folder of its conformance tests."""
        return ROOT / "tests" / self.folder / "conformance"

    @property
    def page(self) -> Path:
        """The page that lists them."""
        return ROOT / "docs/languages" / f"{self.folder}-conformance.md"


LANGUAGES = {
    "abl": Language(
        "ABL",
        "abl",
        {
            "Memory and Constraints": "test_memory_and_constraints.py",
            "Memory and State": "test_memory_and_state.py",
        },
        """\
The vendor of ABL describes memory and rules on two reference pages, "Memory and Constraints" and "Memory and State".
Each row is one statement of such a page, in our words, with the test that checks it and the result of its last run.
Each test loads an agent of its own through the public API. How Memoranda reads what the pages leave open is in the
[reference](abl.md).""",
    ),
    "mashin": Language(
        "mashin",
        "mashin",
        {"Memory": "test_memory.py"},
        """\
The vendor of mashin describes memory on one page, "Memory". Each row is one statement of that page, in our words, with
the test that checks it and the result of its last run. Each test runs a machine of its own through the public API. How
Memoranda reads what the page leaves open is in the [reference](mashin.md).""",
    ),
    "workflow": Language(
        "Workflows",
        "workflow",
        {"Memory": "test_memory.py"},
        """\
The vendor of these workflows describes memory on one page, "Memory". Each row is one statement of that page, in our
words, with the test that checks it and the result of its last run. Each test runs a workflow of its own through the
public API; statements about pages look at the [admin pages](../admin.md). How Memoranda reads what the page leaves open
is in the [reference](workflows.md).""",
    ),
}


class Statement(NamedTuple):
    """A statement of a page, and its test."""

    number: str
    text: str
    test: str


def statements(file: Path) -> list[Statement]:
    """Return the statements that a file tests, in its order."""
    found: list[Statement] = []
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        name = _NAME.fullmatch(node.name) if isinstance(node, ast.FunctionDef) else None
        if isinstance(node, ast.FunctionDef) and name:
            text = " ".join((ast.get_docstring(node) or "").split())
            found.append(Statement(f"{name[1]}-{name[2]}", text, node.name))
    return found


def results(languages: Iterable[Language]) -> dict[str, str]:
    """Run the tests of languages, and return the result of each by its name."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        tests = [str(language.tests) for language in languages]
        command = [sys.executable, "-m", "pytest", *tests, "--quiet", "--tb=short", f"--junitxml={report}"]
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


def page(language: Language, found: Mapping[str, str]) -> str:
    """Return the page of a language, with the result of each test by its name."""
    summary = ["| page | statements | results |", "|---|---|---|"]
    sections: list[str] = []
    for title, file in language.sources.items():
        listed = statements(language.tests / file)
        counted = Counter(found[one.test].partition(":")[0] for one in listed)
        shown = ", ".join(f"{result}: {number}" for result, number in sorted(counted.items()))
        summary.append(f"| [{title}](#{title.lower().replace(' ', '-')}) | {len(listed)} | {shown} |")
        rows = [f"| {one.number} | {_cell(one.text)} | `{one.test}` | {_cell(found[one.test])} |" for one in listed]
        where = f"[{file}](../../{language.tests.relative_to(ROOT).as_posix()}/{file})"
        head = f"## {title}\n\nTests: {where}\n\n| number | statement | test | result |\n|---|---|---|---|"
        sections.append("\n".join([head, *rows]))
    introduction = f"# {language.title}: conformance\n\n{_WRITTEN}\n\n{language.introduction}"
    return "\n\n".join([introduction, "\n".join(summary), *sections]) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare the pages and write nothing")
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help="all of them by default")
    asked = parser.parse_args()
    languages = [LANGUAGES[name] for name in asked.languages or LANGUAGES]
    found = results(languages)
    for language in languages:
        text = page(language, found)
        if not asked.check:
            language.page.write_text(text, encoding="utf-8")
        elif not language.page.exists() or language.page.read_text(encoding="utf-8") != text:
            raise SystemExit(f"{language.page.relative_to(ROOT)} is not up to date: run `python tools/conformance.py`")


if __name__ == "__main__":
    main()
