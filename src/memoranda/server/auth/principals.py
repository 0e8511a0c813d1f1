"""Principals: who makes a request, and the memory handle with their permissions.

Tenant, user, role and origin come from the token alone. Nothing in a body, query or other header can widen them. One
header can lower the origin, and one says under which permission epoch the request was decided; the gate then checks
each effect against the policy of the principal.
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
from memoranda.engine.scopes import ListScopes
from memoranda.errors import StorageError, Unauthenticated, Unavailable, UsageError, render_hint
from memoranda.model.policy import Policy, Rule
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.trust import OriginKind, check_origin, lower_kind
from memoranda.server.auth.keys import SYSTEM_TENANT, Key, KeyCache, is_chosen, note_use
from memoranda.server.auth.rate_limit import FailedAttempts, RateLimit
from memoranda.server.problems import REST_WORDS, RequestError
from memoranda.server.settings import Settings

if TYPE_CHECKING:
    from memoranda.server.auth.tokens import Claims, TokenReader


DOOR = "rest"

OPEN_PATHS = frozenset({"/", "/health", "/ready", "/metrics", "/openapi.json", "/docs"})
"""Routes that need no token, by path template; those below `/docs` need none either."""

ORIGIN_HEADER = "X-Memoranda-Origin"
"""The header with which a request says that it only passes something on, such as what a tool returned."""
EPOCH_HEADER = "X-Memoranda-Epoch"
"""The header that says under which permission epoch a request was decided upon: under a later one it writes nothing."""
_AS_SENT = {name: name.lower().encode() for name in (ORIGIN_HEADER, EPOCH_HEADER)}

MAX_TOKEN_LENGTH = 8_192
_LONGEST_EPOCH = 18
"""Digits: a larger number is no longer one of 64 bits."""
_HANDLES = 4_096
_NOTED = 10_000
_HOW = "Send the header `Authorization: Bearer <token>` with an API key or, where accepted, a signed token"

_log = logging.getLogger(__name__)


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The user identified by the token of a request."""

    tenant: str
    user: str
    role: str
    key_id: str
    """The id of the API key; `jwt` for a signed token."""
    allow: tuple[str, ...] = ()
    """Capabilities that the key is restricted to; empty for all those of its role."""
    origin: OriginKind = "user"
    """What kind of origin the writes of the request have."""
    epoch: int | None = None
    """The permission epoch under which the writes of the request were decided upon."""

    @property
    def actor(self) -> str:
        """The name of the user in the ledger, which cannot be confused with the owner or an agent."""
        return f"user:{self.user}"

    @property
    def scope(self) -> Scope:
        """The scope of the user."""
        return Scope.of(tenant=self.tenant, user=self.user)


def principal_of(key: Key) -> Principal:
    """Return the principal of an API key."""
    return Principal(tenant=key.tenant, user=key.user, role=key.role, key_id=key.id, allow=key.allow, origin=key.origin)


class Access:
    """A principal and their memory handle."""

    def __init__(self, memory: Memory, principal: Principal) -> None:
        """Create a handle on the memory of the whole server."""
        self._root = memory
        self.principal = principal
        self.memory = self.handle()
        self.own = self.memory.at(principal.scope)
        """The caller's own memory."""

    @cached_property
    def at_once(self) -> Access:
        """The same access, on which a write raises Busy instead of waiting; for the event loop."""
        return Access(self._root.at_once(), self.principal)

    @property
    def reads_everything(self) -> bool:
        """Whether the caller may read the memory of every user of the tenant."""
        return self.memory.may(ListScopes(scope=Scope(self.principal.tenant)))

    def handle(self, *scopes: Scope, also: tuple[tuple[str, Rule], ...] = ()) -> Memory:
        """Return a handle that also reaches `scopes` known to be the caller's, with the additional rules of `also`."""
        return handle_for(self._root, self.principal, *scopes, also=also)


def handle_for(memory: Memory, principal: Principal, *scopes: Scope, also: tuple[tuple[str, Rule], ...] = ()) -> Memory:
    """Return the memory handle of a principal, with the permissions of their role and key.

    Grants can add the shared scope, projects and definitions, within what the role may do. It also reaches `scopes`
    known to be the principal's, and has the rules of `also` whose capability the role has in the principal's memory.
    """
    if principal.epoch is not None:
        memory = memory.at_epoch(principal.epoch)
    handle = memory.in_tenant(principal.tenant).acting_as(
        principal.actor,
        role=principal.role,
        own=(principal.scope, *scopes),
        also=also,
        door=DOOR,
        origin=principal.origin,
    )
    return handle.narrowed(Policy.of(allow=principal.allow)) if principal.allow else handle


def current_access(scope: Connection) -> Access:
    """Return the access of a request; raise Unauthenticated where there is none."""
    access: object = scope["auth"] if "auth" in scope else None
    if not isinstance(access, Access):
        raise Unauthenticated("this request has no token", hint=_HOW)
    return access


def authenticate(settings: Settings, memory: Memory, attempts: FailedAttempts) -> Callable[[ASGIApp], ASGIApp]:
    """Return the middleware that requires a valid token; raise UsageError for unsafe settings."""
    tokens = None
    if settings.takes_tokens:
        from memoranda.server.auth.tokens import token_reader

        tokens = token_reader(settings, clock=memory.clock)
    return _Authentication(memory, tokens=tokens, limit=RateLimit(settings.rate, settings.burst), attempts=attempts)


def attempt_counter(settings: Settings) -> FailedAttempts:
    """Return the counter of wrong keys and tokens of a server process."""
    return FailedAttempts(settings.wrong_keys, settings.proxies)


def client_address(attempts: FailedAttempts, scope: Connection) -> str:
    """Return the client address that wrong keys of a request count for."""
    forwarded = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
    peer = scope["client"] if "client" in scope else None
    return attempts.address(peer[0] if peer else None, forwarded)


class _Authentication:
    """Middleware that identifies the principal before a route runs."""

    def __init__(
        self, memory: Memory, *, tokens: TokenReader | None, limit: RateLimit, attempts: FailedAttempts
    ) -> None:
        self._memory = memory
        self._access_of = lru_cache(_HANDLES)(partial(Access, memory))
        self._keys = KeyCache(memory, lambda key: self._access_of(principal_of(key)))
        self._tokens = tokens
        self._limit = limit
        self._attempts = attempts
        self._noted: dict[str, int] = {}
        self._current_mark: tuple[asyncio.AbstractEventLoop, Hashable] | None = None

    def __call__(self, app: ASGIApp) -> ASGIApp:
        """Wrap an application: every route needs a valid token, except the open ones."""

        async def handle(scope: Connection, receive: Receive, send: Send) -> None:
            # The path template, because the path of a request can be spelled in several ways.
            path = scope["path_template"]
            if path not in OPEN_PATHS and not path.startswith("/docs/"):
                try:
                    access = self._as_asked(await self._authenticate(_token_in(scope)), scope)
                except Unauthenticated as refused:
                    self._attempts.fail(client_address(self._attempts, scope), refused)
                    raise
                if is_chosen(access.principal.key_id):
                    self._attempts.check(client_address(self._attempts, scope))
                scope["user"], scope["auth"] = access.principal, access
            await app(scope, receive, send)

        return handle

    def _as_asked(self, access: Access, scope: Connection) -> Access:
        """Return the access of a request that lowers its origin, or says under which epoch it was decided."""
        asked = access.principal
        origin, epoch = _header_in(scope, ORIGIN_HEADER), _header_in(scope, EPOCH_HEADER)
        if origin is not None:
            asked = msgspec.structs.replace(asked, origin=lower_kind(asked.origin, check_origin(origin)))
        if epoch is not None:
            asked = msgspec.structs.replace(asked, epoch=_read_epoch(epoch))
        return access if asked == access.principal else self._access_of(asked)

    async def _authenticate(self, token: str) -> Access:
        """Return the access of a token, or raise Unauthenticated."""
        if self._tokens is not None and token.count(".") == 2:
            claims = await self._read(self._tokens, token)
            principal = Principal(
                tenant=claims.tenant, user=claims.user, role=claims.role, key_id="jwt", origin=claims.origin
            )
            self._limit.take((principal.tenant, principal.user))
            return self._access_of(principal)
        now = self._memory.clock.now()
        if self._memory.waits:
            access = await run_sync(lambda: self._keys.find(token, now, self._memory.mark(tenant=SYSTEM_TENANT)))
        else:
            access = self._keys.find(token, now, self._mark())
        id, hour = access.principal.key_id, int(now.timestamp()) // 3_600
        if self._noted.get(id) != hour:
            await self._note_use(id, hour)
        self._limit.take(id)
        return access

    def _mark(self) -> Hashable:
        """Return the mark of the system tenant, taken at most once per iteration of the event loop.

        Requests of one iteration arrived before it began, so a key that was revoked before a request was sent is
        always noticed. With 16 concurrent writers, this saves 12% of CPU.
        """
        loop = asyncio.get_running_loop()
        if self._current_mark is None or self._current_mark[0] is not loop:
            self._current_mark = loop, self._memory.mark(tenant=SYSTEM_TENANT)
            loop.call_soon(self._drop_mark)
        return self._current_mark[1]

    def _drop_mark(self) -> None:
        self._current_mark = None

    async def _read(self, tokens: TokenReader, token: str) -> Claims:
        fetch = tokens.refresh(token)
        if fetch is not None:
            await asyncio.wrap_future(fetch)
        try:
            return tokens.read(token)
        except Unavailable as fault:
            raise RequestError(503, fault.message, hint=render_hint(fault.advice, REST_WORDS)) from None

    async def _note_use(self, id: str, hour: int) -> None:
        """Record once an hour that a key is in use; a failure to do so fails no request."""
        if len(self._noted) >= _NOTED:
            self._noted.clear()
        self._noted[id] = hour
        try:
            await run_sync(note_use, self._memory, id)
        except StorageError as fault:
            _log.warning("the use of key %s could not be recorded: %s", id, fault.code)


def _header_in(scope: Connection, name: str) -> str | None:
    """Return the value of a header that a request may have once."""
    sent = _AS_SENT[name]
    given = [value for header, value in scope["headers"] if header == sent]
    if len(given) > 1:
        raise UsageError(f"the header {name} is given more than once", hint="Send it once")
    return given[0].decode("latin-1") if given else None


def _read_epoch(given: str) -> int:
    if not (given.isascii() and given.isdigit() and len(given) <= _LONGEST_EPOCH):
        raise UsageError(
            f"{quote(given)} in {EPOCH_HEADER} is not a permission epoch",
            hint="Send the number from GET /permissions/epoch",
            value=given,
        )
    return int(given)


def _token_in(scope: Connection) -> str:
    """Return the bearer token of a request; there must be exactly one."""
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    if not given:
        # Not an attempt to guess a key: `genuine` keeps it from being counted as one.
        raise Unauthenticated("this request has no token", hint=_HOW, genuine=True)
    scheme, _, token = given[0].partition(b" ")
    token = token.strip(b" ")
    if len(given) > 1 or scheme.lower() != b"bearer" or not token:
        raise Unauthenticated("the header Authorization does not contain one bearer token", hint=_HOW)
    if len(token) > MAX_TOKEN_LENGTH or not token.isascii():
        raise Unauthenticated("the token of this request is not valid", hint=_HOW)
    return token.decode("ascii")
