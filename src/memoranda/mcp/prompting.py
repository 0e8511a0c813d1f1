"""What is remembered about the user in, the text of a prompt out: as chat shows it, between tags, as data."""

from __future__ import annotations

from memoranda.chat.memory_prompt import MEMORY_NOTICE, reminders, user_memory
from memoranda.mcp.arguments import GetBlock, SearchBlocks
from memoranda.mcp.reaching import Reach

USER_MEMORY = "user_memory"
ABOUT = "about"
"""The argument of the prompt: what lines of the archives are looked for."""
_NOTHING = "Nothing is remembered about the user yet."


def memory_prompt(reach: Reach, about: str = "") -> str:
    """Return the core blocks between tags, and the lines of the archives that answer what it is about."""
    user_core = reach.get_block(GetBlock(block="core"))
    agent_core = None if reach.agent is None else reach.get_block(GetBlock(block="core", scope="agent"))
    shown = user_memory(user_core, agent_core)
    reminded = reminders(reach.recall_blocks(SearchBlocks(query=about))) if about.strip() else ""
    return "\n\n".join(part for part in (MEMORY_NOTICE, shown or _NOTHING, reminded) if part)
