"""Results and errors in; text, tables or one JSON document out. The only module that writes to the terminal."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TextIO

from recollect.cli import wording
from recollect.errors import RecollectError

if TYPE_CHECKING:
    from rich.console import Console

_GAP = 2
"""Blanks between two columns of a table."""
_NARROWEST = 4
"""Signs of a column that is cut, at least."""
_STYLES = {"plain": "", "bold": "1", "dim": "2", "alarm": "1;31"}


class Output:
    """Where one command prints: data to stdout, remarks, errors and progress to stderr."""

    def __init__(self, *, json: bool) -> None:
        """Print for programs (`json`) or for people."""
        self.json = json

    # for programs

    def document(self, value: Any) -> None:
        """Print the one JSON document of this command; indented where a person is looking."""
        _write_json(sys.stdout, value)

    # for people

    @property
    def on_terminal(self) -> bool:
        """Whether a person is looking at stdout."""
        return sys.stdout.isatty()

    def say(self, text: str, *, style: Literal["plain", "bold", "dim"] = "plain") -> None:
        """Print a line of the result."""
        sys.stdout.write(_styled(wording.visible(text, lines=True), style, sys.stdout) + "\n")

    def raw(self, text: str) -> None:
        """Print a value: byte for byte to a pipe or a file, made harmless on a terminal."""
        sys.stdout.write((wording.visible(text, lines=True) if self.on_terminal else text) + "\n")

    def remark(self, text: str) -> None:
        """Print what is worth knowing but is not the result."""
        sys.stdout.flush()
        sys.stderr.write(wording.visible(text, lines=True) + "\n")

    def aside(self, text: str) -> None:
        """Print a remark that goes along with the result, dimmed on a terminal."""
        sys.stdout.flush()
        sys.stderr.write(_styled(wording.visible(text, lines=True), "dim", sys.stderr) + "\n")

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        whole: Sequence[str] = (),
        folded: Sequence[str] = (),
    ) -> None:
        """Print rows under their heads, as wide as the terminal.

        Where that is too narrow, columns that are `whole` keep their width, `folded` ones go on in the next
        line, and the others are cut.
        """
        from rich import box
        from rich.cells import cell_len
        from rich.table import Table
        from rich.text import Text

        console = _console()
        shown = [[wording.visible(cell) for cell in row] for row in rows]
        widths = [max(cell_len(cell) for cell in column) for column in zip(columns, *shown, strict=True)]
        kept = [name in whole or name in folded for name in columns]
        most = None
        if not folded:
            # rich would cut all columns alike, those that are whole too.
            room = console.width - _GAP * (len(columns) - 1) - sum(itertools.compress(widths, kept))
            most = _widest(list(itertools.compress(widths, (not keep for keep in kept))), room)
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
        for name, width, keep in zip(columns, widths, kept, strict=True):
            fold = name in folded
            table.add_column(
                name,
                overflow="fold" if fold else "ellipsis",
                no_wrap=not fold,
                min_width=width if name in whole else None,
                max_width=None if keep else most,
            )
        for row in shown:
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)

    def pairs(self, rows: Iterable[tuple[str, str]]) -> None:
        """Print names and their values, one a line; what has no value is left out."""
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        for name, text in rows:
            if text:
                grid.add_row(Text(name, style="bold"), Text(wording.visible(text, lines=True)))
        _console().print(grid)

    def ago(self, when: datetime | None) -> str:
        """Return a moment beside now."""
        from recollect.model.clock import SystemClock

        return wording.moment(when, SystemClock().now())

    # errors and long work

    def failure(self, error: RecollectError) -> None:
        """Print an error to stderr: its code, what happened, what to do."""
        sys.stdout.flush()
        if self.json:
            _write_json(sys.stderr, {"error": _described(error)})
            return
        head = _styled(f"error[{error.code}]:", "alarm", sys.stderr)
        sys.stderr.write(f"{head} {wording.visible(error.message)}\n")
        if error.hint:
            sys.stderr.write(f"hint: {wording.visible(wording.hint(error.hint))}\n")

    def bar(self, share: float, *, longest: int = 24) -> str:
        """Return a bar for a share from 0 to 1, of signs that stdout can show."""
        sign = "█" if "utf" in (sys.stdout.encoding or "").lower() else "#"
        return sign * max(1, round(share * longest)) if share > 0 else ""

    @contextmanager
    def working(self, what: str) -> Generator[None]:
        """Show on a terminal that something is going on, while it does."""
        if not sys.stderr.isatty():
            yield
            return
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=_console(stderr=True), transient=True) as progress:
            progress.add_task(what, total=None)
            yield

    @contextmanager
    def counting(self, what: str) -> Generator[Callable[[int, int], None]]:
        """Give something to tell (done, total) to, which shows on a terminal as a bar."""
        if not sys.stderr.isatty():
            yield lambda done, total: None
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=_console(stderr=True), transient=True) as progress:
            task = progress.add_task(what, total=None)
            yield lambda done, total: progress.update(task, completed=done, total=total)

    def reading(self, lines: Iterable[bytes], *, total: int | None, what: str) -> Iterator[bytes]:
        """Yield lines, with a bar on a terminal for how far into them we are; `total` is in bytes."""
        if not sys.stderr.isatty():
            yield from lines
            return
        from rich.progress import Progress

        with Progress(console=_console(stderr=True), transient=True) as progress:
            task = progress.add_task(what, total=total)
            for line in lines:
                progress.advance(task, len(line))
                yield line


def _styled(text: str, style: str, stream: TextIO) -> str:
    """Return a text as it is shown on a terminal in colour; as it is elsewhere."""
    if not _STYLES[style] or not stream.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def _widest(widths: Sequence[int], room: int) -> int:
    """Return how wide a column may be at most so that all of them have room; only the widest are cut."""
    widest = min(max(widths, default=0), room)
    while widest > _NARROWEST and sum(min(width, widest) for width in widths) > room:
        widest -= 1
    return max(widest, _NARROWEST)


def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def _write_json(stream: TextIO, value: Any) -> None:
    import msgspec

    from recollect.wire.shapes import plain

    try:
        text = msgspec.json.encode(plain(value))
    except UnicodeEncodeError:  # an argument that was not UTF-8, quoted in an error
        import json

        text = json.dumps(value).encode()
    if stream.isatty():
        # Written as it is, a control character would have been escaped by JSON; invisible signs are not.
        stream.write(wording.visible(msgspec.json.format(text, indent=2).decode(), lines=True) + "\n")
        return
    stream.flush()
    stream.buffer.write(text + b"\n")  # JSON is UTF-8, whatever the terminal speaks
    stream.buffer.flush()


def _described(error: RecollectError) -> dict[str, Any]:
    # Details are for programs to act on; one that JSON has no word for is given as text.
    import msgspec

    details = msgspec.to_builtins(error.details, enc_hook=str, str_keys=True)
    return {"code": error.code, "message": error.message, "hint": wording.hint(error.hint), "details": details}
