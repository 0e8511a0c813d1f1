"""Outline of a document for the checks: what it declares, reads, writes, calls and leads to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, cast

import msgspec

import memoranda.abl.document as abl
from memoranda.abl.document import Document, PersistentVariable, SessionVariable, Step, Tool
from memoranda.abl.lines import Line
from memoranda.abl.programs import Programs, Use, uses
from memoranda.abl.variables import at_or_above
from memoranda.lang.diagnostics import Suggestions
from memoranda.lang.document import Raw, SourceNode
from memoranda.lang.expression.nodes import Node as Program
from memoranda.lang.expression.nodes import Path, children, path_of
from memoranda.lang.source import Span
from memoranda.lang.template import Loop


class Write(msgspec.Struct, frozen=True):
    """A variable or path that is set or cleared."""

    path: Raw
    by: str
    """The keyword: `SET`, `AS`, `STORE`…"""
    step: str | None = None

    @property
    def name(self) -> str:
        """The variable: the path up to its first dot or bracket."""
        return self.path.text.partition(".")[0].partition("[")[0]


class Read(msgspec.Struct, frozen=True):
    """A path that a program reads."""

    path: Path
    span: Span
    use: Use
    looped: bool
    """Whether it is in a loop, where a field of an item may have the name."""

    @property
    def text(self) -> str:
        """The path as written."""
        return ".".join(self.path)


class Lead(msgspec.Struct, frozen=True):
    """A transition with the step it leaves; None for one that is possible anywhere."""

    to: Raw
    kind: abl.TargetKind
    step: str | None


class Outline(msgspec.Struct, frozen=True, dict=True):
    """A document by subject, for the checks."""

    document: Document
    programs: Programs
    closed: bool
    """Whether the document is complete; a fragment may use steps and tools of elsewhere."""
    sound: bool
    """Whether all of it could be parsed; otherwise something that seems missing may be unreadable."""
    steps: dict[str, Step]
    session: dict[str, SessionVariable]
    facts: dict[str, PersistentVariable]
    tools: dict[str, Tool]
    uses: tuple[Use, ...]
    reads: tuple[Read, ...]
    writes: tuple[Write, ...]
    leads: tuple[Lead, ...]
    parts: tuple[tuple[SourceNode, str | None], ...]
    """Every node of the document except raw text and lines, with its step."""
    hints: Suggestions

    def fact(self, path: str) -> PersistentVariable | None:
        """Return the declared fact at or above a path."""
        if path.partition(".")[0] in self.session:
            return None
        found = (self.facts.get(above) for above, _ in at_or_above(path.partition("[")[0]))
        return next(filter(None, found), None)

    @cached_property
    def written(self) -> set[str]:
        """The names of variables that the document sets."""
        return {write.name for write in self.writes if write.by != "CLEAR"}

    @cached_property
    def groups(self) -> set[str]:
        """The parents of declared paths: `user.home` for `user.home.city`."""
        groups: set[str] = set()
        for path in self.facts:
            while path := path.rpartition(".")[0]:
                groups.add(path)
        return groups

    @cached_property
    def calls(self) -> list[abl.Call]:
        """Every tool call."""
        return [part for part, _ in self.parts if isinstance(part, abl.Call)]

    @cached_property
    def fields(self) -> list[tuple[abl.Field, str | None]]:
        """Every gathered field with its step."""
        return [(part, step) for part, step in self.parts if isinstance(part, abl.Field)]


def outline(document: Document, programs: Programs, *, sound: bool = True) -> Outline:
    """Build the outline of a document; `sound` tells whether all of it could be parsed."""
    memory = document.memory or abl.Memory(span=document.span)
    parts = tuple(parts_of(document))
    used = tuple(uses(document))
    return Outline(
        document=document,
        programs=programs,
        closed=document.kind in ("agent", "supervisor"),
        sound=sound,
        steps={step.name.text: step for step in document.flow.steps} if document.flow else {},
        session={variable.name.text: variable for variable in memory.session},
        facts={variable.path.text: variable for variable in reversed(memory.persistent)},
        tools={tool.name.text: tool for tool in document.tools},
        uses=used,
        reads=tuple(_reads(used, programs)),
        writes=tuple(_writes(parts)),
        leads=tuple(_leads(parts)),
        parts=parts,
        hints=Suggestions(),
    )


def parts_of(document: Document) -> Iterator[tuple[SourceNode, str | None]]:
    """Yield every node of a document except raw text and lines, with its step."""
    waiting: list[tuple[SourceNode, str | None]] = [(document, None)]
    while waiting:
        here, step = waiting.pop()
        if isinstance(here, Step):
            step = here.name.text
        yield here, step
        waiting.extend((below, step) for below in reversed(list(_below(here))))


def handoff_targets(document: Document) -> Iterator[Raw]:
    """Yield the names of the agents that rules and steps hand over to."""
    for part, _ in parts_of(document):
        if isinstance(part, abl.OnFail) and part.handoff is not None:
            yield part.handoff
        elif isinstance(part, abl.Target) and part.kind == "handoff" and part.name.text.upper() != "HANDOFF":
            yield part.name


def _below(node: SourceNode) -> Iterator[SourceNode]:
    for name in node.__struct_fields__:
        value: Any = getattr(node, name)
        for part in cast("tuple[Any, ...]", value) if type(value) is tuple else (value,):
            if isinstance(part, SourceNode) and not isinstance(part, (Raw, Line, Document)):
                yield part


def _reads(used: Iterable[Use], programs: Programs) -> Iterator[Read]:
    for use in used:
        node = programs.node(use.raw)
        # An HTTP tool reads its arguments only, and a map names variables that are written.
        if node is None or use.place.startswith("tool ") or use.place == "ON_RETURN map":
            continue
        for path, span, looped in paths_of(node):
            if path[0] != use.item:
                yield Read(path, span, use, looped)


def paths_of(node: Program) -> Iterator[tuple[Path, Span, bool]]:
    """Yield each path that a program reads, its span, and whether it is in the body of a loop."""
    waiting = [(node, False)]
    while waiting:
        here, looped = waiting.pop()
        path = path_of(here)
        if path is not None:
            yield path, here.span, looped
        elif isinstance(here, Loop):
            waiting.extend(((here.otherwise, looped), (here.body, True), (here.of, looped)))
        else:
            waiting.extend((below, looped) for below in reversed(list(children(here))))


def _writes(parts: Iterable[tuple[SourceNode, str | None]]) -> Iterator[Write]:
    for part, step in parts:
        written = _WRITTEN.get(type(part))
        for path, by in written(part) if written else ():
            if path is not None:
                yield Write(path, by, step)


_WRITTEN: dict[type[SourceNode], Callable[[Any], list[tuple[Raw | None, str]]]] = {
    abl.Set: lambda part: [(one.target, "SET") for one in part.assignments],
    abl.Clear: lambda part: [(name, "CLEAR") for name in part.names],
    abl.Transform: lambda part: [(part.into, "INTO")],
    abl.Call: lambda part: [(part.result, "AS")],
    abl.Field: lambda part: [(part.name, "GATHER")],
    abl.OnFail: lambda part: [(name, "COLLECT") for name in part.collect],
    abl.Remember: lambda part: [(part.target, "STORE")],
    abl.Complete: lambda part: [(part.store_target, "STORE")],
    abl.OnReturn: lambda part: [
        *((argument.value, "map") for argument in part.map),
        *((argument.name, "set") for argument in part.set),
    ],
    abl.Delegate: lambda part: [(argument.value, "RETURNS") for argument in part.returns],
}
"""The paths that each kind of node writes, with the keyword."""


def _leads(parts: Iterable[tuple[SourceNode, str | None]]) -> Iterator[Lead]:
    for part, step in parts:
        match part:
            case abl.Target():
                yield Lead(part.name, part.kind, step)
            case abl.OnFail(goto=Raw() as to):
                yield Lead(to, "step", None)
            case abl.ErrorHandler(backtrack_to=Raw() as to):
                yield Lead(to, "step", step)
            case _:
                pass
