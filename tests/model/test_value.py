"""Encode Python values as JSON bytes, and decode them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.errors import InvalidValue, LimitExceeded
from memoranda.model.limits import Limits
from memoranda.model.value import canonical, decode, encode, encode_checked

texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20)
odd = scalars | st.binary() | st.just(math.nan) | st.integers() | st.text("\ud800\0")
anything = st.recursive(
    odd, lambda inner: st.lists(inner) | st.dictionaries(st.integers() | texts, inner), max_leaves=10
)


@given(values)
def test_a_value_comes_back_as_it_went_in(value: Any) -> None:
    payload = encode_checked(value, Limits())
    assert repr(decode(payload)) == repr(value)
    assert json.loads(payload) == value
    assert encode(decode(payload)) == payload


@given(values)
def test_each_decode_is_a_fresh_copy(value: Any) -> None:
    payload = encode(value)
    first, second = decode(payload), decode(payload)
    assert first == second
    if isinstance(first, (list, dict)):
        assert first is not second


@given(st.dictionaries(texts, scalars))
def test_canonical_text_does_not_depend_on_order(value: dict[str, Any]) -> None:
    backwards = dict(reversed(value.items()))
    assert canonical(value) == canonical(backwards)
    assert decode(canonical(value)) == value


def test_canonical_text_is_sorted_compact_utf8() -> None:
    assert canonical({"b": 1, "a": "é"}) == '{"a":"é","b":1}'.encode()
    assert encode({"b": 1, "a": 2}) == b'{"b":1,"a":2}'


def test_names_keep_their_order() -> None:
    assert list(decode(encode_checked({"z": 1, "a": 2}, Limits()))) == ["z", "a"]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [1, math.nan]}, "$.a[1]"),
        ([[[2**63]]], "$[0][0][0]"),
        ({"a": {"b": object()}}, "$.a.b"),
        ({"a": {1: 2}}, "$.a"),
        ({"a": "\0"}, "$.a"),
        ("\0", "$"),
    ],
)
def test_a_fault_is_named_by_its_path(value: Any, path: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        encode_checked(value, Limits())
    assert caught.value.path == path
    assert path in caught.value.message or path == "$"


@given(anything)
def test_any_value_is_kept_exactly_or_refused(value: Any) -> None:
    try:
        payload = encode_checked(value, Limits())
    except (InvalidValue, LimitExceeded) as error:
        assert error.hint
    else:
        assert repr(decode(payload)) == repr(value)


def test_limits() -> None:
    small = Limits(value_bytes=5, depth=2)
    assert encode_checked("abc", small) == b'"abc"'
    assert encode_checked([[]], small) == b"[[]]"
    with pytest.raises(LimitExceeded) as caught:
        encode_checked("abcd", small)
    assert (caught.value.limit, caught.value.actual) == (5, 6)
    with pytest.raises(LimitExceeded):
        encode_checked([[[]]], small)
