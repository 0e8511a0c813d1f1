"""Format ABL text: two spaces per level, keywords in their canonical spelling.

Values, order and comments stay as they are. Text with errors is not formatted.
"""

from __future__ import annotations

from memoranda.abl.lines import Line, decode, end_of_key, is_quoted
from memoranda.abl.parser import Reading, read

INDENT = "  "


def format_text(text: str, *, name: str = "agent.abl", fragment: bool = False) -> str:
    """Format a source; one in the lower-case dialect becomes `.abl`. Raises SourceError if it has errors."""
    reading = read(text, name=name, fragment=fragment)
    reading.raise_if_failed()
    return format_reading(reading)


def format_reading(reading: Reading) -> str:
    """Return a reading as canonical text."""
    page = _Page(reading.spellings)
    for line in reading.lines.lines:
        page.line(line, 0, first=not page.written)
    page.tail(reading.lines.tail)
    return "".join(f"{text}\n" for text in page.written)


def _key(line: Line, key: str) -> str:
    """Return a key as written, or in quotes if it needs them."""
    written = line.text[: line.key_span.end - line.key_span.start].rstrip()
    said = decode(written)[0] if is_quoted(written) else written
    if key == said and end_of_key(f"{written}: ") == len(written) + 1:
        return written
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class _Page:
    """Writes lines one below the other, with indentation."""

    def __init__(self, spellings: dict[int, str]) -> None:
        self.spellings = spellings
        self.written: list[str] = []

    def line(self, line: Line, depth: int, *, first: bool) -> None:
        """Write a line and everything below it; single empty lines stay, and sections are separated by one."""
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
