"""A compiled workflow: start, find, resume and cancel its runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any, cast

import msgspec

from memoranda.agent.connection import connect
from memoranda.agent.models import Model
from memoranda.api.memory import Memory
from memoranda.engine.facts import SetFact
from memoranda.engine.schemas import fill_defaults
from memoranda.errors import Hint, InvalidValue, LimitExceeded, ModelUnavailable, NotFound, SchemaViolation, UsageError
from memoranda.governance.runs import RecordRun
from memoranda.lang.diagnostics import Diagnostic, did_you_mean
from memoranda.lang.egress import EgressPolicy
from memoranda.model.clock import parse_duration
from memoranda.model.definition import Definition
from memoranda.model.event import GENESIS, OVER, RunSummary
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
from memoranda.runs.storage import StoredRun, closing_writes, opening_writes, read_run, run_scope
from memoranda.workflow.behaviour import Behaviour
from memoranda.workflow.compiler import Kit, prepare
from memoranda.workflow.document import Document
from memoranda.workflow.records import OnInvalid, WorkingMemory, load_memory
from memoranda.workflow.run import Begun, Run, State, entries_of, state_from, state_of
from memoranda.workflow.runtime.execution import begin, resume
from memoranda.workflow.runtime.plan import ModelChoice, Plan
from memoranda.workflow.runtime.state import Called, Stop, Strand, Work
from memoranda.workflow.threads import Thread, add_message, check_text, find_thread, open_thread, thread_closed_error


class _Reach:
    """Implements `Reach` for the runs of one workflow: models, the network, and other workflows."""

    def __init__(self, workflow: Workflow, kit: Kit) -> None:
        self._workflow = workflow
        self._kit = kit
        self._models: dict[ModelChoice, Model] = {}
        self._lock = Lock()

    def model(self, choice: ModelChoice | None) -> Model | None:
        if self._kit.model is not None or choice is None:
            return self._kit.model
        with self._lock:
            if choice not in self._models:
                self._models[choice] = connect(
                    choice.name,
                    base_url=choice.base_url,
                    api_key=self._key(choice),
                    organization=choice.organization,
                )
            return self._models[choice]

    def _key(self, choice: ModelChoice) -> str | None:
        name = choice.credential
        if name is None:
            return None
        key = self._kit.credentials.get(name)
        # Never send a key of the environment to an address from the file, which may come from anywhere.
        if key is None and choice.base_url is None:
            key = os.environ.get(name)
        if not key:
            elsewhere = "" if choice.base_url is not None else Hint("set", name)
            raise ModelUnavailable(
                f"the model {quote(choice.name)} needs the credential {quote(name)}, which is missing",
                hint=(elsewhere, Hint("python", f"Pass load(credentials={{'{name}': …}})")),
                model=choice.name,
            )
        return key

    @property
    def egress(self) -> EgressPolicy:
        return self._kit.egress

    def call(self, name: str, input: Mapping[str, Any], by: Work, stop: Stop) -> Called:
        others = self._workflow.others
        if name not in others:
            known = f"Call one of {', '.join(sorted(others))}"
            raise NotFound(
                f"there is no workflow {quote(name)} here",
                hint=did_you_mean(name, others) or (Hint("load", "workflows"), known),
                value=name,
            )
        return _outcome_of(others[name].run_called(input, by, stop))

    def resume(self, run: str) -> Called:
        found = self._workflow.find_called(run)
        return _outcome_of(found.resume() if found.status == "waiting" else found)

    def cancel(self, run: str) -> None:
        self._workflow.find_called(run, verified=False).cancel(reason="its caller cannot wait")


def _outcome_of(run: Run) -> Called:
    return Called(
        run=run.id,
        # A run that is resumed elsewhere is waited for as well.
        status="waiting" if run.status == "running" else run.status,
        output=run.output,
        message=run.error.message if run.error else "",
        messages=tuple(run.messages),
    )


class Workflow:
    """A compiled workflow; `load` creates these.

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
        """Create a workflow without peers; `meet` adds the ones it may call."""
        self._plan = plan
        self._kit = kit
        self._memory = memory.through("workflow")
        self._others: dict[str, Workflow] = {plan.name: self}
        self._text = ProgramText.of(plan.source, file)
        self._text_is_kept = False
        self._missing = missing
        self._uninstalled = uninstalled
        self._reach = _Reach(self, kit)
        self.diagnostics = diagnostics
        """The warnings and notes of its text."""
        self.file = file

    def meet(self, workflows: Iterable[Workflow]) -> None:
        """Let it call these workflows, and those that they can call; the first of a name wins."""
        for workflow in workflows:
            for other in (workflow, *workflow._others.values()):
                self._others.setdefault(other.name, other)

    def on(self, memory: Memory) -> Workflow:
        """Return the same workflow on another memory handle, with the permissions of that handle."""
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
        """The name that other workflows call it by, and the scope of its records."""
        return self._plan.name

    @property
    def plan(self) -> Plan:
        """Its compiled form."""
        return self._plan

    @property
    def document(self) -> Document:
        """Its parsed text."""
        return self._plan.document

    @property
    def memory(self) -> Memory:
        """The memory that it was loaded with; its events are marked as coming from a workflow."""
        return self._memory

    @property
    def behaviour(self) -> Behaviour:
        """Its options and limits."""
        return self._kit.behaviour

    def run(self, input: Mapping[str, Any] | None = None, *, owner: str, thread: str | None = None) -> Run:
        """Run the workflow for a user and return the run; `run.check()` raises if it failed.

        Invalid input, missing definitions and records that no longer fit their definitions are refused before anything
        is recorded. In a `thread`, the `text` of the input becomes the owner's message there.
        """
        return self._begin(Begun(input=self._validate_input(input), owner=owner, thread=thread))

    def find(self, id: str) -> Run:
        """Return a run of this workflow that was started earlier, in this process or another."""
        kept = read_run(self._memory, id)
        check_program(kept.summary, "workflow", self.name)
        return self._run_of(kept)

    def find_called(self, id: str, *, verified: bool = True) -> Run:
        """Return a run of a workflow that this one called, with the text that it was started with.

        Its journal is `verified`, because its output is used by the caller; not so if it is only to be cancelled.
        """
        kept = read_run(self._memory, id, verified=verified)
        return self._of(kept)._run_of(kept)

    def run_heads(self, id: str | None) -> tuple[tuple[str, str], ...]:
        """Return the ids and head hashes of a run and of the runs that it waits for."""
        found: list[tuple[str, str]] = []
        while id is not None:
            summary = self._memory.runs.get(id)
            found.append((id, summary.head))
            id = msgspec.convert(summary.waiting, Waiting).run if summary.waiting else None
        return tuple(found)

    def records_of(self, id: str, begun: Begun) -> dict[str, Any]:
        """Return the records that a run would see now, if their definitions still exist and accept them."""
        existing = {one.id for one in self._memory.definitions.list()}
        ids = [one for one in self.plan.definition_ids if one.lower() in existing]
        return self._load(id, begun, definition_ids=ids, on_invalid="skip").values

    def _run_of(self, kept: StoredRun) -> Run:
        return Run(self, kept, msgspec.convert(kept.begun, Begun), state_from(kept.entries))

    def _of(self, kept: StoredRun) -> Workflow:
        """Return the workflow of a run, with the text that the run was started with."""
        summary = kept.summary
        workflow = self._others.get(summary.program)
        if workflow is not None and workflow.plan.digest == summary.digest:
            return workflow.on(self._memory)
        installed = workflow.plan.digest if workflow is not None else None
        workflow = make_kept_workflow(self._memory, kept, self._kit, installed=installed)
        workflow.meet(self._others.values())
        if not workflow._missing and workflow._uninstalled is None:
            # The run may call it again, and it may not have been passed to `load`.
            self._others.setdefault(workflow.name, workflow)
        return workflow

    # one execution

    def _begin(self, begun: Begun, *, parent: str | None = None, around: Stop | None = None) -> Run:
        self.ensure_installed()
        memory = self._memory
        id = memory.ids.new("run")
        working = self._load(id, begun)
        self.check_delivery(begun, begun.input)
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
            self._text_is_kept = store_source(memory, "workflow", self.name, self.plan.digest, self._text)
        recorder = Recorder(memory, place, id, owner=home)
        recorder.opening = lambda: (*self._own_text(place), *opening_writes(place, summary, begun))
        work = self._work(id, begun, recorder)
        strand = Strand(working, stop=Stop(around))

        def first() -> None:
            work.thread = self._thread(begun)
            if parent is None:
                self._hear(work.thread, begun.owner, begun.input)

        return begin(
            work, strand, first=first, keep=lambda outcome: self._store_outcome(work, strand, summary, begun, outcome)
        )

    def resume_run(self, kept: StoredRun, delivered: tuple[Any, ...]) -> Run:
        """Resume a waiting run with what was delivered."""
        self.ensure_installed()
        summary, begun, state = self._ours(kept)
        if self._missing:
            raise UsageError(
                f"the workflow {quote(self.name)} needs {quote(self._missing[0])}, which was not given",
                hint=Hint("load", "actions"),
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

        return resume(
            work,
            strand,
            _with_delivery(state.position, delivered),
            step=waited.step,
            first=first,
            keep=lambda outcome: self._store_outcome(work, strand, running, begun, outcome),
        )

    def ensure_installed(self) -> None:
        """Refuse to run a stored text that is not installed here."""
        if self._uninstalled is not None:
            raise self._uninstalled.error()

    def cancel_run(self, kept: StoredRun, reason: str) -> Run:
        """Cancel a run that waits, or whose process is gone."""
        summary, begun, state = self._ours(kept)
        recorder = Recorder(
            self._memory,
            run_scope(self._memory.tenant, summary.id),
            summary.id,
            index=summary.events,
            head=summary.head,
        )
        known = self._memory.definitions.list()
        over = record_cancellation(recorder, summary, reason, at=self._memory.clock.now())
        try:
            return self._close(recorder, over, begun, msgspec.structs.replace(state, position=()), None, known=known)
        except Unrecorded as broken:
            raise broken.error from broken

    def _store_outcome(self, work: Work, strand: Strand, summary: RunSummary, begun: Begun, outcome: Outcome) -> Run:
        """Store the outcome of an execution, and return the run."""
        state = state_of(work, strand, outcome.position)
        summary = msgspec.structs.replace(
            summary,
            status=outcome.status,
            ended_at=self._memory.clock.now() if outcome.status in OVER else None,
            steps=work.steps,
            error=msgspec.to_builtins(outcome.error) if outcome.error else None,
            waiting=msgspec.to_builtins(outcome.waiting) if outcome.waiting else None,
        )
        memory = strand.memory
        known = memory.definitions.values()
        return self._close(work.recorder, summary, begun, state, outcome.output, known=known, records=memory.values)

    def _close(
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
        kept = StoredRun(summary=ended, begun=msgspec.to_builtins(begun), entries=tuple(entries), output=output)
        return Run(self, kept, begun, state, records=records)

    def _own_records(self, id: str, begun: Begun, known: Iterable[Definition]) -> Scope | None:
        """Return the scope of records that belong to this run alone; None if no definition has the scope `run`."""
        kept = any(one.scope == "run" for one in known)
        return Scope.of(tenant=self._memory.tenant, user=begun.owner, run=id) if kept else None

    def _ours(self, kept: StoredRun) -> tuple[RunSummary, Begun, State]:
        """Return the stored parts of a run; refuse one that belongs to another text or actor."""
        summary = kept.summary
        check_resumable(summary, digest=self.plan.digest, actor=self._memory.actor)
        return summary, msgspec.convert(kept.begun, Begun), state_from(kept.entries)

    def _own_text(self, run: Scope) -> tuple[SetFact, ...]:
        """Return the write that stores the text with a run, if it could not be stored once for all runs."""
        return () if self._text_is_kept else (source_write(run, self._text),)

    # being called by another workflow

    def run_called(self, input: Mapping[str, Any], by: Work, stop: Stop) -> Run:
        """Run for another workflow: for the same owner, in the same thread, with the same permissions."""
        most = self.behaviour.workflows
        if by.depth >= most:
            raise LimitExceeded(
                f"more than {most} workflows call one another",
                hint=(
                    "Check whether they call each other in a cycle",
                    Hint("python", "Load with Behaviour(workflows=…)"),
                ),
                limit=most,
                actual=by.depth + 1,
            )
        thread = by.thread.id if by.thread is not None else None
        begun = Begun(input=self._validate_input(input), owner=by.owner, thread=thread, depth=by.depth + 1)
        return self.on(by.memory)._begin(begun, parent=by.id, around=stop)

    @property
    def others(self) -> Mapping[str, Workflow]:
        """The workflows that it can call by name, including itself."""
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

    def check_delivery(self, begun: Begun, payload: Any) -> None:
        """Refuse a message to a closed thread, and one that is not valid."""
        text = _text_of(payload)
        if text is not None and begun.thread is not None:
            check_text(text, self._memory.limits.content_bytes)
            thread = find_thread(self._memory, owner=begun.owner, id=begun.thread)
            if thread is not None and thread.closed:
                raise thread_closed_error(thread)

    def _thread(self, begun: Begun) -> Thread | None:
        return None if begun.thread is None else open_thread(self._memory, owner=begun.owner, id=begun.thread)

    def _hear(self, thread: Thread | None, owner: str, payload: Any) -> None:
        text = _text_of(payload)
        if thread is not None and text is not None:
            add_message(self._memory, thread, text, sender=owner, by_owner=True)

    def _validate_input(self, input: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return a copy of the input with the defaults of its schema; raise an error if it does not fit."""
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
                f"the workflow {quote(self.name)} rejects its input at {fault.path}: {fault.reason}",
                hint=f"See its `inputs.schema` at {fault.schema_path}",
                path=fault.path,
                expected=fault.reason,
            )
        return given

    def __repr__(self) -> str:
        """Return its name and its file."""
        return f"<memoranda.workflow.Workflow {self.name} from {self.file}>"


def make_kept_workflow(memory: Memory, kept: StoredRun, kit: Kit, *, installed: str | None) -> Workflow:
    """Compile the workflow of a run from its stored text; `why_uninstalled` decides whether it may run."""
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
    """Return the message in an input or a delivery: a text, or the field `text`; None if there is none."""
    said: Any = cast("dict[str, Any]", payload).get("text") if isinstance(payload, dict) else payload
    return said if isinstance(said, str) and said.strip() else None


def _with_delivery(position: tuple[Any, ...], delivered: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a position whose innermost step, the waiting call, has received a delivery."""
    *outer, call = position
    return (*outer, {**call, "delivered": [*call.get("delivered", ()), *delivered]})
