"""The functions of `memoranda.workflow`: load, check and parse a workflow; find and resume a run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from memoranda.agent.connection import connect
from memoranda.api.memory import Memory
from memoranda.lang.diagnostics import Diagnostic
from memoranda.lang.document import read_text
from memoranda.lang.egress import egress_policy
from memoranda.runs.program import find_run, load_program
from memoranda.workflow.actions.base import Action, actions_of
from memoranda.workflow.behaviour import DEFAULT_BEHAVIOUR, Behaviour
from memoranda.workflow.compiler import Kit, look
from memoranda.workflow.document import Document
from memoranda.workflow.parser import parse_document
from memoranda.workflow.run import Run
from memoranda.workflow.workflow import Workflow

Others = Sequence[Workflow | str | os.PathLike[str]]


def load(
    source: str | os.PathLike[str],
    *,
    memory: Memory,
    name: str | None = None,
    actions: Iterable[Any] = (),
    workflows: Others = (),
    model: Any = None,
    servers: Mapping[str, Iterable[Any]] | None = None,
    credentials: Mapping[str, str] | None = None,
    behaviour: Behaviour = DEFAULT_BEHAVIOUR,
    egress: Iterable[str] | None = None,
) -> Workflow:
    """Compile a workflow, given as text or as the path of a file; raise a SourceError that lists all errors.

    `name` is the name that other workflows call it by, and the scope of its records; by default the name of the file.
    `actions` are functions marked with `@action`, or modules that contain some. `workflows` are those it can call.
    `model` replaces the models that the file names. `servers` provide the tools of `kind: mcp`, by name; `credentials`
    are the API keys that models refer to by name, in addition to the environment. `egress` lists the hosts and networks
    that `http_request` may reach besides the public internet; without it, also this machine and its network.

    >>> import memoranda
    >>> with memoranda.open(":memory:") as memory:
    ...     flow = memoranda.workflow.load('''
    ... defs:
    ...   greet: {kind: task, action: send_text_message, inputs: {text: "='Good evening, ' & $input.name"}}
    ... flow:
    ...   - do: greet
    ... ''', memory=memory)
    ...     flow.run({"name": "Ada"}, owner="ada").messages
    ['Good evening, Ada']
    """
    kit = _kit(actions, model, servers, credentials, behaviour, egress)
    return load_program(Workflow, source, kit, memory=memory, peers=workflows, name=name)


def _kit(
    actions: Iterable[Any],
    model: Any,
    servers: Mapping[str, Iterable[Any]] | None,
    credentials: Mapping[str, str] | None,
    behaviour: Behaviour,
    egress: Iterable[str] | None,
    kept_text: bool | None = None,
) -> Kit:
    return Kit(
        actions=actions_of(actions),
        servers={name: _served(given) for name, given in (servers or {}).items()},
        model=None if model is None else connect(model),
        credentials=credentials or {},
        behaviour=behaviour,
        egress=egress_policy(egress),
        kept_text=kept_text,
    )


def _served(given: Iterable[Any]) -> tuple[Action, ...]:
    """Return the tools of a server, which other people run."""
    return tuple(msgspec.structs.replace(one, origin="tool_external") for one in actions_of(given).values())


def find(
    memory: Memory,
    id: str,
    *,
    actions: Iterable[Any] = (),
    workflows: Others = (),
    model: Any = None,
    servers: Mapping[str, Iterable[Any]] | None = None,
    credentials: Mapping[str, str] | None = None,
    behaviour: Behaviour = DEFAULT_BEHAVIOUR,
    egress: Iterable[str] | None = None,
    kept_text: bool | None = None,
) -> Run:
    """Return a run that was started earlier, with the workflow text that was stored; other arguments as for `load`.

    `actions` are needed only to resume it. The stored text runs on the handle that `memoranda.open` returned. On a
    handle that acts for another user, the run can only be inspected and cancelled, unless `kept_text=True` allows any
    stored text to run.
    """
    kit = _kit(actions, model, servers, credentials, behaviour, egress, kept_text)
    return find_run(Workflow, memory, id, kit, workflows)


def resume(
    memory: Memory,
    id: str,
    *,
    actions: Iterable[Any] = (),
    workflows: Others = (),
    model: Any = None,
    servers: Mapping[str, Iterable[Any]] | None = None,
    credentials: Mapping[str, str] | None = None,
    behaviour: Behaviour = DEFAULT_BEHAVIOUR,
    egress: Iterable[str] | None = None,
    kept_text: bool | None = None,
) -> Run:
    """Return a run that was started earlier, here or in another process, and resume it if it no longer has to wait."""
    kit = _kit(actions, model, servers, credentials, behaviour, egress, kept_text)
    return find_run(Workflow, memory, id, kit, workflows, resume=True)


def parse(source: str | os.PathLike[str]) -> Document:
    """Parse a workflow, given as text or as the path of a file; raise a SourceError that lists all syntax errors.

    >>> document = parse('''
    ... defs:
    ...   greet: {kind: task, action: send_text_message, inputs: {text: Hello}}
    ... flow:
    ...   - do: greet
    ... ''')
    >>> document.find("greet").action.text
    'send_text_message'
    """
    file, text = read_text(source, endings=Workflow.ENDINGS, name=Workflow.UNNAMED)
    return parse_document(text, name=file)


def check(source: str | os.PathLike[str], *, actions: Iterable[Any] = ()) -> tuple[Diagnostic, ...]:
    """Return the errors, warnings and notes of a workflow, in the order of the file.

    `actions` are functions marked with `@action`, or modules that contain some.

    >>> import memoranda
    >>> for one in memoranda.workflow.check('''
    ... defs:
    ...   greet: {kind: task, action: send_text_message, inputs: {txt: "='Good evening, ' & $input.name"}}
    ... flow:
    ...   - do: greet
    ... '''):
    ...     print(one.code, one.hint)
    unknown_input Did you mean `text`?
    """
    file, text = read_text(source, endings=Workflow.ENDINGS, name=Workflow.UNNAMED)
    return look(text, file, actions_of(actions))[2]
