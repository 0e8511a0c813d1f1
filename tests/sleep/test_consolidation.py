"""Lessons become lines: within the limits, beside what others wrote, and never twice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lessons import Lesson, Talk, Taught

import memoranda
from memoranda import Memory
from memoranda.engine.learned_lines import removed_lines, revert_book, revert_text
from memoranda.model.block import ARCHIVAL_CHARACTERS, CORE_CHARACTERS, CORE_ENTRIES, check_content, lines_of
from memoranda.model.fact import Revision
from memoranda.model.scope import Scope
from memoranda.model.trust import Origin
from memoranda.sleep import forget_conversation, sources_of
from memoranda.sleep.worker import Consolidated, run_sleep_time
from memoranda.testing import FakeClock

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
Learn = Callable[..., Consolidated]


@pytest.fixture
def learn(memory: Memory, clock: FakeClock, talk: Any) -> Learn:
    """Return how to let a conversation teach something; each call is a message, a minute after the one before."""

    def learn(*lessons: Lesson, conversation: str = "c1", said: bool = True) -> Consolidated:
        if said:
            clock.advance(60)
            talk("Hello.", conversation=conversation)
        return run_sleep_time(memory, conversation, user="ada", extractor=Taught(*lessons))

    return learn


def whys(done: Consolidated) -> list[str]:
    return [one.why for one in done.left_out]


def statements(memory: Memory, **more: str) -> list[str]:
    return [entry.content for entry in memory.scope(user="ada", **more).entries(collection="statements")]


def test_lines_are_added_below_what_stands(learn: Learn, lines: Any) -> None:
    lines.write("- Has a boat", "", "")
    done = learn(Lesson("Lives in Porto"), Lesson("Likes tea", block="archival"))
    assert {block.block_type: block.content for block in done.blocks} == {
        "core": "- Has a boat\n- Lives in Porto",
        "archival": "- Likes tea",
    }
    assert [(change.change, change.block, change.line) for change in done.changes] == [
        ("added", "core", "- Lives in Porto"),
        ("added", "archival", "- Likes tea"),
    ]


def test_a_second_time_changes_nothing(memory: Memory, learn: Learn, lines: Any) -> None:
    lines.write("- Has a boat")
    lessons = (Lesson("Lives in Porto", topic="place"), Lesson("Likes tea", block="archival"))
    assert learn(*lessons).changes
    before = memory.scope(user="ada").blocks.list()
    twice = learn(*lessons)
    assert (twice.blocks, twice.changes, whys(twice)) == ((), (), ["known", "known"])
    assert memory.scope(user="ada").blocks.list() == before
    assert statements(memory) == ["Lives in Porto", "Likes tea"]


@pytest.mark.parametrize(
    "standing",
    ["- lives in PORTO.", "* Lives  in Porto", "Lives in Po\u200brto", "• Lives in Pôrto", "2. Lives in Porto"],
)
def test_a_line_that_stands_in_other_letters_is_known(memory: Memory, learn: Learn, lines: Any, standing: str) -> None:
    lines.write(standing)
    assert whys(learn(Lesson("Lives in Porto"))) == ["known"]
    assert (lines(), statements(memory)) == ([standing], [])
    assert whys(learn(Lesson("Lives in Port"))) == []


def test_a_line_that_stands_in_another_block_is_known(learn: Learn, lines: Any) -> None:
    lines.write("- Lives in Porto", block="archival")
    assert whys(learn(Lesson("Lives in Porto", scope="agent"))) == ["known"]
    learn(Lesson("Lives in Faro", scope="agent"))
    assert (lines(), lines(agent="desk")) == ([], ["- Lives in Faro"])


def test_a_newer_line_of_a_topic_takes_the_place_of_the_older(memory: Memory, learn: Learn, lines: Any) -> None:
    lines.write("- Has a boat")
    for place in ("Porto", "Faro", "Porto"):  # changing back to Porto does not count as a rejection
        learn(Lesson(f"Lives in {place}", topic="place"))
        assert lines() == ["- Has a boat", f"- Lives in {place}"]
        assert statements(memory) == [f"Lives in {place}"]


def test_what_was_said_earlier_does_not_take_the_place_of_what_was_said_later(
    learn: Learn, talk: Any, clock: FakeClock, lines: Any
) -> None:
    talk("Hello.", conversation="early")
    learn(Lesson("Lives in Faro", topic="place"), conversation="late")
    early = learn(Lesson("Lives in Porto", topic="place"), conversation="early", said=False)
    assert (early.changes, whys(early)) == ((), ["outdated"])
    assert learn(Lesson("Lives in Porto", topic="place")).changes


def test_what_was_said_again_is_as_new_as_its_repetition(learn: Learn, talk: Any, clock: FakeClock, lines: Any) -> None:
    learn(Lesson("Lives in Porto", topic="place"), conversation="c1")
    clock.advance(60)
    talk("Hello.", conversation="between")
    learn(Lesson("Lives in Porto", topic="place"), conversation="c3")
    assert whys(learn(Lesson("Lives in Faro", topic="place"), conversation="between", said=False)) == ["outdated"]
    assert lines() == ["- Lives in Porto"]


def test_what_somebody_wrote_stays_beside_what_was_learned(learn: Learn, lines: Any) -> None:
    lines.write("- Lives in Porto")
    done = learn(Lesson("Lives in Faro", topic="place", replaces=("- Lives in Porto",)))
    assert lines() == ["- Lives in Porto", "- Lives in Faro"]
    assert whys(done) == ["kept"]


def test_lines_that_are_named_are_replaced_where_they_were_learned(memory: Memory, learn: Learn, lines: Any) -> None:
    lines.write("- Has a boat")
    learn(Lesson("Owns a dog"), Lesson("Owns a cat"))
    learn(Lesson("Owns a dog and a cat", replaces=("- Owns a dog", "Owns a cat", "Has a boat")))
    assert lines() == ["- Has a boat", "- Owns a dog and a cat"]
    assert statements(memory) == ["Owns a dog and a cat"]


def test_what_the_user_took_back_goes_and_is_not_learned_from_before(
    memory: Memory, learn: Learn, talk: Any, lines: Any
) -> None:
    lines.write("- Has a boat")
    talk("Hello.", conversation="before")
    learn(Lesson("Lives in Oslo", topic="place"))
    learn(Lesson("Lives in Oslo", topic="place", ends=True))
    assert lines() == ["- Has a boat"]
    again = learn(Lesson("Lives in Oslo", topic="place"), conversation="before", said=False)
    assert (lines(), whys(again)) == (["- Has a boat"], ["outdated"])
    learn(Lesson("Lives in Oslo", topic="place"))
    assert lines() == ["- Has a boat", "- Lives in Oslo"]
    assert statements(memory) == ["Lives in Oslo"]


def test_what_was_taken_back_before_it_was_learned_is_not_learned_from_before(
    learn: Learn, talk: Any, lines: Any
) -> None:
    talk("Hello.", conversation="before")
    learn(Lesson("Lives in Oslo", topic="place", ends=True))
    assert whys(learn(Lesson("Lives in Oslo", topic="place"), conversation="before", said=False)) == ["outdated"]
    assert lines() == []


def test_what_somebody_wrote_is_not_taken_back_by_words(learn: Learn, lines: Any) -> None:
    lines.write("- Lives in Oslo")
    assert whys(learn(Lesson("Lives in Oslo", ends=True))) == ["kept"]
    assert lines() == ["- Lives in Oslo"]


def test_what_was_taken_out_stays_out_of_every_block(memory: Memory, learn: Learn, lines: Any) -> None:
    lines.write("- Has a boat", "- Lives in Porto")
    lines.write("- Has a boat")
    for block in ("core", "archival"):
        done = learn(Lesson("lives in PORTO", block=block), Lesson(f"Likes tea in {block}", block=block))
        assert whys(done) == ["taken_out"]
        assert [change.line for change in done.changes] == [f"- Likes tea in {block}"]
    assert statements(memory) == ["Likes tea in core", "Likes tea in archival"]


def test_a_full_core_sends_lines_to_the_archive_and_a_full_archive_leaves_them_out(
    memory: Memory, learn: Learn, lines: Any
) -> None:
    lines.write(*(f"- line {number}" for number in range(CORE_ENTRIES)))
    learn(Lesson("Lives in Porto"))
    assert lines("archival") == ["- Lives in Porto"]
    lines.write("x" * ARCHIVAL_CHARACTERS, block="archival")
    assert whys(learn(Lesson("Likes tea"))) == ["no_room"]
    assert statements(memory) == []  # its line was edited away, and that of the other was left out
    lines.write("- An archive", block="archival")
    lines.write("x" * CORE_CHARACTERS)
    learn(Lesson("Prefers trains"))
    assert lines("archival") == ["- An archive", "- Prefers trains"]


def test_a_full_core_has_room_for_what_takes_the_place_of_a_line(learn: Learn, lines: Any) -> None:
    lines.write(*(f"- line {number}" for number in range(CORE_ENTRIES - 1)))
    learn(Lesson("Lives in Porto", topic="place"))
    learn(Lesson("Lives in Faro", topic="place"))
    assert (lines()[-1], lines("archival")) == ("- Lives in Faro", [])


def test_a_line_that_stays_makes_no_room_in_a_full_core(learn: Learn, lines: Any) -> None:
    lines.write(*(f"- line {number}" for number in range(CORE_ENTRIES)))
    done = learn(Lesson("Lives in Porto", replaces=("- line 3",)))
    assert (lines("archival"), whys(done)) == (["- Lives in Porto"], ["kept"])


@pytest.mark.parametrize("text", ["", "  ", "-", "a\nb", "a\u2028b", "x" * 301])
def test_what_is_no_line_is_left_out(memory: Memory, learn: Learn, text: str) -> None:
    done = learn(Lesson(text), Lesson("x" * 300))
    assert whys(done) == ["unfit"]
    assert statements(memory) == ["x" * 300]


def test_what_no_message_of_the_user_stands_for_is_left_out(learn: Learn) -> None:
    done = learn(Lesson("Likes tea", seqs=()), Lesson("Has a cat", seqs=(2,)), Lesson("Has a dog", seqs=(99, 1)))
    assert whys(done) == ["unfit", "unfit"]
    assert [change.line for change in done.changes] == ["- Has a dog"]


def test_the_book_says_where_each_learned_line_comes_from(memory: Memory, learn: Learn, lines: Any) -> None:
    lines.write("- Has a boat")
    learn(Lesson("Lives in Porto", topic="place"), Lesson("Has a boat"))
    learn(Lesson("Lives in Porto", topic="place"), conversation="c2")
    found = sources_of(memory, "Lives in Porto", user="ada")
    assert [(source.conversation, source.seq) for source in found] == [("c1", 1), ("c2", 1)]
    book = memory.scope(user="ada").value("sleep.learned")
    assert len(book) == 1 and "porto" not in repr(book).lower()


def test_of_a_line_that_is_gone_the_book_keeps_nothing(memory: Memory, learn: Learn, lines: Any) -> None:
    learn(Lesson("Lives in Porto"), Lesson("Has a cat"))
    lines.write("- Has a cat")
    learn(Lesson("Likes tea"))
    assert len(memory.scope(user="ada").value("sleep.learned")) == 2


def test_lines_of_one_source_go_with_it_and_lines_of_two_stay(memory: Memory, learn: Learn, lines: Any) -> None:
    lines.write("- Has a boat")
    learn(Lesson("Lives in Porto"), Lesson("Has a cat"))
    learn(Lesson("Has a cat"), conversation="c2")
    assert forget_conversation(memory, "c1", user="ada") == ["- Lives in Porto"]
    assert lines() == ["- Has a boat", "- Has a cat"]
    assert statements(memory) == ["Has a cat"]


def test_undoing_gives_back_the_text_before_to_the_letter() -> None:
    assert revert_text("a\n\n  b \n", "a\n- c", "a\n- c") == "a\n\n  b \n"


def test_undoing_keeps_what_was_written_since() -> None:
    before, later = "- Has a boat\n- Lives in Porto", "- Has a boat\n- Lives in Faro"
    assert revert_text(before, later, "- Owns a cat\n- Lives in Faro") == "- Owns a cat\n- Lives in Porto"
    assert revert_text(before, later, "") == "- Lives in Porto"


def test_undoing_a_book_keeps_what_was_noted_since() -> None:
    before: dict[str, object] = {"a": 1, "b": 1}
    after: dict[str, object] = {"b": 2, "c": 1}
    assert revert_book(before, after, after) == before
    assert revert_book(before, after, {"b": 3, "c": 1, "d": 1}) == {"a": 1, "b": 3, "d": 1}


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
    max_size=30,
)


@settings(max_examples=25)
@given(TEXTS, TEXTS, st.lists(LESSONS, min_size=1, max_size=3))
def test_whatever_is_learned_blocks_stay_within_limits_and_nobody_elses_line_goes(
    core: str, archival: str, rounds: list[list[Lesson]]
) -> None:
    with memoranda.open(":memory:", embedder="hashing:16") as memory:
        talk = Talk(memory)
        ada = memory.scope(user="ada")
        for block, text in (("core", core), ("archival", archival)):
            ada.blocks.update(block, text, expected_updated_at=None)  # type: ignore[arg-type]
        theirs = {block.block_type: [line for _, line in lines_of(block.content)] for block in ada.blocks.list()}
        for number, lessons in enumerate(rounds):
            talk("One.", "Two.", conversation=f"c{number}")
            run_sleep_time(memory, f"c{number}", user="ada", extractor=Taught(*lessons))
            for block in ada.blocks.list(scope="all"):
                check_content(block.block_type, block.content)
                if block.scope == "user":
                    mine = theirs[block.block_type]
                    found = [line for _, line in lines_of(block.content)]
                    assert found[: len(mine)] == mine
                    for line in found[len(mine) :]:
                        assert sources_of(memory, line, user="ada"), "every learned line leads back to a message"
        assert memory.ledger.verify().ok
