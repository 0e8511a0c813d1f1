"""An agent, compiled: what the compiler gives and the runtime follows. Nothing here changes while agents run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Literal

import msgspec

from memoranda.abl.document import Access, Document
from memoranda.abl.runtime.work import Work
from memoranda.abl.understanding.intents import Intent
from memoranda.abl.understanding.wanted import Wanted
from memoranda.abl.variables import SYSTEM, Declarations, Persistent
from memoranda.lang.expression.program import Expression
from memoranda.lang.template import CompiledTemplate


class Leap(msgspec.Struct, frozen=True):
    """Where to go: a step, the end, a person, another agent; or on, again, or back."""

    kind: Literal["step", "complete", "escalate", "handoff", "continue", "retry", "backtrack"]
    name: str = ""
    reason: CompiledTemplate | None = None


class Block:
    """Actions one after the other, and what follows the last of them."""

    __slots__ = ("actions", "number", "stays", "then")

    def __init__(self, number: int, then: Leap | None, *, stays: bool) -> None:
        """Begin without actions; they may refer to blocks that come later."""
        self.number = number
        self.actions: tuple[Do, ...] = ()
        self.then = then
        self.stays = stays
        """Whether the step waits for other words when the block ends without going anywhere."""


class Halt:
    """What an action gives when the turn stops there; it is done again when the session goes on."""

    __slots__ = ()


AGAIN = Halt()
_MOST_NAMES = 4_096
"""Names whose kind an agent keeps in mind; a tool may make up ever new ones."""

Signal = Leap | Block | tuple[Block, ...] | Halt | None
Do = Callable[[Work], Signal]
"""A compiled action: it does its work, and says where to go when that is not the next action."""


Put = Callable[[Work, Any], None]
"""Give a path a value, wherever it is kept."""


class BranchPlan(msgspec.Struct, frozen=True):
    """A block under a condition; without one it is always taken."""

    condition: Expression | None
    block: Block
    text: str = ""


def choose(branches: tuple[BranchPlan, ...], work: Work) -> BranchPlan | None:
    """Return the first branch whose condition holds."""
    for branch in branches:
        if branch.condition is None or work.test(branch.condition):
            return branch
    return None


class FieldPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A value to collect: what it looks like, how to ask for it, what it must fulfil."""

    name: str
    wanted: Wanted
    wanted_when_asked: Wanted
    required: bool = True
    prompt: CompiledTemplate | None = None
    default: Expression | None = None
    validation: Expression | None = None
    rules: Mapping[str, Any] = {}
    depends_on: tuple[str, ...] = ()
    active_when: Expression | None = None
    asks: bool = True
    infer: bool = False
    description: str = ""


class InterruptionPlan(msgspec.Struct, frozen=True):
    """An intent that is answered beside the step."""

    label: str
    intent: Intent
    condition: Expression | None
    block: Block
    resume: bool
    goto: Leap | None
    responds: bool
    clears: bool


class ErrorPlan(msgspec.Struct, frozen=True):
    """What follows an error of one type."""

    type: str
    subtypes: tuple[str, ...]
    block: Block
    retry: int = 0
    delay: float = 0.0
    backoff: str = "fixed"
    longest: float = 30.0
    then: Leap | None = None
    back_to: str = ""


class StepPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A step, compiled."""

    name: str
    when: Expression | None
    block: Block
    on_input: tuple[BranchPlan, ...]
    sub_intents: tuple[InterruptionPlan, ...]
    digressions: tuple[InterruptionPlan, ...]
    on_error: tuple[ErrorPlan, ...]
    then: tuple[BranchPlan, ...]
    max_attempts: int | None = None
    on_exhausted: Leap | None = None


class FailurePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a broken rule does."""

    form: str
    respond: CompiledTemplate | None = None
    handoff: str = ""
    collect: tuple[str, ...] = ()
    goto: Leap | None = None
    retry: bool = False
    then: str | None = None


class RulePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A rule: when it is looked at, when it applies, and when it is broken."""

    number: int
    text: str
    condition: Expression
    forbids: bool
    """Whether the condition describes what must not be."""
    gate: Expression | None
    checkpoint: str
    """`turn`, `returning`, or `calling <tool>`."""
    warns: bool
    failure: FailurePlan | None


class TriggerPlan(msgspec.Struct, frozen=True):
    """A remember trigger."""

    id: str
    """By which a session keeps in mind what it stored: the same as long as what it stores is, wherever it stands."""
    when: Expression
    value: Expression
    target: Persistent
    below: tuple[str, ...]
    ttl: int | None
    text: str = ""


class RecallPlan(msgspec.Struct, frozen=True):
    """A recall instruction."""

    number: int
    on: str
    action: str
    instruction: CompiledTemplate | None
    paths: tuple[Persistent, ...]
    domain: str | None


class ContextPlan(msgspec.Struct, frozen=True):
    """What another agent is told."""

    values: tuple[str, ...] = ()
    summary: CompiledTemplate | None = None
    history: str = "auto"
    count: int | None = None
    grants: tuple[tuple[str, Access], ...] = ()
    set: tuple[tuple[str, Expression], ...] = ()


class HandoffPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Another agent takes over."""

    number: int
    to: str
    when: Expression | None
    priority: int
    context: ContextPlan
    returns: bool
    action: str | None = None
    handler: str | None = None
    map: tuple[tuple[str, Put], ...] = ()
    """What the other agent calls it, and the path that gets it here."""
    set: tuple[tuple[Put, Expression], ...] = ()
    on_failure: str = ""
    failure_message: CompiledTemplate | None = None
    by_words: bool = False
    """Whether its condition is about what the user just said, so that every message is looked at anew."""


class DelegatePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Another agent does a part of the work."""

    number: int
    agent: str
    when: Expression | None
    input: tuple[tuple[str, Expression], ...]
    returns: tuple[tuple[str, Put], ...]
    purpose: CompiledTemplate | None = None
    on_failure: str = ""
    failure_message: CompiledTemplate | None = None


class EscalationPlan(msgspec.Struct, frozen=True):
    """When a person is called."""

    when: Expression
    reason: CompiledTemplate | None
    priority: str | None
    tags: tuple[str, ...]


class CompletePlan(msgspec.Struct, frozen=True):
    """When the agent is done."""

    when: Expression
    respond: CompiledTemplate | None
    value: Expression | None
    target: Persistent | None
    below: tuple[str, ...] = ()


class HandlerPlan(msgspec.Struct, frozen=True):
    """Actions at a point of the session."""

    block: Block
    critical: bool = False
    resume_intent: bool = False


class Plan(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """An agent, compiled."""

    name: str
    digest: str
    source: str
    document: Document
    declarations: Declarations
    blocks: tuple[Block, ...]
    steps: Mapping[str, StepPlan]
    entry: str | None
    digressions: tuple[InterruptionPlan, ...]
    fields: Mapping[str, FieldPlan]
    """Every field that is collected somewhere, by name."""
    rules: Mapping[str, tuple[RulePlan, ...]]
    """By checkpoint, in the order of the file."""
    triggers: tuple[TriggerPlan, ...]
    recalls: Mapping[str, tuple[RecallPlan, ...]]
    handoffs: tuple[HandoffPlan, ...]
    delegates: tuple[DelegatePlan, ...]
    escalations: tuple[EscalationPlan, ...]
    context_for_human: tuple[str, ...]
    completes: tuple[CompletePlan, ...]
    on_start: HandlerPlan | None
    hooks: Mapping[str, HandlerPlan]
    return_handlers: Mapping[str, HandlerPlan]
    on_error: tuple[ErrorPlan, ...]
    messages: Mapping[str, CompiledTemplate]
    prose: Mapping[str, CompiledTemplate]
    """Goal, persona, instructions and what else the model is told."""
    traits: tuple[str, ...]
    """What else the model is told about the agent."""
    resets: Mapping[str, tuple[str, ...]]
    """Names of variables by when they begin anew."""
    guards: frozenset[str]
    """Variables that rules and checks look at."""

    @cached_property
    def interruptions(self) -> Mapping[str | None, tuple[InterruptionPlan, ...]]:
        """What may be answered beside each step, and beside none: its sub-intents, its digressions, those of all."""
        own = {name: (*step.sub_intents, *step.digressions, *self.digressions) for name, step in self.steps.items()}
        return {None: self.digressions, **own}

    @cached_property
    def asides(self) -> frozenset[int]:
        """The numbers of the blocks that answer an intent."""
        return frozenset(one.block.number for several in self.interruptions.values() for one in several)

    @cached_property
    def instructions(self) -> dict[int, str]:
        """What recall may tell the model and is always the same, by number."""
        plans = (plan for plans in self.recalls.values() for plan in plans)
        return {
            plan.number: plan.instruction.render({})
            for plan in plans
            if plan.instruction is not None and plan.instruction.is_constant
        }

    @cached_property
    def keeps(self) -> Mapping[str, bool]:
        """Whether a name is a variable of the session, for every name; those of the process and the runtime are not."""
        return _Kept(self)

    def may_infer(self, name: str) -> bool:
        """Say whether a model may set a variable: what guards the agent is set by its text alone.

        Words of the user can make a model call anything. So of the variables that a rule or a check looks at, it sets
        those that are collected from the user or declared as input.
        """
        slot = self.declarations.session.get(name)
        return name not in self.guards or name in self.fields or (slot is not None and slot.input)

    def is_system(self, name: str) -> bool:
        """Say whether a name is the runtime's, not a variable of the agent."""
        if name in self.declarations.session:
            return False
        return name in SYSTEM or name[:1] in ("_", "\0") or (name.startswith("last_") and name.endswith("_result"))


class _Kept(dict[str, bool]):
    """What an agent has found out about names; every turn asks for the same ones."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._plan = plan

    def __missing__(self, name: str) -> bool:
        if len(self) > _MOST_NAMES:
            self.clear()
        slot = self._plan.declarations.session.get(name)
        kept = self[name] = not self._plan.is_system(name) and (slot is None or slot.reset != "never")
        return kept
