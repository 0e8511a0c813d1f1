"""What the MCP server offers: tools with descriptions for models, resources, and a prompt with the user's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from memoranda.agent.prompt import MEMORY_NOTICE
from memoranda.chat.agent import RECALL_MEMORY, UPDATE_MEMORY
from memoranda.chat.memory_tools import MEMORY_TOOLS
from memoranda.errors import Conflict, NotFound
from memoranda.mcp import arguments
from memoranda.mcp.backends import ANSWER_BYTES, Backend
from memoranda.model.entry import NOTES
from memoranda.model.text import quote
from memoranda.wire.codec import fit_bytes
from memoranda.wire.memory import Recalled

_IN_CHAT = {tool.name: tool.description for tool in MEMORY_TOOLS}


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP tool."""

    name: str
    title: str
    description: str
    takes: type[msgspec.Struct]
    does: Callable[[Backend, Any], Any]
    writes: bool = False
    destroys: bool = False
    """Whether it may delete or replace data."""
    repeatable: bool = True
    """Whether a second call with the same arguments changes nothing."""

    def call(self, backend: Backend, given: dict[str, Any]) -> Any:
        """Call the tool and return its result as plain JSON values."""
        asked: Any = arguments.read_arguments(given, self.takes)
        epoch = asked.epoch if self.writes else None
        if epoch is not None:
            backend = backend.at_epoch(epoch)
        return msgspec.to_builtins(self.does(backend, asked))


def _recall(backend: Backend, asked: arguments.RecallEntries) -> dict[str, Any]:
    recalled = backend.recall(asked)
    results = fit_bytes(recalled.results, ANSWER_BYTES)
    found: dict[str, Any] = msgspec.to_builtins(Recalled(results=results, count=len(results)))
    for match in found["results"]:
        for name in ("why", "tenant", "origin"):  # models have no use for them, and they cost tokens
            del match[name]
    return found


def _forget(backend: Backend, asked: arguments.ForgetEntry) -> dict[str, Any]:
    done = backend.forget(asked)
    if not done and asked.identifier is None and asked.about is None:
        raise NotFound(f"unknown entry {quote(asked.id or asked.key)}", hint="`recall` shows the ids of entries")
    found = {"forgotten": bool(done) and not done.dry_run, "count": done.count, "refs": done.refs, "undo": done.undo}
    more = {"kept": done.kept, "candidates": done.candidates}
    return found | {name: value for name, value in more.items() if value}


def _get_fact(backend: Backend, asked: arguments.GetFact) -> Any:
    fact = backend.get_fact(asked)
    if fact is None:
        raise _no_fact(asked.key)
    return fact


def _list_facts(backend: Backend, asked: arguments.ListFacts) -> dict[str, Any]:
    facts = backend.list_facts(msgspec.structs.replace(asked, limit=asked.limit + 1))
    shown = fit_bytes(facts[: asked.limit], ANSWER_BYTES)
    return {"facts": shown, "more": len(facts) > len(shown)}


def _delete_fact(backend: Backend, asked: arguments.DeleteFact) -> dict[str, Any]:
    if not backend.delete_fact(asked):
        raise _no_fact(asked.key)
    return {"deleted": True}


def _fact_history(backend: Backend, asked: arguments.FactHistory) -> dict[str, Any]:
    revisions = backend.history(asked)
    if not revisions:
        raise _no_fact(asked.key)
    shown = fit_bytes(revisions[: asked.limit], ANSWER_BYTES)
    return {"revisions": shown[::-1], "more": len(revisions) > len(shown)}


def _get_block(backend: Backend, asked: arguments.GetBlock) -> Any:
    block = backend.get_block(asked)
    if block is None:
        raise NotFound(
            f"there is no {asked.block} block",
            hint="Call `update_memory_block` with `expected_updated_at` null to create one",
            block=asked.block,
        )
    return block


def _update_block(backend: Backend, asked: arguments.WriteBlock) -> dict[str, Any]:
    try:
        block = backend.update_block(asked)
    except Conflict as conflict:
        current_block = backend.get_block(arguments.GetBlock(block=asked.block, scope=asked.scope))
        present = current_block and {"content": current_block.content, "updated_at": current_block.updated_at}
        conflict.details["current"] = present
        raise
    return {"written": {"block": block.block_type, "scope": block.scope, "updated_at": block.updated_at}}


def _recall_blocks(backend: Backend, asked: arguments.SearchBlocks) -> dict[str, Any]:
    return {"memories": backend.recall_blocks(asked)}


def _no_fact(key: str) -> NotFound:
    return NotFound(f"unknown fact {quote(key)}", hint="`list_facts` lists all facts", key=key)


_ALL = (
    Tool(
        name="remember",
        title="Remember an entry",
        description="Remember a text or JSON value so that `recall` finds it by meaning. Write whole sentences with "
        "names and dates, one statement per call. The same content is stored once.",
        takes=arguments.RememberEntry,
        does=lambda backend, asked: backend.remember(asked),
        writes=True,
    ),
    Tool(
        name="learn",
        title="Learn from a conversation",
        description="Keep the messages of a conversation, and bring what the user stated in them up to date: what is "
        "no longer true is replaced. The same messages again change nothing.",
        takes=arguments.LearnMessages,
        does=lambda backend, asked: backend.learn(asked),
        writes=True,
    ),
    Tool(
        name="context",
        title="What to know now",
        description="What you should know of the user now: core memory, and what answers the query, within a budget of "
        "tokens, as text with sources and dates.",
        takes=arguments.ReadContext,
        does=lambda backend, asked: {"text": backend.context(asked).text},
    ),
    Tool(
        name="recall",
        title="Recall anything",
        description="Find what is remembered by meaning and words, best first, each with a score from 0 to 1: "
        "entries, facts, records, lines of memory blocks and messages. An empty query returns the newest entries.",
        takes=arguments.RecallEntries,
        does=_recall,
    ),
    Tool(
        name="forget",
        title="Forget something",
        description="Forget a remembered entry by its id, ref or key, everything that contains an identifier such as "
        "an e-mail address, or what `about` says in words; if that is not clear, it lists candidates. With `dry_run`, "
        "only return what would be forgotten.",
        takes=arguments.ForgetEntry,
        does=_forget,
        writes=True,
        destroys=True,
    ),
    Tool(
        name="get_fact",
        title="Get a fact",
        description="Get the value at a key, with its version and the time it was written.",
        takes=arguments.GetFact,
        does=_get_fact,
    ),
    Tool(
        name="set_fact",
        title="Set a fact",
        description="Write one JSON value at a key: something that is true of the user now, such as a language. "
        "The previous value stays in the history. Pass the version that you have read as `expect`, so that you do not "
        "overwrite a value that you have not seen.",
        takes=arguments.SetFact,
        does=lambda backend, asked: backend.set_fact(asked),
        writes=True,
        destroys=True,
        repeatable=False,
    ),
    Tool(
        name="list_facts",
        title="List facts",
        description="List the facts at and below a key, ordered by key; all of them without a prefix.",
        takes=arguments.ListFacts,
        does=_list_facts,
    ),
    Tool(
        name="delete_fact",
        title="Delete a fact",
        description="Delete the fact at a key. Its history is kept.",
        takes=arguments.DeleteFact,
        does=_delete_fact,
        writes=True,
        destroys=True,
    ),
    Tool(
        name="fact_history",
        title="Show the history of a fact",
        description="Show the newest revisions of a fact, oldest of them first: value, time and author.",
        takes=arguments.FactHistory,
        does=_fact_history,
    ),
    Tool(
        name="get_memory_block",
        title="Get a memory block",
        description="Get a memory block about the user, with the `updated_at` that the next update needs.",
        takes=arguments.GetBlock,
        does=_get_block,
    ),
    Tool(
        name="update_memory_block",
        title="Replace a memory block",
        description=_IN_CHAT[UPDATE_MEMORY],
        takes=arguments.WriteBlock,
        does=_update_block,
        writes=True,
        destroys=True,
    ),
    Tool(
        name="recall_blocks",
        title="Search archival memory",
        description=_IN_CHAT[RECALL_MEMORY],
        takes=arguments.SearchBlocks,
        does=_recall_blocks,
    ),
    Tool(
        name="permission_epoch",
        title="Get the permission epoch",
        description="Get a number that grows whenever someone changes what may be done with this memory. Pass it as "
        "`epoch` of a write that must not happen once permissions have changed.",
        takes=arguments.ReadEpoch,
        does=lambda backend, asked: {"epoch": backend.epoch(asked.scope)},
    ),
)
TOOLS = {tool.name: tool for tool in _ALL}
"""Every tool by its name, in the order in which they are shown."""

INSTRUCTIONS = (
    "The long-term memory of the user, shared with other agents. `remember` and `recall` store and find statements by "
    f"meaning (by default in the collection `{NOTES}`), facts are values under a key, and two blocks of "
    "text contain what always matters (`core`) and what is searched line by line (`archival`). Look there before you "
    "ask the user again, and remember what will be useful in later conversations."
)
"""The instructions that a client receives."""

_ROOT = "memoranda://"
BLOCK_URI = f"{_ROOT}blocks/{{scope}}/{{block}}"
DEFINITION_URI = f"{_ROOT}definitions/{{slug}}"


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource in a listing."""

    uri: str
    name: str
    title: str


def list_resources(backend: Backend) -> list[Resource]:
    """Return all blocks and definitions as resources."""
    blocks = [
        Resource(
            uri=BLOCK_URI.format(scope=block.scope, block=block.block_type),
            name=f"{block.scope}_{block.block_type}",
            title=f"The {block.block_type} block of the {block.scope}",
        )
        for block in backend.list_blocks()
    ]
    definitions = [
        Resource(
            uri=DEFINITION_URI.format(slug=one.slug),
            name=one.slug,
            title=f"Definition: {one.name}",
        )
        for one in backend.definitions()
    ]
    return [*blocks, *definitions]


def read_resource(backend: Backend, uri: str) -> Any:
    """Return a resource as plain JSON values, or raise NotFound."""
    match uri.removeprefix(_ROOT).split("/"):
        case ["blocks", scope, block]:
            found = backend.get_block(
                arguments.read_arguments(cast("dict[str, Any]", {"scope": scope, "block": block}), arguments.GetBlock)
            )
            if found is None:
                raise _missing(f"there is no {block} block")
        case ["definitions", slug]:
            found = next((one for one in backend.definitions() if one.slug == slug), None)
            if found is None:
                raise _missing(f"unknown definition {quote(slug)}")
        case _:
            raise _missing(f"unknown resource {quote(uri)}")
    return msgspec.to_builtins(found)


def _missing(what: str) -> NotFound:
    return NotFound(what, hint="`resources/list` returns every URI")


USER_MEMORY = "user_memory"
ABOUT = "about"
"""The argument of the prompt: what to look for."""
_NOTHING = "Nothing is remembered about the user yet."


def memory_prompt(backend: Backend, about: str = "") -> str:
    """Return what the model should be told now: the core blocks, and what answers a query."""
    return f"{MEMORY_NOTICE}\n\n{backend.context(arguments.ReadContext(query=about)).text or _NOTHING}"
