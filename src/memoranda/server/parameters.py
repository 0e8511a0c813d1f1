"""The parameters that routes have in common: what a path names, what a query and headers may say."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Annotated, Any, cast
from urllib.parse import parse_qsl

from litestar.handlers import BaseRouteHandler
from litestar.params import FromPath, HeaderParameter, QueryParameter
from litestar.types import ASGIApp, Receive, Send
from litestar.types import Scope as Connection

from memoranda.errors import UsageError
from memoranda.model.text import quote

PAGE = 100
"""Items of a page where the request does not say."""
LARGEST_PAGE = 1_000

Name = FromPath[str]

PageLimit = Annotated[int, QueryParameter(ge=1, le=LARGEST_PAGE, description="At most so many.")]
After = Annotated[str | None, QueryParameter(description="The `next` of the page before.")]
AsOf = Annotated[str | None, QueryParameter(description="As it stood then: ISO 8601, UTC without a zone.")]
Below = Annotated[
    str | None,
    QueryParameter(
        name="scope",
        description="A scope below the caller's own, such as `agent:emails`; without it, that one.",
    ),
]
Source = Annotated[str | None, QueryParameter(description="Where this comes from; kept in the history.")]

IfMatch = Annotated[str | None, HeaderParameter(name="If-Match", description="The ETag that it must still have.")]
IfNoneMatch = Annotated[
    str | None, HeaderParameter(name="If-None-Match", description="The ETag that is known already; `*` for any.")
]
Once = Annotated[
    str | None, HeaderParameter(name="Idempotency-Key", description="Do it once, however often it is asked for.")
]


def once(header: str | None) -> str | None:
    """Return the idempotency key of a header: in any script, as UTF-8. Headers are read as Latin-1, which has one."""
    try:
        return None if header is None else header.encode("latin-1").decode()
    except UnicodeDecodeError:
        return header


_CONDITIONS = {b"if-match": "If-Match", b"if-none-match": "If-None-Match"}


def refuse_unheeded(app: ASGIApp) -> ASGIApp:
    """Return an application that refuses what its route would not look at: `agent_idd=x` must not write a user's block.

    So it is with a parameter that is there twice, of which one would count, and with a condition on a write to which
    nothing would be held. A guard could say the same, but Litestar copies the route for each guard of each request.
    """

    async def refusing(scope: Connection, receive: Receive, send: Send) -> None:
        if scope["query_string"]:
            _check_query(scope["query_string"], scope["route_handler"])
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            _check_conditions(scope)
        await app(scope, receive, send)

    return refusing


# Most queries are sent again and again; what is raised is not kept.
@lru_cache(512)
def _check_query(query: bytes, handler: BaseRouteHandler) -> None:
    known = _names(handler, QueryParameter)
    seen: set[str] = set()
    for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name not in known:
            raise UsageError(
                f"{quote(name)} is no parameter of this address",
                hint=f"It takes {', '.join(sorted(known)) or 'none'}",
                path=name,
            )
        if name in seen:
            raise UsageError(f"the parameter `{name}` is there more than once", hint="Send it once", path=name)
        seen.add(name)


def _check_conditions(scope: Connection) -> None:
    given = [_CONDITIONS[name] for name, _ in scope["headers"] if name in _CONDITIONS]
    for name in given:
        if name not in _names(scope["route_handler"], HeaderParameter):
            raise UsageError(
                f"nothing is compared with {name} at this address", hint="Read before you write, and leave it out"
            )
        if given.count(name) > 1:
            raise UsageError(f"the header {name} is there more than once", hint="Send it once")


@cache
def _names(handler: BaseRouteHandler, kind: type[QueryParameter] | type[HeaderParameter]) -> frozenset[str]:
    """Return what a route takes in its query or its headers."""
    fields = handler.parsed_fn_signature.parameters
    return frozenset(
        cast("Any", field.kwarg_definition).name or name
        for name, field in fields.items()
        if isinstance(field.kwarg_definition, kind)
    )
