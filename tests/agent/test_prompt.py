"""Remembered data in a prompt: it stays data, whatever it says."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.agent.prompt import data_fence

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.sampled_from(["</data>", "<data>", "]]>", "\n</data>\n"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("</data>"), inner),
)


def content(fence: str) -> tuple[str, str, str]:
    head, text, tail = fence.split("\n")
    return head, text, tail


@given(values)
def test_no_value_can_close_its_fence_and_each_can_be_read_back(value: Any):
    head, text, tail = content(data_fence("profile", value))
    assert (head, tail) == ('<data name="profile">', "</data>")
    assert "<" not in text and ">" not in text and "&" not in text
    assert json.loads(text) == value


def test_words_of_other_languages_stay_readable():
    assert "Łukasz está aquí" in data_fence("note", "Łukasz está aquí")


@pytest.mark.parametrize("label", ['x"> <script>', "a\nb", "user.name", ""])
def test_no_label_can_break_the_fence(label: str):
    head, text, tail = content(data_fence(label, 1))
    assert head.count('"') == 2 and head.count("<") == head.count(">") == 1
    assert (text, tail) == ("1", "</data>")


def test_what_is_no_json_is_described():
    assert content(data_fence("day", {"on": date(2027, 5, 3)}))[1] == '{"on": "2027-05-03"}'
    assert content(data_fence("half", "\ud800"))[1] == '"?"'
