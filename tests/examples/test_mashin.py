"""The example machines pass their own tests, and every command of their page runs as written.

The page is one session of a shell, in a copy of the folder: what a command exports the next one sees. Models are asked
over the loopback, in the wire formats of their providers; without the key that the page exports, none is.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import anthropic_server
import openai_server
import pytest
from shell import Shell

import memoranda
from memoranda.lang.document import SourceNode
from memoranda.mashin.formatter import format_text
from memoranda.mashin.keywords import LEVELS
from memoranda.testing import FakeClock

ROOT = Path(__file__).parents[2]
MACHINES = ROOT / "examples" / "mashin"
FILES = sorted(MACHINES.glob("*.mashin"))
PAGE = MACHINES / "README.md"
DAY = 24 * 3600


def _load(path: Path, name: str) -> ModuleType:
    """Import a file of other tests under this name, because the tests are not a package."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


DOCS = _load(ROOT / "tests/docs/test_docs.py", "memoranda_test_docs")


# the files


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_there_is_nothing_to_say_about_a_file_and_its_tests_pass(path: Path) -> None:
    with memoranda.open(":memory:") as memory:
        machine = memoranda.mashin.load(path, memory=memory)
        report = machine.test()
        assert memory.runs.list() == []
    assert machine.diagnostics == ()
    assert report.cases
    assert [(case.name, case.failure) for case in report.cases if not case.passed] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_is_in_canonical_layout(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert format_text(text, name=path.name) == text


def test_a_file_that_breaks_its_promise_fails_its_test() -> None:
    text = (MACHINES / "ingest.mashin").read_text(encoding="utf-8")
    broken = text.replace("stored: keep_page.stored", "stored: true")
    assert broken != text
    with memoranda.open(":memory:") as memory:
        assert memoranda.mashin.load(text, memory=memory).test().failed == 0
        assert memoranda.mashin.load(broken, memory=memory).test().failed == 1


def parts(value: object) -> Iterator[SourceNode]:
    """Give every part of a document, however deep."""
    if isinstance(value, SourceNode):
        yield value
        for name in value.__struct_fields__:
            yield from parts(getattr(value, name))
    elif isinstance(value, tuple):
        for item in cast("tuple[object, ...]", value):
            yield from parts(item)


def test_together_the_machines_use_every_kind_of_step_and_all_configuration_of_memory() -> None:
    found = [part for path in FILES for part in parts(memoranda.mashin.parse(path))]
    kinds = {type(part).__name__ for part in found}
    assert {"Compute", "Ask", "Decide", "Remember", "Recall", "WaitFor", "Retry", "RunFlow", "Flow"} <= kinds
    assert {"Guard", "Permission", "Test", "Assumption"} <= kinds
    for kind, level in (("Remember", "remember"), ("Recall", "recall")):
        used = {one.key.text for part in found if type(part).__name__ == kind for one in part.config}  # type: ignore[attr-defined]
        assert used == {word.name for word in LEVELS[level].keywords}
    flows = [part for part in found if type(part).__name__ == "RunFlow"]
    assert {part.jump for part in flows} == {True, False}  # type: ignore[attr-defined]
    levels = {part.verdict for part in found if type(part).__name__ == "Permission"}  # type: ignore[attr-defined]
    assert levels == {"allow", "deny", "approve"}


# the exercise, by hand

PAGES = {
    "https://workshop.example/squeal": ("brakes", "A disc brake squeals when there is oil on the disc."),
    "https://workshop.example/truing": ("wheels", "A rim brake squeals when the wheel is out of true."),
}


class Mechanic:
    """A model that says how often it was asked, and remembers what."""

    name = "mechanic"

    def __init__(self) -> None:
        self.tasks: list[str] = []

    def reply(self, ask: Any, *, timeout: float = 30.0) -> Any:
        from memoranda.agent.models import Reply

        self.tasks.append(ask.messages[-1].text)
        return Reply(value={"reply": f"answer {len(self.tasks)}", "words": f"answer {len(self.tasks)}"})


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memory(clock: FakeClock) -> Iterator[memoranda.Memory]:
    with memoranda.open(":memory:", clock=clock) as opened:
        yield opened


def test_an_answer_reads_the_pages_of_its_category_and_no_other(memory: memoranda.Memory) -> None:
    ingest = memoranda.mashin.load(MACHINES / "ingest.mashin", memory=memory)
    for url, (category, text) in PAGES.items():
        assert ingest.run({"document": text, "url": url, "category": category}).check().output["stored"]
    mechanic = Mechanic()
    answer = memoranda.mashin.load(MACHINES / "answer.mashin", memory=memory, model=mechanic)
    for url, (category, text) in PAGES.items():
        run = answer.run({"question": "Why does my brake squeal?", "category": category}).check()
        assert (run.output["sources"], run.output["pages"]) == ([url], 1)
        assert text in mechanic.tasks[-1]
        assert run.verify().ok and run.replay().same
    assert answer.run({"question": "Why does it squeal?", "category": "gears"}).check().output["sources"] == []
    assert len(mechanic.tasks) == 3


def test_a_page_that_is_too_long_for_one_entry_is_stored_in_parts(memory: memoranda.Memory) -> None:
    ingest = memoranda.mashin.load(MACHINES / "ingest.mashin", memory=memory)
    page = {"url": "https://workshop.example/manual", "category": "brakes"}
    assert ingest.run({**page, "document": "Clean the disc. " * 5_000}).check().output["stored"]
    parts_of_it = memory.scope().entries(collection="handbook", limit=200)
    assert len(parts_of_it) > 50 and {part.metadata["source"] for part in parts_of_it} == {page["url"]}


def test_neither_half_of_the_exercise_can_do_what_the_other_does(memory: memoranda.Memory) -> None:
    for name, lacks in (("ingest", {"memory.read", "llm_call"}), ("answer", {"memory.write"})):
        machine = memoranda.mashin.load(MACHINES / f"{name}.mashin", memory=memory)
        allowed = set(machine.plan.permissions.capabilities)
        assert allowed and not allowed & lacks


def test_a_page_of_an_unknown_category_is_refused_and_leaves_no_trace(memory: memoranda.Memory) -> None:
    ingest = memoranda.mashin.load(MACHINES / "ingest.mashin", memory=memory)
    given = {"document": "Saddles are a matter of taste.", "url": "https://workshop.example/saddles"}
    with pytest.raises(memoranda.SchemaViolation):
        ingest.run({**given, "category": "saddles"})
    assert memory.runs.list() == []
    ingest.run({**given, "category": "wheels"}).check()
    assert len(memory.runs.list()) == 1


def test_a_conversation_is_known_to_one_customer_until_the_season_is_over(
    memory: memoranda.Memory, clock: FakeClock
) -> None:
    mechanic = Mechanic()
    counter = memoranda.mashin.load(MACHINES / "counter.mashin", memory=memory, model=mechanic)
    counter.run({"customer": "kim", "says": "My chain skips on hills."}).check()
    counter.run({"customer": "kim", "says": "The chain still skips."}).check()
    assert "Customer: My chain skips on hills.\nCounter: answer 1" in mechanic.tasks[-1]
    counter.run({"customer": "lee", "says": "The chain still skips."}).check()
    assert "on hills" not in mechanic.tasks[-1]
    clock.advance(121 * DAY)
    counter.run({"customer": "kim", "says": "The chain still skips."}).check()
    assert "on hills" not in mechanic.tasks[-1]


def test_an_order_that_does_not_come_is_chased(memory: memoranda.Memory, clock: FakeClock) -> None:
    order = memoranda.mashin.load(MACHINES / "parts_order.mashin", memory=memory)
    run = order.run({"part": "freewheel", "customer": "kim"})
    assert (run.status, run.resume().status) == ("waiting", "waiting")
    clock.advance(15 * DAY)
    late = memoranda.mashin.resume(memory, run.id)
    assert late.output == {"status": "overdue", "shelf": "none"}
    notes = memory.scope().entries(collection="orders", namespace="kim")
    assert [note.content for note in notes] == [
        "freewheel was ordered for kim",
        "freewheel for kim did not come; ask the supplier",
    ]


# the page


_KNOWN = {
    "reply": "Clean the disc with alcohol.",
    "words": "Come by on Thursday.",
    "cause": "A worn chain",
    "sure": 0.9,
}
"""What the models say, by the field they are asked for."""


def _told(wire: ModuleType) -> Any:
    """Return an answer that calls the tool for the answer with the fields it wants."""

    def answer(asked: Any) -> Any:
        wanted = json.dumps(asked.body["tools"])
        return wire.calls(("give_answer", {name: value for name, value in _KNOWN.items() if f'"{name}"' in wanted}))(
            asked
        )

    return answer


def run_page(page: Path, folder: Path, **variables: str) -> None:
    """Run all commands of a page in one shell; what they print is what the page shows."""
    found = [block for block in DOCS.blocks(page.read_text(encoding="utf-8")) if block.mark == "console"]
    assert found
    with Shell(folder, warmth="models", COLUMNS="160", **variables) as shell:
        wrong = [
            f"{page.name}:{step.line}: $ {step.command}\n{fault}"
            for block in found
            for step in DOCS.steps(block)
            if (fault := DOCS.run_step(step, shell))
        ]
    assert not wrong, "\n\n".join(wrong)


def test_every_command_of_the_page_prints_what_the_page_shows(tmp_path: Path) -> None:
    folder = tmp_path / "mashin"
    shutil.copytree(MACHINES, folder)
    with anthropic_server.AnthropicServer() as claude, openai_server.OpenAIServer() as gpt:
        claude.default, gpt.default = _told(anthropic_server), _told(openai_server)
        run_page(PAGE, folder, ANTHROPIC_BASE_URL=claude.url, OPENAI_BASE_URL=gpt.url)
        tasks = [json.dumps(asked.body) for asked in claude.asked]
        others = [json.dumps(asked.body) for asked in gpt.asked]
    # What the models were asked once there was a key: pages of the category, and what the customer said before.
    brakes, first, second, wheels = tasks
    assert "oil on the disc" in brakes and "out of true" not in brakes
    assert "out of true" in wheels and "oil on the disc" not in wheels
    assert "on hills" in first and "Counter: " not in first
    assert "My chain skips on hills." in second and "Counter: Come by on Thursday." in second
    assert len(others) == 1 and "out of true" in others[0] and "oil on the disc" not in others[0]
    assert not (MACHINES / "workshop.db").exists()


def test_the_page_names_every_machine() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert FILES
    assert [path.name for path in FILES if f"`{path.name}`" not in text] == []
