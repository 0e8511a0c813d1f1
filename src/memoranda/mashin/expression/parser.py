"""Split a mashin expression into tokens, and parse these into nodes, or note diagnostics.

From loose to tight: `? :`, `??`, or, and, `|`, `^`, `&`, equality, `in`, order, `|>`, `..`, shifts, `+ -`, `* / %`,
`**`, prefixes, and what follows an operand: `.field`, `?.field`, `[index]`, `(arguments)`. Operators that are words
make the same nodes as their symbols.
"""

from __future__ import annotations

import re
from typing import Literal, NoReturn

import msgspec

from memoranda.lang.diagnostics import Diagnostics, did_you_mean, unclosed_quote_message
from memoranda.lang.expression import nodes
from memoranda.lang.expression.dialect import DEFAULT_BOUNDS, Bounds
from memoranda.lang.expression.nodes import Node
from memoranda.lang.expression.parser import OPENING, ParseAbort, TokenParser, is_too_long
from memoranda.lang.source import Excerpt, Span
from memoranda.lang.template import Template
from memoranda.mashin.expression.functions import CONSTANTS, FUNCTIONS, GLOBALS, NAMESPACES
from memoranda.mashin.expression.methods import METHODS
from memoranda.model.text import quote

# tokens

Kind = Literal["word", "number", "text", "symbol", "bad", "end"]
"""A bad token could not be read, and was noted."""

_SPACE = re.compile(r"(?:\s|//[^\r\n]*)*")
_TOKEN = re.compile(
    r"""(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
      | (?P<word>[^\W\d]\w*)
      | (?P<symbol>===|!==|\.\.\.|\?\.(?![0-9])|\?\?|\*\*|\|>|=>|==|!=|>=|<=|<<|>>|&&|\|\||\.\.
        |[-+*/%<>!()\[\]{},.:?~&^|=])""",
    re.VERBOSE,
)
_IN_TEXT = re.compile(r"\\.|\$\{|[\"']", re.DOTALL)
_IN_CODE = re.compile(r"//[^\r\n]*|[{}\"']")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "0": "\0"}
_SIGNS = "\\\"'`$/{"
_DEEPEST = 2 * DEFAULT_BOUNDS.depth + 1
_HINTS = {
    "\\": "Inside `${…}` write texts in the other kind of quotes",
    "`": "Write texts in quotes; `${…}` works in any of them",
    ";": "End an expression with its line",
    "@": "Names begin with a letter",
    "#": "Comments begin with `//`",
    "\N{LEFT DOUBLE QUOTATION MARK}": 'Use straight quotes: `"`',
    "\N{RIGHT DOUBLE QUOTATION MARK}": 'Use straight quotes: `"`',
    "\N{LEFT SINGLE QUOTATION MARK}": "Use straight quotes: `'`",
    "\N{RIGHT SINGLE QUOTATION MARK}": "Use straight quotes: `'`",
}


class Token(msgspec.Struct, frozen=True):
    """A token and its place in the excerpt; a text includes its quotes."""

    kind: Kind
    text: str
    start: int
    end: int


def tokenize(text: Excerpt, start: int, end: int, diagnostics: Diagnostics) -> list[Token]:
    """Return the tokens of a part of a text, the end included, and note what cannot be read."""
    tokens: list[Token] = []
    place = _skip(text.text, start, end)
    while place < end:
        token = _read(text.text, place, end) or _refuse(text, place, end, diagnostics)
        tokens.append(token)
        place = _skip(text.text, token.end, end)
    tokens.append(Token("end", "", end, end))
    return tokens


def _skip(text: str, place: int, end: int) -> int:
    found = _SPACE.match(text, place, end)
    return found.end() if found else place


def _read(text: str, place: int, end: int) -> Token | None:
    if text[place] in "\"'":
        stop = text_end(text, place, end)
        return None if stop is None else Token("text", text[place:stop], place, stop)
    found = _TOKEN.match(text, place, end)
    if found is None:
        return None
    kind: Kind = "number" if found["number"] else "word" if found["word"] else "symbol"
    return Token(kind, found[0], place, found.end())


def text_end(text: str, start: int, end: int) -> int | None:
    """Return the end of the quoted text that begins here, its last quote included; None if it is never closed.

    Quotes inside `${…}` belong to the code there, however deep texts and code are nested. A line feed does not end it:
    in a file the reader of lines has refused that, and elsewhere there are no lines.
    """
    # The closing characters of what is open: the last one decides how a character is read.
    waiting = [text[start]]
    place = start + 1
    # The parser reads nothing deeper, and without a limit a text that opens on every line would take quadratic time.
    while place < end and len(waiting) <= _DEEPEST:
        in_text = waiting[-1] != "}"
        found = (_IN_TEXT if in_text else _IN_CODE).search(text, place, end)
        if found is None:
            return None
        mark, place = found[0], found.end()
        if mark == waiting[-1]:
            waiting.pop()
            if not waiting:
                return place
        elif mark in ("${", "{"):
            waiting.append("}")
        elif not in_text and mark in "\"'":
            waiting.append(mark)
    return None


def code_end(text: str, start: int, end: int) -> int:
    """Return the end of the code after `${`: the offset of its closing brace, which is before `end`."""
    depth, place = 1, start
    while found := _IN_CODE.search(text, place, end):
        place = found.end()
        if found[0] in "\"'":
            place = text_end(text, found.start(), end) or end
        elif found[0] in "{}":
            depth += 1 if found[0] == "{" else -1
            if depth == 0:
                return found.start()
    return end


def _refuse(text: Excerpt, place: int, end: int, diagnostics: Diagnostics) -> Token:
    mark = text.text[place]
    if mark not in "\"'":
        message, hint = f"{quote(mark)} has no meaning here", _HINTS.get(mark, "")
        stop = place + 1
        while stop < end and text.text[stop] == mark:
            stop += 1
        diagnostics.error("unexpected_character", message, text.locate(place, stop), hint=hint)
        return Token("bad", mark, place, stop)
    hint = f"End the text with {mark}; write \\{mark} for one in it"
    diagnostics.error(
        "unclosed_quote", unclosed_quote_message(text.text[place:end]), text.locate(place, place + 1), hint=hint
    )
    return Token("bad", text.text[place:end], place, end)


def unescape(text: Excerpt, start: int, end: int, diagnostics: Diagnostics) -> str:
    """Return the content of a part between quotes, with escapes resolved; an unknown escape stays."""
    written = text.text[start:end]
    if "\\" not in written:
        return written

    def read(found: re.Match[str]) -> str:
        code = found[1] or found[2] or found[3]
        if code and int(code, 16) <= 0x10FFFF:
            return chr(int(code, 16))
        sign = found[4] or "u"
        if sign in _ESCAPED:
            return _ESCAPED[sign]
        if sign in _SIGNS:
            return sign
        place = start + found.start()
        hint = "Write `\\\\` for a backslash"
        diagnostics.warning(
            "unknown_escape", f"{quote(found[0])} escapes nothing", text.locate(place, place + 2), hint=hint
        )
        return found[0]

    return _ESCAPE.sub(read, written)


# nodes

_POWERS = {
    "??": 1,
    "or": 2,
    "and": 3,
    "|": 4,
    "^": 5,
    "&": 6,
    "==": 7,
    "!=": 7,
    "in": 8,
    "not in": 8,
    "<": 9,
    ">": 9,
    "<=": 9,
    ">=": 9,
    "|>": 10,
    "..": 11,
    "<<": 12,
    ">>": 12,
    "+": 13,
    "-": 13,
    "*": 14,
    "/": 14,
    "%": 14,
    "**": 15,
}
"""The precedence of each operator; only `**` is right-associative."""
_COMPARISONS = frozenset({"==", "!=", "<", ">", "<=", ">=", "in", "not in"})
_ALIASES = {"&&": "and", "||": "or", "===": "==", "!==": "!="}
_WORDED = (
    (("is", "greater", "than"), ">"),
    (("is", "less", "than"), "<"),
    (("is", "at", "least"), ">="),
    (("is", "at", "most"), "<="),
    (("is", "not"), "!="),
    (("not", "in"), "not in"),
    (("is",), "=="),
    (("and",), "and"),
    (("or",), "or"),
    (("in",), "in"),
)
"""Operators that are words; longer ones come before their prefixes."""
_PREFIXES = {"-": "-", "!": "not", "not": "not", "~": "~", "typeof": "typeof"}
_LITERALS = {"true": True, "false": False, "null": None}
RESERVED = frozenset({*_LITERALS, "and", "or", "not", "is", "in", "typeof", "let"})
"""Words that cannot name a value."""


class Place(msgspec.Struct, frozen=True):
    """The surroundings of an expression: diagnostics, limits, and the names that are defined."""

    diagnostics: Diagnostics
    bounds: Bounds = DEFAULT_BOUNDS
    names: frozenset[str] = frozenset()
    """Names of functions and values that are defined by `let` or as parameters."""
    depth: int = 0


def parse_stretch(text: Excerpt, start: int, end: int, place: Place) -> Node | None:
    """Return the node of the expression in a part of a text; None after noting what is wrong."""
    if is_too_long(text, start, end, most=place.bounds.source, diagnostics=place.diagnostics):
        return None
    return parse_tokens(tokenize(text, start, end, place.diagnostics), text, place)


def parse_tokens(tokens: list[Token], text: Excerpt, place: Place) -> Node | None:
    """Return the node of some tokens, the last of which is the end; None after noting what is wrong."""
    if any(token.kind == "bad" for token in tokens):
        return None
    parser = _Parser(tokens, text, place)
    try:
        node = parser.whole()
    except ParseAbort:
        return None
    except RecursionError:
        span = text.locate(tokens[0].start, tokens[0].end)
        place.diagnostics.error(
            "too_deep", "the expression is nested too deeply", span, hint="Compute it in several steps"
        )
        return None
    if not parser.sound:
        return None
    count, height = nodes.measure(node)
    if count > place.bounds.nodes or height > place.bounds.height:
        hint = "Compute it in several steps, with `let`"
        place.diagnostics.error("too_large", "the expression is too large", node.span, hint=hint)
        return None
    return node


class _Parser(TokenParser[Token]):
    def __init__(self, tokens: list[Token], text: Excerpt, place: Place) -> None:
        super().__init__(tokens, text, place.diagnostics)
        self._place = place
        self._depth = place.depth
        self._names = place.names

    def _name(self, wanted: str) -> Token:
        token = self._next
        if token.kind != "word" or token.text in RESERVED:
            self._fail_unexpected(wanted)
        return self._take()

    # Whole expressions

    def _operator_meant(self, token: Token) -> str:
        if token.kind == "word":
            return did_you_mean(token.text, ("and", "or", "is", "in", "not"))
        if token.text == "=":
            return "To compare write `==` or `is`"
        return "No open bracket is left for it to close" if token.text in OPENING.values() else ""

    def _expression(self) -> Node:
        self._deeper()
        node = self._arrow() if self._begins_arrow() else self._choice()
        self._depth -= 1
        return node

    def _deeper(self) -> None:
        self._depth += 1
        limit = self._place.bounds.depth
        if self._depth > limit:
            message = f"more than {limit} levels are nested"
            self._fail("too_deep", message, self._next, "Compute it in several steps, with `let`")

    def _choice(self) -> Node:
        test = self._operation(0)
        if not self._symbol("?"):
            return test
        then = self._expression()
        self._expect(":", "`:` and the other value")
        otherwise = self._expression()
        return nodes.Conditional(self._span(test, otherwise), test, then, otherwise)

    # Operators

    def _operation(self, least: int) -> Node:
        """Read operands joined by operators that bind more tightly than `least`."""
        left = self._prefix()
        while True:
            name, count = self._operator()
            power = _POWERS.get(name, 0)
            if power <= least:
                return left
            sign = self._next
            self._at += count
            left = self._join(left, name, power, sign)

    def _operator(self) -> tuple[str, int]:
        """Return the next operator and its number of tokens."""
        token = self._next
        if token.kind == "symbol":
            return _ALIASES.get(token.text, token.text), 1
        if token.kind == "word":
            for words, name in _WORDED:
                if all(self._is_word(place, word) for place, word in enumerate(words)):
                    return name, len(words)
        return "", 0

    def _is_word(self, places: int, word: str) -> bool:
        token = self._ahead(places)
        return token.kind == "word" and token.text == word

    def _join(self, left: Node, name: str, power: int, sign: Token) -> Node:
        if name == "|>":
            return self._pipe(left)
        if name == "**":
            self._deeper()
            right = self._operation(power - 1)
            self._depth -= 1
        else:
            right = self._operation(power)
        span = self._span(left, right)
        if name in ("and", "or"):
            return self._logical(span, "and" if name == "and" else "or", left, right)
        if name == "??":
            return nodes.Fallback(span, left, right)
        if name == "..":
            return self._range(left, right)
        if name in _COMPARISONS:
            self._warn_of_not(left, sign)
        if name == "not in":
            return nodes.Unary(span, "not", nodes.Binary(span, "in", left, right))
        return nodes.Binary(span, name, left, right)

    def _logical(self, span: Span, name: str, left: Node, right: Node) -> Node:
        operator = "and" if name == "and" else "or"
        before = left.operands if isinstance(left, nodes.Logical) and left.operator == operator else (left,)
        return nodes.Logical(span, operator, (*before, right))

    def _range(self, first: Node, last: Node) -> Node:
        parts = [first, last]
        if self._is_word(0, "by"):
            self._take()
            parts.append(self._operation(_POWERS[".."]))
        return nodes.Call(self._span(first, parts[-1]), "..", tuple(parts))

    def _warn_of_not(self, left: Node, sign: Token) -> None:
        if isinstance(left, nodes.Unary) and left.operator == "not" and left.span not in self._grouped:
            self._place.diagnostics.warning(
                "not_before_comparison",
                f"`not` applies to what comes before {quote(sign.text)}, not to the comparison",
                left.span,
                hint="Put the comparison in brackets, or write the opposite comparison",
            )

    def _prefix(self) -> Node:
        signs: list[Token] = []
        while self._next.kind in ("symbol", "word") and self._next.text in _PREFIXES:
            signs.append(self._take())
        node = self._operand(self._primary())
        for sign in reversed(signs):
            node = nodes.Unary(self._span(sign, node), _PREFIXES[sign.text], node)
        return node

    # Pipes

    def _pipe(self, left: Node) -> Node:
        token = self._next
        if self._at_symbol("("):
            function = self._primary()
            return self._operand(nodes.Invoke(self._span(left, function), function, (left,)))
        if token.kind != "word" or token.text in RESERVED:
            self._fail_unexpected(
                "a function", "The left side becomes its first argument: `items |> Set.union(others)`"
            )
        self._take()
        written = token.text
        if written not in self._names and written in NAMESPACES and self._symbol("."):
            written = f"{written}.{self._name('the name of a function').text}"
        last = self._last
        arguments = self._arguments() if self._at_symbol("(") else ()
        span = self._span(left, self._last)
        if token.text in self._names:
            node: Node = nodes.Invoke(span, nodes.Name(self._span(token), token.text), (left, *arguments))
        elif written in FUNCTIONS:
            node = self._function_call(written, (left, *arguments), span, self._span(token, last))
        elif written in METHODS:
            node = self._method(left, written, arguments, span, self._span(token))
        else:
            node = self._unknown_function(written, self._span(token, last), also=METHODS)
        return self._operand(node)

    # Operands and what follows them

    def _operand(self, node: Node) -> Node:
        while True:
            if self._symbol("."):
                node = self._field(node)
            elif self._symbol("?."):
                return self._if_present(node)
            elif self._symbol("["):
                node = self._item(node)
            elif self._at_symbol("("):
                node = self._invoke(node)
            else:
                return node

    def _if_present(self, of: Node) -> Node:
        self._deeper()
        held = nodes.Name(of.span, nodes.HELD)
        then = self._operand(self._item(held) if self._symbol("[") else self._field(held))
        self._depth -= 1
        return nodes.IfPresent(of.span.to(then.span), of, then)

    def _item(self, of: Node) -> Node:
        at = self._expression()
        return nodes.Index(self._span(of, self._expect("]", "`]`")), of, at)

    def _invoke(self, function: Node) -> Node:
        if not isinstance(function, (nodes.Lambda, nodes.Invoke, nodes.Name)):
            self._fail("not_a_function", "this cannot be called", self._next, "Only functions and methods can")
        arguments = self._arguments()
        return nodes.Invoke(self._span(function, self._last), function, arguments)

    def _field(self, of: Node) -> Node:
        name = self._next
        if name.kind != "word":
            self._fail_unexpected("the name of a field")
        self._take()
        space = of.name if isinstance(of, nodes.Name) and of.name in NAMESPACES and of.name not in self._names else None
        if space is not None and (name.text in NAMESPACES[space] or space != "form"):
            return self._in_namespace(of, space, name)
        if not self._at_symbol("("):
            return nodes.Member(self._span(of, name), of, name.text)
        arguments = self._arguments()
        return self._method(of, name.text, arguments, self._span(of, self._last), self._span(name))

    def _in_namespace(self, of: Node, space: str, name: Token) -> Node:
        written = f"{space}.{name.text}"
        called = self._at_symbol("(")
        arguments = self._arguments() if called else ()
        span = self._span(of, self._last)
        if called and written in FUNCTIONS:
            return self._function_call(written, arguments, span, self._span(name))
        if not called and written in CONSTANTS:
            return nodes.Constant(span, CONSTANTS[written])
        hint = did_you_mean(name.text, NAMESPACES[space], otherwise=f"It has {', '.join(NAMESPACES[space])}")
        if written in FUNCTIONS:
            hint = f"Call it: `{written}(…)`"
        self._note("unknown_function", f"`{space}` has no {quote(name.text)} of this kind", self._span(name), hint)
        return nodes.Constant(span, None)

    def _method(self, of: Node, name: str, arguments: tuple[Node, ...], span: Span, at: Span) -> Node:
        method = METHODS.get(name)
        if method is None:
            hint = did_you_mean(name, METHODS, otherwise="See the list of methods")
            self._note("unknown_method", f"unknown method {quote(name)}", at, hint)
            return of
        self._check_arguments(name, len(arguments), method.least, method.most, at)
        return nodes.Method(span, of, name, arguments)

    def _function_call(self, name: str, arguments: tuple[Node, ...], span: Span, at: Span) -> Node:
        function = FUNCTIONS[name]
        self._check_arguments(name, len(arguments), function.least, function.most, at)
        return nodes.Call(span, name, arguments)

    def _unknown_function(self, name: str, at: Span, also: object = ()) -> Node:
        known = (*GLOBALS, *self._names, *FUNCTIONS, *(METHODS if also else ()))
        hint = did_you_mean(name, known, otherwise="See the list of functions")
        if name in METHODS:
            hint = f"Call it on a value: `value.{name}(…)`"
        self._note("unknown_function", f"unknown function {quote(name)}", at, hint)
        return nodes.Constant(at, None)

    # Values

    def _primary(self) -> Node:
        token = self._next
        if token.kind == "number":
            return self._number()
        if token.kind == "text":
            return self._string()
        if token.kind == "word":
            return self._word()
        if token.kind == "symbol" and token.text in OPENING:
            return {"(": self._group, "[": self._list, "{": self._object}[token.text]()
        hint = "Spread is not part of the language; use `concat` or `Object.merge`" if token.text == "..." else ""
        self._fail_unexpected("a value", hint)

    def _word(self) -> Node:
        token = self._next
        if token.text in _LITERALS:
            self._take()
            return nodes.Constant(self._span(token), _LITERALS[token.text])
        self._name("a value")
        if not self._at_symbol("(") or token.text in self._names:
            return nodes.Name(self._span(token), token.text)
        arguments = self._arguments()
        if token.text in GLOBALS:
            return self._function_call(token.text, arguments, self._span(token, self._last), self._span(token))
        return self._unknown_function(token.text, self._span(token))

    def _string(self) -> Node:
        token = self._take()
        parts: list[Node] = []
        place, end = token.start + 1, token.end - 1
        while place < end:
            code = self._next_code(place, end)
            if code > place:
                content = unescape(self._text, place, code, self._place.diagnostics)
                parts.append(nodes.Constant(self._text.locate(place, code), content))
            place = code
            if code < end:
                close = code_end(self._text.text, code + 2, end)
                self._interpolate(code, close, parts)
                place = close + 1
        span = self._span(token)
        if all(isinstance(part, nodes.Constant) for part in parts) and "${" not in token.text:
            return nodes.Constant(span, "".join(str(part.value) for part in parts if isinstance(part, nodes.Constant)))
        return Template(span, tuple(parts))

    def _next_code(self, place: int, end: int) -> int:
        """Return the offset of the next `${` in a text, or its end; an escaped one is text."""
        content = self._text.text
        while place < end:
            if content[place] == "\\":
                place += 2
            elif content.startswith("${", place):
                return place
            else:
                place += 1
        return end

    def _interpolate(self, start: int, end: int, parts: list[Node]) -> None:
        if not self._text.text[start + 2 : end].strip():
            at = self._text.locate(start, end + 1)
            self._note("empty_code", "there is nothing between the braces", at, "Name a value, or write `\\${`")
            return
        place = Place(self._place.diagnostics, self._place.bounds, self._names, self._depth + 1)
        if place.depth > place.bounds.depth:
            self._deeper_text(start)
        node = parse_stretch(self._text, start + 2, end, place)
        self.sound = self.sound and node is not None
        if node is not None:
            parts.append(node)

    def _deeper_text(self, start: int) -> NoReturn:
        limit = self._place.bounds.depth
        at = self._text.locate(start, start + 2)
        self._note("too_deep", f"more than {limit} levels are nested", at, "Compute it in several steps")
        raise ParseAbort

    def _listed(self, closing: str) -> list[Node]:
        items: list[Node] = []
        while not self._symbol(closing):
            depth = self._depth
            try:
                items.append(self._expression())
                if not (self._at_symbol(",") or self._at_symbol(closing)):
                    self._fail_unexpected(f"`,` or `{closing}`")
            except ParseAbort:
                self._recover(closing, depth)
            if not self._symbol(","):
                self._expect(closing, f"`,` or `{closing}`")
                break
        return items

    def _recover(self, closing: str, depth: int) -> None:
        """Continue after an error at the next item of the open bracket; stop if it never ends."""
        self._depth = depth
        open_brackets = 0
        while (token := self._next).kind != "end":
            if token.kind == "symbol":
                if open_brackets == 0 and token.text in (",", closing):
                    return
                open_brackets += (token.text in OPENING) - (token.text in OPENING.values())
            if open_brackets < 0:
                break
            self._at += 1
        raise ParseAbort

    def _object(self) -> Node:
        first = self._take()
        fields: dict[str, Node] = {}
        while not self._symbol("}"):
            depth = self._depth
            try:
                self._entry(fields)
            except ParseAbort:
                self._recover("}", depth)
            if not self._symbol(","):
                self._expect("}", "`,` or `}`")
                break
        return nodes.ObjectOf(self._span(first, self._last), tuple(fields.items()))

    def _entry(self, fields: dict[str, Node]) -> None:
        name = self._next
        if name.kind not in ("word", "text", "number"):
            hint = "For a computed name use `Object.fromEntries([[name, value]])`" if name.text == "[" else ""
            self._fail_unexpected("the name of a field", hint)
        self._take()
        key = name.text
        if name.kind == "text":
            if self._next_code(name.start + 1, name.end - 1) < name.end - 1:
                self._fail("computed_name", "the name of a field cannot be computed", name, "Write it out")
            key = unescape(self._text, name.start + 1, name.end - 1, self._place.diagnostics)
        if key in fields:
            self._note("duplicate", f"{quote(key)} is declared a second time", self._span(name), "Keep one of them")
        if self._symbol(":"):
            fields[key] = self._expression()
        elif name.kind == "word" and name.text not in RESERVED:
            fields[key] = nodes.Name(self._span(name), key)
        else:
            self._fail_unexpected("`:`")
        if not (self._at_symbol(",") or self._at_symbol("}")):
            self._fail_unexpected("`,` or `}`")

    # Functions

    def _begins_arrow(self) -> bool:
        token = self._next
        if token.kind == "word":
            return self._ahead(1).text == "=>" and self._ahead(1).kind == "symbol"
        if not self._at_symbol("("):
            return False
        open_brackets, place = 0, self._at
        while (token := self._tokens[place]).kind != "end":
            if token.kind == "symbol":
                open_brackets += (token.text in OPENING) - (token.text in OPENING.values())
                if open_brackets == 0:
                    after = self._tokens[place + 1]
                    return after.kind == "symbol" and after.text == "=>"
            place += 1
        return False

    def _arrow(self) -> Node:
        first = self._next
        parameters: list[nodes.Pattern] = []
        if self._symbol("("):
            while not self._symbol(")"):
                parameters.append(self._parameter())
                if not self._symbol(","):
                    self._expect(")", "`,` or `)`")
                    break
        else:
            parameters.append(nodes.Pattern("whole", (("", self._name("a parameter").text),)))
        self._expect("=>", "`=>`")
        around = self._names
        self._names = around.union(name for taken in parameters for _, name in taken.names)
        try:
            body = self._expression()
        finally:
            self._names = around
        return nodes.Lambda(self._span(first, body), tuple(parameters), body)

    def _parameter(self) -> nodes.Pattern:
        if self._symbol("["):
            return nodes.Pattern("items", tuple(("", name) for name, _ in self._parts("]")))
        if self._symbol("{"):
            return nodes.Pattern("fields", tuple(self._parts("}")))
        return nodes.Pattern("whole", (("", self._name("a parameter").text),))

    def _parts(self, closing: str) -> list[tuple[str, str]]:
        parts: list[tuple[str, str]] = []
        while not self._symbol(closing):
            name = self._name("a name").text
            renamed = self._name("a name").text if closing == "}" and self._symbol(":") else name
            parts.append((name, renamed))
            if not self._symbol(","):
                self._expect(closing, f"`,` or `{closing}`")
                break
        return parts
