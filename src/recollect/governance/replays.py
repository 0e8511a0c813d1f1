"""Idempotency keys: a request seen before in, its first result out, and nothing written twice."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from recollect.engine.call import Call
from recollect.engine.facts import replayed_fact
from recollect.errors import IdempotencyMismatch
from recollect.model.effect import DeleteFact, EffectBase, SetFact, WriteFacts
from recollect.model.fact import Fact
from recollect.model.text import quote
from recollect.store.base import Replay, Transaction

Repeatable = SetFact | DeleteFact | WriteFacts


def idempotency_key(effect: EffectBase) -> str | None:
    """Return the effect's idempotency key, where it may have one and has."""
    return effect.idempotency_key if isinstance(effect, (SetFact, DeleteFact, WriteFacts)) else None


def find_replay(rows: Transaction, effect: Repeatable, key: str) -> list[Fact | bool] | None:
    """Return what the first request under this key gave, None if this is the first."""
    replay = rows.replay(effect.scope, key)
    if replay is None:
        return None
    if replay.request != _digest(effect):
        raise IdempotencyMismatch(
            f"the idempotency key {quote(key)} was used for another request",
            hint="Use a fresh key for each different write",
            expected=replay.request,
            actual=_digest(effect),
        )
    scopes = [write.scope for write in _writes(effect)]
    results: list[Fact | bool] = []
    for (name, version), write, scope in zip(replay.results, _writes(effect), scopes, strict=True):
        if isinstance(write, DeleteFact):
            results.append(version is not None)
        else:
            results.append(replayed_fact(rows, scope, name, version or 0))
    return results


def keep_replay(rows: Transaction, effect: Repeatable, key: str, value: Any, call: Call) -> None:
    """Remember what this request gave, by reference: the history holds the values."""
    values = value if isinstance(effect, WriteFacts) else [value]
    results = tuple(
        (write.key, done.version if isinstance(done, Fact) else 0 if done else None)
        for write, done in zip(_writes(effect), values, strict=True)
    )
    rows.put_replay(Replay(scope=effect.scope, key=key, request=_digest(effect), results=results, at=call.now))


def _writes(effect: Repeatable) -> tuple[SetFact | DeleteFact, ...]:
    return effect.writes if isinstance(effect, WriteFacts) else (effect,)


def _digest(effect: Repeatable) -> str:
    # The value is hashed with the request's own key as salt; the record goes when its scope is erased.
    return hashlib.sha256(msgspec.json.encode(effect, order="sorted")).hexdigest()
