"""Reads are recorded without making the reader wait, and no record is lost."""

from __future__ import annotations

import pytest

import memoranda
from memoranda.governance.ledger import DeferredEvents, Signature
from memoranda.model.event import Note
from memoranda.store.memory import MemoryStore
from memoranda.testing import FakeClock


def reads(memory: memoranda.Memory) -> list[tuple[str, str | None]]:
    return [(event.effect, event.key) for event in memory.ledger.events() if event.effect == "get_fact"]


def test_reads_are_events_only_when_asked_for(tmp_path) -> None:
    with memoranda.open(str(tmp_path / "quiet.db")) as memory:
        memory.scope(user="ada").get("language")
        memory.settle()
        assert reads(memory) == []
    with memoranda.open(str(tmp_path / "all.db"), ledger="all") as memory:
        memory.scope(user="ada").get("language")
        memory.settle()
        assert reads(memory) == [("get_fact", "language")]


def test_what_was_put_off_is_written_by_close(tmp_path) -> None:
    path = str(tmp_path / "m.db")
    memory = memoranda.open(path, ledger="all")
    for number in range(20):
        memory.scope(user="ada").get(f"key{number}")
    memory.close()
    with memoranda.open(path) as memory:
        assert len(reads(memory)) == 20
        assert memory.ledger.verify().ok


def test_what_was_put_off_is_written_by_the_background_thread(tmp_path) -> None:
    path = str(tmp_path / "m.db")
    with memoranda.open(path, ledger="all") as memory, memoranda.open(path) as other:
        memory.scope(user="ada").get("language")
        for _ in range(1_000):
            if reads(other):
                break
            memory._gate._deferred._closing.wait(0.01)
        assert reads(other) == [("get_fact", "language")]


class FullStore(MemoryStore):
    """A store whose disk is full until it is not."""

    full = True

    def transact(self, work, *, wait=True, within=None):
        if self.full:
            raise memoranda.Full("no space left", hint="Make room")
        return super().transact(work)


def test_what_cannot_be_written_waits_and_is_not_forgotten() -> None:
    store = FullStore()
    deferred = DeferredEvents(store)
    signature = Signature(tenant="default", at=FakeClock().now(), actor="owner", door="python", decision="allow")
    deferred.add(Note(effect="get_fact", key="language"), signature)
    with pytest.raises(memoranda.Full):
        deferred.flush()
    store.full = False
    deferred.close()
    assert [event.key for event in store.read(lambda rows: list(rows.events("default")))] == ["language"]
