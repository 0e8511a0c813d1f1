"""For any text, the checker returns diagnostics with locations inside the text, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoranda.lang.diagnostics import render_all
from memoranda.workflow.checker.check import check_source

EVERYTHING = (Path(__file__).parents[1] / "parser" / "samples" / "everything.yaml").read_text()
LINES = EVERYTHING.split("\n")
EXPRESSIONS = [line for line in LINES if "=" in line]
RUNS = 1_000 if os.environ.get("MEMORANDA_DEPTH") == "deep" else 25

depth = settings(max_examples=RUNS, deadline=None, suppress_health_check=[HealthCheck.too_slow])
noise = st.text(st.sampled_from("aA:> \t\n\r|\"'[]{}(),.=/$\\&*!-?#%^~+3@\u00a0é\x00"), max_size=40)


def judge(text: str) -> int:
    reading, _, diagnostics = check_source(text)
    assert all(0 <= one.span.start <= one.span.end and one.span.start <= len(text) for one in diagnostics)
    render_all(diagnostics, reading.source)
    return sum(one.severity == "error" for one in diagnostics)


def test_the_judge_finds_faults_where_there_are_some_and_only_there() -> None:
    assert judge(EVERYTHING) == 0
    assert judge(EVERYTHING.replace("$input.", "$inptu.")) == EVERYTHING.count("$input.")


@depth
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    judge(data.decode("latin-1"))


@depth
@given(noise)
def test_any_expression(text: str) -> None:
    one_line = text.replace("\n", " ").replace("\r", " ").replace("'", "''").replace("\x00", "")
    judge(f"defs:\n  a: {{kind: task, action: set_context, inputs: {{values: '={one_line}'}}}}\nflow: [{{do: a}}]\n")


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
def test_words_of_a_valid_file_that_change_their_places(data: st.DataObject) -> None:
    words = EVERYTHING.split(" ")
    for _ in range(data.draw(st.integers(1, 4))):
        here, there = (data.draw(st.integers(0, len(words) - 1)) for _ in range(2))
        words[here], words[there] = words[there], words[here]
    judge(" ".join(words))
