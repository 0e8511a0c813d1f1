"""Blocks beyond one thread and one handle: asyncio, programs under a narrower policy, and what a list costs."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import apsw
import pytest

import memoranda
from memoranda import AsyncMemory, Policy, Rule, Scope
from memoranda.api.blocks import Blocks
from memoranda.store.sqlite.dialect import SQL


def test_every_call_can_be_awaited() -> None:
    async def main() -> None:
        async with await AsyncMemory.open(":memory:") as memory:
            blocks = memory.scope(user="ada").blocks
            for name, _ in inspect.getmembers(Blocks, inspect.isfunction):
                assert name.startswith("_") or inspect.iscoroutinefunction(getattr(blocks, name)), name
            core = await blocks.update("core", "- Plays chess", expected_updated_at=None)
            assert await blocks.get("core") == core
            with pytest.raises(memoranda.Conflict):
                await blocks.update("core", "- Plays go", expected_updated_at=None)
            await blocks.update("archival", "- Won on Sunday", expected_updated_at=None)
            assert [match.line_number for match in await blocks.recall("Sunday")] == [1]
            assert len(await blocks.list(scope="all")) == 2
            assert await blocks.delete("core", expected_updated_at=core.updated_at)

    asyncio.run(main())


def test_a_handle_of_one_user_reaches_no_other() -> None:
    with memoranda.open(":memory:") as memory:
        for user in ("ada", "bob"):
            memory.scope(user=user).blocks.update("core", f"- {user}", expected_updated_at=None)
            memory.scope(user=user).blocks.update("archival", "heron", expected_updated_at=None)
            memory.scope(user=user, agent="mail").blocks.update("core", f"- {user} mail", expected_updated_at=None)
        own = Policy(rules=tuple(Rule("allow", name, Scope.of(user="ada")) for name in ("memory.read", "memory.write")))
        handle = memory.acting_as("ada", policy=own, door="rest")
        ada, bob = handle.scope(user="ada").blocks, handle.scope(user="bob").blocks
        assert [block.content for block in ada.list(scope="all")] == ["- ada", "heron", "- ada mail"]
        assert len(ada.recall("heron", agent="mail")) == 1
        stamp = memory.scope(user="bob").blocks.get("core")
        for reach in (
            lambda: bob.get("core"),
            bob.list,
            lambda: bob.list(scope="all"),
            lambda: bob.recall("heron"),
            lambda: bob.history("core"),
            lambda: bob.delete("core"),
            lambda: bob.update("core", "mine", expected_updated_at=stamp.updated_at if stamp else None),
            lambda: handle.scope(tenant="other", user="ada").blocks.list(scope="all"),
        ):
            with pytest.raises(memoranda.Denied):
                reach()
        assert memory.scope(user="bob").blocks.get("core") == stamp


def test_the_blocks_of_a_users_agents_are_found_by_their_key(tmp_path: Path) -> None:
    """One user's list must not walk through all that this user remembers, nor through other users' blocks."""
    path = tmp_path / "memory.db"
    with memoranda.open(path) as memory:
        memory.scope(user="ada", agent="mail").blocks.update("core", "x", expected_updated_at=None)
    connection = apsw.Connection(str(path))
    plan = connection.execute(
        f"EXPLAIN QUERY PLAN {SQL['list_facts_named']}", ("default", "blocks.core", "user:ada/", "user:ada0", -1)
    ).fetchall()
    connection.close()
    said = " ".join(str(row[3]) for row in plan)
    assert "USING INDEX facts_by_key (tenant=? AND key=? AND scope>? AND scope<?)" in said
    assert "TEMP B-TREE" not in said


def test_a_damaged_value_is_seen_by_the_inspection_and_not_by_a_traceback(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with memoranda.open(path) as memory:
        memory.scope(user="ada").blocks.update("core", "one", expected_updated_at=None)
        assert all(finding.ok for finding in memory.inspect())
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE facts SET payload = ? WHERE key = 'blocks.core'", (b'"two"',))
    connection.close()
    with memoranda.open(path) as memory:
        assert not all(finding.ok for finding in memory.inspect())
