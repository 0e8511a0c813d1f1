"""Parser for server-sent events (`text/event-stream`)."""

from __future__ import annotations

import re

import msgspec

# Only these three line ends: data may contain U+2028, where `str.splitlines` would split.
_LINE_END = re.compile(rb"\r\n|\n|\r")

BEGINNING = "0"
"""The `Last-Event-ID` of a client that has received no event."""


class ServerEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A server-sent event."""

    event: str = "message"
    data: str = ""
    id: str = ""


class EventReader:
    r"""Collects bytes until an empty line ends an event; an incomplete event is dropped.

    >>> reader = EventReader()
    >>> reader.feed(b'event: delta\ndata: {"con'), reader.feed(b'tent": "Hi"}\n\n')
    ([], [ServerEvent(event='delta', data='{"content": "Hi"}', id='')])
    """

    def __init__(self) -> None:
        """Start with an empty buffer."""
        self._waiting = b""
        self._returned = False
        self._name = ""
        self._data: list[str] = []
        self._id = ""

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Parse the next bytes and return the completed events."""
        if self._returned:
            # A CRLF was split between chunks; the line was already processed, so that its event was not delayed.
            chunk = chunk.removeprefix(b"\n")
        self._waiting += chunk
        self._returned = self._waiting.endswith(b"\r")
        found: list[ServerEvent] = []
        begins = 0
        for end in _LINE_END.finditer(self._waiting):
            event = self._take(self._waiting[begins : end.start()].decode("utf-8", "replace"))
            begins = end.end()
            if event:
                found.append(event)
        self._waiting = self._waiting[begins:]
        return found

    def _take(self, line: str) -> ServerEvent | None:
        if not line:
            return self._complete()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        elif field == "id" and "\0" not in value:
            self._id = value
        return None

    def _complete(self) -> ServerEvent | None:
        name, data = self._name, self._data
        self._name, self._data = "", []
        if not data:
            return None
        return ServerEvent(event=name or "message", data="\n".join(data), id=self._id)
