"""Recall instructions: an event in; facts in the variables, or words for the model, out."""

from __future__ import annotations

from typing import Any

from memoranda.abl.runtime.plan import RecallPlan
from memoranda.abl.runtime.work import Work, put_below
from memoranda.abl.variables import Persistent
from memoranda.errors import MemorandaError
from memoranda.model.scope import Scope


def recall(work: Work, event: str, also: str = "") -> None:
    """Do what the active agent says for an event, or for `also`, which stands for every event of its kind.

    What fails is noted, and the turn goes on.
    """
    recalls = work.frame.plan.recalls
    plans = recalls.get(event, ())
    if also and also in recalls:
        plans = sorted((*plans, *recalls[also]), key=lambda plan: plan.number)
    for plan in plans:
        try:
            _ACTIONS[plan.action](work, plan, event)
        except MemorandaError as error:
            work.note("warning", f"recall at {event} failed", why=error.message, code=error.code)


def _inject(work: Work, plan: RecallPlan, event: str) -> None:
    for variable in plan.paths:
        _put(work, variable, work.frame.facts.read(variable, work.frame.names, work.run))
    work.note("recalled", ", ".join(variable.path for variable in plan.paths), on=event)


def _put(work: Work, variable: Persistent, value: Any) -> None:
    """Put a value at its dotted path among the variables. It is a copy of a fact, so it is no fact of the session."""
    head, *rest = variable.path.split(".")
    names, mind = work.frame.names, work.frame.state.mind
    if head not in mind.injected:
        mind.injected = [*mind.injected, head]
    held = names.get(head)
    names[head] = put_below(held if type(held) is dict else None, tuple(rest), value, head) if rest else value


def _load(work: Work, plan: RecallPlan, event: str) -> None:
    if plan.paths:
        _inject(work, plan, event)
    if plan.domain is None:
        return
    facts = work.frame.facts.session
    count = 0
    for head, scope in (("user", facts.user), ("project", facts.project), ("workflow", facts.tree)):
        for path, value in _of_domain(work, scope, plan.domain, head):
            _put(work, Persistent(path, "user", path), value)
            count += 1
    entries = _entries(work, plan.domain)
    if entries:
        names = work.frame.names
        names["recalled"] = {**(names.get("recalled") or {}), plan.domain: entries}
    work.note("recalled", plan.domain, on=event, facts=count, entries=len(entries))


def _of_domain(work: Work, scope: Scope | None, domain: str, head: str) -> list[tuple[str, Any]]:
    """Return the facts of a domain by their paths: those tagged with it, and those whose key begins with it."""
    if scope is None:
        return []
    facts = work.frame.facts.session
    closed = work.frame.facts.closed(work.frame.plan.declarations.persistent.values(), scope)
    return [
        (f"{head}.{key}", value) for key, value in sorted(facts.of_domain(scope, domain).items()) if key not in closed
    ]


def _entries(work: Work, domain: str) -> list[Any]:
    """Return what was remembered in the domain's collection that answers the user's words."""
    facts = work.frame.facts.session
    if facts.as_of is not None:
        return []
    found = facts.entries.recall(work.text, collection=domain, limit=work.behaviour.loaded)
    return [match.content for match in found.results]


def _instruct(work: Work, plan: RecallPlan, event: str) -> None:
    if plan.instruction is None:
        return
    told = work.frame.state.told
    text = work.render(plan.instruction)
    what = plan.number if plan.number in work.frame.plan.instructions else text
    if what not in told:
        told.append(what)
    work.note("recalled", "an instruction for the model", on=event)


_ACTIONS = {"inject_context": _inject, "load_memory": _load, "prompt_llm": _instruct}
