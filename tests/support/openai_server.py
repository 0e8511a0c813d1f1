"""A loopback server with OpenAI's API: chat completions and responses, whole or streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from loopback_server import Answer, Asked, LoopbackServer, Waiting, errs, pauses, sends, stops, streams, words

__all__ = ["OpenAIServer", "breaks_off", "calls", "declines", "pauses", "refuses", "says", "sends", "stops"]

_CHAT = "/chat/completions"


def says(text: str) -> Waiting:
    """Respond with text."""
    return lambda asked: _sent(asked, text, ())


def calls(*calls: tuple[str, Any], text: str = "") -> Waiting:
    """Respond with tool calls; text arguments are sent unchanged."""
    return lambda asked: _sent(asked, text, calls)


def declines(why: str) -> Waiting:
    """Respond with a refusal."""
    return lambda asked: _sent(asked, "", (), refusal=why)


def breaks_off(text: str = "Well", message: str = "The server had an error") -> Waiting:
    """Begin a stream with this text, and end it with an error."""
    failure = {"error": {"message": message, "type": "server_error", "param": None, "code": None}}

    def answer(asked: Asked) -> Answer:
        made, before = (_chat_stream, 1) if asked.path == _CHAT else (_response_stream, 2)
        return streams([*islice(made(text, [], None), before + len(words(text))), _data(failure)])

    return answer


def refuses(status: int, message: str = "no", **headers: str) -> Waiting:
    """Respond with an error; the client is told not to retry by itself."""
    error = {"message": message, "type": "some_error", "code": None}
    return errs(status, {"error": error}, {"x-should-retry": "false", **headers})


class OpenAIServer(LoopbackServer):
    """The server; its address is `url`."""

    def __init__(self, default: str = "Hello.") -> None:
        """Start listening."""
        super().__init__(says(default))
        self.url = f"{self.address}/v1"


def _sent(asked: Asked, text: str, called: tuple[tuple[str, Any], ...], refusal: str | None = None) -> Answer:
    wanted = [(name, given if isinstance(given, str) else json.dumps(given)) for name, given in called]
    chat = asked.path == _CHAT
    if asked.body.get("stream"):
        return streams((_chat_stream if chat else _response_stream)(text, wanted, refusal))
    made = (_chat if chat else _response)(text, wanted, refusal)
    return Answer(200, json.dumps(made).encode(), {})


def _chat_stream(text: str, called: list[tuple[str, str]], refusal: str | None) -> Iterator[str]:
    """Yield a completion in chunks: text, calls with their arguments in halves, the finish reason, and the usage."""
    whole = _chat(text, called, refusal)
    yield _data(_chunk({"role": "assistant", "content": ""}))
    for part in words(text):
        yield _data(_chunk({"content": part}))
    if refusal:
        yield _data(_chunk({"refusal": refusal}))
    for place, (name, arguments) in enumerate(called):
        named = {"index": place, "id": f"call_{place}", "type": "function"}
        yield _data(_chunk({"tool_calls": [{**named, "function": {"name": name, "arguments": ""}}]}))
        for half in _halves(arguments):
            yield _data(_chunk({"tool_calls": [{"index": place, "function": {"arguments": half}}]}))
    yield _data(_chunk({}, ends=whole["choices"][0]["finish_reason"]))
    yield _data({**_chunk({}), "choices": [], "usage": whole["usage"]})
    yield "data: [DONE]\n\n"


def _chunk(delta: dict[str, Any], ends: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": ends}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "made-up",
        "choices": [choice],
    }


def _response_stream(text: str, called: list[tuple[str, str]], refusal: str | None) -> Iterator[str]:
    """Yield a response as events: each of its items begins, comes in pieces, and ends."""
    whole = _response(text, called, refusal)
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}}
    ]
    for place, item in enumerate(whole["output"]):
        empty = {**item, "status": "in_progress"} | ({"content": []} if "content" in item else {"arguments": ""})
        events.append({"type": "response.output_item.added", "output_index": place, "item": empty})
        at = {"item_id": item["id"], "output_index": place}
        if "content" in item:
            events += [
                {"type": "response.output_text.delta", **at, "content_index": 0, "delta": part, "logprobs": []}
                for part in words(text)
            ]
            if refusal:
                events.append({"type": "response.refusal.done", **at, "content_index": 0, "refusal": refusal})
        else:
            events += [
                {"type": "response.function_call_arguments.delta", **at, "delta": half}
                for half in _halves(item["arguments"])
            ]
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    events.append({"type": "response.completed", "response": whole})
    for number, event in enumerate(events):
        yield _data({**event, "sequence_number": number}, event=event["type"])


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def _data(body: dict[str, Any], event: str = "") -> str:
    named = f"event: {event}\n" if event else ""
    return f"{named}data: {json.dumps(body)}\n\n"


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
