"""Conversations as facts: an owner and a channel in, the thread that goes on there out; messages in, and back in order.

A thread is kept in the scope `user:<owner>/thread:<id>`, beside the records that definitions keep for it, so that both
go together. There `threads.thread` says where it stands, and each message is a fact below `threads.messages`. Which
thread goes on in a channel stands in the owner's own scope, at `threads.current.<channel>`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

import msgspec

from memoranda.api.memory import Memory
from memoranda.errors import Conflict, InvalidValue, LimitExceeded, NotFound, ScopeEnded, UsageError
from memoranda.model.duration import Duration, parse_duration
from memoranda.model.effect import GetFact, ListFacts, SetFact, WriteFacts
from memoranda.model.fact import Fact
from memoranda.model.key import check_key
from memoranda.model.limits import check_count
from memoranda.model.scope import Scope
from memoranda.model.text import quote, require_label
from memoranda.model.value import encode, encode_checked
from memoranda.workflow.actions.base import Message

MOST_MESSAGES = 1_000
"""Messages that are read at once."""

_CURRENT, _THREAD, _MESSAGES = "threads.current", "threads.thread", "threads.messages"
_ATTEMPTS = 1_000
_LONGEST_NAP = 0.02

T = TypeVar("T")


class Thread(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation as it stood when it was read."""

    id: str
    owner: str
    channel: str | None = None
    """Where it takes place; None for a thread that was begun under an id of its own."""
    opened_at: datetime
    last_at: datetime
    """The moment of its newest message, or of its beginning."""
    count: int = 0
    """The number of its newest message."""
    closed: bool = False


def current_thread(memory: Memory, *, owner: str, channel: str = "default", window: Duration = "24h") -> Thread:
    """Return the thread that goes on in a channel. After a window without a message it is closed, and another begins.

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
    """Return the thread of this id, begun now where there is none; in no channel, it ends only by `close_thread`."""
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
    """Return the thread of this id, or None where there is none."""
    found = _read(memory, _scope(memory, owner, id))
    return None if found is None else found[0]


def closed_thread(thread: Thread) -> ScopeEnded:
    """Return the refusal of something that is to be said in a thread that is closed."""
    return ScopeEnded(
        f"the thread {quote(thread.id)} of `{thread.owner}` is closed",
        hint="Ask for the current thread of the channel, and go on there",
    )


def close_thread(memory: Memory, thread: Thread) -> Thread:
    """Close a thread, so that its channel begins another, and return it closed; closing it twice changes nothing."""
    scope = _scope(memory, thread.owner, thread.id)

    def attempt() -> Thread:
        standing, version = _standing(memory, scope)
        if standing.closed:
            return standing
        closed = msgspec.structs.replace(standing, closed=True)
        memory.perform(_write_thread(scope, closed, expect=version))
        return closed

    return _until_first(attempt)


def add_message(memory: Memory, thread: Thread, text: str, *, sender: str, by_owner: bool) -> Message:
    """Add a message to a thread that goes on, and return it."""
    check_text(text, memory.limits.content_bytes)
    require_label("sender", sender)
    if type(cast(object, by_owner)) is not bool:
        raise UsageError(f"{quote(by_owner)} does not say who speaks", hint="Pass by_owner=True or False")
    scope = _scope(memory, thread.owner, thread.id)

    def attempt() -> Message:
        standing, version = _standing(memory, scope)
        if standing.closed:
            raise closed_thread(standing)
        # Messages never go back in time, whatever the clock does: the window is counted from the newest.
        at = max(_now(memory), standing.last_at)
        message = Message(text=text, sender=sender, by_owner=by_owner, at=at.isoformat())
        number = _newest_number(memory, scope, standing.count) + 1
        longer = msgspec.structs.replace(standing, last_at=at, count=number)
        payload = msgspec.Raw(encode_checked(msgspec.to_builtins(message), memory.limits))
        # The thread's own record is what two writers meet at: the slower one begins again with the next number.
        writes = (
            _write_thread(scope, longer, expect=version),
            SetFact(scope=scope, key=_message_key(number), payload=payload, expect=0),
        )
        memory.perform(WriteFacts(scope=scope, writes=writes))
        return message

    return _until_first(attempt)


def messages(memory: Memory, thread: Thread, limit: int) -> list[Message]:
    """Return the newest messages of a thread, oldest first."""
    if cast(object, limit) is None:
        raise UsageError("None is not a limit", hint=f"Pass a whole number from 1 to {MOST_MESSAGES}")
    check_count("limit", limit, least=1)
    if limit > MOST_MESSAGES:
        raise LimitExceeded(
            f"{limit:,} messages are asked for, the limit is {MOST_MESSAGES:,}",
            hint="Ask for fewer: it is the newest that you get",
            limit=MOST_MESSAGES,
            actual=limit,
        )
    scope = _scope(memory, thread.owner, thread.id)
    standing, _ = _standing(memory, scope)
    before = _message_key(max(standing.count - limit, 0))
    # Without a limit of its own: what was added since the thread was read is newer still.
    found: list[Fact] = memory.perform(ListFacts(scope=scope, prefix=_MESSAGES, after=before))
    return [msgspec.convert(fact.value, Message) for fact in found[-limit:]]


def _current(memory: Memory, owner: str, channel: str, quiet: timedelta) -> Thread:
    """Return the thread that a channel names, or begin one in its place; raise Conflict where somebody was faster."""
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
        # A message that comes in meanwhile changes the version: then the thread is not quiet after all.
        writes.append(_write_thread(scope, msgspec.structs.replace(found[0], closed=True), expect=found[1]))
    memory.perform(WriteFacts(scope=home, writes=tuple(writes)))
    return begun


def _until_first(attempt: Callable[[], T]) -> T:
    """Return what an attempt gives, begun again as often as somebody was faster."""
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
    """Return the number of the newest message: an import may have brought some that the thread has not counted."""
    later: list[Fact] = memory.perform(ListFacts(scope=scope, prefix=_MESSAGES, after=_message_key(count)))
    return int(later[-1].key.rpartition(".")[2]) if later else count


def _now(memory: Memory) -> datetime:
    return memory.clock.now().astimezone(UTC)


def _read(memory: Memory, scope: Scope) -> tuple[Thread, int] | None:
    """Return the thread of a scope and the version of its record; None where there is none."""
    fact: Fact | None = memory.perform(GetFact(scope=scope, key=_THREAD))
    if fact is None:
        return None
    ids = dict(scope.parts)
    return msgspec.convert({**fact.value, "id": ids["thread"], "owner": ids["user"]}, Thread), fact.version


def _standing(memory: Memory, scope: Scope) -> tuple[Thread, int]:
    found = _read(memory, scope)
    if found is None:
        raise NotFound(
            f"there is no thread at `{scope}`", hint="It was never begun, or was erased: ask for the current thread"
        )
    return found


def _write_thread(scope: Scope, thread: Thread, *, expect: int) -> SetFact:
    # Whose it is and what it is called is what the scope says.
    kept: dict[str, Any] = msgspec.to_builtins(thread)
    value = {name: part for name, part in kept.items() if name not in ("id", "owner")}
    return SetFact(scope=scope, key=_THREAD, payload=msgspec.Raw(encode(value)), expect=expect)


def check_text(text: Any, most: int) -> None:
    """Refuse what is no message, or too long for one."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidValue(f"{quote(text)} is no message", hint="Pass text that says something", path="$.text")
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > most:
        raise LimitExceeded(
            f"the message takes {size:,} bytes, the limit is {most:,}",
            hint="Shorten it, or open with a larger Limits(content_bytes=…)",
            limit=most,
            actual=size,
            what="content_bytes",
        )
