"""What was said in, the same back out, with what there is in memory: a model that needs no provider and no key.

It lets a chat be tried, and a deployment be tested, without a model.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator

from memoranda.agent.models import Ask, Reply
from memoranda.chat.memory_prompt import unescape

PARROT = "demo:parrot"
"""The name under which a chat agent has it as its model."""

_TAG = re.compile(r"<(?:core|memory)(?: [^<>]*)?>\n")
_REMINDERS = "<system_reminders>"
_TOKEN = 4
_WORD = re.compile(r"(?<!\s)\s*+\S+")
_PACE, _LONGEST = 0.03, 1.0
"""Seconds between two words, and for all of them: somebody shall see them come, and nobody wait for them."""


class Parrot:
    """Repeats the user's last words, and says what it is shown of memory."""

    name = PARROT

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        """Return what it says to one request."""
        said = [one.text for one in ask.messages if one.role == "user"]
        words = next((text for text in reversed(said) if not text.startswith(_REMINDERS)), "")
        reminded = said[-1] if said and said[-1].startswith(_REMINDERS) else ""
        known = [*_contents(ask.instructions, "core"), *_contents(reminded, "memory")]
        lines = [line for text in known for line in unescape(text).splitlines() if line.strip()]
        text = "\n".join([f"You said: {words}", *(["What I know of you:", *lines] if lines else [])])
        return Reply(text, tokens_in=len(ask.instructions) // _TOKEN, tokens_out=len(text) // _TOKEN)

    def stream(self, ask: Ask, *, timeout: float = 30.0) -> Generator[str | Reply]:
        """Yield what it says word by word, and then the reply."""
        reply = self.reply(ask, timeout=timeout)
        words: list[str] = _WORD.findall(reply.text)
        for word in words:
            time.sleep(min(_PACE, _LONGEST / len(words)))
            yield word
        yield reply


def _contents(text: str, tag: str) -> list[str]:
    """Return what stands between the tags of a name."""
    pieces = text.split(f"\n</{tag}>")[:-1]
    return [
        piece[begin.end() :] for piece in pieces if (begin := _TAG.search(piece)) and begin[0].startswith(f"<{tag}")
    ]
