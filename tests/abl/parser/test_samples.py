"""Parse every construct of the two original documents: in our own samples and, if available, in the originals."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from memoranda.abl.document import Call, Clear, Document, Gather, Respond, Set, Step, Transform
from memoranda.abl.formatter import format_text
from memoranda.abl.parser import parse_fragment, read

HERE = Path(__file__).parent
ORIGINALS = HERE.parents[3] / "shared" / "seeds"


def split_samples(name: str) -> dict[str, str]:
    parts = re.split(r"^=== (.+)\n", (HERE / "samples" / name).read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


STATE = split_samples("state.txt")
CONSTRAINTS = split_samples("constraints.txt")
SAMPLES = {**STATE, **CONSTRAINTS}


def sample(number: str) -> Document:
    return parse_fragment(next(text for title, text in SAMPLES.items() if title.startswith(number)))


def step(number: str) -> Step:
    flow = sample(number).flow
    assert flow is not None
    return flow.steps[0]


def test_there_are_as_many_samples_as_the_seeds_have() -> None:
    assert (len(STATE), len(CONSTRAINTS)) == (24, 24)


@pytest.mark.parametrize("title", SAMPLES)
def test_a_sample_has_no_fault_and_is_already_canonical(title: str) -> None:
    text = SAMPLES[title]
    reading = read(text, fragment=True)
    assert reading.diagnostics == ()
    formatted = format_text(text, fragment=True)
    assert formatted == text
    assert read(formatted, fragment=True).document == reading.document


@pytest.mark.skipif(not ORIGINALS.is_dir(), reason="the original documents are not here")
def test_the_samples_of_the_seed_have_no_fault_and_survive_formatting() -> None:
    page = next(ORIGINALS.glob("001_*.txt")).read_text()
    samples = re.findall(r"^```yaml[^\n]*\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert len(samples) == 24
    for text in samples:
        reading = read(text, fragment=True)
        assert reading.diagnostics == (), text
        assert parse_fragment(format_text(text, fragment=True)) == reading.document


def names(document: Document) -> list[tuple[str, str | None, str | None, str]]:
    assert document.memory is not None
    return [
        (variable.name.text, variable.type, variable.initial.text if variable.initial else None, variable.reset)
        for variable in document.memory.session
    ]


def test_01_02_03_session_variables() -> None:
    one = sample("01")
    assert (one.kind, one.name and one.name.text, one.goal and one.goal.text) == (
        "agent",
        "Bike_Rental",
        "Rent bicycles to visitors",
    )
    assert names(one) == [
        ("chosen_bike", "string", None, "per_session"),
        ("wish", "string", None, "per_session"),
        ("open_changes", "object", None, "per_session"),
        ("deposit", "number", None, "per_session"),
    ]
    assert names(sample("02")) == [("visitor_id", None, None, "per_session"), ("day_total", None, None, "per_session")]
    assert names(sample("03")) == [("basket", "array", "[]", "per_session"), ("tries", "number", "0", "per_step")]


def test_04_a_block_keeps_its_lines_and_then_is_the_end() -> None:
    shown = step("04")
    (respond,) = shown.body
    assert isinstance(respond, Respond)
    assert respond.text.text.splitlines()[3] == "Deposit: ${{deposit}}"
    assert not respond.text.text.endswith("\n")
    (branch,) = shown.then
    assert branch.then is not None
    assert (branch.then.kind, branch.then.name.text) == ("complete", "COMPLETE")
    assert shown.reasoning is False


def test_05_the_failure_of_a_check_is_a_step() -> None:
    (check,) = step("05").body
    (branch,) = check.on_fail  # type: ignore[union-attr]
    assert branch.then is not None
    assert (branch.then.kind, branch.then.name.text) == ("step", "ask_at_the_desk")
    assert check.condition.text == "tries < 3"  # type: ignore[union-attr]


def facts(number: str) -> list[tuple[str, str, str, str | None]]:
    memory = sample(number).memory
    assert memory is not None
    return [
        (fact.path.text, fact.scope, fact.access, fact.default.text if fact.default else None)
        for fact in memory.persistent
    ]


def test_06_07_08_persistent_variables() -> None:
    assert facts("06") == [
        ("user.spoken_language", "user", "readwrite", None),
        ("user.club_level", "user", "readwrite", None),
        ("user.rentals", "user", "readwrite", None),
        ("user.contact_by", "user", "readwrite", '"letter"'),
    ]
    assert facts("07")[1:] == [
        ("user.rides_90d", "user", "readwrite", "[]"),
        ("project.price_list", "project", "read", None),
    ]
    assert [access for _, _, access, _ in facts("08")] == ["readwrite", "read", "write"]


def test_09_lines_of_a_step_alone() -> None:
    body = sample("09").body
    assert body is not None
    first, second = body.body
    assert isinstance(first, Set)
    assert isinstance(second, Respond)
    assert (first.assignments[0].target.text, first.assignments[0].value.text) == (
        "salute",
        'COALESCE(user.name, "dear guest")',
    )
    assert second.text.text.startswith("Good to see you, {{salute}}!")


def test_10_11_remember_triggers() -> None:
    memory = sample("10").memory
    assert memory is not None
    assert [
        (one.when.text, one.value.text, one.target.text, one.ttl.text if one.ttl else None) for one in memory.remember
    ] == [
        ("rider_name IS SET", "rider_name", "user.name", "90d"),
        ("spoken IS SET", "spoken", "user.tongue", None),
    ]
    memory = sample("11").memory
    assert memory is not None
    assert memory.remember[0].value.text == "{bike: chosen_bike, kind: wish, at: now}"
    assert memory.remember[0].target.text == "user.rentals"


def test_12_13_14_15_recall() -> None:
    memory = sample("12").memory
    assert memory is not None
    assert [(one.on.text, one.action) for one in memory.recall] == [
        ("session:start", "inject_context"),
        ("session:start", "prompt_llm"),
    ]
    assert [path.text for path in memory.recall[0].paths] == ["user.name", "user.tongue", "user.favourite_desk"]
    memory = sample("13").memory
    assert memory is not None
    assert memory.recall[0].domain is not None
    assert (memory.recall[0].on.text, memory.recall[0].domain.text) == ("search:before", "riding_habits")
    memory = sample("14").memory
    assert memory is not None
    assert memory.recall[0].instruction is not None
    assert len(memory.recall[0].instruction.text.splitlines()) == 3
    memory = sample("15").memory
    assert memory is not None
    assert memory.recall[1].on.text == "tool:find_rentals:after"
    assert len(memory.remember) == len(memory.persistent) == len(memory.session) == 2


def test_16_17_18_assignments_and_calls() -> None:
    first = step("16").body[0]
    assert isinstance(first, Set)
    assert [one.target.text for one in first.assignments] == ["rent", "tax", "total"]
    call = step("17").body[0]
    assert isinstance(call, Call)
    assert (call.tool.text, [one.text for one in call.positional]) == (
        "find_bikes",
        ["town", "first_day", "last_day", "riders"],
    )
    (after,) = call.on_success
    assert isinstance(after.body[0], Set)
    assert after.body[0].assignments[1].value.text == "call_result.bikes[0].rate"
    assert after.then is not None
    assert after.then.name.text == "choose"
    body = sample("18").body
    assert body is not None
    dotted = body.body[0]
    assert isinstance(dotted, Set)
    assert [one.target.text for one in dotted.assignments] == ["rental.rider", "rental.from", "rental.total"]


def test_19_20_21_input_clear_and_gather() -> None:
    number, otherwise = step("19").on_input
    assert number.condition is not None
    assert number.condition.text.startswith("abl.is_number(input) AND")
    assert (otherwise.condition, otherwise.then) == (None, None)
    clear = step("20").body[0]
    assert isinstance(clear, Clear)
    assert [name.text for name in clear.names] == ["town", "first_day", "last_day", "bikes"]
    trip = step("21")
    gather = trip.body[0]
    assert isinstance(gather, Gather)
    assert [(field.name.text, field.required) for field in gather.fields] == [
        ("town", True),
        ("first_day", True),
        ("last_day", True),
    ]
    assert [one.intent.text for one in trip.sub_intents] == ["another town", "other days"]
    assert all(one.resume for one in trip.sub_intents)
    assert trip.complete_when is not None
    assert trip.complete_when.text == "town AND first_day AND last_day"


def test_22_23_24_transforms() -> None:
    whole = step("22").body[0]
    assert isinstance(whole, Transform)
    assert (whole.source.text, whole.item.text, whole.into.text) == ("found", "bike", "cheap_bikes")
    assert whole.filter is not None
    assert whole.sort_by is not None
    assert whole.limit is not None
    assert (whole.filter.text, whole.sort_by.text, whole.descending, whole.limit.text) == (
        "bike.rate <= purse",
        "rate",
        False,
        "5",
    )
    assert [one.name.text for one in whole.map] == ["model", "rate", "gears"]
    for number, mapped in (("23", 0), ("24", 3)):
        body = sample(number).body
        assert body is not None
        one = body.body[0]
        assert isinstance(one, Transform)
        assert (len(one.map), one.filter is None) == (mapped, mapped > 0)


def rule(number: str) -> Any:
    return sample(number).constraints[0].rules[0]


def test_c09_c14_rules_below_labels() -> None:
    phases = sample("C09").constraints
    assert [(phase.label.text if phase.label else None, len(phase.rules)) for phase in phases] == [
        ("always", 1),
        ("before_payment", 2),
    ]
    assert (rule("C12").keyword, rule("C12").condition.text) == ("LIMIT", "sent_today + amount <= day_limit")
    assert (rule("C13").keyword, rule("C13").condition.text) == ("RESTRICT", 'land IN ["XX", "YY"]')
    assert rule("C14").when.text == 'channel == "voice"'
    assert rule("C12").when is None


def test_c15_c16_checkpoints_are_no_part_of_the_condition() -> None:
    calling, returning = rule("C15"), rule("C16")
    assert (calling.condition.text, calling.before.kind, calling.before.target.text) == (
        "town IS SET",
        "calling",
        "find_rooms",
    )
    assert (returning.condition.text, returning.before.kind) == ("reviewed == true", "returning")
    assert rule("C14").before is None
    twice = parse_fragment("- REQUIRE before IS SET BEFORE calling f\n").constraints[0].rules[0]
    assert twice.before is not None
    assert (twice.condition.text, twice.before.target.text) == ("before IS SET", "f")


def test_c17_to_c23_what_a_failure_does() -> None:
    assert [rule(number).on_fail.form for number in ("C17", "C18", "C19", "C20", "C21")] == [
        "respond",
        "handoff",
        "escalate",
        "block",
        "structured",
    ]
    assert rule("C17").on_fail.respond.text == "Only for adults."
    assert rule("C18").on_fail.handoff.text == "Inspection"
    quoted = parse_fragment('- REQUIRE a\n  ON_FAIL: "Escalate it."\n').constraints[0].rules[0].on_fail
    assert quoted is not None
    assert (quoted.form, quoted.respond and quoted.respond.text) == ("respond", "Escalate it.")
    collected = rule("C22").on_fail
    assert ([name.text for name in collected.collect], collected.then) == (["first_day", "last_day"], "retry")
    gone = rule("C23").on_fail
    assert (gone.goto.text, gone.retry, gone.then) == ("prove_identity", True, None)


def test_c24_a_warning_does_not_stop() -> None:
    warning, limit = sample("C24").constraints[0].rules
    assert (warning.keyword, warning.severity) == ("WARN", "warning")
    assert (limit.keyword, limit.severity, limit.condition.text) == ("LIMIT", "error", "(spent + amount) <= ceiling")
