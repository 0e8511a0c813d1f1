"""Replay the recorded turns of a session without tools, models or writes."""

from __future__ import annotations

from datetime import datetime

import msgspec

from memoranda.abl.runtime.active_turn import ActiveTurn, Frame, TurnClock, TurnIds
from memoranda.abl.runtime.coordination import first_frame
from memoranda.abl.runtime.memory import SessionFacts
from memoranda.abl.runtime.persistence import identity_names
from memoranda.abl.runtime.state import SessionState, TurnRecord
from memoranda.abl.runtime.trace import Trace
from memoranda.abl.runtime.turn import open_session, take_turn
from memoranda.abl.session import Setting, give
from memoranda.model.clock import parse_moment


class ReplayedTurn(msgspec.Struct, frozen=True):
    """A turn as it was and as it is now."""

    number: int
    input: str | None
    said: list[str]
    """The recorded messages."""
    says: list[str]
    """The messages of the replay."""
    trace: Trace

    @property
    def same(self) -> bool:
        """Whether the messages are the same."""
        return self.said == self.says


class Replay(msgspec.Struct, frozen=True):
    """The replay of a session."""

    turns: tuple[ReplayedTurn, ...]

    @property
    def same(self) -> bool:
        """Whether all messages are the same."""
        return all(turn.same for turn in self.turns)


def replay_session(setting: Setting, agent: str, states: list[SessionState]) -> Replay:
    """Replay the turns of a session with the agent as it is loaded now.

    Tools and models return their recorded results, the clock shows the recorded time, and facts are read as of then;
    nothing is written. Any difference comes from the agent's text.
    """
    first = states[0]
    state = SessionState(first.id, first.user, first.project, joined=first.joined)
    facts = SessionFacts(setting.memory, user=state.user, project=state.project, tree=state.tree)
    frame = first_frame(setting.team[agent], facts)
    frame.names.update(identity_names(state, setting.memory.tenant))
    frames, resting = [frame], dict[str, Frame]()
    turns: list[ReplayedTurn] = []
    past: list[tuple[str, str]] = []
    for stored in states:
        record = stored.turn
        # A microsecond earlier, before the writes of the turn itself.
        moment = parse_moment(record.at) - 1
        if facts.as_of is not None and moment > facts.as_of:
            # The facts now include the writes of the previous turn, and later changes by others.
            facts.settle()
        facts.as_of = moment
        turn = _active_turn(setting, state, frames, resting, stored.number, record, past)
        _take(turn, state, record, stored)
        frames = turn.frames
        past.extend([("user", record.input)] if record.input else [])
        past.extend(("assistant", message) for message in turn.messages)
        turns.append(ReplayedTurn(stored.number, record.input, record.messages, turn.messages, turn.trace()))
    return Replay(tuple(turns))


def _take(turn: ActiveTurn, state: SessionState, record: TurnRecord, stored: SessionState) -> None:
    if record.input is None:
        open_session(turn, dict(record.given))
        return
    state.number = stored.number
    for name, value in record.given.items():
        give(turn.frame, name, value)
    if state.status not in ("escalated", "handed_off"):
        state.status = "waiting"
        take_turn(turn)


def _active_turn(
    setting: Setting,
    state: SessionState,
    frames: list[Frame],
    resting: dict[str, Frame],
    number: int,
    record: TurnRecord,
    past: list[tuple[str, str]],
) -> ActiveTurn:
    return ActiveTurn(
        state,
        frames,
        record.input,
        behaviour=setting.behaviour,
        clock=TurnClock(datetime.fromisoformat(record.at)),
        ids=TurnIds(state.id, number),
        past=lambda frame: list(past),
        team=setting.team.get,
        resting=resting,
        replay=record,
    )
