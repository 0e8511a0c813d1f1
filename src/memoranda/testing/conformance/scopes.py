"""Scopes: whose memory it is. Compared whole, walled by tenants, never matched as text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from memoranda.api.memory import Memory
from memoranda.errors import ApprovalRequired, NotFound, SchemaViolation
from memoranda.model.scope import Scope
from memoranda.store.base import Store
from memoranda.testing.clock import FakeClock
from memoranda.testing.conformance.base import Capability, present, requires

LOOK_ALIKES = (
    "a",
    "ab",
    "A",
    "a/agent:x",
    "a/",
    "a%2Fagent:x",
    "a%",
    "%",
    "_",
    "a_",
    "a.b",
    "a:b",
    "*",
    "user:a",
    "а",  # noqa: RUF001  a Cyrillic letter
    "á",
    "日本",
    "🧠",
    "a b",
    "a'b",
    'a"b',
    "a0",
)


class ScopePromises:
    """A memory is seen by those it belongs to, and by nobody with a similar name."""

    def test_look_alike_ids_are_different_users(self, memory: Memory) -> None:
        for name in LOOK_ALIKES:
            memory.scope(user=name).set("k", name)
        for name in LOOK_ALIKES:
            user = memory.scope(user=name)
            assert user.value("k") == name
            assert [fact.value for fact in user.list()] == [name]
            assert [r.value for r in user.history("k")] == [name]

    def test_deleting_for_one_look_alike_leaves_the_others(self, memory: Memory) -> None:
        for name in LOOK_ALIKES:
            memory.scope(user=name).set("k", name)
        assert memory.scope(user="a").delete("k")
        assert memory.scope(user="a").get("k") is None
        for name in LOOK_ALIKES[1:]:
            assert memory.scope(user=name).value("k") == name

    def test_a_user_and_an_agent_of_that_user_do_not_see_each_other(self, memory: Memory) -> None:
        places = (
            memory.scope(),
            memory.scope(user="ada"),
            memory.scope(agent="x"),
            memory.scope(user="ada", agent="x"),
            memory.scope(user="ada", agent="x", thread="1"),
            memory.scope(user="ada", thread="1"),
            memory.scope(user="ada", workflow="1"),
            memory.scope(user="ada", run="1"),
            memory.scope(project="ada"),
            memory.scope(tree="ada"),
            memory.scope(session="ada"),
        )
        for place in places:
            place.set("k", str(place.scope))
        for place in places:
            assert place.value("k") == str(place.scope)
            assert len(place.list()) == 1

    def test_the_order_in_which_ids_are_given_does_not_matter(self, memory: Memory) -> None:
        memory.scope(agent="x", user="ada").set("k", 1)
        assert memory.scope(user="ada", agent="x").value("k") == 1
        assert memory.at("user:ada/agent:x").value("k") == 1
        assert memory.at(Scope.of(user="ada", agent="x")).value("k") == 1
        assert memory.scope(user="ada").get("k") is None

    def test_the_longest_id_is_kept_whole(self, memory: Memory) -> None:
        long = "é" * 255
        memory.scope(user=long + "a").set("k", "a")
        memory.scope(user=long + "b").set("k", "b")
        assert memory.scope(user=long + "a").value("k") == "a"
        assert memory.scope(user=long + "b").value("k") == "b"

    def test_the_longest_key_is_kept_whole(self, memory: Memory) -> None:
        ada, long = memory.scope(user="ada"), "é" * 511
        ada.set(long + "a", "a")
        ada.set(long + "b", "b")
        assert (ada.value(long + "a"), ada.value(long + "b")) == ("a", "b")

    @pytest.mark.parametrize("other", ["other", "Default", "default ä", "defaul", "default0", "%", "_"])
    def test_no_read_verb_sees_another_tenant(
        self, memory: Memory, store: Store, clock: FakeClock, tmp_path: Path, other: str
    ) -> None:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        there = memory.scope(tenant=other, user="ada")
        here = memory.scope(user="ada")
        definition = memory.definitions.create(name="Counter", slug="counter", schema=schema)
        memory.permissions.grant("agent:a", "memory")
        memory.permissions.grant("agent:b", "memory", level="approve")
        here.set("k", "here")
        here.set("counter", {"n": 1})
        there.set("theirs", "there")
        with pytest.raises(ApprovalRequired):
            memory.acting_as("agent:b").scope(user="ada").set("k", "waiting")

        assert [f.key for f in here.list()] == ["counter", "k"]
        assert [f.key for f in there.list()] == ["theirs"]
        assert (there.get("k"), here.get("theirs")) == (None, None)
        assert (there.history("k"), here.history("theirs")) == ([], [])
        assert there.list(as_of=clock.now()) and not there.list("k", as_of=clock.now())
        stranger = Memory(store, tenant=other, clock=clock)
        assert stranger.definitions.list() == []
        with pytest.raises(NotFound):
            stranger.definitions.get(definition.id)
        assert stranger.permissions.list() == []
        assert stranger.approvals.list() == []
        assert [e.key for e in stranger.ledger.events()] == ["theirs"]
        assert stranger.export(tmp_path / "theirs.jsonl") == 1
        assert memory.definitions.get("counter") == definition
        assert [f.value for f in memory.definitions.records("counter")] == [{"n": 1}]
        assert len(memory.permissions.list()) == 2
        assert len(memory.approvals.list()) == 1
        assert memory.export(tmp_path / "ours.jsonl") == 2

    def test_definitions_and_grants_of_one_tenant_do_not_bind_another(self, memory: Memory) -> None:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        memory.definitions.create(name="Counter", slug="counter", schema=schema)
        with pytest.raises(SchemaViolation):
            memory.scope(user="ada").set("counter", "not an object")
        assert memory.scope(tenant="other", user="ada").set("counter", "free").version == 1

    def test_erasing_in_one_tenant_leaves_the_same_user_of_another(self, memory: Memory) -> None:
        here, there = memory.scope(user="ada"), memory.scope(tenant="other", user="ada")
        here.set("k", 1)
        there.set("k", 2)
        assert memory.erase(user="ada").removed["facts"] == 1
        assert here.get("k") is None
        assert there.value("k") == 2
        assert len(there.history("k")) == 1

    @requires(Capability.RESTART)
    def test_strange_names_survive_a_restart(self, memory: Memory, reopen: Callable[[], Memory]) -> None:
        for name in LOOK_ALIKES:
            memory.scope(user=name).set(f"{name.replace('.', '-')}.k", name)
        again = reopen()
        for name in LOOK_ALIKES:
            fact = present(again.scope(user=name).get(f"{name.replace('.', '-')}.k"))
            assert (fact.value, fact.scope.parts) == (name, (("user", name),))
