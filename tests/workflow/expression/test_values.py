"""The values of expressions: plain JSON as in JSONata, or nothing."""

from __future__ import annotations

import copy
import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.errors import EvaluationFailed
from memoranda.lang.expression.dialect import ExpressionRun
from memoranda.workflow.jsonata import UNDEFINED, Evaluation, compile, evaluate
from memoranda.workflow.jsonata_functions import DEFAULT_BOUNDS

VARIABLES: dict[str, Any] = {
    "input": {
        "name": "Ines",
        "books": [{"title": "Tides", "price": 4, "lent": True}, {"title": "Grain", "price": 9}],
        "nothing": None,
        "empty": [],
        "single": ["one"],
        "first name": "Ines Marie",
    },
    "context": {"memory": {"reader_card": {"language": "pt"}}},
    "output": {"lend": {"due": "2026-05-01"}},
    "iteration": {"item": {"title": "Tides"}, "index": 0},
    "accumulator": 12,
    "result": {"ok": True},
}

VALUES: dict[str, Any] = {
    "$input.name": "Ines",
    "$input.`first name`": "Ines Marie",
    "$context.memory.reader_card.language": "pt",
    "$output.lend.due": "2026-05-01",
    "$iteration.item.title & $iteration.index": "Tides0",
    "$accumulator + 1": 13,
    "$result.ok": True,
    "$input.nothing": None,
    "$input.empty": [],
    "$input.single": ["one"],
    "$input.books.title": ["Tides", "Grain"],
    "$input.books[price > 5].title": "Grain",
    "$input.books[lent]": {"title": "Tides", "price": 4, "lent": True},
    "$input.books[price > 5].title[]": ["Grain"],
    "$input.books^(>price).title": ["Grain", "Tides"],
    "$input.books{title: price}": {"Tides": 4, "Grain": 9},
    "$input.books#$at.(title & $at)": ["Tides0", "Grain1"],
    "$input.books.title.(% .price & '')": ["4", "9"],
    "[5, 6, 7][$ > 5]": [6, 7],
    "$input.books#$at[$at = 1].title": "Grain",
    "$input.name[]": ["Ines"],
    "$sum($input.books.price)": 13,
    "$count($input.empty)": 0,
    "'Hello ' & ($context.memory.reader_card.name ? $context.memory.reader_card.name : 'you')": "Hello you",
    "$exists($context.memory.reader_card.name)": False,
    "$exists($input.nothing)": True,
    "{'a': $input.name, 'b': $input.missing, 'c': null}": {"a": "Ines", "c": None},
    "[1, $input.missing, null, 2]": [1, None, 2],
    "[1..4]": [1, 2, 3, 4],
    "$map([1, 2], function($n) { $n * 10 })": [10, 20],
    "$map([1], function($n) { $n * 10 })": 10,
    "($twice := function($n) { $n * 2 }; $twice(21))": 42,
    "($f := function($n) { $n < 2 ? 1 : $n * $f($n - 1) }; $f(20))": 2432902008176640000,
    "$input.books ~> |$|{'seen': true}, 'price'|": [
        {"title": "Tides", "lent": True, "seen": True},
        {"title": "Grain", "seen": True},
    ],
    "$input.name = 'Ines' and $input.books": True,
    "false and 1/0": False,
    "$input.missing or $input.name": True,
    "null or 0": False,
    "5.5 % 2": 1.5,
    "-7 % 3": -1,
    "0.1 + 0.2": 0.30000000000000004,
    "$string(0.1 + 0.2)": "0.3",
    "$string({'é': [1e21, 1e-7, 0.00001, 1.5, true, null]})": '{"é":[1e+21,1e-7,0.00001,1.5,true,null]}',
    "$string({'a': [1]}, true)": '{\n  "a": [\n    1\n  ]\n}',
    "'x' & ['é', 1]": 'x["é",1]',
    "$lowercase('STRASSE ß')": "strasse ß",
    "$replace('a.b.c', '.', '$0')": "a$0b$0c",
    "$replace('john smith', /(\\w+) (\\w+)/, '$2, $1')": "smith, john",
    "$replace('aaa', /a/, 'b', 2)": "bba",
    "$replace('265', /[0-9]/, function($m) { $string($number($m.match) + 1) })": "376",
    "$replace('a', /a/, '$$$')": "$$",
    "$replace('xax', /(a)/, '[$1$12$3]')": "x[aa2]x",
    "$match('a1b22', /[a-z]([0-9]+)/).groups": ["1", "22"],
    "$split('a, b ,c', /\\s*,\\s*/)": ["a", "b", "c"],
    "$contains('LISBOA', /lis/i)": True,
    "$distinct([1, 1.0, true, '1', {'a': 1, 'b': 2}, {'a': 1, 'b': 2}])": [1, True, "1", {"a": 1, "b": 2}],
    "true in [1, 2]": False,
    "1 in [1, 2]": True,
    "{'a': 1} in [{'a': 1}]": True,
    "1 in $input.missing": False,
    "$shuffle([7])": [7],
    "$distinct('a')": "a",
    "$join(['a', 'b'], '-')": "a-b",
    "$pad('7', -3, '0')": "007",
    "$formatInteger(12, 'w')": "twelve",
    "$sort([3, 1, 2])": [1, 2, 3],
    "$keys($input.books)": ["title", "price", "lent"],
    "$input.books.**.price": [4, 9],
    "$count($input.*)": 6,
    "($square := $power(?, 2); $square(5))": 25,
    "$fromMillis(0)": "1970-01-01T00:00:00.000Z",
    "{'f': function($x) { $x }, 'y': 1}": {"y": 1},
}


@pytest.mark.parametrize("text", VALUES)
def test_an_expression_has_its_value(text: str) -> None:
    value = compile(text).evaluate(VARIABLES)
    assert (value, type(value)) == (VALUES[text], type(VALUES[text]))
    assert json.loads(json.dumps(value, allow_nan=False)) == value


@pytest.mark.parametrize(
    "text",
    [
        "$input.missing",
        "$input.missing.deeper",
        "$replace($nobody, 'a', 'b')",
        "$join($nobody)",
        "$lowercase($nobody)",
        "$input.name.deeper",
        "$nobody",
        "$input.books[9]",
        "name",
        "*",
        "$.a",
    ],
)
def test_a_path_that_leads_nowhere_is_undefined_and_no_error(text: str) -> None:
    assert compile(text).evaluate(VARIABLES) is UNDEFINED
    assert compile(f"$exists({text})").evaluate(VARIABLES) is False


def test_undefined_counts_as_false_and_shows_its_name() -> None:
    assert not UNDEFINED
    assert repr(UNDEFINED) == "UNDEFINED"
    assert UNDEFINED is not None


def test_without_an_input_document_there_is_none() -> None:
    for text in ("$", "$$", "$string()", "$length()", "**", "$keys()"):
        assert evaluate(text, VARIABLES) is UNDEFINED, text


def test_an_input_document_is_what_bare_names_are_fields_of() -> None:
    document = {"name": "Ines", "list": [1, None, {"n": None}]}
    found = {
        text: compile(text).evaluate({"x": 2}, document=document) for text in ("name", "$.name", "$$.list.n", "$x")
    }
    assert found == {"name": "Ines", "$.name": "Ines", "$$.list.n": None, "$x": 2}
    assert compile("$").evaluate({}, document=None) is None
    # A list is one document.
    assert compile("$count($)").evaluate({}, document=[1, 2, 3]) == 3
    assert compile("$[1]").evaluate({}, document=[1, 2, 3]) == 2


def test_a_program_is_compiled_once_for_a_text() -> None:
    assert compile("$input.a + 1") is compile("$input.a + 1")
    assert compile("$input.a + 1") is not compile("$input.a + 2")


CHANGING = [
    "$input.empty{'a': 1}",
    "$input.books ~> |$|{'title': 'x'}|",
    "$append($input.books, 1)",
    "$reverse($input.books)",
    "$sort($input.books.price)",
    "$shuffle($input.books)",
    "($input.books)",
]


@pytest.mark.parametrize("text", CHANGING)
def test_nothing_changes_the_variables_and_results_share_nothing_with_them(text: str) -> None:
    before = copy.deepcopy(VARIABLES)
    value = compile(text).evaluate(VARIABLES)
    if isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                item["changed"] = True
        value.append("changed")
    assert before == VARIABLES
    whole: Any = compile("$input").evaluate(VARIABLES)
    whole["books"][0]["title"] = "changed"
    assert before == VARIABLES


# Each of these was wrong once; the library alone has most of them wrong.
MENDED: dict[str, Any] = {
    # A default takes what is there, whatever selects it.
    "$input.array[1] ?? 'none'": 20,
    "$input.array[-1] ?? 'none'": 30,
    "$input.array[9] ?? 'none'": "none",
    "$input.items[-1].n ?: 'none'": 3,
    "$input.items[n = 2].s ?: 'none'": "b",
    "$input.items[n = 9].s ?: 'none'": "none",
    "$input.nested[1][0] ?? 'none'": 3,
    "$input.nothing ?? 'none'": None,
    "$input.nothing ?: 'none'": "none",
    "-5 ?: 99": -5,
    "-5 ?? 99": -5,
    "-$input.array[0] ?: 99": -10,
    "0 ?: -(-7)": 7,
    "$input.missing ?: $input.array[2] ?: 1": 30,
    "($f := function($n) { $n > 5000 ? $n : $missing ?? $f($n + 1) }; $f(0))": 5001,
    "$input.array[-1.5]": 20,
    "$input.array[$input.half]": 30,
    # Integers are exact.
    "'order ' & 9007199254740993": "order 9007199254740993",
    "'order ' & $input.id": "order 9007199254740993",
    "$string($input.id)": "9007199254740993",
    "$string([$input.id, -9223372036854775807])": "[9007199254740993,-9223372036854775807]",
    "{$string($input.id): 1}": {"9007199254740993": 1},
    "$number('9007199254740993')": 9007199254740993,
    "-9007199254740993": -9007199254740993,
    "-$input.id": -9007199254740993,
    "$input.id + 2": 9007199254740995,
    "$input.id * 3 - $input.id": 18014398509481986,
    "$input.id % 10": 3,
    "$input.id / 1": 9007199254740993,
    "$input.id = 9007199254740992": False,
    "$input.id > 9007199254740992": True,
    "$input.id > 9007199254740992.0": True,
    "$sum([$input.id, 2])": 9007199254740995,
    "$max([$input.id, 9007199254740992])": 9007199254740993,
    "$abs(-9007199254740993)": 9007199254740993,
    "$round($input.id)": 9007199254740993,
    "$floor($input.id)": 9007199254740993,
    "$formatBase($input.id, 16)": "20000000000001",
    "$formatNumber($input.id, '#,##0')": "9,007,199,254,740,993",
    "$power(3, 40)": 12157665459056928801,
    "$sort([$input.id, 9007199254740992])": [9007199254740992, 9007199254740993],
    "$distinct([$input.id, 9007199254740992])": [9007199254740993, 9007199254740992],
    "$input.items ~> |$[0]|{'id': $$.missing ?? 9007199254740993}|": [
        {"n": 1, "s": "b", "id": 9007199254740993},
        {"n": 2, "s": "b"},
        {"n": 3, "s": "a"},
    ],
    "$string(1e20)": "100000000000000000000",
    "$string(12345678901234567890.0)": "12345678901234567000",
    # What is equal keeps its order.
    "$sort($input.items, function($l, $r) { $l.s > $r.s }).n": [3, 1, 2],
    "$input.items^(s).n": [3, 1, 2],
    "$input.items^(>s).n": [1, 2, 3],
    "$sort([3, 1, 2], function($l, $r) { true })": [2, 1, 3],
    # A function is an empty text, within a value too.
    "$string(function($x) { $x })": "",
    "$string($sum)": "",
    "'a' & $sum & /x/ & 'b'": "ab",
    "$string({'f': $sum, 'l': [function() { 1 }]})": '{"f":"","l":[""]}',
    # Null is a value wherever it is, and no text or number.
    "$map($input.nulls, function($x) { $type($x) })": ["number", "null", "object"],
    "$count($input.nulls)": 3,
    "$input.nulls[$ = null]": None,
    "$input.nulls = [1, null, {'n': null}]": True,
    "$input.nulls.n": None,
    "$each({'a': null}, function($v, $k) { $k & $v })": "anull",
    # Regular expressions are functions, and functions can be matchers.
    "$filter(['abc', 'xyz'], /b/)": "abc",
    "/b(c)?/('abc').groups": ["c"],
    "$match('abab', /b/, 1)": {"match": "b", "index": 1, "groups": []},
    "$split('a1b22c', /([0-9])+/)": ["a", "b", "c"],
    "$replace('abc', function($t) { $t = 'abc' ? {'match': 'b', 'start': 1, 'end': 2, 'groups': [], "
    "'next': function() { $missing }} }, '-')": "a-c",
    # Texts and numbers as the language has them.
    "$length('\\uD834\\uDD1E')": 1,
    "$substring('a😀b', 1, 1)": "😀",
    "$substring('Hello', 1.5, 2.7)": "ell",
    "$number('0x1F')": 31,
    "$round(-2.5)": -2,
    "$formatNumber(-1.5, '0')": "-2",
    "$formatNumber(7, '#.##')": "7.0",
    "$formatNumber(0.123, '#.e9')": "0.1e0",
    "$formatNumber(1234.5, '#,##0.00;(#)')": "1,234.50",
    "$formatInteger(-1.5, 'w')": "-two",
    "$toMillis('2018-02')": 1517443200000,
    "$millis() = $millis() and $now() = $now()": True,
}


@pytest.mark.parametrize("text", MENDED)
def test_an_expression_is_right_where_it_was_wrong(text: str) -> None:
    given = {
        "array": [10, 20, 30],
        "items": [{"n": 1, "s": "b"}, {"n": 2, "s": "b"}, {"n": 3, "s": "a"}],
        "nested": [[1, 2], [3]],
        "nothing": None,
        "nulls": [1, None, {"n": None}],
        "id": 9007199254740993,
        "half": -0.5,
    }
    value = compile(text).evaluate({"input": given})
    assert (value, type(value)) == (MENDED[text], type(MENDED[text]))


@pytest.mark.parametrize(
    "text",
    ["$length(null)", "$sum(null)", "$map([1], $uppercase)", "$number(' 5 ')", "$toMillis('2018-02-03 11:15:33')"],
)
def test_what_the_language_refuses_has_no_value(text: str) -> None:
    with pytest.raises(EvaluationFailed):
        evaluate(text)
    assert evaluate("$length('null')") == 4


def test_a_default_evaluates_its_left_side_once() -> None:
    run = ExpressionRun()
    compile("$random() + 1 ?: 0").evaluate({}, run=run)
    compile("$random() ?? 0").evaluate({}, run=run)
    assert len(run.drawn) == 2


def test_large_numbers_stay_numbers_of_json() -> None:
    assert evaluate("$input", {"input": 2**60 + 1}) == 2**60 + 1
    huge = evaluate("$power(10, 300)")
    assert isinstance(huge, float) and huge == 1e300


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@given(json_values, st.lists(st.sampled_from("abc"), max_size=3))
def test_a_plain_path_gives_what_the_library_gives(value: Any, fields: list[str]) -> None:
    text = ".".join(["$input", *fields])
    program = compile(text)
    # The same path in brackets is none that is followed directly.
    other = compile(f"({text})")
    assert program.evaluate({"input": value}) == other.evaluate({"input": value})
    raw = Evaluation({"input": value}, DEFAULT_BOUNDS, ExpressionRun())
    paths = [("input",)]
    assert raw.raw(other._tree, paths) == raw.raw(program._tree, paths)  # pyright: ignore[reportPrivateUsage]


def test_threads_share_programs() -> None:
    program = compile("$sum($map($input.n, function($x) { $x * $input.by }))")
    found: dict[int, set[Any]] = {}

    def work(by: int) -> None:
        found[by] = {program.evaluate({"input": {"n": [1, 2, 3], "by": by}}) for _ in range(100)}

    threads = [threading.Thread(target=work, args=(by,)) for by in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {by: {6 * by} for by in range(8)}
