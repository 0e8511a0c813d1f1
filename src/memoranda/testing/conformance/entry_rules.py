"""What governs remember and recall: permission, approval, quota, the ledger, and embedders that fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import ApprovalRequired, Denied, EmbeddingFailed, LimitExceeded, QuotaExceeded, ScopeEnded
from memoranda.model.limits import Limits
from memoranda.model.policy import Policy, Quota
from memoranda.retrieval.embed.base import Vectors
from memoranda.store.base import Store
from memoranda.testing.conformance.base import (
    Capability,
    WatchedEmbedder,
    live_contents,
    recall_contents,
    requires,
    snapshot,
)
from memoranda.testing.fakes import FakeClock

READER = Policy.of(allow=("memory.read",))
WRITER = Policy.of(allow=("memory.write",))


def _with_nan(vectors: Vectors) -> Vectors:
    vectors[-1, 0] = float("nan")
    return vectors


SPOILED: dict[str, Callable[[Vectors], Vectors]] = {
    "NaN": _with_nan,
    "zeros": lambda vectors: vectors * 0,
    "one number more": lambda vectors: vectors.repeat(2, axis=1),
    "one row less": lambda vectors: vectors[:-1],
}


class EntryRulePromises:
    """Remembering and recalling need permission, are recorded in the ledger, and leave nothing when they fail."""

    # permissions

    def test_a_denied_remember_or_recall_runs_no_embedder(
        self, memory: Memory, open_beside: Callable[..., Memory]
    ) -> None:
        embedder = WatchedEmbedder()
        owner = open_beside(embedder=embedder)
        owner.scope(user="ada").remember("heron", collection="notes")
        asked = list(embedder.asked)
        assert asked
        reader = owner.acting_as("reader", policy=READER).scope(user="ada")
        writer = owner.acting_as("writer", policy=WRITER).scope(user="ada")
        stranger = owner.acting_as("stranger").scope(user="ada")
        for attempt, effect, actor in (
            (lambda: reader.remember("secret otter", collection="notes"), "remember", "reader"),
            (lambda: reader.forget(collection="notes", key="k"), "forget", "reader"),
            (lambda: writer.recall("secret otter", collection="notes"), "recall", "writer"),
            (lambda: writer.entries(collection="notes"), "list_entries", "writer"),
            (lambda: stranger.recall("secret otter", collection="notes"), "recall", "stranger"),
            (lambda: stranger.remember("secret otter", collection="notes"), "remember", "stranger"),
        ):
            length = owner.ledger.verify().length
            with pytest.raises(Denied):
                attempt()
            (event,) = owner.ledger.events(start=length + 1)
            assert (event.effect, event.decision, event.actor) == (effect, "deny", actor)
            assert (event.scope, event.key, event.content) == ("user:ada", "collections.notes", None)
        assert embedder.asked == asked
        assert "otter" not in repr(owner.ledger.events())
        assert recall_contents(reader, "heron") == ["heron"]
        assert writer.remember("otter", collection="notes").stored
        assert len(embedder.asked) > len(asked)

    def test_a_grant_may_be_for_one_collection(self, memory: Memory, ada: ScopedMemory) -> None:
        ada.remember("heron", collection="notes")
        ada.remember("otter", collection="private")
        memory.permissions.grant("agent", "memory", path="collections.notes")
        agent = memory.acting_as("agent").scope(user="ada")
        assert recall_contents(agent, "heron") == ["heron"]
        assert agent.remember("kayak", collection="notes").stored
        for attempt in (
            lambda: agent.recall("otter", collection="private"),
            lambda: agent.remember("kayak", collection="private"),
            lambda: agent.entries(collection="private"),
            lambda: agent.remember("kayak", collection="notes2"),
        ):
            with pytest.raises(Denied):
                attempt()
        assert live_contents(ada, collection="private") == ["otter"]

    def test_an_access_may_close_a_collection(self, memory: Memory, ada: ScopedMemory) -> None:
        ada.remember("heron", collection="notes")
        policy = Policy.of(allow=("memory",), access={"collections.notes": "read", "*": "readwrite"})
        agent = memory.acting_as("agent", policy=policy).scope(user="ada")
        with pytest.raises(Denied):
            agent.remember("otter", collection="notes")
        assert recall_contents(agent, "heron") == ["heron"]
        assert agent.remember("otter", collection="tasks").stored

    def test_collections_have_capabilities_of_their_own(self, memory: Memory) -> None:
        memory.scope(user="ada").remember("heron", collection="notes")
        target = WatchedEmbedder("target")
        user = memory.acting_as("user", policy=Policy.of(allow=("memory", "collections.read")))
        assert [one.name for one in user.collections.list()] == ["notes"]
        for attempt in (
            lambda: user.collections.delete("notes"),
            lambda: user.collections.reembed("notes", target),
            lambda: user.collections.compare("notes", target),
            lambda: user.collections.give_up_reembedding("notes"),
        ):
            with pytest.raises(Denied) as caught:
                attempt()
            assert caught.value.capability == "collections.write"
        assert target.asked == []
        keeper = memory.acting_as("keeper", policy=Policy.of(allow=("collections",)))
        assert keeper.collections.reembed("notes", target).space.embedder == "target"
        assert keeper.collections.delete("notes") == 1
        with pytest.raises(Denied):
            keeper.scope(user="ada").recall("heron", collection="notes")

    def test_a_handle_of_one_tenant_reaches_no_other(self, memory: Memory) -> None:
        memory.scope(tenant="other", user="ada").remember("heron", collection="notes")
        agent = memory.acting_as("agent", policy=Policy.of(allow=("memory",)))
        for attempt in (
            lambda: agent.scope(tenant="other", user="ada").recall("heron", collection="notes"),
            lambda: agent.scope(tenant="other", user="ada").remember("otter", collection="notes"),
        ):
            with pytest.raises(Denied):
                attempt()
        assert recall_contents(memory.scope(tenant="other", user="ada"), "heron otter") == ["heron"]
        assert agent.scope(user="ada").remember("otter", collection="notes").stored

    # approvals

    def test_a_remember_that_waits_is_found_once_it_is_approved(self, memory: Memory, clock: FakeClock) -> None:
        memory.permissions.grant("agent", "memory.write", level="approve")
        memory.permissions.grant("agent", "memory.read")
        agent = memory.acting_as("agent", door="mcp", source="thread:4").scope(user="ada")
        waiting: list[str] = []
        for content in ("heron by the weir", "otter by the mill"):
            with pytest.raises(ApprovalRequired) as caught:
                agent.remember(content, collection="notes", metadata={"n": 1}, ttl=60, key=content[:5])
            waiting.append(caught.value.approval)
        assert recall_contents(agent, "heron") == recall_contents(agent, "") == []
        assert memory.collections.list() == []
        clock.advance(100)
        decided = memory.approvals.approve(waiting[0])
        assert decided.result[0].stored
        memory.approvals.refuse(waiting[1])
        (entry,) = agent.entries(collection="notes")
        assert (entry.content, entry.metadata, entry.key) == ("heron by the weir", {"n": 1}, "heron")
        assert (entry.origin.actor, entry.origin.door, entry.origin.source) == ("agent", "mcp", "thread:4")
        assert (entry.created_at, entry.expires_at) == (clock.now(), decided.result[0].expires_at)
        assert recall_contents(agent, "heron otter") == ["heron by the weir"]
        assert all(finding.ok for finding in memory.inspect())

    def test_no_embedder_works_for_what_cannot_be_stored_anyway(
        self, memory: Memory, open_beside: Callable[..., Memory]
    ) -> None:
        embedder = WatchedEmbedder()
        owner = open_beside(embedder=embedder, limits=Limits(batch=2))
        three = [{"content": f"heron {n}"} for n in range(3)]
        with pytest.raises(LimitExceeded):
            owner.scope(user="ada").remember_many(three, collection="notes")
        session = owner.scope(user="ada").session("s1")
        session.end()
        with pytest.raises(ScopeEnded):
            session.remember("heron", collection="notes")
        frugal = Policy.of(allow=("*",), quota=Quota(writes=1))
        agent = owner.acting_as("agent", policy=frugal).scope(user="ada")
        with pytest.raises(QuotaExceeded):
            agent.remember_many(three[:2], collection="notes")
        assert embedder.asked == []
        agent.remember("heron", collection="notes")
        assert embedder.asked == ["heron"]

    def test_a_narrowed_handle_that_is_denied_runs_no_embedder(
        self, memory: Memory, open_beside: Callable[..., Memory]
    ) -> None:
        embedder = WatchedEmbedder()
        owner = open_beside(embedder=embedder)
        frugal = owner.narrowed(Policy.of(allow=("*",), quota=Quota(writes=1)))
        with pytest.raises(QuotaExceeded):
            frugal.scope(user="ada").remember_many([{"content": "heron"}, {"content": "otter"}], collection="notes")
        with pytest.raises(Denied):
            owner.narrowed(Policy.of(allow=("memory.read",))).scope(user="ada").remember("heron", collection="notes")
        session = owner.scope(user="ada").session("s1")
        session.end()
        with pytest.raises(ScopeEnded):
            owner.narrowed(Policy.of(allow=("*",))).at(session.scope).remember("heron", collection="notes")
        assert embedder.asked == []
        frugal.scope(user="ada").remember("heron", collection="notes")
        with pytest.raises(QuotaExceeded):
            frugal.scope(user="ada").remember("otter", collection="notes")
        assert embedder.asked == ["heron"]

    def test_no_embedder_works_for_a_remember_that_waits(
        self, memory: Memory, open_beside: Callable[..., Memory]
    ) -> None:
        embedder = WatchedEmbedder()
        owner = open_beside(embedder=embedder)
        owner.permissions.grant("agent", "memory", level="approve")
        with pytest.raises(ApprovalRequired) as caught:
            owner.acting_as("agent").scope(user="ada").remember("heron", collection="notes")
        assert embedder.asked == []
        owner.approvals.approve(caught.value.approval)
        assert embedder.asked == ["heron"]

    def test_an_embedder_that_fails_at_the_approval_leaves_it_pending(
        self, memory: Memory, open_beside: Callable[..., Memory]
    ) -> None:
        embedder = WatchedEmbedder()
        owner = open_beside(embedder=embedder)
        owner.permissions.grant("agent", "memory", level="approve")
        with pytest.raises(ApprovalRequired) as caught:
            owner.acting_as("agent").scope(user="ada").remember("heron", collection="notes")
        embedder.fails_on = "heron"
        with pytest.raises(EmbeddingFailed):
            owner.approvals.approve(caught.value.approval)
        assert owner.approvals.get(caught.value.approval).status == "pending"
        embedder.fails_on = None
        owner.approvals.approve(caught.value.approval)
        assert recall_contents(owner.scope(user="ada"), "heron") == ["heron"]

    def test_an_approved_recall_gives_its_matches_and_is_on_record(self, memory: Memory) -> None:
        done = memory.scope(user="ada").remember("heron", collection="notes", metadata={"n": 1})
        memory.permissions.grant("agent", "memory", level="approve")
        with pytest.raises(ApprovalRequired) as caught:
            memory.acting_as("agent").scope(user="ada").recall(
                "heron", collection="notes", filter={"n": {"$in": [1]}}, as_of=memory.ledger.tail(1)[0].at
            )
        result = memory.approvals.approve(caught.value.approval).result
        assert [match.content for match in result.results] == ["heron"]
        memory.settle()
        events = [event for event in memory.ledger.events() if event.effect == "recall"]
        assert [event.decision for event in events] == ["pending", "approved"]
        assert events[-1].detail["results"] == [done.id]

    def test_an_erasure_removes_a_remember_that_waits(self, memory: Memory) -> None:
        memory.permissions.grant("agent", "memory", level="approve")
        for user in ("ada", "bob"):
            with pytest.raises(ApprovalRequired):
                memory.acting_as("agent").scope(user=user).remember(f"secret of {user}", collection="notes")
        assert memory.erase(user="ada").removed["approvals"] == 1
        (waiting,) = memory.approvals.list(status="all")
        memory.approvals.approve(waiting.id)
        assert live_contents(memory.scope(user="bob")) == ["secret of bob"]
        assert live_contents(memory.scope(user="ada")) == []

    @requires(Capability.RESTART)
    def test_a_remember_that_waits_survives_a_restart(self, memory: Memory, reopen: Callable[[], Memory]) -> None:
        memory.permissions.grant("agent", "memory", level="approve")
        content = {"bird": "heron", "é": [1, 2.5, None]}
        with pytest.raises(ApprovalRequired) as caught:
            memory.acting_as("agent").scope(user="ada").remember(content, collection="notes", metadata={"n": [1.0]})
        again = reopen()
        again.approvals.approve(caught.value.approval)
        (match,) = again.scope(user="ada").recall("heron", collection="notes").results
        assert (repr(match.content), repr(match.metadata)) == (repr(content), "{'n': [1.0]}")

    # quotas

    def test_each_thing_remembered_counts_as_a_write(self, memory: Memory, clock: FakeClock) -> None:
        policy = Policy.of(allow=("memory",), quota=Quota(writes=3, per="1m"))
        agent = memory.acting_as("agent", policy=policy).scope(user="ada")
        agent.remember("one", collection="notes")
        with pytest.raises(QuotaExceeded) as caught:
            agent.remember_many([{"content": n} for n in ("two", "three", "four")], collection="notes")
        assert (caught.value.limit, caught.value.actual) == (3, 4)
        assert live_contents(agent) == ["one"]
        agent.remember_many([{"content": n} for n in ("two", "three")], collection="notes")
        with pytest.raises(QuotaExceeded):
            agent.remember("four", collection="notes")
        refused = memory.ledger.tail(1)[0]
        assert len(recall_contents(agent, "one two three")) == 3  # reading is free
        assert (refused.effect, refused.decision, refused.key) == ("remember", "deny", "collections.notes")
        clock.advance(60)
        assert agent.remember("four", collection="notes").stored
        assert all(finding.ok for finding in memory.inspect())

    def test_the_bytes_of_content_count(self, memory: Memory) -> None:
        policy = Policy.of(allow=("memory",), quota=Quota(bytes=20, per="1h"))
        agent = memory.acting_as("agent", policy=policy).scope(user="ada")
        agent.remember("x" * 8, collection="notes")
        with pytest.raises(QuotaExceeded) as caught:
            agent.remember("y" * 9, collection="notes")
        assert (caught.value.limit, caught.value.actual) == (20, 21)
        assert agent.remember("y" * 8, collection="notes").stored

    # the ledger

    def test_each_change_of_entries_is_on_record(self, memory: Memory, ada: ScopedMemory, clock: FakeClock) -> None:
        first = ada.remember("heron", collection="notes", key="k")
        second = ada.remember("otter", collection="notes", key="k")
        batch = ada.remember_many([{"content": n} for n in ("x", "y", "z")], collection="notes")
        ada.forget(batch[1].id, collection="notes")
        memory.collections.delete("notes")
        assert [(e.effect, e.scope, e.key, e.resource) for e in memory.ledger.events()] == [
            ("create_collection", "", "collections.notes", None),
            ("remember", "user:ada", "collections.notes", first.id),
            ("forget", "user:ada", "collections.notes", first.id),
            ("remember", "user:ada", "collections.notes", second.id),
            ("remember", "user:ada", "collections.notes", batch[0].id),
            ("forget", "user:ada", "collections.notes", batch[1].id),
            ("delete_collection", "", "collections.notes", None),
        ]
        assert memory.ledger.events()[4].detail["entries"] == 3
        assert memory.ledger.verify().ok

    def test_a_call_that_changes_no_entry_appends_no_event(self, memory: Memory, ada: ScopedMemory) -> None:
        ada.remember("heron", collection="notes")
        length = memory.ledger.verify().length
        ada.remember("heron", collection="notes")
        ada.forget(collection="notes", key="missing")
        ada.remember_many([], collection="notes")
        ada.entries(collection="notes")
        memory.collections.list()
        memory.collections.compare("notes", "hashing:32")
        assert memory.ledger.verify().length == length
        ada.remember("otter", collection="notes")
        assert memory.ledger.verify().length == length + 1

    def test_a_recall_is_an_event_with_hashes_and_ids_and_without_text(self, memory: Memory, ada: ScopedMemory) -> None:
        done = ada.remember("secret heron", collection="notes", metadata={"note": "secret otter"})
        length = memory.ledger.verify().length
        for query in ("secret question", "secret question", "another"):
            ada.recall(query, collection="notes", filter={"note": "secret otter"})
        ada.recall("secret question", collection="unknown")
        memory.settle()
        events = memory.ledger.events(start=length + 1)
        assert [(e.effect, e.decision, e.scope, e.key) for e in events] == [
            *[("recall", "allow", "user:ada", "collections.notes")] * 3,
            ("recall", "allow", "user:ada", "collections.unknown"),
        ]
        assert [event.detail["results"] for event in events] == [[done.id]] * 3 + [[]]
        first, same, other, _ = (event.content for event in events)
        assert first == same != other
        assert first is not None
        assert "secret" not in repr(memory.ledger.events())
        assert memory.ledger.verify().ok
        assert all(finding.ok for finding in memory.inspect())

    def test_an_inspection_of_a_busy_life_of_entries_finds_all_well(self, memory: Memory, clock: FakeClock) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        for place in (ada, bob, ada.session("s1"), memory.scope(tenant="other", user="ada")):
            place.remember_many([{"content": f"note {n}", "key": f"k{n % 3}"} for n in range(5)], collection="notes")
            place.remember("short", collection="notes", ttl=60)
            place.remember({"task": 1}, collection="tasks", namespace="x")
            place.recall("note", collection="notes")
        ada.forget(collection="notes", key="k1")
        memory.collections.reembed("notes", "hashing:32", batch=2)
        clock.advance(60)
        memory.sweep()
        ada.remember("short", collection="notes", ttl=60)
        ada.session("s1").end()
        memory.erase(user="bob")
        bob.remember("again", collection="notes")
        memory.collections.delete("tasks")
        memory.settle()
        findings = memory.inspect()
        assert [finding for finding in findings if not finding.ok] == []
        assert {"entries of default agree with the ledger", "entries of other agree with the ledger"} <= {
            finding.what for finding in findings
        }

    # embedders that fail

    def test_an_embedder_that_fails_halfway_through_a_batch_stores_nothing(
        self, memory: Memory, store: Store, open_beside: Callable[..., Memory]
    ) -> None:
        embedder = WatchedEmbedder()
        ada = open_beside(embedder=embedder).scope(user="ada")
        ada.remember("standing", collection="notes", key="k3")
        items = [{"content": f"note {n}", "key": f"k{n}"} for n in range(600)]
        embedder.fails_on = "note 300"
        before = snapshot(store)
        with pytest.raises(EmbeddingFailed):
            ada.remember_many(items, collection="notes")
        assert "note 0" in embedder.asked
        assert snapshot(store) == before
        assert recall_contents(ada, "note", limit=9) == ["standing"]
        embedder.fails_on = None
        assert all(one.stored for one in ada.remember_many(items, collection="notes"))
        assert len(live_contents(ada)) == 600

    def test_an_embedder_that_fails_makes_no_collection(
        self, memory: Memory, store: Store, open_beside: Callable[..., Memory]
    ) -> None:
        embedder = WatchedEmbedder()
        embedder.fails_on = "heron"
        ada = open_beside(embedder=embedder).scope(user="ada")
        before = snapshot(store)
        with pytest.raises(EmbeddingFailed):
            ada.remember("heron", collection="notes")
        assert snapshot(store) == before
        assert ada.remember("otter", collection="notes").stored

    @pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
    def test_vectors_that_cannot_be_compared_are_refused_and_nothing_is_stored(
        self,
        memory: Memory,
        store: Store,
        open_beside: Callable[..., Memory],
        spoil: Callable[[Vectors], Vectors],
    ) -> None:
        embedder = WatchedEmbedder()
        ada = open_beside(embedder=embedder).scope(user="ada")
        ada.remember("heron", collection="notes")
        before = snapshot(store)
        embedder.spoil = spoil
        with pytest.raises(EmbeddingFailed):
            ada.remember_many([{"content": "otter"}, {"content": "kayak"}], collection="notes")
        with pytest.raises(EmbeddingFailed):
            ada.recall("weir", collection="notes")
        assert snapshot(store) == before
        embedder.spoil = None
        assert recall_contents(ada, "weir") == ["heron"]
        assert ada.remember("otter", collection="notes").stored
