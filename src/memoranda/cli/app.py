"""The root command: parse the arguments, run the command and return its exit code."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from memoranda.cli.index import COMMANDS
from memoranda.cli.output import Output
from memoranda.errors import Full, UsageError

# What typer raises for invalid arguments; it exports only a subclass.
_UsageProblem = cast("type[Exception]", typer.BadParameter.__mro__[1])

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a full disk."""


_VALUE_WITH_A_DASH = re.compile(r"-(\s|\.?\d|[^-=][^=]*\s)")
"""A line of a list, a negative number, or several words: not meant as an option."""


def _group_of(command: str) -> TyperGroup:
    """Return the group of a command: `<command>_app` of its module, or `app`."""
    module = import_module(f"memoranda.cli.{COMMANDS[command].module}")
    return _group(getattr(module, f"{command}_app", None) or module.app)


@cache
def _group(app: typer.Typer) -> TyperGroup:
    return get_group(app)


class _Root(TyperGroup):
    """The commands of the index, each imported when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all names, in the order of the index."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command or group by name, or None."""
        if cmd_name not in COMMANDS:
            near = get_close_matches(cmd_name, COMMANDS)
            if near and not ctx.resilient_parsing:
                ctx.fail(f"No such command {cmd_name!r}. Did you mean {near[0]!r}?")
            return None
        group = _group_of(cmd_name)
        return group if group.name == cmd_name else group.commands[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


app = typer.Typer(
    name="memoranda",
    cls=_Root,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from memoranda import __version__

        typer.echo(f"memoranda {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    """The memory that AI agents share: facts with versions and history, under a gate and a ledger."""


@cache
def _root() -> Any:
    return get_command(app)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code: 0 success, 1 failed or not found, 2 wrong usage."""
    for stream in (sys.stdout, sys.stderr):
        # A value may contain characters that the terminal's encoding lacks; an escape is better than a failure.
        cast("Any", stream).reconfigure(errors="backslashreplace")
    try:
        code = _root()(list(arguments), prog_name="memoranda", standalone_mode=False)
        sys.stdout.flush()
    except _UsageProblem as error:
        return _report_misuse(cast("Any", error), arguments)
    except typer.Abort:
        return 1
    except BrokenPipeError:
        # The reader has closed the pipe. The interpreter flushes stdout once more when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        full = Full(f"the output cannot be written: {error.strerror}", hint="Free some space, or write it elsewhere")
        Output(json="--json" in arguments).failure(full)
        return 1
    return code if isinstance(code, int) else 0


def _report_misuse(error: Any, arguments: Sequence[str]) -> int:
    message = str(error.format_message())
    if error.ctx is not None and type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(message, err=True)
        return 2
    command = error.ctx.command_path if error.ctx is not None else "memoranda"
    hint = f"Try `{command} --help`"
    if error.ctx is not None and isinstance(error.ctx.command, TyperGroup) and hasattr(error, "option_name"):
        hint = "Options come after the command: memoranda facts list --db memory.db"
    elif hasattr(error, "option_name") and any(map(_VALUE_WITH_A_DASH.match, arguments)):
        message = "a value that begins with a dash was read as an option"
        hint = f"Put every option first, then `--`, then the values: {command} … -- '- A line'"
    Output(json="--json" in arguments).failure(UsageError(message.rstrip("."), hint=hint))
    return 2
