"""The HTTP/1.1 protocol of a connection: uvicorn's, with timeouts and stricter parsing."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, Literal

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from memoranda.server.problems import RequestError, problem_of
from memoranda.wire.problems import MEDIA_TYPE

MAX_HEADER_BYTES = 65_536
"""Maximum bytes of the request line and headers."""

_VERSIONS = ("1.0", "1.1")


class ServerConfig(uvicorn.Config):
    """uvicorn's configuration, with a timeout in seconds for the headers of a request, and for its body."""

    read_timeout: float = 30.0


class HttpProtocol(HttpToolsProtocol):
    """A connection that closes when a request does not arrive in time, and rejects ambiguous requests.

    uvicorn waits forever, so idle clients could use up all connections. Its parser accepts what a proxy may read as a
    different request: headers of any size, several Host headers, trailers after the body.
    """

    def __init__(self, config: ServerConfig, *args: Any, **options: Any) -> None:
        """Create the protocol of a new connection."""
        super().__init__(config, *args, **options)
        self._read_timeout = config.read_timeout
        self._incomplete: Literal["head", "body"] | None = None
        """The part of a request that is incomplete."""
        self._head_bytes = 0
        self._awaited: Literal["head", "body"] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._error = RequestError(400, "this is not a valid HTTP request")

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start the timeout for the headers."""
        super().connection_made(transport)
        self._wait_for("head")

    def data_received(self, data: bytes) -> None:
        """Parse data, and restart the timeout while a request is incomplete."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._incomplete == "head":
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEADER_BYTES:
                self._reject(_too_large())
                return
        # A client that sends only line ends has not started a request, but gets the same timeout.
        self._wait_for("head" if self._incomplete is None and not self._response_pending() else self._incomplete)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timeout."""
        self._wait_for(None)
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]  # asyncio asks for it
        """Keep a half-closed connection open while its response is pending; close any other."""
        waits = self._incomplete is None and self._response_pending()
        if waits:
            self.cycle.keep_alive = False
        return waits

    def send_400_response(self, msg: str) -> None:
        """Answer invalid HTTP with a problem document."""
        self._reject(self._error)

    def on_message_begin(self) -> None:
        """Start the headers of a request."""
        super().on_message_begin()
        self._incomplete = "head"
        self._head_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Accept a header; trailers are ignored, because authentication has seen only the headers."""
        if self._incomplete == "head":
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Reject ambiguous headers; otherwise start the request."""
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > MAX_HEADER_BYTES:
            raise self._rejection(_too_large())
        assert self.parser is not None, "called by the parser"
        version = self.parser.get_http_version()
        hosts = sum(name == b"host" for name, _ in self.headers)
        if version not in _VERSIONS or hosts > 1 or (hosts == 0 and version == "1.1"):
            raise self._rejection(self._error)
        super().on_headers_complete()
        if self.parser.should_upgrade():
            # The parser does not read what follows an upgrade: answer the request, then close.
            self.cycle.keep_alive = False
        self._incomplete = "body"

    def on_message_complete(self) -> None:
        """Cancel the timeout of a complete request."""
        super().on_message_complete()
        self._incomplete = None
        self._wait_for(None)

    def _wait_for(self, awaited: Literal["head", "body"] | None) -> None:
        if awaited is self._awaited:
            return
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._awaited = awaited
        if awaited is not None:
            self._deadline = self.loop.call_later(self._read_timeout, self._give_up)

    def _give_up(self) -> None:
        if self._awaited == "body":
            self._reject(RequestError(408, "the body did not arrive in time", hint="Send the request again"))
        else:
            self.transport.close()

    def _response_pending(self) -> bool:
        """Return whether there is a request without a complete response."""
        return bool(self.cycle) and not self.cycle.response_complete

    def _rejection(self, error: RequestError) -> RequestError:
        """Return the error to raise in the parser, which then calls `send_400_response`."""
        self._error = error
        return error

    def _reject(self, error: RequestError) -> None:
        """Send an error instead of the application's response, and close the connection."""
        pending = self._response_pending()
        if pending and self._incomplete != "body":
            # Earlier pipelined requests are pending: an error now would be taken for a response to one of them.
            self.cycle.keep_alive = False
            self.flow.pause_reading()
            return
        if self.pipeline or (pending and self.cycle.response_started):
            self.transport.close()  # anything sent now would be read as part of the response
            return
        state: dict[str, Any] = self.scope.get("state", {}) if pending else {}
        status, body, _ = problem_of(error, state.get("request_id", ""))
        head = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            f"content-type: {MEDIA_TYPE}",
            f"content-length: {len(body)}",
            "connection: close",
        ]
        self.transport.write("\r\n".join([*head, "\r\n"]).encode() + body)
        if pending:
            # Tell the application that the client is gone.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


def _too_large() -> RequestError:
    return RequestError(
        431, f"the headers of this request have more than {MAX_HEADER_BYTES} bytes", hint="Send fewer headers"
    )
