"""Extract values from what users say. Now is Wednesday, 4 November 2026, 10:00."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from memoranda.abl.understanding.fields import FieldSpec
from memoranda.abl.understanding.rule_reader import extract

NOW = datetime(2026, 11, 4, 10, 0, tzinfo=UTC)


def field(name: str, type: str | None = None, **more: Any) -> FieldSpec:
    return FieldSpec(name=name, type=type, **more)


def asked(name: str, type: str | None = None, **more: Any) -> FieldSpec:
    return FieldSpec(name=name, type=type, asked=True, **more)


def read(text: str, *wanted: FieldSpec) -> dict[str, Any]:
    return extract(wanted, text, now=NOW)


STAY = (field("destination"), field("checkin_date"), field("checkout_date"), field("num_guests"))
CLASSES = ("Economy", "Premium Economy", "Business", "First")
ROOMS = ("Single room", "Double room", "Deluxe suite")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a hotel in Lisbon for 2 guests", {"destination": "Lisbon", "num_guests": 2}),
        ("We are going to New York with 3 people", {"destination": "New York", "num_guests": 3}),
        ("to Rio de Janeiro from 3 May to 5 May",
         {"destination": "Rio de Janeiro", "checkin_date": "2027-05-03", "checkout_date": "2027-05-05"}),
        ("Book me something in Porto from 3 to 5 May for two adults",
         {"destination": "Porto", "checkin_date": "2027-05-03", "checkout_date": "2027-05-05", "num_guests": 2}),
        ("in St. Gallen until 2027-06-01", {"destination": "St. Gallen", "checkout_date": "2027-06-01"}),
        ("check in 2026-12-30, check out 2027-01-02",
         {"checkin_date": "2026-12-30", "checkout_date": "2027-01-02"}),
        ("from 30 December to 2 January", {"checkin_date": "2026-12-30", "checkout_date": "2027-01-02"}),
        ("from Monday to Friday", {"checkin_date": "2026-11-09", "checkout_date": "2026-11-13"}),
        ("Friday to Friday", {"checkin_date": "2026-11-06", "checkout_date": "2026-11-13"}),
        ("de 3 a 5 de maio", {"checkin_date": "2027-05-03", "checkout_date": "2027-05-05"}),
        ("from 5 May to 3 May", {"checkin_date": "2027-05-05"}),
        ("for a week from Friday", {"checkin_date": "2026-11-06"}),
        ("arriving Friday, leaving Sunday", {"checkin_date": "2026-11-06", "checkout_date": "2026-11-08"}),
        ("leaving on Friday", {"checkin_date": "2026-11-06"}),
        ("Monday or Tuesday next week", {}),
        ("Tuesday, Wednesday or Thursday for 2 guests", {"num_guests": 2}),
        ("call me tomorrow", {}),
        ("3 May - 5 May 2028, four of us",
         {"checkin_date": "2028-05-03", "checkout_date": "2028-05-05", "num_guests": 4}),
        ("two nights from 3 May", {"checkin_date": "2027-05-03", "checkout_date": "2027-05-05"}),
        ("arriving tomorrow, leaving is still open", {"checkin_date": "2026-11-05"}),
        ("arriving next friday for a couple of nights",
         {"checkin_date": "2026-11-13", "checkout_date": "2026-11-15"}),
        ("we will be 5 guests and stay from 12.5.2027 till 14.5.2027",
         {"num_guests": 5, "checkin_date": "2027-05-12", "checkout_date": "2027-05-14"}),
        ("to the Algarve", {"destination": "Algarve"}),
        ("party of 6 in The Hague", {"destination": "The Hague", "num_guests": 6}),
        ("I would like to visit Stratford-upon-Avon in two weeks",
         {"destination": "Stratford-upon-Avon", "checkin_date": "2026-11-18"}),
        ("destination: Faro, guests: 3", {"destination": "Faro", "num_guests": 3}),
        ("wir sind 4 Personen und wollen nach Hamburg", {"destination": "Hamburg", "num_guests": 4}),
        ("Can you find me a room in Lisbon for 2 people?", {"destination": "Lisbon", "num_guests": 2}),
    ],
)  # fmt: skip
def test_a_sentence_about_a_stay_fills_the_fields_it_speaks_of(text: str, values: dict[str, Any]) -> None:
    assert read(text, *STAY) == values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Lisbon", "Lisbon"),
        ("lisbon", "lisbon"),
        ("it's Lisbon", "Lisbon"),
        ("It’s Lisbon.", "Lisbon"),
        ("to Lisbon please", "Lisbon"),
        ("Lisbon, please!", "Lisbon"),
        ("Hi, I'd like to go to lisbon", "lisbon"),
        ("we want to go to Lisbon", "Lisbon"),
        ("I'm going to Lisbon", "Lisbon"),
        ("how about Lisbon?", "Lisbon"),
        ("maybe Lisbon", "Lisbon"),
        ("Rome, Italy", "Rome, Italy"),
        ("“Porto”", "Porto"),
        ("São Paulo", "São Paulo"),
        ("東京", "東京"),
        ("yes, Lisbon", "Lisbon"),
        ("a trip to lisbon for my wife", "lisbon"),
        ("nach Köln bitte", "Köln"),
        ("fly to Rio de Janeiro", "Rio de Janeiro"),
        ("Barcelona next weekend", "Barcelona"),
        ("ok Lisbon then", "Lisbon"),
        ("Paris for 2", "Paris"),
        ("Trinidad and Tobago", "Trinidad and Tobago"),
        ("Frankfurt am Main", "Frankfurt am Main"),
        ("Washington, D.C.", "Washington, D.C."),
        ("I live in Berlin and want to go to Rome", "Rome"),
        ("Lisbon. Can you hurry?", "Lisbon"),
        ("actually Porto", "Porto"),
        ("I would love to see Lisbon", "Lisbon"),
        ("quiero ir a Madrid", "Madrid"),
        ("je veux aller à Lyon", "Lyon"),
        ("vado a Roma", "Roma"),
    ],
)  # fmt: skip
def test_the_answer_to_a_question_for_a_place_is_the_place(text: str, value: str) -> None:
    assert read(text, asked("destination")) == {"destination": value}


@pytest.mark.parametrize(
    "text",
    ["", "   ", "?", "...", "what?", "What do you mean?", "I don't know", "i dont know yet", "no idea", "help",
     "Help!", "hello", "not sure", "I'm not sure, sorry", "where can I go?", "which cities do you have?", "Lisbon?",
     "can you help me?", "I want to cancel", "keine Ahnung", "je ne sais pas", "skip", "no", "never mind",
     "how much is it", "let me think", "Lisbon or Porto", "looking for somewhere warm", "I want to travel",
     "the same as last time", "from Berlin", "I have never been to Rome", "not Paris", "my wife would love it", "1",
     "12 34", "lisbon or porto", "I've been to Rome", "I was in Rome last year", "wherever", "good question"],
)  # fmt: skip
def test_a_question_or_an_evasion_is_no_place(text: str) -> None:
    assert read(text, asked("destination")) == {}
    assert read("Lisbon", asked("destination")) == {"destination": "Lisbon"}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("Lisbon, 2 guests", {"destination": "Lisbon", "num_guests": 2}),
        ("Lisbon for 2 guests", {"destination": "Lisbon", "num_guests": 2}),
        ("2 guests, Lisbon", {"destination": "Lisbon", "num_guests": 2}),
        ("lisbon from 3 May to 5 May",
         {"destination": "lisbon", "checkin_date": "2027-05-03", "checkout_date": "2027-05-05"}),
        ("Lisbon, 3 to 5 May, two people",
         {"destination": "Lisbon", "checkin_date": "2027-05-03", "checkout_date": "2027-05-05", "num_guests": 2}),
        ("Lisbon from 3 May to 5 May for 2",
         {"destination": "Lisbon", "checkin_date": "2027-05-03", "checkout_date": "2027-05-05"}),
        ("I need 3 rooms", {}),
        ("from 3 May", {"checkin_date": "2027-05-03"}),
        ("for 2 people please", {"num_guests": 2}),
    ],
)  # fmt: skip
def test_what_other_fields_left_of_an_answer_is_the_value(text: str, values: dict[str, Any]) -> None:
    assert read(text, asked("destination"), *STAY[1:]) == values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", 2),
        ("two", 2),
        ("Two.", 2),
        ("2 guests", 2),
        ("just 2, thanks", 2),
        ("a dozen", 12),
        ("half a dozen people", 6),
        ("we are four", 4),
        ("there will be 3 of us", 3),
        ("a couple", 2),
        ("zwei", 2),
        ("drei Personen", 3),
        ("trois", 3),
        ("cinco", 5),
        ("duas", 2),
        ("vingt-deux", 22),
        ("fünfundzwanzig", 25),
        ("treinta y cinco", 35),
        ("2 adults and 1 child", 3),
        ("2 adults and a child", 3),
        ("2 adults, 2 kids and a baby", 5),
        ("zwei Erwachsene und ein Kind", 3),
        ("1.500 Personen", 1500),
        ("moins trois", -3),
        ("al menos tres", 3),
        ("ein Paar", 2),
        ("not 3, 4", 4),
        ("we are not 3 but 4", 4),
        ("no more than 3", 3),
        ("minus two", -2),
        ("\u22125", -5),
        ("2½", 2.5),
        ("vingt et un", 21),
        ("vinte e um", 21),
        ("quatre-vingts", 80),
        ("quatre-vingt-dix", 90),
        ("one thousand and five", 1005),
        ("twenty-five", 25),
        ("one hundred and twenty", 120),
        ("it's 2, I think", 2),
        ("2?", 2),
        ("٣", 3),
    ],
)  # fmt: skip
def test_the_answer_to_a_question_for_a_number_is_its_only_number(text: str, value: float) -> None:
    assert read(text, asked("num_guests")) == {"num_guests": value}


@pytest.mark.parametrize(
    "text",
    ["2 or 3", "many", "3 nights", "on 3 May", "at 3pm", "$20", "the second one", "between 2 and 4", "A-12", "1/2",
     "12:30", "one of them", "2 or 3 guests", "2-3 guests", "not 3", "1 1/2", "three quarters", "ein paar"],
)  # fmt: skip
def test_what_is_not_one_number_of_guests_is_none(text: str) -> None:
    assert read(text, asked("num_guests")) == {}
    assert read("2 people", asked("num_guests")) == {"num_guests": 2}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500", 500),
        ("$500", 500),
        ("500 dollars", 500),
        ("about 1,200.50", 1200.5),
        ("1.200,50 €", 1200.5),
        ("1.200 €", 1200),
        ("5k", 5000),
        ("$1.5m", 1_500_000),
        ("two hundred and fifty", 250),
        ("a thousand euros", 1000),
        ("2 thousand", 2000),
        ("-20", -20),
        ("EUR 99.90", 99.9),
        ("up to 300", 300),
        ("0", 0),
        ("1 200 €", 1200),
        ("1 200,50 €", 1200.5),
        ("1'250 CHF", 1250),
        ("-$50", -50),
        ("$-50", -50),
        ("10 k", 10_000),
        ("2 Mio. Euro", 2_000_000),
        ("half a million", 500_000),
        ("a quarter million", 250_000),
        ("50 cents", 0.5),
        ("20 dollars and 50 cents", 20.5),
        ("deux cents euros", 200),
        ("quinze cents euros", 1500),
        ("fünfzig Rappen", 0.5),
        ("mil quinientos", 1500),
        ("mil e quinhentos", 1500),
    ],
)  # fmt: skip
def test_money_is_read_in_every_spelling(text: str, value: float) -> None:
    assert read(text, asked("budget", "number")) == {"budget": value}


@pytest.mark.parametrize(
    "text",
    [
        "between $100 and $200",
        "$100-200",
        "1/2 million",
        "cent vingt",
        "not $50",
        "zwischen 100 und 200 Euro",
        "zweieinhalb tausend Euro",
    ],
)
def test_what_is_not_one_amount_is_none(text: str) -> None:
    assert read(text, asked("budget", "number")) == {}
    assert read("$100", asked("budget", "number")) == {"budget": 100}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("2 guests for 3 nights", {"guests": 2, "nights": 3}),
        ("3 nights, 2 guests", {"guests": 2, "nights": 3}),
        ("guests 2 nights 3", {"guests": 2, "nights": 3}),
        ("guests: 2, nights: 3, budget: 500", {"guests": 2, "nights": 3, "budget": 500}),
        ("a budget of about 500 and 2 adult guests", {"guests": 2, "budget": 500}),
        ("$500 for two people", {"guests": 2, "budget": 500}),
        ("our budget is 1,000 euros", {"budget": 1000}),
        ("no guests, only me", {"guests": 0}),
        ("number of guests is 4", {"guests": 4}),
        ("I have 2 questions", {}),
        ("we have 3 dogs and 2 guests", {"guests": 2}),
        ("500", {}),
        ("room 12", {}),
    ],
)  # fmt: skip
def test_a_number_that_was_not_asked_for_needs_a_word_beside_it(text: str, values: dict[str, Any]) -> None:
    assert read(text, field("guests"), field("nights"), field("budget")) == values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2027-05-12", "2027-05-12"),
        ("12 May 2027", "2027-05-12"),
        ("12th of May", "2027-05-12"),
        ("the third of May", "2027-05-03"),
        ("May 12th, 2027", "2027-05-12"),
        ("12.5.2027", "2027-05-12"),
        ("12.05.27", "2027-05-12"),
        ("5/12/2027", "2027-05-12"),
        ("13/5/2027", "2027-05-13"),
        ("12-05-2027", "2027-05-12"),
        ("12-May-2027", "2027-05-12"),
        ("am 12.5.", "2027-05-12"),
        ("12. Mai", "2027-05-12"),
        ("le 1er mai", "2027-05-01"),
        ("el 5 de mayo de 2027", "2027-05-05"),
        ("12 de maio", "2027-05-12"),
        ("today", "2026-11-04"),
        ("tomorrow", "2026-11-05"),
        ("the day after tomorrow", "2026-11-06"),
        ("morgen", "2026-11-05"),
        ("après-demain", "2026-11-06"),
        ("friday", "2026-11-06"),
        ("on Friday", "2026-11-06"),
        ("next Friday", "2026-11-13"),
        ("Friday, 12 May", "2027-05-12"),
        ("Mittwoch", "2026-11-11"),
        ("this Wednesday", "2026-11-04"),
        ("on Wed", "2026-11-11"),
        ("in two weeks", "2026-11-18"),
        ("in 3 days", "2026-11-07"),
        ("in a month", "2026-12-04"),
        ("a week from today", "2026-11-11"),
        ("a week from Friday", "2026-11-13"),
        ("two weeks on Friday", "2026-11-20"),
        ("Friday week", "2026-11-13"),
        ("Saturday in two weeks", "2026-11-21"),
        ("vendredi en huit", "2026-11-13"),
        ("na sexta-feira", "2026-11-06"),
        ("próxima segunda-feira", "2026-11-09"),
        ("venerdì prossimo", "2026-11-13"),
        ("il 3 maggio 2027", "2027-05-03"),
        ("dopodomani", "2026-11-06"),
        ("3 days from tomorrow", "2026-11-08"),
        ("two days after 3 May", "2027-05-05"),
        ("the day before 3 May", "2027-05-02"),
        ("the day before yesterday", "2026-11-02"),
        ("depois de amanhã", "2026-11-06"),
        ("6 Nov '27", "2027-11-06"),
        ("6 Nov 27", "2027-11-06"),
        ("6 Nov for 27 people", "2026-11-06"),
        ("the twenty-first of May", "2027-05-21"),
        ("the twentieth of May", "2027-05-20"),
        ("Saturday, not Sunday", "2026-11-07"),
        ("not Friday but Saturday", "2026-11-07"),
        ("Monday isn't good, Tuesday is", "2026-11-10"),
        ("not before Friday", "2026-11-06"),
        ("why not Friday", "2026-11-06"),
        ("no, Friday", "2026-11-06"),
        ("dans 3 jours", "2026-11-07"),
        ("in einer Woche", "2026-11-11"),
        ("4 November", "2026-11-04"),
        ("3 November", "2027-11-03"),
        ("29 February", "2028-02-29"),
        ("the 12th", "2026-11-12"),
        ("on the 2nd", "2026-12-02"),
        ("what about 12 May?", "2027-05-12"),
        ("I think 12 May would be good", "2027-05-12"),
        ("5/12", "2027-05-12"),
    ],
)  # fmt: skip
def test_a_day_is_read_in_every_spelling(text: str, value: str) -> None:
    assert read(text, asked("appointment", "date")) == {"appointment": value}


@pytest.mark.parametrize(
    "text",
    ["2027-02-30", "31 June", "May I come?", "may be", "in May", "the 2nd room", "24/7", "12", "3 days", "next week",
     "3 May or 5 May", "guten Morgen", "my son sat down", "soon", "99.99.2027", "99/99", "not tomorrow",
     "not on Friday", "any day but Friday", "I can't do Friday", "Friday doesn't work", "Friday after next",
     "either the 3rd or the 4th", "jeder Tag außer Freitag", "tout sauf vendredi", "el viernes no",
     "zwischen dem 3. und 5. Mai", "Easter Monday", "Good Friday", "every Friday",
     "next Monday, Tuesday at the latest"],
)  # fmt: skip
def test_what_is_not_one_day_is_none(text: str) -> None:
    assert read(text, asked("appointment", "date")) == {}
    assert read("3 May", asked("appointment", "date")) == {"appointment": "2027-05-03"}


@pytest.mark.parametrize(
    ("text", "type", "value"),
    [
        ("3pm", "time", "15:00"),
        ("at 3:30 p.m.", "time", "15:30"),
        ("15:30", "time", "15:30"),
        ("15h30", "time", "15:30"),
        ("15 Uhr", "time", "15:00"),
        ("noon", "time", "12:00"),
        ("12 am", "time", "00:00"),
        ("eight in the evening", "time", "20:00"),
        ("two in the night", "time", "02:00"),
        ("half past 3 pm", "time", "15:30"),
        ("a quarter to 4pm", "time", "15:45"),
        ("ten past 4 pm", "time", "16:10"),
        ("halb 4 Uhr", "time", "03:30"),
        ("viertel nach 15 Uhr", "time", "15:15"),
        ("5 vor 12 Uhr", "time", "11:55"),
        ("fünf Uhr dreißig", "time", "05:30"),
        ("tomorrow at 3pm CET", "datetime", "2026-11-05T15:00:00+01:00"),
        ("tomorrow at 15:00 UTC+2", "datetime", "2026-11-05T15:00:00+02:00"),
        ("9am EST", "datetime", "2026-11-04T09:00:00-05:00"),
        ("tomorrow at 3pm", "datetime", "2026-11-05T15:00:00Z"),
        ("15:30 on 12 May", "datetime", "2027-05-12T15:30:00Z"),
        ("2027-05-12T15:30:00Z", "datetime", "2027-05-12T15:30:00Z"),
        ("2027-05-12T15:30:00+02:00", "datetime", "2027-05-12T15:30:00+02:00"),
        ("2027-05-12T15:30", "datetime", "2027-05-12T15:30:00Z"),
        ("2027-05-12 15:30", "datetime", "2027-05-12T15:30:00Z"),
        ("3pm", "datetime", "2026-11-04T15:00:00Z"),
        ("9am", "datetime", "2026-11-05T09:00:00Z"),
        ("12 May", "datetime", "2027-05-12T00:00:00Z"),
    ],
)  # fmt: skip
def test_times_of_day_are_read(text: str, type: str, value: str) -> None:
    assert read(text, asked("pickup", type)) == {"pickup": value}


def test_a_part_of_the_day_is_no_time() -> None:
    assert read("monday morning", asked("pickup", "datetime")) == {}
    assert read("monday", asked("pickup", "datetime")) == {"pickup": "2026-11-09T00:00:00Z"}


@pytest.mark.parametrize("text", ["monday at 5", "monday from 3pm to 5pm", "monday 3 to 5pm"])
def test_an_hour_that_may_be_two_makes_no_moment(text: str) -> None:
    assert read(text, asked("pickup", "datetime")) == {}
    assert read("monday at 5pm", asked("pickup", "datetime")) == {"pickup": "2026-11-09T17:00:00Z"}


def test_the_ends_of_a_span_of_time_go_to_two_fields() -> None:
    ends = (field("start_time", "time"), field("end_time", "time"))

    assert read("from 3 to 5pm", *ends) == {"start_time": "15:00", "end_time": "17:00"}
    assert read("11 to 1pm", *ends) == {"start_time": "11:00", "end_time": "13:00"}


@pytest.mark.parametrize(
    "text",
    [
        "25:00",
        "13pm",
        "3h",
        "3 hours",
        "at 3",
        "3-4pm",
        "between 3 and 4 pm",
        "not 3pm",
        "any time but 3pm",
        "20 to 5pm",
    ],
)
def test_what_is_no_time_of_day_is_none(text: str) -> None:
    assert read(text, asked("pickup", "time")) == {}
    assert read("at 3 pm", asked("pickup", "time")) == {"pickup": "15:00"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True), ("Yep!", True), ("sure, go ahead", True), ("of course", True), ("yes please", True),
        ("ok", True), ("I do", True), ("please", True), ("looks good", True), ("perfect!", True),
        ("I agree", True), ("no problem", True), ("that's right", True), ("ja", True), ("oui", True),
        ("sí", True), ("sim", True), ("y", True), ("true", True), ("well, yes", True),
        ("no", False), ("Nope", False), ("no thanks", False), ("not really", False), ("I don't", False),
        ("nein", False), ("não", False), ("non", False), ("n", False), ("no, not now", False), ("please don't", False),
        ("actually, yes", True), ("actually no", False),
        ("sure, why not", True), ("yes, no problem", True), ("no doubt", True), ("I think so", True), ("👍", True),
        ("はい", True), ("auf jeden Fall", True), ("of course not", False), ("absolutely not", False),
        ("natürlich nicht", False), ("bien sûr que non", False), ("claro que no", False), ("I do not", False),
        ("I guess not", False), ("auf keinen Fall", False), ("不是", False), ("pas du tout", False),
    ],
)  # fmt: skip
def test_yes_and_no_answer_the_question_that_was_asked(text: str, value: bool) -> None:
    assert read(text, asked("wants_breakfast")) == {"wants_breakfast": value}


@pytest.mark.parametrize(
    "text",
    [
        "maybe",
        "yes and no",
        "please cancel",
        "I am Ada",
        "good question",
        "I'm not sure",
        "I don't know",
        "Lisbon",
        "yes or no?",
        "4",
        "no, actually yes",
        "No. Actually, yes.",
        "of course, but not today",
        "I don't mind",
        "no sé",
    ],
)
def test_what_is_neither_yes_nor_no_decides_nothing(text: str) -> None:
    assert read(text, asked("wants_breakfast")) == {}
    assert read("yes", asked("wants_breakfast")) == {"wants_breakfast": True}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("with breakfast please", {"has_breakfast": True}),
        ("without breakfast", {"has_breakfast": False}),
        ("no breakfast but late checkout", {"has_breakfast": False, "late_checkout": True}),
        ("I don't need breakfast", {"has_breakfast": False}),
        ("breakfast: no", {"has_breakfast": False}),
        ("is there breakfast?", {}),
        ("yes", {}),
        ("it is late", {}),
    ],
)  # fmt: skip
def test_a_decision_that_was_not_asked_for_needs_its_name(text: str, values: dict[str, Any]) -> None:
    assert read(text, field("has_breakfast"), field("late_checkout", "boolean")) == values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("business", "Business"),
        ("Business class, please", "Business"),
        ("premium economy", "Premium Economy"),
        ("the premium one", "Premium Economy"),
        ("economy", "Economy"),
        ("1", "Economy"),
        ("2", "Premium Economy"),
        ("option 3", "Business"),
        ("the third one", "Business"),
        ("the last one", "First"),
        ("number two please", "Premium Economy"),
        ("not economy, business", "Business"),
        ("the 2nd one please", "Premium Economy"),
        ("I'd prefer the 3rd", "Business"),
        ("die zweite", "Premium Economy"),
        ("I'd like to fly Business", "Business"),
    ],
)  # fmt: skip
def test_an_option_is_chosen_by_its_words_or_its_place(text: str, value: str) -> None:
    assert read(text, asked("cabin", options=CLASSES)) == {"cabin": value}


@pytest.mark.parametrize(
    "text",
    ["economy or business", "0", "5", "something nice", "what is the difference?", "I have 2 kids", "not business",
     "anything but business", "business or whatever"],
)  # fmt: skip
def test_what_is_not_one_option_chooses_none(text: str) -> None:
    assert read(text, asked("cabin", options=CLASSES)) == {}
    assert read("business", asked("cabin", options=CLASSES)) == {"cabin": "Business"}


@pytest.mark.parametrize(
    ("text", "value"),
    [("PayPal", "PayPal"), ("with paypal", "PayPal"), ("2GB", "2GB"), ("2 gb please", "2GB"), ("B2", "B2"),
     ("wifi", "Wi-Fi"), ("wi-fi", "Wi-Fi"), ("C++", "C++"), ("C", "C"), ("businessClass", "businessClass"),
     ("business class", "businessClass")],
)  # fmt: skip
def test_an_option_is_chosen_by_its_own_name_however_it_joins_its_words(text: str, value: str) -> None:
    options = ("PayPal", "2GB", "16GB", "B2", "Wi-Fi", "C", "C++", "businessClass")
    assert read(text, asked("choice", options=options)) == {"choice": value}


def test_an_option_for_yes_or_no_is_chosen_in_other_words() -> None:
    terms = asked("terms", options=("Yes", "No"))

    assert read("nope", terms) == {"terms": "No"}
    assert read("yeah, sure", terms) == {"terms": "Yes"}
    assert read("not sure", terms) == {}


def test_a_number_among_options_with_numbers_is_no_place() -> None:
    beds = asked("beds", options=("2 beds", "1 bed"))

    assert read("2", beds) == {"beds": "2 beds"}
    assert read("option 2", beds) == {"beds": "1 bed"}


def test_an_option_that_was_not_asked_for_must_be_named_in_full() -> None:
    room = field("room_type", options=ROOMS)

    assert read("a deluxe suite for 2 guests", room) == {"room_type": "Deluxe suite"}
    assert read("two double rooms", room) == {"room_type": "Double room"}
    assert read("something deluxe", room) == {}
    assert read("the second one", room) == {}
    assert read("do you have a deluxe suite?", room) == {}


def test_an_enum_type_is_a_choice() -> None:
    assert read("Business, please", asked("cabin", "economy|business")) == {"cabin": "business"}
    assert read("whatever is cheapest", asked("cabin", "economy|business")) == {}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("my name is Ada", {"guest_name": "Ada"}),
        ("My name is Ada Lovelace and I need a room", {"guest_name": "Ada Lovelace"}),
        ("I'm Ada", {"guest_name": "Ada"}),
        ("hi, this is Grace Hopper", {"guest_name": "Grace Hopper"}),
        ("call me Al", {"guest_name": "Al"}),
        ("ich heiße Jörg", {"guest_name": "Jörg"}),
        ("je m'appelle Zoé", {"guest_name": "Zoé"}),
        ("guest name: Ada Lovelace, email: ada@example.org",
         {"guest_name": "Ada Lovelace", "email": "ada@example.org"}),
        ("I'm Ada from Berlin, ada@example.org", {"guest_name": "Ada", "email": "ada@example.org"}),
        ("write to ada.l+x@mail.example.co.uk.", {"email": "ada.l+x@mail.example.co.uk"}),
        ("call me on +44 20 7946 0958", {"phone_number": "+44 20 7946 0958"}),
        ("my number is 555-123-4567", {"phone_number": "555-123-4567"}),
        ("I'm Jean-Luc Picard", {"guest_name": "Jean-Luc Picard"}),
        ("this is Dr. Grace Hopper", {"guest_name": "Dr. Grace Hopper"}),
        ("reach me under 5551234567", {"phone_number": "5551234567"}),
        ("not eve@example.org but ada@example.org", {"email": "ada@example.org"}),
        ("o'neil@example.org", {"email": "o'neil@example.org"}),
        ("'ada@example.org'", {"email": "ada@example.org"}),
        ("call 0171 1234567, not 0171 7654321", {"phone_number": "0171 1234567"}),
        ("not 0171 1234567", {}),
        ("my account at the bank on the corner is 5551234567", {}),
        ("I'm sorry", {}),
        ("I'm interested", {}),
        ("I'm German", {}),
        ("call me tomorrow", {}),
        ("account 12345678", {}),
        ("it happened on 2026-10-12", {}),
        ("Ada", {}),
    ],
)  # fmt: skip
def test_who_somebody_is_and_how_to_reach_them(text: str, values: dict[str, Any]) -> None:
    assert read(text, field("guest_name"), field("email"), field("phone_number")) == values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Ada", "Ada"),
        ("ada lovelace", "ada lovelace"),
        ("my name is Ada", "Ada"),
        ("It's Ada Lovelace.", "Ada Lovelace"),
        ("I'm ada", "ada"),
        ("Jean-Luc O'Neil", "Jean-Luc O'Neil"),
        ("{{user.secret}}", "{{user.secret}}"),
        ("Mr. Smith", "Mr. Smith"),
        ("Will Smith", "Will Smith"),
        ("her name is Grace", "Grace"),
        ("just Ada", "Ada"),
        ("Ada, not Eve", "Ada"),
        ("mi chiamo Giulia", "Giulia"),
        ("我叫李明", "李明"),
        ("私の名前は山田です", "山田"),
    ],
)  # fmt: skip
def test_the_answer_to_a_question_for_a_name_is_the_name(text: str, value: str) -> None:
    assert read(text, asked("name")) == {"name": value}


@pytest.mark.parametrize(
    "text",
    ["yes", "no", "why do you need it?", "I won't say", "hello", "42", "do I have to?", "ok", "I'm sorry", "I'm tired",
     "I'm in a hurry", "I'm a teacher", "I'm calling for Grace", "I'm Grace's husband", "I want to talk to a human",
     "ada or eve"],
)  # fmt: skip
def test_what_is_no_name_is_none(text: str) -> None:
    assert read(text, asked("name")) == {}
    assert read("Ada", asked("name")) == {"name": "Ada"}


def test_first_and_last_names_share_an_introduction() -> None:
    both = (field("first_name"), field("last_name"))

    assert read("my name is Ada Lovelace", *both) == {"first_name": "Ada", "last_name": "Lovelace"}
    assert read("my name is Ada", *both) == {"first_name": "Ada"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12345678", "12345678"),
        ("it's 12345678", "12345678"),
        ("my account number is DE89-3704", "DE89-3704"),
        ("4111 1111 1111 1111", "4111 1111 1111 1111"),
        ("AB12CD", "AB12CD"),
        ("XKCD", "XKCD"),
        ("007", "007"),
        ("AB 123", "AB 123"),
        ("MY ACCOUNT IS 123", "123"),
        ("ab123, not ab124", "ab123"),
    ],
)  # fmt: skip
def test_a_number_that_counts_nothing_is_kept_as_it_was_written(text: str, value: str) -> None:
    assert read(text, asked("account_number")) == {"account_number": value}


@pytest.mark.parametrize("text", ["I don't have one", "none", "lost it", "savings", "not AB-123"])
def test_what_is_no_code_is_none(text: str) -> None:
    assert read(text, asked("account_number")) == {}
    assert read("12345678", asked("account_number")) == {"account_number": "12345678"}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("English", {"language": "English"}),
        ("in English please", {"language": "English"}),
        ("I speak German", {"language": "German"}),
        ("not German, English", {"language": "English"}),
        ("Klingon", {"language": "Klingon"}),
        ("English or German", {}),
        ("what languages do you speak?", {}),
    ],
)
def test_a_language_is_read_by_its_name(text: str, values: dict[str, Any]) -> None:
    assert read(text, asked("language")) == values
    assert read("please answer in German", field("language")) == {"language": "German"}
    assert read("I am German", field("language")) == {}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("my order number is A-1234 and it never came", {"order_number": "A-1234"}),
        ("order #99871 is broken", {"order_number": "99871"}),
        ("order: 99871", {"order_number": "99871"}),
        ("I ordered 3 lamps", {}),
        ("I want to order 3 lamps", {}),
        ("my order is late", {}),
    ],
)  # fmt: skip
def test_a_code_that_was_not_asked_for_needs_its_label(text: str, values: dict[str, Any]) -> None:
    assert read(text, field("order_number")) == values


def test_prose_is_kept_whole() -> None:
    said = "It's broken since 3 May and I paid 20 dollars."

    assert read(said, asked("issue_description"), field("amount"), field("incident_date")) == {
        "issue_description": said
    }
    assert read("What do you mean?", asked("issue_description")) == {}
    assert read("What is my balance?", asked("question")) == {"question": "What is my balance?"}
    assert read("call me at +49 30 1234567", asked("issue"), field("phone")) == {"phone": "+49 30 1234567"}
    assert read("Can you fix my bill?", asked("issue")) == {"issue": "Can you fix my bill?"}
    assert read("The lamp is broken, my email is ada@example.org", asked("issue"), field("email")) == {
        "email": "ada@example.org",
        "issue": "The lamp is broken",
    }


def test_what_a_user_typed_stays_text() -> None:
    for typed in ("{{admin.password}}", "1+1", "DROP TABLE users", "${x}", "<b>hi</b>"):
        assert read(typed, asked("nickname")) == {"nickname": typed}


@pytest.mark.parametrize(
    ("text", "wanted", "value"),
    [
        ("100-200", asked("budget", "number", range=True), {"from": 100, "to": 200}),
        ("between 100 and 200 euros", asked("budget", "number", range=True), {"from": 100, "to": 200}),
        ("up to 300", asked("budget", "number", range=True), {"from": None, "to": 300}),
        ("at least 50", asked("budget", "number", range=True), {"from": 50, "to": None}),
        ("no more than 300", asked("budget", "number", range=True), {"from": None, "to": 300}),
        ("200", asked("budget", "number", range=True), {"from": 200, "to": 200}),
        ("a budget of 100 to 200", field("budget", "number", range=True), {"from": 100, "to": 200}),
        ("from 3 to 5 May", asked("travel", "date", range=True), {"from": "2027-05-03", "to": "2027-05-05"}),
        ("May 3-5", field("travel", "date", range=True), {"from": "2027-05-03", "to": "2027-05-05"}),
        ("two nights from 3 May", asked("travel", "date", range=True), {"from": "2027-05-03", "to": "2027-05-05"}),
        ("sauna, pool and a bar", asked("amenities", list=True), ["sauna", "pool", "a bar"]),
        ("pool", asked("amenities", "string[]"), ["pool"]),
        ("1, 2 and 5", asked("rows", "number", list=True), [1, 2, 5]),
        ("3 May and 5 May", asked("visits", "date[]"), ["2027-05-03", "2027-05-05"]),
        ("business and first", asked("cabins", options=CLASSES, list=True), ["Business", "First"]),
        ("a@example.org, b@example.org", asked("emails", "email[]"), ["a@example.org", "b@example.org"]),
        ("tags: red, blue", field("tags", list=True), ["red", "blue"]),
    ],
)  # fmt: skip
def test_ranges_and_lists(text: str, wanted: FieldSpec, value: Any) -> None:
    assert read(text, wanted) == {wanted.name: value}


def test_a_range_or_list_is_not_made_of_nothing() -> None:
    assert read("100", field("budget", "number", range=True)) == {}
    assert read("the budget is 100", field("budget", "number", range=True)) == {"budget": {"from": 100, "to": 100}}
    assert read("I know 3 people", field("rows", "number", list=True)) == {}
    assert read("rows 3 and 4", field("rows", "number", list=True)) == {"rows": [3]}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("from Berlin to Lisbon", {"origin": "Berlin", "destination": "Lisbon"}),
        ("leaving Berlin for good", {"origin": "Berlin"}),
        ("a flight to Lisbon from Berlin on Friday", {"origin": "Berlin", "destination": "Lisbon"}),
        ("I want to talk to Anna", {}),
        ("reply in English", {}),
        ("pay in Euros", {}),
        ("send it to Anna", {}),
        ("to lisbon", {}),
        ("What is the weather in Lisbon?", {}),
        ("the destination is too far", {}),
        ("my destination is Lisbon", {"destination": "Lisbon"}),
    ],
)  # fmt: skip
def test_places_that_were_not_asked_for_need_a_word_and_a_capital(text: str, values: dict[str, Any]) -> None:
    assert read(text, field("origin"), field("destination")) == values


@pytest.mark.parametrize(
    ("text", "wanted", "values"),
    [
        ("wire 500 euros to Grace", (field("amount"), field("recipient")), {"amount": 500, "recipient": "Grace"}),
        ("the amount is 1,250.00 and the reference is rent", (field("amount"), field("reference", "string")),
         {"amount": 1250.0}),
        ("transfer $2k", (field("amount"),), {"amount": 2000}),
        ("send 500 to Grace Hopper", (field("amount"), asked("recipient_name")),
         {"amount": 500, "recipient_name": "Grace Hopper"}),
        ("pay Grace $250 tomorrow", (asked("payee"), field("amount"), field("transfer_date")),
         {"payee": "Grace", "amount": 250, "transfer_date": "2026-11-05"}),
        ("to Grace Hopper", (asked("recipient"),), {"recipient": "Grace Hopper"}),
        ("send 2 copies", (field("amount"),), {}),
        ("payee: Acme Ltd; amount: 20", (field("payee"), field("amount")), {"payee": "Acme Ltd", "amount": 20}),
        ("between 100 and 200 dollars", (asked("min_price"), field("max_price")),
         {"min_price": 100, "max_price": 200}),
        ("at least $100 and at most $200", (field("min_price"), field("max_price")),
         {"min_price": 100, "max_price": 200}),
        ("I'm 34 years old", (field("age"),), {"age": 34}),
        ("34", (asked("age"),), {"age": 34}),
        ("born 12 May 1990", (field("birth_date"),), {"birth_date": "1990-05-12"}),
        ("I travel on 12 May 2027", (field("birth_date"),), {}),
        ("12 May", (asked("date_of_birth", "date"),), {}),
        ("12 May '85", (asked("date_of_birth", "date"),), {"date_of_birth": "1985-05-12"}),
        ("I was born in 1990", (asked("age", "number"),), {}),
        ("I'm 36", (asked("age", "number"),), {"age": 36}),
        ("it happened on 3 May", (field("incident_date"),), {"incident_date": "2026-05-03"}),
        ("2.5", (asked("copies", "integer"),), {}),
        ("2", (asked("copies", "integer"),), {"copies": 2}),
        ("priority high, please", (field("priority", options=("low", "high")),), {"priority": "high"}),
        ("it is urgent", (field("is_urgent"),), {"is_urgent": True}),
        ("it is not urgent", (field("is_urgent"),), {"is_urgent": False}),
        ("the serial is X99", (field("serial_number"),), {"serial_number": "X99"}),
        ("seat 14A", (field("seat"),), {"seat": "14A"}),
        ("my name is Ada", (asked("nickname"), field("full_name")), {"full_name": "Ada"}),
        ("product = lamp", (field("product"),), {"product": "lamp"}),
        ("the product should be lamps", (field("product"),), {"product": "lamps"}),
        ("my product is lamps and I need it", (field("product"),), {"product": "lamps"}),
        ("product: lamps and I need it", (field("product"),), {"product": "lamps and I need it"}),
        ("the product is I don't know", (field("product"),), {}),
        ("red, 2 guests", (asked("color"), field("guests")), {"color": "red", "guests": 2}),
        ("you never know which one goes well with it, 2 guests", (asked("color"), field("guests")), {"guests": 2}),
        ("my product is the lamp and I hate it", (field("product"),), {}),
        ("travelling with Luna today", (field("pet", hints=("travelling with",)),), {"pet": "Luna today"}),
        ("anything with tax of 19", (field("vat", "number", hints=("tax",)),), {"vat": 19}),
        ("object", (asked("thing", "object"),), {}),
    ],
)  # fmt: skip
def test_banks_shops_and_support_desks(text: str, wanted: tuple[FieldSpec, ...], values: dict[str, Any]) -> None:
    assert read(text, *wanted) == values


def test_no_word_is_used_for_two_fields() -> None:
    twice = (field("first_email", "email"), field("second_email", "email"))

    assert read("ada@example.org", *twice) == {"first_email": "ada@example.org"}
    assert read("ada@example.org or al@example.org", *twice) == {
        "first_email": "ada@example.org",
        "second_email": "al@example.org",
    }
    assert read("2 people", field("guests"), field("people")) == {"guests": 2}
    assert read("to Lisbon", field("city"), field("destination")) == {"city": "Lisbon"}
    assert read("to Lisbon", field("city"), asked("destination")) == {"destination": "Lisbon"}


def test_check_in_and_check_out_begin_and_end_a_stay() -> None:
    stay = (field("start_date"), field("end_date"))

    assert read("check out on 5 May, check in 3 May", *stay) == {"start_date": "2027-05-03", "end_date": "2027-05-05"}
    assert read("check out on 5 May", *stay) == {"end_date": "2027-05-05"}


def test_times_go_to_their_fields_in_order() -> None:
    shift = (field("start_time"), field("end_time"))

    assert read("from 9am to 5pm", *shift) == {"start_time": "09:00", "end_time": "17:00"}
    assert read("9am", *shift) == {}
    assert read("9am", field("start_time"), asked("end_time")) == {"end_time": "09:00"}
    assert read("9am or 10am", field("start_time")) == {}
    assert read("9am and 10am", field("slots", "time[]")) == {"slots": ["09:00", "10:00"]}


def test_a_type_is_guessed_from_a_name() -> None:
    assert read("12", asked("price_per_night")) == {"price_per_night": 12}
    assert read("12", asked("amount_usd")) == {"amount_usd": 12}
    assert read("12", asked("party_size")) == {"party_size": 12}
    assert read("12", asked("number_of_lamps")) == {"number_of_lamps": 12}
    assert read("yes", asked("terms_accepted")) == {"terms_accepted": True}
    assert read("tomorrow", asked("date_of_birth_of_cat", "date")) == {"date_of_birth_of_cat": "2026-11-05"}
    assert read("9am tomorrow", asked("starts_at")) == {"starts_at": "2026-11-05T09:00:00Z"}
    assert read("3 May", asked("check_in")) == {"check_in": "2027-05-03"}
    assert read("ada@example.org", asked("email_address")) == {"email_address": "ada@example.org"}
    assert read("555-123-4567", asked("mobile_number")) == {"mobile_number": "555-123-4567"}
    assert read("12", asked("room_number")) == {"room_number": "12"}
    assert read("12", asked("color")) == {"color": "12"}
    assert read("ada@example.org", asked("contact_email", "string")) == {"contact_email": "ada@example.org"}


def test_nights_that_are_wanted_themselves_end_no_stay() -> None:
    stay = (field("checkin_date"), field("checkout_date"))

    assert read("two nights from 3 May", *stay, field("nights")) == {"checkin_date": "2027-05-03", "nights": 2}
    assert read("two nights from 3 May", *stay)["checkout_date"] == "2027-05-05"


def test_one_day_goes_to_the_field_that_was_asked_for() -> None:
    assert read("5 May", field("checkin_date"), asked("checkout_date")) == {"checkout_date": "2027-05-05"}
    assert read("5 May", asked("checkin_date"), field("checkout_date")) == {"checkin_date": "2027-05-05"}
    assert read("until 5 May", asked("checkin_date"), field("checkout_date")) == {"checkout_date": "2027-05-05"}
    assert read("5 May", field("signup_date"), field("renewal_date")) == {}


def test_the_day_on_which_somebody_calls_back_is_for_no_field() -> None:
    deadline = field("deadline", "date")

    assert read("I'll tell you tomorrow", deadline) == {}
    assert read("I need it tomorrow", deadline) == {"deadline": "2026-11-05"}


def test_a_declared_type_is_believed_before_a_name() -> None:
    assert read("around noon or so", asked("arrival_date", "string")) == {"arrival_date": "around noon or so"}
    assert read("around noon or so", asked("arrival_date")) == {}


def test_without_words_or_fields_there_are_no_values() -> None:
    assert extract([asked("name")], "", now=NOW) == {}
    assert extract([], "Ada", now=NOW) == {}
    assert extract([asked("name")], "Ada", now=NOW) == {"name": "Ada"}
