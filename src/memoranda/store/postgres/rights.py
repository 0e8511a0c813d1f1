"""A connection and a tenant in; an error out where the connection's role was not given that tenant."""

from __future__ import annotations

from typing import Any

import psycopg

from memoranda.errors import Unavailable
from memoranda.model.text import quote
from memoranda.store.postgres.queries import SQL


class Rights:
    """What the role of a store's connections may see: everything, or the tenants that `memoranda.roles` names for it.

    The database hides the rest by itself. What is hidden looks as if it were not there, though, and who took it for
    that would act on it: so a tenant that was not given is refused instead, whether it is read or written.
    """

    def __init__(self, url: str) -> None:
        """Know nothing yet; name the database in errors as its address does."""
        self._url = url
        self._sees_all = False
        self._given: frozenset[str] = frozenset()

    def check(self, connection: psycopg.Connection[tuple[Any, ...]], tenant: str | None = None) -> None:
        """Refuse a tenant that the role was not given, or, where none is named, a role that was given no tenant.

        Only what is not known to be given is asked for: it may have been given since.
        """
        if self._sees_all or tenant in self._given:
            return
        found = connection.execute(SQL["get_rights"]).fetchone()
        assert found is not None, "it asks for one row"
        role, hidden, given = found
        self._sees_all, self._given = not hidden, frozenset(given)
        if hidden and not (given if tenant is None else tenant in given):
            raise self._refused(role, tenant)

    def _refused(self, role: str, tenant: str | None) -> Unavailable:
        what = "no tenant" if tenant is None else f"nothing of the tenant {quote(tenant)}"
        row = f"{_literal(tenant or 'default')}, {_literal(role)}"
        return Unavailable(
            f"`{self._url}`: the role `{role}` may see {what}",
            hint=f"As the owner of the tables: INSERT INTO memoranda.roles (tenant, role) VALUES ({row})",
            url=self._url,
        )


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
