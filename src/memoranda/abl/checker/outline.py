"""A document and its programs in; what it declares, reads, writes, calls and leads to, out, for every check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, cast

import msgspec

from memoranda.abl import document as abl
from memoranda.abl.document import Document, PersistentVariable, SessionVariable, Step, Tool
from memoranda.abl.parsed import Programs, Use, uses
from memoranda.abl.tree import Line, Node, Raw
from memoranda.abl.variables import at_or_above
from memoranda.lang.expression.nodes import Node as Program
from memoranda.lang.expression.nodes import Path, children, path_of
from memoranda.lang.hints import Hints
from memoranda.lang.source import Span
from memoranda.lang.template import Loop


class Write(msgspec.Struct, frozen=True):
    """A variable or path that gets a value, or loses it."""

    path: Raw
    by: str
    """The word that does it: `SET`, `AS`, `STORE`."""
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
    """Whether a field of an item may be meant instead."""

    @property
    def text(self) -> str:
        """The path as it is written."""
        return ".".join(self.path)


class Lead(msgspec.Struct, frozen=True):
    """A transition, and the step it leaves; None for one that may be taken from anywhere."""

    to: Raw
    kind: abl.TargetKind
    step: str | None


class Outline(msgspec.Struct, frozen=True, dict=True):
    """What the checks ask of a document."""

    document: Document
    programs: Programs
    closed: bool
    """Whether all there is stands in this document; steps and tools of a fragment may stand elsewhere."""
    sound: bool
    """Whether all of it could be read; where not, what seems to be missing may only be unreadable."""
    steps: dict[str, Step]
    session: dict[str, SessionVariable]
    facts: dict[str, PersistentVariable]
    tools: dict[str, Tool]
    uses: tuple[Use, ...]
    reads: tuple[Read, ...]
    writes: tuple[Write, ...]
    leads: tuple[Lead, ...]
    parts: tuple[tuple[Node, str | None], ...]
    """Every part of the document that is no raw text, with the step around it."""
    hints: Hints

    def fact(self, path: str) -> PersistentVariable | None:
        """Return the declared fact that a path lies at or below."""
        if path.partition(".")[0] in self.session:
            return None
        found = (self.facts.get(above) for above, _ in at_or_above(path.partition("[")[0]))
        return next(filter(None, found), None)

    @cached_property
    def written(self) -> set[str]:
        """The names of variables that something in the document sets."""
        return {write.name for write in self.writes if write.by != "CLEAR"}

    @cached_property
    def groups(self) -> set[str]:
        """The paths that declared facts lie below: `user.home` where `user.home.city` is declared."""
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
        """Every field that is collected, with its step."""
        return [(part, step) for part, step in self.parts if isinstance(part, abl.Field)]


def outline(document: Document, programs: Programs, *, sound: bool = True) -> Outline:
    """Go through a document once, and give what it says by subject; `sound` says whether all of it could be read."""
    memory = document.memory or abl.Memory(span=document.span)
    parts = tuple(_parts(document))
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
        hints=Hints(),
    )


def _parts(document: Document) -> Iterator[tuple[Node, str | None]]:
    waiting: list[tuple[Node, str | None]] = [(document, None)]
    while waiting:
        here, step = waiting.pop()
        if isinstance(here, Step):
            step = here.name.text
        yield here, step
        waiting.extend((below, step) for below in reversed(list(_below(here))))


def _below(node: Node) -> Iterator[Node]:
    for name in node.__struct_fields__:
        value: Any = getattr(node, name)
        for part in cast("tuple[Any, ...]", value) if type(value) is tuple else (value,):
            if isinstance(part, Node) and not isinstance(part, (Raw, Line)):
                yield part


def _reads(used: Iterable[Use], programs: Programs) -> Iterator[Read]:
    for use in used:
        node = programs.node(use.raw)
        # An http tool sees its arguments only; what a map names is written.
        if node is None or use.place.startswith("tool ") or use.place == "ON_RETURN map":
            continue
        for path, span, looped in paths_of(node):
            if path[0] != use.item:
                yield Read(path, span, use, looped)


def paths_of(node: Program) -> Iterator[tuple[Path, Span, bool]]:
    """Give each path that a program reads, and whether it stands in the body of a loop."""
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


def _writes(parts: Iterable[tuple[Node, str | None]]) -> Iterator[Write]:
    for part, step in parts:
        written = _WRITTEN.get(type(part))
        for path, by in written(part) if written else ():
            if path is not None:
                yield Write(path, by, step)


_WRITTEN: dict[type[Node], Callable[[Any], list[tuple[Raw | None, str]]]] = {
    abl.Set: lambda part: [(one.target, "SET") for one in part.assignments],
    abl.Clear: lambda part: [(name, "CLEAR") for name in part.names],
    abl.Transform: lambda part: [(part.into, "INTO")],
    abl.Call: lambda part: [(part.result, "AS")],
    abl.Field: lambda part: [(part.name, "GATHER")],
    abl.Failure: lambda part: [(name, "COLLECT") for name in part.collect],
    abl.Remember: lambda part: [(part.target, "STORE")],
    abl.Complete: lambda part: [(part.store_target, "STORE")],
    abl.OnReturn: lambda part: [
        *((argument.value, "map") for argument in part.map),
        *((argument.name, "set") for argument in part.set),
    ],
    abl.Delegate: lambda part: [(argument.value, "RETURNS") for argument in part.returns],
}
"""What each kind of part writes, and by which word."""


def _leads(parts: Iterable[tuple[Node, str | None]]) -> Iterator[Lead]:
    for part, step in parts:
        match part:
            case abl.Target():
                yield Lead(part.name, part.kind, step)
            case abl.Failure(goto=Raw() as to):
                yield Lead(to, "step", None)
            case abl.ErrorHandler(backtrack_to=Raw() as to):
                yield Lead(to, "step", step)
            case _:
                pass
