"""Tools over HTTP against a real server on the loopback: what is asked of it, and everything it may get wrong."""

from __future__ import annotations

import builtins
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.abl.tools.http import Slot, as_json
from memoranda.abl.tools.outcome import Outcome
from memoranda.abl.tools.toolbox import WORKERS

Handle = Callable[[BaseHTTPRequestHandler], None]


class Asked:
    """One request as the server saw it."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self.method = handler.command
        self.target = handler.path
        self.path, _, query = handler.path.partition("?")
        self.query = dict(parse_qsl(query, keep_blank_values=True))
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        length = int(handler.headers.get("content-length") or 0)
        self.body = handler.rfile.read(length) if length else b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Server:
    """Answers with what is waiting, or with an empty object."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.waiting: list[Handle] = []
        self.released = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except (ConnectionError, TimeoutError):
                    self.close_connection = True

            def any(self) -> None:
                server.asked.append(Asked(self))
                (server.waiting.pop(0) if server.waiting else answer({}))(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = any

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
        handler.wfile.write(content)

    return handle


def redirect(where: str, status: int = 302) -> Handle:
    return answer({}, status, location=where)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def call(make_box: Any, server: Server) -> Callable[..., Outcome]:
    """Return a function that declares a tool by its lines, with the server's address for URL, and calls it."""

    def call(lines: str, *positional: Any, **named: Any) -> Outcome:
        head, *rest = [line for line in lines.replace("URL", server.url).splitlines() if line.strip()]
        margin = len(head) - len(head.lstrip())
        box = make_box("\n".join(line[margin:] for line in (head, *rest)))
        return box.call(head.strip().partition("(")[0], positional, named)

    return call


# what is sent


def test_an_address_is_asked_and_its_json_is_the_result(call, server):
    server.waiting.append(answer({"sky": ["clear"], "degrees": 21.5}))
    outcome = call(
        """
        weather(city: string)
          type: http
          endpoint: "URL/weather/{{city}}?unit=C"
        """,
        "Porto",
    )
    assert outcome == Outcome({"sky": ["clear"], "degrees": 21.5})
    assert [(asked.method, asked.target) for asked in server.asked] == [("GET", "/weather/Porto?unit=C")]


@pytest.mark.parametrize(
    "city", ["São Paulo", "a/b", "x?y=1#z", "../admin", "100%", "a&unit=F", "%2e%2e", "..", ".", "a b+c", "://@"]
)
def test_a_value_cannot_leave_its_place_in_the_address(call, server, city):
    outcome = call(
        """
        weather(city: string)
          endpoint: "URL/weather/{{city}}/now?of={{city}}&unit=C"
        """,
        city,
    )
    if city in (".", ".."):
        assert outcome.failure is not None and outcome.failure.kind == "validation_error"
        assert server.asked == []
        return
    assert outcome.failure is None
    [asked] = server.asked
    before, segment, after = urlsplit(asked.target).path.removeprefix("/").split("/")
    assert (before, after) == ("weather", "now") and "%2F" not in before
    assert unquote(segment) == city
    assert asked.query == {"of": city, "unit": "C"}


def test_an_empty_value_in_the_path_is_refused(call, server):
    lines = """
        remove(id: string, why?: string)
          endpoint: "URL/guests/{{id}}?why={{why}}"
          method: delete
        """
    failure = call(lines, "").failure
    assert failure is not None and failure.kind == "validation_error" and "empty value" in failure.message
    assert server.asked == []
    assert call(lines, "7").failure is None
    assert [(asked.method, asked.target) for asked in server.asked] == [("DELETE", "/guests/7?why=")]


def test_parameters_of_the_query_are_encoded_and_left_out_when_null(call, server):
    lines = """
        rooms(city: string, limit?: number, tags?: array)
          endpoint: URL/rooms?fixed=1
          query_params:
            where: "{{city}}"
            most: "{{limit}}"
            tags: "{{tags}}"
            order: "by {{city}}"
        """
    call(lines, "a&b=c d")
    call(lines, "Faro", limit=3, tags=["x", 1])
    assert [asked.query for asked in server.asked] == [
        {"fixed": "1", "where": "a&b=c d", "order": "by a&b=c d"},
        {"fixed": "1", "where": "Faro", "most": "3", "tags": '["x",1]', "order": "by Faro"},
    ]


def test_arguments_that_have_no_place_become_the_query(call, server):
    call(
        """
        rooms(city: string, nights: number)
          type: http
          endpoint: URL/rooms
        """,
        "Porto",
        2,
    )
    assert server.asked[0].query == {"city": "Porto", "nights": "2"}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_arguments_are_the_body_where_there_is_one(call, server, method):
    call(
        f"""
        book(room: number, names: array)
          endpoint: URL/bookings
          method: {method}
        """,
        7,
        ["Ada", "Bob"],
    )
    [asked] = server.asked
    assert (asked.method, asked.json, asked.query) == (method, {"room": 7, "names": ["Ada", "Bob"]}, {})
    assert asked.headers["content-type"] == "application/json"


BODY = """
        book(name: string, room?: number, tags?: array, vip?: boolean)
          endpoint: URL/bookings
          headers:
            Authorization: "Bearer {{name}}"
            X-Fixed: yes
          body_template: |
            {"guest": {"name": "{{name}}", "label": "Room {{room}} for {{UPPER(name)}}"},
             "room": {{room}}, "tags": {{tags}}, "vip": {{vip}}{{#if vip}}, "gift": "wine"{{/if}},
             "list": [{{#each tags}}{{#if @index > 0}}, {{/if}}"{{this}}"{{/each}}], "bare": {{name}}}
        """


def test_a_body_is_filled_with_values_of_their_own_kind(call, server):
    call(BODY, "Ada", 7, ["quiet", 'sea "view"'], True)
    [asked] = server.asked
    assert asked.method == "POST"
    assert asked.json == {
        "guest": {"name": "Ada", "label": "Room 7 for ADA"},
        "room": 7,
        "tags": ["quiet", 'sea "view"'],
        "vip": True,
        "gift": "wine",
        "list": ["quiet", 'sea "view"'],
        "bare": "Ada",
    }
    assert (asked.headers["authorization"], asked.headers["x-fixed"]) == ("Bearer Ada", "yes")


@pytest.mark.parametrize(
    "name", ['", "admin": true, "x": "', "\\", '\\"', '"}', "{{room}}", "a\tb", "\u2028", "<b>", "null", "</script>"]
)
def test_a_value_cannot_leave_its_place_in_the_body(call, server, name):
    outcome = call(BODY.replace('"Bearer {{name}}"', "fixed"), name, 7)
    assert outcome.failure is None
    body = server.asked[0].json
    assert body["guest"]["name"] == body["bare"] == name
    assert body.keys() == {"guest", "room", "tags", "vip", "list", "bare"}
    assert (body["room"], body["tags"], body["vip"]) == (7, None, None)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), st.text('"\\{}a:,'))
def test_whatever_a_value_is_the_body_says_the_same_around_it(value, other):
    pieces = ['{"a": "x', Slot(value), 'y\\"', Slot(other), '", "b": ', Slot(other), "}"]
    assert json.loads(as_json(pieces)) == {"a": f'x{value}y"{other}', "b": other}


@pytest.mark.parametrize("line", ["Ada\r\nX-Evil: 1", "Ada\nx", "\x00", "a\x7fb"])
def test_a_value_cannot_add_a_header(call, server, line):
    failure = call(BODY, line).failure
    assert failure is not None and failure.kind == "validation_error"
    assert server.asked == []
    assert call(BODY, "Ada Łukasz").failure is None
    assert server.asked[0].headers["authorization"].encode("latin-1").decode() == "Bearer Ada Łukasz"


def test_a_body_that_is_no_json_is_not_sent_and_not_tried_again(call, server, pauses):
    lines = """
        book(name: string)
          endpoint: URL/bookings
          retry: 3
          body_template: '{"name": {{name}} extra}'
        """
    failure = call(lines, "Ada").failure
    assert failure is not None and failure.kind == "validation_error" and "not valid JSON" in failure.message
    assert server.asked == [] and pauses == []
    assert call(lines.replace(" extra", ""), "Ada").failure is None
    assert server.asked[0].json == {"name": "Ada"}


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        ("ftp://127.0.0.1/x", "http:// or https://"),
        ("file:///etc/passwd", "http:// or https://"),
        ("/relative", "http:// or https://"),
        ("http://", "has no host"),
        ("http://[bad", "not a valid address"),
        ("http://127.0.0.1:99999999/x", "not a valid address"),
    ],
)
def test_an_address_that_is_none_is_refused(call, endpoint, said):
    failure = call(f"get()\n  endpoint: {endpoint}").failure
    assert failure is not None and failure.kind == "validation_error" and said in failure.message


def test_a_method_that_is_none_is_refused(call, server):
    failure = call("get()\n  endpoint: URL/x\n  method: FETCH").failure
    assert failure is not None and failure.kind == "validation_error" and "`FETCH`" in failure.message
    assert server.asked == []


def test_a_function_stands_in_for_an_http_tool(make_box, server):
    box = make_box(f"get()\n  endpoint: {server.url}/x", {"get": lambda: "mine"})
    assert box.call("get", [], {}).value == "mine"
    assert server.asked == []
    assert make_box(f"get()\n  endpoint: {server.url}/x").call("get", [], {}).value == {}
    assert len(server.asked) == 1


def test_an_http_tool_is_known_by_its_endpoint(make_box, server):
    box = make_box(f"get()\n  type: http\n  endpoint: {server.url}/x\nlost()\n  type: http")
    assert (box.knows("get"), box.knows("lost")) == (True, False)
    assert "has no function" in box.call("lost", [], {}).failure.message


# what comes back

GET = "get()\n  endpoint: URL/x"


@pytest.mark.parametrize(
    ("handle", "value"),
    [
        (answer(b"plain words", kind="text/plain; charset=utf-8"), "plain words"),
        (answer("é".encode("latin-1"), kind="text/plain; charset=latin-1"), "é"),
        (answer(b'{"a": 1}', kind="application/vnd.api+json"), {"a": 1}),
        (answer(b"no kind", kind=""), "no kind"),
        (answer(b"", status=204), None),
        (answer(b"<a/>", kind="application/xml"), "<a/>"),
        (answer({"made": True}, status=201), {"made": True}),
    ],
)
def test_json_is_a_value_and_text_is_text(call, server, handle, value):
    server.waiting.append(handle)
    assert call(GET) == Outcome(value)


@pytest.mark.parametrize("status", [400, 401, 404, 409, 418, 429, 500, 503, 304])
def test_a_refusal_is_a_failure_with_its_status(call, server, status):
    server.waiting.append(answer({"error": "not today"} if status != 304 else b"", status=status))
    failure = call(GET).failure
    assert failure is not None and (failure.kind, failure.subtype) == ("api_error", str(status))
    assert f"status {status}" in failure.message
    assert "not today" in failure.message or status == 304
    assert call(GET).failure is None


def test_a_long_refusal_is_cut(call, server):
    server.waiting.append(answer(b"x" * 5_000_000, status=500, kind="text/plain"))
    failure = call(GET).failure
    assert failure is not None and failure.subtype == "500" and len(failure.message) < 400


@pytest.mark.parametrize(
    "handle",
    [
        answer(b'{"a": '),
        answer(b"\xff\xfe{}"),
        answer(b"NaN"),
        answer(b"[" * 100_000),
        answer(b"\xff\xff", kind="text/plain; charset=utf-8"),
        answer(b"x", kind="text/plain; charset=klingon"),
        answer(b"\x89PNG", kind="image/png"),
        answer(b"a\x00b", kind="text/plain"),
    ],
)
def test_an_answer_that_cannot_be_read_is_a_failure(call, server, handle):
    server.waiting.append(handle)
    failure = call(GET).failure
    assert failure is not None and (failure.kind, failure.subtype) == ("api_error", "garbage")
    assert call(GET).failure is None


@pytest.mark.parametrize("counted", [True, False])
def test_an_answer_that_is_too_large_is_not_read_to_its_end(call, server, counted):
    sent: list[int] = []

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(10**9)) if counted else handler.send_header("connection", "close")
        handler.end_headers()
        for _ in range(1_000):
            handler.wfile.write(b" " * 1_000_000)
            sent.append(1)

    server.waiting.append(endless)
    failure = call(GET).failure
    assert failure is not None and (failure.kind, failure.subtype) == ("api_error", "too_large")
    assert len(sent) < 100


def test_an_answer_just_below_the_limit_is_read(call, server):
    server.waiting.append(answer("x" * 1_048_000))
    assert len(call(GET).value) == 1_048_000


def test_compressed_answers_are_not_asked_for(call, server):
    call(GET)
    assert server.asked[0].headers["accept-encoding"] == "identity"


# redirects


def test_a_redirect_on_the_same_host_is_followed(call, server):
    server.waiting += [redirect("/there", 307), redirect(f"{server.url}/again"), answer("here")]
    assert call("send(a: number)\n  endpoint: URL/x\n  method: POST", 1).value == "here"
    assert [(asked.method, asked.path) for asked in server.asked] == [
        ("POST", "/x"),
        ("POST", "/there"),
        ("GET", "/again"),
    ]
    assert server.asked[1].json == {"a": 1}


@pytest.mark.parametrize("elsewhere", ["http://localhost:PORT/x", "https://127.0.0.1:PORT/x", "http://127.0.0.1:1/x"])
def test_a_redirect_to_another_host_is_refused(call, server, elsewhere):
    server.waiting.append(redirect(elsewhere.replace("PORT", server.url.rpartition(":")[2])))
    failure = call(GET).failure
    assert failure is not None and (failure.kind, failure.subtype) == ("api_error", "302")
    assert "another server" in failure.message
    assert len(server.asked) == 1


def test_redirects_in_a_circle_end(call, server):
    server.waiting += [redirect("/x") for _ in range(20)]
    failure = call(GET).failure
    assert failure is not None and failure.kind == "api_error" and "more than 5 times" in failure.message
    assert len(server.asked) == 6


def test_a_redirect_that_leads_nowhere_is_a_failure(call, server):
    server.waiting.append(redirect("http://[bad"))
    failure = call(GET).failure
    assert failure is not None and failure.kind in ("api_error", "validation_error")


# time and trouble


def slowly(server: Server, *, before: bytes = b"") -> Handle:
    def handle(handler: BaseHTTPRequestHandler) -> None:
        if before:
            handler.send_response(200)
            handler.send_header("content-type", "text/plain")
            handler.send_header("content-length", "1000")
            handler.end_headers()
            while not server.released.wait(0.02):
                handler.wfile.write(before)
        else:
            server.released.wait(30)
        handler.close_connection = True

    return handle


@pytest.mark.parametrize("before", [b"", b"."])
def test_a_slow_answer_is_a_timeout(call, server, before):
    server.waiting.append(slowly(server, before=before))
    stuck = WORKERS.stuck
    failure = call("get()\n  endpoint: URL/x\n  timeout: 150").failure
    assert failure is not None and failure.kind == "tool_timeout" and "0.15 s" in failure.message
    # The thread that waited sees by itself that it is too late.
    end = time.perf_counter() + 5
    while WORKERS.stuck > stuck and time.perf_counter() < end:
        time.sleep(0.01)
    assert WORKERS.stuck == stuck


def test_a_closed_connection_is_a_failure(call, server):
    def close(handler: BaseHTTPRequestHandler) -> None:
        handler.connection.shutdown(socket.SHUT_RDWR)
        handler.close_connection = True

    server.waiting.append(close)
    failure = call(GET).failure
    assert failure is not None and failure.kind == "api_error" and failure.subtype
    assert call(GET).failure is None


def test_a_half_answer_is_a_failure(call, server):
    def half(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")
        handler.close_connection = True

    server.waiting.append(half)
    failure = call(GET).failure
    assert failure is not None and (failure.kind, failure.subtype) == ("api_error", "RemoteProtocolError")


def test_an_answer_that_is_no_http_is_a_failure(call, server):
    def nonsense(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"\x00\x01 what is this\r\n\r\n")
        handler.close_connection = True

    server.waiting.append(nonsense)
    failure = call(GET).failure
    assert failure is not None and failure.kind == "api_error"


def test_a_server_that_is_not_there_is_a_failure(call, make_box):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    failure = make_box(f"get()\n  endpoint: http://127.0.0.1:{port}/x").call("get", [], {}).failure
    assert failure is not None and (failure.kind, failure.subtype) == ("api_error", "ConnectError")


def test_what_a_server_wants_kept_is_not_given_to_the_next_call(make_box, server):
    box = make_box(f"get()\n  endpoint: {server.url}/x")
    server.waiting.append(answer({}, set_cookie="session=of-ada; Path=/"))
    box.call("get", [], {})
    box.call("get", [], {})
    assert len(server.asked) == 2
    assert "cookie" not in server.asked[1].headers


@pytest.mark.parametrize(("status", "tries"), [(500, 3), (503, 3), (429, 3), (404, 1), (400, 1)])
def test_another_try_is_made_where_it_may_help(call, server, pauses, status, tries):
    server.waiting += [answer({}, status=status) for _ in range(2)]
    outcome = call("get()\n  endpoint: URL/x\n  retry: 2\n  retry_delay: 100")
    assert len(server.asked) == tries and pauses == [0.1] * (tries - 1)
    assert (outcome.failure is None) == (tries == 3)


def test_without_httpx_it_says_what_to_install(call, monkeypatch):
    real = builtins.__import__

    def without(name: str, *args: Any, **options: Any) -> Any:
        if name == "httpx":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.delitem(sys.modules, "memoranda.lang.http_client", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    failure = call(GET).failure
    assert failure is not None and failure.kind == "tool_error"
    assert 'pip install "memoranda[api]"' in failure.message
    monkeypatch.undo()
    assert call(GET).failure is None


# secrets


def test_secrets_reach_the_server_and_can_be_neither_passed_nor_left_out(make_box: Any, server: Server):
    lines = f"""
look(city: string)
  endpoint: {server.url}/look
  query_params:
    city: "{{{{city}}}}"
  headers:
    Authorization: "Bearer {{{{secrets.key}}}}"
"""
    box = make_box(lines, secrets={"key": "s3cret"})
    assert box.call("look", ["Porto"], {}).failure is None
    assert server.asked[0].headers["authorization"] == "Bearer s3cret"
    assert server.asked[0].query == {"city": "Porto"}
    refused = box.call("look", ["Porto"], {"secrets": {"key": "other"}}).failure
    assert refused is not None and refused.kind == "validation_error"
    make_box(lines).call("look", ["Porto"], {})
    assert server.asked[1].headers["authorization"] == "Bearer"
