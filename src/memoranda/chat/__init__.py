"""Chat with agents that remember the user.

An `Agent` is configuration, `chat` sends it a message and returns its answer, `preview` shows the prompt that would be
sent, and `list_conversations` and `read_conversation` show what was said.

>>> import memoranda
>>> from memoranda.agent.models import Reply
>>> class Polite:
...     name = "polite:1"
...
...     def reply(self, ask, *, timeout=30.0):
...         return Reply("Noted.")
>>> def shelf(bag: str) -> str:
...     "Return where a bag is."
...     return "left"
>>> desk = Agent(
...     id="desk", model=Polite(), tools=(tool(shelf),), memory_policy=MemoryPolicy(archival_mode="auto")
... )
>>> with memoranda.open(":memory:") as memory:
...     turn = chat(memory, desk, "Mine is the red bag", user="ada", conversation_id="c1", message_id="m1")
...     prompt = preview(memory, desk, "Where is it?", user="ada", conversation_id="c1")
...     listed = list_conversations(memory, "ada")
...     said = read_conversation(memory, "ada", "c1")
>>> turn.text, [one.id for one in listed], [part.text for part in said.parts]
('Noted.', ['c1'], ['Mine is the red bag', 'Noted.'])
>>> [message.text for message in prompt.messages]
['Mine is the red bag', 'Noted.', 'Where is it?']
"""

from memoranda.chat.agent import Agent, MemoryPolicy, Tool, tool
from memoranda.chat.conversation import list_conversations, read_conversation
from memoranda.chat.prompt import Prompt, preview
from memoranda.chat.turn import ChatEvent, Turn, chat

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
