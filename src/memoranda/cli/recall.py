"""`memoranda recall`: a query in, what answers it out, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from memoranda.cli import wording
from memoranda.cli.command import Desk, command, group
from memoranda.cli.options import AnyNamespace, AsOf, Collection
from memoranda.cli.reading import read_filter

if TYPE_CHECKING:
    from memoranda import Entry, Match, Recalled

app = group()

_LONGEST_LABELS = 24
"""Characters of metadata in a table, so that there is room for what was remembered."""
_BESIDE = "·"
"""In the place of a score: a neighbour, which was not looked for."""


@command(
    app,
    "recall",
    scoped=True,
    embeds=True,
    example="memoranda recall 'When does the piano tuner come?' -c notes --user ada",
)
def recall(
    desk: Desk,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A question or words; '' gives the newest.")],
    collection: Collection,
    namespace: AnyNamespace = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most this many.")] = 5,
    threshold: Annotated[
        float, typer.Option("--threshold", metavar="SCORE", help="Only scores from this on, between 0 and 1.")
    ] = 0.0,
    filter: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="KEY=VALUE", help="Only with these metadata; repeat for more."),
    ] = None,
    filter_json: Annotated[
        str | None, typer.Option("--filter-json", metavar="JSON", help='Such as {"urgency": {"$gte": 3}}.')
    ] = None,
    mode: Annotated[
        Literal["hybrid", "semantic", "keyword"],
        typer.Option("--mode", metavar="MODE", help="By meaning and words: hybrid; or by one: semantic, keyword."),
    ] = "hybrid",
    as_of: AsOf = None,
    expand: Annotated[
        int, typer.Option("--expand", metavar="N", help="Also so many neighbours on either side of each.")
    ] = 0,
    why: Annotated[bool, typer.Option("--why", help="Tell for each what it was found by.")] = False,
) -> None:
    """Find what was remembered, by meaning and by words.

    Best first, each with a score from 0 to 1 that means the same in every collection. A filter is applied before
    anything is ranked, so it costs no results.
    """
    place = desk.place
    found = place.recall(
        query,
        collection=collection,
        namespace=namespace,
        limit=limit,
        threshold=threshold,
        filter=read_filter(filter or (), filter_json),
        as_of=as_of,
        mode=mode,
        expand=expand,
    )
    if desk.out.json:
        return desk.out.document(found)
    if not found.results:
        return desk.out.remark(f"Nothing found in {collection} of {place.scope}.")
    if why:
        _explain(desk, found)
    else:
        _show(desk, found)


def _show(desk: Desk, found: Recalled) -> None:
    rows: list[tuple[str, str, str, str]] = []
    for match in found.results:
        rows += [_row(desk, _BESIDE, entry) for entry in match.before]
        rows.append(_row(desk, f"{match.score:.2f}", match))
        rows += [_row(desk, _BESIDE, entry) for entry in match.after]
    desk.out.table(("score", "content", "metadata", "added"), rows, whole=("score", "added"))


def _row(desk: Desk, score: str, one: Match | Entry) -> tuple[str, str, str, str]:
    labels = wording.line(wording.labels(one.metadata), longest=_LONGEST_LABELS)
    return score, wording.line(one.content), labels, desk.out.ago(one.created_at)


def _explain(desk: Desk, found: Recalled) -> None:
    amounts = [abs(amount) for match in found.results for amount in match.why.parts.values()]
    largest = max(amounts, default=0.0) or 1.0
    for number, match in enumerate(found.results, start=1):
        if number > 1:
            desk.out.say("")
        desk.out.say(f"{number}. {wording.line(match.content)}", indent="   ")
        why = match.why
        parts = sorted(why.parts.items(), key=lambda part: -abs(part[1]))
        desk.out.pairs(
            [
                ("score", f"{match.score:.2f}" + _own(match)),
                *((name, f"{amount:+.3f}  {desk.out.bar(abs(amount) / largest)}") for name, amount in parts),
                ("total", f"{why.total:+.3f}" if why.parts else ""),
                ("cosine", "" if why.cosine is None else f"{why.cosine:.3f}"),
                ("lexical", "" if why.lexical is None else f"{why.lexical:.3f}"),
                ("matched", ", ".join(why.matched)),
                ("read as", ", ".join(f"{typed} → {read}" for typed, read in why.corrected.items())),
                ("metadata", wording.labels(match.metadata)),
                ("entry", f"{match.id}, added {desk.out.ago(match.created_at)}"),
                ("before", _beside(match.before)),
                ("after", _beside(match.after)),
            ]
        )


def _own(match: Match) -> str:
    """Return the entry's own relevance where its score is that of a match further down."""
    own = f"{match.why.relevance:.2f}"
    return f" (its own is {own})" if own != f"{match.score:.2f}" else ""


def _beside(entries: Sequence[Entry]) -> str:
    return "\n".join(wording.line(entry.content) for entry in entries)
