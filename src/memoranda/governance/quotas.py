"""Quotas and a write in, a refusal out when a window is full."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from memoranda.errors import QuotaExceeded
from memoranda.model.clock import EPOCH
from memoranda.model.duration import parse_duration
from memoranda.model.effect import EffectBase, Import, RecordRun, Remember, SetFact, WriteFacts
from memoranda.model.policy import Quota
from memoranda.store.base import Reader, Transaction, Window


def charge(
    rows: Transaction, tenant: str, actor: str, quotas: Sequence[Quota], effect: EffectBase, now: datetime
) -> None:
    """Count an effect against its actor's windows; raise QuotaExceeded, uncounted, when one of them has no room."""
    check_quotas(rows, tenant, actor, quotas, effect, now)
    writes, size = _weigh(effect)
    for window in {_window(quota, now) for quota in quotas}:
        rows.add_usage(tenant, actor, window, writes, size)


def check_quotas(
    rows: Reader, tenant: str, actor: str, quotas: Sequence[Quota], effect: EffectBase, now: datetime
) -> None:
    """Raise QuotaExceeded when one of an actor's windows has no room for an effect.

    What a run that has begun says about itself is counted and never refused: it could not even come to an end.
    """
    if not quotas:
        return
    if isinstance(effect, RecordRun) and effect.index:
        effect = msgspec.structs.replace(effect, writes=effect.others)
    writes, size = _weigh(effect)
    for quota in quotas:
        window = _window(quota, now)
        used_writes, used_bytes = rows.usage(tenant, actor, window)
        _check("writes", used_writes, writes, quota.writes, quota, window, actor, now)
        _check("bytes", used_bytes, size, quota.bytes, quota, window, actor, now)


def _window(quota: Quota, now: datetime) -> Window:
    seconds = parse_duration(quota.per)
    width = timedelta(seconds=seconds)
    return Window(seconds, EPOCH + (now - EPOCH) // width * width)


def _check(
    what: str, used: int, more: int, most: int | None, quota: Quota, window: Window, actor: str, now: datetime
) -> None:
    if most is not None and more and used + more > most:
        raise QuotaExceeded(
            f"`{actor}` may use {most:,} {what} per {quota.per} and has used {used:,}",
            hint="Wait for the next window, or ask for a larger quota",
            limit=most,
            actual=used + more,
            retry_after=(window.begins + timedelta(seconds=window.seconds) - now).total_seconds(),
        )


def _weigh(effect: EffectBase) -> tuple[int, int]:
    if isinstance(effect, SetFact):
        return 1, len(bytes(effect.payload))
    if isinstance(effect, WriteFacts | RecordRun):
        return len(effect.writes), sum(_weigh(write)[1] for write in effect.writes)
    if isinstance(effect, Remember):
        return len(effect.items), sum(len(bytes(item.payload)) for item in effect.items)
    if isinstance(effect, Import):
        written = (*effect.facts, *effect.entries)
        return len(written), sum(len(bytes(one.payload)) for one in written)
    return 1, 0
