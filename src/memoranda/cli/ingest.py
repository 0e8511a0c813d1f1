"""`memoranda ingest`: store the contents of files as entries."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast

from memoranda.cli import formats
from memoranda.cli.arguments import read_file, read_metadata, unreadable
from memoranda.cli.command import (
    Collection,
    DerivedFrom,
    Desk,
    Metadata,
    MetadataJson,
    Namespace,
    Ttl,
    argument,
    command,
    flag,
    group,
    option,
)
from memoranda.cli.hints import hint_of
from memoranda.errors import InvalidValue, MemorandaError, UsageError
from memoranda.model.entry import NOTES
from memoranda.model.text import quote

if TYPE_CHECKING:
    from memoranda import Remembered, ScopedMemory
    from memoranda.model.limits import Limits


app = group()


@dataclass
class Counts:
    """Counts of what was read and stored."""

    read: int = 0
    stored: int = 0
    replaced: int = 0
    """Stored entries that replaced an earlier text of the same file or key."""
    duplicates: int = 0
    forgotten: int = 0
    """Parts that a text no longer has, and those that version 0.1.0 stored under the absolute path of a file."""
    skipped: list[str] = field(default_factory=list[str])
    """Empty files."""

    @property
    def done(self) -> int:
        """Number of items that are stored now."""
        return self.stored + self.duplicates

    def add(self, results: Iterable[Remembered]) -> None:
        """Add the results of a batch."""
        for one in results:
            self.stored += one.stored
            self.replaced += one.replaced is not None
            self.duplicates += not one.stored


@command(
    app,
    "ingest",
    scoped=True,
    writes=True,
    creates=True,
    embeds=True,
    example="memoranda ingest handbook.md notes.jsonl --collection docs --project hotel",
)
def ingest(
    desk: Desk,
    files: Annotated[list[str], argument("FILE...", "Ending in .jsonl, .txt or .md.")],
    collection: Collection = NOTES,
    namespace: Namespace = "",
    metadata: Metadata = None,
    metadata_json: MetadataJson = None,
    ttl: Ttl = None,
    format: Annotated[
        Literal["jsonl", "text", "markdown"] | None,
        option("NAME", "The format, if the ending does not tell: jsonl, text or markdown."),
    ] = None,
    chunk: Annotated[int, option("N", "Maximum number of characters of one part of a text.", min=1)] = 1_200,
    dry_run: Annotated[bool, flag("Only read and check; store nothing.", "--dry-run")] = False,
    derived_from: DerivedFrom = None,
) -> None:
    """Store the contents of files: JSON Lines, text and Markdown.

    A line of JSON Lines is a text, or an object with `content` and optionally `metadata` and `key`. Texts are split
    between paragraphs or sentences, Markdown also at its headings. All files are checked before anything is stored.
    Nothing is stored twice, and a changed text replaces its old parts. A file outside the current folder is identified
    by its name and a hash of its folder, never by its path.
    """
    from memoranda.model.limits import Limits

    _check(desk, collection, namespace, ttl)
    where: dict[str, Any] = {"collection": collection, "namespace": namespace}
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
        _store(desk, sources, labels, where, {"ttl": ttl, "derived_from": derived_from or ()}, counts, limits)
    _report(desk, sources, where, counts, dry_run=dry_run)


def _check(desk: Desk, collection: str, namespace: str, ttl: str | None) -> None:
    """Check the target before any file is read."""
    from memoranda.api.arguments import check_collection, check_namespace
    from memoranda.model.clock import parse_duration

    check_collection(collection)
    check_namespace(namespace)
    if ttl is not None:
        parse_duration(ttl)
    _ = desk.scope


def _items(source: Source, labels: dict[str, Any], limits: Limits) -> Iterator[dict[str, Any]]:
    """Yield items for `remember_many`, each checked so that it will be accepted."""
    from memoranda.api.arguments import make_item

    for piece in source.pieces():
        metadata = _merge(piece, labels, source)
        try:
            make_item(piece.content, metadata, piece.key, limits)
        except UsageError as error:
            error.message = f"{piece.place} of `{source.name}`: {error.message}"
            error.details.update(file=source.name, place=piece.place)
            raise
        yield {"content": piece.content, "metadata": metadata, "key": piece.key}


def _merge(piece: Piece, labels: dict[str, Any], source: Source) -> dict[str, Any]:
    # The metadata of a JSON line override the options; those of a part of a text are derived, and overridden.
    return {**piece.metadata, **labels} if source.in_parts else {**labels, **piece.metadata}


def _store(
    desk: Desk,
    sources: list[Source],
    labels: dict[str, Any],
    where: dict[str, Any],
    options: dict[str, Any],
    counts: Counts,
    limits: Limits,
) -> None:
    place = desk.place
    try:
        with desk.out.counting("Remembering") as told:
            told(0, counts.read)
            for source in sources:
                before = counts.done
                for batch in _batches(_items(source, labels, limits), limits.batch):
                    origin = f"ingest:{source.label.rpartition('/')[2]}"
                    counts.add(place.remember_many(batch, **where, **options, source=origin))
                    told(counts.done, counts.read)
                if source.in_parts:
                    counts.forgotten += _forget_parts(place, source.key, counts.done - before + 1, where)
                    if not source.is_below_here:
                        counts.forgotten += _forget_parts(place, source.absolute_key, 1, where)
    except MemorandaError as error:
        if counts.done:
            error.message += f"; before that, {formats.count(counts.done, 'entry')} of {counts.read:,} were remembered"
            error.advice = f"{hint_of(error)}. Ingesting the same again stores nothing twice".removeprefix(". ")
        error.details["remembered"] = counts.done
        raise
    except KeyboardInterrupt:
        so_far = f"{formats.count(counts.done, 'entry')} of {counts.read:,} remembered"
        raise KeyboardInterrupt(f"Interrupted: {so_far}. Ingesting the same again stores nothing twice.") from None


def _forget_parts(place: ScopedMemory, key: Callable[[int], str], first: int, where: dict[str, Any]) -> int:
    """Delete the parts of a text from one on, by their keys; return their number."""
    part = first
    while place.forget(key=key(part), **where):
        part += 1
    return part - first


def _batches(items: Iterable[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def _report(desk: Desk, sources: list[Source], where: dict[str, Any], counts: Counts, *, dry_run: bool) -> None:
    if desk.out.json:
        return desk.out.document(
            {
                "tenant": desk.tenant,
                "scope": desk.scope,
                **where,
                "files": len(sources),
                **vars(counts),
                "dry_run": dry_run,
            }
        )
    for name in counts.skipped:
        desk.out.remark(f"{name} holds nothing to remember.")
    read = f"{formats.count(counts.read, 'entry')} in {formats.count(len(sources), 'file')}"
    if dry_run:
        return desk.out.say(f"{read} could be remembered; nothing was stored")
    parts = [
        f"{counts.stored:,} stored",
        f"{counts.replaced:,} of them in place of others" if counts.replaced else "",
        f"{counts.duplicates:,} there already" if counts.duplicates else "",
        f"{counts.forgotten:,} forgotten" if counts.forgotten else "",
    ]
    desk.out.say(f"{read}: " + ", ".join(part for part in parts if part))


Format = Literal["jsonl", "text", "markdown"]

_ENDINGS: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "text",
    ".md": "markdown",
    ".markdown": "markdown",
}
_HASHED = re.compile(r" {0,3}(#{1,6})([ \t].*)?")
_CLOSING = re.compile(r"(?:^|[ \t])#+$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}+|~{3,}+)(.*)")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Piece(NamedTuple):
    """One item to store, and its place in the file, for errors."""

    content: Any
    metadata: dict[str, Any]
    key: str | None
    place: str


class Section(NamedTuple):
    """The text under one heading of Markdown; `heading` includes the headings above it."""

    heading: str
    text: str


class Source:
    """One file, which can be read repeatedly."""

    def __init__(self, name: str, *, format: Format | None, chunk: int) -> None:
        """Take a file name; the format defaults to that of its ending."""
        ending = _ENDINGS.get(Path(name).suffix.lower())
        if format is None and ending is None:
            raise UsageError(
                f"the ending of {quote(name)} does not determine its format",
                hint=f"Endings are {', '.join(_ENDINGS)}; for others pass --format",
                path=name,
            )
        self.name = name
        self._format: Format = format or ending or "text"
        self._chunk = chunk

    @property
    def in_parts(self) -> bool:
        """Whether the file is a text, whose parts have keys, so that a changed text replaces them."""
        return self._format != "jsonl"

    @property
    def label(self) -> str:
        """Return the name of the file in entries: its path below the current folder, with slashes.

        A file elsewhere is named by a hash of its folder and its own name. Entries are exported and recalled by others,
        whom the folders of this machine do not concern, and two files of one name must not take each other's place.
        """
        if self.is_below_here:
            return _posix(self._path.relative_to(Path.cwd()))
        folder = hashlib.blake2b(_posix(self._path.parent).encode("utf-8", "surrogatepass"), digest_size=5)
        return f"~{folder.hexdigest()}/{_posix(Path(self._path.name))}"

    @property
    def is_below_here(self) -> bool:
        """Whether the file is in the current folder or below it."""
        return self._path.is_relative_to(Path.cwd())

    @property
    def _path(self) -> Path:
        return Path(os.path.abspath(self.name))

    def key(self, part: int) -> str:
        """Return the key of a part of a text, so that a changed text replaces it."""
        return f"{self.label}#{part}"

    def absolute_key(self, part: int) -> str:
        """Return the key that version 0.1.0 gave to a part of a file outside the current folder."""
        return f"{_posix(self._path)}#{part}"

    def pieces(self) -> Iterator[Piece]:
        """Yield the items of the file in order; raise an error with the place of what cannot be read."""
        if self._format == "jsonl":
            yield from self._lines()
            return
        from memoranda.retrieval.chunks import split_text

        text = read_file(self.name)
        sections = split_sections(text) if self._format == "markdown" else [Section("", text)]
        number = 0
        for section in sections:
            for part in split_text(section.text, self._chunk):
                number += 1
                heading = {"heading": section.heading} if section.heading else {}
                metadata = {**heading, "file": self.label, "part": number, "thread": self.label}
                yield Piece(part, metadata, self.key(number), f"part {number}")

    def _lines(self) -> Iterator[Piece]:
        try:
            with open(self.name, "rb") as lines:
                for number, line in enumerate(lines, start=1):
                    text = (line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line).strip()
                    if text:
                        yield _read_line(text, self.name, f"line {number}")
        except OSError as error:
            raise unreadable(self.name, error) from None


def _posix(path: Path) -> str:
    return unicodedata.normalize("NFC", path.as_posix())


def split_sections(text: str) -> Iterator[Section]:
    r"""Yield the sections of a Markdown text, each with its heading's own line.

    A heading without text is not a section of its own, but it is part of the headings below it.

    >>> [tuple(section) for section in split_sections("# Tea\n\n## Green\nSteep at 80 °C.\n")]
    [('Tea > Green', '## Green\nSteep at 80 °C.\n')]
    """
    above: list[tuple[int, str]] = []
    begun: list[str] = []
    said = False
    for heading, line in _with_marks(text.splitlines(keepends=True)):
        if heading is None:
            begun.append(line)
            said = said or bool(line.strip())
            continue
        if said:
            yield Section(" > ".join(title for _, title in above), "".join(begun))
        level, title = heading
        above = [one for one in above if one[0] < level]
        if title:
            above.append((level, title))
        begun, said = [line], False
    if said:
        yield Section(" > ".join(title for _, title in above), "".join(begun))


def _with_marks(lines: list[str]) -> Iterator[tuple[tuple[int, str] | None, str]]:
    """Yield lines, each with its level and title if it is a heading; fences and front matter have none."""
    fence = ""
    place = _front_matter(lines)
    yield from ((None, line) for line in lines[:place])
    while place < len(lines):
        line = lines[place]
        place += 1
        mark = _FENCE.fullmatch(line.rstrip("\r\n"))
        if fence:
            closes = mark is not None and mark[1].startswith(fence) and not mark[2].strip()
            fence = "" if closes else fence
            yield None, line
        elif mark is not None and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
            yield None, line
        elif (hashed := _HASHED.fullmatch(line.rstrip("\r\n"))) is not None:
            yield (len(hashed[1]), _CLOSING.sub("", (hashed[2] or "").strip()).rstrip()), line
        elif place < len(lines) and (under := _setext_headings(line, lines[place], lines[place - 2 : place - 1])):
            yield (under, line.strip()), line + lines[place]
            place += 1
        else:
            yield None, line


def _front_matter(lines: list[str]) -> int:
    """Return the number of lines of front matter: from one `---` to the next."""
    if not lines or lines[0].rstrip() != "---":
        return 0
    ends = (number for number, line in enumerate(lines[1:], start=2) if line.rstrip() in ("---", "..."))
    return next(ends, 0)


def _setext_headings(line: str, below: str, before: list[str]) -> int:
    """Return the level of a Setext heading, which the next line underlines; 0 for any other line."""
    stands_alone = not before or not before[0].strip()
    plain = line.strip() and line.lstrip()[0] not in "-*+>|#" and not line.startswith(("    ", "\t"))
    mark = _UNDERLINE.fullmatch(below.rstrip("\r\n"))
    if mark is None or not plain or not stands_alone:
        return 0
    return 1 if mark[1][0] == "=" else 2


def _read_line(text: bytes, file: str, place: str) -> Piece:
    import msgspec

    try:
        read = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refuse(file, place, f"is not JSON: {error}") from None
    if isinstance(read, str):
        return Piece(read, {}, None, place)
    if not isinstance(read, dict):
        raise _refuse(file, place, f"is {quote(read)}, not an object or a text")
    given = cast(dict[str, Any], read)
    unknown = sorted(set(given) - {"content", "metadata", "key"})
    if unknown or "content" not in given:
        raise _refuse(file, place, f"has {quote(unknown[0])}" if unknown else "has no `content`")
    metadata: Any = given.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise _refuse(file, place, f"has the metadata {quote(metadata)}, which are not an object")
    return Piece(given["content"], cast(dict[str, Any], metadata or {}), given.get("key"), place)


def _refuse(file: str, place: str, fault: str) -> InvalidValue:
    return InvalidValue(
        f"{place} of `{file}` {fault}",
        hint='Write lines such as {"content": "…", "metadata": {…}, "key": "…"}, or a text in quotes',
        path="$",
        file=file,
        place=place,
    )
