"""Measured lines in; a table, JSON and a picture out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any, Literal

from measuring import Times
from rich.console import Console
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
    """Return a picture (SVG) of how far each target was reached: 1 is the target, longer is better."""
    drawn = [line for line in lines if line.share and not line.void]
    longest = max((line.share for line in drawn), default=1.0)
    scale = 420 / max(longest, 1.25)
    height = 34 * len(drawn) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="920" height="{height}" font-family="sans-serif" '
        'font-size="13">',
        f'<rect width="920" height="{height}" fill="white"/>',
    ]
    for number, line in enumerate(drawn):
        top = 34 * number + 10
        color = "#2a7f62" if line.met else "#b3382c"
        parts.append(f'<text x="340" y="{top + 16}" text-anchor="end">{escape(line.what)}</text>')
        parts.append(f'<rect x="350" y="{top}" width="{line.share * scale:.1f}" height="22" fill="{color}"/>')
        label = escape(f"{line.figure} (target {line.target_text})")
        parts.append(f'<text x="{356 + line.share * scale:.1f}" y="{top + 16}">{label}</text>')
    mark = 350 + scale
    bottom = height - 24
    parts.append(f'<line x1="{mark:.1f}" x2="{mark:.1f}" y1="4" y2="{bottom}" stroke="#333"/>')
    parts.append(f'<text x="{mark:.1f}" y="{height - 8}" text-anchor="middle">target</text></svg>')
    return "\n".join(parts) + "\n"
