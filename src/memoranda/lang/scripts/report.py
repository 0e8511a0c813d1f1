"""What running a file of tests gives: a case for each test, with the failure of those that did not pass."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

Failure = TypeVar("Failure")


class Case(msgspec.Struct, Generic[Failure], frozen=True):
    """One test that was run."""

    name: str
    line: int
    failure: Failure | None = None

    @property
    def passed(self) -> bool:
        """Whether everything was as expected."""
        return self.failure is None


class Report(msgspec.Struct, Generic[Failure], frozen=True):
    """All tests of one file, in their order."""

    path: str
    cases: tuple[Case[Failure], ...]

    @property
    def passed(self) -> int:
        """How many tests passed."""
        return sum(case.passed for case in self.cases)

    @property
    def failed(self) -> int:
        """How many did not."""
        return len(self.cases) - self.passed
