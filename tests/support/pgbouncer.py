"""PgBouncer in transaction mode before a server of PostgreSQL, where it is installed."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import postgres_server
import psycopg
from processes import run_process

_CONFIGURATION = """\
[databases]
postgres = host={server} user=owner pool_size={connections}
[pgbouncer]
listen_addr =
listen_port = 5432
unix_socket_dir = {folder}
auth_type = any
pool_mode = {mode}
logfile = {folder}/log
{more}
"""
_KEEPS_STATEMENTS = (1, 21)
"""The first version that can keep prepared statements in transaction mode."""


def program() -> Path | None:
    """Return the program, or None if it is not installed."""
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    return Path(found) if found else None


def keeps_statements(program: Path) -> bool:
    """Say whether this version can keep prepared statements in transaction mode."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    major, minor = re.findall(r"\d+", said)[:2]
    return (int(major), int(minor)) >= _KEEPS_STATEMENTS


@contextmanager
def pooling(
    program: Path,
    server: postgres_server.PostgresServer,
    *,
    mode: str = "transaction",
    connections: int = 2,
    more: str = "",
) -> Iterator[str]:
    """Yield the address of a pooler with so few connections that clients get another one with every transaction."""
    with tempfile.TemporaryDirectory(prefix="bouncer-") as name:
        folder = Path(name)
        user = "nobody" if os.geteuid() == 0 else None  # root is refused
        configuration = folder / "pgbouncer.ini"
        configuration.write_text(
            _CONFIGURATION.format(server=server.folder, folder=folder, mode=mode, connections=connections, more=more)
        )
        if user is not None:
            for one in (folder, configuration):
                os.chown(one, pwd.getpwnam(user).pw_uid, -1)
        address = f"postgresql://owner@/postgres?host={folder}"
        with run_process(
            [program, configuration], user=user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            deadline = time.monotonic() + postgres_server.PATIENCE
            while True:
                try:
                    psycopg.connect(address).close()
                    break
                except psycopg.OperationalError:
                    if time.monotonic() > deadline or process.poll() is not None:
                        raise
                    time.sleep(0.02)
            yield address
