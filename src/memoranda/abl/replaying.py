"""The record of a session in, the same turns taken once more out: without tools, models or writes."""

from __future__ import annotations

from datetime import datetime

import msgspec

from memoranda.abl.runtime.activating import first_frame
from memoranda.abl.runtime.facts import SessionFacts
from memoranda.abl.runtime.repeatable import TurnClock, TurnIds
from memoranda.abl.runtime.saving import identity
from memoranda.abl.runtime.state import SessionState, TurnRecord
from memoranda.abl.runtime.trace import Trace
from memoranda.abl.runtime.turns import open_session, take_turn
from memoranda.abl.runtime.work import Frame, Work
from memoranda.abl.session import Setting, give
from memoranda.model.clock import parse_moment


class ReplayedTurn(msgspec.Struct, frozen=True):
    """One turn, as it was and as it is now."""

    number: int
    input: str | None
    said: list[str]
    """What the agent said then."""
    says: list[str]
    """What it says now."""
    trace: Trace

    @property
    def same(self) -> bool:
        """Whether it says the same."""
        return self.said == self.says


class Replay(msgspec.Struct, frozen=True):
    """All turns of a session, taken once more."""

    turns: tuple[ReplayedTurn, ...]

    @property
    def same(self) -> bool:
        """Whether the agent would say today what it said then."""
        return all(turn.same for turn in self.turns)


def replay_session(setting: Setting, agent: str, states: list[SessionState]) -> Replay:
    """Take the turns of a session again, with the agent as it is loaded now.

    Tools and models give what they gave then, the clock shows the time of then, and facts are read as they stood;
    nothing is written. What differs comes from the agent's text.
    """
    first = states[0]
    state = SessionState(first.id, first.user, first.project, joined=first.joined)
    facts = SessionFacts(setting.memory, user=state.user, project=state.project, tree=state.tree)
    frame = first_frame(setting.team[agent], facts)
    frame.names.update(identity(state, setting.memory.tenant))
    frames, resting = [frame], dict[str, Frame]()
    turns: list[ReplayedTurn] = []
    past: list[tuple[str, str]] = []
    for kept in states:
        record = kept.turn
        # A microsecond earlier: what the turn itself wrote at that moment is not yet there.
        moment = parse_moment(record.at) - 1
        if facts.as_of is not None and moment > facts.as_of:
            # What the turn before wrote is among the facts by now, and others may have changed it since.
            facts.settle()
        facts.as_of = moment
        work = _work(setting, state, frames, resting, kept.number, record, past)
        _take(work, state, record, kept)
        frames = work.frames
        past.extend([("user", record.input)] if record.input else [])
        past.extend(("assistant", message) for message in work.messages)
        turns.append(ReplayedTurn(kept.number, record.input, record.messages, work.messages, Trace(work.happened)))
    return Replay(tuple(turns))


def _take(work: Work, state: SessionState, record: TurnRecord, kept: SessionState) -> None:
    if record.input is None:
        open_session(work, dict(record.given))
        return
    state.number = kept.number
    for name, value in record.given.items():
        give(work.frame, name, value)
    if state.status not in ("escalated", "handed_off"):
        state.status = "waiting"
        take_turn(work)


def _work(
    setting: Setting,
    state: SessionState,
    frames: list[Frame],
    resting: dict[str, Frame],
    number: int,
    record: TurnRecord,
    past: list[tuple[str, str]],
) -> Work:
    return Work(
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
