"""The desk's own actions: typed functions, and one that takes its whole call."""

from __future__ import annotations

import time
from typing import Any

from memoranda.workflow import Call, action

_RENTALS = {"ada": ["cello", "bow"], "noor": ["clarinet"]}
_HOURS = {"string": 1.5, "peg": 1.0, "crack": 6.0, "key": 2.0}
_RATE = 30
_SHELVES = {"north": ["string"], "harbour": ["string", "peg", "key"], "old town": ["crack"]}
_SLOWER = {"van": 0.0, "courier": 0.3}


@action
def find_rentals(call: Call) -> dict[str, Any]:
    """List the instruments that the owner of the run has rented."""
    return {"instruments": _RENTALS.get(call.place.owner, [])}


@action
def opening_days(open_from: str = "Tuesday", closed: bool = False) -> dict[str, Any]:
    """List the days on which the workshop is open."""
    week = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]
    return {"days": [] if closed else week[week.index(open_from) :][:3]}


@action
def estimate_repair(instrument: str, fault: str) -> dict[str, Any]:
    """Estimate what a repair costs; an unknown fault takes four hours."""
    hours = _HOURS.get(fault, 4.0)
    return {"line": f"{instrument}, {fault}: {hours * _RATE:g}", "price": hours * _RATE}


@action
def look_on_shelf(shop: str, part: str) -> dict[str, Any]:
    """Say whether a shop has a part."""
    return {"shop": shop, "there": part in _SHELVES.get(shop, [])}


@action
def ask_carrier(carrier: str) -> dict[str, Any]:
    """Ask who could fetch an instrument; some answer later than others."""
    time.sleep(_SLOWER.get(carrier, 0.0))
    return {"carrier": carrier}
