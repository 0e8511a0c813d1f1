"""The lines of `GATHER` in, of the section or of a step; the fields to collect out."""

from __future__ import annotations

from memoranda.abl.document import Argument, Field, Gather
from memoranda.abl.forms import mapping
from memoranda.abl.keywords import LEVELS
from memoranda.abl.reader import Properties, Reader
from memoranda.abl.tree import Line, Raw
from memoranda.abl.values import listed, unquote, unquoted, verbatim
from memoranda.model.text import quote


def read_gather(reader: Reader, line: Line) -> Gather | None:
    """Read fields in every form: items, named blocks, `FIELDS` below, or `a, b` on the line."""
    if line.value is not None:
        reader.nothing_below(line, "GATHER")
        names = [reader.name(name, "a field") for name in listed(verbatim(line.value))]
        return _made(reader, line, [Field(name, span=name.span) for name in names], [])
    table = LEVELS["gather"]
    own = [
        child for child in line.children if child.key and not child.dash and table.find(child.key) and _is_own(child)
    ]
    found = reader.properties(own, "gather", owner=line.span)
    lines = [child for child in line.children if child not in own]
    inner = found.line("fields")
    if inner is not None:
        lines.extend(inner.children)
        lines.extend(_named_on_the_line(inner))
    return _made(reader, line, [_field(reader, child) for child in lines], [found])


def _named_on_the_line(inner: Line) -> list[Line]:
    """Return a line for each name of `FIELDS: [a, b]`."""
    if inner.value is None:
        return []
    return [Line(name.text, key_span=name.span, span=name.span) for name in listed(verbatim(inner.value))]


def _is_own(line: Line) -> bool:
    """Say whether a line is a word of GATHER itself and not a field that happens to have its name."""
    return (line.key or "").upper() != "FIELDS" or bool(line.children or line.value)


def _made(reader: Reader, line: Line, fields: list[Field | None] | list[Field], found: list[Properties]) -> Gather:
    given = [field for field in fields if field is not None]
    if not given:
        reader.said.error(
            "wrong_value", "`GATHER` collects nothing", line.key_span, hint="Name a field: `- name: required`"
        )
    reader.refuse_doubles(field.name for field in given)
    return Gather(
        tuple(given),
        strategy=found[0].choice("strategy") if found else None,
        kept=found[0].kept if found else (),
        span=line.span,
    )


def _field(reader: Reader, line: Line) -> Field | None:
    """Read one field: its name bare or as a key, its properties below it."""
    required: bool | None = None
    if line.key is None:
        name, lines = line.raw, line.body
    elif line.key.casefold() == "name" and line.dash and line.value is not None and not _says_required(line):
        name, lines = unquoted(line.value), line.body
    else:
        name = line.name
        lines = line.body
        required = _required(reader, line)
    found = reader.properties(lines, "field", owner=line.span)
    default = True if required is None else required
    return Field(
        name=reader.name(name, "a field"),
        required=found.flag("required", default=default),
        prompt=found.text("prompt"),
        type=found.text("type"),
        default=found.expression("default"),
        validation=found.text("validation"),
        validate=_validate(found.line("validate")),
        options=found.names("options"),
        hints=found.texts("extraction_hints"),
        depends_on=found.names("depends_on"),
        activation=_activation(found),
        active_when=_active_when(found.line("activation")),
        infer=found.flag("infer"),
        infer_confidence=found.expression("infer_confidence"),
        infer_confirm=found.flag("infer_confirm", default=True),
        range=found.flag("range"),
        list=found.flag("list"),
        prompt_mode=found.choice("prompt_mode") or "ask",
        kept=found.kept,
        span=line.span,
    )


def _says_required(line: Line) -> bool:
    return line.value is not None and unquoted(line.value).text.casefold() in ("required", "optional", "true", "false")


def _required(reader: Reader, line: Line) -> bool | None:
    """Return what `field: required` says; other words after a field are its type, or wrong."""
    if line.value is None:
        return None
    word = unquoted(line.value).text.casefold()
    if not _says_required(line):
        reader.said.error(
            "wrong_value",
            f"a field is `required` or `optional`, not {quote(line.value.text, longest=40)}",
            line.value.span,
            hint="Other properties stand on lines below the field",
        )
    return word in ("required", "true")


def _validate(line: Line | None) -> tuple[Argument, ...]:
    if line is None:
        return ()
    if line.value is not None and not line.value.text.startswith("{"):
        name = Raw("rule", runs=((0, line.key_span.start),), span=line.key_span)
        return (Argument(name, verbatim(line.value), span=line.span),)
    return tuple(mapping(line))


def _activation(found: Properties) -> Raw | None:
    line = found.line("activation")
    if line is None or line.value is None or line.value.text.startswith("{"):
        return None
    return unquoted(line.value)


def _active_when(line: Line | None) -> Raw | None:
    if line is None:
        return None
    for argument in mapping(line):
        if argument.name.text.casefold() == "when":
            return unquote(argument.value)
    return None
