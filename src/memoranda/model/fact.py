"""A fact: one JSON value at (tenant, scope, key), and the revisions it went through."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from memoranda.model.classes import ModelValue
from memoranda.model.ref import Ref
from memoranda.model.result import Result
from memoranda.model.scope import Scope
from memoranda.model.trust import Origin

_IMPORT = "import:"


def import_source(file: str) -> str:
    """Return the source that facts and entries of an imported file get."""
    return f"{_IMPORT}{file}"


def was_imported(origin: Origin) -> bool:
    """Return whether something was imported from a file."""
    return origin.source is not None and origin.source.startswith(_IMPORT)


class Fact(Result, ModelValue, frozen=True, gc=False, kw_only=True):
    """A current value."""

    id: str
    scope: Scope
    key: str
    value: Any
    version: int
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    domain: str | None = None
    origin: Origin = Origin()
    misfit: str | msgspec.UnsetType = msgspec.UNSET
    """Why a record does not fit the schema of its definition; unset where it fits, or was not compared."""
    findings: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """What was found in a write and redacted or let through, by kind and rule; unset where nothing was."""

    @property
    def ref(self) -> str:
        """What names it, as the refs of entries do."""
        return str(Ref("fact", self.scope, self.key))

    def active_at(self, moment: datetime) -> bool:
        """Return whether the fact is active: only strictly before its expiry."""
        return self.expires_at is None or self.expires_at > moment


Change = Literal["set", "deleted", "expired"]


class Revision(Result, frozen=True, gc=False, kw_only=True):
    """One version of a fact: a value, or that it was deleted or has expired.

    `forgotten` marks a revision whose value outlived its time to live and was removed by a sweep.
    """

    fact_id: str
    scope: Scope
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

    def as_fact(self) -> Fact:
        """Return the fact as of this revision."""
        return Fact(
            id=self.fact_id,
            scope=self.scope,
            key=self.key,
            value=self.value,
            version=self.version,
            created_at=self.created_at,
            updated_at=self.at,
            expires_at=self.expires_at,
            domain=self.domain,
            origin=self.origin,
        )
