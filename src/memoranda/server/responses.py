"""JSON responses, entity tags with their conditions, and the options of routes for OpenAPI."""

from __future__ import annotations

import re
from datetime import datetime
from functools import cache
from http import HTTPStatus
from types import ModuleType
from typing import Any, TypeVar

import msgspec
from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.types import Receive, Scope, Send

from memoranda.errors import UsageError
from memoranda.model.clock import from_micros, to_micros
from memoranda.model.text import quote
from memoranda.wire.problems import MEDIA_TYPE, Problem

T = TypeVar("T")

_ETAG = re.compile(r'"([0-9]{1,19})"', re.ASCII)
_NEWEST = to_micros(datetime.max.replace(tzinfo=from_micros(0).tzinfo))


def version_etag(version: int) -> str:
    """Return the ETag of a fact: its version, which is never reused."""
    return f'"{version}"'


def time_etag(moment: datetime) -> str:
    """Return the ETag of a block: its `updated_at` in microseconds, which is never reused."""
    return f'"{to_micros(moment)}"'


class JsonResponse(Response[T]):
    """A JSON response that is encoded by the thread that creates it, instead of on the event loop.

    It sends itself: through Litestar's own response, a GET of a fact would take 18% more CPU on one connection, and 5%
    more at 32.
    """

    def __init__(self, content: T, headers: dict[str, str] | None = None) -> None:  # pyright: ignore[reportMissingSuperCall]
        """Encode the content now."""
        self._body = msgspec.json.encode(content)
        self._headers = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        """Return the ASGI application that sends the response."""
        return self._send

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(self._body)).encode()),
            *self._headers,
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": self._body, "more_body": False})


def etag_response(content: T, tag: str, if_none_match: str | None = None) -> Response[T]:
    """Return a JSON response with an ETag, or 304 if the client already has this version."""
    # Reads compare weakly: a proxy that compresses bodies may add the W/ prefix.
    known = {one.strip().removeprefix("W/") for one in (if_none_match or "").split(",")}
    if tag in known or known == {"*"}:
        return Response(None, status_code=304, headers={"ETag": tag})  # pyright: ignore[reportReturnType]
    return JsonResponse(content, {"etag": tag})


def expected_version(if_match: str | None, if_none_match: str | None, given: int | None = None) -> int | None:
    """Return the version that a write expects, 0 for a new fact, None for any."""
    expected = _condition(if_match, if_none_match)
    if expected is None:
        return given
    if given not in (None, expected):
        raise UsageError(
            f"the headers expect version {expected}, but the body expects {given}",
            hint="Send only one of them",
            path="$.expect",
        )
    return expected


def expected_moment(if_match: str | None, if_none_match: str | None) -> tuple[bool, datetime | None]:
    """Return whether the headers contain a condition, and the time that it expects; None for a new block."""
    expected = _condition(if_match, if_none_match)
    if not expected:
        return expected is not None, None
    if expected > _NEWEST:
        raise _invalid_etag("If-Match", f'"{expected}"')
    return True, from_micros(expected)


def _condition(if_match: str | None, if_none_match: str | None) -> int | None:
    if if_match is not None and if_none_match is not None:
        raise UsageError("If-Match and If-None-Match contradict each other", hint="Send one of them")
    if if_none_match is not None:
        if if_none_match.strip() != "*":
            raise UsageError(
                f"{quote(if_none_match)} in If-None-Match cannot be used for a write",
                hint="Send `*` if it must not exist yet, or If-Match with the last ETag",
            )
        return 0
    if if_match is None:
        return None
    tag = _ETAG.fullmatch(if_match.strip())
    if tag is None or int(tag[1]) == 0:
        raise _invalid_etag("If-Match", if_match)
    return int(tag[1])


def _invalid_etag(header: str, value: str) -> UsageError:
    return UsageError(f"{quote(value)} in {header} is not a valid ETag", hint="Send the ETag of the last response")


_EVERYWHERE = (400, 401, 403, 408, 413, 422, 429, 500, 503)


class _SharedSpec(ResponseSpec):
    """A response spec that is not copied: Litestar deep-copies routes, which would slow down the start."""

    def __deepcopy__(self, memo: dict[int, Any]) -> ResponseSpec:
        return self


def problem_specs(*statuses: int) -> dict[int, ResponseSpec]:
    """Return the OpenAPI specs of these problem statuses, and of those that every route can return."""
    return {status: _problem(status) for status in sorted({*statuses, *_EVERYWHERE})}


def in_thread(summary: str, *problems: int, status: int | None = None) -> dict[str, Any]:
    """Return the options of a route that runs in a thread: its summary, and the problem statuses it can return."""
    return {
        "sync_to_thread": True,
        "status_code": status,
        "responses": problem_specs(*problems),
        "summary": summary,
    }


def handlers_in(*modules: ModuleType) -> list[HTTPRouteHandler]:
    """Return the routes that modules define."""
    return [value for module in modules for value in vars(module).values() if isinstance(value, HTTPRouteHandler)]


@cache
def _problem(status: int) -> ResponseSpec:
    return _SharedSpec(
        data_container=Problem,
        description=HTTPStatus(status).phrase,
        media_type=MEDIA_TYPE,  # pyright: ignore[reportArgumentType]  # Litestar accepts any media type
        generate_examples=False,
    )
