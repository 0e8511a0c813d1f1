"""Values in, the same values in `$context` out."""

from __future__ import annotations

from typing import Any

from memoranda.workflow.actions.base import Call, action
from memoranda.workflow.actions.schemas import NOTHING, closed

_VALUES = {"type": "object", "description": "The values by name; `$context.memory` is not among them."}


@action("set_context", inputs=closed({"values": _VALUES}, required=["values"]), settings=NOTHING)
def set_context(call: Call) -> dict[str, Any]:
    """Put values into `$context`, for the tasks that follow.

    A value that is there already is replaced. Gives the values.
    """
    values: dict[str, Any] = call.inputs["values"]
    call.place.set_context(values)
    return values
