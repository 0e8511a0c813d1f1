"""A run of a workflow in, what is kept of it out: what it began with, what its tasks gave, and where it stands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from memoranda.runs.journal import Noted
from memoranda.workflow.runtime.strand import Strand
from memoranda.workflow.runtime.work import Work


class Begun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run began with."""

    input: dict[str, Any]
    owner: str
    thread: str | None = None
    depth: int = 1
    """How many workflows called one another, this one included."""


class State(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run knew when it ended or was suspended; its memory is loaded anew."""

    outputs: dict[str, Any] = {}
    context: dict[str, Any] = {}
    messages: tuple[str, ...] = ()
    steps: int = 0
    position: tuple[Any, ...] = ()


def state_of(work: Work, strand: Strand, position: tuple[Any, ...]) -> State:
    """Return what a run knows."""
    return State(
        outputs=strand.outputs,
        context=strand.context,
        messages=tuple(work.messages),
        steps=work.steps,
        position=position,
    )


def entries_of(state: State) -> list[Noted]:
    """Return what a run knows as entries of its journal: one for each output, then the rest."""
    outputs = [Noted(step=name, time=1, kind="result", value=value) for name, value in state.outputs.items()]
    rest = msgspec.to_builtins(msgspec.structs.replace(state, outputs={}))
    return [*outputs, Noted(step="", time=1, kind="state", value=rest)]


def restored(entries: Iterable[Noted]) -> State:
    """Return what a run knew, of what was kept."""
    outputs: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for entry in entries:
        if entry.kind == "result":
            outputs[entry.step] = entry.value
        elif entry.kind == "state":
            rest = entry.value
    return msgspec.convert({**rest, "outputs": outputs}, State)
