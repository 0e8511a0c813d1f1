"""A shell that stays open and runs one command after another. Variables last until it is closed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from processes import run_process
from warm_memoranda import Warmth
from warm_memoranda import folder as folder_of

PATIENCE = 120.0
"""Seconds after which a command counts as hung."""
_END = "=== left with"
_FOREIGN = "^MEMORANDA_|_API_KEY$|_BASE_URL$"


class Shell:
    """A POSIX shell in a directory, without the keys and settings of the user who runs the tests."""

    def __init__(self, folder: Path, *, warmth: Warmth | None = "commands", **variables: str) -> None:
        """Open it; if `warmth` is None, `memoranda` is the installed one, which imports everything in each call."""
        kept = {name: value for name, value in os.environ.items() if not re.search(_FOREIGN, name)}
        places = [*([str(folder_of(warmth))] if warmth else []), str(Path(sys.executable).parent)]
        path = os.pathsep.join([*places, os.environ.get("PATH", "")])
        self._environment = {
            **kept, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8", **variables
        }  # fmt: skip
        self._folder = folder
        self._closing = ExitStack()

    def run(self, command: str) -> tuple[str, int]:
        """Run a command; return its stdout and stderr, and its exit code."""
        assert self._process.stdin is not None and self._process.stdout is not None
        # In braces, so that what it sets is there for the next; the line break ends a comment.
        self._process.stdin.write(f"{{ {command}\n}} </dev/null 2>&1\nprintf '\\n%s %s\\n' '{_END}' $?\n")
        self._process.stdin.flush()
        watchdog = threading.Timer(PATIENCE, self._process.kill)
        watchdog.start()
        printed: list[str] = []
        try:
            for line in self._process.stdout:
                if line.startswith(_END):
                    return "".join(printed)[:-1], int(line.split()[-1])
                printed.append(line)
        finally:
            watchdog.cancel()
        raise AssertionError(f"the shell ended while it ran {command}:\n{''.join(printed)}")

    def __enter__(self) -> Shell:
        self._process = self._closing.enter_context(
            run_process(
                ["sh", "-s"],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._closing:
            self._process.communicate()
