"""What steps need and what `ensures` says in; capabilities that nobody knows, or that a step lacks, out.

A machine that lacks one can still be run: the step is denied then, and the ledger says so. Hence a warning.
"""

from __future__ import annotations

from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.expression.literals import UNKNOWN, literal
from memoranda.mashin.checker.outline import Outline
from memoranda.mashin.document import Capability, Ensures, Guard, NamedStep, Verdict
from memoranda.mashin.keywords import CAPABILITIES, GUARDS, ON_VIOLATION
from memoranda.mashin.permissions import Need, Permissions, covered, needed, permissions
from memoranda.model.text import quote


def check_permissions(whole: Outline, said: Diagnostics) -> None:
    """Check the capabilities that are named, those that steps need, and the guards."""
    ensures = whole.document.ensures
    if ensures is not None:
        _ensured(whole, said, ensures)
    if not whole.whole:
        return
    granted = permissions(ensures)
    for part in whole.parts:
        need = needed(part)
        if need is not None:
            _needed(said, part, need, granted)


def _ensured(whole: Outline, said: Diagnostics, ensures: Ensures) -> None:
    for permission in ensures.permissions:
        for one in permission.capabilities:
            if one.machine is None and not covered(one):
                _unknown(whole, said, one, permission.verdict)
    for guard in ensures.guards:
        _guard(whole, said, guard)
    if ensures.authority:
        message = "`authority` is kept but not acted on: what a machine may do stands in its permissions"
        said.note("not_acted_on", message, ensures.authority[0].span.to(ensures.authority[-1].span))


def _unknown(whole: Outline, said: Diagnostics, one: Capability, verdict: Verdict) -> None:
    """Say that a capability is not known: allowing it does nothing, but forbidding it would do nothing too."""
    note = said.warning if verdict == "allow" else said.error
    hint = whole.hints.meant(one.name.text, CAPABILITIES.names, otherwise=f"Known: {', '.join(CAPABILITIES.names)}")
    note("unknown_capability", f"{quote(one.name.text)} is no capability", one.name.span, hint=hint)


def _guard(whole: Outline, said: Diagnostics, guard: Guard) -> None:
    name = guard.name.text
    if GUARDS.find(name) is None:
        given = f"Give it to the machine: `load(…, guards={{{name!r}: function}})`"
        hint = whole.hints.meant(name, GUARDS.names, otherwise=given)
        said.warning("unknown_guard", f"{quote(name)} is no guard that is built in", guard.name.span, hint=hint)
    raw = guard.on_violation
    value = literal(whole.programs.node(raw)) if raw is not None else UNKNOWN
    if raw is None or value in ON_VIOLATION.names:
        return
    listed = f"One of {', '.join(ON_VIOLATION.names)}, in quotes"
    hint = whole.hints.meant(value, ON_VIOLATION.names, otherwise=listed) if isinstance(value, str) else listed
    message = f"`on_violation` cannot be {quote(raw.text, longest=40)}"
    said.error("wrong_value", message, raw.span, hint=hint)


def _needed(said: Diagnostics, part: NamedStep, need: Need, granted: Permissions) -> None:
    shown = "memory" if need.capability.startswith("memory.") else need.capability
    level = granted.level(need)
    if level == "deny":
        message = f"step `{part.name.text}` needs {shown}, which `not allowed to` denies"
        said.warning("not_allowed", message, part.name.span, hint="The step is denied whenever it runs")
    elif level is None:
        message = f"step `{part.name.text}` needs {shown}"
        said.warning("not_allowed", message, part.name.span, hint=f"Add `allowed to {shown}` to `ensures`")
