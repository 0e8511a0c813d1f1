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
    RAISE insufficient_privilege USING MESSAGE = format('the role %s may not remove rows of the tenant %s', caller, asked);
END
$check$;
REVOKE ALL ON FUNCTION memoranda.check_tenant FROM PUBLIC;

-- One function for each table that rows are removed from; the statement that calls it chooses them. Adding '' keeps the
-- index of the tenant out of the plan: rows are looked at where they are said to be.
DO $$
DECLARE
    held TEXT;
BEGIN
    FOR held IN
        SELECT table_name FROM information_schema.columns
        WHERE table_schema = 'memoranda' AND column_name = 'tenant'
          AND table_name NOT IN ('roles', 'tenants', 'events', 'erasures')
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
        IF held.name NOT IN ('events', 'erasures') THEN
            EXECUTE format('GRANT UPDATE (%s) ON memoranda.%I TO %I', held.beside_key, held.name, grantee);
        END IF;
        IF held.remover IS NOT NULL THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', held.remover, grantee);
        END IF;
    END LOOP;
END
$grant$;
REVOKE ALL ON FUNCTION memoranda.grant_rights FROM PUBLIC;

-- Roles that were given more keep what they could do with rows, and nothing that locks a table.
DO $$
DECLARE
    held RECORD;
BEGIN
    FOR held IN
        SELECT relname AS name, to_regproc(format('memoranda.%I', 'remove_' || relname)) AS remover,
            CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS grantee,
            string_agg(DISTINCT privilege_type, ', ') AS lost,
            bool_or(privilege_type = 'UPDATE' AND on_table) AS updates, bool_or(privilege_type = 'DELETE') AS removes, (
                SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute JOIN pg_index ON indrelid = attrelid
                WHERE attrelid = given.oid AND indisprimary AND attnum > 0 AND NOT attisdropped AND attnum <> ALL (indkey)
            ) AS beside_key
        FROM (
            SELECT pg_class.oid, relname, relowner, true AS on_table, acl.grantee, privilege_type
            FROM pg_class CROSS JOIN LATERAL aclexplode(relacl) AS acl
            WHERE relnamespace = 'memoranda'::regnamespace AND relkind = 'r'
            UNION ALL
            SELECT pg_class.oid, relname, relowner, false, acl.grantee, privilege_type
            FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid CROSS JOIN LATERAL aclexplode(attacl) AS acl
            WHERE relnamespace = 'memoranda'::regnamespace AND relkind = 'r' AND privilege_type = 'REFERENCES'
        ) AS given
        WHERE grantee <> relowner AND privilege_type NOT IN ('SELECT', 'INSERT')
        GROUP BY given.oid, relname, grantee
    LOOP
        EXECUTE format('REVOKE %s ON memoranda.%I FROM %s CASCADE', held.lost, held.name, held.grantee);
        IF held.updates AND held.name NOT IN ('events', 'erasures') AND held.beside_key IS NOT NULL THEN
            EXECUTE format('GRANT UPDATE (%s) ON memoranda.%I TO %s', held.beside_key, held.name, held.grantee);
        END IF;
        IF held.removes AND held.remover IS NOT NULL THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', held.remover, held.grantee);
        END IF;
    END LOOP;
    -- Nor are tables that will be added lockable. A right to the columns of those cannot be given in advance.
    FOR held IN
        SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS grantee,
            string_agg(privilege_type, ', ') AS lost
        FROM pg_default_acl CROSS JOIN LATERAL aclexplode(defaclacl)
        WHERE defaclrole = current_user::regrole AND defaclnamespace = 'memoranda'::regnamespace AND defaclobjtype = 'r'
          AND grantee <> defaclrole AND privilege_type NOT IN ('SELECT', 'INSERT')
        GROUP BY grantee
    LOOP
        EXECUTE format(
            'ALTER DEFAULT PRIVILEGES IN SCHEMA memoranda REVOKE %s ON TABLES FROM %s', held.lost, held.grantee
        );
    END LOOP;
END
$$;
