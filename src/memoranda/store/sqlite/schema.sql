-- The current schema, for new databases. All of migrations/ applied in order give the same.
-- Times are microseconds since 1970. A scope is its canonical text, '' being the tenant's shared one.
-- Content (payload, text, effect…) is JSON in a BLOB and the last column, so that reading the other columns never
-- reads the pages of a long value.

-- The current facts. `kind` is what kind of origin wrote, and `trust` how far it is trusted, from 0 to 3.
CREATE TABLE facts (
    tenant TEXT NOT NULL,
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    expires_at INTEGER,
    domain TEXT,
    actor TEXT NOT NULL,
    door TEXT NOT NULL,
    source TEXT,
    kind TEXT NOT NULL,
    trust INTEGER NOT NULL,
    payload BLOB NOT NULL,
    PRIMARY KEY (tenant, scope, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX facts_by_key ON facts (tenant, key);

CREATE INDEX facts_by_expiry ON facts (tenant, expires_at) WHERE expires_at IS NOT NULL;

-- The history of facts. A NULL payload is a deletion, an expiry, or a value forgotten by a sweep.
CREATE TABLE revisions (
    tenant TEXT NOT NULL,
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    fact_id TEXT NOT NULL,
    change TEXT NOT NULL,
    at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    domain TEXT,
    actor TEXT NOT NULL,
    door TEXT NOT NULL,
    source TEXT,
    forgotten INTEGER NOT NULL,
    payload BLOB, kind TEXT NOT NULL DEFAULT 'user', trust INTEGER NOT NULL DEFAULT 3,
    PRIMARY KEY (tenant, scope, key, version)
) STRICT;

-- Only what a sweep may still have to forget: it shrinks as values go.
CREATE INDEX revisions_by_expiry ON revisions (tenant, expires_at)
WHERE expires_at IS NOT NULL AND payload IS NOT NULL;

-- The state of a tenant's rules, and the end of its ledger: finding it in `events` takes ten times longer.
CREATE TABLE tenants (
    tenant TEXT NOT NULL,
    revision INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    length INTEGER NOT NULL,
    head TEXT NOT NULL, rejected INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant)
) STRICT, WITHOUT ROWID;

-- `place` is the order in which rows came; replacing a row keeps its place.
CREATE TABLE definitions (
    place INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    slug TEXT NOT NULL,
    scope TEXT NOT NULL,
    ttl INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    schema BLOB NOT NULL,
    UNIQUE (tenant, id)
) STRICT;

CREATE TABLE grants (
    place INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    actor TEXT NOT NULL,
    rule BLOB NOT NULL,
    UNIQUE (tenant, id)
) STRICT;

-- What the guard does about what origins write, where that is not the default.
CREATE TABLE guards (
    tenant TEXT NOT NULL,
    scope TEXT NOT NULL,
    origin TEXT NOT NULL,
    instructions TEXT,
    secrets TEXT,
    payment TEXT,
    codes TEXT,
    protected TEXT,
    largest INTEGER,
    PRIMARY KEY (tenant, scope, origin)
) STRICT, WITHOUT ROWID;

CREATE TABLE approvals (
    place INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    scope TEXT NOT NULL,
    actor TEXT NOT NULL,
    door TEXT NOT NULL,
    capability TEXT NOT NULL,
    requested_at INTEGER NOT NULL,
    status TEXT NOT NULL,
    decided_by TEXT,
    decided_at INTEGER,
    reason TEXT NOT NULL,
    effect BLOB, kind TEXT NOT NULL DEFAULT 'user', trust INTEGER NOT NULL DEFAULT 3, cause TEXT NOT NULL DEFAULT 'policy', findings BLOB NOT NULL DEFAULT x'5B5D', rules BLOB NOT NULL DEFAULT x'7B7D',
    UNIQUE (tenant, id)
) STRICT;

CREATE INDEX approvals_by_scope ON approvals (tenant, scope);

-- Values that may not come back: hashes of what they say, made with a salt, and the messages that say it.
CREATE TABLE rejections (
    place INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    scope TEXT NOT NULL,
    key TEXT,
    actor TEXT NOT NULL,
    at INTEGER NOT NULL,
    reason TEXT NOT NULL,
    undo TEXT,
    salt BLOB NOT NULL,
    digests BLOB NOT NULL,
    messages BLOB NOT NULL,
    UNIQUE (tenant, id)
) STRICT;

CREATE INDEX rejections_by_scope ON rejections (tenant, scope);

-- Scopes that end, and their owners.
CREATE TABLE sessions (
    tenant TEXT NOT NULL,
    scope TEXT NOT NULL,
    owner TEXT,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    PRIMARY KEY (tenant, scope)
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_by_owner ON sessions (tenant, owner) WHERE owner IS NOT NULL;

-- The requests of idempotency keys, and where their results are.
CREATE TABLE replays (
    tenant TEXT NOT NULL,
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    request TEXT NOT NULL,
    at INTEGER NOT NULL,
    results BLOB NOT NULL,
    PRIMARY KEY (tenant, scope, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX replays_by_age ON replays (tenant, at);

-- What an actor used of its quota, in windows of some seconds that begin at a moment.
CREATE TABLE usage (
    tenant TEXT NOT NULL,
    actor TEXT NOT NULL,
    seconds INTEGER NOT NULL,
    begins INTEGER NOT NULL,
    writes INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (tenant, actor, seconds, begins)
) STRICT, WITHOUT ROWID;

CREATE TABLE erasures (
    place INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    scope TEXT NOT NULL,
    at INTEGER NOT NULL,
    version_floor INTEGER NOT NULL
) STRICT;

CREATE INDEX erasures_by_scope ON erasures (tenant, scope);

-- The secrets that the content of each scope is hashed with in the ledger.
CREATE TABLE content_keys (
    tenant TEXT NOT NULL,
    scope TEXT NOT NULL,
    key BLOB NOT NULL,
    PRIMARY KEY (tenant, scope)
) STRICT, WITHOUT ROWID;

-- The ledger. `body` is the canonical JSON that was hashed, byte for byte; `run` is the run that an event belongs to.
CREATE TABLE events (
    tenant TEXT NOT NULL,
    position INTEGER NOT NULL,
    hash TEXT NOT NULL,
    body BLOB NOT NULL, run TEXT,
    PRIMARY KEY (tenant, position)
) STRICT;

CREATE INDEX events_by_run ON events (tenant, run, position) WHERE run IS NOT NULL;

-- Content the ledger keeps outside its chain, so that it can be erased. An entry's `version` is its sequence, negative:
-- a fact may be called like the key of a collection.
CREATE TABLE event_texts (
    tenant TEXT NOT NULL,
    position INTEGER NOT NULL,
    scope TEXT NOT NULL,
    key TEXT,
    version INTEGER,
    text BLOB NOT NULL,
    PRIMARY KEY (tenant, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX event_texts_by_fact ON event_texts (tenant, scope, key, version);

CREATE TABLE collections (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    space BLOB NOT NULL,
    successor BLOB,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

-- The shelves of entries: their state, and their number of live entries. Entries refer to a shelf by its number.
CREATE TABLE shelves (
    number INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    scope TEXT NOT NULL,
    collection TEXT NOT NULL,
    namespace TEXT NOT NULL,
    newest INTEGER NOT NULL,
    removed INTEGER NOT NULL,
    entries INTEGER NOT NULL,
    UNIQUE (tenant, scope, collection, namespace)
) STRICT;

CREATE INDEX shelves_by_collection ON shelves (tenant, collection);

-- The entries that ended or were removed, by the marks that their shelf got for it; `before` is its mark until then, so
-- that a gap is seen. Only the last ones are kept.
CREATE TABLE removals (
    shelf INTEGER NOT NULL,
    mark INTEGER NOT NULL,
    before INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    PRIMARY KEY (shelf, mark)
) STRICT, WITHOUT ROWID;

-- Indexes of large shelves that a host made and published for others, in pieces. `subject` is the outermost part of the
-- scope. Processes that share a file share a host, so they publish nothing here.
CREATE TABLE segments (
    tenant TEXT NOT NULL,
    subject TEXT NOT NULL,
    name TEXT NOT NULL,
    piece INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (tenant, subject, name, piece)
) STRICT;

-- AUTOINCREMENT, because a sequence is never given twice, not even when all entries are gone.
CREATE TABLE entries (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    shelf INTEGER NOT NULL,
    id TEXT NOT NULL,
    key TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    ended_at INTEGER,
    actor TEXT NOT NULL,
    door TEXT NOT NULL,
    source TEXT,
    digest BLOB NOT NULL,
    analysis BLOB NOT NULL,
    metadata BLOB NOT NULL,
    payload BLOB NOT NULL
, kind TEXT NOT NULL DEFAULT 'user', trust INTEGER NOT NULL DEFAULT 3) STRICT;

-- Rows with the same `ended_at` are ordered by sequence: the live entries are one run.
CREATE INDEX entries_by_shelf ON entries (shelf, ended_at);

CREATE INDEX entries_by_digest ON entries (shelf, digest) WHERE ended_at IS NULL;

CREATE INDEX entries_by_key ON entries (shelf, key) WHERE key IS NOT NULL AND ended_at IS NULL;

CREATE INDEX entries_by_id ON entries (id);

CREATE INDEX entries_by_expiry ON entries (expires_at) WHERE expires_at IS NOT NULL;

-- What an index is told of origins: most entries are fully trusted and have no source.
CREATE INDEX entries_by_origin ON entries (shelf, sequence, actor, door, source, kind, trust)
WHERE trust < 3 OR source IS NOT NULL;

-- The embedders whose vectors a collection keeps, each in a slot.
CREATE TABLE spaces (
    tenant TEXT NOT NULL,
    collection TEXT NOT NULL,
    embedder TEXT NOT NULL,
    slot INTEGER NOT NULL,
    PRIMARY KEY (tenant, collection, embedder)
) STRICT, WITHOUT ROWID;

-- What an index needs of an entry, in one row. `place` is the entry's sequence times 256, plus the slot of the embedder:
-- the table needs no further index, and few vectors are split between pages.
CREATE TABLE vectors (
    place INTEGER PRIMARY KEY,
    expires_at INTEGER,
    metadata BLOB NOT NULL,
    analysis BLOB NOT NULL,
    vector BLOB NOT NULL
) STRICT;

-- What was derived from what, by refs. A version is that of a fact, 0 of anything else. `scope` is that of the child.
CREATE TABLE links (
    tenant TEXT NOT NULL,
    child TEXT NOT NULL,
    version INTEGER NOT NULL,
    parent TEXT NOT NULL,
    parent_version INTEGER NOT NULL,
    scope TEXT NOT NULL,
    PRIMARY KEY (tenant, child, version, parent, parent_version)
) STRICT, WITHOUT ROWID;

CREATE INDEX links_by_parent ON links (tenant, parent);

CREATE INDEX links_by_scope ON links (tenant, scope);

-- What was forgotten, as hashes: it is left out of the prompts of conversations that began before. `subject` is the
-- outermost part of the scope.
CREATE TABLE omissions (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    scope TEXT NOT NULL,
    subject TEXT NOT NULL,
    at INTEGER NOT NULL,
    undo TEXT NOT NULL,
    phrases BLOB NOT NULL,
    clauses BLOB NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT;

CREATE INDEX omissions_by_subject ON omissions (tenant, subject, id);

CREATE INDEX omissions_by_scope ON omissions (tenant, scope);

-- The tenant's permission epoch at the last change of its grants that names a scope, or, under `*`, none.
CREATE TABLE epochs (
    tenant TEXT NOT NULL,
    scope TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    PRIMARY KEY (tenant, scope)
) STRICT, WITHOUT ROWID;
