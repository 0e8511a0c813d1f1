-- What kind of origin wrote a fact or an entry, and how far it is trusted. Of what is there already, the door and the
-- source say as much as is known.

ALTER TABLE memoranda.facts ADD COLUMN kind TEXT COLLATE "C" NOT NULL DEFAULT 'user';
ALTER TABLE memoranda.facts ADD COLUMN trust BIGINT NOT NULL DEFAULT 3;
UPDATE memoranda.facts SET kind = 'assistant', trust = 2 WHERE door IN ('mcp', 'chat');
UPDATE memoranda.facts SET kind = 'import', trust = 2 WHERE source LIKE 'import:%';

ALTER TABLE memoranda.revisions ADD COLUMN kind TEXT COLLATE "C" NOT NULL DEFAULT 'user';
ALTER TABLE memoranda.revisions ADD COLUMN trust BIGINT NOT NULL DEFAULT 3;
UPDATE memoranda.revisions SET kind = 'assistant', trust = 2 WHERE door IN ('mcp', 'chat');
UPDATE memoranda.revisions SET kind = 'import', trust = 2 WHERE source LIKE 'import:%';

ALTER TABLE memoranda.entries ADD COLUMN kind TEXT COLLATE "C" NOT NULL DEFAULT 'user';
ALTER TABLE memoranda.entries ADD COLUMN trust BIGINT NOT NULL DEFAULT 3;
UPDATE memoranda.entries SET kind = 'assistant', trust = 2 WHERE door IN ('mcp', 'chat');
UPDATE memoranda.entries SET kind = 'import', trust = 2 WHERE source LIKE 'import:%';

-- Who asked for what waits, and why it waits.
ALTER TABLE memoranda.approvals ADD COLUMN kind TEXT COLLATE "C" NOT NULL DEFAULT 'user';
ALTER TABLE memoranda.approvals ADD COLUMN trust BIGINT NOT NULL DEFAULT 3;
ALTER TABLE memoranda.approvals ADD COLUMN cause TEXT COLLATE "C" NOT NULL DEFAULT 'policy';
ALTER TABLE memoranda.approvals ADD COLUMN findings BYTEA NOT NULL DEFAULT '[]';

-- Roles that may change the other columns of these tables may change these.
DO $$
DECLARE
    held RECORD;
BEGIN
    FOR held IN
        SELECT DISTINCT relname AS name,
            CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS grantee
        FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid CROSS JOIN LATERAL aclexplode(attacl)
        WHERE relnamespace = 'memoranda'::regnamespace AND relname IN ('facts', 'revisions', 'entries', 'approvals')
          AND attname = 'door' AND privilege_type = 'UPDATE'
    LOOP
        EXECUTE format('GRANT UPDATE (kind, trust) ON memoranda.%I TO %s', held.name, held.grantee);
        IF held.name = 'approvals' THEN
            EXECUTE format('GRANT UPDATE (cause, findings) ON memoranda.approvals TO %s', held.grantee);
        END IF;
    END LOOP;
END
$$;

-- What an index is told of origins: most entries are fully trusted and have no source.
CREATE INDEX entries_by_origin ON memoranda.entries (tenant COLLATE "POSIX", shelf, sequence)
INCLUDE (actor, door, source, kind, trust)
WHERE trust < 3 OR source IS NOT NULL;
