"""Detect instructions to an agent, secrets, payment data and authentication codes in what is to be remembered.

The rules are in `detection.toml`, as two RE2 sets: a text without findings costs one pass for each, in linear time.
Instructions are matched after folding case, look-alike letters and invisible characters, those in scripts without an
ASCII form as they are written. So is what a text hides under one layer: letters apart, digits for letters, Base64,
percent encoding, entities, escapes, hexadecimal, ROT13, reversal.

Findings name a rule and a place, never what was found, so they can be stored and shown. Why these are rules of our own:
`docs/decisions/0031-secrets-are-found-by-rules-of-our-own.md`.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from math import log2
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import unquote

import msgspec

from memoranda.model.folding import fold_character

DetectionKind = Literal["instruction", "secret", "payment", "code"]

ENOUGH = 100
"""The sum of weights from which on a text counts as an instruction."""
_QUOTED = 0.3
"""What is left of the weight of a quotation in a text about attacks, books or code."""
_MEMORY = 1 << 26
"""Bytes that RE2 may use for the states of a set; it starts anew when they are full."""
_REPEATS = 4
"""How often all of a text is read again, at most, for matches within what a rule rejected."""
_MOST_RUNS = 50
"""Encoded parts of a text that are decoded."""
_MOST_SPANS = 20
"""Matches of a pattern whose quotation marks are examined."""


class Detection(msgspec.Struct, frozen=True):
    """Something found in a text of a JSON value: what kind of thing, by which rule, and where."""

    kind: DetectionKind
    rule: str
    """A short name that stays the same, such as `aws` or `override`."""
    path: str
    """The JSON path of the text: `$.notes[0]`, `$` for a plain text, `$.notes~` for the name of a field. A name that is
    not a short word is written as its position, `$.#2`, because it may be a secret."""
    start: int
    end: int


def find_in(value: Any, *, instructions: bool) -> tuple[Detection, ...]:
    """Find secrets, payment data and codes in a JSON value, and instructions if asked for.

    >>> find_in("The key is AKIAIOSFODNN7EXAMPLE.", instructions=False)
    (Detection(kind='secret', rule='aws', path='$', start=11, end=31),)
    """
    if isinstance(value, str):
        return tuple(_find("$", value, "", instructions))
    found: list[Detection] = []
    for path, text, name in _texts(value):
        found += _find(path, text, name, instructions)
    return tuple(found)


def redact(value: Any, findings: Sequence[Detection]) -> Any:
    """Return a JSON value with a mark such as `[redacted secret]` in place of each finding; instructions remain.

    >>> redact({"card": 4111111111111111}, find_in({"card": 4111111111111111}, instructions=False))
    {'card': '[redacted payment]'}
    """
    places: dict[str, list[Detection]] = {}
    for one in findings:
        if one.kind != "instruction":
            places.setdefault(one.path, []).append(one)
    if not places:
        return value
    result: list[Any] = [None]
    todo: list[tuple[Any, str, Any, Any]] = [(value, "$", result, 0)]
    while todo:
        item, path, into, at = todo.pop()
        if isinstance(item, dict):
            fields: dict[str, Any] = {}
            into[at] = fields
            for position, (name, inner) in enumerate(cast("dict[str, Any]", item).items()):
                child = _child(path, name, position)
                new = _free_name(_redact_text(name, places.get(f"{child}~")), fields)
                fields[new] = None
                todo.append((inner, child, fields, new))
        elif isinstance(item, list):
            items = cast("list[Any]", item)
            into[at] = [None] * len(items)
            todo.extend((inner, f"{path}[{position}]", into[at], position) for position, inner in enumerate(items))
        else:
            here = places.get(path)
            into[at] = item if here is None else _redact_text(str(item), here)
    return result[0]


def may_contain(payload: bytes) -> bool:
    r"""Return whether JSON may contain a secret, payment data or a code; False is certain.

    It looks for short hints only. JSON that escapes characters which need no escape, as `\u0041` does, may contain any.
    """
    if b"\\" in payload and (b"\\u" in payload or b"\\/" in payload):
        return True
    return _hints()(payload) is not None


# --- the table


class _Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    pattern: str
    hint: str
    check: Literal["token", "value", "password", "mixed", "card", "iban", "code", "backup", "link", ""] = ""
    unless: str = ""


class _Instruction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    weight: int
    patterns: list[str] = []
    native: list[str] = []
    """Patterns of scripts that have no ASCII form."""


class _Discussion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    patterns: list[str]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    parts: dict[str, str]
    instruction: list[_Instruction]
    discussion: _Discussion
    secret: list[_Rule]
    payment: list[_Rule]
    code: list[_Rule]
    iban: dict[str, int]
    ordinary: frozenset[str]
    credentials: frozenset[str]


@cache
def _table() -> _Table:
    return msgspec.toml.decode(Path(__file__).with_name("detection.toml").read_bytes(), type=_Table)


def _options(*, latin: bool) -> Any:
    re2: Any = import_module("re2")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    if latin:
        options.encoding = re2.Options.Encoding.LATIN1
    return options


def _compile(pattern: str, *, latin: bool = True) -> Any:
    """Compile a pattern for bytes in Latin-1 or in UTF-8."""
    re2: Any = import_module("re2")
    return re2.compile(pattern.encode("latin-1" if latin else "utf-8"), options=_options(latin=latin))


def _compile_set(patterns: Sequence[str], *, latin: bool = True) -> Callable[[bytes], list[int] | None]:
    """Return a function that gives the numbers of the patterns that occur in bytes, in one pass."""
    re2: Any = import_module("re2")
    result = re2.Set.SearchSet(options=_options(latin=latin))
    for pattern in patterns:
        result.Add(pattern.encode("latin-1" if latin else "utf-8"))
    result.Compile()
    return result.Match


# --- the texts of a value

_PLAIN_NAME = re.compile(r"[A-Za-z_-]{1,24}\d{0,2}")
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\s-]+")


def _texts(value: Any) -> Iterator[tuple[str, str, str]]:
    """Yield each text of a value with its path, and the name of its field where that matters; whole numbers too."""
    todo: list[tuple[Any, str, str]] = [(value, "$", "")]
    while todo:
        item, path, field = todo.pop()
        if isinstance(item, str):
            yield path, item, field
        elif isinstance(item, dict):
            children: list[tuple[Any, str, str]] = []
            for position, (name, inner) in enumerate(cast("dict[str, Any]", item).items()):
                child = _child(path, name, position)
                yield f"{child}~", name, ""
                children.append((inner, child, _field_words(name)))
            todo.extend(reversed(children))
        elif isinstance(item, list):
            items = cast("list[Any]", item)
            todo.extend((items[number], f"{path}[{number}]", field) for number in range(len(items) - 1, -1, -1))
        elif isinstance(item, int) and not isinstance(item, bool) and (field or 10**11 < item < 10**19):
            yield path, str(item), field


def _child(path: str, name: str, position: int) -> str:
    return f"{path}.{name}" if _PLAIN_NAME.fullmatch(name) else f"{path}.#{position}"


def _field_words(name: str) -> str:
    """Return the name of a credential as words: `api key` of `apiKey`; nothing for other names."""
    if len(name) > 64:
        return ""
    words = _CAPITAL.sub(" ", name).lower().strip()
    return words if words.rpartition(" ")[2] in _table().credentials else ""


def _redact_text(text: str, findings: Sequence[Detection] | None) -> str:
    """Replace what was found; findings that overlap become one mark, of the first of them."""
    if not findings:
        return text
    parts: list[str] = []
    done = 0
    for one in sorted(findings, key=lambda one: (one.start, -one.end)):
        if one.start >= done:
            parts += (text[done : one.start], f"[redacted {one.kind}]")
        done = max(done, one.end)
    return "".join((*parts, text[done:]))


def _free_name(name: str, fields: dict[str, Any]) -> str:
    if name not in fields:
        return name
    number = 2
    while f"{name} {number}" in fields:
        number += 1
    return f"{name} {number}"


def _find(path: str, text: str, name: str, instructions: bool) -> list[Detection]:
    found = [Detection(one.kind, one.rule, path, one.start, one.end) for one in _find_values(text, name)]
    if instructions:
        found += [Detection("instruction", rule, path, start, end) for rule, start, end in _find_instructions(text)]
    return found


# --- secrets, payment data and codes


class _Found(NamedTuple):
    kind: DetectionKind
    rule: str
    start: int
    end: int


class _Detector(NamedTuple):
    kind: DetectionKind
    rule: str
    pattern: Any
    check: Callable[[str, Any], tuple[int, int] | None]
    unless: Any


@cache
def _detectors() -> tuple[Callable[[bytes], list[int] | None], list[_Detector]]:
    table = _table()
    kinds: list[tuple[DetectionKind, list[_Rule]]] = [
        ("secret", table.secret),
        ("payment", table.payment),
        ("code", table.code),
    ]
    detectors = [
        _Detector(kind, rule.name, _compile(rule.pattern), _CHECKS[rule.check], _compile(rule.unless or "[^\\s\\S]"))
        for kind, rules in kinds
        for rule in rules
    ]
    return _compile_set([rule.pattern for _, rules in kinds for rule in rules]), detectors


@cache
def _hints() -> Callable[[bytes], list[int] | None]:
    """Return a set of one pattern: a hint, or a hint for a code together with a digit."""
    table = _table()

    # A field may be named `security_code` or `securityCode`: the text that the rule reads has a space there.
    def join(rules: Sequence[_Rule]) -> str:
        return "|".join(f"(?:{rule.hint})" for rule in rules).replace(" ", "[ _-]?")

    codes = join([rule for rule in table.code if rule.check != "link"])
    others = join([*table.secret, *table.payment, *(rule for rule in table.code if rule.check == "link")])
    return _compile_set([rf"{others}|(?s:(?:{codes}).*\d)|(?s:\d.*(?:{codes}))"], latin=False)


def _find_values(text: str, name: str) -> list[_Found]:
    lead = 0
    if name:
        lead = len(name) + 2
        text = f"{name}: {text}"
    # Latin-1 has one byte for each character, so places in the bytes are places in the text.
    data = text.encode("latin-1", "replace")
    matches, detectors = _detectors()
    hits = matches(data)
    if not hits:
        return []
    return _outermost(
        [
            _Found(one.kind, one.rule, max(0, start - lead), end - lead)
            for one in (detectors[number] for number in sorted(hits))
            for start, end in _spans(one, text, data)
            if end > lead
        ]
    )


def _spans(detector: _Detector, text: str, data: bytes) -> Iterator[tuple[int, int]]:
    position = 0
    patience = _REPEATS * len(data)
    while match := detector.pattern.search(data, position):
        start, end = match.span(match.lastindex or 0)
        within = detector.check(text[start:end], match)
        if within is not None:
            before = data[max(0, match.start() - 40) : start]
            within = None if detector.unless.search(before) else within
        if within is None:
            # What is rejected may hide another match, but a long run of them must not be read again and again.
            patience -= end - match.start()
            position = start + 1 if patience > 0 else max(end, start + 1)
        else:
            yield start + within[0], start + within[1]
            position = max(start + within[1], start + 1)


def _outermost(found: list[_Found]) -> list[_Found]:
    """Leave out findings inside others; of two at one place, a password that is a code is a code."""
    result: list[_Found] = []
    furthest = -1
    for one in sorted(found, key=lambda one: (one.start, -one.end, one.kind == "secret")):
        if one.end > furthest:
            result.append(one)
            furthest = one.end
    return result


_PLACEHOLDER = re.compile(
    r"[\"'“`]?(?:\$\{|\$\(|\{\{?|<|%\(|\[|\*{3}|\.{3}|x{4}|…|•|your[-_ ]?|my[-_ ]|some[-_ ]"
    r"|change[-_]?me|placeholder|insert|todo\b|\[?redacted|process\.env|os\.environ|os\.getenv|getenv|env\.|env\[|config[.\[]|settings\.|secrets\.|vault|self\."
    r"|(?:pass(?:word|wd)?|secret|user(?:name)?|token|pw|pwd|example|dummy|sample|fake|test)(?:$|[\"'”`]))",
    re.IGNORECASE,
)


def _entropy(text: str) -> float:
    return -sum(count / len(text) * log2(count / len(text)) for count in Counter(text).values())


def _is_words(text: str) -> bool:
    """Return whether a text is made of words and short numbers, as `getting-started-2024` is."""
    parts = re.split(r"[-_.:/=+%]+", text)
    return all(part.isalpha() or (part.isdigit() and len(part) <= 4) or not part for part in parts) and (
        len(parts) > 1 or text.islower() or text.istitle() or text.isupper()
    )


def _check_token(value: str, match: Any) -> tuple[int, int] | None:
    text = value.rstrip(".:!&")
    if len(text) < 12 or _PLACEHOLDER.match(text) or _is_words(text):
        return None
    sample = text[:200]
    mixed = any(char.isdigit() for char in sample) or (len(sample) >= 24 and not sample.islower())
    return (0, len(text)) if mixed and _entropy(sample) >= 2.8 and "://" not in text else None


def _check_value(value: str, match: Any) -> tuple[int, int] | None:
    return None if _PLACEHOLDER.match(value) or not value.strip("*x.") else (0, len(value))


def _check_mixed(value: str, match: Any) -> tuple[int, int] | None:
    text = value.rstrip(".,;:!?)")
    mixed = any(map(str.isdigit, text)) and any(map(str.isalpha, text))
    return (0, len(text)) if mixed and len(text) >= 6 and not _is_words(text) and not _PLACEHOLDER.match(text) else None


def _check_password(value: str, match: Any) -> tuple[int, int] | None:
    if _PLACEHOLDER.match(value):
        return None
    if value[0] in _QUOTATION_MARKS:
        inner = value[1:-1]
        return (1, len(value) - 1) if inner.strip() and inner.lower() not in _table().ordinary else None
    if re.search(rb"(?i)phra[sz]e", match.group(0)[: match.start(match.lastindex) - match.start()]):
        phrase = re.split(r"[.,;!?](?:\s|$)", value, maxsplit=1)[0]
        if len(phrase.split()) >= 3:
            return 0, len(phrase)
    word = value.split(" ", 1)[0]
    text = word.rstrip(".,;:!?)]}")
    bare = text.lower().strip("()[]")
    if len(text) < 4 or bare in _table().ordinary or "://" in text or text.startswith(("(", "/", "@")):
        return None
    plain = re.fullmatch(r"[^\W\d_]+(?:['’-][^\W\d_]+)*", text) is not None
    if not plain:
        dated = re.fullmatch(r"\d{1,2}[.:/]\d{2}(?:[.:/]\d{2,4})?|\d+(?:st|nd|rd|th|%|h|px|er)", text)
        called = re.search(r"[(\[]", text) and not any(map(str.isdigit, text))
        return None if dated or called else (0, len(text))
    inner_capital = not text.isupper() and text[1:] != text[1:].lower()
    ends = len(word) > len(text) or word == value
    if bare.endswith(("ed", "ing", "able", "ible", "ert", "iert")) and not inner_capital:
        return None
    return (0, len(text)) if inner_capital or (ends and len(text) >= 5) else None


_QUOTATION_MARKS = "\"'`\xab\xbb\u2018\u2019\u201a\u201c\u201d\u201e\u2039\u203a"
_SPACES = str.maketrans("", "", " -")


def _check_card(value: str, match: Any) -> tuple[int, int] | None:
    digits = value.translate(_SPACES)
    lead, size = int(digits[:4]), len(digits)
    if not (
        (digits[0] == "4" and size in (13, 16, 19))
        or (size == 15 and digits[:2] in ("34", "37"))
        or (size == 14 and (digits[:2] in ("36", "38", "39") or 3000 <= lead <= 3059))
        or (size == 16 and (5100 <= lead <= 5599 or 2221 <= lead <= 2720 or 3528 <= lead <= 3589 or digits[0] == "6"))
        or (size == 16 and digits[:2] in ("50", "56", "57", "58"))
        or (size == 19 and digits[0] == "6")
    ):
        return None
    total = 0
    for place, char in enumerate(reversed(digits)):
        number = int(char) * (1 + place % 2)
        total += number - 9 if number > 9 else number
    return (0, len(value)) if total % 10 == 0 and len(set(digits)) > 1 else None


def _check_iban(value: str, match: Any) -> tuple[int, int] | None:
    size = _table().iban.get(value[:2].upper())
    if size is None:
        return None
    end = kept = 0
    while end < len(value) and kept < size:
        kept += value[end] not in " -"
        end += 1
    plain = value[:end].translate(_SPACES).upper()
    if kept < size or (end < len(value) and value[end].isalnum()):
        return None
    groups = re.split("[ -]", value[:end])
    if len(groups) > 1 and any(len(group) != 4 for group in groups[:-1]):
        return None  # printed in groups of four, or without any: other groups are those of a UUID
    number = int("".join(str(int(char, 36)) for char in plain[4:] + plain[:4]))
    return (0, end) if number % 97 == 1 else None


def _check_code(value: str, match: Any) -> tuple[int, int] | None:
    year = len(value) == 4 and value[:2] in ("19", "20") and value.isdigit()
    return None if year and b"tan" not in match.group(0).lower() else (0, len(value))


def _check_backup(value: str, match: Any) -> tuple[int, int] | None:
    text = value.rstrip(" ,;\"'\n\t")
    return (0, len(text)) if any(map(str.isdigit, text)) else None


def _check_link(value: str, match: Any) -> tuple[int, int] | None:
    text = value.rstrip(".")
    last = re.split(r"[=/]", text.rstrip("="))[-1]
    return (0, len(text)) if len(last) >= 10 and _check_token(last + "=" * (12 - len(last)), match) else None


def _check_nothing(value: str, match: Any) -> tuple[int, int] | None:
    return 0, len(value)


_CHECKS: dict[str, Callable[[str, Any], tuple[int, int] | None]] = {
    "": _check_nothing,
    "token": _check_token,
    "value": _check_value,
    "password": _check_password,
    "mixed": _check_mixed,
    "card": _check_card,
    "iban": _check_iban,
    "code": _check_code,
    "backup": _check_backup,
    "link": _check_link,
}


# --- folding


_OTHER = "\x1a"
"""What characters become that are not like an ASCII one."""


class _Folds(dict[int, str]):
    """The ASCII form of each code point, filled as they occur."""

    def __missing__(self, number: int) -> str:
        # Beyond these are mostly ideographs and emoji, too many to keep.
        if 0x3000 <= number < 0xFE00 or 0x1F200 <= number < 0xE0000:
            return _OTHER
        folded = "".join(part if part.isascii() else _OTHER for part in fold_character(chr(number)))
        self[number] = folded
        return folded


_FOLDS = _Folds()


class _View(NamedTuple):
    """A form of a text that is searched: `origin` gives the place in the text of a place in the form."""

    data: bytes
    origin: Callable[[int, int], tuple[int, int]]


class _NativeFolds(dict[int, str]):
    """Each code point in lower case and in its compatibility form, without what cannot be seen."""

    def __missing__(self, number: int) -> str:
        plain = unicodedata.normalize("NFKC", chr(number)).lower()
        folded = "" if unicodedata.category(chr(number)) == "Cf" else plain
        if number < 0x3000:
            self[number] = folded
        return folded


_NATIVE_FOLDS = _NativeFolds()


def _fold_natively(text: str) -> _View:
    """Return a text in its own script, in UTF-8."""

    def origin(start: int, end: int) -> tuple[int, int]:
        places = [place for place, char in enumerate(text) for _ in _NATIVE_FOLDS[ord(char)].encode()]
        return places[start], places[end - 1] + 1

    return _View(text.translate(_NATIVE_FOLDS).encode("utf-8", "replace"), origin)


def _same_place(start: int, end: int) -> tuple[int, int]:
    return start, end


def _fold(text: str) -> _View:
    if text.isascii() and "\x7f" not in text:
        return _View(text.lower().encode(), _same_place)
    folded = text.translate(_FOLDS)

    def origin(start: int, end: int) -> tuple[int, int]:
        places = [place for place, char in enumerate(text) for _ in _FOLDS[ord(char)]]
        return places[start], places[end - 1] + 1

    return _View(folded.encode("ascii", "replace"), origin)


# --- instructions

_PART = re.compile(r"<([a-z]+|\d+)>")
_CLASS = re.compile(r"(\[\^?\]?(?:\\.|[^\]\\])*\])|( )")
_SPACE = "(?:[^a-z0-9]+)"
_NO_SPACE = "(?:[^a-z0-9]*)"
_NATIVE_SPACE = r"(?:[^\pL\pM\pN]+)"
_GAPS = {
    _SPACE: r"(?:[a-z0-9'_-]+[^a-z0-9.!?]+){0,%s}",
    _NO_SPACE: "[a-z0-9]{0,12}",
    _NATIVE_SPACE: r"(?:[\pL\pM\pN'_-]+[^\pL\pM\pN.!?]+){0,%s}",
}
_TRIGGERS = {
    "leet": r"[a-z][013457@$][a-z]|[a-z][013457@$]{2}[a-z]",
    "apart": r"(?:[^a-z0-9]|^)(?:[a-z0-9][ ._*|/\-]){5}[a-z0-9](?:[^a-z0-9]|$)",
    "base64": r"[a-z0-9+/_-]{24,}",
    "percent": r"(?:%[0-9a-f]{2}[a-z]{0,12}){3}",
    "entities": r"(?:&(?:#x?[0-9a-f]{2,6}|[a-z]{2,8});[a-z]{0,12}[^a-z&]{0,2}){3}",
    "escapes": r"(?:\\(?:u00|x)[0-9a-f]{2}[a-z]{0,12} ?){4}",
    "hex": r"(?:[0-9a-f]{2}[ :]?){16}",
    "rot13": r"vtaber|qvfertneq|vafgehpgvba|cebzcg|sbejneq|erzrzore|flfgrz|nffvfgnag",
    "reversed": r"snoitcurtsni|suoiverp|erongi|dragersid|tpmorp|tnatsissa",
}
_LEET = bytes.maketrans(b"013457@$", b"oieastas")
_APART = r"((?:[a-z0-9][ ._*|/-]{1,3}){5,}[a-z0-9])(?:[^a-z0-9]|$)"
_BASE64_RUN = re.compile(r"[A-Za-z0-9+/_-]{24,}+={0,2}")
_HEX_RUN = re.compile(r"(?:[0-9A-Fa-f]{2}[ :]?){16,}+")
_ESCAPE = re.compile(r"\\(?:u00|x)([0-9A-Fa-f]{2})")
_QUOTATION = r"(?s)\"[^\"]+\"|\x60[^\x60]+\x60|(?:^|[\s(:=,\[])('.*?[a-z0-9.!?]')(?:[\s.,;:!?)\]]|$)|(?:^|\n)> [^\n]+"


class _Reading(NamedTuple):
    """The compiled patterns for one form of a text."""

    matches: Callable[[bytes], list[int] | None]
    rules: list[_Instruction]
    """The rule of each pattern."""
    patterns: list[str]
    latin: bool
    """Whether the form has one byte for each character."""


class _Signs(NamedTuple):
    """The compiled rules for instructions; the numbers of triggers follow those of folded patterns."""

    folded: _Reading
    native: _Reading
    triggers: list[str]
    joined: Callable[[bytes], list[int] | None]
    """The strong patterns, for text without spaces; `strong` has their rules."""
    strong: list[str]
    discussion: Any
    quotation: Any
    apart: Any


@cache
def _signs() -> _Signs:
    table = _table()
    pairs = [(rule, pattern) for rule in table.instruction for pattern in rule.patterns]
    patterns = [_expand(pattern, _SPACE) for _, pattern in pairs]
    natives = [(rule, _expand(pattern, _NATIVE_SPACE)) for rule in table.instruction for pattern in rule.native]
    native = [pattern for _, pattern in natives]
    strong = [(rule.name, pattern) for rule, pattern in pairs if rule.weight >= ENOUGH]
    return _Signs(
        _Reading(_compile_set([*patterns, *_TRIGGERS.values()]), [rule for rule, _ in pairs], patterns, latin=True),
        _Reading(_compile_set(native, latin=False), [rule for rule, _ in natives], native, latin=False),
        list(_TRIGGERS),
        _compile_set([_expand(pattern, _NO_SPACE).replace(r"\b", "") for _, pattern in strong]),
        [name for name, _ in strong],
        _compile("|".join(_expand(pattern, _SPACE) for pattern in table.discussion.patterns)),
        _compile(_QUOTATION),
        _compile(_APART),
    )


@cache
def _pattern(source: str, *, latin: bool) -> Any:
    return _compile(source, latin=latin)


def _expand(pattern: str, space: str) -> str:
    """Write out the parts, gaps and spaces of a pattern."""
    gap = _GAPS[space]

    def write_out(found: re.Match[str]) -> str:
        if found[1].isdigit():
            return gap.replace("%s", found[1])
        return _PART.sub(write_out, _table().parts[found[1]])

    return _CLASS.sub(lambda found: found[1] or space, _PART.sub(write_out, pattern))


def _find_instructions(text: str) -> list[tuple[str, int, int]]:
    view = _fold(text)
    signs = _signs()
    found: list[tuple[str, int, int]] = []
    if _OTHER.encode() in view.data:
        native = _fold_natively(text)
        found += _judge(native, signs.native.matches(native.data) or (), signs.native)
    hits = signs.folded.matches(view.data)
    if not hits:
        return found
    count = len(signs.folded.rules)
    found += _judge(view, [hit for hit in hits if hit < count], signs.folded)
    triggers = {signs.triggers[hit - count] for hit in hits if hit >= count}
    if "apart" in triggers:
        found += _letters_apart(view)
    for hidden, start, end in _hidden_texts(text, view, triggers):
        inner = _fold(hidden)
        within = [hit for hit in signs.folded.matches(inner.data) or () if hit < count]
        rules = _judge(inner, within, signs.folded)
        known = {rule for rule, first, last in found if start <= first and last <= end}
        found += [(rule, start, end) for rule in dict.fromkeys(rule for rule, _, _ in rules) if rule not in known]
    return sorted(found, key=lambda one: one[1:])


def _judge(view: _View, hits: Sequence[int], reading: _Reading) -> list[tuple[str, int, int]]:
    """Return the rules that make a text an instruction, with the places of what they match in it."""
    if _weigh([(reading.rules[hit], 1.0) for hit in hits]) < ENOUGH:
        return []
    quotations = _quotations(view.data)
    shares: list[tuple[_Instruction, float]] = []
    found: dict[str, tuple[str, int, int]] = {}
    for hit in sorted(hits):
        rule = reading.rules[hit]
        matches = _pattern(reading.patterns[hit], latin=reading.latin).finditer(view.data)
        spans = [match.span() for match, _ in zip(matches, range(_MOST_SPANS), strict=False)]
        bare = [span for span in spans if not _is_inside(span, quotations)]
        quoted = not bare and len(spans) < _MOST_SPANS
        shares.append((rule, _QUOTED if quoted else 1.0))
        if not quoted or rule.name not in found:
            found.setdefault(rule.name, (rule.name, *view.origin(*(bare or spans)[0])))
    return list(found.values()) if _weigh(shares) >= ENOUGH else []


def _is_inside(span: tuple[int, int], outer: Sequence[tuple[int, int]]) -> bool:
    place = bisect_right(outer, span[0], key=lambda one: one[0]) - 1
    return place >= 0 and span[1] <= outer[place][1]


def _weigh(shares: Sequence[tuple[_Instruction, float]]) -> float:
    """Add up the weights of rules; a second pattern of a rule adds half of its weight."""
    weights: dict[str, list[float]] = {}
    for rule, share in shares:
        weights.setdefault(rule.name, []).append(rule.weight * share)
    return sum(max(ones) + (min(ones) / 2 if len(ones) > 1 else 0) for ones in weights.values())


def _quotations(data: bytes) -> list[tuple[int, int]]:
    """Return the quotations of a text that is about something else; none if it says nothing besides them."""
    signs = _signs()
    spans = [match.span() for match in signs.quotation.finditer(data)]
    rest = signs.quotation.sub(b" ", data) if spans else data
    return spans if signs.discussion.search(rest) else []


def _hidden_texts(text: str, view: _View, triggers: set[str]) -> Iterator[tuple[str, int, int]]:
    """Yield what a text hides under one layer, with the place of the part that hides it."""
    if "base64" in triggers:
        yield from _decode_runs(text, _BASE64_RUN, _from_base64)
    if "hex" in triggers:
        yield from _decode_runs(text, _HEX_RUN, _from_hex)
    views: dict[str, Callable[[], str]] = {
        "leet": lambda: view.data.translate(_LEET).decode(),
        "percent": lambda: unquote(text, errors="replace"),
        "entities": lambda: html.unescape(text),
        "escapes": lambda: _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text),
        "rot13": lambda: codecs.encode(text, "rot13"),
        "reversed": lambda: text[::-1],
    }
    for name in triggers & views.keys():
        yield views[name](), 0, len(text)


def _letters_apart(view: _View) -> Iterator[tuple[str, int, int]]:
    """Yield the strong rules that apply to letters which are written apart."""
    signs = _signs()
    for match, _ in zip(signs.apart.finditer(view.data), range(_MOST_RUNS), strict=False):
        run: bytes = match.group(1).translate(None, b" ._*|/-")
        for hit in (signs.joined(run) or ())[:1]:
            yield signs.strong[hit], *view.origin(*match.span(1))


def _decode_runs(
    text: str, run: re.Pattern[str], decode: Callable[[str], bytes | None]
) -> Iterator[tuple[str, int, int]]:
    for match, _ in zip(run.finditer(text), range(_MOST_RUNS), strict=False):
        decoded = decode(match[0])
        if decoded and sum(32 <= byte < 127 or byte in b"\t\n\r" for byte in decoded) >= 0.85 * len(decoded):
            yield decoded.decode("utf-8", "replace"), *match.span()


def _from_base64(run: str) -> bytes | None:
    plain = run.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain[: len(plain) - (len(plain) % 4 == 1)] + "=" * (-len(plain) % 4))
    except binascii.Error:
        return None


def _from_hex(run: str) -> bytes | None:
    digits = run.replace(" ", "").replace(":", "")
    return bytes.fromhex(digits[: len(digits) // 2 * 2])
