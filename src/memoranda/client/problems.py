"""Errors of the engine from problem documents of a server."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from memoranda.errors import (
    Conflict,
    Denied,
    LimitExceeded,
    MemorandaError,
    NotFound,
    QuotaExceeded,
    StorageError,
    Unauthenticated,
    Unavailable,
    UsageError,
)
from memoranda.model.clock import from_micros, parse_moment
from memoranda.model.text import quote, storable_text

# Members of every problem document; all others are details of the error.
_COMMON = frozenset({"type", "title", "status", "detail", "code", "hint", "instance", "message", "self"})
# Details that are timestamps; a conflict of blocks compares two of them.
_MOMENTS = frozenset({"current_updated_at"})
_COMPARED = frozenset({"expected", "actual"})

_SHOWN = 200
"""Maximum characters of an unreadable response in a message."""

# For unknown codes, of a newer server, and for problems of a proxy without a code.
_BY_STATUS: dict[int, type[MemorandaError]] = {
    400: UsageError,
    401: Unauthenticated,
    403: Denied,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    413: LimitExceeded,
    422: UsageError,
    428: UsageError,
    429: QuotaExceeded,
    500: StorageError,
}


def error_of(status: int, content: bytes, *, url: str, retry_after: float | None, request_id: str) -> MemorandaError:
    """Return the error of a response: by its code, else by its status, else Unavailable."""
    problem = _read(content)
    if problem is None:
        return _unreadable(status, content, url=url, request_id=request_id)
    code = _text(problem.get("code"))
    kind = _kinds().get(code) or _BY_STATUS.get(status) or Unavailable
    moments = _MOMENTS | _COMPARED if kind is Conflict else _MOMENTS
    fields: dict[str, Any] = {
        name: _moment(value) if name in moments else value for name, value in problem.items() if name not in _COMMON
    }
    fields["status"] = status
    if request_id:
        fields.setdefault("request_id", request_id)
    if retry_after is not None:
        fields.setdefault("retry_after", retry_after)
    if code and code not in _kinds():
        fields.setdefault("remote_code", code)
    detail = _text(problem.get("detail")) or _text(problem.get("title")) or f"the server returned status {status}"
    return kind(detail, hint=_text(problem.get("hint")), **fields)


def error_named(code: str, message: str) -> MemorandaError:
    """Return the error of a code without a status, as in an event stream."""
    kind = _kinds().get(code, Unavailable)
    return kind(message, **({} if code in _kinds() else {"remote_code": code}))


def _read(content: bytes) -> dict[str, Any] | None:
    """Return the members of a problem document, read leniently, or None if it is something else."""
    try:
        members = msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return None
    return members if any(isinstance(members.get(name), str) for name in ("code", "title")) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _moment(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return from_micros(parse_moment(value))
    except UsageError:
        return value


def _unreadable(status: int, content: bytes, *, url: str, request_id: str) -> MemorandaError:
    """Return the error for a response that is not from a Memoranda server, such as a proxy's page or a redirect."""
    said = storable_text(content[: 4 * _SHOWN].decode("utf-8", "replace"), longest=_SHOWN)
    return Unavailable(
        f"{quote(url)} returned status {status} without a problem document" + (f": {quote(said)}" if said else ""),
        hint="Check that the URL is that of a Memoranda server, and any proxy in front of it",
        url=url,
        status=status,
        request_id=request_id,
    )


@cache
def _kinds() -> dict[str, type[MemorandaError]]:
    """Return every error class by its code."""
    return {kind.code: kind for kind in _tree(MemorandaError)}


def _tree(kind: type[MemorandaError]) -> Iterator[type[MemorandaError]]:
    yield kind
    for below in kind.__subclasses__():
        # Only our own classes: programs may derive others.
        if below.__module__ == MemorandaError.__module__:
            yield from _tree(below)
