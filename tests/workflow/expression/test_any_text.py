"""Any text gives a program or an error, and any program gives a value or a typed error."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoranda.errors import EvaluationFailed, LimitExceeded, SourceError
from memoranda.workflow.jsonata import UNDEFINED, compile
from memoranda.workflow.jsonata_functions import NAMES, Bounds

RUNS = 3_000 if os.environ.get("MEMORANDA_DEPTH") == "deep" else 100
BOUNDS = Bounds(seconds=5, work=20_000, items=2_000, text=5_000)
VARIABLES: dict[str, Any] = {
    "input": {"a": [1, {"b": "x"}, None], "b": "text", "c": {"a": True}, "d": -1.5},
    "context": {"memory": {}},
    "output": {},
}

depth = settings(max_examples=RUNS, deadline=None, suppress_health_check=[HealthCheck.too_slow])
signs = st.text(st.sampled_from("ab$.()[]{}'\"`/\\+-*%&=<>!?:;,~|^@# \n01é\ud800"), max_size=30)
WORDS = """$input $input.a $input.b .a .b [0] [b='x'] + - & * ** % = in and or ? : ( ) { } [ ] , ; 'x' 1 -1 null true
    .. ~> := $x ^( > function($x){ | /a+/i #$i @$j $ $$""".split()
words = st.sampled_from([*WORDS, *(f"${name}(" for name in NAMES)])


def judge(text: str) -> str:
    try:
        program = compile(text)
    except SourceError as fault:
        assert 0 <= fault.start <= fault.end <= len(text) + 1
        return "unreadable"
    before = json.dumps(VARIABLES)
    try:
        value = program.evaluate(VARIABLES, bounds=BOUNDS)
    except EvaluationFailed as fault:
        assert fault.message and 0 <= fault.start <= fault.end
        return "failed"
    except LimitExceeded:
        return "stopped"
    finally:
        assert json.dumps(VARIABLES) == before
    if value is not UNDEFINED:
        json.dumps(value, allow_nan=False)
    return "value"


def test_the_judge_knows_each_end() -> None:
    assert [judge(text) for text in ("1 + 1", "1 +", "1/0", "[1..9999]")] == [
        "value",
        "unreadable",
        "failed",
        "stopped",
    ]


@depth
@given(signs)
def test_any_signs(text: str) -> None:
    judge(text)


@pytest.mark.slow
@depth
@given(st.lists(words, max_size=14))
def test_any_words(chosen: list[str]) -> None:
    judge(" ".join(chosen))


ARGUMENTS = """$input $input.a $input.b $input.c $input.d null [] {} '#,##0' 0 -3 1e15 $nothing /a/ true 'a' '[Y0001]'
    2.5 [1..3] $sum function($x){$x} function($x,$y){$y}""".split()
arguments = st.sampled_from(ARGUMENTS)


@pytest.mark.slow
@depth
@given(st.sampled_from(NAMES), st.lists(arguments, max_size=4))
def test_any_function_with_any_arguments(name: str, given_: list[str]) -> None:
    judge(f"${name}({', '.join(given_)})")
