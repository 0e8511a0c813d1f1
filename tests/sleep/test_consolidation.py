"""Lessons become lines: within the limits, beside what others wrote, and never twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.model.block import ARCHIVAL_CHARACTERS, CORE_CHARACTERS, CORE_ENTRIES, BlockType, check_content, lines_of
from memoranda.model.fact import Origin, Revision
from memoranda.model.scope import Scope
from memoranda.sleep.consolidation import (
    LearnedLine,
    Merge,
    ScopeBlocks,
    Source,
    merge,
    removed_lines,
    revert,
    without,
)
from memoranda.sleep.extraction import Learned, Lesson, canonical, digest

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOMENTS = {seq: NOON + timedelta(minutes=seq) for seq in range(1, 10)}


def lesson(text: str, **more: Any) -> Lesson:
    return Lesson(text=text, **{"seqs": (1,), **more})


def learn(shelves: dict[Any, ScopeBlocks], *lessons: Lesson, conversation: str = "c1") -> Merge:
    return merge(shelves, Learned(lessons=lessons), conversation=conversation, moments=MOMENTS)


def user(core: str = "", archival: str = "", **more: Any) -> dict[Any, ScopeBlocks]:
    texts: dict[Any, str] = {"core": core, "archival": archival}
    return {"user": ScopeBlocks(texts={block: text for block, text in texts.items() if text}, **more)}


def after(shelves: dict[Any, ScopeBlocks], merged: Merge) -> dict[Any, ScopeBlocks]:
    """Return the shelves as they stand once a merge is written."""
    return {
        scope: ScopeBlocks(
            texts={**shelf.texts, **{block: text for (where, block), text in merged.texts.items() if where == scope}},
            book=merged.books.get(scope, shelf.book),
            removed_lines=shelf.removed_lines,
        )
        for scope, shelf in shelves.items()
    }


def whys(merged: Merge) -> list[str]:
    return [one.why for one in merged.left_out]


def test_lines_are_added_below_what_stands() -> None:
    merged = learn(user("- Has a boat\n\n"), lesson("Lives in Porto"), lesson("Likes tea", block="archival"))
    assert merged.texts == {
        ("user", "core"): "- Has a boat\n- Lives in Porto",
        ("user", "archival"): "- Likes tea",
    }
    assert [(change.change, change.block, change.line) for change in merged.changes] == [
        ("added", "core", "- Lives in Porto"),
        ("added", "archival", "- Likes tea"),
    ]


def test_a_second_time_changes_nothing() -> None:
    shelves = user("- Has a boat")
    lessons = (lesson("Lives in Porto", topic="place"), lesson("Likes tea", block="archival"))
    once = learn(shelves, *lessons)
    assert once.texts
    twice = learn(after(shelves, once), *lessons)
    assert (twice.texts, twice.books, twice.changes, whys(twice)) == ({}, {}, (), ["known", "known"])


@pytest.mark.parametrize(
    "standing",
    ["- lives in PORTO.", "* Lives  in Porto", "Lives in Po\u200brto", "• Lives in Pôrto", "2. Lives in Porto"],
)
def test_a_line_that_stands_in_other_letters_is_known(standing: str) -> None:
    assert whys(learn(user(standing), lesson("Lives in Porto"))) == ["known"]
    assert whys(learn(user("- Lives in Port"), lesson("Lives in Porto"))) == []


def test_a_line_that_stands_in_another_block_is_known() -> None:
    shelves = {**user(archival="- Lives in Porto"), "agent": ScopeBlocks(texts={})}
    assert whys(learn(shelves, lesson("Lives in Porto", scope="agent"))) == ["known"]
    assert learn(shelves, lesson("Lives in Faro", scope="agent")).texts == {("agent", "core"): "- Lives in Faro"}


def test_a_newer_line_of_a_topic_takes_the_place_of_the_older() -> None:
    shelves = user("- Has a boat")
    first = after(shelves, learn(shelves, lesson("Lives in Porto", topic="place")))
    second = learn(first, lesson("Lives in Faro", topic="place", seqs=(2,)))
    assert second.texts == {("user", "core"): "- Has a boat\n- Lives in Faro"}
    third = learn(after(first, second), lesson("Lives in Porto", topic="place", seqs=(3,)))
    assert third.texts == {("user", "core"): "- Has a boat\n- Lives in Porto"}  # back again is no rejection


def test_what_was_said_earlier_does_not_take_the_place_of_what_was_said_later() -> None:
    shelves = user()
    late = after(shelves, learn(shelves, lesson("Lives in Faro", topic="place", seqs=(5,))))
    early = learn(late, lesson("Lives in Porto", topic="place", seqs=(2,)), conversation="c2")
    assert (early.texts, whys(early)) == ({}, ["outdated"])
    assert learn(late, lesson("Lives in Porto", topic="place", seqs=(6,))).texts


def test_what_somebody_wrote_stays_beside_what_was_learned() -> None:
    merged = learn(user("- Lives in Porto"), lesson("Lives in Faro", topic="place", replaces=("- Lives in Porto",)))
    assert merged.texts == {("user", "core"): "- Lives in Porto\n- Lives in Faro"}
    assert [(one.line, one.why) for one in merged.left_out] == [("- Lives in Porto", "kept")]


def test_a_learned_line_makes_room_for_the_one_that_names_it() -> None:
    shelves = user("- Has a boat")
    first = after(shelves, learn(shelves, lesson("Owns a dog"), lesson("Owns a cat")))
    merged = learn(first, lesson("Owns a dog and a cat", replaces=("- Owns a dog", "Owns a cat", "Has a boat")))
    assert merged.texts == {("user", "core"): "- Has a boat\n- Owns a dog and a cat"}


def test_what_the_user_took_back_goes_and_is_not_learned_from_before() -> None:
    shelves = user("- Has a boat")
    first = after(shelves, learn(shelves, lesson("Lives in Oslo", topic="place", seqs=(2,))))
    ended = after(first, learn(first, lesson("Lives in Oslo", ends=True, seqs=(4,))))
    assert ended["user"].texts["core"] == "- Has a boat"
    assert whys(learn(ended, lesson("Lives in Oslo", topic="place", seqs=(3,)), conversation="c2")) == ["outdated"]
    again = learn(ended, lesson("Lives in Oslo", topic="place", seqs=(5,)))
    assert again.texts == {("user", "core"): "- Has a boat\n- Lives in Oslo"}


def test_what_somebody_wrote_is_not_taken_back_by_words() -> None:
    merged = learn(user("- Lives in Oslo"), lesson("Lives in Oslo", ends=True))
    assert (merged.texts, whys(merged)) == ({}, ["kept"])


def test_what_was_taken_out_stays_out_of_every_block() -> None:
    shelves = user("- Has a boat", removed_lines=frozenset({canonical("Lives in Porto")}))
    for block in ("core", "archival"):
        merged = learn(shelves, lesson("lives in PORTO", block=block), lesson("Likes tea", block=block))
        assert whys(merged) == ["taken_out"]
        assert [change.line for change in merged.changes] == ["- Likes tea"]


def test_a_full_core_sends_lines_to_the_archive_and_a_full_archive_leaves_them_out() -> None:
    core = "\n".join(f"- line {number}" for number in range(CORE_ENTRIES))
    merged = learn(user(core), lesson("Lives in Porto"))
    assert merged.texts == {("user", "archival"): "- Lives in Porto"}
    archive = "x" * ARCHIVAL_CHARACTERS
    assert whys(learn(user(core, archive), lesson("Lives in Porto"))) == ["no_room"]
    assert learn(user("x" * CORE_CHARACTERS), lesson("Lives in Porto")).texts == {
        ("user", "archival"): "- Lives in Porto"
    }


def test_a_full_core_has_room_for_what_takes_the_place_of_a_line() -> None:
    shelves = user("\n".join(f"- line {number}" for number in range(CORE_ENTRIES - 1)))
    full = after(shelves, learn(shelves, lesson("Lives in Porto", topic="place")))
    merged = learn(full, lesson("Lives in Faro", topic="place", seqs=(2,)))
    assert list(merged.texts) == [("user", "core")] and merged.texts["user", "core"].endswith("\n- Lives in Faro")


def test_a_line_that_stays_makes_no_room_in_a_full_core() -> None:
    shelves = user("\n".join(f"- line {number}" for number in range(CORE_ENTRIES)))
    merged = learn(shelves, lesson("Lives in Porto", replaces=("- line 3",)))
    assert merged.texts == {("user", "archival"): "- Lives in Porto"}
    assert whys(merged) == ["kept"]


@pytest.mark.parametrize("text", ["", "  ", "-", "a\nb", "a\u2028b", "x" * 301])
def test_what_is_no_line_is_left_out(text: str) -> None:
    assert whys(learn(user(), lesson(text))) == ["unfit"]
    assert whys(learn(user(), lesson("x" * 300))) == []


def test_what_no_message_of_the_user_stands_for_is_left_out() -> None:
    assert whys(learn(user(), lesson("Likes tea", seqs=()), lesson("Has a cat", seqs=(99,)))) == ["unfit", "unfit"]
    assert whys(learn(user(), lesson("Likes tea", seqs=(99, 1)))) == []


def test_without_an_agent_its_lines_are_the_users() -> None:
    assert learn(user(), lesson("Likes tea", scope="agent")).texts == {("user", "core"): "- Likes tea"}


def test_the_book_says_where_each_learned_line_comes_from_and_holds_no_text() -> None:
    shelves = user("- Has a boat")
    first = after(shelves, learn(shelves, lesson("Lives in Porto"), lesson("Has a boat")))
    second = after(first, learn(first, lesson("Lives in Porto", seqs=(2, 3)), conversation="c2"))
    assert second["user"].book == {
        digest("Lives in Porto"): LearnedLine(
            sources=(Source("c1", 1), Source("c2", 2), Source("c2", 3)), said_at=MOMENTS[3]
        )
    }
    assert "porto" not in repr(second["user"].book).lower()


def test_of_a_line_that_is_gone_the_book_keeps_nothing() -> None:
    shelves = user()
    book = after(shelves, learn(shelves, lesson("Lives in Porto"), lesson("Has a cat")))["user"].book
    merged = learn(user("- Has a cat", book=book), lesson("Likes tea"))
    assert set(merged.books["user"]) == {digest("Has a cat"), digest("Likes tea")}


def test_lines_of_one_source_go_with_it_and_lines_of_two_stay() -> None:
    shelves = user("- Has a boat")
    first = after(shelves, learn(shelves, lesson("Lives in Porto"), lesson("Has a cat")))
    second = after(first, learn(first, lesson("Has a cat"), conversation="c2"))
    texts, book, gone = without(second["user"], {"c1"})
    assert (texts, gone) == ({"core": "- Has a boat\n- Has a cat"}, ["- Lives in Porto"])
    assert book[digest("Has a cat")].sources == (Source("c2", 1),)


def test_undoing_gives_back_the_text_before_to_the_letter() -> None:
    assert revert("a\n\n  b \n", "a\n- c", "a\n- c") == "a\n\n  b \n"


def test_undoing_keeps_what_was_written_since() -> None:
    before, later = "- Has a boat\n- Lives in Porto", "- Has a boat\n- Lives in Faro"
    assert revert(before, later, "- Owns a cat\n- Lives in Faro") == "- Owns a cat\n- Lives in Porto"
    assert revert(before, later, "") == "- Lives in Porto"


def history(*texts: tuple[str | None, str]) -> list[Revision]:
    return [
        Revision(
            fact_id="f",
            scope=Scope.of(user="ada"),
            key="blocks.core",
            version=number,
            change="set" if text is not None else "deleted",
            value=text,
            at=NOON,
            created_at=NOON,
            origin=Origin("owner", door),
        )
        for number, (text, door) in enumerate(texts, 1)
    ]


@pytest.mark.parametrize(
    ("texts", "gone"),
    [
        ([("- a\n- b", "python"), ("- a", "python")], {"b"}),
        ([("- a\n- b", "sleep"), ("- a", "rest")], {"b"}),
        ([("- a\n- b", "python"), ("- a\n- c", "sleep")], set()),
        ([("- a\n- b", "python"), ("- a", "python"), ("- B.", "cli")], {"a"}),
        ([("- a", "python"), (None, "python")], {"a"}),
        ([("- a", "sleep"), ("- b", "sleep"), ("- b\n- a", "sleep"), ("- b", "python")], {"a"}),
        ([], set()),
    ],
)
def test_a_line_is_taken_out_by_whoever_leaves_it_out_but_not_by_a_newer_one(texts: list, gone: set) -> None:
    assert removed_lines(history(*texts)) == gone


TEXTS = st.text(alphabet="ab \n-é.", max_size=30)
LESSONS = st.lists(
    st.builds(
        Lesson,
        text=st.one_of(TEXTS, st.text(min_size=200, max_size=310, alphabet="xy ")),
        block=st.sampled_from(["core", "archival"]),
        scope=st.sampled_from(["user", "agent"]),
        seqs=st.lists(st.integers(0, 10), max_size=2).map(tuple),
        topic=st.sampled_from(["", "place"]),
        replaces=st.lists(TEXTS, max_size=2).map(tuple),
        ends=st.booleans(),
    ),
    max_size=40,
).map(lambda lessons: Learned(lessons=tuple(lessons)))


@given(TEXTS, TEXTS, st.lists(LESSONS, min_size=1, max_size=4))
def test_whatever_is_learned_blocks_stay_within_limits_and_nobody_elses_line_goes(
    core: str, archival: str, rounds: list[Learned]
) -> None:
    shelves: dict[Any, ScopeBlocks] = {**user(core, archival), "agent": ScopeBlocks(texts={"core": core})}
    theirs: dict[tuple[Any, BlockType], list[Any]] = {
        (scope, block): [line for _, line in lines_of(text)]
        for scope, shelf in shelves.items()
        for block, text in shelf.texts.items()
    }
    for number, learned in enumerate(rounds):
        merged = merge(shelves, learned, conversation=f"c{number}", moments=MOMENTS)
        for (_, block), text in merged.texts.items():
            check_content(block, text)
        shelves = after(shelves, merged)
        for (scope, block), lines in theirs.items():
            standing = [line for _, line in lines_of(shelves[scope].texts[block])]
            assert standing[: len(lines)] == lines


@given(TEXTS, LESSONS)
def test_every_learned_line_leads_back_to_a_message(core: str, learned: Learned) -> None:
    shelves = user(core)
    result = after(shelves, merge(shelves, learned, conversation="c1", moments=MOMENTS))["user"]
    book = result.book
    hand_written = {digest(line) for _, line in lines_of(core)}
    for text in result.texts.values():
        for _, line in lines_of(text):
            assert digest(line) in hand_written or book[digest(line)].sources
