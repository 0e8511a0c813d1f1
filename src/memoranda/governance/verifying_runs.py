"""The events of one run in, whether its chain is whole and ends where its record says out.

Only the run's own events are looked at. Whether they still stand in the tenant's chain is for `ledger.py` to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import takewhile
from typing import Any

import msgspec

from memoranda.errors import Corrupt, NotFound, NotVerified
from memoranda.governance.run_records import can_be_a_run, is_imported, record_of, records_of_runs, run_id, summary_of
from memoranda.model.event import GENESIS, Event, hash_body, hash_event, keyed_hash
from memoranda.model.fact import Fact, was_imported
from memoranda.model.key import lies_under
from memoranda.model.run import OVER, RUN_EVENTS, RunSummary, RunVerification
from memoranda.model.text import quote
from memoranda.model.value import encode
from memoranda.store.base import Reader

LEDGER_POSITION = "position"
"""The field of a run's record that says where the ledger begins to tell of the writes that it was written with."""


class _Said(msgspec.Struct, frozen=True, gc=False):
    previous: str = ""
    digest: str = ""


class _Link(msgspec.Struct, frozen=True, gc=False):
    """What the bytes of an event say about its place; all the rest they say is in their hash."""

    tenant: str
    position: int
    effect: str
    resource: str | None
    version: int | None
    detail: _Said


_decode_link = msgspec.json.Decoder(_Link).decode


class _Walked(msgspec.Struct):
    """How far a walk along a run's chain has come."""

    length: int = 0
    head: str = GENESIS
    kind: str = ""
    digest: str = ""
    """Of the program's text, as the first event says."""

    def found(self, index: int | None, reason: str) -> RunVerification:
        return RunVerification(ok=not reason, length=self.length, head=self.head, index=index, reason=reason)


def verify_run(rows: Reader, tenant: str, run: str, now: datetime) -> RunVerification:
    """Walk the chain of a run, compare its end with the run's record, and return the first bad index and why."""
    walked = _Walked()
    for position, hash, body in rows.bodies(tenant, run=run) if can_be_a_run(run) else ():
        reason = _step_on(walked, body, hash, tenant, position, run)
        if reason:
            return walked.found(walked.length + 1, reason)
    record = record_of(rows, tenant, run, now)
    if record is None:
        if not walked.length:
            raise NotFound(f"there is no run {quote(run)}", hint="List them with memory.runs.list()")
        return walked.found(None, "")  # its record was erased, or its time was up
    if not walked.length and is_imported(record):
        return walked.found(1, "the run was imported: its events are in the ledger of the memory that it came from")
    try:
        return walked.found(*_end_fault(walked, summary_of(record)))
    except Corrupt as damage:
        return walked.found(None, damage.message)


def ensure_verified(rows: Reader, record: Fact, facts: list[Fact], now: datetime) -> None:
    """Refuse a run whose chain is not whole, or whose facts are not those that the ledger says were kept."""
    tenant, run = record.scope.tenant, run_id(record)
    found = verify_run(rows, tenant, run, now)
    reason = f"event {found.index}: {found.reason}" if found.index is not None else found.reason
    if not reason:
        reason = _ledger_mismatch(rows, record, facts)
    if reason:
        raise NotVerified(
            f"the run {quote(run)} does not go on, because its ledger does not vouch for it: {reason}",
            hint="Cancel it and start another one; `memoranda runs verify` and `memoranda doctor` show the damage",
            run=run,
        )


def _ledger_mismatch(rows: Reader, record: Fact, facts: list[Fact]) -> str:
    """Return which fact of a run is not what the ledger says was kept last; empty where all of them are."""
    tenant, scope = record.scope.tenant, record.scope.path
    stamp: Any = record.value.get(LEDGER_POSITION)
    told: dict[str, Event] = {}
    if type(stamp) is int and stamp > 0:
        # One batch wrote the record and nearly always everything beside it; one more event shows what is missing.
        batch = rows.events(tenant, start=stamp, limit=len(facts) + 1)
        told = _last_writes(takewhile(lambda event: event.scope == scope, list(batch)), scope)
    if any(fact.key not in told for fact in facts):
        # Kept by an earlier version, or a part of the journal is older: the ledger is read from the run's start.
        start = next((position for position, _, _ in rows.bodies(tenant, run=run_id(record))), 1)
        told = _last_writes(rows.events(tenant, start=start), scope)
    key = rows.content_key(tenant, scope)
    for fact in facts:
        event = told.pop(fact.key, None)
        if (
            key is None
            or event is None
            or event.version != fact.version
            or event.content != keyed_hash(key, encode(fact.value))
            or hash_event(event) != event.hash
            or was_imported(fact.origin)
        ):
            return f"{quote(fact.key)} is not what was kept"
    return next((f"{quote(key)} was kept and is missing" for key in told), "")


def _last_writes(events: Iterable[Event], scope: str) -> dict[str, Event]:
    """Return the last event that wrote each fact of the runtime in a scope, as far as the fact was not removed."""
    told: dict[str, Event] = {}
    for event in events:
        if event.scope != scope or event.key is None or not lies_under(event.key, "runs"):
            continue
        if event.effect == "set_fact":
            told[event.key] = event
        elif event.effect in ("delete_fact", "expire_fact"):
            told.pop(event.key, None)
    return told


def broken_runs(rows: Reader, tenant: str, now: datetime) -> Iterator[str]:
    """Yield, in words, which runs of a tenant are not whole."""
    for fact in records_of_runs(rows, tenant, now):
        if not is_imported(fact):
            found = verify_run(rows, tenant, run_id(fact), now)
            if not found.ok:
                yield f"run `{run_id(fact)}` at event {found.index}: {found.reason}"


def _step_on(walked: _Walked, body: bytes, hash: str, tenant: str, position: int, run: str) -> str:
    """Go on to the next event; return why it cannot be the next one."""
    if hash_body(body) != hash:
        return "its content does not match its hash"
    try:
        link = _decode_link(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"it cannot be read: {error}"
    reason = _misplaced(link, walked, tenant, position, run)
    if not reason:
        walked.length, walked.head, walked.kind = walked.length + 1, hash, link.effect
        walked.digest = walked.digest or link.detail.digest
    return reason


def _misplaced(link: _Link, walked: _Walked, tenant: str, position: int, run: str) -> str:
    if (link.tenant, link.position, link.resource) != (tenant, position, run) or link.effect not in RUN_EVENTS:
        return f"it is not an event of this run: it says it is position {link.position} of `{link.tenant}`"
    if link.version != walked.length + 1:
        return f"it is missing: the next one here says it is event {link.version}"
    if link.detail.previous != walked.head:
        return "it does not follow the event before it"
    if (link.effect == "exec_start") != (walked.length == 0):
        return "a run begins with exec_start, and only once"
    if walked.kind == "exec_end":
        return "it comes after the end of the run"
    return ""


def _end_fault(walked: _Walked, record: RunSummary) -> tuple[int | None, str]:
    """Return the index at which the chain's end and the run's record disagree, and why; None where they agree."""
    length = walked.length
    if walked.digest and record.digest != walked.digest:
        return 1, "the run began with another program than its record says"
    if record.status != "running":
        if record.events > length:
            return length + 1, f"the chain ends before it, but the run's record speaks of {record.events} events"
        if record.events < length:
            return record.events + 1, f"the run is {record.status} since the event before it, its record says"
        if record.head != walked.head:
            return length, "it is not the event that the run's record names"
    if record.status in OVER and walked.kind != "exec_end":
        return length + 1, f"the run is {record.status}, but its exec_end is missing"
    if record.status not in OVER and walked.kind == "exec_end":
        return length, f"it ends the run, but the run's record says that it is {record.status}"
    return None, ""
