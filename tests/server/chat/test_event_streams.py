"""Events of work in a thread, sent to all listeners as they happen, with keep-alives in between."""

from __future__ import annotations

import asyncio
import threading

import pytest

from memoranda.errors import NotFound
from memoranda.server import event_streams
from memoranda.server.event_streams import ActiveStreams, start_stream


def test_a_quiet_stream_says_that_it_is_still_there(monkeypatch):
    monkeypatch.setattr(event_streams, "_QUIET", 0.05)
    go_on = threading.Event()

    def work(tell):
        tell(1, b"one")
        go_on.wait(60)
        tell(2, b"two")
        return "done"

    async def listen():
        stream = await start_stream(work)
        heard = []
        async for event in stream.after():
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
        tell(1, b"one")
        raise NotFound("gone")

    async def listen():
        with pytest.raises(NotFound, match="nobody"):
            await start_stream(fails_at_once)
        stream = await start_stream(fails_later)
        heard = [event async for event in stream.after()]
        with pytest.raises(NotFound, match="gone"):
            await stream.result()
        return heard

    assert asyncio.run(listen()) == [b"one"]


def test_work_goes_on_when_nobody_listens():
    done = threading.Event()

    def work(tell):
        tell(1, b"one")
        tell(2, b"two")
        done.set()

    async def leave():
        stream = await start_stream(work)
        async for _ in stream.after():
            break

    asyncio.run(leave())
    assert done.wait(60)


def test_all_who_listen_hear_what_comes_after_their_number():
    told = threading.Event()

    def work(tell):
        for number in (2, 4, 7):
            tell(number, b"%d " % number)
        told.wait(60)
        tell(9, b"9 ")

    async def listen():
        stream = await start_stream(work)
        listening = [asyncio.create_task(_all(stream.after(number))) for number in (-1, 2, 5, 9)]
        await asyncio.sleep(0.05)
        told.set()
        return await asyncio.gather(*listening), await _all(stream.after(4))

    async def _all(events):
        return b"".join([event async for event in events])

    assert asyncio.run(listen()) == ([b"2 4 7 9 ", b"4 7 9 ", b"7 9 ", b""], b"7 9 ")


def test_work_is_found_while_it_is_under_way_and_not_afterwards():
    go_on = threading.Event()

    def work(tell):
        tell(1, b"one")
        go_on.wait(60)
        return "done"

    def refused(tell):
        raise NotFound("nobody there")

    async def look():
        turns = ActiveStreams()
        with pytest.raises(NotFound):
            await turns.begin("a", refused)
        assert turns.find("a") is None
        stream = await turns.begin("a", work)
        assert turns.find("a") is stream and turns.find("b") is None
        go_on.set()
        assert await stream.result() == "done"
        await asyncio.sleep(0)
        assert turns.find("a") is None

    asyncio.run(look())
