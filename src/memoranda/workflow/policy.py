"""The settings of all tasks and those of one in, what holds for that one out: its time, and how it is retried."""

from __future__ import annotations

import msgspec

from memoranda.workflow.document import Retries, Settings

_LONGEST_MS = 1_000 * 3_600 * 24 * 365 * 10
"""Ten years: no clock counts further."""


class Retrying(msgspec.Struct, frozen=True, kw_only=True):
    """How often a task that failed is tried again, and after which delays."""

    enabled: bool = False
    max_attempts: int = 3
    backoff_ms: float = 25
    max_delay_ms: float = 10_000
    jitter: float = 0
    multiplier: float = 1


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for one task; a time of 0 has no end."""

    timeout_ms: float = 0
    retries: Retrying = Retrying()


def policy_of(defaults: Settings | None, own: Settings | None) -> Policy:
    """Return the policy of a task: its own settings, then those of all tasks, then what holds unless one says so."""
    timeout: float = 0
    given: dict[str, bool | float] = {}
    for settings in (defaults, own):
        if settings is None:
            continue
        timeout = timeout if settings.timeout_ms is None else settings.timeout_ms
        given |= _given(settings.retries)
    return Policy(timeout_ms=min(timeout, _LONGEST_MS), retries=msgspec.convert(given, Retrying))


def _given(retries: Retries | None) -> dict[str, bool | float]:
    if retries is None:
        return {}
    found = {field: getattr(retries, field) for field in Retrying.__struct_fields__}
    return {field: value for field, value in found.items() if value is not None}
