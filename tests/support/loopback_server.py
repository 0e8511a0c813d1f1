"""A loopback server with scripted responses, shared by the servers of all wire formats.

It sends the responses in `waiting`, one per request, and otherwise `default`. Its requests are in `asked`. Use it as a
context manager, or stop it with `close`. A stream is sent in pieces; `pauses` and `stops` say what happens between
them.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self


class Asked(NamedTuple):
    """One request: the path below `/v1`, its JSON, and its headers by lower-case name."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]


class Answer(NamedTuple):
    """A response: a status, a body, whole or in pieces, and headers."""

    status: int
    content: bytes | Iterable[bytes]
    headers: dict[str, str]


Waiting = Callable[[Asked], Answer]
"""An answer, once it is known what was asked."""


class BrokenOff(Exception):
    """Raised between two pieces of a response: the connection is closed."""


def streams(events: Iterable[str]) -> Answer:
    """Return a response that is a stream of events, each sent separately."""
    return Answer(200, (event.encode() for event in events), {"content-type": "text/event-stream"})


def words(text: str) -> list[str]:
    """Return a text in pieces, as a model streams it: word by word."""
    return re.findall(r"\s*\S+|\s+$", text)


def pauses(answer: Waiting, go_on: threading.Event, *, before: str) -> Waiting:
    """Stream a response, and wait before the first event that contains these words."""
    return lambda asked: _between(answer(asked), before, lambda: go_on.wait(30))


def stops(answer: Waiting, *, before: str) -> Waiting:
    """Stream a response, and close the connection before the first event that contains these words."""

    def broken() -> None:
        raise BrokenOff

    return lambda asked: _between(answer(asked), before, broken)


def _between(answer: Answer, before: str, act: Callable[[], object]) -> Answer:
    assert not isinstance(answer.content, bytes), "the answer is no stream"

    def pieces(content: Iterable[bytes]) -> Iterator[bytes]:
        acted = False
        for piece in content:
            if not acted and before.encode() in piece:
                acted = True
                act()
            yield piece

    return answer._replace(content=pieces(answer.content))


def sends(content: bytes, kind: str = "application/json", status: int = 200) -> Waiting:
    """Respond with any value."""
    return lambda asked: Answer(status, content, {"content-type": kind})


def errs(status: int, body: dict[str, Any], headers: dict[str, str]) -> Waiting:
    """Respond with an error; header names are written with `_` for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda asked: Answer(status, json.dumps(body).encode(), named)


class LoopbackServer:
    """The server; its address is `url`."""

    def __init__(self, default: Waiting) -> None:
        """Start listening."""
        self.default = default
        self.asked: list[Asked] = []
        self.waiting: list[Waiting] = []
        self.released = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                path = self.path.partition("?")[0].removeprefix("/v1")
                asked = Asked(path, body, {name.lower(): value for name, value in self.headers.items()})
                server.asked.append(asked)
                answer = (server.waiting.pop(0) if server.waiting else server.default)(asked)
                self.send_response(answer.status)
                for name, value in {"content-type": "application/json", **answer.headers}.items():
                    self.send_header(name, value)
                if isinstance(answer.content, bytes):
                    self.send_header("content-length", str(len(answer.content)))
                    self.end_headers()
                    self.wfile.write(answer.content)
                else:
                    self.send_header("transfer-encoding", "chunked")
                    self.end_headers()
                    self._send_in_pieces(answer.content)

            def _send_in_pieces(self, content: Iterable[bytes]) -> None:
                try:
                    for piece in content:
                        self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    self.wfile.write(b"0\r\n\r\n")
                except BrokenOff:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except ConnectionError:
                    self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.address = f"http://127.0.0.1:{self._http.server_port}"

    def stays_silent(self) -> Waiting:
        """Respond only when the server is closed."""

        def answer(asked: Asked) -> Answer:
            self.released.wait(30)
            return Answer(503, b"{}", {"connection": "close"})

        return answer

    def close(self) -> None:
        """Stop listening."""
        self.released.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
