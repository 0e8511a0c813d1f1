"""A document and its programs in, everything there is to say about what it means out; the checks by subject, in one."""

from __future__ import annotations

from memoranda.abl.checker.access import check_access
from memoranda.abl.checker.conditions import check_conditions
from memoranda.abl.checker.constraints import check_constraints
from memoranda.abl.checker.coordination import check_coordination
from memoranda.abl.checker.flow import check_flow
from memoranda.abl.checker.memory import check_memory
from memoranda.abl.checker.outline import outline
from memoranda.abl.checker.recall import check_recall
from memoranda.abl.checker.tools import check_tools
from memoranda.abl.checker.variables import check_variables
from memoranda.abl.document import Document
from memoranda.abl.parsed import Programs, parse_programs
from memoranda.abl.parser import Reading, read
from memoranda.lang.diagnostics import Diagnostic, Diagnostics

_CHECKS = (
    check_memory,
    check_recall,
    check_access,
    check_variables,
    check_constraints,
    check_tools,
    check_flow,
    check_conditions,
    check_coordination,
)


def check_document(document: Document, programs: Programs, said: Diagnostics) -> None:
    """Note every fault, doubt and trap of a parsed document."""
    whole = outline(document, programs, sound=not said.failed)
    for check in _CHECKS:
        check(whole, said)


def check_source(
    text: str, *, name: str = "agent.abl", fragment: bool = False
) -> tuple[Reading, Programs, tuple[Diagnostic, ...]]:
    """Read, parse and check a source; give what was read, its programs, and all diagnostics as one sorted list."""
    reading = read(text, name=name, fragment=fragment)
    said = reading.going_on()
    programs = parse_programs(reading.document, said)
    check_document(reading.document, programs, said)
    return reading, programs, said.sorted()
