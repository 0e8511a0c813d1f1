"""Faults that every language knows in, one code and one wording out, so that a mistake reads alike in all of them."""

from __future__ import annotations

from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.source import Span
from memoranda.model.text import quote


def never_closed(written: str) -> str:
    """Return what is said of a quote without its end, by the text that begins with it."""
    first, _, _ = written.partition("\n")
    return f"the quote at {quote(first.rstrip(), longest=30)} is never closed"


def note_missing_colon(said: Diagnostics, word: str, start: int) -> None:
    """Note a word that stands at an offset without the colon that makes it a key."""
    message = f"a colon is missing after {quote(word, longest=40)}"
    hint = f"Write it as `{word}: …`" if len(word) <= 40 and word.isprintable() else "Put one there"
    said.error("missing_colon", message, Span(start, start + len(word)), hint=hint)


def note_foreign_comment(said: Diagnostics, written: str, mark: str, span: Span) -> None:
    """Note a comment that begins as one of another language does."""
    message = f"a comment begins with `{mark}` here, not with `{written}`"
    said.error("foreign_comment", message, span, hint=f"Write `{mark}` before it")


def note_mixed_indentation(said: Diagnostics, message: str, lead: Span) -> None:
    """Note a line whose margin holds tabs that do not fit the other lines."""
    said.error("mixed_indentation", message, lead, hint="Indent every line with spaces")


def note_uneven(said: Diagnostics, column: int | None, indent: int, head: Span) -> None:
    """Note a line that does not stand in the column of the lines beside it; None where it is the first of them."""
    if column is not None and indent != column:
        said.error(
            "indentation",
            f"the line stands in column {indent + 1}, the lines beside it in column {column + 1}",
            head,
            hint="Lines of one block begin in the same column",
        )
