"""A page of other people, and models that say what they are told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from memoranda.agent.models import Ask, Reply

HOTEL = {"name": "Hotel Nord", "stars": 4}


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps(HOTEL).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    """Return the address of a page that says `HOTEL`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


class Scripted:
    """A model that gives its replies in order, the last one again and again."""

    name = "scripted:model"

    def __init__(self, *replies: Reply | str) -> None:
        self.replies = list(replies)
        self.asked: list[Ask] = []

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        self.asked.append(ask)
        reply = self.replies[0] if len(self.replies) == 1 else self.replies.pop(0)
        return Reply(text=reply) if isinstance(reply, str) else reply


@pytest.fixture
def scripted() -> type[Scripted]:
    return Scripted
