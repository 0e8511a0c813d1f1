"""Write measurements as tables, JSON and pictures."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any, Literal

from measuring import Times, spread_of_ratios
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

Sense = Literal["at least", "at most"]


@dataclass(frozen=True)
class Line:
    """One line of the table. Without a target it is there to be read, and is neither met nor missed."""

    what: str
    ours: str
    peer: str
    figure: str
    """What is held against the target, as text."""
    value: float = 0.0
    target: float | None = None
    sense: Sense = "at least"
    target_text: str = "–"
    details: dict[str, Any] = field(default_factory=dict)
    void: str = ""
    """Why the figure says nothing, whatever it is: a control moved that cannot move."""

    @property
    def met(self) -> bool | None:
        """Whether the target was reached; None where there is none, or where the figure is void."""
        if self.target is None or self.void:
            return None
        return self.value >= self.target if self.sense == "at least" else self.value <= self.target

    @property
    def verdict(self) -> str:
        """The word in the last column."""
        return "VOID" if self.void else {True: "met", False: "MISSED", None: "–"}[self.met]

    @property
    def share(self) -> float:
        """How many times the target was reached; below 1 it was missed."""
        if not self.target or not self.value:
            return 0.0
        return self.value / self.target if self.sense == "at least" else self.target / self.value


def ratio_line(
    what: str, ours: str, peer: str, value: float, *, target: float | None, sense: Sense, **details: Any
) -> Line:
    """Return a line whose figure is a ratio."""
    sign = "≥" if sense == "at least" else "≤"
    text = "–" if target is None else f"{sign} {target:g}×"
    return Line(what, ours, peer, f"{value:.2f}×", value, target, sense, text, details)


def compare(what: str, ours: Times, peer: Times, *, faster: bool, target: float | None = None) -> Line:
    """Return the line of a ratio of medians: how many times faster ours is, or how many times longer it takes."""
    over, under = (peer, ours) if faster else (ours, peer)
    return ratio_line(
        what,
        show_times(ours),
        show_times(peer),
        over.p50 / under.p50,
        target=target,
        sense="at least" if faster else "at most",
        quartiles_over_rounds=spread_of_ratios(over, under),
        microseconds={"ours": (ours.p50, ours.p95), "peer": (peer.p50, peer.p95)},
    )


def timed_line(what: str, times: Times, target: float | None = None, *, unit: str = "ms") -> Line:
    """Return the line of a median that must not exceed its target, if it has one; the minimum is printed beside it."""
    each = {"s": 1_000_000, "ms": 1_000, "µs": 1}[unit]
    least, middle, most = (value / each for value in (min(times.round_medians), times.p50, times.p95))
    ours = f"{middle:,.2f} {unit} (least {least:,.2f}, p95 {most:,.2f})"
    text = "–" if target is None else f"≤ {target:g} {unit}"
    return Line(what, ours, "–", f"{middle:,.2f} {unit}", middle, target, "at most", text)


def show_times(times: Times) -> str:
    """Return the median and the 95th percentile in microseconds."""
    return f"{times.p50:,.1f} µs (p95 {times.p95:,.1f})"


def print_table(console: Console, lines: Sequence[Line], title: str) -> None:
    """Print the lines, each void or missed one by name, and how many targets were met."""
    table = Table("what", "ours", "peer", "ratio", "target", "", title=title, title_justify="left")
    for line in lines:
        style = "bold red" if line.met is False else "dim" if line.met is None else ""
        table.add_row(line.what, line.ours, line.peer, line.figure, line.target_text, line.verdict, style=style)
    console.print(table)
    missed = [line for line in lines if line.met is False]
    for line in missed:
        console.print(f"MISSED: {line.what}: {line.figure}, target {line.target_text}", highlight=False)
    void = [line for line in lines if line.void]
    for line in void:
        console.print(f"VOID: {line.what}: {line.figure} says nothing: {line.void}", highlight=False)
    met = sum(line.met is True for line in lines)
    rest = f", {len(void)} void" if void else ""
    console.print(f"targets: {met} met, {len(missed)} missed{rest}", highlight=False)


def as_data(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Return the lines as plain values for JSON."""
    return [{**asdict(line), "met": line.met} for line in lines]


def draw(lines: Sequence[Line]) -> str:
    """Return a picture (SVG) of how far each target was reached: 1 is the target, longer is better.

    Bars longer than four targets are cut there; their figures say the rest.
    """
    drawn = [line for line in lines if line.share and not line.void]
    shares = [min(line.share, 4.0) for line in drawn]
    scale = 420 / max([*shares, 1.25])
    left = 20 + 7 * max((len(line.what) for line in drawn), default=0)
    width, height = left + 580, 34 * len(drawn) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        'font-size="13">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for number, (line, share) in enumerate(zip(drawn, shares, strict=True)):
        top = 34 * number + 10
        color = "#2a7f62" if line.met else "#b3382c"
        parts.append(f'<text x="{left - 10}" y="{top + 16}" text-anchor="end">{escape(line.what)}</text>')
        parts.append(f'<rect x="{left}" y="{top}" width="{share * scale:.1f}" height="22" fill="{color}"/>')
        label = escape(f"{line.figure} (target {line.target_text})")
        parts.append(f'<text x="{left + 6 + share * scale:.1f}" y="{top + 16}">{label}</text>')
    mark = left + scale
    bottom = height - 24
    parts.append(f'<line x1="{mark:.1f}" x2="{mark:.1f}" y1="4" y2="{bottom}" stroke="#333"/>')
    parts.append(f'<text x="{mark:.1f}" y="{height - 8}" text-anchor="middle">target</text></svg>')
    return "\n".join(parts) + "\n"


Curves = Mapping[str, Sequence[tuple[float, float]]]


def draw_curves(title: str, curves: Curves, *, across: str, up: str, linear: bool = False) -> str:
    """Return a picture (SVG) of curves with their names; both scales are logarithmic, or both linear from 0 on."""
    xs = sorted({x for points in curves.values() for x, _ in points})
    ys = [y for points in curves.values() for _, y in points]
    left, right, top, bottom = 80.0, 640.0, 50.0, 430.0
    across_at, up_at = (_round_marks(max(xs)), _round_marks(max(ys))) if linear else (xs, _powers(min(ys), max(ys)))
    between = _linear if linear else _logarithmic
    place_x = between(across_at[0], across_at[-1], left, right)
    place_y = between(up_at[0], up_at[-1], bottom, top)
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="860" height="490" font-family="sans-serif" font-size="13">',
        '<rect width="860" height="490" fill="white"/>',
        f'<text x="{left:.0f}" y="26" font-weight="bold">{escape(title)}</text>',
        f'<text x="{right:.0f}" y="478" text-anchor="end">{escape(across)}</text>',
        f'<text x="20" y="{top:.0f}">{escape(up)}</text>',
    ]
    for x in across_at:
        at = f"{place_x(x):.1f}"
        parts.append(f'<line x1="{at}" x2="{at}" y1="{top}" y2="{bottom}" stroke="#ddd"/>')
        parts.append(f'<text x="{at}" y="{bottom + 20}" text-anchor="middle">{x:,.0f}</text>')
    for y in up_at:
        at = f"{place_y(y):.1f}"
        parts.append(f'<line x1="{left}" x2="{right}" y1="{at}" y2="{at}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{at}" dy="4" text-anchor="end">{y:g}</text>')
    names = _spread_out({name: place_y(points[-1][1]) for name, points in curves.items()}, gap=17)
    for (name, points), color in zip(curves.items(), itertools.cycle(_COLORS), strict=False):
        path = " ".join(f"{place_x(x):.1f},{place_y(y):.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts.append(f'<text x="{right + 10}" y="{names[name]:.1f}" dy="4" fill="{color}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


_COLORS = ("#2a7f62", "#b3382c", "#2b5ea7", "#c07a12", "#6b4ba1", "#555555", "#0d8b93")


def _logarithmic(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """Return what puts a value between two places, by its logarithm."""
    span = math.log(high / low) or 1.0
    return lambda value: start + (end - start) * math.log(value / low) / span


def _linear(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """Return what puts a value between two places."""
    return lambda value: start + (end - start) * (value - low) / (high - low)


def _powers(low: float, high: float) -> list[float]:
    """Return the powers of ten from below the least value to above the greatest."""
    return [10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]


def _round_marks(high: float) -> list[float]:
    """Return four to ten round values from 0 to above the greatest one."""
    power = 10.0 ** math.floor(math.log10(high))
    step = next(power * part for part in (0.2, 0.5, 1.0) if high / (power * part) <= 10)
    return [step * number for number in range(math.ceil(high / step) + 1)]


def _spread_out(places: Mapping[str, float], *, gap: float) -> dict[str, float]:
    """Return the places, moved down where two names would cover each other."""
    moved: dict[str, float] = {}
    last = -math.inf
    for name, place in sorted(places.items(), key=lambda item: item[1]):
        last = moved[name] = max(place, last + gap)
    return moved


@contextmanager
def show_progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar while something long goes on; give what is to be called with each step."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda steps: progress.advance(task, steps)
