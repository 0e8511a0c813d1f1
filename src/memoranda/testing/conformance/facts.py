"""Facts: set, get, update, delete, list, compare-and-set, and their history."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta, timezone
from typing import Any

import pytest
from msgspec import Raw, structs

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.engine.facts import FindFacts, SetFact
from memoranda.errors import Conflict, Denied, NotFound, Unavailable
from memoranda.model.fact import Fact, Origin
from memoranda.model.policy import Policy, Rule
from memoranda.model.scope import Scope
from memoranda.store.base import Reader, RevisionQuery, Store
from memoranda.testing.conformance.base import Capability, present, requires, snapshot
from memoranda.testing.fakes import FakeClock

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
    """Reads return what was written, and compare-and-set protects changes that the writer has not seen."""

    # writing and reading

    def test_set_then_get_returns_an_equal_fact(self, ada: ScopedMemory, clock: FakeClock) -> None:
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
    def test_every_json_value_comes_back_as_it_went_in(self, ada: ScopedMemory, value: Any) -> None:
        ada.set("k", value)
        found = present(ada.get("k")).value
        assert repr(found) == repr(value)  # repr tells 1 from 1.0 and from True
        assert repr(ada.list()[0].value) == repr(value)
        assert repr(ada.history("k")[0].value) == repr(value)

    def test_names_of_an_object_keep_their_order(self, ada: ScopedMemory) -> None:
        ada.set("k", {"z": 1, "a": 2, "m": 3})
        assert list(ada.value("k")) == ["z", "a", "m"]

    def test_a_bare_fact_is_the_fact_without_its_value(
        self, memory: Memory, ada: ScopedMemory, store: Store, clock: FakeClock
    ) -> None:
        scope = Scope.of(user="ada")

        def both(rows: Reader) -> tuple[Fact | None, Fact | None]:
            return rows.fact(scope, "k"), rows.fact(scope, "k", value=False)

        def current() -> tuple[Fact | None, Fact | None]:
            inside = store.transact(both)
            assert inside == store.read(both)
            return inside

        assert current() == (None, None)
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
            whole, bare = current()
            assert bare == (None if whole is None else structs.replace(whole, value=None, origin=Origin()))
        assert bare is not None
        with pytest.raises(ZeroDivisionError):
            store.transact(lambda rows: (rows.remove_fact(scope, "k"), 1 // 0))
        assert current()[1] == bare, "what was undone is not kept in mind"

    def test_a_write_can_return_the_fact_without_its_value(self, memory: Memory) -> None:
        scope = Scope.of(user="ada")
        quiet = memory.perform(SetFact(scope=scope, key="k", payload=Raw(b'{"a":1}'), echo=False))
        assert (quiet.value, quiet.version) == (None, 1)
        assert memory.scope(user="ada").value("k") == {"a": 1}
        assert memory.perform(SetFact(scope=scope, key="k", payload=Raw(b"2"))).value == 2

    def test_a_key_that_was_never_written_gives_none(self, ada: ScopedMemory) -> None:
        ada.set("here", 1)
        assert ada.get("nowhere") is None
        assert ada.history("nowhere") == []
        assert ada.value("here") == 1

    def test_value_gives_the_default_only_where_there_is_no_fact(self, ada: ScopedMemory) -> None:
        ada.set("nothing", None)
        assert ada.value("missing", "default") == "default"
        assert ada.value("nothing", "default") is None

    def test_a_write_replaces_the_whole_value(self, ada: ScopedMemory) -> None:
        ada.set("profile", {"name": "Ada", "language": "en"})
        ada.set("profile", {"language": "fr"})
        assert ada.value("profile") == {"language": "fr"}

    def test_changing_what_was_given_or_returned_changes_nothing_kept(self, ada: ScopedMemory) -> None:
        given: dict[str, Any] = {"tags": ["a"]}
        returned = ada.set("k", given)
        given["tags"].append("b")
        returned.value["tags"].append("c")
        ada.value("k")["tags"].append("d")
        ada.list()[0].value["tags"].append("e")
        ada.history("k")[0].value["tags"].append("f")
        assert ada.value("k") == {"tags": ["a"]}
        assert ada.history("k")[0].value == {"tags": ["a"]}

    def test_origin_says_who_through_which_door_and_from_which_source(self, memory: Memory, ada: ScopedMemory) -> None:
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

    def test_the_version_goes_up_by_one_with_each_write(self, ada: ScopedMemory) -> None:
        assert [ada.set("k", n).version for n in range(4)] == [1, 2, 3, 4]
        assert ada.set("other", 0).version == 1

    def test_writing_an_equal_value_is_still_a_new_version(self, ada: ScopedMemory) -> None:
        ada.set("k", "same")
        assert ada.set("k", "same").version == 2

    def test_an_update_keeps_the_id_and_the_moment_of_creation(self, ada: ScopedMemory, clock: FakeClock) -> None:
        first = ada.set("k", 1)
        clock.advance(5)
        second = ada.set("k", 2)
        assert second.id == first.id
        assert second.created_at == first.created_at
        assert second.updated_at == clock.now() > first.updated_at

    def test_a_deleted_and_recreated_fact_has_a_new_id_and_never_an_old_version(
        self, ada: ScopedMemory, clock: FakeClock
    ) -> None:
        first = ada.set("k", 1)
        assert ada.delete("k")
        clock.advance(5)
        again = ada.set("k", 2)
        assert again.id != first.id
        assert again.version == 3  # the deletion was version 2
        assert again.created_at == again.updated_at == clock.now()

    # compare and set

    def test_a_write_with_the_expected_version_is_kept(self, ada: ScopedMemory) -> None:
        fact = ada.set("k", 1)
        assert ada.set("k", 2, expect=fact.version).version == 2
        assert ada.delete("k", expect=2)

    @pytest.mark.parametrize("expect", [0, 1, 3])
    def test_a_write_with_another_version_is_a_conflict_and_changes_nothing(
        self, ada: ScopedMemory, store: Store, expect: int
    ) -> None:
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

    def test_expecting_a_version_of_a_missing_fact_is_a_conflict_with_zero(self, ada: ScopedMemory) -> None:
        with pytest.raises(Conflict) as caught:
            ada.set("k", 1, expect=1)
        assert (caught.value.expected, caught.value.actual) == (1, 0)
        with pytest.raises(Conflict) as caught:
            ada.delete("k", expect=1)
        assert (caught.value.expected, caught.value.actual) == (1, 0)
        assert ada.get("k") is None
        assert ada.set("k", 1, expect=0).version == 1

    def test_expecting_zero_writes_only_where_there_is_nothing(self, ada: ScopedMemory) -> None:
        assert ada.set("k", 1, expect=0).version == 1
        with pytest.raises(Conflict) as caught:
            ada.set("k", 2, expect=0)
        assert (caught.value.expected, caught.value.actual) == (0, 1)
        ada.delete("k")
        assert ada.set("k", 3, expect=0).version == 3
        assert ada.value("k") == 3

    def test_an_old_version_stays_old_after_delete_and_recreate(self, ada: ScopedMemory) -> None:
        held = ada.set("k", "mine").version
        ada.delete("k")
        ada.set("k", "theirs")
        with pytest.raises(Conflict) as caught:
            ada.set("k", "lost update", expect=held)
        assert caught.value.actual == 3
        assert ada.value("k") == "theirs"

    def test_deleting_with_expect_zero_asks_for_absence(self, ada: ScopedMemory) -> None:
        assert ada.delete("k", expect=0) is False
        ada.set("k", 1)
        with pytest.raises(Conflict):
            ada.delete("k", expect=0)
        assert ada.value("k") == 1

    def test_create_writes_once(self, ada: ScopedMemory) -> None:
        assert ada.create("k", 1, domain="d").domain == "d"
        with pytest.raises(Conflict) as caught:
            ada.create("k", 2)
        assert (caught.value.expected, caught.value.actual) == (0, 1)
        assert ada.value("k") == 1

    # update

    def test_update_changes_what_it_finds(self, ada: ScopedMemory) -> None:
        ada.set("count", 1, domain="numbers")
        fact = ada.update("count", lambda value: value + 1)
        assert (fact.value, fact.version, fact.domain) == (2, 2, "numbers")
        assert ada.update("count", lambda value: value + 1, domain="other").domain == "other"

    def test_update_of_a_missing_fact_needs_a_default(self, ada: ScopedMemory) -> None:
        with pytest.raises(NotFound):
            ada.update("count", lambda value: value + 1)
        assert ada.get("count") is None
        assert ada.update("count", lambda value: value + 1, default=10).value == 11

    def test_update_starts_again_after_a_concurrent_write(self, ada: ScopedMemory) -> None:
        ada.set("count", 0)
        seen: list[int] = []

        def change(value: int) -> int:
            seen.append(value)
            if len(seen) == 1:
                ada.set("count", 100)
            return value + 1

        assert ada.update("count", change).value == 101
        assert seen == [0, 100]

    def test_update_gives_up_after_its_attempts(self, ada: ScopedMemory) -> None:
        ada.set("count", 0)

        def change(value: int) -> int:
            ada.set("count", value + 100)
            return value + 1

        with pytest.raises(Conflict):
            ada.update("count", change, attempts=2)
        assert ada.value("count") == 200

    def test_an_update_whose_change_fails_writes_nothing(self, ada: ScopedMemory) -> None:
        ada.set("count", "not a number")
        with pytest.raises(TypeError):
            ada.update("count", lambda value: value + 1)
        assert present(ada.get("count")).version == 1

    # delete

    def test_delete_says_whether_there_was_a_fact(self, ada: ScopedMemory) -> None:
        ada.set("k", 1)
        ada.set("sibling", 2)
        assert ada.delete("k") is True
        assert ada.delete("k") is False
        assert ada.delete("never") is False
        assert ada.get("k") is None
        assert [fact.key for fact in ada.list()] == ["sibling"]

    def test_deleting_a_fact_leaves_the_facts_below_it(self, ada: ScopedMemory) -> None:
        ada.set("profile", "whole")
        ada.set("profile.name", "Ada")
        assert ada.delete("profile")
        assert [fact.key for fact in ada.list("profile")] == ["profile.name"]

    def test_deleting_nothing_uses_no_version(self, ada: ScopedMemory) -> None:
        ada.delete("k")
        assert ada.set("k", 1).version == 1
        ada.delete("k")
        ada.delete("k")
        assert ada.set("k", 1).version == 3

    # list

    def test_list_is_ordered_by_key(self, ada: ScopedMemory) -> None:
        keys = ["b", "a.b", "a", "A", "a-b", "a:b", "a/b", "a_b", "a%b", "é", "日本", "🧠", "a b", "1", "10", "2"]
        for key in keys:
            ada.set(key, key)
        assert [fact.key for fact in ada.list()] == sorted(keys)
        assert [fact.value for fact in ada.list()] == sorted(keys)

    def test_list_below_a_key_goes_by_whole_segments(self, ada: ScopedMemory) -> None:
        inside = ["profile", "profile.a", "profile.a.b", "profile.z"]
        outside = ["profiler", "profil", "profile-a", "profile/a", "profile:a", "profile_a", "profile%a", "Profile"]
        for key in inside + outside:
            ada.set(key, 1)
        assert [fact.key for fact in ada.list("profile")] == inside
        assert [fact.key for fact in ada.list("profile.a")] == ["profile.a", "profile.a.b"]
        assert len(ada.list()) == len(inside + outside)

    @pytest.mark.parametrize("mark", ["%", "_", "/", ":", "*", "?", "[a]", "'", '"', "\\"])
    def test_no_character_of_a_prefix_is_a_pattern(self, ada: ScopedMemory, mark: str) -> None:
        ada.set(f"{mark}.here", 1)
        ada.set("x.there", 1)
        ada.set("xx.there", 1)
        assert [fact.key for fact in ada.list(mark)] == [f"{mark}.here"]
        assert len(ada.list()) == 3

    def test_pages_of_a_list_hold_every_fact_once(self, ada: ScopedMemory) -> None:
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

    def test_after_need_not_be_a_key_that_exists(self, ada: ScopedMemory) -> None:
        for key in ("a", "c", "e"):
            ada.set(key, 1)
        assert [fact.key for fact in ada.list(after="b")] == ["c", "e"]
        assert [fact.key for fact in ada.list(after="c")] == ["e"]

    def test_a_limit_of_zero_lists_nothing_and_a_large_one_lists_all(self, ada: ScopedMemory) -> None:
        ada.set("a", 1)
        assert ada.list(limit=0) == []
        assert len(ada.list(limit=1_000_000)) == 1

    def test_list_by_domain_finds_exactly_that_domain(self, ada: ScopedMemory) -> None:
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

    def test_a_write_without_a_domain_takes_it_off(self, ada: ScopedMemory) -> None:
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

        def values_of(limit: int | None = None, **ids: str) -> list[Any]:
            facts = memory.perform(FindFacts(scope=Scope.of(**ids), key="mood", limit=limit))
            return [fact.value for fact in facts]

        assert values_of(user="ada") == [0, 2, 1]
        assert values_of() == [0, 2, 1, 3]
        assert values_of(limit=2) == [0, 2] and values_of(limit=0) == []
        assert values_of(user="ada", thread="t1") == [1]
        assert values_of(user="bob") == []
        narrow = memory.acting_as("guest", policy=Policy(rules=(Rule("allow", "memory.read", Scope.of(user="ada")),)))
        assert len(narrow.perform(FindFacts(scope=Scope.of(user="ada"), key="mood"))) == 3
        with pytest.raises(Denied):
            narrow.perform(FindFacts(scope=Scope.of(), key="mood"))

    def test_only_the_owner_gets_a_handle_in_another_tenant(self, memory: Memory) -> None:
        memory.scope(user="ada").set("mood", "here")
        there = memory.in_tenant("other")
        there.scope(user="ada").set("mood", "there")
        assert memory.scope(user="ada").value("mood") == "here"
        assert memory.scope(tenant="other", user="ada").value("mood") == "there"
        guest = memory.acting_as("guest", policy=Policy.of(allow=("memory.read",)))
        assert guest.in_tenant(memory.tenant).scope(user="ada").value("mood") == "here"
        with pytest.raises(Denied):
            guest.in_tenant("other")

    def test_a_mark_is_another_one_once_anything_was_written(self, memory: Memory, ada: ScopedMemory) -> None:
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

    def test_a_closed_memory_says_so_and_may_be_closed_again(self, memory: Memory, ada: ScopedMemory) -> None:
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


TICK = timedelta(microseconds=1)


class HistoryPromises:
    """What was stays readable, in order, at the moment it was true."""

    def test_history_tells_every_change_oldest_first(self, ada: ScopedMemory, clock: FakeClock) -> None:
        first = ada.set("k", "one", domain="d", source="s1")
        clock.advance(10)
        second = ada.set("k", "two", ttl=60)
        clock.advance(10)
        ada.delete("k", source="s3")
        clock.advance(10)
        third = ada.set("k", "three")
        history = ada.history("k")
        assert [(r.version, r.change, r.value) for r in history] == [
            (1, "set", "one"),
            (2, "set", "two"),
            (3, "deleted", None),
            (4, "set", "three"),
        ]
        assert [r.at - history[0].at for r in history] == [timedelta(seconds=10 * n) for n in range(4)]
        assert [r.domain for r in history] == ["d", None, None, None]
        assert [r.origin.source for r in history] == ["s1", None, "s3", None]
        assert [r.expires_at for r in history] == [None, second.expires_at, None, None]
        assert [r.fact_id for r in history] == [first.id, first.id, first.id, third.id]
        assert history[0].as_fact() == first
        assert history[1].as_fact() == second
        assert history[3].as_fact() == third
        assert not any(r.forgotten for r in history)

    def test_the_history_below_a_scope_is_read_by_scope_key_and_version(self, memory: Memory, store: Store) -> None:
        for user in ("ada", "ad", "ada-b"):
            for n in range(20):
                memory.scope(user=user).set(f"k{n % 2}", n)
        memory.scope(user="ada", agent="desk").set("k", 1)
        memory.in_tenant("other").scope(user="ada").set("k", 1)

        def places(path: str) -> list[tuple[str, str, int]]:
            found = store.read(lambda rows: list(rows.revisions(RevisionQuery(Scope(path=path)))))
            return [(one.scope.path, one.key, one.version) for one in found]

        every = places("")
        assert every == sorted(every) and len(every) == len(set(every)) == 61
        assert places("user:ada") == [
            *(("user:ada", key, version) for key in ("k0", "k1") for version in range(1, 11)),
            (memory.scope(user="ada", agent="desk").scope.path, "k", 1),
        ]
        assert {scope for scope, _, _ in places("user:ad")} == {"user:ad"}

    def test_histories_of_other_keys_and_scopes_do_not_mix(self, ada: ScopedMemory, bob: ScopedMemory) -> None:
        ada.set("k", 1)
        ada.set("k.below", 2)
        bob.set("k", 3)
        assert [r.value for r in ada.history("k")] == [1]
        assert [r.value for r in ada.history("k.below")] == [2]
        assert [r.value for r in bob.history("k")] == [3]

    def test_a_read_as_of_a_moment_gives_the_value_of_that_moment(self, ada: ScopedMemory, clock: FakeClock) -> None:
        start = clock.now()
        clock.advance(10)
        first = ada.set("k", "one")
        clock.advance(10)
        second = ada.set("k", "two")
        assert ada.get("k", as_of=start) is None
        assert ada.get("k", as_of=first.updated_at - TICK) is None
        assert ada.get("k", as_of=first.updated_at) == first
        assert ada.get("k", as_of=second.updated_at - TICK) == first
        assert ada.get("k", as_of=second.updated_at) == second
        assert ada.get("k", as_of=second.updated_at + TICK) == second
        assert ada.value("k", as_of=first.updated_at) == "one"
        assert ada.value("k", "default", as_of=start) == "default"

    def test_a_deleted_fact_is_seen_until_exactly_its_deletion(self, ada: ScopedMemory, clock: FakeClock) -> None:
        ada.set("k", "one")
        clock.advance(10)
        ada.delete("k")
        deleted = clock.now()
        clock.advance(10)
        again = ada.set("k", "two")
        assert ada.value("k", as_of=deleted - TICK) == "one"
        assert ada.get("k", as_of=deleted) is None
        assert ada.get("k", as_of=again.updated_at - TICK) is None
        assert ada.get("k", as_of=again.updated_at) == again

    def test_an_expired_fact_is_seen_until_exactly_its_expiry(self, ada: ScopedMemory, clock: FakeClock) -> None:
        fact = ada.set("k", "one", ttl=60)
        clock.advance(120)
        again = ada.set("k", "two")
        expiry = present(fact.expires_at)
        assert ada.value("k", as_of=expiry - TICK) == "one"
        assert ada.get("k", as_of=expiry) is None
        assert ada.get("k", as_of=again.updated_at) == again

    def test_a_list_as_of_a_moment_gives_the_facts_of_that_moment(self, ada: ScopedMemory, clock: FakeClock) -> None:
        ada.set("a", 1, domain="d")
        ada.set("b.x", 1, ttl=60)
        ada.set("c", 1)
        ada.set("bb", 1, domain="d")
        clock.advance(10)
        then = clock.now()
        clock.advance(10)
        ada.set("a", 2)
        ada.delete("c")
        ada.set("new", 1)
        clock.advance(100)
        assert [(f.key, f.value) for f in ada.list(as_of=then)] == [("a", 1), ("b.x", 1), ("bb", 1), ("c", 1)]
        assert [f.key for f in ada.list("b", as_of=then)] == ["b.x"]
        assert [f.key for f in ada.list(domain="d", as_of=then)] == ["a", "bb"]
        assert [f.key for f in ada.list(as_of=then, after="a", limit=2)] == ["b.x", "bb"]
        assert [(f.key, f.value) for f in ada.list(as_of=clock.now())] == [("a", 2), ("bb", 1), ("new", 1)]
        assert ada.list(as_of=then - timedelta(days=1)) == []

    def test_a_moment_may_be_written_as_text_and_in_any_zone(self, ada: ScopedMemory, clock: FakeClock) -> None:
        fact = ada.set("k", "one")
        clock.advance(3600)
        ada.set("k", "two")
        moment = fact.updated_at
        away = moment.astimezone(timezone(timedelta(hours=5, minutes=30)))
        assert ada.value("k", as_of=away) == "one"
        assert ada.value("k", as_of=away.isoformat()) == "one"
        assert ada.value("k", as_of=moment.isoformat().replace("+00:00", "Z")) == "one"
        assert ada.value("k", as_of=moment.replace(tzinfo=None)) == "one"
        assert ada.value("k") == "two"

    def test_changes_of_one_moment_keep_their_order(self, ada: ScopedMemory, clock: FakeClock) -> None:
        facts = [ada.set("k", n) for n in range(5)]
        moments = [fact.updated_at for fact in facts]
        assert moments == sorted(set(moments))
        assert [r.value for r in ada.history("k")] == [0, 1, 2, 3, 4]
        assert [ada.value("k", as_of=moment) for moment in moments] == [0, 1, 2, 3, 4]

    def test_a_clock_that_goes_back_never_reorders_history(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        first = ada.set("k", "one")
        clock.advance(-3600)
        second = ada.set("k", "two")
        clock.advance(-3600)
        ada.delete("k")
        third = ada.set("k", "three")
        assert first.updated_at < second.updated_at < third.updated_at
        moments = [r.at for r in ada.history("k")]
        assert moments == sorted(set(moments))
        assert [r.value for r in ada.history("k")] == ["one", "two", None, "three"]
        assert ada.value("k") == "three"
        assert [f.value for f in ada.list()] == ["three"]
        assert ada.value("k", as_of=first.updated_at) == "one"
        assert ada.value("k", as_of=second.updated_at) == "two"
        assert memory.ledger.verify().ok
        assert all(finding.ok for finding in memory.inspect())

    def test_a_clock_that_goes_back_keeps_an_expired_fact_to_its_expiry(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", "one", ttl=60)
        clock.advance(120)
        assert ada.get("k") is None
        memory.sweep()
        clock.advance(-100)
        assert ada.get("k") is None  # what was swept does not come back
        assert ada.set("k", "two").version == 3
        assert ada.value("k") == "two"
        moments = [r.at for r in ada.history("k")]
        assert moments == sorted(set(moments))

    @requires(Capability.RESTART)
    def test_history_survives_a_restart(self, memory: Memory, clock: FakeClock, reopen: Callable[[], Memory]) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", {"n": 1}, domain="d", source="s")
        clock.advance(1)
        ada.set("k", {"n": 2}, ttl=60)
        clock.advance(1)
        ada.delete("k")
        ada.set("other", "é🧠")
        before, facts = ada.history("k"), ada.list()
        again = reopen().scope(user="ada")
        assert again.history("k") == before
        assert again.list() == facts
        assert again.value("k", as_of=before[0].at) == {"n": 1}
        assert again.set("k", 4).version == 4
