"""A server on the loopback that speaks OpenAI's wire format, chat completions and responses alike.

It answers with what is put into `waiting`, one answer a request, and else says `default`. What it was asked is in
`asked`. Use it as a context manager, or end it with `close`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """One request: the path below `/v1`, its JSON, and its headers by their names in small letters."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]


class Answer(NamedTuple):
    """What to send: a status, a body as it is, and headers."""

    status: int
    content: bytes
    headers: dict[str, str]


Waiting = Callable[[str], Answer]
"""An answer, once it is known whether it is for `/chat/completions` or `/responses`."""


def says(text: str) -> Waiting:
    """Answer with words."""
    return lambda path: _sent(path, text, ())


def calls(*calls: tuple[str, Any], text: str = "") -> Waiting:
    """Answer with calls of tools; arguments that are text are sent as they are, whatever they are."""
    return lambda path: _sent(path, text, calls)


def refuses(status: int, message: str = "no", **headers: str) -> Waiting:
    """Answer with an error; the client is told not to try again by itself."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    content = json.dumps({"error": {"message": message, "type": "some_error", "code": None}}).encode()
    return lambda path: Answer(status, content, {"x-should-retry": "false", **named})


def sends(content: bytes, kind: str = "application/json") -> Waiting:
    """Answer with anything."""
    return lambda path: Answer(200, content, {"content-type": kind})


class OpenAIServer:
    """The server; its address is `url`."""

    def __init__(self, default: str = "Hello.") -> None:
        """Begin to listen."""
        self.default = default
        self.asked: list[Asked] = []
        self.waiting: list[Waiting] = []
        self.released = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                path = self.path.removeprefix("/v1")
                server.asked.append(Asked(path, body, {name.lower(): value for name, value in self.headers.items()}))
                answer = (server.waiting.pop(0) if server.waiting else says(server.default))(path)
                self.send_response(answer.status)
                for name, value in {"content-type": "application/json", **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

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
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    def stays_silent(self) -> Waiting:
        """Answer only when the server is closed."""

        def answer(path: str) -> Answer:
            self.released.wait(30)
            return Answer(503, b"{}", {"connection": "close"})

        return answer

    def close(self) -> None:
        """Stop listening."""
        self.released.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def __enter__(self) -> OpenAIServer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _sent(path: str, text: str, called: tuple[tuple[str, Any], ...]) -> Answer:
    wanted = [(name, given if isinstance(given, str) else json.dumps(given)) for name, given in called]
    made = _chat(text, wanted) if path == "/chat/completions" else _response(text, wanted)
    return Answer(200, json.dumps(made).encode(), {})


def _chat(text: str, called: list[tuple[str, str]]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if called:
        message["tool_calls"] = [
            {"id": f"call_{place}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for place, (name, arguments) in enumerate(called)
        ]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "made-up",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if called else "stop"}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }


def _response(text: str, called: list[tuple[str, str]]) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if text:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        output.append(
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
        )
    output += [
        {
            "type": "function_call",
            "id": f"fc_{place}",
            "call_id": f"call_{place}",
            "name": name,
            "arguments": arguments,
            "status": "completed",
        }
        for place, (name, arguments) in enumerate(called)
    ]
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": "made-up",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 11,
            "output_tokens": 7,
            "total_tokens": 18,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }
