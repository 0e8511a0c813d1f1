"""Signed tokens (JWT): a token in, its claims out. The algorithm is the configuration's, never the token's.

A secret signs with HS256; a set of public keys (a JWKS file or address) checks RS256. One of the two is in force, so a
public key can never be taken for a secret, and a token that names another algorithm, or none, is refused.
"""

from __future__ import annotations

import math
from concurrent.futures import Future
from typing import Any, Literal, cast, get_args

import jwt
import msgspec
from jwt.exceptions import (
    ExpiredSignatureError,
    InvalidAudienceError,
    InvalidIssuerError,
    InvalidKeyError,
    MissingRequiredClaimError,
    PyJWTError,
)

from memoranda.errors import MemorandaError, Unauthenticated, UsageError
from memoranda.model.clock import Clock, SystemClock
from memoranda.model.text import quote
from memoranda.server.auth.jwks import KeySet, open_key_set
from memoranda.server.auth.keys import ROLES, Role, check_caller
from memoranda.server.settings import Settings

Algorithm = Literal["HS256", "RS256"]
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)

SHORTEST_SECRET = 32
"""Bytes of an HS256 secret: as many as the hash has, since a shorter one can be guessed from a single token."""

EARLY = 5
"""Seconds by which the clock of whoever made a token may be ahead of ours."""

_OF_CLAIMS = (ExpiredSignatureError, InvalidAudienceError, InvalidIssuerError, MissingRequiredClaimError)
"""What is found wrong with a token only after its signature has been found right."""

_HINT = "Get a new token from whoever issues them"
_MAKE_ONE = "Make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """What a token says, once it is known to be true."""

    tenant: str
    user: str
    role: Role


class TokenReader:
    """Checks tokens by what the settings say."""

    def __init__(
        self,
        algorithm: Algorithm,
        keys: str | KeySet,
        *,
        issuer: str | None = None,
        audience: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Stand on a secret (HS256) or a set of public keys (RS256)."""
        self._algorithm: Algorithm = algorithm
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._clock = clock or SystemClock()

    def refresh(self, token: str) -> Future[None] | None:
        """Return the fetch of public keys that must end before `read` can know the token's key, if any."""
        if isinstance(self._keys, str):
            return None
        try:
            return self._keys.refresh(_key_id(token))
        except PyJWTError:
            return None  # not a token at all, which `read` says

    def read(self, token: str) -> Claims:
        """Return what a token says, or refuse it saying why."""
        try:
            claims = jwt.decode(
                token,
                self._key_for(token),
                algorithms=[self._algorithm],
                issuer=self._issuer,
                audience=self._audience,
                # Times are looked at below, by the one clock there is.
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
    """Return what reads signed tokens under these settings, None where they are off; refuse unsafe ones."""
    if not settings.takes_tokens:
        return None
    algorithm = settings.jwt_algorithm or ("RS256" if settings.jwks and not settings.jwt_secret else "HS256")
    if algorithm not in ALGORITHMS:
        raise UsageError(
            f"{quote(algorithm)} is not an algorithm for tokens", hint=f"Use {' or '.join(ALGORITHMS)}", value=algorithm
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
            "tokens are switched on, but there is no secret to check them with",
            hint="Set MEMORANDA_JWT_SECRET; for public keys set MEMORANDA_JWT_ALGORITHM to RS256",
        )
    if len(secret.encode()) < SHORTEST_SECRET:
        raise UsageError(
            f"the secret for tokens has {len(secret.encode())} bytes, and {SHORTEST_SECRET} are the least",
            hint=_MAKE_ONE,
        )
    try:
        jwt.get_algorithm_by_name("HS256").prepare_key(secret)
    except InvalidKeyError:
        raise UsageError("the secret for tokens is a public or private key", hint=_MAKE_ONE) from None
    return secret


def _public(where: str) -> KeySet:
    if not where:
        raise UsageError(
            "tokens are switched on, but there are no public keys to check them with",
            hint="Set MEMORANDA_JWKS to a file or an address",
        )
    return open_key_set(where)


def _moment(claims: dict[str, Any], name: str) -> float:
    moment = claims[name]
    if isinstance(moment, bool) or not isinstance(moment, int | float) or not math.isfinite(moment):
        raise Unauthenticated(f"the claim `{name}` of the token is not a moment", hint=_HINT, genuine=True)
    return moment


def _claims(claims: dict[str, Any]) -> Claims:
    tenant, role = claims.get("tenant"), claims.get("role", "reader")
    if not isinstance(tenant, str):
        raise Unauthenticated("the token does not name a tenant", hint="It needs a claim `tenant`", genuine=True)
    if role not in ROLES:
        raise Unauthenticated(
            f"{quote(role)} in the token is not a role", hint=f"Roles are {', '.join(ROLES)}", genuine=True
        )
    user = cast("str", claims["sub"])
    try:
        check_caller(tenant, user)
    except MemorandaError as fault:
        raise Unauthenticated(f"nobody can call with this token: {fault.message}", hint=_HINT, genuine=True) from None
    return Claims(tenant=tenant, user=user, role=role)


def _why(fault: PyJWTError) -> str:
    """Return what is wrong with a token, in words that tell nothing about the keys of this server."""
    if isinstance(fault, ExpiredSignatureError):
        return "the token has expired"
    if isinstance(fault, MissingRequiredClaimError):
        return f"the token has no claim `{fault.claim}`"
    if isinstance(fault, InvalidAudienceError):
        return "the token is for somebody else: its claim `aud` does not name this server"
    if isinstance(fault, InvalidIssuerError):
        return "the token was issued by somebody else: see its claim `iss`"
    return "the token of this request is not valid"
