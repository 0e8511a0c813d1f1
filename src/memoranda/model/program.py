"""What a program uses: memory, models, tools and other programs, by step and in all."""

from __future__ import annotations

import msgspec


class StepBinding(msgspec.Struct, frozen=True, kw_only=True):
    """What one step of a program uses."""

    name: str
    type: str
    """The action of a task, or the kind of a step."""
    model: str | None = None
    tools: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()
    """Ids of definitions and names of blocks; of a machine, collections."""
    program: str | None = None
    """The program that it calls."""


class Bindings(msgspec.Struct, frozen=True, kw_only=True):
    """What a program uses, over all its steps."""

    definitions: tuple[str, ...] = ()
    """Ids of memory definitions."""
    blocks: tuple[str, ...] = ()
    collections: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    """Persistent paths of an agent."""
    models: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    steps: tuple[StepBinding, ...] = ()
