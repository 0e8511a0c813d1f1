"""`memoranda runs`: what machines and workflows did, and where their runs stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from memoranda.cli import wording
from memoranda.cli.command import Desk, command, group

if TYPE_CHECKING:
    from memoranda import RunEvent, RunSummary, RunVerification

app = group("runs", lists=True)


@command(app, "list", example="memoranda runs list --program answer --status waiting")
def list_runs(
    desk: Desk,
    program: Annotated[
        str | None, typer.Option("--program", metavar="NAME", help="Only runs of this machine or workflow.")
    ] = None,
    language: Annotated[
        Literal["mashin", "workflow"] | None,
        typer.Option("--language", metavar="NAME", help="Only runs of programs in mashin, or workflow."),
    ] = None,
    status: Annotated[
        Literal["running", "waiting", "completed", "failed", "cancelled"] | None,
        typer.Option("--status", metavar="STATUS", help="Only those running, waiting, completed, failed or cancelled."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="At most this many.")] = 20,
) -> None:
    """List runs and where they stand, those that started last first."""
    found = desk.memory.runs.list(program=program, language=language, status=status, limit=limit)
    if desk.out.json:
        return desk.out.document(found)
    if not found:
        return desk.out.remark("No runs.")
    from memoranda.runs.sources import WORDS

    rows = [
        (one.id, f"{WORDS[one.language]} {one.program}", one.status, desk.out.ago(one.started_at), _why(one))
        for one in found
    ]
    columns = ("run", "program", "status", "started", "why")
    desk.out.table(columns, rows, whole=("run", "status", "started"), folded=("program", "why"))


@command(app, "show", example="memoranda runs show run_01a1…")
def show(
    desk: Desk,
    run: Annotated[str, typer.Argument(metavar="RUN", help="As the list shows it.")],
) -> None:
    """Show where one run stands, and whether its events are whole."""
    found = desk.memory.runs.get(run)
    verified = desk.memory.runs.verify(run)
    if desk.out.json:
        from memoranda.wire.shapes import plain

        return desk.out.document({**plain(found), "verified": verified})
    desk.out.pairs(
        [
            ("run", found.id),
            ("program", found.program),
            ("language", found.language),
            ("text", found.digest),
            ("status", found.status),
            ("why", _why(found)),
            ("mode", found.mode),
            ("actor", found.actor),
            ("scope", found.scope or "(shared)"),
            ("started", wording.exact(found.started_at)),
            ("ended", wording.exact(found.ended_at)),
            ("steps", f"{found.steps:,}"),
            ("events", said(verified)),
            ("called by", found.parent or ""),
        ]
    )


def show_events(desk: Desk, run: str) -> None:
    """Print the events of one run, and whether they are whole; leave with 1 where they are not."""
    events, verified = desk.memory.runs.events(run), desk.memory.runs.verify(run)
    if desk.out.json:
        desk.out.document({"run": run, "events": events, "verified": verified})
    else:
        columns = ("index", "position", "kind", "step", "decision", "what")
        rows = [
            (str(one.index), str(one.position), one.kind, one.step or "", one.decision, _what(one)) for one in events
        ]
        desk.out.table(columns, rows, whole=(*columns[:3], "decision"), folded=("step", "what"))
        desk.out.say(said(verified))
    if not verified.ok:
        raise typer.Exit(1)


def said(verified: RunVerification) -> str:
    """Return on one line whether the events of a run are whole."""
    count = wording.count(verified.length, "event")
    if verified.ok:
        return f"ok, {count}, head {verified.head}"
    place = "broken" if verified.index is None else f"broken at event {verified.index}"
    return f"{place}: {verified.reason}; whole before it: {count}"


def _why(run: RunSummary) -> str:
    if run.error is not None:
        at = f" at {run.error['step']}" if run.error.get("step") else ""
        return wording.line(f"{run.error.get('type', 'error')}{at}: {run.error.get('message', '')}", longest=160)
    if run.waiting is not None:
        about = run.waiting.get("capability") or run.waiting.get("event") or run.waiting.get("run") or ""
        return wording.line(f"{run.waiting.get('kind', '')} at {run.waiting.get('step', '')}: {about}", longest=160)
    return ""


def _what(event: RunEvent) -> str:
    """Return what an event says beyond its step, without what `runs show` says of the whole run."""
    said_of_all = ("digest", "machine", "workflow", "mode")
    return wording.labels({name: value for name, value in event.detail.items() if name not in said_of_all})
