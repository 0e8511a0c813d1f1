"""Load, check and parse machines, and find and resume their runs: the functions of `memoranda.mashin`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from memoranda.agent.connection import connect
from memoranda.api.memory import Memory
from memoranda.lang.diagnostics import Diagnostic
from memoranda.lang.document import read_text
from memoranda.mashin.behaviour import DEFAULT_BEHAVIOUR, Behaviour
from memoranda.mashin.checker import check_source
from memoranda.mashin.document import Document
from memoranda.mashin.guards import Rule
from memoranda.mashin.machine import Kit, Machine
from memoranda.mashin.parser import parse_document, parse_fragment
from memoranda.mashin.run import Run
from memoranda.runs.program import find_run, load_program

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
    return load_program(Machine, source, kit, memory=memory, peers=machines)


def _kit(
    model: Any,
    guards: Mapping[str, Rule] | None,
    settings: Mapping[str, str] | None,
    behaviour: Behaviour,
    kept_text: bool | None = None,
) -> Kit:
    return Kit(
        model=None if model is None else connect(model),
        guards=guards or {},
        settings=settings or {},
        behaviour=behaviour,
        kept_text=kept_text,
    )


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
    kit = _kit(model, guards, settings, behaviour, kept_text)
    return find_run(Machine, memory, id, kit, machines, resume=True)


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
    return find_run(Machine, memory, id, _kit(model, guards, settings, behaviour, kept_text), machines)


def parse(source: str | os.PathLike[str], *, fragment: bool = False) -> Document:
    """Parse a file, or with `fragment` any part of one; raise a SourceError with every syntax error.

    >>> document = parse('''
    ... compute total
    ...   1 + 2
    ... ''', fragment=True)
    >>> document.implements.body[0].result.text
    '1 + 2'
    """
    file, text = read_text(source, endings=Machine.ENDINGS, name=Machine.UNNAMED)
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
    file, text = read_text(source, endings=Machine.ENDINGS, name=Machine.UNNAMED)
    return check_source(text, name=file, fragment=fragment)[2]
