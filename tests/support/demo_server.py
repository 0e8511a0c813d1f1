"""The server of `make serve` in a separate process, on a free port, in its own directory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import warm_memoranda
from processes import run_process

import memoranda

LIFETIME = 3_600.0
"""Seconds after which a server is ended even if its tests hang."""
PATIENCE = 120.0
"""Seconds after which a request counts as hung."""
_PROGRAM = "import sys\nfrom memoranda.server.demo import main\nsys.exit(main())"


class Demo(NamedTuple):
    """A server as `make serve` starts it, its output, and what can be read from that."""

    folder: Path
    said: list[str]

    def after(self, words: str) -> str:
        """Return what follows these words in a line of the output."""
        return next(line.rpartition(words)[2] for line in self.said if words in line)

    @property
    def address(self) -> str:
        return self.after("listens on ")

    @property
    def key(self) -> str:
        return self.after("until the next start: ")

    @property
    def commands(self) -> list[str]:
        """The lines that it prints for a shell."""
        return [line.strip() for line in self.said if line.startswith("  curl ")]

    def key_in(self, tenant: str) -> str:
        """Return a key like the one it printed, in a tenant with the content of a fresh demo."""
        # Here and not above: workers that only collect tests need not import a server.
        from memoranda.server.auth.keys import create_key
        from memoranda.server.demo import USER, fill, settings_in

        with memoranda.open(settings_in(self.folder).db) as memory:
            fill(memory.in_tenant(tenant))
            return create_key(memory, tenant=tenant, user=USER, role="member").token

    def client(self, key: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {key or self.key}"}
        return httpx.Client(base_url=self.address, headers=headers, timeout=PATIENCE)


@contextmanager
def run_demo(folder: Path, *, warm: bool = True) -> Generator[Demo]:
    """Run the demo in a directory while a block lasts: `warm` with all imported, or not, as `make serve` does."""
    arguments = ["--folder", str(folder), "--port", "0"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("MEMORANDA_")}
    running = (
        warm_memoranda.run_fork(
            *arguments, program=_PROGRAM, warmth="server", stderr=subprocess.DEVNULL, env=env, lifetime=LIFETIME
        )
        if warm
        else run_process(
            [sys.executable, "-m", "memoranda.server.demo", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            lifetime=LIFETIME,
        )
    )
    with running as process:
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            said.append(line.rstrip("\n"))
            if line.startswith("All routes"):
                break
        yield Demo(folder, said)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
