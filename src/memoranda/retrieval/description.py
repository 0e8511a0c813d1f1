"""Descriptions: which memories a request such as "everything about Frank the engineer" means.

No model is asked, so equal requests about equal memories have equal answers. First come the identifiers and the names
in the request, each exact in any spelling; then attributes such as a diet or an employer, by the table
`attributes.toml`; then the words of the request, and how recall ranked the memories. Where several memories are equally
likely, none is meant, and all of them are candidates.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from memoranda.errors import UsageError
from memoranda.model.folding import fold
from memoranda.model.identifier import Identifier
from memoranda.retrieval.analysis.languages import is_stop_word, term
from memoranda.retrieval.clauses import Clause, clauses_of, subject_of, text_of_clauses

_MOST_CANDIDATES = 10
_CLEAR = 0.12
"""How far the best memory has to be ahead of the next one."""
_LIKELY = 0.4
"""The least score of what is meant."""
_RECALLED = (0.65, 0.35)
"""The score that recall has to give, and how far ahead of the next one, where nothing else tells what is meant."""
_TOPIC = 0.5
"""The share of the words behind a name in the possessive that a clause about them has."""
_SHARED = 0.34
"""The least share of the words of a request that a memory has in common with it, where nothing else speaks for it."""
_MOSTLY_SHARED = 0.6
"""The same for a request that names an attribute of which a memory says nothing."""


class _Words(msgspec.Struct, frozen=True):
    everything: str
    lead: str
    also: str
    negations: str
    generic: str
    filler: str
    labels: str


class _Attribute(msgspec.Struct, frozen=True):
    ask: str
    say: str


class Vocabulary(msgspec.Struct, frozen=True):
    """The words and patterns by which requests are read."""

    everything: re.Pattern[str]
    lead: re.Pattern[str]
    also: re.Pattern[str]
    negations: re.Pattern[str]
    generic: frozenset[str]
    filler: frozenset[str]
    labels: frozenset[str]
    ask: tuple[tuple[str, re.Pattern[str]], ...]
    say: dict[str, re.Pattern[str]]


def _one_line(pattern: str) -> str:
    return "".join(line.strip(" ") if place else line for place, line in enumerate(pattern.split("\n")))


def _whole(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{_one_line(pattern)})(?!\w)", re.IGNORECASE)


@cache
def vocabulary() -> Vocabulary:
    """Return the words and patterns by which requests are read."""
    here = Path(__file__).parent
    words = msgspec.toml.decode((here / "description.toml").read_bytes(), type=_Words)
    table = msgspec.toml.decode((here / "attributes.toml").read_bytes(), type=dict[str, _Attribute])
    return Vocabulary(
        everything=re.compile(_one_line(words.everything), re.IGNORECASE),
        lead=re.compile(words.lead, re.IGNORECASE),
        also=_whole(words.also),
        negations=re.compile(rf"(?<!\w)(?:{words.negations})(?!\w)|n't(?!\w)", re.IGNORECASE),
        generic=frozenset(words.generic.split()),
        filler=frozenset(words.filler.split()),
        labels=frozenset(words.labels.split()),
        ask=tuple((name, _whole(one.ask)) for name, one in table.items()),
        say={name: _whole(one.say) for name, one in table.items()},
    )


# What is an identifier by its form. Phone numbers, cards and bank accounts may have gaps.
_NUMBER = r"(?<![\w.#/-])(?:\+|00)?\(?\d[\d().\u2010-\u2015/-]{0,4}(?:[\s().\u2010-\u2015/-]{0,2}\d){4,30}(?![\w@])"
_IBAN = r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"
_OBFUSCATED = (
    r"[\w.+-]{1,64}\s?[\[({]\s?(?:at|@)\s?[\])}]\s?[\w-]{1,64}(?:\s?(?:[\[({]\s?dot\s?[\])}]|\.)\s?[\w-]{1,64}){1,4}"
)
_TIMES = r"\b\d{1,2}:\d\d(?: ?[AaPp]\.?[Mm]\b\.?)?"
_DATES = r"\b\d{4}-\d\d-\d\d\b|\b\d{1,2}[/.]\d{1,2}[/.]\d{4}\b"
_SPANS = re.compile(
    f"(?P<obfuscated>{_OBFUSCATED})|(?P<iban>{_IBAN})|(?P<date>{_DATES})|(?P<time>{_TIMES})|(?P<number>{_NUMBER})"
)
STAMP = r"[-_.]\d{4}-\d\d(?:-\d\d)?(?![\w-])"
"""A date behind an identifier."""
_MEASURE = re.compile(r"\d+(?:st|nd|rd|th|km|kg|mg|ml|cm|mm|m|g|h|hrs?|min|s|k|x|am|pm|d|px|gb|mb|fa)", re.IGNORECASE)
_YEAR = re.compile(r"(?:19|20)\d\d")
_EDGES = "\"'`()[]{}<>,;:!?\u201c\u201d\u2018\u2019\u00bb\u00ab"
_POSSESSIVE = re.compile(r"['\u2019]s?$")
_TITLES = frozenset({"mr", "mrs", "ms", "dr", "prof", "professor", "sir"})
_LINKS = frozenset({"van", "von", "de", "der", "den", "da", "di", "del", "della", "bin", "al", "el", "la", "le"})
_WORD = re.compile(r"\w+(?:-\w+)*")
_DIGEST = re.compile(
    r"(?<!\w)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?!\w)|(?<!\w)(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})(?!\w)"
)


class Memory(msgspec.Struct, frozen=True):
    """A memory that may be meant: what it is known by, and what it says."""

    name: str
    text: str
    key: str | None = None
    values: object = None
    """What else it contains, such as metadata."""
    splits: bool = True
    """Whether one clause of it can go alone."""
    sources: tuple[str, ...] = ()
    """The names of the messages that it was learned from, which go with it."""


class Meant(msgspec.Struct, frozen=True):
    """What a description means: memories by name, each with the text of it that stays, or None."""

    kept: dict[str, str | None] = {}
    candidates: tuple[str, ...] = ()
    """What it may mean, where that is not clear; the likeliest first."""


class Description:
    """A request that says in words what is meant."""

    def __init__(self, text: str) -> None:
        """Read a request."""
        known, text = vocabulary(), text.strip()
        self.is_everything = (found := known.everything.match(text)) is not None
        rest = text[found.end() :] if found is not None else known.lead.sub("", text, count=1)
        self.identifiers, self._weak, rest = _identifiers_in(rest)
        self.has_aliases = "/" in rest or known.also.search(rest) is not None
        self.names, self._owned = _names_in(known.also.sub("/", rest))
        self._attributes = _attributes_in(rest)
        self._is_statement = bool(subject_of(rest))
        self.is_negated = known.negations.search(rest) is not None
        self.words = _terms_of(rest) - {term(word, "en") for name in self.names for word in fold(name).split()}
        self._all_words = _terms_of(text)
        # `Ann's pigeons`: what is said of Ann and of pigeons, if anything is.
        self._is_topic = self._owned and bool(self.words) and not self._attributes
        self._subjects = vocabulary().generic.intersection(_WORD.findall(fold(rest)))
        if not self.identifiers:
            # `dora_writes` is a handle where there is nothing clearer.
            self.identifiers = self._weak

    def to_forget(self, memories: Sequence[Memory], ranking: Mapping[str, float]) -> Meant:
        """Return what has to go so that nothing of what is described is left."""
        ids = [Identifier(one) for one in self.identifiers]
        if ids:
            found = [one for one in memories if _has_any(ids, one)]
            found += [one for one in self._with_stamp(memories) if not found]
            if self.has_aliases or self.is_everything:
                named = self._mentions(memories)
                found += [one for one in named if one not in found]
            return Meant({one.name: None for one in found}) if found else Meant(candidates=_best(ranking))
        if self.names:
            found = self._mentions(memories) or self._mentions_words(memories)
            if not found and not self._attributes:
                return Meant(candidates=_best(ranking))
            if self._is_topic and (about := [one for one in found if self._share(one.text) >= _TOPIC]):
                return Meant({one.name: self._rest_of(one) for one in about})
            if not self._attributes or (self.is_everything and not self._owned):
                return Meant({one.name: None for one in found})
            about = [one for one in found if self._says(one.text)]
            if about:
                return Meant({one.name: self._rest_of(one) for one in about})
            return Meant(candidates=tuple(one.name for one in found)[:_MOST_CANDIDATES] or _best(ranking))
        return self._likeliest(memories, ranking)

    def to_supersede(self, memories: Sequence[Memory], ranking: Mapping[str, float]) -> Meant:
        """Return the one memory that is no longer true, if one is likely enough; the latest of equal ones."""
        ids = [Identifier(one) for one in self.identifiers]
        names = [Identifier(one) for one in self.names]
        best, memory_of_best = _LIKELY, None
        for memory in memories:
            if ids and not _has_any(ids, memory):
                continue
            score = max(
                (self._score(clause.text, ranking.get(memory.name, 0.0), names) for clause in clauses_of(memory.text)),
                default=0.0,
            )
            score += self._bonus(memory.text) if score else 0.0
            if ids:
                score += 1
            if score >= best:
                best, memory_of_best = score, memory
        if memory_of_best is None and not ids and not names:
            memory_of_best = self._first_recalled(memories, ranking, *_RECALLED)
        if memory_of_best is None:
            return Meant(candidates=_best(ranking))
        return Meant({memory_of_best.name: self._rest_of(memory_of_best)})

    def _score(self, text: str, rank: float, names: Sequence[Identifier]) -> float:
        """Return how well a clause fits, by its names, attribute, words and rank."""
        share = self._share(text)
        says = self._says(text)
        named = sum(_mentions(one, name, text) for one, name in zip(names, self.names, strict=True))
        # `favourite film` has a word of `favourite colour`, and says nothing of colours.
        if not (says or named or share >= (_MOSTLY_SHARED if self._attributes else _SHARED)):
            return 0.0
        polarity = -0.4 if self._contradicts(text) else 0.0
        return 0.5 * says + 0.6 * share + 0.5 * (named / len(names) if names else 0) + 0.15 * rank + polarity

    def _contradicts(self, text: str) -> bool:
        """Return whether a text denies what the request states, or the other way; `employment status` means both."""
        differs = self.is_negated != (vocabulary().negations.search(text) is not None)
        return differs and (self.is_negated or self._is_statement)

    def _first_recalled(
        self, memories: Sequence[Memory], ranking: Mapping[str, float], least: float, lead: float
    ) -> Memory | None:
        """Return the memory that recall found first, if it is good enough and clearly ahead of the next one."""
        ranked = sorted(memories, key=lambda one: -ranking.get(one.name, 0.0))[:2]
        scores = [ranking.get(one.name, 0.0) for one in ranked] + [0.0]
        if not ranked or scores[0] < least or scores[0] - scores[1] < lead or self._contradicts(ranked[0].text):
            return None
        return ranked[0]

    def _bonus(self, text: str) -> float:
        """Return what speaks for a text as a whole: it says much of the attribute, or is about who is named."""
        say = vocabulary().say
        cues = {fold(found.group()) for name in self._attributes for found in say[name].finditer(text)}
        # `Lives in Oslo` is about the user.
        about = not self._subjects or subject_of(text) == "" or not self._subjects.isdisjoint(_WORD.findall(fold(text)))
        return 0.05 * min(len(cues), 4) + 0.1 * about

    def _likeliest(self, memories: Sequence[Memory], ranking: Mapping[str, float]) -> Meant:
        # What was learned counts, and the messages that say it go with it.
        sources = {source for one in memories for source in one.sources}
        said, memories = memories, [one for one in memories if one.name not in sources]
        scores = {
            memory.name: max(
                (self._score(clause.text, ranking.get(memory.name, 0.0), ()) for clause in clauses_of(memory.text)),
                default=0.0,
            )
            for memory in memories
        }
        scores = {one.name: scores[one.name] and scores[one.name] + self._bonus(one.text) for one in memories}
        likely = [one for one in sorted(memories, key=lambda one: -scores[one.name]) if scores[one.name] >= _LIKELY]
        if not likely and not self.is_everything and (first := self._first_recalled(memories, ranking, *_RECALLED)):
            likely, scores[first.name] = [first], _LIKELY
        if not likely:
            return Meant(candidates=_best(ranking))
        top = scores[likely[0].name]
        near = [one for one in likely if top - scores[one.name] < _CLEAR]
        says = {one.name: _terms_of(self._part_of(one)) for one in likely}
        # A line of a block and a note may say the same, one of them with a word more.
        best = says[likely[0].name]
        denies = vocabulary().negations.search(self._part_of(likely[0])) is not None
        same = [
            one
            for one in likely
            if (says[one.name] <= best or best <= says[one.name])
            and denies == (vocabulary().negations.search(self._part_of(one)) is not None)
        ]
        if self.is_everything and self._attributes:
            same = [one for one in likely if self._says(one.text)] or same
        elif any(one not in same for one in near):
            return Meant(candidates=tuple(one.name for one in near)[:_MOST_CANDIDATES])
        near = same
        behind = {source for one in near for source in one.sources}
        near += [one for one in said if one.name in behind]
        return Meant({one.name: self._rest_of(one) for one in near})

    def _mentions(self, memories: Sequence[Memory]) -> list[Memory]:
        pairs = [(Identifier(name), name) for name in self.names]
        return [
            memory
            for memory in memories
            if any(
                _mentions(one, name, memory.text, lower=bool(self._attributes) and self._says(memory.text))
                or one.is_in(memory.values)
                or one.is_in_key(memory.key)
                for one, name in pairs
            )
        ]

    def _mentions_words(self, memories: Sequence[Memory]) -> list[Memory]:
        """Return what has every word of a name that nothing has as a whole: `Ruby Cedar` may be two names."""
        words = [(Identifier(one), one) for name in self.names for one in name.split() if _is_identifier(one)]
        if len(words) < 2:
            return []
        return [one for one in memories if all(_mentions(identifier, word, one.text) for identifier, word in words)]

    def _with_stamp(self, memories: Sequence[Memory]) -> list[Memory]:
        """Return what has an identifier with a date behind it, or the whole of a digest that it is the beginning of."""
        found: list[Memory] = []
        for identifier in self.identifiers:
            folded = fold(identifier)
            if not (any(map(str.isdigit, folded)) and any(map(str.isalpha, folded))):
                continue
            stamped = re.compile(rf"(?<!\w){re.escape(folded)}{STAMP}")
            found += [one for one in memories if stamped.search(fold(one.text))]
            if len(folded) >= 7 and all(one in "0123456789abcdef" for one in folded):
                digests = {
                    whole for one in memories for whole in _DIGEST.findall(fold(one.text)) if whole.startswith(folded)
                }
                if len({whole.replace("-", "") for whole in digests}) == 1:
                    whole = Identifier(digests.pop())
                    found += [one for one in memories if whole.is_in(one.text)]
        return found

    def _says(self, text: str) -> bool:
        """Return whether a text says something of an attribute that is asked for."""
        return any(vocabulary().say[name].search(text) for name in self._attributes)

    def _share(self, text: str) -> float:
        """Return the share of the words of the request that a text has."""
        wanted = self.words or (self._all_words if not self.names else frozenset[str]())
        if not wanted:
            return 0.0
        words = _terms_of(text, every=True)
        return sum(_is_among(one, words) for one in wanted) / len(wanted)

    def _is_meant(self, clause: Clause) -> bool:
        if self._is_topic:
            return self._share(clause.text) >= _TOPIC
        names = [(Identifier(name), name) for name in self.names]
        if self._attributes:
            if self._says(clause.text):
                return True
        elif any(_mentions(one, name, clause.text) for one, name in names):
            return True
        return self._share(clause.text) >= (0.5 if self._attributes else _SHARED) and bool(self.words)

    def _part_of(self, memory: Memory) -> str:
        clauses = clauses_of(memory.text)
        return " ".join(one.text for one in clauses if self._is_meant(one)) or memory.text

    def _rest_of(self, memory: Memory) -> str | None:
        """Return the text that stays when the clauses that are meant go; None where all of it goes."""
        if not memory.splits:
            return None
        clauses = clauses_of(memory.text)
        goes = [self._is_meant(one) for one in clauses]
        for place, clause in enumerate(clauses):
            if place and clause.refers_back and clauses[place - 1].sentence == clause.sentence and goes[place - 1]:
                goes[place] = True
        if len(clauses) < 2 or all(goes) or not any(goes):
            return None
        return text_of_clauses([one for one, gone in zip(clauses, goes, strict=True) if not gone], memory.text)


def _best(ranking: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(sorted(ranking, key=lambda name: -ranking[name]))[:3]


def _has_any(ids: Sequence[Identifier], memory: Memory) -> bool:
    return any(one.is_in(memory.text) or one.is_in(memory.values) or one.is_in_key(memory.key) for one in ids)


def _mentions(identifier: Identifier, name: str, text: str, *, lower: bool = False) -> bool:
    """Return whether a text has a name; a word in lower case is not the name that is spelled like it."""
    if not identifier.is_in(text):
        return False
    if lower or len(name.split()) > 1 or not name[:1].isupper():
        return True
    wanted, has_capitals = fold(name), any(map(str.isupper, text))
    for number, word in enumerate(_WORD.finditer(text)):
        bare = word.group()
        if fold(bare) != wanted:
            continue
        begins = number == 0 or text[word.end() : word.end() + 2] in ("'s", "\u2019s")
        if bare[0].isupper() or (not has_capitals and begins):
            return True
    # It may be written in a way that has no words, or in another script.
    return all(fold(word) != wanted for word in _WORD.findall(text))


# reading a request


def _identifiers_in(text: str) -> tuple[list[str], list[str], str]:
    """Return the identifiers of a request, what may be one, and the rest of it."""
    strong: list[str] = []
    weak: list[str] = []

    def note(span: re.Match[str]) -> str:
        one = span.group().strip(" .,()") if span.lastgroup != "number" else span.group().strip(" .,")
        digits = sum(map(str.isdigit, one))
        if span.lastgroup in ("date", "time"):
            weak.append(one)
        elif span.lastgroup == "number" and (digits < 5 or re.fullmatch(r"(?:19|20)\d\d(?:[\s-]+(?:19|20)\d\d)*", one)):
            return span.group()
        elif one.count("(") != one.count(")"):
            strong.append(one.replace("(", "").replace(")", ""))
        else:
            strong.append(one)
        return " "

    rest: list[str] = []
    for raw in _SPANS.sub(note, text).split():
        token = _POSSESSIVE.sub("", raw.strip(_EDGES).rstrip("."))
        kind = _kind_of(token)
        if kind and _is_identifier(token):
            (strong if kind == "strong" else weak).append(token)
            rest.append("|")
        else:
            rest.append(raw)
    return list(dict.fromkeys(strong)), list(dict.fromkeys(weak)), " ".join(rest)


def _is_identifier(token: str) -> bool:
    try:
        Identifier(token)
    except UsageError:
        return False
    return True


def _kind_of(token: str) -> str:
    """Return whether a token is an identifier by its form, `strong`, may be one, `weak`, or is none."""
    if len(token) < 3:
        return ""
    if token[0] in "@#" or "." in token.partition("@")[2].strip(".") or "://" in token:
        return "strong"
    if token[0] in "/\\~" or re.match(r"[A-Za-z]:[\\/]", token):
        return "strong"
    if "/" in token or "\\" in token:
        parts = re.split(r"[\\/]+", token)
        return "strong" if "." in parts[0] or "." in parts[-1] or len(parts) > 3 else ""
    if re.fullmatch(r"(?:[a-z0-9-]+\.)+[a-z]{2,}", token):
        return "strong"
    if any(map(str.isdigit, token)):
        bare = token.lstrip("$\u20ac\u00a3")
        if (
            bare != token
            or _MEASURE.fullmatch(token)
            or _YEAR.fullmatch(token)
            or (token.isdecimal() and len(token) < 3)
        ):
            return ""
        return "strong" if re.fullmatch(r"[\w.+-]+", token) else ""
    if "_" in token.strip("_") or re.fullmatch(r"[A-Z]{2,}(?:-[A-Z]{2,})+", token):
        return "weak"
    letters = re.fullmatch(r"[A-Z]{6}[A-Z0-9]{2}(?:[A-Z0-9]{3})?", token)
    return "strong" if letters else ""


class _Names:
    """The names of a request, found word by word."""

    def __init__(self) -> None:
        self.found: list[list[str]] = []
        self.is_owner = False
        """Whether something of theirs is meant, as in `Ann's diet`."""
        self._run: list[str] = []
        self._script = ""

    def finish(self) -> None:
        """End the name that is being read."""
        while self._run and self._run[-1] in _LINKS:
            self._run.pop()
        if self._run:
            self.found.append(self._run)
        self._run, self._script = [], ""

    def read(self, raw: str, *, is_first: bool) -> None:
        """Read one word."""
        token = raw.strip(_EDGES).rstrip(".")
        bare = _POSSESSIVE.sub("", token)
        if bare.casefold() in _TITLES:
            return
        if self._run and bare in _LINKS:
            self._run.append(bare)
            return
        if not _may_name(bare, is_first=is_first):
            self.finish()
            return
        script = unicodedata.name(next(one for one in bare if one.isalpha()), "").split(" ")[0]
        if script != self._script:
            self.finish()
        self._run.append(bare)
        self._script = script
        if token[len(bare) :].casefold().startswith(("'s", "\u2019s")):
            self.is_owner = True
            self.finish()
        elif raw[-1:] in ",;:)":
            self.finish()


def _names_in(text: str) -> tuple[list[str], bool]:
    """Return the names of a request, and whether something of theirs is meant."""
    names = _Names()
    for number, raw in enumerate(text.split()):
        names.read(raw, is_first=number == 0)
    names.finish()
    joined = (" ".join(one) for one in names.found)
    return list(dict.fromkeys(name for name in joined if sum(map(str.isalnum, name)) > 1)), names.is_owner


def _may_name(word: str, *, is_first: bool) -> bool:
    """Return whether a word may be a name: it has a capital, or is of a script without capitals."""
    known, plain = vocabulary(), word.casefold()
    if not any(map(str.isalpha, word)) or not (word[0].isupper() or _has_no_case(word)):
        return False
    if plain in known.generic or plain in known.filler or plain in known.labels or is_stop_word(plain, "en"):
        return False
    # A sentence begins with a capital.
    return not (is_first and word[1:].islower() and _attributes_in(plain))


def _has_no_case(word: str) -> bool:
    """Return whether a word is of a script without capitals."""
    return any(unicodedata.category(one) == "Lo" for one in word)


def _attributes_in(text: str) -> frozenset[str]:
    """Return the attributes that a request names; of those at one place the one with the longest name."""
    found: list[tuple[int, int, str]] = []
    for name, pattern in vocabulary().ask:
        found += [(match.start(), match.end(), name) for match in pattern.finditer(text)]
    return frozenset(
        name
        for start, end, name in found
        if not any(left <= start and end <= right and right - left > end - start for left, right, _ in found)
    )


def _terms_of(text: str, *, every: bool = False) -> frozenset[str]:
    """Return the stems of the words of a text that tell something."""
    known = vocabulary()
    found: set[str] = set()
    for word in _WORD.findall(fold(text)):
        if is_stop_word(word, "en") or (not every and word in known.generic | known.filler):
            continue
        found.add(term(word, "en"))
    return frozenset(found)


def _is_among(wanted: str, words: frozenset[str]) -> bool:
    """Return whether a stem is among others: `prescript` and `prescrib` are of one word."""
    if wanted in words:
        return True
    if len(wanted) < 5 or not wanted.isalpha():
        return False
    return any(
        len(one) >= 5 and wanted[:5] == one[:5] and one.isalpha() and abs(len(one) - len(wanted)) < 4 for one in words
    )
