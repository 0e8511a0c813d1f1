"""How the statements of `store/sql` are written for PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, partial
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

PARTITIONED = (
    "facts", "revisions", "replays", "content_keys", "events", "event_texts", "entries", "vectors", "links", "parts",
)  # fmt: skip
"""The tables that are partitioned by tenant in databases that were made with schema.sql, and not by migrations."""

_PLACE = re.compile(rf"memoranda\.(remove_)?({'|'.join(PARTITIONED)})\b(?!_)(\(| AS\b)?".encode())


@cache
def statements(partition: int | None) -> Mapping[str, bytes]:
    """Return every statement by name, for the tenants of a partition; with None, for tables that have none.

    A statement names the partition, because PostgreSQL would take longer to find it: a plan for all partitions locks
    each of them, and a plan for given values is made again for each call.
    """
    if partition is None:
        return SQL
    place = partial(_name_partition, partition)
    return {name: _PLACE.sub(place, sql) for name, sql in SQL.items()}


def fill(name: str, /, **texts: str) -> bytes:
    """Return a statement with the names of tables and indexes, which cannot be parameters: `<table>`."""
    sql = SQL[name]
    for place, text in texts.items():
        sql = sql.replace(f"<{place}>".encode(), text.encode())
    return sql


def _name_partition(partition: int, found: re.Match[bytes]) -> bytes:
    remover, table, after = found[1] or b"", found[2], found[3] or b""
    named = b"memoranda.%s%s_%d" % (remover, table, partition)
    # Columns go by the name of their table: `facts.scope`.
    return named + (after if after else b" AS " + table)
