"""The state of one turn while it runs: the active agent, its variables, and what it says and does."""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Callable, Container, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from memoranda.abl.behaviour import Behaviour
from memoranda.abl.document import PREFIXES
from memoranda.abl.runtime.state import CallRecord, FrameState, SessionState, Status, TurnRecord, Wait
from memoranda.abl.runtime.trace import Kind, Trace, TraceEntry
from memoranda.abl.understanding.rule_reader import RuleReader
from memoranda.abl.variables import FACTS, KEPT_FROM_VIEW, SYSTEM, Mask, fits, hidden_text, hide_in, show_fields
from memoranda.errors import LimitExceeded
from memoranda.lang.expression.compiler import Expression
from memoranda.lang.expression.dialect import ExpressionRun
from memoranda.lang.template import CompiledTemplate
from memoranda.model.clock import Clock, Ids
from memoranda.model.omission import Omissions
from memoranda.runs.forgotten import ForgetfulModel
from memoranda.runs.provenance import OWN, Provenance, Provenances
from memoranda.runs.steps import NO_STEP, StepLog, WatchedModel

if TYPE_CHECKING:
    from memoranda.abl.runtime.memory import FrameFacts
    from memoranda.abl.runtime.plan import Plan, StepPlan
    from memoranda.abl.tools.toolbox import Toolbox
    from memoranda.abl.understanding.reader import Reader
    from memoranda.agent.models import Ask, Model, Reply


class StepError(Exception):
    """Something in a step failed; `kind` is what `ON_ERROR` calls it."""

    def __init__(self, kind: str, message: str, *, subtype: str = "") -> None:
        """Create an error of a kind, with a message."""
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.subtype = subtype


_RULES = RuleReader()


class TeamMember:
    """An agent that can be active: its plan, its tools, its model, and how it reads the user's words."""

    def __init__(self, plan: Plan, toolbox: Toolbox, model: Model | None, reader: Reader = _RULES) -> None:
        """Combine the parts of an agent."""
        self.plan = plan
        self.toolbox = toolbox
        self.model = model
        self.reader = reader


_set_item = dict[str, Any].__setitem__


class Variables(dict[str, Any]):
    """The variables of an agent; those that rules and triggers read are recorded when they are set or removed."""

    __slots__ = ("_read", "_read_by_rules", "changed", "unremembered")

    def __init__(self, names: Mapping[str, Any], *, read: Container[str], read_by_rules: Container[str]) -> None:
        """Start with some names, none of them changed; rules and triggers read some, and rules some of these."""
        super().__init__(names)
        self._read = read
        self._read_by_rules = read_by_rules
        self.changed: set[str] = set()
        """Names that were set or removed since the last check of rules."""
        self.unremembered: set[str] = set()
        """Names that were set or removed since the remember triggers ran."""

    def __setitem__(self, name: str, value: Any) -> None:
        """Set a name."""
        if name in self._read:
            self.note_change(name)
        _set_item(self, name, value)

    def pop(self, name: str, default: Any = None, /) -> Any:
        """Remove a name."""
        if name in self._read:
            self.note_change(name)
        return super().pop(name, default)

    def note_change(self, name: str) -> None:
        """Record that a variable, or a fact below its name, has changed."""
        self.unremembered.add(name)
        if name in self._read_by_rules:
            self.changed.add(name)


class Frame:
    """One agent in a session: its position in the flow, and its variables."""

    def __init__(self, member: TeamMember, state: FrameState, facts: FrameFacts, *, key: str) -> None:
        """Create the frame of an agent without variables."""
        self.member = member
        self.plan = member.plan
        self.state = state
        self.facts = facts
        self.key = key
        """Distinguishes its variables from those of other agents; empty for the agent the session began with."""
        self.prefix = f"{key}." if key else ""
        """Prefix of the keys of its variables."""
        plan = self.plan
        self.names = Variables({FACTS: facts}, read=plan.names_read, read_by_rules=plan.rules_of_variable)
        self.unsettled = set(self.plan.rule_numbers)
        """Rules that may be broken; the others hold as long as no variable that they read changes."""
        self.due_triggers = set(range(len(self.plan.triggers)))
        """Numbers of the remember triggers to run; the others have nothing to do until a variable of theirs changes."""
        self.derived: set[str] = set()
        """Names that only repeat a field of a result; they are restored with it."""
        self.results: dict[str, Any] = {}
        """The last result of each tool, in the order of the calls."""
        self.results_changed = False
        self.dirty: set[str] = set()
        self.provenances = Provenances.load(state.provenances)
        """Where the values of variables come from that are not the program's own."""

    @property
    def step(self) -> StepPlan | None:
        """The current step."""
        return self.plan.steps.get(self.state.step) if self.state.step is not None else None

    def put_result(self, tool: str, value: Any, *, spreads: bool, provenance: Provenance | None = None) -> None:
        """Bind the result of a tool to its names; with `spreads`, bind its fields too.

        Without a provenance it is a result that is restored, whose provenance is known.
        """
        self.results.pop(tool, None)
        self.results[tool] = value
        names = self.names
        last = _last_result(tool)
        names["call_result"] = names["result"] = names[last] = value
        if provenance is not None:
            for name in ("call_result", "result", last):
                self.provenances.put((name,), provenance)
        if spreads:
            self._spread()

    def drop_result(self, tool: str) -> None:
        """Remove the result of a tool."""
        del self.results[tool]
        self.names.pop(_last_result(tool), None)
        newest = next(reversed(self.results), None)
        self.names["call_result"] = self.names["result"] = None if newest is None else self.results[newest]
        provenance = OWN if newest is None else self.provenances.of([(_last_result(newest),)])
        for name in ("call_result", "result"):
            self.provenances.put((name,), provenance)
        if self.derived:
            self._spread()

    def _spread(self) -> None:
        """Bind the fields of results to their own names where those are free; the newest result wins."""
        names = self.names
        for name in self.derived:
            names.pop(name, None)
        self.derived.clear()
        declared, hidden = self.plan.declarations.session, self.state.notes.hidden
        for tool, value in reversed(self.results.items()):
            provenance = self.provenances.of([(_last_result(tool),)])
            for name, item in cast("dict[str, Any]", value).items() if type(value) is dict else ():
                if names.get(name) is None and name not in declared and name not in hidden and _may_be_field(name):
                    names[name] = item
                    self.derived.add(name)
                    self.provenances.put((name,), provenance)

    def hide(self, name: str) -> None:
        """Keep a cleared name undefined although a result has a field of that name."""
        if any(type(value) is dict and name in value for value in self.results.values()):
            hidden = self.state.notes.hidden
            self.state.notes.hidden = [*hidden, name] if name not in hidden else hidden

    def reveal(self, value: Any) -> None:
        """Make the fields of a new result readable again."""
        hidden = self.state.notes.hidden
        if hidden and type(value) is dict:
            self.state.notes.hidden = [name for name in hidden if name not in cast("dict[str, Any]", value)]

    def use_facts(self, facts: FrameFacts) -> None:
        """Use facts with other grants."""
        self.facts = self.names[FACTS] = facts

    def unsettle_rules(self) -> set[int]:
        """Return the rules that read variables which changed since the last check, and let them be checked again."""
        changed = self.names.changed
        found: set[int] = set()
        if changed:
            rules_of_variable = self.plan.rules_of_variable
            for name in changed:
                found |= rules_of_variable.get(name, frozenset())
            changed.clear()
            self.unsettled |= found
        return found

    def value_at(self, path: str, run: ExpressionRun) -> Any:
        """Return the value of a dotted path for this agent: a fact, a variable, or a field of one."""
        segments = tuple(path.split("."))
        resolved = self.plan.declarations.resolve(segments)
        taken = resolved[0] if resolved else 1
        value = resolved[1](self.names, run) if resolved else self.names.get(segments[0])
        return field_at(value, segments[taken:])

    def redact(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return values of dotted paths for a trace or a prompt, without the sensitive ones."""
        masks = self.plan.masks
        if masks:
            values = {path: masks[path].show(value) if path in masks else value for path, value in values.items()}
        facts = {path: self.plan.declarations.find(path) or self.facts.find_grant(path) for path in values}
        hidden = {path for path, found in facts.items() if found is not None and found[0].sensitive}
        inside = self.sensitive_paths() if any(type(value) is dict for value in values.values()) else ()
        return {
            path: KEPT_FROM_VIEW if path in hidden else show_fields(value, _masks_below(path, inside))
            for path, value in values.items()
        }

    def sensitive_paths(self) -> list[str]:
        """Return the persistent paths whose values are hidden in traces and prompts."""
        declared = [one.path for one in self.plan.declarations.persistent.values() if one.sensitive]
        return [*declared, *(path for path, grant in self.facts.grants.items() if grant.sensitive)]

    def variables(self) -> dict[str, Any]:
        """Return the declared variables and all others that have a value, without names of the runtime."""
        found = dict.fromkeys(self.plan.declarations.session)
        is_system = self.plan.is_system
        found.update({name: value for name, value in self.names.items() if value is not None and not is_system(name)})
        return found


def _masks_below(path: str, sensitive: Iterable[str]) -> dict[tuple[str, ...], Mask]:
    """Return the masks of the sensitive paths below one, by the rest of their paths."""
    below = f"{path}."
    return {tuple(one.removeprefix(below).split(".")): Mask(one) for one in sensitive if one.startswith(below)}


def _last_result(tool: str) -> str:
    return f"last_{tool.replace('.', '_')}_result"


def _may_be_field(name: str) -> bool:
    return name not in SYSTEM and name not in PREFIXES and name[:1] not in ("", "_", "\0")


class Position:
    """The place in the flow where an agent waited for the user."""

    __slots__ = ("_stack", "_values", "frame")

    def __init__(self, frame: Frame) -> None:
        """Copy the place."""
        state = frame.state
        self.frame = frame
        self._values = state.step, state.wait, state.asked, state.presented, state.path, state.turns
        self._stack = [list(place) for place in state.stack] if state.stack else []

    def restore(self) -> None:
        """Let the agent wait there again."""
        state = self.frame.state
        state.step, state.wait, state.asked, state.presented, state.path, state.turns = self._values
        state.stack = [list(place) for place in self._stack]


class RuleChecks:
    """What is known about the rules of an agent in one turn."""

    __slots__ = ("excused", "fired", "led", "touched", "unchecked")

    def __init__(self, frame: Frame) -> None:
        """Start with the rules that may be broken."""
        self.unchecked = set(frame.unsettled)
        """Rules that may be broken: not checked yet, or one of their variables changed since, or found broken."""
        self.touched: set[int] = set()
        """Rules of which a variable changed in this turn."""
        self.fired: set[int] = set()
        """Rules that were found broken, and said so."""
        self.led: set[int] = set()
        """Rules that led to a step, and of which no variable has changed since."""
        self.excused: set[int] = set()
        """Rules that are ignored for the rest of the turn, because they say `THEN: continue`."""

    def refresh(self, frame: Frame) -> None:
        """Note the rules whose variables changed."""
        if frame.names.changed:
            found = frame.unsettle_rules()
            self.unchecked |= found
            self.touched |= found
            self.led -= found


class Departure(msgspec.Struct, frozen=True):
    """An agent gives control to a person or another agent, or ends."""

    kind: Literal["escalate", "handoff", "delegate", "complete"]
    agent: str = ""
    reason: str = ""
    number: int | None = None
    """The number of the handoff, delegation or COMPLETE of the agent; None if a step gives control away."""
    priority: str | None = None
    tags: tuple[str, ...] = ()
    by_rule: bool = False
    """Whether a broken rule is the reason; then what it stopped does not continue when control returns."""


class ActiveTurn:
    """Everything that one turn uses and produces."""

    # With slots, since an object with more than thirty attributes is slower to read.
    __slots__ = (
        "_rule_checks",
        "answered",
        "ask_again",
        "behaviour",
        "blocked",
        "consulting",
        "deadline",
        "departure",
        "escalation",
        "frame",
        "frames",
        "fresh",
        "given_results",
        "happened",
        "hidden",
        "in_hook",
        "judged",
        "messages",
        "moments",
        "moved",
        "omissions",
        "opening",
        "past",
        "paused",
        "prompted",
        "question_from",
        "reasked",
        "record",
        "remembered",
        "replay",
        "reread",
        "resting",
        "retried",
        "run",
        "session",
        "step",
        "steps",
        "steps_of_digression",
        "taken",
        "team",
        "text",
        "transitions",
        "waited_at",
    )

    def __init__(
        self,
        session: SessionState,
        frames: list[Frame],
        text: str | None,
        *,
        behaviour: Behaviour,
        clock: Clock,
        ids: Ids,
        past: Callable[[Frame], list[tuple[Any, str]]],
        team: Callable[[str], TeamMember | None],
        resting: dict[str, Frame],
        replay: TurnRecord | None = None,
    ) -> None:
        """Start a turn with the user's words; None opens the session."""
        self.team = team
        """Finds an agent by name among those that were loaded together."""
        self.past = past
        """Returns the messages before this turn that an agent may see, each with its role."""
        self.session = session
        self.frames = frames
        self.frame = frames[-1]
        self.text = text or ""
        self.opening = text is None
        self.fresh = text is not None
        """Whether the user's words are still unused."""
        self.answered: str | None = None
        """The step whose GATHER used them."""
        self.behaviour = behaviour
        self.run = ExpressionRun(clock=clock, ids=ids)
        self.messages: list[str] = []
        self.happened: list[TraceEntry] = []
        self.record = TurnRecord(input=text)
        self.steps: StepLog | None = None
        """What is recorded of the turn, where anything is."""
        self.step = NO_STEP
        self.moments: list[tuple[TraceEntry, float]] = []
        """Each entry of the trace and when it was added, where that is recorded."""
        self.replay = replay
        self.remembered = ""
        """What a model was told in this turn of what is remembered now."""
        self.omissions: Callable[[Sequence[str]], Omissions] = lambda now: Omissions()
        """Returns what models are not told, because it was forgotten since the session began, unless it is said now."""
        self.resting = resting
        """Agents that had the conversation before, by name; they keep their variables."""
        self.departure: Departure | None = None
        self.escalation: dict[str, Any] | None = None
        self.paused = False
        self.moved = False
        """Whether another agent has taken over and waits."""
        self.blocked = False
        """Whether a rule stopped the turn."""
        self.given_results = False
        """Whether a tool or a model returned something in this turn."""
        self.hidden: dict[str, str] = {}
        """Sensitive values of this turn as text, with what is shown instead."""
        for frame in (*frames, *resting.values()):
            if frame.plan.masks:
                for name, mask in frame.plan.masks.items():
                    if frame.names.get(name) is not None:
                        self.hidden.update(hidden_text(mask, frame.names[name]))
        self.prompted: set[str] = set()
        """The refs of memory that the ledger already says prompts of this turn showed."""
        self.deadline: float | None = None
        """When an agent to which another delegated takes no further step."""
        self.judged: tuple[str, str] | None = None
        """The agent and the words for which the model judged sentences last."""
        self.consulting = 0
        """Number of agents that wait for an agent to which they delegated."""
        self.transitions = 0
        self.retried = 0
        self.waited_at: Position | None = None
        """Where the user's words were read, unless this is the opening."""
        self.ask_again: list[str] = []
        """Fields that the next step asks for although they have a value."""
        self.steps_of_digression = 0
        """How many more steps belong to the digression of this turn; its own actions count as one."""
        self.in_hook = False
        self._rule_checks: dict[str, RuleChecks] = {}
        self.taken: list[str] = []
        """Fields that got a value in this turn."""
        self.reread = False
        """Whether the answer to an intent cleared fields, whose new values the same words may give."""
        self.question_from: int | None = None
        """The position of the first message of the question that a GATHER asked last."""
        self.reasked = False
        """Whether the answer to an intent asked the user something, so that the step does not ask again."""

    @property
    def rule_checks(self) -> RuleChecks:
        """What is known about the rules of the active agent."""
        checks = self._rule_checks.get(self.frame.key)
        if checks is None:
            checks = self._rule_checks[self.frame.key] = RuleChecks(self.frame)
        return checks

    def all_frames(self) -> list[Frame]:
        """Return the frames of all agents of the session, active or not."""
        return [*self.frames, *self.resting.values()]

    @property
    def status(self) -> Status:
        """The status of the session after the turn."""
        if self.session.status != "waiting":
            return self.session.status
        if self.moved:
            return "handed_off"
        return "blocked" if self.blocked else "waiting"

    @contextmanager
    def acting_as(self, frame: Frame, purpose: str, *, seconds: float | None) -> Generator[None]:
        """Make another agent active without the user: it does not see the turn's words, and its messages are dropped.

        `purpose` takes the place of the user's words. After `seconds` the agent takes no further step.
        """
        before = {name: getattr(self, name) for name in _SPEAKER_FIELDS}
        self.frames, self.frame, self.messages = [frame], frame, []
        self.departure, self.paused, self.fresh, self.answered = None, False, False, None
        self.text, self.opening, self.past = purpose, not purpose, _no_past
        ends = monotonic() + seconds if seconds is not None else None
        self.deadline = min(filter(None, (ends, self.deadline)), default=None)
        self.consulting += 1
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)
            self.consulting -= 1

    # evaluation

    def value(self, expression: Expression | CompiledTemplate, names: Any = None) -> Any:
        """Evaluate an expression with the variables of the active agent, or render a template."""
        run = self.run
        run.steps = run.written = 0
        try:
            value = expression.closure(self.frame.names if names is None else names, run)
        except LimitExceeded as error:
            raise StepError("validation_error", error.message) from None
        if run.captures is not None:
            # `match.1` is read by what follows the condition, in this turn or a later one.
            self.frame.names["match"] = run.captures
            self.frame.provenances.put(("match",), self._provenance_of((expression,), self.frame))
            run.captures = None
        return value

    def derive(self, expression: Expression | CompiledTemplate, frame: Frame | None = None) -> tuple[Any, Provenance]:
        """Return the value of an expression for an agent, by default the active one, and where it comes from."""
        frame = frame or self.frame
        frame.facts.session.reads.clear()
        value = self.value(expression, frame.names)
        if not (frame.provenances or frame.facts.session.reads):
            return value, OWN
        return value, self._provenance_of((expression,), frame)

    def derive_at(self, frame: Frame, path: str) -> tuple[Any, Provenance]:
        """Return the value of a dotted path for an agent, and where it comes from."""
        frame.facts.session.reads.clear()
        value = frame.value_at(path, self.run)
        return value, frame.facts.session.provenance_read() | frame.provenances.of([tuple(path.split("."))])

    def provenance_of(self, *expressions: Expression | CompiledTemplate | None) -> Provenance:
        """Return where what is made of some expressions comes from, and of the facts read since `reads` was cleared."""
        return self._provenance_of(expressions, self.frame)

    def _provenance_of(self, expressions: Iterable[Expression | CompiledTemplate | None], frame: Frame) -> Provenance:
        found = frame.facts.session.provenance_read()
        if frame.provenances:
            found |= frame.provenances.of(path for one in expressions if one is not None for path in one.paths)
        return found

    def note_said(self, provenance: Provenance) -> None:
        """Note what a text was made of that a model has seen, or may see later."""
        if provenance:
            self.session.said |= provenance

    def record_prompt(self, told: Provenance) -> None:
        """Note in the ledger what a model is told of memory, each ref once in a turn; a replay tells no one."""
        new = {ref: version for ref, version in told.refs.items() if ref not in self.prompted}
        if new and self.replay is None:
            facts = self.frame.facts.session
            facts.memory.record_prompt(facts.user or facts.project, new, to=f"session:{self.session.id}")
            self.prompted.update(new)

    def test(self, expression: Expression, names: Any = None) -> bool:
        """Say whether a condition is true."""
        value = self.value(expression, names)
        return value if type(value) is bool else expression.truthy(value)

    def render(self, template: CompiledTemplate, names: Any = None) -> str:
        """Render a template, which the user or a model may see: what it is made of is then known to a model."""
        session = self.frame.facts.session
        if not session.has_model:
            return self.value(template, names)
        session.reads.clear()
        text: str = self.value(template, names)
        self.note_said(self.provenance_of(template))
        return text

    # variables

    def assign(self, name: str, value: Any, below: tuple[str, ...] = (), provenance: Provenance = OWN) -> None:
        """Set a session variable or a field of it; objects are copied, never changed in place."""
        frame = self.frame
        if below:
            value = with_field(frame.names.get(name), below, value, name)
        frame.names[name] = value
        if provenance is not OWN or frame.provenances:
            frame.provenances.put((name, *below), provenance)
        frame.derived.discard(name)
        frame.dirty.add(name)
        if value is None:
            frame.hide(name)
        slot = frame.plan.declarations.session.get(name)
        if slot is None:
            return
        if slot.reset == "never":
            publish_shared(self.session, frame, name)
        if slot.type is not None and not fits(value, slot.type):
            detail = {"type": slot.type, "value": value}
            self.note("warning", f"`{name}` is declared {slot.type} and got another type", **detail)

    def clear(self, name: str, below: tuple[str, ...] = ()) -> None:
        """Make a session variable or a field of it undefined."""
        frame = self.frame
        if not below:
            frame.names.pop(name, None)
            frame.provenances.put((name,), OWN)
            frame.derived.discard(name)
            frame.hide(name)
        elif type(frame.names.get(name)) is dict:
            frame.names[name] = without_field(frame.names[name], below)
        frame.dirty.add(name)
        publish_shared(self.session, frame, name)

    # messages and trace

    def say(self, text: str) -> None:
        """Add a message to the user, unless it is blank."""
        if text.strip():
            self.messages.append(text)

    def note(self, kind: Kind, about: str, /, **detail: Any) -> None:
        """Add an entry to the trace."""
        entry = TraceEntry(kind, about, detail)
        self.happened.append(entry)
        if self.steps is not None:
            self.moments.append((entry, monotonic()))

    def hide(self, value: Any) -> Any:
        """Return a value for a trace or a prompt, in which sensitive texts are replaced."""
        return hide_in(value, self.hidden) if self.hidden else value

    def trace(self) -> Trace:
        """Return the entries of the turn, without sensitive values."""
        if not self.hidden:
            return Trace(self.happened)
        entries = (TraceEntry(one.kind, self.hide(one.about), self.hide(dict(one.detail))) for one in self.happened)
        return Trace(entries)

    def wait(self, what: Wait) -> None:
        """Pause until the user says more."""
        self.frame.state.wait = what
        self.paused = True

    def ask(self, model: Model, ask: Ask) -> Reply:
        """Return the reply of a model."""
        asked = model if self.steps is None else WatchedModel(model)
        forgetful = ForgetfulModel(asked, lambda: self.omissions((self.text, self.remembered)))
        return forgetful.reply(ask, timeout=self.behaviour.model_seconds)

    def record_steps(self, writes: Iterable[str]) -> None:
        """Record the turn and what happened in it, in which these refs are written."""
        if self.steps is None:
            return
        for frame in self.all_frames():
            self.steps.learn_secrets(frame.variables())
        step = self.step
        step.inputs = {"input": self.record.input, **({"given": self.record.given} if self.record.given else {})}
        step.output = {"messages": self.messages, "status": self.record.status}
        step.writes = dict.fromkeys(writes)
        self.steps.add(step)
        added = {id(entry): at for entry, at in self.moments}
        begun = self.moments[0][1] if self.moments else 0.0
        for number, entry in enumerate(self.happened, step.number + 1):
            child = self.steps.part_of(step, number, after=added.get(id(entry), begun) - begun)
            child.step, child.type, child.output = self.hide(entry.about), entry.kind, dict(entry.detail) or None
            child.status = "failed" if entry.kind == "error" else "completed"
            self.steps.add(child)
        self.session.recorded = self.steps.last

    def record_call(self, record: CallRecord) -> None:
        """Record the result of a tool, so that the turn can be replayed without it."""
        self.record.calls.append(record)


_SPEAKER_FIELDS = (
    *("frames", "frame", "messages", "departure", "paused", "fresh", "answered", "blocked"),
    *("text", "opening", "past", "question_from", "deadline"),
)
"""Attributes that belong to the agent that talks to the user, and are saved while another agent acts."""


def _no_past(frame: Frame) -> list[tuple[Any, str]]:
    return []


def owner_of_shared(session: SessionState, frame: Frame) -> tuple[object, tuple[str, ...]]:
    """Return the database and the owner of an agent's variables with `RESET: never`."""
    memory = frame.facts.session.memory
    return memory.root, (memory.tenant, session.project, frame.plan.name)


def publish_shared(session: SessionState, frame: Frame, name: str) -> None:
    """Publish a variable with `RESET: never` to other sessions; other variables, and replays, publish nothing."""
    slot = frame.plan.declarations.session.get(name)
    if slot is not None and slot.reset == "never" and frame.facts.session.as_of is None:
        shared = frame.names.get(name), frame.provenances.of([(name,)])
        set_process_value(*owner_of_shared(session, frame), name, *shared)


def field_at(value: Any, path: tuple[str, ...]) -> Any:
    """Return a nested field of an object, or None if it does not exist."""
    for name in path:
        value = cast("dict[str, Any]", value).get(name) if type(value) is dict else None
    return value


def with_field(value: Any, path: tuple[str, ...], new: Any, owner: str) -> dict[str, Any]:
    """Return a copy of an object with a nested field set; raise if the path leads through another type."""
    if value is None:
        held: Mapping[str, Any] = {}
    elif type(value) is dict:
        held = cast("dict[str, Any]", value)
    else:
        raise StepError("validation_error", f"`{owner}` is not an object, so its field `{path[0]}` cannot be set")
    name, rest = path[0], path[1:]
    return {**held, name: with_field(held.get(name), rest, new, f"{owner}.{name}") if rest else new}


def without_field(value: Any, path: tuple[str, ...]) -> Any:
    """Return a copy of an object without a nested field."""
    if type(value) is not dict:
        return value
    held = cast("dict[str, Any]", value)
    if path[0] not in held:
        return held
    if len(path) == 1:
        return {name: item for name, item in held.items() if name != path[0]}
    return {**held, path[0]: without_field(held[path[0]], path[1:])}


_values: weakref.WeakKeyDictionary[object, dict[tuple[str, ...], tuple[Any, Provenance]]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def set_process_value(
    root: object, owner: tuple[str, ...], name: str, value: Any, provenance: Provenance = OWN
) -> None:
    """Set a variable that every session of its owner sees from its next turn on.

    `root` is the open database, so that two databases share nothing; `owner` is a tenant, a project and an agent.
    """
    with _lock:
        _values.setdefault(root, {})[(*owner, name)] = (value, provenance)


def process_value(root: object, owner: tuple[str, ...], name: str) -> tuple[Any, Provenance] | None:
    """Return the value of a variable that was set in this process, and where it comes from; None if it was not set."""
    with _lock:
        return _values.get(root, {}).get((*owner, name))


class TurnClock:
    """A clock with one fixed time, so that a whole turn happens at one moment."""

    def __init__(self, moment: datetime) -> None:
        """Fix the time."""
        self._moment = moment

    def now(self) -> datetime:
        """Return the moment of the turn."""
        return self._moment


class TurnIds:
    """Ids that are the same when a turn is replayed."""

    def __init__(self, session: str, number: int) -> None:
        """Create the source of ids for one turn of a session."""
        self._seed = f"{session}:{number}"
        self._made = 0

    def new(self, kind: str) -> str:
        """Return the next id of this turn."""
        self._made += 1
        text = f"{self._seed}:{self._made}"
        return f"{kind}_{hashlib.blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"
