-- Every statement about collections and their entries, written as in `queries.sql`.
-- `CROSS JOIN` says which table is looked at first, where SQLite would not know.

-- name: list_collections
-- The collections of a tenant.
SELECT name, created_at, space, successor FROM collections WHERE tenant = :tenant ORDER BY name;

-- name: get_collection
-- One collection.
SELECT name, created_at, space, successor FROM collections WHERE tenant = :tenant AND name = :name;

-- name: get_shelf
-- The number of one shelf.
SELECT number, namespace FROM shelves
WHERE tenant = :tenant AND scope = :scope AND collection = :collection AND namespace = :namespace;

-- name: list_namespaces
-- The numbers of the shelves of every namespace.
SELECT number, namespace FROM shelves
WHERE tenant = :tenant AND scope = :scope AND collection = :collection;

-- name: get_shelf_state
-- What tells one state of a shelf from another.
SELECT newest, removed FROM shelves
WHERE tenant = :tenant AND scope = :scope AND collection = :collection AND namespace = :namespace;

-- name: get_namespaces_state
-- What tells one state of the shelves of every namespace from another.
SELECT max(newest), max(removed) FROM shelves
WHERE tenant = :tenant AND scope = :scope AND collection = :collection;

-- name: list_shelves
-- The shelves of a collection where entries stand.
SELECT scope, namespace, entries FROM shelves
WHERE tenant = :tenant AND collection = :collection AND entries > 0
ORDER BY scope, namespace;

-- name: list_shelves_of
-- The numbers of the shelves of a collection.
SELECT number FROM shelves WHERE tenant = :tenant AND collection = :collection;

-- name: get_slot
-- The slot of an embedder in a collection.
SELECT slot FROM spaces WHERE tenant = :tenant AND collection = :collection AND embedder = :embedder;

-- name: list_slots
-- The slots that are taken in a collection.
SELECT slot FROM spaces WHERE tenant = :tenant AND collection = :collection;

-- name: page_indexed
-- What an index needs of the next entries that stand on one shelf.
SELECT sequence, metadata, vectors.expires_at, analysis, vector
FROM (SELECT sequence FROM entries WHERE shelf = :shelf AND ended_at IS NULL AND sequence > :after)
CROSS JOIN vectors ON place = sequence * 256 + :slot
ORDER BY sequence
LIMIT :limit;

-- name: list_indexed
-- What an index needs of some entries.
SELECT place / 256, metadata, expires_at, analysis, vector
FROM vectors
WHERE place IN (SELECT value * 256 + ?2 FROM json_each(?1))
ORDER BY place;

-- name: count_standing
-- How many entries stand on one shelf.
SELECT count(*) FROM entries WHERE shelf = :shelf AND ended_at IS NULL AND sequence > :after;

-- name: list_standing
-- The entries that stand on one shelf.
SELECT sequence FROM entries WHERE shelf = :shelf AND ended_at IS NULL AND sequence > :after ORDER BY sequence;

-- name: list_standing_below
-- The entries that stand in a range of scopes.
SELECT sequence
FROM shelves CROSS JOIN entries ON shelf = number
WHERE tenant = :tenant AND scope >= :low AND scope < :high AND ended_at IS NULL;

-- name: list_active
-- The entries of one shelf that were active at a moment.
SELECT sequence FROM entries
WHERE shelf = :shelf AND (ended_at IS NULL OR ended_at > :moment)
  AND created_at <= :moment AND (expires_at IS NULL OR expires_at > :moment);

-- name: list_entries
-- Some entries.
SELECT scope, collection, namespace, sequence, id, key, created_at, expires_at, ended_at, actor, door, source,
  metadata, payload
FROM entries CROSS JOIN shelves ON number = shelf
WHERE tenant = :tenant AND sequence IN (SELECT value FROM json_each(:sequences));

-- name: get_entry
-- The entry of an id.
SELECT scope, collection, namespace, sequence, id, key, created_at, expires_at, ended_at, actor, door, source,
  metadata, payload
FROM entries CROSS JOIN shelves ON number = shelf
WHERE tenant = :tenant AND id = :id
ORDER BY sequence DESC
LIMIT 1;

-- name: list_entries_of_key
-- The entry that stands under a key on one shelf.
SELECT scope, collection, namespace, sequence, id, key, created_at, expires_at, ended_at, actor, door, source,
  metadata, payload
FROM entries CROSS JOIN shelves ON number = shelf
WHERE shelf = :shelf AND key = :key AND ended_at IS NULL;

-- name: list_entries_alike
-- The entries of one digest that stand on one shelf.
SELECT scope, collection, namespace, sequence, id, key, created_at, expires_at, ended_at, actor, door, source,
  metadata, payload
FROM entries CROSS JOIN shelves ON number = shelf
WHERE shelf = :shelf AND digest = :digest AND ended_at IS NULL;

-- name: list_digests
-- Those of some digests under which entries stand on one shelf.
SELECT digest FROM entries
WHERE shelf = :shelf AND digest IN (SELECT unhex(value) FROM json_each(:digests)) AND ended_at IS NULL;

-- name: list_keys
-- Those of some keys under which entries stand on one shelf.
SELECT key FROM entries
WHERE shelf = :shelf AND key IN (SELECT value FROM json_each(:keys)) AND ended_at IS NULL;

-- name: find_ended
-- Whether an entry of one digest ended at or after a moment.
SELECT 1 FROM entries WHERE shelf = :shelf AND ended_at >= :moment AND digest = :digest LIMIT 1;

-- name: get_newest_entry
-- The latest stamp of the entries in a range of scopes.
SELECT max(created_at)
FROM shelves CROSS JOIN entries ON shelf = number
WHERE tenant = :tenant AND scope >= :low AND scope < :high;

-- name: list_expired_entries
-- Entries whose time is up, standing or ended.
SELECT scope, collection, namespace, sequence, id, key, created_at, expires_at, ended_at, actor, door, source,
  metadata, payload
FROM entries CROSS JOIN shelves ON number = shelf
WHERE tenant = :tenant AND expires_at IS NOT NULL AND expires_at <= :now
ORDER BY expires_at, sequence
LIMIT :limit;

-- name: get_vector
-- The vector that an embedder made of an entry.
SELECT vector
FROM entries CROSS JOIN shelves ON number = shelf CROSS JOIN spaces USING (tenant, collection)
CROSS JOIN vectors ON place = sequence * 256 + slot
WHERE tenant = :tenant AND sequence = :sequence AND embedder = :embedder;

-- name: list_without_vector
-- Entries of a collection that have no vector in a slot, as they lie: going on after a page costs only the rest.
SELECT sequence FROM entries
WHERE shelf IN (SELECT number FROM shelves WHERE tenant = :tenant AND collection = :collection)
  AND NOT EXISTS (SELECT 1 FROM vectors WHERE place = sequence * 256 + :slot)
  AND sequence > :after
ORDER BY sequence
LIMIT :limit;

-- name: page_indexed_entries
-- What an index needs of the next entries of a collection, standing or ended, as they lie.
-- Beginning with the shelves, SQLite would sort all of them for each page.
SELECT sequence, vectors.metadata, vectors.expires_at, vectors.analysis, vector
FROM entries CROSS JOIN shelves CROSS JOIN vectors
WHERE number = shelf AND tenant = :tenant AND collection = :collection
  AND sequence > :after AND place = sequence * 256 + :slot
ORDER BY sequence
LIMIT :limit;

-- name: list_vector_counts
-- How many entries of a collection have a vector, by embedder.
SELECT embedder, count(*)
FROM spaces CROSS JOIN shelves USING (tenant, collection) CROSS JOIN entries ON shelf = number
CROSS JOIN vectors ON place = sequence * 256 + slot
WHERE tenant = :tenant AND collection = :collection
GROUP BY embedder
ORDER BY embedder;

-- name: put_collection
-- Keep a collection in place of the one of its name.
INSERT OR REPLACE INTO collections (tenant, name, created_at, space, successor) VALUES (?, ?, ?, ?, ?);

-- name: remove_collection
-- Drop a collection.
DELETE FROM collections WHERE tenant = :tenant AND name = :name;

-- name: take_number
-- Take the next number without giving it to an entry; there is one to count from once there was an entry.
UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'entries' RETURNING seq;

-- name: add_shelf
-- Begin a shelf. A new namespace begins where the others are: to those who look at all of them it is no removal.
INSERT INTO shelves (tenant, scope, collection, namespace, newest, removed, entries)
SELECT :tenant, :scope, :collection, :namespace, 0, coalesce(max(removed), 0), 0
FROM shelves WHERE tenant = :tenant AND scope = :scope AND collection = :collection
RETURNING number;

-- name: fill_shelf
-- Count new entries. A first shelf begins above all that was ever there, even if it was erased.
UPDATE shelves SET
  newest = ?2, entries = entries + ?4, removed = CASE removed WHEN 0 THEN ?3 ELSE removed END
WHERE number = ?1;

-- name: mark_shelf
-- Let a shelf differ from all that it ever was.
UPDATE shelves SET removed = ?2, entries = entries - ?3 WHERE number = ?1;

-- name: mark_collection
-- Let all shelves of a collection differ from all that they ever were.
UPDATE shelves SET removed = ?3 WHERE tenant = ?1 AND collection = ?2;

-- name: add_entry
-- Keep an entry.
INSERT INTO entries
  (shelf, id, key, created_at, expires_at, actor, door, source, digest, analysis, metadata, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: end_entry
-- Let an entry end that stands.
UPDATE entries SET ended_at = ?3
WHERE sequence = ?2 AND ended_at IS NULL AND EXISTS (SELECT 1 FROM shelves WHERE number = shelf AND tenant = ?1)
RETURNING shelf;

-- name: remove_entry
-- Drop an entry; say where it was, and whether it stood there.
DELETE FROM entries
WHERE sequence = ?2 AND EXISTS (SELECT 1 FROM shelves WHERE number = shelf AND tenant = ?1)
RETURNING shelf, ended_at IS NULL;

-- name: remove_entry_vectors
-- Drop the vectors of an entry.
DELETE FROM vectors WHERE place >= :sequence * 256 AND place < (:sequence + 1) * 256;

-- name: forget_entry_texts
-- Drop the content the ledger kept of an entry.
DELETE FROM event_texts
WHERE tenant = :tenant AND version = -:sequence
  AND (scope, key) IN (SELECT scope, 'collections.' || collection FROM shelves WHERE number = :shelf);

-- name: add_space
-- Give an embedder a slot.
INSERT INTO spaces (tenant, collection, embedder, slot) VALUES (?, ?, ?, ?);

-- name: add_vector
-- Keep the vector of a new entry beside what an index needs with it.
INSERT INTO vectors (place, expires_at, metadata, analysis, vector) VALUES (?, ?, ?, ?, ?);

-- name: put_vector
-- Keep the vector of an entry beside what an index needs with it.
INSERT OR REPLACE INTO vectors (place, expires_at, metadata, analysis, vector)
SELECT sequence * 256 + slot, expires_at, metadata, analysis, ?4
FROM entries CROSS JOIN shelves ON number = shelf CROSS JOIN spaces USING (tenant, collection)
WHERE tenant = ?1 AND sequence = ?2 AND embedder = ?3;

-- name: remove_vectors
-- Drop the vectors of a collection in a slot.
DELETE FROM vectors WHERE place IN (
    SELECT sequence * 256 + ?3
    FROM shelves CROSS JOIN entries ON shelf = number
    WHERE tenant = ?1 AND collection = ?2
);

-- name: remove_space
-- Take back the slot of an embedder.
DELETE FROM spaces WHERE tenant = :tenant AND collection = :collection AND embedder = :embedder;

-- name: remove_collection_texts
-- Drop the content the ledger kept of a collection's entries.
DELETE FROM event_texts
WHERE tenant = :tenant AND key = 'collections.' || :collection AND (scope, version) IN (
    SELECT scope, -sequence
    FROM shelves CROSS JOIN entries ON shelf = number
    WHERE tenant = :tenant AND collection = :collection
);

-- name: remove_collection_vectors
-- Drop the vectors of a collection.
DELETE FROM vectors WHERE place IN (
    SELECT sequence * 256 + slot
    FROM shelves CROSS JOIN entries ON shelf = number CROSS JOIN spaces USING (tenant, collection)
    WHERE tenant = :tenant AND collection = :collection
);

-- name: remove_collection_entries
-- Drop the entries of a collection.
DELETE FROM entries
WHERE shelf IN (SELECT number FROM shelves WHERE tenant = :tenant AND collection = :collection);

-- name: remove_collection_shelves
-- Drop the shelves of a collection.
DELETE FROM shelves WHERE tenant = :tenant AND collection = :collection;

-- name: remove_collection_spaces
-- Take back the slots of a collection.
DELETE FROM spaces WHERE tenant = :tenant AND collection = :collection;

-- name: erase_vectors
-- Drop the vectors in a range of scopes.
DELETE FROM vectors WHERE place IN (
    SELECT sequence * 256 + slot
    FROM shelves CROSS JOIN entries ON shelf = number CROSS JOIN spaces USING (tenant, collection)
    WHERE tenant = :tenant AND scope >= :low AND scope < :high
);

-- name: erase_entries
-- Drop the entries in a range of scopes.
DELETE FROM entries
WHERE shelf IN (SELECT number FROM shelves WHERE tenant = :tenant AND scope >= :low AND scope < :high);

-- name: erase_shelves
-- Drop the shelves in a range of scopes.
DELETE FROM shelves WHERE tenant = :tenant AND scope >= :low AND scope < :high;
