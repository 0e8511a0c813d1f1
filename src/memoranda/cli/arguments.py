"""Values and files that are named on the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from memoranda.errors import InvalidDefinition, InvalidValue, UsageError
from memoranda.model.text import quote

STDIN = "-"


def read_value(given: str, *, as_json: bool) -> Any:
    """Return the value of a fact, as text or JSON; `-` reads stdin."""
    text = read_stdin() if given == STDIN else given
    if not as_json:
        # `echo hello | …` means hello; a line break at the end needs JSON.
        return text.removesuffix("\n") if given == STDIN else text
    try:
        return _decode(text)
    except ValueError as error:
        hint = "Remove --as-json to store it as text"
        raise InvalidValue(f"the value is not JSON: {error}", hint=hint, path="$") from None


def read_schema(given: str) -> dict[str, Any]:
    """Return a JSON schema, given as JSON, as a file name, or as `-` for stdin."""
    text = read_stdin() if given == STDIN else given if given.lstrip().startswith("{") else read_file(given)
    try:
        return _decode(text, dict[str, Any])
    except ValueError as error:
        hint = "Use JSON, the name of a JSON file, or - for stdin"
        raise InvalidDefinition(f"the schema is not a JSON object: {error}", hint=hint) from None


def read_metadata(pairs: Sequence[str], given: str | None) -> dict[str, Any]:
    """Return metadata, given as `key=value` with text values, and as a JSON object."""
    metadata = {} if given is None else read_object("--metadata-json", given)
    for name, text in _read_pairs("--metadata", pairs, taken=metadata):
        metadata[name] = text
    return metadata


def read_filter(pairs: Sequence[str], given: str | None) -> dict[str, Any] | None:
    """Return a filter, given as `key=value` and as a JSON object; None without either.

    `urgency=3` matches both the number and the text.
    """
    filter = {} if given is None else read_object("--filter-json", given)
    for name, text in _read_pairs("--filter", pairs, taken=filter):
        filter[name] = {"$in": [text, *_scalar(text)]}
    return filter or None


def _read_pairs(option: str, pairs: Sequence[str], *, taken: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    seen = set(taken)
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"{quote(pair)} in {option} is not key=value", hint=f"Write {option} account=acme")
        if name in seen:
            raise UsageError(f"{quote(name)} is given twice in {option}", hint=f"Give lists as JSON: {option}-json")
        seen.add(name)
        yield name, text


def read_object(option: str, given: str) -> dict[str, Any]:
    """Parse an option's value as a JSON object."""
    try:
        return _decode(given, dict[str, Any])
    except ValueError as error:
        message = f"{quote(given)} in {option} is not a JSON object: {error}"
        raise UsageError(message, hint=f"""Write {option} '{{"urgency": 3}}'""") from None


def read_json(option: str, given: str) -> Any:
    """Parse an option's value as JSON: the text itself, `@file`, or `-` for stdin."""
    text = read_text(given)
    try:
        return _decode(text)
    except ValueError as error:
        message = f"{quote(text)} in {option} is not JSON: {error}"
        raise UsageError(message, hint=f"""Write {option} '{{"paid": true}}', or @file""") from None


def read_text(given: str) -> str:
    """Return an option's value: the text itself, `@file`, or `-` for stdin."""
    if given == STDIN:
        return read_stdin()
    return read_file(given[1:]) if given.startswith("@") else given


def _scalar(text: str) -> tuple[float | bool | None, ...]:
    """Return the number, boolean or null that a text is as JSON, if any."""
    try:
        return (_decode(text, int | float | bool | None),)
    except ValueError:
        return ()


def _decode(text: str, kind: Any = Any) -> Any:
    # Here, because most commands read no JSON. Both its errors and those of text that is not UTF-8 are ValueErrors.
    import msgspec

    return msgspec.json.decode(text, type=kind)


def read_file(name: str) -> str:
    """Read a text file."""
    try:
        return Path(name).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise unreadable(name, error) from None
    except UnicodeDecodeError:
        raise UsageError(f"`{name}` is not text in UTF-8", hint="Name another file", path=name) from None


def unreadable(name: str, error: OSError) -> UsageError:
    """Return the error for a file that cannot be read."""
    return UsageError(
        f"`{name}` cannot be read: {error.strerror or error}", hint="Name a file that can be read", path=name
    )


def read_stdin() -> str:
    """Read all of stdin as text."""
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise UsageError("stdin is not text in UTF-8", hint="Convert it first") from None


def write_file(name: str, text: str) -> None:
    """Write a text file in UTF-8; an existing file is replaced."""
    try:
        with open(name, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        message = f"{quote(name)} cannot be written: {error.strerror or error}"
        raise UsageError(message, hint="Make it writable, or name another file", path=name) from None
