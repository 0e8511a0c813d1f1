"""Bytes of a `text/event-stream` in, its events out."""

from __future__ import annotations

import re

import msgspec

# The ends of lines are these three and no others: data may hold U+2028, which `str.splitlines` would cut at.
_LINE_END = re.compile(rb"\r\n|\n|\r")

BEGINNING = "0"
"""The id of the last event, for who has seen none."""


class ServerEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event as it was sent: its name, its data, and the id to go on from."""

    event: str = "message"
    data: str = ""
    id: str = ""


class EventReader:
    r"""Puts bytes together until an empty line ends an event. What the stream breaks off in is no event.

    >>> reader = EventReader()
    >>> reader.feed(b'event: delta\ndata: {"con'), reader.feed(b'tent": "Hi"}\n\n')
    ([], [ServerEvent(event='delta', data='{"content": "Hi"}', id='')])
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._waiting = b""
        self._returned = False
        self._name = ""
        self._data: list[str] = []
        self._id = ""

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Take the next bytes; return the events that they complete."""
        if self._returned:
            # The end of a line was cut in two; the line is taken already, so that no event waits for the next one.
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
        """Take one line; return the event that it ends, if it does."""
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
