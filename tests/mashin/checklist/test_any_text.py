"""For any text and input, a machine is refused with diagnostics or runs to a typed end; no other exception escapes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memoranda
from memoranda.agent.models import Ask, Reply
from memoranda.api.memory import Memory
from memoranda.errors import MemorandaError, SourceError, UsageError
from memoranda.mashin import Behaviour, Budget, Machine
from memoranda.testing import FakeClock

pytestmark = pytest.mark.slow

TEXTS = [file.read_text() for file in sorted((Path(__file__).parent / "samples").glob("*.mashin"))]
PRICING = (Path(__file__).parent / "samples" / "pricing.mashin").read_text()
WORDS = [
    "null",
    "1",
    "-1",
    '""',
    "[]",
    "{}",
    "1e308 * 10",
    "null.x",
    "input",
    "steps",
    "'\\n'",
    "0..3",
    "now()",
    "x => x",
]
GIVEN = {
    "question": "q",
    "wing": "w",
    "text": "t",
    "address": "a",
    "hours": 2,
    "exhibit": "frame",
    "label": "l",
    "words": "x",
    "ticket": "t1",
}

json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


class Babbling:
    """A model that answers with whatever it was given to say."""

    name = "babbling"

    def __init__(self, said: Any) -> None:
        self._said = said

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        known = {"reply": "said", "plan": "Clean it.", "hours": 2}
        return Reply(value={**known, **self._said} if isinstance(self._said, dict) else known)


@st.composite
def damaged(draw: Any) -> str:
    """Return a sample in which some lines were dropped, doubled, moved, indented or given another value."""
    lines = draw(st.sampled_from(TEXTS)).splitlines()
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        how = draw(st.sampled_from(["drop", "double", "swap", "in", "out", "value", "cut"]))
        line = lines[at]
        if how == "drop" and len(lines) > 2:
            del lines[at]
        elif how == "double":
            lines.insert(at, line)
        elif how == "swap":
            other = draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], line
        elif how == "in":
            lines[at] = "  " + line
        elif how == "out":
            lines[at] = line.removeprefix("  ")
        elif how == "value" and ":" in line:
            lines[at] = line.split(":")[0] + ": " + draw(st.sampled_from(WORDS))
        elif how == "cut":
            lines[at] = line[: draw(st.integers(0, len(line)))]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with memoranda.open(":memory:", clock=FakeClock(), embedder="hashing:64") as memory:
        yield memory


def loaded(text: str, memory: Memory, said: Any = None) -> Machine | None:
    behaviour = Behaviour(sleep=lambda _: None, budget=Budget(steps=200, model_calls=20))
    try:
        return memoranda.mashin.load(
            text,
            memory=memory,
            model=Babbling(said),
            machines=[PRICING],
            settings={"workshop_code": "w"},
            behaviour=behaviour,
        )
    except SourceError as error:
        assert error.diagnostics
        assert all(one.message for one in error.diagnostics)
    except UsageError as error:
        assert "guard" in error.message
    return None


def fitting(machine: Machine) -> dict[str, Any]:
    names = {field.name.text for field in machine.document.accepts or ()}
    return {name: value for name, value in GIVEN.items() if name in names}


@given(text=damaged(), mode=st.sampled_from(["live", "test"]))
def test_a_damaged_machine_is_refused_or_comes_to_a_typed_end(text: str, mode: Any, memory: Memory) -> None:
    machine = loaded(text, memory)
    if machine is None:
        return
    try:
        run = machine.run(fitting(machine), mode=mode)
    except UsageError:
        return
    for number in range(4):
        if run.waiting is None:
            break
        try:
            run = run.approve() if run.waiting.kind == "approval" else run.deliver({"by": f"Ida {number}"})
        except UsageError:
            break
    assert run.status in ("completed", "failed", "waiting")
    assert (run.error is None) == (run.status != "failed")
    assert run.verify().ok, run.verify()
    again = run.replay()
    assert again.same, again.differences


@given(given=st.dictionaries(st.sampled_from(sorted(GIVEN)) | st.text(max_size=4), json, max_size=4), said=json)
def test_any_input_and_any_answer_come_to_a_typed_end(given: dict[str, Any], said: Any, memory: Memory) -> None:
    for text in TEXTS:
        machine = loaded(text, memory, said)
        assert machine is not None
        whole = {**fitting(machine), **given}
        try:
            run = machine.run({name: value for name, value in whole.items() if name in fitting(machine)})
        except MemorandaError as error:
            assert isinstance(error, UsageError)
            continue
        assert run.status in ("completed", "failed", "waiting")
        assert run.verify().ok, run.verify()
        again = run.replay()
        assert again.same, again.differences
