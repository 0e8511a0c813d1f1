"""Every way in which background work changes memory is on one list, and each of them passes the gate."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import Denied, Memory, Policy
from memoranda.chat.conversations import read_history
from memoranda.chat.holding import begin_turn
from memoranda.chat.parts import Draft, Usage
from memoranda.model.scope import Scope
from memoranda.sleep import extract_by_rules, jobs, sleeping, taking_back
from memoranda.testing import FakeClock

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
    sleeping.run_sleep_time(owner, "c1", user="ada")


def undo(memory: Memory, owner: Memory) -> None:
    learned(owner)
    taking_back.undo(memory, "c1", user="ada")


def forget(memory: Memory, owner: Memory) -> None:
    learned(owner)
    taking_back.forget_conversation(memory, "c1", user="ada")


def take_back(memory: Memory, owner: Memory) -> None:
    learned(owner)
    owner.erase(user="ada", thread="c1")
    taking_back.take_back_orphans(memory, [])


def run_due(memory: Memory, owner: Memory) -> None:
    jobs.enqueue(owner, CHAT, "sleep", mark=2)
    sleeping.run_due(memory)


def run_each(memory: Memory, owner: Memory) -> None:
    jobs.enqueue(owner, CHAT, "sleep", mark=2)
    wait = sleeping.waiting_time(sleeping.DELAY)
    list(sleeping.run_each(memory, extractor=extract_by_rules, wait=wait, worker="w", most_attempts=1))


# How to make each call with a handle; what has to exist before, the owner makes.
MUTATING: dict[str, Callable[[Memory, Memory], Any]] = {
    "jobs.enqueue": lambda memory, owner: jobs.enqueue(memory, CHAT, "other", mark=1),
    "jobs.lease": lambda memory, owner: jobs.lease(memory, standing(owner), worker="w"),
    "jobs.put_off": lambda memory, owner: jobs.put_off(memory, running(memory, owner), until=now(owner), mark=1),
    "jobs.fail": lambda memory, owner: jobs.fail(memory, running(memory, owner), ValueError("x")),
    "jobs.retry": lambda memory, owner: jobs.retry(memory, standing(owner)),
    "sleeping.settle": lambda memory, owner: sleeping.settle(memory),
    "sleeping.run_due": run_due,
    "sleeping.run_each": run_each,
    "sleeping.run_sleep_time": lambda memory, owner: sleeping.run_sleep_time(memory, "c1", user="ada"),
    "taking_back.undo": undo,
    "taking_back.forget_conversation": forget,
    "taking_back.take_back_orphans": take_back,
}
# Calls that read, or compute a write for somebody else's batch.
HARMLESS = {
    "jobs.find_job",
    "jobs.get_job",
    "jobs.list_jobs",
    "jobs.finished",
    "jobs.amended",
    "sleeping.sleep_jobs",
    "sleeping.waiting_time",
    "taking_back.sources_of",
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
        turn.answer("Noted.", Usage())
        jobs.enqueue(memory, CHAT, "tidy", mark=1)
        clock.advance(300)
        yield memory


def test_every_call_of_background_work_is_on_the_list() -> None:
    calls = {
        f"{module.__name__.rpartition('.')[2]}.{name}"
        for module in (jobs, sleeping, taking_back)
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
