"""YAML is read with locations, and without features that expand, construct objects, or mislead."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.lang.diagnostics import Diagnostic, Diagnostics
from memoranda.lang.source import Source
from memoranda.lang.yaml import YamlNode, compose, scalar_excerpt


def read(text: str, **options: bool) -> tuple[YamlNode | None, tuple[Diagnostic, ...]]:
    source = Source("file.yaml", text)
    said = Diagnostics(source)
    return compose(source, said, **options), said.sorted()


def value(text: str, **options: bool) -> Any:
    node, said = read(text, **options)
    assert node is not None and not said
    return node.value


def test_only_null_true_false_and_numbers_are_no_text() -> None:
    text = "a: yes\nb: true\nc: 12\nd: 1.5\ne: ~\nf:\ng: 2026-01-02\nh: '12'\ni: on\nj: null\n"
    assert value(text) == {
        **{"a": "yes", "b": True, "c": 12, "d": 1.5, "e": None, "f": None},
        **{"g": "2026-01-02", "h": "12", "i": "on", "j": None},
    }


def test_every_value_knows_its_place() -> None:
    text = "tools:\n  - saw\n  - {size: 3}\n"
    node, _ = read(text)
    assert node is not None and node.entries is not None
    key, tools = node.entries[0]
    assert text[key.span.start : key.span.end] == "tools"
    assert tools.items is not None
    assert [text[item.span.start : item.span.end] for item in tools.items] == ["saw", "{size: 3"]


def test_a_block_keeps_its_last_line_break_only_where_text_is_read_exactly() -> None:
    text = 'a: |\n  two\n  lines\nb: "end\\n"\n'
    assert value(text, exact=True) == {"a": "two\nlines\n", "b": "end\n"}
    assert value(text) == {"a": "two\nlines", "b": "end"}


REFUSED = {
    "an anchor": ("a: &x 1\nb: 2\n", "&x", "anchors and aliases"),
    "an alias": ("a: 1\nb: *x\n", "*x", "anchors and aliases"),
    "a tag": ("a: !!python/object:os.system 1\nb: 2\n", "!!python", "the tag"),
    "a key that is a list": ("[a]: 1\nb: 2\n", "[a", "a key is one text"),
    "a second document": ("b: 2\n---\nc: 3\n", "c", "one document"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_shown_and_hides_the_rest_only_unless_one_asks(name: str) -> None:
    text, at, says = REFUSED[name]
    node, (one,) = read(text)
    assert node is None
    assert (one.code, says in one.message) == ("yaml", True)
    assert text[one.span.start :].startswith(at)
    part, again = read(text, partial=True)
    assert again == (one,)
    assert part is not None and part.value.get("b") in (2, "")
    if name != "an alias":
        assert part.value["b"] == 2


def test_all_that_is_refused_is_shown_at_once() -> None:
    node, said = read("a: &x 1\nb: *x\nc: !t 1\n[d]: 1\n", partial=True)
    assert [one.message.split()[0] for one in said] == ["anchors", "anchors", "the", "a"]
    assert node is not None and node.entries is not None
    assert [value.broken for _, value in node.entries] == [False, True, False]


def test_nothing_is_multiplied_by_aliases() -> None:
    bomb = "a: &a [x, x]\n" + "".join(f"k{n}: &k{n} [*a, *a, *a, *a, *a, *a]\n" for n in range(40))
    node, said = read(bomb)
    assert node is None and len(said) == 1 + 40 + 240
    assert value("a: [x, x]\n") == {"a": ["x", "x"]}


def test_what_is_nested_too_deep_or_no_yaml_is_refused_in_words() -> None:
    for text in ("[" * 60 + "]" * 60, "a: &", "a: \x07"):
        node, (one,) = read(text, partial=True)
        assert node is None and one.code == "yaml"
    assert value("[" * 30 + "]" * 30) is not None


UNREADABLE = {
    "a quote that never ends": ("a: 1\nb: 'c\nd: 2\n", "unclosed_quote", 2, "'", "on the same line"),
    "a quote that the next one ends": ('a: "b\nc: 1\nd: "e"\n', "unclosed_quote", 1, '"', "on the same line"),
    "a quote that ends lines below, and is meant": (
        'a: "b\n  c"\nd: 1\n e: 2\n',
        "indentation",
        4,
        "e: 2",
        "same column",
    ),
    "a tab": ("a:\n\t- b", "mixed_indentation", 2, "\t", "with spaces"),
    "a tab behind spaces": ("a:\n  b: 1\n \tc: 1\n", "mixed_indentation", 3, " \t", "with spaces"),
    "no colon before a value": ("a:\n  b 1\n  c: 2\n", "missing_colon", 2, "b", "`b: …`"),
    "no colon before lines": ("a:\n  b\n    c: 2\n", "missing_colon", 2, "b", "`b: …`"),
    "no colon in a list": ("a:\n  - b\n      c: 2\n", "missing_colon", 2, "b", "`b: …`"),
    "a colon too much": ("a: b: c\n", "yaml", 1, ":", "in quotes"),
    "a line too far to the left": ("a:\n    b: 1\n  c: 2\n", "indentation", 3, "c: 2", "same column"),
    "something behind quotes": ("a: 'b' c\nd: 1\n", "yaml", 1, "c", "in quotes"),
    "a bracket that never ends": ("a: 1\nb: [1,\n", "unclosed_bracket", 2, "[", "Close it"),
    "a sign that begins nothing": ("a: @b\n", "yaml", 1, "@", "in quotes"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_no_yaml_is_shown_where_the_mistake_was_made(name: str) -> None:
    text, code, line, at, hint = UNREADABLE[name]
    node, (one,) = read(text)
    assert node is None
    assert (one.code, Source("file.yaml", text).position(one.span.start).line) == (code, line)
    assert text[one.span.start : one.span.end] == at
    assert hint in one.hint


SCALARS = {
    "plain": "a: one two",
    "single quotes": "a: 'it''s one two'",
    "double quotes": 'a: "say \\"one\\" two"',
    "an escape": 'a: "caf\\u00e9 one two"',
    "a block": "a: |\n    first\n      one two\n",
    "a folded block": "a: >\n  first\n  one two\n",
    "over two lines": 'a: "first\n   one two"',
}


@pytest.mark.parametrize("name", SCALARS)
def test_each_word_of_a_scalar_is_found_again_in_the_file(name: str) -> None:
    source = Source("file.yaml", SCALARS[name])
    node = compose(source, Diagnostics(source), exact=True)
    assert node is not None and node.entries is not None
    part = scalar_excerpt(source, node.entries[0][1])
    at = part.text.index("two")
    span = part.locate(at, at + 3)
    assert (span.start, source.slice(span)) == (source.text.index("two"), "two")


@given(st.text(st.sampled_from("ab=:-[]{}'\"|>&*!#%\\ \n\t,?\u00e9"), max_size=40))
def test_any_text_is_read_or_refused_with_places_inside_it(text: str) -> None:
    source = Source("file.yaml", text)
    said = Diagnostics(source)
    node = compose(source, said, exact=True, partial=True)
    assert all(0 <= one.span.start <= one.span.end for one in said.sorted())
    for _, inner in (node.entries or ()) if node else ():
        if inner.scalar is not None:
            part = scalar_excerpt(source, inner)
            assert part.text == inner.scalar
            assert all(0 <= there <= len(text) for _, there in part.runs)
