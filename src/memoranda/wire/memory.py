"""Facts, blocks, definitions and collections on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec

from memoranda.model.block import MOST_MATCHES, check_lines
from memoranda.model.block import Block as Block
from memoranda.model.block import BlockMatch as BlockMatch
from memoranda.model.block import BlockScope as BlockScope
from memoranda.model.block import BlockType as BlockType
from memoranda.model.classes import ModelValue
from memoranda.model.context import Context as BuiltContext
from memoranda.model.context import ContextKind, Omitted
from memoranda.model.definition import Definition as Definition
from memoranda.model.definition import Mode, OnStale
from memoranda.model.definition import SchemaCheck as SchemaCheck
from memoranda.model.entry import KINDS, MODES, NOTES, Kind, Why, check_mode, check_threshold
from memoranda.model.entry import Entry as StoredEntry
from memoranda.model.entry import Forgotten as Forgotten
from memoranda.model.entry import Holding as Holding
from memoranda.model.entry import Match as FoundMatch
from memoranda.model.entry import Recalled as FoundMatches
from memoranda.model.entry import Remembered as Remembered
from memoranda.model.entry import Restored as Restored
from memoranda.model.entry import Superseded as Superseded
from memoranda.model.fact import Change
from memoranda.model.fact import Fact as StoredFact
from memoranda.model.fact import Revision as StoredRevision
from memoranda.model.lesson import Learned as Learned
from memoranda.model.limits import check_count
from memoranda.model.lineage import Lineage as Lineage
from memoranda.model.lineage import Validated as Validated
from memoranda.model.probes import LeakProbes as LeakProbes
from memoranda.model.rejection import Rejection as StoredRejection
from memoranda.model.trust import TRUSTS, Origin, check_trust
from memoranda.wire.codec import between, one_of


class Derived(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What something to write was made of."""

    derived_from: list[str] = []
    """The refs of what it was made of: it is trusted no more than they are."""


class WriteFact(Derived, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fact to write. `expect` is the version it must have, 0 for a new fact, as with `If-Match`."""

    value: Any
    expect: int | None = None
    ttl: str | int | None = None
    domain: str | None = None
    source: str | None = None
    requires_confirmation: bool = False
    """Whether it waits until someone else confirms it."""


class Forget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to forget, by one of these: an `id` or ref, a `key`, a filter on metadata, an `identifier`, `about`."""

    id: str | None = None
    collection: str | None = None
    key: str | None = None
    namespace: str | None = None
    where: dict[str, Any] | None = None
    identifier: str | None = None
    inside: bool = False
    """Also find the identifier inside longer ones."""
    about: str | None = None
    """A description of what is meant."""
    dry_run: bool = False
    """Change nothing, and return what would be forgotten."""


class BatchedEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry to remember in a batch."""

    content: Any
    collection: str
    metadata: dict[str, Any] = {}
    namespace: str = ""
    ttl: str | int | None = None
    key: str | None = None


class BatchedForget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to forget in a batch."""

    id: str | None = None
    collection: str | None = None
    key: str | None = None
    namespace: str | None = None
    where: dict[str, Any] | None = None
    identifier: str | None = None


class BatchedWrite(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One write of a batch: a `value` to set or `delete` at a key, an entry to `remember`, or what to `forget`."""

    key: str | msgspec.UnsetType = msgspec.UNSET
    value: Any | msgspec.UnsetType = msgspec.UNSET
    delete: bool = False
    remember: BatchedEntry | msgspec.UnsetType = msgspec.UNSET
    forget: BatchedForget | msgspec.UnsetType = msgspec.UNSET
    expect: int | None = None
    ttl: str | int | None = None
    domain: str | None = None
    scope: str | None = None
    """Whose memory, as the parameter `scope` of the other routes. Default: the caller's own."""


class WriteFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Writes that are applied all or none."""

    writes: list[BatchedWrite]


class Fact(ModelValue, frozen=True, kw_only=True):
    """An active fact."""

    id: str
    tenant: str
    scope: str
    key: str
    value: Any
    version: int
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    domain: str | None = None
    origin: Origin = Origin()
    misfit: str | msgspec.UnsetType = msgspec.UNSET
    """Why a record does not fit the schema of its definition; left out where it fits."""


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """A revision of a fact."""

    fact_id: str
    tenant: str
    scope: str
    key: str
    version: int
    change: Change
    value: Any = None
    at: datetime
    created_at: datetime
    expires_at: datetime | None = None
    domain: str | None = None
    origin: Origin = Origin()
    forgotten: bool = False


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """A page of facts, ordered by key; `next` is the cursor of the next page, null at the end."""

    facts: list[Fact]
    next: str | None = None


class Written(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of each write, in order: the new fact, whether a fact was deleted, or null for one about entries.

    The results of writes that remember and that forget are in lists of their own, in the same order.
    """

    results: list[Fact | bool | None]
    remembered: list[Remembered] = []
    forgotten: list[Forgotten] = []


class History(msgspec.Struct, frozen=True, kw_only=True):
    """A page of revisions, oldest first; `next` is the cursor of the next page, null at the end."""

    revisions: list[Revision]
    next: str | None = None


def fact_json(fact: StoredFact) -> Fact:
    """Return a fact as its wire type, with the tenant and the scope as text."""
    return Fact(
        id=fact.id,
        tenant=fact.scope.tenant,
        scope=fact.scope.path,
        key=fact.key,
        value=fact.value,
        version=fact.version,
        created_at=fact.created_at,
        updated_at=fact.updated_at,
        expires_at=fact.expires_at,
        domain=fact.domain,
        origin=fact.origin,
        misfit=fact.misfit,
    )


def revision_json(revision: StoredRevision) -> Revision:
    """Return a revision as its wire type."""
    return Revision(
        fact_id=revision.fact_id,
        tenant=revision.scope.tenant,
        scope=revision.scope.path,
        key=revision.key,
        version=revision.version,
        change=revision.change,
        value=revision.value,
        at=revision.at,
        created_at=revision.created_at,
        expires_at=revision.expires_at,
        domain=revision.domain,
        origin=revision.origin,
        forgotten=revision.forgotten,
    )


Limit = Annotated[int, between(1, MOST_MATCHES)]


class UpdateBlock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The new text of a block, and the `updated_at` it must still have: null for a block that does not exist yet.

    `expected_updated_at` is required unless the header `If-Match` or `If-None-Match: *` is sent.
    """

    content: str
    expected_updated_at: datetime | msgspec.UnsetType | None = msgspec.UNSET
    source: str | None = None
    """Where the text comes from; recorded in the history."""


class UndoBlock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `updated_at` of the block to undo, null for a deleted block."""

    expected_updated_at: datetime | msgspec.UnsetType | None = msgspec.UNSET


class RecallBlocks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A query over the user's archival block, and with an `agent_id` also that agent's."""

    query: str
    agent_id: str | None = None
    limit: Limit = 10
    min_score: float | None = None

    def __post_init__(self) -> None:
        """Check the limit with the engine's own error."""
        check_lines(self.limit)


class NewDefinition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A definition to create."""

    name: str
    slug: str
    schema: dict[str, Any]
    scope: str = "global"
    ttl: str | int | None = None
    mode: Mode | None = None
    id: str | None = None


class ChangeDefinition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The fields to change. A `ttl` of null makes future records permanent."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    slug: str | msgspec.UnsetType = msgspec.UNSET
    schema: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    scope: str | msgspec.UnsetType = msgspec.UNSET
    ttl: str | int | msgspec.UnsetType | None = msgspec.UNSET
    mode: Mode | msgspec.UnsetType = msgspec.UNSET
    stale: OnStale = "refuse"
    """What to do if records would no longer fit: refuse the change, or keep them as they are."""
    migrate: str | None = None
    """A JSONata expression that makes the new value of a record that would no longer fit, from its `$record`."""


class Definitions(msgspec.Struct, frozen=True, kw_only=True):
    """A page of definitions, oldest first."""

    definitions: list[Definition]
    next: str | None = None


class Records(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the active records of a definition, of all owners."""

    records: list[Fact]
    next: str | None = None


class Remember(Derived, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry to remember: text or JSON."""

    content: Any
    metadata: dict[str, Any] = {}
    namespace: str = ""
    ttl: str | int | None = None
    key: str | None = None
    chunk: int | bool | None = None
    """Store a long text in parts of at most this many characters; true for 1,200."""
    source: str | None = None
    requires_confirmation: bool = False
    """Whether it waits until someone else confirms it."""


class RememberAnywhere(Remember, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry to remember, in a collection that need not be named."""

    collection: str = NOTES


class Item(Derived, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of several entries to remember."""

    content: Any
    metadata: dict[str, Any] = {}
    key: str | None = None


class RememberMany(Derived, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Entries to remember, all or none; what is `derived_from` is so for each, and an item may name more."""

    items: list[Item]
    namespace: str = ""
    ttl: str | int | None = None
    source: str | None = None


class RememberText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A long text to remember in chunks of at most `chunk` characters."""

    text: str
    chunk: Annotated[int, between(1)] = 1_200
    metadata: dict[str, Any] = {}
    namespace: str = ""
    ttl: str | int | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        """Check the size with the engine's own error."""
        check_count("chunk", self.chunk, least=1, path="chunk")


class AllRemembered(msgspec.Struct, frozen=True, kw_only=True):
    """The result for each entry, in order."""

    remembered: list[Remembered]


class Recall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A recall query; without a `namespace` all of them are searched."""

    query: str
    namespace: str | None = None
    limit: Annotated[int, between(0)] = 5
    threshold: Annotated[float, between(0, 1)] = 0.0
    filter: dict[str, Any] | None = None
    as_of: datetime | None = None
    mode: Annotated[str, one_of(MODES)] = "hybrid"
    expand: Annotated[int, between(0)] = 0
    min_trust: Annotated[str, one_of(TRUSTS)] = "untrusted"
    """Leave out what is trusted less."""
    exact: bool = False
    """Compare everything, in very large collections too."""

    def __post_init__(self) -> None:
        """Check the numbers with the engine's own errors; it also checks their upper limits."""
        check_count("limit", self.limit, path="limit")
        check_count("number of neighbours", self.expand, path="expand")
        check_threshold(self.threshold)
        check_mode(self.mode)
        check_trust(self.min_trust)


class RecallAnywhere(Recall, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A recall query; without a `collection` everything that the scope sees is searched."""

    collection: str | None = None
    kinds: list[Annotated[str, one_of(KINDS)]] | None = None
    collections: list[str] | None = None
    scopes: list[str] | None = None
    """Whole scopes such as `user:ada/agent:emails`, each searched by itself."""


class Learn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages to learn from, as OpenAI, Anthropic or LangChain have them, or with `role`, `content`, `name`, `at`."""

    messages: list[Any]
    conversation: str | None = None
    """The id of the conversation; without one it follows from how the conversation begins."""
    agent: str | None = None
    """The agent that was spoken with."""
    model: str | None = None
    """The model that extracts statements, as `provider:model`; without one, rules do."""
    at: str | float | None = None
    """The time of messages that have none."""
    source: str | None = None


class AskContext(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an agent is about to answer, and how much it may be told."""

    query: str = ""
    budget: Annotated[int, between(0)] = 1_500
    """Maximum number of tokens."""
    definitions: list[str] = []
    """Slugs of definitions whose records are shown."""
    kinds: list[Annotated[str, one_of(KINDS)]] | None = None
    collections: list[str] | None = None
    scopes: list[str] = []
    """Scopes that are searched too, such as `project:atlas`."""
    limit: Annotated[int, between(0)] = 12
    threshold: Annotated[float, between(0, 1)] | None = None
    core: bool = True
    """Whether core blocks are shown."""
    min_trust: Annotated[str, one_of(TRUSTS)] = "untrusted"
    """Leave out what is trusted less."""

    def __post_init__(self) -> None:
        """Check the numbers with the engine's own errors."""
        check_count("budget", self.budget, path="budget")
        check_count("limit", self.limit, path="limit")
        if self.threshold is not None:
            check_threshold(self.threshold)
        check_trust(self.min_trust)


class ContextItem(msgspec.Struct, frozen=True, kw_only=True):
    """One memory in a context."""

    kind: ContextKind
    ref: str
    text: str
    scope: str
    source: str
    score: float | None = None
    updated_at: datetime
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    superseded_by: str | None = None
    """The ref of what is true instead."""
    corroboration: int = 1
    """Number of independent origins that say the same."""
    origin: Origin = Origin()
    tokens: int = 0


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent should be told now: as text for its prompt, and as items."""

    text: str
    items: list[ContextItem]
    left_out: list[Omitted]
    tokens: int
    budget: int | None = None


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A remembered entry."""

    id: str
    tenant: str
    scope: str
    collection: str
    namespace: str = ""
    key: str | None = None
    content: Any
    metadata: dict[str, Any]
    created_at: datetime
    expires_at: datetime | None = None
    origin: Origin = Origin()
    sequence: int = 0
    ref: str = ""
    """What it is read, superseded or forgotten by."""
    valid_from: datetime | None = None
    """Since when it holds."""
    valid_to: datetime | None = None
    """Until when it held; null while it is current."""


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """What a recall found, with its score from 0 to 1 and an explanation."""

    content: Any
    metadata: dict[str, Any]
    score: float
    why: Why
    kind: Kind = "entry"
    ref: str
    key: str | None = None
    id: str
    collection: str | None = None
    namespace: str
    tenant: str
    scope: str
    origin: Origin = Origin()
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    valid_from: datetime
    valid_to: datetime | None = None
    superseded_by: str | None = None
    """The ref of what is true instead, where that is known."""
    corroboration: int = 1
    """Number of independent origins that say the same: repetitions, copies and imports add nothing."""
    before: list[Entry] = []
    after: list[Entry] = []


class Recalled(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The matches of a recall, best first; `next` if some did not fit into this response."""

    results: list[Match]
    count: int
    """Number of matches in this response."""
    next: str | None = None
    known: bool = True
    hint: str = ""


class Entries(msgspec.Struct, frozen=True, kw_only=True):
    """A page of entries, oldest first unless the newest were asked for."""

    entries: list[Entry]
    next: str | None = None


class Supersede(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What takes the place of an entry, of the value of a fact, or of a line of a block.

    Without `metadata`, an entry has those of the one before it.
    """

    content: Any
    metadata: dict[str, Any] | None = None
    ttl: str | int | None = None
    source: str | None = None


class CopyTo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The scope that an entry or a fact is copied to."""

    ref: str
    to: str


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """The copy of an entry or a fact."""

    ref: str
    scope: str


class Validate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry or a fact that the caller has checked."""

    ref: str
    expect: int | None = None
    """The version of the fact that was checked."""
    reason: str = ""


class SupersedeDescribed(Supersede, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to put in the place of the entry or line that a description means."""

    about: str
    collection: str = NOTES
    """Where to store it if nothing is meant."""


class ProbeLeaks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to look for: a text, or the ref of an entry, a fact or a line."""

    content: str


class Undo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `undo` of a result, to bring back what that call ended."""

    token: str


class Reject(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may not come back: a ref or a text, or with a `key` any value."""

    value: Any
    key: str | None = None
    reason: str = ""


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """A value that may not come back: who rejected it, when and why. The value is not stored."""

    id: str
    scope: str
    key: str | None
    """The only key that it is refused under; null where it is refused everywhere."""
    at: datetime
    actor: str
    reason: str
    undo: str | None
    """What brings back what it ended, once it is withdrawn."""
    ended: tuple[str, ...]
    """What it ended, in the answer to the call that made it."""


class Rejections(msgspec.Struct, frozen=True, kw_only=True):
    """What was rejected at and below a scope, oldest first."""

    rejections: list[Rejection]


def rejection_json(rejection: StoredRejection) -> Rejection:
    """Return a rejection as it is sent."""
    given: dict[str, Any] = {**msgspec.structs.asdict(rejection), "scope": rejection.scope.path}
    return Rejection(**given)


class Scopes(msgspec.Struct, frozen=True, kw_only=True):
    """A page of scopes that have facts or entries, ordered by path."""

    scopes: list[str]
    next: str | None = None


class Namespaces(msgspec.Struct, frozen=True, kw_only=True):
    """The namespaces with entries, by name; the empty one is that of entries without a namespace."""

    namespaces: list[str]


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """Number of entries removed with a collection, in all scopes of the tenant."""

    entries: int


class Collections(msgspec.Struct, frozen=True, kw_only=True):
    """A page of collections, by name."""

    collections: list[Holding]
    next: str | None = None


def entry_json(entry: StoredEntry) -> Entry:
    """Return an entry as its wire type."""
    return Entry(
        id=entry.id,
        tenant=entry.scope.tenant,
        scope=entry.scope.path,
        collection=entry.collection,
        namespace=entry.namespace,
        key=entry.key,
        content=entry.content,
        metadata=entry.metadata,
        created_at=entry.created_at,
        expires_at=entry.expires_at,
        origin=entry.origin,
        sequence=entry.sequence,
        ref=entry.ref,
        valid_from=entry.valid_from,
        valid_to=entry.valid_to,
    )


def recall_json(recalled: FoundMatches) -> Recalled:
    """Return the matches of a recall as their wire type."""
    results = [_match_json(match) for match in recalled.results]
    return Recalled(results=results, count=recalled.count, known=recalled.known, hint=recalled.hint)


def context_json(context: BuiltContext) -> Context:
    """Return a context as its wire type."""
    return Context(
        text=context.text,
        items=[msgspec.convert(item.to_dict(), ContextItem, strict=False) for item in context.items],
        left_out=list(context.left_out),
        tokens=context.tokens,
        budget=context.budget,
    )


def _match_json(match: FoundMatch) -> Match:
    return Match(
        content=match.content,
        metadata=match.metadata,
        score=match.score,
        why=match.why,
        kind=match.kind,
        ref=match.ref,
        key=match.key,
        id=match.id,
        collection=match.collection,
        namespace=match.namespace,
        tenant=match.scope.tenant,
        scope=match.scope.path,
        origin=match.origin,
        created_at=match.created_at,
        updated_at=match.updated_at,
        expires_at=match.expires_at,
        valid_from=match.valid_from,
        valid_to=match.valid_to,
        superseded_by=match.superseded_by,
        corroboration=match.corroboration,
        before=[entry_json(entry) for entry in match.before],
        after=[entry_json(entry) for entry in match.after],
    )
