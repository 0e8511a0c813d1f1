"""The tests of a machine: what they compare, what they say when something is otherwise, and what they never reach."""

from __future__ import annotations

import socket
from collections.abc import Callable
from textwrap import dedent, indent
from typing import Any

import pytest

import memoranda
from memoranda.api.memory import Memory
from memoranda.mashin import Machine
from memoranda.mashin.machine_tests import Case, Difference
from memoranda.testing import FakeClock
from memoranda.testing.conformance.base import WatchedEmbedder

Load = Callable[..., Machine]

GREENHOUSE = """\
accepts
  plant as text, is required, min_length: 3
  litres as number, default: 2
responds with
  advice as text
  sources as list
ensures
  permissions
    allowed to
      llm_call, memory
implements
  recall find_notes
    query: input.plant
    collection: "care"
  ask advise, using: "anthropic:claude-sonnet-4-6"
    with task "How is ${input.plant} watered? ${find_notes.results.map(n => n.content).join('; ')}"
    returns
      advice as text
    assuming
      advice: "Sparingly."
  remember save
    content: "Asked about " + input.plant
    collection: "questions"
  compute done
    { advice: advise.advice, sources: find_notes.results.map(n => n.metadata.page) }
"""


def with_tests(sections: str, tests: str) -> str:
    return f"{dedent(sections).strip()}\nverifies\n{indent(dedent(tests).strip(), '  ')}\n"


@pytest.fixture
def verify(load: Load) -> Callable[..., list[Case]]:
    """Return a function that runs the tests below some sections."""

    def verify(sections: str, tests: str, **options: Any) -> list[Case]:
        return list(load(with_tests(sections, tests), **options).test().cases)

    return verify


@pytest.fixture
def compared(verify: Callable[..., list[Case]]) -> Callable[[str, str], list[Difference]]:
    """Return how to compare the output of a machine with an expectation."""

    def compared(gives: str, expects: str) -> list[Difference]:
        machine = f"implements\n  compute done\n    {gives}"
        [case] = verify(machine, f'test "it is as expected"\n  given {{}}\n  expect {expects}')
        return list(case.failure.diff) if case.failure else []

    return compared


def test_a_test_says_what_it_is_called_where_it_stands_and_how_it_ended(load):
    machine = load(
        with_tests(
            GREENHOUSE,
            """
            test "a fern is watered sparingly"
              given { plant: "fern" }
              expect { advice: "Sparingly." }
            test "a cactus drowns"
              given { plant: "cactus" }
              assuming advise { advice: "Hardly ever." }
              expect
                advice: "Daily."
            """,
        )
    )
    report = machine.test()
    assert (report.machine, report.file, report.passed, report.failed) == ("desk", "machine.mashin", 1, 1)
    fern, cactus = report.cases
    assert (fern.name, fern.passed, fern.failure) == ("a fern is watered sparingly", True, None)
    assert (cactus.name, cactus.passed) == ("a cactus drowns", False)
    assert 'test "a cactus drowns"' in machine.plan.source.splitlines()[cactus.line - 1]
    assert cactus.failure is not None
    assert cactus.failure.reason == "the output is another one"
    assert cactus.failure.diff == (Difference("advice", "Daily.", "Hardly ever."),)


def test_a_machine_without_tests_has_an_empty_report(load):
    report = load(GREENHOUSE).test()
    assert (report.cases, report.passed, report.failed) == ((), 0, 0)


# what is compared


@pytest.mark.parametrize(
    ("gives", "expects"),
    [
        ("{ a: 1, b: 2 }", "{ a: 1 }"),
        ("{ a: { b: 1, c: 2 } }", "{ a: { c: 2 } }"),
        ("{ a: [{ b: 1, c: 2 }] }", "{ a: [{ b: 1 }] }"),
        ("{ a: 4 / 2 }", "{ a: 2 }"),
        ("{ a: 1 }", "{ a: 1, b: null }"),
        ("{ a: 1 }", "{}"),
        ('"soil"', '"soil"'),
        ("[1, [2]]", "[1, [2]]"),
    ],
)
def test_maps_are_compared_by_the_keys_that_are_named_and_numbers_by_value(compared, gives, expects):
    assert compared(gives, expects) == []


@pytest.mark.parametrize(
    ("gives", "expects", "diff"),
    [
        ("{ a: true }", "{ a: 1 }", [("a", 1, True)]),
        ("{ a: 0 }", "{ a: false }", [("a", False, 0)]),
        ('{ a: "1" }', "{ a: 1 }", [("a", 1, "1")]),
        ("{ a: 1 }", "{ b: 1 }", [("b", 1, None)]),
        ("{ a: null }", "{ a: {} }", [("a", {}, None)]),
        ("{ a: [1, 2] }", "{ a: [1] }", [("a", [1], [1, 2])]),
        ("{ a: [1, 2] }", "{ a: [2, 1] }", [("a[0]", 2, 1), ("a[1]", 1, 2)]),
        ("{ a: [{ b: { c: 1 } }] }", "{ a: [{ b: { c: 2 } }] }", [("a[0].b.c", 2, 1)]),
        ("[[1]]", "[[2]]", [("[0][0]", 2, 1)]),
        ('"soil"', "{ a: 1 }", [("output", {"a": 1}, "soil")]),
    ],
)
def test_what_differs_is_named_by_its_path(compared, gives, expects, diff):
    assert compared(gives, expects) == [Difference(*one) for one in diff]


# runs that do not come to an end


def test_a_run_that_fails_is_a_failed_test_that_says_why(verify):
    denied = GREENHOUSE.replace("llm_call, memory", "llm_call")
    tests = 'test "one"\n  given { plant: "fern" }\n  expect { advice: "Sparingly." }'
    [case] = verify(denied, tests)
    assert case.failure is not None and case.failure.error is not None
    error = case.failure.error
    assert (error.type, error.step, case.failure.diff) == ("permission_denied", "find_notes", ())
    assert case.failure.reason.startswith("the run failed at `find_notes` (permission_denied): ")
    assert error.message in case.failure.reason
    [allowed] = verify(GREENHOUSE, tests)
    assert allowed.passed


def test_input_that_is_rejected_is_a_failed_test_that_says_what_is_wrong(verify):
    tests = """
        test "too short"
          given { plant: "x" }
          expect { advice: "Sparingly." }
        test "long enough"
          given { plant: "ivy" }
          expect { advice: "Sparingly." }
    """
    short, long = verify(GREENHOUSE, tests)
    assert short.failure is not None and short.failure.error is not None
    assert short.failure.error.type == "contract"
    assert "$.plant" in short.failure.reason and "3" in short.failure.reason
    assert long.passed


def test_a_step_that_has_nothing_to_give_says_how_to_assume_something(verify):
    without = GREENHOUSE.replace('    assuming\n      advice: "Sparingly."\n', "")
    tests = """
        test "nothing is assumed"
          given { plant: "fern" }
          expect { advice: "Daily." }
        test "the test assumes it"
          given { plant: "fern" }
          assuming advise { advice: "Daily." }
          expect { advice: "Daily." }
    """
    nothing, assumed = verify(without, tests)
    assert nothing.failure is not None and nothing.failure.error is not None
    assert (nothing.failure.error.type, nothing.failure.error.step) == ("runtime", "advise")
    assert "assuming advise" in nothing.failure.error.details["hint"]
    assert assumed.passed


def test_a_test_can_expect_that_the_run_fails(verify):
    denied = GREENHOUSE.replace("llm_call, memory", "llm_call")
    tests = """
        test "by its type"
          given { plant: "fern" }
          expect { error: { type: "permission_denied" } }
        test "by its step, in lines"
          given { plant: "fern" }
          expect
            error: { step: "find_notes" }
        test "rejected"
          given { plant: "x" }
          expect { error: { type: "contract" } }
        test "of another type"
          given { plant: "fern" }
          expect { error: { type: "timeout", step: "find_notes" } }
    """
    *passed, other = verify(denied, tests)
    assert [case.passed for case in passed] == [True, True, True]
    assert other.failure is not None and other.failure.error is not None
    assert other.failure.diff == (Difference("error.type", "timeout", "permission_denied"),)
    assert other.failure.error.type == "permission_denied"


def test_a_run_that_was_expected_to_fail_and_completes_is_a_failed_test(verify):
    tests = """
        test "it should fail"
          given { plant: "fern" }
          expect { error: { type: "permission_denied" } }
    """
    [case] = verify(GREENHOUSE, tests)
    assert case.failure is not None
    assert case.failure.reason == "it was expected to fail, and has completed"
    assert case.failure.diff == (Difference("error", {"type": "permission_denied"}, None),)
    [denied] = verify(GREENHOUSE.replace("llm_call, memory", "llm_call"), tests)
    assert denied.passed


REPORTS = """
responds with
  error as map
implements
  recall look
    query: "pots"
    collection: "shed"
  on failure
    compute told
      { error: { type: "told" } }
"""


def test_an_output_that_is_called_error_is_an_output(verify):
    tests = """
        test "the output"
          given {}
          expect { error: { type: "told" } }
        test "not the failure"
          given {}
          expect { error: { type: "permission_denied" } }
    """
    output, failure = verify(REPORTS, tests)
    assert output.passed
    assert failure.failure is not None
    assert failure.failure.diff == (Difference("error.type", "permission_denied", "told"),)
    _, uncaught = verify(REPORTS.partition("  on failure")[0], tests)
    assert uncaught.failure is not None and uncaught.failure.error is not None
    assert (uncaught.failure.error.type, uncaught.failure.diff) == ("permission_denied", ())


def test_a_machine_that_declares_no_output_is_compared_with_either(verify):
    tests = """
        test "it fails"
          given {}
          expect { error: { type: "permission_denied" } }
    """
    looks = 'implements\n  recall look\n    query: "pots"\n    collection: "shed"\n'
    [fails] = verify(looks, tests)
    assert fails.passed
    [gives] = verify('implements\n  compute done\n    { error: { type: "permission_denied" } }', tests)
    assert gives.passed
    [neither] = verify("implements\n  compute done\n    { error: null }", tests)
    assert not neither.passed


def test_a_test_that_cannot_be_computed_fails_alone(verify):
    tests = """
        test "what is given has no value"
          given { plant: null.name }
          expect { advice: "Sparingly." }
        test "what is expected cannot be compared"
          given { plant: "fern" }
          expect { advice: x => x }
        test "this one can"
          given { plant: "fern" }
          expect { advice: "Sparingly." }
    """
    given, expected, third = verify(GREENHOUSE, tests)
    for case in (given, expected):
        assert case.failure is not None
        assert case.failure.reason.startswith("the test cannot be run: ")
    assert third.passed


# what is assumed


def test_recalls_are_empty_unless_the_test_assumes_results(verify):
    tests = """
        test "empty"
          given { plant: "fern" }
          expect { sources: [] }
        test "assumed"
          given { plant: "fern" }
          assuming find_notes
            results: [{ content: "Mist it", metadata: { page: 7 }, score: 0.9 }]
          expect { sources: [7] }
    """
    assert [case.passed for case in verify(GREENHOUSE, tests)] == [True, True]


def test_approvals_and_events_need_nobody(verify):
    sections = """
        responds with
          ordered as boolean
          by as text
        ensures
          permissions
            requires approval for memory.write
        implements
          remember order
            content: "Ten bags of soil"
            collection: "orders"
          wait for delivery
            event: "delivered"
            timeout: "2d"
          compute done
            { ordered: order.stored, by: delivery.by }
    """
    tests = """
        test "the event is assumed"
          given {}
          assuming delivery { by: "van" }
          expect { ordered: false, by: "van" }
        test "the event is not"
          given {}
          expect { error: { type: "runtime", step: "delivery" } }
    """
    assert [case.failure for case in verify(sections, tests)] == [None, None]


def test_tests_have_the_clock_of_the_memory(verify, clock):
    sections = "implements\n  compute done\n    { at: now() }"
    tests = 'test "now"\n  given {}\n  expect { at: now() }'
    assert verify(sections, tests)[0].passed
    [before] = verify(sections, 'test "then"\n  given {}\n  expect { at: "never" }')
    clock.advance(86_400)
    [after] = verify(sections, 'test "then"\n  given {}\n  expect { at: "never" }')
    shown = [case.failure.diff[0].got[:10] for case in (before, after) if case.failure]
    assert shown == ["2026-01-01", "2026-01-02"]


# what is never reached


def test_tests_reach_neither_the_memory_nor_the_embedder_nor_a_model(
    load: Load, memory: Memory, embedder: WatchedEmbedder, scripted: Any, monkeypatch: pytest.MonkeyPatch
):
    model = scripted({"advice": "Daily."}, again=True)
    text = with_tests(GREENHOUSE, 'test "one"\n  given { plant: "fern" }\n  expect { advice: "Sparingly." }')
    machine = load(text, model=model)

    def no_network(*_: Any, **__: Any) -> None:
        raise AssertionError("a test has reached the network")

    with monkeypatch.context() as patched:
        patched.setattr(socket.socket, "connect", no_network)
        assert machine.test().passed == 1
    assert (model.asked, embedder.asked, memory.ledger.events(), memory.runs.list()) == ([], [], [], [])
    assert memory.collections.list() == []

    assert machine.run({"plant": "fern"}).output["advice"] == "Daily."
    assert len(model.asked) == 1
    assert embedder.asked
    assert [one.name for one in memory.collections.list()] == ["questions"]
    assert len(memory.runs.list()) == 1


def test_a_test_needs_no_key_and_no_setting(load, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("SHED_KEY", raising=False)
    needy = GREENHOUSE.replace("ensures\n", "ensures\n  needs\n    shed_key: required\n")
    machine = load(with_tests(needy, 'test "one"\n  given { plant: "fern" }\n  expect { advice: "Sparingly." }'))
    assert machine.test().passed == 1
    with pytest.raises(memoranda.UsageError, match="shed_key"):
        machine.run({"plant": "fern"})


def test_a_machine_that_is_called_takes_part_in_the_test(load: Load, memory: Memory):
    pump = """
        machine pump
          accepts
            litres as number, is required
          responds with
            poured as number
            kept as boolean
          ensures
            permissions
              allowed to memory
          implements
            remember log
              content: "Poured ${input.litres}"
              collection: "water"
            compute done
              { poured: input.litres * 2, kept: log.stored }
    """
    sections = """
        accepts
          litres as number, is required
        ensures
          permissions
            allowed to call "pump"
        implements
          ask pour, from: "pump"
            litres: input.litres
          compute done
            { poured: pour.poured, kept: pour.kept }
    """
    tests = """
        test "the pump runs as a test too"
          given { litres: 3 }
          expect { poured: 6, kept: false }
        test "the pump is assumed"
          given { litres: 3 }
          assuming pour { poured: 1, kept: true }
          expect { poured: 1, kept: true }
        test "what is assumed counts"
          given { litres: 3 }
          assuming pour { poured: 1 }
          expect { poured: 6 }
    """
    text = with_tests(sections, tests)
    report = load(text, machines=[load(pump)]).test()
    assert [case.passed for case in report.cases] == [True, True, False]
    assert memory.ledger.events() == []
    alone = load(text).test()
    assert [case.passed for case in alone.cases] == [False, True, False]


def test_each_test_draws_ids_of_its_own(load: Load):
    text = with_tests(
        """
        implements
          compute done
            { id: UUID.generate() }
        """,
        'test "one"\n  given {}\n  expect { id: null }\ntest "two"\n  given {}\n  expect { id: null }',
    )
    with memoranda.open(":memory:", clock=FakeClock()) as memory:
        cases = load(text, memory=memory).test().cases
    ids = [case.failure.diff[0].got for case in cases if case.failure]
    assert len(ids) == 2 and ids[0] != ids[1]


# what the checker says


def test_the_checker_knows_that_a_test_may_expect_a_failure():
    def codes(expect: str, given: str = '{ plant: "fern" }') -> list[str]:
        text = with_tests(GREENHOUSE, f'test "one"\n  given {given}\n  expect {expect}')
        return [one.code for one in memoranda.mashin.check("machine desk\n" + indent(text, "  "))]

    assert codes('{ error: { type: "contract" } }') == []
    assert codes('{ eror: { type: "contract" } }') == ["unknown_output"]
    assert codes('{ error: { type: "contract" }, advice: "Daily." }') == ["unknown_output"]
    assert codes('{ error: { type: "contract" } }', "{}") == []
    assert codes('{ advice: "Daily." }', "{}") == ["missing_input"]


# what is assumed

GARDENER = """\
ensures
  permissions
    allowed to
      llm_call, call "shed"
implements
  ask advise, using: "anthropic:claude-sonnet-4-6"
    with task "How often?"
    returns
      days as integer, min: 1
      tool as text, default: "can"
      why as text
    assuming
      days: 3
      colour: "green"
  wait for rain
    event: "rain"
    schema
      litres as number, is required
      unit as text, default: "l"
  compute done
    { advice: advise, rain: rain }
"""


def test_what_is_assumed_is_as_an_answer_or_an_event_would_be(load: Load, scripted: Any) -> None:
    assumed = {"rain": {"litres": 4, "cloud": 9}}
    tested = load(GARDENER).run(mode="test", assuming=assumed)
    live = load(GARDENER, model=scripted({"days": 3, "why": "", "colour": "green"})).run().deliver(assumed["rain"])
    assert tested.output == {"advice": {"days": 3, "tool": "can", "why": None}, "rain": {"litres": 4, "unit": "l"}}
    assert live.output == {"advice": {**tested.output["advice"], "why": ""}, "rain": tested.output["rain"]}
    assert tested.replay().same and live.replay().same


@pytest.mark.parametrize(
    ("assumed", "step"), [({"advise": {"days": 0}}, "advise"), ({"rain": {"litres": "much"}}, "rain")]
)
def test_what_is_assumed_and_cannot_be_fails_the_test(load: Load, assumed: dict[str, Any], step: str) -> None:
    run = load(GARDENER).run(mode="test", assuming={"rain": {"litres": 4}, **assumed})
    assert run.error is not None
    assert (run.error.type, run.error.step) == ("contract", step)
    assert f"what is assumed of `{step}`" in run.error.message


SHED = """\
accepts
  note as text, is required
implements
  compute seen
    { note: input.note.length, pegs: 3 }
"""


def test_a_machine_that_a_test_calls_is_given_and_gives_what_it_would(load: Load) -> None:
    shed = load(SHED, name="shed")
    text = """\
    ensures
      permissions
        allowed to call "shed"
      guards
        no_personal_data
          on_violation: "redact"
    implements
      ask kept, from: "shed"
        note: "ask kim@example.org"
        returns
          note as integer
          {}
      compute done
        kept
    """
    caller = load(text.format('room as text, default: "back"'), machines=[shed])
    assert caller.run(mode="test").output == caller.run().output == {"note": 14, "room": "back"}
    strict = load(text.format("door as text, is required"), machines=[shed])
    errors = [strict.run(mode=mode).error for mode in ("test", "live")]
    assert [(one.type, one.step) for one in errors if one] == [("contract", "kept")] * 2
