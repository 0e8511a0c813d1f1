"""Arguments of the MCP tools: their types, JSON schemas and validation.

They have the same names as in the REST API. The user was fixed when the server was started: `scope` only chooses
between the memory of the user, that of the agent, and the shared scopes that the server was started with.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from memoranda.chat.agent import UPDATE_MEMORY
from memoranda.chat.memory_tools import MEMORY_TOOLS
from memoranda.model.block import BlockScope, BlockType, key_of
from memoranda.model.entry import NOTES, Kind
from memoranda.model.scope import SHARED
from memoranda.model.trust import Trust
from memoranda.wire.codec import decode_error, parse_moments
from memoranda.wire.memory import Limit, Recall, Remember, UpdateBlock, WriteFact

MOST_LISTED = 100
Listed = Annotated[int, msgspec.Meta(ge=1, le=MOST_LISTED)]
PassedOn = Literal["tool_internal", "tool_external", "unknown"]
Epoch = Annotated[int, msgspec.Meta(ge=0)]
"""The permission epoch under which a write was decided upon."""
OWN = "user"
"""The default scope: the memory of the user."""


class RememberEntry(Remember, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `remember`."""

    collection: str = NOTES
    passed_on: PassedOn | None = None
    """What said it, if not the model itself; it can only lower how far it is trusted."""
    epoch: Epoch | None = None
    scope: str = OWN


class RecallEntries(Recall, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `recall`."""

    collection: str | None = None
    kinds: list[Kind] | None = None
    scope: str = OWN


class LearnMessages(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `learn`."""

    messages: list[dict[str, Any]]
    conversation: str | None = None
    epoch: Epoch | None = None


class ReadContext(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `context`."""

    query: str = ""
    budget: Annotated[int, msgspec.Meta(ge=0)] = 1_500
    min_trust: Trust = "untrusted"


class ForgetEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `forget`."""

    id: str | None = None
    key: str | None = None
    collection: str | None = None
    namespace: str = ""
    identifier: str | None = None
    about: str | None = None
    dry_run: bool = False
    epoch: Epoch | None = None
    scope: str = OWN


class GetFact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `get_fact`."""

    key: str
    as_of: datetime | None = None
    scope: str = OWN


class SetFact(WriteFact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `set_fact`."""

    key: str
    epoch: Epoch | None = None
    scope: str = OWN


class ReadEpoch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `permission_epoch`."""

    scope: str = OWN


class ListFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `list_facts`."""

    prefix: str = ""
    domain: str | None = None
    limit: Listed = 50
    scope: str = OWN


class DeleteFact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `delete_fact`."""

    key: str
    expect: int | None = None
    source: str | None = None
    epoch: Epoch | None = None
    scope: str = OWN


class FactHistory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `fact_history`."""

    key: str
    limit: Listed = 20
    scope: str = OWN


class GetBlock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `get_memory_block`."""

    block: BlockType
    scope: BlockScope = "user"


class WriteBlock(UpdateBlock, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `update_memory_block`."""

    block: BlockType
    expected_updated_at: datetime | None  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues]
    epoch: Epoch | None = None
    scope: BlockScope = "user"


class SearchBlocks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `recall_blocks`."""

    query: str
    limit: Limit = 10
    min_score: float | None = None


_CHAT: dict[str, Any] = next(tool for tool in MEMORY_TOOLS if tool.name == UPDATE_MEMORY).parameters["properties"]
_DESCRIPTIONS: dict[str, str] = {
    "scope": _CHAT["scope"]["description"],
    "collection": "The collection of the entries.",
    "namespace": "A namespace of the collection.",
    "metadata": "Fields that recall can filter by. `thread`, `actor` and `time` (ISO 8601) also improve ranking.",
    "ttl": "Time to live, such as 90s, 15m, 24h, 30d, 2w or a number of seconds. Default: forever.",
    "source": "Where this comes from, such as a file or URL; recorded in the history.",
    "query": "The query, in plain words.",
    "limit": "Maximum number of items.",
    "threshold": "Minimum score, from 0 to 1.",
    "min_score": "Minimum score of a line.",
    "filter": 'On metadata: {"account": "acme"}, or with operators {"urgency": {"$gte": 3}}.',
    "as_of": "The state at this time: ISO 8601, UTC unless it has an offset.",
    "mode": "Search by meaning and words (`hybrid`), or by one of the two.",
    "min_trust": "Leave out what is trusted less, such as what tools wrote.",
    "exact": "Compare everything, in very large collections too.",
    "expand": "Number of neighbours to return on either side of each match.",
    "prefix": "Only this key and those below: `profile` includes `profile.name`.",
    "domain": "A label to list by.",
    "block": "`core` is always shown to agents, `archival` is searched line by line.",
    "value": "Any JSON value.",
    "expect": "The version it must still have; 0 if it must not exist. Default: any version.",
    "expected_updated_at": "The `updated_at` of the block as you last read it; null for a new block.",
    "epoch": "What `permission_epoch` returned when you decided to write: if permissions have changed since, "
    "nothing is written. Leave it out to write in any case.",
    "id": "The id returned by `remember` or `recall`.",
}
"""Descriptions by field name; a field means the same in every tool."""
_TOOL_DESCRIPTIONS: dict[tuple[type[msgspec.Struct], str], str] = {
    (RememberEntry, "content"): "Text, or JSON.",
    (RememberEntry, "passed_on"): "Say so when you only pass on what a tool, page or file said: `tool_external`, or "
    "`tool_internal` for a tool of your user. Leave it out for what you or the user said.",
    (RememberEntry, "key"): "A unique name: other content with the same key replaces it.",
    (RecallEntries, "collection"): "Search this collection alone. Default: everything that is remembered.",
    (RecallEntries, "kinds"): "Only these kinds of memory.",
    (ForgetEntry, "id"): "The id of an entry, or the ref of an entry, a fact or a line.",
    (LearnMessages, "messages"): "The messages, each with `role` and `content`, and perhaps `name` and `at`.",
    (LearnMessages, "conversation"): "The id of the conversation, the same each time more of it is learned.",
    (ReadContext, "query"): "What the user asked.",
    (ReadContext, "budget"): "Maximum number of tokens.",
    (ForgetEntry, "key"): "The key of the entry, instead of its id.",
    (ForgetEntry, "collection"): f"The collection of the key, `{NOTES}` by default.",
    (ForgetEntry, "identifier"): "An address, number or name: everything that contains it is forgotten.",
    (ForgetEntry, "about"): "What is meant, in words: `everything about Frank`, `the old address`.",
    (ForgetEntry, "dry_run"): "Change nothing, and return what would be forgotten.",
    (WriteBlock, "content"): _CHAT["content"]["description"],
    (SearchBlocks, "query"): "Words to search for; an empty query lists all lines.",
}
COMMON_SCOPES = "The others are memory that several users share, which may be read-only."
_KEY = "The key: words separated by dots, such as `profile.language`."


def schema_of(kind: type[msgspec.Struct], *, scopes: Sequence[str]) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments; `scope` is one of `scopes`, and omitted if there is no choice."""
    _, parts = msgspec.json.schema_components((kind,))
    schema = parts[kind.__name__]
    properties: dict[str, Any] = {
        name: {**_plain(field), "description": _TOOL_DESCRIPTIONS.get((kind, name)) or _DESCRIPTIONS.get(name, _KEY)}
        for name, field in schema["properties"].items()
    }
    if "scope" in properties:
        # Only users and agents have blocks.
        choices = [one for one in scopes if one in properties["scope"].get("enum", scopes)]
        if len(choices) > 1:
            common = f" {COMMON_SCOPES}" if any(":" in one or one == SHARED for one in choices) else ""
            description = properties["scope"]["description"] + common
            properties["scope"] |= {"enum": choices, "description": description}
        else:
            del properties["scope"]
    return {
        "type": "object",
        "properties": properties,
        "required": schema["required"] if "required" in schema else [],
        "additionalProperties": False,
    }


def _plain(field: dict[str, Any]) -> dict[str, Any]:
    """Simplify the schema of an optional field, because some clients understand only a `type`."""
    if "enum" in field:
        return {"type": "string", **field}
    if field.get("default", ...) is not None:
        return field
    kinds = [one for one in field["anyOf"] if one != {"type": "null"}]
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


Asked = TypeVar("Asked", bound=msgspec.Struct)


def read_arguments(arguments: dict[str, Any], kind: type[Asked]) -> Asked:
    """Convert the arguments of a call, or raise UsageError."""
    if "block" in arguments:
        key_of(arguments["block"])  # raises the engine's own error for an unknown block
    try:
        return msgspec.convert(arguments | parse_moments(arguments), kind)
    except msgspec.ValidationError as error:
        fault = decode_error("arguments", error, kind, hint="See the schema of the tool")
        raise fault from None
