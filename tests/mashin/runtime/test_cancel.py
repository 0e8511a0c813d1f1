"""Cancelled runs of machines end permanently, with a reason, together with the runs that they wait for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memoranda.api.memory import Memory
from memoranda.errors import Conflict, Denied, InvalidValue
from memoranda.mashin import Machine
from memoranda.model.policy import Policy

Load = Callable[..., Machine]

FERRY = """
machine ferry
  ensures
    allowed to memory
  implements
    remember left
      content: "The ferry has left"
      collection: "log"
    wait for landing
      event: "ferry.landed"
    remember landed
      content: "The ferry has landed"
      collection: "log"
    compute done
      "ashore"
"""
TRIP = """
machine trip
  ensures
    allowed to memory
    allowed to call "ferry"
  implements
    ask over, from: "ferry"
    compute done
      over
"""
TOLL = """
machine toll
  ensures
    requires approval for memory
  implements
    remember paid
      content: "Paid"
      collection: "log"
    compute done
      "paid"
"""


def log(memory: Memory) -> list[object]:
    return [entry.content for entry in memory.scope(user="ada").entries(collection="log")]


def test_a_run_that_waits_is_ended_with_a_reason_and_for_good(load: Load, memory: Memory) -> None:
    ferry = load(FERRY)
    run = ferry.run(user="ada")
    ended = ferry.find(run.id).cancel(reason="fog")
    assert (ended.status, ended.output, ended.waiting) == ("cancelled", None, None)
    assert ended.error is not None and (ended.error.type, ended.error.message) == ("cancelled", "fog")
    assert ended.verify().ok and ended.events[-1].kind == "exec_end"
    assert ended.replay().same and "left" in ended.steps
    for go_on in (run.deliver, ferry.find(run.id).resume, ferry.find(run.id).cancel):
        with pytest.raises(Conflict):
            go_on()
    assert log(memory) == ["The ferry has left"]
    assert all(finding.ok for finding in memory.inspect())
    assert ferry.run(user="ada").deliver().check().output == "ashore"


def test_the_run_that_it_waits_for_is_ended_too(load: Load, memory: Memory) -> None:
    trip = load(TRIP, machines=[load(FERRY)])
    run = trip.run(user="ada")
    assert run.waiting is not None and run.waiting.kind == "run"
    assert trip.find(run.id).cancel().status == "cancelled"
    assert {one.status for one in memory.runs.list()} == {"cancelled"}
    assert len(memory.runs.list()) == 2


def test_what_it_asked_for_can_be_decided_and_nothing_comes_of_it(load: Load, memory: Memory) -> None:
    run = load(TOLL).run(user="ada")
    run.cancel()
    [asked] = memory.approvals.list()
    memory.approvals.approve(asked.id)
    with pytest.raises(Conflict):
        run.resume()
    assert log(memory) == []
    assert load(TOLL).run(user="ada").approve().check().output == "paid"


def test_a_run_that_is_over_or_somebody_elses_or_without_a_reason_is_not_ended(load: Load, memory: Memory) -> None:
    ferry = load(FERRY)
    over = ferry.run(user="ada").deliver()
    with pytest.raises(Conflict, match="waits for nothing"):
        over.cancel()
    run = ferry.run(user="ada")
    for reason in ("x" * 1_001, "with a \x00 in it"):
        with pytest.raises(InvalidValue):
            run.cancel(reason=reason)
    guest = memory.acting_as("user:ben", policy=Policy.of(allow=("memory", "runs")))
    with pytest.raises(Denied):
        ferry.on(guest).find(run.id).cancel()
    assert ferry.find(run.id).status == "waiting"
    assert ferry.find(run.id).cancel().status == "cancelled"


def test_a_run_whose_process_is_gone_is_ended_with_force(
    load: Load, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    ferry = load(FERRY)

    def die(*given: object, **named: object) -> None:
        raise SystemExit("the process is gone")

    with monkeypatch.context() as patched:
        patched.setattr("memoranda.runs.program.closing_writes", die)
        with pytest.raises(SystemExit):
            ferry.run(user="ada")
    [stuck] = memory.runs.list()
    assert stuck.status == "running"
    with pytest.raises(Conflict):
        ferry.find(stuck.id).cancel()
    assert ferry.find(stuck.id).cancel(force=True).status == "cancelled"
    assert memory.runs.verify(stuck.id).ok
