"""The rules of `CONSTRAINTS` in; those without effect, without an answer, or that read backwards, out."""

from __future__ import annotations

from memoranda.abl.checker.outline import Outline
from memoranda.abl.document import Failure, Rule
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.expression.nodes import Logical, Node, children
from memoranda.model.text import quote


def check_constraints(whole: Outline, said: Diagnostics) -> None:
    """Check each rule by itself; their conditions are checked with all others."""
    for phase in whole.document.constraints:
        for rule in phase.rules:
            _checkpoint(whole, rule, said)
            _failure(rule, said)
            _implication(whole, rule, said)


def _checkpoint(whole: Outline, rule: Rule, said: Diagnostics) -> None:
    before = rule.before
    if before is None or before.kind == "returning":
        return
    if before.kind == "other":
        message = f"the rule has no effect: {quote(f'BEFORE {before.target.text}')} is no checkpoint"
        hint = "Use `BEFORE calling TOOL` or `BEFORE returning results`, or say when it applies with `WHEN:`"
        said.warning("inert_rule", message, before.target.span, hint=hint)
    elif whole.tools and before.target.text not in whole.tools:
        name = before.target.text
        called = {call.tool.text for call in whole.calls}
        if name not in called:
            message = f"the rule never applies: `TOOLS` declares no {quote(name)}"
            said.warning("undeclared_tool", message, before.target.span, hint=whole.hints.meant(name, whole.tools))


def _failure(rule: Rule, said: Diagnostics) -> None:
    failure = rule.on_fail
    if rule.severity == "warning":
        if failure is not None and _does(failure) != {"respond"}:
            message = "the rule only warns: its message is logged, and nothing else of `ON_FAIL` happens"
            hint = "Give it a message, or write REQUIRE to stop the agent"
            said.warning("only_logged", message, failure.span, hint=hint)
    elif failure is None or (failure.form == "structured" and not _does(failure)):
        message = f"`{rule.keyword}` has no `ON_FAIL`: the user is told only that it cannot be done"
        said.warning("no_on_fail", message, rule.condition.span, hint='Add `ON_FAIL: "…"` below the rule')


def _does(failure: Failure) -> set[str]:
    """Return what a broken rule does, in the words of its structured form."""
    words = ("respond", "handoff", "collect", "goto", "retry", "then")
    return {word for word in words if getattr(failure, word)}


def _implication(whole: Outline, rule: Rule, said: Diagnostics) -> None:
    node = whole.programs.node(rule.condition)
    implication = _find_implication(node) if rule.keyword == "RESTRICT" and node is not None else None
    if implication is not None:
        message = "`IMPLIES` reads backwards in `RESTRICT`: it forbids what the implication allows"
        hint = "Write REQUIRE with the implication, or RESTRICT with AND"
        said.warning("implies_in_restrict", message, implication.span, hint=hint)


def _find_implication(node: Node) -> Logical | None:
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if isinstance(here, Logical) and here.operator == "implies":
            return here
        waiting.extend(children(here))
    return None
