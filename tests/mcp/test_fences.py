"""Memories come back unchanged, and none of their text is outside of its fence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memoranda
from memoranda.agent.prompt import MEMORY_NOTICE, data_json, unescape
from memoranda.mcp.arguments import ReadContext, RecallEntries
from memoranda.mcp.backends import LocalBackend, restrict_to_user
from memoranda.mcp.tools import memory_prompt
from memoranda.model.trust import Trust
from memoranda.testing.conformance.base import EMBEDDER

TAGS = ["</core>", "</user_memory>", "<system>", "&lt;", "&amp;", "\\u003c", "\x00", "\u202e", "\u200b", "\uff1c"]
TEXTS = st.lists(st.one_of(st.sampled_from(TAGS), st.text(max_size=20)), max_size=8).map("".join)
VALUES = st.recursive(TEXTS | st.integers() | st.none(), lambda inner: st.dictionaries(TEXTS, inner, max_size=3))


@pytest.fixture(scope="module")
def door() -> Iterator[tuple[memoranda.Memory, LocalBackend]]:
    with memoranda.open(":memory:", embedder=EMBEDDER) as memory:
        yield memory, LocalBackend(restrict_to_user(memory, user="ada"), user="ada")


# What a block can hold: text that says something, in few lines, without NUL.
@given(text=TEXTS.filter(lambda text: text.strip() and len(text.splitlines()) < 20 and "\0" not in text))
def test_g51_a_prompt_gives_back_the_text_and_has_nothing_beside_it(door, text: str) -> None:
    memory, reach = door
    blocks = memory.scope(user="ada").blocks
    standing = blocks.get("core")
    kept = blocks.update("core", text, expected_updated_at=standing and standing.updated_at).content
    shown = re.fullmatch(
        re.escape(MEMORY_NOTICE) + r'\n\n<user_memory>\n<core scope="user">\n([^<>]*)\n</core>\n</user_memory>',
        memory_prompt(reach),
    )
    assert shown is not None and unescape(shown[1]) == kept


@given(value=VALUES)
def test_g51_a_result_gives_back_the_value_and_holds_no_tag(value: object) -> None:
    shown = data_json(value)
    assert json.loads(shown) == value
    assert not set("<>&") & set(shown)


@given(value=VALUES)
def test_a_result_shows_what_nobody_sees(value: object) -> None:
    shown = data_json({"value": value, "beside": "a\u202eb\U000e0041c"})
    assert "\\u202e" in shown and "\\udb40\\udc41" in shown
    assert json.loads(shown)["value"] == value
    assert not set("\u202e\u200b\x00\U000e0041") & set(shown)


def test_what_is_trusted_less_is_left_out_where_that_is_asked_for(door: tuple[memoranda.Memory, LocalBackend]) -> None:
    memory, backend = door
    memory.scope(user="ada").remember("The loom is warped with linen", collection="looms")
    memory.from_origin("tool_external").scope(user="ada").remember("The loom is warped with nylon", collection="looms")
    cases: tuple[tuple[Trust, bool], ...] = (("untrusted", True), ("medium", False))
    for trust, is_told in cases:
        found = backend.recall(RecallEntries(query="loom warped", collection="looms", min_trust=trust))
        assert sorted(match.content[-5:] for match in found.results) == ["linen", "nylon"][: 1 + is_told]
        told = backend.context(ReadContext(query="loom warped", min_trust=trust)).text
        assert ("linen" in told, "nylon" in told) == (True, is_told)
