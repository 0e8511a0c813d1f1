"""Rejections: a value that was rejected does not come back, in whatever spelling and through whatever write."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.engine.learning import Learn, Stated
from memoranda.errors import ApprovalRequired, Denied, NotFound, Rejected, UsageError
from memoranda.model.policy import Policy
from memoranda.model.rejection import StoredRejection
from memoranda.store.base import Store
from memoranda.testing.conformance.base import (
    Capability,
    assert_raises,
    live_contents,
    present,
    recall_contents,
    requires,
    unchanged,
)
from memoranda.testing.fakes import FakeClock

V = "Lives in Porto"
W = "Lives in Faro"
NEIGHBOUR = "Plays the viola"
SPELLINGS = (
    V,
    "LIVES IN PORTO",
    "  lives   in\tPorto ",
    "- Lives in Porto",
    "* Lives in Porto.",
    "1. Lives in Porto",
    "“Lives in Porto!”",
    "`Lives in Porto`",
    "Lives-in-Porto",
    "Lives in Pórto",
    "Lives in Po\u0301rto",
    "".join(chr(ord(char) + 0xFEE0) if char != " " else "\u3000" for char in V),  # full width
    "\U0001d40bives in Porto",  # mathematical bold
    "Lives in P\u200borto",
    "Lives\u00ad in \ufeffPorto",
    "\u202eLives in Porto\u202c",
    "Lives in P\u043ert\u043e",
    "L\u0456ves in Porto",
    "Lives in \u03a1\u03bfrto",
    "Lives\nin Porto",
)
"""Ways of writing one text, by which a reader could not tell it from the first."""
PARAPHRASES = ("Her home is in Porto", "Lived in Porto", "Does not live in Porto", "Lives in Porto Alegre")
WRITER = Policy.of(allow=("memory",))


def _say(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _write_line(place: ScopedMemory, line: str) -> None:
    block = place.blocks.get("core")
    stamp = None if block is None else block.updated_at
    text = line if block is None else f"{block.content}\n{line}"
    place.blocks.update("core", text, expected_updated_at=stamp)


def _everything(place: ScopedMemory, query: str = "where does she live, Porto?") -> str:
    """Return all that a recall and a context show for a query."""
    found = [str(match.content) for match in place.recall(query, limit=50)]
    return "\n".join([*found, place.context(query).text])


class RejectionPromises:
    """Superseded is not rejected: what was superseded may come back, what was rejected may not."""

    @pytest.mark.parametrize("spelling", SPELLINGS)
    def test_g11_another_spelling_is_the_same_value(self, ada: ScopedMemory, spelling: str) -> None:
        ada.remember(NEIGHBOUR)
        rejection = ada.reject(V, reason="she moved")
        error = assert_raises(Rejected, ada.set, "city", spelling)
        assert (error.code, error.details["rejection"], error.details["actor"]) == ("rejected", rejection.id, "owner")
        assert error.details["reason"] == "she moved"
        assert V not in f"{error.message} {error.hint}"
        assert_raises(Rejected, ada.set, "profile", {"facts": [{"said": spelling}]})
        done = ada.remember(spelling)
        assert (done.stored, done.rejected) == (False, rejection.id)
        if "\n" not in spelling:
            assert_raises(Rejected, _write_line, ada, spelling)
        assert (ada.list(), live_contents(ada)) == ([], [NEIGHBOUR])
        assert recall_contents(ada, "which instrument, the viola?") == [NEIGHBOUR]

    @pytest.mark.parametrize("paraphrase", PARAPHRASES)
    def test_g11_other_words_are_another_value_and_are_recalled(self, ada: ScopedMemory, paraphrase: str) -> None:
        ada.reject(V)
        assert ada.remember(paraphrase).stored
        assert ada.set("home", paraphrase).version == 1
        _write_line(ada, paraphrase)
        assert paraphrase in recall_contents(ada, "Porto")
        assert ada.remember(V).rejected

    def test_g11_a_point_in_a_number_counts(self, ada: ScopedMemory) -> None:
        ada.reject("takes 15 mg")
        assert ada.remember("Takes 15 mg").rejected
        assert ada.remember("takes 1.5 mg").stored
        assert ada.set("change", "-15 mg").version == 1

    @pytest.mark.parametrize("by_ref", [True, False])
    def test_g9_restating_what_was_rejected_brings_nothing_back(self, ada: ScopedMemory, by_ref: bool) -> None:
        ada.remember(NEIGHBOUR)
        first = ada.remember(V)
        rejection = ada.reject(first.ref if by_ref else V)
        assert rejection.ended == (first.ref,)
        ada.remember(W)
        for number, text in enumerate(SPELLINGS * 2):
            assert ada.remember(text).rejected == rejection.id
            assert not ada.remember(text, collection="other", namespace="n", key=f"k{number}").stored
        assert live_contents(ada) == [NEIGHBOUR, W]
        assert live_contents(ada, collection="other") == []
        assert V not in _everything(ada)
        assert W in _everything(ada)
        assert [one.id for one in ada.rejections()] == [rejection.id]

    def test_g10_a_rejection_outlives_every_ttl_and_sweep(
        self, memory: Memory, ada: ScopedMemory, clock: FakeClock
    ) -> None:
        ada.remember(V, ttl="1h")
        ada.set("city", V, ttl="1h")
        ada.remember(NEIGHBOUR)
        ada.reject(V)
        clock.advance(timedelta(days=4_000).total_seconds())
        memory.sweep()
        assert ada.remember(V).rejected
        assert_raises(Rejected, ada.set, "city", V)
        assert recall_contents(ada, "viola") == [NEIGHBOUR]

    @requires(Capability.RESTART)
    def test_g10_a_rejection_outlives_a_restart(self, ada: ScopedMemory, reopen: Callable[[], Memory]) -> None:
        ada.reject(V)
        again = reopen().scope(user="ada")
        assert again.remember(V).rejected
        assert again.remember(W).stored

    def test_g12_g13_what_is_extracted_again_stays_rejected(self, memory: Memory, ada: ScopedMemory) -> None:
        talk = [_say("I live in Porto."), _say("My favourite colour is blue.")]
        learned = ada.learn(talk, conversation="c1")
        stated = next(lesson for lesson in learned.lessons if lesson.text == V)
        rejection = ada.reject(present(stated.ref))
        before = len(memory.scope(user="ada").entries(collection="statements"))
        again = ada.learn([_say("I live in Porto."), _say("I work at Acme.")], conversation="c2")
        verdicts = {lesson.text: lesson.verdict for lesson in again.lessons}
        assert verdicts.pop(V) == "rejected"
        assert set(verdicts.values()) == {"added"}
        assert [one.rejected for one in again.lessons if one.text == V] == [rejection.id]
        assert len(ada.entries(collection="statements")) == before + 1
        assert "Porto" not in _everything(ada)
        assert "Acme" in _everything(ada, "where does she work, at Acme?")
        # What was said stays as it was said, for those who ask for it.
        said = [match.content for match in ada.recall("Porto", kinds=["message"], limit=9)]
        assert said.count("I live in Porto.") == 2
        refused = [event for event in memory.ledger.events() if event.decision == "deny"]
        assert [event.detail["rejection"] for event in refused] == [rejection.id]
        assert ada.undo(again).rejected == ()

    def test_g16_a_retraction_without_a_replacement_lasts(self, memory: Memory, ada: ScopedMemory) -> None:
        talk = [_say("I live in Porto."), _say("I work at Acme.")]
        ada.learn(talk, conversation="c1")
        ada.reject(V)
        for conversation in ("c1", "c2"):
            ada.learn(talk, conversation=conversation)
        memory.settle()
        memory.sweep()
        assert "Porto" not in _everything(ada)
        assert "Acme" in _everything(ada, "where does she work, at Acme?")

    def test_g13_other_words_for_the_same_value_of_a_statement_are_no_second_one(
        self, memory: Memory, ada: ScopedMemory
    ) -> None:
        ada.learn([_say("I live in Porto.")])
        (statement,) = ada.entries(collection="statements")
        ada.reject(statement.ref)
        value = str(statement.metadata["value"])
        again = Stated(key=present(statement.key), text="Makes her home by the Douro", value=value)
        other = Stated(key=present(statement.key), text=W, value="Faro")
        for stated, verdict in ((again, "rejected"), (other, "added")):
            effect = Learn(scope=ada.scope, conversation="c3", statements=(stated,))
            assert [lesson.verdict for lesson in memory.perform(effect).lessons] == [verdict]
        assert [entry.content for entry in ada.entries(collection="statements")] == [W]

    def test_g30_what_was_superseded_may_come_back(self, ada: ScopedMemory) -> None:
        for city in ("Porto", "Faro", "Porto"):
            ada.set("city", city)
        assert (ada.value("city"), present(ada.get("city")).version) == ("Porto", 3)
        first = ada.remember(V)
        second = ada.supersede(first.ref, W)
        third = ada.supersede(second.ref, V)
        assert live_contents(ada) == [V]
        assert [entry.content for entry in ada.entry_history(third.ref)] == [V, W, V]
        for city in ("Porto", "Faro", "Porto"):
            ada.learn([_say(f"I moved to {city}.")], conversation=f"c{len(ada.entries(collection='conversations'))}")
        assert [entry.content for entry in ada.entries(collection="statements")] == ["Lives in Porto"]
        assert ada.rejections() == []
        # Only a rejection is final.
        ada.reject(V)
        assert_raises(Rejected, ada.supersede, ada.remember(W).ref, V)
        assert live_contents(ada) == [W]

    def test_it_ends_entries_facts_lines_and_parts_of_values_at_and_below_its_scope(
        self, memory: Memory, ada: ScopedMemory, bob: ScopedMemory
    ) -> None:
        agent = memory.scope(user="ada", agent="mail")
        for place in (ada, agent, bob):
            place.remember(V)
            place.remember(NEIGHBOUR)
            place.set("city", V.upper())
            place.set("profile", {"name": "Ada", "said": [V, NEIGHBOUR]})
            place.set("note", NEIGHBOUR)
            _write_line(place, f"- {V}")
            _write_line(place, f"- {NEIGHBOUR}")
        rejection = ada.reject(V)
        assert len(rejection.ended) == 8
        for place in (ada, agent):
            assert live_contents(place) == [NEIGHBOUR]
            assert (place.get("city"), place.value("note")) == (None, NEIGHBOUR)
            assert place.value("profile") == {"name": "Ada", "said": [NEIGHBOUR]}
            assert present(place.blocks.get("core")).content.split() == f"- {NEIGHBOUR}".split()
            assert_raises(Rejected, place.set, "city", V)
        assert live_contents(bob) == [V, NEIGHBOUR]
        assert bob.set("city", V).version == 2
        assert agent.rejections() == bob.rejections() == []
        assert all(finding.ok for finding in memory.inspect())

    def test_below_a_scope_it_does_not_bind_what_is_above(self, memory: Memory, ada: ScopedMemory) -> None:
        agent = memory.scope(user="ada", agent="mail")
        agent.reject(V)
        assert ada.remember(V).stored
        assert agent.remember(V).rejected
        assert [one.scope.path for one in ada.rejections()] == ["user:ada/agent:mail"]
        memory.scope().reject(W)
        assert memory.scope().remember(W).rejected
        assert ada.remember(W).stored

    @pytest.mark.parametrize("value", ["Porto", 6, True, None, {"city": "Porto", "n": [1]}, ["Porto"]])
    def test_a_value_is_rejected_under_one_key(self, ada: ScopedMemory, value: Any) -> None:
        ada.set("place", value)
        rejection = ada.reject(value, key="place")
        assert (rejection.key, rejection.ended, ada.get("place")) == ("place", ("fact:user:ada#place",), None)
        assert_raises(Rejected, ada.set, "place", value)
        assert ada.set("other", value).value == value
        assert ada.remember("Porto").stored
        assert ada.set("place", "Faro").value == "Faro"
        spelled = json.loads(json.dumps(value).replace("Porto", "PORTO "))
        if spelled != value:
            assert_raises(Rejected, ada.set, "place", spelled)

    def test_the_fact_of_a_ref_is_rejected_under_its_key_and_its_text_everywhere(self, ada: ScopedMemory) -> None:
        ada.set("city", "Porto")
        ada.set("cone", 12)
        for key in ("city", "cone"):
            ada.reject(f"fact:user:ada#{key}")
        assert_raises(Rejected, ada.set, "city", "porto")
        assert_raises(Rejected, ada.set, "cone", 12)
        assert ada.remember("Porto").rejected
        assert ada.set("kiln.cone", 12).value == 12
        assert ada.set("cone", 11).value == 11

    def test_records_and_lines_are_rejected_by_their_refs(self, memory: Memory, ada: ScopedMemory) -> None:
        memory.definitions.create(name="Trip", slug="trip", schema={"type": "object", "required": ["to"]})
        place = memory.scope(user="ada")
        place.set("trip", {"to": "Porto", "days": 3})
        place.reject("fact:user:ada#trip")
        assert_raises(Rejected, place.set, "trip", {"days": 3, "to": "PORTO"})
        assert place.set("trip", {"to": "Porto", "days": 4}).version == 3
        place.reject("Porto")  # the definition requires the field: the record goes as a whole
        assert place.get("trip") is None
        _write_line(ada, f"- {V}")
        _write_line(ada, f"- {W}")
        (line,) = [match.ref for match in ada.recall(V, kinds=["line"], limit=9) if match.content == f"- {V}"]
        assert ada.reject(line).ended == (line,)
        assert present(ada.blocks.get("core")).content.strip() == f"- {W}"
        assert ada.remember(V).rejected
        assert ada.remember(W).stored

    def test_one_rejected_item_does_not_hold_up_the_others(self, memory: Memory, ada: ScopedMemory) -> None:
        ada.remember("Rent is 900", key="rent")
        rejection = ada.reject("Rent is 1")
        done = ada.remember_many(
            [{"content": NEIGHBOUR}, {"content": "rent is 1", "key": "rent"}, {"content": W}], collection="notes"
        )
        assert [(one.stored, one.rejected) for one in done] == [(True, None), (False, rejection.id), (True, None)]
        assert sorted(live_contents(ada)) == sorted(["Rent is 900", NEIGHBOUR, W])
        refused = [event for event in memory.ledger.events() if event.decision == "deny"]
        assert [(event.effect, event.detail["rejection"]) for event in refused] == [("remember", rejection.id)]

    def test_a_text_in_parts_is_stored_whole_or_not_at_all(self, ada: ScopedMemory) -> None:
        ada.reject("Lives in Porto and nowhere else.")
        long = "Plays the viola in an orchestra.\n\nLives in Porto and nowhere else.\n\nGrows tomatoes on the balcony."
        assert ada.remember(long, chunk=40, key="about").rejected
        assert live_contents(ada) == []
        assert ada.remember(long.replace("Porto", "Faro"), chunk=40, key="about").stored
        assert len(live_contents(ada)) == 3

    def test_a_batch_with_a_rejected_value_writes_nothing(self, memory: Memory, ada: ScopedMemory) -> None:
        rejection = ada.reject(V)

        def write() -> None:
            with ada.batch() as batch:
                batch.set("weather", "rain")
                batch.set("city", V)

        assert_raises(Rejected, write)
        assert ada.list() == []
        refused = memory.ledger.events()[-1]
        assert (refused.effect, refused.decision) == ("write_facts", "deny")
        for _ in range(2):  # the second time by its idempotency key
            with ada.batch(idempotency_key="b1") as batch:
                batch.set("weather", "rain")
                batch.remember(V, collection="notes")
            assert [getattr(one, "rejected", None) for one in batch.results] == [None, rejection.id]
        assert (ada.value("weather"), live_contents(ada)) == ("rain", [])

    def test_a_refusal_is_in_the_ledger_and_the_value_is_nowhere(
        self, memory: Memory, ada: ScopedMemory, store: Store
    ) -> None:
        rejection = ada.reject("xyzzy-4711")
        assert_raises(Rejected, ada.set, "code", "XYZZY-4711")
        assert ada.get("code") is None
        made, refused = memory.ledger.events()[-2:]
        assert (made.effect, made.resource, made.decision) == ("reject", rejection.id, "allow")
        assert (refused.effect, refused.key, refused.decision) == ("set_fact", "code", "deny")
        stored = store.read(lambda rows: repr([*rows.events("default"), rows.scan(StoredRejection, "default")]))
        assert rejection.id in stored
        assert "4711" not in stored
        assert "xyzzy" not in stored.lower()

    def test_withdrawing_lets_it_be_written_and_what_it_ended_be_undone(
        self, memory: Memory, ada: ScopedMemory, bob: ScopedMemory
    ) -> None:
        ada.remember(V)
        ada.set("city", V)
        rejection = ada.reject(V)
        kept_away = ada.undo(rejection)
        assert (kept_away.count, len(kept_away.rejected)) == (0, 2)
        assert_raises(NotFound, bob.withdraw, rejection)
        assert ada.withdraw(rejection).id == rejection.id
        assert_raises(NotFound, ada.withdraw, rejection)
        assert ada.rejections() == []
        back = ada.undo(rejection)
        assert (back.count, back.rejected) == (2, ())
        assert (ada.value("city"), live_contents(ada)) == (V, [V])
        assert [event.effect for event in memory.ledger.events() if event.resource == rejection.id] == [
            "reject",
            "withdraw",
        ]

    def test_undo_leaves_out_what_was_rejected_since(self, ada: ScopedMemory) -> None:
        ada.remember(V)
        ada.remember(f"{NEIGHBOUR} in Porto")
        _write_line(ada, f"- {V}")
        _write_line(ada, f"- {NEIGHBOUR} in Porto")
        gone = ada.forget(identifier="Porto")
        assert gone.count == 4
        ada.reject(V)
        back = ada.undo(gone)
        assert len(back.rejected) == 2
        assert live_contents(ada) == [f"{NEIGHBOUR} in Porto"]
        assert present(ada.blocks.get("core")).content.strip() == f"- {NEIGHBOUR} in Porto"

    def test_an_approved_write_is_refused_if_its_value_was_rejected_meanwhile(
        self, memory: Memory, ada: ScopedMemory
    ) -> None:
        careful = memory.acting_as("agent:careful", policy=Policy.of(allow=("memory.read",), approve=("memory.write",)))
        for key, value in (("city", "Porto"), ("town", "Faro")):
            assert_raises(ApprovalRequired, careful.scope(user="ada").set, key, value)
        ada.reject("porto")
        first, second = memory.approvals.list()
        assert_raises(Rejected, memory.approvals.approve, first.id)
        memory.approvals.approve(second.id)
        assert (ada.value("city"), ada.value("town")) == (None, "Faro")
        assert [one.id for one in memory.approvals.list()] == [first.id]

    def test_g17_an_older_export_does_not_bring_it_back(
        self, memory: Memory, elsewhere: Memory, ada: ScopedMemory, tmp_path: Path, clock: FakeClock
    ) -> None:
        ada.remember(V)
        ada.remember(NEIGHBOUR)
        ada.set("city", V)
        ada.set("profile", {"said": V})
        _write_line(ada, f"- {V}")
        _write_line(ada, f"- {W}")
        memory.export(tmp_path / "before.jsonl")
        clock.advance(60)
        ada.reject(V)
        memory.import_file(tmp_path / "before.jsonl")
        assert (live_contents(ada), ada.get("city"), ada.value("profile")) == ([NEIGHBOUR], None, None)
        # In another database nothing says that anything was changed since, except the rejection.
        place = elsewhere.scope(user="ada")
        place.reject(V)
        imported = elsewhere.import_file(tmp_path / "before.jsonl")
        assert (imported.refused, len(imported.refusals)) == (4, 4)
        assert (live_contents(place), place.list()) == ([NEIGHBOUR], [])
        assert present(place.blocks.get("core")).content.strip() == f"- {W}"

    def test_g17_an_export_has_rejections_and_an_import_keeps_them(
        self, memory: Memory, elsewhere: Memory, ada: ScopedMemory, tmp_path: Path
    ) -> None:
        ada.remember(NEIGHBOUR)
        rejection = ada.reject("xyzzy-4711", reason="a slip")
        memory.export(tmp_path / "x.jsonl")
        text = (tmp_path / "x.jsonl").read_text()
        assert rejection.id in text
        assert "xyzzy" not in text
        place = elsewhere.scope(user="ada")
        place.set("code", "XYZZY-4711")
        place.reject(W)
        imported = elsewhere.import_file(tmp_path / "x.jsonl")
        assert (imported.rejections, imported.remembered, place.get("code")) == (1, 1, None)
        assert_raises(Rejected, place.set, "code", "xyzzy-4711")
        assert place.remember(W).rejected
        assert (rejection.id, "a slip") in [(one.id, one.reason) for one in place.rejections()]
        assert elsewhere.import_file(tmp_path / "x.jsonl").rejections == 0
        assert place.withdraw(rejection.id).id == rejection.id
        assert place.set("code", "xyzzy-4711").version > 1

    def test_an_import_of_little_trust_rejects_nothing(
        self, memory: Memory, elsewhere: Memory, ada: ScopedMemory, tmp_path: Path
    ) -> None:
        ada.reject(V)
        memory.export(tmp_path / "x.jsonl")
        tool = elsewhere.acting_as("tool:web", policy=WRITER)
        assert tool.import_file(tmp_path / "x.jsonl").refused == 1
        assert elsewhere.scope(user="ada").remember(V).stored
        assert elsewhere.import_file(tmp_path / "x.jsonl").rejections == 1

    def test_g32_an_erasure_takes_the_rejections_of_its_subject_along(
        self, memory: Memory, ada: ScopedMemory, bob: ScopedMemory
    ) -> None:
        for place in (ada, bob):
            place.reject(V)
        assert ada.remember(V).rejected
        assert memory.erase(user="ada").removed["rejections"] == 1
        assert ada.rejections() == []
        assert ada.remember(V).stored
        assert bob.remember(V).rejected

    def test_what_is_not_trusted_rejects_nothing(self, memory: Memory, ada: ScopedMemory) -> None:
        tool = memory.acting_as("tool:web", policy=WRITER).scope(user="ada")
        ada.remember(V)
        assert_raises(Denied, tool.reject, V)
        assert live_contents(ada) == [V]
        rejection = ada.reject(V)
        assert_raises(Denied, tool.withdraw, rejection)
        assert tool.remember(V).rejected
        assert tool.rejections() == ada.rejections()

    def test_rejecting_needs_the_right_to_write_what_it_ends(self, memory: Memory, ada: ScopedMemory) -> None:
        memory.permissions.grant("user:bo", "memory.write", scope=ada.scope, path="city")
        limited = memory.acting_as("user:bo").scope(user="ada")
        ada.set("city", "Porto")
        ada.remember("Porto")
        assert_raises(Denied, limited.reject, "Porto")
        assert (ada.value("city"), live_contents(ada)) == ("Porto", ["Porto"])
        assert limited.reject("Porto", key="city").ended == ("fact:user:ada#city",)

    def test_the_same_rejection_twice_is_one(self, ada: ScopedMemory, store: Store) -> None:
        first = ada.reject(V)
        with unchanged(store):
            assert ada.reject("LIVES IN PORTO").id == first.id
        ada.reject(W)
        salts = store.read(lambda rows: {one.salt for one in rows.scan(StoredRejection, "default")})
        assert len(salts) == 1

    @pytest.mark.parametrize("value", ["", "  ", "!?", 5, None, {"a": 1}])
    def test_what_cannot_be_compared_is_not_rejected(self, ada: ScopedMemory, store: Store, value: Any) -> None:
        with unchanged(store):
            assert_raises(UsageError, ada.reject, value)
            assert_raises(NotFound, ada.reject, "entry:entry_unknown")
        assert ada.reject(value, key="k").key == "k"

    def test_g7_what_a_program_writes_is_refused_too(self, memory: Memory, ada: ScopedMemory) -> None:
        """Other doors perform the same effects: a record, an update and a session of a user are no way around."""
        memory.definitions.create(name="Home", slug="home", schema={"type": "object"})
        ada.set("home", {"city": "Faro"})
        ada.reject("Porto")
        assert_raises(Rejected, lambda: ada.update("home", lambda value: {**value, "city": "PORTO"}))
        assert_raises(Rejected, lambda: ada.blocks.update("archival", "Faro\nPorto", expected_updated_at=None))
        assert ada.value("home") == {"city": "Faro"}
        assert ada.update("home", lambda value: {**value, "city": "Braga"}).version == 2
