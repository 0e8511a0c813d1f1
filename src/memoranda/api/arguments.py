"""Checks of the arguments of remember and recall."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

import msgspec

from memoranda.engine.entries import Item
from memoranda.errors import Hint, InvalidValue, LimitExceeded, UsageError
from memoranda.model.limits import Limits, check_count, larger_limit
from memoranda.model.names import check_key, check_label, collection_key, require_label
from memoranda.model.text import quote
from memoranda.model.value import encode, encode_checked


def check_collection(name: str) -> str:
    """Return the name of a collection, or raise what is wrong with it."""
    # A program has few collections and names one in every call. Only exact strings are cached.
    return _known_collection(name) if type(name) is str else _check_collection(name)


def _check_collection(name: str) -> str:
    require_label("collection", name)
    check_key(collection_key(name))  # rules and accesses name it so
    return name


_known_collection = lru_cache(256)(_check_collection)


def check_namespace(name: str | None) -> str | None:
    """Return the name of a namespace, or raise what is wrong with it; entries without one are in the empty one."""
    if name != "":
        check_label("namespace", name)
    return name


def check_own_namespace(name: str) -> str:
    """Return the namespace of a write, which is never None, or raise what is wrong with it."""
    if cast(object, name) is None:
        raise UsageError("None is not a namespace to write to", hint="Name one, or leave it out", value=None)
    check_namespace(name)
    return name


def check_prefix(prefix: str) -> str:
    """Return the beginning of a name, or raise what is wrong with it."""
    if prefix != "":
        require_label("prefix", prefix)
    return prefix


def make_item(content: Any, metadata: Mapping[str, Any] | None, key: str | None, limits: Limits) -> Item:
    """Return one item to remember, or raise what is wrong with it."""
    check_label("key", key)
    check_says_something(content)
    return Item(
        payload=_encode_within("content", content, limits.content_bytes, limits),
        metadata=_encode_metadata(metadata, limits),
        key=key,
    )


CHUNK = 1_200
"""Characters of one part of a long text, unless another number is given."""


def split_items(text: Any, chunk: int | bool, metadata: Mapping[str, Any] | None, limits: Limits) -> tuple[Item, ...]:
    """Return the parts of a text: with `part` and `parts` as metadata, and a `thread` that makes them neighbours."""
    from memoranda.retrieval.chunks import split_text

    if not isinstance(text, str):
        hint = "Pass text, or leave out `chunk`"
        raise InvalidValue(f"{quote(text)} is {type(text).__name__}, and only text has parts", hint=hint, path="$")
    check_says_something(text)
    if cast(object, chunk) is None:
        raise UsageError("None is not a chunk", hint="Pass a whole number from 1 on, or leave it out")
    size = CHUNK if chunk is True else chunk
    check_count("chunk", size, least=1)
    parts = split_text(text, size)
    if len(parts) > limits.batch:
        raise LimitExceeded(
            f"the text has {len(parts):,} parts of at most {size:,} characters, the limit is {limits.batch:,}",
            hint=("Pass a larger `chunk`", larger_limit("batch")),
            limit=limits.batch,
            actual=len(parts),
        )
    about = check_metadata(metadata)
    if not {"thread", "session"} & about.keys():
        about["thread"] = f"text:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
    return tuple(
        make_item(part, {**about, "part": number, "parts": len(parts)}, None, limits)
        for number, part in enumerate(parts, 1)
    )


def check_says_something(content: Any) -> None:
    """Raise InvalidValue for empty content."""
    if not content.strip() if isinstance(content, str) else content is None or content in ([], {}):
        raise InvalidValue("the content to remember is empty", hint="Pass text or JSON that says something", path="$")


def check_query(query: str, limits: Limits) -> None:
    """Raise what is wrong with a query: it has to be text, not longer than an entry."""
    if not isinstance(cast(object, query), str):
        raise UsageError(f"the query {quote(query)} is {type(query).__name__}, not text", hint="Pass text", value=query)
    try:
        size = len(query.encode())
    except UnicodeEncodeError:
        raise UsageError(
            f"the query {quote(query)} contains half of a surrogate pair",
            hint="Pass text that can be encoded",
            value=query,
        ) from None
    if size > limits.content_bytes:
        raise LimitExceeded(
            f"the query has {len(query):,} characters, and {limits.content_bytes:,} bytes are the limit",
            hint=("Ask with a sentence", larger_limit("content_bytes")),
            limit=limits.content_bytes,
            actual=size,
        )


def check_recall_limit(what: str, number: Any, limits: Limits, *, path: str) -> None:
    """Raise what is wrong with a number of matches or neighbours: it is a whole number below the limit."""
    if number is None:
        raise UsageError(f"None is not a {what}", hint="Pass a whole number, or leave it out", path=path)
    check_count(what, number, path=path)
    if number > limits.recall:
        raise LimitExceeded(
            f"the {what} {number:,} is above the maximum of {limits.recall:,}",
            hint=("Ask for fewer", larger_limit("recall")),
            limit=limits.recall,
            actual=number,
            path=path,
        )


def check_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a copy of the metadata, or raise InvalidValue; filters could not use names that begin with `$`."""
    if metadata is None:
        return {}
    if not isinstance(cast(object, metadata), (dict, Mapping)):  # `dict` is quicker to test
        raise InvalidValue(
            f"the metadata {quote(metadata)} are {type(metadata).__name__}, not a map",
            hint='Pass a dict such as {"account": "acme"}',
            path="$",
        )
    for name in cast(Mapping[object, Any], metadata):
        if isinstance(name, str) and name[:1] == "$":
            raise InvalidValue(
                f"{quote(name)} cannot name metadata: `$` begins the operators of filters",
                hint="Use another name",
                path=f"$.{name}",
            )
    return dict(metadata)


_PLAIN_NAMES = frozenset({str})
_PLAIN_VALUES = frozenset({str, bool, type(None)})


def _encode_metadata(metadata: Mapping[str, Any] | None, limits: Limits) -> msgspec.Raw:
    # Most are a few texts. Those need no path for a message, and what must not be in them shows in the JSON.
    if type(cast(object, metadata)) is dict:
        plain = cast("dict[Any, Any]", metadata)
        if _PLAIN_NAMES.issuperset(map(type, plain)) and _PLAIN_VALUES.issuperset(map(type, plain.values())):
            try:
                encoded = encode(plain)
            except UnicodeEncodeError:  # half of a surrogate pair: the error names it
                encoded = b'"$'
            if b'"$' not in encoded and b"\\u0000" not in encoded and len(encoded) <= limits.metadata_bytes:
                return msgspec.Raw(encoded)
    return _encode_within("metadata", check_metadata(metadata), limits.metadata_bytes, limits)


def _encode_within(what: str, value: Any, most: int, limits: Limits) -> msgspec.Raw:
    # The limit is this one alone, so that it is the one named, with what to do about it.
    payload = encode_checked(value, limits, any_size=True)
    if len(payload) > most:
        hint = ("Shorten it", larger_limit(f"{what}_bytes"))
        if what == "content":
            hint = (Hint("split"), larger_limit(f"{what}_bytes"))
        raise LimitExceeded(
            f"the {what} takes {len(payload):,} bytes as JSON, the limit is {most:,}",
            hint=hint,
            limit=most,
            actual=len(payload),
            what=f"{what}_bytes",
        )
    return msgspec.Raw(payload)
