"""How entries leave and move: expiry, the end of a session, erasure, export and import."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import EmbedderMismatch, ScopeEnded, UsageError
from memoranda.model.policy import Policy
from memoranda.model.scope import Scope
from memoranda.store.base import ContentKey, Store
from memoranda.testing.conformance.base import (
    Capability,
    WatchedEmbedder,
    live_contents,
    recall_contents,
    requires,
    snapshot,
)
from memoranda.testing.conformance.entries import CONTENTS
from memoranda.testing.conformance.permissions import LOOK_ALIKES
from memoranda.testing.fakes import FakeClock

TICK = 0.000001
HEADER = b'{"memoranda":1}'
GOOD = (
    b'{"entry":{"scope":"user:ada","collection":"notes","payload":"x","metadata":{},'
    b'"created_at":"2026-01-01T00:00:00Z"}}'
)


class EntryLifePromises:
    """Entries end when they are told to, take nothing else with them, and come back only where they may."""

    # expiry

    def test_an_entry_lives_until_exactly_its_ttl(self, ada: ScopedMemory, clock: FakeClock) -> None:
        done = ada.remember("short heron", collection="notes", ttl="1m", key="k")
        ada.remember("lasting heron", collection="notes")
        assert done.expires_at == clock.now() + timedelta(seconds=60)
        clock.advance(60 - TICK)
        assert len(recall_contents(ada, "heron")) == len(recall_contents(ada, "")) == len(live_contents(ada)) == 2
        clock.advance(TICK)
        for mode in ("hybrid", "semantic", "keyword"):
            assert recall_contents(ada, "short heron", mode=mode) == ["lasting heron"]
        assert recall_contents(ada, "") == live_contents(ada) == ["lasting heron"]
        assert ada.forget(done.id, collection="notes") is False
        assert ada.forget(collection="notes", key="k") is False

    def test_a_sweep_removes_expired_entries_and_says_so(self, memory: Memory, clock: FakeClock) -> None:
        ada, bob, there = memory.scope(user="ada"), memory.scope(user="bob"), memory.scope(tenant="other", user="ada")
        for place in (ada, bob, there):
            place.remember("short heron", collection="notes", ttl=60)
            place.remember("longer heron", collection="notes", ttl=61)
            place.remember("lasting heron", collection="notes")
        clock.advance(60)
        length = memory.ledger.verify().length
        assert memory.sweep().entries == 2
        assert [(e.effect, e.scope, e.key) for e in memory.ledger.events(start=length + 1)] == [
            ("expire_entry", "user:ada", "collections.notes"),
            ("expire_entry", "user:bob", "collections.notes"),
        ]
        assert memory.sweep().entries == 0
        for place in (ada, bob, there):
            assert live_contents(place) == ["longer heron", "lasting heron"]
            assert sorted(recall_contents(place, "heron")) == ["lasting heron", "longer heron"]
        assert memory.collections.list()[0].entries == 4
        assert all(finding.ok for finding in memory.inspect())

    def test_a_sweep_of_many_entries_removes_them_all(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        ada.remember_many([{"content": f"heron {n}"} for n in range(700)], collection="notes", ttl=60)
        ada.remember("lasting heron", collection="notes")
        clock.advance(60)
        assert memory.sweep().entries == 700
        assert recall_contents(ada, "heron", limit=100) == ["lasting heron"]
        assert all(finding.ok for finding in memory.inspect())

    def test_a_forgotten_entry_is_swept_at_its_time_too(self, memory: Memory, store: Store, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        ada.remember("short heron", collection="notes", ttl=60, key="k")
        ada.remember("kept heron", collection="notes", key="l")
        then = clock.now()
        clock.advance(1)
        for key in ("k", "l"):
            ada.forget(collection="notes", key=key)
        assert len(recall_contents(ada, "heron", as_of=then)) == 2
        clock.advance(60)
        assert memory.sweep().entries == 1
        assert recall_contents(ada, "heron", as_of=then) == ["kept heron"]
        assert store.read(lambda rows: rows.vector_counts("default", "notes")) == {"hashing:256": 1}
        assert all(finding.ok for finding in memory.inspect())

    def test_a_sweep_through_one_handle_is_seen_by_another(
        self, memory: Memory, second: Memory, clock: FakeClock
    ) -> None:
        memory.scope(user="ada").remember("short heron", collection="notes", ttl=60)
        memory.scope(user="ada").remember("lasting heron", collection="notes")
        assert len(recall_contents(second.scope(user="ada"), "heron")) == 2
        clock.advance(60)
        memory.sweep()
        assert recall_contents(second.scope(user="ada"), "heron") == ["lasting heron"]

    def test_recalling_never_prolongs(self, ada: ScopedMemory, clock: FakeClock) -> None:
        ada.remember("heron", collection="notes", ttl=60)
        for _ in range(6):
            assert recall_contents(ada, "heron") == ["heron"]
            clock.advance(10)
        assert recall_contents(ada, "heron") == []

    # sessions

    def test_the_end_of_a_session_takes_its_entries(self, memory: Memory, ada: ScopedMemory, second: Memory) -> None:
        session, other = ada.session("s1"), ada.session("s2")
        for place in (ada, session, other):
            place.remember("heron", collection="notes")
        session.forget(session.remember("forgotten heron", collection="notes").id, collection="notes")
        hers = second.scope(session="s1")
        assert recall_contents(hers, "heron") == ["heron"]
        assert session.end()["entries"] == 2
        for place in (session, hers):
            assert recall_contents(place, "heron") == recall_contents(place, "") == live_contents(place) == []
        assert recall_contents(ada, "heron") == recall_contents(other, "heron") == ["heron"]
        with pytest.raises(ScopeEnded):
            session.remember("heron", collection="notes")
        with pytest.raises(ScopeEnded):
            session.forget(collection="notes", key="k")
        assert memory.collections.list()[0].entries == 2
        assert all(finding.ok for finding in memory.inspect())

    # erasure

    def test_an_erasure_takes_the_entries_of_a_subject_and_counts_them(
        self, memory: Memory, ada: ScopedMemory, bob: ScopedMemory, second: Memory, clock: FakeClock
    ) -> None:
        agent = memory.scope(user="ada", agent="x")
        session = ada.session("s1")
        for place in (ada, agent, bob, session):
            place.remember("heron", collection="notes", key="k", namespace="n")
            clock.advance(1)
            place.remember("heron again", collection="notes", key="k", namespace="n")  # the first one ends
            place.remember("expired heron", collection="tasks", ttl=8)
        assert len(recall_contents(second.scope(user="ada"), "heron")) == 1
        then = clock.now()
        clock.advance(10)
        receipt = memory.erase(user="ada")
        assert receipt.removed["entries"] == 9
        for handle in (memory, second):
            for place in (handle.scope(user="ada"), handle.scope(user="ada", agent="x"), handle.scope(session="s1")):
                assert (
                    live_contents(place)
                    == recall_contents(place, "heron")
                    == recall_contents(place, "", namespace="n")
                    == []
                )
                assert recall_contents(place, "heron", as_of=then) == []
            assert recall_contents(handle.scope(user="bob"), "heron") == ["heron again"]
        assert recall_contents(bob, "expired", collection="tasks", as_of=then) == ["expired heron"]
        assert memory.collections.list()[0].entries == 1
        done = ada.remember("heron", collection="notes", key="k", namespace="n")
        assert (done.stored, done.replaced) == (True, None)
        assert recall_contents(ada, "heron") == recall_contents(second.scope(user="ada"), "heron") == ["heron"]
        assert all(finding.ok for finding in memory.inspect())

    def test_look_alike_users_keep_their_entries(self, memory: Memory) -> None:
        for name in LOOK_ALIKES:
            memory.scope(user=name).remember(f"heron of {name}", collection="notes")
            memory.scope(user=name, agent="x").remember(f"agent of {name}", collection="notes")
        assert memory.erase(user="a").removed["entries"] == 2
        for name in LOOK_ALIKES[1:]:
            assert recall_contents(memory.scope(user=name), "heron") == [f"heron of {name}"]
            assert recall_contents(memory.scope(user=name, agent="x"), "agent") == [f"agent of {name}"]
        assert recall_contents(memory.scope(user="a"), "heron") == []

    def test_erasing_kept_text_of_entries_leaves_the_chain_whole(
        self, memory: Memory, open_beside: Callable[..., Memory]
    ) -> None:
        keeping = open_beside(keep_text=True)
        for user in ("ada", "bob"):
            keeping.scope(user=user).remember(f"secret of {user}", collection="notes")
            keeping.scope(user=user).recall(f"question of {user}", collection="notes")
            keeping.settle()
        texts = [event.text for event in memory.ledger.events()]
        assert {"secret of ada", "question of ada", "secret of bob", "question of bob"} <= set(texts)
        assert memory.erase(user="ada").removed["ledger_texts"] == 2
        assert {event.text for event in memory.ledger.events()} == {None, "secret of bob", "question of bob"}
        assert memory.ledger.verify().ok

    @pytest.mark.parametrize("ending", ["erased", "ended"])
    def test_a_recall_that_is_noted_after_its_subject_is_gone_leaves_no_text(
        self, memory: Memory, bob: ScopedMemory, store: Store, open_beside: Callable[..., Memory], ending: str
    ) -> None:
        keeping = open_beside(keep_text=True)
        ada = memory.scope(user="ada").session("s1")
        for place in (ada, bob):
            place.remember("heron", collection="notes")
            keeping.at(place.scope).recall(f"question in {place.scope}", collection="notes")
        if ending == "erased":
            memory.erase(user="ada")
        else:
            ada.end()
        keeping.settle()
        recalls = {event.scope: event.text for event in memory.ledger.events() if event.effect == "recall"}
        assert recalls == {"session:s1": None, "user:bob": "question in user:bob"}
        assert store.read(lambda rows: rows.get(ContentKey, "default", "session:s1")) is None
        assert memory.ledger.verify().ok

    @requires(Capability.RESTART)
    def test_erased_entries_stay_erased_after_a_restart(self, memory: Memory, reopen: Callable[[], Memory]) -> None:
        for user in ("ada", "bob"):
            memory.scope(user=user).remember("heron", collection="notes")
        memory.erase(user="ada")
        again = reopen()
        assert recall_contents(again.scope(user="ada"), "heron") == live_contents(again.scope(user="ada")) == []
        assert recall_contents(again.scope(user="bob"), "heron") == ["heron"]
        assert all(finding.ok for finding in again.inspect())

    # export and import

    @pytest.mark.parametrize("inwards", [True, False])
    def test_entries_that_are_exported_and_imported_are_equal(
        self, memory: Memory, elsewhere: Memory, clock: FakeClock, tmp_path: Path, inwards: bool
    ) -> None:
        source, target = (elsewhere, memory) if inwards else (memory, elsewhere)
        for user in ("ada", "bob"):
            place = source.scope(user=user)
            for n, content in enumerate(CONTENTS):
                place.remember(content, collection="notes", namespace=str(n % 2), metadata={"n": n, "é": [content]})
            place.remember("keyed heron", collection="notes", key="k", ttl=60)
            place.remember("expired heron", collection="notes", ttl=1)
            place.forget(place.remember("forgotten heron", collection="notes").id, collection="notes")
        clock.advance(5)
        count = 2 * (len(CONTENTS) + 1)
        assert source.export(tmp_path / "x.jsonl") == count
        imported = target.import_file(tmp_path / "x.jsonl")
        assert (imported.remembered, imported.written) == (count, 0)
        for user in ("ada", "bob"):
            here, there = (
                [
                    (repr(e.content), repr(e.metadata), e.namespace, e.key, e.created_at, e.expires_at)
                    for e in handle.scope(user=user).entries(collection="notes")
                ]
                for handle in (source, target)
            )
            assert here == there
            assert recall_contents(target.scope(user=user), "keyed heron", limit=1) == ["keyed heron"]
        assert target.scope(user="ada").entries(collection="notes")[0].origin.source == "import:x.jsonl"
        clock.advance(55)
        assert "keyed heron" not in live_contents(target.scope(user="ada"))
        assert all(finding.ok for finding in target.inspect())

    def test_importing_entries_twice_changes_nothing_more(
        self, memory: Memory, elsewhere: Memory, store: Store, tmp_path: Path
    ) -> None:
        for key in ("k", None):
            elsewhere.scope(user="ada").remember(f"heron {key}", collection="notes", key=key, ttl=600)
        elsewhere.export(tmp_path / "x.jsonl")
        assert memory.import_file(tmp_path / "x.jsonl").remembered == 2
        entries = memory.scope(user="ada").entries(collection="notes")
        assert memory.import_file(tmp_path / "x.jsonl").remembered == 0
        assert memory.scope(user="ada").entries(collection="notes") == entries
        assert len(recall_contents(memory.scope(user="ada"), "heron")) == 2

    def test_entries_changed_after_an_export_stay_so(self, memory: Memory, clock: FakeClock, tmp_path: Path) -> None:
        ada = memory.scope(user="ada")
        ada.remember("old heron", collection="notes", key="changed")
        ada.remember("same heron", collection="notes", key="same")
        memory.export(tmp_path / "x.jsonl")
        clock.advance(10)
        ada.remember("new heron", collection="notes", key="changed")
        assert memory.import_file(tmp_path / "x.jsonl").remembered == 0
        assert sorted(live_contents(ada)) == ["new heron", "same heron"]
        assert all(finding.ok for finding in memory.inspect())

    def test_entries_forgotten_after_an_export_stay_forgotten(
        self, memory: Memory, ada: ScopedMemory, clock: FakeClock, tmp_path: Path
    ) -> None:
        for key in ("k", None):
            ada.remember(f"gone heron {key}", collection="notes", key=key)
        kept = ada.remember("kept heron", collection="notes")
        memory.export(tmp_path / "x.jsonl")
        clock.advance(10)
        for entry in ada.entries(collection="notes"):
            if entry.id != kept.id:
                ada.forget(entry.id, collection="notes")
        assert memory.import_file(tmp_path / "x.jsonl").remembered == 0
        assert live_contents(ada) == ["kept heron"]
        memory.collections.delete("notes")  # with it goes the knowledge that they were forgotten
        assert memory.import_file(tmp_path / "x.jsonl").remembered == 3

    def test_entries_forgotten_or_replaced_after_an_export_stay_so_though_the_clock_was_set_back(
        self, memory: Memory, ada: ScopedMemory, clock: FakeClock, tmp_path: Path
    ) -> None:
        forgotten = ada.remember("gone heron", collection="notes")
        ada.remember("old heron", collection="notes", key="k")
        memory.export(tmp_path / "x.jsonl")
        clock.advance(-5)
        assert ada.forget(forgotten.id, collection="notes")
        ada.remember("new heron", collection="notes", key="k")
        assert memory.import_file(tmp_path / "x.jsonl").remembered == 0
        assert live_contents(ada) == recall_contents(ada, "heron") == ["new heron"]
        clock.advance(10)
        assert live_contents(ada) == recall_contents(ada, "heron") == ["new heron"]

    def test_entries_of_a_clock_that_is_ahead_stay_forgotten_replaced_and_erased(
        self, memory: Memory, ada: ScopedMemory, bob: ScopedMemory, elsewhere: Memory, clock: FakeClock, tmp_path: Path
    ) -> None:
        clock.advance(3600)
        for user in ("ada", "bob"):
            elsewhere.scope(user=user).remember("gone heron", collection="notes")
            elsewhere.scope(user=user).remember("old heron", collection="notes", key="k")
        elsewhere.export(tmp_path / "x.jsonl")
        clock.advance(-3600)
        assert memory.import_file(tmp_path / "x.jsonl").remembered == 4
        assert sorted(live_contents(ada)) == sorted(recall_contents(ada, "heron")) == ["gone heron", "old heron"]
        assert ada.forget(ada.entries(collection="notes")[0].id, collection="notes")
        ada.remember("new heron", collection="notes", key="k")
        memory.erase(user="bob")
        assert memory.import_file(tmp_path / "x.jsonl").remembered == 0
        assert (live_contents(ada), live_contents(bob)) == (["new heron"], [])

    def test_entries_erased_after_an_export_stay_erased_though_the_clock_was_set_back(
        self, memory: Memory, clock: FakeClock, tmp_path: Path
    ) -> None:
        for user in ("ada", "bob"):
            memory.scope(user=user).remember("a heron", collection="notes")
        memory.export(tmp_path / "x.jsonl")
        clock.advance(-5)
        memory.erase(user="ada")
        memory.collections.delete("notes")
        assert memory.import_file(tmp_path / "x.jsonl").remembered == 1
        assert live_contents(memory.scope(user="ada")) == []
        assert live_contents(memory.scope(user="bob")) == ["a heron"]

    def test_entries_erased_or_ended_after_an_export_stay_gone(
        self, memory: Memory, ada: ScopedMemory, bob: ScopedMemory, clock: FakeClock, tmp_path: Path
    ) -> None:
        session, owned = bob.session("s1"), ada.session("s2")
        for place in (ada, bob, session, owned):
            place.remember("heron", collection="notes")
        memory.export(tmp_path / "x.jsonl")
        session.end()
        memory.erase(user="ada")  # in the same moment as what it erased
        clock.advance(10)
        bob.forget(bob.entries(collection="notes")[0].id, collection="notes")
        bob.remember("otter", collection="notes")
        memory.import_file(tmp_path / "x.jsonl")
        for place in (ada, session, owned):
            assert live_contents(place) == recall_contents(place, "heron") == []
        assert "otter" in live_contents(bob)
        assert ada.remember("heron", collection="notes").stored
        assert all(finding.ok for finding in memory.inspect())

    def test_an_export_of_one_scope_holds_only_its_entries(
        self, memory: Memory, elsewhere: Memory, tmp_path: Path
    ) -> None:
        for ids in ({"user": "ada"}, {"user": "ada", "agent": "x"}, {"user": "adam"}):
            elsewhere.scope(**ids).remember(f"heron of {ids}", collection="notes")
        assert elsewhere.export(tmp_path / "x.jsonl", scope=Scope.of(user="ada")) == 2
        assert memory.import_file(tmp_path / "x.jsonl").remembered == 2
        assert live_contents(memory.scope(user="adam")) == []
        assert len(live_contents(memory.scope(user="ada", agent="x"))) == 1

    def test_an_export_holds_only_the_collections_that_may_be_read(self, memory: Memory, tmp_path: Path) -> None:
        ada = memory.scope(user="ada")
        ada.remember("secret heron", collection="private")
        ada.remember("open heron", collection="public")
        clerk = memory.acting_as(
            "clerk", policy=Policy.of(allow=("memory",), access={"collections.private": "none", "*": "readwrite"})
        )
        assert recall_contents(clerk.scope(user="ada"), "heron", collection="public") == ["open heron"]
        assert clerk.export(tmp_path / "x.jsonl") == 1
        assert b"secret" not in (tmp_path / "x.jsonl").read_bytes()
        assert b"open heron" in (tmp_path / "x.jsonl").read_bytes()

    @pytest.mark.parametrize(
        "line",
        [
            GOOD.replace(b'"payload":"x"', b'"payload":""'),
            GOOD.replace(b'"payload":"x"', b'"payload":01'),
            GOOD.replace(b'"metadata":{}', b'"metadata":[]'),
            GOOD.replace(b'"metadata":{}', b'"metadata":{"$in":1}'),
            GOOD.replace(b"user:ada", b"nobody:ada"),
            GOOD.replace(b'"notes"', b'"a..b"'),
            GOOD.replace(b'"notes"', b'"notes","key":""'),
            GOOD.replace(b"00Z", b"00"),
            GOOD.replace(b'"payload":"x",', b""),
        ],
        ids=["empty", "no json", "list", "operator", "scope", "name", "key", "no zone", "no payload"],
    )
    def test_an_entry_gone_wrong_in_a_file_is_refused_whole(self, memory: Memory, store: Store, line: bytes) -> None:
        before = snapshot(store)
        with pytest.raises(UsageError) as caught:
            memory.import_lines([HEADER, GOOD, line], source="x")
        assert caught.value.hint
        assert snapshot(store) == before
        assert memory.import_lines([HEADER, GOOD], source="x").remembered == 1

    def test_an_import_into_a_collection_of_another_embedder_stores_nothing(
        self, memory: Memory, store: Store, open_beside: Callable[..., Memory]
    ) -> None:
        open_beside(embedder=WatchedEmbedder("elsewhere only")).scope(user="bob").remember("b", collection="notes")
        before = snapshot(store)
        fact = b'{"fact":{"scope":"user:ada","key":"k","payload":1,"updated_at":"2026-01-01T00:00:00Z"}}'
        with pytest.raises(EmbedderMismatch):
            memory.import_lines([HEADER, fact, GOOD], source="x")
        assert snapshot(store) == before
        assert memory.import_lines([HEADER, fact, GOOD.replace(b"notes", b"tasks")], source="x").remembered == 1
