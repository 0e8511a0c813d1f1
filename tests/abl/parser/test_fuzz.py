"""Any text gives a document, or a SourceError with locations inside the text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoranda.abl.formatter import format_reading
from memoranda.abl.parser import read

HERE = Path(__file__).parent / "samples"
EVERYTHING = (HERE / "everything.abl").read_text()
BAKER = (HERE / "baker.agent.yaml").read_text()
LINES = [
    line
    for name in ("everything.abl", "state.txt", "constraints.txt")
    for line in (HERE / name).read_text().split("\n")
]
RUNS = 2_000 if os.environ.get("MEMORANDA_DEPTH") == "deep" else 40

depth = settings(max_examples=RUNS, deadline=None, suppress_health_check=[HealthCheck.too_slow])
noise = st.text(st.sampled_from("aA:-> \t\n\r|\"'[]{}(),.=#*\\&\u00a0é\x00"), max_size=60)


def judge(text: str, *, name: str = "a.abl", fragment: bool = False) -> None:
    reading = read(text, name=name, fragment=fragment)
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


@depth
@given(st.binary(max_size=300), st.booleans())
def test_any_bytes(data: bytes, fragment: bool) -> None:
    judge(data.decode("utf-8", errors="replace"), fragment=fragment)
    judge(data.decode("latin-1"), fragment=fragment)


@depth
@given(noise, st.booleans(), st.sampled_from(["a.abl", "a.yaml"]))
def test_any_layout(text: str, fragment: bool, name: str) -> None:
    judge(text, name=name, fragment=fragment)


@pytest.mark.slow
@depth
@given(st.lists(st.tuples(st.sampled_from(LINES), st.integers(0, 8)), max_size=25), st.booleans())
def test_lines_of_valid_files_in_any_order_and_depth(chosen: list[tuple[str, int]], fragment: bool) -> None:
    judge("\n".join(" " * extra + line for line, extra in chosen), fragment=fragment)


@pytest.mark.slow
@depth
@given(st.integers(0, len(EVERYTHING)), st.integers(0, 40), noise)
def test_mutations_of_a_valid_file(at: int, cut: int, put: str) -> None:
    judge(EVERYTHING[:at] + put + EVERYTHING[at + cut :])


@depth
@given(st.integers(0, len(BAKER)), st.integers(0, 40), noise)
def test_mutations_of_the_lowercase_dialect(at: int, cut: int, put: str) -> None:
    judge(BAKER[:at] + put + BAKER[at + cut :], name="a.agent.yaml")
