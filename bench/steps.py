"""Measure each step of machines with many steps, and where its time goes.

The model that they ask answers at once and notes when: between two answers is exactly one step, and whatever else
the machine has there. What the effect itself would take is not in these times, because it does nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from measuring import Part, share_out

import memoranda
from memoranda.agent.models import Ask, Reply
from memoranda.governance import gate
from memoranda.governance.ledger import LedgerEnd
from memoranda.mashin import Budget, Run
from memoranda.mashin.permissions import Permissions
from memoranda.mashin.runtime import steps as calling
from memoranda.mashin.runtime.execution import Visit
from memoranda.runs.recorder import Recorder

INPUT = {"station": "Kvitholmen", "level": 3}
UNLIMITED = Budget(steps=None, model_calls=None, tokens=None, writes=None, machine_calls=None)


# --- rows of steps ----------------------------------------------------------------------------------------------

_HEAD = """\
machine tide_log
  accepts
    station as text, is required
    level as number, is required
  ensures
    permissions
      allowed to llm_call
      {calls} machine.call
  implements
"""

_CLERK = """\
machine clerk
  accepts
    level as number, is required
  responds with
    counted as number
  implements
    compute counting
      { counted: input.level + 1 }
"""

_ASK = """\
    ask {name}, using: "bench:still"
      with role "You keep the log of a tide station."
      with task "Entry {number} of ${{input.station}}, after: ${{{before}}}"
      returns
        entry as text
"""

_ASK_TEXT = """\
    ask {name}, using: "bench:still"
      with role "You keep the log of a tide station."
      with task "Entry {number} of ${{input.station}}, after: ${{{before}}}"
"""

_COMPUTE = """\
    compute {name}
      let rise = input.level + {number}
      {{ rise: rise * 1.5, high: rise > 4, station: input.station }}
"""

_DECIDE = """\
    decide {name}
      when input.level is greater than 900
        {{ sluice: "closed" }}
      when input.level + {number} >= 0
        {{ sluice: "half open" }}
      otherwise
        {{ sluice: "open" }}
"""

_CALL = """\
    ask {name}, from: "clerk"
      level: input.level + {number}
"""


@dataclass(frozen=True)
class Kind:
    """One kind of step: how it is called in tables, how it is written, and how many events it leaves."""

    name: str
    text: str
    events: int


ASKS = Kind("asks a model, which returns a field", _ASK, 2)
ASKS_FOR_TEXT = Kind("asks a model, which returns text", _ASK_TEXT, 2)
COMPUTES = Kind("computes", _COMPUTE, 1)
DECIDES = Kind("decides", _DECIDE, 1)
CALLS = Kind("calls a machine of one step", _CALL, 2)


class Still:
    """A model that answers at once."""

    name = "bench:still"

    def __init__(self) -> None:
        """Begin with nothing asked."""
        self.asked: list[int] = []
        """The nanoseconds of the clock at each question."""
        self.on_asked: Callable[[], None] | None = None

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        """Note the moment, and return what is always returned."""
        self.asked.append(time.perf_counter_ns())
        if self.on_asked is not None:
            self.on_asked()
        return _REPLY


_REPLY = Reply(text="calm", value={"entry": "calm"})


class Row:
    """A machine of many steps, one question after the other, and what may be between them."""

    def __init__(self, memory: memoranda.Memory, steps: Iterable[str], *, calls: str = "allowed to") -> None:
        """Load it on a memory; `calls` is what is said about its calls of other machines."""
        self.model = Still()
        self.clerk = memoranda.mashin.load(_CLERK, memory=memory)
        text = _HEAD.format(calls=calls) + "".join(steps)
        self.machine = memoranda.mashin.load(text, memory=memory, machines=[self.clerk], model=self.model)

    def run(self) -> Run:
        """Run it to its end, or to where it waits."""
        self.model.asked.clear()
        return self.machine.run(INPUT, budget=UNLIMITED).check()

    def intervals(self) -> list[int]:
        """Run it; return the nanoseconds between each question and the next."""
        self.run()
        return [after - before for before, after in pairwise(self.model.asked)]


def asking_row(
    memory: memoranda.Memory, asks: int, kind: Kind = ASKS, *, between: Kind | None = None, count: int = 0
) -> Row:
    """Return a row of questions, each followed by steps of another kind; check that all are on record."""
    row = Row(memory, asking_steps(asks, kind, between=between, count=count))
    left = row.run().summary.events
    expected = 2 + asks * (kind.events + (between.events * count if between else 0))
    if left != expected:
        raise RuntimeError(f"a row that {kind.name} leaves {left} events, not {expected}")
    return row


def held_row(memory: memoranda.Memory, asks: int) -> Row:
    """Return a row of questions, which then waits for approval to call another machine."""
    counted = _CALL.format(name="counted", number=asks)
    row = Row(memory, [*asking_steps(asks), counted], calls="requires approval for")
    if row.run().status != "waiting":
        raise RuntimeError("a call that requires approval did not wait for it")
    return row


def asking_steps(asks: int, kind: Kind = ASKS, *, between: Kind | None = None, count: int = 0) -> Iterator[str]:
    """Yield the text of the questions, each with the answer before it, and the other steps after it."""
    before, field = "input.station", "entry" if kind is ASKS else "text"
    for number in range(asks):
        yield kind.text.format(name=f"entry_{number}", number=number, before=before)
        before = f"steps.entry_{number}.{field}"
        if between:
            for one in range(count):
                yield between.text.format(name=f"step_{number}_{one}", number=one)


# --- where the time of a step goes ------------------------------------------------------------------------------

_PARTS: tuple[Part, ...] = (
    ("expressions", Visit, "value"),
    ("permission", Permissions, "verdict"),
    ("permission", gate, "decide"),
    ("record: gate and store", Recorder, "flush"),
    ("record: hashes", LedgerEnd, "chain"),
    ("the answer, checked", calling, "converse"),
)


def parts_of_a_step(row: Row, *, runs: int) -> dict[str, float]:
    """Run a row so often; return the microseconds of each part of one step, and of all the rest."""
    return share_out(_PARTS, row.intervals, listen=partial(setattr, row.model, "on_asked"), runs=runs)
