"""What one run may use: each limit stops it with a failure of its type, and what was done before stays counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoranda.agent.models import Reply
from memoranda.api.memory import Memory
from memoranda.errors import MemorandaError
from memoranda.mashin import Behaviour, Budget, Machine, Run

Load = Callable[..., Machine]

LOOP = """
accepts
  rounds as integer, is required
  day as text, default: "Monday"
ensures
  allowed to memory, llm_call
implements
  goto flow(each)
  flow each
    {step}
    compute counted
      { n: (steps.counted?.n ?? 0) + 1 }
    decide more
      when counted.n < input.rounds
        goto flow(each)
      otherwise
        { n: counted.n }
"""
KEEP = """remember keep
      content: input.day + ", basket " + (steps.counted?.n ?? 0)
      collection: "baskets"
"""
ASK = """ask guess, using: "openai:gpt"
      with task "How many?"
      returns
        many as integer
"""


def stopped(run: Run, what: str) -> str | None:
    """Return the step at which a run was stopped by this limit."""
    assert run.status == "failed"
    assert run.error is not None
    assert run.error.type == "budget_exceeded"
    assert run.error.details["what"] == what
    return run.error.step


def test_writes_stop_at_their_limit_and_not_before(load: Load, memory: Memory) -> None:
    machine = load(LOOP.replace("{step}", KEEP))
    assert machine.run({"rounds": 3}, budget=Budget(writes=3)).check().output == {"n": 3}
    run = machine.run({"rounds": 4, "day": "Tuesday"}, budget=Budget(writes=3))
    assert stopped(run, "writes") == "keep"
    assert len(memory.scope().entries(collection="baskets")) == 6
    denied = [event for event in run.events if event.decision == "deny"]
    assert [event.step for event in denied] == ["keep"]
    assert run.verify().ok


def test_model_calls_stop_at_their_limit_and_not_before(load: Load, scripted: Any) -> None:
    model = scripted({"many": 7}, again=True)
    machine = load(LOOP.replace("{step}", ASK), model=model)
    assert machine.run({"rounds": 5}, budget=Budget(model_calls=5)).check().output == {"n": 5}
    assert stopped(machine.run({"rounds": 6}, budget=Budget(model_calls=5)), "model_calls") == "guess"
    assert len(model.asked) == 10


def test_requests_after_a_broken_answer_count_too(load: Load, scripted: Any) -> None:
    model = scripted({"many": "lots"}, {"many": "lots"}, {"many": 7})
    machine = load(LOOP.replace("{step}", ASK), model=model)
    assert stopped(machine.run({"rounds": 1}, budget=Budget(model_calls=2)), "model_calls") == "guess"
    assert len(model.asked) == 2
    enough = scripted({"many": "lots"}, {"many": "lots"}, {"many": 7})
    assert load(LOOP.replace("{step}", ASK), model=enough).run({"rounds": 1}, budget=Budget(model_calls=3)).check()


def test_no_model_is_asked_once_the_tokens_are_used(load: Load, scripted: Any) -> None:
    model = scripted(Reply(value={"many": 7}, tokens_in=40, tokens_out=20), again=True)
    machine = load(LOOP.replace("{step}", ASK), model=model)
    assert stopped(machine.run({"rounds": 9}, budget=Budget(tokens=100)), "tokens") == "guess"
    assert len(model.asked) == 2
    assert machine.run({"rounds": 2}, budget=Budget(tokens=100)).check().output == {"n": 2}


def test_steps_stop_at_their_limit(load: Load) -> None:
    machine = load("""
    implements
      compute one
        1
      compute two
        { n: one + 1 }
    """)
    assert machine.run(budget=Budget(steps=2)).check().output == {"n": 2}
    assert stopped(machine.run(budget=Budget(steps=1)), "steps") == "two"


def test_a_budget_is_shared_with_the_machines_that_are_called(load: Load, scripted: Any) -> None:
    model = scripted({"many": 7}, again=True)
    guesser = load(LOOP.replace("{step}", ASK), name="guesser", model=model)
    caller = load(
        """
    ensures
      allowed to machine.call
    implements
      ask first, from: "guesser"
        rounds: 2
      ask second, from: "guesser"
        rounds: 2
    """,
        machines=[guesser],
    )
    assert caller.run(budget=Budget(model_calls=4)).check().output == {"n": 2}
    run = caller.run(budget=Budget(model_calls=3))
    assert run.status == "failed"
    assert run.error is not None
    assert run.error.step == "second"
    assert len(model.asked) == 7
    assert stopped(caller.run(budget=Budget(machine_calls=1)), "machine_calls") == "second"


NOTES = """
ensures
  allowed to memory, machine.call
implements
  remember first
    content: "one"
    collection: "notes"
  ask noted, from: "scribe"
  remember last
    content: "three"
    collection: "notes"
  compute done
    last.stored
"""
SCRIBE = """
ensures
  {level} memory
implements
  remember noted
    content: "two"
    collection: "notes"
"""


@pytest.fixture
def writing(load: Load, memory: Memory) -> Callable[..., Run]:
    """Return how three notes are written, the second by another machine, whose run is approved for itself."""

    def writing(level: str, writes: int) -> Run:
        scribe = load(SCRIBE.replace("{level}", level), name="scribe")
        run = load(NOTES, machines=[scribe]).run(budget=Budget(writes=writes))
        while run.waiting is not None:
            assert run.waiting.run is not None
            scribe.find(run.waiting.run).approve()
            run = run.resume()
        return run

    return writing


@pytest.mark.parametrize("level", ["allowed to", "requires approval for"])
def test_a_budget_is_shared_over_a_pause_of_the_machine_that_is_called(
    writing: Any, memory: Memory, level: str
) -> None:
    assert writing(level, 3).check().used == {"steps": 5, "writes": 3, "machine_calls": 1}
    late = writing(level, 2)
    assert stopped(late, "writes") == "last"
    early = writing(level, 1)
    assert early.error is not None
    assert (early.error.type, early.error.step) == ("machine", "noted")
    called = memory.runs.list(program="scribe", status="failed")
    assert len(called) == 1
    assert late.replay().same and early.replay().same


def test_a_run_that_used_up_the_budget_of_its_caller_is_replayed_as_it_was(
    writing: Any, load: Load, memory: Memory
) -> None:
    writing("allowed to", 1)
    [ended] = memory.runs.list(program="scribe")
    run = load(SCRIBE.replace("{level}", "allowed to"), name="scribe").find(ended.id)
    assert stopped(run, "writes") == "noted"
    assert run.replay().same, run.replay().differences


def test_what_was_used_before_a_pause_counts_after_it(load: Load, memory: Memory, scripted: Any) -> None:
    text = """
    ensures
      allowed to llm_call
      requires approval for memory
    implements
      ask first, using: "openai:gpt"
        with task "one"
        returns
          many as integer
      remember keep
        content: "a basket"
        collection: "baskets"
      ask second, using: "openai:gpt"
        with task "two"
        returns
          many as integer
    """
    model = scripted({"many": 7}, again=True)
    run = load(text, model=model).run(budget=Budget(model_calls=1)).approve()
    assert stopped(run, "model_calls") == "second"
    assert len(model.asked) == 1
    tight = load(text, model=scripted(Reply(value={"many": 1}, tokens_in=50, tokens_out=50), again=True))
    assert stopped(tight.run(budget=Budget(tokens=100)).approve(), "tokens") == "second"
    assert load(text, model=model).run(budget=Budget(model_calls=2)).approve().check().output == {"many": 7}


def test_the_budget_of_a_behaviour_holds_where_a_run_is_told_nothing(load: Load) -> None:
    text = "implements\n  compute one\n    1\n  compute two\n    2\n"
    machine = load(text, behaviour=Behaviour(budget=Budget(steps=1)))
    assert stopped(machine.run(), "steps") == "two"
    assert machine.run(budget=Budget(steps=2)).check().output == 2


def test_a_budget_that_cannot_be_counted_is_refused() -> None:
    for wrong in (-1, 1.5, True, "many"):
        with pytest.raises(MemorandaError):
            Budget(steps=wrong)  # type: ignore[arg-type]
    assert Budget(steps=None).steps is None
