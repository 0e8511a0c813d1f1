"""A real server: `memoranda serve` as a separate process, on a free port, over a file, called over HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
import warm_memoranda
from processes import run_process

import memoranda
from memoranda.server.auth.keys import create_key

PATIENCE = 120.0
"""Seconds after which a client or an ending server counts as hung."""

_numbers = count(1)


class Served:
    """A server process, and clients of it."""

    def __init__(
        self, db: Path | str, *flags: str, warm: bool = False, log: Path | None = None, **variables: str
    ) -> None:
        """Start a new process as users do, or a `warm` one with everything imported."""
        self.db = db
        self.log = log or Path(db).with_suffix(".log")
        arguments = ["serve", "--db", str(db), "--port", "0", "--json", *flags]
        env = {name: value for name, value in os.environ.items() if not name.startswith("MEMORANDA_")} | variables
        warmth = "models" if "OPENAI_BASE_URL" in variables else "server"
        with ExitStack() as starting:
            with self.log.open("ab") as log_file:
                self.process = starting.enter_context(
                    warm_memoranda.run_fork(*arguments, warmth=warmth, stderr=log_file, env=env)
                    if warm
                    else run_process(
                        [sys.executable, "-m", "memoranda.cli", *arguments],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=log_file,
                        env=env,
                    )
                )
            assert self.process.stdout is not None
            said = self.process.stdout.readline()
            assert said, self.log.read_text()
            self._closing = starting.pop_all()
        told = json.loads(said)
        self.address: str = told["address"]
        self.key: str | None = told["admin_key"]
        self.port = int(self.address.rpartition(":")[2])
        self._clients: list[httpx.Client] = []

    def client(self, key: str | None = None, **options: Any) -> httpx.Client:
        """Return a client with a key, by default the administrator's."""
        token = key or self.key
        made = httpx.Client(
            base_url=self.address, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE, **options
        )
        self._clients.append(made)
        return made

    def key_for(self, user: str, *, role: Any = "member", tenant: str = "default", **more: Any) -> str:
        """Return a new key, created while the server runs."""
        with memoranda.open(self.db) as memory:
            return create_key(memory, tenant=tenant, user=user, role=role, **more).token

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines of its log."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def stop(self, by: int = signal.SIGTERM) -> int:
        """Stop it by its process id, and return its exit code."""
        for client in self._clients:
            client.close()
        with self._closing:
            self.process.send_signal(by)
            return self.process.wait(PATIENCE)


@contextmanager
def run_server(db: Path, *flags: str, **variables: Any) -> Generator[Served]:
    """Run a server over a file while the block lasts."""
    # Workers begin as the process does that starts them, so that one has to be the real one.
    served = Served(db, *flags, warm="--workers" not in flags, **variables)
    try:
        yield served
    finally:
        served.stop()


@pytest.fixture(scope="session")
def serving() -> Callable[..., AbstractContextManager[Served]]:
    """Run a server over a file while a block lasts: `with serving(path, "--workers", "2", MEMORANDA_RATE="0")`."""
    return run_server


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all tests of a file; each test uses its own user."""
    with run_server(tmp_path_factory.mktemp("served") / "memory.db") as one:
        yield one


@pytest.fixture
def newcomer(request: pytest.FixtureRequest) -> str:
    """A user that no other test has."""
    return f"{request.node.name[:40]}-{next(_numbers)}"


@pytest.fixture
def someone(served: Served, newcomer: str) -> httpx.Client:
    """The client of that user."""
    return served.client(served.key_for(newcomer))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Return a function that starts servers; given a number of workers, as new processes, as users start them."""
    started: list[Served] = []

    def begin(*flags: str, db: Path | str | None = None, **variables: Any) -> Served:
        warm = "--workers" not in flags
        log = tmp_path / f"server-{len(started)}.log"
        started.append(Served(db or tmp_path / "memory.db", *flags, warm=warm, log=log, **variables))
        return started[-1]

    yield begin
    for one in started:
        one.stop()
