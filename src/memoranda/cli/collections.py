"""`memoranda collections`: where entries are kept, and what embeds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memoranda.cli import wording
from memoranda.cli.asking import confirm
from memoranda.cli.command import Desk, command, group
from memoranda.cli.options import Yes
from memoranda.errors import UsageError

if TYPE_CHECKING:
    from memoranda.engine.comparison import Comparison

app = group("collections", lists=True)

Name = Annotated[str, typer.Argument(metavar="COLLECTION", help="As `memoranda collections` shows it.")]
To = typer.Option("--to", metavar="EMBEDDER", help="The other embedder, named as for --embedder.")


@command(app, "list", example="memoranda collections list --json")
def list_collections(desk: Desk) -> None:
    """List every collection, what embeds it, and how much is in it."""
    found = desk.memory.collections.list()
    if desk.out.json:
        return desk.out.document(found)
    if not found:
        return desk.out.remark("No collections.")
    rows = [
        (
            one.name,
            one.embedder,
            str(one.dimension),
            f"{one.entries:,}",
            f"{one.namespaces:,}",
            "" if one.moving_to is None else f"{one.moving_to} ({one.moved:,} moved)",
        )
        for one in found
    ]
    columns = ("name", "embedder", "dimension", "entries", "namespaces", "moving to")
    if not any(one.moving_to for one in found):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    desk.out.table(columns, rows, whole=("entries",), folded=("name", "embedder", "moving to"))


@command(app, "delete", example="memoranda collections delete notes --yes")
def delete(desk: Desk, name: Name, yes: Yes = False) -> None:
    """Delete a collection with its entries in every scope; asks first."""
    desk.require_database()
    confirm(f"Delete the collection `{name}` with its entries in every scope? This cannot be undone.", yes=yes)
    entries = desk.memory.collections.delete(name)
    if desk.out.json:
        return desk.out.document({"tenant": desk.tenant, "collection": name, "deleted": True, "entries": entries})
    desk.out.say(f"{name} is deleted, with {wording.count(entries, 'entry')}")


@command(app, "compare", embeds=True, example="memoranda collections compare notes --to onnx:models/minilm")
def compare(
    desk: Desk,
    name: Name,
    to: Annotated[str, To],
    query: Annotated[
        list[str] | None, typer.Option("--query", metavar="TEXT", help="Ask this; repeat for more.")
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", min=1, metavar="N", help="Look through at most this many entries.")
    ] = 500,
) -> None:
    """Tell what recall would gain or lose with another embedder; nothing is written.

    Without --query, entries are looked for with every other word of their own text, and the better embedder finds
    more of them. Your own queries say how much of what is found would stay the same.
    """
    with desk.out.working("Comparing"):
        found = desk.memory.collections.compare(name, to, queries=query or (), sample=sample)
    if desk.out.json:
        return desk.out.document(found)
    _show(desk, found)


@command(app, "reembed", embeds=True, example="memoranda collections reembed notes --to onnx:models/minilm")
def reembed(
    desk: Desk,
    name: Name,
    to: Annotated[str | None, To] = None,
    give_up: Annotated[bool, typer.Option("--give-up", help="Drop a move that was begun and stay as it was.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only compare, as `collections compare` does.")] = False,
) -> None:
    """Move a collection to another embedder while it is in use.

    Entries are found by their old vectors until each has a new one; then the collection switches at once. When this
    is interrupted, the same command goes on where it stopped.
    """
    if give_up:
        if to is not None or dry_run:
            raise UsageError(
                "--give-up goes with no other option", hint=f"memoranda collections reembed {name} --give-up"
            )
        stayed = desk.memory.collections.give_up_reembedding(name)
        if desk.out.json:
            return desk.out.document(stayed)
        return desk.out.say(f"{name} stays with {stayed.space.embedder}")
    if to is None:
        raise UsageError("the embedder to move to is missing", hint="Name it with --to, or pass --give-up")
    if dry_run:
        with desk.out.working("Comparing"):
            found = desk.memory.collections.compare(name, to)
        if desk.out.json:
            return desk.out.document(found)
        _show(desk, found)
        return desk.out.remark("Nothing was changed.")
    try:
        with desk.out.counting("Embedding") as told:
            moved = desk.memory.collections.reembed(name, to, progress=told)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "Interrupted. The same command goes on where it stopped; with --give-up, all stays as it was."
        ) from None
    if desk.out.json:
        return desk.out.document(moved)
    desk.out.say(f"{name} is embedded by {moved.space.embedder} now")


def _show(desk: Desk, found: Comparison) -> None:
    desk.out.pairs(
        [
            ("collection", found.collection),
            ("today", found.embedder + _finds(found.found)),
            ("other", found.other + _finds(found.other_found)),
            ("agreement", f"{found.agreement:.0%} of the first ten"),
            ("made of", f"{wording.count(found.queries, 'query')} over {wording.count(found.entries, 'entry')}"),
        ]
    )


def _finds(share: float | None) -> str:
    return "" if share is None else f", finds {share:.0%} of what is looked for"
