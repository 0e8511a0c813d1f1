"""A checked document and its programs in, a plan out: every expression compiled once, to be run many times."""

from __future__ import annotations

from collections.abc import Sequence

from memoranda.lang.expression.nodes import Constant, Node, ObjectOf
from memoranda.lang.expression.program import Expression
from memoranda.lang.source import Source, digest_of
from memoranda.lang.tree import Raw
from memoranda.mashin import document as said
from memoranda.mashin.contracts import contract
from memoranda.mashin.document import Document, flow_named, value_of
from memoranda.mashin.expression.programs import expression
from memoranda.mashin.guards import guard_uses
from memoranda.mashin.permissions import permissions
from memoranda.mashin.programs import Programs
from memoranda.mashin.runtime.plan import (
    AskModel,
    Attempts,
    Block,
    Branch,
    CallMachine,
    Compute,
    Config,
    Decide,
    Flow,
    Item,
    Plan,
    Recall,
    Remember,
    Retry,
    RunFlow,
    Step,
    Test,
    Value,
    WaitFor,
)

_WORDS = ("role", "task", "tools", "temperature", "max_tokens")


def compile_machine(document: Document, programs: Programs, source: Source) -> Plan:
    """Return the plan of a document that was checked and has no errors."""
    return _Compiler(document, programs, source).plan()


class _Compiler:
    def __init__(self, document: Document, programs: Programs, source: Source) -> None:
        self.document = document
        self.programs = programs
        self.source = source
        self.steps: dict[str, Step] = {}

    def plan(self) -> Plan:
        document = self.document
        implements = document.implements or said.Implements(span=document.span)
        flows = {flow.name.text: self._flow(flow.name.text, flow) for flow in implements.flows}
        body: Block = self._block(implements.body)
        if not body and flows:
            body = (RunFlow(next(iter(flows)), jump=False),)
        responds = document.responds
        ensures = document.ensures
        return Plan(
            name=document.name.text if document.name else "",
            title=document.title.text if document.title else "",
            source=self.source.text,
            digest=digest_of(self.source.text),
            document=document,
            accepts=contract(document.accepts or (), self.programs),
            responds=None if responds is None else contract(responds, self.programs),
            origins={field.name.text: tuple(field.source.text.split(".")) for field in responds or () if field.source},
            permissions=permissions(ensures),
            guards=guard_uses(ensures, self.programs),
            needs=tuple(one.key.text for one in ensures.needs) if ensures else (),
            main=Flow("", body, self._blocks(implements.on_failure)),
            flows=flows,
            steps=self.steps,
            tests=tuple(self._test(test) for test in document.tests),
        )

    # steps

    def _flow(self, name: str, flow: said.Flow) -> Flow:
        return Flow(name, self._block(flow.body), self._blocks(flow.on_failure))

    def _blocks(self, block: said.Block | None) -> Block | None:
        return None if block is None else self._block(block)

    def _block(self, block: said.Block) -> Block:
        return tuple(self._item(item) for item in block)

    def _item(self, item: said.Item) -> Item:
        if isinstance(item, said.RunFlow):
            return RunFlow(item.flow.text, item.jump)
        if isinstance(item, said.Result):
            return Value(self._program(item.value))
        if isinstance(item, said.Retry):
            return Retry(Attempts(self._config(item.config)), self._block(item.steps))
        step = self.steps[item.name.text] = self._step(item)
        return step

    def _step(self, item: said.NamedStep) -> Step:
        name = item.name.text
        if isinstance(item, said.Compute):
            node = self.programs.body(item)
            return Compute(name, expression(node or Constant(item.span, None)))
        if isinstance(item, said.Decide):
            branches = tuple(Branch(self._program(branch.test), self._block(branch.body)) for branch in item.branches)
            return Decide(name, branches, self._blocks(item.otherwise))
        if isinstance(item, said.WaitFor):
            return self._wait(item)
        if isinstance(item, said.Ask):
            return self._ask(item)
        config, attempts = self._config(item.config), self._attempts(item.retry)
        return (Remember if isinstance(item, said.Remember) else Recall)(name, config, attempts)

    def _ask(self, item: said.Ask) -> AskModel | CallMachine:
        returns = contract(item.returns, self.programs, complete=item.machine is None) if item.returns else None
        assuming, attempts = self._config(item.assuming), self._attempts(item.retry)
        if item.machine is not None:
            purpose = item.to.text if item.to else None
            inputs = self._config(item.inputs)
            return CallMachine(item.name.text, item.machine.text, purpose, inputs, returns, assuming, attempts)
        words = tuple((word, self._program(raw)) for word in _WORDS if (raw := getattr(item, word)) is not None)
        model = item.using.text if item.using else None
        return AskModel(item.name.text, model, words, returns, assuming, attempts)

    def _wait(self, item: said.WaitFor) -> WaitFor:
        leads = value_of(item.config, "on_timeout")
        flow = flow_named(leads) if leads else None
        config = self._config([one for one in item.config if one.key.text != "on_timeout"])
        schema = contract(item.schema, self.programs) if item.schema else None
        return WaitFor(item.name.text, config, flow.text if flow else None, schema)

    def _attempts(self, retry: said.Retry | None) -> Attempts | None:
        return None if retry is None else Attempts(self._config(retry.config))

    # tests

    def _test(self, test: said.Test) -> Test:
        return Test(
            test.name.text,
            self.source.position(test.span.start).line,
            self._mapping(test.given),
            tuple((one.step.text, self._required(one.gives)) for one in test.assuming),
            self._mapping(test.expect),
        )

    def _mapping(self, mapping: said.Mapping | None) -> Expression | None:
        return None if mapping is None else self._required(mapping)

    def _required(self, mapping: said.Mapping) -> Expression:
        if mapping.value is not None:
            return self._program(mapping.value)
        fields = tuple((entry.key.text, self._node(entry.value)) for entry in mapping.entries)
        return expression(ObjectOf(mapping.span, fields))

    # expressions

    def _config(self, configs: Sequence[said.Config]) -> Config:
        return tuple((one.key.text, self._program(one.value)) for one in configs)

    def _program(self, raw: Raw) -> Expression:
        return expression(self._node(raw))

    def _node(self, raw: Raw) -> Node:
        # A document without errors has a node for each of its expressions.
        return self.programs.node(raw) or Constant(raw.span, None)
