"""A primary with its synchronous standby, and eight writers and a recaller who go on when the standby takes over."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any, Literal

import postgres_server
import warm_memoranda

import memoranda

How = Literal["SIGQUIT", "SIGKILL", "SIGSTOP"]
WRITERS = 8
TENANTS = [f"tenant{number}" for number in range(4)]
PATIENCE = 60.0
"""Seconds in which everybody has to go on after the standby was promoted."""

_WORK = """
import json, os, sys, threading
import memoranda

address, patience = sys.argv[1], float(sys.argv[2])
memory = memoranda.open(address, busy_timeout=patience, embedder="hashing:32")
over = threading.Event()

def say(**said):
    # One write of one whole line: the threads' lines do not mix.
    os.write(1, (json.dumps(said) + "\\n").encode())

def write(number):
    there = memory.in_tenant(f"tenant{number % 4}")
    own, shared = there.scope(user=f"writer{number}"), there.scope(project="shared")
    turn = 0
    while not over.is_set():
        turn += 1
        kind = ("set", "count", "remember")[turn % 3]
        try:
            if kind == "set":
                said = {"version": own.set(f"key{turn % 5}", turn).version, "key": f"key{turn % 5}", "value": turn}
            elif kind == "count":
                fact = shared.update("count", lambda count: count + 1, default=0)
                said = {"version": fact.version, "value": fact.value}
            else:
                said = {"id": own.remember(f"note {turn} of writer {number}", collection="notes").id}
        except memoranda.StorageError as error:
            say(who=number, failed=type(error).__name__, error=str(error))
        else:
            say(who=number, kind=kind, **said)

def recall():
    own = memory.in_tenant("tenant0").scope(user="writer0")
    while not over.wait(0.02):
        try:
            found = own.recall("note of writer", collection="notes", limit=5)
        except memoranda.NotFound:
            pass  # nothing was remembered yet
        except memoranda.StorageError as error:
            say(who="recaller", failed=type(error).__name__, error=str(error))
        else:
            if found.results:
                say(who="recaller", kind="recall", found=[match.content for match in found.results])

threads = [threading.Thread(target=write, args=(number,)) for number in range(8)] + [threading.Thread(target=recall)]
for thread in threads:
    thread.start()
sys.stdin.readline()
over.set()
for thread in threads:
    thread.join()
memory.close()
"""


class Pair:
    """A primary whose commits wait for its standby."""

    def __init__(self, programs: Path) -> None:
        """Start both."""
        self.primary = postgres_server.PostgresServer(programs)
        self.standby = postgres_server.PostgresServer(programs, following=self.primary)
        self._stopped: list[int] = []
        self.primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
        folders = f"{self.primary.folder},{self.standby.folder}"
        self.address = f"postgresql://owner@/postgres?host={folders}&target_session_attrs=read-write"

    def fail(self, how: How) -> None:
        """Kill all processes of the primary, or freeze them."""
        signals = {"SIGKILL": signal.SIGKILL, "SIGSTOP": signal.SIGSTOP}
        if how == "SIGQUIT":
            self.primary.stop(signal.SIGQUIT)
            return
        leader = int((self.primary.folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(leader, signal.SIGSTOP)  # it starts no more of them
        self._stopped = [leader, *children_of(leader)]
        for process in reversed(self._stopped):
            os.kill(process, signals[how])

    def promote(self) -> None:
        """Let the standby take over; it waits for no other."""
        self.standby.execute(
            "SELECT pg_promote()",
            "ALTER SYSTEM SET synchronous_standby_names = ''",
            "SELECT pg_reload_conf()",
        )

    def remove(self) -> None:
        """Remove both. A frozen primary does not wake up: it would take itself for the primary."""
        for process in reversed(self._stopped):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.standby.remove()
        self.primary.remove()


def children_of(process: int) -> list[int]:
    """Return the processes that a process has started and that live."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue  # it has just ended
            if parent == process:
                found.append(int(entry.name))
    return found


class Workers:
    """A process with eight writers, two in each tenant, and one who recalls; what they say is kept with its moment."""

    def __init__(self, process: Any) -> None:
        """Begin to listen to a process that was started with `_WORK`."""
        self._process = process
        self._lock = threading.Lock()
        self._said: list[tuple[float, dict[str, Any]]] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def said(self) -> list[tuple[float, dict[str, Any]]]:
        """Return everything that was said so far."""
        with self._lock:
            return list(self._said)

    def wait_for(self, times: int, *, since: float = 0.0) -> None:
        """Wait until each writer has had this many answers since a moment, and a recall has had one."""
        deadline = time.monotonic() + PATIENCE
        while True:
            counts: Counter[int | str] = Counter()
            failures: list[str] = []
            for at, said in self.said():
                if at >= since and "failed" not in said:
                    counts[said["who"]] += 1
                elif at >= since:
                    failures.append(said["error"])
            waiting = [who for who in range(WRITERS) if counts[who] < times]
            if not waiting and counts["recaller"]:
                return
            if time.monotonic() > deadline or not self._listener.is_alive():
                raise AssertionError(
                    f"after {PATIENCE:g} s {waiting or 'the recaller'} had not gone on: {failures[-3:]}"
                )
            time.sleep(0.02)

    def stop(self) -> None:
        """Let them end, and hear the rest."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._listener.join(PATIENCE)
        assert not self._listener.is_alive(), "the workers did not end"

    def _listen(self) -> None:
        for line in self._process.stdout:
            with self._lock:
                self._said.append((time.monotonic(), json.loads(line)))


@contextmanager
def working(address: str, *, patience: float = 30.0) -> Iterator[Workers]:
    """Let everybody work on an address while the block lasts."""
    with ExitStack() as stack:
        complaints = stack.enter_context(tempfile.TemporaryFile())
        process = stack.enter_context(
            warm_memoranda.run_fork(address, patience, program=dedent(_WORK), stderr=complaints, lifetime=3 * PATIENCE)
        )
        try:
            yield Workers(process)
        except AssertionError as failure:
            complaints.seek(0)
            failure.add_note(complaints.read().decode(errors="replace")[-2000:])
            raise


def lost(address: str, said: list[tuple[float, dict[str, Any]]]) -> list[str]:
    """Return, in words, what was acknowledged and is not there, versions that are there twice, and damage."""
    wrong: list[str] = []
    by_writer: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for _, one in said:
        if isinstance(one["who"], int) and "failed" not in one:
            by_writer[one["who"]].append(one)
    with memoranda.open(address, embedder="hashing:32") as memory:
        counted: defaultdict[str, list[int]] = defaultdict(list)
        for who, answers in by_writer.items():
            tenant = TENANTS[who % len(TENANTS)]
            own = memory.in_tenant(tenant).scope(user=f"writer{who}")
            entries = {entry.id for entry in own.entries(collection="notes", limit=None)}
            histories = {key: own.history(key) for key in {one["key"] for one in answers if one["kind"] == "set"}}
            versions = {key: {one.version: one.value for one in history} for key, history in histories.items()}
            wrong += [f"{key} of writer {who}: {len(history)} revisions, {len(versions[key])} versions"
                      for key, history in histories.items() if len(history) != len(versions[key])]  # fmt: skip
            for one in answers:
                if one["kind"] == "set" and versions[one["key"]].get(one["version"]) != one["value"]:
                    wrong.append(f"writer {who}: {one} is not in the history")
                if one["kind"] == "remember" and one["id"] not in entries:
                    wrong.append(f"writer {who}: {one} is not among the entries")
                if one["kind"] == "count":
                    counted[tenant].append(one["version"])
        for tenant in TENANTS:
            there = memory.in_tenant(tenant)
            there.settle()  # whatever is chained a moment after its commit
            history = there.scope(project="shared").history("count")
            numbers = list(range(1, len(history) + 1))
            if [one.version for one in history] != numbers or [one.value for one in history] != numbers:
                wrong.append(f"{tenant}: the counter went {[(one.version, one.value) for one in history]}")
            if len(set(counted[tenant])) != len(counted[tenant]) or max(counted[tenant]) > len(history):
                wrong.append(
                    f"{tenant}: of the counter's versions {sorted(counted[tenant])} one was told twice or is lost"
                )
            if not there.ledger.verify().ok:
                wrong.append(f"{tenant}: the ledger does not verify")
        wrong += [finding.detail for finding in memory.inspect() if not finding.ok]
    return wrong


def survive(
    programs: Path, how: How, *, times: int = 5, tell: Callable[[str], object] = lambda line: None
) -> list[str]:
    """Let everybody work, lose the primary, promote the standby; return what was lost once all have gone on."""
    pair = Pair(programs)
    try:
        with working(pair.address) as workers:
            workers.wait_for(times)
            start = time.monotonic()
            pair.fail(how)
            pair.promote()
            promoted = time.monotonic()
            workers.wait_for(times, since=promoted)
            back = time.monotonic() - start
            workers.stop()
            said = workers.said()
        failures = Counter(one["failed"] for _, one in said if "failed" in one)
        answers = sum("failed" not in one for _, one in said)
        tell(f"{how}: {answers} answers, all went on after {back:.1f} s, errors: {dict(failures) or 'none'}")
        wrong = lost(pair.standby.url(), said)
        return wrong
    finally:
        pair.remove()
