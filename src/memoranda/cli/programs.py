"""Program files that are named on the command line in; what they are, and every fault of them as text, out."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal, NamedTuple

import typer

from memoranda.cli import wording
from memoranda.cli.command import Desk
from memoranda.cli.reading import read_file
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
"""How files end by what they are; the first that fits, so that a YAML file which says nothing else is a workflow."""

Tools = Annotated[
    str | None,
    typer.Option(
        "--tools",
        metavar="MODULE",
        help="A Python file or module: its public functions are an agent's tools, its marked actions a workflow's.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", help="The model to ask, such as openai:gpt-5.2."),
]
Machines = Annotated[
    list[str] | None,
    typer.Option("--machines", metavar="FILE", help="A machine that can be called; repeat for more."),
]
Workflows = Annotated[
    list[str] | None,
    typer.Option("--workflows", metavar="FILE", help="A workflow that can be called; repeat for more."),
]


def kind_of(name: str) -> Kind | None:
    """Return what a program is, by how its name ends; None where it is none.

    >>> kind_of("desk.yaml"), kind_of("desk.agent.yaml"), kind_of("desk.txt")
    ('a workflow', 'an agent', None)
    """
    return next((kind for kind, endings in _KINDS.items() if name.endswith(endings)), None)


def require_ending(name: str, *endings: str) -> Kind:
    """Return what a program is, or refuse one that a command does not work on."""
    kind = kind_of(name)
    own = _KINDS[kind] if kind is not None else ()
    if kind is None or not name.endswith(tuple(ending for ending in endings if ending in own)):
        this = f"; this is {kind}" if kind is not None else ""
        hint = f"It works on {', '.join(endings)}{this}"
        raise UsageError(f"{quote(name)} is no program that this command knows", hint=hint, path=name)
    return kind


def require_files(names: Iterable[str], *endings: str) -> None:
    """Refuse files that are no such programs, or cannot be read, before anything else happens."""
    for name in names:
        require_ending(name, *endings)
        read_file(name)


def refuse_options(given: Mapping[str, Any], *, because: str, hint: str) -> None:
    """Refuse options that mean nothing to the program at hand; those that were not given are None, False or empty."""
    for option, value in given.items():
        if value is not None and value is not False and value != []:
            raise UsageError(f"{option} is not for {because}", hint=hint, option=option)


class Kit(NamedTuple):
    """What a program is equipped with on the command line: the files of those it can call, actions, and a model."""

    machines: list[str]
    workflows: list[str]
    tools: str | None
    model: str | None

    @property
    def words(self) -> list[str]:
        """The options that equip another command in the same way."""
        options = [
            *(("--machines", name) for name in self.machines),
            *(("--workflows", name) for name in self.workflows),
            ("--tools", self.tools),
            ("--model", self.model),
        ]
        return [word for option, value in options if value is not None for word in (option, value)]


def equip(
    *,
    machines: list[str] | None = None,
    workflows: list[str] | None = None,
    tools: str | None = None,
    model: str | None = None,
) -> Kit:
    """Return what the options of a command equip a program with; refuse files that cannot be what they are named as."""
    require_files(machines or (), *MACHINES)
    require_files(workflows or (), *WORKFLOWS)
    return Kit(machines or [], workflows or [], tools, model)


@contextmanager
def showing_faults(desk: Desk) -> Generator[None]:
    """Show a program that cannot be used with all its faults, and leave with 1: the call was right, the text is not."""
    try:
        yield
    except SourceError as error:
        if desk.out.json:
            desk.out.failure(error)
        else:
            desk.out.remark(wording.hint(error.report), indent="  ")
        raise typer.Exit(1) from None
