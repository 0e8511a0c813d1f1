"""The table of subjects: importing their modules registers every effect with its verb.

A new effect is defined in the module of its subject; a new subject is one more line here. To get all verbs, import
`VERBS` from here, where it is complete.
"""

from __future__ import annotations

from memoranda.engine import (
    blocks,
    collections,
    definitions,
    entries,
    erasure,
    facts,
    recall,
    sessions,
    transfer,
)
from memoranda.engine.verbs import VERBS
from memoranda.governance import approvals, ledger, maintenance, permissions, runs

__all__ = ["SUBJECTS", "VERBS"]

SUBJECTS = (
    facts,
    sessions,
    blocks,
    entries,
    recall,
    collections,
    definitions,
    erasure,
    transfer,
    ledger,
    permissions,
    approvals,
    runs,
    maintenance,
)
