"""Program files that are named on the command line in; what they are, and every fault of them as text, out."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated

import typer

from recollect.cli.command import Desk
from recollect.errors import SourceError, UsageError
from recollect.model.text import quote

AGENTS = (".abl", ".agent.yaml", ".agent.yml")
SCRIPTS = (".tests.yaml", ".tests.yml")

Tools = Annotated[
    str | None,
    typer.Option("--tools", metavar="MODULE", help="A Python file or module whose public functions are the tools."),
]
Model = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", help="The model for reasoning steps, such as openai:gpt-5.2."),
]


def require_ending(name: str, *endings: str) -> None:
    """Refuse a file that is no program of the kind a command works on."""
    if not name.endswith(endings):
        raise UsageError(
            f"{quote(name)} is no program that this command knows", hint=f"It works on {', '.join(endings)}", path=name
        )


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
