"""The lines of `TOOLS` in; signatures, and how the tools are reached, out."""

from __future__ import annotations

import re

from memoranda.abl.document import Parameter, Tool
from memoranda.abl.keywords import LEVELS
from memoranda.abl.reader import Properties, Reader
from memoranda.abl.tree import Line, Raw
from memoranda.abl.values import (
    CLOSERS,
    OPENERS,
    arrow,
    assignment,
    outside,
    pair,
    part,
    split,
    unquote,
    unquoted,
    verbatim,
)
from memoranda.model.text import quote

_NAME = re.compile(r"\s*([^\W\d][\w.\-]*)\s*")


def read_tools(reader: Reader, lines: tuple[Line, ...]) -> tuple[Tool, ...]:
    """Read the whole section: `name(parameter: type = default) -> type` with properties below it."""
    tools: list[Tool] = []
    for line in lines:
        tool = _tool(reader, line)
        if tool is not None:
            tools.append(tool)
    reader.refuse_doubles(tool.name for tool in tools)
    return tuple(tools)


def _tool(reader: Reader, line: Line) -> Tool | None:
    if line.key is None:
        return _from_signature(reader, line)
    if line.dash and LEVELS["tool"].find(line.key):
        found = reader.properties(line.entries, "tool", owner=line.span)
        name = found.text("name")
        if name is None:
            reader.said.error("missing", "a tool without a name", line.span, hint="name: the_tool")
            return None
        return _made(line, reader.path(name, "a tool"), _listed_parameters(found), _returns(found), found)
    if line.value is None and line.body:
        name = line.name
        found = reader.properties(line.body, "tool", owner=line.span)
        return _made(line, reader.path(name, "a tool"), _listed_parameters(found), _returns(found), found)
    first = line.key.partition(" ")[0].upper()
    if first in ("FROM", "USE", "IMPORT"):
        message = f"`{first}` is kept but not acted on: tools of another file"
        reader.said.note("not_acted_on", message, line.key_span)
        return None
    reader.said.error(
        "wrong_nesting",
        f"{quote(line.text, longest=40)} is no tool",
        line.span,
        hint="Write it as `name(parameter: type) -> type`",
    )
    return None


def _from_signature(reader: Reader, line: Line) -> Tool | None:
    whole = line.raw
    found = reader.properties(line.body, "tool", owner=line.span)
    named = _NAME.match(whole.text)
    brackets = _brackets(whole.text, named.end()) if named else None
    if whole.text[-1:] in OPENERS:
        return None  # The open bracket was noted when the lines were read.
    if named is None or (brackets is None and whole.text[named.end() :].strip()[:2] not in ("", "->")):
        reader.said.error(
            "bad_signature",
            f"{quote(whole.text, longest=60)} is no signature of a tool",
            whole.span,
            hint="Write it as `name(parameter: type = default) -> type`",
        )
        return None
    parameters: tuple[Parameter, ...] = ()
    after = named.end()
    if brackets is not None:
        inner = part(whole, brackets[0] + 1, brackets[1])
        parameters = tuple(_parameter(reader, piece) for piece in split(inner, ",") if piece.text)
        after = brackets[1] + 1
    rest = part(whole, after, len(whole.text))
    sides = arrow(rest)
    if rest.text and (sides is None or sides[0].text):
        message = f"{quote(rest.text, longest=40)} cannot follow the parameters of a tool"
        reader.said.error("bad_signature", message, rest.span, hint="Write the type it returns as `-> type`")
    reader.refuse_doubles(parameter.name for parameter in parameters)
    return _made(line, part(whole, *named.span(1)), parameters, sides[1] if sides else _returns(found), found)


def _brackets(text: str, start: int) -> tuple[int, int] | None:
    """Return where the round brackets after a name open and close."""
    if text[start : start + 1] != "(":
        return None
    depth = 0
    for offset, character in outside(text, brackets=True):
        if offset >= start:
            depth += (character in OPENERS) - (character in CLOSERS)
            if depth == 0:
                return start, offset
    return None


def _parameter(reader: Reader, raw: Raw) -> Parameter:
    sides = assignment(raw)
    head, default = sides if sides else (raw, None)
    typed = pair(head)
    name, kind = typed if typed else (head, None)
    optional = name.text.endswith("?")
    if optional:
        name = part(name, 0, len(name.text) - 1)
    return Parameter(
        reader.name(name, "a parameter"), kind, default, required=default is None and not optional, span=raw.span
    )


def _listed_parameters(found: Properties) -> tuple[Parameter, ...]:
    """Return the parameters of a tool without a signature: items with `name`, or one block a parameter."""
    parameters: list[Parameter] = []
    for line in found.below("parameters"):
        given = {(entry.key or "").casefold(): entry for entry in (line.entries if line.dash else line.children)}
        named = given.get("name") if line.dash else None
        if named is not None and named.value is not None:
            name = unquoted(named.value)
        elif line.key is not None:
            name = line.name
        else:
            name = line.raw
        default = _value(given.get("default"))
        wanted = _value(given.get("required"))
        required = default is None if wanted is None else wanted.text.casefold() == "true"
        kind = _value(given.get("type")) or (_value(line) if not line.dash else None)
        parameters.append(Parameter(name, unquote(kind) if kind else None, default, required=required, span=line.span))
    return tuple(parameters)


def _value(line: Line | None) -> Raw | None:
    return verbatim(line.value) if line is not None and line.value is not None else None


def _returns(found: Properties) -> Raw | None:
    """Return the type that a tool gives back, written as in a signature."""
    line = found.line("returns")
    if line is None or line.value is not None:
        return _value(line)
    return Raw(_type(line.children), span=line.span)


def _type(lines: tuple[Line, ...]) -> str:
    """Write `type: object` with `fields` below it as `{field: type}`."""
    given = {(line.key or "").casefold(): line for line in lines}
    fields = given.get("fields") or given.get("properties")
    if fields is not None:
        return "{" + ", ".join(f"{line.key}: {_field_type(line)}" for line in fields.children) + "}"
    kind = given.get("type")
    if kind is not None and kind.value is not None:
        return unquoted(kind.value).text
    return "{" + ", ".join(f"{line.key}: {_field_type(line)}" for line in lines) + "}"


def _field_type(line: Line) -> str:
    return unquoted(line.value).text if line.value is not None else _type(line.children)


def _made(line: Line, name: Raw, parameters: tuple[Parameter, ...], returns: Raw | None, found: Properties) -> Tool:
    kind, method = found.text("type"), found.text("method")
    details = found.line("parameters")
    kept = (*found.kept, details) if details is not None and line.key is None else found.kept
    return Tool(
        name=name,
        parameters=parameters,
        returns=returns,
        description=found.text("description"),
        type=kind.text.casefold() if kind else None,
        endpoint=found.text("endpoint"),
        method=method.text.upper() if method else None,
        headers=found.mapping("headers"),
        query_params=found.mapping("query_params"),
        body=found.text("body_template"),
        timeout=found.integer("timeout"),
        retry=found.integer("retry") or 0,
        retry_delay=found.integer("retry_delay"),
        kept=kept,
        span=line.span,
    )
