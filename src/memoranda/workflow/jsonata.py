"""The text of a JSONata expression in, a program that runs as often as one likes out: a thin seam over the library.

A program is evaluated over variables (`$input`, `$context`, …); its input document is empty. What comes out is plain
JSON, or `UNDEFINED` where a path leads nowhere. Time, chance and ids come from the run, so a replay gives the same, and
nothing that an expression can write reaches a file, a socket or an object of Python.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from math import isfinite
from typing import Any, Final, Literal, cast

import msgspec

from memoranda.errors import EvaluationFailed, MemorandaError, SourceError, UsageError
from memoranda.lang.expression.bounds import exceeded
from memoranda.lang.expression.dialect import Run
from memoranda.lang.faults import never_closed
from memoranda.model.text import quote
from memoranda.workflow.evaluation import Evaluation, regex
from memoranda.workflow.functions import REFUSED
from memoranda.workflow.library import NULL, Functions, JException, Jsonata, Signs, Utils
from memoranda.workflow.limits import DEFAULT_BOUNDS, Bounds, Stop
from memoranda.workflow.paths import NOT_DIRECT, added_part, direct_path, follow
from memoranda.workflow.reads import Read, look_through


class Undefined(Enum):
    """The type of `UNDEFINED`."""

    UNDEFINED = "undefined"

    def __bool__(self) -> Literal[False]:
        """Count as false, as in a condition."""
        return False

    def __repr__(self) -> str:
        """Return its name."""
        return "UNDEFINED"


UNDEFINED: Final = Undefined.UNDEFINED
"""What an expression gives that finds nothing: not null, which is a value."""

_LEAKS = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What the library lets through from Python where a program asks for what cannot be: `1/0`, `$number('x')`."""
_NO_END = "S0101"
"""What the library calls a text without its closing quote."""
_QUOTED = re.compile(r"""'(?:\\.|[^'\\])*+('?)|"(?:\\.|[^"\\])*+("?)""", re.DOTALL)
_LARGEST = 2**64
_LONGEST = 200
_SPLIT = "Compute a part of it in a task of its own"
_NAME = f"${string.ascii_letters}{string.digits}_"


class Program:
    """A compiled expression; it keeps nothing of a run, so threads can share it."""

    __slots__ = ("_direct", "_tree", "reads", "text")

    def __init__(self, text: str, tree: Any, reads: tuple[Read, ...]) -> None:
        """Keep the tree of an expression, and what it reads."""
        self.text = text
        self.reads = reads
        self._tree = tree
        self._direct = direct_path(tree)

    def adding_to(self, variable: str) -> Program | None:
        """Return the program of what is added, where all that this one does is to add that to a list; else None."""
        part = added_part(self._tree, variable)
        return None if part is None else Program(self.text, part, self.reads)

    def evaluate(
        self, variables: Mapping[str, Any], *, bounds: Bounds = DEFAULT_BOUNDS, run: Run | None = None
    ) -> Any | Undefined:
        """Return the value among variables, by their names without the dollar sign; `UNDEFINED` where there is none.

        Raises an EvaluationFailed whose `.start` and `.end` are the place in the text, or a LimitExceeded.
        """
        direct = self._direct
        if direct is not None and direct[0] in variables:
            found = follow(variables[direct[0]], direct[1:])
            if found is not NOT_DIRECT:
                return _plain(found, bounds)
        return _evaluated(self._tree, self.text, Evaluation(variables, bounds, run or Run()))


def compile(text: str, *, bounds: Bounds = DEFAULT_BOUNDS) -> Program:
    """Return the program of an expression, the same one for the same text; raise a SourceError where it is none."""
    if len(text) > bounds.source:
        message = f"the expression has {len(text):,} characters, the limit is {bounds.source:,}"
        raise _unreadable(message, 0, 1, hint=_SPLIT)
    return _compiled(text, bounds.depth)


def evaluate(text: str, variables: Mapping[str, Any] | None = None, *, run: Run | None = None) -> Any | Undefined:
    """Return the value of an expression, written without its `=`, among variables.

    >>> evaluate("$sum($input.prices)", {"input": {"prices": [2, 3]}})
    5
    >>> evaluate("$input.name")
    UNDEFINED
    """
    return compile(text).evaluate(variables or {}, run=run)


@lru_cache(maxsize=2048)
def _compiled(text: str, depth: int) -> Program:
    try:
        tree = Jsonata.get_parser().parse(text, regex)
    except JException as fault:
        opened = _open_quote(text) if fault.error == _NO_END else None
        if opened is None:
            raise _unreadable(f"the expression is no JSONata: {_words(fault)}", *_place(fault, text)) from None
        hint = f"End the text with {text[opened]}"
        raise _unreadable(never_closed(text[opened:]), opened, opened + 1, hint=hint, unclosed=True) from None
    except RecursionError:
        raise _too_deep(depth) from None
    except UsageError as fault:
        raise _unreadable(fault.message, 0, len(text), hint=fault.hint) from None
    except _LEAKS:
        # The tokenizer stumbles over what it has no error of its own for: a lone `!`, a comment without an end.
        raise _unreadable("the expression is no JSONata", 0, len(text)) from None
    try:
        reads, height = look_through(tree)
    except RecursionError:
        raise _too_deep(depth) from None
    if height > depth:
        raise _too_deep(depth)
    return Program(text, tree, reads)


def _too_deep(depth: int) -> SourceError:
    return _unreadable(f"the expression is nested more than {depth} levels deep", 0, 1, hint=_SPLIT)


def _unreadable(message: str, start: int, end: int, *, hint: str = "", unclosed: bool = False) -> SourceError:
    """Return the error of a text that is no expression; `.start` and `.end` say where, `.unclosed` if by a quote."""
    return SourceError(message, hint=hint, start=start, end=end, unclosed=unclosed, diagnostics=(), report=message)


def _open_quote(text: str) -> int | None:
    """Return where the quote stands that has no end."""
    return next((found.start() for found in _QUOTED.finditer(text) if not (found[1] or found[2])), None)


def _place(fault: Any, text: str) -> tuple[int, int]:
    """Return where a fault stands; the library gives the end of a token, and often the token."""
    end = min(max(int(fault.location or 0), 0), len(text))
    for token in (fault.expected, fault.current):
        written = token if isinstance(token, str) else ""
        for shown in (written, f"${written}"):
            if shown and text[:end].endswith(shown):
                return end - len(shown), end
    if text[:end].endswith("("):
        return len(text[: end - 1].rstrip(_NAME)), end - 1
    # What is missing at the end is shown at the last letter before it, which is on the same line.
    end = min(end, len(text.rstrip()))
    return max(end - 1, 0), max(end, 1)


def _words(fault: Any) -> str:
    """Return what a fault says, as part of a sentence."""
    # The library was translated from Java, which calls functions by another name.
    said = _cut(str(fault).strip()).replace("(end)", "the end").replace("Object", "function")
    return said[:1].lower() + said[1:] if said[1:2].islower() else said


def _cut(text: str) -> str:
    """Return a message without the end of the values that it holds."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _evaluated(tree: Any, text: str, evaluation: Evaluation) -> Any | Undefined:
    """Return the value of a tree as plain JSON, and errors as ours."""
    bounds = evaluation.bounds
    try:
        return _plain(evaluation.raw(tree), bounds)
    except Stop as stop:
        raise stop.refusal() from None
    except JException as fault:
        start, end = _place(fault, text)
        message = f"the expression has no value: {_words(fault)}"
        raise EvaluationFailed(message, hint=_hint(fault), span=None, start=start, end=end) from None
    except RecursionError:
        raise exceeded("the depth of the expression's calls", bounds.depth) from None
    except MemorandaError:
        raise
    except _LEAKS as leak:
        message = f"the expression has no value: {_cut(str(leak)) or type(leak).__name__}"
        raise EvaluationFailed(message, span=None, start=0, end=len(text)) from leak


def _hint(fault: Any) -> str:
    name = fault.current if isinstance(fault.current, str) else ""
    if fault.error == "T1006" and name in REFUSED:
        return "Expressions are evaluated where a workflow writes them, never what a value holds"
    return ""


# --- results -------------------------------------------------------------------------------------------------------


class _Size(msgspec.Struct):
    """What is left of the limits while a result is copied."""

    bounds: Bounds
    values: int
    characters: int


def _plain(value: Any, bounds: Bounds) -> Any | Undefined:
    """Return a raw value as JSON that shares nothing with the variables, or UNDEFINED."""
    if value is None:
        return UNDEFINED
    size = _Size(bounds, bounds.items, bounds.text)
    try:
        made = _copy(value, size)
    except Stop as stop:
        raise stop.refusal() from None
    except RecursionError:
        raise exceeded("the depth of a value", bounds.depth) from None
    if made is UNDEFINED:
        message = "the expression gives a function, which is no value"
        raise EvaluationFailed(message, hint="Call it: `$name(…)`", span=None, start=0, end=1)
    return made


def _copy(value: Any, size: _Size) -> Any:
    size.values -= 1
    if size.values < 0:
        raise Stop("the result of an expression", size.bounds.items)
    if value is None or value is NULL:
        return None
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _counted(value, size)
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        made = {_counted(key, size): _copy(item, size) for key, item in entries.items()}
        return {key: item for key, item in made.items() if item is not UNDEFINED}
    if isinstance(value, list):
        return [made for item in cast("list[Any]", value) if (made := _copy(item, size)) is not UNDEFINED]
    if isinstance(value, Signs) or Utils.is_function(value) or Functions.is_regex(value):
        return UNDEFINED
    raise EvaluationFailed(f"{quote(value)} is no value of JSON", span=None, start=0, end=1)


def _number(value: float) -> float:
    if isinstance(value, int):
        return value if -_LARGEST // 2 <= value < _LARGEST else float(value)
    if not isfinite(value):
        raise EvaluationFailed(f"`{value}` is no number of JSON", span=None, start=0, end=1)
    return value


def _counted(text: str, size: _Size) -> str:
    size.characters -= len(text)
    if size.characters < 0:
        raise Stop("the text of a result", size.bounds.text)
    return text
