"""A machine that is compiled once and run many times."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from memoranda.agent.connection import connect
from memoranda.agent.models import Model
from memoranda.api.memory import Memory
from memoranda.errors import Conflict, Hint, MemorandaError, ModelUnavailable, UsageError
from memoranda.governance.runs import HoldStep
from memoranda.lang.diagnostics import source_error
from memoranda.lang.document import Raw
from memoranda.lang.expression.dialect import ExpressionRun as Drawing
from memoranda.mashin.behaviour import DEFAULT_BEHAVIOUR, Behaviour, Budget
from memoranda.mashin.checker import check_source
from memoranda.mashin.document import Ask, Document, NamedStep, Recall, Remember, value_of
from memoranda.mashin.guards import ActiveGuard, Rule, activate, missing, missing_guard
from memoranda.mashin.plan import Plan, compile_machine
from memoranda.mashin.run import Replay, Run, make_execution
from memoranda.mashin.runtime.execution import Begun, Chosen, Execution, Resources, RunMode, Spending, step_failed
from memoranda.mashin.runtime.flow import execute, type_of
from memoranda.model.policy import Policy
from memoranda.model.program import Bindings, StepBinding
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.runs import program
from memoranda.runs.forgotten import ForgetfulModel, omissions_of_run
from memoranda.runs.outcome import CallResult, Outcome, Unrecorded, Waiting
from memoranda.runs.program import ActiveRun, Compiled, RecordedProgram, distinct
from memoranda.runs.provenance import Provenance
from memoranda.runs.steps import Recording, WatchedModel, watch_memory
from memoranda.runs.storage import Journal, JournalEntry, StoredRun

if TYPE_CHECKING:
    from memoranda.mashin.machine_tests import Report

_KEEPER = Policy.of(allow=("runs", "memory.read", "memory.write"))


class Kit(program.Kit, frozen=True, kw_only=True):
    """What a machine is loaded with besides its text."""

    model: Model | None = None
    """Replaces the models that the text names."""
    guards: Mapping[str, Rule] = {}
    settings: Mapping[str, str] = {}
    behaviour: Behaviour = DEFAULT_BEHAVIOUR


class Machine(RecordedProgram[Plan, Kit, Run]):
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

    LANGUAGE = "mashin"
    ENDINGS = (".mashin",)
    UNNAMED = "machine.mashin"
    BEGUN = Begun

    def __init__(self, compiled: Compiled[Plan], kit: Kit, *, memory: Memory, file: str) -> None:
        """Create a machine without peers; `meet` adds those it may call."""
        lacking = dict.fromkeys(compiled.lacking, missing_guard)
        self._guards = activate(compiled.plan.guards, {**kit.guards, **lacking})
        self._models: dict[str, Model] = {}
        super().__init__(compiled, kit, memory=memory, file=file)

    @classmethod
    def compile(
        cls, text: str, file: str, kit: Kit, *, name: str | None = None, stored: bool = False
    ) -> Compiled[Plan]:
        """Compile a machine; raise a SourceError with everything wrong with it."""
        reading, programs, diagnostics = check_source(text, name=file)
        if any(diagnostic.severity == "error" for diagnostic in diagnostics):
            raise source_error(reading.source, diagnostics)
        plan = compile_machine(reading.document, programs, reading.source)
        return Compiled(plan=plan, diagnostics=diagnostics, lacking=missing(plan.guards, kit.guards) if stored else ())

    @property
    def document(self) -> Document:
        """Its parsed text."""
        return self._plan.document

    @property
    def behaviour(self) -> Behaviour:
        """The choices that the language leaves open."""
        return self._kit.behaviour

    @property
    def inputs(self) -> dict[str, Any] | None:
        """JSON schema of its input; None if it takes any."""
        return self.plan.accepts.schema if self.document.accepts is not None else None

    @property
    def bindings(self) -> Bindings:
        """The collections, models and machines that its steps use, as far as they are written in its text."""
        steps = [_step_binding(name, step) for name, step in self.plan.steps.items()]
        return Bindings(
            collections=distinct(name for one in steps for name in one.memory),
            models=distinct(one.model for one in steps),
            tools=distinct(name for one in steps for name in (*one.tools, one.program)),
            steps=tuple(steps),
        )

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

    def test(self) -> Report:
        """Run the tests of its `verifies` section, each on a memory of its own, without a network or a key."""
        from memoranda.mashin.machine_tests import run_tests

        return run_tests(self)

    def replay(self, id: str) -> Replay:
        """Run the steps of a run again on what was recorded; nothing is asked, read or written."""
        return self.find(id).replay()

    # for its runs

    def resume_run(self, stored: StoredRun, entry: JournalEntry | None, *, spending: Spending | None = None) -> Run:
        """Resume a run with what it waited for."""
        self.ensure_ready()
        summary = stored.summary
        run = self._reopen(stored, passed=summary.events)
        entries = stored.entries if entry is None else (*stored.entries, entry)
        tenant = self._memory.tenant
        return self._execute(
            run,
            Journal(entries, limits=self._memory.limits),
            spending or Spending(run.begun.budget, run.begun.before),
            self._resources(Scope.parse(summary.scope, tenant=tenant) if summary.scope else Scope(tenant)),
            waiting=msgspec.convert(summary.waiting, Waiting) if summary.waiting else None,
            said=() if entry is None else (entry.value,),
        )

    def _handle(self, stored: StoredRun) -> Run:
        return Run(self, stored)

    @property
    def recording(self) -> Recording:
        """What is recorded of the steps of its runs."""
        return self.behaviour.recording

    def _seconds_kept(self, begun: Begun) -> int | None:
        return begun.chosen.keep

    def _lacking_error(self) -> UsageError:
        return UsageError(
            f"the machine {quote(self.name)} needs the guard {quote(self._lacking[0])}, which was not given",
            hint=Hint("python", f"Pass guards={{{self._lacking[0]!r}: function}}, as for load"),
            missing=self._lacking,
        )

    # calls between machines

    def run_for(self, inputs: dict[str, Any], by: Execution, provenance: Provenance) -> CallResult:
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
            provenance=provenance,
        )
        assert by.resources is not None, "a replay calls no machine"
        # On the memory of the caller, so that it has no more rights than that.
        machine, scope = self.on(by.resources.base), by.resources.scope
        with _nesting(spending, self.behaviour.machines):
            return _call_result(machine._start(begun, mode=by.mode, scope=scope, spending=spending, parent=by.id))

    def _resume_called(self, id: str, caller: Execution) -> CallResult:
        with _nesting(caller.spending, self.behaviour.machines):
            run = self.find_called(id)
            if run.status == "waiting":
                return _call_result(run.resume_within(caller.spending))
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
        if mode == "live":
            self.prepare()
        run = self._begin(self._memory.ids.new("run"), begun, scope=scope, mode=mode, parent=parent)
        journal = Journal(limits=self._memory.limits)
        return self._execute(run, journal, spending or Spending(begun.budget), self._resources(scope), assumed=assumed)

    def _execute(
        self,
        run: ActiveRun,
        journal: Journal,
        spending: Spending,
        resources: Resources,
        *,
        assumed: Mapping[str, Any] | None = None,
        waiting: Waiting | None = None,
        said: tuple[Any, ...] = (),
    ) -> Run:
        omissions = omissions_of_run(self._memory, run.summary, lambda: [(None, one) for one in said])
        connect = resources.model

        def forgetful(name: str | None) -> Model:
            return ForgetfulModel(connect(name), omissions)

        resources = msgspec.structs.replace(resources, model=forgetful)
        execution = make_execution(
            self,
            run.summary,
            run.begun,
            journal=journal,
            recorder=run.recorder,
            spending=spending,
            resources=resources,
            assumed=assumed,
            waiting=waiting,
        )
        before = spending.totals()

        def keep(outcome: Outcome) -> StoredRun:
            if outcome.waiting is not None and outcome.waiting.kind == "approval":
                outcome = msgspec.structs.replace(outcome, waiting=self._request_approval(run, outcome.waiting))
            made_of = execution.output_made_of
            used = msgspec.structs.replace(run.begun, used=spending.since(before), output_made_of=made_of)
            return self._close(run._replace(begun=used), outcome, journal.entries, steps=spending.steps)

        return Run(self, execute(execution, keep), steps=execution.steps)

    def _request_approval(self, run: ActiveRun, waiting: Waiting) -> Waiting:
        id = run.summary.id
        about = {"machine": self.name, "run": id, **waiting.about}
        hold = HoldStep(scope=run.scope, run=id, step=waiting.step, needs=waiting.capability or "", about=about)
        return msgspec.structs.replace(waiting, approval=self._keeper.perform(hold).id)

    # resources

    @property
    def _keeper(self) -> Memory:
        return self._acting_under(_KEEPER) or self._memory.through("mashin", origin="agent")

    def _acting_under(self, policy: Policy) -> Memory | None:
        """Return a handle of the machine itself, so that the owner of the memory can approve what it asks for.

        Only the owner of the memory gets one; others act in their own name.
        """
        memory = self._memory
        return memory.acting_as(f"machine:{self.name}", policy=policy, door="mashin") if memory.is_owner else None

    def _resources(self, scope: Scope) -> Resources:
        policy = self.plan.permissions.policy()
        memory = self._acting_under(policy) or self._memory.narrowed(policy).through("mashin", origin="agent")
        return Resources(
            base=self._memory,
            memory=watch_memory(memory) if self.recording.is_on else memory,
            scope=scope,
            machines=self._peers,
            resume=self._resume_called,
            model=(lambda name: WatchedModel(self._model(name))) if self.recording.is_on else self._model,
        )

    def _models_in_use(self) -> Iterable[Model | str | None]:
        if self._kit.model is not None:
            return (self._kit.model,)
        return [step.using.text for step in self.plan.steps.values() if isinstance(step, Ask) and step.using]

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
        return scope if isinstance(scope, Scope) else Scope.named(scope, tenant=self._memory.tenant)

    def _drawing(self) -> Drawing:
        return Drawing(clock=self._memory.clock, ids=self._memory.ids)


def _step_binding(name: str, step: NamedStep) -> StepBinding:
    if isinstance(step, Ask):
        return StepBinding(
            name=name,
            type=type_of(step),
            model=None if step.using is None else step.using.text,
            tools=_literals(step.tools),
            program=None if step.machine is None else step.machine.text,
        )
    config = step.config if isinstance(step, Remember | Recall) else ()
    return StepBinding(name=name, type=type_of(step), memory=_literals(value_of(config, "collection")))


def _literals(raw: Raw | None) -> tuple[str, ...]:
    """Return the texts in quotes in an expression."""
    return () if raw is None else tuple(re.findall(r'"([^"$]+)"', raw.text))


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
    return run.call_result
