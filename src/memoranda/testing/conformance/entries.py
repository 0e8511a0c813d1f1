"""Entries: remember, keys, duplicates, forget, list, and how they leave and move."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import EmbedderMismatch, InvalidDuration, InvalidValue, LimitExceeded, ScopeEnded, UsageError
from memoranda.model.entry import MODES, Indexed, Shelf
from memoranda.model.limits import Limits
from memoranda.model.policy import Policy
from memoranda.model.scope import Scope
from memoranda.model.trust import Origin
from memoranda.model.value import hash_content
from memoranda.store.base import ContentKey, EntryQuery, Store
from memoranda.testing.conformance.base import (
    EMBEDDER,
    Capability,
    WatchedEmbedder,
    assert_raises,
    live_contents,
    recall_contents,
    requires,
    unchanged,
)
from memoranda.testing.conformance.permissions import LOOK_ALIKES
from memoranda.testing.fakes import FakeClock

CONTENTS: tuple[Any, ...] = (
    "plain text",
    "日本語 🧠 é \u200f and a \n line",
    0,
    False,
    -2.5,
    [1, [2.0, "three"], None],
    {"order": {"z": 1, "a": [True, None]}, "": "é"},
)


class EntryPromises:
    """An entry is kept once, as it was given, until it is forgotten or replaced."""

    # remembering

    def test_what_is_remembered_is_recalled_and_listed_as_it_was_given(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        metadata = {"topic": "house", "floor": -1, "done": True, "cost": 80.5, "by": None, "tags": ["a", {"b": 1}]}
        done = ada.remember(
            "The boiler in the cellar was repaired", collection="notes", metadata=metadata, namespace="home", ttl="1h"
        )
        assert (done.collection, done.namespace, done.stored, done.duplicate) == ("notes", "home", True, False)
        assert done.replaced is None
        (entry,) = ada.entries(collection="notes")
        (match,) = ada.recall("Who repaired the boiler?", collection="notes").results
        for seen in (entry, match):
            assert (seen.id, seen.content, seen.namespace) == (done.id, "The boiler in the cellar was repaired", "home")
            assert repr(seen.metadata) == repr(metadata)
            assert seen.created_at == clock.now()
            assert seen.expires_at == done.expires_at is not None
        assert (entry.scope, entry.collection, entry.key) == (Scope.of(user="ada"), "notes", None)
        assert entry.ended_at is None

    def test_what_an_index_is_given_can_be_read_beside_its_entries(self, memory: Memory, store: Store) -> None:
        """In portions, ended entries too, and of one tenant, collection and embedder only."""
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        kept = [user.remember(f"note {n}", collection="notes").id for n in range(3) for user in (ada, bob)]
        ada.remember("a task", collection="tasks")
        memory.in_tenant("other").scope(user="ada").remember("not ours", collection="notes")
        assert ada.forget(kept[0], collection="notes")

        def portion(limit: int, after: int, embedder: str = EMBEDDER) -> list[Any]:
            query = EntryQuery(tenant="default", collection="notes", after=after, limit=limit)
            indexed = store.read(lambda rows: list(rows.index_rows(query, embedder)))
            wanted = EntryQuery(tenant="default", sequences=[one.sequence for one in indexed])
            entries = {entry.sequence: entry for entry in store.read(lambda rows: list(rows.entries(wanted)))}
            return [(entries[one.sequence], one) for one in indexed]

        def live(user: ScopedMemory) -> dict[int, Indexed]:
            query = EntryQuery(shelf=Shelf(user.scope, "notes"))
            return {one.sequence: one for one in store.read(lambda rows: list(rows.index_rows(query, EMBEDDER)))}

        every = portion(100, 0)
        indexed_here = live(ada) | live(bob)
        assert [entry.id for entry, _ in every] == kept
        assert every == portion(4, 0) + portion(4, every[3][0].sequence)
        for entry, indexed in every:
            assert (indexed.sequence, indexed.namespace) == (entry.sequence, entry.namespace)
            assert indexed_here.get(entry.sequence, indexed) == indexed and indexed.vector and indexed.analysis
        assert portion(100, every[-1][0].sequence) == portion(100, 0, "another") == []

    @pytest.mark.parametrize("content", CONTENTS, ids=repr)
    def test_json_content_comes_back_as_the_value_it_was(self, ada: ScopedMemory, content: Any) -> None:
        ada.remember(content, collection="notes", metadata={"same": content})
        assert repr(live_contents(ada)) == repr([content])
        assert repr(recall_contents(ada, "")) == repr([content])
        (match,) = ada.recall("plain order three", collection="notes").results
        assert repr(match.content) == repr(match.metadata["same"]) == repr(content)

    def test_json_content_is_found_by_the_words_in_it(self, ada: ScopedMemory) -> None:
        for content in ({"animal": "heron", "seen": 3}, {"animal": "otter", "seen": 1}, ["kayak", "paddle"]):
            ada.remember(content, collection="notes")
        assert recall_contents(ada, "otter", limit=1) == [{"animal": "otter", "seen": 1}]
        assert recall_contents(ada, "paddle", limit=1) == [["kayak", "paddle"]]

    def test_changing_what_was_given_or_returned_changes_nothing_kept(self, ada: ScopedMemory) -> None:
        content, metadata = {"tags": ["a"]}, {"list": [1]}
        ada.remember(content, collection="notes", metadata=metadata)
        content["tags"].append("b")
        metadata["list"].append(2)
        for _ in range(2):
            (entry,) = ada.entries(collection="notes")
            (match,) = ada.recall("tags", collection="notes").results
            for seen in (entry, match):
                assert (seen.content, seen.metadata) == ({"tags": ["a"]}, {"list": [1]})
                seen.content["tags"].append("c")
                seen.metadata["list"].append(3)

    def test_an_entry_says_who_remembered_it_through_which_door_and_from_where(self, memory: Memory) -> None:
        memory.permissions.grant("agent:mail", "memory")
        agent = memory.acting_as("agent:mail", door="mcp", source="thread:4").scope(user="ada")
        agent.remember("from the thread", collection="notes")
        agent.remember("from the letter", collection="notes", source="mail:18")
        memory.scope(user="ada").remember("by hand", collection="notes")
        assert [entry.origin for entry in memory.scope(user="ada").entries(collection="notes")] == [
            Origin("agent:mail", "mcp", "thread:4", "agent", "medium"),
            Origin("agent:mail", "mcp", "mail:18", "agent", "medium"),
            Origin("owner", "python", None),
        ]

    def test_many_are_remembered_in_their_order_with_their_own_metadata_and_keys(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        done = ada.remember_many(
            (
                {"content": f"line {n} of the log", "metadata": {"n": n}, **({"key": f"k{n}"} if n % 2 else {})}
                for n in range(600)
            ),
            collection="notes",
            namespace="log",
        )
        entries = ada.entries(collection="notes", namespace="log")
        assert [one.id for one in done] == [entry.id for entry in entries]
        assert [entry.metadata["n"] for entry in entries] == list(range(600))
        assert [entry.key for entry in entries[:4]] == [None, "k1", None, "k3"]
        assert len({entry.sequence for entry in entries}) == 600
        assert recall_contents(ada, "line 417 of the log", limit=1) == ["line 417 of the log"]
        assert ada.remember_many([], collection="notes") == []
        assert all(finding.ok for finding in memory.inspect())

    def test_a_batch_is_stored_as_its_items_would_be_one_by_one(self, memory: Memory, store: Store) -> None:
        """Whether all of it is new, or some of it is there already."""
        texts = [f"{name} lent me {n} kettles, für {n} Wochen" for n, name in enumerate(("Ada", "Bo", "Cleo") * 4)]
        items: list[dict[str, Any]] = [
            *({"content": text, "metadata": {"n": n, "by": "me"}} for n, text in enumerate(texts)),
            *({"content": content, "key": f"k{n}"} for n, content in enumerate(CONTENTS)),
        ]
        alone, together, partly = (memory.scope(user=user) for user in ("alone", "together", "partly"))
        for item in items:
            named: dict[str, Any] = {"metadata": item.get("metadata"), "key": item.get("key")}
            alone.remember(item["content"], **named, collection="notes", source="mail:1")
        done = together.remember_many(items, collection="notes", source="mail:1")
        some = partly.remember_many([items[0], *items], collection="notes", source="mail:1")
        assert [one.stored for one in done] == [True] * len(items)
        assert [(one.stored, one.duplicate) for one in some[:2]] == [(True, False), (False, True)]

        def stored(user: ScopedMemory) -> list[Any]:
            query = EntryQuery(shelf=Shelf(user.scope, "notes", ""))
            indexed = store.read(lambda rows: list(rows.index_rows(query, EMBEDDER)))
            entries = user.entries(collection="notes")
            assert [one.sequence for one in indexed] == [entry.sequence for entry in entries]
            return [
                [(e.key, repr(e.content), repr(e.metadata), e.created_at, e.expires_at) for e in entries],
                [(e.origin.source, e.origin.kind, e.origin.trust) for e in entries],
                [(one.metadata, one.analysis, one.vector, one.origin.source, one.expires_at) for one in indexed],
            ]

        assert stored(alone) == stored(together) == stored(partly)
        assert [one.id for one in done] == [entry.id for entry in together.entries(collection="notes")]
        assert all(finding.ok for finding in memory.inspect())

    def test_a_batch_has_one_event_about_all_that_it_stored(self, memory: Memory, store: Store) -> None:
        for user, repeated in (("ada", 0), ("bob", 2)):
            scope = memory.scope(user=user)
            items = [{"content": "first"}, {"content": {"b": 1, "a": [2]}}, {"content": "last", "key": "k"}]
            done = scope.remember_many([*items, *items[:repeated]], collection="notes")
            event = memory.ledger.events()[-1]
            sequences = [entry.sequence for entry in scope.entries(collection="notes")]
            assert (event.effect, event.resource, event.version) == ("remember", done[0].id, sequences[0])
            assert event.detail == {"entries": 3, "last": sequences[-1]}
            key = store.read(lambda rows, path=scope.scope.path: rows.get(ContentKey, "default", path))
            assert key is not None
            assert event.content == hash_content(key.secret, b'["first",{"b":1,"a":[2]},"last"]')

    def test_a_batch_leaves_out_what_was_rejected(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ada.reject("the kettle is broken")
        texts = ["the kettle is new", "the kettle is broken", "the kettle is red"]
        done = ada.remember_many([{"content": text} for text in texts], collection="notes")
        assert [(one.stored, bool(one.rejected)) for one in done] == [(True, False), (False, True), (True, False)]
        assert live_contents(ada) == [texts[0], texts[2]]

    def test_a_long_text_is_remembered_in_parts_that_are_neighbours(self, ada: ScopedMemory) -> None:
        ada.remember("Something else came before it.", collection="notes")
        paragraphs = [f"Paragraph {n} tells of the {word}." for n, word in enumerate(("heron", "otter", "kayak"), 1)]
        done = ada.remember_text("\n\n".join(paragraphs), collection="notes", chunk=45, metadata={"book": "river"})
        assert [one.stored for one in done] == [True] * 3
        entries = ada.entries(collection="notes")[1:]
        assert [entry.content for entry in entries] == paragraphs
        thread = entries[0].metadata["thread"]
        assert [entry.metadata for entry in entries] == [
            {"book": "river", "thread": thread, "part": n, "parts": 3} for n in (1, 2, 3)
        ]
        (first,) = ada.recall("heron", collection="notes", limit=1, expand=1).results
        assert (first.before, first.after[0].content) == ((), paragraphs[1])
        (match,) = ada.recall("otter", collection="notes", limit=1, expand=1).results
        assert [[one.content for one in side] for side in (match.before, match.after)] == [
            paragraphs[:1],
            paragraphs[2:],
        ]

    def test_the_parts_of_a_text_are_replaced_together_under_its_key(self, memory: Memory, ada: ScopedMemory) -> None:
        def shown() -> list[tuple[str, str | None]]:
            return [(entry.content, entry.key) for entry in ada.entries(collection="notes")]

        ada.remember("Part of nothing", collection="notes", key="river#9")
        text = "The heron waits.\n\nThe otter dives.\n\nThe kayak turns."
        done = ada.remember(text, collection="notes", key="river", chunk=20, metadata={"book": "river"})
        assert (done.parts, done.stored, done.id) == (3, True, ada.entries(collection="notes")[1].id)
        assert [entry.metadata["part"] for entry in ada.entries(collection="notes", filter={"parts": 3})] == [1, 2, 3]
        again = ada.remember(text, collection="notes", key="river", chunk=20, metadata={"book": "river"})
        assert (again.parts, again.stored, again.duplicate, len(shown())) == (3, False, True, 4)
        shorter = ada.remember("The heron waits.\n\nThe otter sleeps.", collection="notes", key="river", chunk=20)
        assert (shorter.parts, shown()[1:]) == (
            2,
            [("The heron waits.", "river#1"), ("The otter sleeps.", "river#2")],
        )
        assert ada.remember("All are gone.", collection="notes", key="river", chunk=True).parts == 1
        assert shown() == [("Part of nothing", "river#9"), ("All are gone.", "river")]
        ada.remember(text, collection="notes", key="river", chunk=20)
        assert len(shown()) == 4
        ada.remember("All are gone.", collection="notes", key="river")
        assert shown() == [("Part of nothing", "river#9"), ("All are gone.", "river")]
        assert all(finding.ok for finding in memory.inspect())

    def test_the_parts_of_a_text_are_forgotten_together(self, ada: ScopedMemory) -> None:
        text = "The heron waits.\n\nThe otter dives.\n\nThe kayak turns."
        ada.remember("The mill stopped", collection="notes", key="other#1", metadata={"part": 1})
        unnamed = ada.remember(text, collection="notes", chunk=20)
        assert ada.remember(text, collection="notes", chunk=20).duplicate
        last = ada.recall("kayak", collection="notes", limit=1)[0]
        gone = ada.forget(last.ref)
        assert (gone.count, len(ada.entries(collection="notes"))) == (3, 1)
        assert ada.undo(gone).count == 3 and ada.forget(unnamed.ref).count == 3
        ada.remember(text, collection="notes", key="river", chunk=20)
        assert ada.forget(key="river", collection="notes", dry_run=True).count == 3
        assert ada.forget(key="river", collection="notes").count == 3
        assert ada.forget(key="other", collection="notes").count == 0
        assert [entry.key for entry in ada.entries(collection="notes")] == ["other#1"]

    def test_only_a_text_of_some_parts_is_stored_in_parts(self, ada: ScopedMemory, store: Store) -> None:
        wrong: list[tuple[Any, Any]] = [({"heron": 1}, True), ("heron", 0), ("heron", "many"), ("a b " * 5_000, 2)]
        for content, chunk in wrong:
            with pytest.raises(UsageError):
                ada.remember(content, collection="notes", chunk=chunk)
        with pytest.raises(LimitExceeded, match=r"in parts.*\bchunk\b"):
            ada.remember("heron " * 20_000, collection="notes")
        assert ada.entries(collection="notes") == []
        assert ada.remember("heron " * 20_000, collection="notes", chunk=True).parts > 90

    # keys

    def test_the_same_under_the_same_key_is_written_once(self, ada: ScopedMemory, store: Store) -> None:
        first = ada.remember("The key is under the pot", collection="notes", key="key", metadata={"n": 1})
        with unchanged(store):
            again = ada.remember("The key is under the pot", collection="notes", key="key", metadata={"n": 1})
            assert (again.id, again.stored, again.duplicate, again.replaced) == (first.id, False, True, None)

    @pytest.mark.parametrize(
        ("content", "metadata"),
        [("The key is under the mat", {"n": 1}), ("The key is under the pot", {"n": 2})],
        ids=["content", "metadata"],
    )
    def test_something_else_under_the_same_key_takes_its_place(
        self, ada: ScopedMemory, clock: FakeClock, content: str, metadata: dict[str, int]
    ) -> None:
        first = ada.remember("The key is under the pot", collection="notes", key="key", metadata={"n": 1})
        ada.remember("Another entry", collection="notes")
        assert recall_contents(ada, "The key is under the pot", limit=1) == ["The key is under the pot"]
        clock.advance(1)
        second = ada.remember(content, collection="notes", key="key", metadata=metadata)
        assert (second.stored, second.duplicate, second.replaced) == (True, False, first.id)
        assert second.id != first.id
        assert [(e.content, e.metadata) for e in ada.entries(collection="notes")] == [
            ("Another entry", {}),
            (content, metadata),
        ]
        (match,) = ada.recall("The key is under the pot", collection="notes", limit=1).results
        assert (match.content, match.metadata) == (content, metadata)
        assert len(recall_contents(ada, "Where is the key?")) == 2

    def test_a_key_belongs_to_its_scope_collection_and_namespace(self, ada: ScopedMemory, bob: ScopedMemory) -> None:
        places = [(ada, "notes", ""), (ada, "notes", "x"), (ada, "tasks", ""), (bob, "notes", "")]
        for n, (who, collection, namespace) in enumerate(places):
            done = who.remember(f"text {n}", collection=collection, namespace=namespace, key="k")
            assert (done.stored, done.replaced) == (True, None)
        assert [live_contents(who, collection=c, namespace=n) for who, c, n in places] == [
            [f"text {n}"] for n in range(4)
        ]

    def test_a_key_given_twice_in_one_batch_holds_the_last(self, memory: Memory, ada: ScopedMemory) -> None:
        items = [{"content": f"text {n}", "key": "same" if n != 1 else "other"} for n in range(3)]
        first, _, last = ada.remember_many(items, collection="notes")
        assert last.replaced == first.id
        assert live_contents(ada) == ["text 1", "text 2"]
        assert all(finding.ok for finding in memory.inspect())

    def test_a_batch_that_replaces_in_the_middle_agrees_with_the_ledger(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ada.remember("old", collection="notes", key="k")
        ada.remember_many(
            [{"content": "before"}, {"content": "new", "key": "k"}, {"content": "after"}], collection="notes"
        )
        assert live_contents(ada) == ["before", "new", "after"]
        assert all(finding.ok for finding in memory.inspect())

    # duplicates

    def test_an_exact_duplicate_in_a_namespace_is_reported_and_not_doubled(self, memory: Memory, store: Store) -> None:
        ada = memory.scope(user="ada")
        first = ada.remember({"b": 1, "a": [2]}, collection="notes", metadata={"x": 1, "y": 2})
        with unchanged(store):
            again = ada.remember({"a": [2], "b": 1}, collection="notes", metadata={"y": 2, "x": 1})
            assert (again.id, again.stored, again.duplicate) == (first.id, False, True)
        assert recall_contents(ada, "b") == [{"b": 1, "a": [2]}]

    def test_entries_that_differ_in_anything_are_not_duplicates(self, ada: ScopedMemory, bob: ScopedMemory) -> None:
        ada.remember("Tea at four", collection="notes", metadata={"n": 1})
        different: list[tuple[ScopedMemory, str, dict[str, Any]]] = [
            (ada, "Tea at Four", {"metadata": {"n": 1}}),
            (ada, "Tea at four", {"metadata": {"n": 2}}),
            (ada, "Tea at four", {"metadata": {"n": True}}),
            (ada, "Tea at four", {}),
            (ada, "Tea at four", {"metadata": {"n": 1}, "namespace": "x"}),
            (ada, "Tea at four", {"metadata": {"n": 1}, "key": "k"}),
            (bob, "Tea at four", {"metadata": {"n": 1}}),
        ]
        for who, content, options in different:
            done = who.remember(content, collection="notes", **options)
            assert (done.stored, done.duplicate) == (True, False)
        assert ada.remember("Tea at four", collection="tasks", metadata={"n": 1}).stored
        assert (len(live_contents(ada)), len(live_contents(bob))) == (7, 1)

    def test_duplicates_within_one_batch_are_stored_once(self, memory: Memory, ada: ScopedMemory) -> None:
        one, two, three = ada.remember_many(
            [{"content": "same"}, {"content": "other"}, {"content": "same"}], collection="notes"
        )
        assert ([one.stored, two.stored, three.stored], three.id) == ([True, True, False], one.id)
        assert live_contents(ada) == ["same", "other"]
        assert all(finding.ok for finding in memory.inspect())

    def test_a_batch_sees_existing_entries_and_its_own(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        known = ada.remember("known", collection="notes")
        kept = ada.remember("kept", collection="notes", key="k")
        ada.remember("brief", collection="notes", key="b", ttl=5)
        clock.advance(10)
        items = [
            {"content": "new"},
            {"content": "known"},
            {"content": "kept"},
            {"content": "brief", "key": "b"},
            {"content": "other", "key": "k"},
            {"content": "kept"},
            {"content": "new", "key": "n"},
            {"content": "new"},
            {"content": "other"},
            {"content": "last", "key": "k"},
            {"content": "other"},
        ]
        done = ada.remember_many(items, collection="notes")
        outcomes = [(one.stored, one.duplicate, one.replaced) for one in done]
        assert outcomes == [
            (True, False, None),
            (False, True, None),
            (False, True, None),
            (True, False, None),
            (True, False, kept.id),
            (True, False, None),
            (True, False, None),
            (False, True, None),
            (False, True, None),
            (True, False, done[4].id),
            (True, False, None),
        ]
        assert [done[place].id for place in (1, 2, 7, 8)] == [known.id, kept.id, done[0].id, done[4].id]
        assert live_contents(ada) == ["known", "new", "brief", "kept", "new", "last", "other"]
        told = [event.detail for event in memory.ledger.events() if event.effect == "remember" and event.detail]
        numbers = [entry.sequence for entry in ada.entries(collection="notes")]
        assert [detail["entries"] for detail in told] == [3, 2]  # what came between two that ended, and after
        assert all(detail["last"] in numbers for detail in told)
        assert all(finding.ok for finding in memory.inspect())

    def test_a_duplicate_that_would_live_longer_takes_the_place_of_the_first(
        self, memory: Memory, ada: ScopedMemory, clock: FakeClock
    ) -> None:
        first = ada.remember("Tea at four", collection="notes", ttl=60)
        shorter = ada.remember("Tea at four", collection="notes", ttl=30)
        assert (shorter.id, shorter.stored, shorter.expires_at) == (first.id, False, first.expires_at)
        longer = ada.remember("Tea at four", collection="notes", ttl=90)
        assert (longer.stored, longer.duplicate, longer.replaced) == (True, True, first.id)
        clock.advance(60)
        assert recall_contents(ada, "tea") == ["Tea at four"]
        for_good = ada.remember("Tea at four", collection="notes")
        assert (for_good.replaced, for_good.expires_at) == (longer.id, None)
        assert not ada.remember("Tea at four", collection="notes", ttl=10**6).stored
        clock.advance(10**8)
        assert recall_contents(ada, "tea") == live_contents(ada) == ["Tea at four"]
        assert all(finding.ok for finding in memory.inspect())

    def test_an_entry_without_a_key_never_takes_the_place_of_one_with_a_key(self, ada: ScopedMemory) -> None:
        lasting = ada.remember("Tea at four", collection="notes", key="lasting")
        ada.remember("Tea at five", collection="notes", key="short", ttl=60)
        again = ada.remember("Tea at four", collection="notes")
        assert (again.id, again.stored, again.duplicate) == (lasting.id, False, True)
        longer = ada.remember("Tea at five", collection="notes")
        assert (longer.stored, longer.replaced) == (True, None)
        assert ada.forget(collection="notes", key="short")
        assert live_contents(ada) == ["Tea at four", "Tea at five"]

    def test_what_expired_or_was_forgotten_has_no_duplicates(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        ada.remember("expired", collection="notes", ttl=60)
        ada.remember("expired under its key", collection="notes", ttl=60, key="k")
        forgotten = ada.remember("forgotten", collection="notes")
        ada.remember("kept", collection="notes")
        ada.forget(forgotten.id, collection="notes")
        clock.advance(60)
        for content, key in (("expired", None), ("expired under its key", "k"), ("forgotten", None)):
            done = ada.remember(content, collection="notes", key=key)
            assert (done.stored, done.duplicate, done.replaced) == (True, False, None), content
        assert ada.remember("kept", collection="notes").duplicate
        assert len(live_contents(ada)) == 4
        assert all(finding.ok for finding in memory.inspect())

    # places

    def test_a_namespace_is_searched_alone_and_without_one_all_are(self, ada: ScopedMemory) -> None:
        for namespace in ("", "x", "xy", "X"):
            ada.remember(f"Heron in {namespace or 'none'}", collection="notes", namespace=namespace)
        for namespace in ("", "x", "xy", "X"):
            assert recall_contents(ada, "heron", namespace=namespace) == [f"Heron in {namespace or 'none'}"]
            assert live_contents(ada, namespace=namespace) == [f"Heron in {namespace or 'none'}"]
        assert len(recall_contents(ada, "heron")) == len(live_contents(ada)) == 4
        assert recall_contents(ada, "heron", namespace="%") == recall_contents(ada, "heron", namespace="x_") == []

    def test_no_scope_sees_the_entries_of_another(self, memory: Memory) -> None:
        places = [
            *(memory.scope(user=name) for name in LOOK_ALIKES),
            *(memory.scope(user=name, agent="x") for name in LOOK_ALIKES),
            memory.scope(),
            memory.scope(tenant="other", user=LOOK_ALIKES[0]),
        ]
        for n, place in enumerate(places):
            place.remember(f"Heron number {n}", collection="notes")
        for n, place in enumerate(places):
            assert recall_contents(place, "heron number", limit=100) == live_contents(place) == [f"Heron number {n}"]

    def test_entries_of_others_cannot_be_forgotten(self, memory: Memory, ada: ScopedMemory) -> None:
        kept = ada.remember("Heron", collection="notes", key="k")
        others = [memory.scope(user="adam"), memory.scope(user="ada", agent="x"), memory.scope(tenant="t", user="ada")]
        for other in others:
            other.remember("Otter", collection="notes")
            assert not other.forget(kept.id, collection="notes")
            assert not other.forget(key="k", collection="notes")
        assert not ada.forget(kept.id, collection="tasks")
        assert not ada.forget(key="k", collection="notes", namespace="x")
        assert recall_contents(ada, "heron") == ["Heron"]
        assert ada.forget(kept.id, collection="notes")

    # forgetting

    @pytest.mark.parametrize("by", ["id", "key"])
    def test_what_is_forgotten_is_neither_recalled_nor_listed(self, memory: Memory, ada: ScopedMemory, by: str) -> None:
        gone = ada.remember("Heron by the weir", collection="notes", namespace="n", key="k")
        ada.remember("Heron by the bridge", collection="notes", namespace="n")
        assert len(recall_contents(ada, "heron")) == 2
        name: dict[str, Any] = {"id": gone.id} if by == "id" else {"key": "k", "namespace": "n"}
        assert ada.forget(collection="notes", **name)
        assert not ada.forget(collection="notes", **name)
        for mode in MODES:
            assert recall_contents(ada, "heron weir", mode=mode, limit=1) == ["Heron by the bridge"]
        assert (
            recall_contents(ada, "heron weir")
            == recall_contents(ada, "")
            == live_contents(ada)
            == ["Heron by the bridge"]
        )
        assert all(finding.ok for finding in memory.inspect())

    # listing

    def test_entries_are_listed_in_pages_in_the_order_they_came(self, ada: ScopedMemory) -> None:
        done = ada.remember_many([{"content": f"note {n}"} for n in range(7)], collection="notes", namespace="a")
        ada.remember("elsewhere", collection="notes", namespace="b")
        ada.forget(done[3].id, collection="notes")
        pages: list[list[str]] = []
        after = 0
        for _ in range(3):
            page = ada.entries(collection="notes", namespace="a", after=after, limit=4)
            pages.append([entry.content for entry in page])
            after = page[-1].sequence if page else after
        assert pages == [["note 0", "note 1", "note 2", "note 4"], ["note 5", "note 6"], []]
        assert live_contents(ada)[-1] == "elsewhere"
        assert live_contents(ada, limit=0) == live_contents(ada, collection="unknown") == []

    # bad input

    @pytest.mark.parametrize("content", [None, "", " \n\t", [], {}], ids=repr)
    def test_empty_content_is_refused(self, ada: ScopedMemory, store: Store, content: Any) -> None:
        with unchanged(store):
            assert_raises(InvalidValue, ada.remember, content, collection="notes")
            with pytest.raises(InvalidValue) as caught:
                ada.remember_many([{"content": "good"}, {"content": content}], collection="notes")
            assert (caught.value.item, bool(caught.value.hint)) == (1, True)
            if isinstance(content, str):
                assert_raises(InvalidValue, ada.remember_text, content, collection="notes")
        assert ada.remember("good", collection="notes").stored

    @pytest.mark.parametrize(
        "metadata",
        [
            {"d": b"bytes"},
            {"t": {1, 2}},
            {1: "x"},
            {"n": float("nan")},
            {"s": "\ud800"},
            {"$in": 1},
            [1],
            "text",
            {"$in": "x"},
            {"s": "a\0b"},
            {"a\0b": "x"},
            {"\ud800": "x"},
            {"n": 2**63},
            {"t": (1, 2)},
        ],
        ids=repr,
    )
    def test_metadata_that_are_not_a_json_object_are_refused(
        self, ada: ScopedMemory, store: Store, metadata: Any
    ) -> None:
        with unchanged(store):
            assert_raises(InvalidValue, ada.remember, "text", collection="notes", metadata=metadata)
            assert_raises(InvalidValue, ada.remember_text, "text", collection="notes", metadata=metadata)
            items = [{"content": "text"}, {"content": "text", "metadata": metadata}]
            assert_raises(InvalidValue, ada.remember_many, items, collection="notes")
        assert ada.remember("text", collection="notes", metadata={"in": 1}).stored
        assert ada.remember("text", collection="notes", metadata={"in": "$5", "a$b": 'a"$b'}).stored

    @pytest.mark.parametrize(
        "options",
        [{"collection": ""}, {"collection": "a..b"}, {"collection": 5},
         {"namespace": 5}, {"namespace": "\ud800"}, {"namespace": None}, {"key": ""}, {"key": 5}, {"source": ""}],
        ids=repr,
    )  # fmt: skip
    def test_names_that_cannot_be_used_are_refused(self, memory: Memory, store: Store, options: dict[str, Any]) -> None:
        ada = memory.scope(user="ada")
        with unchanged(store):
            given: dict[str, Any] = {"collection": "notes", **options}
            assert_raises(UsageError, ada.remember, "text", **given)
        assert ada.remember("text", collection="notes.of 2026", namespace="é / x", key="k%", source="mail").stored

    @pytest.mark.parametrize("ttl", [0, -1, "1x", "", 1.5, True], ids=repr)
    def test_a_ttl_that_is_not_a_duration_is_refused(self, memory: Memory, store: Store, ttl: Any) -> None:
        with unchanged(store):
            assert_raises(InvalidDuration, memory.scope(user="ada").remember, "text", collection="notes", ttl=ttl)
        assert memory.scope(user="ada").remember("text", collection="notes", ttl="2w").stored

    def test_what_is_too_large_is_refused_naming_the_limit_and_kept_in_parts(
        self, memory: Memory, ada: ScopedMemory, store: Store
    ) -> None:
        long = "A heron stands in the water. " * 40_000
        with unchanged(store):
            error = assert_raises(LimitExceeded, ada.remember, long, collection="notes")
            assert error.limit == memory.limits.content_bytes
            assert "chunk=True" in error.hint
            assert_raises(LimitExceeded, ada.remember, "short", collection="notes", metadata={"long": long})
            with pytest.raises(LimitExceeded):
                ada.remember_many([{"content": str(n)} for n in range(memory.limits.batch + 1)], collection="notes")
        assert all(one.duplicate or one.stored for one in ada.remember_text(long[:20_000], collection="notes"))
        assert recall_contents(ada, "heron")

    def test_limits_are_those_the_memory_was_opened_with(self, store: Store, clock: FakeClock) -> None:
        limits = Limits(content_bytes=12, metadata_bytes=12, batch=2, recall=3)
        with Memory(store, clock=clock, embedder=EMBEDDER, limits=limits) as memory:
            ada = memory.scope(user="ada")
            assert ada.remember("1234567890", collection="notes", metadata={"a": "1234"}).stored
            for content, metadata in (("12345678901", {}), ("1", {"a": "12345"})):
                assert_raises(LimitExceeded, ada.remember, content, collection="notes", metadata=metadata)
            assert_raises(LimitExceeded, ada.remember_many, [{"content": n} for n in "abc"], collection="notes")
            assert_raises(LimitExceeded, ada.recall, "1", collection="notes", limit=4)
            assert len(ada.remember_many([{"content": n} for n in "ab"], collection="notes")) == 2
            assert recall_contents(ada, "1234567890", limit=3)[0] == "1234567890"

    def test_an_entry_is_forgotten_by_one_name(self, ada: ScopedMemory) -> None:
        kept = ada.remember("text", collection="notes", key="k")
        wrong: list[dict[str, Any]] = [{}, {"id": kept.id, "key": "k"}, {"id": ""}, {"key": "\ud800"}]
        for names in wrong:
            assert_raises(UsageError, ada.forget, collection="notes", **names)
        assert ada.forget(collection="notes", key="k")

    # restarts and others

    def test_another_handle_sees_what_is_written_and_removed(self, memory: Memory, second: Memory) -> None:
        here, there = memory.scope(user="ada"), second.scope(user="ada")
        assert recall_contents(there, "heron") == []
        one = here.remember("Heron by the weir", collection="notes", key="k")
        assert recall_contents(there, "heron") == recall_contents(there, "heron", namespace="") == ["Heron by the weir"]
        there.remember("Heron by the bridge", collection="notes")
        assert sorted(recall_contents(here, "heron")) == ["Heron by the bridge", "Heron by the weir"]
        assert there.remember("Heron by the weir", collection="notes", key="k").duplicate
        there.remember("Heron by the mill", collection="notes", key="k")
        assert sorted(recall_contents(here, "heron")) == ["Heron by the bridge", "Heron by the mill"]
        assert recall_contents(here, "heron by the weir", limit=2) == recall_contents(there, "heron by the weir")
        assert not here.forget(one.id, collection="notes")
        assert here.forget(collection="notes", key="k")
        for place in (here, there):
            assert (
                recall_contents(place, "heron by the mill", limit=1)
                == recall_contents(place, "heron")
                == ["Heron by the bridge"]
            )
        memory.erase(user="ada")
        assert recall_contents(there, "heron") == recall_contents(there, "heron", namespace="") == []
        here.remember("Otter", collection="notes")
        assert recall_contents(there, "heron otter") == ["Otter"]

    @requires(Capability.RESTART)
    def test_entries_are_found_after_a_restart_as_before(self, ada: ScopedMemory, reopen: Callable[[], Memory]) -> None:
        for n, content in enumerate(CONTENTS):
            ada.remember(content, collection="notes", metadata={"n": n, "deep": [content]}, namespace=str(n % 2))
        ada.remember("Heron by the weir", collection="notes", key="k")
        ada.forget(ada.remember("Heron by the bridge", collection="notes").id, collection="notes")
        entries = ada.entries(collection="notes")
        found = [ada.recall(q, collection="notes", mode=m) for q in ("heron", "three") for m in ("hybrid", "semantic")]
        assert found[0].results[0].content == "Heron by the weir"
        again = reopen()
        ada = again.scope(user="ada")
        assert ada.entries(collection="notes") == entries
        assert [
            ada.recall(q, collection="notes", mode=m) for q in ("heron", "three") for m in ("hybrid", "semantic")
        ] == found
        assert ada.remember("Heron by the weir", collection="notes", key="k").duplicate
        assert all(finding.ok for finding in again.inspect())


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
        assert not ada.forget(done.id, collection="notes")
        assert not ada.forget(collection="notes", key="k")

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
        assert_raises(ScopeEnded, session.remember, "heron", collection="notes")
        assert_raises(ScopeEnded, session.forget, collection="notes", key="k")
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
        with unchanged(store):
            assert_raises(UsageError, memory.import_lines, [HEADER, GOOD, line], source="x")
        assert memory.import_lines([HEADER, GOOD], source="x").remembered == 1

    def test_an_import_into_a_collection_of_another_embedder_stores_nothing(
        self, memory: Memory, store: Store, open_beside: Callable[..., Memory]
    ) -> None:
        open_beside(embedder=WatchedEmbedder("elsewhere only")).scope(user="bob").remember("b", collection="notes")
        with unchanged(store):
            fact = b'{"fact":{"scope":"user:ada","key":"k","payload":1,"updated_at":"2026-01-01T00:00:00Z"}}'
            assert_raises(EmbedderMismatch, memory.import_lines, [HEADER, fact, GOOD], source="x")
        assert memory.import_lines([HEADER, fact, GOOD.replace(b"notes", b"tasks")], source="x").remembered == 1
