"""The `MEMORY` section in; what each name means, where it is kept and what a new session begins with, out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, cast

import msgspec

from memoranda.abl.document import PREFIXES, Access, Document, Memory, MemoryScope, PersistentVariable, scope_of
from memoranda.lang.expression.compiler import MISSING
from memoranda.lang.expression.dialect import Closure, Names, Run
from memoranda.lang.expression.nodes import Path
from memoranda.lang.expression.program import Expression

FACTS = "\0facts"
"""The name under which a session's facts stand among its variables; no name of the language can be this one."""

KEPT_FROM_VIEW = "(kept from view)"
"""What traces and prompts show in place of a sensitive value."""

SYSTEM_PATHS = frozenset({"user.intent", "user.sentiment"})
FROM_OUTSIDE = frozenset({"channel", "intent", "language", "locale"})
"""Names of the runtime that an agent may declare as inputs: only the program around a session knows them."""
READ_ONLY = frozenset({"user_id", "project_id", "tenant_id", "session_id"})
SYSTEM = frozenset(
    {
        *READ_ONLY,
        *("input", "last_input", "intent", "language", "locale", "channel", "turn_count", "result", "call_result"),
        *("match", "all_fields_gathered", "tool_failures", "constraint_failures", "sentiment_trajectory"),
        *("handoff", "escalate", "always", "abl", "now", "recalled"),
    }
)
"""Names that the runtime gives; they are kept with the session's state, not as variables."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ].*)?")


class SessionSlot(msgspec.Struct, frozen=True):
    """A declared variable of a session, compiled."""

    name: str
    type: str | None
    initial: Expression | None
    reset: str
    input: bool = False
    """Whether a caller may set it."""


class Persistent(msgspec.Struct, frozen=True):
    """A path that is remembered: whose it is, under which key, and what may be done with it."""

    path: str
    scope: MemoryScope
    key: str
    access: Access = "readwrite"
    type: str | None = None
    default: Expression | None = None
    declared: bool = True
    sensitive: bool = False
    """Whether its value is kept out of traces and prompts."""


class Reads(Protocol):
    """What a session's facts can be asked for."""

    def read(self, variable: Persistent, names: Names, run: Run) -> Any:
        """Return the value of a path, or its default."""
        ...

    def granted(self, path: str) -> tuple[Persistent, Path] | None:
        """Return the fact that another agent granted at or above a path, and what is left of the path."""
        ...


def key_of(path: str) -> str:
    """Return the key of a path inside its scope: `user.language` is `language`, `loyalty.tier` stays as it is."""
    head, _, rest = path.partition(".")
    return rest if rest and head in PREFIXES else path


def at_or_above(path: str) -> Iterator[tuple[str, Path]]:
    """Give a path and those that it lies below, the longest first, each with what is left of it."""
    segments = path.split(".")
    for count in range(len(segments), 0, -1):
        yield ".".join(segments[:count]), tuple(segments[count:])


class Declarations:
    """The names of one agent: its session variables and its persistent paths."""

    def __init__(self, document: Document, compile: Callable[[Any], Expression | None]) -> None:
        """Compile the declarations; `compile` turns a raw expression into a program."""
        memory = document.memory or Memory(span=document.span)
        self.session: dict[str, SessionSlot] = {
            variable.name.text: SessionSlot(
                variable.name.text,
                variable.type,
                compile(variable.initial) if variable.initial else None,
                variable.reset,
                variable.input,
            )
            for variable in memory.session
        }
        self.persistent: dict[str, Persistent] = {}
        for variable in memory.persistent:
            self.persistent[variable.path.text] = _persistent(variable, compile)
        for path in _named_paths(memory, document):
            if self.find(path) is None:
                self.persistent[path] = Persistent(path, scope_of(path), key_of(path), declared=False)

    def find(self, path: str) -> tuple[Persistent, Path] | None:
        """Return the longest declared path that this one lies at or below, and what is left of it."""
        found = ((self.persistent.get(above), rest) for above, rest in at_or_above(path))
        return next(((variable, rest) for variable, rest in found if variable is not None), None)

    def resolve(self, path: Path) -> tuple[int, Closure] | None:
        """Return how to read a path that is remembered; None for a path of the session."""
        if path[0] in self.session:
            return None
        found = self.find(".".join(path))
        if found is not None:
            variable, rest = found
            return len(path) - len(rest), _reading(variable)
        if path[0] not in PREFIXES or len(path) < 2 or ".".join(path[:2]) in SYSTEM_PATHS:
            return None
        return 2, _reading_loosely(path[0], path[1])


def _persistent(variable: PersistentVariable, compile: Callable[[Any], Expression | None]) -> Persistent:
    path = variable.path.text
    return Persistent(
        path,
        variable.scope,
        key_of(path),
        variable.access,
        variable.type,
        compile(variable.default) if variable.default else None,
        sensitive=variable.sensitive,
    )


def _named_paths(memory: Memory, document: Document) -> Iterable[str]:
    """Give the paths that are stored or recalled; naming one there declares it."""
    for trigger in memory.remember:
        yield trigger.target.text
    for recall in memory.recall:
        yield from (path.text for path in recall.paths)
    for complete in document.completes:
        if complete.store_target is not None:
            yield complete.store_target.text


def _reading(variable: Persistent) -> Closure:
    def read(names: Names, run: Run) -> Any:
        facts: Reads | None = names.get(FACTS)
        return None if facts is None else facts.read(variable, names, run)

    return read


def _reading_loosely(head: str, name: str) -> Closure:
    """Read a path that nobody declared: what the session holds there, else the fact of that name."""
    path = f"{head}.{name}"
    remembered = _reading(Persistent(path, PREFIXES[head], name, declared=False))

    def read(names: Names, run: Run) -> Any:
        facts: Reads | None = names.get(FACTS)
        if facts is not None and facts.granted(path) is not None:
            return remembered(names, run)
        held = names.get(head)
        value: Any = cast("dict[str, Any]", held).get(name, MISSING) if type(held) is dict else MISSING
        return remembered(names, run) if value is MISSING else value

    return read


def fits(value: Any, type_name: str | None) -> bool:
    """Say whether a value is of a declared type; null fits every type."""
    if value is None or type_name is None:
        return True
    if type_name in ("date", "datetime"):
        return type(value) is str and _DATE.fullmatch(value) is not None
    allowed = _TYPES.get(type_name)
    return allowed is None or type(value) in allowed


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
