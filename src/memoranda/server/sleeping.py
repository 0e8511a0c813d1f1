"""Conversations of every tenant in, memory that knows what was said in them out: what the server does while it serves.

A thread of each process looks again and again. Processes do not know of each other: a job is leased by one of them.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from memoranda.api.memory import Memory
from memoranda.server.auth.keys import SYSTEM_TENANT
from memoranda.server.chat_agents import model_named
from memoranda.server.metrics import Metrics
from memoranda.server.settings import Settings

if TYPE_CHECKING:
    # Imported in a thread of the executor: no request waits for it, and a server that never sleeps does without.
    from memoranda.sleep import Looked, SleepWorker
    from memoranda.sleep.extracting import Extractor

_log = logging.getLogger(__name__)


def extractor_named(model: str) -> Extractor:
    """Return who says what a conversation teaches: a model by its name, rules without one; refuse what names none."""
    from memoranda.sleep.extracting import extract_by_model, extract_by_rules

    return extract_by_model(model_named(model)) if model else extract_by_rules


def start_sleeping(settings: Settings, memory: Memory, metrics: Metrics) -> SleepWorker:
    """Start to consolidate the conversations of every tenant; return who does it, to be stopped."""
    from memoranda.sleep import SleepWorker

    def tenants() -> list[Memory]:
        return [memory.in_tenant(name) for name in memory.tenants() if name != SYSTEM_TENANT]

    worker = SleepWorker(
        tenants,
        extractor=extractor_named(settings.sleep_model),
        delay=settings.sleep_delay,
        every=settings.sleep_every,
        report=_Reporter(metrics).report,
    )
    worker.start()
    return worker


class _Reporter:
    """Tells log and metrics what each look came to: how much, never of whom or what was said."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._jobs: dict[str, Mapping[str, int]] = {}

    def report(self, looked: Looked) -> None:
        fields: dict[str, Any] = {} if looked.memory is None else {"tenant": looked.memory.tenant}
        for one in looked.ran:
            if one.failed:
                # The rest of why may repeat what was said; `memoranda sleep list` has it.
                why = {"code": one.job.error.partition(":")[0], "state": one.job.state, "attempts": one.job.attempts}
                _log.warning("a conversation could not be consolidated", extra={"fields": fields | why})
        done = sum(one.consolidated is not None for one in looked.ran)
        failed = sum(one.failed for one in looked.ran)
        self._metrics.slept["done"] += done
        self._metrics.slept["failed"] += failed
        if done:
            _log.info("conversations were consolidated", extra={"fields": {**fields, "conversations": done}})
        if looked.failure is not None:
            self._metrics.slept["look_failed"] += 1
            _log.error("a look for settled conversations failed", exc_info=looked.failure, extra={"fields": fields})
        elif looked.memory is not None:
            self._jobs[looked.memory.tenant] = looked.jobs
            self._metrics.sleep_jobs = sum((Counter(jobs) for jobs in self._jobs.values()), Counter[str]())
