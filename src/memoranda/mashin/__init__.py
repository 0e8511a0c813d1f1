"""mashin machines: steps that compute, ask, remember and recall, with every effect governed and on record.

`load` compiles a machine, `machine.run` runs it, `machine.test` runs its tests. `find` and `resume` return a run that
began earlier. `parse` and `check` read a text without running it; `evaluate` runs a single expression.

>>> import memoranda
>>> from memoranda.mashin import check, find, load, parse, resume
>>> text = '''
... machine shelf "Where something is kept"
...   accepts
...     thing as text, is required
...   implements
...     wait for answer
...       event: "answered"
...     compute words
...       "The ${input.thing} is ${answer.place}"
... '''
>>> check(text), parse(text).name.text
((), 'shelf')
>>> with memoranda.open(":memory:") as memory:
...     machine = load(text, memory=memory)
...     run = machine.run({"thing": "ladder"})
...     waits = resume(memory, run.id).status
...     done = find(memory, run.id).deliver({"place": "in the shed"})
>>> run.status, waits, done.output
('waiting', 'waiting', 'The ladder is in the shed')
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memoranda.mashin.behaviour import Behaviour, Budget
    from memoranda.mashin.expression.compiler import evaluate
    from memoranda.mashin.loader import check, find, load, parse, resume
    from memoranda.mashin.machine import Machine
    from memoranda.mashin.run import Run

__all__ = ["Behaviour", "Budget", "Machine", "Run", "check", "evaluate", "find", "load", "parse", "resume"]

_HOMES = {
    **dict.fromkeys(("Behaviour", "Budget"), "behaviour"),
    **dict.fromkeys(("check", "find", "load", "parse", "resume"), "loader"),
    "evaluate": "expression.compiler",
    "Machine": "machine",
    "Run": "run",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: expressions alone need no memory and no model."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"memoranda.mashin.{_HOMES[name]}"), name)
