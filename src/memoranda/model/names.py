"""Names: keys of facts such as `profile.language`, labels, what makes a text a valid name, and internal keys."""

from __future__ import annotations

import re
import unicodedata
from itertools import combinations
from typing import TYPE_CHECKING

import msgspec

from memoranda.errors import InvalidKey, UsageError
from memoranda.model.text import quote

if TYPE_CHECKING:
    from memoranda.model.scope import Scope

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


# --- internal keys: the state that the runtime keeps among the facts of its users ---------------------------------


FORGOTTEN_MESSAGES = "learn.forgotten"
"""Above the keys of messages that were forgotten: learning the conversation again does not bring them back."""


class Internal(msgspec.Struct, frozen=True):
    """Keys that one part of the runtime writes in scopes of certain shapes.

    A fact is internal by its scope and its key together, so `chat.theme` of a user is theirs, and so is every key of
    `INTERNALS` in a scope where the runtime does not write it.
    """

    writer: str
    """What writes them."""
    place: str
    """What a leak probe calls it: a field of `LeakProbes`."""
    shapes: tuple[tuple[str, ...], ...]
    keys: tuple[str, ...]
    """Each with everything below it; one that ends with `.*` without itself."""
    resumes: bool = False
    """Whether programs or jobs resume from them, so that an import refuses them."""

    def has(self, scope: Scope, key: str) -> bool:
        """Return whether a key in a scope is one of these."""
        return scope.shape in self.shapes and any(
            key.startswith(name[:-1]) if name.endswith(".*") else lies_under(key, name) for name in self.keys
        )


_USER, _USER_AGENT, _CONVERSATION = ("user",), ("user", "agent"), ("user", "thread")
_THREADS = tuple(
    (*kinds, "thread")
    for number in range(5)
    for kinds in combinations(("user", "project", "agent", "workflow"), number)
    if (*kinds, "thread") != _CONVERSATION
)

INTERNALS = (
    Internal("memory blocks", "blocks", (_USER, _USER_AGENT), ("blocks.core", "blocks.archival")),
    Internal("sleep-time memory", "blocks", (_USER, _USER_AGENT), ("sleep.learned",)),
    Internal("sleep-time memory", "jobs", (_CONVERSATION,), ("jobs.*",), resumes=True),
    Internal("learning", "jobs", _THREADS, ("jobs.learn",), resumes=True),
    Internal("learning", "messages", (_USER, _USER_AGENT), (f"{FORGOTTEN_MESSAGES}.*",)),
    Internal("chat", "conversations", (_CONVERSATION,), (CHAT_RECORD, "chat.parts", "chat.messages")),
    Internal("conversations with workflows", "conversations", (_CONVERSATION,), (THREAD_RECORD, THREAD_MESSAGES)),
    Internal("conversations with workflows", "conversations", (_USER,), ("threads.current",)),
    Internal("sessions of agents", "sessions", (("session",),), (SESSION_RECORD, "abl.results"), resumes=True),
    Internal("agents", "programs", (("agent",),), ("abl.sources",), resumes=True),
    Internal("machines and workflows", "programs", (("agent",), ("workflow",)), ("runs.sources",), resumes=True),
    Internal("runs", "runs", (("run",),), ("runs",), resumes=True),
    Internal("runs and sessions", "steps", (("run",), ("session",)), ("steps.*",), resumes=True),
)
"""Everything that the runtime writes. Its keys have two segments or more, so none is the slug of a definition."""

_BY_FIRST_SEGMENT: dict[str, list[Internal]] = {}
for _one in INTERNALS:
    for _first in dict.fromkeys(key.partition(".")[0] for key in _one.keys):
        _BY_FIRST_SEGMENT.setdefault(_first, []).append(_one)

_SHAPES = frozenset(shape for one in INTERNALS for shape in one.shapes)


def find_internal(scope: Scope, key: str) -> Internal | None:
    """Return what a fact belongs to if the runtime writes it; None for a fact of a user."""
    for one in _BY_FIRST_SEGMENT.get(key.partition(".")[0], ()):
        if one.has(scope, key):
            return one
    return None


def is_internal(scope: Scope, key: str) -> bool:
    """Return whether a fact is one that the runtime alone writes.

    >>> from memoranda.model.scope import Scope
    >>> is_internal(Scope.of(user="ada", thread="c1"), "chat.parts.000000000001")
    True
    >>> is_internal(Scope.of(user="ada"), "chat.theme")
    False
    """
    return find_internal(scope, key) is not None


def may_have_internals(scope: Scope) -> bool:
    """Return whether the runtime writes facts to scopes of this shape."""
    return scope.shape in _SHAPES


def is_block(scope: Scope, key: str) -> bool:
    """Return whether a fact is a memory block, or would be one."""
    return key.startswith("blocks.") and is_internal(scope, key)


def check_own_key(scope: Scope, key: str) -> str:
    """Return a key that a caller may write in a scope, or raise InvalidKey; the runtime alone writes internal ones."""
    internal = find_internal(scope, check_key(key))
    if internal is not None:
        raise InvalidKey(
            f"{quote(key)} in `{scope}` is internal: only {internal.writer} can write it",
            hint="Choose another key",
            value=key,
        )
    return key


def is_runtime_state(scope: Scope, key: str | None = None) -> bool:
    """Return whether a fact is state that a run, an agent's session or a job resumes from, or a program's text.

    Everything in the scope of a run counts, whatever its key: the runtime alone writes there.
    """
    if scope.subject.startswith("run:"):
        return True
    internal = None if key is None else find_internal(scope, key)
    return internal is not None and internal.resumes
