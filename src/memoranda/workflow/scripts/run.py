"""Run the tests of a workflow, each on a memory and a clock of its own.

`run_scripts("bakery.yaml")` runs the tests in `bakery.tests.yaml` beside the workflow, without network, keys or a
database. A test ends at the first step that is not as expected, and reports all differences there.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import msgspec

from memoranda.agent.connection import connect
from memoranda.agent.models import Ask, Model, Reply, ToolCall
from memoranda.api.memory import Memory
from memoranda.api.memory import open as open_memory
from memoranda.errors import ActionFailed, MemorandaError, ModelFailed, ModelUnavailable
from memoranda.lang import scripts
from memoranda.lang.diagnostics import Diagnostics, did_you_mean
from memoranda.lang.python_functions import load_module
from memoranda.lang.scripts import (
    Answers,
    ScriptClock,
    Tested,
    Wording,
    describe,
    differences,
    fits,
    json_text,
    run_each,
)
from memoranda.lang.source import Span
from memoranda.lang.yaml import YamlNode
from memoranda.model.definition import SHAPES
from memoranda.model.text import quote
from memoranda.runs.outcome import Failure as Cause
from memoranda.workflow.actions.base import Action, Call, actions_of
from memoranda.workflow.actions.builtin import BUILTIN, installed_actions
from memoranda.workflow.behaviour import Behaviour
from memoranda.workflow.compiler import name_of
from memoranda.workflow.document import Definition, Document
from memoranda.workflow.loader import load, parse
from memoranda.workflow.scripts.file import (
    ANY,
    Expected,
    ExpectedError,
    Script,
    ScriptedAction,
    ScriptedError,
    ScriptedModel,
    ScriptedReply,
    ScriptFile,
    Step,
    read_scripts,
)
from memoranda.workflow.threads import add_message, open_thread
from memoranda.workflow.workflow import Workflow

if TYPE_CHECKING:
    from memoranda.workflow.run import Run


_OUTSIDE = frozenset({"http_request"})
"""Actions that would leave the machine."""
_RETRYABLE = frozenset({"timeout", "rate_limited", "silent", "unreachable"})
"""Reasons for which a model may succeed the next time."""


class _Stubs:
    """The models and actions of one test, with scripted replies; `model` is the fallback for models without any."""

    def __init__(self, script: Script, documents: Mapping[str, Document], *, model: Model | None) -> None:
        self._documents = documents
        self._answers = {one.name: Answers(one.answers) for one in script.actions}
        self._models = {one.name: _ScriptedModel(one.name, one.replies) for one in script.models}
        self._model = model

    @property
    def model(self) -> Model:
        """The model for calls outside the tasks of the workflows."""
        return self._model or self._models.get(ANY) or _ScriptedModel(ANY, ())

    def actions(self, own: Mapping[str, Action]) -> list[Action]:
        """Return every action that the workflows use; one that only the test defines accepts any input."""
        known = {**BUILTIN, **own}
        used = {one.action.text for document in self._documents.values() for one in document.defs if one.action}
        answered = {name for name in used - known.keys() if self._answers.keys() & {name, *self._tasks(name)}}
        if wanted := used - known.keys() - answered:
            known = {**installed_actions(wanted=wanted), **known}
        alone = {name: Action(name=name, act=_never) for name in answered}
        return [self.stub(one) for name, one in {**alone, **known}.items() if name in used]

    def stub(self, real: Action) -> Action:
        """Return an action that gives its scripted results, or acts if it has none."""
        return msgspec.structs.replace(real, act=partial(self._act, real))

    def _act(self, real: Action, call: Call) -> Any:
        answers = self._answers.get(call.task) or self._answers.get(real.name)
        if answers is not None:
            answer = answers.next()
            if answer.error is not None:
                raise _action_error(answer.error, real, call)
            return answer.value
        if real.name in _OUTSIDE:
            raise ActionFailed(
                f"the task {quote(call.task)} would send a request, which tests do not do",
                hint=f"Write below `actions` what {quote(call.task)} gives",
                type="error",
                task=call.task,
                action=real.name,
                retryable=False,
            )
        return real.act(self._with_model(call))

    def _with_model(self, call: Call) -> Call:
        document = self._documents.get(call.place.workflow)
        name = _bound_model(document.find(call.task) if document else None)
        if call.model is None or name is None:
            return call
        model = self._models.get(name) or self._models.get(ANY) or self._model or _ScriptedModel(name, ())
        return msgspec.structs.replace(call, model=model)

    def _tasks(self, action: str) -> set[str]:
        return {
            one.name.text
            for document in self._documents.values()
            for one in document.defs
            if one.action is not None and one.action.text == action
        }


def check_names(script: Script, documents: Iterable[Document], diagnostics: Diagnostics, tools: Iterable[str]) -> None:
    """Note models and actions in a test that no workflow has; `tools` are those of servers."""
    defs = [one for document in documents for one in document.defs]
    models = {one.name.text for one in defs if one.is_a("model")}
    acting = [one for one in defs if one.action is not None]
    actions = {one.name.text for one in acting} | {one.action.text for one in acting if one.action} | set(tools)
    _check(script.models, models | {ANY}, "model", diagnostics)
    _check(script.actions, actions, "task or action", diagnostics)


def _check(
    given: Iterable[ScriptedModel | ScriptedAction], known: set[str], what: str, diagnostics: Diagnostics
) -> None:
    for one in given:
        if one.name not in known:
            hint = did_you_mean(one.name, sorted(known), otherwise=f"There are {', '.join(sorted(known))}")
            diagnostics.error("unknown_name", f"the workflow has no {what} {quote(one.name)}", one.span, hint=hint)


def _bound_model(one: Definition | None) -> str | None:
    bindings = one.bindings if one is not None else ()
    names = (name.text for binding in bindings if binding.kind.text == "model" for name in binding.names)
    return next(names, None)


def _never(call: Call) -> Any:
    """Stub for an action that only a test defines, which always has scripted results."""
    raise AssertionError(call.task)


def _action_error(trouble: ScriptedError, real: Action, call: Call) -> ActionFailed:
    about: dict[str, Any] = {} if trouble.retryable is None else {"retryable": trouble.retryable}
    message = trouble.message or f"the task {quote(call.task)} fails in this test"
    return ActionFailed(message, type=trouble.type, task=call.task, action=real.name, **about)


class _ScriptedModel:
    """A model with scripted replies."""

    def __init__(self, name: str, replies: Iterable[ScriptedReply]) -> None:
        self._called = name
        self._left = deque(replies)
        self._calls = 0
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return f"test:{self._called}"

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        with self._lock:
            spoken = self._left.popleft() if self._left else None
            first = self._calls
            self._calls += len(spoken.calls) if spoken is not None else 0
        if spoken is None:
            raise ModelUnavailable(
                f"the model {quote(self._called)} was asked, but this test has no reply left for it",
                hint=f"Write what it replies below `models`, as `{self._called}: [first, second]`",
                model=self.name,
                retryable=False,
            )
        if spoken.error is not None:
            raise ModelFailed(
                f"the model {quote(self._called)} fails in this test: {spoken.error}",
                reason=spoken.error,
                retryable=spoken.error in _RETRYABLE,
                model=self.name,
            )
        calls = tuple(
            ToolCall(f"call_{number}", tool, arguments)
            for number, (tool, arguments) in enumerate(spoken.calls, first + 1)
        )
        return Reply(spoken.text, calls, spoken.value)


class Mismatch(msgspec.Struct, frozen=True):
    """A difference between what a test expects and what it got, with the line of the expectation."""

    path: str
    expected: str
    got: str
    line: int


class StepResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an owner's last step: a run, or why there is none, and the messages of that step."""

    after: str
    run: Run | None = None
    refusal: MemorandaError | None = None
    said: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """The status of the run."""
        return self.run.status if self.run is not None else "refused"

    @property
    def error(self) -> Cause | None:
        """Why it failed, was cancelled, or could not start."""
        if self.run is not None:
            return self.run.error
        refusal = self.refusal
        return None if refusal is None else Cause(type=refusal.code, message=refusal.message)

    @property
    def hint(self) -> str:
        """The hint of that error."""
        if self.refusal is not None:
            return self.refusal.hint
        return str(self.error.details.get("hint", "")) if self.error is not None else ""

    def __str__(self) -> str:
        """Return the status with its error or its waiting step."""
        error = self.error
        if error is not None:
            where = f" at {quote(error.step)}" if error.step else ""
            return f"{self.status}{where} ({error.type}): {error.message}"
        waiting = self.run.waiting if self.run is not None else None
        return f"{self.status} at {quote(waiting.step)}" if waiting is not None else self.status


class _Comparison:
    """Compares the result of a step with an expectation."""

    def __init__(self, result: StepResult, *, line: Callable[[Span], int], record: Callable[[str], Any]) -> None:
        self._result = result
        self._line = line
        self._record = record

    def mismatches(self, expected: Expected) -> list[Mismatch]:
        """Return all differences, in the order of the file."""
        return sorted(self._all(expected), key=lambda one: one.line)

    def _all(self, expected: Expected) -> Iterator[Mismatch]:
        result, places = self._result, expected.places
        if expected.status is not None and expected.status != result.status:
            yield self._mismatch("status", expected.status, str(result), places["status"])
        if expected.error is not None:
            yield from self._of_error(expected.error, places["error"])
        if expected.messages is not None:
            yield from self._of_messages(expected.messages, places["messages"])
        for name, value in expected.values.items():
            for one in differences(value, self._value(name, value), (name,)):
                place = _inside(places[name], one.path[1:])
                yield self._mismatch(one.where, json_text(one.expected), json_text(one.got), place)

    def _mismatch(self, path: str, expected: str, got: str, node: YamlNode) -> Mismatch:
        return Mismatch(path, expected, got, self._line(node.span))

    def _value(self, name: str, expected: Any) -> Any:
        if name == "memory":
            return {slug: self._record(slug) for slug in cast("dict[str, Any]", expected)}
        run = self._result.run
        return None if run is None else msgspec.to_builtins(getattr(run, name))

    def _of_error(self, expected: ExpectedError, node: YamlNode) -> Iterator[Mismatch]:
        error = self._result.error
        if error is None:
            yield self._mismatch("error", "an error", str(self._result), node)
            return
        for name in ("type", "step"):
            wanted, got = getattr(expected, name), getattr(error, name)
            if wanted is not None and wanted != got:
                yield self._mismatch(f"error.{name}", wanted, f"{got}: {error.message}", _inside(node, (name,)))
        for wording in expected.message:
            if not fits(wording, error.message):
                yield self._mismatch("error.message", describe(wording), error.message, _inside(node, ("message",)))

    def _of_messages(self, expected: tuple[tuple[Wording, ...], ...], node: YamlNode) -> Iterator[Mismatch]:
        said = self._result.said
        if len(expected) != len(said):
            wanted = "\n".join(map(_description, expected)) or "(no message)"
            yield self._mismatch("messages", wanted, "\n".join(said) or "(no message)", node)
            return
        for at, (wordings, text) in enumerate(zip(expected, said, strict=True)):
            if not all(fits(wording, text) for wording in wordings):
                yield self._mismatch(f"messages[{at}]", _description(wordings), text, _inside(node, (at,)))


def _description(wordings: tuple[Wording, ...]) -> str:
    return " and ".join(describe(wording) for wording in wordings)


def _inside(node: YamlNode, path: tuple[str | int, ...]) -> YamlNode:
    """Return the node at a path, or the last one on the way that exists."""
    for part in path:
        if isinstance(part, int):
            inside = node.items[part] if node.items is not None and part < len(node.items) else None
        else:
            inside = next((value for key, value in node.entries or () if key.scalar == part), None)
        if inside is None:
            return node
        node = inside
    return node


Actions = str | os.PathLike[str] | ModuleType | Mapping[str, Action]
"""A Python file or module with actions, or actions by name."""
TESTED = Tested("workflow", "a", ".yaml", Workflow.ENDINGS)
_BAD = ("failed", "refused")


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Where a test failed: after which step, with all differences there and a trace of the run."""

    line: int
    after: str | None
    mismatches: tuple[Mismatch, ...]
    trace: str = ""
    hint: str = ""


Report = scripts.Report[Failure]


def run_scripts(path: str | os.PathLike[str], *, actions: Actions | None = None, model: Any = None) -> Report:
    """Run the tests of a file, or of the one beside a workflow.

    `actions` replace the module that the file names; `model` answers for models without scripted replies, which are an
    error by default.
    """
    file = scripts_beside(Path(path))
    read = read_scripts(TESTED.text_of(file), name=str(file))
    stage = _TestFile(read, file, actions, None if model is None else connect(model))
    stage.check()
    return run_each(read.source, read.scripts, stage.play)


def scripts_beside(path: Path) -> Path:
    """Return the file of tests that belongs to a workflow; a file of tests is its own."""
    return TESTED.tests_of(path)


class _TestFile:
    """What all tests of a file have in common."""

    def __init__(
        self,
        read: ScriptFile,
        file: Path,
        actions: Actions | None,
        model: Model | None,
    ) -> None:
        self.read = read
        self.folder = file.parent
        self.workflow = TESTED.program_of(file, read.workflow)
        self.others = [self.folder / name for name in read.workflows]
        self._module = actions if actions is not None else self._path(read.actions) if read.actions else None
        self.model = model

    def _path(self, module: str) -> str | Path:
        """Return the path of a module beside the tests, or the name of an installed one."""
        beside = self.folder / module
        return beside if module.endswith(".py") or beside.is_file() else module

    @cached_property
    def documents(self) -> dict[str, Document]:
        """The workflows by name."""
        return {name_of(path): parse(path) for path in (self.workflow, *self.others)}

    def line(self, span: Span) -> int:
        """Return the line of a span."""
        return self.read.source.position(span.start).line

    def own_actions(self) -> dict[str, Action]:
        """Return the actions of the workflows' own module, loaded again for each test."""
        return _actions_in(self._module) if self._module is not None else {}

    def servers(self) -> dict[str, dict[str, Action]]:
        """Return the tools of servers, by the server's name."""
        return {name: _actions_in(self._path(module)) for name, module in self.read.servers.items()}

    def check(self) -> None:
        """Raise a SourceError with every invalid definition and record, and every unknown name."""
        diagnostics = Diagnostics(self.read.source)
        tools = [tool for server in self.servers().values() for tool in server]
        for script in self.read.scripts:
            check_names(script, self.documents.values(), diagnostics, tools)
            with open_memory(":memory:", clock=ScriptClock(script.now)) as memory:
                _prepare(memory, self, script, diagnostics)
        diagnostics.raise_if_failed()

    def play(self, script: Script) -> Failure | None:
        """Run one test, and return why it failed."""
        clock = ScriptClock(script.now)
        stubs = _Stubs(script, self.documents, model=self.model)
        with open_memory(":memory:", clock=clock) as memory:
            _prepare(memory, self, script, Diagnostics(self.read.source))
            flow = load(
                self.workflow,
                memory=memory,
                actions=stubs.actions(self.own_actions()),
                workflows=self.others,
                model=stubs.model,
                servers={name: [stubs.stub(one) for one in tools.values()] for name, tools in self.servers().items()},
                # Only the clock of the test advances between two attempts.
                behaviour=Behaviour(sleep=clock.wait),
            )
            playing = _TestRun(flow, memory, clock, script, self)
            try:
                playing.play()
            except _TestFailed as unexpected:
                return playing.failure(unexpected)
        return None


def _actions_in(given: Actions) -> dict[str, Action]:
    if isinstance(given, Mapping):
        return dict(given)
    return actions_of([given if isinstance(given, ModuleType) else load_module(given, what="actions")])


def _prepare(memory: Memory, stage: _TestFile, script: Script, diagnostics: Diagnostics) -> None:
    """Fill a memory with what a test starts from, and note what is invalid."""
    for one in stage.read.definitions:
        given: dict[str, Any] = {"name": one.name, "scope": one.scope, "ttl": one.ttl, "mode": one.mode, "id": one.id}
        try:
            memory.definitions.create(slug=one.slug, schema=one.schema, **given)
        except MemorandaError as error:
            diagnostics.error("wrong_value", error.message, one.span, hint=error.hint)
    for slug, (value, span) in script.memory.items():
        try:
            _place(memory, stage, slug, script.owner, script.thread, None).set(slug, value)
        except MemorandaError as error:
            diagnostics.error("wrong_value", error.message, span, hint=error.hint)
    try:
        _say_before(memory, stage, script)
    except MemorandaError as error:
        diagnostics.error("wrong_value", error.message, script.span, hint=error.hint)


def _say_before(memory: Memory, stage: _TestFile, script: Script) -> None:
    if not script.messages:
        return
    thread = open_thread(memory, owner=script.owner, id=script.thread or "")
    for line in script.messages:
        sender = script.owner if line.by_owner else name_of(stage.workflow)
        add_message(memory, thread, line.text, sender=sender, by_owner=line.by_owner)


def _place(memory: Memory, stage: _TestFile, slug: str, owner: str, thread: str | None, run: str | None) -> Any:
    """Return the scope of a definition's record; None if this run has none."""
    kind = next(one.scope for one in stage.read.definitions if one.slug == slug)
    ids = {"user": owner, "workflow": name_of(stage.workflow), "thread": thread, "run": run}
    wanted = {part: ids[part] for part in SHAPES[kind]}
    return memory.scope(**cast("dict[str, str]", wanted)) if None not in wanted.values() else None


class _TestFailed(Exception):
    def __init__(self, *mismatches: Mismatch, hint: str = "") -> None:
        super().__init__(mismatches[0].path)
        self.mismatches = mismatches
        self.hint = hint


class _TestRun:
    """One test: its current owner, and the result of each owner's last step."""

    def __init__(self, flow: Workflow, memory: Memory, clock: ScriptClock, script: Script, stage: _TestFile) -> None:
        self.flow = flow
        self.memory = memory
        self.clock = clock
        self.script = script
        self.stage = stage
        self.owner = script.owner
        self.thread = script.thread
        self.results: dict[str, StepResult] = {}

    def play(self) -> None:
        """Take all steps; raise _TestFailed at the first that is not as expected."""
        steps = self.script.steps
        for step, following in zip(steps, (*steps[1:], None), strict=True):
            before = dict(self.results)
            match step.kind:
                case "as":
                    self.owner = step.value
                case "thread":
                    self.thread = step.value
                case "expect":
                    self._look(step)
                case "run":
                    self._run(step)
                case "wait":
                    self._wait(step)
                case _:
                    self._act(step)
            self._refuse_failure(step, following, before)

    def failure(self, unexpected: _TestFailed) -> Failure:
        """Return the report of a failed test."""
        result = self.results.get(self.owner)
        first = unexpected.mismatches[0]
        return Failure(
            line=first.line,
            after=result.after if result is not None else None,
            mismatches=unexpected.mismatches,
            trace=_trace(result.run) if result is not None and result.run is not None else "",
            hint=unexpected.hint,
        )

    # steps

    def _wait(self, step: Step) -> None:
        """Advance the clock; every run that has timed out is resumed."""
        self.clock.wait(step.value)
        for owner, before in self.results.items():
            if before.run is not None and before.run.status == "waiting":
                self.results[owner] = self._resume(before.run, step)
            else:
                self.results[owner] = msgspec.structs.replace(before, after=step.kind, said=())

    def _act(self, step: Step) -> None:
        before = self.results.get(self.owner)
        if before is None or before.run is None or before.run.status != "waiting":
            got = str(before) if before is not None else f"nothing was run for {quote(self.owner)}"
            raise _TestFailed(Mismatch(step.kind, "a run that waits", got, self.stage.line(step.span)))
        self.results[self.owner] = self._resume(before.run, step)

    def _resume(self, run: Run, step: Step) -> StepResult:
        try:
            after = _apply_step(run, step)
        except MemorandaError as error:
            mismatch = Mismatch(step.kind, "a run that resumes", error.message, self.stage.line(step.span))
            raise _TestFailed(mismatch, hint=error.hint) from error
        return StepResult(after=step.kind, run=after, said=tuple(after.messages[len(run.messages) :]))

    def _run(self, step: Step) -> None:
        given = step.value if step.value is not None else self.script.input
        try:
            run = self.flow.run(given, owner=self.owner, thread=self.thread)
        except MemorandaError as error:
            self.results[self.owner] = StepResult(after=step.kind, refusal=error)
        else:
            self.results[self.owner] = StepResult(after=step.kind, run=run, said=tuple(run.messages))

    def _refuse_failure(self, step: Step, following: Step | None, before: Mapping[str, StepResult]) -> None:
        """Fail the test if this step made a run fail, unless the next step expects that."""
        for owner, result in self.results.items():
            then = before.get(owner)
            known = then is not None and then.run is result.run and then.refusal is result.refusal
            if known or result.status not in _BAD:
                continue
            place = step.span
            if owner == self.owner and following is not None and following.kind == "expect":
                expected, place = cast("Expected", following.value), following.span
                if expected.status is not None or expected.error is not None:
                    continue
            self.owner = owner
            mismatch = Mismatch("status", "a run that does not fail", str(result), self.stage.line(place))
            raise _TestFailed(mismatch, hint=result.hint)

    def _look(self, step: Step) -> None:
        result = self.results.get(self.owner)
        if result is None:
            line = self.stage.line(step.span)
            raise _TestFailed(Mismatch("status", "a run", f"nothing was run for {quote(self.owner)}", line))
        look = _Comparison(result, line=self.stage.line, record=partial(self._record, result.run))
        found = look.mismatches(cast("Expected", step.value))
        if found:
            raise _TestFailed(*found, hint=result.hint)

    def _record(self, run: Run | None, slug: str) -> Any:
        place = _place(self.memory, self.stage, slug, self.owner, self.thread, None if run is None else run.id)
        return None if place is None else place.value(slug)


def _apply_step(run: Run, step: Step) -> Run:
    if step.kind == "deliver":
        return run.deliver(step.value)
    return run.resume() if step.kind == "wait" else run.cancel(reason=step.value)


def _trace(run: Run) -> str:
    """Return a line for each recorded step."""
    lines: list[str] = []
    for event in run.events:
        if event.kind == "step_record":
            told = ", ".join(f"{name} {value}" for name, value in event.detail.items() if name != "type")
            lines.append(f"{event.step} ({event.detail.get('type', '')}){': ' if told else ''}{told}")
    return "\n".join(lines)
