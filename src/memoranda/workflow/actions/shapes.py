"""The JSON schema of an author in, a check of what a model sends out."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from memoranda.engine.schema_rules import prepare_schema
from memoranda.engine.validator import Validator
from memoranda.errors import InvalidDefinition, SchemaViolation
from memoranda.model.limits import Limits
from memoranda.model.value import decode, encode, encode_checked

_LIMITS = Limits()
_SHOWN = 300
"""Characters of a fault that are told: what it quotes may be as long as the answer."""


class Shape(msgspec.Struct, frozen=True):
    """An object that a model has to give: its schema, and the check."""

    schema: dict[str, Any]
    """As the model is shown it; closed where the author did not say otherwise. It is not for changing."""
    validator: Validator

    def fit(self, value: Any) -> Any:
        """Return a value that fits; raise SchemaViolation for another, or why it could not be kept at all."""
        encode_checked(value, _LIMITS)
        fault = self.validator.first_fault(value)
        if fault is None:
            return value
        raise SchemaViolation(f"at {fault.path}: {fault.reason}"[:_SHOWN], path=fault.path, expected=fault.reason)


def shape_of(schema: dict[str, Any], *, what: str) -> Shape:
    """Return the shape that a schema describes; a schema that was seen before is not compiled again."""
    try:
        return _compiled(encode(schema))
    except InvalidDefinition as error:
        raise InvalidDefinition(f"{what}: {error.message}", hint=error.hint, path=error.path) from error


@lru_cache(maxsize=256)
def _compiled(schema: bytes) -> Shape:
    prepared = prepare_schema(decode(schema))
    return Shape(prepared, Validator(prepared))
