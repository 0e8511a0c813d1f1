"""The table of what each store was seen to do, drawn from the tests that ran: a cell is never more than they showed.

A test counts in a row and a column: a promise of the conformance suites in the row of its class and the column that the
test class names as `backend`, any other test by `@pytest.mark.capability(row, backend=…)`, or by its fixture `backend`.
A cell without a passed test needs its reason in `ABSENT`, and a cell with one may not have any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest

from memoranda.testing.conformance import StoreConformance

COLUMNS = {"memory": "memory", "sqlite": "SQLite", "postgres": "PostgreSQL", "client": "REST client"}

PROMISES = tuple(base.__name__ for base in StoreConformance.__bases__ if base.__name__.endswith("Promises"))
PROOFS = (
    "governance",
    "state machine",
    "linearizability",
    "races",
    "processes",
    "crash",
    "fault sweep",
    "migration",
    "failover",
    "several servers",
    "pooler",
)
ROWS = PROMISES + PROOFS

_ONE_PROCESS = "it lives and ends with one process"
_BELOW = "it is a property of the store behind the server, which has a column of its own"
_NO_HANDLES = "it speaks of handles that a program hands out; over HTTP a key is the handle"
_ONE_MACHINE = "it is on one machine"
_ROUTES = "this suite is not run through the client; the routes have tests of their own (tests/server, tests/doors)"
_STORE_ITSELF = "it asks the store itself, which a client cannot"

ABSENT: Mapping[tuple[str, str], str] = {
    ("state machine", "memory"): "it is the reference that the others are compared with",
    ("linearizability", "memory"): "it takes one lock around each call",
    ("races", "memory"): "it takes one lock around each call",
    **{(row, "memory"): _ONE_PROCESS for row in ("processes", "crash", "migration", "failover", "several servers")},
    ("fault sweep", "memory"): "it calls nothing that can fail",
    ("pooler", "memory"): "it has no connections",
    ("failover", "sqlite"): _ONE_MACHINE,
    ("several servers", "sqlite"): _ONE_MACHINE,
    ("pooler", "sqlite"): "it has no connections",
    **{(row, "client"): _BELOW for row in PROOFS if row != "several servers"},
    **{
        (f"{name}Promises", "client"): _NO_HANDLES
        for name in ("Permission", "Quota", "Approval", "Session", "Run")
    },
    **{
        (f"{name}Promises", "client"): _ROUTES
        for name in (
            "Learn", "Context", "Origin", "Description", "LeakProbe", "OpenConversation", "Authority", "GuardPolicy",
            "Guard", "Rejection", "Quarantine", "Lineage", "Validation", "Containment", "Epoch", "Confirmation",
            "Influence",
        )
    },
    **{(f"{name}Promises", "client"): _STORE_ITSELF for name in ("Bound", "AtOnce", "Mark")},
}  # fmt: skip
"""Why a cell is empty."""

NEEDS_MORE = frozenset({("pooler", "postgres")})
"""Cells whose tests need a program that `make test` does not install: without it, that they were left out is enough."""

Cell = tuple[str, str]


def cells_of(item: pytest.Item) -> list[Cell]:
    """Return the rows and columns that a test counts in."""
    cells: list[Cell] = []
    for mark in item.iter_markers("capability"):
        named = mark.kwargs.get("backend")
        cells.append((mark.args[0], named or vars(item)["callspec"].params["backend"]))
    column = getattr(getattr(item, "cls", None), "backend", "")
    promise = _promise_of(item) if column and not cells else None
    if promise is not None:
        cells.append((promise, str(column)))
    for row, column in cells:
        if row not in ROWS or column not in COLUMNS:
            raise pytest.UsageError(f"{item.nodeid}: the table of capabilities has no row `{row}` or column `{column}`")
    return cells


def _promise_of(item: Any) -> str | None:
    """Return the name of the suite's class that a test comes from."""
    name = item.originalname
    return next((one.__name__ for one in item.cls.__mro__ if name in vars(one) and one.__name__ in PROMISES), None)


class Table:
    """How many tests of each cell passed, failed and were skipped."""

    def __init__(self, stats: Mapping[str, Iterable[Any]]) -> None:
        """Count the reports of a run, by the words of pytest's terminal reporter."""
        self._counts: dict[Cell, Counter[str]] = {}
        for outcome in ("passed", "failed", "error", "skipped", "xfailed"):
            for report in stats.get(outcome, ()):
                for name, cell in getattr(report, "user_properties", ()):
                    if name == "capability":
                        self._counts.setdefault(tuple(cell), Counter())[outcome] += 1

    def __bool__(self) -> bool:
        """Whether any test counted."""
        return bool(self._counts)

    def faults(self, *, whole: bool) -> list[str]:
        """Return, in words, the blanks without a reason if the run was a whole one, and reasons that are no more."""
        found: list[str] = []
        for row in ROWS:
            for column, title in COLUMNS.items():
                counts = self._counts.get((row, column), Counter())
                passed = counts["passed"] or (counts["skipped"] and (row, column) in NEEDS_MORE)
                if passed and (row, column) in ABSENT:
                    found.append(f"{row} on {title} passes: take its reason out of tests/support/capabilities.py")
                if whole and not passed and (row, column) not in ABSENT:
                    found.append(f"{row} on {title}: no test passed, and no reason is given")
        return found

    def lines(self) -> Iterator[str]:
        """Draw it, and below it the reasons of what is absent."""
        width = max(map(len, ROWS)) + 2
        yield " " * width + "".join(f"{title:>22}" for title in COLUMNS.values())
        numbers: dict[str, int] = {}
        for row in ROWS:
            cells = [self._text(row, column, numbers) for column in COLUMNS]
            if any(cells):
                yield f"{row:<{width}}" + "".join(f"{cell:>22}" for cell in cells)
        for reason, number in numbers.items():
            yield f"({number}) {reason}"

    def _text(self, row: str, column: str, numbers: dict[str, int]) -> str:
        counts = self._counts.get((row, column), Counter())
        words = {"passed": "", "failed": " FAILED", "error": " ERROR", "xfailed": " not yet", "skipped": " left out"}
        told = ", ".join(f"{counts[outcome]}{word}" for outcome, word in words.items() if counts[outcome])
        if told or (row, column) not in ABSENT:
            return told
        if not any(cell[0] == row for cell in self._counts):
            return ""  # the whole row was not run
        return f"({numbers.setdefault(ABSENT[row, column], len(numbers) + 1)})"
