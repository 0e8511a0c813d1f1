"""The steps of `FLOW` in; transitions to nowhere, steps that are never reached, and attempts without an end, out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from memoranda.abl.checker.outline import Lead, Outline
from memoranda.abl.document import Flow, Respond, Step, Transform
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.expression.literals import UNKNOWN, literal
from memoranda.model.text import quote


def check_flow(whole: Outline, said: Diagnostics) -> None:
    """Check where steps lead, and what in them can be seen to fail."""
    if whole.closed:
        _templates(whole, said)
    complete = whole.closed and _targets(whole, said)
    flow = whole.document.flow
    if flow is not None:
        _labels(flow, said)
        for step in flow.steps:
            _attempts(step, said)
        # A way to the step may be what could not be read, or what was misspelt.
        if complete and whole.sound:
            _reachable(whole, flow, said)
    for part, _ in whole.parts:
        if isinstance(part, Transform):
            _limit(whole, part, said)


# --- where steps lead -------------------------------------------------------------------------------------------


def _targets(whole: Outline, said: Diagnostics) -> bool:
    """Note every name of a step that is not there; say whether there was none."""
    flow = whole.document.flow
    named = [lead.to for lead in whole.leads if lead.kind == "step"]
    if flow is not None:
        named.extend(flow.order)
        if flow.entry_point is not None:
            named.append(flow.entry_point)
    unknown = [name for name in named if name.text not in whole.steps]
    known = (*whole.steps, "COMPLETE", "ESCALATE")
    for name in unknown:
        hint = whole.hints.meant(name.text, known, otherwise=_list_of(whole.steps))
        said.error("unknown_step", f"there is no step {quote(name.text)}", name.span, hint=hint)
    return not unknown


def _list_of(steps: Iterable[str]) -> str:
    names = list(steps)
    if len(names) < 2:
        return f"The only step is {names[0]}" if names else "This agent has no steps"
    return f"The steps are {', '.join(names[:8])}{' and others' if len(names) > 8 else ''}"


def _reachable(whole: Outline, flow: Flow, said: Diagnostics) -> None:
    ways: dict[str | None, set[str]] = {}
    for lead in whole.leads:
        if _is_way(whole, lead):
            ways.setdefault(lead.step, set()).add(lead.to.text)
    entry = flow.entry
    waiting = [*(ways.get(None, ())), *((entry,) if entry is not None else ())]
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(ways.get(name, ()))
    for name, step in whole.steps.items():
        if name not in reached:
            message = f"the step {quote(name)} is never reached"
            hint = f"Nothing leads there from {quote(entry)}, where the flow begins"
            said.warning("unreachable", message, step.name.span, hint=hint)


def _is_way(whole: Outline, lead: Lead) -> bool:
    """Say whether a transition leads to a step; a step may be called like one of the words for the end."""
    return lead.kind != "handoff" and lead.to.text in whole.steps


def _labels(flow: Flow, said: Diagnostics) -> None:
    seen: set[str] = set()
    for digression in (*flow.global_digressions, *(each for step in flow.steps for each in step.digressions)):
        label = " ".join(digression.intent.text.split()).casefold()
        if label in seen:
            message = f"a digression {quote(digression.intent.text)} is declared a second time in this flow"
            hint = "Give it another label, or move the first to `global_digressions`"
            said.error("duplicate", message, digression.intent.span, hint=hint)
        seen.add(label)


# --- single steps -----------------------------------------------------------------------------------------------


def _attempts(step: Step, said: Diagnostics) -> None:
    if step.max_attempts is not None and step.on_exhausted is None:
        message = f"{quote(step.name.text)} has `MAX_ATTEMPTS` and does not say what follows them"
        said.warning("no_way_on", message, step.name.span, hint="Add `ON_EXHAUSTED: step`, or ESCALATE")
    elif step.on_exhausted is not None and step.max_attempts is None:
        message = "`ON_EXHAUSTED` never happens without `MAX_ATTEMPTS`"
        said.warning("no_effect", message, step.on_exhausted.span, hint="Add `MAX_ATTEMPTS: 3`")


def _templates(whole: Outline, said: Diagnostics) -> None:
    names = [template.name.text for template in whole.document.templates]
    for part, _ in whole.parts:
        if isinstance(part, Respond) and part.named and part.text.text not in names:
            hint = whole.hints.meant(part.text.text, names, otherwise="Declare it below `TEMPLATES`")
            said.error("unknown_template", f"there is no template {quote(part.text.text)}", part.text.span, hint=hint)


def _limit(whole: Outline, transform: Transform, said: Diagnostics) -> None:
    raw = transform.limit
    if raw is not None and not _can_limit(literal(whole.programs.node(raw))):
        message = f"`LIMIT` cannot be {quote(raw.text)}"
        said.error("wrong_value", message, raw.span, hint="How many items stay: 0 or more")


def _can_limit(value: Any) -> bool:
    if type(value) in (int, float):
        return value >= 0
    return value is UNKNOWN or value is None
