"""Fixtures for runs: a bakery with a fake clock, and actions that record what they did."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from textwrap import dedent
from typing import Any

import pytest

import memoranda
from memoranda.api.memory import Memory
from memoranda.model.definition import Definition
from memoranda.testing import FakeClock
from memoranda.workflow import Action
from memoranda.workflow.actions.base import Call
from memoranda.workflow.workflow import Workflow

PATIENCE = 60.0
"""Seconds after which something counts as hung. Only a hang takes this long; nothing is measured with it."""

COUNT: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Bell:
    """A point at which actions wait until a test releases them; it also counts the arrivals."""

    def __init__(self) -> None:
        self._rung = threading.Event()
        self._come = threading.Semaphore(0)

    def await_ring(self) -> None:
        """Arrive, and wait until it rings."""
        self._come.release()
        assert self._rung.wait(PATIENCE), "nobody rang the bell"

    def await_guests(self, count: int = 1) -> None:
        """Wait until this number of actions has arrived."""
        for _ in range(count):
            assert self._come.acquire(timeout=PATIENCE), "nobody came to the bell"

    def ring(self) -> None:
        self._rung.set()

    @property
    def rung(self) -> bool:
        return self._rung.is_set()


class Kitchen:
    """Actions that record what they did, in order."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.bells: dict[str, Bell] = {}
        self._lock = threading.Lock()
        self.actions: dict[str, Action] = {}
        self.add("note", self._note)
        self.add("give", lambda call: call.inputs.get("value"))
        self.add("burn", self._burn)
        self.add("ask", self._ask)
        self.add("stand", self._stand)

    def add(self, name: str, act: Callable[[Call], Any], **options: Any) -> Action:
        self.actions[name] = Action(name=name, act=act, **options)
        return self.actions[name]

    def bell(self, name: str) -> Bell:
        with self._lock:
            return self.bells.setdefault(name, Bell())

    def tell(self, what: Any) -> None:
        with self._lock:
            self.done.append(what)

    def _note(self, call: Call) -> Any:
        """Record the inputs, and return them."""
        self.tell(dict(call.inputs))
        return call.inputs

    def _burn(self, call: Call) -> Any:
        """Fail."""
        self.tell({"burnt": call.task})
        raise RuntimeError(call.inputs.get("why", "burnt"))

    def _ask(self, call: Call) -> Any:
        """Suspend the run until an answer is delivered."""
        self.tell({"asks": call.task})
        got = call.place.wait(call.inputs.get("event", "answer"), timeout=call.inputs.get("timeout"))
        self.tell({"got": got})
        return {"got": got}

    def _stand(self, call: Call) -> Any:
        """Wait for a bell, and then return a value."""
        self.bell(call.inputs["bell"]).await_ring()
        return call.inputs.get("value")


Load = Callable[..., Workflow]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memory(clock: FakeClock) -> Iterator[Memory]:
    with memoranda.open(":memory:", clock=clock) as memory:
        yield memory


@pytest.fixture
def kitchen() -> Iterator[Kitchen]:
    kitchen = Kitchen()
    yield kitchen
    for bell in kitchen.bells.values():
        bell.ring()


@pytest.fixture
def load(memory: Memory, kitchen: Kitchen) -> Load:
    """Return a function that loads a workflow with the actions of the kitchen."""

    def load(text: str, **options: Any) -> Workflow:
        options.setdefault("memory", memory)
        options.setdefault("actions", list(kitchen.actions.values()))
        return memoranda.workflow.load(dedent(text), **options)

    return load


@pytest.fixture
def define(memory: Memory) -> Callable[..., Definition]:
    """Return a function that makes a definition with a number `n`, from a slug and what matters to a test."""

    def define(slug: str, **options: Any) -> Definition:
        return memory.definitions.create(**{"name": slug.title(), "slug": slug, "schema": COUNT, **options})

    return define
