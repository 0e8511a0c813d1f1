"""What each operator of ABL means, one row for each rule."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.abl.expression.compiler import compile_expression, evaluate
from memoranda.errors import InvalidValue, LimitExceeded
from memoranda.lang.expression.dialect import ExpressionRun
from memoranda.testing.fakes import FakeClock

GUEST: dict[str, Any] = {
    "name": "Ada",
    "nights": 3,
    "rate": 100,
    "budget": "250",
    "empty": "",
    "nothing": None,
    "tags": ["sea", "quiet"],
    "room": {"beds": [{"size": 90}, {"size": 140}], "length": 7},
    "vip": True,
    "input": "2",
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nights * rate", 300),
        ("nights * rate * 0.12", 36),
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 2 - 3", 5),
        ("-nights + 1", -2),
        ("- -nights", 3),
        ("7 / 2", 3.5),
        ("6 / 2", 3),
        ("7 % 3", 1),
        ("-7 % 3", -1),
        ("1 / 0", None),
        ("1 % 0", None),
        ("1 / nothing", None),
        ("nights * unset", None),
        ("nights - 'two'", None),
        ("'3' * '4'", 12),
        ("vip + 1", 2),
        ("1e300 * 1e300", None),
        ("9223372036854775807 + 1", 9.223372036854775807e18),
        ("'2026-03-14' - '2026-03-11'", 3),
        ("'2026-03-11' - '2026-03-14'", -3),
        ("'2026-03-14T06:00:00Z' - '2026-03-13T23:00:00+02:00'", 0),
        ("'2026-03-13T23:00:00Z' - '2026-03-14T06:00:00Z'", 0),
        ("1.5e2", 150),
    ],
)
def test_arithmetic(text: str, value: Any) -> None:
    assert evaluate(text, GUEST) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2", 3),
        ("1 + '2'", 3),
        ("'1' + 2", 3),
        ("'1' + '2'", "12"),
        ("name + '!'", "Ada!"),
        ("name + nights", "Ada3"),
        ("'is ' + vip", "is true"),
        ("name + nothing", "Ada"),
        ("nothing + name", "Ada"),
        ("nothing + 1", None),
        ("1 + unset", None),
        ("nothing + unset", None),
        ("tags + ['warm']", ["sea", "quiet", "warm"]),
        ("'tags: ' + tags", 'tags: ["sea","quiet"]'),
        ("'half ' + 0.5", "half 0.5"),
        ("'x' + 36.0", "x36"),
    ],
)
def test_plus_adds_numbers_and_joins_the_rest(text: str, value: Any) -> None:
    assert evaluate(text, GUEST) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nothing == null", True),
        ("unset == nothing", True),
        ("unset == undefined", True),
        ("null == 0", False),
        ("null == ''", False),
        ("name == 'Ada'", True),
        ("name == 'ada'", False),
        ("3 == '3'", True),
        ("'3.0' == nights", True),
        ("'3' == '3.0'", False),
        ("'' == 0", False),
        ("1 == 1.0", True),
        ("vip == true", True),
        ("vip == 1", False),
        ("1 == true", False),
        ("vip == 'true'", False),
        ("tags == ['sea', 'quiet']", True),
        ("tags == ['sea']", False),
        ("[1, {a: null}] == ['1', {a: unset}]", True),
        ("{a: 1} == {a: true}", False),
        ("{a: 1} == {b: 1}", False),
        ("[] == {}", False),
    ],
)
def test_equality_and_its_opposite(text: str, value: bool) -> None:
    assert evaluate(text, GUEST) is value
    assert evaluate(text.replace("==", "!="), GUEST) is not value


def test_unequal_to_null_is_a_guard_that_works() -> None:
    # Contradiction 26: read literally, `x != null` would always be true.
    assert evaluate("name != null", GUEST) is True
    assert evaluate("nothing != null", GUEST) is False


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nights < 4", True),
        ("nights >= 3", True),
        ("nights > 3", False),
        ("rate <= budget", True),
        ("'9' < '10'", True),
        ("'b' > 'a'", True),
        ("'10' < 'abc'", True),
        ("vip > 0", True),
        ("tags >= 2", True),
        ("unset < 1", True),
        ("unset <= unset", True),
        ("nothing >= 0", True),
        ("5 < 'abc'", False),
        ("5 > 'abc'", False),
        ("room > 0", False),
        ("room <= 0", False),
        ("'2026-03-02' < '2026-03-10'", True),
        ("'2026-03-02T10:00:00+02:00' < '2026-03-02T09:00:00Z'", True),
        ("'2026-03-02T10:00:00+02:00' > '2026-03-02T09:00:00Z'", False),
        ("unset > '2026-01-01'", False),
    ],
)
def test_order(text: str, value: bool) -> None:
    assert evaluate(text, GUEST) is value


def test_a_date_is_compared_with_the_time() -> None:
    clock = FakeClock()

    assert evaluate("'2025-12-31' < NOW()", {}, clock=clock) is True
    assert evaluate("'2026-01-02' > NOW()", {}, clock=clock) is True


@pytest.mark.parametrize("value", [False, 0, 0.0, "", "false", None, [], {}])
def test_what_counts_as_false(value: Any) -> None:
    expression = compile_expression("x")

    assert expression.test({"x": value}) is False
    assert evaluate("x OR false", {"x": value}) is False


@pytest.mark.parametrize("value", [True, 1, -1, "no", " ", "False", [0], {"a": None}])
def test_what_counts_as_true(value: Any) -> None:
    expression = compile_expression("x")

    assert expression.test({"x": value}) is True
    assert evaluate("x AND true", {"x": value}) is True


def test_a_legitimate_zero_never_completes() -> None:
    # The documented trap of COMPLETE_WHEN with numbers; IS SET is the way out.
    assert evaluate("guests AND date", {"guests": 0, "date": "2026-03-01"}) is False
    assert evaluate("guests IS SET AND date IS SET", {"guests": 0, "date": "2026-03-01"}) is True


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("name IS SET", True),
        ("empty IS SET", True),
        ("nothing IS SET", False),
        ("unset IS SET", False),
        ("unset IS NOT SET", True),
        ("name IS NOT SET", False),
        ("room.beds IS SET", True),
        ("room.view.sea IS SET", False),
        ("name is set", True),
        ("EXISTS name", True),
        ("EXISTS unset", False),
        ("EMPTY empty", True),
        ("EMPTY tags", False),
        ("NOT EMPTY tags AND vip", True),
    ],
)
def test_is_set(text: str, value: bool) -> None:
    assert evaluate(text, GUEST) is value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true AND false OR true", True),
        ("true OR true AND false", True),
        ("(true OR true) AND false", False),
        ("NOT true OR true", True),
        ("NOT (true OR true)", False),
        ("not not vip", True),
        ("!vip || vip && vip", True),
        ("vip and NAME or vip", True),
        ("true IMPLIES false", False),
        ("false IMPLIES false", True),
        ("true IMPLIES true", True),
        ("false IMPLIES false IMPLIES false", True),
        ("true OR false IMPLIES false", False),
        ("nights > 2 IMPLIES name IS SET", True),
        # NOT applies to the whole comparison: `(NOT 1) == 2` would be false.
        ("NOT 1 == 2", True),
        ("NOT nights > 5 AND vip", True),
        ("NOT name IN ['Bob']", True),
    ],
)
def test_logic_and_precedence(text: str, value: bool) -> None:
    assert evaluate(text, GUEST) is value


def test_logic_stops_as_soon_as_it_is_decided() -> None:
    run = ExpressionRun()

    assert compile_expression("false AND 'a' matches 'a'").value({}, run) is False
    assert compile_expression("true OR 'a' matches 'a'").value({}, run) is True
    assert compile_expression("false IMPLIES 'a' matches 'a'").value({}, run) is True
    assert run.captures is None
    assert compile_expression("true AND 'a' matches 'a'").value({}, run) is True
    assert run.captures == {"0": "a"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("name IN ['Ada', 'Bob']", True),
        ("name IN ['Bob']", False),
        ("name NOT IN ['Bob']", True),
        ("name not in ['Ada']", False),
        ("input IN [1, 2]", True),
        ("'sea' IN tags", True),
        ("'beds' IN room", True),
        ("'bath' IN room", False),
        ("'da' IN name", True),
        ("unset IN name", False),
        ("null IN [null]", True),
        ("name IN unset", False),
        ("tags contains 'sea'", True),
        ("tags contains 'city'", False),
        ("name contains 'd'", True),
        ("name CONTAINS 'D'", False),
        ("room contains 'beds'", True),
        ("rate contains '00'", True),
        ("unset contains 'x'", False),
        ("name contains unset", False),
        ("name startsWith 'A'", True),
        ("name startsWith 'd'", False),
        ("name endsWith 'da'", True),
        ("name endsWith 'A'", False),
        ("unset startsWith ''", False),
        ("name.contains('d')", True),
        ("name.startsWith('d')", False),
        ("tags.contains('quiet')", True),
        ("name.endswith('a')", True),
    ],
)
def test_containment(text: str, value: bool) -> None:
    assert evaluate(text, GUEST) is value


@pytest.mark.parametrize("text", ["input is_number", "abl.is_number(input)", "IS_NUMBER(input)", "input IS_NUMBER"])
def test_three_spellings_of_is_number(text: str) -> None:
    # Contradiction 19.
    assert evaluate(text, {"input": "2"}) is True
    assert evaluate(text, {"input": " -2.5 "}) is True
    assert evaluate(text, {"input": 2}) is True
    assert evaluate(text, {"input": "two"}) is False
    assert evaluate(text, {"input": ""}) is False
    assert evaluate(text, {"input": True}) is False
    assert evaluate(text, {}) is False


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("room.beds[1].size", 140),
        ("room.beds[input - 1].size", 140),
        ("room.beds['0'].size", 90),
        ("room.beds[1.0].size", 140),
        ("room.beds[2].size", None),
        ("room.beds[-1]", None),
        ("room.beds[0.5]", None),
        ("room.beds[true]", None),
        ("room.beds.0.size", 90),
        ("room['beds'][0].size", 90),
        ("room.beds.length", 2),
        ("room.length", 7),
        ("name.length", 3),
        ("name[0]", "A"),
        ("nights.length", None),
        ("unset.length", None),
        ("nothing.a.b[0].c", None),
        ("name.first", None),
        ("[1, 2, 3][1]", 2),
        ("{a: {b: 4}}.a.b", 4),
        ("SPLIT('a-b', '-')[1]", "b"),
    ],
)
def test_paths_and_indexes(text: str, value: Any) -> None:
    assert evaluate(text, GUEST) == value


def test_no_way_leads_to_python() -> None:
    for text in ("name.__class__", "name['__class__']", "tags.append", "room.keys", "room.__dict__", "name.upper"):
        assert evaluate(text, GUEST) is None
    assert evaluate("room.length", GUEST) == 7


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[]", []),
        ("{}", {}),
        ("[1, 'two', [null],]", [1, "two", [None]]),
        ("{booking: name, nights}", {"booking": "Ada", "nights": 3}),
        ("{'a b': 1, 2: 3, in: 4,}", {"a b": 1, "2": 3, "in": 4}),
        ("{a: unset}", {"a": None}),
        (r"'line\nend'", "line\nend"),
        (r'"say \"hi\" \\ \u00e4 \d"', 'say "hi" \\ ä \\d'),
        ("TRUE", True),
        ("Null", None),
        ("always", True),
    ],
)
def test_values_written_down(text: str, value: Any) -> None:
    assert evaluate(text, GUEST) == value


def test_now_is_the_same_as_now_with_brackets() -> None:
    # Contradiction 18.
    clock = FakeClock()

    assert evaluate("now", {}, clock=clock) == evaluate("NOW()", {}, clock=clock) == "2026-01-01T00:00:00.000Z"
    assert evaluate("{date: now}", {}, clock=clock) == {"date": "2026-01-01T00:00:00.000Z"}
    assert evaluate("now", {"now": "later"}, clock=clock) == "later"


def test_a_path_is_bare_in_an_expression_and_in_braces_in_a_text() -> None:
    # Contradiction 8.
    user = {"user": {"name": "Ada"}}

    assert evaluate("COALESCE(user.name, 'guest')", user) == "Ada"
    assert evaluate("'Dear {{user.name}}, {{UPPER(user.name)}}'", user) == "Dear Ada, ADA"
    assert evaluate("'Dear ' + COALESCE(user.name, 'guest')", {}) == "Dear guest"


def test_a_word_that_is_an_operator_can_be_a_name_where_a_value_is_expected() -> None:
    assert evaluate("matches.length > 1 AND contains", {"matches": [1, 2], "contains": 1}) is True


def test_values_that_are_not_json_do_not_pass_for_text() -> None:
    assert evaluate("x IS SET", {"x": object()}) is True
    with pytest.raises(InvalidValue):
        evaluate("'x' + x", {"x": object()})


def test_a_value_that_holds_itself_is_stopped() -> None:
    loop: list[Any] = []
    loop.append(loop)

    with pytest.raises(LimitExceeded):
        evaluate("x == y", {"x": loop, "y": [loop]})
    with pytest.raises(LimitExceeded):
        evaluate("TO_STRING(x)", {"x": loop})
    assert evaluate("x.length", {"x": loop}) == 1
