"""A toolbox of declared tools and Python functions, as an agent has it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from memoranda.abl.expression.compiler import expression
from memoranda.abl.parser import parse_fragment
from memoranda.abl.programs import parse_programs
from memoranda.abl.tools.toolbox import Toolbox
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.document import Raw
from memoranda.lang.source import Source
from memoranda.testing import FakeClock

MakeBox = Callable[..., Toolbox]


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def make_box(pauses: list[float]) -> MakeBox:
    """Return a function that makes a toolbox from the lines below `TOOLS:` and further options."""

    def make(lines: str = "", tools: Any = None, **options: Any) -> Toolbox:
        text = "TOOLS:\n" + "\n".join(f"  {line}" for line in lines.strip("\n").splitlines()) + "\n"
        document = parse_fragment(text if lines else "")
        said = Diagnostics(Source("tools.abl", text))
        programs = parse_programs(document, said)
        said.raise_if_failed()

        def default(raw: Raw) -> Any:
            node = programs.node(raw)
            assert node is not None
            return expression(node).value({})

        options = {"clock": FakeClock(datetime(2027, 5, 3, 12, tzinfo=UTC)), "sleep": pauses.append, **options}
        return Toolbox(tools, document.tools, defaults=default, templates=programs.node, **options)

    return make
