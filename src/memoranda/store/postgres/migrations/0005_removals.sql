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

-- As the schema does for every table, and as roles have it for the others.
CREATE FUNCTION memoranda.remove_removals(tenant TEXT, chosen TID[]) RETURNS BIGINT
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $remove$
            DECLARE
                removed BIGINT;
            BEGIN
                PERFORM memoranda.check_tenant($1);
                DELETE FROM memoranda.removals AS held WHERE held.ctid = ANY ($2) AND held.tenant || '' = $1;
                GET DIAGNOSTICS removed = ROW_COUNT;
                RETURN removed;
            END
            $remove$;
REVOKE ALL ON FUNCTION memoranda.remove_removals FROM PUBLIC;

ALTER TABLE memoranda.removals ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenants ON memoranda.removals USING (tenant = ANY (ARRAY(SELECT tenant FROM memoranda.roles)));

DO $$
DECLARE
    held RECORD;
BEGIN
    FOR held IN
        SELECT DISTINCT privilege_type AS lent,
            CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS grantee
        FROM pg_class CROSS JOIN LATERAL aclexplode(relacl)
        WHERE oid = 'memoranda.vectors'::regclass AND grantee <> relowner AND privilege_type IN ('SELECT', 'INSERT')
    LOOP
        EXECUTE format('GRANT %s ON memoranda.removals TO %s', held.lent, held.grantee);
        IF held.lent = 'INSERT' THEN
            EXECUTE format('GRANT UPDATE (before, sequence) ON memoranda.removals TO %s', held.grantee);
            EXECUTE format('GRANT EXECUTE ON FUNCTION memoranda.remove_removals TO %s', held.grantee);
        END IF;
    END LOOP;
END
$$;
