"""Names: keys of facts such as `profile.language`, labels, and what makes a text a valid name."""

from __future__ import annotations

import re
import unicodedata

from memoranda.errors import InvalidKey, UsageError
from memoranda.model.text import quote

LONGEST_LABEL = 256
# Control and format characters, surrogates and unassigned points: all invisible, so two names could look alike.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})
# Most names are plain; one match spares them the character-by-character look.
_PLAIN = re.compile(r"[A-Za-z0-9_.@%/:+-]+(?: [A-Za-z0-9_.@%/:+-]+)*", re.ASCII)

LONGEST_KEY = 512

SESSION_RECORD = "abl.session"
"""The key of a session's record. Its `vars` can be read as facts of the session's scope, each under its own key."""

RUN_RECORD = "runs.run"
"""The key of a run's record, which has its status."""

STEPS = "steps"
"""Step records of a run or a session are below this key."""

CHAT_RECORD = "chat.conversation"
"""The key of a conversation's record, which has its status."""

THREAD_RECORD = "threads.thread"
"""The key of the record of a conversation with a workflow."""
THREAD_MESSAGES = "threads.messages"
"""The messages of a conversation with a workflow are below this key, by number."""


def step_key(last: int) -> str:
    """Return the key of step records of which this is the last number: one after `step_key(5)` has the sixth."""
    return f"{STEPS}.{last:012}"


def collection_key(name: str) -> str:
    """Return a collection spelled as a key, as rules, accesses and the ledger name it: `collections.notes`."""
    return f"collections.{name}"


def check_key(key: str) -> str:
    """Return the key, or raise InvalidKey."""
    reason = why_not_a_name(key, longest=LONGEST_KEY)
    if not reason and "" in key.split("."):
        reason = f"{quote(key)} has an empty segment"
    if reason:
        raise InvalidKey(
            f"the key cannot be used: {reason}",
            hint="A key is segments joined by single dots, such as profile.language",
            value=key,
        )
    return key


def lies_under(key: str, prefix: str) -> bool:
    """Return whether the key is the prefix or a path below it: `profile` has `profile.a` below it, never `profiler`."""
    return not prefix or key == prefix or key.startswith(prefix + ".")


def keys_below(prefix: str) -> tuple[str, str]:
    """Return the half-open range of keys that lie strictly below this one."""
    return prefix + ".", prefix + "/"  # "/" is the character after "."


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
            return f"it contains the invisible character U+{ord(character):04X}"
    if unicodedata.normalize("NFC", text) != text:
        return "it is not in Unicode normal form C, so an equal-looking name would be another memory"
    return None


def check_label(what: str, text: object) -> None:
    """Raise UsageError for an optional label (a domain, a source, an idempotency key) that is not a valid name."""
    if text is not None:
        require_label(what, text)


def require_label(what: str, text: object) -> None:
    """Raise UsageError for a label that is missing or not a valid name."""
    reason = why_not_a_name(text, longest=LONGEST_LABEL)
    if reason:
        raise UsageError(f"the {what} cannot be used: {reason}", hint="Use short visible text", value=text)
