"""Parse the text of a machine into a document.

`read` never fails: it returns what could be understood, and diagnostics for the rest. `parse_document` and
`parse_fragment` raise those as one `SourceError`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from memoranda.lang import document as lang_document
from memoranda.lang.diagnostics import Diagnostic, Diagnostics, note_missing_colon
from memoranda.lang.source import Source, Span
from memoranda.mashin import keywords
from memoranda.mashin.document import (
    Assumption,
    Capability,
    Config,
    Document,
    Ensures,
    Guard,
    Kept,
    Mapping,
    Permission,
    Test,
    Verdict,
    value_of,
)
from memoranda.mashin.indentation import Layout, infer_layout
from memoranda.mashin.keywords import Keyword, Level
from memoranda.mashin.lines import Line, Lines, read_lines
from memoranda.mashin.reader import Cursor, Reader, read_fields
from memoranda.mashin.step_parser import is_step, read_implements

Reading: TypeAlias = lang_document.Reading[Lines, Document]
"""The lines, the document, and the diagnostics."""


def parse_document(text: str, *, name: str = "machine.mashin") -> Document:
    """Parse a whole file: one machine."""
    return read(text, name=name).valid_document()


def parse_fragment(text: str, *, name: str = "fragment.mashin") -> Document:
    """Parse a part of a file: steps or sections without a machine."""
    return read(text, name=name, fragment=True).valid_document()


def read(text: str, *, name: str = "machine.mashin", fragment: bool = False, indent: bool = False) -> Reading:
    """Read a source and collect its diagnostics.

    A source without any indentation has one diagnostic that says so; with `indent` its indentation is inferred.
    """
    source = Source(name, text)
    diagnostics = Diagnostics(source)
    lines = read_lines(source, diagnostics)
    reading = _read(source, lines, diagnostics.sorted(), fragment=fragment)
    layout = infer_layout(lines) if reading.failed else None
    if layout is None:
        return reading
    if indent and not layout.ambiguities:
        return _read(source, layout.lines, diagnostics.sorted(), fragment=fragment)
    if indent:
        for one in layout.ambiguities:
            hint = "Indent the lines of each block yourself, by two spaces"
            diagnostics.error("ambiguous_indentation", one.message(source), one.line.head, hint=hint)
    else:
        message = "the file has no indentation, which says what belongs to what"
        diagnostics.error("no_indentation", message, layout.first, hint=_indentation_hint(layout, source))
    return lang_document.Reading(source, lines, Document(span=lines.span), diagnostics.sorted(), {})


def _indentation_hint(layout: Layout, source: Source) -> str:
    if not layout.ambiguities:
        return "Indent each line below the one it belongs to, or have it done (`memoranda format` on the command line)"
    return f"Indent each line below the one it belongs to; {layout.ambiguities[0].message(source)}"


def _read(source: Source, lines: Lines, layout: tuple[Diagnostic, ...], *, fragment: bool) -> Reading:
    """Parse lines; the diagnostics begin with those of the layout."""
    diagnostics = Diagnostics(source, layout)
    reader = Reader(diagnostics)
    document = _document(reader, lines, fragment=fragment)
    return lang_document.Reading(source, lines, document, diagnostics.sorted(), reader.spellings)


def _document(reader: Reader, lines: Lines, *, fragment: bool) -> Document:
    first = lines.lines[0] if lines.lines else None
    if first is not None and Cursor(first).takes("machine"):
        return _machine(reader, first, lines)
    if not fragment:
        begin = first.head if first else Span(0, 0)
        reader.diagnostics.error("missing", "the file declares no machine", begin, hint="Begin it with `machine name`")
    # Steps without a machine are read all the same, so that their own errors come in the same run.
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
            reader.note_unknown(line, keywords.SECTIONS)
    return Document(span=lines.span, **given)


def _machine(reader: Reader, line: Line, lines: Lines) -> Document:
    cursor = Cursor(line)
    cursor.takes("machine")
    name = reader.name(cursor, "the machine")
    title = cursor.string() if name else None
    if name is not None:
        reader.require_end(cursor, "the name of a machine")
    # Sections may also be beside the machine instead of below it.
    given = _sections(reader, (*line.children, *lines.lines[1:]))
    if "implements" not in given:
        hint = "Add `implements` with its steps below"
        reader.diagnostics.error("missing", "`implements` is missing in the machine", line.head, hint=hint)
    return Document(name=name, title=title, span=lines.span, **given)


def section_of(line: Line) -> Keyword | None:
    """Return the section that a line begins."""
    cursor = Cursor(line)
    return next((keyword for keyword in keywords.SECTIONS.keywords if cursor.takes(keyword.name)), None)


def _sections(reader: Reader, lines: list[Line] | tuple[Line, ...]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    kept: list[Kept] = []
    seen: set[str] = set()
    for line in lines:
        if Cursor(line).takes("machine"):
            message = "a file contains one machine"
            reader.diagnostics.error("duplicate", message, line.head, hint="Put the second into a file of its own")
            continue
        keyword = section_of(line)
        if keyword is None:
            reader.note_unknown(line, keywords.SECTIONS)
            continue
        if keyword.name in seen:
            reader.note_duplicate(line.head, f"`{keyword.name}`")
            continue
        seen.add(keyword.name)
        if not keyword.acted_on:
            message = f"`{keyword.name}` is kept but not acted on: {keyword.meaning}"
            reader.diagnostics.note("not_acted_on", message, line.head)
            kept.append(Kept(name=keyword.name, lines=(line,), span=line.span))
        elif keyword.name == "achieves":
            _note_examples(reader, line)
            given["achieves"] = (line,)
        else:
            _section(reader, line, keyword.name, given)
    return given | {"kept": tuple(sorted(kept, key=lambda one: keywords.SECTIONS.names.index(one.name)))}


def _note_examples(reader: Reader, line: Line) -> None:
    for child in line.children:
        if Cursor(child).takes("for example"):
            message = "`for example` is kept but not acted on: tests belong in `verifies`"
            reader.diagnostics.note("not_acted_on", message, child.head)


def _section(reader: Reader, line: Line, word: str, given: dict[str, Any]) -> None:
    cursor = Cursor(line)
    cursor.takes(word)
    reader.require_end(cursor, f"`{word}`")
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


_VERDICTS: tuple[tuple[str, Verdict], ...] = (
    ("allowed to", "allow"),
    ("not allowed to", "deny"),
    ("requires approval for", "approve"),
)


def read_ensures(reader: Reader, line: Line) -> Ensures:
    """Read the whole section."""
    found = _EnsuresReader(reader)
    for child in line.children:
        found.read(child, keywords.ENSURES)
    return Ensures(
        permissions=tuple(found.permissions),
        authority=found.authority,
        guards=tuple(found.guards.values()),
        needs=found.needs,
        span=line.span,
    )


class _EnsuresReader:
    """Collects the permissions, guards and needs."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.permissions: list[Permission] = []
        self.guards: dict[str, Guard] = {}
        self.authority: tuple[Config, ...] = ()
        self.needs: tuple[Config, ...] = ()

    def read(self, line: Line, level: Level) -> None:
        cursor = Cursor(line)
        for words, verdict in _VERDICTS:
            if cursor.takes(words):
                self._permission(line, cursor, verdict)
                return
        word = next((row.name for row in level.keywords if cursor.takes(row.name)), None)
        if word is None:
            self.reader.note_unknown(line, level)
        elif self.reader.require_end(cursor, f"`{word}`") and not self.reader.missing_below(
            line, f"what `{word}` says"
        ):
            self._block(line, word)

    def _block(self, line: Line, word: str) -> None:
        if word == "permissions":
            for child in line.children:
                self.read(child, keywords.PERMISSIONS)
        elif word == "guards":
            for child in line.children:
                self._guard(child)
        elif word == "needs":
            self.needs = (*self.needs, *self.reader.configs(line.children))
        else:
            self._authority(line)

    def _permission(self, line: Line, cursor: Cursor, verdict: Verdict) -> None:
        capabilities: list[Capability] = []
        if not cursor.ended:
            self._capabilities(cursor, capabilities)
        elif self.reader.missing_below(line, "a capability"):
            return
        for child in line.children:
            self.reader.refuse_below(child, "a capability")
            self._capabilities(Cursor(child), capabilities)
        self.permissions.append(Permission(verdict=verdict, capabilities=tuple(capabilities), span=line.span))

    def _capabilities(self, cursor: Cursor, into: list[Capability]) -> None:
        while True:
            name = cursor.dotted_name()
            if name is None:
                self.reader.note_expected(cursor, "a capability", hint="Such as memory, llm_call or http")
                return
            machine = cursor.string() if name.text == "call" else None
            if name.text == "call" and machine is None:
                hint = 'Write it as `call "machine"`'
                self.reader.note_expected(cursor, "the machine that may be called, in quotes", hint=hint)
                return
            span = name.span.to(machine.span) if machine else name.span
            into.append(Capability(name=name, machine=machine, span=span))
            if not cursor.mark(","):
                break
            # A comma at the end of a line continues on the next one.
            if cursor.ended:
                return
        self.reader.require_end(cursor, "a capability")

    def _guard(self, line: Line) -> None:
        cursor = Cursor(line)
        name = self.reader.name(cursor, "a guard")
        if name is None or not self.reader.require_end(cursor, "the name of a guard"):
            return
        config = self.reader.configs(line.children, keywords.GUARD)
        for one in config:
            if keywords.GUARD.find(one.key.text) is None:
                hint = self.reader.hints.did_you_mean(
                    one.key.text, keywords.GUARD.names, otherwise="Known in a guard: on_violation"
                )
                message = f"`{one.key.text}` is not a keyword in a guard"
                self.reader.diagnostics.error("unknown_keyword", message, one.key.span, hint=hint)
        violation = value_of(config, "on_violation")
        guard = Guard(name=name, on_violation=violation, span=line.span)
        self.reader.add(self.guards, name, guard, "the guard")

    def _authority(self, line: Line) -> None:
        """Read `requires: a, delegates: b`, on one line or on two."""
        found = {config.key.text: config for config in self.authority}
        for child in line.children:
            self.reader.refuse_below(child, "`authority`")
            cursor = Cursor(child)
            while not cursor.ended:
                key = cursor.word()
                if key is None or keywords.AUTHORITY.find(key.text) is None:
                    self.reader.note_unknown(child, keywords.AUTHORITY)
                    break
                if not cursor.mark(":"):
                    note_missing_colon(self.reader.diagnostics, key.text, key.span.start)
                    break
                value = cursor.until_comma()
                if value is None:
                    self.reader.note_expected(cursor, f"the value of `{key.text}`")
                    break
                self.reader.add(found, key, Config(key=key, value=value, span=key.span.to(value.span)))
                cursor.mark(",")
        self.authority = tuple(found.values())


def read_tests(reader: Reader, line: Line) -> tuple[Test, ...]:
    """Read all tests of the section, each name once."""
    found: dict[str, Test] = {}
    for child in line.children:
        test = _test(reader, child)
        if test is None:
            continue
        if test.name.text in found:
            reader.note_duplicate(test.name.span, f'the test "{test.name.text}"')
        else:
            found[test.name.text] = test
    return tuple(found.values())


def _test(reader: Reader, line: Line) -> Test | None:
    cursor = Cursor(line)
    if not cursor.takes("test"):
        reader.note_expected(cursor, "`test` and its name in quotes", hint='Write it as `test "what it shows"`')
        return None
    name = cursor.string()
    if name is None:
        reader.note_expected(cursor, "the name of the test in quotes", hint='Write it as `test "what it shows"`')
        return None
    reader.require_end(cursor, "the name of a test")
    given: dict[str, Mapping] = {}
    assuming: list[Assumption] = []
    for child in line.children:
        _part(reader, child, given, assuming)
    for keyword in keywords.TEST.required:
        if keyword.name not in given:
            hint = f"{keyword.meaning}: add `{keyword.name} {{ … }}`"
            reader.diagnostics.error("missing", f"`{keyword.name}` is missing in the test", line.head, hint=hint)
    return Test(
        name=name, given=given.get("given"), assuming=tuple(assuming), expect=given.get("expect"), span=line.span
    )


def _part(reader: Reader, line: Line, given: dict[str, Mapping], assuming: list[Assumption]) -> None:
    cursor = Cursor(line)
    word = next((keyword.name for keyword in keywords.TEST.keywords if cursor.takes(keyword.name)), None)
    if word is None:
        reader.note_unknown(line, keywords.TEST)
        return
    step = reader.name(cursor, "the step that is assumed") if word == "assuming" else None
    if word == "assuming" and step is None:
        return
    mapping = _mapping(reader, line, cursor)
    if mapping is None:
        return
    if step is not None:
        if any(one.step == step for one in assuming):
            reader.note_duplicate(step.span, f"`assuming {step.text}`")
        assuming.append(Assumption(step=step, gives=mapping, span=line.span))
    elif word in given:
        reader.note_duplicate(line.head, f"`{word}`")
    else:
        given[word] = mapping


def _mapping(reader: Reader, line: Line, cursor: Cursor) -> Mapping | None:
    cursor.mark(":")
    below = bool(line.children) and not line.children[0].text.startswith("{")
    if cursor.ended and below:
        entries = reader.configs(line.children)
        return Mapping(entries=entries, span=line.span)
    value = cursor.expression()
    if value is None:
        reader.note_expected(cursor, "a map", hint="Write it as `{ name: value }`, or one `name: value` a line below")
        return None
    return Mapping(value=value, span=value.span)
