"""Save a session after a turn in one batch of writes, and restore it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import msgspec

from memoranda.abl.runtime.active_turn import ActiveTurn, Frame, TeamMember
from memoranda.abl.runtime.memory import ChangeError, FrameFacts, PendingChange, SessionFacts, refusal_detail
from memoranda.abl.runtime.state import SessionState, TurnRecord
from memoranda.api.memory import Memory
from memoranda.engine.facts import DeleteFact, GetFact, ReadHistory, SetFact, WriteFacts
from memoranda.errors import (
    Conflict,
    Held,
    Hint,
    InvalidValue,
    LimitExceeded,
    MemorandaError,
    NotFound,
    NotVerified,
    QuotaExceeded,
    Refused,
    SchemaViolation,
    ScopeEnded,
    UsageError,
)
from memoranda.model.fact import Fact, Revision, was_imported
from memoranda.model.limits import Limits
from memoranda.model.names import SESSION_RECORD
from memoranda.model.ref import Ref
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import encode, encode_checked

DOOR = "abl"
"""The door of an agent's writes in the ledger."""
_RESULTS_KEY = "abl.results"
_ATTEMPTS = 50
"""How often a turn is saved again because another session changed the same facts; one of them succeeds each time."""
_FIELD = re.compile(r"\$\.([^.\[]+)")
"""The first field of a path such as `$.address.city`."""
_SAVED_NAMES = (
    *("input", "last_input", "turn_count", "intent", "match", "tool_failures", "constraint_failures", "language"),
    *("locale", "channel", "all_fields_gathered", "handoff", "recalled", "_constraint_warnings", "_validation_retries"),
)
"""Names of the runtime that the next turn needs, besides results and variables."""


def save(turn: ActiveTurn, facts: SessionFacts, scope: Scope, version: int) -> int:
    """Write the facts, variables and state of a turn atomically; return the new version of the state.

    Facts that the gate or a schema refuses are left out, with an entry in the trace.
    """
    # Each change that is left out takes one round; the limit is for conflicts.
    for _ in range(_ATTEMPTS + len(facts.pending)):
        try:
            changes = facts.effects()
        except ChangeError as error:
            _drop(turn, facts, error.change, error.detail)
            continue
        turn.record_steps(str(Ref("fact", one.scope, one.key)) for one in changes)
        state = msgspec.Raw(_encode_within(turn, facts.memory.limits.value_bytes))
        writes = (
            *changes,
            *_result_writes(turn, scope, facts),
            *(() if turn.steps is None else turn.steps.writes(scope)),
            SetFact(scope=scope, key=SESSION_RECORD, payload=state, expect=version, echo=False),
        )
        try:
            kept: list[Any] = facts.memory.perform(WriteFacts(scope=scope, writes=writes))
        except Conflict:
            _check_version(turn, facts.memory, scope, version)
        except (Refused, UsageError) as error:
            _leave_out(turn, facts, error)
        else:
            _drop_held(turn, facts, changes, kept)
            _mark_saved(turn, facts)
            return kept[-1].version
    raise Conflict(
        f"other sessions keep changing the facts that this turn of the session {quote(turn.session.id)} changes",
        hint="Nothing of this turn was saved: say it again in a moment",
    )


def _drop_held(turn: ActiveTurn, facts: SessionFacts, changes: list[SetFact | DeleteFact], kept: list[Any]) -> None:
    """Say in the trace which changes wait or were left out, because they pass on what another origin says."""
    passed_on = {(one.scope.path, one.key): one.kind for one in changes if one.kind is not None}
    if not passed_on:
        return
    if any(isinstance(one, Held) for one in kept) or len(kept) < len(changes) + 1:
        written = {(one.scope.path, one.key) for one in kept if isinstance(one, Fact)}
        for change in list(facts.pending):
            scope = facts.scope(change.variable)
            at = (scope.path, change.key) if scope is not None else ("", "")
            if at in passed_on and at not in written:
                why = f"it is what `{passed_on[at]}` says, and waits for a decision or was left out by the guard"
                _drop(turn, facts, change, {"why": why, "code": Held.code})


def _check_version(turn: ActiveTurn, memory: Memory, scope: Scope, version: int) -> None:
    """Raise if the session itself changed; otherwise only a fact changed, and the turn is saved again."""
    current = memory.perform(GetFact(scope=scope, key=SESSION_RECORD))
    actual = current.version if current else 0
    if version and not actual:
        raise ScopeEnded(
            f"the session {quote(turn.session.id)} was erased, alone or with its user",
            hint="Start a new one",
        )
    if actual != version:
        raise Conflict(
            f"the session {quote(turn.session.id)} continued elsewhere in the meantime",
            hint="Nothing of this turn was saved: resume the session and say it again",
            expected=version,
            actual=actual,
        )


def _leave_out(turn: ActiveTurn, facts: SessionFacts, error: MemorandaError) -> None:
    """Drop the changes that were refused, so that the rest is saved; all of them if the error does not say which."""
    if not facts.pending:
        raise error
    slug = error.details.get("slug")
    refused = [change for change in facts.pending if slug in (None, change.key)] or list(facts.pending)
    if slug is not None and all(change.fields for change in refused):
        # The fields of a record are left out one by one: those that the error names, or else the last.
        field = _FIELD.match(str(error.details.get("path", "")))
        at_fault = [change for change in refused if field and change.fields[0] == field[1]]
        if field and not at_fault:
            # The error quotes a stored value of another field, which may be a sensitive one.
            message = f"the record {quote(slug)} does not fit its definition at {field[0]}"
            error = SchemaViolation(message, hint="Correct the record, or its schema", slug=slug, path=field[0])
        refused = at_fault or refused[-1:]
    for change in refused:
        _drop(turn, facts, change, refusal_detail(change.variable, error))
        if isinstance(error, QuotaExceeded):
            change.retry_later()


def _drop(turn: ActiveTurn, facts: SessionFacts, change: PendingChange, detail: dict[str, Any]) -> None:
    facts.pending.remove(change)
    if change.entry in turn.happened:
        turn.happened.remove(change.entry)
    turn.note("refused", change.variable.path, **detail)


def _mark_saved(turn: ActiveTurn, facts: SessionFacts) -> None:
    facts.settle()
    for frame in turn.all_frames():
        frame.dirty.clear()
        frame.results_changed = False


def _variables_to_save(frame: Frame) -> dict[str, Any]:
    """Return the variables to save, by their keys; those that repeat a result or a fact are restored with it."""
    restored = frame.derived.union(frame.state.notes.injected)
    keeps, prefix = frame.plan.keeps, frame.prefix
    return {
        prefix + name: value
        for name, value in frame.names.items()
        if value is not None and keeps[name] and name not in restored
    }


def _encode_within(turn: ActiveTurn, most: int) -> bytes:
    """Encode the state; while it is too large, make its largest variable undefined."""
    while True:
        payload = encode_state(turn.session)
        if len(payload) <= most or not turn.session.vars:
            return payload
        largest = max(turn.session.vars, key=lambda key: len(encode(turn.session.vars[key])))
        for frame in turn.all_frames():
            if largest in _variables_to_save(frame):
                name = largest.removeprefix(frame.prefix)
                _drop_variable(turn, frame, name, "the variables together exceed the size limit of a fact")
        freeze(turn)


def encode_state(state: SessionState) -> bytes:
    """Encode a state for its record."""
    return encode(msgspec.structs.replace(state, id=""))


def _drop_variable(turn: ActiveTurn, frame: Frame, name: str, why: str) -> None:
    turn.note("warning", f"`{name}` cannot be saved and is undefined now", why=why)
    frame.names.pop(name, None)


def drop_invalid_variables(turn: ActiveTurn, limits: Limits) -> None:
    """Make variables undefined whose new values cannot be saved, with a warning in the trace."""
    for frame in turn.all_frames():
        for name in frame.dirty:
            value = frame.names.get(name)
            if value is None or type(value) in (int, bool):
                continue
            try:
                encode_checked(value, limits)
            except (LimitExceeded, InvalidValue) as error:
                _drop_variable(turn, frame, name, error.message)


def _result_writes(turn: ActiveTurn, scope: Scope, facts: SessionFacts) -> tuple[SetFact, ...]:
    """Return the write of the results of tools, if they changed; the oldest are dropped while they are too large."""
    frames = turn.all_frames()
    if not any([frame.results_changed for frame in frames]):
        return ()
    while True:
        results = {frame.key: [[tool, value] for tool, value in frame.results.items()] for frame in frames}
        payload = msgspec.json.encode(results)
        if len(payload) <= facts.memory.limits.value_bytes:
            return (SetFact(scope=scope, key=_RESULTS_KEY, payload=msgspec.Raw(payload), echo=False),)
        fullest = max(frames, key=lambda frame: len(frame.results))
        oldest = next(iter(fullest.results))
        fullest.drop_result(oldest)
        turn.note("warning", f"the result of `{oldest}` is too large to be saved beyond this turn")


def freeze(turn: ActiveTurn) -> None:
    """Copy the variables and positions of the frames into the state."""
    variables: dict[str, Any] = {}
    for frame in turn.all_frames():
        names = frame.names
        saved = (*_SAVED_NAMES, *frame.state.notes.injected)
        frame.state.names = {name: names[name] for name in saved if name in names and names[name] is not None}
        frame.state.key = frame.key
        frame.state.provenances = frame.provenances.dump() if frame.provenances else []
        variables.update(_variables_to_save(frame))
    turn.session.vars = variables
    turn.session.frames = [frame.state for frame in turn.frames]
    turn.session.resting = [frame.state for frame in turn.resting.values()]
    turn.session.turn = turn.record


# --- restore ---------------------------------------------------------------------------------------------------


def read_state(memory: Memory, scope: Scope) -> tuple[SessionState, int]:
    """Return the state of a session and its version, or raise NotFound."""
    fact = _own_fact(memory, scope, SESSION_RECORD)
    if fact is None:
        raise NotFound(
            f"unknown session {quote(scope.parts[-1][1])}",
            hint="It was never started here, or it has ended: an ended session leaves nothing behind",
        )
    state = msgspec.convert(fact.value, SessionState)
    state.id = scope.parts[-1][1]
    return state, fact.version


def _own_fact(memory: Memory, scope: Scope, key: str) -> Fact | None:
    """Return a fact of the runtime; refuse one that no agent wrote, such as an imported one."""
    fact: Fact | None = memory.perform(GetFact(scope=scope, key=key))
    if fact is not None and (fact.origin.door != DOOR or was_imported(fact.origin)):
        raise NotVerified(
            f"the session {quote(scope.parts[-1][1])} cannot be resumed: its record was not written by an agent",
            hint="Start a new session",
            value=f"{fact.origin.door} {fact.origin.source or ''}".strip(),
        )
    return fact


def read_turns(memory: Memory, scope: Scope) -> list[SessionState]:
    """Return the state after each turn, oldest first."""
    revisions: list[Revision] = memory.perform(ReadHistory(scope=scope, key=SESSION_RECORD))
    states = [msgspec.convert(one.value, SessionState) for one in revisions if one.change == "set"]
    for state in states:
        state.id = scope.parts[-1][1]
    # Variables that a program set between two turns made a revision of their own, which is not a turn.
    return [state for place, state in enumerate(states) if not place or state.number != states[place - 1].number]


def thaw(
    memory: Memory,
    scope: Scope,
    state: SessionState,
    facts: SessionFacts,
    find: Callable[[str], TeamMember | None],
    *,
    spreads: bool,
) -> tuple[list[Frame], dict[str, Frame]]:
    """Return the saved frames of a session: the active ones, and those that had the conversation before.

    `spreads` says whether fields of results become variables.
    """
    fact = _own_fact(memory, scope, _RESULTS_KEY)
    results = cast("dict[str, list[list[Any]]]", {} if fact is None else fact.value)
    frames: list[Frame] = []
    for frame_state in (*state.frames, *state.resting):
        member = find(frame_state.agent)
        if member is None:
            raise UsageError(
                f"the session {quote(state.id)} is with the agent {quote(frame_state.agent)}, which is not loaded",
                hint=("Load it first", Hint("python", "Pass agents=[…]")),
            )
        frame = Frame(member, frame_state, FrameFacts(facts, member.plan, frame_state.grants), key=frame_state.key)
        frame.names.update(identity_names(state, memory.tenant))
        # Only from the record: others may write other facts in the session's scope.
        _load_variables(frame, state.vars)
        # After the variables: what recall copied over a variable is newer.
        frame.names.update(frame_state.names)
        for tool, value in results.get(frame.key, []):
            frame.put_result(tool, value, spreads=spreads)
        if state.agents.get(frame_state.agent) != member.plan.digest:
            _adapt_to_edited_agent(frame)
            state.agents[frame_state.agent] = member.plan.digest
        frames.append(frame)
    active = len(state.frames)
    return frames[:active], {frame.plan.name: frame for frame in frames[active:]}


def identity_names(state: SessionState, tenant: str) -> dict[str, Any]:
    """Return the names that identify a session and its owner."""
    return {"session_id": state.id, "user_id": state.user, "project_id": state.project, "tenant_id": tenant}


def _load_variables(frame: Frame, values: dict[str, Any]) -> None:
    for key, value in values.items():
        name = key.removeprefix(frame.prefix) if key.startswith(frame.prefix) else ""
        # Names have no dots; a key with a dot belongs to another agent or to the runtime.
        if name and "." not in name:
            frame.names[name] = value


def _adapt_to_edited_agent(frame: Frame) -> None:
    """Let a session whose agent was edited continue at the beginning of its step."""
    state, plan = frame.state, frame.plan
    # The numbers of rules may have changed.
    state.collecting, state.remedies = None, {}
    triggers = {trigger.id for trigger in plan.triggers}
    state.stored = {id: digest for id, digest in state.stored.items() if id in triggers}
    # The numbers of instructions may have changed; those of the start still apply.
    begun = [one.number for one in plan.recalls.get("session:start", ()) if one.number in plan.instructions]
    state.told = [*begun, *(told for told in state.told if isinstance(told, str))]
    step = plan.steps.get(state.step) if state.step is not None else None
    if step is None:
        state.step, state.stack, state.wait = None, [], "done"
    elif state.wait not in ("done", "input"):
        state.stack, state.wait = [[step.block.number, 0]], ""


def past_messages(turns: list[SessionState], first: int, count: int | None) -> list[tuple[str, str]]:
    """Return the messages since a turn with their roles, and the last `count` messages before it (None for all)."""
    before: list[tuple[str, str]] = []
    since: list[tuple[str, str]] = []
    for state in turns:
        record: TurnRecord = state.turn
        said = since if state.number >= first else before
        if record.input:
            said.append(("user", record.input))
        said.extend(("assistant", message) for message in record.messages)
    return [*(before if count is None else before[-count:] if count else ()), *since]
