"""A document and its parsed programs in, a plan out: everything that running does not have to look up again."""

from __future__ import annotations

import msgspec

from memoranda.abl import document as abl
from memoranda.abl.compiler.context import Compiler
from memoranda.abl.compiler.coordination import compile_complete, compile_delegate, compile_handoff
from memoranda.abl.compiler.fields import compile_field
from memoranda.abl.compiler.memory import compile_recalls, compile_triggers
from memoranda.abl.compiler.rules import compile_rules
from memoranda.abl.compiler.steps import MAIN, compile_errors, compile_interruptions, compile_step, main_step
from memoranda.abl.document import Document
from memoranda.abl.parsed import Programs
from memoranda.abl.runtime.plan import EscalationPlan, HandlerPlan, Plan, Signal, choose
from memoranda.abl.runtime.work import Work
from memoranda.lang.source import digest_of
from memoranda.lang.template import CompiledTemplate

DIGEST = 16
"""Characters of the digest that a session names its agents by."""


def compile_agent(document: Document, programs: Programs, source: str) -> Plan:
    """Compile a document that has no faults."""
    to = Compiler(document, programs)
    flow = document.flow
    if document.gather is not None:
        for field in document.gather.fields:
            compile_field(to, field)
    steps = {step.name.text: compile_step(to, step) for step in flow.steps} if flow else {MAIN: main_step(to)}
    escalate = document.escalate
    handoffs = [compile_handoff(to, number, node) for number, node in enumerate(document.handoffs)]
    return Plan(
        name=document.name.text if document.name else "Agent",
        digest=digest_of(source)[:DIGEST],
        source=source,
        document=document,
        declarations=to.declarations,
        steps=steps,
        entry=(flow.entry if flow else MAIN),
        digressions=compile_interruptions(to, flow.global_digressions) if flow else (),
        rules=compile_rules(to),
        fields=to.fields,
        triggers=compile_triggers(to),
        recalls=compile_recalls(to),
        handoffs=tuple(sorted(handoffs, key=lambda plan: plan.priority)),
        delegates=tuple(compile_delegate(to, number, node) for number, node in enumerate(document.delegates)),
        escalations=tuple(
            EscalationPlan(
                to.expression(node.when),
                to.text(node.reason),
                node.priority,
                tuple(tag.text for tag in node.tags),
            )
            for node in (escalate.triggers if escalate else ())
        ),
        context_for_human=tuple(name.text for name in escalate.context_for_human) if escalate else (),
        completes=tuple(compile_complete(to, node) for node in document.completes),
        on_start=_handler(to, _calling_first(document.on_start)) if document.on_start else None,
        hooks={node.name.text.casefold(): _handler(to, node) for node in document.hooks},
        return_handlers={node.name.text: _handler(to, node) for node in document.return_handlers},
        on_error=compile_errors(to, document.on_error),
        messages={one.name.text: to.template(one.value) for one in document.messages},
        prose=_prose(to),
        traits=_traits(document),
        resets=_resets(to),
        blocks=tuple(to.blocks),
        guards=frozenset(to.guards),
    )


def _calling_first(node: abl.Handler) -> abl.Handler:
    """Let what is said at the start be said after the calls, whose results it may speak of."""
    body = node.body
    after = 1 + max((place for place, action in enumerate(body) if isinstance(action, abl.Call)), default=-1)
    if any(isinstance(action, abl.Gather) for action in body[:after]):
        return node
    done = [action for action in body[:after] if not isinstance(action, abl.Respond)]
    said = [action for action in body[:after] if isinstance(action, abl.Respond)]
    return msgspec.structs.replace(node, body=(*done, *said, *body[after:]))


def _handler(to: Compiler, node: abl.Handler) -> HandlerPlan:
    branches = to.branches(node.branches)

    def run_branches(work: Work) -> Signal:
        branch = choose(branches, work)
        return branch.block if branch else None

    block = to.block(node.body, node.then, extra=run_branches if branches else None)
    return HandlerPlan(block, node.critical, node.resume_intent)


def _resets(to: Compiler) -> dict[str, tuple[str, ...]]:
    by_reset: dict[str, list[str]] = {}
    for slot in to.declarations.session.values():
        by_reset.setdefault(slot.reset, []).append(slot.name)
    return {reset: tuple(names) for reset, names in by_reset.items()}


def _prose(to: Compiler) -> dict[str, CompiledTemplate]:
    document, identity = to.document, to.document.identity
    if document.system_prompt is not None:
        return {"Prompt": to.template(document.system_prompt)}
    given = {
        "Role": identity.role if identity else None,
        "Persona": document.persona or (identity.persona if identity else None),
        "Goal": document.goal,
        "Instructions": document.instructions,
    }
    return {label: to.template(raw) for label, raw in given.items() if raw is not None}


def _traits(document: Document) -> tuple[str, ...]:
    """Return what the agent knows and what it cannot do, one sentence each, for the model."""
    identity = document.identity
    limits = (*document.limitations, *(identity.limitations if identity else ()))
    known = identity.expertise if identity else ()
    return (*(f"You know about: {raw.text}" for raw in known), *(f"You cannot: {raw.text}" for raw in limits))
