"""What Memoranda is tested with, for those who build on it: time, ids, faults, kills and checkers.

`memoranda.testing.conformance` holds the promises of each replaceable part as test classes to subclass.

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

from memoranda.testing.clock import FakeClock
from memoranda.testing.crash import Round, kill_rounds
from memoranda.testing.disk import CODES, FaultyDisk, Point
from memoranda.testing.faults import Sweep, Trial, sweep
from memoranda.testing.history import Operation, Recorder, load, merge, save
from memoranda.testing.ids import CountingIds
from memoranda.testing.linearizability import Verdict, check, check_versions

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
