"""Tokenizer and recursive-descent parser of ABL expressions.

From loose to tight: IMPLIES, OR, AND, NOT, one comparison, `+ -`, `* / %`, unary minus, and what follows an operand:
`.field`, `[index]`, `(arguments)`. NOT applies to the whole comparison.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from memoranda.abl.expression.functions import FUNCTIONS
from memoranda.errors import UsageError
from memoranda.lang.diagnostics import Diagnostics, did_you_mean, unclosed_quote_message
from memoranda.lang.expression.dialect import DEFAULT_BOUNDS, Bounds
from memoranda.lang.expression.nodes import (
    Binary,
    Call,
    Constant,
    Index,
    Logical,
    Matches,
    Member,
    Name,
    Node,
    ObjectOf,
    Unary,
    measure,
)
from memoranda.lang.expression.parser import OPENING, ParseAbort, TokenParser, is_too_long
from memoranda.lang.expression.patterns import compile_pattern
from memoranda.lang.source import Excerpt, Span
from memoranda.lang.template import LOOP_NAMES
from memoranda.model.text import quote

Kind = Literal["word", "number", "text", "pattern", "symbol", "end"]

_SPACE = re.compile(r"\s*")
_TOKEN = re.compile(
    r"""(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
      | (?P<word>@?[^\W\d]\w*)
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<symbol>===|!==|==|!=|>=|<=|&&|\|\||[-+*/%<>!()\[\]{},.:])""",
    re.VERBOSE | re.DOTALL,
)
_FIELD = re.compile(r"[0-9]+|[^\W\d]\w*")
_PATTERN = re.compile(r"/((?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+)/([a-z]*)")
_ESCAPE = re.compile(r"""\\(?:u([0-9a-fA-F]{4})|([\\"'nrt]))""")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_HINTS = {
    "=": "To compare write `==`",
    "===": "To compare write `==`",
    "!==": "To compare write `!=`",
    "&": "Write `AND`",
    "|": "Write `OR`",
    "\N{LEFT DOUBLE QUOTATION MARK}": 'Use straight quotes: `"`',
    "\N{RIGHT DOUBLE QUOTATION MARK}": 'Use straight quotes: `"`',
    "\N{LEFT SINGLE QUOTATION MARK}": "Use straight quotes: `'`",
    "\N{RIGHT SINGLE QUOTATION MARK}": "Use straight quotes: `'`",
    "?": "`? :` is not part of the language; use IF and ELSE branches, or COALESCE for a fallback",
}


class Token(msgspec.Struct, frozen=True):
    """A token with its offsets in the excerpt."""

    kind: Kind
    text: str
    """As written; for a text or pattern, what is between the delimiters."""
    start: int
    end: int
    flags: str = ""

    @property
    def folded(self) -> str:
        """A word in lower case, since keywords ignore case; empty for other tokens."""
        return self.text.lower() if self.kind == "word" else ""


def tokenize(text: Excerpt, start: int, end: int, diagnostics: Diagnostics) -> list[Token] | None:
    """Return the tokens of a range, including the end token; None, with a diagnostic, on an error."""
    tokens: list[Token] = []
    place = _skip(text.text, start, end)
    while place < end:
        token = _read(text.text, place, end, tokens[-1] if tokens else None)
        if token is None or token.text in ("===", "!=="):
            _refuse(text, place, end, diagnostics)
            return None
        tokens.append(token)
        place = _skip(text.text, token.end, end)
    tokens.append(Token("end", "", end, end))
    return tokens


def _skip(text: str, place: int, end: int) -> int:
    found = _SPACE.match(text, place, end)
    return found.end() if found else place


def _read(text: str, place: int, end: int, before: Token | None) -> Token | None:
    if before and before.folded == "matches" and (found := _PATTERN.match(text, place, end)):
        return Token("pattern", found[1].replace("\\/", "/"), place, found.end(), found[2])
    if before and before.text == "." and before.kind == "symbol" and before.end == place:
        # After a dot `0.1` is two fields, not a number.
        found = _FIELD.match(text, place, end)
        if found:
            return Token("word", found[0], place, found.end())
    found = _TOKEN.match(text, place, end)
    if found is None:
        return None
    if found["text"]:
        return Token("text", found[0][1:-1], place, found.end())
    kind: Kind = "number" if found["number"] else "word" if found["word"] else "symbol"
    return Token(kind, found[0], place, found.end())


def _refuse(text: Excerpt, place: int, end: int, diagnostics: Diagnostics) -> None:
    mark = text.text[place]
    if mark in "\"'":
        hint = f"End the text with {mark} on the same line"
        diagnostics.error(
            "unclosed_quote", unclosed_quote_message(text.text[place:end]), text.locate(place, place + 1), hint=hint
        )
        return
    written = next((symbol for symbol in ("===", "!==") if text.text.startswith(symbol, place)), mark)
    diagnostics.error(
        "unexpected_character",
        f"{quote(written)} has no meaning here",
        text.locate(place, place + len(written)),
        hint=_HINTS.get(written, ""),
    )


def unescape(token: Token, text: Excerpt) -> Excerpt:
    r"""Return a quoted text without escapes, as an excerpt.

    Only a backslash, quotes, n, r, t and u with four digits can be escaped. Other backslashes stay, so that patterns
    can be written as "^\d+$".
    """
    parts: list[str] = []
    runs: list[tuple[int, int]] = []
    length, place = 0, 0
    for found in _ESCAPE.finditer(token.text):
        plain = token.text[place : found.start()]
        runs.append((length, text.origin(token.start + 1 + place)))
        parts.append(plain)
        length += len(plain)
        runs.append((length, text.origin(token.start + 1 + found.start())))
        parts.append(chr(int(found[1], 16)) if found[1] else _ESCAPED.get(found[2], found[2]))
        length += 1
        place = found.end()
    runs.append((length, text.origin(token.start + 1 + place)))
    parts.append(token.text[place:])
    return Excerpt("".join(parts), tuple(runs))


ReadTemplate: TypeAlias = Callable[[Excerpt, "Place"], Node | None]
"""Parses a quoted text with `{{`, which is a template."""

_COMPARISONS = ("==", "!=", "<=", ">=", "<", ">")
_WORD_COMPARISONS = {"in": "in", "contains": "contains", "startswith": "startsWith", "endswith": "endsWith"}
_QUESTIONS = {"is_number": "IS_NUMBER", "is_string": "IS_STRING", "is_array": "IS_ARRAY"}
"""Words after an operand that are also functions: `input is_number`."""
_METHODS = ("contains", "startsWith", "endsWith", "matches")
_LITERALS = {"true": True, "false": False, "null": None, "undefined": None}
_OPERATOR_WORDS = frozenset({"and", "or", "not", "implies", "is", "matches", *_WORD_COMPARISONS, *_QUESTIONS})
_PREFIXES = {"-": "-", "EXISTS": "is set", "EMPTY": "empty"}


class Place:
    """The context of an expression: diagnostics, bounds, and whether it is in a loop."""

    __slots__ = ("bounds", "depth", "diagnostics", "in_loop", "read_template")

    def __init__(
        self,
        diagnostics: Diagnostics,
        read_template: ReadTemplate,
        *,
        bounds: Bounds = DEFAULT_BOUNDS,
        in_loop: bool = False,
        depth: int = 0,
    ) -> None:
        """Store the context."""
        self.diagnostics = diagnostics
        self.read_template = read_template
        self.bounds = bounds
        self.in_loop = in_loop
        self.depth = depth

    def in_text(self, depth: int) -> Place:
        """Return the context of a quoted template at this depth of an expression."""
        return Place(self.diagnostics, self.read_template, bounds=self.bounds, in_loop=self.in_loop, depth=depth)

    def looping(self) -> Place:
        """Return the context of the body of a loop."""
        return Place(self.diagnostics, self.read_template, bounds=self.bounds, in_loop=True, depth=self.depth)


def parse_stretch(text: Excerpt, start: int, end: int, place: Place, *, tag: bool = False) -> Node | None:
    """Parse the expression in a range of a text; None, with diagnostics, if it has errors.

    With `tag` it is the content of `{{…}}`, where `add @index 1` calls a function without brackets.
    """
    if is_too_long(text, start, end, most=place.bounds.source, diagnostics=place.diagnostics):
        return None
    tokens = tokenize(text, start, end, place.diagnostics)
    if tokens is None:
        return None
    parser = _Parser(tokens, text, place)
    try:
        node = parser.tag() if tag else parser.whole()
    except ParseAbort:
        return None
    if not parser.sound:
        return None
    if _may_be_large(len(tokens), text.text, start, end, place.bounds) and _is_large(node, place.bounds):
        place.diagnostics.error(
            "too_large", "the expression is too large", node.span, hint="Compute it in several steps, with SET"
        )
        return None
    return node


def _may_be_large(tokens: int, text: str, start: int, end: int, bounds: Bounds) -> bool:
    """Return whether an expression needs measuring: a node has at least one token, except in a quoted template."""
    return tokens > min(bounds.nodes, bounds.height) or text.find("{{", start, end) >= 0


def _is_large(node: Node, bounds: Bounds) -> bool:
    count, height = measure(node)
    return count > bounds.nodes or height > bounds.height


class _Parser(TokenParser[Token]):
    def __init__(self, tokens: list[Token], text: Excerpt, place: Place) -> None:
        super().__init__(tokens, text, place.diagnostics)
        self._place = place
        self._depth = place.depth

    def _word(self, *words: str) -> Token | None:
        token = self._tokens[self._at]
        if token.kind == "word" and token.text.lower() in words:
            self._at += 1
            return token
        return None

    # Whole expressions

    def _operator_meant(self, token: Token) -> str:
        if token.kind == "word":
            return did_you_mean(token.text, ("AND", "OR", "IS SET", "IN", "contains", "matches", "IMPLIES"))
        if token.kind == "symbol" and token.text in _COMPARISONS:
            return "Comparisons cannot be chained; join two with AND"
        return ""

    def tag(self) -> Node:
        first, second = self._next, self._ahead(1)
        bracket = second.kind == "symbol"
        if first.folded.upper() not in FUNCTIONS or bracket or not self._begins_operand(second):
            return self.whole()
        self._take()
        arguments: list[Node] = []
        while self._next.kind != "end":
            arguments.append(self._negative())
        return self._function_call(first.text, tuple(arguments), self._span(first, arguments[-1]))

    def _expression(self) -> Node:
        self._depth += 1
        if self._depth > self._place.bounds.depth:
            limit = self._place.bounds.depth
            self._fail(
                "too_deep", f"the expression is nested more than {limit} levels deep", self._next, "Compute it in steps"
            )
        left = self._either()
        if self._word("implies"):
            right = self._expression()
            left = Logical(self._span(left, right), "implies", (left, right))
        self._depth -= 1
        return left

    def _either(self) -> Node:
        operands = [self._both()]
        while self._word("or") or self._symbol("||"):
            operands.append(self._both())
        return operands[0] if len(operands) == 1 else Logical(self._spread(operands), "or", tuple(operands))

    def _both(self) -> Node:
        operands = [self._negation()]
        while self._word("and") or self._symbol("&&"):
            operands.append(self._negation())
        return operands[0] if len(operands) == 1 else Logical(self._spread(operands), "and", tuple(operands))

    def _spread(self, nodes: list[Node]) -> Span:
        return nodes[0].span.to(nodes[-1].span)

    def _negation(self) -> Node:
        signs: list[Token] = []
        while sign := self._word("not") or self._symbol("!"):
            signs.append(sign)
        node = self._comparison()
        if signs and isinstance(node, Binary) and node.operator in _COMPARISONS and node.span not in self._grouped:
            self._place.diagnostics.warning(
                "not_over_comparison",
                f"{quote(signs[-1].text)} applies to the whole comparison",
                self._span(signs[-1]),
                hint="Put the comparison in brackets to show that it is meant, or write the opposite comparison",
            )
        for sign in reversed(signs):
            node = Unary(self._span(sign, node), "not", node)
        return node

    # Comparisons

    def _comparison(self) -> Node:
        left = self._sum()
        if sign := self._symbol(*_COMPARISONS):
            right = self._sum()
            return Binary(self._span(left, right), sign.text, left, right)
        word = self._next.folded
        if word == "is":
            return self._is_set(left)
        if word in _QUESTIONS:
            asked = self._take()
            return Call(self._span(left, asked), _QUESTIONS[word], (left,))
        if word == "not" and self._ahead(1).folded == "in":
            self._take()
            found = self._word_comparison(left)
            return Unary(found.span, "not", found)
        if word == "matches" or word in _WORD_COMPARISONS:
            return self._word_comparison(left)
        return left

    def _is_set(self, left: Node) -> Node:
        self._take()
        negated = self._word("not")
        last = self._word("set")
        if last is None:
            self._fail("unexpected_token", "`IS` needs `SET` after it", self._next, "Write IS SET or IS NOT SET")
        node = Unary(self._span(left, last), "is set", left)
        return Unary(node.span, "not", node) if negated else node

    def _word_comparison(self, left: Node) -> Node:
        word = self._take().folded
        if word == "matches":
            return self._matches(left)
        right = self._sum()
        return Binary(self._span(left, right), _WORD_COMPARISONS[word], left, right)

    def _matches(self, left: Node) -> Node:
        token = self._next
        if token.kind == "pattern":
            self._take()
            return self._pattern(left, token, token.text, token.flags)
        if token.kind == "text" and not (self._ahead(1).kind == "symbol" and self._ahead(1).text == "+"):
            # A pattern is never a template, so that user input cannot become part of a pattern.
            self._take()
            return self._pattern(left, token, unescape(token, self._text).text, "")
        right = self._sum()
        return Matches(self._span(left, right), left, right)

    def _pattern(self, left: Node, token: Token, written: str, flags: str) -> Node:
        try:
            compile_pattern(written, flags)
        except UsageError as fault:
            self._note("bad_pattern", fault.message, self._span(token), fault.hint)
        return Matches(self._span(left, token), left, Constant(self._span(token), written), flags)

    # Arithmetic

    def _sum(self) -> Node:
        node = self._product()
        while sign := self._symbol("+", "-"):
            right = self._product()
            node = Binary(self._span(node, right), sign.text, node, right)
        return node

    def _product(self) -> Node:
        node = self._negative()
        while sign := self._symbol("*", "/", "%"):
            right = self._negative()
            node = Binary(self._span(node, right), sign.text, node, right)
        return node

    def _negative(self) -> Node:
        signs: list[Token] = []
        while sign := self._symbol("-") or self._prefix():
            signs.append(sign)
        node = self._operand()
        for sign in reversed(signs):
            node = Unary(self._span(sign, node), _PREFIXES[sign.text], node)
        return node

    def _prefix(self) -> Token | None:
        # Only in capitals and before an operand; otherwise they are names.
        named = self._next.kind == "word" and self._next.text in _PREFIXES
        return self._take() if named and self._begins_operand(self._ahead(1)) else None

    # Operands and what follows them

    def _operand(self) -> Node:
        node = self._primary()
        while True:
            if self._symbol("."):
                node = self._field(node)
            elif self._symbol("["):
                at = self._expression()
                node = Index(self._span(node, self._expect("]", "`]`")), node, at)
            elif self._at_symbol("("):
                self._fail("not_a_function", "this cannot be called", self._next, "Only functions and methods can")
            else:
                return node

    def _field(self, of: Node) -> Node:
        name = self._next
        if name.kind != "word":
            self._fail_unexpected("the name of a field")
        self._take()
        if not (self._at_symbol("(")):
            return Member(self._span(of, name), of, name.text)
        arguments = self._arguments()
        span = self._span(of, self._last)
        if isinstance(of, Name) and of.name.lower() == "abl":
            return self._function_call(name.text, arguments, span, name)
        return self._method(of, name, arguments, span)

    def _method(self, of: Node, name: Token, arguments: tuple[Node, ...], span: Span) -> Node:
        method = next((known for known in _METHODS if known.lower() == name.folded), None)
        if method is None:
            return self._function_call(name.text, (of, *arguments), span, name)
        if len(arguments) != 1:
            self._note("wrong_arguments", f"`{method}` takes 1 argument, not {len(arguments)}", span)
            return of
        if method == "matches":
            return self._matches_method(of, arguments[0], span)
        return Binary(span, method, of, arguments[0])

    def _matches_method(self, of: Node, pattern: Node, span: Span) -> Node:
        if isinstance(pattern, Constant) and isinstance(pattern.value, str):
            try:
                compile_pattern(pattern.value)
            except UsageError as fault:
                self._note("bad_pattern", fault.message, pattern.span, fault.hint)
        return Matches(span, of, pattern)

    def _primary(self) -> Node:
        token = self._next
        if token.kind == "number":
            return self._number()
        if token.kind == "text":
            return self._string()
        if token.kind == "word":
            return self._word_operand()
        if token.kind == "symbol" and token.text in OPENING:
            return {"(": self._group, "[": self._list, "{": self._object}[token.text]()
        if token.kind == "symbol" and token.text == "/":
            self._fail(
                "unexpected_token",
                "`/` was found where a value was expected",
                token,
                "A /pattern/ may only follow `matches`",
            )
        self._fail_unexpected("a value")

    def _string(self) -> Node:
        token = self._take()
        content = unescape(token, self._text)
        if "{{" not in content.text:
            return Constant(self._span(token), content.text)
        node = self._place.read_template(content, self._place.in_text(self._depth))
        if node is None:
            self.sound = False
            return Constant(self._span(token), "")
        return node

    def _word_operand(self) -> Node:
        token = self._take()
        if self._at_symbol("("):
            arguments = self._arguments()
            return self._function_call(token.text, arguments, self._span(token, self._last), token)
        if token.folded in _LITERALS:
            return Constant(self._span(token), _LITERALS[token.folded])
        if token.folded in ("and", "or", "implies"):
            self._at -= 1
            self._fail_unexpected("a value")
        if token.text in LOOP_NAMES and token.text.startswith("@") and not self._place.in_loop:
            self._place.diagnostics.warning(
                "outside_loop", f"{quote(token.text)} has a value only inside {{{{#each}}}}", self._span(token)
            )
        elif token.text.startswith("@") and token.text not in LOOP_NAMES:
            hint = did_you_mean(token.text, LOOP_NAMES)
            self._note("unknown_name", f"{quote(token.text)} is not known", self._span(token), hint)
        return Name(self._span(token), token.text)

    def _begins_operand(self, token: Token) -> bool:
        if token.kind == "symbol":
            return token.text in OPENING
        return token.kind in ("number", "text") or (token.kind == "word" and token.folded not in _OPERATOR_WORDS)

    def _listed(self, closing: str) -> list[Node]:
        items: list[Node] = []
        while not self._symbol(closing):
            items.append(self._expression())
            if not self._symbol(","):
                self._expect(closing, f"`,` or `{closing}`")
                break
        return items

    def _object(self) -> Node:
        first = self._take()
        if self._symbol("{"):
            # `{{user.name}}`, as in a template, is the value itself.
            inside = self._expression()
            self._expect("}", "`}}`")
            self._expect("}", "`}}`")
            return inside
        fields: dict[str, Node] = {}
        while not self._symbol("}"):
            name = self._next
            if name.kind not in ("word", "text", "number"):
                self._fail_unexpected("the name of a field")
            self._take()
            key = unescape(name, self._text).text if name.kind == "text" else name.text
            if self._symbol(":"):
                fields[key] = self._expression()
            elif name.kind == "word":
                fields[key] = Name(self._span(name), key)
            else:
                self._fail_unexpected("`:`")
            if not self._symbol(","):
                self._expect("}", "`,` or `}`")
                break
        return ObjectOf(self._span(first, self._last), tuple(fields.items()))

    def _function_call(self, written: str, arguments: tuple[Node, ...], span: Span, name: Token | None = None) -> Node:
        function = FUNCTIONS.get(written.upper())
        at = self._span(name) if name else span
        if function is None:
            hint = did_you_mean(written, (*FUNCTIONS, *_METHODS), otherwise="See the list of functions")
            self._note("unknown_function", f"unknown function {quote(written)}", at, hint)
            return Constant(span, None)
        self._check_arguments(function.name, len(arguments), function.least, function.most, at)
        return Call(span, function.name, arguments)
