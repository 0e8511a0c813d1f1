"""Omissions: what was forgotten, so that it is left out of the prompts of conversations that began before.

A conversation quotes memories: in what was said, in results of tools, in the variables of a program. What is left out
is found by hashes, made with the secret of its subject, so an omission tells nothing to those who read it. It has
*phrases*, which are left out everywhere, and *clauses*, of which a sentence says one if it has both the value
and what the value is about:

- a phrase is a whole sentence or line of three words or more, a value that can hardly mean anything else, or an
  identifier: an address, a number, a code;
- any other value (`4`, `Ann`, `blue`) is left out of sentences that also name what it is the value of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, NamedTuple, cast

import msgspec

from memoranda.model.folding import fold
from memoranda.model.scope import Scope
from memoranda.model.value import decode, encode

MARK = "[forgotten]"
"""What a prompt has in place of what was forgotten."""

_INVISIBLE = "\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff"
_TOKEN = re.compile(rf"\\(?:[nrtbf]|u[0-9a-f]{{4}})|(?:[\w\u0300-\u036f{_INVISIBLE}]|(?<=\d)[.,](?=\d))++")
"""A word, with a decimal point in a number; or an escaped character of JSON, which is skipped."""
_SENTENCE = re.compile(
    r"(?<=[.!?])(?<!\b[A-Z]\.)(?<!\bMr\.)(?<!\bDr\.)(?<!\bMs\.)(?<!\bMrs\.)\s++"
    r"|(?<![^\S\n])[^\S\n]*+\n\s*+|(?<!\s)\s*+\\n\s*+"
)
_JOINTS = "-\u2010\u2011.@+"
"""Before or after these, with a letter or digit behind, an identifier goes on: `a@x.io` is not in `a@x.io.uk`."""
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)++")
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{1,2}:\d{2}(?::\d{2})?")
_CODE = re.compile(r"(?<![\w.@+-])\+?[^\W_](?:[\w]|[-.@+/](?=\w))*")
_ADDRESS = re.compile(r"\b\d+[a-z]?(?:\s+[A-Z][\w'\u2019]*){2,5}")
_PHONE = re.compile(r"\+?\(?\d(?:[\s()/.-]*+\d)++")

_FEWEST_WORDS = 3
_SHORTEST_SENTENCE = 12
"""Letters and digits of a sentence that is left out everywhere."""
_SHORTEST_CODE = 5
"""Letters and digits of an identifier that is left out everywhere."""
_SHORTEST_PHONE = 7
"""Characters of a telephone number."""
_SHORTEST_NAME = 4
_LONGEST = 400
"""Letters and digits of a phrase; a longer sentence is several."""
_STEM = 4
_HASH_BYTES = 8

_COMMON = frozenset(
    """a an the and or but nor so if then than that this these those there here it its he she they we you i me my mine
    your yours his her hers our ours their theirs him them us who whom whose what which when where why how is are was
    were be been being am do does did done has have had having can could will would shall should may might must not no
    yes to of in on at by for from with about into over under after before as up down out off again also only just very
    more most some any each all both few other such own same too user users""".split()
)
"""Words that say nothing of what a sentence is about."""


class Clause(msgspec.Struct, frozen=True):
    """A value, and words of which one has to be in the same sentence. All are hashes."""

    said: tuple[str, ...]
    about: tuple[str, ...]
    names: tuple[str, ...] = ()
    """Names that may be in the sentence; with another one it is about someone else. Without any, all may."""


class Omission(msgspec.Struct, frozen=True, kw_only=True):
    """What was forgotten by one call at a scope, as it is stored."""

    id: str
    scope: Scope
    subject: str
    """The outermost part of the scope, whose conversations are concerned; empty for everyone."""
    at: datetime
    undo: str = ""
    """The token that brings it back, where there is one."""
    phrases: tuple[str, ...] = ()
    clauses: tuple[Clause, ...] = ()


class _Word(NamedTuple):
    start: int
    end: int
    form: str
    is_name: bool
    """Whether it begins with a capital letter or contains a digit."""
    begins: bool
    """Whether no identifier goes on before it."""
    ends: bool


# what is forgotten, as hashes


class Quotes:
    """Collects what conversations may have quoted of memories that are forgotten."""

    def __init__(self, salt: bytes, *, known: Iterable[str] = ()) -> None:
        """Start with nothing. `known` are names that a sentence about the subject may have, such as its id."""
        self._salt = salt
        self._known = [word.form for text in known for word in _words_of(text)]
        self._phrases: dict[str, None] = {}
        self._clauses: dict[Clause, None] = {}

    def add_text(self, text: str, *, kept: str = "") -> None:
        """Add a text sentence by sentence; what `kept` says stays."""
        stays = {word.form for word in _words_of(kept)}
        for sentence in _sentences_of(text):
            words = _words_of(sentence)
            if not words or all(word.form in stays for word in words):
                continue
            length = sum(len(word.form) for word in words)
            if len(words) >= _FEWEST_WORDS and length >= _SHORTEST_SENTENCE:
                self._add_words(words)
            for identifier in _identifiers_in(sentence):
                if not stays.issuperset(word.form for word in _words_of(identifier)):
                    self.add_phrase(identifier)
            self._add_clause(words, stays)

    def add_phrase(self, text: str) -> None:
        """Add what is left out everywhere."""
        self._add_words(_words_of(text))

    def add_value(self, value: Any, about: str) -> None:
        """Add a JSON value of a key: each text and number in it, which is the value of its own name too."""
        waiting: list[tuple[Any, str]] = [(value, about)]
        while waiting:
            one, path = waiting.pop()
            if isinstance(one, dict):
                waiting += [(part, f"{path} {name}") for name, part in cast("dict[str, Any]", one).items()]
            elif isinstance(one, list):
                waiting += [(part, path) for part in cast("list[Any]", one)]
            elif isinstance(one, str | int | float) and not isinstance(one, bool):
                self._add_leaf(str(one), path)

    def add_source(self, text: str, said: str, value: str | None) -> None:
        """Add those sentences of a text that say what was read in it."""
        forms = {word.form for word in _words_of(value or "")}
        stems = {*_stems_of(_words_of(said))}
        for sentence in _sentences_of(text):
            words = _words_of(sentence)
            says_value = bool(forms) and forms.issubset(word.form for word in words)
            if len(words) > 1 and (says_value or len(stems.intersection(_stems_of(words))) > 1):
                self._add_words(words)

    def parts(self) -> Iterator[tuple[tuple[str, ...], tuple[Clause, ...]]]:
        """Yield phrases and clauses in portions that are stored as one row each."""
        phrases, clauses = tuple(self._phrases), tuple(self._clauses)
        for start in range(0, max(len(phrases), len(clauses)), _PORTION):
            yield phrases[start : start + _PORTION], clauses[start : start + _PORTION]

    def _add_leaf(self, text: str, path: str) -> None:
        words = _words_of(text)
        if not words:
            return
        if _is_distinctive(words) or _EMAIL.search(text):
            self.add_phrase(text)
            if len(words) > _FEWEST_WORDS:
                self.add_text(text)
            return
        about = tuple(dict.fromkeys(self._hash(stem) for stem in _stems_of(_words_of(re.sub(r"[._\W]+", " ", path)))))
        if about:
            self._clauses[Clause((self._phrase(words),), about)] = None

    def _add_words(self, words: Sequence[_Word]) -> None:
        portion: list[_Word] = []
        length = 0
        for word in words:
            if portion and length + len(word.form) > _LONGEST:
                self._phrases[self._phrase(portion)] = None
                portion, length = [], 0
            portion.append(word)
            length += len(word.form)
        if portion:
            self._phrases[self._phrase(portion)] = None

    def _add_clause(self, words: Sequence[_Word], stays: set[str]) -> None:
        names = list(_names_in(words))
        said = tuple(dict.fromkeys(self._phrase([word]) for word in names if word.form not in stays))
        about = tuple(dict.fromkeys(map(self._hash, _stems_of(word for word in words if word not in names))))
        if said and about:
            forms = (*(word.form for word in names), *self._known)
            self._clauses[Clause(said, about, tuple(dict.fromkeys(map(self._hash, forms))))] = None

    def _phrase(self, words: Sequence[_Word]) -> str:
        form = "".join(word.form for word in words)
        return f"{len(form)}:{self._hash(form)}"

    def _hash(self, form: str) -> str:
        return _hash(form, self._salt)


_PORTION = 1_000


def _is_distinctive(words: Sequence[_Word]) -> bool:
    """Return whether a value can hardly mean anything else than what it was the value of."""
    forms = [word.form for word in words]
    length = sum(map(len, forms))
    if any(char.isdigit() for form in forms for char in form):
        return length >= _SHORTEST_CODE
    if len(words) >= _FEWEST_WORDS:
        return length >= _SHORTEST_SENTENCE
    return all(word.is_name and len(word.form) >= _SHORTEST_NAME for word in words)


def _identifiers_in(sentence: str) -> Iterator[str]:
    """Yield addresses, numbers and codes."""
    phones = (found for found in _PHONE.finditer(sentence) if len(found[0]) >= _SHORTEST_PHONE)
    for found in (*_EMAIL.finditer(sentence), *phones, *_ADDRESS.finditer(sentence)):
        if _DATE.fullmatch(found[0]) is None:
            yield found[0]
    for found in _CODE.finditer(sentence):
        code = found[0]
        letters = sum(char.isalnum() for char in code)
        is_code = any(map(str.isdigit, code)) and letters >= _SHORTEST_CODE
        if is_code and _DATE.fullmatch(code) is None:
            yield code


def _stems_of(words: Iterable[_Word]) -> Iterator[str]:
    for word in words:
        if len(word.form) >= _STEM - 1 and word.form not in _COMMON and not word.form.isdigit():
            yield word.form[:_STEM]


def _sentences_of(text: str) -> list[str]:
    return [one for one in _SENTENCE.split(text) if one]


def _words_of(text: str) -> list[_Word]:
    words: list[_Word] = []
    for found in _TOKEN.finditer(text):
        token = found[0]
        form = "" if token[0] == "\\" else fold(token).strip("_")
        if not form:
            continue
        start, end = found.span()
        begins = not (start > 1 and text[start - 1] in _JOINTS and text[start - 2].isalnum())
        ends = not (end + 1 < len(text) and text[end] in _JOINTS and text[end + 1].isalnum())
        first = token.lstrip("_")[:1]
        is_name = first.isupper() or any(map(str.isdigit, token))
        words.append(_Word(start, end, form, is_name, begins, ends))
    return words


def _hash(form: str, salt: bytes) -> str:
    return blake2b(form.encode("utf-8", "surrogatepass"), key=salt, digest_size=_HASH_BYTES).hexdigest()


# what is left out


class _Book:
    """The omissions that were made with one salt."""

    def __init__(self, salt: bytes) -> None:
        self.salt = salt
        self.phrases: dict[int, set[str]] = {}
        self.clauses: list[tuple[Clause, dict[int, set[str]]]] = []

    def add(self, omission: Omission) -> None:
        _add_phrases(self.phrases, omission.phrases)
        for clause in omission.clauses:
            said: dict[int, set[str]] = {}
            _add_phrases(said, clause.said)
            self.clauses.append((clause, said))


def _add_phrases(book: dict[int, set[str]], phrases: Iterable[str]) -> None:
    for phrase in phrases:
        length, _, digest = phrase.partition(":")
        book.setdefault(int(length), set()).add(digest)


class _Quote(msgspec.Struct, frozen=True):
    """Where a text quotes what was forgotten, and the hashes that tell."""

    start: int
    end: int
    marks: frozenset[str]


class Omissions:
    """Leaves out of texts what was forgotten.

    >>> quotes = Quotes(b"salt")
    >>> quotes.add_value("12 Elm St", "home.address")
    >>> phrases, clauses = next(quotes.parts())
    >>> at = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    >>> one = Omission(id="o", scope=Scope.of(), subject="", at=at, phrases=phrases, clauses=clauses)
    >>> Omissions([(b"salt", one)]).leave_out("I live at 12 ELM St. I keep bees.")
    'I live at [forgotten]. I keep bees.'
    """

    def __init__(
        self, omissions: Iterable[tuple[bytes, Omission]] = (), *, waived: frozenset[str] = frozenset()
    ) -> None:
        """Take omissions, each with the secret of its hashes, without those hashes that are `waived`."""
        self._omissions = tuple(omissions)
        self._waived = waived
        self._later: dict[int, Omissions] = {}
        books: dict[bytes, _Book] = {}
        for salt, one in self._omissions:
            books.setdefault(salt, _Book(salt)).add(one)
        self._books = tuple(books.values())

    def __bool__(self) -> bool:
        """Return whether anything was forgotten."""
        return bool(self._books)

    def made_since(self, moment: datetime) -> Omissions:
        """Return those that were made at or after a moment: what was said later was not forgotten with them."""
        later = tuple((salt, one) for salt, one in self._omissions if one.at >= moment)
        if len(later) == len(self._omissions):
            return self
        made = self._later.get(len(later))  # there are only so many, by age
        if made is None:
            made = self._later[len(later)] = Omissions(later, waived=self._waived)
        return made

    def renewed_by(self, said: Iterable[tuple[datetime | None, str]]) -> Omissions:
        """Return them without what was said again after it was forgotten; what is said now has no moment."""
        again: set[str] = set()
        for moment, text in said:
            earlier = Omissions(pair for pair in self._omissions if moment is None or pair[1].at < moment)
            again.update(mark for one in earlier._found(text) for mark in one.marks)
        return Omissions(self._omissions, waived=self._waived | again) if again else self

    def leave_out(self, text: str) -> str:
        """Return a text with a mark in place of what was forgotten."""
        if not self._books or not text:
            return text
        parts: list[str] = []
        position = 0
        for start, end in _merged((one.start, one.end) for one in self._found(text)):
            parts += (text[position:start], MARK)
            position = end
        return "".join((*parts, text[position:])) if parts else text

    def other_sentences(self, text: str) -> str:
        """Return the sentences of a text that quote nothing that was forgotten."""
        if not self._books:
            return text
        return " ".join(one for one in _sentences_of(text) if MARK not in self.leave_out(one))

    def leave_out_of_json(self, text: str) -> str:
        """Return JSON without what was forgotten; other text, as text."""
        if not self._books:
            return text
        try:
            value = decode(text.encode())
        except (msgspec.DecodeError, UnicodeEncodeError):
            return self.leave_out(text)
        left = self.leave_out_of(value)
        return text if left == value else encode(left).decode()

    def leave_out_of(self, value: Any, about: str = "") -> Any:
        """Return a JSON value without what was forgotten; `about` is what it is the value of."""
        if not self._books:
            return value
        if isinstance(value, dict):
            parts = cast("dict[str, Any]", value)
            # A key and its value may be fields of one object, as in what a tool found.
            beside = " ".join(one for one in parts.values() if isinstance(one, str) and len(one) <= _LONGEST)
            return {name: self.leave_out_of(part, f"{about} {name} {beside}") for name, part in parts.items()}
        if isinstance(value, list):
            return [self.leave_out_of(part, about) for part in cast("list[Any]", value)]
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return value
        text = value if isinstance(value, str) else str(value)
        left = self.leave_out(text)
        if left == text and len(text) <= _LONGEST and self._says_clause(text, about):
            return MARK
        return value if left == text else left

    def _says_clause(self, text: str, about: str) -> bool:
        """Return whether a whole value is forgotten as the value of what it is about."""
        words = _words_of(text)
        context = _words_of(re.sub(r"[._\W]+", " ", about))
        if not words:
            return False
        for book in self._books:
            if not book.clauses:
                continue
            form = "".join(word.form for word in words)
            digest = _hash(form, book.salt)
            stems = {_hash(stem, book.salt) for stem in _stems_of(context)}
            for clause, said in book.clauses:
                if digest in said.get(len(form), ()) and not stems.isdisjoint(clause.about):
                    return digest not in self._waived
        return False

    def _found(self, text: str) -> Iterator[_Quote]:
        words = _words_of(text)
        if not words:
            return
        sentences: list[list[_Word]] | None = None
        for book in self._books:
            yield from self._phrases_in(words, book.phrases, book.salt)
            if book.clauses:
                sentences = sentences if sentences is not None else list(_split(text, words))
                for sentence in sentences:
                    yield from self._clauses_in(sentence, book)

    def _phrases_in(self, words: Sequence[_Word], phrases: dict[int, set[str]], salt: bytes) -> Iterator[_Quote]:
        longest = max(phrases, default=0)
        for place, first in enumerate(words):
            if not first.begins:
                continue
            form = ""
            for last in words[place:]:
                form += last.form
                if len(form) > longest:
                    break
                if last.ends and len(form) in phrases:
                    digest = _hash(form, salt)
                    if digest in phrases[len(form)] and digest not in self._waived:
                        yield _Quote(first.start, last.end, frozenset({digest}))

    def _clauses_in(self, sentence: Sequence[_Word], book: _Book) -> Iterator[_Quote]:
        stems: set[str] | None = None
        foreign: set[str] = set()
        for clause, said in book.clauses:
            found = list(self._phrases_in(sentence, said, book.salt))
            if not found:
                continue
            if stems is None:
                stems = {_hash(stem, book.salt) for stem in _stems_of(sentence)}
                foreign = {_hash(word.form, book.salt) for word in _names_in(sentence)}
            if stems.isdisjoint(clause.about) or (clause.names and not foreign <= {*clause.names}):
                continue
            marks = frozenset(mark for one in found for mark in one.marks)
            if clause.names:
                yield _Quote(sentence[0].start, sentence[-1].end, marks)
            else:
                yield from found


def _names_in(sentence: Sequence[_Word]) -> Iterator[_Word]:
    """Yield the names in a sentence; its first word has a capital letter anyway, and is one if a verb follows it."""
    for place, word in enumerate(sentence):
        if not word.is_name or word.form in _COMMON:
            continue
        follows = sentence[place + 1].form if place + 1 < len(sentence) else ""
        if place or follows.endswith("s"):
            yield word


def _split(text: str, words: Sequence[_Word]) -> Iterator[list[_Word]]:
    """Yield the words of each sentence."""
    ends = [found.start() for found in _SENTENCE.finditer(text)]
    sentence: list[_Word] = []
    place = 0
    for word in words:
        while place < len(ends) and word.start >= ends[place]:
            place += 1
            if sentence:
                yield sentence
                sentence = []
        sentence.append(word)
    if sentence:
        yield sentence


def _merged(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield spans in order, those that touch as one."""
    current: tuple[int, int] | None = None
    for start, end in sorted(spans):
        if current is None or start > current[1]:
            if current is not None:
                yield current
            current = start, end
        else:
            current = current[0], max(current[1], end)
    if current is not None:
        yield current
