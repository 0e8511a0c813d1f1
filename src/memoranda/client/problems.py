"""An answer that says no in, the error that the engine would have raised out."""

from __future__ import annotations

from collections.abc import Iterator
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
from memoranda.model.text import cleaned, quote

# What a problem document says for everybody; all else in it is a detail of its own error.
_COMMON = frozenset({"type", "title", "status", "detail", "code", "hint", "instance", "message", "self"})
# Details that the engine gives as moments; a conflict of blocks is one between two moments.
_MOMENTS = frozenset({"current_updated_at"})
_COMPARED = frozenset({"expected", "actual"})

_SHOWN = 200
"""Characters of an unreadable answer that are shown."""

# For a code that this version does not know: a newer server's, or a proxy's problem without any.
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


class _Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What the answer said, as far as every problem document says it, and its further fields."""

    status: int
    detail: str
    code: str
    hint: str
    fields: dict[str, Any]


def error_of(status: int, content: bytes, *, url: str, retry_after: float | None, request_id: str) -> MemorandaError:
    """Return the error that an answer stands for: by its code, else by its status; Unavailable if it says neither."""
    problem = _read(status, content)
    if problem is None:
        return _foreign(status, content, url=url, request_id=request_id)
    kind = _kinds().get(problem.code) or _BY_STATUS.get(status) or Unavailable
    moments = _MOMENTS | _COMPARED if kind is Conflict else _MOMENTS
    fields: dict[str, Any] = {
        name: _moment(value) if name in moments else value for name, value in problem.fields.items()
    }
    fields.setdefault("status", status)
    if request_id:
        fields.setdefault("request_id", request_id)
    if retry_after is not None:
        fields.setdefault("retry_after", retry_after)
    if kind is not _kinds().get(problem.code) and problem.code:
        fields.setdefault("remote_code", problem.code)
    return kind(problem.detail, hint=problem.hint, **fields)


def error_named(code: str, message: str) -> MemorandaError:
    """Return the error of a code that came without a status: what a stream says went wrong after it had begun."""
    kind = _kinds().get(code, Unavailable)
    return kind(message, **({} if code in _kinds() else {"remote_code": code}))


def _read(status: int, content: bytes) -> _Problem | None:
    """Return the problem document that an answer holds, or None where it holds something else."""
    try:
        words = msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(words.get("code"), str) and not isinstance(words.get("title"), str):
        return None
    return _Problem(
        status=status,
        detail=_text(words.get("detail")) or _text(words.get("title")) or f"the server answered {status}",
        code=_text(words.get("code")),
        hint=_text(words.get("hint")),
        fields={name: value for name, value in words.items() if name not in _COMMON},
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _moment(value: Any) -> Any:
    """Return a moment as the engine would give it; what is none, as it came."""
    if not isinstance(value, str):
        return value
    try:
        return from_micros(parse_moment(value))
    except UsageError:
        return value


def _foreign(status: int, content: bytes, *, url: str, request_id: str) -> MemorandaError:
    """Return the error for an answer that no Memoranda server gives: a proxy's page, a redirect, another program."""
    said = cleaned(content[: 4 * _SHOWN].decode("utf-8", "replace"), longest=_SHOWN)
    return Unavailable(
        f"{quote(url)} answered {status} with what is no problem document" + (f": {quote(said)}" if said else ""),
        hint="See whether the address is that of a Memoranda server, and what stands in between",
        url=url,
        status=status,
        request_id=request_id,
    )


def _kinds() -> dict[str, type[MemorandaError]]:
    """Return every error class by its code: derived from the tree, so that none can be left out."""
    if not _KINDS:
        _KINDS.update({kind.code: kind for kind in _tree(MemorandaError)})
    return _KINDS


_KINDS: dict[str, type[MemorandaError]] = {}


def _tree(kind: type[MemorandaError]) -> Iterator[type[MemorandaError]]:
    yield kind
    for below in kind.__subclasses__():
        # A program may derive classes of its own; only ours travel.
        if below.__module__ == MemorandaError.__module__:
            yield from _tree(below)
