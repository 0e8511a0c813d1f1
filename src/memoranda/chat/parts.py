"""What a conversation is made of: what was said, called, given and added, in parts."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from memoranda.model.value import encode

PartKind = Literal["user", "agent_text", "tool_request", "tool_response", "system_event", "reminders"]
"""What a part is: said by the user or the agent, a call of a tool or what it gave, or what the system adds."""
INTERRUPTED = encode({"error": "This call was interrupted. It is not known whether it was carried out."}).decode()
"""What a model is told of a call that nobody lived to tell about: providers want a result for each."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A part before it has its place: what is said, and by what."""

    kind: PartKind
    text: str
    """What was said; of a call its arguments, of its result the result, both as JSON."""
    hidden: bool = False
    """Whether only the model is shown it."""
    call_id: str = ""
    """Of a call and of its result: which call it is."""
    tool: str = ""
    failed: bool = False
    """Of a result: whether the call failed."""
    covers: int = 0
    """Of a summary: the number of the last part that it stands for."""


class Part(Draft, frozen=True, kw_only=True):
    """One part of a conversation."""

    seq: int
    """Its number in the conversation, from 1 on."""
    at: datetime
    message_id: str
    """The message of the user that it belongs to."""
    event: int = 0
    """The number of the last event that tells of it; 0 of what no event tells."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a reply took: requests to the model, and the tokens that it read and wrote."""

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
