"""`memoranda tour`: the whole product in two minutes, on a memory that is gone afterwards, and without a network."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Generator
from contextlib import chdir, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill, indent
from typing import Annotated

import typer

from memoranda.cli.chapters import CHAPTERS, Chapter
from memoranda.cli.command import group
from memoranda.cli.output import Output

app = group()

_WIDTH = 80


@app.command("tour", epilog="\b\nExample:\n  memoranda tour --all | less")
def tour(
    straight: Annotated[bool, typer.Option("--all", help="Show it all without stopping between chapters.")] = False,
) -> None:
    """Show the whole product in two minutes, on a memory that is gone afterwards.

    Each command is shown and really carried out, in a folder that is removed at the end. On a terminal the tour stops
    after each chapter.
    """
    out = Output(json=False)
    stops = not straight and sys.stdin.isatty() and out.on_terminal
    with empty_folder():
        for number, chapter in enumerate(CHAPTERS, 1):
            out.say(f"\n{number} of {len(CHAPTERS)} · {chapter.title}", style="bold")
            _show(out, chapter)
            if stops and number < len(CHAPTERS) and not _goes_on():
                break
    out.say("")
    out.say("That was on a memory of its own, which is gone. Your own begins with `memoranda facts set KEY VALUE`")
    out.say("A server: `memoranda serve`; from a clone, one with sample data: `make serve`")
    out.say("What each command can do: `memoranda COMMAND --help`")


@contextmanager
def empty_folder() -> Generator[None]:
    """Stand in a folder of its own, in which nothing of the environment speaks of a memory."""
    before = {name: value for name, value in os.environ.items() if name.startswith("MEMORANDA_")}
    with TemporaryDirectory(prefix="memoranda-tour-") as folder, chdir(folder):
        for name in before:
            del os.environ[name]
        try:
            yield
        finally:
            os.environ.update(before)


def _show(out: Output, chapter: Chapter) -> None:
    out.say(fill(chapter.words, _WIDTH))
    for name, text in chapter.files:
        Path(name).write_text(text, encoding="utf-8")
        out.say("")
        out.say(f"{name}\n{indent(text.rstrip(), '  ')}", style="dim")
    for command in chapter.commands:
        if "{run}" in command:
            command = command.replace("{run}", _newest_run())
        out.say("")
        out.say(f"$ memoranda {command}", style="bold", indent="    ")
        _carry_out(shlex.split(command))


def _carry_out(arguments: list[str]) -> int:
    from memoranda.cli.app import run

    return run(arguments)


def _newest_run() -> str:
    """Return the id of the run that was begun last."""
    import memoranda

    with memoranda.open("memory.db") as memory:
        return memory.runs.list(limit=1)[0].id


def _goes_on() -> bool:
    """Wait for Enter; anything else ends the tour."""
    try:
        return not input("\n(Enter goes on, q ends) ").strip()
    except EOFError:
        return False
