"""The tools of a document and its calls in; wrong types, and arguments that do not fit the signature, out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memoranda.abl.checker.literals import cannot_become
from memoranda.abl.checker.memory import bare_word
from memoranda.abl.checker.outline import Outline
from memoranda.abl.checker.types import check_type
from memoranda.abl.document import Call, Parameter, Tool
from memoranda.abl.tree import Raw
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.expression.nodes import Name
from memoranda.model.text import quote

_FILLED = frozenset({"source", "value", "default", "hidden"})
"""Details of a parameter that say who gives it its value, so that the call need not."""


def check_tools(whole: Outline, said: Diagnostics) -> None:
    """Check signatures, and every call of a tool against its own."""
    for tool in whole.document.tools:
        _signature(whole, tool, said)
    for call in whole.calls:
        tool = whole.tools.get(call.tool.text)
        if tool is None:
            _undeclared(whole, call.tool, said)
        elif _has_signature(tool, said):
            _arguments(whole, tool, call, said)
    for step in whole.steps.values():
        for name in step.available_tools:
            if name.text not in whole.tools:
                _undeclared(whole, name, said)
    _defaults(whole, said)


def _undeclared(whole: Outline, name: Raw, said: Diagnostics) -> None:
    # Without `TOOLS`, all tools are given by the program that loads the agent.
    if whole.closed and whole.tools:
        hint = whole.hints.meant(name.text, whole.tools, otherwise="Add its signature to `TOOLS`")
        said.warning("undeclared_tool", f"`TOOLS` declares no {quote(name.text)}", name.span, hint=hint)


# --- signatures -------------------------------------------------------------------------------------------------


def _signature(whole: Outline, tool: Tool, said: Diagnostics) -> None:
    for parameter in tool.parameters:
        if parameter.type is not None:
            check_type(parameter.type, said)
        kind = parameter.type.text if parameter.type else ""
        node = whole.programs.node(parameter.default) if parameter.default else None
        found = cannot_become(node, kind)
        if parameter.default is not None and found is not None:
            message = f"the default of {quote(parameter.name.text)} is {found}, but its type is `{kind}`"
            said.error("wrong_type", message, parameter.default.span, hint="Change one of them")
    if tool.returns is not None:
        check_type(tool.returns, said)


def _has_signature(tool: Tool, said: Diagnostics) -> bool:
    """Say whether the parameters are known: a tool that is only named takes what it is given."""
    after = said.source.text[tool.name.span.end : tool.name.span.end + 1]
    return bool(tool.parameters) or after == "("


def _defaults(whole: Outline, said: Diagnostics) -> None:
    """Warn of defaults that are words without quotes: of parameters, and of fields."""
    raws = [(parameter.default, "default") for tool in whole.document.tools for parameter in tool.parameters]
    raws.extend((field.default, "default") for field, _ in whole.fields)
    for raw, word in raws:
        node = whole.programs.node(raw) if raw is not None else None
        if raw is not None and isinstance(node, Name):
            bare_word(whole, raw, node, word, said)


# --- calls ------------------------------------------------------------------------------------------------------


def _arguments(whole: Outline, tool: Tool, call: Call, said: Diagnostics) -> None:
    name, names = tool.name.text, [parameter.name.text for parameter in tool.parameters]
    for extra in call.positional[len(names) :]:
        takes = f"{len(names)} argument{'' if len(names) == 1 else 's'}"
        message = f"{quote(name)} takes {takes}, and this is one more"
        said.error("wrong_arguments", message, extra.span, hint=_shape(tool))
    given = set(names[: len(call.positional)])
    for argument in call.named:
        word = argument.name.text
        if word not in names:
            message = f"{quote(name)} has no parameter {quote(word)}"
            hint = whole.hints.meant(word, names, otherwise=_shape(tool))
            said.error("wrong_arguments", message, argument.name.span, hint=hint)
        elif word in given:
            message = f"{quote(word)} is given a second time"
            said.error("wrong_arguments", message, argument.name.span, hint="Give it by place or by name")
        given.add(word)
    missing = [parameter.name.text for parameter in _required(tool) if parameter.name.text not in given]
    if missing:
        message = f"{quote(name)} needs {', '.join(quote(word) for word in missing)}"
        said.error("wrong_arguments", message, call.tool.span, hint=_shape(tool))


def _required(tool: Tool) -> Iterator[Parameter]:
    filled = set(_filled_elsewhere(tool))
    for parameter in tool.parameters:
        if parameter.required and parameter.name.text not in filled:
            yield parameter


def _filled_elsewhere(tool: Tool) -> Iterable[str]:
    """Give the parameters whose details, kept as they are, say where their values come from."""
    for line in tool.kept:
        if (line.key or "").casefold() == "parameters":
            for detail in line.children:
                if detail.key is not None and any((each.key or "").casefold() in _FILLED for each in detail.body):
                    yield detail.key


def _shape(tool: Tool) -> str:
    parameters = ", ".join(f"{each.name.text}{'' if each.required else '?'}" for each in tool.parameters)
    return f"It is declared as `{tool.name.text}({parameters})`"
