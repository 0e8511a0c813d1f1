"""A machine that is compiled once and run many times."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import msgspec

from memoranda.agent.connection import connect
from memoranda.agent.models import Model
from memoranda.api.memory import Memory
from memoranda.engine.facts import SetFact
from memoranda.errors import (
    Conflict,
    Denied,
    Hint,
    InvalidValue,
    MemorandaError,
    ModelUnavailable,
    UsageError,
)
from memoranda.governance.runs import HoldStep
from memoranda.lang.diagnostics import Diagnostic, source_error
from memoranda.lang.expression.dialect import ExpressionRun as Drawing
from memoranda.mashin.behaviour import DEFAULT_BEHAVIOUR, Behaviour, Budget
from memoranda.mashin.checker import check_source
from memoranda.mashin.document import Document
from memoranda.mashin.guards import ActiveGuard, Rule, activate, missing, missing_guard
from memoranda.mashin.plan import Plan, compile_machine
from memoranda.mashin.run import Run, make_execution
from memoranda.mashin.runtime.execution import (
    Begun,
    CallResult,
    Chosen,
    Execution,
    Resources,
    RunMode,
    Spending,
    step_failed,
)
from memoranda.mashin.runtime.flow import execute
from memoranda.model.event import OVER, RunSummary
from memoranda.model.policy import Policy
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import decode, encode_checked
from memoranda.runs.outcome import Outcome, Unrecorded, Waiting
from memoranda.runs.program import (
    ProgramText,
    Uninstalled,
    check_program,
    check_resumable,
    read_source,
    source_write,
    store_source,
    why_uninstalled,
)
from memoranda.runs.recorder import Recorder, record_cancellation
from memoranda.runs.storage import Journal, JournalEntry, StoredRun, closing_writes, opening_writes, read_run, run_scope

if TYPE_CHECKING:
    from memoranda.mashin.machine_tests import Report

_KEEPER = Policy.of(allow=("runs", "memory.read", "memory.write"))


class Machine:
    """A compiled machine; `load` makes these.

    >>> import memoranda
    >>> text = '''
    ... machine double
    ...   accepts
    ...     n as number, is required
    ...   implements
    ...     compute twice
    ...       { result: input.n * 2 }
    ...   verifies
    ...     test "two is four"
    ...       given { n: 2 }
    ...       expect { result: 4 }
    ... '''
    >>> with memoranda.open(":memory:") as memory:
    ...     machine = memoranda.mashin.load(text, memory=memory)
    ...     run = machine.run({"n": 4})
    ...     run.output, machine.find(run.id).steps, machine.test().passed
    ({'result': 8}, {'twice': {'result': 8}}, 1)
    """

    def __init__(
        self,
        plan: Plan,
        kit: Kit,
        *,
        memory: Memory,
        diagnostics: tuple[Diagnostic, ...],
        file: str,
        lacking: tuple[str, ...] = (),
        uninstalled: Uninstalled | None = None,
    ) -> None:
        """Create a machine without peers; `meet` adds those it may call."""
        self._plan = plan
        self._kit = kit
        self._memory = memory
        self._models: dict[str, Model] = {}
        self._guards = activate(plan.guards, {**kit.guards, **dict.fromkeys(lacking, missing_guard)})
        self._lacking = lacking
        self._uninstalled = uninstalled
        self.diagnostics = diagnostics
        """The warnings and notes about its text."""
        self.file = file
        self._text = ProgramText.of(plan.source, file)
        self._others: dict[str, Machine] = {self.name: self}
        self._stored = False
        """Whether its text is stored once for all of its runs."""

    def meet(self, machines: Iterable[Machine]) -> None:
        """Let it call these machines, and those that they can call; of two with one name, the first."""
        for machine in machines:
            for other in (machine, *machine._others.values()):
                self._others.setdefault(other.name, other)

    @property
    def name(self) -> str:
        """Its name."""
        return self._plan.name

    @property
    def plan(self) -> Plan:
        """Its compiled text."""
        return self._plan

    @property
    def document(self) -> Document:
        """Its parsed text."""
        return self._plan.document

    @property
    def memory(self) -> Memory:
        """The memory that it was loaded with."""
        return self._memory

    @property
    def actor(self) -> str:
        """The actor of its runs: the machine itself for the owner of the memory, else the actor of the memory."""
        return self._resources(Scope(self._memory.tenant)).keeper.actor

    @property
    def behaviour(self) -> Behaviour:
        """The choices that the language leaves open."""
        return self._kit.behaviour

    @property
    def guards(self) -> tuple[ActiveGuard, ...]:
        """The guards of its steps."""
        return self._guards

    def run(
        self,
        input: Mapping[str, Any] | None = None,
        *,
        mode: RunMode = "live",
        user: str | None = None,
        scope: Scope | str | None = None,
        context: Mapping[str, Any] | None = None,
        budget: Budget | None = None,
        assuming: Mapping[str, Any] | None = None,
    ) -> Run:
        """Run the machine and return the run; `run.check()` raises if it failed.

        Input that does not fit is refused with a SchemaViolation, and nothing is recorded. What it remembers belongs
        to the `user` or the `scope`, by default to the whole tenant. In `mode="test"` nothing is remembered and no
        model is asked; `assuming` gives the values of steps.
        """
        if mode not in ("live", "test"):
            raise UsageError(f"{quote(mode)} is not a mode", hint="Modes are live and test", value=mode)
        if assuming and mode == "live":
            raise UsageError("only a test can assume something", hint=Hint("python", 'Pass mode="test" too'))
        self._check_needs(mode)
        begun = Begun(
            input=self.plan.accepts.accept(self._copy("input", input), run=self._drawing()),
            context=self._copy("context", context),
            budget=budget or self.behaviour.budget,
            chosen=Chosen.of(self.behaviour),
        )
        place = self._place(user, scope)
        return self._start(begun, mode=mode, scope=place, assumed=self._copy("assumption", assuming))

    def find(self, id: str) -> Run:
        """Return a run of this machine that began earlier, in this process or another."""
        kept = read_run(self._memory, id)
        check_program(kept.summary, "mashin", self.name)
        return Run(self, kept)

    def test(self) -> Report:
        """Run the tests of its `verifies` section, each on a memory of its own, without a network or a key."""
        from memoranda.mashin.machine_tests import run_tests

        return run_tests(self)

    def on(self, memory: Memory) -> Machine:
        """Return the same machine on another memory."""
        if memory is self._memory:
            return self
        other = object.__new__(Machine)
        other.__dict__.update(self.__dict__, _memory=memory, _stored=False)
        other._others = {**self._others, self.name: other}
        return other

    @property
    def is_installed(self) -> bool:
        """Whether it may run: its text was loaded here, or stored texts may run."""
        return self._uninstalled is None

    def ensure_installed(self) -> None:
        """Refuse to run a text that comes from the store and was not loaded here."""
        if self._uninstalled is not None:
            raise self._uninstalled.error()

    def ensure_ready(self) -> None:
        """Refuse to run a text that was not loaded here, or that lacks guards."""
        self.ensure_installed()
        if self._lacking:
            raise UsageError(
                f"the machine {quote(self.name)} needs the guard {quote(self._lacking[0])}, which was not given",
                hint=Hint("python", f"Pass guards={{{self._lacking[0]!r}: function}}, as for load"),
                missing=self._lacking,
            )

    # for its runs

    def resume_run(self, kept: StoredRun, entry: JournalEntry | None, *, spending: Spending | None = None) -> Run:
        """Resume a run with what it waited for."""
        self.ensure_ready()
        summary = self._check_resumable(kept)
        begun = Begun.read(kept.begun)
        entries = kept.entries if entry is None else (*kept.entries, entry)
        memory = self._memory
        scope = Scope.parse(summary.scope, tenant=memory.tenant) if summary.scope else Scope(memory.tenant)
        resources = self._resources(scope)
        place = run_scope(memory.tenant, summary.id)
        recorder = Recorder(
            resources.keeper, place, summary.id, index=summary.events, head=summary.head, passed=summary.events
        )
        running = msgspec.structs.replace(summary, status="running", waiting=None)
        recorder.opening = lambda: opening_writes(place, running, begun)
        return self._execute(
            running,
            begun,
            Journal(entries, limits=memory.limits),
            recorder,
            spending or Spending(begun.budget, begun.before),
            resources,
            waiting=msgspec.convert(summary.waiting, Waiting) if summary.waiting else None,
        )

    def cancel_run(self, kept: StoredRun, reason: str) -> Run:
        """Cancel a run that waits, or whose process is gone."""
        summary = self._check_resumable(kept)
        place = run_scope(self._memory.tenant, summary.id)
        keeper = self._resources(Scope.parse(summary.scope, tenant=self._memory.tenant)).keeper
        recorder = Recorder(keeper, place, summary.id, index=summary.events, head=summary.head)
        cancelled = record_cancellation(recorder, summary, reason, at=self._memory.clock.now())
        begun = Begun.read(kept.begun)
        writes = closing_writes(place, cancelled, begun, kept.entries, None, ttl=begun.chosen.keep)
        try:
            recorder.flush((*self._source_writes(place), *writes))
        except Unrecorded as broken:
            raise broken.error from broken
        ended = msgspec.structs.replace(cancelled, events=recorder.index, head=recorder.head)
        return Run(self, msgspec.structs.replace(kept, summary=ended, output=None))

    def _check_resumable(self, kept: StoredRun) -> RunSummary:
        check_resumable(kept.summary, digest=self.plan.digest, actor=self.actor)
        return kept.summary

    # calls between machines

    def run_for(self, inputs: dict[str, Any], by: Execution) -> CallResult:
        """Run for another machine: under its own permissions, within the budget of the caller."""
        self._check_needs(by.mode)
        accepted = self.plan.accepts.accept(self._copy("input", inputs), run=self._drawing())
        spending = by.spending
        begun = Begun(
            input=accepted,
            context=by.context,
            budget=spending.budget,
            chosen=Chosen.of(self.behaviour),
            before=spending.since(),
        )
        assert by.resources is not None, "a replay calls no machine"
        # On the memory of the caller, so that it has no more rights than that.
        machine, scope = self.on(by.resources.base), by.resources.scope
        with _nesting(spending, self.behaviour.machines):
            return _call_result(machine._start(begun, mode=by.mode, scope=scope, spending=spending, parent=by.id))

    def find_called(self, id: str, *, verified: bool = True) -> Run:
        """Return a run that this machine called, with the text that the run began with.

        It is `verified` unless it is only to be cancelled: its output is used in the run that called it.
        """
        kept = read_run(self._memory, id, verified=verified)
        summary = kept.summary
        machine = self._others.get(summary.program)
        if machine is None or machine.plan.digest != summary.digest:
            installed = None if machine is None else machine.plan.digest
            machine = make_stored_machine(self._memory, kept, self._kit, installed=installed)
            machine.meet(self._others.values())
            if machine.is_installed:
                # The run may call it again, and it may not have been loaded here.
                self._others.setdefault(machine.name, machine)
        return Run(machine.on(self._memory), kept)

    def _resume_called(self, id: str, caller: Execution) -> CallResult:
        with _nesting(caller.spending, self.behaviour.machines):
            run = self.find_called(id)
            if run.status == "waiting":
                return _call_result(run.resume(spending=caller.spending))
            caller.spending.add(run.used)
            return _call_result(run)

    # one execution

    def _start(
        self,
        begun: Begun,
        *,
        mode: RunMode,
        scope: Scope,
        assumed: Mapping[str, Any] | None = None,
        spending: Spending | None = None,
        parent: str | None = None,
    ) -> Run:
        self.ensure_ready()
        memory = self._memory
        id = memory.ids.new("run")
        resources = self._resources(scope)
        keeper = resources.keeper
        place = run_scope(memory.tenant, id)
        summary = RunSummary(
            id=id,
            language="mashin",
            program=self.name,
            digest=self.plan.digest,
            status="running",
            mode=mode,
            actor=keeper.actor,
            scope=scope.path,
            started_at=memory.clock.now(),
            parent=parent,
        )
        if not self._stored:
            self._stored = store_source(keeper, "mashin", self.name, self.plan.digest, self._text)
        recorder = Recorder(keeper, place, id, owner=scope if scope.path else None)
        recorder.opening = lambda: (*self._source_writes(place), *opening_writes(place, summary, begun))
        journal = Journal(limits=memory.limits)
        return self._execute(
            summary, begun, journal, recorder, spending or Spending(begun.budget), resources, assumed=assumed
        )

    def _execute(
        self,
        summary: RunSummary,
        begun: Begun,
        journal: Journal,
        recorder: Recorder,
        spending: Spending,
        resources: Resources,
        *,
        assumed: Mapping[str, Any] | None = None,
        waiting: Waiting | None = None,
    ) -> Run:
        memory = self._memory
        execution = make_execution(
            self,
            summary,
            begun,
            journal=journal,
            recorder=recorder,
            spending=spending,
            resources=resources,
            assumed=assumed,
            waiting=waiting,
        )
        place = run_scope(memory.tenant, summary.id)
        before = spending.totals()

        def keep(outcome: Outcome) -> StoredRun:
            if outcome.waiting is not None and outcome.waiting.kind == "approval":
                held = self._request_approval(resources.keeper, place, summary.id, outcome.waiting)
                outcome = msgspec.structs.replace(outcome, waiting=held)
            over = outcome.status in OVER
            ended = msgspec.structs.replace(
                summary,
                status=outcome.status,
                ended_at=memory.clock.now() if over else None,
                steps=spending.steps,
                error=msgspec.to_builtins(outcome.error) if outcome.error else None,
                waiting=msgspec.to_builtins(outcome.waiting) if outcome.waiting else None,
            )
            ttl = begun.chosen.keep if over else None
            used = msgspec.structs.replace(begun, used=spending.since(before))
            writes = closing_writes(place, ended, used, journal.entries, outcome.output, ttl=ttl)
            recorder.flush((*self._source_writes(place), *writes))
            ended = msgspec.structs.replace(ended, events=recorder.index, head=recorder.head)
            return StoredRun(summary=ended, begun=used, entries=tuple(journal.entries), output=outcome.output)

        return Run(self, execute(execution, keep), steps=execution.steps)

    def _request_approval(self, keeper: Memory, place: Scope, run: str, waiting: Waiting) -> Waiting:
        about = {"machine": self.name, "run": run, **waiting.about}
        hold = HoldStep(scope=place, run=run, step=waiting.step, needs=waiting.capability or "", about=about)
        return msgspec.structs.replace(waiting, approval=keeper.perform(hold).id)

    def _source_writes(self, run: Scope) -> tuple[SetFact, ...]:
        """Return the write that stores the text with a run, unless it is stored for all of them."""
        return () if self._stored else (source_write(run, self._text),)

    # resources

    def _resources(self, scope: Scope) -> Resources:
        memory = self._memory
        policy = self.plan.permissions.policy()
        try:
            # For the owner of the memory the machine is the actor, so that the owner can approve what it asks for.
            actor = f"machine:{self.name}"
            own = memory.acting_as(actor, policy=policy, door="mashin")
            keeper = memory.acting_as(actor, policy=_KEEPER, door="mashin")
        except Denied:
            own = memory.narrowed(policy).through("mashin")
            keeper = memory.through("mashin")
        return Resources(
            base=memory,
            memory=own,
            keeper=keeper,
            scope=scope,
            machines=self._others,
            resume=self._resume_called,
            model=self._model,
        )

    def _model(self, name: str | None) -> Model:
        if self._kit.model is not None:
            return self._kit.model
        if name is None:
            raise ModelUnavailable(
                "the step names no model", hint=('Write `using: "provider:model"`', Hint("load", "model")), model=None
            )
        if name not in self._models:
            self._models[name] = connect(name)
        return self._models[name]

    def _check_needs(self, mode: RunMode) -> None:
        if mode == "test":
            return
        missing = [name for name in self.plan.needs if not self._setting(name)]
        if missing:
            raise UsageError(
                f"the machine {quote(self.name)} needs {', '.join(map(quote, missing))}, which is not set",
                hint=(
                    Hint("set", missing[0].upper()),
                    Hint("python", f"Pass load(settings={{'{missing[0]}': …}})"),
                ),
                missing=missing,
            )

    def _setting(self, name: str) -> str | None:
        return self._kit.settings.get(name) or os.environ.get(name) or os.environ.get(name.upper())

    def _place(self, user: str | None, scope: Scope | str | None) -> Scope:
        if user is not None and scope is not None:
            raise UsageError("a run belongs to a user or to a scope", hint="Pass one of them")
        if user is not None:
            return Scope.of(tenant=self._memory.tenant, user=user)
        if scope is None:
            return Scope(self._memory.tenant)
        return scope if isinstance(scope, Scope) else Scope.parse(scope, tenant=self._memory.tenant)

    def _copy(self, what: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return a JSON copy, so that the caller cannot change it during the run."""
        if given is None:
            return {}
        if not isinstance(cast(object, given), Mapping):
            message = f"the {what} {quote(given)} is {type(given).__name__}, not a map"
            raise InvalidValue(message, hint='Pass a dict such as {"question": "…"}', path="$")
        return decode(encode_checked(dict(given), self._memory.limits))

    def _drawing(self) -> Drawing:
        return Drawing(clock=self._memory.clock, ids=self._memory.ids)

    def __repr__(self) -> str:
        """Return its name and its file."""
        return f"<memoranda.mashin.Machine {self.name} from {self.file}>"


@contextmanager
def _nesting(spending: Spending, most: int) -> Generator[None]:
    """Count a nested machine, or refuse one too many.

    An error that keeps it from being recorded also ends its caller.
    """
    if spending.machines >= most:
        message = f"more than {most} machines call one another"
        raise step_failed("runtime", message, "", hint="Let a machine end before it is called again", limit=most)
    spending.machines += 1
    try:
        yield
    except MemorandaError as error:
        raise Unrecorded(error) from error
    finally:
        spending.machines -= 1


def _call_result(run: Run) -> CallResult:
    if run.status == "running":
        raise Conflict(
            f"the run {quote(run.id)} is running elsewhere",
            hint="Resume once it has ended",
            expected="waiting",
            actual="running",
        )
    message = run.error.message if run.error else ""
    return CallResult(run=run.id, status=run.status, output=run.output, message=message)


# making machines


class Kit(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine is loaded with beside its text."""

    model: Model | None = None
    """Replaces the models that the text names."""
    guards: Mapping[str, Rule] = {}
    settings: Mapping[str, str] = {}
    behaviour: Behaviour = DEFAULT_BEHAVIOUR
    kept_text: bool | None = None
    """Whether stored texts may run; None means only for the program that opened the store."""


def make_machine(text: str, file: str, kit: Kit, *, memory: Memory) -> Machine:
    """Compile a machine; raise a SourceError with everything wrong with it."""
    plan, diagnostics = _compile(text, file)
    return Machine(plan, kit, memory=memory, diagnostics=diagnostics, file=file)


def make_stored_machine(memory: Memory, kept: StoredRun, kit: Kit, *, installed: str | None) -> Machine:
    """Compile the machine of a run from its stored text; `why_uninstalled` says whether it may run.

    If guards are missing, its runs can be inspected but not resumed.
    """
    text = read_source(memory, kept)
    plan, diagnostics = _compile(text.source, text.file)
    return Machine(
        plan,
        kit,
        memory=memory,
        diagnostics=diagnostics,
        file=text.file,
        lacking=missing(plan.guards, kit.guards),
        uninstalled=why_uninstalled(memory, kit.kept_text, kept.summary, installed),
    )


def _compile(text: str, file: str) -> tuple[Plan, tuple[Diagnostic, ...]]:
    reading, programs, diagnostics = check_source(text, name=file)
    if any(diagnostic.severity == "error" for diagnostic in diagnostics):
        raise source_error(reading.source, diagnostics)
    return compile_machine(reading.document, programs, reading.source), diagnostics
