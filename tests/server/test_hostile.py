"""Malformed, oversized, slow or abandoned requests get a response or a closed connection, and change nothing."""

from __future__ import annotations

import gzip
import json
import socket
import time
from contextlib import closing

import pytest

FACTS = "/api/v1/memory/facts"
LIMIT = 65_536


@pytest.fixture(scope="module")
def strict(tmp_path_factory, serving):
    """A server that waits a second and takes 64 KiB."""
    with serving(
        tmp_path_factory.mktemp("strict") / "memory.db",
        MEMORANDA_READ_TIMEOUT="1",
        MEMORANDA_BODY_BYTES=str(LIMIT),
    ) as one:
        yield one


class Raw:
    """A connection on which anything can be sent."""

    def __init__(self, served) -> None:
        self.socket = socket.create_connection(("127.0.0.1", served.port), timeout=60)
        self.key = served.key

    def head(self, method: str = "PUT", path: str = f"{FACTS}/raw", **headers: object) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", "Host: memory", f"Authorization: Bearer {self.key}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Return the next answer whole, or status 0 when the connection ends without one."""
        said = b""
        while b"\r\n\r\n" not in said:
            part = self.socket.recv(65_536)
            if not part:
                return 0, {}, said
            said += part
        head, _, body = said.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        while len(body) < int(headers.get("content-length", 0)):
            part = self.socket.recv(65_536)
            if not part:
                break
            body += part
        return int(first.split()[1]), headers, body

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def raw(strict):
    with closing(Raw(strict)) as connection:
        yield connection


def is_well(served) -> bool:
    """Say whether the server still answers, and has kept nothing of what was thrown at it."""
    client = served.client()
    return client.get("/ready").status_code == 200 and client.get(f"{FACTS}/raw").status_code == 404


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: many\r\n\r\n",
        b"PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabc",
        b"PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nBad Header: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: " + b"y" * 200_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"\r\n" * 1_000 + b"\x00" * 100,
    ],
)
def test_what_is_no_http_is_answered_with_a_problem_or_cut_off(strict, raw, garbage):
    raw.send(garbage)
    status, headers, body = raw.answer()
    assert status in (0, 400, 404, 405, 408, 422, 431)
    if status:
        assert headers["content-type"] == "application/problem+json"
        assert json.loads(body)["status"] == status
    assert is_well(strict)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"value": NaN}',
        b'{"value": 1}{"value": 2}',
        b'{"value": "\\ud800"}',
        b'{"value": "\xed\xa0\x80"}',
        b"value=1",
        b"[" * 10_000,
        b'{"value": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b'{"value": 1e400}',
        gzip.compress(b'{"value": 1}', mtime=0),
    ],
)
def test_a_body_that_is_not_json_is_refused_and_nothing_changes(strict, raw, body):
    raw.send(raw.head(Content_Length=len(body), Content_Type="application/json") + body)
    status, headers, said = raw.answer()
    assert status in (400, 422), said
    assert headers["content-type"] == "application/problem+json"
    assert json.loads(said)["code"] in ("usage_error", "invalid_value", "limit_exceeded")
    assert is_well(strict)


def test_a_body_up_to_the_limit_is_taken_and_one_byte_more_is_not(strict):
    client = strict.client()
    room = LIMIT - len(b'{"value":""}')
    fits = b'{"value":"' + b"x" * room + b'"}'
    assert client.put(f"{FACTS}/large", content=fits).status_code == 200
    larger = client.put(f"{FACTS}/large", content=fits + b" ")
    assert (larger.status_code, larger.json()["code"]) == (413, "limit_exceeded")
    assert "`body_bytes`" in larger.json()["hint"]
    assert client.get(f"{FACTS}/large").json()["version"] == 1


def test_a_body_that_does_not_say_its_size_is_counted(strict):
    def endless():
        yield b'{"value":"'
        for _ in range(64):
            yield b"x" * 4_096
        yield b'"}'

    answer = strict.client().put(f"{FACTS}/raw", content=endless())
    assert answer.status_code == 413
    assert is_well(strict)


def test_a_body_that_says_it_is_huge_is_refused_before_it_is_sent(strict, raw):
    raw.send(raw.head(Content_Length=10**12))
    status, headers, _ = raw.answer()
    assert (status, headers["connection"]) == (413, "close")
    assert raw.answer()[0] == 0


def test_a_body_that_does_not_arrive_is_given_up(strict, raw):
    raw.send(raw.head(Content_Length=30) + b'{"value":')
    status, headers, body = raw.answer()
    assert (status, json.loads(body)["code"]) == (408, "request_timeout")
    assert headers["connection"] == "close"
    assert raw.answer()[0] == 0
    assert is_well(strict)


def test_a_body_that_arrives_drop_by_drop_is_given_up_all_the_same(strict, raw):
    raw.send(raw.head(Content_Length=1_000))
    with pytest.raises(OSError):
        for _ in range(600):
            raw.send(b" ")
            time.sleep(0.05)
    assert is_well(strict)


def test_a_head_that_does_not_arrive_is_cut_off(strict):
    for begun in (b"", b"GET /health HTT", b"GET /health HTTP/1.1\r\nHost: a\r\n"):
        with closing(Raw(strict)) as slow:
            slow.send(begun)
            assert slow.answer()[0] == 0
    with closing(Raw(strict)) as patient:
        patient.send(patient.head("GET", "/health"))
        assert patient.answer()[0] == 200
        patient.send(b"GET /health HTTP/1.1\r\nHo")
        assert patient.answer()[0] == 0
    assert is_well(strict)


def test_a_caller_who_hangs_up_leaves_nothing_half_done(strict):
    for cut in (b"", b'{"value"', b'{"value": 1}'):
        with closing(Raw(strict)) as gone:
            gone.send(gone.head(path=f"{FACTS}/gone", Content_Length=12) + cut)
    with closing(Raw(strict)) as gone:
        gone.send(gone.head("GET", "/api/v1/export"))
    client = strict.client()
    # The whole request may have been carried out before the disconnect was noticed; half of one never is.
    assert client.get(f"{FACTS}/gone").status_code in (200, 404)
    assert client.get(f"{FACTS}/gone/history").json().get("revisions", [{}])[0].get("value", 1) == 1
    assert is_well(strict)


def test_a_half_closed_connection_is_still_answered(strict, raw):
    body = b'{"value": "half"}'
    raw.send(raw.head(path=f"{FACTS}/half", Content_Length=len(body)) + body)
    raw.socket.shutdown(socket.SHUT_WR)
    assert raw.answer()[0] == 200
    assert raw.answer()[0] == 0
    assert is_well(strict)


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_the_end_of_what_is_said_does_not_cut_off_the_answer(strict, method):
    """Whichever comes first in a turn of the event loop: the end of the request, or its answer on the way out."""
    body = b'{"value": "half"}'
    strict.client().put(f"{FACTS}/half", json={"value": "half"})
    statuses: set[int] = set()
    for _ in range(200):
        with closing(Raw(strict)) as one:
            one.send(one.head(method, f"{FACTS}/half", Content_Length=len(body)) + body)
            one.socket.shutdown(socket.SHUT_WR)
            statuses.add(one.answer()[0])
    assert statuses == {200}


def test_requests_one_after_another_on_one_connection_are_answered_in_order(strict, raw):
    raw.send(raw.head("GET", "/health") + raw.head("GET", f"{FACTS}/none") + raw.head("GET", "/health"))
    said = b""
    while said.count(b"HTTP/1.1 ") < 3:
        said += raw.socket.recv(65_536)
    assert [part[:3] for part in said.split(b"HTTP/1.1 ")[1:]] == [b"200", b"404", b"200"]


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/memory/facts/../../../../etc/passwd",
        "/api/v1/memory/facts/..%2f..%2fetc%2fpasswd",
        "/api/v1//memory/facts",
        "/api/v1/memory/facts/%2e%2e",
        "/api/v1/memory/facts/a%00b",
        "/api/v1/memory/blocks/core%2f..",
        "/api/v1/memory/facts/%ff%fe",
        "/%2e%2e/health",
        "//health",
        "*",
    ],
)
def test_odd_paths_get_an_answer_and_no_file(strict, raw, path):
    raw.send(raw.head("GET", path))
    status, _, body = raw.answer()
    assert status in (200, 400, 404, 405, 422)
    assert b"root:" not in body
    assert is_well(strict)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n", 200),
        (b"GET /health HTTP/1.0\r\n\r\n", 200),
        (b"GET /health HTTP/1.1\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        (b"GET /health HTTP/2.0\r\nHost: a\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", 431),
    ],
)
def test_a_head_that_others_would_read_otherwise_is_refused(strict, raw, head, status):
    raw.send(head)
    assert raw.answer()[0] == status


def test_a_head_that_grows_without_end_is_refused_before_it_ends(strict, raw):
    raw.send(b"GET /health HTTP/1.1\r\nHost: a\r\n")
    with pytest.raises(OSError):
        for _ in range(5_000):
            raw.send(b"X: " + b"y" * 2_000 + b"\r\n")
    assert is_well(strict)


def test_headers_that_come_after_the_body_say_nothing(strict, raw):
    body = b"c\r\n" + b'{"value": 1}' + b"\r\n0\r\n"
    head = raw.head(path=f"{FACTS}/late", Transfer_Encoding="chunked", X_Request_Id="in-front")
    raw.send(head + body + b'X-Request-Id: behind\r\nIf-Match: "7"\r\n\r\n')
    status, headers, _ = raw.answer()
    assert (status, headers["x-request-id"]) == (200, "in-front")
    raw.send(raw.head(path=f"{FACTS}/late", Transfer_Encoding="chunked", If_Match='"7"') + body + b"\r\n")
    assert raw.answer()[0] == 409


def test_who_sends_rubbish_after_a_request_gets_the_answer_to_the_request_and_no_other(strict, raw):
    raw.send(raw.head("GET", "/ready") + b"\x00rubbish\r\n\r\n")
    said = b""
    while part := raw.socket.recv(65_536):
        said += part
    assert said.startswith(b"HTTP/1.1 200 ")
    assert said.count(b"HTTP/1.1 ") == 1


def test_a_connection_is_not_changed_into_another_kind(strict, raw):
    raw.send(raw.head("GET", "/health", Connection="Upgrade", Upgrade="websocket") + b"\x81\x05hello")
    status, headers, _ = raw.answer()
    assert (status, headers["connection"]) == (200, "close")
    assert raw.answer()[0] == 0


def test_a_request_that_asks_for_http_2_is_answered_and_nothing_after_it_is_read(strict, raw):
    asked = raw.head("GET", "/health", Connection="Upgrade, HTTP2-Settings", Upgrade="h2c")
    raw.send(asked + raw.head("GET", "/ready"))
    status, headers, _ = raw.answer()
    assert (status, headers["connection"]) == (200, "close")
    assert raw.answer()[0] == 0


def test_those_who_ask_for_another_kind_of_connection_do_not_fill_the_log(strict, raw):
    with closing(Raw(strict)) as other:
        other.send(other.head("GET", "/health", Connection="Upgrade", Upgrade="websocket"))
        assert other.answer()[0] == 200
    raw.send(b"rubbish\r\n\r\n")
    assert raw.answer()[0] == 400
    messages = [line["message"] for line in strict.lines()]
    assert "Invalid HTTP request received." in messages  # so other warnings of uvicorn are logged
    assert [message for message in messages if "upgrade" in message.lower() or "WebSocket" in message] == []


def test_ends_of_lines_that_never_become_a_request_are_cut_off(strict, raw):
    raw.send(raw.head("GET", "/health"))
    assert raw.answer()[0] == 200
    raw.send(b"\r\n\r\n")
    assert raw.answer()[0] == 0


def test_nothing_of_it_was_a_fault_of_ours(strict):
    assert {line["status"] for line in strict.lines() if "status" in line} <= {200, 400, 404, 405, 408, 409, 413, 422}
    faults = [line for line in strict.lines() if "traceback" in line or line["level"] == "error"]
    assert not faults, "\n".join(line.get("traceback", line["message"]) for line in faults)
