"""Infer the indentation of a machine that was pasted without any.

Each line goes below the innermost block that can contain it. A line is ambiguous if an outer block could contain it
too, and no later line decides between the two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import filterfalse, islice

import msgspec

from memoranda.lang.source import Source, Span
from memoranda.mashin import keywords
from memoranda.mashin.lines import Line, Lines
from memoranda.mashin.reader import Cursor
from memoranda.mashin.step_parser import CONTINUES, is_step
from memoranda.model.text import quote

_CONFIG = re.compile(r"\b([^\W\d]\w*+)\s*+:(.*)", re.DOTALL)
_FIELD = re.compile(r"\b[^\W\d]\w*+\s++as\b")
_WITH = re.compile(r"with\s++\w++\s*+:?+\s*+(.*)", re.DOTALL)
_BRANCH = re.compile(r"(?:when|if|else\s+if)\s|(?:otherwise|else)$")
_PERMISSION = re.compile(r"(?:not\s+)?allowed\s+to\b|requires\s+approval\s+for\b")
_CAPABILITIES = re.compile(r"(?:call\s+[\"'][^\"']*[\"']|[\w.\-]+)(?:\s*,\s*|$)")
_SECTIONS = frozenset(keyword.name for keyword in keywords.SECTIONS.keywords)
_PROSE = frozenset({"achieves", *(keyword.name for keyword in keywords.SECTIONS.keywords if not keyword.acted_on)})
_BLOCKS = {
    "accepts": "fields",
    "responds with": "fields",
    "ensures": "ensures",
    "implements": "implements",
    "verifies": "verifies",
}
_STEPS = {
    "compute": "compute",
    "ask": "ask",
    "decide": "decide",
    "remember": "memory",
    "recall": "memory",
    "wait for": "wait",
    "retry": "retry",
    "flow": "flow",
    "flows": "flows",
    "on failure": "failure",
}
_ASK_BLOCKS = {"returns": "fields", "assuming": "configs", "retry": "retries"}
_BODIES = frozenset({"file", "implements", "flow", "failure", "branch", "retry"})
"""Blocks of steps."""
_WITH_VALUES = frozenset({"flow", "failure", "branch"})
"""Blocks of steps that may contain expressions too."""


class Ambiguity(msgspec.Struct, frozen=True):
    """A line that can be in a block, or follow it."""

    line: Line
    block: Line

    def message(self, source: Source) -> str:
        """Return what is unclear, with the line of the block."""
        number = source.position(self.block.span.start).line
        shown, block = (quote(line.text.partition("\n")[0], longest=40) for line in (self.line, self.block))
        return f"it is unclear whether {shown} belongs to {block} on line {number} or follows it"


class Layout(msgspec.Struct, frozen=True):
    """The lines of a source as they are nested, and those whose place is ambiguous."""

    lines: Lines
    ambiguities: tuple[Ambiguity, ...]
    first: Span
    """The first line that has to be indented."""


class _Block:
    """A line, and the lines below it so far."""

    def __init__(self, kind: str, line: Line | None, depth: int) -> None:
        self.kind = kind
        self.line = line
        self.depth = depth
        self.children: list[_Block] = []
        self.closed: set[str] = set()
        """What it cannot contain any more."""
        self.is_lacking = kind in ("compute", "retry")
        """Whether its result, or its step, is still to come."""

    @property
    def is_complete(self) -> bool:
        """Whether it could end here."""
        return bool(self.children) and not self.is_lacking

    def tree(self) -> tuple[Line, ...]:
        return tuple(
            msgspec.structs.replace(child.line, children=child.tree())
            for child in self.children
            if child.line is not None
        )


def infer_layout(source: Lines) -> Layout | None:
    """Return the layout of lines without indentation; None if they are indented, or need no indentation."""
    lines = source.lines
    if len(lines) < 2 or any(line.children for line in lines):
        return None
    root = _Block("file", None, -1)
    opened = [root]
    found: list[Ambiguity] = []
    first: Span | None = None
    for at, line in enumerate(lines):
        places = [(block, kind) for block in reversed(opened) if (kind := _kind_below(block, line)) is not None]
        # A line that fits nowhere continues the value above it, or is an error that the parser explains.
        block, kind = places[0] if places else (opened[-2 if opened[-1].kind in ("more", "line") else -1], "more")
        if len(places) > 1 and block.is_complete and not _is_decided(block, line, lines[at + 1 :]):
            assert block.line is not None, "the file is the outermost block"
            found.append(Ambiguity(line, block.line))
        while opened[-1] is not block:
            opened.pop()
        child = _Block(kind, line, block.depth + 1)
        _add(block, child)
        opened.append(child)
        if first is None and child.depth > (block.kind == "machine"):
            first = line.head
    if first is None:
        return None
    return Layout(Lines(root.tree(), source.tail, span=source.span), tuple(found), first)


def _add(block: _Block, child: _Block) -> None:
    block.children.append(child)
    if child.kind in ("flow", "flows", "failure"):
        # Steps come before flows, and `on failure` closes what it belongs to.
        block.closed.add("steps")
    if child.kind in ("flows", "failure", "permissions"):
        block.closed.add("flow" if child.kind == "flows" else child.kind)
    assert child.line is not None, "only the file has no line"
    if block.kind == "compute" and not child.line.text.startswith("let "):
        block.is_lacking = False
    if block.kind == "retry" and is_step(child.line):
        block.is_lacking = False
    if child.line.text in ("otherwise", "else"):
        block.closed.add("branch")


def _is_decided(block: _Block, line: Line, following: Sequence[Line]) -> bool:
    """Return whether the lines after a line show that it belongs to the innermost block.

    A later branch of the same `decide` does; so does a `retry` without a step, which is one of the step before it.
    """
    if line.text == "retry" and block.kind in ("ask", "memory"):
        return not any(is_step(other) for other in islice(filterfalse(_config, following), 1))
    if block.kind != "branch":
        return False
    for line in following:
        if _BRANCH.match(line.text):
            return True
        if line.text in _SECTIONS or Cursor(line).takes("decide") or Cursor(line).takes("flow"):
            return False
    return False


def _kind_below(block: _Block, line: Line) -> str | None:
    """Return what a line is below a block, or None if it cannot be there."""
    if block.kind == "open":  # a value that begins on the next line
        return None if block.children else "more"
    if block.kind in _BODIES:
        step = _step(block, line)
        if step is not None or block.kind in ("implements", "retry", *_WITH_VALUES):
            return step or (_config(line, keywords.RETRY.names) if block.kind == "retry" else _value(block, line))
    read = _READ.get(block.kind)
    return read(block, line) if read else None


def _step(block: _Block, line: Line) -> str | None:
    if not is_step(line) or (block.kind == "file" and block.children and block.children[0].kind == "machine"):
        return None
    cursor = Cursor(line)
    word = next(keyword.name for keyword in keywords.STEPS.keywords if cursor.takes(keyword.name))
    if word in ("flow", "flows"):
        allowed = block.kind in ("file", "implements") and "flow" not in block.closed
    elif word == "on failure":
        allowed = block.kind in ("file", "implements", "flow") and "failure" not in block.closed
    else:
        allowed = "steps" not in block.closed
    return _STEPS.get(word, "line") if allowed else None


def _value(block: _Block, line: Line) -> str | None:
    if block.kind not in _WITH_VALUES or "steps" in block.closed:
        return None
    other = (
        is_step(line)
        or _is_section(line)
        or any(pattern.match(line.text) for pattern in (_BRANCH, _CONFIG, _FIELD, _WITH))
    )
    return None if other or line.text in ("schema", *_ASK_BLOCKS) or line.text.startswith(CONTINUES) else "value"


def _config(line: Line, names: Sequence[str] = ()) -> str | None:
    found = _CONFIG.match(line.text)
    if found is None or (names and found[1] not in names):
        return None
    return "value" if found[2].strip() else "open"


def _file(block: _Block, line: Line) -> str | None:
    if line.text.startswith("machine "):
        return "machine"
    return None if block.children and block.children[0].kind == "machine" else _section(block, line)


def _section(block: _Block, line: Line) -> str | None:
    if line.text in _SECTIONS:
        return _BLOCKS.get(line.text, "prose")
    cursor = Cursor(line)
    said = any(child.kind == "prose" for child in block.children[-1:])
    return "prose" if not said and any(cursor.takes(word) for word in _PROSE) and '"' in line.text else None


def _ensures(block: _Block, line: Line) -> str | None:
    permission = _PERMISSION.match(line.text)
    # The block means the same, so what follows it is not ambiguous.
    if "permissions" in block.closed and (permission or line.text == "authority"):
        return None
    if permission:
        return "line" if line.text[permission.end() :].strip() else "capabilities"
    level = keywords.ENSURES if block.kind == "ensures" else keywords.PERMISSIONS
    return line.text if level.find(line.text) else None


def _capabilities(block: _Block, line: Line) -> str | None:
    names = [part.strip() for part in line.text.split(",") if part.strip()]
    known = all(keywords.capability(name) or name.startswith("call ") for name in names)
    return "line" if names and (known or not block.children) and _CAPABILITIES.match(line.text) else None


def _guard(block: _Block, line: Line) -> str | None:
    return "guard" if line.text.isidentifier() and not (keywords.ENSURES.find(line.text) or _is_section(line)) else None


def _is_section(line: Line) -> bool:
    return line.text in _SECTIONS


def _compute(block: _Block, line: Line) -> str | None:
    if not block.children:
        return "value"
    if not block.is_lacking:
        return "value" if line.text.startswith(CONTINUES) else None
    return None if is_step(line) or _BRANCH.match(line.text) else "value"


def _ask(block: _Block, line: Line) -> str | None:
    given = _WITH.match(line.text)
    if given:
        return "value" if given[1] else "open"
    if line.text in _ASK_BLOCKS:
        return _ASK_BLOCKS[line.text]
    # Only a machine has inputs; the model of an `ask` with `using` has none.
    asks_model = block.line is not None and re.search(r"\busing\b", block.line.text)
    return None if asks_model else _config(line)


def _memory(block: _Block, line: Line) -> str | None:
    return "retries" if line.text == "retry" else _config(line)


def _test(block: _Block, line: Line) -> str | None:
    found = re.match(r"(?:given|expect|assuming\s+\w+)\s*:?\s*(.*)", line.text, re.DOTALL)
    return None if found is None else "value" if found[1] else "configs"


_READ: dict[str, Callable[[_Block, Line], str | None]] = {
    "file": _file,
    "machine": _section,
    "prose": lambda block, line: None if _is_section(line) else "line",
    "fields": lambda block, line: "line" if _FIELD.match(line.text) else None,
    "ensures": _ensures,
    "permissions": _ensures,
    "capabilities": _capabilities,
    "guards": _guard,
    "guard": lambda block, line: _config(line),
    "needs": lambda block, line: _config(line),
    "authority": lambda block, line: _config(line, keywords.AUTHORITY.names),
    "flows": lambda block, line: "flow" if Cursor(line).takes("flow") else None,
    "compute": _compute,
    "ask": _ask,
    "memory": _memory,
    "wait": lambda block, line: "fields" if line.text == "schema" else _config(line),
    "retries": lambda block, line: _config(line, keywords.RETRY.names),
    "configs": lambda block, line: _config(line),
    "decide": lambda block, line: "branch" if "branch" not in block.closed and _BRANCH.match(line.text) else None,
    "verifies": lambda block, line: "test" if line.text.startswith("test ") else None,
    "test": _test,
}
"""What a line is below each kind of block, apart from blocks of steps."""
