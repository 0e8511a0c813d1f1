"""Floor and ceiling: stores that are wrong in known ways must fail the suite, each where it is wrong.

The suite is run on them by pytest itself, in this process; the classes below do not begin with `Test`, so an
ordinary run does not collect them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, ClassVar, TypeVar

import msgspec
import pytest

from memoranda.model.entry import Entry, Indexed, Shelf, ShelfState
from memoranda.model.event import RUN_EVENTS, Event
from memoranda.model.fact import Fact
from memoranda.model.scope import Scope
from memoranda.store.base import EntryQuery, FactQuery, Transaction
from memoranda.store.memory import MemoryStore
from memoranda.testing.conformance import Capability, StoreConformance

T = TypeVar("T")


class _Forget(Exception):
    pass


class ForgetfulStore(MemoryStore):
    """The floor: accepts every write and stores none."""

    def transact(self, work: Callable[[Transaction], T], *, wait: bool = True, within: object = None) -> T:
        done: list[T] = []

        def forget(rows: Transaction) -> T:
            done.append(work(rows))
            raise _Forget

        try:
            return super().transact(forget, wait=wait)
        except _Forget:
            return done[0]


class _Rows:
    """Rows that delegate everything, for subclasses to break one verb."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rows, name)


class _BentStore(MemoryStore):
    bend: ClassVar[Callable[[Any], Any]]

    def transact(self, work: Callable[[Any], T], *, wait: bool = True, within: object = None) -> T:
        return super().transact(lambda rows: work(type(self).bend(rows)), wait=wait)

    def read(self, work: Callable[[Any], T], *, snapshot: bool = True) -> T:
        return super().read(lambda rows: work(type(self).bend(rows)), snapshot=snapshot)


class _Gossip(_Rows):
    def _everything(self, tenant: str) -> list[Fact]:
        return list(self.rows.facts(FactQuery(Scope(tenant), below=True)))

    def fact(self, scope: Scope, key: str, *, value: bool = True) -> Fact | None:
        found = self.rows.fact(scope, key, value=value)
        others = [fact for fact in self._everything(scope.tenant) if fact.key == key]
        return found or (others[0] if others else None)

    def facts(self, query: FactQuery) -> Iterator[Fact]:
        if query.active_at is None:
            return self.rows.facts(query)
        return iter([fact for fact in self._everything(query.scope.tenant) if fact.active_at(query.active_at)])


class GossipingStore(_BentStore):
    """The ceiling: returns everything to every caller."""

    bend = _Gossip


class _Wipe(_Rows):
    def remove_below(self, scope: Scope, *, keep_records: bool = False) -> dict[str, int]:
        removed: dict[str, int] = self.rows.remove_below(scope, keep_records=keep_records)
        if keep_records:
            return removed
        for subject in {fact.scope.subject for fact in self.rows.facts(FactQuery(Scope(scope.tenant), below=True))}:
            for kind, count in self.rows.remove_below(Scope(scope.tenant, subject)).items():
                removed[kind] += count
        return removed


class WipingStore(_BentStore):
    """Erases all users when asked to erase one."""

    bend = _Wipe


class _Hoard(_Rows):
    def remove_below(self, scope: Scope, *, keep_records: bool = False) -> dict[str, int]:
        if keep_records:
            return self.rows.remove_below(scope, keep_records=True)
        kinds = (
            "facts",
            "revisions",
            "entries",
            "idempotency_keys",
            "approvals",
            "rejections",
            "ledger_texts",
            "content_keys",
            "sessions",
        )
        return dict.fromkeys(kinds, 0)


class HoardingStore(_BentStore):
    """Erases nothing, but reports success."""

    bend = _Hoard


class _Loose(_Rows):
    def facts(self, query: FactQuery) -> Iterator[Fact]:
        if query.active_at is None:
            return self.rows.facts(query)
        like = re.compile(re.escape(query.prefix).replace("%", ".*").replace("_", "."))
        every = self.rows.facts(msgspec.structs.replace(query, prefix=""))
        return (fact for fact in every if like.match(fact.key))


class LooseStore(_BentStore):
    """Matches a prefix as a text pattern instead of a path, as an unescaped LIKE does."""

    bend = _Loose


class _Mingle(_Rows):
    def events(self, tenant: str, *, run: str | None = None, **rest: Any) -> Iterator[Event]:
        if run is None:
            return self.rows.events(tenant, **rest)
        return (event for event in self.rows.events(tenant, **rest) if event.effect in RUN_EVENTS)

    def head(self, tenant: str, run: str | None = None) -> tuple[int, str] | None:
        if run is None:
            return self.rows.head(tenant)
        newest = next(reversed(list(self.events(tenant, run=run))), None)
        return None if newest is None else (newest.version or 0, newest.hash)


class MinglingStore(_BentStore):
    """Treats all runs of a tenant as one."""

    bend = _Mingle


class _Stale(_Rows):
    def shelf_state(self, shelf: Shelf) -> ShelfState:
        state: ShelfState = self.rows.shelf_state(shelf)
        return ShelfState(state.newest, min(state.removed, 1))


class StaleStore(_BentStore):
    """Reports the same state for a shelf before and after it lost entries."""

    bend = _Stale


class _Mix(_Rows):
    def shelf_state(self, shelf: Shelf) -> ShelfState:
        return self.rows.shelf_state(Shelf(shelf.scope, shelf.collection))

    def live_sequences(self, shelf: Shelf) -> list[int]:
        return self.rows.live_sequences(Shelf(shelf.scope, shelf.collection))

    def index_rows(self, query: EntryQuery, embedder: str) -> Iterator[Indexed]:
        if query.shelf is not None and query.active_at is None:
            query = msgspec.structs.replace(query, shelf=Shelf(query.shelf.scope, query.shelf.collection))
        return self.rows.index_rows(query, embedder)


class MixingStore(_BentStore):
    """Returns the entries of every namespace when asked for one."""

    bend = _Mix


class _Cling(_Rows):
    def end_entry(self, tenant: str, sequence: int, at: datetime) -> None:
        return None


class ClingingStore(_BentStore):
    """Never expires an entry."""

    bend = _Cling


class _Backdate(_Rows):
    def index_rows(self, query: EntryQuery, embedder: str) -> Iterator[Indexed]:
        return self.rows.index_rows(msgspec.structs.replace(query, active_at=None), embedder)

    def entries(self, query: EntryQuery) -> Iterator[Entry]:
        found: Iterator[Entry] = self.rows.entries(query)
        if query.sequences is None:
            return found
        return (msgspec.structs.replace(one, created_at=datetime(2000, 1, 1, tzinfo=UTC)) for one in found)


class BackdatingStore(_BentStore):
    """Returns the current state for any point in time."""

    bend = _Backdate


class _Leave(_Rows):
    def remove_below(self, scope: Scope, *, keep_records: bool = False) -> dict[str, int]:
        tables: Any = self.rows._t
        entries, shelves, vectors = dict(tables.entries), dict(tables.shelves), dict(tables.vectors)
        removed = self.rows.remove_below(scope, keep_records=keep_records)
        tables.entries, tables.shelves, tables.vectors = entries, shelves, vectors
        return {**removed, "entries": 0}


class LeavingStore(_BentStore):
    """Erases facts but leaves entries behind."""

    bend = _Leave


class RestartingStore(MemoryStore):
    """A correct store that can be reopened, because it keeps its tables when it is closed."""

    def close(self) -> None:
        pass

    def reopened(self) -> RestartingStore:
        """Return the store as it is after a restart."""
        again = type(self)()
        again._tables = self._tables
        return again


class LosingStore(RestartingStore):
    """Loses the vectors when it is reopened."""

    def reopened(self) -> RestartingStore:
        again = super().reopened()
        again._open_tables().vectors.clear()
        return again


class HalfKeepingStore(MemoryStore):
    """Keeps the writes of a failed transaction."""

    def transact(self, work: Callable[[Any], T], *, wait: bool = True, within: object = None) -> T:
        failure: list[BaseException] = []

        def keep(rows: Any) -> Any:
            try:
                return work(rows)
            except Exception as error:
                failure.append(error)

        result = super().transact(keep, wait=wait)
        if failure:
            raise failure[0]
        return result


class PatientStore(MemoryStore):
    """Waits when told not to."""

    def transact(self, work: Callable[[Transaction], T], *, wait: bool = True, within: object = None) -> T:
        return super().transact(work)


class _BrokenSuite(StoreConformance):
    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability) - {Capability.RESTART}
    kind: ClassVar[type[MemoryStore]]

    @pytest.fixture
    def store(self) -> MemoryStore:
        return self.kind()


class _RestartingSuite(_BrokenSuite):
    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability)

    @pytest.fixture
    def reopen_store(self, store: RestartingStore) -> Callable[[], RestartingStore]:
        return store.reopened


class ReferenceSuite(_RestartingSuite):
    kind = RestartingStore


class ForgetfulSuite(_BrokenSuite):
    kind = ForgetfulStore


class PatientSuite(_BrokenSuite):
    kind = PatientStore


class GossipingSuite(_BrokenSuite):
    kind = GossipingStore


class WipingSuite(_BrokenSuite):
    kind = WipingStore


class HoardingSuite(_BrokenSuite):
    kind = HoardingStore


class LooseSuite(_BrokenSuite):
    kind = LooseStore


class StaleSuite(_BrokenSuite):
    kind = StaleStore


class MixingSuite(_BrokenSuite):
    kind = MixingStore


class MinglingSuite(_BrokenSuite):
    kind = MinglingStore


class ClingingSuite(_BrokenSuite):
    kind = ClingingStore


class BackdatingSuite(_BrokenSuite):
    kind = BackdatingStore


class LeavingSuite(_BrokenSuite):
    kind = LeavingStore


class LosingSuite(_RestartingSuite):
    kind = LosingStore


class HalfKeepingSuite(_BrokenSuite):
    kind = HalfKeepingStore


class _Outcomes:
    """A pytest plugin that notes how each test of each suite ended, by its name without parameters.

    Where only some tests are wanted, the many hundred others of a suite are not even made.
    """

    def __init__(self, wanted: frozenset[str]) -> None:
        self._wanted = wanted
        self.passed: dict[str, set[str]] = defaultdict(set)
        self.failed: dict[str, set[str]] = defaultdict(set)

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        # Rendering the failures takes longer than everything else, and they are never read.
        setattr(item, "repr_failure", lambda *_: "failed")  # noqa: B010 (a method of the class, for this item only)

    def pytest_pycollect_makeitem(self, collector: pytest.Collector, name: str) -> list[pytest.Item] | None:
        unwanted = self._wanted and isinstance(collector, pytest.Class) and name not in self._wanted
        return [] if unwanted else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        _, suite, test = report.nodeid.rsplit("::", 2)
        name = test.partition("[")[0]
        if report.failed:
            self.failed[suite].add(name)
        elif report.when == "call" and report.passed:
            self.passed[suite].add(name)


def run(*nodes: str) -> _Outcomes:
    """Run suites, or single tests of them (`Suite::test`), in a pytest of their own."""
    outcomes = _Outcomes(frozenset(node.partition("::")[2] for node in nodes) - {""})
    options = [
        "-q",
        "--tb=native",
        "--no-summary",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        # It ends with a long search for garbage, among all that this process holds.
        "-p",
        "no:unraisableexception",
        "-o",
        "python_classes=*Suite",
    ]
    pytest.main([*options, *(f"{__file__}::{node}" for node in nodes)], plugins=[outcomes])
    return outcomes


FLOOR = {
    "test_set_then_get_returns_an_equal_fact",
    "test_every_json_value_comes_back_as_it_went_in",
    "test_a_key_that_was_never_written_gives_none",
    "test_delete_says_whether_there_was_a_fact",
    "test_list_is_ordered_by_key",
    "test_history_tells_every_change_oldest_first",
    "test_a_deleted_fact_is_seen_until_exactly_its_deletion",
    "test_a_fact_lives_until_exactly_its_ttl",
    "test_expired_fact_is_invisible_before_it_is_swept",
    "test_look_alike_ids_are_different_users",
    "test_no_read_verb_sees_another_tenant",
    "test_a_repeated_set_gives_the_first_result_and_writes_once",
    "test_a_conflict_in_the_middle_leaves_nothing_of_the_batch",
    "test_definitions_are_listed_oldest_first",
    "test_a_schema_accepts_what_it_describes_and_refuses_the_rest",
    "test_nothing_is_allowed_without_a_grant",
    "test_a_waiting_effect_changes_nothing_until_it_is_approved",
    "test_every_mutation_is_exactly_one_event",
    "test_an_erasure_removes_everything_at_and_below_a_subject",
    "test_look_alike_users_stay",
    "test_an_ended_session_cannot_be_started_again",
    "test_what_was_erased_since_stays_erased",
    "test_what_is_remembered_is_recalled_and_listed_as_it_was_given",
    "test_json_content_comes_back_as_the_value_it_was",
    "test_the_same_under_the_same_key_is_written_once",
    "test_an_exact_duplicate_in_a_namespace_is_reported_and_not_doubled",
    "test_no_scope_sees_the_entries_of_another",
    "test_what_is_forgotten_is_neither_recalled_nor_listed",
    "test_each_mode_finds_what_has_the_words_of_a_query",
    "test_a_filter_never_costs_results",
    "test_a_recall_as_of_a_moment_finds_the_entries_of_that_moment",
    "test_a_collection_is_made_by_the_first_entry_and_fixes_its_embedder",
    "test_a_collection_moves_to_another_embedder_and_is_found_there",
    "test_an_entry_lives_until_exactly_its_ttl",
    "test_entries_that_are_exported_and_imported_are_equal",
    "test_a_remember_that_waits_is_found_once_it_is_approved",
    "test_a_recall_is_an_event_with_hashes_and_ids_and_without_text",
    "test_b3_a_write_with_the_stamp_last_read_replaces_the_text",
    "test_r7_the_line_that_holds_more_of_the_query_ranks_above",
    "test_a_run_is_a_chain_inside_the_chain",
    "test_of_two_that_resume_from_the_same_event_one_loses",
    "test_erasing_a_user_takes_the_runs_that_belong_to_them",
}

WRONG: dict[type[StoreConformance], set[str]] = {
    PatientSuite: {"test_a_write_that_must_not_wait_is_refused_while_another_runs"},
    GossipingSuite: {
        "test_look_alike_ids_are_different_users",
        "test_a_user_and_an_agent_of_that_user_do_not_see_each_other",
        "test_deleting_for_one_look_alike_leaves_the_others",
        "test_list_below_a_key_goes_by_whole_segments",
        "test_a_session_is_a_scope_of_its_own",
        "test_the_records_of_two_owners_are_apart_and_those_of_one_are_shared",
        "test_i1_blocks_of_another_user_or_agent_are_invisible",
    },
    WipingSuite: {
        "test_an_erasure_removes_everything_at_and_below_a_subject",
        "test_an_erasure_takes_the_sessions_a_subject_owns",
        "test_look_alike_users_stay",
        "test_erasing_one_agent_of_a_user_leaves_the_rest_of_the_user",
        "test_erasing_an_unknown_user_gives_a_receipt_of_zeros",
        "test_blocks_go_with_their_user",
    },
    HoardingSuite: {
        "test_an_erasure_removes_everything_at_and_below_a_subject",
        "test_an_erasure_takes_the_sessions_a_subject_owns",
        "test_an_erasure_removes_what_waits_for_approval",
        "test_erasing_kept_text_leaves_the_chain_whole",
        "test_content_hashes_of_the_erased_cannot_be_compared_any_more",
        "test_blocks_go_with_their_user",
    },
    StaleSuite: {
        "test_expired_and_forgotten_entries_cost_no_results",
        "test_what_is_forgotten_is_neither_recalled_nor_listed",
        "test_something_else_under_the_same_key_takes_its_place",
        "test_another_handle_sees_what_is_written_and_removed",
    },
    MixingSuite: {
        "test_a_key_belongs_to_its_scope_collection_and_namespace",
        "test_a_namespace_is_searched_alone_and_without_one_all_are",
        "test_better_entries_of_other_namespaces_and_scopes_cost_no_results",
        "test_entries_are_listed_in_pages_in_the_order_they_came",
    },
    ClingingSuite: {
        "test_what_is_forgotten_is_neither_recalled_nor_listed",
        "test_something_else_under_the_same_key_takes_its_place",
        "test_a_duplicate_that_would_live_longer_takes_the_place_of_the_first",
        "test_a_recall_as_of_a_moment_finds_the_entries_of_that_moment",
        "test_neighbours_that_are_gone_are_not_shown",
        "test_an_inspection_of_a_busy_life_of_entries_finds_all_well",
    },
    BackdatingSuite: {
        "test_a_recall_as_of_a_moment_finds_the_entries_of_that_moment",
        "test_a_filter_and_a_namespace_hold_as_of_a_moment_too",
        "test_what_ended_before_a_move_is_found_as_of_then_after_it",
    },
    LeavingSuite: {
        "test_an_erasure_takes_the_entries_of_a_subject_and_counts_them",
        "test_the_end_of_a_session_takes_its_entries",
        "test_look_alike_users_keep_their_entries",
        "test_another_handle_sees_what_is_written_and_removed",
    },
    LosingSuite: {
        "test_entries_are_found_after_a_restart_as_before",
        "test_erased_entries_stay_erased_after_a_restart",
        "test_a_move_goes_on_after_a_restart",
    },
    MinglingSuite: {
        "test_runs_are_told_apart",
        "test_events_of_a_run_are_read_by_position",
        "test_runs_are_listed_newest_first",
        "test_a_run_is_recorded_in_its_own_scope_alone",
        "test_erasing_a_user_takes_the_runs_that_belong_to_them",
    },
    LooseSuite: {
        "test_list_below_a_key_goes_by_whole_segments",
        "test_no_character_of_a_prefix_is_a_pattern",
    },
    HalfKeepingSuite: {
        "test_a_conflict_in_the_middle_leaves_nothing_of_the_batch",
        "test_a_failed_batch_uses_no_versions",
        "test_a_refused_record_leaves_nothing_of_the_batch",
        "test_a_conflict_at_the_moment_of_approval_leaves_it_pending",
        "test_a_slug_cannot_move_records_onto_other_facts",
        "test_a_write_that_fails_is_not_counted",
        "test_several_blocks_are_written_together_or_not_at_all",
    },
}  # fmt: skip


KEPT = "test_set_then_get_returns_an_equal_fact"


@pytest.fixture(scope="module")
def wrong() -> _Outcomes:
    """Run on each store that is wrong in one way what it must fail, and one promise that it keeps."""
    return run(*(f"{suite.__name__}::{name}" for suite, names in WRONG.items() for name in sorted({*names, KEPT})))


def test_the_reference_passes_what_the_broken_ones_must_fail() -> None:
    named = FLOOR.union(*WRONG.values())
    outcomes = run(*(f"ReferenceSuite::{name}" for name in sorted(named)))
    assert outcomes.failed["ReferenceSuite"] == set()
    assert outcomes.passed["ReferenceSuite"] == named


def test_a_store_that_forgets_fails_nearly_everything() -> None:
    outcomes = run("ForgetfulSuite")
    failed = outcomes.failed["ForgetfulSuite"]
    passed = outcomes.passed["ForgetfulSuite"] - failed
    assert failed >= FLOOR
    # What it passes needs nothing kept: refusals of bad input, and answers about an empty memory.
    assert len(passed) <= len(failed) // 10, sorted(passed)


@pytest.mark.parametrize("suite", WRONG, ids=lambda suite: suite.__name__)
def test_a_store_that_is_wrong_in_one_way_fails_there(suite: type[StoreConformance], wrong: _Outcomes) -> None:
    assert wrong.failed[suite.__name__] == WRONG[suite]
    assert KEPT in wrong.passed[suite.__name__]
