-- Indexes of large shelves, in parts. Programs of the schema before do not know that what is forgotten must be taken out
-- of them: so none is made until the migration is finished.

-- step: pre
-- Runs of entries of a shelf whose index is stored in parts, from the first sequence to the last: large shelves are
-- searched by them. What ended after the shelf had this mark is still in them.
CREATE TABLE memoranda.portions (
    tenant TEXT COLLATE "C" NOT NULL,
    shelf BIGINT NOT NULL,
    first BIGINT NOT NULL,
    last BIGINT NOT NULL,
    mark BIGINT NOT NULL,
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
);

-- Packed numbers: trying to compress them is time lost.
ALTER TABLE memoranda.parts ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- As the schema does for every table, and as roles have it for the others.
DO $$
DECLARE
    made TEXT;
    held RECORD;
BEGIN
    FOREACH made IN ARRAY ARRAY['portions', 'parts'] LOOP
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
                    CASE made WHEN 'portions' THEN 'last, mark, embedder' ELSE 'bytes' END, made, held.grantee
                );
                EXECUTE format('GRANT EXECUTE ON FUNCTION memoranda.%I TO %s', 'remove_' || made, held.grantee);
            END IF;
        END LOOP;
    END LOOP;
END
$$;
