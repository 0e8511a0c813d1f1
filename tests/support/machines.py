"""State machines on PostgreSQL: the same rules as on a file, each example on empty tables."""

from __future__ import annotations

from typing import Any, ClassVar

import postgres_server

from memoranda.store.postgres import PostgresStore


class OnPostgres:
    """Put before a state machine whose `open_store` opens the store that is compared with the reference."""

    server: ClassVar[postgres_server.PostgresServer]
    """Set by the fixture `machines_on_postgres`."""

    def __init__(self, *given: Any) -> None:
        self.server.empty()
        super().__init__(*given)

    def open_store(self) -> PostgresStore:
        return PostgresStore(self.server.url(), durability="normal")
