"""The address and the key of a server in, checked, out: what every client is made with."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from memoranda.client.calls import API
from memoranda.errors import UsageError
from memoranda.model.environment import variable
from memoranda.model.text import quote

KEY_VARIABLE = "MEMORANDA_API_KEY"
DEFAULT_URL = "http://127.0.0.1:8765"


def check_address(base_url: Any) -> str:
    """Return the address without a slash at its end; refuse what is no address of a server."""
    try:
        parts = urlsplit(base_url if isinstance(base_url, str) else "")
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        bare = not (parts.username or parts.password or parts.query or parts.fragment)
    except ValueError:
        usable, bare = False, True
    if not bare:
        # Not shown: what stands there may be a password.
        raise UsageError(
            "the address of a server has no user, password, query or fragment", hint="Pass the key as api_key=…"
        )
    if not usable:
        raise UsageError(
            f"{quote(base_url)} is no address of a server", hint=f"Write it as {DEFAULT_URL} or https://memory.example"
        )
    address = base_url.rstrip("/")
    if address.endswith(API):
        raise UsageError(
            f"{quote(base_url)} is where the routes of a server lie, not its address", hint=f"Leave out {API}"
        )
    return address


def key_from(api_key: str | None) -> str | None:
    """Return the key that was given, or the environment's; refuse one that no header can carry, without showing it."""
    key = variable(KEY_VARIABLE) if api_key is None else api_key
    if not key:
        return None
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(
            "the API key holds characters that no key has", hint="Pass the token exactly as it was printed"
        )
    return key


def check_patience(timeout: Any, retries: Any) -> None:
    """Refuse a timeout that is no time, or a number of retries that is none."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < float("inf"):
        raise UsageError(f"{quote(timeout)} is not a timeout", hint="Pass seconds, such as 30")
    if type(retries) is not int or retries < 0:
        raise UsageError(f"{quote(retries)} is not a number of retries", hint="Pass a whole number from 0 on")
