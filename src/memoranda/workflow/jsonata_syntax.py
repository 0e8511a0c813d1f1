"""The syntax of expressions: the library's tokenizer and parser with their faults mended, and what a tree reads."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from copy import copy
from itertools import pairwise
from typing import Any, Literal

import msgspec

from memoranda.workflow.jsonata_functions import Matcher, Signature
from memoranda.workflow.jsonata_library import JException, Parser, Signs, Tokenizer
from memoranda.workflow.jsonata_numbers import EXACT, is_exact

_CHOICES = ("?:", "??")
_DIGITS = re.compile(r"(?<![0-9])[0-9]++\Z")
_LONGEST = 20
"""Digits of a number that can be exact, at most."""


class _Lexer(Tokenizer):
    """The library's tokenizer; it would read every number as a float, and join no surrogate pairs."""

    def create(self, type: str, value: Any) -> Any:
        """Return a token; `position` is already behind it."""
        if type == "number" and abs(value) >= EXACT:
            digits = _DIGITS.search(self.path[max(0, self.position - _LONGEST - 1) : self.position])
            whole = int(digits[0]) if digits is not None and len(digits[0]) <= _LONGEST else 0
            value = whole if float(whole) == value and is_exact(whole) else float(value)
        elif type == "string" and not value.isascii():
            # Escapes can write a character as two surrogates, or as one half alone.
            value = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return Tokenizer.create(self, type, value)


class _Choice(Parser.Infix):
    """`a ?: b` and `a ?? b`, as one node that evaluates its left side once.

    The library makes a condition of them that has the left side twice, as one node: the second pass over the tree then
    negates a number again and applies a predicate to what it has already selected.
    """

    def led(self, left: Any) -> Any:
        """Read the right side."""
        self.type = "binary"
        self.lhs = left
        self.rhs = self._outer_instance.expression(0)
        return self


class _Syntax(Parser):
    def __init__(self) -> None:
        Parser.__init__(self)
        for operator in _CHOICES:
            del self.symbol_table[operator]
            self.register(_Choice(self, operator))

    def parse(self, jsonata: str, regex_engine: Any = None) -> Any:
        """Return the tree of a text."""
        # The library keeps the parents of all texts that it ever read.
        self.ancestry, self.ancestor_index, self.ancestor_label = [], 0, 0
        self.source = jsonata
        self.lexer = _Lexer(jsonata, Matcher.compile)
        self.advance()
        node = self.expression(0)
        if self.node.id != "(end)":
            raise JException("S0201", self.node.position, self.node.value)
        node = self.process_ast(node)
        if node.type == "parent" or node.seeking_parent is not None:
            raise JException("S0217", node.position, node.type)
        return node

    def process_ast(self, expr: Any) -> Any:
        """Return the tree for evaluation of a parsed one."""
        if expr is not None and expr.type == "unary" and expr.value == "-":
            return self._negation(expr)
        made = Parser.process_ast(self, expr)
        if made is not None and made.type == "lambda" and made.signature is not None:
            made.signature = Signature.of(made.signature)
        return made

    def _negation(self, expr: Any) -> Any:
        operand = self.process_ast(expr.expression)
        if operand.type == "number":
            # A copy: the library would write into the token, through a float.
            made = copy(operand)
            made.value = -operand.value
        else:
            made = Signs(self)
            made.type, made.value, made.position, made.expression = expr.type, expr.value, expr.position, operand
            self.push_ancestry(made, operand)
        made.keep_array = made.keep_array or expr.keep_array
        return made

    def tail_call_optimize(self, expr: Any) -> Any:
        """Mark calls at the end of a function, also those to the right of `?:` and `??`."""
        if expr.type == "binary" and expr.value in _CHOICES:
            expr.rhs = self.tail_call_optimize(expr.rhs)
            return expr
        return Parser.tail_call_optimize(self, expr)


class _Parsers(threading.local):
    parser: _Syntax | None = None


_parsers = _Parsers()


def parser() -> Any:
    """Return the parser of this thread; making one takes as long as reading an expression."""
    if _parsers.parser is None:
        _parsers.parser = _Syntax()
    return _parsers.parser


def direct_path(tree: Any) -> tuple[str, ...] | None:
    """Return the variable and the fields of a tree that is a plain path; None for any other tree.

    The variable of a path of fields alone, which starts at the context, is empty.
    """
    steps = tree.steps if tree.type == "path" else [tree]
    first = steps[0]
    is_field = first.type == "name" and tree.type == "path"
    if not is_field and (first.type != "variable" or first.value in (None, "", "$")):
        return None
    if any(step.type != "name" for step in steps[1:]) or tree.keep_singleton_array:
        return None
    for step in (tree, *steps):
        parts = (step.predicate, step.stages, step.group, step.focus, step.index, step.ancestor, step.tuple)
        if step.keep_array or any(part is not None for part in parts):
            return None
    path = tuple(str(step.value) for step in steps)
    return ("", *path) if is_field else path


def append_operand(tree: Any, variable: str) -> Any | None:
    """Return the second part of `$append($variable, …)` and `[$variable, …]`; None for any other tree."""
    if any(part is not None for part in (tree.predicate, tree.stages, tree.group)) or tree.keep_array:
        return None
    if tree.type == "function" and (tree.procedure.type, tree.procedure.value) == ("variable", "append"):
        parts = tree.arguments
    elif tree.type == "unary" and tree.value == "[":
        parts = tree.expressions
    else:
        return None
    if len(parts) != 2 or direct_path(parts[0]) != (variable,):
        return None
    # A literal list inside a literal list is one item of it.
    return parts[1] if tree.type == "function" or parts[1].value != "[" else None


# what an expression reads

Kind = Literal["variable", "function", "field"]

_ONE = ("lhs", "rhs", "expression", "condition", "then", "_else", "procedure", "body")
_ONE_INSIDE = ("group", "pattern", "update", "delete", "expr")
_MANY = ("steps", "expressions", "arguments")
_MANY_INSIDE = ("predicate", "stages", "terms", "rhs_terms")
_PAIRS = ("lhs_object", "rhs_object")
"""The attributes of a node that hold its parts; `_INSIDE` ones are evaluated against its result, not its input."""


class Read(msgspec.Struct, frozen=True):
    """Something an expression reads: a variable with its fields (`$output.save.id`), a function, or a bare field.

    A bare field is looked up in the input document, which is empty in a workflow.
    """

    kind: Kind
    path: tuple[str, ...]
    start: int
    end: int


class _Walk:
    def __init__(self) -> None:
        self.found: list[Read] = []
        self.bound: set[str] = set()
        self.height = 0

    def node(self, node: Any, depth: int, *, root: bool) -> None:
        """Visit a node; `root` means that it is evaluated against the input document itself."""
        self.height = max(self.height, depth)
        self._names(node)
        kind = node.type
        if kind == "path":
            self._path(node, depth, root=root)
            return
        if kind == "variable":
            self._variable(node, [])
        elif kind == "name" and root:
            self._add("field", node, 0)
        for child, inside in _children(node):
            if child is node.procedure and child.type == "variable":
                self._add("function", child, 1)
            else:
                self.node(child, depth + 1, root=root and not inside)

    def _path(self, node: Any, depth: int, *, root: bool) -> None:
        first = node.steps[0]
        if first.type == "variable":
            fields: list[Any] = []
            for before, step in pairwise(node.steps):
                # After a filter or a binding, a name is a field of the items.
                if step.type != "name" or before.stages or before.predicate or before.focus or before.index:
                    break
                fields.append(step)
            self._variable(first, fields)
        elif first.type == "name" and root:
            self._add("field", first, 0)
        for number, step in enumerate(node.steps):
            self._names(step)
            if step.type not in ("variable", "name"):
                self.node(step, depth + 1, root=root and not number)
                continue
            for child, _ in _children(step):
                self.node(child, depth + 1, root=False)
        if node.group is not None:
            self.node(node.group, depth + 1, root=False)

    def _variable(self, node: Any, fields: list[Any]) -> None:
        if node.value in ("", "$", None):
            return
        path = (str(node.value), *(str(field.value) for field in fields))
        end = fields[-1].position if fields else node.position
        self.found.append(Read("variable", path, node.position - len(path[0]) - 1, end))

    def _add(self, kind: Kind, node: Any, prefix: int) -> None:
        name = str(node.value)
        self.found.append(Read(kind, (name,), max(node.position - len(name) - prefix, 0), node.position))

    def _names(self, node: Any) -> None:
        """Collect the names that the expression itself binds."""
        if node.type == "bind" and node.lhs is not None:
            self.bound.add(str(node.lhs.value))
        if node.type == "lambda":
            self.bound.update(str(argument.value) for argument in node.arguments or ())
        for name in (node.focus, node.index):
            if isinstance(name, str):
                self.bound.add(name)
        for stage in node.stages or ():
            if stage.type == "index":
                self.bound.add(str(stage.value))


def _children(node: Any) -> Iterator[tuple[Any, bool]]:
    """Yield the parts of a node, and whether each is evaluated against the node's result instead of its input."""
    # The left side of a binding and the parameters of a lambda are names, not values.
    names = {"bind": "lhs", "lambda": "arguments"}.get(node.type)
    for name in (*_ONE, *_ONE_INSIDE):
        child = getattr(node, name)
        if hasattr(child, "type") and name != names:
            yield child, name in _ONE_INSIDE
    for name in (*_MANY, *_MANY_INSIDE):
        if name != names:
            yield from ((child, name in _MANY_INSIDE) for child in getattr(node, name) or () if hasattr(child, "type"))
    for name in _PAIRS:
        yield from ((child, False) for pair in getattr(node, name) or () for child in pair)


class Reads(msgspec.Struct, frozen=True):
    """What a tree reads, and its height."""

    outside: tuple[Read, ...]
    """What it does not bind itself, in the order of the text."""
    paths: tuple[tuple[str, ...], ...]
    """All variables with their fields, also those that it binds."""
    height: int


def reads_of(tree: Any) -> Reads:
    """Return what a tree reads."""
    walk = _Walk()
    walk.node(tree, 1, root=True)
    read = dict.fromkeys(one for one in walk.found if one.kind == "field" or one.path[0] not in walk.bound)
    paths = dict.fromkeys(one.path for one in walk.found if one.kind == "variable")
    return Reads(tuple(sorted(read, key=lambda one: (one.start, one.end))), tuple(paths), walk.height)
