"""How calls behave: batches, idempotency keys, quotas, paging, writes that must not wait, and marks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import (
    ApprovalRequired,
    Busy,
    Conflict,
    Denied,
    IdempotencyMismatch,
    LimitExceeded,
    MemorandaError,
    QuotaExceeded,
    SchemaViolation,
    UsageError,
)
from memoranda.model.fact import Fact
from memoranda.model.limits import Limits
from memoranda.model.policy import OWNER, Policy, Quota
from memoranda.model.scope import Scope
from memoranda.store.base import Store, Transaction
from memoranda.testing.conformance.base import Capability, assert_raises, requires, snapshot, unchanged
from memoranda.testing.fakes import FakeClock


class BatchPromises:
    """All or nothing, in the order given, across scopes."""

    def test_a_batch_writes_and_deletes_in_order(self, memory: Memory, ada: ScopedMemory, clock: FakeClock) -> None:
        agent = memory.scope(user="ada", agent="x")
        ada.set("old", 1)
        with memory.batch() as batch:
            batch.set(ada, "k", 1, ttl="1m", domain="d")
            batch.set(ada, "k", 2, expect=1)
            batch.delete(ada, "old", expect=1)
            batch.set(agent, "k", 3, expect=0)
            batch.delete(agent, "never")
            assert ada.get("k") is None  # nothing is sent before the block ends
        first, second, third, fourth, fifth = batch.results
        assert isinstance(first, Fact) and isinstance(second, Fact) and isinstance(fourth, Fact)
        assert (first.version, first.value, first.domain) == (1, 1, "d")
        assert (second.version, second.value, second.expires_at) == (2, 2, None)
        assert (third, fifth) == (True, False)
        assert ada.get("k") == second
        assert agent.get("k") == fourth
        assert ada.get("old") is None
        assert [r.value for r in ada.history("k")] == [1, 2]

    def test_a_conflict_in_the_middle_leaves_nothing_of_the_batch(self, memory: Memory, store: Store) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        ada.set("old", 1)
        bob.set("k", 1)
        with unchanged(store):
            with pytest.raises(Conflict) as caught, memory.batch() as batch:
                batch.set(ada, "new", 1)
                batch.delete(ada, "old")
                batch.set(bob, "k", 2, expect=7)
                batch.set(bob, "later", 1)
            assert (caught.value.expected, caught.value.actual, caught.value.key) == (7, 1, "k")
            assert batch.results == []
        assert (ada.get("new"), bob.get("later")) == (None, None)
        assert (ada.value("old"), bob.value("k")) == (1, 1)

    def test_a_refused_record_leaves_nothing_of_the_batch(self, memory: Memory, store: Store) -> None:
        memory.definitions.create(
            name="P", slug="p", schema={"type": "object", "properties": {"n": {"type": "integer"}}}
        )
        ada = memory.scope(user="ada")
        with unchanged(store), pytest.raises(SchemaViolation), memory.batch() as batch:
            batch.set(ada, "k", 1)
            batch.set(ada, "p", {"n": "one"})
        with memory.batch() as batch:
            batch.set(ada, "k", 1)
            batch.set(ada, "p", {"n": 1})
        assert [fact.key for fact in ada.list()] == ["k", "p"]

    def test_a_failed_batch_uses_no_versions(self, memory: Memory, ada: ScopedMemory) -> None:
        with pytest.raises(Conflict), memory.batch() as batch:
            batch.set(ada, "k", 1)
            batch.set(ada, "k", 2, expect=0)
        assert ada.set("k", 3).version == 1
        assert len(ada.history("k")) == 1

    def test_a_block_that_fails_sends_nothing(self, memory: Memory, ada: ScopedMemory, store: Store) -> None:
        with unchanged(store), pytest.raises(ZeroDivisionError), memory.batch() as batch:
            batch.set(ada, "k", 1)
            raise ZeroDivisionError
        with memory.batch() as batch:
            batch.set(ada, "k", 1)
        assert ada.value("k") == 1

    def test_an_empty_batch_does_nothing(self, memory: Memory) -> None:
        with memory.batch() as batch:
            pass
        assert batch.results == []
        assert memory.ledger.verify().length == 0

    def test_a_batch_stays_inside_one_tenant(self, memory: Memory, ada: ScopedMemory, store: Store) -> None:
        stranger = memory.scope(tenant="other", user="ada")
        with unchanged(store), pytest.raises(UsageError), memory.batch() as batch:
            batch.set(ada, "k", 1)
            batch.set(stranger, "k", 1)
        assert ada.set("k", 1).version == stranger.set("k", 1).version == 1

    def test_a_batch_has_a_limit_and_the_error_names_it(self, store: Store, clock: FakeClock) -> None:
        memory = Memory(store, clock=clock, limits=Limits(batch=3))
        ada = memory.scope(user="ada")
        with pytest.raises(LimitExceeded) as caught, memory.batch() as batch:
            for n in range(4):
                batch.set(ada, f"k{n}", n)
        assert (caught.value.limit, caught.value.actual) == (3, 4)
        assert ada.list() == []
        with memory.batch() as batch:
            for n in range(3):
                batch.set(ada, f"k{n}", n)
        assert len(ada.list()) == 3
        memory.close()

    def test_each_write_of_a_batch_is_an_event(self, memory: Memory, ada: ScopedMemory, bob: ScopedMemory) -> None:
        with memory.batch() as batch:
            batch.set(ada, "k", 1)
            batch.set(bob, "k", 1)
            batch.delete(ada, "k")
        assert [(e.effect, e.scope, e.key, e.version) for e in memory.ledger.events()] == [
            ("set_fact", "user:ada", "k", 1),
            ("set_fact", "user:bob", "k", 1),
            ("delete_fact", "user:ada", "k", 2),
        ]

    @requires(Capability.RESTART)
    def test_an_acknowledged_batch_survives_a_restart_whole(self, memory: Memory, reopen: Callable[[], Memory]) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        with memory.batch() as batch:
            for n in range(100):
                batch.set(ada if n % 2 else bob, f"k{n}", n)
        again = reopen()
        assert len(again.scope(user="ada").list()) == len(again.scope(user="bob").list()) == 50
        assert all(finding.ok for finding in again.inspect())


class IdempotencyPromises:
    """The same key and the same request give the same result and one write."""

    def test_a_repeated_set_gives_the_first_result_and_writes_once(self, ada: ScopedMemory, clock: FakeClock) -> None:
        first = ada.set("k", {"n": 1}, ttl="1m", domain="d", source="s", idempotency_key="r1")
        clock.advance(5)
        again = ada.set("k", {"n": 1}, ttl=60, domain="d", source="s", idempotency_key="r1")
        assert again == first
        assert len(ada.history("k")) == 1
        assert ada.set("k", {"n": 1}, idempotency_key="r2").version == 2

    def test_a_repeated_set_gives_the_first_result_even_after_later_writes(self, ada: ScopedMemory) -> None:
        first = ada.set("k", "one", idempotency_key="r1")
        ada.set("k", "two")
        assert ada.set("k", "one", idempotency_key="r1") == first
        assert ada.value("k") == "two"
        ada.delete("k")
        assert ada.set("k", "one", idempotency_key="r1") == first
        assert ada.get("k") is None
        assert [r.change for r in ada.history("k")] == ["set", "set", "deleted"]

    def test_a_repeated_compare_and_set_does_not_conflict(self, ada: ScopedMemory) -> None:
        ada.set("k", 0)
        first = ada.set("k", 1, expect=1, idempotency_key="r1")
        assert ada.set("k", 1, expect=1, idempotency_key="r1") == first
        assert_raises(Conflict, ada.set, "k", 1, expect=1, idempotency_key="r2")

    def test_one_key_for_another_request_is_a_mismatch_and_changes_nothing(self, memory: Memory, store: Store) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", 1, ttl=60, idempotency_key="r1")
        with unchanged(store):
            for attempt in (
                lambda: ada.set("k", 2, ttl=60, idempotency_key="r1"),
                lambda: ada.set("k", True, ttl=60, idempotency_key="r1"),
                lambda: ada.set("other", 1, ttl=60, idempotency_key="r1"),
                lambda: ada.set("k", 1, ttl=61, idempotency_key="r1"),
                lambda: ada.set("k", 1, idempotency_key="r1"),
                lambda: ada.set("k", 1, ttl=60, domain="d", idempotency_key="r1"),
                lambda: ada.set("k", 1, ttl=60, expect=0, idempotency_key="r1"),
                lambda: ada.delete("k", idempotency_key="r1"),
            ):
                error = assert_raises(IdempotencyMismatch, attempt)
                assert error.expected != error.actual
        assert ada.set("k", 1, ttl=60, idempotency_key="r1").version == 1

    def test_other_scopes_and_tenants_use_the_same_key_for_themselves(self, memory: Memory) -> None:
        places = (
            memory.scope(user="ada"),
            memory.scope(user="bob"),
            memory.scope(user="ada", agent="x"),
            memory.scope(tenant="other", user="ada"),
        )
        for number, place in enumerate(places):
            assert place.set("k", number, idempotency_key="r1").version == 1
        for number, place in enumerate(places):
            assert place.set("k", number, idempotency_key="r1").version == 1
            assert place.value("k") == number

    def test_a_repeated_delete_gives_the_first_answer(self, ada: ScopedMemory) -> None:
        ada.set("k", 1)
        assert ada.delete("k", idempotency_key="d1") is True
        assert ada.delete("k", idempotency_key="d1") is True
        assert ada.delete("missing", idempotency_key="d2") is False
        ada.set("missing", 1)
        assert ada.delete("missing", idempotency_key="d2") is False
        assert ada.value("missing") == 1
        ada.set("k", 2)
        assert ada.delete("k", idempotency_key="d1") is True
        assert ada.value("k") == 2

    def test_a_repeated_batch_gives_the_first_results_and_writes_once(self, memory: Memory) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        ada.set("old", 1)

        def send(value: int) -> list[object]:
            with memory.batch(idempotency_key="b1") as batch:
                batch.set(ada, "k", value)
                batch.delete(ada, "old")
                batch.set(bob, "k", value)
                batch.delete(bob, "never")
            return list(batch.results)

        first = send(7)
        assert send(7) == first
        assert first[1:4:2] == [True, False]
        assert (len(ada.history("k")), len(bob.history("k")), len(ada.history("old"))) == (1, 1, 2)
        assert_raises(IdempotencyMismatch, send, 8)
        assert (ada.value("k"), bob.value("k")) == (7, 7)

    def test_the_ledger_has_one_event_for_a_repeated_request(self, memory: Memory, ada: ScopedMemory) -> None:
        for _ in range(3):
            ada.set("k", 1, idempotency_key="r1")
            ada.delete("other", idempotency_key="r2")
        assert [(e.effect, e.key, e.version) for e in memory.ledger.events()] == [("set_fact", "k", 1)]
        ada.set("k", 1)
        assert memory.ledger.verify().length == 2

    def test_a_request_that_failed_may_be_sent_again_under_its_key(self, ada: ScopedMemory) -> None:
        assert_raises(Conflict, ada.set, "k", 2, expect=1, idempotency_key="r1")
        ada.set("k", 1)
        assert ada.set("k", 2, expect=1, idempotency_key="r1").version == 2

    def test_a_week_old_key_is_swept_and_may_be_used_anew(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", 1, idempotency_key="r1")
        clock.advance(6 * 86_400)
        assert memory.sweep().idempotency_keys == 0
        assert ada.set("k", 1, idempotency_key="r1").version == 1
        clock.advance(2 * 86_400)
        assert memory.sweep().idempotency_keys == 1
        assert ada.set("k", 9, idempotency_key="r1").version == 2

    @requires(Capability.RESTART)
    def test_a_request_repeated_after_a_restart_is_done_once(
        self, ada: ScopedMemory, reopen: Callable[[], Memory]
    ) -> None:
        first = ada.set("k", {"n": [1, 2]}, idempotency_key="r1")
        ada.delete("k", idempotency_key="d1")
        again = reopen().scope(user="ada")
        assert again.set("k", {"n": [1, 2]}, idempotency_key="r1") == first
        assert again.delete("k", idempotency_key="d1") is True
        assert len(again.history("k")) == 2
        assert_raises(IdempotencyMismatch, again.set, "k", {"n": [1]}, idempotency_key="r1")


class QuotaPromises:
    """Each quota counts in its own window, and a write that does not fit leaves nothing but its refusal."""

    def test_a_quota_of_writes_is_for_one_window(self, memory: Memory, clock: FakeClock) -> None:
        policy = Policy.of(allow=("memory",), quota=Quota(writes=3, per="1m"))
        agent = memory.acting_as("agent", policy=policy)
        hers = agent.scope(user="ada")
        clock.advance(10)
        hers.set("a", 1)
        with agent.batch() as batch:
            batch.set(hers, "b", 1)
            batch.set(hers, "c", 1)
        error = assert_raises(QuotaExceeded, hers.set, "d", 1)
        assert (error.limit, error.actual, error.retry_after) == (3, 4, 50.0)
        assert memory.scope(user="ada").get("d") is None
        assert hers.value("a") == 1  # reading is free
        other = memory.acting_as("other", policy=policy).scope(user="ada")
        assert other.set("e", 1).version == 1  # and others have their own
        clock.advance(49.999999)
        assert_raises(QuotaExceeded, hers.set, "d", 1)
        clock.advance(0.000001)
        assert hers.set("d", 1).version == 1

    def test_a_quota_of_bytes_counts_values_as_json(self, memory: Memory) -> None:
        agent = memory.acting_as("agent", policy=Policy.of(allow=("memory",), quota=Quota(bytes=20, per="1h")))
        hers = agent.scope(user="ada")
        hers.set("a", "x" * 8)
        error = assert_raises(QuotaExceeded, hers.set, "b", "x" * 9)
        assert (error.limit, error.actual) == (20, 21)
        assert hers.set("b", "x" * 8).version == 1
        assert_raises(QuotaExceeded, hers.set, "c", 1)

    def test_a_batch_that_does_not_fit_its_quota_is_refused_whole_and_not_counted(self, memory: Memory) -> None:
        agent = memory.acting_as("agent", policy=Policy.of(allow=("memory",), quota=Quota(writes=2)))
        hers = agent.scope(user="ada")
        with pytest.raises(QuotaExceeded), agent.batch() as batch:
            for n in range(3):
                batch.set(hers, f"k{n}", n)
        assert memory.scope(user="ada").list() == []
        assert [hers.set("a", 1).version, hers.set("b", 1).version] == [1, 1]

    def test_a_write_that_fails_is_not_counted(self, memory: Memory) -> None:
        agent = memory.acting_as("agent", policy=Policy.of(allow=("memory",), quota=Quota(writes=1)))
        hers = agent.scope(user="ada")
        for _ in range(3):
            with pytest.raises(MemorandaError, match="does not exist"):
                hers.set("k", 1, expect=5)
        assert hers.set("k", 1).version == 1

    def test_a_refusal_by_quota_is_in_the_ledger(self, memory: Memory) -> None:
        agent = memory.acting_as("agent", policy=Policy.of(allow=("memory",), quota=Quota(writes=1)))
        hers = agent.scope(user="ada")
        hers.set("k", 1)
        assert_raises(QuotaExceeded, hers.set, "k", 2)
        allowed, refused = memory.ledger.events()
        assert (allowed.decision, allowed.version) == ("allow", 1)
        assert (refused.decision, refused.effect, refused.key, refused.actor) == ("deny", "set_fact", "k", "agent")
        assert refused.version is None
        assert memory.ledger.verify().ok
        assert all(finding.ok for finding in memory.inspect())

    def test_two_quotas_on_one_actor_each_count_once(self, memory: Memory, clock: FakeClock) -> None:
        policy = Policy.of(allow=("memory",), quota=Quota(writes=4, per="1h"))
        agent = memory.acting_as("agent", policy=policy)
        narrow = agent.narrowed(Policy.of(allow=("*",), quota=Quota(writes=4, per="1h")))
        hers = narrow.scope(user="ada")
        assert [hers.set(f"k{n}", n).version for n in range(4)] == [1] * 4
        assert_raises(QuotaExceeded, hers.set, "k5", 5)

    def test_a_short_window_does_not_reset_a_long_one(self, memory: Memory, clock: FakeClock) -> None:
        policy = Policy.of(allow=("memory",), quota=Quota(writes=3, per="1h"))
        agent = memory.acting_as("agent", policy=policy)
        narrow = agent.narrowed(Policy.of(allow=("*",), quota=Quota(writes=2, per="1m")))
        hers = narrow.scope(user="ada")
        clock.advance(90)
        assert [hers.set(f"k{n}", n).version for n in range(2)] == [1, 1]
        assert_raises(QuotaExceeded, hers.set, "too many in a minute", 1)
        clock.advance(60)
        assert hers.set("k3", 3).version == 1
        error = assert_raises(QuotaExceeded, hers.set, "too many in an hour", 1)
        assert error.limit == 3


T = TypeVar("T")


class BoundPromises:
    """A list goes on where its last part ended, and gives everything once."""

    def test_history_goes_on_after_a_version_and_backwards_before_one(self, memory: Memory, ada: ScopedMemory) -> None:
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


_PATIENCE = 2.0
"""Seconds in which something that does not wait ends once it has begun, on any machine."""


class AtOncePromises:
    """A write is done without waiting, or refused before it begins. A store may always refuse."""

    def test_at_once_a_write_is_kept_or_refused(self, memory: Memory, store: Store) -> None:
        before = snapshot(store)
        try:
            written = memory.at_once().scope(user="ada").set("k", 1)
        except Busy:
            assert snapshot(store) == before
            written = memory.scope(user="ada").set("k", 1)
        assert memory.scope(user="ada").get("k") == written
        assert memory.ledger.verify().ok

    def test_a_write_that_must_not_wait_is_refused_while_another_runs(self, memory: Memory, store: Store) -> None:
        ended: list[BaseException | None] = []
        writes, begun, go_on = threading.Event(), threading.Event(), threading.Event()

        def write_for_long(rows: Transaction) -> None:
            writes.set()
            go_on.wait(60)

        def write_at_once() -> None:
            place = memory.at_once().scope(user="ada")
            begun.set()
            try:
                place.set("k", 1)
            except BaseException as error:
                ended.append(error)
            else:
                ended.append(None)

        long = threading.Thread(target=store.transact, args=(write_for_long,), daemon=True)
        hurried = threading.Thread(target=write_at_once, daemon=True)
        long.start()
        try:
            assert writes.wait(60)
            hurried.start()
            assert begun.wait(60)
            hurried.join(_PATIENCE)
        finally:
            go_on.set()
        long.join(60)
        hurried.join(60)
        assert [type(error) for error in ended] == [Busy]
        assert memory.scope(user="ada").get("k") is None
        assert memory.scope(user="ada").set("k", 2).version == 1

    def test_what_has_to_be_embedded_is_refused_at_once(self, memory: Memory, store: Store) -> None:
        memory.scope(user="ada").remember("the first", collection="notes")
        with unchanged(store):
            assert_raises(Busy, memory.at_once().scope(user="ada").remember, "the second", collection="notes")
        memory.scope(user="ada").remember("the second", collection="notes")
        assert len(memory.scope(user="ada").entries(collection="notes")) == 2

    def test_handles_made_of_one_that_does_not_wait_do_not_wait_either(self, memory: Memory) -> None:
        hurried = memory.at_once()
        guest = Policy.of(allow=("memory.read", "memory.write"))
        for handle in (
            hurried,
            hurried.acting_as("agent:a", policy=OWNER),
            hurried.acting_as("agent:a", policy=OWNER).narrowed(guest),
            hurried.in_tenant(memory.tenant),
        ):
            assert_raises(Busy, handle.scope(user="ada").remember, "text", collection="notes")
        patient = memory.acting_as("agent:a", policy=OWNER).narrowed(guest)
        patient.scope(user="ada").remember("text", collection="notes")
        assert [entry.content for entry in memory.scope(user="ada").entries(collection="notes")] == ["text"]


class MarkPromises:
    """A mark changes with every write of any writer; that of a tenant with every write to the tenant."""

    def test_every_kind_of_write_changes_the_mark_of_its_tenant(self, memory: Memory, second: Memory) -> None:
        ada = second.in_tenant("acme").scope(user="ada")
        acme = second.in_tenant("acme")
        writes: dict[str, Callable[[], object]] = {
            "set": lambda: ada.set("k", 1),
            "set again": lambda: ada.set("k", 2),
            "delete": lambda: ada.delete("k"),
            "remember": lambda: ada.remember("a text", collection="notes", key="one"),
            "forget": lambda: ada.forget(collection="notes", key="one"),
            "block": lambda: ada.blocks.update("core", "a text", expected_updated_at=None),
            "define": lambda: acme.definitions.create(name="D", slug="d", schema={"type": "object"}),
            "grant": lambda: acme.permissions.grant("agent:a", "memory.read"),
            "erase": lambda: acme.erase(user="ada"),
        }
        unchanged: list[str] = []
        for name, write in writes.items():
            before = memory.mark(), memory.mark(tenant="acme")
            write()
            after = memory.mark(), memory.mark(tenant="acme")
            unchanged += [name for one, other in zip(before, after, strict=True) if one == other]
        assert unchanged == []

    def test_marks_stay_without_writes(self, memory: Memory) -> None:
        memory.scope(user="ada").set("k", 1)
        memory.settle()
        before = memory.mark(), memory.mark(tenant=memory.tenant), memory.mark(tenant="nobody's")
        assert memory.scope(user="ada").value("k") == 1
        assert (memory.mark(), memory.mark(tenant=memory.tenant), memory.mark(tenant="nobody's")) == before

    def test_the_mark_of_another_tenant_is_denied(self, memory: Memory) -> None:
        guest = memory.in_tenant("acme").acting_as("agent:a", policy=OWNER)
        assert_raises(Denied, guest.mark, tenant="other")
        assert guest.mark(tenant="acme") == memory.mark(tenant="acme")
