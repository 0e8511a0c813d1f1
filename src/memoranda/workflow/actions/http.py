"""A request of a task in, the answer of a server out: its status, its headers, and its body as JSON or text."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import msgspec

from memoranda.errors import ActionFailed, UsageError
from memoranda.lang.egress import Request, RequestFailed, Response, fetch
from memoranda.model.limits import Limits
from memoranda.model.text import quote
from memoranda.model.value import encode_checked
from memoranda.workflow.actions.base import Call, action
from memoranda.workflow.actions.schemas import NOTHING, closed

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
SECONDS = 10
"""How long a request may take, where the task does not say."""
_LONGEST = 300
_AGAIN = ("timeout", "unreachable")
"""What may be otherwise the next time."""
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
        "description": "Seconds until the whole answer has to be there.",
    },
}


@action(
    "http_request",
    inputs={**closed(_INPUTS, required=["url"]), "not": {"required": ["body", "json"]}},
    settings=NOTHING,
)
def http_request(call: Call) -> dict[str, Any]:
    """Ask a server over HTTP.

    Gives `{status, headers, body}` for every status; header names are in small letters, the body is JSON where the
    server says so, else text, and null where there is none. Redirects are followed on the same server. A server that
    cannot be reached, is late, or answers with more than a megabyte or with what is no text is a failure of the task,
    and so is an address that the egress policy does not allow.
    """
    inputs = call.inputs
    body, headers = _content(inputs)
    request = Request(
        method=inputs.get("method", "GET"),
        url=inputs["url"],
        headers=headers,
        body=body,
        timeout=inputs.get("timeout", SECONDS),
    )
    try:
        return _given(fetch(request, call.place.egress))
    except RequestFailed as error:
        raise _failed(call, error.reason, error.message, error.hint) from error
    except _Unreadable as error:
        raise _failed(call, "unreadable", str(error)) from error


def _failed(call: Call, reason: str, why: str, hint: str = "") -> ActionFailed:
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
    """Return what is sent, and the headers, which say what it is."""
    headers: dict[str, str] = inputs.get("headers", {})
    if "json" in inputs:
        body, kind = encode_checked(inputs["json"], _LIMITS), "application/json"
    elif "body" in inputs:
        # Half of a character cannot be sent.
        encode_checked(inputs["body"], _LIMITS)
        body, kind = inputs["body"].encode(), "text/plain; charset=utf-8"
    else:
        return None, headers
    named = any(name.lower() == "content-type" for name in headers)
    return body, headers if named else {**headers, "content-type": kind}


class _Unreadable(Exception):
    """The body is nothing that a workflow can hold."""


def _given(response: Response) -> dict[str, Any]:
    """Return an answer as the task gives it: values that can be kept."""
    given = {"status": response.status, "headers": response.headers, "body": None}
    try:
        if response.content:
            given["body"] = _body(response)
        encode_checked(given["headers"], _LIMITS)
        encode_checked(given["body"], _LIMITS)
    except (UsageError, UnicodeDecodeError, LookupError) as error:
        raise _Unreadable(f"the answer cannot be read: {error}") from error
    return given


def _body(response: Response) -> Any:
    """Return the body as JSON or text."""
    encoding = response.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise _Unreadable(f"the answer is compressed as {quote(encoding)}, which was not asked for")
    kind = response.content_type or "text/plain"
    if _JSON.fullmatch(kind):
        return _json(response)
    if _TEXT.match(kind):
        return _text(response)
    raise _Unreadable(f"the answer is {quote(kind)}, neither JSON nor text")


def _json(response: Response) -> Any:
    """Return a body that is called JSON: in UTF-8, as it has to be, or else as its server says that it is written."""
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.decode(response.content)
    text = _text(response)
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        # Servers that fail often call their excuse JSON: it is given as text.
        return text


def _text(response: Response) -> str:
    return response.content.decode(response.charset).removeprefix("\ufeff")
