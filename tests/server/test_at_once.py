"""Small writes are done on the event loop where that holds up nobody, and everything else in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing

import apsw
import httpx
import pytest

import memoranda
from memoranda.model.ids import SystemIds
from memoranda.server.app import create_app
from memoranda.server.auth.keys import create_key
from memoranda.server.settings import Settings
from memoranda.server.threads import _SMALL
from memoranda.store.sqlite.commit import SOON
from memoranda.store.sqlite.company import Company

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


class Desk:
    """An application on a file, the key of a user, and where that user's facts were written."""

    def __init__(self, path) -> None:
        self.path = path
        self.ids = WatchedIds()
        self.memory = memoranda.open(path, ids=self.ids)
        self.key = create_key(self.memory, tenant="default", user="ada", role="member").token
        self.app = create_app(Settings(sleep=False), self.memory)

    def commits_take(self, seconds: float) -> None:
        """Make the store believe that its disk is so slow."""
        company = Company()
        for _ in range(2):
            company.committed(together=1, meanwhile=0, seconds=seconds)
        self.memory._gate._store._writer._company = company

    def ask(self, talk: Callable[[httpx.AsyncClient], Awaitable[None]]) -> None:
        async def run() -> None:
            headers = {"Authorization": f"Bearer {self.key}"}
            transport = httpx.ASGITransport(self.app)
            async with (
                self.app.lifespan(),
                httpx.AsyncClient(transport=transport, base_url="http://m", headers=headers) as client,
            ):
                await client.get(f"{FACTS}/none")  # that the key is used is noted, once an hour
                self.commits_take(SOON / 2)
                self.ids.threads.clear()
                await talk(client)

        asyncio.run(run())

    def wrote_on_the_loop(self) -> bool:
        """Say where the last fact was written."""
        return self.ids.threads.pop() == threading.main_thread().name


@pytest.fixture
def desk(tmp_path):
    desk = Desk(tmp_path / "memory.db")
    yield desk
    desk.memory.close()


async def put(client: httpx.AsyncClient, path: str, body: object) -> httpx.Response:
    answer = await client.put(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer


def test_a_lone_small_write_is_done_on_the_loop(desk: Desk):
    async def talk(client: httpx.AsyncClient) -> None:
        await put(client, f"{FACTS}/tea", {"value": "green"})
        assert desk.wrote_on_the_loop()
        block = await put(client, CORE, {"content": "likes tea", "expected_updated_at": None})
        assert desk.wrote_on_the_loop()
        again = {"content": "likes green tea", "expected_updated_at": block.json()["updated_at"]}
        await put(client, CORE, again)
        stale = await client.put(CORE, json=again)
        assert (stale.status_code, stale.json()["code"]) == (409, "conflict")

    desk.ask(talk)
    ada = desk.memory.scope(user="ada")
    assert ada.value("tea") == "green"
    assert ada.blocks.get("core").content == "likes green tea"
    assert desk.memory.ledger.verify().ok


def test_a_large_one_is_done_in_a_thread(desk: Desk):
    async def talk(client: httpx.AsyncClient) -> None:
        await put(client, f"{FACTS}/large", {"value": "x" * _SMALL})
        assert not desk.wrote_on_the_loop()
        await put(client, f"{FACTS}/small", {"value": "x" * (_SMALL // 2)})
        assert desk.wrote_on_the_loop()

    desk.ask(talk)
    assert len(desk.memory.scope(user="ada").value("large")) == _SMALL


def test_beside_another_request_it_is_done_in_a_thread(desk: Desk):
    async def talk(client: httpx.AsyncClient) -> None:
        desk.app.state.metrics.in_flight += 1
        try:
            await put(client, f"{FACTS}/beside", {"value": 1})
            assert not desk.wrote_on_the_loop()
        finally:
            desk.app.state.metrics.in_flight -= 1
        await put(client, f"{FACTS}/alone", {"value": 1})
        assert desk.wrote_on_the_loop()

    desk.ask(talk)


def test_on_a_slow_disk_it_is_done_in_a_thread(desk: Desk):
    async def talk(client: httpx.AsyncClient) -> None:
        desk.commits_take(SOON * 2)
        await put(client, f"{FACTS}/slow", {"value": 1})
        assert not desk.wrote_on_the_loop()

    desk.ask(talk)
    assert desk.memory.scope(user="ada").value("slow") == 1


def test_while_another_process_writes_the_loop_goes_on_and_the_write_waits(desk: Desk):
    async def talk(client: httpx.AsyncClient) -> None:
        with closing(apsw.Connection(str(desk.path))) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = asyncio.create_task(put(client, f"{FACTS}/waits", {"value": 1}))
            while desk.app.state.metrics.in_flight == 0:
                await asyncio.sleep(0)
            assert (await client.get("/health")).status_code == 200
            assert not waiting.done()
            other.execute("ROLLBACK")
        await waiting
        assert not desk.wrote_on_the_loop()

    desk.ask(talk)
    assert desk.memory.scope(user="ada").value("waits") == 1


def test_who_may_not_write_is_refused_on_the_loop_as_in_a_thread(desk: Desk):
    desk.key = create_key(desk.memory, tenant="default", user="ada", role="reader").token

    async def talk(client: httpx.AsyncClient) -> None:
        refused = []
        for in_flight in (0, 1):
            desk.app.state.metrics.in_flight += in_flight
            answer = await client.put(f"{FACTS}/tea", json={"value": "green"})
            desk.app.state.metrics.in_flight -= in_flight
            refused.append((answer.status_code, answer.json()["code"], answer.json()["detail"]))
        assert refused[0] == refused[1]
        assert refused[0][:2] == (403, "denied")

    desk.ask(talk)
    assert desk.memory.scope(user="ada").get("tea") is None
    denied = [event for event in desk.memory.ledger.events() if event.decision == "deny"]
    assert len(denied) == 2
