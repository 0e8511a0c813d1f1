"""What all benchmarks share: the command line, the run, and the printed table."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import machine
from report import Line, as_data, draw, print_table, show_times
from rich.console import Console
from rich.table import Table

C = TypeVar("C")


@dataclass
class Run(Generic[C]):
    """Where a run works, how much it does, and what it finds out on the way."""

    folder: Path
    counts: C
    console: Console
    arguments: argparse.Namespace
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    """How each contender keeps its data, by its name."""
    tables: list[Table] = field(default_factory=list)
    """What is printed before the table of targets."""
    figures: dict[str, Any] = field(default_factory=dict)
    """What is written down beside the lines."""

    def make_folder(self, name: str) -> Path:
        """Return a new empty folder for one group of measurements."""
        made = self.folder / name
        made.mkdir()
        return made


Measurement = Callable[[Run[C]], list[Line]]


@dataclass(frozen=True)
class Program(Generic[C]):
    """One benchmark: what it measures and how it introduces itself."""

    title: str
    purpose: str
    """The text of `--help`."""
    measurements: Mapping[str, Measurement[C]]
    full: C
    quick: C
    peers: Sequence[str] = ()
    """The distributions whose versions are printed."""
    durability: str = ""
    footnotes: Mapping[str, str] = field(default_factory=dict)
    """By the name of a contender: what is printed below the settings when it is among them."""
    add_arguments: Callable[[argparse.ArgumentParser], None] | None = None
    check_arguments: Callable[[argparse.ArgumentParser, argparse.Namespace], None] | None = None


def run_program(program: Program[C]) -> list[Line]:
    """Measure what the command line asks for, print it, write it down where asked to, and return what was found."""
    arguments = _parse_arguments(program)
    console = Console() if sys.stdout.isatty() else Console(width=150)
    with tempfile.TemporaryDirectory(prefix="memoranda-bench-", dir=arguments.dir) as folder:
        run = Run(Path(folder), program.quick if arguments.quick else program.full, console, arguments)
        about = _describe(program, run)
        lines: list[Line] = []
        for name in arguments.only:
            with console.status(f"measuring: {name}"):
                lines += program.measurements[name](run)
        about["after"] = _describe_moment(run.folder)
    for name, text in about.items():
        console.print(f"{name + ':':<13} {text}", highlight=False)
    _print_settings(run, program.footnotes)
    for table in run.tables:
        console.print(table)
    if arguments.json:
        found = {"about": about, "settings": run.settings, "lines": as_data(lines), **run.figures}
        arguments.json.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    if arguments.plot:
        arguments.plot.write_text(draw(lines))
    print_table(console, lines, program.title + (" (QUICK)" if arguments.quick else ""))
    return lines


def _parse_arguments(program: Program[C]) -> argparse.Namespace:
    """Return the command line, checked."""
    measured = program.measurements
    parser = argparse.ArgumentParser(description=program.purpose, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller counts, wider error")
    parser.add_argument("--only", default="", metavar="A,B", help=f"of {','.join(measured)}")
    parser.add_argument("--dir", default=tempfile.gettempdir(), type=Path, help="where to work; a real disk")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw how far each target was reached")
    if program.add_arguments:
        program.add_arguments(parser)
    arguments = parser.parse_args()
    arguments.only = [name for name in arguments.only.split(",") if name] or list(measured)
    unknown = sorted(set(arguments.only) - set(measured))
    if unknown:
        parser.error(f"`{unknown[0]}` is not measured; choose from {', '.join(measured)}")
    kind = machine.file_system(arguments.dir)
    if kind in machine.HOLLOW:
        parser.error(f"{arguments.dir} is on {kind}, which has no disk to sync to; give --dir on a real one")
    if program.check_arguments:
        program.check_arguments(parser, arguments)
    return arguments


def _describe(program: Program[C], run: Run[C]) -> dict[str, str]:
    """Return the machine, the disk and the load before the run, ready to be printed."""
    before = _describe_moment(run.folder)
    if machine.time_syncs(run.folder, count=100).p50 < machine.QUICKEST_SYNC:
        run.console.print(
            "WARNING: this disk says it has synced before it can have; durable figures mean nothing", style="bold red"
        )
    if machine.busy():
        run.console.print(
            "WARNING: others keep this machine busy; trust no time, and few ratios of times", style="bold red"
        )
    about = {
        **machine.describe(program.peers),
        "disk": f"{machine.file_system(run.folder)} at {run.folder.parent}",
    }
    if program.durability:
        about["durability"] = program.durability
    counts = "QUICK: small counts, wider error" if run.arguments.quick else "full"
    return {**about, "counts": counts, "before": before}


def _describe_moment(folder: Path) -> str:
    syncs, loops = machine.time_syncs(folder, count=500), machine.time_loops(count=500)
    return (
        f"load {machine.load()}; 4 KB write and fdatasync {show_times(syncs)}; "
        f"10,000 rounds of a Python loop {show_times(loops)}"
    )


def _print_settings(run: Run[C], footnotes: Mapping[str, str]) -> None:
    """Print what each contender gave back when asked how it keeps its data."""
    if not run.settings:
        return
    names = list(dict.fromkeys(name for settings in run.settings.values() for name in settings))
    table = Table("settings, as read back", *names, title_justify="left")
    for contender, settings in run.settings.items():
        table.add_row(contender, *(str(settings.get(name, "–")) for name in names))
    run.console.print(table)
    if "synchronous" in names:
        run.console.print("synchronous 2 is FULL: every commit is synced before it returns", style="dim")
    for contender, note in footnotes.items():
        if contender in run.settings:
            run.console.print(note, style="dim")
