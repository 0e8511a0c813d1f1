"""How a run is stored: its journal, and the facts in its own scope `run:<id>`.

`runs.run` is its summary, `runs.begun` what it began with, `runs.output` its output, and `runs.journal.…` its journal,
in parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Any, Literal

import msgspec

from memoranda.api.memory import Memory
from memoranda.engine.facts import SetFact
from memoranda.errors import Hint, InvalidValue, LimitExceeded, NotFound
from memoranda.governance.runs import ReadKeptRun
from memoranda.model.event import RunSummary
from memoranda.model.fact import Fact
from memoranda.model.limits import Limits
from memoranda.model.names import RUN_RECORD, why_not_a_name
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import encode, encode_checked

OWN_SOURCE = "runs.source"
"""The key of a program's text that is stored with a single run."""

_BEGUN, _OUTPUT, _JOURNAL = "runs.begun", "runs.output", "runs.journal"
_PART_BYTES = 400_000
"""Size of a part of the journal in one fact; a single entry may be larger."""

EntryKind = Literal["drawn", "guarded", "result", "verdict", "event", "state"]


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One value that the program could not compute."""

    step: str
    time: int
    """How many times the step had been entered, this time included."""
    kind: EntryKind
    value: Any = None
    error: dict[str, Any] | None = None
    """The failure that a result, or the check of a guard, was instead."""
    about: dict[str, Any] = {}


class Journal:
    """What a run could not compute, in order: results, times and ids, verdicts of guards and people, and events.

    A run that executes again from its beginning, after a pause, as a replay or as a simulation, takes from its journal
    what it took before. Entries are found by step and by how many times the step was entered, so that another path
    still finds what belongs to it. A run that continues from a stored position has that as one entry, its `state`.
    """

    def __init__(self, entries: Iterable[JournalEntry] = (), *, limits: Limits | None = None) -> None:
        """Start with the stored entries."""
        self.entries = list(entries)
        self._limits = limits or Limits()
        self._found = {(one.step, one.time, one.kind): one for one in self.entries}

    def find(self, step: str, time: int, kind: EntryKind) -> JournalEntry | None:
        """Return the entry that was added when a step was entered for this time."""
        return self._found.get((step, time, kind)) if self._found else None

    def add(self, entry: JournalEntry) -> bytes:
        """Add an entry and return its value as JSON; refuse one that cannot be stored."""
        try:
            payload = encode_checked(entry.value, self._limits)
        except (InvalidValue, LimitExceeded) as error:
            message = f"the result of the step {quote(entry.step)} cannot be stored: {error.message}"
            raise type(error)(message, hint=error.advice, **error.details) from error
        self.entries.append(entry)
        self._found[entry.step, entry.time, entry.kind] = entry
        return payload


class StoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is stored of a run."""

    summary: RunSummary
    source: Any = None
    """The text of its program, where it is stored with the run."""
    begun: Any
    """What it began with, as its language wrote it."""
    entries: tuple[JournalEntry, ...]
    output: Any


def run_scope(tenant: str, id: str) -> Scope:
    """Return the scope of a run."""
    return Scope.of(tenant=tenant, run=id)


def opening_writes(scope: Scope, summary: RunSummary, begun: Any) -> tuple[SetFact, ...]:
    """Return the writes of a run that begins."""
    return (_write(scope, _BEGUN, begun, None), _write(scope, RUN_RECORD, summary, None))


def closing_writes(
    scope: Scope, summary: RunSummary, begun: Any, entries: Iterable[JournalEntry], output: Any, *, ttl: int | None
) -> tuple[SetFact, ...]:
    """Return the writes of a run that has ended, or waits.

    An empty part ends the journal, because one that was written before may have been longer.
    """
    end = [b"[]"] if summary.events else []
    parts = [
        SetFact(scope=scope, key=f"{_JOURNAL}.{number:06}", payload=msgspec.Raw(part), ttl=ttl)
        for number, part in enumerate([*_parts(entries), *end])
    ]
    return (
        _write(scope, _BEGUN, begun, ttl),
        *parts,
        _write(scope, _OUTPUT, output, ttl),
        _write(scope, RUN_RECORD, summary, ttl),
    )


def _write(scope: Scope, key: str, value: Any, ttl: int | None) -> SetFact:
    return SetFact(scope=scope, key=key, payload=msgspec.Raw(encode(value)), ttl=ttl)


def _parts(entries: Iterable[JournalEntry]) -> Iterator[bytes]:
    """Yield the journal as JSON lists that fit into one fact each."""
    waiting: list[bytes] = []
    size = 0
    for entry in entries:
        payload = encode(entry)
        if waiting and size + len(payload) > _PART_BYTES:
            yield b"[" + b",".join(waiting) + b"]"
            waiting, size = [], 0
        waiting.append(payload)
        size += len(payload)
    if waiting:
        yield b"[" + b",".join(waiting) + b"]"


def read_run(memory: Memory, id: str, *, verified: bool = False) -> StoredRun:
    """Return a stored run, or raise NotFound; with `verified`, NotVerified where it differs from the ledger."""
    found: dict[str, Any] = {}
    if why_not_a_name(id, longest=256) is None:
        owner = memory.runs.get(id).scope
        effect = ReadKeptRun(
            scope=Scope(memory.tenant),
            run=id,
            owner=Scope.parse(owner, tenant=memory.tenant) if owner else Scope(memory.tenant),
            verified=verified,
        )
        facts: list[Fact] = memory.perform(effect)
        found = {fact.key: fact.value for fact in facts}
    if RUN_RECORD not in found or _BEGUN not in found:
        raise NotFound(f"unknown run {quote(id)}", hint=Hint("list", "runs"))
    parts = [found[key] for key in sorted(found) if key.startswith(f"{_JOURNAL}.")]
    entries = [entry for part in takewhile(bool, parts) for entry in part]
    return StoredRun(
        summary=msgspec.convert({"id": id, **found[RUN_RECORD]}, RunSummary),
        begun=found[_BEGUN],
        entries=tuple(msgspec.convert(entries, list[JournalEntry])),
        output=found.get(_OUTPUT),
        source=found.get(OWN_SOURCE),
    )
