"""What many clients did at once: each call as its client saw it, written down, merged, saved and loaded."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

Kind = Literal["read", "write", "cas", "delete"]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One call as its client saw it: what it asked, what came back, and when both happened."""

    client: str
    key: str
    kind: Kind
    argument: Any = None
    """What a write or compare-and-set wanted to store."""
    expected: int | None = None
    """The version a compare-and-set, or a delete that has one, wanted to see; 0 for nothing there."""
    outcome: Literal["ok", "conflict"] = "ok"
    """`conflict`: another version than the expected one was seen, and nothing was changed."""
    result: Any = None
    """What a read saw, None for nothing; whether a delete found something, None if it did not say."""
    version: int | None = None
    """The version read (0: nothing there), written, or met in a conflict; None if the answer did not say."""
    called: int
    returned: int | None = None
    """None: no answer came (a timeout, a crash). It may have happened any time after the call, or never."""


class Call:
    """A call that is under way: say `ok` or `conflict` as soon as the answer is there, or `failed`."""

    def __init__(self) -> None:
        """Begin without an answer."""
        self.answer: dict[str, Any] = {}
        self.happened = True

    def ok(self, result: Any = None, *, version: int | None = None) -> None:
        """Note that the call did what it says."""
        self.answer = {"outcome": "ok", "result": result, "version": version, "returned": time.monotonic_ns()}

    def conflict(self, version: int | None = None) -> None:
        """Note that another version was found than the expected one, and which."""
        self.answer = {"outcome": "conflict", "version": version, "returned": time.monotonic_ns()}

    def failed(self) -> None:
        """Note that the call certainly changed nothing, as when it is refused: it is left out."""
        self.happened = False


class Recorder:
    """Writes down calls from many threads, stamped with a clock that all processes of a Linux machine share.

    >>> recorder = Recorder()
    >>> with recorder.call("ada", "city", "write", argument="Paris") as call:
    ...     call.ok(version=1)
    >>> recorder.history[0].version
    1
    """

    def __init__(self) -> None:
        """Begin with an empty history."""
        self._lock = threading.Lock()
        self._history: list[Operation] = []

    @property
    def history(self) -> list[Operation]:
        """The calls so far that are over."""
        with self._lock:
            return list(self._history)

    @contextmanager
    def call(
        self, client: str, key: str, kind: Kind, *, argument: Any = None, expected: int | None = None
    ) -> Generator[Call]:
        """Record the call made in this block. Without an answer, as after an exception, it is a "maybe"."""
        call = Call()
        called = time.monotonic_ns()
        try:
            yield call
        finally:
            if call.happened:
                done = Operation(
                    client=client,
                    key=key,
                    kind=kind,
                    argument=argument,
                    expected=expected,
                    called=called,
                    **call.answer,
                )
                with self._lock:
                    self._history.append(done)


def merge(*histories: Iterable[Operation]) -> list[Operation]:
    """Put histories of several processes of one machine together, in the order of their calls."""
    return sorted((each for history in histories for each in history), key=when_called)


def save(history: Iterable[Operation], path: Path) -> None:
    """Write a history as JSON lines."""
    path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in history))


def load(path: Path) -> list[Operation]:
    """Read a history that was saved."""
    return msgspec.json.Decoder(Operation).decode_lines(path.read_bytes())


def when_called(operation: Operation) -> int:
    """Return when an operation was called: the order in which a history is read."""
    return operation.called
