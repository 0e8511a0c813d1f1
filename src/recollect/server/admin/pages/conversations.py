"""Conversations as they were had: what was said, what was called, and what only the model was shown."""

from __future__ import annotations

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromQuery

from recollect.chat.conversations import list_conversations, read_conversation
from recollect.server.admin.desk import Desk
from recollect.server.paging import decode_number, page_from

PAGE = 50


@get("/conversations", sync_to_thread=True)
def see_conversations(
    desk: NamedDependency[Desk], user: FromQuery[str] = "", after: FromQuery[str | None] = None
) -> Response[bytes]:
    """Return where conversations stand, the one spoken in last first."""
    every = list_conversations(desk.memory, desk.whose(user))
    conversations, onwards = page_from(every, decode_number(after), PAGE)
    return desk.show(
        "conversations.html",
        section="conversations",
        conversations=conversations,
        total=len(every),
        user=user,
        onwards=onwards,
    )


@get("/conversations/one", sync_to_thread=True)
def see_conversation(desk: NamedDependency[Desk], user: FromQuery[str], id: FromQuery[str]) -> Response[bytes]:
    """Return one conversation with all its parts."""
    conversation = read_conversation(desk.memory, user, id)
    # As the API has it, what only the model is shown is not for the user; whoever runs this has to see it all.
    parts = [part for part in conversation.parts if desk.sees_everybody or not part.hidden]
    return desk.show("conversation.html", section="conversations", conversation=conversation, parts=parts)


handlers = [see_conversations, see_conversation]
