"""All promises together: what a store is held to."""

from __future__ import annotations

from recollect.testing.conformance.approvals import ApprovalPromises
from recollect.testing.conformance.at_once import AtOncePromises
from recollect.testing.conformance.base import ConformanceBase
from recollect.testing.conformance.batches import BatchPromises
from recollect.testing.conformance.blocks import BlockPromises
from recollect.testing.conformance.bounds import BoundPromises
from recollect.testing.conformance.collections import CollectionPromises
from recollect.testing.conformance.definitions import DefinitionPromises
from recollect.testing.conformance.entries import EntryPromises
from recollect.testing.conformance.entry_lives import EntryLifePromises
from recollect.testing.conformance.entry_rules import EntryRulePromises
from recollect.testing.conformance.erasure import ErasurePromises
from recollect.testing.conformance.expiry import ExpiryPromises
from recollect.testing.conformance.facts import FactPromises
from recollect.testing.conformance.history import HistoryPromises
from recollect.testing.conformance.idempotency import IdempotencyPromises
from recollect.testing.conformance.ledger import LedgerPromises
from recollect.testing.conformance.marks import MarkPromises
from recollect.testing.conformance.permissions import PermissionPromises
from recollect.testing.conformance.quotas import QuotaPromises
from recollect.testing.conformance.recall import RecallPromises
from recollect.testing.conformance.records import RecordPromises
from recollect.testing.conformance.runs import RunPromises
from recollect.testing.conformance.schemas import SchemaPromises
from recollect.testing.conformance.scopes import ScopePromises
from recollect.testing.conformance.sessions import SessionPromises
from recollect.testing.conformance.transfer import TransferPromises


class StoreConformance(
    FactPromises,
    HistoryPromises,
    ExpiryPromises,
    ScopePromises,
    IdempotencyPromises,
    BatchPromises,
    DefinitionPromises,
    SchemaPromises,
    RecordPromises,
    PermissionPromises,
    QuotaPromises,
    ApprovalPromises,
    LedgerPromises,
    RunPromises,
    ErasurePromises,
    SessionPromises,
    TransferPromises,
    EntryPromises,
    RecallPromises,
    CollectionPromises,
    EntryLifePromises,
    EntryRulePromises,
    BlockPromises,
    BoundPromises,
    AtOncePromises,
    MarkPromises,
    ConformanceBase,
):
    """What every store promises. Subclass, give a `store` fixture, run pytest."""
