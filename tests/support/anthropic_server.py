"""A loopback server with Anthropic's API: messages, whole or streamed."""

from __future__ import annotations

import json
from typing import Any

from loopback_server import Answer, Asked, LoopbackServer, Waiting, errs, pauses, sends, stops, streams, words

__all__ = ["AnthropicServer", "breaks_off", "calls", "declines", "pauses", "refuses", "says", "sends", "stops"]

Block = dict[str, Any]
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
_READ, _WRITTEN = 11, 7


def says(text: str, *, stop: str = "end_turn") -> Waiting:
    """Respond with text; `stop` is the stop reason."""
    return lambda asked: _sent(asked, [_text(text)], stop)


def calls(*calls: tuple[str, Any], text: str = "", stop: str = "tool_use") -> Waiting:
    """Respond with tool calls; text arguments are sent unchanged, which only a stream can do."""
    blocks = [_text(text)] if text else []
    for place, (name, given) in enumerate(calls):
        blocks.append({"type": "tool_use", "id": f"toolu_{place}", "name": name, "input": given})
    return lambda asked: _sent(asked, blocks, stop)


def declines(why: str = "", *, text: str = "") -> Waiting:
    """Respond with a refusal, after this text."""
    details = {"type": "refusal", "category": None, "explanation": why} if why else None
    return lambda asked: _sent(asked, [_text(text)] if text else [], "refusal", details)


def refuses(status: int, message: str = "no", **headers: str) -> Waiting:
    """Respond with an error; the client may retry by itself."""
    error = {"type": _ERRORS.get(status, "api_error"), "message": message}
    return errs(status, {"type": "error", "error": error, "request_id": "req_1"}, headers)


def breaks_off(message: str = "Overloaded", error: str = "overloaded_error") -> Waiting:
    """Begin a stream, and end it with an error."""
    failure = {"type": "error", "error": {"type": error, "message": message}}
    return lambda asked: _streamed([_started(asked), *_block(0, _text("Well")), failure])


class AnthropicServer(LoopbackServer):
    """The server; its address is `url`."""

    def __init__(self, default: str = "Hello.") -> None:
        """Start listening."""
        super().__init__(says(default))
        self.url = self.address


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _sent(asked: Asked, blocks: list[Block], stop: str, details: dict[str, Any] | None = None) -> Answer:
    if not asked.body.get("stream"):
        message = {**_message(asked), "content": blocks, "stop_reason": stop, "stop_details": details}
        message["usage"] = {"input_tokens": _READ, "output_tokens": _WRITTEN}
        return Answer(200, json.dumps(message).encode(), {})
    events = [_started(asked)]
    for place, block in enumerate(blocks):
        events += _block(place, block)
    ended = {"stop_reason": stop, "stop_sequence": None, "stop_details": details}
    events.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": _WRITTEN}})
    return _streamed([*events, {"type": "message_stop"}])


def _message(asked: Asked) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": asked.body["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": _READ, "output_tokens": 1},
    }


def _started(asked: Asked) -> dict[str, Any]:
    return {"type": "message_start", "message": _message(asked)}


def _block(place: int, block: Block) -> list[dict[str, Any]]:
    """Return the events of one block: its text, or the halves of its arguments."""
    if block["type"] == "text":
        empty, kind, field, parts = {"type": "text", "text": ""}, "text_delta", "text", words(block["text"])
    else:
        empty, kind, field = {**block, "input": {}}, "input_json_delta", "partial_json"
        whole = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
        half = len(whole) // 2
        parts = [whole[:half], whole[half:]]
    return [
        {"type": "content_block_start", "index": place, "content_block": empty},
        *({"type": "content_block_delta", "index": place, "delta": {"type": kind, field: part}} for part in parts),
        {"type": "content_block_stop", "index": place},
    ]


def _streamed(events: list[dict[str, Any]]) -> Answer:
    return streams(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
