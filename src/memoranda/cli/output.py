"""Results and errors in; text, tables or one JSON document out. The only module that writes to the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TextIO

from memoranda.cli import fitting, wording
from memoranda.errors import MemorandaError

if TYPE_CHECKING:
    from rich.console import Console

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

    def say(self, text: str, *, style: Literal["plain", "bold", "dim"] = "plain", indent: str = "") -> None:
        """Print a line of the result; where it is too wide, it goes on further in by `indent`."""
        shown = wrapped(wording.visible(text, lines=True), sys.stdout, indent=indent)
        sys.stdout.write(_styled(shown, style, sys.stdout) + "\n")

    def raw(self, text: str) -> None:
        """Print a value: byte for byte to a pipe or a file, made harmless on a terminal."""
        sys.stdout.write((wording.visible(text, lines=True) if self.on_terminal else text) + "\n")

    def remark(self, text: str, *, indent: str = "") -> None:
        """Print what is worth knowing but is not the result; a line that is too wide goes on further in by `indent`."""
        sys.stdout.flush()
        sys.stderr.write(wrapped(wording.visible(text, lines=True), sys.stderr, indent=indent) + "\n")

    def aside(self, text: str) -> None:
        """Print a remark that goes along with the result, dimmed on a terminal."""
        sys.stdout.flush()
        sys.stderr.write(_styled(wrapped(wording.visible(text, lines=True), sys.stderr), "dim", sys.stderr) + "\n")

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
        shown = [[wording.visible(cell) for cell in row] for row in rows]
        plain = not _has_signs(sys.stdout)
        self._lines(
            fitting.table(columns, shown, width=_width(sys.stdout), whole=whole, folded=folded, only_ascii=plain)
        )

    def pairs(self, rows: Iterable[tuple[str, str]]) -> None:
        """Print names and their values, one a line; what has no value is left out."""
        shown = [(name, wording.visible(text, lines=True)) for name, text in rows if text]
        self._lines(fitting.pairs(shown, width=_width(sys.stdout)))

    def _lines(self, lines: Iterable[fitting.Line]) -> None:
        for line in lines:
            names = _styled(line.names, "bold", sys.stdout) if line.names else ""
            sys.stdout.write(f"{names}{line.text}\n")

    def ago(self, when: datetime | None) -> str:
        """Return a moment beside now."""
        from memoranda.model.clock import SystemClock

        return wording.moment(when, SystemClock().now())

    # errors and long work

    def failure(self, error: MemorandaError) -> None:
        """Print an error to stderr: its code, what happened, what to do."""
        sys.stdout.flush()
        if self.json:
            _write_json(sys.stderr, {"error": _described(error)})
            return
        head = f"error[{error.code}]:"
        told = wrapped(f"{head} {wording.visible(error.message)}", sys.stderr, indent="  ")
        sys.stderr.write(_styled(head, "alarm", sys.stderr) + told.removeprefix(head) + "\n")
        if error.hint:
            hint = wording.visible(wording.hint(error.hint))
            sys.stderr.write(wrapped(f"hint: {hint}", sys.stderr, indent="  ") + "\n")

    def interrupted(self, told: str) -> None:
        """Print what became of work that was interrupted, if there is anything to tell."""
        if sys.stderr.isatty():
            sys.stderr.write("\n")  # the terminal showed ^C, and nothing else should stand on its line
        if told and not self.json:
            self.remark(told)

    def bar(self, share: float, *, longest: int = 24) -> str:
        """Return a bar for a share from 0 to 1, of signs that stdout can show."""
        sign = "█" if _has_signs(sys.stdout) else "#"
        return sign * max(1, round(share * longest)) if share > 0 else ""

    @contextmanager
    def working(self, what: str) -> Generator[None]:
        """Show on a terminal that something is going on, while it does."""
        if not sys.stderr.isatty():
            yield
            return
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=_console(), transient=True) as progress:
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
        with Progress(*columns, console=_console(), transient=True) as progress:
            task = progress.add_task(what, total=None)
            yield lambda done, total: progress.update(task, completed=done, total=total)

    def reading(self, lines: Iterable[bytes], *, total: int | None, what: str) -> Iterator[bytes]:
        """Yield lines, with a bar on a terminal for how far into them we are; `total` is in bytes."""
        if not sys.stderr.isatty():
            yield from lines
            return
        from rich.progress import Progress

        with Progress(console=_console(), transient=True) as progress:
            task = progress.add_task(what, total=total)
            for line in lines:
                progress.advance(task, len(line))
                yield line


def _styled(text: str, style: str, stream: TextIO) -> str:
    """Return a text as it is shown on a terminal in colour; as it is elsewhere."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if not _STYLES[style] or plain or not stream.isatty():
        return text
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def wrapped(text: str, stream: TextIO, *, indent: str = "") -> str:
    """Return a text with its lines broken between words, where a person is looking."""
    return fitting.wrap(text, _width(stream), indent=indent) if stream.isatty() else text


def _width(stream: TextIO) -> int | None:
    """Return how many signs a line may have: what COLUMNS says, or the terminal; None in a pipe, which is patient."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def _has_signs(stream: TextIO) -> bool:
    """Return whether more can be shown than ASCII has."""
    return "utf" in (stream.encoding or "").lower()


def _console() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def _write_json(stream: TextIO, value: Any) -> None:
    import msgspec

    from memoranda.wire.shapes import plain

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


def _described(error: MemorandaError) -> dict[str, Any]:
    # Details are for programs to act on; one that JSON has no word for is given as text.
    import msgspec

    details = msgspec.to_builtins(error.details, enc_hook=str, str_keys=True)
    return {"code": error.code, "message": error.message, "hint": wording.hint(error.hint), "details": details}
