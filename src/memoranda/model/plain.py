"""Values as plain JSON: dicts, lists and scalars, with scopes as text."""

from __future__ import annotations

from typing import Any

import msgspec

from memoranda.model.effect import Effect
from memoranda.model.policy import Grant
from memoranda.model.scope import Scope


def plain(value: Any) -> Any:
    """Return a value made of dicts, lists and scalars, with scopes as text; datetimes are left to the encoder."""
    if isinstance(value, Scope):
        return value.path
    if isinstance(value, Grant):
        rule = _fields(value.rule)
        own = {"own": True} if rule.pop("own") else {}  # which only rules of roles have
        return {"id": value.id, "tenant": value.tenant, "actor": value.actor, **rule, **own}
    if isinstance(value, Effect):
        # `echo` is returned to the caller and is not part of the pending effect.
        fields = _fields(value).items()
        given = {name: field for name, field in fields if field is not None and field is not False and name != "echo"}
        return {"effect": value.name, **given}
    if isinstance(value, msgspec.Struct):
        fields = _fields(value)
        scope: object = getattr(value, "scope", None)
        return {"tenant": scope.tenant, **fields} if isinstance(scope, Scope) else fields
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _fields(value: msgspec.Struct) -> dict[str, Any]:
    fields = ((name, getattr(value, name)) for name in value.__struct_fields__)
    return {name: plain(field) for name, field in fields if field is not msgspec.UNSET}
