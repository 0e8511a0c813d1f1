"""A function that works at a desk in; a command with the common options, errors and exit codes out."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from memoranda.cli.index import COMMANDS
from memoranda.cli.options import COMMON, EMBEDDER, KINDS, SCOPE
from memoranda.cli.output import Output
from memoranda.cli.settings import Settings, resolve
from memoranda.errors import MemorandaError, NotFound, UsageError

if TYPE_CHECKING:
    from memoranda import Memory, Scope, ScopedMemory

Work = TypeVar("Work", bound=Callable[..., None])


class Desk:
    """What a command works with: the settings in force, the memory, whose place it is, and where to print."""

    def __init__(self, given: dict[str, Any], *, creates: bool) -> None:
        """Take the common options; nothing is opened yet."""
        self.settings: Settings = resolve(db=given["db"], tenant=given["tenant"], embedder=given.get("embedder"))
        self.out = Output(json=given["json"])
        self.actor: str | None = given["actor"]
        self._creates = creates
        self._scope: str | None = given.get("scope")
        self._ids: dict[str, str] = {kind: given[kind] for kind in KINDS if given.get(kind) is not None}
        self._memory: Memory | None = None

    @property
    def tenant(self) -> str:
        """The tenant that the command works in."""
        return self.settings["tenant"]

    @property
    def names_scope(self) -> bool:
        """Whether any option names a scope."""
        return self._scope is not None or bool(self._ids)

    @property
    def scope(self) -> Scope:
        """The scope that the options name; the tenant's shared one when they name none."""
        from memoranda import Scope

        if self._scope is not None and self._ids:
            raise UsageError(
                f"--scope and --{next(iter(self._ids))} both say whose memory is meant", hint="Use one of them"
            )
        if self._scope is not None:
            return Scope.parse(self._scope, tenant=self.tenant)
        return Scope.of(tenant=self.tenant, **self._ids)

    @property
    def memory(self) -> Memory:
        """The memory, opened when it is first asked for; only a command that adds something makes a new file."""
        if self._memory is None:
            self._memory = self.open(self.tenant)
        return self._memory

    @property
    def place(self) -> ScopedMemory:
        """The memory of the scope that the options name."""
        scope = self.scope  # a scope that cannot be is refused before any file is made
        return self.memory.at(scope)

    def open(self, tenant: str) -> Memory:
        """Return a handle on a tenant for whoever acts."""
        import memoranda

        self.require_database()
        memory = memoranda.open(
            self.settings["db"],
            tenant=tenant,
            embedder=self.settings["embedder"],
            durability=self.settings["durability"],
            ledger=self.settings["ledger"],
            busy_timeout=self.settings["busy_timeout"],
        ).through("cli")
        # The owner is whoever opened the database: naming it changes nothing.
        return memory if self.actor in (None, "owner") else memory.acting_as(self.actor)

    def require_database(self) -> None:
        """Refuse to go on when there is no database and the command is not one that begins one."""
        file = self.settings.file
        if file is not None and not self._creates and not os.path.exists(file):
            raise NotFound(
                f"there is no database at `{file}`",
                hint="Name another with --db or MEMORANDA_DB; the first `memoranda facts set` or `remember` makes one",
                path=file,
            )

    def close(self) -> None:
        """Close what was opened."""
        if self._memory is not None:
            self._memory.close()


class _Command(TyperCommand):
    """A command whose usage shows what it needs as `FILE`, not as `{FILE}`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


class _Group(TyperGroup):
    """A group whose list of commands says all of what each does, in as many lines as that takes."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first_sentence(one.help or "")) for name, one in self.commands.items()])


class _Listing(_Group):
    """A group that lists when nothing else is asked of it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command's name, which is `list` where none is given."""
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def group(name: str = "", *, lists: bool = False) -> typer.Typer:
    """Return an empty group of commands; the index has its help. One without a name lends its commands to the root.

    With `lists`, the name of the group alone is short for its command `list`.
    """
    return typer.Typer(
        name=name or None,
        cls=_Listing if lists else _Group,
        help=COMMANDS[name].help if name else None,
        no_args_is_help=not lists,
        # Plain help: drawing it with rich would make every `--help` wait for rich to be imported.
        rich_markup_mode=None,
    )


def command(
    app: typer.Typer,
    name: str,
    *,
    scoped: bool = False,
    creates: bool = False,
    embeds: bool = False,
    example: str = "",
) -> Callable[[Work], Work]:
    """Register a function as a command: its first parameter is the desk, the rest are its own options.

    `scoped` adds the options that name a scope, `embeds` the one that names an embedder. `creates` lets it make a
    database that does not exist.
    """

    def register(work: Work) -> Work:
        own = list(inspect.signature(work, eval_str=True).parameters.values())[1:]
        common_options = (*(SCOPE if scoped else ()), *(EMBEDDER if embeds else ()), *COMMON)
        shared = {option.name for option in common_options}

        def run(**given: Any) -> None:
            mine = {name: value for name, value in given.items() if name not in shared}
            common = {name: value for name, value in given.items() if name in shared}
            _run(lambda desk: work(desk, **mine), common, creates=creates)

        parameters = [
            *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own),
            *common_options,
        ]
        # typer reads a command's options from the function itself.
        run.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__doc__ = work.__doc__
        app.command(name, cls=_Command, epilog=f"\b\nExample:\n  {example}" if example else None)(run)
        return work

    return register


def _first_sentence(help: str) -> str:
    """Return what a help text says first; more than that is for the command's own help."""
    return f"{' '.join(help.partition(chr(10) * 2)[0].split()).partition('. ')[0].rstrip('.')}."


def _run(work: Callable[[Desk], None], given: dict[str, Any], *, creates: bool) -> None:
    try:
        desk = Desk(given, creates=creates)
        try:
            work(desk)
        finally:
            desk.close()
    except MemorandaError as error:
        Output(json=given["json"]).failure(error)
        raise typer.Exit(2 if isinstance(error, UsageError) else 1) from None
    except KeyboardInterrupt as interruption:
        Output(json=given["json"]).interrupted(str(interruption))
        raise typer.Exit(130) from None
