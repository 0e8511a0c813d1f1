"""Exports over HTTP: read while they are sent, kept nowhere, and ended by a deadline."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import BoundedSemaphore, Thread
from typing import Any

from litestar import Response
from litestar.types import Receive, Scope, Send

from memoranda.errors import Busy, Unavailable

LINES = "application/x-ndjson"
_CHUNK = 65_536
_CHUNKS = 4
"""Chunks that wait for the caller; when they are there, nothing more is read."""
_AT_ONCE = 4
"""Exports of one process: each has a snapshot, and a connection to the database."""

_Lines = Callable[[Callable[[Iterator[bytes]], None]], None]
"""What lets somebody take the lines of an export, such as `Memory.export_lines`."""


class Exports:
    """The exports that one process sends."""

    def __init__(self, timeout: float) -> None:
        """Start with none; each has `timeout` seconds from its first line to its last."""
        self._timeout = timeout
        self._room = BoundedSemaphore(_AT_ONCE)

    async def begin(self, export: _Lines, *, ahead: bool = False) -> Response[bytes]:
        """Return the answer of an export once its first line is there; raise what refuses it.

        With `ahead` it is read as fast as it can be, whatever the caller takes: for a database in memory, which nobody
        can write to meanwhile, and which is in memory anyway.
        """
        if not self._room.acquire(blocking=False):
            raise Busy(f"{_AT_ONCE} exports are being sent already", hint="Try again when one of them is over")
        reading = _Reading(export, self._timeout, 0 if ahead else _CHUNKS, self._room.release)
        try:
            first = await reading.next_chunk()
        except BaseException:
            reading.stop()
            raise
        return _Answer(reading, first)


class _Reading:
    """A thread that reads an export, and waits whenever nobody takes what it has read."""

    def __init__(self, export: _Lines, timeout: float, room: int, over: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue(room)
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._stopped = False
        # A thread of its own: those of the pool are for short work, and a few slow callers could take them all.
        Thread(target=self._run, args=(export, over), name="memoranda-export", daemon=True).start()

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    async def next_chunk(self) -> bytes | None:
        """Return the next bytes, None after the last; raise what went wrong."""
        chunk = await self._chunks.get()
        if isinstance(chunk, BaseException):
            raise chunk
        return chunk

    def stop(self) -> None:
        """Let the thread end: nobody takes anything any more."""
        self._stopped = True
        while not self._chunks.empty():  # it may be waiting for room
            self._chunks.get_nowait()

    def late(self) -> Unavailable:
        return Unavailable(
            f"the export was not received within {self._timeout:g} s",
            hint="Receive it faster, or export a part: GET /export?scope=…",
        )

    def _run(self, export: _Lines, over: Callable[[], None]) -> None:
        try:
            export(self._take)
            self._hand_over(None)
        except _Stopped:
            pass
        # Whoever sends the answer is told, whatever it was.
        except BaseException as error:
            with suppress(_Stopped):
                self._hand_over(error)
        finally:
            over()

    def _take(self, lines: Iterator[bytes]) -> None:
        waiting: list[bytes] = []
        size = 0
        for line in lines:
            waiting.append(line)
            size += len(line)
            if size >= _CHUNK:
                self._hand_over(b"".join(waiting))
                waiting, size = [], 0
        if waiting:
            self._hand_over(b"".join(waiting))

    def _hand_over(self, chunk: bytes | BaseException | None) -> None:
        if self._stopped or self._loop.is_closed():
            raise _Stopped
        handed_over = asyncio.run_coroutine_threadsafe(self._chunks.put(chunk), self._loop)
        try:
            handed_over.result(self.seconds_left)
        except TimeoutError:
            handed_over.cancel()
            self._stopped = True
            raise _Stopped from None
        if self._stopped:
            raise _Stopped


class _Stopped(Exception):  # it is no error: nobody waits any more
    """Nobody takes what is read."""


class _Answer(Response[bytes]):
    """An export on its way: as fast as the caller takes it, and over when the caller goes away."""

    def __init__(self, reading: _Reading, first: bytes | None) -> None:  # pyright: ignore[reportMissingSuperCall]
        self._reading = reading
        self._first = first

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        """Return what sends it."""
        return self._send

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send_chunks(send))
        gone = asyncio.ensure_future(_disconnection(receive))
        try:
            await asyncio.wait((sending, gone), timeout=self._reading.seconds_left, return_when="FIRST_COMPLETED")
            if sending.done():
                await sending
            elif not gone.done():
                raise self._reading.late()
        finally:
            self._reading.stop()
            for task in (sending, gone):
                task.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)

    async def _send_chunks(self, send: Send) -> None:
        head = [(b"content-type", LINES.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        async for chunk in self._chunks():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _chunks(self) -> AsyncGenerator[bytes]:
        chunk = self._first
        while chunk is not None:
            yield chunk
            chunk = await self._reading.next_chunk()


async def _disconnection(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def remove_leftovers() -> None:
    """Remove exports that earlier versions wrote to the temporary folder and were killed before they removed them."""
    for folder in Path(tempfile.gettempdir()).glob("memoranda-export-*"):
        with suppress(OSError):
            if folder.is_dir() and not folder.is_symlink() and folder.stat().st_uid == os.getuid():
                shutil.rmtree(folder, ignore_errors=True)
