"""`memoranda blocks` and `memoranda sleep`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from memoranda.cli import formats
from memoranda.cli.arguments import read_value
from memoranda.cli.command import Desk, IdempotencyKey, Source, Yes, argument, command, flag, group, option
from memoranda.cli.facts import show_revisions
from memoranda.cli.output import confirm
from memoranda.errors import NotFound, UsageError
from memoranda.model.text import quote

if TYPE_CHECKING:
    from memoranda import Block
    from memoranda.api.blocks import Blocks
    from memoranda.learning.extraction import Extractor
    from memoranda.model.job import Job
    from memoranda.model.lesson import LineChange
    from memoranda.sleep.worker import Ran


app = group("blocks")

Type = Annotated[
    Literal["core", "archival"], argument("BLOCK", "core, which agents always see, or archival, which they search.")
]
Expected = Annotated[
    str | None, option("MOMENT", "Only if the block was last written then: ISO 8601.", "--expected-updated-at")
]


@command(app, "list", scoped=True, example="memoranda blocks list --user ada --all")
def list_blocks(
    desk: Desk,
    every: Annotated[bool, flag("Include those of the user's agents.", "--all")] = False,
) -> None:
    """List the blocks of a user, or of a user and an agent."""
    blocks = desk.place.blocks
    found = blocks.list(scope="all" if every else None)
    if desk.out.answers(found, empty=f"No blocks in {desk.scope}."):
        return
    rows = [
        (
            one.block_type,
            one.agent_id or "",
            formats.line(one.content),
            f"{len(one.content):,}",
            _stamp(one),
        )
        for one in found
    ]
    desk.out.table(("block", "agent", "content", "characters", "updated"), rows, whole=("block", "updated"))


@command(app, "show", scoped=True, example="memoranda blocks show core --user ada")
def show_block(desk: Desk, block: Type) -> None:
    """Print the text of a block; on a terminal also when it was written.

    Exits with 1 if the block does not exist.
    """
    found = _existing(desk, desk.place.blocks, block)
    if desk.out.answers(found):
        return
    desk.out.raw(found.content)
    if desk.out.on_terminal:
        desk.out.say(f"({len(found.content):,} characters, updated {_stamp(found)})")


@command(
    app,
    "set",
    scoped=True,
    writes=True,
    creates=True,
    example="memoranda blocks set core 'Prefers short answers' --user ada",
)
def set_block(
    desk: Desk,
    block: Type,
    text: Annotated[str, argument("TEXT", "The whole new text; - reads stdin.")],
    expected: Expected = None,
    replace: Annotated[bool, flag("Replace the current text, whatever it is.", "--replace")] = False,
    source: Source = None,
    idempotency_key: IdempotencyKey = None,
) -> None:
    """Write a whole block: a new one, or an existing one with --expected-updated-at or --replace.

    Without either option the block must not exist, so that nothing is overwritten by accident. Write `--` before a TEXT
    that begins with a dash.
    """
    if replace and expected is not None:
        raise UsageError("--replace and --expected-updated-at cannot be combined", hint="Use one of them")
    content = read_value(text, as_json=False)
    blocks = desk.place.blocks
    current = blocks.get(block) if replace else None
    stamp = current.updated_at if current is not None else expected
    written = blocks.update(block, content, expected_updated_at=stamp, source=source, idempotency_key=idempotency_key)
    _tell(desk, written, "holds")


@command(app, "delete", scoped=True, writes=True, example="memoranda blocks delete archival --user ada --agent emails")
def delete_block(desk: Desk, block: Type, expected: Expected = None, source: Source = None) -> None:
    """Delete a block. Its history stays; `memoranda erase` removes that too."""
    place = desk.place
    if not place.blocks.delete(block, expected_updated_at=expected, source=source):
        raise _missing(desk, block)
    desk.out.result(
        {"tenant": desk.tenant, "scope": place.scope, "block_type": block, "deleted": True},
        f"{block} is deleted from {place.scope}",
    )


@command(app, "recall", scoped=True, example="memoranda blocks recall 'north gate' --user ada --agent emails")
def recall_lines(
    desk: Desk,
    query: Annotated[str, argument("QUERY", "Words to look for; '' lists the lines.")],
    limit: Annotated[int, option("N", "At most this many lines, 1 to 100.")] = 10,
    min_score: Annotated[float | None, option("SCORE", "Only lines that score at least this.")] = None,
) -> None:
    """Find lines of the archival block by their words, best first.

    With --agent, both the user's and the agent's archive are searched.
    """
    found = desk.place.blocks.recall(query, limit=limit, min_score=min_score)
    if desk.out.answers(found, empty=f"Nothing found in the archival blocks of {desk.scope}."):
        return
    rows = [(f"{one.score:.2f}", one.agent_id or "", str(one.line_number), formats.line(one.content)) for one in found]
    desk.out.table(("score", "agent", "line", "content"), rows, whole=("score", "line"))


@command(app, "history", scoped=True, example="memoranda blocks history core --user ada")
def show_history(desk: Desk, block: Type) -> None:
    """Show every version of a block, oldest first: its text, when and by whom it was written."""
    revisions = desk.place.blocks.history(block)
    if not revisions:
        raise NotFound(f"the {block} block has no history in `{desk.scope}`", hint=_LISTING, block_type=block)
    show_revisions(desk, revisions, "content", formats.line)


@command(app, "undo", scoped=True, writes=True, example="memoranda blocks undo core --user ada")
def undo_block(desk: Desk, block: Type, expected: Expected = None) -> None:
    """Restore the previous text of a block, also of a deleted one.

    This is a write like any other: a second undo restores the newer text.
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
    size = f"{len(block.content):,} characters"
    desk.out.result(block, f"{block.block_type} in {desk.scope} {what} {size}, updated {_stamp(block)}")


def _stamp(block: Block) -> str:
    """Return when a block was written, exactly: the next write has to name it."""
    return block.updated_at.isoformat()


sleep_app = group("sleep", lists=True)

User = Annotated[str | None, option("ID", "Only conversations of this user.")]
Conversation = Annotated[str, argument("CONVERSATION", "As the list shows it.")]
Whose = Annotated[str, option("ID", "The user of the conversation.")]


@command(sleep_app, "list", example="memoranda sleep list --state dead")
def list_jobs(
    desk: Desk,
    user: User = None,
    state: Annotated[
        Literal["waiting", "running", "done", "dead"] | None,
        option("STATE", "Only jobs that are waiting, running, done or dead."),
    ] = None,
) -> None:
    """List the jobs of conversations: done, waiting or failed.

    Jobs of the kind `sleep` read conversations that have settled, jobs of the kind `learn` messages whose model failed.
    """
    from memoranda.sleep.worker import sleep_jobs

    found = sleep_jobs(desk.memory, user=user, state=state)
    if desk.out.answers([_job(one) for one in found], empty="No jobs."):
        return
    rows = [
        (
            *one.conversation,
            one.kind,
            one.state,
            str(one.attempts),
            desk.out.ago(one.finished_at or one.due_at),
            _outcome(one),
        )
        for one in found
    ]
    columns = ("user", "conversation", "kind", "state", "attempts", "when", "outcome")
    desk.out.table(
        columns, rows, whole=("conversation", "kind", "state", "attempts", "when"), folded=("user", "outcome")
    )


@command(sleep_app, "run", changes=True, example="memoranda sleep run --delay 5m")
def run(
    desk: Desk,
    conversation: Annotated[str | None, option("ID", "Only this conversation of --user, now.")] = None,
    user: Annotated[str | None, option("ID", "The user of --conversation.")] = None,
    model: Annotated[str | None, option("NAME", "Use this model instead of rules.")] = None,
    delay: Annotated[str, option("TIME", "Silence before a conversation has settled; 0 is none.")] = "5m",
) -> None:
    """Learn from the conversations that have settled.

    With --conversation and --user, learn from one conversation without waiting for it to settle.
    """
    if (conversation is None) != (user is None):
        raise UsageError("--conversation and --user go together", hint="Give both, or neither for all that is due")
    extractor = _extractor(model)
    if conversation is not None and user is not None:
        return _run_one(desk, conversation, user, extractor)
    from memoranda.sleep.worker import run_due, settle

    wait = 0 if delay == "0" else delay
    with desk.out.working("Consolidating"):
        settle(desk.memory, delay=wait)
        ran = run_due(desk.memory, extractor=extractor, delay=wait)
    if desk.out.json:
        desk.out.document([{**_job(one.job), "changes": _changes(one)} for one in ran])
    else:
        for one in ran:
            _show(desk, *one.job.conversation, _changes(one), formats.line(_without_lines(one), longest=160))
        if not ran:
            desk.out.remark("Nothing is due.")
    if any(one.failed for one in ran):
        raise typer.Exit(1)


@command(sleep_app, "undo", changes=True, example="memoranda sleep undo c42 --user ada")
def undo_one(desk: Desk, conversation: Conversation, user: Whose) -> None:
    """Undo what was last learned from a conversation. It is not learned again."""
    from memoranda.sleep.undo import undo
    from memoranda.sleep.worker import sleep_jobs

    if (user, conversation) not in [one.conversation for one in sleep_jobs(desk.memory, user=user)]:
        raise NotFound(
            f"nothing was learned from a conversation {quote(conversation)} of `{user}`",
            hint="`memoranda sleep list` shows those that taught something",
        )
    changes = undo(desk.memory, conversation, user=user)
    if not desk.out.answers({"user": user, "conversation": conversation, "changes": changes}):
        _show(desk, user, conversation, changes, "nothing to remove")


@command(sleep_app, "forget", changes=True, example="memoranda sleep forget c42 --user ada --yes")
def forget(
    desk: Desk,
    conversation: Conversation,
    user: Whose,
    yes: Yes = False,
) -> None:
    """Erase a conversation, and the lines that were learned only from it.

    This cannot be undone, so it asks first.
    """
    from memoranda.chat.conversation import list_conversations
    from memoranda.sleep.undo import forget_conversation

    desk.require_database()
    confirm(f"Erase the conversation {conversation} of {user}? This cannot be undone.", yes=yes)
    known = any(one.id == conversation for one in list_conversations(desk.memory, user))
    gone = forget_conversation(desk.memory, conversation, user=user)
    if not known and not gone:
        # A typo must not look like a successful erasure.
        raise NotFound(f"`{user}` has no conversation {quote(conversation)}", hint="`memoranda sleep list` shows them")
    if desk.out.json:
        return desk.out.document({"user": user, "conversation": conversation, "removed": gone})
    desk.out.say(f"{conversation} is erased, and {formats.count(len(gone), 'line')} with it")
    for line in gone:
        desk.out.say(f"  - {formats.line(line.removeprefix('- '))}")


def _run_one(desk: Desk, conversation: str, user: str, extractor: Extractor) -> None:
    from memoranda.sleep.worker import run_sleep_time

    with desk.out.working("Consolidating"):
        done = run_sleep_time(desk.memory, conversation, user=user, extractor=extractor)
    if not desk.out.answers(done):
        _show(desk, user, conversation, done.changes, "nothing new")


def _extractor(model: str | None) -> Extractor:
    from memoranda.sleep import extract_by_model, extract_by_rules

    return extract_by_rules if model is None else extract_by_model(model)


def _show(desk: Desk, user: str, conversation: str, changes: tuple[LineChange, ...], otherwise: str) -> None:
    desk.out.say(f"{user} {conversation}" + ("" if changes else f": {otherwise}"))
    for one in changes:
        sign, whose = "+" if one.change == "added" else "-", "" if one.scope == "user" else " of the agent"
        desk.out.say(f"  {sign} {formats.line(one.line.removeprefix('- '))}  ({one.block}{whose})")


def _changes(ran: Ran) -> tuple[LineChange, ...]:
    done = ran.consolidated
    return done.changes if done is not None else ran.learned.lines if ran.learned is not None else ()


def _without_lines(ran: Ran) -> str:
    """Return what happened in a run that changed no line."""
    if ran.learned is not None:
        return f"{formats.count(len(ran.learned.added) + len(ran.learned.replaced), 'statement')} learned"
    return "nothing new" if ran.consolidated else ran.job.error if ran.failed else "it continues"


def _outcome(job: Job) -> str:
    if job.error:
        return formats.line(job.error, longest=160)
    if job.state != "done":
        return ""
    if job.result.get("undone"):
        return "undone"
    return f"{job.result.get('added', 0)} added, {job.result.get('removed', 0)} removed"


def _job(job: Job) -> dict[str, Any]:
    user, conversation = job.conversation
    return {
        "user": user,
        "conversation": conversation,
        "kind": job.kind,
        "state": job.state,
        "seq": job.mark,
        "done": job.done,
        "attempts": job.attempts,
        "due_at": job.due_at,
        "finished_at": job.finished_at,
        "error": job.error,
        "added": job.result.get("added", 0),
        "removed": job.result.get("removed", 0),
        "undone": bool(job.result.get("undone")),
    }
