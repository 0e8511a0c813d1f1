"""A server on the loopback that speaks OpenAI's wire format, chat completions and responses alike."""

from __future__ import annotations

import json
from typing import Any

from loopback_server import Answer, LoopbackServer, Waiting, errs, sends

__all__ = ["OpenAIServer", "calls", "declines", "refuses", "says", "sends"]


def says(text: str) -> Waiting:
    """Answer with words."""
    return lambda asked: _sent(asked.path, text, ())


def calls(*calls: tuple[str, Any], text: str = "") -> Waiting:
    """Answer with calls of tools; arguments that are text are sent as they are, whatever they are."""
    return lambda asked: _sent(asked.path, text, calls)


def declines(why: str) -> Waiting:
    """Answer that the model will not."""
    return lambda asked: _sent(asked.path, "", (), refusal=why)


def refuses(status: int, message: str = "no", **headers: str) -> Waiting:
    """Answer with an error; the client is told not to try again by itself."""
    error = {"message": message, "type": "some_error", "code": None}
    return errs(status, {"error": error}, {"x-should-retry": "false", **headers})


class OpenAIServer(LoopbackServer):
    """The server; its address is `url`."""

    def __init__(self, default: str = "Hello.") -> None:
        """Begin to listen."""
        super().__init__(says(default))
        self.url = f"{self.address}/v1"


def _sent(path: str, text: str, called: tuple[tuple[str, Any], ...], refusal: str | None = None) -> Answer:
    wanted = [(name, given if isinstance(given, str) else json.dumps(given)) for name, given in called]
    made = (_chat if path == "/chat/completions" else _response)(text, wanted, refusal)
    return Answer(200, json.dumps(made).encode(), {})


def _chat(text: str, called: list[tuple[str, str]], refusal: str | None) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": refusal}
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


def _response(text: str, called: list[tuple[str, str]], refusal: str | None) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    content: list[dict[str, Any]] = []
    if text:
        content.append({"type": "output_text", "text": text, "annotations": []})
    if refusal:
        content.append({"type": "refusal", "refusal": refusal})
    if content:
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
