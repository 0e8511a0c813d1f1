"""The state of a session between two turns: enough to resume it after a restart, and to replay its turns."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from memoranda.abl.document import Access, MemoryScope
from memoranda.runs.provenance import OWN, Provenance

Status = Literal["waiting", "completed", "escalated", "handed_off", "blocked"]
Wait = Literal["", "gather", "input", "collect", "returning", "reasoning", "halted", "done"]
"""What an agent waits for: nothing; values of a GATHER; input that chooses a branch; values for a rule; permission of a
rule to reply; the next message to the model; a new attempt after an error; or the agent is done."""


class Collecting(msgspec.Struct, omit_defaults=True):
    """Values that a broken rule asks for, and what follows when they are given."""

    fields: list[str]
    rule: int
    then: str = "retry"
    given: list[str] = []
    words: str | None = None
    """The user's words when the rule broke; they are used again when the values are given."""
    unused: bool = False
    """Whether these words were unused when the rule broke."""


class Remedy(msgspec.Struct, frozen=True, omit_defaults=True):
    """The step to which a broken rule led, so that the user or the step can repair what the rule found."""

    step: str
    tool: str = ""
    """The tool that the rule stopped."""


class FrameNotes(msgspec.Struct, omit_defaults=True):
    """What the runtime remembers about an agent from turn to turn, besides its position."""

    hidden: list[str] = []
    """Cleared names that stay undefined although a result has a field of that name."""
    injected: list[str] = []
    """Names that recall set; they are copies of facts."""
    handed: list[int] = []
    """Handoffs that were done since their conditions became true; the next three are the same for other sections."""
    delegated: list[int] = []
    escalated: list[int] = []
    completed: list[int] = []
    summary: str = ""
    """The previous agent's summary of the conversation."""
    history: tuple[int, int | None] = (0, None)
    """The turn from which the agent sees the conversation, and the number of messages before it; None for all."""
    by_rule: bool = False
    """Whether a broken rule handed the conversation to the agent."""
    waited: Wait = ""
    """What the agent waited for when a rule held its reply back."""
    unanswered: bool = False
    """Whether the user was told that the agent has no model to answer with."""


class PathGrant(msgspec.Struct, frozen=True, omit_defaults=True):
    """A path that another agent lets this one use: the access, and how that agent declares the path."""

    access: Access
    scope: MemoryScope
    fact: str = ""
    """The path of the fact that contains it; empty if the path is a fact itself."""
    type: str | None = None
    sensitive: bool = False


class FrameState(msgspec.Struct, omit_defaults=True):
    """The position of one agent; its variables are in the state of the session."""

    agent: str
    key: str = ""
    """Prefix of the keys of its variables; empty for the agent that the session began with."""
    step: str | None = None
    stack: list[list[int]] = []
    """Blocks that are running, innermost last: the number of the block and the position in it."""
    wait: Wait = ""
    asked: str | None = None
    """The field that the user was asked for last."""
    presented: bool = False
    again: list[str] = []
    """Fields that a broken rule reads; the next words may give or replace their values."""
    attempts: dict[str, int] = {}
    turns: int = 0
    """Turns that the current reasoning step has taken."""
    path: list[str] = []
    """The steps that the agent left, newest last."""
    collecting: Collecting | None = None
    remedies: dict[int, Remedy] = {}
    """Rules whose remedy is under way, by number; they are not applied again before it is over."""
    held: list[str] | None = None
    """Messages that a rule held back."""
    held_end: bool = False
    stored: dict[str, str] = {}
    """Remember triggers whose condition is true, by id, with a digest of the stored value."""
    told: list[int | str] = []
    """Recall instructions for the model, which apply to the rest of the session: the number of a constant one, else the
    text as it was rendered."""
    names: dict[str, Any] = {}
    """Names of the runtime, such as the last input."""
    notes: FrameNotes = msgspec.field(name="system", default_factory=FrameNotes)
    grants: dict[str, PathGrant] = {}
    provenances: list[Any] = []
    """Those of its variables that are not the program's own, as JSON."""
    handoff: int | None = None
    """The handoff of the previous agent that led here, if control is to return to it."""
    begun: bool = False


class CallRecord(msgspec.Struct, omit_defaults=True):
    """One tool call of a turn: enough to replay the turn without the tool."""

    tool: str
    value: Any = None
    failure: list[str] | None = None


class TurnRecord(msgspec.Struct, omit_defaults=True):
    """The inputs and the outcome of one turn."""

    input: str | None = None
    messages: list[str] = []
    status: Status = "waiting"
    at: str = ""
    calls: list[CallRecord] = []
    replies: list[Any] = []
    """The replies of the model, in order."""
    given: dict[str, Any] = {}
    """Variables that the calling program set before the turn."""


class SessionState(msgspec.Struct, omit_defaults=True):
    """A session between two turns. Its record leaves out the id, which is in the scope."""

    id: str
    user: str | None
    project: str
    joined: str | None = None
    """The handoff tree of another session; without it, the session has a tree of its own."""
    planted: bool = False
    """Whether the session's own tree has facts."""
    number: int = 0
    status: Status = "waiting"
    frames: list[FrameState] = []
    resting: list[FrameState] = []
    """Agents that had the conversation before; they keep what they store per session."""
    vars: dict[str, Any] = {}
    """The variables of all agents by their keys; the engine shows each as a fact of the session's scope."""
    turn: TurnRecord = msgspec.field(default_factory=TurnRecord)
    root: str = ""
    """The agent that the session began with; it may have handed over since."""
    agents: dict[str, str] = {}
    """The agents that were loaded together, each with the digest of its source."""
    recorded: int = 0
    """The number of its newest step record."""
    said: Provenance = OWN
    """What the messages of the conversation so far were made of, as far as a model may see them."""

    @property
    def tree(self) -> str:
        """The handoff tree whose memory the session shares."""
        return self.joined or self.id
