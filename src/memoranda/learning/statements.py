"""Read what a message states about its writer, by the rules of `patterns.toml`, without a model.

Rules match English, German, Spanish and French clauses, and would rather miss a statement than invent one. They read
clauses one by one and ignore most context: no irony, no "yes" to a question, no fact that takes two sentences; but
"actually no" takes back the sentence before, and "not Tuesday, Thursday" corrects it. Questions, conditions, stories,
texts to work on, mails, quotes, code, what holds only for now, and anything that looks like a secret state nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from unicodedata import normalize

import msgspec

from memoranda.model.block import canonical_line

LONGEST_SENTENCE = 400
"""Characters; a longer sentence is a pasted text."""
LONGEST_VALUE = 120
"""Maximum number of characters that a statement takes from the sentence."""
PORTION = 8_000
"""Characters searched at once: a search holds the GIL, about a millisecond for 1,500 of them."""

_ARTICLE = re.compile(
    r"(not )?(?:(?:the|an?|einen?|einem|einer?|der|die|das|dem|den|el|los|las|una?|le|la|les|une) (?=\S)|l'(?=\S))"
)


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """One statement about the speaker, as a line in the third person.

    >>> one = Statement(text="Dislikes pizza", attribute="liking", object="not pizza", about="pizza")
    >>> one.key, one.value
    ('user.liking:pizza', 'not pizza')
    """

    text: str
    """The line, in the speaker's language."""
    attribute: str
    """What it is about, the same in every language: `place`, `liking`, `family.sister`."""
    object: str
    """The value alone, such as `Porto`; `not pizza` for what is disliked."""
    single: bool = False
    """Whether only one statement of this attribute is true at a time, as a place of residence is."""
    core: bool = False
    """Whether it belongs into every prompt, or is only looked up."""
    ends: bool = False
    """Whether it takes something back: "I no longer live in Oslo"."""
    valid_from: datetime | None = None
    """Since when it is true, where the message says so."""
    about: str = ""
    """What the key names where it is not the object: `pizza` of `not pizza`."""

    @property
    def key(self) -> str:
        """The name that statements share which replace each other: `user.place`, `user.liking:pizza`."""
        return f"user.{self.attribute}" if self.single else f"user.{self.attribute}:{_plain(self.about or self.object)}"

    @property
    def value(self) -> str:
        """What two statements under one key are compared by: they agree if it is the same."""
        return _plain(self.object)


def _plain(text: str) -> str:
    """Return the canonical form of a value without its article."""
    plain = canonical_line(text)
    found = _ARTICLE.match(plain)
    return plain if found is None else (found[1] or "") + plain[found.end() :]


# --- the table


class _Noun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    words: str
    one: bool = False
    thing: bool = False


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule of the table: what it is about, and for each language its lines, each with its patterns."""

    attribute: str
    single: bool = False
    core: bool = True
    ends: bool = False
    also: bool = False
    """Whether it is tried in addition to the first rule that matches."""
    plan: bool = False
    """Whether it needs a date that is not over."""
    date: bool = False
    """Whether the object is a day of the year."""
    verbatim: bool = False
    """Whether the line quotes the speaker, in languages whose lines are not put into the third person."""
    versus: bool = False
    """Whether the object compares two things, so that "A to B" replaces "B to A"."""
    about: str = ""
    object: str = ""
    en: dict[str, list[str]] = {}
    de: dict[str, list[str]] = {}
    es: dict[str, list[str]] = {}
    fr: dict[str, list[str]] = {}


class _Ellipsis(msgspec.Struct, frozen=True):
    """A subject that is left out: "I live in Faro and work as a nurse"."""

    subject: str
    verbs: str
    conjunction: str = msgspec.field(name="and")


class _Calendar(msgspec.Struct, frozen=True):
    months: list[str]
    weekdays: list[str]
    numbers: list[str]
    before: str
    ago: str
    until: str
    units: dict[str, str]
    relative: dict[str, str]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    parts: dict[str, Any]
    guards: dict[str, str]
    nouns: dict[str, _Noun]
    words: dict[str, dict[str, str]]
    ellipses: list[_Ellipsis]
    calendar: _Calendar
    rules: list[_Row]


class Rule(NamedTuple):
    """A pattern of the table, and the line that it gives."""

    row: _Row
    language: str
    line: str
    pattern: re.Pattern[str]
    guards: tuple[re.Pattern[str], ...]
    """What its names do not begin with."""


LANGUAGES = ("en", "de", "es", "fr")
_TABLE = msgspec.toml.decode(Path(__file__).with_name("patterns.toml").read_bytes(), type=_Table)
_PART = re.compile(r"(?<!P)<([A-Za-z]+)>")
_BREAK = re.compile(r"\n {4}")
_NOUNS = {
    canonical_line(word): (name, noun.one) for name, noun in _TABLE.nouns.items() for word in noun.words.split("|")
}
# Guards are looked up after a match: as parts of every pattern, they would take seconds to compile.
_CALENDAR_WORDS = re.compile(rf"\b(?:{_BREAK.sub('', _TABLE.guards['calendar'])})\b", re.IGNORECASE)
_GUARDS = {
    name: re.compile(rf"^(?:{_BREAK.sub('', words)})\b", re.IGNORECASE)
    for name, words in _TABLE.guards.items()
    if name != "calendar"
}


def _full_pattern(pattern: str, language: str) -> str:
    """Return a pattern with its parts filled in."""
    parts: dict[str, str] = {**_TABLE.parts, **_TABLE.parts.get(language, {})}
    joined = _BREAK.sub("", pattern)
    while found := _PART.search(joined):
        joined = joined[: found.start()] + _BREAK.sub("", parts[found[1]]) + joined[found.end() :]
    return joined


def _alternation(name: str) -> str:
    """Return an alternation of the words of all languages."""
    texts = "|".join(_BREAK.sub("", one) for one in _TABLE.words["texts"].values())
    return "|".join(_BREAK.sub("", one).replace("<texts>", texts) for one in _TABLE.words[name].values())


@cache
def rules_of(language: str) -> tuple[Rule, ...]:
    """Return the rules of a language; they are compiled when a clause in it is first read."""
    return tuple(
        Rule(
            row,
            language,
            line,
            re.compile(_full_pattern(pattern, language), re.IGNORECASE),
            tuple(guard for name, guard in _GUARDS.items() if f"<{name}>" in pattern),
        )
        for row in _TABLE.rules
        for line, patterns in getattr(row, language).items()
        for pattern in patterns
    )


_OPENS = {
    language: re.compile(_BREAK.sub("", words), re.IGNORECASE) for language, words in _TABLE.words["opens"].items()
}

# --- what is removed from a message before it is read

_CODE = re.compile(r"```[^`]*+(?:(?!```)`[^`]*+)*+(?:```)?|~~~[^~]*+(?:(?!~~~)~[^~]*+)*+(?:~~~)?|`[^`\n]*`")
_CITED = re.compile(r"^[^\S\n]*+(?:>|\|).*$", re.MULTILINE)
_OPENING_QUOTE = re.compile("[“„«\"]|(?<!\\w)['\u2018]")
_QUOTES = (
    ("“„«", re.compile("[”“»]"), re.compile("[”“»]"), 0, 2_000),
    ('"', re.compile('"'), re.compile('"'), 0, sys.maxsize),
    ("'\u2018", re.compile("['\u2019\n]"), re.compile(r"['\u2019](?!\w)"), 12, 500),
)
"""For each kind of quote: opening marks, where to look for the end, the closing mark, minimum and maximum length."""
# The text after "Translate this:" and below the headers of a mail is not the user's own.
_TO_WORK_ON = re.compile(rf"\b(?:{_alternation('work')})\b[^\n:]{{0,160}}:.*", re.IGNORECASE | re.DOTALL)
_GIVEN = re.compile(
    r"^[ \t]*(?:from|to|subject|sent|cc|von|an|betreff|de|para|asunto|à|objet)[ \t]*:.*"
    r"|^[ \t]*--[^\n]*\bmessage\b.*|\bbegin forwarded message\b.*"
    r"|\b(?:wrote|writes|says|said|replied|asked|asks|schrieb|escribió|a écrit)\b[^\n:.]{0,60}:.*"
    rf"|\b(?:{_alternation('texts')})\b[^\n:.]{{0,60}}:[ \t]*\n.*"
    rf"|\b(?:{_alternation('given')})",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)
_JOKE = re.compile(
    rf"\b(?:{_alternation('joke')})\b|(?:[.!…]|\s[—–-])\s*not\s*(?:[.!]++\s*)?$", re.IGNORECASE | re.MULTILINE
)
_FICTION = re.compile(rf"\b(?:{_alternation('fiction')})\b", re.IGNORECASE)
_WINKS = re.compile("[😂🤣😜😉🙃🙄😏]")
_PICTURES = re.compile("[\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff\u2600-\u27bf\ufe0f\u200d]")
_SPACES = re.compile(r"[^\S\n]+")

# --- sentences and clauses

# A full stop after a title, an initial or the number of a day does not end a sentence.
_ENDS = re.compile(
    r"(?<![.!?…])(?:(?<!\bSt)(?<!\bMr)(?<!\bMrs)(?<!\bMs)(?<!\bDr)(?<!\bMt)(?<!\b[A-Z])|[.!?…])"
    rf"(?!(?:(?<=\b\d)|(?<=\b\d\d))\.\s(?i:{'|'.join(_TABLE.calendar.months)})\b)([.!?…]++)(?=\s|$)|(\n+)"
)
_BEGIN = _alternation("begin")
_CLAUSES = re.compile(
    r"\s*(?:;|\s[—–-]\s|—|\()\s*"
    rf"|,?\s+(?:{_alternation('split')})\s*"
    rf"|,\s*(?:(?:and|so|then|und|y|et)\s+)?(?=(?:{_BEGIN})(?<!')\b|j')"
    r"|\s+(?:and\s+(?=(?:i|i'm|my|our|please|we)\b)|und\s+(?=(?:ich|mein|meine|wir|bitte)\b)"
    r"|y\s+(?=(?:yo|me|mi|soy|vivo|tengo|trabajo|hablo|prefiero|odio|no)\b)|et\s+(?=(?:je|mon|ma|nous)\b|j'))"
    r"|\s*\)\s*",
    re.IGNORECASE,
)
_ELLIPSES = tuple(
    (
        re.compile(rf"^(?:\w+,? ){{0,3}}?{one.subject}\b", re.IGNORECASE),
        re.compile(rf"{one.conjunction}(?=(?:{one.verbs}) )", re.IGNORECASE),
        f"; {one.subject} ",
    )
    for one in _TABLE.ellipses
)
_HENCEFORTH = re.compile(
    r"\b(from now on|in (?:the )?future|going forward|ab jetzt|ab sofort|in zukunft|a partir de ahora|"
    r"de ahora en adelante|désormais|à partir de maintenant|à l'avenir),?(?: please| bitte| por favor)?",
    re.IGNORECASE,
)
# German nouns have capitals too: only behind a greeting, "ich bin" is likely to tell a name.
_GREETING = re.compile(
    r"^(?:hallo|hi|hey|servus|moin|guten (?:tag|morgen|abend))(?: zusammen)?,? (?:ich bin|hier ist) (?:die |der )?"
    r"(?=(?-i:[A-ZÄÖÜ])[\w-]+$)",
    re.IGNORECASE,
)
_LEAD_IN = re.compile(rf"(?:(?:{_alternation('lead')})(?: there| all| everyone)?\b[\s,:!–-]*)+", re.IGNORECASE)
_TAKES_BACK = re.compile(
    r"(?:actually,? no|no,? wait|wait,? no|scratch that|correction|nein,? warte|quatsch|no,? espera|non,? attends?)\b",
    re.IGNORECASE,
)
_CORRECTS = re.compile(r"(?:\w+,? )??(?:not|nicht) ([\w-]+),? (?:but |sondern )?([\w-]+)", re.IGNORECASE)
_POLITE = re.compile(rf"(?<![\s,])[\s,]++(?:{_alternation('polite')})$", re.IGNORECASE)
_OPEN = re.compile(_alternation("open"), re.IGNORECASE)
_REPORTED = re.compile(rf"\b(?:{_alternation('reported')})\b", re.IGNORECASE)
_FOR_NOW = re.compile(rf"\b(?:{_alternation('now')})(?:\b|(?<='))", re.IGNORECASE)
_SECRET = re.compile(
    rf"\b(?:{_alternation('secret')})\b|(?:\d[ -]?){{8,}}|\b(?:sk|pk|ghp|key|xox[a-z])[-_][\w-]{{8,}}|\bAKIA\w{{12,}}",
    re.IGNORECASE,
)
_DATE_DIGITS = re.compile(
    r"\b(?:19|20)\d\d-[01]\d(?:-[0-3]\d)?(?:[T ]\d\d:\d\d(?::\d\d)?)?\b|\b[0-3]?\d[-/. ][01]?\d[-/. ](?:19|20)\d\d\b"
    r"|\b(?:19|20)\d\d ?[-–] ?(?:19|20)\d\d\b"
)
_UNFIT = re.compile(r"[<>{}\[\]|\\\x00-\x1f\x7f]|https?://|www\.", re.IGNORECASE)
_NAMING = frozenset({"name", "place", "origin", "childhood", "birthplace", "employer"})
"""Attributes that need a name, which cannot be recognized in a text that is all upper case."""
_NO_NAMES = frozenset(
    {"back", "maybe", "later", "now", "asap", "not"}
    | {canonical_line(word) for one in (*_TABLE.calendar.months, *_TABLE.calendar.weekdays) for word in one.split("|")}
)
_OF_THE_SPEAKER = re.compile(rf"\b(?:{_alternation('self')})", re.IGNORECASE)
_THIRD_PERSON = tuple(
    (re.compile(rf"\b{said}\b", re.IGNORECASE), told)
    for said, told in (
        ("i'm|i am", "they are"),
        ("i was", "they were"),
        ("i've|i have", "they have"),
        ("i'll", "they will"),
        ("i'd", "they would"),
        ("i", "they"),
        ("myself", "themselves"),
        ("mine", "theirs"),
        ("my", "their"),
        ("me", "them"),
    )
)
_ADVERB = re.compile(r"^(?:Always|Never|Only)\b")
_VERSUS = re.compile(
    r" (?:to|over|rather than|instead of|than|als|statt|gegenüber|antes que|a la|al|a|à la|au|à|plutôt que) "
)


def statements_in(
    text: str, *, at: datetime | None = None, between_portions: Callable[[], None] | None = None
) -> list[Statement]:
    """Return what a message plainly states about its writer, in order.

    `at` is when it was said, which "last May" needs. `between_portions` is called every few milliseconds; it may raise.

    >>> [one.text for one in statements_in("Hi! I live in Porto, and I prefer trains to planes. Is it far?")]
    ['Lives in Porto', 'Prefers trains to planes']
    """
    pause = between_portions or (lambda: None)
    portions: list[str] = []
    for own in _own_words(text):
        if portions:
            pause()
        if _FICTION.search(own) or _JOKE.search(own):
            return []
        portions.append(own)
    found: list[tuple[str, list[Statement]]] = []
    for sentence in chain.from_iterable(map(_sentences, portions)):
        if len(portions) > 1:
            pause()
        if found and _TAKES_BACK.match(sentence):
            found.pop()
        if found and (corrected := _correction(found[-1][0], sentence)):
            found[-1] = corrected, _sentence_statements(corrected, at)
        else:
            found.append((sentence, _sentence_statements(sentence, at)))
    return [stated for _, statements in found for stated in statements]


def has_secret(text: str) -> bool:
    """Return whether a text looks as if it has a password, a key, or the number of a card or a phone."""
    return _SECRET.search(_DATE_DIGITS.sub(" ", text)) is not None


def _correction(before: str, sentence: str) -> str | None:
    """Return the sentence before with the word that "not Tuesday, Thursday" corrects, if it has that word."""
    found = _CORRECTS.fullmatch(sentence.strip(" .!"))
    if found is None or found[1] not in before.split():
        return None
    return " ".join(found[2] if word == found[1] else word for word in before.split())


def _own_words(text: str) -> Iterator[str]:
    """Yield a message in portions, without code, quotes, and the texts that it asks to work on."""
    text = normalize("NFC", text.replace("\r\n", "\n").replace("’", "'").replace("\ufeff", ""))
    text = _WINKS.sub(" haha ", text)
    text = _strip_quotes(_CITED.sub(" ", _CODE.sub(" ", text)))
    for portion in _portions(text):
        own, orders = _TO_WORK_ON.subn(" ", portion)
        own, heads = _GIVEN.subn(" ", own)
        own = _SPACES.sub(" ", _PICTURES.sub(" ", own))
        yield own.replace("e.g.", "for example").replace("z.B.", "zum Beispiel").replace("p.ej.", "por ejemplo")
        if orders or heads:
            # The rest of the message is a text to work on.
            return


def _portions(text: str) -> Iterator[str]:
    """Yield a long text in pieces that end with a line, else with a sentence, else with a word."""
    begin = 0
    while len(text) - begin > PORTION:
        last = begin + PORTION
        cuts = (text.rfind(end, begin, last) + len(end) for end in ("\n", ". ", " "))
        end = next((cut for cut in cuts if cut > begin + PORTION // 2), last)
        yield text[begin:end]
        begin = end
    yield text[begin:]


def _strip_quotes(text: str) -> str:
    """Replace each quote by a space.

    A regular expression would search to the end again for each opening mark without a closing one.
    """
    pieces: list[str] = []
    ends = [-1] * len(_QUOTES)
    done = place = 0
    while found := _OPENING_QUOTE.search(text, place):
        place = found.end()
        kind = next(number for number, quotes in enumerate(_QUOTES) if found[0] in quotes[0])
        _, stop, closing, least, most = _QUOTES[kind]
        if ends[kind] < place:
            stopped = stop.search(text, place)
            ends[kind] = stopped.start() if stopped else len(text)
        if least <= ends[kind] - place <= most and (closed := closing.match(text, ends[kind])):
            pieces.append(text[done : found.start()])
            done = place = closed.end()
    return " ".join([*pieces, text[done:]])


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text that are short enough, and not questions."""
    begin = 0
    for end in [*_ENDS.finditer(text), None]:
        sentence = text[begin : end.start(end.lastindex or 0) if end else len(text)].strip(" \t\n-*•¿¡")
        begin = end.end() if end else len(text)
        asked = end is not None and "?" in (end[1] or "")
        if sentence and not asked and len(sentence) <= LONGEST_SENTENCE:
            yield sentence


def _sentence_statements(sentence: str, at: datetime | None) -> list[Statement]:
    """Return what a sentence states: nothing if it is a condition, reported or secret, only plans if it is for now."""
    found = [one for clause in _clauses(sentence) for one in _clause_statements(clause, at)]
    if not found or _OPEN.search(sentence) or _REPORTED.search(sentence) or has_secret(sentence):
        return []
    for_now = _FOR_NOW.search(sentence) is not None
    return [stated for stated, plan in found if plan or not for_now]


def _clauses(sentence: str) -> Iterator[str]:
    whole = _GREETING.sub("ich bin die ", _HENCEFORTH.sub(r"\1", sentence))
    for subject, conjunction, told in _ELLIPSES:
        if subject.match(whole):
            whole = conjunction.sub(told, whole)
    for clause in _CLAUSES.split(whole):
        said = clause.strip(" \t,.!…:¿¡")
        said = _LEAD_IN.sub("", said, count=1) if _LEAD_IN.match(said) else said
        while (shorter := _POLITE.sub("", said)) != said:
            said = shorter
        if said:
            yield said


def _clause_statements(clause: str, at: datetime | None) -> Iterator[tuple[Statement, bool]]:
    """Yield what the first matching rule states, and the rules that add to it; and whether it is a plan."""
    done = False
    for rule in chain.from_iterable(rules_of(one) for one, opens in _OPENS.items() if opens.match(clause)):
        if done and not rule.row.also:
            continue
        found = rule.pattern.fullmatch(clause)
        if found is None or not _is_guarded(rule, held := _groups(rule, found)):
            continue
        done = done or not rule.row.also
        if rule.row.attribute == "note" and (inner := list(_clause_statements(found[1], at))):
            yield from inner  # "remember that I live in Faro" is more than a note
            continue
        stated = _statement(rule, found, held, at)
        if stated is not None:
            yield stated, rule.row.plan


def _groups(rule: Rule, found: re.Match[str]) -> list[str]:
    """Return the groups of a match that a line may contain, in the third person."""
    named = set(found.re.groupindex.values())
    groups = [group or "" for number, group in enumerate(found.groups(), 1) if number not in named]
    return [_third_person(group) if rule.language == "en" else group.rstrip(" ,.;:!") for group in groups]


def _is_guarded(rule: Rule, held: list[str]) -> bool:
    """Return whether nouns are known ones, and names not other words with a capital."""
    of_noun = rule.row.attribute.startswith("{0}")
    if of_noun and _plain(held[0]) not in _NOUNS:
        return False
    names = [_ARTICLE.sub("", group, count=1) for group in (held[1:] if of_noun else held)]
    if any(guard.match(name) for guard in rule.guards for name in names):
        return False
    return not rule.guards or not _CALENDAR_WORDS.search(names[-1] if names else "")


def _statement(rule: Rule, found: re.Match[str], held: list[str], at: datetime | None) -> Statement | None:
    """Return what a rule makes of its match, or None where the words do not fit."""
    row = rule.row
    whole = " ".join(held)
    if not whole.strip() or len(whole) > LONGEST_VALUE or _UNFIT.search(whole):
        return None
    if rule.language != "en" and not row.verbatim and _OF_THE_SPEAKER.search(whole):
        return None
    naming = row.attribute in _NAMING or row.attribute.startswith("{0}")
    if naming and (found.string.isupper() or canonical_line(held[-1]) in _NO_NAMES):
        return None
    when = next((said for said in found.groupdict().values() if said), "")
    moment = _moment(when, at, ahead=row.plan) if when else None
    if row.plan and (moment is None or (at is not None and moment.date < at - timedelta(days=1))):
        return None
    told = {"when": f"{_until(when)}{moment.text}"} if row.plan and moment else {}
    text = " ".join(rule.line.format(*held, **told).split())
    object_ = row.object.format(*held, **told) if row.object else held[-1]
    about = row.about.format(*held)
    if row.date:
        day = _day(held[-1])
        if day is None:
            return None
        object_ = day
    if row.versus:
        object_ = text[text.find(held[0]) :]
        sides = [_plain(side) for side in _VERSUS.split(object_)]
        about = " / ".join(sorted(sides)) if len(sides) == 2 else ""
    nouns = [_NOUNS.get(_plain(group), (_plain(group), False)) for group in held]
    return Statement(
        text=text[:1].upper() + text[1:],
        attribute=row.attribute.format(*(name for name, _ in nouns)),
        object=" ".join(object_.split()),
        single=row.single or (row.attribute == "{0}" and nouns[0][1]),
        core=row.core,
        ends=row.ends,
        valid_from=None if row.plan or moment is None else moment.date,
        about=about,
    )


def _third_person(said: str) -> str:
    for first, third in _THIRD_PERSON:
        said = first.sub(third, said)
    return _ADVERB.sub(lambda found: found[0].lower(), said.rstrip(" ,.;:!"))


# --- dates


class _Moment(NamedTuple):
    date: datetime
    text: str
    """As written in a line: `2026`, `2026-04` or `2026-04-18`."""


def _numbers(lists: list[str]) -> dict[str, int]:
    return {canonical_line(word): number for number, words in enumerate(lists, 1) for word in words.split("|")}


_CALENDAR = _TABLE.calendar
_MONTHS, _WEEKDAYS, _COUNTS = map(_numbers, (_CALENDAR.months, _CALENDAR.weekdays, _CALENDAR.numbers))
_MONTH = rf"(?P<month>{'|'.join(_CALENDAR.months)})\b"
_YEAR = r"(?P<year>(?:19|20)\d\d)\b"
_BEFORE = _BREAK.sub("", _CALENDAR.before)
_DAYS = tuple(
    re.compile(rf"\b{pattern}", re.IGNORECASE)
    for pattern in (
        rf"{_YEAR}-(?P<month>[01]\d)-(?P<day>[0-3]\d)\b",
        rf"(?P<day>[0-3]?\d)(?:st|nd|rd|th|er|º|\.)? (?:of |de )?{_MONTH}(?:,? (?:de |del )?{_YEAR})?",
        rf"{_MONTH} (?P<day>[0-3]?\d)(?:st|nd|rd|th)?\b(?:,? {_YEAR})?",
    )
)
_DATES = (
    *_DAYS,
    *(
        re.compile(rf"\b{pattern}", re.IGNORECASE)
        for pattern in (
            rf"(?:{_BEFORE}) {_MONTH}(?: (?:de )?{_YEAR})?",
            rf"{_MONTH} (?:de )?{_YEAR}",
            rf"(?:{_BEFORE}) {_YEAR}",
        )
    ),
)
_RELATIVE = tuple((name, re.compile(rf"\b(?:{said})\b", re.IGNORECASE)) for name, said in _CALENDAR.relative.items())
_COUNT = rf"(?P<count>\d{{1,3}}|{'|'.join(_CALENDAR.numbers)})"
_AGO = tuple(
    (
        unit,
        re.compile(
            rf"\b(?:(?:{_CALENDAR.ago}) {_COUNT} (?:{words})\b|{_COUNT.replace('count', 'past')} (?:{words}) ago)",
            re.IGNORECASE,
        ),
    )
    for unit, words in _CALENDAR.units.items()
)
_WEEKDAY = re.compile(rf"\b(?P<weekday>{'|'.join(_CALENDAR.weekdays)})\b", re.IGNORECASE)
_UNTIL = re.compile(rf"(?:{_CALENDAR.until})\b", re.IGNORECASE)


def _until(when: str) -> str:
    found = _UNTIL.match(when)
    return "" if found is None else f"{found[0]} "


def _moment(said: str, at: datetime | None, *, ahead: bool) -> _Moment | None:
    """Return the moment that a phrase names: the last one before `at`, or the next one if it is ahead."""
    for pattern in _DATES:
        if found := pattern.search(said):
            return _date(found.groupdict(), at, ahead)
    if at is None:
        return None
    for name, pattern in _RELATIVE:
        if pattern.search(said):
            return _start_of_unit(at, name[:-2], int(name[-2:]))
    for unit, pattern in _AGO:
        if found := pattern.search(said):
            number = found["count"] or found["past"]
            return _start_of_unit(at, unit, -int(number) if number.isdigit() else -_COUNTS[canonical_line(number)])
    if found := _WEEKDAY.search(said):
        days = (_WEEKDAYS[canonical_line(found[0])] - at.isoweekday()) % 7
        return _start_of_unit(at, "day", days or 7) if ahead else _start_of_unit(at, "day", days - 7)
    return None


def _date(parts: dict[str, str | None], at: datetime | None, ahead: bool) -> _Moment | None:
    year, month, day = parts.get("year"), parts.get("month"), parts.get("day")
    if year is None and at is None:
        return None
    zone = UTC if at is None else at.tzinfo
    number = 1 if month is None else int(month) if month.isdigit() else _MONTHS[canonical_line(month)]

    def in_year(chosen: int) -> datetime:
        return datetime(chosen, number, int(day or 1), tzinfo=zone)

    try:
        if year is not None:
            date = in_year(int(year))
        else:
            assert at is not None
            date = in_year(at.year)
            if ahead and (date.month, date.day if day else 32) < (at.month, at.day):
                date = in_year(at.year + 1)
            elif not ahead and date > at:
                date = in_year(at.year - 1)
    except ValueError:  # the 31st of February
        return None
    return _Moment(date, f"{date:%Y-%m-%d}" if day else f"{date:%Y-%m}" if month else f"{date:%Y}")


def _start_of_unit(at: datetime, unit: str, number: int) -> _Moment | None:
    """Return the beginning of the unit that is so far from a moment."""
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        if unit == "day":
            date = midnight + timedelta(days=number)
            return _Moment(date, f"{date:%Y-%m-%d}")
        if unit == "week":
            date = midnight + timedelta(days=7 * number - midnight.weekday())
            return _Moment(date, f"{date:%Y-%m-%d}")
        if unit == "month":
            months = at.year * 12 + at.month - 1 + number
            date = midnight.replace(year=months // 12, month=months % 12 + 1, day=1)
            return _Moment(date, f"{date:%Y-%m}")
        date = midnight.replace(year=at.year + number, month=1, day=1)
        return _Moment(date, f"{date:%Y}")
    except (ValueError, OverflowError):
        return None


def _day(said: str) -> str | None:
    """Return a day of the year as `03-12`, with or without its year."""
    for pattern in _DAYS:
        if found := pattern.fullmatch(said):
            parts = found.groupdict()
            month = parts["month"] or ""
            number = int(month) if month.isdigit() else _MONTHS[canonical_line(month)]
            day = int(parts["day"] or 0)
            if 1 <= number <= 12 and 1 <= day <= 31:
                return f"{number:02}-{day:02}"
    return None
