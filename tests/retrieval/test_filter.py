"""The meaning of filters, and errors for invalid ones."""

from __future__ import annotations

import copy
import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.errors import InvalidFilter
from memoranda.retrieval.filter import DEEPEST, LARGEST, identity, parse_filter

TICKET: dict[str, Any] = {
    "topic": "billing",
    "urgency": 3,
    "paid": True,
    "owner": None,
    "tags": ["late", 2],
    "place": {"city": "Graz", "floor": 1},
    "opened": "2026-03-01T09:30:00",
    "a.b": "dotted",
}


def matches(filter: dict[str, Any], metadata: dict[str, Any] = TICKET) -> bool:
    parsed = parse_filter(filter)
    return parsed is None or parsed.matches(metadata)


@pytest.mark.parametrize(
    ("matching", "other"),
    [
        ({"topic": "billing"}, {"topic": "Billing"}),
        ({"topic": "billing", "urgency": 3}, {"topic": "billing", "urgency": 4}),
        ({"urgency": 3.0}, {"urgency": "3"}),
        ({"paid": True}, {"paid": 1}),
        ({"owner": None}, {"missing": None}),
        ({"tags": ["late", 2]}, {"tags": [2, "late"]}),
        ({"tags": ["late", 2.0]}, {"tags": "late"}),
        ({"place": {"floor": 1, "city": "Graz"}}, {"place": {"city": "Graz"}}),
        ({"place": {"floor": 1.0, "city": "Graz"}}, {"place": {"floor": True, "city": "Graz"}}),
        ({"place": {"$eq": {"floor": 1, "city": "Graz"}}}, {"place": {}}),
        ({"a.b": "dotted"}, {"place.city": "Graz"}),
        ({"topic": {"$eq": "billing"}}, {"topic": {"$eq": "bill"}}),
        ({"topic": {"$ne": "bill"}}, {"topic": {"$ne": "billing"}}),
        ({"missing": {"$ne": 1}}, {"missing": {"$eq": 1}}),
        ({"paid": {"$ne": 1}}, {"paid": {"$ne": True}}),
        ({"urgency": {"$in": [1, 3.0]}}, {"urgency": {"$in": ["3", True]}}),
        ({"owner": {"$in": [None]}}, {"missing": {"$in": [None]}}),
        ({"urgency": {"$nin": []}}, {"urgency": {"$in": []}}),
        ({"urgency": {"$nin": [1, 2]}}, {"urgency": {"$nin": [1, 3]}}),
        ({"missing": {"$nin": [1]}}, {"missing": {"$in": [1]}}),
        ({"tags": {"$in": [["late", 2], "x"]}}, {"tags": {"$in": ["late", 2]}}),
        ({"urgency": {"$gt": 2.5}}, {"urgency": {"$gt": 3}}),
        ({"urgency": {"$gte": 3}}, {"urgency": {"$gte": 3.1}}),
        ({"urgency": {"$lt": 4}}, {"urgency": {"$lt": 3}}),
        ({"urgency": {"$lte": 3}}, {"urgency": {"$lte": 2}}),
        ({"urgency": {"$gte": 3, "$lt": 9}}, {"urgency": {"$gte": 3, "$lt": 3}}),
        ({"opened": {"$gte": "2026-03-01"}}, {"opened": {"$lt": "2026-03-01"}}),
        ({"topic": {"$gt": "a"}}, {"topic": {"$gt": 0}}),
        ({"urgency": {"$not": {"$gt": "a"}}}, {"urgency": {"$gt": "a"}}),
        ({"paid": {"$not": {"$gte": 0}}}, {"paid": {"$gte": 0}}),
        ({"owner": {"$not": {"$lte": 0}}}, {"owner": {"$lte": 0}}),
        ({"missing": {"$not": {"$lt": 9}}}, {"missing": {"$lt": 9}}),
        ({"owner": {"$exists": True}}, {"owner": {"$exists": False}}),
        ({"missing": {"$exists": False}}, {"missing": {"$exists": True}}),
        ({"urgency": {"$or": [{"$lt": 1}, {"$gt": 2}]}}, {"urgency": {"$and": [{"$lt": 9}, {"$gt": 3}]}}),
        ({"$and": [{"topic": "billing"}, {"paid": True}]}, {"$and": [{"topic": "billing"}, {"paid": False}]}),
        ({"$or": [{"topic": "x"}, {"paid": True}]}, {"$or": [{"topic": "x"}, {"paid": False}]}),
        ({"$not": {"topic": "x", "paid": True}}, {"$not": {"topic": "billing", "paid": True}}),
        ({"$or": [{}, {"topic": "x"}]}, {"$not": {}}),
        ({}, {"$not": {"$not": {"topic": "x"}}}),
    ],
)
def test_one_matches_and_the_other_does_not(matching: dict[str, Any], other: dict[str, Any]) -> None:
    assert matches(matching)
    assert not matches(other)


def test_no_filter_and_an_empty_one_are_none() -> None:
    assert parse_filter(None) is None
    assert parse_filter({}) is None
    assert parse_filter({"a": 1}) is not None


def test_a_number_is_compared_exactly_however_large_it_is() -> None:
    assert matches({"n": {"$gt": 2**53}}, {"n": 2**53 + 1})
    assert not matches({"n": {"$gt": float(2**53)}}, {"n": 2**53})
    assert not matches({"n": 2**53 + 1}, {"n": float(2**53)})


def test_a_filter_is_not_changed_and_not_looked_at_again() -> None:
    filter: dict[str, Any] = {"tags": ["late", 2], "urgency": {"$in": [3]}}
    before = copy.deepcopy(filter)
    parsed = parse_filter(filter)
    assert filter == before
    filter["urgency"]["$in"].clear()
    filter["tags"].append("more")
    assert parsed is not None
    assert parsed.matches(TICKET)


@pytest.mark.parametrize(
    ("filter", "path", "words"),
    [
        (["topic"], "$", "is list, not a map"),
        ("topic", "$", "is str, not a map"),
        ({1: "a"}, "$", "`1` at $ is not text"),
        ({"topic": {"$eqq": 1}}, "$.topic.$eqq", "Did you mean `$eq`?"),
        ({"topic": {"$regex": "b"}}, "$.topic.$regex", "The operators are $eq, $ne"),
        ({"$nor": [{"a": 1}]}, "$.$nor", "is not an operator"),
        ({"$orr": [{"a": 1}]}, "$.$orr", "Did you mean `$or`?"),
        ({"$gt": 3}, "$.$gt", "has no key"),
        ({"topic": {"$eq": 1, "plain": 2}}, "$.topic", "mixes the operator `$eq` with plain keys"),
        ({"urgency": {"$in": 3}}, "$.urgency.$in", "is not a list"),
        ({"urgency": {"$nin": {"a": 1}}}, "$.urgency.$nin", "is not a list"),
        ({"urgency": {"$in": [1, 2, float("nan")]}}, "$.urgency.$in[2]", "nan at $.urgency.$in[2]"),
        ({"urgency": {"$gt": float("inf")}}, "$.urgency.$gt", "not a JSON number"),
        ({"urgency": {"$gt": None}}, "$.urgency.$gt", "`None` at $.urgency.$gt has no order"),
        ({"urgency": {"$lte": True}}, "$.urgency.$lte", "has no order"),
        ({"urgency": {"$lt": [1]}}, "$.urgency.$lt", "has no order"),
        ({"urgency": {"$exists": 1}}, "$.urgency.$exists", "neither True nor False"),
        ({"urgency": {"$not": 3}}, "$.urgency.$not", "not a map of operators"),
        ({"urgency": {"$not": {}}}, "$.urgency.$not", "not a map of operators"),
        ({"urgency": {"$or": [{"$gt": 1}, {"plain": 1}]}}, "$.urgency.$or[1].plain", "is not an operator"),
        ({"$and": {"a": 1}}, "$.$and", "needs a list"),
        ({"$or": []}, "$.$or", "at least one part"),
        ({"$and": [{"a": 1}, 7]}, "$.$and[1]", "is int, not a map"),
        ({"$or": [{"a": 1}, {"b": {"$in": [{"c": b"x"}]}}]}, "$.$or[1].b.$in[0].c", "which metadata cannot contain"),
        ({"opened": datetime.date(2026, 3, 1)}, "$.opened", "a date to ISO text"),
        ({"tags": ("late",)}, "$.tags", "convert a tuple to a list"),
        ({"place": {"city": {1: 2}}}, "$.place.city", "keyed by text"),
    ],
)
def test_what_means_nothing_is_refused_with_its_path(filter: Any, path: str, words: str) -> None:
    with pytest.raises(InvalidFilter) as refusal:
        parse_filter(filter)
    assert refusal.value.path == path
    assert words in str(refusal.value)
    assert refusal.value.hint


def test_depth_has_a_limit() -> None:
    def nested(depth: int) -> dict[str, Any]:
        filter: dict[str, Any] = {"topic": "billing"}
        for _ in range(depth):
            filter = {"$not": filter}
        return filter

    assert matches(nested(DEEPEST - 2))
    with pytest.raises(InvalidFilter, match=f"nested more than {DEEPEST} deep"):
        parse_filter(nested(DEEPEST))
    itself: dict[str, Any] = {}
    itself["$not"] = itself
    with pytest.raises(InvalidFilter, match="nested more than"):
        parse_filter(itself)
    values: list[Any] = []
    values.append(values)
    with pytest.raises(InvalidFilter, match="nested more than"):
        parse_filter({"tags": values})


def test_size_has_a_limit() -> None:
    assert matches({"urgency": {"$in": list(range(LARGEST - 10))}})
    with pytest.raises(InvalidFilter, match=r"more than 10,000 conditions and values") as refusal:
        parse_filter({"urgency": {"$in": list(range(LARGEST + 1))}})
    assert refusal.value.path.startswith("$.urgency.$in[")
    with pytest.raises(InvalidFilter, match="conditions and values"):
        parse_filter({"$or": [{"a": place} for place in range(LARGEST)]})


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from([0.0, 1.0, -0.0, 0.5])
    | st.sampled_from(["", "1"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


@given(_JSON, _JSON)
def test_two_values_share_an_identity_exactly_when_they_are_equal_json(one: Any, other: Any) -> None:
    assert (identity(one) == identity(other)) is _equal(one, other)
    assert identity(one) == identity(copy.deepcopy(one))
    if _equal(one, other):
        assert hash(identity(one)) == hash(identity(other))


_NAMES = st.sampled_from(["$and", "$or", "$not", "$in", "$gt", "$exists", "$x", "topic", ""])
_ANYTHING = st.recursive(
    _JSON | st.binary(max_size=1) | st.sampled_from(["$in", "$not"]),
    lambda inner: st.dictionaries(_NAMES, inner | st.lists(inner), max_size=3),
)


@given(_ANYTHING)
def test_anything_at_all_is_a_filter_or_refused(filter: Any) -> None:
    try:
        parsed = parse_filter(filter)
    except InvalidFilter as refusal:
        assert refusal.path.startswith("$")
    else:
        assert parsed is None or parsed.matches(TICKET) in (True, False)


def _equal(one: Any, other: Any) -> bool:
    """Say whether two values are the same JSON, told apart by type before anything else."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)
    return bool(one == other)
