"""What a machine was compiled to: frozen steps whose expressions are ready to run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, final

import msgspec

from memoranda.lang.expression.program import Expression
from memoranda.mashin.contracts import Contract
from memoranda.mashin.document import Document
from memoranda.mashin.guards import GuardUse
from memoranda.mashin.permissions import Permissions

Config: TypeAlias = tuple[tuple[str, Expression], ...]
"""Expressions by name, in the order in which they were written."""


class Attempts(msgspec.Struct, frozen=True):
    """How often something is tried, and how long is waited in between."""

    config: Config


class Compute(msgspec.Struct, frozen=True):
    """A value by an expression."""

    name: str
    program: Expression


class AskModel(msgspec.Struct, frozen=True):
    """A question to a model."""

    name: str
    model: str | None
    words: Config
    """Role, task, tools, temperature and max_tokens, as far as they are there."""
    returns: Contract | None
    assuming: Config
    attempts: Attempts | None


class CallMachine(msgspec.Struct, frozen=True):
    """A call of another machine."""

    name: str
    machine: str
    purpose: str | None
    inputs: Config
    returns: Contract | None
    assuming: Config
    attempts: Attempts | None


class Remember(msgspec.Struct, frozen=True):
    """Content that goes into a collection."""

    name: str
    config: Config
    attempts: Attempts | None


class Recall(msgspec.Struct, frozen=True):
    """A search in a collection."""

    name: str
    config: Config
    attempts: Attempts | None


class Branch(msgspec.Struct, frozen=True):
    """A condition, and what is done when it holds."""

    test: Expression
    body: Block


class Decide(msgspec.Struct, frozen=True):
    """The first branch whose condition holds."""

    name: str
    branches: tuple[Branch, ...]
    otherwise: Block | None


class WaitFor(msgspec.Struct, frozen=True):
    """An event from outside."""

    name: str
    config: Config
    on_timeout: str | None
    schema: Contract | None


@final
class RunFlow(msgspec.Struct, frozen=True):
    """A flow that runs here; after a `jump` nothing comes back."""

    flow: str
    jump: bool


@final
class Value(msgspec.Struct, frozen=True):
    """An expression on a line of its own."""

    program: Expression


@final
class Retry(msgspec.Struct, frozen=True):
    """Steps that are tried again when one of them fails."""

    attempts: Attempts
    body: Block


Effect: TypeAlias = AskModel | CallMachine | Remember | Recall
Step: TypeAlias = Compute | Decide | WaitFor | Effect
Item: TypeAlias = Step | RunFlow | Value | Retry
Block: TypeAlias = tuple[Item, ...]


class Flow(msgspec.Struct, frozen=True):
    """Steps under a name, and what is done when one of them fails; the main steps have no name."""

    name: str
    body: Block
    on_failure: Block | None


class Test(msgspec.Struct, frozen=True):
    """An input, what is assumed of steps, and what is expected."""

    __test__ = False

    name: str
    line: int
    given: Expression | None
    assuming: tuple[tuple[str, Expression], ...]
    expect: Expression | None


class Plan(msgspec.Struct, frozen=True):
    """A machine that is ready to run."""

    name: str
    title: str
    source: str
    digest: str
    document: Document
    accepts: Contract
    responds: Contract | None
    origins: Mapping[str, tuple[str, ...]]
    """Outputs that come from a step of their own: the path to read."""
    permissions: Permissions
    guards: tuple[GuardUse, ...]
    needs: tuple[str, ...]
    main: Flow
    flows: Mapping[str, Flow]
    steps: Mapping[str, Step]
    tests: tuple[Test, ...]
