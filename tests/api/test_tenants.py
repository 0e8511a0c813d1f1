from __future__ import annotations

import pytest

import memoranda
from memoranda import Policy


def test_the_owner_is_told_every_tenant_and_whoever_stands_in_one_only_that_one():
    with memoranda.open(":memory:") as memory:
        assert memory.tenants() == []
        memory.scope(tenant="orchard", user="ada").set("row", 1)
        memory.scope(user="ben").remember("The gate sticks", collection="notes")
        assert memory.tenants() == ["default", "orchard"]
        assert memory.in_tenant("orchard").tenants() == ["default", "orchard"]
        inside = memory.in_tenant("orchard").acting_as("clerk", policy=Policy.of(allow=("upkeep",)))
        assert inside.tenants() == ["orchard"]


def test_who_may_not_look_after_a_memory_is_told_no_tenant():
    with memoranda.open(":memory:") as memory:
        memory.scope(user="ada").set("row", 1)
        reader = memory.acting_as("reader", policy=Policy.of(allow=("memory.read",)))
        with pytest.raises(memoranda.Denied):
            reader.tenants()
        assert reader.scope(user="ada").value("row") == 1
