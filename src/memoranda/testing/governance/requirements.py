"""The requirements, the checks that a scenario makes, and how they are judged.

A requirement has two parts, or one of them: an obligation, something that must be there, and a negative, something that
must not. They are counted apart. A store that returns nothing meets every negative, so a negative counts only if
everything that had to be there in the same scenario was there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from memoranda.testing.governance.system import MemorySystem, Refused, Unsupported

Part = Literal["obligation", "negative"]
Result = Literal["held", "failed", "unsupported", "error", "unmeasured"]
"""What became of a part: it held; it did not; the system lacks an operation that it needs; a probe broke; or it is
about the inside of Memoranda, and was not measured here. Only the first is a point."""

T = TypeVar("T")


class Checks:
    """What a scenario found out: what was there, and what was there that must not be."""

    def __init__(self) -> None:
        """Start without findings."""
        self.missing: list[str] = []
        self.present: list[str] = []
        self.positives = 0
        self.obligations = 0
        self.negatives = 0

    def control(self, holds: object, what: str) -> None:
        """Note whether something ordinary works: without it, an absence says nothing."""
        self.positives += 1
        if not holds:
            self.missing.append(what)

    def must(self, holds: object, what: str) -> None:
        """Note whether what the requirement asks for is there."""
        self.obligations += 1
        self.control(holds, what)

    def must_not(self, present: object, what: str) -> None:
        """Note whether what the requirement forbids is there."""
        self.negatives += 1
        if present:
            self.present.append(what)

    def is_refused(self, call: Callable[[], object]) -> bool:
        """Return whether the system declined a call."""
        try:
            call()
        except Refused:
            return True
        return False

    def result(self, part: Part) -> Result:
        """Return whether a part held; one that nothing was checked for did not."""
        if part == "obligation":
            return "held" if self.obligations and not self.missing else "failed"
        is_shown = self.negatives and self.positives and not self.missing
        return "held" if is_shown and not self.present else "failed"


Scenario = Callable[[MemorySystem, Checks], None]


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """One requirement: what must and must not be, and the scenario that shows it."""

    number: int
    title: str
    obligation: str = ""
    negative: str = ""
    scenario: Scenario | None = None
    """Without one, it is about the inside of Memoranda, and shown by the tests that have its number in their names."""
    counted: bool = False
    """Whether it is reported as a count with a model, and never as met."""

    @property
    def name(self) -> str:
        """Its number as the names of tests have it."""
        return f"g{self.number}"

    @property
    def parts(self) -> tuple[Part, ...]:
        """Which parts it has."""
        return (*(("obligation",) if self.obligation else ()), *(("negative",) if self.negative else ()))


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a requirement on one system: a result for each of its parts, and why."""

    number: int
    results: dict[Part, Result]
    why: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether all of it held."""
        return all(one == "held" for one in self.results.values())


REQUIREMENTS: dict[int, Requirement] = {}
"""Every requirement by its number, once `memoranda.testing.governance` is imported."""


def requirement(number: int, title: str, *, obligation: str = "", negative: str = "") -> Callable[[Scenario], Scenario]:
    """Register a scenario as that of a requirement."""

    def register(scenario: Scenario) -> Scenario:
        add(Requirement(number=number, title=title, obligation=obligation, negative=negative, scenario=scenario))
        return scenario

    return register


def add(one: Requirement) -> None:
    """Register a requirement; a number is given once."""
    if one.number in REQUIREMENTS:
        raise ValueError(f"g{one.number} is a requirement already")
    REQUIREMENTS[one.number] = one


def run(one: Requirement, system: type[MemorySystem]) -> Outcome:
    """Run the scenario of a requirement on a new system; a probe that breaks is an error, and no point."""
    if one.scenario is None:
        return _outcome(one, "unmeasured", "shown by tests of Memoranda itself")
    with tempfile.TemporaryDirectory(prefix="governance-") as folder:
        return _run(one, one.scenario, system, Path(folder))


def _run(one: Requirement, scenario: Scenario, kind: type[MemorySystem], folder: Path) -> Outcome:
    checks = Checks()
    opened: list[MemorySystem] = []
    try:
        opened.append(kind(folder))
        scenario(opened[0], checks)
    except Unsupported as missing:
        return _outcome(one, "unsupported", f"no `{missing}`")
    except Refused as refusal:
        return _outcome(one, "failed", f"refused: {refusal}")
    except Exception as error:  # a system that is measured may raise anything: that is its result, never ours
        return _outcome(one, "error", f"{type(error).__name__}: {error}"[:300])
    finally:
        for system in opened:
            system.close()
    why = (*(f"missing: {what}" for what in checks.missing), *(f"present: {what}" for what in checks.present))
    return Outcome(number=one.number, results={part: checks.result(part) for part in one.parts}, why=why)


def _outcome(one: Requirement, result: Result, why: str) -> Outcome:
    return Outcome(number=one.number, results=dict.fromkeys(one.parts, result), why=(why,))


def outcomes(system: type[MemorySystem]) -> Iterator[Outcome]:
    """Run every scenario on a system, in the order of their numbers."""
    for number in sorted(REQUIREMENTS):
        yield run(REQUIREMENTS[number], system)
