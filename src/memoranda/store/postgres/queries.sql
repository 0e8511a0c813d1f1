-- The statements that only PostgreSQL needs, written as in `store/sql/queries.sql`. What stands in <angle brackets> is
-- the name of a table or an index, or all that follows it, which cannot be a parameter.

-- name: set_manner(lock_timeout, synchronous_commit)
-- For this transaction: how long it waits for locks, and whether it waits for the disk.
SELECT set_config('lock_timeout', :lock_timeout, true), set_config('synchronous_commit', :synchronous_commit, true);

-- name: lock_subjects(tenant, subjects)
-- Keep other writers of these subjects out until this transaction ends, or without any all writers of the tenant.
SELECT memoranda.lock_subjects(:tenant, :subjects::text[]);

-- name: get_locked_tenant(tenant, scopes)
-- What writers need of a tenant once they got its lock, with which programs may write, and content keys of scopes.
SELECT revision, epoch, rejected, length, head,
    (SELECT ARRAY[version, coalesce(prepared, version)] FROM memoranda.migrated),
    ARRAY(SELECT scope FROM memoranda.content_keys WHERE tenant = :tenant AND scope = ANY (:scopes::text[]) ORDER BY scope),
    ARRAY(SELECT key FROM memoranda.content_keys WHERE tenant = :tenant AND scope = ANY (:scopes::text[]) ORDER BY scope)
FROM memoranda.tenants
WHERE tenant = :tenant;

-- name: get_tenant(tenant)
-- The state of a tenant's rules, the end of its chain, the positions of the first events after that, and of the newest.
SELECT revision, epoch, rejected, length, head,
    ARRAY(
        SELECT position FROM memoranda.events
        WHERE tenant = :tenant AND position > tenants.length ORDER BY position LIMIT 4096
    ),
    (SELECT position FROM memoranda.events WHERE tenant = :tenant ORDER BY position DESC LIMIT 1)
FROM memoranda.tenants
WHERE tenant = :tenant;

-- name: list_unchained(tenant, length, limit)
-- The first events after the chain.
SELECT position, hash, body FROM memoranda.events
WHERE tenant = :tenant AND position > :length ORDER BY position LIMIT :limit;

-- name: get_length(tenant)
-- How far a tenant's ledger is chained.
SELECT length FROM memoranda.tenants WHERE tenant = :tenant;

-- name: list_behind(tenant, limit)
-- The first events after the chain, as far as it reaches now.
SELECT position, hash, body FROM memoranda.events
WHERE tenant = :tenant AND position > (SELECT length FROM memoranda.tenants WHERE tenant = :tenant)
ORDER BY position LIMIT :limit;

-- name: list_hashes(tenant, low, high)
-- The hashes that chain the events in a range of positions.
SELECT first, hashes FROM memoranda.chain
WHERE tenant = :tenant AND first <= :high AND first >= coalesce(
    (SELECT max(first) FROM memoranda.chain AS earlier WHERE earlier.tenant = :tenant AND earlier.first <= :low), 0
)
ORDER BY first;

-- name: take_positions(tenant, count, synchronous_commit)
-- Take the next positions of a tenant's ledger; return the last one.
WITH manner AS (SELECT set_config('synchronous_commit', :synchronous_commit, true) AS said)
INSERT INTO memoranda.positions (tenant, taken) SELECT :tenant::text, :count::bigint FROM manner
ON CONFLICT (tenant) DO UPDATE SET taken = positions.taken + excluded.taken
RETURNING taken;

-- name: lock_chain(tenant)
-- Be the one who chains events of a tenant until this transaction ends; return where its chain ends.
SELECT length, head FROM memoranda.tenants WHERE tenant = :tenant FOR UPDATE SKIP LOCKED;

-- name: add_chain(tenant, first, hashes)
-- Keep the hashes of events that were chained.
INSERT INTO memoranda.chain (tenant, first, hashes) VALUES (:tenant, :first, :hashes);

-- name: add_content_key(tenant, scope, key)
-- Keep the content key of a scope, unless another writer has kept one.
INSERT INTO memoranda.content_keys (tenant, scope, key) VALUES (:tenant, :scope, :key)
ON CONFLICT (tenant, scope) DO NOTHING;

-- name: find_event(tenant, position, hash)
-- Whether the ledger has an event.
SELECT 1 FROM memoranda.events WHERE tenant = :tenant AND position = :position AND hash = :hash;

-- name: lock_schema()
-- Let one program at a time read the schema's version and migrate it. The number is `memorand` in ASCII.
SELECT pg_advisory_xact_lock(x'6d656d6f72616e64'::bigint);

-- name: lock_schema_for_long()
-- The same for longer than a transaction: some statements run in none.
SELECT pg_advisory_lock(x'6d656d6f72616e64'::bigint);

-- name: unlock_schema()
-- Let the next program read the schema's version; be the role that signed in.
SELECT pg_advisory_unlock(x'6d656d6f72616e64'::bigint), set_config('role', 'none', false);

-- name: lock_writers()
-- Wait for those who write, and keep others from beginning until this transaction ends.
LOCK TABLE memoranda.tenants IN EXCLUSIVE MODE;

-- name: list_partitions(table)
-- The partitions of a table, in order.
SELECT relname::text FROM pg_catalog.pg_inherits JOIN pg_catalog.pg_class ON pg_class.oid = inhrelid
WHERE inhparent = to_regclass('memoranda.' || :table::text)
ORDER BY relname;

-- name: get_index(name)
-- Whether an index is valid; no row if there is none.
SELECT indisvalid FROM pg_catalog.pg_index WHERE indexrelid = to_regclass('memoranda.' || :name::text);

-- name: build_index()
-- Make an index while others write.
CREATE INDEX CONCURRENTLY <name> ON memoranda.<table> <body>;

-- name: drop_index()
-- Remove an index while others write.
DROP INDEX CONCURRENTLY memoranda.<name>;

-- name: add_partitioned_index()
-- Begin an index of a partitioned table. It becomes valid with that of the last partition.
CREATE INDEX IF NOT EXISTS <name> ON ONLY memoranda.<table> <body>;

-- name: attach_index()
-- Add the index of one partition to that of the table.
ALTER INDEX memoranda.<name> ATTACH PARTITION memoranda.<partition>;

-- name: rewrite()
-- Rewrite tables, so that removed content is gone from their files. Each is locked while it is written.
VACUUM (FULL) <tables>;

-- name: reclaim()
-- Remove dead rows from the pages of tables while others use them; giving pages back to the disk would stop readers.
VACUUM (VERBOSE, TRUNCATE FALSE) <tables>;

-- name: set_patience(lock_timeout)
-- For this connection, outside of transactions: how long it waits for locks, and which messages it is sent.
SELECT set_config('lock_timeout', :lock_timeout, false), set_config('client_min_messages', 'warning', false);

-- name: reset_patience()
-- As it was.
SELECT set_config(name, reset_val, false) FROM pg_catalog.pg_settings
WHERE name IN ('lock_timeout', 'client_min_messages');

-- name: get_erasing(tenant)
-- The number of the transaction that erased last in a tenant.
SELECT xmin::text::bigint FROM memoranda.erasures WHERE tenant = :tenant ORDER BY place DESC LIMIT 1;

-- name: get_surroundings()
-- The encoding of the database, whether our schema exists, whether it has a version, and how much it contains.
SELECT
  current_setting('server_encoding'),
  to_regnamespace('memoranda') IS NOT NULL,
  to_regclass('memoranda.migrated') IS NOT NULL,
  (SELECT count(*) FROM pg_catalog.pg_class WHERE relnamespace = to_regnamespace('memoranda'));

-- name: get_version()
-- The schemas of the oldest and the newest programs that may write. Earlier there was one number.
SELECT version, coalesce((to_jsonb(migrated) ->> 'prepared')::int, version) FROM memoranda.migrated;

-- name: get_rights()
-- The current role, whether rows are hidden from it, and the tenants that it may see nevertheless.
SELECT current_user::text, row_security_active('memoranda.facts'), ARRAY(SELECT tenant FROM memoranda.roles);

-- name: get_partition(tenant)
-- The number of the partitions that have a tenant's rows, NULL where tables have none.
SELECT CASE relkind WHEN 'p' THEN (
    SELECT place FROM generate_series(0, parts - 1) AS place
    WHERE satisfies_hash_partition(oid, parts, place, :tenant::text COLLATE "C")
) END
FROM pg_catalog.pg_class
CROSS JOIN LATERAL (SELECT count(*)::int AS parts FROM pg_catalog.pg_inherits WHERE inhparent = oid) AS counted
WHERE oid = to_regclass('memoranda.facts');

-- name: has_released_schema()
-- Whether this is a database of 0.1.0, when the schema was called `recollect`.
SELECT to_regnamespace('memoranda') IS NULL AND to_regclass('recollect.migrated') IS NOT NULL;

-- name: rename_schema()
-- Take over the schema of 0.1.0.
ALTER SCHEMA recollect RENAME TO memoranda;

-- name: create_schema()
-- Create our schema.
CREATE SCHEMA memoranda;

-- name: act_as_owner()
-- For this transaction: be the role that owns the tables.
SELECT set_config('role', pg_get_userbyid(relowner), true)
FROM pg_catalog.pg_class
WHERE oid = to_regclass('memoranda.migrated');

-- name: act_as_owner_for_long()
-- Until `unlock_schema`: be the role that owns the tables.
SELECT set_config('role', pg_get_userbyid(relowner), false)
FROM pg_catalog.pg_class
WHERE oid = to_regclass('memoranda.migrated');

-- name: forget_version()
-- Remove the version before another is written.
DELETE FROM memoranda.migrated;

-- name: keep_version(oldest, newest)
-- Record which programs may write, in the columns that are there by now.
INSERT INTO memoranda.migrated
SELECT * FROM jsonb_populate_record(
    NULL::memoranda.migrated, jsonb_build_object('version', :oldest::int, 'prepared', :newest::int)
);

-- name: get_mark()
-- Which transactions have ended, and when the server started: while both stay the same, nothing was written.
SELECT pg_current_snapshot()::text, pg_postmaster_start_time()::text;

-- name: ask()
-- Whatever a server that works can answer.
SELECT 1;

-- name: get_backend()
-- The process that works for this connection: another one than the connection names, if there is a pooler in between.
SELECT pg_backend_pid();

-- name: is_standby()
-- Whether this server follows another.
SELECT pg_is_in_recovery();

-- name: get_position()
-- How far in the write-ahead log what this server shows has come; asked on the primary after a commit, it includes that.
SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END
    - '0/0'::pg_lsn)::bigint;

-- name: get_transaction()
-- The number of this transaction, if it has changed anything.
SELECT pg_current_xact_id_if_assigned()::text;

-- name: shows_transactions(numbers)
-- Whether this server shows what these transactions have changed. A standby may know of none of them yet.
SELECT coalesce(bool_and(
    CASE WHEN number::xid8 < pg_snapshot_xmax(pg_current_snapshot())
        THEN pg_xact_status(number::xid8) = 'committed' ELSE false END
), true)
FROM unnest(:numbers::text[]) AS given (number);

-- name: get_mark_and_position()
-- As get_mark, on whichever server: a snapshot of a standby does not tell all that is running, so its position counts.
SELECT
    pg_is_in_recovery(),
    CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()::text ELSE pg_current_snapshot()::text END,
    pg_postmaster_start_time()::text,
    (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END
        - '0/0'::pg_lsn)::bigint;

-- name: get_timeline()
-- How often a standby was promoted to get this primary; NULL on a standby.
SELECT CASE WHEN NOT pg_is_in_recovery()
    THEN ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint END;

-- name: get_delay()
-- How many seconds ago a standby replayed its latest commit, and 0 on a primary; NULL if it replayed none yet.
SELECT CASE WHEN pg_is_in_recovery()
    THEN extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8 ELSE 0 END;

-- name: list_damage()
-- Indexes that are not valid, and pages whose checksums were wrong.
SELECT 'the index ' || indexrelid::regclass::text || ' is not valid'
FROM pg_catalog.pg_index JOIN pg_catalog.pg_class ON pg_class.oid = indexrelid
WHERE relnamespace = to_regnamespace('memoranda') AND NOT indisvalid
UNION ALL
SELECT checksum_failures || ' pages of the database had wrong checksums'
FROM pg_catalog.pg_stat_database
WHERE datname = current_database() AND checksum_failures > 0;

-- name: list_notices()
-- A migration that is not finished, and tables that are not partitioned.
SELECT format(
    'programs of schema %s may still write: once none runs, finish the migration to schema %s with %s',
    version, prepared, 'memoranda upgrade --finish'
)
FROM memoranda.migrated WHERE prepared > version
UNION ALL
SELECT 'the tables are not partitioned, so a scrub rewrites those of all tenants: memoranda migrate copies everything'
  ' into a new database, which has partitions'
FROM pg_catalog.pg_class WHERE oid = to_regclass('memoranda.facts') AND relkind <> 'p';

-- name: list_lock_rights()
-- The roles that can lock our tables without owning them, and the statement that prevents it.
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

-- name: list_portions(tenant, shelf, gone)
-- The portions of a shelf whose indexes are stored, and perhaps what had ended of each.
SELECT first, last, mark, CASE WHEN :gone THEN gone ELSE '{}' END, embedder FROM memoranda.portions
WHERE tenant = :tenant AND shelf = :shelf ORDER BY first;

-- name: add_portion(tenant, shelf, first, last, mark, gone, embedder)
-- Keep what a portion is.
INSERT INTO memoranda.portions (tenant, shelf, first, last, mark, gone, embedder)
VALUES (:tenant, :shelf, :first, :last, :mark, :gone, :embedder);

-- name: note_gone(tenant, shelf, first, mark, gone)
-- Keep which entries of a portion had ended when its shelf got a mark.
UPDATE memoranda.portions SET mark = :mark, gone = :gone
WHERE tenant = :tenant AND shelf = :shelf AND first = :first;

-- name: list_parts(tenant, shelf, firsts, names)
-- Some parts of the indexes of some portions.
SELECT first, name, bytes FROM memoranda.parts
WHERE tenant = :tenant AND shelf = :shelf AND first = ANY (:firsts::bigint[]) AND name = ANY (:names::text[]);

-- name: add_parts(tenant, shelf, first, names, pieces)
-- Keep the parts of the index of a portion.
INSERT INTO memoranda.parts (tenant, shelf, first, name, bytes)
SELECT :tenant::text, :shelf::bigint, :first::bigint, name, piece
FROM unnest(:names::text[], :pieces::bytea[]) AS given (name, piece);

-- name: remove_parts(tenant, shelf, low, high)
-- Remove the stored indexes of the portions of a shelf that have entries in a range of sequences.
DELETE FROM memoranda.parts WHERE tenant = :tenant AND shelf = :shelf AND first = ANY (ARRAY(
    SELECT first FROM memoranda.portions
    WHERE tenant = :tenant AND shelf = :shelf AND first <= :high AND last >= :low
));

-- name: remove_portions(tenant, shelf, low, high)
-- Remove the portions of a shelf that have entries in a range of sequences.
DELETE FROM memoranda.portions WHERE tenant = :tenant AND shelf = :shelf AND first <= :high AND last >= :low;

-- name: remove_collection_parts(tenant, collection)
-- Remove the stored indexes of a collection.
DELETE FROM memoranda.parts WHERE tenant = :tenant AND shelf = ANY (ARRAY({shelves_of_collection}));

-- name: remove_collection_portions(tenant, collection)
-- Remove the portions of a collection.
DELETE FROM memoranda.portions WHERE tenant = :tenant AND shelf = ANY (ARRAY({shelves_of_collection}));

-- name: erase_parts(tenant, low, high)
-- Remove the stored indexes in a range of scopes.
DELETE FROM memoranda.parts WHERE tenant = :tenant AND shelf = ANY (ARRAY({shelves_below}));

-- name: erase_portions(tenant, low, high)
-- Remove the portions in a range of scopes.
DELETE FROM memoranda.portions WHERE tenant = :tenant AND shelf = ANY (ARRAY({shelves_below}));
