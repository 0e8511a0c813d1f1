"""The options that commands have in common: which database, whose memory, who acts, what embeds, how to print."""

from __future__ import annotations

from inspect import Parameter
from typing import Annotated, Any

import typer

KINDS = ("user", "agent", "project", "tree", "workflow", "thread", "run", "session")
"""The kinds of scope, each an option. Written out, since importing the model would slow every `--help`."""

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", help="Show at most this many.")]
AsOf = Annotated[
    str | None, typer.Option("--as-of", metavar="MOMENT", help="As it stood then: ISO 8601, UTC without a zone.")
]
Config = Annotated[
    str | None, typer.Option("--config", metavar="FILE", help="Settings as TOML. Default: MEMORANDA_CONFIG.")
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept with the decision.")]
Once = Annotated[
    str | None,
    typer.Option("--idempotency-key", metavar="TEXT", help="Do it once, however often it is asked for."),
]
Source = Annotated[str | None, typer.Option("--source", metavar="TEXT", help="Where the news comes from.")]
Trace = Annotated[bool, typer.Option("--trace", help="Show each step on stderr.")]
Ttl = Annotated[str | None, typer.Option("--ttl", metavar="TIME", help="Forget it after 90s, 15m, 24h, 30d or 2w.")]
Collection = Annotated[
    str, typer.Option("--collection", "-c", metavar="NAME", help="Where entries of one kind are kept, such as notes.")
]
AnyNamespace = Annotated[
    str | None, typer.Option("--namespace", metavar="NAME", help="Only this part; without it, all of them.")
]
Namespace = Annotated[str, typer.Option("--namespace", metavar="NAME", help="A part of the collection.")]
Metadata = Annotated[
    list[str] | None,
    typer.Option("--metadata", "-m", metavar="KEY=VALUE", help="To filter by, as text; repeat for more."),
]
MetadataJson = Annotated[
    str | None, typer.Option("--metadata-json", metavar="JSON", help='Such as {"account": "acme", "urgency": 3}.')
]


def _option(name: str, annotation: Any, default: Any = None) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


COMMON = (
    _option(
        "db",
        Annotated[
            str | None,
            typer.Option(
                "--db", metavar="URL", help="The database. Default: MEMORANDA_DB, else memory.db in this folder."
            ),
        ],
    ),
    _option(
        "tenant",
        Annotated[
            str | None,
            typer.Option("--tenant", metavar="ID", help="The tenant. Default: MEMORANDA_TENANT, else `default`."),
        ],
    ),
    _option(
        "actor",
        Annotated[
            str | None,
            typer.Option("--actor", metavar="NAME", help="Act as somebody, under what was granted to them."),
        ],
    ),
    _option("json", Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")], False),
)
"""What every command takes."""

EMBEDDER = (
    _option(
        "embedder",
        Annotated[
            str | None,
            typer.Option(
                "--embedder", metavar="NAME", help="What embeds. Default: MEMORANDA_EMBEDDER, else `wordllama`."
            ),
        ],
    ),
)
"""What every command takes that may turn text into vectors."""

SCOPE = (
    _option(
        "scope",
        Annotated[
            str | None,
            typer.Option("--scope", metavar="PATH", help="Whose memory, written as user:ada/agent:emails."),
        ],
    ),
    *(
        _option(
            kind,
            Annotated[str | None, typer.Option(f"--{kind}", metavar="ID", help=f"The memory of this {kind}.")],
        )
        for kind in KINDS
    ),
)
"""What every command takes that works in one scope; without any of them it is the tenant's shared one."""
