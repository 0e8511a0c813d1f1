"""The ledger: one event for each thing that happened or was refused, chained, without the text of values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from memoranda.api.memory import Memory
from memoranda.errors import ApprovalRequired, Conflict, Denied, IdempotencyMismatch
from memoranda.model.event import GENESIS, Anchor, hash_event
from memoranda.model.policy import Policy
from memoranda.store.base import Store
from memoranda.testing.clock import FakeClock
from memoranda.testing.conformance.base import Capability, present, requires


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

    def test_what_changes_nothing_is_no_event(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
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
        with pytest.raises(Conflict):
            ada.set("k", 2, expect=9)
        with pytest.raises(IdempotencyMismatch):
            ada.set("k", 2, idempotency_key="r1")
        assert memory.ledger.verify().length == length
        ada.set("k", 2)
        assert memory.ledger.verify().length == length + 1

    def test_a_denial_is_an_event(self, memory: Memory) -> None:
        agent = memory.acting_as("agent", door="mcp", policy=Policy.of(allow=("memory.read",)))
        with pytest.raises(Denied):
            agent.scope(user="ada").set("k", "secret")
        with pytest.raises(Denied):
            agent.ledger.events()
        write, read = memory.ledger.events()
        assert (write.decision, write.effect, write.scope, write.key) == ("deny", "set_fact", "user:ada", "k")
        assert (write.actor, write.door, write.version, write.content) == ("agent", "mcp", None, None)
        assert "memory.write" in write.detail["reason"]
        assert (read.decision, read.effect) == ("deny", "read_ledger")
        assert memory.scope(user="ada").get("k") is None

    def test_an_expiry_is_an_event_once_it_is_found(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
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

    def test_events_never_hold_the_text_of_values(self, memory: Memory, tmp_path: Path) -> None:
        secret = "correct horse battery staple"
        memory.definitions.create(
            name="D",
            slug="d",
            schema={"type": "object", "properties": {"x": {"type": "string", "description": secret}}},
        )
        ada = memory.scope(user="ada")
        ada.set("k", secret, idempotency_key="r1")
        ada.set("d", {"x": secret})
        ada.update("k", lambda value: [value])
        memory.permissions.grant("agent", "memory", level="approve")
        with pytest.raises(ApprovalRequired) as caught:
            memory.acting_as("agent").scope(user="ada").set("k", {"deep": [secret]})
        memory.approvals.approve(caught.value.approval)
        with pytest.raises(Denied):
            memory.acting_as("stranger").scope(user="ada").set("k", secret)
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

    def test_events_form_one_chain(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
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

    def test_events_are_read_by_position_and_from_the_end(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
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

    def test_an_anchor_fits_its_own_chain_and_all_that_follows(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
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
