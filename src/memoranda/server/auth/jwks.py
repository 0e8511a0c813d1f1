"""Public keys (JWKS) that check signed tokens, from a file or from the address of an identity provider."""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK, PyJWKSet
from jwt.exceptions import PyJWTError

from memoranda.errors import Unavailable, UsageError
from memoranda.model.text import quote

FRESH = 300.0
"""Seconds after which keys from an address are fetched again."""

APART = 10.0
"""Minimum seconds between two fetches, so that tokens with made-up key ids cannot flood the provider."""

TIMEOUT = 5.0
"""Seconds that one fetch may take in total, from the look-up of the host to the last byte."""

LARGEST = 1_048_576
"""Maximum size of a JWKS in bytes."""

SHORTEST_MODULUS = 2_048
"""Bits of an RSA key, at least."""

_log = logging.getLogger(__name__)


class KeySet:
    """The public RSA keys of an identity provider.

    A lookup never waits: `refresh` starts a fetch in a thread of its own, at most one at a time, and known keys stay
    in use until it has succeeded.
    """

    def __init__(
        self,
        fetch: Callable[[], bytes],
        *,
        where: str,
        remote: bool,
        keys: list[PyJWK] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start with `keys`; without any, the first `refresh` fetches them."""
        self._fetch = fetch
        self._where = where
        self._remote = remote
        self._now = now
        self._lock = threading.Lock()
        self._keys = keys
        self._tried = self._fetched = -float("inf")
        self._fetching: Future[None] | None = None

    def find(self, named: str | None) -> PyJWK | None:
        """Return the key with an id; without an id the only key, if there is only one."""
        keys = self._keys
        if keys is None:
            # The address may contain a password, and the answer anything: neither is repeated.
            raise Unavailable(
                "the keys that tokens are signed with cannot be fetched",
                hint="Use an API key, or try again in a moment",
            )
        if named is None:
            return keys[0] if len(keys) == 1 else None
        return next((key for key in keys if key.key_id == named), None)

    def refresh(self, named: str | None) -> Future[None] | None:
        """Start a fetch if one is due; return the one under way if the key has to wait for it.

        A key that is known never waits. The result of a fetch is always None: `find` tells what came of it.
        """
        with self._lock:
            now = self._now()
            known = self._keys is not None and self.find(named) is not None
            due = not known or (self._remote and now - self._fetched >= FRESH)
            if due and self._fetching is None and now - self._tried >= APART:
                self._tried = now
                self._fetching = Future()
                # A running future cannot be cancelled, so a client that hangs up takes it from no other.
                self._fetching.set_running_or_notify_cancel()
                threading.Thread(target=self._load, args=(self._fetching,), name="memoranda-jwks", daemon=True).start()
            return None if known else self._fetching

    def _load(self, fetching: Future[None]) -> None:
        try:
            keys = parse_keys(self._fetch(), where=self._where)
            with self._lock:
                self._keys, self._fetched = keys, self._now()
        except (UsageError, OSError) as fault:
            _log.warning("the public keys for tokens could not be fetched: %s", type(fault).__name__)
        finally:
            with self._lock:
                self._fetching = None
            fetching.set_result(None)


class _Set(msgspec.Struct, frozen=True):
    keys: list[dict[str, Any]]


def open_key_set(where: str, *, timeout: float = TIMEOUT, now: Callable[[], float] = time.monotonic) -> KeySet:
    """Return the keys of a JWKS file, read and checked now, or of an address, fetched when they are first needed."""
    parts = urlsplit(where)
    if parts.scheme in ("https", "http"):
        if parts.scheme == "http" and not _is_loopback(parts.hostname):
            raise UsageError(
                "public keys are fetched over http, where anybody on the way can change them",
                hint="Use an https address",
            )
        return KeySet(lambda: _download(where, timeout), where=where, remote=True, now=now)
    path = Path(where)
    try:
        keys = parse_keys(path.read_bytes(), where=where)
    except OSError as fault:
        raise UsageError(f"the public keys in {quote(where)} cannot be read: {fault.strerror}", hint=_HINT) from None
    return KeySet(path.read_bytes, where=where, remote=False, keys=keys, now=now)


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


def _download(where: str, timeout: float) -> bytes:
    # An event loop of its own, because only cancelling bounds the whole: timeouts of a socket begin anew with each
    # byte. `asyncio.run` would also wait for a look-up of the host that never ends.
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(asyncio.wait_for(_get(where), timeout))
    finally:
        loop.close()


async def _get(where: str) -> bytes:
    import httpx

    text = bytearray()
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    try:
        # httpx follows no redirect by itself: one could lead to http, or into the network of this server.
        async with (
            httpx.AsyncClient(verify=ssl.create_default_context(), timeout=None) as client,
            client.stream("GET", where, headers=headers) as answer,
        ):
            if answer.status_code != 200:
                raise OSError(f"the answer has status {answer.status_code}")
            async for piece in answer.aiter_raw():
                text += piece
                if len(text) > LARGEST:
                    raise OSError(f"the answer has more than {LARGEST} bytes")
    except (httpx.HTTPError, httpx.InvalidURL) as fault:
        raise OSError(type(fault).__name__) from None
    return bytes(text)


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False
