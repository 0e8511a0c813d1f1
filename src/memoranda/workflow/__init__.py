"""Workflows: YAML files whose tasks act, ask models and remember, in the order of their flow.

`load` compiles a file, and `Workflow.run` runs it for a user; `find` and `resume` return an earlier run.
`parse` and `check` examine a file without running it; `evaluate` evaluates a single expression.

>>> import memoranda
>>> from memoranda.workflow import check, find, load, parse, resume
>>> text = '''
... defs:
...   ask: {kind: task, action: send_text_message, inputs: {text: "Which day?"}}
...   hear: {kind: task, action: wait_for_reply}
... flow:
...   - do: ask
...   - do: hear
... outputs:
...   day: "=$output.hear.text"
... '''
>>> check(text), [step.task.text for step in parse(text).flow]
((), ['ask', 'hear'])
>>> with memoranda.open(":memory:") as memory:
...     workflow = load(text, memory=memory, name="days")
...     run = workflow.run(owner="ada")
...     waits = resume(memory, run.id).status
...     done = find(memory, run.id).deliver("Friday")
>>> run.messages, waits, done.output
(['Which day?'], 'waiting', {'day': 'Friday'})
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memoranda.workflow.actions.base import Action, Call, action
    from memoranda.workflow.behaviour import Behaviour
    from memoranda.workflow.expressions import migration
    from memoranda.workflow.jsonata import UNDEFINED, evaluate
    from memoranda.workflow.loader import check, find, load, parse, resume
    from memoranda.workflow.run import Run
    from memoranda.workflow.workflow import Workflow

__all__ = [
    "UNDEFINED",
    "Action",
    "Behaviour",
    "Call",
    "Run",
    "Workflow",
    "action",
    "check",
    "evaluate",
    "find",
    "load",
    "migration",
    "parse",
    "resume",
]

_HOMES = {
    **dict.fromkeys(("check", "find", "load", "parse", "resume"), "loader"),
    **dict.fromkeys(("UNDEFINED", "evaluate"), "jsonata"),
    "migration": "expressions",
    **dict.fromkeys(("Action", "Call", "action"), "actions.base"),
    "Behaviour": "behaviour",
    "Run": "run",
    "Workflow": "workflow",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that a program without workflows never loads JSONata."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"memoranda.workflow.{_HOMES[name]}"), name)
