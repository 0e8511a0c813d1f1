"""What is true now: chains of entries, forgetting and undoing it, and reading entries as a database would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedBatch, ScopedMemory
from memoranda.engine.facts import SetFact
from memoranda.errors import (
    ApprovalRequired,
    Conflict,
    Denied,
    EmbeddingFailed,
    IdempotencyMismatch,
    InvalidFilter,
    InvalidValue,
    LimitExceeded,
    NotFound,
    QuotaExceeded,
    UsageError,
)
from memoranda.model.limits import Limits
from memoranda.model.policy import Policy, Quota, Rule
from memoranda.model.ref import line_digest
from memoranda.model.scope import Scope
from memoranda.model.value import encode
from memoranda.store.base import Store
from memoranda.testing.conformance.base import (
    WatchedEmbedder,
    assert_raises,
    live_contents,
    present,
    recall_contents,
    unchanged,
)
from memoranda.testing.fakes import FakeClock

TERMS = ("Acme pays within 30 days", "Acme pays within 14 days", "Acme pays within 7 days")


class ChainPromises:
    """Statements about one subject are a chain: the newest is true now, the others were."""

    def test_what_supersedes_an_entry_takes_its_place_from_now_on(self, ada: ScopedMemory, clock: FakeClock) -> None:
        metadata = {"account": "acme", "time": "2025-01-01T00:00:00Z"}
        old = ada.remember(TERMS[0], collection="terms", namespace="sales", metadata=metadata)
        between = clock.now()
        clock.advance(60)
        new = ada.supersede(old.ref, TERMS[1])
        changed = clock.now()
        assert new.replaced == old.ref
        assert (new.collection, new.namespace) == ("terms", "sales")
        clock.advance(60)
        (match,) = ada.recall("Acme pays", collection="terms", namespace="sales", filter={"account": "acme"}).results
        assert (match.content, match.ref, match.valid_from, match.valid_to) == (TERMS[1], new.ref, changed, None)
        assert match.metadata == {"account": "acme", "replaces": old.id}
        (match,) = ada.recall("Acme pays", collection="terms", as_of=between).results
        assert (match.content, match.valid_to) == (TERMS[0], changed)

    def test_an_entry_that_replaces_another_is_remembered_where_that_one_is(self, ada: ScopedMemory) -> None:
        old = ada.remember(TERMS[0], collection="terms", namespace="sales", key="acme")
        new = ada.remember(TERMS[1], replaces=old.id, metadata={"by": "phone"}, ttl="1h")
        assert (new.collection, new.namespace, new.stored, new.replaced) == ("terms", "sales", True, old.id)
        entry = present(ada.entry(key="acme", collection="terms", namespace="sales"))
        assert (entry.id, entry.metadata) == (new.id, {"by": "phone", "replaces": old.id})
        assert entry.expires_at == new.expires_at is not None
        wrong: list[dict[str, Any]] = [{"collection": "terms"}, {"namespace": "x"}, {"key": "k"}]
        for options in wrong:
            assert_raises(UsageError, ada.remember, TERMS[2], replaces=new.ref, **options)
        assert ada.remember(TERMS[2]).collection == "notes"
        assert live_contents(ada, collection="terms") == [TERMS[1]]

    @pytest.mark.parametrize("key", [None, "acme"])
    def test_the_history_of_an_entry_is_its_chain_with_who_wrote_it_and_when(
        self, memory: Memory, ada: ScopedMemory, clock: FakeClock, key: str | None
    ) -> None:
        ref = ada.remember(TERMS[0], collection="terms", key=key).ref
        ada.remember("Acme is in Lyon", collection="terms")
        refs, moments = [ref], [clock.now()]
        for content in TERMS[1:]:
            clock.advance(60)
            moments.append(clock.now())
            ref = ada.supersede(ref, content, source="call").ref
            refs.append(ref)
        for any_of_them in refs:
            chain = ada.entry_history(any_of_them)
            assert [entry.ref for entry in chain] == refs
            assert [entry.content for entry in chain] == list(TERMS)
            assert [(entry.valid_from, entry.valid_to) for entry in chain] == [
                (moments[0], moments[1]),
                (moments[1], moments[2]),
                (moments[2], None),
            ]
            assert [entry.origin.source for entry in chain] == [None, "call", "call"]
        assert [entry.content for entry in ada.entry_history(refs[0], limit=2)] == list(TERMS[:2])
        assert ada.entry_history("entry:unknown") == []
        assert_raises(UsageError, ada.entry_history, "fact:user:ada#k")
        assert all(finding.ok for finding in memory.inspect())

    def test_what_was_superseded_is_a_conflict_that_names_the_current_one(self, ada: ScopedMemory) -> None:
        old = ada.remember(TERMS[0], collection="terms")
        new = ada.supersede(old.ref, TERMS[1])
        conflict = assert_raises(Conflict, ada.supersede, old.ref, TERMS[2])
        assert conflict.actual == new.ref
        assert_raises(Conflict, ada.remember, TERMS[2], replaces=old.id)
        ada.forget(new.ref)
        for gone in (old.ref, new.ref):
            assert_raises(NotFound, ada.supersede, gone, TERMS[2])
        assert live_contents(ada, collection="terms") == []

    def test_two_who_supersede_one_entry_do_not_both_succeed(self, memory: Memory, second: Memory) -> None:
        here, there = memory.scope(user="ada"), second.scope(user="ada")
        old = here.remember(TERMS[0], collection="terms")
        assert recall_contents(there, "Acme pays", collection="terms") == [TERMS[0]]
        new = here.supersede(old.ref, TERMS[1])
        assert assert_raises(Conflict, there.supersede, old.ref, TERMS[2]).actual == new.ref
        assert recall_contents(there, "Acme pays", collection="terms") == [TERMS[1]]

    def test_a_key_that_is_remembered_again_continues_the_chain(self, ada: ScopedMemory) -> None:
        first = ada.remember(TERMS[0], collection="terms", key="acme")
        second = ada.supersede(first.ref, TERMS[1])
        third = ada.remember(TERMS[2], collection="terms", key="acme")
        chain = [entry.id for entry in ada.entry_history(first.id)]
        assert chain == [first.id, second.ref.removeprefix("entry:"), third.id]

    def test_a_fact_is_superseded_with_its_history(self, ada: ScopedMemory) -> None:
        ada.set("terms.acme", 30, domain="sales")
        done = ada.supersede("fact:user:ada#terms.acme", 14)
        assert (done.ref, done.replaced) == ("fact:user:ada#terms.acme",) * 2
        assert [one.value for one in ada.history("terms.acme")] == [30, 14]
        assert present(ada.get("terms.acme")).domain == "sales"
        assert_raises(NotFound, ada.supersede, "fact:user:ada#terms.unknown", 14)
        assert_raises(NotFound, ada.supersede, "fact:user:ada#blocks.core", "text")
        assert_raises(UsageError, ada.supersede, "fact:user:ada#terms.acme", 7, metadata={"a": 1})

    def test_a_line_is_superseded_in_its_block(self, ada: ScopedMemory) -> None:
        ada.blocks.update("core", "- Lives in Lyon\n- Pays within 30 days\n", expected_updated_at=None)
        line = "line:user:ada#core:" + line_digest("- Pays within 30 days")
        done = ada.supersede(line, "Pays within 14 days")
        assert present(ada.blocks.get("core")).content == "- Lives in Lyon\n- Pays within 14 days\n"
        assert done.ref == "line:user:ada#core:" + line_digest("- Pays within 14 days")
        assert_raises(NotFound, ada.supersede, line, "Pays within 7 days")
        for wrong in ("two\nlines", "", 14):
            assert_raises(InvalidValue, ada.supersede, done.ref, wrong)

    def test_what_others_have_is_not_found(self, memory: Memory, ada: ScopedMemory, bob: ScopedMemory) -> None:
        theirs = bob.remember(TERMS[0], collection="terms", key="k")
        bob.set("terms.acme", 30)
        bob.blocks.update("core", "- Pays late", expected_updated_at=None)
        refs = (theirs.ref, "fact:user:bob#terms.acme", "line:user:bob#core:" + line_digest("- Pays late"))
        for other in (ada, memory.scope(user="bob", agent="x")):
            for ref in refs:
                assert_raises(NotFound, other.supersede, ref, "- Something else")
                assert not other.forget(ref)
            assert other.entry(theirs.ref) is None
            assert other.entry_history(theirs.ref) == []
        assert present(bob.entry(theirs.ref)).content == TERMS[0]
        for ref in refs:
            assert bob.forget(ref), ref

    def test_a_scope_reaches_what_is_below_it(self, memory: Memory, ada: ScopedMemory) -> None:
        emails = memory.scope(user="ada", agent="emails")
        below = emails.remember(TERMS[0], collection="terms")
        emails.set("tone", "warm")
        new = ada.supersede(below.ref, TERMS[1])
        assert live_contents(emails, collection="terms") == [TERMS[1]]
        gone = ada.forget(new.ref)
        assert ada.forget("fact:user:ada/agent:emails#tone")
        assert ada.undo(gone).refs == (new.ref,)
        assert live_contents(emails, collection="terms") == [TERMS[1]]
        assert emails.get("tone") is None

    @pytest.mark.parametrize("ref", ["", "entry:", "fact:user:ada", "fact:nobody#k", "line:user:ada#", 5, None])
    def test_what_is_not_a_ref_is_refused(self, ada: ScopedMemory, store: Store, ref: Any) -> None:
        kept = ada.remember(TERMS[0], collection="terms")
        with unchanged(store):
            assert_raises(UsageError, ada.supersede, ref, TERMS[1])
            assert_raises(UsageError, ada.forget, ref)
            assert_raises(UsageError, ada.entry, ref)
        assert_raises(UsageError, ada.supersede, "message:user:ada/thread:t#1", TERMS[1])
        assert ada.forget(kept.ref)


class ForgetPromises:
    """What is forgotten is gone as a whole, and comes back as a whole."""

    def test_entries_are_forgotten_by_a_filter(self, memory: Memory, ada: ScopedMemory, bob: ScopedMemory) -> None:
        for place in (ada, bob):
            for year in (2023, 2024, 2025):
                place.remember(f"Invoice of {year}", collection="invoices", metadata={"year": year})
            place.remember("Letter of 2023", collection="letters", metadata={"year": 2023})
        old = {"year": {"$lt": 2025}}
        tried = ada.forget(where=old, dry_run=True)
        assert (tried.count, tried.entries, tried.dry_run, tried.undo) == (3, 3, True, None)
        assert len(ada.entries()) == 4
        done = ada.forget(where=old, collection="invoices")
        assert (done.count, done.refs) == (2, tried.refs[:2])
        assert [entry.content for entry in ada.entries()] == ["Invoice of 2025", "Letter of 2023"]
        assert recall_contents(ada, "invoice", collection="invoices") == ["Invoice of 2025"]
        assert len(bob.entries()) == 4
        assert not ada.forget(where={"year": 1999})
        wrong: list[dict[str, Any]] = [{}, {"$and": []}, {"year": {"$near": 3}}]
        for filter in wrong:
            assert_raises(InvalidFilter, ada.forget, where=filter)
        assert all(finding.ok for finding in memory.inspect())

    def test_an_identifier_takes_everything_that_contains_it(
        self, memory: Memory, ada: ScopedMemory, bob: ScopedMemory
    ) -> None:
        for place in (ada, bob):
            place.remember("Write to MAILTO:Bo@Example.org.", collection="notes")
            place.remember("Bo called", collection="calls", metadata={"from": {"mail": ["bo@example.org"]}})
            place.remember("A contact", collection="calls", key="bo@example.org")
            place.remember("Write to jumbo@example.org and bo@example.org.uk", collection="notes")
            place.set("contacts.bo", {"mail": "BO@example.ORG"})
            place.set("contacts.ann", {"mail": "ann@example.org"})
            place.blocks.update("core", "- Likes tea\n- Bo is bo@example.org\n- Ann", expected_updated_at=None)
        tried = ada.forget(identifier="bo@example.org", dry_run=True)
        done = ada.forget(identifier=" mailto:bo@EXAMPLE.org ")
        assert (done.entries, done.facts, done.lines, done.count) == (3, 1, 1, 5)
        assert tried.refs == done.refs
        assert [entry.content for entry in ada.entries()] == ["Write to jumbo@example.org and bo@example.org.uk"]
        assert [fact.key for fact in ada.list("contacts")] == ["contacts.ann"]
        assert present(ada.blocks.get("core")).content == "- Likes tea\n- Ann"
        assert len(bob.entries()) == 4
        assert ada.undo(done).count == 5
        assert len(ada.entries()) == 4
        assert present(ada.get("contacts.bo")).value == {"mail": "BO@example.ORG"}
        assert present(ada.blocks.get("core")).content == "- Likes tea\n- Bo is bo@example.org\n- Ann"
        assert memory.ledger.verify().ok
        assert all(finding.ok for finding in memory.inspect())

    def test_only_the_entries_of_a_collection_go_where_one_is_named(self, ada: ScopedMemory) -> None:
        for collection in ("notes", "calls"):
            ada.remember("Call +49 (0) 151 234-5678", collection=collection)
        ada.set("phone", "0049 151 2345678")
        assert ada.forget(identifier="+49151 2345678", collection="notes").count == 1
        assert ada.forget(identifier="+49.151.2345678").count == 2
        wrong: list[Any] = ["", "  ", "?", "x" * 600, 5]
        for identifier in wrong:
            assert_raises(UsageError, ada.forget, identifier=identifier)
        assert_raises(UsageError, ada.forget, identifier="bo", where={"a": 1})

    def test_what_was_forgotten_comes_back_and_the_gap_stays(
        self, memory: Memory, ada: ScopedMemory, clock: FakeClock
    ) -> None:
        kept = ada.remember("Heron by the weir", collection="notes", key="k", metadata={"a": [1]})
        here = clock.now()
        clock.advance(60)
        gone = ada.forget(kept.ref)
        assert recall_contents(ada, "heron") == []
        gap = clock.now()
        clock.advance(60)
        back = ada.undo(present(gone.undo))
        assert (back.refs, back.count) == ((kept.ref,), 1)
        entry = present(ada.entry(kept.ref))
        assert (entry.id, entry.key, entry.content, entry.metadata) == (kept.id, "k", "Heron by the weir", {"a": [1]})
        assert recall_contents(ada, "heron") == recall_contents(ada, "heron", as_of=here) == ["Heron by the weir"]
        assert recall_contents(ada, "heron", as_of=gap) == []
        assert [(one.id, one.valid_to) for one in ada.entry_history(kept.ref)] == [(kept.id, gap), (kept.id, None)]
        written = [event.effect for event in memory.ledger.events() if event.effect != "recall"]
        assert written[-3:] == ["forget", "remember", "undo"]
        assert all(finding.ok for finding in memory.inspect())

    def test_a_supersede_is_undone_as_a_whole(self, ada: ScopedMemory) -> None:
        old = ada.remember(TERMS[0], collection="terms")
        new = ada.remember(TERMS[1], replaces=old.ref)
        assert recall_contents(ada, "Acme", collection="terms") == [TERMS[1]]
        assert ada.undo(new).refs == (old.ref,)
        assert recall_contents(ada, "Acme", collection="terms") == [TERMS[0]]
        assert ada.supersede(old.ref, TERMS[2]).replaced == old.ref
        fact = ada.set("terms", 30)
        assert ada.undo(ada.supersede("fact:user:ada#terms", 14)).count == 1
        assert present(ada.get("terms")).value == fact.value

    def test_an_undo_does_not_overwrite_what_is_newer(self, ada: ScopedMemory, store: Store) -> None:
        kept = ada.remember("Heron", collection="notes", key="k")
        ada.set("bird", "heron")
        gone = ada.forget(kept.ref)
        deleted = ada.forget("fact:user:ada#bird")
        newer = ada.remember("Otter", collection="notes", key="k")
        ada.set("bird", "egret")
        with unchanged(store):
            assert assert_raises(Conflict, ada.undo, gone).actual == newer.ref
            assert_raises(Conflict, ada.undo, deleted)
        ada.forget(newer.ref)
        assert ada.undo(gone)
        assert_raises(Conflict, ada.undo, gone)
        assert live_contents(ada) == ["Heron"]

    def test_an_undo_of_many_is_all_or_nothing(self, ada: ScopedMemory, store: Store) -> None:
        for n in range(3):
            ada.remember(f"Heron {n}", collection="notes", key=f"k{n}", metadata={"bird": True})
        gone = ada.forget(where={"bird": True})
        ada.remember("Otter", collection="notes", key="k1")
        with unchanged(store):
            assert_raises(Conflict, ada.undo, gone)
        ada.forget(key="k1", collection="notes")
        assert ada.undo(gone).count == 3
        assert sorted(live_contents(ada)) == ["Heron 0", "Heron 1", "Heron 2"]

    def test_what_was_remembered_again_is_not_doubled_by_an_undo(self, ada: ScopedMemory) -> None:
        gone = ada.forget(ada.remember("Heron", collection="notes").ref)
        ada.remember("Heron", collection="notes")
        assert ada.undo(gone).count == 0
        assert live_contents(ada) == ["Heron"]

    def test_it_may_be_too_late_to_undo(self, memory: Memory, ada: ScopedMemory, clock: FakeClock) -> None:
        brief = ada.forget(ada.remember("Heron", collection="notes", ttl="1h").ref)
        assert brief
        clock.advance(3_600)
        assert_raises(NotFound, ada.undo, brief)
        memory.sweep()
        assert_raises(NotFound, ada.undo, brief)
        gone = ada.forget(ada.remember("Otter", collection="notes").ref)
        memory.erase(user="ada")
        assert_raises(NotFound, ada.undo, gone)
        assert ada.entries() == []

    def test_only_what_was_forgotten_or_superseded_here_is_undone(self, ada: ScopedMemory, bob: ScopedMemory) -> None:
        gone = ada.forget(ada.remember("Heron", collection="notes").ref)
        token = present(gone.undo)
        assert_raises(NotFound, bob.undo, token)
        wrong: list[Any] = ["", "undo:", "undo:0-0", "undo:2-x", "undo:" + "9" * 30 + "-1", 5, None]
        for not_a_token in wrong:
            assert_raises(UsageError, ada.undo, not_a_token)
        for unknown in ("undo:999-1000", "undo:9-2", "undo:1-999999999"):
            assert_raises(NotFound, ada.undo, unknown)
        assert ada.undo(ada.forget("entry:unknown")).count == 0
        assert ada.undo(token).count == 1

    def test_the_state_of_programs_is_neither_forgotten_nor_undone(self, memory: Memory, ada: ScopedMemory) -> None:
        talk = memory.scope(user="ada", thread="t1")
        for value in ("bo@example.org", "eve@example.org"):
            payload = msgspec.Raw(encode(value))
            memory.perform(SetFact(scope=talk.scope, key="chat.conversation", payload=payload))
        newest = memory.ledger.events()[-1].position
        assert_raises(NotFound, ada.undo, f"undo:{newest}-{newest}")
        assert not talk.forget(identifier="eve@example.org")
        assert not ada.forget("fact:user:ada/thread:t1#chat.conversation")
        assert present(talk.get("chat.conversation")).value == "eve@example.org"
        ada.set("contact", "eve@example.org")
        assert ada.undo(ada.forget(identifier="eve@example.org")).count == 1

    def test_many_are_forgotten_and_brought_back_in_one_call(self, memory: Memory, ada: ScopedMemory) -> None:
        items = [{"content": f"Invoice {n}", "metadata": {"paid": n % 2 == 0}} for n in range(600)]
        ada.remember_many(items, collection="invoices")
        assert len(recall_contents(ada, "", collection="invoices", limit=1_000)) == 600
        gone = ada.forget(where={"paid": True})
        assert gone.count == len(set(gone.refs)) == 300
        assert len(recall_contents(ada, "", collection="invoices", limit=1_000)) == 300
        assert ada.undo(gone).count == 300
        assert len(recall_contents(ada, "", collection="invoices", limit=1_000)) == 600
        assert memory.ledger.verify().ok

    # who may

    def test_a_forget_needs_the_right_to_write_each_place(self, memory: Memory, ada: ScopedMemory) -> None:
        open_note = ada.remember("Call bo@example.org", collection="notes")
        closed = ada.remember("Mail bo@example.org", collection="private")
        ada.set("profile.mail", "bo@example.org")
        ada.set("secret.mail", "bo@example.org")
        policy = Policy.of(allow=("memory",), access={"collections.private": "read", "secret": "none"})
        agent = memory.acting_as("agent", policy=policy).scope(user="ada")
        for call in (
            lambda: agent.forget(closed.ref),
            lambda: agent.forget("fact:user:ada#secret.mail"),
            lambda: agent.forget(identifier="bo@example.org"),
            lambda: agent.supersede(closed.ref, "Something else"),
            lambda: agent.forget(identifier="bo@example.org", dry_run=True),
        ):
            assert_raises(Denied, call)
        assert len(ada.entries()) == 2
        gone = agent.forget(open_note.ref)
        assert gone
        assert agent.forget("fact:user:ada#profile.mail")
        theirs = ada.forget(closed.ref)
        assert_raises(Denied, agent.undo, present(theirs.undo))
        assert agent.undo(gone).count == ada.undo(theirs).count == 1

    def test_the_right_to_write_one_collection_is_enough_for_its_entries(
        self, memory: Memory, ada: ScopedMemory
    ) -> None:
        inside = ada.remember("Heron", collection="notes")
        outside = ada.remember("Otter", collection="private")
        rules = (Rule("allow", "memory.write", ada.scope, "collections.notes"), Rule("allow", "memory.read"))
        agent = memory.acting_as("agent", policy=Policy(rules=rules)).scope(user="ada")
        assert_raises(Denied, agent.forget, outside.ref)
        assert_raises(Denied, agent.forget, "entry:unknown")
        new = agent.supersede(inside.ref, "Egret")
        gone = agent.forget(new.ref)
        assert agent.undo(gone).count == 1
        assert [entry.content for entry in agent.entries()] == ["Otter", "Egret"]

    def test_readers_change_nothing_and_the_ledger_says_that_they_tried(
        self, memory: Memory, ada: ScopedMemory
    ) -> None:
        kept = ada.remember("Heron", collection="notes")
        gone = ada.forget(ada.remember("Otter", collection="notes").ref)
        reader = memory.acting_as("reader", policy=Policy.of(allow=("memory.read",))).scope(user="ada")
        for call, effect in (
            (lambda: reader.forget(kept.ref), "forget"),
            (lambda: reader.forget(where={"a": 1}), "forget"),
            (lambda: reader.supersede(kept.ref, "Egret"), "supersede"),
            (lambda: reader.undo(gone), "undo"),
        ):
            assert_raises(Denied, call)
            event = memory.ledger.events()[-1]
            assert (event.effect, event.actor, event.decision) == (effect, "reader", "deny")
        assert present(reader.entry(kept.ref)).content == "Heron"
        writer = memory.acting_as("writer", policy=Policy.of(allow=("memory.write",))).scope(user="ada")
        for read in (writer.entries, lambda: writer.entry(kept.ref), lambda: writer.entry_history(kept.ref)):
            assert_raises(Denied, read)
        assert_raises(Denied, writer.namespaces)

    def test_a_forget_that_needs_approval_waits_and_is_then_done(self, memory: Memory, ada: ScopedMemory) -> None:
        kept = ada.remember("Heron", collection="notes", metadata={"bird": True})
        policy = Policy.of(allow=("memory.read",), approve=("memory.write",))
        asking = memory.acting_as("agent", policy=policy).scope(user="ada")
        waits = assert_raises(ApprovalRequired, asking.forget, where={"bird": True})
        assert live_contents(ada) == ["Heron"]
        gone = memory.approvals.approve(waits.approval).result
        assert gone.count == 1
        assert live_contents(ada) == []
        assert ada.undo(gone).refs == (kept.ref,)
        waits = assert_raises(ApprovalRequired, asking.supersede, kept.ref, "Egret")
        memory.approvals.approve(waits.approval)
        assert live_contents(ada) == ["Egret"]

    def test_they_count_as_writes(self, memory: Memory, ada: ScopedMemory) -> None:
        kept = ada.remember("Heron", collection="notes")
        policy = Policy.of(allow=("memory",), quota=Quota(writes=3))
        agent = memory.acting_as("agent", policy=policy).scope(user="ada")
        for _ in range(5):
            assert agent.forget(kept.ref, dry_run=True)
        gone = agent.forget(kept.ref)
        agent.undo(gone)
        agent.supersede(kept.ref, "Egret")
        assert_raises(QuotaExceeded, agent.forget, where={"a": 1})


class EntryBatchPromises:
    """Facts and entries are written together, or not at all."""

    def test_a_batch_holds_facts_and_entries(self, memory: Memory, ada: ScopedMemory) -> None:
        old = ada.remember("Fires at cone 10", collection="notes")
        ada.set("nickname", "Countess")
        with ada.batch() as batch:
            batch.set("cone", 6)
            batch.remember("Fires at cone 6", collection="notes", key="kiln", metadata={"a": 1})
            batch.remember("The kiln is new", collection="kilns")
            batch.forget(old.ref)
            batch.delete("nickname")
        results: list[Any] = batch.results
        fact, first, second, gone, deleted = results
        assert (fact.value, first.stored, second.collection, gone.refs, deleted) == (6, True, "kilns", (old.ref,), True)
        assert recall_contents(ada, "cone") == ["Fires at cone 6"]
        assert recall_contents(ada, "kiln", collection="kilns") == ["The kiln is new"]
        assert ada.undo(gone).refs == (old.ref,)
        assert sorted(live_contents(ada)) == ["Fires at cone 10", "Fires at cone 6"]
        assert all(finding.ok for finding in memory.inspect())

    def test_a_batch_that_fails_changes_nothing(self, ada: ScopedMemory, store: Store) -> None:
        kept = ada.remember("Heron", collection="notes")
        ada.set("k", 1)
        with unchanged(store), pytest.raises(Conflict):
            with ada.batch() as batch:
                batch.remember("Otter", collection="notes")
                batch.remember("Otter", collection="new")
                batch.forget(kept.ref)
                batch.set("k", 2, expect=7)
        given_up = ada.batch()
        with unchanged(store), pytest.raises(ZeroDivisionError), given_up as batch:
            batch.remember("Otter", collection="notes")
            batch.set("k", 1 // 0)
        assert given_up.results == []
        wrong: list[Callable[[ScopedBatch], None]] = [
            lambda batch: batch.remember("", collection="notes"),
            lambda batch: batch.remember("x", collection=""),
            lambda batch: batch.forget(),
            lambda batch: batch.forget(where={}),
        ]
        for write in wrong:
            with unchanged(store), pytest.raises(UsageError), ada.batch() as batch:
                batch.set("k", 2)
                write(batch)

    def test_writes_of_a_batch_see_those_before_them(self, ada: ScopedMemory) -> None:
        with ada.batch() as batch:
            batch.remember("Heron", collection="notes", key="k")
            batch.remember("Egret", collection="notes", key="k")
            batch.remember("Otter", collection="notes")
            batch.remember("Otter", collection="notes")
            batch.forget(key="k", collection="notes")
        results: list[Any] = batch.results
        assert [one.stored for one in results[:4]] == [True, True, True, False]
        assert results[1].replaced == results[0].id
        assert results[4].count == 1
        assert live_contents(ada) == ["Otter"]

    def test_a_batch_with_entries_and_an_idempotency_key_is_done_once(self, ada: ScopedMemory) -> None:
        kept = ada.remember("Heron", collection="notes", key="k")

        def send(content: str) -> list[Any]:
            with ada.batch(idempotency_key="one") as batch:
                batch.set("k", 1)
                batch.remember(content, collection="notes")
                batch.forget(kept.ref)
            return batch.results

        first, again = send("Otter"), send("Otter")
        assert [one.id for one in again[:2]] == [one.id for one in first[:2]]
        assert (again[1].stored, again[2].count, again[2].undo) == (True, 1, first[2].undo)
        assert_raises(IdempotencyMismatch, send, "Egret")
        assert live_contents(ada) == ["Otter"]
        assert len(ada.history("k")) == 1

    def test_embedding_fails_before_anything_is_written(
        self, store: Store, clock: FakeClock, open_beside: Callable[..., Memory]
    ) -> None:
        embedder = WatchedEmbedder()
        ada = open_beside(embedder=embedder).scope(user="ada")
        ada.remember("Heron", collection="notes")
        embedder.fails_on = "Otter"
        with unchanged(store), pytest.raises(EmbeddingFailed):
            with ada.batch() as batch:
                batch.set("k", 1)
                batch.remember("Otter", collection="notes")
        embedder.fails_on = None
        with ada.batch() as batch:
            batch.set("k", 1)
            batch.remember("Otter", collection="notes")
        assert live_contents(ada) == ["Heron", "Otter"]

    def test_a_batch_is_limited_and_each_write_of_it_permitted(
        self, memory: Memory, ada: ScopedMemory, open_beside: Callable[..., Memory]
    ) -> None:
        kept = ada.remember("Heron", collection="private")
        policy = Policy.of(allow=("memory",), access={"collections.private": "none"})
        agent = memory.acting_as("agent", policy=policy).scope(user="ada")
        writes: list[Callable[[ScopedBatch], None]] = [
            lambda batch: batch.remember("Otter", collection="private"),
            lambda batch: batch.forget(kept.ref),
        ]
        for write in writes:
            with pytest.raises(Denied), agent.batch() as batch:
                batch.set("k", 1)
                write(batch)
        assert ada.get("k") is None
        small = open_beside(limits=Limits(batch=2)).scope(user="ada")
        with pytest.raises(LimitExceeded), small.batch() as batch:
            for n in range(3):
                batch.remember(f"Otter {n}", collection="notes")
        with small.batch() as batch:
            batch.remember("Otter", collection="notes")
            batch.set("k", 1)
        assert live_contents(ada) == ["Otter"]


class EntryListPromises:
    """Entries, namespaces, collections and scopes are read as a database is."""

    def test_an_entry_is_read_by_its_ref_its_id_or_its_key(self, ada: ScopedMemory, clock: FakeClock) -> None:
        done = ada.remember("Heron", collection="notes", key="k", metadata={"a": 1}, namespace="n", ttl="1h")
        entry = present(ada.entry(done.ref))
        assert entry == ada.entry(done.id) == ada.entry(key="k", collection="notes", namespace="n")
        assert (entry.content, entry.metadata, entry.ref) == ("Heron", {"a": 1}, done.ref)
        assert ada.entry(done.ref, collection="other") is ada.entry(key="k", collection="notes") is None
        assert ada.entry("unknown") is None
        for names in ({}, {"ref": done.ref, "key": "k"}, {"key": "k"}, {"ref": "fact:user:ada#k"}):
            assert_raises(UsageError, ada.entry, **names)
        clock.advance(3_600)
        assert ada.entry(done.ref) is None

    def test_entries_are_listed_newest_first_by_filter_and_over_all_collections(self, ada: ScopedMemory) -> None:
        for n in range(4):
            for collection in ("a", "b"):
                ada.remember(f"{collection}{n}", collection=collection, metadata={"n": n})
        assert [entry.content for entry in ada.entries()] == ["a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3"]
        assert [entry.content for entry in ada.entries(newest=True, limit=3)] == ["b3", "a3", "b2"]
        odd = {"n": {"$in": [1, 3]}}
        assert [entry.content for entry in ada.entries(filter=odd)] == ["a1", "b1", "a3", "b3"]
        assert [entry.content for entry in ada.entries(collection="b", filter=odd, newest=True)] == ["b3", "b1"]
        assert ada.entries(filter={"n": 9}) == ada.entries(collection="unknown") == []
        assert_raises(InvalidFilter, ada.entries, filter={"n": {"$near": 1}})

    @pytest.mark.parametrize("newest", [False, True])
    def test_pages_of_entries_are_stable_while_others_write(self, ada: ScopedMemory, newest: bool) -> None:
        done = ada.remember_many([{"content": f"note {n}"} for n in range(9)], collection="notes")
        order = [one.id for one in (reversed(done) if newest else done)]
        seen: list[str] = []
        after = 0
        for round in range(3):
            page = ada.entries(newest=newest, after=after, limit=3)
            seen += [entry.id for entry in page]
            after = page[-1].sequence
            ada.forget(seen[0] if round == 0 else order[-1])
            ada.remember(f"written meanwhile {round}", collection="notes")
        assert seen == order[:8] if newest else seen[:8] == order[:8]

    def test_namespaces_collections_and_scopes_are_listed_by_prefix(self, memory: Memory, bob: ScopedMemory) -> None:
        ada = memory.scope(user="ada")
        for namespace in ("", "kiln", "kitchen", "wheel"):
            done = ada.remember("It is there", collection="notes", namespace=namespace)
        ada.remember("It is there", collection="notes.old", namespace="kilt")
        bob.set("k", 1)
        memory.scope(user="ada", agent="x").set("k", 1)
        assert ada.namespaces(collection="notes") == ["", "kiln", "kitchen", "wheel"]
        assert ada.namespaces(prefix="kil") == ["kiln", "kilt"]
        assert ada.forget(done.ref)
        assert ada.namespaces(collection="notes") == ["", "kiln", "kitchen"]
        assert bob.namespaces() == ada.namespaces(collection="unknown") == []
        assert [one.name for one in memory.collections.list(prefix="notes.")] == ["notes.old"]
        assert [one.name for one in memory.collections.list(prefix="n")] == ["notes", "notes.old"]
        assert [one.path for one in memory.scopes(prefix="user:")] == ["user:ada", "user:ada/agent:x", "user:bob"]
        assert [one.path for one in memory.scopes(prefix="user:ada", limit=1)] == ["user:ada"]
        assert [one.path for one in memory.scopes(after="user:ada")] == ["user:ada/agent:x", "user:bob"]
        memory.erase(user="ada")
        assert [one.path for one in memory.scopes()] == ["user:bob"]

    def test_scopes_are_listed_to_those_who_may_read_all_of_them(self, memory: Memory, ada: ScopedMemory) -> None:
        ada.set("k", 1)
        memory.in_tenant("other").scope(user="eve").set("k", 1)
        own = Policy(rules=(Rule("allow", "memory", ada.scope), Rule("allow", "collections.read")))
        assert_raises(Denied, memory.acting_as("ada", policy=own).scopes)
        reader = memory.acting_as("reader", policy=Policy.of(allow=("memory.read",)))
        assert reader.scopes() == [Scope.of(user="ada")]
        narrowed = Policy(rules=(Rule("allow", "memory.read"), Rule("deny", "memory.read", ada.scope)))
        assert_raises(Denied, memory.acting_as("reader", policy=narrowed).scopes)
        wrong: list[dict[str, Any]] = [{"prefix": "a\0"}, {"after": "nobody"}, {"limit": -1}]
        for options in wrong:
            assert_raises(UsageError, memory.scopes, **options)

    def test_an_agent_lists_the_collections_that_it_may_read(self, memory: Memory, ada: ScopedMemory) -> None:
        for n in range(300):
            ada.remember(f"note {n}", collection="notes" if n % 3 else "private")
        policy = Policy.of(allow=("memory",), access={"collections.private": "none"})
        agent = memory.acting_as("agent", policy=policy).scope(user="ada")
        assert len(agent.entries()) == 200
        assert {entry.collection for entry in agent.entries(limit=150, newest=True)} == {"notes"}
        assert len(agent.entries(limit=150)) == 150
        (secret,) = ada.entries(collection="private", limit=1)
        assert agent.entry(secret.ref) is None
        assert agent.entry_history(secret.ref) == []
        assert_raises(Denied, agent.entries, collection="private")
        assert len(ada.entry_history(secret.ref)) == 1
