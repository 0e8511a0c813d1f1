"""Any text gives a document and diagnostics with locations inside the text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoranda.lang.diagnostics import render_all
from memoranda.workflow.document import Document
from memoranda.workflow.parser import read_source

EVERYTHING = (Path(__file__).parent / "samples" / "everything.yaml").read_text()
LINES = EVERYTHING.split("\n")
RUNS = 2_000 if os.environ.get("MEMORANDA_DEPTH") == "deep" else 40

depth = settings(max_examples=RUNS, deadline=None, suppress_health_check=[HealthCheck.too_slow])
noise = st.text(st.sampled_from("aA:> \t\n\r|\"'[]{}(),.=/$\\&*!-?#%\u00a0é\x00"), max_size=60)


def judge(text: str) -> bool:
    reading = read_source(text)
    assert isinstance(reading.document, Document)
    for said in reading.diagnostics:
        assert 0 <= said.span.start <= said.span.end
        assert said.span.start <= len(text)
        assert said.message
    render_all(reading.diagnostics, reading.source)
    return not reading.failed


def test_the_judge_reads_a_valid_file_and_finds_a_fault_in_another() -> None:
    assert judge(EVERYTHING)
    assert not judge(EVERYTHING.replace("flow:", "flaw:"))


@depth
@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    judge(data.decode("utf-8", errors="replace"))
    judge(data.decode("latin-1"))


@depth
@given(noise)
def test_any_layout(text: str) -> None:
    judge(text)


@pytest.mark.slow
@depth
@given(st.lists(st.tuples(st.sampled_from(LINES), st.integers(0, 8)), max_size=25))
def test_lines_of_a_valid_file_in_any_order_and_depth(chosen: list[tuple[str, int]]) -> None:
    judge("\n".join(" " * extra + line.lstrip() for line, extra in chosen))


@pytest.mark.slow
@depth
@given(st.integers(0, len(EVERYTHING)), st.integers(0, 40), noise)
def test_mutations_of_a_valid_file(at: int, cut: int, put: str) -> None:
    judge(EVERYTHING[:at] + put + EVERYTHING[at + cut :])


@pytest.mark.slow
@depth
@given(st.data())
def test_lines_that_are_left_out(data: st.DataObject) -> None:
    gone = data.draw(st.sets(st.integers(0, len(LINES) - 1), max_size=12))
    judge("\n".join(line for at, line in enumerate(LINES) if at not in gone))
