"""An open connection in; an error out where its role was given no tenant to see."""

from __future__ import annotations

from typing import Any

import psycopg

from recollect.errors import Unavailable
from recollect.store.postgres.queries import SQL


def check_rights(connection: psycopg.Connection[tuple[Any, ...]], url: str) -> None:
    """Refuse a role from which every row is hidden: to it, a memory that is full would look empty."""
    found = connection.execute(SQL["get_rights"]).fetchone()
    assert found is not None, "it asks for one row"
    role, hidden, tenants = found
    if hidden and not tenants:
        raise Unavailable(
            f"`{url}`: the role `{role}` may see no tenant",
            hint="As the owner of the tables: INSERT INTO recollect.roles (tenant, role) VALUES ('default', "
            f"{_quoted(role)})",
            url=url,
        )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
