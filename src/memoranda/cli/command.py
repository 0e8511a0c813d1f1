"""Commands and their common options, error handling and exit codes."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from memoranda.cli.index import COMMANDS
from memoranda.cli.output import Output
from memoranda.errors import MemorandaError, NotFound, UsageError
from memoranda.server.environment import Settings, resolve

if TYPE_CHECKING:
    from memoranda import Memory, Scope, ScopedMemory
    from memoranda.model.trust import OriginKind


KINDS = ("user", "agent", "project", "tree", "workflow", "thread", "run", "session")
"""The kinds of scope, each an option. Repeated here, because importing the model would slow every `--help`."""


def option(metavar: str | None, help: str, *names: str, **more: Any) -> Any:
    """Return an option with a value; without names, it has the name of its parameter."""
    return typer.Option(*names, metavar=metavar, help=help, **more)


def flag(help: str, *names: str) -> Any:
    """Return an option without a value."""
    return typer.Option(*names, help=help)


def argument(metavar: str, help: str) -> Any:
    """Return an argument."""
    return typer.Argument(metavar=metavar, help=help)


Yes = Annotated[bool, flag("Do it without asking.", "--yes", "-y")]
Limit = Annotated[int | None, option("N", "Show at most this many.")]
MinTrust = Annotated[
    Literal["untrusted", "low", "medium", "high"],
    option("TRUST", "Leave out what is trusted less: untrusted (nothing), low, medium or high."),
]
AsOf = Annotated[str | None, option("MOMENT", "As of this time: ISO 8601, UTC by default.")]
Config = Annotated[str | None, option("FILE", "Settings as TOML. Default: MEMORANDA_CONFIG.")]
Reason = Annotated[str, option("TEXT", "The reason, stored with the decision.")]
IdempotencyKey = Annotated[str | None, option("TEXT", "Do it only once for all calls with this key.")]
Source = Annotated[str | None, option("TEXT", "Where the information comes from.")]
DerivedFrom = Annotated[
    list[str] | None, option("REF", "What it was made of: it is trusted no more than that; repeatable.")
]
RequiresConfirmation = Annotated[bool, flag("Let it wait until someone else confirms it.", "--requires-confirmation")]
Trace = Annotated[bool, flag("Show each step on stderr.", "--trace")]
Ttl = Annotated[str | None, option("TIME", "Expire after 90s, 15m, 24h, 30d or 2w.")]
Collection = Annotated[str, option("NAME", "The collection, such as notes.", "--collection", "-c")]
AnyCollection = Annotated[str | None, option("NAME", "Only this collection; by default all.", "--collection", "-c")]
AnyNamespace = Annotated[str | None, option("NAME", "Only this namespace; by default all.")]
Namespace = Annotated[str, option("NAME", "A namespace within the collection.")]
Metadata = Annotated[
    list[str] | None, option("KEY=VALUE", "Metadata to filter by, as text; repeatable.", "--metadata", "-m")
]
MetadataJson = Annotated[str | None, option("JSON", 'Metadata as JSON, such as {"account": "acme"}.')]


def _parameter(name: str, metavar: str, help: str) -> Parameter:
    annotation = Annotated[str | None, option(metavar, help)]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


COMMON = (
    _parameter("db", "URL", "The database. Default: MEMORANDA_DB, else memory.db in this folder."),
    _parameter("tenant", "ID", "The tenant. Default: MEMORANDA_TENANT, else `default`."),
    _parameter("actor", "NAME", "Act as this actor, with its permissions."),
    Parameter(
        "json",
        Parameter.KEYWORD_ONLY,
        default=False,
        annotation=Annotated[bool, flag("Print one JSON document instead of text.", "--json")],
    ),
)
"""Options of all commands."""

ORIGIN = (_parameter("origin", "KIND", "What you pass on, such as tool_external: it is trusted less."),)
"""Options of commands that write what people and programs say."""

EPOCH = (
    Parameter(
        "epoch",
        Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[int | None, option("N", "Refuse it if permissions have changed since this epoch.")],
    ),
)
"""Options of commands that change something; `permissions epoch` prints the current one."""

EMBEDDER = (_parameter("embedder", "NAME", "The embedder. Default: MEMORANDA_EMBEDDER, else `wordllama`."),)
"""Options of commands that may embed text."""

SCOPE = (
    _parameter("scope", "PATH", "The scope: shared, project:atlas, user:ada/agent:emails."),
    *(_parameter(kind, "ID", f"The memory of this {kind}.") for kind in KINDS),
)
"""Options of commands that work in one scope; by default the tenant's shared scope."""


Work = TypeVar("Work", bound=Callable[..., None])


class Desk:
    """The context of a command: settings, memory, scope and output."""

    def __init__(self, given: dict[str, Any], *, creates: bool) -> None:
        """Take the common options; the memory is opened on first use."""
        self.settings: Settings = resolve(db=given["db"], tenant=given["tenant"], embedder=given.get("embedder"))
        self.out = Output(json=given["json"])
        self.actor: str | None = given["actor"]
        self._origin: str | None = given.get("origin")
        self._epoch: int | None = given.get("epoch")
        self._creates = creates
        self._scope: str | None = given.get("scope")
        self._ids: dict[str, str] = {kind: given[kind] for kind in KINDS if given.get(kind) is not None}
        self._memory: Memory | None = None

    @property
    def tenant(self) -> str:
        """The tenant that the command works in."""
        return self.settings["tenant"]

    @property
    def origin(self) -> OriginKind | None:
        """What the command writes comes from; None for the person who runs it."""
        from memoranda.model.trust import check_origin

        return None if self._origin is None else check_origin(self._origin)

    @property
    def names_scope(self) -> bool:
        """Whether any option names a scope."""
        return self._scope is not None or bool(self._ids)

    @property
    def scope(self) -> Scope:
        """The scope of the options; by default the tenant's shared scope."""
        from memoranda import Scope

        if self._scope is not None and self._ids:
            raise UsageError(f"--scope and --{next(iter(self._ids))} cannot be combined", hint="Use one of them")
        if self._scope is not None:
            return Scope.named(self._scope, tenant=self.tenant)
        return Scope.of(tenant=self.tenant, **self._ids)

    @property
    def memory(self) -> Memory:
        """The memory, opened on first use; only commands that add something create a new file."""
        if self._memory is None:
            self._memory = self.open(self.tenant)
        return self._memory

    @property
    def place(self) -> ScopedMemory:
        """The memory of the scope of the options."""
        scope = self.scope  # an invalid scope is rejected before a file is created
        return self.memory.at(scope)

    def open(self, tenant: str) -> Memory:
        """Open a handle on a tenant for the actor."""
        import memoranda

        origin = self.origin
        self.require_database()
        memory = memoranda.open(
            self.settings["db"],
            tenant=tenant,
            embedder=self.settings["embedder"],
            durability=self.settings["durability"],
            ledger=self.settings["ledger"],
            busy_timeout=self.settings["busy_timeout"],
            statement_timeout=self.settings["statement_timeout"] or None,
            read_from=self.settings["read_from"],
        ).through("cli")
        # The default actor is the owner: naming it changes nothing.
        memory = memory if self.actor in (None, "owner") else memory.acting_as(self.actor)
        memory = memory if origin is None else memory.from_origin(origin)
        return memory if self._epoch is None else memory.at_epoch(self._epoch)

    def require_database(self) -> None:
        """Raise `NotFound` if the database does not exist and the command does not create one."""
        file = self.settings.file
        if file is not None and not self._creates and not os.path.exists(file):
            raise NotFound(
                f"no database exists at `{file}`",
                hint="Name another with --db or MEMORANDA_DB; `memoranda facts set` and `remember` create one",
                path=file,
            )

    def close(self) -> None:
        """Close the memory."""
        if self._memory is not None:
            self._memory.close()


class _Command(TyperCommand):
    """A command whose usage line shows arguments as `FILE`, not as `{FILE}`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


class _Group(TyperGroup):
    """A group whose help shows the first sentence of each command in full."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first_sentence(one.help or "")) for name, one in self.commands.items()])


class _Listing(_Group):
    """A group whose default command is `list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command's name, by default `list`."""
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def group(name: str = "", *, lists: bool = False) -> typer.Typer:
    """Create a group of commands, with its help from the index. Commands of a group without name belong to the root.

    With `lists`, the default command of the group is `list`.
    """
    return typer.Typer(
        name=name or None,
        cls=_Listing if lists else _Group,
        help=COMMANDS[name].help if name else None,
        no_args_is_help=not lists,
        # Plain help: importing rich would add 0.2 s to every `--help`.
        rich_markup_mode=None,
    )


def command(
    app: typer.Typer,
    name: str,
    *,
    scoped: bool = False,
    creates: bool = False,
    embeds: bool = False,
    writes: bool = False,
    changes: bool = False,
    example: str = "",
) -> Callable[[Work], Work]:
    """Register a function as a command: its first parameter is the desk, the others are its options.

    `scoped` adds the scope options, `embeds` the embedder option, `changes` the option of the permission epoch, and
    `writes` that and the origin option. `creates` allows it to create a database.
    """

    def register(work: Work) -> Work:
        own = list(inspect.signature(work, eval_str=True).parameters.values())[1:]
        common_options = (
            *(SCOPE if scoped else ()),
            *(ORIGIN if writes else ()),
            *(EPOCH if writes or changes else ()),
            *(EMBEDDER if embeds else ()),
            *COMMON,
        )
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
        Output(json=given["json"]).interruption(str(interruption))
        raise typer.Exit(130) from None


def lacking(what: str, extra: str, missing: ImportError) -> UsageError:
    """Return the error for a command whose extra is not installed, or is a wrong version."""
    absent = isinstance(missing, ModuleNotFoundError)
    return UsageError(
        f"{what} needs {'a package that is not installed' if absent else 'another version of a package'}: "
        f"{missing.name}",
        hint=f'Install it with `pip install "memoranda[{extra}]"`',
    )
