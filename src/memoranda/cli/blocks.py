"""`memoranda blocks`: show, set, delete and undo texts that are replaced whole, and recall their lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from memoranda.cli import wording
from memoranda.cli.command import Desk, command, group
from memoranda.cli.options import Once, Source
from memoranda.cli.reading import read_value
from memoranda.errors import NotFound, UsageError

if TYPE_CHECKING:
    from memoranda import Block, Revision
    from memoranda.api.blocks import Blocks

app = group("blocks")

Type = Annotated[
    Literal["core", "archival"],
    typer.Argument(metavar="BLOCK", help="core, which agents always see, or archival, which they search."),
]
Expected = Annotated[
    str | None,
    typer.Option("--expected-updated-at", metavar="MOMENT", help="Only if the block was last written then: ISO 8601."),
]


@command(app, "list", scoped=True, example="memoranda blocks list --user ada --all")
def list_blocks(
    desk: Desk,
    every: Annotated[bool, typer.Option("--all", help="Those of the user's agents too.")] = False,
) -> None:
    """List the blocks of a user, or of a user and an agent."""
    blocks = desk.place.blocks
    found = blocks.list(scope="all" if every else None)
    if desk.out.json:
        return desk.out.document(found)
    if not found:
        return desk.out.remark(f"No blocks in {desk.scope}.")
    rows = [
        (
            one.block_type,
            one.agent_id or "",
            wording.line(one.content),
            f"{len(one.content):,}",
            _stamp(one),
        )
        for one in found
    ]
    desk.out.table(("block", "agent", "content", "characters", "updated"), rows, whole=("block", "updated"))


@command(app, "show", scoped=True, example="memoranda blocks show core --user ada")
def show_block(desk: Desk, block: Type) -> None:
    """Print the text of a block; on a terminal also when it was written.

    A block that does not exist leaves with 1.
    """
    found = _existing(desk, desk.place.blocks, block)
    if desk.out.json:
        return desk.out.document(found)
    desk.out.raw(found.content)
    if desk.out.on_terminal:
        desk.out.say(f"({len(found.content):,} characters, updated {_stamp(found)})")


@command(app, "set", scoped=True, creates=True, example="memoranda blocks set core 'Prefers short answers' --user ada")
def set_block(
    desk: Desk,
    block: Type,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The whole new text; - reads stdin.")],
    expected: Expected = None,
    replace: Annotated[bool, typer.Option("--replace", help="Whatever the block holds now.")] = False,
    source: Source = None,
    idempotency_key: Once = None,
) -> None:
    """Write a whole block: a new one, or with --expected-updated-at or --replace one that is there.

    Without either the block must not exist yet, so nothing is overwritten unseen. Write `--` before a TEXT that begins
    with a dash.
    """
    if replace and expected is not None:
        raise UsageError(
            "--replace and --expected-updated-at say different things about what may be replaced", hint="Use one"
        )
    content = read_value(text, as_json=False)
    blocks = desk.place.blocks
    current = blocks.get(block) if replace else None
    stamp = current.updated_at if current is not None else expected
    written = blocks.update(block, content, expected_updated_at=stamp, source=source, idempotency_key=idempotency_key)
    _tell(desk, written, "holds")


@command(app, "delete", scoped=True, example="memoranda blocks delete archival --user ada --agent emails")
def delete_block(desk: Desk, block: Type, expected: Expected = None, source: Source = None) -> None:
    """Delete a block. Its history stays; `memoranda erase` removes that too."""
    place = desk.place
    if not place.blocks.delete(block, expected_updated_at=expected, source=source):
        raise _missing(desk, block)
    if desk.out.json:
        return desk.out.document({"tenant": desk.tenant, "scope": place.scope, "block_type": block, "deleted": True})
    desk.out.say(f"{block} is deleted from {place.scope}")


@command(app, "recall", scoped=True, example="memoranda blocks recall 'north gate' --user ada --agent emails")
def recall_lines(
    desk: Desk,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words to look for; '' lists the lines.")],
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most this many lines, 1 to 100.")] = 10,
    min_score: Annotated[
        float | None, typer.Option("--min-score", metavar="SCORE", help="Only lines that score at least this.")
    ] = None,
) -> None:
    """Find lines of the archival block by the words they hold, best first.

    With --agent the lines of the user's and of that agent's archive together.
    """
    found = desk.place.blocks.recall(query, limit=limit, min_score=min_score)
    if desk.out.json:
        return desk.out.document(found)
    if not found:
        return desk.out.remark(f"Nothing found in the archival blocks of {desk.scope}.")
    rows = [(f"{one.score:.2f}", one.agent_id or "", str(one.line_number), wording.line(one.content)) for one in found]
    desk.out.table(("score", "agent", "line", "content"), rows, whole=("score", "line"))


@command(app, "history", scoped=True, example="memoranda blocks history core --user ada")
def show_history(desk: Desk, block: Type) -> None:
    """Show every text a block had, oldest first: what it was, since when, by whom."""
    revisions = desk.place.blocks.history(block)
    if not revisions:
        raise NotFound(f"the {block} block has no history in `{desk.scope}`", hint=_LISTING, block_type=block)
    if desk.out.json:
        return desk.out.document(revisions)
    rows = [
        (str(one.version), one.change, _content(one), wording.exact(one.at), one.origin.actor, one.origin.door)
        for one in revisions
    ]
    columns = ("version", "change", "content", "since", "by", "through")
    desk.out.table(columns, rows, whole=("since", "change"))


@command(app, "undo", scoped=True, example="memoranda blocks undo core --user ada")
def undo_block(desk: Desk, block: Type, expected: Expected = None) -> None:
    """Bring back the text that a block had before, also of one that was deleted.

    That is a write of its own: doing it twice brings the newer text back.
    """
    blocks = desk.place.blocks
    current = None if expected is not None else blocks.get(block)
    stamp = current.updated_at if current is not None else expected
    _tell(desk, blocks.undo(block, expected_updated_at=stamp), "holds again")


_LISTING = "`memoranda blocks list` with the same options shows what is there"


def _existing(desk: Desk, blocks: Blocks, block: Literal["core", "archival"]) -> Block:
    found = blocks.get(block)
    if found is None:
        raise _missing(desk, block)
    return found


def _missing(desk: Desk, block: str) -> NotFound:
    return NotFound(f"there is no {block} block in `{desk.scope}`", hint=_LISTING, block_type=block)


def _tell(desk: Desk, block: Block, what: str) -> None:
    if desk.out.json:
        return desk.out.document(block)
    size = f"{len(block.content):,} characters"
    desk.out.say(f"{block.block_type} in {desk.scope} {what} {size}, updated {_stamp(block)}")


def _stamp(block: Block) -> str:
    """Return when a block was written, exactly: who writes it next has to say so."""
    return block.updated_at.isoformat()


def _content(revision: Revision) -> str:
    if revision.forgotten:
        return "(forgotten)"
    return wording.line(revision.value) if revision.change == "set" else ""
