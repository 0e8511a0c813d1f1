"""Any text gives a document and diagnostics with locations inside the text; without errors it can be formatted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoranda.mashin.formatter import format_reading
from memoranda.mashin.parser import read

EVERYTHING = (Path(__file__).parent / "samples" / "everything.mashin").read_text()
LINES = EVERYTHING.split("\n")
RUNS = 2_000 if os.environ.get("MEMORANDA_DEPTH") == "deep" else 40

depth = settings(max_examples=RUNS, deadline=None, suppress_health_check=[HealthCheck.too_slow])
noise = st.text(st.sampled_from("aA:> \t\n\r|\"'[]{}(),.=/$\\&\u00a0é\x00"), max_size=60)


def judge(text: str, *, fragment: bool = False) -> bool:
    reading = read(text, fragment=fragment)
    for said in reading.diagnostics:
        assert 0 <= said.span.start <= said.span.end
        assert said.span.start <= len(text)
        assert said.message
    if not reading.failed:
        formatted = format_reading(reading)
        again = read(formatted, fragment=fragment)
        assert not again.failed, formatted
        assert again.document == reading.document
        assert format_reading(again) == formatted
    return not reading.failed


def test_the_judge_formats_a_valid_file() -> None:
    assert judge(EVERYTHING)


@depth
@given(st.binary(max_size=300), st.booleans())
def test_any_bytes(data: bytes, fragment: bool) -> None:
    judge(data.decode("utf-8", errors="replace"), fragment=fragment)
    judge(data.decode("latin-1"), fragment=fragment)


@depth
@given(noise, st.booleans())
def test_any_layout(text: str, fragment: bool) -> None:
    judge(text, fragment=fragment)


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


@pytest.mark.slow
@depth
@given(st.data())
def test_lines_that_are_left_out(data: st.DataObject) -> None:
    gone = data.draw(st.sets(st.integers(0, len(LINES) - 1), max_size=12))
    judge("\n".join(line for at, line in enumerate(LINES) if at not in gone))
