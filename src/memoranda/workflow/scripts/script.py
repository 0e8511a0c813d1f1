"""What a test of a workflow says, as values: what is there before, what others say and give, what is expected."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from memoranda.agent.failures import Reason
from memoranda.lang.scripts.comparing import How, Wording
from memoranda.lang.source import Source, Span
from memoranda.lang.yaml import Node
from memoranda.model.definition import Mode

StepKind = Literal["as", "thread", "run", "deliver", "wait", "cancel", "expect"]
Compared = Literal["output", "outputs", "context", "memory", "waiting"]
STATUSES = ("completed", "waiting", "failed", "cancelled", "refused")
"""How a step can leave its run; a run that could not begin at all is refused."""
COMPARED: tuple[Compared, ...] = ("output", "outputs", "context", "memory", "waiting")
"""What is compared value by value."""
COMPARISONS: tuple[How, ...] = ("has", "is", "not", "matches")
"""How words can be compared; a text alone is all of them."""
REASONS: tuple[Reason, ...] = (
    "timeout",
    "rate_limited",
    "refused",
    "invalid_answer",
    "silent",
    "unreachable",
    "provider",
)
ANY = "any"
"""The model that stands for all that have no replies of their own."""
PLACES = ("global", "workflow", "thread", "run")
"""Where the records of a workflow belong."""


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """A definition that every test begins with."""

    slug: str
    span: Span
    schema: dict[str, Any]
    id: str | None = None
    name: str
    scope: str = "global"
    ttl: int | None = None
    mode: Mode | None = None


class Line(msgspec.Struct, frozen=True):
    """What was said in the thread before the test."""

    by_owner: bool
    text: str


class Spoken(msgspec.Struct, frozen=True, kw_only=True):
    """One reply of a model: words, an object, tools it calls, or why it failed."""

    text: str = ""
    value: dict[str, Any] | None = None
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    error: Reason | None = None


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Why an action fails in a test."""

    type: str = "error"
    message: str = ""
    retryable: bool | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What an action gives instead of acting: a value, or a failure."""

    value: Any = None
    error: Trouble | None = None


class Speaking(msgspec.Struct, frozen=True):
    """What a model replies, in order."""

    name: str
    span: Span
    replies: tuple[Spoken, ...]


class Acting(msgspec.Struct, frozen=True):
    """What a task or all tasks of an action give, in order, and the last of it from then on."""

    name: str
    span: Span
    answers: tuple[Answer, ...]


class Because(msgspec.Struct, frozen=True, kw_only=True):
    """The error that is expected; what is not said does not count."""

    type: str | None = None
    step: str | None = None
    message: tuple[Wording, ...] = ()


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What a step is expected to come to; what is not said does not count."""

    places: dict[str, Node]
    """Where each of these was said."""
    status: str | None = None
    error: Because | None = None
    messages: tuple[tuple[Wording, ...], ...] | None = None
    values: dict[Compared, Any] = {}


class Step(msgspec.Struct, frozen=True):
    """One thing that a test does or looks at, and where it stands."""

    kind: StepKind
    value: Any
    span: Span


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """One test: whose run it is, what is there before, what others say and give, and what is done and expected."""

    name: str
    span: Span
    owner: str = "tester"
    thread: str | None = None
    now: str = "2026-01-01T12:00:00+00:00"
    input: dict[str, Any] = {}
    memory: dict[str, tuple[Any, Span]] = {}
    messages: tuple[Line, ...] = ()
    models: tuple[Speaking, ...] = ()
    actions: tuple[Acting, ...] = ()
    steps: tuple[Step, ...] = ()


class ScriptFile(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a file of tests says; paths are relative to it."""

    source: Source
    workflow: str | None = None
    workflows: tuple[str, ...] = ()
    actions: str | None = None
    servers: dict[str, str] = {}
    definitions: tuple[Given, ...] = ()
    scripts: tuple[Script, ...] = ()
