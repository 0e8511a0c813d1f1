"""Fill text fields from labels, codes, names, places, languages, e-mail addresses and phone numbers."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from memoranda.abl.understanding.answers import is_evasive, take_text, tidy
from memoranda.abl.understanding.extraction import SENTENCE_ENDS, STOPS, Extraction, is_denied, is_refused
from memoranda.abl.understanding.fields import FieldProfile
from memoranda.abl.understanding.vocabulary import LANGUAGES, MONEY_WORDS, MONTHS, NOT_NAMES, word_set
from memoranda.abl.understanding.words import LONGEST

# --- e-mail addresses and phone numbers -----------------------------------------------------------------------------

EMAIL = re.compile(r"(?:[\w.+%-]|(?<=\w)'(?=\w)){1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_PHONE = re.compile(r"(?<![\w.,])(?:\+|\()?\d[\d ()./-]{4,24}\d(?!\w)")
_PLAINLY = re.compile(r"[+0(]|\d{3}[-. ]\d{3}[-. ]\d{4}$")
_CALL_WORDS = word_set(
    """
    phone call mobile tel telephone number reach cell whatsapp text telefon handy telefone telefono portable
    """
)
_DIGITS = range(6, 16)
_NEAR = 5


def is_phone(text: str) -> bool:
    """Say whether a whole text is a phone number.

    >>> is_phone("+44 20 7946 0958"), is_phone("(555) 123-4567"), is_phone("12"), is_phone("call me")
    (True, True, False, False)
    """
    return bool(_PHONE.fullmatch(text)) and sum(map(str.isdecimal, text)) in _DIGITS


def take_emails(extraction: Extraction, profiles: list[FieldProfile]) -> None:
    """Fill e-mail fields from left to right; a list gets all addresses."""
    said = extraction.said
    places = [place for place, word in enumerate(said.words) if "@" in word and EMAIL.fullmatch(word)]
    places = [place for place in places if not is_refused(said.words, place, place + 1)]
    for profile in profiles:
        places = [place for place in places if extraction.is_free(place, place + 1)]
        if not places:
            return
        if profile.many:
            for place in places:
                extraction.spend(place, place + 1)
            extraction.values[profile.name] = [said.part(place, place + 1) for place in places]
        else:
            extraction.take(profile, places[0], places[0] + 1, said.part(places[0], places[0] + 1))


def take_phones(extraction: Extraction, profiles: list[FieldProfile]) -> None:
    """Fill phone fields; digits that may be something else count only if the field was asked for."""
    said = extraction.said
    found: list[tuple[int, int, str]] = []
    starts = [start for start, _ in said.spans]
    extraction.times()
    for match in _PHONE.finditer(said.text, 0, LONGEST):
        first = bisect_right(starts, match.start()) - 1
        last = bisect_left(starts, match.end())
        digits = sum(map(str.isdecimal, match[0]))
        known = not extraction.is_free(first, last) or any(extraction.spent[first:last])
        if digits in _DIGITS and not known and not is_refused(said.words, first, last):
            found.append((first, last, " ".join(match[0].split())))
    for profile in profiles:
        for first, last, number in found:
            if extraction.is_free(first, last) and (profile.asked or _is_plain(extraction, first, number)):
                extraction.take(profile, first, last, [number] if profile.many else number)
                break


def _is_plain(extraction: Extraction, first: int, number: str) -> bool:
    before = extraction.said.words[max(first - _NEAR, 0) : first]
    return bool(_PLAINLY.match(number)) or not _CALL_WORDS.isdisjoint(before)


# --- `field: value` and `field is value` ----------------------------------------------------------------------------

_MARKS = frozenset({":", "="})
_VERBS = word_set("is are ist est will should would sera")
DETERMINERS = word_set(
    """
    my the our your a an and its his her their full is mein meine mon ma mi meu minha with new change set update
    make
    """
)
_NO_VALUES = word_set(
    """
    not still unclear unknown wrong too very so missing what correct fine great good bad important ok okay open
    up being always also now already really quite a an beautiful nice late early lost broken where when how why
    that unfortunately no yes gone pending unavailable expensive cheap similar different the
    """
)
"""Words after "is" that describe the field instead of giving its value: `the destination is too far`."""

_TURNS = frozenset({"but", "because", "so", "please"})
_NEW_THOUGHTS = word_set("i i'm my we the please it our there i'd need want")
_DIGIT = re.compile(r"\d")


class _Label(NamedTuple):
    """A label at the word `first` whose value begins at `begin`; `marked` if a colon separates them."""

    profile: FieldProfile
    first: int
    begin: int
    marked: bool


def take_labelled(extraction: Extraction, profiles: list[FieldProfile]) -> None:
    """Fill text fields from `field: value`, `field = value` and `field is value`."""
    known = extraction.said.known
    if known.isdisjoint(_MARKS) and known.isdisjoint(_VERBS) and not any(profile.hints for profile in profiles):
        return
    labels = [label for profile in profiles for label in _find_labels(extraction, profile)]
    firsts = sorted(label.first for label in labels)
    for label in labels:
        if extraction.is_open(label.profile) and extraction.is_statement(label.first):
            following = bisect_right(firsts, label.first)
            _take_label_value(
                extraction, label, firsts[following] if following < len(firsts) else len(extraction.said.words)
            )


def _find_labels(extraction: Extraction, profile: FieldProfile) -> list[_Label]:
    said = extraction.said
    found: list[_Label] = []
    for rank, phrase in enumerate((*profile.labels, *profile.hints)):
        hint = rank >= len(profile.labels)
        for place in said.places(phrase):
            before = said.word(place - 1)
            if not hint and before.isalpha() and before not in DETERMINERS:
                continue
            behind = place + len(phrase)
            begin = _value_begin(said.words, behind, hint=hint, whole=rank == 0)
            if begin:
                found.append(_Label(profile, place, begin, said.words[behind] in _MARKS))
    return found


def _value_begin(words: list[str], place: int, *, hint: bool, whole: bool) -> int:
    """Return where the value after a label begins, or 0."""
    if place >= len(words):
        return 0
    if words[place] in _MARKS:
        return place + 1
    if words[place] in _VERBS and (whole or hint):
        return place + 2 if words[place + 1 : place + 2] == ["be"] else place + 1
    return place if hint and words[place] not in STOPS else 0


def _take_label_value(extraction: Extraction, label: _Label, end: int) -> None:
    said, profile, begin = extraction.said, label.profile, label.begin
    closing = SENTENCE_ENDS | {";"} if profile.many else SENTENCE_ENDS | {",", ";"}
    last = begin
    while last < end and not (said.words[last] in closing and not _is_inside(extraction, last)):
        last += 1
    if not label.marked:
        last = _cut(extraction, begin, last)
    if begin >= last or not extraction.is_free(begin, last):
        return
    if not label.marked and (said.words[begin] in _NO_VALUES or is_evasive(said, begin, last)):
        return
    value = tidy(said.part(begin, last))
    if profile.role != "code" or _DIGIT.search(value):
        take_text(extraction, profile, label.first, last, value)


def _is_inside(extraction: Extraction, place: int) -> bool:
    """Say whether punctuation is part of a word, such as the point of `example.org`."""
    said = extraction.said
    return said.words[place] != "\n" and said.is_attached(place) and said.is_attached(place + 1)


def _cut(extraction: Extraction, begin: int, last: int) -> int:
    """Return the end of a value that another clause follows without punctuation: `my city is Porto and I need …`."""
    words = extraction.said.words
    for place in range(begin + 1, last):
        if words[place] in _TURNS or (words[place] == "and" and extraction.said.word(place + 1) in _NEW_THOUGHTS):
            return place
    return last


# --- codes: numbers of orders, accounts and cards -------------------------------------------------------------------

_BEFORE_CODES = word_set("number no . # : is id code ref reference = was my the nr ending in with -")
_IN_CODES = frozenset("-/._")
_MOST_BETWEEN = 4
_LONGEST_PREFIX = 3


def take_codes(extraction: Extraction, profiles: list[FieldProfile]) -> None:
    """Fill fields for codes from `order number AB-123`; the field that was asked for takes a single code."""
    if not extraction.said.digits:
        return
    for profile in profiles:
        if profile.role in ("code", "plain") and extraction.is_open(profile):
            only = profile.asked and profile.role == "code"
            span = _code_after_label(extraction, profile) or (_only_code(extraction) if only else None)
            if span:
                code = extraction.said.part(*span)
                extraction.take(profile, *span, [code] if profile.many else code)


def _code_after_label(extraction: Extraction, profile: FieldProfile) -> tuple[int, int] | None:
    said = extraction.said
    for label in profile.labels if profile.role == "code" else profile.labels[:1]:
        for place in said.places(label):
            behind = first = place + len(label)
            while said.word(first) in _BEFORE_CODES and first < behind + _MOST_BETWEEN:
                first += 1
            last = _code_end(extraction, first)
            # "Order 3 lamps" has no order number; "my order 99871" and "order #99871" have one.
            certain = label == profile.labels[0] or first > behind or said.word(place - 1) in DETERMINERS
            if last and certain and extraction.is_free(first, last):
                return first, last
    return None


def _code_end(extraction: Extraction, first: int) -> int:
    """Return the end of a run of letters, digits and hyphens that has a digit, or 0."""
    said = extraction.said
    if first >= len(said.words) or not said.words[first][0].isalnum():
        return 0
    last = first + 1
    while said.is_attached(last) and (said.words[last][0].isalnum() or _inside_code(extraction, last)):
        last += 1
    return last if any(map(str.isdecimal, said.part(first, last))) else 0


def _inside_code(extraction: Extraction, place: int) -> bool:
    said = extraction.said
    return said.words[place] in _IN_CODES and said.is_attached(place + 1) and said.words[place + 1][0].isalnum()


def _only_code(extraction: Extraction) -> tuple[int, int] | None:
    """Return the only code of a text; consecutive groups of digits are one: `4111 1111 1111 1111`."""
    said = extraction.said
    spans: list[tuple[int, int]] = []
    place = 0
    while place < len(said.words):
        last = _code_end(extraction, place) if not said.is_attached(place) else 0
        if not last or not extraction.is_free(place, last) or is_refused(said.words, place, last):
            place = max(last, place + 1)
            continue
        if spans and spans[-1][1] == place and said.words[place].isdecimal():
            spans[-1] = (spans[-1][0], last)
        else:
            spans.append((place - _is_prefix(extraction, place - 1), last))
        place = last
    return spans[0] if len(spans) == 1 else None


def _is_prefix(extraction: Extraction, place: int) -> bool:
    """Say whether a word is the prefix of the code after it: the letters of `AB 123`."""
    said = extraction.said
    if place < 0 or not said.words[place].isalpha() or len(said.words[place]) > _LONGEST_PREFIX:
        return False
    # In a text that is all upper case, upper case means nothing.
    return said.part(place, place + 1).isupper() and (place == 0 or not said.text.isupper())


# --- names of people ------------------------------------------------------------------------------------------------

_INTRODUCTIONS: tuple[tuple[tuple[str, ...], bool], ...] = tuple(
    (tuple(phrase.rstrip("*").split()), phrase.endswith("*"))
    for phrase in (
        "my name is/the name is/my name's/the name's/call me*/i'm*/i am*/this is*/mein name ist/ich heisse/"
        "ich bin*/je m'appelle/me llamo/mi nombre es/soy*/meu nome e/chamo - me/je suis*"
    ).split("/")
)
"""Phrases before a name; after those with a star, only a capitalized word is a name."""
_AFTER_NAMES = word_set(
    """
    and from but i i'm my with for at in on to here by please und et y e calling speaking of who is thanks thank
    the a
    """
)
_MOST_NAME_WORDS = 6
_LONGEST_TITLE = 3


def take_names(extraction: Extraction, profiles: list[FieldProfile]) -> None:
    """Fill fields for a person's name from an introduction."""
    profiles = [
        profile
        for profile in profiles
        if profile.role in ("person", "first name", "last name") and extraction.is_open(profile)
    ]
    span = _introduction(extraction) if profiles else None
    if span is None:
        return
    begin, first, last = span
    said = extraction.said
    extraction.spend(begin, first)
    for profile in profiles:
        if profile.role == "person":
            extraction.take(profile, first, last, said.part(first, last))
            return
        if profile.role == "first name":
            extraction.take(profile, first, first + 1, said.part(first, first + 1))
        elif last - first > 1:
            extraction.take(profile, first + 1, last, said.part(first + 1, last))


def _introduction(extraction: Extraction) -> tuple[int, int, int] | None:
    """Return the start of an introduction, and the start and end of the name in it."""
    known = extraction.said.known
    for phrase, strict in _INTRODUCTIONS:
        if phrase[0] not in known:
            continue
        for place in extraction.said.places(phrase):
            span = _name_at(extraction, place + len(phrase), strict=strict) if extraction.is_statement(place) else None
            if span is not None:
                return place, *span
    return None


def _name_at(extraction: Extraction, first: int, *, strict: bool) -> tuple[int, int] | None:
    """Return the start and end of a name, including hyphens and the point of `Dr.`."""
    said = extraction.said
    last = first
    while last < len(said.words) and last - first < _MOST_NAME_WORDS and _is_name_word(extraction, last, strict=strict):
        last += 1
        joins = said.word(last) == "-" and said.is_attached(last + 1)
        shortened = said.word(last) == "." and len(said.words[last - 1]) <= _LONGEST_TITLE
        if said.is_attached(last) and (joins or shortened) and said.word(last + 1).isalpha():
            last += 1
    return (
        (first, last) if last > first and said.words[last - 1].isalpha() and extraction.is_free(first, last) else None
    )


def _is_name_word(extraction: Extraction, place: int, *, strict: bool) -> bool:
    said = extraction.said
    word = said.words[place]
    if not word.replace("'", "").isalpha() or word in _AFTER_NAMES or word in NOT_NAMES:
        return False
    return not strict or said.is_capitalized(place)


# --- places and recipients ------------------------------------------------------------------------------------------

_TOWARDS = word_set("to in visit visiting nach para em en")
_AWAY = frozenset({"from", "von", "aus", "desde", "leaving"})
_GIVEN = word_set("to pay paying for an")
_CUES = {"place": _TOWARDS, "origin": _AWAY, "recipient": _GIVEN}
_LIVES = word_set("live lives lived living based work working am i'm born been was were went wohne lebe war")
"""Words before a place that is not a destination: `I live in Porto`."""
_WORDS_TO_PEOPLE = word_set(
    """
    talk talking speak speaking send sending sent write listen reply connect connected transfer transferred pay
    give said say wire forward according thanks email related due next close regards respect hear heard bought
    mail letter message
    """
)
_THINGS = word_set(
    """
    i i'm i'd i'll you ok pdf general total advance case mind summer winter spring autumn person a an my our it
    this that be me us order
    """
)
_NO_PLACES = LANGUAGES | MONEY_WORDS | frozenset(MONTHS) | _THINGS
_NO_TRAVEL = word_set(
    """
    go travel fly book visit stay be see get make find reserve rent leave come spend drive head move change know
    have do cancel ask check order buy pay talk speak send say use try start plan explore relax return arrive
    """
)
_AFTER_PLACES = word_set(
    """
    for from on with at in to and by please next this or until till tomorrow today tonight i we my our thanks if
    but because as is are was would will then via around between starting leaving arriving after before where
    that und et y e fur pour mit am vom it sounds instead not rather
    """
)
_INSIDE_PLACES = word_set("de of the del la da do am an der upon sur los las le les dos das den")
_SHORTENED = frozenset({"st", "mt", "ft", "pt"})
_TRAVEL = word_set("go going travel traveling travelling trip fly flying flight drive")
_MOST_PLACE_WORDS = 8


def take_places(extraction: Extraction, profiles: list[FieldProfile]) -> None:
    """Fill fields for places and recipients from a capitalized name after a word such as `to`.

    A name in lower case counts only for a place that was asked for.
    """
    for profile in profiles:
        cues = _CUES.get(profile.role)
        if cues is None or not extraction.is_open(profile) or extraction.said.known.isdisjoint(cues):
            continue
        extraction.times()
        span = _place_after(extraction, profile, cues, capitalized=True)
        if span is None and profile.asked and profile.role != "recipient":
            span = _place_after(extraction, profile, cues, capitalized=False)
        if span:
            extraction.take(profile, span[0], span[1], extraction.said.part(*span))


def _place_after(
    extraction: Extraction, profile: FieldProfile, cues: frozenset[str], *, capitalized: bool
) -> tuple[int, int] | None:
    said = extraction.said
    for place, word in enumerate(said.words[:-1]):
        if word not in cues or not extraction.is_statement(place) or is_denied(said.words, place):
            continue
        if profile.role != "recipient" and (_is_to_people(extraction, place) or said.word(place - 1) in _LIVES):
            continue
        first = place + 1
        if said.words[first] == "the" and not said.is_capitalized(first):
            first += 1
        last = _place_end(extraction, first, capitalized=capitalized)
        if last > first and extraction.is_free(first, last):
            return first, last
    return None


def _is_to_people(extraction: Extraction, place: int) -> bool:
    """Say whether a person is meant: `send it to Anna`."""
    for word in reversed(extraction.said.words[max(place - 3, 0) : place]):
        if word in _TRAVEL or word in STOPS:
            return False
        if word in _WORDS_TO_PEOPLE:
            return True
    return False


def _place_end(extraction: Extraction, first: int, *, capitalized: bool) -> int:
    """Return the end of the name of a place that begins at a word; the same position if none does."""
    said = extraction.said
    begin = said.word(first)
    if begin in _NO_PLACES or (not capitalized and begin in _NO_TRAVEL):
        return first
    last = first
    while last - first < _MOST_PLACE_WORDS and _is_place_word(extraction, last, capitalized=capitalized):
        last += 1
        while last - first < _MOST_PLACE_WORDS and _is_hyphen(extraction, last):
            last += 2
        last += _is_joint(extraction, last)
    return last


def _is_hyphen(extraction: Extraction, place: int) -> bool:
    said = extraction.said
    return (
        said.word(place) == "-"
        and said.is_attached(place)
        and said.is_attached(place + 1)
        and said.words[place + 1].isalpha()
    )


def _is_joint(extraction: Extraction, place: int) -> bool:
    """Say whether a word joins two capitalized words into one name: the `de` of Rio, the point of `St.`."""
    said = extraction.said
    if place + 1 >= len(said.words) or not said.is_capitalized(place + 1) or said.words[place + 1] in _AFTER_PLACES:
        return False
    return said.words[place] in _INSIDE_PLACES or (said.words[place] == "." and said.words[place - 1] in _SHORTENED)


def _is_place_word(extraction: Extraction, place: int, *, capitalized: bool) -> bool:
    said = extraction.said
    word = said.word(place)
    if (
        not word.replace("'", "").isalpha()
        or word in _AFTER_PLACES
        or extraction.spent[place]
        or extraction.taken[place]
    ):
        return False
    return said.is_capitalized(place) if capitalized else word not in _NO_PLACES


# --- languages ------------------------------------------------------------------------------------------------------

_LANGUAGE_CUES = word_set("in speak speaks speaking prefer language auf sprache en em falo hablo parle")


def take_languages(extraction: Extraction, profiles: list[FieldProfile]) -> None:
    """Fill fields for a language from `in German` and `I speak German`; a single language answers the question."""
    profiles = [profile for profile in profiles if profile.role == "language" and extraction.is_open(profile)]
    said = extraction.said
    if not profiles or said.known.isdisjoint(LANGUAGES):
        return
    places = [
        place
        for place, word in enumerate(said.words)
        if word in LANGUAGES and extraction.is_free(place, place + 1) and extraction.is_statement(place)
    ]
    places = [place for place in places if not is_denied(said.words, place)]
    for profile in profiles:
        if len(places) == 1 and (profile.asked or said.word(places[0] - 1) in _LANGUAGE_CUES):
            extraction.take(profile, places[0], places[0] + 1, said.part(places[0], places[0] + 1))
            return
