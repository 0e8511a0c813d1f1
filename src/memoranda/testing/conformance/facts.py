"""Facts: set, get, update, delete, list, and compare-and-set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Raw, structs

from memoranda.api.memory import Memory
from memoranda.errors import Conflict, Denied, NotFound, Unavailable
from memoranda.model.effect import FindFacts, SetFact
from memoranda.model.fact import Fact, Origin
from memoranda.model.policy import Policy, Rule
from memoranda.model.scope import Scope
from memoranda.store.base import Reader, Store
from memoranda.testing.clock import FakeClock
from memoranda.testing.conformance.base import present, snapshot

VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    2**63 - 1,
    -(2**63),
    1.0,
    -0.5,
    1e308,
    5e-324,
    "",
    "text",
    'quo"te \\ and \n line',
    "日本語 🧠 \u00e9 \u200f",
    [],
    {},
    [None, [1, [2.5, "x"]], {"a": {"b": []}}],
    {"": 1, "a.b": 2, "%": 3, "é": 4},
)


class FactPromises:
    """What is written is what is read, and nobody overwrites what they have not seen."""

    # writing and reading

    def test_set_then_get_returns_an_equal_fact(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        written = ada.set("profile.language", "en", domain="profile")
        assert written.value == "en"
        assert written.key == "profile.language"
        assert written.scope == Scope.of(user="ada")
        assert written.version == 1
        assert written.created_at == written.updated_at == clock.now()
        assert written.expires_at is None
        assert written.domain == "profile"
        assert ada.get("profile.language") == written

    @pytest.mark.parametrize("value", VALUES, ids=repr)
    def test_every_json_value_comes_back_as_it_went_in(self, memory: Memory, value: Any) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", value)
        found = present(ada.get("k")).value
        assert repr(found) == repr(value)  # repr tells 1 from 1.0 and from True
        assert repr(ada.list()[0].value) == repr(value)
        assert repr(ada.history("k")[0].value) == repr(value)

    def test_names_of_an_object_keep_their_order(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", {"z": 1, "a": 2, "m": 3})
        assert list(ada.value("k")) == ["z", "a", "m"]

    def test_a_bare_fact_is_the_fact_without_its_value_whatever_became_of_it(
        self, memory: Memory, store: Store, clock: FakeClock
    ) -> None:
        ada, scope = memory.scope(user="ada"), Scope.of(user="ada")

        def both(rows: Reader) -> tuple[Fact | None, Fact | None]:
            return rows.fact(scope, "k"), rows.bare_fact(scope, "k")

        def seen() -> tuple[Fact | None, Fact | None]:
            inside = store.transact(both)
            assert inside == store.read(both)
            return inside

        assert seen() == (None, None)
        changes: tuple[Callable[[], object], ...] = (
            lambda: ada.set("k", {"much": "x" * 3_000}, domain="d", ttl="1h"),
            lambda: ada.set("k", 2),
            lambda: ada.delete("k"),
            lambda: ada.set("k", 3, expect=0),
            lambda: clock.advance(10),
            lambda: memory.erase(user="ada"),
            lambda: ada.set("k", 4),
        )
        bare = None
        for change in changes:
            change()
            whole, bare = seen()
            assert bare == (None if whole is None else structs.replace(whole, value=None, origin=Origin()))
        assert bare is not None
        with pytest.raises(ZeroDivisionError):
            store.transact(lambda rows: (rows.remove_fact(scope, "k"), 1 // 0))
        assert seen()[1] == bare, "what was undone is not kept in mind"

    def test_who_knows_what_it_wrote_can_do_without_the_value(self, memory: Memory) -> None:
        scope = Scope.of(user="ada")
        quiet = memory.perform(SetFact(scope=scope, key="k", payload=Raw(b'{"a":1}'), echo=False))
        assert (quiet.value, quiet.version) == (None, 1)
        assert memory.scope(user="ada").value("k") == {"a": 1}
        assert memory.perform(SetFact(scope=scope, key="k", payload=Raw(b"2"))).value == 2

    def test_a_key_that_was_never_written_gives_none(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ada.set("here", 1)
        assert ada.get("nowhere") is None
        assert ada.history("nowhere") == []
        assert ada.value("here") == 1

    def test_value_gives_the_default_only_where_there_is_no_fact(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ada.set("nothing", None)
        assert ada.value("missing", "default") == "default"
        assert ada.value("nothing", "default") is None

    def test_a_write_replaces_the_whole_value(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ada.set("profile", {"name": "Ada", "language": "en"})
        ada.set("profile", {"language": "fr"})
        assert ada.value("profile") == {"language": "fr"}

    def test_changing_what_was_given_or_returned_changes_nothing_kept(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        given: dict[str, Any] = {"tags": ["a"]}
        returned = ada.set("k", given)
        given["tags"].append("b")
        returned.value["tags"].append("c")
        ada.value("k")["tags"].append("d")
        ada.list()[0].value["tags"].append("e")
        ada.history("k")[0].value["tags"].append("f")
        assert ada.value("k") == {"tags": ["a"]}
        assert ada.history("k")[0].value == {"tags": ["a"]}

    def test_origin_says_who_through_which_door_and_from_which_source(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        assert ada.set("a", 1).origin == Origin("owner", "python", None)
        assert ada.set("b", 1, source="mail:17").origin == Origin("owner", "python", "mail:17")
        assert memory.through("cli").scope(user="ada").set("c", 1).origin == Origin("owner", "cli", None)
        memory.permissions.grant("agent:emails", "memory")
        agent = memory.acting_as("agent:emails", door="mcp", source="thread:4").scope(user="ada")
        assert agent.set("d", 1).origin == Origin("agent:emails", "mcp", "thread:4")
        assert agent.set("d", 2, source="mail:18").origin == Origin("agent:emails", "mcp", "mail:18")
        assert present(ada.get("d")).origin == Origin("agent:emails", "mcp", "mail:18")
        assert [revision.origin.source for revision in ada.history("d")] == ["thread:4", "mail:18"]

    # versions and identity

    def test_the_version_goes_up_by_one_with_each_write(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        assert [ada.set("k", n).version for n in range(4)] == [1, 2, 3, 4]
        assert ada.set("other", 0).version == 1

    def test_writing_an_equal_value_is_still_a_new_version(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", "same")
        assert ada.set("k", "same").version == 2

    def test_an_update_keeps_the_id_and_the_moment_of_creation(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        first = ada.set("k", 1)
        clock.advance(5)
        second = ada.set("k", 2)
        assert second.id == first.id
        assert second.created_at == first.created_at
        assert second.updated_at == clock.now() > first.updated_at

    def test_a_deleted_and_recreated_fact_has_a_new_id_and_never_an_old_version(
        self, memory: Memory, clock: FakeClock
    ) -> None:
        ada = memory.scope(user="ada")
        first = ada.set("k", 1)
        assert ada.delete("k")
        clock.advance(5)
        again = ada.set("k", 2)
        assert again.id != first.id
        assert again.version == 3  # the deletion was version 2
        assert again.created_at == again.updated_at == clock.now()

    # compare and set

    def test_a_write_with_the_expected_version_is_kept(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        fact = ada.set("k", 1)
        assert ada.set("k", 2, expect=fact.version).version == 2
        assert ada.delete("k", expect=2)

    @pytest.mark.parametrize("expect", [0, 1, 3])
    def test_a_write_with_another_version_is_a_conflict_and_changes_nothing(
        self, memory: Memory, store: Store, expect: int
    ) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", 1)
        ada.set("k", 2)
        before = snapshot(store)
        with pytest.raises(Conflict) as caught:
            ada.set("k", 3, expect=expect)
        assert (caught.value.expected, caught.value.actual) == (expect, 2)
        with pytest.raises(Conflict) as caught:
            ada.delete("k", expect=expect)
        assert (caught.value.expected, caught.value.actual) == (expect, 2)
        assert snapshot(store) == before
        assert ada.value("k") == 2

    def test_expecting_a_version_of_a_missing_fact_is_a_conflict_with_zero(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        with pytest.raises(Conflict) as caught:
            ada.set("k", 1, expect=1)
        assert (caught.value.expected, caught.value.actual) == (1, 0)
        with pytest.raises(Conflict) as caught:
            ada.delete("k", expect=1)
        assert (caught.value.expected, caught.value.actual) == (1, 0)
        assert ada.get("k") is None
        assert ada.set("k", 1, expect=0).version == 1

    def test_expecting_zero_writes_only_where_there_is_nothing(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        assert ada.set("k", 1, expect=0).version == 1
        with pytest.raises(Conflict) as caught:
            ada.set("k", 2, expect=0)
        assert (caught.value.expected, caught.value.actual) == (0, 1)
        ada.delete("k")
        assert ada.set("k", 3, expect=0).version == 3
        assert ada.value("k") == 3

    def test_an_old_version_stays_old_after_delete_and_recreate(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        held = ada.set("k", "mine").version
        ada.delete("k")
        ada.set("k", "theirs")
        with pytest.raises(Conflict) as caught:
            ada.set("k", "lost update", expect=held)
        assert caught.value.actual == 3
        assert ada.value("k") == "theirs"

    def test_deleting_with_expect_zero_asks_for_absence(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        assert ada.delete("k", expect=0) is False
        ada.set("k", 1)
        with pytest.raises(Conflict):
            ada.delete("k", expect=0)
        assert ada.value("k") == 1

    def test_create_writes_once(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        assert ada.create("k", 1, domain="d").domain == "d"
        with pytest.raises(Conflict) as caught:
            ada.create("k", 2)
        assert (caught.value.expected, caught.value.actual) == (0, 1)
        assert ada.value("k") == 1

    # update

    def test_update_changes_what_it_finds(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ada.set("count", 1, domain="numbers")
        fact = ada.update("count", lambda value: value + 1)
        assert (fact.value, fact.version, fact.domain) == (2, 2, "numbers")
        assert ada.update("count", lambda value: value + 1, domain="other").domain == "other"

    def test_update_of_a_missing_fact_needs_a_default(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        with pytest.raises(NotFound):
            ada.update("count", lambda value: value + 1)
        assert ada.get("count") is None
        assert ada.update("count", lambda value: value + 1, default=10).value == 11

    def test_update_begins_again_when_somebody_was_faster(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ada.set("count", 0)
        seen: list[int] = []

        def change(value: int) -> int:
            seen.append(value)
            if len(seen) == 1:
                ada.set("count", 100)
            return value + 1

        assert ada.update("count", change).value == 101
        assert seen == [0, 100]

    def test_update_gives_up_after_its_attempts(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ada.set("count", 0)

        def change(value: int) -> int:
            ada.set("count", value + 100)
            return value + 1

        with pytest.raises(Conflict):
            ada.update("count", change, attempts=2)
        assert ada.value("count") == 200

    def test_an_update_whose_change_fails_writes_nothing(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ada.set("count", "not a number")
        with pytest.raises(TypeError):
            ada.update("count", lambda value: value + 1)
        assert present(ada.get("count")).version == 1

    # delete

    def test_delete_says_whether_there_was_a_fact(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", 1)
        ada.set("sibling", 2)
        assert ada.delete("k") is True
        assert ada.delete("k") is False
        assert ada.delete("never") is False
        assert ada.get("k") is None
        assert [fact.key for fact in ada.list()] == ["sibling"]

    def test_deleting_a_fact_leaves_the_facts_below_it(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ada.set("profile", "whole")
        ada.set("profile.name", "Ada")
        assert ada.delete("profile")
        assert [fact.key for fact in ada.list("profile")] == ["profile.name"]

    def test_deleting_nothing_uses_no_version(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ada.delete("k")
        assert ada.set("k", 1).version == 1
        ada.delete("k")
        ada.delete("k")
        assert ada.set("k", 1).version == 3

    # list

    def test_list_is_ordered_by_key(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        keys = ["b", "a.b", "a", "A", "a-b", "a:b", "a/b", "a_b", "a%b", "é", "日本", "🧠", "a b", "1", "10", "2"]
        for key in keys:
            ada.set(key, key)
        assert [fact.key for fact in ada.list()] == sorted(keys)
        assert [fact.value for fact in ada.list()] == sorted(keys)

    def test_list_below_a_key_goes_by_whole_segments(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        inside = ["profile", "profile.a", "profile.a.b", "profile.z"]
        outside = ["profiler", "profil", "profile-a", "profile/a", "profile:a", "profile_a", "profile%a", "Profile"]
        for key in inside + outside:
            ada.set(key, 1)
        assert [fact.key for fact in ada.list("profile")] == inside
        assert [fact.key for fact in ada.list("profile.a")] == ["profile.a", "profile.a.b"]
        assert len(ada.list()) == len(inside + outside)

    @pytest.mark.parametrize("mark", ["%", "_", "/", ":", "*", "?", "[a]", "'", '"', "\\"])
    def test_no_character_of_a_prefix_is_a_pattern(self, memory: Memory, mark: str) -> None:
        ada = memory.scope(user="ada")
        ada.set(f"{mark}.here", 1)
        ada.set("x.there", 1)
        ada.set("xx.there", 1)
        assert [fact.key for fact in ada.list(mark)] == [f"{mark}.here"]
        assert len(ada.list()) == 3

    def test_pages_of_a_list_hold_every_fact_once(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        keys = [*sorted(f"k.{n}" for n in range(25)), "other"]
        for key in reversed(keys):
            ada.set(key, 1)
        pages: list[list[str]] = []
        after = ""
        while page := [fact.key for fact in ada.list(after=after, limit=7)]:
            pages.append(page)
            after = page[-1]
        assert [len(page) for page in pages] == [7, 7, 7, 5]
        assert [key for page in pages for key in page] == keys
        assert [fact.key for fact in ada.list("k", after="k.23", limit=2)] == ["k.24", "k.3"]
        assert [fact.key for fact in ada.list("k", after="k.9")] == []

    def test_after_need_not_be_a_key_that_exists(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        for key in ("a", "c", "e"):
            ada.set(key, 1)
        assert [fact.key for fact in ada.list(after="b")] == ["c", "e"]
        assert [fact.key for fact in ada.list(after="c")] == ["e"]

    def test_a_limit_of_zero_lists_nothing_and_a_large_one_lists_all(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ada.set("a", 1)
        assert ada.list(limit=0) == []
        assert len(ada.list(limit=1_000_000)) == 1

    def test_list_by_domain_finds_exactly_that_domain(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ada.set("a", 1, domain="health")
        ada.set("b", 1, domain="healthy")
        ada.set("c", 1)
        ada.set("d", 1, domain="health")
        assert [fact.key for fact in ada.list(domain="health")] == ["a", "d"]
        assert [fact.key for fact in ada.list(domain="health", limit=1)] == ["a"]
        assert [fact.key for fact in ada.list(domain="health", after="a", limit=1)] == ["d"]
        assert [fact.key for fact in ada.list("a", domain="health")] == ["a"]
        assert ada.list(domain="none") == []
        assert len(ada.list()) == 4

    def test_a_write_without_a_domain_takes_it_off(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ada.set("a", 1, domain="health")
        assert present(ada.get("a")).domain == "health"
        ada.set("a", 2)
        assert present(ada.get("a")).domain is None
        assert ada.list(domain="health") == []
        assert [revision.domain for revision in ada.history("a")] == ["health", None]

    # the end

    def test_one_key_is_found_in_a_scope_and_in_all_below_it(self, memory: Memory, clock: FakeClock) -> None:
        places = [{"user": "ada"}, {"user": "ada", "thread": "t1"}, {"user": "ada", "agent": "desk"}, {"user": "adam"}]
        for number, ids in enumerate(places):
            memory.scope(**ids).set("mood", number)
            memory.scope(**ids).set("mood.late", number)
        memory.scope(user="ada", thread="t2").set("mood", "brief", ttl=1)
        memory.scope(tenant="other", user="ada").set("mood", "elsewhere")
        clock.advance(1)

        def found(limit: int | None = None, **ids: str) -> list[Any]:
            facts = memory.perform(FindFacts(scope=Scope.of(**ids), key="mood", limit=limit))
            return [fact.value for fact in facts]

        assert found(user="ada") == [0, 2, 1]
        assert found() == [0, 2, 1, 3]
        assert found(limit=2) == [0, 2] and found(limit=0) == []
        assert found(user="ada", thread="t1") == [1]
        assert found(user="bob") == []
        narrow = memory.acting_as("guest", policy=Policy(rules=(Rule("allow", "memory.read", Scope.of(user="ada")),)))
        assert len(narrow.perform(FindFacts(scope=Scope.of(user="ada"), key="mood"))) == 3
        with pytest.raises(Denied):
            narrow.perform(FindFacts(scope=Scope.of(), key="mood"))

    def test_a_handle_in_another_tenant_is_the_owner_s_alone(self, memory: Memory) -> None:
        memory.scope(user="ada").set("mood", "here")
        there = memory.in_tenant("other")
        there.scope(user="ada").set("mood", "there")
        assert memory.scope(user="ada").value("mood") == "here"
        assert memory.scope(tenant="other", user="ada").value("mood") == "there"
        guest = memory.acting_as("guest", policy=Policy.of(allow=("memory.read",)))
        assert guest.in_tenant(memory.tenant).scope(user="ada").value("mood") == "here"
        with pytest.raises(Denied):
            guest.in_tenant("other")

    def test_a_mark_is_another_one_once_anything_was_written(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        marks = [memory.mark()]
        for write in (
            lambda: ada.set("city", "Oslo"),
            lambda: memory.scope(user="ben").set("city", "Rome"),
            lambda: ada.delete("city"),
            lambda: memory.in_tenant("other").scope(user="ada").set("city", "Bonn"),
            lambda: ada.remember("Ada lives by the sea", collection="notes"),
        ):
            write()
            marks.append(memory.mark())
        assert len(set(marks)) == len(marks)
        assert ada.get("city") is None
        assert memory.mark() == marks[-1]  # one thread that only reads

    def test_a_closed_memory_says_so_and_may_be_closed_again(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        assert ada.set("k", 1).version == 1
        memory.close()
        for attempt in (
            lambda: ada.get("k"),
            lambda: ada.list(),
            lambda: ada.history("k"),
            lambda: ada.set("k", 2),
            lambda: ada.delete("k"),
            lambda: memory.ledger.tail(),
        ):
            with pytest.raises(Unavailable) as caught:
                attempt()
            assert caught.value.hint
        memory.close()
