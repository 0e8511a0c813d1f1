"""The accounts of Alder Bank, as far as the example needs them: every public function is a tool of the agents."""

from __future__ import annotations

import zlib
from typing import Any

_ACCOUNTS: dict[str, dict[str, Any]] = {
    "ada": {"balance": 8200, "sent_today": 300, "status": "open"},
    "bob": {"balance": 150, "sent_today": 0, "status": "open"},
    "mallory": {"balance": 90_000, "sent_today": 0, "status": "frozen"},
    "oldtimer": {"balance": 0, "sent_today": 0, "status": "closed"},
}
_SCORES = {"dusk traders": 65, "nightfall ltd": 92}
_PIN = "2407"


def load_account(user: str) -> dict[str, Any]:
    """Return a customer's account; an unknown customer has a small one."""
    return dict(_ACCOUNTS.get(user, _ACCOUNTS["bob"]))


def screen_transfer(payee: str, country: str) -> dict[str, int]:
    """Return how likely it is that a payee is fraudulent."""
    return {"score": _SCORES.get(payee.casefold(), 5)}


def check_pin(user: str, pin: str) -> dict[str, bool]:
    """Return whether a PIN is right; in this example everyone has the same one."""
    return {"right": pin.strip() == _PIN}


def send_wire(payee: str, country: str, amount: float, currency: str, purpose: str = "") -> dict[str, str]:
    """Return the reference of a transfer."""
    return {"id": f"W{zlib.crc32(f'{payee} {country} {amount} {currency}'.encode()) % 1_000_000:06}"}


def wire_status(id: str) -> dict[str, str]:
    """Return the status of a transfer."""
    return {"id": id, "state": "accepted"}
