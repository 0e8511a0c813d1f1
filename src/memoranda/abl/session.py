"""A conversation with an agent: the user's words in, a turn out; saved after each, so that it can be resumed."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from copy import deepcopy
from datetime import UTC
from typing import TYPE_CHECKING, Any, cast

import msgspec

from memoranda.abl.behaviour import Behaviour
from memoranda.abl.runtime.activating import finish, first_frame
from memoranda.abl.runtime.facts import SessionFacts
from memoranda.abl.runtime.plan import Plan
from memoranda.abl.runtime.recalling import recall
from memoranda.abl.runtime.repeatable import TurnClock, TurnIds
from memoranda.abl.runtime.saving import (
    check_variables,
    encode_state,
    freeze,
    identity,
    past,
    read_state,
    read_turns,
    save,
    thaw,
)
from memoranda.abl.runtime.state import SessionState, Status, TurnRecord
from memoranda.abl.runtime.trace import Happening, Trace
from memoranda.abl.runtime.turns import open_session, take_turn
from memoranda.abl.runtime.work import Frame, Member, Work, share
from memoranda.abl.variables import FROM_OUTSIDE, fits
from memoranda.api.memory import Memory
from memoranda.errors import Conflict, InvalidInput, LimitExceeded, MemorandaError, ScopeEnded, UsageError
from memoranda.lang.diagnostics import closest
from memoranda.model.effect import EndScope, GetFact, SetFact, StartSession
from memoranda.model.key import SESSION_RECORD
from memoranda.model.scope import Scope
from memoranda.model.text import quote, without_halves
from memoranda.model.value import decode, encode_checked

if TYPE_CHECKING:
    from memoranda.abl.replaying import Replay


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one turn."""

    number: int
    messages: list[str]
    status: Status
    step: str | None
    agent: str
    trace: Trace
    escalation: Mapping[str, Any] | None = None
    """For a person who takes over: why, how urgent, and what they should know."""

    @property
    def events(self) -> tuple[Happening, ...]:
        """What a program around the agent would want to know."""
        return self.trace.events

    @property
    def text(self) -> str:
        """All messages as one text."""
        return "\n".join(self.messages)


class Setting(msgspec.Struct, frozen=True):
    """What a session runs in: the memory, the agents that know each other, and how they behave."""

    memory: Memory
    team: Mapping[str, Member]
    behaviour: Behaviour
    awake: Awake


class Awake:
    """The sessions that had a turn last. The others rest: what they hold is read again when they are needed."""

    def __init__(self, most: int) -> None:
        """Let so many sessions stay awake."""
        self._most = most
        self._sessions: dict[int, weakref.ref[Session]] = {}
        self._lock = threading.Lock()

    def touch(self, session: Session) -> None:
        """Note that a session had a turn, and let the one go that had none for longest."""
        with self._lock:
            self._sessions.pop(id(session), None)
            self._sessions[id(session)] = weakref.ref(session)
            oldest = self._sessions.pop(next(iter(self._sessions)))() if len(self._sessions) > self._most else None
        if oldest is not None:
            oldest.rest()


class Session:
    """One conversation. Turns are taken one after the other, whatever thread they come from.

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
        """Stand where a state says; `agent.start` and `resume` make these."""
        self.id = state.id
        """The id under which the session is resumed."""
        self.user = state.user
        """Whose session it is."""
        self.project = state.project
        """The project it belongs to."""
        self.tree = state.tree
        """The handoff tree whose memory it shares; its own id, where it began one."""
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
        facts = SessionFacts(memory, user=user, project=project, tree=state.tree)
        member = setting.team[agent]
        frame = first_frame(member, facts)
        frame.names.update(identity(state, memory.tenant))
        session = cls(setting, state, [frame], {}, 0)
        memory.perform(StartSession(scope=session._scope, owner=facts.user))
        if named and memory.perform(GetFact(scope=session._scope, key=SESSION_RECORD)) is not None:
            # Before anything is done: a tool that was called cannot be taken back.
            raise Conflict(
                f"there is a session {quote(id)} already", hint="Resume it, or start one with another id", expected=0
            )
        session._opening = session._take(None, lambda work: open_session(work, dict(given)), given=dict(given))
        return session

    @classmethod
    def resumed(cls, setting: Setting, id: str) -> Session:
        """Return a session that was started earlier, where it stands."""
        state, version, frames, resting = _restored(setting, Scope.of(tenant=setting.memory.tenant, session=id))
        return cls(setting, state, frames, resting, version)

    # what there is to see

    @property
    def opening(self) -> Turn:
        """The turn before any input; of a session that was resumed or has rested, without its trace."""
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
        """How the last turn left it."""
        with self._lock:
            self._freshen()
            return self._state.turn.status

    @property
    def agent(self) -> str:
        """The name of the agent that is active."""
        return self._active.plan.name

    @property
    def step(self) -> str | None:
        """The step that the active agent is in."""
        return self._active.state.step or None

    @property
    def vars(self) -> MutableMapping[str, Any]:
        """The variables of the active agent. Its inputs can be assigned and deleted, which is kept at once."""
        return _Variables(self)

    def turns(self) -> list[TurnRecord]:
        """Return what went into each turn and what came out, oldest first."""
        return [state.turn for state in read_turns(self._setting.memory, self._scope)]

    @property
    def _active(self) -> Frame:
        with self._lock:
            self._freshen()
            return self._frames[-1]

    # what can be done

    def say(self, text: str) -> Turn:
        """Give the user's words to the active agent and return what came of it.

        The turn is kept as a whole when it is over; if that fails, nothing of it is, and the same can be said again.
        """
        if not isinstance(cast(object, text), str):
            raise UsageError(f"{quote(text)} is {type(text).__name__}, not text", hint="Pass what the user said")
        longest = self._setting.behaviour.input_characters
        if len(text) > longest:
            raise LimitExceeded(
                f"the message has {len(text):,} characters, the limit is {longest:,}",
                hint="Say less at once, or load the agent with another Behaviour(input_characters=…)",
                limit=longest,
                actual=len(text),
            )
        # What no text encoding, or no fact, can hold would be lost with the variable it stands in.
        text = without_halves(text).replace("\0", "\ufffd")
        return self._take(text, take_turn)

    def replay(self) -> Replay:
        """Take all turns again as the agent is loaded now, without tools, models or writes; say what differs."""
        from memoranda.abl.replaying import replay_session

        states = read_turns(self._setting.memory, self._scope)
        return replay_session(self._setting, states[0].frames[0].agent, states)

    def take_back(self) -> None:
        """Let the agent go on after a person, or an agent elsewhere, had the conversation."""
        with self._lock:
            self._freshen()
            if self._state.status in ("escalated", "handed_off"):
                self._state.status = self._state.turn.status = "waiting"
                self._keep_state()

    def end(self) -> Turn:
        """End the session: its last recalls are done, its variables go, what it remembered stays."""
        with self._lock:
            self._check_open()
            self._freshen()
            work = self._work(None)
            for frame in reversed(self._frames):
                # Those who wait for control to come back are done by this, too.
                work.frame = frame
                if frame.state.wait != "done":
                    finish(work)
            work.frame = self._frames[-1]
            recall(work, "session:end")
            work.note("ended", self.id)
            self._keep_last_facts(work)
            memory = self._setting.memory
            memory.perform(EndScope(scope=self._scope))
            if self._state.planted:
                memory.perform(EndScope(scope=Scope.of(tenant=memory.tenant, tree=self._state.tree)))
            self._ended = True
            return self._turn(work)

    # how it is done

    def _keep_last_facts(self, work: Work) -> None:
        """Keep what was remembered on the way out; it is no turn, so that nothing else would."""
        if not self._facts.pending:
            return
        try:
            self._plant_tree()
            freeze(work)
            self._version = save(work, self._facts, self._scope, self._version)
        except BaseException:
            self._facts.settle()
            self._stale = True
            raise

    def _take(self, text: str | None, run: Callable[[Work], None], *, given: dict[str, Any] | None = None) -> Turn:
        with self._lock:
            self._check_open()
            self._freshen()
            if text is not None:
                self._state.number += 1
            work = self._work(text)
            work.record.given = given or self._given
            try:
                if self._state.status in ("escalated", "handed_off"):
                    work.note("input", work.text, to="whoever has the conversation now")
                else:
                    self._state.status = "waiting"
                    run(work)
                work.record.messages, work.record.status = work.messages, work.status
                check_variables(work, self._setting.memory.limits)
                self._plant_tree()
                freeze(work)
                self._version = save(work, self._facts, self._scope, self._version)
            except BaseException:
                # What was not kept did not happen: the next call begins from what was.
                self._facts.settle()
                self._stale = True
                raise
            self._frames, self._resting = work.frames, work.resting
            self._given = {}
            self._setting.awake.touch(self)
            return self._turn(work)

    def _plant_tree(self) -> None:
        """Begin the handoff tree when something is first remembered in it: it is the user's, and goes with the user."""
        state, facts = self._state, self._facts
        if state.joined is None and not state.planted and facts.touches_tree:
            self._setting.memory.perform(StartSession(scope=facts.tree, owner=facts.user))
            state.planted = True

    def _turn(self, work: Work) -> Turn:
        frame = work.frames[-1]
        return Turn(
            number=self._state.number,
            messages=work.messages,
            status=work.record.status,
            step=frame.state.step or None,
            agent=frame.plan.name,
            trace=Trace(work.happened),
            escalation=work.escalation,
        )

    @property
    def _facts(self) -> SessionFacts:
        return self._frames[0].facts.session

    def _work(self, text: str | None) -> Work:
        moment = self._setting.memory.clock.now().astimezone(UTC)
        work = Work(
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
        # What `isoformat` gives, in a fifth of the time.
        work.record.at = f"{msgspec.to_builtins(moment)[:-1]}+00:00"
        return work

    def _past(self, frame: Frame) -> list[tuple[Any, str]]:
        first, count = frame.state.mind.history
        return cast("list[tuple[Any, str]]", past(read_turns(self._setting.memory, self._scope), first, count))

    def rest(self) -> None:
        """Let go of everything that can be read again."""
        if not self._lock.acquire(blocking=False):
            return  # It is in the middle of a turn, so it is not resting.
        try:
            if self._stale or self._ended:
                return
            self._state, self._frames, self._resting, self._stale = *_NOTHING, True
            self._opening = None
        finally:
            self._lock.release()

    def _freshen(self) -> None:
        """Read the session again after a rest, or after a turn that could not be kept."""
        if not self._stale:
            return
        self._state, self._version, self._frames, self._resting = _restored(self._setting, self._scope)
        self._stale = False

    def _check_open(self) -> None:
        if self._ended:
            raise ScopeEnded(
                f"`{self._scope}` has ended", hint="Start a new one: ids of ended sessions are not used again"
            )

    def _assign(self, name: str, value: Any) -> None:
        """Give a variable of the active agent a value from outside, and keep it at once."""
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
            share(self._state, frame, name)
            self._given[name] = decode(payload)
            if frame.plan.keeps[name]:
                self._state.vars[frame.prefix + name] = decode(payload)
                self._keep_state()
            frame.dirty.discard(name)

    def _keep_state(self) -> None:
        """Keep what was changed between two turns."""
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
            share(self._state, frame, name)
            self._given[name] = None
            if self._state.vars.pop(frame.prefix + name, None) is not None:
                self._keep_state()
            frame.dirty.discard(name)

    def __repr__(self) -> str:
        """Return whose session it is, and where it stands."""
        return f"<memoranda.abl.Session {self.id} user={self.user} agent={self.agent} step={self.step}>"


def _restored(setting: Setting, scope: Scope) -> tuple[SessionState, int, list[Frame], dict[str, Frame]]:
    """Return what is kept of a session: its state with its version, and the frames of its agents."""
    memory = setting.memory
    state, version = read_state(memory, scope)
    facts = SessionFacts(memory, user=state.user, project=state.project, tree=state.tree)
    spreads = setting.behaviour.results_become_variables
    return state, version, *thaw(memory, scope, state, facts, setting.team.get, spreads=spreads)


_NOTHING: tuple[SessionState, list[Frame], dict[str, Frame]] = (SessionState("", None, ""), [], {})
"""What a resting session holds. It is read anew before anybody looks at it."""


def check_variable(plan: Plan, name: object) -> None:
    """Refuse a name that a program cannot give to a variable."""
    if isinstance(name, str) and name.isidentifier() and (name in FROM_OUTSIDE or not plan.is_system(name)):
        return
    raise UsageError(f"{quote(name)} cannot be a variable", hint="Use a name that the runtime does not use")


def check_input(plan: Plan, name: object, value: Any) -> None:
    """Refuse a variable that callers of an agent may not set, or a value of another type than it declares."""
    slots = plan.declarations.session
    inputs = [slot.name for slot in slots.values() if slot.input]
    slot = slots.get(name) if isinstance(name, str) else None
    if slot is None or not slot.input:
        if isinstance(name, str) and plan.is_system(name) and name not in FROM_OUTSIDE:
            message = f"{quote(name)} is set by the runtime and cannot be given"
            raise InvalidInput(message, hint=_known_inputs(plan, name, inputs), variable=name, inputs=inputs)
        # The same words whether there is such a variable or not: callers learn nothing about what guards them.
        add = "to take it from callers, the agent declares it below `MEMORY: session:` with the line `INPUT: true`"
        raise InvalidInput(
            f"the variable {quote(name)} is not declared as input of {quote(plan.name)}",
            hint=f"{_known_inputs(plan, name, inputs)}; {add}",
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


def _known_inputs(plan: Plan, name: object, inputs: list[str]) -> str:
    if not inputs:
        return f"{plan.name} has no inputs"
    near = closest(name, inputs) if isinstance(name, str) else None
    return f"Did you mean `{near}`? Inputs are {', '.join(inputs)}" if near else f"Inputs are {', '.join(inputs)}"


def give(frame: Frame, name: str, value: Any) -> None:
    """Give a variable of an agent a value from outside; None makes it undefined."""
    frame.derived.discard(name)
    if value is None:
        frame.names.pop(name, None)
        frame.hide(name)
    else:
        frame.names[name] = value


class _Variables(MutableMapping[str, Any]):
    """The variables of a session as a mapping."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def _held(self) -> dict[str, Any]:
        return self._session._active.variables()  # pyright: ignore[reportPrivateUsage]

    def __getitem__(self, name: str) -> Any:
        value = self._held()[name]
        # A copy: what is changed inside of it would be seen by this process alone, and never be kept.
        return deepcopy(value) if type(value) in (list, dict) else value

    def __setitem__(self, name: str, value: Any) -> None:
        self._session._assign(name, value)  # pyright: ignore[reportPrivateUsage]

    def __delitem__(self, name: str) -> None:
        self._session._clear(name)  # pyright: ignore[reportPrivateUsage]

    def __iter__(self) -> Iterator[str]:
        return iter(self._held())

    def __len__(self) -> int:
        return len(self._held())

    def __repr__(self) -> str:
        return repr(self._held())
