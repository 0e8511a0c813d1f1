"""Load, check and parse machines, and find and resume their runs: the functions of `memoranda.mashin`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from memoranda.agent.connection import connect
from memoranda.api.memory import Memory
from memoranda.lang.diagnostics import Diagnostic
from memoranda.lang.document import read_text
from memoranda.mashin.behaviour import DEFAULT_BEHAVIOUR, Behaviour
from memoranda.mashin.checker import check_source
from memoranda.mashin.document import Document
from memoranda.mashin.guards import Rule
from memoranda.mashin.machine import Kit, Machine, make_machine, make_stored_machine
from memoranda.mashin.parser import parse_document, parse_fragment
from memoranda.mashin.run import Run
from memoranda.runs.program import check_language, load_peers
from memoranda.runs.storage import read_run

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

    `machines` are those it can call. `model` replaces the models that the source names: a name such as
    `"anthropic:claude-sonnet-4-6"`, or a model of pydantic-ai. `guards` are Python functions for guards that are not
    built in; `settings` are values for its `needs`, beside the environment.

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
    peers = _load_peers(memory, machines, kit)
    machine = _load(source, kit, memory)
    machine.meet(peers)
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


def _load_peers(memory: Memory, machines: Others, kit: Kit) -> list[Machine]:
    return load_peers(machines, lambda source: _load(source, kit, memory), "mashin")


def _load(source: str | os.PathLike[str], kit: Kit, memory: Memory) -> Machine:
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
    """Return a run that began earlier, in this process or another; if what it waits for is there, resume it.

    Its machine is compiled from the text that was stored when the run began; the others are as for `load`.
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
    """Return a run that began earlier, to inspect it, to decide about it, or to replay it.

    Its stored text runs on the handle that `memoranda.open` returned. On any other handle the run can only be inspected
    and cancelled, unless `kept_text=True` allows stored texts to run.
    """
    kept = read_run(memory, id)
    check_language(kept.summary, "mashin")
    kit = msgspec.structs.replace(_kit(model, guards, settings, behaviour), kept_text=kept_text)
    peers = _load_peers(memory, machines, kit)
    installed = next((one.plan.digest for one in peers if one.name == kept.summary.program), None)
    machine = make_stored_machine(memory, kept, kit, installed=installed)
    machine.meet(peers)
    return machine.find(id)


def parse(source: str | os.PathLike[str], *, fragment: bool = False) -> Document:
    """Parse a file, or with `fragment` any part of one; raise a SourceError with every syntax error.

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
    """Return the errors, warnings and notes about a file, in the order of their places.

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
