"""The async shell does what the sync memory does, without blocking the loop."""

from __future__ import annotations

import asyncio
import inspect

import pytest

import recollect
from recollect import AsyncMemory
from recollect.api.scoped import ScopedMemory


def test_every_call_of_a_scope_can_be_awaited() -> None:
    async def main() -> None:
        async with await AsyncMemory.open(":memory:") as memory:
            ada = memory.scope(user="ada")
            names = [name for name, _ in inspect.getmembers(ScopedMemory, inspect.isfunction) if name[0] != "_"]
            assert len(names) >= 9
            for name in names:
                assert inspect.iscoroutinefunction(getattr(ada, name)), name

    asyncio.run(main())


def test_facts_definitions_batches_and_errors_work_as_in_sync() -> None:
    async def main() -> None:
        async with await AsyncMemory.open(":memory:") as memory:
            ada = memory.scope(user="ada")
            fact = await ada.set("language", "en")
            assert (await ada.set("language", "fr", expect=fact.version)).version == 2
            with pytest.raises(recollect.Conflict) as conflict:
                await ada.set("language", "de", expect=1)
            assert conflict.value.actual == 2
            assert await ada.value("language") == "fr"

            await memory.definitions.create(
                name="Profile", slug="profile", schema={"type": "object", "properties": {"name": {"type": "string"}}}
            )
            with pytest.raises(recollect.SchemaViolation):
                await ada.set("profile", {"name": 3})

            async with memory.batch() as batch:
                batch.set(ada, "a", 1)
                batch.set(ada, "b", 2)
            assert [fact.key for fact in await ada.list()] == ["a", "b", "language"]

            session = await ada.session("s1")
            await session.set("step", 1)
            await session.end()
            with pytest.raises(recollect.ScopeEnded):
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
