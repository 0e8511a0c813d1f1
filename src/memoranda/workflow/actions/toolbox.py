"""The tools of a task in, what each call of the model came to out.

Whatever the model sends, the run goes on: what cannot be done is an error for the model to read. Only what fails on
our side, such as the disk, ends the run.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from memoranda.agent.conversing import ToolFailed
from memoranda.agent.models import ToolSpec
from memoranda.errors import MemorandaError, StorageError, UsageError
from memoranda.model.text import quote
from memoranda.workflow.actions.base import Call
from memoranda.workflow.actions.shapes import Shape, shape_of
from memoranda.workflow.keywords import UPDATE_MEMORY
from memoranda.workflow.updating import apply, update_tool


class Toolbox:
    """The tools of one task: other tasks of its workflow, and the memory that is mounted on it."""

    def __init__(self, call: Call) -> None:
        """Gather the tools, or refuse two of one name: the model could not tell them apart."""
        self._place = call.place
        self._slugs = call.slugs
        self._shapes: dict[str, Shape] = {
            tool.name: shape_of(tool.parameters, what=f"the inputs of the tool {quote(tool.name)}")
            for tool in call.tools
        }
        tasks = [ToolSpec(tool.name, tool.description, self._shapes[tool.name].schema) for tool in call.tools]
        memory = update_tool(call.place.memory.definitions[slug] for slug in call.slugs) if call.slugs else None
        self.specs = (*tasks, memory) if memory is not None else tuple(tasks)
        """The tools as a model is shown them: the tasks in their order, then the memory."""
        _refuse_twins(self.specs)

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Carry out a call of the model, and return what it gave; raise ToolFailed with what the model is told."""
        # A task of this name is among the tools only where no memory is mounted.
        if name == UPDATE_MEMORY and self._slugs:
            updated = apply(self._place.memory, self._slugs, arguments)
            if updated.refused is not None:
                raise updated.refused
            return {"memory": updated.memory}
        try:
            self._shapes[name].fit(arguments)
        except UsageError as error:
            raise ToolFailed(f"the arguments do not fit: {error.message}") from error
        try:
            return self._place.call_task(name, arguments)
        except StorageError:
            raise
        except MemorandaError as error:
            raise ToolFailed(error) from error


def _refuse_twins(specs: tuple[ToolSpec, ...]) -> None:
    twins = [name for name, count in Counter(spec.name for spec in specs).items() if count > 1]
    if UPDATE_MEMORY in twins:
        raise UsageError(
            f"a tool is called {quote(UPDATE_MEMORY)}, the name of the one that writes the mounted memory",
            hint="Give the task another name, or mount no memory",
            value=UPDATE_MEMORY,
        )
    if twins:
        raise UsageError(f"there are two tools {quote(twins[0])}", hint="Name each once", value=twins[0])
