"""A message to an agent in, the events of its turn out as bytes: of one that is begun here, or listened to again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from functools import partial

import msgspec

from memoranda.chat.holding import is_being_answered
from memoranda.chat.turns import ChatEvent as Happened
from memoranda.chat.turns import Turn
from memoranda.errors import MemorandaError
from memoranda.server.callers import Access
from memoranda.server.streams import STILL_HERE, EventStream, Tell, UnderWay
from memoranda.wire.chat import ChatEvent, SendMessage

_FIRST_LOOK, _LONGEST_LOOK = 0.1, 2.0
"""Seconds between two looks at a turn that somebody makes."""


class StreamedTurn:
    """A turn whose events are sent: begun here, or listened to again; or that is waited for."""

    def __init__(
        self,
        turns: UnderWay,
        access: Access,
        agent_id: str,
        message: SendMessage,
        said: Callable[..., Turn],
    ) -> None:
        """Begin nothing yet.

        Args:
            turns: those that are under way in this process.
            access: who sends the message.
            agent_id: to whom.
            message: what is sent.
            said: takes the turn, and tells its events to `on_event`.
        """
        self._turns = turns
        self._memory = access.memory
        self._user = access.caller.user
        self._message = message
        self._said = said
        # The text is part of it: under an id that stands for another message there is nothing to listen to.
        where = (access.caller.tenant, self._user, agent_id)
        self._key = (*where, message.conversation_id, message.message_id, message.message)

    async def is_under_way(self) -> bool:
        """Return whether an answer to the message is being made, here or by another process."""
        look = partial(
            is_being_answered,
            self._memory,
            self._user,
            self._message.conversation_id,
            message_id=self._message.message_id,
        )
        return await asyncio.get_running_loop().run_in_executor(None, look)

    async def over(self) -> None:
        """Return once no answer to the message is being made."""
        for pause in _pauses():
            if not await self.is_under_way():
                return
            await asyncio.sleep(pause)

    async def begin(self) -> EventStream[Turn]:
        """Take the turn, or find its answer; return once there is an event, or raise what was raised before one."""

        def work(tell: Tell) -> Turn:
            def told(event: Happened) -> None:
                tell(event.seq, _encoded(_event_out(event)))

            return self._said(on_event=told)

        return await self._turns.begin(self._key, work)

    async def rest(self, seen: int) -> AsyncGenerator[bytes]:
        """Yield what comes after a number: as it happens if the turn is under way here, else once it is over."""
        try:
            for pause in _pauses():
                if not await self.is_under_way():
                    break
                here = self._turns.find(self._key)
                if here is not None:
                    async for events in here.after(seen):
                        yield events
                    return
                yield STILL_HERE
                await asyncio.sleep(pause)
            stream = await self.begin()
        except MemorandaError as error:
            yield _encoded(self._failure(error, seen))
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
    pause = _FIRST_LOOK
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST_LOOK)


def _encoded(event: ChatEvent) -> bytes:
    """Return an event as a `text/event-stream` has it; JSON has no line breaks, so the data is one line."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.type.encode(), msgspec.json.encode(event))


def _event_out(event: Happened) -> ChatEvent:
    return ChatEvent(
        type=event.type,
        seq=event.seq,
        conversation_id=event.conversation_id,
        message_id=event.message_id,
        content=event.content,
        call_id=event.call_id,
        tool=event.tool,
        timestamp=event.at,
        metadata=event.metadata,
    )
