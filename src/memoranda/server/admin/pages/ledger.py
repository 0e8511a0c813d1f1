"""The ledger: its events newest first, one event in detail, and verification of the chain."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery

from memoranda.errors import NotFound, UsageError
from memoranda.model.event import Event
from memoranda.server.admin.context import PageContext, Place, field_error, status_of

PAGE = 50
_STEP = 64
"""Number of events read at a time."""
_FARTHEST = 10_000
"""Maximum number of events searched for one page; if they do not fill it, the reader can go on."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Matching events, and how far back the search went."""

    events: list[Event]
    """Newest first."""
    reached: int
    """The position of the oldest event searched; 1 at the beginning of the ledger."""


@get("/ledger", sync_to_thread=True)
def see_ledger(
    context: NamedDependency[PageContext],
    actor: FromQuery[str] = "",
    door: FromQuery[str] = "",
    effect: FromQuery[str] = "",
    decision: FromQuery[str] = "",
    place: Place = "",
    before: FromQuery[int | None] = None,
) -> Response[bytes]:
    """Show the newest events, or those before a position, that match the filter."""
    asked = {"actor": actor, "door": door, "effect": effect, "decision": decision, "scope": place}
    found, problem, status = Found(events=[], reached=1), None, 200
    try:
        found = search_back(context, before, _filter(context, asked))
    except UsageError as error:
        problem, status = field_error(error, field="scope"), status_of(error)
    return context.show(
        "ledger.html",
        section="ledger",
        status=status,
        events=found.events,
        asked=asked,
        field_error=problem,
        onwards=found.reached if found.reached > 1 else None,
    )


@get("/ledger/verify", sync_to_thread=True)
def verify_ledger(context: NamedDependency[PageContext]) -> Response[bytes]:
    """Verify the whole hash chain and show the result."""
    return context.show("verification.html", section="ledger", verification=context.memory.ledger.verify())


@get("/ledger/{position:int}", sync_to_thread=True)
def see_event(context: NamedDependency[PageContext], position: FromPath[int]) -> Response[bytes]:
    """Show one event in detail."""
    found = context.memory.ledger.events(start=max(position, 1), limit=1)
    if not found or found[0].position != position:
        raise NotFound(f"unknown event {position}", hint="The ledger is shorter")
    return context.show("event.html", section="ledger", event=found[0])


def search_back(context: PageContext, before: int | None, passes: Callable[[Event], bool]) -> Found:
    """Search backwards for a page of events, from the newest or from before a position."""
    newest = context.memory.ledger.tail(1)
    length = newest[0].position if newest else 0
    end = length + 1 if before is None else min(before, length + 1)
    stop = max(1, end - _FARTHEST)
    events: list[Event] = []
    while end > stop:
        start = max(stop, end - _STEP)
        for event in reversed(context.memory.ledger.events(start=start, limit=end - start)):
            if passes(event):
                events.append(event)
                if len(events) == PAGE:
                    return Found(events=events, reached=event.position)
        end = start
    return Found(events=events, reached=end)


def _filter(context: PageContext, asked: dict[str, str]) -> Callable[[Event], bool]:
    wanted = {name: text.strip() for name, text in asked.items() if text.strip()}
    place = wanted.pop("scope", "")
    scope = context.scope(place).path if place else None

    def passes(event: Event) -> bool:
        return all(text in getattr(event, name) for name, text in wanted.items()) and (
            # The shared scope matches only itself: every other scope is below it.
            scope is None or event.scope == scope or (scope != "" and event.scope.startswith(f"{scope}/"))
        )

    return passes


handlers = [see_ledger, verify_ledger, see_event]
