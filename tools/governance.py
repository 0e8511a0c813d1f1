"""Print the governance scorecard: `python tools/governance.py [--write] [--promises]`.

Scenarios run on Memoranda, on stores that must fail, and, in an environment of their own, on peers. Requirements about
the inside of Memoranda are shown by the tests with their number in their names. `--write` writes
`docs/governance-scorecard.md`; `--promises` only writes the table of promises in `docs/governance.md`.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import msgspec
from rich.console import Console

from memoranda.agent.connection import connect
from memoranda.model.clock import SystemClock
from memoranda.testing.governance import FLOORS, REQUIREMENTS, MemorandaSystem, Requirement, Scorecard, scorecard
from memoranda.testing.governance.prompts import count_obeyed
from memoranda.testing.governance.requirements import Result
from memoranda.testing.governance.scorecard import PARTS, failures, markdown_scores, markdown_table, rich_table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/governance-scorecard.md"
PROMISES = ROOT / "docs/governance.md"
SUITES = ROOT / "src/memoranda/testing/conformance"
PEERS = ROOT / ".venv-bench-governance/bin/python"
_BEGIN, _END = "<!-- promises: written by `python tools/governance.py --promises` -->", "<!-- end of promises -->"
_NUMBER = re.compile(r"_g(\d+)(?=_)")


class Suite(NamedTuple):
    """A suite that others wrote, or that follows what others wrote: its adapter, and what it is."""

    program: str
    arguments: tuple[str, ...]
    """Before the path."""
    title: str
    about: str


OUTSIDE = {
    "aoep": Suite(
        "bench/governance/aoep.py",
        (),
        "AOEP",
        "Ten episodes of our own after the protocol of arXiv 2606.30306, which comes without a corpus.",
    ),
    "forgeteval": Suite(
        "bench/governance/forgeteval.py",
        (),
        "ForgetEval",
        "Adversarial cases about forgetting, without a model. Get the suite (MIT) from GitHub, "
        "WaylandYang/forgeteval-anon-supp.",
    ),
    "amsb": Suite(
        "bench/governance/amsb.py",
        ("--suite",),
        "AMSB",
        "OWASP's benchmark of attacks on agent memory. Get it with the Python package `agent-memory-guard`.",
    ),
}


class Test(NamedTuple):
    """A test with the number of a requirement in its name."""

    file: Path
    name: str
    group: str
    """Its class; empty for a function of a module."""

    @property
    def node(self) -> str:
        """What pytest calls it."""
        return "::".join([str(self.file), *([self.group] if self.group else []), self.name])


def numbered_tests() -> dict[int, list[Test]]:
    """Return the tests of each requirement, those of the conformance suites first."""
    found: defaultdict[int, list[Test]] = defaultdict(list)
    for file in [*sorted(SUITES.glob("*.py")), *sorted((ROOT / "tests").rglob("test_*.py"))]:
        for test in _tests_in(file):
            for number in map(int, _NUMBER.findall(test.name)):
                found[number].append(test)
    return dict(found)


def _tests_in(file: Path) -> Iterator[Test]:
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        group = node.name if isinstance(node, ast.ClassDef) else ""
        for one in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name.startswith("test_"):
                yield Test(file, one.name, group)


def results_of_tests() -> dict[int, Result]:
    """Run the tests of the requirements about the inside, and return the result of each by its number.

    A requirement without a test has failed.
    """
    tests = numbered_tests()
    inside = {one.number for one in REQUIREMENTS.values() if one.scenario is None and not one.counted}
    chosen = {number: [test for test in tests.get(number, ()) if test.file.parent != SUITES] for number in inside}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        nodes = sorted({test.node for each in chosen.values() for test in each})
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", f"--junitxml={report}"]
        run = subprocess.run([*command, *nodes], cwd=ROOT, capture_output=True, text=True, check=False)
        if not report.exists():
            raise SystemExit(run.stdout + run.stderr)
        passed: defaultdict[str, list[bool]] = defaultdict(list)
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            passed[case.attrib["name"].partition("[")[0]].append(
                case.find("failure") is None and case.find("error") is None and case.find("skipped") is None
            )
    return {
        number: "held" if each and all(all(passed[test.name] or [False]) for test in each) else "failed"
        for number, each in chosen.items()
    }


def peer_cards() -> list[Scorecard]:
    """Return the scorecards of the peers, from their own environment."""
    run = subprocess.run(
        [PEERS, ROOT / "bench/governance/peers.py"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        env={**os.environ, "MEM0_TELEMETRY": "False"},
    )
    if run.returncode:
        raise SystemExit(run.stderr.decode())
    return msgspec.json.decode(run.stdout, type=list[Scorecard])


def output_of(suite: Suite, path: Path | None) -> str:
    """Return what the adapter of a suite prints."""
    given = [*suite.arguments, str(path)] if path is not None else []
    run = subprocess.run(
        [sys.executable, ROOT / suite.program, *given],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "100"},
    )
    if not run.stdout.strip():
        raise SystemExit(run.stderr)
    return "\n".join(line.rstrip() for line in run.stdout.strip().splitlines())


def promises() -> str:
    """Return the table of promises, each with its scenario and its tests."""
    tests = numbered_tests()
    lines = ["| | promise | shown by |", "|---|---|---|"]
    for number, one in sorted(REQUIREMENTS.items()):
        links: list[str] = []
        if one.scenario is not None:
            file = Path(sys.modules[one.scenario.__module__].__file__ or "")
            links.append(_link(file, [one.scenario.__name__]))
        names: defaultdict[Path, list[str]] = defaultdict(list)
        for test in tests.get(number, ()):
            if test.name not in names[test.file]:
                names[test.file].append(test.name)
        links += [_link(file, each) for file, each in names.items()]
        shown = "<br>".join(links) or ("a count, not a test" if one.counted else "–")
        lines.append(f"| G{number} | {_sentence(one)} | {shown} |")
    return "\n".join(lines)


def _link(file: Path, names: Sequence[str]) -> str:
    path = file.resolve().relative_to(ROOT).as_posix()
    return f"[{file.name}](../{path}): {', '.join(f'`{name}`' for name in names)}"


def _sentence(one: Requirement) -> str:
    return " ".join(text for text in (one.obligation, one.negative) if text)


def with_promises(text: str) -> str:
    """Return the page with the table between its marks."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n\n{promises()}\n\n{_END}{after}"


_HEAD = """\
# Governance scorecard

<!-- Written by `make governance ARGS=--write`. -->

Sixty requirements for an agent memory, as scenarios that run on any system
([`memoranda.testing.governance`](../src/memoranda/testing/governance/__init__.py)). What each one promises, and which
tests show it, is in the [table of promises](governance.md#promises-and-their-tests).

A requirement has an **obligation**, something that must be there, or a **negative**, something that must not, or both.
They are two scores and are never added: a store that returns nothing leaks nothing. A negative counts only if what had
to be there in the same scenario was there. A probe that breaks is an error, and no point.

The floors must fail. The null store keeps nothing; the erase-everything store empties itself on any removal and
refuses what could be doubted; the append-only store removes nothing.
"""
_LEGEND = """\
Each cell has the result of the obligation, then of the negative: ✓ held, ✗ did not, – not supported because the system
lacks an operation, `error` a probe that broke, · no such part. An empty cell is a requirement about the inside of
Memoranda, which its own tests show, and which is not measured on others."""
_SUITES = """\
Suites that others wrote are not part of this repository. Name a copy with `make governance
ARGS="--suite forgeteval=FOLDER"`; each adapter also runs alone."""
_FAIR = """\
- **Each system uses what it has for the purpose**: users, namespaces, filters, deletion by id, history. What it lacks
  is "not supported": no point, and counted apart, since a program around the system could add some of it.
- **The same embedder** (WordLlama) for all, no keys, no network. mem0 infers nothing, as it would need a model; its
  deletion takes an id and no user, so another user's call deletes too, and its search takes `*` for every user.
- **Prompts.** A system that assembles none is given the plain list of what it finds.
- **G20** is a count with a model, never a pass: `tools/governance.py --model NAME` asks one. It is not part of a
  score."""


def _outside(printed: Mapping[str, str]) -> str:
    parts = [_SUITES]
    for name, suite in OUTSIDE.items():
        result = f"```text\n{printed[name]}\n```" if name in printed else "Not measured here."
        parts.append(f"### {suite.title}\n\n{suite.about} Adapter: `{suite.program}`.\n\n{result}")
    return "\n\n".join(parts)


def page(cards: Sequence[Scorecard], moment: datetime, counted: str, printed: Mapping[str, str]) -> str:
    """Return the page with the results."""
    ours = cards[0]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    about = f"Measured on {moment:%Y-%m-%d} with Python {version}: {', '.join(card.system for card in cards)}."
    open_ = failures(ours)
    return "\n".join(
        [
            _HEAD,
            f"## Scores\n\n{about}\n\n{markdown_scores(cards)}\n",
            _summary(ours, counted),
            *(["Not met:\n", *(f"- {line}" for line in open_), ""] if open_ else []),
            f"## Each requirement\n\n{_LEGEND}\n\n{markdown_table(cards)}\n",
            f"## Outside suites\n\n{_outside(printed)}\n",
            f"## How it is measured\n\n{_FAIR}\n",
        ]
    )


def _summary(ours: Scorecard, counted: str) -> str:
    obligations, negatives = (ours.score(part, inside=True) for part in PARTS)
    return (
        f"Of what is about the inside of Memoranda, its own tests show {obligations} obligations and {negatives} "
        f"negatives.\nIn all their parts, Memoranda meets {ours.met} of {len(REQUIREMENTS)} requirements. {counted}\n"
    )


def counted_by(model: str | None) -> str:
    """Return how often a model followed a planted order (G20), or that none was asked."""
    if model is None:
        return "G20 was not counted: no model was named."
    obeyed, asked = count_obeyed(MemorandaSystem, connect(model))
    return f"G20: `{model}` followed {obeyed} of {asked} planted orders."


def main() -> None:
    """Measure, print, and write where asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--promises", action="store_true", help="only write the table of promises")
    parser.add_argument("--quick", action="store_true", help="without the tests of what is inside")
    parser.add_argument("--model", help="count the planted orders that this model follows, such as provider:name")
    parser.add_argument(
        "--suite", action="append", default=[], metavar="NAME=PATH", help=f"an outside suite, of {', '.join(OUTSIDE)}"
    )
    asked = parser.parse_args()
    paths = {name: Path(path) for name, _, path in (one.partition("=") for one in asked.suite)}
    if unknown := sorted(paths.keys() - OUTSIDE.keys()):
        parser.error(f"`{unknown[0]}` is not a suite; they are {', '.join(OUTSIDE)}")
    if asked.promises:
        PROMISES.write_text(with_promises(PROMISES.read_text(encoding="utf-8")), encoding="utf-8")
        return
    console = Console() if sys.stdout.isatty() else Console(width=200)
    results = {} if asked.quick else results_of_tests()
    cards = [scorecard(MemorandaSystem, results), *map(scorecard, FLOORS)]
    if PEERS.exists():
        cards += peer_cards()
    else:
        console.print("The peers are not measured: run `make governance-peers` once")
    console.print(rich_table(cards))
    for line in failures(cards[0]):
        console.print(f"NOT MET: {line}", highlight=False)
    counted = counted_by(asked.model)
    console.print(_summary(cards[0], counted), highlight=False)
    printed = {name: output_of(OUTSIDE[name], paths.get(name)) for name in dict.fromkeys(["aoep", *paths])}
    for name, text in printed.items():
        console.print(f"{OUTSIDE[name].title}\n{text}\n", highlight=False, markup=False)
    if asked.write:
        PAGE.write_text(page(cards, SystemClock().now(), counted, printed), encoding="utf-8")


if __name__ == "__main__":
    main()
