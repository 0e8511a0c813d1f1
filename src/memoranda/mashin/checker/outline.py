"""A document and its programs in; its steps, names and expressions in their order out, for all checks to share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec

from memoranda.lang.expression.nodes import Node, ObjectOf
from memoranda.lang.hints import Hints
from memoranda.lang.source import Span
from memoranda.lang.tree import Raw
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
from memoranda.mashin.programs import Programs

_KEY = re.compile(r"""(?<![\w"'])([\w"']++)\s*+:\s*$""")

RESULTS: dict[type[NamedStep], frozenset[str]] = {
    Recall: frozenset({"results", "count"}),
    Remember: frozenset({"id", "collection", "namespace", "stored", "expires_at"}),
}
"""What the steps of memory give."""


class Step(msgspec.Struct, frozen=True):
    """A step, where it is defined, and the fields it gives; None where only a run can tell."""

    part: NamedStep
    region: str
    after: int
    fields: frozenset[str] | None


class Use(msgspec.Struct, frozen=True):
    """An expression, the names that its own step gives, and how many steps of its region came before."""

    node: Node
    region: str
    after: int
    lets: frozenset[str]


class Call(msgspec.Struct, frozen=True):
    """A flow that is named, and the flow it is named in; main steps are in the flow without a name."""

    flow: Raw
    region: str


class Outline(msgspec.Struct):
    """Everything that the checks ask for."""

    document: Document
    programs: Programs
    hints: Hints
    inputs: dict[str, Field]
    flows: dict[str, Flow]
    steps: dict[str, Step]
    doubles: list[Raw]
    uses: list[Use]
    calls: list[Call]
    parts: list[NamedStep]
    retries: list[Retry]

    @property
    def whole(self) -> bool:
        """Whether this is a machine and not a fragment, of which nobody knows what stands around it."""
        return self.document.name is not None

    def fields(self) -> Iterator[tuple[Field, str]]:
        """Give all fields of the document, and the place each belongs to."""
        yield from ((field, "accepts") for field in self.document.accepts or ())
        yield from ((field, "responds with") for field in self.document.responds or ())
        for part in self.parts:
            if isinstance(part, Ask):
                yield from ((field, "returns") for field in part.returns)
            elif isinstance(part, WaitFor):
                yield from ((field, "schema") for field in part.schema)

    def keys(self, mapping: Mapping) -> list[tuple[str, Raw]] | None:
        """Return the keys of a map and where each is shown; None for one that only a run can tell."""
        if mapping.value is None:
            return [(entry.key.text, entry.key) for entry in mapping.entries]
        node = self.programs.node(mapping.value)
        if not isinstance(node, ObjectOf):
            return None
        return [(name, Raw(name, span=self._key(name, value.span))) for name, value in node.fields]

    def _key(self, name: str, value: Span) -> Span:
        """Return where the key of a value stands; nodes know the value only."""
        text = self.programs.said.source.text
        found = _KEY.search(text, max(value.start - len(name) - 40, 0), value.start)
        return Span(*found.span(1)) if found and name in found[1] else value


FREE = "on failure"
"""The region of steps that run after a failure: any step may have run before."""


def outline(document: Document, programs: Programs) -> Outline:
    """Go through a document once, in the order in which it runs."""
    implements = document.implements
    inputs = {field.name.text: field for field in document.accepts or ()}
    flows = {flow.name.text: flow for flow in implements.flows} if implements else {}
    whole = Outline(document, programs, Hints(), inputs, flows, {}, [], [], [], [], [])
    walk = _Walk(whole)
    if implements is not None:
        walk.block(implements.body)
        for flow in implements.flows:
            walk.region(flow.body, flow.name.text)
            walk.region(flow.on_failure or (), FREE, calls_from=flow.name.text)
        walk.region(implements.on_failure or (), FREE, calls_from="")
    walk.outside()
    return whole


class _Walk:
    def __init__(self, whole: Outline) -> None:
        self.whole = whole
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
                self.whole.calls.append(Call(item.flow, self.calls_from))
            elif isinstance(item, Result):
                self._use(item.value)
            else:
                self._step(item)

    def _step(self, part: NamedStep) -> None:
        self.whole.parts.append(part)
        fields = RESULTS.get(type(part))
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
        if part.name.text in self.whole.steps:
            self.whole.doubles.append(part.name)
        else:
            self.whole.steps[part.name.text] = Step(part, self.place, self.after, fields)

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
            self.whole.retries.append(retry)
            self._configs(retry.config)

    def _configs(self, configs: Iterable[Config]) -> None:
        for config in configs:
            self._use(config.value)

    def _use(self, raw: Raw, lets: frozenset[str] = frozenset()) -> Node | None:
        node = self.whole.programs.node(raw, lets)
        if node is not None:
            self.whole.uses.append(Use(node, self.place, self.after, lets))
        return node

    def outside(self) -> None:
        """Take the expressions that stand outside of steps, in fields, guards and tests; they see no step."""
        self.place, self.after = FREE, 0
        for field, _ in self.whole.fields():
            if field.default is not None:
                self._use(field.default)
            self._configs(field.constraints)
        ensures = self.whole.document.ensures
        for guard in ensures.guards if ensures else ():
            if guard.on_violation is not None:
                self._use(guard.on_violation)
        for test in self.whole.document.tests:
            for mapping in (test.given, test.expect, *(one.gives for one in test.assuming)):
                if mapping is not None:
                    self._configs(mapping.entries)
                    if mapping.value is not None:
                        self._use(mapping.value)
