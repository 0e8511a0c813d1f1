"""Parse ABL text into a `Document`.

`read` never fails: it returns what it could parse together with all diagnostics. `parse_document` and
`parse_fragment` raise a `SourceError` instead. Files that end in `.yaml` or `.yml` are in the lower-case dialect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from memoranda.abl.document import Document, DocumentKind, Flow, Identity, Step
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
from memoranda.model.text import quote

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
    first, *others = _agents(lines.lines)
    document = _part(reader, first, lines.span, fragment=fragment)
    peers = tuple(_part(reader, other, other[0].span.to(other[-1].span), fragment=fragment) for other in others)
    document = msgspec.structs.replace(document, peers=peers) if peers else document
    return lang_document.Reading(source, lines, document, diagnostics.sorted(), reader.spellings)


def _agents(lines: tuple[Line, ...]) -> list[tuple[Line, ...]]:
    """Return the lines of each agent of a file; sections may be indented below the name of their agent."""
    agents: list[list[Line]] = [[]]
    named = False
    for line in lines:
        if line.key is not None and not line.dash and line.key.upper() in ("AGENT", "SUPERVISOR"):
            if named:
                agents.append([])
            named = True
            agents[-1].append(msgspec.structs.replace(line, children=()) if line.value else line)
            agents[-1].extend(line.children if line.value else ())
        else:
            agents[-1].append(line)
    return [tuple(agent) for agent in agents]


def _part(reader: Reader, lines: tuple[Line, ...], span: Span, *, fragment: bool) -> Document:
    return _fragment(reader, lines, span) if fragment else _document(reader, lines, span)


def _document(reader: Reader, lines: tuple[Line, ...], span: Span, *, fragment: bool = False) -> Document:
    kind = _kind(lines)
    lines, steps = _split_steps(lines)
    known, others = _split_profiles(lines, kind)
    for line in others:
        reader.warning(
            "not_acted_on",
            f"{quote(line.key or line.text)} has no effect: a part of a behaviour profile",
            line.key_span,
        )
    _refuse_mode(reader, lines)
    known = tuple(line for line in known if not _is_mode(line))
    found = reader.properties(known, "document", owner=span)
    document = _sections(reader, found, kind or "agent", span, steps=steps)
    _require(reader, document, kind, found, lines, fragment=fragment)
    return msgspec.structs.replace(document, kept=(*document.kept, *others))


def _split_steps(lines: tuple[Line, ...]) -> tuple[tuple[Line, ...], list[Line]]:
    """Return the sections of a document, and the steps that are written beside `FLOW` instead of below it."""
    if not any(_is_keyword_of(line, "document") and (line.key or "").upper() == "FLOW" for line in lines):
        return lines, []
    steps = [
        line
        for line in lines
        if line.value is None
        and not _is_keyword_of(line, "document")
        and any((child.key or "").upper() == "REASONING" for child in line.children)
    ]
    return tuple(line for line in lines if line not in steps), steps


_PROFILE = ("PRIORITY", "WHEN", "INSTRUCTIONS", "CONVERSATION")
"""The keywords of a behaviour profile that is written inside an agent."""


def _split_profiles(lines: tuple[Line, ...], kind: DocumentKind | None) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    """Return the sections of a document, and the lines that belong to behaviour profiles."""
    table = LEVELS["document"]
    sections: list[Line] = []
    profiles: list[Line] = []
    inside = False
    for line in lines:
        word = (line.key or "").upper()
        if kind == "behavior_profile":
            of_profile = word in _OF_PROFILES or not (line.key and table.find(line.key))
        else:
            inside = word == "BEHAVIOR_PROFILE" or (inside and word in _PROFILE)
            of_profile = inside
        (profiles if of_profile else sections).append(line)
    return tuple(sections), tuple(profiles)


_OF_PROFILES = ("TOOLS", "GATHER", "FLOW", "CONSTRAINTS")
"""Sections with another form in a behaviour profile: they change those of the agent."""


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


def _require(
    reader: Reader,
    document: Document,
    kind: DocumentKind | None,
    found: Properties,
    lines: tuple[Line, ...],
    *,
    fragment: bool,
) -> None:
    begin = lines[0].key_span if lines else Span(0, 0)
    role = document.identity.role if document.identity else None
    if kind is None:
        message = "the file declares no agent"
        reader.error("missing", message, begin, hint="Begin it with `AGENT: Name`")
    elif kind == "agent" and role is None and document.goal is None and found.line("GOAL") is None:
        report = reader.warning if fragment else reader.error
        message = "`GOAL` is missing at the top of a file"
        report("missing", message, begin, hint="Say what the agent is to achieve: `GOAL: …`")


def _sections(
    reader: Reader, found: Properties, kind: DocumentKind, span: Span, steps: Sequence[Line] = ()
) -> Document:
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
        flow=_flow(reader, flow, steps, span, fragment=kind == "fragment"),
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


def _flow(reader: Reader, line: Line | None, steps: Sequence[Line], span: Span, *, fragment: bool) -> Flow | None:
    """Read the section and, in a fragment, the steps that are written outside of it."""
    if line is None and not steps:
        return None
    lines = (*(line.children if line else ()), *steps)
    return read_flow(reader, lines, line.span if line else span, fragment=fragment)


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


def _fragment(reader: Reader, lines: tuple[Line, ...], span: Span) -> Document:
    """Parse loose lines: assign each to the section that it belongs to."""
    if any(_is_keyword_of(line, "document", but="step") for line in lines) and _kind(lines) not in (None, "tools"):
        return _document(reader, lines, span, fragment=True)
    loose = any(_is_keyword_of(line, "step", but="document") for line in lines)
    outcomes = any(_is_keyword_of(line, "step") and (line.key or "").upper() in ("CALL", "CHECK") for line in lines)
    places: dict[str, list[Line]] = {}
    for line in lines:
        places.setdefault(_place_of(line, loose=loose, outcomes=outcomes), []).append(line)
    sections, *repeated = _without_repetition(places.pop("sections", []), "document")
    body, *others = _without_repetition(places.pop("body", []), "step")
    rules, memory, steps = (places.pop(name, []) for name in ("rules", "memory", "steps"))
    single = ((level, _without_repetition(found, level)) for level, found in places.items())
    spellings = dict(reader.spellings)
    for level, groups in (("document", repeated), ("step", others), *single):
        for group in groups:
            entries = (entry for line in group for entry in (line.entries if line.dash else (line,)))
            reader.properties(entries, level, owner=span, required=False)
    # These lines are kept as they are written.
    reader.spellings = spellings
    found = reader.properties(sections, "document", owner=span)
    document = _sections(reader, found, "fragment", span, steps=steps)
    return msgspec.structs.replace(
        document,
        memory=read_memory(reader, tuple(memory), span) if memory else document.memory,
        constraints=read_constraints(reader, tuple(rules)) if rules else document.constraints,
        body=_body(reader, tuple(body), span) if body else None,
        kept=(*document.kept, *(line for found in places.values() for line in found)),
    )


_LEVELS_OF_LINES = (
    *("escalate", "context", "delegate", "handoff", "tool", "tools", "template", "rule", "field"),
    *("session variable", "persistent variable", "recall", "action handler", "digression"),
)
"""The levels of keywords that a fragment may consist of, the most specific first."""


_LEVELS_OF_ITEMS = ("handoff", "delegate", "digression", "branch", "recall", "remember", "action handler", "element")
"""The levels of keywords of list items that a fragment may consist of."""


def _place_of(line: Line, *, loose: bool, outcomes: bool) -> str:
    """Return the part of a document, or the level of keywords, to which a line of a fragment belongs."""
    outcome = not outcomes and (line.key or "").upper() in ("ON_FAIL", "ON_FAILURE", "ON_SUCCESS", "ON_RESULT")
    found = (
        ("rules", (line.dash or line.key is None) and line.text.upper().startswith(RULES)),
        *((level, line.dash and LEVELS[level].find(line.key or "") is not None) for level in _LEVELS_OF_ITEMS),
        ("delegate" if (line.key or "").upper() == "ON_FAILURE" else "rule", outcome),
        ("body", loose and _is_keyword_of(line, "step")),
        ("sections", _is_keyword_of(line, "document")),
        ("body", _is_keyword_of(line, "step")),
        ("memory", _is_keyword_of(line, "memory")),
        *((level, _is_keyword_of(line, level)) for level in _LEVELS_OF_LINES),
        ("steps", _is_keyword_of(line, "flow") or _looks_like_a_step(line)),
    )
    return next((place for place, belongs in found if belongs), "sections")


def _without_repetition(lines: list[Line], level: str) -> list[list[Line]]:
    """Return lines in groups without repeated keywords: a fragment may show several variants of a line."""
    groups: list[list[Line]] = [[]]
    for line in lines:
        word = (line.key or "").upper()
        keyword = LEVELS[level].find(word)
        repeated = (group for group in groups if any((one.key or "").upper() == word for one in group))
        if line.dash:
            groups.append([line])
        elif line.value is None or (keyword is not None and keyword.repeatable) or not any(repeated):
            groups[0].append(line)
        else:
            groups.append([line])
    return groups


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
