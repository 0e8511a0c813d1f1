"""Workflows: YAML files whose tasks act, ask models and remember, in the order that their flow gives.

`parse` and `check` look at a file without running it; `evaluate` runs a single expression.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recollect.workflow.actions.base import Action, action
    from recollect.workflow.jsonata import UNDEFINED, evaluate
    from recollect.workflow.loading import check, parse

__all__ = ["UNDEFINED", "Action", "action", "check", "evaluate", "parse"]

_HOMES = {
    **dict.fromkeys(("check", "parse"), "loading"),
    **dict.fromkeys(("UNDEFINED", "evaluate"), "jsonata"),
    **dict.fromkeys(("Action", "action"), "actions.base"),
}


def __getattr__(name: str) -> Any:
    """Return what is imported only when it is asked for: a program without workflows never loads JSONata."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"recollect.workflow.{_HOMES[name]}"), name)
