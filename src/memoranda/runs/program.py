"""Programs: a compiled text, the programs that it can call, its runs, and what is stored of it.

`Program` is the base class of agents, machines and workflows, and `RecordedProgram` of those whose executions are runs.
A text is stored once, in the scope of its program, at `runs.sources.<digest>`. A caller that may write nothing but
runs stores it with each run, at `runs.source`.

A run resumes in one of two ways, and a language has one of them:

- Re-execution over a journal (mashin). The journal holds what the program could not compute. The run executes from its
  first step, takes from the journal what it took before, and skips the events that are in the ledger. Flows, retries
  and failure handlers need no saved stack, and a replay is the same execution without resources.
- A saved position (ABL and workflow). The place in the text is stored with the variables, and execution continues
  there. A session has no last turn, so executing it again would take longer with each message; and the branches of a
  workflow run in threads, in an order that cannot be repeated.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from copy import copy
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar, cast

import msgspec

from memoranda.agent.connection import prepare
from memoranda.agent.models import Model
from memoranda.api.memory import Memory
from memoranda.engine.facts import GetFact, SetFact
from memoranda.errors import Conflict, Denied, Hint, InvalidValue, NotFound, NotInstalled, NotVerified, UsageError
from memoranda.governance.runs import RecordRun
from memoranda.lang.diagnostics import Diagnostic
from memoranda.lang.document import read_text
from memoranda.lang.scripts import Report
from memoranda.lang.source import digest_of
from memoranda.model.event import GENESIS, OVER, Language, RunSummary
from memoranda.model.fact import Fact
from memoranda.model.program import Bindings
from memoranda.model.scope import Scope
from memoranda.model.text import check_reason, quote
from memoranda.model.value import decode, encode, encode_checked
from memoranda.runs.outcome import Failure, Outcome, Unrecorded
from memoranda.runs.recorder import Recorder
from memoranda.runs.steps import Recording, StepLog
from memoranda.runs.storage import (
    OWN_SOURCE,
    JournalEntry,
    StoredRun,
    closing_writes,
    opening_writes,
    read_run,
    run_scope,
)

if TYPE_CHECKING:
    from memoranda.runs.run import RunHandle

_SCOPE_KINDS: dict[Language, str] = {"mashin": "agent", "workflow": "workflow"}
PROGRAM_WORDS: dict[Language, str] = {"mashin": "machine", "workflow": "workflow"}
"""What messages call a program of each language."""


class ProgramText(msgspec.Struct, frozen=True):
    """The source text of a program and the name of its file."""

    source: str
    file: str

    @classmethod
    def of(cls, source: str, file: str) -> ProgramText:
        """Leave out the folders of the file: texts are exported, and folders identify people and computers."""
        return cls(source, PurePath(file).name)


def describe_program(summary: RunSummary) -> str:
    """Return the kind and the name of a run's program, for messages."""
    return f"{PROGRAM_WORDS[summary.language]} {quote(summary.program)}"


# stored texts


def store_source(memory: Memory, language: Language, name: str, digest: str, text: ProgramText) -> bool:
    """Store the text of a program once for all of its runs; return False where that is not allowed."""
    scope, key = _place(memory.tenant, language, name, digest)
    write = SetFact(scope=scope, key=key, payload=msgspec.Raw(encode(text)), expect=0)
    look = GetFact(scope=scope, key=key)
    if memory.may(look) and memory.perform(look) is not None:
        return True
    if not memory.may(write):
        return False
    try:
        memory.perform(write)
    except Conflict:
        pass  # Another process stored the same text at the same moment.
    return True


def source_write(run: Scope, text: ProgramText) -> SetFact:
    """Return the write that stores the text of a program with one run."""
    return SetFact(scope=run, key=OWN_SOURCE, payload=msgspec.Raw(encode(text)))


def read_source(memory: Memory, stored: StoredRun) -> ProgramText:
    """Return the text that a run began with; raise NotFound, or NotVerified where the stored text is another."""
    summary = stored.summary
    source: Any = stored.source
    if source is None:
        scope, key = _place(memory.tenant, summary.language, summary.program, summary.digest)
        fact: Fact | None = memory.perform(GetFact(scope=scope, key=key))
        if fact is None:
            raise NotFound(
                f"the text of the {describe_program(summary)} is not stored here",
                hint="Load it, and find the run there",
            )
        source = fact.value
    text = msgspec.convert(source, ProgramText)
    if digest_of(text.source) != summary.digest:
        raise NotVerified(
            f"the stored text of the {describe_program(summary)} is not the one that the run {quote(summary.id)} "
            "began with",
            hint="Load the program, and find the run there",
            run=summary.id,
        )
    return text


def _place(tenant: str, language: Language, name: str, digest: str) -> tuple[Scope, str]:
    return Scope.of(tenant=tenant, **{_SCOPE_KINDS[language]: name}), f"runs.sources.{digest}"


# who may run what


class Uninstalled(msgspec.Struct, frozen=True):
    """Why a program does not run: its text comes from the store, and was not loaded here."""

    run: RunSummary
    installed: str | None = None
    """The digest of the loaded program with the same name."""

    def error(self) -> NotInstalled:
        """Return the error to raise."""
        program = describe_program(self.run)
        if self.installed is None:
            message = f"the {program} of the run {quote(self.run.id)} is not installed here"
        else:
            message = (
                f"the {program} is installed here with the digest `{self.installed}`, and the run "
                f"{quote(self.run.id)} began with `{self.run.digest}`"
            )
        return NotInstalled(
            message,
            hint=(
                "Install the text that it began with",
                "Cancel the run",
                Hint("python", "Pass kept_text=True as the program that opened the memory"),
            ),
            run=self.run.id,
            expected=self.run.digest,
            actual=self.installed,
        )


def why_uninstalled(
    memory: Memory, kept_text: bool | None, summary: RunSummary, installed: str | None
) -> Uninstalled | None:
    """Return why a program from a stored text does not run; None where it may.

    A stored text is only as trustworthy as everyone who can write to the store. So it runs for the program that opened
    the store, and for other handles only where that program passed `kept_text`.
    """
    allowed = memory.is_owner if kept_text is None else kept_text
    return None if allowed else Uninstalled(summary, installed)


def check_language(summary: RunSummary, language: Language) -> None:
    """Refuse a run of another language."""
    if summary.language != language:
        raise UsageError(
            f"{_whose(summary)}, not of a {PROGRAM_WORDS[language]}",
            hint=Hint("python", f"Find it with memoranda.{summary.language}.find(…)"),
            value=summary.id,
        )


def check_program(summary: RunSummary, language: Language, name: str) -> None:
    """Refuse a run of another program."""
    if (summary.language, summary.program) != (language, name):
        hint = ("Load that one", Hint("python", f"Find it with memoranda.{summary.language}.find(…)"))
        raise UsageError(_whose(summary), hint=hint, value=summary.id)


def check_resumable(summary: RunSummary, *, digest: str, actor: str) -> None:
    """Refuse to resume a run that began with another text of its program, or for another actor."""
    if summary.digest != digest:
        raise Conflict(
            f"the run {quote(summary.id)} began with another text of the {describe_program(summary)}",
            hint=("Load that text", Hint("python", f"Use memoranda.{summary.language}.resume(…), which has it")),
            expected=summary.digest,
            actual=digest,
        )
    if summary.actor != actor:
        raise Denied(
            f"the run {quote(summary.id)} was begun by `{summary.actor}`, and `{actor}` has other rights",
            hint=f"Let `{summary.actor}` resume it",
            actor=actor,
        )


def _whose(summary: RunSummary) -> str:
    return f"the run {quote(summary.id)} is one of the {describe_program(summary)}"


# programs


class CompiledText(Protocol):
    """What every compiled text has."""

    @property
    def name(self) -> str:
        """The name of the program."""
        ...

    @property
    def source(self) -> str:
        """The text."""
        ...

    @property
    def digest(self) -> str:
        """The hash of the text."""
        ...


PlanT = TypeVar("PlanT", bound=CompiledText)
KitT = TypeVar("KitT", bound="Kit")
AnyProgram = TypeVar("AnyProgram", bound="Program[Any, Any]")
Recorded = TypeVar("Recorded", bound="RecordedProgram[Any, Any, Any]")
Run = TypeVar("Run", bound="RunHandle[Any]")


class Kit(msgspec.Struct, frozen=True, kw_only=True):
    """What a program is loaded with besides its text; a language adds its own fields."""

    kept_text: bool | None = None
    """Whether stored texts may run; None means only on the handle that opened the store."""


class Replay(Protocol):
    """A run or a session that was executed again."""

    @property
    def same(self) -> bool:
        """Whether nothing differs from what was recorded."""
        ...


def distinct(names: Iterable[str | None]) -> tuple[str, ...]:
    """Return the names, each once, in order."""
    return tuple(dict.fromkeys(name for name in names if name))


class Compiled(msgspec.Struct, Generic[PlanT], frozen=True, kw_only=True):
    """A compiled text: its plan, its diagnostics, and what it needs that was not given."""

    plan: PlanT
    diagnostics: tuple[Diagnostic, ...]
    lacking: tuple[str, ...] = ()


class ActiveRun(NamedTuple):
    """A run that this process executes: its summary, what it began with, its scope, and the recorder of its events."""

    summary: RunSummary
    begun: Any
    scope: Scope
    recorder: Recorder


class Program(ABC, Generic[PlanT, KitT]):
    """A compiled text, the programs that it can call, and the memory that it works on."""

    ENDINGS: ClassVar[tuple[str, ...]]
    """The endings of its files."""
    UNNAMED: ClassVar[str]
    """The name of a file that is given as text."""
    DOOR: ClassVar[str | None] = None
    """What events say that they came through, unless its runs say so."""

    def __init__(self, compiled: Compiled[PlanT], kit: KitT, *, memory: Memory, file: str) -> None:
        """Create a program without peers; `meet` adds those it may call."""
        self._plan = compiled.plan
        self._kit = kit
        self._lacking = compiled.lacking
        self.diagnostics = compiled.diagnostics
        """The warnings and notes about its text."""
        self.file = file
        self._peers: dict[str, Self] = {}
        self._prepared = False
        self._attach(memory)

    @classmethod
    @abstractmethod
    def compile(
        cls, text: str, file: str, kit: KitT, *, name: str | None = None, stored: bool = False
    ) -> Compiled[PlanT]:
        """Compile a text; raise a SourceError with everything wrong with it.

        A `stored` text may lack what it was loaded with: its runs can be inspected then, but not resumed.
        """

    @abstractmethod
    def test(self) -> Report[Any]:
        """Run its tests, each on a memory of its own, without a network or a key."""

    def replay(self, id: str) -> Replay:
        """Execute a run or a session again on what was recorded, without effects, and compare."""
        raise UsageError(
            f"{quote(self.name)} cannot be replayed: branches that run at the same time have no recorded order",
            hint="Look at the events of the run",
            value=id,
        )

    def prepare(self) -> None:
        """Begin to import the clients of the models that it asks, in a thread, so that the first request waits less."""
        if not self._prepared:
            self._prepared = True
            prepare(*self._models_in_use())

    def _models_in_use(self) -> Iterable[Model | str | None]:
        """Return the models that its runs may ask, or their names."""
        return ()

    def meet(self, programs: Iterable[Self]) -> None:
        """Let it call these programs, and those that they can call; of two with one name, the first."""
        for program in programs:
            for other in (program, *program._peers.values()):
                self._peers.setdefault(other.name, other)

    def on(self, memory: Memory) -> Self:
        """Return the same program on another memory handle, with the permissions of that handle.

        Nothing is compiled again. The two do not share loaded sessions.
        """
        if memory is self._memory:
            return self
        other = copy(self)
        other._attach(memory)
        return other

    def _attach(self, memory: Memory) -> None:
        """Set the memory handle, and start over with what depends on it."""
        self._memory = memory if self.DOOR is None else memory.through(self.DOOR, origin="agent")
        self._text_stored = False
        self._peers = {**self._peers, self.name: self}

    @property
    def name(self) -> str:
        """The name that other programs call it by."""
        return self._plan.name

    @property
    def plan(self) -> PlanT:
        """Its compiled text."""
        return self._plan

    @property
    def memory(self) -> Memory:
        """The memory that it was loaded with, or moved to."""
        return self._memory

    @property
    @abstractmethod
    def inputs(self) -> dict[str, Any] | None:
        """JSON schema of its input; None if it takes any."""

    @property
    @abstractmethod
    def bindings(self) -> Bindings:
        """The memory, models, tools and programs that it uses."""

    def __repr__(self) -> str:
        """Return its name and its file."""
        return f"<{type(self).__module__.rpartition('.')[0]}.{type(self).__name__} {self.name} from {self.file}>"


class RecordedProgram(Program[PlanT, KitT], Generic[PlanT, KitT, Run]):
    """A program whose executions are runs: recorded in the ledger, stored when they pause, and resumed."""

    LANGUAGE: ClassVar[Language]
    BEGUN: ClassVar[type[Any]]
    """The struct of what a run began with."""

    uninstalled: Uninstalled | None = None
    """Why it may not run here."""

    # what a language adds

    @abstractmethod
    def _handle(self, stored: StoredRun) -> Run:
        """Return the handle of a run."""

    @abstractmethod
    def resume_run(self, stored: StoredRun, entry: JournalEntry | None) -> Run:
        """Resume a run with what it waited for; None if that was the run of another program."""

    @property
    @abstractmethod
    def recording(self) -> Recording:
        """What is recorded of the steps of its runs."""

    @abstractmethod
    def _seconds_kept(self, begun: Any) -> int | None:
        """Return how long a run is kept after its end."""

    @abstractmethod
    def _lacking_error(self) -> UsageError:
        """Return the error for a program without something that it needs."""

    @property
    def actor(self) -> str:
        """The actor of its runs: that of the memory; for the owner of the memory, a machine is its own actor."""
        return self._keeper.actor

    @property
    def _keeper(self) -> Memory:
        """The handle that records its runs."""
        return self._memory

    def _own_scope(self, run: ActiveRun) -> Scope | None:
        """Return the scope of facts that end with a run."""
        return None

    # runs

    def find(self, id: str) -> Run:
        """Return a run of this program that began earlier, in this process or another."""
        stored = read_run(self._memory, id)
        check_program(stored.summary, self.LANGUAGE, self.name)
        return self._handle(stored)

    def find_called(self, id: str, *, verified: bool = True) -> Run:
        """Return a run that this program called, with the text that the run began with.

        It is `verified` unless it is only to be cancelled: its output is used in the run that called it.
        """
        stored = read_run(self._memory, id, verified=verified)
        summary = stored.summary
        program = self._peers.get(summary.program)
        if program is None or program.plan.digest != summary.digest:
            installed = None if program is None else program.plan.digest
            program = _load_stored(type(self), self._memory, stored, self._kit, installed=installed)
            program.meet(self._peers.values())
            if program.is_installed and not program._lacking:
                # The run may call it again, and it may not have been loaded here.
                self._peers.setdefault(program.name, program)
        return program.on(self._memory)._handle(stored)

    def cancel_run(self, stored: StoredRun, reason: str) -> Run:
        """Cancel a run that waits, or whose process is gone."""
        run = self._reopen(stored)
        ends = self._own_scope(run)
        check_reason(reason)
        run.recorder.note("exec_end", detail={"status": "cancelled"})
        failure = Failure(type="cancelled", message=reason or "the run was cancelled")
        outcome = Outcome(status="cancelled", error=failure)
        try:
            return self._handle(self._close(run, outcome, stored.entries, steps=stored.summary.steps, ends=ends))
        except Unrecorded as broken:
            raise broken.error from broken

    @property
    def is_installed(self) -> bool:
        """Whether it may run: its text was loaded here, or stored texts may run."""
        return self.uninstalled is None

    def ensure_installed(self) -> None:
        """Refuse to run a text that comes from the store and was not loaded here."""
        if self.uninstalled is not None:
            raise self.uninstalled.error()

    def ensure_ready(self) -> None:
        """Refuse to run a text that was not loaded here, or that lacks something it needs."""
        self.ensure_installed()
        if self._lacking:
            raise self._lacking_error()

    # one execution

    def _begin(self, id: str, begun: Any, *, scope: Scope, mode: str = "live", parent: str | None = None) -> ActiveRun:
        """Return a new run; the text of the program is stored, the run with its first events."""
        keeper = self._keeper
        summary = RunSummary(
            id=id,
            language=self.LANGUAGE,
            program=self.name,
            digest=self.plan.digest,
            status="running",
            mode=mode,
            actor=keeper.actor,
            scope=scope.path,
            started_at=self._memory.clock.now(),
            parent=parent,
        )
        place = run_scope(keeper.tenant, id)
        if not self._text_stored and keeper.may(RecordRun(scope=place, run=id, index=0, previous=GENESIS)):
            self._text_stored = store_source(keeper, self.LANGUAGE, self.name, self.plan.digest, self._text)
        recorder = Recorder(keeper, place, id, owner=scope if scope.path else None)
        self._record_steps(recorder, summary, begun)
        recorder.opening = lambda: (*self._text_writes(place), *opening_writes(place, summary, begun))
        return ActiveRun(summary, begun, place, recorder)

    def _reopen(self, stored: StoredRun, *, passed: int = 0) -> ActiveRun:
        """Return a stored run, to resume or to cancel it; skip the first `passed` events that it makes again."""
        summary = stored.summary
        check_resumable(summary, digest=self.plan.digest, actor=self.actor)
        begun = msgspec.convert(stored.begun, self.BEGUN)
        running = msgspec.structs.replace(summary, status="running", waiting=None)
        place = run_scope(self._memory.tenant, summary.id)
        recorder = Recorder(self._keeper, place, summary.id, index=summary.events, head=summary.head, passed=passed)
        self._record_steps(recorder, summary, begun, stored.entries)
        recorder.opening = lambda: opening_writes(place, running, begun)
        return ActiveRun(running, begun, place, recorder)

    def _record_steps(
        self, recorder: Recorder, summary: RunSummary, begun: Any, entries: Iterable[JournalEntry] = ()
    ) -> None:
        """Let the steps of a run be recorded, where they are to be; `entries` are from its earlier executions."""
        if self.recording.is_on:
            clock, last = self._memory.clock, summary.recorded
            log = StepLog(self.recording, clock=clock, salt=summary.id, last=last, is_known=recorder.is_known)
            log.learn_secrets((begun, tuple(entries)))
            recorder.steps = log

    def _close(
        self,
        run: ActiveRun,
        outcome: Outcome,
        entries: Iterable[JournalEntry],
        *,
        steps: int,
        ends: Scope | None = None,
    ) -> StoredRun:
        """Store a run that has ended or waits, with its last events, and end a scope of its own."""
        over = outcome.status in OVER
        summary = msgspec.structs.replace(
            run.summary,
            status=outcome.status,
            ended_at=self._memory.clock.now() if over else None,
            steps=steps,
            error=msgspec.to_builtins(outcome.error) if outcome.error else None,
            waiting=msgspec.to_builtins(outcome.waiting) if outcome.waiting else None,
        )
        entries = tuple(entries)
        ttl = self._seconds_kept(run.begun) if over else None
        writes: tuple[SetFact, ...] = ()
        if run.recorder.steps is not None:
            writes = run.recorder.steps.writes(run.scope)
            summary = msgspec.structs.replace(summary, recorded=run.recorder.steps.last)
        writes += closing_writes(run.scope, summary, run.begun, entries, outcome.output, ttl=ttl)
        run.recorder.flush((*self._text_writes(run.scope), *writes), ends=ends)
        summary = msgspec.structs.replace(summary, events=run.recorder.index, head=run.recorder.head)
        return StoredRun(summary=summary, begun=run.begun, entries=entries, output=outcome.output)

    @property
    def _text(self) -> ProgramText:
        return ProgramText.of(self.plan.source, self.file)

    def _text_writes(self, run: Scope) -> tuple[SetFact, ...]:
        """Return the write that stores the text with a run, if it could not be stored once for all runs."""
        return () if self._text_stored else (source_write(run, self._text),)

    def _copy(self, what: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return a JSON copy, so that the caller cannot change it during the run."""
        if given is None:
            return {}
        if not isinstance(cast(object, given), Mapping):
            message = f"the {what} {quote(given)} is {type(given).__name__}, not a map"
            raise InvalidValue(message, hint='Pass a dict such as {"text": "…"}', path="$")
        return decode(encode_checked(dict(given), self._memory.limits))


# loading


def load_program(
    kind: type[Recorded],
    source: str | os.PathLike[str],
    kit: Kit,
    *,
    memory: Memory,
    peers: Iterable[Recorded | str | os.PathLike[str]] = (),
    name: str | None = None,
) -> Recorded:
    """Compile a program, and those that it can call where they are given as sources."""
    others = _load_peers(kind, peers, kit, memory)
    program = compile_program(kind, source, kit, memory, name=name)
    program.meet(others)
    return program


def compile_program(
    kind: type[AnyProgram], source: str | os.PathLike[str], kit: Kit, memory: Memory, *, name: str | None = None
) -> AnyProgram:
    """Compile a program without peers."""
    file, text = read_text(source, endings=kind.ENDINGS, name=kind.UNNAMED)
    return kind(kind.compile(text, file, kit, name=name), kit, memory=memory, file=file)


def find_run(
    kind: type[RecordedProgram[Any, Any, Run]],
    memory: Memory,
    id: str,
    kit: Kit,
    peers: Iterable[Any],
    *,
    resume: bool = False,
) -> Run:
    """Return a run with the stored text of its program; with `resume`, resume it if what it waits for is there."""
    stored = read_run(memory, id)
    check_language(stored.summary, kind.LANGUAGE)
    others = _load_peers(kind, peers, kit, memory)
    installed = next((one.plan.digest for one in others if one.name == stored.summary.program), None)
    program = _load_stored(kind, memory, stored, kit, installed=installed)
    program.meet(others)
    run = program.find(id)
    return run.resume() if resume and run.status == "waiting" else run


def _load_stored(
    kind: type[Recorded], memory: Memory, stored: StoredRun, kit: Kit, *, installed: str | None
) -> Recorded:
    """Compile the program of a run from its stored text; `why_uninstalled` decides whether it may run."""
    text, summary = read_source(memory, stored), stored.summary
    compiled = kind.compile(text.source, text.file, kit, name=summary.program, stored=True)
    program = kind(compiled, kit, memory=memory, file=text.file)
    program.uninstalled = why_uninstalled(memory, kit.kept_text, summary, installed)
    return program


def _load_peers(
    kind: type[Recorded], given: Iterable[Recorded | str | os.PathLike[str]], kit: Kit, memory: Memory
) -> list[Recorded]:
    """Load the programs that are given as sources, let them call all of the programs, and return these."""
    loaded: list[Recorded] = []
    peers: list[Recorded] = []
    for one in given:
        if isinstance(one, str | os.PathLike):
            loaded.append(compile_program(kind, one, kit, memory))
            peers.append(loaded[-1])
        else:
            peers.append(one)
    names = [program.name for program in peers]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"there are two {PROGRAM_WORDS[kind.LANGUAGE]}s {quote(name)}", hint="Give each a name of its own"
            )
    for program in loaded:
        program.meet(peers)
    return peers
