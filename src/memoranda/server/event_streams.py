"""Server-sent events of work in a thread, and of chat turns, for any number of listeners."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from memoranda.chat.open_turn import is_being_answered
from memoranda.chat.turn import ChatEvent as TurnEvent
from memoranda.chat.turn import Turn
from memoranda.errors import MemorandaError
from memoranda.server.auth.principals import Access
from memoranda.wire.chat import ChatEvent, SendMessage

EVENT_STREAM = "text/event-stream"
KEEP_ALIVE = b": still here\n\n"
"""A comment in the stream, which clients ignore."""
_QUIET = 15.0
"""Seconds without an event after which a comment is sent, so that proxies do not close the connection."""

_log = logging.getLogger(__name__)
Result = TypeVar("Result")

Publish: TypeAlias = Callable[[int, bytes], None]
"""Publishes an event: its number, and its bytes."""


class EventStream(Generic[Result]):
    """The past and future events of some work in a thread, and its result."""

    def __init__(self, work: Callable[[Publish], Result]) -> None:
        """Start the work in a thread; it continues even if all listeners leave."""
        self._events: list[tuple[int, bytes]] = []
        self._done = False
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._work = self._loop.run_in_executor(None, self._run, work)
        self._work.add_done_callback(_log_failure)

    async def wait_started(self) -> None:
        """Wait for the first event or the end; raise an error that came before the first event."""
        while not self._events and not self._done:
            await self._news.wait()
        if not self._events:
            await self.result()

    async def result(self) -> Result:
        """Return the result of the work, or raise its error."""
        return await asyncio.shield(self._work)

    def add_done_callback(self, act: Callable[[], object]) -> None:
        """Call `act` when the work is done."""
        self._work.add_done_callback(lambda _: act())

    async def after(self, number: int = -1) -> AsyncGenerator[bytes]:
        """Yield the events with a higher number until the work is done, several at once where there are."""
        place = 0
        while place < len(self._events) or not self._done:
            news = self._news
            waiting = [event for sequence, event in self._events[place:] if sequence > number]
            place = len(self._events)
            if waiting:
                yield b"".join(waiting)
            elif not self._done and not await _set_in_time(news):
                yield KEEP_ALIVE

    def _run(self, work: Callable[[Publish], Result]) -> Result:
        try:
            return work(lambda number, event: self._on_loop(self._add, number, event))
        finally:
            self._on_loop(self._end)

    def _on_loop(self, act: Callable[..., None], *given: Any) -> None:
        # The event loop may be closed; the work is completed all the same.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(act, *given)

    def _add(self, number: int, event: bytes) -> None:
        self._events.append((number, event))
        self._wake()

    def _end(self) -> None:
        self._done = True
        self._wake()

    def _wake(self) -> None:
        # A new event each time: a listener waits on the one it got before it read the list, and misses nothing.
        self._news.set()
        self._news = asyncio.Event()


class ActiveStreams:
    """The running streams of this process by key, so that a client that lost its connection can listen again."""

    def __init__(self) -> None:
        """Start with none."""
        self._streams: dict[Hashable, EventStream[Any]] = {}

    def find(self, key: Hashable) -> EventStream[Any] | None:
        """Return a running stream that has published an event, or None."""
        return self._streams.get(key)

    async def begin(self, key: Hashable, work: Callable[[Publish], Result]) -> EventStream[Result]:
        """Begin work as `start_stream` does; it can be found until it is over."""
        stream = await start_stream(work)
        self._streams[key] = stream
        stream.add_done_callback(lambda: self._streams.pop(key, None))
        return stream


async def start_stream(work: Callable[[Publish], Result]) -> EventStream[Result]:
    """Start work in a thread; return once it has published an event, or raise its earlier error."""
    stream = EventStream(work)
    await stream.wait_started()
    return stream


async def _set_in_time(event: asyncio.Event) -> bool:
    """Wait for an event; return False after a timeout."""
    try:
        async with asyncio.timeout(_QUIET):
            return await event.wait()
    except TimeoutError:
        return False


def _log_failure(work: asyncio.Future[Result]) -> None:
    """Log an internal error; the client is only told that the turn failed."""
    error = None if work.cancelled() else work.exception()
    if error is not None and not isinstance(error, MemorandaError):
        _log.error("a turn failed", exc_info=error)


_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
"""Seconds between two checks of a turn that another process runs."""


class StreamedTurn:
    """A chat turn whose events are streamed: started here, or joined while it runs."""

    def __init__(
        self,
        turns: ActiveStreams,
        access: Access,
        agent_id: str,
        message: SendMessage,
        take_turn: Callable[..., Turn],
    ) -> None:
        """Prepare a turn; nothing is started yet.

        Args:
            turns: the running turns of this process.
            access: who sends the message.
            agent_id: the agent that answers.
            message: the message.
            take_turn: runs the turn and passes its events to `on_event`.
        """
        self._turns = turns
        self._memory = access.memory
        self._user = access.principal.user
        self._message = message
        self._take_turn = take_turn
        # The text is part of the key: the same id with another text is another message.
        where = (access.principal.tenant, self._user, agent_id)
        self._key = (*where, message.conversation_id, message.message_id, message.message)

    async def is_under_way(self) -> bool:
        """Return whether the message is being answered, here or by another process."""
        look = partial(
            is_being_answered,
            self._memory,
            self._user,
            self._message.conversation_id,
            message_id=self._message.message_id,
        )
        return await asyncio.get_running_loop().run_in_executor(None, look)

    async def wait_answered(self) -> None:
        """Wait until the answer to the message has ended."""
        for pause in _pauses():
            if not await self.is_under_way():
                return
            await asyncio.sleep(pause)

    async def begin(self) -> EventStream[Turn]:
        """Run the turn, or replay its answer; return once there is an event, or raise an earlier error."""

        def work(tell: Publish) -> Turn:
            def on_event(event: TurnEvent) -> None:
                tell(event.seq, _encode_event(_event_json(event)))

            return self._take_turn(on_event=on_event)

        return await self._turns.begin(self._key, work)

    async def rest(self, seen: int) -> AsyncGenerator[bytes]:
        """Yield the events after a number: live if the turn runs in this process, else once it is done."""
        try:
            for pause in _pauses():
                if not await self.is_under_way():
                    break
                here = self._turns.find(self._key)
                if here is not None:
                    async for events in here.after(seen):
                        yield events
                    return
                yield KEEP_ALIVE
                await asyncio.sleep(pause)
            stream = await self.begin()
        except MemorandaError as error:
            yield _encode_event(self._failure(error, seen))
            return
        async for events in stream.after():
            yield events

    def _failure(self, error: MemorandaError, seen: int) -> ChatEvent:
        return ChatEvent(
            type="error",
            seq=seen,
            conversation_id=self._message.conversation_id,
            message_id=self._message.message_id,
            content=error.message,
            timestamp=self._memory.clock.now(),
            metadata={"code": error.code},
        )


def _pauses() -> Iterator[float]:
    pause = _FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE)


def _encode_event(event: ChatEvent) -> bytes:
    """Encode a server-sent event; JSON has no line breaks, so the data is one line."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.type.encode(), msgspec.json.encode(event))


def _event_json(event: TurnEvent) -> ChatEvent:
    fields = msgspec.structs.asdict(event)
    return ChatEvent(timestamp=fields.pop("at"), **fields)
