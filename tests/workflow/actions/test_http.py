"""Requests over HTTP against a real server on the loopback: what it is asked, and everything it may get wrong."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from memoranda.errors import ActionFailed, SchemaViolation, UsageError
from memoranda.lang.egress import MAX_BYTES, normalize_url

Act = Callable[..., Any]
Handle = Callable[[BaseHTTPRequestHandler], None]


class Asked:
    """One request as the server saw it."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self.method = handler.command
        self.path = handler.path
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        self.body = handler.rfile.read(int(handler.headers.get("content-length") or 0))


class Depot:
    """A server that answers with what is waiting, or with an empty object."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.waiting: list[Handle] = []
        self.released = threading.Event()
        depot = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except (ConnectionError, TimeoutError):
                    self.close_connection = True

            def any(self) -> None:
                depot.asked.append(Asked(self))
                (depot.waiting.pop(0) if depot.waiting else answer({}))(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = any

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def close(self) -> None:
        self.released.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


def answer(value: Any, status: int = 200, kind: str = "application/json", **headers: str) -> Handle:
    content = value if isinstance(value, bytes) else json.dumps(value).encode()

    def handle(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        if kind:
            handler.send_header("content-type", kind)
        for name, text in headers.items():
            handler.send_header(name.replace("_", "-"), text)
        handler.send_header("content-length", str(len(content)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(content)

    return handle


def redirect(where: str, status: int = 302) -> Handle:
    return answer({}, status, location=where)


@pytest.fixture
def depot(monkeypatch: pytest.MonkeyPatch) -> Iterator[Depot]:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    depot = Depot()
    yield depot
    depot.close()


@pytest.fixture
def ask(act: Act, depot: Depot) -> Callable[..., Any]:
    """Return a function that sends a request to a path of the server."""
    return lambda path="/", **inputs: act("http_request", {"url": depot.url + path, **inputs})


def failure(ask: Callable[..., Any], **inputs: Any) -> ActionFailed:
    with pytest.raises(ActionFailed) as caught:
        ask(**inputs)
    assert (caught.value.task, caught.value.action) == ("step", "http_request")
    return caught.value


# what is asked


def test_an_address_is_asked_and_its_answer_given(ask: Any, depot: Depot) -> None:
    depot.waiting = [answer({"left": 3}, x_shelf="B2")]
    given = ask("/parts?name=chain")
    assert (given["status"], given["body"]) == (200, {"left": 3})
    assert given["headers"]["x-shelf"] == "B2" and given["headers"]["content-type"] == "application/json"
    (asked,) = depot.asked
    assert (asked.method, asked.path, asked.body) == ("GET", "/parts?name=chain", b"")
    assert asked.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_json_is_sent_with_every_method(ask: Any, depot: Depot, method: str) -> None:
    ask(method=method, json={"part": "kette ⚙"})
    (asked,) = depot.asked
    assert (asked.method, json.loads(asked.body)) == (method, {"part": "kette ⚙"})
    assert asked.headers["content-type"] == "application/json"


@pytest.mark.parametrize("value", [None, [], 0, "", False])
def test_every_value_is_json(ask: Any, depot: Depot, value: Any) -> None:
    ask(method="POST", json=value)
    assert json.loads(depot.asked[0].body) == value


def test_text_is_sent_as_it_is(ask: Any, depot: Depot) -> None:
    ask(method="POST", body="a,b\n1,ü\n")
    ask(method="POST", body="<part/>", headers={"Content-Type": "application/xml", "X-Shelf": "B2"})
    plain, xml = depot.asked
    assert (plain.body.decode(), plain.headers["content-type"]) == ("a,b\n1,ü\n", "text/plain; charset=utf-8")
    assert (xml.body, xml.headers["content-type"], xml.headers["x-shelf"]) == (b"<part/>", "application/xml", "B2")


@pytest.mark.parametrize(
    "inputs",
    [
        {},
        {"url": 7},
        {"url": "http://x/", "method": "TRACE"},
        {"url": "http://x/", "method": "get"},
        {"url": "http://x/", "body": "a", "json": 1},
        {"url": "http://x/", "body": {"a": 1}},
        {"url": "http://x/", "headers": {"a": 1}},
        {"url": "http://x/", "timeout": 0},
        {"url": "http://x/", "timeout": 301},
        {"url": "http://x/", "verify": False},
    ],
)
def test_inputs_that_make_no_request_are_refused(act: Act, ask: Any, depot: Depot, inputs: Any) -> None:
    with pytest.raises(SchemaViolation):
        act("http_request", inputs)
    assert ask()["status"] == 200 and len(depot.asked) == 1


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/hostname",
        "ftp://127.0.0.1/part",
        "data:text/plain,hello",
        "javascript:alert(1)",
        "127.0.0.1/part",
        "/part",
        "http://",
        "http:///part",
        "http://[::1/part",
        "http://127.0.0.1:port/",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1/a\r\nX-Evil: 1",
        "http://127.0.0.1/\x00",
        "http://exa mple.org/",
        "http://example.org@127.0.0.1/",
        "http://name:secret@127.0.0.1/",
    ],
)
def test_only_addresses_of_servers_are_asked(act: Act, ask: Any, depot: Depot, url: str) -> None:
    with pytest.raises(UsageError) as caught:
        act("http_request", {"url": url})
    assert "secret" not in str(caught.value)
    assert ask()["status"] == 200


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("https://example.org", "https://example.org/"),
        ("HTTPS://Example.org:8443/a b/ü?q=a b&c=%20#top", "https://example.org:8443/a%20b/%C3%BC?q=a%20b&c=%20"),
        ("http://bücher.example/x", "http://xn--bcher-kva.example/x"),
        ("http://[::1]:80/x?y[]=1", "http://[::1]:80/x?y[]=1"),
    ],
)
def test_an_address_is_sent_as_servers_read_it(url: str, sent: str) -> None:
    assert normalize_url(url) == sent


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x y", "1"),
        ("", "1"),
        ("x:", "1"),
        ("x", "a\r\nb: 1"),
        ("x", "⚙"),
        ("Host", "b"),
        ("content-length", "1"),
    ],
)
def test_headers_that_cannot_be_sent_are_refused(ask: Any, depot: Depot, name: str, value: str) -> None:
    with pytest.raises(UsageError, match="header"):
        ask(headers={name: value})
    assert depot.asked == []
    ask(headers={"x": "a b"})
    assert depot.asked[0].headers["x"] == "a b"


# what is answered


@pytest.mark.parametrize("status", [201, 304, 400, 404, 500, 503])
def test_every_status_is_an_answer(ask: Any, depot: Depot, status: int) -> None:
    depot.waiting = [answer(b"" if status == 304 else b'{"why": "so"}', status)]
    given = ask()
    assert (given["status"], given["body"]) == (status, None if status == 304 else {"why": "so"})


@pytest.mark.parametrize(
    ("content", "kind", "body"),
    [
        (b'{"a": [1, 2.5, null]}', "application/json; charset=utf-8", {"a": [1, 2.5, None]}),
        (b"null", "application/json", None),
        (b'{"type": "bell"}', "application/problem+json", {"type": "bell"}),
        (b"<oops>", "application/json", "<oops>"),
        (b'\xef\xbb\xbf{"a": 1}', "application/json", {"a": 1}),
        ('{"a": "Räder"}'.encode("latin-1"), "application/json; charset=iso-8859-1", {"a": "Räder"}),
        ('{"a": "Räder"}'.encode("utf-16"), "application/json; charset=utf-16", {"a": "Räder"}),
        ('{"a": "Räder"}'.encode(), "application/json; charset=klingon", {"a": "Räder"}),
        (b"\xef\xbb\xbfa,b", "text/csv", "a,b"),
        (b'{"a": 1}', "text/plain", '{"a": 1}'),
        ("Glocke für Räder".encode("latin-1"), "text/html; charset=iso-8859-1", "Glocke für Räder"),
        ("Glocke für Räder".encode(), "application/xml", "Glocke für Räder"),
        (b"no kind", "", "no kind"),
        (b"", "image/png", None),
    ],
)
def test_a_body_is_json_where_the_server_says_so_else_text(
    ask: Any, depot: Depot, content: bytes, kind: str, body: Any
) -> None:
    depot.waiting = [answer(content, kind=kind)]
    assert ask()["body"] == body


@pytest.mark.parametrize(
    ("handle", "why"),
    [
        (answer(b"\x89PNG", kind="image/png"), "neither JSON nor text"),
        (answer(b"\xff\xfe\xfa", kind="text/plain"), "cannot be read"),
        (answer(b"abc", kind="text/plain; charset=klingon"), "cannot be read"),
        (answer(b"a\0b", kind="text/plain"), "cannot be read"),
        (answer(b"[" * 70 + b"]" * 70), "cannot be read"),
        (answer(b"{}", content_encoding="gzip"), "compressed"),
    ],
    ids=["image", "no-utf-8", "no-charset", "nul", "deep", "compressed"],
)
def test_what_a_workflow_cannot_hold_is_a_failure(ask: Any, depot: Depot, handle: Handle, why: str) -> None:
    depot.waiting = [handle]
    error = failure(ask)
    assert (error.type, error.retryable) == ("unreadable", False) and why in error.message
    assert ask()["body"] == {}


def test_the_headers_of_an_answer_are_joined_by_name(ask: Any, depot: Depot) -> None:
    def handle(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(204)
        handler.send_header("X-Shelf", "B2")
        handler.send_header("x-shelf", "C1")
        handler.end_headers()

    depot.waiting = [handle]
    given = ask()
    assert (given["status"], given["body"], given["headers"]["x-shelf"]) == (204, None, "B2, C1")


def test_head_gives_headers_alone(ask: Any, depot: Depot) -> None:
    depot.waiting = [answer({"left": 3}, x_shelf="B2")]
    given = ask(method="HEAD")
    assert (given["status"], given["body"], given["headers"]["x-shelf"]) == (200, None, "B2")


def test_an_answer_in_pieces_is_read_whole(ask: Any, depot: Depot) -> None:
    def handle(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/plain")
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        for piece in (b"bells ", b"and chains"):
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        handler.wfile.write(b"0\r\n\r\n")

    depot.waiting = [handle]
    assert ask()["body"] == "bells and chains"


# what goes wrong


def test_an_answer_may_have_a_megabyte_and_not_more(ask: Any, depot: Depot) -> None:
    depot.waiting = [
        answer(b"x" * (MAX_BYTES - 2), kind="text/plain"),
        answer(b"x" * (MAX_BYTES + 1), kind="text/plain"),
    ]
    assert len(ask()["body"]) == MAX_BYTES - 2
    error = failure(ask)
    assert (error.type, error.retryable) == ("too_large", False)


def test_a_server_without_end_is_left_when_it_is_too_much(ask: Any, depot: Depot) -> None:
    def handle(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/plain")
        handler.end_headers()
        while not depot.released.is_set():
            handler.wfile.write(b"x" * 65_536)

    depot.waiting = [handle]
    assert failure(ask).type == "too_large"
    assert ask()["body"] == {}


def test_an_answer_that_is_cut_off_is_none(ask: Any, depot: Depot) -> None:
    def handle(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/plain")
        handler.send_header("content-length", "100")
        handler.end_headers()
        handler.wfile.write(b"half of")
        handler.close_connection = True

    depot.waiting = [handle]
    error = failure(ask)
    assert (error.type, error.retryable) == ("unreachable", True)
    assert ask()["status"] == 200


def drips(head: bytes, drop: bytes) -> Handle:
    """Answer with a beginning, and then with a drop now and then, longer than anybody waits."""

    def handle(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(head)
        for _ in range(400):
            time.sleep(0.02)
            handler.wfile.write(drop)

    return handle


@pytest.mark.parametrize(
    "handle",
    [
        drips(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n", b"x"),
        drips(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 9999\r\n\r\n", b"x"),
        drips(b"HTTP/1.1 200 OK\r\nx-long: ", b"x"),
        drips(b"HT", b""),
    ],
    ids=["body", "body-with-length", "headers", "silent"],
)
def test_the_whole_answer_has_to_be_there_in_time(ask: Any, depot: Depot, handle: Handle) -> None:
    depot.waiting = [handle]
    begun = time.perf_counter()
    error = failure(ask, timeout=0.3)
    assert 0.25 < time.perf_counter() - begun < 5
    assert (error.type, error.retryable) == ("timeout", True) and "0.3 s" in error.message
    assert ask(timeout=5)["status"] == 200


def test_nobody_at_the_address_is_a_failure_that_may_pass(act: Act, ask: Any, depot: Depot) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        error = failure(lambda: act("http_request", {"url": f"http://127.0.0.1:{port}/?key=hidden"}))
    assert (error.type, error.retryable) == ("unreachable", True)
    assert f"127.0.0.1:{port}" in error.message and "hidden" not in str(error)
    assert ask()["status"] == 200


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"220 mail.example ready\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnone\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nbell",
        b"HTTP/1.1 200 OK\r\n" + b"x: 1\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nx-shelf: B\0\r\ncontent-length: 0\r\n\r\n",
    ],
    ids=["nothing", "mail", "no-chunk", "half-a-chunk", "headers", "nul-in-header"],
)
def test_what_is_no_http_is_a_failure(ask: Any, depot: Depot, content: bytes) -> None:
    def handle(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(content)
        handler.close_connection = True

    depot.waiting = [handle]
    assert failure(ask).type == "unreachable"
    assert ask()["status"] == 200


def test_a_server_that_speaks_no_https_is_told_nothing_over_it(act: Act, ask: Any, depot: Depot) -> None:
    secure = depot.url.replace("http:", "https:")
    assert failure(lambda: act("http_request", {"url": secure})).type == "unreachable"
    assert depot.asked == []
    assert ask()["status"] == 200


# where it leads


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_on_the_same_server_is_followed(ask: Any, depot: Depot, status: int) -> None:
    depot.waiting = [redirect("/there?x=1", status), answer({"left": 3})]
    assert ask("/here", headers={"authorization": "Bearer 1"})["body"] == {"left": 3}
    assert [asked.path for asked in depot.asked] == ["/here", "/there?x=1"]
    assert depot.asked[1].headers["authorization"] == "Bearer 1"


@pytest.mark.parametrize(("status", "method", "body"), [(302, "GET", b""), (303, "GET", b""), (307, "POST", b"[1]")])
def test_a_redirect_repeats_what_was_sent_only_where_it_says_so(
    ask: Any, depot: Depot, status: int, method: str, body: bytes
) -> None:
    depot.waiting = [redirect("/there", status)]
    ask(method="POST", json=[1])
    there = depot.asked[1]
    assert (there.method, there.body) == (method, body)
    assert ("content-type" in there.headers) == bool(body)


@pytest.mark.parametrize(
    "where", ["file:///etc/hostname", "ftp://127.0.0.1/", "https://127.0.0.1/", "http://127.0.0.1:1/", "//example.org"]
)
def test_a_redirect_to_another_scheme_or_server_is_refused(ask: Any, depot: Depot, where: str) -> None:
    depot.waiting = [redirect(where)]
    error = failure(ask)
    assert (error.type, error.retryable) == ("redirected", False)
    assert len(depot.asked) == 1
    depot.waiting = [redirect(depot.url + "/there")]
    assert ask()["status"] == 200


def test_redirects_in_a_circle_end(ask: Any, depot: Depot) -> None:
    depot.waiting = [redirect("/") for _ in range(5)]
    assert ask()["status"] == 200
    depot.waiting = [redirect("/") for _ in range(6)]
    assert failure(ask).type == "redirected"


def test_a_proxy_of_the_environment_is_not_used(ask: Any, depot: Depot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a proxy it could not be checked which address is reached."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{nobody.getsockname()[1]}")
        assert ask("/chain")["status"] == 200
    assert [asked.path for asked in depot.asked] == ["/chain"]
