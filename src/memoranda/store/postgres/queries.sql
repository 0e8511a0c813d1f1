-- Every statement the store runs, but for those of `entries.sql`. `-- name:` begins one, the next line says what it
-- is for.
-- The first parameter of a statement about one tenant is that tenant: see `rows.py`. Two parameters that bound a scope
-- or a key are a half-open range (see `store/sql/ranges.py`); a limit of -1 means all.
-- `COLLATE "POSIX"` asks for an index beside the key (see `schema.sql`); `OFFSET 0` and `ARRAY(SELECT …)` say what is
-- looked at first, where PostgreSQL would not know before it has counted.

-- name: get_fact
-- The fact at a key.
SELECT id, version, created_at, updated_at, expires_at, domain, actor, door, source, payload
FROM memoranda.facts
WHERE tenant = $1 AND scope = $2 AND key = $3;

-- name: get_bare_fact
-- The fact at a key without its value.
SELECT id, version, created_at, updated_at, expires_at, domain
FROM memoranda.facts
WHERE tenant = $1 AND scope = $2 AND key = $3;

-- name: list_facts
-- The facts of one scope that are active, in a range of keys.
SELECT key, id, version, created_at, updated_at, expires_at, domain, actor, door, source, payload
FROM memoranda.facts
WHERE tenant = $1 AND scope = $2 AND key >= $3 AND key < $4
  AND (expires_at IS NULL OR expires_at > $5)
  AND ($6::text IS NULL OR domain = $6)
ORDER BY key
LIMIT $7;

-- name: list_facts_as_of
-- The newest revisions by a moment, in a range of keys, that were active facts then.
SELECT key, version, fact_id, change, at, created_at, expires_at, domain, actor, door, source, forgotten, payload
FROM memoranda.revisions AS stood
WHERE tenant = $1 AND scope = $2 AND key >= $3 AND key < $4
  AND version = (
    SELECT max(version) FROM memoranda.revisions AS earlier
    WHERE earlier.tenant = stood.tenant AND earlier.scope = stood.scope AND earlier.key = stood.key
      AND earlier.at <= $5
  )
  AND change = 'set' AND forgotten = 0
  AND (expires_at IS NULL OR expires_at > $5)
ORDER BY key
LIMIT $6;

-- name: page_facts_below
-- The next facts of a range of scopes, after one scope and key.
SELECT scope, key, id, version, created_at, updated_at, expires_at, domain, actor, door, source, payload
FROM memoranda.facts
WHERE tenant = $1 AND (scope, key) > ($2, $3) AND scope >= $4 AND scope < $5
ORDER BY scope, key
LIMIT $6;

-- name: list_facts_named
-- The facts of one key in a range of scopes.
SELECT scope, key, id, version, created_at, updated_at, expires_at, domain, actor, door, source, payload
FROM memoranda.facts
WHERE tenant COLLATE "POSIX" = $1 AND key = $2 AND scope >= $3 AND scope < $4
ORDER BY scope
LIMIT $5;

-- name: list_facts_owned
-- The facts of one key in the sessions of a range of owners.
SELECT scope, key, id, version, created_at, updated_at, expires_at, domain, actor, door, source, payload
FROM memoranda.facts
WHERE tenant = $1 AND key = $2 AND scope = ANY (ARRAY(
    SELECT scope FROM memoranda.sessions
    WHERE tenant COLLATE "POSIX" = $1 AND owner IS NOT NULL AND owner >= $3 AND owner < $4
));

-- name: list_expired
-- Facts whose time is up. The first select reads an index and no values, so long ones are read only when returned.
SELECT due.scope, due.key, id, version, created_at, updated_at, expires_at, domain, actor, door, source, payload
FROM (
    SELECT scope, key FROM memoranda.facts
    WHERE tenant COLLATE "POSIX" = $1 AND expires_at IS NOT NULL AND expires_at <= $2
    ORDER BY scope, key
    LIMIT $3
) AS due
CROSS JOIN LATERAL (
    SELECT * FROM memoranda.facts WHERE tenant = $1 AND scope = due.scope AND key = due.key OFFSET 0
) AS fact
ORDER BY due.scope, due.key;

-- name: list_revisions
-- The history of a key after a version.
SELECT key, version, fact_id, change, at, created_at, expires_at, domain, actor, door, source, forgotten, payload
FROM memoranda.revisions
WHERE tenant = $1 AND scope = $2 AND key = $3 AND version > $4
ORDER BY version
LIMIT $5;

-- name: list_newest_revisions
-- The history of a key before a version, newest first.
SELECT key, version, fact_id, change, at, created_at, expires_at, domain, actor, door, source, forgotten, payload
FROM memoranda.revisions
WHERE tenant = $1 AND scope = $2 AND key = $3 AND version < $4
ORDER BY version DESC
LIMIT $5;

-- name: get_revision
-- One revision.
SELECT key, version, fact_id, change, at, created_at, expires_at, domain, actor, door, source, forgotten, payload
FROM memoranda.revisions
WHERE tenant = $1 AND scope = $2 AND key = $3 AND version = $4;

-- name: get_revision_at
-- The newest revision made by a moment.
SELECT key, version, fact_id, change, at, created_at, expires_at, domain, actor, door, source, forgotten, payload
FROM memoranda.revisions
WHERE tenant = $1 AND scope = $2 AND key = $3 AND at <= $4
ORDER BY version DESC
LIMIT 1;

-- name: page_revisions_below
-- The next revisions of a range of scopes, after one scope, key and version.
SELECT scope, key, version, fact_id, change, at, created_at, expires_at, domain, actor, door, source, forgotten, payload
FROM memoranda.revisions
WHERE tenant = $1 AND (scope, key, version) > ($2, $3, $4) AND scope >= $5 AND scope < $6
ORDER BY scope, key, version
LIMIT $7;

-- name: get_last_version
-- The highest version of a key.
SELECT max(version) FROM memoranda.revisions WHERE tenant = $1 AND scope = $2 AND key = $3;

-- name: get_newest
-- The highest version and the latest stamp in a range of scopes, those that were erased there included.
SELECT max(version), max(at) FROM (
    SELECT max(version) AS version, max(at) AS at FROM memoranda.revisions
    WHERE tenant = $1 AND scope >= $2 AND scope < $3
    UNION ALL
    SELECT max(version_floor), max(at) FROM memoranda.erasures WHERE tenant = $1 AND scope >= $2 AND scope < $3
) AS used;

-- name: list_tenants
-- Every tenant with anything here, found by leaping from one to the next instead of reading every row.
WITH RECURSIVE
  of_facts (tenant) AS (
    SELECT min(tenant) FROM memoranda.facts
    UNION ALL
    SELECT (SELECT min(facts.tenant) FROM memoranda.facts WHERE facts.tenant > of_facts.tenant)
    FROM of_facts WHERE of_facts.tenant IS NOT NULL
  )
SELECT tenant FROM memoranda.tenants WHERE revision > 0 OR epoch > 0 OR length > 0
UNION SELECT tenant FROM memoranda.collections
UNION SELECT tenant FROM of_facts WHERE tenant IS NOT NULL
ORDER BY tenant;

-- name: get_tenant
-- How often a tenant's rules changed, and where its ledger ends.
SELECT revision, epoch, length, head FROM memoranda.tenants WHERE tenant = $1;

-- name: list_definitions
-- The definitions of a tenant, oldest first.
SELECT id, name, slug, scope, ttl, created_at, updated_at, schema
FROM memoranda.definitions
WHERE tenant = $1
ORDER BY place;

-- name: list_grants
-- The grants of a tenant, oldest first.
SELECT id, actor, rule FROM memoranda.grants WHERE tenant = $1 ORDER BY place;

-- name: list_approvals
-- The approvals of a tenant after the one of an id, oldest first.
SELECT id, scope, actor, door, capability, requested_at, status, decided_by, decided_at, reason, effect
FROM memoranda.approvals
WHERE tenant = $1
  AND place > coalesce((SELECT place FROM memoranda.approvals AS seen WHERE seen.tenant = $1 AND seen.id = $2), 0)
ORDER BY place
LIMIT $3;

-- name: get_approval
-- One approval.
SELECT id, scope, actor, door, capability, requested_at, status, decided_by, decided_at, reason, effect
FROM memoranda.approvals
WHERE tenant = $1 AND id = $2;

-- name: get_session
-- The session of a scope.
SELECT owner, started_at, ended_at FROM memoranda.sessions WHERE tenant = $1 AND scope = $2;

-- name: list_sessions_owned
-- The sessions that belong to a range of scopes.
SELECT scope FROM memoranda.sessions
WHERE tenant COLLATE "POSIX" = $1 AND owner IS NOT NULL AND owner >= $2 AND owner < $3;

-- name: get_replay
-- What an idempotency key stood for.
SELECT request, at, results FROM memoranda.replays WHERE tenant = $1 AND scope = $2 AND key = $3;

-- name: get_usage
-- What an actor used in a window.
SELECT writes, bytes FROM memoranda.usage
WHERE tenant = $1 AND actor = $2 AND seconds = $3 AND begins = $4;

-- name: list_erasures
-- The newest erasure of some scopes.
SELECT place, id, scope, at, version_floor
FROM memoranda.erasures
WHERE tenant = $1 AND scope = ANY ($2::text[])
ORDER BY place DESC
LIMIT 1;

-- name: get_content_key
-- The secret of a scope.
SELECT key FROM memoranda.content_keys WHERE tenant = $1 AND scope = $2;

-- name: page_events
-- The next events from a position on, with the texts kept beside them.
SELECT position, hash, body, text
FROM memoranda.events
LEFT JOIN LATERAL (
    SELECT text FROM memoranda.event_texts WHERE tenant = $1 AND position = events.position OFFSET 0
) AS beside ON true
WHERE tenant = $1 AND position >= $2
ORDER BY position
LIMIT $3;

-- name: page_run_events
-- The next events of one run from a position on, with the texts kept beside them.
SELECT position, hash, body, text
FROM memoranda.events
LEFT JOIN LATERAL (
    SELECT text FROM memoranda.event_texts WHERE tenant = $1 AND position = events.position OFFSET 0
) AS beside ON true
WHERE tenant COLLATE "POSIX" = $1 AND run = $2 AND position >= $3
ORDER BY position
LIMIT $4;

-- name: get_run_head
-- The newest event of one run.
SELECT position, hash, body
FROM memoranda.events
WHERE tenant COLLATE "POSIX" = $1 AND run = $2
ORDER BY position DESC
LIMIT 1;

-- name: put_fact
-- Keep a fact in place of the one at its key.
INSERT INTO memoranda.facts
  (tenant, scope, key, id, version, created_at, updated_at, expires_at, domain, actor, door, source, payload)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
ON CONFLICT (tenant, scope, key) DO UPDATE SET
  id = excluded.id, version = excluded.version, created_at = excluded.created_at, updated_at = excluded.updated_at,
  expires_at = excluded.expires_at, domain = excluded.domain, actor = excluded.actor, door = excluded.door,
  source = excluded.source, payload = excluded.payload;

-- name: remove_fact
-- Drop a fact.
SELECT memoranda.remove_facts($1, ARRAY(
    SELECT ctid FROM memoranda.facts WHERE tenant = $1 AND scope = $2 AND key = $3
));

-- name: add_revision
-- Add to the history of a key.
INSERT INTO memoranda.revisions
  (tenant, scope, key, version, fact_id, change, at, created_at, expires_at, domain, actor, door, source, forgotten, payload)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT (tenant, scope, key, version) DO UPDATE SET
  fact_id = excluded.fact_id, change = excluded.change, at = excluded.at, created_at = excluded.created_at,
  expires_at = excluded.expires_at, domain = excluded.domain, actor = excluded.actor, door = excluded.door,
  source = excluded.source, forgotten = excluded.forgotten, payload = excluded.payload;

-- name: forget_texts
-- Drop the content the ledger kept of values that outlived their time.
SELECT memoranda.remove_event_texts($1, ARRAY(
    SELECT said.found FROM memoranda.revisions
    CROSS JOIN LATERAL (
        SELECT ctid AS found FROM memoranda.event_texts
        WHERE tenant COLLATE "POSIX" = $1
          AND scope = revisions.scope AND key = revisions.key AND version = revisions.version
        OFFSET 0
    ) AS said
    WHERE tenant COLLATE "POSIX" = $1 AND expires_at IS NOT NULL AND expires_at <= $2 AND payload IS NOT NULL
));

-- name: forget_revisions
-- Blank the values that outlived their time.
UPDATE memoranda.revisions SET payload = NULL, forgotten = 1
WHERE tenant COLLATE "POSIX" = $1 AND expires_at IS NOT NULL AND expires_at <= $2 AND payload IS NOT NULL;

-- name: erase_facts
-- Drop the facts in a range of scopes.
SELECT memoranda.remove_facts($1, ARRAY(
    SELECT ctid FROM memoranda.facts WHERE tenant = $1 AND scope >= $2 AND scope < $3
));

-- name: erase_revisions
-- Drop the history in a range of scopes.
SELECT memoranda.remove_revisions($1, ARRAY(
    SELECT ctid FROM memoranda.revisions WHERE tenant = $1 AND scope >= $2 AND scope < $3
));

-- name: erase_replays
-- Drop the idempotency keys in a range of scopes.
SELECT memoranda.remove_replays($1, ARRAY(
    SELECT ctid FROM memoranda.replays WHERE tenant = $1 AND scope >= $2 AND scope < $3
));

-- name: erase_approvals
-- Drop the approvals in a range of scopes.
SELECT memoranda.remove_approvals($1, ARRAY(
    SELECT ctid FROM memoranda.approvals WHERE tenant COLLATE "POSIX" = $1 AND scope >= $2 AND scope < $3
));

-- name: erase_event_texts
-- Drop the content the ledger kept about a range of scopes.
SELECT memoranda.remove_event_texts($1, ARRAY(
    SELECT ctid FROM memoranda.event_texts WHERE tenant COLLATE "POSIX" = $1 AND scope >= $2 AND scope < $3
));

-- name: erase_content_keys
-- Drop the secrets of a range of scopes.
SELECT memoranda.remove_content_keys($1, ARRAY(
    SELECT ctid FROM memoranda.content_keys WHERE tenant = $1 AND scope >= $2 AND scope < $3
));

-- name: erase_sessions
-- Drop the sessions in a range of scopes.
SELECT memoranda.remove_sessions($1, ARRAY(
    SELECT ctid FROM memoranda.sessions WHERE tenant = $1 AND scope >= $2 AND scope < $3
));

-- name: remove_replays
-- Drop the idempotency keys made before a moment.
SELECT memoranda.remove_replays($1, ARRAY(
    SELECT ctid FROM memoranda.replays WHERE tenant COLLATE "POSIX" = $1 AND at < $2
));

-- name: set_tenant_state
-- Keep how often a tenant's rules changed.
INSERT INTO memoranda.tenants (tenant, revision, epoch, length, head) VALUES ($1, $2, $3, 0, '')
ON CONFLICT (tenant) DO UPDATE SET revision = excluded.revision, epoch = excluded.epoch;

-- name: put_definition
-- Keep a definition; one that is there already keeps its place.
INSERT INTO memoranda.definitions (tenant, id, name, slug, scope, ttl, created_at, updated_at, schema)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (tenant, id) DO UPDATE SET
  name = excluded.name, slug = excluded.slug, scope = excluded.scope, ttl = excluded.ttl,
  created_at = excluded.created_at, updated_at = excluded.updated_at, schema = excluded.schema;

-- name: remove_definition
-- Drop a definition.
SELECT memoranda.remove_definitions($1, ARRAY(
    SELECT ctid FROM memoranda.definitions WHERE tenant = $1 AND id = $2
));

-- name: put_grant
-- Keep a grant; one that is there already keeps its place.
INSERT INTO memoranda.grants (tenant, id, actor, rule)
VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant, id) DO UPDATE SET actor = excluded.actor, rule = excluded.rule;

-- name: remove_grant
-- Drop a grant.
SELECT memoranda.remove_grants($1, ARRAY(
    SELECT ctid FROM memoranda.grants WHERE tenant = $1 AND id = $2
));

-- name: put_approval
-- Keep an approval; one that is there already keeps its place.
INSERT INTO memoranda.approvals
  (tenant, id, scope, actor, door, capability, requested_at, status, decided_by, decided_at, reason, effect)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (tenant, id) DO UPDATE SET
  scope = excluded.scope, actor = excluded.actor, door = excluded.door, capability = excluded.capability,
  requested_at = excluded.requested_at, status = excluded.status, decided_by = excluded.decided_by,
  decided_at = excluded.decided_at, reason = excluded.reason, effect = excluded.effect;

-- name: put_session
-- Keep a session in place of the one of its scope.
INSERT INTO memoranda.sessions (tenant, scope, owner, started_at, ended_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant, scope) DO UPDATE SET
  owner = excluded.owner, started_at = excluded.started_at, ended_at = excluded.ended_at;

-- name: put_replay
-- Keep what an idempotency key stood for.
INSERT INTO memoranda.replays (tenant, scope, key, request, at, results) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (tenant, scope, key) DO UPDATE SET
  request = excluded.request, at = excluded.at, results = excluded.results;

-- name: add_usage
-- Count against a window.
INSERT INTO memoranda.usage (tenant, actor, seconds, begins, writes, bytes)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (tenant, actor, seconds, begins) DO UPDATE SET
  writes = usage.writes + excluded.writes, bytes = usage.bytes + excluded.bytes;

-- name: remove_usage
-- Drop an actor's windows of this length that began before this one.
SELECT memoranda.remove_usage($1, ARRAY(
    SELECT ctid FROM memoranda.usage WHERE tenant = $1 AND actor = $2 AND seconds = $3 AND begins < $4
));

-- name: add_erasure
-- Keep the fact that a scope was erased.
INSERT INTO memoranda.erasures (tenant, id, scope, at, version_floor) VALUES ($1, $2, $3, $4, $5);

-- name: put_content_key
-- Keep the secret of a scope.
INSERT INTO memoranda.content_keys (tenant, scope, key) VALUES ($1, $2, $3)
ON CONFLICT (tenant, scope) DO UPDATE SET key = excluded.key;

-- name: append_event
-- Append to the ledger.
INSERT INTO memoranda.events (tenant, position, hash, body, run) VALUES ($1, $2, $3, $4, $5);

-- name: move_head
-- Say where the ledger ends now.
UPDATE memoranda.tenants SET length = $2, head = $3 WHERE tenant = $1;

-- name: put_event_text
-- Keep an event's content beside the chain.
INSERT INTO memoranda.event_texts (tenant, position, scope, key, version, text) VALUES ($1, $2, $3, $4, $5, $6);

-- name: set_manner
-- For this transaction: how long it waits for locks, and whether it waits for the disk.
SELECT set_config('lock_timeout', $1, true), set_config('synchronous_commit', $2, true);

-- name: lock_tenant
-- Keep other writers of a tenant out until this transaction ends; say what stands, and which schema this is.
SELECT revision, epoch, length, head, (SELECT version FROM memoranda.migrated)
FROM memoranda.tenants
WHERE tenant = $1
FOR UPDATE;

-- name: add_tenant
-- Make the row to lock of a tenant that was never heard of before.
INSERT INTO memoranda.tenants (tenant, revision, epoch, length, head) VALUES ($1, 0, 0, 0, '')
ON CONFLICT (tenant) DO NOTHING;

-- name: find_event
-- Whether an event is where it was written.
SELECT 1 FROM memoranda.events WHERE tenant = $1 AND position = $2 AND hash = $3;

-- name: lock_schema
-- Let one program at a time look at the schema and change it. The number is the text `memoranda`, cut to eight bytes.
SELECT pg_advisory_xact_lock(x'6d656d6f72616e64'::bigint);

-- name: get_surroundings
-- Which encoding the database has, whether our schema is there, whether it knows its version, and what else it holds.
SELECT
  current_setting('server_encoding'),
  to_regnamespace('memoranda') IS NOT NULL,
  to_regclass('memoranda.migrated') IS NOT NULL,
  (SELECT count(*) FROM pg_catalog.pg_class WHERE relnamespace = to_regnamespace('memoranda'));

-- name: get_version
-- How many migrations were taken.
SELECT version FROM memoranda.migrated;

-- name: get_rights
-- Which role this is, whether rows are hidden from it, and the tenants that it may see all the same.
SELECT current_user::text, row_security_active('memoranda.facts'), ARRAY(SELECT tenant FROM memoranda.roles);

-- name: has_released_schema
-- Whether this is a database of 0.1.0, when the schema was called `recollect`.
SELECT to_regnamespace('memoranda') IS NULL AND to_regclass('recollect.migrated') IS NOT NULL;

-- name: rename_schema
-- Take over the schema of 0.1.0.
ALTER SCHEMA recollect RENAME TO memoranda;

-- name: create_schema
-- Make room for our tables.
CREATE SCHEMA memoranda;

-- name: act_as_owner
-- For this transaction: be the role that owns the tables.
SELECT set_config('role', pg_get_userbyid(relowner), true)
FROM pg_catalog.pg_class
WHERE oid = to_regclass('memoranda.migrated');

-- name: forget_version
-- Make room for another number.
DELETE FROM memoranda.migrated;

-- name: keep_version
-- Keep how many migrations were taken.
INSERT INTO memoranda.migrated (version) VALUES ($1);

-- name: get_mark
-- Which transactions are over, and since when the server runs: as long as both stay, nothing was written.
SELECT pg_current_snapshot()::text, pg_postmaster_start_time()::text;

-- name: list_damage
-- Indexes that are not whole, and pages whose checksums were wrong.
SELECT 'the index ' || indexrelid::regclass::text || ' is not valid'
FROM pg_catalog.pg_index JOIN pg_catalog.pg_class ON pg_class.oid = indexrelid
WHERE relnamespace = to_regnamespace('memoranda') AND NOT indisvalid
UNION ALL
SELECT checksum_failures || ' pages of the database had wrong checksums'
FROM pg_catalog.pg_stat_database
WHERE datname = current_database() AND checksum_failures > 0;

-- name: list_lock_rights
-- The roles that can lock our tables and do not own them, with what would end that.
SELECT format(
    'the role %s can lock tables of all tenants, by its %s; as their owner: %s',
    CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
    string_agg(DISTINCT privilege_type, ', ' ORDER BY privilege_type),
    CASE grantee
        WHEN 0 THEN 'REVOKE ALL ON ALL TABLES IN SCHEMA memoranda FROM PUBLIC'
        ELSE format('SELECT memoranda.grant_rights(%L)', pg_get_userbyid(grantee))
    END
)
FROM pg_catalog.pg_class
CROSS JOIN LATERAL (
    SELECT grantee, privilege_type FROM aclexplode(relacl) WHERE privilege_type NOT IN ('SELECT', 'INSERT')
    UNION ALL
    SELECT acl.grantee, privilege_type FROM pg_catalog.pg_attribute CROSS JOIN LATERAL aclexplode(attacl) AS acl
    WHERE attrelid = pg_class.oid AND privilege_type = 'REFERENCES'
) AS given
WHERE relnamespace = to_regnamespace('memoranda') AND relkind IN ('r', 'p', 'v')
  AND (grantee = 0 OR NOT pg_has_role(grantee, relowner, 'USAGE'))
GROUP BY grantee
UNION ALL
SELECT format('the role %1$I can lock tables of all tenants; as a superuser: REVOKE %2$I FROM %1$I', rolname, beyond)
FROM pg_catalog.pg_roles AS member
CROSS JOIN LATERAL (
    SELECT rolname AS beyond FROM pg_catalog.pg_roles
    WHERE rolname IN ('pg_write_all_data', 'pg_maintain') AND pg_has_role(member.oid, oid, 'MEMBER') OFFSET 0
) AS rights
WHERE rolname = ANY (ARRAY(SELECT role FROM memoranda.roles)) AND NOT rolsuper;

-- name: vacuum
-- Rewrite every table that holds content, so that nothing removed is left in it.
VACUUM (FULL) memoranda.facts, memoranda.revisions, memoranda.approvals, memoranda.sessions, memoranda.replays,
  memoranda.content_keys, memoranda.event_texts, memoranda.collections, memoranda.shelves, memoranda.entries,
  memoranda.vectors;
