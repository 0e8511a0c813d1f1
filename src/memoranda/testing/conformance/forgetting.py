"""Forgetting that is exact and complete: by identifier, by description, half a sentence, and permanently."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import ApprovalRequired, Denied, NotFound, UsageError
from memoranda.model.policy import Policy, Rule
from memoranda.testing.conformance.base import assert_raises, present


def _contents(place: ScopedMemory) -> list[Any]:
    return sorted(str(entry.content) for entry in place.entries())


def _remember(place: ScopedMemory, *texts: str) -> None:
    for text in texts:
        place.remember(text, collection="notes")


class DescriptionPromises:
    """What a description in words takes, and what it leaves."""

    @pytest.mark.parametrize(
        ("identifier", "neighbour"),
        [
            ("ott@lumen.dev", "ott.brandt@lumen.dev"),
            ("ott@lumen.dev", "ott@lumen.dev.uk"),
            ("INV-7781", "INV-77810"),
            ("ledger_2025", "ledger_2025_v2"),
            ("/srv/kiln/conf", "/srv/kiln/conf.bak"),
            ("Jo Stone", "Jo Stonehouse"),
            ("55120", "551200"),
        ],
    )
    def test_g26_an_identifier_takes_nothing_that_begins_or_ends_like_it(
        self, ada: ScopedMemory, identifier: str, neighbour: str
    ) -> None:
        _remember(ada, f"Seen: {identifier} in May", f"Seen: {neighbour} in June")
        assert ada.forget(identifier=identifier).count == 1
        assert _contents(ada) == [f"Seen: {neighbour} in June"]
        ada.undo(ada.forget(about=f"everything about {identifier}"))  # there is nothing left to take
        assert _contents(ada) == [f"Seen: {neighbour} in June"]

    @pytest.mark.parametrize(
        ("identifier", "spelling"),
        [
            ("ines@river.pt", "INES [at] river [dot] pt"),
            ("ines@river.pt", "mailto:Ines+news@river.pt"),
            ("@kiln_keeper", "kiln_keeper"),
            ("4929 1234 5678 9012", "4929123456789012"),
            ("river.pt/boats", "https://www.river.pt/boats/"),
            ("10.0.3.7", "010.000.003.007"),
            ("Дмитрий Орлов", "Dmitrii Orlov"),
            ("Zoë Müller", "ZOE MULLER"),
        ],
    )
    def test_g27_an_identifier_is_found_however_it_is_written(
        self, ada: ScopedMemory, identifier: str, spelling: str
    ) -> None:
        _remember(ada, f"Ask {spelling} first", "Ask Bo first")
        assert ada.forget(identifier=identifier).count == 1
        assert _contents(ada) == ["Ask Bo first"]

    def test_an_identifier_is_found_inside_a_longer_one_when_that_is_asked_for(self, ada: ScopedMemory) -> None:
        _remember(ada, "Pump kappa7-north is loud", "Pump lambda2 is not")
        assert not ada.forget(identifier="kappa7")
        assert ada.forget(identifier="kappa7", inside=True).count == 1
        assert _contents(ada) == ["Pump lambda2 is not"]
        assert_raises(UsageError, ada.forget, "entry:x", inside=True)

    def test_g31_a_person_goes_and_who_shares_something_with_them_stays(self, ada: ScopedMemory) -> None:
        _remember(
            ada,
            "Mark teaches pottery in Ghent",
            "Mark's sister is a vet",
            "The exam mark was poor",
            "Lena teaches pottery",
        )
        ada.set("contacts.mark", {"name": "Mark", "phone": "0900"})
        ada.blocks.update("core", "- Mark is coming on Sunday\n- Likes tea", expected_updated_at=None)
        tried = ada.forget(about="everything about Mark the potter", dry_run=True)
        gone = ada.forget(about="everything about Mark the potter")
        assert (gone.entries, gone.facts, gone.lines) == (2, 1, 1) and gone.refs == tried.refs
        assert _contents(ada) == ["Lena teaches pottery", "The exam mark was poor"]
        assert present(ada.blocks.get("core")).content == "- Likes tea"
        assert ada.undo(gone).count == 4
        assert len(ada.entries()) == 4 and ada.get("contacts.mark") is not None

    def test_what_is_not_clear_is_not_forgotten(self, ada: ScopedMemory) -> None:
        _remember(ada, "The blue bicycle needs a chain", "The red bicycle needs a saddle")
        unclear = ada.forget(about="bicycle")
        assert not unclear and unclear.undo is None
        assert set(unclear.candidates) == {entry.ref for entry in ada.entries()}
        assert ada.forget(about="the red bicycle").count == 1
        assert _contents(ada) == ["The blue bicycle needs a chain"]
        assert not ada.forget(about="order 551")
        assert not ada.forget(about="everything about Gustav")
        wrong: list[Any] = ["", " ?", 5]
        for about in wrong:
            assert_raises(UsageError, ada.forget, about=about)
        assert_raises(UsageError, ada.forget, about="bicycle", identifier="bicycle")

    def test_g31_the_negative_goes_and_the_positive_stays(self, ada: ScopedMemory) -> None:
        _remember(ada, "User does not eat pork.", "User eats chicken on Sundays.")
        assert ada.forget(about="user does not eat pork").count == 1
        assert _contents(ada) == ["User eats chicken on Sundays."]

    def test_g29_half_a_sentence_goes_and_the_other_half_stays(self, memory: Memory, ada: ScopedMemory) -> None:
        whole = ada.remember(
            "User lives in Turku and works at Kiln as a glazier.", collection="notes", metadata={"year": 2025}
        )
        ada.blocks.update("core", "- Lives in Turku and works at Kiln", expected_updated_at=None)
        gone = ada.forget(about="user employer")
        assert set(gone.kept) == {"User lives in Turku.", "- Lives in Turku"}
        (left,) = ada.entries()
        assert (left.content, left.metadata["year"]) == ("User lives in Turku.", 2025)
        assert present(ada.blocks.get("core")).content == "- Lives in Turku"
        assert not ada.recall("Kiln glazier", mode="keyword").results
        assert ada.undo(gone)
        assert [(entry.content, entry.id) for entry in ada.entries()] == [
            ("User lives in Turku and works at Kiln as a glazier.", whole.id)
        ]
        assert present(ada.blocks.get("core")).content == "- Lives in Turku and works at Kiln"
        assert all(finding.ok for finding in memory.inspect())

    def test_what_stays_of_a_sentence_is_as_trusted_as_the_whole(self, memory: Memory, ada: ScopedMemory) -> None:
        page = memory.from_origin("tool_external").scope(user="ada")
        page.remember("User lives in Turku and works at Kiln.", collection="notes")
        before = ada.entries()[0].origin
        ada.forget(about="user employer")
        (left,) = ada.entries()
        assert left.content == "User lives in Turku."
        assert (left.origin.kind, left.origin.trust) == (before.kind, before.trust) and before.trust != "high"

    @pytest.mark.parametrize(
        "text",
        ["User plays squash and tennis on Fridays.", "Hannah and Ivan share an office at Kiln.", "User works at Kiln."],
    )
    def test_what_cannot_be_split_goes_whole(self, ada: ScopedMemory, text: str) -> None:
        _remember(ada, text, "The kettle is broken.")
        gone = ada.forget(about=text.rstrip("."))
        assert gone.count == 1 and gone.kept == ()
        assert _contents(ada) == ["The kettle is broken."]

    def test_g29_what_is_described_is_superseded_and_the_rest_stays(self, ada: ScopedMemory) -> None:
        _remember(ada, "User lives in Turku and works at Kiln.", "User's balcony faces the harbour.")
        done = ada.supersede(about="user city of residence", content="User moved to Bergen in spring.")
        assert done.kept == ("User works at Kiln.",) and done.replaced is not None
        assert _contents(ada) == [
            "User moved to Bergen in spring.", "User works at Kiln.", "User's balcony faces the harbour."
        ]  # fmt: skip
        assert ada.undo(done)
        assert _contents(ada) == ["User lives in Turku and works at Kiln.", "User's balcony faces the harbour."]

    def test_g30_the_last_state_counts_though_it_is_an_earlier_one(self, ada: ScopedMemory) -> None:
        _remember(ada, "User is engaged to Mirela.")
        ada.supersede(about="relationship status", content="User broke up with Mirela in 2023.")
        last = ada.supersede(about="relationship status", content="User is engaged to Mirela.")
        assert _contents(ada) == ["User is engaged to Mirela."]
        assert len(ada.entry_history(last.ref)) == 3

    def test_g30_what_says_the_new_state_already_is_not_what_ends(self, ada: ScopedMemory) -> None:
        _remember(ada, "Eve sat in building A in 2024.", "Eve's office is in building F.")
        done = ada.supersede(about="Eve's building", content="Eve's office is in building F.")
        assert done.replaced is not None
        assert set(_contents(ada)) == {"Eve's office is in building F."}
        ada.undo(done)
        assert _contents(ada) == ["Eve sat in building A in 2024.", "Eve's office is in building F."]

    @pytest.mark.parametrize("words", ["everything about Rosa", "rosa@kiln.example", "Rosa's address"])
    def test_words_in_place_of_a_ref_are_a_description(self, ada: ScopedMemory, words: str) -> None:
        _remember(ada, "Rosa's address is rosa@kiln.example.", "The kettle is broken.")
        gone = ada.forget(words)
        assert gone.count == 1 and _contents(ada) == ["The kettle is broken."]
        ada.undo(gone)
        done = ada.supersede(words, "Rosa moved away.")
        assert done.replaced == gone.refs[0] and _contents(ada) == ["Rosa moved away.", "The kettle is broken."]

    @pytest.mark.parametrize("named", ["entry:unknown", "entry_019a8c3f", "fact:user:ada#rosa"])
    def test_a_ref_that_names_nothing_is_no_description(self, ada: ScopedMemory, named: str) -> None:
        _remember(ada, f"Rosa wrote {named} on the wall.")
        assert not ada.forget(named)
        assert_raises(NotFound, ada.supersede, named, "Rosa moved away.")
        assert len(ada.forget(about=f"everything about {named}").refs) + len(ada.forget("Rosa").refs) == 1

    def test_what_replaces_nothing_is_only_stored(self, ada: ScopedMemory) -> None:
        _remember(ada, "User's landlord is called Henrik.")
        done = ada.supersede(about="user favourite colour", content="User likes ochre best.")
        assert done.replaced is None and done.collection == "notes"
        assert _contents(ada) == ["User likes ochre best.", "User's landlord is called Henrik."]
        ada.undo(done)
        assert _contents(ada) == ["User's landlord is called Henrik."]
        assert_raises(UsageError, ada.supersede, "entry:x", "y", about="z")
        assert_raises(UsageError, ada.supersede, None, "y")

    def test_a_description_reaches_only_what_its_caller_may_write(self, memory: Memory, ada: ScopedMemory) -> None:
        _remember(ada, "Mark teaches pottery")
        ada.remember("Mark is ill", collection="health")
        rules = (Rule("allow", "memory", ada.scope), Rule("deny", "memory.write", ada.scope, "collections.health"))
        clerk = memory.acting_as("agent:clerk", policy=Policy(rules=rules)).scope(user="ada")
        assert_raises(Denied, clerk.forget, about="everything about Mark")
        assert len(ada.entries()) == 2
        assert clerk.forget(about="everything about Mark", collection="notes").count == 1

    def test_g14_what_was_learned_goes_with_the_words_that_said_it_and_stays_away(self, ada: ScopedMemory) -> None:
        said = [{"role": "user", "content": "I live in Turku. I am vegan."}]
        ada.learn(said, conversation="c1")
        gone = ada.forget(about="my home city")
        assert gone.entries == 2 and gone.kept == ("I am vegan.",)
        assert "Turku" not in str(ada.recall("Turku").results)
        assert ada.learn(said, conversation="c1").messages == ()
        assert _contents(ada) == ["I am vegan.", "Is vegan"]
        assert ada.undo(gone).count == 2
        assert "Lives in Turku" in _contents(ada)

    def test_g14_a_forgotten_message_does_not_come_back_with_its_conversation(self, ada: ScopedMemory) -> None:
        said = [{"role": "user", "content": "I live in Turku."}, {"role": "user", "content": "I am vegan."}]
        ada.learn(said, conversation="c1")
        gone = ada.forget(identifier="Turku")
        again = ada.learn([*said, {"role": "user", "content": "I work at Kiln."}], conversation="c1")
        assert len(again.messages) == 1
        assert "Turku" not in str(_contents(ada)) and "Is vegan" in _contents(ada)
        assert ada.undo(gone)
        assert "I live in Turku." in _contents(ada)
        assert ada.list("learn") == []


SECRET = "4711-KILN"


class LeakProbePromises:
    """What is left of a text, place by place."""

    def test_g23_each_place_has_a_name_and_is_tested_or_says_that_it_is_not(
        self, memory: Memory, ada: ScopedMemory, bob: ScopedMemory
    ) -> None:
        for place in (ada, bob):
            place.remember(f"The vault opens with {SECRET}.", collection="notes")
            place.remember(f"The vault does not open with {SECRET}9.", collection="notes")
            place.set("vault.code", SECRET.lower())
            place.blocks.update("core", f"- The vault: {SECRET}\n- Likes tea", expected_updated_at=None)
            place.learn([{"role": "user", "content": f"My vault code is {SECRET}."}], conversation="c1")
        places = ada.leak_probes(SECRET)
        assert set(places.found) - {"database_bytes"} == {
            *("facts", "blocks", "entries", "messages", "words", "vectors", "prompts"),
        }
        assert set(places.untested) - {"database_bytes"} == {"idempotency_keys", "caches", "exports", "backups"}
        assert ada.leak_probes("8822-KILN").found == ()

        gone = ada.forget(identifier=SECRET)
        assert (gone.entries, gone.facts, gone.lines) == (2, 1, 1)
        left = ada.leak_probes(SECRET)
        assert set(left.found) - {"database_bytes"} == {"history"} and left.untested == places.untested
        assert "entries" in ada.leak_probes(f"{SECRET}9").found

        memory.erase(user="bob")
        memory.erase(user="ada")
        assert ada.leak_probes(SECRET).found == () and ada.leak_probes(SECRET).untested == places.untested

    def test_g23_what_a_ref_names_is_looked_for_also_when_it_has_ended(self, ada: ScopedMemory) -> None:
        done = ada.remember("The vault opens at noon", collection="notes")
        assert "entries" in ada.leak_probes(done.ref).found
        ada.forget(done.ref)
        places = ada.leak_probes(done.ref)
        assert places.entries is False and places.history is True
        assert_raises(NotFound, ada.leak_probes, "entry:entry_unknown")
        wrong: list[Any] = ["", " ?", None]
        for content in wrong:
            assert_raises(UsageError, ada.leak_probes, content)

    def test_g23_what_waits_for_approval_is_a_place(self, memory: Memory, ada: ScopedMemory) -> None:
        policy = Policy.of(allow=("memory.read",), approve=("memory.write",))
        clerk = memory.acting_as("agent:clerk", policy=policy).scope(user="ada")
        waits = assert_raises(ApprovalRequired, clerk.set, "vault", SECRET)
        assert [name for name in ada.leak_probes(SECRET).found if name != "database_bytes"] == ["approvals"]
        memory.approvals.refuse(waits.approval)
        assert not ada.leak_probes(SECRET).approvals

    def test_a_probe_leaves_nothing_behind_and_takes_its_rights(self, memory: Memory, ada: ScopedMemory) -> None:
        before = memory.ledger.anchor()
        ada.leak_probes(SECRET)
        memory.settle()
        assert memory.ledger.anchor() == before
        reader = memory.acting_as("agent:reader", policy=Policy.of(allow=("memory.read",))).scope(user="ada")
        assert_raises(Denied, reader.leak_probes, SECRET)

    def test_g16_the_messages_behind_a_forgotten_statement_no_longer_count(self, ada: ScopedMemory) -> None:
        said = [{"role": "user", "content": "I live in Turku."}, {"role": "user", "content": "My dog is called Rex."}]
        lesson = next(one for one in ada.learn(said, conversation="c1").lessons if "Turku" in one.text)
        gone = ada.forget(lesson.ref)
        for _ in range(2):
            found = {match.content: match.valid_to for match in ada.recall("Turku, Rex the dog", kinds=["message"])}
            assert found["I live in Turku."] is not None and found["My dog is called Rex."] is None
            ada.learn(said, conversation="c1")
        assert [one.content for one in ada.entries(collection="statements")] == ["Their dog is called Rex"]
        ada.undo(gone)
        found = {match.content: match.valid_to for match in ada.recall("Turku", kinds=["message"])}
        assert found["I live in Turku."] is None and present(ada.entry(lesson.ref)).content == lesson.text

    @pytest.mark.parametrize("collection", ["conversations", "statements"])
    def test_metadata_that_look_like_ours_break_no_recall(self, ada: ScopedMemory, collection: str) -> None:
        ours: dict[str, Any] = {"retracted_at": "soon", "outdates": "everything", "time": 5, "valid_from": {}}
        ada.remember("The kiln is red", collection=collection, metadata=ours)
        ada.remember("The wheel is green", collection=collection, metadata={**ours, "outdates": [1, None, "x"]})
        assert {match.content for match in ada.recall("kiln wheel")} == {"The kiln is red", "The wheel is green"}

    def test_g21_the_deletion_sequence(self, memory: Memory, ada: ScopedMemory, bob: ScopedMemory) -> None:
        said = [{"role": "user", "content": f"My vault code is {SECRET}. I live in Turku."}]

        def everywhere(place: ScopedMemory) -> str:
            memory.settle()
            return place.context("vault code").text + str(place.recall("vault code", limit=50).results)

        # Written, and seen.
        ada.learn(said, conversation="c1")
        note = ada.remember(f"The vault opens with {SECRET}", collection="notes")
        ada.copy(note.ref, to=bob)
        bob.remember("Ada's vault is green", collection="notes")
        assert SECRET in everywhere(ada) and SECRET in everywhere(bob)
        # Deleted, and gone, with the copy that was shared before.
        gone = ada.forget(identifier=SECRET)
        assert gone.count == 3 and SECRET not in everywhere(ada)
        assert SECRET not in everywhere(bob) and "green" in everywhere(bob)
        # The source is fed again: it does not come back.
        ada.learn(said, conversation="c1")
        assert SECRET not in everywhere(ada)
        # All jobs run: it does not come back.
        memory.sweep()
        memory.scrub()
        assert SECRET not in everywhere(ada)
        # Every derived place is empty, by name.
        places = ada.leak_probes(SECRET)
        derived = (places.facts, places.blocks, places.entries, places.statements, places.messages, places.prompts)
        assert derived == (False,) * 6 and (places.words, places.vectors) == (False, False)
        # The deletion is in the ledger.
        ended = [event for event in memory.ledger.events() if event.effect == "forget"]
        assert {f"entry:{event.resource}" for event in ended} >= set(gone.refs) and memory.ledger.verify().ok
        # What else was said is still known.
        assert "Turku" in everywhere(ada)
