"""Sessions: a conversation with an agent, saved after each turn so that it can be resumed."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

import msgspec

from memoranda.abl.behaviour import Behaviour
from memoranda.abl.runtime.active_turn import ActiveTurn, Frame, TeamMember, TurnClock, TurnIds, publish_shared
from memoranda.abl.runtime.coordination import finish_agent, first_frame
from memoranda.abl.runtime.memory import SessionFacts, recall
from memoranda.abl.runtime.persistence import (
    drop_invalid_variables,
    encode_state,
    freeze,
    identity_names,
    past_messages,
    read_state,
    read_turns,
    save,
    thaw,
)
from memoranda.abl.runtime.plan import Plan
from memoranda.abl.runtime.state import SessionState, Status, TurnRecord
from memoranda.abl.runtime.trace import LOGGED, Trace, TraceEntry
from memoranda.abl.runtime.turn import open_session, take_turn
from memoranda.abl.variables import FROM_OUTSIDE, fits
from memoranda.api.memory import Memory
from memoranda.engine.facts import GetFact, SetFact
from memoranda.engine.omissions import ReadOmissions
from memoranda.engine.sessions import EndScope, StartSession
from memoranda.errors import Conflict, Hint, InvalidInput, LimitExceeded, MemorandaError, ScopeEnded, UsageError
from memoranda.governance.runs import ReadSteps
from memoranda.lang.diagnostics import closest
from memoranda.model.event import RunStep
from memoranda.model.names import SESSION_RECORD
from memoranda.model.omission import Omissions
from memoranda.model.scope import Scope
from memoranda.model.text import quote, without_halves
from memoranda.model.value import decode, encode_checked
from memoranda.runs.provenance import OWN
from memoranda.runs.steps import StepLog

if TYPE_CHECKING:
    from memoranda.abl.replay import Replay

_log = logging.getLogger(__name__)
_KIND = attrgetter("kind")


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a turn."""

    number: int
    messages: list[str]
    status: Status
    step: str | None
    agent: str
    trace: Trace
    escalation: Mapping[str, Any] | None = None
    """For the person who takes over: reason, priority, and context."""

    @property
    def events(self) -> tuple[TraceEntry, ...]:
        """Events of the turn for the calling program."""
        return self.trace.events

    @property
    def text(self) -> str:
        """All messages as one text."""
        return "\n".join(self.messages)


class Setting(msgspec.Struct, frozen=True):
    """The environment of a session: the memory, the team of agents, and their behaviour."""

    memory: Memory
    team: Mapping[str, TeamMember]
    behaviour: Behaviour
    awake: Awake

    @property
    def has_model(self) -> bool:
        """Whether one of the agents has a model."""
        return any(member.model is not None for member in self.team.values())


class Awake:
    """The most recently used sessions; others are unloaded, and loaded again when needed."""

    def __init__(self, most: int) -> None:
        """Set the number of sessions that stay loaded."""
        self._most = most
        self._sessions: dict[int, weakref.ref[Session]] = {}
        self._lock = threading.Lock()

    def touch(self, session: Session) -> None:
        """Mark a session as used, and unload the least recently used one."""
        with self._lock:
            self._sessions.pop(id(session), None)
            self._sessions[id(session)] = weakref.ref(session)
            oldest = self._sessions.pop(next(iter(self._sessions)))() if len(self._sessions) > self._most else None
        if oldest is not None:
            oldest.rest()


class Session:
    """A conversation with an agent. Turns are serialized across threads.

    >>> import memoranda
    >>> text = '''
    ... AGENT: Porter
    ... GOAL: "Know the guests"
    ... FLOW:
    ...   ask:
    ...     REASONING: false
    ...     GATHER:
    ...       - guest_name:
    ...         prompt: "Who are you?"
    ...     RESPOND: "Welcome, {{guest_name}}."
    ...     THEN: COMPLETE
    ... '''
    >>> with memoranda.open(":memory:") as memory:
    ...     session = memoranda.abl.load(text, memory=memory).start(user="ada")
    ...     turn = session.say("I am Ada")
    ...     turn.text, turn.status, session.vars["guest_name"], [one.input for one in session.turns()]
    ('Welcome, Ada.', 'completed', 'Ada', [None, 'I am Ada'])
    """

    __slots__ = (
        "__weakref__",
        "_ended",
        "_frames",
        "_given",
        "_lock",
        "_opening",
        "_resting",
        "_scope",
        "_setting",
        "_stale",
        "_state",
        "_version",
        "id",
        "project",
        "tree",
        "user",
    )

    def __init__(
        self, setting: Setting, state: SessionState, frames: list[Frame], resting: dict[str, Frame], version: int
    ) -> None:
        """Create a session from a state; `agent.start` and `resume` do this."""
        self.id = state.id
        """The id by which the session can be resumed."""
        self.user = state.user
        """The user of the session."""
        self.project = state.project
        """The project it belongs to."""
        self.tree = state.tree
        """The handoff tree whose memory it shares; its own id if it is the root."""
        self._setting = setting
        self._state = state
        self._frames = frames
        self._resting = resting
        self._version = version
        self._scope = Scope.of(tenant=setting.memory.tenant, session=state.id)
        self._lock = threading.RLock()
        self._stale = False
        self._ended = False
        self._given: dict[str, Any] = {}
        self._opening: Turn | None = None

    @classmethod
    def begin(
        cls,
        setting: Setting,
        agent: str,
        *,
        id: str | None,
        user: str | None,
        project: str,
        tree: str | None,
        given: Mapping[str, Any],
    ) -> Session:
        """Start a session and take its opening turn."""
        memory = setting.memory
        named, id = id is not None, memory.ids.new("session") if id is None else id
        state = SessionState(
            id,
            user,
            project,
            joined=tree,
            root=agent,
            agents={member.plan.name: member.plan.digest for member in setting.team.values()},
        )
        facts = SessionFacts(memory, user=user, project=project, tree=state.tree, has_model=setting.has_model)
        member = setting.team[agent]
        frame = first_frame(member, facts)
        frame.names.update(identity_names(state, memory.tenant))
        session = cls(setting, state, [frame], {}, 0)
        memory.perform(StartSession(scope=session._scope, owner=facts.user))
        if named and memory.perform(GetFact(scope=session._scope, key=SESSION_RECORD)) is not None:
            # Check first: a tool call cannot be undone.
            raise Conflict(
                f"the session {quote(id)} already exists", hint="Resume it, or start one with another id", expected=0
            )
        session._opening = session._take(None, lambda turn: open_session(turn, dict(given)), given=dict(given))
        return session

    @classmethod
    def resume(cls, setting: Setting, id: str) -> Session:
        """Load a session that was started earlier."""
        state, version, frames, resting = _load_session(setting, Scope.of(tenant=setting.memory.tenant, session=id))
        return cls(setting, state, frames, resting, version)

    # what there is to see

    @property
    def opening(self) -> Turn:
        """The turn before any input; without its trace if the session was loaded again."""
        with self._lock:
            if self._opening is None:
                first = read_turns(self._setting.memory, self._scope)[0]
                frame = first.frames[-1]
                self._opening = Turn(
                    number=0,
                    messages=first.turn.messages,
                    status=first.turn.status,
                    step=frame.step or None,
                    agent=frame.agent,
                    trace=Trace(),
                )
            return self._opening

    @property
    def status(self) -> Status:
        """The status after the last turn."""
        with self._lock:
            self._freshen()
            return self._state.turn.status

    @property
    def agent(self) -> str:
        """The name of the active agent."""
        return self._active.plan.name

    @property
    def step(self) -> str | None:
        """The current step of the active agent."""
        return self._active.state.step or None

    @property
    def vars(self) -> MutableMapping[str, Any]:
        """The variables of the active agent. Its inputs can be assigned and deleted, which is saved at once."""
        return _Variables(self)

    def turns(self) -> list[TurnRecord]:
        """Return the record of each turn, oldest first."""
        return [state.turn for state in read_turns(self._setting.memory, self._scope)]

    def step_records(self, *, after: int = 0, limit: int | None = None, max_bytes: int | None = None) -> list[RunStep]:
        """Return what was recorded of its turns, in order: each turn, and what happened in it as its parts.

        `after` is the number of the last record seen. Empty unless the agent was loaded with a `Recording`.
        """
        effect = ReadSteps(scope=self._scope, after=after, limit=limit, max_bytes=max_bytes)
        return self._setting.memory.perform(effect)

    @property
    def _active(self) -> Frame:
        with self._lock:
            self._freshen()
            return self._frames[-1]

    # what can be done

    def say(self, text: str) -> Turn:
        """Take a turn with the user's words and return its result.

        A turn is saved as a whole at its end; if that fails, nothing is saved, and the same text can be sent again.
        """
        if not isinstance(cast(object, text), str):
            raise UsageError(f"{quote(text)} is {type(text).__name__}, not text", hint="Pass what the user said")
        longest = self._setting.behaviour.input_characters
        if len(text) > longest:
            raise LimitExceeded(
                f"the message has {len(text):,} characters, the limit is {longest:,}",
                hint=(
                    "Send a shorter message",
                    Hint("python", "Load the agent with another Behaviour(input_characters=…)"),
                ),
                limit=longest,
                actual=len(text),
            )
        # Replace what cannot be encoded or stored; it would invalidate the variable that contains it.
        text = without_halves(text).replace("\0", "\ufffd")
        return self._take(text, take_turn)

    def replay(self) -> Replay:
        """Replay all turns with the agent as it is loaded now, without tools, models or writes."""
        from memoranda.abl.replay import replay_session

        states = read_turns(self._setting.memory, self._scope)
        return replay_session(self._setting, states[0].frames[0].agent, states)

    def take_back(self) -> None:
        """Return the conversation to the agent after a person, or an agent elsewhere, had it."""
        with self._lock:
            self._freshen()
            if self._state.status in ("escalated", "handed_off"):
                self._state.status = self._state.turn.status = "waiting"
                self._keep_state()

    def end(self) -> Turn:
        """End the session: run its last recalls and delete its variables; what it remembered stays."""
        with self._lock:
            self._check_open()
            self._freshen()
            turn = self._active_turn(None)
            for frame in reversed(self._frames):
                # This also ends agents that wait for control to return.
                turn.frame = frame
                if frame.state.wait != "done":
                    finish_agent(turn)
            turn.frame = self._frames[-1]
            recall(turn, "session:end")
            turn.note("ended", self.id)
            self._keep_last_facts(turn)
            memory = self._setting.memory
            memory.perform(EndScope(scope=self._scope))
            if self._state.planted:
                memory.perform(EndScope(scope=Scope.of(tenant=memory.tenant, tree=self._state.tree)))
            self._ended = True
            return self._turn(turn)

    # how it is done

    def _keep_last_facts(self, turn: ActiveTurn) -> None:
        """Save what was remembered at the end, which is not part of a turn."""
        if not self._facts.pending:
            return
        try:
            self._plant_tree()
            freeze(turn)
            self._version = save(turn, self._facts, self._scope, self._version)
        except BaseException:
            self._facts.settle()
            self._stale = True
            raise

    def _take(
        self, text: str | None, run: Callable[[ActiveTurn], None], *, given: dict[str, Any] | None = None
    ) -> Turn:
        with self._lock:
            self._check_open()
            self._freshen()
            if text is not None:
                self._state.number += 1
            turn = self._active_turn(text)
            turn.record.given = given or self._given
            try:
                if self._state.status in ("escalated", "handed_off"):
                    turn.note("input", turn.text, to="the current owner of the conversation")
                else:
                    self._state.status = "waiting"
                    with turn.step:
                        run(turn)
                turn.record.messages, turn.record.status = turn.messages, turn.status
                drop_invalid_variables(turn, self._setting.memory.limits)
                self._plant_tree()
                freeze(turn)
                self._version = save(turn, self._facts, self._scope, self._version)
            except BaseException:
                # An unsaved turn did not happen: the next call starts from the saved state.
                self._facts.settle()
                self._stale = True
                raise
            self._frames, self._resting = turn.frames, turn.resting
            self._given = {}
            self._setting.awake.touch(self)
            self._log_warnings(turn)
            return self._turn(turn)

    def _log_warnings(self, turn: ActiveTurn) -> None:
        """Log what the author of the agent should know: warnings, and turns that were stopped."""
        if LOGGED.isdisjoint(map(_KIND, turn.happened)):
            return
        for entry in turn.happened:
            if entry.kind in LOGGED:
                why = entry.detail.get("rule") or entry.detail.get("why")
                _log.warning("session %s: %s%s", self.id, entry.about, f" ({why})" if why else "")

    def _plant_tree(self) -> None:
        """Start the handoff tree when something is first stored in it; it belongs to the user."""
        state, facts = self._state, self._facts
        if state.joined is None and not state.planted and facts.touches_tree:
            self._setting.memory.perform(StartSession(scope=facts.tree, owner=facts.user))
            state.planted = True

    def _turn(self, turn: ActiveTurn) -> Turn:
        frame = turn.frames[-1]
        return Turn(
            number=self._state.number,
            messages=turn.messages,
            status=turn.record.status,
            step=frame.state.step or None,
            agent=frame.plan.name,
            trace=turn.trace(),
            escalation=turn.escalation,
        )

    @property
    def _facts(self) -> SessionFacts:
        return self._frames[0].facts.session

    def _active_turn(self, text: str | None) -> ActiveTurn:
        moment = self._setting.memory.clock.now().astimezone(UTC)
        turn = ActiveTurn(
            self._state,
            list(self._frames),
            text,
            behaviour=self._setting.behaviour,
            clock=TurnClock(moment),
            ids=TurnIds(self.id, self._state.number),
            past=self._past,
            team=self._setting.team.get,
            resting=dict(self._resting),
        )
        turn.omissions = self._omissions
        recording = self._setting.behaviour.recording
        if recording.is_on:
            clock, last = self._setting.memory.clock, self._state.recorded
            turn.steps = StepLog(recording, clock=clock, salt=self.id, last=last, hide=turn.hide)
            turn.step = turn.steps.step(turn.frame.plan.name, "turn")
        # The same as `isoformat`, in a fifth of the time.
        turn.record.at = f"{msgspec.to_builtins(moment)[:-1]}+00:00"
        return turn

    def _past(self, frame: Frame) -> list[tuple[Any, str]]:
        first, count = frame.state.notes.history
        return cast("list[tuple[Any, str]]", past_messages(read_turns(self._setting.memory, self._scope), first, count))

    def _omissions(self, now: Sequence[str]) -> Omissions:
        """Return what was forgotten since the session began, but for what was said since or is said now."""
        memory = self._setting.memory
        effect = ReadOmissions(scope=self._scope, key=SESSION_RECORD, owner=self._facts.user)
        found: Omissions = memory.perform(effect)
        if not found:
            return found
        records = [one.turn for one in read_turns(memory, self._scope)]
        said: list[tuple[datetime | None, str]] = [(datetime.fromisoformat(one.at), one.input or "") for one in records]
        return found.renewed_by((*said, *((None, text) for text in now)))

    def rest(self) -> None:
        """Unload everything that can be loaded again."""
        if not self._lock.acquire(blocking=False):
            return  # It is in the middle of a turn.
        try:
            if self._stale or self._ended:
                return
            self._state, self._frames, self._resting, self._stale = *_NOTHING, True
            self._opening = None
        finally:
            self._lock.release()

    def _freshen(self) -> None:
        """Load the session again after it was unloaded, or after a turn that could not be saved."""
        if not self._stale:
            return
        self._state, self._version, self._frames, self._resting = _load_session(self._setting, self._scope)
        self._stale = False

    def _check_open(self) -> None:
        if self._ended:
            raise ScopeEnded(
                f"`{self._scope}` has ended", hint="Start a new one: ids of ended sessions are not used again"
            )

    def _assign(self, name: str, value: Any) -> None:
        """Set a variable of the active agent from outside, and save it at once."""
        with self._lock:
            self._check_open()
            frame = self._active
            check_input(frame.plan, name, value)
            if value is None:
                self._clear(name)
                return
            memory = self._setting.memory
            payload = encode_checked(value, memory.limits)
            # Two copies: one becomes the variable, one goes into the record of the next turn.
            give(frame, name, decode(payload))
            publish_shared(self._state, frame, name)
            self._given[name] = decode(payload)
            if frame.plan.keeps[name]:
                self._state.vars[frame.prefix + name] = decode(payload)
                self._keep_state()
            frame.dirty.discard(name)

    def _keep_state(self) -> None:
        """Save a change between two turns."""
        payload = msgspec.Raw(encode_state(self._state))
        effect = SetFact(scope=self._scope, key=SESSION_RECORD, payload=payload, expect=self._version, echo=False)
        try:
            self._version = self._setting.memory.perform(effect).version
        except MemorandaError:
            self._stale = True
            raise

    def _clear(self, name: str) -> None:
        with self._lock:
            self._check_open()
            frame = self._active
            if name not in frame.variables():
                raise KeyError(name)
            check_input(frame.plan, name, None)
            give(frame, name, None)
            publish_shared(self._state, frame, name)
            self._given[name] = None
            if self._state.vars.pop(frame.prefix + name, None) is not None:
                self._keep_state()
            frame.dirty.discard(name)

    def __repr__(self) -> str:
        """Return id, user, agent and step."""
        return f"<memoranda.abl.Session {self.id} user={self.user} agent={self.agent} step={self.step}>"


def _load_session(setting: Setting, scope: Scope) -> tuple[SessionState, int, list[Frame], dict[str, Frame]]:
    """Return the saved state of a session, its version, and the frames of its agents."""
    memory = setting.memory
    state, version = read_state(memory, scope)
    facts = SessionFacts(memory, user=state.user, project=state.project, tree=state.tree, has_model=setting.has_model)
    spreads = setting.behaviour.results_become_variables
    return state, version, *thaw(memory, scope, state, facts, setting.team.get, spreads=spreads)


_NOTHING: tuple[SessionState, list[Frame], dict[str, Frame]] = (SessionState("", None, ""), [], {})
"""The content of an unloaded session, which is loaded before any use."""


def check_variable(plan: Plan, name: object) -> None:
    """Raise UsageError for a name that a program cannot use for a variable."""
    if isinstance(name, str) and name.isidentifier() and (name in FROM_OUTSIDE or not plan.is_system(name)):
        return
    raise UsageError(f"{quote(name)} cannot be a variable", hint="Use a name that the runtime does not use")


def check_input(plan: Plan, name: object, value: Any) -> None:
    """Raise InvalidInput for a variable that callers may not set, or a value of the wrong type."""
    slots = plan.declarations.session
    inputs = [slot.name for slot in slots.values() if slot.input]
    slot = slots.get(name) if isinstance(name, str) else None
    if slot is None or not slot.input:
        if isinstance(name, str) and plan.is_system(name) and name not in FROM_OUTSIDE:
            message = f"{quote(name)} is set by the runtime and cannot be given"
            raise InvalidInput(message, hint=_input_hint(plan, name, inputs), variable=name, inputs=inputs)
        # The same message whether the variable exists or not, so that callers learn nothing about the agent.
        add = "to take it from callers, the agent declares it below `MEMORY: session:` with the line `INPUT: true`"
        raise InvalidInput(
            f"the variable {quote(name)} is not declared as input of {quote(plan.name)}",
            hint=f"{_input_hint(plan, name, inputs)}; {add}",
            variable=name,
            inputs=inputs,
        )
    if not fits(value, slot.type):
        raise InvalidInput(
            f"the input {quote(name)} of {quote(plan.name)} needs {slot.type}, not {quote(value, longest=40)}",
            hint="Pass a value of the declared `TYPE`; nothing is converted here",
            variable=name,
            inputs=inputs,
            expected=slot.type,
        )


def _input_hint(plan: Plan, name: object, inputs: list[str]) -> str:
    if not inputs:
        return f"{plan.name} has no inputs"
    near = closest(name, inputs) if isinstance(name, str) else None
    return f"Did you mean `{near}`? Inputs are {', '.join(inputs)}" if near else f"Inputs are {', '.join(inputs)}"


def give(frame: Frame, name: str, value: Any) -> None:
    """Set a variable of an agent from outside; None makes it undefined."""
    frame.derived.discard(name)
    frame.provenances.put((name,), OWN)
    if value is None:
        frame.names.pop(name, None)
        frame.hide(name)
    else:
        frame.names[name] = value


class _Variables(MutableMapping[str, Any]):
    """The variables of a session as a mapping."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def _values(self) -> dict[str, Any]:
        return self._session._active.variables()  # pyright: ignore[reportPrivateUsage]

    def __getitem__(self, name: str) -> Any:
        value = self._values()[name]
        # A copy: a change inside the value would be visible to this process only, and never be saved.
        return deepcopy(value) if type(value) in (list, dict) else value

    def __setitem__(self, name: str, value: Any) -> None:
        self._session._assign(name, value)  # pyright: ignore[reportPrivateUsage]

    def __delitem__(self, name: str) -> None:
        self._session._clear(name)  # pyright: ignore[reportPrivateUsage]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values())

    def __len__(self) -> int:
        return len(self._values())

    def __repr__(self) -> str:
        return repr(self._values())
