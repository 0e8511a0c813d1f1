"""What a test expects and what came in, every difference out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, cast

import msgspec

from memoranda.lang.expression.patterns import compile_pattern, search
from memoranda.model.text import quote

How = Literal["has", "is", "not", "matches"]


class Wording(msgspec.Struct, frozen=True):
    """What somebody's words are compared with: a part of them, all of them, none of them, or a pattern."""

    how: How
    text: str


def fits(wording: Wording, text: str) -> bool:
    """Say whether a text is as a wording has it; white space around it does not count."""
    match wording.how:
        case "is":
            return text.strip() == wording.text.strip()
        case "not":
            return wording.text not in text
        case "matches":
            return search(compile_pattern(wording.text), text) is not None
        case _:
            return wording.text in text


def described(wording: Wording) -> str:
    """Return a wording in words."""
    words = {"has": "", "is": "exactly ", "not": "not ", "matches": "what matches "}
    return words[wording.how] + quote(wording.text, longest=400)


class Different(NamedTuple):
    """One place where a value is not as expected; what is not there is None."""

    path: tuple[str | int, ...]
    expected: Any
    got: Any

    @property
    def where(self) -> str:
        """The path as people write it: `items[0].name`."""
        return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path).removeprefix(".")


def differences(expected: Any, got: Any, path: tuple[str | int, ...] = ()) -> Iterator[Different]:
    """Yield every place where a JSON value is not as expected: 1 is 1.0, but never true.

    Of a map, what is expected names the keys that count; of a list it has every item.
    """
    if isinstance(expected, dict) and isinstance(got, dict):
        found = cast("dict[str, Any]", got)
        for name, value in cast("dict[str, Any]", expected).items():
            yield from differences(value, found.get(name), (*path, name))
        return
    if isinstance(expected, list) and isinstance(got, list):
        wanted, items = cast("list[Any]", expected), cast("list[Any]", got)
        if len(wanted) == len(items):
            for at, (one, other) in enumerate(zip(wanted, items, strict=True)):
                yield from differences(one, other, (*path, at))
            return
    elif isinstance(expected, bool) == isinstance(got, bool) and expected == got:
        return
    yield Different(path, expected, got)
