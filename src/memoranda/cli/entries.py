"""`memoranda remember`, `recall`, `entries`, `supersede`, `forget`, `reject`, `undo` and `collections`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from memoranda.cli import formats
from memoranda.cli.arguments import read_filter, read_metadata, read_value
from memoranda.cli.command import (
    AnyCollection,
    AnyNamespace,
    AsOf,
    DerivedFrom,
    Desk,
    Limit,
    Metadata,
    MetadataJson,
    MinTrust,
    Namespace,
    RequiresConfirmation,
    Source,
    Ttl,
    Yes,
    argument,
    command,
    flag,
    group,
    option,
)
from memoranda.cli.output import confirm
from memoranda.errors import NotFound, UsageError
from memoranda.model.entry import KINDS, NOTES, check_kinds
from memoranda.model.ref import is_name

if TYPE_CHECKING:
    from memoranda import Entry, Forgotten, Match, Recalled, Remembered, Scope
    from memoranda.engine.collections import Comparison
    from memoranda.model.lineage import Lineage, Tainted, Validated


app = group()


@command(
    app,
    "remember",
    scoped=True,
    writes=True,
    creates=True,
    embeds=True,
    example="memoranda remember 'The piano tuner comes on Thursday' --user ada",
)
def remember(
    desk: Desk,
    content: Annotated[str, argument("TEXT", "Text; with --as-json, JSON; - reads stdin.")],
    collection: Annotated[
        str | None, option("NAME", "The collection; notes if it is left out.", "--collection", "-c")
    ] = None,
    namespace: Namespace = "",
    metadata: Metadata = None,
    metadata_json: MetadataJson = None,
    key: Annotated[str | None, option("TEXT", "Replace the entry with this key, if any.")] = None,
    replaces: Annotated[str | None, option("REF", "Take the place of this entry, where it is.")] = None,
    chunk: Annotated[
        int | None, option("N", "Store a long text in parts of at most N characters, such as 1200.", min=1)
    ] = None,
    ttl: Ttl = None,
    as_json: Annotated[bool, flag("Store TEXT as JSON.", "--as-json")] = False,
    source: Source = None,
    derived_from: DerivedFrom = None,
    requires_confirmation: RequiresConfirmation = False,
) -> None:
    """Store a text so that recall finds it by meaning.

    A collection is created on first use. The same content with the same metadata is stored once in a namespace.
    A lone - reads stdin, without one line break at the end; `memoranda ingest` reads files.
    """
    read = read_value(content, as_json=as_json)
    labels = read_metadata(metadata or (), metadata_json)
    place = desk.place
    done = place.remember(
        read,
        collection=collection,
        metadata=labels if replaces is None else labels or None,
        namespace=namespace,
        ttl=ttl,
        key=key,
        replaces=replaces,
        chunk=chunk,
        source=source,
        derived_from=derived_from or (),
        requires_confirmation=requires_confirmation,
    )
    desk.out.result({"tenant": desk.tenant, "scope": place.scope, **_fields(done)}, _became(desk, done, place.scope))


@command(app, "entries", scoped=True, example="memoranda entries --collection notes --user ada --limit 10")
def list_entries(
    desk: Desk,
    collection: AnyCollection = None,
    namespace: AnyNamespace = None,
    filter: Annotated[list[str] | None, option("KEY=VALUE", "Only entries with this metadata; repeatable.")] = None,
    filter_json: Annotated[str | None, option("JSON", 'Such as {"urgency": {"$gte": 3}}.')] = None,
    newest: Annotated[bool, flag("The newest first.", "--newest")] = False,
    after: Annotated[int, option("N", "Continue after this sequence number.", min=0)] = 0,
    limit: Limit = None,
) -> None:
    """List entries in the order they were stored, of one collection or of all."""
    place = desk.place
    found = place.entries(
        collection=collection,
        namespace=namespace,
        filter=read_filter(filter or (), filter_json),
        newest=newest,
        after=after,
        limit=limit,
    )
    where = f"{collection} of {place.scope}" if collection else str(place.scope)
    if not desk.out.answers(found, empty=f"No entries in {where}."):
        _show(desk, found)


@command(
    app,
    "supersede",
    scoped=True,
    writes=True,
    embeds=True,
    example="memoranda supersede entry:ent_1 'Acme pays within 14 days' --user ada",
)
def supersede(
    desk: Desk,
    ref: Annotated[
        str, argument("REF", "The ref of an entry, fact or line, or the id of an entry; with --about, the TEXT.")
    ],
    content: Annotated[str | None, argument("TEXT", "Text; with --as-json, JSON; - reads stdin.")] = None,
    about: Annotated[str | None, option("TEXT", "What is replaced, in words, instead of a REF.")] = None,
    collection: Annotated[str, option("NAME", "Where to store TEXT if nothing is what --about says.")] = NOTES,
    metadata: Metadata = None,
    metadata_json: MetadataJson = None,
    ttl: Ttl = None,
    as_json: Annotated[bool, flag("Store TEXT as JSON.", "--as-json")] = False,
    source: Source = None,
) -> None:
    """Replace what is no longer true: an entry, a fact or a line of a block.

    Recall as of an earlier time still finds what was there; `memoranda undo` brings it back.
    """
    labels = read_metadata(metadata or (), metadata_json)
    if (about is None) == (content is None):
        raise UsageError(
            "what is superseded is named by its ref, or described", hint="Pass REF and TEXT, or --about and TEXT"
        )
    read = read_value(ref if content is None else content, as_json=as_json)
    named = None if content is None else ref
    done = desk.place.supersede(
        named, read, about=about, collection=collection, metadata=labels or None, ttl=ttl, source=source
    )
    said = f"{done.ref} in place of {done.replaced}" if done.replaced else f"{done.ref}; nothing was to be replaced"
    lines = [said, *(f"  kept: {text}" for text in done.kept), f"Undo it with: memoranda undo {done.undo}"]
    desk.out.result(done, "\n".join(lines))


@command(
    app, "forget", scoped=True, writes=True, example="memoranda forget --identifier bo@example.org --user ada --dry-run"
)
def forget(
    desk: Desk,
    id: Annotated[str | None, argument("[ID]", "The id of an entry, a ref, or words as for --about.")] = None,
    collection: AnyCollection = None,
    key: Annotated[str | None, option("TEXT", "The entry under this key of the collection.")] = None,
    namespace: Annotated[str | None, option("NAME", "The namespace of the key; for --where, by default all.")] = None,
    where: Annotated[str | None, option("JSON", 'Entries with these metadata: {"year": 2023}.')] = None,
    identifier: Annotated[
        str | None, option("TEXT", "Entries, facts and lines that contain this address, number or name.")
    ] = None,
    inside: Annotated[bool, flag("Also find the identifier inside longer ones.", "--inside")] = False,
    about: Annotated[str | None, option("TEXT", 'What is meant, in words: "everything about Frank".')] = None,
    dry_run: Annotated[bool, flag("Only show what would be forgotten.", "--dry-run")] = False,
) -> None:
    """Forget entries, facts and lines, all or nothing.

    Recalls no longer find them. Recall as of an earlier time still finds them, and `memoranda undo` brings them back;
    `memoranda erase` and `memoranda collections delete` remove them completely.
    """
    place = desk.place
    filter = None if where is None else read_filter((), where)
    done = place.forget(
        id,
        collection=collection,
        key=key,
        namespace=namespace,
        where=filter,
        identifier=identifier,
        inside=inside,
        about=about,
        dry_run=dry_run,
    )
    if id is not None and not is_name(id):
        id = None
    if not done and (id is not None or key is not None):
        what = f"`{id}`" if id is not None else f"under the key `{key}`"
        where_to = f"`{collection}` of `{place.scope}`" if collection else f"`{place.scope}`"
        raise NotFound(
            f"unknown entry {what} in {where_to}",
            hint="`memoranda entries` with the same options shows what is there",
        )
    said = id or key or ", ".join([f"{number} {what}" for number, what in _counts(done)]) or "nothing"
    would = "would be" if dry_run else "is" if done.count <= 1 else "are"
    where_it_was = f"{collection} of {place.scope}" if collection else str(place.scope)
    lines = [f"{said} {would} forgotten in {where_it_was}", *([f"  {ref}" for ref in done.refs] if dry_run else [])]
    lines += [f"  kept: {text}" for text in done.kept]
    if done.candidates:
        lines += ["It may have been one of these:", *(f"  {ref}" for ref in done.candidates)]
    if done.undo:
        lines.append(f"Undo it with: memoranda undo {done.undo}")
    desk.out.result({"tenant": desk.tenant, "scope": place.scope, **_fields(done)}, "\n".join(lines))


def _counts(done: Forgotten) -> list[tuple[int, str]]:
    kinds = ((done.entries, "entry", "entries"), (done.facts, "fact", "facts"), (done.lines, "line", "lines"))
    return [(number, one if number == 1 else many) for number, one, many in kinds if number]


@command(
    app, "reject", scoped=True, writes=True, example='memoranda reject "Lives in Porto" --reason "she moved" --user ada'
)
def reject(
    desk: Desk,
    value: Annotated[str, argument("VALUE", "A ref, or a text; with --key any value, as JSON with --as-json.")],
    key: Annotated[str | None, option("KEY", "Refuse the value under this key alone.")] = None,
    reason: Annotated[str, option("TEXT", "Why, for those who are refused later.")] = "",
    as_json: Annotated[bool, flag("Read VALUE as JSON.", "--as-json")] = False,
) -> None:
    """End a value, and keep it from coming back.

    Another spelling of it is refused too. Only hashes of it are stored. `memoranda withdraw` takes the rejection back.
    """
    done = desk.place.reject(read_value(value, as_json=as_json), key=key, reason=reason)
    said = f"{done.id} in {done.scope}: {formats.count(len(done.ended), 'place')} ended"
    lines = [said, *(f"  {ref}" for ref in done.ended), f"Withdraw it with: memoranda withdraw {done.id}"]
    desk.out.result(done, "\n".join(lines))


@command(app, "withdraw", scoped=True, writes=True, example="memoranda withdraw rejection_01 --user ada")
def withdraw(
    desk: Desk, rejection: Annotated[str, argument("ID", "As `memoranda reject` and `memoranda rejections` show it.")]
) -> None:
    """Take a rejection back."""
    done = desk.place.withdraw(rejection)
    again = f"\nBring back what it ended with: memoranda undo {done.undo}" if done.undo else ""
    desk.out.result(done, f"{done.id} is withdrawn from {done.scope}{again}")


@command(app, "rejections", scoped=True, example="memoranda rejections --user ada")
def rejections(desk: Desk) -> None:
    """List what was rejected: who did it, when and why."""
    found = desk.place.rejections()
    if desk.out.answers(found, empty=f"Nothing was rejected in {desk.place.scope}."):
        return
    rows = [(one.id, str(one.scope), one.key or "", one.actor, desk.out.ago(one.at), one.reason) for one in found]
    desk.out.table(("id", "scope", "key", "actor", "at", "reason"), rows, whole=("id",), folded=("scope", "reason"))


@command(app, "probe", scoped=True, embeds=True, example="memoranda probe 4711-KILN --user ada")
def probe(
    desk: Desk,
    content: Annotated[str, argument("TEXT", "What has to be gone, or the ref of an entry, fact or line.")],
) -> None:
    """Show where a text is left, place by place."""
    found = desk.place.leak_probes(content)
    names = {True: "left", False: "gone", None: "untested"}
    lines = [
        f"{name.replace('_', ' ')}: {'none here' if name in found.absent else names[state]}"
        for name, state in found.places.items()
    ]
    desk.out.result(found, "\n".join(lines))


@command(app, "undo", scoped=True, writes=True, example="memoranda undo undo:41-43 --user ada")
def undo(
    desk: Desk,
    token: Annotated[str, argument("TOKEN", "As `memoranda forget` and `memoranda supersede` show it.")],
) -> None:
    """Bring back what was forgotten or superseded, all or nothing."""
    done = desk.place.undo(token)
    desk.out.result(done, "\n".join([f"{done.count} brought back in {desk.place.scope}", *done.refs]))


@command(app, "lineage", scoped=True, example="memoranda lineage entry:ent_1 --user ada")
def lineage(desk: Desk, ref: Annotated[str, argument("REF", "The ref of an entry, fact or line.")]) -> None:
    """Show what something was derived from, and what was derived from it, each with how far it is trusted."""
    found = desk.place.lineage(ref)
    if desk.out.json:
        return desk.out.document(_fields(found))
    desk.out.say(f"{found.ref}: trust {found.trust}, by {found.origin.actor}")
    for what, relatives in (("from", found.sources), ("to", found.descendants)):
        for one in relatives:
            state = "" if one.current else ", no longer current"
            desk.out.say(f"  {what} {one.ref}: trust {one.trust or 'unknown'}{state}")
    if found.hidden:
        desk.out.say(f"  and {found.hidden} that you may not read")


@command(
    app,
    "copy",
    scoped=True,
    writes=True,
    embeds=True,
    example="memoranda copy entry:ent_1 user:ada/agent:mail --user ada",
)
def copy(
    desk: Desk,
    ref: Annotated[str, argument("REF", "The ref of an entry or a fact.")],
    to: Annotated[str, argument("SCOPE", "Where the copy goes, such as project:atlas.")],
) -> None:
    """Copy an entry or a fact to another scope: the copy is trusted no more, and is forgotten with it."""
    from memoranda.wire.codec import plain

    done = desk.place.copy(ref, to=to)
    desk.out.result(plain(done), f"{ref} is copied to {to}")


@command(
    app, "validate", changes=True, scoped=True, example="memoranda validate entry:ent_1 --user ada --actor user:bo"
)
def validate(
    desk: Desk,
    ref: Annotated[str, argument("REF", "The ref of an entry or a fact.")],
    expect: Annotated[int | None, option("VERSION", "The version of the fact that was checked.")] = None,
    reason: Annotated[str, option("TEXT", "Why it is trusted.")] = "",
) -> None:
    """Trust an entry or a fact as far as the actor is trusted, who is a user and did not write it."""
    done = desk.place.validate(ref, expect=expect, reason=reason)
    desk.out.result(_fields(done), f"{done.ref}: trust {done.trust}, before {done.before}")


@command(app, "taint", changes=True, example="memoranda taint --source bad.example --dry-run")
def taint(
    desk: Desk,
    ref: Annotated[str | None, option("REF", "This memory.")] = None,
    by: Annotated[str | None, option("ACTOR", "What this actor wrote.")] = None,
    source: Annotated[str | None, option("TEXT", "What was written from this source.")] = None,
    origin: Annotated[str | None, option("KIND", "What this kind of origin wrote, such as tool_external.")] = None,
    event: Annotated[int | None, option("N", "What the event at this position of the ledger wrote.", min=1)] = None,
    run: Annotated[str | None, option("ID", "What the steps of this run wrote.")] = None,
    below: Annotated[str | None, option("SCOPE", "Only what is at or below this scope.")] = None,
    reason: Annotated[str, option("TEXT", "Why.")] = "",
    dry_run: Annotated[bool, flag("Only show what would be quarantined.", "--dry-run")] = False,
) -> None:
    """Quarantine memory with all that was derived from it, and show which recalls and contexts had served it.

    `memoranda undo` without a user brings it back.
    """
    from memoranda.model.scope import Scope
    from memoranda.model.trust import check_origin

    done = desk.memory.taint(
        ref=ref,
        actor=by,
        source=source,
        origin=None if origin is None else check_origin(origin),
        event=event,
        run=run,
        scope=None if below is None else Scope.named(below, tenant=desk.tenant),
        reason=reason,
        dry_run=dry_run,
    )
    would = "would be" if dry_run else "was" if len(done.ended) == 1 else "were"
    lines = [
        f"{formats.count(len(done.ended), 'memory')} {would} quarantined",
        *map("  {}".format, done.ended),
    ]
    lines += [f"served at {one.position} to {one.actor}: {', '.join(one.refs)}" for one in done.served]
    if done.undo:
        lines.append(f"Undo it with: memoranda undo {done.undo}")
    desk.out.result(_fields(done), "\n".join(lines))


def _fields(done: Remembered | Forgotten | Lineage | Tainted | Validated) -> dict[str, Any]:
    from memoranda.wire.codec import plain

    return plain(done)


def _became(desk: Desk, done: Remembered, scope: Scope) -> str:
    where = f"{done.collection}/{done.namespace}" if done.namespace else done.collection
    expiry = f", expires {desk.out.ago(done.expires_at)}" if done.expires_at else ""
    if done.rejected:
        return f"This was rejected before, and is not stored: see {done.rejected} in `memoranda rejections`"
    if done.held:
        return f"This waits for a decision, and is not visible until then: see `memoranda approvals show {done.held}`"
    if not done.stored:
        return f"{done.id} is there already, in {where} of {scope}{expiry}"
    instead = f" in place of {done.replaced}" if done.replaced else ""
    parts = f" in {done.parts} parts" if done.parts > 1 else ""
    return f"{done.id} is remembered{parts} in {where} of {scope}{instead}{expiry}"


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
            formats.line(one.content),
            *(cells[place] for cells in shown.values()),
            desk.out.ago(one.created_at),
        )
        for place, one in enumerate(entries)
    ]
    columns = ("number", "id", "content", *shown, "added")
    desk.out.table(columns, rows, whole=("number", "id", "expires", "added"))


_LONGEST_LABELS = 24
"""Maximum width of metadata in a table, to leave room for the content."""
_BESIDE = "·"
"""In place of a score: a neighbour of a match."""


@command(
    app,
    "recall",
    scoped=True,
    embeds=True,
    example="memoranda recall 'When does the piano tuner come?' --user ada",
)
def recall(
    desk: Desk,
    query: Annotated[str, argument("QUERY", "A question or words; '' lists the newest.")],
    collection: AnyCollection = None,
    namespace: AnyNamespace = None,
    kinds: Annotated[
        list[str] | None, option("KIND", f"Only this kind: {', '.join(KINDS)}; repeatable.", "--kind")
    ] = None,
    limit: Annotated[int, option("N", "Maximum number of matches.")] = 5,
    threshold: Annotated[float, option("SCORE", "Minimum score, from 0 to 1.")] = 0.0,
    filter: Annotated[list[str] | None, option("KEY=VALUE", "Only entries with this metadata; repeatable.")] = None,
    filter_json: Annotated[str | None, option("JSON", 'Such as {"urgency": {"$gte": 3}}.')] = None,
    mode: Annotated[
        Literal["hybrid", "semantic", "keyword"], option("MODE", "hybrid (meaning and words), semantic or keyword.")
    ] = "hybrid",
    as_of: AsOf = None,
    expand: Annotated[int, option("N", "Also show N neighbours before and after each match.")] = 0,
    min_trust: MinTrust = "untrusted",
    exact: Annotated[bool, flag("Compare everything, in very large collections too.", "--exact")] = False,
    why: Annotated[bool, flag("Explain each match.", "--why")] = False,
) -> None:
    """Find what is remembered, by meaning and by words.

    Without a collection everything in the scope and below it is searched: entries, facts, records, lines of memory
    blocks and messages. Matches are listed best first, with scores from 0 to 1 that are comparable across collections.
    A filter is applied before ranking, so it does not reduce the number of results.
    """
    place = desk.place
    found = place.recall(
        query,
        collection=collection,
        namespace=namespace,
        kinds=None if kinds is None else check_kinds(kinds),
        limit=limit,
        threshold=threshold,
        filter=read_filter(filter or (), filter_json),
        as_of=as_of,
        mode=mode,
        expand=expand,
        min_trust=min_trust,
        exact=exact,
    )
    if desk.out.json:
        return desk.out.document(found)
    if not found.results:
        within = "" if collection is None else f"{collection} of "
        return desk.out.remark(f"Nothing found in {within}{place.scope}.")
    if why:
        _explain(desk, found)
    elif collection is None:
        _show_anything(desk, found)
    else:
        _show_matches(desk, found)


def _show_matches(desk: Desk, found: Recalled) -> None:
    rows: list[tuple[str, str, str, str]] = []
    for match in found.results:
        rows += [_row(desk, _BESIDE, entry) for entry in match.before]
        rows.append(_row(desk, f"{match.score:.2f}", match))
        rows += [_row(desk, _BESIDE, entry) for entry in match.after]
    desk.out.table(("score", "content", "metadata", "added"), rows, whole=("score", "added"))


_LONGEST_BAR = 8


def _show_anything(desk: Desk, found: Recalled) -> None:
    rows = [
        (
            f"{match.score:.2f} {desk.out.bar(match.score, longest=_LONGEST_BAR)}",
            match.kind,
            formats.line(match.content),
            match.ref,
            desk.out.ago(match.updated_at),
        )
        for match in found.results
    ]
    desk.out.table(("score", "kind", "content", "ref", "written"), rows, whole=("score", "kind", "ref", "written"))


def _row(desk: Desk, score: str, one: Match | Entry) -> tuple[str, str, str, str]:
    labels = formats.line(formats.labels(one.metadata), longest=_LONGEST_LABELS)
    return score, formats.line(one.content), labels, desk.out.ago(one.created_at)


def _agreement(match: Match) -> str:
    again = f", said {match.why.restated} more times by it" if match.why.restated else ""
    return again + (f", said by {match.corroboration} independent origins" if match.corroboration > 1 else "")


def _explain(desk: Desk, found: Recalled) -> None:
    amounts = [abs(amount) for match in found.results for amount in match.why.parts.values()]
    largest = max(amounts, default=0.0) or 1.0
    for number, match in enumerate(found.results, start=1):
        if number > 1:
            desk.out.say("")
        desk.out.say(f"{number}. {formats.line(match.content)}", indent="   ")
        why = match.why
        parts = sorted(why.parts.items(), key=lambda part: -abs(part[1]))
        desk.out.pairs(
            [
                ("score", f"{match.score:.2f}" + _own(match)),
                *((name, f"{amount:+.3f}  {desk.out.bar(abs(amount) / largest)}") for name, amount in parts),
                ("total", f"{why.total:+.3f}" if why.parts else ""),
                ("cosine", "" if why.cosine is None else f"{why.cosine:.3f}"),
                ("lexical", "" if why.lexical is None else f"{why.lexical:.3f}"),
                ("matched", ", ".join(why.matched)),
                ("ranked", "" if why.exact else "among candidates; --exact compares everything"),
                ("read as", ", ".join(f"{typed} → {read}" for typed, read in why.corrected.items())),
                ("metadata", formats.labels(match.metadata)),
                ("origin", f"{match.origin.kind}, trust {match.trust}" + _agreement(match)),
                (match.kind, f"{match.id}, added {desk.out.ago(match.created_at)}"),
                ("before", _beside(match.before)),
                ("after", _beside(match.after)),
            ]
        )


def _own(match: Match) -> str:
    """Return the entry's own relevance, if its score is that of a match further down."""
    own = f"{match.why.relevance:.2f}"
    return f" (its own is {own})" if own != f"{match.score:.2f}" else ""


def _beside(entries: Sequence[Entry]) -> str:
    return "\n".join(formats.line(entry.content) for entry in entries)


collections_app = group("collections", lists=True)

Name = Annotated[str, argument("COLLECTION", "As `memoranda collections` shows it.")]
To = option("EMBEDDER", "The other embedder, as for --embedder.")


@command(collections_app, "list", example="memoranda collections list --json")
def list_collections(
    desk: Desk, prefix: Annotated[str, argument("[PREFIX]", "Only collections whose names begin with this.")] = ""
) -> None:
    """List all collections, with their embedders and sizes."""
    found = desk.memory.collections.list(prefix=prefix)
    rows = [
        (
            one.name,
            one.embedder,
            str(one.dimension),
            f"{one.entries:,}",
            f"{one.namespaces:,}",
            "" if one.moving_to is None else f"{one.moving_to} ({one.moved:,} moved)",
        )
        for one in found
    ]
    columns = ("name", "embedder", "dimension", "entries", "namespaces", "moving to")
    if not any(one.moving_to for one in found):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    if desk.out.answers(found, empty="No collections."):
        return
    desk.out.table(columns, rows, whole=("entries",), folded=("name", "embedder", "moving to"))


@command(collections_app, "delete", changes=True, example="memoranda collections delete notes --yes")
def delete(desk: Desk, name: Name, yes: Yes = False) -> None:
    """Delete a collection with its entries in all scopes; asks first."""
    desk.require_database()
    confirm(f"Delete the collection `{name}` with its entries in every scope? This cannot be undone.", yes=yes)
    entries = desk.memory.collections.delete(name)
    desk.out.result(
        {"tenant": desk.tenant, "collection": name, "deleted": True, "entries": entries},
        f"{name} is deleted, with {formats.count(entries, 'entry')}",
    )


@command(collections_app, "compare", embeds=True, example="memoranda collections compare notes --to onnx:models/minilm")
def compare(
    desk: Desk,
    name: Name,
    to: Annotated[str, To],
    query: Annotated[list[str] | None, option("TEXT", "A query to compare; repeatable.")] = None,
    sample: Annotated[int, option("N", "Maximum number of entries to compare.", min=1)] = 500,
) -> None:
    """Compare recall with another embedder; nothing is written.

    Without --query, entries are searched with every other word of their own text, and the better embedder finds more
    of them. Your own queries show how many results would stay the same.
    """
    with desk.out.working("Comparing"):
        found = desk.memory.collections.compare(name, to, queries=query or (), sample=sample)
    if not desk.out.answers(found):
        _show_comparison(desk, found)


@command(
    collections_app,
    "reembed",
    changes=True,
    embeds=True,
    example="memoranda collections reembed notes --to onnx:models/minilm",
)
def reembed(
    desk: Desk,
    name: Name,
    to: Annotated[str | None, To] = None,
    give_up: Annotated[bool, flag("Abandon an unfinished move.", "--give-up")] = False,
    dry_run: Annotated[bool, flag("Only compare, as `collections compare` does.", "--dry-run")] = False,
) -> None:
    """Move a collection to another embedder while it is in use.

    Entries are found by their old vectors until all have new ones; then the collection switches at once. If this is
    interrupted, the same command continues where it stopped.
    """
    if give_up:
        if to is not None or dry_run:
            raise UsageError(
                "--give-up cannot be combined with other options",
                hint=f"memoranda collections reembed {name} --give-up",
            )
        stayed = desk.memory.collections.give_up_reembedding(name)
        return desk.out.result(stayed, f"{name} stays with {stayed.space.embedder}")
    if to is None:
        raise UsageError("--to is missing", hint="Name the new embedder with --to, or pass --give-up")
    if dry_run:
        with desk.out.working("Comparing"):
            found = desk.memory.collections.compare(name, to)
        if not desk.out.answers(found):
            _show_comparison(desk, found)
            desk.out.remark("Nothing was changed.")
        return
    try:
        with desk.out.counting("Embedding") as told:
            moved = desk.memory.collections.reembed(name, to, progress=told)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "Interrupted. The same command continues where it stopped; --give-up abandons the move."
        ) from None
    desk.out.result(moved, f"{name} is embedded by {moved.space.embedder} now")


def _show_comparison(desk: Desk, found: Comparison) -> None:
    desk.out.pairs(
        [
            ("collection", found.collection),
            ("today", found.embedder + _finds(found.found)),
            ("other", found.other + _finds(found.other_found)),
            ("agreement", f"{found.agreement:.0%} of the first ten"),
            ("made of", f"{formats.count(found.queries, 'query')} over {formats.count(found.entries, 'entry')}"),
        ]
    )


def _finds(share: float | None) -> str:
    return "" if share is None else f", finds {share:.0%} of what is looked for"
