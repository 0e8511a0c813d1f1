"""ABL text in, the same document in canonical layout out: two spaces a level, keywords as they are usually written.

What a line says is not touched: values, order and comments stay. Text that cannot be parsed is not formatted.
"""

from __future__ import annotations

from memoranda.abl.parser import Reading, read
from memoranda.abl.tree import Line
from memoranda.abl.values import decode, end_of_key, is_quoted

INDENT = "  "


def format_text(text: str, *, name: str = "agent.abl", fragment: bool = False) -> str:
    """Format a source; one in the lowercase dialect becomes `.abl`. Raises a SourceError for one with errors."""
    reading = read(text, name=name, fragment=fragment)
    reading.raise_if_failed()
    return format_reading(reading)


def format_reading(reading: Reading) -> str:
    """Return what was read as canonical text."""
    page = _Page(reading.spellings)
    for line in reading.lines.lines:
        page.line(line, 0, first=not page.written)
    page.tail(reading.lines.tail)
    return "".join(f"{text}\n" for text in page.written)


def _key(line: Line, key: str) -> str:
    """Return a key that is a name as it was written, or in quotes where it was written otherwise."""
    written = line.text[: line.key_span.end - line.key_span.start].rstrip()
    said = decode(written)[0] if is_quoted(written) else written
    if key == said and end_of_key(f"{written}: ") == len(written) + 1:
        return written
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class _Page:
    """Writes lines one below the other."""

    def __init__(self, spellings: dict[int, str]) -> None:
        self.spellings = spellings
        self.written: list[str] = []

    def line(self, line: Line, depth: int, *, first: bool) -> None:
        """Write a line and what belongs to it; single empty lines stay, and sections are set apart."""
        section = depth == 0 and bool(line.children or line.comments)
        if not first and (line.blank_before or section):
            self.written.append("")
        margin = INDENT * depth
        self.written.extend(f"{margin}{comment}" for comment in line.comments)
        dash = "- " if line.dash else ""
        inside = depth + 1 if line.dash else depth
        self.written.append(f"{margin}{dash}{self._head(line)}".rstrip())
        self._block(line, inside + 1)
        self._all(line.children, inside + 1)
        self._all(line.properties, inside)

    def _all(self, lines: tuple[Line, ...], depth: int) -> None:
        for at, line in enumerate(lines):
            self.line(line, depth, first=at == 0)

    def _head(self, line: Line) -> str:
        if line.key is None:
            return line.text
        key = self.spellings.get(line.key_span.start) or _key(line, line.key)
        if line.value is None:
            return f"{key}:"
        return f"{key}: |" if line.value.style == "block" else f"{key}: {line.value.text}"

    def _block(self, line: Line, depth: int) -> None:
        if line.value is not None and line.value.style == "block" and line.value.text:
            for text in line.value.text.split("\n"):
                self.written.append(f"{INDENT * depth}{text}".rstrip())

    def tail(self, comments: tuple[str, ...]) -> None:
        """Write the comments after the last line."""
        if comments and self.written:
            self.written.append("")
        self.written.extend(comments)
