"""Behind PgBouncer in transaction mode, where each transaction may run on another connection of the server."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import postgres_server
import psycopg
import pytest
from processes import run_process

import memoranda
from memoranda.errors import Unavailable
from memoranda.store.postgres import PostgresStore, deadline

Server = postgres_server.PostgresServer
PATIENCE = 30.0

pytestmark = pytest.mark.capability("pooler", backend="postgres")

CONFIGURATION = """\
[databases]
postgres = host={folder} user=owner
[pgbouncer]
listen_addr =
unix_socket_dir = {here}
listen_port = 6432
auth_type = any
pool_mode = transaction
default_pool_size = 3
server_check_delay = 0
logfile = {here}/log
"""


@pytest.fixture(scope="module")
def pooled(postgres: Server) -> Iterator[str]:
    """Return an address at which PgBouncer answers."""
    program = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if program is None:
        pytest.skip("PgBouncer is not here: it comes with `apt-get install pgbouncer`")
    here = Path(tempfile.mkdtemp(prefix="pgb-"))
    user = "nobody" if os.geteuid() == 0 else None  # it refuses to be root
    if user is not None:
        shutil.chown(here, user)
    (here / "ini").write_text(CONFIGURATION.format(folder=postgres.folder, here=here))
    (here / "ini").chmod(0o644)
    silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with run_process([program, here / "ini"], user=user, cwd=here, **silent):
        until = time.monotonic() + PATIENCE
        while True:
            with socket.socket(socket.AF_UNIX) as tried:
                if tried.connect_ex(str(here / ".s.PGSQL.6432")) == 0:
                    break
            assert time.monotonic() < until
            time.sleep(0.02)
        yield f"postgresql://owner@/postgres?host={here}&port=6432"
    shutil.rmtree(here)


def test_a_pooler_in_transaction_mode_mixes_nothing_up(database: str, pooled: str):
    with memoranda.open(pooled, busy_timeout=30, embedder="hashing:32") as memory:

        def work(number: int) -> tuple[int, int]:
            place = memory.scope(user=f"u{number}")
            for count in range(12):
                place.set("count", count)
                place.remember(f"firing {count}", collection="notes")
                assert place.value("count") == count
                assert place.recall("firing", collection="notes", limit=50).count == count + 1
            return place.value("count"), len(place.history("count"))

        with ThreadPoolExecutor(6) as threads:
            assert list(threads.map(work, range(6))) == [(11, 12)] * 6
        assert memory.ledger.verify().ok
        assert memory.scrub() is True
    with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as connection:
        assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
    with PostgresStore(database) as direct:  # where they are safe, statements are prepared
        for _ in range(4):
            direct.read(lambda rows: rows.tenant_state("default"))
        asked = "SELECT count(*) > 0 FROM pg_prepared_statements"
        assert direct.read(lambda rows: rows.connection.execute(asked).fetchone()) == (True,)  # type: ignore[attr-defined]


def test_a_frozen_server_behind_a_pooler_that_answers_is_noticed(
    postgres: Server, pooled: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(deadline, "SILENCE", 0.3)
    monkeypatch.setattr(deadline, "PROBE", 0.7)
    with PostgresStore(pooled, busy_timeout=0.2) as store:
        assert store.check() == []
        postgres.freeze()
        try:
            began = time.monotonic()
            with pytest.raises(Unavailable):
                store.check()
            assert time.monotonic() - began < 15
        finally:
            postgres.thaw()
        until = time.monotonic() + PATIENCE
        while True:
            try:
                assert store.check() == []
                break
            except Unavailable:
                assert time.monotonic() < until
