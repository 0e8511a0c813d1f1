"""`HANDOFF` and what follows it in; names of handlers that are declared nowhere out.

Whether the other agents exist is known only where agents are loaded together.
"""

from __future__ import annotations

from memoranda.abl.checker.outline import Outline
from memoranda.abl.keywords import RETURN_ACTIONS
from memoranda.lang.diagnostics import Diagnostics
from memoranda.model.text import quote


def check_coordination(whole: Outline, said: Diagnostics) -> None:
    """Check that every handler that is named is there."""
    if not whole.closed:
        return
    handlers = [handler.name.text for handler in whole.document.return_handlers]
    for handoff in whole.document.handoffs:
        handler = handoff.on_return.handler if handoff.on_return else None
        if handler is None or handler.text in handlers:
            continue
        actions = ", ".join(RETURN_ACTIONS)
        hint = whole.hints.meant(
            handler.text,
            (*handlers, *RETURN_ACTIONS),
            otherwise=f"Declare it below `RETURN_HANDLERS`, or use one of {actions}",
        )
        message = f"there is no return handler {quote(handler.text)}"
        said.error("unknown_handler", message, handler.span, hint=hint)
