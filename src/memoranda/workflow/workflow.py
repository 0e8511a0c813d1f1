"""A compiled workflow: start, find, resume and cancel its runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import msgspec

from memoranda.agent.connection import connect
from memoranda.agent.models import Model
from memoranda.api.memory import Memory
from memoranda.engine.schemas import fill_defaults
from memoranda.errors import Hint, LimitExceeded, ModelUnavailable, NotFound, SchemaViolation, UsageError
from memoranda.lang.diagnostics import did_you_mean
from memoranda.lang.egress import EgressPolicy
from memoranda.model.clock import parse_duration
from memoranda.model.definition import Definition
from memoranda.model.event import OVER
from memoranda.model.program import Bindings, StepBinding
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.runs.forgotten import omissions_of_run
from memoranda.runs.outcome import CallResult, Outcome, Waiting
from memoranda.runs.program import ActiveRun, Compiled, RecordedProgram, distinct
from memoranda.runs.provenance import Provenance, Provenances
from memoranda.runs.records import OnInvalid, WorkingMemory, load_memory
from memoranda.runs.steps import Recording, watch_memory
from memoranda.runs.storage import JournalEntry, StoredRun
from memoranda.workflow.behaviour import Behaviour
from memoranda.workflow.compiler import Kit, compile_workflow
from memoranda.workflow.document import Document
from memoranda.workflow.run import Begun, Run, State, entries_of, state_from, state_of
from memoranda.workflow.runtime.execution import begin, resume
from memoranda.workflow.runtime.plan import ModelChoice, Plan, Task
from memoranda.workflow.runtime.state import Execution, Stop, Strand
from memoranda.workflow.threads import add_message, check_text, find_thread, open_thread, thread_closed_error

if TYPE_CHECKING:
    from memoranda.workflow.scripts.run import Report


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

    def call(
        self, name: str, input: Mapping[str, Any], by: Execution, stop: Stop, provenance: Provenance
    ) -> CallResult:
        others = self._workflow.others
        if name not in others:
            known = f"Call one of {', '.join(sorted(others))}"
            raise NotFound(
                f"unknown workflow {quote(name)} here",
                hint=did_you_mean(name, others) or (Hint("load", "workflows"), known),
                value=name,
            )
        return _outcome_of(others[name].run_called(input, by, stop, provenance))

    def resume(self, run: str) -> CallResult:
        found = self._workflow.find_called(run)
        return _outcome_of(found.resume() if found.status == "waiting" else found)

    def cancel(self, run: str) -> None:
        self._workflow.find_called(run, verified=False).cancel(reason="its caller cannot wait")


def _outcome_of(run: Run) -> CallResult:
    result = run.call_result
    # A run that is resumed elsewhere is waited for as well.
    return msgspec.structs.replace(result, status="waiting") if result.status == "running" else result


class Workflow(RecordedProgram[Plan, Kit, Run]):
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

    LANGUAGE = "workflow"
    ENDINGS = (".yaml", ".yml")
    UNNAMED = "workflow.yaml"
    DOOR = "workflow"
    BEGUN = Begun

    @classmethod
    def compile(
        cls, text: str, file: str, kit: Kit, *, name: str | None = None, stored: bool = False
    ) -> Compiled[Plan]:
        """Compile a workflow; raise a SourceError that lists all errors."""
        return compile_workflow(text, file, kit, name=name, only_to_look=stored)

    def _attach(self, memory: Memory) -> None:
        super()._attach(memory)
        self._watched = watch_memory(self._memory) if self.recording.is_on else self._memory
        """The handle that its tasks use."""
        self._reach = _Reach(self, self._kit)

    @property
    def document(self) -> Document:
        """Its parsed text."""
        return self._plan.document

    @property
    def behaviour(self) -> Behaviour:
        """Its options and limits."""
        return self._kit.behaviour

    @property
    def inputs(self) -> dict[str, Any] | None:
        """JSON schema of its input; None if it takes any."""
        return self.plan.schema

    @property
    def bindings(self) -> Bindings:
        """The definitions, blocks, models and tools that its tasks use."""
        steps = [_step_binding(task) for task in self.plan.tasks.values()]
        return Bindings(
            definitions=self.plan.definition_ids,
            blocks=tuple(one.slug for one in self.plan.blocks),
            models=distinct(one.model for one in steps),
            tools=distinct(name for one in steps for name in one.tools),
            steps=tuple(steps),
        )

    def run(self, input: Mapping[str, Any] | None = None, *, owner: str, thread: str | None = None) -> Run:
        """Run the workflow for a user and return the run; `run.check()` raises if it failed.

        Invalid input, missing definitions and records that no longer fit their definitions are refused before anything
        is recorded. In a `thread`, the `text` of the input becomes the owner's message there.
        """
        return self._start(Begun(input=self._validate_input(input), owner=owner, thread=thread))

    def test(self) -> Report:
        """Run the tests in the file beside the workflow, each on a memory and a clock of its own."""
        from memoranda.workflow.scripts.run import run_scripts

        return run_scripts(self.file, actions=self._kit.actions or None)

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

    # one execution

    def _models_in_use(self) -> Iterable[Model | str | None]:
        if self._kit.model is not None:
            return (self._kit.model,)
        return [task.use.model.name for task in self.plan.tasks.values() if task.use.model is not None]

    def _start(self, begun: Begun, *, parent: str | None = None, around: Stop | None = None) -> Run:
        self.ensure_ready()
        self.prepare()
        memory = self._memory
        id = memory.ids.new("run")
        working = self._load(id, begun)
        self.check_delivery(begun, begun.input)
        run = self._begin(id, begun, scope=Scope.of(tenant=memory.tenant, user=begun.owner), parent=parent)
        execution = self._execution(run)
        strand = Strand(working, stop=Stop(around))
        strand.provenances.put(("input",), begun.provenance)

        return begin(
            execution,
            strand,
            first=partial(self._join_thread, execution, begun, (begun.input,) if parent is None else ()),
            keep=partial(self._store_outcome, run, execution, strand),
        )

    def resume_run(self, stored: StoredRun, entry: JournalEntry | None) -> Run:
        """Resume a waiting run with what was delivered."""
        self.ensure_ready()
        run = self._reopen(stored)
        begun: Begun = run.begun
        state = state_from(stored.entries)
        execution = self._execution(run, state)
        strand = Strand(
            self._load(execution.id, begun),
            outputs=state.outputs,
            context=state.context,
            provenances=Provenances.load(state.provenances),
        )
        delivered = () if entry is None else (entry.value,)
        execution.said += [(None, one) for one in delivered]
        return resume(
            execution,
            strand,
            _with_delivery(state.position, delivered),
            step=msgspec.convert(stored.summary.waiting, Waiting).step,
            first=partial(self._join_thread, execution, begun, delivered),
            keep=partial(self._store_outcome, run, execution, strand),
        )

    def cancel_run(self, stored: StoredRun, reason: str) -> Run:
        """Cancel a run that waits, or whose process is gone."""
        over = msgspec.structs.replace(state_from(stored.entries), position=())
        return super().cancel_run(msgspec.structs.replace(stored, entries=entries_of(over)), reason)

    def _store_outcome(self, run: ActiveRun, execution: Execution, strand: Strand, outcome: Outcome) -> Run:
        """Store the outcome of an execution, and return the run."""
        memory = strand.memory
        ends = self._own_records(run, memory.definitions.values()) if outcome.status in OVER else None
        entries = entries_of(state_of(execution, strand, outcome.position))
        return Run(self, self._close(run, outcome, entries, steps=execution.steps, ends=ends), records=memory.values)

    def _handle(self, stored: StoredRun) -> Run:
        return Run(self, stored)

    def _own_scope(self, run: ActiveRun) -> Scope | None:
        return self._own_records(run, self._memory.definitions.list())

    def _own_records(self, run: ActiveRun, known: Iterable[Definition]) -> Scope | None:
        """Return the scope of records that belong to this run alone; None if no definition has the scope `run`."""
        own = any(one.scope == "run" for one in known)
        return Scope.of(tenant=self._memory.tenant, user=run.begun.owner, run=run.summary.id) if own else None

    @property
    def recording(self) -> Recording:
        """What is recorded of the steps of its runs."""
        return self.behaviour.recording

    def _seconds_kept(self, begun: Begun) -> int | None:
        return None if self.behaviour.keep is None else parse_duration(self.behaviour.keep)

    def _lacking_error(self) -> UsageError:
        return UsageError(
            f"the workflow {quote(self.name)} needs {quote(self._lacking[0])}, which was not given",
            hint=Hint("load", "actions"),
            missing=self._lacking,
        )

    # being called by another workflow

    def run_called(self, input: Mapping[str, Any], by: Execution, stop: Stop, provenance: Provenance) -> Run:
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
        begun = Begun(
            input=self._validate_input(input),
            owner=by.owner,
            thread=thread,
            depth=by.depth + 1,
            provenance=provenance,
        )
        return self.on(by.memory)._start(begun, parent=by.id, around=stop)

    @property
    def others(self) -> Mapping[str, Workflow]:
        """The workflows that it can call by name, including itself."""
        return self._peers

    # what a run works with

    def _load(
        self, id: str, begun: Begun, *, definition_ids: Iterable[str] | None = None, on_invalid: OnInvalid | None = None
    ) -> WorkingMemory:
        return load_memory(
            self._watched,
            owner=begun.owner,
            definition_ids=self.plan.definition_ids if definition_ids is None else definition_ids,
            blocks=self.plan.blocks,
            workflow=self.name,
            thread=begun.thread,
            run=id,
            on_invalid=on_invalid or self.behaviour.on_invalid,
        )

    def _execution(self, run: ActiveRun, state: State | None = None) -> Execution:
        state = state or State()
        begun: Begun = run.begun
        execution = Execution(
            self.plan,
            id=run.summary.id,
            owner=begun.owner,
            input=begun.input,
            memory=self._watched,
            recorder=run.recorder,
            behaviour=self.behaviour,
            reach=self._reach,
            depth=begun.depth,
            messages=list(state.messages),
            steps=state.steps,
        )
        execution.omissions = omissions_of_run(self._memory, run.summary, lambda: execution.said)
        return execution

    def check_delivery(self, begun: Begun, payload: Any) -> None:
        """Refuse a message to a closed thread, and one that is not valid."""
        text = _text_of(payload)
        if text is not None and begun.thread is not None:
            check_text(text, self._memory.limits.content_bytes)
            thread = find_thread(self._memory, owner=begun.owner, id=begun.thread)
            if thread is not None and thread.closed:
                raise thread_closed_error(thread)

    def _join_thread(self, execution: Execution, begun: Begun, said: tuple[Any, ...]) -> None:
        """Open the thread of a run, and add what its owner said."""
        if begun.thread is None:
            return
        execution.thread = open_thread(self._memory, owner=begun.owner, id=begun.thread)
        for text in map(_text_of, said):
            if text is not None:
                add_message(self._memory, execution.thread, text, sender=begun.owner, by_owner=True, workflow=self.name)

    def _validate_input(self, input: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return a copy of the input with the defaults of its schema; raise an error if it does not fit."""
        given = self._copy("input", input)
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


def _step_binding(task: Task) -> StepBinding:
    use = task.use
    return StepBinding(
        name=task.name,
        type=use.action.name,
        model=None if use.model is None else use.model.name,
        tools=tuple(tool.name for tool in use.tools),
        memory=tuple(one if isinstance(one, str) else one.slug for one in use.memories),
    )


def _text_of(payload: Any) -> str | None:
    """Return the message in an input or a delivery: a text, or the field `text`; None if there is none."""
    said: Any = cast("dict[str, Any]", payload).get("text") if isinstance(payload, dict) else payload
    return said if isinstance(said, str) and said.strip() else None


def _with_delivery(position: tuple[Any, ...], delivered: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a position whose innermost step, the waiting call, has received a delivery."""
    *outer, call = position
    return (*outer, {**call, "delivered": [*call.get("delivered", ()), *delivered]})
