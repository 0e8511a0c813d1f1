"""Derived data that is damaged in the file is named, never guessed around; an index that is lost comes back equal."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import closing
from typing import Any

import apsw
import msgspec
import pytest

import memoranda
from memoranda import Corrupt, Memory, ScopedMemory
from memoranda.model.entry import MODES
from memoranda.retrieval.analysis.analyser import Analysis, pack
from memoranda.testing import FakeClock

HOUSE = ["the roof is new", "the door was painted green", "the cellar floods in March", "nobody has the attic key"]


def open_house(path: str) -> Memory:
    return memoranda.open(path, embedder="hashing:64")


@pytest.fixture
def house(path: str) -> str:
    """A file with four entries, closed. The third one is the one that gets damaged."""
    with open_house(path) as memory:
        items = [{"content": text, "metadata": {"n": number}} for number, text in enumerate(HOUSE)]
        memory.scope(user="ada").remember_many(items, collection="house")
        memory.scope(user="bob").remember("the roof of the shed", collection="house")
    return path


def damage(path: str, sql: str, *values: bytes) -> None:
    # apsw's own SQLite: a second library in one process would take the locks of the first away.
    with closing(apsw.Connection(path)) as connection:
        connection.execute(sql, values)
        assert connection.changes() == 1


def recall(memory: Memory, user: str = "ada", **options: Any) -> list[str]:
    found = memory.scope(user=user).recall("the roof", collection="house", limit=10, **options)
    return [match.content for match in found.results]


VECTOR = "UPDATE vectors SET vector = ? WHERE place / 256 = 3"
WORDS = "UPDATE vectors SET analysis = ? WHERE place / 256 = 3"
METADATA = "UPDATE vectors SET metadata = ? WHERE place / 256 = 3"
UNEVEN = pack(Analysis(language="en", terms="cellar flood", counts=b"\x01", length=2, features=0, names=0))

DAMAGES = {
    "vector cut short": (VECTOR, b"\0" * 255, "vector"),
    "vector of another length": (VECTOR, b"\0" * 128, "vector"),
    "vector of nothing": (VECTOR, b"", "vector"),
    "vector of zeros": (VECTOR, b"\0" * 256, "vector"),
    "vector of NaN": (VECTOR, struct.pack("<64f", *[float("nan")] * 64), "vector"),
    "vector of infinities": (VECTOR, struct.pack("<64f", *[float("inf")] * 64), "vector"),
    "vector of noise": (VECTOR, bytes(range(256)), "vector"),
    "words that are no words": (WORDS, b"\xc1", "words"),
    "words cut short": (WORDS, UNEVEN[:-1], "words"),
    "words of another shape": (WORDS, msgspec.msgpack.encode({"language": "en"}), "words"),
    "words that are not text": (WORDS, UNEVEN.replace(b"cellar", b"cell\xff\xff"), "words"),
    "words without their counts": (WORDS, UNEVEN, "words"),
    "no words": (WORDS, b"", "words"),
    "metadata that are no JSON": (METADATA, b"{", "metadata"),
    "metadata that are no map": (METADATA, b"[1]", "metadata"),
    "metadata that are not text": (METADATA, b'{"n": "\xff"}', "metadata"),
}


@pytest.mark.parametrize(("sql", "value", "what"), DAMAGES.values(), ids=DAMAGES)
def test_damage_is_named_and_spoils_nothing_else(house: str, sql: str, value: bytes, what: str):
    with open_house(house) as memory:
        assert recall(memory)[0] == HOUSE[0]  # the control: it could be read
    damage(house, sql, value)
    with open_house(house) as memory:
        for _ in range(2):  # and again, as half an index must not stay behind
            for mode in MODES:
                with pytest.raises(Corrupt, match=rf"{what}.*entry 3\b") as named:
                    recall(memory, mode=mode)
                assert named.value.details["sequence"] == 3 and named.value.hint
        with pytest.raises(Corrupt, match=r"entry 3\b"):
            recall(memory, filter={"n": 0})  # it is not looked around for either
        with pytest.raises(Corrupt, match=r"entry 3\b"):
            recall(memory, as_of="2999-01-01T00:00:00Z")
        assert recall(memory, "bob") == ["the roof of the shed"]
        ada = memory.scope(user="ada")
        assert [entry.content for entry in ada.entries(collection="house")] == HOUSE  # what it was made of is whole
        assert ada.forget(ada.entries(collection="house")[2].id, collection="house")
        assert sorted(recall(memory)) == sorted([*HOUSE[:2], HOUSE[3]])


def test_who_has_an_index_goes_on_and_says_so_when_it_meets_the_damage(house: str):
    """What is in memory is whole. A row that is damaged before it was read is named, and then nothing is half done."""
    with open_house(house) as memory:
        before = recall(memory)
        assert len(before) == 4
        damage(house, VECTOR, b"")
        assert recall(memory) == before
        memory.scope(user="ada").remember("the stairs creak", collection="house")
        sequence = memory.scope(user="ada").entries(collection="house")[-1].sequence
        damage(house, f"UPDATE vectors SET analysis = x'c1' WHERE place / 256 = {sequence}")
        for _ in range(2):
            with pytest.raises(Corrupt, match=rf"entry ({sequence}|3)\b"):
                recall(memory)


def test_a_vector_that_is_gone_is_seen_by_an_inspection(house: str):
    with open_house(house) as memory:
        assert [finding for finding in memory.inspect() if not finding.ok] == []
    damage(house, "DELETE FROM vectors WHERE place / 256 = 3")
    with open_house(house) as memory:
        (finding,) = [finding for finding in memory.inspect() if not finding.ok]
        assert "has no vector" in finding.detail


def test_damaged_content_is_named(house: str):
    damage(house, "UPDATE entries SET payload = x'7b' WHERE sequence = 3")
    with open_house(house) as memory:
        with pytest.raises(Corrupt, match="entry 3 in"):
            recall(memory)
        assert recall(memory, "bob") == ["the roof of the shed"]


def test_a_damaged_collection_is_named(house: str):
    damage(house, "UPDATE collections SET space = x'7b'")
    with open_house(house) as memory:
        with pytest.raises(Corrupt, match="collection `house`"):
            recall(memory)
        with pytest.raises(Corrupt, match="collection `house`"):
            memory.scope(user="ada").remember("more", collection="house")
        assert memory.scope(user="ada").set("still", "works").version == 1


# an index that is lost


Ranking = list[tuple[str, float, float]]


def ranking(place: ScopedMemory) -> Ranking:
    return [
        (match.id, round(match.score, 4), round(match.why.total, 4))
        for query in ("roof and rain 7", "what was painted", "number 11", "")
        for mode in MODES
        for match in place.recall(query, collection="house", mode=mode, limit=30).results
    ]


def grow(place: ScopedMemory, clock: FakeClock) -> Callable[[], Ranking]:
    """Fill a shelf in many steps, recalling meanwhile, so that its index grows, loses rows and is packed anew."""

    def text(number: int) -> str:
        return f"number {number}: {HOUSE[number % 4]} and rain {number % 13}"

    for start in range(0, 60, 20):
        place.remember_many([{"content": text(number)} for number in range(start, start + 20)], collection="house")
        ranking(place)
    place.remember_many([{"content": text(number)} for number in range(100, 500)], collection="house", ttl="1m")
    ranking(place)
    for entry in place.entries(collection="house")[:40:2]:
        assert place.forget(entry.id, collection="house")
    ranking(place)
    clock.advance(60)
    place.remember_many(
        [{"content": text(number), "metadata": {"thread": number % 3}} for number in range(600, 630)],
        collection="house",
    )
    return lambda: ranking(place)


def test_an_index_that_is_lost_comes_back_equal(path: str):
    clock = FakeClock()
    with memoranda.open(path, embedder="hashing:64", clock=clock, durability="normal") as memory:
        place = memory.scope(user="ada")
        grown = grow(place, clock)()
        assert len(grown) > 100 and len(place.entries(collection="house")) == 70
        with memoranda.open(path, embedder="hashing:64", clock=clock) as fresh:
            assert ranking(fresh.scope(user="ada")) == grown
        memory._gate._indexes.drop(place.scope)
        assert ranking(place) == grown
        place.remember("number 700: the roof is gone, and the rain is in", collection="house")
        assert ranking(place) != grown  # the control: the figures do tell one shelf from another
