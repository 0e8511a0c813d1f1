"""Requests to a server as values: path, query, headers, body, and whether they may be sent twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import Any, cast
from urllib.parse import quote as percent

import msgspec

from memoranda.client.sse import BEGINNING
from memoranda.errors import InvalidFilter, InvalidValue, UsageError
from memoranda.model.clock import Duration, SystemIds, parse_duration
from memoranda.model.limits import Limits
from memoranda.model.names import check_label
from memoranda.model.text import quote
from memoranda.model.value import encode_checked
from memoranda.wire.chat import MemoryPolicy

API = "/api/v1"

# Sizes are checked by the server.
_ANY_SIZE = Limits(value_bytes=2**62, depth=200)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request. `repeatable` means that sending it twice has the same effect as once."""

    method: str
    path: str
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    body: bytes | None = None
    repeatable: bool = False
    timeout: float | None = None
    """Timeout in seconds; None for the client's own."""


def read_request(path: str, query: dict[str, str]) -> Request:
    """Return a request that only reads, and so may be sent twice."""
    return Request(method="GET", path=path, query=query, repeatable=True)


def path(*segments: str) -> str:
    """Return the path of a route from its segments, each escaped.

    >>> path("memory", "facts", "a/../b")
    '/api/v1/memory/facts/a%2F..%2Fb'
    """
    return "/".join((API, *map(_segment, segments)))


def _segment(name: object) -> str:
    # `.` and `..` cannot be sent: proxies may resolve them.
    if not isinstance(name, str) or name in ("", ".", ".."):
        raise UsageError(f"{quote(name)} cannot be part of a URL", hint="Pass a name or id")
    return percent(_valid_unicode(name), safe="")


def _valid_unicode(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{quote(text)} cannot be part of a URL", hint="It contains a lone surrogate: pass valid Unicode"
        ) from None
    return text


def parameters(**values: object) -> dict[str, str]:
    """Return query parameters, without those that are None.

    >>> parameters(scope="agent", agent_id=None, limit=5, all=True)
    {'scope': 'agent', 'limit': '5', 'all': 'true'}
    """
    return {name: _parameter(value) for name, value in values.items() if value is not None}


def _parameter(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _valid_unicode(value.isoformat() if isinstance(value, datetime) else str(value))


def moment(value: datetime | str | None) -> str | None:
    """Return a timestamp as text; text is left to the server to validate."""
    return value.isoformat() if isinstance(value, datetime) else value


def seconds(value: Duration | None) -> int | None:
    """Return a duration in seconds, or None.

    >>> seconds("2h"), seconds(None)
    (7200, None)
    """
    return None if value is None else parse_duration(value)


def body(**fields: Any) -> bytes:
    """Encode the fields of a body as JSON; raise InvalidValue with the path of a value that is not JSON.

    >>> body(content="- Likes tea", expected_updated_at=None)
    b'{"content":"- Likes tea","expected_updated_at":null}'
    """
    return msgspec.json.encode({name: msgspec.Raw(_encode(value)) for name, value in fields.items()})


def _encode(value: Any) -> bytes:
    plain = dict(cast("Mapping[Any, Any]", value)) if isinstance(value, Mapping) else value
    return encode_checked(plain, _ANY_SIZE)


def filter_object(filter: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the filter of a recall as a dict; raise InvalidFilter if it is not JSON."""
    if filter is None:
        return None
    try:
        if not isinstance(cast(object, filter), Mapping):
            raise InvalidValue(
                f"{quote(filter)} is not a filter", hint='Pass a mapping such as {"account": "acme"}', path="$"
            )
        encode_checked(dict(filter), _ANY_SIZE)
    except InvalidValue as error:
        raise InvalidFilter(error.message, hint=error.advice, path=error.path) from None
    return dict(filter)


def filter_text(filter: Mapping[str, Any] | None) -> str | None:
    """Return a filter as a query parameter."""
    found = filter_object(filter)
    return None if found is None else encode_checked(found, _ANY_SIZE).decode()


def item_object(item: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return an item of `remember_many` as a dict; raise UsageError with its number if it is not valid."""
    if not isinstance(cast(object, item), Mapping) or "content" not in item:
        raise UsageError(
            f"item {number} is {quote(item)}, not a mapping with `content`",
            hint='Pass mappings such as {"content": "…", "metadata": {…}, "key": "…"}',
            item=number,
        )
    return {name: value for name, value in item.items() if name == "content" or value is not None}


def without_none(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None; the server has defaults for the others.

    >>> without_none(query="price", limit=None)
    {'query': 'price'}
    """
    return {name: value for name, value in fields.items() if value is not None}


def plain_messages(messages: Any) -> list[Any]:
    """Return messages of any provider as JSON values; objects are dumped as they dump themselves.

    >>> plain_messages("I live in Faro.")
    ['I live in Faro.']
    """
    single = isinstance(messages, str | Mapping) or not isinstance(messages, Iterable)
    several: Iterable[Any] = [cast(object, messages)] if single else cast("Iterable[Any]", messages)
    return [_plain_message(one) for one in several]


def _plain_message(message: Any) -> Any:
    dump = getattr(message, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if is_dataclass(message) and not isinstance(message, type):
        message = asdict(message)
    if isinstance(message, Mapping):
        fields = cast("Mapping[str, Any]", message).items()
        return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in fields}
    return message


def version_header(version: int | None) -> dict[str, str]:
    """Return the header for the version that a write expects, 0 for a new fact.

    >>> version_header(3), version_header(0), version_header(None)
    ({'If-Match': '"3"'}, {'If-None-Match': '*'}, {})
    """
    if version is None:
        return {}
    return {"If-Match": f'"{version}"'} if version else {"If-None-Match": "*"}


def idempotency_header(idempotency_key: str | None) -> dict[str, str]:
    """Return the header that makes a repeated write happen once."""
    check_label("idempotency key", idempotency_key)
    return {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}


_ids = SystemIds()


def chat_request(
    agent_id: str,
    message: str,
    conversation_id: str | None,
    message_id: str | None,
    memory_policy: Mapping[str, Any] | MemoryPolicy | None,
    *,
    stream: bool,
    timeout: float | None,
    **options: Any,
) -> Request:
    """Return the request of a chat message; missing ids are generated, and make it safe to send again."""
    sent = body(
        message=message,
        conversation_id=_ids.new("conversation") if conversation_id is None else conversation_id,
        message_id=_ids.new("message") if message_id is None else message_id,
        stream=stream,
        **without_none(memory_policy=policy_object(memory_policy), **options),
    )
    # On a retry the first request may still be running: the header makes the server wait for its reply.
    headers = {} if stream else {"Last-Event-ID": BEGINNING}
    place = path("agent", agent_id, "chat")
    return Request(method="POST", path=place, headers=headers, body=sent, repeatable=True, timeout=timeout)


def policy_object(policy: Mapping[str, Any] | MemoryPolicy | None) -> dict[str, Any] | None:
    """Return the given fields of a memory policy."""
    if policy is None:
        return None
    return msgspec.to_builtins(policy) if isinstance(policy, MemoryPolicy) else dict(policy)
