"""What a step of a test is expected to come to and what it came to in, everything that is not so out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

import msgspec

from memoranda.errors import MemorandaError
from memoranda.lang.scripts.comparing import Wording, described, differences, fits
from memoranda.lang.source import Span
from memoranda.lang.yaml import Node
from memoranda.model.text import quote
from memoranda.runs.failures import Failure as Cause
from memoranda.workflow.scripts.script import Because, Expected

if TYPE_CHECKING:
    from memoranda.workflow.run import Run


class Mismatch(msgspec.Struct, frozen=True):
    """One thing that is not as expected: where it is, what was expected there, what came, and the line that says so."""

    path: str
    expected: str
    got: str
    line: int


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How the last step of an owner left things: a run, or why there is none; and what was said in that step."""

    after: str
    run: Run | None = None
    refusal: MemorandaError | None = None
    said: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """Where the run stands."""
        return self.run.status if self.run is not None else "refused"

    @property
    def error(self) -> Cause | None:
        """Why it failed, was cancelled, or could not begin."""
        if self.run is not None:
            return self.run.error
        refusal = self.refusal
        return None if refusal is None else Cause(type=refusal.code, message=refusal.message)

    @property
    def hint(self) -> str:
        """What can be done about that."""
        if self.refusal is not None:
            return self.refusal.hint
        return str(self.error.details.get("hint", "")) if self.error is not None else ""

    def __str__(self) -> str:
        """Return the status and what there is to say about it."""
        error = self.error
        if error is not None:
            where = f" at {quote(error.step)}" if error.step else ""
            return f"{self.status}{where} ({error.type}): {error.message}"
        waiting = self.run.waiting if self.run is not None else None
        return f"{self.status} at {quote(waiting.step)}" if waiting is not None else self.status


class Look:
    """One look at how things stand after a step."""

    def __init__(self, stands: Standing, *, line: Callable[[Span], int], record: Callable[[str], Any]) -> None:
        """Look at this; `line` says where a part of the test stands, `record` what memory holds at a slug."""
        self._stands = stands
        self._line = line
        self._record = record

    def mismatches(self, expected: Expected) -> list[Mismatch]:
        """Return everything that is not as expected, in the order of the file."""
        return sorted(self._all(expected), key=lambda one: one.line)

    def _all(self, expected: Expected) -> Iterator[Mismatch]:
        stands, places = self._stands, expected.places
        if expected.status is not None and expected.status != stands.status:
            yield self._mismatch("status", expected.status, str(stands), places["status"])
        if expected.error is not None:
            yield from self._of_error(expected.error, places["error"])
        if expected.messages is not None:
            yield from self._of_messages(expected.messages, places["messages"])
        for name, value in expected.values.items():
            for one in differences(value, self._value(name, value), (name,)):
                place = _inside(places[name], one.path[1:])
                yield self._mismatch(one.where, _json(one.expected), _json(one.got), place)

    def _mismatch(self, path: str, expected: str, got: str, node: Node) -> Mismatch:
        return Mismatch(path, expected, got, self._line(node.span))

    def _value(self, name: str, expected: Any) -> Any:
        if name == "memory":
            return {slug: self._record(slug) for slug in cast("dict[str, Any]", expected)}
        run = self._stands.run
        return None if run is None else msgspec.to_builtins(getattr(run, name))

    def _of_error(self, expected: Because, node: Node) -> Iterator[Mismatch]:
        error = self._stands.error
        if error is None:
            yield self._mismatch("error", "an error", str(self._stands), node)
            return
        for name in ("type", "step"):
            wanted, got = getattr(expected, name), getattr(error, name)
            if wanted is not None and wanted != got:
                yield self._mismatch(f"error.{name}", wanted, f"{got}: {error.message}", _inside(node, (name,)))
        for wording in expected.message:
            if not fits(wording, error.message):
                yield self._mismatch("error.message", described(wording), error.message, _inside(node, ("message",)))

    def _of_messages(self, expected: tuple[tuple[Wording, ...], ...], node: Node) -> Iterator[Mismatch]:
        said = self._stands.said
        if len(expected) != len(said):
            wanted = "\n".join(map(_wanted, expected)) or "(no message)"
            yield self._mismatch("messages", wanted, "\n".join(said) or "(no message)", node)
            return
        for at, (wordings, text) in enumerate(zip(expected, said, strict=True)):
            if not all(fits(wording, text) for wording in wordings):
                yield self._mismatch(f"messages[{at}]", _wanted(wordings), text, _inside(node, (at,)))


def _wanted(wordings: tuple[Wording, ...]) -> str:
    return " and ".join(described(wording) for wording in wordings)


def _inside(node: Node, path: tuple[str | int, ...]) -> Node:
    """Return the part of a value that a path leads to, or the last one on the way that is there."""
    for part in path:
        if isinstance(part, int):
            inside = node.items[part] if node.items is not None and part < len(node.items) else None
        else:
            inside = next((value for key, value in node.entries or () if key.scalar == part), None)
        if inside is None:
            return node
        node = inside
    return node


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
