"""The disk fails at every point of a run: acknowledged work is kept, nothing is done twice, and the run is found."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from typing import Any

import pytest

import memoranda
from memoranda import Memory, StorageError
from memoranda.store.sqlite import SqliteStore
from memoranda.testing import FakeClock, FaultyDisk, Trial, sweep
from memoranda.testing.faults import ErrorName
from memoranda.workflow import Action
from memoranda.workflow.actions.base import Call
from memoranda.workflow.threads import messages, open_thread

pytestmark = pytest.mark.slow

STRIDE = 1 if os.environ.get("MEMORANDA_DEPTH") == "deep" else 11
"""At ordinary depth every eleventh call is made to fail, each series beginning at another one."""

SCRATCH = "2f0c9a64-50f3-4c0e-9a3e-6c1f0f6f7d10"
TEXT = f"""
context: {{shop: Mill}}
defs:
  scratch: {{kind: memory, settings: {{definition_id: {SCRATCH}}}}}
  before: {{kind: task, action: work, inputs: {{step: before}}}}
  keep: {{kind: task, action: update_memory, inputs: {{memory: {{scratch: {{n: 1}}, shelf: {{n: 2}}}}}}}}
  say: {{kind: task, action: send_text_message, inputs: {{text: Which loaf}}}}
  reply: {{kind: task, action: wait_for_reply}}
  left: {{kind: task, action: work, inputs: {{step: left}}}}
  right: {{kind: task, action: update_memory, inputs: {{memory: {{shelf: {{n: 3}}}}}}}}
  after: {{kind: task, action: work, inputs: {{step: after, got: "=$output.reply.text"}}}}
flow:
  - do: before
  - do: keep
  - do: say
  - do: reply
  - parallel: {{steps: [{{do: left}}, {{do: right}}]}}
  - do: after
outputs: {{got: "=$output.after.got"}}
"""


@pytest.fixture(autouse=True)
def in_memory_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the files of the trials where a sync costs nothing: the faults come from the VFS, not from the disk."""
    if os.access("/dev/shm", os.W_OK):
        monkeypatch.setattr(tempfile, "tempdir", "/dev/shm")


class Life:
    """A run that waits and goes on, on a disk that fails."""

    def __init__(self, disk: FaultyDisk) -> None:
        self.disk = disk
        self.worked: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()

    def load(self, memory: Memory) -> Any:
        def work(call: Call) -> Any:
            self.worked[call.inputs["step"]] += 1
            return call.inputs

        return memoranda.workflow.load(TEXT, memory=memory, actions=[Action(name="work", act=work)])

    def prepare(self, trial: Trial) -> None:
        self.worked.clear()
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        with Memory(SqliteStore(str(trial.directory / "m.db")), clock=FakeClock()) as memory:
            memory.definitions.create(name="Scratch", slug="scratch", scope="run", schema=schema, id=SCRATCH)
            memory.definitions.create(name="Shelf", slug="shelf", schema=schema)

    def run(self, trial: Trial) -> None:
        store = SqliteStore(str(trial.directory / "m.db"), vfs=self.disk.vfs, busy_timeout=0.1)
        with Memory(store, clock=FakeClock()) as memory:
            flow = self.load(memory)
            run = flow.run(owner="mira", thread="t1")
            trial.acknowledged.append((run.id, run.status))
            if run.status == "waiting":
                run = run.deliver("rye")
                trial.acknowledged.append((run.id, run.status))
            if run.status == "failed":
                assert run.error.type in ("unavailable", "full", "busy")

    def check(self, trial: Trial) -> None:
        with Memory(SqliteStore(str(trial.directory / "m.db")), clock=FakeClock()) as memory:
            assert memory.ledger.verify().ok
            assert [finding for finding in memory.inspect() if not finding.ok] == []
            assert all(count == 1 for count in self.worked.values()), "nothing is done twice"
            runs = memory.runs.list()
            assert len(runs) <= 1
            flow = self.load(memory)
            for one in runs:
                assert memory.runs.verify(one.id).ok
                found = flow.find(one.id)
                self.ends[found.status] += 1
                self.check_status(trial, found, memory)
            if not runs:
                self.ends["never begun"] += 1
                assert trial.acknowledged == []
                assert not self.worked
            # Whatever happened, the next one runs.
            assert flow.run(owner="noa").deliver("again").check().output == {"got": "again"}

    def check_status(self, trial: Trial, found: Any, memory: Memory) -> None:
        if trial.acknowledged:
            _, told = trial.acknowledged[-1]
            # What was told to be over is; one that waited may have been begun again when the disk failed.
            assert found.status == told or (told == "waiting" and found.status in ("running", "failed", "completed"))
        heard = [one.text for one in messages(memory, open_thread(memory, owner="mira", id="t1"), 10) if one.by_owner]
        assert heard in ([], ["rye"])
        scratch = memory.scope(user="mira", run=found.id).value("scratch")
        if found.status == "completed":
            assert found.output == {"got": "rye"}
            assert scratch is None
            assert memory.scope(user="mira").value("shelf") == {"n": 3}
        elif found.status == "waiting":
            assert scratch == {"n": 1}
            assert found.deliver("rye").check().output == {"got": "rye"}
        elif found.status == "running":
            assert found.cancel(force=True).status == "cancelled"
            assert memory.scope(user="mira", run=found.id).value("scratch") is None


@pytest.mark.parametrize("error", ["ioerr", "full"])
def test_a_run_survives_every_fault_of_its_disk(error: ErrorName) -> None:
    first = 1 if STRIDE == 1 else {"ioerr": 2, "full": 5}[error]
    with FaultyDisk() as disk:
        life = Life(disk)
        done = sweep(
            life.run,
            life.check,
            disk=disk,
            prepare=life.prepare,
            errors=[error],
            expected=(StorageError,),
            first=first,
            step=STRIDE,
        )
    assert done.complete
    assert len(done.points) > 10
    assert {"completed", "running"} <= set(life.ends), life.ends
