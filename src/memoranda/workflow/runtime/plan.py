"""A workflow that is ready to be run: its steps with everything that can be known before a run."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from memoranda.engine.validator import Validator
from memoranda.workflow.actions.base import Action
from memoranda.workflow.document import Document
from memoranda.workflow.expressions import Template
from memoranda.workflow.policy import Policy


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A model as a file names it."""

    name: str
    """As `provider:model`."""
    base_url: str | None = None
    credential: str | None = None
    """The name of its key, never the key."""
    organization: str | None = None


class ToolUse(msgspec.Struct, frozen=True, kw_only=True):
    """An action that a model may call."""

    name: str
    description: str
    call: Use


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """An action with what is bound to it: how a task or a tool uses it."""

    action: Action
    settings: Template
    model: ModelChoice | None = None
    memories: tuple[str, ...] = ()
    """The ids of the definitions that are mounted, in their order."""
    tools: tuple[ToolUse, ...] = ()


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One task: what is done, with which inputs, and how patiently."""

    name: str
    use: Use
    inputs: Template
    policy: Policy


class Do(msgspec.Struct, frozen=True):
    """Do a task."""

    task: Task


class Parallel(msgspec.Struct, frozen=True, kw_only=True):
    """Do several steps at the same time."""

    path: str
    first_wins: bool
    """Whether the first branch that succeeds is all that is waited for."""
    branches: Block


class Branch(msgspec.Struct, frozen=True):
    """What is done when a condition holds; without one, always."""

    condition: Template | None
    steps: Block


class Conditional(msgspec.Struct, frozen=True, kw_only=True):
    """Do the steps of the first branch whose condition holds."""

    path: str
    branches: tuple[Branch, ...]


class Accumulate(msgspec.Struct, frozen=True, kw_only=True):
    """A value that goes from pass to pass."""

    name: str
    initial: Template | None
    merge: Template
    added: Template | None
    """What is added in each pass, where `merge` does nothing but add it to a list."""


class Loop(msgspec.Struct, frozen=True, kw_only=True):
    """Do steps again and again: for each item, or while something holds."""

    path: str
    name: str | None
    items: Template | None
    test: Template | None
    until: Template | None
    at_once: int
    accumulate: Accumulate | None
    steps: Block


Step: TypeAlias = Do | Parallel | Conditional | Loop
Block: TypeAlias = tuple[Step, ...]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a run needs to know of its workflow."""

    name: str
    source: str
    digest: str
    document: Document
    schema: dict[str, Any] | None
    """The JSON schema of the input."""
    validator: Validator | None
    context: Template | None
    outputs: Template | None
    flow: Block
    definition_ids: tuple[str, ...]
    """The definitions that the file names, whether a task uses them or not."""
