"""Files of tests in, a report out: each test runs the workflow on a memory and a clock of its own.

`run_scripts("bakery.yaml")` runs the tests in `bakery.tests.yaml` beside the workflow, with no network, no key and no
database. A test ends at the first step that is not as expected, and tells everything that is not. `file.py` says what
can stand in such a file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import msgspec

from memoranda.agent.connecting import connect
from memoranda.agent.models import Model
from memoranda.api.memory import Memory
from memoranda.api.opening import open as open_memory
from memoranda.errors import MemorandaError, NotFound, UsageError
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.modules import load_module
from memoranda.lang.scripts import report
from memoranda.lang.scripts.clock import ScriptClock
from memoranda.lang.scripts.files import ENDING, ENDINGS, programs_beside, read_tests, stem_of, tests_beside
from memoranda.lang.source import Span
from memoranda.model.definition import SHAPES
from memoranda.model.text import quote
from memoranda.workflow.actions.base import Action, actions_of
from memoranda.workflow.behaviour import Behaviour
from memoranda.workflow.document import Document
from memoranda.workflow.loading import ENDINGS as WORKFLOW_ENDINGS
from memoranda.workflow.loading import load, parse
from memoranda.workflow.preparing import name_of
from memoranda.workflow.scripts.cast import Cast, check_names
from memoranda.workflow.scripts.file import read_scripts
from memoranda.workflow.scripts.looking import Look, Mismatch, Standing
from memoranda.workflow.scripts.script import Expected, Script, ScriptFile, Step
from memoranda.workflow.threads import add_message, open_thread

if TYPE_CHECKING:
    from memoranda.workflow.run import Run
    from memoranda.workflow.workflow import Workflow

_WHERE = "Write the tests of a workflow beside it: those of `desk.yaml` in `desk.tests.yaml`"
_BAD = ("failed", "refused")


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Where a test ended: after which step, everything that was not as expected there, and how the run came to it."""

    line: int
    after: str | None
    mismatches: tuple[Mismatch, ...]
    trace: str = ""
    hint: str = ""


Case = report.Case[Failure]
Report = report.Report[Failure]


def run_scripts(
    path: str | os.PathLike[str], *, actions: str | os.PathLike[str] | ModuleType | None = None, model: Any = None
) -> Report:
    """Run the tests of a file, or of the one beside a workflow.

    `actions` replaces the module that the file names; `model` is asked where a test says nothing of what a model
    replies, nobody unless it is given.
    """
    file = scripts_beside(Path(path))
    read = read_scripts(read_tests(file, hint=_WHERE), name=str(file))
    stage = _Stage(read, file, actions, None if model is None else connect(model))
    stage.check()
    return Report(str(file), tuple(stage.play(script) for script in read.scripts))


def scripts_beside(path: Path) -> Path:
    """Return the file of tests that belongs to a workflow; a file of tests is its own."""
    if path.name.endswith(ENDINGS):
        return path
    for ending in WORKFLOW_ENDINGS:
        if path.name.endswith(ending):
            return tests_beside(path, ending)
    raise UsageError(
        f"{quote(path.name)} is neither a workflow nor a file of tests",
        hint=f"Workflows end in {' or '.join(WORKFLOW_ENDINGS)}, their tests in {ENDING}",
        path=str(path),
    )


class _Stage:
    """What all tests of a file have in common."""

    def __init__(
        self,
        read: ScriptFile,
        file: Path,
        actions: str | os.PathLike[str] | ModuleType | None,
        model: Model | None,
    ) -> None:
        self.read = read
        self.folder = file.parent
        self.workflow = self.folder / read.workflow if read.workflow else _workflow_beside(file)
        self.others = [self.folder / name for name in read.workflows]
        self._module = actions if actions is not None else self._path(read.actions) if read.actions else None
        self.model = model

    def _path(self, module: str) -> str | Path:
        """Return where a module is: a file beside the tests, or the name of one that is installed."""
        beside = self.folder / module
        return beside if module.endswith(".py") or beside.is_file() else module

    @cached_property
    def documents(self) -> dict[str, Document]:
        """The workflows by name."""
        return {name_of(path): parse(path) for path in (self.workflow, *self.others)}

    def line(self, span: Span) -> int:
        """Return the line that a span begins in."""
        return self.read.source.position(span.start).line

    def own_actions(self) -> dict[str, Action]:
        """Return the actions of the workflows' own module, loaded anew: no test sees what another left in it."""
        return _actions_in(self._module) if self._module is not None else {}

    def servers(self) -> dict[str, dict[str, Action]]:
        """Return the tools of servers, by the server's name."""
        return {name: _actions_in(self._path(module)) for name, module in self.read.servers.items()}

    def check(self) -> None:
        """Raise a SourceError with every definition and record that cannot be, and every name that means nothing."""
        said = Diagnostics(self.read.source)
        tools = [tool for server in self.servers().values() for tool in server]
        for script in self.read.scripts:
            check_names(script, self.documents.values(), said, tools)
            with open_memory(":memory:", clock=ScriptClock(script.now)) as memory:
                _prepare(memory, self, script, said)
        said.raise_if_failed()

    def play(self, script: Script) -> Case:
        """Run one test."""
        clock = ScriptClock(script.now)
        cast = Cast(script, self.documents, model=self.model)
        with open_memory(":memory:", clock=clock) as memory:
            _prepare(memory, self, script, Diagnostics(self.read.source))
            flow = load(
                self.workflow,
                memory=memory,
                actions=cast.actions(self.own_actions()),
                workflows=self.others,
                model=cast.model,
                servers={name: [cast.staged(one) for one in tools.values()] for name, tools in self.servers().items()},
                # Between two attempts no time passes but the clock's.
                behaviour=Behaviour(sleep=clock.wait),
            )
            playing = _Playing(flow, memory, clock, script, self)
            try:
                playing.play()
            except _Unexpected as unexpected:
                return Case(script.name, self.line(script.span), playing.failure(unexpected))
        return Case(script.name, self.line(script.span))


def _workflow_beside(file: Path) -> Path:
    beside = programs_beside(file, WORKFLOW_ENDINGS)
    if not beside:
        hint = f"Name it in the file: `workflow: {stem_of(file)}.yaml`"
        raise NotFound(f"there is no workflow for {quote(str(file))}", hint=hint, path=str(file))
    return beside[0]


def _actions_in(module: str | os.PathLike[str] | ModuleType) -> dict[str, Action]:
    return actions_of([module if isinstance(module, ModuleType) else load_module(module, what="actions")])


def _prepare(memory: Memory, stage: _Stage, script: Script, said: Diagnostics) -> None:
    """Put everything into a memory that stands before a test, noting what cannot be."""
    for one in stage.read.definitions:
        given: dict[str, Any] = {"name": one.name, "scope": one.scope, "ttl": one.ttl, "mode": one.mode, "id": one.id}
        try:
            memory.definitions.create(slug=one.slug, schema=one.schema, **given)
        except MemorandaError as error:
            said.error("wrong_value", error.message, one.span, hint=error.hint)
    for slug, (value, span) in script.memory.items():
        try:
            _place(memory, stage, slug, script.owner, script.thread, None).set(slug, value)
        except MemorandaError as error:
            said.error("wrong_value", error.message, span, hint=error.hint)
    try:
        _say_before(memory, stage, script)
    except MemorandaError as error:
        said.error("wrong_value", error.message, script.span, hint=error.hint)


def _say_before(memory: Memory, stage: _Stage, script: Script) -> None:
    if not script.messages:
        return
    thread = open_thread(memory, owner=script.owner, id=script.thread or "")
    for line in script.messages:
        sender = script.owner if line.by_owner else name_of(stage.workflow)
        add_message(memory, thread, line.text, sender=sender, by_owner=line.by_owner)


def _place(memory: Memory, stage: _Stage, slug: str, owner: str, thread: str | None, run: str | None) -> Any:
    """Return the scope that the record of a definition is kept in; None where this run has none."""
    kind = next(one.scope for one in stage.read.definitions if one.slug == slug)
    ids = {"user": owner, "workflow": name_of(stage.workflow), "thread": thread, "run": run}
    wanted = {part: ids[part] for part in SHAPES[kind]}
    return memory.scope(**cast("dict[str, str]", wanted)) if None not in wanted.values() else None


class _Unexpected(Exception):
    """Something that is not as the test says."""

    def __init__(self, *mismatches: Mismatch, hint: str = "") -> None:
        super().__init__(mismatches[0].path)
        self.mismatches = mismatches
        self.hint = hint


class _Playing:
    """One test: whose run is meant now, and how the last step of each owner ended."""

    def __init__(self, flow: Workflow, memory: Memory, clock: ScriptClock, script: Script, stage: _Stage) -> None:
        self.flow = flow
        self.memory = memory
        self.clock = clock
        self.script = script
        self.stage = stage
        self.owner = script.owner
        self.thread = script.thread
        self.stands: dict[str, Standing] = {}

    def play(self) -> None:
        """Take all steps, or say what is not as expected."""
        steps = self.script.steps
        for step, following in zip(steps, (*steps[1:], None), strict=True):
            before = dict(self.stands)
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

    def failure(self, unexpected: _Unexpected) -> Failure:
        """Return what is to be known about the end of this test."""
        stands = self.stands.get(self.owner)
        first = unexpected.mismatches[0]
        return Failure(
            line=first.line,
            after=stands.after if stands is not None else None,
            mismatches=unexpected.mismatches,
            trace=_trace(stands.run) if stands is not None and stands.run is not None else "",
            hint=unexpected.hint,
        )

    # steps

    def _wait(self, step: Step) -> None:
        """Let time pass for everybody: a run whose time is over goes on."""
        self.clock.wait(step.value)
        for owner, before in self.stands.items():
            if before.run is not None and before.run.status == "waiting":
                self.stands[owner] = self._gone_on(before.run, step)
            else:
                self.stands[owner] = msgspec.structs.replace(before, after=step.kind, said=())

    def _act(self, step: Step) -> None:
        before = self.stands.get(self.owner)
        if before is None or before.run is None or before.run.status != "waiting":
            got = str(before) if before is not None else f"nothing was run for {quote(self.owner)}"
            raise _Unexpected(Mismatch(step.kind, "a run that waits", got, self.stage.line(step.span)))
        self.stands[self.owner] = self._gone_on(before.run, step)

    def _gone_on(self, run: Run, step: Step) -> Standing:
        try:
            after = _go_on(run, step)
        except MemorandaError as error:
            mismatch = Mismatch(step.kind, "that the run goes on", error.message, self.stage.line(step.span))
            raise _Unexpected(mismatch, hint=error.hint) from error
        return Standing(after=step.kind, run=after, said=tuple(after.messages[len(run.messages) :]))

    def _run(self, step: Step) -> None:
        given = step.value if step.value is not None else self.script.input
        try:
            run = self.flow.run(given, owner=self.owner, thread=self.thread)
        except MemorandaError as error:
            self.stands[self.owner] = Standing(after=step.kind, refusal=error)
        else:
            self.stands[self.owner] = Standing(after=step.kind, run=run, said=tuple(run.messages))

    def _refuse_failure(self, step: Step, following: Step | None, before: Mapping[str, Standing]) -> None:
        """Take a run that this step made fail as unexpected, unless the next one looks at how it ended."""
        for owner, stands in self.stands.items():
            then = before.get(owner)
            known = then is not None and then.run is stands.run and then.refusal is stands.refusal
            if known or stands.status not in _BAD:
                continue
            place = step.span
            if owner == self.owner and following is not None and following.kind == "expect":
                expected, place = cast("Expected", following.value), following.span
                if expected.status is not None or expected.error is not None:
                    continue
            self.owner = owner
            mismatch = Mismatch("status", "a run that does not fail", str(stands), self.stage.line(place))
            raise _Unexpected(mismatch, hint=stands.hint)

    def _look(self, step: Step) -> None:
        stands = self.stands.get(self.owner)
        if stands is None:
            line = self.stage.line(step.span)
            raise _Unexpected(Mismatch("status", "a run", f"nothing was run for {quote(self.owner)}", line))
        look = Look(stands, line=self.stage.line, record=partial(self._record, stands.run))
        found = look.mismatches(cast("Expected", step.value))
        if found:
            raise _Unexpected(*found, hint=stands.hint)

    def _record(self, run: Run | None, slug: str) -> Any:
        place = _place(self.memory, self.stage, slug, self.owner, self.thread, None if run is None else run.id)
        return None if place is None else place.value(slug)


def _go_on(run: Run, step: Step) -> Run:
    if step.kind == "deliver":
        return run.deliver(step.value)
    return run.resume() if step.kind == "wait" else run.cancel(reason=step.value)


def _trace(run: Run) -> str:
    """Return a line for each step that was taken."""
    lines: list[str] = []
    for event in run.events:
        if event.kind == "step_record":
            told = ", ".join(f"{name} {value}" for name, value in event.detail.items() if name != "type")
            lines.append(f"{event.step} ({event.detail.get('type', '')}){': ' if told else ''}{told}")
    return "\n".join(lines)
