"""Names that people and programs give (tenants, ids, keys) in; the same names, or a reason to refuse, out."""

from __future__ import annotations

import re
import unicodedata

from recollect.errors import InvalidValue, UsageError

LONGEST_LABEL = 256
_LONGEST_REASON = 1_000

# Control and format characters, surrogates and unassigned points: all invisible, so two names could look alike.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})
# Most names are plain; one match spares them the character-by-character look.
_PLAIN = re.compile(r"[A-Za-z0-9_.@%/:+-]+(?: [A-Za-z0-9_.@%/:+-]+)*", re.ASCII)


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
