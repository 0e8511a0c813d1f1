"""The syntax tree of a machine. Expressions are raw text with their places.

Equality ignores places and layout.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias, final

from memoranda.lang.document import Raw, SourceNode
from memoranda.mashin.lines import Line

# --- fields -----------------------------------------------------------------------------------------------------


class Config(SourceNode, frozen=True):
    """`key: expression`."""

    key: Raw
    value: Raw


class Type(SourceNode, frozen=True):
    """The type of a field as written, with the `item` of a list, the `choices` of an enum, the `shape` of a map."""

    name: str
    item: Type | None = None
    choices: tuple[Raw, ...] = ()
    shape: Raw | None = None


class Field(SourceNode, frozen=True):
    """`name as type` with its modifiers."""

    name: Raw
    type: Type
    required: bool = False
    default: Raw | None = None
    description: Raw | None = None
    label: Raw | None = None
    constraints: tuple[Config, ...] = ()
    source: Raw | None = None
    """The step or path that an output comes from."""


# --- ensures ----------------------------------------------------------------------------------------------------

Verdict: TypeAlias = Literal["allow", "deny", "approve"]


class Capability(SourceNode, frozen=True):
    """A capability as written; `call "machine"` is `machine.call` for one machine."""

    name: Raw
    machine: Raw | None = None


class Permission(SourceNode, frozen=True):
    """Capabilities that are allowed, denied, or need approval."""

    verdict: Verdict
    capabilities: tuple[Capability, ...]


class Guard(SourceNode, frozen=True):
    """A named rule, and what happens on a violation."""

    name: Raw
    on_violation: Raw | None = None


class Ensures(SourceNode, frozen=True):
    """The permissions, needs and guards of a machine."""

    permissions: tuple[Permission, ...] = ()
    authority: tuple[Config, ...] = ()
    guards: tuple[Guard, ...] = ()
    needs: tuple[Config, ...] = ()


# --- steps ------------------------------------------------------------------------------------------------------


@final
class Retry(SourceNode, frozen=True):
    """How often a step is tried again; as an item of a block it has steps of its own."""

    config: tuple[Config, ...] = ()
    steps: Block = ()


class Let(SourceNode, frozen=True):
    """`let name = expression`."""

    name: Raw
    value: Raw


class Compute(SourceNode, frozen=True):
    """A computed value: bindings, and the result."""

    name: Raw
    lets: tuple[Let, ...] = ()
    result: Raw | None = None


class AskMemory(SourceNode, frozen=True):
    """What a model is told of what is remembered: core blocks, and what answers the query."""

    name: Raw
    """The name under which it is recorded: `answer.memory` for the step `answer`."""
    query: Raw | None
    """What is looked for; the task, if nothing else is written."""


class Ask(SourceNode, frozen=True):
    """A question to a model (`using`) or to another machine (`machine`)."""

    name: Raw
    using: Raw | None = None
    machine: Raw | None = None
    to: Raw | None = None
    role: Raw | None = None
    task: Raw | None = None
    memory: AskMemory | None = None
    tools: Raw | None = None
    temperature: Raw | None = None
    max_tokens: Raw | None = None
    returns: tuple[Field, ...] = ()
    assuming: tuple[Config, ...] = ()
    inputs: tuple[Config, ...] = ()
    retry: Retry | None = None


class Branch(SourceNode, frozen=True):
    """A condition and its steps."""

    test: Raw
    body: Block


class Decide(SourceNode, frozen=True):
    """The first branch whose condition holds, or `otherwise`."""

    name: Raw
    branches: tuple[Branch, ...] = ()
    otherwise: Block | None = None


class Remember(SourceNode, frozen=True):
    """Content to add to a collection."""

    name: Raw
    config: tuple[Config, ...] = ()
    retry: Retry | None = None


class Recall(SourceNode, frozen=True):
    """A search in a collection."""

    name: Raw
    config: tuple[Config, ...] = ()
    retry: Retry | None = None


class WaitFor(SourceNode, frozen=True):
    """An event from outside that the run waits for."""

    name: Raw
    config: tuple[Config, ...] = ()
    schema: tuple[Field, ...] = ()


@final
class RunFlow(SourceNode, frozen=True):
    """A flow to run; a `jump` does not return."""

    flow: Raw
    jump: bool = False


@final
class Result(SourceNode, frozen=True):
    """An expression on a line of its own, the value of its block."""

    value: Raw


NamedStep: TypeAlias = Compute | Ask | Decide | Remember | Recall | WaitFor
Item: TypeAlias = NamedStep | Retry | RunFlow | Result
Block: TypeAlias = tuple[Item, ...]


class Flow(SourceNode, frozen=True):
    """Named steps, and the steps that handle a failure."""

    name: Raw
    body: Block = ()
    on_failure: Block | None = None


class Implements(SourceNode, frozen=True):
    """The steps of a machine, its flows, and the steps that handle a failure."""

    body: Block = ()
    flows: tuple[Flow, ...] = ()
    on_failure: Block | None = None


# --- tests and the whole ----------------------------------------------------------------------------------------


class Mapping(SourceNode, frozen=True):
    """A map as one expression, or as `key: value` lines."""

    value: Raw | None = None
    entries: tuple[Config, ...] = ()


class Assumption(SourceNode, frozen=True):
    """The value of a step in a test."""

    step: Raw
    gives: Mapping


FAILS = "error"
"""The only key of an expectation that the run fails, unless it is an output of the machine."""


class Test(SourceNode, frozen=True):
    """A test: an input, assumptions, and an expectation."""

    __test__ = False

    name: Raw
    given: Mapping | None = None
    assuming: tuple[Assumption, ...] = ()
    expect: Mapping | None = None


class Kept(SourceNode, frozen=True):
    """A section that has no effect here."""

    name: str
    lines: tuple[Line, ...]


class Document(SourceNode, frozen=True):
    """A machine, or a fragment of one without a name."""

    name: Raw | None = None
    title: Raw | None = None
    accepts: tuple[Field, ...] | None = None
    responds: tuple[Field, ...] | None = None
    achieves: tuple[Line, ...] = ()
    ensures: Ensures | None = None
    implements: Implements | None = None
    tests: tuple[Test, ...] = ()
    kept: tuple[Kept, ...] = ()


_FLOW = re.compile(r"flow\s*\(\s*([^\W\d]\w*)\s*\)")


def flow_named(raw: Raw) -> Raw | None:
    """Return the name in `flow(name)`, the value of `on_timeout`; None for anything else."""
    found = _FLOW.fullmatch(raw.text)
    return None if found is None else Raw(found[1], span=raw.excerpt.locate(*found.span(1)))


def value_of(config: tuple[Config, ...], key: str) -> Raw | None:
    """Return the value of a key, or None."""
    return next((one.value for one in config if one.key.text == key), None)
