"""Agents, machines, workflows and chat agents of a server: loaded from their files, and loaded again when asked.

A program, and the programs that it calls, run on the caller's memory handle and so with the caller's permissions.
All files are loaded together, as one generation. A run continues with the generation that has the texts it began
with, so earlier generations are kept while runs need them.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

import msgspec

import memoranda
from memoranda.agent.connection import prepare
from memoranda.api.memory import Memory
from memoranda.errors import (
    NEUTRAL_WORDS,
    Conflict,
    Hint,
    MemorandaError,
    NotFound,
    SourceError,
    UsageError,
    render_hint,
)
from memoranda.lang.diagnostics import Diagnostic, closest
from memoranda.lang.document import read_text
from memoranda.lang.python_functions import load_module
from memoranda.lang.source import Source, digest_of
from memoranda.model.clock import utc_now
from memoranda.model.event import OVER, Language, RunSummary
from memoranda.model.policy import Rule
from memoranda.model.program import Bindings
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.runs.program import PROGRAM_WORDS, Program, RecordedProgram
from memoranda.runs.steps import Recording
from memoranda.server.auth.keys import SYSTEM_TENANT
from memoranda.server.auth.principals import Access, Principal, handle_for
from memoranda.server.chat_agents import CHAT_FILE, read_chat_agents
from memoranda.server.settings import Settings
from memoranda.wire.runs import ProgramFinding, ProgramKind, ProgramSummary, ProgramVersion, Reloaded

if TYPE_CHECKING:
    from memoranda import abl, chat
    from memoranda.runs.run import RunHandle

    AnyRecordedProgram: TypeAlias = RecordedProgram[Any, Any, Any]


ACTIONS_FILE = "actions.py"
"""The file in the workflow folder whose marked functions are actions."""
TOOLS_FILE = "tools.py"
"""The file in the agent folder whose functions are tools."""

_RUN = tuple((capability, Rule("allow", capability)) for capability in ("runs.read", "runs.write"))
"""Permissions for run records, which are in the scope of the tenant. `Programs` checks who owns each run."""
_CACHED_SESSIONS = 64
"""Number of sessions whose agent stays cached on the handle of its caller."""

_log = logging.getLogger(__name__)


class ReloadCounter(Protocol):
    """Counts the reloads that were asked for, in all processes of a server."""

    value: int


class LocalCounter:
    """The counter of a server with one process."""

    value = 0


class _File(msgspec.Struct, frozen=True, kw_only=True):
    """A program file: what was loaded from it, or what is wrong with it."""

    kind: ProgramKind
    name: str
    file: str
    program: Any = None
    digest: str | None = None
    loaded_at: datetime | None = None
    errors: tuple[ProgramFinding, ...] = ()


class _Generation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was loaded at one moment."""

    files: tuple[_File, ...]
    actions: tuple[Any, ...] = ()
    stamps: Any = None
    """The state of the folders when they were read."""

    def programs(self, kind: ProgramKind) -> dict[str, Any]:
        """Return the programs of a kind that could be loaded, by name."""
        return {one.name: one.program for one in self.files if one.kind == kind and not one.errors}

    def digests(self) -> dict[tuple[ProgramKind, str], str]:
        """Return the digests of what could be loaded."""
        return {(one.kind, one.name): one.digest for one in self.files if one.digest is not None}

    def failures(self) -> dict[tuple[ProgramKind, str], _File]:
        """Return the files that could not be loaded, by kind and file."""
        return {(one.kind, one.file): one for one in self.files if one.errors}


_KINDS: dict[Language, ProgramKind] = {"mashin": "machine", "workflow": "workflow"}


class Programs:
    """The programs of a server by name."""

    def __init__(
        self,
        memory: Memory,
        load: Callable[[], _Generation],
        *,
        show: Callable[[MemorandaError], str],
        counter: ReloadCounter | None = None,
        look: Callable[[], Any] | None = None,
    ) -> None:
        """Load the programs on the memory of the whole server.

        `show` returns the message of an error without folders. `counter` counts reloads; if it has changed, this
        process loads again. `look` returns the state of the folders; if that has changed, too.
        """
        self._memory = memory
        self._load = load
        self._show = show
        self._look = look
        self._counter: ReloadCounter = LocalCounter() if counter is None else counter
        self._seen = self._counter.value
        self._lock = Lock()
        self._current = load()
        self._earlier: tuple[_Generation, ...] = ()
        self._known: dict[tuple[ProgramKind, str], dict[str, datetime | None]] = {}
        """When each text of each program was first loaded here, oldest first."""
        self._take(self._current)
        for one in self._current.failures().values():
            said = one.errors[0]
            place = "" if said.line is None else f":{said.line}:{said.column}"
            _log.warning("%s%s could not be loaded: %s", one.file, place, said.message)

    def _take(self, loaded: _Generation) -> None:
        """Let new runs and sessions use what was loaded."""
        for one in loaded.files:
            if one.digest is not None:
                self._known.setdefault((one.kind, one.name), {}).setdefault(one.digest, one.loaded_at)
        self._current = loaded
        self._session_agent = lru_cache(_CACHED_SESSIONS)(partial(self._agent_for_session, loaded))

    # loading again

    def reload(self) -> Reloaded:
        """Load the files again, here and in the other processes; raise Conflict and change nothing if one is bad."""
        with self._lock:
            changed = self._reload()
            self._counter.value = self._seen = self._counter.value + 1
        return changed

    def refresh(self) -> None:
        """Load the files again if another process was asked to, or if they changed and are watched."""
        if self._counter.value == self._seen and (self._look is None or self._look() == self._current.stamps):
            return
        with self._lock:
            asked = self._counter.value
            stamps = None if self._look is None else self._look()
            if asked == self._seen and stamps == self._current.stamps:
                return
            self._seen = asked
            try:
                changed = self._reload()
            except MemorandaError as error:
                # Not tried again before something changes.
                self._current = msgspec.structs.replace(self._current, stamps=stamps)
                _log.error("the programs could not be reloaded, nothing was changed: %s", error)
            else:
                _log.info("the programs were reloaded", extra={"fields": msgspec.to_builtins(changed)})

    def _reload(self) -> Reloaded:
        before = self._current
        try:
            loaded = self._load()
        except MemorandaError as error:
            # Without folders: an administrator of a tenant is not the operator of this machine.
            said = self._show(error)
            raise Conflict(f"the programs were not reloaded, and nothing was changed: {said}") from error
        worse = [one for place, one in loaded.failures().items() if place not in before.failures()]
        if worse:
            raise _refusal(worse)
        loaded = msgspec.structs.replace(loaded, files=tuple(self._with_first_time(one) for one in loaded.files))
        was, now = before.digests(), loaded.digests()
        if was != now:
            self._earlier = self._needed((before, *self._earlier), now)
        self._take(loaded)
        return Reloaded(
            added=[_title(one) for one in now if one not in was],
            changed=[_title(one) for one in now if was.get(one, now[one]) != now[one]],
            removed=[_title(one) for one in was if one not in now],
            failed=[one.file for one in loaded.failures().values()],
        )

    def _with_first_time(self, one: _File) -> _File:
        first = self._known.get((one.kind, one.name), {}).get(one.digest or "")
        return one if first is None else msgspec.structs.replace(one, loaded_at=first)

    def _needed(
        self, earlier: tuple[_Generation, ...], now: Mapping[tuple[ProgramKind, str], str]
    ) -> tuple[_Generation, ...]:
        """Return the generations that a run which is not over may need, newest first."""
        open_runs: set[tuple[tuple[ProgramKind, str], str]] = {
            ((_KINDS[run.language], run.program), run.digest)
            for tenant in self._memory.tenants()
            if tenant != SYSTEM_TENANT
            for run in self._memory.in_tenant(tenant).runs.list()
            if run.status not in OVER
        }
        needed = {(place, digest) for place, digest in open_runs if now.get(place) != digest}
        return tuple(one for one in earlier if needed & set(one.digests().items()))

    # what is loaded

    def summaries(self, *kinds: ProgramKind) -> list[ProgramSummary]:
        """Return the programs of some kinds by name, and the files that could not be loaded."""
        self.refresh()
        found = [_summary(one) for one in self._current.files if one.kind in kinds]
        return sorted(found, key=lambda one: (one.name, one.kind, one.file))

    def versions(self, language: Language, name: str, principal: Principal) -> list[ProgramVersion]:
        """Return the texts of a machine or workflow, newest first, with the number of the caller's runs of each."""
        self.refresh()
        kind = _KINDS[language]
        current = self._current.digests().get((kind, name))
        known = self._known.get((kind, name), {})
        runs = Counter(run.digest for run in self.runs(principal, program=name, language=language))
        if not known and not runs:
            _find(self._current.programs(kind), name, PROGRAM_WORDS[language])
        installed = {one.digests().get((kind, name)) for one in (self._current, *self._earlier)}
        digests = [*(one for one in runs if one not in known), *known]
        return [
            ProgramVersion(
                digest=one,
                current=one == current,
                installed=one in installed,
                loaded_at=known.get(one),
                runs=runs[one],
            )
            for one in sorted(digests, key=lambda one: (one == current, digests.index(one)), reverse=True)
        ]

    def chat_agent(self, id: str) -> chat.Agent:
        """Return a chat agent."""
        return _find(self._current.programs("chat_agent"), id, "chat agent")

    # machines and workflows

    def program(self, language: Language, name: str, principal: Principal) -> Any:
        """Return a machine or a workflow on the caller's handle, linked with the others."""
        self.refresh()
        current = self._current
        _find(current.programs(_KINDS[language]), name, PROGRAM_WORDS[language])
        return _link(current, language, self.handle(principal))[name]

    def runs(self, principal: Principal, **options: Any) -> list[RunSummary]:
        """Return the runs of a caller, newest first; `options` are those of `memory.runs.list`."""
        return self.handle(principal).runs.list(owner=principal.scope, **options)

    def summary(self, id: str, principal: Principal) -> RunSummary:
        """Return the summary of a run of the caller; runs of others are not found."""
        summary = self.handle(principal).runs.get(id)
        if not principal.scope.covers(Scope(principal.tenant, summary.scope)):
            raise NotFound(f"unknown run {quote(id)}", hint=Hint("list", "runs"))
        return summary

    def find(self, id: str, principal: Principal) -> RunHandle[Any]:
        """Return a run of the caller; one whose program was uninstalled can only be read and cancelled."""
        self.refresh()
        summary, handle = self.summary(id, principal), self.handle(principal)
        chain = list(_chain(handle, summary))
        generations = (self._current, *self._earlier)
        # Where no generation has the texts of all runs that it waits for, at least its own.
        fitting = next((one for one in generations if _fits(one, chain)), None)
        fitting = fitting or next((one for one in generations if _fits(one, chain[:1])), None)
        if fitting is not None:
            return _link(fitting, summary.language, handle)[summary.program].find(id)
        others: Any = list(_link(self._current, summary.language, handle).values())
        if summary.language == "mashin":
            return memoranda.mashin.find(handle, id, machines=others, kept_text=False)
        return memoranda.workflow.find(handle, id, workflows=others, actions=self._current.actions, kept_text=False)

    def handle(self, principal: Principal) -> Memory:
        """Return the handle that programs of a caller run on: the caller's own, plus permission to record runs."""
        return handle_for(self._memory, principal, also=_RUN)

    # sessions with ABL agents

    def start_session(self, access: Access, agent: str, *, project: str, vars: dict[str, Any]) -> abl.Session:
        """Start a session of the caller."""
        self.refresh()
        _find(self._current.programs("agent"), agent, "agent")
        id = self._memory.ids.new("session")
        moved = self._session_agent(access, id, agent)
        return moved.start(user=access.principal.user, project=project, id=id, vars=vars)

    def find_session(self, access: Access, id: str) -> abl.Session:
        """Return a session of the caller; sessions of others are not found."""
        from memoranda.abl.runtime.persistence import read_state

        self.refresh()
        principal = access.principal
        # The owner is stored in the session itself, so it is read before the caller's permission is known.
        state, _ = read_state(self._memory.in_tenant(principal.tenant), Scope.of(tenant=principal.tenant, session=id))
        if state.user != principal.user or state.root not in self._current.programs("agent"):
            raise NotFound(
                f"unknown session {quote(id)}",
                hint="It was never started on this server, or it has ended",
            )
        return self._session_agent(access, id, state.root).resume(id)

    @staticmethod
    def _agent_for_session(loaded: _Generation, access: Access, id: str, name: str) -> abl.Agent:
        """Return an agent on a handle that also reaches the scopes of the session."""
        tenant = access.principal.tenant
        scopes = Scope.of(tenant=tenant, session=id), Scope.of(tenant=tenant, tree=id)
        return loaded.programs("agent")[name].on(access.handle(*scopes))


def _link(loaded: _Generation, language: Language, handle: Memory) -> dict[str, AnyRecordedProgram]:
    # A called program runs on the handle that it was loaded with, so all of them are moved to the caller's.
    moved = {name: one.on(handle) for name, one in loaded.programs(_KINDS[language]).items()}
    for one in moved.values():
        one.meet(moved.values())
    return moved


def _chain(handle: Memory, summary: RunSummary) -> Iterator[RunSummary]:
    """Yield a run, and the runs that it waits for."""
    yield summary
    while (called := (summary.waiting or {}).get("run")) is not None:
        summary = handle.runs.get(called)
        yield summary


def _fits(loaded: _Generation, chain: Iterable[RunSummary]) -> bool:
    digests = loaded.digests()
    return all(digests.get((_KINDS[run.language], run.program)) == run.digest for run in chain)


def _title(place: tuple[ProgramKind, str]) -> str:
    return f"{place[0]} {place[1]}"


def _summary(one: _File) -> ProgramSummary:
    details: dict[str, Any] = {}
    if one.program is not None and one.kind != "chat_agent":
        program = cast("Program[Any, Any]", one.program)
        details = {
            "title": getattr(program.plan, "title", ""),
            "inputs": program.inputs,
            "bindings": program.bindings,
            "diagnostics": _findings(program.diagnostics, Source(one.file, program.plan.source)),
        }
    elif one.program is not None:
        details = {"bindings": _chat_bindings(one.program)}
    return ProgramSummary(
        kind=one.kind,
        name=one.name,
        file=one.file,
        digest=one.digest,
        errors=list(one.errors),
        loaded_at=one.loaded_at,
        **details,
    )


def _chat_bindings(agent: chat.Agent) -> Bindings:
    from memoranda.chat.agent import TOOL_NAMES

    model = agent.model if isinstance(agent.model, str) else getattr(agent.model, "name", None)
    return Bindings(
        definitions=tuple(agent.memory_policy.definitions),
        collections=tuple(agent.memory_policy.collections),
        models=() if model is None else (model,),
        tools=(*(tool.name for tool in agent.tools), *(TOOL_NAMES if agent.memory_tools else ())),
    )


def _findings(diagnostics: Iterable[Diagnostic], source: Source) -> list[ProgramFinding]:
    found: list[ProgramFinding] = []
    for one in diagnostics:
        place = source.position(one.span.start)
        found.append(
            ProgramFinding(
                severity=one.severity,
                code=one.code,
                message=one.message,
                hint=one.hint,
                line=place.line,
                column=place.column,
            )
        )
    return found


def _refusal(files: Iterable[_File]) -> Conflict:
    bad = list(files)
    said = "; ".join(f"{one.file}: {one.errors[0].message}" for one in bad)
    return Conflict(
        f"the programs were not reloaded, and nothing was changed: {said}",
        hint="Correct the files, and reload again",
        diagnostics=[{"file": one.file, **msgspec.to_builtins(error)} for one in bad for error in one.errors],
    )


# loading


def load_programs(settings: Settings, memory: Memory, *, counter: ReloadCounter | None = None) -> Programs:
    """Load the programs in the configured folders.

    With `strict`, the first error is raised; otherwise the files with errors are listed with them.
    """
    look = partial(_stamps, settings) if settings.reload else None
    show = partial(_message_without_folders, settings)
    return Programs(memory, partial(_load, settings, memory), show=show, counter=counter, look=look)


def _load(settings: Settings, memory: Memory) -> _Generation:
    stamps = _stamps(settings) if settings.reload else None
    loaders = _Loaders(settings, memory)
    found: list[_File] = []
    for kind, file, load in loaders.files():
        taken = {one.name: one.file for one in found if one.kind == kind and not one.errors}
        try:
            for name, digest, program in load(file):
                if name in taken:
                    raise UsageError(
                        f"there are two {kind.replace('_', ' ')}s {quote(name)}, in {taken[name]} and in {file.name}",
                        hint="Give one of them another name",
                    )
                now = utc_now(memory.clock)
                found.append(_File(kind=kind, name=name, file=file.name, program=program, digest=digest, loaded_at=now))
        except MemorandaError as error:
            if settings.strict:
                raise
            found.append(_File(kind=kind, name=file.stem, file=file.name, errors=_errors(error, file, settings)))
    agents = [one.program for one in found if one.kind == "agent" and not one.errors]
    for agent in agents:
        agent.meet(agents)
    for one in found:
        if one.kind == "chat_agent" and one.program is not None and isinstance(one.program.model, str):
            prepare(one.program.model)
        elif one.kind != "chat_agent" and one.program is not None:
            one.program.prepare()
    return _Generation(files=tuple(found), actions=loaders.actions, stamps=stamps)


_Load: TypeAlias = Callable[[Path], Iterable[tuple[str, str, Any]]]
"""Returns the name, the digest and the program of what is in a file."""


class _Loaders:
    """How each kind of file is loaded, with the settings of the server."""

    def __init__(self, settings: Settings, memory: Memory) -> None:
        self._settings = settings
        self._memory = memory
        self._keep = settings.keep_runs or None
        self._recording = Recording(
            values=settings.step_records, ttl=settings.keep_steps or None, redact=settings.step_redact
        )
        marked = _module_in(settings.workflows, ACTIONS_FILE, "actions")
        self.actions = () if marked is None else (marked,)
        self._tools = _module_in(settings.agents, TOOLS_FILE, "tools")

    def files(self) -> Iterator[tuple[ProgramKind, Path, _Load]]:
        """Yield the files of all folders, with their kinds and how to load them."""
        settings = self._settings
        for file in _files(settings.machines, "machines", ".mashin"):
            yield "machine", file, self._machine
        for file in _files(settings.workflows, "workflows", ".yaml", ".yml"):
            if not file.name.endswith((".tests.yaml", ".tests.yml")):
                yield "workflow", file, self._workflow
        for file in _files(settings.agents, "agents", ".abl"):
            yield "agent", file, self._agent
        chat_file = Path(settings.agents, CHAT_FILE)
        if settings.agents and chat_file.is_file():
            yield "chat_agent", chat_file, _chat_agents

    def _machine(self, file: Path) -> list[tuple[str, str, Any]]:
        behaviour = memoranda.mashin.Behaviour(keep=self._keep, recording=self._recording)
        return _rows_of(memoranda.mashin.load(file, memory=self._memory, behaviour=behaviour))

    def _workflow(self, file: Path) -> list[tuple[str, str, Any]]:
        settings, actions = self._settings, self.actions
        behaviour = memoranda.workflow.Behaviour(
            keep=self._keep, recording=self._recording, on_invalid=settings.on_invalid
        )
        egress = settings.egress_allow
        return _rows_of(
            memoranda.workflow.load(file, memory=self._memory, actions=actions, egress=egress, behaviour=behaviour)
        )

    def _agent(self, file: Path) -> list[tuple[str, str, Any]]:
        behaviour, egress = memoranda.abl.Behaviour(recording=self._recording), self._settings.egress_allow
        return _rows_of(
            memoranda.abl.load(file, memory=self._memory, tools=self._tools, egress=egress, behaviour=behaviour)
        )


def _rows_of(program: Program[Any, Any]) -> list[tuple[str, str, Any]]:
    return [(program.name, program.plan.digest, program)]


def _chat_agents(file: Path) -> list[tuple[str, str, Any]]:
    name, text = read_text(file, endings=(), name=CHAT_FILE)
    return [(agent.id, digest_of(text), agent) for agent in read_chat_agents(text, file=name)]


def _errors(error: MemorandaError, file: Path, settings: Settings) -> tuple[ProgramFinding, ...]:
    """Return what is wrong with a file, without the folder that it is in."""
    if isinstance(error, SourceError):
        _, text = read_text(file, endings=(file.suffix,), name=file.name)
        found = _findings(error.details["diagnostics"], Source(file.name, text))
        return tuple(one for one in found if one.severity == "error")
    message = _message_without_folders(settings, error)
    hint = _without_folders(settings, render_hint(error.advice, NEUTRAL_WORDS))
    return (ProgramFinding(severity="error", code=error.code, message=message, hint=hint),)


def _message_without_folders(settings: Settings, error: MemorandaError) -> str:
    """Return the message of an error without the folders of this machine."""
    message, cause = _without_folders(settings, error.message), error.__cause__
    if cause is None or isinstance(cause, MemorandaError):
        return message
    # A foreign exception may name any file: of its text only what has no path is shown.
    kind = type(cause).__name__
    start, _, said = message.partition(f"{kind}: ")
    return f"{start}{kind}" if "/" in said or "\\" in said else message


def _without_folders(settings: Settings, text: str) -> str:
    folders = [Path(one) for one in (settings.agents, settings.machines, settings.workflows) if one]
    places = {str(form) for one in folders for form in (one, one.absolute(), one.resolve())}
    for place in sorted(places - {"."}, key=len, reverse=True):
        name = Path(place).name
        text = text.replace(f"{place}{os.sep}", "").replace(place, name)
    return text


def _stamps(settings: Settings) -> Any:
    """Return what changes when a file in one of the folders does."""
    folders = (settings.agents, settings.machines, settings.workflows)
    stamps: list[tuple[str, int, int]] = []
    for file in (file for folder in folders if folder for file in Path(folder).glob("*")):
        try:
            state = file.stat()
        except OSError:
            continue  # it was removed a moment ago
        stamps.append((str(file), state.st_mtime_ns, state.st_size))
    return tuple(sorted(stamps))


def _module_in(folder: str, name: str, what: str) -> ModuleType | None:
    file = Path(folder, name)
    return load_module(file, what=what) if folder and file.is_file() else None


def _files(folder: str, setting: str, *endings: str) -> list[Path]:
    """Return the files of a folder with these suffixes, sorted by name; none where no folder is set."""
    if not folder:
        return []
    place = Path(folder)
    if not place.is_dir():
        raise UsageError(
            f"{quote(folder)} is not a folder",
            hint=f"Set `{setting}` to an existing folder, or leave it empty",
            value=folder,
        )
    return sorted(file for file in place.iterdir() if file.suffix in endings and file.is_file())


T = TypeVar("T")


def _find(programs: Mapping[str, T], name: str, what: str) -> T:
    if name not in programs:
        near = closest(name, programs)
        raise NotFound(f"unknown {what} {quote(name)}", hint=f"Did you mean `{near}`?" if near else "")
    return programs[name]
