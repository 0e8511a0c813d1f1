"""The raw texts of a document in, the nodes of their expressions out, each parsed once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection

from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.expression.nodes import Block, Node
from memoranda.lang.source import Span
from memoranda.lang.tree import Raw
from memoranda.mashin.document import Compute
from memoranda.mashin.expression.programs import parse_expression

_LAYOUT = frozenset({"unclosed_quote", "unclosed_bracket"})


class Programs:
    """Parses expressions when they are first asked for, and keeps their nodes by where they stand."""

    def __init__(self, said: Diagnostics) -> None:
        """Begin with none; what is wrong with them is noted with the other faults of the file."""
        self.said = said
        self._nodes: dict[Span, Node | None] = {}
        # An expression that never ends was reported once, by whoever read the lines.
        self._broken = tuple(one.span.start for one in said.sorted() if one.code in _LAYOUT)

    def node(self, raw: Raw, names: Collection[str] = ()) -> Node | None:
        """Return the node of an expression, or None when it has faults; `names` are those that `let` gave before."""
        if raw.span not in self._nodes:
            broken = bisect_left(self._broken, raw.span.start) < bisect_left(self._broken, raw.span.end)
            self._nodes[raw.span] = None if broken else parse_expression(raw.excerpt, self.said, names=names)
        return self._nodes[raw.span]

    def body(self, step: Compute) -> Node | None:
        """Return the node of a computation, its names and its result together; None when a part of it has faults."""
        bindings: list[tuple[str, Node]] = []
        for let in step.lets:
            value = self.node(let.value, [name for name, _ in bindings])
            if value is None:
                return None
            bindings.append((let.name.text, value))
        result = self.node(step.result, [name for name, _ in bindings]) if step.result else None
        return Block(step.span, tuple(bindings), result) if result and bindings else result
