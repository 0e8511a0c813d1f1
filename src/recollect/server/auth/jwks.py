"""Public keys (a JWKS): a file or an address in, the key that signed a token out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http.client import HTTPException
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK, PyJWKSet
from jwt.exceptions import PyJWTError

from recollect.errors import Unavailable, UsageError
from recollect.model.text import quote

FRESH = 300.0
"""Seconds for which keys from an address are used before they are fetched again."""

APART = 10.0
"""Seconds between two fetches at least, whatever tokens name: nobody makes this server hammer another one."""

SHORTEST_MODULUS = 2_048
"""Bits of an RSA key, at least."""

_PATIENCE = 5.0
_LARGEST = 1_048_576


class KeySet:
    """The public RSA keys of whoever issues tokens. Keys from an address are kept up with."""

    def __init__(
        self, fetch: Callable[[], bytes], *, where: str, remote: bool, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Fetch keys when they are first asked for."""
        self._fetch = fetch
        self._where = where
        self.remote = remote
        self._now = now
        self._lock = threading.Lock()
        self._keys: list[PyJWK] | None = None
        self._tried = self._fetched = -float("inf")

    def find(self, named: str | None) -> PyJWK | None:
        """Return the key of an id; without an id the only key, if there is only one."""
        with self._lock:
            now = self._now()
            stale = self.remote and now - self._fetched >= FRESH
            if (self._keys is None or stale or self._pick(named) is None) and now - self._tried >= APART:
                self._refresh(now)
            if self._keys is None:
                raise self._unreachable()
            return self._pick(named)

    def _refresh(self, now: float) -> None:
        """Fetch the keys; those that are there already stay in use when that fails."""
        self._tried = now
        try:
            self._keys = parse_keys(self._fetch(), where=self._where)
            self._fetched = now
        except (UsageError, OSError, HTTPException):
            if self._keys is None:
                raise self._unreachable() from None

    def _pick(self, named: str | None) -> PyJWK | None:
        keys = self._keys or []
        if named is None:
            return keys[0] if len(keys) == 1 else None
        return next((key for key in keys if key.key_id == named), None)

    def _unreachable(self) -> Unavailable:
        # The address may hold a password, and the answer anything: neither is repeated.
        return Unavailable(
            "the keys that tokens are signed with cannot be fetched", hint="Use an API key, or try again in a moment"
        )


class _Set(msgspec.Struct, frozen=True):
    keys: list[dict[str, Any]]


def open_key_set(where: str, *, now: Callable[[], float] = time.monotonic) -> KeySet:
    """Return the keys of a JWKS file, read and checked now, or of an address, fetched when they are first needed."""
    parts = urlsplit(where)
    if parts.scheme in ("https", "http"):
        if parts.scheme == "http" and not _is_loopback(parts.hostname):
            raise UsageError(
                "public keys are fetched over http, where anybody on the way can change them",
                hint="Use an https address",
            )
        return KeySet(lambda: _download(where), where=where, remote=True, now=now)
    path = Path(where)
    keys = KeySet(path.read_bytes, where=where, remote=False, now=now)
    try:
        parse_keys(path.read_bytes(), where=where)
    except OSError as fault:
        raise UsageError(f"the public keys in {quote(where)} cannot be read: {fault.strerror}", hint=_HINT) from None
    return keys


def parse_keys(text: bytes, *, where: str) -> list[PyJWK]:
    """Return the RSA keys of a JWKS; refuse one that holds none, a private one, or one that is too short."""
    try:
        found = PyJWKSet(msgspec.json.decode(text, type=_Set).keys).keys
    # The library lets what Python says to a number in place of a text pass.
    except (PyJWTError, ValueError, TypeError, AttributeError) as fault:
        raise UsageError(f"{quote(where)} does not hold public keys: {fault}", hint=_HINT) from None
    keys = [key for key in found if key.key_type == "RSA" and key.public_key_use in (None, "sig")]
    if not keys:
        raise UsageError(f"{quote(where)} holds no RSA key that signs", hint=_HINT)
    if not all(isinstance(key.key, RSAPublicKey) for key in keys):
        raise UsageError(f"{quote(where)} holds a private key", hint="This server needs only the public ones")
    if any(key.key.key_size < SHORTEST_MODULUS for key in keys):
        raise UsageError(f"{quote(where)} holds a key of less than {SHORTEST_MODULUS} bits", hint="Make a longer one")
    return keys


_HINT = 'A JWKS is JSON such as {"keys": [{"kty": "RSA", "kid": "…", "n": "…", "e": "AQAB"}]}'


def _download(where: str) -> bytes:
    request = Request(where, headers={"Accept": "application/json"})
    try:
        with urlopen(request, timeout=_PATIENCE) as answer:
            text: bytes = answer.read(_LARGEST + 1)
    except URLError as fault:
        raise OSError(str(fault.reason)) from None
    if len(text) > _LARGEST:
        raise OSError("the answer is too long")
    return text


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False
