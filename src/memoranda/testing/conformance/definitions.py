"""Definitions: the contracts of keys, and what changing them does to their records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoranda.api.memory import Memory
from memoranda.engine.embedders import EmbedderBook
from memoranda.errors import (
    AlreadyExists,
    Conflict,
    Denied,
    InvalidDefinition,
    InvalidDuration,
    InvalidKey,
    NotFound,
    SchemaViolation,
    ScopeEnded,
)
from memoranda.governance.gate import Caller, Gate
from memoranda.model.effect import CreateDefinition, UpdateDefinition
from memoranda.model.ids import SystemIds
from memoranda.model.limits import Limits
from memoranda.model.policy import Policy
from memoranda.model.scope import Scope
from memoranda.store.base import Store
from memoranda.testing.clock import FakeClock
from memoranda.testing.conformance.base import Capability, present, requires, snapshot

PROFILE: dict[str, Any] = {
    "type": "object",
    "properties": {"preferred_name": {"type": "string"}, "language": {"type": "string"}},
}
COUNTER: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

GIVEN = "5c2e7f0a-9d41-4b7e-8a36-1f0c9b6d2e48"


class DefinitionPromises:
    """A definition is unique, checked when it is made, and its records follow it."""

    # create, find, list

    def test_a_definition_comes_back_as_it_was_kept(self, memory: Memory, clock: FakeClock) -> None:
        made = memory.definitions.create(name="  Customer Profile ", slug="customer_profile", schema=PROFILE, ttl="30d")
        assert made.name == "Customer Profile"
        assert (made.slug, made.scope, made.ttl) == ("customer_profile", "global", 2_592_000)
        assert made.created_at == made.updated_at == clock.now()
        assert made.schema["properties"] == PROFILE["properties"]
        assert memory.definitions.get("customer_profile") == made
        assert memory.definitions.get(made.id) == made
        with pytest.raises(NotFound):
            memory.definitions.get("customer")

    def test_definitions_are_listed_oldest_first(self, memory: Memory) -> None:
        for slug in ("zebra", "ant", "mole"):
            memory.definitions.create(name=slug.title(), slug=slug, schema=PROFILE)
        memory.definitions.update("zebra", name="Zebra again")
        assert [one.slug for one in memory.definitions.list()] == ["zebra", "ant", "mole"]

    def test_changing_what_was_given_or_returned_changes_no_definition(self, memory: Memory) -> None:
        given: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        made = memory.definitions.create(name="Counter", slug="counter", schema=given)
        given["required"].append("other")
        given["properties"]["n"]["type"] = "string"
        made.schema["required"].append("another")
        memory.definitions.get("counter").schema["properties"].clear()
        kept = memory.definitions.get("counter").schema
        assert kept["required"] == ["n"]
        assert kept["properties"] == {"n": {"type": "integer"}}
        assert memory.scope(user="ada").set("counter", {"n": 1}).version == 1

    def test_name_and_slug_are_unique(self, memory: Memory, store: Store) -> None:
        memory.definitions.create(name="Profile", slug="profile", schema=PROFILE)
        other = memory.definitions.create(name="Other", slug="other", schema=PROFILE)
        before = snapshot(store)
        for attempt in (
            lambda: memory.definitions.create(name="Profile", slug="fresh", schema=PROFILE),
            lambda: memory.definitions.create(name=" Profile ", slug="fresh", schema=PROFILE),
            lambda: memory.definitions.create(name="Fresh", slug="profile", schema=PROFILE),
            lambda: memory.definitions.create(name="Fresh", slug="profile", schema=PROFILE, scope="thread"),
            lambda: memory.definitions.update("other", name="Profile"),
            lambda: memory.definitions.update("other", slug="profile"),
        ):
            with pytest.raises(AlreadyExists) as caught:
                attempt()
            assert caught.value.hint
        assert snapshot(store) == before
        assert memory.definitions.update("other", name="Other", slug="other").id == other.id
        memory.definitions.delete("profile")
        assert memory.definitions.create(name="Profile", slug="profile", schema=PROFILE).slug == "profile"

    def test_a_definition_gets_the_id_it_is_given(self, memory: Memory) -> None:
        made = memory.definitions.create(name="Profile", slug="profile", schema=PROFILE, id=GIVEN.upper())
        assert made.id == GIVEN
        for name in (GIVEN, GIVEN.upper(), "profile"):
            assert memory.definitions.get(name) == made
        assert memory.definitions.create(name="Other", slug="other", schema=PROFILE).id != GIVEN
        created = next(event for event in memory.ledger.events() if event.effect == "create_definition")
        assert created.resource == GIVEN

    def test_a_given_id_is_taken_once_in_a_tenant(self, memory: Memory, store: Store) -> None:
        memory.definitions.create(name="Profile", slug="profile", schema=PROFILE, id=GIVEN)
        before = snapshot(store)
        for id in (GIVEN, GIVEN.upper()):
            with pytest.raises(AlreadyExists) as caught:
                memory.definitions.create(name="Other", slug="other", schema=PROFILE, id=id)
            assert caught.value.details["field"] == "id"
        assert snapshot(store) == before
        # Records go with their definition, so the id means nothing more once it is deleted.
        memory.scope(user="ada").set("profile", {"language": "en"})
        memory.definitions.delete("profile")
        assert memory.definitions.create(name="Other", slug="other", schema=COUNTER, id=GIVEN).slug == "other"
        assert memory.definitions.records(GIVEN) == []
        assert memory.scope(user="ada").set("other", {"n": 1}).version == 1
        assert all(finding.ok for finding in memory.inspect())

    @pytest.mark.parametrize(
        "id",
        [
            "",
            "profile",
            "5c2e7f0a9d414b7e8a361f0c9b6d2e48",
            "{5c2e7f0a-9d41-4b7e-8a36-1f0c9b6d2e48}",
            "urn:uuid:5c2e7f0a-9d41-4b7e-8a36-1f0c9b6d2e48",
            " 5c2e7f0a-9d41-4b7e-8a36-1f0c9b6d2e48",
            "5c2e7f0a-9d41-4b7e-8a36-1f0c9b6d2e4",
            "٣c2e7f0a-9d41-4b7e-8a36-1f0c9b6d2e48",
            5,
            b"5c2e7f0a-9d41-4b7e-8a36-1f0c9b6d2e48",
        ],
    )
    def test_no_other_id_is_accepted_than_a_uuid(self, memory: Memory, store: Store, id: Any) -> None:
        before = snapshot(store)
        with pytest.raises(InvalidDefinition) as caught:
            memory.definitions.create(name="N", slug="s", schema=PROFILE, id=id)
        assert caught.value.path == "id"
        assert snapshot(store) == before
        assert memory.definitions.create(name="N", slug="s", schema=PROFILE, id=GIVEN).id == GIVEN

    @pytest.mark.parametrize("slug", ["a", "customer_profile", "_x_", "a__b", "123", "z" * 255])
    def test_a_slug_is_lower_case_letters_digits_and_underscores(self, memory: Memory, slug: str) -> None:
        memory.definitions.create(name="N", slug=slug, schema=PROFILE)
        assert memory.scope(user="ada").set(slug, {}).version == 1

    @pytest.mark.parametrize(
        "slug", ["", "A", "bad-slug", "a.b", "a b", " a", "é", "a\n", "a/b", "٣", "z" * 256, "blocks", None, 5]
    )
    def test_no_other_slug_is_accepted(self, memory: Memory, store: Store, slug: Any) -> None:
        before = snapshot(store)
        with pytest.raises(InvalidDefinition) as caught:
            memory.definitions.create(name="N", slug=slug, schema=PROFILE)
        assert caught.value.path == "slug"
        assert snapshot(store) == before

    @pytest.mark.parametrize("name", ["", "   ", "x" * 256, "a\0b", "a\u202eb", 5, None])
    def test_a_name_is_short_visible_text(self, memory: Memory, name: Any) -> None:
        with pytest.raises(InvalidDefinition) as caught:
            memory.definitions.create(name=name, slug="s", schema=PROFILE)
        assert caught.value.path == "name"
        assert memory.definitions.create(name="x" * 255, slug="s", schema=PROFILE).name == "x" * 255

    @pytest.mark.parametrize(
        ("kind", "ids"),
        [
            ("global", {"user": "ada"}),
            ("workflow", {"user": "ada", "workflow": "w"}),
            ("thread", {"user": "ada", "thread": "t"}),
            ("run", {"user": "ada", "run": "r"}),
            ("agent", {"user": "ada", "agent": "a"}),
            ("project", {"project": "p"}),
            ("tree", {"tree": "t"}),
            ("session", {"session": "s"}),
        ],
    )
    def test_a_definition_binds_the_scopes_of_its_kind_and_no_others(
        self, memory: Memory, kind: str, ids: dict[str, str]
    ) -> None:
        memory.definitions.create(name="Counter", slug="counter", schema=COUNTER, scope=kind)
        place = memory.scope(**ids)
        with pytest.raises(SchemaViolation):
            place.set("counter", "free")
        assert place.set("counter", {"n": 1}).version == 1
        for other in ({}, {"user": "ada", "agent": "a", "thread": "t"}, {"agent": "x"}):
            assert memory.scope(**other).set("counter", "free").version == 1
        assert [fact.scope for fact in memory.definitions.records("counter")] == [place.scope]

    def test_a_scope_that_is_none_is_refused(self, memory: Memory) -> None:
        for kind in ("", "user", "Global", "everyone", None):
            with pytest.raises(InvalidDefinition) as caught:
                memory.definitions.create(name="N", slug="s", schema=PROFILE, scope=kind)  # type: ignore[arg-type]
            assert caught.value.path == "scope"
        assert memory.definitions.create(name="N", slug="s", schema=PROFILE).scope == "global"

    @pytest.mark.parametrize("ttl", [0, -1, 1.5, "60", True, False, 10**12])
    def test_a_ttl_is_a_whole_number_of_seconds_from_one(
        self, memory: Memory, store: Store, clock: FakeClock, ttl: Any
    ) -> None:
        gate = Gate(store, clock=clock, ids=SystemIds(), limits=Limits(), embedders=EmbedderBook("hashing:16"))
        memory.definitions.create(name="Kept", slug="kept", schema=PROFILE, ttl=1)
        before = snapshot(store)
        create = CreateDefinition(scope=Scope(), title="N", slug="s", scope_kind="global", ttl=ttl, schema=PROFILE)
        with pytest.raises(InvalidDefinition) as caught:
            gate.perform(create, Caller())
        assert caught.value.path == "ttl"
        with pytest.raises(InvalidDefinition):
            gate.perform(UpdateDefinition(scope=Scope(), definition="kept", ttl=ttl), Caller())
        with pytest.raises(InvalidDuration):
            memory.definitions.create(name="N", slug="s", schema=PROFILE, ttl=ttl)
        assert snapshot(store) == before
        assert memory.definitions.get("kept").ttl == 1

    # records

    def test_records_are_those_of_every_owner(self, memory: Memory, clock: FakeClock) -> None:
        memory.definitions.create(name="Counter", slug="counter", schema=COUNTER)
        for n, user in enumerate(("bob", "ada", "cy")):
            memory.scope(user=user).set("counter", {"n": n})
        memory.scope(user="dan").set("counter", {"n": 9}, ttl=60)
        memory.scope(user="ada").set("other", {"n": 5})
        memory.scope(user="ada", agent="x").set("counter", "not a record")
        clock.advance(60)
        records = memory.definitions.records("counter")
        assert [(str(fact.scope), fact.value["n"]) for fact in records] == [
            ("user:ada", 1),
            ("user:bob", 0),
            ("user:cy", 2),
        ]
        assert len(memory.definitions.records("counter", limit=2)) == 2
        assert memory.scope(user="dan").get("counter") is None

    def test_the_records_of_two_owners_are_apart_and_those_of_one_are_shared(self, memory: Memory) -> None:
        memory.definitions.create(name="Counter", slug="counter", schema=COUNTER)
        memory.definitions.create(name="Step", slug="step", schema=COUNTER, scope="thread")
        memory.scope(user="ada").set("counter", {"n": 1})
        assert memory.scope(user="bob").get("counter") is None
        assert memory.scope(user="ada").value("counter") == {"n": 1}
        memory.scope(user="ada", thread="t1").set("step", {"n": 1})
        assert memory.scope(user="ada", thread="t2").get("step") is None
        assert memory.scope(user="ada", thread="t1").value("step") == {"n": 1}

    def test_a_record_is_written_whole(self, memory: Memory, store: Store) -> None:
        memory.definitions.create(name="Profile", slug="profile", schema=PROFILE)
        ada = memory.scope(user="ada")
        ada.set("profile", {"language": "en"})
        before = snapshot(store)
        for attempt in (lambda: ada.set("profile.language", "fr"), lambda: ada.create("profile.a.b", 1)):
            with pytest.raises(InvalidKey) as caught:
                attempt()
            assert "profile" in str(caught.value)
        assert snapshot(store) == before
        assert ada.set("profiler.language", "free").version == 1
        assert ada.update("profile", lambda value: {**value, "language": "fr"}).value == {"language": "fr"}
        assert memory.scope(user="ada", agent="x").set("profile.language", "free").version == 1

    def test_facts_that_stood_at_the_key_before_become_records(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ada.set("counter", {"n": 1})
        memory.definitions.create(name="Counter", slug="counter", schema=COUNTER)
        assert [fact.value for fact in memory.definitions.records("counter")] == [{"n": 1}]
        with pytest.raises(SchemaViolation):
            ada.set("counter", 5)

    # ttl

    def test_records_take_the_ttl_of_their_definition_at_each_write(self, memory: Memory, clock: FakeClock) -> None:
        memory.definitions.create(name="Counter", slug="counter", schema=COUNTER, ttl=60)
        ada = memory.scope(user="ada")
        ada.set("counter", {"n": 1})
        clock.advance(59)
        ada.set("counter", {"n": 2})
        clock.advance(59.999999)
        assert ada.value("counter") == {"n": 2}
        clock.advance(0.000001)
        assert ada.get("counter") is None
        assert present(ada.set("counter", {"n": 3}, ttl=10).expires_at).timestamp() < clock.now().timestamp() + 11

    def test_a_changed_ttl_is_for_the_next_write_only(self, memory: Memory, clock: FakeClock) -> None:
        memory.definitions.create(name="Counter", slug="counter", schema=COUNTER, ttl=60)
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        old = ada.set("counter", {"n": 1})
        memory.definitions.update("counter", ttl=10)
        assert present(ada.get("counter")).expires_at == old.expires_at
        bob.set("counter", {"n": 1})
        clock.advance(10)
        assert bob.get("counter") is None
        assert ada.value("counter") == {"n": 1}
        memory.definitions.update("counter", clear_ttl=True)
        assert memory.definitions.get("counter").ttl is None
        assert bob.set("counter", {"n": 2}).expires_at is None
        clock.advance(50)
        assert ada.get("counter") is None
        assert bob.value("counter") == {"n": 2}

    # change

    def test_an_update_changes_what_is_given_and_leaves_the_rest(self, memory: Memory, clock: FakeClock) -> None:
        made = memory.definitions.create(name="Profile", slug="profile", schema=PROFILE, ttl=60)
        clock.advance(5)
        renamed = memory.definitions.update("profile", name="Customer")
        assert renamed.name == "Customer"
        assert (renamed.id, renamed.slug, renamed.scope, renamed.ttl) == (made.id, "profile", "global", 60)
        assert renamed.schema == made.schema
        assert (renamed.created_at, renamed.updated_at) == (made.created_at, clock.now())
        assert memory.definitions.get(made.id) == renamed
        with pytest.raises(NotFound):
            memory.definitions.update("nothing", name="X")

    def test_a_renamed_definition_keeps_its_slug_and_records(self, memory: Memory) -> None:
        memory.definitions.create(name="Profile", slug="profile", schema=PROFILE)
        ada = memory.scope(user="ada")
        fact = ada.set("profile", {"language": "en"})
        memory.definitions.update("profile", name="Customer")
        assert ada.get("profile") == fact

    def test_records_follow_a_changed_slug(self, memory: Memory, clock: FakeClock) -> None:
        memory.definitions.create(name="Counter", slug="counter", schema=COUNTER)
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        written = ada.set("counter", {"n": 1}, ttl=600, domain="d")
        bob.set("counter", {"n": 2})
        bystander = memory.scope(user="ada", agent="x").set("counter", "no record")
        clock.advance(10)
        memory.definitions.update("counter", slug="tally")
        moved = present(ada.get("tally"))
        assert (moved.value, moved.domain) == ({"n": 1}, "d")
        assert moved.expires_at == written.expires_at
        assert bob.value("tally") == {"n": 2}
        assert (ada.get("counter"), bob.get("counter")) == (None, None)
        assert memory.scope(user="ada", agent="x").get("counter") == bystander
        assert len(memory.definitions.records("tally")) == 2
        assert [r.change for r in ada.history("counter")] == ["set", "deleted"]
        clock.advance(590)
        assert ada.get("tally") is None
        assert ada.set("counter", "free now").version == 3
        with pytest.raises(SchemaViolation):
            bob.set("tally", "not free")
        assert all(finding.ok for finding in memory.inspect())

    def test_a_slug_cannot_move_records_onto_other_facts(self, memory: Memory, store: Store) -> None:
        memory.definitions.create(name="Counter", slug="counter", schema=COUNTER)
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        ada.set("counter", {"n": 1})
        bob.set("counter", {"n": 2})
        bob.set("tally", "in the way")
        before = snapshot(store)
        with pytest.raises(AlreadyExists):
            memory.definitions.update("counter", slug="tally")
        assert snapshot(store) == before
        bob.delete("tally")
        memory.definitions.update("counter", slug="tally")
        assert (ada.value("tally"), bob.value("tally")) == ({"n": 1}, {"n": 2})

    def test_records_that_move_onto_an_older_history_keep_its_order(self, memory: Memory, clock: FakeClock) -> None:
        memory.definitions.create(name="Counter", slug="counter", schema=COUNTER)
        ada = memory.scope(user="ada")
        ada.set("counter", {"n": 1})
        clock.advance(10)
        for n in range(3):
            ada.set("tally", n)
        ada.delete("tally")
        memory.definitions.update("counter", slug="tally")
        history = ada.history("tally")
        assert [r.version for r in history] == [1, 2, 3, 4, 5]
        moments = [r.at for r in history]
        assert moments == sorted(set(moments))
        assert [ada.value("tally", as_of=moment) for moment in moments] == [0, 1, 2, None, {"n": 1}]

    def test_a_tightened_schema_is_for_the_next_write(self, memory: Memory) -> None:
        memory.definitions.create(name="Profile", slug="profile", schema=PROFILE)
        ada = memory.scope(user="ada")
        ada.set("profile", {"language": "en"})
        memory.definitions.update("profile", schema={**PROFILE, "required": ["preferred_name"]})
        assert ada.value("profile") == {"language": "en"}
        with pytest.raises(SchemaViolation) as caught:
            ada.set("profile", {"language": "fr"})
        assert caught.value.slug == "profile"
        assert ada.set("profile", {"language": "fr", "preferred_name": "Ada"}).version == 2

    def test_a_refused_update_changes_nothing(self, memory: Memory, store: Store) -> None:
        memory.definitions.create(name="Profile", slug="profile", schema=PROFILE)
        before = snapshot(store)
        for bad in ({"slug": "Bad"}, {"name": ""}, {"scope": "nowhere"}, {"schema": {"type": "array"}}):
            with pytest.raises(InvalidDefinition):
                memory.definitions.update("profile", **({"name": "Other"} | bad))  # type: ignore[arg-type]
        assert snapshot(store) == before

    # delete

    def test_deleting_a_definition_takes_its_records_with_it(self, memory: Memory) -> None:
        memory.definitions.create(name="Counter", slug="counter", schema=COUNTER)
        memory.definitions.create(name="Profile", slug="profile", schema=PROFILE)
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        for user in (ada, bob):
            user.set("counter", {"n": 1})
            user.set("profile", {"language": "en"})
            user.set("free", 1)
        agent = memory.scope(user="ada", agent="x")
        agent.set("counter", "no record")
        assert memory.definitions.delete("counter") == 2
        for user in (ada, bob):
            assert [fact.key for fact in user.list()] == ["free", "profile"]
            assert [r.change for r in user.history("counter")] == ["set", "deleted"]
        assert agent.value("counter") == "no record"
        assert [one.slug for one in memory.definitions.list()] == ["profile"]
        assert ada.set("counter", "free now").version == 3
        for attempt in (
            lambda: memory.definitions.delete("counter"),
            lambda: memory.definitions.records("counter"),
            lambda: memory.definitions.get("counter"),
        ):
            with pytest.raises(NotFound) as caught:
                attempt()
            assert "counter" in str(caught.value)
        assert all(finding.ok for finding in memory.inspect())

    # the order of checks

    def test_a_write_is_checked_in_a_fixed_order(self, memory: Memory) -> None:
        """Name before permission, permission before the scope's end, that before the schema, that before `expect`."""
        memory.definitions.create(name="S", slug="state", schema=COUNTER, scope="session")
        nobody = memory.acting_as("nobody")
        session = memory.scope(user="ada").session("s1")
        session.set("state", {"n": 1})
        bad: Any = {"n": "one"}
        with pytest.raises(SchemaViolation):
            session.set("state", bad, expect=99)
        with pytest.raises(Conflict):
            session.set("state", {"n": 2}, expect=99)
        with pytest.raises(InvalidKey):
            nobody.at(session.scope).set("bad..key", bad, expect=99)
        with pytest.raises(Denied):
            nobody.at(session.scope).set("state", bad, expect=99)
        session.end()
        with pytest.raises(Denied):
            nobody.at(session.scope).set("state", bad, expect=99)
        with pytest.raises(ScopeEnded):
            session.set("state", bad, expect=99)

    def test_definitions_need_their_own_permission(self, memory: Memory) -> None:
        memory.definitions.create(name="Counter", slug="counter", schema=COUNTER)
        agent = memory.acting_as("agent", policy=Policy.of(allow=("memory", "definitions.read")))
        assert [one.slug for one in agent.definitions.list()] == ["counter"]
        with pytest.raises(Denied) as caught:
            agent.definitions.delete("counter")
        assert caught.value.capability == "definitions.write"
        assert memory.definitions.get("counter").slug == "counter"

    @requires(Capability.RESTART)
    def test_definitions_bind_after_a_restart(self, memory: Memory, reopen: Callable[[], Memory]) -> None:
        made = memory.definitions.create(name="Counter", slug="counter", schema=COUNTER, ttl=60)
        memory.scope(user="ada").set("counter", {"n": 1})
        again = reopen()
        assert again.definitions.list() == [made]
        assert len(again.definitions.records("counter")) == 1
        with pytest.raises(SchemaViolation):
            again.scope(user="ada").set("counter", {"n": "one"})
        assert again.scope(user="ada").set("counter", {"n": 2}).version == 2
