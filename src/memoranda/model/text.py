"""Checks of names and labels that callers give, and quoting of values in messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches

from memoranda.errors import NEUTRAL_WORDS, InvalidValue, MemorandaError, render_error

_LONGEST_REASON = 1_000


# Characters that take no room on a screen: controls, format characters, fillers, variation selectors and tags. Those of
# category Cf that are drawn (prefixes of Arabic numbers, layout of hieroglyphs) are not among them.
_HIDDEN = (
    "\\x00-\\x08\\x0b\\x0c\\x0d\\x0e-\\x1f\\x7f-\\x9f\\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Near enough to Unicode's Extended_Pictographic, which Python does not know.
_PICTURE = (
    "[\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff][\ufe0e\ufe0f]?[\U0001f3fb-\U0001f3ff]?"
)
# Scripts in which a joiner or non-joiner between two letters changes how a word is written: Arabic, Syriac, Mongolian,
# and those of India and its neighbors.
_JOINING = "[\u0600-\u061b\u061d-\u0dff\u0f00-\u109f\u1780-\u18af\u1a20-\u1cff\ua800-\uabff\U00011000-\U00011fff]"
_VIRAMA = "[\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca\u1039\u17d2]"
_FLAGS = "|".join("".join(chr(0xE0000 + ord(letter)) for letter in region) for region in ("gbeng", "gbsct", "gbwls"))
_HIDDEN_OR_NOT = re.compile(
    rf"\r\n|[0-9#*]\ufe0f\u20e3|\U0001f3f4(?:{_FLAGS})\U000e007f|{_PICTURE}(?:\u200d{_PICTURE})*"
    rf"|(?<={_JOINING})[\u200c\u200d](?={_JOINING})|(?<={_VIRAMA})[\u200c\u200d]"
    rf"|(?<=[\u1820-\u18aa])[\u180b-\u180d\u180f]|(?P<hidden>[{_HIDDEN}])"
)
_ANY_HIDDEN = re.compile(f"[{_HIDDEN}]")


def escape_hidden(text: str, write: Callable[[str], str] = lambda sign: ascii(sign)[1:-1]) -> str:
    r"""Return a text with every invisible character written out, as `\u200b` unless `write` differs.

    What belongs to the writing stays: joiners in emoji and in the words of Arabic and Indian scripts, the selectors of
    emoji, and three flags that are made of tags.

    >>> escape_hidden("pay\U000e0041 \u202eeht\u202c bill")
    'pay\\U000e0041 \\u202eeht\\u202c bill'
    >>> escape_hidden("\u06cc\u200c\u06a9") == "\u06cc\u200c\u06a9"
    True
    """
    if _ANY_HIDDEN.search(text) is None:
        return text
    return _HIDDEN_OR_NOT.sub(lambda found: found[0] if found["hidden"] is None else write(found[0]), text)


def is_hidden(sign: str) -> bool:
    """Return whether a character is invisible."""
    return _ANY_HIDDEN.fullmatch(sign) is not None


def check_reason(reason: object) -> None:
    """Raise InvalidValue for what cannot be stored as the reason of a decision."""
    if not isinstance(reason, str) or len(reason) > _LONGEST_REASON or reason != storable_text(reason):
        hint = f"Pass a text of at most {_LONGEST_REASON:,} characters"
        raise InvalidValue(f"{quote(reason)} is not a valid reason", hint=hint, path="reason")


def words_of(error: BaseException) -> str:
    """Return the message of an exception as storable text; the name of its class if it has none.

    >>> words_of(ValueError("no such wheel")), words_of(KeyError())
    ('no such wheel', 'KeyError')
    """
    try:
        said = render_error(error, NEUTRAL_WORDS) if isinstance(error, MemorandaError) else str(error)
    # The exception is foreign code, and its `__str__` may raise.
    except Exception:
        said = ""
    return storable_text(said) or type(error).__name__


def storable_text(text: str, *, longest: int | None = None) -> str:
    """Return a text without characters that databases reject, shortened to `longest` characters."""
    clean = without_halves(text.replace("\0", ""))
    return clean if longest is None or len(clean) <= longest else f"{clean[:longest]}…"


def without_halves(text: str) -> str:
    r"""Return a text with a `?` for each half of a surrogate pair, which is not a character and cannot be encoded.

    >>> without_halves("caf\u00e9"), without_halves("half \ud83d")
    ('café', 'half ?')
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def quote(text: object, *, longest: int = 80) -> str:
    """Return a value in backticks for an error message: visible, and cut where it would flood the screen."""
    shown = text if isinstance(text, str) and text.isprintable() else repr(text)
    return f"`{shown[:longest]}…`" if len(shown) > longest else f"`{shown}`"


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant, ignoring case, or None."""
    by_folded: dict[str, str] = {}
    for name in known:
        by_folded.setdefault(name.casefold(), name)
    # difflib is quadratic, and no name is that long.
    if len(word) > 80:
        return None
    near = get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[near[0]] if near else None


_CHOICES = 20


def list_choices(choices: Sequence[object]) -> str:
    """Return choices for a message, the first ones of many."""
    more = ", …" if len(choices) > _CHOICES else ""
    return ", ".join(quote(choice, longest=40) for choice in choices[:_CHOICES]) + more


def choice_fault(given: object, choices: Sequence[object]) -> str:
    """Return what is wrong with a value that is not among the choices, with the one that was probably meant.

    >>> choice_fault("gren", ["red", "green"])
    'must be one of `red`, `green`; did you mean `green`?'
    """
    near = closest(given, [one for one in choices if isinstance(one, str)]) if isinstance(given, str) else None
    return f"must be one of {list_choices(choices)}" + (f"; did you mean {quote(near, longest=40)}?" if near else "")
