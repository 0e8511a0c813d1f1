"""A fake run at a bicycle workshop that records what actions do, and scripted models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

import memoranda
from memoranda.agent.models import Ask, Reply, ToolCall
from memoranda.api.memory import Memory
from memoranda.lang.egress import LOCAL_EGRESS
from memoranda.model.definition import Definition
from memoranda.runs.outcome import Paused, Waiting
from memoranda.runs.provenance import Provenance
from memoranda.runs.records import WorkingMemory, load_memory
from memoranda.testing import FakeClock
from memoranda.workflow.actions.base import Call, Message, carry_out, find_action
from memoranda.workflow.actions.builtin import BUILTIN

BIKE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "frame_colour": {"type": "string", "description": "As the owner calls it."},
        "gears": {"type": "integer"},
        "worn_parts": {"type": "array", "items": {"type": "string"}},
    },
}


class FakePlace:
    """A run whose memory is real; everything else is recorded."""

    run = "run-1"
    workflow = "workshop"
    owner = "mira"
    egress = LOCAL_EGRESS

    def __init__(self, memory: WorkingMemory, clock: FakeClock) -> None:
        self.memory = memory
        self.clock = clock
        self.thread: str | None = "thread-1"
        self.told: list[Provenance] = []
        self.input: dict[str, Any] = {"text": "My brakes squeal."}
        self.sent: list[str] = []
        self.context: dict[str, Any] = {}
        self.said: list[Message] = []
        self.limits: list[int] = []
        self.workflows: list[tuple[str, dict[str, Any]]] = []
        self.tasks: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, Any] = {}
        self.delivered: list[Any] = []
        self.waits: list[tuple[str, float | None]] = []

    def send(self, text: str) -> None:
        self.sent.append(text)

    def history(self, limit: int) -> list[Message]:
        self.limits.append(limit)
        return self.said[-limit:]

    def set_context(self, values: Mapping[str, Any]) -> None:
        self.context.update(values)

    def call_workflow(self, name: str, input: Mapping[str, Any]) -> Any:
        self.workflows.append((name, dict(input)))
        return self.answers.get(name)

    def wait(self, event: str, *, timeout: float | None = None) -> Any:
        self.waits.append((event, timeout))
        if not self.delivered:
            raise Paused(Waiting(kind="event", step="step", event=event))
        return self.delivered.pop(0)

    def tell_model(self, made_of: Provenance) -> None:
        self.told.append(made_of)

    def call_task(self, task: str, arguments: Mapping[str, Any]) -> Any:
        self.tasks.append((task, dict(arguments)))
        answer = self.answers.get(task)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Scripted:
    """A model that gives scripted replies, one per request, and records its requests."""

    name = "made:up"

    def __init__(self, *replies: Reply | Exception | str) -> None:
        self.replies = list(replies)
        self.asked: list[Ask] = []
        self.timeouts: list[float] = []

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        self.asked.append(ask)
        self.timeouts.append(timeout)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return Reply(reply, tokens_in=10, tokens_out=3) if isinstance(reply, str) else reply


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memory(clock: FakeClock) -> Iterator[Memory]:
    with memoranda.open(":memory:", clock=clock) as memory:
        yield memory


@pytest.fixture
def bike(memory: Memory) -> Definition:
    return memory.definitions.create(name="Bike", slug="bike", schema=BIKE)


@pytest.fixture
def place(memory: Memory, bike: Definition, clock: FakeClock) -> FakePlace:
    return FakePlace(load_memory(memory, owner="mira", workflow="workshop", thread="thread-1", run="run-1"), clock)


@pytest.fixture
def scripted() -> type[Scripted]:
    return Scripted


@pytest.fixture
def wants() -> Callable[..., Reply]:
    """Return a function that makes a reply with tool calls: `wants(("name", {…}), …)`."""

    def wants(*calls: tuple[str, dict[str, Any]], text: str = "") -> Reply:
        made = tuple(ToolCall(f"c{place}", name, arguments) for place, (name, arguments) in enumerate(calls))
        return Reply(text, made, tokens_in=10, tokens_out=3)

    return wants


@pytest.fixture
def act(place: FakePlace) -> Callable[..., Any]:
    """Return a function that carries out a built-in action as a run does."""

    def act(name: str, inputs: Any = None, settings: dict[str, Any] | None = None, **rest: Any) -> Any:
        call = Call(task="step", inputs=inputs or {}, settings=settings or {}, **{"place": place, **rest})
        return carry_out(find_action(BUILTIN, name), call)

    return act
