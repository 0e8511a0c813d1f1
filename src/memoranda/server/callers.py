"""A request in; who is calling, and the memory as far as they may reach into it, out.

Tenant, user and role come from the token alone. Nothing that a body, a query or another header says is looked at here,
so nothing of it can widen what a caller reaches; the gate then holds each effect against the caller's policy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

import msgspec
from anyio.to_thread import run_sync
from litestar.types import ASGIApp, Receive, Send
from litestar.types import Scope as Connection

from memoranda.api.memory import Memory
from memoranda.errors import StorageError, Unauthenticated, Unavailable
from memoranda.model.policy import OWNER, Policy, Rule
from memoranda.model.scope import Scope
from memoranda.server.auth.keys import SYSTEM_TENANT, Key, KnownKeys, Role, is_chosen, note_use
from memoranda.server.auth.limits import FailedAttempts, RateLimit
from memoranda.server.problems import RequestFault
from memoranda.server.settings import Settings

if TYPE_CHECKING:
    from memoranda.server.auth.tokens import Claims, TokenReader

DOOR = "rest"

OPEN_PATHS = frozenset({"/", "/health", "/ready", "/metrics", "/openapi.json", "/docs"})
"""Routes that need no token, by the path they are registered under; those below `/docs` need none either."""

LONGEST_TOKEN = 8_192
_HANDLES = 4_096
_NOTED = 10_000
_HOW = "Send the header `Authorization: Bearer <token>` with an API key, or with a signed token where they are taken"

_log = logging.getLogger(__name__)

# What a role may do in the memory of its own user, and in the tenant.
_OWN: dict[Role, tuple[str, ...]] = {
    "reader": ("memory.read", "collections.read", "runs.read"),
    "member": ("memory.read", "memory.write", "collections.read", "runs.read", "runs.write"),
}
_TENANT_WIDE = ("definitions.read",)


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who is calling, by the token of the request."""

    tenant: str
    user: str
    role: Role
    key_id: str
    """The id of the API key; `jwt` for a signed token."""
    allow: tuple[str, ...] = ()
    """Capabilities that the key is narrowed to; without any it may do what its role may."""

    @property
    def actor(self) -> str:
        """The name that the ledger knows the user by; no user can look like the owner or an agent."""
        return f"user:{self.user}"

    @property
    def scope(self) -> Scope:
        """The memory of the user."""
        return Scope.of(tenant=self.tenant, user=self.user)


def caller_with(key: Key) -> Caller:
    """Return who calls with an API key."""
    return Caller(tenant=key.tenant, user=key.user, role=key.role, key_id=key.id, allow=key.allow)


class Access:
    """A caller, and the memory as far as they may reach into it."""

    def __init__(self, memory: Memory, caller: Caller) -> None:
        """Stand on the memory of the whole server; `authenticate` makes these."""
        self._everything = memory
        self.caller = caller
        self.memory = self.reaching()
        self.own = self.memory.at(caller.scope)
        """The memory of the user who calls."""

    @cached_property
    def at_once(self) -> Access:
        """The same, where a write that would have to wait is `Busy`: for the event loop."""
        return Access(self._everything.at_once(), self.caller)

    def reaching(self, *scopes: Scope, also: tuple[Rule, ...] = ()) -> Memory:
        """Return the caller's handle, which may also work in scopes that were shown to be the caller's.

        `also` is for what a role may do only where a route has seen what it is about.
        """
        return handle_for(self._everything, self.caller, *scopes, also=also)


def handle_for(memory: Memory, caller: Caller, *scopes: Scope, also: tuple[Rule, ...] = ()) -> Memory:
    """Return the handle of a caller on the memory of the whole server: by their role, narrowed to what their key may.

    It also reaches `scopes` that were shown to be the caller's, and under `also` what their role alone does not allow.
    """
    policy = policy_of(caller, *scopes)
    if also and policy is not OWNER:
        policy = Policy(rules=(*policy.rules, *also))
    handle = memory.in_tenant(caller.tenant).acting_as(caller.actor, policy=policy, door=DOOR)
    return handle.narrowed(Policy.of(allow=caller.allow)) if caller.allow else handle


def policy_of(caller: Caller, *also: Scope) -> Policy:
    """Return what a caller may do: by their role, in the memory of their user and in `also`."""
    if caller.role == "admin":
        return OWNER
    places = (caller.scope, *also)
    own = tuple(Rule("allow", capability, place) for place in places for capability in _OWN[caller.role])
    return Policy(rules=(*own, *(Rule("allow", capability) for capability in _TENANT_WIDE)))


def access_in(scope: Connection) -> Access:
    """Return who is calling, together with what they reach, as was found out before the route was called."""
    access: object = scope["auth"] if "auth" in scope else None
    if not isinstance(access, Access):
        raise Unauthenticated("this request has no token", hint=_HOW)
    return access


def authenticate(settings: Settings, memory: Memory, attempts: FailedAttempts) -> Callable[[ASGIApp], ASGIApp]:
    """Return the middleware that lets nobody pass without a valid token; refuse settings that are unsafe."""
    return _Authentication(
        memory,
        tokens=_token_reader(settings, memory),
        limit=RateLimit(settings.rate, settings.burst),
        attempts=attempts,
    )


def failed_attempts(settings: Settings) -> FailedAttempts:
    """Return the count of wrong keys and tokens, one for a server process."""
    return FailedAttempts(settings.wrong_keys, settings.proxies)


def client_address(attempts: FailedAttempts, scope: Connection) -> str:
    """Return the address that wrong keys of a request are counted for."""
    forwarded = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
    peer = scope["client"] if "client" in scope else None
    return attempts.address(peer[0] if peer else None, forwarded)


def _token_reader(settings: Settings, memory: Memory) -> TokenReader | None:
    if not settings.takes_tokens:
        return None
    from memoranda.server.auth.tokens import token_reader

    return token_reader(settings, clock=memory.clock)


class _Authentication:
    """Finds out who is calling before any route does anything."""

    def __init__(
        self, memory: Memory, *, tokens: TokenReader | None, limit: RateLimit, attempts: FailedAttempts
    ) -> None:
        self._memory = memory
        self._access_of = lru_cache(_HANDLES)(partial(Access, memory))
        self._keys = KnownKeys(memory, lambda key: self._access_of(caller_with(key)))
        self._tokens = tokens
        self._limit = limit
        self._attempts = attempts
        self._noted: dict[str, int] = {}
        self._turn: tuple[asyncio.AbstractEventLoop, Hashable] | None = None

    def __call__(self, app: ASGIApp) -> ASGIApp:
        """Return an application that nobody reaches without a valid token, unless its route is open to everybody."""

        async def authenticated(scope: Connection, receive: Receive, send: Send) -> None:
            # The path a route is registered under: what a request writes may be spelled in many ways.
            path = scope["path_template"]
            if path not in OPEN_PATHS and not path.startswith("/docs/"):
                try:
                    access = await self._find_out(_token_in(scope))
                except Unauthenticated as refused:
                    self._attempts.fail(client_address(self._attempts, scope), refused)
                    raise
                if is_chosen(access.caller.key_id):
                    self._attempts.check(client_address(self._attempts, scope))
                scope["user"], scope["auth"] = access.caller, access
            await app(scope, receive, send)

        return authenticated

    async def _find_out(self, token: str) -> Access:
        """Return who calls with a token, and what they reach, or refuse them."""
        if self._tokens is not None and token.count(".") == 2:
            claims = await self._read(self._tokens, token)
            caller = Caller(tenant=claims.tenant, user=claims.user, role=claims.role, key_id="jwt")
            self._limit.take((caller.tenant, caller.user))
            return self._access_of(caller)
        now = self._memory.clock.now()
        if self._memory.waits:
            access = await run_sync(lambda: self._keys.find(token, now, self._memory.mark(tenant=SYSTEM_TENANT)))
        else:
            access = self._keys.find(token, now, self._mark())
        id, hour = access.caller.key_id, int(now.timestamp()) // 3_600
        if self._noted.get(id) != hour:
            await self._note_use(id, hour)
        self._limit.take(id)
        return access

    def _mark(self) -> Hashable:
        """Return a mark of where keys are kept that was taken in this turn of the loop.

        What a turn handles had arrived before it began. So whoever sends a request after a key was revoked meets a
        mark that was taken after that too, and many who ask at the same time are answered with one look at the file.
        """
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn[0] is not loop:
            self._turn = loop, self._memory.mark(tenant=SYSTEM_TENANT)
            loop.call_soon(self._end_turn)
        return self._turn[1]

    def _end_turn(self) -> None:
        self._turn = None

    async def _read(self, tokens: TokenReader, token: str) -> Claims:
        fetch = tokens.refresh(token)
        if fetch is not None:
            await asyncio.wrap_future(fetch)
        try:
            return tokens.read(token)
        except Unavailable as fault:
            raise RequestFault(503, fault.message, hint=fault.hint) from None

    async def _note_use(self, id: str, hour: int) -> None:
        """Keep once an hour that a key is in use; no request fails because that cannot be kept."""
        if len(self._noted) >= _NOTED:
            self._noted.clear()
        self._noted[id] = hour
        try:
            await run_sync(note_use, self._memory, id)
        except StorageError as fault:
            _log.warning("the use of key %s could not be kept: %s", id, fault.code)


def _token_in(scope: Connection) -> str:
    """Return the bearer token of a request. There has to be one header with one: of two, which one is meant?"""
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    if not given:
        # Not an attempt at a key: `genuine` keeps it from being counted as one.
        raise Unauthenticated("this request has no token", hint=_HOW, genuine=True)
    scheme, _, token = given[0].partition(b" ")
    token = token.strip(b" ")
    if len(given) > 1 or scheme.lower() != b"bearer" or not token:
        raise Unauthenticated("the header Authorization holds no bearer token", hint=_HOW)
    if len(token) > LONGEST_TOKEN or not token.isascii():
        raise Unauthenticated("the token of this request is not valid", hint=_HOW)
    return token.decode("ascii")
