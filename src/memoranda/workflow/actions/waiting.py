"""A run that waits in, what its owner says next out."""

from __future__ import annotations

from typing import Any, cast

from memoranda.errors import ActionFailed
from memoranda.model.duration import LONGEST
from memoranda.model.text import quote
from memoranda.workflow.actions.base import Call, action
from memoranda.workflow.actions.schemas import NOTHING, closed

REPLY = "reply"
"""What a run waits for here, as `run.waiting.event` says it."""
_TIMEOUT = {
    "type": "number",
    "exclusiveMinimum": 0,
    "maximum": LONGEST,
    "description": "Seconds after which the run goes on without a reply; it waits for ever where it is left out.",
}


@action("wait_for_reply", inputs=closed({"timeout": _TIMEOUT}), settings=NOTHING)
def wait_for_reply(call: Call) -> dict[str, Any]:
    """Wait until the owner of the run says something; in a thread it becomes part of the conversation.

    The run is kept until then. Gives `{text}`: what was said, or `{timed_out: true}`.
    """
    reply = call.place.wait(REPLY, timeout=call.inputs.get("timeout"))
    return {"timed_out": True} if reply is None else {"text": _text(call, reply)}


def _text(call: Call, reply: Any) -> str:
    """Return the text that was delivered, alone or in an object."""
    text = cast("dict[str, Any]", reply).get("text") if isinstance(reply, dict) else reply
    if isinstance(text, str):
        return text
    raise ActionFailed(
        f"the task {quote(call.task)} waits for a text, and something else was delivered",
        hint='Deliver "…" or {"text": "…"}',
        type="unreadable",
        task=call.task,
        action="wait_for_reply",
        retryable=False,
    )
