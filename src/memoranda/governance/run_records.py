"""Runs as they are kept in, their records and where they stand out: a run's record is the fact at `runs.run`."""

from __future__ import annotations

from datetime import datetime

import msgspec

from memoranda.errors import Corrupt
from memoranda.model.fact import Fact, was_imported
from memoranda.model.key import RUN_RECORD
from memoranda.model.run import RunSummary
from memoranda.model.scope import LONGEST_ID, Scope
from memoranda.model.text import why_not_a_name
from memoranda.store.base import Reader


def scope_of(tenant: str, run: str) -> Scope:
    """Return the scope that a run is kept in."""
    return Scope.of(tenant=tenant, run=run)


def can_be_a_run(run: str) -> bool:
    """Say whether a text, which may be anything a caller has given, can be the id of a run."""
    return why_not_a_name(run, longest=LONGEST_ID) is None


def records_of_runs(rows: Reader, tenant: str, now: datetime, owner: Scope | None = None) -> list[Fact]:
    """Return the records of the runs of a tenant, or of those that belong to an owner and to scopes below it."""
    if owner is not None and owner.tenant != tenant:
        return []
    facts = rows.facts_named(tenant, RUN_RECORD) if owner is None else rows.facts_owned(owner, RUN_RECORD)
    return [fact for fact in facts if fact.active_at(now) and fact.scope.shape == ("run",)]


def run_id(record: Fact) -> str:
    """Return the run that a record is of."""
    return record.scope.parts[-1][1]


def record_of(rows: Reader, tenant: str, run: str, now: datetime) -> Fact | None:
    """Return the record of one run; None where there is none, or its time is up."""
    fact = rows.fact(scope_of(tenant, run), RUN_RECORD) if can_be_a_run(run) else None
    return fact if fact is not None and fact.active_at(now) else None


def is_imported(record: Fact) -> bool:
    """Say whether a run came with a file: its events stand in the ledger of the memory that it was exported from."""
    return was_imported(record.origin)


def summary_of(record: Fact) -> RunSummary:
    """Return where a run stands, as its record says."""
    id = run_id(record)
    try:
        return msgspec.convert({**record.value, "id": id}, RunSummary)
    except (TypeError, msgspec.ValidationError) as error:
        raise Corrupt(
            f"the record of run `{id}` cannot be read: {error}", hint="The history of its scope holds older ones"
        ) from error
