-- The current schema, for new databases. All of migrations/ applied in order give the same.
-- Times are microseconds since 1970. A scope is its canonical text, '' being the tenant's shared one. Content is JSON
-- in a BYTEA, byte for byte as it was written.
-- The tenant leads every key and every index. The tables that grow are partitioned by it. COLLATE "C" is the order of
-- code points, which is the order of texts in Python.
-- COLLATE "POSIX" is the same order under another name, and the tenant of each secondary index has it: so an index is
-- used by the statements that ask for that name, and by no other. Without statistics PostgreSQL considers all indexes
-- equally good, and there are none during a first import.

-- One row: the schema of the oldest programs that may write, and that of the newest, the number of migrations that were
-- taken. They differ until a migration is finished. NULL is the same number.
CREATE TABLE memoranda.migrated (
    version INTEGER NOT NULL,
    prepared INTEGER
);

-- The current facts. `kind` is what kind of origin wrote, and `trust` how far it is trusted, from 0 to 3.
CREATE TABLE memoranda.facts (
    tenant TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    expires_at BIGINT,
    domain TEXT COLLATE "C",
    actor TEXT COLLATE "C" NOT NULL,
    door TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C",
    kind TEXT COLLATE "C" NOT NULL DEFAULT 'user',
    trust BIGINT NOT NULL DEFAULT 3,
    payload BYTEA NOT NULL,
    PRIMARY KEY (tenant, scope, key)
) PARTITION BY HASH (tenant);

CREATE INDEX facts_by_key ON memoranda.facts (tenant COLLATE "POSIX", key, scope);

CREATE INDEX facts_by_expiry ON memoranda.facts (tenant COLLATE "POSIX", expires_at) WHERE expires_at IS NOT NULL;

-- The history of facts. A NULL payload is a deletion, an expiry, or a value forgotten by a sweep.
CREATE TABLE memoranda.revisions (
    tenant TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    fact_id TEXT COLLATE "C" NOT NULL,
    change TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    domain TEXT COLLATE "C",
    actor TEXT COLLATE "C" NOT NULL,
    door TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C",
    kind TEXT COLLATE "C" NOT NULL DEFAULT 'user',
    trust BIGINT NOT NULL DEFAULT 3,
    forgotten BIGINT NOT NULL,
    payload BYTEA,
    PRIMARY KEY (tenant, scope, key, version)
) PARTITION BY HASH (tenant);

-- Only what a sweep may still have to forget: it shrinks as values go.
CREATE INDEX revisions_by_expiry ON memoranda.revisions (tenant COLLATE "POSIX", expires_at)
WHERE expires_at IS NOT NULL AND payload IS NOT NULL;

-- How often a tenant's rules changed, and how far its ledger is chained. A tenant that was only ever asked for may have
-- a row of zeros, which says nothing.
CREATE TABLE memoranda.tenants (
    tenant TEXT COLLATE "C" NOT NULL,
    revision BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    length BIGINT NOT NULL,
    head TEXT COLLATE "C" NOT NULL,
    rejected BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant)
)
-- Every write changes its row here: with room in the page, no index has to hear of it.
WITH (fillfactor = 50);

-- `place` is the order in which rows came; replacing a row keeps its place.
CREATE TABLE memoranda.definitions (
    tenant TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    place BIGINT GENERATED ALWAYS AS IDENTITY,
    name TEXT COLLATE "C" NOT NULL,
    slug TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    ttl BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    schema BYTEA NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE TABLE memoranda.grants (
    tenant TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    place BIGINT GENERATED ALWAYS AS IDENTITY,
    actor TEXT COLLATE "C" NOT NULL,
    rule BYTEA NOT NULL,
    PRIMARY KEY (tenant, id)
);

-- What the guard does about what origins write, where that is not the default.
CREATE TABLE memoranda.guards (
    tenant TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    origin TEXT COLLATE "C" NOT NULL,
    instructions TEXT COLLATE "C",
    secrets TEXT COLLATE "C",
    payment TEXT COLLATE "C",
    codes TEXT COLLATE "C",
    protected TEXT COLLATE "C",
    largest BIGINT,
    PRIMARY KEY (tenant, scope, origin)
);

CREATE TABLE memoranda.approvals (
    tenant TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    place BIGINT GENERATED ALWAYS AS IDENTITY,
    scope TEXT COLLATE "C" NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    door TEXT COLLATE "C" NOT NULL,
    capability TEXT COLLATE "C" NOT NULL,
    requested_at BIGINT NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    decided_by TEXT COLLATE "C",
    decided_at BIGINT,
    reason TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL DEFAULT 'user',
    trust BIGINT NOT NULL DEFAULT 3,
    cause TEXT COLLATE "C" NOT NULL DEFAULT 'policy',
    findings BYTEA NOT NULL DEFAULT '[]',
    rules BYTEA NOT NULL DEFAULT '{}',
    effect BYTEA,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX approvals_by_scope ON memoranda.approvals (tenant COLLATE "POSIX", scope);

-- Values that may not come back: hashes of what they say, made with a salt, and the messages that say it.
CREATE TABLE memoranda.rejections (
    tenant TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    place BIGINT GENERATED ALWAYS AS IDENTITY,
    scope TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C",
    actor TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    undo TEXT COLLATE "C",
    salt BYTEA NOT NULL,
    digests BYTEA NOT NULL,
    messages BYTEA NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX rejections_by_scope ON memoranda.rejections (tenant COLLATE "POSIX", scope);

-- Scopes that end, and their owners.
CREATE TABLE memoranda.sessions (
    tenant TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    owner TEXT COLLATE "C",
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    PRIMARY KEY (tenant, scope)
);

CREATE INDEX sessions_by_owner ON memoranda.sessions (tenant COLLATE "POSIX", owner) WHERE owner IS NOT NULL;

-- The requests of idempotency keys, and where their results are.
CREATE TABLE memoranda.replays (
    tenant TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    request TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    results BYTEA NOT NULL,
    PRIMARY KEY (tenant, scope, key)
) PARTITION BY HASH (tenant);

CREATE INDEX replays_by_age ON memoranda.replays (tenant COLLATE "POSIX", at);

-- What an actor used of its quota, in windows of some seconds that begin at a moment.
CREATE TABLE memoranda.usage (
    tenant TEXT COLLATE "C" NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    seconds BIGINT NOT NULL,
    begins BIGINT NOT NULL,
    writes BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (tenant, actor, seconds, begins)
);

CREATE TABLE memoranda.erasures (
    tenant TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    place BIGINT GENERATED ALWAYS AS IDENTITY,
    id TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    version_floor BIGINT NOT NULL,
    PRIMARY KEY (tenant, scope, place)
);

-- The secrets that the content of each scope is hashed with in the ledger.
CREATE TABLE memoranda.content_keys (
    tenant TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    key BYTEA NOT NULL,
    PRIMARY KEY (tenant, scope)
) PARTITION BY HASH (tenant);

-- The ledger. `body` is the canonical JSON of an event, and `hash` that of these bytes. Where its `prev_hash` is empty,
-- the event was chained after it had been committed: `chain` has its place. `run` is the run that it belongs to.
CREATE TABLE memoranda.events (
    tenant TEXT COLLATE "C" NOT NULL,
    position BIGINT NOT NULL,
    hash TEXT COLLATE "C" NOT NULL,
    run TEXT COLLATE "C",
    body BYTEA NOT NULL,
    PRIMARY KEY (tenant, position)
) PARTITION BY HASH (tenant);

CREATE INDEX events_by_run ON memoranda.events (tenant COLLATE "POSIX", run, position) WHERE run IS NOT NULL;

-- How many positions of a tenant's ledger were given out.
CREATE TABLE memoranda.positions (
    tenant TEXT COLLATE "C" NOT NULL,
    taken BIGINT NOT NULL,
    PRIMARY KEY (tenant)
)
WITH (fillfactor = 50);

-- The hashes that chain events which were stored without: 32 bytes for the event before `first`, then for each event.
CREATE TABLE memoranda.chain (
    tenant TEXT COLLATE "C" NOT NULL,
    first BIGINT NOT NULL,
    hashes BYTEA NOT NULL,
    PRIMARY KEY (tenant, first)
);

ALTER TABLE memoranda.chain ALTER COLUMN hashes SET STORAGE EXTERNAL;

-- Content the ledger keeps outside its chain, so that it can be erased. An entry's `version` is its sequence, negative:
-- a fact may be called like the key of a collection.
CREATE TABLE memoranda.event_texts (
    tenant TEXT COLLATE "C" NOT NULL,
    position BIGINT NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C",
    version BIGINT,
    text BYTEA NOT NULL,
    PRIMARY KEY (tenant, position)
) PARTITION BY HASH (tenant);

CREATE INDEX event_texts_by_fact ON memoranda.event_texts (tenant COLLATE "POSIX", scope, key, version);

CREATE TABLE memoranda.collections (
    tenant TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    space BYTEA NOT NULL,
    successor BYTEA,
    PRIMARY KEY (tenant, name)
);

-- The shelves of entries: their state, and their number of live entries. Entries refer to a shelf by its number.
CREATE TABLE memoranda.shelves (
    tenant TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    collection TEXT COLLATE "C" NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    number BIGINT GENERATED ALWAYS AS IDENTITY,
    newest BIGINT NOT NULL,
    removed BIGINT NOT NULL,
    entries BIGINT NOT NULL,
    PRIMARY KEY (tenant, number)
);

CREATE UNIQUE INDEX shelves_by_scope ON memoranda.shelves (tenant COLLATE "POSIX", scope, collection, namespace);

-- The condition is always true; statements that know a collection and no scope repeat it.
CREATE INDEX shelves_by_collection ON memoranda.shelves (tenant COLLATE "POSIX", collection) WHERE number > 0;

-- The entries that ended or were removed, by the marks that their shelf got for it; `before` is its mark until then, so
-- that a gap is seen. Only the last ones are kept.
CREATE TABLE memoranda.removals (
    tenant TEXT COLLATE "C" NOT NULL,
    shelf BIGINT NOT NULL,
    mark BIGINT NOT NULL,
    before BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    PRIMARY KEY (tenant, shelf, mark)
);

-- Indexes of large shelves that a host made and published for others, in pieces. `subject` is the outermost part of the
-- scope.
CREATE TABLE memoranda.segments (
    tenant TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    piece BIGINT NOT NULL,
    bytes BYTEA NOT NULL,
    PRIMARY KEY (tenant, subject, name, piece)
);

-- Mostly numbers that look random: trying to compress them is time lost.
ALTER TABLE memoranda.segments ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- Runs of entries of a shelf whose index is stored in parts, from the first sequence to the last: large shelves are
-- searched by them. Of what is in one, the entries that are gone had ended when the shelf got its mark.
CREATE TABLE memoranda.portions (
    tenant TEXT COLLATE "C" NOT NULL,
    shelf BIGINT NOT NULL,
    first BIGINT NOT NULL,
    last BIGINT NOT NULL,
    mark BIGINT NOT NULL,
    gone BIGINT[] NOT NULL,
    embedder TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, shelf, first)
);

-- The parts of these indexes: the postings of each word, the values of each field, vectors, and what else there is of
-- each entry.
CREATE TABLE memoranda.parts (
    tenant TEXT COLLATE "C" NOT NULL,
    shelf BIGINT NOT NULL,
    first BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    bytes BYTEA NOT NULL,
    PRIMARY KEY (tenant, shelf, first, name)
) PARTITION BY HASH (tenant);

-- Packed numbers: trying to compress them is time lost.
ALTER TABLE memoranda.parts ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- Gives entries their sequences and removals their marks: no number twice, not even when all entries are gone.
CREATE SEQUENCE memoranda.numbers;

CREATE TABLE memoranda.entries (
    tenant TEXT COLLATE "C" NOT NULL,
    sequence BIGINT NOT NULL,
    shelf BIGINT NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    ended_at BIGINT,
    actor TEXT COLLATE "C" NOT NULL,
    door TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C",
    kind TEXT COLLATE "C" NOT NULL DEFAULT 'user',
    trust BIGINT NOT NULL DEFAULT 3,
    digest BYTEA NOT NULL,
    analysis BYTEA NOT NULL,
    metadata BYTEA NOT NULL,
    payload BYTEA NOT NULL,
    PRIMARY KEY (tenant, sequence)
) PARTITION BY HASH (tenant);

CREATE INDEX entries_by_shelf ON memoranda.entries (tenant COLLATE "POSIX", shelf, sequence);

-- The conditions are true wherever a digest, a key or an id is asked for, and to other statements these are not there.
CREATE INDEX entries_by_digest ON memoranda.entries (tenant COLLATE "POSIX", shelf, digest) WHERE digest IS NOT NULL;

CREATE INDEX entries_by_key ON memoranda.entries (tenant COLLATE "POSIX", shelf, key)
WHERE key IS NOT NULL AND ended_at IS NULL;

CREATE INDEX entries_by_id ON memoranda.entries (tenant COLLATE "POSIX", id) WHERE id IS NOT NULL;

CREATE INDEX entries_by_expiry ON memoranda.entries (tenant COLLATE "POSIX", expires_at) WHERE expires_at IS NOT NULL;

-- What an index is told of origins: most entries are fully trusted and have no source.
CREATE INDEX entries_by_origin ON memoranda.entries (tenant COLLATE "POSIX", shelf, sequence)
INCLUDE (actor, door, source, kind, trust)
WHERE trust < 3 OR source IS NOT NULL;

-- The embedders whose vectors a collection keeps, each in a slot.
CREATE TABLE memoranda.spaces (
    tenant TEXT COLLATE "C" NOT NULL,
    collection TEXT COLLATE "C" NOT NULL,
    embedder TEXT COLLATE "C" NOT NULL,
    slot BIGINT NOT NULL,
    PRIMARY KEY (tenant, collection, embedder)
);

-- The bytes of each vector, exactly as its embedder gave them.
CREATE TABLE memoranda.vectors (
    tenant TEXT COLLATE "C" NOT NULL,
    sequence BIGINT NOT NULL,
    slot BIGINT NOT NULL,
    vector BYTEA NOT NULL,
    PRIMARY KEY (tenant, sequence, slot)
) PARTITION BY HASH (tenant);

-- Numbers that look random: trying to compress them is time lost.
ALTER TABLE memoranda.vectors ALTER COLUMN vector SET STORAGE EXTERNAL;

-- What was derived from what, by refs. A version is that of a fact, 0 of anything else. `scope` is that of the child.
CREATE TABLE memoranda.links (
    tenant TEXT COLLATE "C" NOT NULL,
    child TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    parent TEXT COLLATE "C" NOT NULL,
    parent_version BIGINT NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, child, version, parent, parent_version)
) PARTITION BY HASH (tenant);

CREATE INDEX links_by_parent ON memoranda.links (tenant COLLATE "POSIX", parent);

CREATE INDEX links_by_scope ON memoranda.links (tenant COLLATE "POSIX", scope);

-- What was forgotten, as hashes: it is left out of the prompts of conversations that began before. `subject` is the
-- outermost part of the scope.
CREATE TABLE memoranda.omissions (
    tenant TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    undo TEXT COLLATE "C" NOT NULL,
    phrases BYTEA NOT NULL,
    clauses BYTEA NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX omissions_by_subject ON memoranda.omissions (tenant COLLATE "POSIX", subject, id);

CREATE INDEX omissions_by_scope ON memoranda.omissions (tenant COLLATE "POSIX", scope);

-- The tenant's permission epoch at the last change of its grants that names a scope, or, under `*`, none.
CREATE TABLE memoranda.epochs (
    tenant TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    epoch BIGINT NOT NULL,
    PRIMARY KEY (tenant, scope)
);

-- Which tenants a role may see that does not own the tables: without a row here, none. Owners and superusers see all.
CREATE TABLE memoranda.roles (
    tenant TEXT COLLATE "C" NOT NULL,
    role TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, role)
);

-- What has no policy is refused: only owners say who sees what, and how many migrations were taken.
ALTER TABLE memoranda.roles ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON memoranda.roles FOR SELECT USING (role = current_user);
ALTER TABLE memoranda.migrated ENABLE ROW LEVEL SECURITY;
CREATE POLICY for_everybody ON memoranda.migrated FOR SELECT USING (true);

-- The partitions. Statements name the partition of their tenant, which `dialect.py` writes into them.
DO $$
DECLARE
    held TEXT;
BEGIN
    FOR held IN
        SELECT relname FROM pg_catalog.pg_class WHERE relnamespace = 'memoranda'::regnamespace AND relkind = 'p'
    LOOP
        FOR place IN 0 .. 7 LOOP
            EXECUTE format(
                'CREATE TABLE memoranda.%I PARTITION OF memoranda.%I FOR VALUES WITH (MODULUS 8, REMAINDER %s)',
                format('%s_%s', held, place), held, place
            );
        END LOOP;
    END LOOP;
END
$$;

-- Every other table has a tenant. The array is made once for a statement, and an index can be asked for it.
DO $$
DECLARE
    held TEXT;
BEGIN
    FOR held IN
        SELECT table_name FROM information_schema.columns
        WHERE table_schema = 'memoranda' AND column_name = 'tenant' AND table_name <> 'roles'
    LOOP
        EXECUTE format('ALTER TABLE memoranda.%I ENABLE ROW LEVEL SECURITY', held);
        EXECUTE format(
            'CREATE POLICY own_tenants ON memoranda.%I USING (tenant = ANY (ARRAY(SELECT tenant FROM memoranda.roles)))',
            held
        );
    END LOOP;
END
$$;

-- Roles that do not own the tables cannot lock them. PostgreSQL lets a role that has UPDATE, DELETE, TRUNCATE or MAINTAIN
-- on a table lock it in every mode, which asks no policy, and with TRIGGER or REFERENCES a role makes things that lock
-- it. So such roles have UPDATE by column, and remove rows through the functions below, which run as the owner.

-- Refuse a tenant that row-level security would hide. The functions below run as the owner, for whom nothing is hidden;
-- the role that called them is the one that the session has set, or else the one that signed in.
CREATE FUNCTION memoranda.check_tenant(asked TEXT) RETURNS VOID
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $check$
DECLARE
    caller NAME := CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
BEGIN
    IF EXISTS (SELECT FROM memoranda.roles WHERE tenant = asked AND role = caller)
        OR pg_has_role(caller, current_user, 'USAGE')
        OR EXISTS (SELECT FROM pg_roles WHERE rolname = caller AND rolbypassrls)
    THEN
        RETURN;
    END IF;
    RAISE insufficient_privilege USING MESSAGE = format('the role %s may not change rows of the tenant %s', caller, asked);
END
$check$;
REVOKE ALL ON FUNCTION memoranda.check_tenant FROM PUBLIC;

-- One function for each table, or partition, that rows are removed from; the statement that calls it chooses them.
-- Adding '' keeps the index of the tenant out of the plan: rows are looked at where they are said to be.
DO $$
DECLARE
    held TEXT;
BEGIN
    FOR held IN
        SELECT relname FROM pg_catalog.pg_attribute JOIN pg_catalog.pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = 'memoranda'::regnamespace AND relkind = 'r' AND attname = 'tenant'
          AND relname !~ '^(roles|tenants|events|positions|chain|erasures|epochs)(_[0-9]+)?$'
    LOOP
        EXECUTE format(
            $make$
            CREATE FUNCTION memoranda.%1$I(tenant TEXT, chosen TID[]) RETURNS BIGINT
            LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $remove$
            DECLARE
                removed BIGINT;
            BEGIN
                PERFORM memoranda.check_tenant($1);
                DELETE FROM memoranda.%2$I AS held WHERE held.ctid = ANY ($2) AND held.tenant || '' = $1;
                GET DIAGNOSTICS removed = ROW_COUNT;
                RETURN removed;
            END
            $remove$
            $make$,
            'remove_' || held, held
        );
        EXECUTE format('REVOKE ALL ON FUNCTION memoranda.%I FROM PUBLIC', 'remove_' || held);
    END LOOP;
END
$$;

-- Take the locks of a writer until its transaction ends: of the whole tenant, or of some of its subjects and, shared, of
-- the tenant. They are numbers that any role could lock: so only a role that may see the tenant is given them here.
CREATE FUNCTION memoranda.lock_subjects(tenant TEXT, subjects TEXT[]) RETURNS VOID
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $lock$
DECLARE
    held BIGINT;
BEGIN
    PERFORM memoranda.check_tenant($1);
    IF $2 IS NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended($1, 0));
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(hashtextextended($1, 0));
    -- In the order of their numbers, so that two writers never wait for each other.
    FOR held IN
        SELECT DISTINCT hashtextextended($1 || E'\n' || subject, 0) FROM unnest($2) AS subject ORDER BY 1
    LOOP
        PERFORM pg_advisory_xact_lock(held);
    END LOOP;
END
$lock$;
REVOKE ALL ON FUNCTION memoranda.lock_subjects FROM PUBLIC;

-- Give a role, or those that are members of it, what it needs to use its tenants, and take away what it has beyond that.
-- A migration that adds a table has to give the rights to it, to the roles that have them to the others.
CREATE FUNCTION memoranda.grant_rights(grantee NAME) RETURNS VOID
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $grant$
DECLARE
    held RECORD;
BEGIN
    IF pg_has_role(grantee, (SELECT relowner FROM pg_class WHERE oid = 'memoranda.migrated'::regclass), 'USAGE') THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('the role %s owns the tables, or is a member of the role that does', grantee),
            HINT = 'Name a role that does not: CREATE ROLE memoranda_tenants NOLOGIN';
    END IF;
    EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA memoranda FROM %I CASCADE', grantee);
    EXECUTE format('GRANT USAGE ON SCHEMA memoranda TO %I', grantee);
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA memoranda TO %I', grantee);
    EXECUTE format('GRANT USAGE ON SEQUENCE memoranda.numbers TO %I', grantee);
    EXECUTE format('GRANT EXECUTE ON FUNCTION memoranda.lock_subjects TO %I', grantee);
    FOR held IN
        SELECT relname AS name, to_regproc(format('memoranda.%I', 'remove_' || relname)) AS remover, (
            SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
            WHERE attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped AND attnum <> ALL (indkey)
        ) AS beside_key
        FROM pg_class JOIN pg_index ON indrelid = pg_class.oid AND indisprimary
        WHERE relnamespace = 'memoranda'::regnamespace AND relname <> 'roles'
    LOOP
        EXECUTE format('GRANT INSERT ON memoranda.%I TO %I', held.name, grantee);
        -- The ledger can be added to, and not changed.
        IF held.name !~ '^(events|chain|erasures)(_[0-9]+)?$' THEN
            EXECUTE format('GRANT UPDATE (%s) ON memoranda.%I TO %I', held.beside_key, held.name, grantee);
        END IF;
        IF held.remover IS NOT NULL THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', held.remover, grantee);
        END IF;
    END LOOP;
END
$grant$;
REVOKE ALL ON FUNCTION memoranda.grant_rights FROM PUBLIC;
