"""Memoranda: the memory that AI agents share.

One engine, several doors, one truth: facts with versions, history, expiry and compare-and-set; definitions that
check them; entries that are found by meaning; a gate that every effect passes; a hash-chained ledger that says what
happened.

>>> import memoranda
>>> with memoranda.open(":memory:") as memory:
...     ada = memory.scope(user="ada")
...     fact = ada.set("profile.language", "en", ttl="90d")
...     ada.value("profile.language")
'en'
"""

from typing import TYPE_CHECKING, Any

from memoranda.api.memory import Memory, open
from memoranda.api.scoped import Batch, ScopedBatch, ScopedMemory
from memoranda.engine.erasure import Receipt, Swept
from memoranda.errors import (
    ActionFailed,
    AlreadyExists,
    ApprovalRequired,
    Busy,
    Conflict,
    Corrupt,
    Denied,
    EmbedderError,
    EmbedderMismatch,
    EmbeddingFailed,
    EvaluationFailed,
    ForeignDatabase,
    Full,
    Held,
    IdempotencyMismatch,
    Incomplete,
    InvalidDefinition,
    InvalidDuration,
    InvalidFilter,
    InvalidInput,
    InvalidKey,
    InvalidPolicy,
    InvalidScope,
    InvalidValue,
    LimitExceeded,
    MemorandaError,
    MigrationNeeded,
    ModelError,
    ModelFailed,
    ModelUnavailable,
    NotFound,
    NotInstalled,
    NotVerified,
    QuotaExceeded,
    ReadOnly,
    Refused,
    Rejected,
    RunFailed,
    SchemaViolation,
    ScopeEnded,
    SourceError,
    StaleEpoch,
    StaleRecords,
    StorageError,
    Unauthenticated,
    Unavailable,
    UsageError,
)
from memoranda.governance.detection import Detection
from memoranda.model.block import Block, BlockMatch
from memoranda.model.definition import Definition, Migration, SchemaCheck, StaleRecord
from memoranda.model.effect import Approval, Contested
from memoranda.model.entry import (
    Calibration,
    Collection,
    Entry,
    Forgotten,
    Holding,
    Match,
    Recalled,
    Remembered,
    Restored,
    Superseded,
    Why,
)
from memoranda.model.event import Anchor, Event, RunEvent, RunStep, RunSummary, RunVerification, Verification
from memoranda.model.fact import Fact, Revision
from memoranda.model.guard import GuardPolicy, GuardRule
from memoranda.model.limits import Limits
from memoranda.model.lineage import Deletion, Lineage, Relative, Rollback, Served, Tainted, Validated
from memoranda.model.policy import Grant, Policy, Quota, Role, Rule
from memoranda.model.probes import LeakProbes
from memoranda.model.rejection import Rejection
from memoranda.model.scope import Scope
from memoranda.model.transfer import Imported
from memoranda.model.trust import Origin

if TYPE_CHECKING:
    from memoranda import abl, chat, mashin, sleep, testing, workflow
    from memoranda.api.aio import AsyncMemory, AsyncScopedMemory
    from memoranda.api.move import Moved, MovedTable, MoveProgress, migrate
    from memoranda.client import AsyncClient, Client
    from memoranda.runs.steps import Recording

__version__ = "0.1.0"

__all__ = [
    "ActionFailed",
    "AlreadyExists",
    "Anchor",
    "Approval",
    "ApprovalRequired",
    "AsyncClient",
    "AsyncMemory",
    "AsyncScopedMemory",
    "Batch",
    "Block",
    "BlockMatch",
    "Busy",
    "Calibration",
    "Client",
    "Collection",
    "Conflict",
    "Contested",
    "Corrupt",
    "Definition",
    "Deletion",
    "Denied",
    "Detection",
    "EmbedderError",
    "EmbedderMismatch",
    "EmbeddingFailed",
    "Entry",
    "EvaluationFailed",
    "Event",
    "Fact",
    "ForeignDatabase",
    "Forgotten",
    "Full",
    "Grant",
    "GuardPolicy",
    "GuardRule",
    "Held",
    "Holding",
    "IdempotencyMismatch",
    "Imported",
    "Incomplete",
    "InvalidDefinition",
    "InvalidDuration",
    "InvalidFilter",
    "InvalidInput",
    "InvalidKey",
    "InvalidPolicy",
    "InvalidScope",
    "InvalidValue",
    "LeakProbes",
    "LimitExceeded",
    "Limits",
    "Lineage",
    "Match",
    "MemorandaError",
    "Memory",
    "Migration",
    "MigrationNeeded",
    "ModelError",
    "ModelFailed",
    "ModelUnavailable",
    "MoveProgress",
    "Moved",
    "MovedTable",
    "NotFound",
    "NotInstalled",
    "NotVerified",
    "Origin",
    "Policy",
    "Quota",
    "QuotaExceeded",
    "ReadOnly",
    "Recalled",
    "Receipt",
    "Recording",
    "Refused",
    "Rejected",
    "Rejection",
    "Relative",
    "Remembered",
    "Restored",
    "Revision",
    "Role",
    "Rollback",
    "Rule",
    "RunEvent",
    "RunFailed",
    "RunStep",
    "RunSummary",
    "RunVerification",
    "SchemaCheck",
    "SchemaViolation",
    "Scope",
    "ScopeEnded",
    "ScopedBatch",
    "ScopedMemory",
    "Served",
    "SourceError",
    "StaleEpoch",
    "StaleRecord",
    "StaleRecords",
    "StorageError",
    "Superseded",
    "Swept",
    "Tainted",
    "Unauthenticated",
    "Unavailable",
    "UsageError",
    "Validated",
    "Verification",
    "Why",
    "abl",
    "chat",
    "mashin",
    "migrate",
    "open",
    "sleep",
    "testing",
    "workflow",
]


def __getattr__(name: str) -> Any:
    """Return what is imported only when it is asked for: asyncio, or a language, takes as long as half of the rest."""
    if name in ("AsyncMemory", "AsyncScopedMemory"):
        from memoranda.api import aio

        return getattr(aio, name)
    if name in ("AsyncClient", "Client"):
        from memoranda import client

        return getattr(client, name)
    if name in ("MoveProgress", "Moved", "MovedTable", "migrate"):
        from memoranda.api import move

        return getattr(move, name)
    if name == "Recording":
        from memoranda.runs.steps import Recording

        return Recording
    if name in ("abl", "chat", "mashin", "sleep", "testing", "workflow"):
        from importlib import import_module

        return import_module(f"memoranda.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return what a prompt completes: what is public, whether it was imported already or not."""
    return [*__all__, "__version__"]
