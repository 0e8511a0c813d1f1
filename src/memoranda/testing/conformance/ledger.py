"""The ledger, and approvals: effects that wait for a decision."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import (
    ApprovalRequired,
    Conflict,
    Denied,
    EmbeddingFailed,
    IdempotencyMismatch,
    InvalidValue,
    NotFound,
    SchemaViolation,
    UsageError,
)
from memoranda.model.event import GENESIS, Anchor, hash_event
from memoranda.model.policy import Policy
from memoranda.model.trust import Origin
from memoranda.model.value import encode
from memoranda.retrieval.embed.base import Vectors
from memoranda.store.base import ContentKey, Progress, Store, Transaction
from memoranda.testing.conformance.base import (
    EMBEDDER,
    Capability,
    WatchedEmbedder,
    assert_raises,
    present,
    requires,
    unchanged,
)
from memoranda.testing.fakes import FakeClock


class LedgerPromises:
    """What happened is written once, in order, provably."""

    def test_every_mutation_is_exactly_one_event(self, memory: Memory, clock: FakeClock, tmp_path: Path) -> None:
        ada = memory.scope(user="ada")
        schema = {"type": "object"}
        grants: list[str] = []
        steps: list[tuple[Callable[[], object], str, str, str | None, int | None]] = [
            (lambda: ada.set("k", 1), "set_fact", "user:ada", "k", 1),
            (lambda: ada.update("k", lambda value: value + 1), "set_fact", "user:ada", "k", 2),
            (lambda: ada.delete("k"), "delete_fact", "user:ada", "k", 3),
            (lambda: ada.create("k", 1), "set_fact", "user:ada", "k", 4),
            (lambda: ada.session("s1"), "start_session", "session:s1", None, None),
            (lambda: ada.session("s1").set("k", 1), "set_fact", "session:s1", "k", 1),
            (lambda: memory.scope(session="s1").end(), "end_scope", "session:s1", None, None),
            (
                lambda: memory.definitions.create(name="D", slug="d", schema=schema),
                "create_definition",
                "",
                None,
                None,
            ),
            (lambda: memory.definitions.update("d", name="E"), "update_definition", "", None, None),
            (lambda: memory.definitions.delete("d"), "delete_definition", "", None, None),
            (lambda: grants.append(memory.permissions.grant("a", "memory").id), "grant", "", None, None),
            (lambda: memory.permissions.revoke(grants[0]), "revoke", "", None, None),
            (lambda: memory.import_lines([b'{"memoranda":1}'], source="x"), "import", "", None, None),
            (lambda: memory.erase(user="ada"), "erase", "user:ada", None, None),
        ]
        for position, (step, effect, scope, key, version) in enumerate(steps, start=1):
            clock.advance(1)
            step()
            events = memory.ledger.events(start=position)
            assert [(e.effect, e.scope, e.key, e.version) for e in events] == [(effect, scope, key, version)]
            (event,) = events
            assert (event.position, event.actor, event.door, event.decision) == (position, "owner", "python", "allow")
            assert (event.at, event.tenant) == (clock.now(), "default")
        verification = memory.ledger.verify()
        assert (verification.ok, verification.length) == (True, len(steps))

    def test_a_call_that_changes_nothing_appends_no_event(self, memory: Memory, ada: ScopedMemory) -> None:
        ada.set("k", 1, idempotency_key="r1")
        ada.session("s1").end()
        length = memory.ledger.verify().length
        ada.get("k")
        ada.list()
        ada.history("k")
        ada.delete("missing")
        ada.set("k", 1, idempotency_key="r1")
        memory.scope(session="s1").end()
        memory.sweep()
        memory.definitions.list()
        memory.permissions.list()
        memory.approvals.list()
        assert_raises(Conflict, ada.set, "k", 2, expect=9)
        assert_raises(IdempotencyMismatch, ada.set, "k", 2, idempotency_key="r1")
        assert memory.ledger.verify().length == length
        ada.set("k", 2)
        assert memory.ledger.verify().length == length + 1

    def test_a_denial_is_an_event(self, memory: Memory) -> None:
        agent = memory.acting_as("agent", door="mcp", policy=Policy.of(allow=("memory.read",)))
        assert_raises(Denied, agent.scope(user="ada").set, "k", "secret")
        assert_raises(Denied, agent.ledger.events)
        write, read = memory.ledger.events()
        assert (write.decision, write.effect, write.scope, write.key) == ("deny", "set_fact", "user:ada", "k")
        assert (write.actor, write.door, write.version, write.content) == ("agent", "mcp", None, None)
        assert "memory.write" in write.detail["reason"]
        assert (read.decision, read.effect) == ("deny", "read_ledger")
        assert memory.scope(user="ada").get("k") is None

    def test_an_expiry_is_an_event_once_it_is_found(self, memory: Memory, ada: ScopedMemory, clock: FakeClock) -> None:
        for key in ("swept", "overwritten", "deleted", "kept"):
            ada.set(key, 1, ttl=60 if key != "kept" else None)
        length = memory.ledger.verify().length
        clock.advance(60)
        ada.set("overwritten", 2)
        ada.delete("deleted")
        memory.sweep()
        events = memory.ledger.events(start=length + 1)
        assert [(e.effect, e.key, e.version) for e in events] == [
            ("expire_fact", "overwritten", 2),
            ("set_fact", "overwritten", 3),
            ("expire_fact", "deleted", 2),
            ("expire_fact", "swept", 2),
        ]
        assert all(finding.ok for finding in memory.inspect())

    def test_events_never_hold_the_text_of_values(self, memory: Memory, ada: ScopedMemory, tmp_path: Path) -> None:
        secret = "correct horse battery staple"
        memory.definitions.create(
            name="D",
            slug="d",
            schema={"type": "object", "properties": {"x": {"type": "string", "description": secret}}},
        )
        ada.set("k", secret, idempotency_key="r1")
        ada.set("d", {"x": secret})
        ada.update("k", lambda value: [value])
        memory.permissions.grant("agent", "memory", level="approve")
        with pytest.raises(ApprovalRequired) as caught:
            memory.acting_as("agent").scope(user="ada").set("k", {"deep": [secret]})
        memory.approvals.approve(caught.value.approval)
        assert_raises(Denied, memory.acting_as("stranger").scope(user="ada").set, "k", secret)
        memory.export(tmp_path / "x.jsonl")
        memory.import_file(tmp_path / "x.jsonl")
        ada.delete("k")
        events = memory.ledger.events()
        assert secret not in repr(events)
        assert all(event.text is None for event in events)
        hashes = [event.content for event in events if event.effect == "set_fact" and event.version]
        assert len(hashes) >= 4
        assert None not in hashes
        assert secret.encode() in (tmp_path / "x.jsonl").read_bytes()

    def test_text_is_kept_when_asked_for(self, store: Store, clock: FakeClock) -> None:
        with Memory(store, clock=clock, keep_text=True) as memory:
            memory.scope(user="ada").set("k", {"n": [1, "é"]})
            memory.scope(user="ada").set("k", None)
            memory.scope(user="ada").delete("k")
            assert [event.text for event in memory.ledger.events()] == [{"n": [1, "é"]}, None, None]
            assert memory.ledger.verify().ok

    @pytest.mark.parametrize("removal", ["fact", "entry", "collection"])
    def test_a_fact_called_like_a_collection_keeps_its_text_apart(
        self, memory: Memory, clock: FakeClock, open_beside: Callable[..., Memory], removal: str
    ) -> None:
        keeping = open_beside(keep_text=True)
        ada = keeping.scope(user="ada")
        ada.remember("a wren", collection="notes", ttl=60 if removal == "entry" else None)
        number = memory.ledger.tail(1)[0].version
        for version in range(1, 1 + present(number)):
            ada.set("collections.notes", f"fact {version}", ttl=60 if removal == "fact" else None)
        entry, *_, fact = [event for event in memory.ledger.events() if event.key == "collections.notes" and event.text]
        assert (entry.text, fact.text) == ("a wren", f"fact {number}")
        assert (entry.scope, entry.version) == (fact.scope, fact.version)
        clock.advance(60)
        memory.sweep()
        if removal == "collection":
            memory.collections.delete("notes")
        texts = {event.text for event in memory.ledger.events()}
        assert (entry.text in texts, fact.text in texts) == (removal == "fact", removal != "fact")
        assert memory.ledger.verify().ok

    def test_equal_content_of_one_subject_has_equal_hashes_and_of_two_has_not(self, memory: Memory) -> None:
        for user in ("ada", "ada", "bob"):
            memory.scope(user=user).set("k", "same")
        first, second, other = (event.content for event in memory.ledger.events())
        assert first == second
        assert first != other

    def test_reads_are_events_when_asked_for(self, store: Store, clock: FakeClock) -> None:
        with Memory(store, clock=clock, record_reads=True) as memory:
            ada = memory.scope(user="ada")
            ada.set("k", 1)
            ada.get("k")
            ada.get("missing")
            ada.list("k")
            ada.history("k")
            memory.settle()
            events = memory.ledger.events()
            assert [(e.effect, e.key, e.decision) for e in events] == [
                ("set_fact", "k", "allow"),
                ("get_fact", "k", "allow"),
                ("get_fact", "missing", "allow"),
                ("list_facts", "k", "allow"),
                ("read_history", "k", "allow"),
            ]
            assert memory.ledger.verify().ok
            assert all(finding.ok for finding in memory.inspect())

    def test_an_export_is_always_an_event(self, memory: Memory, tmp_path: Path) -> None:
        memory.scope(user="ada").set("k", 1)
        memory.acting_as("clerk", policy=Policy.of(allow=("memory.export", "memory.read"))).export(tmp_path / "x.jsonl")
        event = memory.ledger.tail(1)[0]
        assert (event.effect, event.actor, event.decision) == ("export", "clerk", "allow")

    def test_events_form_one_chain(self, memory: Memory, ada: ScopedMemory) -> None:
        for n in range(10):
            ada.set("k", n)
        events = memory.ledger.events()
        assert [event.position for event in events] == list(range(1, 11))
        assert [event.prev_hash for event in events] == [GENESIS, *(event.hash for event in events[:-1])]
        assert all(hash_event(event) == event.hash for event in events)
        assert len({event.hash for event in events}) == 10
        verification = memory.ledger.verify()
        assert (verification.ok, verification.length, verification.head) == (True, 10, events[-1].hash)
        changed = msgspec.structs.replace(events[0], actor="somebody else")
        assert hash_event(changed) != changed.hash

    def test_an_empty_ledger_is_whole(self, memory: Memory) -> None:
        verification = memory.ledger.verify()
        assert (verification.ok, verification.length, verification.head) == (True, 0, GENESIS)
        assert memory.ledger.events() == memory.ledger.tail() == []
        assert memory.ledger.verify(anchor=memory.ledger.anchor()).ok

    def test_events_are_read_by_position_and_from_the_end(self, memory: Memory, ada: ScopedMemory) -> None:
        for n in range(10):
            ada.set("k", n)
        ledger = memory.ledger
        assert [e.position for e in ledger.events(start=4, limit=3)] == [4, 5, 6]
        assert [e.position for e in ledger.events(start=9)] == [9, 10]
        assert ledger.events(start=11) == []
        assert ledger.events(limit=0) == []
        assert [e.position for e in ledger.tail(3)] == [8, 9, 10]
        assert [e.position for e in ledger.tail(100)] == list(range(1, 11))
        assert ledger.tail(0) == []

    def test_an_anchor_fits_its_own_chain_and_all_that_follows(self, memory: Memory, ada: ScopedMemory) -> None:
        ada.set("k", 1)
        anchor = memory.ledger.anchor()
        assert anchor == Anchor(1, memory.ledger.events()[0].hash)
        assert memory.ledger.verify(anchor=anchor).ok
        ada.set("k", 2)
        assert memory.ledger.verify(anchor=anchor).ok

    def test_an_anchor_shows_a_chain_that_was_cut_or_replaced(self, memory: Memory, elsewhere: Memory) -> None:
        for _ in range(3):
            memory.scope(user="ada").set("k", 1)
        good = memory.ledger.anchor()
        cut = memory.ledger.verify(anchor=Anchor(5, good.head))
        assert (cut.ok, cut.position) == (False, 4)
        for _ in range(3):
            elsewhere.scope(user="ada").set("k", 2)
        replaced = memory.ledger.verify(anchor=elsewhere.ledger.anchor())
        assert (replaced.ok, replaced.position) == (False, 3)
        assert replaced.reason and cut.reason
        assert memory.ledger.verify(anchor=good).ok

    def test_work_that_goes_beyond_its_scopes_is_carried_out_whole(self, memory: Memory, store: Store) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        ada.set("k", 1)
        bob.set("k", 2)

        def swap(rows: Transaction) -> list[Any]:
            first, second = rows.fact(ada.scope, "k"), rows.fact(bob.scope, "k")
            assert first is not None and second is not None
            rows.put_fact(first, encode(second.value))
            rows.put_fact(second, encode(first.value))
            return [first.value, second.value]

        def remove(rows: Transaction) -> int:
            rows.remove_fact(ada.scope, "k")
            rows.set_tenant_state(memory.tenant, rows.tenant_state(memory.tenant))
            return 3

        assert store.transact(swap, within=[ada.scope]) == [1, 2]
        assert (ada.value("k"), bob.value("k")) == (2, 1)
        assert store.transact(swap, within=[ada.scope, bob.scope]) == [2, 1]
        assert store.transact(remove, within=[ada.scope]) == 3
        assert (ada.value("k"), bob.value("k")) == (None, 2)

    def test_positions_that_were_reserved_are_those_of_the_next_events(self, memory: Memory, store: Store) -> None:
        memory.scope(user="ada").set("k", 1)

        def look(rows: Transaction) -> list[Any]:
            first = rows.reserve(memory.tenant, 1)
            more = rows.reserve(memory.tenant, 3, together=True)
            return [*first.positions, *more.positions, first.previous == more.previous]

        taken = store.transact(look, within=[])
        assert taken[1:] == [taken[0], taken[0] + 1, taken[0] + 2, True]
        memory.scope(user="ada").set("k", 2)
        memory.settle()
        events = memory.ledger.events()
        assert [event.position for event in events] == list(range(1, len(events) + 1))
        assert [event.effect for event in events if event.effect != "void"] == ["set_fact"] * 2
        assert store.read(lambda rows: rows.progress(memory.tenant)) == Progress(len(events))

    def test_each_tenant_has_its_own_chain(self, memory: Memory, store: Store, clock: FakeClock) -> None:
        other = Memory(store, tenant="other", clock=clock)
        memory.scope(user="ada").set("k", 1)
        other.scope(user="ada").set("k", 1)
        other.scope(user="ada").set("k", 2)
        assert (memory.ledger.verify().length, other.ledger.verify().length) == (1, 2)
        assert {event.tenant for event in other.ledger.events()} == {"other"}
        assert not memory.ledger.verify(anchor=other.ledger.anchor()).ok

    def test_an_inspection_of_a_busy_life_finds_all_well(self, memory: Memory, clock: FakeClock) -> None:
        schema = {"type": "object", "properties": {"n": {"type": "integer", "default": 0}}}
        memory.definitions.create(name="C", slug="c", schema=schema, ttl=600)
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        for user in (ada, bob):
            user.set("c", {})
            user.set("k", 1.0)
            user.set("gone", 1, ttl=60)
            user.set("deleted", 1)
            user.delete("deleted")
            user.session(f"s of {user.scope}").set("k", 1)
        memory.scope(tenant="other", user="ada").set("k", 1)
        ada.session("s of user:ada").end()
        memory.definitions.update("c", slug="d")
        clock.advance(60)
        memory.sweep()
        ada.set("gone", 2)
        memory.erase(user="bob")
        bob.set("k", "again")
        findings = memory.inspect()
        assert [finding for finding in findings if not finding.ok] == []
        assert {"ledger of default", "ledger of other"} <= {finding.what for finding in findings}

    @requires(Capability.RESTART)
    def test_the_chain_goes_on_after_a_restart(self, memory: Memory, reopen: Callable[[], Memory]) -> None:
        memory.scope(user="ada").set("k", {"é": [1.0, None]})
        events, anchor = memory.ledger.events(), memory.ledger.anchor()
        again = reopen()
        assert again.ledger.events() == events
        again.scope(user="ada").set("k", 2)
        assert again.ledger.events()[1].prev_hash == events[0].hash
        assert again.ledger.verify(anchor=anchor).ok
        assert all(finding.ok for finding in again.inspect())


HUMAN = Policy.of(allow=("approvals",))


def _ask(memory: Memory, effect: Callable[[Memory], object], *, actor: str = "agent") -> str:
    """Let an agent, whose writes need approval, try an effect; return the id of what waits."""
    if not memory.permissions.list():
        memory.permissions.grant("agent", "memory", level="approve")
    error = assert_raises(ApprovalRequired, effect, memory.acting_as(actor, door="mcp", source="thread:4"))
    return error.approval


class ApprovalPromises:
    """Nothing happens before the yes, once after it, and never after a no."""

    def test_a_waiting_effect_changes_nothing_until_it_is_approved(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        waiting = _ask(memory, lambda agent: agent.scope(user="ada").set("k", {"n": 1}, ttl=60, domain="d"))
        assert ada.get("k") is None
        assert ada.history("k") == []
        (approval,) = memory.approvals.list()
        assert (approval.id, approval.status, approval.actor, approval.door) == (waiting, "pending", "agent", "mcp")
        assert (approval.scope, approval.capability) == ("user:ada", "memory.write")
        assert approval.requested_at == clock.now()
        assert memory.approvals.get(waiting) == approval
        clock.advance(100)
        decided = memory.approvals.approve(waiting, reason="looks right")
        fact = present(ada.get("k"))
        assert decided.result == fact
        assert (fact.value, fact.version, fact.domain) == ({"n": 1}, 1, "d")
        assert fact.updated_at == clock.now()
        assert (present(fact.expires_at) - fact.updated_at).total_seconds() == 60
        after = memory.approvals.get(waiting)
        assert (after.status, after.decided_by, after.decided_at, after.reason) == (
            "approved",
            "owner",
            clock.now(),
            "looks right",
        )
        assert after.effect is None  # what it wrote is in the fact, not here
        assert memory.approvals.list() == []
        assert [a.id for a in memory.approvals.list(status="approved")] == [waiting]

    def test_an_approved_write_has_the_origin_of_who_asked(self, memory: Memory) -> None:
        waiting = _ask(memory, lambda agent: agent.scope(user="ada").set("k", 1))
        human = memory.acting_as("human:grace", policy=HUMAN, door="rest", source="desk")
        human.approvals.approve(waiting)
        assert present(memory.scope(user="ada").get("k")).origin == Origin("agent", "mcp", "thread:4")
        pending, decided, done = memory.ledger.events()[-3:]
        assert (pending.effect, pending.decision, pending.actor) == ("set_fact", "pending", "agent")
        assert (decided.effect, decided.decision, decided.actor) == ("decide", "approved", "human:grace")
        assert (done.effect, done.decision, done.actor, done.version) == ("set_fact", "approved", "agent", 1)
        assert pending.resource == decided.resource == waiting
        assert all(finding.ok for finding in memory.inspect())

    def test_a_source_that_was_named_stays_named(self, memory: Memory) -> None:
        waiting = _ask(memory, lambda agent: agent.scope(user="ada").set("k", 1, source="mail:17"))
        memory.approvals.approve(waiting)
        assert present(memory.scope(user="ada").get("k")).origin == Origin("agent", "mcp", "mail:17")

    def test_a_refused_effect_never_happens(self, memory: Memory, ada: ScopedMemory) -> None:
        ada.set("k", "kept")
        waiting = _ask(memory, lambda agent: agent.scope(user="ada").delete("k"))
        decided = memory.approvals.refuse(waiting, reason="no")
        assert (decided.approval.status, decided.result) == ("refused", None)
        assert ada.value("k") == "kept"
        assert_raises(Conflict, memory.approvals.approve, waiting)
        assert ada.value("k") == "kept"
        assert [(e.effect, e.decision) for e in memory.ledger.tail(2)] == [
            ("delete_fact", "pending"),
            ("decide", "refused"),
        ]

    def test_a_decision_is_made_once(self, memory: Memory, ada: ScopedMemory, store: Store) -> None:
        waiting = _ask(memory, lambda agent: agent.scope(user="ada").set("k", 1))
        memory.approvals.approve(waiting)
        with unchanged(store):
            for attempt in (lambda: memory.approvals.approve(waiting), lambda: memory.approvals.refuse(waiting)):
                error = assert_raises(Conflict, attempt)
                assert (error.expected, error.actual) == ("pending", "approved")
        assert present(ada.get("k")).version == 1

    def test_an_actor_cannot_decide_its_own_request_and_the_attempt_is_recorded(self, memory: Memory) -> None:
        waiting = _ask(memory, lambda agent: agent.scope(user="ada").set("k", 1))
        memory.permissions.grant("agent", "approvals")
        agent = memory.acting_as("agent")
        assert [approval.id for approval in agent.approvals.list()] == [waiting]
        for attempt in (lambda: agent.approvals.approve(waiting), lambda: agent.approvals.refuse(waiting)):
            length = memory.ledger.verify().length
            assert_raises(Denied, attempt)
            assert [(e.effect, e.decision, e.actor) for e in memory.ledger.events(start=length + 1)] == [
                ("decide", "deny", "agent")
            ]
        assert memory.scope(user="ada").get("k") is None
        assert memory.approvals.get(waiting).status == "pending"
        memory.acting_as("human", policy=HUMAN).approvals.approve(waiting)
        assert memory.scope(user="ada").value("k") == 1

    def test_deciding_needs_its_permission(self, memory: Memory) -> None:
        waiting = _ask(memory, lambda agent: agent.scope(user="ada").set("k", 1))
        watcher = memory.acting_as("watcher", policy=Policy.of(allow=("approvals.read", "memory")))
        assert len(watcher.approvals.list()) == 1
        error = assert_raises(Denied, watcher.approvals.approve, waiting)
        assert error.capability == "approvals.decide"
        assert memory.scope(user="ada").get("k") is None
        memory.acting_as("human", policy=HUMAN).approvals.approve(waiting)
        assert memory.scope(user="ada").value("k") == 1

    @pytest.mark.parametrize("reason", ["a\0b", "half \ud800", "x" * 1_001, 7, None])
    def test_a_reason_that_cannot_be_kept_decides_nothing(self, memory: Memory, reason: Any) -> None:
        waiting = _ask(memory, lambda agent: agent.scope(user="ada").set("k", 1))
        for decide in (memory.approvals.approve, memory.approvals.refuse):
            with pytest.raises(InvalidValue, match="is not a valid reason"):
                decide(waiting, reason=reason)
        assert memory.approvals.get(waiting).status == "pending"
        memory.approvals.refuse(waiting, reason="não hoje")
        assert memory.approvals.get(waiting).reason == "não hoje"

    def test_an_unknown_approval_is_not_found(self, memory: Memory) -> None:
        waiting = _ask(memory, lambda agent: agent.scope(user="ada").set("k", 1))
        for attempt in (
            lambda: memory.approvals.approve("approval_nothing"),
            lambda: memory.approvals.refuse("approval_nothing"),
            lambda: memory.approvals.get("approval_nothing"),
        ):
            assert_raises(NotFound, attempt)
        assert memory.approvals.get(waiting).status == "pending"

    def test_a_conflict_at_the_moment_of_approval_leaves_it_pending(self, memory: Memory, store: Store) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", 1)
        waiting = _ask(memory, lambda agent: agent.scope(user="ada").set("k", 2, expect=1))
        ada.set("k", "somebody was faster")
        with unchanged(store):
            error = assert_raises(Conflict, memory.approvals.approve, waiting)
            assert (error.expected, error.actual) == (1, 2)
        assert memory.approvals.get(waiting).status == "pending"
        assert memory.approvals.refuse(waiting).approval.status == "refused"

    def test_the_schema_is_that_of_the_moment_of_approval(self, memory: Memory) -> None:
        waiting = _ask(memory, lambda agent: agent.scope(user="ada").set("p", {"n": "one"}))
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        memory.definitions.create(name="P", slug="p", schema=schema)
        assert_raises(SchemaViolation, memory.approvals.approve, waiting)
        assert memory.scope(user="ada").get("p") is None
        memory.definitions.delete("p")
        memory.approvals.approve(waiting)
        assert memory.scope(user="ada").value("p") == {"n": "one"}

    def test_a_whole_batch_waits_and_is_done_together(self, memory: Memory) -> None:
        def batch_of_two(agent: Memory) -> None:
            with agent.batch() as batch:
                batch.set(agent.scope(user="ada"), "k", 1)
                batch.set(agent.scope(user="bob"), "k", 2)

        waiting = _ask(memory, batch_of_two)
        assert (memory.scope(user="ada").get("k"), memory.scope(user="bob").get("k")) == (None, None)
        result = memory.approvals.approve(waiting).result
        assert [fact.value for fact in result] == [1, 2]
        assert (memory.scope(user="ada").value("k"), memory.scope(user="bob").value("k")) == (1, 2)

    def test_an_approved_request_with_an_idempotency_key_is_done_once(self, memory: Memory) -> None:
        def write(agent: Memory) -> object:
            return agent.scope(user="ada").set("k", 1, idempotency_key="r1")

        first, second = _ask(memory, write), _ask(memory, write)
        memory.approvals.approve(first)
        memory.approvals.approve(second)
        assert len(memory.scope(user="ada").history("k")) == 1
        with pytest.raises(IdempotencyMismatch):
            _ask(memory, lambda agent: agent.scope(user="ada").set("k", 2, idempotency_key="r1"))
        assert memory.scope(user="ada").value("k") == 1

    def test_an_approved_read_gives_its_result_to_who_approved(self, memory: Memory) -> None:
        memory.scope(user="ada").set("k", 1)
        waiting = _ask(memory, lambda agent: agent.scope(user="ada").get("k"))
        assert memory.approvals.approve(waiting).result.value == 1

    @pytest.mark.parametrize("read", ["recall", "compare"])
    def test_others_write_while_an_approved_read_is_embedded(
        self, memory: Memory, open_beside: Callable[..., Memory], read: str
    ) -> None:
        embedder = WatchedEmbedder()
        beside = open_beside(embedder=embedder)
        beside.scope(user="ada").remember("a heron by the pond", collection="birds")
        for capability in ("memory", "collections"):
            memory.permissions.grant("agent", capability, level="approve")
        effects: dict[str, Callable[[Memory], object]] = {
            "recall": lambda agent: agent.scope(user="ada").recall("heron", collection="birds"),
            "compare": lambda agent: agent.collections.compare("birds", EMBEDDER),
        }
        waiting = _ask(beside, effects[read])
        waited: set[bool] = set()
        with ThreadPoolExecutor(1) as others:

            def write(vectors: Vectors) -> Vectors:
                """Let another thread write; it would wait for the end of a transaction that is open here."""
                waited.add(bool(wait([others.submit(memory.scope(user="bob").set, "k", 1)], timeout=5).not_done))
                return vectors

            embedder.spoil = write
            result = beside.approvals.approve(waiting).result
        assert (result.count if read == "recall" else result.entries) == 1
        assert waited == {False}
        assert memory.scope(user="bob").value("k") == 1

    def test_an_approved_recall_is_on_record_as_that_of_who_asked(self, memory: Memory, ada: ScopedMemory) -> None:
        kept = ada.remember("a heron by the pond", collection="birds")
        ada.blocks.update("archival", "- Saw a heron", expected_updated_at=None)
        asked: dict[str, Callable[[Memory], object]] = {
            "recall": lambda agent: agent.scope(user="ada").recall("heron", collection="birds"),
            "recall_blocks": lambda agent: agent.scope(user="ada").blocks.recall("heron"),
        }
        given = {"recall": [kept.id], "recall_blocks": ["user:1"]}
        for effect, ask in asked.items():
            waiting = _ask(memory, ask)
            length = memory.ledger.verify().length
            memory.acting_as("human", policy=HUMAN).approvals.approve(waiting)
            decided, done = memory.ledger.events(start=length + 1)
            assert (decided.effect, decided.decision, decided.actor) == ("decide", "approved", "human")
            assert (done.effect, done.decision, done.actor, done.door) == (effect, "approved", "agent", "mcp")
            assert (done.scope, done.detail["results"]) == ("user:ada", given[effect])
            assert done.content is not None

    def test_an_approved_recall_in_a_session_that_has_ended_leaves_no_text(
        self, memory: Memory, store: Store, open_beside: Callable[..., Memory]
    ) -> None:
        keeping = open_beside(keep_text=True)
        for session in ("s1", "s2"):
            memory.scope(user="ada").session(session).remember("heron", collection="birds")
            waiting = _ask(keeping, lambda agent, id=session: agent.scope(session=id).recall(id, collection="birds"))
            if session == "s1":
                memory.scope(session=session).end()
            keeping.approvals.approve(waiting)
        recalls = {event.scope: event.text for event in memory.ledger.events() if event.decision == "approved"}
        assert recalls == {"session:s1": None, "session:s2": "s2"}
        assert store.read(lambda rows: rows.get(ContentKey, "default", "session:s1")) is None
        assert store.read(lambda rows: rows.get(ContentKey, "default", "session:s2")) is not None

    def test_a_read_that_fails_when_it_is_approved_waits_on(
        self, memory: Memory, store: Store, open_beside: Callable[..., Memory]
    ) -> None:
        embedder = WatchedEmbedder()
        beside = open_beside(embedder=embedder)
        beside.scope(user="ada").remember("a heron by the pond", collection="birds")
        waiting = _ask(beside, lambda agent: agent.scope(user="ada").recall("heron", collection="birds"))
        with unchanged(store):
            embedder.fails_on = "heron"
            assert_raises(EmbeddingFailed, beside.approvals.approve, waiting)
        embedder.fails_on = None
        assert beside.approvals.approve(waiting).result.count == 1

    @pytest.mark.parametrize("kind", ["recall", "remember"])
    def test_a_denied_decision_runs_no_embedder(
        self, memory: Memory, open_beside: Callable[..., Memory], kind: str
    ) -> None:
        embedder = WatchedEmbedder()
        beside = open_beside(embedder=embedder)
        beside.scope(user="ada").remember("a heron by the pond", collection="birds")
        waiting = _ask(beside, lambda agent: getattr(agent.scope(user="ada"), kind)("two herons", collection="birds"))
        memory.permissions.grant("agent", "approvals")
        embedder.asked.clear()
        for actor in ("agent", "stranger"):
            assert_raises(Denied, beside.acting_as(actor).approvals.approve, waiting)
        assert embedder.asked == []
        beside.acting_as("human", policy=HUMAN).approvals.approve(waiting)
        assert embedder.asked != []

    def test_an_approved_erasure_erases_like_any_other(self, memory: Memory) -> None:
        for user in ("ada", "bob"):
            memory.scope(user=user).set("k", 1)
        waiting = _ask(memory, lambda agent: agent.erase(user="ada"))
        assert memory.scope(user="ada").value("k") == 1
        receipt = memory.approvals.approve(waiting).result
        assert receipt.removed["facts"] == 1
        assert memory.ledger.events(start=receipt.position)[0].effect == "erase"
        assert memory.scope(user="ada").get("k") is None
        assert memory.scope(user="bob").value("k") == 1
        assert receipt.scrubbed == memory.erase(user="nobody").scrubbed
        assert receipt.remains == memory.erase(user="nobody").remains

    def test_a_sweep_may_wait_for_approval_too(self, memory: Memory, clock: FakeClock) -> None:
        memory.scope(user="ada").set("k", 1, ttl=60)
        memory.permissions.grant("agent", "upkeep", level="approve")
        clock.advance(60)
        waiting = _ask(memory, lambda agent: agent.sweep())
        assert memory.approvals.approve(waiting).result.facts == 1

    @pytest.mark.parametrize("verb", ["inspect", "scrub"])
    def test_what_cannot_wait_is_denied_rather_than_kept_for_nothing(self, memory: Memory, verb: str) -> None:
        memory.permissions.grant("agent", "upkeep", level="approve")
        assert_raises(Denied, getattr(memory.acting_as("agent"), verb))
        assert memory.approvals.list(status="all") == []
        memory.permissions.grant("keeper", "upkeep")
        assert getattr(memory.acting_as("keeper"), verb)()

    def test_what_no_store_could_keep_is_refused_at_once_and_does_not_wait(self, memory: Memory) -> None:
        memory.permissions.grant("agent", "*", level="approve")
        agent = memory.acting_as("agent")
        schema: dict[str, Any] = {"type": "object", "properties": {"n": {}}}
        for attempt in (
            lambda: agent.scope(user="ada").recall("tea", collection="notes", filter={"a": "\ud800"}),
            lambda: agent.definitions.create(name="Half \ud800", slug="half", schema=schema),
            lambda: agent.definitions.create(name="Odd", slug="odd", schema={**schema, "title": object()}),
            lambda: agent.definitions.delete("\ud800"),
        ):
            with pytest.raises(UsageError, match="cannot wait") as caught:
                attempt()
            assert caught.value.hint
        assert memory.approvals.list(status="all") == []
        waiting = _ask(memory, lambda agent: agent.definitions.create(name="Whole", slug="whole", schema=schema))
        assert memory.approvals.approve(waiting).result.slug == "whole"

    @requires(Capability.RESTART)
    def test_what_waits_survives_a_restart(self, memory: Memory, reopen: Callable[[], Memory]) -> None:
        value: dict[str, Any] = {"n": [1, 2.5, None, "é🧠"], "nested": {"a": {}}}
        waiting = _ask(memory, lambda agent: agent.scope(user="ada").set("k", value, ttl=60))
        dropped = _ask(memory, lambda agent: agent.scope(user="ada").set("l", value))
        approvals = memory.approvals.list()
        again = reopen()
        assert again.approvals.list() == approvals
        again.approvals.approve(waiting)
        again.approvals.refuse(dropped)
        assert again.scope(user="ada").value("k") == value
        assert again.scope(user="ada").get("l") is None
        assert_raises(Conflict, again.approvals.approve, waiting)
