"""All conformance tests of a store together."""

from __future__ import annotations

from memoranda.testing.conformance.base import ConformanceBase
from memoranda.testing.conformance.blocks import BlockPromises
from memoranda.testing.conformance.collections import CollectionPromises
from memoranda.testing.conformance.definitions import DefinitionPromises, RecordPromises
from memoranda.testing.conformance.entries import EntryPromises
from memoranda.testing.conformance.entry_lives import EntryLifePromises
from memoranda.testing.conformance.entry_rules import EntryRulePromises
from memoranda.testing.conformance.facts import FactPromises, HistoryPromises
from memoranda.testing.conformance.ledger import ApprovalPromises, LedgerPromises
from memoranda.testing.conformance.lifetimes import ErasurePromises, ExpiryPromises, SessionPromises
from memoranda.testing.conformance.permissions import PermissionPromises, ScopePromises
from memoranda.testing.conformance.recall import RecallPromises
from memoranda.testing.conformance.requests import (
    AtOncePromises,
    BatchPromises,
    BoundPromises,
    IdempotencyPromises,
    MarkPromises,
    QuotaPromises,
)
from memoranda.testing.conformance.runs import RunPromises
from memoranda.testing.conformance.schemas import SchemaPromises
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
    """The contract of a store. Subclass it with a `store` fixture, and run pytest."""
