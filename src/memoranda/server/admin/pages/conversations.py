"""Conversations as they were had: what was said, what was called, and what only the model was shown."""

from __future__ import annotations

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromQuery

from memoranda.chat.conversations import list_conversations, read_conversation
from memoranda.server.admin.desk import PAGE_BYTES, Desk
from memoranda.server.paging import decode_number, page_from
from memoranda.wire.bounds import fitting

PAGE = 50


@get("/conversations", sync_to_thread=True)
def see_conversations(
    desk: NamedDependency[Desk], user: FromQuery[str] = "", after: FromQuery[str | None] = None
) -> Response[bytes]:
    """Return where conversations stand, the one spoken in last first."""
    every = list_conversations(desk.memory, desk.whose(user))
    conversations, onwards = page_from(every, decode_number(after), PAGE, max_bytes=PAGE_BYTES)
    return desk.show(
        "conversations.html",
        section="conversations",
        conversations=conversations,
        total=len(every),
        user=user,
        onwards=onwards,
    )


@get("/conversations/one", sync_to_thread=True)
def see_conversation(
    desk: NamedDependency[Desk], user: FromQuery[str], id: FromQuery[str], after: FromQuery[int] = 0
) -> Response[bytes]:
    """Return one conversation with a page of its parts."""
    conversation = read_conversation(desk.memory, user, id, after=after, max_bytes=PAGE_BYTES)
    shown = fitting(list(conversation.parts), PAGE_BYTES)
    # As the API has it, what only the model is shown is not for the user; whoever runs this has to see it all.
    parts = [part for part in shown if desk.sees_everybody or not part.hidden]
    onwards = shown[-1].seq if len(shown) < len(conversation.parts) else None
    return desk.show(
        "conversation.html", section="conversations", conversation=conversation, parts=parts, onwards=onwards
    )


handlers = [see_conversations, see_conversation]
