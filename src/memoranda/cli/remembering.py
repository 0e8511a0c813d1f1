"""`memoranda remember`, `entries` and `forget`: one entry in, what there is, and one entry out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memoranda.cli import wording
from memoranda.cli.command import Desk, command, group
from memoranda.cli.options import AnyNamespace, Collection, Limit, Metadata, MetadataJson, Namespace, Source, Ttl
from memoranda.cli.reading import read_metadata, read_value
from memoranda.errors import NotFound

if TYPE_CHECKING:
    from memoranda import Entry, Remembered, Scope

app = group()


@command(
    app,
    "remember",
    scoped=True,
    creates=True,
    embeds=True,
    example="memoranda remember 'The piano tuner comes on Thursday' -c notes --user ada",
)
def remember(
    desk: Desk,
    content: Annotated[str, typer.Argument(metavar="TEXT", help="Text; with --as-json, JSON; - reads stdin.")],
    collection: Collection,
    namespace: Namespace = "",
    metadata: Metadata = None,
    metadata_json: MetadataJson = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="TEXT", help="One entry stands under a key: the last one.")
    ] = None,
    ttl: Ttl = None,
    as_json: Annotated[bool, typer.Option("--as-json", help="Read TEXT as JSON and keep it so.")] = False,
    source: Source = None,
) -> None:
    """Remember a text, so that recall finds it by what it means.

    The collection is made on first use. The same content with the same metadata is stored once in a namespace. A
    lone - reads stdin, less one line break at the end; `memoranda ingest` reads files, in parts.
    """
    read = read_value(content, as_json=as_json)
    labels = read_metadata(metadata or (), metadata_json)
    place = desk.place
    done = place.remember(
        read, collection=collection, metadata=labels, namespace=namespace, ttl=ttl, key=key, source=source
    )
    if desk.out.json:
        from memoranda.wire.shapes import plain

        return desk.out.document({"tenant": desk.tenant, "scope": place.scope, **plain(done)})
    desk.out.say(_became(desk, done, place.scope))


@command(app, "entries", scoped=True, example="memoranda entries --collection notes --user ada --limit 10")
def list_entries(
    desk: Desk,
    collection: Collection,
    namespace: AnyNamespace = None,
    after: Annotated[
        int, typer.Option("--after", min=0, metavar="N", help="Only those after this number, the last one seen.")
    ] = 0,
    limit: Limit = None,
) -> None:
    """List what was remembered, in the order it came."""
    place = desk.place
    found = place.entries(collection=collection, namespace=namespace, after=after, limit=limit)
    if desk.out.json:
        return desk.out.document(found)
    if not found:
        return desk.out.remark(f"No entries in {collection} of {place.scope}.")
    _show(desk, found)


@command(app, "forget", scoped=True, example="memoranda forget --key pricing --collection notes --user ada")
def forget(
    desk: Desk,
    collection: Collection,
    id: Annotated[str | None, typer.Argument(metavar="[ID]", help="As `memoranda entries` shows it.")] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="TEXT", help="The entry under this key.")] = None,
    namespace: Annotated[str, typer.Option("--namespace", metavar="NAME", help="Where the key is.")] = "",
) -> None:
    """Forget one entry, so that it is no longer recalled.

    It is named by its id or by its key. What is asked as of an earlier moment still finds it; `memoranda erase` and
    `memoranda collections delete` leave nothing.
    """
    place = desk.place
    if not place.forget(id, collection=collection, key=key, namespace=namespace):
        what = f"`{id}`" if id is not None else f"under the key `{key}`"
        raise NotFound(
            f"there is no entry {what} in `{collection}` of `{place.scope}`",
            hint="`memoranda entries` with the same options shows what is there",
        )
    if desk.out.json:
        named = {"id": id} if id is not None else {"namespace": namespace, "key": key}
        return desk.out.document(
            {"tenant": desk.tenant, "scope": place.scope, "collection": collection, **named, "forgotten": True}
        )
    desk.out.say(f"{key if id is None else id} is forgotten in {collection} of {place.scope}")


def _became(desk: Desk, done: Remembered, scope: Scope) -> str:
    where = f"{done.collection}/{done.namespace}" if done.namespace else done.collection
    expiry = f", expires {desk.out.ago(done.expires_at)}" if done.expires_at else ""
    if not done.stored:
        return f"{done.id} is there already, in {where} of {scope}{expiry}"
    instead = f" in place of {done.replaced}" if done.replaced else ""
    return f"{done.id} is remembered in {where} of {scope}{instead}{expiry}"


def _show(desk: Desk, entries: list[Entry]) -> None:
    optional = {
        "namespace": [one.namespace for one in entries],
        "key": [one.key or "" for one in entries],
        "expires": [desk.out.ago(one.expires_at) for one in entries],
    }
    shown = {name: cells for name, cells in optional.items() if any(cells)}
    rows = [
        (
            str(one.sequence),
            one.id,
            wording.line(one.content),
            *(cells[place] for cells in shown.values()),
            desk.out.ago(one.created_at),
        )
        for place, one in enumerate(entries)
    ]
    columns = ("number", "id", "content", *shown, "added")
    desk.out.table(columns, rows, whole=("number", "id", "expires", "added"))
