"""Columns say of every row what the filter says of its metadata, whatever came in and in which order."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.retrieval.filter import Compares, parse_filter
from memoranda.retrieval.index.columns import Columns


def columns_of(*rows: dict[str, Any]) -> Columns:
    columns = Columns()
    columns.append([json.dumps(row).encode() for row in rows])
    return columns


def found(columns: Columns, filter: dict[str, Any]) -> list[int]:
    return np.flatnonzero(columns.mask(parse_filter(filter))).tolist()


_VALUES = st.sampled_from(
    [None, True, False, 0, 1, 1.0, -1, 2.5, 2**53, 2**53 + 1, "", "1", "a", [], [1], [True], {}, {"x": 1}, {"x": [0]}]
)
_KEYS = st.sampled_from(["p", "q", "r"])
_METADATA = st.dictionaries(_KEYS, _VALUES, max_size=3)
_BOUNDS = st.sampled_from([0, 1, 1.5, 2.0**53, 2**53 + 1, "", "a", "b"])
_OPERATORS = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne"]), _VALUES),
    st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(_VALUES, max_size=3)),
    st.tuples(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), _BOUNDS),
    st.tuples(st.just("$exists"), st.booleans()),
)
_CONDITIONS = st.lists(_OPERATORS, min_size=1, max_size=2).map(dict)
_FILTERS = st.recursive(
    st.dictionaries(_KEYS, _VALUES.map(lambda value: {"$eq": value}) | _CONDITIONS, max_size=2),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"$and": parts}),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"$or": parts}),
        inner.map(lambda part: {"$not": part}),
    ),
    max_leaves=4,
)


@given(st.lists(st.lists(_METADATA, max_size=12), max_size=4), _FILTERS, st.data())
def test_a_mask_says_of_each_row_what_the_filter_says_of_its_metadata(
    batches: list[list[dict[str, Any]]], filter: dict[str, Any], data: st.DataObject
) -> None:
    parsed = parse_filter(filter)
    columns, rows = Columns(), []
    for batch in batches:
        columns.append([json.dumps(row).encode() for row in batch])
        rows += batch
        assert columns.mask(parsed).tolist() == [parsed is None or parsed.matches(row) for row in rows]
    stay = [place for place in range(len(rows)) if data.draw(st.booleans())]
    columns.keep(np.array(stay, dtype=np.intp))
    more = data.draw(st.lists(_METADATA, max_size=3))
    columns.append([json.dumps(row).encode() for row in more])
    rows = [rows[place] for place in stay] + more
    assert len(columns) == len(rows)
    assert columns.mask(parsed).tolist() == [parsed is None or parsed.matches(row) for row in rows]
    for key in "pqr":
        assert found(columns, {key: {"$exists": True}}) == [place for place, row in enumerate(rows) if key in row]
        for row in rows:
            if key in row:
                alike = parse_filter({key: {"$eq": row[key]}})
                assert alike is not None
                assert columns.mask(alike).tolist() == [alike.matches(other) for other in rows]


def test_equal_values_are_one_and_a_key_that_nobody_has_is_nowhere() -> None:
    columns = columns_of({"actor": "ada"}, {"actor": "bob"}, {}, {"actor": "ada"}, {"actor": 1}, {"actor": 1.0})
    assert found(columns, {"actor": "ada"}) == [0, 3]
    assert found(columns, {"actor": 1}) == found(columns, {"actor": 1.0}) == [4, 5]
    assert found(columns, {"nobody": {"$exists": True}}) == []


def test_true_is_not_one() -> None:
    columns = columns_of({"n": 1}, {"n": True}, {"n": 1.0}, {"n": [1]}, {"n": [True]})
    assert found(columns, {"n": 1}) == [0, 2]
    assert found(columns, {"n": True}) == [1]
    assert found(columns, {"n": [1.0]}) == [3]
    assert found(columns, {"n": {"$gte": 0}}) == [0, 2]


def test_a_key_that_comes_late_is_missing_before() -> None:
    columns = columns_of(*({"old": place} for place in range(100)))
    columns.append([b'{"new":1}'])
    columns.append([b'{"old":5}', b'{"old":6}'])
    assert found(columns, {"new": 1}) == [100]
    assert found(columns, {"new": {"$exists": False}}) == [*range(100), 101, 102]
    assert found(columns, {"old": {"$in": [5, 6]}}) == [5, 6, 101, 102]


def test_a_key_that_thins_out_and_comes_back_is_found_in_every_row_that_has_it() -> None:
    have = [*range(40), 700, *range(2_000, 2_040), 9_999, *range(10_000, 30_000)]
    wanted = set(have)
    rows = [b'{"k":1}' if place in wanted else b"{}" for place in range(30_000)]
    columns = Columns()
    for start in range(0, 3_000, 10):
        columns.append(rows[start : start + 10])
    for start in range(3_000, 30_000, 1_000):
        columns.append(rows[start : start + 1_000])
        assert found(columns, {"k": 1}) == [place for place in have if place < start + 1_000]
    assert found(columns, {"k": {"$ne": 1}}) == [place for place in range(30_000) if place not in wanted]


def test_odd_keys_cost_what_they_hold() -> None:
    columns = columns_of(*({f"key {place}": place} for place in range(3_000)))
    assert found(columns, {"key 2999": 2_999}) == [2_999]
    assert columns.nbytes < 3_000 * 3_000
    assert columns.nbytes > 3_000 * 8


@pytest.mark.parametrize("kind", [float, str], ids=["numbers", "text"])
def test_ranges_over_many_distinct_values_hold_while_values_are_added(kind: type) -> None:
    def value(place: int) -> Any:
        number = (place * 7_919) % 10_007
        return number / 4 if kind is float else f"2026-{number:05d}"

    filter = {"at": {"$gte": value(11), "$lt": value(5_000)}, "odd": {"$exists": False}}
    parsed = parse_filter(filter)
    assert parsed is not None
    columns, rows = Columns(), []
    for size in (3_000, 1, 1, 300, 1, 900, 1):
        batch = [{"at": value(len(rows) + place)} for place in range(size)]
        batch[-1] = {"at": value(len(rows)), "odd": True}
        columns.append([json.dumps(row).encode() for row in batch])
        rows += batch
        expected = [place for place, row in enumerate(rows) if parsed.matches(row)]
        assert found(columns, filter) == expected
        assert 0 < len(expected) < len(rows)


_SIZED = [
    {"number": {operator: bound}}
    for operator in ("$gt", "$gte", "$lt", "$lte", "$eq", "$ne")
    for bound in (-1, 0, 40, 40.5, 499, 2_000)
] + [
    {"text": {"$gt": "t040"}},
    {"text": {"$lte": "t040"}},
    {"text": {"$in": ["t001", "t499", 3, None]}},
    {"few": {"$in": ["red", True]}},
    {"few": {"$nin": ["red", True]}},
    {"few": {"$exists": True}},
    {"number": {"$exists": False}},
    {"few": "red", "number": {"$gte": 100, "$lt": 300}},
    {"$or": [{"few": 1}, {"seldom": {"$exists": True}}, {"text": {"$lt": "t010"}}]},
]


@pytest.mark.parametrize("share", [0.97, 0.6, 0.2])
@pytest.mark.parametrize("batch", [1, 7, 1_500])
def test_many_rows_with_gaps_in_every_column(share: float, batch: int) -> None:
    random = np.random.default_rng(batch)
    rows: list[dict[str, Any]] = []
    for place in range(1_500):
        row = {
            "number": int(random.integers(1_000)) / 2,
            "text": f"t{random.integers(1_000):03d}",
            "few": [True, 1, "red", "blue", None][random.integers(5)],
        }
        row = {key: row[key] for key in random.permutation(list(row)) if random.random() < share}
        rows.append(row | {"seldom": place} if place % 400 == 399 else row)
    columns = Columns()
    for start in range(0, len(rows), batch):
        columns.append([json.dumps(row).encode() for row in rows[start : start + batch]])
    for filter in _SIZED:
        parsed = parse_filter(filter)
        assert parsed is not None
        assert found(columns, filter) == [place for place, row in enumerate(rows) if parsed.matches(row)], filter
        assert found(columns, {"$not": filter}) == [place for place, row in enumerate(rows) if not parsed.matches(row)]


def test_a_range_asks_only_the_values_that_came_since_they_were_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    admits = Compares.admits
    monkeypatch.setattr(Compares, "admits", lambda condition, value: asked.append(value) or admits(condition, value))
    columns = columns_of(*({"at": place} for place in range(5_000)))
    assert found(columns, {"at": {"$lt": 2}}) == [0, 1]
    assert asked == []
    columns.append([b'{"at":-1}', b'{"at":"text"}', b'{"at":7000}'])
    assert found(columns, {"at": {"$lt": 2}}) == [0, 1, 5_000]
    assert asked == [-1, "text", 7_000]


def test_a_column_takes_the_smaller_form() -> None:
    full = columns_of(*({"k": 1} for _ in range(10_000)))
    assert 4 * 10_000 <= full.nbytes < 6 * 10_000
    thin = columns_of(*({"k": 1} for _ in range(100)))
    thin.append([b"{}"] * 100_000)
    thin.append([b'{"k":1}'])
    assert thin.nbytes < 10_000
    assert found(thin, {"k": 1}) == [*range(100), 100_100]


def test_what_nobody_needs_is_freed_when_rows_go() -> None:
    columns = columns_of(*({"id": f"entry number {place}", "seldom": 1} for place in range(2_000)), {"id": "last"})
    before = columns.nbytes
    columns.keep(np.array([5, 2_000]))
    assert columns.nbytes < before / 100
    assert [found(columns, {"id": name}) for name in ("entry number 5", "last", "entry number 6")] == [[0], [1], []]
    assert found(columns, {"seldom": 1}) == [0]
    columns.keep(np.array([1]))
    assert found(columns, {"seldom": {"$exists": True}}) == []
    assert found(columns, {"id": "last"}) == [0]


def test_one_row_that_is_no_object_adds_none() -> None:
    columns = columns_of({"a": 1})
    for bad in (b"", b"[]", b"{", b"\xff"):
        with pytest.raises(msgspec.DecodeError):
            columns.append([b'{"a":1}', bad])
    assert len(columns) == 1
    columns.append([b'{"a":1}', b"{}"])
    assert found(columns, {"a": 1}) == [0, 1]
