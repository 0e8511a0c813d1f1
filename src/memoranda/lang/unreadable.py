"""What the YAML library says of a text that it cannot read in, the fault as our languages word it out.

The library names the place where it gave up, which is often lines below the mistake: a quote without its end swallows
what follows, and a word without its colon runs on into the next line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import yaml

from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.faults import (
    never_closed,
    note_foreign_comment,
    note_missing_colon,
    note_mixed_indentation,
    note_uneven,
)
from memoranda.lang.source import Source, Span
from memoranda.model.text import quote

_scan = cast("Callable[..., Iterator[Any]]", yaml.scan)  # pyright: ignore[reportUnknownMemberType]

_MARGIN = re.compile(r"[ \t]*")
_ENTRY = re.compile(r"[ ]*(?:- +)*([^\s:#]+)")
_KEYED = re.compile(r"[^#]*?\S:(?:\s|$)")
_NO_VALUE = "mapping values are not allowed here"


class _Fault(NamedTuple):
    """Where the library gave up, the line of that, and the line where what it was reading began."""

    error: Any
    source: Source
    at: int
    line: Span
    begun: int | None

    @property
    def before(self) -> str:
        """What stands before the fault on its line."""
        return self.source.text[self.line.start : self.at]

    @property
    def rest(self) -> str:
        """What stands on the line from the fault on."""
        return self.source.text[self.at : self.line.end]

    @property
    def problem(self) -> str:
        """What the library says."""
        return str(self.error.problem or "it cannot be read")


def note_unreadable(error: Any, said: Diagnostics) -> None:
    """Note why a source is no YAML, by the error of the library."""
    source = said.source
    if isinstance(error, yaml.reader.ReaderError):
        at = int(error.position)
        message = f"the character U+{ord(source.text[at]):04X} cannot stand in YAML"
        said.error("yaml", message, Span(at, at + 1), hint="Remove it")
        return
    mark = error.problem_mark or error.context_mark
    at = min(int(mark.index), len(source.text)) if mark else 0
    begun = int(error.context_mark.index) if error.context_mark else None
    fault = _Fault(error, source, at, source.lines[source.position(at).line - 1], begun)
    if not any(explain(fault, said) for explain in _EXPLAINED):
        hint = "Check indentation and quotes"
        said.error("yaml", f"this is not YAML: {fault.problem}", Span(at, at + 1), hint=hint)


def _tab(fault: _Fault, said: Diagnostics) -> bool:
    margin = _MARGIN.match(fault.source.text, fault.line.start, fault.line.end)
    if margin is None or "\t" not in margin[0]:
        return False
    message = "the line is indented with a tab, so it is unclear what it is nested below"
    note_mixed_indentation(said, message, Span(*margin.span()))
    return True


def _margin(source: Source, line: Span) -> int:
    text = source.slice(line)
    return len(text) - len(text.lstrip(" "))


def _open_quote(fault: _Fault, said: Diagnostics) -> bool:
    start = fault.begun if fault.error.context == "while scanning a quoted scalar" else _swallowing(fault)
    if start is None:
        return False
    mark = fault.source.text[start]
    hint = f"End the text with {mark} on the same line, or use a block with |"
    written = fault.source.text[start : start + 200]
    said.error("unclosed_quote", never_closed(written), Span(start, start + 1), hint=hint)
    return True


def _swallowing(fault: _Fault) -> int | None:
    """Return where a quote begins that goes over several lines and ends, by the next one, right before the fault."""
    last: int | None = None
    for token in _tokens(fault):
        if isinstance(token, yaml.ScalarToken):
            several = token.style in ("'", '"') and token.start_mark.line < token.end_mark.line
            last = token.start_mark.index if several and token.end_mark.index >= fault.line.start else None
    return last


def _tokens(fault: _Fault) -> Iterator[Any]:
    """Give what stands before the fault, as far as the library gets."""
    try:
        for token in _scan(fault.source.text, Loader=yaml.SafeLoader):
            if token.start_mark.index >= fault.at:
                return
            yield token
    except yaml.YAMLError:
        return


def _no_colon(fault: _Fault, said: Diagnostics) -> bool:
    if fault.problem == "could not find expected ':'" and fault.begun is not None:
        place = fault.begun
    elif fault.problem == _NO_VALUE and _KEYED.match(fault.before) is None and not _keyed_above(fault):
        # The word above runs on into this line, as a text over two lines would.
        place = _line_above(fault).start
    else:
        return False
    word = _ENTRY.match(fault.source.text, place)
    if word is None:
        return False
    if word[1].startswith("//"):
        note_foreign_comment(
            said, "//", "#", Span(word.start(1), fault.source.lines[fault.source.position(place).line - 1].end)
        )
    else:
        note_missing_colon(said, word[1], word.start(1))
    return True


def _line_above(fault: _Fault) -> Span:
    """Return the last line above the fault that says something; the fault's own where there is none."""
    before = [line for line in fault.source.lines if line.end < fault.line.start and line.start < line.end]
    return before[-1] if before else fault.line


def _keyed_above(fault: _Fault) -> bool:
    return _KEYED.match(fault.source.slice(_line_above(fault))) is not None


def _second_colon(fault: _Fault, said: Diagnostics) -> bool:
    if fault.problem != _NO_VALUE:
        return False
    if _KEYED.match(fault.before) is None:
        above, here = (_margin(fault.source, line) for line in (_line_above(fault), fault.line))
        note_uneven(said, above, here, Span(fault.line.start + here, fault.line.end))
        return above != here
    message = "a second colon stands in the line"
    said.error("yaml", message, Span(fault.at, fault.at + 1), hint="Put the value in quotes")
    return True


def _out_of_column(fault: _Fault, said: Diagnostics) -> bool:
    if not fault.problem.startswith("expected <block end>"):
        return False
    head = Span(fault.at, max(fault.line.end, fault.at + 1))
    if fault.before.strip():
        message = f"{quote(fault.rest, longest=40)} stands behind the end of a value"
        said.error("yaml", message, head, hint="Put the whole value in quotes")
        return True
    here = fault.error.problem_mark.column
    beside = _beside(fault, here)
    note_uneven(said, beside, here, head)
    return beside != here


def _beside(fault: _Fault, here: int) -> int:
    """Return the column of the block that a line stands too far to the left for, else that of the line above."""
    found = nearest = _margin(fault.source, _line_above(fault))
    for line in reversed(fault.source.lines[: fault.source.position(fault.at).line - 1]):
        if line.start < line.end:
            margin = _margin(fault.source, line)
            if margin <= here:
                break
            found = min(found, margin)
    return found if found > here else nearest


def _open_bracket(fault: _Fault, said: Diagnostics) -> bool:
    if not fault.problem.startswith(("expected ',' or", "expected the node content, but found '<stream end>'")):
        return False
    opened: list[int] = []
    for token in _tokens(fault):
        if isinstance(token, yaml.FlowSequenceStartToken | yaml.FlowMappingStartToken):
            opened.append(token.start_mark.index)
        elif isinstance(token, yaml.FlowSequenceEndToken | yaml.FlowMappingEndToken) and opened:
            opened.pop()
    if not opened:
        return False
    start = opened[-1]
    message = f"the bracket `{fault.source.text[start]}` is never closed"
    said.error("unclosed_bracket", message, Span(start, start + 1), hint="Close it on this line, or on a line below")
    return True


def _first_sign(fault: _Fault, said: Diagnostics) -> bool:
    if not fault.problem.endswith("that cannot start any token"):
        return False
    sign = fault.rest[:1]
    message = "a tab stands between words" if sign == "\t" else f"a value cannot begin with {quote(sign)}"
    hint = "Write a space" if sign == "\t" else "Put it in quotes"
    said.error("yaml", message, Span(fault.at, fault.at + 1), hint=hint)
    return True


_EXPLAINED = (_tab, _open_quote, _no_colon, _second_colon, _out_of_column, _open_bracket, _first_sign)
