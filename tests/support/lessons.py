"""Chats without a model, and scripted extractors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from memoranda import Memory
from memoranda.chat.conversation import read_history
from memoranda.chat.open_turn import OpenTurn, begin_turn
from memoranda.learning.extraction import Extracted, Known
from memoranda.learning.messages import Message
from memoranda.learning.statements import Statement
from memoranda.model.conversation import Draft, Usage


class Lesson(NamedTuple):
    """A line that an extractor finds, and the parts of the chat it is from; by default the user's newest message."""

    text: str
    seqs: tuple[int, ...] | None = None
    block: str = "core"
    scope: str = "user"
    topic: str = ""
    replaces: tuple[str, ...] = ()
    ends: bool = False

    def extracted(self, messages: Sequence[Message], known: Sequence[Known]) -> Extracted:
        mine = [place for place, message in enumerate(messages) if message.role == "user"]
        said = [place for place, message in enumerate(messages) if self.seqs and int(message.id or 0) in self.seqs]
        statement = Statement(
            text=self.text,
            attribute=self.topic or "note",
            object=self.text,
            single=bool(self.topic),
            core=self.block == "core",
            ends=self.ends,
        )
        keys = {one.text.removeprefix("- "): one.key for one in known if one.key}
        return Extracted(
            statement=statement,
            key=statement.key,
            messages=tuple(mine[-1:] if self.seqs is None else said),
            replaces=self.replaces,
            ends=tuple(keys[line] for line in (one.removeprefix("- ") for one in self.replaces) if line in keys),
            for_agent=self.scope == "agent",
        )


class Taught:
    """An extractor that finds these lessons, and records what it was shown."""

    def __init__(self, *lessons: Lesson) -> None:
        self.lessons = lessons
        self.seen: list[list[int]] = []
        self.known: list[list[str]] = []

    def __call__(self, messages: Sequence[Message], known: Sequence[Known]) -> list[Extracted]:
        self.seen.append([int(message.id or 0) for message in messages])
        self.known.append([one.text for one in known])
        return [lesson.extracted(messages, known) for lesson in self.lessons]


class Talk:
    """Adds turns to conversations: a user's message, and a short answer to it."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._count = 0

    def begin(self, *drafts: Draft, user: str = "ada", conversation: str = "c1", agent: str = "desk") -> OpenTurn:
        """Leave a reply unfinished."""
        self._count += 1
        turn = begin_turn(
            self.memory,
            user,
            conversation,
            history=read_history(self.memory, user, conversation),
            agent_id=agent,
            message_id=f"m{self._count}",
            drafts=list(drafts),
            lease=10_000,
        )
        assert isinstance(turn, OpenTurn)
        return turn

    def __call__(self, *texts: str, answer: str = "Noted.", **where: Any) -> None:
        for text in texts:
            self.begin(Draft(kind="user", text=text), **where).answer(answer, Usage())
