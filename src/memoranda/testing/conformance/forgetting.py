"""Forgetting that is exact and complete: by identifier, by description, half a sentence, and for good."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import Denied, UsageError
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
