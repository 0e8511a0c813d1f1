"""One turn under way: the agent whose turn it is, its variables, and everything it says and does."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from memoranda.abl.behaviour import Behaviour
from memoranda.abl.document import PREFIXES
from memoranda.abl.runtime.shared import keep_for_the_process
from memoranda.abl.runtime.state import CallRecord, FrameState, SessionState, Status, TurnRecord, Wait
from memoranda.abl.runtime.trace import Happening, Kind
from memoranda.abl.variables import FACTS, KEPT_FROM_VIEW, SYSTEM, fits
from memoranda.errors import LimitExceeded
from memoranda.lang.expression.dialect import Closure, Run
from memoranda.lang.expression.program import Expression
from memoranda.lang.template import CompiledTemplate
from memoranda.model.clock import Clock
from memoranda.model.ids import Ids

if TYPE_CHECKING:
    from memoranda.abl.runtime.facts import FrameFacts
    from memoranda.abl.runtime.plan import Plan, StepPlan
    from memoranda.abl.tools.toolbox import Toolbox
    from memoranda.agent.models import Model


class Fault(Exception):
    """Something in a step failed; `kind` is what `ON_ERROR` calls it."""

    def __init__(self, kind: str, message: str, *, subtype: str = "") -> None:
        """Keep what failed and how."""
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.subtype = subtype


class Member:
    """An agent that can be active: its plan, its tools and its model."""

    __slots__ = ("model", "plan", "toolbox")

    def __init__(self, plan: Plan, toolbox: Toolbox, model: Model | None) -> None:
        """Put the parts of an agent together."""
        self.plan = plan
        self.toolbox = toolbox
        self.model = model


class Frame:
    """One agent inside a session: where it stands, and its variables."""

    __slots__ = (
        "derived",
        "dirty",
        "facts",
        "key",
        "member",
        "names",
        "plan",
        "prefix",
        "results",
        "results_changed",
        "state",
    )

    def __init__(self, member: Member, state: FrameState, facts: FrameFacts, *, key: str) -> None:
        """Stand at a state, with no variables yet."""
        self.member = member
        self.plan = member.plan
        self.state = state
        self.facts = facts
        self.key = key
        """What tells its variables from those of other agents; empty for the agent that the session began with."""
        self.prefix = f"{key}." if key else ""
        """What the keys of its variables begin with."""
        self.names: dict[str, Any] = {FACTS: facts}
        self.derived: set[str] = set()
        """Names that only repeat a field of a result; they come back with it."""
        self.results: dict[str, Any] = {}
        """What each tool gave last, in the order of the calls."""
        self.results_changed = False
        self.dirty: set[str] = set()

    @property
    def step(self) -> StepPlan | None:
        """The step that it is in."""
        return self.plan.steps.get(self.state.step) if self.state.step is not None else None

    def put_result(self, tool: str, value: Any, *, spreads: bool) -> None:
        """Put what a tool gave under the names by which it is read; with `spreads`, its fields too."""
        self.results.pop(tool, None)
        self.results[tool] = value
        names = self.names
        names["call_result"] = names["result"] = names[_last_result(tool)] = value
        if spreads:
            self._spread()

    def drop_result(self, tool: str) -> None:
        """Take back what a tool gave."""
        del self.results[tool]
        self.names.pop(_last_result(tool), None)
        self.names["call_result"] = self.names["result"] = next(reversed(self.results.values()), None)
        if self.derived:
            self._spread()

    def _spread(self) -> None:
        """Let the fields of results be read by their own names, those of the newest first, where nothing else is."""
        names = self.names
        for name in self.derived:
            names.pop(name, None)
        self.derived.clear()
        declared, hidden = self.plan.declarations.session, self.state.mind.hidden
        for value in reversed(self.results.values()):
            for name, item in cast("dict[str, Any]", value).items() if type(value) is dict else ():
                if names.get(name) is None and name not in declared and name not in hidden and _may_be_field(name):
                    names[name] = item
                    self.derived.add(name)

    def hide(self, name: str) -> None:
        """Let a name that was made undefined stay so, though a result has a field of that name."""
        if any(type(value) is dict and name in value for value in self.results.values()):
            hidden = self.state.mind.hidden
            self.state.mind.hidden = [*hidden, name] if name not in hidden else hidden

    def reveal(self, value: Any) -> None:
        """Let the fields of a new result be read again."""
        hidden = self.state.mind.hidden
        if hidden and type(value) is dict:
            self.state.mind.hidden = [name for name in hidden if name not in cast("dict[str, Any]", value)]

    def use(self, facts: FrameFacts) -> None:
        """See the facts with other grants than before."""
        self.facts = self.names[FACTS] = facts

    def value_at(self, path: str, run: Run) -> Any:
        """Return what a dotted path is for this agent: a fact, a variable, or a field of one."""
        segments = tuple(path.split("."))
        resolved = self.plan.declarations.resolve(segments)
        taken = resolved[0] if resolved else 1
        value = resolved[1](self.names, run) if resolved else self.names.get(segments[0])
        return value_below(value, segments[taken:])

    def shown(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return values of dotted paths as traces may show them."""
        facts = {path: self.plan.declarations.find(path) or self.facts.granted(path) for path in values}
        hidden = {path for path, found in facts.items() if found is not None and found[0].sensitive}
        return {path: KEPT_FROM_VIEW if path in hidden else value for path, value in values.items()}

    def variables(self) -> dict[str, Any]:
        """Return its variables: all that are declared, and what else has a value; no names of the runtime."""
        found = dict.fromkeys(self.plan.declarations.session)
        is_system = self.plan.is_system
        found.update({name: value for name, value in self.names.items() if value is not None and not is_system(name)})
        return found


def _last_result(tool: str) -> str:
    return f"last_{tool.replace('.', '_')}_result"


def _may_be_field(name: str) -> bool:
    return name not in SYSTEM and name not in PREFIXES and name[:1] not in ("", "_", "\0")


class Departure(msgspec.Struct, frozen=True):
    """An agent gives control away: to nobody, to a person, or to another agent."""

    kind: Literal["escalate", "handoff", "delegate", "complete"]
    agent: str = ""
    reason: str = ""
    number: int | None = None
    """Which handoff, delegation or end of the agent says so; None where a step does."""
    priority: str | None = None
    tags: tuple[str, ...] = ()
    by_rule: bool = False
    """Whether a broken rule is the reason: what it stopped does not go on by itself when control comes back."""


class Work:
    """What one turn uses and makes."""

    __slots__ = (
        "answered",
        "behaviour",
        "blocked",
        "consulting",
        "departure",
        "escalation",
        "frame",
        "frames",
        "fresh",
        "given_results",
        "happened",
        "messages",
        "moved",
        "opening",
        "past",
        "paused",
        "reasked",
        "record",
        "replay",
        "resting",
        "retried",
        "run",
        "session",
        "taken",
        "team",
        "text",
        "transitions",
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
        team: Callable[[str], Member | None],
        resting: dict[str, Frame],
        replay: TurnRecord | None = None,
    ) -> None:
        """Begin a turn with the user's words, or without any."""
        self.team = team
        """Finds an agent by its name among those that were loaded together."""
        self.past = past
        """Gives who said what before this turn, as far as an agent may know."""
        self.session = session
        self.frames = frames
        self.frame = frames[-1]
        self.text = text or ""
        self.opening = text is None
        self.fresh = text is not None
        """Whether nothing has made use of the user's words yet."""
        self.answered: str | None = None
        """The step whose gathering made use of them."""
        self.behaviour = behaviour
        self.run = Run(clock=clock, ids=ids)
        self.messages: list[str] = []
        self.happened: list[Happening] = []
        self.record = TurnRecord(input=text)
        self.replay = replay
        self.resting = resting
        """Agents that had the conversation before and do not have it now, by name; they keep their variables."""
        self.departure: Departure | None = None
        self.escalation: dict[str, Any] | None = None
        self.paused = False
        self.moved = False
        """Whether another agent has taken over and waits now."""
        self.blocked = False
        """Whether a rule stopped what the turn was about to do."""
        self.given_results = False
        """Whether a tool or a model gave something in this turn."""
        self.consulting = 0
        """How many agents wait for one that was asked to do a part of their work."""
        self.transitions = 0
        self.retried = 0
        self.taken: list[str] = []
        """Fields that got a value in this turn."""
        self.reasked = False
        """Whether the user was asked in other words already, so that a question would be one too many."""

    def everyone(self) -> list[Frame]:
        """Return the frames of all agents that took part in the session."""
        return [*self.frames, *self.resting.values()]

    @property
    def status(self) -> Status:
        """How the turn leaves the session: with a person or elsewhere, done, stopped by a rule, or waiting."""
        if self.session.status != "waiting":
            return self.session.status
        if self.moved:
            return "handed_off"
        return "blocked" if self.blocked else "waiting"

    @contextmanager
    def aside(self, frame: Frame, purpose: str) -> Generator[None]:
        """Let another agent work by itself, on a purpose in words or none: it hears and says nothing of the turn's."""
        before = {name: getattr(self, name) for name in _OF_THE_SPEAKER}
        self.frames, self.frame, self.messages = [frame], frame, []
        self.departure, self.paused, self.fresh, self.answered = None, False, False, None
        self.text, self.opening, self.past = purpose, not purpose, _nothing_said
        self.consulting += 1
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)
            self.consulting -= 1

    # what is computed

    def value(self, expression: Expression, names: Any = None) -> Any:
        """Return the value of an expression among the variables of the active agent."""
        return self._compute(expression.closure, names)

    def test(self, expression: Expression, names: Any = None) -> bool:
        """Return whether a condition holds."""
        value = self._compute(expression.closure, names)
        return value if type(value) is bool else expression.truthy(value)

    def render(self, template: CompiledTemplate, names: Any = None) -> str:
        """Return a template's text."""
        return self._compute(template.closure, names)

    def _compute(self, closure: Closure, names: Any) -> Any:
        run = self.run
        run.steps = run.written = 0
        try:
            value = closure(self.frame.names if names is None else names, run)
        except LimitExceeded as error:
            raise Fault("validation_error", error.message) from None
        if run.captures is not None:
            # `match.1` is read by what follows the condition, in this turn or a later one.
            self.frame.names["match"] = run.captures
            run.captures = None
        return value

    # what is kept

    def assign(self, name: str, value: Any, below: tuple[str, ...] = ()) -> None:
        """Give a session variable a value, or a field below it; values in the way are copied, never changed."""
        frame = self.frame
        if below:
            value = put_below(frame.names.get(name), below, value, name)
        frame.names[name] = value
        frame.derived.discard(name)
        frame.dirty.add(name)
        if value is None:
            frame.hide(name)
        slot = frame.plan.declarations.session.get(name)
        if slot is None:
            return
        share(self.session, frame, name)
        if slot.type is not None and not fits(value, slot.type):
            detail = {"type": slot.type, "value": value}
            self.note("warning", f"`{name}` is declared {slot.type} and got another type", **detail)

    def clear(self, name: str, below: tuple[str, ...] = ()) -> None:
        """Make a session variable undefined, or a field below it."""
        frame = self.frame
        if not below:
            frame.names.pop(name, None)
            frame.derived.discard(name)
            frame.hide(name)
        elif type(frame.names.get(name)) is dict:
            frame.names[name] = without(frame.names[name], below)
        frame.dirty.add(name)
        share(self.session, frame, name)

    # what is said and noted

    def say(self, text: str) -> None:
        """Add a message to the user; an empty one is none."""
        if text.strip():
            self.messages.append(text)

    def note(self, kind: Kind, about: str, /, **detail: Any) -> None:
        """Write down what happened."""
        self.happened.append(Happening(kind, about, detail))

    def wait(self, what: Wait) -> None:
        """Stop until the user says more."""
        self.frame.state.wait = what
        self.paused = True

    def called(self, record: CallRecord) -> None:
        """Keep what a tool gave, so that the turn can be done again without it."""
        self.record.calls.append(record)


_OF_THE_SPEAKER = (
    *("frames", "frame", "messages", "departure", "paused", "fresh", "answered", "blocked"),
    *("text", "opening", "past"),
)
"""What belongs to the agent that speaks with the user, while another one is asked."""


def _nothing_said(frame: Frame) -> list[tuple[Any, str]]:
    return []


def shared_place(session: SessionState, frame: Frame) -> tuple[object, tuple[str, ...]]:
    """Return where the variables stand that live as long as the process: in which database, and whose."""
    memory = frame.facts.session.memory
    return memory.root, (memory.tenant, session.project, frame.plan.name)


def share(session: SessionState, frame: Frame, name: str) -> None:
    """Let other sessions see what became of a variable, if it is one that lives as long as the process.

    A replay shows nobody anything.
    """
    slot = frame.plan.declarations.session.get(name)
    if slot is not None and slot.reset == "never" and frame.facts.session.as_of is None:
        keep_for_the_process(*shared_place(session, frame), name, frame.names.get(name))


def value_below(value: Any, path: tuple[str, ...]) -> Any:
    """Return a field of an object, however deep; None where there is none."""
    for name in path:
        value = cast("dict[str, Any]", value).get(name) if type(value) is dict else None
    return value


def put_below(value: Any, path: tuple[str, ...], new: Any, owner: str) -> dict[str, Any]:
    """Return an object with a field set, however deep; what is in the way and no object is refused."""
    if value is None:
        held: Mapping[str, Any] = {}
    elif type(value) is dict:
        held = cast("dict[str, Any]", value)
    else:
        raise Fault("validation_error", f"`{owner}` is no object, so `{path[0]}` cannot be set below it")
    name, rest = path[0], path[1:]
    return {**held, name: put_below(held.get(name), rest, new, f"{owner}.{name}") if rest else new}


def without(value: Any, path: tuple[str, ...]) -> Any:
    """Return an object without a field, however deep."""
    if type(value) is not dict:
        return value
    held = cast("dict[str, Any]", value)
    if path[0] not in held:
        return held
    if len(path) == 1:
        return {name: item for name, item in held.items() if name != path[0]}
    return {**held, path[0]: without(held[path[0]], path[1:])}
