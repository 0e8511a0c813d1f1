"""Chat: a message of a user in, an agent's answer out, with what the agent remembers of the user.

An `Agent` is configuration, `chat` takes a turn with it, `preview` shows what a model would be sent, and
`list_conversations` and `read_conversation` show what was said.
"""

from recollect.chat.agents import Agent, Tool, tool
from recollect.chat.conversations import list_conversations, read_conversation
from recollect.chat.memory_policy import MemoryPolicy
from recollect.chat.preview import Prompt, preview
from recollect.chat.turns import ChatEvent, Turn, chat

__all__ = [
    "Agent",
    "ChatEvent",
    "MemoryPolicy",
    "Prompt",
    "Tool",
    "Turn",
    "chat",
    "list_conversations",
    "preview",
    "read_conversation",
    "tool",
]
