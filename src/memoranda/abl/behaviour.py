"""What the language leaves open, and how much a session may use: one named choice each."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import msgspec


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """The choices of a runtime; pass your own to `load(…, behaviour=…)`.

    The words of the language can be read in more than one way at these points. Each is decided here and nowhere
    else, so that another reading is a change of one value.

    >>> patient = Behaviour(tool_seconds=120, retries=5)
    >>> patient.tool_seconds, patient.remember
    (120, 'changes')
    """

    remember: Literal["changes", "every_turn"] = "changes"
    """When a trigger stores: when its condition becomes true or its value changes, or after every turn it holds."""
    store_to_array: Literal["append", "replace"] = "append"
    """What storing one value at a path that holds an array does."""
    results_become_variables: bool = True
    """Whether the fields of a tool's result can be read by their own names too."""
    returning: Literal["results", "every_reply"] = "results"
    """Which replies `BEFORE returning results` guards: those that give results or end the flow, or all."""
    searches: tuple[str, ...] = ("search", "find", "lookup", "retrieve", "query", "recall")
    """Words in the name of a tool that make its call a search, for `search:before`."""
    loaded: int = 5
    """Entries that `load_memory` recalls from a collection of its domain's name."""
    transitions: int = 100
    """Steps entered in one turn before a flow counts as looping."""
    retries: int = 3
    """How often one turn repeats what a rule or an error handler says to repeat."""
    handoffs: int = 10
    """Changes of the active agent in one turn."""
    reasoning: int = 10
    """Requests to the model in one turn of a reasoning step."""
    tool_seconds: float = 30.0
    """Seconds a tool may take where its declaration says nothing."""
    model_seconds: float = 30.0
    """Seconds the model may take for one reply."""
    input_characters: int = 20_000
    """Characters of one message of the user."""
    awake: int = 128
    """Sessions of an agent that are kept in memory; the others are read again when they have a turn."""
    sleep: Callable[[float], None] = time.sleep
    """How to wait between two attempts."""


DEFAULT_BEHAVIOUR = Behaviour()
