"""Measure the time between two tasks, in workflows whose actions do nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import memoranda
from memoranda.runs.records import load_memory
from memoranda.workflow import Run

OWNER, WORKFLOW, THREAD = "ines", "orchard", "t1"
INPUT: dict[str, Any] = {"grower": "Inês Carvalho", "crates": 14}
PLOT: dict[str, Any] = {
    "variety": "Reinette",
    "season": "autumn",
    "frost": False,
    "rows": 14,
    "notes": ["keeps well", "picked late"],
    "soil": {"kind": "loam", "ph": 6.4},
}
"""A record as they are measured: some texts, a list, an object."""


def plot_schema(title: str) -> dict[str, Any]:
    """Return the schema that such a record fits."""
    soil = {"type": "object", "properties": {"kind": {"type": "string"}, "ph": {"type": "number"}}}
    properties = {
        "variety": {"type": "string", "description": "What grows there."},
        "season": {"type": "string", "enum": ["summer", "autumn", "winter"]},
        "frost": {"type": "boolean"},
        "rows": {"type": "integer", "minimum": 1},
        "notes": {"type": "array", "items": {"type": "string"}},
        "soil": soil,
    }
    return {"type": "object", "title": title, "properties": properties, "required": ["variety", "season"]}


def define_plots(memory: memoranda.Memory, count: int) -> list[str]:
    """Make so many definitions, each with a schema of its own: half of them global, the rest by workflow and thread.

    Return their ids.
    """
    scopes = ("global", "workflow", "global", "thread")
    return [
        memory.definitions.create(
            name=f"Plot {number}",
            slug=f"plot_{number}",
            schema=plot_schema(f"Plot {number}"),
            scope=scopes[number % len(scopes)],
        ).id
        for number in range(count)
    ]


def fill_plots(memory: memoranda.Memory, ids: Sequence[str]) -> None:
    """Write a record of each definition."""
    working = load_memory(memory, owner=OWNER, definition_ids=ids, workflow=WORKFLOW, thread=THREAD)
    working.write({slug: PLOT for slug in working.definitions})


# --- rows of steps ----------------------------------------------------------------------------------------------

_HEAD = """\
inputs:
  schema:
    type: object
    properties: {grower: {type: string}, crates: {type: integer}}
    required: [grower, crates]
context:
  press: "=$input.crates > 10 ? 'large' : 'small'"
"""

_CLERK = """\
defs:
  count:
    kind: task
    action: set_context
    inputs: {values: {crates: =$input.crates + 1}}
flow:
  - do: count
outputs:
  crates: =$context.crates
"""

EXPRESSIONS = {
    "grower": "$input.grower",
    "variety": "$context.memory.plot_0.variety",
    "line": "'Crate {number} of ' & $input.grower & ', for the ' & $context.press & ' press'",
    "grade": "$context.memory.plot_0.frost ? 'juice' : 'table'",
    "before": "{before}",
}
"""What a note is given: three paths, a text put together from parts, and a choice. The last is what the one before
it gave."""

_PATHS = {
    "grower": "$input.grower",
    "variety": "$context.memory.plot_0.variety",
    "line": "$context.memory.plot_0.soil.kind",
    "grade": "$context.press",
    "before": "{before}",
}
_DO = "  - do: {name}\n"


def _task(action: str, inputs: str) -> str:
    return f"  {{name}}:\n    kind: task\n    action: {action}\n    inputs: {inputs}\n"


def _computed(expressions: dict[str, str]) -> str:
    fields = ", ".join(f'{name}: "={text}"' for name, text in expressions.items())
    return f"{{{{{fields}, unit: kg}}}}"


@dataclass(frozen=True)
class Kind:
    """One kind of step: how it is called in tables, how its task and its place in the flow are written, its events."""

    name: str
    task: str
    step: str = _DO
    events: int = 1


NOTES = Kind("has three paths, a text put together and a choice as inputs", _task("note", _computed(EXPRESSIONS)))
NOTES_PATHS = Kind("has five paths as inputs", _task("note", _computed(_PATHS)))
NOTES_PLAIN = Kind(
    "has nothing to compute", _task("note", "{{grower: Ada, variety: Cox, line: plain, grade: table, before: x}}")
)
NOTES_CALL = Kind("the same, its action given the whole call", _task("note_call", _computed(EXPRESSIONS)))
WRITES = Kind(
    "writes a record of memory",
    _task(
        "update_memory",
        '{{memory: {{plot_2: {{variety: "=$context.memory.plot_0.variety", season: autumn, '
        'rows: "=$input.crates + {number}", notes: [keeps well]}}}}}}',
    ),
)
SETS = Kind("sets the context", _task("set_context", '{{values: {{seen: "=$input.crates + {number}"}}}}'))
SENDS = Kind("sends a message", _task("send_text_message", "{{text: \"='Crate ' & $input.crates\"}}"))
CALLS = Kind("calls a workflow of one step", _task("call_workflow", "{{workflow: clerk}}"))
CHOOSES = Kind(
    "chooses a branch that is empty",
    "",
    '  - conditional: {{when: [{{condition: "=$input.crates > 900", steps: [{{do: entry_0}}]}}, '
    "{{condition: \"=$context.press = 'large'\", steps: []}}]}}\n",
)
LOOPS = Kind(
    "goes through a loop of five passes, all empty",
    "",
    "  - loop: {{type: for_each, for_each: {{item: row, in: [1, 2, 3, 4, 5]}}, steps: []}}\n",
)
SPLITS = Kind(
    "does two tasks at once",
    "  {name}: {{kind: task, action: rest}}\n  {name}_too: {{kind: task, action: rest}}\n",
    "  - parallel: {{steps: [{{do: {name}}}, {{do: {name}_too}}]}}\n",
    events=2,
)


class Row:
    """A workflow of many tasks, one after the other, whose action notes when it was called."""

    def __init__(
        self,
        memory: memoranda.Memory,
        notes: int,
        kind: Kind = NOTES,
        *,
        between: Kind | None = None,
        count: int = 0,
        definition_ids: Sequence[str] = (),
        thread: str | None = None,
    ) -> None:
        """Load it on a memory: so many notes, and after each so many steps of another kind."""
        self.moments: list[int] = []
        """The nanoseconds of the clock at each note."""
        self.on_note: Callable[[], None] | None = None
        self.text = row_text(notes, kind, between=between, count=count, definition_ids=definition_ids)
        self._thread = thread
        self._flow = memoranda.workflow.load(
            self.text,
            memory=memory,
            name=WORKFLOW,
            actions=self._actions(),
            workflows=[memoranda.workflow.load(_CLERK, memory=memory, name="clerk")],
        )
        expected = 2 + notes * (kind.events + (between.events * count if between else 0))
        left = self.run().summary.events
        if left != expected:
            raise RuntimeError(f"a row whose steps are such that each {kind.name} leaves {left} events, not {expected}")

    def _actions(self) -> list[Any]:
        moments, clock = self.moments, time.perf_counter_ns

        def note_moment() -> None:
            moments.append(clock())
            if self.on_note is not None:
                self.on_note()

        @memoranda.workflow.action
        def note(grower: str, variety: str, line: str, grade: str, before: str, unit: str = "kg") -> dict[str, Any]:
            """Note the moment."""
            note_moment()
            return {"noted": grade, "unit": unit}

        @memoranda.workflow.action("note_call")
        def note_call(call: memoranda.workflow.Call) -> dict[str, Any]:
            """Note the moment."""
            note_moment()
            return {"noted": call.inputs["grade"], "unit": call.inputs["unit"]}

        @memoranda.workflow.action
        def rest() -> dict[str, Any]:
            """Do nothing."""
            return {}

        return [note, note_call, rest]

    def run(self) -> Run:
        """Run it to its end."""
        self.moments.clear()
        return self._flow.run(INPUT, owner=OWNER, thread=self._thread).check()

    def intervals(self) -> list[int]:
        """Run it; return the nanoseconds between each note and the next."""
        self.run()
        return [after - before for before, after in pairwise(self.moments)]

    def opening(self) -> int:
        """Run it; return the nanoseconds until its first note."""
        start = time.perf_counter_ns()
        self.run()
        return self.moments[0] - start


def row_text(
    notes: int, kind: Kind = NOTES, *, between: Kind | None = None, count: int = 0, definition_ids: Sequence[str] = ()
) -> str:
    """Return the file of a row."""
    steps = list(_steps(notes, kind, between=between, count=count))
    defs = [
        f"  plot_{number}_memory: {{kind: memory, settings: {{definition_id: {id}}}}}\n"
        for number, id in enumerate(definition_ids)
    ]
    defs += [task for task, _ in steps]
    return _HEAD + "defs:\n" + "".join(defs) + "flow:\n" + "".join(step for _, step in steps)


def _steps(notes: int, kind: Kind, *, between: Kind | None, count: int) -> Iterator[tuple[str, str]]:
    """Yield the task and the place in the flow of each step; each note is given what the one before it gave."""
    before = "$input.grower"
    for number in range(notes):
        name = f"entry_{number}"
        yield kind.task.format(name=name, number=number, before=before), kind.step.format(name=name)
        before = f"$output.{name}.noted"
        for one in range(count if between else 0):
            name = f"step_{number}_{one}"
            yield between.task.format(name=name, number=one), between.step.format(name=name)
