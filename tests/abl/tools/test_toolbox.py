"""Python functions as tools: the caller gets a value, whether they return, raise or never finish."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections import OrderedDict, namedtuple
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import PurePosixPath
from types import MappingProxyType, SimpleNamespace
from typing import Any
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel

from memoranda.abl.tools import toolbox as workers
from memoranda.abl.tools.outcome import Outcome, ToolFailure
from memoranda.abl.tools.toolbox import WORKERS, Workers


class Room(msgspec.Struct):
    number: int
    rate: Decimal


@dataclasses.dataclass
class Guest:
    name: str
    room: Room


class Stay(BaseModel):
    begins: date
    nights: tuple[int, ...]


class Kind(StrEnum):
    SINGLE = "single"


Place = namedtuple("Place", "city country")


def call(make_box: Any, function: Any, *arguments: Any, **options: Any) -> Outcome:
    return make_box(tools={"it": function}, **options).call("it", arguments, {})


# results


@pytest.mark.parametrize(
    ("result", "value"),
    [
        (None, None),
        ({"a": [1, 2.5, True, None, "é"]}, {"a": [1, 2.5, True, None, "é"]}),
        ((1, (2, 3)), [1, [2, 3]]),
        (Room(7, Decimal("99.50")), {"number": 7, "rate": 99.5}),
        (Decimal("12"), 12),
        (Guest("Ada", Room(7, Decimal(80))), {"name": "Ada", "room": {"number": 7, "rate": 80}}),
        (
            [Stay(begins=date(2027, 5, 3), nights=(1, 2))],
            [{"begins": "2027-05-03", "nights": [1, 2]}],
        ),
        (datetime(2027, 5, 3, 9, 30, tzinfo=UTC), "2027-05-03T09:30:00+00:00"),
        (timedelta(minutes=2), 120.0),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Kind.SINGLE, "single"),
        (Place("Porto", "Portugal"), {"city": "Porto", "country": "Portugal"}),
        (OrderedDict(b=1, a=Kind.SINGLE), {"b": 1, "a": "single"}),
        (MappingProxyType({"a": (1,)}), {"a": [1]}),
        (PurePosixPath("a/b"), "a/b"),
    ],
    ids=str,
)
def test_a_result_becomes_plain_values(make_box, result, value):
    outcome = call(make_box, lambda: result)
    assert outcome == Outcome(value)
    assert type(outcome.value) is type(value)


def generator() -> Any:
    yield 1


async def async_generator() -> Any:
    yield 1


def cycle() -> Any:
    ring: list[Any] = []
    ring.append({"again": (ring,)})
    return ring


def cycle_of_lists() -> Any:
    ring: list[Any] = []
    ring.append((ring,))
    return ring


def plain_cycle() -> Any:
    ring: list[Any] = []
    ring.append(ring)
    return ring


@pytest.mark.parametrize(
    ("garbage", "said"),
    [
        (generator, "generator"),
        (async_generator, "async_generator"),
        (lambda: {1, 2}, "set"),
        (lambda: {"at": [b"raw"]}, "$.at[0] is bytes"),
        (lambda: float("nan"), "nan"),
        (lambda: {"x": Decimal("NaN")}, "nan at $.x"),
        (cycle, "nested more than 64 deep"),
        (cycle_of_lists, "nested more than 64 deep"),
        (plain_cycle, "nested more than 64 deep"),
        (lambda: "x" * 1_100_000, "1,048,576"),
        (lambda: object(), "object"),
        (lambda: lambda: 1, "function"),
        (lambda: Room, "`<class"),
        (lambda: {1: "a"}, "`1`"),
        (lambda: 2**70, "64 bits"),
        (lambda: "\ud800", "surrogate"),
        (lambda: "a\0b", "NUL"),
        (lambda: SimpleNamespace(a=1), "SimpleNamespace"),
    ],
)
def test_garbage_is_a_failure_that_says_what_it_was(make_box, garbage, said):
    failure = call(make_box, garbage).failure
    assert failure is not None and failure.kind == "tool_error"
    assert "cannot be stored" in failure.message and said in failure.message
    assert failure.subtype in ("InvalidValue", "LimitExceeded")


def test_what_a_tool_changes_later_does_not_reach_the_caller(make_box):
    kept = {"free": [1, 2]}
    value = call(make_box, lambda: kept).value
    kept["free"].append(3)
    assert value == {"free": [1, 2]}
    value["free"].clear()
    assert kept == {"free": [1, 2, 3]}


# failures


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def raising(error: BaseException) -> Any:
    def tool() -> None:
        raise error

    return tool


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ValueError("no rooms left"), ToolFailure("tool_error", "no rooms left", "ValueError")),
        (TimeoutError("upstream"), ToolFailure("tool_error", "upstream", "TimeoutError")),
        (KeyError(), ToolFailure("tool_error", "KeyError", "KeyError")),
        (SystemExit(3), ToolFailure("tool_error", "3", "SystemExit")),
        (KeyboardInterrupt(), ToolFailure("tool_error", "KeyboardInterrupt", "KeyboardInterrupt")),
        (asyncio.CancelledError(), ToolFailure("tool_error", "CancelledError", "CancelledError")),
        (Unspeakable(), ToolFailure("tool_error", "Unspeakable", "Unspeakable")),
        (ValueError("half \ud800\0"), ToolFailure("tool_error", "half ?", "ValueError")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_exception_is_a_failure_with_its_text_and_class(make_box, error, failure):
    assert call(make_box, raising(error)).failure == failure
    # The thread that ran it is still there for the next call.
    assert call(make_box, lambda: "well").value == "well"


def test_a_long_exception_is_cut(make_box):
    failure = call(make_box, raising(ValueError("x" * 1_000_000))).failure
    assert failure is not None and len(failure.message) == 2_000


def test_a_function_that_does_not_take_what_is_declared_is_a_failure(make_box):
    box = make_box("find(city: string)", {"find": lambda town: town})
    failure = box.call("find", ["Porto"], {}).failure
    assert failure is not None and failure.subtype == "TypeError" and "city" in failure.message


def test_a_tool_that_was_declared_and_not_given_says_so(make_box):
    box = make_box("find(city: string)\nbook(room: number)", {"book": lambda room: room})
    assert (box.knows("find"), box.knows("book"), box.knows("cancel")) == (False, True, False)
    failure = box.call("find", ["Porto"], {}).failure
    assert failure == ToolFailure(
        "tool_error", "the tool `find` is declared, but has no function: pass tools={'find': …}"
    )
    assert list(box.schema("find")["properties"]) == ["city"]


def test_a_tool_that_nobody_knows_says_which_was_meant(make_box):
    box = make_box(tools={"book_room": lambda: None})
    failure = box.call("book_rom", [], {}).failure
    assert failure is not None and "unknown tool `book_rom`. Did you mean `book_room`?" == failure.message
    assert box.knows("book_room") and not box.knows("book_rom")
    assert box.schema("book_rom")["properties"] == {}


# time


def test_a_tool_that_is_late_is_given_up_and_others_are_not_held_up(make_box):
    release = threading.Event()
    box = make_box("slow()\n  timeout: 40\nquick()", {"slow": release.wait, "quick": lambda: "here"})
    before = WORKERS.stuck
    begun = time.perf_counter()
    outcomes = [box.call("slow", [], {}) for _ in range(3)]
    assert time.perf_counter() - begun < 5
    late = ToolFailure("tool_timeout", "the tool `slow` did not answer within 0.04 s")
    assert outcomes and all(outcome.failure == late for outcome in outcomes)
    assert WORKERS.stuck == before + 3
    assert box.call("quick", [], {}).value == "here"
    release.set()
    until(lambda: WORKERS.stuck == before)
    assert box.call("quick", [], {}).value == "here"


def until(condition: Any, seconds: float = 5.0) -> None:
    end = time.perf_counter() + seconds
    while not condition():
        assert time.perf_counter() < end, "it did not come to that"
        time.sleep(0.005)


def test_calls_run_at_the_same_time(make_box):
    meeting = threading.Barrier(8, timeout=5)
    box = make_box(tools={"meet": lambda: meeting.wait() >= 0})
    outcomes: list[Outcome] = []
    threads = [threading.Thread(target=lambda: outcomes.append(box.call("meet", [], {}))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [outcome.value for outcome in outcomes] == [True] * 8


def test_a_tool_may_call_tools(make_box):
    box = make_box(tools={"inner": lambda depth: box.call("inner", [depth - 1], {}).value + 1 if depth else 0})
    assert box.call("inner", [20], {}).value == 20


def test_too_many_calls_that_never_return_are_not_followed_by_more():
    release = threading.Event()
    few = Workers(most_stuck=2)
    assert [few.run(release.wait, timeout=0.01).ending for _ in range(3)] == ["late", "late", "stuck"]
    release.set()
    until(lambda: few.stuck == 0)
    assert few.run(lambda: 7, timeout=5) == ("done", 7, None)


def test_idle_threads_do_not_pile_up():
    def named() -> int:
        return sum(thread.name == "memoranda-tool" for thread in threading.enumerate())

    pool, before = Workers(), named()
    meeting = threading.Barrier(20, timeout=5)
    threads = [threading.Thread(target=pool.run, args=(meeting.wait,), kwargs={"timeout": 5}) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: named() - before <= workers.MOST_IDLE)


def test_a_stuck_tool_does_not_keep_the_process_from_ending():
    program = textwrap.dedent(
        """
        import time
        from memoranda.abl.tools.toolbox import Toolbox
        box = Toolbox({"hang": lambda: time.sleep(60)}, (), defaults=None, templates=None, timeout=0.05)
        print(box.call("hang", [], {}).failure.kind)
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr, done.returncode) == ("tool_timeout\n", "", 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_gets_threads_of_its_own():
    program = textwrap.dedent(
        """
        import os
        from memoranda.abl.tools.toolbox import Toolbox
        box = Toolbox({"add": lambda a, b: a + b}, (), defaults=None, templates=None, timeout=5)
        assert box.call("add", [1, 2], {}).value == 3
        child = os.fork()
        if not child:
            os._exit(box.call("add", [1, 2], {}).value or 99)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert (done.stderr, done.returncode) == ("", 0)


def test_the_context_of_the_caller_is_there_and_stays_the_callers(make_box):
    who = contextvars.ContextVar("who", default="nobody")

    def ask() -> str:
        seen = who.get()
        who.set("the tool")
        return seen

    async def ask_later() -> str:
        await asyncio.sleep(0)
        return ask()

    box = make_box(tools={"ask": ask, "later": ask_later})
    who.set("ada")
    assert [box.call(tool, [], {}).value for tool in ("ask", "later")] == ["ada", "ada"]
    assert who.get() == "ada"


# coroutines


def test_a_coroutine_is_awaited(make_box):
    async def add(one, two):
        await asyncio.sleep(0)
        return one + two

    box = make_box(tools={"add": add, "wrapped": lambda: add(1, 1)})
    assert box.call("add", [1, 2], {}).value == 3
    assert box.call("wrapped", [], {}).value == 2


def test_a_coroutine_is_awaited_while_the_caller_has_a_loop(make_box):
    async def inner():
        await asyncio.sleep(0)
        return "done"

    async def outer():
        return make_box(tools={"inner": inner}).call("inner", [], {})

    assert asyncio.run(outer()).value == "done"


def test_a_late_coroutine_is_cancelled_and_its_thread_comes_back(make_box):
    cancelled = threading.Event()

    async def hang():
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    before = WORKERS.stuck
    failure = call(make_box, hang, timeout=0.05).failure
    assert failure is not None and failure.kind == "tool_timeout"
    assert cancelled.wait(5)
    until(lambda: WORKERS.stuck == before)


def test_an_exception_in_a_coroutine_is_a_failure(make_box):
    async def fail():
        raise LookupError("gone")

    assert call(make_box, fail).failure == ToolFailure("tool_error", "gone", "LookupError")


# retries


def test_a_tool_is_tried_again_as_often_as_declared(make_box, pauses):
    answers: list[Any] = [ValueError("busy"), ValueError("still busy"), "free"]

    def ask():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    box = make_box("ask()\n  retry: 2\n  retry_delay: 250", {"ask": ask})
    assert box.call("ask", [], {}) == Outcome("free")
    assert pauses == [0.25, 0.25]


def test_the_last_failure_stands_when_no_try_is_left(make_box, pauses):
    calls: list[int] = []
    box = make_box("ask()\n  retry: 1", {"ask": lambda: calls.append(1) or 1 / 0})
    assert box.call("ask", [], {}).failure == ToolFailure("tool_error", "division by zero", "ZeroDivisionError")
    assert (len(calls), pauses) == (2, [0.0])


def test_wrong_arguments_are_not_tried_again(make_box, pauses):
    calls: list[int] = []
    box = make_box("ask(n: number)\n  retry: 5", {"ask": lambda n: calls.append(n)})
    assert box.call("ask", [], {}).failure.kind == "validation_error"
    assert (calls, pauses) == ([], [])
    assert box.call("ask", [1], {}).failure is None
    assert calls == [1]


# how a function takes its arguments


def test_arguments_by_place_reach_functions_that_take_them_only_so(make_box):
    def pair(one, two, /, *, sign="-"):
        return f"{one}{sign}{two}"

    tools = {"all": lambda *given: list(given), "first": lambda head, *rest: [head, list(rest)], "pair": pair}
    box = make_box("", tools)
    assert box.call("all", [1, "two"], {}).value == [1, "two"]
    assert box.call("all", [], {}).value == []
    assert box.call("first", [1, 2, 3], {}).value == [1, [2, 3]]
    assert box.call("first", [1], {}).value == [1, []]
    assert box.call("pair", ["a", "b"], {"sign": "+"}).value == "a+b"
    assert box.call("pair", [], {"one": "a", "two": "b"}).value == "a-b"
    assert box.call("pair", ["a", "b", "+", "more"], {}).failure.kind == "validation_error"


def test_a_declared_tool_may_be_a_function_that_takes_everything_by_place(make_box):
    declared = "all(city: string, nights: number)\npair(city: string, nights: number)"
    tools = {"all": lambda *given: list(given), "pair": lambda city, nights, /: [nights, city]}
    box = make_box(declared, tools)
    assert box.call("all", ["Porto", "2"], {}).value == ["Porto", 2]
    assert box.call("all", [], {"nights": 2, "city": "Porto"}).value == ["Porto", 2]
    assert box.call("pair", ["Porto"], {"nights": "3"}).value == [3, "Porto"]
    assert box.call("all", ["Porto", 2, 3], {}).failure.kind == "validation_error"
