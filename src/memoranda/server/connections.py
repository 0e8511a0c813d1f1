"""Connections of one server process: bytes in, requests out, and an end to those that keep us waiting."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, Literal, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from memoranda.server.problems import RequestFault, problem_of
from memoranda.wire.problems import MEDIA_TYPE

LARGEST_HEAD = 65_536
"""Bytes of the first line and the headers of one request."""

_MUCH = 65_536
_VERSIONS = ("1.0", "1.1")


class ServerConfig(uvicorn.Config):
    """How uvicorn runs, and the seconds in which the head of a request, and then its body, must have arrived."""

    read_timeout: float = 30.0


class _Gathering:
    """A transport on which the head of an answer and its body go out as one.

    uvicorn writes them one after the other, each a call of the system and a packet; there is nothing that a request
    costs more of. What is written in one turn of the loop leaves at its end, or as soon as it is much.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._gathered: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        if not self._gathered:
            self._loop.call_soon(self.flush)
        self._gathered.append(data)
        self._size += len(data)
        if self._size > _MUCH:
            self.flush()

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def flush(self) -> None:
        data = b"".join(self._gathered)
        self._gathered.clear()
        self._size = 0
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connection(HttpToolsProtocol):
    """A connection that is ended when a request does not arrive in time, and that takes no odd ones.

    uvicorn itself waits for ever, so whoever opens connections and says nothing could use them up. Its parser lets
    pass what others would read as another request: heads of any size, several hosts, headers that come after the body.
    """

    def __init__(self, config: ServerConfig, *args: Any, **options: Any) -> None:
        """Wait for the first request."""
        super().__init__(config, *args, **options)
        self._patience = config.read_timeout
        self._half: Literal["head", "body"] | None = None
        """What of a request is only half there."""
        self._head_bytes = 0
        self._awaited: Literal["head", "body"] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._fault = RequestFault(400, "this is no HTTP request")

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for a head."""
        self._gathering = _Gathering(transport, self.loop)
        super().connection_made(cast("asyncio.Transport", self._gathering))
        self._wait_for("head")

    def data_received(self, data: bytes) -> None:
        """Go on waiting while a head or a body is only half there."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._half == "head":
            self._head_bytes += len(data)
            if self._head_bytes > LARGEST_HEAD:
                self._refuse(_too_large())
                return
        # Whoever sends only ends of lines has begun nothing, and is waited for all the same.
        self._wait_for("head" if self._half is None and not self._owes_an_answer() else self._half)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._wait_for(None)
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]  # asyncio asks for it
        """Keep the connection of a caller who has said everything and waits for the answer; end any other."""
        waits = self._half is None and self._owes_an_answer()
        if waits:
            self.cycle.keep_alive = False
        else:
            self._gathering.flush()  # an answer that was given in this turn of the loop
        return waits

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no HTTP with a problem, as everything else that is wrong."""
        self._refuse(self._fault)

    def on_response_complete(self) -> None:
        """Let the answer go before it is counted and logged, where it is the only one under way.

        Many go together at the end of a turn: each by itself would wake its caller while there is more to do for
        others, and a third fewer would be answered in the same time.
        """
        if len(self.tasks) == 1:
            self._gathering.flush()
        super().on_response_complete()

    # what the parser says

    def on_message_begin(self) -> None:
        """Begin a head."""
        super().on_message_begin()
        self._half = "head"
        self._head_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; one that comes after the body is not of those that said who is calling."""
        if self._half == "head":
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Refuse an odd head, and begin to answer any other."""
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > LARGEST_HEAD:
            raise self._refusal(_too_large())
        assert self.parser is not None, "it is the parser that calls this"
        version = self.parser.get_http_version()
        hosts = sum(name == b"host" for name, _ in self.headers)
        if version not in _VERSIONS or hosts > 1 or (hosts == 0 and version == "1.1"):
            raise self._refusal(self._fault)
        super().on_headers_complete()
        if self.parser.should_upgrade():
            # What follows is not HTTP to the parser: the request is answered as it is, and nothing after it is read.
            self.cycle.keep_alive = False
        self._half = "body"

    def on_message_complete(self) -> None:
        """Have a whole request."""
        super().on_message_complete()
        self._half = None
        self._wait_for(None)

    # what is done about it

    def _wait_for(self, awaited: Literal["head", "body"] | None) -> None:
        if awaited is self._awaited:
            return
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._awaited = awaited
        if awaited is not None:
            self._deadline = self.loop.call_later(self._patience, self._give_up)

    def _give_up(self) -> None:
        if self._awaited == "body":
            self._refuse(RequestFault(408, "the body did not arrive in time", hint="Send it again, faster"))
        else:
            self.transport.close()

    def _owes_an_answer(self) -> bool:
        """Say whether there is a request, whole or with half of its body, that was not answered to the end."""
        return bool(self.cycle) and not self.cycle.response_complete

    def _refusal(self, fault: RequestFault) -> RequestFault:
        """Return what to raise in the parser, which then asks for an answer to bytes that are no HTTP."""
        self._fault = fault
        return fault

    def _refuse(self, fault: RequestFault) -> None:
        """Answer in place of the application, and end the connection."""
        unanswered = self._owes_an_answer()
        if unanswered and self._half != "body":
            # Others are before it: ours would be taken for the answer to theirs. They are answered, and that is all.
            self.cycle.keep_alive = False
            self.flow.pause_reading()
            return
        if self.pipeline or (unanswered and self.cycle.response_started):
            self.transport.close()  # an answer is under way: whatever were added would be read as part of it
            return
        state: dict[str, Any] = self.scope.get("state", {}) if unanswered else {}
        status, body, _ = problem_of(fault, state.get("request_id", ""))
        head = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            f"content-type: {MEDIA_TYPE}",
            f"content-length: {len(body)}",
            "connection: close",
        ]
        self.transport.write("\r\n".join([*head, "\r\n"]).encode() + body)
        if unanswered:
            # Whoever handles the request learns that nobody waits for another answer.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


def _too_large() -> RequestFault:
    return RequestFault(431, f"the head of this request has more than {LARGEST_HEAD} bytes", hint="Send fewer headers")
