"""Text or a path in, a workflow out; a run's id in, the run out. What `memoranda.workflow` offers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from memoranda.agent.connecting import connect
from memoranda.api.memory import Memory
from memoranda.lang.diagnostics import Diagnostic
from memoranda.lang.egress import egress_policy
from memoranda.lang.reading import read_text
from memoranda.runs.belonging import check_language
from memoranda.runs.keeping import read_run
from memoranda.runs.teams import gather
from memoranda.workflow.actions.base import actions_of
from memoranda.workflow.behaviour import DEFAULT_BEHAVIOUR, Behaviour
from memoranda.workflow.document import Document
from memoranda.workflow.parser import parse_document
from memoranda.workflow.preparing import look
from memoranda.workflow.reaching import Kit
from memoranda.workflow.run import Run
from memoranda.workflow.workflow import Workflow, make_kept_workflow, make_workflow

ENDINGS = (".yaml", ".yml")
_UNNAMED = "workflow.yaml"

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
    """Compile a workflow, given as text or as the path of a file; raise a SourceError with everything wrong with it.

    `name` is what others call it by, and the scope of what is remembered for it; the name of its file unless given.
    `actions` are those of a program: functions that are marked as one, or modules that have some. `workflows` are those
    it can call. `model` takes the place of the models that the source names. `servers` give the tools of `kind: mcp`,
    by name; `credentials` the keys that models ask for by name, beside the environment. `egress` lists the hosts and
    networks that `http_request` may reach beside the public internet; without it, this machine and its network too.

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
    team = _team(memory, workflows, kit)
    workflow = _made(source, kit, memory, name=name)
    workflow.meet(team)
    return workflow


def _kit(
    actions: Iterable[Any],
    model: Any,
    servers: Mapping[str, Iterable[Any]] | None,
    credentials: Mapping[str, str] | None,
    behaviour: Behaviour,
    egress: Iterable[str] | None,
) -> Kit:
    return Kit(
        actions=actions_of(actions),
        servers={name: tuple(actions_of(given).values()) for name, given in (servers or {}).items()},
        model=None if model is None else connect(model),
        credentials=credentials or {},
        behaviour=behaviour,
        egress=egress_policy(egress),
    )


def _team(memory: Memory, workflows: Others, kit: Kit) -> list[Workflow]:
    return gather(workflows, lambda source: _made(source, kit, memory), "workflow")


def _made(source: str | os.PathLike[str], kit: Kit, memory: Memory, *, name: str | None = None) -> Workflow:
    file, text = _read(source)
    return make_workflow(text, file, kit, memory=memory, name=name)


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
    """Return a run that was begun earlier as it stands, on the text that was kept; the rest is as for `load`.

    Actions of the program are needed only to go on with it. The kept text runs on the handle that `memoranda.open`
    gave. On a handle for somebody else it can only be looked at and cancelled, unless `kept_text=True` says that
    whatever lies in the store may run.
    """
    kept = read_run(memory, id)
    check_language(kept.summary, "workflow")
    kit = msgspec.structs.replace(_kit(actions, model, servers, credentials, behaviour, egress), kept_text=kept_text)
    team = _team(memory, workflows, kit)
    installed = next((one.plan.digest for one in team if one.name == kept.summary.program), None)
    workflow = make_kept_workflow(memory, kept, kit, installed=installed)
    workflow.meet(team)
    return workflow.find(id)


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
    """Return a run that was begun earlier, in this process or another; if what it waits for is there, it goes on."""
    run = find(
        memory,
        id,
        actions=actions,
        workflows=workflows,
        model=model,
        servers=servers,
        credentials=credentials,
        behaviour=behaviour,
        egress=egress,
        kept_text=kept_text,
    )
    return run.resume() if run.status == "waiting" else run


def parse(source: str | os.PathLike[str]) -> Document:
    """Parse a file, given as text or as its path; raise a SourceError with every fault of its grammar.

    >>> document = parse('''
    ... defs:
    ...   greet: {kind: task, action: send_text_message, inputs: {text: Hello}}
    ... flow:
    ...   - do: greet
    ... ''')
    >>> document.find("greet").action.text
    'send_text_message'
    """
    file, text = _read(source)
    return parse_document(text, name=file)


def check(source: str | os.PathLike[str], *, actions: Iterable[Any] = ()) -> tuple[Diagnostic, ...]:
    """Return everything there is to say about a file, errors, warnings and notes, as they stand in it.

    `actions` are those of a program: functions that are marked as one, or modules that have some.

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
    file, text = _read(source)
    return look(text, file, actions_of(actions))[2]


def _read(source: str | os.PathLike[str]) -> tuple[str, str]:
    return read_text(source, endings=ENDINGS, name=_UNNAMED)
