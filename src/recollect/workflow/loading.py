"""Text or a path in, a workflow out; a run's id in, the run out. What `recollect.workflow` offers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from recollect.agent.connecting import connect
from recollect.api.memory import Memory
from recollect.errors import UsageError
from recollect.lang.diagnostics import Diagnostic, source_error
from recollect.lang.reading import read_text
from recollect.model.scope import Scope
from recollect.model.text import quote
from recollect.runs.keeping import read_run
from recollect.runs.sources import WORDS, read_source
from recollect.workflow.actions.base import Action, Call, actions_of
from recollect.workflow.actions.builtin import BUILTIN
from recollect.workflow.actions.installed import installed_actions
from recollect.workflow.behaviour import DEFAULT_BEHAVIOUR, Behaviour
from recollect.workflow.checker.check import check_source
from recollect.workflow.compiler import compile_workflow
from recollect.workflow.document import Document
from recollect.workflow.parser import Reading, parse_document
from recollect.workflow.programs import Programs
from recollect.workflow.reaching import Kit
from recollect.workflow.run import Run
from recollect.workflow.workflow import Workflow

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
) -> Workflow:
    """Compile a workflow, given as text or as the path of a file; raise a SourceError with everything wrong with it.

    `name` is what others call it by, and the scope of what is remembered for it; the name of its file unless given.
    `actions` are those of a program: functions that are marked as one, or modules that have some. `workflows` are those
    it can call. `model` takes the place of the models that the source names. `servers` give the tools of `kind: mcp`,
    by name; `credentials` the keys that models ask for by name, beside the environment.

    >>> import recollect
    >>> with recollect.open(":memory:") as memory:
    ...     flow = recollect.workflow.load('''
    ... defs:
    ...   greet: {kind: task, action: send_text_message, inputs: {text: "='Good evening, ' & $input.name"}}
    ... flow:
    ...   - do: greet
    ... ''', memory=memory)
    ...     flow.run({"name": "Ada"}, owner="ada").messages
    ['Good evening, Ada']
    """
    kit = _kit(actions, model, servers, credentials, behaviour)
    team = _team(memory, workflows, kit)
    file, text = _read(source)
    workflow = make_workflow(text, file, kit, memory=memory, name=name)
    workflow.meet(team)
    return workflow


def _kit(
    actions: Iterable[Any],
    model: Any,
    servers: Mapping[str, Iterable[Any]] | None,
    credentials: Mapping[str, str] | None,
    behaviour: Behaviour,
) -> Kit:
    return Kit(
        actions=actions_of(actions),
        servers={name: tuple(actions_of(given).values()) for name, given in (servers or {}).items()},
        model=None if model is None else connect(model),
        credentials=credentials or {},
        behaviour=behaviour,
    )


def _team(memory: Memory, workflows: Others, kit: Kit) -> list[Workflow]:
    """Return the workflows that can be called; those that are made here can call all of them."""
    made: list[Workflow] = []
    team: list[Workflow] = []
    for one in workflows:
        if isinstance(one, Workflow):
            team.append(one)
            continue
        file, text = _read(one)
        made.append(make_workflow(text, file, kit, memory=memory))
        team.append(made[-1])
    names = [workflow.name for workflow in team]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"there are two workflows {quote(name)}", hint="Each is called by its name: give one another"
            )
    for workflow in made:
        workflow.meet(team)
    return team


def make_workflow(
    text: str, file: str, kit: Kit, *, memory: Memory, name: str | None = None, only_to_look: bool = False
) -> Workflow:
    """Compile a workflow; raise a SourceError with everything wrong with it.

    One that is made only to look at its runs may lack actions of its program; it does not run.
    """
    reading, programs, diagnostics, known = look(text, file, kit.actions, looking_only=only_to_look)
    absent: dict[str, Action] = {}
    servers = kit.servers
    if only_to_look:
        absent, servers = _stand_ins(reading.document, known, servers)
    else:
        diagnostics = tuple(_for_running(one) for one in diagnostics)
    if any(one.severity == "error" for one in diagnostics):
        raise source_error(reading.source, diagnostics)
    called = name if name is not None else name_of(file)
    Scope.of(workflow=called)  # refuses what cannot be the name of a scope
    plan = compile_workflow(
        reading.document, programs, reading.source, name=called, actions={**known, **absent}, servers=servers
    )
    missing = (*absent, *(server for server in servers if server not in kit.servers))
    return Workflow(plan, kit, memory=memory, diagnostics=diagnostics, file=file, missing=missing)


def look(
    text: str, file: str, actions: Mapping[str, Action], *, looking_only: bool = True
) -> tuple[Reading, Programs, tuple[Diagnostic, ...], dict[str, Action]]:
    """Read and check a text with these actions, the built-in and the installed ones; give those actions as well."""
    known = {**BUILTIN, **actions}
    reading, programs, diagnostics = check_source(text, name=file, actions=known)
    if any(one.code == "unknown_action" for one in diagnostics):
        # Looking through everything that is installed takes a while; few workflows need it.
        named = [one.action.text for one in reading.document.defs if one.action is not None]
        wanted = () if looking_only else [one for one in named if one not in known]
        known = {**installed_actions(wanted=wanted), **known}
        reading, programs, diagnostics = check_source(text, name=file, actions=known)
    return reading, programs, diagnostics, known


def _stand_ins(
    document: Document, known: Mapping[str, Action], servers: Mapping[str, tuple[Action, ...]]
) -> tuple[dict[str, Action], Mapping[str, tuple[Action, ...]]]:
    """Return actions and servers in place of those that a document names and nobody gives."""
    named = [one.action.text for one in document.defs if one.action is not None]
    served = [one.name.text for one in document.defs if one.kind is not None and one.kind.text == "mcp"]
    absent = {one: _absent_action(one) for one in named if one not in known}
    return absent, {**dict.fromkeys(served, ()), **servers}


def _absent_action(name: str) -> Action:
    def act(call: Call) -> Any:
        raise AssertionError(f"a workflow without its action {name} is not run")

    return Action(name=name, act=act)


def _for_running(one: Diagnostic) -> Diagnostic:
    """Return a diagnostic as it counts for a workflow that is to be run: an action that nobody gives is an error."""
    return msgspec.structs.replace(one, severity="error") if one.code == "unknown_action" else one


def name_of(file: str | os.PathLike[str]) -> str:
    """Return what the workflow in a file is called unless it is given another name."""
    return Path(file).name.partition(".")[0]


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
) -> Run:
    """Return a run that was begun earlier as it stands, on the text that was kept; the rest is as for `load`.

    Actions of the program are needed only to go on with it.
    """
    kept = read_run(memory, id)
    summary = kept.summary
    if summary.language != "workflow":
        raise UsageError(
            f"the run {quote(id)} is one of the {WORDS[summary.language]} {quote(summary.program)}, no workflow's",
            hint=f"Take it up with recollect.{summary.language}.find(…)",
            value=id,
        )
    text = read_source(memory, kept)
    kit = _kit(actions, model, servers, credentials, behaviour)
    workflow = make_workflow(text.source, text.file, kit, memory=memory, name=summary.program, only_to_look=True)
    workflow.meet(_team(memory, workflows, kit))
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
    )
    return run.resume() if run.status == "waiting" else run


def parse(source: str | os.PathLike[str]) -> Document:
    """Parse a file, given as text or as its path; raise a SourceError with every fault of its grammar."""
    file, text = _read(source)
    return parse_document(text, name=file)


def check(source: str | os.PathLike[str], *, actions: Iterable[Any] = ()) -> tuple[Diagnostic, ...]:
    """Return everything there is to say about a file, errors, warnings and notes, as they stand in it.

    `actions` are those of a program: functions that are marked as one, or modules that have some.

    >>> import recollect
    >>> for one in recollect.workflow.check('''
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
