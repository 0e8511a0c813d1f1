"""Requests to the engine as values: what a door asks for, before anybody has decided whether it may."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar, Literal

import msgspec

from memoranda.model.block import ARCHIVAL_KEY, BLOCKS, agent_scope
from memoranda.model.collection import Space
from memoranda.model.event import Anchor
from memoranda.model.key import collection_key, lies_under
from memoranda.model.policy import Rule
from memoranda.model.recall import Mode
from memoranda.model.run import Language, RunNote, RunStatus
from memoranda.model.scope import Scope
from memoranda.model.transfer import ImportedDefinition, ImportedEntry, ImportedFact, ImportedSession


class EffectBase(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag_field="effect", omit_defaults=True):
    """What every effect tells the gate: the capability it needs, and whether it changes anything."""

    capability: ClassVar[str]
    mutates: ClassVar[bool]
    scope: Scope

    @property
    def name(self) -> str:
        """The effect's name in the ledger."""
        return str(self.__struct_config__.tag)

    @property
    def place(self) -> str | None:
        """The key this effect is about; None when it is about the whole scope."""
        return getattr(self, "key", None)

    def demands(self) -> Iterator[tuple[str, Scope, str | None]]:
        """Yield every capability this effect needs, with the scope, and the key where it names one."""
        yield self.capability, self.scope, self.place


class GetFact(EffectBase, frozen=True, kw_only=True, tag="get_fact"):
    """Read one fact, now or as of a moment (microseconds)."""

    capability: ClassVar[str] = "memory.read"
    mutates: ClassVar[bool] = False
    key: str
    as_of: int | None = None


class GetFacts(EffectBase, frozen=True, kw_only=True, tag="get_facts"):
    """Read several facts of one tenant in one moment."""

    capability: ClassVar[str] = "memory.read"
    mutates: ClassVar[bool] = False
    gets: tuple[GetFact, ...]

    def demands(self) -> Iterator[tuple[str, Scope, str | None]]:
        """Yield what each read needs."""
        for get in self.gets:
            yield from get.demands()


class ListFacts(EffectBase, frozen=True, kw_only=True, tag="list_facts"):
    """Read the facts at and below a key, in the order of their keys."""

    capability: ClassVar[str] = "memory.read"
    mutates: ClassVar[bool] = False
    prefix: str = ""
    domain: str | None = None
    after: str = ""
    limit: int | None = None
    max_bytes: int | None = None
    """Stop after the fact with which the values exceed this; so it is in every effect below that has it."""
    as_of: int | None = None

    @property
    def place(self) -> str | None:
        """The prefix, where there is one."""
        return self.prefix or None


class FindFacts(EffectBase, frozen=True, kw_only=True, tag="find_facts"):
    """Read the facts of one key in a scope and in every scope below it, in the order of their scopes."""

    capability: ClassVar[str] = "memory.read"
    mutates: ClassVar[bool] = False
    key: str
    limit: int | None = None


class ReadHistory(EffectBase, frozen=True, kw_only=True, tag="read_history"):
    """Read the revisions of one fact: oldest first after a version, or newest first before one."""

    capability: ClassVar[str] = "memory.read"
    mutates: ClassVar[bool] = False
    key: str
    after: int = 0
    before: int | None = None
    newest: bool = False
    limit: int | None = None
    max_bytes: int | None = None


class SetFact(EffectBase, frozen=True, kw_only=True, tag="set_fact"):
    """Write one fact. `expect` is the version it must be at: 0 means it must not exist, None means whatever.

    `stamp` is the same for those who know when it was last written (microseconds) and not its version.
    `record` is the id of the definition that must speak about the key: then its mode says whether the value takes the
    place of the one that stands there, or is merged into it.
    """

    capability: ClassVar[str] = "memory.write"
    mutates: ClassVar[bool] = True
    key: str
    payload: msgspec.Raw
    expect: int | None = None
    stamp: int | None = None
    ttl: int | None = None
    domain: str | None = None
    source: str | None = None
    idempotency_key: str | None = None
    record: str | None = None
    echo: bool = True
    """Whether the fact that comes back holds its value; who knows what it wrote spares reading it again."""


class DeleteFact(EffectBase, frozen=True, kw_only=True, tag="delete_fact"):
    """Delete one fact, if it is at the version and stamp that are expected; its history stays."""

    capability: ClassVar[str] = "memory.write"
    mutates: ClassVar[bool] = True
    key: str
    expect: int | None = None
    stamp: int | None = None
    source: str | None = None
    idempotency_key: str | None = None


class WriteFacts(EffectBase, frozen=True, kw_only=True, tag="write_facts"):
    """Several sets and deletes in one tenant, all or nothing."""

    capability: ClassVar[str] = "memory.write"
    mutates: ClassVar[bool] = True
    writes: tuple[SetFact | DeleteFact, ...]
    idempotency_key: str | None = None

    def demands(self) -> Iterator[tuple[str, Scope, str | None]]:
        """Yield what each write needs."""
        for write in self.writes:
            yield from write.demands()


class Item(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One thing to remember."""

    payload: msgspec.Raw
    """The content as JSON."""
    metadata: msgspec.Raw
    """The metadata as JSON, as `encode` writes them."""
    key: str | None = None


class _InCollection(EffectBase, frozen=True, kw_only=True):
    """An effect in one collection. Rules and accesses name it as they name a key."""

    collection: str

    @property
    def place(self) -> str | None:
        """The collection, spelled as a key."""
        return collection_key(self.collection)


class Remember(_InCollection, frozen=True, kw_only=True, tag="remember"):
    """Store contents so that they can be found by meaning, all or nothing."""

    capability: ClassVar[str] = "memory.write"
    mutates: ClassVar[bool] = True
    namespace: str = ""
    items: tuple[Item, ...]
    ttl: int | None = None
    source: str | None = None


class Recall(_InCollection, frozen=True, kw_only=True, tag="recall"):
    """Find entries by meaning and words; a namespace of None looks through all of them."""

    capability: ClassVar[str] = "memory.read"
    mutates: ClassVar[bool] = False
    query: str
    namespace: str | None = None
    limit: int = 5
    threshold: float = 0.0
    filter: dict[str, Any] | None = None
    as_of: int | None = None
    mode: Mode = "hybrid"
    expand: int = 0
    offset: int = 0
    """Matches to leave out at the beginning: those that an earlier answer had."""
    max_bytes: int | None = None


class ListEntries(_InCollection, frozen=True, kw_only=True, tag="list_entries"):
    """Read the entries that stand in a collection, in the order they came, from the first after a sequence."""

    capability: ClassVar[str] = "memory.read"
    mutates: ClassVar[bool] = False
    namespace: str | None = None
    after: int = 0
    limit: int | None = None
    max_bytes: int | None = None


class Forget(_InCollection, frozen=True, kw_only=True, tag="forget"):
    """Let an entry end, by its id or by its key in a namespace; it can still be recalled as of earlier moments."""

    capability: ClassVar[str] = "memory.write"
    mutates: ClassVar[bool] = True
    namespace: str = ""
    id: str | None = None
    key: str | None = None


class ListBlocks(EffectBase, frozen=True, kw_only=True, tag="list_blocks"):
    """Read the memory blocks of every agent of a user."""

    capability: ClassVar[str] = "memory.read"
    mutates: ClassVar[bool] = False

    @property
    def place(self) -> str | None:
        """Where blocks are kept."""
        return BLOCKS


class RecallBlocks(EffectBase, frozen=True, kw_only=True, tag="recall_blocks"):
    """Find lines of a user's archival block, and of one agent's too; an empty query lists them in their order."""

    capability: ClassVar[str] = "memory.read"
    mutates: ClassVar[bool] = False
    query: str
    agent: str | None = None
    limit: int = 10
    min_score: float | None = None

    @property
    def place(self) -> str | None:
        """The key of archival blocks."""
        return ARCHIVAL_KEY

    @property
    def archives(self) -> tuple[Scope, ...]:
        """The scopes whose archival blocks are searched: the user's, and the agent's where one is named."""
        return (self.scope,) if self.agent is None else (self.scope, agent_scope(self.scope, self.agent))

    def demands(self) -> Iterator[tuple[str, Scope, str | None]]:
        """Yield the right to read each archive."""
        for archive in self.archives:
            yield self.capability, archive, self.place


class ReadCollections(EffectBase, frozen=True, kw_only=True, tag="read_collections"):
    """Read the collections of a tenant, with how much is in them; of a scope, those with something of it."""

    capability: ClassVar[str] = "collections.read"
    mutates: ClassVar[bool] = False


class DeleteCollection(_InCollection, frozen=True, kw_only=True, tag="delete_collection"):
    """Delete a collection and its entries in every scope."""

    capability: ClassVar[str] = "collections.write"
    mutates: ClassVar[bool] = True


class BeginReembedding(_InCollection, frozen=True, kw_only=True, tag="begin_reembedding"):
    """Choose the space that a collection moves to; its entries are found in the old one until the switch."""

    capability: ClassVar[str] = "collections.write"
    mutates: ClassVar[bool] = True
    space: Space


class CompareEmbedders(_InCollection, frozen=True, kw_only=True, tag="compare_embedders"):
    """See what recall would gain or lose if a collection moved to another space; nothing is written."""

    capability: ClassVar[str] = "collections.write"
    mutates: ClassVar[bool] = False
    space: Space
    queries: tuple[str, ...] = ()
    sample: int = 500


class ReembedEntries(_InCollection, frozen=True, kw_only=True, tag="reembed_entries"):
    """Make the next few vectors of a collection in the space it moves to, from the first entry after a sequence."""

    capability: ClassVar[str] = "collections.write"
    mutates: ClassVar[bool] = True
    limit: int
    after: int = 0


class EndReembedding(_InCollection, frozen=True, kw_only=True, tag="end_reembedding"):
    """Switch a collection to its new space once every entry has a vector there, or give the move up."""

    capability: ClassVar[str] = "collections.write"
    mutates: ClassVar[bool] = True
    give_up: bool = False


class StartSession(EffectBase, frozen=True, kw_only=True, tag="start_session"):
    """Begin a scope that will end, and say whose it is, so that erasing the owner takes it along."""

    capability: ClassVar[str] = "memory.write"
    mutates: ClassVar[bool] = True
    owner: Scope | None = None


class EndScope(EffectBase, frozen=True, kw_only=True, tag="end_scope"):
    """End a session, run or tree: its facts and their history go, and nothing more can be written there."""

    capability: ClassVar[str] = "memory.write"
    mutates: ClassVar[bool] = True


class ReadDefinitions(EffectBase, frozen=True, kw_only=True, tag="read_definitions"):
    """Read the definitions of a tenant."""

    capability: ClassVar[str] = "definitions.read"
    mutates: ClassVar[bool] = False


class ReadRecords(EffectBase, frozen=True, kw_only=True, tag="read_records"):
    """Read every active record of one definition, whoever owns it."""

    capability: ClassVar[str] = "memory.read"
    mutates: ClassVar[bool] = False
    definition: str
    after: str = ""
    """The path of the scope whose record was seen last."""
    limit: int | None = None
    max_bytes: int | None = None


class CreateDefinition(EffectBase, frozen=True, kw_only=True, tag="create_definition"):
    """Create a definition, under an id of its own or under the one that files name already."""

    capability: ClassVar[str] = "definitions.write"
    mutates: ClassVar[bool] = True
    title: str
    slug: str
    scope_kind: str
    ttl: int | None = None
    schema: dict[str, Any]
    id: str | None = None
    mode: str | None = None
    """`replace` or `merge`; None leaves it to the schema."""


class UpdateDefinition(EffectBase, frozen=True, kw_only=True, tag="update_definition"):
    """Change what is given of a definition and leave the rest; records follow a changed slug."""

    capability: ClassVar[str] = "definitions.write"
    mutates: ClassVar[bool] = True
    definition: str
    title: str | None = None
    slug: str | None = None
    scope_kind: str | None = None
    ttl: int | None = None
    clear_ttl: bool = False
    schema: dict[str, Any] | None = None
    mode: str | None = None


class DeleteDefinition(EffectBase, frozen=True, kw_only=True, tag="delete_definition"):
    """Delete a definition and every record of it; `others` go with it, all or nothing."""

    capability: ClassVar[str] = "definitions.write"
    mutates: ClassVar[bool] = True
    definition: str
    others: tuple[str, ...] = ()


class Erase(EffectBase, frozen=True, kw_only=True, tag="erase"):
    """Remove everything at and below a scope, and everything that belongs to it, history included."""

    capability: ClassVar[str] = "memory.erase"
    mutates: ClassVar[bool] = True


class Sweep(EffectBase, frozen=True, kw_only=True, tag="sweep"):
    """Remove what has expired in a tenant."""

    capability: ClassVar[str] = "upkeep"
    mutates: ClassVar[bool] = True


class Scrub(EffectBase, frozen=True, kw_only=True, tag="scrub"):
    """Rewrite storage so that removed content is gone from its bytes."""

    capability: ClassVar[str] = "upkeep"
    mutates: ClassVar[bool] = False


class Inspect(EffectBase, frozen=True, kw_only=True, tag="inspect"):
    """Look for damage in the file, the chains and the facts of every tenant."""

    capability: ClassVar[str] = "upkeep"
    mutates: ClassVar[bool] = False


class ListTenants(EffectBase, frozen=True, kw_only=True, tag="list_tenants"):
    """Name every tenant that anything is kept of; to whoever stands in one, only that one."""

    capability: ClassVar[str] = "upkeep"
    mutates: ClassVar[bool] = False


class ReadLedger(EffectBase, frozen=True, kw_only=True, tag="read_ledger"):
    """Read events of a tenant's ledger: from a position on, or the newest ones."""

    capability: ClassVar[str] = "ledger.read"
    mutates: ClassVar[bool] = False
    start: int = 1
    limit: int | None = None
    max_bytes: int | None = None
    newest: bool = False


class VerifyLedger(EffectBase, frozen=True, kw_only=True, tag="verify_ledger"):
    """Walk a tenant's chain, and compare it with an anchor where one is given."""

    capability: ClassVar[str] = "ledger.read"
    mutates: ClassVar[bool] = False
    anchor: Anchor | None = None


class ReadGrants(EffectBase, frozen=True, kw_only=True, tag="read_grants"):
    """Read what was granted in a tenant."""

    capability: ClassVar[str] = "permissions.read"
    mutates: ClassVar[bool] = False


class GrantRule(EffectBase, frozen=True, kw_only=True, tag="grant"):
    """Keep a rule for an actor."""

    capability: ClassVar[str] = "permissions.write"
    mutates: ClassVar[bool] = True
    actor: str
    rule: Rule


class RevokeGrant(EffectBase, frozen=True, kw_only=True, tag="revoke"):
    """Take a grant back."""

    capability: ClassVar[str] = "permissions.write"
    mutates: ClassVar[bool] = True
    grant: str


class ReadApprovals(EffectBase, frozen=True, kw_only=True, tag="read_approvals"):
    """Read what waits for a decision, and what was decided."""

    capability: ClassVar[str] = "approvals.read"
    mutates: ClassVar[bool] = False
    id: str = ""
    """Only the one of this id."""
    status: Literal["pending", "approved", "refused"] | None = None
    """Only those with this status."""
    after: str = ""
    """The id of the last one seen."""
    limit: int | None = None
    max_bytes: int | None = None


class Decide(EffectBase, frozen=True, kw_only=True, tag="decide"):
    """Approve a waiting effect, which then happens, or refuse it."""

    capability: ClassVar[str] = "approvals.decide"
    mutates: ClassVar[bool] = True
    approval: str
    verdict: Literal["approved", "refused"]
    reason: str = ""


class _OfRun(EffectBase, frozen=True, kw_only=True):
    """An effect about one run, whose scope is `run:<id>`."""

    run: str


class RecordRun(_OfRun, frozen=True, kw_only=True, tag="record_run"):
    """Chain what happened in a run to its events so far, and write its own record, all or nothing.

    `index` and `previous` are the number and the hash of the run's newest event, 0 and GENESIS before the first: who
    goes on with a run says from where, and loses the race where somebody else has gone on already. The first record
    begins the run's scope.
    """

    capability: ClassVar[str] = "runs.write"
    mutates: ClassVar[bool] = True
    index: int
    previous: str
    notes: tuple[RunNote, ...] = ()
    writes: tuple[SetFact, ...] = ()
    owner: Scope | None = None
    """Whose run it is, said with its first events: erasing the owner erases the run too."""
    ends: Scope | None = None
    """What its owner was to remember for this run alone, `<owner>/run:<id>`: it goes with the run."""

    def demands(self) -> Iterator[tuple[str, Scope, str | None]]:
        """Yield the right to run programs, and to write what is not the run's own record.

        What a run leaves behind goes whoever ends it: nobody has to be allowed that.
        """
        yield self.capability, self.scope, None
        for write in self.others:
            yield from write.demands()

    @property
    def others(self) -> tuple[SetFact, ...]:
        """The writes that are not about the run itself."""
        return tuple(one for one in self.writes if one.scope != self.scope or not lies_under(one.key, "runs"))


class HoldStep(_OfRun, frozen=True, kw_only=True, tag="hold_step"):
    """Let a step of a run wait for somebody's decision. Approving it says that the run may go on."""

    capability: ClassVar[str] = "runs.write"
    mutates: ClassVar[bool] = True
    step: str
    needs: str
    """The capability that the step asks for, as its program names it."""
    about: dict[str, Any] = {}
    """What whoever decides is shown."""


class ReadRuns(EffectBase, frozen=True, kw_only=True, tag="read_runs"):
    """Read where runs stand, newest first: one of them, or those of a program, a language, a status or an owner."""

    capability: ClassVar[str] = "runs.read"
    mutates: ClassVar[bool] = False
    run: str | None = None
    program: str | None = None
    language: Language | None = None
    status: RunStatus | None = None
    owner: Scope | None = None
    """Only runs whose memory is here or below."""
    after: tuple[datetime, str] | None = None
    """When the last one that was seen started, and its id: go on behind it."""
    limit: int | None = None

    def demands(self) -> Iterator[tuple[str, Scope, str | None]]:
        """Yield the right to see runs: those of an owner, or those of everybody."""
        yield self.capability, self.scope if self.owner is None else self.owner, None


class ReadRunEvents(_OfRun, frozen=True, kw_only=True, tag="read_run_events"):
    """Read the events of one run, in order."""

    capability: ClassVar[str] = "runs.read"
    mutates: ClassVar[bool] = False
    after: int = 0
    """The position of the last event seen."""
    limit: int | None = None
    max_bytes: int | None = None


class ReadKeptRun(_OfRun, frozen=True, kw_only=True, tag="read_kept_run"):
    """Read what is kept of a run: its input, its results and where it stands. Nothing, where it is another owner's."""

    capability: ClassVar[str] = "runs.read"
    mutates: ClassVar[bool] = False
    owner: Scope
    """Whose run it is: who may not read their memory may not read what their run did with it."""
    verified: bool = False
    """Whether to refuse a run that its ledger does not vouch for: to go on with it, not to look at it."""

    def demands(self) -> Iterator[tuple[str, Scope, str | None]]:
        """Yield the right to see runs, and to read the memory of whom it belongs to."""
        yield self.capability, self.scope, None
        yield ListFacts.capability, self.owner, "runs"


class ReadDecision(_OfRun, frozen=True, kw_only=True, tag="read_decision"):
    """Read what was decided about a step that a run waits with."""

    capability: ClassVar[str] = "runs.read"
    mutates: ClassVar[bool] = False
    approval: str


class VerifyRun(_OfRun, frozen=True, kw_only=True, tag="verify_run"):
    """Walk the chain of one run, and compare its end with the run's record."""

    capability: ClassVar[str] = "runs.read"
    mutates: ClassVar[bool] = False


class Export(EffectBase, frozen=True, kw_only=True, tag="export"):
    """Read the facts and entries at and below a scope, and the tenant's definitions, for a file."""

    capability: ClassVar[str] = "memory.export"
    mutates: ClassVar[bool] = False

    def demands(self) -> Iterator[tuple[str, Scope, str | None]]:
        """Yield the right to export, and to read what is exported."""
        yield self.capability, self.scope, None
        yield GetFact.capability, self.scope, None


class Import(EffectBase, frozen=True, kw_only=True, tag="import"):
    """Write what an export holds, all or nothing; what was erased since it was made stays erased."""

    capability: ClassVar[str] = "memory.import"
    mutates: ClassVar[bool] = True
    source: str
    definitions: tuple[ImportedDefinition, ...] = ()
    sessions: tuple[ImportedSession, ...] = ()
    facts: tuple[ImportedFact, ...] = ()
    entries: tuple[ImportedEntry, ...] = ()

    def demands(self) -> Iterator[tuple[str, Scope, str | None]]:
        """Yield the right to import, and to write each thing that is imported."""
        yield self.capability, self.scope, None
        if self.definitions:
            yield CreateDefinition.capability, self.scope, None
        for session in self.sessions:
            yield StartSession.capability, Scope(self.scope.tenant, session.scope), None
        for fact in self.facts:
            yield SetFact.capability, Scope(self.scope.tenant, fact.scope), fact.key
        for entry in self.entries:
            yield Remember.capability, Scope(self.scope.tenant, entry.scope), collection_key(entry.collection)


Effect = (
    GetFact
    | GetFacts
    | ListFacts
    | FindFacts
    | ReadHistory
    | SetFact
    | DeleteFact
    | WriteFacts
    | Remember
    | Recall
    | ListEntries
    | Forget
    | ListBlocks
    | RecallBlocks
    | ReadCollections
    | DeleteCollection
    | CompareEmbedders
    | BeginReembedding
    | ReembedEntries
    | EndReembedding
    | StartSession
    | EndScope
    | ReadDefinitions
    | ReadRecords
    | CreateDefinition
    | UpdateDefinition
    | DeleteDefinition
    | Erase
    | Sweep
    | Scrub
    | Inspect
    | ListTenants
    | ReadLedger
    | VerifyLedger
    | ReadGrants
    | GrantRule
    | RevokeGrant
    | ReadApprovals
    | Decide
    | RecordRun
    | HoldStep
    | ReadRuns
    | ReadRunEvents
    | ReadKeptRun
    | ReadDecision
    | VerifyRun
    | Export
    | Import
)
"""Every effect there is. A new one is added here, to the engine's table of verbs, and to the list of entry points."""
