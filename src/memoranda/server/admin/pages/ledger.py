"""The ledger: what happened, newest first; one event with all it says; and whether the chain is whole."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery

from memoranda.errors import NotFound, UsageError
from memoranda.model.event import Event
from memoranda.server.admin.desk import Desk
from memoranda.server.admin.forms import fault_of, status_of
from memoranda.server.admin.parameters import Place

PAGE = 50
_STEP = 64
"""Events that are read at once: whatever they hold, few pages hold more."""
_FARTHEST = 10_000
"""Events that are looked at for one page. Where a filter finds less than a page in them, the reader says to go on."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a look back through the ledger found."""

    events: list[Event]
    """Newest first."""
    reached: int
    """The position of the oldest event that was looked at; 1 where there are no more."""


@get("/ledger", sync_to_thread=True)
def see_ledger(
    desk: NamedDependency[Desk],
    actor: FromQuery[str] = "",
    door: FromQuery[str] = "",
    effect: FromQuery[str] = "",
    decision: FromQuery[str] = "",
    place: Place = "",
    before: FromQuery[int | None] = None,
) -> Response[bytes]:
    """Return events before a position, or the newest: all of them, or those that a filter lets through."""
    asked = {"actor": actor, "door": door, "effect": effect, "decision": decision, "scope": place}
    found, fault, status = Found(events=[], reached=1), None, 200
    try:
        found = look_back(desk, before, _filter(desk, asked))
    except UsageError as error:
        fault, status = fault_of(error, field="scope"), status_of(error)
    return desk.show(
        "ledger.html",
        section="ledger",
        status=status,
        events=found.events,
        asked=asked,
        fault=fault,
        onwards=found.reached if found.reached > 1 else None,
    )


@get("/ledger/verify", sync_to_thread=True)
def verify_ledger(desk: NamedDependency[Desk]) -> Response[bytes]:
    """Walk the whole chain, and say whether it is whole."""
    return desk.show("verification.html", section="ledger", verification=desk.memory.ledger.verify())


@get("/ledger/{position:int}", sync_to_thread=True)
def see_event(desk: NamedDependency[Desk], position: FromPath[int]) -> Response[bytes]:
    """Return one event with all it says."""
    found = desk.memory.ledger.events(start=max(position, 1), limit=1)
    if not found or found[0].position != position:
        raise NotFound(f"there is no event {position}", hint="The ledger ends before it")
    return desk.show("event.html", section="ledger", event=found[0])


def look_back(desk: Desk, before: int | None, passes: Callable[[Event], bool]) -> Found:
    """Return a page of events that pass, from the newest or from before a position on."""
    newest = desk.memory.ledger.tail(1)
    length = newest[0].position if newest else 0
    end = length + 1 if before is None else min(before, length + 1)
    stop = max(1, end - _FARTHEST)
    events: list[Event] = []
    while end > stop:
        start = max(stop, end - _STEP)
        for event in reversed(desk.memory.ledger.events(start=start, limit=end - start)):
            if passes(event):
                events.append(event)
                if len(events) == PAGE:
                    return Found(events=events, reached=event.position)
        end = start
    return Found(events=events, reached=end)


def _filter(desk: Desk, asked: dict[str, str]) -> Callable[[Event], bool]:
    wanted = {name: text.strip() for name, text in asked.items() if text.strip()}
    place = wanted.pop("scope", "")
    scope = desk.scope(place).path if place else None

    def passes(event: Event) -> bool:
        return all(text in getattr(event, name) for name, text in wanted.items()) and (
            # The shared scope is looked into alone: all others lie below it.
            scope is None or event.scope == scope or (scope != "" and event.scope.startswith(f"{scope}/"))
        )

    return passes


handlers = [see_ledger, verify_ledger, see_event]
