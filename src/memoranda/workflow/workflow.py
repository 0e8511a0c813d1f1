"""A workflow that was compiled once and is run many times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from memoranda.api.memory import Memory
from memoranda.engine.schemas import fill_defaults
from memoranda.errors import InvalidValue, LimitExceeded, SchemaViolation, UsageError
from memoranda.lang.diagnostics import Diagnostic
from memoranda.model.definition import Definition
from memoranda.model.duration import parse_duration
from memoranda.model.effect import RecordRun, SetFact
from memoranda.model.event import GENESIS
from memoranda.model.run import OVER, RunSummary
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import decode, encode_checked
from memoranda.runs.belonging import check_ours, check_program
from memoranda.runs.cancelling import end_cancelled
from memoranda.runs.executing import Outcome
from memoranda.runs.keeping import KeptRun, closing_writes, opening_writes, read_run, run_scope
from memoranda.runs.recording import Recorder
from memoranda.runs.sources import ProgramText, Uninstalled, keep_source, own_source, read_source, why_uninstalled
from memoranda.runs.waiting import Unrecorded, Waiting
from memoranda.workflow.behaviour import Behaviour
from memoranda.workflow.document import Document
from memoranda.workflow.keeping import Begun, State, entries_of, restored, state_of
from memoranda.workflow.preparing import prepare
from memoranda.workflow.reaching import Kit, Reaching
from memoranda.workflow.records import OnInvalid, WorkingMemory, load_memory
from memoranda.workflow.run import Run
from memoranda.workflow.runtime.execution import begin, go_on
from memoranda.workflow.runtime.plan import Plan
from memoranda.workflow.runtime.strand import Stop, Strand
from memoranda.workflow.runtime.work import Work
from memoranda.workflow.threads import Thread, add_message, check_text, closed_thread, find_thread, open_thread


class Workflow:
    """A compiled workflow; `load` makes these.

    >>> import memoranda
    >>> text = '''
    ... defs:
    ...   note: {kind: task, action: set_context, inputs: {values: {seen: "=$input.bird"}}}
    ... flow:
    ...   - do: note
    ... '''
    >>> with memoranda.open(":memory:") as memory:
    ...     workflow = memoranda.workflow.load(text, memory=memory, name="birds")
    ...     run = workflow.run({"bird": "wren"}, owner="ada")
    ...     run.status, run.outputs, workflow.find(run.id).context["seen"]
    ('completed', {'note': {'seen': 'wren'}}, 'wren')
    """

    def __init__(
        self,
        plan: Plan,
        kit: Kit,
        *,
        memory: Memory,
        diagnostics: tuple[Diagnostic, ...],
        file: str,
        missing: tuple[str, ...] = (),
        uninstalled: Uninstalled | None = None,
    ) -> None:
        """Stand alone; `meet` brings it together with the workflows that it can call."""
        self._plan = plan
        self._kit = kit
        self._memory = memory.through("workflow")
        self._others: dict[str, Workflow] = {plan.name: self}
        self._text = ProgramText.of(plan.source, file)
        self._text_is_kept = False
        self._missing = missing
        self._uninstalled = uninstalled
        self._reach = Reaching(self, kit)
        self.diagnostics = diagnostics
        """What there is to say about its text: warnings and notes."""
        self.file = file

    def meet(self, workflows: Iterable[Workflow]) -> None:
        """Let it call these workflows, and those that they can call; of two with one name, the first."""
        for workflow in workflows:
            for other in (workflow, *workflow._others.values()):
                self._others.setdefault(other.name, other)

    def on(self, memory: Memory) -> Workflow:
        """Return the same workflow on another handle of memory: what it may do is what that one may."""
        if memory is self._memory:
            return self
        other = Workflow(
            self._plan,
            self._kit,
            memory=memory,
            diagnostics=self.diagnostics,
            file=self.file,
            missing=self._missing,
            uninstalled=self._uninstalled,
        )
        other._others = {**self._others, self.name: other}
        return other

    @property
    def name(self) -> str:
        """Its name: what others call it by, and the scope of what is remembered for it."""
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
        """The memory that it was loaded with, whose events say that they came from a workflow."""
        return self._memory

    @property
    def behaviour(self) -> Behaviour:
        """What the language leaves open, decided."""
        return self._kit.behaviour

    def run(self, input: Mapping[str, Any] | None = None, *, owner: str, thread: str | None = None) -> Run:
        """Run the workflow for somebody and return what came of it; `run.check()` raises if that is a failure.

        Input that does not fit, definitions that are missing and records that no longer fit theirs are refused before
        anything is recorded. In a `thread`, the `text` of the input becomes the owner's message there.
        """
        return self._begin(Begun(input=self._accepted(input), owner=owner, thread=thread))

    def find(self, id: str) -> Run:
        """Return a run of this workflow that was begun earlier, in this process or another."""
        kept = read_run(self._memory, id)
        check_program(kept.summary, "workflow", self.name)
        return self._standing(kept)

    def find_called(self, id: str, *, verified: bool = True) -> Run:
        """Return a run of a workflow that this one called, on the text that it was begun with.

        It is `verified` unless it is only to be cancelled: what it gave is used in the run that called it.
        """
        kept = read_run(self._memory, id, verified=verified)
        return self._of(kept)._standing(kept)

    def standing(self, id: str | None) -> tuple[tuple[str, str], ...]:
        """Return where a run stands, and those that it waits for, each by its id and its newest event."""
        found: list[tuple[str, str]] = []
        while id is not None:
            summary = self._memory.runs.get(id)
            found.append((id, summary.head))
            id = msgspec.convert(summary.waiting, Waiting).run if summary.waiting else None
        return tuple(found)

    def records_of(self, id: str, begun: Begun) -> dict[str, Any]:
        """Return the records that a run would see now, as far as their definitions still stand and accept them."""
        standing = {one.id for one in self._memory.definitions.list()}
        ids = [one for one in self.plan.definition_ids if one.lower() in standing]
        return self._load(id, begun, definition_ids=ids, on_invalid="skip").values

    def _standing(self, kept: KeptRun) -> Run:
        return Run(self, kept, msgspec.convert(kept.begun, Begun), restored(kept.entries))

    def _of(self, kept: KeptRun) -> Workflow:
        """Return the workflow of a run, with the text that the run began with."""
        summary = kept.summary
        workflow = self._others.get(summary.program)
        if workflow is not None and workflow.plan.digest == summary.digest:
            return workflow.on(self._memory)
        installed = workflow.plan.digest if workflow is not None else None
        workflow = make_kept_workflow(self._memory, kept, self._kit, installed=installed)
        workflow.meet(self._others.values())
        if not workflow._missing and workflow._uninstalled is None:
            # The run may call it again, and nobody else may have given it here.
            self._others.setdefault(workflow.name, workflow)
        return workflow

    # one execution

    def _begin(self, begun: Begun, *, parent: str | None = None, around: Stop | None = None) -> Run:
        self.ensure_installed()
        memory = self._memory
        id = memory.ids.new("run")
        working = self._load(id, begun)
        self.ensure_said(begun, begun.input)
        home = Scope.of(tenant=memory.tenant, user=begun.owner)
        summary = RunSummary(
            id=id,
            language="workflow",
            program=self.name,
            digest=self.plan.digest,
            status="running",
            actor=memory.actor,
            scope=home.path,
            started_at=memory.clock.now(),
            parent=parent,
        )
        place = run_scope(memory.tenant, id)
        record = RecordRun(scope=place, run=id, index=0, previous=GENESIS)
        if not self._text_is_kept and memory.may(record):
            self._text_is_kept = keep_source(memory, "workflow", self.name, self.plan.digest, self._text)
        recorder = Recorder(memory, place, id, owner=home)
        recorder.opening = lambda: (*self._own_text(place), *opening_writes(place, summary, begun))
        work = self._work(id, begun, recorder)
        strand = Strand(working, stop=Stop(around))

        def first() -> None:
            work.thread = self._thread(begun)
            if parent is None:
                self._hear(work.thread, begun.owner, begun.input)

        return begin(work, strand, first=first, keep=lambda outcome: self._kept(work, strand, summary, begun, outcome))

    def gone_on(self, kept: KeptRun, delivered: tuple[Any, ...]) -> Run:
        """Go on with a run that waited, with what it waited for."""
        self.ensure_installed()
        summary, begun, state = self._ours(kept)
        if self._missing:
            raise UsageError(
                f"the workflow {quote(self.name)} needs {quote(self._missing[0])}, and nobody gives it",
                hint="Pass actions=[…] or servers={…}, as for load",
                missing=self._missing,
            )
        memory = self._memory
        running = msgspec.structs.replace(summary, status="running", waiting=None)
        place = run_scope(memory.tenant, summary.id)
        recorder = Recorder(memory, place, summary.id, index=summary.events, head=summary.head)
        recorder.opening = lambda: opening_writes(place, running, begun)
        work = self._work(summary.id, begun, recorder, state)
        strand = Strand(
            self._load(summary.id, begun),
            outputs=state.outputs,
            context=state.context,
        )
        waited = msgspec.convert(summary.waiting, Waiting)

        def first() -> None:
            work.thread = self._thread(begun)
            for payload in delivered:
                self._hear(work.thread, begun.owner, payload)

        return go_on(
            work,
            strand,
            _with_delivery(state.position, delivered),
            step=waited.step,
            first=first,
            keep=lambda outcome: self._kept(work, strand, running, begun, outcome),
        )

    def ensure_installed(self) -> None:
        """Refuse to run a text that comes from the store, and that nobody installed here."""
        if self._uninstalled is not None:
            raise self._uninstalled.error()

    def cancelled(self, kept: KeptRun, reason: str) -> Run:
        """End a run that waited, or that nobody runs any more."""
        summary, begun, state = self._ours(kept)
        recorder = Recorder(
            self._memory,
            run_scope(self._memory.tenant, summary.id),
            summary.id,
            index=summary.events,
            head=summary.head,
        )
        known = self._memory.definitions.list()
        over = end_cancelled(recorder, summary, reason, at=self._memory.clock.now())
        try:
            return self._closed(recorder, over, begun, msgspec.structs.replace(state, position=()), None, known=known)
        except Unrecorded as broken:
            raise broken.error from broken

    def _kept(self, work: Work, strand: Strand, summary: RunSummary, begun: Begun, outcome: Outcome) -> Run:
        """Write down what came of an execution, and return the run."""
        state = state_of(work, strand, outcome.position)
        stands = msgspec.structs.replace(
            summary,
            status=outcome.status,
            ended_at=self._memory.clock.now() if outcome.status in OVER else None,
            steps=work.steps,
            error=msgspec.to_builtins(outcome.error) if outcome.error else None,
            waiting=msgspec.to_builtins(outcome.waiting) if outcome.waiting else None,
        )
        memory = strand.memory
        known = memory.definitions.values()
        return self._closed(work.recorder, stands, begun, state, outcome.output, known=known, records=memory.values)

    def _closed(
        self,
        recorder: Recorder,
        summary: RunSummary,
        begun: Begun,
        state: State,
        output: Any,
        *,
        known: Iterable[Definition],
        records: dict[str, Any] | None = None,
    ) -> Run:
        place = run_scope(self._memory.tenant, summary.id)
        over = summary.status in OVER
        ends = self._own_records(summary.id, begun, known) if over else None
        ttl = parse_duration(self.behaviour.keep) if over and self.behaviour.keep is not None else None
        entries = entries_of(state)
        writes = (*self._own_text(place), *closing_writes(place, summary, begun, entries, output, ttl=ttl))
        recorder.flush(writes, ends=ends)
        ended = msgspec.structs.replace(summary, events=recorder.index, head=recorder.head)
        kept = KeptRun(summary=ended, begun=msgspec.to_builtins(begun), entries=tuple(entries), output=output)
        return Run(self, kept, begun, state, records=records)

    def _own_records(self, id: str, begun: Begun, known: Iterable[Definition]) -> Scope | None:
        """Return where records of this run alone are kept; None where no definition is kept for each run."""
        kept = any(one.scope == "run" for one in known)
        return Scope.of(tenant=self._memory.tenant, user=begun.owner, run=id) if kept else None

    def _ours(self, kept: KeptRun) -> tuple[RunSummary, Begun, State]:
        """Return what is kept of a run, or refuse to go on with one that is not ours."""
        summary = kept.summary
        check_ours(summary, digest=self.plan.digest, actor=self._memory.actor)
        return summary, msgspec.convert(kept.begun, Begun), restored(kept.entries)

    def _own_text(self, run: Scope) -> tuple[SetFact, ...]:
        """Return what keeps the text with a run, where it could not be kept once for all."""
        return () if self._text_is_kept else (own_source(run, self._text),)

    # being called by another workflow

    def called(self, input: Mapping[str, Any], by: Work, stop: Stop) -> Run:
        """Run for another workflow: for the same owner, in the same thread, with the rights of that one."""
        most = self.behaviour.workflows
        if by.depth >= most:
            raise LimitExceeded(
                f"more than {most} workflows call one another",
                hint="See whether they call each other in a circle, or load with Behaviour(workflows=…)",
                limit=most,
                actual=by.depth + 1,
            )
        thread = by.thread.id if by.thread is not None else None
        begun = Begun(input=self._accepted(input), owner=by.owner, thread=thread, depth=by.depth + 1)
        return self.on(by.memory)._begin(begun, parent=by.id, around=stop)

    @property
    def others(self) -> Mapping[str, Workflow]:
        """The workflows that it can call, itself included, by name."""
        return self._others

    # what a run works with

    def _load(
        self, id: str, begun: Begun, *, definition_ids: Iterable[str] | None = None, on_invalid: OnInvalid | None = None
    ) -> WorkingMemory:
        return load_memory(
            self._memory,
            owner=begun.owner,
            definition_ids=self.plan.definition_ids if definition_ids is None else definition_ids,
            workflow=self.name,
            thread=begun.thread,
            run=id,
            on_invalid=on_invalid or self.behaviour.on_invalid,
        )

    def _work(self, id: str, begun: Begun, recorder: Recorder, state: State | None = None) -> Work:
        state = state or State()
        return Work(
            self.plan,
            id=id,
            owner=begun.owner,
            input=begun.input,
            memory=self._memory,
            recorder=recorder,
            behaviour=self.behaviour,
            reach=self._reach,
            depth=begun.depth,
            messages=list(state.messages),
            steps=state.steps,
        )

    def ensure_said(self, begun: Begun, payload: Any) -> None:
        """Refuse what would be said in a conversation that is closed, or is no message."""
        text = _text_of(payload)
        if text is not None and begun.thread is not None:
            check_text(text, self._memory.limits.content_bytes)
            thread = find_thread(self._memory, owner=begun.owner, id=begun.thread)
            if thread is not None and thread.closed:
                raise closed_thread(thread)

    def _thread(self, begun: Begun) -> Thread | None:
        return None if begun.thread is None else open_thread(self._memory, owner=begun.owner, id=begun.thread)

    def _hear(self, thread: Thread | None, owner: str, payload: Any) -> None:
        """Add what the owner says to the conversation."""
        text = _text_of(payload)
        if thread is not None and text is not None:
            add_message(self._memory, thread, text, sender=owner, by_owner=True)

    def _accepted(self, input: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return a copy of the input with the defaults of its schema, or refuse it."""
        if input is not None and not isinstance(cast(object, input), Mapping):
            message = f"the input {quote(input)} is {type(input).__name__}, not a map"
            raise InvalidValue(message, hint='Pass a dict such as {"text": "…"}', path="$")
        given = decode(encode_checked(dict(input or {}), self._memory.limits))
        if self.plan.schema is None or self.plan.validator is None:
            return given
        given = fill_defaults(self.plan.schema, given)
        fault = self.plan.validator.first_fault(given)
        if fault is not None:
            raise SchemaViolation(
                f"the workflow {quote(self.name)} refuses its input at {fault.path}: {fault.reason}",
                hint=f"Its `inputs.schema` at {fault.schema_path} says what fits",
                path=fault.path,
                expected=fault.reason,
            )
        return given

    def __repr__(self) -> str:
        """Return its name and where it came from."""
        return f"<memoranda.workflow.Workflow {self.name} from {self.file}>"


def make_workflow(text: str, file: str, kit: Kit, *, memory: Memory, name: str | None = None) -> Workflow:
    """Compile a workflow on a memory; see `prepare`."""
    made = prepare(text, file, kit, name=name)
    return Workflow(made.plan, kit, memory=memory, diagnostics=made.diagnostics, file=file, missing=made.missing)


def make_kept_workflow(memory: Memory, kept: KeptRun, kit: Kit, *, installed: str | None) -> Workflow:
    """Compile the workflow of a run from its kept text; `why_uninstalled` says whether it runs."""
    text, summary = read_source(memory, kept), kept.summary
    made = prepare(text.source, text.file, kit, name=summary.program, only_to_look=True)
    return Workflow(
        made.plan,
        kit,
        memory=memory,
        diagnostics=made.diagnostics,
        file=text.file,
        missing=made.missing,
        uninstalled=why_uninstalled(memory, kit.kept_text, summary, installed),
    )


def _text_of(payload: Any) -> str | None:
    """Return what is said in an input or a delivery: a text, or the field `text`; None where nothing is."""
    said: Any = cast("dict[str, Any]", payload).get("text") if isinstance(payload, dict) else payload
    return said if isinstance(said, str) and said.strip() else None


def _with_delivery(position: tuple[Any, ...], delivered: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a position whose innermost step, the call that waits, has been given what it waits for."""
    *outer, call = position
    return (*outer, {**call, "delivered": [*call.get("delivered", ()), *delivered]})
