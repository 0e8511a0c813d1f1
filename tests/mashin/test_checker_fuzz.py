"""For any text, the checker returns diagnostics with locations inside the text, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoranda.lang.diagnostics import render_all
from memoranda.mashin.checker import check_source

EVERYTHING = (Path(__file__).parent / "samples" / "everything.mashin").read_text()
LINES = EVERYTHING.split("\n")
RUNS = 1_000 if os.environ.get("MEMORANDA_DEPTH") == "deep" else 25

depth = settings(max_examples=RUNS, deadline=None, suppress_health_check=[HealthCheck.too_slow])
noise = st.text(st.sampled_from("aA:> \t\n\r|\"'[]{}(),.=/$\\&?+-3\u00a0é\x00"), max_size=40)


def judge(text: str, *, fragment: bool = False) -> int:
    reading, _, diagnostics = check_source(text, fragment=fragment)
    assert all(0 <= one.span.start <= one.span.end and one.span.start <= len(text) for one in diagnostics)
    render_all(diagnostics, reading.source)
    return sum(one.severity == "error" for one in diagnostics)


def test_the_judge_finds_faults_where_there_are_some_and_only_there() -> None:
    assert judge(EVERYTHING) == 0
    assert judge(EVERYTHING.replace("input.question", "input.qestion")) == EVERYTHING.count("input.question")


@depth
@given(st.binary(max_size=200), st.booleans())
def test_any_bytes(data: bytes, fragment: bool) -> None:
    judge(data.decode("latin-1"), fragment=fragment)


@pytest.mark.slow
@depth
@given(st.lists(st.tuples(st.sampled_from(LINES), st.integers(0, 8)), max_size=25), st.booleans())
def test_lines_of_a_valid_file_in_any_order_and_depth(chosen: list[tuple[str, int]], fragment: bool) -> None:
    judge("\n".join(" " * extra + line.lstrip() for line, extra in chosen), fragment=fragment)


@pytest.mark.slow
@depth
@given(st.integers(0, len(EVERYTHING)), st.integers(0, 40), noise)
def test_mutations_of_a_valid_file(at: int, cut: int, put: str) -> None:
    judge(EVERYTHING[:at] + put + EVERYTHING[at + cut :])
