"""`memoranda doctor`: is everything well, from the disk to the last link of the chain?"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from memoranda.cli import wording
from memoranda.cli.command import Desk, command, group
from memoranda.errors import EmbedderError, StorageError, UsageError

if TYPE_CHECKING:
    from memoranda.governance.inspection import Finding

_LOW = 100_000_000
"""Bytes of free disk space below which writes will soon fail."""


app = group()


@command(app, "doctor", embeds=True, example="memoranda doctor --json")
def doctor(desk: Desk) -> None:
    """Check the database for problems.

    Versions, disk, file, embedder, every tenant's chain, whether ledger, facts, history and entries agree, and whether
    vectors and words are those of their entries. Leaves with 1 when anything is not well.
    """
    desk.require_database()
    with desk.out.working("Examining"):
        findings = list(_findings(desk))
    well = all(finding.ok for finding in findings)
    if desk.out.json:
        desk.out.document({"ok": well, "findings": findings})
    else:
        rows = [("ok" if finding.ok else "BAD", finding.what, finding.detail) for finding in findings]
        desk.out.table(("", "what", "detail"), rows, folded=("what", "detail"))
        bad = sum(not finding.ok for finding in findings)
        desk.out.remark(f"{bad} of {len(findings)} not well." if bad else "Everything is well.")
    if not well:
        raise typer.Exit(1)


def _findings(desk: Desk) -> Iterator[Finding]:
    from importlib.metadata import version

    import memoranda
    from memoranda.governance.inspection import Finding

    def found(what: str, detail: str, *, ok: bool = True) -> Finding:
        return Finding(what=what, ok=ok, detail=detail)

    yield found("memoranda", memoranda.__version__)
    yield found("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    # The driver carries its own SQLite and is numbered after it.
    driver = version("apsw")
    yield found("SQLite", f"{'.'.join(driver.split('.')[:3])} (apsw {driver})")
    file = desk.settings.file
    if file is not None:
        path = os.path.abspath(file)
        yield found("database file", f"{path}, {wording.size(_bytes_of(path))}")
        free = shutil.disk_usage(os.path.dirname(path)).free
        yield found("free disk space", wording.size(free), ok=free >= _LOW)
    yield found("durability", str(desk.settings["durability"]))
    yield _embedder(desk.settings["embedder"])
    try:
        memory = desk.memory
        yield found("schema", "current")  # an older one was migrated by opening it, a newer one is refused
        yield from memory.inspect()
    except StorageError as damage:
        yield found("storage", str(damage), ok=False)


def _embedder(name: str) -> Finding:
    """Return whether the embedder in force can be loaded and embeds a word."""
    from memoranda.governance.inspection import Finding
    from memoranda.retrieval.embed.naming import resolve

    try:
        embedder = resolve(name)
        embedder.embed(["hello"])
    except (UsageError, EmbedderError) as fault:
        return Finding(what="embedder", ok=False, detail=f"{name}: {fault}")
    return Finding(what="embedder", ok=True, detail=f"{embedder.id}, {embedder.dimension} dimensions")


def _bytes_of(path: str) -> int:
    """Return the size of a database: the file and its write-ahead log."""
    return sum(os.path.getsize(part) for part in (path, path + "-wal") if os.path.exists(part))
