"""Three servers on one database of PostgreSQL, behind one address: any of them answers, and one may die."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from round_robin import RoundRobin

import memoranda
from memoranda.server.auth.keys import create_key, revoke_key

pytestmark = pytest.mark.capability("several servers", backend="postgres")
API = "/api/v1"
WRITERS = 6


@pytest.fixture
def servers(database: str, start: Callable[..., Any]) -> list[Any]:
    """Three servers; the first one makes the administrator's key."""
    return [start(db=database, MEMORANDA_RATE="0") for _ in range(3)]


def test_what_is_written_through_one_is_read_through_the_others(servers: list[Any], database: str):
    key = servers[0].key
    first, second, third = (server.client(key) for server in servers)
    for number, (writer, reader) in enumerate([(first, second), (second, third), (third, first)]):
        put = writer.put(f"{API}/memory/facts/tide", json={"value": number})
        assert put.json()["version"] == number + 1
        assert reader.get(f"{API}/memory/facts/tide").json()["value"] == number
        text = f"The ferry number {number} leaves at seven"
        assert writer.post(f"{API}/remember", json={"content": text, "collection": "notes"}).status_code == 201
        found = reader.post(f"{API}/collections/notes/recall", json={"query": f"ferry number {number}"}).json()
        assert text in [one["content"] for one in found["results"]]
    stale = second.put(f"{API}/memory/facts/tide", json={"value": "late", "expect": 1})
    assert (stale.status_code, stale.json()["actual"]) == (409, 3)
    with memoranda.open(database) as memory:
        made = create_key(memory, tenant="default", user="ola", role="member")
        assert third.get(f"{API}/memory/facts", headers=bearer(made.token)).status_code == 200
        revoke_key(memory, made.key.id)
    assert {one.get(f"{API}/memory/facts", headers=bearer(made.token)).status_code for one in (first, second)} == {401}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.capability("several servers", backend="client")
def test_nothing_is_lost_when_one_of_them_is_killed(servers: list[Any], database: str):
    """Clients behind the address go on with the others; a request that may have arrived is done once."""
    acknowledged: dict[int, list[int]] = {number: [] for number in range(WRITERS)}
    enough, over = threading.Barrier(WRITERS + 1), threading.Event()

    def write(number: int) -> None:
        for turn in range(1, 500):
            if over.is_set() and turn > 10:
                return
            # Each goes through a new connection every few writes, as clients of many processes do.
            with memoranda.Client(balancer.address, servers[0].key, retries=5) as client:
                for part in range(3):
                    key = f"writer.{number}.turn.{turn}.{part}"
                    fact = client.facts.set(key, turn, idempotency_key=key)
                    acknowledged[number].append(fact.version)
            if turn == 3:
                enough.wait(60)

    with RoundRobin([server.port for server in servers]) as balancer, ThreadPoolExecutor(WRITERS) as threads:
        working = [threads.submit(write, number) for number in range(WRITERS)]
        enough.wait(60)
        servers[1].process.send_signal(signal.SIGKILL)
        over.set()
        for one in working:
            one.result(60)
    with memoranda.open(database) as memory:
        own = memory.scope(user="admin")
        for number, versions in acknowledged.items():
            kept = [fact for fact in own.list(f"writer.{number}", limit=None) if fact.version == 1]
            assert len(kept) >= len(versions) >= 30
            assert set(versions) == {1}  # none was done twice
        assert memory.ledger.verify().ok
    # The control: it is the other two that answered.
    servers[1].process.wait()
    with RoundRobin([servers[1].port]) as nobody, memoranda.Client(nobody.address, servers[0].key, retries=0) as client:
        with pytest.raises(memoranda.Unavailable):
            client.facts.set("tide", "high")
