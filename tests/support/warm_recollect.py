"""`recollect` for the shells of tests: a process for each call, forked from one that has imported everything before.

Most of a call's time goes into starting Python and importing. `folder()` gives a folder for the `PATH` of a shell, in
which `recollect` is a small program that hands its arguments, folder, environment and streams to the process that
waits, has it fork, and leaves with the exit code of the fork. All else is as with the real one.
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
import traceback
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

_COMMAND = """\
#!/bin/sh
exec "{python}" -IS "{call}" "$@"
"""
_CALL = """\
import marshal, os, socket, sys

with socket.socket(socket.AF_UNIX) as line:
    line.connect({address!r})
    call = marshal.dumps((sys.argv, os.getcwd(), dict(os.environ)))
    socket.send_fds(line, [len(call).to_bytes(4, "big")], [0, 1, 2])
    line.sendall(call)
    code = line.recv(1)
# Who ends without a word was killed.
sys.exit(code[0] if code else 137)
"""
# What commands import when they are called, and is worth having before.
_WARM = ("numpy", "recollect.abl", "recollect.mashin", "recollect.workflow", "rich.table")
MODELS = ("pydantic_ai.direct", "pydantic_ai.models.anthropic", "pydantic_ai.models.openai")
"""What is imported where a model is asked."""
_STREAMS = ((0, "r", -1), (1, "w", -1), (2, "w", 1))


@cache
def folder(*imported: str) -> Path:
    """Return the folder of a `recollect` that starts at once, with these modules imported besides its own.

    The process behind it ends with this one.
    """
    made = Path(tempfile.mkdtemp(prefix="warm-"))
    address = str(made / "socket")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT_")}
    waiting = subprocess.Popen(
        [sys.executable, __file__, address, *imported],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**environment, "PYTHONIOENCODING": "utf-8", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert waiting.stdout is not None and waiting.stdin is not None
    assert waiting.stdout.readline() == b"ready\n"
    command = made / "bin" / "recollect"
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

    atexit.register(end)
    return command.parent


def main(address: str, *imported: str) -> None:
    """Fork for each call at an address, until stdin ends."""
    from typer.main import get_command

    from recollect.cli.app import app
    from recollect.cli.index import COMMANDS
    from recollect.retrieval.embed.wordllama import WordLlama

    root: Any = get_command(app)
    for command in COMMANDS:
        root.get_command(None, command)
    for name in (*_WARM, *imported):
        import_module(name)
    WordLlama().embed(["A first text has the weights read."])
    gc.freeze()
    # Nobody waits for the forks here: whoever called hears from them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        print("ready", flush=True)
        while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
            line, _ = listening.accept()
            if os.fork() == 0:
                _answer(line)
            line.close()
    # Here and not where it was made: workers of tests may end without a word.
    shutil.rmtree(Path(address).parent)


def _answer(line: socket.socket) -> None:
    """Carry out one call with the streams it came with, say its exit code, and end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, streams, _, _ = socket.recv_fds(line, 4, 3)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    with line.makefile("rb") as rest:
        sys.argv, place, environment = marshal.loads(rest.read(int.from_bytes(head, "big")))
    # Python asks what kind of file a stream is when it opens it, so those that it has say what the old ones were.
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, buffering, encoding="utf-8", closefd=False) for number, mode, buffering in _STREAMS
    )
    os.chdir(place)
    os.environ.clear()
    os.environ.update(environment)
    line.send(bytes([_leave()]))
    os._exit(0)


def _leave() -> int:
    from recollect.cli import main

    code = 1
    try:
        main()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    main(*sys.argv[1:])
