"""Measure how a memory system is governed: sixty requirements as scenarios that run on any system.

Subclass `MemorySystem` for a system of your own, override what it can do, and run `scorecard` on the class. Each
requirement has an obligation (something must be there), a negative (something must not), or both; they are two scores
and are never added. A negative counts only if what had to be there in the same scenario was there, so a store that
returns nothing passes none.

>>> card = scorecard(NullStore)
>>> str(card.score("obligation")).partition(" (")[0], card.score("negative").held
('0 of 52', 0)
"""

from memoranda.testing.governance import authority, boundaries, deletion, inside, prompts
from memoranda.testing.governance.floors import FLOORS, AppendStore, CarelessStore, NullStore, WipeStore
from memoranda.testing.governance.memoranda_system import MemorandaSystem
from memoranda.testing.governance.requirements import REQUIREMENTS, Checks, Outcome, Requirement, run
from memoranda.testing.governance.scorecard import Score, Scorecard, failures, scorecard
from memoranda.testing.governance.system import MemorySystem, Refused, Unsupported

SUBJECTS = (boundaries, deletion, prompts, authority, inside)
"""The modules with the requirements, in which each is registered."""

__all__ = [
    "FLOORS",
    "REQUIREMENTS",
    "SUBJECTS",
    "AppendStore",
    "CarelessStore",
    "Checks",
    "MemorandaSystem",
    "MemorySystem",
    "NullStore",
    "Outcome",
    "Refused",
    "Requirement",
    "Score",
    "Scorecard",
    "Unsupported",
    "WipeStore",
    "failures",
    "run",
    "scorecard",
]
