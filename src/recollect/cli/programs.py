"""Program files that are named on the command line in; what they are, and every fault of them as text, out."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from recollect.cli.command import Desk
from recollect.errors import SourceError, UsageError
from recollect.model.text import quote

AGENTS = (".abl", ".agent.yaml", ".agent.yml")
SCRIPTS = (".tests.yaml", ".tests.yml")
MACHINES = (".mashin",)

Tools = Annotated[
    str | None,
    typer.Option("--tools", metavar="MODULE", help="A Python file or module whose public functions are the tools."),
]
Model = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", help="The model to ask, such as openai:gpt-5.2."),
]
Machines = Annotated[
    list[str] | None,
    typer.Option("--machines", metavar="FILE", help="A machine that can be called; repeat for more."),
]


def require_ending(name: str, *endings: str) -> None:
    """Refuse a file that is no program of the kind a command works on."""
    if not name.endswith(endings):
        raise UsageError(
            f"{quote(name)} is no program that this command knows", hint=f"It works on {', '.join(endings)}", path=name
        )


def refuse_options(given: Mapping[str, Any], *, because: str, hint: str) -> None:
    """Refuse options that mean nothing to the program at hand; those that were not given are None, False or empty."""
    for option, value in given.items():
        if value is not None and value is not False and value != []:
            raise UsageError(f"{option} is not for {because}", hint=hint, option=option)


@contextmanager
def showing_faults(desk: Desk) -> Generator[None]:
    """Show a program that cannot be used with all its faults, and leave with 1: the call was right, the text is not."""
    try:
        yield
    except SourceError as error:
        if desk.out.json:
            desk.out.failure(error)
        else:
            desk.out.remark(error.report)
        raise typer.Exit(1) from None
