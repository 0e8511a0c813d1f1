"""Programs of a server reach the public internet and what its operator lists, whatever they are written in."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

API = "/api/v1"
FETCH = """
defs:
  ask: {kind: task, action: http_request, inputs: {url: "=$input.url"}}
flow:
  - do: ask
outputs:
  body: "=$output.ask.body"
"""
AGENT = """
AGENT: Caller
GOAL: "Ask a server"
FLOW:
  ask:
    REASONING: false
    CALL: look()
    ON_SUCCESS:
      RESPOND: "It said {{word}}."
      THEN: COMPLETE
    ON_FAIL:
      RESPOND: "Not reached."
      THEN: COMPLETE
TOOLS:
  look() -> object
    type: http
    endpoint: "URL/word"
"""


@pytest.fixture
def inside() -> Iterator[Any]:
    """A service that only this machine should reach."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", "15")
            self.end_headers()
            self.wfile.write(b'{"word":"heyo"}')

        def log_message(self, format: str, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{http.server_port}", asked
    http.shutdown()
    thread.join()
    http.server_close()


def test_a_service_of_the_own_machine_is_reached_only_where_it_is_listed(
    tmp_path: Path, serving: Any, inside: Any
) -> None:
    url, asked = inside
    for name, text in {"workflows/fetch.yaml": FETCH, "agents/caller.abl": AGENT.replace("URL", url)}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    folders = {f"MEMORANDA_{name.upper()}": str(tmp_path / name) for name in ("workflows", "agents")}
    port = url.rpartition(":")[2]
    with serving(tmp_path / "memory.db", **folders) as one:
        ada = one.client(one.key_for("ada"))
        for address in (url, f"http://localhost:{port}", f"http://2130706433:{port}", "http://169.254.169.254"):
            run = ada.post(f"{API}/workflows/fetch/runs", json={"input": {"url": f"{address}/word"}}).json()
            assert (run["status"], run["error"]["type"]) == ("failed", "denied"), run
            assert "MEMORANDA_EGRESS_ALLOW=" in run["error"]["details"]["hint"]
        said = ada.post(f"{API}/agents/Caller/sessions", json={}).json()
        assert said["turns"][0]["messages"] == ["Not reached."]
        assert asked == []
    with serving(tmp_path / "memory.db", MEMORANDA_EGRESS_ALLOW=f"127.0.0.1:{port}", **folders) as one:
        ada = one.client(one.key_for("ada"))
        run = ada.post(f"{API}/workflows/fetch/runs", json={"input": {"url": f"{url}/word"}}).json()
        assert (run["status"], run["output"]) == ("completed", {"body": {"word": "heyo"}})
        said = ada.post(f"{API}/agents/Caller/sessions", json={}).json()
        assert said["turns"][0]["messages"] == ["It said heyo."]
        assert asked == ["/word", "/word"]
