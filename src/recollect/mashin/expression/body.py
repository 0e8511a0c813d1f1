"""The lines of a computation in, one node out: names for values, and the value of the last line.

A line goes on below while a bracket is open, behind an operator, or where the next begins with one. A line that begins
with `{` is a map.
"""

from __future__ import annotations

from recollect.lang.expression.nodes import Block, Node, measure
from recollect.lang.source import Excerpt, Span
from recollect.mashin.expression.parser import RESERVED, Place, parse_tokens, too_long
from recollect.mashin.expression.tokens import Token, tokenize
from recollect.model.text import quote

_LEADING = frozenset(
    ". ?. + * / % ** |> && || ?? ? : == != === !== < > <= >= .. << >> & ^ | => =".split()
)  # fmt: skip
"""Signs that go on with the line before; `-` and brackets can begin a value."""
_LEADING_WORDS = frozenset({"and", "or", "is", "in", "by"})
_TRAILING = _LEADING | {"-", "!", "~", ","}
_TRAILING_WORDS = _LEADING_WORDS | {"not", "typeof", "let"}


def parse_lines(text: Excerpt, place: Place) -> Node | None:
    """Return the node of a computation; None after noting every fault of every line."""
    end = len(text.text)
    if too_long(text, 0, end, place):
        return None
    statements = _statements(tokenize(text, 0, end, place.said), text.text)
    if not statements:
        place.said.error("empty_body", "there is nothing to compute", text.locate(0, end), hint="Write an expression")
        return None
    reading = _Reading(text, place)
    for statement in statements[:-1]:
        reading.binding(statement)
    result = reading.last(statements[-1])
    if result is None or not reading.sound:
        return None
    if not reading.bindings:
        return result
    first = next(iter(reading.spans.values()))
    node = Block(first.to(result.span), tuple(reading.bindings.items()), result)
    if measure(node)[0] > place.bounds.nodes:
        place.said.error("too_large", "the computation is too large", node.span, hint="Make it several steps")
        return None
    return node


class _Reading:
    def __init__(self, text: Excerpt, place: Place) -> None:
        self._text = text
        self._place = place
        self.bindings: dict[str, Node] = {}
        self.spans: dict[str, Span] = {}
        self.sound = True

    def _fail(self, code: str, message: str, first: Token, last: Token, hint: str) -> None:
        self.sound = False
        self._place.said.error(code, message, self._text.locate(first.start, last.end), hint=hint)

    @property
    def _here(self) -> Place:
        names = self._place.names | self.spans.keys()
        return Place(self._place.said, self._place.bounds, names, self._place.depth)

    def binding(self, tokens: list[Token]) -> None:
        """Keep what a line gives a name to."""
        if not _is_let(tokens):
            hint = "Give it a name, `let name = …`, or remove it: only the last line is the value"
            self._fail("unused_value", "the value of this line is not used", tokens[0], tokens[-1], hint)
            self._expression(tokens)
            return
        word, name = tokens[0], tokens[min(1, len(tokens) - 1)]
        if name is word or name.kind != "word" or name.text in RESERVED:
            self._fail("bad_let", "`let` needs a name", word, name, "Write `let name = …`")
            return
        if len(tokens) < 4 or tokens[2].text != "=" or tokens[2].kind != "symbol":
            self._fail("bad_let", f"`let {name.text}` needs `=` and a value", word, tokens[-1], "Write `let name = …`")
            return
        value = self._expression(tokens[3:])
        if name.text in self.spans:
            hint = "A name stands for one value; choose another"
            self._fail("duplicate_name", f"{quote(name.text)} was given a value before", name, name, hint)
        elif value is not None:
            self.bindings[name.text] = value
        self.spans.setdefault(name.text, self._text.locate(word.start, name.end))

    def last(self, tokens: list[Token]) -> Node | None:
        """Return the value of the last line."""
        if not _is_let(tokens):
            return self._expression(tokens)
        self.binding(tokens)
        self._fail(
            "missing_result",
            "the last line gives a name and no value",
            tokens[0],
            tokens[-1],
            "End with an expression: it is the value of the step",
        )
        return None

    def _expression(self, tokens: list[Token]) -> Node | None:
        end = tokens[-1].end
        node = parse_tokens([*tokens, Token("end", "", end, end)], self._text, self._here)
        self.sound = self.sound and node is not None
        return node


def _is_let(tokens: list[Token]) -> bool:
    return tokens[0].kind == "word" and tokens[0].text == "let"


def _statements(tokens: list[Token], text: str) -> list[list[Token]]:
    statements: list[list[Token]] = []
    depth = 0
    for token in tokens[:-1]:
        before = statements[-1][-1] if statements else None
        if before is None or (depth <= 0 and _new_line(text, before, token) and _begins(before, token)):
            statements.append([])
            depth = 0
        statements[-1].append(token)
        if token.kind == "symbol":
            depth += (token.text in "([{") - (token.text in ")]}")
    return statements


def _new_line(text: str, before: Token, token: Token) -> bool:
    between = text[before.end : token.start]
    return "\n" in between or "\r" in between


def _begins(before: Token, token: Token) -> bool:
    """Say whether a token that stands on a new line begins a statement."""
    if before.kind == "symbol" and before.text in _TRAILING:
        return False
    if before.kind == "word" and before.text in _TRAILING_WORDS:
        return False
    if token.kind == "symbol":
        return token.text not in _LEADING
    return not (token.kind == "word" and token.text in _LEADING_WORDS)
