from __future__ import annotations

import asyncio
import gc
import threading
import weakref

import pytest

from memoranda.server.thread_pool import ThreadPool


def test_the_loop_gets_what_a_thread_gave_and_what_it_raised():
    async def work() -> None:
        loop = asyncio.get_running_loop()
        with ThreadPool(2) as threads:
            loop.set_default_executor(threads)
            assert await loop.run_in_executor(None, divmod, 7, 2) == (3, 1)
            with pytest.raises(ZeroDivisionError):
                await asyncio.to_thread(divmod, 7, 0)
            with pytest.raises(RuntimeError, match="StopIteration"):
                await asyncio.to_thread(next, iter(()))

    asyncio.run(work())


def test_as_many_threads_work_at_once_as_there_may_be_and_the_rest_waits():
    most, doors = 3, [threading.Event() for _ in range(5)]
    inside: list[int] = []

    def enter(number: int) -> int:
        inside.append(number)
        assert doors[number].wait(60)
        return number

    async def work() -> None:
        with ThreadPool(most) as threads:
            asked = [threads.submit(enter, number) for number in range(len(doors))]
            while len(inside) < most:
                await asyncio.sleep(0.001)
            assert sorted(inside) == [0, 1, 2]
            for door in doors:
                door.set()
            assert await asyncio.gather(*asked) == [0, 1, 2, 3, 4]

    asyncio.run(work())


def test_who_gives_up_waiting_harms_nobody_and_what_was_begun_is_done():
    door, done = threading.Event(), []

    def slow() -> None:
        assert door.wait(60)
        done.append("slow")

    async def work() -> None:
        with ThreadPool(1) as threads:
            waiting = threads.submit(slow)
            waiting.cancel()
            after = threads.submit(lambda: "after")
            door.set()
            assert await after == "after"
            assert done == ["slow"]
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(work())


def test_what_is_handed_over_before_the_end_is_done_before_the_end():
    done: list[int] = []

    async def work() -> None:
        with ThreadPool(1) as threads:
            for number in range(20):
                threads.submit(done.append, number)
        assert done == list(range(20))

    asyncio.run(work())


def test_a_thread_that_rests_holds_nothing_of_its_last_work():
    class Large:
        pass

    async def work() -> weakref.ref[Large]:
        with ThreadPool(1) as threads:
            large = Large()
            seen = weakref.ref(large)
            await threads.submit(lambda given: given, large)
            assert seen() is large
            del large
            await threads.submit(gc.collect)
            assert seen() is None
            return seen

    asyncio.run(work())
