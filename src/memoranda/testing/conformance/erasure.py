"""Erasure: everything of a subject goes, nothing of anybody else does, and the ledger can show it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from memoranda.api.memory import Memory
from memoranda.errors import ApprovalRequired, Denied, NotFound, ScopeEnded, UsageError
from memoranda.model.effect import StartSession
from memoranda.model.policy import Policy
from memoranda.model.scope import Scope
from memoranda.store.base import Store
from memoranda.testing.clock import FakeClock
from memoranda.testing.conformance.base import Capability, present, requires, snapshot
from memoranda.testing.conformance.scopes import LOOK_ALIKES


class ErasurePromises:
    """Erased means gone, for exactly the one who was named."""

    def test_an_erasure_removes_everything_at_and_below_a_subject(self, memory: Memory, clock: FakeClock) -> None:
        ada, agent, bob = memory.scope(user="ada"), memory.scope(user="ada", agent="x"), memory.scope(user="bob")
        for place in (ada, agent, bob):
            place.set("k", 1, idempotency_key="r1")
            place.set("k", 2)
            place.set("deleted", 1)
            place.delete("deleted")
            place.set("short", 1, ttl=60)
        then = clock.now()
        clock.advance(120)
        receipt = memory.erase(user="ada")
        assert receipt.scope == ada.scope
        assert receipt.removed == {
            "facts": 4,
            "revisions": 10,
            "entries": 0,
            "idempotency_keys": 2,
            "approvals": 0,
            "ledger_texts": 0,
            "content_keys": 2,
            "sessions": 0,
        }
        for place in (ada, agent):
            assert place.list() == []
            assert place.list(as_of=then) == []
            for key in ("k", "deleted", "short"):
                assert place.get(key) is None
                assert place.history(key) == []
                assert place.get(key, as_of=then) is None
        assert bob.value("k") == 2
        assert [r.value for r in bob.history("k")] == [1, 2]
        assert len(bob.history("deleted")) == 2
        assert bob.set("k", 1, idempotency_key="r1").version == 1

    def test_an_erasure_takes_the_sessions_a_subject_owns(self, memory: Memory) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        hers, of_agent, his = (
            ada.session("s1"),
            memory.scope(user="ada", agent="x").session("s2"),
            bob.session("s3"),
        )
        for session in (hers, of_agent, his):
            session.set("k", 1)
        receipt = memory.erase(user="ada")
        assert (receipt.removed["sessions"], receipt.removed["facts"]) == (2, 2)
        for session in (hers, of_agent):
            assert session.get("k") is None
            assert session.history("k") == []
        assert his.value("k") == 1
        assert all(finding.ok for finding in memory.inspect())

    def test_an_erasure_takes_sessions_of_sessions_too(self, memory: Memory) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        inner, other = ada.session("s1").session("s2"), bob.session("s3").session("s4")
        inner.set("k", "ada's")
        other.set("k", "bob's")
        memory.erase(user="ada")
        assert inner.get("k") is None
        assert inner.history("k") == []
        assert other.value("k") == "bob's"
        assert all(finding.ok for finding in memory.inspect())

    def test_an_erasure_takes_what_lies_below_an_owned_tree_and_the_ledger_agrees(self, memory: Memory) -> None:
        for tree, owner in (("t1", "ada"), ("t2", "bob")):
            memory.perform(StartSession(scope=Scope.of(tree=tree), owner=Scope.of(user=owner)))
            below = memory.scope(tree=tree, agent="x")
            for place in (below, below.session(f"of {tree}")):
                place.set("k", owner)
                place.remember(f"{owner} likes tea", collection="notes")
        assert memory.erase(user="ada").removed["facts"] == 2
        for place in (memory.scope(tree="t1", agent="x"), memory.scope(session="of t1")):
            assert (place.list(), place.entries(collection="notes")) == ([], [])
        assert memory.scope(session="of t2").value("k") == memory.scope(tree="t2", agent="x").value("k") == "bob"
        assert [finding for finding in memory.inspect() if not finding.ok] == []

    def test_erasing_one_agent_of_a_user_leaves_the_rest_of_the_user(self, memory: Memory) -> None:
        ada, x, xx = memory.scope(user="ada"), memory.scope(user="ada", agent="x"), memory.scope(user="ada", agent="xx")
        for place in (ada, x, xx):
            place.set("k", 1)
        assert memory.erase(user="ada", agent="x").removed["facts"] == 1
        assert x.get("k") is None
        assert (ada.value("k"), xx.value("k")) == (1, 1)
        assert x.set("k", 2).version == 2
        assert all(finding.ok for finding in memory.inspect())

    def test_look_alike_users_stay(self, memory: Memory) -> None:
        for name in LOOK_ALIKES:
            memory.scope(user=name).set("k", name)
            memory.scope(user=name, agent="x").set("k", name)
            memory.scope(user=name).session(f"s {name}").set("k", name)
        assert memory.erase(user="a").removed["facts"] == 3
        for name in LOOK_ALIKES[1:]:
            assert memory.scope(user=name).value("k") == name
            assert memory.scope(user=name, agent="x").value("k") == name
            assert memory.scope(user=name).session(f"s {name}").value("k") == name
            assert len(memory.scope(user=name).history("k")) == 1
        assert memory.scope(user="a").get("k") is None

    def test_nothing_erased_is_ever_used_again(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ids = {ada.set("k", n).id for n in range(5)}
        ada.set("other", 1)
        memory.erase(user="ada")
        again = ada.set("k", "again")
        assert again.version > 5
        assert again.id not in ids
        assert ada.set("other", 1).version > 1
        assert ada.value("k") == "again"
        assert len(ada.history("k")) == 1
        memory.erase(user="ada")
        assert ada.set("k", "once more").version > again.version

    def test_no_version_of_an_owned_session_is_used_again(self, memory: Memory) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        held = [ada.session("s1").set("k", n).version for n in range(3)][-1]
        bob.session("s2").set("k", 1)
        memory.erase(user="ada")
        assert ada.session("s1").set("k", "again").version > held
        assert bob.session("s2").set("k", 2).version == 2

    def test_no_version_of_an_ended_session_is_used_again_after_its_erasure(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        held = [ada.session("s1").set("k", n).version for n in range(3)][-1]
        ada.session("s1").end()
        memory.erase(user="ada")
        try:
            again = ada.session("s1").set("k", "again")
        except ScopeEnded:
            return  # an ended session that stays ended keeps the promise too
        assert again.version > held

    def test_the_receipt_names_the_event_in_the_ledger(self, memory: Memory, clock: FakeClock) -> None:
        memory.scope(user="ada").set("k", 1)
        memory.scope(user="bob").set("k", 1)
        receipt = memory.erase(user="ada")
        memory.scope(user="bob").set("k", 2)
        event = memory.ledger.events(start=receipt.position, limit=1)[0]
        assert (event.effect, event.scope, event.resource) == ("erase", "user:ada", receipt.id)
        assert (event.actor, event.decision, event.position) == ("owner", "allow", receipt.position)
        assert event.detail["removed"] == receipt.removed
        assert receipt.at >= clock.now()
        assert memory.ledger.verify().ok
        assert all(finding.ok for finding in memory.inspect())

    def test_an_erasure_removes_what_waits_for_approval(self, memory: Memory) -> None:
        memory.permissions.grant("agent", "memory.write", level="approve")
        agent = memory.acting_as("agent")
        waiting: dict[str, str] = {}
        for user in ("ada", "bob"):
            with pytest.raises(ApprovalRequired) as caught:
                agent.scope(user=user).set("k", f"secret of {user}")
            waiting[user] = caught.value.approval
        assert memory.erase(user="ada").removed["approvals"] == 1
        assert [approval.id for approval in memory.approvals.list(status="all")] == [waiting["bob"]]
        with pytest.raises(NotFound):
            memory.approvals.approve(waiting["ada"])
        memory.approvals.approve(waiting["bob"])
        assert memory.scope(user="ada").get("k") is None
        assert memory.scope(user="bob").value("k") == "secret of bob"

    def test_an_erasure_reaches_into_batches_that_wait(self, memory: Memory) -> None:
        memory.permissions.grant("agent", "memory.write", level="approve")
        agent = memory.acting_as("agent")
        with pytest.raises(ApprovalRequired), agent.batch() as batch:
            batch.set(agent.scope(user="bob"), "k", "of bob")
            batch.set(agent.scope(user="ada"), "k", "secret of ada")
        assert b"secret of ada" in msgspec.json.encode(memory.approvals.list())
        memory.erase(user="ada")
        assert b"secret of ada" not in msgspec.json.encode(memory.approvals.list(status="all"))
        for approval in memory.approvals.list():
            memory.approvals.approve(approval.id)
        assert memory.scope(user="ada").get("k") is None

    def test_erasing_kept_text_leaves_the_chain_whole(self, store: Store, clock: FakeClock) -> None:
        with Memory(store, clock=clock, keep_text=True) as memory:
            memory.scope(user="ada").set("k", "secret of ada")
            memory.scope(user="bob").set("k", "secret of bob")
            anchor = memory.ledger.anchor()
            assert memory.erase(user="ada").removed["ledger_texts"] == 1
            assert [event.text for event in memory.ledger.events()][:2] == [None, "secret of bob"]
            assert memory.ledger.verify(anchor=anchor).ok

    def test_erasing_nobody_is_a_receipt_of_zeros(self, memory: Memory) -> None:
        memory.scope(user="bob").set("k", 1)
        receipt = memory.erase(user="nobody")
        assert set(receipt.removed.values()) == {0}
        assert memory.ledger.events(start=receipt.position)[0].effect == "erase"
        assert memory.scope(user="bob").value("k") == 1

    def test_an_erasure_without_a_subject_is_refused(self, memory: Memory, store: Store) -> None:
        memory.scope(user="ada").set("k", 1)
        memory.scope().set("k", 1)
        before = snapshot(store)
        with pytest.raises(UsageError):
            memory.erase()
        assert snapshot(store) == before

    def test_an_erasure_needs_its_permission(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", 1)
        writer = memory.acting_as("writer", policy=Policy.of(allow=("memory.read", "memory.write")))
        with pytest.raises(Denied) as caught:
            writer.erase(user="ada")
        assert caught.value.capability == "memory.erase"
        assert ada.value("k") == 1
        eraser = memory.acting_as("eraser", policy=Policy.of(allow=("memory.erase",)))
        assert eraser.erase(user="ada").removed["facts"] == 1
        assert memory.ledger.tail(1)[0].actor == "eraser"

    def test_content_hashes_of_the_erased_cannot_be_compared_any_more(self, memory: Memory) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        for user in (ada, bob):
            user.set("k", "same")
        memory.erase(user="ada")
        ada.set("k", "same")
        bob.set("k", "same")
        hashes = {(e.scope, e.position): e.content for e in memory.ledger.events() if e.effect == "set_fact"}
        adas = [content for (scope, _), content in hashes.items() if scope == "user:ada"]
        bobs = [content for (scope, _), content in hashes.items() if scope == "user:bob"]
        assert len(set(adas)) == 2
        assert len(set(bobs)) == 1

    @requires(Capability.RESTART)
    def test_the_erased_stay_erased_after_a_restart(self, memory: Memory, reopen: Callable[[], Memory]) -> None:
        for user in ("ada", "bob"):
            for n in range(3):
                memory.scope(user=user).set("k", n)
        receipt = memory.erase(user="ada")
        again = reopen()
        assert again.scope(user="ada").history("k") == []
        assert again.scope(user="bob").value("k") == 2
        assert present(again.scope(user="ada").set("k", 1)).version > 3
        assert again.ledger.events(start=receipt.position, limit=1)[0].resource == receipt.id
        assert all(finding.ok for finding in again.inspect())
