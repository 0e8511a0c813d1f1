"""A document and its programs in, everything there is to say about what it means out; the checks by subject, in one."""

from __future__ import annotations

from collections.abc import Mapping

from memoranda.lang.diagnostics import Diagnostic
from memoranda.workflow.actions.base import Action
from memoranda.workflow.actions.builtin import BUILTIN
from memoranda.workflow.checker.bindings import check_bindings
from memoranda.workflow.checker.definitions import check_definitions
from memoranda.workflow.checker.flow import check_flow
from memoranda.workflow.checker.names import check_names
from memoranda.workflow.checker.outline import outline
from memoranda.workflow.checker.tasks import check_tasks
from memoranda.workflow.document import Document
from memoranda.workflow.faults import Notes
from memoranda.workflow.parser import Reading, read
from memoranda.workflow.programs import Programs

_CHECKS = (check_definitions, check_bindings, check_tasks, check_flow, check_names)


def check_document(document: Document, programs: Programs, actions: Mapping[str, Action]) -> None:
    """Note every fault, doubt and trap of a parsed document."""
    whole = outline(document, programs, actions)
    for check in _CHECKS:
        check(whole)


def check_source(
    text: str, *, name: str = "workflow.yaml", actions: Mapping[str, Action] | None = None
) -> tuple[Reading, Programs, tuple[Diagnostic, ...]]:
    """Read, parse and check a source; give what was read, its programs, and all diagnostics as one sorted list.

    `actions` are those of a program, which may replace the ones that are built in.
    """
    reading = read(text, name=name)
    said = reading.going_on()
    programs = Programs(Notes(said))
    check_document(reading.document, programs, {**BUILTIN, **(actions or {})})
    return reading, programs, said.sorted()
