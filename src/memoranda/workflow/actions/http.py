"""The action `http_request`."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import msgspec

from memoranda.errors import ActionFailed, UsageError
from memoranda.lang.egress import HttpRequest, HttpResponse, RequestFailed, fetch
from memoranda.model.limits import Limits
from memoranda.model.text import quote
from memoranda.model.value import encode_checked
from memoranda.workflow.actions.base import NO_SETTINGS, Call, action, object_schema

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
SECONDS = 10
"""The default timeout of a request."""
_LONGEST = 300
_AGAIN = ("timeout", "unreachable")
"""Reasons for which a retry may help."""
_JSON = re.compile(r"(?:application|text)/(?:[\w.+-]+\+)?json")
_TEXT = re.compile(r"text/|application/(?:xml|[\w.-]+\+xml|x-www-form-urlencoded|javascript)")
_LIMITS = Limits()

_INPUTS = {
    "url": {"type": "string", "minLength": 1, "description": "The address, with http or https."},
    "method": {"enum": list(METHODS), "default": "GET", "description": "What to do there."},
    "headers": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "Headers of the request, by name.",
    },
    "body": {"type": "string", "description": "What is sent, as text."},
    "json": {"description": "What is sent, as JSON; instead of `body`."},
    "timeout": {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": _LONGEST,
        "default": SECONDS,
        "description": "Seconds within which the whole response has to arrive.",
    },
}


@action(
    "http_request",
    inputs={**object_schema(_INPUTS, required=["url"]), "not": {"required": ["body", "json"]}},
    settings=NO_SETTINGS,
)
def http_request(call: Call) -> dict[str, Any]:
    """Send an HTTP request.

    Gives `{status, headers, body}` for every status; header names are in lower case, the body is JSON if the server
    says so, otherwise text, and null if it is empty. Redirects are followed on the same server. The task fails if the
    server cannot be reached, is too slow, or sends more than a megabyte or a body that is not text, and if the egress
    policy does not allow the address.
    """
    inputs = call.inputs
    body, headers = _content(inputs)
    request = HttpRequest(
        method=inputs.get("method", "GET"),
        url=inputs["url"],
        headers=headers,
        body=body,
        timeout=inputs.get("timeout", SECONDS),
    )
    try:
        return _output(fetch(request, call.place.egress))
    except RequestFailed as error:
        raise _failure(call, error.reason, error.message, error.hint) from error
    except _Unreadable as error:
        raise _failure(call, "unreadable", str(error)) from error


def _failure(call: Call, reason: str, why: str, hint: str = "") -> ActionFailed:
    usual = "Give the task `retries`, or try again later" if reason in _AGAIN else "Ask for something else"
    return ActionFailed(
        f"the request of {quote(call.task)} failed: {why}",
        hint=hint or usual,
        type=reason,
        task=call.task,
        action="http_request",
        retryable=reason in _AGAIN,
    )


def _content(inputs: dict[str, Any]) -> tuple[bytes | None, dict[str, str]]:
    """Return the body and the headers, with a content type."""
    headers: dict[str, str] = inputs.get("headers", {})
    if "json" in inputs:
        body, kind = encode_checked(inputs["json"], _LIMITS), "application/json"
    elif "body" in inputs:
        # Refuse a lone surrogate, which cannot be encoded.
        encode_checked(inputs["body"], _LIMITS)
        body, kind = inputs["body"].encode(), "text/plain; charset=utf-8"
    else:
        return None, headers
    named = any(name.lower() == "content-type" for name in headers)
    return body, headers if named else {**headers, "content-type": kind}


class _Unreadable(Exception):
    """The response has no form in JSON."""


def _output(response: HttpResponse) -> dict[str, Any]:
    given = {"status": response.status, "headers": response.headers, "body": None}
    try:
        if response.content:
            given["body"] = _body(response)
        encode_checked(given["headers"], _LIMITS)
        encode_checked(given["body"], _LIMITS)
    except (UsageError, UnicodeDecodeError, LookupError) as error:
        raise _Unreadable(f"the response cannot be read: {error}") from error
    return given


def _body(response: HttpResponse) -> Any:
    encoding = response.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise _Unreadable(f"the response is compressed as {quote(encoding)}, which was not requested")
    kind = response.content_type or "text/plain"
    if _JSON.fullmatch(kind):
        return _json(response)
    if _TEXT.match(kind):
        return _text(response)
    raise _Unreadable(f"the response is {quote(kind)}, neither JSON nor text")


def _json(response: HttpResponse) -> Any:
    """Return a body of a JSON content type: read as UTF-8, as JSON has to be, or else in the declared charset."""
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.decode(response.content)
    text = _text(response)
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        # Servers often label an error page as JSON.
        return text


def _text(response: HttpResponse) -> str:
    return response.content.decode(response.charset).removeprefix("\ufeff")
