"""What is given on the command line in, the value it stands for out: text, JSON, a file, or stdin."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from recollect.errors import InvalidDefinition, InvalidValue, UsageError

STDIN = "-"


def read_value(given: str, *, as_json: bool) -> Any:
    """Return the value of a fact: the text itself, or the JSON it holds; `-` reads either from stdin."""
    text = _stdin() if given == STDIN else given
    if not as_json:
        # `echo hello | …` means hello; whoever wants the line break writes JSON.
        return text.removesuffix("\n") if given == STDIN else text
    import msgspec

    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise InvalidValue(
            f"the value is not JSON: {error}", hint="Leave --as-json out to store it as text", path="$"
        ) from None


def read_schema(given: str) -> dict[str, Any]:
    """Return a JSON schema that is given as JSON text, as the name of a file, or as `-` for stdin."""
    import msgspec

    text = _stdin() if given == STDIN else given if given.lstrip().startswith("{") else read_file(given)
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise InvalidDefinition(
            f"the schema is not a JSON object: {error}", hint="Give JSON, a file that holds it, or - for stdin"
        ) from None


def read_file(name: str) -> str:
    """Return the text of a file that was named on the command line."""
    try:
        return Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise unreadable(name, error) from None
    except UnicodeDecodeError:
        raise UsageError(f"`{name}` is not text in UTF-8", hint="Name another file", path=name) from None


def unreadable(name: str, error: OSError) -> UsageError:
    """Return the error that says a file cannot be read."""
    return UsageError(
        f"`{name}` cannot be read: {error.strerror or error}", hint="Name a file that can be read", path=name
    )


def _stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise UsageError("stdin is not text in UTF-8", hint="Convert it first") from None
