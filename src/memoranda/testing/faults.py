"""A program in; proof that it survives each failure of its disk out."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from memoranda.errors import StorageError
from memoranda.testing.disk import ErrorName, FaultyDisk, Kind, Point


@dataclass(frozen=True)
class Trial:
    """One run of a sweep's body: a fresh directory, the fault that waits, and what was acknowledged."""

    directory: Path
    point: Point
    acknowledged: list[Any] = field(default_factory=list[Any])


@dataclass(frozen=True)
class Sweep:
    """What a sweep went through."""

    points: tuple[Point, ...]
    """The faults that fired, each checked."""
    raised: int
    """How many of them the body reported; the others it, or SQLite, could live with."""
    hits: Mapping[Kind, int]
    """How many calls of each kind were made to fail."""
    complete: bool
    """Whether every point was tried, rather than the first `most` of each series."""


def sweep(
    body: Callable[[Trial], object],
    check: Callable[[Trial], object],
    *,
    disk: FaultyDisk,
    prepare: Callable[[Trial], object] | None = None,
    errors: Sequence[ErrorName] = ("ioerr", "full"),
    expected: tuple[type[Exception], ...] = (apsw.Error, StorageError),
    most: int = 1000,
) -> Sweep:
    """Run the body failing its 1st, 2nd, 3rd… storage call, once and for good; check what is left after each.

    Each run has a directory of its own. The body opens what it needs there through `disk.vfs`, closes it, and
    adds to `trial.acknowledged` what it was told is done. Then the disk is healed, and `check` reopens and
    looks. A series ends with the run in which no fault fired; that one is checked as well.

    Args:
        body: What has to survive. It may raise an `expected` error; any other ends the sweep.
        check: Raises if something is wrong.
        disk: The disk that body and check use.
        prepare: Sets the directory up before the fault is armed.
        errors: Which errors to inject.
        expected: What a failing disk may make the body raise, and only if a fault fired.
        most: How many points to try for each error, transient and persistent.
    """
    points: list[Point] = []
    hits: Counter[Kind] = Counter()
    raised = 0
    complete = True
    for error, persistent in itertools.product(errors, (False, True)):
        for at in range(1, most + 1):
            point = Point(error, persistent, at)
            failed = _try(body, check, prepare, disk, point, expected)
            if not disk.fired:
                break
            points.append(point)
            hits.update(disk.hits)
            raised += failed
        else:
            complete = False
    return Sweep(tuple(points), raised, dict(hits), complete)


def _try(
    body: Callable[[Trial], object],
    check: Callable[[Trial], object],
    prepare: Callable[[Trial], object] | None,
    disk: FaultyDisk,
    point: Point,
    expected: tuple[type[Exception], ...],
) -> bool:
    """Run body and check once, in a fresh directory; say whether the body raised."""
    with tempfile.TemporaryDirectory(prefix="memoranda-fault-") as place:
        trial = Trial(Path(place), point)
        try:
            if prepare is not None:
                prepare(trial)
            disk.fail(point.at, persistent=point.persistent, error=point.error)
            failed = False
            try:
                body(trial)
            except expected:
                if not disk.fired:
                    raise
                failed = True
            finally:
                disk.heal()
            check(trial)
        except Exception as problem:
            problem.add_note(f"at {point}; calls made to fail: {disk.hits}")
            raise
    return failed
