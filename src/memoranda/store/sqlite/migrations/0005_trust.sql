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

-- What an index is told of origins: most entries are fully trusted and have no source.
CREATE INDEX entries_by_origin ON entries (shelf, sequence, actor, door, source, kind, trust)
WHERE trust < 3 OR source IS NOT NULL;
