"""What Recollect is tested with, for those who build on it: time, ids, faults, kills and checkers.

`recollect.testing.conformance` holds the promises of each replaceable part as test classes to subclass.
"""

from recollect.testing.clock import FakeClock
from recollect.testing.crash import Round, kill_rounds
from recollect.testing.disk import CODES, FaultyDisk, Point
from recollect.testing.faults import Sweep, Trial, sweep
from recollect.testing.history import Operation, Recorder, load, merge, save
from recollect.testing.ids import CountingIds
from recollect.testing.linearizability import Verdict, check, check_versions

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
