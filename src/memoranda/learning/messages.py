"""Messages of any provider as one type: OpenAI, Anthropic, LangChain, or plain dictionaries.

Shapes are recognized by their fields, message by message, so that a list may mix providers; no library of a provider is
imported. What tools were asked and what they returned become messages of the role `tool`, shortened. Images, sounds and
files are kept as references. What a model thought is left out: it was not said.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from typing import Any, Literal, cast

import msgspec

from memoranda.errors import InvalidValue, UsageError
from memoranda.model.clock import from_micros, parse_moment
from memoranda.model.text import quote

Role = Literal["user", "assistant", "system", "tool"]

LONGEST_TOOL_TEXT = 2_000
"""Characters that are kept of a tool's call or result."""
LONGEST_REFERENCE = 500
"""Characters of a reference to an attachment; a longer address is replaced by its digest."""

_SHAPES = (
    'Pass text, {"role": "user", "content": "…"} with an optional name and time (at), or messages as OpenAI, '
    "Anthropic or LangChain have them"
)


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation."""

    role: Role
    text: str
    name: str | None = None
    """Who said it, or the tool that was called."""
    at: datetime | None = None
    """When it was said, in UTC."""
    id: str | None = None
    attachments: tuple[str, ...] = ()
    """References to images, sounds and files: addresses, ids, or digests of their content."""


def read_messages(messages: object, *, at: datetime | str | float | None = None) -> list[Message]:
    """Return messages of any provider in one form; `at` is the time of those that have none.

    Text is one message of the user. Raises `InvalidValue` for a message of an unknown shape.

    >>> [said] = read_messages([{"role": "user", "content": [{"type": "text", "text": "I live in Faro."}]}])
    >>> said.role, said.text
    ('user', 'I live in Faro.')
    """
    moment = None if at is None else read_moment(at)
    single = isinstance(messages, str | Mapping | Message) or not isinstance(messages, Iterable)
    several: Iterable[object] = [cast(object, messages)] if single else cast("Iterable[object]", messages)
    found = [message for index, given in enumerate(several) for message in _read(given, index)]
    return found if moment is None else with_time(found, moment)


def read_moment(at: datetime | str | float) -> datetime:
    """Return a time that is given as a datetime, ISO 8601 text, or seconds since 1970; raise InvalidValue."""
    return _moment(at, "the time of the messages", "$")


def with_time(messages: Iterable[Message], at: datetime) -> list[Message]:
    """Return messages, those without a time with this one."""
    return [message if message.at else msgspec.structs.replace(message, at=at) for message in messages]


def _read(given: object, index: int) -> Iterator[Message]:
    if isinstance(given, Message):
        yield given
        return
    if isinstance(given, str):
        yield Message(role="user", text=given)
        return
    fields = _fields(given)
    if fields is None:
        raise _unknown(index, f"{quote(type(given).__name__)}")
    yield from _Reader(_unwrap(fields), index).messages()


_ATTRIBUTES = (
    *("role", "type", "content", "name", "id", "tool_calls", "function_call", "tool_call_id", "additional_kwargs"),
    *("at", "timestamp", "created_at", "create_time"),
)


def _fields(given: object) -> Mapping[str, Any] | None:
    """Return what a dictionary or an object says of itself, or None for anything else."""
    if isinstance(given, Mapping):
        return cast("Mapping[str, Any]", given)
    dump: object = getattr(given, "model_dump", None)
    if callable(dump):
        dumped = cast("Callable[[], object]", dump)()
        return cast("Mapping[str, Any]", dumped) if isinstance(dumped, Mapping) else None
    if is_dataclass(given) and not isinstance(given, type):
        return asdict(given)
    if hasattr(given, "content") and (hasattr(given, "type") or hasattr(given, "role")):
        return {name: getattr(given, name) for name in _ATTRIBUTES if getattr(given, name, None) is not None}
    return None


def _unwrap(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a message that LangChain has dumped: `{"type", "data"}` or `{"lc", "kwargs"}`."""
    inner = fields.get("data" if "data" in fields and "content" not in fields else "kwargs")
    if not isinstance(inner, Mapping) or "content" not in inner:
        return fields
    own = cast("Mapping[str, Any]", inner)
    if "type" in own:
        return own
    path = fields.get("id")
    named = str(cast("list[object]", path)[-1]) if isinstance(path, list) and path else str(fields.get("type"))
    return {**own, "type": named}


_ROLES: dict[str, Role] = {
    "user": "user",
    "human": "user",
    "humanmessage": "user",
    "humanmessagechunk": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "aimessage": "assistant",
    "aimessagechunk": "assistant",
    "system": "system",
    "systemmessage": "system",
    "systemmessagechunk": "system",
    "developer": "system",
    "tool": "tool",
    "toolmessage": "tool",
    "toolmessagechunk": "tool",
    "function": "tool",
    "functionmessage": "tool",
}
_TEXTS = frozenset({"text", "input_text", "output_text", "refusal", "summary_text"})
_THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content", "thoughts"})
_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use", "tool_call", "function_call", "custom_tool_call"})
_RESULTS = frozenset({"tool_result", "mcp_tool_result", "function_call_output", "custom_tool_call_output"})
_MEDIA = frozenset(
    {
        *("image", "image_url", "input_image", "audio", "input_audio", "output_audio", "video", "video_url"),
        *("file", "input_file", "document", "container_upload", "media"),
    }
)
_TIMES = ("at", "timestamp", "created_at", "create_time")


class _Reader:
    """Reads one message, which may become several: a text, and calls of tools."""

    def __init__(self, fields: Mapping[str, Any], index: int) -> None:
        self._fields = fields
        self._index = index
        self._found: list[Message] = []
        self._text: list[str] = []
        self._attachments: list[str] = []
        self._calls: set[str] = set()
        self._at = self._time()

    def messages(self) -> list[Message]:
        """Return the messages, in the order of their parts; a message without any content gives none."""
        named = self._fields.get("role", self._fields.get("type"))
        kind = named.lower() if isinstance(named, str) else ""
        if "role" not in self._fields and self._item(kind):
            return self._found
        role = _ROLES.get(kind)
        if role is None:
            raise _unknown(
                self._index, f"role {quote(named)}" if named is not None else f"{_description(self._fields)}"
            )
        calls = self._tool_calls()
        if "content" not in self._fields and not calls:
            raise _unknown(self._index, f"no content in {_description(self._fields)}")
        self._content(self._fields.get("content"), role)
        spoken = self._fields.get("audio")
        if not self._text and isinstance(spoken, Mapping):
            self._content(cast("Mapping[str, Any]", spoken).get("transcript"), role)
        self._end_text(role)
        for call in calls:
            self._call(call)
        return self._found

    def _item(self, kind: str) -> bool:
        """Read an item of OpenAI's Responses that is not a message; return whether it was one."""
        if kind in _THOUGHTS or kind == "item_reference":
            return True
        if kind in _CALLS or kind in _RESULTS:
            self._part(self._fields, "assistant")
            return True
        if kind.endswith("_call"):
            self._say_tool(kind, f"{kind} {_compact(self._fields.get('action', self._fields.get('queries', '')))}")
            return True
        return False

    def _time(self) -> datetime | None:
        for name in _TIMES:
            if self._fields.get(name) is not None:
                return _moment(self._fields[name], f"{name} of message {self._index}", f"$[{self._index}].{name}")
        return None

    def _tool_calls(self) -> list[Mapping[str, Any]]:
        """Return calls beside the content, as OpenAI and LangChain have them."""
        more = self._fields.get("additional_kwargs")
        places = [self._fields, *([cast("Mapping[str, Any]", more)] if isinstance(more, Mapping) else [])]
        calls: list[Mapping[str, Any]] = []
        for place in places:
            for given in cast("Iterable[object]", place.get("tool_calls") or ()):
                fields = _fields(given)
                if fields is None:
                    raise _unknown(self._index, f"a tool call {quote(given)}")
                calls.append(fields)
            if isinstance(place.get("function_call"), Mapping):
                calls.append(place["function_call"])
        return calls

    def _content(self, content: object, role: Role) -> None:
        if isinstance(content, str):
            self._text.append(content)
        elif isinstance(content, Mapping):
            self._part(cast("Mapping[str, Any]", content), role)
        elif isinstance(content, list | tuple):
            for part in cast("Iterable[object]", content):
                if isinstance(part, str):
                    self._text.append(part)
                elif (fields := _fields(part)) is not None:
                    self._part(fields, role)
                else:
                    raise _unknown(self._index, f"a part {quote(part)}")
        elif content is not None:
            raise _unknown(self._index, f"content {quote(content)}")

    def _part(self, part: Mapping[str, Any], role: Role) -> None:
        kind = str(part.get("type", "text" if "text" in part else ""))
        if kind in _TEXTS:
            text = part.get("refusal" if kind == "refusal" else "text")
            if not isinstance(text, str):
                raise _unknown(self._index, f"text {quote(text)}")
            self._text.append(text)
        elif kind in _MEDIA:
            self._attachments.append(_reference(part, kind))
        elif kind in _CALLS:
            self._end_text(role)
            self._call(part)
        elif kind in _RESULTS or kind.endswith("_tool_result"):
            self._end_text(role)
            self._result(part)
        elif kind not in _THOUGHTS:
            raise _unknown(self._index, f"a part of type {quote(kind)}" if kind else f"a part {_description(part)}")

    def _end_text(self, role: Role) -> None:
        """Make a message of the text and the attachments so far."""
        text = "\n".join(self._text)
        if role == "tool":
            text = _short(text)
        if text.strip() or self._attachments:
            self._found.append(
                Message(
                    role=role,
                    text=text,
                    name=_text_or_none(self._fields.get("name")),
                    at=self._at,
                    id=_text_or_none(self._fields.get("id") or self._fields.get("tool_call_id")),
                    attachments=tuple(self._attachments),
                )
            )
        self._text, self._attachments = [], []

    def _call(self, call: Mapping[str, Any]) -> None:
        """Add a call of a tool, once: LangChain has those of Anthropic in the content and beside it."""
        known = _text_or_none(call.get("call_id") or call.get("id"))
        if known is not None:
            if known in self._calls:
                return
            self._calls.add(known)
        inner = call.get("function") or call.get("custom")
        asked = cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else call
        name = _text_or_none(asked.get("name")) or "tool"
        given = next((asked[one] for one in ("arguments", "input", "args") if asked.get(one) is not None), "")
        self._say_tool(name, f"{name} {_compact(given)}".strip(), known)

    def _result(self, part: Mapping[str, Any]) -> None:
        known = _text_or_none(part.get("tool_use_id") or part.get("call_id") or part.get("id"))
        content: object = part.get("output", part.get("content"))
        texts: list[str] = []
        kept: list[str] = []
        for piece in cast("list[object]", content) if isinstance(content, list) else [content]:
            fields = _fields(piece) or {}
            kind = str(fields.get("type"))
            if kind in _MEDIA:
                kept.append(_reference(fields, kind))
            elif piece is not None:
                texts.append(_compact(fields.get("text", fields) if kind in _TEXTS else fields or piece))
        self._say_tool(None, "\n".join(texts), known, tuple(kept))

    def _say_tool(self, name: str | None, text: str, known: str | None = None, kept: tuple[str, ...] = ()) -> None:
        if text.strip() or kept:
            self._found.append(
                Message(role="tool", text=_short(text), name=name, at=self._at, id=known, attachments=kept)
            )


def _reference(part: Mapping[str, Any], kind: str) -> str:
    """Return what an image, a sound or a file is found by: an address, an id or a name, else a digest."""
    places: list[Mapping[str, Any]] = [part]
    for name in (kind, "source", "file", "image_url", "input_audio"):
        inner = part.get(name)
        if isinstance(inner, Mapping):
            places.append(cast("Mapping[str, Any]", inner))
        elif isinstance(inner, str):
            places.append({"url": inner})
    for place in places:
        for name in ("url", "image_url", "file_url", "file_id", "id", "filename", "file_name", "title"):
            value = place.get(name)
            if isinstance(value, str) and value and not value.startswith("data:") and len(value) <= LONGEST_REFERENCE:
                return f"file:{value}" if name in ("file_id", "id") else value
    data = hashlib.sha256(_compact(dict(part)).encode("utf-8", "replace")).hexdigest()[:32]
    return f"{kind}:sha256:{data}"


def _moment(given: object, what: str, path: str) -> datetime:
    """Return a time that is given as a datetime, ISO 8601 text, or seconds or milliseconds since 1970."""
    try:
        if isinstance(given, int | float) and not isinstance(given, bool):
            return datetime.fromtimestamp(given / 1_000 if abs(given) > 100_000_000_000 else given, UTC)
        if isinstance(given, datetime | str):
            return from_micros(parse_moment(given))
    except (UsageError, ValueError, OverflowError, OSError):
        pass
    raise InvalidValue(
        f"{what} is {quote(given)}, which is not a time",
        hint="Write it as ISO 8601, such as 2026-04-30T16:20:00Z, or as seconds since 1970",
        path=path,
    )


def _unknown(index: int, found: str) -> InvalidValue:
    return InvalidValue(f"message {index} has an unknown shape: {found}", hint=_SHAPES, path=f"$[{index}]")


def _description(fields: Mapping[str, Any]) -> str:
    return f"a dictionary with {quote(', '.join(map(str, fields)))}" if fields else "an empty dictionary"


def _compact(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TOOL_TEXT else text[: LONGEST_TOOL_TEXT - 1] + "…"


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
