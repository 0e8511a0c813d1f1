"""Keys of facts: segments joined by dots."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.errors import InvalidKey
from memoranda.model.names import LONGEST_KEY, check_key, keys_below, lies_under

keys = st.text(st.sampled_from("ab.-/0%_é"), min_size=1, max_size=8).filter(lambda key: "" not in key.split("."))


@pytest.mark.parametrize("key", ["a", "a.b", "profile.language", "a b", "é", "日本", "%", "x" * LONGEST_KEY])
def test_a_good_key_is_returned(key: str) -> None:
    assert check_key(key) == key


@pytest.mark.parametrize("key", ["", ".", "a.", ".a", "a..b", "x" * (LONGEST_KEY + 1), " a", "a\u200b", None, 5])
def test_a_bad_key_is_refused(key: object) -> None:
    with pytest.raises(InvalidKey) as caught:
        check_key(key)  # type: ignore[arg-type]
    assert caught.value.value is key


def test_lies_under_goes_by_segments() -> None:
    assert lies_under("profile", "profile")
    assert lies_under("profile.a", "profile")
    assert lies_under("anything", "")
    for other in ("profiler", "profil", "profile-a", "Profile"):
        assert not lies_under(other, "profile")


@given(keys, keys)
def test_lies_under_agrees_with_segments(key: str, prefix: str) -> None:
    segments = prefix.split(".")
    assert lies_under(key, prefix) == (key.split(".")[: len(segments)] == segments)


@given(keys, keys)
def test_the_range_below_a_key_holds_what_lies_under_it(key: str, prefix: str) -> None:
    low, high = keys_below(prefix)
    assert (low <= key < high) == (lies_under(key, prefix) and key != prefix)
    encoded = (low.encode(), key.encode(), high.encode())
    assert (encoded[0] <= encoded[1] < encoded[2]) == (low <= key < high)  # as a database compares bytes
