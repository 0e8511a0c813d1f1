"""Results of Python functions as JSON values; the individual forms are in the tests of ABL's tools."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.errors import InvalidValue, LimitExceeded
from memoranda.lang.python_functions import encode_json, json_value
from memoranda.model.limits import Limits

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
)


@given(json_values)
def test_json_values_stay_what_they_are(value: Any) -> None:
    assert json_value(value) == value


@given(json_values)
def test_what_looks_like_json_becomes_it(value: Any) -> None:
    def disguised(part: Any) -> Any:
        if isinstance(part, list):
            return tuple(disguised(item) for item in part)
        if isinstance(part, dict):
            return MappingProxyType({name: disguised(item) for name, item in part.items()})
        return part

    assert json_value(disguised(value)) == value


@dataclass
class Parcel:
    sent: date
    inside: tuple[Any, ...] = ()


def test_the_limits_of_the_caller_hold_for_what_has_to_be_turned_into_json_too() -> None:
    nested = Parcel(date(2031, 5, 1), (Parcel(date(2031, 5, 2)),))
    small = b'{"sent":"2031-05-01","inside":[{"sent":"2031-05-02","inside":[]}]}'
    assert encode_json(nested, Limits(value_bytes=len(small), depth=4)) == small
    with pytest.raises(LimitExceeded, match="bytes"):
        encode_json(nested, Limits(value_bytes=len(small) - 1, depth=4))
    with pytest.raises(LimitExceeded, match="2 deep") as caught:
        encode_json(nested, Limits(depth=2))
    assert (caught.value.limit, caught.value.actual) == (2, 3)
    deep: Any = ()
    for _ in range(80):
        deep = (deep,)
    assert encode_json(deep, Limits(depth=100)) == b"[" * 81 + b"]" * 81
    with pytest.raises(LimitExceeded, match="64 deep"):
        encode_json(deep, Limits())
    with pytest.raises(InvalidValue, match="set"):
        encode_json({1}, Limits())
