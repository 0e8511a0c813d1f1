"""The compiled form of a workflow: everything that is known before a run."""

from __future__ import annotations

from typing import Any

import msgspec

from memoranda.engine.validator import Validator
from memoranda.runs.records import BlockBinding
from memoranda.workflow.actions.base import Action
from memoranda.workflow.document import Document, Settings
from memoranda.workflow.expressions import Template

_LONGEST_MS = 1_000 * 3_600 * 24 * 365 * 10
"""Ten years, within the range of any clock."""


class Retrying(msgspec.Struct, frozen=True, kw_only=True):
    """How often a failed task is retried, and after which delays."""

    enabled: bool = False
    max_attempts: int = 3
    backoff_ms: float = 25
    max_delay_ms: float = 10_000
    jitter: float = 0
    multiplier: float = 1


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The timeout and the retries of one task; a timeout of 0 is none."""

    timeout_ms: float = 0
    retries: Retrying = Retrying()


def policy_of(defaults: Settings | None, own: Settings | None) -> Policy:
    """Return the policy of a task: its own settings, then those of all tasks, then the defaults of the language."""
    timeout: float = 0
    given: dict[str, bool | float] = {}
    for settings in (defaults, own):
        if settings is None:
            continue
        timeout = timeout if settings.timeout_ms is None else settings.timeout_ms
        for field in Retrying.__struct_fields__:
            if (value := getattr(settings.retries, field, None)) is not None:
                given[field] = value
    return Policy(timeout_ms=min(timeout, _LONGEST_MS), retries=msgspec.convert(given, Retrying))


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A model as the file describes it."""

    name: str
    """As `provider:model`."""
    base_url: str | None = None
    credential: str | None = None
    """The name of its API key, never the key itself."""
    organization: str | None = None


class ToolUse(msgspec.Struct, frozen=True, kw_only=True):
    """An action that a model may call."""

    name: str
    description: str
    call: Use


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """An action with its settings and bindings, as a task or a tool uses it."""

    action: Action
    settings: Template
    model: ModelChoice | None = None
    memories: tuple[str | BlockBinding, ...] = ()
    """The ids of the mounted memory definitions, and the mounted blocks, in order."""
    tools: tuple[ToolUse, ...] = ()


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One task: its action, its inputs, and its timeout and retries."""

    name: str
    use: Use
    inputs: Template
    policy: Policy


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A compiled workflow."""

    name: str
    source: str
    digest: str
    document: Document
    schema: dict[str, Any] | None
    """The JSON schema of the input."""
    validator: Validator | None
    tasks: dict[str, Task]
    """The tasks of the flow, by name."""
    templates: dict[str, Template]
    """The compiled values of the flow, the context and the outputs, by their paths in the document."""
    definition_ids: tuple[str, ...]
    """All memory definitions that the file names, even unused ones."""
    blocks: tuple[BlockBinding, ...] = ()
    """All memory blocks that the file binds, even unused ones."""
