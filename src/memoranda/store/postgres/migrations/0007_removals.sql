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

-- As the schema does for every table, and as roles have it for the others.
DO $$
DECLARE
    made TEXT;
    held RECORD;
BEGIN
    FOREACH made IN ARRAY ARRAY['removals', 'segments'] LOOP
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
        EXECUTE format('ALTER TABLE memoranda.%I ENABLE ROW LEVEL SECURITY', made);
        EXECUTE format(
            'CREATE POLICY own_tenants ON memoranda.%I USING (tenant = ANY (ARRAY(SELECT tenant FROM memoranda.roles)))',
            made
        );
        FOR held IN
            SELECT DISTINCT privilege_type AS lent,
                CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS grantee
            FROM pg_class CROSS JOIN LATERAL aclexplode(relacl)
            WHERE oid = 'memoranda.vectors'::regclass AND grantee <> relowner AND privilege_type IN ('SELECT', 'INSERT')
        LOOP
            EXECUTE format('GRANT %s ON memoranda.%I TO %s', held.lent, made, held.grantee);
            IF held.lent = 'INSERT' THEN
                EXECUTE format(
                    'GRANT UPDATE (%s) ON memoranda.%I TO %s',
                    CASE made WHEN 'removals' THEN 'before, sequence' ELSE 'bytes' END, made, held.grantee
                );
                EXECUTE format('GRANT EXECUTE ON FUNCTION memoranda.%I TO %s', 'remove_' || made, held.grantee);
            END IF;
        END LOOP;
    END LOOP;
END
$$;
