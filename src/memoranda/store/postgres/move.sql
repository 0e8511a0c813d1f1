-- The statements of a move. `<columns>`, `<key>` and `<values>` are lists, `<rows>` the part `rows_of_…` of a table or its
-- name. Otherwise they are written as in `store/sql/queries.sql`.

-- name: get_identity()
-- What tells this database from every other one; its replicas are the same.
SELECT (SELECT system_identifier FROM pg_control_system()), oid::bigint
FROM pg_catalog.pg_database WHERE datname = current_database();

-- name: prepare_session(lock_timeout)
-- A move may take hours. Rows that this role may not see are an error.
SELECT
  set_config('statement_timeout', '0', false), set_config('idle_in_transaction_session_timeout', '0', false),
  set_config('lock_timeout', :lock_timeout, false), set_config('row_security', 'off', false);

-- name: lock_tables()
-- Keep writers out until this transaction ends.
LOCK TABLE <tables> IN EXCLUSIVE MODE;

-- name: get_version()
-- The number of the schema.
SELECT version FROM memoranda.migrated;

-- name: prefer_indexes()
-- Read rows in the order of an index, instead of sorting a whole table first.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true),
  set_config('enable_bitmapscan', 'off', true);

-- name: write_without_waiting()
-- For this transaction: do not wait for the disk, as each page is written together with how far it was copied.
SELECT set_config('synchronous_commit', 'off', true);

-- name: owns_tables()
-- Whether the current role owns our tables, or may act as their owner.
SELECT pg_has_role(relowner, 'USAGE') FROM pg_catalog.pg_class WHERE oid = to_regclass('memoranda.migrated');

-- name: list_columns(table)
-- The columns of a table, and their types.
SELECT attname::text, format_type(atttypid, NULL) FROM pg_catalog.pg_attribute
WHERE attrelid = to_regclass('memoranda.' || :table::text) AND attnum > 0 AND NOT attisdropped
ORDER BY attname COLLATE "C";

-- name: read_rows()
-- All rows of a table.
COPY (SELECT <columns>, <key> FROM <rows> ORDER BY <key>) TO STDOUT (FORMAT BINARY);

-- name: read_rows_after()
-- The rows of a table after a key.
COPY (SELECT <columns>, <key> FROM <rows> WHERE (<key>) > (<values>) ORDER BY <key>) TO STDOUT (FORMAT BINARY);

-- name: count_rows()
-- The number of rows of a table.
SELECT count(*) FROM <rows>;

-- name: has_rows()
-- Whether a table has any rows.
SELECT EXISTS (SELECT FROM <rows>);

-- name: rows_of_tenants()
-- A tenant that was only ever asked for has a row of zeros, which says nothing.
(SELECT * FROM memoranda.tenants WHERE revision > 0 OR epoch > 0 OR length > 0 OR rejected > 0) AS tenants

-- name: insert_rows()
-- Write rows.
COPY memoranda.<table> (<columns>) FROM STDIN (FORMAT BINARY);

-- name: empty_table()
-- Remove all rows of a table.
DELETE FROM memoranda.<table>;

-- name: get_number()
-- The number that was given to an entry or a removal last.
SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM memoranda.numbers;

-- name: keep_number(number)
-- Continue after a number.
SELECT setval('memoranda.numbers', :number::bigint);

-- name: list_placed()
-- The tables that number their rows, the column of the number, and its sequence.
SELECT relname::text, attname::text, pg_get_serial_sequence('memoranda.' || quote_ident(relname), attname)
FROM pg_catalog.pg_attribute JOIN pg_catalog.pg_class ON pg_class.oid = attrelid
WHERE relnamespace = to_regnamespace('memoranda') AND relkind IN ('r', 'p') AND NOT relispartition AND attidentity <> ''
ORDER BY relname;

-- name: get_last()
-- The number that a sequence gave last.
SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM <sequence>;

-- name: keep_last()
-- Continue after the highest number of a table, and after those that the source has given.
SELECT setval('<sequence>', greatest(max(<column>), <given>)) FROM memoranda.<table>
HAVING greatest(max(<column>), <given>) > 0;

-- name: list_unchained_tenants()
-- The tenants with events that are not chained yet.
SELECT tenant FROM memoranda.tenants
WHERE EXISTS (SELECT FROM memoranda.events WHERE events.tenant = tenants.tenant AND position > tenants.length);

-- name: keep_positions()
-- Continue after the events of each tenant, all of which are chained.
INSERT INTO memoranda.positions (tenant, taken) SELECT tenant, length FROM memoranda.tenants WHERE length > 0
ON CONFLICT (tenant) DO UPDATE SET taken = excluded.taken;

-- name: create_move()
-- Make the record of a move.
CREATE TABLE memoranda.move (name TEXT COLLATE "C" PRIMARY KEY, state BYTEA NOT NULL);

-- name: drop_move()
-- Remove the record of a move.
DROP TABLE memoranda.move;

-- name: mark_version(version)
-- Change the number of the schema.
UPDATE memoranda.migrated SET version = :version;

-- name: list_states()
-- What a move has recorded.
SELECT name, state FROM memoranda.move;

-- name: add_state(name, state)
-- Record something.
INSERT INTO memoranda.move (name, state) VALUES (:name, :state);

-- name: replace_state(name, state, before)
-- Record something in place of what was recorded.
UPDATE memoranda.move SET state = :state WHERE name = :name AND state = :before;

-- name: drop_index()
-- Remove an index; it is made again when all rows are there.
DROP INDEX memoranda.<index>;

-- name: has_relation(name)
-- Whether there is a table or an index of a name.
SELECT to_regclass('memoranda.' || :name::text) IS NOT NULL;

-- name: analyze()
-- Let the server know how many rows there are.
ANALYZE <tables>;
