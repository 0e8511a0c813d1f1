"""A real server in a separate process, with a clock that tests can move.

The process prints its address as one line of JSON. Each line of its input is a command, answered by a line:
{"key": {…}} creates an API key, {"clock": "…"} sets the clock, {"settle": true} waits for background work. It exits at
the end of its input.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import warm_memoranda

import memoranda

LIFETIME = 7_200.0
"""Seconds after which a server is ended even if its tests hang."""
_PROGRAM = "import clocked_server, sys; clocked_server.main(*sys.argv[1:])"


class Served:
    """A server process: its address, keys for its users, and its clock."""

    def __init__(self, database: Path, **settings: Any) -> None:
        self.database = database
        warmth = "models" if "agents" in settings else "server"
        with ExitStack() as starting:
            self._process = starting.enter_context(
                warm_memoranda.run_fork(
                    database, json.dumps(settings), program=_PROGRAM, warmth=warmth, lifetime=LIFETIME
                )
            )
            self.url: str = self._heard()["url"]
            self._closing = starting.pop_all()
        self._speaking = threading.Lock()
        self._keys: dict[tuple[str, str, str], str] = {}

    def key(self, user: str, *, tenant: str = "default", role: str = "admin") -> str:
        """Return the API key of a user; each has one per role."""
        place = (tenant, user, role)
        if place not in self._keys:
            self._keys[place] = self.ask(key={"tenant": tenant, "user": user, "role": role})
        return self._keys[place]

    def show(self, moment: datetime) -> None:
        """Set the server's clock."""
        self.ask(clock=moment.isoformat())

    def settle(self) -> None:
        """Wait for background work."""
        self.ask(settle=True)

    def ask(self, **command: Any) -> Any:
        """Carry out one command, and return its result."""
        with self._speaking:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
            heard = self._heard()
        if "refused" in heard:
            raise memoranda.UsageError(heard["refused"])
        return heard["done"]

    def close(self) -> None:
        """Stop the process by closing its input."""
        with self._closing, suppress(subprocess.TimeoutExpired):
            self._process.stdin.close()
            self._process.wait(10)

    def _heard(self) -> Any:
        line = self._process.stdout.readline()
        assert line, "the server ended without a word"
        return json.loads(line)


def main(database: str, given: str) -> None:
    """Serve requests and commands until there are no more commands."""
    import uvicorn

    from memoranda.server.app import create_app
    from memoranda.server.settings import Settings
    from memoranda.testing import FakeClock
    from memoranda.testing.conformance.base import EMBEDDER

    clock = FakeClock()
    memory = memoranda.open(database, clock=clock, embedder=EMBEDDER, durability="normal")
    app = create_app(Settings(db=database, rate=0, threads=8, **json.loads(given)), memory)
    # With its protocol said, or asyncio lets small answers wait for an acknowledgement.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(128)  # from now on connections are accepted, though the server is still starting
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, timeout_graceful_shutdown=2))

    def obey() -> None:
        for line in sys.stdin:
            try:
                _say({"done": _done(json.loads(line), memory, clock)})
            except memoranda.MemorandaError as error:
                _say({"refused": str(error)})
        server.should_exit = True

    _say({"url": f"http://127.0.0.1:{listening.getsockname()[1]}"})
    threading.Thread(target=obey, daemon=True).start()
    server.run(sockets=[listening])
    memory.close()


def _done(command: dict[str, Any], memory: memoranda.Memory, clock: Any) -> Any:
    from memoranda.server.auth.keys import create_key

    if "key" in command:
        return create_key(memory, **command["key"]).token
    if "clock" in command:
        clock.set(datetime.fromisoformat(command["clock"]))
    memory.settle()
    return None


def _say(answer: Any) -> None:
    print(json.dumps(answer), flush=True)
