"""Requests: strict bodies, shared parameters, and the memory that a request is about."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Annotated, Any, cast
from urllib.parse import parse_qsl

import msgspec
from litestar import Request
from litestar.concurrency import sync_to_thread
from litestar.datastructures import State
from litestar.exceptions import InternalServerException
from litestar.handlers import BaseRouteHandler
from litestar.params import FromPath, HeaderParameter, QueryParameter
from litestar.types import ASGIApp, Receive, Send
from litestar.types import Scope as Connection

from memoranda.api.scoped import ScopedMemory
from memoranda.errors import InvalidValue, UsageError
from memoranda.model.scope import SCOPE_PARAMETER, scope_of_caller
from memoranda.model.text import quote
from memoranda.server.auth.principals import Access, Principal, current_access
from memoranda.server.middleware import SLASH
from memoranda.server.problems import RequestError
from memoranda.server.programs import Programs
from memoranda.wire.codec import decode_error, parse_moments

_SMALL = 65_536
"""Bytes of a body that are decoded on the event loop; a larger one is decoded in a thread."""


class StrictRequest(Request[Principal, Access, State]):
    """An authenticated request whose body must match the type of its route exactly.

    Litestar decodes bodies as loosely as queries: `"1"` as 1, and `"null"` as None. Routes take the whole request for
    its `auth`: as a dependency, resolving that would take longer than reading a fact.
    """

    @property
    def auth(self) -> Access:
        """The principal and their memory handle."""
        return current_access(self.scope)

    @property
    def programs(self) -> Programs:
        """The programs of the server."""
        return self.app.state.programs

    @property
    def page_bytes(self) -> int:
        """Maximum bytes of a page of a list."""
        return self.app.state.page_bytes

    async def body(self) -> bytes:
        """Return the body; one that is larger than the server accepts is rejected."""
        try:
            return await super().body()
        except InternalServerException:
            # Only for the log, which would otherwise report an internal error.
            raise RequestError(408, "the client disconnected before it had sent the body") from None

    async def json(self) -> Any:
        """Decode the body as the type that the route declares."""
        body = await self.body()
        field = self.route_handler.parsed_data_field
        kind = field.annotation if field is not None else Any
        return read_body(body, kind) if len(body) <= _SMALL else await sync_to_thread(read_body, body, kind)


def read_body(body: bytes, kind: Any) -> Any:
    """Decode a body, or raise an error that names the place."""
    try:
        try:
            return _decoder(kind).decode(body)
        except msgspec.ValidationError:
            # Perhaps because of a timestamp that only our parser accepts: rare, so tried second.
            sent: Any = msgspec.json.decode(body)
            moments = parse_moments(cast("dict[str, Any]", sent)) if isinstance(sent, dict) else {}
            if not moments:
                raise
            return msgspec.convert(sent | moments, kind)
    except msgspec.ValidationError as error:
        raise decode_error("body", error, kind, hint="See /openapi.json for the expected fields") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError(400, f"the body is not valid JSON: {error}", hint="Send one JSON object") from None
    except RecursionError:
        raise InvalidValue("the body is nested too deeply", hint="Send a flatter value", path="$") from None


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


PAGE = 100
"""Default number of items on a page."""
LARGEST_PAGE = 1_000

Name = FromPath[str]

PageLimit = Annotated[int, QueryParameter(ge=1, le=LARGEST_PAGE, description="Maximum number of items.")]
After = Annotated[str | None, QueryParameter(description="The `next` of the previous page.")]
AsOf = Annotated[
    str | None, QueryParameter(description="The state at this time: ISO 8601, UTC unless it has an offset.")
]
ScopeName = Annotated[str | None, QueryParameter(name="scope", description=SCOPE_PARAMETER)]
Source = Annotated[str | None, QueryParameter(description="Where this comes from; recorded in the history.")]

IfMatch = Annotated[str | None, HeaderParameter(name="If-Match", description="The ETag that it must still have.")]
IfNoneMatch = Annotated[
    str | None,
    HeaderParameter(name="If-None-Match", description="An ETag that the client already has; `*` matches any."),
]
IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key", description="Carry out the request once, even if it is sent several times."
    ),
]


def decode_idempotency_key(header: str | None) -> str | None:
    """Decode an idempotency key as UTF-8; headers arrive decoded as Latin-1."""
    try:
        return None if header is None else header.encode("latin-1").decode()
    except UnicodeDecodeError:
        return header


_CONDITIONS = {b"if-match": "If-Match", b"if-none-match": "If-None-Match"}


def check_parameters(app: ASGIApp) -> ASGIApp:
    """Reject what a route would ignore: unknown or repeated parameters, and conditions that it does not support.

    Names in the path get back the slashes that were sent escaped.

    A misspelled `agent_idd=x` must not write to the user's own block. This is not a guard, because Litestar copies the
    route handler for each guard of each request.
    """

    async def check_and_pass(scope: Connection, receive: Receive, send: Send) -> None:
        if scope["query_string"]:
            _check_query(scope["query_string"], scope["route_handler"])
        if SLASH in scope["path"]:
            # A copy: Litestar caches them.
            parameters = scope["path_params"]
            scope["path_params"] = {name: value.replace(SLASH, "/") for name, value in parameters.items()}
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            _check_conditions(scope)
        await app(scope, receive, send)

    return check_and_pass


# Most queries repeat; errors are not cached.
@lru_cache(512)
def _check_query(query: bytes, handler: BaseRouteHandler) -> None:
    known = _names(handler, QueryParameter)
    seen: set[str] = set()
    for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name not in known:
            raise UsageError(
                f"{quote(name)} is not a parameter of this route",
                hint=f"Valid parameters: {', '.join(sorted(known)) or 'none'}",
                path=name,
            )
        if name in seen:
            raise UsageError(f"the parameter `{name}` is given more than once", hint="Send it once", path=name)
        seen.add(name)


def _check_conditions(scope: Connection) -> None:
    given = [_CONDITIONS[name] for name, _ in scope["headers"] if name in _CONDITIONS]
    for name in given:
        if name not in _names(scope["route_handler"], HeaderParameter):
            raise UsageError(f"this route does not support {name}", hint="Leave out the header")
        if given.count(name) > 1:
            raise UsageError(f"the header {name} is given more than once", hint="Send it once")


@cache
def _names(handler: BaseRouteHandler, kind: type[QueryParameter] | type[HeaderParameter]) -> frozenset[str]:
    fields = handler.parsed_fn_signature.parameters
    return frozenset(
        cast("Any", field.kwarg_definition).name or name
        for name, field in fields.items()
        if isinstance(field.kwarg_definition, kind)
    )


def caller_memory(access: Access, named: str | None = None) -> ScopedMemory:
    """Return the caller's memory, or that of the scope they name. The user comes from the token alone."""
    if named is None:
        return access.own
    return access.memory.at(scope_of_caller(named, access.principal.scope))
