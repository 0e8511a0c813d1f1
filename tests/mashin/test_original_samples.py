"""The samples of the original document, where it lies beside the checkout: each is indented, checked, and runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda.api.memory import Memory
from memoranda.mashin import Machine
from memoranda.mashin.formatter import format_text
from memoranda.testing import FakeClock

Load = Callable[..., Machine]

BESIDE = Path(__file__).parents[3] / "shared"
TEXT = "".join(document.read_text() for document in sorted(BESIDE.glob("*/003_*.txt")))
SAMPLES = {
    found[1]: found[0] for found in re.findall(r"^((?:machine|remember|recall) (\w+)\n(?:\S.*\n?)+)", TEXT, re.M)
}
MACHINES = [name for name, text in SAMPLES.items() if text.startswith("machine")]
STEPS = [name for name in SAMPLES if name not in MACHINES]

pytestmark = pytest.mark.skipif(not SAMPLES, reason="the original document is not here")


def whole(name: str) -> str:
    """Return a sample, which has lost its indentation, as a machine.

    A step gets a head, with the inputs that it names and memory allowed.
    """
    text = SAMPLES[name]
    if name not in MACHINES:
        inputs = sorted(set(re.findall(r"input\.(\w+)", text)))
        accepts = "accepts\n" + "".join(f"{field} as text, is required\n" for field in inputs) if inputs else ""
        text = f"machine sample\n{accepts}ensures\nallowed to memory\nimplements\n{text}"
    assert [one.code for one in memoranda.mashin.check(text)] == ["no_indentation"]
    return format_text(text)


def inputs_of(name: str, **given: str) -> dict[str, str]:
    """Return an input with a text for each field that a sample names."""
    fields = set(re.findall(r"input\.(\w+)", SAMPLES[name]))
    return {field: given.get(field, f"the {field}") for field in fields}


def collection_of(name: str) -> str:
    return re.findall(r'collection: "(\w+)"', SAMPLES[name])[0]


@pytest.fixture
def memory(clock: FakeClock, table: Any) -> Iterator[Memory]:
    """A memory in which every text is similar, so that no threshold excludes it."""
    with memoranda.open(":memory:", clock=clock, embedder=table({})) as memory:
        yield memory


every_sample = pytest.mark.parametrize("name", SAMPLES)


def test_there_are_as_many_samples_as_the_document_shows() -> None:
    assert (len(MACHINES), len(STEPS)) == (2, 3)


@every_sample
def test_a_sample_has_no_fault_and_is_written_back_as_it_is(name: str) -> None:
    text = whole(name)
    assert [one.message for one in memoranda.mashin.check(text) if one.severity in ("error", "warning")] == []
    written = format_text(text)
    assert format_text(written) == written
    assert re.sub(r"\s+", "", written) == re.sub(r"\s+", "", text)


@every_sample
def test_a_sample_runs_in_test_mode_and_reaches_nothing(name: str, memory: Memory, load: Load) -> None:
    run = load(whole(name)).run(inputs_of(name), mode="test").check()
    assert run.status == "completed"
    assert memory.collections.list() == []
    assert run.verify().ok
    assert run.replay().same, run.replay().differences


def test_the_step_that_stores_keeps_content_and_metadata(memory: Memory, load: Load) -> None:
    [name] = [name for name in STEPS if SAMPLES[name].startswith("remember")]
    given = inputs_of(name)
    load(whole(name)).run(given).check()
    [entry] = memory.scope().entries(collection=collection_of(name))
    assert entry.content in given.values()
    keys = re.findall(r"^(\w+): (?:input\.\w+|now\(\)),?$", SAMPLES[name].split("metadata")[1], re.M)
    assert sorted(entry.metadata) == sorted(keys)
    assert len([value for value in entry.metadata.values() if value in given.values()]) == 2


@pytest.mark.parametrize("name", [name for name in STEPS if SAMPLES[name].startswith("recall")])
def test_a_step_that_recalls_finds_what_matches(memory: Memory, load: Load, name: str) -> None:
    machine = load(whole(name))
    given = inputs_of(name)
    assert machine.run(given).check().output == {"results": [], "count": 0}
    pairs = dict(re.findall(r'(\w+): "(\w+)"', "".join(re.findall(r"filter: \{(.*)\}", SAMPLES[name]))))
    limit = int(re.findall(r"limit: (\d+)", SAMPLES[name])[0])
    for number in range(limit + 2):
        memory.scope().remember(f"number {number}", collection=collection_of(name), metadata=pairs)
    for pair in pairs:
        memory.scope().remember(f"only {pair}", collection=collection_of(name), metadata={pair: pairs[pair]})
    output = machine.run(given).check().output
    assert output["count"] == limit
    assert all(one["content"].startswith("number") for one in output["results"])


@pytest.fixture
def model(scripted: Any) -> Any:
    return scripted({"answer": "said", "reply": "said"}, again=True)


def test_the_machine_that_answers_recalls_builds_and_asks(memory: Memory, load: Load, model: Any) -> None:
    [name] = [name for name in MACHINES if "responds with" in SAMPLES[name]]
    machine = load(whole(name), model=model)
    first = machine.run(inputs_of(name)).check()
    assert [value for value in first.output.values() if value == []] == [[]]
    key = re.findall(r"metadata\.(\w+)", SAMPLES[name])[0]
    memory.scope().remember("A first text", collection=collection_of(name), metadata={key: "u1"})
    memory.scope().remember("A second text", collection=collection_of(name))
    second = machine.run(inputs_of(name)).check()
    assert "said" in second.output.values()
    assert any(sorted(value, key=str) == [None, "u1"] for value in second.output.values() if isinstance(value, list))
    assert "A first text" in model.tasks[1]
    assert "A second text" in model.tasks[1]
    assert "A first text" not in model.tasks[0]
    denied = load(whole(name).replace("llm_call, memory", "llm_call"), model=model).run(inputs_of(name))
    assert denied.error is not None
    assert denied.error.type == "permission_denied"
    assert len(model.asked) == 2


def test_the_machine_that_talks_remembers_each_session_apart(
    memory: Memory, load: Load, model: Any, clock: FakeClock
) -> None:
    [name] = [name for name in MACHINES if "responds with" not in SAMPLES[name]]
    field = re.findall(r"namespace: input\.(\w+)", SAMPLES[name])[0]
    [words] = inputs_of(name).keys() - {field}
    machine = load(whole(name), model=model)

    def say(text: str, session: str) -> str:
        machine.run({words: text, field: session}).check()
        return model.tasks[-1]

    assert "said" not in say("first words", "s1")
    assert "first words" in say("second words", "s1")
    assert "\nAssistant: said" in say("third words", "s1")
    assert "first words" not in say("other words", "s2")
    clock.advance(91 * 86_400)
    assert "first words" not in say("last words", "s1")


@every_sample
def test_a_live_run_of_a_sample_is_on_record_and_can_be_replayed(name: str, load: Load, model: Any) -> None:
    run = load(whole(name), model=model).run(inputs_of(name)).check()
    assert run.verify().ok
    assert run.replay().same, run.replay().differences
    kinds = [event.kind for event in run.events]
    assert (kinds[0], kinds[-1]) == ("exec_start", "exec_end")
