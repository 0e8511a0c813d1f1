"""An index that was written to a file and mapped answers as the one it was made of, whatever happens to both later."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memoranda.model.trust import Origin
from memoranda.retrieval.filter import parse_filter
from memoranda.retrieval.index import segment as format
from memoranda.retrieval.index import shelf
from memoranda.retrieval.index.segment import Contents, Damaged, Segment, read_about
from memoranda.retrieval.index.shelf import ShelfIndex
from memoranda.retrieval.index.vectors import PrunedTable

_WORDS = "boat harbour rope anchor storm seven captain lighthouse map engine 7 42 naïve Ärmel".split()
_QUERIES = ("Where is the boat?", "captain of the storm", "rope anchor 42", "what did Ada say in May", "harbor")
_VALUES: tuple[Any, ...] = (
    "x",
    "Ada",
    1,
    1.0,
    1.5,
    True,
    False,
    None,
    2**60,
    1e300,
    "1",
    [1, {"a": 2.0}],
    {"b": [True], "a": 1},
)
_FILTERS: tuple[dict[str, Any], ...] = (
    *({"v": {"$eq": value}} for value in _VALUES),
    {"v": {"$in": ["x", 1, True]}},
    {"v": {"$gt": 1}},
    {"v": {"$lte": "b"}},
    {"actor": "Ada"},
    {"v.rows": "x"},
    {"rare": {"$exists": True}},
)


def _texts(count: int, seed: int) -> list[tuple[str, dict[str, Any]]]:
    random = np.random.default_rng(seed)
    texts: list[tuple[str, dict[str, Any]]] = []
    for place in range(count):
        words = " ".join(random.choice(_WORDS, size=random.integers(1, 8)))
        metadata: dict[str, Any] = {
            "actor": ["Ada", "Grace", "Åsa"][random.integers(3)],
            "v": _VALUES[random.integers(len(_VALUES))],
        }
        if place % 3:
            metadata["thread"] = f"t{random.integers(5)}"
        if place % 11 == 0:
            metadata |= {"rare": place, "v.rows": "x", "time": f"2023-0{1 + place % 9}-01"}
        texts.append((words + (" ?" if place % 4 == 0 else " ."), metadata))
    return texts


def _rows(make_rows: Any, count: int, *, first: int = 1, seed: int = 0) -> list[Any]:
    rows = make_rows(_texts(count, seed), first=first)
    random = np.random.default_rng(seed + 1)
    return [
        msgspec.structs.replace(
            row,
            expires_at=int(random.integers(1, 9)) if random.random() < 0.1 else None,
            namespace=str(random.integers(2)),
            origin=Origin(actor="a", source=f"s{random.integers(3)}", trust="low")
            if random.random() < 0.2
            else row.origin,
        )
        for row in rows
    ]


def _sealed(index: ShelfIndex) -> Segment:
    with tempfile.TemporaryFile() as file:
        index.save().write(file, {"made": "for a test"})
        return Segment(file)


def _again(index: ShelfIndex) -> ShelfIndex:
    return ShelfIndex.load(_sealed(index), 64)


def _answers(index: ShelfIndex, ask: Any, now: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        f"{query} {mode}": [
            (one.sequence, one.why.total, one.score) for one in ask(index, query, mode=mode, limit=50, now=now)
        ]
        for query in _QUERIES
        for mode in ("hybrid", "keyword", "semantic")
    }
    found |= {str(one): index.visible(now, parse_filter(one)).tolist() for one in _FILTERS}
    with index.lock:
        sequences = index.sequences().tolist()
        found |= {
            "sequences": sequences,
            "lapsed": index.lapsed,
            "count": (len(index), index.rows, index.has_several_origins, sorted(index.languages)),
            "origins": [index.origin_names(), index.origins_in_index(sequences), index.source.tolist()],
            "repetitions": index.repetitions(sequences),
            "alike": [index.alike(one, 3) for one in sequences],
            "restated": [index.restatements(row) for row in range(index.rows)],
            "letters": index.postings.letters,
            "known": index.postings.vocabulary({"boat", "nothing", "captain", "ankor"}),
        }
    return found


adds = st.tuples(st.just("add"), st.integers(1, 60))
removes = st.tuples(st.just("remove"), st.sets(st.integers(1, 200), max_size=40))
steps = st.lists(
    st.one_of(adds, removes, st.tuples(st.just("expire"), st.integers(0, 8)), st.tuples(st.just("seal"))), max_size=8
)


@pytest.mark.parametrize("room", [0, 50])
@given(first=st.integers(0, 120), later=steps)
@example(first=120, later=[("remove", set(range(1, 119))), ("add", 3), ("seal",), ("add", 40)])
def test_an_index_from_a_segment_goes_on_as_the_one_it_was_made_of(
    make_rows: Any, ask: Any, room: int, first: int, later: list[tuple[Any, ...]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(format, "_LEAST_ROOM", room)
        patch.setattr(shelf, "_WORTH_DROPPING", 5)
        index = ShelfIndex(64)
        index.add(_rows(make_rows, first))
        now = 0
        if first % 2:
            _answers(index, ask, now)  # what was computed for answers is in the segment, too
        other, end = _again(index), first
        for number, (what, *arguments) in enumerate(later):
            if what == "add":
                rows = _rows(make_rows, arguments[0], first=end + 1, seed=number)
                end += arguments[0]
                index.add(rows)
                other.add(rows)
            elif what == "remove":
                index.remove(arguments[0])
                other.remove(arguments[0])
            elif what == "expire":
                now = max(now, arguments[0])
            else:
                other = _again(other)
            if number % 2:
                assert _answers(other, ask, now) == _answers(index, ask, now)
        assert _answers(other, ask, now) == _answers(index, ask, now)


def test_adding_and_removing_leave_the_file_and_other_processes_alone(make_rows: Any, ask: Any, tmp_path: Path) -> None:
    index = ShelfIndex(64)
    index.add(_rows(make_rows, 300))
    path = tmp_path / "s"
    with path.open("wb") as file:
        index.save().write(file, None)
    before = path.read_bytes()
    with path.open("rb") as file, path.open("rb") as again:
        one, other = ShelfIndex.load(Segment(file), 64), ShelfIndex.load(Segment(again), 64)
    expected = _answers(other, ask, 0)
    one.remove(range(1, 100))
    one.add(_rows(make_rows, 10, first=301))
    assert _answers(one, ask, 0) != expected == _answers(other, ask, 0)
    assert path.read_bytes() == before


def test_mapped_bytes_are_counted_apart(make_rows: Any) -> None:
    index = ShelfIndex(64)
    index.add(_rows(make_rows, 2_000))
    segment = _sealed(index)
    other = ShelfIndex.load(segment, 64)
    assert index.mapped_bytes == 0
    assert other.mapped_bytes == segment.nbytes > 2_000 * 64 * 4
    assert other.nbytes < index.nbytes / 20
    other.add(_rows(make_rows, 10, first=2_001))
    assert other.nbytes < index.nbytes / 5
    other.add(_rows(make_rows, 2_000, first=2_011))  # more than there is room for: now all of it is its own
    assert other.nbytes > index.nbytes


def test_heads_of_vectors_are_kept(make_rows: Any) -> None:
    rows = _rows(make_rows, 3_000)
    index = ShelfIndex(64)
    index.vectors = PrunedTable(64, prune_from=100)
    index.add(rows)
    query = np.frombuffer(rows[7].vector, np.float32)
    nearest, _ = index.vectors.top(query, 5)
    segment = _sealed(index)
    assert ("heads" in segment) == (index.vectors.nbytes > index.vectors.matrix.nbytes)
    other = ShelfIndex.load(segment, 64)
    assert other.vectors.top(query, 5)[0].tolist() == nearest.tolist()


@pytest.fixture(scope="module")
def written(make_rows: Callable[..., Any]) -> bytes:
    index = ShelfIndex(64)
    index.add(_rows(make_rows, 200))
    _ = index.context
    with tempfile.TemporaryFile() as file:
        index.save().write(file, {"made": 1})
        file.seek(0)
        return file.read()


def _open(data: bytes) -> Segment:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return Segment(file)


def test_one_changed_byte_in_any_part_is_noticed(written: bytes) -> None:
    segment: Any = _open(written)
    begin = np.frombuffer(segment._pages, np.uint8).ctypes.data
    places = [0, 9, 40, 100]
    for name in segment._arrays:
        data = segment.array(name)
        if data.size:
            places += [data.ctypes.data - begin + offset for offset in (0, data.nbytes - 1)]
    assert len(places) > 60 and min(places) == 0
    for place in places:
        damaged = bytearray(written)
        damaged[place] ^= 0x10
        with pytest.raises(Damaged):
            _open(bytes(damaged))


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.999999])
def test_a_truncated_or_longer_file_is_noticed(written: bytes, share: float) -> None:
    with pytest.raises(Damaged):
        _open(written[: int(len(written) * share)])
    with pytest.raises(Damaged):
        _open(written + b"\0")


def test_another_format_is_not_opened(written: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert msgspec.msgpack.decode(read_about(io.BytesIO(written))) == {"made": 1}
    monkeypatch.setattr(format, "FORMAT", format.FORMAT + 1)
    with pytest.raises(Damaged, match="format"):
        _open(written)
    with pytest.raises(Damaged, match="format"):
        read_about(io.BytesIO(written))


def test_names_with_the_same_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(format, "_hash_of", lambda name: 7)
    contents = Contents()
    contents.add_names("n", [b"a", b"bb", b"", b"ccc"])
    with tempfile.TemporaryFile() as file:
        contents.write(file, None)
        names = Segment(file).names("n")
    assert [names.find(one) for one in (b"a", b"bb", b"", b"ccc", b"d")] == [0, 1, 2, 3, None]
    assert names.find_all([b"ccc", b"d"]) == [3, None]
    assert list(names) == [names[number] for number in range(4)] == [b"a", b"bb", b"", b"ccc"]
