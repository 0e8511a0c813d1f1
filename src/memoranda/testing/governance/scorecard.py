"""Two scores for each system, and the tables that show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
from rich.table import Table

from memoranda.testing.governance.requirements import REQUIREMENTS, Outcome, Part, Requirement, Result, outcomes
from memoranda.testing.governance.system import MemorySystem

PARTS: tuple[Part, ...] = ("obligation", "negative")
SIGNS: dict[Result, str] = {"held": "✓", "failed": "✗", "unsupported": "–", "error": "error", "unmeasured": ""}
_STYLES: dict[Result, str] = {"held": "green", "failed": "red", "unsupported": "dim", "error": "bold red"}


class Score(msgspec.Struct, frozen=True):
    """How many parts of a kind were met, of how many that were measured."""

    held: int
    measured: int
    unsupported: int
    """Those that are not met because the system lacks an operation."""
    errors: int

    def __str__(self) -> str:
        """Return both numbers, and how many parts the system has no operation for."""
        lacking = f" ({self.unsupported} not supported)" if self.unsupported else ""
        return f"{self.held} of {self.measured}{lacking}"


class Scorecard(msgspec.Struct, frozen=True):
    """What became of each requirement on one system."""

    system: str
    outcomes: tuple[Outcome, ...]

    def score(self, part: Part, *, inside: bool = False) -> Score:
        """Return the score of one part; the two are never added.

        It is that of the scenarios, the same for every system, or of what tests of Memoranda show about its `inside`.
        """
        counted = Counter(
            one.results[part]
            for one in self.outcomes
            if part in one.results and (REQUIREMENTS[one.number].scenario is None) == inside
        )
        measured = counted.total() - counted["unmeasured"]
        return Score(counted["held"], measured, counted["unsupported"], counted["error"])

    @property
    def met(self) -> int:
        """How many requirements were met in all their parts."""
        return sum(one.holds for one in self.outcomes)

    def outcome(self, number: int) -> Outcome | None:
        """Return what became of a requirement."""
        return next((one for one in self.outcomes if one.number == number), None)


def scorecard(system: type[MemorySystem], results: Mapping[int, Result] | None = None) -> Scorecard:
    """Run every scenario on a system.

    `results` are those of the tests of requirements about the inside of Memoranda, by number; they are given for
    Memoranda alone.
    """
    known = results or {}
    made = (_with_result(one, known.get(one.number)) for one in outcomes(system))
    return Scorecard(system.describe(), tuple(made))


def _with_result(outcome: Outcome, result: Result | None) -> Outcome:
    one = REQUIREMENTS[outcome.number]
    if result is None or one.scenario is not None:
        return outcome
    return Outcome(number=one.number, results=dict.fromkeys(one.parts, result))


def cell(outcome: Outcome | None, part: Part) -> str:
    """Return a result as a sign; empty where it was not measured, or has no such part."""
    result = _result(outcome, part)
    return "" if result is None else SIGNS[result]


def _result(outcome: Outcome | None, part: Part) -> Result | None:
    return None if outcome is None else outcome.results.get(part)


def rich_table(cards: Sequence[Scorecard]) -> Table:
    """Return the table for a terminal: a line for each part of each requirement, then both scores."""
    table = Table("", "requirement", "part", *(card.system for card in cards), title="Governance", title_justify="left")
    for number in sorted(REQUIREMENTS):
        one = REQUIREMENTS[number]
        for place, part in enumerate(one.parts):
            head = (f"G{number}", one.title) if place == 0 else ("", "")
            table.add_row(*head, part, *(_style(card.outcome(number), part) for card in cards))
    table.add_section()
    for part in PARTS:
        table.add_row("", f"{part}s", part, *(str(card.score(part)) for card in cards), style="bold")
    return table


def _style(outcome: Outcome | None, part: Part) -> str:
    result = _result(outcome, part)
    sign = cell(outcome, part)
    style = "" if result is None else _STYLES.get(result, "")
    return f"[{style}]{sign}[/]" if sign and style else sign


def markdown_scores(cards: Sequence[Scorecard]) -> str:
    """Return both scores of each system as a table in Markdown."""
    lines = ["| system | obligations | negatives |", "|---|---|---|"]
    for card in cards:
        scores = (card.score(part) for part in PARTS)
        lines.append(f"| {card.system} | {' | '.join(map(str, scores))} |")
    return "\n".join(lines)


def markdown_table(cards: Sequence[Scorecard]) -> str:
    """Return what became of each requirement as a table in Markdown: obligation and negative in one cell."""
    lines = [
        f"| | requirement | {' | '.join(card.system for card in cards)} |",
        f"|---|---|{'---|' * len(cards)}",
    ]
    for number in sorted(REQUIREMENTS):
        one = REQUIREMENTS[number]
        cells = (_pair(one, card.outcome(number)) for card in cards)
        lines.append(f"| G{number} | {one.title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _pair(one: Requirement, outcome: Outcome | None) -> str:
    if one.counted:
        return "counted"
    signs = [cell(outcome, part) if part in one.parts else "·" for part in PARTS]
    return " ".join(signs) if any(sign not in ("", "·") for sign in signs) else ""


def failures(card: Scorecard) -> list[str]:
    """Return each requirement that was not met, and why."""
    return [
        f"G{one.number} {REQUIREMENTS[one.number].title}: {'; '.join(one.why) or 'its tests failed'}"
        for one in card.outcomes
        if not one.holds and not REQUIREMENTS[one.number].counted and "unmeasured" not in one.results.values()
    ]
