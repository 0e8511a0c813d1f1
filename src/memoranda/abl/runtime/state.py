"""What a session is between two turns, as values: enough to go on after a restart, and to do a turn again."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from memoranda.abl.document import Access, MemoryScope

Status = Literal["waiting", "completed", "escalated", "handed_off", "blocked"]
Wait = Literal["", "gather", "input", "collect", "returning", "reasoning", "halted", "done"]
"""What an agent waits for: nothing, values, words to choose by, values for a rule, leave to answer, the next words of
a conversation with the model, another attempt at what was stopped; or it is done."""


class Collecting(msgspec.Struct, omit_defaults=True):
    """Values that a broken rule asks for, and what follows when they are there."""

    fields: list[str]
    rule: int
    then: str = "retry"
    given: list[str] = []
    words: str | None = None
    """What the user said when the rule broke; it is taken up again when the values are there."""
    unused: bool = False
    """Whether nothing had come of these words yet."""


class Mind(msgspec.Struct, omit_defaults=True):
    """What the runtime keeps in mind about an agent from turn to turn, beside where it stands."""

    hidden: list[str] = []
    """Names that were made undefined, though a result has a field of that name."""
    injected: list[str] = []
    """Names that recall put beside the variables; they are copies of facts."""
    handed: list[int] = []
    """Handoffs that were done since their conditions became true; the next three likewise."""
    delegated: list[int] = []
    escalated: list[int] = []
    completed: list[int] = []
    summary: str = ""
    """What the agent before this one told about the conversation."""
    history: tuple[int, int | None] = (0, None)
    """From which turn on it sees the whole conversation, and how many messages before that; None for all."""
    by_rule: bool = False
    """Whether a broken rule gave it the conversation."""
    waited: Wait = ""
    """What it waited for when a rule held its reply back."""


class Grant(msgspec.Struct, frozen=True, omit_defaults=True):
    """A path that another agent lets this one use: what may be done with it, and what that agent declares of it."""

    access: Access
    scope: MemoryScope
    fact: str = ""
    """The path of the fact that it is a field of; empty where it is the fact itself."""
    type: str | None = None
    sensitive: bool = False


class FrameState(msgspec.Struct, omit_defaults=True):
    """Where one agent stands; its variables stand in the state of the session."""

    agent: str
    key: str = ""
    """What the keys of its variables begin with; empty for the agent that the session began with."""
    step: str | None = None
    stack: list[list[int]] = []
    """Blocks being run, innermost last: the number of the block and the place in it."""
    wait: Wait = ""
    asked: str | None = None
    """The field that the user was asked for last."""
    presented: bool = False
    again: list[str] = []
    """Fields whose values a rule refused, so that the next words may replace them."""
    attempts: dict[str, int] = {}
    turns: int = 0
    """Turns that the present reasoning step has taken."""
    path: list[str] = []
    """Steps that were left, newest last."""
    collecting: Collecting | None = None
    excused: list[int] = []
    """Rules that are passed over once, because their values were collected and `THEN` says continue."""
    held: list[str] | None = None
    """Messages that a rule held back."""
    held_end: bool = False
    stored: dict[str, str] = {}
    """Remember triggers whose condition held last, by id, and a digest of what each stored."""
    told: list[int | str] = []
    """Recall instructions for the model, which stay for the rest of the session: the number of one that is always the
    same, else its text at that moment."""
    names: dict[str, Any] = {}
    """Names of the runtime, such as the last input."""
    mind: Mind = msgspec.field(name="system", default_factory=Mind)
    """What the runtime itself keeps in mind about the agent."""
    grants: dict[str, Grant] = {}
    handoff: int | None = None
    """Which handoff of the agent above led here, when control is to come back."""
    begun: bool = False


class CallRecord(msgspec.Struct, omit_defaults=True):
    """One tool call of a turn: enough to do the turn again without the tool."""

    tool: str
    value: Any = None
    failure: list[str] | None = None


class TurnRecord(msgspec.Struct, omit_defaults=True):
    """What went into a turn and what came out."""

    input: str | None = None
    messages: list[str] = []
    status: Status = "waiting"
    at: str = ""
    calls: list[CallRecord] = []
    replies: list[Any] = []
    """What the model said, in order."""
    given: dict[str, Any] = {}
    """Variables that the program around the session set before the turn."""


class SessionState(msgspec.Struct, omit_defaults=True):
    """A session between two turns. What is kept of it leaves the id out: its scope says that."""

    id: str
    user: str | None
    project: str
    joined: str | None = None
    """The handoff tree that was begun elsewhere; without one, the session is a tree of its own."""
    planted: bool = False
    """Whether something is remembered in the tree that the session is."""
    number: int = 0
    status: Status = "waiting"
    frames: list[FrameState] = []
    resting: list[FrameState] = []
    """Agents that had the conversation before; what is per session stays with them."""
    vars: dict[str, Any] = {}
    """The variables of all agents by their keys; the engine shows each as a fact of the session's scope."""
    turn: TurnRecord = msgspec.field(default_factory=TurnRecord)
    root: str = ""
    """The agent that the session began with; it may have left."""
    agents: dict[str, str] = {}
    """The agents that were loaded together, each with the digest of its text."""

    @property
    def tree(self) -> str:
        """The handoff tree whose memory the session shares."""
        return self.joined or self.id
