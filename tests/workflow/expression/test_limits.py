"""What an expression may ask for: each limit stops one that goes too far, and lets its neighbour through."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from memoranda.errors import EvaluationFailed, LimitExceeded, SourceError
from memoranda.workflow.jsonata import compile, evaluate
from memoranda.workflow.jsonata_functions import Bounds

PATIENT = Bounds(seconds=60)
"""For limits that have to be reached before the time is over, however slow the machine is."""

TOO_MUCH = {
    "a list of ten million": ("[1..10000000]", "$count([1..1000])", 1000),
    "a call that never comes back": (
        "($f := function($n) { 1 + $f($n) }; $f(1))",
        "($f := function($n) { $n = 0 ? 0 : 1 + $f($n - 1) }; $f(20))",
        20,
    ),
    "a text of a billion": ("$pad('x', 1000000000)", "$length($pad('x', 1000))", 1000),
    "a text that doubles": (
        "$reduce([1..60], function($a, $b) { $a & $a }, 'x')",
        "$length($reduce([1..8], function($a, $b) { $a & $a }, 'x'))",
        256,
    ),
    "a list that doubles": (
        "$reduce([1..60], function($a, $b) { $append($a, $a) }, [1, 2])",
        "$count($reduce([1..8], function($a, $b) { $append($a, $a) }, [1, 2]))",
        512,
    ),
    "a tree that doubles": (
        "$reduce([1..60], function($a, $b) { {'l': $a, 'r': $a} }, 1)",
        "$reduce([1..2], function($a, $b) { {'l': $a} }, 1).l.l",
        1,
    ),
    "lists in lists that double": (
        "$string($reduce([1..60], function($a, $b) { [[$a], [$a]] }, 1))",
        "$string($reduce([1..2], function($a, $b) { [[$a]] }, 1))",
        "[[[1]]]",
    ),
    "a text joined of long ones": (
        "$join($map([1..20000], function($n) { $input.long }))",
        "$length($join($map([1..20], function($n) { 'abc' })))",
        60,
    ),
    "a replacement that grows": (
        "$replace($input.long, 'x', $input.long & '!')",
        "$length($replace('xx', 'x', $input.long))",
        2000,
    ),
    "a replacement by groups that grows": (
        "$replace($input.long, /x+/, $pad('', 4000, '$0'))",
        "$length($replace('xxx', /x+/, $pad('', 20, '$0')))",
        30,
    ),
    "a list of a list, all of it each time": (
        "[1..5000].([1..5000])",
        "$count([1..50].([1..50]))",
        2500,
    ),
    "a number in letters that never ends": ("$formatInteger(1e300, 'I')", "$formatInteger(12, 'I')", "XII"),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_grows_too_large_is_stopped_and_what_does_not_is_not(name: str) -> None:
    text, fine, value = TOO_MUCH[name]
    variables = {"input": {"long": "x" * 1000}}
    small = compile(fine).evaluate(variables, bounds=PATIENT)
    assert small == value
    with pytest.raises(LimitExceeded):
        compile(text).evaluate(variables, bounds=PATIENT)


def test_an_expression_that_never_ends_is_stopped_by_the_clock() -> None:
    text = "($f := function($n) { $n = $input.last ? 'end' : $f($n + 1) }; $f(1))"
    assert compile(text).evaluate({"input": {"last": 50}}, bounds=PATIENT) == "end"
    with pytest.raises(LimitExceeded, match="did not end within") as raised:
        compile(text).evaluate({"input": {"last": -1}}, bounds=Bounds(seconds=0.05, work=10**12))
    assert raised.value.limit == 0.05


def test_an_expression_that_never_ends_is_stopped_by_its_work_too() -> None:
    text = "($f := function($n) { $f($n + 1) }; $f(1))"
    with pytest.raises(LimitExceeded, match="the work of the expression"):
        compile(text).evaluate({}, bounds=Bounds(seconds=600, work=5_000))


def test_functions_that_call_one_another_too_deep_are_stopped_before_python_is() -> None:
    text = "($f := function($n) { $n = 0 ? 0 : 1 + $f($n - 1) }; $f($input))"
    shallow = Bounds(seconds=60, depth=40)
    assert compile(text).evaluate({"input": 5}, bounds=shallow) == 5
    with pytest.raises(LimitExceeded, match="depth of the expression's calls is larger than the limit of 40"):
        compile(text).evaluate({"input": 20}, bounds=shallow)


def test_a_limit_cannot_be_caught_inside_the_expression() -> None:
    with pytest.raises(LimitExceeded):
        evaluate("false or $exists([1..10000000])")
    with pytest.raises(LimitExceeded):
        evaluate("true and $pad('x', 1000000000) = ''")


def test_a_result_is_measured_whole_even_where_a_variable_gives_it() -> None:
    few = Bounds(items=10, text=20)
    assert compile("$input").evaluate({"input": [1] * 9}, bounds=few) == [1] * 9
    for variable in ([1] * 10, {str(n): n for n in range(11)}, ["x" * 30], "y" * 21):
        with pytest.raises(LimitExceeded):
            compile("$input").evaluate({"input": variable}, bounds=few)


def test_values_that_are_equal_in_name_only_are_compared_in_time() -> None:
    items = [{"n": n} for n in range(20_000)]
    distinct: Any = compile("$distinct($input)").evaluate({"input": items}, bounds=PATIENT)
    assert len(distinct) == 20_000
    assert compile("$count($distinct($input))").evaluate({"input": [{"n": 1}] * 20_000}, bounds=PATIENT) == 1


def test_a_pattern_that_would_take_for_ever_elsewhere_ends() -> None:
    assert compile("$contains($input, /^(a+)+$/)").evaluate({"input": "a" * 5000 + "b"}, bounds=PATIENT) is False
    assert compile("$contains($input, /^(a+)+$/)").evaluate({"input": "a" * 5000}, bounds=PATIENT) is True


def test_an_expression_that_is_too_long_or_too_deep_is_refused_before_it_runs() -> None:
    with pytest.raises(SourceError, match="characters, the limit is"):
        compile("1" + " + 1" * 10_000)
    for deep in ("(" * 5000 + "1" + ")" * 5000, "1" + " + 1" * 400, "-" * 4000 + "1", "[" * 300 + "]" * 300):
        with pytest.raises(SourceError, match="levels deep"):
            compile(deep)
    assert evaluate("(" * 30 + "1" + ")" * 30) == evaluate("0" + " + 0" * 100 + " + 1") == 1


def test_a_value_that_is_nested_without_end_is_refused() -> None:
    deep: Any = 1
    for _ in range(3000):
        deep = [deep]
    with pytest.raises(LimitExceeded):
        evaluate("$input", {"input": deep})
    for text in ("$map($input, function($x) { $x })", "$string($input)", "$input = $input", "$input ~> |$|{}|"):
        with pytest.raises(LimitExceeded):
            evaluate(text, {"input": deep})
    assert evaluate("$input", {"input": [[[1]]]}) == [[[1]]]


def test_the_matches_of_a_pattern_are_counted_and_timed() -> None:
    few = Bounds(seconds=60, items=5_000)
    for text in ("$match($input, /a/)", "$split($input, /a/)"):
        assert compile(f"$count({text})").evaluate({"input": "a" * 400}, bounds=few) in (400, 401)
        with pytest.raises(LimitExceeded):
            compile(text).evaluate({"input": "a" * 6_000}, bounds=few)
    with pytest.raises(LimitExceeded, match="did not end within"):
        compile("$replace($input, /a/, 'b')").evaluate({"input": "a" * 50_000}, bounds=Bounds(seconds=0.01))
    endless = (
        "($m := function($t) { {'match': '', 'start': 0, 'end': 0, 'groups': [], 'next': $m} }; $contains('a', $m))"
    )
    assert evaluate(endless) is True
    with pytest.raises(LimitExceeded):
        compile(endless.replace("$contains", "$split")).evaluate({}, bounds=Bounds(seconds=60, items=500))


def test_numbers_beyond_json_are_refused() -> None:
    for text in ("$input", "$input + 1", "$number('1e400')", "$power(10, 400)", "$sum([1e308, 1e308])"):
        with pytest.raises(EvaluationFailed):
            evaluate(text, {"input": 10**400})
    assert evaluate("$input + 1", {"input": 10**30}) == 1e30


def test_others_in_the_same_thread_can_use_the_library_too() -> None:
    from jsonata.jsonata import Jsonata

    theirs = Jsonata("$now() != '' and a = 1")
    assert evaluate("$now() != ''") is True
    assert theirs.evaluate({"a": 1}) is True
    assert compile("$sum($input)").evaluate({"input": [1, 2]}) == 3
    assert theirs.evaluate({"a": 2}) is False


def test_the_library_changes_nothing_for_the_rest_of_the_process() -> None:
    program = (
        "import sys\nbefore = sys.getrecursionlimit()\n"
        "from memoranda.workflow import evaluate\n"
        "assert evaluate('1 + 1') == 2\n"
        "print(before == sys.getrecursionlimit())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
