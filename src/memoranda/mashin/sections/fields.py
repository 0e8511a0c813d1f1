"""Lines such as `question as text, is required` in, fields with their types and modifiers out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from memoranda.lang.faults import note_missing_colon
from memoranda.lang.source import Span
from memoranda.lang.tree import Raw
from memoranda.mashin.document import Config, Field, Type
from memoranda.mashin.keywords import MODIFIERS, TYPES
from memoranda.mashin.lines import Line
from memoranda.mashin.reader import Cursor, Reader
from memoranda.model.text import quote

_DEEPEST_TYPE = 20
_TEXTS = ("description", "label")


def read_fields(reader: Reader, lines: Iterable[Line], *, output: bool = False) -> tuple[Field, ...]:
    """Read the fields of a contract, each name once; only an output can come `from` a step."""
    found: dict[str, Field] = {}
    for line in lines:
        field = _field(reader, line, output=output)
        if field is None:
            continue
        if field.name.text in found:
            reader.doubled(field.name.span, f"the field `{field.name.text}`")
        else:
            found[field.name.text] = field
    return tuple(found.values())


def _field(reader: Reader, line: Line, *, output: bool) -> Field | None:
    cursor = Cursor(line)
    name = reader.name(cursor, "a field")
    if name is None:
        return None
    if not cursor.takes("as"):
        reader.expected(cursor, f"`as` and a type after `{name.text}`", hint=f"Write it as `{name.text} as text`")
        return None
    type_ = _type(reader, cursor)
    if type_ is None:
        return None
    reader.nothing_below(line, "a field")
    given = _modifiers(reader, cursor, output=output)
    if given.pop("respelled", False):
        reader.spell(line, _with_is(line, type_))
    return Field(name=name, type=type_, span=line.span, **given)


def _with_is(line: Line, type_: Type) -> str:
    """Return a field's line with `is required` for a bare `required`, which is the first after the type if at all."""
    end = type_.span.end - line.span.start
    rest = line.text[end:].lstrip(" ,")
    return f"{line.text[:end]}, is {rest}" if rest.startswith("required") else line.text


def _type(reader: Reader, cursor: Cursor, depth: int = 0) -> Type | None:
    word = cursor.word()
    if word is None or depth > _DEEPEST_TYPE:
        reader.expected(cursor, "a type", hint=f"One of {', '.join(TYPES.names)}")
        return None
    item: Type | None = None
    choices: tuple[Raw, ...] = ()
    shape: Raw | None = None
    if word.text == "list" and cursor.takes("of"):
        item = _type(reader, cursor, depth + 1)
    elif word.text == "list" and cursor.mark("("):
        item = _type(reader, cursor, depth + 1)
        _close(reader, cursor)
    elif word.text == "enum":
        choices = _choices(reader, cursor)
    elif word.text in ("object", "map"):
        shape = cursor.brackets("{")
    end = cursor.line.part(max(cursor.at - 1, 0), cursor.at).span.end
    return Type(name=word.text, item=item, choices=choices, shape=shape, span=Span(word.span.start, end))


def _choices(reader: Reader, cursor: Cursor) -> tuple[Raw, ...]:
    if not cursor.mark("("):
        reader.expected(cursor, "the choices of `enum` in brackets", hint='Write it as `enum("a", "b")`')
        return ()
    found: list[Raw] = []
    while True:
        choice = cursor.string()
        if choice is None:
            reader.expected(cursor, "a choice in quotes", hint='Write it as `enum("a", "b")`')
            cursor.until_comma()
            return tuple(found)
        found.append(choice)
        if not cursor.mark(","):
            _close(reader, cursor)
            return tuple(found)


def _close(reader: Reader, cursor: Cursor) -> None:
    if not cursor.mark(")"):
        reader.expected(cursor, "`)`")
        cursor.until_comma()


def _modifiers(reader: Reader, cursor: Cursor, *, output: bool) -> dict[str, Any]:
    """Read what follows the type, as arguments of a field; after a fault goes on behind the next comma."""
    given: dict[str, Any] = {}
    constraints: dict[str, Config] = {}
    first = True
    while not cursor.ended:
        comma = cursor.mark(",")
        if not (comma or first):
            reader.expected(cursor, "a comma")
            cursor.until_comma()
            continue
        bare = cursor.takes("required")
        if bare or cursor.takes("is required"):
            # The formatter can put the word in only where nothing stands between it and the type.
            given["respelled"] = given.get("respelled", False) or (bare and first)
            given["required"] = True
        else:
            _modifier(reader, cursor, given, constraints, output=output)
        first = False
    return given | {"constraints": tuple(constraints.values())}


def _modifier(
    reader: Reader, cursor: Cursor, given: dict[str, Any], constraints: dict[str, Config], *, output: bool
) -> None:
    rest = cursor.rest
    word = cursor.word()
    if word is None or MODIFIERS.find(word.text) is None:
        # `is requird` is one modifier of two words.
        second = cursor.word() if word is not None and word.text == "is" else None
        shown = word or rest
        if word is not None and second is not None:
            shown = Raw(f"{word.text} {second.text}", span=word.span.to(second.span))
        hint = reader.meant(shown.text, MODIFIERS.names, otherwise=f"One of {', '.join(MODIFIERS.names)}")
        message = f"{quote(shown.text, longest=40) if shown.text else 'nothing'} is no modifier of a field"
        reader.said.error("unknown_modifier", message, shown.span, hint=hint)
        cursor.until_comma()
        return
    if word.text in given or word.text in constraints:
        reader.doubled(word.span, f"`{word.text}`")
    if word.text == "from":
        _source(reader, cursor, given, word, output=output)
    elif word.text in _TEXTS:
        cursor.mark(":")
        text = cursor.string()
        if text is None:
            reader.expected(cursor, f"the {word.text} in quotes")
            cursor.until_comma()
        given.setdefault(word.text, text)
    else:
        _value(reader, cursor, given, constraints, word)


def _source(reader: Reader, cursor: Cursor, given: dict[str, Any], word: Raw, *, output: bool) -> None:
    path = cursor.dotted()
    if path is None:
        reader.expected(cursor, "the step that the output comes from")
        cursor.until_comma()
    elif not output:
        message = "only an output can come `from` a step"
        reader.said.error("unexpected", message, word.span.to(path.span), hint="Use it in `responds with`")
    else:
        given.setdefault("source", path)


def _value(reader: Reader, cursor: Cursor, given: dict[str, Any], constraints: dict[str, Config], word: Raw) -> None:
    colon = cursor.mark(":")
    if not colon and word.text != "default":
        note_missing_colon(reader.said, word.text, word.span.start)
    value = cursor.until_comma()
    if value is None:
        reader.expected(cursor, f"the value of `{word.text}`")
    elif word.text == "default":
        given.setdefault("default", value)
    else:
        constraints.setdefault(word.text, Config(key=word, value=value, span=word.span.to(value.span)))
