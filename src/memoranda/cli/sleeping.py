"""`memoranda sleep`: what conversations taught while nobody waited: list the jobs, do what is due, take it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from memoranda.cli import wording
from memoranda.cli.command import Desk, command, group
from memoranda.cli.options import Yes
from memoranda.errors import NotFound, UsageError
from memoranda.model.text import quote

if TYPE_CHECKING:
    from memoranda.sleep.consolidating import Change
    from memoranda.sleep.extracting import Extractor
    from memoranda.sleep.jobs import Job
    from memoranda.sleep.sleeping import Ran

app = group("sleep", lists=True)

User = Annotated[str | None, typer.Option("--user", metavar="ID", help="Only conversations of this user.")]
Conversation = Annotated[str, typer.Argument(metavar="CONVERSATION", help="As the list shows it.")]
Whose = Annotated[str, typer.Option("--user", metavar="ID", help="Whose conversation it is.")]


@command(app, "list", example="memoranda sleep list --state dead")
def list_jobs(
    desk: Desk,
    user: User = None,
    state: Annotated[
        Literal["waiting", "running", "done", "dead"] | None,
        typer.Option("--state", metavar="STATE", help="Only jobs that are waiting, running, done or dead."),
    ] = None,
) -> None:
    """List the conversations that were consolidated or wait for it, and what failed."""
    from memoranda.sleep.sleeping import sleep_jobs

    found = sleep_jobs(desk.memory, user=user, state=state)
    if desk.out.json:
        return desk.out.document([_job(one) for one in found])
    if not found:
        return desk.out.remark("No jobs.")
    rows = [
        (*_whose(one), one.state, str(one.attempts), desk.out.ago(one.finished_at or one.due_at), _outcome(one))
        for one in found
    ]
    columns = ("user", "conversation", "state", "attempts", "when", "outcome")
    desk.out.table(columns, rows, whole=("conversation", "state", "attempts", "when"), folded=("user", "outcome"))


@command(app, "run", example="memoranda sleep run --delay 5m")
def run(
    desk: Desk,
    conversation: Annotated[
        str | None, typer.Option("--conversation", metavar="ID", help="This one of --user, and now.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="Whose --conversation it is.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Ask this model instead of following rules.")
    ] = None,
    delay: Annotated[
        str, typer.Option("--delay", metavar="TIME", help="How long nothing was said; 0 is at once.")
    ] = "5m",
) -> None:
    """Learn from the conversations that have settled, and do what is due.

    With --conversation and --user it is one conversation, however long ago its last word was said.
    """
    if (conversation is None) != (user is None):
        raise UsageError("--conversation and --user go together", hint="Give both, or neither for all that is due")
    extractor = _extractor(model)
    if conversation is not None and user is not None:
        return _run_one(desk, conversation, user, extractor)
    from memoranda.sleep.sleeping import run_due, settle

    wait = 0 if delay == "0" else delay
    with desk.out.working("Consolidating"):
        settle(desk.memory, delay=wait)
        ran = run_due(desk.memory, extractor=extractor, delay=wait)
    if desk.out.json:
        desk.out.document([{**_job(one.job), "changes": _changes(one)} for one in ran])
    else:
        for one in ran:
            otherwise = "nothing new" if one.consolidated else one.job.error if one.failed else "it goes on"
            _show(desk, *_whose(one.job), _changes(one), wording.line(otherwise, longest=160))
        if not ran:
            desk.out.remark("Nothing is due.")
    if any(one.failed for one in ran):
        raise typer.Exit(1)


@command(app, "undo", example="memoranda sleep undo c42 --user ada")
def undo_one(desk: Desk, conversation: Conversation, user: Whose) -> None:
    """Take back what a conversation last taught. It is not learned again."""
    from memoranda.sleep.sleeping import sleep_jobs
    from memoranda.sleep.taking_back import undo

    if (user, conversation) not in map(_whose, sleep_jobs(desk.memory, user=user)):
        raise NotFound(
            f"nothing was learned from a conversation {quote(conversation)} of `{user}`",
            hint="`memoranda sleep list` shows those that taught something",
        )
    changes = undo(desk.memory, conversation, user=user)
    if desk.out.json:
        return desk.out.document({"user": user, "conversation": conversation, "changes": changes})
    _show(desk, user, conversation, changes, "nothing was left of it")


@command(app, "forget", example="memoranda sleep forget c42 --user ada --yes")
def forget(
    desk: Desk,
    conversation: Conversation,
    user: Whose,
    yes: Yes = False,
) -> None:
    """Erase a conversation with what was learned from it alone.

    Nothing brings it back, so this asks first.
    """
    from memoranda.chat.conversations import list_conversations
    from memoranda.cli.asking import confirm
    from memoranda.sleep.taking_back import forget_conversation

    desk.require_database()
    confirm(f"Erase the conversation {conversation} of {user}? This cannot be undone.", yes=yes)
    known = any(one.id == conversation for one in list_conversations(desk.memory, user))
    gone = forget_conversation(desk.memory, conversation, user=user)
    if not known and not gone:
        # Who mistyped it must not believe that it is gone.
        raise NotFound(f"`{user}` has no conversation {quote(conversation)}", hint="`memoranda sleep list` shows them")
    if desk.out.json:
        return desk.out.document({"user": user, "conversation": conversation, "removed": gone})
    desk.out.say(f"{conversation} is erased, and {wording.count(len(gone), 'line')} with it")
    for line in gone:
        desk.out.say(f"  - {wording.line(line.removeprefix('- '))}")


def _run_one(desk: Desk, conversation: str, user: str, extractor: Extractor) -> None:
    from memoranda.sleep.sleeping import run_sleep_time

    with desk.out.working("Consolidating"):
        done = run_sleep_time(desk.memory, conversation, user=user, extractor=extractor)
    if desk.out.json:
        return desk.out.document(done)
    _show(desk, user, conversation, done.changes, "nothing new")


def _extractor(model: str | None) -> Extractor:
    from memoranda.sleep.extracting import extract_by_model, extract_by_rules

    return extract_by_rules if model is None else extract_by_model(model)


def _show(desk: Desk, user: str, conversation: str, changes: tuple[Change, ...], otherwise: str) -> None:
    desk.out.say(f"{user} {conversation}" + ("" if changes else f": {otherwise}"))
    for one in changes:
        sign, whose = "+" if one.change == "added" else "-", "" if one.scope == "user" else " of the agent"
        desk.out.say(f"  {sign} {wording.line(one.line.removeprefix('- '))}  ({one.block}{whose})")


def _changes(ran: Ran) -> tuple[Change, ...]:
    return ran.consolidated.changes if ran.consolidated is not None else ()


def _whose(job: Job) -> tuple[str, str]:
    from memoranda.chat.conversations import conversation_of

    return conversation_of(job.scope)


def _outcome(job: Job) -> str:
    """Return on one line what a job came to, or why it failed."""
    if job.error:
        return wording.line(job.error, longest=160)
    if job.state != "done":
        return ""
    if job.result.get("undone"):
        return "taken back"
    return f"{job.result.get('added', 0)} added, {job.result.get('removed', 0)} removed"


def _job(job: Job) -> dict[str, Any]:
    user, conversation = _whose(job)
    return {
        "user": user,
        "conversation": conversation,
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
