-- The statements of every SQL store, but for those about collections and entries (`entries.sql`). `dialect.py` loads
-- them.
--
-- `-- name: get_fact(tenant, scope, key)` begins a statement. Values are bound in the order of its parameters, and the
-- first parameter of a statement about one tenant is that tenant. The next line says what the statement is for. Where
-- the databases need different texts, each has its own, marked with `[sqlite]` or `[postgres]`.
-- `-- part: fact` begins a piece of text that statements include as `{fact}`.
-- `UPSERT INTO … KEY (…)` writes one row: its columns are the parameters, and the row with the same key is replaced.
--
-- Statements are written for PostgreSQL. SQLite's dialect drops the schema, casts, and what chooses an index:
-- `COLLATE "POSIX"` and `number > 0` (see postgres/schema.sql). PostgreSQL's drops `INDEXED BY`, and turns a DELETE into
-- a call of the function that removes rows of that table, because roles may not delete.
-- `OFFSET 0` and `ARRAY(SELECT …)` fix the join order, which PostgreSQL would otherwise guess without statistics.
--
-- Two parameters `low` and `high` are a half-open range of scopes or keys.

-- part: fact
id, version, created_at, updated_at, expires_at, domain, actor, door, source, kind, trust, payload

-- part: revision
key, version, fact_id, change, at, created_at, expires_at, domain, actor, door, source, kind, trust, forgotten, payload

-- part: approval
id, scope, actor, door, capability, requested_at, status, decided_by, decided_at, reason, kind, trust, cause, findings, rules, effect

-- part: link
scope, child, version, parent, parent_version

-- part: rejection
id, scope, key, actor, at, reason, undo, salt, digests, messages

-- part: omission
id, scope, subject, at, undo, phrases, clauses

-- part: session
scope, owner, started_at, ended_at

-- part: events_with_text [sqlite]
events LEFT JOIN event_texts USING (tenant, position)

-- part: events_with_text [postgres]
memoranda.events
LEFT JOIN LATERAL (
    SELECT text FROM memoranda.event_texts WHERE tenant = :tenant AND position = events.position OFFSET 0
) AS beside ON true

-- name: get_fact(tenant, scope, key)
-- The fact of a key.
SELECT {fact} FROM memoranda.facts WHERE tenant = :tenant AND scope = :scope AND key = :key;

-- name: get_bare_fact(tenant, scope, key)
-- The fact of a key, without its value.
SELECT id, version, created_at, updated_at, expires_at, domain, actor, door, source, kind, trust
FROM memoranda.facts
WHERE tenant = :tenant AND scope = :scope AND key = :key;

-- name: list_facts(tenant, scope, low, high, now, domain, limit)
-- The active facts of a scope in a range of keys.
SELECT key, {fact}
FROM memoranda.facts
WHERE tenant = :tenant AND scope = :scope AND key >= :low AND key < :high
  AND (expires_at IS NULL OR expires_at > :now)
  AND (:domain::text IS NULL OR domain = :domain)
ORDER BY key
LIMIT :limit;

-- name: list_facts_as_of(tenant, scope, low, high, moment, limit)
-- The newest revisions at a moment, in a range of keys, that were active facts then.
SELECT {revision}
FROM memoranda.revisions AS newest
WHERE tenant = :tenant AND scope = :scope AND key >= :low AND key < :high
  AND version = (
    SELECT max(version) FROM memoranda.revisions AS earlier
    WHERE earlier.tenant = newest.tenant AND earlier.scope = newest.scope AND earlier.key = newest.key
      AND earlier.at <= :moment
  )
  AND change = 'set' AND forgotten = 0
  AND (expires_at IS NULL OR expires_at > :moment)
ORDER BY key
LIMIT :limit;

-- name: page_facts_below(tenant, scope, key, low, high, limit)
-- The next facts in a range of scopes, after a scope and key.
SELECT scope, key, {fact}
FROM memoranda.facts
WHERE tenant = :tenant AND (scope, key) > (:scope, :key) AND scope >= :low AND scope < :high
ORDER BY scope, key
LIMIT :limit;

-- name: list_facts_named(tenant, key, low, high, limit)
-- The facts of one key in a range of scopes. Without the hint SQLite would read every fact in the range.
SELECT scope, key, {fact}
FROM memoranda.facts INDEXED BY facts_by_key
WHERE tenant COLLATE "POSIX" = :tenant AND key = :key AND scope >= :low AND scope < :high
ORDER BY scope
LIMIT :limit;

-- name: list_facts_owned(tenant, key, low, high) [sqlite]
-- The facts of one key in the sessions of a range of owners. Owners come first: others may have many sessions.
SELECT facts.scope, facts.key, {fact}
FROM sessions INDEXED BY sessions_by_owner
CROSS JOIN facts ON facts.tenant = sessions.tenant AND facts.scope = sessions.scope
WHERE sessions.tenant = :tenant AND facts.key = :key
  AND sessions.owner IS NOT NULL AND sessions.owner >= :low AND sessions.owner < :high;

-- name: list_facts_owned(tenant, key, low, high) [postgres]
-- The facts of one key in the sessions of a range of owners.
SELECT scope, key, {fact}
FROM memoranda.facts
WHERE tenant = :tenant AND key = :key AND scope = ANY (ARRAY(
    SELECT scope FROM memoranda.sessions
    WHERE tenant COLLATE "POSIX" = :tenant AND owner IS NOT NULL AND owner >= :low AND owner < :high
));

-- name: list_expired(tenant, now, limit) [sqlite]
-- Expired facts. The inner select reads only the index: long values are read only if they are returned.
SELECT scope, key, {fact}
FROM facts
WHERE tenant = :tenant AND (scope, key) IN (
    SELECT scope, key FROM facts
    WHERE tenant = :tenant AND expires_at IS NOT NULL AND expires_at <= :now
    ORDER BY scope, key
    LIMIT :limit
)
ORDER BY scope, key;

-- name: list_expired(tenant, now, limit) [postgres]
-- Expired facts. The first select reads no values: long ones are read only if they are returned.
SELECT due.scope, due.key, {fact}
FROM (
    SELECT scope, key FROM memoranda.facts
    WHERE tenant COLLATE "POSIX" = :tenant AND expires_at IS NOT NULL AND expires_at <= :now
    ORDER BY scope, key
    LIMIT :limit
) AS due
CROSS JOIN LATERAL (
    SELECT * FROM memoranda.facts WHERE tenant = :tenant AND scope = due.scope AND key = due.key OFFSET 0
) AS fact
ORDER BY due.scope, due.key;

-- name: list_revisions(tenant, scope, key, after, limit)
-- The revisions of a key after a version.
SELECT {revision}
FROM memoranda.revisions
WHERE tenant = :tenant AND scope = :scope AND key = :key AND version > :after
ORDER BY version
LIMIT :limit;

-- name: list_newest_revisions(tenant, scope, key, before, limit)
-- The revisions of a key before a version, newest first.
SELECT {revision}
FROM memoranda.revisions
WHERE tenant = :tenant AND scope = :scope AND key = :key AND version < :before
ORDER BY version DESC
LIMIT :limit;

-- name: get_revision(tenant, scope, key, version)
-- One revision.
SELECT {revision}
FROM memoranda.revisions
WHERE tenant = :tenant AND scope = :scope AND key = :key AND version = :version;

-- name: get_revision_at(tenant, scope, key, moment)
-- The newest revision made by a moment.
SELECT {revision}
FROM memoranda.revisions
WHERE tenant = :tenant AND scope = :scope AND key = :key AND at <= :moment
ORDER BY version DESC
LIMIT 1;

-- name: page_revisions_below(tenant, scope, key, version, low, high, limit)
-- The next revisions in a range of scopes, after a scope, key and version.
SELECT scope, {revision}
FROM memoranda.revisions
WHERE tenant = :tenant AND (scope, key, version) > (:scope, :key, :version) AND scope >= :low AND scope < :high
ORDER BY scope, key, version
LIMIT :limit;

-- name: get_newest(tenant, low, high)
-- The highest version and the latest timestamp in a range of scopes, erased ones included.
SELECT max(version), max(at) FROM (
    SELECT max(version) AS version, max(at) AS at FROM memoranda.revisions
    WHERE tenant = :tenant AND scope >= :low AND scope < :high
    UNION ALL
    SELECT max(version_floor), max(at) FROM memoranda.erasures WHERE tenant = :tenant AND scope >= :low AND scope < :high
) AS used;

-- name: list_tenants() [sqlite]
-- Every tenant with any rows, found by skipping from one to the next instead of reading every row.
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

-- name: list_tenants() [postgres]
-- Every tenant with any rows. One that has nothing but the row that writers lock does not count.
WITH RECURSIVE
  of_facts (tenant) AS (
    SELECT min(tenant) FROM memoranda.facts
    UNION ALL
    SELECT (SELECT min(facts.tenant) FROM memoranda.facts WHERE facts.tenant > of_facts.tenant)
    FROM of_facts WHERE of_facts.tenant IS NOT NULL
  )
SELECT tenant FROM memoranda.tenants
WHERE revision > 0 OR epoch > 0 OR length > 0
  OR (SELECT position FROM memoranda.events WHERE events.tenant = tenants.tenant LIMIT 1) IS NOT NULL
UNION SELECT tenant FROM memoranda.collections
UNION SELECT tenant FROM of_facts WHERE tenant IS NOT NULL
ORDER BY tenant;

-- name: list_scopes(tenant, low, high, limit) [sqlite]
-- The scopes in a range that have facts or live entries, found by skipping from one to the next.
WITH RECURSIVE of_facts (scope) AS (
    SELECT min(scope) FROM facts WHERE tenant = :tenant AND scope >= :low AND scope < :high
    UNION ALL
    SELECT (SELECT min(facts.scope) FROM facts WHERE tenant = :tenant AND facts.scope > of_facts.scope AND facts.scope < :high)
    FROM of_facts WHERE of_facts.scope IS NOT NULL
  )
SELECT scope FROM of_facts WHERE scope IS NOT NULL
UNION SELECT scope FROM shelves WHERE tenant = :tenant AND scope >= :low AND scope < :high AND entries > 0
ORDER BY scope
LIMIT :limit;

-- name: list_scopes(tenant, low, high, limit) [postgres]
-- The scopes in a range that have facts or live entries, found by skipping from one to the next.
WITH RECURSIVE of_facts (scope) AS (
    SELECT min(scope) FROM memoranda.facts WHERE tenant = :tenant AND scope >= :low AND scope < :high
    UNION ALL
    SELECT (
      SELECT min(facts.scope) FROM memoranda.facts
      WHERE tenant = :tenant AND facts.scope > of_facts.scope AND facts.scope < :high
    )
    FROM of_facts WHERE of_facts.scope IS NOT NULL
  )
SELECT scope FROM of_facts WHERE scope IS NOT NULL
UNION SELECT scope FROM memoranda.shelves
WHERE tenant COLLATE "POSIX" = :tenant AND scope >= :low AND scope < :high AND entries > 0
ORDER BY scope
LIMIT :limit;

-- name: get_tenant(tenant) [sqlite]
-- The state of a tenant's rules, and the end of its ledger's chain.
SELECT revision, epoch, rejected, length, head FROM memoranda.tenants WHERE tenant = :tenant;

-- name: list_definitions(tenant)
-- The definitions of a tenant, oldest first.
SELECT id, name, slug, scope, ttl, created_at, updated_at, schema
FROM memoranda.definitions
WHERE tenant = :tenant
ORDER BY place;

-- name: list_links_to(tenant, child)
-- What a child was derived from.
SELECT {link}
FROM memoranda.links
WHERE tenant = :tenant AND child = :child
ORDER BY child, version, parent, parent_version;

-- name: list_links(tenant, parent)
-- What was derived from a parent.
SELECT {link}
FROM memoranda.links
WHERE tenant COLLATE "POSIX" = :tenant AND parent = :parent
ORDER BY child, version, parent, parent_version;

-- name: get_epoch(tenant, scope)
-- The permission epoch at the last change that names a scope.
SELECT scope, epoch FROM memoranda.epochs WHERE tenant = :tenant AND scope = :scope;

-- name: list_grants(tenant)
-- The grants of a tenant, oldest first.
SELECT id, actor, rule FROM memoranda.grants WHERE tenant = :tenant ORDER BY place;

-- name: list_guards(tenant)
-- What the guard of a tenant does, by scope and origin.
SELECT scope, origin, instructions, secrets, payment, codes, protected, largest
FROM memoranda.guards
WHERE tenant = :tenant
ORDER BY scope, origin;

-- name: list_approvals(tenant, after, limit)
-- The approvals of a tenant after one, oldest first.
SELECT {approval}
FROM memoranda.approvals
WHERE tenant = :tenant
  AND place > coalesce((SELECT place FROM memoranda.approvals AS seen WHERE seen.tenant = :tenant AND seen.id = :after), 0)
ORDER BY place
LIMIT :limit;

-- name: get_approval(tenant, id)
-- One approval.
SELECT {approval} FROM memoranda.approvals WHERE tenant = :tenant AND id = :id;

-- name: list_rejections(tenant, low, high)
-- The rejections in a range of scopes, each after its place.
SELECT place, {rejection} FROM memoranda.rejections
WHERE tenant COLLATE "POSIX" = :tenant AND scope >= :low AND scope < :high;

-- name: get_rejection(tenant, id)
-- One rejection.
SELECT {rejection} FROM memoranda.rejections WHERE tenant = :tenant AND id = :id;

-- name: list_omissions(tenant, subject)
-- The omissions of a subject, by id.
SELECT {omission} FROM memoranda.omissions
WHERE tenant COLLATE "POSIX" = :tenant AND subject = :subject ORDER BY id;

-- name: get_session(tenant, scope)
-- The session of a scope.
SELECT {session} FROM memoranda.sessions WHERE tenant = :tenant AND scope = :scope;

-- name: list_sessions(tenant, low, high)
-- The sessions that belong to a range of scopes.
SELECT {session} FROM memoranda.sessions
WHERE tenant COLLATE "POSIX" = :tenant AND owner IS NOT NULL AND owner >= :low AND owner < :high;

-- name: get_replay(tenant, scope, key)
-- The request and results recorded for an idempotency key.
SELECT scope, key, request, at, results FROM memoranda.replays
WHERE tenant = :tenant AND scope = :scope AND key = :key;

-- name: list_replays(tenant, low, high)
-- The idempotency keys in a range of scopes.
SELECT scope, key, request, at, results FROM memoranda.replays
WHERE tenant = :tenant AND scope >= :low AND scope < :high ORDER BY scope, key;

-- name: get_usage(tenant, actor, seconds, begins)
-- What an actor used in a window.
SELECT writes, bytes FROM memoranda.usage
WHERE tenant = :tenant AND actor = :actor AND seconds = :seconds AND begins = :begins;

-- name: get_erasure(tenant, scopes)
-- The newest erasure of any of these scopes.
SELECT id, scope, at, version_floor
FROM memoranda.erasures
WHERE tenant = :tenant AND scope = ANY (:scopes::text[])
ORDER BY place DESC
LIMIT 1;

-- name: get_content_key(tenant, scope)
-- The content key of a scope.
SELECT scope, key FROM memoranda.content_keys WHERE tenant = :tenant AND scope = :scope;

-- name: page_events(tenant, start, limit)
-- The next events from a position on, with their texts.
SELECT position, hash, body, text
FROM {events_with_text}
WHERE tenant = :tenant AND position >= :start
ORDER BY position
LIMIT :limit;

-- name: page_run_events(tenant, run, start, limit)
-- The next events of one run from a position on, with their texts.
SELECT position, hash, body, text
FROM {events_with_text}
WHERE tenant COLLATE "POSIX" = :tenant AND run = :run AND position >= :start
ORDER BY position
LIMIT :limit;

-- name: get_run_head(tenant, run)
-- The newest event of one run.
SELECT position, hash, body
FROM memoranda.events
WHERE tenant COLLATE "POSIX" = :tenant AND run = :run
ORDER BY position DESC
LIMIT 1;

-- name: put_fact(tenant, scope, key, id, version, created_at, updated_at, expires_at, domain, actor, door, source, kind, trust, payload)
-- Keep a fact in place of the one of its key.
UPSERT INTO memoranda.facts KEY (tenant, scope, key);

-- name: remove_fact(tenant, scope, key)
-- Remove a fact.
DELETE FROM memoranda.facts WHERE tenant = :tenant AND scope = :scope AND key = :key;

-- name: add_revision(tenant, scope, key, version, fact_id, change, at, created_at, expires_at, domain, actor, door, source, kind, trust, forgotten, payload)
-- Add to the history of a key.
UPSERT INTO memoranda.revisions KEY (tenant, scope, key, version);

-- name: forget_texts(tenant, now) [sqlite]
-- Remove the ledger's texts of revisions that have expired.
DELETE FROM event_texts WHERE tenant = :tenant AND (scope, key, version) IN (
    SELECT scope, key, version FROM revisions
    WHERE tenant = :tenant AND expires_at IS NOT NULL AND expires_at <= :now AND payload IS NOT NULL
);

-- name: forget_texts(tenant, now) [postgres]
-- Remove the ledger's texts of revisions that have expired.
SELECT memoranda.remove_event_texts(:tenant, ARRAY(
    SELECT texts.found FROM memoranda.revisions
    CROSS JOIN LATERAL (
        SELECT ctid AS found FROM memoranda.event_texts
        WHERE tenant COLLATE "POSIX" = :tenant
          AND scope = revisions.scope AND key = revisions.key AND version = revisions.version
        OFFSET 0
    ) AS texts
    WHERE tenant COLLATE "POSIX" = :tenant AND expires_at IS NOT NULL AND expires_at <= :now AND payload IS NOT NULL
));

-- name: get_expired_revision(tenant, now, skipped)
-- Return when the revision expired that comes after a number of others.
SELECT expires_at FROM memoranda.revisions
WHERE tenant COLLATE "POSIX" = :tenant AND expires_at IS NOT NULL AND expires_at <= :now AND payload IS NOT NULL
ORDER BY expires_at LIMIT 1 OFFSET :skipped;

-- name: forget_revisions(tenant, now)
-- Blank the values of revisions that have expired.
UPDATE memoranda.revisions SET payload = NULL, forgotten = 1
WHERE tenant COLLATE "POSIX" = :tenant AND expires_at IS NOT NULL AND expires_at <= :now AND payload IS NOT NULL;

-- name: erase_facts(tenant, low, high)
-- Remove the facts in a range of scopes.
DELETE FROM memoranda.facts WHERE tenant = :tenant AND scope >= :low AND scope < :high;

-- name: erase_revisions(tenant, low, high)
-- Remove the history in a range of scopes.
DELETE FROM memoranda.revisions WHERE tenant = :tenant AND scope >= :low AND scope < :high;

-- name: erase_replays(tenant, low, high)
-- Remove the idempotency keys in a range of scopes.
DELETE FROM memoranda.replays WHERE tenant = :tenant AND scope >= :low AND scope < :high;

-- name: erase_approvals(tenant, low, high)
-- Remove the approvals in a range of scopes.
DELETE FROM memoranda.approvals WHERE tenant COLLATE "POSIX" = :tenant AND scope >= :low AND scope < :high;

-- name: erase_rejections(tenant, low, high)
-- Remove the rejections in a range of scopes.
DELETE FROM memoranda.rejections WHERE tenant COLLATE "POSIX" = :tenant AND scope >= :low AND scope < :high;

-- name: erase_omissions(tenant, low, high)
-- Remove the omissions in a range of scopes.
DELETE FROM memoranda.omissions WHERE tenant COLLATE "POSIX" = :tenant AND scope >= :low AND scope < :high;

-- name: erase_event_texts(tenant, low, high)
-- Remove the ledger's texts about a range of scopes.
DELETE FROM memoranda.event_texts WHERE tenant COLLATE "POSIX" = :tenant AND scope >= :low AND scope < :high;

-- name: erase_content_keys(tenant, low, high)
-- Remove the content keys of a range of scopes.
DELETE FROM memoranda.content_keys WHERE tenant = :tenant AND scope >= :low AND scope < :high;

-- name: erase_links(tenant, low, high)
-- Remove the links of what is in a range of scopes.
DELETE FROM memoranda.links WHERE tenant COLLATE "POSIX" = :tenant AND scope >= :low AND scope < :high;

-- name: erase_sessions(tenant, low, high)
-- Remove the sessions in a range of scopes.
DELETE FROM memoranda.sessions WHERE tenant = :tenant AND scope >= :low AND scope < :high;

-- name: remove_replays(tenant, before)
-- Remove the idempotency keys recorded before a moment.
DELETE FROM memoranda.replays WHERE tenant COLLATE "POSIX" = :tenant AND at < :before;

-- name: set_tenant_state(tenant, revision, epoch, rejected)
-- Keep the state of a tenant's rules.
INSERT INTO memoranda.tenants (tenant, revision, epoch, rejected, length, head)
VALUES (:tenant, :revision, :epoch, :rejected, 0, '')
ON CONFLICT (tenant) DO UPDATE SET
  revision = excluded.revision, epoch = excluded.epoch, rejected = excluded.rejected;

-- name: put_definition(tenant, id, name, slug, scope, ttl, created_at, updated_at, schema)
-- Keep a definition; one that exists keeps its place.
UPSERT INTO memoranda.definitions KEY (tenant, id);

-- name: remove_definition(tenant, id)
-- Remove a definition.
DELETE FROM memoranda.definitions WHERE tenant = :tenant AND id = :id;

-- name: put_grant(tenant, id, actor, rule)
-- Keep a grant; one that exists keeps its place.
UPSERT INTO memoranda.grants KEY (tenant, id);

-- name: remove_grant(tenant, id)
-- Remove a grant.
DELETE FROM memoranda.grants WHERE tenant = :tenant AND id = :id;

-- name: put_guard(tenant, scope, origin, instructions, secrets, payment, codes, protected, largest)
-- Keep what the guard does about an origin in a scope.
UPSERT INTO memoranda.guards KEY (tenant, scope, origin);

-- name: remove_guard(tenant, scope, origin)
-- Remove it.
DELETE FROM memoranda.guards WHERE tenant = :tenant AND scope = :scope AND origin = :origin;

-- name: put_approval(tenant, id, scope, actor, door, capability, requested_at, status, decided_by, decided_at, reason, kind, trust, cause, findings, rules, effect)
-- Keep an approval; one that exists keeps its place.
UPSERT INTO memoranda.approvals KEY (tenant, id);

-- name: put_rejection(tenant, id, scope, key, actor, at, reason, undo, salt, digests, messages)
-- Keep a rejection; one that exists keeps its place.
UPSERT INTO memoranda.rejections KEY (tenant, id);

-- name: remove_rejection(tenant, id)
-- Remove a rejection.
DELETE FROM memoranda.rejections WHERE tenant = :tenant AND id = :id;

-- name: put_omission(tenant, id, scope, subject, at, undo, phrases, clauses)
-- Keep an omission.
UPSERT INTO memoranda.omissions KEY (tenant, id);

-- name: remove_omission(tenant, id)
-- Remove an omission.
DELETE FROM memoranda.omissions WHERE tenant = :tenant AND id = :id;

-- name: put_session(tenant, scope, owner, started_at, ended_at)
-- Keep a session in place of the one of its scope.
UPSERT INTO memoranda.sessions KEY (tenant, scope);

-- name: put_replay(tenant, scope, key, request, at, results)
-- Keep the request and results of an idempotency key.
UPSERT INTO memoranda.replays KEY (tenant, scope, key);

-- name: add_usage(tenant, actor, seconds, begins, writes, bytes)
-- Count against a window.
INSERT INTO memoranda.usage (tenant, actor, seconds, begins, writes, bytes)
VALUES (:tenant, :actor, :seconds, :begins, :writes, :bytes)
ON CONFLICT (tenant, actor, seconds, begins) DO UPDATE SET
  writes = usage.writes + excluded.writes, bytes = usage.bytes + excluded.bytes;

-- name: remove_usage(tenant, actor, seconds, begins)
-- Remove an actor's windows of this length that began before this one.
DELETE FROM memoranda.usage WHERE tenant = :tenant AND actor = :actor AND seconds = :seconds AND begins < :begins;

-- name: put_erasure(tenant, id, scope, at, version_floor)
-- Record that a scope was erased.
INSERT INTO memoranda.erasures (tenant, id, scope, at, version_floor)
VALUES (:tenant, :id, :scope, :at, :version_floor);

-- name: put_link(tenant, scope, child, version, parent, parent_version)
-- Keep a link.
UPSERT INTO memoranda.links KEY (tenant, child, version, parent, parent_version);

-- name: get_segment(tenant, subject, name, piece)
-- One piece of a published index.
SELECT subject, name, piece, bytes FROM memoranda.segments
WHERE tenant = :tenant AND subject = :subject AND name = :name AND piece = :piece;

-- name: put_segment(tenant, subject, name, piece, bytes)
-- Publish a piece of an index.
UPSERT INTO memoranda.segments KEY (tenant, subject, name, piece);

-- name: remove_segments(tenant, low, high)
-- Remove the published indexes of a range of subjects.
DELETE FROM memoranda.segments WHERE tenant COLLATE "POSIX" = :tenant AND subject >= :low AND subject < :high;

-- name: put_epoch(tenant, scope, epoch)
-- Keep the permission epoch of a scope.
UPSERT INTO memoranda.epochs KEY (tenant, scope);

-- name: put_content_key(tenant, scope, key) [sqlite]
-- Keep the content key of a scope.
UPSERT INTO memoranda.content_keys KEY (tenant, scope);

-- name: append_event(tenant, position, hash, body, run)
-- Append to the ledger.
INSERT INTO memoranda.events (tenant, position, hash, body, run) VALUES (:tenant, :position, :hash, :body, :run);

-- name: add_tenant(tenant)
-- Add the row of a new tenant, unless it exists.
INSERT INTO memoranda.tenants (tenant, revision, epoch, length, head) VALUES (:tenant, 0, 0, 0, '')
ON CONFLICT (tenant) DO NOTHING;

-- name: move_head(tenant, length, head)
-- Say where the ledger ends now.
UPDATE memoranda.tenants SET length = :length, head = :head WHERE tenant = :tenant;

-- name: put_event_text(tenant, position, scope, key, version, text)
-- Keep an event's content outside the hash chain.
INSERT INTO memoranda.event_texts (tenant, position, scope, key, version, text)
VALUES (:tenant, :position, :scope, :key, :version, :text);

-- name: count_tables() [sqlite]
-- How many tables and indexes there are: none in a new database.
SELECT count(*) FROM sqlite_schema;

-- name: vacuum() [sqlite]
-- Rewrite the whole file, so that removed content is gone from it.
VACUUM;
