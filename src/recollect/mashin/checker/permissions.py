"""What steps need and what `ensures` says in; capabilities that nobody knows, or that a step lacks, out.

A machine that lacks one can still be run: the step is denied then, and the ledger says so. Hence a warning.
"""

from __future__ import annotations

from recollect.lang.diagnostics import Diagnostics
from recollect.mashin.checker.outline import Outline
from recollect.mashin.document import Ask, Capability, NamedStep, Recall, Remember, Verdict
from recollect.mashin.keywords import CAPABILITIES, COVERS, capability
from recollect.model.text import quote


def check_permissions(whole: Outline, said: Diagnostics) -> None:
    """Check the capabilities that are named, and those that steps need."""
    ensures = whole.document.ensures
    granted: dict[Verdict, set[str]] = {"allow": set(), "deny": set(), "approve": set()}
    for permission in ensures.permissions if ensures else ():
        for one in permission.capabilities:
            names = _names(one)
            if not names:
                _unknown(whole, said, one, permission.verdict)
            granted[permission.verdict].update(names)
    if not whole.whole:
        return
    for part in whole.parts:
        needed = needs(part)
        if needed is not None:
            _needed(said, part, needed, granted)


def needs(part: NamedStep) -> str | None:
    """Return the capability that a step needs; None for one that reaches nothing."""
    if isinstance(part, Remember):
        return "memory.write"
    if isinstance(part, Recall):
        return "memory.read"
    if isinstance(part, Ask):
        return "llm_call" if part.machine is None else f"call {part.machine.text}"
    return None


def _names(one: Capability) -> tuple[str, ...]:
    if one.machine is not None:
        return (f"call {one.machine.text}",)
    name = capability(one.name.text)
    return (name, *COVERS.get(name, ())) if name else ()


def _unknown(whole: Outline, said: Diagnostics, one: Capability, verdict: Verdict) -> None:
    """Say that a capability is not known: allowing it does nothing, but forbidding it would do nothing too."""
    note = said.warning if verdict == "allow" else said.error
    hint = whole.hints.meant(one.name.text, CAPABILITIES.names, otherwise=f"Known: {', '.join(CAPABILITIES.names)}")
    note("unknown_capability", f"{quote(one.name.text)} is no capability", one.name.span, hint=hint)


def _needed(said: Diagnostics, part: NamedStep, needed: str, granted: dict[Verdict, set[str]]) -> None:
    covers = {needed, "machine.call"} if needed.startswith("call ") else {needed}
    shown = needed.partition(".")[0] if needed.startswith("memory.") else needed
    shown = "machine.call" if needed.startswith("call ") else shown
    if covers & granted["deny"]:
        message = f"step `{part.name.text}` needs {shown}, which `not allowed to` denies"
        said.warning("not_allowed", message, part.name.span, hint="The step is denied whenever it runs")
    elif not covers & (granted["allow"] | granted["approve"]):
        message = f"step `{part.name.text}` needs {shown}"
        said.warning("not_allowed", message, part.name.span, hint=f"Add `allowed to {shown}` to `ensures`")
