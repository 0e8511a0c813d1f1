-- The statements about collections and entries, written as in `queries.sql`.
-- A shelf is the entries of one scope, collection and namespace. PostgreSQL knows it by tenant and number; in SQLite
-- the number alone is unique. An entry is live until it is ended, whether or not it has expired.
-- In SQLite, `CROSS JOIN` fixes the join order.

-- part: entry
scope, collection, namespace, sequence, id, key, created_at, expires_at, ended_at, actor, door, source, kind, trust, metadata, payload

-- part: entries_with_shelf [sqlite]
entries CROSS JOIN shelves ON number = shelf

-- part: entries_with_shelf [postgres]
memoranda.entries
CROSS JOIN LATERAL (
    SELECT scope, collection, namespace FROM memoranda.shelves WHERE tenant = :tenant AND number = shelf OFFSET 0
) AS place

-- part: on_shelf [sqlite]
shelf = :shelf

-- part: on_shelf [postgres]
tenant COLLATE "POSIX" = :tenant AND shelf = :shelf

-- part: of_tenant [sqlite]
EXISTS (SELECT 1 FROM shelves WHERE number = shelf AND tenant = :tenant)

-- part: of_tenant [postgres]
tenant = :tenant

-- part: shelves_of_collection
SELECT number FROM memoranda.shelves WHERE tenant COLLATE "POSIX" = :tenant AND collection = :collection AND number > 0

-- part: shelves_below
SELECT number FROM memoranda.shelves WHERE tenant COLLATE "POSIX" = :tenant AND scope >= :low AND scope < :high

-- name: list_collections(tenant)
-- The collections of a tenant.
SELECT name, created_at, space, successor FROM memoranda.collections WHERE tenant = :tenant ORDER BY name;

-- name: get_collection(tenant, name)
-- One collection.
SELECT name, created_at, space, successor FROM memoranda.collections WHERE tenant = :tenant AND name = :name;

-- name: get_shelf(tenant, scope, collection, namespace)
-- The number of one shelf.
SELECT number, namespace FROM memoranda.shelves
WHERE tenant COLLATE "POSIX" = :tenant AND scope = :scope AND collection = :collection AND namespace = :namespace;

-- name: list_namespaces(tenant, scope, collection)
-- The numbers of the shelves of every namespace.
SELECT number, namespace FROM memoranda.shelves
WHERE tenant COLLATE "POSIX" = :tenant AND scope = :scope AND collection = :collection;

-- name: get_shelf_state(tenant, scope, collection, namespace)
-- The state of a shelf.
SELECT newest, removed FROM memoranda.shelves
WHERE tenant COLLATE "POSIX" = :tenant AND scope = :scope AND collection = :collection AND namespace = :namespace;

-- name: get_namespaces_state(tenant, scope, collection)
-- The state of the shelves of every namespace.
SELECT max(newest), max(removed) FROM memoranda.shelves
WHERE tenant COLLATE "POSIX" = :tenant AND scope = :scope AND collection = :collection;

-- name: list_sizes(tenant, scope, collection)
-- The number of live entries of the shelves of every namespace.
SELECT namespace, entries FROM memoranda.shelves
WHERE tenant COLLATE "POSIX" = :tenant AND scope = :scope AND collection = :collection;

-- name: list_shelf_states(tenant, low, high)
-- The states of the shelves in a range of scopes.
SELECT scope, collection, namespace, newest, removed FROM memoranda.shelves
WHERE tenant COLLATE "POSIX" = :tenant AND scope >= :low AND scope < :high
ORDER BY scope, collection, namespace;

-- name: list_shelves(tenant, collection)
-- The shelves of a collection that have live entries.
SELECT scope, namespace, entries FROM memoranda.shelves
WHERE tenant COLLATE "POSIX" = :tenant AND collection = :collection AND number > 0 AND entries > 0
ORDER BY scope, namespace;

-- name: list_shelves_of(tenant, collection)
-- The numbers of the shelves of a collection.
{shelves_of_collection};

-- name: get_slot(tenant, collection, embedder)
-- The slot of an embedder in a collection.
SELECT slot FROM memoranda.spaces WHERE tenant = :tenant AND collection = :collection AND embedder = :embedder;

-- name: list_slots(tenant, collection)
-- The slots in use in a collection.
SELECT slot FROM memoranda.spaces WHERE tenant = :tenant AND collection = :collection;

-- name: page_indexed(tenant, shelf, after, slot, limit) [sqlite]
-- What an index needs of the next live entries of one shelf.
SELECT sequence, metadata, vectors.expires_at, analysis, vector
FROM (SELECT sequence FROM entries WHERE {on_shelf} AND ended_at IS NULL AND sequence > :after)
CROSS JOIN vectors ON place = sequence * 256 + :slot
ORDER BY sequence
LIMIT :limit;

-- name: page_indexed(tenant, shelf, after, slot, limit) [postgres]
-- What an index needs of the next live entries of one shelf.
SELECT entries.sequence, metadata, expires_at, analysis, vector
FROM memoranda.entries
CROSS JOIN LATERAL (
    SELECT vector FROM memoranda.vectors WHERE tenant = :tenant AND sequence = entries.sequence AND slot = :slot OFFSET 0
) AS made
WHERE {on_shelf} AND ended_at IS NULL AND entries.sequence > :after
ORDER BY entries.sequence
LIMIT :limit;

-- name: list_indexed(tenant, sequences, slot) [sqlite]
-- What an index needs of these entries.
SELECT place / 256, metadata, expires_at, analysis, vector
FROM vectors
WHERE place IN (SELECT value * 256 + :slot FROM json_each(:sequences))
ORDER BY place;

-- name: list_indexed(tenant, sequences, slot) [postgres]
-- What an index needs of these entries.
SELECT entries.sequence, metadata, expires_at, analysis, vector
FROM memoranda.entries
CROSS JOIN LATERAL (
    SELECT vector FROM memoranda.vectors WHERE tenant = :tenant AND sequence = entries.sequence AND slot = :slot OFFSET 0
) AS made
WHERE tenant = :tenant AND entries.sequence = ANY (:sequences::bigint[])
ORDER BY entries.sequence;

-- name: list_vectors(tenant, sequences, slot) [sqlite]
-- The vectors of these entries in a slot. Places tell no tenants, so the entries say whose they are.
SELECT entries.sequence, vector
FROM entries CROSS JOIN shelves ON number = shelf CROSS JOIN vectors ON place = entries.sequence * 256 + :slot
WHERE entries.sequence IN (SELECT value FROM json_each(:sequences)) AND tenant = :tenant
ORDER BY entries.sequence;

-- name: list_vectors(tenant, sequences, slot) [postgres]
-- The vectors of these entries in a slot.
SELECT sequence, vector FROM memoranda.vectors
WHERE tenant = :tenant AND sequence = ANY (:sequences::bigint[]) AND slot = :slot
ORDER BY sequence;

-- name: count_live(tenant, shelf, after)
-- The number of live entries of one shelf.
SELECT count(*) FROM memoranda.entries WHERE {on_shelf} AND ended_at IS NULL AND sequence > :after;

-- name: list_live(tenant, shelf, after)
-- The live entries of one shelf.
SELECT sequence FROM memoranda.entries WHERE {on_shelf} AND ended_at IS NULL AND sequence > :after ORDER BY sequence;

-- name: list_told_origins(tenant, shelf, after)
-- Where the entries of one shelf come from, live or ended, if they have a source or are not fully trusted.
SELECT sequence, actor, door, source, kind, trust FROM memoranda.entries
WHERE {on_shelf} AND sequence > :after AND (trust < 3 OR source IS NOT NULL);

-- name: list_live_below(tenant, low, high) [sqlite]
-- The live entries in a range of scopes.
SELECT sequence
FROM shelves CROSS JOIN entries ON shelf = number
WHERE tenant = :tenant AND scope >= :low AND scope < :high AND ended_at IS NULL;

-- name: list_live_below(tenant, low, high) [postgres]
-- The live entries in a range of scopes.
SELECT sequence FROM memoranda.entries
WHERE tenant COLLATE "POSIX" = :tenant AND ended_at IS NULL AND shelf = ANY (ARRAY({shelves_below}));

-- name: list_active(tenant, shelf, moment)
-- The entries of one shelf that were active at a moment.
SELECT sequence FROM memoranda.entries
WHERE {on_shelf} AND (ended_at IS NULL OR ended_at > :moment)
  AND created_at <= :moment AND (expires_at IS NULL OR expires_at > :moment);

-- name: list_entries(tenant, sequences)
-- The entries of these sequences.
SELECT {entry} FROM {entries_with_shelf} WHERE tenant = :tenant AND sequence = ANY (:sequences::bigint[]);

-- name: get_entry(tenant, id)
-- The entry of an id.
SELECT {entry} FROM {entries_with_shelf} WHERE tenant COLLATE "POSIX" = :tenant AND id = :id ORDER BY sequence DESC LIMIT 1;

-- name: list_entries_of_key(tenant, shelf, key)
-- The live entry of a key on one shelf.
SELECT {entry} FROM {entries_with_shelf} WHERE {on_shelf} AND key = :key AND ended_at IS NULL;

-- name: list_chain(tenant, shelf, chain)
-- The entries of one shelf whose key or id this is, live or ended.
SELECT {entry} FROM {entries_with_shelf} WHERE {on_shelf} AND (key = :chain OR id = :chain);

-- name: list_entries_alike(tenant, shelf, digest)
-- The live entries of a digest on one shelf.
SELECT {entry} FROM {entries_with_shelf} WHERE {on_shelf} AND digest = :digest AND ended_at IS NULL;

-- name: list_digests(tenant, shelf, digests)
-- Those of these digests that live entries of one shelf have.
SELECT digest FROM memoranda.entries WHERE {on_shelf} AND digest = ANY (:digests::bytea[]) AND ended_at IS NULL;

-- name: list_keys(tenant, shelf, keys)
-- Those of these keys that live entries of one shelf have.
SELECT key FROM memoranda.entries WHERE {on_shelf} AND key = ANY (:keys::text[]) AND ended_at IS NULL;

-- name: list_ended(tenant, shelf, moment, digest, limit)
-- The entries of a digest on one shelf that ended at or after a moment.
SELECT {entry} FROM {entries_with_shelf} WHERE {on_shelf} AND ended_at >= :moment AND digest = :digest LIMIT :limit;

-- name: get_newest_entry(tenant, low, high) [sqlite]
-- The latest timestamp of the entries in a range of scopes.
SELECT max(created_at)
FROM shelves CROSS JOIN entries ON shelf = number
WHERE tenant = :tenant AND scope >= :low AND scope < :high;

-- name: get_newest_entry(tenant, low, high) [postgres]
-- The latest timestamp of the entries in a range of scopes.
SELECT max(created_at) FROM memoranda.entries
WHERE tenant COLLATE "POSIX" = :tenant AND shelf = ANY (ARRAY({shelves_below}));

-- name: list_expired_entries(tenant, now, limit)
-- Expired entries, live or ended.
SELECT {entry}
FROM {entries_with_shelf}
WHERE tenant COLLATE "POSIX" = :tenant AND expires_at IS NOT NULL AND expires_at <= :now
ORDER BY expires_at, sequence
LIMIT :limit;

-- name: list_without_vector(tenant, collection, slot, after, limit) [sqlite]
-- Entries of a collection without a vector in a slot, in table order: a later page reads only the rest.
SELECT sequence FROM entries
WHERE shelf IN ({shelves_of_collection})
  AND NOT EXISTS (SELECT 1 FROM vectors WHERE place = sequence * 256 + :slot)
  AND sequence > :after
ORDER BY sequence
LIMIT :limit;

-- name: list_without_vector(tenant, collection, slot, after, limit) [postgres]
-- Entries of a collection without a vector in a slot, in table order: a later page reads only the rest.
SELECT sequence FROM memoranda.entries
WHERE tenant = :tenant
  AND shelf = ANY (ARRAY({shelves_of_collection}))
  AND NOT EXISTS (
    SELECT 1 FROM memoranda.vectors
    WHERE vectors.tenant = :tenant AND vectors.sequence = entries.sequence AND slot = :slot OFFSET 0
  )
  AND sequence > :after
ORDER BY sequence
LIMIT :limit;

-- name: page_indexed_entries(tenant, collection, after, slot, limit) [sqlite]
-- What an index needs of the next entries of a collection, live or ended, in table order.
-- Starting with the shelves, SQLite would sort all entries for each page.
SELECT sequence, namespace, vectors.metadata, vectors.expires_at, vectors.analysis, vector
FROM entries CROSS JOIN shelves CROSS JOIN vectors
WHERE number = shelf AND tenant = :tenant AND collection = :collection
  AND sequence > :after AND place = sequence * 256 + :slot
ORDER BY sequence
LIMIT :limit;

-- name: page_indexed_entries(tenant, collection, after, slot, limit) [postgres]
-- What an index needs of the next entries of a collection, live or ended, in table order.
SELECT entries.sequence, namespace, metadata, expires_at, analysis, vector
FROM {entries_with_shelf}
CROSS JOIN LATERAL (
    SELECT vector FROM memoranda.vectors WHERE tenant = :tenant AND sequence = entries.sequence AND slot = :slot OFFSET 0
) AS made
WHERE tenant = :tenant AND shelf = ANY (ARRAY({shelves_of_collection})) AND entries.sequence > :after
ORDER BY entries.sequence
LIMIT :limit;

-- name: list_vector_counts(tenant, collection) [sqlite]
-- How many entries of a collection have a vector, by embedder.
SELECT embedder, count(*)
FROM spaces CROSS JOIN shelves USING (tenant, collection) CROSS JOIN entries ON shelf = number
CROSS JOIN vectors ON place = sequence * 256 + slot
WHERE tenant = :tenant AND collection = :collection
GROUP BY embedder
ORDER BY embedder;

-- name: list_vector_counts(tenant, collection) [postgres]
-- How many entries of a collection have a vector, by embedder.
SELECT embedder, count(*)
FROM memoranda.entries
JOIN memoranda.vectors ON vectors.tenant = entries.tenant AND vectors.sequence = entries.sequence
JOIN memoranda.spaces ON spaces.tenant = entries.tenant AND spaces.slot = vectors.slot
WHERE entries.tenant COLLATE "POSIX" = :tenant AND vectors.tenant = :tenant
  AND spaces.tenant = :tenant AND spaces.collection = :collection
  AND shelf = ANY (ARRAY({shelves_of_collection}))
GROUP BY embedder
ORDER BY embedder;

-- name: put_collection(tenant, name, created_at, space, successor)
-- Keep a collection in place of the one of its name.
UPSERT INTO memoranda.collections KEY (tenant, name);

-- name: remove_collection(tenant, name)
-- Remove a collection.
DELETE FROM memoranda.collections WHERE tenant = :tenant AND name = :name;

-- name: take_number() [sqlite]
-- Take the next number without giving it to an entry. There is a row to count on once there was an entry.
UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'entries' RETURNING seq;

-- name: take_numbers(count) [postgres]
-- Take the next numbers, in order.
SELECT nextval('memoranda.numbers') FROM generate_series(1, :count);

-- name: add_shelf(tenant, scope, collection, namespace)
-- Add a shelf. It starts with the others' mark: for readers of all namespaces, a new one is not a removal.
INSERT INTO memoranda.shelves (tenant, scope, collection, namespace, newest, removed, entries)
SELECT :tenant::text, :scope::text, :collection::text, :namespace::text, 0, coalesce(max(removed), 0), 0
FROM memoranda.shelves WHERE tenant COLLATE "POSIX" = :tenant AND scope = :scope AND collection = :collection
RETURNING number;

-- name: fill_shelf(tenant, shelf, newest, first, added)
-- Count new entries. A first shelf starts above all that was ever there, even if it was erased.
UPDATE memoranda.shelves SET
  newest = :newest, entries = entries + :added, removed = CASE removed WHEN 0 THEN :first ELSE removed END
WHERE tenant = :tenant AND number = :shelf;

-- name: mark_shelf(tenant, shelf, removed, ended)
-- Give a shelf a state that it never had before.
UPDATE memoranda.shelves SET removed = :removed, entries = entries - :ended WHERE tenant = :tenant AND number = :shelf;

-- name: mark_collection(tenant, collection, removed)
-- Give all shelves of a collection a state that they never had before.
UPDATE memoranda.shelves SET removed = :removed
WHERE tenant COLLATE "POSIX" = :tenant AND collection = :collection AND number > 0;

-- name: list_marks(tenant, scope, collection)
-- The numbers of the shelves of every namespace, with their marks.
SELECT number, namespace, removed FROM memoranda.shelves
WHERE tenant COLLATE "POSIX" = :tenant AND scope = :scope AND collection = :collection;

-- name: list_removals(tenant, shelf, mark) [sqlite]
-- The entries of one shelf that ended or were removed since it had a mark.
SELECT mark, before, sequence FROM removals WHERE shelf = :shelf AND mark > :mark ORDER BY mark;

-- name: list_removals(tenant, shelf, mark) [postgres]
-- The entries of one shelf that ended or were removed since it had a mark.
SELECT mark, before, sequence FROM memoranda.removals
WHERE tenant = :tenant AND shelf = :shelf AND mark > :mark
ORDER BY mark;

-- name: add_removal(tenant, shelf, mark, sequence) [sqlite]
-- List an entry that ended or was removed; its shelf gets the mark later.
INSERT INTO removals (shelf, mark, before, sequence)
SELECT :shelf, :mark, removed, :sequence FROM shelves WHERE number = :shelf;

-- name: add_removal(tenant, shelf, mark, sequence) [postgres]
-- List an entry that ended or was removed; its shelf gets the mark later.
INSERT INTO memoranda.removals (tenant, shelf, mark, before, sequence)
SELECT tenant, number, :mark::bigint, removed, :sequence::bigint FROM memoranda.shelves
WHERE tenant = :tenant AND number = :shelf;

-- name: trim_removals(tenant, shelf, kept) [sqlite]
-- Remove all but the last of the list of one shelf.
DELETE FROM removals WHERE shelf = :shelf AND mark <= (
    SELECT mark FROM removals WHERE shelf = :shelf ORDER BY mark DESC LIMIT 1 OFFSET :kept
);

-- name: trim_removals(tenant, shelf, kept) [postgres]
-- Remove all but the last of the list of one shelf.
DELETE FROM memoranda.removals WHERE tenant = :tenant AND shelf = :shelf AND mark <= (
    SELECT mark FROM memoranda.removals WHERE tenant = :tenant AND shelf = :shelf
    ORDER BY mark DESC LIMIT 1 OFFSET :kept
);

-- name: remove_collection_removals(tenant, collection) [sqlite]
-- Remove the lists of the shelves of a collection.
DELETE FROM removals WHERE shelf IN ({shelves_of_collection});

-- name: remove_collection_removals(tenant, collection) [postgres]
-- Remove the lists of the shelves of a collection.
DELETE FROM memoranda.removals WHERE tenant = :tenant AND shelf = ANY (ARRAY({shelves_of_collection}));

-- name: erase_removals(tenant, low, high) [sqlite]
-- Remove the lists of the shelves in a range of scopes.
DELETE FROM removals WHERE shelf IN ({shelves_below});

-- name: erase_removals(tenant, low, high) [postgres]
-- Remove the lists of the shelves in a range of scopes.
DELETE FROM memoranda.removals WHERE tenant = :tenant AND shelf = ANY (ARRAY({shelves_below}));

-- name: add_entry(tenant, shelf, id, key, created_at, expires_at, actor, door, source, kind, trust, digest, analysis, metadata, payload) [sqlite]
-- Keep an entry; it gets the next number.
INSERT INTO entries
  (shelf, id, key, created_at, expires_at, actor, door, source, kind, trust, digest, analysis, metadata, payload)
VALUES
  (:shelf, :id, :key, :created_at, :expires_at, :actor, :door, :source, :kind, :trust, :digest, :analysis, :metadata,
   :payload);

-- name: add_entry(tenant, shelf, id, key, created_at, expires_at, actor, door, source, kind, trust, digest, analysis, metadata, payload, sequence) [postgres]
-- Keep an entry.
INSERT INTO memoranda.entries
  (tenant, shelf, id, key, created_at, expires_at, actor, door, source, kind, trust, digest, analysis, metadata, payload,
   sequence)
VALUES
  (:tenant, :shelf, :id, :key, :created_at, :expires_at, :actor, :door, :source, :kind, :trust, :digest, :analysis,
   :metadata, :payload, :sequence);

-- name: end_entry(tenant, sequence, at)
-- End a live entry.
UPDATE memoranda.entries SET ended_at = :at
WHERE {of_tenant} AND sequence = :sequence AND ended_at IS NULL
RETURNING shelf;

-- name: remove_entry(tenant, sequence) [sqlite]
-- Remove an entry; return its shelf, and whether it was live.
DELETE FROM entries WHERE {of_tenant} AND sequence = :sequence RETURNING shelf, ended_at IS NULL;

-- name: remove_entry(tenant, sequence) [postgres]
-- Remove an entry; return its shelf, and whether it was live.
SELECT shelf, ended_at IS NULL
FROM memoranda.entries CROSS JOIN LATERAL memoranda.remove_entries(:tenant, ARRAY[entries.ctid])
WHERE entries.tenant = :tenant AND sequence = :sequence;

-- name: remove_entry_vectors(tenant, sequence) [sqlite]
-- Remove the vectors of an entry.
DELETE FROM vectors WHERE place >= :sequence * 256 AND place < (:sequence + 1) * 256;

-- name: remove_entry_vectors(tenant, sequence) [postgres]
-- Remove the vectors of an entry.
DELETE FROM memoranda.vectors WHERE tenant = :tenant AND sequence = :sequence;

-- name: forget_entry_texts(tenant, sequence, shelf)
-- Remove the ledger's texts of an entry.
DELETE FROM memoranda.event_texts
WHERE tenant COLLATE "POSIX" = :tenant AND version = -:sequence::bigint
  AND (scope, key) = (
    SELECT scope, 'collections.' || collection FROM memoranda.shelves WHERE tenant = :tenant AND number = :shelf
  );

-- name: add_space(tenant, collection, embedder, slot)
-- Give an embedder a slot.
INSERT INTO memoranda.spaces (tenant, collection, embedder, slot) VALUES (:tenant, :collection, :embedder, :slot);

-- name: add_vector(sequence, slot, expires_at, metadata, analysis, vector) [sqlite]
-- Keep the vector of a new entry beside what else an index needs.
INSERT INTO vectors (place, expires_at, metadata, analysis, vector)
VALUES (:sequence * 256 + :slot, :expires_at, :metadata, :analysis, :vector);

-- name: add_vector(tenant, sequence, slot, vector) [postgres]
-- Keep the vector of a new entry.
INSERT INTO memoranda.vectors (tenant, sequence, slot, vector) VALUES (:tenant, :sequence, :slot, :vector);

-- name: put_vector(tenant, sequence, embedder, vector) [sqlite]
-- Keep the vector of an entry beside what else an index needs, if the entry and a slot for the embedder exist.
INSERT OR REPLACE INTO vectors (place, expires_at, metadata, analysis, vector)
SELECT sequence * 256 + slot, expires_at, metadata, analysis, :vector
FROM {entries_with_shelf} CROSS JOIN spaces USING (tenant, collection)
WHERE tenant = :tenant AND sequence = :sequence AND embedder = :embedder;

-- name: put_vector(tenant, sequence, embedder, vector) [postgres]
-- Keep the vector of an entry, if the entry and a slot for the embedder exist.
INSERT INTO memoranda.vectors (tenant, sequence, slot, vector)
SELECT :tenant::text, :sequence::bigint, slot, :vector::bytea FROM memoranda.spaces
WHERE tenant = :tenant AND embedder = :embedder AND collection = (
    SELECT collection FROM memoranda.shelves
    WHERE tenant = :tenant
      AND number = (SELECT shelf FROM memoranda.entries WHERE tenant = :tenant AND sequence = :sequence)
)
ON CONFLICT (tenant, sequence, slot) DO UPDATE SET vector = excluded.vector;

-- name: remove_vectors(tenant, collection, slot) [sqlite]
-- Remove the vectors of a collection in a slot.
DELETE FROM vectors WHERE place IN (
    SELECT sequence * 256 + :slot
    FROM shelves CROSS JOIN entries ON shelf = number
    WHERE tenant = :tenant AND collection = :collection
);

-- name: remove_vectors(tenant, collection, slot) [postgres]
-- Remove the vectors of a collection in a slot.
DELETE FROM memoranda.vectors
WHERE tenant = :tenant AND slot = :slot AND sequence = ANY (ARRAY(
    SELECT sequence FROM memoranda.entries
    WHERE tenant COLLATE "POSIX" = :tenant AND shelf = ANY (ARRAY({shelves_of_collection}))
));

-- name: remove_space(tenant, collection, embedder)
-- Free the slot of an embedder.
DELETE FROM memoranda.spaces WHERE tenant = :tenant AND collection = :collection AND embedder = :embedder;

-- name: remove_collection_texts(tenant, collection) [sqlite]
-- Remove the ledger's texts of a collection's entries.
DELETE FROM event_texts
WHERE tenant = :tenant AND key = 'collections.' || :collection AND (scope, version) IN (
    SELECT scope, -sequence
    FROM shelves CROSS JOIN entries ON shelf = number
    WHERE tenant = :tenant AND collection = :collection
);

-- name: remove_collection_texts(tenant, collection) [postgres]
-- Remove the ledger's texts of a collection's entries.
SELECT memoranda.remove_event_texts(:tenant, ARRAY(
    SELECT texts.found FROM memoranda.shelves
    CROSS JOIN LATERAL (
        SELECT sequence FROM memoranda.entries WHERE tenant COLLATE "POSIX" = :tenant AND shelf = number OFFSET 0
    ) AS members
    CROSS JOIN LATERAL (
        SELECT ctid AS found FROM memoranda.event_texts
        WHERE tenant COLLATE "POSIX" = :tenant
          AND scope = shelves.scope AND key = 'collections.' || :collection::text AND version = -members.sequence
        OFFSET 0
    ) AS texts
    WHERE tenant COLLATE "POSIX" = :tenant AND collection = :collection AND number > 0
));

-- name: remove_collection_vectors(tenant, collection) [sqlite]
-- Remove the vectors of a collection.
DELETE FROM vectors WHERE place IN (
    SELECT sequence * 256 + slot
    FROM shelves CROSS JOIN entries ON shelf = number CROSS JOIN spaces USING (tenant, collection)
    WHERE tenant = :tenant AND collection = :collection
);

-- name: remove_collection_vectors(tenant, collection) [postgres]
-- Remove the vectors of a collection.
DELETE FROM memoranda.vectors
WHERE tenant = :tenant AND sequence = ANY (ARRAY(
    SELECT sequence FROM memoranda.entries
    WHERE tenant COLLATE "POSIX" = :tenant AND shelf = ANY (ARRAY({shelves_of_collection}))
));

-- name: remove_collection_entries(tenant, collection) [sqlite]
-- Remove the entries of a collection.
DELETE FROM entries WHERE shelf IN ({shelves_of_collection});

-- name: remove_collection_entries(tenant, collection) [postgres]
-- Remove the entries of a collection.
DELETE FROM memoranda.entries
WHERE tenant COLLATE "POSIX" = :tenant AND shelf = ANY (ARRAY({shelves_of_collection}));

-- name: remove_collection_shelves(tenant, collection)
-- Remove the shelves of a collection.
DELETE FROM memoranda.shelves WHERE tenant COLLATE "POSIX" = :tenant AND collection = :collection AND number > 0;

-- name: remove_collection_spaces(tenant, collection)
-- Free the slots of a collection.
DELETE FROM memoranda.spaces WHERE tenant = :tenant AND collection = :collection;

-- name: erase_vectors(tenant, low, high) [sqlite]
-- Remove the vectors in a range of scopes.
DELETE FROM vectors WHERE place IN (
    SELECT sequence * 256 + slot
    FROM shelves CROSS JOIN entries ON shelf = number CROSS JOIN spaces USING (tenant, collection)
    WHERE tenant = :tenant AND scope >= :low AND scope < :high
);

-- name: erase_vectors(tenant, low, high) [postgres]
-- Remove the vectors in a range of scopes.
DELETE FROM memoranda.vectors
WHERE tenant = :tenant AND sequence = ANY (ARRAY(
    SELECT sequence FROM memoranda.entries
    WHERE tenant COLLATE "POSIX" = :tenant AND shelf = ANY (ARRAY({shelves_below}))
));

-- name: erase_entries(tenant, low, high) [sqlite]
-- Remove the entries in a range of scopes.
DELETE FROM entries WHERE shelf IN ({shelves_below});

-- name: erase_entries(tenant, low, high) [postgres]
-- Remove the entries in a range of scopes.
DELETE FROM memoranda.entries
WHERE tenant COLLATE "POSIX" = :tenant AND shelf = ANY (ARRAY({shelves_below}));

-- name: erase_shelves(tenant, low, high)
-- Remove the shelves in a range of scopes.
DELETE FROM memoranda.shelves WHERE tenant COLLATE "POSIX" = :tenant AND scope >= :low AND scope < :high;
