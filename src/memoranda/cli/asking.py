"""A question about something that cannot be undone in; a return for yes, an exit for no."""

from __future__ import annotations

import sys

import typer

from memoranda.cli.output import wrapped
from memoranda.cli.wording import visible
from memoranda.errors import UsageError


def confirm(question: str, *, yes: bool) -> None:
    """Return if the answer is yes; without a terminal to ask on, only `--yes` counts."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"nobody is here to answer: {question}", hint="Pass --yes to do it without asking")
    sys.stderr.write(wrapped(f"{visible(question)} [y/N]", sys.stderr) + " ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        sys.stderr.write("Nothing was changed.\n")
        raise typer.Exit(1)
