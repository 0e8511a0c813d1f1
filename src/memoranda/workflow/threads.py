"""Conversation threads, stored as facts.

A thread lives in the scope `user:<owner>/thread:<id>`, together with the records that definitions store per thread, so
that both are erased together. There `threads.thread` is its state, and each message is a fact below `threads.messages`.
The current thread of a channel is named in the owner's scope, at `threads.current.<channel>`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

import msgspec

from memoranda.api.memory import Memory
from memoranda.engine.facts import GetFact, ListFacts, SetFact, WriteFacts
from memoranda.errors import Conflict, Hint, InvalidValue, LimitExceeded, NotFound, ScopeEnded, UsageError
from memoranda.model.clock import Duration, parse_duration
from memoranda.model.fact import Fact
from memoranda.model.limits import check_count, larger_limit
from memoranda.model.names import THREAD_MESSAGES, THREAD_RECORD, check_key, require_label
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.trust import OriginKind
from memoranda.model.value import encode, encode_checked
from memoranda.workflow.actions.base import Message

MOST_MESSAGES = 1_000
"""Maximum number of messages in one read."""

_CURRENT, _THREAD, _MESSAGES = "threads.current", THREAD_RECORD, THREAD_MESSAGES
_ATTEMPTS = 1_000
_LONGEST_NAP = 0.02

T = TypeVar("T")


class Thread(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a conversation when it was read."""

    id: str
    owner: str
    channel: str | None = None
    """The channel it belongs to; None for a thread that was opened by its id."""
    opened_at: datetime
    last_at: datetime
    """The time of its newest message, or of its beginning."""
    count: int = 0
    """The number of its newest message."""
    closed: bool = False
    workflow: str | None = None
    """The workflow that was last part of it."""


def current_thread(memory: Memory, *, owner: str, channel: str = "default", window: Duration = "24h") -> Thread:
    """Return the current thread of a channel; after a `window` without a message it is closed, and another begins.

    >>> import memoranda
    >>> with memoranda.open(":memory:") as memory:
    ...     thread = current_thread(memory, owner="ada")
    ...     said = add_message(memory, thread, "Is the reading room open?", sender="ada", by_owner=True)
    ...     current_thread(memory, owner="ada").id == thread.id, [one.text for one in messages(memory, thread, 4)]
    (True, ['Is the reading room open?'])
    """
    quiet = timedelta(seconds=parse_duration(window))
    require_label("channel", channel)
    check_key(f"{_CURRENT}.{channel}")
    return _until_first(lambda: _current(memory, owner, channel, quiet))


def open_thread(memory: Memory, *, owner: str, id: str) -> Thread:
    """Return the thread with this id, or begin it; it has no channel, and ends only by `close_thread`."""
    scope = _scope(memory, owner, id)

    def attempt() -> Thread:
        found = _read(memory, scope)
        if found is not None:
            return found[0]
        now = _now(memory)
        begun = Thread(id=id, owner=owner, opened_at=now, last_at=now)
        memory.perform(_write_thread(scope, begun, expect=0))
        return begun

    return _until_first(attempt)


def find_thread(memory: Memory, *, owner: str, id: str) -> Thread | None:
    """Return the thread with this id, if there is one."""
    found = _read(memory, _scope(memory, owner, id))
    return None if found is None else found[0]


def thread_closed_error(thread: Thread) -> ScopeEnded:
    """Return the error for a message to a closed thread."""
    return ScopeEnded(
        f"the thread {quote(thread.id)} of `{thread.owner}` is closed",
        hint="Continue in the current thread of the channel",
    )


def close_thread(memory: Memory, thread: Thread) -> Thread:
    """Close a thread, so that its channel begins another; closing it twice changes nothing."""
    scope = _scope(memory, thread.owner, thread.id)

    def attempt() -> Thread:
        current, version = _require_thread(memory, scope)
        if current.closed:
            return current
        closed = msgspec.structs.replace(current, closed=True)
        memory.perform(_write_thread(scope, closed, expect=version))
        return closed

    return _until_first(attempt)


def add_message(
    memory: Memory,
    thread: Thread,
    text: str,
    *,
    sender: str,
    by_owner: bool,
    workflow: str | None = None,
    kind: OriginKind | None = None,
) -> Message:
    """Add a message to an open thread, and return it; `workflow` is the one that sends or reads it.

    `kind` says as what kind of origin the text is passed on, if it is not the sender's own.
    """
    check_text(text, memory.limits.content_bytes)
    require_label("sender", sender)
    if type(cast(object, by_owner)) is not bool:
        raise UsageError(
            f"{quote(by_owner)} is not a valid `by_owner`", hint=Hint("python", "Pass by_owner=True or False")
        )
    scope = _scope(memory, thread.owner, thread.id)

    def attempt() -> Message:
        current, version = _require_thread(memory, scope)
        if current.closed:
            raise thread_closed_error(current)
        # Times never decrease, whatever the clock does: the window is counted from the newest message.
        at = max(_now(memory), current.last_at)
        message = Message(text=text, sender=sender, by_owner=by_owner, at=at.isoformat())
        number = _newest_number(memory, scope, current.count) + 1
        longer = msgspec.structs.replace(current, last_at=at, count=number, workflow=workflow or current.workflow)
        payload = msgspec.Raw(encode_checked(msgspec.to_builtins(message), memory.limits))
        # Two writers conflict on the thread's own record: the slower one retries with the next number.
        writes = (
            _write_thread(scope, longer, expect=version),
            SetFact(scope=scope, key=_message_key(number), payload=payload, expect=0, kind=kind),
        )
        memory.perform(WriteFacts(scope=scope, writes=writes))
        return message

    return _until_first(attempt)


def messages(memory: Memory, thread: Thread, limit: int) -> list[Message]:
    """Return the newest messages of a thread, oldest first."""
    return [msgspec.convert(fact.value, Message) for fact in read_messages(memory, thread, limit)]


def read_messages(memory: Memory, thread: Thread, limit: int) -> list[Fact]:
    """Return the newest messages of a thread as they are stored, oldest first."""
    if cast(object, limit) is None:
        raise UsageError("None is not a limit", hint=f"Pass a whole number from 1 to {MOST_MESSAGES}")
    check_count("limit", limit, least=1)
    if limit > MOST_MESSAGES:
        raise LimitExceeded(
            f"{limit:,} messages were requested, the limit is {MOST_MESSAGES:,}",
            hint="Request fewer; you get the newest ones",
            limit=MOST_MESSAGES,
            actual=limit,
        )
    scope = _scope(memory, thread.owner, thread.id)
    thread, _ = _require_thread(memory, scope)
    before = _message_key(max(thread.count - limit, 0))
    # Without a limit: messages may have been added since the thread was read.
    found: list[Fact] = memory.perform(ListFacts(scope=scope, prefix=_MESSAGES, after=before, internal=True))
    return found[-limit:]


def _current(memory: Memory, owner: str, channel: str, quiet: timedelta) -> Thread:
    """Return the current thread of a channel, or begin a new one; raise Conflict if another writer was faster."""
    home, key = Scope.of(tenant=memory.tenant, user=owner), f"{_CURRENT}.{channel}"
    named: Fact | None = memory.perform(GetFact(scope=home, key=key))
    scope = _scope(memory, owner, named.value) if named else None
    found = _read(memory, scope) if scope else None
    now = _now(memory)
    if found is not None and not found[0].closed and now - found[0].last_at < quiet:
        return found[0]
    begun = Thread(id=memory.ids.new("thread"), owner=owner, channel=channel, opened_at=now, last_at=now)
    name = msgspec.Raw(encode(begun.id))
    writes = [
        SetFact(scope=home, key=key, payload=name, expect=named.version if named else 0),
        _write_thread(_scope(memory, owner, begun.id), begun, expect=0),
    ]
    if scope is not None and found is not None and not found[0].closed:
        # A new message meanwhile changes the version: then the thread is not quiet after all.
        writes.append(_write_thread(scope, msgspec.structs.replace(found[0], closed=True), expect=found[1]))
    memory.perform(WriteFacts(scope=home, writes=tuple(writes)))
    return begun


def _until_first(attempt: Callable[[], T]) -> T:
    """Run `attempt`, and retry it on each Conflict."""
    for number in range(_ATTEMPTS - 1):
        try:
            return attempt()
        except Conflict:
            time.sleep(random.uniform(0, min(_LONGEST_NAP, 0.0002 * 2 ** min(number, 8))))
    return attempt()


def _scope(memory: Memory, owner: str, id: str) -> Scope:
    return Scope.of(tenant=memory.tenant, user=owner, thread=id)


def _message_key(number: int) -> str:
    return f"{_MESSAGES}.{number:012}"


def _newest_number(memory: Memory, scope: Scope, count: int) -> int:
    """Return the number of the newest message; an import may have added some that the thread does not count."""
    later: list[Fact] = memory.perform(
        ListFacts(scope=scope, prefix=_MESSAGES, after=_message_key(count), internal=True)
    )
    return int(later[-1].key.rpartition(".")[2]) if later else count


def _now(memory: Memory) -> datetime:
    return memory.clock.now().astimezone(UTC)


def _read(memory: Memory, scope: Scope) -> tuple[Thread, int] | None:
    """Return the thread of a scope and the version of its record, if there is one."""
    fact: Fact | None = memory.perform(GetFact(scope=scope, key=_THREAD))
    if fact is None:
        return None
    ids = dict(scope.parts)
    return msgspec.convert({**fact.value, "id": ids["thread"], "owner": ids["user"]}, Thread), fact.version


def _require_thread(memory: Memory, scope: Scope) -> tuple[Thread, int]:
    found = _read(memory, scope)
    if found is None:
        raise NotFound(f"unknown thread at `{scope}`", hint="It was never begun, or was erased: get the current thread")
    return found


def _write_thread(scope: Scope, thread: Thread, *, expect: int) -> SetFact:
    # Its id and its owner are in the scope.
    kept: dict[str, Any] = msgspec.to_builtins(thread)
    value = {name: part for name, part in kept.items() if name not in ("id", "owner")}
    return SetFact(scope=scope, key=_THREAD, payload=msgspec.Raw(encode(value)), expect=expect)


def check_text(text: Any, most: int) -> None:
    """Refuse a message that is not text, is empty, or is too long."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidValue(f"{quote(text)} is not a valid message", hint="Pass a text that is not empty", path="$.text")
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > most:
        raise LimitExceeded(
            f"the message takes {size:,} bytes, the limit is {most:,}",
            hint=("Shorten it", larger_limit("content_bytes")),
            limit=most,
            actual=size,
            what="content_bytes",
        )
