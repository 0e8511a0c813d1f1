"""How the statements of `store/sql` are written for PostgreSQL."""

from __future__ import annotations

import re
from pathlib import Path

from memoranda.store.sql.dialect import Dialect

HERE = Path(__file__).parent
"""The folder of the schema and its migrations."""

POSTGRES = Dialect(
    name="postgres",
    placeholder="$",
    rewrites=(
        (re.compile(r" INDEXED BY \w+"), ""),
        # Roles may not delete: functions that check the tenant do it for them.
        (
            re.compile(r"^DELETE FROM memoranda\.(\w+)\s+WHERE (.*?);$", re.MULTILINE | re.DOTALL),
            r"SELECT memoranda.remove_\1(:tenant, ARRAY(SELECT ctid FROM memoranda.\1 WHERE \2));",
        ),
    ),
)

SQL = {name: text.encode() for name, text in POSTGRES.load(HERE / "queries.sql").items()}
"""Every statement by name: `SQL["get_fact"]`. As bytes, because the driver refuses text that is not a literal."""
