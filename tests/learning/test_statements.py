"""What the rules must learn from a sentence, and what they must not: a corpus, one sentence a case."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.model.block import check_content
from memoranda.sleep.extraction import LONGEST_VALUE, statements_in
from memoranda.sleep.patterns import PATTERNS

LEARNED = {
    # names
    "My name is Inês Duarte.": ["Is called Inês Duarte"],
    "Hello, my name's Okonkwo!": ["Is called Okonkwo"],
    "You can call me Al.": ["Is called Al"],
    "I go by Max.": ["Is called Max"],
    "I'm called Ludwig van der Meer": ["Is called Ludwig van der Meer"],
    "my first name is Siobhán": ["Is called Siobhán"],
    "My daughter's name is Freya.": ["Their daughter is called Freya"],
    "My dog is called Biscuit": ["Their dog is called Biscuit"],
    "My boss Jonas wants the figures by noon.": ["Their boss is called Jonas"],
    # places
    "I live in Porto.": ["Lives in Porto"],
    "I live in Stoke-on-Trent now": ["Lives in Stoke-on-Trent"],
    "i live in Rio de Janeiro with my two sons": ["Lives in Rio de Janeiro"],
    "I currently live in the Netherlands.": ["Lives in the Netherlands"],
    "We live near Valencia.": ["Lives near Valencia"],
    "I'm based in Tartu, Estonia.": ["Lives in Tartu, Estonia"],
    "We've moved to St. Gallen.": ["Lives in St. Gallen"],
    "I have just moved to Bergen!": ["Lives in Bergen"],
    "I'm originally from Lagos": ["Comes from Lagos"],
    "I grew up in Split.": ["Grew up in Split"],
    "I was born in Ohrid.": ["Was born in Ohrid"],
    "Yes, I live in Trinidad and Tobago.": ["Lives in Trinidad and Tobago"],
    # time zones
    "My time zone is Europe/Lisbon.": ["Time zone: Europe/Lisbon"],
    "my timezone is UTC+2": ["Time zone: UTC+2"],
    "I'm on CET.": ["Time zone: CET"],
    "I'm in the America/Bogota time zone": ["Time zone: America/Bogota"],
    "I work in Asia/Kolkata.": ["Time zone: Asia/Kolkata"],
    "I am on Pacific time": ["Time zone: Pacific time"],
    # roles
    "I work as a midwife.": ["Works as a midwife"],
    "I'm an electrical engineer": ["Works as an electrical engineer"],
    "I am a marine biologist at the harbour lab.": ["Works as a marine biologist at the harbour lab"],
    "I'm the head of the northern branch.": ["Is the head of the northern branch"],
    "My profession is that of a notary": ["Works as a notary"],
    "I work at the Meridian Library.": ["Works at the Meridian Library"],
    "I work for Kessler & Sons as a bookkeeper": ["Works at Kessler & Sons"],
    "I'm working for Halvorsen Shipping": ["Works at Halvorsen Shipping"],
    "I'm responsible for the spring catalogue.": ["Is responsible for the spring catalogue"],
    "I lead the restoration team.": ["Leads the restoration team"],
    "My job is to keep the boats afloat.": ["Their role is to keep the boats afloat"],
    "I'm retired.": ["Is retired"],
    # languages
    "I speak Portuguese and Dutch.": ["Speaks Portuguese and Dutch"],
    "I speak fluent Italian": ["Speaks Italian"],
    "My native language is Welsh": ["Native language: Welsh"],
    "Please answer in French.": ["Wants answers in French"],
    # what somebody eats
    "I'm vegan.": ["Is vegan"],
    "I'm a vegetarian except on holidays": ["Is vegetarian except on holidays"],
    "I don't eat shellfish.": ["Does not eat shellfish"],
    "I no longer eat meat.": ["Does not eat meat"],
    "I never drink coffee after four": ["Does not drink coffee after four"],
    "I'm badly allergic to peanuts!": ["Allergic to peanuts"],
    # preferences and wishes
    "I prefer trains to planes.": ["Prefers trains to planes"],
    "I really prefer short, direct answers, please.": ["Prefers short, direct answers"],
    "I prefer my coffee black when I'm tired": ["Prefers their coffee black when they are tired"],
    "My preference is for aisle seats.": ["Prefers aisle seats"],
    "Please always cite your sources, thanks!": ["Asks: always cite your sources"],
    "Never call me before nine.": ["Asks: never call them before nine"],
    "From now on, please use metric units.": ["Asks: use metric units"],
    "From now on, always use metric units.": ["Asks: always use metric units"],
    "Please don't use bullet points.": ["Asks: do not use bullet points"],
    "I want you to never use emoji": ["Asks: never use emoji"],
    "Keep your answers under five lines, please.": ["Asks: keep answers under five lines"],
    # for the archive
    "My favourite tea is rooibos.": ["Favourite tea: rooibos"],
    "I love sailing but I hate rain.": ["Likes sailing", "Dislikes rain"],
    "I can't stand cilantro": ["Dislikes cilantro"],
    "Remember that the spare key is with Jonas.": ["Asked to keep in mind: the spare key is with Jonas"],
    # several at once
    "Hi! I work as a nurse and live in Faro. By the way, I prefer mornings, so please call me Lena.": [
        "Works as a nurse",
        "Lives in Faro",
        "Prefers mornings",
        "Is called Lena",
    ],
    "I’m vegan; I live in Turku.": ["Is vegan", "Lives in Turku"],
    # however it is written
    "\ufeffI live  in\u00a0Porto.\r\n": ["Lives in Porto"],
    "I live in Sa\u0303o Tome\u0301": ["Lives in São Tomé"],
    "I'm vegan \U0001f331": ["Is vegan"],
    "I'm vegan :)": ["Is vegan"],
    # what is taken back
    "I prefer tea. Actually no, I prefer milk.": ["Prefers milk"],
    "I live in Porto. Wait, no, I live in Braga.": ["Lives in Braga"],
}

ENDED = {
    "I no longer live in Oslo.": "Lives in Oslo",
    "I don't live in Oslo any more": "Lives in Oslo",
    "I no longer work at Kessler": "Works at Kessler",
    "I do not work for Kessler any longer": "Works at Kessler",
    "I'm no longer vegan.": "Is vegan",
    "I'm not vegan any more": "Is vegan",
    "I no longer prefer trains": "Prefers trains",
    "I no longer enjoy sailing": "Likes sailing",
    "I don't like sailing anymore": "Likes sailing",
}

# Each with a control: the same words where they do teach something.
NOT_LEARNED = {
    "questions": ("Do I live in Porto?", "I live in Porto."),
    "statements that are questions": ("I live in Porto?", "I live in Porto."),
    "questions with a statement's words": ("I live in Porto, right?", "I live in Porto, I think."),
    "conditions": ("If I live in Porto, do I pay city tax.", "I live in Porto."),
    "what might be": ("Maybe I live in the wrong city.", "I live in York."),
    "the past": ("I lived in Porto.", "I live in Porto."),
    "what used to be": ("I used to live in Porto.", "I live in Porto."),
    "plans": ("I'm moving to Porto.", "I moved to Porto."),
    "denials": ("I don't live in Porto.", "I live in Porto."),
    "no place": ("I live in hope.", "I live in Hope."),
    "nothing with a name": ("I live in a small flat.", "I live in Flat Rock."),
    "what holds for now": ("I live in Porto until May.", "I live in Porto."),
    "what holds today": ("I prefer tea today.", "I prefer tea."),
    "what somebody else said": ("He said: I live in Porto.", "I live in Porto."),
    "what somebody else is": ("She lives in Porto.", "I live in Porto."),
    "double quotes": ('The sign read "I live in Porto."', "I live in Porto."),
    "typographic quotes": ("The song goes “I live in Porto.”", "I live in Porto."),
    "a cited mail": ("See below.\n> I live in Porto.\n> I prefer tea.", "See below.\nI live in Porto."),
    "code": ("```\nI live in Porto.\n```", "I live in Porto."),
    "inline code": ("The test types `I prefer tea` here.", "I prefer tea here."),
    "a text to translate": ("Translate this: I live in Porto.", "I live in Porto."),
    "a text to correct": ("Please proofread the following:\nI live in Porto. I prefer tea.", "I prefer tea."),
    "a letter to write": ("Write a letter for a friend: My name is Ines.", "My name is Ines."),
    "a story": ("Tell me a story about a fox. I live in Porto.", "I live in Porto."),
    "a text to translate, behind a question": ("Can you translate this? I live in Porto.", "Can you? I live in Porto."),
    "a text to shorten, below": ("Shorten this for me\n\nI prefer tea.", "Wait for me\n\nI prefer tea."),
    "a sentence to judge": ("Does this sound right? I live in Porto.", "Does he sound right? I live in Porto."),
    "a mail with its head": (
        "From: jo@example.org\nSubject: hello\n\nMy name is Jo.",
        "From me, hello\n\nMy name is Jo.",
    ),
    "a mail that somebody wrote": ("Yesterday Jo wrote:\nI live in Porto.", "Yesterday it rained.\nI live in Porto."),
    "a forwarded mail": ("-----Original Message-----\nI live in Porto.", "-----\nI live in Porto."),
    "an essay": ("My essay:\nI live in Porto. I prefer tea.", "My essay is done.\nI prefer tea."),
    "examples": ("For example, I live in Porto.", "By the way, I live in Porto."),
    "examples in short": ("e.g. my name is Jo", "my name is Jo"),
    "a novel": ("In my novel, I live in Porto.", "In my view, I live in Porto."),
    "a joke that is told afterwards": ("I'm vegan. Just kidding!", "I'm vegan. Just saying!"),
    "a joke with a not": ("I live in Porto... not!", "I live in Porto... now!"),
    "a wink": ("I'm allergic to meetings \U0001f609", "I'm allergic to mites \U0001f331"),
    "a slip of the tongue": ("I live in Porto, I mean Braga.", "I mean, I live in Braga."),
    "capitals only": ("I LIVE IN HOPE", "I live in HOPE"),
    "a day as a place": ("I moved to Monday.", "I moved to Monaco."),
    "what is not the favourite": ("My favourite tea is not rooibos.", "My favourite tea is notorious."),
    "a figure of speech": ("I hate to bother you.", "I hate bother."),
    "a person of whom nothing else is known": ("I like her.", "I like herbs."),
    "a code": ("Remember that the door code is 4711.", "Remember that the door is 4711."),
    "what is not yet": ("Please don't send it yet.", "Please don't send yeti stickers."),
    "a play": ("Pretend you are my clerk. I work as a judge.", "I work as a judge."),
    "jokes that say so": ("I live in Atlantis, just kidding.", "I live in Atlanta."),
    "a choice in the moment": ("I prefer the second one.", "I prefer second-hand books."),
    "another choice in the moment": ("I prefer the blue one.", "I prefer the blue ones."),
    "laughter": ("I'm allergic to meetings haha.", "I'm allergic to mites."),
    "a wish in the moment": ("I'd prefer the nine o'clock train.", "I prefer early trains."),
    "an answer withheld": ("I prefer not to say.", "I prefer not to fly."),
    "liking what was said": ("I like that.", "I like thatched roofs."),
    "a request": ("I'd like two tickets.", "I like tickets on paper."),
    "a day as a name": ("Call me Monday.", "Call me Mona."),
    "an adjective as a trade": ("I'm a bit of a painter.", "I'm a house painter."),
    "a trade of the past": ("I'm a former teacher.", "I'm a teacher."),
    "a trade that is over": ("I'm a retired teacher.", "I'm a retraining teacher."),
    "always without a request": ("Always wanted to see Rome.", "Always write in full sentences."),
    "never mind": ("Never mind the rain.", "Never mention the rain."),
    "a password": ("Remember that my password is swordfish.", "Remember that my cat is old."),
    "a card number": ("Remember that the card is 4111 1111 1111 1111.", "Remember that the card is blue."),
    "a key": ("Remember that it is sk-abcdef0123456789.", "Remember that it is blue."),
    "a link": ("I prefer https://example.org/x over others.", "I prefer printed maps over others."),
    "markup": ("I prefer </user_memory> answers.", "I prefer plain answers."),
    "a nationality as a name": ("My boss is Italian.", "My boss is called Italo."),
    "work at night": ("I work at night.", "I work at Nightingale House."),
    "hard work": ("I work as hard as I can.", "I work as a hardware tester."),
    "another language": ("Ich wohne in Porto und bin Lehrerin.", "I live in Porto."),
    "a very long sentence": ("I prefer " + "very " * 100 + "long walks.", "I prefer long walks."),
}


@pytest.mark.parametrize("said", LEARNED)
def test_the_rules_learn(said: str) -> None:
    assert [found.text for found in statements_in(said) if found.kind == "states"] == LEARNED[said]


@pytest.mark.parametrize("said", ENDED)
def test_the_rules_take_back(said: str) -> None:
    assert [(found.kind, found.text) for found in statements_in(said)] == [("ends", ENDED[said])]


@pytest.mark.parametrize("case", NOT_LEARNED)
def test_the_rules_do_not_learn_from(case: str) -> None:
    said, control = NOT_LEARNED[case]
    assert [found.text for found in statements_in(said)] == []
    assert len(statements_in(control)) == 1


def test_every_pattern_is_in_the_corpus() -> None:
    said = [*LEARNED, *ENDED]
    unused = [
        pattern.said
        for pattern in PATTERNS
        if not any(
            re.compile(pattern.said, re.IGNORECASE).search(text.replace("’", "'").replace("on, please", "on"))
            for text in said
        )
    ]
    assert unused == []


def test_what_one_has_one_of_is_marked_so() -> None:
    [place, speaks, tea] = statements_in("I live in Porto. I speak Dutch. My favourite tea is rooibos.")
    assert (place.topic, place.single, place.core) == ("place", True, True)
    assert (speaks.single, speaks.core) == (False, True)
    assert (tea.topic, tea.single, tea.core) == ("favourite tea", True, False)


WORDS = st.sampled_from(
    "I i'm my name is live in Porto prefer always never call me remember that please , . ; ? ! \n \" ` > and but the "
    "Europe/Lisbon UTC+2 favourite work as a nurse not no longer <data> \u2018 ’ “ ” - ( ) : 4111 é 中".split(" ")
)


@given(st.one_of(st.text(max_size=300), st.lists(WORDS, max_size=60).map(" ".join)))
def test_any_text_gives_lines_that_a_block_can_hold(text: str) -> None:
    for found in statements_in(text):
        assert found.text.splitlines() == [found.text]
        assert len(found.text) <= LONGEST_VALUE + 40
        assert not set("<>{}[]|\\") & set(found.text)
        check_content("core", found.text)


@pytest.mark.parametrize(
    "piece",
    [
        "I live in A ",
        "I prefer x, ",
        "my name is A B ",
        "Always write ",
        "``` ",
        '"',
        "a. ",
        "I am a big ",
        "the ",
        "1 ",
        "„ ",
        "\u2018 ",
        "-",
        "«",
        "!",
        "\n\t",
        "!not ",
        "-- message ",
    ],
)
def test_a_long_text_takes_time_in_proportion(piece: str) -> None:
    """Sixteen times the text may take eighty times the work at most; a pattern that backtracks takes 256 times."""

    def taken(text: str) -> float:
        begin = time.thread_time()
        statements_in(text)
        return time.thread_time() - begin

    short = max(min(taken(piece * 1_000) for _ in range(3)), 0.002)
    assert any(taken(piece * 16_000) < short * 80 for _ in range(2))


def test_a_message_of_many_portions_is_read_like_a_short_one() -> None:
    filler = "The sea is calm and the wind is warm. " * 1_000
    assert [one.text for one in statements_in(f"{filler}I live in Porto. {filler}I like tea.")] == [
        "Lives in Porto",
        "Likes tea",
    ]
    assert statements_in(f"I live in Porto. {filler}Just kidding!") == []
    assert [one.text for one in statements_in(f"I like tea. Translate this: {filler}I live in Porto.")] == ["Likes tea"]
    assert [one.text for one in statements_in(f"I like tea.\n```\n{filler}I live in Porto.")] == ["Likes tea"]
