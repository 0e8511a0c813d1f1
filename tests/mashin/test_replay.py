"""Replaying a run: the same outputs from the record, and what other permissions would have changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import memoranda
from memoranda.agent.models import Reply, ToolCall
from memoranda.api.memory import Memory
from memoranda.errors import ModelFailed, UsageError
from memoranda.mashin import Behaviour, Machine, Run
from memoranda.testing.conformance.base import WatchedEmbedder

Load = Callable[..., Machine]

DIARY = """
accepts
  note as text, is required
ensures
  allowed to memory, llm_call
implements
  compute stamp
    { at: now(), id: UUID.generate(), dice: Math.random() }
  remember keep
    content: input.note
    collection: "diary"
    metadata: { at: stamp.at }
  recall find
    query: input.note
    collection: "diary"
  ask summary, using: "openai:gpt"
    with task "Sum up: ${find.results.map(r => r.content).join(' / ')}"
    returns
      text as text
  compute done
    { stamp: stamp, found: find.results, summary: summary.text, later: now() }
"""


@pytest.fixture
def diary(load: Load, scripted: Any) -> Machine:
    return load(DIARY, model=scripted({"text": "a quiet day"}))


def counted(memory: Memory) -> int:
    return len(memory.ledger.events())


def test_a_replay_gives_the_same_with_another_clock_and_no_model(
    load: Load, memory: Memory, clock: Any, scripted: Any
) -> None:
    run = load(DIARY, model=scripted({"text": "a quiet day"})).run({"note": "The larch turned yellow"}).check()
    clock.advance(1000)
    events = counted(memory)
    again = run.replay()
    assert again.same, again.differences
    assert again.output == run.output
    assert again.steps == run.steps
    assert again.status == "completed"
    assert counted(memory) == events, "a replay writes nothing"
    # The control: what is drawn anew is another moment and another id.
    fresh = load(DIARY, model=scripted({"text": "a quiet day"})).run({"note": "The larch turned yellow"}).check()
    assert fresh.output["stamp"]["at"] > run.output["stamp"]["at"]
    assert fresh.output["stamp"]["id"] != run.output["stamp"]["id"]


def test_a_replay_gives_the_same_after_the_entries_were_forgotten(
    diary: Machine, memory: Memory, embedder: WatchedEmbedder
) -> None:
    run = diary.run({"note": "The larch turned yellow"}).check()
    assert [one["content"] for one in run.output["found"]] == ["The larch turned yellow"]
    [entry] = memory.scope().entries(collection="diary")
    assert memory.scope().forget(entry.id, collection="diary")
    assert memory.scope().entries(collection="diary") == []
    embedder.asked.clear()
    assert run.replay().output == run.output
    assert run.replay().same
    assert embedder.asked == []
    assert memory.scope().entries(collection="diary") == []


def test_a_run_is_replayed_in_a_process_that_never_saw_it(path: str, scripted: Any, write: Any, run_child: Any) -> None:
    with memoranda.open(path, embedder="hashing:64") as memory:
        machine = memoranda.mashin.load(write(DIARY), memory=memory, model=scripted({"text": "a quiet day"}))
        run = machine.run({"note": "The larch turned yellow"}).check()
        output, id = run.output, run.id
    child = run_child(
        """
        import json, sys, memoranda
        with memoranda.open(sys.argv[1], embedder="hashing:64") as memory:
            run = memoranda.mashin.find(memory, sys.argv[2])
            again = run.replay()
            print(json.dumps([again.same, again.output, run.output, sorted(run.steps)]))
        """,
        path,
        id,
    )
    import json

    [said] = child.finish()
    steps = ["done", "find", "keep", "stamp", "summary"]
    assert json.loads(said) == [True, output, output, steps]


def test_a_replay_of_a_failed_run_fails_the_same_way(load: Load, scripted: Any) -> None:
    failing = ModelFailed("overloaded", hint="", reason="provider", retryable=True, model="m")
    run = load(DIARY, model=scripted(failing)).run({"note": "Frost"})
    assert run.error is not None
    again = run.replay()
    assert again.same, again.differences
    assert again.error is not None
    assert (again.error.type, again.error.step) == (run.error.type, "summary")
    fine = load(DIARY, model=scripted({"text": "x"})).run({"note": "Frost"}).replay()
    assert fine.error is None


def test_a_replay_takes_attempts_branches_and_failures_again(load: Load, scripted: Any) -> None:
    failing = ModelFailed("overloaded", hint="", reason="provider", retryable=True, model="m")
    slept: list[float] = []
    machine = load(
        """
    ensures
      allowed to llm_call
    implements
      ask first, using: "openai:gpt"
        with task "one"
        returns
          n as integer
        retry
          max: 3
      decide way
        when first.n > 5
          ask second, using: "openai:gpt"
            with task "two"
            returns
              n as integer
          { n: second.n }
        otherwise
          { n: 0 }
      on failure
        compute sorry
          { n: -1, was: error.type }
    """,
        model=scripted(failing, {"n": 9}, failing),
        behaviour=Behaviour(sleep=slept.append),
    )
    run = machine.run().check()
    assert run.output == {"n": -1, "was": "model"}
    assert slept == [1.0]
    again = run.replay()
    assert again.same, again.differences
    assert again.output == run.output
    assert slept == [1.0], "nothing is waited for in a replay"


def test_a_replay_of_a_run_that_was_approved_is_the_same(load: Load, memory: Memory) -> None:
    machine = load("""
    ensures
      requires approval for memory
    implements
      remember keep
        content: "larch"
        collection: "trees"
      compute done
        { kept: keep.stored, at: now() }
    """)
    run = machine.run()
    waiting = run.replay()
    assert waiting.status == "waiting"
    assert waiting.same, waiting.differences
    done = run.approve().check()
    assert done.replay().same, done.replay().differences
    refused = machine.run().refuse()
    assert refused.replay().same, refused.replay().differences
    assert len(memory.scope().entries(collection="trees")) == 1


def test_a_replay_with_another_text_says_what_is_not_as_it_was(load: Load, scripted: Any) -> None:
    run = load(DIARY, model=scripted({"text": "x"})).run({"note": "Frost"}).check()
    changed = load(DIARY.replace("summary: summary.text", "summary: 'none'"))
    again = Run(changed, run.__dict__["_stored"]).replay()
    assert not again.same
    assert "text of the machine" in " ".join(again.differences)
    assert "output" in " ".join(again.differences)
    assert run.replay().same


# simulation


def test_a_simulation_says_what_would_have_been_denied(
    diary: Machine, memory: Memory, embedder: WatchedEmbedder
) -> None:
    run = diary.run({"note": "The larch turned yellow"}).check()
    events, asked = counted(memory), len(embedder.asked)
    for capability, step in (("memory.write", "keep"), ("memory.read", "find"), ("llm_call", "summary")):
        seen = run.simulate(deny=[capability])
        assert [one.step for one in seen.denied] == [step]
        assert [(one.step, one.was, one.decision) for one in seen.changed] == [(step, "allow", "deny")]
        assert seen.status == "failed"
        assert seen.error is not None
        assert (seen.error.type, seen.error.step) == ("permission_denied", step)
    same = run.simulate()
    assert (same.denied, same.changed, same.output) == ((), (), run.output)
    assert (counted(memory), len(embedder.asked)) == (events, asked)
    assert diary.find(run.id).status == "completed"


def test_a_simulation_says_what_would_have_had_to_wait(diary: Machine) -> None:
    run = diary.run({"note": "The larch turned yellow"}).check()
    seen = run.simulate(approve=["memory.write", "llm_call"])
    assert [one.step for one in seen.pending] == ["keep", "summary"]
    assert seen.denied == ()
    assert seen.output == run.output
    assert run.simulate(approve=["memory"]).pending[0].step == "keep"


TWICE = """
ensures
  allowed to llm_call{and_call}
implements
  ask reader, using: "openai:gpt"
    with task "What is in the shed?"
    with tools ["shed"]
"""


@pytest.fixture
def reading(load: Load, scripted: Any) -> Callable[[str], Run]:
    """Return how a run comes about whose model looks into the shed twice, as far as it may."""

    def reading(and_call: str) -> Run:
        calls = [Reply(calls=(ToolCall(str(number), "shed", {}),)) for number in (1, 2)]
        shed = load("implements\n  compute seen\n    'a rake'\n", name="shed")
        return load(TWICE.format(and_call=and_call), machines=[shed], model=scripted(*calls, "A rake.")).run()

    return reading


@pytest.mark.parametrize(
    "change", [{"deny": ["machine.call"]}, {"deny": ['call "shed"']}, {"approve": ["machine.call"]}]
)
def test_a_simulation_knows_the_machines_that_a_model_called(reading: Any, change: dict[str, list[str]]) -> None:
    run = reading(", machine.call").check()
    seen = run.simulate(**change)
    assert [(one.step, one.capability, one.was) for one in seen.denied] == [("reader", "machine.call", "allow")]
    assert seen.error is not None
    assert seen.error.type == reading("").error.type == "permission_denied"
    same = run.simulate(deny=["memory"])
    assert (same.changed, same.output) == ((), {"text": "A rake."})
    assert [one.capability for one in same.decisions] == ["llm_call", "machine.call", "machine.call"]


def test_a_simulation_that_allows_what_a_model_wanted_to_call_says_where_the_record_ends(reading: Any) -> None:
    run = reading("")
    seen = run.simulate(allow=["machine.call"])
    assert [(one.capability, one.was, one.decision) for one in seen.changed] == [("machine.call", "deny", "allow")]
    assert seen.error is not None
    assert "recorded" in seen.error.message
    assert run.replay().same


def test_a_decision_is_compared_with_the_one_about_the_same(load: Load) -> None:
    text = """
    ensures
      requires approval for memory
      guards
        no_personal_data
          on_violation: "warn"
    implements
      remember keep
        content: "Write to kim@example.org"
        collection: "diary"
    """
    run = load(text).run()
    assert run.status == "waiting"
    [seen] = run.simulate(deny=["memory"]).denied
    assert (seen.was, seen.decision) == ("pending", "deny")
    assert run.simulate().changed == ()


def test_a_simulation_of_a_denial_that_is_allowed_says_where_the_record_ends(load: Load) -> None:
    text = DIARY.replace("allowed to memory, llm_call", "allowed to memory.read, llm_call")
    run = load(text).run({"note": "Frost"})
    assert run.status == "failed"
    seen = run.simulate(allow=["memory.write"])
    assert seen.denied == ()
    first = seen.changed[0]
    assert (first.step, first.was, first.decision) == ("keep", "deny", "allow")
    assert seen.error is not None
    assert "recorded" in seen.error.message
    assert [one.step for one in run.simulate().denied] == ["keep"]


def test_a_simulation_follows_on_failure(load: Load, memory: Memory) -> None:
    text = """
    ensures
      allowed to memory
    implements
      remember keep
        content: "larch"
        collection: "trees"
      on failure
        compute sorry
          { kept: false, why: error.type }
    """
    run = load(text).run().check()
    assert run.simulate(deny=["memory"]).output == {"kept": False, "why": "permission_denied"}
    assert run.simulate(deny=["llm_call"]).output == run.output


def test_a_simulation_with_a_capability_that_nobody_knows_is_refused(diary: Machine) -> None:
    run = diary.run({"note": "Frost"}).check()
    with pytest.raises(UsageError, match="memry") as caught:
        run.simulate(deny=["memry"])
    assert "memory" in caught.value.hint
    assert run.simulate(deny=["memory"]).denied


def test_replays_and_simulations_of_test_runs_work_too(load: Load) -> None:
    text = DIARY.replace(
        "returns\n      text as text", 'returns\n      text as text\n    assuming\n      text: "assumed"'
    )
    run = load(text).run({"note": "Frost"}, mode="test").check()
    assert run.output["summary"] == "assumed"
    again = run.replay()
    assert again.same, again.differences
    assert [one.step for one in run.simulate(deny=["memory.read"]).denied] == ["find"]
