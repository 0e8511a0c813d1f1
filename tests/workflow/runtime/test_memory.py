"""Memory while a run goes on, waits and ends: what is loaded, what is kept, and what is removed."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import memoranda
from memoranda.api.memory import Memory
from memoranda.errors import Conflict, MemorandaError, NotFound, SchemaViolation, ScopeEnded
from memoranda.model.policy import Policy, Rule
from memoranda.testing import FakeClock
from memoranda.workflow.actions.base import Call
from memoranda.workflow.behaviour import Behaviour

SCOPES = ("global", "workflow", "thread", "run")


@pytest.fixture
def mounts(define: Any) -> str:
    """One definition for each scope, `global_note` to `run_note`, and how a workflow names them."""
    ids = {scope: define(f"{scope}_note", scope=scope).id for scope in SCOPES}
    return "\n".join(f"  m_{one}: {{kind: memory, settings: {{definition_id: {id}}}}}" for one, id in ids.items())


KEEPING = """
defs:
%s
  keep: {kind: task, action: update_memory, inputs: {memory: {global_note: {n: 1}, workflow_note: {n: 2},
    thread_note: {n: 3}, run_note: {n: 4}}}}
  look: {kind: task, action: note, inputs: {seen: "=$context.memory"}}
  ask: {kind: task, action: ask}
  burn: {kind: task, action: burn}
flow: %s
"""
ALL = {"global_note": {"n": 1}, "workflow_note": {"n": 2}, "thread_note": {"n": 3}, "run_note": {"n": 4}}
STAYS = {name: value for name, value in ALL.items() if name != "run_note"}


def run_records(memory: Memory, run: Any, owner: str = "mira") -> Any:
    return memory.scope(user=owner, run=run.id).value("run_note")


def test_a_write_is_seen_by_what_follows(load: Any, kitchen: Any, mounts: str) -> None:
    run = load(KEEPING % (mounts, "[{do: look}, {do: keep}, {do: look}]")).run(owner="mira", thread="t1").check()
    assert kitchen.done == [{"seen": {}}, {"seen": ALL}]
    assert run.outputs["keep"] == {"memory": ALL}


def test_records_of_a_run_are_kept_while_it_waits_and_removed_when_it_has_ended(
    load: Any, kitchen: Any, mounts: str, memory: Memory
) -> None:
    flow = load(KEEPING % (mounts, "[{do: keep}, {do: ask}, {do: look}]"))
    run = flow.run(owner="mira", thread="t1")
    assert run_records(memory, run) == {"n": 4}
    done = flow.find(run.id).deliver(1).check()
    assert kitchen.done[-1] == {"seen": ALL}
    assert run_records(memory, done) is None
    scope = memory.scope(user="mira")
    assert scope.value("global_note") == {"n": 1}
    assert memory.scope(user="mira", workflow="workflow").value("workflow_note") == {"n": 2}
    assert memory.scope(user="mira", thread="t1").value("thread_note") == {"n": 3}


def test_records_of_a_run_are_removed_when_it_failed(load: Any, mounts: str, memory: Memory) -> None:
    run = load(KEEPING % (mounts, "[{do: keep}, {do: burn}]")).run(owner="mira", thread="t1")
    assert run.status == "failed"
    assert run_records(memory, run) is None
    assert memory.scope(user="mira").value("global_note") == {"n": 1}
    waited = load(KEEPING % (mounts, "[{do: keep}, {do: ask}, {do: burn}]"))
    run = waited.run(owner="mira", thread="t1")
    assert run_records(memory, run) == {"n": 4}
    assert run.deliver(1).status == "failed"
    assert run_records(memory, run) is None


def test_records_of_a_run_are_removed_when_it_is_cancelled(load: Any, mounts: str, memory: Memory) -> None:
    flow = load(KEEPING % (mounts, "[{do: keep}, {do: ask}]"))
    run, other = flow.run(owner="mira", thread="t1"), flow.run(owner="mira", thread="t1")
    run.cancel()
    assert run_records(memory, run) is None
    assert run_records(memory, other) == {"n": 4}, "only its own"


def test_records_of_a_run_are_removed_when_it_was_interrupted(
    load: Any, mounts: str, memory: Memory, kitchen: Any
) -> None:
    def torn(call: Call) -> Any:
        raise KeyboardInterrupt

    kitchen.add("burn", torn)
    with pytest.raises(KeyboardInterrupt):
        load(KEEPING % (mounts, "[{do: keep}, {do: burn}]")).run(owner="mira", thread="t1")
    [run] = memory.runs.list()
    assert run.status == "failed"
    assert run_records(memory, run) is None


ALLOWED = ("runs", "definitions.read", "memory.read")
BY_KEY = {
    "a key that is closed": Policy(
        rules=(
            *(Rule("allow", name) for name in (*ALLOWED, "memory.write")),
            Rule("deny", "memory.write", path="diary"),
        )
    ),
    "one key that is open": Policy(
        rules=(*(Rule("allow", name) for name in ALLOWED), Rule("allow", "memory.write", path="run_note"))
    ),
}
NOTING = """
defs:
%s
  keep: {kind: task, action: update_memory, inputs: {memory: {run_note: {n: 4}}}}
  look: {kind: task, action: note, inputs: {seen: "=$context.memory.run_note"}}
  ask: {kind: task, action: ask}
flow: %s
"""


@pytest.mark.parametrize("rights", BY_KEY.values(), ids=BY_KEY)
def test_records_of_a_run_are_removed_whatever_else_its_actor_may_not_write(
    load: Any, mounts: str, memory: Memory, kitchen: Any, rights: Policy
) -> None:
    desk = memory.acting_as("desk", policy=rights)
    run = load(NOTING % (mounts, "[{do: keep}, {do: look}]"), memory=desk).run(owner="mira").check()
    assert kitchen.done == [{"seen": {"n": 4}}]
    assert run_records(memory, run) is None
    waits = load(NOTING % (mounts, "[{do: keep}, {do: ask}]"), memory=desk).run(owner="mira")
    assert run_records(memory, waits) == {"n": 4}
    waits.cancel()
    assert run_records(memory, waits) is None
    assert memory.definitions.records("run_note") == []
    assert memory.ledger.verify().ok and all(finding.ok for finding in memory.inspect())


def test_what_is_approved_after_the_end_of_its_run_is_not_kept_for_that_run(
    load: Any, mounts: str, memory: Memory
) -> None:
    desk = memory.acting_as("desk", policy=Policy.of(allow=ALLOWED, approve=("memory.write",)))
    run = load(NOTING % (mounts, "[{do: keep}]"), memory=desk).run(owner="mira")
    assert run.error.type == "approval_required"
    load(
        """
defs:
  keep: {kind: task, action: update_memory, inputs: {memory: {global_note: {n: 1}}}}
flow: [{do: keep}]
""",
        memory=desk,
    ).run(owner="mira")
    late, other = memory.approvals.list()
    with pytest.raises(ScopeEnded):
        memory.approvals.approve(late.id)
    assert run_records(memory, run) is None
    memory.approvals.approve(other.id)
    assert memory.scope(user="mira").value("global_note") == {"n": 1}, "what is not of the run alone is written"


def test_the_next_run_sees_what_stays(load: Any, kitchen: Any, mounts: str) -> None:
    flow = load(KEEPING % (mounts, "[{do: look}, {do: keep}]"))
    flow.run(owner="mira", thread="t1").check()
    kitchen.done.clear()
    flow.run(owner="mira", thread="t1").check()
    flow.run(owner="mira", thread="t2").check()
    assert flow.run(owner="mira").status == "failed", "without a thread there is none to keep something for"
    flow.run(owner="noa", thread="t1").check()
    other = load(KEEPING % (mounts, "[{do: look}]"), name="another")
    other.run(owner="mira", thread="t1").check()
    seen = [one["seen"] for one in kitchen.done]
    without_thread = {name: value for name, value in STAYS.items() if name != "thread_note"}
    assert seen == [
        STAYS,
        without_thread,
        without_thread,
        {},
        {name: value for name, value in STAYS.items() if name != "workflow_note"},
    ]


def test_without_a_thread_its_records_cannot_be_written(load: Any, mounts: str, memory: Memory) -> None:
    run = load(KEEPING % (mounts, "[{do: keep}]")).run(owner="mira")
    assert (run.status, run.error.step) == ("failed", "keep")
    assert "thread" in run.error.message
    assert memory.scope(user="mira").value("global_note") is None, "all of them or none"


def test_memory_is_loaded_anew_when_a_run_goes_on(load: Any, kitchen: Any, mounts: str, memory: Memory) -> None:
    flow = load(KEEPING % (mounts, "[{do: keep}, {do: ask}, {do: look}]"))
    run = flow.run(owner="mira", thread="t1")
    memory.scope(user="mira").set("global_note", {"n": 100})
    memory.scope(user="mira", thread="t1").delete("thread_note")
    run.deliver(1).check()
    assert kitchen.done[-1] == {"seen": {"global_note": {"n": 100}, "workflow_note": {"n": 2}, "run_note": {"n": 4}}}


def test_what_expires_during_a_pause_is_gone(load: Any, kitchen: Any, memory: Memory, clock: FakeClock) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    memory.definitions.create(name="Short", slug="short", schema=schema, ttl=60)
    flow = load("""
    defs:
      keep: {kind: task, action: update_memory, inputs: {memory: {short: {n: 1}}}}
      look: {kind: task, action: note, inputs: {seen: "=$context.memory.short.n"}}
      ask: {kind: task, action: ask}
    flow: [{do: keep}, {do: look}, {do: ask}, {do: look}, {do: ask}, {do: look}]
    """)
    run = flow.run(owner="mira")
    clock.advance(59.999)
    run = run.deliver(1)
    clock.advance(0.001)
    run.deliver(1).check()
    assert [one for one in kitchen.done if "asks" not in one and "got" not in one] == [{"seen": 1}, {"seen": 1}, {}]


def test_a_run_whose_definition_is_gone_does_not_go_on_and_does_not_end(
    load: Any, mounts: str, memory: Memory, kitchen: Any
) -> None:
    flow = load(KEEPING % (mounts, "[{do: ask}, {do: look}]"))
    run = flow.run(owner="mira", thread="t1")
    gone = next(one for one in memory.definitions.list() if one.slug == "workflow_note")
    memory.definitions.delete(gone.id)
    with pytest.raises(NotFound, match=gone.id):
        flow.find(run.id).deliver(1)
    assert flow.find(run.id).status == "waiting"
    assert kitchen.done == [{"asks": "ask"}]
    assert flow.find(run.id).cancel().status == "cancelled"


def test_a_record_that_was_spoilt_during_a_pause_is_refused_and_the_run_waits_on(
    load: Any, mounts: str, memory: Memory, kitchen: Any
) -> None:
    text = KEEPING % (mounts, "[{do: keep}, {do: ask}, {do: look}]")
    flow = load(text)
    run = flow.run(owner="mira", thread="t1")
    spoilt = next(one for one in memory.definitions.list() if one.slug == "global_note")
    tight = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 9}}, "required": ["n"]}
    memory.definitions.update(spoilt.id, schema=tight, stale="keep")
    with pytest.raises(SchemaViolation):
        flow.find(run.id).deliver(1)
    assert flow.find(run.id).status == "waiting"
    lenient = load(text, behaviour=Behaviour(on_invalid="skip"))
    lenient.find(run.id).deliver(1).check()
    assert "global_note" not in kitchen.done[-1]["seen"]


@pytest.mark.parametrize(
    ("memory_of", "code"),
    [
        ({"bad-slug": {"n": 1}}, "schema_violation"),
        ({"unknown": {"n": 1}}, "not_found"),
        ({"global_note": {"n": "x"}}, "schema_violation"),
        ({"global_note": {"n": 1, "more": 2}}, "schema_violation"),
        ({"global_note": 5}, "schema_violation"),
        ([], "schema_violation"),
    ],
)
def test_a_write_that_is_refused_fails_the_task_and_changes_nothing(
    load: Any, mounts: str, memory: Memory, memory_of: Any, code: str
) -> None:
    memory.scope(user="mira").set("global_note", {"n": 5})
    text = f"""
defs:
{mounts}
  keep: {{kind: task, action: update_memory, inputs: {{memory: "=$input.it"}}}}
flow: [{{do: keep}}]
"""
    run = load(text).run({"it": memory_of}, owner="mira", thread="t1")
    assert (run.status, run.error.step, run.error.type) == ("failed", "keep", code)
    assert memory.scope(user="mira").value("global_note") == {"n": 5}
    assert run.context["memory"] == {"global_note": {"n": 5}}


def test_a_definition_that_the_file_does_not_name_is_unknown_unless_it_is_global(load: Any, mounts: str) -> None:
    text = """
    defs: {keep: {kind: task, action: update_memory, inputs: {memory: "=$input.it"}}}
    flow: [{do: keep}]
    """
    assert load(text).run({"it": {"global_note": {"n": 1}}}, owner="mira", thread="t1").check()
    for scope in ("workflow", "thread", "run"):
        run = load(text).run({"it": {f"{scope}_note": {"n": 1}}}, owner="mira", thread="t1")
        assert (run.status, run.error.type) == ("failed", "not_found")


def test_writes_before_a_failure_stay(load: Any, mounts: str, memory: Memory) -> None:
    load(KEEPING % (mounts, "[{do: keep}, {do: burn}]")).run(owner="mira", thread="t1")
    assert memory.scope(user="mira").value("global_note") == {"n": 1}
    assert memory.scope(user="mira", thread="t1").value("thread_note") == {"n": 3}


def test_an_action_that_changes_what_memory_shows_it_changes_nothing_for_others(
    load: Any, kitchen: Any, memory: Memory, define: Any
) -> None:
    define("list", schema={"type": "object", "properties": {"items": {"type": "array"}}})
    memory.scope(user="mira").set("list", {"items": [1]})

    def act(call: Call) -> Any:
        given = call.place.memory.write({"list": {"items": [2]}})
        given["list"]["items"].append("mine")
        given["more"] = 1
        return len(given)

    kitchen.add("act", act)
    run = (
        load("""
    defs:
      act: {kind: task, action: act}
      look: {kind: task, action: note, inputs: {seen: "=$context.memory.list.items"}}
    flow: [{do: act}, {do: look}]
    """)
        .run(owner="mira")
        .check()
    )
    assert kitchen.done == [{"seen": [2]}]
    assert run.context["memory"] == {"list": {"items": [2]}}
    assert memory.scope(user="mira").value("list") == {"items": [2]}


def test_a_run_cannot_be_gone_on_with_by_another_tenant(tmp_path: Any, kitchen: Any, load: Any) -> None:
    text = "defs: {ask: {kind: task, action: ask}}\nflow: [{do: ask}]\n"
    with (
        memoranda.open(tmp_path / "m.db", tenant="north") as north,
        memoranda.open(tmp_path / "m.db", tenant="south") as south,
    ):
        run = load(text, memory=north).run(owner="mira")
        with pytest.raises(MemorandaError):
            load(text, memory=south).find(run.id)
        assert south.runs.list() == []
        assert load(text, memory=north).find(run.id).deliver(1).check()


class Nudged(FakeClock):
    """A clock that lets something happen once, at a moment when it is asked for the time."""

    nudge: Any = None

    def now(self) -> Any:
        if self.nudge is not None:
            self.nudge()
        return super().now()


def test_one_who_cancels_and_is_too_slow_takes_nothing_away(kitchen: Any, load: Any) -> None:
    """An event is delivered after the canceller has read the run and before it ends the run."""
    clock = Nudged()
    with memoranda.open(":memory:", clock=clock) as memory:
        made = memory.definitions.create(
            name="Scratch", slug="run_note", scope="run", schema={"type": "object", "properties": {"n": {}}}
        )
        flow = load(
            f"""
        defs:
          m: {{kind: memory, settings: {{definition_id: {made.id}}}}}
          keep: {{kind: task, action: update_memory, inputs: {{memory: {{run_note: {{n: 1}}}}}}}}
          look: {{kind: task, action: note, inputs: {{seen: "=$context.memory.run_note.n"}}}}
          ask: {{kind: task, action: ask}}
        flow: [{{do: keep}}, {{do: ask}}, {{do: look}}, {{do: ask}}, {{do: keep}}, {{do: look}}]
        """,
            memory=memory,
        )
        run = flow.run(owner="mira")
        went_on: list[Any] = []

        def nudge() -> None:
            frame = sys._getframe()
            names = set()
            while frame is not None:
                names.add(frame.f_code.co_name)
                frame = frame.f_back
            if "cancel_run" in names and "perform" not in names and not went_on:
                clock.nudge = None
                went_on.append(flow.find(run.id).deliver("in time"))

        slow = flow.find(run.id)
        clock.nudge = nudge
        with pytest.raises(Conflict):
            slow.cancel()
        assert [one.status for one in went_on] == ["waiting"]
        assert run_records(memory, run) == {"n": 1}
        done = flow.find(run.id).deliver("and again").check()
        assert [one["seen"] for one in kitchen.done if "seen" in one] == [1, 1]
        assert done.verify().ok
