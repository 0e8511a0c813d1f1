"""A compiled agent: the immutable plan that the compiler makes and the runtime follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Literal

import msgspec

from memoranda.abl.document import Access, Document
from memoranda.abl.runtime.active_turn import ActiveTurn
from memoranda.abl.understanding.fields import FieldSpec, Intent
from memoranda.abl.variables import SYSTEM, Declarations, Mask, Persistent
from memoranda.lang.expression.compiler import Expression
from memoranda.lang.expression.nodes import Path
from memoranda.lang.template import CompiledTemplate
from memoranda.runs.provenance import Provenance


class Transition(msgspec.Struct, frozen=True):
    """Where to go next: a step, the end, a person, another agent, or on, again or back."""

    kind: Literal["step", "complete", "escalate", "handoff", "continue", "retry", "backtrack"]
    name: str = ""
    reason: CompiledTemplate | None = None


class Block:
    """A sequence of actions, and what follows the last of them."""

    __slots__ = ("actions", "number", "stays", "then")

    def __init__(self, number: int, then: Transition | None, *, stays: bool) -> None:
        """Create a block without actions, since they may refer to blocks that are compiled later."""
        self.number = number
        self.actions: tuple[Do, ...] = ()
        self.then = then
        self.stays = stays
        """Whether the step waits for other words when the block ends without going anywhere."""


class Halt:
    """Returned by an action that pauses the turn; the action runs again when the session continues."""

    __slots__ = ()


AGAIN = Halt()
_MOST_NAMES = 4_096
"""Maximum number of cached names; a tool may return ever new ones."""

Signal = Transition | Block | tuple[Block, ...] | Halt | None
Do = Callable[[ActiveTurn], Signal]
"""A compiled action; it returns where to go, or None for the next action."""


Put = Callable[[ActiveTurn, Any, Provenance], None]
"""Set the value of a path, whether it is a fact or a variable."""


class BranchPlan(msgspec.Struct, frozen=True):
    """A block with a condition; without one it is always taken."""

    condition: Expression | None
    block: Block
    text: str = ""


def choose(branches: tuple[BranchPlan, ...], turn: ActiveTurn) -> BranchPlan | None:
    """Return the first branch whose condition holds."""
    for branch in branches:
        if branch.condition is None or turn.test(branch.condition):
            return branch
    return None


class FieldPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A field to collect: how to find its value, how to ask for it, and how to validate it."""

    name: str
    wanted: FieldSpec
    wanted_when_asked: FieldSpec
    required: bool = True
    prompt: CompiledTemplate | None = None
    default: Expression | None = None
    validation: Expression | None = None
    sentence: str = ""
    """A validation that only a model can judge."""
    rules: Mapping[str, Any] = {}
    retry_prompt: CompiledTemplate | None = None
    """What is said about an invalid value, instead of why it is invalid."""
    depends_on: tuple[str, ...] = ()
    active_when: Expression | None = None
    asks: bool = True
    infer: bool = False
    description: str = ""

    def __post_init__(self) -> None:
        """Compute how to look for the field at load, so that no turn has to."""
        _ = self.wanted.profile, self.wanted_when_asked.profile

    @property
    def takes_any_text(self) -> bool:
        """Whether any text can be its value."""
        return self.wanted.type in (None, "string") and not self.wanted.options and not self.wanted.list

    def question(self, turn: ActiveTurn) -> str:
        """Return the question that asks for the field: its prompt, or a default."""
        if self.prompt is not None:
            return turn.render(self.prompt)
        words = self.name.replace("_", " ")
        if self.wanted.options:
            return f"What is the {words}? ({', '.join(self.wanted.options)})"
        if self.wanted.type == "boolean":
            return f"{words.capitalize()}: yes or no?"
        plural = words.endswith("s") and not words.endswith(("ss", "us", "is"))
        if plural and self.wanted.type in ("number", "integer"):
            return f"How many {words}?"
        return f"What {'are' if plural else 'is'} the {words}?"


class InterruptionPlan(msgspec.Struct, frozen=True):
    """A sub-intent or digression: an intent that is answered outside the steps."""

    label: str
    intent: Intent
    condition: Expression | None
    block: Block
    resume: bool
    goto: Transition | None
    responds: bool
    clears: bool


class ErrorPlan(msgspec.Struct, frozen=True):
    """How errors of one type are handled."""

    type: str
    subtypes: tuple[str, ...]
    block: Block
    retry: int = 0
    delay: float = 0.0
    backoff: str = "fixed"
    longest: float = 30.0
    then: Transition | None = None
    back_to: str = ""


class StepPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A compiled step."""

    name: str
    when: Expression | None
    block: Block
    on_input: tuple[BranchPlan, ...]
    sub_intents: tuple[InterruptionPlan, ...]
    digressions: tuple[InterruptionPlan, ...]
    on_error: tuple[ErrorPlan, ...]
    then: tuple[BranchPlan, ...]
    fields: tuple[FieldPlan, ...] = ()
    """The fields that its actions gather."""
    max_attempts: int | None = None
    on_exhausted: Transition | None = None


class FailurePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What happens when a rule is broken."""

    form: str
    respond: CompiledTemplate | None = None
    reason: CompiledTemplate | None = None
    """Why it escalates; the text of the rule by default."""
    handoff: str = ""
    collect: tuple[str, ...] = ()
    goto: Transition | None = None
    retry: bool = False
    then: str | None = None


class RulePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A rule: when it is checked, when it applies, and when it is broken."""

    number: int
    text: str
    condition: Expression
    forbids: bool
    """Whether the rule is broken when its condition is true."""
    gate: Expression | None
    checkpoint: str
    """`calling <tool>`, `results`, or empty for a rule without `BEFORE`."""
    warns: bool
    failure: FailurePlan | None
    paths: frozenset[Path]
    """What it reads."""
    inputs: frozenset[str]
    """The variables that it reads: the first segments of its paths."""
    settles: bool
    """Whether it depends on these variables alone, so that it stays true until one of them changes."""


class ModelVariable(msgspec.Struct, frozen=True, kw_only=True):
    """A variable that a model may set: what it is for, and which values it may have."""

    path: str
    type: str | None = None
    description: str = ""
    options: tuple[str, ...] = ()
    remembered: tuple[str, ...] = ()
    """The persistent paths where triggers store it."""
    fact: Persistent | None = None
    """The persistent variable; None for one of the session."""


class TriggerPlan(msgspec.Struct, frozen=True):
    """A remember trigger."""

    number: int
    """Its position in the file."""
    id: str
    """Identifies the trigger in the state of a session; depends on what is stored, not on its position in the file."""
    when: Expression
    value: Expression
    target: Persistent
    below: tuple[str, ...]
    ttl: int | None
    text: str
    inputs: frozenset[str] | None
    """The variables on which its condition and its value depend; None if they depend on anything else."""


class RecallPlan(msgspec.Struct, frozen=True):
    """A recall instruction."""

    number: int
    on: str
    action: str
    instruction: CompiledTemplate | None
    paths: tuple[Persistent, ...]
    domain: str | None


class ContextPlan(msgspec.Struct, frozen=True):
    """What another agent is given."""

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
    condition: str
    """The text of `WHEN`, for a model."""
    priority: int
    context: ContextPlan
    returns: bool
    action: str | None = None
    handler: str | None = None
    instruction: str = ""
    """What a model is told when control has returned."""
    map: tuple[tuple[str, Put], ...] = ()
    """The path in the other agent, and the path here that gets its value."""
    set: tuple[tuple[Put, Expression], ...] = ()
    on_failure: str = ""
    failure_message: CompiledTemplate | None = None
    by_words: bool = False
    """Whether its condition depends on the user's words, so that every message is checked again."""
    model_decides: bool = False
    """Whether its condition is only about what the user wants, which a model may judge."""


class DelegatePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Another agent does a part of the task."""

    number: int
    agent: str
    when: Expression | None
    condition: str = ""
    model_decides: bool = False
    input: tuple[tuple[str, Expression], ...]
    returns: tuple[tuple[str, Put], ...]
    purpose: CompiledTemplate | None = None
    on_failure: str = ""
    failure_message: CompiledTemplate | None = None
    retries: int = 1
    """How often to try again, if `on_failure` says so."""
    seconds: int | None = None
    """How long it may take."""
    use_result: CompiledTemplate | None = None
    """What the model is told to do with the result."""


class EscalationPlan(msgspec.Struct, frozen=True):
    """A condition that escalates to a person."""

    when: Expression
    reason: CompiledTemplate | None
    priority: str | None
    tags: tuple[str, ...]


class CompletePlan(msgspec.Struct, frozen=True):
    """A condition that ends the agent."""

    when: Expression
    respond: CompiledTemplate | None
    value: Expression | None
    target: Persistent | None
    below: tuple[str, ...] = ()


class HandlerPlan(msgspec.Struct, frozen=True):
    """Actions that run at a point of the session: a hook, ON_START or a return handler."""

    block: Block
    critical: bool = False
    resume_intent: bool = False


class Plan(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A compiled agent."""

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
    """All fields that are collected, by name."""
    rules: tuple[RulePlan, ...]
    """In the order of the file."""
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
    """Texts for the model: goal, persona, instructions and others, by label."""
    traits: tuple[str, ...]
    """Further sentences about the agent for the model."""
    resets: Mapping[str, tuple[str, ...]]
    """Names of variables by when they are reset."""
    guards: frozenset[Path]
    """What rules and checks read."""
    model_variables: tuple[ModelVariable, ...]
    """The variables that a model may set."""
    categories: tuple[str, ...]
    """The values with which conditions compare `intent.category`."""
    masks: Mapping[str, Mask] = {}
    """What is shown of sensitive fields, by name."""
    sentences: tuple[str, ...] = ()
    """Conditions in plain language, which a model judges."""

    @cached_property
    def interruptions(self) -> Mapping[str | None, tuple[InterruptionPlan, ...]]:
        """The intents that may interrupt each step, by its name; None for no step."""
        own = {name: (*step.sub_intents, *step.digressions, *self.digressions) for name, step in self.steps.items()}
        return {None: self.digressions, **own}

    @cached_property
    def rules_of_variable(self) -> Mapping[str, frozenset[int]]:
        """The numbers of the rules that read each variable, by its name."""
        names = {name for rule in self.rules for name in rule.inputs}
        return {name: frozenset(rule.number for rule in self.rules if name in rule.inputs) for name in names}

    @cached_property
    def triggers_of_variable(self) -> Mapping[str, frozenset[int]]:
        """The numbers of the triggers that read each variable, by its name, if they depend on variables alone."""
        names = frozenset[str]().union(*(one.inputs or () for one in self.triggers))
        return {name: frozenset(one.number for one in self.triggers if name in (one.inputs or ())) for name in names}

    @cached_property
    def names_read(self) -> frozenset[str]:
        """The variables that rules and triggers read."""
        return frozenset((*self.rules_of_variable, *self.triggers_of_variable))

    @cached_property
    def rule_numbers(self) -> frozenset[int]:
        """The numbers of all rules."""
        return frozenset(rule.number for rule in self.rules)

    @cached_property
    def checkpoints(self) -> frozenset[str]:
        """The checkpoints that have rules of their own."""
        return frozenset(rule.checkpoint for rule in self.rules if rule.checkpoint)

    @cached_property
    def _rules_by_checkpoint(self) -> dict[str, tuple[RulePlan, ...]]:
        return {}

    def rules_at(self, checkpoint: str) -> tuple[RulePlan, ...]:
        """Return the rules of a checkpoint: its own, and except for `results` those without one."""
        found = self._rules_by_checkpoint.get(checkpoint)
        if found is None:
            wanted = ("results",) if checkpoint == "results" else ("", checkpoint)
            found = tuple(rule for rule in self.rules if rule.checkpoint in wanted)
            self._rules_by_checkpoint[checkpoint] = found
        return found

    @cached_property
    def asides(self) -> frozenset[int]:
        """The numbers of the blocks that answer intents."""
        return frozenset(one.block.number for several in self.interruptions.values() for one in several)

    @cached_property
    def instructions(self) -> dict[int, str]:
        """The constant recall instructions for the model, by number."""
        plans = (plan for plans in self.recalls.values() for plan in plans)
        return {
            plan.number: plan.instruction.render({})
            for plan in plans
            if plan.instruction is not None and plan.instruction.is_constant
        }

    @cached_property
    def keeps(self) -> Mapping[str, bool]:
        """Whether a name is saved with the session; variables with `RESET: never` and names of the runtime are not."""
        return _SavedNames(self)

    def may_infer(self, path: Path) -> bool:
        """Say whether a model may set a variable or a fact.

        The user's words can make a model call any tool. So it must not set what a rule or a check reads, unless it is
        collected from the user or declared as input.
        """
        return may_infer(path, self.guards, self.declarations, self.fields)

    def is_system(self, name: str) -> bool:
        """Say whether a name belongs to the runtime and is not a variable of the agent."""
        if name in self.declarations.session:
            return False
        return name in SYSTEM or name[:1] in ("_", "\0") or (name.startswith("last_") and name.endswith("_result"))


def may_infer(path: Path, guards: Iterable[Path], declarations: Declarations, fields: Mapping[str, FieldPlan]) -> bool:
    """Say whether a model may set a path; see `Plan.may_infer`."""
    slot = declarations.session.get(path[0])
    if path[0] in fields or (slot is not None and slot.input):
        return True
    return not any(guard[: len(path)] == path[: len(guard)] for guard in guards)


class _SavedNames(dict[str, bool]):
    """A cache of whether names are saved; every turn asks for the same ones."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._plan = plan

    def __missing__(self, name: str) -> bool:
        if len(self) > _MOST_NAMES:
            self.clear()
        slot = self._plan.declarations.session.get(name)
        saved = self[name] = not self._plan.is_system(name) and (slot is None or slot.reset != "never")
        return saved
