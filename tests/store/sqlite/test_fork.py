"""Forking with a SQLite file open: no acknowledged write is lost, in whatever order the processes close."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import memoranda
from memoranda.errors import Corrupt, Unavailable

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]

WORKERS, WRITES = 3, 30

# Every form of forking, as users write it. A worker opens the file itself, writes a third of its facts, waits until the
# parent has done its part, and writes the rest; the first opens it only then. The parent has read and written before it
# forks, so that it has connections of both kinds, and a thread that goes on writing where the parent stays.
PROGRAM = """
import multiprocessing, os, signal, socket, sys, threading, warnings
from concurrent.futures import ProcessPoolExecutor
import memoranda

warnings.simplefilter("ignore", DeprecationWarning)
form, parent, path, workers, writes = *sys.argv[1:4], *map(int, sys.argv[4:])
context = multiprocessing.get_context("fork")
started, go_on = context.Semaphore(0), context.Event()

def work(number):
    try:
        if number == 0:
            started.release()
            assert go_on.wait(60)
        with memoranda.open(path) as own:
            scope = own.scope(user=f"worker{number}")
            for place in range(writes):
                if place == writes // 3 and number:
                    started.release()
                    assert go_on.wait(60)
                scope.set(f"k{place}", place)
        return "ok"
    except BaseException as error:
        started.release()
        return repr(error)

def in_fork(number):
    pid = os.fork()
    if pid == 0:
        answer = work(number)
        print(answer, file=sys.stderr) if answer != "ok" else None
        os._exit(0 if answer == "ok" else 1)
    return pid

def serve(number, listening):
    # A worker of a pre-fork server: it inherits the listening socket, and opens its memory when it starts.
    answer = work(number)
    connection, _ = listening.accept()
    connection.sendall(answer.encode())
    connection.close()
    os._exit(0)

memory = memoranda.open(path)
memory.scope(user="parent").set("before", 1)
memory.scope(user="parent").get("before")
stop = threading.Event()

def keep_writing():
    place = 0
    while not stop.is_set():
        place += 1
        memory.scope(user="thread").set(f"k{place}", place)
        memory.scope(user="thread").get(f"k{place}")
    print(place)

thread = threading.Thread(target=keep_writing)
if parent == "stays":
    thread.start()

answers = []
if form == "os.fork":
    pids = [in_fork(number) for number in range(workers)]
elif form == "multiprocessing":
    processes = [context.Process(target=lambda n=n: os._exit(work(n) != "ok")) for n in range(workers)]
    [process.start() for process in processes]
elif form == "ProcessPoolExecutor":
    pool = ProcessPoolExecutor(workers, mp_context=context)
    waiting = [pool.submit(work, number) for number in range(workers)]
elif form == "pre-fork server":
    listening = socket.create_server(("127.0.0.1", 0))
    pids = []
    for number in range(workers):
        pid = os.fork()
        if pid == 0:
            serve(number, listening)
        pids.append(pid)
for _ in range(workers):
    assert started.acquire(timeout=60)
if parent == "closes":
    memory.close()
elif parent == "writes":
    for place in range(writes):
        memory.scope(user="parent").set(f"k{place}", place)
go_on.set()
if form == "multiprocessing":
    for process in processes:
        process.join(60)
    answers = [process.exitcode for process in processes]
elif form == "ProcessPoolExecutor":
    answers = [one.result(60) for one in waiting]
    pool.shutdown()
else:
    if form == "pre-fork server":
        for _ in pids:
            with socket.create_connection(listening.getsockname()) as client:
                answers.append(client.makefile().read())
    answers += [os.waitpid(pid, 0)[1] for pid in pids]
stop.set()
if parent == "stays":
    thread.join(60)
memory.close()
assert set(answers) <= {0, "ok"}, answers
"""


def run(program: str, *arguments: object) -> str:
    command = [sys.executable, "-c", dedent(program), *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("parent", ["stays", "writes", "closes"])
@pytest.mark.parametrize("form", ["os.fork", "multiprocessing", "ProcessPoolExecutor", "pre-fork server"])
def test_no_acknowledged_write_is_lost(tmp_path: Path, form: str, parent: str) -> None:
    path = tmp_path / "m.db"
    by_thread = run(PROGRAM, form, parent, path, WORKERS, WRITES)
    with memoranda.open(path) as memory:
        kept = {f"worker{number}": len(memory.scope(user=f"worker{number}").list()) for number in range(WORKERS)}
        assert kept == dict.fromkeys(kept, WRITES)
        if parent == "stays":
            assert len(memory.scope(user="thread").list()) == int(by_thread)
        if parent == "writes":
            assert len(memory.scope(user="parent").list()) == WRITES + 1
        assert [finding for finding in memory.inspect() if not finding.ok] == []


def in_child(action: Callable[[], object]) -> str:
    """Run an action in a forked child; return what it answered."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = str(action())
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


def test_a_child_forked_inside_a_transaction_is_refused_and_harms_nobody(tmp_path: Path) -> None:
    path = tmp_path / "m.db"

    def open_own() -> object:
        with memoranda.open(path) as own:
            return own.scope(user="ada").set("child", 1)

    with memoranda.open(path) as memory:
        ada = memory.scope(user="ada")
        ada.set("k", 1)
        store = memory._gate._store
        answer = store.transact(lambda rows: in_child(open_own))
        assert answer.startswith("Unavailable:") and "spawn" in answer
        answer = store.read(lambda rows: in_child(open_own))
        assert answer.startswith("Unavailable:")
        assert ada.set("k", 2).version == 2
        assert in_child(open_own) == str(ada.get("child"))  # the control: outside of one it may
        assert [finding for finding in memory.inspect() if not finding.ok] == []


def test_a_child_that_leaves_a_transaction_of_its_parent_undoes_nothing(tmp_path: Path) -> None:
    # The child unwinds the parent's own transaction: what it would roll back is memory that both share.
    run(
        """
        import os, sys
        import memoranda
        memory = memoranda.open(sys.argv[1])
        ada = memory.scope(user="ada")
        ada.set("k0", 0)
        fact = ada.get("k0")
        parent = os.getpid()
        def work(rows):
            rows.put_fact(fact, b"1")
            child = os.fork()
            if child == 0:
                raise KeyError("the child leaves")
            assert os.waitpid(child, 0)[1] == 0
        try:
            memory._gate._store.transact(work)
        except BaseException as error:
            assert os.getpid() != parent, repr(error)
            del memory, ada
            sys.exit(0)
        for place in range(1, 51):
            ada.set(f"k{place}", place)
        assert ada.value("k0") == 1
        ada.set("k0", 1)
        assert all(finding.ok for finding in memory.inspect())
        memory.close()
        with memoranda.open(sys.argv[1]) as memory:
            assert len(memory.scope(user="ada").list()) == 51
        """,
        tmp_path / "m.db",
    )


def test_a_file_that_anybody_in_the_process_had_open_is_refused_in_the_child(tmp_path: Path) -> None:
    import apsw

    path = tmp_path / "m.db"
    memoranda.open(path).close()

    def open_own() -> None:
        memoranda.open(path).close()

    assert in_child(open_own) == "None"
    other = apsw.Connection(str(path))
    other.execute("SELECT count(*) FROM facts").fetchall()
    answer = in_child(open_own)
    other.close()
    assert answer.startswith("Unavailable:")
    assert in_child(open_own) == "None"


def test_a_fork_waits_for_reads_and_lets_them_go_on(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    reading, go_on = threading.Event(), threading.Event()
    with memoranda.open(path) as memory:
        memory.scope(user="ada").set("k", 1)
        store = memory._gate._store

        def read(rows: object) -> None:
            reading.set()
            assert go_on.wait(30)

        thread = threading.Thread(target=store.read, args=(read,))
        thread.start()
        assert reading.wait(30)
        threading.Timer(0.1, go_on.set).start()
        assert in_child(lambda: memoranda.open(path).close()) == "None"
        thread.join(30)
        assert memory.scope(user="ada").value("k") == 1
        memory.scope(user="ada").set("k", 2)
        assert memory.scope(user="ada").value("k") == 2


def test_a_store_that_was_closed_stays_closed_over_a_fork(tmp_path: Path) -> None:
    memory = memoranda.open(tmp_path / "m.db")
    memory.close()
    assert in_child(lambda: 1) == "1"
    with pytest.raises(Unavailable):
        memory.scope(user="ada").set("k", 1)


def test_a_file_that_lost_commits_is_noticed_by_the_next_write(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with memoranda.open(path) as memory:
        memory.scope(user="ada").set("old", 1)
    old = path.read_bytes()
    with memoranda.open(path) as memory:
        ada = memory.scope(user="ada")
        for place in range(5):
            ada.set(f"k{place}", place)
        # An old copy takes the place of the file, in the same inode, as a careless `cp` does it.
        with memoranda.open(path) as other:
            other.scope(user="ada").set("control", 1)
        ada.set("after control", 1)
        store: Any = memory._gate._store
        store.suspend()
        path.write_bytes(old)
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        store.resume()
        with pytest.raises(Corrupt, match="lost committed writes"):
            ada.set("later", 1)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="only Linux tells which files are open")
def test_doctor_notices_a_log_that_was_deleted_under_a_process(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with memoranda.open(path) as memory:
        memory.scope(user="ada").set("k", 1)
        assert all(finding.ok for finding in memory.inspect())
        os.unlink(f"{path}-wal")
        assert any("was deleted" in finding.detail for finding in memory.inspect() if not finding.ok)
