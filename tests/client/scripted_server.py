"""A loopback server with scripted responses, as a Memoranda server or any other would send.

It gives what is in `waiting`, one answer a request, and then `default`. What it was asked is in `asked`.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """One request as it came: `target` is the path and the query, as they were sent."""

    method: str
    target: str
    headers: dict[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content)


class Answer(NamedTuple):
    """What to send. `cut` sends no more than so many bytes of the body and then closes the connection."""

    status: int = 200
    content: bytes = b""
    headers: Mapping[str, str] = MappingProxyType({})
    cut: int | None = None


Waiting = Answer | Callable[[Asked], Answer | None]
"""An answer, or what makes it; None closes the connection without one."""


def answers(body: Any, status: int = 200, **headers: str) -> Answer:
    """Answer with JSON."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, json.dumps(body).encode(), {"content-type": "application/json", **named})


def problem(status: int, code: str, detail: str = "it went wrong", *, headers: Any = None, **fields: Any) -> Answer:
    """Answer with a problem document."""
    said = {"type": "about:blank", "title": code, "status": status, "detail": detail, "code": code, **fields}
    return Answer(status, json.dumps(said).encode(), {"content-type": "application/problem+json", **(headers or {})})


def hangs_up(asked: Asked) -> None:
    """Close the connection without an answer."""


class LoopbackServer:
    """Gives what is in `waiting`, one a request, and then `default`; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.waiting: list[Waiting] = []
        self.default: Waiting = answers([])
        self.released = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def _answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.command, self.path, headers, self.rfile.read(length))
                server.asked.append(asked)
                waiting = server.waiting.pop(0) if server.waiting else server.default
                answer = waiting if isinstance(waiting, Answer) else waiting(asked)
                if answer is None:
                    self._hang_up()
                    return
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                if answer.status != 204:
                    self.send_header("content-length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content[: answer.cut])
                if answer.cut is not None:
                    self._hang_up()

            do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _answer

            def _hang_up(self) -> None:
                self.close_connection = True
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except OSError:
                    self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def stays_silent(self, asked: Asked) -> None:
        """Answer nothing until the test is over."""
        self.released.wait(30)

    def close(self) -> None:
        self.released.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
