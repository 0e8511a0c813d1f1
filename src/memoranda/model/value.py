"""Values: what a fact may contain, how it is encoded as JSON, and the hashes of it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

import msgspec

from memoranda.errors import InvalidValue, LimitExceeded
from memoranda.model.limits import Limits, larger_limit
from memoranda.model.text import quote

# Methods of the encoders themselves: every call asks for them several times, and a function around one costs as much.
encode = msgspec.json.Encoder().encode
"""Write a checked value as JSON, in the order its keys came."""
canonical = msgspec.json.Encoder(order="sorted").encode
"""Write a value as the one JSON text its hash is taken over: sorted keys, no spaces, UTF-8."""
decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode
"""Read a stored value; each call gives a fresh copy that the caller may change."""

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


def hash_body(body: bytes) -> str:
    """Return the hash of an event's canonical JSON."""
    return "sha256:" + hashlib.sha256(body).hexdigest()


def hash_content(key: bytes, payload: bytes) -> str:
    """Return a hash of content that cannot be guessed without the key, which is erased with its subject."""
    return "blake2b:" + hashlib.blake2b(payload, key=key, digest_size=32).hexdigest()


def encode_checked(value: Any, limits: Limits, *, any_size: bool = False) -> bytes:
    """Write a value as JSON, or refuse it naming the path of the fault; of `any_size`, or else within the limit."""
    if not isinstance(value, str) or "\0" in value:
        try:
            _check(value, "$", limits.depth)
        except _TooDeep as fault:
            raise LimitExceeded(
                f"the value is nested more than {limits.depth} deep at {fault.path[:80]}",
                hint="Flatten it; a value that contains itself cannot be stored",
                limit=limits.depth,
                actual=limits.depth + 1,
                path=fault.path,
            ) from None
    try:
        payload = encode(value)
    except UnicodeEncodeError:
        raise InvalidValue(
            "the value contains half of a surrogate pair, which cannot be encoded",
            hint="Decode the text properly before storing it",
            path="$",
        ) from None
    if len(payload) > limits.value_bytes and not any_size:
        raise LimitExceeded(
            f"the value takes {len(payload):,} bytes as JSON, the limit is {limits.value_bytes:,}",
            hint=("Store it elsewhere and keep its address", "Split it", larger_limit("value_bytes")),
            limit=limits.value_bytes,
            actual=len(payload),
            what="value_bytes",
        )
    return payload


class _TooDeep(Exception):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def _check(value: object, path: str, depth: int) -> None:
    check = _CHECKS.get(type(value))
    if check is None:
        raise InvalidValue(
            f"{quote(value)} at {path} is {type(value).__name__}, which JSON has no word for",
            hint="Use text, numbers, booleans, None, lists and dicts; make a tuple a list and a date ISO text",
            path=path,
        )
    check(value, path, depth)


def _check_text(value: str, path: str, depth: int) -> None:
    if "\0" in value:
        raise InvalidValue(f"the text at {path} contains a NUL character", hint="Remove it", path=path)


def _check_integer(value: int, path: str, depth: int) -> None:
    if not _SMALLEST <= value <= _LARGEST:
        raise InvalidValue(f"the number at {path} does not fit in 64 bits", hint="Store it as text", path=path)


def _check_number(value: float, path: str, depth: int) -> None:
    if not math.isfinite(value):
        raise InvalidValue(f"{value} at {path} is not a JSON number", hint="Store null, or leave it out", path=path)


def _check_list(value: list[Any], path: str, depth: int) -> None:
    if depth <= 0:
        raise _TooDeep(path)
    for place, item in enumerate(value):
        if not _plain(item):
            _check(item, f"{path}[{place}]", depth - 1)


def _check_object(value: dict[Any, Any], path: str, depth: int) -> None:
    if depth <= 0:
        raise _TooDeep(path)
    for name, item in value.items():
        if type(name) is not str or "\0" in name:
            raise InvalidValue(
                f"the name {quote(name)} at {path} is not text without NUL",
                hint="JSON objects are keyed by text",
                path=path,
            )
        # Most are text, for which even asking takes as long as all the rest.
        if (type(item) is not str or "\0" in item) and not _plain(item):
            _check(item, f"{path}.{name}", depth - 1)


def _plain(item: object) -> bool:
    """Return whether an item is certainly valid: most are, and need no path for a message."""
    if type(item) is str:
        return "\0" not in item
    if type(item) is int:
        return _SMALLEST <= item <= _LARGEST
    return item is None or item is True or item is False


def _check_nothing(value: Any, path: str, depth: int) -> None:
    """Accept null and booleans as they are."""


# By exact type: a subclass of int or dict may not come back as what went in.
_CHECKS: dict[type[Any], Callable[[Any, str, int], None]] = {
    type(None): _check_nothing,
    bool: _check_nothing,
    str: _check_text,
    int: _check_integer,
    float: _check_number,
    list: _check_list,
    dict: _check_object,
}
