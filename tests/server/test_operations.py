from __future__ import annotations

import asyncio
import gzip
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from processes import run_process

import memoranda
from memoranda.server.app import create_app
from memoranda.server.launcher import _listen
from memoranda.server.settings import Settings

FACTS = "/api/v1/memory/facts"


def test_health_and_readiness_need_no_key(served):
    for path in ("/health", "/ready"):
        answer = httpx.get(served.address + path)
        assert (answer.status_code, answer.json()["status"]) == (200, "ok")
    assert httpx.get(served.address + FACTS).status_code == 401


BROWSERS = [
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
    "application/json;q=0.1, TEXT/HTML; q=0.5",
]


@pytest.mark.parametrize("accept", BROWSERS)
def test_the_bare_address_leads_a_browser_to_the_admin_pages(served, accept):
    answer = httpx.get(served.address, headers={"Accept": accept}, timeout=60)
    assert (answer.status_code, answer.headers["location"]) == (303, "/admin")
    assert "Accept" in answer.headers["vary"]
    page = httpx.get(served.address, headers={"Accept": accept}, timeout=60, follow_redirects=True)
    assert page.status_code == 200 and "Sign in" in page.text


@pytest.mark.parametrize("accept", ["*/*", "application/json", "", "text/html;q=0", "text/html;q=0.000, */*", ";;,"])
def test_the_bare_address_tells_programs_where_things_are(served, accept):
    answer = httpx.get(served.address, headers={"Accept": accept}, timeout=60)
    assert answer.status_code == 200
    links = answer.json()["links"]
    for link in links.values():
        assert httpx.get(served.address + link, follow_redirects=True, timeout=60).status_code == 200
    assert httpx.get(served.address + "/nowhere", headers={"Accept": accept}).status_code == 404


def test_a_server_whose_store_does_not_answer_is_up_but_not_ready(tmp_path):
    memory = memoranda.open(tmp_path / "memory.db")
    app: Any = create_app(Settings(), memory)

    async def ask(path: str) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://memory") as client:
            return await client.get(path)

    assert asyncio.run(ask("/ready")).status_code == 200
    memory.close()
    assert asyncio.run(ask("/health")).status_code == 200
    answer = asyncio.run(ask("/ready"))
    assert answer.status_code >= 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert str(tmp_path) not in answer.text


def test_a_server_whose_threads_all_wait_for_models_is_ready_all_the_same(tmp_path):
    told = threading.Event()

    async def ask_meanwhile() -> tuple[int, bool]:
        app: Any = create_app(Settings(threads=1, sleep=False), memory)
        async with app.lifespan(), httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://m") as client:
            turn = asyncio.get_running_loop().run_in_executor(None, told.wait, 60)
            try:
                async with asyncio.timeout(30):
                    answer = await client.get("/ready")
                return answer.status_code, turn.done()
            finally:
                told.set()
                await turn

    with memoranda.open(tmp_path / "memory.db") as memory:
        assert asyncio.run(ask_meanwhile()) == (200, False)


def test_a_file_that_is_no_database_stops_the_start(start, tmp_path):
    other = tmp_path / "other.db"
    other.write_bytes(b"this is no database" * 500)
    with pytest.raises(AssertionError, match="corrupt"):
        start(db=other)


def test_metrics_count_by_route_and_status_and_name_nobody(served, someone):
    def counted(route: str, status: int) -> int:
        text = httpx.get(f"{served.address}/metrics").text
        found = re.search(rf'requests_total{{method="GET",route="{re.escape(route)}",status="{status}"}} (\d+)', text)
        return int(found[1]) if found else 0

    before = counted(FACTS + "/{key}", 404)
    for _ in range(3):
        someone.get(f"{FACTS}/hidden-name")
    assert counted(FACTS + "/{key}", 404) == before + 3
    httpx.request("PROPFIND", f"{served.address}/hidden-path")
    text = httpx.get(f"{served.address}/metrics").text
    assert re.search(r'requests_total{method="other",route="",status="40[45]"} [1-9]', text)
    assert "PROPFIND" not in text
    assert "hidden-" not in text
    assert "user:" not in text
    assert re.search(r'request_seconds_bucket{route="/metrics",le="\+Inf"} [1-9]', text)
    assert "memoranda_requests_in_flight 1\n" in text
    for line in text.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) \S+ .+|[a-z_]+(\{.*\})? [0-9.e+-]+", line), line


def test_the_log_has_a_line_for_each_request_and_neither_content_nor_secrets(served):
    key = served.key_for("logged")
    client = served.client(key)
    client.put(f"{FACTS}/confidential-name?domain", json={"value": "confidential-value"})
    client.put(
        f"{FACTS}/confidential-name",
        json={"value": "confidential-value"},
        headers={"X-Request-Id": "look-for-me", "Cookie": "confidential-cookie"},
    )
    client.get("/api/v1/memory/blocks/core", headers={"X-Request-Id": "and-for-me"})
    httpx.get(served.address + FACTS, headers={"Authorization": "Bearer mk_confidential_token"})
    lines = {line.get("request_id"): line for line in served.lines()}
    assert {
        "method": "PUT",
        "route": FACTS + "/{key}",
        "status": 200,
        "tenant": "default",
        "level": "info",
    }.items() <= lines["look-for-me"].items()
    assert lines["and-for-me"]["code"] == "not_found"
    said = served.log.read_text()
    assert "confidential" not in said
    assert key not in said
    assert served.key not in said


def test_large_answers_are_compressed_for_those_who_take_it(served, someone):
    someone.put(f"{FACTS}/long", json={"value": "lorem " * 2_000})
    with someone.stream("GET", f"{FACTS}/long", headers={"Accept-Encoding": "gzip"}) as answer:
        packed = b"".join(answer.iter_raw())
        assert answer.headers["content-encoding"] == "gzip"
        assert "accept-encoding" in answer.headers["vary"].lower()
    plain = someone.get(f"{FACTS}/long", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert gzip.decompress(packed) == plain.content
    assert len(packed) < len(plain.content) / 4
    someone.put(f"{FACTS}/short", json={"value": 1})
    assert "content-encoding" not in someone.get(f"{FACTS}/short", headers={"Accept-Encoding": "gzip"}).headers


def test_pages_of_other_origins_are_kept_out_unless_named(served, start):
    asked = {"Origin": "https://a.example", "Access-Control-Request-Method": "GET"}
    closed = httpx.options(served.address + FACTS, headers=asked)
    assert "access-control-allow-origin" not in closed.headers
    open_to = start(MEMORANDA_CORS="https://a.example, https://b.example")
    answer = httpx.options(open_to.address + FACTS, headers=asked)
    assert answer.headers["access-control-allow-origin"] == "https://a.example"
    other = httpx.options(open_to.address + FACTS, headers=asked | {"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in other.headers


def test_a_server_that_is_told_to_stop_answers_what_is_under_way(start):
    one = start()
    client = one.client()
    client.put(f"{FACTS}/slow", json={"value": "x" * 100_000})
    written: list[int] = []
    stopped = threading.Event()

    def write() -> None:
        for number in range(10_000):
            try:
                answer = client.put(f"{FACTS}/n{number}", json={"value": number})
            except httpx.TransportError:
                return
            assert answer.status_code == 200
            written.append(number)
            if len(written) == 20:
                stopped.set()

    writer = threading.Thread(target=write)
    writer.start()
    assert stopped.wait(60)
    os.kill(one.process.pid, signal.SIGTERM)
    writer.join(60)
    assert one.process.wait(60) == 0
    again = start()
    assert again.key is None
    kept = again.client(one.key)
    assert all(kept.get(f"{FACTS}/n{number}").json()["value"] == number for number in written)


def blocks(pid, number):
    """Say whether a process has a signal blocked."""
    blocked = re.search(r"^SigBlk:\s+(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return blocked is not None and bool(int(blocked[1], 16) & 1 << (number - 1))


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_answers_what_is_under_way_and_leaves_no_process_and_no_traceback(start, workers):
    one = start("--workers", str(workers))
    until(lambda: httpx.get(f"{one.address}/ready").status_code == 200)
    started = children_of(one.process.pid)
    assert len(started) == (workers if workers > 1 else 0)
    assert all(blocks(pid, signal.SIGINT) for pid in started)
    body = b'{"value": "half and half"}'
    head = f"PUT {FACTS}/half HTTP/1.1\r\nHost: memory\r\nAuthorization: Bearer {one.key}\r\n"
    with socket.create_connection(("127.0.0.1", one.port), timeout=60) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:9])
        until(lambda: "requests_in_flight 2" in httpx.get(f"{one.address}/metrics").text)
        # A terminal sends it to everybody.
        for pid in (*started, one.process.pid):
            os.kill(pid, signal.SIGINT)
        until(lambda: is_refused(one.address))
        connection.sendall(body[9:])
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
    assert one.process.wait(60) == 0
    assert not [pid for pid in started if os.path.exists(f"/proc/{pid}")]
    assert "Traceback" not in one.log.read_text()
    with memoranda.open(one.db) as memory:
        assert memory.scope(user="admin").value("half") == "half and half"


def test_a_worker_that_starts_says_nothing_about_ctrl_c(start):
    one = start("--workers", "2")  # the address is told before the workers are there
    for pid in (*children_of(one.process.pid), one.process.pid):
        os.kill(pid, signal.SIGINT)
    assert one.process.wait(60) == 0
    assert "Traceback" not in one.log.read_text()


def test_the_demo_ends_in_good_order_by_ctrl_c(tmp_path):
    with run_process(
        [sys.executable, "-m", "memoranda.server.demo", "--folder", str(tmp_path / "demo"), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as demo:
        assert demo.stdout is not None and demo.stderr is not None
        address = demo.stdout.readline().split()[-1]
        assert until(lambda: httpx.get(f"{address}/ready").status_code == 200)
        os.kill(demo.pid, signal.SIGINT)
        said = demo.stderr.read()
        assert demo.wait(60) == 0
    assert "Shutting down" in said
    assert "Traceback" not in said


def test_with_strict_a_program_that_cannot_be_compiled_stops_the_start_of_all_workers_and_says_where(start, tmp_path):
    (tmp_path / "bell.mashin").write_text("machine bell\n  implments\n")
    with pytest.raises(AssertionError, match=r"(?s)bell\.mashin.*implments"):
        start("--workers", "2", MEMORANDA_MACHINES=str(tmp_path), MEMORANDA_STRICT="yes")


def test_small_answers_leave_at_once():
    async def delayed() -> bool:
        listening = _listen(Settings(port=0))
        met: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted = writer.get_extra_info("socket")
            met.set_result(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        server = await asyncio.start_server(meet, sock=listening)
        async with server:
            _, writer = await asyncio.open_connection(*listening.getsockname())
            writer.close()
            return not await met

    assert asyncio.run(delayed()) is False


def test_a_port_that_is_taken_is_said_so(start, tmp_path):
    one = start()
    with pytest.raises(AssertionError, match="unavailable"):
        start("--port", str(one.port), db=tmp_path / "second.db")


def test_several_workers_answer_over_one_file_and_a_dead_one_is_replaced(start):
    one = start("--workers", "2")
    kept: dict[int, int] = {}
    lock = threading.Lock()
    enough = threading.Event()

    def write(part: int) -> None:
        own = one.client()
        for number in range(part * 1_000, part * 1_000 + 70):
            try:
                answer = own.put(f"{FACTS}/w{number}", json={"value": number})
            except httpx.TransportError:
                continue
            if answer.status_code == 200:
                with lock:
                    kept[number] = answer.json()["version"]
                    if len(kept) == 50:
                        enough.set()

    writers = [threading.Thread(target=write, args=(part,)) for part in range(4)]
    for writer in writers:
        writer.start()
    assert enough.wait(100)
    workers = children_of(one.process.pid)
    assert len(workers) == 2
    answered = len(kept)
    os.kill(workers[0], signal.SIGKILL)
    for writer in writers:
        writer.join(100)
    assert len(kept) > answered + 50  # the other one went on
    reader = one.client()
    for number, version in kept.items():
        found = reader.get(f"{FACTS}/w{number}")
        assert (found.status_code, found.json()["version"]) == (200, version)
    until(lambda: workers[0] not in children_of(one.process.pid) and len(children_of(one.process.pid)) == 2)
    assert reader.get("/api/v1/ledger/verify").json()["ok"] is True
    # Without the process that started them, the workers end too.
    left = children_of(one.process.pid)
    os.kill(one.process.pid, signal.SIGKILL)
    one.process.wait(60)
    until(lambda: not [pid for pid in left if is_running(pid)])


def until(look: Callable[[], bool]) -> bool:
    """Return once something is so."""
    end = time.monotonic() + 60
    while not is_so(look):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return True


def is_so(look: Callable[[], bool]) -> bool:
    try:
        return look()
    except httpx.TransportError:
        return False  # no answer yet


def is_refused(address: str) -> bool:
    """Say whether no more requests are taken."""
    try:
        httpx.get(f"{address}/health")
    except httpx.TransportError:
        return True
    return False


def is_running(pid: int) -> bool:
    """Return whether a process is running, and not a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children_of(pid: int) -> list[int]:
    """Return the processes that a process started to work for it: not the one that keeps track of shared things."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
                with open(f"/proc/{entry}/cmdline", encoding="utf-8") as file:
                    command = file.read()
            except (OSError, ValueError):
                continue
            if parent == pid and "spawn_main" in command:
                found.append(int(entry))
    return sorted(found)
