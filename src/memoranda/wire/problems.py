"""Problem documents (RFC 9457): what went wrong, with the engine's code, in one flat JSON object."""

from __future__ import annotations

from typing import Any

import msgspec

MEDIA_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was not carried out.

    The members after `request_id` belong to some codes only, and others may stand beside them: each is what the
    error of that code has as a field.
    """

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str = ""
    request_id: str = ""
    path: str | None = None
    """Where in the request or in the value: `$.content`."""
    limit: int | None = None
    actual: Any = None
    expected: Any = None
    current_version: int | None = None
    current_updated_at: str | None = None
    retry_after: float | None = None


_MEMBERS = frozenset({"type", "title", "status", "detail", "code", "hint", "request_id"})


def encode_problem(problem: Problem, details: dict[str, Any] | None = None) -> bytes:
    """Return a problem as JSON: members without a value are left out, the error's other fields stand beside them."""
    members = {name: value for name, value in msgspec.structs.asdict(problem).items() if value is not None}
    return msgspec.json.encode(
        members | {name: value for name, value in (details or {}).items() if name not in members}
    )


def decode_problem(body: bytes) -> tuple[Problem, dict[str, Any]]:
    """Return a problem and the fields of its error, or raise msgspec.ValidationError or DecodeError."""
    members: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
    problem = msgspec.convert(members, Problem)
    return problem, {name: value for name, value in members.items() if name not in _MEMBERS}
