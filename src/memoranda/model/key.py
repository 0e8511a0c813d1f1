"""What a fact is called inside its scope: a path of segments such as `profile.language`."""

from __future__ import annotations

from memoranda.errors import InvalidKey
from memoranda.model.scope import Scope
from memoranda.model.text import quote, why_not_a_name

LONGEST_KEY = 512

RESERVED = ("abl", "blocks", "chat", "jobs", "runs", "sleep", "threads")
"""First segments kept for the doors themselves: memory blocks live below `blocks`, sessions of agents below `abl`,
conversations of chat below `chat`, runs of machines and workflows below `runs`, conversations with workflows below
`threads`, work that waits below `jobs`, and below `sleep` what was learned from conversations that are over."""

_RUNTIME = ("abl", "runs")

SESSION_RECORD = "abl.session"
"""The key of a session's record. Its `vars` can be read as facts of the session's scope, each under its own key."""

RUN_RECORD = "runs.run"
"""The key of a run's record: where it stands."""

CHAT_RECORD = "chat.conversation"
"""The key of a conversation's record: where it stands."""


def collection_key(name: str) -> str:
    """Return a collection spelled as a key, as rules, accesses and the ledger name it: `collections.notes`."""
    return f"collections.{name}"


def check_key(key: str) -> str:
    """Return the key, or refuse it saying why."""
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


def check_own_key(key: str) -> str:
    """Return a key that a caller may write, or refuse it: what lies below a reserved segment has a door of its own."""
    check_key(key)
    if key.partition(".")[0] in RESERVED:
        raise InvalidKey(
            f"{quote(key)} lies below a reserved name", hint=f"Reserved are {', '.join(RESERVED)}", value=key
        )
    return key


def is_runtime_state(scope: Scope, key: str | None = None) -> bool:
    """Say whether a fact is what a run or an agent's session goes on from, or the text of its program.

    Everything in the scope of a run counts, whatever its key: the runtime alone writes there.
    """
    return scope.subject.startswith("run:") or (key is not None and key.partition(".")[0] in _RUNTIME)


def lies_under(key: str, prefix: str) -> bool:
    """Say whether the key is the prefix or a path below it: `profile` holds `profile.a`, never `profiler`."""
    return not prefix or key == prefix or key.startswith(prefix + ".")


def keys_below(prefix: str) -> tuple[str, str]:
    """Return the half-open range of keys that lie strictly below this one."""
    return prefix + ".", prefix + "/"  # "/" is the character after "."
