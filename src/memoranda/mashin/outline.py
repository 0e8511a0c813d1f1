"""The outline of a document: its steps, names and expressions in the order they run, for all checks to share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec

from memoranda.lang.diagnostics import Diagnostics, Suggestions
from memoranda.lang.document import Raw
from memoranda.lang.expression.nodes import Node, ObjectOf
from memoranda.lang.source import Span
from memoranda.mashin.document import (
    Ask,
    Block,
    Compute,
    Config,
    Decide,
    Document,
    Field,
    Flow,
    Mapping,
    NamedStep,
    Recall,
    Remember,
    Result,
    Retry,
    RunFlow,
    WaitFor,
)
from memoranda.mashin.expression.compiler import Programs

FREE = "on failure"
"""The region of steps that run after a failure: any step may have run before."""
_KEY = re.compile(r"""(?<![\w"'])([\w"']++)\s*+:\s*$""")
_RESULTS: dict[type[NamedStep], frozenset[str]] = {
    Recall: frozenset({"results", "count"}),
    Remember: frozenset({"id", "collection", "namespace", "stored", "expires_at"}),
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
    def said(self) -> Diagnostics:
        """The diagnostics of the file."""
        return self.programs.said

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
        text = self.said.source.text
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
        for raw in (part.role, part.task, part.tools, part.temperature, part.max_tokens):
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
