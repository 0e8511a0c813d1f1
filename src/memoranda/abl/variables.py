"""Session variables and persistent paths of an agent: what each name means and where its value is stored."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Protocol, cast

import msgspec

from memoranda.abl.document import (
    PREFIXES,
    Access,
    Argument,
    Document,
    Memory,
    MemoryScope,
    PersistentVariable,
    scope_of,
)
from memoranda.abl.expression.functions import mask
from memoranda.lang.expression.compiler import MISSING, Expression
from memoranda.lang.expression.dialect import Closure, ExpressionRun, Names
from memoranda.lang.expression.nodes import Path
from memoranda.lang.expression.values import to_text

FACTS = "\0facts"
"""The key of the session's facts among its variables; no grammar can write this name."""

KEPT_FROM_VIEW = "(kept from view)"
"""Shown in traces and prompts instead of a sensitive value."""

_SHORTEST_HIDDEN = 3
"""Shorter values are not searched for in texts: they would be found in other words too."""


class Mask(msgspec.Struct, frozen=True):
    """What is shown of a sensitive value: nothing, its name, or its first and last characters."""

    name: str
    display: str = "redact"
    first: int = 0
    last: int = 4
    char: str = "*"

    def show(self, value: Any) -> Any:
        """Return what is shown instead of a value."""
        if value is None or value == "":
            return value
        if self.display == "mask":
            return mask(value, f"{self.first}*{self.last}", self.char)
        return f"[{self.name.rpartition('.')[2].upper()}]" if self.display == "replace" else KEPT_FROM_VIEW


def mask_of(name: str, display: str | None, config: Iterable[Argument]) -> Mask:
    """Return the mask of a sensitive field or path; with a configuration it shows a part of the value."""
    given = {argument.name.text.casefold(): argument.value.text.strip("\"' ") for argument in config}
    counts = {
        name: int(given[key])
        for name, key in (("first", "showfirst"), ("last", "showlast"))
        if given.get(key, "").isdecimal()
    }
    return Mask(name, display or ("mask" if given else "redact"), **counts, char=given.get("char", "*")[:1] or "*")


def hide_in(value: Any, shown: Mapping[str, str]) -> Any:
    """Return a value in which sensitive texts are replaced by what is shown of them."""
    if isinstance(value, str):
        for text, instead in shown.items():
            value = value.replace(text, instead)
        return value
    if isinstance(value, dict):
        return {name: hide_in(item, shown) for name, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [hide_in(item, shown) for item in cast("list[Any]", value)]
    return shown.get(str(value), value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def show_fields(value: Any, masks: Mapping[Path, Mask]) -> Any:
    """Return a value with what is shown of its sensitive fields instead of them."""
    if type(value) is not dict:
        return value
    shown = dict(cast("dict[str, Any]", value))
    for name in {path[0] for path in masks} & shown.keys():
        below = {path[1:]: mask for path, mask in masks.items() if path[0] == name}
        shown[name] = below[()].show(shown[name]) if () in below else show_fields(shown[name], below)
    return shown


def hidden_text(mask: Mask, value: Any) -> dict[str, str]:
    """Return the text of a sensitive value and what is shown of it; empty for one too short to search for."""
    text = to_text(value)
    return {text: str(mask.show(value))} if len(text) >= _SHORTEST_HIDDEN else {}


SYSTEM_PATHS = frozenset({"user.intent", "user.sentiment"})
FROM_OUTSIDE = frozenset({"channel", "intent", "language", "locale"})
"""Names of the runtime that an agent may declare as inputs, since only the caller knows them."""
CATEGORY = "intent.category"
"""What a message is about, as conditions compare it; the reading of intents or a model sets it in each turn."""
READ_ONLY = frozenset({"user_id", "project_id", "tenant_id", "session_id"})
SYSTEM = frozenset(
    {
        *READ_ONLY,
        *("input", "last_input", "intent", "language", "locale", "channel", "turn_count", "result", "call_result"),
        *("match", "all_fields_gathered", "tool_failures", "constraint_failures", "sentiment_trajectory"),
        *("handoff", "escalate", "always", "abl", "now", "recalled", CATEGORY),
    }
)
"""Names that the runtime sets; they belong to the session's state, not to its variables."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ].*)?")


class SessionSlot(msgspec.Struct, frozen=True):
    """A compiled declaration of a session variable."""

    name: str
    type: str | None
    initial: Expression | None
    reset: str
    input: bool = False
    """Whether a caller may set it."""


class Persistent(msgspec.Struct, frozen=True):
    """A persistent path: its scope, its key, and the access to it."""

    path: str
    scope: MemoryScope
    key: str
    access: Access = "readwrite"
    type: str | None = None
    default: Expression | None = None
    declared: bool = True
    sensitive: bool = False
    """Whether its value is hidden in traces and prompts."""
    money: bool = False
    """Whether it is an amount of money, which is stored with two digits after the point."""


class Reads(Protocol):
    """The facts of a session, as far as expressions read them."""

    def read(self, variable: Persistent, names: Names, run: ExpressionRun) -> Any:
        """Return the value at a path, or its default."""
        ...

    def find_grant(self, path: str) -> tuple[Persistent, Path] | None:
        """Return the fact that another agent granted at or above a path, and the rest of the path."""
        ...


def key_of(path: str) -> str:
    """Return the key of a path in its scope: `language` for `user.language`, `loyalty.tier` for itself."""
    head, _, rest = path.partition(".")
    return rest if rest and head in PREFIXES else path


@lru_cache(maxsize=1024)
def at_or_above(path: str) -> tuple[tuple[str, Path], ...]:
    """Return a path and its parents, the longest first, each with the rest of the path."""
    segments = path.split(".")
    counts = range(len(segments), 0, -1)
    return tuple((".".join(segments[:count]), tuple(segments[count:])) for count in counts)


class Declarations:
    """The session variables and persistent paths of an agent."""

    def __init__(self, document: Document, compile: Callable[[Any], Expression | None]) -> None:
        """Compile the declarations; `compile` compiles a raw expression."""
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
        for path in _paths_in_use(memory, document):
            if self.find(path) is None:
                self.persistent[path] = Persistent(path, scope_of(path), key_of(path), declared=False)

    def find(self, path: str) -> tuple[Persistent, Path] | None:
        """Return the longest declared path at or above this one, and the rest of the path."""
        found = ((self.persistent.get(above), rest) for above, rest in at_or_above(path))
        return next(((variable, rest) for variable, rest in found if variable is not None), None)

    def resolve(self, path: Path) -> tuple[int, Closure] | None:
        """Return how to read a persistent path; None for a path of the session."""
        if path[0] in self.session:
            return None
        if path[:2] == ("intent", "category"):
            return 2, lambda names, run: names.get(CATEGORY)
        found = self.find(".".join(path))
        if found is not None:
            variable, rest = found
            return len(path) - len(rest), _fact_reader(variable)
        if path[0] not in PREFIXES or len(path) < 2 or ".".join(path[:2]) in SYSTEM_PATHS:
            return None
        return 2, _session_or_fact_reader(path[0], path[1])


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
        money=variable.type == "number" and variable.unit is not None and variable.unit.text.upper() in _CURRENCIES,
    )


_CURRENCIES = frozenset(
    "AED ARS AUD BRL CAD CHF CNY CZK DKK EUR GBP HKD HUF IDR ILS INR "
    "MXN MYR NOK NZD PHP PLN SAR SEK SGD THB TRY TWD USD ZAR".split()
)
"""The codes of common currencies with cents."""


def _paths_in_use(memory: Memory, document: Document) -> Iterable[str]:
    """Yield the paths that are stored or recalled, which declares them."""
    for trigger in memory.remember:
        yield trigger.target.text
    for recall in memory.recall:
        yield from (path.text for path in recall.paths)
    for complete in document.completes:
        if complete.store_target is not None:
            yield complete.store_target.text


def _fact_reader(variable: Persistent) -> Closure:
    def read(names: Names, run: ExpressionRun) -> Any:
        facts: Reads | None = names.get(FACTS)
        return None if facts is None else facts.read(variable, names, run)

    return read


def _session_or_fact_reader(head: str, name: str) -> Closure:
    """Read an undeclared path: a variable of the session, else the fact of that name."""
    path = f"{head}.{name}"
    remembered = _fact_reader(Persistent(path, PREFIXES[head], name, declared=False))

    def read(names: Names, run: ExpressionRun) -> Any:
        facts: Reads | None = names.get(FACTS)
        if facts is not None and facts.find_grant(path) is not None:
            return remembered(names, run)
        held = names.get(head)
        value: Any = cast("dict[str, Any]", held).get(name, MISSING) if type(held) is dict else MISSING
        return remembered(names, run) if value is MISSING else value

    return read


def fits(value: Any, type_name: str | None) -> bool:
    """Return whether a value has a declared type; null has every type."""
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
