"""`memoranda learn` and `memoranda context`: learn from conversations, and show what an agent would be told."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from memoranda.cli.arguments import unreadable
from memoranda.cli.command import Desk, MinTrust, argument, command, flag, group, option
from memoranda.model.entry import KINDS, check_kinds

if TYPE_CHECKING:
    from memoranda.learning.transcripts import Transcript
    from memoranda.model.context import Context
    from memoranda.model.lesson import Learned, Lesson

app = group()


@command(
    app, "learn", scoped=True, writes=True, creates=True, embeds=True, example="memoranda learn chat.jsonl --user ada"
)
def learn(
    desk: Desk,
    files: Annotated[
        list[str], argument("FILE...", "JSON Lines, JSON, or an export of ChatGPT or Claude; - is stdin.")
    ],
    conversation: Annotated[str | None, option("ID", "The conversation, if the file does not name it.")] = None,
    spoken_with: Annotated[str | None, option("NAME", "The agent that was spoken with.", "--spoken-with")] = None,
    model: Annotated[str | None, option("MODEL", "The model that extracts statements; rules if left out.")] = None,
    at: Annotated[str | None, option("TIME", "When messages without a time were said.")] = None,
) -> None:
    """Learn from conversations: keep their messages, and what they state.

    What is no longer true is replaced, and nothing is deleted. The same messages again change nothing. All files are
    read before anything is stored.
    """
    from memoranda.learning.transcripts import read_transcript

    with desk.out.working("Reading"):
        talks = [talk for name in files for talk in read_transcript(_read(name))]
    place = desk.place
    results: list[Learned] = []
    with desk.out.counting("Learning") as advance:
        for number, talk in enumerate(talks, 1):
            named = talk.conversation or (conversation if len(talks) == 1 else None)
            results.append(
                place.learn(talk.messages, conversation=named, agent=spoken_with, model=model, at=at, source=None)
            )
            advance(number, len(talks))
    if desk.out.json:
        return desk.out.document({"scope": place.scope, "learned": results})
    _report(desk, talks, results)


def _read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise unreadable(name, error) from None


def _report(desk: Desk, talks: list[Transcript], results: list[Learned]) -> None:
    lessons = [lesson for one in results for lesson in one.lessons]
    if lessons:
        desk.out.table(("what became of it", "statement", "since"), [_row(lesson) for lesson in lessons])
    kept, known = sum(len(one.messages) for one in results), sum(one.known_messages for one in results)
    noun = "conversation" if len(talks) == 1 else "conversations"
    desk.out.say(f"{kept} messages kept of {len(talks)} {noun}, {known} known already")
    for one in results:
        if one.pending is not None:
            desk.out.remark(f"Nothing was extracted from {one.conversation} yet: {one.pending}.")
            desk.out.aside("memoranda sleep list")
    tokens = [token for one in results for token in one.undo]
    if len(tokens) == 1:
        desk.out.aside(f"memoranda undo {tokens[0]}")


def _row(lesson: Lesson) -> tuple[str, str, str]:
    return lesson.verdict, lesson.text, "" if lesson.valid_from is None else lesson.valid_from.date().isoformat()


@command(
    app, "context", scoped=True, embeds=True, example="memoranda context 'Where does she live?' --user ada --budget 500"
)
def context(
    desk: Desk,
    query: Annotated[str, argument("[QUERY]", "What the agent is about to answer.")] = "",
    budget: Annotated[int, option("N", "Maximum number of tokens.", min=0)] = 1_500,
    definitions: Annotated[
        list[str] | None, option("SLUG", "Show the record of this definition; repeatable.", "--definition")
    ] = None,
    kinds: Annotated[
        list[str] | None, option("KIND", f"Only this kind: {', '.join(KINDS)}; repeatable.", "--kind")
    ] = None,
    also: Annotated[
        list[str] | None, option("SCOPE", "Search this scope too, such as project:atlas; repeatable.", "--also")
    ] = None,
    limit: Annotated[int, option("N", "Maximum number of matches.", min=0)] = 12,
    min_trust: MinTrust = "untrusted",
    show_left_out: Annotated[bool, flag("List what was left out, and why.", "--left-out")] = False,
) -> None:
    """Show what an agent should be told now.

    That is core blocks, records, and what answers the query, within a budget of tokens.
    """
    told = desk.place.context(
        query,
        budget=budget,
        definitions=definitions or (),
        kinds=None if kinds is None else check_kinds(kinds),
        scopes=also or (),
        limit=limit,
        min_trust=min_trust,
    )
    if desk.out.json:
        return desk.out.document(told)
    if not told.items:
        return desk.out.remark(f"There is nothing to tell about {desk.place.scope}.")
    desk.out.say(told.text)
    _summarise(desk, told, show_left_out=show_left_out)


def _summarise(desk: Desk, told: Context, *, show_left_out: bool) -> None:
    desk.out.aside(f"{told.tokens} of {told.budget} tokens, {len(told.items)} memories, {len(told.left_out)} left out")
    if show_left_out and told.left_out:
        rows: list[Any] = [(one.why, one.kind, one.ref) for one in told.left_out]
        desk.out.table(("why", "kind", "ref"), rows)
