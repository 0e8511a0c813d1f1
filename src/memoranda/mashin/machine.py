"""A machine that was compiled once and is run many times."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import msgspec

from memoranda.agent.connecting import connect
from memoranda.agent.models import Model
from memoranda.api.memory import Memory
from memoranda.errors import (
    Conflict,
    Denied,
    InvalidValue,
    MemorandaError,
    ModelUnavailable,
    UsageError,
)
from memoranda.lang.diagnostics import Diagnostic, source_error
from memoranda.lang.expression.dialect import Run as Drawing
from memoranda.mashin.behaviour import DEFAULT_BEHAVIOUR, Behaviour, Budget
from memoranda.mashin.checker.check import check_source
from memoranda.mashin.compiler import compile_machine
from memoranda.mashin.document import Document
from memoranda.mashin.guards import ActiveGuard, Rule, absent, activate, missing
from memoranda.mashin.keeping import Begun, begun_of, chosen_of
from memoranda.mashin.run import Run
from memoranda.mashin.runtime.budget import Spending
from memoranda.mashin.runtime.execution import execute
from memoranda.mashin.runtime.failures import failed
from memoranda.mashin.runtime.plan import Plan
from memoranda.mashin.runtime.work import Called, Mode, Outside, Work
from memoranda.model.effect import HoldStep, SetFact
from memoranda.model.policy import Policy
from memoranda.model.run import OVER, RunSummary
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import decode, encode_checked
from memoranda.runs.belonging import check_ours, check_program
from memoranda.runs.cancelling import end_cancelled
from memoranda.runs.executing import Outcome
from memoranda.runs.journal import Journal, Noted
from memoranda.runs.keeping import KeptRun, closing_writes, opening_writes, read_run, run_scope
from memoranda.runs.recording import Recorder
from memoranda.runs.sources import ProgramText, Uninstalled, keep_source, own_source, read_source, why_uninstalled
from memoranda.runs.waiting import Unrecorded, Waiting

if TYPE_CHECKING:
    from memoranda.mashin.verifying import Report

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
        """Stand alone; `meet` brings it together with the machines that it can call."""
        self._plan = plan
        self._kit = kit
        self._memory = memory
        self._models: dict[str, Model] = {}
        self._guards = activate(plan.guards, {**kit.guards, **dict.fromkeys(lacking, absent)})
        self._lacking = lacking
        self._uninstalled = uninstalled
        self.diagnostics = diagnostics
        """What there is to say about its text: warnings and notes."""
        self.file = file
        self._text = ProgramText.of(plan.source, file)
        self._others: dict[str, Machine] = {self.name: self}
        self._kept = False

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
        """What it was compiled to."""
        return self._plan

    @property
    def document(self) -> Document:
        """What its text says."""
        return self._plan.document

    @property
    def memory(self) -> Memory:
        """What it was loaded with."""
        return self._memory

    @property
    def actor(self) -> str:
        """Who acts in its runs: the machine itself for whoever owns the memory, else who it was loaded for."""
        return self._outside(Scope(self._memory.tenant)).keeper.actor

    @property
    def behaviour(self) -> Behaviour:
        """What the language leaves open, decided."""
        return self._kit.behaviour

    @property
    def guards(self) -> tuple[ActiveGuard, ...]:
        """The guards around its steps."""
        return self._guards

    def run(
        self,
        input: Mapping[str, Any] | None = None,
        *,
        mode: Mode = "live",
        user: str | None = None,
        scope: Scope | str | None = None,
        context: Mapping[str, Any] | None = None,
        budget: Budget | None = None,
        assuming: Mapping[str, Any] | None = None,
    ) -> Run:
        """Run the machine and return what came of it; `run.check()` raises if that is a failure.

        Input that does not fit is refused with a SchemaViolation, and nothing is recorded. What it remembers belongs
        to the `user` or the `scope`, by default to all of the tenant. In `mode="test"` nothing is remembered and no
        model is asked; `assuming` says what steps give.
        """
        if mode not in ("live", "test"):
            raise UsageError(f"{quote(mode)} is no mode", hint="Modes are live and test", value=mode)
        if assuming and mode == "live":
            raise UsageError("only a test can assume something", hint='Pass mode="test" too')
        self._check_needs(mode)
        begun = Begun(
            input=self.plan.accepts.accept(self._copied("input", input), run=self._drawing()),
            context=self._copied("context", context),
            budget=budget or self.behaviour.budget,
            chosen=chosen_of(self.behaviour),
        )
        place = self._place(user, scope)
        return self._begin(begun, mode=mode, scope=place, assumed=self._copied("assumption", assuming))

    def find(self, id: str) -> Run:
        """Return a run of this machine that was begun earlier, in this process or another."""
        kept = read_run(self._memory, id)
        check_program(kept.summary, "mashin", self.name)
        return Run(self, kept)

    def test(self) -> Report:
        """Run the tests of its `verifies` section on a memory of their own: no network, no key, nothing kept."""
        from memoranda.mashin.verifying import verify_machine

        return verify_machine(self)

    def on(self, memory: Memory) -> Machine:
        """Return the same machine on another memory."""
        if memory is self._memory:
            return self
        other = object.__new__(Machine)
        other.__dict__.update(self.__dict__, _memory=memory, _kept=False)
        other._others = {**self._others, self.name: other}
        return other

    def resumed(self, kept: KeptRun, entry: Noted | None, *, spending: Spending | None = None) -> Run:
        """Go on with a run that waited, with what it waited for."""
        self.ensure_ready()
        summary = self._ours(kept)
        begun = begun_of(kept.begun)
        entries = kept.entries if entry is None else (*kept.entries, entry)
        waiting = msgspec.convert(summary.waiting, Waiting) if summary.waiting else None
        spending = spending or Spending(begun.budget, begun.before)
        return self._go_on(summary, begun, entries, spending=spending, waited=waiting)

    @property
    def is_installed(self) -> bool:
        """Whether it may run: its text was loaded here, or its store may give texts that run."""
        return self._uninstalled is None

    def ensure_installed(self) -> None:
        """Refuse to run a text that comes from the store, and that nobody installed here."""
        if self._uninstalled is not None:
            raise self._uninstalled.error()

    def ensure_ready(self) -> None:
        """Refuse to run a text that nobody installed here, or without the guards that nobody gave for it."""
        self.ensure_installed()
        if self._lacking:
            raise UsageError(
                f"the machine {quote(self.name)} needs the guard {quote(self._lacking[0])}, and nobody gives it",
                hint=f"Pass guards={{{self._lacking[0]!r}: function}}, as for load",
                missing=self._lacking,
            )

    def cancelled(self, kept: KeptRun, reason: str) -> Run:
        """End a run that waited, or that nobody runs any more."""
        summary = self._ours(kept)
        place = run_scope(self._memory.tenant, summary.id)
        keeper = self._outside(Scope.parse(summary.scope, tenant=self._memory.tenant)).keeper
        recorder = Recorder(keeper, place, summary.id, index=summary.events, head=summary.head)
        over = end_cancelled(recorder, summary, reason, at=self._memory.clock.now())
        begun = begun_of(kept.begun)
        writes = closing_writes(place, over, begun, kept.entries, None, ttl=begun.chosen.keep)
        try:
            recorder.flush((*self._own_text(place), *writes))
        except Unrecorded as broken:
            raise broken.error from broken
        ended = msgspec.structs.replace(over, events=recorder.index, head=recorder.head)
        return Run(self, msgspec.structs.replace(kept, summary=ended, output=None))

    def _ours(self, kept: KeptRun) -> RunSummary:
        """Return where a run stands, or refuse to go on with one that is not ours."""
        summary = kept.summary
        check_ours(summary, digest=self.plan.digest, actor=self.actor)
        return summary

    # being called by another machine

    def called(self, inputs: dict[str, Any], by: Work) -> Called:
        """Run for another machine: under its own permissions, within the budget of the one that calls."""
        self._check_needs(by.mode)
        accepted = self.plan.accepts.accept(self._copied("input", inputs), run=self._drawing())
        spending = by.spending
        begun = Begun(
            input=accepted,
            context=by.context,
            budget=spending.budget,
            chosen=chosen_of(self.behaviour),
            before=spending.since(),
        )
        machine, scope = self._beside(by)
        with _nested(spending, self.behaviour.machines):
            return _called(machine._begin(begun, mode=by.mode, scope=scope, spending=spending, parent=by.id))

    def find_called(self, id: str, *, verified: bool = True) -> Run:
        """Return a run that this machine called, with the text that the run began with.

        It is `verified` unless it is only to be cancelled: what it gave is used in the run that called it.
        """
        kept = read_run(self._memory, id, verified=verified)
        summary = kept.summary
        machine = self._others.get(summary.program)
        if machine is None or machine.plan.digest != summary.digest:
            installed = None if machine is None else machine.plan.digest
            machine = make_kept_machine(self._memory, kept, self._kit, installed=installed)
            machine.meet(self._others.values())
            if machine.is_installed:
                # The run may call it again, and nobody else may have given it here.
                self._others.setdefault(machine.name, machine)
        return Run(machine.on(self._memory), kept)

    def _take_up(self, id: str, by: Work) -> Called:
        """Go on with a run that this machine called and that waited."""
        with _nested(by.spending, self.behaviour.machines):
            run = self.find_called(id)
            if run.status == "waiting":
                return _called(run.resume(spending=by.spending))
            by.spending.add(run.used)
            return _called(run)

    def _beside(self, by: Work) -> tuple[Machine, Scope]:
        """Return this machine on the memory of the one that calls, with no more rights than that has, and its scope."""
        assert by.outside is not None, "only what can reach out calls a machine"
        return self.on(by.outside.base), by.outside.scope

    # one execution

    def _begin(
        self,
        begun: Begun,
        *,
        mode: Mode,
        scope: Scope,
        assumed: Mapping[str, Any] | None = None,
        spending: Spending | None = None,
        parent: str | None = None,
    ) -> Run:
        self.ensure_ready()
        memory = self._memory
        id = memory.ids.new("run")
        outside = self._outside(scope)
        place = run_scope(memory.tenant, id)
        summary = RunSummary(
            id=id,
            language="mashin",
            program=self.name,
            digest=self.plan.digest,
            status="running",
            mode=mode,
            actor=outside.keeper.actor,
            scope=scope.path,
            started_at=memory.clock.now(),
            parent=parent,
        )
        if not self._kept:
            self._kept = keep_source(outside.keeper, "mashin", self.name, self.plan.digest, self._text)
        recorder = Recorder(outside.keeper, place, id, owner=scope if scope.path else None)
        recorder.opening = lambda: (*self._own_text(place), *opening_writes(place, summary, begun))
        journal = Journal(limits=memory.limits)
        work = self._work(
            summary, begun, journal, recorder, spending or Spending(begun.budget), outside, assumed=assumed
        )
        return self._executed(work, summary, begun)

    def _go_on(
        self,
        summary: RunSummary,
        begun: Begun,
        entries: Iterable[Noted],
        *,
        spending: Spending,
        waited: Waiting | None,
    ) -> Run:
        memory = self._memory
        scope = Scope.parse(summary.scope, tenant=memory.tenant) if summary.scope else Scope(memory.tenant)
        outside = self._outside(scope)
        place = run_scope(memory.tenant, summary.id)
        recorder = Recorder(
            outside.keeper, place, summary.id, index=summary.events, head=summary.head, passed=summary.events
        )
        running = msgspec.structs.replace(summary, status="running", waiting=None)
        recorder.opening = lambda: opening_writes(place, running, begun)
        journal = Journal(entries, limits=memory.limits)
        work = self._work(running, begun, journal, recorder, spending, outside, waiting=waited)
        return self._executed(work, running, begun)

    def _work(
        self,
        summary: RunSummary,
        begun: Begun,
        journal: Journal,
        recorder: Recorder,
        spending: Spending,
        outside: Outside,
        *,
        assumed: Mapping[str, Any] | None = None,
        waiting: Waiting | None = None,
    ) -> Work:
        return Work(
            self.plan,
            id=summary.id,
            mode=cast("Mode", summary.mode),
            input=begun.input,
            context=begun.context,
            journal=journal,
            recorder=recorder,
            spending=spending,
            behaviour=begun.chosen.over(self.behaviour),
            clock=self._memory.clock,
            ids=self._memory.ids,
            limits=self._memory.limits,
            guards=self._guards,
            outside=outside,
            assumed=assumed,
            waiting=waiting,
        )

    def _executed(self, work: Work, summary: RunSummary, begun: Begun) -> Run:
        place = run_scope(self._memory.tenant, summary.id)
        before = work.spending.used()

        def keep(outcome: Outcome) -> KeptRun:
            if outcome.waiting is not None and outcome.waiting.kind == "approval":
                outcome = msgspec.structs.replace(outcome, waiting=self._held(work, place, outcome.waiting))
            over = outcome.status in OVER
            ended = msgspec.structs.replace(
                summary,
                status=outcome.status,
                ended_at=self._memory.clock.now() if over else None,
                steps=work.spending.steps,
                error=msgspec.to_builtins(outcome.error) if outcome.error else None,
                waiting=msgspec.to_builtins(outcome.waiting) if outcome.waiting else None,
            )
            ttl = begun.chosen.keep if over else None
            used = msgspec.structs.replace(begun, used=work.spending.since(before))
            writes = closing_writes(place, ended, used, work.journal.entries, outcome.output, ttl=ttl)
            work.recorder.flush((*self._own_text(place), *writes))
            ended = msgspec.structs.replace(ended, events=work.recorder.index, head=work.recorder.head)
            return KeptRun(summary=ended, begun=used, entries=tuple(work.journal.entries), output=outcome.output)

        return Run(self, execute(work, keep), steps=work.steps)

    def _held(self, work: Work, place: Scope, waiting: Waiting) -> Waiting:
        """Ask for an approval, and return what is waited for with its id."""
        assert work.outside is not None, "only what can reach out waits for approval"
        about = {"machine": self.name, "run": work.id, **waiting.about}
        hold = HoldStep(scope=place, run=work.id, step=waiting.step, needs=waiting.capability or "", about=about)
        approval = work.outside.keeper.perform(hold)
        return msgspec.structs.replace(waiting, approval=approval.id)

    def _own_text(self, run: Scope) -> tuple[SetFact, ...]:
        """Return what keeps the text with a run, where it could not be kept once for all."""
        return () if self._kept else (own_source(run, self._text),)

    # what it works with

    def _outside(self, scope: Scope) -> Outside:
        memory = self._memory
        policy = self.plan.permissions.policy()
        try:
            # For the owner, the machine acts: whoever owns the memory can then approve what it asks for.
            actor = f"machine:{self.name}"
            hands = memory.acting_as(actor, policy=policy, door="mashin")
            keeper = memory.acting_as(actor, policy=_KEEPER, door="mashin")
        except Denied:
            hands = memory.narrowed(policy).through("mashin")
            keeper = memory.through("mashin")
        return Outside(
            base=memory,
            memory=hands,
            keeper=keeper,
            scope=scope,
            machines=self._others,
            take_up=self._take_up,
            model=self._connected,
        )

    def _connected(self, name: str | None) -> Model:
        if self._kit.model is not None:
            return self._kit.model
        if name is None:
            raise ModelUnavailable(
                "the step names no model", hint='Write `using: "provider:model"`, or pass load(model=…)', model=None
            )
        if name not in self._models:
            self._models[name] = connect(name)
        return self._models[name]

    def _check_needs(self, mode: Mode) -> None:
        if mode == "test":
            return
        missing = [name for name in self.plan.needs if not self._setting(name)]
        if missing:
            raise UsageError(
                f"the machine {quote(self.name)} needs {', '.join(map(quote, missing))}, and nothing gives it",
                hint=f"Set {missing[0].upper()} in the environment, or pass load(settings={{'{missing[0]}': …}})",
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

    def _copied(self, what: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return a copy as JSON would give it: what the caller does with the original is none of the run's."""
        if given is None:
            return {}
        if not isinstance(cast(object, given), Mapping):
            message = f"the {what} {quote(given)} is {type(given).__name__}, not a map"
            raise InvalidValue(message, hint='Pass a dict such as {"question": "…"}', path="$")
        return decode(encode_checked(dict(given), self._memory.limits))

    def _drawing(self) -> Drawing:
        return Drawing(clock=self._memory.clock, ids=self._memory.ids)

    def __repr__(self) -> str:
        """Return its name and where it came from."""
        return f"<memoranda.mashin.Machine {self.name} from {self.file}>"


@contextmanager
def _nested(spending: Spending, most: int) -> Generator[None]:
    """Count a machine that runs inside others, or refuse one too many.

    What keeps it from being recorded keeps the one that called it from going on, too.
    """
    if spending.machines >= most:
        message = f"more than {most} machines call one another"
        raise failed("runtime", message, "", hint="Let a machine end before it is called again", limit=most)
    spending.machines += 1
    try:
        yield
    except MemorandaError as error:
        raise Unrecorded(error) from error
    finally:
        spending.machines -= 1


def _called(run: Run) -> Called:
    if run.status == "running":
        raise Conflict(
            f"the run {quote(run.id)} goes on elsewhere",
            hint="Resume once it has ended",
            expected="waiting",
            actual="running",
        )
    message = run.error.message if run.error else ""
    return Called(run=run.id, status=run.status, output=run.output, message=message)


# making machines


class Kit(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine is equipped with beside its text."""

    model: Model | None = None
    """Who is asked in place of the models that the text names."""
    guards: Mapping[str, Rule] = {}
    settings: Mapping[str, str] = {}
    behaviour: Behaviour = DEFAULT_BEHAVIOUR
    kept_text: bool | None = None
    """Whether texts from the store run; None where only the program that opened it may run them."""


def make_machine(text: str, file: str, kit: Kit, *, memory: Memory) -> Machine:
    """Compile a machine; raise a SourceError with everything wrong with it."""
    plan, diagnostics = _compile(text, file)
    return Machine(plan, kit, memory=memory, diagnostics=diagnostics, file=file)


def make_kept_machine(memory: Memory, kept: KeptRun, kit: Kit, *, installed: str | None) -> Machine:
    """Compile the machine of a run from its kept text; `why_uninstalled` says whether it runs.

    It may lack guards; then its runs can be looked at, and none of them goes on.
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
