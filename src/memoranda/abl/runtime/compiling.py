"""What an action needs to be compiled: the programs, names and blocks of the agent it belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from memoranda.abl.document import Branch
from memoranda.abl.runtime.plan import BranchPlan
from memoranda.abl.tree import Raw
from memoranda.abl.variables import Declarations
from memoranda.lang.expression.program import Expression
from memoranda.lang.template import CompiledTemplate


class Compiling(Protocol):
    """The compiler, as far as actions know it."""

    @property
    def declarations(self) -> Declarations:
        """What each name means."""
        ...

    def expression(self, raw: Raw) -> Expression:
        """Return the program of an expression or condition."""
        ...

    def guard(self, raw: Raw) -> Expression:
        """Return the program of a condition, and note the variables that it looks at."""
        ...

    def template(self, raw: Raw) -> CompiledTemplate:
        """Return the program of a template."""
        ...

    def named_template(self, raw: Raw) -> CompiledTemplate | None:
        """Return one of the agent's templates by its name."""
        ...

    def branches(self, branches: Iterable[Branch]) -> tuple[BranchPlan, ...]:
        """Return branches, of which the first that holds is taken."""
        ...

    def inside(self, item: str) -> Compiling:
        """Return a compiler for programs in which a name stands for one item of an array."""
        ...
