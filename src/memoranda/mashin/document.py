"""What a machine says, as frozen values: the parser's result. Expressions are raw text here and know their places.

Where a part stands and how it is laid out does not count for equality: texts that say the same are equal documents.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from memoranda.lang.tree import Node, Raw
from memoranda.mashin.lines import Line

# --- fields -----------------------------------------------------------------------------------------------------


class Config(Node, frozen=True):
    """`key: expression`."""

    key: Raw
    value: Raw


class Type(Node, frozen=True):
    """The type of a field as it was written; of a list its `item`, of an enum its `choices`, of a map its `shape`."""

    name: str
    item: Type | None = None
    choices: tuple[Raw, ...] = ()
    shape: Raw | None = None


class Field(Node, frozen=True):
    """`name as type` and what follows it."""

    name: Raw
    type: Type
    required: bool = False
    default: Raw | None = None
    description: Raw | None = None
    label: Raw | None = None
    constraints: tuple[Config, ...] = ()
    source: Raw | None = None
    """The step, or the path, that an output comes from."""


# --- ensures ----------------------------------------------------------------------------------------------------

Verdict: TypeAlias = Literal["allow", "deny", "approve"]


class Capability(Node, frozen=True):
    """A capability by its name as written; `call "machine"` is `machine.call` for one machine."""

    name: Raw
    machine: Raw | None = None


class Permission(Node, frozen=True):
    """Capabilities that are allowed, not allowed, or need approval."""

    verdict: Verdict
    capabilities: tuple[Capability, ...]


class Guard(Node, frozen=True):
    """A named rule, and what happens when it is broken."""

    name: Raw
    on_violation: Raw | None = None


class Ensures(Node, frozen=True):
    """What a machine may do, what it needs, and its guards."""

    permissions: tuple[Permission, ...] = ()
    authority: tuple[Config, ...] = ()
    guards: tuple[Guard, ...] = ()
    needs: tuple[Config, ...] = ()


# --- steps ------------------------------------------------------------------------------------------------------


class Retry(Node, frozen=True):
    """How often something is tried again; as a step of its own it has steps below it."""

    config: tuple[Config, ...] = ()
    steps: Block = ()


class Let(Node, frozen=True):
    """`let name = expression`."""

    name: Raw
    value: Raw


class Compute(Node, frozen=True):
    """A value by expressions: some under names, the last as the result."""

    name: Raw
    lets: tuple[Let, ...] = ()
    result: Raw | None = None


class Ask(Node, frozen=True):
    """A question to a model (`using`) or to another machine (`machine`)."""

    name: Raw
    using: Raw | None = None
    machine: Raw | None = None
    to: Raw | None = None
    role: Raw | None = None
    task: Raw | None = None
    tools: Raw | None = None
    temperature: Raw | None = None
    max_tokens: Raw | None = None
    returns: tuple[Field, ...] = ()
    assuming: tuple[Config, ...] = ()
    inputs: tuple[Config, ...] = ()
    retry: Retry | None = None


class Branch(Node, frozen=True):
    """A condition, and what is done when it holds."""

    test: Raw
    body: Block


class Decide(Node, frozen=True):
    """The first branch whose condition holds, or the last one."""

    name: Raw
    branches: tuple[Branch, ...] = ()
    otherwise: Block | None = None


class Remember(Node, frozen=True):
    """Content that goes into a collection."""

    name: Raw
    config: tuple[Config, ...] = ()
    retry: Retry | None = None


class Recall(Node, frozen=True):
    """A search in a collection."""

    name: Raw
    config: tuple[Config, ...] = ()
    retry: Retry | None = None


class WaitFor(Node, frozen=True):
    """An event from outside that the run waits for."""

    name: Raw
    config: tuple[Config, ...] = ()
    schema: tuple[Field, ...] = ()


class RunFlow(Node, frozen=True):
    """A flow that runs here; after a `jump` nothing comes back."""

    flow: Raw
    jump: bool = False


class Result(Node, frozen=True):
    """An expression on a line of its own: the value of its block."""

    value: Raw


NamedStep: TypeAlias = Compute | Ask | Decide | Remember | Recall | WaitFor
Item: TypeAlias = NamedStep | Retry | RunFlow | Result
Block: TypeAlias = tuple[Item, ...]


class Flow(Node, frozen=True):
    """Steps under a name, and what is done when one of them fails."""

    name: Raw
    body: Block = ()
    on_failure: Block | None = None


class Implements(Node, frozen=True):
    """The steps of a machine in their order, its flows, and what is done when a step fails."""

    body: Block = ()
    flows: tuple[Flow, ...] = ()
    on_failure: Block | None = None


# --- tests and the whole ----------------------------------------------------------------------------------------


class Mapping(Node, frozen=True):
    """A map as one expression, or as `key: value` lines."""

    value: Raw | None = None
    entries: tuple[Config, ...] = ()


class Assumption(Node, frozen=True):
    """What a step gives in a test."""

    step: Raw
    gives: Mapping


FAILS = "error"
"""The one key of an expectation that a run fails, where the machine does not respond with it."""


class Test(Node, frozen=True):
    """An input, what is assumed, and what is expected."""

    __test__ = False

    name: Raw
    given: Mapping | None = None
    assuming: tuple[Assumption, ...] = ()
    expect: Mapping | None = None


class Kept(Node, frozen=True):
    """A section that is not acted on."""

    name: str
    lines: tuple[Line, ...]


class Document(Node, frozen=True):
    """A machine, or a fragment of one: then the name is missing and only what was written is there."""

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
    """Return the name in `flow(name)`, as `on_timeout` is written; None for anything else."""
    found = _FLOW.fullmatch(raw.text)
    return None if found is None else Raw(found[1], span=raw.excerpt.locate(*found.span(1)))


def value_of(config: tuple[Config, ...], key: str) -> Raw | None:
    """Return the value of a key; None where it is not given."""
    return next((one.value for one in config if one.key.text == key), None)
