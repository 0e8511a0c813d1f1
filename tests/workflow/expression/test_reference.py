"""Expressions against the language's own test suite, and against its reference implementation.

Neither is part of this repository. `make fuzz` runs both from paths in the environment: `JSONATA_SUITE` is the folder
`test/test-suite` of jsonata-js, with its `groups` and `datasets`; `JSONATA_JS` is the npm package `jsonata`, for Node.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from processes import run_process

from memoranda.errors import EvaluationFailed, LimitExceeded, SourceError
from memoranda.workflow.jsonata import UNDEFINED, compile
from memoranda.workflow.jsonata_functions import Bounds

SUITE = os.environ.get("JSONATA_SUITE", "")
REFERENCE = os.environ.get("JSONATA_JS", "")
DIFFERENCES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("differences.json").read_text())
FAILED = "an error"


def outcome(text: str, variables: dict[str, Any], document: Any = UNDEFINED) -> Any:
    try:
        return compile(text).evaluate(variables, document=document)
    except EvaluationFailed as fault:
        # The reference returns functions; here they are not values.
        return UNDEFINED if "gives a function" in fault.message else FAILED
    except SourceError:
        return FAILED


def is_same(value: Any, other: Any) -> bool:
    """Return whether two results are equal; true is not 1, and the last digit of a float may differ."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    if isinstance(value, int | float) and isinstance(other, int | float):
        return value == pytest.approx(other, rel=1e-12, abs=0)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(is_same, value, other))
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(is_same(value[key], other[key]) for key in value)
    return type(value) is type(other) and value == other


REFERENCE_PROGRAM = """
const jsonata = require(process.argv[1])
const isFunction = (value) =>
  typeof value === 'function' || (value && (value._jsonata_lambda || value._jsonata_function))
const plain = (key, value) => {
  if (typeof value === 'number' && !isFinite(value)) throw new Error('not JSON')
  return isFunction(value) ? undefined : value
}
const answer = async ({ text, variables }) => {
  try {
    const value = await jsonata(text).evaluate(undefined, variables)
    return value === undefined || isFunction(value) ? '{}' : `{"value": ${JSON.stringify(value, plain)}}`
  } catch (error) {
    return JSON.stringify({ error: error.code || String(error) })
  }
}
require('readline').createInterface({ input: process.stdin })
  .on('line', async (line) => console.log(await answer(JSON.parse(line))))
"""


class Reference:
    """The reference implementation, in a process of Node."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def outcome(self, text: str, variables: dict[str, Any]) -> Any:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps({"text": text, "variables": variables}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return FAILED if "error" in answer else answer.get("value", UNDEFINED)


# what differs on purpose


def result(written: str) -> str:
    try:
        return msgspec.json.encode(compile(written).evaluate({}, bounds=Bounds(seconds=60, work=200_000))).decode()
    except LimitExceeded:
        return "a limit"
    except (EvaluationFailed, SourceError):
        return FAILED


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference["written"])
def test_what_differs_on_purpose_does(difference: dict[str, Any]) -> None:
    assert result(difference["written"]) == difference["gives"]


def test_the_page_about_workflows_lists_what_differs_on_purpose() -> None:
    page = (Path(__file__).parents[3] / "docs/languages/workflows.md").read_text(encoding="utf-8")
    table = page.partition("<!-- differences -->\n")[2].partition("\n\n")[0].splitlines()[2:]
    rows = [f"| `{one['written']}` | {_shown(one['gives'])} | {one['why']} |" for one in DIFFERENCES]
    assert table == rows


def _shown(gives: str) -> str:
    return gives if gives in (FAILED, "a limit") else f"`{gives}`"


# the language's own suite


def cases(root: Path) -> Iterator[tuple[str, str, Any, dict[str, Any]]]:
    """Yield the name, the text and the document of each case, and the case."""
    for path in sorted((root / "groups").rglob("*.json")):
        read = json.loads(path.read_text(encoding="utf-8"))
        for number, case in enumerate(read if isinstance(read, list) else [read]):
            name = f"{path.parent.name}/{path.stem}" + (f"#{number}" if isinstance(read, list) else "")
            text = case["expr"] if "expr" in case else (path.parent / case["expr-file"]).read_text(encoding="utf-8")
            document = case.get("data", UNDEFINED)
            if case.get("dataset") is not None:
                document = json.loads((root / "datasets" / f"{case['dataset']}.json").read_text(encoding="utf-8"))
            yield name, text, document, case


def agrees(text: str, document: Any, case: dict[str, Any]) -> bool:
    try:
        found = outcome(text, case.get("bindings") or {}, document)
    except LimitExceeded:
        found = FAILED
    if "code" in case or "error" in case:
        return found is FAILED
    if case.get("unordered"):
        return isinstance(found, list) and sorted(map(json.dumps, found)) == sorted(map(json.dumps, case["result"]))
    return is_same(found, case.get("result", UNDEFINED))


@pytest.mark.deep
@pytest.mark.skipif(not SUITE, reason="set JSONATA_SUITE to the folder test/test-suite of jsonata-js")
def test_the_official_suite_agrees_except_for_what_is_refused_on_purpose() -> None:
    refused = [pattern for difference in DIFFERENCES for pattern in difference["cases"]]
    counted, wrong, used = 0, list[str](), set[str]()
    for name, text, document, case in cases(Path(SUITE)):
        holds = agrees(text, document, case)
        matching = {pattern for pattern in refused if fnmatch(name, pattern)}
        if matching:
            used.update(() if holds else matching)
            continue
        counted += 1
        if not holds:
            wrong.append(name)
    print(f"{counted - len(wrong)} of {counted} cases agree; others:", wrong)
    assert counted > 1_000, f"{SUITE} has only {counted} cases"
    # Whether the last two end in time depends on the machine.
    assert set(refused) - used <= {"performance/case000", "performance/case001"}, "these are not refused any more"
    assert len(wrong) <= counted * 0.01, wrong


# the reference implementation

VARIABLES: dict[str, Any] = {
    "input": {
        "a": [1, 2, 3],
        "b": {"c": "x", "d": [{"n": 1, "s": "b"}, {"n": 2, "s": "a"}, {"n": 1, "s": "c"}], "e": None},
        "f": [[1, 2], [3], []],
        "h": [5],
        "i": -1.5,
        "j": "Hello World",
        "k": [1, None, "z", {"n": None}],
        "m": {"n": [{"o": [1, 2]}, {"o": 3}, {"p": 4}]},
        "z": 0,
    }
}
ATOMS = """$input.a ¦ $input.b ¦ $input.b.d ¦ $input.b.d.n ¦ $input.b.d.s ¦ $input.f ¦ $input.h ¦ $input.i ¦ $input.j
    ¦ $input.k ¦ $input.z ¦ $input.m.n ¦ $input.m.n.o ¦ $input.x ¦ $input.b.e ¦ $input ¦ $input.* ¦ $input.**.n ¦ 1 ¦ 0
    ¦ -1 ¦ 2.5 ¦ 'a' ¦ '' ¦ null ¦ true ¦ [] ¦ {} ¦ $ ¦ 12345 ¦ -3 ¦ 'a-b' ¦ [1, 2] ¦ ['x'] ¦ 0.1"""
SHAPES = """□ ?? □ ¦ □ ?: □ ¦ -(□) ¦ -□ ¦ □ + □ ¦ □ - □ ¦ □ * □ ¦ □ & □ ¦ □ = □ ¦ □ != □ ¦ □ < □ ¦ □ >= □ ¦ □ and □
    ¦ □ or □ ¦ □ ? □ : □ ¦ [□, □] ¦ {'p': □, 'q': □} ¦ (□)[0] ¦ (□)[-1] ¦ (□)[1] ¦ (□)[n = 1] ¦ (□)[$ > 1] ¦ (□)[n]
    ¦ (□)[] ¦ (□).n ¦ (□).o ¦ (□).(n) ¦ (□).[n] ¦ (□).{'k': n} ¦ (□).$string() ¦ (□).* ¦ (□).** ¦ (□)[0].n[]
    ¦ ($v := □; [$v, $v]) ¦ ($v := □; $v.n) ¦ (□)^(n) ¦ (□)^(>n, s) ¦ (□)^($) ¦ (□){s: n} ¦ (□){'k': $count($)}
    ¦ (□)#$q.{'q': $q, 'v': n} ¦ □ ~> $count ¦ □ ~> $reverse ¦ □ ~> $distinct ¦ □ ~> |$|{'new': 1}|
    ¦ □ ~> |d|{'new': n}, 's'| ¦ $map(□, function($x) { $type($x) }) ¦ $map(□, function($x, $i) { [$x, $i] })
    ¦ $map(□, function($x) { $x.n }) ¦ $filter(□, function($x) { $x }) ¦ $reduce(□, function($p, $x) { $p & $x })
    ¦ $reduce(□, $append, []) ¦ $sort(□) ¦ $sort(□, function($p, $q) { $p.n > $q.n })
    ¦ $sort(□, function($p, $q) { true }) ¦ $sum(□) ¦ $max(□) ¦ $average(□) ¦ $string(□) ¦ $string(□, true)
    ¦ $number(□) ¦ $boolean(□) ¦ $not(□) ¦ $exists(□) ¦ $keys(□) ¦ $type(□) ¦ $spread(□) ¦ $merge(□) ¦ $append(□, □)
    ¦ $zip(□, □) ¦ $lookup(□, 'n') ¦ $each(□, function($v, $k) { $k & $v }) ¦ $sift(□, function($v) { $v })
    ¦ $single(□, function($x) { $x = 1 }) ¦ $join(□, '-') ¦ $length(□) ¦ $uppercase(□) ¦ $trim(□) ¦ $substring(□, 1)
    ¦ $substring(□, -2, 1) ¦ $substringBefore(□, 'o') ¦ $pad(□, 5) ¦ $pad(□, -5, '#') ¦ $contains(□, /l+/)
    ¦ $match(□, /(l)(o)?/) ¦ $split(□, /o/) ¦ $split(□, '-', 2) ¦ $replace(□, /(l)/, '[$1$0]') ¦ $floor(□) ¦ $ceil(□)
    ¦ $round(□) ¦ $round(□, 1) ¦ $abs(□) ¦ $power(□, 2) ¦ $formatBase(□, 2) ¦ $formatNumber(□, '#,##0.0#')
    ¦ $formatNumber(□, '0.0e0') ¦ $formatInteger(□, 'w') ¦ $fromMillis(□)"""


def words(text: str) -> list[str]:
    return [word.strip() for word in text.split("¦")]


def written(parts: tuple[str, list[str]]) -> str:
    shape, inner = parts
    for part in inner:
        shape = shape.replace("□", part, 1)
    return shape


expressions = st.recursive(
    st.sampled_from(words(ATOMS)),
    lambda inner: st.tuples(st.sampled_from(words(SHAPES)), st.lists(inner, min_size=3, max_size=3)).map(written),
    max_leaves=9,
)


@pytest.fixture(scope="module")
def reference() -> Iterator[Reference]:
    command = ["node", "-e", REFERENCE_PROGRAM, REFERENCE]
    with run_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Reference(process)


NO_REFERENCE = "set JSONATA_JS to the npm package `jsonata` (and install Node)"
with_reference = pytest.mark.skipif(not (REFERENCE and shutil.which("node")), reason=NO_REFERENCE)


@pytest.mark.deep
@with_reference
@settings(
    max_examples=3_000, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(expressions)
def test_random_expressions_give_what_the_reference_gives(reference: Reference, text: str) -> None:
    try:
        ours = outcome(text, VARIABLES)
    except LimitExceeded:
        return
    assert is_same(ours, reference.outcome(text, VARIABLES)), text


@pytest.mark.deep
@with_reference
@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference["written"])
def test_the_reference_gives_something_else_where_we_differ(reference: Reference, difference: dict[str, Any]) -> None:
    theirs = reference.outcome(difference["written"], {})
    assert (theirs if theirs is FAILED else json.dumps(theirs, ensure_ascii=False)) != difference["gives"]
