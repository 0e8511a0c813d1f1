"""The measurement of governance can be believed: floors fail, broken probes fail, the two scores are apart."""

from __future__ import annotations

import itertools
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import governance
import memoranda
from memoranda.api.memory import Memory
from memoranda.store.memory import MemoryStore
from memoranda.testing.governance import (
    FLOORS,
    REQUIREMENTS,
    SUBJECTS,
    AppendStore,
    CarelessStore,
    Checks,
    MemorandaSystem,
    MemorySystem,
    NullStore,
    Refused,
    Requirement,
    Scorecard,
    failures,
    run,
    scorecard,
)
from memoranda.testing.governance.inside import INSIDE
from memoranda.testing.governance.prompts import count_obeyed
from memoranda.testing.governance.requirements import add
from memoranda.testing.governance.scorecard import markdown_table

SCENARIOS = sorted(number for number, one in REQUIREMENTS.items() if one.scenario is not None)


@pytest.fixture(scope="module")
def floors() -> list[Scorecard]:
    return [scorecard(floor) for floor in FLOORS]


_tenants = itertools.count()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def backend(request: pytest.FixtureRequest) -> str:
    """The store that a test runs on; it runs once on each."""
    return request.param


@pytest.fixture
def governed(backend: str, request: pytest.FixtureRequest) -> type[MemorandaSystem]:
    """Return Memoranda on a store; each system has its own memory."""
    if backend == "sqlite":
        return MemorandaSystem
    address = request.getfixturevalue("database") if backend == "postgres" else ""

    class Elsewhere(MemorandaSystem):
        def _open(self) -> Memory:
            if not address:
                self._kept = getattr(self, "_kept", None) or KeptStore()
                return Memory(self._kept, clock=self._clock)
            self._tenant = getattr(self, "_tenant", None) or f"system-{next(_tenants)}"
            return memoranda.open(address, clock=self._clock, tenant=self._tenant)

    return Elsewhere


class KeptStore(MemoryStore):
    """A store in memory that a restart of what uses it does not empty."""

    def close(self) -> None:
        pass


@pytest.mark.capability("governance")
@pytest.mark.parametrize("number", SCENARIOS)
def test_memoranda_meets_each_requirement(number: int, governed: type[MemorandaSystem], backend: str) -> None:
    outcome = run(REQUIREMENTS[number], governed)
    if backend != "sqlite" and outcome.why == ("no `stored_bytes`",):
        pytest.skip("only a file can be searched for bytes")
    assert outcome.holds, outcome.why


def test_g44_every_number_has_a_scenario_or_is_shown_by_tests() -> None:
    assert sorted(REQUIREMENTS) == list(range(1, 61))
    assert {one.number for one in INSIDE} | set(SCENARIOS) == set(REQUIREMENTS)
    assert [one.number for one in REQUIREMENTS.values() if one.counted] == [20]
    assert all(one.parts for one in REQUIREMENTS.values())
    for number in SCENARIOS:
        scenario: Any = REQUIREMENTS[number].scenario
        assert scenario.__name__.startswith(f"g{number}_")
        assert sys.modules[scenario.__module__] in SUBJECTS


@pytest.mark.parametrize("number", SCENARIOS)
def test_g44_each_requirement_is_failed_by_a_floor(floors: list[Scorecard], number: int) -> None:
    outcomes = [card.outcome(number) for card in floors]
    assert not all(outcome is not None and outcome.holds for outcome in outcomes)


def test_g44_a_store_that_keeps_nothing_has_no_point(floors: list[Scorecard]) -> None:
    null = floors[0]
    assert [null.score(part).held for part in ("obligation", "negative")] == [0, 0]
    assert null.score("obligation").errors == 0
    # The other two keep something, and are far from enough.
    for card in floors[1:]:
        assert 0 < card.score("obligation").held < 12 and 0 < card.score("negative").held < 12


@pytest.mark.parametrize("number", [number for number in SCENARIOS if REQUIREMENTS[number].negative])
def test_g44_each_negative_finds_what_it_looks_for(number: int) -> None:
    outcome = run(REQUIREMENTS[number], CarelessStore)
    assert outcome.results["negative"] == "failed"
    assert any(why.startswith("present: ") for why in outcome.why), outcome.why


def test_g44_a_probe_that_breaks_is_an_error_and_no_point() -> None:
    class Broken(NullStore):
        def search(self, user: str, query: str, limit: int = 5) -> list[Any]:
            raise RuntimeError("the index is gone")

    outcome = run(REQUIREMENTS[1], Broken)
    assert outcome.results == {"obligation": "error", "negative": "error"}
    assert outcome.why == ("RuntimeError: the index is gone",)
    assert not outcome.holds and run(REQUIREMENTS[1], MemorandaSystem).holds
    card = scorecard(Broken)
    assert card.score("obligation").errors > 0 and card.score("obligation").held == 0


def test_g44_what_a_system_does_not_have_is_counted_apart() -> None:
    outcome = run(REQUIREMENTS[9], AppendStore)
    assert outcome.results == {"obligation": "unsupported", "negative": "unsupported"}
    assert outcome.why == ("no `reject`",)
    nothing = scorecard(MemorySystem)
    for part in ("obligation", "negative"):
        score = nothing.score(part)
        assert (score.held, score.unsupported) == (0, score.measured)


def test_g44_a_negative_counts_only_with_its_control() -> None:
    checks = Checks()
    checks.must_not(False, "a leak")
    assert checks.result("negative") == "failed"  # nothing shows that anything works
    checks.control(True, "an ordinary read")
    assert checks.result("negative") == "held"
    checks.control(False, "another read")
    assert checks.result("negative") == "failed"
    assert Checks().result("obligation") == "failed"


def test_g44_the_scores_are_apart(floors: list[Scorecard]) -> None:
    append = floors[2]
    obligations, negatives = append.score("obligation"), append.score("negative")
    assert obligations.measured > negatives.measured > 0
    assert not hasattr(append, "total")
    assert "✓ ✗" in markdown_table([append])  # what is there, and what must not be


def test_a_refusal_where_something_had_to_be_stored_is_a_failure() -> None:
    class Closed(NullStore):
        def write(self, *arguments: Any, **options: Any) -> str:
            raise Refused("closed")

    assert run(REQUIREMENTS[1], Closed).results["obligation"] == "failed"
    assert not run(REQUIREMENTS[1], Closed).holds and run(REQUIREMENTS[1], MemorandaSystem).holds


def test_a_number_is_given_once() -> None:
    with pytest.raises(ValueError, match="g1 is a requirement already"):
        add(Requirement(number=1, title="again"))


def test_results_of_tests_count_only_for_what_has_no_scenario() -> None:
    card = scorecard(NullStore, {57: "held", 1: "held"})
    (inside, portable) = (card.outcome(57), card.outcome(1))
    assert inside is not None and inside.holds
    assert (card.score("obligation").held, card.score("obligation", inside=True).held) == (0, 1)
    assert portable is not None and not portable.holds
    assert not any(line.startswith("G57 ") for line in failures(card))
    assert any(line.startswith("G1 ") for line in failures(card))


def test_orders_that_a_model_follows_are_counted() -> None:
    class Parrot:
        name = "parrot:1"

        def reply(self, ask: Any, *, timeout: float = 30.0) -> Any:
            from memoranda.agent.models import Reply

            return Reply(text=ask.instructions if "SYSTEM" in ask.instructions else "cone 10")

    assert count_obeyed(MemorandaSystem, Parrot()) == (1, 6)


def test_the_table_of_promises_is_up_to_date_and_names_tests_that_exist() -> None:
    page = governance.PROMISES.read_text(encoding="utf-8")
    assert governance.with_promises(page) == page, "run `python tools/governance.py --promises`"
    assert page.count("\n| G") == len(REQUIREMENTS)
    broken = page.replace("`g1_nothing_crosses_a_scope`", "`g1_a_scenario_that_is_gone`")
    assert broken != page and governance.with_promises(broken) == page


def test_a_test_is_found_by_each_number_in_its_name() -> None:
    found = governance.numbered_tests()
    names = {test.name for test in found[18]}
    assert "test_p4_g18_reminders_keep_to_their_limit_and_least_score" in names
    one = next(test for test in found[45] if test.file.parent == governance.SUITES)
    assert one.node.endswith("trust.py::OriginPromises::" + one.name)
    assert Path(one.file).exists()


def test_the_page_has_the_date_both_scores_and_what_was_not_measured(floors: list[Scorecard]) -> None:
    moment = datetime(2026, 11, 18, tzinfo=UTC)
    text = governance.page(floors, moment, "G20 was not counted.", {"aoep": "12 of 13"})
    assert "Measured on 2026-11-18" in text and "| null | 0 of 52 | 0 of 49 |" in text
    assert text.count("Not measured here.") == len(governance.OUTSIDE) - 1
    assert "```text\n12 of 13\n```" in text
    for number in REQUIREMENTS:
        assert f"\n| G{number} | " in text


def test_the_written_page_has_every_requirement_and_system() -> None:
    written = governance.PAGE.read_text(encoding="utf-8")
    for number, one in REQUIREMENTS.items():
        assert f"\n| G{number} | {one.title} |" in written
    for system in (MemorandaSystem, *FLOORS):
        assert f"| {system.describe()} |" in written


def test_a_requirement_about_the_inside_without_a_test_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    tests = governance.numbered_tests()
    one = next(test for test in tests[44] if test.name.endswith("only_with_its_control"))
    counted = next(test for test in tests[58] if test.name.endswith("versions_in_line"))  # in the table of capabilities
    monkeypatch.setattr(governance, "numbered_tests", lambda: {44: [one], 58: [counted]})
    results = governance.results_of_tests()
    assert (results[44], results[57], results[58]) == ("held", "failed", "held")
    assert 20 not in results and 1 not in results


def test_only_known_suites_can_be_named() -> None:
    program = governance.ROOT / "tools/governance.py"
    run = subprocess.run(
        [sys.executable, program, "--suite", "folklore=x"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2 and "`folklore` is not a suite" in run.stderr
