"""Split texts into words, each as written and in the forms by which it is found.

A word is found by its case-folded form (NFKC). Anything that is not an ordinary word has rules of its own:

- Identifiers (`INV-2041`, `v2.3.1`, `foo_bar`, `ada@example.org`, `C++`, `#1234`, `parseConfig`) are one word with a
  `whole` form, and `parts` by which a stored text can be found as well: `2041`, `2.3.1`, `bar`, `config`.
- Hyphenated words without a digit (`well-known`) are separate words. After a single letter (`e-mail`, `T-shirt`) they
  are one, `email`, so that both spellings are equal. A full stop before a capital (`end.Start`) ends a word.
- A number loses the commas between its thousands (`1,200`), a timestamp keeps only its date.
- A possessive loses its ending (`Ada's`), an elided article is dropped (`l'homme`), other apostrophes are removed
  (`O'Brien`).
- Scripts written without spaces (Han, kana, Hangul, Thai, Lao, Khmer, Burmese) become overlapping bigrams.
"""

from __future__ import annotations

import functools
import re
import unicodedata

import msgspec

LONGEST_WORD = 64
"""Longer words (encoded data, mostly) are cut to this many characters; longer identifiers have no `whole` form."""


class Word(msgspec.Struct, frozen=True, gc=False):
    """One word of a text; `whole` and `parts` are case-folded, and not both empty."""

    text: str
    """As written."""
    whole: str
    """An identifier, a number, or a bigram; empty for an ordinary word."""
    parts: tuple[str, ...]
    """An ordinary word (and another spelling of it), or the words that make up an identifier."""


# Scripts written without spaces, including the combining marks of Thai, Lao, Burmese and Khmer.
_UNSEGMENTED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf\u1000-\u103f\u1050-\u109f\u1100-\u11ff\u1780-\u17d3"
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u3131-\u318e\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
# Combining marks, which Python's `\w` does not match: accents and the vowel signs of Indic and other scripts. Whole
# blocks without their punctuation; that they include some letters does no harm.
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u07a6-\u07b0\u07eb-\u07f3\u0816-\u082d\u0859-\u085b"
    "\u0898-\u0963\u0971-\u09f1\u0a01-\u0a75\u0a81-\u0aef\u0b01-\u0b6f\u0b82-\u0bef\u0c00-\u0c6f\u0c81-\u0cef"
    "\u0d00-\u0d6f\u0d81-\u0df3\u0f18\u0f19\u0f35\u0f37\u0f39\u0f71-\u0f84\u0f8d-\u0fbc\u135d-\u135f\u1712-\u1734"
    "\u180b-\u180d\u1885\u1886\u18a9\u1920-\u193b\u1a17-\u1a1b\u1ab0-\u1aff\u1b00-\u1b44\u1b6b-\u1b73\u1b80-\u1bf3"
    "\u1c24-\u1c37\u1cd0-\u1cf9\u1dc0-\u1dff\u20d0-\u20dc\u2de0-\u2dff\ua66f-\ua67d\ua802-\ua827\ua880-\ua8c5"
    "\ua8e0-\ua8f1\ua926-\ua953\ua980-\ua9c0\uaa29-\uaa4d\uabe3-\uabed\ufe20-\ufe2f"
)

# Possessive quantifiers, so that matching never backtracks.
_JOINED = r"""\#?+{run}(?:(?:[-.'@&’\u2010]|(?<=\d)[,:/](?=\d)){run})*+(?:\+\+|\#(?!\w))?+"""
_PLAIN_CHUNKS = re.compile(_JOINED.format(run=r"\w++"), re.ASCII)


@functools.cache
def _every_script() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a chunk of any text, and of the first character of an unsegmented one.

    Their wide character classes take some 20 ms to compile, so this waits for the first text that is not ASCII.
    """
    run = rf"[^\W{_UNSEGMENTED}]++(?:[{_MARKS}]++[^\W{_UNSEGMENTED}]*+)*+"
    return re.compile(f"[{_UNSEGMENTED}]++|" + _JOINED.format(run=run)), re.compile(f"[{_UNSEGMENTED}]")


# Invisible characters inside words, and ™ and ℠, which NFKC would spell out.
_INVISIBLE = re.compile("[\u00ad\u200c-\u200f\u202a-\u202e\u2060-\u2069\u2120\u2122\ufe00-\ufe0f\ufeff]+")


def chunks(text: str) -> list[str]:
    """Split a text into chunks for `read_chunk`: runs of letters and digits with the characters that join them."""
    if text.isascii():
        return _PLAIN_CHUNKS.findall(text)
    return _every_script()[0].findall(unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)))


def split(text: str) -> list[Word]:
    """Return the words of a text in order.

    >>> [word.whole or word.parts[0] for word in split("Ada's well-known ticket INV-2041")]
    ['ada', 'well', 'known', 'ticket', 'inv-2041']
    """
    found: list[Word] = []
    for chunk in chunks(text):
        found.extend(_READ[chunk])
    return found


def read_chunk(chunk: str) -> tuple[Word, ...]:
    """Return the words of a chunk."""
    return _READ[chunk]


def is_unsegmented(chunk: str) -> bool:
    """Return whether a chunk is in a script that is written without spaces."""
    return chunk > "\u0e00" and _every_script()[1].match(chunk) is not None


class _Read(dict[str, tuple[Word, ...]]):
    """A cache of the words of chunks, cleared when full: a plain dictionary needs no lock."""

    def __missing__(self, chunk: str) -> tuple[Word, ...]:
        if is_unsegmented(chunk):
            return tuple(Word(pair, pair, ()) for pair in bigrams(chunk))
        words = _read(chunk)
        if len(chunk) <= LONGEST_WORD:
            if len(self) >= 32_768:
                self.clear()
            self[chunk] = words
        return words


_READ = _Read()


_CLUSTERS = re.compile("[^\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u17b4-\u17d3]")
_LONE_HAN = re.compile("(?<![\u3400-\u9fff])[\u3400-\u9fff](?![\u3400-\u9fff])")


def bigrams(run: str) -> list[str]:
    """Return the overlapping bigrams of a run, then its Han characters that have kana on both sides.

    >>> bigrams("猫が好き")
    ['猫が', 'が好', '好き', '猫', '好']
    """
    if len(run) == 1:
        return [run]
    if run < "\u2000":
        starts = [match.start() for match in _CLUSTERS.finditer(run)] or [0]
        ends = [*starts[2:], len(run)]
        return [run[start:end] for start, end in zip(starts, ends, strict=False)]
    return [run[at : at + 2] for at in range(len(run) - 1)] + _LONE_HAN.findall(run)


def _read(chunk: str) -> tuple[Word, ...]:
    if chunk.isalpha() and not _CAMEL.search(chunk):
        return (Word(chunk, "", (_fold(chunk),)),)
    if len(chunk) > LONGEST_WORD:
        return tuple(_ordinary(piece, piece) for piece in _PIECES.findall(chunk))
    bare = chunk.strip("_").replace("’", "'").replace("\u2010", "-")
    if not any(map(str.isalnum, bare)):
        return ()
    if any(map(str.isdecimal, bare)):
        return _with_digits(chunk, bare if bare.isascii() else _with_ascii_digits(bare))
    if bare[-1] in "+#":
        return (_identifier(chunk, bare.lstrip("#")),)
    if _MAIL.fullmatch(bare):
        return (_identifier(chunk, bare),)
    if _LETTER_AND_WORD.fullmatch(bare):
        letter, _, word = bare.partition("-")
        return (Word(chunk, "", (_fold(letter + word), _fold(word))),)
    pieces = [piece.strip("_") for piece in _SEPARATE.split(bare)]
    if len(pieces) == 1:
        return (_with_letters(bare, chunk),)
    return tuple(_with_letters(piece, piece) for piece in pieces if any(map(str.isalnum, piece)))


_CAMEL = re.compile(r"[a-zà-öø-ÿ][A-ZÀ-ÖØ-Þ]")
_HUMPS = re.compile(r"(?:(?![A-ZÀ-ÖØ-Þ][a-zà-öø-ÿ])[A-ZÀ-ÖØ-Þ])++|[A-ZÀ-ÖØ-Þ]?+[^\WA-ZÀ-ÖØ-Þ_]++")
_SEPARATE = re.compile(r"[-@#]|(?<=[a-zà-öø-ÿ])\.(?=[A-ZÀ-ÖØ-Þ][a-zà-öø-ÿ])")
_PIECES = re.compile(r"[^-.'@&’\u2010,:/_#+]++")
_MAIL = re.compile(r"[^@]++@[^@.]*+\.[^@]++")
_LETTER_AND_WORD = re.compile(r"[^\W\d_]-[^\W\d_]{2,}+")
_ABBREVIATION = re.compile(r"[^\W\d_](?:\.[^\W\d_])++")
_NUMBER = re.compile(r"\d++(?:[.,]\d++)*+")
_THOUSANDS = re.compile(r"\d{1,3}+(?:,\d{3})++(?:\.\d++)?+")
_FIGURES = re.compile(r"\d++(?:[-/:.,]\d++)++")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[tT]\d\d.*+")
_HOUR = re.compile(r"\d\d?+(?::\d\d){1,2}+[^\W\d_]*+")
_AMOUNT = re.compile(r"(\d++)([^\W\d_]++)")
_VERSION = re.compile(r"[vV](\d++(?:[.-]\w++)*+)")
_ORDINALS = frozenset({"st", "nd", "rd", "th", "er", "re", "eme", "ème"})
_ENDINGS = frozenset({"s", "d", "m", "ll", "re", "ve"})
ELISIONS = frozenset(
    "l d j c n s m t qu jusqu lorsqu puisqu quoiqu dell all nell sull dall coll un quest quell dov com".split()
)
"""Elided words of French, Italian and Catalan, as written before an apostrophe."""


def _with_letters(piece: str, as_written: str) -> Word:
    if "." in piece and _ABBREVIATION.fullmatch(piece):
        return Word(as_written, "", (_fold(piece.replace(".", "")),))
    if "." in piece or "_" in piece or "&" in piece or _CAMEL.search(piece):
        return _identifier(as_written, piece)
    return _ordinary(piece, as_written)


def _with_digits(chunk: str, bare: str) -> tuple[Word, ...]:
    if bare.startswith("#"):
        number = bare[1:]
        return (Word(chunk, bare, (number,)),) if number.isdigit() else _read(number)
    if _NUMBER.fullmatch(bare):
        plain = bare.replace(",", "") if _THOUSANDS.fullmatch(bare) else bare.replace(",", ".")
        return (Word(chunk, plain, ()),)
    if _HOUR.fullmatch(bare):
        return (Word(chunk, _fold(bare), ()),)
    if stamp := _STAMP.fullmatch(bare):
        return (Word(chunk, stamp[1], (stamp[1][:4],)),)
    if _FIGURES.fullmatch(bare):
        return (Word(chunk, bare, tuple(figure for figure in re.findall(r"\d++", bare) if len(figure) > 2)),)
    if amount := _AMOUNT.fullmatch(bare):
        number, unit = amount.groups()
        unit = _fold(unit)
        parts = tuple(part for part in (number, unit) if len(part) > 1 and part not in _ORDINALS)
        return (Word(chunk, number + unit, parts),)
    if version := _VERSION.fullmatch(bare):
        return (Word(chunk, _fold(bare), (_fold(version[1]),)),)
    stem, apostrophe, ending = bare.partition("'")
    if apostrophe and ending.casefold() in _ENDINGS:
        return _with_digits(chunk, stem) if any(map(str.isdecimal, stem)) else _read(stem)
    return (_identifier(chunk, bare),)


def _with_ascii_digits(text: str) -> str:
    """Return a text with the digits of every script as 0 to 9; NFKC does not convert them."""
    return "".join(str(unicodedata.decimal(one)) if one.isdecimal() else one for one in text)


def _identifier(as_written: str, bare: str) -> Word:
    """Return an identifier with its parts that are longer than one character."""
    whole = _fold(bare)
    parts = dict.fromkeys(_fold(part) for piece in _PIECES.findall(bare) for part in _humps(piece))
    return Word(as_written, whole, tuple(part for part in parts if len(part) > 1 and part != whole))


def _humps(piece: str) -> list[str]:
    """Split camel case into words; a single first letter (`iPhone`) is not a word of its own."""
    if not _CAMEL.search(piece) or piece[1:2].isupper():
        return [piece]
    return _HUMPS.findall(piece)


def _ordinary(piece: str, as_written: str) -> Word:
    if "'" in piece:
        before, _, ending = piece.rpartition("'")
        elided, _, rest = piece.partition("'")
        if before and ending.casefold() in _ENDINGS:
            piece = before
        elif rest and elided.casefold() in ELISIONS:
            piece = rest
    return Word(as_written, "", (_fold(piece.replace("'", "")),))


def _fold(text: str) -> str:
    folded = text.casefold()
    return folded[:LONGEST_WORD] if len(folded) > LONGEST_WORD else folded
