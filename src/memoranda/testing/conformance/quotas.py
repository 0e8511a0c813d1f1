"""Quotas: how much one actor may write in one window of time."""

from __future__ import annotations

import pytest

from memoranda.api.memory import Memory
from memoranda.errors import (
    MemorandaError,
    QuotaExceeded,
)
from memoranda.model.policy import Policy, Quota
from memoranda.testing.clock import FakeClock


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
        with pytest.raises(QuotaExceeded) as caught:
            hers.set("d", 1)
        assert (caught.value.limit, caught.value.actual, caught.value.retry_after) == (3, 4, 50.0)
        assert memory.scope(user="ada").get("d") is None
        assert hers.value("a") == 1  # reading is free
        other = memory.acting_as("other", policy=policy).scope(user="ada")
        assert other.set("e", 1).version == 1  # and others have their own
        clock.advance(49.999999)
        with pytest.raises(QuotaExceeded):
            hers.set("d", 1)
        clock.advance(0.000001)
        assert hers.set("d", 1).version == 1

    def test_a_quota_of_bytes_counts_values_as_json(self, memory: Memory) -> None:
        agent = memory.acting_as("agent", policy=Policy.of(allow=("memory",), quota=Quota(bytes=20, per="1h")))
        hers = agent.scope(user="ada")
        hers.set("a", "x" * 8)
        with pytest.raises(QuotaExceeded) as caught:
            hers.set("b", "x" * 9)
        assert (caught.value.limit, caught.value.actual) == (20, 21)
        assert hers.set("b", "x" * 8).version == 1
        with pytest.raises(QuotaExceeded):
            hers.set("c", 1)

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
        with pytest.raises(QuotaExceeded):
            hers.set("k", 2)
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
        with pytest.raises(QuotaExceeded):
            hers.set("k5", 5)

    def test_a_short_window_does_not_reset_a_long_one(self, memory: Memory, clock: FakeClock) -> None:
        policy = Policy.of(allow=("memory",), quota=Quota(writes=3, per="1h"))
        agent = memory.acting_as("agent", policy=policy)
        narrow = agent.narrowed(Policy.of(allow=("*",), quota=Quota(writes=2, per="1m")))
        hers = narrow.scope(user="ada")
        clock.advance(90)
        assert [hers.set(f"k{n}", n).version for n in range(2)] == [1, 1]
        with pytest.raises(QuotaExceeded):
            hers.set("too many in a minute", 1)
        clock.advance(60)
        assert hers.set("k3", 3).version == 1
        with pytest.raises(QuotaExceeded) as caught:
            hers.set("too many in an hour", 1)
        assert caught.value.limit == 3
