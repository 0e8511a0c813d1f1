"""Middleware for every request: its id, metrics, log line and compression."""

from __future__ import annotations

import logging
import re
import zlib
from time import perf_counter
from typing import Any, cast
from urllib.parse import unquote

from litestar.concurrency import sync_to_thread
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from memoranda.errors import MemorandaError
from memoranda.model.clock import Ids
from memoranda.server.logs import REQUESTS
from memoranda.server.metrics import Metrics
from memoranda.server.problems import RequestError, problem_of
from memoranda.wire.problems import MEDIA_TYPE

SLASH = "\uffff"
"""Replaces a `/` that was sent as `%2F` inside a path segment. U+FFFF is not a valid character of any name."""

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_log = logging.getLogger(REQUESTS)


class RequestMiddleware:
    """Adds a request id, counts and logs each request, and answers errors that nothing else did."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, ids: Ids) -> None:
        """Wrap an application."""
        self._app = app
        self._metrics = metrics
        self._ids = ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = scope["state"]["request_id"] = _request_id(scope) or self._ids.new("req")
        begun, status, answered = perf_counter(), 500, False

        async def send_with_id(message: Message) -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                status, answered = message["status"], True
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            await send(message)

        self._metrics.in_flight += 1
        try:
            _keep_slashes(scope)
            await self._app(scope, receive, send_with_id)
        # Nothing outside of this can answer the request.
        except Exception as error:
            if answered:
                raise
            scope["state"]["problem"] = error
            await _refuse(error, request_id, send_with_id)
        finally:
            if status == 500:
                # The traceback goes to the log, never into the response.
                failure = scope["state"].get("problem")
                _log.error("a request failed", exc_info=failure, extra={"fields": {"request_id": request_id}})
            self._metrics.in_flight -= 1
            seconds = perf_counter() - begun
            route: str = cast("dict[str, Any]", scope).get("path_template", "")
            self._metrics.count(scope["method"], route, status, seconds)
            _log.info("request", extra={"fields": _log_fields(scope, request_id, route, status, seconds)})


def _request_id(scope: Scope) -> str | None:
    """Return the `X-Request-Id` of the client if it is safe to log."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return value.decode()
    return None


def _keep_slashes(scope: Scope) -> None:
    """Keep a `/` that was sent as `%2F` inside its path segment."""
    raw = scope["raw_path"]
    if SLASH in scope["path"]:
        raise RequestError(404, "this path does not exist")
    if b"%2f" in raw.lower():
        pieces = re.split("%2[fF]", raw.decode("ascii", "replace"))
        scope["path"] = SLASH.join(unquote(piece) for piece in pieces)


async def _refuse(error: Exception, request_id: str, send: Send) -> None:
    status, body, headers = problem_of(error, request_id)
    sent = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), **headers}
    raw = [(name.lower().encode(), value.encode()) for name, value in sent.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _log_fields(scope: Scope, request_id: str, route: str, status: int, seconds: float) -> dict[str, Any]:
    """Return the fields of the log line: the route, never the path, which contains names of users and keys."""
    known = cast("dict[str, Any]", scope)
    fields: dict[str, Any] = {
        "request_id": request_id,
        "method": known["method"],
        "route": route,
        "status": status,
        "ms": round(seconds * 1_000, 3),
    }
    principal = known.get("user")
    if principal is not None:
        fields |= {"tenant": principal.tenant, "key": principal.key_id}
    problem = known["state"].get("problem")
    if isinstance(problem, MemorandaError):
        fields["code"] = problem.code
    return fields


UNCOMPRESSED = "uncompressed"
"""The option of routes whose responses are not compressed."""

_MIN_BYTES = 1_024
"""Bytes below which a response is not compressed."""
_MAX_ON_LOOP = 16_384
"""Bytes that are compressed on the event loop, in about 0.5 ms; more is compressed in a thread."""
_LEVEL = 6
_GZIP = 16 + zlib.MAX_WBITS


def compress(app: ASGIApp) -> ASGIApp:
    """Compress responses for clients that accept gzip."""

    async def compressing(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _takes_gzip(scope) and not scope["route_handler"].opt.get(UNCOMPRESSED):
            send = _Gzip(send)
        await app(scope, receive, send)

    return compressing


def _takes_gzip(scope: Scope) -> bool:
    return any(name == b"accept-encoding" and b"gzip" in value for name, value in scope["headers"])


class _Gzip:
    """Sends one response: small ones as they are, others compressed, streams chunk by chunk."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: dict[str, Any] | None = None
        """The start message, until it is known whether the body is compressed."""
        self._compressor: Any = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = cast("dict[str, Any]", message)
            return
        if message["type"] != "http.response.body":
            await self._send(message)
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        if self._start is None:
            packed = body if self._compressor is None else await self._compress(body, more=more)
        else:
            start, self._start = self._start, None
            names = {name.lower() for name, _ in start["headers"]}
            if (more or len(body) >= _MIN_BYTES) and b"content-encoding" not in names:
                self._compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
                packed = await self._compress(body, more=more)
                start["headers"] = _gzip_headers(start["headers"], None if more else len(packed))
            else:
                packed = body
            await self._send(cast("Message", start))
        await self._send({"type": "http.response.body", "body": packed, "more_body": more})

    async def _compress(self, body: bytes, *, more: bool) -> bytes:
        if len(body) <= _MAX_ON_LOOP:
            return self._compress_now(body, more)
        return await sync_to_thread(self._compress_now, body, more)

    def _compress_now(self, body: bytes, more: bool) -> bytes:
        # Flush each chunk, so that a reader of a stream does not wait for the next one.
        return self._compressor.compress(body) + self._compressor.flush(zlib.Z_SYNC_FLUSH if more else zlib.Z_FINISH)


def _gzip_headers(headers: list[tuple[bytes, bytes]], length: int | None) -> list[tuple[bytes, bytes]]:
    kept = [(name, value) for name, value in headers if name.lower() not in (b"content-length", b"vary")]
    vary = [value for name, value in headers if name.lower() == b"vary"]
    size = [] if length is None else [(b"content-length", str(length).encode())]
    return [*kept, *size, (b"content-encoding", b"gzip"), (b"vary", b", ".join([*vary, b"Accept-Encoding"]))]
