"""A document and its programs in, everything there is to say about what it means out; the checks by subject, in one."""

from __future__ import annotations

from recollect.abl.checker.access import check_access
from recollect.abl.checker.conditions import check_conditions
from recollect.abl.checker.constraints import check_constraints
from recollect.abl.checker.coordination import check_coordination
from recollect.abl.checker.flow import check_flow
from recollect.abl.checker.memory import check_memory
from recollect.abl.checker.outline import outline
from recollect.abl.checker.recall import check_recall
from recollect.abl.checker.tools import check_tools
from recollect.abl.checker.variables import check_variables
from recollect.abl.document import Document
from recollect.abl.parsed import Programs, parse_programs
from recollect.abl.parser import Reading, read
from recollect.lang.diagnostics import Diagnostic, Diagnostics

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
