"""A row of steps in, where the time of one goes out, as figures and as a picture."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from html import escape
from itertools import cycle, pairwise
from typing import Any
from unittest.mock import patch

from workflow_rows import Row

from recollect.governance import gate
from recollect.governance.ledger import LedgerEnd
from recollect.runs.recording import Recorder
from recollect.workflow.expressions import Template
from recollect.workflow.runtime import doing

_PARTS: tuple[tuple[str, Any, str], ...] = (
    ("inputs and settings computed", Template, "value"),
    ("inputs checked, action called", doing, "carry_out"),
    ("output checked and copied", doing, "_kept"),
    ("permission", gate, "decide"),
    ("record: gate and store", Recorder, "flush"),
    ("record: hashes", LedgerEnd, "chain"),
)
REST = "all the rest"


def parts_of_a_step(row: Row, *, runs: int) -> dict[str, float]:
    """Run a row so often; return the microseconds of each part of one step, and of all the rest.

    They are the means over the middle half of all steps, from the quickest to the slowest.
    """
    taken: dict[str, int] = {part: 0 for part, _, _ in _PARTS}
    found: list[dict[str, int]] = []
    seen: list[dict[str, int]] = []
    row.on_note = lambda: seen.append(dict(taken))
    try:
        with _watched(taken):
            for _ in range(runs):
                seen.clear()
                for whole, (before, after) in zip(row.intervals(), pairwise(seen), strict=True):
                    parts = {part: after[part] - before[part] for part in taken}
                    found.append({**parts, REST: whole - sum(parts.values())})
    finally:
        row.on_note = None
    found.sort(key=lambda parts: sum(parts.values()))
    middle = found[len(found) // 4 : -len(found) // 4]
    return {part: statistics.fmean(step[part] for step in middle) / 1000 for part in found[0]}


@contextmanager
def _watched(taken: dict[str, int]) -> Iterator[None]:
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
        for part, owner, name in _PARTS:
            stack.enter_context(patch.object(owner, name, watch(part, getattr(owner, name))))
        yield


_COLORS = ("#2a7f62", "#2b5ea7", "#c07a12", "#b3382c", "#6b4ba1", "#0d8b93", "#9a9a9a")


def draw_stacks(title: str, stacks: Mapping[str, Mapping[str, float]]) -> str:
    """Return a picture (SVG): one bar for each stack of microseconds, its parts one behind the other, with names."""
    longest = max(sum(parts.values()) for parts in stacks.values())
    lines = sum(len(parts) for parts in stacks.values())
    height = 50 + 62 * len(stacks) + 20 * lines
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="780" height="{height}" font-family="sans-serif" '
        'font-size="13">',
        f'<rect width="780" height="{height}" fill="white"/>',
        f'<text x="20" y="26" font-weight="bold">{escape(title)}</text>',
    ]
    top = 56
    for name, parts in stacks.items():
        whole, left = sum(parts.values()), 20.0
        drawn.append(f'<text x="20" y="{top}">{escape(name)}: {whole:.0f} µs</text>')
        for number, ((part, taken), color) in enumerate(zip(parts.items(), cycle(_COLORS), strict=False)):
            width, line = 740 * taken / longest, top + 52 + 20 * number
            drawn.append(f'<rect x="{left:.1f}" y="{top + 8}" width="{width:.1f}" height="24" fill="{color}"/>')
            drawn.append(f'<rect x="20" y="{line - 11}" width="12" height="12" fill="{color}"/>')
            drawn.append(f'<text x="40" y="{line}">{escape(part)}: {taken:.1f} µs ({taken / whole:.0%})</text>')
            left += width
        top += 62 + 20 * len(parts)
    return "\n".join([*drawn, "</svg>"]) + "\n"
