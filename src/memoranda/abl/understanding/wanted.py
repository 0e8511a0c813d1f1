"""A field that an agent wants in; how to look for it in what a user says out."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import msgspec

from memoranda.abl.understanding.shapes import Kind, Shape, read_shape
from memoranda.abl.understanding.vocabulary import COUNT_NAMES, COUNTED, bag
from memoranda.abl.understanding.words import name_words

Role = Literal[
    "plain", "free", "question", "person", "first name", "last name", "recipient", "place", "origin", "code", "language"
]
Side = Literal["", "start", "end", "least", "most"]


class Wanted(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A field to find in the user's words.

    `type` is as declared, or None to guess it from the name; `options` are the values to choose from; `hints` are words
    or phrases that stand near the value. With `range` the value is `{"from": …, "to": …}`, with `list` several values.
    With `asked` the user was just asked for it, so that the whole answer may be its value.
    """

    name: str
    type: str | None = None
    options: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    range: bool = False
    list: bool = False
    asked: bool = False

    @cached_property
    def plan(self) -> Plan:
        """How the field is looked for; made once."""
        return _make_plan(self)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How a field is looked for: what its value is, and which words say that it comes."""

    name: str
    kind: Kind
    asked: bool
    many: bool
    span: bool
    """Whether the value has two ends."""
    single: bool
    """Whether it has one value, neither a list nor a range."""
    whole: bool
    role: Role
    side: Side
    money: bool
    counted: str
    """What is counted: people, nights…, or nothing."""
    past: bool
    """Whether a day without a year is rather one that was."""
    birth: bool
    cues: frozenset[str]
    labels: tuple[tuple[str, ...], ...]
    """What it is called, in full first."""
    hints: tuple[tuple[str, ...], ...]
    options: tuple[str, ...]

    def when(self, *, asked: bool) -> Plan:
        """Return how the field is looked for when the user was just asked for it, or was not."""
        return self if self.asked is asked else msgspec.structs.replace(self, asked=asked)


def _make_plan(wanted: Wanted) -> Plan:
    words = name_words(wanted.name)
    if "per" in words[1:]:
        # What a price is per is not what is counted.
        words = words[: words.index("per")]
    shape = _shape(wanted, words)
    options = wanted.options or shape.choices
    kind = "choice" if options else shape.kind
    counted = _counted(words)
    many = wanted.list or shape.many
    return Plan(
        name=wanted.name,
        kind=kind,
        asked=wanted.asked,
        many=many,
        span=wanted.range,
        single=not many and not wanted.range,
        whole=shape.whole,
        role=_role(words) if kind == "text" else "plain",
        side=_side(words, kind),
        money=not _MONEY.isdisjoint(words),
        counted=counted,
        past=not _PAST.isdisjoint(words),
        birth=not _BIRTH.isdisjoint(words),
        cues=_cues(words, kind, counted, wanted.hints),
        labels=_labels(words, kind),
        hints=tuple(hint for text in wanted.hints if (hint := name_words(text))),
        options=options,
    )


# --- the type -------------------------------------------------------------------------------------------------------

_DATES = bag("date dates day checkin checkout birthday dob deadline")
_TIMES = frozenset({"time"})
_MOMENTS = frozenset({"datetime", "timestamp"})
_EMAILS = frozenset({"email", "mail", "emails"})
_PHONES = frozenset({"phone", "mobile", "telephone", "tel", "cellphone", "whatsapp"})
_MONEY = bag(
    """
    amount price budget cost costs fee total payment salary income deposit balance sum rent rate spend fare limit tip
    donation
    """
)
_NUMBERS = _MONEY | bag(
    """
    age quantity qty count guests adults children kids rooms people persons passengers tickets seats travelers
    travellers nights days weeks months years hours minutes pax rating score stars percent percentage weight
    height distance bags items attendees participants visitors headcount copies units pieces
    """
)
_COUNT_PREFIXES = (("number", "of"), ("no", "of"), ("count", "of"), ("how", "many"), ("nr", "of"))
_YES_OR_NO = bag("is has wants needs can should does did include includes with accepts agrees allow allows")
_DONE = frozenset({"confirmed", "agreed", "accepted", "approved", "consent", "included"})
_CURRENCIES = bag("usd eur gbp chf dollars euros pounds")


def _shape(wanted: Wanted, words: tuple[str, ...]) -> Shape:
    declared = read_shape(wanted.type)
    if declared.kind == "any":
        guessed = _guess(words)
        return msgspec.structs.replace(declared, kind="text" if guessed == "any" else guessed)
    if declared.kind == "text" and (guessed := _guess(words)) in ("email", "phone"):
        # An address is a text, too; the name says which text.
        return msgspec.structs.replace(declared, kind=guessed)
    return declared


def _guess(words: tuple[str, ...]) -> Kind:
    """Return the kind of value that a name suggests: its last word decides, `num` and `is` at its front."""
    if not words:
        return "text"
    first, last = words[0], words[-1]
    for names, kind in _BY_LAST_WORD:
        if last in names:
            return kind
    if first == "num" or words[:2] in _COUNT_PREFIXES or _is_amount(words):
        return "number"
    if last in ("number", "no", "contact") and not _PHONES.isdisjoint(words):
        return "phone"
    if last == "address" and not _EMAILS.isdisjoint(words):
        return "email"
    if last in _DONE or (first in _YES_OR_NO and len(words) > 1):
        return "boolean"
    if words[-2:] in (("check", "in"), ("check", "out")) or words[-2:-1] == ("date",):
        return "date"
    return "datetime" if last == "at" and len(words) > 1 else "text"


def _is_amount(words: tuple[str, ...]) -> bool:
    sized = words[-1] == "size" and words[0] in ("party", "group", "team")
    return sized or (words[-1] in _CURRENCIES and not _MONEY.isdisjoint(words))


_BY_LAST_WORD: tuple[tuple[frozenset[str], Kind], ...] = (
    (_DATES, "date"),
    (_TIMES, "time"),
    (_MOMENTS, "datetime"),
    (_EMAILS, "email"),
    (_PHONES, "phone"),
    (_NUMBERS, "number"),
)

# --- what it is about -----------------------------------------------------------------------------------------------

_PERSONS = bag(
    """
    first last full given family guest customer user client contact caller traveler traveller passenger patient
    account holder my your nick display preferred lead person member attendee visitor owner applicant candidate
    sender recipient payee beneficiary
    """
)
_RECIPIENTS = bag("recipient payee beneficiary receiver addressee")
_PLACES = bag("destination city location country place town region airport where state island area")
_ORIGINS = bag("origin from departure source pickup home start leaving")
_FREE = bag(
    """
    description details detail notes note comment comments reason message feedback issue problem complaint
    request requests summary explanation instructions story wishes preferences text review remarks
    """
)
_QUESTIONS = frozenset({"question", "query", "inquiry", "enquiry", "search", "topic"})
_CODES = bag("number code id reference ref iban pin otp zip zipcode postcode sku plate vin passport")
_STARTS = bag(
    """
    start from begin beginning departure depart arrival arrive pickup outbound checkin since opening
    """
)
_ENDS = bag("end to until return checkout dropoff finish inbound till closing")
_LEAST = frozenset({"min", "minimum", "least", "lowest"})
_MOST = frozenset({"max", "maximum", "most", "highest"})
_PAST = bag(
    """
    purchase purchased incident transaction issued accident loss charge charged order ordered happened occurred
    hired last previous invoice birth dob birthday born since
    """
)
_BIRTH = frozenset({"birth", "dob", "birthday", "born", "birthdate"})


def _role(words: tuple[str, ...]) -> Role:
    last = words[-1] if words else ""
    if last in ("surname", "lastname") or words[-2:] in (("last", "name"), ("family", "name")):
        return "last name"
    if last in ("firstname", "forename") or words[-2:] in (("first", "name"), ("given", "name")):
        return "first name"
    if last in _RECIPIENTS or (last == "name" and words[0] in _RECIPIENTS):
        return "recipient"
    if last in ("name", "fullname") and all(word in _PERSONS for word in words[:-1]):
        return "person"
    if last in _QUESTIONS:
        return "question"
    if last in _FREE:
        return "free"
    if last in _CODES:
        return "code"
    if last == "language":
        return "language"
    if last in ("origin", "from") or (not _PLACES.isdisjoint(words) and not _ORIGINS.isdisjoint(words)):
        return "origin"
    return "place" if last in _PLACES or (words and words[0] in _PLACES and last == "name") else "plain"


def _side(words: tuple[str, ...], kind: Kind) -> Side:
    if kind in ("date", "datetime", "time"):
        joined = "".join(words)
        if "checkin" in joined or not _STARTS.isdisjoint(words):
            return "start"
        if "checkout" in joined or "dropoff" in joined or not _ENDS.isdisjoint(words):
            return "end"
    elif kind == "number":
        if not _LEAST.isdisjoint(words):
            return "least"
        if not _MOST.isdisjoint(words):
            return "most"
    return ""


def _counted(words: tuple[str, ...]) -> str:
    return next((COUNT_NAMES[word] for word in reversed(words) if word in COUNT_NAMES), "")


# --- the words that say that it comes -------------------------------------------------------------------------------

_EMPTY = bag(
    """
    num number of no count total max min maximum minimum date time day the a is has wants needs can should does
    did include includes with accepts agrees allow allows size value in out to for at my your preferred desired
    requested user customer how many field and or code id reference ref
    """
)
"""Words of a name that say nothing about which field it is."""
_BORN = frozenset({"born", "birthday", "birth", "dob"})


def _cues(words: tuple[str, ...], kind: Kind, counted: str, hints: tuple[str, ...]) -> frozenset[str]:
    """Return the words that stand beside the value of a number, a day or a yes."""
    telling = {word for word in words if word not in _EMPTY} or set(words)
    cues = {form for word in telling for form in _forms(word)}
    if kind == "number":
        cues |= COUNTED.get(counted, frozenset())
        if "age" in telling:
            cues |= {"old", "aged"}
    elif kind in ("date", "datetime") and not _BIRTH.isdisjoint(words):
        cues |= _BORN
    if kind != "text":
        cues |= {word for hint in hints for word in name_words(hint) if word not in _EMPTY}
    return frozenset(cues)


def _forms(word: str) -> tuple[str, ...]:
    """Return a word in the singular and the plural."""
    if word.endswith("ies"):
        return word, f"{word[:-3]}y"
    if word.endswith("s") and not word.endswith("ss") and len(word) > 3:
        return word, word[:-1]
    return word, f"{word}s"


def _labels(words: tuple[str, ...], kind: Kind) -> tuple[tuple[str, ...], ...]:
    found = [words] if words else []
    if len(words) > 1 and words[-1] in ("date", "time", "number", "name", "code", "id", "reference"):
        found.append(words[:-1])
    return tuple(found)
