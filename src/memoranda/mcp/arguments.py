"""What each tool is called with: its JSON schema for a client, and a call's arguments as a checked value.

What REST takes as a body is taken here too, under the same names; a tool adds what an address would have said. Whose
memory it is was said when the door was opened: `scope` only chooses between the two parts of it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, TypeVar

import msgspec

from memoranda.chat.agents import UPDATE_MEMORY
from memoranda.chat.memory_tools import MEMORY_TOOLS
from memoranda.model.block import BlockScope, BlockType, key_of
from memoranda.wire.blocks import Limit, UpdateBlock
from memoranda.wire.collections import Recall, Remember
from memoranda.wire.facts import WriteFact
from memoranda.wire.reading import fault_in, moments_in

MOST_LISTED = 100
Listed = Annotated[int, msgspec.Meta(ge=1, le=MOST_LISTED)]
COLLECTION = "notes"
"""Where entries are kept that a model names no collection for: what one remembers, another has to find."""


class RememberEntry(Remember, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `remember` is called with."""

    collection: str = COLLECTION
    scope: BlockScope = "user"


class RecallEntries(Recall, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `recall` is called with."""

    collection: str = COLLECTION
    scope: BlockScope = "user"


class ForgetEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `forget` is called with."""

    id: str | None = None
    key: str | None = None
    collection: str = COLLECTION
    namespace: str = ""
    scope: BlockScope = "user"


class GetFact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `get_fact` is called with."""

    key: str
    as_of: datetime | None = None
    scope: BlockScope = "user"


class SetFact(WriteFact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `set_fact` is called with."""

    key: str
    scope: BlockScope = "user"


class ListFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `list_facts` is called with."""

    prefix: str = ""
    domain: str | None = None
    limit: Listed = 50
    scope: BlockScope = "user"


class DeleteFact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `delete_fact` is called with."""

    key: str
    expect: int | None = None
    source: str | None = None
    scope: BlockScope = "user"


class FactHistory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `fact_history` is called with."""

    key: str
    limit: Listed = 20
    scope: BlockScope = "user"


class GetBlock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `get_memory_block` is called with."""

    block: BlockType
    scope: BlockScope = "user"


class WriteBlock(UpdateBlock, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `update_memory_block` is called with."""

    block: BlockType
    expected_updated_at: datetime | None  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues]
    scope: BlockScope = "user"


class SearchBlocks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `recall_blocks` is called with."""

    query: str
    limit: Limit = 10
    min_score: float | None = None


_CHAT: dict[str, Any] = next(tool for tool in MEMORY_TOOLS if tool.name == UPDATE_MEMORY).parameters["properties"]
_SAID: dict[str, str] = {
    "scope": _CHAT["scope"]["description"],
    "collection": "Where entries of one kind are kept.",
    "namespace": "A part of the collection.",
    "metadata": "What recall can filter by. `thread`, `actor` and `time` (ISO 8601) also help it to rank.",
    "ttl": "Forget it after 90s, 15m, 24h, 30d or 2w, or after so many seconds; without it, it is kept for good.",
    "source": "Where this comes from, such as a file or an address; kept in the history.",
    "query": "What is looked for, in plain words.",
    "limit": "At most so many.",
    "threshold": "Leave out what scores less, from 0 to 1.",
    "min_score": "Leave out lines that score less.",
    "filter": 'On metadata: {"account": "acme"}, or with operators {"urgency": {"$gte": 3}}.',
    "as_of": "As it stood then: ISO 8601, UTC without a zone.",
    "mode": "By meaning and by words (`hybrid`), or by one of the two.",
    "expand": "How many neighbours on either side of each match are shown.",
    "prefix": "Only this key and those below: `profile` holds `profile.name`.",
    "domain": "A label to list by.",
    "block": "`core` is what always matters, `archival` is searched line by line.",
    "value": "Any JSON value.",
    "expect": "The version it must still be at; 0 where there must be none. Without it the write is not compared.",
    "expected_updated_at": "The `updated_at` of the block as you last read it; null for one that must not exist yet.",
    "id": "As `remember` and `recall` gave it.",
}
"""What a name means: a field of one name means the same in every tool."""
_SAID_BY_TOOL: dict[tuple[type[msgspec.Struct], str], str] = {
    (RememberEntry, "content"): "Text, or JSON.",
    (RememberEntry, "key"): "A name of its own: other content under it takes its place.",
    (ForgetEntry, "key"): "What it was remembered under, instead of its id.",
    (WriteBlock, "content"): _CHAT["content"]["description"],
    (SearchBlocks, "query"): "Words that the lines have; an empty one lists all.",
}
_KEY = "Its name: words with dots between them, such as `profile.language`."


def schema_of(kind: type[msgspec.Struct], *, agent: bool) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments; where there is no agent, there is no scope to choose."""
    _, parts = msgspec.json.schema_components((kind,))
    schema = parts[kind.__name__]
    properties: dict[str, Any] = {
        name: {**_plain(field), "description": _SAID_BY_TOOL.get((kind, name)) or _SAID.get(name, _KEY)}
        for name, field in schema["properties"].items()
        if agent or name != "scope"
    }
    return {
        "type": "object",
        "properties": properties,
        "required": schema["required"] if "required" in schema else [],
        "additionalProperties": False,
    }


def _plain(field: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a field without what it says by being left out: not every client knows more than a type."""
    if "enum" in field:
        return {"type": "string", **field}
    if field.get("default", ...) is not None:
        return field
    kinds = [one for one in field["anyOf"] if one != {"type": "null"}]
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


Asked = TypeVar("Asked", bound=msgspec.Struct)


def read_arguments(arguments: dict[str, Any], kind: type[Asked]) -> Asked:
    """Return the arguments of a call as a value, or refuse them."""
    if "block" in arguments:
        key_of(arguments["block"])  # refuses what is no block, in the words of every door
    try:
        return msgspec.convert(arguments | moments_in(arguments), kind)
    except msgspec.ValidationError as error:
        fault = fault_in("arguments", error, hint="The schema of the tool says what it takes")
        raise fault from None
