"""All promises together: what a store is held to."""

from __future__ import annotations

from memoranda.testing.conformance.approvals import ApprovalPromises
from memoranda.testing.conformance.at_once import AtOncePromises
from memoranda.testing.conformance.base import ConformanceBase
from memoranda.testing.conformance.batches import BatchPromises
from memoranda.testing.conformance.blocks import BlockPromises
from memoranda.testing.conformance.bounds import BoundPromises
from memoranda.testing.conformance.collections import CollectionPromises
from memoranda.testing.conformance.definitions import DefinitionPromises
from memoranda.testing.conformance.entries import EntryPromises
from memoranda.testing.conformance.entry_lives import EntryLifePromises
from memoranda.testing.conformance.entry_rules import EntryRulePromises
from memoranda.testing.conformance.erasure import ErasurePromises
from memoranda.testing.conformance.expiry import ExpiryPromises
from memoranda.testing.conformance.facts import FactPromises
from memoranda.testing.conformance.history import HistoryPromises
from memoranda.testing.conformance.idempotency import IdempotencyPromises
from memoranda.testing.conformance.ledger import LedgerPromises
from memoranda.testing.conformance.marks import MarkPromises
from memoranda.testing.conformance.permissions import PermissionPromises
from memoranda.testing.conformance.quotas import QuotaPromises
from memoranda.testing.conformance.recall import RecallPromises
from memoranda.testing.conformance.records import RecordPromises
from memoranda.testing.conformance.runs import RunPromises
from memoranda.testing.conformance.schemas import SchemaPromises
from memoranda.testing.conformance.scopes import ScopePromises
from memoranda.testing.conformance.sessions import SessionPromises
from memoranda.testing.conformance.transfer import TransferPromises


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
