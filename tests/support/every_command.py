"""List every command of the command line by its full name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.main import get_group

from memoranda.cli.app import app


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield every command that does something, by its full name."""
    if not hasattr(command, "list_commands"):
        yield " ".join(path), command
        return
    for name in command.list_commands(None):
        yield from walk(command.get_command(None, name), (*path, name))


ALL = dict(walk(get_group(app)))
