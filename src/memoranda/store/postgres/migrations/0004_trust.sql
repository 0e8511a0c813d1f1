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

-- Rejections. Values that may not come back: hashes of what they say, made with a salt, and the messages that say it.
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

ALTER TABLE memoranda.rejections ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenants ON memoranda.rejections USING (tenant = ANY (ARRAY(SELECT tenant FROM memoranda.roles)));

CREATE FUNCTION memoranda.remove_rejections(tenant TEXT, chosen TID[]) RETURNS BIGINT
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $remove$
            DECLARE
                removed BIGINT;
            BEGIN
                PERFORM memoranda.check_tenant($1);
                DELETE FROM memoranda.rejections AS held WHERE held.ctid = ANY ($2) AND held.tenant || '' = $1;
                GET DIAGNOSTICS removed = ROW_COUNT;
                RETURN removed;
            END
            $remove$;
REVOKE ALL ON FUNCTION memoranda.remove_rejections FROM PUBLIC;

ALTER TABLE memoranda.tenants ADD COLUMN rejected BIGINT NOT NULL DEFAULT 0;

-- Roles get the rights to rejections that they have to approvals, and to the new column those that they have to `epoch`.
DO $$
DECLARE
    held RECORD;
BEGIN
    FOR held IN
        SELECT DISTINCT privilege_type AS privilege,
            CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS grantee
        FROM pg_class CROSS JOIN LATERAL aclexplode(relacl)
        WHERE oid = 'memoranda.approvals'::regclass AND grantee <> relowner AND privilege_type IN ('SELECT', 'INSERT')
    LOOP
        EXECUTE format('GRANT %s ON memoranda.rejections TO %s', held.privilege, held.grantee);
    END LOOP;
    FOR held IN
        SELECT DISTINCT relname AS name,
            CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS grantee
        FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid CROSS JOIN LATERAL aclexplode(attacl)
        WHERE relnamespace = 'memoranda'::regnamespace AND privilege_type = 'UPDATE'
          AND (relname, attname) IN (('approvals', 'door'), ('tenants', 'epoch'))
    LOOP
        IF held.name = 'tenants' THEN
            EXECUTE format('GRANT UPDATE (rejected) ON memoranda.tenants TO %s', held.grantee);
        ELSE
            EXECUTE format(
                'GRANT UPDATE (place, scope, key, actor, at, reason, undo, salt, digests, messages) '
                'ON memoranda.rejections TO %s', held.grantee
            );
        END IF;
    END LOOP;
    FOR held IN
        SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS grantee
        FROM pg_proc CROSS JOIN LATERAL aclexplode(proacl)
        WHERE oid = 'memoranda.remove_approvals'::regproc AND grantee <> proowner AND privilege_type = 'EXECUTE'
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION memoranda.remove_rejections TO %s', held.grantee);
    END LOOP;
END
$$;

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

ALTER TABLE memoranda.guards ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenants ON memoranda.guards USING (tenant = ANY (ARRAY(SELECT tenant FROM memoranda.roles)));

CREATE FUNCTION memoranda.remove_guards(tenant TEXT, chosen TID[]) RETURNS BIGINT
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $remove$
            DECLARE
                removed BIGINT;
            BEGIN
                PERFORM memoranda.check_tenant($1);
                DELETE FROM memoranda.guards AS held WHERE held.ctid = ANY ($2) AND held.tenant || '' = $1;
                GET DIAGNOSTICS removed = ROW_COUNT;
                RETURN removed;
            END
            $remove$;
REVOKE ALL ON FUNCTION memoranda.remove_guards FROM PUBLIC;

-- Roles that may use the grants of a tenant may use these.
DO $$
DECLARE
    held RECORD;
BEGIN
    FOR held IN
        SELECT DISTINCT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS grantee
        FROM pg_class CROSS JOIN LATERAL aclexplode(relacl)
        WHERE oid = 'memoranda.grants'::regclass AND privilege_type = 'INSERT' AND grantee <> relowner
    LOOP
        EXECUTE format('GRANT SELECT, INSERT ON memoranda.guards TO %s', held.grantee);
        EXECUTE format(
            'GRANT UPDATE (instructions, secrets, payment, codes, protected, largest) ON memoranda.guards TO %s',
            held.grantee
        );
        EXECUTE format('GRANT EXECUTE ON FUNCTION memoranda.remove_guards TO %s', held.grantee);
    END LOOP;
END
$$;

-- Under which rules an effect was asked for, so that it can be decided again.
ALTER TABLE memoranda.approvals ADD COLUMN rules BYTEA NOT NULL DEFAULT '{}';

-- What was derived from what, by refs. A version is that of a fact, 0 of anything else. `scope` is that of the child.
CREATE TABLE memoranda.links (
    tenant TEXT COLLATE "C" NOT NULL,
    child TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    parent TEXT COLLATE "C" NOT NULL,
    parent_version BIGINT NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, child, version, parent, parent_version)
);

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

INSERT INTO memoranda.epochs SELECT tenant, '*', epoch FROM memoranda.tenants WHERE epoch > 0;

-- As the schema does for every table, and as roles have it for the others.
DO $$
DECLARE
    made TEXT;
    held RECORD;
BEGIN
    FOREACH made IN ARRAY ARRAY['links', 'omissions'] LOOP
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
            'remove_' || made, made
        );
        EXECUTE format('REVOKE ALL ON FUNCTION memoranda.%I FROM PUBLIC', 'remove_' || made);
    END LOOP;
    FOREACH made IN ARRAY ARRAY['links', 'epochs', 'omissions'] LOOP
        EXECUTE format('ALTER TABLE memoranda.%I ENABLE ROW LEVEL SECURITY', made);
        EXECUTE format(
            'CREATE POLICY own_tenants ON memoranda.%I USING (tenant = ANY (ARRAY(SELECT tenant FROM memoranda.roles)))',
            made
        );
        FOR held IN
            SELECT DISTINCT privilege_type AS lent,
                CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS grantee
            FROM pg_class CROSS JOIN LATERAL aclexplode(relacl)
            WHERE oid = 'memoranda.sessions'::regclass AND grantee <> relowner AND privilege_type IN ('SELECT', 'INSERT')
        LOOP
            EXECUTE format('GRANT %s ON memoranda.%I TO %s', held.lent, made, held.grantee);
            IF held.lent = 'INSERT' AND made <> 'epochs' THEN
                EXECUTE format('GRANT EXECUTE ON FUNCTION memoranda.%I TO %s', 'remove_' || made, held.grantee);
            END IF;
        END LOOP;
    END LOOP;
    FOR held IN
        SELECT DISTINCT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS grantee
        FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid CROSS JOIN LATERAL aclexplode(attacl)
        WHERE pg_class.oid = 'memoranda.approvals'::regclass AND attname = 'door' AND privilege_type = 'UPDATE'
    LOOP
        EXECUTE format('GRANT UPDATE (rules) ON memoranda.approvals TO %s', held.grantee);
        EXECUTE format('GRANT UPDATE (scope) ON memoranda.links TO %s', held.grantee);
        EXECUTE format('GRANT UPDATE (epoch) ON memoranda.epochs TO %s', held.grantee);
        EXECUTE format(
            'GRANT UPDATE (scope, subject, at, undo, phrases, clauses) ON memoranda.omissions TO %s', held.grantee
        );
    END LOOP;
END
$$;

-- What an index is told of origins: most entries are fully trusted and have no source.
CREATE INDEX entries_by_origin ON memoranda.entries (tenant COLLATE "POSIX", shelf, sequence)
INCLUDE (actor, door, source, kind, trust)
WHERE trust < 3 OR source IS NOT NULL;
