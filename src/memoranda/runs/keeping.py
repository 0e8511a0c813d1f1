"""A run in, the facts that it is kept as out; and back. They lie in the run's own scope, `run:<id>`.

`runs.run` says where the run stands, `runs.begun` what it began with, `runs.output` what it gave, and
`runs.journal.…` what it could not compute, in parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Any

import msgspec

from memoranda.api.memory import Memory
from memoranda.errors import NotFound
from memoranda.model.effect import ReadKeptRun, SetFact
from memoranda.model.fact import Fact
from memoranda.model.key import RUN_RECORD
from memoranda.model.run import RunSummary
from memoranda.model.scope import Scope
from memoranda.model.text import quote, why_not_a_name
from memoranda.model.value import encode
from memoranda.runs.journal import Noted

OWN_SOURCE = "runs.source"
"""The key of a program's text that is kept with one run."""

_BEGUN, _OUTPUT, _JOURNAL = "runs.begun", "runs.output", "runs.journal"
_PART = 400_000
"""Bytes of a journal that are kept in one fact; one entry may be larger."""


class KeptRun(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is kept of a run."""

    summary: RunSummary
    source: Any = None
    """The text of its program, where it is kept with the run."""
    begun: Any
    """What it began with, as its language has written it down."""
    entries: tuple[Noted, ...]
    output: Any


def run_scope(tenant: str, id: str) -> Scope:
    """Return the scope that a run is kept in."""
    return Scope.of(tenant=tenant, run=id)


def opening_writes(scope: Scope, summary: RunSummary, begun: Any) -> tuple[SetFact, ...]:
    """Return what is written when a run begins."""
    return (_write(scope, _BEGUN, begun, None), _write(scope, RUN_RECORD, summary, None))


def closing_writes(
    scope: Scope, summary: RunSummary, begun: Any, entries: Iterable[Noted], output: Any, *, ttl: int | None
) -> tuple[SetFact, ...]:
    """Return what is written when a run has ended, or waits.

    A journal that was written before may have been longer, so an empty part ends the new one.
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


def _parts(entries: Iterable[Noted]) -> Iterator[bytes]:
    """Yield the journal as JSON lists of a size that one fact can hold."""
    waiting: list[bytes] = []
    size = 0
    for entry in entries:
        written = encode(entry)
        if waiting and size + len(written) > _PART:
            yield b"[" + b",".join(waiting) + b"]"
            waiting, size = [], 0
        waiting.append(written)
        size += len(written)
    if waiting:
        yield b"[" + b",".join(waiting) + b"]"


def read_run(memory: Memory, id: str, *, verified: bool = False) -> KeptRun:
    """Return what is kept of a run, or raise NotFound; with `verified`, NotVerified where the ledger says otherwise."""
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
        raise NotFound(f"there is no run {quote(id)}", hint="List them with memory.runs.list()")
    parts = [found[key] for key in sorted(found) if key.startswith(f"{_JOURNAL}.")]
    entries = [entry for part in takewhile(bool, parts) for entry in part]
    return KeptRun(
        summary=msgspec.convert({"id": id, **found[RUN_RECORD]}, RunSummary),
        begun=found[_BEGUN],
        entries=tuple(msgspec.convert(entries, list[Noted])),
        output=found.get(_OUTPUT),
        source=found.get(OWN_SOURCE),
    )
