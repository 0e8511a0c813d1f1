-- Every statement the store runs, but for those of `entries.sql`. `-- name:` begins one, the next line says what it
-- is for.
-- Parameters are bound by place, in the order in which they first appear.
-- `:low` and `:high` are half-open ranges of scopes or keys (see `store/sql/ranges.py`); a `:limit` of -1 means all.

-- name: get_fact
-- The fact at a key.
SELECT id, version, created_at, updated_at, expires_at, domain, actor, door, source, payload
FROM facts
WHERE tenant = :tenant AND scope = :scope AND key = :key;

-- name: get_bare_fact
-- The fact at a key without its value.
SELECT id, version, created_at, updated_at, expires_at, domain
FROM facts
WHERE tenant = :tenant AND scope = :scope AND key = :key;

-- name: list_facts
-- The facts of one scope that are active, in a range of keys.
SELECT key, id, version, created_at, updated_at, expires_at, domain, actor, door, source, payload
FROM facts
WHERE tenant = :tenant AND scope = :scope AND key >= :low AND key < :high
  AND (expires_at IS NULL OR expires_at > :now)
  AND (:domain IS NULL OR domain = :domain)
ORDER BY key
LIMIT :limit;

-- name: list_facts_as_of
-- The newest revisions by a moment, in a range of keys, that were active facts then.
SELECT key, version, fact_id, change, at, created_at, expires_at, domain, actor, door, source, forgotten, payload
FROM revisions AS stood
WHERE tenant = :tenant AND scope = :scope AND key >= :low AND key < :high
  AND version = (
    SELECT max(version) FROM revisions AS earlier
    WHERE earlier.tenant = stood.tenant AND earlier.scope = stood.scope AND earlier.key = stood.key
      AND earlier.at <= :moment
  )
  AND change = 'set' AND NOT forgotten
  AND (expires_at IS NULL OR expires_at > :moment)
ORDER BY key
LIMIT :limit;

-- name: page_facts_below
-- The next facts of a range of scopes, after one scope and key.
SELECT scope, key, id, version, created_at, updated_at, expires_at, domain, actor, door, source, payload
FROM facts
WHERE tenant = :tenant AND (scope, key) > (:scope, :key) AND scope >= :low AND scope < :high
ORDER BY scope, key
LIMIT :limit;

-- name: list_facts_named
-- The facts of one key in a range of scopes. Left to itself, SQLite would walk through every fact of that range.
SELECT scope, key, id, version, created_at, updated_at, expires_at, domain, actor, door, source, payload
FROM facts INDEXED BY facts_by_key
WHERE tenant = :tenant AND key = :key AND scope >= :low AND scope < :high
ORDER BY scope
LIMIT :limit;

-- name: list_facts_owned
-- The facts of one key in the sessions of a range of owners. The owners come first: others may have any number of them.
SELECT facts.scope, facts.key, id, version, created_at, updated_at, expires_at, domain, actor, door, source, payload
FROM sessions INDEXED BY sessions_by_owner
CROSS JOIN facts ON facts.tenant = sessions.tenant AND facts.scope = sessions.scope
WHERE sessions.tenant = :tenant AND facts.key = :key
AND sessions.owner IS NOT NULL AND sessions.owner >= :low AND sessions.owner < :high;

-- name: list_expired
-- Facts whose time is up. The inner select reads the index alone, so long values are read only when returned.
SELECT scope, key, id, version, created_at, updated_at, expires_at, domain, actor, door, source, payload
FROM facts
WHERE tenant = :tenant AND (scope, key) IN (
    SELECT scope, key FROM facts
    WHERE tenant = :tenant AND expires_at IS NOT NULL AND expires_at <= :now
    ORDER BY scope, key
    LIMIT :limit
)
ORDER BY scope, key;

-- name: list_revisions
-- The history of a key after a version.
SELECT key, version, fact_id, change, at, created_at, expires_at, domain, actor, door, source, forgotten, payload
FROM revisions
WHERE tenant = :tenant AND scope = :scope AND key = :key AND version > :after
ORDER BY version
LIMIT :limit;

-- name: list_newest_revisions
-- The history of a key before a version, newest first.
SELECT key, version, fact_id, change, at, created_at, expires_at, domain, actor, door, source, forgotten, payload
FROM revisions
WHERE tenant = :tenant AND scope = :scope AND key = :key AND version < :before
ORDER BY version DESC
LIMIT :limit;

-- name: get_revision
-- One revision.
SELECT key, version, fact_id, change, at, created_at, expires_at, domain, actor, door, source, forgotten, payload
FROM revisions
WHERE tenant = :tenant AND scope = :scope AND key = :key AND version = :version;

-- name: get_revision_at
-- The newest revision made by a moment.
SELECT key, version, fact_id, change, at, created_at, expires_at, domain, actor, door, source, forgotten, payload
FROM revisions
WHERE tenant = :tenant AND scope = :scope AND key = :key AND at <= :moment
ORDER BY version DESC
LIMIT 1;

-- name: page_revisions_below
-- The next revisions of a range of scopes, after one scope, key and version.
SELECT scope, key, version, fact_id, change, at, created_at, expires_at, domain, actor, door, source, forgotten, payload
FROM revisions
WHERE tenant = :tenant AND (scope, key, version) > (:scope, :key, :version) AND scope >= :low AND scope < :high
ORDER BY scope, key, version
LIMIT :limit;

-- name: get_last_version
-- The highest version of a key.
SELECT max(version) FROM revisions WHERE tenant = :tenant AND scope = :scope AND key = :key;

-- name: get_newest
-- The highest version and the latest stamp in a range of scopes, those that were erased there included.
SELECT max(version), max(at) FROM (
    SELECT max(version) AS version, max(at) AS at FROM revisions
    WHERE tenant = :tenant AND scope >= :low AND scope < :high
    UNION ALL
    SELECT max(version_floor), max(at) FROM erasures WHERE tenant = :tenant AND scope >= :low AND scope < :high
);

-- name: list_tenants
-- Every tenant with anything here, found by leaping from one to the next instead of reading every row.
WITH RECURSIVE
  of_facts (tenant) AS (
    SELECT min(tenant) FROM facts
    UNION ALL
    SELECT (SELECT min(facts.tenant) FROM facts WHERE facts.tenant > of_facts.tenant)
    FROM of_facts WHERE of_facts.tenant IS NOT NULL
  ),
  of_events (tenant) AS (
    SELECT min(tenant) FROM events
    UNION ALL
    SELECT (SELECT min(events.tenant) FROM events WHERE events.tenant > of_events.tenant)
    FROM of_events WHERE of_events.tenant IS NOT NULL
  )
SELECT tenant FROM tenants
UNION SELECT tenant FROM collections
UNION SELECT tenant FROM of_facts WHERE tenant IS NOT NULL
UNION SELECT tenant FROM of_events WHERE tenant IS NOT NULL
ORDER BY tenant;

-- name: get_tenant
-- How often a tenant's rules changed, and where its ledger ends.
SELECT revision, epoch, length, head FROM tenants WHERE tenant = :tenant;

-- name: list_definitions
-- The definitions of a tenant, oldest first.
SELECT id, name, slug, scope, ttl, created_at, updated_at, schema
FROM definitions
WHERE tenant = :tenant
ORDER BY place;

-- name: list_grants
-- The grants of a tenant, oldest first.
SELECT id, actor, rule FROM grants WHERE tenant = :tenant ORDER BY place;

-- name: list_approvals
-- The approvals of a tenant after the one of an id, oldest first.
SELECT id, scope, actor, door, capability, requested_at, status, decided_by, decided_at, reason, effect
FROM approvals
WHERE tenant = :tenant
  AND place > coalesce((SELECT place FROM approvals AS seen WHERE seen.tenant = :tenant AND seen.id = :after), 0)
ORDER BY place
LIMIT :limit;

-- name: get_approval
-- One approval.
SELECT id, scope, actor, door, capability, requested_at, status, decided_by, decided_at, reason, effect
FROM approvals
WHERE tenant = :tenant AND id = :id;

-- name: get_session
-- The session of a scope.
SELECT owner, started_at, ended_at FROM sessions WHERE tenant = :tenant AND scope = :scope;

-- name: list_sessions_owned
-- The sessions that belong to a range of scopes.
SELECT scope FROM sessions WHERE tenant = :tenant AND owner IS NOT NULL AND owner >= :low AND owner < :high;

-- name: get_replay
-- What an idempotency key stood for.
SELECT request, at, results FROM replays WHERE tenant = :tenant AND scope = :scope AND key = :key;

-- name: get_usage
-- What an actor used in a window.
SELECT writes, bytes FROM usage
WHERE tenant = :tenant AND actor = :actor AND seconds = :seconds AND begins = :begins;

-- name: get_erasure
-- The newest erasure of exactly one scope.
SELECT place, id, scope, at, version_floor
FROM erasures
WHERE tenant = :tenant AND scope = :scope
ORDER BY place DESC
LIMIT 1;

-- name: get_content_key
-- The secret of a scope.
SELECT key FROM content_keys WHERE tenant = :tenant AND scope = :scope;

-- name: page_events
-- The next events from a position on, with the texts kept beside them.
SELECT position, hash, body, text
FROM events LEFT JOIN event_texts USING (tenant, position)
WHERE tenant = :tenant AND position >= :start
ORDER BY position
LIMIT :limit;

-- name: page_run_events
-- The next events of one run from a position on, with the texts kept beside them.
SELECT position, hash, body, text
FROM events LEFT JOIN event_texts USING (tenant, position)
WHERE tenant = :tenant AND run = :run AND position >= :start
ORDER BY position
LIMIT :limit;

-- name: get_run_head
-- The newest event of one run.
SELECT position, hash, body
FROM events
WHERE tenant = :tenant AND run = :run
ORDER BY position DESC
LIMIT 1;

-- name: put_fact
-- Keep a fact in place of the one at its key.
INSERT INTO facts
  (tenant, scope, key, id, version, created_at, updated_at, expires_at, domain, actor, door, source, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, scope, key) DO UPDATE SET  -- unlike OR REPLACE, this leaves the index by key alone
  id = excluded.id, version = excluded.version, created_at = excluded.created_at, updated_at = excluded.updated_at,
  expires_at = excluded.expires_at, domain = excluded.domain, actor = excluded.actor, door = excluded.door,
  source = excluded.source, payload = excluded.payload;

-- name: remove_fact
-- Drop a fact.
DELETE FROM facts WHERE tenant = :tenant AND scope = :scope AND key = :key;

-- name: add_revision
-- Add to the history of a key.
INSERT OR REPLACE INTO revisions
  (tenant, scope, key, version, fact_id, change, at, created_at, expires_at, domain, actor, door, source, forgotten, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: forget_texts
-- Drop the content the ledger kept of values that outlived their time.
DELETE FROM event_texts WHERE tenant = :tenant AND (scope, key, version) IN (
    SELECT scope, key, version FROM revisions
    WHERE tenant = :tenant AND expires_at IS NOT NULL AND expires_at <= :now AND payload IS NOT NULL
);

-- name: forget_revisions
-- Blank the values that outlived their time.
UPDATE revisions SET payload = NULL, forgotten = 1
WHERE tenant = :tenant AND expires_at IS NOT NULL AND expires_at <= :now AND payload IS NOT NULL;

-- name: erase_facts
-- Drop the facts in a range of scopes.
DELETE FROM facts WHERE tenant = :tenant AND scope >= :low AND scope < :high;

-- name: erase_revisions
-- Drop the history in a range of scopes.
DELETE FROM revisions WHERE tenant = :tenant AND scope >= :low AND scope < :high;

-- name: erase_replays
-- Drop the idempotency keys in a range of scopes.
DELETE FROM replays WHERE tenant = :tenant AND scope >= :low AND scope < :high;

-- name: erase_approvals
-- Drop the approvals in a range of scopes.
DELETE FROM approvals WHERE tenant = :tenant AND scope >= :low AND scope < :high;

-- name: erase_event_texts
-- Drop the content the ledger kept about a range of scopes.
DELETE FROM event_texts WHERE tenant = :tenant AND scope >= :low AND scope < :high;

-- name: erase_content_keys
-- Drop the secrets of a range of scopes.
DELETE FROM content_keys WHERE tenant = :tenant AND scope >= :low AND scope < :high;

-- name: erase_sessions
-- Drop the sessions in a range of scopes.
DELETE FROM sessions WHERE tenant = :tenant AND scope >= :low AND scope < :high;

-- name: remove_replays
-- Drop the idempotency keys made before a moment.
DELETE FROM replays WHERE tenant = :tenant AND at < :before;

-- name: set_tenant_state
-- Keep how often a tenant's rules changed.
INSERT INTO tenants (tenant, revision, epoch, length, head) VALUES (?, ?, ?, 0, '')
ON CONFLICT (tenant) DO UPDATE SET revision = excluded.revision, epoch = excluded.epoch;

-- name: put_definition
-- Keep a definition; one that is there already keeps its place.
INSERT INTO definitions (tenant, id, name, slug, scope, ttl, created_at, updated_at, schema)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, id) DO UPDATE SET
  name = excluded.name, slug = excluded.slug, scope = excluded.scope, ttl = excluded.ttl,
  created_at = excluded.created_at, updated_at = excluded.updated_at, schema = excluded.schema;

-- name: remove_definition
-- Drop a definition.
DELETE FROM definitions WHERE tenant = :tenant AND id = :id;

-- name: put_grant
-- Keep a grant; one that is there already keeps its place.
INSERT INTO grants (tenant, id, actor, rule)
VALUES (?, ?, ?, ?)
ON CONFLICT (tenant, id) DO UPDATE SET actor = excluded.actor, rule = excluded.rule;

-- name: remove_grant
-- Drop a grant.
DELETE FROM grants WHERE tenant = :tenant AND id = :id;

-- name: put_approval
-- Keep an approval; one that is there already keeps its place.
INSERT INTO approvals
  (tenant, id, scope, actor, door, capability, requested_at, status, decided_by, decided_at, reason, effect)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, id) DO UPDATE SET
  scope = excluded.scope, actor = excluded.actor, door = excluded.door, capability = excluded.capability,
  requested_at = excluded.requested_at, status = excluded.status, decided_by = excluded.decided_by,
  decided_at = excluded.decided_at, reason = excluded.reason, effect = excluded.effect;

-- name: put_session
-- Keep a session in place of the one of its scope.
INSERT OR REPLACE INTO sessions (tenant, scope, owner, started_at, ended_at) VALUES (?, ?, ?, ?, ?);

-- name: put_replay
-- Keep what an idempotency key stood for.
INSERT OR REPLACE INTO replays (tenant, scope, key, request, at, results) VALUES (?, ?, ?, ?, ?, ?);

-- name: add_usage
-- Count against a window.
INSERT INTO usage (tenant, actor, seconds, begins, writes, bytes)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, actor, seconds, begins) DO UPDATE SET
  writes = writes + excluded.writes, bytes = bytes + excluded.bytes;

-- name: remove_usage
-- Drop an actor's windows of this length that began before this one.
DELETE FROM usage WHERE tenant = :tenant AND actor = :actor AND seconds = :seconds AND begins < :begins;

-- name: add_erasure
-- Keep the fact that a scope was erased.
INSERT INTO erasures (tenant, id, scope, at, version_floor) VALUES (?, ?, ?, ?, ?);

-- name: put_content_key
-- Keep the secret of a scope.
INSERT OR REPLACE INTO content_keys (tenant, scope, key) VALUES (?, ?, ?);

-- name: append_event
-- Append to the ledger.
INSERT INTO events (tenant, position, hash, body, run) VALUES (?, ?, ?, ?, ?);

-- name: move_head
-- Say where the ledger ends now, only if it ended where the new events begin.
UPDATE tenants SET length = ?3, head = ?4 WHERE tenant = ?1 AND length = ?2;

-- name: begin_head
-- Begin the ledger of a tenant that was never heard of before.
INSERT OR IGNORE INTO tenants (tenant, revision, epoch, length, head) VALUES (?, 0, 0, ?, ?);

-- name: put_event_text
-- Keep an event's content beside the chain.
INSERT INTO event_texts (tenant, position, scope, key, version, text) VALUES (?, ?, ?, ?, ?, ?);

-- name: count_tables
-- How much there is in a database: nothing means it is new.
SELECT count(*) FROM sqlite_schema;

-- name: vacuum
-- Rewrite the whole file, so that nothing removed is left in it.
VACUUM;
