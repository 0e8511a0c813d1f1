"""The layout of lines: how they nest, where values end, and the position of every character."""

from __future__ import annotations

import pytest

from memoranda.abl.lines import (
    Line,
    Value,
    list_elements,
    object_fields,
    read_lines,
    split,
    split_arrow,
    split_assignment,
)
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.document import Raw
from memoranda.lang.source import Source, Span


def lines(text: str) -> tuple[Line, ...]:
    source = Source("a.abl", text)
    said = Diagnostics(source)
    tree = read_lines(source, said)
    assert said.sorted() == ()
    return tree.lines


def raw(text: str) -> Raw:
    return Raw(text, runs=((0, 100),), span=Span(100, 100 + len(text)))


def test_an_item_owns_what_is_deeper_than_its_dash() -> None:
    (first, second) = lines("- a\n  b: 1\n- c: 2\n    d: 3\n  e: 4\n")
    assert (first.text, [line.key for line in first.body]) == ("a", ["b"])
    assert ([line.key for line in second.children], [line.key for line in second.properties]) == (["d"], ["e"])
    assert [line.key for line in second.entries] == ["c", "e"]


def test_the_first_colon_before_a_space_ends_the_key() -> None:
    (line,) = lines("ON: session:start\n")
    assert line.value is not None
    assert (line.key, line.value.text) == ("ON", "session:start")
    (line,) = lines("f(a: string) -> {b: number}\n")
    assert line.key is None
    (line,) = lines("REQUIRE x == 'a: b'\n")
    assert line.key is None
    (line,) = lines('"my key": 1\n')
    assert line.key == "my key"


def test_a_block_keeps_lines_and_loses_the_common_indentation() -> None:
    (line, after) = lines("a: |\n    one\n\n      two # no comment\n    # text\n\nb: 1\n")
    assert line.value is not None
    assert line.value.text == "one\n\n  two # no comment\n# text"
    assert (after.key, after.blank_before) == ("b", True)
    text = "a: |\n    one\n\n      two # no comment\n"
    (line,) = lines(text)
    assert line.value is not None
    excerpt = line.value.unquoted.excerpt
    place = excerpt.locate(excerpt.text.index("two"), excerpt.text.index("two") + 3)
    assert text[place.start : place.end] == "two"


def test_a_block_of_an_item_ends_where_its_next_property_begins() -> None:
    (item,) = lines("- a: |\n    one\n  b: 1\n")
    assert item.value is not None
    assert (item.value.text, [line.key for line in item.properties]) == ("one", ["b"])


def test_a_folded_block_is_one_line() -> None:
    (line,) = lines("a: >\n  one\n  two\n")
    assert line.value is not None
    assert line.value.text == "one two"


def test_brackets_go_on_over_lines_until_they_close() -> None:
    (line, after) = lines("a: [\n  x,\n  # why\n  y\n]\nb: 1\n")
    assert line.value is not None
    assert (line.value.text, line.comments, after.key) == ("[ x, y ]", ("# why",), "b")


def test_prose_that_ends_with_a_comma_goes_nowhere() -> None:
    (line, _) = lines("a: well,\nb: 1\n")
    assert line.value is not None
    assert line.value.text == "well,"


def test_comments_belong_to_the_line_below_them() -> None:
    (line,) = lines("# one\n  # two\na: 1 # no comment\n")
    assert line.value is not None
    assert (line.comments, line.value.text) == (("# one", "# two"), "1 # no comment")


def test_tabs_alone_are_fine() -> None:
    (line,) = lines("a:\n\tb:\n\t\tc: 1\n")
    assert line.children[0].children[0].key == "c"


def test_a_list_may_stand_in_the_column_of_its_key() -> None:
    (line, after) = lines("a:\n- x\n- y\nb: 1\n")
    assert ([child.text for child in line.children], after.key) == (["x", "y"], "b")


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ('"a"', "a"),
        ("'a'", "a"),
        ('"a \\"b\\""', 'a "b"'),
        ("'it''s'", "it's"),
        ('"\\\\d+ \\d"', "\\d+ \\d"),
        ('"one\\ntwo"', "one\ntwo"),
        ('"a" + "b"', '"a" + "b"'),
        ("plain 'text'", "plain 'text'"),
        ('""', ""),
    ],
)
def test_quotes_around_the_whole_value_are_taken_off(written: str, text: str) -> None:
    assert Value(written, span=Span(0, len(written))).unquoted.text == text


def test_places_survive_escapes() -> None:
    written = '"a \\"b\\" {{x}}"'
    (line,) = lines(f"R: {written}\n")
    assert line.value is not None
    excerpt = line.value.unquoted.excerpt
    place = excerpt.locate(excerpt.text.index("{{x}}"), excerpt.text.index("{{x}}") + 5)
    assert f"R: {written}\n"[place.start : place.end] == "{{x}}"


def test_parts_are_found_outside_of_quotes_and_brackets() -> None:
    assert [one.text for one in split(raw('a, "b, c", f(d, e)'), ",")] == ["a", '"b, c"', "f(d, e)"]
    assert [one.text for one in list_elements(raw("[a, 'b', c.d]"))] == ["a", "b", "c.d"]
    assert [one.text for one in list_elements(raw("a, b"))] == ["a", "b"]
    sides = split_arrow(raw('{a: "->"} -> user.x'))
    assert sides is not None
    assert (sides[0].text, sides[1].text, sides[1].span) == ('{a: "->"}', "user.x", Span(113, 119))
    assert split_arrow(raw("a")) is None
    last = split_arrow(raw("a -> b -> c"))
    assert last is not None
    assert (last[0].text, last[1].text) == ("a -> b", "c")
    assert [one.text for one in split(raw("it's, that's"), ",")] == ["it's", "that's"]
    assert [(name.text, value.text) for name, value in object_fields(raw("{a: b + 1, c}")) or []] == [
        ("a", "b + 1"),
        ("c", "c"),
    ]


@pytest.mark.parametrize(
    ("text", "sides"),
    [
        ("a = b == c", ("a", "b == c")),
        ("a.b = 1", ("a.b", "1")),
        ("a == b", None),
        ("a <= b", None),
        ('"x = y"', None),
        ("a = don't", ("a", "don't")),
    ],
)
def test_an_assignment_splits_at_the_first_sign_that_is_no_comparison(text: str, sides: tuple[str, str] | None) -> None:
    found = split_assignment(raw(text))
    assert (found and (found[0].text, found[1].text)) == sides
