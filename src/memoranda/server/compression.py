"""Gzip for answers, never for long on the event loop: what is not small is compressed in a thread."""

from __future__ import annotations

import zlib
from typing import Any, cast

from litestar.concurrency import sync_to_thread
from litestar.types import ASGIApp, Message, Receive, Scope, Send

UNCOMPRESSED = "uncompressed"
"""The option of a route whose answers are sent as they are."""

_LEAST = 1_024
"""Bytes of an answer below which compressing it is not worth the header."""
_MOST_AT_ONCE = 16_384
"""Bytes that are compressed on the event loop: about half a millisecond, less than a thread may be waited for."""
_LEVEL = 6
_GZIP = 16 + zlib.MAX_WBITS


def compress(app: ASGIApp) -> ASGIApp:
    """Return an application whose answers are compressed for callers that accept gzip."""

    async def compressing(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _takes_gzip(scope) and not scope["route_handler"].opt.get(UNCOMPRESSED):
            send = _Gzip(send)
        await app(scope, receive, send)

    return compressing


def _takes_gzip(scope: Scope) -> bool:
    return any(name == b"accept-encoding" and b"gzip" in value for name, value in scope["headers"])


class _Gzip:
    """Sends one answer: small ones as they are, others compressed, those in parts part by part."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: dict[str, Any] | None = None
        """The head of the answer, until it is known whether the body is compressed."""
        self._packer: Any = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = cast("dict[str, Any]", message)
            return
        if message["type"] != "http.response.body":
            await self._send(message)
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        if self._start is None:
            packed = body if self._packer is None else await self._pack(body, more=more)
        else:
            start, self._start = self._start, None
            names = {name.lower() for name, _ in start["headers"]}
            if (more or len(body) >= _LEAST) and b"content-encoding" not in names:
                self._packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
                packed = await self._pack(body, more=more)
                start["headers"] = _packed_headers(start["headers"], None if more else len(packed))
            else:
                packed = body
            await self._send(cast("Message", start))
        await self._send({"type": "http.response.body", "body": packed, "more_body": more})

    async def _pack(self, body: bytes, *, more: bool) -> bytes:
        if len(body) <= _MOST_AT_ONCE:
            return self._packed(body, more)
        return await sync_to_thread(self._packed, body, more)

    def _packed(self, body: bytes, more: bool) -> bytes:
        # Flushed with each part: whoever reads along should not wait for the next one.
        return self._packer.compress(body) + self._packer.flush(zlib.Z_SYNC_FLUSH if more else zlib.Z_FINISH)


def _packed_headers(headers: list[tuple[bytes, bytes]], length: int | None) -> list[tuple[bytes, bytes]]:
    kept = [(name, value) for name, value in headers if name.lower() not in (b"content-length", b"vary")]
    vary = [value for name, value in headers if name.lower() == b"vary"]
    size = [] if length is None else [(b"content-length", str(length).encode())]
    return [*kept, *size, (b"content-encoding", b"gzip"), (b"vary", b", ".join([*vary, b"Accept-Encoding"]))]
