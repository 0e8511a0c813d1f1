"""Machine text in, a document out, or one error that carries every fault of the text.

`read` never fails: it gives what could be understood and everything there is to say about the rest. `parse_document`
and `parse_fragment` raise that as a `SourceError`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from memoranda.lang import reading
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.source import Source, Span
from memoranda.mashin.document import Document, Kept
from memoranda.mashin.keywords import SECTIONS, Keyword
from memoranda.mashin.lines import Line, Lines, read_lines
from memoranda.mashin.reader import Cursor, Reader
from memoranda.mashin.sections.ensures import read_ensures
from memoranda.mashin.sections.fields import read_fields
from memoranda.mashin.sections.steps import is_step, read_implements
from memoranda.mashin.sections.verifies import read_tests

Reading: TypeAlias = reading.Reading[Lines, Document]
"""What reading gives: the lines, the document, and the diagnostics."""


def parse_document(text: str, *, name: str = "machine.mashin") -> Document:
    """Parse a whole file: one machine."""
    return read(text, name=name).document_or_raise()


def parse_fragment(text: str, *, name: str = "fragment.mashin") -> Document:
    """Parse a part of a file: steps or sections without a machine."""
    return read(text, name=name, fragment=True).document_or_raise()


def read(text: str, *, name: str = "machine.mashin", fragment: bool = False) -> Reading:
    """Read a source whatever its faults, and collect them."""
    source = Source(name, text)
    said = Diagnostics(source)
    lines = read_lines(source, said)
    reader = Reader(said)
    document = _document(reader, lines, fragment=fragment)
    return reading.Reading(source, lines, document, said.sorted(), reader.spellings)


def _document(reader: Reader, lines: Lines, *, fragment: bool) -> Document:
    first = lines.lines[0] if lines.lines else None
    if first is not None and Cursor(first).takes("machine"):
        return _machine(reader, first, lines)
    if not fragment:
        begin = first.head if first else Span(0, 0)
        reader.said.error("missing", "the file declares no machine", begin, hint="Begin it with `machine name`")
    # Steps that have lost their machine are read all the same, so that their own faults come in the same run.
    loose: list[Line] = []
    sections: list[Line] = []
    for line in lines.lines:
        step = is_step(line) or (fragment and section_of(line) is None)
        (loose if step else sections).append(line)
    given = _sections(reader, sections)
    if "implements" not in given and loose:
        given["implements"] = read_implements(reader, loose)
    else:
        for line in loose:
            reader.unknown(line, SECTIONS)
    return Document(span=lines.span, **given)


def _machine(reader: Reader, line: Line, lines: Lines) -> Document:
    cursor = Cursor(line)
    cursor.takes("machine")
    name = reader.name(cursor, "the machine")
    title = cursor.string() if name else None
    if name is not None:
        reader.ended(cursor, "the name of a machine")
    # Sections may also stand beside the machine instead of below it.
    given = _sections(reader, (*line.children, *lines.lines[1:]))
    if "implements" not in given:
        hint = "Add `implements` with its steps below"
        reader.said.error("missing", "`implements` is missing in the machine", line.head, hint=hint)
    return Document(name=name, title=title, span=lines.span, **given)


def section_of(line: Line) -> Keyword | None:
    """Return the section that a line begins."""
    cursor = Cursor(line)
    return next((keyword for keyword in SECTIONS.keywords if cursor.takes(keyword.name)), None)


def _sections(reader: Reader, lines: list[Line] | tuple[Line, ...]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    kept: list[Kept] = []
    seen: set[str] = set()
    for line in lines:
        if Cursor(line).takes("machine"):
            message = "a file holds one machine"
            reader.said.error("duplicate", message, line.head, hint="Put the second into a file of its own")
            continue
        keyword = section_of(line)
        if keyword is None:
            reader.unknown(line, SECTIONS)
            continue
        if keyword.name in seen:
            reader.doubled(line.head, f"`{keyword.name}`")
            continue
        seen.add(keyword.name)
        if not keyword.acted_on:
            message = f"`{keyword.name}` is kept but not acted on: {keyword.meaning}"
            reader.said.note("not_acted_on", message, line.head)
            kept.append(Kept(name=keyword.name, lines=(line,), span=line.span))
        elif keyword.name == "achieves":
            _note_examples(reader, line)
            given["achieves"] = (line,)
        else:
            _section(reader, line, keyword.name, given)
    return given | {"kept": tuple(sorted(kept, key=lambda one: SECTIONS.names.index(one.name)))}


def _note_examples(reader: Reader, line: Line) -> None:
    for child in line.children:
        if Cursor(child).takes("for example"):
            message = "`for example` is kept but not acted on: tests stand in `verifies`"
            reader.said.note("not_acted_on", message, child.head)


def _section(reader: Reader, line: Line, word: str, given: dict[str, Any]) -> None:
    cursor = Cursor(line)
    cursor.takes(word)
    reader.ended(cursor, f"`{word}`")
    empty = reader.missing_below(line, f"what the machine {word}" if word != "implements" else "a step")
    if word == "accepts":
        given["accepts"] = read_fields(reader, line.children)
    elif word == "responds with":
        given["responds"] = read_fields(reader, line.children, output=True)
    elif word == "ensures":
        given["ensures"] = read_ensures(reader, line)
    elif word == "verifies":
        given["tests"] = read_tests(reader, line)
    else:
        given["implements"] = read_implements(reader, line.children if not empty else (), line)
