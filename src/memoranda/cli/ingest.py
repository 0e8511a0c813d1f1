"""`memoranda ingest`: files in, entries out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from memoranda.cli import wording
from memoranda.cli.command import Desk, command, group
from memoranda.cli.options import Collection, Metadata, MetadataJson, Namespace, Ttl
from memoranda.cli.reading import read_metadata
from memoranda.errors import MemorandaError, UsageError

if TYPE_CHECKING:
    from memoranda import Remembered, ScopedMemory
    from memoranda.cli.sources import Piece, Source
    from memoranda.model.limits import Limits

app = group()


@dataclass
class Counts:
    """What became of what was read."""

    read: int = 0
    stored: int = 0
    replaced: int = 0
    """Of the stored ones, those that took the place of an earlier text of the same file or key."""
    duplicates: int = 0
    forgotten: int = 0
    """Parts that a text has no longer, and those that version 0.1.0 kept under the absolute path of a file."""
    skipped: list[str] = field(default_factory=list[str])
    """Files that hold nothing."""

    @property
    def done(self) -> int:
        """How many of those read are there now."""
        return self.stored + self.duplicates

    def add(self, results: Iterable[Remembered]) -> None:
        """Count what became of a batch."""
        for one in results:
            self.stored += one.stored
            self.replaced += one.replaced is not None
            self.duplicates += not one.stored


@dataclass(frozen=True)
class _Where:
    """Where everything of one ingest goes, as `remember_many` takes it."""

    collection: str
    namespace: str
    ttl: str | None


@command(
    app,
    "ingest",
    scoped=True,
    creates=True,
    embeds=True,
    example="memoranda ingest handbook.md notes.jsonl --collection docs --project hotel",
)
def ingest(
    desk: Desk,
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Ending in .jsonl, .txt or .md.")],
    collection: Collection,
    namespace: Namespace = "",
    metadata: Metadata = None,
    metadata_json: MetadataJson = None,
    ttl: Ttl = None,
    format: Annotated[
        Literal["jsonl", "text", "markdown"] | None,
        typer.Option("--format", metavar="NAME", help="What FILE holds, whatever its ending: jsonl, text or markdown."),
    ] = None,
    chunk: Annotated[
        int, typer.Option("--chunk", min=1, metavar="N", help="Characters of one part of a text, at most.")
    ] = 1_200,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only read and check; store nothing.")] = False,
) -> None:
    """Remember what files hold: JSON Lines, text and Markdown.

    A line of JSON Lines is a text, or an object with `content`, and `metadata` and `key` where there are any. Texts
    are cut between paragraphs or sentences, Markdown at its headings too. All files are checked before anything is
    stored. What is there already is not stored twice, and a text that has changed takes the place of its old parts.
    A file outside the current folder is named by its name and a hash of its folder, never by its path.
    """
    from memoranda.cli.sources import Source
    from memoranda.model.limits import Limits

    where = _checked(desk, collection, namespace, ttl)
    labels = read_metadata(metadata or (), metadata_json)
    sources = [Source(name, format=format, chunk=chunk) for name in files]
    limits = Limits()
    counts = Counts()
    with desk.out.working("Reading"):
        for source in sources:
            held = sum(1 for _ in _items(source, labels, limits))
            counts.read += held
            if not held:
                counts.skipped.append(source.name)
    if not dry_run:
        _store(desk, sources, labels, where, counts, limits)
    _report(desk, sources, where, counts, dry_run=dry_run)


def _checked(desk: Desk, collection: str, namespace: str, ttl: str | None) -> _Where:
    """Return where to put things, refused before any file is read if that cannot be."""
    from memoranda.api.remembering import check_collection, check_namespace
    from memoranda.model.duration import parse_duration

    check_collection(collection)
    check_namespace(namespace)
    if ttl is not None:
        parse_duration(ttl)
    _ = desk.scope
    return _Where(collection, namespace, ttl)


def _items(source: Source, labels: dict[str, Any], limits: Limits) -> Iterator[dict[str, Any]]:
    """Yield what `remember_many` takes, each looked at so closely that it will be taken."""
    from memoranda.api.remembering import make_item

    for piece in source.pieces():
        metadata = _merged(piece, labels, source)
        try:
            make_item(piece.content, metadata, piece.key, limits)
        except UsageError as error:
            error.message = f"{piece.place} of `{source.name}`: {error.message}"
            error.details.update(file=source.name, place=piece.place)
            raise
        yield {"content": piece.content, "metadata": metadata, "key": piece.key}


def _merged(piece: Piece, labels: dict[str, Any], source: Source) -> dict[str, Any]:
    # What a line says of itself is nearer than what was said of all of them; of a text's part nobody said anything.
    return {**piece.metadata, **labels} if source.in_parts else {**labels, **piece.metadata}


def _store(
    desk: Desk, sources: list[Source], labels: dict[str, Any], where: _Where, counts: Counts, limits: Limits
) -> None:
    place = desk.place
    try:
        with desk.out.counting("Remembering") as told:
            told(0, counts.read)
            for source in sources:
                before = counts.done
                for batch in _batches(_items(source, labels, limits), limits.batch):
                    counts.add(
                        place.remember_many(
                            batch,
                            collection=where.collection,
                            namespace=where.namespace,
                            ttl=where.ttl,
                            source=f"ingest:{source.label.rpartition('/')[2]}",
                        )
                    )
                    told(counts.done, counts.read)
                if source.in_parts:
                    counts.forgotten += _forget_parts(place, source.key, counts.done - before + 1, where)
                    if not source.is_below_here:
                        counts.forgotten += _forget_parts(place, source.absolute_key, 1, where)
    except MemorandaError as error:
        if counts.done:
            error.message += f"; before that, {wording.count(counts.done, 'entry')} of {counts.read:,} were remembered"
            error.hint = f"{error.hint}. Ingesting the same again stores nothing twice".removeprefix(". ")
        error.details["remembered"] = counts.done
        raise
    except KeyboardInterrupt:
        so_far = f"{wording.count(counts.done, 'entry')} of {counts.read:,} remembered"
        raise KeyboardInterrupt(f"Interrupted: {so_far}. Ingesting the same again stores nothing twice.") from None


def _forget_parts(place: ScopedMemory, key: Callable[[int], str], first: int, where: _Where) -> int:
    """Forget the parts of a text from one on, by their keys; return how many there were."""
    part = first
    while place.forget(key=key(part), collection=where.collection, namespace=where.namespace):
        part += 1
    return part - first


def _batches(items: Iterable[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def _report(desk: Desk, sources: list[Source], where: _Where, counts: Counts, *, dry_run: bool) -> None:
    if desk.out.json:
        return desk.out.document(
            {
                "tenant": desk.tenant,
                "scope": desk.scope,
                "collection": where.collection,
                "namespace": where.namespace,
                "files": len(sources),
                **vars(counts),
                "dry_run": dry_run,
            }
        )
    for name in counts.skipped:
        desk.out.remark(f"{name} holds nothing to remember.")
    read = f"{wording.count(counts.read, 'entry')} in {wording.count(len(sources), 'file')}"
    if dry_run:
        return desk.out.say(f"{read} could be remembered; nothing was stored")
    parts = [
        f"{counts.stored:,} stored",
        f"{counts.replaced:,} of them in place of others" if counts.replaced else "",
        f"{counts.duplicates:,} there already" if counts.duplicates else "",
        f"{counts.forgotten:,} forgotten" if counts.forgotten else "",
    ]
    desk.out.say(f"{read}: " + ", ".join(part for part in parts if part))
