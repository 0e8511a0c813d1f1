"""The expressions of a document in, their programs out, each compiled once, and their faults among the others."""

from __future__ import annotations

from memoranda.errors import SourceError
from memoranda.workflow.document import Expression
from memoranda.workflow.faults import Notes
from memoranda.workflow.jsonata import Program, compile

_AS_TEXT = "A text that begins with `=` is an expression; as text, write it `='…'`"


class Programs:
    """Compiles expressions when they are first asked for, and keeps them by where they stand."""

    def __init__(self, notes: Notes) -> None:
        """Begin with none; what is wrong with them is noted with the other faults of the file."""
        self.notes = notes
        self._programs: dict[int, Program | None] = {}

    def program(self, expression: Expression) -> Program | None:
        """Return the program of an expression, or None when it has faults."""
        at = expression.span.start
        if at not in self._programs:
            self._programs[at] = self._compiled(expression)
        return self._programs[at]

    def _compiled(self, expression: Expression) -> Program | None:
        try:
            return compile(expression.text)
        except SourceError as fault:
            # An expression that has nothing in it is shown with the sign that began it.
            empty = not expression.text.strip()
            span = expression.span if empty else expression.excerpt.locate(fault.start, fault.end)
            message = "an expression is missing after `=`" if empty else fault.message
            if fault.unclosed:
                self.notes.error("unclosed_quote", message, span, expression.path, hint=fault.hint)
            else:
                self.notes.error("invalid_expression", message, span, expression.path, hint=fault.hint or _AS_TEXT)
            return None
