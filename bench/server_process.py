"""Start a server process on a database; say where it listens, what it uses, and when it was ready."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec
from machine import resident_memory
from server_ground import Ground

_MEMORANDA = ("-m", "memoranda.cli")
_WITH_EMPTY_ROUTE = (str(Path(__file__).with_name("server_empty.py")),)
_ENDING = 60
"""Seconds that a server has to end in."""


class _Announced(msgspec.Struct):
    address: str


class Place(Protocol):
    """What a server needs: a database, and the folder of its agents."""

    db: Any
    agents: Path


class Server:
    """A process that serves one database, on a free port unless told one, with a line in a log for every request."""

    def __init__(
        self,
        ground: Place,
        program: Sequence[str] = _MEMORANDA,
        *,
        durability: str = "full",
        port: int = 0,
        settings: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> None:
        """Start it and wait until it says where it listens; `settings` are more variables of its environment."""
        environment = _environment(ground) | {"MEMORANDA_DURABILITY": durability, **(settings or {})}
        self._log = log or Path(ground.db).with_suffix(".log")
        with self._log.open("wb") as log_file:
            command = [sys.executable, *program, "serve", "--db", str(ground.db), "--port", str(port), "--json"]
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log_file, env=environment)
        said = self._process.stdout.readline()
        if not said:
            raise self._ended()
        self.pid = self._process.pid
        self.port = int(msgspec.json.decode(said, type=_Announced).address.rpartition(":")[2])

    def wait_until_ready(self) -> None:
        """Return once it says that it can work: it listens before it answers, so the question waits at the door."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_ENDING)
        connection.request("GET", "/ready")
        try:
            status = connection.getresponse().status
        except ConnectionError as error:
            raise self._ended() from error
        if status != 200:
            raise RuntimeError(f"the server answers {status} when it is asked whether it is ready")
        connection.close()

    def _ended(self) -> RuntimeError:
        return RuntimeError(f"the server ended with {self._process.wait()}:\n{self._log.read_text()}")

    @property
    def memory(self) -> float:
        """Its resident memory in MB."""
        return resident_memory(self.pid)

    def stop(self) -> None:
        """End it in good order."""
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=_ENDING)

    def kill(self) -> None:
        """End it without warning."""
        self._process.kill()
        self._process.communicate(timeout=_ENDING)


@contextmanager
def serving(ground: Ground, *, with_empty_route: bool = False, durability: str = "full") -> Iterator[Server]:
    """Serve a database while the block lasts."""
    server = Server(ground, _WITH_EMPTY_ROUTE if with_empty_route else _MEMORANDA, durability=durability)
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


def time_start(ground: Ground) -> float:
    """Return the seconds from the call of `memoranda serve` until the new process says that it can work."""
    start = time.perf_counter()
    server = Server(ground)
    try:
        server.wait_until_ready()
        return time.perf_counter() - start
    finally:
        server.stop()


def _environment(ground: Place) -> dict[str, str]:
    """Return an environment without settings but ours: no key may be slowed down for asking too often.

    Modules are compiled, as those of an installed package are; the first server that starts does it.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMORANDA_")}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return kept | {
        "PYTHONPYCACHEPREFIX": str(ground.agents.with_name("compiled")),
        "MEMORANDA_AGENTS": str(ground.agents),
        "MEMORANDA_RATE": "1000000",
        "MEMORANDA_BURST": "1000000",
    }
