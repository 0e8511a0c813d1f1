"""The events of one run in, whether its chain is whole and ends where its record says out.

Only the run's own events are looked at. Whether they still stand in the tenant's chain is for `ledger.py` to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from recollect.errors import Corrupt, NotFound
from recollect.governance.run_records import can_be_a_run, is_imported, record_of, records_of_runs, run_id, summary_of
from recollect.model.event import GENESIS, hash_body
from recollect.model.run import OVER, RUN_EVENTS, RunSummary, RunVerification
from recollect.model.text import quote
from recollect.store.base import Reader


class _Said(msgspec.Struct, frozen=True, gc=False):
    previous: str = ""


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
