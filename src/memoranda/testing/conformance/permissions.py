"""Who sees what: scopes, tenants and permissions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.engine.facts import FindFacts, GetFact
from memoranda.errors import ApprovalRequired, Denied, InvalidPolicy, NotFound, QuotaExceeded, SchemaViolation
from memoranda.model.policy import CAPABILITIES, Policy, Quota, Rule
from memoranda.model.scope import Scope
from memoranda.store.base import Store
from memoranda.testing.conformance.base import Capability, assert_raises, present, requires, unchanged
from memoranda.testing.fakes import FakeClock

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


def _write_both(memory: Memory, *scopes: Scope) -> None:
    with memory.batch() as batch:
        for scope in scopes:
            batch.set(memory.at(scope), "both", 1)


class ScopePromises:
    """A scope is visible to itself only, and never to one with a similar name."""

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

    def test_the_longest_key_is_kept_whole(self, ada: ScopedMemory) -> None:
        long = "é" * 511
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
        assert_raises(ApprovalRequired, memory.acting_as("agent:b").scope(user="ada").set, "k", "waiting")

        assert [f.key for f in here.list()] == ["counter", "k"]
        assert [f.key for f in there.list()] == ["theirs"]
        assert (there.get("k"), here.get("theirs")) == (None, None)
        assert (there.history("k"), here.history("theirs")) == ([], [])
        assert there.list(as_of=clock.now()) and not there.list("k", as_of=clock.now())
        stranger = Memory(store, tenant=other, clock=clock)
        assert stranger.definitions.list() == []
        assert_raises(NotFound, stranger.definitions.get, definition.id)
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
        assert_raises(SchemaViolation, memory.scope(user="ada").set, "counter", "not an object")
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


READ_WRITE = ("memory.read", "memory.write")


class PermissionPromises:
    """Without a grant nothing is allowed, a denial overrides everything, and changes count at once."""

    # grants

    def test_nothing_is_allowed_without_a_grant(self, memory: Memory, ada: ScopedMemory, tmp_path: Path) -> None:
        ada.set("k", 1)
        memory.definitions.create(name="D", slug="d", schema={"type": "object"})
        stranger = memory.acting_as("agent:stranger")
        hers = stranger.scope(user="ada")
        attempts: dict[str, Callable[[], object]] = {
            "get": lambda: hers.get("k"),
            "get as of": lambda: hers.get("k", as_of="2026-01-01"),
            "list": lambda: hers.list(),
            "history": lambda: hers.history("k"),
            "set": lambda: hers.set("k", 2),
            "delete": lambda: hers.delete("k"),
            "session": lambda: hers.session("s"),
            "end": lambda: stranger.scope(session="s").end(),
            "definitions": lambda: stranger.definitions.list(),
            "records": lambda: stranger.definitions.records("d"),
            "create definition": lambda: stranger.definitions.create(name="E", slug="e", schema={"type": "object"}),
            "update definition": lambda: stranger.definitions.update("d", name="E"),
            "delete definition": lambda: stranger.definitions.delete("d"),
            "erase": lambda: stranger.erase(user="ada"),
            "sweep": lambda: stranger.sweep(),
            "scrub": lambda: stranger.scrub(),
            "inspect": lambda: stranger.inspect(),
            "export": lambda: stranger.export(tmp_path / "x.jsonl"),
            "import": lambda: stranger.import_lines([b'{"memoranda":1}'], source="x"),
            "ledger": lambda: stranger.ledger.events(),
            "verify": lambda: stranger.ledger.verify(),
            "grants": lambda: stranger.permissions.list(),
            "grant": lambda: stranger.permissions.grant("agent:stranger", "*"),
            "revoke": lambda: stranger.permissions.revoke("x"),
            "approvals": lambda: stranger.approvals.list(),
            "approve": lambda: stranger.approvals.approve("x"),
        }
        for name, attempt in attempts.items():
            length = memory.ledger.verify().length
            error = assert_raises(Denied, attempt)
            assert error.capability in CAPABILITIES, name
            event = memory.ledger.events(start=length + 1)
            assert [(e.decision, e.actor) for e in event] == [("deny", "agent:stranger")], name
        memory.permissions.grant("agent:stranger", "memory.read")
        assert hers.get("k") == ada.get("k")
        assert ada.value("k") == 1

    def test_a_grant_allows_its_capability_and_those_below_it(self, memory: Memory) -> None:
        memory.permissions.grant("reader", "memory.read")
        memory.permissions.grant("keeper", "memory")
        memory.permissions.grant("boss", "*")
        for actor in ("reader", "keeper", "boss"):
            assert memory.acting_as(actor).scope(user="ada").list() == []
        error = assert_raises(Denied, memory.acting_as("reader").scope(user="ada").set, "k", 1)
        assert (error.capability, error.actor) == ("memory.write", "reader")
        assert memory.acting_as("keeper").scope(user="ada").set("k", 1).version == 1
        assert_raises(Denied, memory.acting_as("keeper").ledger.events)
        assert memory.acting_as("boss").ledger.events()

    def test_a_grant_to_everybody_is_for_every_actor(self, memory: Memory) -> None:
        memory.permissions.grant("*", "memory.read")
        memory.permissions.grant("writer", "memory.write")
        memory.scope(user="ada").set("k", 1)
        assert memory.acting_as("anybody").scope(user="ada").value("k") == 1
        assert_raises(Denied, memory.acting_as("anybody").scope(user="ada").set, "k", 2)
        assert memory.acting_as("writer").scope(user="ada").set("k", 2).version == 2

    def test_deny_beats_approve_beats_allow(self, memory: Memory) -> None:
        agent = memory.acting_as("agent")
        hers = agent.scope(user="ada")
        assert_raises(Denied, hers.set, "k", 1)
        memory.permissions.grant("agent", "memory")
        assert hers.set("k", 1).version == 1
        pause = memory.permissions.grant("agent", "memory.write", level="approve")
        assert_raises(ApprovalRequired, hers.set, "k", 2)
        assert hers.value("k") == 1
        denial = memory.permissions.grant("*", "memory.write", level="deny")
        assert_raises(Denied, hers.set, "k", 2)
        memory.permissions.revoke(denial.id)
        assert_raises(ApprovalRequired, hers.set, "k", 2)
        memory.permissions.revoke(pause.id)
        assert hers.set("k", 2).version == 2

    def test_a_grant_may_be_for_one_scope(self, memory: Memory) -> None:
        memory.permissions.grant("agent", "memory", scope=Scope.of(user="ada"))
        agent = memory.acting_as("agent")
        assert agent.scope(user="ada").set("k", 1).version == 1
        assert agent.scope(user="ada", agent="x").set("k", 1).version == 1
        for other in ({}, {"user": "ad"}, {"user": "adam"}, {"user": "ada/agent:x"}, {"agent": "x"}):
            place = agent.scope(**other)
            for attempt in (lambda p=place: p.set("k", 1), lambda p=place: p.get("k"), lambda p=place: p.list()):
                assert_raises(Denied, attempt)
            assert memory.scope(**other).get("k") is None

    def test_a_denial_may_be_for_one_scope(self, memory: Memory) -> None:
        memory.permissions.grant("agent", "memory")
        memory.permissions.grant("agent", "memory", level="deny", scope=Scope.of(user="ada"))
        memory.scope(user="ada").set("k", 1)
        agent = memory.acting_as("agent")
        for place in (agent.scope(user="ada"), agent.scope(user="ada", agent="x")):
            assert_raises(Denied, place.get, "k")
            assert_raises(Denied, place.set, "k", 1)
        assert agent.scope(user="adam").set("k", 1).version == 1
        assert_raises(Denied, agent.erase, user="ada")
        assert memory.scope(user="ada").value("k") == 1

    def test_a_rule_about_the_shared_scope_is_about_that_scope_alone(self, memory: Memory, ada: ScopedMemory) -> None:
        shared, actor = memory.scope(), memory.acting_as("agent:mail")
        for place in (shared, ada, memory.scope(project="atlas")):
            place.set("profile", {"name": str(place.scope)})
            place.remember(f"kept in {place.scope}", collection="notes")
        memory.definitions.create(name="Profile", slug="profile", schema={"type": "object"})
        memory.permissions.grant("agent:mail", "*", scope=shared.scope)
        memory.permissions.grant("agent:mail", "memory.export")
        assert actor.scope().value("profile") == {"name": "(shared)"}
        assert [one.key for one in actor.scope().list()] == ["profile"]
        assert [one.content for one in actor.scope().recall("kept", collection="notes").results] == ["kept in (shared)"]
        actor.scope().set("profile", {"name": "changed"})
        for refused in (
            lambda: actor.scope(user="ada").get("profile"),
            lambda: actor.scope(project="atlas").get("profile"),
            lambda: actor.perform(FindFacts(scope=shared.scope, key="profile")),
            lambda: actor.definitions.records("profile"),
            lambda: actor.export_lines(list),
            lambda: actor.permissions.grant("agent:mail", "*"),
            lambda: actor.ledger.verify(),
            lambda: actor.collections.list(),
            lambda: actor.erase(user="ada"),
        ):
            assert_raises(Denied, refused)
        memory.permissions.grant("agent:mail", "memory.write", level="deny", scope=shared.scope)
        memory.permissions.grant("agent:mail", "memory")
        assert actor.scope(user="ada").set("tone", "warm").version == 1
        assert_raises(Denied, lambda: actor.scope().set("tone", "warm"))

    def test_grants_share_what_belongs_to_no_single_user(self, memory: Memory, ada: ScopedMemory) -> None:
        own = Policy(rules=(Rule("allow", "memory", ada.scope),))
        actor, member = (memory.acting_as("user:ada", role=role) for role in ("reader", "member"))
        atlas, shared = memory.scope(project="atlas"), memory.scope()
        places = [atlas.scope, shared.scope]
        for place in (*places, Scope.of(user="bob")):
            memory.at(place).set("opening", "nine")
        memory.permissions.grant("*", "memory")
        memory.permissions.grant("user:ada", "memory", scope=Scope.of(user="bob"))
        for place in (*places, Scope.of(user="bob")):
            assert_raises(Denied, partial(actor.at(place).get, "opening"))
            assert_raises(Denied, partial(member.at(place).get, "opening"))
        grants = [memory.permissions.grant("*", "memory.read", scope=place) for place in places]
        for place in places:
            assert actor.at(place).value("opening") == "nine"
            assert_raises(Denied, partial(actor.at(place).set, "opening", "ten"))
            assert_raises(Denied, partial(member.at(place).set, "opening", "ten"))
        assert member.at(ada.scope).set("opening", "own").version == 1
        assert_raises(Denied, lambda: actor.scope(user="bob").get("opening"))
        assert_raises(Denied, lambda: actor.scope(project="atlas2").get("opening"))
        assert_raises(Denied, lambda: actor.narrowed(own).at(atlas.scope).get("opening"))
        with member.batch() as batch:
            batch.set(member.at(ada.scope), "a", 1)
        assert_raises(Denied, lambda: _write_both(member, ada.scope, atlas.scope))
        assert_raises(InvalidPolicy, lambda: memory.acting_as("user:ada", role="No Role"))
        everywhere = memory.acting_as("user:ada")
        assert everywhere.scope(user="bob").value("opening") == "nine"  # without a policy, all grants count
        assert_raises(Denied, lambda: actor.scope(user="bob").get("opening"))
        denial = memory.permissions.grant("user:ada", "memory.read", level="deny")
        assert_raises(Denied, lambda: actor.at(atlas.scope).get("opening"))
        assert_raises(Denied, lambda: actor.at(ada.scope).get("opening"))  # a denial beats the role, too
        memory.permissions.revoke(denial.id)
        assert actor.at(ada.scope).value("opening") == "own"
        for grant in grants:
            memory.permissions.revoke(grant.id)
        assert_raises(Denied, lambda: actor.at(atlas.scope).get("opening"))

    # roles

    def test_a_role_is_what_it_was_defined_to_allow(self, memory: Memory, ada: ScopedMemory) -> None:
        memory.scope(user="bob").set("tone", "cool")
        memory.roles.define("support", allow=("ledger.read",), own=("memory.read",))
        actor = memory.acting_as("user:ada", role="support")
        ada.set("tone", "warm")
        assert actor.at(ada.scope).value("tone") == "warm"
        assert actor.ledger.events()
        assert_raises(Denied, lambda: actor.at(ada.scope).set("tone", "dry"))
        assert_raises(Denied, lambda: actor.scope(user="bob").get("tone"))
        assert_raises(Denied, actor.definitions.list)

    def test_a_changed_or_deleted_role_counts_at_once(self, memory: Memory, ada: ScopedMemory) -> None:
        memory.roles.define("support", own=("memory",))
        actor = memory.acting_as("user:ada", role="support")
        assert actor.at(ada.scope).set("tone", "warm").version == 1
        memory.roles.define("support", own=("memory.read",))
        assert actor.at(ada.scope).value("tone") == "warm"
        assert_raises(Denied, lambda: actor.at(ada.scope).set("tone", "dry"))
        memory.roles.delete("support")
        error = assert_raises(Denied, lambda: actor.at(ada.scope).get("tone"))
        assert "the role `support` does not exist" in str(error)
        # A holder is not told which other roles there are; an administrator who misspells one is.
        memory.roles.define("supports", own=("memory.read",))
        assert "supports" not in str(assert_raises(Denied, lambda: actor.at(ada.scope).get("tone")))
        assert "Did you mean `supports`?" in str(assert_raises(NotFound, lambda: memory.roles.get("suports")))

    def test_built_in_roles_are_sets_of_rules_that_can_be_given_more(self, memory: Memory, ada: ScopedMemory) -> None:
        assert [(role.name, role.built_in) for role in memory.roles.list()] == [
            ("admin", True),
            ("member", True),
            ("reader", True),
        ]
        member = memory.acting_as("user:ada", role="member")
        assert member.at(ada.scope).set("tone", "warm").version == 1
        assert_raises(Denied, member.ledger.events)
        grant = memory.permissions.grant("role:member", "ledger.read")
        assert member.ledger.events()
        assert_raises(Denied, memory.acting_as("user:ada", role="reader").ledger.events)
        memory.permissions.revoke(grant.id)
        assert_raises(Denied, member.ledger.events)
        for define in (
            lambda: memory.roles.define("member", own=("memory",)),
            lambda: memory.roles.delete("member"),
            lambda: memory.permissions.grant("role:member", "memory", level="deny"),
            lambda: memory.roles.define("support"),
            lambda: memory.roles.define("Support", own=("memory",)),
            lambda: memory.roles.define("support", own=("memory.see",)),
            lambda: memory.permissions.grant("user:ada", "memory", own=True),
            lambda: memory.permissions.grant("role:support", "roles.member"),
        ):
            assert_raises(InvalidPolicy, define)
        assert_raises(NotFound, memory.roles.delete, "support")

    def test_a_role_is_given_to_a_user_by_a_grant(self, memory: Memory, ada: ScopedMemory) -> None:
        memory.roles.define("auditor", allow=("ledger.read",), own=("memory",))
        assert "Did you mean `auditor`?" in str(
            assert_raises(NotFound, lambda: memory.permissions.grant("user:ada", "roles.auditer"))
        )
        member, reader, agent = (
            memory.acting_as("user:ada", role="member"),
            memory.acting_as("user:ada", role="reader"),
            memory.acting_as("user:ada"),
        )
        assert_raises(Denied, member.ledger.events)
        memory.permissions.grant("user:ada", "roles.auditor")
        for handle in (member, reader, agent):
            assert handle.ledger.events()
        assert agent.at(ada.scope).set("tone", "warm").version == 1
        # A key that only reads does not write because of a role of its user.
        assert_raises(Denied, lambda: reader.at(ada.scope).set("tone", "dry"))
        assert_raises(Denied, memory.acting_as("user:bob", role="member").ledger.events)
        memory.roles.delete("auditor")
        assert_raises(Denied, member.ledger.events)
        memory.roles.define("auditor", allow=("ledger.read",))
        assert_raises(Denied, member.ledger.events)

    @pytest.mark.parametrize("role", ["member", "admin", "owner"])
    def test_a_denial_beats_whatever_the_role_of_a_key_allows(
        self, memory: Memory, ada: ScopedMemory, role: str
    ) -> None:
        memory.roles.define("owner", own=("memory",))
        memory.roles.define("frozen", rules=[Rule("deny", "memory")])
        actor = memory.acting_as("user:ada", role=role).scope(user="ada")
        other = memory.acting_as("user:bob", role=role).scope(user="bob")
        actor.set("language", "en")
        given = memory.permissions.grant("user:ada", "roles.frozen")
        assert_raises(Denied, actor.set, "language", "fr")
        assert_raises(Denied, actor.get, "language")
        other.set("language", "nl")
        memory.permissions.revoke(given.id)
        denial = memory.permissions.grant("user:ada", "memory.write", level="deny", scope=ada.scope)
        assert_raises(Denied, actor.set, "language", "fr")
        assert actor.value("language") == "en"
        memory.permissions.revoke(denial.id)
        assert actor.set("language", "fr").version == 2

    def test_an_approval_narrows_what_a_role_allows_and_never_widens_it(
        self, memory: Memory, ada: ScopedMemory
    ) -> None:
        memory.roles.define("watched", rules=[Rule("approve", "memory.write"), Rule("approve", "permissions.write")])
        memory.permissions.grant("user:ada", "roles.watched")
        member, reader = (memory.acting_as("user:ada", role=role) for role in ("member", "reader"))
        assert_raises(ApprovalRequired, member.scope(user="ada").set, "language", "en")
        for change in (
            lambda: reader.scope(user="ada").set("language", "en"),
            lambda: reader.permissions.grant("user:ada", "ledger.read"),
        ):
            assert_raises(Denied, change)
        assert [approval.capability for approval in memory.approvals.list()] == ["memory.write"]
        memory.acting_as("user:bob", role="member").scope(user="bob").set("language", "nl")

    def test_a_role_that_may_not_write_cannot_be_made_to_write_elsewhere(self, memory: Memory) -> None:
        memory.roles.define("quiet", own=("memory",), rules=[Rule("deny", "memory.write", own=True)])
        memory.roles.define("loud", own=("memory",))
        atlas = Scope.of(project="atlas")
        memory.permissions.grant("user:ada", "memory.write", scope=atlas)
        quiet, loud = (memory.acting_as("user:ada", role=role).at("project:atlas") for role in ("quiet", "loud"))
        assert_raises(Denied, quiet.set, "river", "Douro")
        assert loud.set("river", "Douro").version == 1

    def test_a_holder_cannot_change_its_role(self, memory: Memory) -> None:
        memory.roles.define("support", allow=("permissions.read", "definitions"))
        actor = memory.acting_as("user:ada", role="support")
        assert "support" in [role.name for role in actor.roles.list()]
        assert_raises(Denied, lambda: actor.roles.define("support", allow=("*",)))
        assert_raises(Denied, lambda: actor.roles.delete("support"))
        assert_raises(Denied, lambda: actor.permissions.grant("role:support", "*"))
        assert_raises(Denied, lambda: actor.permissions.grant("user:ada", "roles.admin"))

    def test_a_role_is_in_the_ledger_and_raises_the_epoch(self, memory: Memory) -> None:
        memory.roles.define("support", allow=("ledger.read",))
        memory.roles.delete("support")
        events = memory.ledger.events()
        assert [event.effect for event in events] == ["grant", "define_role", "revoke", "delete_role"]
        assert events[-1].epoch > events[0].epoch
        assert memory.ledger.verify().ok

    def test_grants_about_definitions_hold_for_a_role(self, memory: Memory) -> None:
        schema = {"type": "object"}
        member, reader = (memory.acting_as("user:ada", role=role) for role in ("member", "reader"))
        create = partial(member.definitions.create, name="Kiln", slug="kiln", schema=schema)
        assert_raises(Denied, create)
        memory.permissions.grant("user:ada", "definitions.write.create", path="kiln")
        assert_raises(Denied, lambda: member.definitions.create(name="Oven", slug="oven", schema=schema))
        assert create().slug == "kiln"
        assert_raises(Denied, lambda: member.definitions.update("kiln", name="Oven"))
        memory.permissions.grant("role:member", "definitions.write.update")
        assert member.definitions.update("kiln", name="Oven").name == "Oven"
        assert_raises(Denied, lambda: member.definitions.delete("kiln"))
        memory.permissions.grant("user:ada", "definitions")
        assert_raises(Denied, lambda: reader.definitions.delete("kiln"))
        assert member.definitions.delete("kiln") == 0

    def test_a_refusal_says_why_a_grant_does_not_count(self, memory: Memory) -> None:
        memory.definitions.create(name="Kiln", slug="kiln", schema={"type": "object"})
        member, reader = (memory.acting_as("user:ada", role=role) for role in ("member", "reader"))

        def reason(actor: Memory) -> str:
            return str(assert_raises(Denied, lambda: actor.definitions.delete("kiln")))

        assert "nothing grants definitions.write.delete" in reason(member)
        memory.permissions.grant("user:ada", "definitions.write", path="oven")
        assert "for `kiln` in the whole tenant is not granted, only for `oven` in the whole tenant" in reason(member)
        wide = memory.permissions.grant("user:ada", "*")
        assert f"`{wide.id}` grants definitions.write.delete, but not by name" in reason(member)
        grant = memory.permissions.grant("user:ada", "definitions.write.delete")
        memory.permissions.revoke(wide.id)
        assert f"`{grant.id}` grants definitions.write.delete, but the role `reader`" in reason(reader)
        narrow = member.narrowed(Policy.of(allow=("memory",)))
        assert f"`{grant.id}` grants definitions.write.delete, but this key is restricted to memory" in reason(narrow)
        denial = memory.permissions.grant("user:ada", "definitions.write.delete", level="deny", path="kiln")
        assert "is denied" in reason(member)
        memory.permissions.revoke(denial.id)
        assert "nothing grants" not in str(
            [event.detail for event in memory.ledger.events() if event.decision == "deny"][1:]
        )
        assert member.definitions.delete("kiln") == 0

    def test_definitions_that_may_not_be_read_are_not_listed(self, memory: Memory, ada: ScopedMemory) -> None:
        described = {"type": "string", "title": "Codeword", "description": "The zebra clause"}
        schema = {"type": "object", "properties": {"a": described}}
        for slug in ("kiln", "plan"):
            memory.definitions.create(name=f"The {slug}", slug=slug, schema=schema)
            ada.set(slug, {"a": "heron"})
        member, agent = memory.acting_as("user:ada", role="member"), memory.acting_as("agent:a")
        assert [one.slug for one in member.definitions.list()] == ["kiln", "plan"]
        assert_raises(Denied, agent.definitions.list)
        memory.permissions.grant("user:ada", "definitions.read", level="deny", path="plan")
        memory.permissions.grant("agent:a", "definitions.read", path="kiln")
        for actor in (member, agent):
            assert [one.slug for one in actor.definitions.list()] == ["kiln"]
            assert_raises(NotFound, actor.definitions.get, "plan")
        shown = {match.key: match for match in member.at(ada.scope).recall("heron").results}
        assert (shown["kiln"].content, shown["plan"].content) == ("The kiln: Codeword: heron", "plan: a: heron")
        assert not shown["plan"].metadata
        assert_raises(NotFound, lambda: member.at(ada.scope).context("heron", definitions=("plan",)))
        text = member.at(ada.scope).context("heron", kinds=("record",)).text
        assert (text.count("The kiln: Codeword: heron"), text.count("Codeword"), text.count("plan: a: heron")) == (
            1,
            1,
            1,
        )
        assert member.at(ada.scope).value("plan") == {"a": "heron"}

    def test_recall_confirms_no_word_of_a_definition_that_may_not_be_read(
        self, memory: Memory, ada: ScopedMemory
    ) -> None:
        described = {"type": "string", "title": "Codeword", "description": "The zebra clause"}
        schema = {"type": "object", "properties": {"a": described}}
        for slug, definition in (("kiln", "Bakery"), ("plan", "Walnut")):
            memory.definitions.create(name=definition, slug=slug, schema=schema)
            ada.set(slug, {"a": "heron"})
        memory.permissions.grant("user:ada", "definitions.read", level="deny", path="plan")
        hers = memory.acting_as("user:ada", role="member").at(ada.scope)

        def found(query: str, place: ScopedMemory = hers, **options: Any) -> dict[str | None, Any]:
            return {match.key: match for match in place.recall(query, kinds=("record",), **options).results}

        for word in ("codeword", "zebra", "walnut"):
            shown = {"plan"} if word == "walnut" else {"kiln", "plan"}
            assert found(word, ada, mode="keyword").keys() == shown
            assert found(word, mode="keyword").keys() == shown - {"plan"}
            assert found(word, ada)["plan"].why.matched == (word,)
            assert found(word)["plan"].why.matched == ()
            both = found(f"heron {word}")["plan"].why
            assert (both.matched, both.lexical) == (("heron",), found("heron qqqq")["plan"].why.lexical)
            assert both.relevance < found(f"heron {word}", ada)["plan"].why.relevance
        assert found("heron", mode="keyword").keys() == {"kiln", "plan"}
        named: dict[str, Any] = {"definition": "Walnut"}
        assert (found("heron", ada, filter=named).keys(), found("heron", filter=named).keys()) == ({"plan"}, set())
        assert (list(found("", ada)), list(found(""))) == (["plan", "kiln"], ["plan", "kiln"])

    def test_a_grant_may_be_for_one_path(self, memory: Memory) -> None:
        memory.permissions.grant("agent", "memory", path="profile")
        hers = memory.acting_as("agent").scope(user="ada")
        assert hers.set("profile", 1).version == 1
        assert hers.set("profile.name", "Ada").version == 1
        assert [fact.key for fact in hers.list("profile")] == ["profile", "profile.name"]
        for attempt in (
            lambda: hers.set("profiler", 1),
            lambda: hers.get("other"),
            lambda: hers.history("other"),
            lambda: hers.delete("other"),
            lambda: hers.list(),
            lambda: hers.list("other"),
        ):
            assert_raises(Denied, attempt)

    def test_a_denial_of_one_path_also_stops_what_would_pass_over_it(self, memory: Memory) -> None:
        memory.permissions.grant("agent", "memory")
        memory.permissions.grant("agent", "memory", level="deny", path="secret")
        memory.scope(user="ada").set("secret.pin", 1)
        hers = memory.acting_as("agent").scope(user="ada")
        assert hers.set("open", 1).version == 1
        assert [fact.key for fact in hers.list("open")] == ["open"]
        for attempt in (
            lambda: hers.get("secret.pin"),
            lambda: hers.set("secret", 1),
            lambda: hers.list(),
            lambda: hers.list("secret"),
            lambda: memory.acting_as("agent").erase(user="ada"),
        ):
            assert_raises(Denied, attempt)
        assert memory.scope(user="ada").value("secret.pin") == 1

    def test_a_batch_passes_only_if_each_of_its_writes_does(self, memory: Memory) -> None:
        memory.permissions.grant("agent", "memory", scope=Scope.of(user="ada"))
        agent = memory.acting_as("agent")
        ada, bob = agent.scope(user="ada"), agent.scope(user="bob")
        with pytest.raises(Denied), agent.batch() as batch:
            batch.set(ada, "k", 1)
            batch.set(bob, "k", 1)
        assert memory.scope(user="ada").list() == memory.scope(user="bob").list() == []
        with agent.batch() as batch:
            batch.set(ada, "k", 1)
            batch.set(ada, "l", 1)
        assert len(ada.list()) == 2

    def test_every_grant_and_revocation_raises_the_epoch_of_later_events(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", 0)
        grant = memory.permissions.grant("agent", "memory")
        ada.set("k", 1)
        memory.permissions.grant("agent", "ledger.read")
        ada.set("k", 2)
        memory.permissions.revoke(grant.id)
        ada.set("k", 3)
        events = memory.ledger.events()
        assert [(e.effect, e.epoch) for e in events] == [
            ("set_fact", 0),
            ("grant", 1),
            ("set_fact", 1),
            ("grant", 2),
            ("set_fact", 2),
            ("revoke", 3),
            ("set_fact", 3),
        ]
        memory.scope(tenant="other", user="ada").set("k", 0)
        memory.definitions.create(name="D", slug="d", schema={"type": "object"})
        assert memory.ledger.tail(1)[0].epoch == 3

    def test_a_revoked_grant_counts_no_more_at_once(self, memory: Memory) -> None:
        read = memory.permissions.grant("agent", "memory.read")
        write = memory.permissions.grant("agent", "memory.write")
        hers = memory.acting_as("agent").scope(user="ada")
        assert hers.set("k", 1).version == 1
        assert memory.permissions.revoke(write.id) == write
        assert_raises(Denied, hers.set, "k", 2)
        assert hers.value("k") == 1
        memory.permissions.revoke(read.id)
        assert_raises(Denied, hers.get, "k")
        assert_raises(NotFound, memory.permissions.revoke, read.id)
        assert memory.permissions.list() == []

    def test_grants_are_listed_oldest_first(self, memory: Memory) -> None:
        made = [
            memory.permissions.grant("z", "memory.read"),
            memory.permissions.grant("a", "memory", level="deny", scope=Scope.of(user="ada"), path="k"),
            memory.permissions.grant("m", "upkeep", level="approve"),
        ]
        assert memory.permissions.list() == made
        assert made[1].rule == Rule("deny", "memory", Scope.of(user="ada"), "k")

    def test_a_grant_that_would_never_count_is_refused(self, memory: Memory, store: Store) -> None:
        with unchanged(store):
            for attempt in (
                lambda: memory.permissions.grant("agent", "memory.reed"),
                lambda: memory.permissions.grant("agent", ""),
                lambda: memory.permissions.grant("agent", "memory", level="perhaps"),  # type: ignore[arg-type]
                lambda: memory.permissions.grant("", "memory"),
                lambda: memory.permissions.grant("owner", "memory"),
                lambda: memory.permissions.grant("agent:*", "memory"),
                lambda: memory.permissions.grant("agent", "memory", scope=Scope.of(user="*")),
                lambda: memory.permissions.grant("agent", "memory", level="deny", path="health.*"),
                lambda: memory.permissions.grant("agent", "memory", level="deny", path="*"),
                lambda: memory.permissions.grant("agent", "memory", scope=Scope.of(tenant="other", user="ada")),
            ):
                assert_raises(InvalidPolicy, attempt)
        assert memory.permissions.grant("agent", "memory").actor == "agent"

    @pytest.mark.parametrize("actor", ["agent", "ada's agent"])
    @pytest.mark.parametrize("user", ["ada", "o'hara/the second"])
    def test_a_denial_names_the_grant_that_helps_there_and_nowhere_else(
        self, memory: Memory, actor: str, user: str
    ) -> None:
        there = memory.in_tenant("acme")
        agent = there.acting_as(actor)
        error = assert_raises(Denied, agent.scope(user=user).set, "k", 1)
        call = error.hint.removeprefix("Grant it with memory.")
        assert call.startswith("permissions.grant(")
        eval(f"memory.{call}", {"memory": there})  # what a reader would paste
        assert agent.scope(user=user).set("k", 1).version == 1
        assert_raises(Denied, agent.scope(user="somebody else").set, "k", 1)

    def test_a_denial_by_a_policy_does_not_ask_for_a_grant(self, memory: Memory) -> None:
        reading = Policy.of(allow=("memory.read",))
        memory.permissions.grant("granted", "memory")
        for handle in (memory.acting_as("agent", policy=reading), memory.acting_as("granted").narrowed(reading)):
            error = assert_raises(Denied, handle.scope(user="ada").set, "k", 1)
            assert "policy" in error.hint
            assert "permissions.grant(" not in error.hint
        assert memory.acting_as("granted").scope(user="ada").set("k", 1).version == 1

    # policies of handles

    @pytest.mark.parametrize(
        ("access", "may_read", "may_write"),
        [("read", True, False), ("write", False, True), ("readwrite", True, True), ("none", False, False)],
    )
    def test_access_by_path_says_what_may_be_read_and_written(
        self, memory: Memory, ada: ScopedMemory, access: str, may_read: bool, may_write: bool
    ) -> None:
        ada.set("area", 1)
        ada.set("area.below", 1)
        ada.set("areas", 1)
        policy = Policy.of(allow=READ_WRITE, access={"area": access})  # type: ignore[dict-item]
        hers = memory.acting_as("agent", policy=policy).scope(user="ada")
        for key in ("area", "area.below"):
            reads: list[Callable[[], object]] = [lambda k=key: hers.get(k), lambda k=key: hers.history(k)]
            writes: list[Callable[[], object]] = [lambda k=key: hers.set(k, 2), lambda k=key: hers.delete(k)]
            for attempts, may in ((reads, may_read), (writes, may_write)):
                for attempt in attempts:
                    if may:
                        assert attempt()
                    else:
                        assert_raises(Denied, attempt)
        assert hers.value("areas") == 1
        assert hers.set("areas", 2).version == 2

    def test_a_list_holds_only_what_may_be_read(self, memory: Memory, ada: ScopedMemory) -> None:
        for key in ("a", "a.open", "b", "c.x", "d"):
            ada.set(key, 1)
        access = {"a": "none", "a.open": "read", "b": "write", "c": "readwrite", "*": "none"}
        policy = Policy.of(allow=READ_WRITE, access=access)  # type: ignore[arg-type]
        hers = memory.acting_as("agent", policy=policy).scope(user="ada")
        assert [fact.key for fact in hers.list()] == ["a.open", "c.x"]
        assert [fact.key for fact in hers.list(as_of="2026-01-02")] == ["a.open", "c.x"]
        assert_raises(Denied, hers.list, "b")
        assert len(ada.list()) == 5

    def test_a_page_of_a_list_is_filled_with_what_may_be_read(self, memory: Memory, ada: ScopedMemory) -> None:
        for key in ("a.1", "a.2", "b.1", "b.2", "b.3"):
            ada.set(key, 1)
        policy = Policy.of(allow=("memory.read",), access={"a": "none"})
        hers = memory.acting_as("agent", policy=policy).scope(user="ada")
        assert [fact.key for fact in hers.list(limit=2)] == ["b.1", "b.2"]
        assert [fact.key for fact in hers.list(after="b.2", limit=2)] == ["b.3"]

    def test_no_other_way_leads_to_what_may_not_be_read(self, memory: Memory, tmp_path: Path) -> None:
        memory.definitions.create(name="Secret", slug="secret", schema={"type": "object"})
        ada = memory.scope(user="ada")
        ada.set("secret", {"pin": 1234})
        ada.set("open", {"pin": "none"})
        agent = memory.acting_as("agent", policy=Policy.of(allow=("memory",), access={"secret": "none"}))
        assert [fact.key for fact in agent.scope(user="ada").list()] == ["open"]
        try:
            assert agent.definitions.records("secret") == []
        except Denied:
            pass
        path = tmp_path / "export.jsonl"
        try:
            agent.export(path)
        except Denied:
            path.write_bytes(b"")
        assert b"1234" not in path.read_bytes()
        assert len(memory.definitions.records("secret")) == 1

    def test_an_import_cannot_write_what_may_not_be_written(
        self, memory: Memory, elsewhere: Memory, tmp_path: Path
    ) -> None:
        for key in ("locked", "open"):
            elsewhere.scope(user="ada").set(key, "imported")
        elsewhere.export(tmp_path / "all.jsonl")
        elsewhere.scope(user="ada").delete("locked")
        elsewhere.export(tmp_path / "open.jsonl")
        agent = memory.acting_as("agent", policy=Policy.of(allow=("memory",), access={"locked": "read"}))
        assert_raises(Denied, agent.import_file, tmp_path / "all.jsonl")
        assert memory.scope(user="ada").list() == []
        assert agent.import_file(tmp_path / "open.jsonl").written == 1

    def test_a_narrowed_handle_can_do_less_and_never_more(self, memory: Memory, ada: ScopedMemory) -> None:
        ada.set("k", 1)
        reader = memory.narrowed(Policy.of(allow=("memory.read",)))
        assert reader.scope(user="ada").value("k") == 1
        assert_raises(Denied, reader.scope(user="ada").set, "k", 2)
        wider = reader.narrowed(Policy.of(allow=("*",)))
        assert_raises(Denied, wider.scope(user="ada").set, "k", 2)
        assert wider.scope(user="ada").value("k") == 1
        memory.permissions.grant("agent", "memory")
        agent = memory.acting_as("agent")
        assert agent.scope(user="ada").set("k", 2).version == 2
        narrow = agent.narrowed(Policy.of(allow=("*",), access={"k": "read"}))
        assert_raises(Denied, narrow.scope(user="ada").set, "k", 3)
        assert narrow.scope(user="ada").value("k") == 2
        assert narrow.actor == "agent"

    def test_a_policy_about_another_tenant_is_refused(self, memory: Memory) -> None:
        there = memory.in_tenant("other")
        there.scope(user="ada").set("k", 1)
        for tenant in ("default", "other"):
            hidden = Rule("deny", "memory.read", Scope.of(tenant=tenant, user="ada"))
            policy = Policy(rules=(Rule("allow", "memory"), hidden))
            for reaching in (partial(there.acting_as, "agent", policy=policy), partial(there.narrowed, policy)):
                with pytest.raises(Denied if tenant == "other" else InvalidPolicy):
                    reaching().scope(user="ada").get("k")

    def test_only_the_owner_hands_out_handles(self, memory: Memory) -> None:
        memory.permissions.grant("agent", "*")
        agent = memory.acting_as("agent")
        for handle in (agent, memory.narrowed(Policy.of(allow=("memory",))), memory.acting_as("x", policy=Policy.of())):
            assert_raises(Denied, handle.acting_as, "owner")
        assert agent.scope(user="ada").set("k", 1).origin.actor == "agent"
        assert memory.acting_as("agent").actor == "agent"

    def test_a_handle_for_another_actor_stays_in_its_tenant(self, memory: Memory) -> None:
        there = memory.scope(tenant="other", user="ada")
        there.set("k", "theirs")
        agent = memory.acting_as("agent", policy=Policy.of(allow=("memory",)))
        assert agent.scope(user="ada").set("k", "ours").version == 1
        for attempt in (
            lambda: agent.scope(tenant="other", user="ada").get("k"),
            lambda: agent.scope(tenant="other", user="ada").list(),
            lambda: agent.scope(tenant="other", user="ada").history("k"),
            lambda: agent.scope(tenant="other", user="ada").set("k", "mine"),
            lambda: agent.at(there.scope).get("k"),
            lambda: agent.at(there.scope).delete("k"),
            lambda: agent.erase(tenant="other", user="ada"),
        ):
            assert_raises(Denied, attempt)
        assert there.value("k") == "theirs"
        assert len(there.history("k")) == 1

    # restart

    @requires(Capability.RESTART)
    def test_grants_epoch_and_quotas_survive_a_restart(self, memory: Memory, reopen: Callable[[], Memory]) -> None:
        quota = Policy.of(allow=("memory",), quota=Quota(writes=2, per="1h"))
        memory.permissions.grant("agent", "memory")
        revoked = memory.permissions.grant("former", "memory")
        memory.permissions.revoke(revoked.id)
        limited = memory.acting_as("limited", policy=quota).scope(user="ada")
        limited.set("k", 1)
        grants = memory.permissions.list()
        again = reopen()
        assert again.permissions.list() == grants
        assert again.acting_as("agent").scope(user="ada").set("k", 2).version == 2
        assert again.ledger.tail(1)[0].epoch == 3
        assert_raises(Denied, again.acting_as("former").scope(user="ada").get, "k")
        limited = again.acting_as("limited", policy=quota).scope(user="ada")
        assert limited.set("k", 3).version == 3
        assert_raises(QuotaExceeded, limited.set, "k", 4)

    def test_an_effect_under_no_policy_at_all_is_denied(self, memory: Memory) -> None:
        memory.scope(user="ada").set("k", 1)
        empty = memory.acting_as("agent", policy=Policy.of())
        error = assert_raises(Denied, empty.scope(user="ada").get, "k")
        assert error.capability == GetFact.capability
        full = memory.acting_as("agent", policy=Policy.of(allow=("memory.read",)))
        assert full.scope(user="ada").value("k") == 1
