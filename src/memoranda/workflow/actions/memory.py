"""Values by slug in, records out: memory that a workflow writes itself, without asking a model."""

from __future__ import annotations

from typing import Any

from memoranda.workflow.actions.base import Call, action
from memoranda.workflow.actions.schemas import NOTHING, closed
from memoranda.workflow.keywords import UPDATE_MEMORY

_MEMORY = {
    "type": "object",
    "description": "The new value of each record, by the slug of its memory definition.",
    "propertyNames": {"pattern": "^[a-z0-9_]+$"},
}


@action(UPDATE_MEMORY, inputs=closed({"memory": _MEMORY}, required=["memory"]), settings=NOTHING)
def update_memory(call: Call) -> dict[str, Any]:
    """Write records of memory, all of them or none.

    Global definitions are known to every workflow; others are named in `defs`, with `kind: memory`. Gives
    `{memory: {slug: value}}`: what each record holds now, and `{}` where there was nothing to write.
    """
    stored = call.place.memory.write(call.inputs["memory"])
    return {"memory": stored} if stored else {}
