"""How much one expression of a workflow may ask for."""

from __future__ import annotations

import msgspec

from memoranda.errors import LimitExceeded
from memoranda.lang.expression.bounds import exceeded
from memoranda.workflow.library import JException


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The longest, deepest and largest; reaching one is a diagnostic or a `LimitExceeded`."""

    source: int = 20_000
    """Characters of one expression."""
    depth: int = 200
    """Operators, calls and brackets inside one another, those of a program's own functions included."""
    seconds: float = 2.0
    """How long one evaluation may take on the clock of the wall."""
    work: int = 2_000_000
    """Operators that are evaluated and items that they give, all together."""
    items: int = 100_000
    """Items of one list, and values of one result, however they are nested."""
    text: int = 1_000_000
    """Characters of one text, and of all texts of one result."""


DEFAULT_BOUNDS = Bounds()


class Stop(JException):
    """A limit that was reached. Nothing in an expression can catch it: the library passes its own errors on."""

    def __init__(self, what: str, limit: float) -> None:
        """Say what grew too large."""
        JException.__init__(self, "D1012", -1, limit)
        self.what = what
        self.limit = limit

    def refusal(self) -> LimitExceeded:
        """Return it as the error that callers see."""
        if self.what == "time":
            return LimitExceeded(
                f"the expression did not end within {self.limit:g} seconds",
                hint="Look for a function that calls itself without end, or compute less at once",
                limit=self.limit,
                actual=self.limit,
            )
        return exceeded(self.what, int(self.limit))
