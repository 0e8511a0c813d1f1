"""A description means what it names, and nothing that is only like it."""

from __future__ import annotations

import time

import pytest

from memoranda.retrieval.clauses import clauses_of
from memoranda.retrieval.description import Description, Memory


def to_forget(about: str, *texts: str, ranking: dict[str, float] | None = None) -> list[str]:
    """Return the texts that a description takes."""
    memories = [Memory(text, text) for text in texts]
    return list(Description(about).to_forget(memories, ranking or {}).kept)


def to_supersede(about: str, *texts: str) -> list[str]:
    """Return the text that a description means."""
    return list(Description(about).to_supersede([Memory(text, text) for text in texts], {}).kept)


@pytest.mark.parametrize(
    ("about", "goes", "stays"),
    [
        ("ott@lumen.dev", "Tenant OTT@lumen.dev owes rent", "Tenant ott.b@lumen.dev owes rent"),
        ("please delete everything about ott@lumen.dev", "ott [at] lumen.dev called", "ott@lumen.dev.uk called"),
        ("invoice INV-7781 from May", "Invoice INV-7781 is unpaid", "Invoice INV-77810 is from May"),
        ("order 8841 / 8841-EU record", "Order 8841-EU left", "Order 88410 left"),
        ("Rosa Lind prescription", "Rosa Lind takes pills", "Rosa Lindqvist has a prescription"),
        ("everything about Rose on the team", "Rose leads the team", "The team planted a rose"),
        ("everything about Rose", "rose's shift ends at six", "it smelled of a rose"),
        ("Rosa's allergies", "Rosa is allergic to nuts", "Rosa is 40 years old"),
        ("customer Li Na aka 李娜", "Customer 李娜 ordered", "Customer 王芳 ordered"),
        ("Zoe Muller / Zoë Müller client", "Client Zoë Müller paid", "Client Zoe Mullen paid"),
        ("session token omega3", "Session token: omega3-2026-02", "Session omega is over"),
        ("user token 0c2f7a10", "Token 0c2f7a10-1b2c-4d5e-8f90-a1b2c3d4e5f6", "Token 0c2f7a1 is older"),
        ("Ann's pigeons", "Ann feeds the pigeons", "Ann speaks Czech"),
        ("wifi password", "The wifi password is hunter-88", "The wifi is slow"),
        ("user's date of birth", "User was born on 4 May 1988", "The party on 4 May was loud"),
        ("user does not eat pork", "User does not eat pork", "User eats pork chops at Easter"),
        ("ACME-CORP project identifier", "The dashboard says acme_corp", "The corporation is not Acme"),
        ("NOVA-EDGE", "Some notes say Nova Edge", "NOVA-EDGES is another one"),
        ("Ruby Cedar review", "Ruby is in the Cedar review", "Sam is in the Cedar review"),
        ("meeting at 14:30", "The meeting is at 2:30 PM", "The meeting is at 2:30 AM"),
    ],
)
def test_a_description_takes_what_it_names_alone(about: str, goes: str, stays: str) -> None:
    assert to_forget(about, goes, stays) == [goes]


@pytest.mark.parametrize(
    ("about", "texts"),
    [
        ("order 551", ("Order 5512 was sent",)),
        ("everything about Gustav", ("The weather is fine", "Gustavo is late")),
        ("Rosa's salary", ("Rosa lives in Rome",)),
        ("bicycle", ("The blue bicycle", "The red bicycle")),
        ("ticket_77", ("ticket_77_v2 is open",)),
    ],
)
def test_a_description_that_fits_nothing_or_too_much_takes_nothing(about: str, texts: tuple[str, ...]) -> None:
    memories = [Memory(text, text) for text in texts]
    meant = Description(about).to_forget(memories, {texts[0]: 0.4})
    assert not meant.kept and texts[0] in meant.candidates


def test_what_recall_finds_clearly_first_is_meant_where_nothing_else_tells() -> None:
    memories = [Memory("a", "User practises Shotokan."), Memory("b", "User practises law.")]
    art = Description("user's martial art")
    assert list(art.to_forget(memories, {"a": 0.9, "b": 0.2}).kept) == ["a"]
    assert list(art.to_supersede(memories, {"a": 0.7, "b": 0.2}).kept) == ["a"]
    for ranking in ({"a": 0.9, "b": 0.8}, {"a": 0.3}, {}):
        assert not art.to_forget(memories, ranking).kept and not art.to_supersede(memories, ranking).kept
    assert not Description("everything about Gustav").to_forget(memories, {"a": 0.9}).kept


@pytest.mark.parametrize(
    ("about", "before", "other"),
    [
        ("where the user lives", "User lives in Graz", "User's office overlooks the Mur"),
        ("user job", "User is employed by the library", "User borrows cookbooks"),
        ("user employer Kiln", "User joined Kiln in 2020 as a glazier", "User visited the harbour in 2024"),
        ("user residence Graz 2015", "User lived in Graz from 2015 to 2018", "User lived it up in 2015"),
        ("user pets", "User does not have any pets", "User has a balcony"),
        ("team messenger Slate", "Team moved to Slate in 2023", "Team eats at noon"),
    ],
)
def test_a_description_means_what_is_no_longer_true(about: str, before: str, other: str) -> None:
    assert to_supersede(about, before, other) == to_supersede(about, other, before) == [before]
    assert to_supersede("user shoe size", before, other) == []
    assert to_supersede("user favourite colour", before, "User's favourite film is Stalker") == []


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("Ada lives in Oslo and works at Kiln.", ["Ada lives in Oslo", "Ada works at Kiln"]),
        ("Ada owns a parrot, speaks Danish and sings.", ["Ada owns a parrot", "Ada speaks Danish", "Ada sings"]),
        ("My aunt, who works at the mint, has a dog.", ["My aunt works at the mint", "My aunt has a dog"]),
        ("I live in Rome, but I work in Turin", ["I live in Rome", "I work in Turin"]),
        ("Ada is vegan; Ada drives a van", ["Ada is vegan", "Ada drives a van"]),
        ("- Lives in Oslo and works at Kiln", ["Lives in Oslo", "works at Kiln"]),
        ("Ada lives in Oslo. Bo lives in Rome.", ["Ada lives in Oslo", "Bo lives in Rome"]),
        ("Ada plays squash and tennis on Fridays.", ["Ada plays squash and tennis on Fridays"]),
        ("Ada and Bo share an office.", ["Ada and Bo share an office"]),
        ("Ada likes hiking and swimming.", ["Ada likes hiking and swimming"]),
        ("Ada drives a Heron 3, bought in 2022.", ["Ada drives a Heron 3, bought in 2022"]),
        ("Bread and butter", ["Bread and butter"]),
    ],
)
def test_a_sentence_is_split_where_both_halves_have_a_verb(text: str, clauses: list[str]) -> None:
    assert [clause.text for clause in clauses_of(text)] == clauses


def test_a_clause_that_refers_back_goes_with_the_one_before_it() -> None:
    memory = Memory("m", "User does not own a car and has said this often.")
    assert Description("user's car").to_forget([memory], {}).kept == {"m": None}
    memory = Memory("m", "User does not own a car and has a garden.")
    assert Description("user's car").to_forget([memory], {}).kept == {"m": "User has a garden."}


def test_no_text_takes_long_to_read() -> None:
    begins = time.perf_counter()
    for text in ("and is " * 300, "a, who " * 300, "a and " * 20_000, "1-" * 20_000, "(at) " * 5_000, "A " * 5_000):
        Description(text)
        Description("user city").to_supersede([Memory("m", text)], {})
        clauses_of(text)
    assert time.perf_counter() - begins < 10
