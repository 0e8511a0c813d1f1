"""The fields of a document in; types that nobody knows, and modifiers that do not fit their types, out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recollect.lang.diagnostics import Diagnostics
from recollect.mashin.checker.literals import UNKNOWN, is_number, is_whole, literal
from recollect.mashin.checker.outline import Outline
from recollect.mashin.document import Config, Field, Type
from recollect.mashin.keywords import TYPES
from recollect.model.text import quote

_NUMBERS = frozenset({"number", "integer", "decimal"})
_TEXTS = frozenset({"text", "uuid", "date", "datetime", "enum"})
_ANY = frozenset({"any"})

_FITS: dict[str, tuple[frozenset[str], str]] = {
    "min": (_NUMBERS, "numbers"),
    "max": (_NUMBERS, "numbers"),
    "range": (_NUMBERS, "numbers"),
    "min_length": (frozenset({"text", "list"}), "texts and lists"),
    "max_length": (frozenset({"text", "list"}), "texts and lists"),
    "format": (frozenset({"text"}), "texts"),
    "pattern": (frozenset({"text"}), "texts"),
    "subset": (frozenset({"list"}), "lists"),
}

_VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "min": (is_number, "a number"),
    "max": (is_number, "a number"),
    "min_length": (lambda value: is_whole(value, least=0), "a whole number from 0 on"),
    "max_length": (lambda value: is_whole(value, least=0), "a whole number from 0 on"),
    "format": (lambda value: isinstance(value, str), "a text"),
    "pattern": (lambda value: isinstance(value, str), "a text"),
    "choices": (lambda value: isinstance(value, list), "a list"),
    "subset": (lambda value: isinstance(value, list), "a list"),
}


def check_types(whole: Outline, said: Diagnostics) -> None:
    """Check the type and the modifiers of each field, wherever it stands."""
    for field, _ in whole.fields():
        if _type(whole, said, field.type):
            _modifiers(whole, said, field)


def _type(whole: Outline, said: Diagnostics, type_: Type) -> bool:
    if TYPES.find(type_.name) is None:
        hint = whole.hints.meant(type_.name, TYPES.names, otherwise=f"One of {', '.join(TYPES.names)}")
        said.error("unknown_type", f"{quote(type_.name)} is no type", type_.span, hint=hint)
        return False
    return type_.item is None or _type(whole, said, type_.item)


def canonical(type_: Type) -> str:
    """Return the one name of a type that can be written in two ways."""
    found = TYPES.find(type_.name)
    return found.name if found else type_.name


def _modifiers(whole: Outline, said: Diagnostics, field: Field) -> None:
    name = canonical(field.type)
    written: dict[str, Any] = {}
    for config in field.constraints:
        key = config.key.text
        types, shown = _FITS.get(key, (_ANY, ""))
        if key in _FITS and name not in types | _ANY:
            message = f"`{key}` says something about {shown}, and {quote(field.name.text)} is {name}"
            said.error("wrong_modifier", message, config.key.span, hint="Remove it, or change the type")
            continue
        written[key] = _constraint(whole, said, config)
    for least, most in (("min", "max"), ("min_length", "max_length")):
        _between(said, field, written, least, most)
    _default(whole, said, field, name)


def _constraint(whole: Outline, said: Diagnostics, config: Config) -> Any:
    value = literal(whole.programs.node(config.value))
    rule = _VALUES.get(config.key.text)
    if rule is None or value is UNKNOWN or rule[0](value):
        return value
    message = f"`{config.key.text}` needs {rule[1]}, not {quote(config.value.text, longest=40)}"
    said.error("wrong_value", message, config.value.span, hint=f"Write it as `{config.key.text}: …`")
    return UNKNOWN


def _between(said: Diagnostics, field: Field, written: dict[str, Any], least: str, most: str) -> None:
    low, high = written.get(least, UNKNOWN), written.get(most, UNKNOWN)
    if is_number(low) and is_number(high) and low > high:
        config = next(one for one in field.constraints if one.key.text == most)
        message = f"no value fits: `{least}` is {low} and `{most}` is {high}"
        said.error("wrong_value", message, config.value.span, hint="Swap them")


def _default(whole: Outline, said: Diagnostics, field: Field, name: str) -> None:
    if field.default is None:
        return
    value = literal(whole.programs.node(field.default))
    if value is UNKNOWN or value is None:
        return
    if not _is_of(value, name):
        message = f"the default of {quote(field.name.text)} is no {name}: {quote(field.default.text, longest=40)}"
        said.error("wrong_value", message, field.default.span, hint=f"Write a value of the type {name}")
    elif name == "enum":
        choices = [choice.text for choice in field.type.choices]
        if value not in choices:
            hint = whole.hints.meant(str(value), choices, otherwise=f"One of {', '.join(choices)}")
            message = f"the default of {quote(field.name.text)} is none of its choices"
            said.error("wrong_value", message, field.default.span, hint=hint)


def _is_of(value: Any, name: str) -> bool:
    if name in _NUMBERS:
        return is_number(value) and (name != "integer" or is_whole(abs(value), least=0))
    if name in _TEXTS:
        return isinstance(value, str)
    kinds: dict[str, type] = {"boolean": bool, "list": list, "map": dict}
    return name not in kinds or isinstance(value, kinds[name])
