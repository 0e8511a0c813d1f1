"""Measure the start of a new process: the import, and the first recall of a database.

As a program, `fresh.py FILE` loads the embedder, opens the database and asks one question; each of the three is timed.
The file is in the system's page cache: these are not cold reads.
"""

from __future__ import annotations

import functools
import itertools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

_IMPORT = "import time; start = time.perf_counter(); import memoranda; print((time.perf_counter() - start) * 1000)"


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The milliseconds that a process took from its start to its first answer, without the import."""

    embedder: float
    opening: float
    first: float
    second: float


def time_import() -> float:
    """Return the milliseconds that `import memoranda` takes in a new process."""
    return float(_run("-c", _IMPORT))


def time_first_recall(path: Path) -> Start:
    """Return what opening a database and its first recall take in a new process."""
    return msgspec.json.decode(_run(__file__, str(path)), type=Start)


def _run(*arguments: str) -> bytes:
    return subprocess.check_output([sys.executable, *arguments], env=_compiled())


@functools.cache
def _compiled() -> dict[str, str]:
    """Return an environment in which every module is compiled already, as it is once a package is installed."""
    folder = tempfile.mkdtemp(prefix="memoranda-bench-")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = folder
    source = "import memoranda, memoranda.retrieval.rank, memoranda.retrieval.embed.wordllama"
    subprocess.check_call([sys.executable, "-c", source], env=environment)
    return environment


def _answer_once(path: str) -> Start:
    from corpus import COLLECTION, LIMIT, make_note

    import memoranda

    question = make_note(7).question
    marks = [time.perf_counter()]
    from memoranda.retrieval.embed.wordllama import WordLlama

    embedder = WordLlama()
    embedder.embed([question])
    marks.append(time.perf_counter())
    with memoranda.open(path, embedder=embedder) as memory:
        scope = memory.scope(user="mara")
        marks.append(time.perf_counter())
        for _ in range(2):
            if not scope.recall(question, collection=COLLECTION, namespace="", limit=LIMIT).results:
                raise RuntimeError(f"nothing was found in {path}")
            marks.append(time.perf_counter())
    loading, opening, first, second = ((b - a) * 1000 for a, b in itertools.pairwise(marks))
    return Start(embedder=loading, opening=opening, first=first, second=second)


if __name__ == "__main__":
    print(msgspec.json.encode(_answer_once(sys.argv[1])).decode())
