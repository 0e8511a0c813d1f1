"""Runs that wait: for an event, for a verdict, across restarts and processes; each effect happens once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import memoranda
from memoranda import SchemaViolation
from memoranda.api.memory import Memory
from memoranda.errors import Conflict, NotFound, UsageError
from memoranda.mashin import Behaviour, Machine
from memoranda.testing import FakeClock

Load = Callable[..., Machine]

PARCEL = """
machine courier
  accepts
    parcel as text, is required
  ensures
    allowed to memory
  implements
    remember sent
      content: "Sent " + input.parcel
      collection: "parcels"
    compute stamp
      { at: now(), id: UUID.generate() }
    wait for receipt
      event: "parcel.received"
      channel: "door"
      timeout: "3d"
      {timeout}
      schema
        by as text, is required
        pieces as integer, min: 1
        damaged as boolean, default: false
    remember arrived
      content: "Received " + input.parcel + " by " + receipt.by
      collection: "parcels"
    compute done
      { by: receipt.by, damaged: receipt.damaged, stamp: stamp }
    flow lost
      compute search
        { lost: input.parcel }
    {failure}
"""


def courier(*, timeout: str = "", failure: str = "") -> str:
    text = PARCEL.replace("      {timeout}\n", f"      {timeout}\n" if timeout else "")
    return text.replace("    {failure}\n", failure)


def parcels(memory: Memory) -> list[str]:
    return [one.content for one in memory.scope().entries(collection="parcels")]


def test_a_run_waits_for_its_event_and_goes_on_with_the_payload(load: Load, memory: Memory, clock: FakeClock) -> None:
    run = load(courier()).run({"parcel": "pears"})
    assert run.status == "waiting"
    assert run.waiting is not None
    assert (run.waiting.kind, run.waiting.step, run.waiting.event) == ("event", "receipt", "parcel.received")
    assert run.waiting.deadline == clock.now() + timedelta(days=3)
    assert run.waiting.about["channel"] == "door"
    assert parcels(memory) == ["Sent pears"]
    before = run.steps["stamp"]
    clock.advance(3600)
    done = run.deliver({"by": "Ida", "pieces": 2, "colour": "blue"}).check()
    assert done.output == {"by": "Ida", "damaged": False, "stamp": before}
    assert done.steps["receipt"] == {"by": "Ida", "pieces": 2, "damaged": False}
    assert parcels(memory) == ["Sent pears", "Received pears by Ida"]
    assert [event.index for event in done.events] == list(range(1, len(done.events) + 1))
    assert done.verify().ok
    assert done.replay().same, done.replay().differences


def test_a_payload_that_does_not_fit_is_refused_and_the_run_waits_on(load: Load, memory: Memory) -> None:
    run = load(courier()).run({"parcel": "pears"})
    events = len(run.events)
    for wrong in ({}, {"by": 7}, {"by": "Ida", "pieces": 0}, None, "Ida", {"by": None}):
        with pytest.raises(SchemaViolation):
            run.deliver(wrong)
    again = load(courier()).find(run.id)
    assert again.status == "waiting"
    assert len(again.events) == events
    assert parcels(memory) == ["Sent pears"]
    assert again.deliver({"by": "Ida"}).check().output["by"] == "Ida"


def test_without_a_schema_anything_comes_through(load: Load) -> None:
    machine = load("""
    implements
      wait for bell
        event: "bell"
      compute done
        { heard: bell }
    """)
    for payload in ({"rings": 3}, "ding", [1, 2], 0, False, None):
        run = machine.run()
        assert run.waiting is not None
        assert run.waiting.deadline is None
        assert run.deliver(payload).check().output == {"heard": payload}


CAUGHT = "    on failure\n      compute sorry\n        { sorry: error.type, step: error.step }\n"


@pytest.mark.parametrize(
    ("text", "output"),
    [
        (courier(), None),
        (courier(timeout="on_timeout: flow(lost)"), {"lost": "pears"}),
        (courier(failure=CAUGHT), {"sorry": "timeout", "step": "receipt"}),
    ],
    ids=["nothing is said", "on_timeout", "on failure"],
)
def test_a_run_that_waits_too_long_fails_or_takes_its_other_way(
    load: Load, memory: Memory, clock: FakeClock, text: str, output: Any
) -> None:
    run = load(text).run({"parcel": "pears"})
    assert run.resume().status == "waiting", "it is not late yet"
    clock.advance(3 * 86400 - 1)
    assert run.resume().status == "waiting"
    clock.advance(1)
    done = run.resume()
    assert done.output == output
    if output is None:
        assert done.error is not None
        assert (done.error.type, done.error.step) == ("timeout", "receipt")
    assert parcels(memory) == ["Sent pears"], "what comes after the event is not done without it"
    assert done.verify().ok
    assert done.replay().same, done.replay().differences


def test_an_event_that_comes_too_late_does_not_count(load: Load, memory: Memory, clock: FakeClock) -> None:
    machine = load(courier())
    late, early = machine.run({"parcel": "pears"}), machine.run({"parcel": "bulbs"})
    assert early.deliver({"by": "Ida"}).check().status == "completed"
    clock.advance(3 * 86400)
    done = late.deliver({"by": "Ida"})
    assert done.error is not None
    assert done.error.type == "timeout"
    assert "Received pears by Ida" not in parcels(memory)
    assert "Received bulbs by Ida" in parcels(memory)


def test_an_event_is_delivered_once(load: Load, memory: Memory) -> None:
    machine = load(courier())
    run = machine.run({"parcel": "pears"})
    other = machine.find(run.id)
    assert run.deliver({"by": "Ida"}).check().output["by"] == "Ida"
    with pytest.raises(Conflict):
        other.deliver({"by": "Max"})
    with pytest.raises(Conflict):
        run.deliver({"by": "Max"})
    with pytest.raises(UsageError, match="completed"):
        machine.find(run.id).deliver({"by": "Max"})
    assert parcels(memory) == ["Sent pears", "Received pears by Ida"]


def test_what_a_run_does_not_wait_for_is_refused(load: Load) -> None:
    run = load(courier()).run({"parcel": "pears"})
    with pytest.raises(UsageError, match="event"):
        run.approve()
    with pytest.raises(UsageError, match="event"):
        run.refuse()
    held = load(
        "ensures\n  requires approval for memory\nimplements\n  recall f\n    query: 'x'\n    collection: 'c'\n"
    )
    waiting = held.run()
    with pytest.raises(UsageError, match="approval"):
        waiting.deliver({"by": "Ida"})
    assert waiting.approve().check().status == "completed"
    assert run.deliver({"by": "Ida"}).check().status == "completed"


def test_a_run_that_is_over_cannot_be_resumed(load: Load) -> None:
    machine = load(courier())
    run = machine.run({"parcel": "pears"})
    done = run.deliver({"by": "Ida"})
    with pytest.raises(Conflict, match="waits for nothing"):
        done.resume()
    with pytest.raises(Conflict):
        machine.find(run.id).resume()


def test_a_loop_waits_again_each_time(load: Load) -> None:
    run = load("""
    implements
      goto flow(listen)
      flow listen
        wait for bell
          event: "bell"
        compute heard
          { all: (steps.heard?.all ?? []).concat([bell.tone]) }
        decide more
          when heard.all.length < 3
            goto flow(listen)
          otherwise
            { tones: heard.all }
    """).run()
    times: list[int] = []
    for tone in ("c", "e", "g"):
        assert run.waiting is not None
        times.append(run.waiting.time)
        run = run.deliver({"tone": tone})
    assert times == [1, 2, 3]
    assert run.check().output == {"tones": ["c", "e", "g"]}
    assert run.verify().ok
    assert run.replay().same


# another process

PRELUDE = """
import json, sys, memoranda
from memoranda.agent.models import Reply
from memoranda.testing import FakeClock

class Model:
    name = "child:model"
    asked = 0
    def reply(self, ask, *, timeout=30.0):
        Model.asked += 1
        return Reply(value={"label": "from the child"}, tokens_in=1, tokens_out=1)

path, id = sys.argv[1], sys.argv[2]
"""

HELD = """
machine labels
  ensures
    allowed to llm_call, memory.read
    requires approval for memory.write
  implements
    ask first, using: "openai:gpt"
      with task "one"
      returns
        label as text
    compute stamp
      { at: now(), id: UUID.generate() }
    remember keep
      content: first.label
      collection: "labels"
    ask second, using: "openai:gpt"
      with task "two"
      returns
        label as text
    compute done
      { first: first.label, second: second.label, stamp: stamp }
"""


@pytest.mark.parametrize("verdict", ["approve", "refuse"])
def test_an_approval_survives_the_process_that_asked_for_it(
    path: str, scripted: Any, run_child: Any, verdict: str
) -> None:
    model = scripted({"label": "from the parent"})
    with memoranda.open(path, embedder="hashing:64") as memory:
        run = memoranda.mashin.load(HELD, memory=memory, model=model).run()
        assert run.status == "waiting"
        stamp, id = run.steps["stamp"], run.id
        assert memory.collections.list() == []
    script = (
        PRELUDE
        + f"""
with memoranda.open(path, embedder="hashing:64") as memory:
    run = memoranda.mashin.find(memory, id, model=Model())
    assert run.status == "waiting"
    assert [one.capability for one in memory.approvals.list()] == ["memory.write"]
    done = run.{verdict}(reason="seen it")
    print(json.dumps([done.status, done.output, Model.asked, done.error and done.error.type]))
"""
    )
    [said] = run_child(script, path, id).finish()
    status, output, asked, error = json.loads(said)
    with memoranda.open(path, embedder="hashing:64") as memory:
        if verdict == "approve":
            assert (status, asked, error) == ("completed", 1, None)
            assert output == {"first": "from the parent", "second": "from the child", "stamp": stamp}
            assert [one.content for one in memory.scope().entries(collection="labels")] == ["from the parent"]
        else:
            assert (status, asked, error) == ("failed", 0, "permission_denied")
            assert memory.collections.list() == []
        assert memory.runs.verify(id).ok
        assert memory.ledger.verify().ok
        events = memory.runs.events(id)
        assert [event.index for event in events] == list(range(1, len(events) + 1))
        assert [(one.kind, one.step) for one in events].count(("step_record", "first")) == 1
    assert len(model.asked) == 1


def test_an_event_is_delivered_by_another_process(path: str, run_child: Any) -> None:
    with memoranda.open(path, embedder="hashing:64") as memory:
        run = memoranda.mashin.load(courier(), memory=memory).run({"parcel": "pears"})
        id = run.id
    script = (
        PRELUDE
        + """
with memoranda.open(path, embedder="hashing:64") as memory:
    run = memoranda.mashin.resume(memory, id)
    assert run.status == "waiting"
    print(json.dumps(run.deliver({"by": "Ida"}).check().output["by"]))
"""
    )
    assert run_child(script, path, id).finish() == ['"Ida"']
    with memoranda.open(path, embedder="hashing:64") as memory:
        assert parcels(memory) == ["Sent pears", "Received pears by Ida"]
        assert memory.runs.get(id).status == "completed"
        assert memoranda.mashin.find(memory, id).output["by"] == "Ida"


def test_a_timeout_is_noticed_by_another_process(path: str, run_child: Any) -> None:
    clock = FakeClock()
    with memoranda.open(path, embedder="hashing:64", clock=clock) as memory:
        machine = memoranda.mashin.load(courier(timeout="on_timeout: flow(lost)"), memory=memory)
        id = machine.run({"parcel": "pears"}).id
    script = (
        PRELUDE
        + """
clock = FakeClock()
clock.advance(float(sys.argv[3]))
with memoranda.open(path, embedder="hashing:64", clock=clock) as memory:
    print(memoranda.mashin.resume(memory, id).status)
"""
    )
    assert run_child(script, path, id, 3 * 86400 - 1).finish() == ["waiting"]
    [ended] = run_child(script, path, id, 3 * 86400).finish()
    assert ended != "waiting"
    with memoranda.open(path, embedder="hashing:64", clock=clock) as memory:
        steps = [event.step for event in memory.runs.events(id) if event.kind == "step_record"]
        assert "search" in steps


RACE = (
    PRELUDE
    + """
with memoranda.open(path, embedder="hashing:64", busy_timeout=60) as memory:
    run = memoranda.mashin.find(memory, id, model=Model())
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        done = run.resume() if run.waiting.kind == "approval" else run.deliver({"by": sys.argv[3]})
        print(json.dumps([done.status, Model.asked]))
    except memoranda.Conflict:
        print(json.dumps(["conflict", Model.asked]))
"""
)


@pytest.mark.parametrize("kind", ["approval", "event"])
def test_of_processes_that_go_on_with_one_run_one_wins(path: str, scripted: Any, run_child: Any, kind: str) -> None:
    with memoranda.open(path, embedder="hashing:64") as memory:
        if kind == "approval":
            run = memoranda.mashin.load(HELD, memory=memory, model=scripted({"label": "from the parent"})).run()
            memory.approvals.approve(memory.approvals.list()[0].id)
        else:
            run = memoranda.mashin.load(courier(), memory=memory).run({"parcel": "pears"})
        id = run.id
    children = [run_child(RACE, path, id, name) for name in ("Ida", "Max", "Eva")]
    for child in children:
        assert child.hear() == "ready"
    for child in children:
        child.say("go")
    said = [json.loads(child.finish()[-1]) for child in children]
    assert sorted(status for status, _ in said) == ["completed", "conflict", "conflict"]
    assert sum(asked for _, asked in said) == (1 if kind == "approval" else 0)
    with memoranda.open(path, embedder="hashing:64") as memory:
        collection = "labels" if kind == "approval" else "parcels"
        kept = [one.content for one in memory.scope().entries(collection=collection)]
        assert len(kept) == (1 if kind == "approval" else 2)
        assert memory.runs.get(id).status == "completed"
        assert memory.runs.verify(id).ok
        assert memory.ledger.verify().ok


def test_of_threads_that_go_on_with_one_run_one_wins(path: str, scripted: Any) -> None:
    with memoranda.open(path, embedder="hashing:64") as memory:
        model = scripted({"label": "first"}, {"label": "second"})
        machine = memoranda.mashin.load(HELD, memory=memory, model=model)
        run = machine.run()
        memory.approvals.approve(memory.approvals.list()[0].id)
        ended: list[str] = []
        together = threading.Barrier(4)

        def go() -> None:
            found = machine.find(run.id)
            together.wait()
            try:
                ended.append(found.resume().status)
            except Conflict:
                ended.append("conflict")

        threads = [threading.Thread(target=go) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(ended) == ["completed", "conflict", "conflict", "conflict"]
        assert len(model.asked) == 2
        assert len(memory.scope().entries(collection="labels")) == 1
        assert memory.runs.verify(run.id).ok


def test_a_run_goes_on_with_the_text_it_was_begun_with(load: Load, memory: Memory) -> None:
    run = load(courier()).run({"parcel": "pears"})
    changed = load(courier().replace('"Received "', '"Got "'))
    with pytest.raises(Conflict, match="another text"):
        changed.find(run.id).deliver({"by": "Ida"})
    assert parcels(memory) == ["Sent pears"]
    memoranda.mashin.find(memory, run.id).deliver({"by": "Ida"}).check()
    assert parcels(memory) == ["Sent pears", "Received pears by Ida"]


def test_a_run_of_another_machine_is_not_this_ones(load: Load, memory: Memory) -> None:
    run = load(courier()).run({"parcel": "pears"})
    other = load("implements\n  compute x\n    1\n", name="other")
    with pytest.raises(UsageError, match="courier"):
        other.find(run.id)
    with pytest.raises(NotFound):
        memoranda.mashin.find(memory, "run_nothing")
    assert memoranda.mashin.find(memory, run.id).status == "waiting"


def test_a_run_whose_process_was_killed_is_seen_to_have_stopped(path: str, run_child: Any) -> None:
    script = """
    import os, sys, memoranda
    class Model:
        name = "child:model"
        def reply(self, ask, *, timeout=30.0):
            os._exit(0)
    memory = memoranda.open(sys.argv[1], embedder="hashing:64")
    memoranda.mashin.load(sys.argv[2], memory=memory, model=Model()).run()
    """
    run_child(script, path, HELD).finish()
    with memoranda.open(path, embedder="hashing:64") as memory:
        [stopped] = memory.runs.list()
        assert stopped.status == "running"
        kinds = [(event.kind, event.step) for event in memory.runs.events(stopped.id)]
        # What was allowed was on record before it happened.
        assert kinds == [("exec_start", None), ("policy_decision", "first")]
        assert memory.runs.verify(stopped.id).ok
        with pytest.raises(Conflict):
            memoranda.mashin.find(memory, stopped.id).resume()


# guards


def test_a_step_that_was_taken_stays_taken_whatever_its_guards_say_later(load: Load, memory: Memory) -> None:
    text = """
    ensures
      allowed to memory.read
      requires approval for memory.write
      guards
        opening_hours
        no_personal_data
          on_violation: "redact"
    implements
      recall before
        query: "What did kim@example.org want?"
        collection: "calls"
      remember call
        content: "Call kim@example.org back"
        collection: "calls"
      wait for morning
        event: "morning"
      recall after
        query: "call back"
        collection: "calls"
    """
    asked: list[str] = []
    closed = ""

    def opening_hours(data: Any, when: str) -> str | None:
        asked.append(when)
        return closed or None

    machine = load(text, guards={"opening_hours": opening_hours})
    run = machine.run()
    assert len(asked) == 3  # twice about the first step, and about the second before approval is requested
    run = run.approve()
    closed = "it is night"
    night = run.deliver({})
    assert night.error is not None
    assert (night.error.step, night.error.type, len(asked)) == ("after", "guard", 5)
    assert [one.content for one in memory.scope().entries(collection="calls")] == ["Call [redacted] back"]
    assert night.verify().ok and night.replay().same
    assert len(asked) == 5  # a replay does not call the guard
    closed = ""
    assert machine.run().approve().deliver({}).check().output["count"] == 1


def test_a_run_is_looked_at_and_ended_without_its_guards_and_goes_on_with_them_only(load: Load, memory: Memory) -> None:
    text = """
    ensures
      requires approval for memory
      guards
        polite
    implements
      remember note
        content: "Thank you"
        collection: "notes"
    """
    caller = "ensures\n  allowed to machine.call\nimplements\n  ask noted, from: 'porter'\n"
    guards = {"polite": lambda data, when: None}
    porter = load(text, name="porter", guards=guards)
    outer = load(caller.replace("'", '"'), machines=[porter]).run()
    assert outer.waiting is not None and outer.waiting.run is not None
    found = memoranda.mashin.find(memory, outer.waiting.run)
    assert found.replay().same
    with pytest.raises(UsageError, match="needs the guard `polite`"):
        found.approve()
    [asked] = memory.approvals.list()
    assert asked.status == "pending"
    memory.approvals.approve(asked.id)
    for one in (outer.id, outer.waiting.run):
        with pytest.raises(UsageError, match="needs the guard `polite`"):
            memoranda.mashin.resume(memory, one)
        assert memory.runs.get(one).status == "waiting"
    assert memoranda.mashin.resume(memory, outer.id, guards=guards).check().output["stored"] is True
    other = porter.run()
    assert memoranda.mashin.find(memory, other.id).cancel(reason="too late").status == "cancelled"


# behaviour


def test_a_run_goes_on_elsewhere_with_the_behaviour_that_it_began_with(
    load: Load, memory: Memory, clock: FakeClock
) -> None:
    for namespace in ("", "ida"):
        memory.scope().remember(f"The key of {namespace or 'all'}", collection="keys", namespace=namespace)
    text = """
    ensures
      allowed to memory
    implements
      run flow(outer)
      flow outer
        run flow(inner)
      flow inner
        wait for bell
          event: "bell"
        recall found
          query: "key"
          collection: "keys"
        compute said
          found.results.map(one => one.content)
    """
    narrow = Behaviour(without_namespace="unnamed", recall="keyword", keep="1h", flows=3)
    for behaviour, said in ((narrow, ["The key of all"]), (Behaviour(), ["The key of all", "The key of ida"])):
        run = load(text, behaviour=behaviour).run()
        done = memoranda.mashin.find(memory, run.id, behaviour=Behaviour(flows=1)).deliver({})
        assert sorted(done.check().output) == said
        assert memoranda.mashin.find(memory, run.id, behaviour=Behaviour(flows=1)).replay().same
    clock.advance(3_601)
    assert [one.id for one in memory.runs.list()] == [run.id]  # the other one was to be kept for an hour
