"""A session after a turn in, one batch of writes out; and back: what was kept in, where the session stands out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from memoranda.abl.runtime.facts import CannotBeMade, FrameFacts, Pending, SessionFacts, why_refused
from memoranda.abl.runtime.state import SessionState, TurnRecord
from memoranda.abl.runtime.work import Frame, Member, Work
from memoranda.api.memory import Memory
from memoranda.errors import (
    Conflict,
    InvalidValue,
    LimitExceeded,
    MemorandaError,
    NotFound,
    NotVerified,
    QuotaExceeded,
    Refused,
    ScopeEnded,
    UsageError,
)
from memoranda.model.effect import GetFact, ReadHistory, SetFact, WriteFacts
from memoranda.model.fact import Fact, Revision, was_imported
from memoranda.model.key import SESSION_RECORD
from memoranda.model.limits import Limits
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import encode, encode_checked

DOOR = "abl"
"""What the ledger calls the way that an agent's writes came by."""
_RESULTS_KEY = "abl.results"
_ATTEMPTS = 50
"""How often a turn is written anew because another session changed the same facts; each time, one gets through."""
_NAMES_KEPT = (
    *("input", "last_input", "turn_count", "intent", "match", "tool_failures", "constraint_failures", "language"),
    *("locale", "channel", "all_fields_gathered", "handoff", "recalled", "_constraint_warnings", "_validation_retries"),
)
"""Names of the runtime that are needed in the next turn; results and variables stand beside them."""


def save(work: Work, facts: SessionFacts, scope: Scope, version: int) -> int:
    """Keep what a turn stored, its variables and its state together, or nothing; return the state's new version.

    Facts that the gate or a schema refuses are left out, and noted; the rest is kept.
    """
    # Each change that is left out takes a round of its own; being overtaken is what must not go on for ever.
    for _ in range(_ATTEMPTS + len(facts.pending)):
        try:
            changes = facts.effects()
        except CannotBeMade as error:
            _drop(work, facts, error.change, error.told)
            continue
        state = msgspec.Raw(_encoded(work, facts.memory.limits.value_bytes))
        writes = (
            *changes,
            *_result_writes(work, scope, facts),
            SetFact(scope=scope, key=SESSION_RECORD, payload=state, expect=version, echo=False),
        )
        try:
            kept: list[Any] = facts.memory.perform(WriteFacts(scope=scope, writes=writes))
        except Conflict:
            _check_version(work, facts.memory, scope, version)
        except (Refused, UsageError) as error:
            _leave_out(work, facts, error)
        else:
            _mark_saved(work, facts)
            return kept[-1].version
    raise Conflict(
        f"the facts that this turn of the session {quote(work.session.id)} changes were changed again and again",
        hint="Nothing of this turn was kept: say it again in a moment",
    )


def _check_version(work: Work, memory: Memory, scope: Scope, version: int) -> None:
    """Raise if somebody else took a turn; otherwise it was only a fact that changed, and the batch is made anew."""
    current = memory.perform(GetFact(scope=scope, key=SESSION_RECORD))
    actual = current.version if current else 0
    if version and not actual:
        raise ScopeEnded(
            f"the session {quote(work.session.id)} is gone: it was erased, with its user or by itself",
            hint="Start a new one",
        )
    if actual != version:
        raise _went_on(work, version, actual)


def _went_on(work: Work, expected: int, actual: int) -> Conflict:
    return Conflict(
        f"the session {quote(work.session.id)} went on elsewhere in the meantime",
        hint="Nothing of this turn was kept: resume the session and say it again",
        expected=expected,
        actual=actual,
    )


def _leave_out(work: Work, facts: SessionFacts, error: MemorandaError) -> None:
    """Drop the changes that a definition refuses, so that the rest is kept; all of them where it does not say which."""
    if not facts.pending:
        raise error
    slug = error.details.get("slug")
    refused = [change for change in facts.pending if slug in (None, change.variable.key)] or list(facts.pending)
    for change in refused:
        _drop(work, facts, change, why_refused(change.variable, error))
        if isinstance(error, QuotaExceeded):
            change.put_off()


def _drop(work: Work, facts: SessionFacts, change: Pending, told: dict[str, Any]) -> None:
    facts.pending.remove(change)
    if change.told in work.happened:
        work.happened.remove(change.told)
    work.note("refused", change.variable.path, **told)


def _mark_saved(work: Work, facts: SessionFacts) -> None:
    facts.settle()
    for frame in work.everyone():
        frame.dirty.clear()
        frame.results_changed = False


def _kept_variables(frame: Frame) -> dict[str, Any]:
    """Return the variables that are kept, by their keys; what repeats a result or a fact comes back with that."""
    comes_back = frame.derived.union(frame.state.mind.injected)
    keeps, prefix = frame.plan.keeps, frame.prefix
    return {
        prefix + name: value
        for name, value in frame.names.items()
        if value is not None and keeps[name] and name not in comes_back
    }


def _encoded(work: Work, most: int) -> bytes:
    """Return the state as it is kept; where it is too large, the largest variables become undefined."""
    while True:
        payload = encode_state(work.session)
        if len(payload) <= most or not work.session.vars:
            return payload
        largest = max(work.session.vars, key=lambda key: len(encode(work.session.vars[key])))
        for frame in work.everyone():
            if largest in _kept_variables(frame):
                name = largest.removeprefix(frame.prefix)
                _give_up(work, frame, name, "all variables together are larger than one fact may be")
        freeze(work)


def encode_state(state: SessionState) -> bytes:
    """Return a state as its record keeps it."""
    return encode(msgspec.structs.replace(state, id=""))


def _give_up(work: Work, frame: Frame, name: str, why: str) -> None:
    work.note("warning", f"`{name}` cannot be kept and is undefined now", why=why)
    frame.names.pop(name, None)


def check_variables(work: Work, limits: Limits) -> None:
    """Make variables undefined that were given values which cannot be kept, and say why."""
    for frame in work.everyone():
        for name in frame.dirty:
            value = frame.names.get(name)
            if value is None or type(value) in (int, bool):
                continue
            try:
                encode_checked(value, limits)
            except (LimitExceeded, InvalidValue) as error:
                _give_up(work, frame, name, error.message)


def _result_writes(work: Work, scope: Scope, facts: SessionFacts) -> tuple[SetFact, ...]:
    """Return the write of what tools gave, when that changed; the oldest go when it is too much."""
    frames = work.everyone()
    if not any([frame.results_changed for frame in frames]):
        return ()
    while True:
        kept = {frame.key: [[tool, value] for tool, value in frame.results.items()] for frame in frames}
        payload = msgspec.json.encode(kept)
        if len(payload) <= facts.memory.limits.value_bytes:
            return (SetFact(scope=scope, key=_RESULTS_KEY, payload=msgspec.Raw(payload), echo=False),)
        fullest = max(frames, key=lambda frame: len(frame.results))
        oldest = next(iter(fullest.results))
        fullest.drop_result(oldest)
        work.note("warning", f"the result of `{oldest}` is too large to be kept beyond this turn")


def freeze(work: Work) -> None:
    """Bring the state up to what the frames hold."""
    variables: dict[str, Any] = {}
    for frame in work.everyone():
        names = frame.names
        kept = (*_NAMES_KEPT, *frame.state.mind.injected)
        frame.state.names = {name: names[name] for name in kept if names.get(name) is not None}
        frame.state.key = frame.key
        variables.update(_kept_variables(frame))
    work.session.vars = variables
    work.session.frames = [frame.state for frame in work.frames]
    work.session.resting = [frame.state for frame in work.resting.values()]
    work.session.turn = work.record


# --- and back ---------------------------------------------------------------------------------------------------


def read_state(memory: Memory, scope: Scope) -> tuple[SessionState, int]:
    """Return the state of a session and its version; refuse an id that has none."""
    fact = _own_fact(memory, scope, SESSION_RECORD)
    if fact is None:
        raise NotFound(
            f"there is no session {quote(scope.parts[-1][1])}",
            hint="It was never started here, or it has ended: an ended session leaves nothing behind",
        )
    state = msgspec.convert(fact.value, SessionState)
    state.id = scope.parts[-1][1]
    return state, fact.version


def _own_fact(memory: Memory, scope: Scope, key: str) -> Fact | None:
    """Return a fact of the runtime; refuse one that an agent did not write, such as one of an imported file."""
    fact: Fact | None = memory.perform(GetFact(scope=scope, key=key))
    if fact is not None and (fact.origin.door != DOOR or was_imported(fact.origin)):
        raise NotVerified(
            f"the session {quote(scope.parts[-1][1])} does not go on: no agent wrote what is kept of it",
            hint="Start a new session",
            value=f"{fact.origin.door} {fact.origin.source or ''}".strip(),
        )
    return fact


def read_turns(memory: Memory, scope: Scope) -> list[SessionState]:
    """Return the state after each turn, oldest first: the record of the session."""
    revisions: list[Revision] = memory.perform(ReadHistory(scope=scope, key=SESSION_RECORD))
    states = [msgspec.convert(one.value, SessionState) for one in revisions if one.change == "set"]
    for state in states:
        state.id = scope.parts[-1][1]
    # What a program set between two turns was kept as well; that is no turn.
    return [state for place, state in enumerate(states) if not place or state.number != states[place - 1].number]


def thaw(
    memory: Memory,
    scope: Scope,
    state: SessionState,
    facts: SessionFacts,
    find: Callable[[str], Member | None],
    *,
    spreads: bool,
) -> tuple[list[Frame], dict[str, Frame]]:
    """Return the frames of a session as they were kept: those that have the conversation, and those that had it.

    `spreads` says whether fields of results become variables.
    """
    kept = _own_fact(memory, scope, _RESULTS_KEY)
    results = cast("dict[str, list[list[Any]]]", {} if kept is None else kept.value)
    frames: list[Frame] = []
    for frame_state in (*state.frames, *state.resting):
        member = find(frame_state.agent)
        if member is None:
            raise UsageError(
                f"the session {quote(state.id)} is with the agent {quote(frame_state.agent)}, which is not loaded",
                hint="Load it first, or pass agents=[…]",
            )
        frame = Frame(
            member, frame_state, FrameFacts(facts, frame_state.agent, frame_state.grants), key=frame_state.key
        )
        frame.names.update(identity(state, memory.tenant))
        # From the record alone: other facts of the session's scope may be written by others.
        _load_variables(frame, state.vars)
        # Second: what recall put beside a variable of the session is the newer of the two.
        frame.names.update(frame_state.names)
        for tool, value in results.get(frame.key, []):
            frame.put_result(tool, value, spreads=spreads)
        if state.agents.get(frame_state.agent) != member.plan.digest:
            _fit_to_edited(frame)
            state.agents[frame_state.agent] = member.plan.digest
        frames.append(frame)
    active = len(state.frames)
    return frames[:active], {frame.plan.name: frame for frame in frames[active:]}


def identity(state: SessionState, tenant: str) -> dict[str, Any]:
    """Return the names that say whose session this is."""
    return {"session_id": state.id, "user_id": state.user, "project_id": state.project, "tenant_id": tenant}


def _load_variables(frame: Frame, values: dict[str, Any]) -> None:
    for key, value in values.items():
        name = key.removeprefix(frame.prefix) if key.startswith(frame.prefix) else ""
        # Names have no dots: what has one is another agent's, or the runtime's own.
        if name and "." not in name:
            frame.names[name] = value


def _fit_to_edited(frame: Frame) -> None:
    """Let a session whose agent was edited in the meantime go on at the beginning of its step."""
    state, plan = frame.state, frame.plan
    # What a rule was waived for once may be another rule by its number now.
    state.collecting, state.excused = None, []
    triggers = {trigger.id for trigger in plan.triggers}
    state.stored = {id: digest for id, digest in state.stored.items() if id in triggers}
    # Numbers may mean others now; the session has started all the same.
    begun = [one.number for one in plan.recalls.get("session:start", ()) if one.number in plan.instructions]
    state.told = [*begun, *(told for told in state.told if isinstance(told, str))]
    step = plan.steps.get(state.step) if state.step is not None else None
    if step is None:
        state.step, state.stack, state.wait = None, [], "done"
    elif state.wait not in ("done", "input"):
        state.stack, state.wait = [[step.block.number, 0]], ""


def past(turns: list[SessionState], first: int, count: int | None) -> list[tuple[str, str]]:
    """Return who said what from one turn of a session on, and the last so many messages before it, or all of them."""
    before: list[tuple[str, str]] = []
    since: list[tuple[str, str]] = []
    for state in turns:
        record: TurnRecord = state.turn
        said = since if state.number >= first else before
        if record.input:
            said.append(("user", record.input))
        said.extend(("assistant", message) for message in record.messages)
    return [*(before if count is None else before[-count:] if count else ()), *since]
