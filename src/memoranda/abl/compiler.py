"""Compile a checked document to a `Plan`: programs, names and numbered blocks are resolved once."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, cast

import msgspec

import memoranda.abl.document as abl
from memoranda.abl.checker.outline import parts_of
from memoranda.abl.document import Document, Remember
from memoranda.abl.expression import compiler
from memoranda.abl.expression.compiler import Masked, evaluate
from memoranda.abl.keywords import TYPES, type_name
from memoranda.abl.lines import unquote
from memoranda.abl.programs import JUDGED, JUDGEMENTS, Programs, uses
from memoranda.abl.runtime.actions import (
    compile_call,
    compile_check,
    compile_clear,
    compile_log,
    compile_respond,
    compile_set,
    compile_target,
    compile_transform,
)
from memoranda.abl.runtime.active_turn import ActiveTurn
from memoranda.abl.runtime.coordination import compile_delegate
from memoranda.abl.runtime.gather import GatherAction
from memoranda.abl.runtime.plan import (
    Block,
    BranchPlan,
    CompletePlan,
    ContextPlan,
    DelegatePlan,
    Do,
    ErrorPlan,
    EscalationPlan,
    FailurePlan,
    FieldPlan,
    HandlerPlan,
    HandoffPlan,
    InterruptionPlan,
    ModelVariable,
    Plan,
    Put,
    RecallPlan,
    RulePlan,
    Signal,
    StepPlan,
    Transition,
    TriggerPlan,
    choose,
    may_infer,
)
from memoranda.abl.runtime.reasoning_step import ReasoningAction
from memoranda.abl.sections.actions import RANGE
from memoranda.abl.understanding.fields import FieldSpec, Intent
from memoranda.abl.variables import CATEGORY, SYSTEM, Declarations, Mask, Persistent, mask_of, show_fields
from memoranda.errors import SourceError
from memoranda.lang.document import Raw
from memoranda.lang.expression.compiler import Expression
from memoranda.lang.expression.dialect import Resolve
from memoranda.lang.expression.nodes import (
    Binary,
    Call,
    Constant,
    Index,
    ListOf,
    Logical,
    Matches,
    Name,
    Node,
    Path,
    children,
    path_of,
    paths_read,
)
from memoranda.lang.source import digest_of
from memoranda.lang.template import CompiledTemplate, Template
from memoranda.model.clock import parse_duration


class Compiler:
    """Compiles the parts of a document, with its programs, names and numbered blocks."""

    def __init__(self, document: Document, programs: Programs) -> None:
        """Start with a document without errors."""
        self.document = document
        self.programs = programs
        self._resolve: Resolve | None = None
        self.declarations = Declarations(document, self.expression)
        self._resolve = self.declarations.resolve
        self.masks = _masks(document)
        self.blocks: list[Block] = []
        self._steps = {step.name.text for step in document.flow.steps} if document.flow else set[str]()
        self._templates = {one.name.text: one.text for one in document.templates if one.text is not None}
        self.fields: dict[str, FieldPlan] = {}
        self.guards: set[Path] = set()
        """What rules and checks read."""

    # programs

    def expression(self, raw: Raw) -> Expression:
        """Compile an expression or condition."""
        node = self.programs.node(raw)
        assert node is not None, raw.text
        return compiler.expression(node, resolve=self._resolve)

    def guard(self, raw: Raw) -> Expression:
        """Compile a condition that protects something, and record the variables that it reads."""
        compiled = self.expression(raw)
        self.guards.update(path for path, _ in paths_read(compiled.node))
        return compiled

    def template(self, raw: Raw) -> CompiledTemplate:
        """Compile a template, which shows sensitive values only in part."""
        node = self.programs.node(raw)
        assert isinstance(node, Template), raw.text
        if self.masks:
            node = _without_sensitive_values(node, self.masks)
        return compiler.template(node, resolve=self._resolve)

    def agent_template(self, raw: Raw) -> CompiledTemplate | None:
        """Compile one of the agent's templates by name."""
        text = self._templates.get(raw.text)
        return None if text is None else self.template(text)

    def inside(self, item: str) -> Compiler:
        """Return a compiler for programs in which a name means an item of an array."""
        other = object.__new__(Compiler)
        other.__dict__ = dict(self.__dict__)
        outer = self.declarations.resolve

        def resolve(path: Path) -> Any:
            return None if path[0] == item else outer(path)

        other._resolve = resolve
        return other

    def variables_read(self, *programs: Raw) -> frozenset[str] | None:
        """Return the variables on which programs depend; None if they depend on anything else.

        Facts, the clock, new ids and matched groups may change although no variable was set.
        """
        nodes = [node for raw in programs if (node := self.programs.node(raw)) is not None]
        paths = {path for node in nodes for path, _ in paths_read(node)}
        if any(path[0] in compiler.ABL.names or self.declarations.resolve(path) for path in paths):
            return None
        while nodes:
            here = nodes.pop()
            if isinstance(here, Matches) or (isinstance(here, Call) and compiler.ABL.functions[here.function].uses_run):
                return None
            nodes.extend(children(here))
        return frozenset(path[0] for path in paths)

    def optional(self, raw: Raw | None) -> Expression | None:
        """Compile a condition, if there is one that was parsed."""
        return None if raw is None or self.programs.node(raw) is None else self.expression(raw)

    def text(self, raw: Raw | None) -> CompiledTemplate | None:
        """Compile a template, if there is one."""
        return None if raw is None else self.template(raw)

    def pairs(self, arguments: Iterable[abl.Argument]) -> tuple[tuple[str, Expression], ...]:
        """Compile the values of arguments."""
        return tuple((argument.name.text, self.expression(argument.value)) for argument in arguments)

    # blocks

    def block(
        self,
        body: Iterable[abl.Action],
        then: abl.Target | None = None,
        *,
        stays: bool = False,
        extra: Do | None = None,
    ) -> Block:
        """Compile actions to a numbered block; the number is stable while the text is."""
        block = self.empty_block(self.transition(then) if then else None, stays=stays)
        actions = [self.action(node) for node in body]
        block.actions = (*actions, extra) if extra else tuple(actions)
        return block

    def empty_block(self, then: Transition | None = None, *, stays: bool = False) -> Block:
        """Return a block with the next number; its actions, which may contain blocks, are compiled afterwards."""
        block = Block(len(self.blocks), then, stays=stays)
        self.blocks.append(block)
        return block

    def branches(self, branches: Iterable[abl.Branch], *, stays: bool = False) -> tuple[BranchPlan, ...]:
        """Compile branches, of which the first that is true is taken."""
        return tuple(
            BranchPlan(
                self.expression(branch.condition) if branch.condition else None,
                self.block(branch.body, branch.then, stays=stays and branch.then is None),
                branch.condition.text if branch.condition else "",
            )
            for branch in branches
        )

    def transition(self, target: abl.Target) -> Transition:
        """Compile a transition; the exact name of a step takes precedence over a keyword."""
        name = target.name.text
        if name in self._steps:
            return Transition("step", name)
        reason = self.template(target.reason) if target.reason is not None else None
        return Transition(target.kind, name, reason)

    def action(self, node: abl.Action) -> Do:
        """Compile an action."""
        if isinstance(node, abl.Gather):
            return compile_gather(self, node)
        if isinstance(node, abl.Present):
            return compile_respond(self, abl.Respond(node.text, span=node.span), prompts=True)
        if isinstance(node, abl.Consult):
            return compile_delegate(node.agent.text)
        compile = cast("Callable[[Compiler, Any], Do]", _ACTIONS[type(node)])
        return compile(self, node)


_ACTIONS: dict[type[Any], Any] = {
    abl.Set: compile_set,
    abl.Clear: compile_clear,
    abl.Transform: compile_transform,
    abl.Call: compile_call,
    abl.Check: compile_check,
    abl.Respond: compile_respond,
    abl.Log: compile_log,
}


def _masks(document: Document) -> dict[Path, Mask]:
    """Return what is shown of each sensitive field and path."""
    memory = document.memory
    found = {
        tuple(fact.path.text.split(".")): mask_of(fact.path.text, fact.display, fact.mask)
        for fact in (memory.persistent if memory else ())
        if fact.sensitive
    }
    for part, _ in parts_of(document):
        if isinstance(part, abl.Field) and part.sensitive:
            found[(part.name.text,)] = mask_of(part.name.text, part.display, part.mask)
    return found


def _without_sensitive_values(node: Template, masks: Mapping[Path, Mask]) -> Template:
    return msgspec.structs.replace(node, parts=tuple(_hide(part, masks) for part in node.parts))


def _hide(node: Node, masks: Mapping[Path, Mask]) -> Node:
    """Return a part of a template with masks around sensitive paths; conditions see the values themselves."""
    if isinstance(node, Template):
        return _without_sensitive_values(node, masks)
    path = path_of(node)
    if path is not None:
        mask = next((masks[path[:end]] for end in range(len(path), 0, -1) if path[:end] in masks), None)
        if mask is not None:
            return Masked(node.span, node, mask.show)
        below = {deep[len(path) :]: mask for deep, mask in masks.items() if deep[: len(path)] == path}
        return Masked(node.span, node, partial(show_fields, masks=below)) if below else node
    changed: dict[str, Any] = {}
    for name in node.__struct_fields__:
        value: Any = getattr(node, name)
        if isinstance(value, Node) and name != "test":
            changed[name] = _hide(value, masks)
        elif type(value) is tuple and value and all(isinstance(item, Node) for item in cast("tuple[Any, ...]", value)):
            changed[name] = tuple(_hide(item, masks) for item in cast("tuple[Node, ...]", value))
    return msgspec.structs.replace(node, **changed) if changed else node


DIGEST = 16
"""Length of the digest by which a session refers to its agents."""


def compile_agent(document: Document, programs: Programs, source: str) -> Plan:
    """Compile a document without errors."""
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
        delegates=tuple(compile_delegate_plan(to, number, node) for number, node in enumerate(document.delegates)),
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
        on_start=_handler(to, _calls_first(document.on_start)) if document.on_start else None,
        hooks={node.name.text.casefold(): _handler(to, node) for node in document.hooks},
        return_handlers={node.name.text: _handler(to, node) for node in document.return_handlers},
        on_error=compile_errors(to, document.on_error),
        messages={one.name.text: to.template(one.value) for one in document.messages},
        prose=_prose(to),
        traits=_traits(document),
        resets=_resets(to),
        blocks=tuple(to.blocks),
        guards=frozenset(to.guards),
        model_variables=_model_variables(to),
        categories=_categories(to),
        sentences=_sentences(document, programs),
        masks={path[0]: mask for path, mask in to.masks.items() if len(path) == 1},
    )


def _conditions(to: Compiler) -> Iterable[Raw]:
    """Yield the conditions by which an agent hands over, delegates, escalates, ends, or leaves a reasoning step."""
    document = to.document
    whens = [one.when for one in (*document.handoffs, *document.delegates, *document.completes)]
    whens += [one.when for one in document.escalate.triggers] if document.escalate else []
    whens += [step.exit_when for step in document.flow.steps] if document.flow else []
    yield from (when for when in whens if when is not None and to.programs.node(when) is not None)


def _paths_of(to: Compiler, raw: Raw) -> set[Path]:
    node = to.programs.node(raw)
    return {path for path, _ in paths_read(node)} if node is not None else set()


def _model_variables(to: Compiler) -> tuple[ModelVariable, ...]:
    """Return what a model may set: declared variables and facts, fields, and what triggers and conditions wait for."""
    memory = to.document.memory or abl.Memory(span=to.document.span)
    declared = {one.name.text: one for one in memory.session}
    remembered: dict[str, list[str]] = {}
    for trigger in memory.remember:
        for name in {path[0] for path in _paths_of(to, trigger.when) | _paths_of(to, trigger.value)}:
            remembered.setdefault(name, []).append(trigger.target.text)
    awaited = [path[0] for raw in _conditions(to) for path in sorted(_paths_of(to, raw))]
    found: dict[str, ModelVariable] = {}
    for name in dict.fromkeys((*declared, *to.fields, *remembered, *awaited)):
        slot, field = declared.get(name), to.fields.get(name)
        if slot is None and field is None and (name in SYSTEM or name in abl.PREFIXES or name.startswith("_")):
            continue
        if may_infer((name,), to.guards, to.declarations, to.fields):
            found[name] = ModelVariable(
                path=name,
                type=(slot.type if slot else None) or (field.wanted.type if field else None),
                description=slot.description.text if slot and slot.description else field.description if field else "",
                options=field.wanted.options if field else (),
                remembered=tuple(remembered.get(name, ())),
            )
    for variable in memory.persistent:
        path, fact = variable.path.text, to.declarations.persistent[variable.path.text]
        if fact.access != "read" and may_infer(tuple(path.split(".")), to.guards, to.declarations, to.fields):
            about = variable.description.text if variable.description else ""
            found[path] = ModelVariable(path=path, type=fact.type, description=about, fact=fact)
    categories = _categories(to)
    if categories:
        found[CATEGORY] = ModelVariable(path=CATEGORY, description="What the user wants", options=categories)
    return tuple(found.values())


def _categories(to: Compiler) -> tuple[str, ...]:
    """Return the texts with which conditions compare `intent.category`."""
    found: list[str] = []
    waiting = [node for raw in _conditions(to) if (node := to.programs.node(raw)) is not None]
    while waiting:
        here = waiting.pop()
        waiting.extend(children(here))
        if isinstance(here, Binary) and path_of(here.left) == ("intent", "category"):
            constants = [here.right, *children(here.right)]
            found += [one.value for one in constants if isinstance(one, Constant) and isinstance(one.value, str)]
    return tuple(dict.fromkeys(reversed(found)))


def _sentences(document: Document, programs: Programs) -> tuple[str, ...]:
    nodes = (programs.node(use.raw) for use in uses(document) if use.place in JUDGED)
    found = [node.at.value for node in nodes if isinstance(node, Index) and isinstance(node.at, Constant)]
    return tuple(dict.fromkeys(str(text) for text in found))


def _calls_first(node: abl.Handler) -> abl.Handler:
    """Move responses after the calls, whose results they may use."""
    body = node.body
    after = 1 + max((place for place, action in enumerate(body) if isinstance(action, abl.Call)), default=-1)
    if any(isinstance(action, abl.Gather) for action in body[:after]):
        return node
    done = [action for action in body[:after] if not isinstance(action, abl.Respond)]
    said = [action for action in body[:after] if isinstance(action, abl.Respond)]
    return msgspec.structs.replace(node, body=(*done, *said, *body[after:]))


def _handler(to: Compiler, node: abl.Handler) -> HandlerPlan:
    branches = to.branches(node.branches)

    def run_branches(turn: ActiveTurn) -> Signal:
        branch = choose(branches, turn)
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
    """Return expertise and limitations as sentences for the model."""
    identity = document.identity
    limits = (*document.limitations, *(identity.limitations if identity else ()))
    known = identity.expertise if identity else ()
    return (*(f"You know about: {raw.text}" for raw in known), *(f"You cannot: {raw.text}" for raw in limits))


MAIN = ""
"""The name of the only step of an agent without a flow."""


def compile_step(to: Compiler, node: abl.Step) -> StepPlan:
    """Compile a step."""
    body = node.body
    has_gather = any(isinstance(action, abl.Gather) for action in body)
    block = to.empty_block()
    actions: list[Do] = []
    # What a step says before it waits for the user is a question, not a result.
    prompts = has_gather or bool(node.on_input or node.on_action)
    for action in body:
        prompts = prompts and not isinstance(action, abl.Call)
        if isinstance(action, abl.Gather):
            actions.append(compile_gather(to, action, node))
        elif isinstance(action, abl.Respond):
            actions.append(compile_respond(to, action, prompts=prompts))
        # PRESENT is shown before the question of GATHER, wherever it is written.
        elif not (has_gather and isinstance(action, abl.Present)):
            actions.append(to.action(action))
    if node.reasoning:
        actions.append(_reasoning(to, node))
    block.actions = tuple(actions)
    return StepPlan(
        name=node.name.text,
        when=to.optional(node.when),
        block=block,
        on_input=(*_compile_choices(to, node), *to.branches(node.on_input, stays=True)),
        sub_intents=compile_interruptions(to, node.sub_intents),
        digressions=compile_interruptions(to, node.digressions),
        on_error=compile_errors(to, node.on_error),
        then=to.branches(node.then),
        fields=_fields_of_actions(actions),
        max_attempts=node.max_attempts,
        on_exhausted=to.transition(node.on_exhausted) if node.on_exhausted else None,
    )


def _compile_choices(to: Compiler, node: abl.Step) -> tuple[BranchPlan, ...]:
    """Compile `ON_ACTION` to branches that are taken when the user says the id, the value or the label of a choice."""
    shown = [choice for action in node.body if isinstance(action, abl.Respond) for choice in action.choices]
    branches: list[BranchPlan] = []
    for handler in node.on_action:
        id = handler.action.text
        words = {id, *(word for choice in shown if choice.id and choice.id.text == id for word in _words(choice))}
        listed = ListOf(handler.span, tuple(Constant(handler.span, word.casefold()) for word in sorted(words)))
        said = Call(handler.span, "LOWER", (Call(handler.span, "TRIM", (Name(handler.span, "input"),)),))
        condition: Node = Binary(handler.span, "in", said, listed)
        further = to.programs.node(handler.condition) if handler.condition else None
        if further is not None:
            condition = Logical(handler.span, "and", (condition, further))
        block = to.block(handler.body, handler.then, stays=handler.then is None)
        branches.append(BranchPlan(compiler.expression(condition, resolve=to.declarations.resolve), block, id))
    return tuple(branches)


def _words(choice: abl.Choice) -> Iterable[str]:
    return (raw.text for raw in (choice.value, choice.label) if raw is not None)


def _reasoning(to: Compiler, node: abl.Step) -> ReasoningAction:
    # With a goal of its own, the instructions of the step are rules for it.
    rules = (*node.step_constraints, *((node.instructions,) if node.goal and node.instructions else ()))
    return ReasoningAction(
        goal=to.text(node.goal or node.instructions),
        tools=tuple(tool.text for tool in node.available_tools) or None,
        exit_when=to.optional(node.exit_when),
        max_turns=node.max_turns or 10,
        constraints=tuple(to.template(rule) for rule in rules),
    )


def main_step(to: Compiler) -> StepPlan:
    """Return the only step of an agent without a flow: gather, then let the model reply, if there is one."""
    gather = to.document.gather
    block = to.empty_block()
    speaking = ReasoningAction(
        goal=None,
        tools=None,
        exit_when=None,
        max_turns=1_000,
        constraints=(),
        optional=True,
        gathers=gather is not None,
    )
    actions = (compile_gather(to, gather), speaking) if gather else (speaking,)
    block.actions = actions
    return StepPlan(
        name=MAIN,
        when=None,
        block=block,
        on_input=(),
        sub_intents=(),
        digressions=(),
        on_error=(),
        then=(),
        fields=_fields_of_actions(actions),
    )


def _fields_of_actions(actions: Iterable[Do]) -> tuple[FieldPlan, ...]:
    return tuple(field for action in actions if isinstance(action, GatherAction) for field in action.fields)


def compile_interruptions(to: Compiler, nodes: Iterable[abl.Interruption]) -> tuple[InterruptionPlan, ...]:
    """Compile sub-intents or digressions."""
    return tuple(
        InterruptionPlan(
            node.intent.text,
            Intent(node.intent.text, tuple(word.text for word in node.keywords)),
            to.optional(node.condition),
            to.block(node.body, node.goto),
            node.resume,
            to.transition(node.goto) if node.goto else None,
            any(isinstance(action, abl.Respond) for action in node.body),
            any(isinstance(action, abl.Clear) for action in node.body),
        )
        for node in nodes
    )


def compile_errors(to: Compiler, nodes: Iterable[abl.ErrorHandler]) -> tuple[ErrorPlan, ...]:
    """Compile error handlers."""
    return tuple(
        ErrorPlan(
            node.type.text.casefold(),
            tuple(subtype.text for subtype in node.subtypes),
            to.block(node.body),
            node.retry,
            (node.retry_delay or 0) / 1_000,
            node.retry_backoff or "fixed",
            (node.retry_max_delay or 30_000) / 1_000,
            to.transition(node.then) if node.then else None,
            node.backtrack_to.text if node.backtrack_to else "",
        )
        for node in nodes
    )


def compile_gather(to: Compiler, node: abl.Gather, step: abl.Step | None = None) -> GatherAction:
    """Compile `GATHER`; in a step with its `COMPLETE_WHEN`, `CORRECTIONS` and `PRESENT`."""
    presents = [action.text for action in step.body if isinstance(action, abl.Present)] if step else []
    return GatherAction(
        tuple(compile_field(to, field) for field in node.fields),
        complete_when=to.optional(step.complete_when) if step else None,
        corrections=bool(step and step.corrections),
        presents=tuple(to.template(text) for text in presents),
        strategy=node.strategy or "llm",
    )


def compile_field(to: Compiler, node: abl.Field) -> FieldPlan:
    """Compile a field: how to find it in the user's words, how to ask for it, and its validation."""
    name = node.name.text
    slot = to.declarations.session.get(name)
    rules = _field_rules(node)
    options = tuple(option.text for option in node.options)
    listed = rules.get("enum")
    if not options and listed:
        listed = [option.strip() for option in listed.split(",")] if isinstance(listed, str) else listed
        options = tuple(str(option) for option in listed)
    kind = _type(node.type.text) if node.type else slot.type if slot else None
    wanted = FieldSpec(
        name=name,
        type=kind,
        options=options,
        hints=tuple(hint.text for hint in node.hints),
        range=node.range,
        list=node.list or (kind == "array"),
    )
    active = node.activation.text.casefold() if node.activation else ""
    field = FieldPlan(
        name=name,
        wanted=wanted,
        wanted_when_asked=msgspec.structs.replace(wanted, asked=True),
        required=node.required and active != "optional",
        prompt=to.text(node.prompt),
        default=to.optional(node.default),
        validation=to.optional(node.validation),
        sentence=_sentence(to, node.validation),
        rules=rules,
        retry_prompt=to.text(node.retry_prompt),
        depends_on=tuple(other.text for other in node.depends_on),
        active_when=to.optional(node.active_when),
        asks=node.prompt_mode == "ask",
        infer=node.infer,
        description=" ".join(raw.text for raw in (*((node.description,) if node.description else ()), *node.hints)),
    )
    to.fields.setdefault(name, field)
    return field


def _sentence(to: Compiler, raw: Raw | None) -> str:
    """Return a validation that is not an expression, for the model."""
    return raw.text if raw is not None and to.programs.node(raw) is None else ""


def _field_rules(node: abl.Field) -> dict[str, Any]:
    rules: dict[str, Any] = {}
    for argument in node.validate:
        name, value = argument.name.text.casefold(), _literal(argument.value) if argument.value.text else True
        bounds = RANGE.fullmatch(argument.value.text.strip("[]\"' ")) if name == "range" else None
        if bounds:
            rules |= {"min": float(bounds[1]), "max": float(bounds[2])}
        else:
            rules[name] = value
    if node.pattern is not None:
        rules["pattern"] = node.pattern.text
    return rules


def _type(written: str) -> str:
    """Return a known type in lower case; a list of values (`Economy|Business`) stays as written."""
    return written.casefold() if type_name(written) else written


def add_collect_field(to: Compiler, name: str, compared: str | None) -> None:
    """Add a field for a value that a rule collects, unless there is one."""
    slot = to.declarations.session.get(name)
    if name not in to.fields:
        wanted = FieldSpec(name=name, type=slot.type if slot and slot.type else compared)
        to.fields[name] = FieldPlan(
            name=name, wanted=wanted, wanted_when_asked=msgspec.structs.replace(wanted, asked=True)
        )


def _literal(raw: Raw) -> Any:
    """Return the value of a validation rule; anything but an expression is text."""
    text = unquote(raw)
    if text is not raw:
        return text.text
    try:
        value = evaluate(raw.text, {})
    except SourceError:
        return raw.text
    return raw.text if value is None else value


def compile_triggers(to: Compiler) -> tuple[TriggerPlan, ...]:
    """Compile the remember triggers, in file order."""
    memory = to.document.memory
    seen: Counter[str] = Counter()
    return tuple(
        TriggerPlan(
            number,
            _identity(node, seen),
            to.expression(node.when),
            to.expression(node.value),
            *_target(to, node.target.text),
            parse_duration(node.ttl.text) if node.ttl else None,
            node.when.text,
            to.variables_read(node.when, node.value),
        )
        for number, node in enumerate(memory.remember if memory else ())
    )


def _identity(node: Remember, seen: Counter[str]) -> str:
    """Return an id of a trigger that survives edits around it: a hash of what it stores, and where."""
    stored = f"{node.value.text} -> {node.target.text}"
    seen[stored] += 1
    return hashlib.blake2b(f"{seen[stored]} {stored}".encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def compile_recalls(to: Compiler) -> dict[str, tuple[RecallPlan, ...]]:
    """Compile the recall instructions, by event."""
    by_event: dict[str, list[RecallPlan]] = {}
    memory = to.document.memory
    for number, node in enumerate(memory.recall if memory else ()):
        plan = RecallPlan(
            number,
            node.on.text,
            node.does or "load_memory",
            to.text(node.instruction),
            tuple(_target(to, path.text)[0] for path in node.paths),
            node.domain.text if node.domain else None,
        )
        by_event.setdefault(node.on.text, []).append(plan)
    return {event: tuple(plans) for event, plans in by_event.items()}


def _target(to: Compiler, path: str) -> tuple[Persistent, tuple[str, ...]]:
    found = to.declarations.find(path)
    assert found is not None, path
    return found


def compile_rules(to: Compiler) -> tuple[RulePlan, ...]:
    """Compile the rules that have an effect, in file order."""
    rules = (rule for phase in to.document.constraints for rule in phase.rules)
    effective = [rule for rule in rules if rule.before is None or rule.before.kind != "other"]
    return tuple(_rule(to, rule, number) for number, rule in enumerate(effective))


def _rule(to: Compiler, node: abl.Rule, number: int) -> RulePlan:
    checkpoint = ""
    if node.before is not None:
        checkpoint = f"calling {node.before.target.text}" if node.before.kind == "calling" else "results"
    condition = to.guard(node.condition)
    gate = None if node.when is None or to.programs.node(node.when) is None else to.guard(node.when)
    read = [paths_read(one.node) for one in (condition, gate) if one is not None]
    paths = frozenset(path for several in read for path, _ in several)
    return RulePlan(
        number=number,
        text=f"{node.keyword} {node.condition.text}",
        condition=condition,
        forbids=node.keyword == "RESTRICT",
        gate=gate,
        checkpoint=checkpoint,
        warns=node.severity == "warning",
        failure=_failure(to, node.on_fail, node.condition) if node.on_fail else None,
        paths=paths,
        inputs=frozenset(path[0] for path in paths),
        settles=to.variables_read(node.condition, *((node.when,) if gate is not None and node.when else ()))
        is not None,
    )


def _failure(to: Compiler, node: abl.OnFail, condition: Raw) -> FailurePlan:
    kinds = _types_by_comparison(to.programs.node(condition))
    for name in node.collect:
        add_collect_field(to, name.text, kinds.get(name.text))
    return FailurePlan(
        form=node.form,
        respond=to.text(node.respond),
        handoff=node.handoff.text if node.handoff else "",
        collect=tuple(name.text for name in node.collect),
        goto=Transition("step", node.goto.text) if node.goto else None,
        retry=node.retry,
        then=node.then,
        reason=to.text(node.reason),
    )


def _types_by_comparison(node: Node | None) -> dict[str, str]:
    """Return the types of variables that a condition compares with constants: `reviewed == true` is a boolean."""
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


def compile_handoff(to: Compiler, number: int, node: abl.Handoff) -> HandoffPlan:
    """Compile a handoff, its context, and what follows its return."""
    back = node.on_return
    failure, message = _on_failure(to, node.on_failure)
    return HandoffPlan(
        number=number,
        to=node.to.text,
        when=to.optional(node.when),
        condition=node.when.text if node.when else "",
        priority=node.priority if node.priority is not None else 100,
        context=_context(to, node.context),
        returns=node.returns or back is not None,
        action=back.action if back else None,
        handler=back.handler.text if back and back.handler else None,
        instruction=_instruction(to, back),
        map=_targets(to, back.map) if back else (),
        set=tuple((compile_target(to, name), value) for name, value in to.pairs(back.set)) if back else (),
        on_failure=failure,
        failure_message=message,
        by_words=_is_about_words(to, node.when),
        model_decides=_model_decides(to, node.when),
    )


def _instruction(to: Compiler, back: abl.OnReturn | None) -> str:
    """Return what a model is told after a return: a text of `ON_RETURN` that names no handler."""
    handler = back.handler if back else None
    known = {one.name.text for one in to.document.return_handlers}
    return handler.text if handler is not None and handler.text not in known else ""


def _is_about_words(to: Compiler, when: Raw | None) -> bool:
    node = to.programs.node(when) if when is not None else None
    return node is not None and any(path[0] in ("input", "intent") for path, _ in paths_read(node))


def _model_decides(to: Compiler, when: Raw | None) -> bool:
    """Say whether a condition is about nothing but what the user wants."""
    node = to.programs.node(when) if when is not None else None
    return node is not None and all(path[0] in ("input", "intent", JUDGEMENTS) for path, _ in paths_read(node))


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
    """Return what follows a failure, and its message."""
    if raw is None:
        return "", None
    word = raw.text.partition(" ")[0].casefold()
    if word in ("continue", "escalate", "retry") and not raw.literal:
        return word, None
    return "respond", None if raw.text.casefold() == "respond" else to.template(raw)


def compile_delegate_plan(to: Compiler, number: int, node: abl.Delegate) -> DelegatePlan:
    """Compile a delegation."""
    failure, message = _on_failure(to, node.on_failure)
    if node.failure_message is not None:
        failure, message = failure or "respond", to.template(node.failure_message)
    return DelegatePlan(
        number=number,
        agent=node.agent.text,
        when=to.optional(node.when),
        condition=node.when.text if node.when else "",
        model_decides=_model_decides(to, node.when),
        input=to.pairs(node.input),
        returns=_targets(to, node.returns),
        purpose=to.text(node.purpose),
        on_failure=failure,
        failure_message=message,
        retries=node.retries,
        seconds=parse_duration(node.timeout.text) if node.timeout else None,
        use_result=to.text(node.use_result),
    )


def compile_complete(to: Compiler, node: abl.Complete) -> CompletePlan:
    """Compile a completion: its condition, its response, and what it stores."""
    if node.store_value is None:
        return CompletePlan(to.expression(node.when), to.text(node.respond), None, None)
    target = node.store_target or node.store_value
    found = to.declarations.find(target.text) or (_undeclared_variable(target.text), ())
    return CompletePlan(to.expression(node.when), to.text(node.respond), to.expression(node.store_value), *found)


def _targets(to: Compiler, arguments: Iterable[abl.Argument]) -> tuple[tuple[str, Put], ...]:
    """Return the names of values in the other agent, and their targets here; `score: number` keeps its name."""
    found: list[tuple[str, Put]] = []
    for argument in arguments:
        name, target = argument.name.text, unquote(argument.value).text
        found.append((name, compile_target(to, name if target.casefold() in TYPES else target)))
    return tuple(found)


def _undeclared_variable(name: str) -> Persistent:
    return Persistent(name, "user", name, declared=False)
