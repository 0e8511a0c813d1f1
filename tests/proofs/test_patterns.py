"""Patterns take time linear in the length of the text, whatever users write.

Patterns that users write run on RE2. Those of the package run on `re`, which backtracks, so each of them is proved to
be linear: all that are compiled on import, and all that are written inside of functions.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from backtracking import Use, Witness, classes_of, repeats_without_end, slow_text

import memoranda
from memoranda.abl.understanding.words import LONGEST
from memoranda.learning.statements import LANGUAGES, LONGEST_SENTENCE, rules_of
from memoranda.model.identifier import Identifier
from memoranda.retrieval.description import STAMP, vocabulary
from memoranda.runs.redaction import Redaction

ROOT = Path(memoranda.__file__).parent
CALLS: dict[str, Use | None] = {
    "compile": None,
    "search": "search",
    "sub": "search",
    "subn": "search",
    "split": "search",
    "findall": "search",
    "finditer": "search",
    "match": "match",
    "fullmatch": "fullmatch",
}
ALL: tuple[Use, ...] = ("search", "fullmatch")
DEEP = os.environ.get("MEMORANDA_DEPTH") == "deep"
AT_MOST = 0.1
"""Seconds of computing that a pattern over a bounded text may take for the worst text there is."""


def _gaps(text: str) -> str:
    return re.sub(r"([\s,]{20})[\s,]+", r"\1", text)


def _one_space(text: str) -> str:
    return " ".join(text.split())


BOUNDED: dict[str, Callable[[str], str]] = {
    "abl/understanding/rule_reader.py:_CHANGES": lambda text: _gaps(text[:LONGEST]),
    "abl/understanding/rule_reader.py:_SHOULD_BE": lambda text: _gaps(text[:LONGEST]),
    "abl/understanding/rule_reader.py:_DENIED": lambda text: _gaps(text[:LONGEST]),
    "abl/understanding/rule_reader.py:_NEXT": lambda text: _gaps(text[:600]),
    "abl/understanding/rule_reader.py:_CLOSING": lambda text: _gaps(text[:600]),
    "learning/statements.py:_CLAUSES": lambda text: _one_space(text[:LONGEST_SENTENCE]),
}
"""Patterns that are not linear, but see only short texts: what the code does to a text before they see it."""

OWN_TEXT = {
    "governance/detection.py:_CLASS": "the rules of the package",
    "testing/governance/memoranda_system.py:_MEMORY": "a context that the package made",
    "store/postgres/dialect.py:POSTGRES": "the statements of the package",
    "store/sql/dialect.py:_UPSERT": "the statements of the package",
    "store/postgres/migration.py:_INDEX": "the migrations of the package",
    "store/postgres/move.py:_INDEX": "the schema of the package",
    "client/generate.py": "the source of the client",
    "store/postgres/errors.py:_WHILE_CONNECTING": "what a database server says while a connection is made",
    "store/sql/errors.py:_SECRET_SETTING": "the address of the database, which the operator gives",
}
"""Patterns that never see what a user wrote."""

USES: dict[str, tuple[Use, ...]] = {
    "abl/understanding/answers.py:_PLACE_LEAD_INS": ("match",),
    "abl/understanding/answers.py:_ORIGIN_LEAD_INS": ("match",),
    "abl/understanding/answers.py:_OPENING": ("match",),
    "abl/understanding/answers.py:_LEAD_INS": ("match",),
    "abl/understanding/answers.py:_NAME_LEAD_INS": ("match",),
}
"""How patterns are used that are handed on instead of called by their names."""

MADE_OF_TEXT = {
    "retrieval/rank.py:_without": re.compile(r"\b(?:yesterday|last\ week)\b"),
    "learning/statements.py:rules_of": rules_of("en")[0].pattern,
    "model/identifier.py:__init__": Identifier("+49 151 23-45.67").pattern,
    "retrieval/description.py:_whole": re.compile(
        "|".join(pattern.pattern for pattern in vocabulary().say.values()), re.IGNORECASE
    ),
    "retrieval/description.py:vocabulary": vocabulary().everything,
    "retrieval/description.py:_with_stamp": re.compile(rf"(?<!\w)omega3{STAMP}"),
    "runs/redaction.py:__init__": Redaction(["email"]).pattern,
}
"""Functions that make a pattern of what they are given, with one that they make."""


class Found(NamedTuple):
    place: str
    pattern: re.Pattern[Any]
    uses: tuple[Use, ...]


@pytest.mark.slow
def test_every_pattern_is_linear_or_sees_only_short_texts() -> None:
    rules = [rule.pattern for language in LANGUAGES for rule in rules_of(language)]
    assert len(rules) > 100
    found = [*_compiled_on_import(), *_written_in_functions()]
    found += [Found("learning/statements.py:rules_of", rule, ("fullmatch",)) for rule in rules]
    assert len({one.place.partition(":")[0] for one in found}) > 60
    slow: dict[str, list[tuple[re.Pattern[Any], Use, Witness]]] = {}
    for one in found if DEEP else _some_of_each(found):
        for use in one.uses:
            witness = slow_text(one.pattern, use)
            if witness is not None:
                slow.setdefault(one.place, []).append((one.pattern, use, witness))
            elif repeats_without_end(one.pattern):
                for run in _runs(one.pattern):
                    _check_growth(one, use, run)
    own = {place for place in slow if place in OWN_TEXT or place.partition(":")[0] in OWN_TEXT}
    bounded = {place for place in slow if place in BOUNDED}
    wrong = {place: ways for place, ways in slow.items() if place not in own | bounded}
    assert not wrong, "make them possessive, or begin a search where the run begins: " + repr(wrong)
    assert bounded == BOUNDED.keys(), "linear now, so no longer to be listed"
    for place in bounded:
        for pattern, use, witness in slow[place]:
            text = BOUNDED[place](witness.text(10_000) + "\0")
            taken = min(_taken(pattern, use, text) for _ in range(3))
            assert taken < AT_MOST, (place, witness, taken)


def _some_of_each(found: list[Found]) -> list[Found]:
    """Return every pattern of a place that has few; of a long table, which is built from the same parts, a sample."""
    places: dict[str, list[Found]] = {}
    for one in found:
        places.setdefault(one.place, []).append(one)
    return [one for ones in places.values() for one in ones[:: 1 + len(ones) // 12]]


UNMEASURED = (r"(a*)*b", r"(?:\w+\s*)+", r"(?:a|aa)*b", r"[x]{0,900}y")
"""Three that never end, and one whose bound is below the lengths that are measured."""


@pytest.mark.parametrize(
    ("pattern", "use", "slow"),
    [
        (r"\s+$", "search", True),
        (r"\s+", "search", False),
        (r"\s*,", "search", True),
        (r"(?<!\s)\s*+,", "search", False),
        (r"(a*)*b", "match", True),
        (r"(?:\w+\s*)+", "fullmatch", True),
        (r"(?:\w++\s*)+", "fullmatch", False),
        (r"\b\w+:", "search", False),
        (r"\w+:", "search", True),
        (r"\w+:", "match", False),
        (r'"[^"]*"', "search", False),
        (r'"(?:[^"\\]|\\.)*"', "search", True),
        (r'"(?:[^"\\]|\\.)*"', "match", False),
        (r"(?m)^\s*>", "search", True),
        (r"(?m)^[ \t]*>", "search", False),
        (r"(?m)^-{2,}[^\n]*message", "search", True),
        (r"a.*b.*c", "match", True),
        (r"\d+\.?\d*x", "match", True),
        (r"\d+(?:\.\d*)?x", "match", False),
        (r"(?:a|aa)*b", "match", True),
        (r"(?:ab|cd)*e", "match", False),
        (r"[x]{0,900}y", "search", True),
        (r"(?=.*b)a", "search", True),
    ],
)
def test_the_proof_itself(pattern: str, use: Use, slow: bool) -> None:
    compiled = re.compile(pattern)
    witness = slow_text(compiled, use)
    assert (witness is not None) == slow
    if witness is not None and pattern not in UNMEASURED:
        short, long = (min(_taken(compiled, use, witness.text(n) + "\0") for _ in range(3)) for n in (1_000, 4_000))
        assert long > 6 * short


def _check_growth(one: Found, use: Use, run: str) -> None:
    """Compare 4,000 characters with 16,000: linear is 4 times the time, quadratic 16 times and half a second."""
    short, long = ((run * (length // len(run))) + "\0" for length in (4_000, 16_000))
    if _taken(one.pattern, use, long) < 0.05:
        return
    ratios = (_taken(one.pattern, use, long) / max(_taken(one.pattern, use, short), 1e-5) for _ in range(3))
    assert any(ratio < 9 for ratio in ratios), (one.place, one.pattern.pattern, use, run)


def _runs(pattern: re.Pattern[Any]) -> list[str]:
    chars = classes_of(pattern)[:24]
    runs = [*chars, *(first + second for first, second in pairwise(chars))]
    return runs if DEEP else runs[::6]  # the proof holds for all; to measure only confirms it


def _taken(pattern: re.Pattern[Any], use: Use, text: str) -> float:
    given: Any = text.encode("latin-1", "replace") if isinstance(pattern.pattern, bytes) else text
    begin = time.thread_time()
    if use == "search":
        pattern.sub(given[:0], given)
    elif use == "match":
        pattern.match(given)
    else:
        pattern.fullmatch(given)
    return time.thread_time() - begin


# --- where the patterns are


def _compiled_on_import() -> Iterator[Found]:
    script = Path(__file__).parents[1] / "support" / "compiled_patterns.py"
    told = subprocess.run([sys.executable, script, ROOT], check=True, capture_output=True, text=True).stdout
    for file, line, text, is_bytes, flags in json.loads(told):
        name, uses = _name_and_uses(file, line)
        source = text.encode("latin-1") if is_bytes else text
        place = f"{file}:{name}"
        yield Found(place, re.compile(source, flags & ~re.UNICODE if is_bytes else flags), USES.get(place, uses))


def _written_in_functions() -> Iterator[Found]:
    for path in sorted(ROOT.rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        tree = _tree(file)
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            for call in (node for node in ast.walk(function) if _is_call_of_re(node)):
                assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
                use = CALLS[call.func.attr]
                place = f"{file}:{function.name}"
                if isinstance(call.args[0], ast.Constant):
                    written: Any = call.args[0].value
                    yield Found(place, re.compile(written), (use,) if use else ALL)
                elif place in MADE_OF_TEXT:
                    yield Found(place, MADE_OF_TEXT[place], (use,) if use else ALL)
                else:
                    assert place in KNOWN_MAKERS, f"{place} makes a pattern that no test sees"


KNOWN_MAKERS = {
    "retrieval/analysis/query.py:_pattern",
    "retrieval/analysis/words.py:_every_script",
    "retrieval/embed/wordllama.py:__init__",
}
"""Functions that make patterns of the tables of their modules: on import, or of the words of a model."""


def _is_call_of_re(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in CALLS
    )


_trees: dict[str, ast.Module] = {}


def _tree(file: str) -> ast.Module:
    if file not in _trees:
        text = (ROOT / file).read_text("utf-8")
        # Under another name the calls would not be found.
        assert not re.search(r"^\s*(?:from re import|import re as)", text, re.MULTILINE), file
        _trees[file] = ast.parse(text if re.search(r"\bre\.", text) else "")
    return _trees[file]


def _name_and_uses(file: str, line: int) -> tuple[str, tuple[Use, ...]]:
    """Return what the pattern of a line is called, and how it is used: in every way where it is handed on."""
    for node in _tree(file).body:
        if not node.lineno <= line <= (node.end_lineno or 0):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if not isinstance(target, ast.Name):
            return getattr(node, "name", ""), ALL
        if not _is_call_of_re(getattr(node, "value", ast.Pass())):
            return target.id, ALL
        return target.id, _uses_of(file, target.id)
    return "", ALL


def _uses_of(file: str, name: str) -> tuple[Use, ...]:
    called = {
        id(node.value): node.attr
        for node in ast.walk(_tree(file))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name
    }
    loads = [
        node
        for node in ast.walk(_tree(file))
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    ]
    uses = [CALLS.get(called.get(id(node), "")) for node in loads]
    known: list[Any] = [use for use in dict.fromkeys(uses) if use is not None]
    return ALL if not uses or None in uses or not name.startswith("_") else tuple(known)
