"""What one call to the server is, as a value: where it goes, what it carries, and whether it may be sent twice."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast
from urllib.parse import quote as percent

import msgspec

from memoranda.errors import InvalidFilter, InvalidValue, UsageError
from memoranda.model.duration import Duration, parse_duration
from memoranda.model.limits import Limits
from memoranda.model.text import check_label, quote
from memoranda.model.value import encode_checked

API = "/api/v1"

# How large things may be is the server's to say.
_ANY_SIZE = Limits(value_bytes=2**62, depth=200)


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `repeatable` says that sending it twice does no more than sending it once."""

    method: str
    path: str
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    body: bytes | None = None
    repeatable: bool = False
    timeout: float | None = None
    """Seconds, where the call may take longer than others."""


def path(*segments: str) -> str:
    """Return the path of a route from its segments, each escaped, so that no name can lead elsewhere.

    >>> path("memory", "facts", "a/../b")
    '/api/v1/memory/facts/a%2F..%2Fb'
    """
    return "/".join((API, *map(_segment, segments)))


def _segment(name: object) -> str:
    """Return a name as one segment of a path."""
    # A client may not send `.` or `..` as they are: whatever stands in between is allowed to resolve them.
    if not isinstance(name, str) or name in ("", ".", ".."):
        raise UsageError(f"{quote(name)} cannot be part of an address", hint="Pass the name or id that the server gave")
    return percent(_whole(name), safe="")


def _whole(text: str) -> str:
    """Return a text that an address can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{quote(text)} cannot be part of an address", hint="It holds half of a character: pass whole text"
        ) from None
    return text


def parameters(**given: object) -> dict[str, str]:
    """Return the parameters of a query, without those that are None.

    >>> parameters(scope="agent", agent_id=None, limit=5, all=True)
    {'scope': 'agent', 'limit': '5', 'all': 'true'}
    """
    return {name: _parameter(value) for name, value in given.items() if value is not None}


def _parameter(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _whole(value.isoformat() if isinstance(value, datetime) else str(value))


def moment(given: datetime | str | None) -> str | None:
    """Return a moment as the server reads it; text goes as it is, so that the server alone says what is one."""
    return given.isoformat() if isinstance(given, datetime) else given


def seconds(given: Duration | None) -> int | None:
    """Return a duration as the server takes it, None where none is given; refuse what is none, as the engine would.

    >>> seconds("2h"), seconds(None)
    (7200, None)
    """
    return None if given is None else parse_duration(given)


def body(**fields: Any) -> bytes:
    """Return the fields of a body as JSON; refuse what JSON cannot say, as the engine would: with its path.

    >>> body(content="- Likes tea", expected_updated_at=None)
    b'{"content":"- Likes tea","expected_updated_at":null}'
    """
    return msgspec.json.encode({name: msgspec.Raw(_encoded(value)) for name, value in fields.items()})


def _encoded(value: Any) -> bytes:
    plain = dict(cast("Mapping[Any, Any]", value)) if isinstance(value, Mapping) else value
    return encode_checked(plain, _ANY_SIZE)


def checked_filter(filter: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the filter of a recall; refuse one that JSON cannot say, as what it is."""
    if filter is None:
        return None
    try:
        if not isinstance(cast(object, filter), Mapping):
            raise InvalidValue(f"{quote(filter)} is no filter", hint='Pass a map such as {"account": "acme"}', path="$")
        encode_checked(dict(filter), _ANY_SIZE)
    except InvalidValue as error:
        raise InvalidFilter(error.message, hint=error.hint, path=error.path) from None
    return dict(filter)


def checked_item(item: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return one of many things to remember; refuse what is none, as the engine would: with its number."""
    if not isinstance(cast(object, item), Mapping) or "content" not in item:
        raise UsageError(
            f"item {number} is {quote(item)}, not something to remember",
            hint='Pass maps such as {"content": "…", "metadata": {…}, "key": "…"}',
            item=number,
        )
    return {name: value for name, value in item.items() if name == "content" or value is not None}


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that were given; the server knows the defaults of the others.

    >>> given(query="price", limit=None)
    {'query': 'price'}
    """
    return {name: value for name, value in fields.items() if value is not None}


def expecting(version: int | None) -> dict[str, str]:
    """Return the header that says which version a write must find, 0 for none at all.

    >>> expecting(3), expecting(0), expecting(None)
    ({'If-Match': '"3"'}, {'If-None-Match': '*'}, {})
    """
    if version is None:
        return {}
    return {"If-Match": f'"{version}"'} if version else {"If-None-Match": "*"}


def once(idempotency_key: str | None) -> dict[str, str]:
    """Return the header that makes a write happen once, however often it is sent; refuse what is no key."""
    check_label("idempotency key", idempotency_key)
    return {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
