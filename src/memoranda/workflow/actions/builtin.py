"""The built-in actions that need no model, the table of all, and the actions of installed packages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

import msgspec

from memoranda.errors import ActionFailed, UsageError
from memoranda.lang.egress import HttpRequest, HttpResponse, RequestFailed, fetch
from memoranda.model.clock import LONGEST_DURATION
from memoranda.model.limits import Limits
from memoranda.model.text import quote, words_of
from memoranda.model.value import encode_checked
from memoranda.runs.records import UPDATE_MEMORY
from memoranda.workflow.actions import ai
from memoranda.workflow.actions.base import NO_SETTINGS, Action, Call, action, actions_of, object_schema

_INPUTS = {
    "workflow": {"type": "string", "minLength": 1, "description": "The name of the workflow."},
    "inputs": {"type": "object", "description": "Its input; the input of this run where it is left out."},
}


@action("call_workflow", inputs=object_schema(_INPUTS, required=["workflow"]), settings=NO_SETTINGS, origin=None)
def call_workflow(call: Call) -> Any:
    """Run another workflow for the same owner, and wait for it.

    It is a run of its own, with its own memory of that run. Gives its output.
    """
    given: dict[str, Any] = call.inputs.get("inputs", call.place.input)
    return call.place.call_workflow(call.inputs["workflow"], given)


_VALUES = {"type": "object", "description": "The values by name; `$context.memory` is not among them."}


@action(
    "set_context", inputs=object_schema({"values": _VALUES}, required=["values"]), settings=NO_SETTINGS, origin=None
)
def set_context(call: Call) -> dict[str, Any]:
    """Put values into `$context`, for the tasks that follow.

    A value that is there already is replaced. Gives the values.
    """
    values: dict[str, Any] = call.inputs["values"]
    call.place.set_context(values)
    return values


_MEMORY = {
    "type": "object",
    "description": "The new value of each record, by the slug of its memory definition.",
    "propertyNames": {"pattern": "^[a-z0-9_]+$"},
}


@action(
    UPDATE_MEMORY, inputs=object_schema({"memory": _MEMORY}, required=["memory"]), settings=NO_SETTINGS, origin=None
)
def update_memory(call: Call) -> dict[str, Any]:
    """Write records of memory, all of them or none.

    Global definitions are known to every workflow; others are named in `defs`, with `kind: memory`. Gives
    `{memory: {slug: value}}`: what each record holds now, and `{}` where there was nothing to write.
    """
    stored = call.place.memory.write(call.inputs["memory"])
    return {"memory": stored} if stored else {}


_TEXT = {"type": "string", "minLength": 1, "description": "What is said."}


@action(
    "send_text_message", inputs=object_schema({"text": _TEXT}, required=["text"]), settings=NO_SETTINGS, origin=None
)
def send_text_message(call: Call) -> dict[str, Any]:
    """Say something to the owner of the run; in a thread it becomes part of the conversation.

    Gives `{text}`: what was said.
    """
    text: str = call.inputs["text"]
    call.place.send(text)
    return {"text": text}


REPLY = "reply"
"""The event that `wait_for_reply` waits for, as in `run.waiting.event`."""
_TIMEOUT = {
    "type": "number",
    "exclusiveMinimum": 0,
    "maximum": LONGEST_DURATION,
    "description": "Seconds after which the run continues without a reply; without it, the run waits indefinitely.",
}


@action("wait_for_reply", inputs=object_schema({"timeout": _TIMEOUT}), settings=NO_SETTINGS, origin=None)
def wait_for_reply(call: Call) -> dict[str, Any]:
    """Wait until the owner of the run says something; in a thread it becomes part of the conversation.

    The run is suspended until then. Gives `{text}`: the reply, or `{timed_out: true}`.
    """
    reply = call.place.wait(REPLY, timeout=call.inputs.get("timeout"))
    return {"timed_out": True} if reply is None else {"text": _reply_text(call, reply)}


def _reply_text(call: Call, reply: Any) -> str:
    """Return the text of a delivery, which is a string or an object with `text`."""
    text = cast("dict[str, Any]", reply).get("text") if isinstance(reply, dict) else reply
    if isinstance(text, str):
        return text
    raise ActionFailed(
        f"the task {quote(call.task)} waits for a text, but something else was delivered",
        hint='Deliver "…" or {"text": "…"}',
        type="unreadable",
        task=call.task,
        action="wait_for_reply",
        retryable=False,
    )


# requests over HTTP

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
REQUEST_SECONDS = 10
"""The default timeout of a request."""
_LONGEST_SECONDS = 300
_RETRYABLE = ("timeout", "unreachable")
"""Reasons for which a retry may help."""
_JSON_TYPE = re.compile(r"(?:application|text)/(?:[\w.+-]+\+)?json")
_TEXT_TYPE = re.compile(r"text/|application/(?:xml|[\w.-]+\+xml|x-www-form-urlencoded|javascript)")
_LIMITS = Limits()

_REQUEST = {
    "url": {"type": "string", "minLength": 1, "description": "The address, with http or https."},
    "method": {"enum": list(_METHODS), "default": "GET", "description": "What to do there."},
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
        "maximum": _LONGEST_SECONDS,
        "default": REQUEST_SECONDS,
        "description": "Seconds within which the whole response has to arrive.",
    },
}


@action(
    "http_request",
    inputs={**object_schema(_REQUEST, required=["url"]), "not": {"required": ["body", "json"]}},
    settings=NO_SETTINGS,
    origin="tool_external",
)
def http_request(call: Call) -> dict[str, Any]:
    """Send an HTTP request.

    Gives `{status, headers, body}` for every status; header names are in lower case, the body is JSON if the server
    says so, otherwise text, and null if it is empty. Redirects are followed on the same server. The task fails if the
    server cannot be reached, is too slow, or sends more than a megabyte or a body that is not text, and if the egress
    policy does not allow the address.
    """
    inputs = call.inputs
    body, headers = _request_content(inputs)
    request = HttpRequest(
        method=inputs.get("method", "GET"),
        url=inputs["url"],
        headers=headers,
        body=body,
        timeout=inputs.get("timeout", REQUEST_SECONDS),
    )
    try:
        return _response_output(fetch(request, call.place.egress))
    except RequestFailed as error:
        raise _request_failure(call, error.reason, error.message, error.hint) from error
    except _Unreadable as error:
        raise _request_failure(call, "unreadable", str(error)) from error


def _request_failure(call: Call, reason: str, why: str, hint: str = "") -> ActionFailed:
    usual = "Give the task `retries`, or try again later" if reason in _RETRYABLE else "Ask for something else"
    return ActionFailed(
        f"the request of {quote(call.task)} failed: {why}",
        hint=hint or usual,
        type=reason,
        task=call.task,
        action="http_request",
        retryable=reason in _RETRYABLE,
    )


def _request_content(inputs: dict[str, Any]) -> tuple[bytes | None, dict[str, str]]:
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


def _response_output(response: HttpResponse) -> dict[str, Any]:
    given = {"status": response.status, "headers": response.headers, "body": None}
    try:
        if response.content:
            given["body"] = _response_body(response)
        encode_checked(given["headers"], _LIMITS)
        encode_checked(given["body"], _LIMITS)
    except (UsageError, UnicodeDecodeError, LookupError) as error:
        raise _Unreadable(f"the response cannot be read: {error}") from error
    return given


def _response_body(response: HttpResponse) -> Any:
    encoding = response.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise _Unreadable(f"the response is compressed as {quote(encoding)}, which was not requested")
    kind = response.content_type or "text/plain"
    if _JSON_TYPE.fullmatch(kind):
        return _response_json(response)
    if _TEXT_TYPE.match(kind):
        return _response_text(response)
    raise _Unreadable(f"the response is {quote(kind)}, neither JSON nor text")


def _response_json(response: HttpResponse) -> Any:
    """Return a body of a JSON content type: read as UTF-8, as JSON has to be, or else in the declared charset."""
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.decode(response.content)
    text = _response_text(response)
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        # Servers often label an error page as JSON.
        return text


def _response_text(response: HttpResponse) -> str:
    return response.content.decode(response.charset).removeprefix("\ufeff")


# actions of installed packages

GROUP = "memoranda.actions"
"""The entry point group; each entry names a marked function, an `Action`, or a module that contains some."""


class _Installed(msgspec.Struct, frozen=True):
    actions: dict[str, Action]
    broken: tuple[UsageError, ...]


def installed_actions(*, wanted: Iterable[str] = ()) -> dict[str, Action]:
    """Return the actions of installed packages, by name.

    A package that cannot be loaded is left out, so that it affects only workflows that need it: if one of the `wanted`
    names is missing, a UsageError says which package failed and why.
    """
    found = _load_installed()
    if found.broken and not found.actions.keys() >= set(wanted):
        raise found.broken[0]
    return dict(found.actions)


@cache
def _load_installed() -> _Installed:
    actions: dict[str, Action] = {}
    broken: list[UsageError] = []
    for point in sorted(entry_points(group=GROUP), key=lambda one: (_package(one), one.name)):
        try:
            actions |= _load_entry_point(point, actions)
        except UsageError as error:
            broken.append(error)
    return _Installed(actions, tuple(broken))


def _load_entry_point(point: EntryPoint, known: dict[str, Action]) -> dict[str, Action]:
    try:
        given = actions_of([point.load()])
    # Third-party code: its import can raise anything.
    except Exception as error:
        raise _load_error(point, f"{type(error).__name__}: {quote(words_of(error), longest=200)}") from error
    for name in given:
        if name in known:
            raise _load_error(point, f"another package also has an action {quote(name)}")
    return given


def _load_error(point: EntryPoint, why: str) -> UsageError:
    return UsageError(
        f"the actions {quote(point.value)} of the package {quote(_package(point))} cannot be loaded: {why}",
        hint="Fix or remove that package",
        package=_package(point),
        value=point.value,
    )


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else ""


BUILTIN: dict[str, Action] = actions_of(
    (ai, update_memory, send_text_message, wait_for_reply, set_context, call_workflow, http_request)
)
"""Every action of a workflow that does not have to be registered."""
