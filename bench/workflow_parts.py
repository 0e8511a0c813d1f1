"""Show where the time of a step goes, as figures and as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from html import escape
from itertools import cycle

from measuring import Part, share_out
from workflow_rows import Row

from memoranda.governance import gate
from memoranda.governance.ledger import LedgerEnd
from memoranda.runs.recorder import Recorder
from memoranda.workflow.expressions import Template
from memoranda.workflow.runtime import task as doing

_PARTS: tuple[Part, ...] = (
    ("inputs and settings computed", Template, "value"),
    ("inputs checked, action called", doing, "carry_out"),
    ("output checked and copied", doing, "_encode_output"),
    ("permission", gate, "decide"),
    ("record: gate and store", Recorder, "flush"),
    ("record: hashes", LedgerEnd, "chain"),
)


def parts_of_a_step(row: Row, *, runs: int) -> dict[str, float]:
    """Run a row so often; return the microseconds of each part of one step, and of all the rest."""
    return share_out(_PARTS, row.intervals, listen=partial(setattr, row, "on_note"), runs=runs)


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
