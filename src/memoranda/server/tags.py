"""Entity tags: versions and stamps out as `ETag`; what a request expects in, as `If-Match` and `If-None-Match`."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from litestar import Response
from litestar.types import Receive, Scope, Send

from memoranda.errors import UsageError
from memoranda.model.clock import from_micros, to_micros
from memoranda.model.text import quote

T = TypeVar("T")

_TAG = re.compile(r'"([0-9]{1,19})"', re.ASCII)
_NEWEST = to_micros(datetime.max.replace(tzinfo=from_micros(0).tzinfo))


def tag_of_version(version: int) -> str:
    """Return the tag of a fact: its version, which is never used again."""
    return f'"{version}"'


def tag_of_moment(moment: datetime) -> str:
    """Return the tag of a block: its stamp in microseconds, which is never used again either."""
    return f'"{to_micros(moment)}"'


def is_known(tag: str, if_none_match: str | None) -> bool:
    """Say whether whoever asks has this already: then 304 says enough."""
    if if_none_match is None:
        return False
    if if_none_match.strip() == "*":
        return True
    # Reads compare weakly: a proxy that compressed the body may have marked the tag so.
    return tag in {one.strip().removeprefix("W/") for one in if_none_match.split(",")}


class Encoded(Response[T]):
    """An answer whose bytes are made by the thread that made its content, instead of the event loop.

    Besides, what Litestar does for answers of every kind takes longer than the reading of a fact.
    """

    def __init__(self, content: T, head: dict[str, str] | None = None) -> None:  # pyright: ignore[reportMissingSuperCall]
        """Encode the content; nothing else of a Response is asked for."""
        self._body = msgspec.json.encode(content)
        self._head = [(name.encode(), value.encode()) for name, value in (head or {}).items()]

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        """Return what sends it."""
        return self._send

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(self._body)).encode()),
            *self._head,
        ]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": self._body, "more_body": False})


class Tagged(Encoded[T]):
    """An answer with the tag of its content."""

    def __init__(self, content: T, tag: str) -> None:
        """Encode the content."""
        super().__init__(content, {"etag": tag})


def not_modified(tag: str) -> Response[Any]:
    """Return the answer that says: you have it already."""
    return Response(None, status_code=304, headers={"ETag": tag})


def expected_version(if_match: str | None, if_none_match: str | None, given: int | None = None) -> int | None:
    """Return the version that a write must find, 0 for none at all, None where nothing is expected."""
    expected = _expected(if_match, if_none_match)
    if expected is None:
        return given
    if given not in (None, expected):
        raise UsageError(
            f"the headers expect version {expected}, and the body {given}", hint="Say it in one place", path="$.expect"
        )
    return expected


def expected_moment(if_match: str | None, if_none_match: str | None) -> tuple[bool, datetime | None]:
    """Return whether the headers expect a stamp, and which; None is for a block that must not exist."""
    expected = _expected(if_match, if_none_match)
    if not expected:
        return expected is not None, None
    if expected > _NEWEST:
        raise _unusable("If-Match", f'"{expected}"')
    return True, from_micros(expected)


def _expected(if_match: str | None, if_none_match: str | None) -> int | None:
    if if_match is not None and if_none_match is not None:
        raise UsageError("If-Match and If-None-Match contradict each other", hint="Send one of them")
    if if_none_match is not None:
        if if_none_match.strip() != "*":
            raise UsageError(
                f"{quote(if_none_match)} in If-None-Match cannot be used for a write",
                hint="Send `*` for something that must not exist yet, or If-Match with the ETag last read",
            )
        return 0
    if if_match is None:
        return None
    tag = _TAG.fullmatch(if_match.strip())
    if tag is None or int(tag[1]) == 0:
        raise _unusable("If-Match", if_match)
    return int(tag[1])


def _unusable(header: str, value: str) -> UsageError:
    return UsageError(f"{quote(value)} in {header} is no tag of ours", hint="Send the ETag of the answer last read")
