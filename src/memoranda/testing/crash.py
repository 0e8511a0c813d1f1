"""Killing a program at random moments, to check that it keeps what it acknowledged."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Round:
    """One run of the child: what it acknowledged, and whether it was killed."""

    number: int
    acknowledged: tuple[str, ...]
    """The whole lines it printed. A line cut short by the kill was not an acknowledgement."""
    killed: bool
    """False if it came to its own end before the kill."""


def kill_rounds(
    script: str,
    *args: str,
    rounds: int = 5,
    acknowledgements: tuple[int, int] = (1, 50),
    linger: float = 0.01,
    timeout: float = 60.0,
    seed: int | None = None,
    environment: Mapping[str, str] | None = None,
    check: Callable[[Round], object] | None = None,
) -> list[Round]:
    """Run a Python script again and again, kill each run with SIGKILL, and return what each acknowledged.

    The script finds `args` and then the number of the round (from 0) in `sys.argv[1:]`. For each write that
    it considers done it prints one line and flushes it.

    Args:
        script: The text of the program.
        args: Its arguments.
        rounds: How many times to run it.
        acknowledgements: The kill comes after a random number of lines between these two…
        linger: …and then a random part of this many seconds, so that it falls between lines as well.
        timeout: How long one round may take before it counts as hung.
        seed: Makes the random choices the same each time.
        environment: Variables to add to the child's.
        check: Called after each round, when the child is gone: reopen what it wrote and look.

    Raises:
        TimeoutError: A child took too long.
        RuntimeError: A child failed by itself; the message has its standard error.
    """
    choose = random.Random(seed)
    done: list[Round] = []
    for number in range(rounds):
        result = _run(
            [sys.executable, "-c", script, *args, str(number)],
            number=number,
            lines=choose.randint(*acknowledgements),
            pause=choose.uniform(0, linger),
            timeout=timeout,
            environment={**os.environ, **(environment or {})},
        )
        done.append(result)
        if check is not None:
            check(result)
    return done


def _run(
    command: list[str], *, number: int, lines: int, pause: float, timeout: float, environment: dict[str, str]
) -> Round:
    with tempfile.TemporaryFile() as complaints:
        # A session of its own, so that the kill also reaches what the child may have started; a survivor
        # would hold the pipe open.
        child = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=complaints,
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        hung = threading.Event()

        def give_up() -> None:
            hung.set()
            _kill(child)

        watchdog = threading.Timer(timeout, give_up)
        watchdog.daemon = True
        watchdog.start()
        assert child.stdout is not None
        try:
            heard = [line for _, line in zip(range(lines), child.stdout, strict=False)]
            if len(heard) == lines:
                time.sleep(pause)
            else:
                child.wait()  # its output ended: let it come to its own end, and hear how
        finally:
            watchdog.cancel()
            _kill(child)
        heard += child.stdout.readlines()
        child.stdout.close()
        status = child.wait()
        complaints.seek(0)
        said = complaints.read().decode(errors="replace").strip()
    if hung.is_set():
        raise TimeoutError(f"round {number} took more than {timeout} s after {len(heard)} lines: {said}")
    if status not in (0, -signal.SIGKILL):
        raise RuntimeError(f"the script failed by itself in round {number} with status {status}: {said}")
    whole = tuple(line[:-1].decode() for line in heard if line.endswith(b"\n"))
    return Round(number=number, acknowledged=whole, killed=status == -signal.SIGKILL)


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kill the child's process group; its id cannot be reused before the child is waited for."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
