"""Facts: set, get, compare-and-set, list, their history, and how they end: expiry, sessions, erasure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta, timezone
from typing import Any

import msgspec
import pytest
from msgspec import Raw, structs

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.engine.erasure import Sweep, Swept
from memoranda.engine.facts import FindFacts, SetFact
from memoranda.engine.sessions import StartSession
from memoranda.errors import ApprovalRequired, Conflict, Denied, NotFound, ScopeEnded, Unavailable, UsageError
from memoranda.model.clock import Duration
from memoranda.model.fact import Fact
from memoranda.model.names import SESSION_RECORD
from memoranda.model.policy import Policy, Rule
from memoranda.model.scope import Scope
from memoranda.model.trust import Origin
from memoranda.model.value import encode
from memoranda.store.base import Reader, RevisionQuery, Store
from memoranda.testing.conformance.base import Capability, assert_raises, present, requires, unchanged
from memoranda.testing.conformance.permissions import LOOK_ALIKES
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
        assert agent.set("d", 1).origin == Origin("agent:emails", "mcp", "thread:4", "agent", "medium")
        assert agent.set("d", 2, source="mail:18").origin == Origin("agent:emails", "mcp", "mail:18", "agent", "medium")
        assert present(ada.get("d")).origin == Origin("agent:emails", "mcp", "mail:18", "agent", "medium")
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
        with unchanged(store):
            error = assert_raises(Conflict, ada.set, "k", 3, expect=expect)
            assert (error.expected, error.actual) == (expect, 2)
            error = assert_raises(Conflict, ada.delete, "k", expect=expect)
            assert (error.expected, error.actual) == (expect, 2)
        assert ada.value("k") == 2

    def test_expecting_a_version_of_a_missing_fact_is_a_conflict_with_zero(self, ada: ScopedMemory) -> None:
        error = assert_raises(Conflict, ada.set, "k", 1, expect=1)
        assert (error.expected, error.actual) == (1, 0)
        error = assert_raises(Conflict, ada.delete, "k", expect=1)
        assert (error.expected, error.actual) == (1, 0)
        assert ada.get("k") is None
        assert ada.set("k", 1, expect=0).version == 1

    def test_expecting_zero_writes_only_where_there_is_nothing(self, ada: ScopedMemory) -> None:
        assert ada.set("k", 1, expect=0).version == 1
        error = assert_raises(Conflict, ada.set, "k", 2, expect=0)
        assert (error.expected, error.actual) == (0, 1)
        ada.delete("k")
        assert ada.set("k", 3, expect=0).version == 3
        assert ada.value("k") == 3

    def test_an_old_version_stays_old_after_delete_and_recreate(self, ada: ScopedMemory) -> None:
        held = ada.set("k", "mine").version
        ada.delete("k")
        ada.set("k", "theirs")
        error = assert_raises(Conflict, ada.set, "k", "lost update", expect=held)
        assert error.actual == 3
        assert ada.value("k") == "theirs"

    def test_deleting_with_expect_zero_asks_for_absence(self, ada: ScopedMemory) -> None:
        assert ada.delete("k", expect=0) is False
        ada.set("k", 1)
        assert_raises(Conflict, ada.delete, "k", expect=0)
        assert ada.value("k") == 1

    def test_create_writes_once(self, ada: ScopedMemory) -> None:
        assert ada.create("k", 1, domain="d").domain == "d"
        error = assert_raises(Conflict, ada.create, "k", 2)
        assert (error.expected, error.actual) == (0, 1)
        assert ada.value("k") == 1

    # update

    def test_update_changes_what_it_finds(self, ada: ScopedMemory) -> None:
        ada.set("count", 1, domain="numbers")
        fact = ada.update("count", lambda value: value + 1)
        assert (fact.value, fact.version, fact.domain) == (2, 2, "numbers")
        assert ada.update("count", lambda value: value + 1, domain="other").domain == "other"

    def test_update_of_a_missing_fact_needs_a_default(self, ada: ScopedMemory) -> None:
        assert_raises(NotFound, ada.update, "count", lambda value: value + 1)
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

        assert_raises(Conflict, ada.update, "count", change, attempts=2)
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
        assert_raises(Denied, narrow.perform, FindFacts(scope=Scope.of(), key="mood"))

    def test_only_the_owner_gets_a_handle_in_another_tenant(self, memory: Memory) -> None:
        memory.scope(user="ada").set("mood", "here")
        there = memory.in_tenant("other")
        there.scope(user="ada").set("mood", "there")
        assert memory.scope(user="ada").value("mood") == "here"
        assert memory.scope(tenant="other", user="ada").value("mood") == "there"
        guest = memory.acting_as("guest", policy=Policy.of(allow=("memory.read",)))
        assert guest.in_tenant(memory.tenant).scope(user="ada").value("mood") == "here"
        assert_raises(Denied, guest.in_tenant, "other")

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
            assert_raises(Unavailable, attempt)
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


ALMOST = 59.999999
REST = 0.000001


class ExpiryPromises:
    """Nothing is seen after its time, and nothing is lost before."""

    def test_a_fact_lives_until_exactly_its_ttl(self, ada: ScopedMemory, clock: FakeClock) -> None:
        fact = ada.set("k", 1, ttl=60)
        assert fact.expires_at == clock.now() + timedelta(seconds=60)
        clock.advance(ALMOST)
        assert ada.get("k") == fact
        clock.advance(REST)
        assert ada.get("k") is None

    def test_a_write_may_keep_the_end_of_a_fact(self, memory: Memory, ada: ScopedMemory, clock: FakeClock) -> None:
        def write(key: str, **options: Any) -> Fact:
            payload = msgspec.Raw(b"2")
            return memory.perform(SetFact(scope=ada.scope, key=key, payload=payload, keep_end=True, **options))

        end = ada.set("k", 1, ttl=60).expires_at
        clock.advance(10)
        assert (write("k").expires_at, write("new").expires_at) == (end, None)
        assert write("k", ttl=5).expires_at == clock.now() + timedelta(seconds=5)
        clock.advance(5)
        assert write("k").expires_at is None, "an expired fact has no end to keep"

    def test_expired_fact_is_invisible_before_it_is_swept(self, ada: ScopedMemory, clock: FakeClock) -> None:
        ada.set("gone", 1, ttl=60, domain="d")
        ada.set("here", 1, ttl=61, domain="d")
        clock.advance(60)
        assert ada.get("gone") is None
        assert ada.value("gone", "default") == "default"
        assert [fact.key for fact in ada.list()] == ["here"]
        assert [fact.key for fact in ada.list(domain="d", limit=1)] == ["here"]
        assert ada.delete("gone") is False
        assert ada.value("here") == 1

    @pytest.mark.parametrize(
        ("ttl", "seconds"),
        [("90s", 90), ("15m", 900), ("24h", 86_400), ("30d", 2_592_000), ("2w", 1_209_600), (7, 7),
         (timedelta(minutes=2), 120)],
    )  # fmt: skip
    def test_a_ttl_may_be_written_in_several_ways(
        self, ada: ScopedMemory, clock: FakeClock, ttl: Duration, seconds: int
    ) -> None:
        assert ada.set("k", 1, ttl=ttl).expires_at == clock.now() + timedelta(seconds=seconds)

    def test_a_write_begins_the_ttl_anew(self, ada: ScopedMemory, clock: FakeClock) -> None:
        ada.set("k", 1, ttl=60)
        clock.advance(59)
        ada.set("k", 2, ttl=60)
        clock.advance(ALMOST)
        assert ada.value("k") == 2
        clock.advance(REST)
        assert ada.get("k") is None

    def test_a_ttl_counts_from_the_clock_even_when_it_stopped_or_went_back(
        self, ada: ScopedMemory, clock: FakeClock
    ) -> None:
        for key in ("still", "back", "kept"):
            ada.set(key, "stamped")
        ada.set("still", 1, ttl=60)  # in one moment with the write before, so it is stamped a little later
        clock.advance(-3600)
        ada.set("back", 1, ttl=60)  # stamped after the write before, an hour ahead of the clock
        assert (ada.value("back"), ada.value("kept")) == (1, "stamped")
        clock.advance(60)
        assert ada.get("back") is None
        clock.advance(3600)
        assert ada.get("still") is None
        assert ada.value("kept") == "stamped"

    def test_a_write_without_a_ttl_makes_a_fact_permanent(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", 1, ttl=60)
        ada.set("twin", 1, ttl=60)
        assert ada.set("k", 2).expires_at is None
        clock.advance(10**9)
        assert ada.value("k") == 2
        assert ada.get("twin") is None
        memory.sweep()
        assert ada.value("k") == 2

    def test_reading_never_prolongs(self, ada: ScopedMemory, clock: FakeClock) -> None:
        ada.set("k", 1, ttl=60)
        for _ in range(6):
            assert ada.value("k") == 1
            assert len(ada.list()) == 1
            assert len(ada.history("k")) == 1
            clock.advance(10)
        assert ada.get("k") is None

    def test_a_write_after_expiry_makes_a_single_new_fact_without_stale_fields(
        self, ada: ScopedMemory, clock: FakeClock
    ) -> None:
        old = ada.set("k", {"a": 1, "b": 2}, ttl=60, domain="old", source="old")
        clock.advance(60)
        new = ada.set("k", {"a": 3})
        assert new.id != old.id
        assert new.version == 3  # the expiry was version 2
        assert new.value == {"a": 3}
        assert (new.domain, new.origin.source, new.expires_at) == (None, None, None)
        assert new.created_at == new.updated_at >= clock.now()
        assert ada.list() == [new]
        assert [(r.version, r.change) for r in ada.history("k")] == [(1, "set"), (2, "expired"), (3, "set")]

    def test_an_expired_fact_counts_as_missing_for_expect(self, ada: ScopedMemory, clock: FakeClock) -> None:
        held = ada.set("k", 1, ttl=60).version
        clock.advance(60)
        error = assert_raises(Conflict, ada.set, "k", 2, expect=held)
        assert (error.expected, error.actual) == (held, 0)
        assert ada.create("k", 3).version == 3
        assert ada.value("k") == 3

    def test_a_sweep_removes_what_is_over_and_nothing_else(self, memory: Memory, clock: FakeClock) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        ada.set("gone", 1, ttl=60)
        bob.set("gone", 1, ttl=60)
        ada.set("later", 1, ttl=61)
        ada.set("forever", 1)
        clock.advance(60)
        swept = memory.sweep()
        assert (swept.facts, swept.more) == (2, False)
        assert [fact.key for fact in ada.list()] == ["forever", "later"]
        assert memory.sweep().facts == 0
        assert [(r.version, r.change) for r in ada.history("gone")] == [(1, "set"), (2, "expired")]
        assert ada.set("gone", 2).version == 3

    def test_a_sweep_forgets_the_values_of_history_that_outlived_their_ttl(
        self, memory: Memory, ada: ScopedMemory, clock: FakeClock
    ) -> None:
        short = ada.set("k", "short-lived", ttl=60)
        clock.advance(1)
        kept = ada.set("k", "kept")
        clock.advance(100)
        assert memory.sweep().revisions == 1
        first, second = ada.history("k")
        assert (first.version, first.change, first.value, first.forgotten) == (1, "set", None, True)
        assert (second.value, second.forgotten) == ("kept", False)
        assert ada.get("k", as_of=short.updated_at) is None
        assert ada.list(as_of=short.updated_at) == []
        assert ada.get("k", as_of=kept.updated_at) == kept
        assert ada.value("k") == "kept"
        assert memory.sweep().revisions == 0

    def test_a_sweep_takes_portions(self, memory: Memory, ada: ScopedMemory, clock: FakeClock) -> None:
        for number in range(5):
            ada.set(f"k{number}", number, ttl=60 + number)
            ada.set(f"k{number}", "kept")
        clock.advance(70)
        portions: list[Swept] = []
        while not portions or portions[-1].more:
            portions.append(memory.perform(Sweep(scope=Scope("default"), limit=2)))
        assert [one.revisions for one in portions] == [2, 2, 1]
        assert [one.value for one in ada.history("k4")] == [None, "kept"]
        assert all(finding.ok for finding in memory.inspect())

    def test_a_sweep_of_many_facts_removes_them_all(self, memory: Memory, ada: ScopedMemory, clock: FakeClock) -> None:
        with memory.batch() as batch:
            for n in range(700):
                batch.set(ada, f"k.{n}", n, ttl=60)
        ada.set("kept", 1)
        clock.advance(60)
        assert memory.sweep().facts == 700
        assert [fact.key for fact in ada.list()] == ["kept"]

    def test_a_sweep_stays_in_its_tenant(self, memory: Memory, clock: FakeClock) -> None:
        here, there = memory.scope(user="ada"), memory.scope(tenant="other", user="ada")
        here.set("k", 1, ttl=60)
        there.set("k", "theirs", ttl=60)
        clock.advance(60)
        assert memory.sweep().facts == 1
        assert [r.change for r in here.history("k")] == ["set", "expired"]
        assert [r.change for r in there.history("k")] == ["set"]

    @requires(Capability.RESTART)
    def test_a_ttl_counts_on_through_a_restart(
        self, memory: Memory, clock: FakeClock, reopen: Callable[[], Memory]
    ) -> None:
        memory.scope(user="ada").set("k", 1, ttl=60)
        clock.advance(ALMOST)
        ada = reopen().scope(user="ada")
        assert present(ada.get("k")).value == 1
        clock.advance(REST)
        assert ada.get("k") is None


class SessionPromises:
    """What belongs to a session goes with it, and an ended session stays ended."""

    def test_a_session_is_a_scope_of_its_own(self, memory: Memory, ada: ScopedMemory) -> None:
        session = ada.session("s1")
        session.set("k", "in the session")
        ada.set("k", "of ada")
        assert session.value("k") == "in the session"
        assert ada.value("k") == "of ada"
        assert ada.session("s1").value("k") == "in the session"  # going on with it
        assert memory.scope(session="s1").value("k") == "in the session"
        assert ada.session("s2").get("k") is None

    def test_a_session_belongs_to_one_owner(self, memory: Memory) -> None:
        memory.scope(user="ada").session("s1").set("k", 1)
        assert_raises(UsageError, memory.scope(user="bob").session, "s1")
        assert memory.scope(user="ada").session("s1").value("k") == 1
        assert memory.scope(user="bob").session("s2").set("k", 1).version == 1

    def test_the_same_session_id_in_another_tenant_is_another_session(self, memory: Memory) -> None:
        here = memory.scope(user="ada").session("s1")
        there = memory.scope(tenant="other", user="bob").session("s1")
        here.set("k", "here")
        there.set("k", "there")
        here.end()
        assert here.get("k") is None
        assert there.value("k") == "there"
        assert there.set("k", "still open").version == 2

    def test_ending_a_session_removes_its_facts_and_their_history(self, ada: ScopedMemory) -> None:
        session, other = ada.session("s1"), ada.session("s2")
        ada.set("k", "kept")
        other.set("k", "kept too")
        session.set("k", 1)
        session.set("k", 2)
        session.set("other", 1, idempotency_key="r1")
        removed = session.end()
        assert removed == {
            "facts": 2,
            "revisions": 3,
            "entries": 0,
            "idempotency_keys": 1,
            "ledger_texts": 0,
            "content_keys": 1,
        }
        assert session.get("k") is None
        assert session.list() == []
        assert session.history("k") == []
        assert ada.value("k") == "kept"
        assert other.value("k") == "kept too"
        assert len(other.history("k")) == 1

    @pytest.mark.parametrize("kind", ["session", "run", "tree"])
    def test_a_write_after_the_end_is_refused_and_a_read_finds_nothing(
        self, memory: Memory, store: Store, kind: str
    ) -> None:
        place, other = memory.scope(**{kind: "x"}), memory.scope(**{kind: "y"})
        place.set("k", 1)
        other.set("k", 1)
        place.end()
        with unchanged(store):
            for attempt in (
                lambda: place.set("k", 2),
                lambda: place.create("new", 1),
                lambda: place.delete("k"),
                lambda: place.update("k", lambda value: value, default=1),
            ):
                assert_raises(ScopeEnded, attempt)
            with pytest.raises(ScopeEnded), memory.batch() as batch:
                batch.set(other, "batched", 1)
                batch.set(place, "batched", 1)
        assert (place.get("k"), place.value("k", "default"), place.list()) == (None, "default", [])
        assert other.set("k", 2).version == 2
        assert other.get("batched") is None

    def test_what_lies_below_an_ended_scope_ends_with_it(self, memory: Memory) -> None:
        run = memory.scope(user="ada", run="r1")
        below, beside = memory.scope(user="ada", run="r1", session="s"), memory.scope(user="ada", run="r11")
        for place in (run, below, beside):
            place.set("k", 1)
        assert run.end()["facts"] == 2
        assert (run.get("k"), below.get("k")) == (None, None)
        assert_raises(ScopeEnded, below.set, "k", 2)
        assert beside.value("k") == 1
        assert beside.set("k", 2).version == 2
        assert memory.scope(user="ada").set("k", 1).version == 1

    def test_ending_twice_changes_nothing(self, memory: Memory, store: Store) -> None:
        session = memory.scope(user="ada").session("s1")
        session.set("k", 1)
        assert session.end()["facts"] == 1
        with unchanged(store):
            assert session.end() == {}

    def test_an_ended_session_cannot_be_started_again(self, ada: ScopedMemory) -> None:
        ada.session("s1").end()
        assert_raises(ScopeEnded, ada.session, "s1")
        assert ada.session("s2").set("k", 1).version == 1

    def test_only_scopes_that_end_can_be_ended(self, memory: Memory) -> None:
        for place in (memory.scope(), memory.scope(user="ada"), memory.scope(user="ada", agent="x")):
            place.set("k", 1)
            assert_raises(UsageError, place.end)
            assert place.value("k") == 1
        assert memory.scope(user="ada", run="r").end() is not None

    def test_a_session_of_the_shared_scope_can_be_inspected(self, memory: Memory) -> None:
        session = memory.scope().session("s1")
        session.set("k", 1)
        memory.scope(user="ada").set("k", 1)
        memory.erase(user="ada")
        assert session.value("k") == 1
        assert all(finding.ok for finding in memory.inspect())

    @requires(Capability.RESTART)
    def test_an_ended_session_stays_ended_after_a_restart(self, memory: Memory, reopen: Callable[[], Memory]) -> None:
        ada = memory.scope(user="ada")
        ada.session("s1").set("k", 1)
        ada.session("s2").set("k", 1)
        ada.session("s1").end()
        again = reopen().scope(user="ada")
        assert_raises(ScopeEnded, again.session, "s1")
        assert again.session("s2").value("k") == 1

    def test_the_variables_in_a_session_s_record_are_read_as_facts(self, memory: Memory) -> None:
        session = memory.scope(user="ada").session("s1")
        _record(memory, "s1", {"city": "Porto", "desk.guests": 2})
        assert session.value("city") == "Porto"
        assert session.value("desk.guests") == 2
        assert session.get("country") is None
        assert [fact.key for fact in session.list()] == ["city", "desk.guests"]
        assert [fact.key for fact in session.list(internal=True)] == ["abl.session", "city", "desk.guests"]
        assert [fact.key for fact in session.list("desk")] == ["desk.guests"]
        assert [fact.key for fact in session.list(after="abl.session", limit=1)] == ["city"]
        assert memory.scope(session="s2").get("city") is None
        assert memory.scope(user="ada").get("city") is None

    def test_a_fact_of_the_session_hides_a_variable_of_its_name(self, memory: Memory) -> None:
        session = memory.scope(user="ada").session("s1")
        _record(memory, "s1", {"city": "Porto", "nights": 3})
        session.set("city", "Rome")
        assert (session.value("city"), session.value("nights")) == ("Rome", 3)
        assert [(fact.key, fact.value) for fact in session.list("city")] == [("city", "Rome")]
        session.delete("city")
        assert session.value("city") == "Porto"

    def test_a_fact_that_expires_uncovers_the_variable_of_its_name(self, memory: Memory, clock: FakeClock) -> None:
        session = memory.scope(user="ada").session("s1")
        _record(memory, "s1", {"city": "Porto"})
        session.set("city", "Rome", ttl="1h")
        assert session.value("city") == "Rome"
        clock.advance(7_200)
        assert session.value("city") == "Porto"
        assert [(fact.key, fact.value) for fact in session.list("city")] == [("city", "Porto")]

    def test_variables_are_read_as_of_a_moment(self, memory: Memory) -> None:
        session = memory.scope(user="ada").session("s1")
        _record(memory, "s1", {"city": "Porto"})
        then = session.get("abl.session")
        assert then is not None
        _record(memory, "s1", {"city": "Rome"})
        assert session.value("city") == "Rome"
        assert session.value("city", as_of=then.updated_at) == "Porto"
        stood = {fact.key: fact.value for fact in session.list(as_of=then.updated_at)}
        assert stood["city"] == "Porto"

    def test_variables_end_with_their_session(self, memory: Memory) -> None:
        session = memory.scope(user="ada").session("s1")
        _record(memory, "s1", {"city": "Porto"})
        assert session.value("city") == "Porto"
        session.end()
        assert session.get("city") is None
        assert session.list() == []


def _record(memory: Memory, session: str, variables: dict[str, object]) -> None:
    """Keep variables as a language does: in the record of a session, whose key no caller may write."""
    payload = msgspec.Raw(encode({"vars": variables}))
    scope = Scope.of(tenant=memory.tenant, session=session)
    memory.perform(SetFact(scope=scope, key=SESSION_RECORD, payload=payload))


class ErasurePromises:
    """Erased means gone, for exactly the one who was named."""

    def test_an_erasure_removes_everything_at_and_below_a_subject(self, memory: Memory, clock: FakeClock) -> None:
        ada, agent, bob = memory.scope(user="ada"), memory.scope(user="ada", agent="x"), memory.scope(user="bob")
        for place in (ada, agent, bob):
            place.set("k", 1, idempotency_key="r1")
            place.set("k", 2)
            place.set("deleted", 1)
            place.delete("deleted")
            place.set("short", 1, ttl=60)
        then = clock.now()
        clock.advance(120)
        receipt = memory.erase(user="ada")
        assert receipt.scope == ada.scope
        assert receipt.removed == {
            "facts": 4,
            "revisions": 10,
            "entries": 0,
            "idempotency_keys": 2,
            "approvals": 0,
            "rejections": 0,
            "ledger_texts": 0,
            "content_keys": 2,
            "sessions": 0,
        }
        for place in (ada, agent):
            assert place.list() == []
            assert place.list(as_of=then) == []
            for key in ("k", "deleted", "short"):
                assert place.get(key) is None
                assert place.history(key) == []
                assert place.get(key, as_of=then) is None
        assert bob.value("k") == 2
        assert [r.value for r in bob.history("k")] == [1, 2]
        assert len(bob.history("deleted")) == 2
        assert bob.set("k", 1, idempotency_key="r1").version == 1

    def test_a_receipt_says_where_removed_content_remains(self, memory: Memory, store: Store) -> None:
        memory.scope(user="ada").set("bird", "the heron by the weir")
        receipt = memory.erase(user="ada")
        remains = receipt.remains
        assert (remains.rows, remains.copies) == ("gone", "untested")
        assert remains.dead_rows == "gone" or remains.reason  # a store that could do more says why it did not
        assert receipt.scrubbed == (remains.dead_rows == remains.index_entries == remains.free_space == "gone")
        if receipt.scrubbed:
            assert not store.holds_bytes(b"the heron by the weir")

    def test_an_erasure_takes_the_sessions_a_subject_owns(self, memory: Memory) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        hers, of_agent, his = (
            ada.session("s1"),
            memory.scope(user="ada", agent="x").session("s2"),
            bob.session("s3"),
        )
        for session in (hers, of_agent, his):
            session.set("k", 1)
        receipt = memory.erase(user="ada")
        assert (receipt.removed["sessions"], receipt.removed["facts"]) == (2, 2)
        for session in (hers, of_agent):
            assert session.get("k") is None
            assert session.history("k") == []
        assert his.value("k") == 1
        assert all(finding.ok for finding in memory.inspect())

    def test_an_erasure_takes_sessions_of_sessions_too(self, memory: Memory) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        inner, other = ada.session("s1").session("s2"), bob.session("s3").session("s4")
        inner.set("k", "ada's")
        other.set("k", "bob's")
        memory.erase(user="ada")
        assert inner.get("k") is None
        assert inner.history("k") == []
        assert other.value("k") == "bob's"
        assert all(finding.ok for finding in memory.inspect())

    def test_an_erasure_takes_what_lies_below_an_owned_tree_and_the_ledger_agrees(self, memory: Memory) -> None:
        for tree, owner in (("t1", "ada"), ("t2", "bob")):
            memory.perform(StartSession(scope=Scope.of(tree=tree), owner=Scope.of(user=owner)))
            below = memory.scope(tree=tree, agent="x")
            for place in (below, below.session(f"of {tree}")):
                place.set("k", owner)
                place.remember(f"{owner} likes tea", collection="notes")
        assert memory.erase(user="ada").removed["facts"] == 2
        for place in (memory.scope(tree="t1", agent="x"), memory.scope(session="of t1")):
            assert (place.list(), place.entries(collection="notes")) == ([], [])
        assert memory.scope(session="of t2").value("k") == memory.scope(tree="t2", agent="x").value("k") == "bob"
        assert [finding for finding in memory.inspect() if not finding.ok] == []

    def test_erasing_one_agent_of_a_user_leaves_the_rest_of_the_user(self, memory: Memory, ada: ScopedMemory) -> None:
        x, xx = memory.scope(user="ada", agent="x"), memory.scope(user="ada", agent="xx")
        for place in (ada, x, xx):
            place.set("k", 1)
        assert memory.erase(user="ada", agent="x").removed["facts"] == 1
        assert x.get("k") is None
        assert (ada.value("k"), xx.value("k")) == (1, 1)
        assert x.set("k", 2).version == 2
        assert all(finding.ok for finding in memory.inspect())

    def test_look_alike_users_stay(self, memory: Memory) -> None:
        for name in LOOK_ALIKES:
            memory.scope(user=name).set("k", name)
            memory.scope(user=name, agent="x").set("k", name)
            memory.scope(user=name).session(f"s {name}").set("k", name)
        assert memory.erase(user="a").removed["facts"] == 3
        for name in LOOK_ALIKES[1:]:
            assert memory.scope(user=name).value("k") == name
            assert memory.scope(user=name, agent="x").value("k") == name
            assert memory.scope(user=name).session(f"s {name}").value("k") == name
            assert len(memory.scope(user=name).history("k")) == 1
        assert memory.scope(user="a").get("k") is None

    def test_nothing_erased_is_ever_used_again(self, memory: Memory, ada: ScopedMemory) -> None:
        ids = {ada.set("k", n).id for n in range(5)}
        ada.set("other", 1)
        memory.erase(user="ada")
        again = ada.set("k", "again")
        assert again.version > 5
        assert again.id not in ids
        assert ada.set("other", 1).version > 1
        assert ada.value("k") == "again"
        assert len(ada.history("k")) == 1
        memory.erase(user="ada")
        assert ada.set("k", "once more").version > again.version

    def test_no_version_of_an_owned_session_is_used_again(self, memory: Memory) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        held = [ada.session("s1").set("k", n).version for n in range(3)][-1]
        bob.session("s2").set("k", 1)
        memory.erase(user="ada")
        assert ada.session("s1").set("k", "again").version > held
        assert bob.session("s2").set("k", 2).version == 2

    def test_no_version_of_an_ended_session_is_used_again_after_its_erasure(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        held = [ada.session("s1").set("k", n).version for n in range(3)][-1]
        ada.session("s1").end()
        memory.erase(user="ada")
        try:
            again = ada.session("s1").set("k", "again")
        except ScopeEnded:
            return  # an ended session that stays ended keeps the promise too
        assert again.version > held

    def test_the_receipt_names_the_event_in_the_ledger(self, memory: Memory, clock: FakeClock) -> None:
        memory.scope(user="ada").set("k", 1)
        memory.scope(user="bob").set("k", 1)
        receipt = memory.erase(user="ada")
        memory.scope(user="bob").set("k", 2)
        event = memory.ledger.events(start=receipt.position, limit=1)[0]
        assert (event.effect, event.scope, event.resource) == ("erase", "user:ada", receipt.id)
        assert (event.actor, event.decision, event.position) == ("owner", "allow", receipt.position)
        assert event.detail["removed"] == receipt.removed
        assert receipt.at >= clock.now()
        assert memory.ledger.verify().ok
        assert all(finding.ok for finding in memory.inspect())

    def test_an_erasure_removes_what_waits_for_approval(self, memory: Memory) -> None:
        memory.permissions.grant("agent", "memory.write", level="approve")
        agent = memory.acting_as("agent")
        waiting: dict[str, str] = {}
        for user in ("ada", "bob"):
            error = assert_raises(ApprovalRequired, agent.scope(user=user).set, "k", f"secret of {user}")
            waiting[user] = error.approval
        assert memory.erase(user="ada").removed["approvals"] == 1
        assert [approval.id for approval in memory.approvals.list(status="all")] == [waiting["bob"]]
        assert_raises(NotFound, memory.approvals.approve, waiting["ada"])
        memory.approvals.approve(waiting["bob"])
        assert memory.scope(user="ada").get("k") is None
        assert memory.scope(user="bob").value("k") == "secret of bob"

    def test_an_erasure_reaches_into_batches_that_wait(self, memory: Memory) -> None:
        memory.permissions.grant("agent", "memory.write", level="approve")
        agent = memory.acting_as("agent")
        with pytest.raises(ApprovalRequired), agent.batch() as batch:
            batch.set(agent.scope(user="bob"), "k", "of bob")
            batch.set(agent.scope(user="ada"), "k", "secret of ada")
        assert b"secret of ada" in msgspec.json.encode(memory.approvals.list())
        memory.erase(user="ada")
        assert b"secret of ada" not in msgspec.json.encode(memory.approvals.list(status="all"))
        for approval in memory.approvals.list():
            memory.approvals.approve(approval.id)
        assert memory.scope(user="ada").get("k") is None

    def test_erasing_kept_text_leaves_the_chain_whole(self, store: Store, clock: FakeClock) -> None:
        with Memory(store, clock=clock, keep_text=True) as memory:
            memory.scope(user="ada").set("k", "secret of ada")
            memory.scope(user="bob").set("k", "secret of bob")
            anchor = memory.ledger.anchor()
            assert memory.erase(user="ada").removed["ledger_texts"] == 1
            assert [event.text for event in memory.ledger.events()][:2] == [None, "secret of bob"]
            assert memory.ledger.verify(anchor=anchor).ok

    def test_erasing_an_unknown_user_gives_a_receipt_of_zeros(self, memory: Memory) -> None:
        memory.scope(user="bob").set("k", 1)
        receipt = memory.erase(user="nobody")
        assert set(receipt.removed.values()) == {0}
        assert memory.ledger.events(start=receipt.position)[0].effect == "erase"
        assert memory.scope(user="bob").value("k") == 1

    def test_an_erasure_without_a_subject_is_refused(self, memory: Memory, store: Store) -> None:
        memory.scope(user="ada").set("k", 1)
        memory.scope().set("k", 1)
        with unchanged(store):
            assert_raises(UsageError, memory.erase)

    def test_an_erasure_needs_its_permission(self, memory: Memory, ada: ScopedMemory) -> None:
        ada.set("k", 1)
        writer = memory.acting_as("writer", policy=Policy.of(allow=("memory.read", "memory.write")))
        error = assert_raises(Denied, writer.erase, user="ada")
        assert error.capability == "memory.erase"
        assert ada.value("k") == 1
        eraser = memory.acting_as("eraser", policy=Policy.of(allow=("memory.erase",)))
        assert eraser.erase(user="ada").removed["facts"] == 1
        assert memory.ledger.tail(1)[0].actor == "eraser"

    def test_content_hashes_of_the_erased_cannot_be_compared_any_more(self, memory: Memory) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        for user in (ada, bob):
            user.set("k", "same")
        memory.erase(user="ada")
        ada.set("k", "same")
        bob.set("k", "same")
        hashes = {(e.scope, e.position): e.content for e in memory.ledger.events() if e.effect == "set_fact"}
        adas = [content for (scope, _), content in hashes.items() if scope == "user:ada"]
        bobs = [content for (scope, _), content in hashes.items() if scope == "user:bob"]
        assert len(set(adas)) == 2
        assert len(set(bobs)) == 1

    @requires(Capability.RESTART)
    def test_the_erased_stay_erased_after_a_restart(self, memory: Memory, reopen: Callable[[], Memory]) -> None:
        for user in ("ada", "bob"):
            for n in range(3):
                memory.scope(user=user).set("k", n)
        receipt = memory.erase(user="ada")
        again = reopen()
        assert again.scope(user="ada").history("k") == []
        assert again.scope(user="bob").value("k") == 2
        assert present(again.scope(user="ada").set("k", 1)).version > 3
        assert again.ledger.events(start=receipt.position, limit=1)[0].resource == receipt.id
        assert all(finding.ok for finding in again.inspect())
