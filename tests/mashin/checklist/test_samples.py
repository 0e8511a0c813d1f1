"""Our own machines, which together use every construct: each is checked, written back, tested, run and replayed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import SchemaViolation
from memoranda.api.memory import Memory
from memoranda.errors import UsageError
from memoranda.mashin import Behaviour, Machine, Run
from memoranda.mashin.formatter import format_text
from memoranda.testing import FakeClock

Load = Callable[..., Machine]

FILES = sorted((Path(__file__).parent / "samples").glob("*.mashin"))
TEXTS = {file.stem: file.read_text() for file in FILES}
INPUTS: dict[str, dict[str, Any]] = {
    "answer_by_wing": {"question": "Which lamps?", "wing": "east"},
    "find_damage": {},
    "find_labels": {"question": "Which lamps?"},
    "guide": {"question": "Which lamps?"},
    "ingest": {"text": "A lamp", "address": "c/1", "wing": "east"},
    "pricing": {"hours": 3},
    "restoration": {"exhibit": "a frame"},
    "store_label": {"label": "A lamp", "link": "m/1", "room": "blue"},
    "visitor_chat": {"words": "hello", "ticket": "t1"},
}
ANSWERS = {"reply": "said", "plan": "Clean it.", "hours": 2}
CONSTRUCTS = {
    "a map on several lines": r"metadata: \{\n",
    "a map on one line": r'filter: \{\w+: "',
    "now": r"now\(\)",
    "an arrow": r"\w+ => ",
    "a text of lines": r'join\("\\n',
    "quotes inside of an interpolation": r"\$\{[^}]*'\\n'[^}]*\}",
    "a step by its path": r"steps\.\w+\.\w+",
    "a step by its bare name": r"\$\{gather\.text\}",
    "let": r"\n\s+let \w+ =",
    "texts that are added": r'"Visitor: " \+ ',
    "a threshold": r"threshold: 0\.7",
    "a namespace from the input": r"namespace: input\.",
    "a ttl": r'ttl: "90d"',
    "a model with a comma": r", using: \"",
    "assuming under an ask": r"assuming\n\s+reply: ",
}

every_sample = pytest.mark.parametrize("name", TEXTS)


@pytest.fixture
def machine(load: Load, scripted: Any) -> Callable[..., Machine]:
    """Return how to load a sample with all that it needs."""

    def make(name: str, **options: Any) -> Machine:
        kit: dict[str, Any] = {
            "model": scripted(ANSWERS, again=True),
            "settings": {"workshop_code": "w7"},
            "machines": [TEXTS["pricing"]] if name == "restoration" else [],
            "behaviour": Behaviour(sleep=lambda _: None),
        }
        return load(TEXTS[name], **{**kit, **options})

    return make


def test_every_sample_has_an_input_here() -> None:
    assert sorted(TEXTS) == sorted(INPUTS)


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_the_samples_use_every_construct(construct: str) -> None:
    assert re.search(CONSTRUCTS[construct], "".join(TEXTS.values())), construct


@every_sample
def test_a_sample_has_nothing_to_be_said_about_and_is_written_back(name: str) -> None:
    said = [one.message for one in memoranda.mashin.check(TEXTS[name]) if one.severity in ("error", "warning")]
    assert said == []
    written = format_text(TEXTS[name])
    assert format_text(written) == written
    assert [one for one in memoranda.mashin.check(written) if one.severity == "error"] == []


@every_sample
def test_a_sample_runs_as_a_test_and_keeps_nothing(machine: Any, memory: Memory, name: str) -> None:
    run = machine(name).run(INPUTS[name], mode="test")
    assert run.check().status == "completed"
    assert memory.collections.list() == []
    assert run.replay().same, run.replay().differences


@every_sample
def test_a_sample_runs_live_and_can_be_verified_and_replayed(machine: Any, name: str) -> None:
    run: Run = machine(name).run(INPUTS[name])
    if run.status == "waiting":
        run = run.approve()
    run.check()
    assert run.verify().ok
    assert run.replay().same, run.replay().differences
    assert run.simulate().changed == ()


@every_sample
def test_the_tests_of_a_sample_pass(machine: Any, memory: Memory, name: str) -> None:
    report = machine(name).test()
    assert [case.failure for case in report.cases if not case.passed] == []
    assert report.passed == TEXTS[name].count('\n    test "')
    assert memory.runs.list() == []


# the large one


def test_the_large_sample_asks_before_it_keeps_and_waits_for_consent(
    machine: Any, memory: Memory, clock: FakeClock, scripted: Any
) -> None:
    model = scripted({"plan": "Gild it.", "hours": 9})
    run = machine("restoration", model=model).run({"exhibit": "an altar", "urgency": 5})
    assert run.waiting is not None
    assert (run.waiting.kind, run.waiting.event) == ("event", "consent.given")
    run = run.deliver({"by": "Ida"})
    assert run.waiting is not None
    assert (run.waiting.kind, run.waiting.capability) == ("approval", "memory.write")
    assert memory.collections.list() == []
    done = run.approve().check()
    assert done.output == {"plan": "Gild it.", "cost": 585, "approved_by": "Ida"}
    [entry] = memory.scope().entries(collection="restorations")
    assert entry.content == "an altar: Gild it."
    assert entry.expires_at is not None
    assert len(model.asked) == 1
    assert (model.asked[0].temperature, model.asked[0].max_tokens) == (0.2, 300)
    assert [one.program for one in memory.runs.list()].count("pricing") == 1
    assert done.verify().ok
    assert done.replay().same, done.replay().differences


def test_the_large_sample_takes_the_other_way_when_nobody_consents(machine: Any, clock: FakeClock) -> None:
    run = machine("restoration").run({"exhibit": "an altar", "urgency": 5})
    assert run.waiting is not None
    assert run.waiting.kind == "event"
    clock.advance(2 * 86_400)
    done = run.resume().approve().check()
    # The flow that was called is replaced by the other one; its caller goes on.
    assert done.steps["careful"]["plan"] == "Put it back on the shelf."
    assert done.output == {"plan": "Clean it.", "cost": 130, "approved_by": "nobody"}


def test_the_large_sample_says_where_it_failed(machine: Any, scripted: Any) -> None:
    wrong = {"plan": "no", "hours": 900}
    run = machine("restoration", model=scripted(wrong, again=True)).run({"exhibit": "a frame"})
    failed = run.steps["sorry"]
    assert failed["plan"] == "Failed at draft: invalid_answer"
    fine = machine("restoration").run({"exhibit": "a frame"})
    assert "sorry" not in fine.approve().check().steps


def test_the_large_sample_keeps_what_is_personal_to_itself(machine: Any, memory: Memory, scripted: Any) -> None:
    model = scripted({"plan": "Write to ida@example.org", "hours": 2})
    done = machine("restoration", model=model).run({"exhibit": "the frame of max@example.org"}).approve().check()
    assert "max@example.org" not in model.tasks[0]
    assert "[redacted]" in model.tasks[0]
    [entry] = memory.scope().entries(collection="restorations")
    assert "@" not in entry.content
    assert done.output["plan"] == "Write to [redacted]"


@pytest.mark.parametrize(
    ("wrong", "about"),
    [
        ({}, "exhibit"),
        ({"exhibit": "x"}, "exhibit"),
        ({"exhibit": "a frame", "urgency": 9}, "urgency"),
        ({"exhibit": "a frame", "urgency": 1.5}, "urgency"),
        ({"exhibit": "a frame", "materials": ["tin"]}, "materials"),
        ({"exhibit": "a frame", "materials": [7]}, "materials"),
        ({"exhibit": "a frame", "found_on": "yesterday"}, "found_on"),
        ({"exhibit": "a frame", "owner": {"name": 7}}, "owner"),
        ({"exhibit": "a frame", "style": "gothic"}, "style"),
        ({"exhibit": "a frame", "exhibitt": 1}, "exhibitt"),
    ],
)
def test_the_large_sample_refuses_input_that_does_not_fit(
    machine: Any, memory: Memory, wrong: dict[str, Any], about: str
) -> None:
    with pytest.raises(SchemaViolation, match=about):
        machine("restoration").run(wrong)
    assert memory.ledger.events() == []
    machine("restoration").run(
        {"exhibit": "a frame", "found_on": "2026-01-02", "materials": ["oil"]}, mode="test"
    ).check()


def test_the_large_sample_needs_its_setting(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORKSHOP_CODE", raising=False)
    with pytest.raises(UsageError, match="workshop_code") as caught:
        machine("restoration", settings={}).run(INPUTS["restoration"])
    assert "WORKSHOP_CODE" in caught.value.hint
    monkeypatch.setenv("WORKSHOP_CODE", "w7")
    assert machine("restoration", settings={}).run(INPUTS["restoration"]).status == "waiting"
