"""The async shell does what the sync memory does, without blocking the loop."""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import memoranda
from async_types import STUB, stub
from memoranda import AsyncMemory
from memoranda.api import aio
from memoranda.api.scoped import ScopedMemory


def test_every_call_of_a_scope_can_be_awaited() -> None:
    async def main() -> None:
        async with await AsyncMemory.open(":memory:") as memory:
            ada = memory.scope(user="ada")
            names = [name for name, _ in inspect.getmembers(ScopedMemory, inspect.isfunction) if name[0] != "_"]
            assert len(names) >= 9
            for name in names:
                is_awaited = inspect.iscoroutinefunction(getattr(ada, name))
                assert is_awaited != (name == "batch"), name

    asyncio.run(main())


def test_facts_definitions_batches_and_errors_work_as_in_sync() -> None:
    async def main() -> None:
        async with await AsyncMemory.open(":memory:") as memory:
            ada = memory.scope(user="ada")
            fact = await ada.set("language", "en")
            assert (await ada.set("language", "fr", expect=fact.version)).version == 2
            with pytest.raises(memoranda.Conflict) as conflict:
                await ada.set("language", "de", expect=1)
            assert conflict.value.actual == 2
            assert await ada.value("language") == "fr"

            await memory.definitions.create(
                name="Profile", slug="profile", schema={"type": "object", "properties": {"name": {"type": "string"}}}
            )
            with pytest.raises(memoranda.SchemaViolation):
                await ada.set("profile", {"name": 3})

            async with memory.batch() as batch:
                batch.set(ada, "a", 1)
                batch.set(ada, "b", 2)
            assert [fact.key for fact in await ada.list()] == ["a", "b", "language"]

            session = await ada.session("s1")
            await session.set("step", 1)
            await session.end()
            with pytest.raises(memoranda.ScopeEnded):
                await session.set("step", 2)

            receipt = await memory.erase(user="ada")
            assert receipt.removed["facts"] == 3
            assert (await memory.ledger.verify()).ok
            assert await memory.runs.list() == []

    asyncio.run(main())


def test_many_tasks_lose_no_update(tmp_path) -> None:
    async def main() -> int:
        async with await AsyncMemory.open(str(tmp_path / "m.db")) as memory:
            ada = memory.scope(user="ada")
            await ada.set("count", 0)
            await asyncio.gather(*(ada.update("count", lambda count: count + 1) for _ in range(40)))
            return await ada.value("count")

    assert asyncio.run(main()) == 40


def test_the_types_of_the_calls_are_those_of_the_sync_handles() -> None:
    assert STUB.read_text(encoding="utf-8") == stub(), "run `make reference`"


def test_every_handle_has_a_class_of_its_own_for_asyncio() -> None:
    async def main() -> None:
        async with await AsyncMemory.open(":memory:") as memory:
            ada = memory.scope(user="ada")
            handles = (memory, memory.acting_as("bo"), ada, await ada.session("s1"), memory.batch(), ada.batch())
            desks = (
                memory.approvals,
                memory.quarantine,
                memory.guard,
                memory.collections,
                memory.definitions,
                memory.ledger,
                memory.permissions,
            )
            made = [type(one).__name__ for one in (*handles, *desks, memory.roles, memory.runs, ada.blocks)]
            assert made[:4] == ["AsyncMemory", "AsyncMemory", "AsyncScopedMemory", "AsyncScopedMemory"]
            assert set(made) == {f"Async{kind.__name__}" for kind in vars(aio)["KINDS"]}  # not in its stub

    asyncio.run(main())


PROGRAM = """
import memoranda

async def main(memory: memoranda.AsyncMemory) -> None:
    ada = memory.scope(user="ada")
    fact = await ada.set("cup", {"size": 2})
    reveal_type(fact.version)
    reveal_type((await ada.recall("which cup?", collection="cups")).results)
    reveal_type(memory.definitions)
    batch = memory.batch()
    reveal_type(batch.set(ada, "cup", 1))
    await ada.set("cup", 1, exepct=2)
"""


def test_a_type_checker_sees_what_is_awaited_and_what_is_misspelt(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    said = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    ).stdout
    found = [one["message"] for one in json.loads(said)["generalDiagnostics"]]
    assert [one.partition(" is ")[2] for one in found[:-1]] == [
        '"int"',
        '"list[Match]"',
        '"AsyncDefinitions"',
        '"None"',
    ]
    assert "exepct" in found[-1]
