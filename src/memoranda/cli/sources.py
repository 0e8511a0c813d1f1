"""Files in, pieces to remember out: lines of JSON, and texts in parts."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from memoranda.cli.reading import read_file, unreadable
from memoranda.errors import InvalidValue, UsageError
from memoranda.model.text import quote

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
    """One thing to remember, and where in its file it stands, for an error to name."""

    content: Any
    metadata: dict[str, Any]
    key: str | None
    place: str


class Section(NamedTuple):
    """What stands under one heading of a Markdown text; `heading` names those above it too."""

    heading: str
    text: str


class Source:
    """One file, which can be read several times."""

    def __init__(self, name: str, *, format: Format | None, chunk: int) -> None:
        """Take a file by its name; without a format its ending tells it."""
        ending = _ENDINGS.get(Path(name).suffix.lower())
        if format is None and ending is None:
            raise UsageError(
                f"the ending of {quote(name)} does not tell what it holds",
                hint=f"Endings are {', '.join(_ENDINGS)}; for others pass --format",
                path=name,
            )
        self.name = name
        self._format: Format = format or ending or "text"
        self._chunk = chunk

    @property
    def in_parts(self) -> bool:
        """Whether the file is a text, whose parts have keys: together they are what it says now."""
        return self._format != "jsonl"

    @property
    def label(self) -> str:
        """Return how entries name the file: by its path below the current folder, on any system.

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
        """Return the key that a part of a text stands under, so that another text of the file takes its place."""
        return f"{self.label}#{part}"

    def absolute_key(self, part: int) -> str:
        """Return the key that version 0.1.0 gave to a part of a file outside the current folder."""
        return f"{_posix(self._path)}#{part}"

    def pieces(self) -> Iterator[Piece]:
        """Yield what the file holds, in order; refuse what cannot be read, naming the place."""
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
    r"""Yield what stands under each heading of a Markdown text, the heading's own line included.

    A heading with nothing under it is no section of its own, but those below it name it.

    >>> [tuple(section) for section in split_sections("# Tea\n\n## Green\nSteep at 80 °C.\n")]
    [('Tea > Green', '## Green\nSteep at 80 °C.\n')]
    """
    above: list[tuple[int, str]] = []
    begun: list[str] = []
    said = False
    for heading, line in _marked(text.splitlines(keepends=True)):
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


def _marked(lines: list[str]) -> Iterator[tuple[tuple[int, str] | None, str]]:
    """Yield lines, each with its level and title if it is a heading; fences and front matter hold none."""
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
        elif place < len(lines) and (under := _underlined(line, lines[place], lines[place - 2 : place - 1])):
            yield (under, line.strip()), line + lines[place]
            place += 1
        else:
            yield None, line


def _front_matter(lines: list[str]) -> int:
    """Return how many lines a file begins with that are about it: from one `---` to the next."""
    if not lines or lines[0].rstrip() != "---":
        return 0
    ends = (number for number, line in enumerate(lines[1:], start=2) if line.rstrip() in ("---", "..."))
    return next(ends, 0)


def _underlined(line: str, below: str, before: list[str]) -> int:
    """Return the level of a heading that is underlined by the line below it; 0 for any other line."""
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
        raise _refused(file, place, f"is not JSON: {error}") from None
    if isinstance(read, str):
        return Piece(read, {}, None, place)
    if not isinstance(read, dict):
        raise _refused(file, place, f"is {quote(read)}, not an object or a text")
    given = cast(dict[str, Any], read)
    unknown = sorted(set(given) - {"content", "metadata", "key"})
    if unknown or "content" not in given:
        raise _refused(file, place, f"has {quote(unknown[0])}" if unknown else "has no `content`")
    metadata: Any = given.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise _refused(file, place, f"has the metadata {quote(metadata)}, which are not an object")
    return Piece(given["content"], cast(dict[str, Any], metadata or {}), given.get("key"), place)


def _refused(file: str, place: str, fault: str) -> InvalidValue:
    return InvalidValue(
        f"{place} of `{file}` {fault}",
        hint='Write lines such as {"content": "…", "metadata": {…}, "key": "…"}, or a text in quotes',
        path="$",
        file=file,
        place=place,
    )
