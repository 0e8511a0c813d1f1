"""Check tools: the types of their signatures, and the arguments of calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from memoranda.abl.checker.memory import cannot_become, check_bare_word
from memoranda.abl.checker.outline import Outline
from memoranda.abl.document import Call, Tool, ToolParameter
from memoranda.abl.keywords import TYPES, type_name
from memoranda.abl.tools.http import AUTHS
from memoranda.lang.diagnostics import Diagnostics, closest
from memoranda.lang.document import Raw
from memoranda.lang.expression.nodes import Name
from memoranda.lang.source import Span
from memoranda.model.text import quote

_TOKEN = re.compile(r"""\s*(?:([^\W\d][\w.\-]*)|("[^"]*"|'[^']*'|-?\d+(?:\.\d+)?)|(\[\]|[{}()\[\]<>|,:?]))""")
_DEEPEST = 32
_HINT = f"A type is one of {', '.join(TYPES)}, with `[]` for a list, or {{name: type}}"


def check_type(raw: Raw, diagnostics: Diagnostics) -> None:
    """Report errors in a type such as `{id: string}[]` or `string | null`."""
    _Types(raw, diagnostics).check()


class _Wrong(Exception):
    """A type cannot be parsed further; where, and why."""

    def __init__(self, start: int, end: int, message: str) -> None:
        super().__init__(message)
        self.start, self.end, self.message = start, end, message


class _Types:
    def __init__(self, raw: Raw, diagnostics: Diagnostics) -> None:
        self._raw = raw
        self._diagnostics = diagnostics
        self._tokens: list[tuple[str, str, int, int]] = []
        self._at = 0

    def check(self) -> None:
        try:
            self._tokenize()
            self._union(0)
            kind, text, start, end = self._next
            if kind != "end":
                raise _Wrong(start, end, f"{quote(text)} is not allowed here in a type")
        except _Wrong as wrong:
            self._diagnostics.error("bad_type", wrong.message, self._span(wrong.start, wrong.end), hint=_HINT)

    def _span(self, start: int, end: int) -> Span:
        # A type that was assembled from several lines has no offsets of its own.
        if self._raw.runs == ((0, 0),) and self._raw.span.start:
            return self._raw.span
        return self._raw.excerpt.locate(start, end)

    def _tokenize(self) -> None:
        text, at = self._raw.text.rstrip(), 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise _Wrong(at, at + 1, f"{quote(text[at:])} is not allowed in a type")
            group = found.lastindex or 1
            kind = ("word", "literal", "symbol")[group - 1]
            self._tokens.append((kind, found[group], found.start(group), found.end(group)))
            at = found.end()
        self._tokens.append(("end", "", len(text), len(text)))

    @property
    def _next(self) -> tuple[str, str, int, int]:
        return self._tokens[self._at]

    def _take(self, *symbols: str) -> bool:
        kind, text, _, _ = self._next
        if kind == "symbol" and text in symbols:
            self._at += 1
            return True
        return False

    def _expect(self, symbol: str) -> None:
        if not self._take(symbol):
            self._fail_unexpected(f"`{symbol}`")

    def _fail_unexpected(self, wanted: str) -> None:
        kind, text, start, end = self._next
        found = "the type ends" if kind == "end" else f"{quote(text)} was found"
        raise _Wrong(start, end, f"{found} where {wanted} was expected")

    def _union(self, depth: int) -> None:
        if depth > _DEEPEST:
            raise _Wrong(self._next[2], self._next[3], f"the type is nested more than {_DEEPEST} levels deep")
        self._one(depth)
        while self._take("|"):
            self._one(depth)

    def _one(self, depth: int) -> None:
        kind = self._next[0]
        if kind == "word":
            self._type_word(depth)
        elif kind == "literal":
            self._at += 1
        elif self._take("{"):
            self._fields(depth)
        elif self._take("("):
            self._union(depth + 1)
            self._expect(")")
        elif self._take("["):
            self._several("]", depth)
        elif not self._take("[]"):
            self._fail_unexpected("a type")
        while self._take("[]", "?"):
            pass

    def _type_word(self, depth: int) -> None:
        _, word, start, end = self._next
        self._at += 1
        if word.casefold() in ("enum", "pattern") and self._next[1] in ("<", "(", "["):
            self._values()
            return
        if self._take("<"):
            self._several(">", depth)
        elif self._take("("):
            self._several(")", depth)
        self._check_word(word, start, end)

    def _check_word(self, word: str, start: int, end: int) -> None:
        if type_name(word) is not None or word[0].isupper():
            return
        near = closest(word, TYPES)
        message = f"unknown type {quote(word)}"
        if near is not None:
            self._diagnostics.error("bad_type", message, self._span(start, end), hint=f"Did you mean `{near}`?")
        else:
            message = f"{quote(word)} is not a known type, so any value is accepted"
            self._diagnostics.warning("unknown_type", message, self._span(start, end), hint=_HINT)

    def _values(self) -> None:
        """Skip the values of an enum, which are not types."""
        depth = 0
        while self._next[0] != "end":
            text = self._next[1]
            depth += (text in ("<", "(", "[")) - (text in (">", ")", "]"))
            self._at += 1
            if depth == 0:
                return
        self._fail_unexpected("the end of the values")

    def _several(self, closing: str, depth: int) -> None:
        self._union(depth + 1)
        while self._take(","):
            self._union(depth + 1)
        self._expect(closing)

    def _fields(self, depth: int) -> None:
        while not self._take("}"):
            if self._next[0] not in ("word", "literal"):
                self._fail_unexpected("the name of a field")
            self._at += 1
            self._take("?")
            # A field without a type may hold anything.
            if self._take(":"):
                self._union(depth + 1)
            if not self._take(","):
                self._expect("}")
                return


_FILLED = frozenset({"source", "value", "default", "hidden"})
"""Details of a parameter that supply its value, so that the call need not."""


def check_tools(whole: Outline, diagnostics: Diagnostics) -> None:
    """Check signatures, and every call against its signature."""
    for tool in whole.document.tools:
        _check_signature(whole, tool, diagnostics)
    for call in whole.calls:
        tool = whole.tools.get(call.tool.text)
        if tool is None:
            _note_undeclared(whole, call.tool, diagnostics)
        elif _has_signature(tool, diagnostics):
            _check_arguments(whole, tool, call, diagnostics)
    for step in whole.steps.values():
        for name in step.available_tools:
            if name.text not in whole.tools:
                _note_undeclared(whole, name, diagnostics)
    _check_defaults(whole, diagnostics)


def _note_undeclared(whole: Outline, name: Raw, diagnostics: Diagnostics) -> None:
    # Without `TOOLS`, all tools come from the program that loads the agent.
    if whole.closed and whole.tools:
        hint = whole.hints.did_you_mean(name.text, whole.tools, otherwise="Add its signature to `TOOLS`")
        diagnostics.warning("undeclared_tool", f"`TOOLS` declares no {quote(name.text)}", name.span, hint=hint)


# --- signatures -------------------------------------------------------------------------------------------------


def _check_signature(whole: Outline, tool: Tool, diagnostics: Diagnostics) -> None:
    for parameter in tool.parameters:
        if parameter.type is not None:
            check_type(parameter.type, diagnostics)
        kind = parameter.type.text if parameter.type else ""
        node = whole.programs.node(parameter.default) if parameter.default else None
        found = cannot_become(node, kind)
        if parameter.default is not None and found is not None:
            message = f"the default of {quote(parameter.name.text)} is {found}, but its type is `{kind}`"
            diagnostics.error("wrong_type", message, parameter.default.span, hint="Change one of them")
    if tool.returns is not None:
        check_type(tool.returns, diagnostics)
    if tool.auth is not None and tool.auth not in AUTHS:
        message = f"{quote(f'auth: {tool.auth}')} has no effect: the tool sends no credentials"
        diagnostics.warning("not_acted_on", message, tool.name.span, hint=f"One of {', '.join(AUTHS)}")


def _has_signature(tool: Tool, diagnostics: Diagnostics) -> bool:
    """Return whether the parameters are known; a tool that is only named accepts any."""
    after = diagnostics.source.text[tool.name.span.end : tool.name.span.end + 1]
    return bool(tool.parameters) or after == "("


def _check_defaults(whole: Outline, diagnostics: Diagnostics) -> None:
    """Warn about defaults of parameters and fields that are words without quotes."""
    raws = [(parameter.default, "default") for tool in whole.document.tools for parameter in tool.parameters]
    raws.extend((field.default, "default") for field, _ in whole.fields)
    for raw, word in raws:
        node = whole.programs.node(raw) if raw is not None else None
        if raw is not None and isinstance(node, Name):
            check_bare_word(whole, raw, node, word, diagnostics)


# --- calls ------------------------------------------------------------------------------------------------------


def _check_arguments(whole: Outline, tool: Tool, call: Call, diagnostics: Diagnostics) -> None:
    name, names = tool.name.text, [parameter.name.text for parameter in tool.parameters]
    for extra in call.positional[len(names) :]:
        takes = f"{len(names)} argument{'' if len(names) == 1 else 's'}"
        message = f"{quote(name)} takes {takes}, and this is one more"
        diagnostics.error("wrong_arguments", message, extra.span, hint=_shape(tool))
    given = set(names[: len(call.positional)])
    for argument in call.named:
        word = argument.name.text
        if word not in names:
            message = f"{quote(name)} has no parameter {quote(word)}"
            hint = whole.hints.did_you_mean(word, names, otherwise=_shape(tool))
            diagnostics.error("wrong_arguments", message, argument.name.span, hint=hint)
        elif word in given:
            message = f"{quote(word)} is given a second time"
            diagnostics.error("wrong_arguments", message, argument.name.span, hint="Give it by place or by name")
        given.add(word)
    missing = [parameter.name.text for parameter in _required_parameters(tool) if parameter.name.text not in given]
    if missing:
        message = f"{quote(name)} needs {', '.join(quote(word) for word in missing)}"
        diagnostics.error("wrong_arguments", message, call.tool.span, hint=_shape(tool))


def _required_parameters(tool: Tool) -> Iterator[ToolParameter]:
    filled = set(_parameters_filled_elsewhere(tool))
    for parameter in tool.parameters:
        if parameter.required and parameter.name.text not in filled:
            yield parameter


def _parameters_filled_elsewhere(tool: Tool) -> Iterable[str]:
    """Yield the parameters whose details supply their values."""
    for line in tool.kept:
        if (line.key or "").casefold() == "parameters":
            for detail in line.children:
                if detail.key is not None and any((each.key or "").casefold() in _FILLED for each in detail.body):
                    yield detail.key


def _shape(tool: Tool) -> str:
    parameters = ", ".join(f"{each.name.text}{'' if each.required else '?'}" for each in tool.parameters)
    return f"It is declared as `{tool.name.text}({parameters})`"
