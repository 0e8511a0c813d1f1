-- Positions of the ledger are given out by a counter of their own, and events are chained after they were committed.

-- Writers of the version before count by other means: those that began are done, and none begins until this is.
LOCK TABLE memoranda.tenants IN EXCLUSIVE MODE;

-- How many positions of a tenant's ledger were given out.
CREATE TABLE memoranda.positions (
    tenant TEXT COLLATE "C" NOT NULL,
    taken BIGINT NOT NULL,
    PRIMARY KEY (tenant)
)
WITH (fillfactor = 50);

INSERT INTO memoranda.positions (tenant, taken) SELECT tenant, length FROM memoranda.tenants;

-- The hashes that chain events which were stored without: 32 bytes for the event before `first`, then for each event.
CREATE TABLE memoranda.chain (
    tenant TEXT COLLATE "C" NOT NULL,
    first BIGINT NOT NULL,
    hashes BYTEA NOT NULL,
    PRIMARY KEY (tenant, first)
);

ALTER TABLE memoranda.chain ALTER COLUMN hashes SET STORAGE EXTERNAL;

ALTER TABLE memoranda.positions ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenants ON memoranda.positions USING (tenant = ANY (ARRAY(SELECT tenant FROM memoranda.roles)));
ALTER TABLE memoranda.chain ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenants ON memoranda.chain USING (tenant = ANY (ARRAY(SELECT tenant FROM memoranda.roles)));

-- It is asked about locks, too.
CREATE OR REPLACE FUNCTION memoranda.check_tenant(asked TEXT) RETURNS VOID
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

-- The function as it is in the schema: it now leaves out what may only be added to, and gives out the locks.
CREATE OR REPLACE FUNCTION memoranda.grant_rights(grantee NAME) RETURNS VOID
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

-- Roles get the rights to what is new that they have to what it resembles.
DO $$
DECLARE
    held RECORD;
BEGIN
    FOR held IN
        SELECT DISTINCT privilege_type AS privilege,
            CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS grantee
        FROM pg_class CROSS JOIN LATERAL aclexplode(relacl)
        WHERE oid = 'memoranda.tenants'::regclass AND grantee <> relowner AND privilege_type IN ('SELECT', 'INSERT')
    LOOP
        EXECUTE format('GRANT %s ON memoranda.positions, memoranda.chain TO %s', held.privilege, held.grantee);
    END LOOP;
    FOR held IN
        SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS grantee
        FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid CROSS JOIN LATERAL aclexplode(attacl)
        WHERE pg_class.oid = 'memoranda.tenants'::regclass AND attname = 'length' AND privilege_type = 'UPDATE'
    LOOP
        EXECUTE format('GRANT UPDATE (taken) ON memoranda.positions TO %s', held.grantee);
        EXECUTE format('GRANT EXECUTE ON FUNCTION memoranda.lock_subjects TO %s', held.grantee);
    END LOOP;
END
$$;
