"""Parse ABL text into a `Document`.

`read` never fails: it returns what it could parse together with all diagnostics. `parse_document` and
`parse_fragment` raise a `SourceError` instead. Files that end in `.yaml` or `.yml` are in the lower-case dialect.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from memoranda.abl.document import Document, DocumentKind, Identity, Step
from memoranda.abl.keywords import LEVELS, RULES
from memoranda.abl.lines import Line, Lines, read_lines
from memoranda.abl.reader import Properties, Reader
from memoranda.abl.sections.actions import read_gather
from memoranda.abl.sections.coordination import read_completes, read_delegates, read_escalate, read_handoffs
from memoranda.abl.sections.declarations import read_constraints, read_memory, read_tools
from memoranda.abl.sections.flow import (
    read_error_handlers,
    read_flow,
    read_handler,
    read_handlers,
    read_step,
    read_templates,
)
from memoranda.lang import document as lang_document
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.document import Raw
from memoranda.lang.source import Source, Span

_KINDS: dict[str, DocumentKind] = {
    "AGENT": "agent",
    "SUPERVISOR": "supervisor",
    "BEHAVIOR_PROFILE": "behavior_profile",
    "TOOLS": "tools",
}


Reading: TypeAlias = lang_document.Reading[Lines, Document]
"""A parsed ABL source: its lines, the document, and the diagnostics."""


def parse_document(text: str, *, name: str = "agent.abl") -> Document:
    """Parse a whole file: an agent, a supervisor, a behaviour profile or tools; the file ending gives the dialect."""
    return read(text, name=name).valid_document()


def parse_fragment(text: str, *, name: str = "fragment.abl") -> Document:
    """Parse any part of a file: sections without an agent, steps, or the lines of a step."""
    return read(text, name=name, fragment=True).valid_document()


def read(text: str, *, name: str = "agent.abl", fragment: bool = False) -> Reading:
    """Parse a source and collect its diagnostics; never raises for errors in it."""
    source = Source(name, text)
    diagnostics = Diagnostics(source)
    lowercase = name.endswith((".yaml", ".yml"))
    if lowercase:
        # PyYAML is needed for this dialect only.
        from memoranda.abl.yaml_dialect import read_yaml

        lines = read_yaml(source, diagnostics)
    else:
        lines = read_lines(source, diagnostics)
    reader = Reader(diagnostics, lowercase=lowercase)
    document = _fragment(reader, lines) if fragment else _document(reader, lines)
    return lang_document.Reading(source, lines, document, diagnostics.sorted(), reader.spellings)


def _document(reader: Reader, lines: Lines) -> Document:
    kind = _kind(lines.lines)
    known, others = lines.lines, ()
    if kind == "behavior_profile":
        table = LEVELS["document"]
        known = tuple(line for line in lines.lines if line.key is not None and table.find(line.key))
        others = tuple(line for line in lines.lines if line not in known)
        for line in others:
            reader.note("not_acted_on", "kept but not acted on: a part of a behaviour profile", line.key_span)
    _refuse_mode(reader, lines.lines)
    known = tuple(line for line in known if not _is_mode(line))
    found = reader.properties(known, "document", owner=lines.span)
    document = _sections(reader, found, kind or "agent", lines.span)
    _require(reader, document, kind, found, lines)
    return msgspec.structs.replace(document, kept=(*document.kept, *others))


def _kind(lines: tuple[Line, ...]) -> DocumentKind | None:
    """Return the kind of a file by its first defining keyword; `TOOLS` counts only without another."""
    words = [line.key.upper() for line in lines if line.key is not None]
    for word in words:
        if word in _KINDS and word != "TOOLS":
            return _KINDS[word]
    return "tools" if words and words[0] == "TOOLS" else None


def _is_mode(line: Line) -> bool:
    return line.key is not None and line.key.upper() == "MODE"


def _refuse_mode(reader: Reader, lines: tuple[Line, ...]) -> None:
    for line in lines:
        if _is_mode(line):
            message = "`MODE` was removed from the language"
            reader.error("retired", message, line.key_span, hint="Remove it; each step says REASONING: true or false")


def _require(reader: Reader, document: Document, kind: DocumentKind | None, found: Properties, lines: Lines) -> None:
    begin = lines.lines[0].key_span if lines.lines else Span(0, 0)
    if kind is None:
        message = "the file declares no agent"
        reader.error("missing", message, begin, hint="Begin it with `AGENT: Name`")
    elif kind == "agent" and document.goal is None and found.line("GOAL") is None:
        message = "`GOAL` is missing at the top of a file"
        reader.error("missing", message, begin, hint="Say what the agent is to achieve: `GOAL: …`")


def _sections(reader: Reader, found: Properties, kind: DocumentKind, span: Span) -> Document:
    name = found.text("AGENT") or found.text("SUPERVISOR") or found.text("BEHAVIOR_PROFILE")
    version = found.text("VERSION")
    memory, flow = found.line("MEMORY"), found.line("FLOW")
    gather, escalate, start = found.line("GATHER"), found.line("ESCALATE"), found.line("ON_START")
    return Document(
        kind=kind,
        name=reader.name(name, "an agent") if name else None,
        version=version.text if version else "1.0.0",
        description=found.text("DESCRIPTION"),
        language=found.text("LANGUAGE"),
        goal=found.text("GOAL"),
        persona=found.text("PERSONA"),
        limitations=found.texts("LIMITATIONS"),
        identity=_identity(reader, found),
        instructions=found.text("INSTRUCTIONS"),
        system_prompt=found.text("SYSTEM_PROMPT"),
        memory=read_memory(reader, memory.children, memory.span) if memory else None,
        constraints=read_constraints(reader, found.below("CONSTRAINTS")),
        gather=read_gather(reader, gather) if gather else None,
        tools=read_tools(reader, found.below("TOOLS")),
        flow=read_flow(reader, flow.children, flow.span) if flow else None,
        handoffs=read_handoffs(reader, found.below("HANDOFF")),
        delegates=read_delegates(reader, found.below("DELEGATE")),
        return_handlers=read_handlers(reader, found.below("RETURN_HANDLERS"), "RETURN_HANDLERS"),
        escalate=read_escalate(reader, escalate.children, escalate.span) if escalate else None,
        completes=read_completes(reader, found.below("COMPLETE")),
        on_start=read_handler(reader, start.name, start.children, start.span) if start else None,
        hooks=read_handlers(reader, found.below("HOOKS"), "HOOKS"),
        on_error=read_error_handlers(reader, found.line("ON_ERROR")),
        messages=found.mapping("MESSAGES"),
        templates=read_templates(reader, found.below("TEMPLATES")),
        kept=found.kept,
        span=span,
    )


def _identity(reader: Reader, found: Properties) -> Identity | None:
    line = found.line("IDENTITY")
    if line is None:
        return None
    given = reader.properties(line.children, "identity", owner=line.span)
    return Identity(
        role=given.text("role"),
        persona=given.text("persona"),
        expertise=given.texts("expertise"),
        limitations=given.texts("limitations"),
        span=line.span,
    )


# --- fragments --------------------------------------------------------------------------------------------------


def _fragment(reader: Reader, lines: Lines) -> Document:
    """Parse loose lines: assign each to the section that it belongs to."""
    if any(_is_keyword_of(line, "document", but="step") for line in lines.lines) and _kind(lines.lines) not in (
        None,
        "tools",
    ):
        return _document(reader, lines)
    loose = any(_is_keyword_of(line, "step", but="document") for line in lines.lines)
    sections: list[Line] = []
    body: list[Line] = []
    memory: list[Line] = []
    rules: list[Line] = []
    steps: list[Line] = []
    for line in lines.lines:
        place = next(
            (
                place
                for place, belongs in (
                    (rules, line.dash and line.text.upper().startswith(RULES)),
                    (body, loose and _is_keyword_of(line, "step")),
                    (sections, _is_keyword_of(line, "document")),
                    (body, _is_keyword_of(line, "step")),
                    (memory, _is_keyword_of(line, "memory")),
                    (steps, _is_keyword_of(line, "flow") or _looks_like_a_step(line)),
                )
                if belongs
            ),
            sections,
        )
        place.append(line)
    found = reader.properties(sections, "document", owner=lines.span)
    document = _sections(reader, found, "fragment", lines.span)
    return msgspec.structs.replace(
        document,
        memory=read_memory(reader, tuple(memory), lines.span) if memory else document.memory,
        constraints=read_constraints(reader, tuple(rules)) if rules else document.constraints,
        flow=read_flow(reader, tuple(steps), lines.span) if steps else document.flow,
        body=_body(reader, tuple(body), lines.span) if body else None,
    )


def _body(reader: Reader, lines: tuple[Line, ...], span: Span) -> Step:
    return read_step(reader, Raw("", span=span), lines, span, fragment=True)


def _is_keyword_of(line: Line, level: str, *, but: str = "") -> bool:
    if line.key is None or line.dash or (but and LEVELS[but].find(line.key)):
        return False
    return LEVELS[level].find(line.key) is not None


def _looks_like_a_step(line: Line) -> bool:
    if line.key is None or line.dash or line.value is not None:
        return False
    return any(child.key is not None and LEVELS["step"].find(child.key) for child in line.children)
