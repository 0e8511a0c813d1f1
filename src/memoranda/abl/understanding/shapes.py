"""The type of a field as it was declared in; the shape of its value out."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, cast

import msgspec

from memoranda.abl.type_names import type_name

Kind = Literal[
    "any", "text", "number", "boolean", "date", "datetime", "time", "email", "phone", "object", "choice", "null"
]

_KINDS: dict[str, Kind] = {"string": "text", "integer": "number"}
"""What a type is called here, where that is another word."""
_LIST_OF = re.compile(r"(?:array|list)\s*(?:<|\[|\(|of\s)([^<>\[\]()]+)[>\])]?", re.IGNORECASE)
_ENUM = re.compile(r"enum\s*[\[(<{]([^\[\]()<>{}]*)[\])>}]", re.IGNORECASE)
_LONGEST_TYPE = 1_000


class Shape(msgspec.Struct, frozen=True):
    """What a value looks like: its kind, or one of `choices`; with `many` a list of such."""

    kind: Kind
    many: bool = False
    whole: bool = False
    nullable: bool = False
    choices: tuple[str, ...] = ()
    others: tuple[Kind, ...] = ()


@lru_cache(maxsize=512)
def read_shape(type: str | None) -> Shape:
    """Return the shape that a type declares; a type that nobody knows is a text.

    >>> read_shape("string[]"), read_shape("economy|business").choices, read_shape("number|null").nullable
    (Shape(kind='text', many=True, whole=False, nullable=False, choices=(), others=()), ('economy', 'business'), True)
    """
    plain = (type or "").strip()[:_LONGEST_TYPE]
    if not plain:
        return Shape("any")
    if plain.endswith("?"):
        return msgspec.structs.replace(read_shape(plain[:-1]), nullable=True)
    if plain.endswith("[]"):
        return msgspec.structs.replace(read_shape(plain[:-2]), many=True)
    if type_name(plain) == "array":
        return Shape("any", many=True)
    if found := _LIST_OF.fullmatch(plain):
        return msgspec.structs.replace(read_shape(found[1].strip().removesuffix("s")), many=True)
    if found := _ENUM.fullmatch(plain):
        return Shape("choice", choices=_choices(re.split("[,|]", found[1])))
    return _union(plain.split("|")) if "|" in plain else _single(plain)


def _single(plain: str) -> Shape:
    if plain[0] in "'\"":
        return Shape("choice", choices=_choices([plain]))
    return Shape(_kind(plain) or "text", whole=type_name(plain) == "integer")


def _kind(word: str) -> Kind | None:
    name = type_name(word.strip())
    return None if name is None or name == "array" else _KINDS.get(name) or cast("Kind", name)


def _union(parts: list[str]) -> Shape:
    """Read `string|null` and `economy|business`: types if all of them are, else the values to choose from."""
    kinds: dict[str, Kind | None] = {part: _kind(part) for part in parts}
    nullable = "null" in kinds.values()
    rest = [part for part in parts if kinds[part] != "null"]
    known: list[Kind] = [kind for part in rest if (kind := kinds[part]) is not None]
    if len(known) < len(rest):
        return Shape("choice", nullable=nullable, choices=_choices(rest))
    if not known:
        return Shape("null", nullable=True)
    whole = len(rest) == 1 and _single(rest[0].strip()).whole
    return Shape(known[0], nullable=nullable, whole=whole, others=tuple(known[1:]))


def _choices(parts: list[str]) -> tuple[str, ...]:
    return tuple(plain for part in parts if (plain := part.strip().strip("'\"")))
