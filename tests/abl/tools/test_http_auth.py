"""What an HTTP tool sends to prove who calls, against a real server on the loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest

from memoranda.abl.parser import read
from memoranda.abl.tools.outcome import Outcome

Call = Callable[..., Outcome]


class Server:
    """Keeps the headers of each request by its path, and gives tokens."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.forms: list[dict[str, list[str]]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                if self.path == "/token":
                    server.forms.append(parse_qs(body.decode()))
                    answer: dict[str, Any] = {"access_token": f"t{len(server.forms)}", "expires_in": 3600}
                else:
                    server.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                    answer = {}
                content = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def box(make_box: Any, server: Server) -> Callable[..., Any]:
    """Return how to make a box with the tool `stock`, whose further lines are given."""

    def box(*lines: str, **secrets: str) -> Any:
        below = "\n".join(f"  {line.replace('URL', server.url)}" for line in lines)
        return make_box(f"stock() -> object\n  endpoint: {server.url}/stock\n{below}", secrets=secrets)

    return box


@pytest.mark.parametrize(
    ("lines", "secrets", "header", "sent"),
    [
        (["auth: bearer"], {"bearer_token": "abc"}, "authorization", "Bearer abc"),
        (
            ["auth: Bearer", "auth_config:", '  token: "{{secrets.mine}}"'],
            {"mine": "xyz"},
            "authorization",
            "Bearer xyz",
        ),
        (["auth: api_key"], {"api_key": "k1"}, "x-api-key", "k1"),
        (["auth: api_key", "auth_config:", '  header_name: "X-Key"'], {"api_key": "k2"}, "x-key", "k2"),
        (["auth: basic"], {"username": "ada", "password": "pw"}, "authorization", "Basic YWRhOnB3"),
        (
            ["auth: custom", "auth_config:", "  custom_headers:", '    X-Org: "{{secrets.org}}"'],
            {"org": "o7"},
            "x-org",
            "o7",
        ),
        (["auth: oauth2_user"], {"oauth2_token": "u1"}, "authorization", "Bearer u1"),
        (
            ["auth: api_key", "headers:", '  X-API-Key: "{{secrets.other}}"'],
            {"api_key": "k3", "other": "k4"},
            "x-api-key",
            "k4",
        ),
    ],
)
def test_the_declared_auth_is_sent(
    box: Any, server: Server, lines: list[str], secrets: dict[str, str], header: str, sent: str
) -> None:
    assert box(*lines, **secrets).call("stock", [], {}).failure is None
    [(_, headers)] = server.asked
    assert headers[header] == sent


def test_nothing_is_sent_while_a_secret_is_missing(box: Any, server: Server) -> None:
    failure = box("auth: bearer").call("stock", [], {}).failure
    assert failure is not None
    assert (failure.kind, "needs the secret `bearer_token`" in failure.message) == ("validation_error", True)
    assert server.asked == []
    assert box("auth: none").call("stock", [], {}).failure is None
    assert "authorization" not in server.asked[0][1]


def test_a_token_is_requested_with_the_credentials_of_the_client_and_used_until_it_expires(
    box: Any, server: Server
) -> None:
    tool = box(
        "auth: oauth2_client",
        "auth_config:",
        '  token_url: "URL/token"',
        '  client_id: "shop"',
        '  client_secret: "{{secrets.shop_secret}}"',
        '  scopes: "stock.read"',
        shop_secret="s3",
    )
    for _ in range(2):
        assert tool.call("stock", [], {}).failure is None
    assert [headers["authorization"] for _, headers in server.asked] == ["Bearer t1", "Bearer t1"]
    assert server.forms == [
        {
            "grant_type": ["client_credentials"],
            "client_id": ["shop"],
            "client_secret": ["s3"],
            "scope": ["stock.read"],
        }
    ]


def test_an_auth_that_is_not_supported_has_a_warning() -> None:
    from memoranda.abl.checker.check import check_source

    text = "TOOLS:\n  stock() -> object\n    endpoint: https://stock.example\n    auth: saml\n"
    assert not read(text, fragment=True).failed
    _, _, found = check_source(text, fragment=True)
    assert [(one.severity, one.code) for one in found] == [("warning", "not_acted_on")]
