"""The memory of one scope: what `memory.scope(user="ada")` returns."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from recollect.errors import Conflict, NotFound, UsageError
from recollect.governance.gate import Caller, Gate
from recollect.model.clock import parse_moment
from recollect.model.duration import Duration, parse_duration
from recollect.model.effect import (
    DeleteFact,
    EndScope,
    GetFact,
    ListFacts,
    ReadHistory,
    SetFact,
    StartSession,
)
from recollect.model.fact import Fact, Revision
from recollect.model.key import check_key, check_own_key
from recollect.model.limits import Limits, check_count
from recollect.model.scope import Scope
from recollect.model.text import check_label, quote
from recollect.model.value import encode_checked

_MISSING: Any = object()
_LONGEST_NAP = 0.02


class ScopedMemory:
    """Facts of one scope: get, set, update, delete, list, history."""

    def __init__(self, gate: Gate, caller: Caller, scope: Scope) -> None:
        """Stand in a scope; `memory.scope(…)` makes these."""
        self._gate = gate
        self._caller = caller
        self.scope = scope

    def get(self, key: str, *, as_of: datetime | str | None = None) -> Fact | None:
        """Return the fact at a key, now or as it stood at a moment; None when there is none."""
        check_key(key)
        moment = None if as_of is None else parse_moment(as_of)
        return self._gate.perform(GetFact(scope=self.scope, key=key, as_of=moment), self._caller)

    def value(self, key: str, default: Any = None, *, as_of: datetime | str | None = None) -> Any:
        """Return the value at a key, or the default."""
        fact = self.get(key, as_of=as_of)
        return default if fact is None else fact.value

    def set(
        self,
        key: str,
        value: Any,
        *,
        expect: int | None = None,
        ttl: Duration | None = None,
        domain: str | None = None,
        source: str | None = None,
        idempotency_key: str | None = None,
    ) -> Fact:
        """Write a fact and return it. `expect` is the version it must be at; 0 means it must not exist.

        A write without a `ttl` is permanent, even over a fact that was not.

        >>> import recollect
        >>> with recollect.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     fact = ada.set("profile.language", "en", ttl="90d")
        ...     ada.set("profile.language", "fr", expect=fact.version).version
        2
        """
        effect = set_effect(
            self.scope,
            key,
            value,
            self._gate.limits,
            expect=expect,
            ttl=ttl,
            domain=domain,
            source=source,
            idempotency_key=idempotency_key,
        )
        return self._gate.perform(effect, self._caller)

    def create(self, key: str, value: Any, *, ttl: Duration | None = None, domain: str | None = None) -> Fact:
        """Write a fact that must not exist yet; raise Conflict if it does."""
        return self.set(key, value, expect=0, ttl=ttl, domain=domain)

    def update(
        self,
        key: str,
        change: Callable[[Any], Any],
        *,
        default: Any = _MISSING,
        ttl: Duration | None = None,
        domain: str | None = None,
        attempts: int = 1_000,
    ) -> Fact:
        """Read a value, let `change` make a new one, and write it; again from the start if somebody was faster.

        `change` gets the default when there is no fact, and may run several times: it should only compute.
        """
        for attempt in range(attempts):
            fact = self.get(key)
            if fact is None and default is _MISSING:
                raise NotFound(f"there is no fact {quote(key)} in `{self.scope}`", hint="Pass default=… to begin one")
            value = change(default if fact is None else fact.value)
            tag = domain if domain is not None else fact.domain if fact else None
            try:
                return self.set(key, value, expect=fact.version if fact else 0, ttl=ttl, domain=tag)
            except Conflict:
                if attempt == attempts - 1:
                    raise
                time.sleep(random.uniform(0, min(_LONGEST_NAP, 0.0002 * 2 ** min(attempt, 8))))
        raise UsageError("`attempts` must be at least 1", hint="Leave it out")

    def delete(
        self,
        key: str,
        *,
        expect: int | None = None,
        source: str | None = None,
        idempotency_key: str | None = None,
    ) -> bool:
        """Delete a fact and say whether there was one. Its history stays; `memory.erase` removes that too."""
        effect = delete_effect(self.scope, key, expect=expect, source=source, idempotency_key=idempotency_key)
        return self._gate.perform(effect, self._caller)

    def list(
        self,
        prefix: str = "",
        *,
        domain: str | None = None,
        after: str = "",
        limit: int | None = None,
        as_of: datetime | str | None = None,
    ) -> list[Fact]:
        """Return the facts at and below a key, ordered by key: `profile` holds `profile.name`, never `profiler`."""
        if prefix != "":
            check_key(prefix)
        if after != "":
            check_key(after)
        check_label("domain", domain)
        check_count("limit", limit)
        moment = None if as_of is None else parse_moment(as_of)
        effect = ListFacts(scope=self.scope, prefix=prefix, domain=domain, after=after, limit=limit, as_of=moment)
        return self._gate.perform(effect, self._caller)

    def history(self, key: str) -> list[Revision]:
        """Return every revision of a key, oldest first: what it was, since when, by whom."""
        check_key(key)
        return self._gate.perform(ReadHistory(scope=self.scope, key=key), self._caller)

    def session(self, id: str) -> ScopedMemory:
        """Begin (or go on with) a session that belongs to this scope; erasing this scope erases it too."""
        scope = Scope.of(tenant=self.scope.tenant, session=id)
        self._gate.perform(StartSession(scope=scope, owner=self.scope), self._caller)
        return ScopedMemory(self._gate, self._caller, scope)

    def end(self) -> dict[str, int]:
        """End this session, run or tree: its memory goes, and nothing can be written to it again."""
        return self._gate.perform(EndScope(scope=self.scope), self._caller)

    def __repr__(self) -> str:
        """Return whose memory this is."""
        return f"<recollect.ScopedMemory {self.scope}>"


def set_effect(
    scope: Scope,
    key: str,
    value: Any,
    limits: Limits,
    *,
    expect: int | None = None,
    ttl: Duration | None = None,
    domain: str | None = None,
    source: str | None = None,
    idempotency_key: str | None = None,
) -> SetFact:
    """Return the checked effect of a set; bad input is refused here, before anything is touched."""
    check_own_key(key)
    _check_expect(expect)
    check_label("domain", domain)
    check_label("source", source)
    check_label("idempotency key", idempotency_key)
    return SetFact(
        scope=scope,
        key=key,
        payload=msgspec.Raw(encode_checked(value, limits)),
        expect=expect,
        ttl=None if ttl is None else parse_duration(ttl),
        domain=domain,
        source=source,
        idempotency_key=idempotency_key,
    )


def delete_effect(
    scope: Scope,
    key: str,
    *,
    expect: int | None = None,
    source: str | None = None,
    idempotency_key: str | None = None,
) -> DeleteFact:
    """Return the checked effect of a delete."""
    check_own_key(key)
    _check_expect(expect)
    check_label("source", source)
    check_label("idempotency key", idempotency_key)
    return DeleteFact(scope=scope, key=key, expect=expect, source=source, idempotency_key=idempotency_key)


def _check_expect(expect: Any) -> None:
    if expect is not None and (type(expect) is not int or expect < 0):
        raise UsageError(
            f"{quote(expect)} is not a version to expect",
            hint="Pass fact.version, or 0 for a fact that must not exist",
        )
