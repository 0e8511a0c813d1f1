"""Tools for tests: a fake clock, predictable ids, disk faults, kills, and a linearizability checker.

`memoranda.testing.conformance` has test classes for stores, embedders and vector indexes of your own.

>>> import tempfile
>>> from pathlib import Path
>>> recorder = Recorder()
>>> with recorder.call("ada", "city", "write", argument="Faro") as call:
...     call.ok(version=1)
>>> with tempfile.TemporaryDirectory() as place:
...     save(recorder.history, Path(place) / "history.jsonl")
...     history = merge(load(Path(place) / "history.jsonl"))
>>> check(history).ok, check_versions(history).ok
(True, True)

>>> script = "import time; print('written', flush=True); time.sleep(60)"
>>> [(one.acknowledged, one.killed) for one in kill_rounds(script, rounds=1, acknowledgements=(1, 1))]
[(('written',), True)]

>>> import memoranda
>>> from memoranda.store.sqlite.store import SqliteStore
>>> with FaultyDisk() as disk:
...     def body(trial):
...         with memoranda.Memory(SqliteStore(trial.directory / "m.db", vfs=disk.vfs)) as memory:
...             memory.scope(user="ada").set("city", "Faro")
...         trial.acknowledged.append("Faro")
...
...     def look(trial):
...         with memoranda.open(trial.directory / "m.db") as memory:
...             assert memory.scope(user="ada").value("city") in (trial.acknowledged or (None, "Faro"))
...
...     swept = sweep(body, look, disk=disk, errors=("full",), most=3)
>>> len(swept.points)
6
"""

from memoranda.testing.crash import Round, kill_rounds
from memoranda.testing.fakes import CountingIds, FakeClock
from memoranda.testing.faults import CODES, FaultyDisk, Point, Sweep, Trial, sweep
from memoranda.testing.linearizability import Operation, Recorder, Verdict, check, check_versions, load, merge, save

__all__ = [
    "CODES",
    "CountingIds",
    "FakeClock",
    "FaultyDisk",
    "Operation",
    "Point",
    "Recorder",
    "Round",
    "Sweep",
    "Trial",
    "Verdict",
    "check",
    "check_versions",
    "kill_rounds",
    "load",
    "merge",
    "save",
    "sweep",
]
