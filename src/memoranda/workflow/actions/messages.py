"""A text in, a message to the owner of the run out."""

from __future__ import annotations

from typing import Any

from memoranda.workflow.actions.base import Call, action
from memoranda.workflow.actions.schemas import NOTHING, closed

_TEXT = {"type": "string", "minLength": 1, "description": "What is said."}


@action("send_text_message", inputs=closed({"text": _TEXT}, required=["text"]), settings=NOTHING)
def send_text_message(call: Call) -> dict[str, Any]:
    """Say something to the owner of the run; in a thread it becomes part of the conversation.

    Gives `{text}`: what was said.
    """
    text: str = call.inputs["text"]
    call.place.send(text)
    return {"text": text}
