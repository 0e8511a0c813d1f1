"""Problem documents (RFC 9457) for errors: one table of statuses, and only details that are safe to show."""

from __future__ import annotations

import math
import re
from http import HTTPStatus
from typing import Any, cast

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException

from memoranda.errors import NEUTRAL_WORDS, Conflict, MemorandaError, StorageError, Words, render_hint
from memoranda.governance.permissions import OTHER_KEY
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
    "stale_records": 409,
    "conflict": 409,
    "stale_epoch": 409,
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
    "held": 403,
    "rejected": 409,
    "quota_exceeded": 429,
    "storage_error": 500,
    "busy": 503,
    "full": 507,
    "read_only": 503,
    "corrupt": 500,
    "foreign_database": 500,
    "unavailable": 503,
    "incomplete": 503,
    "migration_needed": 503,
}
"""The HTTP status of every error code. Only a `limit_exceeded` for a body that is too large differs: 413."""

_PATHS = {"definitions": "/memory/definitions"}
_ASK = "Ask the operator of the server to"
REST_WORDS: Words = {
    **NEUTRAL_WORDS,
    "approve": lambda hint: f"An actor with approvals.decide may decide: POST /approvals/{hint.target}/approve",
    "command": lambda hint: f"{_ASK} run `memoranda {hint.target}`",
    "embedder": lambda _: f"{_ASK} set `embedder` to the one that the collection was made with",
    "grant": lambda hint: f"Ask an administrator of the tenant to grant `{hint.target}` to `{hint.actor}`{hint.place}",
    "install": lambda hint: f"{_ASK} install `memoranda[{hint.target}]`",
    "list": lambda hint: f"See GET {_PATHS.get(hint.target, f'/{hint.target}')}",
    # The model of a machine is named in its text: there is no setting for it.
    "load": lambda hint: f"{_ASK} add it to its {hint.target}" if hint.target != "model" else "",
    "policy": lambda _: OTHER_KEY,
    "set": lambda hint: f"{_ASK} set {hint.target} in its environment",
    "split": lambda _: "Remember it in parts: pass `chunk`",
    "withdraw": lambda hint: f"If it is right after all: DELETE /rejections/{hint.target}",
}

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

# Details of errors that are shown to callers. Others, such as `value`, may contain a path or address of this machine.
_PUBLIC_DETAILS = frozenset(
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
        "cause",
        "findings",
        "rejection",
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
        "count",
        "records",
        "options",
        "field",
        "variable",
        "inputs",
        "conversation_id",
        "message_id",
    }
)
_RESERVED = frozenset(Problem.__struct_fields__[:7])
_MISSING = re.compile(r"Missing required \w+ parameter '([^']+)'")
_DEFAULT_RETRY_AFTER = 1.0
"""Seconds to wait where the error does not say how long."""


class RequestError(Exception):
    """A request that is rejected at the HTTP level, such as a timeout or an unknown path."""

    def __init__(self, status: int, detail: str, *, hint: str = "") -> None:
        """Create an error with an HTTP status."""
        super().__init__(detail)
        self.status, self.detail, self.hint = status, detail, hint


def problem_of(
    error: Exception, request_id: str, request: AnyRequest | None = None, *, words: Words = REST_WORDS
) -> tuple[int, bytes, dict[str, str]]:
    """Return the status, body and headers of the problem document for an error."""
    if isinstance(error, MemorandaError):
        return _of_ours(error, request_id, words)
    if isinstance(error, RequestError):
        return _problem(error.status, _code_of(error.status), error.detail, error.hint, {}, request_id)
    if isinstance(error, ValidationException):
        return _of_validation(error, request_id, request)
    if isinstance(error, HTTPException):
        return _of_http(error, request_id)
    return _problem(500, "internal_error", "internal error", "Tell the operator the request id", {}, request_id)


def problem_response(request: AnyRequest, error: Exception) -> Response[bytes]:
    """Return the response for an exception; Litestar calls this for every one."""
    status, body, headers = problem_of(error, request.scope["state"].get("request_id", ""), request)
    request.scope["state"]["problem"] = error
    return Response(body, status_code=status, media_type=MEDIA_TYPE, headers=headers)


def _of_ours(error: MemorandaError, request_id: str, words: Words) -> tuple[int, bytes, dict[str, str]]:
    status = STATUSES.get(error.code, 500)
    if status >= 500 and isinstance(error, StorageError):
        # The message names a file of this machine: send the docstring of the error class instead.
        detail = (type(error).__doc__ or "").partition("\n")[0].rstrip(".;")
        return _problem(status, error.code, detail, _hint_of(status), {}, request_id)
    details = {name: _plain(value) for name, value in error.details.items() if name in _PUBLIC_DETAILS - _RESERVED}
    if isinstance(error, Conflict) and type(error.details.get("actual")) is int:
        details.setdefault("current_version", error.details["actual"])
    return _problem(status, error.code, error.message, render_hint(error.advice, words), details, request_id)


def _of_validation(
    error: ValidationException, request_id: str, request: AnyRequest | None
) -> tuple[int, bytes, dict[str, str]]:
    """Name the invalid parameter; bodies were decoded before."""
    found = cast("list[dict[str, Any]]", error.extra or [{}])
    name, message = str(found[0].get("key", "")), str(found[0].get("message", error.detail))
    missing = None if name else _MISSING.match(message)
    if missing:
        path = missing[1]
        message = f"the parameter `{path}` is missing"
    elif name in ("", "data"):
        message, path = "this request needs a body", "$"
    else:
        path = name if request is None else _public_name(request, name)
        message = f"the parameter `{path}` is not valid: {message}"
    return _problem(
        422, "usage_error", message, "See /openapi.json for the valid parameters", {"path": path}, request_id
    )


def _public_name(request: AnyRequest, name: str) -> str:
    """Return the name of a parameter in the REST API."""
    field = request.route_handler.parsed_fn_signature.parameters.get(name)
    known: object = getattr(field.kwarg_definition, "name", None) if field is not None else None
    return known if isinstance(known, str) and known else name


def _of_http(error: HTTPException, request_id: str) -> tuple[int, bytes, dict[str, str]]:
    status = error.status_code
    if status >= 500:
        return _problem(status, "internal_error", "internal error", "", {}, request_id)
    detail = {
        404: "this path does not exist",
        405: "this path does not support that method",
        413: "the body is too large",
    }.get(status, error.detail)
    hint = "Send less at once, or raise the server setting `body_bytes`" if status == 413 else ""
    headers = {name: value for name, value in (error.headers or {}).items() if name.lower() == "allow"}
    return _problem(status, _code_of(status), detail, hint, {}, request_id, headers)


def _code_of(status: int) -> str:
    return _HTTP_CODES.get(status, "usage_error" if status < 500 else "internal_error")


def _hint_of(status: int) -> str:
    return "Try again in a moment" if status == HTTPStatus.SERVICE_UNAVAILABLE else "Tell the operator the request id"


def _problem(
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
        sent["Retry-After"] = str(math.ceil(details.get("retry_after") or _DEFAULT_RETRY_AFTER))
    if status in (408, 413):
        # The rest of the request would be read as the next one.
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
    return msgspec.to_builtins(value, enc_hook=str, str_keys=True)
