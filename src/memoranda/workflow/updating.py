"""A model's call of `update_memory` in, what it is told out: it may update the records that its task mounts, no others.

Whatever the model sends, the run goes on: what cannot be stored is an error for the model to read, and nothing of that
call is stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, cast

import msgspec

from memoranda.agent.conversing import ToolFailed
from memoranda.agent.models import ToolSpec
from memoranda.errors import NotFound, Refused, ScopeEnded, UsageError
from memoranda.model.definition import MODE_WORD, Definition
from memoranda.model.text import quote
from memoranda.model.value import encode
from memoranda.workflow.keywords import UPDATE_MEMORY
from memoranda.workflow.records import WorkingMemory

_REPLACES = "is replaced by what you send: repeat every field that should stay"
_MERGES = "keeps the fields that you leave out"


class Updated(msgspec.Struct, frozen=True, kw_only=True):
    """What a call came to: the text that the model is told, and the records as they were stored."""

    text: str
    memory: dict[str, Any] = {}
    refused: ToolFailed | None = None
    """Why nothing was stored."""

    @property
    def failed(self) -> bool:
        """Whether nothing was stored."""
        return self.refused is not None


def update_tool(definitions: Iterable[Definition]) -> ToolSpec | None:
    """Return the tool for the mounted definitions; None where none is mounted."""
    mounted = {definition.slug: definition for definition in definitions}
    if not mounted:
        return None
    rules = [f"`{slug}` {_MERGES if one.mode == 'merge' else _REPLACES}" for slug, one in mounted.items()]
    description = f"Save what should be remembered beyond this conversation. {'; '.join(rules)}."
    parameters = _closed({"memory": _closed({slug: _schema(one) for slug, one in mounted.items()})})
    return ToolSpec(UPDATE_MEMORY, description, {**parameters, "required": ["memory"]})


def apply(working: WorkingMemory, mounted: Collection[str], arguments: Any) -> Updated:
    """Store what a model sent for the mounted slugs, all or nothing, and return what it is told."""
    try:
        stored = working.write(_mounted_only(arguments, mounted))
    except (UsageError, NotFound, Refused, ScopeEnded) as error:
        failed = ToolFailed(error)
        return Updated(text=encode({"error": str(failed), **failed.about}).decode(), refused=failed)
    return Updated(text=encode({"memory": stored}).decode(), memory=stored)


def _mounted_only(arguments: Any, mounted: Collection[str]) -> dict[str, Any]:
    if not isinstance(arguments, dict) or set(cast("dict[Any, Any]", arguments)) != {"memory"}:
        raise UsageError("the arguments are an object with the one property `memory`", hint=_form(mounted))
    updates = cast("dict[str, Any]", arguments)["memory"]
    if not isinstance(updates, dict):
        raise UsageError("`memory` is an object with a value for each name", hint=_form(mounted))
    given = cast("dict[str, Any]", updates)
    outside = [slug for slug in given if slug not in mounted]
    if outside:
        raise NotFound(f"{', '.join(map(quote, outside[:5]))} cannot be updated here", hint=_form(mounted))
    return given


def _form(mounted: Collection[str]) -> str:
    return f"Names are {', '.join(mounted)}"


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _schema(definition: Definition) -> dict[str, Any]:
    """Return a definition's schema as a part of the tool's: its references lead to where it stands now."""
    own = {word: part for word, part in definition.schema.items() if word not in (MODE_WORD, "$schema")}
    moved = own if "$id" in own else _moved(own, f"#/properties/memory/properties/{definition.slug}")
    return _without_required(moved) if definition.mode == "merge" else moved


def _moved(node: Any, place: str) -> Any:
    if isinstance(node, list):
        return [_moved(item, place) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    return {
        word: f"{place}{part[1:]}" if word == "$ref" and _is_pointer(part) else _moved(part, place)
        for word, part in cast("dict[str, Any]", node).items()
    }


def _is_pointer(reference: Any) -> bool:
    return isinstance(reference, str) and (reference == "#" or reference.startswith("#/"))


def _without_required(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a change: fields that are left out stay, so none has to be sent, at any level."""
    optional = {word: part for word, part in schema.items() if word != "required"}
    if isinstance(optional.get("properties"), dict):
        properties = cast("dict[str, Any]", optional["properties"])
        optional["properties"] = {
            name: _without_required(cast("dict[str, Any]", part)) if isinstance(part, dict) else part
            for name, part in properties.items()
        }
    return optional
