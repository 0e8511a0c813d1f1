"""Problem documents (RFC 9457) with the error code of the engine."""

from __future__ import annotations

from typing import Any

import msgspec

MEDIA_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request failed.

    The members after `request_id` are details of some errors; there may be others.
    """

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str = ""
    request_id: str = ""
    path: str | None = None
    """The place in the request or value, such as `$.content`."""
    limit: int | None = None
    actual: Any = None
    expected: Any = None
    current_version: int | None = None
    current_updated_at: str | None = None
    retry_after: float | None = None


_MEMBERS = frozenset({"type", "title", "status", "detail", "code", "hint", "request_id"})


def encode_problem(problem: Problem, details: dict[str, Any] | None = None) -> bytes:
    """Encode a problem with the details of its error; members without a value are omitted."""
    members = {name: value for name, value in msgspec.structs.asdict(problem).items() if value is not None}
    return msgspec.json.encode(
        members | {name: value for name, value in (details or {}).items() if name not in members}
    )


def decode_problem(body: bytes) -> tuple[Problem, dict[str, Any]]:
    """Decode a problem and the details of its error; raise msgspec.DecodeError if it is not valid."""
    members: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
    problem = msgspec.convert(members, Problem)
    return problem, {name: value for name, value in members.items() if name not in _MEMBERS}
