"""`/conversations`: what the caller and agents said to each other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from litestar import Response, Router, get
from litestar.params import QueryParameter

from memoranda.chat import conversations as kept
from memoranda.chat import parts as kept_parts
from memoranda.server.answers import problems
from memoranda.server.bodies import StrictRequest
from memoranda.server.paging import decode_place_in_time, page, place_in_time
from memoranda.server.parameters import PAGE, After, Name, PageLimit
from memoranda.server.places import name_of
from memoranda.server.tags import Encoded
from memoranda.wire.bounds import fitting
from memoranda.wire.conversations import Conversation, Conversations, ConversationSummary, Part

Since = Annotated[int, QueryParameter(name="after", ge=0, description="Only parts with a higher `seq`.")]


@get("/", sync_to_thread=True, responses=problems(), summary="List conversations")
def list_conversations(request: StrictRequest, after: After = None, limit: PageLimit = PAGE) -> Response[Conversations]:
    """Return where the caller's conversations stand, the one spoken in last first."""
    last = decode_place_in_time(after)
    every = kept.list_conversations(request.auth.memory, request.auth.caller.user)
    # Not after the one that a cursor names: that may be gone, or have been spoken in since, and stand in front.
    rest = [one for one in every if last is None or (one.last_at, one.id) < last]
    found, go_on = page(
        rest,
        limit,
        lambda one: place_in_time(one.last_at, one.id),
        max_bytes=request.page_bytes,
        out=lambda one: ConversationSummary(**_standing(one)),
    )
    return Encoded(Conversations(conversations=found, next=go_on))


@get("/{conversation:str}", sync_to_thread=True, responses=problems(404), summary="Get a conversation")
def get_conversation(request: StrictRequest, conversation: Name, since: Since = 0) -> Response[Conversation]:
    """Return a conversation of the caller with its parts, from the first or from the one after a number."""
    most = request.page_bytes
    found = kept.read_conversation(
        request.auth.memory, request.auth.caller.user, name_of(conversation), after=since, max_bytes=most
    )
    # Hidden parts count too: a page without any part that is shown still says where to go on.
    parts = fitting(list(found.parts), most)
    go_on = parts[-1].seq if len(parts) < len(found.parts) else None
    return Encoded(Conversation(**_standing(found), parts=parts_out(parts), next=go_on))


def parts_out(parts: Iterable[kept_parts.Part]) -> list[Part]:
    """Return the parts of a conversation as they travel: what only the model is shown stays here."""
    shown = (part for part in parts if not part.hidden)
    return [msgspec.convert(part, Part, from_attributes=True) for part in shown]


def _standing(one: kept.ConversationSummary) -> dict[str, Any]:
    return {
        "id": one.id,
        "agent_id": one.agent_id,
        "opened_at": one.opened_at,
        "last_at": one.last_at,
        "last_seq": one.last_seq,
        "has_active_generation": one.active,
    }


router = Router("/conversations", route_handlers=[list_conversations, get_conversation])
