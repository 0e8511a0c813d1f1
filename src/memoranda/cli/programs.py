"""Program files on the command line: their kinds, their options, and their diagnostics."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal, NamedTuple

import typer

from memoranda.cli.arguments import read_file
from memoranda.cli.command import Desk, option
from memoranda.errors import SourceError, UsageError
from memoranda.model.text import quote

AGENTS = (".abl", ".agent.yaml", ".agent.yml")
SCRIPTS = (".tests.yaml", ".tests.yml")
MACHINES = (".mashin",)
WORKFLOWS = (".yaml", ".yml")

Kind = Literal["an agent", "a file of tests", "a machine", "a workflow"]

_KINDS: dict[Kind, tuple[str, ...]] = {
    "an agent": AGENTS,
    "a file of tests": SCRIPTS,
    "a machine": MACHINES,
    "a workflow": WORKFLOWS,
}
"""File endings by kind; the first match counts, so that any other YAML file is a workflow."""

Tools = Annotated[
    str | None,
    option(
        "MODULE",
        "A Python file or module with the tools of an agent (its public functions) or the actions of a workflow.",
    ),
]
Model = Annotated[str | None, option("NAME", "The model, such as openai:gpt-5.2.")]
Machines = Annotated[list[str] | None, option("FILE", "A machine that can be called; repeatable.")]
Workflows = Annotated[list[str] | None, option("FILE", "A workflow that can be called; repeatable.")]


def kind_of(name: str) -> Kind | None:
    """Return the kind of a program by its file ending, or None.

    >>> kind_of("desk.yaml"), kind_of("desk.agent.yaml"), kind_of("desk.txt")
    ('a workflow', 'an agent', None)
    """
    return next((kind for kind, endings in _KINDS.items() if name.endswith(endings)), None)


def require_ending(name: str, *endings: str) -> Kind:
    """Return the kind of a program; raise `UsageError` if the command does not support it."""
    kind = kind_of(name)
    own = _KINDS[kind] if kind is not None else ()
    if kind is None or not name.endswith(tuple(ending for ending in endings if ending in own)):
        this = f"; this is {kind}" if kind is not None else ""
        hint = f"It supports {', '.join(endings)}{this}"
        raise UsageError(f"{quote(name)} is not a program that this command supports", hint=hint, path=name)
    return kind


def require_files(names: Iterable[str], *endings: str) -> None:
    """Raise `UsageError` for files that have other endings or cannot be read."""
    for name in names:
        require_ending(name, *endings)
        read_file(name)


def refuse_options(given: Mapping[str, Any], *, because: str, hint: str) -> None:
    """Raise `UsageError` for options that do not apply; options that were not given are None, False or empty."""
    for name, value in given.items():
        if value is not None and value is not False and value != []:
            raise UsageError(f"{name} is not for {because}", hint=hint, option=name)


class Kit(NamedTuple):
    """What a program can use: the files of programs that it can call, actions, and a model."""

    machines: list[str]
    workflows: list[str]
    tools: str | None
    model: str | None

    @property
    def words(self) -> list[str]:
        """The options that give the same kit to another command."""
        given = [
            *(("--machines", name) for name in self.machines),
            *(("--workflows", name) for name in self.workflows),
            ("--tools", self.tools),
            ("--model", self.model),
        ]
        return [word for name, value in given if value is not None for word in (name, value)]


def equip(
    *,
    machines: list[str] | None = None,
    workflows: list[str] | None = None,
    tools: str | None = None,
    model: str | None = None,
) -> Kit:
    """Check the options of a command, and return them as a kit."""
    require_files(machines or (), *MACHINES)
    require_files(workflows or (), *WORKFLOWS)
    return Kit(machines or [], workflows or [], tools, model)


@contextmanager
def showing_faults(desk: Desk) -> Generator[None]:
    """Print all diagnostics of a program that has errors, and exit with 1 (the usage was right)."""
    try:
        yield
    except SourceError as error:
        if desk.out.json:
            desk.out.failure(error)
        else:
            desk.out.remark(error.report, indent="  ")
        raise typer.Exit(1) from None
