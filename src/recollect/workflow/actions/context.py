"""Values in, the same values in `$context` out."""

from __future__ import annotations

from typing import Any

from recollect.errors import UsageError
from recollect.workflow.actions.base import Call, action
from recollect.workflow.actions.schemas import NOTHING, closed
from recollect.workflow.keywords import RESERVED_CONTEXT

_VALUES = {"type": "object", "description": "The values by name; `$context.memory` is not among them."}


@action("set_context", inputs=closed({"values": _VALUES}, required=["values"]), settings=NOTHING)
def set_context(call: Call) -> dict[str, Any]:
    """Put values into `$context`, for the tasks that follow.

    A value that is there already is replaced. Gives the values.
    """
    values: dict[str, Any] = call.inputs["values"]
    if RESERVED_CONTEXT in values:
        raise UsageError(
            f"`$context.{RESERVED_CONTEXT}` shows the records of the run, and cannot be set",
            hint="Write records with `update_memory`, or use another name",
            value=RESERVED_CONTEXT,
        )
    call.place.set_context(values)
    return values
