"""The sleep-time worker of a server process: consolidates conversations of all tenants in a thread.

Every process has one; a job is leased to one of them.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from memoranda.api.memory import Memory
from memoranda.server.auth.keys import SYSTEM_TENANT
from memoranda.server.chat_agents import find_model
from memoranda.server.metrics import Metrics
from memoranda.server.settings import Settings

if TYPE_CHECKING:
    from memoranda.learning.extraction import Extractor
    from memoranda.sleep import Looked, SleepWorker


_log = logging.getLogger(__name__)


def find_extractor(model: str) -> Extractor:
    """Return the extractor: a model by its name, or rules if the name is empty."""
    from memoranda.sleep import extract_by_model, extract_by_rules

    return extract_by_model(find_model(model)) if model else extract_by_rules


def start_sleep_worker(settings: Settings, memory: Memory, metrics: Metrics) -> SleepWorker:
    """Start the worker and return it."""
    from memoranda.sleep import SleepWorker

    def tenants() -> list[Memory]:
        return [memory.in_tenant(name) for name in memory.tenants() if name != SYSTEM_TENANT]

    worker = SleepWorker(
        tenants,
        extractor=find_extractor(settings.sleep_model),
        delay=settings.sleep_delay,
        every=settings.sleep_every,
        report=_Reporter(metrics).report,
    )
    worker.start()
    return worker


class _Reporter:
    """Logs and counts the results of each pass: numbers only, never users or content."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._jobs: dict[str, Mapping[str, int]] = {}

    def report(self, looked: Looked) -> None:
        fields: dict[str, Any] = {} if looked.memory is None else {"tenant": looked.memory.tenant}
        for one in looked.ran:
            if one.failed:
                # Only the code: the message may quote the conversation. `memoranda sleep list` shows all of it.
                why = {"code": one.job.error.partition(":")[0], "state": one.job.state, "attempts": one.job.attempts}
                _log.warning("a conversation could not be read", extra={"fields": fields | why})
        done = sum(one.consolidated is not None or one.learned is not None for one in looked.ran)
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
