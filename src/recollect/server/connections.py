"""Connections of one server process: bytes in, requests out, and an end to those that keep us waiting."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from recollect.server.problems import RequestFault, problem_of
from recollect.wire.problems import MEDIA_TYPE


class ServerConfig(uvicorn.Config):
    """How uvicorn runs, and the seconds in which the head of a request, and then its body, must have arrived."""

    read_timeout: float = 30.0


class Connection(H11Protocol):
    """A connection that is ended when a request does not arrive in time.

    uvicorn itself waits for ever, so whoever opens connections and says nothing could use them up.
    """

    def __init__(self, config: ServerConfig, *args: Any, **options: Any) -> None:
        """Wait for the first request."""
        super().__init__(config, *args, **options)
        self._patience = config.read_timeout
        self._awaited: object = None
        """What is half there: h11.IDLE for a head, h11.SEND_BODY for a body."""
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._wait_for(h11.IDLE)

    def data_received(self, data: bytes) -> None:
        """Go on waiting while a head or a body is only half there."""
        super().data_received(data)
        state = self.conn.their_state
        half = state is h11.SEND_BODY or (state is h11.IDLE and self.conn.trailing_data[0])
        self._wait_for(state if half else None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._wait_for(None)
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]  # asyncio asks for it
        """Keep the connection of a caller who has said everything and waits for the answer; end any other."""
        waits = self.cycle and not self.cycle.response_complete and self.conn.their_state in (h11.DONE, h11.MUST_CLOSE)
        if waits:
            self.cycle.keep_alive = False
        return bool(waits)

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no HTTP with a problem, as everything else that is wrong."""
        self._refuse(RequestFault(400, "this is no HTTP request"))

    def _wait_for(self, awaited: object) -> None:
        if awaited is self._awaited:
            return
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._awaited = awaited
        if awaited is not None:
            self._deadline = self.loop.call_later(self._patience, self._give_up)

    def _give_up(self) -> None:
        if self._awaited is h11.SEND_BODY:
            self._refuse(RequestFault(408, "the body did not arrive in time", hint="Send it again, faster"))
        else:
            self.transport.close()

    def _refuse(self, fault: RequestFault) -> None:
        """Answer in place of the application, and end the connection."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()  # an answer is under way: whatever were added would be read as part of it
            return
        state: dict[str, Any] = self.scope.get("state", {}) if self.cycle else {}
        status, body, _ = problem_of(fault, state.get("request_id", ""))
        head = h11.Response(
            status_code=status,
            headers=[
                (b"content-type", MEDIA_TYPE.encode()),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
            ],
            reason=HTTPStatus(status).phrase.encode(),
        )
        for event in (head, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        if self.cycle:
            # Whoever handles the request learns that nobody waits for another answer.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()
