"""Print results and errors: text, tables or one JSON document. Only this module writes to the terminal."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, TextIO

import typer

from memoranda.cli import formats, text_layout
from memoranda.cli.formats import visible
from memoranda.cli.hints import hint_of
from memoranda.errors import MemorandaError, UsageError

if TYPE_CHECKING:
    from rich.console import Console


_LINE_SECONDS = 10.0
"""Between lines about the progress of long work, where there is no terminal."""

_STYLES = {"plain": "", "bold": "1", "dim": "2", "alarm": "1;31"}


class Output:
    """The output of one command: data to stdout; remarks, errors and progress to stderr."""

    def __init__(self, *, json: bool) -> None:
        """Print one JSON document (`json`), or text for people."""
        self.json = json

    # for programs

    def document(self, value: Any) -> None:
        """Print the JSON document of this command, indented on a terminal."""
        _write_json(sys.stdout, value)

    # for both

    def result(self, document: Any, text: str) -> None:
        """Print the result of a command: a document, or a line of text."""
        self.document(document) if self.json else self.say(text)

    def details(self, document: Any, rows: Iterable[tuple[str, str]]) -> None:
        """Print one thing: a document, or names and values."""
        self.document(document) if self.json else self.pairs(rows)

    def answers(self, document: Any, *, empty: str = "") -> bool:
        """Print the document, or the remark `empty` about an empty one; return False if people want to see it."""
        if self.json:
            self.document(document)
        elif empty and not document:
            self.remark(empty)
        else:
            return False
        return True

    # for people

    @property
    def on_terminal(self) -> bool:
        """Whether stdout is a terminal."""
        return sys.stdout.isatty()

    def say(self, text: str, *, style: Literal["plain", "bold", "dim"] = "plain", indent: str = "") -> None:
        """Print a line of the result; continuation lines are indented by `indent`."""
        shown = wrap_for(formats.visible(text, lines=True), sys.stdout, indent=indent)
        sys.stdout.write(_style(shown, style, sys.stdout) + "\n")

    def raw(self, text: str) -> None:
        """Print a value: unchanged to a pipe or a file, with control characters escaped on a terminal."""
        sys.stdout.write((formats.visible(text, lines=True) if self.on_terminal else text) + "\n")

    def remark(self, text: str, *, indent: str = "") -> None:
        """Print information that is not the result to stderr; continuation lines are indented by `indent`."""
        sys.stdout.flush()
        sys.stderr.write(wrap_for(formats.visible(text, lines=True), sys.stderr, indent=indent) + "\n")

    def aside(self, text: str) -> None:
        """Print a remark about the result, dimmed on a terminal."""
        sys.stdout.flush()
        sys.stderr.write(_style(wrap_for(formats.visible(text, lines=True), sys.stderr), "dim", sys.stderr) + "\n")

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        whole: Sequence[str] = (),
        folded: Sequence[str] = (),
    ) -> None:
        """Print a table, as wide as the terminal.

        If that is too narrow, `whole` columns keep their width, `folded` columns are wrapped, and the others are
        truncated.
        """
        shown = [[formats.visible(cell) for cell in row] for row in rows]
        plain = not _supports_unicode(sys.stdout)
        self._lines(
            text_layout.table(columns, shown, width=_width(sys.stdout), whole=whole, folded=folded, only_ascii=plain)
        )

    def pairs(self, rows: Iterable[tuple[str, str]]) -> None:
        """Print names and values, one per line; empty values are omitted."""
        shown = [(name, formats.visible(text, lines=True)) for name, text in rows if text]
        self._lines(text_layout.pairs(shown, width=_width(sys.stdout)))

    def _lines(self, lines: Iterable[text_layout.Line]) -> None:
        for line in lines:
            names = _style(line.names, "bold", sys.stdout) if line.names else ""
            sys.stdout.write(f"{names}{line.text}\n")

    def ago(self, when: datetime | None) -> str:
        """Return a time relative to now."""
        from memoranda.model.clock import SystemClock

        return formats.moment(when, SystemClock().now())

    # errors and long work

    def failure(self, error: MemorandaError) -> None:
        """Print an error to stderr: its code, message and hint."""
        sys.stdout.flush()
        if self.json:
            _write_json(sys.stderr, {"error": _error_document(error)})
            return
        head = f"error[{error.code}]:"
        text = wrap_for(f"{head} {formats.visible(error.message)}", sys.stderr, indent="  ")
        sys.stderr.write(_style(head, "alarm", sys.stderr) + text.removeprefix(head) + "\n")
        hint = formats.visible(hint_of(error))
        if hint:
            sys.stderr.write(wrap_for(f"hint: {hint}", sys.stderr, indent="  ") + "\n")

    def interruption(self, message: str) -> None:
        """Print what became of interrupted work, if there is a message."""
        if sys.stderr.isatty():
            sys.stderr.write("\n")  # the line of ^C
        if message and not self.json:
            self.remark(message)

    def bar(self, share: float, *, longest: int = 24) -> str:
        """Return a bar for a share from 0 to 1."""
        block = "█" if _supports_unicode(sys.stdout) else "#"
        return block * max(1, round(share * longest)) if share > 0 else ""

    @contextmanager
    def working(self, what: str) -> Generator[None]:
        """Show a spinner on a terminal."""
        if not sys.stderr.isatty():
            yield
            return
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=_console(), transient=True) as progress:
            task = progress.add_task(what, total=None)
            with _telling_imports(lambda text: progress.update(task, description=f"{what}: {text}")):
                yield

    @contextmanager
    def counting(self, what: str) -> Generator[Callable[[int, int], None]]:
        """Yield a callback for (done, total), shown as a progress bar on a terminal."""
        if not sys.stderr.isatty():
            yield lambda done, total: None
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=_console(), transient=True) as progress:
            task = progress.add_task(what, total=None)
            yield lambda done, total: progress.update(task, completed=done, total=total)

    @contextmanager
    def following(self) -> Generator[Callable[[str, int, int], None]]:
        """Yield a callback for (what, done, total) of rows: one line on a terminal, elsewhere a line now and then."""
        if not sys.stderr.isatty():
            yield (lambda what, done, total: None) if self.json else self._remark_progress()
            return
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(20),
            TaskProgressColumn(),
            TextColumn("{task.fields[speed]}"),
        )
        with Progress(*columns, TimeRemainingColumn(), console=_console(), transient=True) as progress:
            task = progress.add_task("", total=None, speed="")
            speed = _speedometer()

            def tell(what: str, done: int, total: int) -> None:
                progress.update(task, description=what, completed=done, total=total, speed=speed(what, done))

            yield tell

    def _remark_progress(self) -> Callable[[str, int, int], None]:
        speed, said = _speedometer(), monotonic()

        def tell(what: str, done: int, total: int) -> None:
            nonlocal said
            rate = speed(what, done)
            if monotonic() - said >= _LINE_SECONDS:
                said = monotonic()
                self.remark(f"{what}: {done:,} of {total:,} ({done / max(total, 1):.0%}){rate and ', '}{rate}")

        return tell

    def reading(self, lines: Iterable[bytes], *, total: int | None, what: str) -> Iterator[bytes]:
        """Yield lines, with a progress bar on a terminal; `total` is in bytes."""
        if not sys.stderr.isatty():
            yield from lines
            return
        from rich.progress import Progress

        with Progress(console=_console(), transient=True) as progress:
            task = progress.add_task(what, total=total)
            for line in lines:
                progress.advance(task, len(line))
                yield line


@contextmanager
def _telling_imports(tell: Callable[[str], None]) -> Generator[None]:
    """Pass on what is logged about imports of the clients of models, which take seconds."""
    handler = logging.Handler(logging.INFO)
    handler.emit = lambda record: tell(record.getMessage())
    log = logging.getLogger("memoranda.agent.provider")
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(before)
        log.removeHandler(handler)


def _speedometer() -> Callable[[str, int], str]:
    """Return a function that says how many rows were done per second since the first word of `what` changed."""
    stage, began, first = "", monotonic(), 0

    def speed(what: str, done: int) -> str:
        nonlocal stage, began, first
        word = what.partition(" ")[0]
        if word != stage:
            stage, began, first = word, monotonic(), done
        seconds = monotonic() - began
        return f"{(done - first) / seconds:,.0f} rows/s" if seconds >= 0.5 else ""

    return speed


def _style(text: str, style: str, stream: TextIO) -> str:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if not _STYLES[style] or plain or not stream.isatty():
        return text
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def wrap_for(text: str, stream: TextIO, *, indent: str = "") -> str:
    """Wrap a text to the width of a terminal; unchanged elsewhere."""
    return text_layout.wrap(text, _width(stream), indent=indent) if stream.isatty() else text


def _width(stream: TextIO) -> int | None:
    """Return the width of a line: COLUMNS, or the terminal's; None in a pipe."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def _supports_unicode(stream: TextIO) -> bool:
    return "utf" in (stream.encoding or "").lower()


def _console() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def _write_json(stream: TextIO, value: Any) -> None:
    import msgspec

    from memoranda.wire.codec import plain

    try:
        text = msgspec.json.encode(plain(value))
    except UnicodeEncodeError:  # an argument that was not UTF-8, quoted in an error
        import json

        text = json.dumps(value).encode()
    if stream.isatty():
        # JSON escapes control characters, but not other invisible ones.
        stream.write(formats.visible(msgspec.json.format(text, indent=2).decode(), lines=True) + "\n")
        return
    stream.flush()
    stream.buffer.write(text + b"\n")  # JSON is UTF-8, whatever the terminal speaks
    stream.buffer.flush()


def _error_document(error: MemorandaError) -> dict[str, Any]:
    # A detail that is not JSON becomes text.
    import msgspec

    details = msgspec.to_builtins(error.details, enc_hook=str, str_keys=True)
    return {"code": error.code, "message": error.message, "hint": hint_of(error), "details": details}


def confirm(question: str, *, yes: bool) -> None:
    """Ask a yes-or-no question and exit unless the answer is yes; without a terminal, `--yes` is required."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"no terminal to ask on: {question}", hint="Pass --yes to do it without asking")
    sys.stderr.write(wrap_for(f"{visible(question)} [y/N]", sys.stderr) + " ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        sys.stderr.write("Nothing was changed.\n")
        raise typer.Exit(1)
