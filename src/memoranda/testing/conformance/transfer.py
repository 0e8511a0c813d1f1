"""Transfer: memory out to a file and in again, without bringing back what was removed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import AlreadyExists, Denied, SchemaViolation, ScopeEnded, UsageError
from memoranda.model.policy import Policy
from memoranda.model.scope import Scope
from memoranda.store.base import Store
from memoranda.testing.conformance.base import assert_raises, present, unchanged
from memoranda.testing.conformance.facts import VALUES
from memoranda.testing.fakes import FakeClock

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}
HEADER = b'{"memoranda":1}'
LINE = b'{"fact":{"scope":"user:ada","key":"k","payload":%s,"updated_at":"2026-01-01T00:00:00Z"}}'
GOOD = LINE % b"1"


def _fill(memory: Memory) -> None:
    memory.definitions.create(name="Counter", slug="counter", schema=SCHEMA, ttl=600)
    memory.scope().set("shared", "everybody's")
    for user in ("ada", "bob", "a/b %"):
        place = memory.scope(user=user)
        place.set("counter", {"n": 1})
        place.set("short", 1, ttl=60)
        place.set("tagged.deep", {"é": ["🧠"]}, domain="d")
        memory.scope(user=user, agent="x").set("k", user)


def _facts(memory: Memory) -> list[tuple[Any, ...]]:
    return [
        (str(fact.scope), fact.key, fact.value, fact.expires_at, fact.domain)
        for ids in (
            {},
            *({"user": user, **agent} for user in ("ada", "bob", "a/b %") for agent in ({}, {"agent": "x"})),
        )
        for fact in memory.scope(**ids).list()
    ]


class TransferPromises:
    """An export holds what is active; an import adds it, and respects what happened since."""

    @pytest.mark.parametrize("inwards", [True, False])
    def test_what_is_exported_and_imported_is_equal(
        self, memory: Memory, elsewhere: Memory, clock: FakeClock, tmp_path: Path, inwards: bool
    ) -> None:
        source, target = (elsewhere, memory) if inwards else (memory, elsewhere)
        _fill(source)
        for place, value in enumerate(VALUES):
            source.scope(user="ada").set(f"value.{place}", value)
        source.scope(user="ada").set("expired", 1, ttl=1)
        source.scope(user="ada").set("deleted", 1)
        source.scope(user="ada").delete("deleted")
        clock.advance(5)
        expected = _facts(source)
        assert source.export(tmp_path / "x.jsonl") == len(expected)
        imported = target.import_file(tmp_path / "x.jsonl")
        assert (imported.written, imported.definitions) == (len(expected), 1)
        assert (imported.kept, imported.erased, imported.expired) == (0, 0, 0)
        assert repr(_facts(target)) == repr(expected)
        mine, theirs = target.definitions.get("counter"), source.definitions.get("counter")
        assert (mine.id, mine.name, mine.scope, mine.ttl, mine.schema) == (
            theirs.id,
            theirs.name,
            theirs.scope,
            theirs.ttl,
            theirs.schema,
        )
        fact = present(target.scope(user="ada").get("counter"))
        assert fact.origin.source == "import:x.jsonl"
        assert all(finding.ok for finding in target.inspect())

    def test_a_ttl_counts_on_through_an_import(
        self, memory: Memory, ada: ScopedMemory, elsewhere: Memory, clock: FakeClock, tmp_path: Path
    ) -> None:
        elsewhere.scope(user="ada").set("k", 1, ttl=60)
        elsewhere.scope(user="ada").set("shorter", 1, ttl=20)
        clock.advance(10)
        elsewhere.export(tmp_path / "x.jsonl")
        clock.advance(20)
        imported = memory.import_file(tmp_path / "x.jsonl")
        assert (imported.written, imported.expired) == (1, 1)
        clock.advance(29.999999)
        assert ada.value("k") == 1
        clock.advance(0.000001)
        assert ada.get("k") is None

    def test_importing_twice_changes_nothing_more(self, memory: Memory, elsewhere: Memory, tmp_path: Path) -> None:
        _fill(elsewhere)
        count = elsewhere.export(tmp_path / "x.jsonl")
        assert memory.import_file(tmp_path / "x.jsonl").written == count
        before = _facts(memory)
        again = memory.import_file(tmp_path / "x.jsonl")
        assert (again.written, again.kept, again.definitions) == (0, count, 0)
        assert _facts(memory) == before
        assert present(memory.scope(user="ada").get("counter")).version == 1

    def test_what_was_changed_later_is_kept(self, memory: Memory, clock: FakeClock, tmp_path: Path) -> None:
        ada = memory.scope(user="ada")
        ada.set("changed", "old")
        ada.set("deleted", "old")
        ada.set("same", "old")
        memory.export(tmp_path / "x.jsonl")
        clock.advance(10)
        ada.set("changed", "new")
        ada.delete("deleted")
        imported = memory.import_file(tmp_path / "x.jsonl")
        assert (imported.written, imported.kept) == (0, 3)
        assert ada.value("changed") == "new"
        assert ada.get("deleted") is None
        assert ada.value("same") == "old"

    def test_what_is_newer_in_the_file_is_written(
        self, memory: Memory, ada: ScopedMemory, elsewhere: Memory, clock: FakeClock, tmp_path: Path
    ) -> None:
        old = ada.set("k", "old")
        clock.advance(10)
        elsewhere.scope(user="ada").set("k", "new")
        elsewhere.export(tmp_path / "x.jsonl")
        assert memory.import_file(tmp_path / "x.jsonl").written == 1
        fact = present(ada.get("k"))
        assert (fact.value, fact.version, fact.id) == ("new", 2, old.id)
        assert [r.value for r in ada.history("k")] == ["old", "new"]

    def test_what_was_erased_since_stays_erased(self, memory: Memory, clock: FakeClock, tmp_path: Path) -> None:
        for user in ("ada", "bob"):
            memory.scope(user=user).set("k", user)
            memory.scope(user=user, agent="x").set("k", user)
        memory.export(tmp_path / "x.jsonl")
        clock.advance(10)
        memory.erase(user="ada")
        memory.scope(user="bob").set("k", "changed")
        memory.erase(user="bob", agent="x")
        imported = memory.import_file(tmp_path / "x.jsonl")
        assert (imported.written, imported.erased, imported.kept) == (0, 3, 1)
        assert memory.scope(user="ada").list() == memory.scope(user="ada", agent="x").list() == []
        assert memory.scope(user="ada").history("k") == []
        assert memory.scope(user="bob").value("k") == "changed"
        clock.advance(10)
        assert memory.scope(user="ada").set("k", "again").version > 1

    def test_what_was_erased_stays_erased_when_the_clock_stopped(self, memory: Memory, tmp_path: Path) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        for n in range(3):  # three writes of one moment: the last is stamped a little later than the clock
            ada.set("k", n)
        bob.set("k", 1)
        memory.export(tmp_path / "x.jsonl")
        memory.erase(user="ada")
        assert memory.import_file(tmp_path / "x.jsonl").erased == 1
        assert ada.get("k") is None
        assert bob.value("k") == 1

    def test_owned_sessions_of_the_erased_stay_erased(self, memory: Memory, clock: FakeClock, tmp_path: Path) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        ada.session("s1").set("k", "ada's")
        bob.session("s2").set("k", "bob's")
        memory.export(tmp_path / "x.jsonl")
        clock.advance(10)
        memory.erase(user="ada")
        memory.import_file(tmp_path / "x.jsonl")
        assert memory.scope(session="s1").get("k") is None
        assert memory.scope(session="s2").value("k") == "bob's"

    def test_an_imported_session_still_belongs_to_its_owner(
        self, memory: Memory, elsewhere: Memory, tmp_path: Path
    ) -> None:
        for user in ("ada", "bob"):
            elsewhere.scope(user=user).session(f"of {user}").set("k", user)
        elsewhere.export(tmp_path / "x.jsonl")
        assert memory.import_file(tmp_path / "x.jsonl").written == 2
        memory.erase(user="ada")
        assert memory.scope(session="of ada").get("k") is None
        assert memory.scope(session="of bob").value("k") == "bob"
        assert all(finding.ok for finding in memory.inspect())

    def test_sessions_of_the_erased_stay_erased_also_where_they_were_never_known(
        self, memory: Memory, elsewhere: Memory, clock: FakeClock, tmp_path: Path
    ) -> None:
        for user in ("ada", "bob"):
            memory.scope(user=user).set("k", 1)
            first = elsewhere.scope(user=user).session(f"of {user}")
            first.set("k", user)
            first.session(f"below {user}").set("k", user)
        elsewhere.export(tmp_path / "x.jsonl")
        clock.advance(10)
        memory.erase(user="ada")
        clock.advance(10)
        done = memory.import_file(tmp_path / "x.jsonl")
        assert (done.written, done.erased) == (2, 2)
        for session in ("of", "below"):
            assert memory.scope(session=f"{session} ada").get("k") is None
            assert memory.scope(session=f"{session} bob").value("k") == "bob"
        assert all(finding.ok for finding in memory.inspect())

    def test_an_imported_session_belongs_to_an_owner_who_came_back(
        self, memory: Memory, elsewhere: Memory, clock: FakeClock, tmp_path: Path
    ) -> None:
        memory.scope(user="ada").set("k", 1)
        memory.erase(user="ada")
        clock.advance(10)
        elsewhere.scope(user="ada").session("s1").session("s2").set("k", "new")
        elsewhere.export(tmp_path / "x.jsonl")
        assert memory.import_file(tmp_path / "x.jsonl").written == 1
        assert memory.scope(session="s2").value("k") == "new"
        memory.erase(user="ada")
        assert memory.scope(session="s2").get("k") is None
        assert all(finding.ok for finding in memory.inspect())

    def test_a_session_that_is_exported_alone_still_belongs_to_its_owner(
        self, memory: Memory, elsewhere: Memory, tmp_path: Path
    ) -> None:
        for user in ("ada", "bob"):
            session = elsewhere.scope(user=user).session(f"of {user}")
            session.set("k", user)
            elsewhere.export(tmp_path / f"{user}.jsonl", scope=session.scope)
            assert memory.import_file(tmp_path / f"{user}.jsonl").written == 1
        memory.erase(user="ada")
        assert memory.scope(session="of ada").get("k") is None
        assert memory.scope(session="of bob").value("k") == "bob"

    def test_an_ended_session_stays_ended_and_the_rest_is_imported(
        self, memory: Memory, ada: ScopedMemory, clock: FakeClock, tmp_path: Path
    ) -> None:
        session = memory.scope(user="ada").session("s1")
        session.set("k", 1)
        ada.set("k", "exported")
        memory.export(tmp_path / "x.jsonl")
        clock.advance(10)
        session.end()
        memory.import_file(tmp_path / "x.jsonl")
        assert session.get("k") is None
        assert_raises(ScopeEnded, session.set, "k", 2)
        assert ada.value("k") == "exported"

    def test_an_export_may_be_of_one_scope(self, memory: Memory, elsewhere: Memory, tmp_path: Path) -> None:
        _fill(elsewhere)
        assert elsewhere.export(tmp_path / "x.jsonl", scope=Scope.of(user="ada")) == 4
        memory.import_file(tmp_path / "x.jsonl")
        assert len(memory.scope(user="ada").list()) == 3
        assert memory.scope(user="ada", agent="x").value("k") == "ada"
        assert memory.scope(user="bob").list() == memory.scope().list() == []

    def test_a_definition_that_differs_is_a_conflict_and_nothing_is_imported(
        self, memory: Memory, elsewhere: Memory, store: Store, tmp_path: Path
    ) -> None:
        _fill(elsewhere)
        elsewhere.export(tmp_path / "x.jsonl")
        memory.definitions.create(name="Counter", slug="counter", schema=SCHEMA, ttl=601)
        with unchanged(store):
            assert_raises(AlreadyExists, memory.import_file, tmp_path / "x.jsonl")
        memory.definitions.update("counter", ttl=600)
        assert memory.import_file(tmp_path / "x.jsonl").definitions == 0
        assert memory.scope(user="ada").value("counter") == {"n": 1}

    def test_an_import_never_overwrites_a_definition_that_was_renamed(self, memory: Memory, tmp_path: Path) -> None:
        memory.definitions.create(name="Counter", slug="counter", schema=SCHEMA)
        memory.scope(user="ada").set("counter", {"n": 1})
        memory.export(tmp_path / "x.jsonl")
        memory.definitions.update("counter", slug="tally", name="Tally")
        assert_raises(AlreadyExists, memory.import_file, tmp_path / "x.jsonl")
        assert [one.slug for one in memory.definitions.list()] == ["tally"]
        assert memory.scope(user="ada").value("tally") == {"n": 1}

    def test_two_tenants_of_one_store_may_import_the_same_file(
        self, memory: Memory, store: Store, clock: FakeClock, elsewhere: Memory, tmp_path: Path
    ) -> None:
        _fill(elsewhere)
        elsewhere.export(tmp_path / "x.jsonl")
        other = Memory(store, tenant="other", clock=clock)
        for target in (memory, other):
            assert target.import_file(tmp_path / "x.jsonl").definitions == 1
        for target in (memory, other):
            assert [one.slug for one in target.definitions.list()] == ["counter"]
            assert len(target.definitions.records("counter")) == 3
            assert_raises(SchemaViolation, target.scope(user="ada").set, "counter", {"n": "one"})

    def test_records_are_checked_on_import(
        self, memory: Memory, elsewhere: Memory, store: Store, tmp_path: Path
    ) -> None:
        elsewhere.scope(user="ada").set("free", 1)
        elsewhere.scope(user="ada").set("counter", {"n": "one"})
        elsewhere.export(tmp_path / "x.jsonl")
        memory.definitions.create(name="Counter", slug="counter", schema=SCHEMA)
        with unchanged(store):
            with pytest.raises(SchemaViolation, match="`counter` in `user:ada`") as caught:
                memory.import_file(tmp_path / "x.jsonl")
            assert caught.value.path == "$.n"

    def test_what_is_not_written_need_not_fit_its_definition(self, memory: Memory, tmp_path: Path) -> None:
        ada = memory.scope(user="ada")
        ada.set("counter", "as it was before there was a definition")
        ada.set("counter.below", 1)
        memory.definitions.create(name="Counter", slug="counter", schema=SCHEMA)
        memory.export(tmp_path / "x.jsonl")
        assert memory.import_file(tmp_path / "x.jsonl").kept == 2
        ada.delete("counter")
        ada.delete("counter.below")
        assert memory.import_file(tmp_path / "x.jsonl").kept == 2
        assert ada.list() == []

    def test_what_an_editor_leaves_in_a_file_does_no_harm(self, memory: Memory) -> None:
        lines = [b"\xef\xbb\xbf" + HEADER + b"\r\n", b"\r\n", GOOD + b"\r\n", b"   "]
        assert memory.import_lines(lines, source="x").written == 1

    @pytest.mark.parametrize(
        "lines",
        [
            [],
            [b"", b" "],
            [b"not json"],
            [b"{}"],
            [b'{"memoranda":999}'],
            [GOOD],
            [HEADER, GOOD, b"half a li"],
            [HEADER, GOOD, b'{"fact":{"scope":"user:ada","key":"k"}}'],
            [HEADER, GOOD, GOOD.replace(b'"k"', b'"bad..key"')],
            [HEADER, GOOD, GOOD.replace(b"user:ada", b"nobody:ada")],
            [HEADER, GOOD, LINE % b'"\\ud800"'],
            [HEADER, GOOD, LINE % (b"[" * 5000 + b"]" * 5000)],
            [HEADER, GOOD, LINE % b"1e999"],
            [HEADER, GOOD, LINE % b"01"],
            [HEADER, GOOD, LINE % (b"1" + b"0" * 30)],
            [HEADER, GOOD, LINE % b'"a\\u0000b"'],
            [HEADER, GOOD, LINE % b'"\xff"'],
            [HEADER, GOOD, GOOD.replace(b"}}", b',"domain":"a\\u0000b"}}')],
            [HEADER, GOOD, GOOD.replace(b"00Z", b"00")],
            [HEADER, GOOD, GOOD.replace(b'"fact"', b'"facts"')],
            [HEADER, GOOD, GOOD.replace(b"}}", b',"expire_at":"2027-01-01T00:00:00Z"}}')],
            [HEADER, GOOD, GOOD.replace(b"}}", b',"expires_at":"0001-01-01T00:00:00+14:00"}}')],
            [HEADER, GOOD, GOOD.replace(b"}}", b',"expires_at":"2027-01-01T00:00:00"}}')],
        ],
        ids=[
            "no line", "blank lines",
            "no json", "no header", "another version", "fact first", "half a line", "no payload", "bad key",
            "bad scope", "half a surrogate pair", "too deep", "infinite", "leading zero", "more than 64 bits",
            "NUL", "no UTF-8",
            "NUL in the domain", "no zone", "no such kind of line", "no such field", "before all calendars",
            "no zone in the expiry",
        ],
    )  # fmt: skip
    def test_an_import_of_something_else_is_refused(self, memory: Memory, store: Store, lines: list[bytes]) -> None:
        with unchanged(store):
            assert_raises(UsageError, memory.import_lines, lines, source="x")
        assert memory.import_lines([HEADER, GOOD], source="x").written == 1

    def test_an_imported_fact_of_long_ago_does_not_rewrite_history(
        self, memory: Memory, ada: ScopedMemory, elsewhere: Memory, clock: FakeClock, tmp_path: Path
    ) -> None:
        written = elsewhere.scope(user="ada").set("k", 1).updated_at
        elsewhere.export(tmp_path / "x.jsonl")
        clock.advance(1000)
        memory.import_file(tmp_path / "x.jsonl")
        assert ada.get("k", as_of=written + timedelta(seconds=1)) is None
        assert ada.value("k", as_of=clock.now()) == 1

    def test_exports_and_imports_need_their_permissions(
        self, memory: Memory, elsewhere: Memory, tmp_path: Path
    ) -> None:
        elsewhere.scope(user="ada").set("k", 1)
        elsewhere.export(tmp_path / "x.jsonl")
        for allowed in (("memory.read", "memory.write"), ("memory.import", "memory.export")):
            half = memory.acting_as("half", policy=Policy.of(allow=allowed))
            assert_raises(Denied, half.import_file, tmp_path / "x.jsonl")
            assert_raises(Denied, half.export, tmp_path / "y.jsonl")
        assert not (tmp_path / "y.jsonl").exists()
        assert memory.scope(user="ada").get("k") is None
        clerk = memory.acting_as("clerk", policy=Policy.of(allow=("memory",)))
        assert clerk.import_file(tmp_path / "x.jsonl").written == 1
        assert present(memory.scope(user="ada").get("k")).origin.actor == "clerk"
        assert clerk.export(tmp_path / "y.jsonl") == 1
