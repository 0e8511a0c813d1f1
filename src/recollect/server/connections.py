"""Connections of one server process: bytes in, requests out, and an end to those that keep us waiting."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from recollect.server.problems import RequestFault, problem_of
from recollect.wire.problems import MEDIA_TYPE


class ServerConfig(uvicorn.Config):
    """How uvicorn runs, and the seconds in which the head of a request must have arrived."""

    read_timeout: float = 30.0


class Connection(H11Protocol):
    """A connection that is closed when the head of a request does not arrive in time.

    uvicorn itself waits for ever for the first one, so whoever opens connections and says nothing could use them up.
    """

    def __init__(self, config: ServerConfig, *args: Any, **options: Any) -> None:
        """Wait for the first request."""
        super().__init__(config, *args, **options)
        self._patience = config.read_timeout
        self._waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait."""
        super().connection_made(transport)
        self._waiting = self.loop.call_later(self._patience, self._give_up)

    def data_received(self, data: bytes) -> None:
        """Go on waiting while a head is only half there."""
        super().data_received(data)
        half = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        if half and self._waiting is None:
            self._waiting = self.loop.call_later(self._patience, self._give_up)
        elif not half:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]  # asyncio asks for it
        """Keep the connection of a caller who has said everything and waits for the answer; end any other."""
        waits = self.cycle and not self.cycle.response_complete and self.conn.their_state in (h11.DONE, h11.MUST_CLOSE)
        if waits:
            self.cycle.keep_alive = False
        return bool(waits)

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no HTTP with a problem, as everything else that is wrong."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()  # an answer is under way: whatever were added would be read as part of it
            return
        status, body, _ = problem_of(RequestFault(400, "this is no HTTP request"), "")
        head = h11.Response(
            status_code=status,
            headers=[
                (b"content-type", MEDIA_TYPE.encode()),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
            ],
            reason=b"Bad Request",
        )
        for event in (head, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        if self.cycle:
            # Its body turned out to be none; whoever handles it must not answer as well.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        self.transport.close()
