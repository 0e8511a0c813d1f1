"""A document and its programs in, everything there is to say about what it means out; the checks by subject, in one."""

from __future__ import annotations

from memoranda.lang.diagnostics import Diagnostic, Diagnostics
from memoranda.mashin.checker.configuration import check_configuration
from memoranda.mashin.checker.flows import check_flows
from memoranda.mashin.checker.names import check_names
from memoranda.mashin.checker.outline import outline
from memoranda.mashin.checker.permissions import check_permissions
from memoranda.mashin.checker.types import check_types
from memoranda.mashin.checker.verifies import check_tests
from memoranda.mashin.document import Document
from memoranda.mashin.parser import Reading, read
from memoranda.mashin.programs import Programs

_CHECKS = (check_types, check_permissions, check_configuration, check_names, check_flows, check_tests)


def check_document(document: Document, programs: Programs, said: Diagnostics) -> None:
    """Note every fault, doubt and trap of a parsed document."""
    whole = outline(document, programs)
    for check in _CHECKS:
        check(whole, said)


def check_source(
    text: str, *, name: str = "machine.mashin", fragment: bool = False
) -> tuple[Reading, Programs, tuple[Diagnostic, ...]]:
    """Read, parse and check a source; give what was read, its programs, and all diagnostics as one sorted list."""
    reading = read(text, name=name, fragment=fragment)
    said = reading.going_on()
    programs = Programs(said)
    check_document(reading.document, programs, said)
    return reading, programs, said.sorted()
