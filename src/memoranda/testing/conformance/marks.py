"""Marks: what was read holds until they change."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memoranda.api.memory import Memory
from memoranda.errors import Denied
from memoranda.model.policy import OWNER


class MarkPromises:
    """A mark is another one after every write, whoever wrote; that of a tenant after every write to the tenant."""

    def test_every_kind_of_write_changes_the_mark_of_its_tenant(self, memory: Memory, second: Memory) -> None:
        ada = second.in_tenant("acme").scope(user="ada")
        acme = second.in_tenant("acme")
        writes: dict[str, Callable[[], object]] = {
            "set": lambda: ada.set("k", 1),
            "set again": lambda: ada.set("k", 2),
            "delete": lambda: ada.delete("k"),
            "remember": lambda: ada.remember("a text", collection="notes", key="one"),
            "forget": lambda: ada.forget(collection="notes", key="one"),
            "block": lambda: ada.blocks.update("core", "a text", expected_updated_at=None),
            "define": lambda: acme.definitions.create(name="D", slug="d", schema={"type": "object"}),
            "grant": lambda: acme.permissions.grant("agent:a", "memory.read"),
            "erase": lambda: acme.erase(user="ada"),
        }
        unchanged: list[str] = []
        for name, write in writes.items():
            before = memory.mark(), memory.mark(tenant="acme")
            write()
            after = memory.mark(), memory.mark(tenant="acme")
            unchanged += [name for one, other in zip(before, after, strict=True) if one == other]
        assert unchanged == []

    def test_marks_stay_while_nobody_writes(self, memory: Memory) -> None:
        memory.scope(user="ada").set("k", 1)
        memory.settle()
        before = memory.mark(), memory.mark(tenant=memory.tenant), memory.mark(tenant="nobody's")
        assert memory.scope(user="ada").value("k") == 1
        assert (memory.mark(), memory.mark(tenant=memory.tenant), memory.mark(tenant="nobody's")) == before

    def test_nobody_asks_for_the_mark_of_a_tenant_they_do_not_stand_in(self, memory: Memory) -> None:
        guest = memory.in_tenant("acme").acting_as("agent:a", policy=OWNER)
        with pytest.raises(Denied):
            guest.mark(tenant="other")
        assert guest.mark(tenant="acme") == memory.mark(tenant="acme")
