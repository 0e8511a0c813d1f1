"""Read conversations from files: JSON Lines, JSON, and the exports of ChatGPT and Claude."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from memoranda.errors import InvalidValue
from memoranda.learning.messages import Message, read_messages
from memoranda.model.text import quote

_FORMATS = (
    'Give JSON Lines with a message or {"messages": […]} a line, a JSON array of messages, or conversations.json of an '
    "export from ChatGPT or Claude"
)


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation of a file."""

    conversation: str | None = None
    """Its id, if the file has one."""
    title: str = ""
    messages: tuple[Message, ...] = ()


def read_transcript(data: bytes | Iterable[str]) -> list[Transcript]:
    """Return the conversations of a file, given as bytes or lines; the format is recognized by its content.

    Raises `InvalidValue`, with the line or the conversation that cannot be read.

    >>> [talk] = read_transcript([
    ...     '{"role": "user", "content": "I live in Faro."}', '{"role": "assistant", "content": "Noted."}'
    ... ])
    >>> [message.role for message in talk.messages]
    ['user', 'assistant']
    """
    text = _decode(data) if isinstance(data, bytes) else "".join(_with_ends(data))
    if not text.strip():
        return []
    try:
        whole = json.loads(text)
    except RecursionError:
        raise InvalidValue("the file is nested too deeply", hint=_FORMATS, path="$") from None
    except json.JSONDecodeError as error:
        # Lines are tried if the first one is complete; else the position in the whole text helps more.
        if not _is_json(text.lstrip().partition("\n")[0]):
            raise InvalidValue(
                f"line {error.lineno} is not JSON: {error.msg}", hint=_FORMATS, path=f"line {error.lineno}"
            ) from None
        return _read_lines(text)
    return _read_whole(whole)


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidValue(f"line {line} is not UTF-8", hint="Save the file as UTF-8", path=f"line {line}") from None


def _with_ends(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        yield line if line.endswith("\n") else line + "\n"


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        return False
    return True


def _read_lines(text: str) -> list[Transcript]:
    """Read JSON Lines: messages that follow each other are one conversation, unless they name different ones."""
    found: list[Transcript] = []
    open_name: str | None = None
    open_messages: list[Message] = []

    def close() -> None:
        if open_messages:
            found.append(Transcript(conversation=open_name, messages=tuple(open_messages)))
            open_messages.clear()

    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        place = f"line {number}"
        try:
            value = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            why = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
            raise InvalidValue(f"{place} is not JSON: {why}", hint=_FORMATS, path=place) from None
        if not isinstance(value, Mapping):
            raise InvalidValue(f"{place} is {quote(value)}, not a message", hint=_FORMATS, path=place)
        fields = cast("Mapping[str, Any]", value)
        if _is_conversation(fields):
            close()
            found.append(_conversation(fields, place))
            continue
        name = _name(fields)
        if name != open_name:
            close()
        open_name = name
        open_messages += _messages([fields], place)
    close()
    return found


def _read_whole(value: object) -> list[Transcript]:
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        inner = fields.get("conversations")
        if isinstance(inner, list):
            return _read_whole(cast("object", inner))
        if _is_conversation(fields):
            return [_conversation(fields, "the conversation")]
        return [Transcript(conversation=_name(fields), messages=_messages([fields], "the file"))]
    if not isinstance(value, list):
        raise InvalidValue(f"the file is {quote(value)}, not a conversation", hint=_FORMATS, path="$")
    items = cast("list[object]", value)
    if items and all(isinstance(item, Mapping) and _is_conversation(cast("Any", item)) for item in items):
        return [_conversation(cast("Any", item), f"conversation {number}") for number, item in enumerate(items)]
    return [Transcript(messages=_messages(items, "the file"))] if items else []


def _is_conversation(fields: Mapping[str, Any]) -> bool:
    return any(name in fields for name in ("mapping", "chat_messages", "messages"))


def _conversation(fields: Mapping[str, Any], place: str) -> Transcript:
    if "mapping" in fields:
        said = _chatgpt(fields, place)
    elif "chat_messages" in fields:
        said = [_claude(given, place) for given in _list(fields["chat_messages"], f"chat_messages of {place}")]
    else:
        said = _list(fields["messages"], f"messages of {place}")
    title = fields.get("title") or fields.get("name")
    return Transcript(
        conversation=_name(fields),
        title=title if isinstance(title, str) else "",
        messages=_messages(said, place),
    )


def _messages(given: Sequence[object], place: str) -> tuple[Message, ...]:
    try:
        return tuple(read_messages(given))
    except InvalidValue as error:
        raise InvalidValue(f"{place}: {error.message}", hint=error.advice, path=place) from error


def _name(fields: Mapping[str, Any]) -> str | None:
    names = ("conversation", "conversation_id", "thread_id", *(("id", "uuid") if _is_conversation(fields) else ()))
    return next((fields[name] for name in names if isinstance(fields.get(name), str) and fields[name]), None)


def _list(value: object, what: str) -> list[object]:
    if not isinstance(value, list):
        raise InvalidValue(f"{what} is {quote(value)}, not a list", hint=_FORMATS, path=what)
    return cast("list[object]", value)


# ChatGPT: a tree of nodes, in which an edited message begins a new branch.


def _chatgpt(fields: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    mapping = fields["mapping"]
    if not isinstance(mapping, Mapping):
        raise InvalidValue(f"mapping of {place} is {quote(mapping)}, not an object", hint=_FORMATS, path=place)
    nodes = {
        str(name): cast("Mapping[str, Any]", node)
        for name, node in cast("Mapping[str, object]", mapping).items()
        if isinstance(node, Mapping)
    }
    branch: list[Mapping[str, Any]] = []
    seen: set[str] = set()
    name: object = fields.get("current_node")
    if name not in nodes:
        leaves = (one for one, node in nodes.items() if not node.get("children"))
        name = max(leaves, key=lambda one: _time(nodes[one]), default=None)
    while isinstance(name, str) and name in nodes and name not in seen:
        seen.add(name)
        branch.append(nodes[name])
        name = nodes[name].get("parent")
    said = (_chatgpt_message(node.get("message")) for node in reversed(branch))
    return [message for message in said if message is not None]


def _time(node: Mapping[str, Any]) -> float:
    message = node.get("message")
    time = cast("Mapping[str, Any]", message).get("create_time") if isinstance(message, Mapping) else None
    return float(time) if isinstance(time, int | float) else 0.0


_HIDDEN = frozenset({"user_editable_context", "model_editable_context", "thoughts", "reasoning_recap"})


def _chatgpt_message(given: object) -> dict[str, Any] | None:
    """Return a message of a node, or None for what was not said: settings, thoughts, hidden ones."""
    if not isinstance(given, Mapping):
        return None
    message = cast("Mapping[str, Any]", given)
    content = _mapping(message.get("content"))
    kind = str(content.get("content_type"))
    if kind in _HIDDEN or _mapping(message.get("metadata")).get("is_visually_hidden_from_conversation"):
        return None
    author = _mapping(message.get("author"))
    role = author.get("role")
    # What is addressed to a tool is a call, no matter who wrote it.
    if role == "assistant" and message.get("recipient", "all") not in ("all", None):
        role = "tool"
    parts: list[Any] = []
    for part in content.get("parts") or [content.get("text") or content.get("result") or ""]:
        if isinstance(part, str):
            parts.append(part)
        elif isinstance(part, Mapping):
            fields = cast("Mapping[str, Any]", part)
            pointer = fields.get("asset_pointer")
            if isinstance(fields.get("text"), str):
                parts.append({"type": "text", "text": fields["text"]})
            else:
                parts.append({**fields, "type": "file", "url": pointer if isinstance(pointer, str) else ""})
    return {
        "role": role,
        "content": parts,
        "name": author.get("name"),
        "id": message.get("id"),
        "create_time": message.get("create_time"),
    }


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


# Claude: a list of messages, whose text is given whole and in blocks.


def _claude(given: object, place: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidValue(f"{place} has a message {quote(given)}", hint=_FORMATS, path=place)
    message = cast("Mapping[str, Any]", given)
    files = [
        {"type": "file", "filename": str(_mapping(one).get("file_name") or _mapping(one).get("file_uuid") or "file")}
        for name in ("attachments", "files", "files_v2")
        for one in message.get(name) or ()
    ]
    blocks = [block for block in message.get("content") or () if _mapping(block).get("type") in _CLAUDE_BLOCKS]
    return {
        "role": message.get("sender"),
        "content": [*(blocks or [str(message.get("text") or "")]), *files],
        "id": message.get("uuid"),
        "created_at": message.get("created_at"),
    }


_CLAUDE_BLOCKS = frozenset({"text", "tool_use", "tool_result", "image", "document"})
"""What is part of a message; other blocks are thoughts, or notes about it."""
