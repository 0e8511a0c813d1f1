"""Metrics of a server process in the Prometheus text format.

Not with `prometheus-client`: its multi-process mode, which would sum the workers, takes 36 µs for each request, 51 µs
with the gauge, instead of 4 µs, and needs a folder for its mapped files that outlives and is cleaned of dead workers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from memoranda.wire.chat import JobState

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram buckets, in seconds."""
_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "POST", "PATCH", "DELETE"})
_JOB_STATES = get_args(JobState)
_OUTCOMES = ("done", "failed", "look_failed")
_SWEEPS = ("done", "failed")
SWEPT_KINDS = ("facts", "revisions", "entries", "idempotency_keys", "runs", "sessions", "files")
"""What a sweep removes."""
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counters of one process, all updated on its event loop, so nothing is locked."""

    def __init__(self, version: str) -> None:
        """Start at zero."""
        self._version = version
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()
        self.in_flight = 0
        self.slept: Counter[str] = Counter()
        """Consolidated conversations and failures; written by the thread of the sleep-time worker."""
        self.sleep_jobs: Mapping[str, int] = {}
        """Number of sleep-time jobs by state at the last pass, in the whole database."""
        self.swept: Counter[str] = Counter()
        """What sweeps removed, by kind; written by the thread of the housekeeper, as is the next."""
        self.sweeps: Counter[str] = Counter()

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a completed request."""
        # Invented methods must not add time series.
        self._requests[method if method in _METHODS else "other", route, status] += 1
        buckets = self._buckets.get(route)
        if buckets is None:
            buckets = self._buckets[route] = [0] * (len(BUCKETS) + 1)
        buckets[bisect_left(BUCKETS, seconds)] += 1
        self._seconds[route] += seconds  # pyright: ignore[reportArgumentType]  # a Counter can hold floats

    def render(self) -> str:
        """Return all metrics in the Prometheus text format."""
        lines = [
            *_head("info", "gauge", "The running version."),
            f'memoranda_info{{version="{self._version}"}} 1',
            *_head("requests_in_flight", "gauge", "Requests in flight."),
            f"memoranda_requests_in_flight {self.in_flight}",
            *_head("resident_bytes", "gauge", "Resident memory of the process."),
            f"memoranda_resident_bytes {_resident_bytes()}",
            *_head("sleep_jobs", "gauge", "Sleep-time jobs by state at the last pass."),
            *(f'memoranda_sleep_jobs{{state="{one}"}} {self.sleep_jobs.get(one, 0)}' for one in _JOB_STATES),
            *_head("slept_total", "counter", "Consolidated conversations, failed ones, and failed passes."),
            *(f'memoranda_slept_total{{outcome="{one}"}} {self.slept[one]}' for one in _OUTCOMES),
            *_head("sweeps_total", "counter", "Sweeps of expired data by this process, and failed ones."),
            *(f'memoranda_sweeps_total{{outcome="{one}"}} {self.sweeps[one]}' for one in _SWEEPS),
            *_head("swept_total", "counter", "What sweeps removed, by kind."),
            *(f'memoranda_swept_total{{kind="{one}"}} {self.swept[one]}' for one in SWEPT_KINDS),
            *_head("requests_total", "counter", "Completed requests."),
        ]
        for (method, route, status), count in sorted(self._requests.items()):
            lines.append(f'memoranda_requests_total{{method="{method}",route="{route}",status="{status}"}} {count}')
        lines += _head("request_seconds", "histogram", "Response times.")
        for route, buckets in sorted(self._buckets.items()):
            total = 0
            for edge, count in zip((*map(str, BUCKETS), "+Inf"), buckets, strict=True):
                total += count
                lines.append(f'memoranda_request_seconds_bucket{{route="{route}",le="{edge}"}} {total}')
            lines.append(f'memoranda_request_seconds_sum{{route="{route}"}} {self._seconds[route]:.6f}')
            lines.append(f'memoranda_request_seconds_count{{route="{route}"}} {total}')
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, help: str) -> tuple[str, str]:
    return f"# HELP memoranda_{name} {help}", f"# TYPE memoranda_{name} {kind}"


def _resident_bytes() -> int:
    """Return the resident memory of this process, 0 where it is not known."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * 4_096
