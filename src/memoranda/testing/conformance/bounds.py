"""What is promised of long lists: they can be read part by part, and each part is as small as asked for."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from memoranda.api.memory import Memory
from memoranda.errors import ApprovalRequired, UsageError
from memoranda.model.scope import Scope
from memoranda.testing.clock import FakeClock

T = TypeVar("T")


class BoundPromises:
    """A list goes on where its last part ended, and gives everything once."""

    def test_history_goes_on_after_a_version_and_backwards_before_one(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        for number in range(1, 8):
            ada.set("k", number)
        memory.scope(user="bob").set("k", 0)
        assert [one.version for one in ada.history("k", after=2, limit=3)] == [3, 4, 5]
        assert [one.version for one in ada.history("k", after=7)] == []
        assert [one.version for one in ada.history("k", newest=True, limit=2)] == [7, 6]
        assert [one.version for one in ada.history("k", newest=True, before=6)] == [5, 4, 3, 2, 1]
        assert ada.history("k", limit=0) == []
        for wrong in ({"after": -1}, {"limit": -1}, {"before": "x"}, {"max_bytes": 0}):
            with pytest.raises(UsageError):
                ada.history("k", **wrong)  # pyright: ignore[reportArgumentType]  # that is the point

    @pytest.mark.parametrize(
        "sizes", [(1,) * 40, (100_000,) * 5, (1, 1, 1, 200_000, 1, 1), (200_000,), (*(1,) * 30, 90_000)]
    )
    def test_parts_that_are_bounded_by_bytes_give_everything_once(self, memory: Memory, sizes: tuple[int, ...]) -> None:
        ada = memory.scope(user="ada")
        for number, size in enumerate(sizes):
            ada.set("k", "x" * size)
            ada.set(f"many.k{number:03}", "x" * size)
            ada.remember("x" * min(size, 60_000) + f" {number}", collection="c")
        bound = 50_000
        moment = memory.clock.now()
        versions: list[int] = []
        keys: list[str] = []
        then: list[str] = []
        sequences: list[int] = []
        positions: list[int] = []
        # One past the bound is given, and dropped here as a door does: it says that there are more.
        while part := ada.history("k", after=versions[-1] if versions else 0, max_bytes=bound):
            versions += _within(bound, [(one.version, one.value) for one in part])
        while facts := ada.list("many", after=keys[-1] if keys else "", max_bytes=bound):
            keys += _within(bound, [(one.key, one.value) for one in facts])
        while facts := ada.list("many", after=then[-1] if then else "", max_bytes=bound, as_of=moment):
            then += _within(bound, [(one.key, one.value) for one in facts])
        while entries := ada.entries(collection="c", after=sequences[-1] if sequences else 0, max_bytes=bound):
            sequences += _within(bound, [(one.sequence, one.content) for one in entries])
        while events := memory.ledger.events(start=positions[-1] + 1 if positions else 1, max_bytes=1_000):
            positions += [one.position for one in events][:2]
        assert versions == list(range(1, len(sizes) + 1))
        assert keys == then == [f"many.k{number:03}" for number in range(len(sizes))]
        assert sequences == [one.sequence for one in ada.entries(collection="c")]
        assert positions == [one.position for one in memory.ledger.events()]

    def test_what_waits_goes_on_after_an_approval_even_once_that_is_decided(self, memory: Memory) -> None:
        memory.permissions.grant("agent:mail", "memory.write", level="approve")
        mail = memory.acting_as("agent:mail").scope(user="ada")
        ids: list[str] = []
        for number in range(5):
            with pytest.raises(ApprovalRequired) as waits:
                mail.set(f"k{number}", "x" * 1_000)
            ids.append(waits.value.approval)
        assert [one.id for one in memory.approvals.list(limit=2)] == ids[:2]
        memory.approvals.refuse(ids[1])
        assert [one.id for one in memory.approvals.list(after=ids[1], limit=2)] == ids[2:4]
        assert len(memory.approvals.list(max_bytes=1_500)) == 2
        assert memory.approvals.get(ids[3]).id == ids[3]
        with pytest.raises(UsageError, match="gone"):
            memory.approvals.list(after="never")

    def test_records_go_on_after_a_scope(self, memory: Memory, clock: FakeClock) -> None:
        memory.definitions.create(name="Kiln", slug="kiln", schema={"type": "object"})
        for number in range(5):
            memory.scope(user=f"u{number}").set("kiln", {"cone": number})
        seen = memory.definitions.records("kiln", after=Scope.of(user="u1").path, limit=2)
        assert [one.scope.path for one in seen] == ["user:u2", "user:u3"]
        assert len(memory.definitions.records("kiln", max_bytes=15)) == 2


def _within(bound: int, items: list[tuple[T, Any]]) -> list[T]:
    kept: list[T] = []
    size = 0
    for number, (place, value) in enumerate(items):
        size += len(str(value)) + 2
        if size > bound and number:
            break
        kept.append(place)
    return kept
