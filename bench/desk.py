"""Conversations with the hotel example, turn by turn, and the memory that idle ones use.

As a program, `desk.py held FILE` or `desk.py "let go" FILE` begins as many sessions as each line of its input asks for,
says two things in each and leaves them there. It is a separate process, so that its memory can be measured alone.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from children import Child, answer_lines
from measuring import time_each
from report import show_progress

import memoranda
from memoranda.model.clock import SystemClock

HOTEL = Path(__file__).resolve().parent.parent / "examples" / "abl" / "hotel"
IN_MEMORY = ":memory:"
HELD, LET_GO = "held", "let go"
WARM_UP = 200
"""Sessions before the memory is looked at: by then all code is loaded and all caches are filled."""
IN_A_TURN = 500

ANSWER, CHOICE, TOOL = "answers a question", "chooses from a list", "leads to a tool"
ASIDE, UNCLEAR, RULE = "changes the subject", "is not understood", "breaks a rule"
CHANGE, PARTING = "changes the agent", "says goodbye"
OPENING, END = "the opening", "the end"


class Say(NamedTuple):
    """One turn: what kind it is, what is said, and the step that it must lead to, or the status without one."""

    kind: str
    text: str
    leads_to: str


class Talk(NamedTuple):
    """One conversation, and what is known about the guest before it."""

    facts: dict[str, Any]
    turns: Sequence[Say]


class Taken(NamedTuple):
    """What one turn took, in nanoseconds."""

    kind: str
    nanoseconds: int


def make_talks() -> list[Talk]:
    """Return conversations that go through every part of the example; the days are always ahead."""
    first, second, third = (_day_in(days) for days in (60, 63, 66))
    known = {"name": "Ada", "language": "English", "comfort.wish": "quiet"}
    stay = {"booking_id": "LIS-2-0001", "action": "booked", "town": "Lisbon", "arrival": "2026-05-12", "at": "2026"}
    return [
        Talk(
            {},
            [
                Say(ANSWER, "My name is Ada", "plan_trip"),
                Say(ANSWER, "To Lisbon please", "plan_trip"),
                Say(ANSWER, first, "plan_trip"),
                Say(ANSWER, second, "plan_trip"),
                Say(TOOL, "2", "choose"),
                Say(UNCLEAR, "the big one", "choose"),
                Say(CHOICE, "2", "paperwork"),
                Say(ANSWER, "Portuguese please", "confirm"),
                Say(TOOL, "yes, please", "ask_wish"),
                Say(ANSWER, "a sea view", "offer_concierge"),
                Say(PARTING, "no thanks", "completed"),
            ],
        ),
        Talk(
            known,
            [
                Say(ANSWER, "Porto", "plan_trip"),
                Say(ANSWER, first, "plan_trip"),
                Say(ASIDE, "I want to change the dates", "plan_trip"),
                Say(ANSWER, second, "plan_trip"),
                Say(ASIDE, "is there parking?", "plan_trip"),
                Say(RULE, first, "plan_trip"),
                Say(ANSWER, third, "plan_trip"),
                Say(RULE, "9", "plan_trip"),
                Say(TOOL, "4", "too_dear"),
                Say(ANSWER, "250", "choose"),
                Say(CHOICE, "1", "confirm"),
                Say(TOOL, "yes", "offer_concierge"),
                Say(CHANGE, "yes", "offer"),
                Say(CHANGE, "a table would be nice", "completed"),
            ],
        ),
        Talk(
            known | {"stays": [stay]},
            [
                Say(TOOL, "show my bookings", "choose_stay"),
                Say(UNCLEAR, "hm", "choose_stay"),
                Say(CHOICE, "1", "confirm_cancellation"),
                Say(TOOL, "yes", "completed"),
            ],
        ),
        Talk(
            known,
            [
                Say(TOOL, f"Lisbon, {first} to {second}, 2 guests", "choose"),
                Say(CHOICE, "none", "plan_trip"),
                Say(ANSWER, "Trieste", "plan_trip"),
                Say(UNCLEAR, "I am not sure yet", "plan_trip"),
                Say(PARTING, "bye", "completed"),
            ],
        ),
    ]


def _day_in(days: int) -> str:
    day = SystemClock().now() + timedelta(days=days)
    return f"{day:%B} {day.day}, {day.year}"


class Desk:
    """The agents of the example, loaded on a memory of their own."""

    def __init__(self, memory: memoranda.Memory) -> None:
        """Load them."""
        tools = HOTEL / "tools.py"
        concierge = memoranda.abl.load(HOTEL / "concierge.abl", memory=memory, tools=tools)
        self._memory = memory
        self._agent = memoranda.abl.load(HOTEL / "hotel.abl", memory=memory, tools=tools, agents=[concierge])
        self._guests = 0

    def hold(self, talk: Talk) -> list[Taken]:
        """Have a conversation with a guest who was never here; return what each turn took, the end included."""
        user = self._receive(talk)
        clock = time.perf_counter_ns
        start = clock()
        session = self._agent.start(user=user)
        taken = [Taken(OPENING, clock() - start)]
        for said in talk.turns:
            start = clock()
            turn = session.say(said.text)
            taken.append(Taken(said.kind, clock() - start))
            reached = turn.step or turn.status
            if reached != said.leads_to:
                raise RuntimeError(f"`{said.text}` led to {reached}, not to {said.leads_to}:\n{turn.trace}")
        start = clock()
        session.end()
        return [*taken, Taken(END, clock() - start)]

    def begin(self) -> memoranda.abl.Session:
        """Begin a conversation with a guest who was never here, and leave it after two turns."""
        session = self._agent.start(user=self._receive(Talk({}, [])))
        session.say("My name is Ada")
        session.say("To Lisbon please")
        if session.vars["destination"] != "Lisbon":
            raise RuntimeError("the desk did not understand where the guest wants to go")
        return session

    def check_kept(self, id: str) -> None:
        """See that a session can be gone on with from what the store has of it."""
        step = memoranda.abl.resume(self._memory, id).step
        if step != "plan_trip":
            raise RuntimeError(f"the session {id} is at {step} when it is resumed")

    def _receive(self, talk: Talk) -> str:
        self._guests += 1
        user = f"guest-{self._guests:06}"
        scope = self._memory.scope(user=user)
        for key, value in talk.facts.items():
            scope.set(key, value)
        return user


@contextmanager
def open_desk(url: str = IN_MEMORY) -> Iterator[Desk]:
    """Load the example on a store; on a file, commits are not synced, because only memory is looked at there."""
    with memoranda.open(url, durability="normal") as memory:
        yield Desk(memory)


def weigh_idle(sessions: int, manner: str, url: str) -> float:
    """Return the kilobytes by which a process grows for each idle session, which it has held or let go."""
    what = f"{sessions:,} idle sessions, {manner}"
    with Child(__file__, manner, url) as child, show_progress(what, sessions) as advance:
        before = after = child.ask("begin", WARM_UP).rss
        for _ in range(sessions // IN_A_TURN):
            after = child.ask("begin", IN_A_TURN).rss
            advance(IN_A_TURN)
    return (after - before) * 1024 / sessions


def begin_when_asked(manner: str, url: str) -> None:
    """Begin conversations and leave them, as the lines of the input ask for."""
    held: list[memoranda.abl.Session] = []
    with open_desk(url) as desk:

        def begin(turn: int) -> None:
            session = desk.begin()
            if manner == HELD:
                held.append(session)

        def begin_many(count: int) -> list[int]:
            times = time_each(begin, range(count))
            desk.check_kept(desk.begin().id)
            gc.collect()
            return times

        answer_lines({"begin": begin_many})


if __name__ == "__main__":
    begin_when_asked(*sys.argv[1:])
