"""The rejections that a write has to consult, as of their newest change.

A tenant without rejections pays for a look at its state, which every transaction has read; a scope without any pays for
a look into a dictionary.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from memoranda.errors import Hint, Rejected
from memoranda.model.names import is_block, is_internal
from memoranda.model.rejection import StoredRejection, digest_of_form, forms_in, statement_form
from memoranda.model.scope import SHARED, Scope
from memoranda.model.text import quote
from memoranda.model.value import decode
from memoranda.store.base import Reader, Transaction

_MOST_SCOPES = 4_096
"""Scopes whose rejections are cached."""

Known = dict[bytes, dict[str, StoredRejection]]
"""Rejections by their digests, by the salts of these."""


class RejectionBook:
    """The rejections of each scope; what was read for one state of a tenant is not used for another."""

    def __init__(self) -> None:
        """Start without any."""
        self._subjects: dict[tuple[int, str], list[StoredRejection]] = {}
        self._scopes: dict[tuple[int, str], Known] = {}

    def of_scope(self, rows: Reader, scope: Scope) -> Known:
        """Return the rejections at and above a scope; the shared scope has nothing below it."""
        rejected = rows.tenant_state(scope.tenant).rejected
        if not rejected:
            return _NONE
        found = self._scopes.get((rejected, scope.path))
        if found is None:
            reaching = (one for one in self.of_subject(rows, scope) if _reaches(one.scope, scope))
            found = by_digest(reaching)
            if len(self._scopes) >= _MOST_SCOPES:
                self._scopes.clear()
            self._scopes[rejected, scope.path] = found
        return found

    def of_subject(self, rows: Reader, scope: Scope) -> list[StoredRejection]:
        """Return every rejection of the subject of a scope, oldest first."""
        rejected = rows.tenant_state(scope.tenant).rejected
        if not rejected:
            return []
        found = self._subjects.get((rejected, scope.subject))
        if found is None:
            found = rows.scan(StoredRejection, scope.tenant, below=Scope(scope.tenant, scope.subject))
            if not scope.path:
                found = [one for one in found if not one.scope.path]
            if len(self._subjects) >= _MOST_SCOPES:
                self._subjects.clear()
            self._subjects[rejected, scope.subject] = found
        return found

    def find(
        self, rows: Reader, scope: Scope, value: Any, key: str | None = None, statement: str | None = None
    ) -> StoredRejection | None:
        """Return what rejects a value under a key, or what a statement under that key says; None if nothing does."""
        known = self.of_scope(rows, scope)
        return find_among(known, value, key, statement) if known else None

    def ensure_none(self, rows: Reader, scope: Scope, key: str, payload: bytes) -> None:
        """Raise Rejected for the value of a fact that was rejected; what the runtime keeps is not looked at."""
        known = self.of_scope(rows, scope)
        if known and (is_block(scope, key) or not is_internal(scope, key)):
            rejection = find_among(known, decode(payload), key)
            if rejection is not None:
                raise rejection_error(rows, scope, rejection.id, quote(key))


_NONE: Known = {}


def _reaches(home: Scope, scope: Scope) -> bool:
    return home.covers(scope) if home.path else home == scope


def by_digest(rejections: Iterable[StoredRejection]) -> Known:
    """Return rejections by their salts and digests."""
    known: Known = {}
    for rejection in rejections:
        known.setdefault(rejection.salt, {}).update(dict.fromkeys(rejection.digests, rejection))
    return known


def find_among(
    known: Known, value: Any, key: str | None = None, statement: str | None = None
) -> StoredRejection | None:
    """Return what rejects a value among these; None if nothing does."""
    salts = list(known.items())
    forms = forms_in(value, key)
    for form in forms if statement is None else (*forms, statement_form(key or "", statement)):
        for salt, rejections in salts:
            found = rejections.get(digest_of_form(form, salt))
            if found is not None:
                return found
    return None


def without_lines(text: str, is_gone: Callable[[str], bool]) -> str:
    """Return the text of a block without some of its lines."""
    return "\n".join(line for line in text.split("\n") if not (line.strip() and is_gone(line)))


def rejection_error(rows: Reader, scope: Scope, id: str, place: str) -> Rejected:
    """Return the error about a write of a rejected value: it names the rejection, and not the value."""
    rejection = rows.get(StoredRejection, scope.tenant, id)
    if rejection is None:
        raise AssertionError(f"rejection {id} was found in this transaction")
    return Rejected(
        f"{place} has a value that `{rejection.actor}` rejected on {rejection.at:%Y-%m-%d}",
        hint=Hint("withdraw", rejection.id, scope=rejection.scope.path or SHARED),
        rejection=rejection.id,
        actor=rejection.actor,
        at=rejection.at,
        reason=rejection.reason,
    )


def note_change(rows: Transaction, tenant: str) -> None:
    """Mark the rejections of a tenant as changed, so that every process reads them again; random, as a revision is."""
    state = rows.tenant_state(tenant)
    rows.set_tenant_state(tenant, msgspec.structs.replace(state, rejected=secrets.randbits(62) + 1))


def note_messages(rows: Transaction, rejection: StoredRejection, names: Sequence[str]) -> None:
    """Note that messages state what was rejected: recalls over everything leave them out."""
    current = rows.get(StoredRejection, rejection.scope.tenant, rejection.id)
    if current is None:
        return
    together = tuple(dict.fromkeys((*current.messages, *names)))[-_MOST_MESSAGES:]
    if together != current.messages:
        rows.put(msgspec.structs.replace(current, messages=together))
        note_change(rows, rejection.scope.tenant)


_MOST_MESSAGES = 1_000
"""Messages of one rejection that recalls leave out: the newest ones."""
