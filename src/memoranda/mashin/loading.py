"""Text or a path in, a machine out; a run's id in, the run out. What `memoranda.mashin` offers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from memoranda.agent.connecting import connect
from memoranda.api.memory import Memory
from memoranda.lang.diagnostics import Diagnostic
from memoranda.lang.reading import read_text
from memoranda.mashin.behaviour import DEFAULT_BEHAVIOUR, Behaviour
from memoranda.mashin.checker.check import check_source
from memoranda.mashin.document import Document
from memoranda.mashin.guards import Rule
from memoranda.mashin.machine import Kit, Machine, make_kept_machine, make_machine
from memoranda.mashin.parser import parse_document, parse_fragment
from memoranda.mashin.run import Run
from memoranda.runs.belonging import check_language
from memoranda.runs.keeping import read_run
from memoranda.runs.teams import gather

ENDING = ".mashin"

Others = Sequence[Machine | str | os.PathLike[str]]


def load(
    source: str | os.PathLike[str],
    *,
    memory: Memory,
    machines: Others = (),
    model: Any = None,
    guards: Mapping[str, Rule] | None = None,
    settings: Mapping[str, str] | None = None,
    behaviour: Behaviour = DEFAULT_BEHAVIOUR,
) -> Machine:
    """Compile a machine, given as text or as the path of a file; raise a SourceError with everything wrong with it.

    `machines` are those it can call. `model` takes the place of the models that the source names: a name such as
    `"anthropic:claude-sonnet-4-6"`, or a model of pydantic-ai. `guards` are Python functions for guards that are not
    built in; `settings` are what its `needs` ask for, beside the environment.

    >>> import memoranda
    >>> with memoranda.open(":memory:") as memory:
    ...     machine = memoranda.mashin.load('''
    ... machine greeter
    ...   accepts
    ...     name as text, is required
    ...   implements
    ...     compute hello
    ...       "Good evening, ${input.name}."
    ... ''', memory=memory)
    ...     machine.run({"name": "Ada"}).output
    'Good evening, Ada.'
    """
    kit = _kit(model, guards, settings, behaviour)
    team = _team(memory, machines, kit)
    machine = _made(source, kit, memory)
    machine.meet(team)
    return machine


def _kit(
    model: Any, guards: Mapping[str, Rule] | None, settings: Mapping[str, str] | None, behaviour: Behaviour
) -> Kit:
    return Kit(
        model=None if model is None else connect(model),
        guards=guards or {},
        settings=settings or {},
        behaviour=behaviour,
    )


def _team(memory: Memory, machines: Others, kit: Kit) -> list[Machine]:
    return gather(machines, lambda source: _made(source, kit, memory), "mashin")


def _made(source: str | os.PathLike[str], kit: Kit, memory: Memory) -> Machine:
    file, text = _read(source)
    return make_machine(text, file, kit, memory=memory)


def resume(
    memory: Memory,
    id: str,
    *,
    machines: Others = (),
    model: Any = None,
    guards: Mapping[str, Rule] | None = None,
    settings: Mapping[str, str] | None = None,
    behaviour: Behaviour = DEFAULT_BEHAVIOUR,
    kept_text: bool | None = None,
) -> Run:
    """Return a run that was begun earlier, in this process or another; if what it waits for is there, it goes on.

    Its machine is made of the text that was kept when the run began; the others are as for `load`.
    """
    run = find(
        memory,
        id,
        machines=machines,
        model=model,
        guards=guards,
        settings=settings,
        behaviour=behaviour,
        kept_text=kept_text,
    )
    return run.resume() if run.status == "waiting" else run


def find(
    memory: Memory,
    id: str,
    *,
    machines: Others = (),
    model: Any = None,
    guards: Mapping[str, Rule] | None = None,
    settings: Mapping[str, str] | None = None,
    behaviour: Behaviour = DEFAULT_BEHAVIOUR,
    kept_text: bool | None = None,
) -> Run:
    """Return a run that was begun earlier as it stands: to look at it, to decide, or to replay it.

    The kept text runs on the handle that `memoranda.open` gave. On a handle for somebody else it can only be looked at
    and cancelled, unless `kept_text=True` says that whatever lies in the store may run.
    """
    kept = read_run(memory, id)
    check_language(kept.summary, "mashin")
    kit = msgspec.structs.replace(_kit(model, guards, settings, behaviour), kept_text=kept_text)
    team = _team(memory, machines, kit)
    installed = next((one.plan.digest for one in team if one.name == kept.summary.program), None)
    machine = make_kept_machine(memory, kept, kit, installed=installed)
    machine.meet(team)
    return machine.find(id)


def parse(source: str | os.PathLike[str], *, fragment: bool = False) -> Document:
    """Parse a file, or with `fragment` any part of one; raise a SourceError with every fault of its grammar.

    >>> document = parse('''
    ... compute total
    ...   1 + 2
    ... ''', fragment=True)
    >>> document.implements.body[0].result.text
    '1 + 2'
    """
    file, text = _read(source)
    return parse_fragment(text, name=file) if fragment else parse_document(text, name=file)


def check(source: str | os.PathLike[str], *, fragment: bool = False) -> tuple[Diagnostic, ...]:
    """Return everything there is to say about a file, errors, warnings and notes, as they stand in it.

    >>> for one in check('''
    ... machine double
    ...   implements
    ...     compute twice
    ...       input.n * 2
    ... '''):
    ...     print(one.severity, one.code, one.hint)
    error unknown_input Add `n as …` to `accepts`
    """
    file, text = _read(source)
    return check_source(text, name=file, fragment=fragment)[2]


def _read(source: str | os.PathLike[str]) -> tuple[str, str]:
    return read_text(source, endings=(ENDING,), name="machine.mashin")
