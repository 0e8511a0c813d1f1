"""What differs between languages, as one value: operators, functions, names, and how each node is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from memoranda.errors import Conflict
from memoranda.lang.expression.bounds import DEFAULT_BOUNDS, Bounds, exceeded
from memoranda.lang.expression.nodes import Node, Path
from memoranda.model.clock import Clock, SystemClock
from memoranda.model.ids import Ids, SystemIds


class Names(Protocol):
    """Where an expression finds its variables: a dict, or anything else that gives a value or a default."""

    def get(self, name: str, default: Any = None, /) -> Any:
        """Return the value of a name, or the default when there is none."""
        ...


class Run:
    """What one run may use and has used: the time, a source of ids, rounds of loops, and the last match."""

    __slots__ = ("_recorded", "bounds", "calls", "captures", "clock", "drawn", "ids", "steps", "written")

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        ids: Ids | None = None,
        bounds: Bounds = DEFAULT_BOUNDS,
        recorded: Sequence[tuple[str, Any]] | None = None,
    ) -> None:
        """Begin with nothing used; without a clock or ids, the machine's are asked.

        With `recorded`, what an earlier run has `drawn`, the same moments and chances come again in the same order.
        """
        self.clock: Clock = clock or _CLOCK
        self.ids: Ids = ids or _IDS
        self.bounds = bounds
        self.captures: dict[str, str | None] | None = None
        """The groups of the last `matches` that was true, for `match.1` here and in what follows."""
        self.drawn: list[tuple[str, Any]] = []
        """What no expression can compute, in the order it was asked for: moments, chances and ids, by kind."""
        self._recorded = recorded
        self.calls = 0
        """Functions of the program that are running inside one another."""
        self.steps = 0
        self.written = 0

    def draw(self, kind: str, make: Callable[[], Any]) -> Any:
        """Return a value that is not computed and write it down; in a replay, the one that was written down."""
        value = make() if self._recorded is None else self._again(kind, self._recorded)
        self.drawn.append((kind, value))
        return value

    def _again(self, kind: str, recorded: Sequence[tuple[str, Any]]) -> Any:
        place = len(self.drawn)
        was, value = recorded[place] if place < len(recorded) else ("nothing", None)
        if was != kind:
            raise Conflict(
                f"the replay asks for {kind} where {was} was recorded",
                hint="Replay with the program that was recorded",
                expected=was,
                actual=kind,
            )
        return value

    def step(self, rounds: int = 1) -> None:
        """Count rounds of a loop, and stop at the limit."""
        self.steps += rounds
        if self.steps > self.bounds.steps:
            raise exceeded("the work of the loops", self.bounds.steps)


_CLOCK = SystemClock()
_IDS = SystemIds()

Closure: TypeAlias = Callable[[Names, Run], Any]
"""A compiled node: variables and a run in, its value out."""

Resolve: TypeAlias = Callable[[Path], "tuple[int, Closure] | None"]
"""Asked while compiling for each path: how many of its segments are read in a special way, and how."""


class Function(msgspec.Struct, frozen=True):
    """A function that expressions may call, and how many arguments it takes."""

    name: str
    call: Callable[..., Any]
    least: int
    most: int | None
    uses_run: bool = False
    """Whether the run is its first argument: for the clock, ids and limits."""


class Compilation(Protocol):
    """What a compiler of one kind of node is given."""

    @property
    def dialect(self) -> Dialect:
        """The language that is compiled."""
        ...

    def compile(self, node: Node) -> Closure:
        """Return the closure of another node."""
        ...

    def path(self, path: Path) -> Closure:
        """Return the closure that reads a dotted path."""
        ...

    def plain_name(self, node: Node) -> str | None:
        """Return the name that a node is, if it is read from the variables as it stands; None for all other nodes."""
        ...

    def inside_loop(self) -> Compilation:
        """Return a compilation for a body whose names may be shadowed by the fields of an item."""
        ...


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of a language's expressions."""

    truthy: Callable[[Any], bool]
    word: Callable[[Any], str]
    """A value as text, where one is shown."""
    unary: Mapping[str, Callable[[Any], Any]]
    binary: Mapping[str, Callable[[Any, Any], Any]]
    member: Callable[[Any, str], Any]
    """A field of a value that is not an object; objects are read directly."""
    index: Callable[[Any, Any], Any]
    functions: Mapping[str, Function]
    """By the spelling that the grammar writes into `Call`."""
    names: Mapping[str, Closure]
    """Names that are read in their own way, such as the time."""
    compilers: Mapping[type[Node], Callable[[Any, Compilation], Closure]]
    """How each kind of node becomes a closure; a language adds its own to `CORE` of the compiler."""
