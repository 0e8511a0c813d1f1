"""Text and the name of a file in, the file out."""

from __future__ import annotations

from memoranda.errors import UsageError
from memoranda.model.text import quote


def write_file(name: str, text: str) -> None:
    """Write a file that was named on the command line, in UTF-8; it is replaced if it exists."""
    try:
        with open(name, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        message = f"{quote(name)} cannot be written: {error.strerror or error}"
        raise UsageError(message, hint="Make it writable, or name another file", path=name) from None
