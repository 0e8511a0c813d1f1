"""Definitions, the records that are written for them, and their schemas."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.engine.definitions import (
    Comparison,
    CreateDefinition,
    FindStale,
    ReadContract,
    ReadRecords,
    UpdateDefinition,
)
from memoranda.engine.embedding import EmbedderBook
from memoranda.engine.erasure import Sweep
from memoranda.engine.facts import GetFact, GetFacts, SetFact, WriteFacts
from memoranda.errors import (
    AlreadyExists,
    Conflict,
    Denied,
    IdempotencyMismatch,
    InvalidDefinition,
    InvalidDuration,
    InvalidKey,
    LimitExceeded,
    NotFound,
    SchemaViolation,
    ScopeEnded,
    StaleRecords,
    UsageError,
)
from memoranda.governance.gate import Caller, Gate
from memoranda.model.clock import SystemIds
from memoranda.model.definition import Definition, SchemaCheck
from memoranda.model.fact import Fact
from memoranda.model.limits import Limits
from memoranda.model.policy import Policy, Rule
from memoranda.model.scope import Scope
from memoranda.model.value import encode
from memoranda.store.base import Store
from memoranda.testing.conformance.base import Capability, assert_raises, present, requires, snapshot, unchanged
from memoranda.testing.fakes import FakeClock

PROFILE: dict[str, Any] = {
    "type": "object",
    "properties": {"preferred_name": {"type": "string"}, "language": {"type": "string"}},
}
COUNTER: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

AT_MOST_FIVE: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer", "maximum": 5}},
    "required": ["n"],
}


def _count(memory: Memory, **users: int) -> None:
    """Create the definition `counter`, and a record of each user."""
    memory.definitions.create(name="Counter", slug="counter", schema=COUNTER)
    for user, n in users.items():
        memory.scope(user=user).set("counter", {"n": n})


def lower(value: Any) -> Any:
    """Migrate a record of `counter`."""
    return {"n": value["n"] - 5}


def divide(value: Any) -> Any:
    """Migrate a record of `counter` that `lower` leaves too large."""
    return {"n": value["n"] // 5}


def _seeing(seen: list[Any]) -> Callable[[Any], Any]:
    """Return `lower`, which adds each value that it is given to a list."""

    def migrate(value: Any) -> Any:
        seen.append(value)
        return lower(value)

    return migrate


GIVEN = "5c2e7f0a-9d41-4b7e-8a36-1f0c9b6d2e48"


class PlantPot(msgspec.Struct):
    """A class of which records are made."""

    plant: str
    inside: PlantPot | None = None


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
        assert_raises(NotFound, memory.definitions.get, "customer")

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
        with unchanged(store):
            for attempt in (
                lambda: memory.definitions.create(name="Profile", slug="fresh", schema=PROFILE),
                lambda: memory.definitions.create(name=" Profile ", slug="fresh", schema=PROFILE),
                lambda: memory.definitions.create(name="Fresh", slug="profile", schema=PROFILE),
                lambda: memory.definitions.create(name="Fresh", slug="profile", schema=PROFILE, scope="thread"),
                lambda: memory.definitions.update("other", name="Profile"),
                lambda: memory.definitions.update("other", slug="profile"),
            ):
                assert_raises(AlreadyExists, attempt)
        assert memory.definitions.update("other", name="Other", slug="other").id == other.id
        memory.definitions.delete("profile")
        assert memory.definitions.create(name="Profile", slug="profile", schema=PROFILE).slug == "profile"

    @pytest.mark.parametrize(
        "name", ["customer profile", " CUSTOMER  PROFILE ", "Customer\u00a0Profile", "\uff23ustomer Profile"]
    )
    def test_names_are_unique_whatever_their_case_and_spaces(self, memory: Memory, store: Store, name: str) -> None:
        first = memory.definitions.create(name="Customer Profile", slug="customer_profile", schema=PROFILE)
        memory.definitions.create(name="Stra\u00dfe", slug="street", schema=PROFILE)
        with unchanged(store):
            for attempt in (
                lambda: memory.definitions.create(name=name, slug="fresh", schema=PROFILE),
                lambda: memory.definitions.update("street", name=name),
            ):
                error = assert_raises(AlreadyExists, attempt)
                assert (error.field, error.slug) == ("name", "customer_profile")
                assert "Customer Profile" in error.message
                assert first.id in error.hint
            assert_raises(AlreadyExists, memory.definitions.create, name="STRASSE", slug="fresh", schema=PROFILE)
        assert memory.definitions.update("customer_profile", name="CUSTOMER PROFILE").name == "CUSTOMER PROFILE"
        assert memory.definitions.create(name="Customer", slug="customer", schema=PROFILE).slug == "customer"

    def test_a_class_makes_a_definition_and_comes_back_from_its_records(self, memory: Memory) -> None:
        made = memory.definitions.create(model=PlantPot, ttl=60)
        assert (made.name, made.slug, made.ttl) == ("Plant Pot", "plant_pot", 60)
        ada = memory.scope(user="ada")
        record = ada.set("plant_pot", {"plant": "fern", "inside": {"plant": "moss"}})
        fern = PlantPot(plant="fern", inside=PlantPot(plant="moss"))
        assert record.as_model(PlantPot) == record.as_model() == fern
        assert present(ada.get("plant_pot")).as_model(PlantPot) == fern
        refused: list[Any] = [{"plant": 5}, {"plant": "fern", "x": 1}, {"plant": "fern", "inside": {}}]
        for bad in refused:
            assert_raises(SchemaViolation, ada.set, "plant_pot", bad)
        assert_raises(UsageError, ada.set("other", {"plant": "fern"}).as_model)
        error = assert_raises(SchemaViolation, ada.set("other", {"plant": 5}).as_model, PlantPot)
        assert error.slug == "other"
        named = memory.definitions.create(model=PlantPot, name="Second pot", slug="second_pot")
        assert (named.name, named.slug, named.schema) == ("Second pot", "second_pot", made.schema)

    def test_a_class_changes_the_schema_of_a_definition(self, memory: Memory) -> None:
        memory.definitions.create(name="Pot", slug="pot", schema=COUNTER)
        changed = memory.definitions.update("pot", model=PlantPot)
        assert (changed.name, changed.slug) == ("Pot", "pot")
        assert_raises(SchemaViolation, memory.scope(user="ada").set, "pot", {"n": 1})
        assert memory.scope(user="ada").set("pot", {"plant": "fern"}).as_model(PlantPot).plant == "fern"

    @pytest.mark.parametrize("model", [5, int, list[int], object])
    def test_a_class_that_describes_no_object_is_refused(self, memory: Memory, store: Store, model: Any) -> None:
        with unchanged(store):
            assert_raises(InvalidDefinition, memory.definitions.create, model=model, name="N", slug="s")
            assert_raises(InvalidDefinition, memory.definitions.create, model=PlantPot, schema=PROFILE)
        assert memory.definitions.create(model=PlantPot).slug == "plant_pot"

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
        with unchanged(store):
            for id in (GIVEN, GIVEN.upper()):
                with pytest.raises(AlreadyExists) as caught:
                    memory.definitions.create(name="Other", slug="other", schema=PROFILE, id=id)
                assert caught.value.details["field"] == "id"
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
        error = assert_raises(InvalidDefinition, memory.definitions.create, name="N", slug="s", schema=PROFILE, id=id)
        assert error.path == "id"
        assert snapshot(store) == before
        assert memory.definitions.create(name="N", slug="s", schema=PROFILE, id=GIVEN).id == GIVEN

    @pytest.mark.parametrize("slug", ["a", "customer_profile", "_x_", "a__b", "123", "z" * 255])
    def test_a_slug_is_lower_case_letters_digits_and_underscores(self, memory: Memory, slug: str) -> None:
        memory.definitions.create(name="N", slug=slug, schema=PROFILE)
        assert memory.scope(user="ada").set(slug, {}).version == 1

    @pytest.mark.parametrize(
        "slug", ["", "A", "bad-slug", "a.b", "a b", " a", "é", "a\n", "a/b", "٣", "z" * 256, None, 5]
    )
    def test_no_other_slug_is_accepted(self, memory: Memory, store: Store, slug: Any) -> None:
        with unchanged(store):
            error = assert_raises(InvalidDefinition, memory.definitions.create, name="N", slug=slug, schema=PROFILE)
            assert error.path == "slug"

    @pytest.mark.parametrize("name", ["", "   ", "x" * 256, "a\0b", "a\u202eb", 5, None])
    def test_a_name_is_short_visible_text(self, memory: Memory, name: Any) -> None:
        error = assert_raises(InvalidDefinition, memory.definitions.create, name=name, slug="s", schema=PROFILE)
        assert error.path == "name"
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
        assert_raises(SchemaViolation, place.set, "counter", "free")
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
        with unchanged(store):
            create = CreateDefinition(scope=Scope(), title="N", slug="s", scope_kind="global", ttl=ttl, schema=PROFILE)
            error = assert_raises(InvalidDefinition, gate.perform, create, Caller())
            assert error.path == "ttl"
            with pytest.raises(InvalidDefinition):
                gate.perform(UpdateDefinition(scope=Scope(), definition="kept", ttl=ttl), Caller())
            assert_raises(InvalidDuration, memory.definitions.create, name="N", slug="s", schema=PROFILE, ttl=ttl)
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

    def test_a_record_is_written_whole(self, memory: Memory, ada: ScopedMemory, store: Store) -> None:
        memory.definitions.create(name="Profile", slug="profile", schema=PROFILE)
        ada.set("profile", {"language": "en"})
        with unchanged(store):
            for attempt in (lambda: ada.set("profile.language", "fr"), lambda: ada.create("profile.a.b", 1)):
                error = assert_raises(InvalidKey, attempt)
                assert "profile" in str(error)
        assert ada.set("profiler.language", "free").version == 1
        assert ada.update("profile", lambda value: {**value, "language": "fr"}).value == {"language": "fr"}
        assert memory.scope(user="ada", agent="x").set("profile.language", "free").version == 1

    def test_existing_facts_of_the_key_become_records(self, memory: Memory, ada: ScopedMemory) -> None:
        ada.set("counter", {"n": 1})
        memory.definitions.create(name="Counter", slug="counter", schema=COUNTER)
        assert [fact.value for fact in memory.definitions.records("counter")] == [{"n": 1}]
        assert_raises(SchemaViolation, ada.set, "counter", 5)

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
        assert_raises(NotFound, memory.definitions.update, "nothing", name="X")

    def test_a_renamed_definition_keeps_its_slug_and_records(self, memory: Memory, ada: ScopedMemory) -> None:
        memory.definitions.create(name="Profile", slug="profile", schema=PROFILE)
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
        assert_raises(SchemaViolation, bob.set, "tally", "not free")
        assert all(finding.ok for finding in memory.inspect())

    def test_a_slug_cannot_move_records_onto_other_facts(self, memory: Memory, store: Store) -> None:
        memory.definitions.create(name="Counter", slug="counter", schema=COUNTER)
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        ada.set("counter", {"n": 1})
        bob.set("counter", {"n": 2})
        bob.set("tally", "in the way")
        with unchanged(store):
            assert_raises(AlreadyExists, memory.definitions.update, "counter", slug="tally")
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

    def test_a_tightened_schema_is_for_the_next_write(self, memory: Memory, ada: ScopedMemory) -> None:
        memory.definitions.create(name="Profile", slug="profile", schema=PROFILE)
        ada.set("profile", {"language": "en"})
        memory.definitions.update("profile", schema={**PROFILE, "required": ["preferred_name"]}, stale="keep")
        assert ada.value("profile") == {"language": "en"}
        error = assert_raises(SchemaViolation, ada.set, "profile", {"language": "fr"})
        assert error.slug == "profile"
        assert ada.set("profile", {"language": "fr", "preferred_name": "Ada"}).version == 2

    def test_a_refused_update_changes_nothing(self, memory: Memory, store: Store) -> None:
        memory.definitions.create(name="Profile", slug="profile", schema=PROFILE)
        with unchanged(store):
            for bad in ({"slug": "Bad"}, {"name": ""}, {"scope": "nowhere"}, {"schema": {"type": "array"}}):
                with pytest.raises(InvalidDefinition):
                    memory.definitions.update("profile", **({"name": "Other"} | bad))  # type: ignore[arg-type]

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
            error = assert_raises(NotFound, attempt)
            assert "counter" in str(error)
        assert all(finding.ok for finding in memory.inspect())

    # the order of checks

    def test_a_write_is_checked_in_a_fixed_order(self, memory: Memory) -> None:
        """Name before permission, permission before the scope's end, that before the schema, that before `expect`."""
        memory.definitions.create(name="S", slug="state", schema=COUNTER, scope="session")
        nobody = memory.acting_as("nobody")
        session = memory.scope(user="ada").session("s1")
        session.set("state", {"n": 1})
        bad: Any = {"n": "one"}
        assert_raises(SchemaViolation, session.set, "state", bad, expect=99)
        assert_raises(Conflict, session.set, "state", {"n": 2}, expect=99)
        assert_raises(InvalidKey, nobody.at(session.scope).set, "bad..key", bad, expect=99)
        assert_raises(Denied, nobody.at(session.scope).set, "state", bad, expect=99)
        session.end()
        assert_raises(Denied, nobody.at(session.scope).set, "state", bad, expect=99)
        assert_raises(ScopeEnded, session.set, "state", bad, expect=99)

    def test_definitions_need_their_own_permission(self, memory: Memory) -> None:
        memory.definitions.create(name="Counter", slug="counter", schema=COUNTER)
        agent = memory.acting_as("agent", policy=Policy.of(allow=("memory", "definitions.read")))
        assert [one.slug for one in agent.definitions.list()] == ["counter"]
        error = assert_raises(Denied, agent.definitions.delete, "counter")
        assert error.capability == "definitions.write.delete"
        assert memory.definitions.get("counter").slug == "counter"

    # records that a changed schema refuses

    def test_a_check_says_which_records_would_not_fit_and_changes_nothing(self, memory: Memory, store: Store) -> None:
        _count(memory, ada=1, bob=7, cy=9)
        before = snapshot(store)
        check = memory.definitions.update("counter", schema=AT_MOST_FIVE, check=True)
        assert (check.checked, check.count, check.breaks) == (3, 2, 2)
        assert [(one.scope, one.key, one.version, one.path) for one in check.records] == [
            ("user:bob", "counter", 1, "$.n"),
            ("user:cy", "counter", 1, "$.n"),
        ]
        assert all("5" in one.message for one in check.records)
        assert memory.definitions.update("counter", schema=COUNTER, check=True).count == 0
        assert snapshot(store) == before

    def test_a_change_that_records_do_not_fit_is_refused_with_how_many_and_which(
        self, memory: Memory, store: Store
    ) -> None:
        _count(memory, ada=1, bob=7)
        before = snapshot(store)
        error = assert_raises(StaleRecords, lambda: memory.definitions.update("counter", schema=AT_MOST_FIVE))
        assert (error.count, [one["scope"] for one in error.records]) == (1, ["user:bob"])
        assert "migrate" in error.hint.lower() and "keep" in error.hint
        assert snapshot(store) == before
        # A change that nothing breaks is not refused, and neither is one of something else.
        assert memory.definitions.update("counter", name="Tally").name == "Tally"
        wider = {**COUNTER, "properties": {**COUNTER["properties"], "of": {"type": "string"}}}
        assert "of" in memory.definitions.update("counter", schema=wider).schema["properties"]

    def test_kept_records_are_marked_listed_and_can_be_repaired(self, memory: Memory) -> None:
        _count(memory, ada=1, bob=7)
        memory.definitions.update("counter", schema=AT_MOST_FIVE, stale="keep")
        bob = memory.scope(user="bob")
        assert bob.value("counter") == {"n": 7}
        of_ada, of_bob = memory.definitions.records("counter")
        assert not of_ada.misfit and "$.n" in str(of_bob.misfit)
        assert [one.scope for one in memory.definitions.stale("counter").records] == ["user:bob"]
        # What did not fit before does not keep the schema from being changed again.
        memory.definitions.update("counter", schema={**AT_MOST_FIVE, "title": "Few"})
        assert_raises(SchemaViolation, lambda: bob.set("counter", {"n": 8}))
        bob.set("counter", {"n": 3})
        assert memory.definitions.stale("counter").count == 0
        assert not any(one.misfit for one in memory.definitions.records("counter"))

    def test_records_are_migrated_together_with_the_schema(self, memory: Memory, clock: FakeClock) -> None:
        _count(memory, ada=1, bob=7, cy=9)
        memory.scope(user="bob").set("counter", {"n": 8}, ttl="1h")
        ends = present(memory.scope(user="bob").get("counter")).expires_at

        check = memory.definitions.update("counter", schema=AT_MOST_FIVE, migrate=lower, check=True)
        assert [(one.before, one.after) for one in check.migrations] == [({"n": 8}, {"n": 3}), ({"n": 9}, {"n": 4})]
        assert memory.scope(user="bob").value("counter") == {"n": 8}
        memory.definitions.update("counter", schema=AT_MOST_FIVE, migrate=lower)
        values = {one.scope.path: one.value for one in memory.definitions.records("counter")}
        assert values == {"user:ada": {"n": 1}, "user:bob": {"n": 3}, "user:cy": {"n": 4}}
        bob = present(memory.scope(user="bob").get("counter"))
        assert (bob.version, bob.expires_at) == (3, ends)
        assert [one.value for one in memory.scope(user="bob").history("counter")] == [{"n": 7}, {"n": 8}, {"n": 3}]
        assert [event.effect for event in memory.ledger.tail(3)] == ["set_fact", "set_fact", "update_definition"]
        assert memory.ledger.verify().ok

    def test_a_migration_that_fails_for_one_record_changes_nothing(self, memory: Memory, store: Store) -> None:
        _count(memory, ada=6, bob=7, cy=20)
        before = snapshot(store)

        error = assert_raises(
            StaleRecords, lambda: memory.definitions.update("counter", schema=AT_MOST_FIVE, migrate=lower)
        )
        assert (error.count, [one["scope"] for one in error.records]) == (1, ["user:cy"])
        assert snapshot(store) == before
        memory.definitions.update("counter", schema=AT_MOST_FIVE, migrate=lower, stale="keep")
        values = {one.scope.path: (one.value, bool(one.misfit)) for one in memory.definitions.records("counter")}
        assert values == {
            "user:ada": ({"n": 1}, False),
            "user:bob": ({"n": 2}, False),
            "user:cy": ({"n": 20}, True),
        }
        memory.definitions.update("counter", migrate=divide)
        assert memory.scope(user="cy").value("counter") == {"n": 4}
        assert memory.definitions.stale("counter").count == 0

    def test_a_record_that_is_written_during_a_migration_is_migrated_again(self, memory: Memory) -> None:
        _count(memory, ada=6)
        writes = [8, 9]

        def write_and_lower(value: Any) -> Any:
            if writes:
                memory.scope(user="ada").set("counter", {"n": writes.pop()})
                memory.scope(user=f"late{len(writes)}").set("counter", {"n": 7})
            return lower(value)

        memory.definitions.update("counter", schema=AT_MOST_FIVE, migrate=write_and_lower)
        values = {one.scope.path: one.value for one in memory.definitions.records("counter")}
        assert values == {"user:ada": {"n": 3}, "user:late0": {"n": 2}, "user:late1": {"n": 2}}

    def test_a_record_that_is_written_while_others_are_compared_is_not_overlooked(
        self, memory: Memory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _count(memory, ada=1)
        read_all = Comparison.read_all

        def read_then_write(self: Comparison, *args: Any, **options: Any) -> None:
            read_all(self, *args, **options)
            memory.scope(user="late").set("counter", {"n": 7})

        monkeypatch.setattr(Comparison, "read_all", read_then_write)
        error = assert_raises(StaleRecords, lambda: memory.definitions.update("counter", schema=AT_MOST_FIVE))
        assert error.count == 1
        assert "maximum" not in str(memory.definitions.get("counter").schema)

    def test_more_records_than_a_transaction_takes_are_migrated_in_portions(self, memory: Memory, store: Store) -> None:
        _count(memory, ada=6, bob=7, cy=8)
        narrow = Memory(store, limits=Limits(migration=2)).definitions

        error = assert_raises(LimitExceeded, lambda: narrow.update("counter", schema=AT_MOST_FIVE, migrate=lower))
        assert (error.limit, error.actual) == (2, 3)
        narrow.update("counter", schema=AT_MOST_FIVE, stale="keep")
        narrow.update("counter", migrate=lower)
        assert [one.value["n"] for one in narrow.records("counter")] == [1, 2, 3]

    def test_a_check_migrates_only_the_records_that_it_shows(self, memory: Memory) -> None:
        _count(memory, **{f"user{n}": 6 for n in range(9)})
        seen: list[Any] = []
        check = memory.definitions.update("counter", schema=AT_MOST_FIVE, migrate=_seeing(seen), check=True)
        assert (check.count, len(check.records), len(check.migrations), len(seen)) == (9, 9, 5, 5)
        memory.definitions.update("counter", schema=AT_MOST_FIVE, migrate=_seeing(seen))
        assert len(seen) == 5 + 9

    def test_a_migration_stops_at_the_first_record_that_takes_too_much(self, memory: Memory) -> None:
        _count(memory, **{f"user{n}": 6 for n in range(9)})
        seen: list[Any] = []

        def migrate(value: Any) -> Any:
            seen.append(value)
            if len(seen) == 2:
                raise LimitExceeded("time is larger than the limit of 2", limit=2)
            return lower(value)

        change: dict[str, Any] = {"schema": AT_MOST_FIVE, "migrate": migrate}
        check = memory.definitions.update("counter", schema=AT_MOST_FIVE, migrate=migrate, check=True)
        assert [one.error is None for one in check.migrations] == [True, False]
        assert (check.count, len(seen)) == (9, 2)
        seen.clear()
        error = assert_raises(StaleRecords, memory.definitions.update, "counter", **change)
        assert (error.records[0]["scope"], len(seen)) == ("user:user1", 2) and "time" in str(error)
        # Of those that are kept, each may fail.
        seen.clear()
        memory.definitions.update("counter", **change, stale="keep")
        assert (memory.definitions.stale("counter").count, len(seen)) == (1, 9)

    def test_a_migration_has_one_time_limit_for_all_its_records(self, memory: Memory, store: Store) -> None:
        _count(memory, ada=6, bob=7)
        seen: list[Any] = []
        slow = Memory(store, limits=Limits(migration_seconds=0)).definitions
        for options in ({}, {"stale": "keep"}, {"check": True}):
            change: dict[str, Any] = {"schema": AT_MOST_FIVE, "migrate": _seeing(seen), **options}
            error = assert_raises(LimitExceeded, slow.update, "counter", **change)
            assert error.limit == 0 and "stale=keep" in error.hint
        assert not seen and "maximum" not in str(slow.get("counter").schema)
        slow.update("counter", schema=AT_MOST_FIVE, stale="keep")
        error = assert_raises(LimitExceeded, lambda: slow.update("counter", migrate=_seeing(seen)))
        assert not seen and "another call" in error.hint
        memory.definitions.update("counter", migrate=_seeing(seen))
        assert (len(seen), slow.stale("counter").count) == (2, 0)
        # Nothing is left to do, so nothing takes too long.
        slow.update("counter", migrate=_seeing(seen))

    @pytest.mark.parametrize("lowered_by", [5, 10])
    def test_a_migration_reads_and_makes_a_limited_number_of_bytes_at_once(
        self, memory: Memory, store: Store, lowered_by: int
    ) -> None:
        def sink(value: Any) -> Any:
            return {"n": value["n"] - lowered_by}

        # A value takes 7 bytes, and 8 with a sign: one limit is for what is read, the other for what is made.
        limit = 20 if lowered_by == 5 else 21
        _count(memory, ada=6, bob=7, cy=8)
        narrow = Memory(store, limits=Limits(migration_bytes=limit)).definitions
        error = assert_raises(LimitExceeded, narrow.update, "counter", schema=AT_MOST_FIVE, migrate=sink)
        assert error.limit == limit < error.actual
        narrow.update("counter", schema=AT_MOST_FIVE, stale="keep")
        narrow.update("counter", migrate=sink)
        assert narrow.stale("counter").count == 0

    def test_a_repair_keeps_what_was_migrated_in_time(
        self, memory: Memory, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _count(memory, ada=6, bob=7, cy=8)
        memory.definitions.update("counter", schema=AT_MOST_FIVE, stale="keep")
        here = Memory(store).definitions
        moments = iter((0.0, 1.0, 2.0))
        monkeypatch.setattr("memoranda.api.tenant.monotonic", lambda: next(moments, 1_000.0))
        error = assert_raises(LimitExceeded, lambda: here.update("counter", migrate=lower))
        assert "is kept" in error.hint
        assert [one.scope for one in memory.definitions.stale("counter").records] == ["user:cy"]

    def test_who_may_not_read_records_learns_how_many_and_not_which(self, memory: Memory) -> None:
        _count(memory, ada=1, bob=7)
        clerk = memory.acting_as("clerk", policy=Policy.of(allow=("definitions",)))
        check = clerk.definitions.update("counter", schema=AT_MOST_FIVE, check=True)
        assert (check.count, check.records) == (1, ())
        error = assert_raises(StaleRecords, lambda: clerk.definitions.update("counter", schema=AT_MOST_FIVE))
        assert (error.count, error.records) == (1, []) and "bob" not in str(error)
        before = memory.definitions.list(), memory.definitions.records("counter")
        assert_raises(Denied, lambda: clerk.definitions.stale("counter"))
        assert_raises(
            Denied,
            lambda: clerk.definitions.update("counter", schema=AT_MOST_FIVE, migrate=lambda value: {"n": 0}),
        )
        reader = memory.acting_as("reader", policy=Policy.of(allow=("definitions.read",)))
        assert_raises(Denied, lambda: reader.definitions.update("counter", schema=AT_MOST_FIVE, check=True))
        assert (memory.definitions.list(), memory.definitions.records("counter")) == before
        assert clerk.definitions.update("counter", schema=AT_MOST_FIVE, stale="keep").slug == "counter"

    def test_a_check_needs_the_same_rights_for_the_slug_that_a_change_would_give(self, memory: Memory) -> None:
        memory.definitions.create(name="Kiln", slug="kiln", schema=COUNTER, scope="agent")
        for user, n in (("ada", 1), ("bob", 7)):
            memory.scope(user=user).set("salary", {"n": n})

        def check(actor: Memory, migrate: Callable[[Any], Any] | None = None) -> SchemaCheck:
            return actor.definitions.update(
                "kiln", slug="salary", scope="global", schema=AT_MOST_FIVE, migrate=migrate, check=True
            )

        on_kiln = [Rule("allow", capability, path="kiln") for capability in ("definitions", "memory.read")]
        update, read = (Rule("allow", name, path="salary") for name in ("definitions.write.update", "memory.read"))
        everywhere = (Rule("allow", "definitions"), Rule("allow", "memory.read"))
        denial = Rule("deny", "definitions.write.update", path="salary")
        for rules in (on_kiln, (*on_kiln, read), (*everywhere, denial)):
            stranger = memory.acting_as("stranger", policy=Policy(rules=tuple(rules)))
            for migrate in (None, lower):
                error = assert_raises(Denied, check, stranger, migrate=migrate)
                assert error.capability == "definitions.write.update"
        # Who may change both, and not read the other, learns how many and not which.
        counter = memory.acting_as("counter", policy=Policy(rules=(*on_kiln, update)))
        assert (check(counter).count, check(counter).records) == (1, ())
        error = assert_raises(Denied, lambda: check(counter, migrate=lower))
        assert error.capability == "memory.read"
        shared = Scope(memory.definitions.get("kiln").tenant)
        change = UpdateDefinition(scope=shared, definition="kiln", slug="salary", scope_kind="global")
        find = FindStale(scope=shared, key="kiln", change=change, names_records=False, values=True)
        assert_raises(Denied, lambda: counter.perform(find))
        # An id is not a way around a rule, which names a slug.
        by_id = FindStale(scope=shared, key=memory.definitions.get("kiln").id)
        closed = Policy(rules=(*everywhere, Rule("deny", "memory.read", path="kiln")))
        assert_raises(NotFound, lambda: memory.acting_as("closed", policy=closed).perform(by_id))
        # Who may do both sees both.
        reader = memory.acting_as("reader", policy=Policy(rules=(*on_kiln, update, read)))
        assert [one.scope for one in check(reader).records] == ["user:bob"]
        assert [one.after for one in check(reader, migrate=lower).migrations] == [{"n": 2}]

    def test_errors_do_not_name_what_the_caller_may_not_read(self, memory: Memory) -> None:
        secret = memory.definitions.create(name="Secret Plan", slug="plan", schema=COUNTER)
        _count(memory, ada=1, bob=2)
        memory.scope(user="bob").set("tally", 1)
        hidden = Rule("deny", "definitions.read", path="plan")
        clerk = memory.acting_as("clerk", policy=Policy(rules=(Rule("allow", "definitions"), hidden)))
        reader = memory.acting_as("reader", policy=Policy.of(allow=("definitions", "memory.read")))

        def errors_of(handle: Memory) -> list[str]:
            """Return what is said about a name and about a slug that cannot be used."""
            found = [
                assert_raises(
                    AlreadyExists, lambda: handle.definitions.create(name="secret plan", slug="mine", schema=COUNTER)
                ),
                assert_raises(AlreadyExists, lambda: handle.definitions.update("counter", slug="tally")),
            ]
            return [f"{error} {error.hint} {error.details}" for error in found]

        of_clerk, of_reader = errors_of(clerk), errors_of(reader)
        for word, place in (("Secret Plan", 0), (secret.id, 0), ("`plan`", 0), ("bob", 1)):
            assert word not in of_clerk[place] and word in of_reader[place]

    def test_a_hidden_definition_answers_as_an_unknown_one(self, memory: Memory) -> None:
        plan = memory.definitions.create(name="Plan", slug="plan", schema=COUNTER)
        memory.definitions.create(name="Kiln", slug="kiln", schema=COUNTER)
        other = GIVEN
        everywhere, on_kiln = Rule("allow", "definitions"), Rule("allow", "definitions", path="kiln")
        denial = Rule("deny", "definitions", path="plan")

        def answer(handle: Memory, name: str, *, deletes: bool) -> str:
            try:
                handle.definitions.delete(name) if deletes else handle.definitions.update(name, ttl=5)
            except (Denied, NotFound) as error:
                return f"{type(error)} {error} {error.hint}".replace(name, "NAME")
            return "done"

        for rules in ((on_kiln,), (everywhere, denial)):
            handle = memory.acting_as("clerk", policy=Policy(rules=rules))
            for deletes in (False, True):
                assert answer(handle, plan.id, deletes=deletes) == answer(handle, other, deletes=deletes) != "done"
            assert answer(handle, "kiln", deletes=False) == "done"
        limited = memory.acting_as("clerk", policy=Policy(rules=(on_kiln,)))
        for deletes in (False, True):
            assert answer(limited, "plan", deletes=deletes) == answer(limited, "none", deletes=deletes) != "done"
        assert memory.definitions.get("plan") == plan

    def test_records_of_any_scope_need_the_right_to_read_them_in_every_scope(self, memory: Memory) -> None:
        _count(memory, ada=1, bob=7)
        own = memory.scope(user="ada").scope
        rules = tuple(Rule("allow", capability, own) for capability in ("memory.read", "definitions"))
        ada = memory.acting_as("ada", policy=Policy(rules=rules))
        everyone = memory.acting_as("everyone", policy=Policy.of(allow=("memory.read", "definitions.read")))
        for effect in (ReadRecords(scope=own, definition="counter"), FindStale(scope=own, key="counter")):
            assert_raises(Denied, ada.perform, effect)
            assert everyone.perform(effect)
        assert ada.at(own).value("counter") == {"n": 1}

    def test_a_check_refuses_what_the_change_would_be_refused_for(self, memory: Memory) -> None:
        _count(memory, ada=1)
        memory.definitions.create(name="Profile", slug="profile", schema=PROFILE)
        for taken in ({"slug": "profile"}, {"name": "Profile"}):
            change: dict[str, Any] = {**taken, "check": True}
            assert_raises(AlreadyExists, memory.definitions.update, "counter", **change)
        assert memory.definitions.update("counter", slug="tally", name="Tally", check=True).checked == 1

    @requires(Capability.RESTART)
    def test_definitions_bind_after_a_restart(self, memory: Memory, reopen: Callable[[], Memory]) -> None:
        made = memory.definitions.create(name="Counter", slug="counter", schema=COUNTER, ttl=60)
        memory.scope(user="ada").set("counter", {"n": 1})
        again = reopen()
        assert again.definitions.list() == [made]
        assert len(again.definitions.records("counter")) == 1
        assert_raises(SchemaViolation, again.scope(user="ada").set, "counter", {"n": "one"})
        assert again.scope(user="ada").set("counter", {"n": 2}).version == 2


GARDEN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "owner": {"type": "string"},
        "beds": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": True}},
        "tools": {"type": "array", "items": {"type": "string"}},
        "note": {"type": ["string", "null"]},
    },
}


class RecordPromises:
    """An update of a record does what its definition says at that moment, and loses nothing of another."""

    # mode

    def test_a_mode_is_kept_with_its_definition(self, memory: Memory) -> None:
        assert memory.definitions.create(name="Plain", slug="plain", schema=GARDEN).mode == "replace"
        made = _garden(memory)
        assert made.mode == memory.definitions.get("garden").mode == "merge"
        said = memory.definitions.create(name="Said", slug="said", schema={**GARDEN, "x-mode": "merge"})
        assert said.mode == "merge"
        assert memory.definitions.update("said", schema=GARDEN).mode == "merge"
        assert memory.definitions.update("said", name="Said again").mode == "merge"
        changed = memory.definitions.update("said", mode="replace")
        assert changed.mode == "replace"
        assert changed.schema == memory.definitions.get("plain").schema
        assert memory.definitions.update("said", schema={**GARDEN, "x-mode": "merge"}).mode == "merge"

    def test_no_other_mode_is_accepted(self, memory: Memory, store: Store) -> None:
        _garden(memory)
        with unchanged(store):
            bad: Any = "append"
            for attempt in (
                lambda: memory.definitions.create(name="N", slug="n", schema=GARDEN, mode=bad),
                lambda: memory.definitions.create(name="N", slug="n", schema={**GARDEN, "x-mode": bad}),
                lambda: memory.definitions.update("garden", mode=bad),
                lambda: memory.definitions.update("garden", schema={**GARDEN, "x-mode": 5}),
            ):
                error = assert_raises(InvalidDefinition, attempt)
                assert "mode" in error.path
        assert memory.definitions.get("garden").mode == "merge"

    # updates

    def test_an_update_takes_the_place_of_a_record(self, memory: Memory, ada: ScopedMemory) -> None:
        garden = memory.definitions.create(name="Garden", slug="garden", schema=GARDEN)
        _update(memory, ada, garden, {"owner": "Ada", "note": "dry"})
        assert _update(memory, ada, garden, {"note": "wet"}).value == {"note": "wet"}
        assert ada.value("garden") == {"note": "wet"}

    def test_a_merge_changes_the_fields_it_names_at_every_level(self, memory: Memory, ada: ScopedMemory) -> None:
        garden = _garden(memory)
        first = {"owner": "Ada", "beds": {"a": {"peas": 3, "soil": {"ph": 6}}}, "tools": ["hoe", "rake"], "note": "dry"}
        _update(memory, ada, garden, first)
        change = {"beds": {"a": {"soil": {"wet": True}}, "b": {"leek": 1}}, "tools": ["fork"], "note": None}
        merged = _update(memory, ada, garden, change)
        assert merged.value == {
            "owner": "Ada",
            "beds": {"a": {"peas": 3, "soil": {"ph": 6, "wet": True}}, "b": {"leek": 1}},
            "tools": ["fork"],
            "note": None,
        }
        assert ada.get("garden") == merged
        assert [revision.value for revision in ada.history("garden")] == [first, merged.value]
        assert _update(memory, ada, garden, {"beds": {"a": {"soil": "none"}}}).value["beds"]["a"]["soil"] == "none"
        assert all(finding.ok for finding in memory.inspect())

    def test_a_plain_write_replaces_whatever_the_mode(self, memory: Memory, ada: ScopedMemory) -> None:
        garden = _garden(memory)
        _update(memory, ada, garden, {"owner": "Ada", "note": "dry"})
        ada.set("garden", {"note": "wet"})
        assert ada.value("garden") == {"note": "wet"}
        assert _update(memory, ada, garden, {"owner": "Bo"}).value == {"note": "wet", "owner": "Bo"}

    def test_what_a_merge_comes_to_is_checked(self, memory: Memory, ada: ScopedMemory, store: Store) -> None:
        garden = memory.definitions.create(
            name="Garden", slug="garden", schema={**GARDEN, "required": ["owner"]}, mode="merge"
        )
        assert_raises(SchemaViolation, _update, memory, ada, garden, {"note": "dry"})
        _update(memory, ada, garden, {"owner": "Ada"})
        with unchanged(store):
            for bad in ({"owner": 5}, {"weeds": 1}, "no object"):
                assert_raises(SchemaViolation, _update, memory, ada, garden, bad)
        assert _update(memory, ada, garden, {"note": "dry"}).value == {"owner": "Ada", "note": "dry"}

    def test_a_record_does_not_grow_beyond_the_limit_by_merging(self, open_beside: Callable[..., Memory]) -> None:
        memory = open_beside(limits=Limits(value_bytes=1_000))
        garden, ada = _garden(memory), memory.scope(user="ada")
        _update(memory, ada, garden, {"owner": "a" * 600})
        assert_raises(LimitExceeded, _update, memory, ada, garden, {"note": "b" * 600})
        assert ada.value("garden") == {"owner": "a" * 600}
        assert _update(memory, ada, garden, {"note": "b" * 300}).version == 2

    def test_an_update_begins_the_ttl_anew_and_an_expired_record_lends_nothing(
        self, memory: Memory, ada: ScopedMemory, clock: FakeClock
    ) -> None:
        garden = memory.definitions.create(name="Garden", slug="garden", schema=GARDEN, mode="merge", ttl=60)
        _update(memory, ada, garden, {"owner": "Ada"})
        clock.advance(59)
        _update(memory, ada, garden, {"note": "dry"})
        clock.advance(59.999999)
        assert ada.value("garden") == {"owner": "Ada", "note": "dry"}
        clock.advance(0.000001)
        assert ada.get("garden") is None
        assert _update(memory, ada, garden, {"note": "new"}).value == {"note": "new"}
        assert ada.value("garden") == {"note": "new"}
        assert len(memory.definitions.records("garden")) == 1

    def test_updates_of_one_batch_build_on_each_other(self, memory: Memory, ada: ScopedMemory) -> None:
        garden = _garden(memory)
        writes = tuple(_write(ada.scope, garden, value) for value in ({"owner": "Ada"}, {"note": "dry"}))
        last: Fact = memory.perform(WriteFacts(scope=ada.scope, writes=writes))[-1]
        assert last.value == ada.value("garden") == {"owner": "Ada", "note": "dry"}

    def test_merges_at_once_lose_nothing(self, memory: Memory, second: Memory) -> None:
        garden, count = _garden(memory), 20
        together = threading.Barrier(4)

        def write(number: int) -> None:
            handle = (memory, second)[number % 2]
            together.wait()
            for turn in range(count):
                bed = {f"{number}-{turn}": {"turn": turn}}
                _update(handle, handle.scope(user="ada"), garden, {"beds": bed})

        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        beds = memory.scope(user="ada").value("garden")["beds"]
        assert beds == {f"{number}-{turn}": {"turn": turn} for number in range(4) for turn in range(count)}

    def test_an_update_is_refused_once_its_definition_speaks_about_something_else(
        self, memory: Memory, ada: ScopedMemory, store: Store
    ) -> None:
        garden = _garden(memory)
        _update(memory, ada, garden, {"owner": "Ada"})
        agent = memory.scope(user="ada", agent="x")
        assert_raises(NotFound, _update, memory, agent, garden, {"owner": "Ada"})
        for change in (
            lambda: memory.definitions.update(garden.id, scope="thread"),
            lambda: memory.definitions.update(garden.id, scope="global", slug="plot"),
            lambda: memory.definitions.delete(garden.id),
            lambda: memory.definitions.create(name="Garden", slug="garden", schema=GARDEN),
        ):
            change()
            with unchanged(store):
                error = assert_raises(NotFound, _update, memory, ada, garden, {"owner": "Bo"})
                assert (error.slug, error.value) == ("garden", garden.id)
        assert _update(memory, ada, memory.definitions.get("garden"), {"owner": "Bo"}).value == {"owner": "Bo"}

    def test_the_contract_of_a_key_is_read_with_the_right_to_read_the_key(
        self, memory: Memory, ada: ScopedMemory
    ) -> None:
        garden = _garden(memory)
        agent = memory.acting_as("agent", policy=Policy.of(allow=("memory.read",), access={"closed": "write"}))
        assert agent.perform(ReadContract(scope=ada.scope, key="garden")) == garden.id
        assert agent.perform(ReadContract(scope=ada.scope, key="other")) is None
        assert agent.perform(ReadContract(scope=memory.scope(project="p").scope, key="garden")) is None
        assert_raises(Denied, agent.perform, ReadContract(scope=ada.scope, key="closed"))
        memory.definitions.delete(garden.id)
        assert agent.perform(ReadContract(scope=ada.scope, key="garden")) is None

    # several at once

    def test_several_facts_are_read_in_the_order_asked_for(self, memory: Memory, clock: FakeClock) -> None:
        ada, agent = memory.scope(user="ada"), memory.scope(user="ada", agent="x")
        first, second = ada.set("a", 1), agent.set("b", 2)
        ada.set("short", 3, ttl=60)
        clock.advance(60)
        places = [(agent.scope, "b"), (ada.scope, "none"), (ada.scope, "a"), (ada.scope, "short"), (ada.scope, "b")]
        gets = tuple(GetFact(scope=scope, key=key) for scope, key in places)
        assert memory.perform(GetFacts(scope=ada.scope, gets=gets)) == [second, None, first, None, None]
        elsewhere = GetFact(scope=Scope.of(tenant="other", user="ada"), key="a")
        assert_raises(UsageError, memory.perform, GetFacts(scope=ada.scope, gets=(elsewhere,)))

    def test_reading_several_facts_needs_the_right_to_each(self, memory: Memory, ada: ScopedMemory) -> None:
        open_, closed = ada.set("open", 1), ada.set("closed", 2)
        agent = memory.acting_as("agent", policy=Policy.of(allow=("memory.read",), access={"closed": "write"}))
        gets = {fact.key: GetFact(scope=ada.scope, key=fact.key) for fact in (open_, closed)}
        assert agent.perform(GetFacts(scope=ada.scope, gets=(gets["open"],))) == [open_]
        assert_raises(Denied, agent.perform, GetFacts(scope=ada.scope, gets=tuple(gets.values())))

    def test_several_definitions_are_deleted_together_or_not_at_all(self, memory: Memory, store: Store) -> None:
        for slug in ("one", "two", "three"):
            memory.definitions.create(name=slug, slug=slug, schema=GARDEN)
            memory.scope(user="ada").set(slug, {"owner": "Ada"})
        with unchanged(store):
            error = assert_raises(NotFound, memory.definitions.delete, "one", "four", "two", "five")
            assert error.missing == ["four", "five"]
            assert_raises(UsageError, memory.definitions.delete)
        assert memory.definitions.delete("one", memory.definitions.get("two").id, "one") == 2
        assert [one.slug for one in memory.definitions.list()] == ["three"]
        assert [fact.key for fact in memory.scope(user="ada").list()] == ["three"]
        assert all(finding.ok for finding in memory.inspect())

    # ends

    def test_a_sweep_counts_the_records_of_each_definition(self, memory: Memory, clock: FakeClock) -> None:
        memory.scope(user="ada").set("garden.bed", "older than the definition", ttl=60)
        for slug in ("garden", "shed"):
            memory.definitions.create(name=slug, slug=slug, schema=GARDEN, ttl=60)
        for user in ("ada", "bo"):
            memory.scope(user=user).set("garden", {"owner": user})
        memory.scope(user="ada").set("shed", {})
        memory.scope(user="cy").set("garden", {}, ttl=61)
        memory.scope(user="ada").set("free", 1, ttl=60)
        memory.scope(user="ada", agent="x").set("garden", "no record", ttl=60)
        clock.advance(60)
        swept = memory.perform(Sweep(scope=Scope()))
        assert (swept.facts, swept.records) == (6, {"garden": 2, "shed": 1})
        assert [str(fact.scope) for fact in memory.definitions.records("garden")] == ["user:cy"]
        assert memory.perform(Sweep(scope=Scope())).records == {}

    def test_an_update_is_another_request_than_a_set_of_the_same_value(self, memory: Memory) -> None:
        garden, scope = _garden(memory), Scope.of(user="ada")
        update = msgspec.structs.replace(_write(scope, garden, {"note": "dry"}), idempotency_key="once")
        first = memory.perform(update)
        assert memory.perform(update) == first, "the same request gives the same"
        assert_raises(IdempotencyMismatch, memory.perform, msgspec.structs.replace(update, record=None))

    @requires(Capability.RESTART)
    def test_a_mode_holds_after_a_restart(self, memory: Memory, reopen: Callable[[], Memory]) -> None:
        garden = _garden(memory)
        _update(memory, memory.scope(user="ada"), garden, {"owner": "Ada"})
        again = reopen()
        assert again.definitions.list() == [garden]
        merged = _update(again, again.scope(user="ada"), garden, {"note": "dry"})
        assert merged.value == {"owner": "Ada", "note": "dry"}


def _garden(memory: Memory) -> Definition:
    return memory.definitions.create(name="Garden", slug="garden", schema=GARDEN, mode="merge")


def _write(scope: Scope, definition: Definition, value: Any) -> SetFact:
    return SetFact(scope=scope, key="garden", payload=msgspec.Raw(encode(value)), record=definition.id)


def _update(memory: Memory, place: ScopedMemory, definition: Definition, value: Any) -> Fact:
    return memory.perform(_write(place.scope, definition, value))


Json = dict[str, Any]
TEXT: Json = {"type": "string"}
NUMBER: Json = {"type": "integer"}


def _object(*, rest: Json | None = None, **properties: Any) -> Json:
    """Return the schema of an object with these properties, and the `rest` of its words."""
    return {"type": "object", "properties": properties, **(rest or {})}


def _ref(part: str) -> Json:
    return {"$ref": f"#/$defs/{part}"}


def _needs(*names: str) -> Json:
    return {"required": list(names)}


def _tagged(kind: str, **properties: Any) -> Json:
    return _object(kind={"const": kind}, rest=_needs("kind"), **properties)


_NAME: Json = {"$anchor": "name", "type": "string"}
GUEST = _object(meal={"type": "string", "default": "soup"}, name={})
ADDRESS = _object(city=TEXT)

# A schema, values that it accepts, and values that it refuses with the path of the fault; None is any path.
SCHEMAS: dict[str, tuple[Json, list[Any], list[tuple[Any, str | None]]]] = {
    "an unexpected property is refused at every level": (
        _object(name=TEXT, home=ADDRESS, pets={"type": "array", "items": _object(name=TEXT)}),
        [{"name": "Ada", "home": {"city": "London"}, "pets": [{"name": "Dog"}]}],
        [
            ({"name": "Ada", "x": 1}, "$"),
            ({"home": {"city": "London", "x": 1}}, "$.home"),
            ({"pets": [{"name": "Dog"}, {"name": "Cat", "x": 1}]}, "$.pets[1]"),
        ],
    ),
    "an explicit additionalProperties is honoured": (
        _object(
            closed=_object(a=TEXT),
            numbers=_object(rest={"additionalProperties": NUMBER}),
            rest={"additionalProperties": True},
        ),
        [{"anything": [1, 2], "numbers": {"x": 1}}],
        [({"closed": {"b": 1}}, "$.closed"), ({"numbers": {"x": "one"}}, "$.numbers.x")],
    ),
    "an object without listed properties is open": (
        _object(bag={"type": "object"}),
        [{"bag": {"anything": 1}}],
        [({"bag": 5}, "$.bag")],
    ),
    "parts joined by allOf are strict as a whole": (
        _object(id=TEXT, rest={"allOf": [{"properties": {"a": TEXT}}, {"properties": {"b": TEXT}, "required": ["b"]}]}),
        [{"id": "1", "a": "x", "b": "y"}],
        [({"id": "1", "a": "x", "b": "y", "c": "z"}, None), ({"id": "1", "a": "x"}, None)],
    ),
    "allOf is strict as a whole even when the root lists nothing": (
        {"type": "object", "allOf": [{"properties": {"a": TEXT}}, {"properties": {"b": TEXT}}]},
        [{"a": "x", "b": "y"}],
        [({"a": "x", "c": "z"}, None)],
    ),
    "a shared part is strict where it is referred to": (
        _object(home=_ref("address"), rest={"$defs": {"address": ADDRESS}}),
        [{"home": {"city": "London"}}],
        [({"home": {"city": "London", "x": 1}}, "$.home")],
    ),
    "a shared part is strict even when the root is composed": (
        _object(
            home=_ref("address"),
            rest={"allOf": [_ref("base")], "$defs": {"base": _object(id=TEXT), "address": ADDRESS}},
        ),
        [{"id": "1", "home": {"city": "London"}}],
        [({"id": "1", "other": 1}, None), ({"id": "1", "home": {"city": "London", "x": 1}}, "$.home")],
    ),
    "a choice of shapes is strict in each": (
        _object(
            pet={
                "oneOf": [
                    _object(bark=TEXT, rest={"required": ["bark"]}),
                    _object(purr=TEXT, rest={"required": ["purr"]}),
                ]
            }
        ),
        [{"pet": {"bark": "woof"}}, {"pet": {"purr": "rrr"}}],
        [({"pet": {"bark": "woof", "x": 1}}, None)],
    ),
    "dependent parts do not refuse their neighbours": (
        _object(
            card=TEXT,
            name=TEXT,
            rest={"dependentSchemas": {"card": {"properties": {"address": TEXT}, "required": ["address"]}}},
        ),
        [{"name": "Ada"}, {"name": "Ada", "card": "1234", "address": "London"}],
        [({"name": "Ada", "card": "1234"}, None), ({"name": "Ada", "x": 1}, None)],
    ),
    "an older draft is strict too": (
        _object(
            id=TEXT,
            rest={"$schema": "http://json-schema.org/draft-07/schema#", "allOf": [{"properties": {"a": TEXT}}]},
        ),
        [{"id": "1", "a": "x"}],
        [({"id": "1", "x": 1}, None)],
    ),
    "alternatives may apply together": (
        {"anyOf": [_object(email=TEXT, rest=_needs("email")), _object(phone=TEXT, rest=_needs("phone"))]},
        [{"email": "e"}, {"phone": "p"}, {"email": "e", "phone": "p"}],
        [({"email": "e", "fax": "f"}, "$"), ({"fax": "f"}, "$"), ({}, "$"), ([], "$")],
    ),
    "alternatives beside properties": (
        _object(id=TEXT, rest={"oneOf": [_object(a=TEXT, rest=_needs("a")), _object(b=TEXT, rest=_needs("b"))]}),
        [{"id": "1", "a": "x"}, {"b": "y"}],
        [({"id": "1"}, "$"), ({"a": "x", "b": "y"}, "$"), ({"a": "x", "c": "z"}, "$")],
    ),
    "alternatives that a constant tells apart are closed one by one": (
        {"oneOf": [_ref("cat"), _ref("dog")], "$defs": {"cat": _tagged("cat", lives=NUMBER), "dog": _tagged("dog")}},
        [{"kind": "cat", "lives": 9}, {"kind": "dog"}],
        [({"kind": "dog", "lives": 9}, "$"), ({"kind": "fox"}, "$"), ({"lives": 9}, "$")],
    ),
    "a root that is a reference": (
        {**_ref("node"), "$defs": {"node": _object(name=TEXT, next=_ref("node"))}},
        [{"name": "a", "next": {"name": "b"}}, {}],
        [({"next": {"x": 1}}, "$.next"), ({"x": 1}, "$"), ([], "$"), (None, "$")],
    ),
    "a root without a type": (
        {"properties": {"a": TEXT}},
        [{"a": "x"}, {}],
        [({"b": 1}, "$"), ("text", "$")],
    ),
    "a condition tests and does not close": (
        _object(
            address=_object(country=TEXT, code=TEXT),
            rest={
                "if": {"properties": {"address": _object(country={"const": "US"}, rest=_needs("country"))}},
                "then": {"properties": {"address": _object(code={"maxLength": 5})}},
                "else": {"properties": {"note": TEXT}},
            },
        ),
        [
            {"address": {"country": "US", "code": "90210"}},
            {"address": {"country": "PT", "code": "4000-001"}, "note": "x"},
        ],
        [
            ({"address": {"country": "US", "code": "4000-001"}}, "$.address.code"),
            ({"address": {"country": "US"}, "note": "x"}, "$"),
            ({"address": {"country": "PT", "x": 1}}, "$.address"),
        ],
    ),
    "a property that is only tested is allowed": (
        {
            "if": {"properties": {"kind": {"const": "a"}}},
            "then": {"properties": {"a": TEXT}},
            "else": {"properties": {"b": TEXT}},
        },
        [{"kind": "a", "a": "x"}, {"kind": "z", "b": "y"}, {"kind": "z"}],
        [({"kind": "z", "a": "x"}, "$"), ({"kind": "a", "c": 1}, "$")],
    ),
    "a property that is required is allowed": (
        _object(a=TEXT, rest=_needs("b")),
        [{"b": [1]}, {"a": "x", "b": None}],
        [({"a": "x"}, "$"), ({"b": 1, "c": 2}, "$")],
    ),
    "parts that speak about the same field do not refuse each other": (
        {"allOf": [_object(home=_object(street=TEXT)), _object(home=_object(city=TEXT))]},
        [{"home": {"street": "a", "city": "b"}}],
        [({"home": {"city": 1}}, "$.home.city"), ({"other": 1}, "$")],
    ),
    "the part that lists all fields of an object closes it": (
        {"allOf": [_object(home=_object(street=TEXT, city=TEXT)), _object(home=_object(city={"maxLength": 5}))]},
        [{"home": {"street": "a", "city": "b"}}],
        [({"home": {"x": 1}}, "$.home"), ({"home": {"city": "London"}}, "$.home.city")],
    ),
    "what is contained is looked for, not closed": (
        _object(pets={"type": "array", "contains": _object(kind={"const": "cat"}, rest=_needs("kind"))}),
        [{"pets": [{"kind": "cat", "name": "Tom"}, 5]}],
        [({"pets": [{"kind": "dog"}]}, "$.pets")],
    ),
    "an open part keeps its whole open": (
        {"allOf": [_object(a=TEXT), {"additionalProperties": NUMBER}]},
        [{"x": 2}],
        [({"x": "two"}, "$.x")],
    ),
    "a part with patterns keeps what they match": (
        {"allOf": [_object(a=TEXT), {"patternProperties": {"^x-": NUMBER}}]},
        [{"a": "x", "x-1": 2}],
        [({"x-1": "two"}, "$.x-1"), ({"y-1": 2}, "$")],
    ),
    "a part is closed for one place and open for another": (
        _object(
            plain=_ref("part"),
            more=_object(b=TEXT, rest={"allOf": [_ref("part")]}),
            loose={**_ref("part"), "additionalProperties": True},
            rest={"$defs": {"part": _object(a=TEXT)}},
        ),
        [{"plain": {"a": "x"}, "more": {"a": "x", "b": "y"}, "loose": {"a": "x", "z": 1}}],
        [({"plain": {"b": "y"}}, "$.plain"), ({"more": {"c": 1}}, "$.more"), ({"loose": {"a": 1}}, "$.loose.a")],
    ),
    "tuples of draft 7": (
        _object(
            at={"type": "array", "items": [TEXT, NUMBER], "additionalItems": False},
            rest={"$schema": "http://json-schema.org/draft-07/schema#"},
        ),
        [{"at": ["a", 1]}, {"at": []}],
        [({"at": ["a", "b"]}, "$.at[1]"), ({"at": ["a", 1, 2]}, "$.at[2]")],
    ),
    "what is written beside a reference of draft 7 is ignored": (
        _object(
            a={"$ref": "#/definitions/leaf", "maxLength": 1},
            rest={"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"leaf": TEXT}},
        ),
        [{"a": "long"}],
        [({"a": 5}, "$.a")],
    ),
    "references by an id lead inside": (
        _object(
            who={"$ref": "people/one"},
            other={"$ref": "https://example.org/people/one#name"},
            rest={
                "$id": "https://example.org/root",
                "$defs": {
                    "p": {
                        "$id": "people/one",
                        **_object(n={"$ref": "#name"}, next={"$ref": "#"}),
                        "$defs": {"m": _NAME},
                    }
                },
            },
        ),
        [{"who": {"n": "Ada", "next": {"n": "Bo"}}, "other": "Cy"}],
        [({"who": {"next": {"n": 5}}}, "$.who.next.n"), ({"other": 5}, "$.other"), ({"who": {"x": 1}}, "$.who")],
    ),
    "true is not an integer and one is not a boolean": (
        _object(n=NUMBER, b={"type": "boolean"}),
        [{"n": 1, "b": True}, {"n": 1.0}],
        [({"n": True}, "$.n"), ({"b": 1}, "$.b"), ({"n": 1.5}, "$.n")],
    ),
    "a record is an object": (
        _object(a=TEXT),
        [{}],
        [(value, "$") for value in (None, True, 5, "text", [], ["a"])],
    ),
    "a schema may refer to itself": (
        _object(tree=_ref("node"), rest={"$defs": {"node": _object(name=TEXT, next=_ref("node"))}}),
        [{"tree": {"name": "a", "next": {"name": "b", "next": {"name": "c"}}}}],
        [({"tree": {"next": {"next": {"x": 1}}}}, "$.tree.next.next")],
    ),
}


def _under(memory: Memory, schema: Json) -> ScopedMemory:
    memory.definitions.create(name="Thing", slug="thing", schema=schema)
    return memory.scope(user="ada")


def _accepts(place: ScopedMemory, value: Any) -> None:
    assert place.set("thing", value).value is not None


def _refuses(place: ScopedMemory, value: Any, path: str | None = None) -> None:
    before = place.get("thing")
    error = assert_raises(SchemaViolation, place.set, "thing", value)
    assert error.slug == "thing"
    assert error.expected
    assert path is None or error.path == path
    assert place.get("thing") == before


class SchemaPromises:
    """A schema is valid, self-contained and strict, and a value that breaks it is never kept."""

    @pytest.mark.parametrize(("schema", "accepted", "refused"), SCHEMAS.values(), ids=SCHEMAS)
    def test_a_schema_accepts_what_it_describes_and_refuses_the_rest(
        self, memory: Memory, schema: Json, accepted: list[Any], refused: list[tuple[Any, str | None]]
    ) -> None:
        ada = _under(memory, schema)
        for value in accepted:
            _accepts(ada, value)
        for value, path in refused:
            _refuses(ada, value, path)

    def test_a_schema_that_could_never_be_compiled_is_refused_at_once(self, memory: Memory, store: Store) -> None:
        """Its parts lead back to themselves, or double at each reference."""
        itself: Json = {"allOf": [_ref("again")] * 20}
        doubled: Json = {f"d{n}": {"allOf": [_ref(f"d{n + 1}")] * 2} for n in range(30)}
        whole = _object(n={})
        with unchanged(store):
            for schema in (
                {**whole, "anyOf": [_ref("again")] * 20, "$defs": {"again": itself}},
                {**whole, "not": {"$ref": "#"}},
                {**whole, "allOf": [{"$ref": "#/allOf/0"}]},
                {**whole, "allOf": [_ref("d0")], "$defs": {**doubled, "d30": TEXT}},
            ):
                with pytest.raises(InvalidDefinition, match=r"the schema (leads back|has more than)"):
                    memory.definitions.create(name="Thing", slug="thing", schema=schema)
        nested = _object(name=TEXT, parts={"items": {"$ref": "#"}}, lid={"anyOf": [{"type": "null"}, {"$ref": "#"}]})
        ada = _under(memory, nested)
        _accepts(ada, {"name": "box", "lid": {"name": "lid", "lid": None}, "parts": [{"parts": [{"name": "nail"}]}]})
        _refuses(ada, {"parts": [{"parts": [{"name": 7}]}]})

    @pytest.mark.parametrize(
        ("rule", "good", "bad"),
        [
            ({"type": "string", "format": "email"}, "ada@example.org", "ada at example"),
            ({"type": "string", "format": "date-time"}, "2026-04-30T16:20:00Z", "yesterday"),
            ({"type": "string", "format": "date-time"}, "2026-04-30T16:20:00.123456", "2026-02-30T16:20:00"),
            ({"type": "string", "format": "date-time"}, "2026-04-30T16:20", "2026-04-30"),
            ({"type": "string", "format": "time"}, "16:20:00", "25:00:00"),
            ({"type": "string", "format": "time"}, "16:20:00+02:00", "16"),
            ({"type": "string", "format": "duration"}, "-P1DT2H0.5S", "P"),
            ({"type": "string", "pattern": "^(?=.*[0-9])(?!.* ).{4,}$"}, "kiln6", "kiln 6"),
            ({"type": "string", "format": "date"}, "2026-04-30", "2026-02-30"),
            ({"type": "string", "format": "uuid"}, "123e4567-e89b-12d3-a456-426614174000", "123e4567"),
            ({"type": "string", "format": "uri"}, "https://example.org/a?b=c", "not a uri"),
            ({"type": "string", "maxLength": 3}, "abc", "abcd"),
            ({"type": "string", "pattern": "^a+$"}, "aaa", "b"),
            ({"enum": ["en", "fr"]}, "en", "de"),
            ({"const": 5}, 5, 6),
            ({"type": "integer", "minimum": 1}, 1, 0),
            ({"type": "array", "items": NUMBER, "maxItems": 2}, [1, 2], [1, 2, 3]),
            ({"type": ["string", "null"]}, None, 1),
        ],
    )
    def test_the_words_of_a_schema_mean_what_they_say(self, memory: Memory, rule: Json, good: Any, bad: Any) -> None:
        ada = _under(memory, _object(v=rule))
        _accepts(ada, {"v": good})
        _refuses(ada, {"v": bad}, "$.v")

    def test_defaults_are_filled_in(self, memory: Memory) -> None:
        ada = _under(
            memory,
            _object(
                language={"type": "string", "default": "en"},
                home=_object(country={"type": "string", "default": "uk"}),
                tags={"type": "array", "default": []},
                rest={"required": ["language"]},
            ),
        )
        assert ada.set("thing", {}).value == {"language": "en", "tags": []}
        assert ada.set("thing", {"language": "fr", "home": {}}).value["home"] == {"country": "uk"}
        assert ada.value("thing") == {"language": "fr", "home": {"country": "uk"}, "tags": []}

    def test_defaults_are_filled_in_inside_lists_and_through_references(self, memory: Memory) -> None:
        table = _object(guest=_ref("guest"), below=_ref("table"))
        schema = _object(
            guests={"type": "array", "items": _ref("guest")},
            rows={"type": "array", "items": {"type": "array", "items": GUEST}},
            table={"allOf": [_ref("table")]},
            wine=_ref("wine"),
            rest={"$defs": {"guest": GUEST, "table": table, "wine": {"type": "string", "default": "red"}}},
        )
        ada = _under(memory, schema)
        assert ada.set("thing", {}).value == {"wine": "red"}
        named, fed = {"name": "Bo"}, {"name": "Bo", "meal": "soup"}
        given = {"guests": [named, {"meal": "pie"}], "rows": [[named], []], "table": {"below": {"guest": named}}}
        assert ada.set("thing", given).value == {
            "guests": [fed, {"meal": "pie"}],
            "rows": [[fed], []],
            "table": {"below": {"guest": fed}},
            "wine": "red",
        }

    @pytest.mark.parametrize(
        "reference", ["#/$defs/the%20guest", "#guest", "#/$defs/choice/anyOf/1"], ids=["escaped", "anchor", "place"]
    )
    def test_a_reference_leads_where_it_points_however_it_is_written(self, memory: Memory, reference: str) -> None:
        parts = {"the guest": {"$anchor": "guest", **GUEST}, "choice": {"anyOf": [{"type": "null"}, GUEST]}}
        seats = {"type": "integer", "default": 2}
        ada = _under(memory, _object(at={"$ref": reference}, seats=seats, rest={"$defs": parts}))
        assert ada.set("thing", {"at": {}}).value == {"at": {"meal": "soup"}, "seats": 2}
        _refuses(ada, {"at": {"wine": "red"}}, "$.at")
        _refuses(ada, {"at": {"meal": 7}}, "$.at.meal")

    def test_a_whole_may_be_made_of_a_part_with_an_anchor(self, memory: Memory) -> None:
        part = {"$anchor": "part", "properties": {"meal": {"type": "string", "default": "soup"}}}
        ada = _under(memory, {"type": "object", "allOf": [{"$ref": "#part"}], "$defs": {"part": part}})
        assert ada.set("thing", {}).value == {"meal": "soup"}
        _refuses(ada, {"wine": "red"}, "$")

    def test_references_may_lead_round_in_circles(self, memory: Memory) -> None:
        again = _object(d={"default": 2}, at=_ref("again"))
        ada = _under(memory, _object(n={"default": 1}, at=_ref("again"), rest={"$defs": {"again": again}}))
        assert ada.set("thing", {"at": {"at": {}}}).value == {"n": 1, "at": {"d": 2, "at": {"d": 2}}}
        _refuses(ada, {"m": 1}, "$")

    def test_a_refused_value_changes_nothing(self, memory: Memory, store: Store) -> None:
        ada = _under(memory, _object(n=NUMBER))
        ada.set("thing", {"n": 1})
        with unchanged(store):
            assert_raises(SchemaViolation, ada.set, "thing", {"n": "one"})

    @pytest.mark.parametrize(
        ("schema", "path"),
        [
            (None, "$"),
            ([], "$"),
            ("object", "$"),
            (True, "$"),
            ({}, "$"),
            ({"type": "string"}, "$"),
            ({"type": "array", "items": {}}, "$"),
            ({"type": ["object", "null"]}, "$"),
            ({"title": "Nothing"}, "$"),
            ({"$ref": "#/$defs/text", "$defs": {"text": TEXT}}, "$"),
            ({"anyOf": [TEXT, NUMBER]}, "$"),
            ({"enum": ["a", "b"]}, "$"),
            ({"$schema": "https://example.org/mine", "type": "object"}, "$.$schema"),
            (_object(a={"type": "integer", "default": "one"}), "$.properties.a.default"),
            (_object(a={**_ref("n"), "default": 5}, rest={"$defs": {"n": TEXT}}), "$.properties.a.default"),
            (_object(a=_ref("n"), rest={"$defs": {"n": {**TEXT, "default": 5}}}), "$.$defs.n.default"),
            (
                _object(a={"items": _object(b={"enum": ["x"], "default": None})}),
                "$.properties.a.items.properties.b.default",
            ),
            (_object(a=_object(b=TEXT, rest={"default": {"c": 1}})), "$.properties.a.default"),
            (_object(a={"type": "strng"}), "$.properties.a.type"),
            (_object(a={"minLength": -1}), "$.properties.a.minLength"),
            ({"type": "object", "required": "a"}, "$.required"),
            ({"type": "object", "properties": []}, "$.properties"),
        ],
    )
    def test_a_schema_that_is_not_one_is_refused_with_the_path_of_its_fault(
        self, memory: Memory, store: Store, schema: Any, path: str
    ) -> None:
        with unchanged(store):
            error = assert_raises(InvalidDefinition, _under, memory, schema)
        assert error.path == path
        _accepts(_under(memory, {"type": "object"}), {"a": 1})

    @pytest.mark.parametrize(
        "reference",
        ["https://example.org/schema.json", "http://127.0.0.1:1/x", "file:///etc/passwd", "other.json", "#/$defs/no"],
    )
    def test_a_schema_that_refers_outside_itself_is_refused(self, memory: Memory, store: Store, reference: str) -> None:
        with unchanged(store):
            assert_raises(InvalidDefinition, _under, memory, _object(a={"$ref": reference}))
        _accepts(_under(memory, _object(a=_ref("yes"), rest={"$defs": {"yes": TEXT}})), {"a": "x"})

    def test_a_schema_has_a_largest_size(self, memory: Memory) -> None:
        error = assert_raises(LimitExceeded, _under, memory, _object(**{f"p{n}": TEXT for n in range(20_000)}))
        assert error.actual > error.limit
        assert memory.definitions.list() == []
