"""Memory blocks: texts replaced whole by compare-and-set, within limits, and recalled line by line."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from threading import Barrier
from typing import Any

import msgspec
import pytest

from memoranda.api.blocks import Blocks, update_effect
from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.engine.blocks import RecallBlocks
from memoranda.engine.facts import SetFact, WriteFacts
from memoranda.errors import (
    ApprovalRequired,
    Conflict,
    Denied,
    IdempotencyMismatch,
    InvalidKey,
    InvalidScope,
    InvalidValue,
    LimitExceeded,
    NotFound,
    QuotaExceeded,
    UsageError,
)
from memoranda.model.block import Block, BlockMatch, BlockType
from memoranda.model.policy import Policy, Quota, Rule
from memoranda.model.scope import Scope
from memoranda.model.value import encode
from memoranda.store.base import Store
from memoranda.testing.conformance.base import Capability, assert_raises, present, requires, unchanged
from memoranda.testing.fakes import FakeClock

BlocksOf = Callable[..., Blocks]

NOTES = "- Orchard: the cider press is out on loan until 3 June\n\n- Bakery: the oven inspection passed\n \nplain line"
AGENT_NOTES = "- Orchard mail goes to Lena\n- Ferry times change in winter"


SPELLINGS: dict[str, Callable[[datetime], datetime | str]] = {
    "moment": lambda stamp: stamp,
    "iso": lambda stamp: stamp.isoformat(),
    "Z": lambda stamp: stamp.isoformat().replace("+00:00", "Z"),
    "no zone": lambda stamp: stamp.replace(tzinfo=None).isoformat(),
    "naive moment": lambda stamp: stamp.replace(tzinfo=None),
    "another zone": lambda stamp: stamp.astimezone(timezone(timedelta(hours=5, minutes=30))),
    "another zone as text": lambda stamp: stamp.astimezone(timezone(timedelta(hours=-8))).isoformat(),
}


def _write(blocks: Blocks, block: BlockType, content: str) -> Block:
    """Make a block, or replace it, whatever it holds."""
    current = blocks.get(block)
    return blocks.update(block, content, expected_updated_at=current.updated_at if current else None)


def _lines_of(matches: list[BlockMatch]) -> list[tuple[str, int]]:
    return [(match.scope, match.line_number) for match in matches]


def _contents(blocks: list[Block]) -> list[str]:
    return [block.content for block in blocks]


class BlockClaims:
    """What every door to memory blocks keeps. A door gives `blocks_of`; its errors are the engine's."""

    @pytest.fixture
    def blocks_of(self, memory: Memory) -> BlocksOf:
        """Return what gives the blocks of a user, or of a user and an agent, in a tenant."""

        def blocks_of(**ids: str) -> Blocks:
            return memory.scope(**ids).blocks

        return blocks_of

    def test_b1_a_block_is_made_where_there_is_none(self, blocks_of: BlocksOf) -> None:
        made = blocks_of(user="ada").update("core", "- Keeps bees", expected_updated_at=None)
        assert made.id.startswith("mem_")
        assert (made.block_type, made.content, made.scope, made.agent_id) == ("core", "- Keeps bees", "user", None)
        assert made.created_at == made.updated_at
        assert made.updated_at.utcoffset() == timedelta(0)
        mine = blocks_of(user="ada", agent="mail").update("archival", "- Sorts by day", expected_updated_at=None)
        assert (mine.block_type, mine.scope, mine.agent_id) == ("archival", "agent", "mail")
        assert mine.id != made.id
        assert blocks_of(user="ada").get("core") == made
        assert blocks_of(user="ada", agent="mail").get("archival") == mine

    def test_b2_a_block_is_not_made_twice(self, blocks_of: BlocksOf) -> None:
        blocks = blocks_of(user="ada")
        first = blocks.update("core", "- Keeps bees", expected_updated_at=None)
        error = assert_raises(Conflict, blocks.update, "core", "- Keeps goats", expected_updated_at=None)
        assert error.current_updated_at == first.updated_at
        assert blocks.get("core") == first

    def test_b3_a_write_with_the_stamp_last_read_replaces_the_text(self, blocks_of: BlocksOf) -> None:
        blocks = blocks_of(user="ada")
        first = blocks.update("core", "- Keeps bees", expected_updated_at=None)
        second = blocks.update("core", "- Keeps goats", expected_updated_at=first.updated_at)
        assert (second.content, second.id, second.created_at) == ("- Keeps goats", first.id, first.created_at)
        assert second.updated_at > first.updated_at
        assert blocks.get("core") == second

    def test_b4_an_old_stamp_is_a_conflict_and_a_fresh_one_works(self, blocks_of: BlocksOf) -> None:
        blocks = blocks_of(user="ada")
        old = blocks.update("core", "- Keeps bees", expected_updated_at=None)
        theirs = blocks.update("core", "- Keeps goats", expected_updated_at=old.updated_at)
        error = assert_raises(Conflict, blocks.update, "core", "- Keeps hens", expected_updated_at=old.updated_at)
        assert error.current_updated_at == theirs.updated_at
        assert blocks.get("core") == theirs
        again = present(blocks.get("core"))
        mine = blocks.update("core", f"{again.content}\n- Keeps hens", expected_updated_at=again.updated_at)
        assert mine.content == "- Keeps goats\n- Keeps hens"

    def test_b4_a_stamp_for_a_block_that_is_missing_is_a_conflict(self, blocks_of: BlocksOf) -> None:
        blocks = blocks_of(user="ada")
        with pytest.raises(Conflict) as caught:
            blocks.update("core", "- Keeps hens", expected_updated_at="2026-02-03T04:05:06")
        assert caught.value.current_updated_at is None
        for first in ("1970-01-01T00:00:00Z", "1969-12-31T23:59:59.999999Z"):
            assert_raises(Conflict, blocks.update, "core", "- Keeps hens", expected_updated_at=first)
        assert blocks.get("core") is None
        assert blocks.update("core", "- Keeps hens", expected_updated_at=None).content == "- Keeps hens"

    def test_b5_of_two_writers_with_one_stamp_exactly_one_wins(self, blocks_of: BlocksOf) -> None:
        current = blocks_of(user="ada").update("core", "0", expected_updated_at=None)
        rivals = [blocks_of(user="ada"), blocks_of(user="ada")]
        with ThreadPoolExecutor(2) as threads:
            for number in range(50):
                start = Barrier(2)

                def write(place: int, stamp: datetime, start: Barrier = start, number: int = number) -> Block | None:
                    start.wait()
                    try:
                        return rivals[place].update("core", f"{number}.{place}", expected_updated_at=stamp)
                    except Conflict:
                        return None

                written = [*threads.map(write, range(2), [current.updated_at] * 2)]
                winners = [block for block in written if block is not None]
                assert len(winners) == 1
                current = present(rivals[0].get("core"))
                assert current == winners[0]

    def test_b6_two_writes_in_one_tick_have_different_stamps(self, blocks_of: BlocksOf) -> None:
        blocks = blocks_of(user="ada")
        stamps = [_write(blocks, "core", str(number)).updated_at for number in range(20)]
        assert stamps == sorted(set(stamps))

    @pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS)
    def test_b7_a_stamp_is_compared_as_a_moment(
        self, blocks_of: BlocksOf, spelled: Callable[[datetime], datetime | str]
    ) -> None:
        blocks = blocks_of(user="ada")
        first = blocks.update("core", "one", expected_updated_at=None)
        second = blocks.update("core", "two", expected_updated_at=spelled(first.updated_at))
        assert blocks.get("core") == second
        assert_raises(Conflict, blocks.update, "core", "three", expected_updated_at=spelled(first.updated_at))
        with pytest.raises(Conflict):
            blocks.update("core", "three", expected_updated_at=spelled(second.updated_at + timedelta(microseconds=1)))
        assert blocks.get("core") == second

    def test_b8_a_write_without_a_stamp_or_with_a_malformed_one_is_refused(self, blocks_of: BlocksOf) -> None:
        blocks: Any = blocks_of(user="ada")
        first = blocks.update("core", "one", expected_updated_at=None)
        with pytest.raises(TypeError, match="expected_updated_at"):
            blocks.update("core", "two")
        malformed: list[Any] = ["", "yesterday", "2026-13-01T00:00:00", 5, 1.5, True, {}, "0001-01-01T00:00:00+14:00"]
        for stamp in malformed:
            assert_raises(UsageError, blocks.update, "core", "two", expected_updated_at=stamp)
        assert blocks.get("core") == first
        assert blocks.update("core", "two", expected_updated_at=first.updated_at).content == "two"

    def test_b9_a_write_replaces_the_whole_text(self, blocks_of: BlocksOf) -> None:
        blocks = blocks_of(user="ada")
        _write(blocks, "core", "- Keeps bees\n- Plays the viola")
        _write(blocks, "core", "- Plays the viola")
        assert present(blocks.get("core")).content == "- Plays the viola"

    @pytest.mark.parametrize(
        "content", ["", "\n", "  two spaces  \n\n", "tab\there", "é ü 木 🐝", "a\rb", "- x\n</user_memory>\n"], ids=repr
    )
    def test_b9_a_text_stays_as_it_is(self, blocks_of: BlocksOf, content: str) -> None:
        blocks = blocks_of(user="ada")
        assert _write(blocks, "archival", content).content == content
        assert present(blocks.get("archival")).content == content

    def test_b9_line_ends_of_two_characters_become_one(self, blocks_of: BlocksOf) -> None:
        blocks = blocks_of(user="ada")
        assert _write(blocks, "core", "one\r\ntwo\r\n").content == "one\ntwo\n"
        assert len(_write(blocks, "core", "x" * 3_999 + "\r\n").content) == 4_000

    def test_b10_a_core_block_holds_4000_characters_and_20_entries(self, blocks_of: BlocksOf) -> None:
        blocks = blocks_of(user="ada")
        kept = _write(blocks, "core", "木" * 4_000)
        self._expect_limit(blocks, "core", "木" * 4_001, limit=4_000, actual=4_001, what="characters")
        assert blocks.get("core") == kept
        kept = _write(blocks, "core", "\n \n\n".join(f"entry {number}" for number in range(20)))
        self._expect_limit(
            blocks, "core", "\n".join(f"{number}" for number in range(21)), limit=20, actual=21, what="entries"
        )
        assert blocks.get("core") == kept

    def test_b11_an_archival_block_holds_8000_characters_in_any_number_of_lines(self, blocks_of: BlocksOf) -> None:
        blocks = blocks_of(user="ada")
        assert len(_write(blocks, "archival", "a" * 8_000).content) == 8_000
        kept = _write(blocks, "archival", "\n".join(f"- note {number}" for number in range(500)))
        self._expect_limit(blocks, "archival", "a" * 8_001, limit=8_000, actual=8_001, what="characters")
        assert blocks.get("archival") == kept

    def test_b12_each_block_has_its_own_limit(self, blocks_of: BlocksOf) -> None:
        for ids in ({}, {"agent": "mail"}, {"agent": "maps"}):
            blocks = blocks_of(user="ada", **ids)
            assert len(_write(blocks, "core", "c" * 4_000).content) == 4_000
            assert len(_write(blocks, "archival", "a" * 8_000).content) == 8_000
        self._expect_limit(blocks_of(user="ada"), "core", "c" * 4_001, limit=4_000, actual=4_001, what="characters")

    def _expect_limit(self, blocks: Blocks, block: BlockType, content: str, **told: Any) -> None:
        current = blocks.get(block)
        with pytest.raises(LimitExceeded) as caught:
            blocks.update(block, content, expected_updated_at=current.updated_at if current else None)
        assert {name: getattr(caught.value, name) for name in told} == told

    def test_b13_an_invalid_block_or_scope_is_refused(self, blocks_of: BlocksOf) -> None:
        blocks: Any = blocks_of(user="ada")
        core = _write(blocks, "core", "- Keeps bees")
        for block in ("Core", "", "recall", "core.x", "../core", None, 5):
            assert_raises(UsageError, blocks.get, block)
            assert_raises(UsageError, blocks.update, block, "x", expected_updated_at=None)
            assert_raises(UsageError, blocks.delete, block)
        for scope in ("users", "", "global", 5):
            assert_raises(UsageError, blocks.list, scope=scope)
        for agent in ("", " mail", "ma\nil", "x" * 257):
            with pytest.raises(UsageError):
                blocks_of(user="ada", agent=agent).get("core")
            assert_raises(UsageError, blocks.recall, "bees", agent=agent)
        assert blocks.list(scope="all") == [core]

    def test_b14_a_list_shows_the_users_blocks_and_on_request_every_agents(self, blocks_of: BlocksOf) -> None:
        for number, ids in enumerate(
            [{"user": "ada"}, {"user": "ada", "agent": "mail"}, {"user": "ada", "agent": "a/b%"}, {"user": "adam"}]
        ):
            for block in ("archival", "core"):
                _write(blocks_of(**ids), block, f"{number} {block}")
        _write(blocks_of(user="ada", agent="bare"), "core", "4 core")
        ada = blocks_of(user="ada")
        mine = ["0 core", "0 archival"]
        agents = ["2 core", "2 archival", "4 core", "1 core", "1 archival"]
        assert _contents(ada.list()) == _contents(ada.list(scope="user")) == mine
        assert _contents(ada.list(scope="agent")) == agents
        assert _contents(ada.list(scope="all")) == mine + agents
        assert [block.agent_id for block in ada.list(scope="agent")] == ["a/b%", "a/b%", "bare", "mail", "mail"]
        assert _contents(blocks_of(user="adam").list(scope="all")) == ["3 core", "3 archival"]
        assert blocks_of(user="eve").list(scope="all") == []

    def test_b15_a_missing_block_is_none_and_a_deleted_one_can_be_made_again(self, blocks_of: BlocksOf) -> None:
        blocks = blocks_of(user="ada")
        assert blocks.get("core") is None
        assert blocks.delete("core") is False
        first = blocks.update("core", "one", expected_updated_at=None)
        second = blocks.update("core", "two", expected_updated_at=first.updated_at)
        error = assert_raises(Conflict, blocks.delete, "core", expected_updated_at=first.updated_at)
        assert error.current_updated_at == second.updated_at
        assert blocks.get("core") == second
        assert blocks.delete("core", expected_updated_at=second.updated_at.isoformat()) is True
        assert blocks.get("core") is None
        assert blocks.list(scope="all") == []
        again = blocks.update("core", "three", expected_updated_at=None)
        assert again.id != second.id
        assert again.created_at == again.updated_at > second.updated_at
        assert blocks.delete("core") is True

    def test_i1_blocks_of_another_user_or_agent_are_invisible(self, blocks_of: BlocksOf) -> None:
        places = [{"user": "ada"}, {"user": "ada", "agent": "mail"}, {"user": "ada", "agent": "maps"}, {"user": "bob"}]
        for number, ids in enumerate(places):
            _write(blocks_of(**ids), "core", f"core {number}")
            _write(blocks_of(**ids), "archival", f"heron {number}")
        for number, ids in enumerate(places):
            assert present(blocks_of(**ids).get("core")).content == f"core {number}"
            assert present(blocks_of(**ids).get("archival")).content == f"heron {number}"
        ada, bob = blocks_of(user="ada"), blocks_of(user="bob")
        assert [match.content for match in ada.recall("heron")] == ["heron 0"]
        assert {match.content for match in ada.recall("heron", agent="mail")} == {"heron 0", "heron 1"}
        assert {match.content for match in ada.recall("", agent="maps")} == {"heron 0", "heron 2"}
        assert [match.content for match in bob.recall("heron", agent="mail")] == ["heron 3"]
        assert _contents(bob.list(scope="all")) == ["core 3", "heron 3"]
        assert _contents(ada.list(scope="all")) == [
            "core 0", "heron 0", "core 1", "heron 1", "core 2", "heron 2",
        ]  # fmt: skip
        with pytest.raises(Conflict):
            bob.update("core", "stolen", expected_updated_at=present(ada.get("core")).updated_at - timedelta(days=1))
        ada.delete("core")
        assert present(bob.get("core")).content == "core 3"

    def test_r1_a_match_is_a_line_with_its_place(self, blocks_of: BlocksOf) -> None:
        block = _write(blocks_of(user="ada"), "archival", NOTES)
        [match] = blocks_of(user="ada").recall("oven inspection")
        assert match.content == "- Bakery: the oven inspection passed"
        assert match.line_number == 3
        assert isinstance(match.score, float)
        assert match.score > 0
        assert (match.block_type, match.scope, match.agent_id) == ("archival", "user", None)
        assert match.updated_at == block.updated_at

    def test_r2_an_agents_lines_are_found_beside_the_users_when_it_is_named(self, blocks_of: BlocksOf) -> None:
        _write(blocks_of(user="ada"), "archival", NOTES)
        agents = _write(blocks_of(user="ada", agent="mail"), "archival", AGENT_NOTES)
        ada = blocks_of(user="ada")
        assert _lines_of(ada.recall("orchard")) == [("user", 1)]
        both = ada.recall("orchard", agent="mail")
        assert sorted(_lines_of(both)) == [("agent", 1), ("user", 1)]
        assert [match.agent_id for match in both if match.scope == "agent"] == ["mail"]
        assert [match.updated_at for match in both if match.scope == "agent"] == [agents.updated_at]
        assert _lines_of(ada.recall("orchard", agent="maps")) == [("user", 1)]
        assert ada.recall("ferry") == []
        assert _lines_of(ada.recall("ferry", agent="mail")) == [("agent", 2)]

    def test_r3_the_best_come_first_and_ties_keep_their_order(self, blocks_of: BlocksOf) -> None:
        _write(blocks_of(user="ada"), "archival", "tea\nheron weir\n\nheron\nheron")
        _write(blocks_of(user="ada", agent="mail"), "archival", "heron\nheron weir\ntea")
        ada = blocks_of(user="ada")
        found = ada.recall("heron weir", agent="mail")
        assert _lines_of(found) == [("user", 2), ("agent", 2), ("user", 4), ("user", 5), ("agent", 1)]
        scores = [match.score for match in found]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] == scores[1] > scores[2] == scores[4]
        assert ada.recall("heron weir", agent="mail") == found
        for limit in (1, 2, 5, 100):
            assert ada.recall("heron weir", agent="mail", limit=limit) == found[:limit]

    def test_r3_a_limit_is_a_number_from_1_to_100(self, blocks_of: BlocksOf) -> None:
        ada: Any = blocks_of(user="ada")
        _write(ada, "archival", "\n".join(f"heron {number}" for number in range(120)))
        assert len(ada.recall("heron")) == len(ada.recall("")) == 10
        assert len(ada.recall("heron", limit=100)) == 100
        for limit in (0, -1, 101, None, 1.5, True, "5"):
            assert_raises(UsageError, ada.recall, "heron", limit=limit)

    def test_r4_a_query_that_asks_nothing_lists_the_lines_in_their_order(self, blocks_of: BlocksOf) -> None:
        _write(blocks_of(user="ada"), "archival", NOTES)
        _write(blocks_of(user="ada", agent="mail"), "archival", AGENT_NOTES)
        ada = blocks_of(user="ada")
        for query in ("", "  \n\t"):
            assert _lines_of(ada.recall(query)) == [("user", 1), ("user", 3), ("user", 5)]
            listed = ada.recall(query, agent="mail", limit=4)
            assert _lines_of(listed) == [("user", 1), ("user", 3), ("user", 5), ("agent", 1)]
            assert {match.score for match in listed} == {0.0}

    def test_r5_without_a_common_word_nothing_is_found_and_core_is_never_searched(self, blocks_of: BlocksOf) -> None:
        ada = blocks_of(user="ada")
        _write(ada, "core", "- Zebra crossings make her nervous")
        _write(ada, "archival", NOTES)
        assert ada.recall("zebra") == []
        assert ada.recall("submarine cable") == []
        assert ada.recall("?!") == []
        assert "Zebra" not in "".join(match.content for match in ada.recall(""))
        assert _lines_of(ada.recall("zebra cider")) == [("user", 1)]
        assert blocks_of(user="eve").recall("cider") == []

    def test_r6_lines_that_were_replaced_or_deleted_are_not_found(self, blocks_of: BlocksOf) -> None:
        ada = blocks_of(user="ada")
        _write(ada, "archival", NOTES)
        assert _lines_of(ada.recall("cider")) == [("user", 1)]
        block = _write(ada, "archival", "- The otter is back\n- Cider sold out")
        [match] = ada.recall("cider")
        assert (match.content, match.line_number) == ("- Cider sold out", 2)
        assert match.updated_at == block.updated_at
        assert ada.recall("oven") == []
        ada.delete("archival")
        assert ada.recall("cider") == ada.recall("") == []

    def test_r7_the_line_that_holds_more_of_the_query_ranks_above(self, blocks_of: BlocksOf) -> None:
        lines = [
            "- Millbrook audit: the auditor wants receipts by Thursday",
            "- Harrow refit: the harbour master approved the audit plan",
            "- Likes the window seat",
        ]
        _write(blocks_of(user="ada"), "archival", "\n".join(lines))
        found = blocks_of(user="ada").recall("Millbrook audit")
        assert [match.line_number for match in found] == [1, 2]
        assert found[0].score > found[1].score > 0
        assert _lines_of(blocks_of(user="ada").recall("RECEIPT")) == [("user", 1)]

    def test_r7_a_least_score_is_inclusive(self, blocks_of: BlocksOf) -> None:
        ada: Any = blocks_of(user="ada")
        _write(ada, "archival", "heron weir\nheron\ntea")
        best, other = ada.recall("heron weir")
        assert ada.recall("heron weir", min_score=other.score) == [best, other]
        assert ada.recall("heron weir", min_score=best.score) == [best]
        assert ada.recall("heron weir", min_score=best.score + 0.01) == []
        assert ada.recall("", min_score=0.25) == []
        assert len(ada.recall("", min_score=0)) == 3
        for score in (float("nan"), float("inf"), "1", True):
            assert_raises(UsageError, ada.recall, "heron", min_score=score)


class BlockPromises(BlockClaims):
    """The claims, and what follows from a block being a fact: history, ledger, permission, erasure, export."""

    def test_i1_one_user_in_two_tenants_is_two(self, memory: Memory) -> None:
        here, there = memory.scope(user="ada").blocks, memory.scope(tenant="other", user="ada").blocks
        for blocks, name in ((here, "here"), (there, "there")):
            _write(blocks, "core", f"core {name}")
            _write(blocks, "archival", f"heron {name}")
            _write(memory.scope(user="ada", agent="mail").blocks, "core", "agent here")
        assert _contents(here.list(scope="all")) == ["core here", "heron here", "agent here"]
        assert _contents(there.list(scope="all")) == ["core there", "heron there"]
        assert [match.content for match in here.recall("heron")] == ["heron here"]
        assert [match.content for match in there.recall("heron", agent="mail")] == ["heron there"]

    def test_blocks_belong_to_users_and_their_agents_alone(self, memory: Memory) -> None:
        for ids in ({}, {"agent": "mail"}, {"project": "hull"}, {"user": "ada", "thread": "t"}, {"session": "s"}):
            with pytest.raises(InvalidScope, match="has no memory blocks"):
                _ = memory.scope(**ids).blocks
        assert memory.scope(user="ada").blocks.list() == memory.scope(user="ada", agent="mail").blocks.list() == []

    def test_an_agents_handle_sees_its_own_blocks_and_its_users(self, memory: Memory) -> None:
        for number, ids in enumerate([{}, {"agent": "mail"}, {"agent": "maps"}]):
            _write(memory.scope(user="ada", **ids).blocks, "core", f"core {number}")
            _write(memory.scope(user="ada", **ids).blocks, "archival", f"heron {number}")
        mail = memory.scope(user="ada", agent="mail").blocks
        assert _contents(mail.list()) == _contents(mail.list(scope="agent")) == ["core 1", "heron 1"]
        assert _contents(mail.list(scope="user")) == ["core 0", "heron 0"]
        assert _contents(mail.list(scope="all")) == ["core 0", "heron 0", "core 1", "heron 1"]
        assert (
            _lines_of(mail.recall("heron"))
            == _lines_of(mail.recall("heron", agent="mail"))
            == [("user", 1), ("agent", 1)]
        )
        with pytest.raises(UsageError, match="not the agent"):
            mail.recall("heron", agent="maps")

    def test_a_block_is_a_fact_that_only_its_own_door_writes(self, ada: ScopedMemory) -> None:
        block = ada.blocks.update("core", "- Keeps bees", expected_updated_at=None)
        fact = present(ada.get("blocks.core"))
        assert (fact.value, fact.version, fact.updated_at) == ("- Keeps bees", 1, block.updated_at)
        assert_raises(InvalidKey, ada.set, "blocks.core", "x")
        assert_raises(InvalidKey, ada.delete, "blocks.core")
        assert ada.blocks.get("core") == block

    def test_the_engine_refuses_an_invalid_block_from_any_writer(self, memory: Memory, store: Store) -> None:
        with unchanged(store):
            wrong: list[tuple[Scope, str, Any, type[UsageError]]] = [
                (Scope.of(user="ada"), "blocks.core", "x" * 4_001, LimitExceeded),
                (Scope.of(user="ada"), "blocks.core", 5, InvalidValue),
                (Scope.of(user="ada"), "blocks.core.x", "x", InvalidKey),
            ]
            for scope, key, value, error in wrong:
                assert_raises(error, memory.perform, SetFact(scope=scope, key=key, payload=msgspec.Raw(encode(value))))
        right = SetFact(scope=Scope.of(user="ada"), key="blocks.core", payload=msgspec.Raw(b'"fine"'))
        assert memory.perform(right).version == 1

    def test_a_fact_of_a_user_is_never_taken_for_a_block(self, memory: Memory, ada: ScopedMemory) -> None:
        hull = memory.scope(project="hull")
        hull.set("blocks.core", 5)
        ada.set("blocks.diary", "- Keeps bees")
        assert ada.blocks.list(scope="all") == [] and ada.blocks.recall("bees") == []
        assert [fact.key for fact in ada.list()] == ["blocks.diary"]
        assert [fact.value for fact in hull.list("blocks")] == [5]
        block = ada.blocks.update("archival", "- Keeps bees", expected_updated_at=None)
        assert ada.blocks.list(scope="all") == [block] and len(ada.blocks.recall("bees")) == 1
        assert [fact.key for fact in ada.list()] == ["blocks.diary"]
        assert [fact.key for fact in ada.list(internal=True)] == ["blocks.archival", "blocks.diary"]
        assert [fact.key for fact in ada.list(internal=True, after="blocks.archival")] == ["blocks.diary"]

    def test_stamps_increase_after_a_delete_an_erasure_and_a_clock_set_back(
        self, memory: Memory, clock: FakeClock
    ) -> None:
        blocks = memory.scope(user="ada").blocks
        stamps = [_write(blocks, "core", "one").updated_at]
        blocks.delete("core")
        stamps.append(_write(blocks, "core", "two").updated_at)
        clock.advance(-3_600)
        stamps.append(_write(blocks, "core", "three").updated_at)
        memory.erase(user="ada")
        stamps.append(_write(blocks, "core", "four").updated_at)
        assert stamps == sorted(set(stamps))
        for stamp in stamps[:-1]:
            assert_raises(Conflict, blocks.update, "core", "five", expected_updated_at=stamp)
        assert blocks.update("core", "five", expected_updated_at=stamps[-1]).content == "five"

    def test_history_holds_every_text_and_undo_brings_the_one_before_back(self, memory: Memory) -> None:
        blocks = memory.scope(user="ada").blocks
        with pytest.raises(NotFound, match="was never written"):
            blocks.undo("core", expected_updated_at=None)
        one = _write(blocks, "core", "one")
        with pytest.raises(NotFound, match="Delete it instead"):
            blocks.undo("core", expected_updated_at=one.updated_at)
        blocks.delete("core")
        assert_raises(Conflict, blocks.undo, "core", expected_updated_at=one.updated_at)
        one = blocks.undo("core", expected_updated_at=None)
        two = _write(blocks, "core", "two")
        assert_raises(Conflict, blocks.undo, "core", expected_updated_at=one.updated_at)
        assert blocks.get("core") == two
        back = blocks.undo("core", expected_updated_at=two.updated_at)
        assert (back.content, back.id) == ("one", one.id)
        assert back.updated_at > two.updated_at
        again = blocks.undo("core", expected_updated_at=back.updated_at.isoformat())
        assert again.content == "two"
        blocks.delete("core")
        assert_raises(Conflict, blocks.undo, "core", expected_updated_at=again.updated_at)
        restored = blocks.undo("core", expected_updated_at=None)
        assert restored.content == "two"
        assert_raises(Conflict, blocks.undo, "core", expected_updated_at=None)
        assert [(one.change, one.value) for one in blocks.history("core")] == [
            ("set", "one"), ("deleted", None), ("set", "one"),
            ("set", "two"), ("set", "one"), ("set", "two"), ("deleted", None), ("set", "two"),
        ]  # fmt: skip
        assert all(finding.ok for finding in memory.inspect())

    def test_a_failed_write_changes_nothing(self, memory: Memory, store: Store) -> None:
        blocks: Any = memory.scope(user="ada").blocks
        block = _write(blocks, "core", "one")
        with unchanged(store):
            for content in ("x" * 4_001, "a\0b", "\ud800", None, 5, ["x"], b"x"):
                assert_raises(UsageError, blocks.update, "core", content, expected_updated_at=block.updated_at)
            for stamp in (None, block.updated_at - timedelta(seconds=1)):
                assert_raises(Conflict, blocks.update, "core", "two", expected_updated_at=stamp)
            assert_raises(Conflict, blocks.delete, "core", expected_updated_at=block.updated_at - timedelta(seconds=1))
        assert blocks.update("core", "two", expected_updated_at=block.updated_at).content == "two"

    def test_several_blocks_are_written_together_or_not_at_all(self, memory: Memory, store: Store) -> None:
        ada = memory.scope(user="ada")
        core = _write(ada.blocks, "core", "one")

        def both(core_stamp: datetime, archival_stamp: datetime | None) -> WriteFacts:
            return WriteFacts(
                scope=ada.scope,
                writes=(
                    update_effect(ada.scope, "core", "two", memory.limits, expected_updated_at=core_stamp),
                    update_effect(ada.scope, "archival", "heron", memory.limits, expected_updated_at=archival_stamp),
                ),
            )

        with unchanged(store):
            assert_raises(Conflict, memory.perform, both(core.updated_at, core.updated_at))
        memory.perform(both(core.updated_at, None))
        assert _contents(ada.blocks.list()) == ["two", "heron"]

    def test_a_write_under_an_idempotency_key_happens_once(self, memory: Memory) -> None:
        blocks = memory.scope(user="ada").blocks
        one = blocks.update("core", "one", expected_updated_at=None, idempotency_key="k")
        assert blocks.update("core", "one", expected_updated_at=None, idempotency_key="k") == one
        with pytest.raises(IdempotencyMismatch):
            blocks.update("core", "one", expected_updated_at=one.updated_at, idempotency_key="k")
        assert len(blocks.history("core")) == 1
        assert blocks.update("core", "two", expected_updated_at=one.updated_at, idempotency_key="l").content == "two"

    def test_the_ledger_says_who_wrote_and_who_looked(self, memory: Memory) -> None:
        lena = memory.acting_as("lena", policy=Policy.of(allow=("memory.read", "memory.write")), door="rest")
        _write(lena.scope(user="ada").blocks, "archival", NOTES)
        _write(lena.scope(user="ada", agent="mail").blocks, "archival", AGENT_NOTES)
        lena.scope(user="ada").blocks.recall("orchard", agent="mail")
        memory.settle()
        lena.scope(user="ada").blocks.delete("archival")
        told = [(event.actor, event.door, event.effect, event.scope, event.key) for event in memory.ledger.events()]
        assert told == [
            ("lena", "rest", "set_fact", "user:ada", "blocks.archival"),
            ("lena", "rest", "set_fact", "user:ada/agent:mail", "blocks.archival"),
            ("lena", "rest", "recall_blocks", "user:ada", "blocks.archival"),
            ("lena", "rest", "delete_fact", "user:ada", "blocks.archival"),
        ]
        recall = next(event for event in memory.ledger.events() if event.effect == "recall_blocks")
        assert recall.detail["agent"] == "mail"
        assert sorted(recall.detail["results"]) == ["agent:1", "user:1"]
        assert memory.ledger.verify().ok
        assert all(finding.ok for finding in memory.inspect())

    def test_an_actor_without_permission_neither_reads_nor_writes(self, memory: Memory) -> None:
        ada = memory.scope(user="ada").blocks
        core = _write(ada, "core", "one")
        _write(ada, "archival", NOTES)
        _write(memory.scope(user="ada", agent="mail").blocks, "archival", AGENT_NOTES)
        reader = memory.acting_as("reader", policy=Policy.of(allow=("memory.read",))).scope(user="ada").blocks
        assert_raises(Denied, reader.update, "core", "two", expected_updated_at=core.updated_at)
        assert_raises(Denied, reader.delete, "core")
        assert_raises(Denied, reader.undo, "archival", expected_updated_at=None)
        assert reader.get("core") == core
        assert len(reader.recall("orchard", agent="mail")) == 2
        writer = memory.acting_as("writer", policy=Policy.of(allow=("memory.write",))).scope(user="ada").blocks
        for look in (
            lambda: writer.get("core"), writer.list, lambda: writer.list(scope="all"), lambda: writer.recall("orchard"),
            lambda: writer.history("core"),
        ):  # fmt: skip
            assert_raises(Denied, look)
        assert writer.update("core", "two", expected_updated_at=core.updated_at).content == "two"

    def test_a_recall_needs_the_right_to_read_each_archive(self, memory: Memory) -> None:
        _write(memory.scope(user="ada").blocks, "archival", NOTES)
        _write(memory.scope(user="ada", agent="mail").blocks, "archival", AGENT_NOTES)
        _write(memory.scope(user="bob").blocks, "archival", "- Orchard of Bob")
        rules = (
            Rule("allow", "memory.read", Scope.of(user="ada")),
            Rule("deny", "memory.read", Scope.of(user="ada", agent="mail")),
        )
        own = memory.acting_as("ada", policy=Policy(rules=rules[:1]))
        assert len(own.scope(user="ada").blocks.recall("orchard", agent="mail")) == 2
        assert_raises(Denied, own.scope(user="bob").blocks.recall, "orchard")
        narrowed = memory.acting_as("ada", policy=Policy(rules=rules)).scope(user="ada").blocks
        assert_raises(Denied, narrowed.recall, "orchard", agent="mail")
        assert_raises(Denied, narrowed.list, scope="all")
        closed = Policy(rules=rules[:1], access={"blocks.archival": "none"})
        without = memory.acting_as("ada", policy=closed).scope(user="ada").blocks
        _write(memory.scope(user="ada", agent="mail").blocks, "core", "- Sorts by day")
        assert_raises(Denied, without.recall, "orchard")
        assert _contents(without.list(scope="all")) == ["- Sorts by day"]

    def test_a_quota_counts_blocks_like_facts(self, memory: Memory) -> None:
        policy = Policy.of(allow=("memory",), quota=Quota(writes=2))
        blocks = memory.acting_as("lena", policy=policy).scope(user="ada").blocks
        _write(blocks, "core", "one")
        _write(blocks, "core", "two")
        assert_raises(QuotaExceeded, _write, blocks, "core", "three")
        assert present(blocks.get("core")).content == "two"

    def test_a_write_that_waits_for_approval_happens_when_it_is_approved(self, memory: Memory) -> None:
        asking = memory.acting_as("agent:x", policy=Policy.of(allow=("memory.read",), approve=("memory.write",)))
        blocks = asking.scope(user="ada").blocks
        with pytest.raises(ApprovalRequired) as waits:
            blocks.update("core", "one", expected_updated_at=None)
        assert blocks.get("core") is None
        with pytest.raises(LimitExceeded):  # what can never be kept need not wait
            blocks.update("core", "x" * 4_001, expected_updated_at=None)
        memory.approvals.approve(waits.value.approval)
        assert present(blocks.get("core")).content == "one"

    def test_blocks_go_with_their_user(self, memory: Memory) -> None:
        for ids in ({"user": "ada"}, {"user": "ada", "agent": "mail"}, {"user": "bob"}):
            for block in ("core", "archival"):
                _write(memory.scope(**ids).blocks, block, "heron")
        assert memory.erase(user="ada").removed["facts"] == 4
        ada, bob = memory.scope(user="ada").blocks, memory.scope(user="bob").blocks
        assert ada.list(scope="all") == ada.recall("heron", agent="mail") == ada.history("core") == []
        assert len(bob.list(scope="all")) == 2
        assert len(bob.recall("heron")) == 1

    def test_blocks_travel_in_an_export(self, memory: Memory, elsewhere: Memory, tmp_path: Path) -> None:
        _write(elsewhere.scope(user="ada").blocks, "core", "- Keeps bees")
        _write(elsewhere.scope(user="ada", agent="mail").blocks, "archival", AGENT_NOTES)
        assert elsewhere.export(tmp_path / "x.jsonl") == 2
        memory.import_file(tmp_path / "x.jsonl")
        ada = memory.scope(user="ada").blocks
        assert _contents(ada.list(scope="all")) == ["- Keeps bees", AGENT_NOTES]
        assert _lines_of(ada.recall("ferry", agent="mail")) == [("agent", 2)]
        assert all(finding.ok for finding in memory.inspect())

    def test_an_import_brings_no_block_that_could_not_be_written(
        self, memory: Memory, elsewhere: Memory, store: Store, tmp_path: Path
    ) -> None:
        _write(elsewhere.scope(user="ada").blocks, "core", "- Keeps bees")
        elsewhere.export(tmp_path / "x.jsonl")
        good = (tmp_path / "x.jsonl").read_bytes()
        with unchanged(store):
            for wrong in (b'"' + b"x" * 4_001 + b'"', b"5", b"{}"):
                (tmp_path / "y.jsonl").write_bytes(good.replace(b'"- Keeps bees"', wrong))
                assert_raises(UsageError, memory.import_file, tmp_path / "y.jsonl")
        memory.import_file(tmp_path / "x.jsonl")
        assert present(memory.scope(user="ada").blocks.get("core")).content == "- Keeps bees"

    def test_a_recall_asks_to_read_each_archive_that_it_searches(self, memory: Memory) -> None:
        _write(memory.scope(user="ada").blocks, "archival", "heron")
        effect = RecallBlocks(scope=Scope.of(user="ada"), query="heron", agent="mail")
        assert [(one[0], str(one[1]), one[2]) for one in effect.demands()] == [
            ("memory.read", "user:ada", "blocks.archival"),
            ("memory.read", "user:ada/agent:mail", "blocks.archival"),
        ]
        assert _lines_of(memory.perform(effect)) == [("user", 1)]

    def test_another_program_sees_a_block_at_once(self, memory: Memory, second: Memory) -> None:
        here, there = memory.scope(user="ada").blocks, second.scope(user="ada").blocks
        for number in range(3):
            block = _write(here, "archival", f"heron {number}")
            assert there.get("archival") == block
            assert [match.content for match in there.recall("heron")] == [f"heron {number}"]

    @requires(Capability.RESTART)
    def test_blocks_are_there_after_a_restart(self, memory: Memory, reopen: Callable[[], Memory]) -> None:
        block = _write(memory.scope(user="ada").blocks, "archival", NOTES)
        again = reopen().scope(user="ada").blocks
        assert again.get("archival") == block
        assert _lines_of(again.recall("cider")) == [("user", 1)]
        assert again.update("archival", "new", expected_updated_at=block.updated_at.astimezone(UTC)).content == "new"
