"""The text of a workflow and what it is equipped with in; a plan, and what it lacks to be run, out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from memoranda.lang.diagnostics import Diagnostic, source_error
from memoranda.model.scope import Scope
from memoranda.workflow.actions.base import Action, Call
from memoranda.workflow.actions.builtin import BUILTIN
from memoranda.workflow.actions.installed import installed_actions
from memoranda.workflow.checker.check import check_source
from memoranda.workflow.compiler import compile_workflow
from memoranda.workflow.document import Document
from memoranda.workflow.parser import Reading
from memoranda.workflow.programs import Programs
from memoranda.workflow.reaching import Kit
from memoranda.workflow.runtime.plan import Plan


class Prepared(msgspec.Struct, frozen=True):
    """A plan, what there is to say about its text, and what it lacks to be run."""

    plan: Plan
    diagnostics: tuple[Diagnostic, ...]
    missing: tuple[str, ...]


def prepare(text: str, file: str, kit: Kit, *, name: str | None, only_to_look: bool = False) -> Prepared:
    """Compile a workflow; raise a SourceError with everything wrong with it.

    One that is made only to look at its runs may lack actions of its program; it does not run.
    """
    reading, programs, diagnostics, known = look(text, file, kit.actions, looking_only=only_to_look)
    absent: dict[str, Action] = {}
    servers = kit.servers
    if only_to_look:
        absent, servers = _stand_ins(reading.document, known, servers)
    else:
        diagnostics = tuple(_for_running(one) for one in diagnostics)
    if any(one.severity == "error" for one in diagnostics):
        raise source_error(reading.source, diagnostics)
    called = name if name is not None else name_of(file)
    Scope.of(workflow=called)  # refuses what cannot be the name of a scope
    plan = compile_workflow(
        reading.document, programs, reading.source, name=called, actions={**known, **absent}, servers=servers
    )
    missing = (*absent, *(server for server in servers if server not in kit.servers))
    return Prepared(plan, diagnostics, missing)


def look(
    text: str, file: str, actions: Mapping[str, Action], *, looking_only: bool = True
) -> tuple[Reading, Programs, tuple[Diagnostic, ...], dict[str, Action]]:
    """Read and check a text with these actions, the built-in and the installed ones; give those actions as well."""
    known = {**BUILTIN, **actions}
    reading, programs, diagnostics = check_source(text, name=file, actions=known)
    if any(one.code == "unknown_action" for one in diagnostics):
        # Looking through everything that is installed takes a while; few workflows need it.
        named = [one.action.text for one in reading.document.defs if one.action is not None]
        wanted = () if looking_only else [one for one in named if one not in known]
        known = {**installed_actions(wanted=wanted), **known}
        reading, programs, diagnostics = check_source(text, name=file, actions=known)
    return reading, programs, diagnostics, known


def _stand_ins(
    document: Document, known: Mapping[str, Action], servers: Mapping[str, tuple[Action, ...]]
) -> tuple[dict[str, Action], Mapping[str, tuple[Action, ...]]]:
    """Return actions and servers in place of those that a document names and nobody gives."""
    named = [one.action.text for one in document.defs if one.action is not None]
    served = [one.name.text for one in document.defs if one.is_a("mcp")]
    absent = {one: _absent_action(one) for one in named if one not in known}
    return absent, {**dict.fromkeys(served, ()), **servers}


def _absent_action(name: str) -> Action:
    def act(call: Call) -> Any:
        raise AssertionError(f"a workflow without its action {name} is not run")

    return Action(name=name, act=act)


def _for_running(one: Diagnostic) -> Diagnostic:
    """Return a diagnostic as it counts for a workflow that is to be run: an action that nobody gives is an error."""
    return msgspec.structs.replace(one, severity="error") if one.code == "unknown_action" else one


def name_of(file: str | os.PathLike[str]) -> str:
    """Return what the workflow in a file is called unless it is given another name."""
    return Path(file).stem
