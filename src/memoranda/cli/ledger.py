"""`memoranda ledger`: verify, read and anchor the ledger."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memoranda.cli import formats
from memoranda.cli.command import Desk, argument, command, flag, group, option
from memoranda.errors import NotFound, UsageError

if TYPE_CHECKING:
    from memoranda import Anchor, Event, Verification

app = group("ledger")

_ANCHOR = re.compile(r"([0-9]{1,18}):([a-z0-9-]+:[0-9a-f]+)", re.ASCII)


@command(app, "verify", example="memoranda ledger verify --all-tenants")
def verify(
    desk: Desk,
    anchor: Annotated[
        str | None, option("LENGTH:HEAD", "An earlier `ledger anchor`: detects a truncated ledger.")
    ] = None,
    all_tenants: Annotated[bool, flag("Verify the ledgers of all tenants.", "--all-tenants")] = False,
) -> None:
    """Check that no event was changed, removed or reordered; exits with 1 and the first bad position otherwise."""
    expected = None if anchor is None else _parse_anchor(anchor)
    if all_tenants and expected is not None:
        raise UsageError("an anchor belongs to one tenant", hint="Use --tenant instead of --all-tenants")
    with desk.out.working("Verifying the ledger"):
        found = _verify_all(desk) if all_tenants else [(desk.tenant, desk.memory.ledger.verify(anchor=expected))]
    if desk.out.json:
        documents = [_verification_document(tenant, one) for tenant, one in found]
        desk.out.document(documents if all_tenants else documents[0])
    else:
        for tenant, one in found:
            name = f"{tenant}: " if all_tenants else ""
            if one.ok:
                desk.out.say(f"{name}ok, {formats.count(one.length, 'event')}, head {one.head}")
            else:
                desk.out.say(f"{name}broken at position {one.position}: {one.reason}; whole before it: {one.length}")
        if not found:
            desk.out.remark("No tenant has a ledger yet.")
    if not all(one.ok for _, one in found):
        raise typer.Exit(1)


@command(app, "tail", example="memoranda ledger tail -n 5")
def tail(
    desk: Desk,
    limit: Annotated[int, option("N", "The number of events.", "--limit", "-n", min=1)] = 20,
) -> None:
    """Show the newest events, oldest first."""
    events = desk.memory.ledger.tail(limit)
    if desk.out.answers(events, empty="The ledger is empty."):
        return
    rows = [
        (str(one.position), desk.out.ago(one.at), one.actor, one.effect, one.decision, _subject(one)) for one in events
    ]
    columns = ("position", "when", "actor", "effect", "decision", "what")
    desk.out.table(columns, rows, whole=("position", "when", "effect", "decision"), folded=("actor", "what"))


@command(app, "deletions", scoped=True, example="memoranda ledger deletions --user ada")
def deletions(desk: Desk) -> None:
    """List what was deleted, oldest first: what, where, by whom and under which permission epoch."""
    found = desk.memory.ledger.deletions(desk.scope if desk.names_scope else None)
    if desk.out.answers(found, empty="Nothing was deleted."):
        return
    rows = [
        (str(one.position), desk.out.ago(one.at), one.actor, one.effect, str(one.scope), one.key or one.resource or "")
        for one in found
    ]
    desk.out.table(
        ("position", "when", "actor", "effect", "scope", "what"),
        rows,
        whole=("position", "when", "effect"),
        folded=("actor", "scope", "what"),
    )


@command(app, "rollbacks", scoped=True, example="memoranda ledger rollbacks --user ada")
def rollbacks(desk: Desk) -> None:
    """List what was undone, oldest first, with how many reads and memories had depended on the state before."""
    found = desk.memory.ledger.rollbacks(desk.scope if desk.names_scope else None)
    if desk.out.answers(found, empty="Nothing was undone."):
        return
    rows = [
        (
            str(one.position),
            desk.out.ago(one.at),
            one.actor,
            str(one.scope),
            ", ".join(one.refs),
            str(len(one.dependants)),
            str(len(one.derived)),
        )
        for one in found
    ]
    desk.out.table(
        ("position", "when", "actor", "scope", "brought back", "served", "derived"),
        rows,
        whole=("position", "when", "served", "derived"),
        folded=("actor", "scope", "brought back"),
    )


@command(app, "show", example="memoranda ledger show 12")
def show(
    desk: Desk,
    what: Annotated[str, argument("POSITION|RUN", "A position, 1 being the first event; or the id of a run.")],
) -> None:
    """Show all fields of one event, or the events of a run.

    The events of a run are also verified; exits with 1 if they are not intact.
    """
    if not re.fullmatch(r"[0-9]{1,18}", what, re.ASCII):
        from memoranda.cli.run_results import show_events

        return show_events(desk, what)
    position = int(what)
    if position < 1:
        raise UsageError(f"`{position}` is not a valid position", hint="1 is the first event")
    events = desk.memory.ledger.events(start=position, limit=1)
    if not events or events[0].position != position:
        raise NotFound(f"unknown event at position `{position}`", hint="`memoranda ledger tail` shows the newest ones")
    event = events[0]
    desk.out.details(
        event,
        [
            ("position", str(event.position)),
            ("at", formats.exact(event.at)),
            ("actor", f"{event.actor} through {event.door}"),
            ("effect", event.effect),
            ("decision", event.decision),
            ("scope", event.scope or "(shared)"),
            ("key", event.key or ""),
            ("resource", event.resource or ""),
            ("version", "" if event.version is None else str(event.version)),
            ("detail", formats.value(event.detail) if event.detail else ""),
            ("text", "" if event.text is None else formats.value(event.text)),
            ("content", event.content or ""),
            ("epoch", str(event.epoch)),
            ("previous", event.prev_hash),
            ("hash", event.hash),
        ],
    )


@command(app, "anchor", example="memoranda ledger anchor > anchor.txt")
def anchor(desk: Desk) -> None:
    """Print the ledger's length and head hash. Store it where the operator of the database has no access."""
    with desk.out.working("Verifying the ledger"):
        taken = desk.memory.ledger.anchor()
    desk.out.result({"tenant": desk.tenant, "length": taken.length, "head": taken.head}, f"{taken.length}:{taken.head}")


def _verify_all(desk: Desk) -> list[tuple[str, Verification]]:
    found: list[tuple[str, Verification]] = []
    for tenant in desk.memory.tenants():
        with desk.open(tenant) as memory:
            found.append((tenant, memory.ledger.verify()))
    return found


def _parse_anchor(text: str) -> Anchor:
    from memoranda import Anchor

    match = _ANCHOR.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"`{text}` is not an anchor", hint="Write LENGTH:HEAD as `memoranda ledger anchor` prints it")
    return Anchor(int(match[1]), match[2])


def _verification_document(tenant: str, found: Verification) -> dict[str, Any]:
    from memoranda.wire.codec import plain

    return {"tenant": tenant, **plain(found)}


def _subject(event: Event) -> str:
    what = event.key or event.resource or ""
    if event.scope == f"run:{what}":  # what happened to a run, in its own scope
        return event.scope
    return f"{event.scope} {what}".strip()
