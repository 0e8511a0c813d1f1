"""The name of a workflow in, its output out."""

from __future__ import annotations

from typing import Any

from memoranda.workflow.actions.base import Call, action
from memoranda.workflow.actions.schemas import NOTHING, closed

_INPUTS = {
    "workflow": {"type": "string", "minLength": 1, "description": "The name of the workflow."},
    "inputs": {"type": "object", "description": "Its input; the input of this run where it is left out."},
}


@action("call_workflow", inputs=closed(_INPUTS, required=["workflow"]), settings=NOTHING)
def call_workflow(call: Call) -> Any:
    """Run another workflow for the same owner, and wait for it.

    It is a run of its own, with its own memory of that run. Gives its output.
    """
    given: dict[str, Any] = call.inputs.get("inputs", call.place.input)
    return call.place.call_workflow(call.inputs["workflow"], given)
