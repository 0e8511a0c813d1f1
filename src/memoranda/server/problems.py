"""Errors in, problem documents (RFC 9457) out: one table of statuses, and nothing that is not the caller's."""

from __future__ import annotations

import math
import re
from http import HTTPStatus
from typing import Any, cast

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException

from memoranda.errors import Conflict, MemorandaError, StorageError
from memoranda.governance.permissions import TOO_NARROW
from memoranda.wire.problems import MEDIA_TYPE, Problem, encode_problem

AnyRequest = Request[Any, Any, Any]

STATUSES = {
    "memoranda_error": 500,
    "usage_error": 422,
    "invalid_scope": 422,
    "invalid_key": 422,
    "invalid_value": 422,
    "invalid_duration": 422,
    "invalid_definition": 422,
    "invalid_policy": 422,
    "invalid_filter": 422,
    "invalid_input": 422,
    "limit_exceeded": 422,
    "schema_violation": 422,
    "source_error": 422,
    "evaluation_failed": 422,
    "not_found": 404,
    "already_exists": 409,
    "conflict": 409,
    "idempotency_mismatch": 422,
    "embedder_error": 500,
    "embedder_mismatch": 409,
    "embedding_failed": 502,
    "model_error": 502,
    "model_unavailable": 503,
    "model_failed": 502,
    "action_failed": 502,
    "run_failed": 422,
    "not_installed": 409,
    "not_verified": 409,
    "scope_ended": 409,
    "refused": 403,
    "unauthenticated": 401,
    "denied": 403,
    "approval_required": 403,
    "quota_exceeded": 429,
    "storage_error": 500,
    "busy": 503,
    "full": 507,
    "read_only": 503,
    "corrupt": 500,
    "foreign_database": 500,
    "unavailable": 503,
    "migration_needed": 503,
}
"""The status of every code. A body that is too large is the one `limit_exceeded` with another, 413."""

_HTTP_CODES = {
    400: "usage_error",
    401: "unauthenticated",
    403: "denied",
    404: "no_such_address",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "limit_exceeded",
    415: "unsupported_media_type",
    422: "usage_error",
    429: "quota_exceeded",
    503: "unavailable",
}

# Fields of errors that say something to the caller about the caller's own request. Others may hold a path of this
# machine or an address, as `value` may, so what is not named here stays here.
_SHOWN = frozenset(
    {
        "path",
        "expected",
        "actual",
        "limit",
        "what",
        "current_version",
        "current_updated_at",
        "current_content",
        "retry_after",
        "capability",
        "approval",
        "item",
        "line",
        "key",
        "kind",
        "position",
        "reason",
        "retryable",
        "diagnostics",
        "type",
        "ended_at",
        "task",
        "step",
        "run",
        "slug",
        "field",
        "variable",
        "inputs",
        "conversation_id",
        "message_id",
    }
)
_RESERVED = frozenset(Problem.__struct_fields__[:7])
_MISSING = re.compile(r"Missing required \w+ parameter '([^']+)'")
_BUSY_FOR = 1.0
"""Seconds after which a caller may try again where the error itself does not say."""


class RequestFault(Exception):
    """A request that HTTP itself finds wrong before any effect is made of it: too slow, or not a path."""

    def __init__(self, status: int, detail: str, *, hint: str = "") -> None:
        """Keep the status, what happened and what to do."""
        super().__init__(detail)
        self.status, self.detail, self.hint = status, detail, hint


def problem_of(
    error: Exception, request_id: str, request: AnyRequest | None = None
) -> tuple[int, bytes, dict[str, str]]:
    """Return the status, body and headers that tell a caller about an error."""
    if isinstance(error, MemorandaError):
        return _of_ours(error, request_id)
    if isinstance(error, RequestFault):
        return _rendered(error.status, _code_of(error.status), error.detail, error.hint, {}, request_id)
    if isinstance(error, ValidationException):
        return _of_validation(error, request_id, request)
    if isinstance(error, HTTPException):
        return _of_http(error, request_id)
    return _rendered(
        500, "internal_error", "something went wrong here", "Tell the operator the request id", {}, request_id
    )


def respond_with_problem(request: AnyRequest, error: Exception) -> Response[bytes]:
    """Return the answer to a request that failed; Litestar calls this for every exception."""
    status, body, headers = problem_of(error, request.scope["state"].get("request_id", ""), request)
    request.scope["state"]["problem"] = error
    return Response(body, status_code=status, media_type=MEDIA_TYPE, headers=headers)


def _of_ours(error: MemorandaError, request_id: str) -> tuple[int, bytes, dict[str, str]]:
    status = STATUSES.get(error.code, 500)
    if status >= 500 and isinstance(error, StorageError):
        # The message names the file; whoever calls over a network is told what it means, not where it is.
        detail = (type(error).__doc__ or "").partition("\n")[0].rstrip(".;")
        return _rendered(status, error.code, detail, _hint_of(status), {}, request_id)
    details = {name: _plain(value) for name, value in error.details.items() if name in _SHOWN - _RESERVED}
    if isinstance(error, Conflict) and type(error.details.get("actual")) is int:
        details.setdefault("current_version", error.details["actual"])
    return _rendered(status, error.code, error.message, _told(error), details, request_id)


def _told(error: MemorandaError) -> str:
    """Return the hint of an error as callers can act on it."""
    # The gate names the policy, and that of whoever calls here is made of their key.
    if error.hint == TOO_NARROW:
        return "Use a key whose role may do this, and that is not narrowed to less"
    return error.hint


def _of_validation(
    error: ValidationException, request_id: str, request: AnyRequest | None
) -> tuple[int, bytes, dict[str, str]]:
    """Say which parameter is not what it should be; bodies have been looked at before."""
    found = cast("list[dict[str, Any]]", error.extra or [{}])
    name, message = str(found[0].get("key", "")), str(found[0].get("message", error.detail))
    missing = None if name else _MISSING.match(message)
    if missing:
        path = missing[1]
        said = f"the parameter `{path}` is missing"
    elif name in ("", "data"):
        said, path = "this request needs a body", "$"
    else:
        path = name if request is None else _spoken(request, name)
        said = f"the parameter `{path}` cannot be used: {message}"
    return _rendered(422, "usage_error", said, "See /openapi.json for what is taken", {"path": path}, request_id)


def _spoken(request: AnyRequest, name: str) -> str:
    """Return what callers know a parameter of a route as."""
    field = request.route_handler.parsed_fn_signature.parameters.get(name)
    known: object = getattr(field.kwarg_definition, "name", None) if field is not None else None
    return known if isinstance(known, str) and known else name


def _of_http(error: HTTPException, request_id: str) -> tuple[int, bytes, dict[str, str]]:
    status = error.status_code
    if status >= 500:
        return _rendered(status, "internal_error", "something went wrong here", "", {}, request_id)
    said = {
        404: "there is nothing at this address",
        405: "this address does not take that method",
        413: "the body is larger than this server takes",
    }.get(status, error.detail)
    hint = "Send less at once, or let the server take more with `body_bytes`" if status == 413 else ""
    headers = {name: value for name, value in (error.headers or {}).items() if name.lower() == "allow"}
    return _rendered(status, _code_of(status), said, hint, {}, request_id, headers)


def _code_of(status: int) -> str:
    return _HTTP_CODES.get(status, "usage_error" if status < 500 else "internal_error")


def _hint_of(status: int) -> str:
    return "Try again in a moment" if status == HTTPStatus.SERVICE_UNAVAILABLE else "Tell the operator the request id"


def _rendered(
    status: int,
    code: str,
    detail: str,
    hint: str,
    details: dict[str, Any],
    request_id: str,
    headers: dict[str, str] | None = None,
) -> tuple[int, bytes, dict[str, str]]:
    sent = dict(headers or {})
    if status == 401:
        sent["WWW-Authenticate"] = "Bearer"
    if status in (429, 503):
        sent["Retry-After"] = str(math.ceil(details.get("retry_after") or _BUSY_FOR))
    if status in (408, 413):
        # What is left of the request would be read as the next one.
        sent["Connection"] = "close"
    problem = Problem(
        type=f"urn:memoranda:{code}",
        title=code.replace("_", " ").capitalize(),
        status=status,
        detail=detail,
        code=code,
        hint=hint,
        request_id=request_id,
    )
    return status, encode_problem(problem, details), sent


def _plain(value: Any) -> Any:
    """Return a detail as JSON has it; one that JSON has no word for as text."""
    return msgspec.to_builtins(value, enc_hook=str, str_keys=True)
