-- Every statement about collections and entries, written as in `queries.sql`. A shelf is its tenant and its number.

-- name: list_collections
-- The collections of a tenant.
SELECT name, created_at, space, successor FROM memoranda.collections WHERE tenant = $1 ORDER BY name;

-- name: get_collection
-- One collection.
SELECT name, created_at, space, successor FROM memoranda.collections WHERE tenant = $1 AND name = $2;

-- name: get_shelf
-- The number of one shelf.
SELECT number, namespace FROM memoranda.shelves
WHERE tenant COLLATE "POSIX" = $1 AND scope = $2 AND collection = $3 AND namespace = $4;

-- name: list_namespaces
-- The numbers of the shelves of every namespace.
SELECT number, namespace FROM memoranda.shelves WHERE tenant COLLATE "POSIX" = $1 AND scope = $2 AND collection = $3;

-- name: get_shelf_state
-- What tells one state of a shelf from another.
SELECT newest, removed FROM memoranda.shelves
WHERE tenant COLLATE "POSIX" = $1 AND scope = $2 AND collection = $3 AND namespace = $4;

-- name: get_namespaces_state
-- What tells one state of the shelves of every namespace from another.
SELECT max(newest), max(removed) FROM memoranda.shelves WHERE tenant COLLATE "POSIX" = $1 AND scope = $2 AND collection = $3;

-- name: list_shelves
-- The shelves of a collection where entries stand.
SELECT scope, namespace, entries FROM memoranda.shelves
WHERE tenant COLLATE "POSIX" = $1 AND collection = $2 AND number > 0 AND entries > 0
ORDER BY scope, namespace;

-- name: list_shelves_of
-- The numbers of the shelves of a collection.
SELECT number FROM memoranda.shelves WHERE tenant COLLATE "POSIX" = $1 AND collection = $2 AND number > 0;

-- name: get_slot
-- The slot of an embedder in a collection.
SELECT slot FROM memoranda.spaces WHERE tenant = $1 AND collection = $2 AND embedder = $3;

-- name: list_slots
-- The slots that are taken in a collection.
SELECT slot FROM memoranda.spaces WHERE tenant = $1 AND collection = $2;

-- name: page_indexed
-- What an index needs of the next entries that stand on one shelf.
SELECT entries.sequence, metadata, expires_at, analysis, vector
FROM memoranda.entries
CROSS JOIN LATERAL (
    SELECT vector FROM memoranda.vectors WHERE tenant = $1 AND sequence = entries.sequence AND slot = $4 OFFSET 0
) AS made
WHERE tenant COLLATE "POSIX" = $1 AND shelf = $2 AND ended_at IS NULL AND entries.sequence > $3
ORDER BY entries.sequence
LIMIT $5;

-- name: list_indexed
-- What an index needs of some entries.
SELECT entries.sequence, metadata, expires_at, analysis, vector
FROM memoranda.entries
CROSS JOIN LATERAL (
    SELECT vector FROM memoranda.vectors WHERE tenant = $1 AND sequence = entries.sequence AND slot = $3 OFFSET 0
) AS made
WHERE tenant = $1 AND entries.sequence = ANY ($2::bigint[])
ORDER BY entries.sequence;

-- name: count_standing
-- How many entries stand on one shelf.
SELECT count(*) FROM memoranda.entries WHERE tenant COLLATE "POSIX" = $1 AND shelf = $2 AND ended_at IS NULL AND sequence > $3;

-- name: list_standing
-- The entries that stand on one shelf.
SELECT sequence FROM memoranda.entries
WHERE tenant COLLATE "POSIX" = $1 AND shelf = $2 AND ended_at IS NULL AND sequence > $3
ORDER BY sequence;

-- name: list_standing_below
-- The entries that stand in a range of scopes.
SELECT sequence FROM memoranda.entries
WHERE tenant COLLATE "POSIX" = $1 AND ended_at IS NULL AND shelf = ANY (ARRAY(
    SELECT number FROM memoranda.shelves WHERE tenant COLLATE "POSIX" = $1 AND scope >= $2 AND scope < $3
));

-- name: list_active
-- The entries of one shelf that were active at a moment.
SELECT sequence FROM memoranda.entries
WHERE tenant COLLATE "POSIX" = $1 AND shelf = $2 AND (ended_at IS NULL OR ended_at > $3)
  AND created_at <= $3 AND (expires_at IS NULL OR expires_at > $3);

-- name: list_entries
-- Some entries.
SELECT scope, collection, namespace, sequence, id, key, created_at, expires_at, ended_at, actor, door, source,
  metadata, payload
FROM memoranda.entries
CROSS JOIN LATERAL (
    SELECT scope, collection, namespace FROM memoranda.shelves WHERE tenant = $1 AND number = shelf OFFSET 0
) AS place
WHERE tenant = $1 AND sequence = ANY ($2::bigint[]);

-- name: get_entry
-- The entry of an id.
SELECT scope, collection, namespace, sequence, id, key, created_at, expires_at, ended_at, actor, door, source,
  metadata, payload
FROM memoranda.entries
CROSS JOIN LATERAL (
    SELECT scope, collection, namespace FROM memoranda.shelves WHERE tenant = $1 AND number = shelf OFFSET 0
) AS place
WHERE tenant COLLATE "POSIX" = $1 AND id = $2
ORDER BY sequence DESC
LIMIT 1;

-- name: list_entries_of_key
-- The entry that stands under a key on one shelf.
SELECT scope, collection, namespace, sequence, id, key, created_at, expires_at, ended_at, actor, door, source,
  metadata, payload
FROM memoranda.entries
CROSS JOIN LATERAL (
    SELECT scope, collection, namespace FROM memoranda.shelves WHERE tenant = $1 AND number = shelf OFFSET 0
) AS place
WHERE tenant COLLATE "POSIX" = $1 AND shelf = $2 AND key = $3 AND ended_at IS NULL;

-- name: list_entries_alike
-- The entries of one digest that stand on one shelf.
SELECT scope, collection, namespace, sequence, id, key, created_at, expires_at, ended_at, actor, door, source,
  metadata, payload
FROM memoranda.entries
CROSS JOIN LATERAL (
    SELECT scope, collection, namespace FROM memoranda.shelves WHERE tenant = $1 AND number = shelf OFFSET 0
) AS place
WHERE tenant COLLATE "POSIX" = $1 AND shelf = $2 AND digest = $3 AND ended_at IS NULL;

-- name: list_digests
-- Those of some digests under which entries stand on one shelf.
SELECT digest FROM memoranda.entries
WHERE tenant COLLATE "POSIX" = $1 AND shelf = $2 AND digest = ANY ($3::bytea[]) AND ended_at IS NULL;

-- name: list_keys
-- Those of some keys under which entries stand on one shelf.
SELECT key FROM memoranda.entries
WHERE tenant COLLATE "POSIX" = $1 AND shelf = $2 AND key = ANY ($3::text[]) AND ended_at IS NULL;

-- name: find_ended
-- Whether an entry of one digest ended at or after a moment.
SELECT 1 FROM memoranda.entries WHERE tenant COLLATE "POSIX" = $1 AND shelf = $2 AND ended_at >= $3 AND digest = $4 LIMIT 1;

-- name: get_newest_entry
-- The latest stamp of the entries in a range of scopes.
SELECT max(created_at) FROM memoranda.entries
WHERE tenant COLLATE "POSIX" = $1 AND shelf = ANY (ARRAY(
    SELECT number FROM memoranda.shelves WHERE tenant COLLATE "POSIX" = $1 AND scope >= $2 AND scope < $3
));

-- name: list_expired_entries
-- Entries whose time is up, standing or ended.
SELECT scope, collection, namespace, sequence, id, key, created_at, expires_at, ended_at, actor, door, source,
  metadata, payload
FROM memoranda.entries
CROSS JOIN LATERAL (
    SELECT scope, collection, namespace FROM memoranda.shelves WHERE tenant = $1 AND number = shelf OFFSET 0
) AS place
WHERE tenant COLLATE "POSIX" = $1 AND expires_at IS NOT NULL AND expires_at <= $2
ORDER BY expires_at, sequence
LIMIT $3;

-- name: get_vector
-- The vector that an embedder made of an entry.
SELECT vector FROM memoranda.vectors
WHERE tenant = $1 AND sequence = $2 AND slot = (
    SELECT slot FROM memoranda.spaces
    WHERE tenant = $1 AND embedder = $3 AND collection = (
        SELECT collection FROM memoranda.shelves
        WHERE tenant = $1 AND number = (SELECT shelf FROM memoranda.entries WHERE tenant = $1 AND sequence = $2)
    )
);

-- name: list_without_vector
-- Entries of a collection that have no vector in a slot, as they lie: going on after a page costs only the rest.
SELECT sequence FROM memoranda.entries
WHERE tenant = $1
  AND shelf = ANY (ARRAY(
    SELECT number FROM memoranda.shelves WHERE tenant COLLATE "POSIX" = $1 AND collection = $2 AND number > 0
  ))
  AND NOT EXISTS (
    SELECT 1 FROM memoranda.vectors
    WHERE vectors.tenant = $1 AND vectors.sequence = entries.sequence AND slot = $3 OFFSET 0
  )
  AND sequence > $4
ORDER BY sequence
LIMIT $5;

-- name: page_indexed_entries
-- What an index needs of the next entries of a collection, standing or ended, as they lie.
SELECT entries.sequence, metadata, expires_at, analysis, vector
FROM memoranda.entries
CROSS JOIN LATERAL (
    SELECT vector FROM memoranda.vectors WHERE tenant = $1 AND sequence = entries.sequence AND slot = $4 OFFSET 0
) AS made
WHERE tenant = $1
  AND shelf = ANY (ARRAY(
    SELECT number FROM memoranda.shelves WHERE tenant COLLATE "POSIX" = $1 AND collection = $2 AND number > 0
  ))
  AND entries.sequence > $3
ORDER BY entries.sequence
LIMIT $5;

-- name: list_vector_counts
-- How many entries of a collection have a vector, by embedder.
SELECT embedder, count(*)
FROM memoranda.entries
JOIN memoranda.vectors ON vectors.tenant = entries.tenant AND vectors.sequence = entries.sequence
JOIN memoranda.spaces ON spaces.tenant = entries.tenant AND spaces.slot = vectors.slot
WHERE entries.tenant COLLATE "POSIX" = $1 AND vectors.tenant = $1 AND spaces.tenant = $1 AND spaces.collection = $2
  AND shelf = ANY (ARRAY(
    SELECT number FROM memoranda.shelves WHERE tenant COLLATE "POSIX" = $1 AND collection = $2 AND number > 0
  ))
GROUP BY embedder
ORDER BY embedder;

-- name: put_collection
-- Keep a collection in place of the one of its name.
INSERT INTO memoranda.collections (tenant, name, created_at, space, successor) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant, name) DO UPDATE SET
  created_at = excluded.created_at, space = excluded.space, successor = excluded.successor;

-- name: remove_collection
-- Drop a collection.
SELECT memoranda.remove_collections($1, ARRAY(
    SELECT ctid FROM memoranda.collections WHERE tenant = $1 AND name = $2
));

-- name: take_numbers
-- Take the next numbers, in order.
SELECT nextval('memoranda.numbers') FROM generate_series(1, $1);

-- name: add_shelf
-- Begin a shelf. A new namespace begins where the others are: to those who look at all of them it is no removal.
INSERT INTO memoranda.shelves (tenant, scope, collection, namespace, newest, removed, entries)
SELECT $1::text, $2::text, $3::text, $4::text, 0, coalesce(max(removed), 0), 0
FROM memoranda.shelves WHERE tenant COLLATE "POSIX" = $1 AND scope = $2 AND collection = $3
RETURNING number;

-- name: fill_shelf
-- Count new entries. A first shelf begins above all that was ever there, even if it was erased.
UPDATE memoranda.shelves SET
  newest = $3, entries = entries + $5, removed = CASE removed WHEN 0 THEN $4 ELSE removed END
WHERE tenant = $1 AND number = $2;

-- name: mark_shelf
-- Let a shelf differ from all that it ever was.
UPDATE memoranda.shelves SET removed = $3, entries = entries - $4 WHERE tenant = $1 AND number = $2;

-- name: mark_collection
-- Let all shelves of a collection differ from all that they ever were.
UPDATE memoranda.shelves SET removed = $3 WHERE tenant COLLATE "POSIX" = $1 AND collection = $2 AND number > 0;

-- name: add_entry
-- Keep an entry.
INSERT INTO memoranda.entries
  (tenant, shelf, id, key, created_at, expires_at, actor, door, source, digest, analysis, metadata, payload, sequence)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14);

-- name: end_entry
-- Let an entry end that stands.
UPDATE memoranda.entries SET ended_at = $3
WHERE tenant = $1 AND sequence = $2 AND ended_at IS NULL
RETURNING shelf;

-- name: remove_entry
-- Drop an entry; say where it was, and whether it stood there.
SELECT shelf, ended_at IS NULL
FROM memoranda.entries CROSS JOIN LATERAL memoranda.remove_entries($1, ARRAY[entries.ctid])
WHERE entries.tenant = $1 AND sequence = $2;

-- name: remove_entry_vectors
-- Drop the vectors of an entry.
SELECT memoranda.remove_vectors($1, ARRAY(
    SELECT ctid FROM memoranda.vectors WHERE tenant = $1 AND sequence = $2
));

-- name: forget_entry_texts
-- Drop the content the ledger kept of an entry.
SELECT memoranda.remove_event_texts($1, ARRAY(
    SELECT ctid FROM memoranda.event_texts
    WHERE tenant COLLATE "POSIX" = $1 AND version = -$2::bigint
      AND (scope, key) = (
        SELECT scope, 'collections.' || collection FROM memoranda.shelves WHERE tenant = $1 AND number = $3
      )
));

-- name: add_space
-- Give an embedder a slot.
INSERT INTO memoranda.spaces (tenant, collection, embedder, slot) VALUES ($1, $2, $3, $4);

-- name: add_vector
-- Keep the vector of a new entry.
INSERT INTO memoranda.vectors (tenant, sequence, slot, vector) VALUES ($1, $2, $3, $4);

-- name: put_vector
-- Keep the vector of an entry, where the entry and a slot for the embedder are.
INSERT INTO memoranda.vectors (tenant, sequence, slot, vector)
SELECT $1::text, $2::bigint, slot, $4::bytea FROM memoranda.spaces
WHERE tenant = $1 AND embedder = $3 AND collection = (
    SELECT collection FROM memoranda.shelves
    WHERE tenant = $1 AND number = (SELECT shelf FROM memoranda.entries WHERE tenant = $1 AND sequence = $2)
)
ON CONFLICT (tenant, sequence, slot) DO UPDATE SET vector = excluded.vector;

-- name: remove_vectors
-- Drop the vectors of a collection in a slot.
SELECT memoranda.remove_vectors($1, ARRAY(
    SELECT ctid FROM memoranda.vectors
    WHERE tenant = $1 AND slot = $3 AND sequence = ANY (ARRAY(
        SELECT sequence FROM memoranda.entries WHERE tenant COLLATE "POSIX" = $1 AND shelf = ANY (ARRAY(
            SELECT number FROM memoranda.shelves WHERE tenant COLLATE "POSIX" = $1 AND collection = $2 AND number > 0
        ))
      ))
));

-- name: remove_space
-- Take back the slot of an embedder.
SELECT memoranda.remove_spaces($1, ARRAY(
    SELECT ctid FROM memoranda.spaces WHERE tenant = $1 AND collection = $2 AND embedder = $3
));

-- name: remove_collection_texts
-- Drop the content the ledger kept of a collection's entries.
SELECT memoranda.remove_event_texts($1, ARRAY(
    SELECT said.found FROM memoranda.shelves
    CROSS JOIN LATERAL (
        SELECT sequence FROM memoranda.entries WHERE tenant COLLATE "POSIX" = $1 AND shelf = number OFFSET 0
    ) AS there
    CROSS JOIN LATERAL (
        SELECT ctid AS found FROM memoranda.event_texts
        WHERE tenant COLLATE "POSIX" = $1
          AND scope = shelves.scope AND key = 'collections.' || $2::text AND version = -there.sequence
        OFFSET 0
    ) AS said
    WHERE tenant COLLATE "POSIX" = $1 AND collection = $2 AND number > 0
));

-- name: remove_collection_vectors
-- Drop the vectors of a collection.
SELECT memoranda.remove_vectors($1, ARRAY(
    SELECT ctid FROM memoranda.vectors
    WHERE tenant = $1 AND sequence = ANY (ARRAY(
        SELECT sequence FROM memoranda.entries WHERE tenant COLLATE "POSIX" = $1 AND shelf = ANY (ARRAY(
            SELECT number FROM memoranda.shelves WHERE tenant COLLATE "POSIX" = $1 AND collection = $2 AND number > 0
        ))
      ))
));

-- name: remove_collection_entries
-- Drop the entries of a collection.
SELECT memoranda.remove_entries($1, ARRAY(
    SELECT ctid FROM memoranda.entries
    WHERE tenant COLLATE "POSIX" = $1
      AND shelf = ANY (ARRAY(
        SELECT number FROM memoranda.shelves WHERE tenant COLLATE "POSIX" = $1 AND collection = $2 AND number > 0
      ))
));

-- name: remove_collection_shelves
-- Drop the shelves of a collection.
SELECT memoranda.remove_shelves($1, ARRAY(
    SELECT ctid FROM memoranda.shelves WHERE tenant COLLATE "POSIX" = $1 AND collection = $2 AND number > 0
));

-- name: remove_collection_spaces
-- Take back the slots of a collection.
SELECT memoranda.remove_spaces($1, ARRAY(
    SELECT ctid FROM memoranda.spaces WHERE tenant = $1 AND collection = $2
));

-- name: erase_vectors
-- Drop the vectors in a range of scopes.
SELECT memoranda.remove_vectors($1, ARRAY(
    SELECT ctid FROM memoranda.vectors
    WHERE tenant = $1 AND sequence = ANY (ARRAY(
        SELECT sequence FROM memoranda.entries WHERE tenant COLLATE "POSIX" = $1 AND shelf = ANY (ARRAY(
            SELECT number FROM memoranda.shelves WHERE tenant COLLATE "POSIX" = $1 AND scope >= $2 AND scope < $3
        ))
      ))
));

-- name: erase_entries
-- Drop the entries in a range of scopes.
SELECT memoranda.remove_entries($1, ARRAY(
    SELECT ctid FROM memoranda.entries
    WHERE tenant COLLATE "POSIX" = $1 AND shelf = ANY (ARRAY(
        SELECT number FROM memoranda.shelves WHERE tenant COLLATE "POSIX" = $1 AND scope >= $2 AND scope < $3
    ))
));

-- name: erase_shelves
-- Drop the shelves in a range of scopes.
SELECT memoranda.remove_shelves($1, ARRAY(
    SELECT ctid FROM memoranda.shelves WHERE tenant COLLATE "POSIX" = $1 AND scope >= $2 AND scope < $3
));
