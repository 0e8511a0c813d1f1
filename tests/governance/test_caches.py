"""Caches about actors and tenants are bounded, and evicting from them changes no answer."""

from __future__ import annotations

from typing import Any

import pytest

import memoranda
from memoranda import Denied, SchemaViolation
from memoranda.engine import schemas
from memoranda.governance import gate


def test_grants_of_any_number_of_actors_are_kept_in_mind_by_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "_MOST_ACTORS", 2)
    with memoranda.open(":memory:") as memory:
        held: Any = memory.root
        for number in range(5):
            memory.permissions.grant(f"agent:{number}", "memory.write")
        for _ in range(2):
            for number in range(5):
                place = memory.acting_as(f"agent:{number}").scope(user="ada")
                assert place.set("oven", number).value == number
                with pytest.raises(Denied):
                    place.get("oven")
                assert 0 < len(held._granted) <= 2


def test_contracts_of_any_number_of_tenants_are_kept_in_mind_by_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "_MOST_TENANTS", 2)
    schema = {"type": "object", "properties": {"cone": {"type": "integer"}}}
    with memoranda.open(":memory:") as memory:
        held: Any = memory.root
        tenants = [memory.in_tenant(f"studio-{number}") for number in range(5)]
        for tenant in tenants:
            tenant.definitions.create(name="Kiln", slug="kiln", schema=schema)
        for tenant in tenants * 2:
            with pytest.raises(SchemaViolation):
                tenant.scope(user="ada").set("kiln", {"cone": "six"})
            assert tenant.scope(user="ada").set("kiln", {"cone": 6}).value == {"cone": 6}
            assert 0 < len(held._schemas._known) <= 2
