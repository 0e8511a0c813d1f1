"""Signed tokens (JWT). The algorithm comes from the configuration, never from the token.

HS256 uses a secret; RS256 uses public keys from a JWKS file or URL. Only one of the two is configured, so a public key
can never be used as a secret, and tokens with another algorithm, or none, are rejected.
"""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal, cast, get_args
from urllib.parse import urlsplit

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK, PyJWKSet
from jwt.exceptions import (
    ExpiredSignatureError,
    InvalidAudienceError,
    InvalidIssuerError,
    InvalidKeyError,
    MissingRequiredClaimError,
    PyJWTError,
)

from memoranda.errors import InvalidPolicy, MemorandaError, Unauthenticated, Unavailable, UsageError
from memoranda.governance.permissions import check_role_name
from memoranda.model.clock import Clock, SystemClock
from memoranda.model.text import quote
from memoranda.model.trust import ORIGIN_KINDS, OriginKind
from memoranda.server.auth.keys import check_principal
from memoranda.server.settings import Settings

Algorithm = Literal["HS256", "RS256"]
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)

SHORTEST_SECRET = 32
"""Minimum bytes of an HS256 secret: the size of the hash. A shorter one can be brute-forced from a single token."""

EARLY = 5
"""Seconds by which the issuer's clock may be ahead of ours."""

ORIGIN_CLAIM = "memoranda_origin"
"""The claim with the origin of writes. Not `origin`, which identity providers use for something else."""

_OF_CLAIMS = (ExpiredSignatureError, InvalidAudienceError, InvalidIssuerError, MissingRequiredClaimError)
"""Errors that are raised only after the signature was verified."""

_HINT = "Get a new token from the issuer"
_MAKE_ONE = "Create one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """The verified claims of a token."""

    tenant: str
    user: str
    role: str
    origin: OriginKind = "user"
    """What kind of origin writes with the token."""


class TokenReader:
    """Verifies tokens."""

    def __init__(
        self,
        algorithm: Algorithm,
        keys: str | KeySet,
        *,
        issuer: str | None = None,
        audience: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Verify with a secret (HS256) or a set of public keys (RS256)."""
        self._algorithm: Algorithm = algorithm
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._clock = clock or SystemClock()

    def refresh(self, token: str) -> Future[None] | None:
        """Return the fetch of public keys that `read` has to wait for, if any."""
        if isinstance(self._keys, str):
            return None
        try:
            return self._keys.refresh(_key_id(token))
        except PyJWTError:
            return None  # `read` reports the malformed token

    def read(self, token: str) -> Claims:
        """Return the claims of a token, or raise Unauthenticated."""
        try:
            claims = jwt.decode(
                token,
                self._key_for(token),
                algorithms=[self._algorithm],
                issuer=self._issuer,
                audience=self._audience,
                # Times are checked below, with the project's clock.
                options={
                    "require": ["exp", "sub", *(["iss"] if self._issuer else []), *(["aud"] if self._audience else [])],
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
            self._check_times(claims)
        except PyJWTError as fault:
            raise Unauthenticated(_why(fault), hint=_HINT, genuine=isinstance(fault, _OF_CLAIMS)) from None
        return _claims(claims)

    def _key_for(self, token: str) -> Any:
        if isinstance(self._keys, str):
            return self._keys
        key = self._keys.find(_key_id(token))
        if key is None:
            raise Unauthenticated("the token is signed with a key that this server does not know", hint=_HINT)
        return key

    def _check_times(self, claims: dict[str, Any]) -> None:
        now = self._clock.now().timestamp()
        if _moment(claims, "exp") <= now:
            raise ExpiredSignatureError
        for name in ("nbf", "iat"):
            if name in claims and _moment(claims, name) > now + EARLY:
                raise Unauthenticated(
                    "the token is not valid yet", hint="Compare the clocks of both machines", genuine=True
                )


def token_reader(settings: Settings, *, clock: Clock | None = None) -> TokenReader | None:
    """Return the token reader for these settings, None where tokens are off; raise UsageError for unsafe settings."""
    if not settings.takes_tokens:
        return None
    algorithm = settings.jwt_algorithm or ("RS256" if settings.jwks and not settings.jwt_secret else "HS256")
    if algorithm not in ALGORITHMS:
        raise UsageError(
            f"{quote(algorithm)} is not a supported token algorithm",
            hint=f"Use {' or '.join(ALGORITHMS)}",
            value=algorithm,
        )
    if settings.jwt_secret and settings.jwks:
        raise UsageError(
            "both a secret and public keys are set for tokens", hint="Set MEMORANDA_JWT_SECRET or MEMORANDA_JWKS"
        )
    keys = _secret(settings.jwt_secret) if algorithm == "HS256" else _public(settings.jwks)
    return TokenReader(
        algorithm, keys, issuer=settings.jwt_issuer or None, audience=settings.jwt_audience or None, clock=clock
    )


def _key_id(token: str) -> str | None:
    named = jwt.get_unverified_header(token).get("kid")
    return named if isinstance(named, str) else None


def _secret(secret: str) -> str:
    if not secret:
        raise UsageError(
            "tokens are enabled, but no secret is set",
            hint="Set MEMORANDA_JWT_SECRET; for public keys set MEMORANDA_JWT_ALGORITHM to RS256",
        )
    if len(secret.encode()) < SHORTEST_SECRET:
        raise UsageError(
            f"the token secret has {len(secret.encode())} bytes, but at least {SHORTEST_SECRET} are required",
            hint=_MAKE_ONE,
        )
    try:
        jwt.get_algorithm_by_name("HS256").prepare_key(secret)
    except InvalidKeyError:
        raise UsageError("the token secret is a public or private key", hint=_MAKE_ONE) from None
    return secret


def _public(where: str) -> KeySet:
    if not where:
        raise UsageError(
            "tokens are enabled, but no public keys are set",
            hint="Set MEMORANDA_JWKS to a file or URL",
        )
    return open_key_set(where)


def _moment(claims: dict[str, Any], name: str) -> float:
    moment = claims[name]
    if isinstance(moment, bool) or not isinstance(moment, int | float) or not math.isfinite(moment):
        raise Unauthenticated(f"the claim `{name}` of the token is not a timestamp", hint=_HINT, genuine=True)
    return moment


def _claims(claims: dict[str, Any]) -> Claims:
    tenant, role = claims.get("tenant"), claims.get("role", "reader")
    if not isinstance(tenant, str):
        raise Unauthenticated("the token does not name a tenant", hint="It needs a claim `tenant`", genuine=True)
    try:
        check_role_name(role)
    except InvalidPolicy as fault:
        raise Unauthenticated(f"{quote(role)} in the token is not a role", hint=fault.hint, genuine=True) from None
    user = cast("str", claims["sub"])
    try:
        check_principal(tenant, user)
    except MemorandaError as fault:
        raise Unauthenticated(
            f"the token is not valid for this server: {fault.message}", hint=_HINT, genuine=True
        ) from None
    origin = claims.get(ORIGIN_CLAIM, "user")
    if origin not in ORIGIN_KINDS:
        raise Unauthenticated(
            f"{quote(origin)} in the token is not a kind of origin",
            hint=f"The claim `{ORIGIN_CLAIM}` is one of {', '.join(ORIGIN_KINDS)}",
            genuine=True,
        )
    return Claims(tenant=tenant, user=user, role=role, origin=origin)


def _why(fault: PyJWTError) -> str:
    """Return why a token is rejected, without revealing anything about the keys of this server."""
    if isinstance(fault, ExpiredSignatureError):
        return "the token has expired"
    if isinstance(fault, MissingRequiredClaimError):
        return f"the token has no claim `{fault.claim}`"
    if isinstance(fault, InvalidAudienceError):
        return "the token has another audience: its claim `aud` does not name this server"
    if isinstance(fault, InvalidIssuerError):
        return "the token has another issuer: see its claim `iss`"
    return "the token of this request is not valid"


FRESH = 300.0
"""Seconds after which keys from an address are fetched again."""

APART = 10.0
"""Minimum seconds between two fetches, so that tokens with invented key ids cannot flood the provider."""

TIMEOUT = 5.0
"""Seconds that one fetch may take, from the DNS lookup to the last byte."""

LARGEST = 1_048_576
"""Maximum size of a JWKS in bytes."""

SHORTEST_MODULUS = 2_048
"""Minimum bits of an RSA key."""

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
        """Return the key with an id; without an id, the only key if there is exactly one."""
        keys = self._keys
        if keys is None:
            # The URL may contain a password, and the response anything: neither is shown.
            raise Unavailable(
                "the keys that tokens are signed with cannot be fetched",
                hint="Use an API key, or try again in a moment",
            )
        if named is None:
            return keys[0] if len(keys) == 1 else None
        return next((key for key in keys if key.key_id == named), None)

    def refresh(self, named: str | None) -> Future[None] | None:
        """Start a fetch if one is due; return the running one if the key is not known yet.

        The result of the future is always None; call `find` afterwards.
        """
        with self._lock:
            now = self._now()
            known = self._keys is not None and self.find(named) is not None
            due = not known or (self._remote and now - self._fetched >= FRESH)
            if due and self._fetching is None and now - self._tried >= APART:
                self._tried = now
                self._fetching = Future()
                # A running future cannot be cancelled, so a client that disconnects does not cancel it for others.
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
    """Return the keys of a JWKS file, read now, or of a URL, fetched when they are first needed."""
    parts = urlsplit(where)
    if parts.scheme in ("https", "http"):
        if parts.scheme == "http" and not _is_loopback(parts.hostname):
            raise UsageError(
                "public keys would be fetched over http, where they can be tampered with",
                hint="Use an https URL",
            )
        return KeySet(lambda: _download(where, timeout), where=where, remote=True, now=now)
    path = Path(where)
    try:
        keys = parse_keys(path.read_bytes(), where=where)
    except OSError as fault:
        raise UsageError(
            f"the public keys in {quote(where)} cannot be read: {fault.strerror}", hint=_JWKS_HINT
        ) from None
    return KeySet(path.read_bytes, where=where, remote=False, keys=keys, now=now)


def parse_keys(text: bytes, *, where: str) -> list[PyJWK]:
    """Parse the RSA keys of a JWKS; raise UsageError if there are none, or one is private or too short."""
    try:
        found = PyJWKSet(msgspec.json.decode(text, type=_Set).keys).keys
    # The library does not catch Python's own errors about values of a wrong type.
    except (PyJWTError, ValueError, TypeError, AttributeError) as fault:
        raise UsageError(f"{quote(where)} does not contain public keys: {fault}", hint=_JWKS_HINT) from None
    keys = [key for key in found if key.key_type == "RSA" and key.public_key_use in (None, "sig")]
    if not keys:
        raise UsageError(f"{quote(where)} does not contain an RSA signing key", hint=_JWKS_HINT)
    if not all(isinstance(key.key, RSAPublicKey) for key in keys):
        raise UsageError(f"{quote(where)} contains a private key", hint="Provide only public keys")
    if any(key.key.key_size < SHORTEST_MODULUS for key in keys):
        raise UsageError(
            f"{quote(where)} contains a key of less than {SHORTEST_MODULUS} bits", hint="Create a longer one"
        )
    return keys


_JWKS_HINT = 'A JWKS is JSON such as {"keys": [{"kty": "RSA", "kid": "…", "n": "…", "e": "AQAB"}]}'


def _download(where: str, timeout: float) -> bytes:
    # In its own event loop, because only cancellation bounds the total time: socket timeouts restart with each byte.
    # Not with `asyncio.run`, which would wait for a DNS lookup that hangs.
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
        # httpx does not follow redirects by default: one could lead to http, or into the network of this server.
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
