"""Start processes in tests: when the block ends, the process has exited and its pipes are closed.

An open pipe raises a warning in whichever test runs when it is collected, so tests start processes only this way.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

LIFETIME = 7_200.0 if os.environ.get("MEMORANDA_DEPTH") == "deep" else 600.0
"""Seconds after which a process is killed even if its test hangs."""


class Process(Protocol):
    """What processes and forks have in common."""

    @property
    def stdin(self) -> IO[str] | None: ...
    @property
    def stdout(self) -> IO[str] | None: ...
    @property
    def stderr(self) -> IO[str] | None: ...
    def kill(self) -> None: ...
    def wait(self) -> int: ...


P = TypeVar("P", bound=Process)


@contextmanager
def run_process(
    command: Sequence[str | Path], *, lifetime: float = LIFETIME, **options: Any
) -> Generator[subprocess.Popen[str]]:
    """Run a command while the block lasts, with the options of `subprocess.Popen`."""
    with watch(subprocess.Popen(command, text=True, encoding="utf-8", **options), lifetime) as process:
        yield process


@contextmanager
def watch(process: P, lifetime: float) -> Generator[P]:
    """Kill a process that outlives the block or its timeout, wait for it, and close its pipes."""
    owner = os.getpid()
    watchdog = threading.Timer(lifetime, process.kill)
    watchdog.daemon = True
    watchdog.start()
    try:
        yield process
    finally:
        # A fork of the tests' process has a copy of this block, but not of the process.
        if os.getpid() == owner:
            watchdog.cancel()
            process.kill()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()
            process.wait()
