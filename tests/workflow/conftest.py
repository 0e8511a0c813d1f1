"""Fixtures for the checklist: the memory of an allotment garden, with a fake clock, and workflows on it.

The numbers in the names of tests are those of the list of behaviours, and T with a number those of claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from textwrap import dedent
from typing import Any

import pytest

import memoranda
from memoranda.agent.models import Ask, Reply, ToolCall
from memoranda.api.memory import Memory
from memoranda.model.definition import Definition
from memoranda.testing import FakeClock
from memoranda.workflow import Run, Workflow

COUNT: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

Define = Callable[..., Definition]
Load = Callable[..., Workflow]
Keep = Callable[..., Run]
Look = Callable[..., dict[str, Any]]
Asking = Callable[..., Run]


class Scripted:
    """A model that gives scripted replies, one per request, and records its requests."""

    name = "made:up"

    def __init__(self, *replies: Reply | str) -> None:
        self.replies = list(replies)
        self.asked: list[Ask] = []

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        self.asked.append(ask)
        assert self.replies, "the model was asked once more than it has replies"
        reply = self.replies.pop(0)
        return Reply(reply, tokens_in=10, tokens_out=3) if isinstance(reply, str) else reply


@pytest.fixture
def scripted() -> type[Scripted]:
    return Scripted


@pytest.fixture
def wants() -> Callable[..., Reply]:
    """Return a function that makes a reply with tool calls: `wants(("name", {…}), …)`."""

    def wants(*calls: tuple[str, dict[str, Any]]) -> Reply:
        made = tuple(ToolCall(f"c{place}", name, arguments) for place, (name, arguments) in enumerate(calls))
        return Reply("", made, tokens_in=10, tokens_out=3)

    return wants


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memory(clock: FakeClock) -> Iterator[Memory]:
    with memoranda.open(":memory:", clock=clock) as memory:
        yield memory


@pytest.fixture
def define(memory: Memory) -> Define:
    """Return a function that makes a definition from a slug and what matters to a test."""

    def define(slug: str, **options: Any) -> Definition:
        name = slug.replace("_", " ").title()
        return memory.definitions.create(**{"name": name, "slug": slug, "schema": COUNT, **options})

    return define


@pytest.fixture
def scoped(define: Define) -> list[Definition]:
    """One definition for each scope of a run: `plot`, `season`, `gossip` and `errand`."""
    return [
        define("plot"),
        define("season", scope="workflow"),
        define("gossip", scope="thread"),
        define("errand", scope="run"),
    ]


@pytest.fixture
def load(memory: Memory) -> Load:
    """Return a function that loads the source of a workflow."""

    def load(text: str, **options: Any) -> Workflow:
        return memoranda.workflow.load(dedent(text), **{"memory": memory, **options})

    return load


def bound(*definitions: Definition | str) -> str:
    """Return lines of `defs` that name these definitions, or these ids."""
    ids = [one if isinstance(one, str) else one.id for one in definitions]
    return "".join(f"  memory_{n}: {{kind: memory, settings: {{definition_id: {id}}}}}\n" for n, id in enumerate(ids))


@pytest.fixture
def keep(load: Load) -> Keep:
    """Return a function that runs a workflow which writes records, by default for Nora."""

    def keep(
        updates: Any, *definitions: Definition | str, owner: Any = "nora", thread: Any = None, **options: Any
    ) -> Run:
        text = (
            f"defs:\n{bound(*definitions)}"
            '  keep: {kind: task, action: update_memory, inputs: {memory: "=$input.memory"}}\n'
            "flow:\n  - do: keep\n"
            'outputs: {given: "=$output.keep", seen: "=$context.memory"}\n'
        )
        return load(text, **{"name": "garden", **options}).run({"memory": updates}, owner=owner, thread=thread)

    return keep


@pytest.fixture
def look(keep: Keep) -> Look:
    """Return a function that shows which records a run starts with, in a run that writes none."""

    def look(*definitions: Definition | str, **options: Any) -> dict[str, Any]:
        run = keep({}, *definitions, **options).check()
        assert run.output == {"given": {}, "seen": run.context["memory"]}
        return run.context["memory"]

    return look


@pytest.fixture
def ask(load: Load) -> Asking:
    """Return a function that runs a workflow which asks a model, with these definitions mounted."""

    def ask(model: Any, *definitions: Definition, owner: str = "nora", action: str = "ai_agent", **options: Any) -> Run:
        names = ", ".join(f"memory_{n}" for n in range(len(definitions)))
        mounted = f", memory: [{names}]" if names else ""
        text = (
            f"defs:\n{bound(*definitions)}"
            "  primary: {kind: model, settings: {provider: openai, model_id: gpt-5.2}}\n"
            "  answer:\n    kind: task\n"
            f"    action: {action}\n"
            '    inputs: {prompt: "=$input.question", system: Answer briefly.}\n'
            f"    bindings: {{model: primary{mounted}}}\n"
            "flow:\n  - do: answer\n"
        )
        given = {"question": "When do I sow peas?"}
        return load(text, **{"name": "garden", "model": model, **options}).run(given, owner=owner)

    return ask
