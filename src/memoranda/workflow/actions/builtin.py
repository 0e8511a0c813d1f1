"""The actions that ship, by name."""

from __future__ import annotations

from memoranda.workflow.actions import ai, calls, context, http, memory, messages, waiting
from memoranda.workflow.actions.base import Action, actions_of

BUILTIN: dict[str, Action] = actions_of((ai, memory, messages, waiting, context, calls, http))
"""Every action of a workflow that nobody has to register."""
