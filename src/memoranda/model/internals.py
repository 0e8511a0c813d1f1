"""Internal facts: the state that the runtime keeps among the facts of its users, and how it is told apart.

A fact is internal by its scope and its key together, so `chat.theme` of a user is theirs, and so is every key of the
table below in a scope where the runtime does not write it.
"""

from __future__ import annotations

from itertools import combinations

import msgspec

from memoranda.errors import InvalidKey
from memoranda.model.names import CHAT_RECORD, SESSION_RECORD, check_key, lies_under
from memoranda.model.scope import Scope
from memoranda.model.text import quote


class Internal(msgspec.Struct, frozen=True):
    """Keys that one part of the runtime writes in scopes of certain shapes."""

    writer: str
    """What writes them."""
    shapes: tuple[tuple[str, ...], ...]
    keys: tuple[str, ...]
    """Each with everything below it; one that ends with `.*` without itself."""
    resumes: bool = False
    """Whether programs resume from them, so that an import refuses them."""

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
    Internal("memory blocks", (_USER, _USER_AGENT), ("blocks.core", "blocks.archival")),
    Internal("sleep-time memory", (_USER, _USER_AGENT), ("sleep.learned",)),
    Internal("sleep-time memory", (_CONVERSATION,), ("jobs.*",)),
    Internal("learning", _THREADS, ("jobs.learn",)),
    Internal("chat", (_CONVERSATION,), (CHAT_RECORD, "chat.parts", "chat.messages")),
    Internal("conversations with workflows", (_CONVERSATION,), ("threads.thread", "threads.messages")),
    Internal("conversations with workflows", (_USER,), ("threads.current",)),
    Internal("sessions of agents", (("session",),), (SESSION_RECORD, "abl.results"), resumes=True),
    Internal("agents", (("agent",),), ("abl.sources",), resumes=True),
    Internal("machines and workflows", (("agent",), ("workflow",)), ("runs.sources",), resumes=True),
    Internal("runs", (("run",),), ("runs",), resumes=True),
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
    """Return whether a fact is state that a run or an agent's session resumes from, or the text of its program.

    Everything in the scope of a run counts, whatever its key: the runtime alone writes there.
    """
    if scope.subject.startswith("run:"):
        return True
    internal = None if key is None else find_internal(scope, key)
    return internal is not None and internal.resumes
