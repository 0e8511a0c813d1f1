"""Machines of any shape: interrupted at every effect or not, replayed or simulated, they come out the same."""

from __future__ import annotations

from textwrap import indent
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memoranda
from memoranda.agent.models import Ask, Reply
from memoranda.api.memory import Memory
from memoranda.mashin import Behaviour, Machine, Run
from memoranda.testing import FakeClock

pytestmark = pytest.mark.slow

MOST = 40
"""Pauses after which a run that still waits has gone wrong."""


class Counting:
    """A model that answers with how often it was asked."""

    name = "counting"

    def __init__(self) -> None:
        self.tasks: list[str] = []

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        self.tasks.append(ask.messages[0].text)
        return Reply(value={"v": len(self.tasks)}, tokens_in=1, tokens_out=1)


class Writer:
    """Draws the text of a machine, so that names are known before they are used."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw
        self._count = 0
        self._names: list[str] = []
        """Steps that can be read from here."""
        self._flows: list[str] = []

    def machine(self, permissions: str) -> str:
        body = self.block(3)
        main = self.failing() if self._draw(st.booleans()) else ""
        flows = "".join(f"flow f{number}\n{indent(text, '  ')}" for number, text in enumerate(self._flows))
        steps = indent(body + flows + main, "    ")
        return f"machine any\n  ensures\n    {permissions}\n  implements\n{steps}"

    def block(self, depth: int) -> str:
        kinds = ["compute", "remember", "recall", "ask", "wait", "broken"]
        kinds += ["decide", "flow", "retry"] if depth else []
        chosen = self._draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4))
        return "".join(getattr(self, kind)(depth) for kind in chosen)

    def name(self, letter: str) -> str:
        self._count += 1
        self._names.append(f"{letter}{self._count}")
        return self._names[-1]

    def value(self) -> str:
        """Return an expression over the steps so far, as far as they were taken."""
        number = self._draw(st.integers(0, 3))
        if not self._names:
            return str(number)
        return f"((steps.{self._draw(st.sampled_from(self._names))}?.v ?? 0) + {number})"

    def compute(self, depth: int) -> str:
        value = self.value()
        return f"compute {self.name('c')}\n  {{ v: {value}, at: now() }}\n"

    def broken(self, depth: int) -> str:
        value = self.value()
        return f"compute {self.name('b')}\n  {{ v: {value} > 4 ? null.x : 1 }}\n"

    def remember(self, depth: int) -> str:
        value = self.value()
        return f'remember {self.name("r")}\n  content: "kept " + {value} + " {self._count}"\n  collection: "any"\n'

    def recall(self, depth: int) -> str:
        return f'recall {self.name("q")}\n  query: "kept"\n  collection: "any"\n  limit: 2\n'

    def ask(self, depth: int) -> str:
        value = self.value()
        return f'ask {self.name("a")}, using: "m:m"\n  with task "say " + {value}\n  returns\n    v as integer\n'

    def wait(self, depth: int) -> str:
        return f'wait for {self.name("w")}\n  event: "e"\n  schema\n    v as integer, is required\n'

    def decide(self, depth: int) -> str:
        value = self.value()
        before = tuple(self._names)
        yes = indent(self.block(depth - 1), "    ")
        then, self._names = self._names, list(before)
        no = indent(self.block(depth - 1), "    ")
        self._names = [*then, *self._names[len(before) :]]
        return f"decide {self.name('d')}\n  when {value} > 1\n{yes}  otherwise\n{no}"

    def flow(self, depth: int) -> str:
        text = self.block(depth - 1) + (self.failing() if self._draw(st.booleans()) else "")
        self._flows.append(text)
        return f"run flow(f{len(self._flows) - 1})\n"

    def retry(self, depth: int) -> str:
        return f"retry\n  max: 2\n  delay: 1\n{indent(self.block(0), '  ')}"

    def failing(self) -> str:
        name = self.name("s")
        return f"on failure\n  compute {name}\n    {{ v: 9, was: error.type, step: error.step }}\n"


@st.composite
def machines(draw: Any) -> str:
    return Writer(draw).machine("PERMISSIONS")


class Ended(NamedTuple):
    """What can be compared of two runs."""

    status: str
    output: Any
    failure: tuple[str, str] | None
    entries: list[Any]
    tasks: list[str]
    records: list[tuple[str, str | None]]


def without_ids(value: Any) -> Any:
    """Return a value without what differs from run to run: ids, moments, and scores, which are sums of fractions."""
    if isinstance(value, dict):
        return {name: without_ids(one) for name, one in value.items() if name not in ("id", "score", "at")}
    return [without_ids(one) for one in value] if isinstance(value, list) else value


def ended(text: str, permissions: str) -> tuple[Run, Ended, Memory]:
    clock, model = FakeClock(), Counting()
    memory = memoranda.open(":memory:", clock=clock, embedder="hashing:64")
    source = text.replace("PERMISSIONS", permissions)
    machine = memoranda.mashin.load(source, memory=memory, model=model, behaviour=Behaviour(sleep=lambda _: None))
    run = drive_events(machine, machine.run(), clock)
    clock.advance(1000)
    held = {one.name for one in memory.collections.list()}
    entries = [one.content for one in memory.scope().entries(collection="any")] if held else []
    records = [(one.kind, one.step) for one in run.events if one.kind != "policy_decision"]
    failure = None if run.error is None else (run.error.type, run.error.step)
    return run, Ended(run.status, without_ids(run.output), failure, entries, model.tasks, records), memory


def drive_events(machine: Machine, run: Run, clock: FakeClock) -> Run:
    """Approve everything, and deliver the same events in the same order whatever is approved in between."""
    events = 0
    for _ in range(MOST):
        if run.waiting is None:
            return run
        clock.advance(60)
        run = machine.find(run.id)
        assert run.waiting is not None
        if run.waiting.kind == "approval":
            run = run.approve()
        else:
            run = run.deliver({"v": events % 3})
            events += 1
    raise AssertionError("the run waits for ever")


@given(text=machines())
def test_a_run_that_is_held_at_every_effect_comes_out_as_one_that_is_not(text: str) -> None:
    straight, expected, first = ended(text, "allowed to memory, llm_call")
    held, got, second = ended(text, "requires approval for memory, llm_call")
    with first, second:
        assert got == expected
        for run in (straight, held):
            assert run.verify().ok, run.verify()
            assert [event.index for event in run.events] == list(range(1, len(run.events) + 1))
            again = run.replay()
            assert again.same, again.differences
            assert again.output == run.output
        assert first.ledger.verify().ok
        assert second.ledger.verify().ok


@given(text=machines(), capability=st.sampled_from(["memory.write", "memory.read", "llm_call"]))
def test_a_simulated_denial_is_what_the_denial_would_have_been(text: str, capability: str) -> None:
    allowed, _, first = ended(text, "allowed to memory, llm_call")
    denied, truth, second = ended(text, f"allowed to memory, llm_call\n    not allowed to {capability}")
    with first, second:
        seen = allowed.simulate(deny=[capability])
        really = [event.step for event in denied.events if event.decision == "deny"]
        assert [one.step for one in seen.denied][:1] == really[:1]
        off_the_record = seen.status == "waiting" or (seen.error is not None and "recorded" in seen.error.message)
        if not off_the_record and not diverged(text):
            assert (seen.status, without_ids(seen.output)) == (truth.status, truth.output)
            assert [one.step for one in seen.denied] == really
        assert allowed.simulate().changed == ()


def diverged(text: str) -> bool:
    """Say whether what the rest gives depends on what came before, so that a record cannot tell it."""
    return any(word in text for word in ("ask ", "wait for ", "recall "))
