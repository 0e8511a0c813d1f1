"""Time operations in turns, so that a machine that changes its speed affects all contenders alike."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from unittest.mock import patch

Operation = Callable[[int], object]
"""Something to be timed; it is given the number of the turn."""

Sampling = Callable[[], Sequence[float]]
"""Something that is timed inside: it gives the nanoseconds of each of its operations."""

Part = tuple[str, Any, str]
"""The name of a part, and a function that belongs to it: the object that it hangs on, and its name there."""
REST = "all the rest"


@dataclass(frozen=True)
class Times:
    """The nanoseconds that one contender took, one for each operation, round after round."""

    samples: tuple[int, ...]
    per_round: int

    @property
    def p50(self) -> float:
        """The median in microseconds."""
        return percentile(self.samples, 0.50) / 1000

    @property
    def p95(self) -> float:
        """The 95th percentile in microseconds."""
        return percentile(self.samples, 0.95) / 1000

    @property
    def round_medians(self) -> list[float]:
        """The median of each round in microseconds: how much the machine wandered."""
        step = self.per_round
        rounds = (self.samples[start : start + step] for start in range(0, len(self.samples), step))
        return [statistics.median(one) / 1000 for one in rounds]


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the sample that this share of all samples does not exceed."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def take_turns(
    contenders: Mapping[str, Operation], *, rounds: int, per_round: int, warm_up: int = 0
) -> dict[str, Times]:
    """Run the contenders round after round, each round beginning with the next one; return each one's times."""
    names = list(contenders)
    for name in names:
        for turn in range(warm_up):
            contenders[name](turn)
    samples: dict[str, list[int]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        start = warm_up + number * per_round
        for name in names[first:] + names[:first]:
            samples[name].extend(time_each(contenders[name], range(start, start + per_round)))
    return {name: Times(tuple(taken), per_round) for name, taken in samples.items()}


def sample_in_turns(
    samplings: Mapping[str, Sampling], *, rounds: int, warm_up: int, advance: Callable[[int], None]
) -> dict[str, Times]:
    """Take samples round after round, each round beginning with the next kind; return the times of each.

    `advance` is called after every round.
    """
    names = list(samplings)
    samples: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        for _ in range(warm_up):
            samplings[name]()
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            samples[name] += samplings[name]()
        advance(1)
    return {name: Times(tuple(taken), len(taken) // rounds) for name, taken in samples.items()}


def time_each(operation: Operation, turns: range) -> list[int]:
    """Run an operation once for each turn; return the nanoseconds of each."""
    clock = time.perf_counter_ns
    taken: list[int] = []
    for turn in turns:
        start = clock()
        operation(turn)
        taken.append(clock() - start)
    return taken


def spread_of_ratios(over: Times, under: Times) -> tuple[float, float]:
    """Return the lower and the upper quartile of the ratio of two contenders' medians, round by round."""
    ratios = [a / b for a, b in zip(over.round_medians, under.round_medians, strict=True)]
    if len(ratios) < 2:
        return ratios[0], ratios[0]
    lower, _, upper = statistics.quantiles(ratios, n=4)
    return lower, upper


def run_in_threads(operation: Operation, *, threads: int, turns: range) -> float:
    """Share the turns among threads that begin together; return the seconds until the last one is done."""
    barrier = threading.Barrier(threads + 1)
    failures: list[BaseException] = []

    def work(share: range) -> None:
        barrier.wait()
        try:
            for turn in share:
                operation(turn)
        except BaseException as failure:
            failures.append(failure)

    workers = [threading.Thread(target=work, args=(turns[number::threads],)) for number in range(threads)]
    for worker in workers:
        worker.start()
    barrier.wait()
    start = time.perf_counter()
    for worker in workers:
        worker.join()
    seconds = time.perf_counter() - start
    if failures:
        raise failures[0]
    return seconds


# --- where time goes --------------------------------------------------------------------------------------------


def share_out(
    parts: Sequence[Part], intervals: Sampling, *, listen: Callable[[Callable[[], None] | None], None], runs: int
) -> dict[str, float]:
    """Take intervals so often; return the microseconds of each part of one, and of all the rest.

    `listen` is given what is to be called at each end of an interval, and None when it is over. The figures are the
    means over the middle half of all intervals, from the quickest to the slowest.
    """
    taken: dict[str, int] = {part: 0 for part, _, _ in parts}
    found: list[dict[str, float]] = []
    seen: list[dict[str, int]] = []
    listen(lambda: seen.append(dict(taken)))
    try:
        with _watched(parts, taken):
            for _ in range(runs):
                seen.clear()
                for whole, (before, after) in zip(intervals(), pairwise(seen), strict=True):
                    shares = {part: after[part] - before[part] for part in taken}
                    found.append({**shares, REST: whole - sum(shares.values())})
    finally:
        listen(None)
    found.sort(key=lambda shares: sum(shares.values()))
    middle = found[len(found) // 4 : -len(found) // 4]
    return {part: statistics.fmean(one[part] for one in middle) / 1000 for part in found[0]}


@contextmanager
def _watched(parts: Sequence[Part], taken: dict[str, int]) -> Iterator[None]:
    """Add up how long the functions of each part take, those of other parts inside of them left out."""
    inside: list[int] = [0]
    clock = time.perf_counter_ns

    def watch(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*given: Any, **named: Any) -> Any:
            inside.append(0)
            start = clock()
            try:
                return function(*given, **named)
            finally:
                took = clock() - start
                taken[part] += took - inside.pop()
                inside[-1] += took

        return watched

    with ExitStack() as stack:
        for part, owner, name in parts:
            stack.enter_context(patch.object(owner, name, watch(part, getattr(owner, name))))
        yield
