"""Run `memoranda` and small programs in processes forked from one that has already imported everything.

Most of a call's time goes into starting Python and importing. `folder()` returns a directory for the `PATH` of a shell,
in which `memoranda` is a small program that passes its arguments, working directory, environment and streams to the
waiting process, which forks, and exits with the exit code of the fork. `run_fork` runs such a process without a shell,
with the part of `subprocess.Popen` that tests use. Everything else is as with the real one.
"""

from __future__ import annotations

import atexit
import gc
import marshal
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Literal

from processes import LIFETIME, run_process, watch

_COMMAND = """\
#!/bin/sh
exec "{python}" -IS "{call}" "$@"
"""
_CALL = """\
import marshal, os, socket, sys

with socket.socket(socket.AF_UNIX) as line:
    line.connect({address!r})
    call = marshal.dumps((None, sys.argv, os.getcwd(), dict(os.environ)))
    socket.send_fds(line, [len(call).to_bytes(4, "big")], [0, 1, 2])
    line.sendall(call)
    line.recv(4, socket.MSG_WAITALL)  # its process id
    code = int.from_bytes(line.recv(2, socket.MSG_WAITALL), "big", signed=True)
# As a shell says it of one that was killed.
sys.exit(code if code >= 0 else 128 - code)
"""
Warmth = Literal["commands", "server", "models"]
_IMPORTED: dict[Warmth, tuple[str, ...]] = {
    "commands": ("numpy", "memoranda.abl", "memoranda.mashin", "memoranda.workflow", "rich.table"),
    "server": ("memoranda.server.launcher", "memoranda.server.app", "uvicorn.protocols.http.httptools_impl", "uvloop"),
    "models": ("pydantic_ai.direct", "pydantic_ai.models.anthropic", "pydantic_ai.models.openai"),
}
"""What is imported before it is called, where only commands are given, requests answered too, or models asked too."""
_WAIT = "import sys, warm_memoranda; warm_memoranda.main(*sys.argv[1:])"
_STREAMS = ((0, "r", -1), (1, "w", -1), (2, "w", 1))


@cache
def folder(warmth: Warmth = "commands") -> Path:
    """Return the directory of a `memoranda` that starts at once, with everything imported.

    The process behind it ends with this one.
    """
    made = Path(tempfile.mkdtemp(prefix="warm-"))
    address = str(made / "socket")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MEMORANDA_")}
    environment |= {"PYTHONIOENCODING": "utf-8", "OPENBLAS_NUM_THREADS": "1"}
    colder = list(_IMPORTED)[: list(_IMPORTED).index(warmth)]
    closing = ExitStack()
    waiting = closing.enter_context(
        run_fork(
            address,
            *_IMPORTED[warmth],
            program=_WAIT,
            warmth=colder[-1],
            env=environment,
            lifetime=threading.TIMEOUT_MAX,
        )
        if colder
        else run_process(
            [sys.executable, __file__, address, *_IMPORTED[warmth]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            lifetime=threading.TIMEOUT_MAX,
        )
    )
    assert waiting.stdout is not None and waiting.stdin is not None
    assert waiting.stdout.readline() == "ready\n"
    command = made / "bin" / "memoranda"
    command.parent.mkdir()
    call = made / "call.py"
    call.write_text(_CALL.format(address=address), encoding="utf-8")
    # The first line of a script may hold neither blanks nor a long path; what a shell is given may.
    command.write_text(_COMMAND.format(python=sys.executable, call=call), encoding="utf-8")
    command.chmod(0o755)
    parent = os.getpid()

    def end() -> None:
        # Forks of the tests' own process end too, and have nothing to clean up.
        if os.getpid() == parent:
            waiting.communicate()
            closing.close()

    atexit.register(end)
    return command.parent


@contextmanager
def run_fork(
    *arguments: object,
    program: str | None = None,
    warmth: Warmth = "commands",
    stderr: IO[Any] | int | None = None,
    env: Mapping[str, str] | None = None,
    lifetime: float = LIFETIME,
) -> Generator[Fork]:
    """Run the source of a program, or `memoranda` if there is none, while the block lasts.

    What it complains of goes to a file, nowhere (`DEVNULL`), or where our own complaints go.
    """
    with watch(Fork(*arguments, program=program, warmth=warmth, stderr=stderr, env=env), lifetime) as fork:
        yield fork


class Fork:
    """A Python program, or `memoranda` itself, in a fork, with the part of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        *arguments: object,
        program: str | None = None,
        warmth: Warmth = "commands",
        stderr: IO[Any] | int | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start it with pipes; tests call `run_fork`."""
        heard, says = os.pipe()
        hears, told = os.pipe()
        self.stdin = open(told, "w", encoding="utf-8")
        self.stdout = open(heard, encoding="utf-8")
        self.stderr = None
        self.returncode: int | None = None
        environment = dict(os.environ if env is None else env)
        call = marshal.dumps((program, ["memoranda", *map(str, arguments)], os.getcwd(), environment))
        self._line = socket.socket(socket.AF_UNIX)
        self._line.connect(str(folder(warmth).parent / "socket"))
        with open(os.devnull, "w") as nowhere:
            complains = 2 if stderr is None else (nowhere if isinstance(stderr, int) else stderr).fileno()
            socket.send_fds(self._line, [len(call).to_bytes(4, "big")], [hears, says, complains])
        self._line.sendall(call)
        os.close(hears)
        os.close(says)
        self.pid = int.from_bytes(self._line.recv(4, socket.MSG_WAITALL), "big")

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for it to exit; return the exit code, which is negative if it was killed."""
        if self.returncode is None:
            self._line.settimeout(timeout)
            try:
                said = self._line.recv(2)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("a fork", timeout or 0) from None
            assert said, "whoever watched the fork is gone"
            self.returncode = int.from_bytes(said, "big", signed=True)
            self._line.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Close its input; return the rest of its output, and wait for it to exit."""
        with suppress(BrokenPipeError):
            self.stdin.close()
        said = "" if self.stdout.closed else self.stdout.read()
        self.stdout.close()
        self.wait(timeout)
        return said, ""

    def send_signal(self, number: int) -> None:
        """Send a signal, if it is still running."""
        if self.poll() is None:
            # It may have ended since: the process that forked it waits for it, and then says so.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


def main(address: str, *imported: str) -> None:
    """Fork for each call at an address, until stdin ends."""
    from typer.main import get_command

    from memoranda.cli.app import app
    from memoranda.cli.index import COMMANDS
    from memoranda.retrieval.embed.wordllama import WordLlama

    root: Any = get_command(app)
    for command in COMMANDS:
        root.get_command(None, command)
    for name in imported:
        import_module(name)
    WordLlama().embed(["A first text has the weights read."])
    gc.freeze()
    # The forks are not waited for here: they watch the processes that they start, and report to the caller.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        print("ready", flush=True)
        while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
            line, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                _watch(line)
            line.close()
    # Here and not where it was made: workers of tests may end without a word.
    shutil.rmtree(Path(address).parent)


def _watch(line: socket.socket) -> None:
    """Carry out one call in a new process, report its id and how it ended, and exit."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    begun = os.fork()
    if begun == 0:
        _answer(line)
    line.send(begun.to_bytes(4, "big"))
    _, status = os.waitpid(begun, 0)
    with suppress(BrokenPipeError):
        line.send(os.waitstatus_to_exitcode(status).to_bytes(2, "big", signed=True))
    os._exit(0)


def _answer(line: socket.socket) -> None:
    """Carry out one call with the streams it came with, and exit."""
    head, streams, _, _ = socket.recv_fds(line, 4, 3)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    with line.makefile("rb") as rest:
        program, sys.argv, place, environment = marshal.loads(rest.read(int.from_bytes(head, "big")))
    # Python asks what kind of file a stream is when it opens it, so those that it has say what the old ones were.
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, buffering, encoding="utf-8", closefd=False) for number, mode, buffering in _STREAMS
    )
    os.chdir(place)
    os.environ.clear()
    os.environ.update(environment)
    line.close()
    os._exit(_leave(program))


def _leave(program: str | None) -> int:
    from memoranda.cli import main

    code = 1
    try:
        if program is None:
            main()
        else:
            exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
            code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    main(*sys.argv[1:])
