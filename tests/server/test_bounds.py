"""Answers have a bound in bytes, however much there is; exports are sent as they are read, and leave nothing behind."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import random
import signal
import socket
import threading
import time
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

import memoranda
from memoranda.server import exports
from memoranda.server.middleware import compress

API = "/api/v1"
FACTS = f"{API}/memory/facts"
MEGABYTE = 1_000_000
PAGE_BYTES = 1_048_576
_random = random.Random(7)


def noise(size: int = MEGABYTE) -> str:
    """Text that gzip has to work for."""
    return _random.randbytes(size // 2).hex()


def peak_memory(process: int) -> int:
    """Return the most bytes that a process ever had in memory."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1_024


def pages(client: httpx.Client, path: str, items: str, **query: object) -> list[list[dict]]:
    """Return every page of a list."""
    found, after = [], None
    while True:
        asked = {**query, **({"after": after} if after else {})}
        answer = client.get(path, params=asked, headers={"Accept-Encoding": "identity"})
        assert answer.status_code == 200, answer.text
        found.append(answer.json()[items])
        after = answer.json()["next"]
        if after is None:
            return found


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A database with 40 revisions of a megabyte at one key, and 20 facts of that size."""
    db = tmp_path_factory.mktemp("large") / "memory.db"
    with memoranda.open(db, durability="normal") as memory:
        ada = memory.scope(user="ada")
        for _ in range(40):
            ada.set("big", noise())
        for number in range(20):
            ada.set(f"many.{number:02}", noise())
    return db


@pytest.fixture(scope="module")
def server(large, serving):
    """A server over it."""
    with serving(large) as one:
        yield one


def test_a_long_history_comes_in_pages_of_bounded_bytes_and_memory(server):
    ada = server.client(server.key_for("ada"))
    ada.get(f"{FACTS}/nothing")
    before = peak_memory(server.process.pid)
    found = pages(ada, f"{FACTS}/big/history", "revisions")
    assert [one["version"] for page in found for one in page] == list(range(1, 41))
    assert max(len(json.dumps(page)) for page in found) < 2 * PAGE_BYTES
    # All of it at once takes several times its 40 MB.
    assert peak_memory(server.process.pid) - before < 60 * MEGABYTE


def test_every_list_that_can_be_large_is_bounded(server):
    ada = server.client(server.key_for("ada"))
    found = pages(ada, FACTS, "facts", limit=1_000)
    assert [one["key"] for page in found for one in page] == ["big", *(f"many.{number:02}" for number in range(20))]
    assert all(len(page) == 1 for page in found)  # two do not fit, and one always comes
    then = pages(ada, FACTS, "facts", limit=1_000, as_of="2999-01-01", prefix="many")
    assert len([one for page in then for one in page]) == 20


def test_others_are_served_while_a_large_answer_is_made(server):
    """To compress it on the event loop held up everybody for as long as that takes."""
    sent = noise(10 * MEGABYTE).encode()
    begun = time.perf_counter()
    zlib.compress(sent, 6)
    compressing = 4 * (time.perf_counter() - begun)  # of the whole history
    ada = server.client(server.key_for("ada"))
    waited, over = [], threading.Event()

    def look() -> None:
        with httpx.Client(base_url=server.address, timeout=120) as anybody:
            while not over.is_set():
                begun = time.perf_counter()
                assert anybody.get("/health").status_code == 200
                waited.append(time.perf_counter() - begun)

    looking = threading.Thread(target=look)
    looking.start()
    answer = ada.get(f"{FACTS}/big/history")
    over.set()
    looking.join()
    assert answer.headers["content-encoding"] == "gzip"
    assert waited
    assert max(waited) < compressing / 2


def test_what_is_large_is_compressed_beside_the_event_loop():
    body, sent, turns = noise(8 * MEGABYTE).encode(), [], 0

    async def app(scope, receive, send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]})
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"end", "more_body": False})

    async def note(message) -> None:
        sent.append(message)

    async def run() -> None:
        nonlocal turns
        handler = SimpleNamespace(opt={})
        scope: Any = {"type": "http", "headers": [(b"accept-encoding", b"gzip")], "route_handler": handler}
        receive: Any = None
        answering = asyncio.ensure_future(compress(app)(scope, receive, note))
        while not answering.done():
            turns += 1
            await asyncio.sleep(0.001)
        await answering

    asyncio.run(run())
    assert turns > 5  # on the loop itself there would be one, before and after
    assert gzip.decompress(b"".join(one["body"] for one in sent[1:])) == body + b"end"
    assert dict(sent[0]["headers"]) == {b"content-encoding": b"gzip", b"vary": b"Accept-Encoding"}


def test_pages_give_everything_once_while_others_write(served):
    writer = served.client(served.key_for("paged"))
    for number in range(30):
        assert writer.put(f"{FACTS}/item.{number:02}", json={"value": "x" * 100_000}).status_code == 200
    over = threading.Event()

    def write() -> None:
        number = 0
        while not over.is_set():
            number += 1
            writer.put(f"{FACTS}/item.{number % 30:02}", json={"value": "y" * 100_000})
            writer.put(f"{FACTS}/other.{number}", json={"value": 1})

    writing = threading.Thread(target=write)
    writing.start()
    try:
        reader = served.client(served.key_for("paged"))
        found = pages(reader, FACTS, "facts", prefix="item")
        history = pages(reader, f"{FACTS}/item.00/history", "revisions")
    finally:
        over.set()
        writing.join()
    assert len(found) > 1
    assert [one["key"] for page in found for one in page] == [f"item.{number:02}" for number in range(30)]
    versions = [one["version"] for page in history for one in page]
    assert versions == list(range(1, len(versions) + 1))


def test_a_caller_to_whom_keys_are_closed_gets_the_others_page_by_page(tmp_path):
    with memoranda.open(tmp_path / "memory.db") as memory:
        for number in range(60):
            memory.scope(user="ada").set(f"{'open' if number % 3 else 'shut'}.{number:02}", "x" * 1_000)
        narrow = memory.narrowed(memoranda.Policy.of(allow=("memory",), access={"shut": "none", "*": "read"}))
        ada = narrow.scope(user="ada")
        listed = []
        while portion := ada.list(after=listed[-1].key if listed else "", max_bytes=4_000):
            assert len(portion) <= 4
            listed += portion
        assert [fact.key for fact in listed] == [fact.key for fact in ada.list()]
        assert len(listed) == 40


def test_the_blocks_of_many_agents_come_in_pages(served):
    with memoranda.open(served.db) as memory:
        for number in range(12):
            blocks = memory.scope(user="many", agent=f"a{number:02}").blocks
            blocks.update("archival", "x" * 7_000, expected_updated_at=None)
    client = served.client(served.key_for("many"))
    answer = client.get(f"{API}/memory/blocks", params={"scope": "agent", "limit": 5})
    seen = [one["agent_id"] for one in answer.json()]
    while "next" in answer.links:
        answer = client.get(httpx.URL(f"{served.address}{API}/memory/blocks").join(answer.links["next"]["url"]))
        seen += [one["agent_id"] for one in answer.json()]
    assert seen == [f"a{number:02}" for number in range(12)]
    with memoranda.Client(served.address, api_key=served.key_for("many")) as through_client:
        assert [one.agent_id for one in through_client.memory.list(scope="agent")] == seen


def test_a_recall_too_large_for_one_answer_goes_on(served):
    someone = served.client(served.key_for("reader"))
    for number in range(30):
        body = {"content": f"note {number} " + "x " * 30_000}
        assert someone.post(f"{API}/collections/long/remember", json=body).status_code == 201
    asked = {"query": "", "limit": 30}
    first = someone.post(f"{API}/collections/long/recall", json=asked).json()
    assert 0 < first["count"] < 30 and first["next"]
    rest, after = first["results"], first["next"]
    while after:
        answer = someone.post(f"{API}/collections/long/recall", json=asked, params={"after": after}).json()
        rest += answer["results"]
        after = answer.get("next")
    assert [one["content"].split()[1] for one in rest] == [str(number) for number in range(29, -1, -1)]


# exports


def admin_key(server) -> str:
    return server.key_for("root", role="admin")


def begin_export(server, key: str) -> socket.socket:
    """Ask for an export and read a little of it."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.connect(("127.0.0.1", server.port))
    connection.settimeout(60)
    head = f"GET {API}/export HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n"
    connection.sendall(head.encode())
    assert connection.recv(12) == b"HTTP/1.1 200"
    return connection


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_an_export_that_is_not_taken_is_not_read_into_memory_nor_to_a_file(large, tmp_path, start):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    server = start(db=large, TMPDIR=str(temporary))
    before = peak_memory(server.process.pid)
    key = admin_key(server)
    connection = begin_export(server, key)
    time.sleep(0.5)
    assert files_below(temporary) == []
    # Measured: 35 to 41 megabytes, 6 of them for any first request.
    assert peak_memory(server.process.pid) - before < 45 * MEGABYTE
    connection.close()
    # The process can send another one at once: the first has let go of its snapshot.
    lines = server.client(key).get(f"{API}/export").content.splitlines()
    assert sum(line.startswith(b'{"fact":') for line in lines) == 21
    assert files_below(temporary) == []


def test_a_killed_export_leaves_nothing_and_leftovers_of_earlier_versions_go(large, tmp_path, start):
    temporary = tmp_path / "temporary"
    leftover = temporary / "recollect-export-abc123"
    leftover.mkdir(parents=True)
    (leftover / "export.jsonl").write_text('{"memoranda":1}')
    (temporary / "somebody-elses.txt").write_text("stays")
    server = start(db=large, TMPDIR=str(temporary))
    connection = begin_export(server, admin_key(server))
    server.stop(by=signal.SIGKILL)
    connection.close()
    start(db=large, TMPDIR=str(temporary))
    assert files_below(temporary) == [temporary / "somebody-elses.txt"]


def test_four_exports_are_sent_at_a_time_and_one_that_is_left_makes_room(server):
    key = admin_key(server)
    taken = [begin_export(server, key) for _ in range(4)]
    try:
        admin = server.client(key)
        assert admin.get(f"{API}/export").status_code == 503
        taken.pop().close()
        deadline = time.monotonic() + 60
        while (answer := admin.get(f"{API}/export", params={"scope": "user:nobody"})).status_code == 503:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert answer.status_code == 200
    finally:
        for connection in taken:
            connection.close()


def test_a_stalled_export_ends_at_its_deadline(large, server, start):
    hurried = start(db=large, MEMORANDA_EXPORT_TIMEOUT="1")
    with begin_export(hurried, admin_key(hurried)) as late, begin_export(server, admin_key(server)) as patient:
        time.sleep(2)
        # The response lacks its end, so that it cannot be mistaken for a complete one.
        assert not last_bytes(late).endswith(b"0\r\n\r\n")
        assert last_bytes(patient).endswith(b"0\r\n\r\n")


def last_bytes(connection: socket.socket) -> bytes:
    """Return the end of an answer, after which it or its connection is over."""
    last = b""
    while not last.endswith(b"\r\n0\r\n\r\n") and (part := connection.recv(1_048_576)):
        last = (last + part)[-16:]
    return last


def test_only_our_own_leftovers_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    target = tmp_path / "elsewhere"
    target.mkdir()
    (target / "kept").write_text("x")
    os.symlink(target, tmp_path / "recollect-export-link")
    (tmp_path / "recollect-export-file").write_text("x")
    (tmp_path / "recollect-export-old").mkdir()
    exports.remove_old_exports()
    assert (target / "kept").exists()
    assert not (tmp_path / "recollect-export-old").exists()
