"""Compile the lines of a `compute` step, with the reader, checker and compiler of machines."""

from __future__ import annotations

from memoranda.lang.diagnostics import source_error
from memoranda.lang.expression.compiler import Expression
from memoranda.lang.expression.nodes import Node
from memoranda.mashin.checker import check_source
from memoranda.mashin.document import Compute
from memoranda.mashin.expression.compiler import expression


def computation(lines: str) -> Node:
    """Return the node of a computation; raise a SourceError with every error that a machine with it would have."""
    text = "compute value\n" + "".join(f"  {line}\n" for line in lines.splitlines())
    reading, programs, diagnostics = check_source(text, fragment=True)
    errors = tuple(one for one in diagnostics if one.severity == "error")
    if errors:
        raise source_error(reading.source, errors)
    assert reading.document.implements is not None
    (step,) = reading.document.implements.body
    assert isinstance(step, Compute)
    node = programs.body(step)
    assert node is not None
    return node


def computed(lines: str) -> Expression:
    """Return a compiled computation; see `computation`."""
    return expression(computation(lines))
