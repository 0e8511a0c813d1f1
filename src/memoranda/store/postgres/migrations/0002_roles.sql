-- Row-level security: a role that does not own the tables sees the tenants that it was given.

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
