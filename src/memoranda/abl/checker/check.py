"""Run all checks on a document."""

from __future__ import annotations

from memoranda.abl.checker.flow import (
    check_conditions,
    check_constraints,
    check_coordination,
    check_fields,
    check_flow,
    check_variables,
)
from memoranda.abl.checker.memory import check_access, check_memory, check_recall
from memoranda.abl.checker.outline import outline
from memoranda.abl.checker.tools import check_tools
from memoranda.abl.document import Document
from memoranda.abl.parser import Reading, read
from memoranda.abl.programs import Programs, parse_programs
from memoranda.lang.diagnostics import Diagnostic, Diagnostics

_CHECKS = (
    check_memory,
    check_recall,
    check_access,
    check_variables,
    check_constraints,
    check_fields,
    check_tools,
    check_flow,
    check_conditions,
    check_coordination,
)


def check_document(document: Document, programs: Programs, diagnostics: Diagnostics) -> None:
    """Report every error and warning about a parsed document."""
    whole = outline(document, programs, sound=not diagnostics.failed)
    for check in _CHECKS:
        check(whole, diagnostics)


def check_source(
    text: str, *, name: str = "agent.abl", fragment: bool = False
) -> tuple[Reading, Programs, tuple[Diagnostic, ...]]:
    """Parse and check a source; return the reading, its programs, and all diagnostics sorted."""
    reading = read(text, name=name, fragment=fragment)
    diagnostics = reading.going_on()
    programs = parse_programs(reading.document, diagnostics)
    check_document(reading.document, programs, diagnostics)
    for peer in reading.document.peers:
        check_document(peer, parse_programs(peer, diagnostics), diagnostics)
    return reading, programs, diagnostics.sorted()
