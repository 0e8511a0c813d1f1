-- The statements of a move. `<columns>`, `<key>` and `<marks>` are lists, `<rows>` the part `rows_of_…` of a table or its
-- name. Otherwise they are written as in `store/sql/queries.sql`.

-- name: list_columns(table)
-- The columns of a table.
SELECT name FROM pragma_table_info(:table);

-- name: read_rows()
-- All rows of a table.
SELECT <columns>, <key> FROM <rows> ORDER BY <key>;

-- name: read_rows_after()
-- The rows of a table after a key.
SELECT <columns>, <key> FROM <rows> WHERE (<key>) > (<marks>) ORDER BY <key>;

-- name: read_next_key()
-- The key of the next row as bytes: a text there is not UTF-8.
SELECT <key> FROM <rows> <after> ORDER BY <order> LIMIT 1;

-- name: count_rows()
-- The number of rows of a table.
SELECT count(*) FROM <table>;

-- name: has_rows()
-- Whether a table has any rows.
SELECT EXISTS (SELECT 1 FROM <table>);

-- name: rows_of_entries()
-- Entries have the tenant of their shelf.
(SELECT entries.*, tenant FROM entries LEFT JOIN shelves ON shelf = number)

-- name: rows_of_vectors()
-- Vectors have the tenant of their entry, whose columns they repeat.
(
    SELECT
      place, place / 256 AS sequence, place % 256 AS slot, vector,
      CASE WHEN vectors.metadata = entries.metadata AND vectors.analysis = entries.analysis
        AND vectors.expires_at IS entries.expires_at THEN tenant END AS tenant
    FROM vectors LEFT JOIN entries ON entries.sequence = place / 256 LEFT JOIN shelves ON shelf = number
)

-- name: insert_rows()
-- Write a row.
INSERT INTO <table> (<columns>) VALUES (<marks>);

-- name: insert_vectors(sequence, slot, tenant, vector)
-- Write a vector beside what else an index needs, if its entry exists.
INSERT INTO vectors (place, expires_at, metadata, analysis, vector)
SELECT :sequence * 256 + :slot, expires_at, metadata, analysis, :vector
FROM entries LEFT JOIN shelves ON shelf = number
WHERE sequence = :sequence AND tenant = :tenant;

-- name: empty_table()
-- Remove all rows of a table.
DELETE FROM <table>;

-- name: get_number()
-- The number that was given to an entry or a removal last.
SELECT seq FROM sqlite_sequence WHERE name = 'entries';

-- name: forget_number()
-- Remove the number before another is written.
DELETE FROM sqlite_sequence WHERE name = 'entries';

-- name: keep_number(number)
-- Continue after a number.
INSERT INTO sqlite_sequence (name, seq) VALUES ('entries', :number);

-- name: get_highest()
-- The highest number of a table.
SELECT max(<column>) FROM <table>;

-- name: create_move()
-- Make the record of a move.
CREATE TABLE move (name TEXT PRIMARY KEY, state BLOB NOT NULL) STRICT;

-- name: drop_move()
-- Remove the record of a move.
DROP TABLE move;

-- name: list_states()
-- What a move has recorded.
SELECT name, state FROM move;

-- name: add_state(name, state)
-- Record something.
INSERT INTO move (name, state) VALUES (:name, :state);

-- name: replace_state(name, state, before)
-- Record something in place of what was recorded.
UPDATE move SET state = :state WHERE name = :name AND state = :before;

-- name: list_indexes()
-- The indexes that are not part of a table.
SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL ORDER BY name;

-- name: drop_index()
-- Remove an index; it is made again when all rows are there.
DROP INDEX <index>;
