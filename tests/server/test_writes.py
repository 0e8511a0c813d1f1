"""Small writes are done on the event loop of an idle server, and all others in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any

import apsw
import httpx
import pytest

import memoranda
from memoranda.model.clock import SystemIds
from memoranda.server.app import create_app
from memoranda.server.auth.keys import create_key
from memoranda.server.settings import Settings
from memoranda.server.thread_pool import _SMALL
from memoranda.store.sqlite.group_commit import SLOW_COMMIT, BatchWait

FACTS = "/api/v1/memory/facts"
CORE = "/api/v1/memory/blocks/core"


class WatchedIds(SystemIds):
    """Ids that know in which thread facts were given theirs, which happens inside their transaction."""

    def __init__(self) -> None:
        self.threads: list[str] = []

    def new(self, kind: str) -> str:
        if kind == "fact":
            self.threads.append(threading.current_thread().name)
        return super().new(kind)


class Site:
    """An application on a file, the key of a user, and where that user's facts were written."""

    def __init__(self, path) -> None:
        self.path = path
        self.ids = WatchedIds()
        self.memory = memoranda.open(path, ids=self.ids)
        self.key = create_key(self.memory, tenant="default", user="ada", role="member").token
        self.app: Any = create_app(Settings(sleep=False), self.memory)

    def commits_take(self, seconds: float) -> None:
        """Make the store believe that its disk is so slow."""
        company = BatchWait()
        for _ in range(2):
            company.note_commit(together=1, meanwhile=0, seconds=seconds)
        store: Any = self.memory._gate._store
        store._writer._batch_wait = company

    def ask(self, talk: Callable[[httpx.AsyncClient], Awaitable[None]]) -> None:
        async def run() -> None:
            headers = {"Authorization": f"Bearer {self.key}"}
            transport = httpx.ASGITransport(self.app)
            async with (
                self.app.lifespan(),
                httpx.AsyncClient(transport=transport, base_url="http://m", headers=headers) as client,
            ):
                await client.get(f"{FACTS}/none")  # that the key is used is noted, once an hour
                self.commits_take(SLOW_COMMIT / 2)
                self.ids.threads.clear()
                await talk(client)

        asyncio.run(run())

    def wrote_on_the_loop(self) -> bool:
        """Say where the last fact was written."""
        return self.ids.threads.pop() == threading.main_thread().name


@pytest.fixture
def site(tmp_path):
    site = Site(tmp_path / "memory.db")
    yield site
    site.memory.close()


async def put(client: httpx.AsyncClient, path: str, body: object) -> httpx.Response:
    answer = await client.put(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer


def test_a_lone_small_write_is_done_on_the_loop(site: Site):
    async def talk(client: httpx.AsyncClient) -> None:
        await put(client, f"{FACTS}/tea", {"value": "green"})
        assert site.wrote_on_the_loop()
        block = await put(client, CORE, {"content": "likes tea", "expected_updated_at": None})
        assert site.wrote_on_the_loop()
        again = {"content": "likes green tea", "expected_updated_at": block.json()["updated_at"]}
        await put(client, CORE, again)
        stale = await client.put(CORE, json=again)
        assert (stale.status_code, stale.json()["code"]) == (409, "conflict")

    site.ask(talk)
    ada = site.memory.scope(user="ada")
    assert ada.value("tea") == "green"
    block = ada.blocks.get("core")
    assert block is not None and block.content == "likes green tea"
    assert site.memory.ledger.verify().ok


def test_a_large_one_is_done_in_a_thread(site: Site):
    async def talk(client: httpx.AsyncClient) -> None:
        await put(client, f"{FACTS}/large", {"value": "x" * _SMALL})
        assert not site.wrote_on_the_loop()
        await put(client, f"{FACTS}/small", {"value": "x" * (_SMALL // 2)})
        assert site.wrote_on_the_loop()

    site.ask(talk)
    assert len(site.memory.scope(user="ada").value("large")) == _SMALL


def test_beside_another_request_it_is_done_in_a_thread(site: Site):
    async def talk(client: httpx.AsyncClient) -> None:
        site.app.state.metrics.in_flight += 1
        try:
            await put(client, f"{FACTS}/beside", {"value": 1})
            assert not site.wrote_on_the_loop()
        finally:
            site.app.state.metrics.in_flight -= 1
        await put(client, f"{FACTS}/alone", {"value": 1})
        assert site.wrote_on_the_loop()

    site.ask(talk)


def test_on_a_slow_disk_it_is_done_in_a_thread(site: Site):
    async def talk(client: httpx.AsyncClient) -> None:
        site.commits_take(SLOW_COMMIT * 2)
        await put(client, f"{FACTS}/slow", {"value": 1})
        assert not site.wrote_on_the_loop()

    site.ask(talk)
    assert site.memory.scope(user="ada").value("slow") == 1


def test_while_another_process_writes_the_loop_goes_on_and_the_write_waits(site: Site):
    async def talk(client: httpx.AsyncClient) -> None:
        with closing(apsw.Connection(str(site.path))) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = asyncio.create_task(put(client, f"{FACTS}/waits", {"value": 1}))
            while site.app.state.metrics.in_flight == 0:
                await asyncio.sleep(0)
            assert (await client.get("/health")).status_code == 200
            assert not waiting.done()
            other.execute("ROLLBACK")
        await waiting
        assert not site.wrote_on_the_loop()

    site.ask(talk)
    assert site.memory.scope(user="ada").value("waits") == 1


def test_who_may_not_write_is_refused_on_the_loop_as_in_a_thread(site: Site):
    site.key = create_key(site.memory, tenant="default", user="ada", role="reader").token

    async def talk(client: httpx.AsyncClient) -> None:
        refused = []
        for in_flight in (0, 1):
            site.app.state.metrics.in_flight += in_flight
            answer = await client.put(f"{FACTS}/tea", json={"value": "green"})
            site.app.state.metrics.in_flight -= in_flight
            refused.append((answer.status_code, answer.json()["code"], answer.json()["detail"]))
        assert refused[0] == refused[1]
        assert refused[0][:2] == (403, "denied")

    site.ask(talk)
    assert site.memory.scope(user="ada").get("tea") is None
    denied = [event for event in site.memory.ledger.events() if event.decision == "deny"]
    assert len(denied) == 2
