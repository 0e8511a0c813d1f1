"""Time and chance come from the run: a replay gives the same, and tests can choose."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.errors import Conflict
from memoranda.lang.expression.dialect import ExpressionRun
from memoranda.testing import CountingIds, FakeClock
from memoranda.workflow import jsonata

CHANCE = ["$now()", "$millis()", "$random()", "$uuid()", "$shuffle([1..20])", "[$uuid(), $random(), $now('[Y]')]"]


def fresh() -> ExpressionRun:
    return ExpressionRun(clock=FakeClock(), ids=CountingIds())


def evaluate(text: str, *, run: ExpressionRun) -> Any:
    return jsonata.evaluate(text, run=run)


@pytest.mark.parametrize("text", CHANCE)
def test_the_same_clock_and_ids_give_the_same(text: str) -> None:
    assert evaluate(text, run=fresh()) == evaluate(text, run=fresh())


@pytest.mark.parametrize("text", CHANCE)
def test_a_replay_gives_what_was_drawn(text: str) -> None:
    first = ExpressionRun()
    value = evaluate(text, run=first)
    assert first.drawn
    assert evaluate(text, run=ExpressionRun(recorded=first.drawn)) == value


@pytest.mark.parametrize("text", ["$random()", "$uuid()", "$shuffle([1..50])"])
def test_chance_differs_from_one_draw_to_the_next(text: str) -> None:
    run = fresh()
    assert evaluate(text, run=run) != evaluate(text, run=run)


def test_a_replay_of_another_program_is_refused() -> None:
    first = fresh()
    evaluate("$uuid()", run=first)
    assert evaluate("$uuid()", run=ExpressionRun(recorded=first.drawn)) == evaluate("$uuid()", run=fresh())
    with pytest.raises(Conflict):
        evaluate("$random()", run=ExpressionRun(recorded=first.drawn))


def test_the_moment_is_one_for_a_whole_expression_and_moves_with_the_clock() -> None:
    clock = FakeClock()
    run = ExpressionRun(clock=clock, ids=CountingIds())
    both = evaluate("[$millis(), $millis(), $toMillis($now())]", run=run)
    assert len(set(both)) == 1
    assert [kind for kind, _ in run.drawn] == ["now"]
    clock.advance(5)
    assert evaluate("$millis()", run=run) == both[0] + 5000


def test_an_expression_that_asks_for_neither_draws_nothing() -> None:
    run = fresh()
    assert evaluate("$string(1 + 1)", run=run) == "2"
    assert run.drawn == []


def test_uuids_and_chances_have_their_form() -> None:
    made = evaluate("$uuid()", run=fresh())
    assert (len(made), made[14], made[19] in "89ab") == (36, "4", True)
    draws = [evaluate("$random()", run=ExpressionRun()) for _ in range(20)]
    assert all(0 <= one < 1 for one in draws)
    assert sorted(evaluate("$shuffle([1..9])", run=fresh())) == list(range(1, 10))
