"""Streaming exports: read while they are sent, never stored, and limited by a deadline."""

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
"""Maximum number of chunks buffered for the client."""
_MAX_CONCURRENT = 4
"""Concurrent exports of one process: each holds a snapshot and a database connection."""

_Lines = Callable[[Callable[[Iterator[bytes]], None]], None]
"""A function that passes the lines of an export to a callback, such as `Memory.export_lines`."""


class Exports:
    """The running exports of one process."""

    def __init__(self, timeout: float) -> None:
        """Allow each export `timeout` seconds."""
        self._timeout = timeout
        self._room = BoundedSemaphore(_MAX_CONCURRENT)

    async def begin(self, export: _Lines, *, ahead: bool = False) -> Response[bytes]:
        """Return the response of an export once its first chunk is read; raise what prevents it.

        With `ahead` it is buffered as fast as it can be read: for a database in memory, which cannot be written to
        meanwhile.
        """
        if not self._room.acquire(blocking=False):
            raise Busy(f"{_MAX_CONCURRENT} exports are running already", hint="Try again when one of them has finished")
        reader = _Reader(export, self._timeout, 0 if ahead else _CHUNKS, self._room.release)
        try:
            first = await reader.next_chunk()
        except BaseException:
            reader.stop()
            raise
        return _ExportResponse(reader, first)


class _Reader:
    """A thread that reads an export, and waits while its buffer is full."""

    def __init__(self, export: _Lines, timeout: float, room: int, over: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue(room)
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._stopped = False
        # Not in the pool, which is for short work: a few slow clients could occupy all of its threads.
        Thread(target=self._run, args=(export, over), name="memoranda-export", daemon=True).start()

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    async def next_chunk(self) -> bytes | None:
        """Return the next chunk, None after the last; raise the error of the export."""
        chunk = await self._chunks.get()
        if isinstance(chunk, BaseException):
            raise chunk
        return chunk

    def stop(self) -> None:
        """Stop the thread; the client is gone."""
        self._stopped = True
        while not self._chunks.empty():  # the thread may be waiting for room
            self._chunks.get_nowait()

    def late(self) -> Unavailable:
        return Unavailable(
            f"the export was not received within {self._timeout:g} s",
            hint="Receive it faster, or export a part: GET /export with a `scope`",
        )

    def _run(self, export: _Lines, over: Callable[[], None]) -> None:
        try:
            export(self._take)
            self._put(None)
        except _Stopped:
            pass
        # Passed on to the coroutine that sends the response.
        except BaseException as error:
            with suppress(_Stopped):
                self._put(error)
        finally:
            over()

    def _take(self, lines: Iterator[bytes]) -> None:
        waiting: list[bytes] = []
        size = 0
        for line in lines:
            waiting.append(line)
            size += len(line)
            if size >= _CHUNK:
                self._put(b"".join(waiting))
                waiting, size = [], 0
        if waiting:
            self._put(b"".join(waiting))

    def _put(self, chunk: bytes | BaseException | None) -> None:
        if self._stopped or self._loop.is_closed():
            raise _Stopped
        putting = asyncio.run_coroutine_threadsafe(self._chunks.put(chunk), self._loop)
        try:
            putting.result(self.seconds_left)
        except TimeoutError:
            putting.cancel()
            self._stopped = True
            raise _Stopped from None
        if self._stopped:
            raise _Stopped


class _Stopped(Exception):  # not an error
    """The client no longer reads the export."""


class _ExportResponse(Response[bytes]):
    """A streamed export; it ends when the client disconnects."""

    def __init__(self, reader: _Reader, first: bytes | None) -> None:  # pyright: ignore[reportMissingSuperCall]
        self._reader = reader
        self._first = first

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        """Return the ASGI application that sends the response."""
        return self._send

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send_chunks(send))
        gone = asyncio.ensure_future(_disconnection(receive))
        try:
            await asyncio.wait((sending, gone), timeout=self._reader.seconds_left, return_when="FIRST_COMPLETED")
            if sending.done():
                await sending
            elif not gone.done():
                raise self._reader.late()
        finally:
            self._reader.stop()
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
            chunk = await self._reader.next_chunk()


async def _disconnection(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def remove_old_exports() -> None:
    """Remove temporary exports left behind by a version before 0.1.0, when the project was called Recollect."""
    for folder in Path(tempfile.gettempdir()).glob("recollect-export-*"):
        with suppress(OSError):
            if folder.is_dir() and not folder.is_symlink() and folder.stat().st_uid == os.getuid():
                shutil.rmtree(folder, ignore_errors=True)
