"""Every way in which background work changes memory is on one list, and each of them passes the gate."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import Denied, Memory, Policy
from memoranda.chat.conversation import read_history
from memoranda.chat.open_turn import OpenTurn, begin_turn
from memoranda.model.conversation import Draft, Usage
from memoranda.model.scope import Scope
from memoranda.sleep import extract_by_rules, jobs, worker
from memoranda.testing import FakeClock

# The package exports the function `undo`, which hides the module of the same name.
undoing = import_module("memoranda.sleep.undo")

CHAT = Scope.of(user="ada", thread="c1")
READING = Policy.of(allow=("memory.read",))
WRITING = Policy.of(allow=("memory",))


def standing(memory: Memory) -> jobs.Job:
    return jobs.get_job(memory, CHAT, "tidy")


def running(memory: Memory, owner: Memory) -> jobs.Job:
    found = jobs.lease(owner, standing(owner), worker="w")
    assert found is not None
    return found


def learned(owner: Memory) -> None:
    worker.run_sleep_time(owner, "c1", user="ada")


def undo(memory: Memory, owner: Memory) -> None:
    learned(owner)
    undoing.undo(memory, "c1", user="ada")


def forget(memory: Memory, owner: Memory) -> None:
    learned(owner)
    undoing.forget_conversation(memory, "c1", user="ada")


def take_back(memory: Memory, owner: Memory) -> None:
    learned(owner)
    owner.erase(user="ada", thread="c1")
    undoing.take_back_orphans(memory, [])


def run_due(memory: Memory, owner: Memory) -> None:
    jobs.enqueue(owner, CHAT, "sleep", mark=2)
    worker.run_due(memory)


def run_each(memory: Memory, owner: Memory) -> None:
    jobs.enqueue(owner, CHAT, "sleep", mark=2)
    wait = worker.waiting_time(worker.DELAY)
    list(worker.run_each(memory, extractor=extract_by_rules, wait=wait, worker="w", most_attempts=1))


# How to make each call with a handle; what has to exist before, the owner makes.
MUTATING: dict[str, Callable[[Memory, Memory], Any]] = {
    "jobs.enqueue": lambda memory, owner: jobs.enqueue(memory, CHAT, "other", mark=1),
    "jobs.lease": lambda memory, owner: jobs.lease(memory, standing(owner), worker="w"),
    "jobs.put_off": lambda memory, owner: jobs.put_off(memory, running(memory, owner), until=now(owner), mark=1),
    "jobs.fail": lambda memory, owner: jobs.fail(memory, running(memory, owner), ValueError("x")),
    "jobs.retry": lambda memory, owner: jobs.retry(memory, standing(owner)),
    "worker.settle": lambda memory, owner: worker.settle(memory),
    "worker.run_due": run_due,
    "worker.run_each": run_each,
    "worker.run_sleep_time": lambda memory, owner: worker.run_sleep_time(memory, "c1", user="ada"),
    "undo.undo": undo,
    "undo.forget_conversation": forget,
    "undo.take_back_orphans": take_back,
}
# Calls that read, or return a write for another call's batch.
HARMLESS = {
    "jobs.find_job",
    "jobs.get_job",
    "jobs.list_jobs",
    "jobs.finish_effect",
    "jobs.amend_effect",
    "jobs.check_interrupt",
    "jobs.interrupt_on",
    "worker.extract_by_rules",
    "worker.sleep_jobs",
    "worker.waiting_time",
    "undo.limit_to",
    "undo.sources_of",
}


def now(memory: Memory) -> Any:
    return memory.clock.now()


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Memory]:
    clock = FakeClock()
    with memoranda.open(tmp_path / "m.db", clock=clock) as memory:
        history = read_history(memory, "ada", "c1")
        draft = Draft(kind="user", text="I live in Porto.")
        turn = begin_turn(
            memory, "ada", "c1", history=history, agent_id="desk", message_id="m", drafts=[draft], lease=60
        )
        assert isinstance(turn, OpenTurn)
        turn.answer("Noted.", Usage())
        jobs.enqueue(memory, CHAT, "tidy", mark=1)
        clock.advance(300)
        yield memory


def test_every_call_of_background_work_is_on_the_list() -> None:
    calls = {
        f"{module.__name__.rpartition('.')[2]}.{name}"
        for module in (jobs, worker, undoing)
        for name, member in vars(module).items()
        if inspect.isfunction(member) and member.__module__ == module.__name__ and not name.startswith("_")
    }
    assert calls == set(MUTATING) | HARMLESS


@pytest.mark.parametrize("call", sorted(MUTATING))
def test_g7_a_violating_call_is_refused_and_recorded_and_a_lawful_one_succeeds(call: str, owner: Memory) -> None:
    with pytest.raises(Denied):
        MUTATING[call](owner.acting_as("outside", policy=READING), owner)
    refused = {(event.actor, event.decision) for event in owner.ledger.events() if event.decision == "deny"}
    assert refused == {("outside", "deny")}


@pytest.mark.parametrize("call", sorted(MUTATING))
def test_g7_a_lawful_call_succeeds(call: str, owner: Memory) -> None:
    before = owner.ledger.anchor()
    MUTATING[call](owner.acting_as("inside", policy=WRITING), owner)
    assert owner.ledger.anchor() != before
    assert not [event for event in owner.ledger.events() if event.decision == "deny"]
    assert all(finding.ok for finding in owner.inspect())
