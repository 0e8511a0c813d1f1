"""Parse durations such as `30d` into seconds."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.errors import InvalidDuration
from memoranda.model.clock import LONGEST_DURATION, parse_duration

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1), ("90s", 90), ("15m", 900), ("24h", 86_400), ("30d", 2_592_000), ("2w", 1_209_600)],
)
def test_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


def test_whole_seconds_and_timedeltas() -> None:
    assert parse_duration(7) == 7
    assert parse_duration(timedelta(hours=1, seconds=1)) == 3_601


@given(st.integers(1, LONGEST_DURATION), st.sampled_from(sorted(UNITS)))
def test_every_positive_number_up_to_a_century(number: int, unit: str) -> None:
    if number * UNITS[unit] <= LONGEST_DURATION:
        assert parse_duration(f"{number}{unit}") == number * UNITS[unit]
    else:
        with pytest.raises(InvalidDuration):
            parse_duration(f"{number}{unit}")


def test_a_century_is_the_longest() -> None:
    assert parse_duration(LONGEST_DURATION) == LONGEST_DURATION
    assert parse_duration("36600d") == LONGEST_DURATION
    for longer in (LONGEST_DURATION + 1, "36601d", timedelta(seconds=LONGEST_DURATION + 1)):
        with pytest.raises(InvalidDuration) as caught:
            parse_duration(longer)
        assert caught.value.value == longer


@given(st.text(max_size=30))
def test_any_other_text_is_refused_and_nothing_else_is_raised(text: str) -> None:
    number, unit = text[:-1], text[-1:]
    if number.isascii() and number.isdigit() and number[0] != "0" and unit in UNITS and len(number) < 8:
        assert parse_duration(text) > 0
    else:
        with pytest.raises(InvalidDuration):
            parse_duration(text)
