"""What is wrong with a value in, one error that lists all of it out.

A message names kinds and limits and never the value itself: it may be kept where the value must not be.
"""

from __future__ import annotations

import msgspec

from memoranda.errors import SchemaViolation
from memoranda.mashin.expression.semantics import kind, shown_kind

MOST = 50
"""Faults that are looked for in one value."""
_SHOWN = 10


class Fault(msgspec.Struct, frozen=True):
    """One thing that is wrong with a value: where, what, what was expected there, and what to do."""

    path: str
    message: str
    expected: str = ""
    hint: str = ""


class Faults:
    """Collects what is wrong with one value, with paths that begin at whatever is looked at."""

    __slots__ = ("dropping", "found")

    def __init__(self, *, dropping: bool) -> None:
        """Begin with none; `dropping` says whether what nobody declared is left out or refused."""
        self.found: list[Fault] = []
        self.dropping = dropping

    def add(self, message: str, *, expected: str = "", hint: str = "") -> None:
        """Note what is wrong with the value that is looked at."""
        self.found.append(Fault("", message, expected, hint))

    def wanted(self, what: str, value: object, *, hint: str = "") -> None:
        """Note that a value is of another kind than was wanted."""
        self.add(f"needs {what}, not {_shown(value)}", expected=what, hint=hint)

    def inside(self, step: str, since: int) -> None:
        """Put a step before the paths of what was found since there were that many: it was found below it."""
        for at in range(since, len(self.found)):
            fault = self.found[at]
            self.found[at] = Fault(step + fault.path, fault.message, fault.expected, fault.hint)

    @property
    def full(self) -> bool:
        """Whether there are so many that looking further says nothing new."""
        return len(self.found) >= MOST

    def violation(self, what: str) -> SchemaViolation:
        """Return the error that says all of it about something, such as the input."""
        listed = "; ".join(f"${fault.path} {fault.message}" for fault in self.found[:_SHOWN])
        more = len(self.found) - _SHOWN
        faults = tuple(Fault(f"${one.path}", one.message, one.expected, one.hint) for one in self.found)
        return SchemaViolation(
            f"{what} is refused: {listed}" + (f" (and {more} more)" if more > 0 else ""),
            hint=_advice(faults),
            path=faults[0].path,
            expected=faults[0].expected,
            faults=faults,
        )


def _advice(faults: tuple[Fault, ...]) -> str:
    """Return what to do about one of the faults, and which, if there are several; a name that is near comes first."""
    hinted = sorted((fault for fault in faults if fault.hint), key=lambda fault: not fault.hint.startswith("Did you"))
    if not hinted:
        return ""
    return hinted[0].hint if len(faults) == 1 else f"At {hinted[0].path}: {hinted[0].hint}"


def _shown(value: object) -> str:
    return f"`{type(value).__name__}`, which JSON has no word for" if kind(value) == "unknown" else shown_kind(value)
