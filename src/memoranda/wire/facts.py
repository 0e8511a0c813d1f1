"""Facts as they travel: what a write asks for, a fact, its revisions, and a page of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from memoranda.model import fact as kept
from memoranda.model.fact import Change, Origin


class WriteFact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a fact is to be. `expect` is the version it must be at, 0 for none; the header `If-Match` says the same."""

    value: Any
    expect: int | None = None
    ttl: str | int | None = None
    domain: str | None = None
    source: str | None = None


class BatchedWrite(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One write of a batch: a `value` to set, or `delete` instead of one."""

    key: str
    value: Any | msgspec.UnsetType = msgspec.UNSET
    delete: bool = False
    expect: int | None = None
    ttl: str | int | None = None
    domain: str | None = None
    scope: str | None = None
    """A scope below the caller's own, such as `agent:emails`."""


class WriteFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Writes that are kept all together, or not at all."""

    writes: list[BatchedWrite]


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A value that is remembered now."""

    id: str
    tenant: str
    scope: str
    key: str
    value: Any
    version: int
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    domain: str | None = None
    origin: Origin = Origin()


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """What a fact was from one moment on."""

    fact_id: str
    tenant: str
    scope: str
    key: str
    version: int
    change: Change
    value: Any = None
    at: datetime
    created_at: datetime
    expires_at: datetime | None = None
    domain: str | None = None
    origin: Origin = Origin()
    forgotten: bool = False


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """A page of facts, ordered by key; `next` goes on after it, None at the end."""

    facts: list[Fact]
    next: str | None = None


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Per write, in their order: the fact that it made, or whether there was one to delete."""

    results: list[Fact | bool]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the revisions of a key, oldest first; `next` goes on after it, None at the end."""

    revisions: list[Revision]
    next: str | None = None


def fact_out(fact: kept.Fact) -> Fact:
    """Return a fact as it travels: its scope as text, beside the tenant it is in."""
    return Fact(
        id=fact.id,
        tenant=fact.scope.tenant,
        scope=fact.scope.path,
        key=fact.key,
        value=fact.value,
        version=fact.version,
        created_at=fact.created_at,
        updated_at=fact.updated_at,
        expires_at=fact.expires_at,
        domain=fact.domain,
        origin=fact.origin,
    )


def revision_out(revision: kept.Revision) -> Revision:
    """Return a revision as it travels."""
    return Revision(
        fact_id=revision.fact_id,
        tenant=revision.scope.tenant,
        scope=revision.scope.path,
        key=revision.key,
        version=revision.version,
        change=revision.change,
        value=revision.value,
        at=revision.at,
        created_at=revision.created_at,
        expires_at=revision.expires_at,
        domain=revision.domain,
        origin=revision.origin,
        forgotten=revision.forgotten,
    )
