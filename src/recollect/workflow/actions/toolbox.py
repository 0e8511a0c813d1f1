"""The tools of a task in, what each call of the model came to out.

Whatever the model sends, the run goes on: what cannot be done is an error for the model to read. Only what fails on
our side, such as the disk, ends the run.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from recollect.agent.models import Said, ToolCall, ToolSpec
from recollect.errors import RecollectError, StorageError, UsageError
from recollect.model.text import quote
from recollect.model.value import encode
from recollect.workflow.actions.base import Call
from recollect.workflow.actions.shapes import Shape, shape_of
from recollect.workflow.updating import TOOL, apply, update_tool


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a call came to: the words that the model is told."""

    name: str
    said: Said
    failed: bool


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

    def result(self, wanted: ToolCall) -> Result:
        """Carry out a call of the model, and return what it is told."""
        failed, text = self._outcome(wanted)
        return Result(name=wanted.name, said=Said("tool", text, call_id=wanted.id, tool=wanted.name), failed=failed)

    def _outcome(self, wanted: ToolCall) -> tuple[bool, str]:
        # A task of this name is among the tools only where no memory is mounted.
        if wanted.name == TOOL and self._slugs:
            updated = apply(self._place.memory, self._slugs, wanted.arguments)
            return updated.failed, updated.text
        shape = self._shapes.get(wanted.name)
        if shape is None:
            return True, _error(f"{quote(wanted.name)} is not among the tools: {self._names()}")
        fault = shape.fault(wanted.arguments)
        if fault is not None:
            return True, _error(f"the arguments do not fit: {fault}")
        try:
            return False, encode(self._place.call_task(wanted.name, wanted.arguments)).decode()
        except StorageError:
            raise
        except RecollectError as error:
            return True, _error(str(error))

    def _names(self) -> str:
        return ", ".join(spec.name for spec in self.specs) or "there are none"


def _error(what: str) -> str:
    # What is quoted may hold half of a character, which cannot be sent.
    said: dict[str, Any] = {"error": what.encode(errors="replace").decode()}
    return encode(said).decode()


def _refuse_twins(specs: tuple[ToolSpec, ...]) -> None:
    twins = [name for name, count in Counter(spec.name for spec in specs).items() if count > 1]
    if TOOL in twins:
        raise UsageError(
            f"a tool is called {quote(TOOL)}, the name of the one that writes the mounted memory",
            hint="Give the task another name, or mount no memory",
            value=TOOL,
        )
    if twins:
        raise UsageError(f"there are two tools {quote(twins[0])}", hint="Name each once", value=twins[0])
