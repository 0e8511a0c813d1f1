"""`memoranda erase`, `sweep`, `doctor` and `config`."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memoranda.cli import formats
from memoranda.cli.command import Config, Desk, Yes, command, flag, group
from memoranda.cli.output import confirm
from memoranda.errors import Busy, EmbedderError, StorageError, UsageError
from memoranda.server.environment import resolve_all

if TYPE_CHECKING:
    from memoranda.governance.maintenance import Finding
    from memoranda.model.probes import Remains


app = group()


@command(app, "erase", changes=True, scoped=True, example="memoranda erase --user ada --yes")
def erase(desk: Desk, yes: Yes = False) -> None:
    """Erase all memory of a user or another subject.

    This includes the history and cannot be undone, so it asks first. The receipt says what was removed, and at which
    position the ledger records it.
    """
    scope = desk.scope
    if not scope.path:
        raise UsageError("an erasure needs a subject", hint="Name one with --user, --project, --scope…")
    desk.require_database()
    confirm(f"Erase everything of {scope} in tenant {desk.tenant}? This cannot be undone.", yes=yes)
    receipt = desk.memory.erase(**dict(scope.parts))
    if desk.out.answers(receipt):
        return
    desk.out.pairs(
        [
            ("erased", str(receipt.scope)),
            ("receipt", receipt.id),
            ("at", formats.exact(receipt.at)),
            ("removed", formats.counts(receipt.removed) or "nothing was there"),
            ("ledger", f"position {receipt.position}"),
            ("scrubbed", "yes" if receipt.scrubbed else "no"),
        ]
    )
    if not receipt.scrubbed:
        desk.out.remark(f"Removed text may still be in {_places(receipt.remains)}.")
        if receipt.remains.reason:
            desk.out.remark(f"Why: {receipt.remains.reason}.")
        desk.out.remark("`memoranda sweep --scrub` rewrites the tables, and others wait for it.")


def _places(remains: Remains) -> str:
    named = {
        "dead_rows": "dead rows",
        "index_entries": "entries of indexes",
        "free_space": "free space",
        "log": "the write-ahead log",
        "copies": "copies such as backups",
    }
    return ", ".join(text for name, text in named.items() if getattr(remains, name) != "gone")


@command(app, "sweep", changes=True, example="memoranda sweep --scrub")
def sweep(
    desk: Desk,
    scrub: Annotated[bool, flag("Also rewrite the file, so that no deleted text remains in it.", "--scrub")] = False,
) -> None:
    """Delete expired memory.

    Expired memory is invisible before that; a sweep frees its space and deletes its history. On PostgreSQL, `--scrub`
    rewrites the partitions of the tenant.
    """
    with desk.out.working("Sweeping"):
        swept = desk.memory.sweep()
        scrubbed = desk.memory.scrub() if scrub else None
    removed = {
        "facts": swept.facts,
        "revisions": swept.revisions,
        "entries": swept.entries,
        "idempotency_keys": swept.idempotency_keys,
        "runs": swept.runs,
    }
    if scrubbed is False:
        raise Busy(
            "expired memory was removed, but others use the database, so its file could not be rewritten",
            hint="Run `memoranda sweep --scrub` again once they are done",
            removed=removed,
        )
    desk.out.result(
        {"tenant": desk.tenant, "removed": removed, "scrubbed": bool(scrubbed)},
        f"Removed: {formats.counts(removed) or 'nothing'}" + ("; the file is scrubbed" if scrubbed else ""),
    )


@command(app, "upgrade", example="memoranda upgrade --finish")
def upgrade(
    desk: Desk,
    finish: Annotated[
        bool, flag("Refuse programs of earlier versions from now on, and remove what only they need.", "--finish")
    ] = False,
) -> None:
    """Upgrade the database to this version.

    Opening a database does that, too. On PostgreSQL, programs of the version before may go on until it is finished.
    """
    desk.require_database()
    finished = desk.memory.finish_migration() if finish else None
    text = {None: "The database has the schema of this version", True: "Finished", False: "Nothing was left to finish"}
    desk.out.result({"finished": bool(finished)}, text[finished])


_LOW = 100_000_000
"""Bytes of free disk space below which writes will soon fail."""


@command(app, "doctor", embeds=True, example="memoranda doctor --json")
def doctor(desk: Desk) -> None:
    """Check the database for problems.

    This checks versions, disk, file, embedder, the ledgers of all tenants, whether ledger, facts, history and entries
    agree, and whether vectors and words match their entries. Exits with 1 if there are problems.
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
        desk.out.remark(f"{bad} of {len(findings)} checks failed." if bad else "No problems found.")
    if not well:
        raise typer.Exit(1)


def _findings(desk: Desk) -> Iterator[Finding]:
    from importlib.metadata import version

    import memoranda
    from memoranda.governance.maintenance import Finding

    def finding(what: str, detail: str, *, ok: bool = True) -> Finding:
        return Finding(what=what, ok=ok, detail=detail)

    yield finding("memoranda", memoranda.__version__)
    yield finding("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    # The driver carries its own SQLite and is numbered after it.
    driver = version("apsw")
    yield finding("SQLite", f"{'.'.join(driver.split('.')[:3])} (apsw {driver})")
    file = desk.settings.file
    if file is not None:
        path = os.path.abspath(file)
        yield finding("database file", f"{path}, {formats.size(_bytes_of(path))}")
        free = shutil.disk_usage(os.path.dirname(path)).free
        yield finding("free disk space", formats.size(free), ok=free >= _LOW)
    yield finding("durability", str(desk.settings["durability"]))
    yield _embedder(desk.settings["embedder"])
    try:
        memory = desk.memory
        yield finding("schema", "current")  # an older one was migrated by opening it, a newer one is refused
        if desk.settings["read_from"] == "standby":
            yield finding("staleness", f"reads are at most {memory.staleness():.1f} s behind the primary")
        yield from memory.inspect()
    except StorageError as damage:
        yield finding("storage", str(damage), ok=False)


def _embedder(name: str) -> Finding:
    """Check that the configured embedder can be loaded and embeds a word."""
    from memoranda.governance.maintenance import Finding
    from memoranda.retrieval.embed.registry import resolve

    try:
        embedder = resolve(name)
        embedder.embed(["hello"])
    except (UsageError, EmbedderError) as fault:
        return Finding(what="embedder", ok=False, detail=f"{name}: {fault}")
    return Finding(what="embedder", ok=True, detail=f"{embedder.id}, {embedder.dimension} dimensions")


def _bytes_of(path: str) -> int:
    """Return the size of a database: the file and its write-ahead log."""
    return sum(os.path.getsize(part) for part in (path, path + "-wal") if os.path.exists(part))


config_app = group("config")


@command(config_app, "show", embeds=True, example="MEMORANDA_DB=team.db memoranda config show")
def show_config(
    desk: Desk,
    config: Config = None,
) -> None:
    """Show each setting, the origin of its value, and its environment variable. Opens no database."""
    settings = resolve_all(desk.settings, config=config)
    if desk.out.answers(
        {one.name: {"value": one.shown, "origin": one.origin, "variable": one.variable} for one in settings.all}
    ):
        return
    rows = [(one.name, _text(one.shown), one.origin, one.variable) for one in settings.all]
    desk.out.table(("setting", "value", "from", "variable"), rows, folded=("value",))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(value) if isinstance(value, tuple) else str(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
