"""Idempotency keys: a request seen before in, its first result out, and nothing written twice."""

from __future__ import annotations

import hashlib
from typing import Any

from memoranda.engine.call import Call
from memoranda.engine.facts import replayed_fact
from memoranda.errors import IdempotencyMismatch
from memoranda.governance.ledger import content_key
from memoranda.model.effect import DeleteFact, SetFact, WriteFacts
from memoranda.model.event import keyed_hash
from memoranda.model.fact import Fact
from memoranda.model.text import quote
from memoranda.model.value import canonical, decode
from memoranda.store.base import Replay, Transaction

Repeatable = SetFact | DeleteFact | WriteFacts


def find_replay(rows: Transaction, effect: Repeatable, key: str) -> list[Fact | bool] | None:
    """Return what the first request under this key gave, None if this is the first."""
    replay = rows.replay(effect.scope, key)
    if replay is None:
        return None
    request = _digest(rows, effect)
    if replay.request != request:
        raise IdempotencyMismatch(
            f"the idempotency key {quote(key)} was used for another request",
            hint="Use a fresh key for each different write",
            expected=replay.request,
            actual=request,
        )
    results: list[Fact | bool] = []
    for (name, version), write in zip(replay.results, _writes(effect), strict=True):
        if isinstance(write, DeleteFact):
            results.append(version is not None)
        else:
            results.append(replayed_fact(rows, write.scope, name, version or 0))
    return results


def keep_replay(rows: Transaction, effect: Repeatable, key: str, value: Any, call: Call) -> None:
    """Remember what this request gave, by reference: the history holds the values."""
    values = value if isinstance(effect, WriteFacts) else [value]
    results = tuple(
        (write.key, done.version if isinstance(done, Fact) else 0 if done else None)
        for write, done in zip(_writes(effect), values, strict=True)
    )
    rows.put_replay(Replay(scope=effect.scope, key=key, request=_digest(rows, effect), results=results, at=call.now))


def _writes(effect: Repeatable) -> tuple[SetFact | DeleteFact, ...]:
    return effect.writes if isinstance(effect, WriteFacts) else (effect,)


def _digest(rows: Transaction, effect: Repeatable) -> str:
    """Return what tells one request from another: each value hashed with the key of the scope it was meant for.

    Once a scope is erased its key is gone, and nobody can find out by guessing what a request held. Two requests
    are the same when their values are, whatever order the names of an object came in.
    """
    parts: list[Any] = []
    for write in _writes(effect):
        about: list[Any] = [write.name, write.scope.path, write.key, write.expect, write.source]
        if write.stamp is not None:
            about.append({"stamp": write.stamp})
        if isinstance(write, SetFact):
            payload = canonical(decode(bytes(write.payload)))
            secret = content_key(rows, write.scope.tenant, write.scope.path)
            about += [write.ttl, write.domain, keyed_hash(secret, payload)]
            if write.record is not None:  # another request than a plain set of the same value
                about.append(write.record)
        parts.append(about)
    return hashlib.sha256(canonical(parts)).hexdigest()
