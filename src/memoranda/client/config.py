"""Configuration of a client: server URL, API key, timeouts and certificates."""

from __future__ import annotations

import ssl
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpx

from memoranda.client.requests import API
from memoranda.errors import UsageError
from memoranda.model.environment import variable
from memoranda.model.text import quote

KEY_VARIABLE = "MEMORANDA_API_KEY"
DEFAULT_URL = "http://127.0.0.1:8765"


def check_address(base_url: Any) -> str:
    """Return the URL without a trailing slash; raise UsageError if it is not the URL of a server."""
    try:
        parts = urlsplit(base_url if isinstance(base_url, str) else "")
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        bare = not (parts.username or parts.password or parts.query or parts.fragment)
    except ValueError:
        usable, bare = False, True
    if not bare:
        # The URL is not shown, because it may contain a password.
        raise UsageError(
            "the URL of a server must not contain a user, password, query or fragment", hint="Pass the key as api_key=…"
        )
    if not usable:
        raise UsageError(
            f"{quote(base_url)} is not the URL of a server",
            hint=f"Use a URL such as {DEFAULT_URL} or https://memory.example",
        )
    address = base_url.rstrip("/")
    if address.endswith(API):
        raise UsageError(f"{quote(base_url)} includes the path of the API", hint=f"Leave out {API}")
    return address


def resolve_key(api_key: str | None) -> str | None:
    """Return the given key or that of the environment; raise UsageError, without showing it, if it is malformed."""
    key = variable(KEY_VARIABLE) if api_key is None else api_key
    if not key:
        return None
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError("the API key contains invalid characters", hint="Pass the token exactly as it was printed")
    return key


def check_timeouts(timeout: Any, retries: Any) -> None:
    """Raise UsageError for an invalid timeout or number of retries."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < float("inf"):
        raise UsageError(f"{quote(timeout)} is not a timeout", hint="Pass seconds, such as 30")
    if type(retries) is not int or retries < 0:
        raise UsageError(f"{quote(retries)} is not a number of retries", hint="Pass a non-negative integer")


@cache
def ssl_context() -> ssl.SSLContext:
    """Return the SSL context shared by all clients; loading the certificates takes longer than a hundred calls."""
    return httpx.create_ssl_context()
