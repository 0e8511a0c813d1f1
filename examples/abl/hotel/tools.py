"""The bookings of Quay Hotels, as far as the example needs them: every public function is a tool of the agents."""

from __future__ import annotations

import zlib
from typing import Any

_ROOMS: dict[str, list[dict[str, Any]]] = {
    "lisbon": [
        {"id": "LIS-1", "name": "Attic Room", "price": 95, "view": "over the roofs", "sleeps": 2},
        {"id": "LIS-2", "name": "Courtyard Room", "price": 120, "view": "to the orange tree", "sleeps": 2},
        {"id": "LIS-3", "name": "River Room", "price": 165, "view": "to the Tagus", "sleeps": 3},
        {"id": "LIS-4", "name": "Captain's Suite", "price": 310, "view": "to the Tagus", "sleeps": 6},
    ],
    "porto": [
        {"id": "OPO-1", "name": "Cooper's Room", "price": 88, "view": "to the lodges", "sleeps": 2},
        {"id": "OPO-2", "name": "Bridge Suite", "price": 205, "view": "to the bridge", "sleeps": 5},
    ],
    "trieste": [
        {"id": "TRS-1", "name": "Pier Suite", "price": 240, "view": "to the sea", "sleeps": 4},
    ],
}
_FEE = 25


def search_rooms(town: str, arrival: str, departure: str, guests: float) -> dict[str, Any]:
    """Return the rooms of a town for this number of guests, cheapest first."""
    rooms = [room for room in _ROOMS.get(town.strip().casefold(), []) if room["sleeps"] >= guests]
    return {"rooms": sorted(rooms, key=lambda room: room["price"])}


def book_room(room_id: str, guest: str, arrival: str, departure: str) -> dict[str, str]:
    """Return the number of a new booking."""
    checksum = zlib.crc32(f"{room_id} {guest} {arrival} {departure}".encode()) % 10_000
    return {"booking_id": f"{room_id}-{checksum:04}"}


def list_stays(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each booking of a history once, in its latest state."""
    stays: dict[str, dict[str, Any]] = {}
    for entry in history:
        status = "cancelled" if entry["action"] == "cancelled" else "active"
        stays[entry["booking_id"]] = {
            "booking_id": entry["booking_id"],
            "town": entry["town"],
            "arrival": entry["arrival"],
            "fee": _FEE,
            "status": status,
        }
    return list(stays.values())


def cancel_booking(booking_id: str) -> dict[str, float]:
    """Return what the cancellation costs."""
    return {"fee": _FEE}


def arrange(kind: str, town: str, day: str) -> dict[str, str]:
    """Return what the concierge arranged."""
    words = {"table": "a table by the window", "transfer": "a car from the station", "tickets": "two opera tickets"}
    return {"what": f"{words.get(kind, kind)} in {town} on {day}"}
