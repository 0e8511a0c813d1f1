"""Runs across processes: one waits here and resumes there, some are killed, several compete, and signals arrive."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda.errors import Conflict
from memoranda.workflow import Action
from memoranda.workflow.actions.base import Call

pytestmark = pytest.mark.slow

TEXT = """
context: {shop: Mill}
defs:
  scratch: {kind: memory, settings: {definition_id: DEFINITION}}
  before: {kind: task, action: work, inputs: {step: before, id: "=$uuid()"}}
  keep: {kind: task, action: update_memory, inputs: {memory: {scratch: {n: 7}}}}
  put: {kind: task, action: set_context, inputs: {values: {id: "=$output.before.id"}}}
  ask: {kind: task, action: ask}
  after: {kind: task, action: work, inputs: {step: after, got: "=$output.ask", id: "=$context.id",
    n: "=$context.memory.scratch.n", item: "=$iteration.item", so_far: "=$accumulator"}}
flow:
  - do: before
  - do: keep
  - do: put
  - conditional:
      when:
        - condition: "=$input.go"
          steps:
            - loop:
                type: for_each
                name: all
                for_each: {in: [a, b]}
                accumulate: {as: list, initial: [], merge: "=$append($accumulator, [$output.ask])"}
                steps: [{do: ask}, {do: after}]
outputs: {list: "=$output.all.list", last: "=$output.after"}
"""

COMMON = """
import json, os, signal, sys, threading, time
import memoranda
from memoranda.workflow import Action

def work(call):
    print("work", json.dumps(call.inputs), flush=True)
    if call.inputs.get("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    return call.inputs

def ask(call):
    return call.place.wait("answer")

def interrupt(once=threading.Lock()):
    if once.acquire(blocking=False):
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

def nap(call):
    threading.Thread(target=interrupt, daemon=True).start()
    time.sleep(600)

ACTIONS = [Action(name=one.__name__, act=one) for one in (work, ask, nap)]
memory = memoranda.open(sys.argv[1])
"""


def actions(done: list[Any]) -> list[Action]:
    def work(call: Call) -> Any:
        done.append(dict(call.inputs))
        return call.inputs

    return [Action(name="work", act=work), Action(name="ask", act=lambda call: call.place.wait("answer"))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.db"


@pytest.fixture
def text(path: Path) -> str:
    """The text, whose definition is made in the file."""
    with memoranda.open(path) as memory:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        made = memory.definitions.create(name="Scratch", slug="scratch", scope="run", schema=schema)
        return TEXT.replace("DEFINITION", made.id)


BEGIN = (
    COMMON
    + """
flow = memoranda.workflow.load(sys.argv[2], memory=memory, actions=ACTIONS)
run = flow.run({"go": True}, owner="mira", thread="t1")
print(run.id, run.status, flush=True)
if len(sys.argv) > 3:
    os.kill(os.getpid(), signal.SIGKILL)
"""
)

GO_ON = (
    COMMON
    + """
run = memoranda.workflow.find(memory, sys.argv[2], actions=ACTIONS).deliver(sys.argv[3])
print(json.dumps([run.status, run.output]), flush=True)
"""
)


@pytest.mark.parametrize("killed", [False, True], ids=["ended", "killed"])
def test_a_run_that_waits_goes_on_in_other_processes(path: Path, text: str, run_child: Any, killed: bool) -> None:
    child = run_child(BEGIN, path, text, *(["kill"] if killed else []))
    worked = json.loads(child.hear().removeprefix("work "))
    id, status = child.hear().split()
    assert status == "waiting"
    if not killed:
        child.finish()
    child.stop()
    *said, last = run_child(GO_ON, path, id, "first").finish()
    first = {"step": "after", "got": "first", "id": worked["id"], "n": 7, "item": "a", "so_far": []}
    assert [json.loads(one.removeprefix("work ")) for one in said] == [first]
    assert json.loads(last) == ["waiting", None]
    done: list[Any] = []
    with memoranda.open(path) as memory:
        run = memoranda.workflow.find(memory, id, actions=actions(done)).deliver("second").check()
        assert done == [{**first, "got": "second", "item": "b", "so_far": ["first"]}]
        assert run.output == {"list": ["first", "second"], "last": done[0]}
        assert run.verify().ok
        assert memory.ledger.verify().ok
        assert memory.scope(user="mira", run=id).value("scratch") is None


def test_a_run_whose_process_was_killed_in_an_action_is_seen_to_have_stopped(
    path: Path, text: str, run_child: Any
) -> None:
    killing = text.replace("step: before,", "step: before, kill: true,")
    child = run_child(BEGIN, path, killing)
    assert child.hear().startswith("work")
    with pytest.raises(AssertionError, match="-9"):
        child.finish()
    done: list[Any] = []
    with memoranda.open(path) as memory:
        [stopped] = memory.runs.list()
        assert stopped.status == "running"
        assert [event.kind for event in memory.runs.events(stopped.id)] == ["exec_start"]
        assert memory.runs.verify(stopped.id).ok
        found = memoranda.workflow.find(memory, stopped.id, actions=actions(done))
        for attempt in (found.resume, lambda: found.deliver(1), found.cancel):
            with pytest.raises(Conflict):
                attempt()
        assert done == []
        ended = found.cancel(reason="its process is gone", force=True)
        assert (ended.status, memory.runs.get(stopped.id).status) == ("cancelled", "cancelled")
        assert ended.verify().ok
        flow = memoranda.workflow.load(text, memory=memory, actions=actions(done))
        assert flow.run({"go": True}, owner="mira").status == "waiting", "others are not harmed"


def test_a_run_whose_process_was_killed_while_it_went_on_is_not_done_twice(
    path: Path, text: str, run_child: Any
) -> None:
    killing = text.replace("step: after,", "step: after, kill: true,")
    child = run_child(BEGIN, path, killing)
    child.hear()
    id = child.hear().split()[0]
    child.finish()
    delivering = run_child(GO_ON, path, id, "first")
    assert delivering.hear().startswith("work")
    with pytest.raises(AssertionError, match="-9"):
        delivering.finish()
    with memoranda.open(path) as memory:
        found = memoranda.workflow.find(memory, id, actions=actions([]))
        assert found.status == "running"
        assert found.verify().ok
        with pytest.raises(Conflict):
            found.deliver("again")


RACE = (
    COMMON
    + """
run = memoranda.workflow.find(memory, sys.argv[2], actions=ACTIONS)
print("ready", flush=True)
sys.stdin.readline()
try:
    done = run.cancel() if sys.argv[3] == "cancel" else run.deliver(sys.argv[3])
    print(json.dumps([done.status, done.waiting.step if done.waiting else None]))
except memoranda.Conflict:
    print(json.dumps(["conflict", None]))
"""
)


@pytest.mark.parametrize("others", [["Ida", "Max", "Eva"], ["Ida", "cancel"]], ids=["deliver", "cancel"])
def test_of_processes_that_go_on_with_one_run_one_wins(
    path: Path, text: str, run_child: Any, others: list[str]
) -> None:
    done: list[Any] = []
    with memoranda.open(path) as memory:
        id = memoranda.workflow.load(text, memory=memory, actions=actions(done)).run({"go": True}, owner="mira").id
    children = [run_child(RACE, path, id, name) for name in others]
    for child in children:
        assert child.hear() == "ready"
    for child in children:
        child.say("go")
    said = [child.finish() for child in children]
    ends = [json.loads(one[-1])[0] for one in said]
    assert ends.count("conflict") == len(others) - 1
    assert sum(line.startswith("work") for one in said for line in one) == (0 if "cancelled" in ends else 1)
    with memoranda.open(path) as memory:
        found = memoranda.workflow.find(memory, id, actions=actions(done))
        assert found.status in ("waiting", "cancelled")
        assert found.status in ends
        assert found.verify().ok
        assert memory.ledger.verify().ok
        if found.status == "waiting":
            assert found.deliver("last").check().output["last"]["n"] == 7, "its records are still there"


INTERRUPTED = (
    COMMON
    + """
flow = memoranda.workflow.load(sys.argv[2], memory=memory, actions=ACTIONS)
try:
    flow.run(owner="mira")
except KeyboardInterrupt:
    print("interrupted", flush=True)
memory.close()
"""
)

NAPS = """
defs:
  nap: {kind: task, action: nap}
  slow: {kind: task, action: nap, settings: {timeout_ms: 500000}}
flow: %s
"""


@pytest.mark.parametrize(
    "steps",
    ["[{do: nap}]", "[{do: slow}]", "[{parallel: {steps: [{do: nap}, {do: slow}]}}]"],
    ids=["alone", "with a time", "in a parallel"],
)
def test_an_interruption_from_the_keyboard_ends_a_run_at_once(path: Path, run_child: Any, steps: str) -> None:
    child = run_child(INTERRUPTED, path, NAPS % steps)
    assert child.finish()[-1] == "interrupted"
    with memoranda.open(path) as memory:
        [run] = memory.runs.list()
        assert run.status == "failed" and run.error is not None
        assert "KeyboardInterrupt" in run.error["message"]
        assert memory.runs.verify(run.id).ok


def test_many_processes_run_one_workflow_at_once(path: Path, text: str, run_child: Any) -> None:
    children = [run_child(BEGIN, path, text) for _ in range(4)]
    ids = [child.finish()[-1].split()[0] for child in children]
    assert len(set(ids)) == 4
    done: list[Any] = []
    with memoranda.open(path) as memory:
        for id in ids:
            run = memoranda.workflow.find(memory, id, actions=actions(done)).deliver("x").deliver("y").check()
            assert run.output["list"] == ["x", "y"]
        assert memory.ledger.verify().ok


def test_a_child_that_we_kill_is_gone(run_child: Any) -> None:
    """The other tests depend on it: a killed child ends with -9, not as if nothing had happened."""
    with pytest.raises(AssertionError, match=str(-signal.SIGKILL)):
        run_child("import os, signal; os.kill(os.getpid(), signal.SIGKILL)").finish()
    assert run_child("print('fine')").finish() == ["fine"]
