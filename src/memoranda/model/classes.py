"""Classes as definitions: Pydantic models, msgspec structs, dataclasses and typed dictionaries.

Pydantic is never imported here: a program that passes a model has imported it.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Protocol, TypeVar, overload

import msgspec

from memoranda.errors import Hint, InvalidDefinition, SchemaViolation, UsageError
from memoranda.model.text import quote

T = TypeVar("T")

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[\W_]+", re.ASCII)
_remembered: dict[str, Any] = {}
"""The class that a definition was made from in this process, by slug; None where there were several."""


def _parts_of_class(model: Any) -> tuple[str, str, dict[str, Any]]:
    title: Any = getattr(model, "__name__", None)
    try:
        schema: dict[str, Any] = (
            model.model_json_schema() if hasattr(model, "model_json_schema") else msgspec.json.schema(model)
        )
    except Exception as error:  # of a library that is not imported here
        raise InvalidDefinition(
            f"{quote(title or model)} has no JSON schema: {error}",
            hint="Pass a Pydantic model, a msgspec struct, a dataclass or a TypedDict, or its schema as `schema`",
            path="model",
        ) from error
    given = schema.get("title", title)
    name = given if given != title else " ".join(word for word in _WORDS.split(str(title)) if word)
    return name, _slug(str(title)), schema


def _slug(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return "_".join(word.lower() for word in _WORDS.split(plain) if word)


def with_class(
    model: Any, *, name: str | None, slug: str | None, schema: dict[str, Any] | None
) -> tuple[Any, Any, Any]:
    """Return the name, slug and schema of a definition: those given, or else those of the class.

    >>> class HomeAddress(msgspec.Struct):
    ...     city: str
    >>> with_class(HomeAddress, name=None, slug=None, schema=None)[:2]
    ('Home Address', 'home_address')
    """
    if model is None:
        return name, slug, schema
    if schema is not None:
        raise InvalidDefinition("there is a `schema` beside a `model`", hint="Pass one of the two", path="schema")
    named, keyed, schema = _parts_of_class(model)
    return named if name is None else name, keyed if slug is None else slug, schema


def remember_class(slug: str, model: Any) -> None:
    """Remember the class that a definition was made from, for records that are read in this process."""
    if model is not None:
        before = _remembered.get(slug, model)
        _remembered[slug] = model if before is not None and _path(before) == _path(model) else None


def _path(model: Any) -> tuple[str, str]:
    """Return where a class is written: one that was defined again takes the place of the older one."""
    return model.__module__, getattr(model, "__qualname__", repr(model))


class _Valued(Protocol):
    @property
    def key(self) -> str: ...
    @property
    def value(self) -> Any: ...


class ModelValue(msgspec.Struct, frozen=True):
    """The base of facts: a value under a key, which may be that of a record."""

    @overload
    def as_model(self: _Valued, model: type[T]) -> T: ...
    @overload
    def as_model(self: _Valued, model: None = None) -> Any: ...
    def as_model(self: _Valued, model: type[Any] | None = None) -> Any:
        """Return the value as an instance of a class; without one, of the class its definition was made from.

        >>> import memoranda
        >>> class Kiln(msgspec.Struct):
        ...     cone: int
        >>> with memoranda.open(":memory:") as memory:
        ...     kiln = memory.definitions.create(model=Kiln)
        ...     memory.scope(user="ada").set("kiln", {"cone": 6}).as_model(Kiln)
        Kiln(cone=6)
        """
        chosen: Any = _remembered.get(self.key) if model is None else model
        if chosen is None:
            several = "several classes" if self.key in _remembered else "no class"
            raise UsageError(
                f"the definition of {quote(self.key)} was made from {several} in this process",
                hint=("Say which class is meant", Hint("python", "Call record.as_model(CustomerProfile)")),
                slug=self.key,
            )
        try:
            if hasattr(chosen, "model_validate"):
                return chosen.model_validate(self.value)
            return msgspec.convert(self.value, chosen)
        except (ValueError, msgspec.ValidationError) as error:
            name, reason = getattr(chosen, "__name__", str(chosen)), " ".join(str(error).split())
            raise SchemaViolation(
                f"the record {quote(self.key)} is not a {name}: {reason[:200]}",
                hint="Compare the class with the schema of the definition; one of them is newer",
                path="$",
                expected=name,
                slug=self.key,
            ) from error
