"""Check a document: types, permissions, configuration, names, flows and tests. Every finding comes in one run.

The outline comes first: steps, names and expressions in the order they run, for all checks to share.

A machine that lacks a permission can still be run: the step is denied then, and the ledger says so. Hence a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, TypeAlias

import msgspec

from memoranda.errors import EvaluationFailed, InvalidScope, LimitExceeded, UsageError
from memoranda.lang.diagnostics import Diagnostic, Diagnostics, Suggestions, duration_hint, short_list
from memoranda.lang.document import Raw
from memoranda.lang.expression.nodes import UNKNOWN, Node, ObjectOf, Path, literal, paths_read
from memoranda.lang.source import Source, Span
from memoranda.mashin.contracts import CONSTRAINTS, constraint_value
from memoranda.mashin.document import (
    FAILS,
    Ask,
    Assumption,
    Block,
    Capability,
    Compute,
    Config,
    Decide,
    Document,
    Field,
    Flow,
    Guard,
    Mapping,
    NamedStep,
    Recall,
    Remember,
    Result,
    Retry,
    RunFlow,
    Test,
    Type,
    Verdict,
    WaitFor,
    flow_named,
    value_of,
)
from memoranda.mashin.expression.compiler import Programs, expression
from memoranda.mashin.expression.functions import GLOBALS, NAMESPACES
from memoranda.mashin.expression.operators import is_number, is_whole
from memoranda.mashin.keywords import (
    ASK,
    BACKOFFS,
    CAPABILITIES,
    GUARDS,
    OLDER_FORM,
    ON_VIOLATION,
    RECALL,
    REMEMBER,
    RETRY,
    TYPES,
    WAIT_FOR,
    Level,
)
from memoranda.mashin.parser import Reading, read
from memoranda.mashin.permissions import Need, Permissions, canonical_capabilities, needs_of, permissions
from memoranda.mashin.types import Violations, canonical, kind_of, read_shape
from memoranda.model.scope import Scope
from memoranda.model.text import quote

# the outline

FREE = "on failure"
"""The region of steps that run after a failure: any step may have run before."""
_KEY = re.compile(r"""(?<![\w"'])([\w"']++)\s*+:\s*$""")
_RESULTS: dict[type[NamedStep], frozenset[str]] = {
    Recall: frozenset({"results", "count"}),
    Remember: frozenset({"id", "collection", "namespace", "stored", "expires_at", "parts"}),
}


class StepOutline(msgspec.Struct, frozen=True):
    """A step, its place, and the fields of its value; None where only a run can tell."""

    part: NamedStep
    region: str
    after: int
    fields: frozenset[str] | None


class Use(msgspec.Struct, frozen=True):
    """An expression, the names that its step binds, and how many steps of its region come before."""

    node: Node
    region: str
    after: int
    lets: frozenset[str]


class FlowCall(msgspec.Struct, frozen=True):
    """A flow that is named, and the flow that names it; the main steps are in the flow without a name."""

    flow: Raw
    region: str


class Outline(msgspec.Struct):
    """Everything that the checks ask for."""

    document: Document
    programs: Programs
    hints: Suggestions
    inputs: dict[str, Field]
    flows: dict[str, Flow]
    steps: dict[str, StepOutline] = {}
    doubles: list[Raw] = []
    """Names of steps that are taken already."""
    uses: list[Use] = []
    calls: list[FlowCall] = []
    parts: list[NamedStep] = []
    retries: list[Retry] = []

    @property
    def diagnostics(self) -> Diagnostics:
        """The diagnostics of the file."""
        return self.programs.diagnostics

    @property
    def is_machine(self) -> bool:
        """Whether this is a whole machine, not a fragment with unknown surroundings."""
        return self.document.name is not None

    def fields(self) -> Iterator[Field]:
        """Yield all fields of the document."""
        yield from self.document.accepts or ()
        yield from self.document.responds or ()
        for part in self.parts:
            if isinstance(part, Ask):
                yield from part.returns
            elif isinstance(part, WaitFor):
                yield from part.schema

    def keys(self, mapping: Mapping) -> list[tuple[str, Span]] | None:
        """Return the keys of a map and their places; None where only a run can tell."""
        if mapping.value is None:
            return [(entry.key.text, entry.key.span) for entry in mapping.entries]
        node = self.programs.node(mapping.value)
        if not isinstance(node, ObjectOf):
            return None
        return [(name, self._key_span(name, value.span)) for name, value in node.fields]

    def _key_span(self, name: str, value: Span) -> Span:
        """Return the place of the key before a value: nodes have only the place of the value."""
        text = self.diagnostics.source.text
        found = _KEY.search(text, max(value.start - len(name) - 40, 0), value.start)
        return Span(*found.span(1)) if found and name in found[1] else value


def outline_of(document: Document, programs: Programs) -> Outline:
    """Go through a document once, in the order in which it runs."""
    implements = document.implements
    inputs = {field.name.text: field for field in document.accepts or ()}
    flows = {flow.name.text: flow for flow in implements.flows} if implements else {}
    outline = Outline(document, programs, Suggestions(), inputs, flows)
    walk = _Walk(outline)
    if implements is not None:
        walk.block(implements.body)
        for flow in implements.flows:
            walk.region(flow.body, flow.name.text)
            walk.region(flow.on_failure or (), FREE, calls_from=flow.name.text)
        walk.region(implements.on_failure or (), FREE, calls_from="")
    walk.outside()
    return outline


class _Walk:
    def __init__(self, outline: Outline) -> None:
        self.outline = outline
        self.place = ""
        self.calls_from = ""
        self.after = 0

    def region(self, block: Block, name: str, *, calls_from: str | None = None) -> None:
        self.place, self.after = name, 0
        self.calls_from = name if calls_from is None else calls_from
        self.block(block)

    def block(self, block: Block) -> None:
        for item in block:
            if isinstance(item, Retry):
                self._retry(item)
                self.block(item.steps)
            elif isinstance(item, RunFlow):
                self.outline.calls.append(FlowCall(item.flow, self.calls_from))
            elif isinstance(item, Result):
                self._use(item.value)
            else:
                self._step(item)

    def _step(self, part: NamedStep) -> None:
        self.outline.parts.append(part)
        fields = _RESULTS.get(type(part))
        if isinstance(part, Compute):
            fields = self._compute(part)
        elif isinstance(part, Ask):
            fields = self._ask(part)
        elif isinstance(part, Decide):
            for branch in part.branches:
                self._use(branch.test)
                self.block(branch.body)
            self.block(part.otherwise or ())
        elif isinstance(part, WaitFor):
            self._configs(config for config in part.config if config.key.text != "on_timeout")
            fields = frozenset(field.name.text for field in part.schema) or None
        else:
            self._configs(part.config)
            self._retry(part.retry)
        self.after += 1
        if part.name.text in self.outline.steps:
            self.outline.doubles.append(part.name)
        else:
            self.outline.steps[part.name.text] = StepOutline(part, self.place, self.after, fields)

    def _compute(self, part: Compute) -> frozenset[str] | None:
        lets: frozenset[str] = frozenset()
        for let in part.lets:
            self._use(let.value, lets)
            lets |= {let.name.text}
        node = self._use(part.result, lets) if part.result else None
        return frozenset(name for name, _ in node.fields) if isinstance(node, ObjectOf) else None

    def _ask(self, part: Ask) -> frozenset[str] | None:
        query = part.memory.query if part.memory is not None and part.memory.query is not part.task else None
        for raw in (part.role, part.task, query, part.tools, part.temperature, part.max_tokens):
            if raw is not None:
                self._use(raw)
        self._configs(chain(part.inputs, part.assuming))
        self._retry(part.retry)
        return frozenset(field.name.text for field in part.returns) or None

    def _retry(self, retry: Retry | None) -> None:
        if retry is not None:
            self.outline.retries.append(retry)
            self._configs(retry.config)

    def _configs(self, configs: Iterable[Config]) -> None:
        for config in configs:
            self._use(config.value)

    def _use(self, raw: Raw, lets: frozenset[str] = frozenset()) -> Node | None:
        node = self.outline.programs.node(raw, lets)
        if node is not None:
            self.outline.uses.append(Use(node, self.place, self.after, lets))
        return node

    def outside(self) -> None:
        """Add the expressions of fields, guards and tests, which see no step."""
        self.place, self.after = FREE, 0
        document = self.outline.document
        for field in self.outline.fields():
            if field.default is not None:
                self._use(field.default)
            self._configs(field.constraints)
        for guard in document.ensures.guards if document.ensures else ():
            if guard.on_violation is not None:
                self._use(guard.on_violation)
        for test in document.tests:
            for mapping in (test.given, test.expect, *(one.gives for one in test.assuming)):
                if mapping is not None:
                    self._configs(mapping.entries)
                    if mapping.value is not None:
                        self._use(mapping.value)


# all checks


def check_source(
    text: str, *, name: str = "machine.mashin", fragment: bool = False
) -> tuple[Reading, Programs, tuple[Diagnostic, ...]]:
    """Read, parse and check a source; return what was read, its programs, and all diagnostics in order."""
    reading = read(text, name=name, fragment=fragment)
    diagnostics = reading.going_on()
    programs = Programs(diagnostics)
    check_document(reading.document, programs)
    return reading, programs, diagnostics.sorted()


def check_document(document: Document, programs: Programs) -> None:
    """Note every error, warning and trap of a parsed document."""
    outline = outline_of(document, programs)
    for check in (_check_types, _check_permissions, _check_configuration, _check_names, _check_flows, _check_tests):
        check(outline)


# types and modifiers of fields

_RUN_NAMES = frozenset({"input", "steps", "context", "error", "state"})


def _check_types(outline: Outline) -> None:
    for field in outline.fields():
        if _check_type(outline, field.type):
            _check_modifiers(outline, field)


def _check_type(outline: Outline, type_: Type) -> bool:
    if TYPES.find(type_.name) is None:
        hint = outline.hints.did_you_mean(type_.name, TYPES.names, otherwise=f"One of {', '.join(TYPES.names)}")
        outline.diagnostics.error("unknown_type", f"{quote(type_.name)} is not a type", type_.span, hint=hint)
        return False
    if type_.shape is None:
        return type_.item is None or _check_type(outline, type_.item)
    try:
        parts = read_shape(type_.shape)
    except UsageError as error:
        outline.diagnostics.error("wrong_shape", error.message, error.span, hint=error.hint)
        return False
    return all([_check_type(outline, part.type) for part in parts])


def _check_modifiers(outline: Outline, field: Field) -> None:
    name = canonical(field.type)
    values: dict[str, Any] = {}
    for config in field.constraints:
        key = config.key.text
        rule = CONSTRAINTS[key]
        if rule.types and name not in rule.types | {"any"}:
            message = f"`{key}` applies to {rule.about}, and {quote(field.name.text)} is {name}"
            outline.diagnostics.error("wrong_modifier", message, config.key.span, hint="Remove it, or change the type")
            continue
        values[key] = _constraint(outline, config)
    for least, most in (("min", "max"), ("min_length", "max_length")):
        low, high = values.get(least, UNKNOWN), values.get(most, UNKNOWN)
        if is_number(low) and is_number(high) and low > high:
            config = next(one for one in field.constraints if one.key.text == most)
            message = f"no value fits: `{least}` is {low} and `{most}` is {high}"
            outline.diagnostics.error("wrong_value", message, config.value.span, hint="Swap them")
    if UNKNOWN not in values.values():
        _check_default(outline, field, values)


def _constraint(outline: Outline, config: Config) -> Any:
    node = outline.programs.node(config.value)
    if node is None or _reads_unknown(outline, node):
        return UNKNOWN
    try:
        return constraint_value(config, node)
    except UsageError as error:
        outline.diagnostics.error("wrong_value", error.message, config.value.span, hint=error.hint)
        return UNKNOWN


def _reads_unknown(outline: Outline, node: Node) -> bool:
    """Return whether an expression reads an unknown name, which is an error of its own."""
    known = _RUN_NAMES | outline.inputs.keys() | outline.steps.keys()
    return any(path[0] not in known for path, _ in paths_read(node))


def _check_default(outline: Outline, field: Field, constraints: dict[str, Any]) -> None:
    """Check a default that does not depend on a run, as each use of it will be checked."""
    node = outline.programs.node(field.default) if field.default is not None else None
    if field.default is None or node is None or any(True for _ in paths_read(node)):
        return
    place, name = field.default.span, quote(field.name.text)
    try:
        value = expression(node).value({})
    except (EvaluationFailed, LimitExceeded) as failure:
        outline.diagnostics.error(
            "wrong_value", f"the default of {name} has no value: {failure.message}", place, hint=failure.hint
        )
        return
    if value is None:
        return
    violations = Violations(dropping=False)
    kind = kind_of(field.type)
    checked = kind.check(value, violations)
    if violations.found:
        first = violations.found[0]
        if kind.name == "enum":
            choices = [choice.text for choice in field.type.choices]
            hint = outline.hints.did_you_mean(str(value), choices, otherwise=f"It needs {first.expected}")
            outline.diagnostics.error("wrong_value", f"the default of {name} is none of its choices", place, hint=hint)
        else:
            message = f"the default of {name} is not of the type {kind.name}: {quote(field.default.text, longest=40)}"
            outline.diagnostics.error(
                "wrong_type", message, place, hint=first.hint or f"Write a value of the type {kind.name}"
            )
        return
    for key, limit in constraints.items():
        wrong = CONSTRAINTS[key].test(limit)(checked)
        if wrong is not None:
            outline.diagnostics.error(
                "wrong_value", f"the default of {name} {wrong}", place, hint="Change it, or the constraint"
            )


# permissions and guards


def _check_permissions(outline: Outline) -> None:
    ensures = outline.document.ensures
    if ensures is not None:
        for permission in ensures.permissions:
            for one in permission.capabilities:
                if one.machine is None and not canonical_capabilities(one):
                    _note_unknown_capability(outline, one, permission.verdict)
        for guard in ensures.guards:
            _check_guard(outline, guard)
        if ensures.authority:
            message = "`authority` is kept but not acted on: the permissions say what a machine may do"
            outline.diagnostics.note("not_acted_on", message, ensures.authority[0].span.to(ensures.authority[-1].span))
    if not outline.is_machine:
        return
    granted = permissions(ensures)
    for part in outline.parts:
        for need in needs_of(part):
            _check_need(outline.diagnostics, part, need, granted)


def _note_unknown_capability(outline: Outline, one: Capability, verdict: Verdict) -> None:
    # Allowing an unknown capability does nothing; forbidding it would do nothing either, which is worse.
    note = outline.diagnostics.warning if verdict == "allow" else outline.diagnostics.error
    listed = f"Known: {', '.join(CAPABILITIES.names)}"
    hint = outline.hints.did_you_mean(one.name.text, CAPABILITIES.names, otherwise=listed)
    note("unknown_capability", f"{quote(one.name.text)} is not a capability", one.name.span, hint=hint)


def _check_guard(outline: Outline, guard: Guard) -> None:
    name = guard.name.text
    if GUARDS.find(name) is None:
        given = f"Give the machine a guard {quote(name)} when it is loaded"
        hint = outline.hints.did_you_mean(name, GUARDS.names, otherwise=given)
        outline.diagnostics.warning(
            "unknown_guard", f"{quote(name)} is not a built-in guard", guard.name.span, hint=hint
        )
    raw = guard.on_violation
    value = literal(outline.programs.node(raw)) if raw is not None else UNKNOWN
    if raw is None or value in ON_VIOLATION.names:
        return
    listed = f"One of {', '.join(ON_VIOLATION.names)}, in quotes"
    hint = outline.hints.did_you_mean(value, ON_VIOLATION.names, otherwise=listed) if isinstance(value, str) else listed
    message = f"`on_violation` cannot be {quote(raw.text, longest=40)}"
    outline.diagnostics.error("wrong_value", message, raw.span, hint=hint)


def _check_need(diagnostics: Diagnostics, part: NamedStep, need: Need, granted: Permissions) -> None:
    shown = "memory" if need.capability.startswith("memory.") else need.capability
    level = granted.level(need)
    if level == "deny":
        message = f"step `{part.name.text}` needs {shown}, which `not allowed to` denies"
        diagnostics.warning("not_allowed", message, part.name.span, hint="The step is denied whenever it runs")
    elif level is None:
        message = f"step `{part.name.text}` needs {shown}"
        diagnostics.warning("not_allowed", message, part.name.span, hint=f"Add `allowed to {shown}` to `ensures`")


# configuration of steps

_Rule: TypeAlias = tuple[Callable[[Any], bool], str, str | Callable[[Any], str]]
"""Whether a value fits, what is needed, and what to write instead."""


def _check_configuration(outline: Outline) -> None:
    for part in outline.parts:
        if isinstance(part, Remember | Recall):
            level = REMEMBER if isinstance(part, Remember) else RECALL
            _check_keys(outline, part.config, level)
            _check_required(outline, part, level)
        elif isinstance(part, WaitFor):
            _check_keys(outline, part.config, WAIT_FOR)
            if value_of(part.config, "event") is None and value_of(part.config, "callback") is None:
                message = f"`wait for {part.name.text}` does not say what it waits for"
                outline.diagnostics.error(
                    "missing", message, part.name.span, hint='Add `event: "…"`, or `callback: true`'
                )
        elif isinstance(part, Ask):
            _check_ask(outline, part)
    for retry in outline.retries:
        _check_keys(outline, retry.config, RETRY)


def _check_keys(outline: Outline, configs: tuple[Config, ...], level: Level) -> None:
    for config in configs:
        key = config.key.text
        if level.find(key) is None:
            # The parser has said what to write instead.
            if key in OLDER_FORM and level in (REMEMBER, RECALL):
                continue
            listed = f"Known {level.where}: {', '.join(level.names)}"
            hint = outline.hints.did_you_mean(key, level.names, otherwise=listed)
            outline.diagnostics.error("unknown_key", f"`{key}` is not a key {level.where}", config.key.span, hint=hint)
        elif key in _RULES:
            _check_value(outline, config.value, key)


def _check_value(outline: Outline, raw: Raw, key: str) -> None:
    value = literal(outline.programs.node(raw))
    fits, what, hint = _RULES[key]
    if (value is not UNKNOWN or key in _LITERALS) and not fits(value):
        message = f"`{key}` needs {what}, not {quote(raw.text, longest=40)}"
        outline.diagnostics.error("wrong_value", message, raw.span, hint=hint if isinstance(hint, str) else hint(value))


def _check_required(outline: Outline, part: Remember | Recall, level: Level) -> None:
    others = [config.key.text for config in part.config if level.find(config.key.text) is None]
    for keyword in level.required:
        misspelt = any(other in OLDER_FORM or outline.hints.closest(other, (keyword.name,)) for other in others)
        if value_of(part.config, keyword.name) is None and not misspelt:
            message = f"`{keyword.name}` is missing in `{level.name} {part.name.text}`"
            outline.diagnostics.error(
                "missing", message, part.name.span, hint=f"{keyword.meaning}: add `{keyword.name}: …`"
            )


def _check_ask(outline: Outline, part: Ask) -> None:
    """Check an ask: a model needs a task, and only a machine takes inputs by name."""
    diagnostics, name = outline.diagnostics, part.name.text
    if part.machine is None:
        if part.task is None:
            message = f"`ask {name}` gives the model no task"
            diagnostics.error("missing", message, part.name.span, hint='Add `with task "…"`')
        known = [name for name in ASK.names if name.startswith("with ") or name in ("returns", "assuming")]
        for config in part.inputs:
            key = config.key.text
            hint = outline.hints.did_you_mean(f"with {key}", known, otherwise="Only `ask … from` has inputs")
            diagnostics.error("unknown_key", f"`{key}` is not a key of an `ask` to a model", config.key.span, hint=hint)
    elif part.memory is not None:
        message = f"`ask {name}` calls a machine, which recalls by itself what it needs"
        hint = "Leave `with memory` out, or pass what was recalled as an input"
        diagnostics.error("unexpected", message, part.name.span, hint=hint)
    query = part.memory.query if part.memory is not None and part.memory.query is not part.task else None
    for key, raw in (("memory", query), ("temperature", part.temperature), ("max_tokens", part.max_tokens)):
        if raw is not None:
            _check_value(outline, raw, key)
    returned = [field.name.text for field in part.returns]
    for config in part.assuming if returned else ():
        if config.key.text not in returned:
            hint = outline.hints.did_you_mean(config.key.text, returned, otherwise=f"It returns {', '.join(returned)}")
            message = f"`{config.key.text}` is assumed, but `ask {name}` does not return it"
            diagnostics.warning("unknown_output", message, config.key.span, hint=hint)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_duration(value: Any) -> bool:
    return isinstance(value, str) and duration_hint(value) is None


def _duration_hint(value: Any) -> str:
    return duration_hint(value if isinstance(value, str) else "") or ""


def _is_map(value: Any) -> bool:
    return isinstance(value, dict)


def _is_common_scope(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(value) and Scope.named(value).is_common
    except InvalidScope:
        return False


_LITERALS = frozenset({"scope"})
"""Keys whose value is the same in every run: which memory a machine shares can be read in its text."""

_RULES: dict[str, _Rule] = {
    "content": (lambda value: value is not None, "something to remember", "A null cannot be found again"),
    "query": (lambda value: value is not None and value != "", "something to look for", "Such as `input.question`"),
    "collection": (_is_name, "the name of a collection", 'Such as `"knowledge_base"`'),
    "namespace": (_is_name, "the name of a namespace", "Leave it out for none"),
    "scope": (
        _is_common_scope,
        "`shared` or a project, as a text without expressions",
        'Such as `"project:atlas"`; leave it out for the memory of the run',
    ),
    "metadata": (_is_map, "a map", "Write it as `{ name: value }`"),
    "filter": (_is_map, "a map", "Write it as `{ name: value }`"),
    "ttl": (_is_duration, "a duration", _duration_hint),
    "timeout": (_is_duration, "a duration", _duration_hint),
    "limit": (lambda value: is_whole(value, least=1), "a whole number from 1", "Leave it out for 5"),
    "threshold": (
        lambda value: is_number(value) and 0 <= value <= 1,
        "a number from 0 to 1",
        "Scores are between 0 and 1; leave it out to keep every result",
    ),
    "event": (_is_name, "the name of an event", 'Such as `"order.shipped"`'),
    "callback": (lambda value: isinstance(value, bool), "true or false", "`callback: true`"),
    "memory": (_is_name, "what to look for, as text", "Write `with memory` alone to look for what answers the task"),
    "temperature": (lambda value: is_number(value) and value >= 0, "a number from 0", "Such as 0.2"),
    "max_tokens": (lambda value: is_whole(value, least=1), "a whole number from 1", "Such as 1000"),
    "max": (lambda value: is_whole(value, least=1), "a whole number from 1", "Such as 3"),
    "delay": (lambda value: is_whole(value, least=0), "milliseconds as a whole number", "Such as 1000"),
    "backoff": (lambda value: value in BACKOFFS, f"one of {', '.join(BACKOFFS)}", '`backoff: "exponential"`'),
}


# names in expressions

_GIVEN_NAMES = frozenset({*_RUN_NAMES, *GLOBALS, *NAMESPACES})
"""Names that every expression can read."""


def _check_names(outline: Outline) -> None:
    for name in outline.doubles:
        message = f"{quote(name.text)} is declared a second time"
        outline.diagnostics.error("duplicate", message, name.span, hint="Give each step a name of its own")
    for use in outline.uses:
        for path, span in paths_read(use.node):
            _check_path(outline, use, path, _beginning(outline.diagnostics.source, path, span))
    for field in outline.document.responds or ():
        if field.source is not None:
            path = tuple(field.source.text.split("."))
            path = path[1:] if path[0] == "steps" else path
            if path and path[0] not in ("state", "input", "context"):
                _check_step(outline, None, path, field.source.span)


def _beginning(source: Source, path: Path, span: Span) -> Span:
    """Return the place of the part of a path that is checked: `steps.name.field`, `name.field` or `input.name`."""
    written = ".".join(path[: 3 if path[0] == "steps" else 2])
    return Span(span.start, span.start + len(written)) if source.text.startswith(written, span.start) else span


def _check_path(outline: Outline, use: Use, path: Path, span: Span) -> None:
    first = path[0]
    if first in use.lets:
        return
    if first == "steps":
        if len(path) > 1:
            _check_step(outline, use, path[1:], span)
    elif first == "input":
        if len(path) > 1 and outline.is_machine and path[1] not in outline.inputs:
            _note_unknown_input(outline, path[1], span)
    elif first in outline.steps:
        if first not in outline.inputs or _is_before(outline, use, first):
            _check_step(outline, use, path, span)
    elif first not in _GIVEN_NAMES and first not in outline.inputs and outline.is_machine:
        known = (*use.lets, *outline.steps, *outline.inputs, *_GIVEN_NAMES)
        hint = outline.hints.did_you_mean(
            first, known, otherwise="A name is a step, a field of `accepts`, or bound by `let`"
        )
        own = Span(span.start, min(span.end, span.start + len(first)))
        outline.diagnostics.error("unknown_name", f"nothing is called {quote(first)}", own, hint=hint)


def _is_before(outline: Outline, use: Use, name: str) -> bool:
    step = outline.steps[name]
    return use.region == FREE or step.region != use.region or step.after <= use.after


def _check_step(outline: Outline, use: Use | None, path: Path, span: Span) -> None:
    """Check a step that is read, and its field; without a use, an output reads it after all steps have run."""
    name = path[0]
    if name not in outline.steps:
        if outline.is_machine:
            _note_unknown_step(outline, name, span)
        return
    if use is not None and not _is_before(outline, use, name):
        # A flow can run again, and then a later step has run before.
        note = outline.diagnostics.error if use.region == "" else outline.diagnostics.warning
        message = f"the step {quote(name)} has not run yet where this reads it"
        note("later_step", message, span, hint="A step sees those before it only; move it up")
    fields = outline.steps[name].fields
    if fields is not None and len(path) > 1 and path[1] not in fields:
        hint = outline.hints.did_you_mean(path[1], fields, otherwise=f"It gives {', '.join(sorted(fields))}")
        message = f"the step {quote(name)} gives no {quote(path[1])}; reading it gives null"
        outline.diagnostics.warning("unknown_field", message, span, hint=hint)


def _note_unknown_step(outline: Outline, name: str, span: Span) -> None:
    listed = f"The steps are {short_list(outline.steps)}" if outline.steps else "There are no steps"
    hint = outline.hints.did_you_mean(name, outline.steps, otherwise=listed)
    outline.diagnostics.error("unknown_step", f"unknown step {quote(name)}", span, hint=hint)


def _note_unknown_input(
    outline: Outline, name: str, span: Span, *, without: str = "Add `{} as …` to `accepts`"
) -> None:
    listed = f"It accepts {short_list(outline.inputs)}" if outline.inputs else without.format(name)
    hint = outline.hints.did_you_mean(name, outline.inputs, otherwise=listed)
    outline.diagnostics.error("unknown_input", f"the machine accepts no {quote(name)}", span, hint=hint)


# flows


def _check_flows(outline: Outline) -> None:
    """Check the flows that are run, jumped to, or run after a timeout."""
    flows = outline.flows
    calls = [*outline.calls, *_timeouts(outline)]
    if not outline.is_machine:
        return
    for call in calls:
        name = call.flow.text
        if name not in flows:
            listed = f"The flows are {short_list(flows)}" if flows else f"Add `flow {name}` with its steps"
            hint = outline.hints.did_you_mean(name, flows, otherwise=listed)
            outline.diagnostics.error("unknown_flow", f"unknown flow {quote(name)}", call.flow.span, hint=hint)
    implements = outline.document.implements
    if implements is not None and not implements.body and flows:
        # Without main steps, a machine begins with its first flow.
        calls.append(FlowCall(next(iter(flows.values())).name, ""))
    reachable = _reachable(calls)
    for name, flow in flows.items():
        if name not in reachable:
            hint = f"Run it with `run flow({name})`, or remove it"
            message = f"nothing leads to the flow {quote(name)}"
            outline.diagnostics.warning("unreachable_flow", message, flow.name.span, hint=hint)


def _timeouts(outline: Outline) -> list[FlowCall]:
    """Return the flows of timeouts, as if the main steps ran them."""
    calls: list[FlowCall] = []
    for part in outline.parts:
        raw = value_of(part.config, "on_timeout") if isinstance(part, WaitFor) else None
        if raw is None:
            continue
        flow = flow_named(raw)
        if flow is None:
            message = f"`on_timeout` needs a flow, not {quote(raw.text, longest=40)}"
            outline.diagnostics.error("wrong_value", message, raw.span, hint="Write it as `on_timeout: flow(name)`")
        else:
            calls.append(FlowCall(flow, ""))
    return calls


def _reachable(calls: list[FlowCall]) -> set[str]:
    leads: dict[str, list[str]] = {}
    for call in calls:
        leads.setdefault(call.region, []).append(call.flow.text)
    reached: set[str] = {""}
    waiting = [""]
    while waiting:
        for name in leads.get(waiting.pop(), ()):
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return reached


# tests


def _check_tests(outline: Outline) -> None:
    """Check each test against the contract and the steps of its machine."""
    if not outline.is_machine:
        return
    for test in outline.document.tests:
        if test.given is not None:
            _check_given(outline, test, test.given)
        for assumption in test.assuming:
            _check_assumption(outline, assumption)
        if test.expect is not None:
            _check_expectation(outline, test.expect)


def _check_given(outline: Outline, test: Test, given: Mapping) -> None:
    keys = outline.keys(given)
    if keys is None:
        return
    for name, span in keys:
        if name not in outline.inputs:
            _note_unknown_input(outline, name, span, without="It has no `accepts`")
    names = {name for name, _ in keys}
    for name, field in outline.inputs.items():
        if field.required and field.default is None and name not in names and not _fails(outline, test.expect):
            message = f"the test gives no {quote(name)}, which is required: the run is rejected"
            outline.diagnostics.warning("missing_input", message, test.name.span, hint=f"Add `{name}: …` to `given`")


def _check_assumption(outline: Outline, assumption: Assumption) -> None:
    name = assumption.step.text
    step = outline.steps.get(name)
    if step is None:
        _note_unknown_step(outline, name, assumption.step.span)
        return
    if isinstance(step.part, Compute | Decide):
        message = f"the step {quote(name)} has no effect, so nothing can be assumed of it"
        hint = "Assume what `ask`, `remember`, `recall` or `wait for` gives"
        outline.diagnostics.error("not_assumable", message, assumption.step.span, hint=hint)
        return
    for key, span in outline.keys(assumption.gives) or ():
        if step.fields is not None and key not in step.fields:
            hint = outline.hints.did_you_mean(key, step.fields, otherwise=f"It gives {', '.join(sorted(step.fields))}")
            outline.diagnostics.warning(
                "unknown_output", f"the step {quote(name)} gives no {quote(key)}", span, hint=hint
            )


def _check_expectation(outline: Outline, expect: Mapping) -> None:
    responds = outline.document.responds
    if responds is None or _fails(outline, expect):
        return
    outputs = [field.name.text for field in responds]
    for name, span in outline.keys(expect) or ():
        if name not in outputs:
            hint = outline.hints.did_you_mean(name, outputs, otherwise=f"It responds with {short_list(outputs)}")
            outline.diagnostics.error("unknown_output", f"the machine responds with no {quote(name)}", span, hint=hint)


def _fails(outline: Outline, expect: Mapping | None) -> bool:
    """Return whether a test expects that the run fails."""
    keys = (outline.keys(expect) or ()) if expect is not None else ()
    outputs = {field.name.text for field in outline.document.responds or ()}
    return [name for name, _ in keys] == [FAILS] and FAILS not in outputs
