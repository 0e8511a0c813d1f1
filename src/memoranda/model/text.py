"""Names that people and programs give (tenants, ids, keys) in; the same names, or a reason to refuse, out."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from memoranda.errors import InvalidValue, UsageError

LONGEST_LABEL = 256
_LONGEST_REASON = 1_000

# Control and format characters, surrogates and unassigned points: all invisible, so two names could look alike.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})
# Most names are plain; one match spares them the character-by-character look.
_PLAIN = re.compile(r"[A-Za-z0-9_.@%/:+-]+(?: [A-Za-z0-9_.@%/:+-]+)*", re.ASCII)


# Characters that take no room on a screen: controls, format characters, fillers, variation selectors and tags. Those of
# category Cf that are drawn (signs before Arabic numbers, layout of hieroglyphs) are not among them.
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
    r"""Return a text in which every character that nobody sees is written out, as `\u200b` unless `write` differs.

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
    """Say whether a character is one that nobody sees."""
    return _ANY_HIDDEN.fullmatch(sign) is not None


def why_not_a_name(text: object, *, longest: int) -> str | None:
    """Return why this cannot be a name, or None when it can."""
    if not isinstance(text, str):
        return f"{quote(text)} is {type(text).__name__}, not text"
    if not text:
        return "it is empty"
    if len(text) > longest:
        return f"it has {len(text)} characters, the limit is {longest}"
    if _PLAIN.fullmatch(text):
        return None
    if text != text.strip():
        return f"`{text!r}` begins or ends with white space"
    for character in text:
        if unicodedata.category(character) in _INVISIBLE:
            return f"it holds the invisible character U+{ord(character):04X}"
    if unicodedata.normalize("NFC", text) != text:
        return "it is not in Unicode normal form C, so an equal-looking name would be another memory"
    return None


def check_label(what: str, text: object) -> None:
    """Refuse an optional label (a domain, a source, an idempotency key) that is no name."""
    if text is not None:
        require_label(what, text)


def require_label(what: str, text: object) -> None:
    """Refuse a label that is missing or no name."""
    reason = why_not_a_name(text, longest=LONGEST_LABEL)
    if reason:
        raise UsageError(f"the {what} cannot be used: {reason}", hint="Use short visible text", value=text)


def check_reason(reason: object) -> None:
    """Refuse what cannot be kept as the reason of a decision."""
    if not isinstance(reason, str) or len(reason) > _LONGEST_REASON or reason != cleaned(reason):
        hint = f"Pass a text of at most {_LONGEST_REASON:,} characters"
        raise InvalidValue(f"{quote(reason)} is no reason that can be kept", hint=hint, path="reason")


def words_of(error: BaseException) -> str:
    """Return what an exception says, as text that can be kept and shown; the name of its class where it says nothing.

    >>> words_of(ValueError("no such wheel")), words_of(KeyError())
    ('no such wheel', 'KeyError')
    """
    try:
        said = str(error)
    # The exception is somebody else's, and so is its way to describe itself.
    except Exception:
        said = ""
    return cleaned(said) or type(error).__name__


def cleaned(text: str, *, longest: int | None = None) -> str:
    """Return a text as it can be kept: without what no database takes, and cut where it is longer than it may be."""
    kept = without_halves(text.replace("\0", ""))
    return kept if longest is None or len(kept) <= longest else f"{kept[:longest]}…"


def without_halves(text: str) -> str:
    r"""Return a text with a `?` for each half of a surrogate pair, which is no character and has no UTF-8.

    >>> without_halves("caf\u00e9"), without_halves("half \ud83d")
    ('café', 'half ?')
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def quote(text: object, *, longest: int = 80) -> str:
    """Return a value in backticks for an error message: visible, and cut where it would flood the screen."""
    shown = text if isinstance(text, str) and text.isprintable() else repr(text)
    return f"`{shown[:longest]}…`" if len(shown) > longest else f"`{shown}`"
