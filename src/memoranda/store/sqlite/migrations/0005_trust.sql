-- What kind of origin wrote a fact or an entry, and how far it is trusted. Of what is there already, the door and the
-- source say as much as is known.

-- Facts are copied: both columns are read without the value, which therefore stays the last column.
ALTER TABLE facts RENAME TO facts_before;
DROP INDEX facts_by_key;
DROP INDEX facts_by_expiry;

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

INSERT INTO facts
SELECT tenant, scope, key, id, version, created_at, updated_at, expires_at, domain, actor, door, source,
    CASE WHEN source LIKE 'import:%' THEN 'import' WHEN door IN ('mcp', 'chat') THEN 'assistant' ELSE 'user' END,
    CASE WHEN source LIKE 'import:%' OR door IN ('mcp', 'chat') THEN 2 ELSE 3 END,
    payload
FROM facts_before;

DROP TABLE facts_before;

CREATE INDEX facts_by_key ON facts (tenant, key);

CREATE INDEX facts_by_expiry ON facts (tenant, expires_at) WHERE expires_at IS NOT NULL;

ALTER TABLE revisions ADD COLUMN kind TEXT NOT NULL DEFAULT 'user';
ALTER TABLE revisions ADD COLUMN trust INTEGER NOT NULL DEFAULT 3;
UPDATE revisions SET kind = 'assistant', trust = 2 WHERE door IN ('mcp', 'chat');
UPDATE revisions SET kind = 'import', trust = 2 WHERE source LIKE 'import:%';

ALTER TABLE entries ADD COLUMN kind TEXT NOT NULL DEFAULT 'user';
ALTER TABLE entries ADD COLUMN trust INTEGER NOT NULL DEFAULT 3;
UPDATE entries SET kind = 'assistant', trust = 2 WHERE door IN ('mcp', 'chat');
UPDATE entries SET kind = 'import', trust = 2 WHERE source LIKE 'import:%';

-- Who asked for what waits, and why it waits.
ALTER TABLE approvals ADD COLUMN kind TEXT NOT NULL DEFAULT 'user';
ALTER TABLE approvals ADD COLUMN trust INTEGER NOT NULL DEFAULT 3;
ALTER TABLE approvals ADD COLUMN cause TEXT NOT NULL DEFAULT 'policy';
ALTER TABLE approvals ADD COLUMN findings BLOB NOT NULL DEFAULT x'5B5D';

-- Rejections. Values that may not come back: hashes of what they say, made with a salt, and the messages that say it.
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

ALTER TABLE tenants ADD COLUMN rejected INTEGER NOT NULL DEFAULT 0;

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

INSERT INTO epochs SELECT tenant, '*', epoch FROM tenants WHERE epoch > 0;

-- Under which rules an effect was asked for, so that it can be decided again.
ALTER TABLE approvals ADD COLUMN rules BLOB NOT NULL DEFAULT x'7B7D';

-- What an index is told of origins: most entries are fully trusted and have no source.
CREATE INDEX entries_by_origin ON entries (shelf, sequence, actor, door, source, kind, trust)
WHERE trust < 3 OR source IS NOT NULL;
