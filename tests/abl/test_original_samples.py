"""The samples of the original documents, where these lie beside the checkout: each parses, checks, loads and runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import pytest

import memoranda
from memoranda.api.memory import Memory
from memoranda.testing import FakeClock

BESIDE = Path(__file__).parents[3] / "shared"
DOCUMENTS = sorted(BESIDE.glob("*/00[01]_*.txt"))
SAMPLES = {
    f"{document.name[:3]}-{number}": sample
    for document in DOCUMENTS
    for number, sample in enumerate(
        re.findall(r"^```[^\n]*\n(.*?)^```", document.read_text(), re.DOTALL | re.M), start=1
    )
}
HEAD = 'AGENT: Sample\nGOAL: "Run"\n'
STEP = "  {name}:\n    REASONING: false\n    ON_INPUT:\n      - ELSE:\n"

pytestmark = pytest.mark.skipif(not SAMPLES, reason="the original documents are not here")
every_sample = pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)


@pytest.fixture
def memory() -> Iterator[Memory]:
    with memoranda.open(":memory:", clock=FakeClock()) as memory:
        yield memory


def completed(sample: str) -> str:
    """Return a sample as a whole agent: with a head, its lines in a step, and the steps that it leads to."""
    document = memoranda.abl.parse(sample, fragment=True)
    if document.body is not None:
        sample = "FLOW:\n  sample:\n    REASONING: false\n" + indent(sample, "    ")
    text = sample if document.name is not None else HEAD + sample
    if "FLOW:\n" not in text:
        text += "FLOW:\n" + STEP.format(name="sample")
    missing = {text[one.span.start : one.span.end] for one in memoranda.abl.check(text) if one.code == "unknown_step"}
    return text + "".join(STEP.format(name=name) for name in sorted(missing))


def called(text: str) -> set[str]:
    return set(re.findall(r"CALL: *(\w+)", text))


def test_there_are_as_many_samples_as_the_documents_show() -> None:
    assert len(SAMPLES) == 24


@every_sample
def test_a_sample_is_a_document_or_a_part_of_one_without_a_fault(sample: str) -> None:
    said = memoranda.abl.check(sample, fragment=True)
    assert [one.message for one in said if one.severity == "error"] == []
    document = memoranda.abl.parse(sample, fragment=True)
    assert any((document.memory, document.flow, document.constraints, document.body))


@every_sample
def test_a_sample_runs_as_an_agent(sample: str, memory: Memory) -> None:
    text = completed(sample)
    tools = {name: lambda a=None, b=None, c=None, d=None: {} for name in called(text)}
    agent = memoranda.abl.load(text, memory=memory, tools=tools)
    session = agent.start(user="ada", project="sample")
    turns = [session.opening]
    for words in ("hello", "2", "Lisbon", "2026-05-01"):
        turns.append(session.say(words))
    turns.append(session.end())
    assert {turn.status for turn in turns if turn} <= {"waiting", "completed"}
    happened = [one for turn in turns if turn for one in turn.trace]
    assert [str(one) for one in happened if one.kind in ("error", "refused", "stopped")] == []
    entry = agent.document.flow.entry if agent.document.flow else None
    assert entry in [one.about for one in happened if one.kind == "entered"]
