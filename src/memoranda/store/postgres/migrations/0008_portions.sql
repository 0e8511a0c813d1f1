-- Indexes of large shelves, in parts. Programs of the schema before do not know that what is forgotten must be taken out
-- of them: so none is made until the migration is finished.

-- step: pre
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
-- each entry. Partitioned where the other tables that grow are.
DO $$
DECLARE
    is_partitioned BOOLEAN := (SELECT relkind = 'p' FROM pg_class WHERE oid = 'memoranda.vectors'::regclass);
BEGIN
    EXECUTE format(
        $make$
        CREATE TABLE memoranda.parts (
            tenant TEXT COLLATE "C" NOT NULL,
            shelf BIGINT NOT NULL,
            first BIGINT NOT NULL,
            name TEXT COLLATE "C" NOT NULL,
            bytes BYTEA NOT NULL,
            PRIMARY KEY (tenant, shelf, first, name)
        ) %s
        $make$,
        CASE WHEN is_partitioned THEN 'PARTITION BY HASH (tenant)' ELSE '' END
    );
    -- Packed numbers: trying to compress them is time lost.
    ALTER TABLE memoranda.parts ALTER COLUMN bytes SET STORAGE EXTERNAL;
    FOR place IN 0 .. 7 LOOP
        EXIT WHEN NOT is_partitioned;
        EXECUTE format(
            'CREATE TABLE memoranda.%I PARTITION OF memoranda.parts FOR VALUES WITH (MODULUS 8, REMAINDER %s)',
            format('parts_%s', place), place
        );
    END LOOP;
END
$$;

-- As the schema does for every table and partition, and as roles have it for the others.
DO $$
DECLARE
    made RECORD;
    held RECORD;
BEGIN
    FOR made IN
        SELECT relname AS name, relkind = 'r' AS has_rows,
            CASE relname WHEN 'portions' THEN 'last, mark, gone, embedder' ELSE 'bytes' END AS beside_key,
            to_regclass('memoranda.' || CASE relname WHEN 'portions' THEN 'removals' ELSE replace(relname, 'parts', 'vectors') END)
                AS alike
        FROM pg_class
        WHERE relnamespace = 'memoranda'::regnamespace AND relname ~ '^(portions|parts(_[0-7])?)$'
    LOOP
        IF made.has_rows THEN
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
                'remove_' || made.name, made.name
            );
            EXECUTE format('REVOKE ALL ON FUNCTION memoranda.%I FROM PUBLIC', 'remove_' || made.name);
        END IF;
        EXECUTE format('ALTER TABLE memoranda.%I ENABLE ROW LEVEL SECURITY', made.name);
        EXECUTE format(
            'CREATE POLICY own_tenants ON memoranda.%I USING (tenant = ANY (ARRAY(SELECT tenant FROM memoranda.roles)))',
            made.name
        );
        FOR held IN
            SELECT DISTINCT privilege_type AS lent,
                CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS grantee
            FROM pg_class CROSS JOIN LATERAL aclexplode(relacl)
            WHERE oid = made.alike AND grantee <> relowner AND privilege_type IN ('SELECT', 'INSERT')
        LOOP
            EXECUTE format('GRANT %s ON memoranda.%I TO %s', held.lent, made.name, held.grantee);
            IF held.lent = 'INSERT' THEN
                EXECUTE format('GRANT UPDATE (%s) ON memoranda.%I TO %s', made.beside_key, made.name, held.grantee);
                IF made.has_rows THEN
                    EXECUTE format('GRANT EXECUTE ON FUNCTION memoranda.%I TO %s', 'remove_' || made.name, held.grantee);
                END IF;
            END IF;
        END LOOP;
    END LOOP;
END
$$;
