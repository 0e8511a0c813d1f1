"""Queries are answered by the statements written for them, and by no others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from memoranda.model.entry import Shelf
from memoranda.model.scope import Scope
from memoranda.store.base import EntryQuery, FactQuery, RevisionQuery
from memoranda.store.sqlite import SqliteStore

ADA = Scope.of(user="ada")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "ask",
    [
        lambda rows: rows.facts(FactQuery(ADA)),
        lambda rows: rows.facts(FactQuery(ADA, key="k")),
        lambda rows: rows.facts(FactQuery(ADA, below=True, domain="work")),
        lambda rows: rows.facts(FactQuery(ADA, as_of=NOON, domain="work")),
        lambda rows: rows.facts(FactQuery(ADA, active_at=NOON, as_of=NOON)),
        lambda rows: rows.facts(FactQuery(ADA, below=True, expired_by=NOON, limit=1)),
        lambda rows: rows.revisions(RevisionQuery(ADA, limit=1)),
        lambda rows: rows.revisions(RevisionQuery(ADA, "k", before=3)),
        lambda rows: rows.entries(EntryQuery()),
        lambda rows: rows.entries(EntryQuery(tenant="default", key="k")),
        lambda rows: rows.entries(EntryQuery(shelf=Shelf(ADA, "notes"), key="k", digest=b"d")),
        lambda rows: rows.index_rows(EntryQuery(below=ADA), "e"),
    ],
)
def test_a_query_without_a_statement_is_refused(ask: Any):
    with SqliteStore(":memory:") as store, pytest.raises(TypeError, match="Query"):
        store.read(ask)


@pytest.mark.parametrize(
    "ask",
    [
        lambda rows: rows.facts(FactQuery(ADA, active_at=NOON, after="", limit=0)),
        lambda rows: rows.facts(FactQuery(Scope(), below=True, key="", after="")),
        lambda rows: rows.entries(EntryQuery(tenant="default", sequences=[])),
        lambda rows: rows.entries(EntryQuery(shelf=Shelf(ADA, "notes"), key="")),
    ],
)
def test_an_empty_value_is_a_value(ask: Any):
    with SqliteStore(":memory:") as store:
        assert store.read(lambda rows: list(ask(rows))) == []
