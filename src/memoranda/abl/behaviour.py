"""Choices that the language leaves open, and the limits of a session."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import msgspec

from memoranda.runs.steps import NO_RECORDING, Recording


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """The choices of a runtime; pass your own to `load(…, behaviour=…)`.

    The specification of the language leaves these points open. Each is decided here and nowhere else.

    >>> patient = Behaviour(tool_seconds=120, retries=5)
    >>> patient.tool_seconds, patient.remember
    (120, 'changes')
    """

    remember: Literal["changes", "every_turn"] = "changes"
    """When a trigger stores: when its condition becomes true or its value changes, or after each turn it is true."""
    store_to_array: Literal["append", "replace"] = "append"
    """What storing a single value at a path with an array does."""
    results_become_variables: bool = True
    """Whether the fields of a tool's result also become variables."""
    returning: Literal["results", "every_reply"] = "results"
    """Which replies `BEFORE returning results` applies to: those with results or at the end of the flow, or all."""
    searches: tuple[str, ...] = ("search", "find", "lookup", "retrieve", "query", "recall")
    """Words in the name of a tool that make its call a search, for `search:before`."""
    loaded: int = 5
    """Entries that `load_memory` recalls from the collection named like its domain."""
    transitions: int = 100
    """Steps entered in one turn before a flow counts as looping."""
    retries: int = 3
    """Maximum retries in one turn, by rules and error handlers."""
    handoffs: int = 10
    """Maximum changes of the active agent in one turn."""
    reasoning: int = 10
    """Maximum requests to the model in one turn of a reasoning step."""
    trusted_tools: tuple[str, ...] = ()
    """Names of tools whose results are the agent's own word: what it stores of others is trusted as `tool_external` if
    they are asked over HTTP, and as `tool_internal` if they are Python functions."""
    tool_seconds: float = 30.0
    """Timeout of a tool without one in its declaration, in seconds."""
    model_seconds: float = 30.0
    """Timeout of a reply of the model, in seconds."""
    input_characters: int = 20_000
    """Maximum characters of a message of the user."""
    awake: int = 128
    """Sessions of an agent that stay loaded; others are loaded again for their next turn."""
    recording: Recording = NO_RECORDING
    """What is recorded of each step, for looking into a turn; nothing by default."""
    sleep: Callable[[float], None] = time.sleep
    """The function that waits between two attempts."""


DEFAULT_BEHAVIOUR = Behaviour()
