"""Describe the fields and intents to look for: their types, and the words that announce them."""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from typing import Literal, cast

import msgspec

from memoranda.abl.keywords import type_name
from memoranda.abl.understanding.vocabulary import COUNT_NAMES, COUNTED, word_set
from memoranda.abl.understanding.words import name_words

Kind = Literal[
    "any", "text", "number", "boolean", "date", "datetime", "time", "email", "phone", "object", "choice", "null"
]

_KINDS: dict[str, Kind] = {"string": "text", "integer": "number"}
"""Kinds that have another name than the type."""
_LIST_OF = re.compile(r"(?:array|list)\s*(?:<|\[|\(|of\s)([^<>\[\]()]+)[>\])]?", re.IGNORECASE)
_ENUM = re.compile(r"enum\s*[\[(<{]([^\[\]()<>{}]*)[\])>}]", re.IGNORECASE)
_LONGEST_TYPE = 1_000


class Shape(msgspec.Struct, frozen=True):
    """What a value looks like: its kind, or one of `choices`; with `many`, a list of such values."""

    kind: Kind
    many: bool = False
    whole: bool = False
    nullable: bool = False
    choices: tuple[str, ...] = ()
    others: tuple[Kind, ...] = ()


@lru_cache(maxsize=512)
def read_shape(type: str | None) -> Shape:
    """Return the shape that a type declares; an unknown type is text.

    >>> read_shape("string[]"), read_shape("economy|business").choices, read_shape("number|null").nullable
    (Shape(kind='text', many=True, whole=False, nullable=False, choices=(), others=()), ('economy', 'business'), True)
    """
    plain = (type or "").strip()[:_LONGEST_TYPE]
    if not plain:
        return Shape("any")
    if plain.endswith("?"):
        return msgspec.structs.replace(read_shape(plain[:-1]), nullable=True)
    if plain.endswith("[]"):
        return msgspec.structs.replace(read_shape(plain[:-2]), many=True)
    if type_name(plain) == "array":
        return Shape("any", many=True)
    if found := _LIST_OF.fullmatch(plain):
        return msgspec.structs.replace(read_shape(found[1].strip().removesuffix("s")), many=True)
    if found := _ENUM.fullmatch(plain):
        return Shape("choice", choices=_choices(re.split("[,|]", found[1])))
    return _union(plain.split("|")) if "|" in plain else _single(plain)


def _single(plain: str) -> Shape:
    if plain[0] in "'\"":
        return Shape("choice", choices=_choices([plain]))
    return Shape(_kind(plain) or "text", whole=type_name(plain) == "integer")


def _kind(word: str) -> Kind | None:
    name = type_name(word.strip())
    return None if name is None or name == "array" else _KINDS.get(name) or cast("Kind", name)


def _union(parts: list[str]) -> Shape:
    """Return the shape of `string|null` or `economy|business`: types if all parts are types, else options."""
    kinds: dict[str, Kind | None] = {part: _kind(part) for part in parts}
    nullable = "null" in kinds.values()
    rest = [part for part in parts if kinds[part] != "null"]
    known: list[Kind] = [kind for part in rest if (kind := kinds[part]) is not None]
    if len(known) < len(rest):
        return Shape("choice", nullable=nullable, choices=_choices(rest))
    if not known:
        return Shape("null", nullable=True)
    whole = len(rest) == 1 and _single(rest[0].strip()).whole
    return Shape(known[0], nullable=nullable, whole=whole, others=tuple(known[1:]))


def _choices(parts: list[str]) -> tuple[str, ...]:
    return tuple(plain for part in parts if (plain := part.strip().strip("'\"")))


Role = Literal[
    "plain", "free", "question", "person", "first name", "last name", "recipient", "place", "origin", "code", "language"
]
Side = Literal["", "start", "end", "least", "most"]


class FieldSpec(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A field to find in the user's words.

    `type` is as declared, or None to guess it from the name; `options` are the allowed values; `hints` are words or
    phrases near the value. With `range` the value is `{"from": …, "to": …}`, with `list` a list of values. With `asked`
    the user was just asked for the field, so the whole answer may be its value.
    """

    name: str
    type: str | None = None
    options: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    range: bool = False
    list: bool = False
    asked: bool = False

    @cached_property
    def profile(self) -> FieldProfile:
        """How rules look for the field; computed once."""
        return _profile(self)


class FieldProfile(msgspec.Struct, frozen=True, kw_only=True):
    """How rules look for a field: what its value looks like, and which words announce it."""

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
    """What the field counts, such as people or nights; empty if nothing."""
    past: bool
    """Whether a day without a year is in the past rather than in the future."""
    birth: bool
    cues: frozenset[str]
    labels: tuple[tuple[str, ...], ...]
    """The names of the field, the full one first."""
    hints: tuple[tuple[str, ...], ...]
    options: tuple[str, ...]

    def when(self, *, asked: bool) -> FieldProfile:
        """Return the profile for a field that the user was just asked for, or was not."""
        return self if self.asked is asked else msgspec.structs.replace(self, asked=asked)


def _profile(wanted: FieldSpec) -> FieldProfile:
    words = name_words(wanted.name)
    if "per" in words[1:]:
        # `price_per_night` does not count nights.
        words = words[: words.index("per")]
    shape = _shape(wanted, words)
    options = wanted.options or shape.choices
    kind = "choice" if options else shape.kind
    counted = _unit_counted(words)
    many = wanted.list or shape.many
    return FieldProfile(
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

_DATES = word_set("date dates day checkin checkout birthday dob deadline")
_TIMES = frozenset({"time"})
_MOMENTS = frozenset({"datetime", "timestamp"})
_EMAILS = frozenset({"email", "mail", "emails"})
_PHONES = frozenset({"phone", "mobile", "telephone", "tel", "cellphone", "whatsapp"})
_MONEY = word_set(
    """
    amount price budget cost costs fee total payment salary income deposit balance sum rent rate spend fare limit tip
    donation
    """
)
_NUMBERS = _MONEY | word_set(
    """
    age quantity qty count guests adults children kids rooms people persons passengers tickets seats travelers
    travellers nights days weeks months years hours minutes pax rating score stars percent percentage weight
    height distance bags items attendees participants visitors headcount copies units pieces
    """
)
_COUNT_PREFIXES = (("number", "of"), ("no", "of"), ("count", "of"), ("how", "many"), ("nr", "of"))
_YES_OR_NO = word_set("is has wants needs can should does did include includes with accepts agrees allow allows")
_DONE = frozenset({"confirmed", "agreed", "accepted", "approved", "consent", "included"})
_CURRENCIES = word_set("usd eur gbp chf dollars euros pounds")


def _shape(wanted: FieldSpec, words: tuple[str, ...]) -> Shape:
    declared = read_shape(wanted.type)
    if declared.kind == "any":
        guessed = _guess(words)
        return msgspec.structs.replace(declared, kind="text" if guessed == "any" else guessed)
    if declared.kind == "text" and (guessed := _guess(words)) in ("email", "phone"):
        # E-mail addresses and phone numbers are declared as strings; the name tells them apart.
        return msgspec.structs.replace(declared, kind=guessed)
    return declared


def _guess(words: tuple[str, ...]) -> Kind:
    """Return the kind that a name suggests by its last word, or by `num` or `is` at its beginning."""
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

# --- the role -----------------------------------------------------------------------------------------------

_PERSONS = word_set(
    """
    first last full given family guest customer user client contact caller traveler traveller passenger patient
    account holder my your nick display preferred lead person member attendee visitor owner applicant candidate
    sender recipient payee beneficiary
    """
)
_RECIPIENTS = word_set("recipient payee beneficiary receiver addressee")
_PLACES = word_set("destination city location country place town region airport where state island area")
_ORIGINS = word_set("origin from departure source pickup home start leaving")
_FREE = word_set(
    """
    description details detail notes note comment comments reason message feedback issue problem complaint
    request requests summary explanation instructions story wishes preferences text review remarks
    """
)
_QUESTIONS = frozenset({"question", "query", "inquiry", "enquiry", "search", "topic"})
_CODES = word_set("number code id reference ref iban pin otp zip zipcode postcode sku plate vin passport")
_STARTS = word_set(
    """
    start from begin beginning departure depart arrival arrive pickup outbound checkin since opening
    """
)
_ENDS = word_set("end to until return checkout dropoff finish inbound till closing")
_LEAST = frozenset({"min", "minimum", "least", "lowest"})
_MOST = frozenset({"max", "maximum", "most", "highest"})
_PAST = word_set(
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


def _unit_counted(words: tuple[str, ...]) -> str:
    return next((COUNT_NAMES[word] for word in reversed(words) if word in COUNT_NAMES), "")


# --- the words that announce a value -------------------------------------------------------------------------------

_EMPTY = word_set(
    """
    num number of no count total max min maximum minimum date time day the a is has wants needs can should does
    did include includes with accepts agrees allow allows size value in out to for at my your preferred desired
    requested user customer how many field and or code id reference ref
    """
)
"""Words of a name that do not distinguish a field."""
_BORN = frozenset({"born", "birthday", "birth", "dob"})


def _cues(words: tuple[str, ...], kind: Kind, counted: str, hints: tuple[str, ...]) -> frozenset[str]:
    """Return the words that are expected next to a number, a day or a yes."""
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
    """Return the singular and the plural of a word."""
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


# --- intents --------------------------------------------------------------------------------------------------------

FUNCTION_WORDS = word_set(
    """
    a an the my your our i i'd i'm we you it me to of for on in at with want wants would like please can could
    is are be do does and or user customer asks about this that some der die das den ein eine ich mein meine le
    la les un une mon ma mes el los las mi mis o os as um uma meu minha de du need will there have has
    """
)
"""Words that say nothing about an intent."""
_ENDINGS = ("ations", "ation", "ings", "ing", "ies", "ied", "ed", "es", "s")
_SHORTEST = 3


class Intent(msgspec.Struct, frozen=True, dict=True):
    """What a user may want: a label, and other phrases for it."""

    label: str
    keywords: tuple[str, ...] = ()

    @cached_property
    def phrases(self) -> tuple[frozenset[str], ...]:
        """The label and the keywords, each as the stems of its words that count."""
        found: list[frozenset[str]] = []
        for text in (self.label, *self.keywords):
            words = [word for part in re.split(r"[\s_]+", text) for word in name_words(part)]
            telling = [word for word in words if word not in FUNCTION_WORDS] or words
            if telling:
                found.append(frozenset(map(stem, telling)))
        return tuple(dict.fromkeys(found))

    @cached_property
    def stems(self) -> frozenset[str]:
        """All stems of its phrases; a text without any of them does not express the intent."""
        return frozenset[str]().union(*self.phrases)


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """Return a word without its ending, so that `cancelling` and `cancellation` are `cancel`.

    >>> stem("cancelling"), stem("cancellation"), stem("changed"), stem("dates"), stem("bus")
    ('cancel', 'cancel', 'chang', 'dat', 'bus')
    """
    if len(word) <= _SHORTEST:
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST and not word.endswith("ss"):
            word = word[: -len(ending)] + ("y" if ending in ("ies", "ied") else "")
            break
    word = word.removesuffix("'")
    if len(word) > _SHORTEST and word[-1] == word[-2] and word[-1] in "bdglmnprt":
        word = word[:-1]
    return word.removesuffix("e") if len(word) > _SHORTEST else word
