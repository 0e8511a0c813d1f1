"""Definitions and their values in, the text that tells a model what is remembered out.

What was remembered may have been said by anybody, so no value, and no name of a field, can begin a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from memoranda.engine.schemas import parts_of
from memoranda.lang.expression.wording import word
from memoranda.model.definition import Definition
from memoranda.model.text import escape_hidden

HEADING = "# Working Memory"

_BREAKS = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_JOINTS = re.compile(r"[_\-\s]+")
_WHOLE = 2**31
"""Characters: a value that could be stored is shown whole."""


def working_memory(definitions: Iterable[Definition], values: Mapping[str, Any]) -> str:
    """Return what is remembered under one heading for each definition, in their order; empty where there is nothing.

    >>> from memoranda.model.clock import EPOCH
    >>> shoes = Definition(
    ...     id="", tenant="", name="Shoes", slug="shoes", scope="global", created_at=EPOCH, updated_at=EPOCH,
    ...     schema={"type": "object", "properties": {"shoe_size": {"type": "integer"}}},
    ... )
    >>> print(working_memory([shoes], {"shoes": {"shoe_size": 38}}))
    # Working Memory
    ## Shoes
    - Shoe size: 38
    """
    once = {definition.slug: definition for definition in definitions}
    sections = [
        "\n".join((f"## {_one_line(definition.name)}", *lines))
        for slug, definition in once.items()
        if (lines := list(_lines(definition.schema, values.get(slug))))
    ]
    return "\n".join((HEADING, "\n\n".join(sections))) if sections else ""


def append_to(system: str | None, memory_text: str) -> str:
    """Return the instructions of a model with what is remembered below them, after one blank line."""
    if not memory_text:
        return system or ""
    above = (system or "").rstrip()
    return f"{above}\n\n{memory_text}" if above else memory_text


def _lines(schema: dict[str, Any], value: Any) -> Iterator[str]:
    """Yield a line for each field: those of the schema in its order, then what else there is."""
    if not isinstance(value, dict):
        return
    fields = cast("dict[str, Any]", value)
    properties = _properties(schema)
    listed = [name for name in properties if name in fields]
    for name in (*listed, *(name for name in fields if name not in properties)):
        yield f"- {_label(name, properties.get(name), schema)}: {_shown(fields[name])}"


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in parts_of(schema, schema):
        for name, below in cast("dict[str, Any]", part.get("properties", {})).items():
            found.setdefault(name, below)
    return found


def _label(name: str, schema: Any, root: dict[str, Any]) -> str:
    """Return what a field is called: its title, or its own name as people would write it."""
    for part in parts_of(schema, root):
        title = part.get("title")
        if isinstance(title, str) and title.strip():
            return _one_line(title.strip())
    spaced = _JOINTS.sub(" ", name).strip() or name
    return _one_line(spaced[:1].upper() + spaced[1:])


def _shown(value: Any) -> str:
    return "null" if value is None else _one_line(word(value, most=_WHOLE))


def _one_line(text: str) -> str:
    return escape_hidden(_BREAKS.sub(" ", text))
