"""CONSTRAINTS in; rules by checkpoint out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.abl import document as abl
from memoranda.abl.compiler.fields import add_collected
from memoranda.abl.runtime.plan import FailurePlan, Leap, RulePlan
from memoranda.abl.tree import Raw
from memoranda.lang.expression.nodes import Binary, Constant, Name, Node, children

if TYPE_CHECKING:
    from memoranda.abl.compiler.context import Compiler


def compile_rules(to: Compiler) -> dict[str, tuple[RulePlan, ...]]:
    """Return the rules by the checkpoint at which they are looked at, in the order of the file."""
    by_checkpoint: dict[str, list[RulePlan]] = {}
    number = 0
    for phase in to.document.constraints:
        for rule in phase.rules:
            if rule.before is not None and rule.before.kind == "other":
                continue
            plan = _rule(to, rule, number)
            by_checkpoint.setdefault(plan.checkpoint, []).append(plan)
            number += 1
    return {checkpoint: tuple(rules) for checkpoint, rules in by_checkpoint.items()}


def _rule(to: Compiler, node: abl.Rule, number: int) -> RulePlan:
    checkpoint = "turn"
    if node.before is not None:
        calling = node.before.kind == "calling"
        checkpoint = f"calling {node.before.target.text}" if calling else "returning"
    return RulePlan(
        number=number,
        text=f"{node.keyword} {node.condition.text}",
        condition=to.guard(node.condition),
        forbids=node.keyword == "RESTRICT",
        gate=None if node.when is None or to.programs.node(node.when) is None else to.guard(node.when),
        checkpoint=checkpoint,
        warns=node.severity == "warning",
        failure=_failure(to, node.on_fail, node.condition) if node.on_fail else None,
    )


def _failure(to: Compiler, node: abl.Failure, condition: Raw) -> FailurePlan:
    kinds = _compared_types(to.programs.node(condition))
    for name in node.collect:
        add_collected(to, name.text, kinds.get(name.text))
    return FailurePlan(
        form=node.form,
        respond=to.text(node.respond),
        handoff=node.handoff.text if node.handoff else "",
        collect=tuple(name.text for name in node.collect),
        goto=Leap("step", node.goto.text) if node.goto else None,
        retry=node.retry,
        then=node.then,
    )


def _compared_types(node: Node | None) -> dict[str, str]:
    """Return the types of variables that a condition compares with a constant: `reviewed == true` is a boolean."""
    found: dict[str, str] = {}
    waiting = [node] if node is not None else []
    while waiting:
        here = waiting.pop()
        waiting.extend(children(here))
        if isinstance(here, Binary) and isinstance(here.left, Name) and isinstance(here.right, Constant):
            value = here.right.value
            if isinstance(value, (bool, int, float)):
                found[here.left.name] = "boolean" if isinstance(value, bool) else "number"
    return found
