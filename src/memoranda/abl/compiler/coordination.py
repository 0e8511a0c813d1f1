"""HANDOFF, DELEGATE and COMPLETE in; who takes over when, with what, and the end, out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from memoranda.abl import document as abl
from memoranda.abl.keywords import TYPES
from memoranda.abl.runtime.actions import compile_target
from memoranda.abl.runtime.plan import CompletePlan, ContextPlan, DelegatePlan, HandoffPlan, Put
from memoranda.abl.tree import Raw
from memoranda.abl.values import unquote
from memoranda.abl.variables import Persistent
from memoranda.lang.expression.nodes import paths_read
from memoranda.lang.template import CompiledTemplate

if TYPE_CHECKING:
    from memoranda.abl.compiler.context import Compiler


def compile_handoff(to: Compiler, number: int, node: abl.Handoff) -> HandoffPlan:
    """Return a handoff with what the other agent is told and what follows its return."""
    back = node.on_return
    failure, message = _on_failure(to, node.on_failure)
    return HandoffPlan(
        number=number,
        to=node.to.text,
        when=to.optional(node.when),
        priority=node.priority if node.priority is not None else 100,
        context=_context(to, node.context),
        returns=node.returns or back is not None,
        action=back.action if back else None,
        handler=back.handler.text if back and back.handler else None,
        map=_targets(to, back.map) if back else (),
        set=tuple((compile_target(to, name), value) for name, value in to.pairs(back.set)) if back else (),
        on_failure=failure,
        failure_message=message,
        by_words=_is_about_words(to, node.when),
    )


def _is_about_words(to: Compiler, when: Raw | None) -> bool:
    node = to.programs.node(when) if when is not None else None
    return node is not None and any(path[0] in ("input", "intent") for path, _ in paths_read(node))


def _context(to: Compiler, node: abl.Context | None) -> ContextPlan:
    if node is None:
        return ContextPlan()
    return ContextPlan(
        tuple(name.text for name in node.values),
        to.text(node.summary),
        node.history.text.casefold() if node.history else "auto",
        node.history_count,
        tuple((grant.path.text, grant.access) for grant in node.memory_grants),
        to.pairs(node.set),
    )


def _on_failure(to: Compiler, raw: Raw | None) -> tuple[str, CompiledTemplate | None]:
    """Return the word that says what follows a failure, and the message it comes with."""
    if raw is None:
        return "", None
    word = raw.text.partition(" ")[0].casefold()
    if word in ("continue", "escalate", "retry") and not raw.literal:
        return word, None
    return "respond", to.template(raw)


def compile_delegate(to: Compiler, number: int, node: abl.Delegate) -> DelegatePlan:
    """Return a delegation: what goes along and what comes back."""
    failure, message = _on_failure(to, node.on_failure)
    return DelegatePlan(
        number=number,
        agent=node.agent.text,
        when=to.optional(node.when),
        input=to.pairs(node.input),
        returns=_targets(to, node.returns),
        purpose=to.text(node.purpose),
        on_failure=failure,
        failure_message=message,
    )


def compile_complete(to: Compiler, node: abl.Complete) -> CompletePlan:
    """Return an end of the agent's work: when it comes, what is said and what is stored."""
    if node.store_value is None:
        return CompletePlan(to.expression(node.when), to.text(node.respond), None, None)
    target = node.store_target or node.store_value
    found = to.declarations.find(target.text) or (_stored_by_name(target.text), ())
    return CompletePlan(to.expression(node.when), to.text(node.respond), to.expression(node.store_value), *found)


def _targets(to: Compiler, arguments: Iterable[abl.Argument]) -> tuple[tuple[str, Put], ...]:
    """Return what the other agent calls its values, and where they go here; `score: number` keeps its name."""
    found: list[tuple[str, Put]] = []
    for argument in arguments:
        name, target = argument.name.text, unquote(argument.value).text
        found.append((name, compile_target(to, name if target.casefold() in TYPES else target)))
    return tuple(found)


def _stored_by_name(name: str) -> Persistent:
    return Persistent(name, "user", name, declared=False)
