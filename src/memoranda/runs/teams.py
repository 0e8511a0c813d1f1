"""Programs, and the sources of others, in; all of them ready, and those made here know one another, out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from memoranda.errors import UsageError
from memoranda.model.run import Language
from memoranda.model.text import quote
from memoranda.runs.sources import WORDS


class Program(Protocol):
    """A program that can call others of its language, by their names."""

    @property
    def name(self) -> str:
        """What others call it by."""
        ...

    def meet(self, others: Any, /) -> None:
        """Let it call these programs."""
        ...


P = TypeVar("P", bound=Program)


def gather(
    given: Iterable[P | str | os.PathLike[str]],
    make: Callable[[str | os.PathLike[str]], P],
    language: Language,
) -> list[P]:
    """Return the programs that can be called; those that are made here can call all of them."""
    team: list[P] = []
    made: list[P] = []
    for one in given:
        if isinstance(one, str | os.PathLike):
            made.append(make(one))
            team.append(made[-1])
        else:
            team.append(one)
    names = [program.name for program in team]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"there are two {WORDS[language]}s {quote(name)}", hint="Each is called by its name: give one another"
            )
    for program in made:
        program.meet(team)
    return team
