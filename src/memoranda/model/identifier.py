"""Identifiers of people and things, such as addresses and phone numbers, however they are written.

`+49 (0) 151 234-567` and `0049151234567` are one number, `MAILTO:Ada@Example.org`, `ada [at] example [dot] org` and
`ada@example.org` one address, `Иван Петров` and `Ivan Petrov` one name. An identifier is found only as a whole: `ann`
is neither in `anna` nor in `ann@example.org`, and `TKT-100` is not in `TKT-1000`.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec

from memoranda.errors import UsageError
from memoranda.model.folding import fold
from memoranda.model.text import quote

LONGEST = 512
"""Characters of an identifier."""
_SHORTEST = 2
"""Letters and digits of an identifier."""
_DASHES = r"\-\u2010-\u2015\u2212"
_PHONE = re.compile(rf"(?:\+|00)?[\d\s().{_DASHES}/]+")
_TRUNK = re.compile(r"\(0\)")
_FEWEST_DIGITS, _FULL_NUMBER = 6, 10
"""Digits of a phone number, and digits from which on a number is complete."""
_FEWEST_ABROAD = 9
"""Digits of a number that begins with `00` before a country; a shorter one is padded with zeros."""
_CODE = re.compile(rf"[^\W_]++(?:[\s.{_DASHES}][^\W_]++)*+")
_EMAIL = re.compile(r"([^\s@/]{1,64})@([^\s@/]+\.[^\s@/.]+)")
_ADDRESS = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})")
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_DATE = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})|(\d{1,2})([-/.])(\d{1,2})\5(\d{4})")
_TIME = re.compile(r"(\d{1,2}):(\d\d)\s?(?:([ap])\.?m\.?)?")
_BANK = re.compile(r"([a-z]{6}[a-z0-9]{2})(?:xxx)?")
_SCHEME = re.compile(r"(?:https?|ftp)://(?:www\.)?|www\.(?=[^\s/.]{1,63}[./])")
_PATH = re.compile(r"[^\s/]*(?:/[^\s/]+)+/?|[a-z]:/\S+")
_BACKSLASHES = re.compile(r"\\{1,2}")
_GAPS = re.compile(rf"(?<=[^\W_])[\s_{_DASHES}]+(?=[^\W_])|\s+")
"""What is between the words of a name."""
_SEGMENTS = re.compile(r"[.:/#]")
_MONTHS = (
    "jan(?:uary)?", "feb(?:ruary)?", "mar(?:ch)?", "apr(?:il)?", "may", "june?", "july?", "aug(?:ust)?",
    "sept?(?:ember)?", "oct(?:ober)?", "nov(?:ember)?", "dec(?:ember)?",
)  # fmt: skip

# What may continue an identifier on either side: a letter or digit, or one of these with a letter or digit behind it.
_JOINTS = rf"{_DASHES}.@+"
_BEFORE = rf"(?<!\w)(?<!\w[{_JOINTS}])"
_AFTER = rf"(?!\w|[{_JOINTS}]\w)"
# Scripts without spaces: a word ends where another script begins, or with one of these particles.
_PARTICLES = "|".join(map(fold, "은 는 이 가 을 를 의 에게 에 께서 님 씨 와 과 도 로".split()))

# How people write addresses so that programs do not find them.
_OBFUSCATED = re.compile(r'[\[({<](?:at|@|dot|punkt|\.)[\])}>]|"@|%40|&#64;|\bat\b.{1,80}\bdot\b', re.DOTALL)
_AT = re.compile(r"\s{0,2}[\[({<]\s?(?:at|@)\s?[\])}>]\s{0,2}|%40|&#64;")
_DOT = re.compile(r"\s{0,2}[\[({<]\s?(?:dot|punkt|\.)\s?[\])}>]\s{0,2}")
_AT_IN_WORDS = re.compile(r"(?<=\w) at (?=[\w-]{1,64}(?: dot |\.)\w)")
_DOT_IN_WORDS = re.compile(r"(?<=\w) dot (?=\w)")
_QUOTED = re.compile(r'"([^\s"@]{1,64})"@')


class Identifier:
    """An identifier to look for.

    >>> Identifier("+49 151 234567").is_in({"phone": ["0049 (0)151-234567"]})
    True
    >>> Identifier("ann").is_in("Anna called"), Identifier("Ann").is_in("ANN's number")
    (False, True)
    >>> Identifier("kappa7").is_in("kappa7-2026"), Identifier("kappa7", inside=True).is_in("kappa7-2026")
    (False, True)
    """

    def __init__(self, text: str, *, inside: bool = False) -> None:
        """Take any spelling of the identifier, or raise UsageError; `inside` also finds it inside a longer one."""
        if not isinstance(cast(object, text), str):
            raise UsageError(f"{quote(text)} is {type(text).__name__}, not text", hint="Pass text", path="identifier")
        folded = _plain(text).strip().strip("\"'`<>").strip()
        for scheme in ("mailto:", "tel:"):
            folded = folded.removeprefix(scheme).strip()
        if folded[:1] in ("@", "#"):
            folded = folded[1:]
        if len(folded) > LONGEST or sum(character.isalnum() for character in folded) < _SHORTEST:
            raise UsageError(
                f"{quote(text)} is not an identifier",
                hint=f"Pass an address, a number or a name of {_SHORTEST} to {LONGEST} characters",
                value=text,
                path="identifier",
            )
        self.pattern = re.compile(_pattern_of(folded, *(("", "") if inside else _edges_of(folded))))
        """Matches the identifier in folded texts."""
        self._is_foreign = _FOREIGN.search(text) is not None
        self._sound = " ".join(map(_sound_of, text.split())) if _is_name(text) else None
        """How a name sounds, to compare it with the same name in another script."""

    def is_in(self, value: Any) -> bool:
        """Return whether a JSON value contains the identifier, in a text, a number or a name."""
        return any(self._matches(text) for text in _texts(value))

    def is_in_key(self, key: str | None) -> bool:
        """Return whether a key contains the identifier, as a whole or as a part between its separators."""
        if key is None:
            return False
        begins = [0, *(match.end() for match in _SEGMENTS.finditer(key))]
        parts = {*_SEGMENTS.split(key), *(key[begin:] for begin in begins)}
        return any(self._matches(part) for part in parts)

    def _matches(self, text: str) -> bool:
        if self.pattern.search(_plain(text)):
            return True
        if self._sound is None or not (self._is_foreign or _FOREIGN.search(text)):
            return False
        return f" {self._sound} " in _sounds_in(text, is_foreign=not self._is_foreign)


def _pattern_of(folded: str, before: str, after: str) -> str:
    """Return the pattern of an identifier in folded texts, between what may not continue it."""
    if (email := _EMAIL.fullmatch(folded)) is not None:
        # What follows a plus is a label of the same mailbox.
        label = "" if "+" in email[1] else r"(?:\+[\w.-]{1,64})?"
        return rf"{before}{re.escape(email[1])}{label}@{re.escape(email[2])}{after}"
    if (address := _ADDRESS.fullmatch(folded)) is not None and all(int(part) < 256 for part in address.groups()):
        numbers = r"\.".join(rf"0{{0,2}}{int(part)}" for part in address.groups())
        return rf"(?<![\w.]){numbers}(?!\w|\.\d)" if before else numbers
    if (day := _DATE.fullmatch(folded)) is not None and (pattern := _pattern_of_day(day)) is not None:
        return pattern
    if (time := _TIME.fullmatch(folded)) is not None and int(time[1]) < 24 and int(time[2]) < 60:
        return _pattern_of_time(time)
    if _UUID.fullmatch(folded):
        return before + "-?".join(character for character in folded if character != "-") + after
    path = _SCHEME.sub("", _BACKSLASHES.sub("/", folded), count=1)
    if _PATH.fullmatch(path) or path != folded:
        return _pattern_of_path(path, is_whole=bool(before))
    if _PHONE.fullmatch(folded) and sum(character.isdigit() for character in folded) >= _FEWEST_DIGITS:
        return _pattern_of_number(folded, is_whole=bool(before))
    if folded.isdecimal():
        bare = folded.lstrip("0")
        # Zeros in front pad a number; a single one may be part of it.
        padding = "(?:00+)?" if bare and (len(bare) == len(folded) or len(folded) - len(bare) > 1) else ""
        return rf"{before}(?<!\d[,.]){padding}{bare if padding else folded}{after}(?![,.]\d)"
    has_digits = any(character.isdigit() for character in folded)
    has_letters = any(character.isalpha() for character in folded)
    if has_digits and has_letters and _CODE.fullmatch(folded):
        # A code such as an IBAN is written with and without gaps.
        signs = [re.escape(character) for character in folded if character.isalnum()]
        return before + rf"[\s.{_DASHES}]?".join(signs) + after
    if (bank := _BANK.fullmatch(folded)) is not None:
        return before + bank[1] + "(?:xxx)?" + after  # the main office of a bank
    # `ACME-CORP`, `acme_corp` and `Acme Corp` are one name.
    words = [word for word in _GAPS.split(folded) if word]
    return before + rf"[\s_{_DASHES}]+".join(re.escape(word) for word in words) + after


def _edges_of(folded: str) -> tuple[str, str]:
    """Return what may not be before and behind an identifier, in patterns."""
    first, last = _script_without_spaces(folded[0]), _script_without_spaces(folded[-1])
    before = _BEFORE if first is None else rf"(?<![{first}])"
    after = _AFTER if last is None else rf"(?:(?=(?:{_PARTICLES})(?!\w))|(?![{last}]))"
    return before, after


def _script_without_spaces(character: str) -> str | None:
    """Return the range of a script whose words are not separated, or that has particles; None for other scripts."""
    if "\u3400" <= character <= "\u9fff" or character == "\u3005":
        return "\u3005\u3400-\u9fff"
    if "\u3041" <= character <= "\u30ff":
        return "\u3041-\u30ff"
    # Folded Hangul is decomposed.
    return "\u1100-\u11ff\uac00-\ud7a3" if "\u1100" <= character <= "\u11ff" or "가" <= character <= "힣" else None


def _pattern_of_number(folded: str, *, is_whole: bool) -> str:
    number = _TRUNK.sub("", folded)
    digits = "".join(character for character in number if character.isdigit())
    gap = rf"[\s().{_DASHES}/]{{0,3}}"
    begins, is_international = r"(?<![\d+])", False
    if number.lstrip("( ").startswith("+"):
        is_international = True
    elif digits.startswith("00") and len(digits) >= _FEWEST_ABROAD:
        digits, is_international = digits[2:], True
    elif digits.startswith("00") and digits == folded:
        digits = digits.lstrip("0") or digits
        begins = r"(?<!\w)(?:00+)?"
    if is_international:
        begins = rf"(?<!\d)(?:\+|00){gap}"
    elif len(digits) < _FULL_NUMBER:
        begins = rf"(?<![\d+])(?<!\d[\s.{_DASHES}/])" if not begins.endswith("?") else begins
    if not is_whole:
        begins = ""
    # Between any two digits of an international number there may be the `(0)` of its national form.
    between = rf"(?:{gap}\(0\))?{gap}" if is_international else gap
    head, tail = digits[:4], digits[4:]
    body = between.join(head) + "".join(gap + digit for digit in tail)
    ends = rf"(?![.{_DASHES}/]?\d)" if len(digits) >= _FULL_NUMBER else rf"(?![\s.{_DASHES}/]?\d)"
    # A letter that follows makes it the beginning of another code.
    return begins + body + (rf"{ends}(?![^\W_])" if is_whole else "")


def _pattern_of_day(day: re.Match[str]) -> str | None:
    """Return the pattern of a day in its usual spellings; None for what is not a day, or could be two."""
    if day[1] is not None:
        year, month, date = int(day[1]), int(day[2]), int(day[3])
    else:
        first, second, year = int(day[4]), int(day[6]), int(day[7])
        is_american = second > 12 or (day[5] == "/" and first == second)
        month, date = (first, second) if is_american else (second, first)
        if day[5] != "." and first <= 12 and second <= 12 and first != second:
            return None
    if not (1 <= month <= 12 and 1 <= date <= 31):
        return None
    name = _MONTHS[month - 1]
    forms = [rf"{year}[-/.]0?{month}[-/.]0?{date}", rf"0?{date}\.0?{month}\.{year}"]
    if date > 12 or date == month:
        forms += [rf"0?{month}/0?{date}/{year}", rf"0?{date}[-/]0?{month}[-/]{year}"]
    forms += [rf"{name}\.? {date}(?:st|nd|rd|th)?,? {year}", rf"{date}(?:st|nd|rd|th|\.)? (?:of )?{name}\.?,? {year}"]
    return rf"(?<![\w/-])(?:{'|'.join(forms)})(?![\w/]|-\d)"


def _pattern_of_time(time: re.Match[str]) -> str:
    hour, minute, half = int(time[1]), time[2], time[3]
    if half is not None:
        hour = hour % 12 + (12 if half == "p" else 0)
    letter, short = ("p" if hour >= 12 else "a"), hour % 12 or 12
    twelve = rf"0?{short}:{minute}\s?{letter}\.?m"
    return rf"(?<![\w:])(?:0?{hour}:{minute}(?::00)?(?!\s?[ap]\.?m)|{twelve})(?![\w:])"


def _pattern_of_path(path: str, *, is_whole: bool) -> str:
    path = path.rstrip("/")
    body = r"[\\/]{1,2}".join(re.escape(part) for part in path.split("/"))
    if not is_whole:
        return body
    head = path.partition("/")[0]
    if "." in head.strip("."):  # a host
        begins = rf"(?:(?<![\w.@-])www\.|(?<!\w)(?<!\w[{_JOINTS}])(?:(?<=//)|(?<!/)))"
    else:
        begins = r"(?<![\w.])" if path.startswith("/") else _BEFORE
    # A host is mentioned by the addresses of its pages, a page or a file only by its own.
    continued = rf"(?!\w|[{_DASHES}.@+]\w)" + (r"(?![\\/]{1,2}\w)" if "/" in path else "")
    return begins + body + continued


@functools.lru_cache(64)
def _plain(text: str) -> str:
    """Return a text as it is compared: folded, and with addresses as programs write them."""
    folded = fold(text)
    if _OBFUSCATED.search(folded) is None:
        return folded
    folded = _DOT.sub(".", _AT.sub("@", _QUOTED.sub(r"\1@", folded)))
    return _DOT_IN_WORDS.sub(".", _AT_IN_WORDS.sub("@", folded)) if " dot " in folded else folded


# names in other scripts

_FOREIGN = re.compile("[\u0370-\u03ff\u0400-\u052f]")
_WORDS = re.compile(r"[^\W\d_]+|[^\s\w]+")
_TITLES = re.compile(r"['\u2019]s?\b")
_DOUBLE = re.compile(r"(.)\1+")
_SHORTEST_NAME = 4


class _Sounds(msgspec.Struct, frozen=True):
    """Letters of other scripts by the Latin ones for them, and Latin spellings of one sound."""

    letters: dict[str, str]
    spellings: dict[str, str]


@functools.cache
def _sounds() -> _Sounds:
    return msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=_Sounds)


def _is_name(text: str) -> bool:
    letters = [character for character in text if not character.isspace()]
    return len(letters) >= _SHORTEST_NAME and all(one.isalpha() or one in ".'\u2019-" for one in letters)


@functools.lru_cache(4_096)
def _sound_of(word: str) -> str:
    """Return how a word sounds, so roughly that all transliterations of it are the same."""
    table = _sounds()
    bare = "".join(one for one in unicodedata.normalize("NFKD", word).casefold() if not unicodedata.combining(one))
    latin = "".join(table.letters.get(one, one) for one in bare)
    for spelling, sound in table.spellings.items():
        latin = latin.replace(spelling, sound)
    return _DOUBLE.sub(r"\1", latin)


def _sounds_in(text: str, *, is_foreign: bool) -> str:
    """Return how the words of a text sound that are in another script, or those that are not; a bar for the others."""
    words = _WORDS.findall(_TITLES.sub("", text))
    heard = (_sound_of(word) if bool(_FOREIGN.search(word)) == is_foreign else "|" for word in words)
    return f" {' '.join(heard)} "


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value: names and numbers too."""
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            for name, inner in cast("dict[str, Any]", one).items():
                yield name
                waiting.append(inner)
        elif isinstance(one, list):
            waiting.extend(cast("list[Any]", one))
        elif isinstance(one, int | float) and not isinstance(one, bool):
            yield str(one)
