"""The tools as a table: what a model is told of each, what it takes, and what it does with somebody's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from memoranda.chat.agents import RECALL_MEMORY, UPDATE_MEMORY
from memoranda.chat.memory_tools import MEMORY_TOOLS
from memoranda.errors import Conflict, NotFound
from memoranda.mcp.arguments import (
    COLLECTION,
    DeleteFact,
    FactHistory,
    ForgetEntry,
    GetBlock,
    GetFact,
    ListFacts,
    RecallEntries,
    RememberEntry,
    SearchBlocks,
    SetFact,
    WriteBlock,
    read_arguments,
)
from memoranda.mcp.reaching import ANSWER_BYTES, Reach
from memoranda.model.text import quote
from memoranda.wire.bounds import fitting
from memoranda.wire.collections import Recalled

_IN_CHAT = {tool.name: tool.description for tool in MEMORY_TOOLS}


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool: what it is called, what is said of it, what it takes and does."""

    name: str
    title: str
    description: str
    takes: type[msgspec.Struct]
    does: Callable[[Reach, Any], Any]
    writes: bool = False
    destroys: bool = False
    """Whether something may be gone or replaced afterwards."""
    repeatable: bool = True
    """Whether a second call with the same arguments changes nothing more."""

    def call(self, reach: Reach, arguments: dict[str, Any]) -> Any:
        """Return what a call came to, made of maps, lists and scalars; raise our error for what was refused."""
        return msgspec.to_builtins(self.does(reach, read_arguments(arguments, self.takes)))


def _recall(reach: Reach, asked: RecallEntries) -> dict[str, Any]:
    recalled = reach.recall(asked)
    results = fitting(recalled.results, ANSWER_BYTES)
    found: dict[str, Any] = msgspec.to_builtins(Recalled(results=results, count=len(results)))
    for match in found["results"]:
        del match["why"]  # a model has no use for the addends of a score, and reads every one of them
    return found


def _forget(reach: Reach, asked: ForgetEntry) -> dict[str, Any]:
    if not reach.forget(asked):
        raise NotFound(f"there is no entry {quote(asked.id or asked.key)}", hint="`recall` shows the ids of entries")
    return {"forgotten": True}


def _get_fact(reach: Reach, asked: GetFact) -> Any:
    fact = reach.get_fact(asked)
    if fact is None:
        raise _no_fact(asked.key)
    return fact


def _list_facts(reach: Reach, asked: ListFacts) -> dict[str, Any]:
    facts = reach.list_facts(msgspec.structs.replace(asked, limit=asked.limit + 1))
    shown = fitting(facts[: asked.limit], ANSWER_BYTES)
    return {"facts": shown, "more": len(facts) > len(shown)}


def _delete_fact(reach: Reach, asked: DeleteFact) -> dict[str, Any]:
    if not reach.delete_fact(asked):
        raise _no_fact(asked.key)
    return {"deleted": True}


def _fact_history(reach: Reach, asked: FactHistory) -> dict[str, Any]:
    revisions = reach.history(asked)
    if not revisions:
        raise _no_fact(asked.key)
    shown = fitting(revisions[: asked.limit], ANSWER_BYTES)
    return {"revisions": shown[::-1], "more": len(revisions) > len(shown)}


def _get_block(reach: Reach, asked: GetBlock) -> Any:
    block = reach.get_block(asked)
    if block is None:
        raise NotFound(
            f"there is no {asked.block} block",
            hint="Call `update_memory_block` with `expected_updated_at` null to make one",
            block=asked.block,
        )
    return block


def _update_block(reach: Reach, asked: WriteBlock) -> dict[str, Any]:
    try:
        block = reach.update_block(asked)
    except Conflict as conflict:
        standing = reach.get_block(GetBlock(block=asked.block, scope=asked.scope))
        present = standing and {"content": standing.content, "updated_at": standing.updated_at}
        conflict.details["current"] = present
        raise
    return {"written": {"block": block.block_type, "scope": block.scope, "updated_at": block.updated_at}}


def _recall_blocks(reach: Reach, asked: SearchBlocks) -> dict[str, Any]:
    return {"memories": reach.recall_blocks(asked)}


def _no_fact(key: str) -> NotFound:
    return NotFound(f"there is no fact {quote(key)}", hint="`list_facts` lists those there are", key=key)


_ALL = (
    Tool(
        name="remember",
        title="Remember something",
        description="Keep a text or JSON so that `recall` finds it later by what it means. Write whole sentences with "
        "names and dates, one statement a call. The same content is kept once.",
        takes=RememberEntry,
        does=lambda reach, asked: reach.remember(asked),
        writes=True,
    ),
    Tool(
        name="recall",
        title="Recall what was remembered",
        description="Find what was remembered, by meaning and by words: best first, each with a score from 0 to 1. "
        "An empty query gives the newest.",
        takes=RecallEntries,
        does=_recall,
    ),
    Tool(
        name="forget",
        title="Forget an entry",
        description="Forget one thing that was remembered, by its id or by its key.",
        takes=ForgetEntry,
        does=_forget,
        writes=True,
        destroys=True,
    ),
    Tool(
        name="get_fact",
        title="Get a fact",
        description="Get the value at a key, with its version and since when it stands.",
        takes=GetFact,
        does=_get_fact,
    ),
    Tool(
        name="set_fact",
        title="Set a fact",
        description="Write one JSON value at a key: what is true of the user now, such as a language or an address. "
        "The value before stays in the history. Pass the version that you have read as `expect`, so that nothing is "
        "overwritten that you have not seen.",
        takes=SetFact,
        does=lambda reach, asked: reach.set_fact(asked),
        writes=True,
        destroys=True,
        repeatable=False,
    ),
    Tool(
        name="list_facts",
        title="List facts",
        description="List the facts at and below a key, ordered by key; all of them without a prefix.",
        takes=ListFacts,
        does=_list_facts,
    ),
    Tool(
        name="delete_fact",
        title="Delete a fact",
        description="Delete the fact at a key. Its history stays.",
        takes=DeleteFact,
        does=_delete_fact,
        writes=True,
        destroys=True,
    ),
    Tool(
        name="fact_history",
        title="Show the history of a fact",
        description="Show what a fact was, since when and by whom: the newest revisions, oldest of them first.",
        takes=FactHistory,
        does=_fact_history,
    ),
    Tool(
        name="get_memory_block",
        title="Get a memory block",
        description="Get a block of what is remembered about the user, with the `updated_at` that its next writer "
        "has to know.",
        takes=GetBlock,
        does=_get_block,
    ),
    Tool(
        name="update_memory_block",
        title="Replace a memory block",
        description=_IN_CHAT[UPDATE_MEMORY],
        takes=WriteBlock,
        does=_update_block,
        writes=True,
        destroys=True,
    ),
    Tool(
        name="recall_blocks",
        title="Search archival memory",
        description=_IN_CHAT[RECALL_MEMORY],
        takes=SearchBlocks,
        does=_recall_blocks,
    ),
)
TOOLS = {tool.name: tool for tool in _ALL}
"""Every tool by its name, in the order in which they are shown."""

INSTRUCTIONS = (
    "The long-term memory of the user, which other agents share. `remember` and `recall` keep and find statements by "
    f"what they mean (in the collection `{COLLECTION}` where you name no other), facts are values under a key, and two "
    "blocks of text hold what always matters (`core`) and what is searched line by line (`archival`). Look there "
    "before you ask the user again, and keep what will be useful in later conversations."
)
"""What a client is told of all of them."""
