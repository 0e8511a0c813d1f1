"""The steps of FLOW in, steps that can be run out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from memoranda.abl import document as abl
from memoranda.abl.compiler.fields import compile_gather
from memoranda.abl.runtime.plan import ErrorPlan, InterruptionPlan, StepPlan
from memoranda.abl.runtime.reasoning import Reasoning
from memoranda.abl.understanding.intents import Intent

if TYPE_CHECKING:
    from memoranda.abl.compiler.context import Compiler

MAIN = ""
"""The step of an agent that has no flow."""


def compile_step(to: Compiler, node: abl.Step) -> StepPlan:
    """Return a step; its main block has a number of its own."""
    body = node.body
    has_gather = any(isinstance(action, abl.Gather) for action in body)
    block = to.empty_block()
    actions = [
        compile_gather(to, action, node) if isinstance(action, abl.Gather) else to.action(action)
        for action in body
        # What is presented stands before the question of the gathering, wherever it is written.
        if not (has_gather and isinstance(action, abl.Present))
    ]
    if node.reasoning:
        actions.append(_reasoning(to, node))
    block.actions = tuple(actions)
    return StepPlan(
        name=node.name.text,
        when=to.optional(node.when),
        block=block,
        on_input=to.branches(node.on_input, stays=True),
        sub_intents=compile_interruptions(to, node.sub_intents),
        digressions=compile_interruptions(to, node.digressions),
        on_error=compile_errors(to, node.on_error),
        then=to.branches(node.then),
        max_attempts=node.max_attempts,
        on_exhausted=to.leap(node.on_exhausted) if node.on_exhausted else None,
    )


def _reasoning(to: Compiler, node: abl.Step) -> Reasoning:
    return Reasoning(
        goal=to.text(node.goal),
        tools=tuple(tool.text for tool in node.available_tools) or None,
        exit_when=to.optional(node.exit_when),
        max_turns=node.max_turns or 10,
        constraints=tuple(to.template(rule) for rule in node.step_constraints),
    )


def main_step(to: Compiler) -> StepPlan:
    """Return the one step of an agent without a flow: it gathers, and the model, if there is one, speaks."""
    gather = to.document.gather
    block = to.empty_block()
    speaking = Reasoning(
        goal=None,
        tools=None,
        exit_when=None,
        max_turns=1_000,
        constraints=(),
        optional=True,
        gathers=gather is not None,
    )
    block.actions = (compile_gather(to, gather), speaking) if gather else (speaking,)
    return StepPlan(
        name=MAIN,
        when=None,
        block=block,
        on_input=(),
        sub_intents=(),
        digressions=(),
        on_error=(),
        then=(),
    )


def compile_interruptions(to: Compiler, nodes: Iterable[abl.Interruption]) -> tuple[InterruptionPlan, ...]:
    """Return sub-intents or digressions."""
    return tuple(
        InterruptionPlan(
            node.intent.text,
            Intent(node.intent.text, tuple(word.text for word in node.keywords)),
            to.optional(node.condition),
            to.block(node.body, node.goto),
            node.resume,
            to.leap(node.goto) if node.goto else None,
            any(isinstance(action, abl.Respond) for action in node.body),
            any(isinstance(action, abl.Clear) for action in node.body),
        )
        for node in nodes
    )


def compile_errors(to: Compiler, nodes: Iterable[abl.ErrorHandler]) -> tuple[ErrorPlan, ...]:
    """Return the handlers of errors."""
    return tuple(
        ErrorPlan(
            node.type.text.casefold(),
            tuple(subtype.text for subtype in node.subtypes),
            to.block(node.body),
            node.retry,
            (node.retry_delay or 0) / 1_000,
            node.retry_backoff or "fixed",
            (node.retry_max_delay or 30_000) / 1_000,
            to.leap(node.then) if node.then else None,
            node.backtrack_to.text if node.backtrack_to else "",
        )
        for node in nodes
    )
