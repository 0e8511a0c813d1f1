"""The plan of a machine: its checked document, with every expression and contract compiled once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from memoranda.lang.document import Raw
from memoranda.lang.expression.compiler import Expression
from memoranda.lang.expression.nodes import Constant, ObjectOf
from memoranda.lang.source import Source, Span, digest_of
from memoranda.mashin.contracts import Contract, contract
from memoranda.mashin.document import (
    Ask,
    Block,
    Compute,
    Decide,
    Document,
    Flow,
    Implements,
    NamedStep,
    Result,
    Retry,
    RunFlow,
    WaitFor,
)
from memoranda.mashin.expression.compiler import Programs, expression
from memoranda.mashin.guards import GuardUse, guard_uses
from memoranda.mashin.permissions import Permissions, permissions


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that is ready to run."""

    name: str
    title: str
    source: str
    digest: str
    document: Document
    accepts: Contract
    responds: Contract | None
    origins: Mapping[str, tuple[str, ...]]
    """The path to read for each output that names its step."""
    permissions: Permissions
    guards: tuple[GuardUse, ...]
    needs: tuple[str, ...]
    main: Flow
    """The main steps, as a flow without a name."""
    on_failure: Block | None
    """The steps that handle a failure of any flow."""
    flows: Mapping[str, Flow]
    steps: Mapping[str, NamedStep]
    contracts: Mapping[str, Contract]
    """The fields that a step returns or waits for, by its name."""
    programs: Mapping[Span, Expression]
    """Compiled expressions by the place of what they compute: an expression, a `compute` step, a map of a test."""


def compile_machine(document: Document, programs: Programs, source: Source) -> Plan:
    """Return the plan of a document that was checked and has no errors."""
    implements = document.implements or Implements(span=document.span)
    body: Block = implements.body
    if not body and implements.flows:
        body = (RunFlow(flow=implements.flows[0].name, span=implements.span),)
    blocks = [body, implements.on_failure, *(block for one in implements.flows for block in (one.body, one.on_failure))]
    steps = {step.name.text: step for block in blocks for step in _steps(block or ())}
    ensures, responds = document.ensures, document.responds
    return Plan(
        name=document.name.text if document.name else "",
        title=document.title.text if document.title else "",
        source=source.text,
        digest=digest_of(source.text),
        document=document,
        accepts=contract(document.accepts or (), programs),
        responds=None if responds is None else contract(responds, programs),
        origins={field.name.text: tuple(field.source.text.split(".")) for field in responds or () if field.source},
        permissions=permissions(ensures),
        guards=guard_uses(ensures, programs),
        needs=tuple(one.key.text for one in ensures.needs) if ensures else (),
        main=Flow(name=Raw("", span=implements.span), body=body, span=implements.span),
        on_failure=implements.on_failure,
        flows={flow.name.text: flow for flow in implements.flows},
        steps=steps,
        contracts=dict(_contracts(steps.values(), programs)),
        programs={**programs.expressions(), **dict(_composites(document, steps.values(), programs))},
    )


def _steps(block: Block) -> Iterator[NamedStep]:
    for item in block:
        if isinstance(item, Retry):
            yield from _steps(item.steps)
        elif not isinstance(item, RunFlow | Result):
            yield item
            if isinstance(item, Decide):
                for branch in item.branches:
                    yield from _steps(branch.body)
                yield from _steps(item.otherwise or ())


def _contracts(steps: Iterable[NamedStep], programs: Programs) -> Iterator[tuple[str, Contract]]:
    for step in steps:
        if isinstance(step, Ask) and step.returns:
            yield step.name.text, contract(step.returns, programs, complete=step.machine is None)
        elif isinstance(step, WaitFor) and step.schema:
            yield step.name.text, contract(step.schema, programs)


def _composites(
    document: Document, steps: Iterable[NamedStep], programs: Programs
) -> Iterator[tuple[Span, Expression]]:
    """Yield the expressions that are made of several: the bodies of `compute` steps and the maps of tests."""
    for step in steps:
        if isinstance(step, Compute):
            yield step.span, expression(programs.body(step) or Constant(step.span, None))
    for test in document.tests:
        for mapping in (test.given, test.expect, *(one.gives for one in test.assuming)):
            if mapping is not None and mapping.value is None:
                # A document without errors has a node for each of its expressions.
                nodes = ((one.key.text, programs.node(one.value)) for one in mapping.entries)
                fields = tuple((name, node or Constant(mapping.span, None)) for name, node in nodes)
                yield mapping.span, expression(ObjectOf(mapping.span, fields))
