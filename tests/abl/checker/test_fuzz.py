"""For any text, the checker returns diagnostics with locations inside the text, and never raises."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoranda.abl.checker.check import check_source
from memoranda.lang.diagnostics import render_all

HERE = Path(__file__).parent / "samples"
LIBRARY = (HERE / "library.agent.abl").read_text()
FAULTS = (HERE / "faults.agent.abl").read_text()
LINES = [line for line in (LIBRARY + FAULTS).split("\n") if line.strip()]
WORDS = sorted({word for line in LINES for word in line.replace(":", " ").split()})
RUNS = 2_000 if os.environ.get("MEMORANDA_DEPTH") == "deep" else 40

depth = settings(max_examples=RUNS, deadline=None, suppress_health_check=[HealthCheck.too_slow])
noise = st.text(st.sampled_from("aA_:-> \t\n|\"'[]{}(),.=#*<>?\\é\x00"), max_size=40)


def judge(text: str, *, name: str = "a.agent.abl", fragment: bool = False) -> None:
    reading, programs, diagnostics = check_source(text, name=name, fragment=fragment)
    for one in diagnostics:
        assert 0 <= one.span.start <= one.span.end
        assert one.span.start <= len(text)
        assert one.message
        assert one.source == name
    assert render_all(diagnostics, reading.source).count("[") >= len(diagnostics)
    again = check_source(text, name=name, fragment=fragment)
    assert again[2] == diagnostics
    assert programs is not again[1]


@depth
@given(st.text(max_size=200), st.booleans(), st.sampled_from(["a.abl", "a.agent.yaml"]))
def test_any_text(text: str, fragment: bool, name: str) -> None:
    judge(text, name=name, fragment=fragment)


@pytest.mark.slow
@depth
@given(st.integers(0, len(LIBRARY)), st.integers(0, 40), noise)
def test_mutations_of_a_good_file(at: int, cut: int, put: str) -> None:
    judge(LIBRARY[:at] + put + LIBRARY[at + cut :])


@pytest.mark.slow
@depth
@given(st.integers(0, len(LINES) - 1), st.sampled_from(WORDS), st.sampled_from(WORDS))
def test_a_good_file_with_words_exchanged(line: int, old: str, new: str) -> None:
    judge(LIBRARY.replace(LINES[line], LINES[line].replace(old, new), 1))


@pytest.mark.slow
@depth
@given(st.lists(st.tuples(st.sampled_from(LINES), st.integers(0, 8)), max_size=30), st.booleans())
def test_lines_of_valid_files_in_any_order_and_depth(chosen: list[tuple[str, int]], fragment: bool) -> None:
    judge("AGENT: A\nGOAL: g\n" + "\n".join(" " * extra + line for line, extra in chosen), fragment=fragment)


@depth
@given(st.lists(st.integers(0, len(LINES) - 1), max_size=6, unique=True))
def test_a_good_file_without_some_lines(gone: list[int]) -> None:
    text = LIBRARY
    for index in gone:
        text = text.replace(f"{LINES[index]}\n", "", 1)
    judge(text)


@depth
@given(noise)
def test_any_type_of_a_signature(written: str) -> None:
    judge(f"TOOLS:\n  ring(bell: {' '.join(written.split())}) -> {{a: {' '.join(written.split())}}}\n", fragment=True)
