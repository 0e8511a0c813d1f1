"""What differs between languages (`Dialect`), what one run of an expression uses, and its bounds."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from memoranda.errors import Conflict, EvaluationFailed, LimitExceeded
from memoranda.lang.expression.nodes import Node, Path
from memoranda.lang.source import Span
from memoranda.model.clock import Clock, Ids, SystemClock, SystemIds

if TYPE_CHECKING:
    from memoranda.lang.expression.compiler import Compilation


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of expressions and templates; exceeding one is a diagnostic or a `LimitExceeded`."""

    source: int = 20_000
    """Characters of one expression."""
    nodes: int = 2_000
    """Nodes of one expression."""
    depth: int = 32
    """Nesting of brackets, calls and prefixes."""
    height: int = 150
    """Height of the tree, including long sums: how deep closures call one another."""
    text: int = 100_000
    """Characters of a computed text."""
    items: int = 100_000
    """Items of a computed list."""
    pattern: int = 1_000
    """Characters of a regular expression."""
    calls: int = 32
    """Nesting of calls of the program's own functions."""
    steps: int = 100_000
    """Loop iterations of one run, all loops together."""
    template: int = 100_000
    """Characters of one template."""
    blocks: int = 32
    """Nesting of template blocks."""
    output: int = 100_000
    """Characters of a rendered template."""


DEFAULT_BOUNDS = Bounds()


def exceeded(what: str, limit: int, actual: int | None = None) -> LimitExceeded:
    """Return the exception for a limit exceeded at run time."""
    return LimitExceeded(
        f"{what} is larger than the limit of {limit:,}",
        hint="Compute less at once, or keep the value in smaller parts",
        limit=limit,
        actual=limit + 1 if actual is None else actual,
    )


def check_text(text: str, most: int) -> str:
    """Return a computed text; raise LimitExceeded if it is too long."""
    if len(text) > most:
        raise exceeded("the text that an expression made", most, len(text))
    return text


class Names(Protocol):
    """The variables of an expression: a dict, or anything with `get`."""

    def get(self, name: str, default: Any = None, /) -> Any:
        """Return the value of a name, or the default."""
        ...


class ExpressionRun:
    """The state of one run of an expression: clock, ids, loop count, and the last match."""

    __slots__ = ("_recorded", "bounds", "calls", "captures", "clock", "drawn", "ids", "steps", "written")

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        ids: Ids | None = None,
        bounds: Bounds = DEFAULT_BOUNDS,
        recorded: Sequence[tuple[str, Any]] | None = None,
    ) -> None:
        """Start a run, with the system's clock and ids unless others are given.

        With `recorded`, the `drawn` values of an earlier run, the same values are drawn again in the same order.
        """
        self.clock: Clock = clock or _CLOCK
        self.ids: Ids = ids or _IDS
        self.bounds = bounds
        self.captures: dict[str, str | None] | None = None
        """The groups of the last successful `matches`, for `match.1`."""
        self.drawn: list[tuple[str, Any]] = []
        """Values that are not computed (moments, random numbers, ids) with their kind, in order."""
        self._recorded = recorded
        self.calls = 0
        """Current nesting of function calls."""
        self.steps = 0
        self.written = 0

    def draw(self, kind: str, make: Callable[[], Any]) -> Any:
        """Return a value that is not computed and record it; in a replay, return the recorded one."""
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
        """Count loop iterations; raise LimitExceeded at the bound."""
        self.steps += rounds
        if self.steps > self.bounds.steps:
            raise exceeded("the work of the loops", self.bounds.steps)


_CLOCK = SystemClock()
_IDS = SystemIds()

Closure: TypeAlias = Callable[[Names, ExpressionRun], Any]
"""A compiled node: computes its value from variables and a run."""

Resolve: TypeAlias = Callable[[Path], "tuple[int, Closure] | None"]
"""Called for each path at compile time: how many segments are read in a special way, and the closure for them."""


class Function(msgspec.Struct, frozen=True):
    """A function that expressions may call, with its minimum and maximum number of arguments."""

    name: str
    call: Callable[..., Any]
    least: int
    most: int | None
    uses_run: bool = False
    """Whether the run is passed as first argument: for clock, ids and bounds."""


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of a language's expressions."""

    truthy: Callable[[Any], bool]
    word: Callable[[Any], str]
    """Converts a value to text."""
    unary: Mapping[str, Callable[[Any], Any]]
    binary: Mapping[str, Callable[[Any, Any], Any]]
    member: Callable[[Any, str], Any]
    """Reads a field of a value that is not an object; objects are read directly."""
    index: Callable[[Any, Any], Any]
    functions: Mapping[str, Function]
    """Functions by the name in `Call`."""
    names: Mapping[str, Closure]
    """Names with a closure of their own, such as the current time."""
    compilers: Mapping[type[Node], Callable[[Any, Compilation], Closure]]
    """A compiler per kind of node; a language adds its own to `CORE` of the compiler."""
    amount: Callable[[Any], str] | None = None
    """Converts a value after a currency sign in a template to text; `word` without it."""


def evaluation_error(message: str, hint: str = "") -> EvaluationFailed:
    """Return the exception of an operator or function, which does not know its place."""
    return EvaluationFailed(message, hint=hint, span=None)


def with_span(fault: EvaluationFailed, span: Span) -> EvaluationFailed:
    """Set the span of an exception, unless an inner part already has."""
    if fault.details.get("span") is None:
        fault.details["span"] = span
    return fault


_BITS = 53
"""The precision of a float."""


def random_float(run: ExpressionRun) -> float:
    """Return a random float in [0, 1)."""
    return run.draw("random", lambda: (int.from_bytes(_digest(run, "random")[:8]) >> 64 - _BITS) / 2**_BITS)


def new_uuid(run: ExpressionRun) -> str:
    """Return a random UUID, version 4 of RFC 9562."""
    return run.draw("uuid", lambda: str(uuid.UUID(bytes=_digest(run, "uuid")[:16], version=4)))


def _digest(run: ExpressionRun, kind: str) -> bytes:
    # Tests replace the source of ids, so randomness is derived from it.
    return hashlib.sha256(run.ids.new(kind).encode("utf-8", "replace")).digest()
