"""How deep the property tests go: quick by default, deep in `make fuzz`, the same each time in CI."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

DEEP = os.environ.get("RECOLLECT_DEPTH") == "deep"

_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]

settings.register_profile(
    "quick",
    max_examples=30,
    stateful_step_count=40,
    deadline=None,
    print_blob=True,
    suppress_health_check=_SLOW_IS_FINE,
)
settings.register_profile(
    "ci", settings.get_profile("quick"), derandomize=True, suppress_health_check=_SLOW_IS_FINE, database=None
)
settings.register_profile("deep", settings.get_profile("quick"), max_examples=1_000, stateful_step_count=60)

# A deep run is there to find what is new, so it stays random even in CI.
settings.load_profile("deep" if DEEP else "ci" if os.environ.get("CI") else "quick")
