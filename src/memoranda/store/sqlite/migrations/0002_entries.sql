-- Collections and their entries.

CREATE TABLE collections (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    space BLOB NOT NULL,
    successor BLOB,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

-- Where entries stand, how many, and what tells one state of it from another. One small number stands for the place.
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
) STRICT;

-- The rows of one `ended_at` stand in it by sequence: those that have not ended are one run.
CREATE INDEX entries_by_shelf ON entries (shelf, ended_at);

CREATE INDEX entries_by_digest ON entries (shelf, digest) WHERE ended_at IS NULL;

CREATE INDEX entries_by_key ON entries (shelf, key) WHERE key IS NOT NULL AND ended_at IS NULL;

CREATE INDEX entries_by_id ON entries (id);

CREATE INDEX entries_by_expiry ON entries (expires_at) WHERE expires_at IS NOT NULL;

-- The embedders whose vectors a collection keeps, each in a slot.
CREATE TABLE spaces (
    tenant TEXT NOT NULL,
    collection TEXT NOT NULL,
    embedder TEXT NOT NULL,
    slot INTEGER NOT NULL,
    PRIMARY KEY (tenant, collection, embedder)
) STRICT, WITHOUT ROWID;

-- What an index needs of an entry, side by side, so that it is found with one look. `place` is the entry's sequence
-- times 256, plus the slot of the embedder: no index beside the table, and no vector cut in two by a page's end.
CREATE TABLE vectors (
    place INTEGER PRIMARY KEY,
    expires_at INTEGER,
    metadata BLOB NOT NULL,
    analysis BLOB NOT NULL,
    vector BLOB NOT NULL
) STRICT;
