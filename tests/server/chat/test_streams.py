"""Events of work in a thread: as they happen, with a sign of life where nothing does."""

from __future__ import annotations

import asyncio
import threading

import pytest

from recollect.errors import NotFound
from recollect.server import streams
from recollect.server.streams import stream_of


def test_a_quiet_stream_says_that_it_is_still_there(monkeypatch):
    monkeypatch.setattr(streams, "_QUIET", 0.05)
    go_on = threading.Event()

    def work(tell):
        tell(b"one")
        go_on.wait(60)
        tell(b"two")
        return "done"

    async def listen():
        stream = await stream_of(work)
        heard = []
        async for event in stream:
            heard.append(event)
            if len(heard) == 3:
                go_on.set()
        return heard, await stream.result()

    heard, result = asyncio.run(listen())
    assert (heard[0], heard[1], heard[-1], result) == (b"one", b": still here\n\n", b"two", "done")


def test_what_fails_before_the_first_event_is_raised_and_what_fails_later_ends_the_stream():
    def fails_at_once(tell):
        raise NotFound("nobody there")

    def fails_later(tell):
        tell(b"one")
        raise NotFound("gone")

    async def listen():
        with pytest.raises(NotFound, match="nobody"):
            await stream_of(fails_at_once)
        stream = await stream_of(fails_later)
        heard = [event async for event in stream]
        with pytest.raises(NotFound, match="gone"):
            await stream.result()
        return heard

    assert asyncio.run(listen()) == [b"one"]


def test_work_goes_on_when_nobody_listens():
    done = threading.Event()

    def work(tell):
        tell(b"one")
        tell(b"two")
        done.set()

    async def leave():
        stream = await stream_of(work)
        async for _ in stream:
            break

    asyncio.run(leave())
    assert done.wait(60)
