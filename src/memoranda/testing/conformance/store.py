"""All conformance tests of a store together."""

from __future__ import annotations

from memoranda.testing.conformance.base import ConformanceBase
from memoranda.testing.conformance.blocks import BlockPromises
from memoranda.testing.conformance.changes import (
    ChainPromises,
    EntryBatchPromises,
    EntryListPromises,
    ForgetPromises,
)
from memoranda.testing.conformance.collections import CollectionPromises
from memoranda.testing.conformance.definitions import DefinitionPromises, RecordPromises, SchemaPromises
from memoranda.testing.conformance.entries import EntryLifePromises, EntryPromises
from memoranda.testing.conformance.facts import (
    ErasurePromises,
    ExpiryPromises,
    FactPromises,
    HistoryPromises,
    SessionPromises,
)
from memoranda.testing.conformance.forgetting import (
    DescriptionPromises,
    LeakProbePromises,
    OpenConversationPromises,
)
from memoranda.testing.conformance.guard import GuardPolicyPromises, GuardPromises, QuarantinePromises
from memoranda.testing.conformance.influence import InfluencePromises
from memoranda.testing.conformance.learning import ContextPromises, LearnPromises
from memoranda.testing.conformance.ledger import ApprovalPromises, LedgerPromises
from memoranda.testing.conformance.lineage import (
    ConfirmationPromises,
    ContainmentPromises,
    EpochPromises,
    LineagePromises,
    ValidationPromises,
)
from memoranda.testing.conformance.permissions import PermissionPromises, ScopePromises
from memoranda.testing.conformance.recall import EntryRulePromises, RecallPromises
from memoranda.testing.conformance.rejections import RejectionPromises
from memoranda.testing.conformance.requests import (
    AtOncePromises,
    BatchPromises,
    BoundPromises,
    IdempotencyPromises,
    MarkPromises,
    QuotaPromises,
)
from memoranda.testing.conformance.runs import RunPromises
from memoranda.testing.conformance.transfer import TransferPromises
from memoranda.testing.conformance.trust import AuthorityPromises, OriginPromises


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
    LearnPromises,
    ContextPromises,
    CollectionPromises,
    EntryLifePromises,
    EntryRulePromises,
    ChainPromises,
    ForgetPromises,
    EntryBatchPromises,
    EntryListPromises,
    BlockPromises,
    BoundPromises,
    AtOncePromises,
    MarkPromises,
    OriginPromises,
    DescriptionPromises,
    LeakProbePromises,
    OpenConversationPromises,
    AuthorityPromises,
    GuardPolicyPromises,
    GuardPromises,
    RejectionPromises,
    QuarantinePromises,
    LineagePromises,
    ValidationPromises,
    ContainmentPromises,
    EpochPromises,
    ConfirmationPromises,
    InfluencePromises,
    ConformanceBase,
):
    """The contract of a store. Subclass it with a `store` fixture, and run pytest."""
