-- Programs of two schemas may write side by side, until a migration is finished.

-- step: pre
-- `version` is the schema of the oldest programs that may write, `prepared` that of the newest.
ALTER TABLE memoranda.migrated ADD COLUMN prepared INTEGER;

-- Tables of new databases are partitioned: the events of each partition, too, can be added to and not changed.
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
        IF held.name !~ '^(events|erasures)(_[0-9]+)?$' THEN
            EXECUTE format('GRANT UPDATE (%s) ON memoranda.%I TO %I', held.beside_key, held.name, grantee);
        END IF;
        IF held.remover IS NOT NULL THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', held.remover, grantee);
        END IF;
    END LOOP;
END
$grant$;
