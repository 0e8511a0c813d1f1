# Generated from client/aio/memory.py by memoranda.client.generate; do not edit.
"""`client.facts`, `.batch()`, `.memory` (blocks), `.definitions` and `.collections`."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self, overload

from memoranda.client.requests import (
    Request,
    body,
    filter_object,
    filter_text,
    idempotency_header,
    item_object,
    moment,
    parameters,
    path,
    read_request,
    seconds,
    version_header,
    without_none,
)
from memoranda.client.sync.connection import Calls, Connection
from memoranda.errors import Conflict, NotFound, UsageError
from memoranda.model.classes import remember_class, with_class
from memoranda.model.clock import Duration
from memoranda.model.definition import Mode, OnStale
from memoranda.model.entry import NOTES, Kind, check_kinds
from memoranda.model.entry import Mode as SearchMode
from memoranda.model.ref import check_sources, is_name
from memoranda.model.text import quote
from memoranda.model.trust import Trust, check_trust
from memoranda.wire.memory import (
    AllRemembered,
    Block,
    BlockMatch,
    BlockScope,
    BlockType,
    Collections,
    Copied,
    Definition,
    Definitions,
    Entries,
    Entry,
    Fact,
    Facts,
    Forgotten,
    History,
    Holding,
    LeakProbes,
    Learned,
    Lineage,
    Match,
    Namespaces,
    Recalled,
    Records,
    Rejection,
    Rejections,
    Remembered,
    Removed,
    Restored,
    Revision,
    SchemaCheck,
    Superseded,
    Validated,
    Written,
)

_FACTS = ("memory", "facts")
_BLOCKS = ("memory", "blocks")
_DEFINITIONS = ("memory", "definitions")
_MISSING: Any = object()


class FactCalls(Calls):
    """The facts of the API key's user.

    `scope` is whose memory: `shared` is what the tenant shares, `project:atlas` a project, where this is granted, and
    `agent:emails` a part of the user's own.
    """

    def get(self, key: str, *, as_of: datetime | str | None = None, scope: str | None = None) -> Fact | None:
        """Return the active fact, or its value at `as_of`; None if there is none."""
        return self._find(Fact, *_FACTS, key, as_of=moment(as_of), scope=scope)

    def value(
        self, key: str, default: Any = None, *, as_of: datetime | str | None = None, scope: str | None = None
    ) -> Any:
        """Return the value at a key, or the default."""
        fact = self.get(key, as_of=as_of, scope=scope)
        return default if fact is None else fact.value

    def set(
        self,
        key: str,
        value: Any,
        *,
        expect: int | None = None,
        ttl: Duration | None = None,
        domain: str | None = None,
        source: str | None = None,
        idempotency_key: str | None = None,
        derived_from: Sequence[str] = (),
        requires_confirmation: bool = False,
        scope: str | None = None,
    ) -> Fact:
        """Write a fact and return it. `expect` is the version it must have; 0 means it must not exist.

        What is `derived_from` other memory, by refs, is trusted no more than it. With `requires_confirmation` the write
        waits until someone else has approved it, and raises Held.

        Only with `expect` or an `idempotency_key` is the write retried after a lost response.
        """
        asked = without_none(expect=expect, ttl=seconds(ttl), domain=domain, source=source)
        asked |= _lineage_options(derived_from, requires_confirmation)
        return self._call(
            Fact,
            "PUT",
            *_FACTS,
            key,
            query=parameters(scope=scope),
            headers=idempotency_header(idempotency_key),
            body=body(value=value, **asked),
            repeatable=expect is not None or idempotency_key is not None,
        )

    def create(
        self,
        key: str,
        value: Any,
        *,
        ttl: Duration | None = None,
        domain: str | None = None,
        scope: str | None = None,
    ) -> Fact:
        """Write a fact that must not exist yet; raise Conflict if it does."""
        return self.set(key, value, expect=0, ttl=ttl, domain=domain, scope=scope)

    def update(
        self,
        key: str,
        change: Callable[[Any], Any],
        *,
        default: Any = _MISSING,
        ttl: Duration | None = None,
        domain: str | None = None,
        attempts: int = 1_000,
        derived_from: Sequence[str] = (),
        scope: str | None = None,
    ) -> Fact:
        """Replace a value by `change(value)`, and retry if it was changed in the meantime.

        `change` gets the default if the fact does not exist. It may be called several times, so it should only compute.
        What is `derived_from` other memory, by refs, is trusted no more than it.
        """
        options: dict[str, Any] = {"ttl": ttl, "derived_from": derived_from, "scope": scope}
        for attempt in range(attempts):
            fact = self.get(key, scope=scope)
            if fact is None and default is _MISSING:
                raise NotFound(f"unknown fact {quote(key)}", hint="Pass default=… to create it")
            changed = change(default if fact is None else fact.value)
            tag = domain if domain is not None else fact.domain if fact else None
            try:
                expect = fact.version if fact else 0
                return self.set(key, changed, expect=expect, domain=tag, **options)
            except Conflict as conflict:
                # After a retry the conflicting change may be our own, and must not be made twice.
                if attempt == attempts - 1 or conflict.details.get("repeated"):
                    raise
        raise UsageError("`attempts` must be at least 1", hint="Leave it out")

    def delete(
        self,
        key: str,
        *,
        expect: int | None = None,
        source: str | None = None,
        idempotency_key: str | None = None,
        scope: str | None = None,
    ) -> bool:
        """Delete a fact and return whether there was one; its history is kept. `expect=0` means there must be none."""
        return self._delete(
            *_FACTS,
            key,
            query=parameters(scope=scope, source=source),
            headers=idempotency_header(idempotency_key) | version_header(expect),
            repeatable=expect is not None or idempotency_key is not None,
        )

    def list(
        self,
        prefix: str = "",
        *,
        domain: str | None = None,
        limit: int | None = None,
        as_of: datetime | str | None = None,
        internal: bool = False,
        scope: str | None = None,
    ) -> builtins.list[Fact]:
        """Return the facts at and below a key, ordered by key, at most `limit`.

        `internal` includes what the runtime keeps among the facts; for administrators.
        """
        asked = parameters(prefix=prefix or None, domain=domain, as_of=moment(as_of), scope=scope)
        asked |= parameters(internal=internal or None)
        return self._collect(Facts, lambda page: page.facts, limit, *_FACTS, query=asked)

    def history(self, key: str, *, limit: int | None = None, scope: str | None = None) -> builtins.list[Revision]:
        """Return the revisions of a key, oldest first, at most `limit`."""
        segments, asked = (*_FACTS, key, "history"), parameters(scope=scope)
        return self._collect(History, lambda page: page.revisions, limit, *segments, query=asked, missing=True)


class Batch(Calls):
    """Collects writes in a `with` block and sends them together when it ends without an error.

    `scope` is whose memory: `shared` is what the tenant shares, `project:atlas` a project, where this is granted, and
    `agent:emails` a part of the user's own.
    """

    def __init__(self, connection: Connection, idempotency_key: str | None = None) -> None:
        """Start with no writes; created by `client.batch()`."""
        super().__init__(connection)
        self._idempotency_key = idempotency_key
        self._writes: list[dict[str, Any]] = []
        self.results: list[Fact | bool | Remembered | Forgotten] = []
        """After the block, for each write: the new fact, whether one was deleted, what became of an entry, or what was
        forgotten."""

    def set(
        self,
        key: str,
        value: Any,
        *,
        expect: int | None = None,
        ttl: Duration | None = None,
        domain: str | None = None,
        scope: str | None = None,
    ) -> None:
        """Add a write of a fact."""
        asked = without_none(expect=expect, ttl=seconds(ttl), domain=domain, scope=scope)
        self._writes.append({"key": key, "value": value, **asked})

    def delete(self, key: str, *, expect: int | None = None, scope: str | None = None) -> None:
        """Add a delete of a fact."""
        self._writes.append({"key": key, "delete": True, **without_none(expect=expect, scope=scope)})

    def remember(
        self,
        content: Any,
        *,
        collection: str,
        metadata: Mapping[str, Any] | None = None,
        namespace: str = "",
        ttl: Duration | None = None,
        key: str | None = None,
        scope: str | None = None,
    ) -> None:
        """Add an entry to remember."""
        asked = without_none(metadata=metadata, ttl=seconds(ttl), key=key)
        entry = {"content": content, "collection": collection, "namespace": namespace, **asked}
        self._writes.append({"remember": entry, **without_none(scope=scope)})

    def forget(
        self,
        id: str | None = None,
        *,
        collection: str | None = None,
        key: str | None = None,
        namespace: str | None = None,
        where: Mapping[str, Any] | None = None,
        identifier: str | None = None,
        scope: str | None = None,
    ) -> None:
        """Add something to forget."""
        asked = without_none(id=id, collection=collection, key=key, namespace=namespace, identifier=identifier)
        asked |= without_none(where=filter_object(where))
        self._writes.append({"forget": asked, **without_none(scope=scope)})

    def __enter__(self) -> Self:
        """Return this batch."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Send the writes, unless the block raised or there are none."""
        if kind is not None or not self._writes:
            return
        # An expected version matches only once; the absence of a fact to delete may match again.
        expects = any("expect" in write for write in self._writes if "value" in write)
        written = self._call(
            Written,
            "POST",
            *_FACTS,
            headers=idempotency_header(self._idempotency_key),
            body=body(writes=self._writes),
            repeatable=self._idempotency_key is not None or expects,
        )
        remembered, forgotten = iter(written.remembered), iter(written.forgotten)
        for write, result in zip(self._writes, written.results, strict=True):
            if result is not None:
                self.results.append(result)
            else:
                self.results.append(next(remembered) if "remember" in write else next(forgotten))


class BlockCalls(Calls):
    """The blocks of the API key's user, or with an `agent_id` those of that agent."""

    def list(
        self, *, scope: Literal["user", "agent", "all"] | None = None, agent_id: str | None = None
    ) -> builtins.list[Block]:
        """Return the user's blocks; with `scope="agent"` those of all agents or one, with `"all"` both."""
        query = asked = _owner(scope, agent_id)
        found: builtins.list[Block] = []
        while True:
            blocks, after = self._connection.fetch_linked(read_request(path(*_BLOCKS), query), Block)
            found += blocks
            if after is None:
                return found
            query = asked | parameters(after=after)

    def get(self, block: BlockType, *, scope: BlockScope | None = None, agent_id: str | None = None) -> Block | None:
        """Return a block, None if there is none."""
        return self._find(Block, *_BLOCKS, block, **_owner(scope, agent_id))

    def update(
        self,
        block: BlockType,
        content: str,
        *,
        expected_updated_at: datetime | str | None,
        scope: BlockScope | None = None,
        agent_id: str | None = None,
        source: str | None = None,
        idempotency_key: str | None = None,
    ) -> Block:
        """Replace the text of a block and return it. Pass the last `updated_at`; None creates the block.

        Raise Conflict if it was changed in the meantime; `.current_updated_at` is its time of change.
        """
        return self._call(
            Block,
            "PUT",
            *_BLOCKS,
            block,
            query=_owner(scope, agent_id),
            headers=idempotency_header(idempotency_key),
            body=body(content=content, expected_updated_at=moment(expected_updated_at), **without_none(source=source)),
            repeatable=True,
        )

    def delete(
        self,
        block: BlockType,
        *,
        expected_updated_at: datetime | str | None = None,
        scope: BlockScope | None = None,
        agent_id: str | None = None,
        source: str | None = None,
    ) -> bool:
        """Delete a block and return whether there was one; with `expected_updated_at`, only if it has not changed."""
        stamp = moment(expected_updated_at)
        query = _owner(scope, agent_id) | parameters(expected_updated_at=stamp, source=source)
        return self._delete(*_BLOCKS, block, query=query, repeatable=stamp is not None)

    def history(
        self,
        block: BlockType,
        *,
        limit: int | None = None,
        scope: BlockScope | None = None,
        agent_id: str | None = None,
    ) -> builtins.list[Revision]:
        """Return the revisions of a block, oldest first, at most `limit`."""
        segments, owner = (*_BLOCKS, block, "history"), _owner(scope, agent_id)
        return self._collect(History, lambda page: page.revisions, limit, *segments, query=owner, missing=True)

    def undo(
        self,
        block: BlockType,
        *,
        expected_updated_at: datetime | str | None,
        scope: BlockScope | None = None,
        agent_id: str | None = None,
    ) -> Block:
        """Restore the previous text of a block, or a deleted block; undoing twice redoes the change.

        Pass the last `updated_at`, None for a deleted block.
        """
        asked, owner = body(expected_updated_at=moment(expected_updated_at)), _owner(scope, agent_id)
        return self._call(Block, "POST", *_BLOCKS, block, "undo", query=owner, body=asked, repeatable=True)

    def recall(
        self, query: str, *, agent_id: str | None = None, limit: int = 10, min_score: float | None = None
    ) -> builtins.list[BlockMatch]:
        """Return the archival lines that match a query, best first; with an `agent_id` also that agent's."""
        asked = body(query=query, limit=limit, **without_none(agent_id=agent_id, min_score=min_score))
        return self._call(builtins.list[BlockMatch], "POST", "memory", "recall", body=asked, repeatable=True)


def _owner(scope: str | None, agent_id: str | None) -> dict[str, str]:
    """Return the parameters for the owner of a block; an `agent_id` implies the scope `agent`."""
    return parameters(scope="agent" if scope is None and agent_id is not None else scope, agent_id=agent_id)


class DefinitionCalls(Calls):
    """The definitions of the tenant, by id or slug."""

    def create(
        self,
        *,
        name: str | None = None,
        slug: str | None = None,
        schema: dict[str, Any] | None = None,
        model: type[Any] | None = None,
        scope: str = "global",
        ttl: Duration | None = None,
        mode: Mode | None = None,
        id: str | None = None,
    ) -> Definition:
        """Create a definition and return it; name, slug and schema may be those of a class, its `model`."""
        asked = without_none(ttl=seconds(ttl), mode=mode, id=id)
        name, slug, schema = with_class(model, name=name, slug=slug, schema=schema)
        sent = body(name=name, slug=slug, schema=schema, scope=scope, **asked)
        created = self._call(Definition, "POST", *_DEFINITIONS, body=sent)
        remember_class(created.slug, model)
        return created

    def list(self, *, limit: int | None = None) -> builtins.list[Definition]:
        """Return all definitions, oldest first."""
        return self._collect(Definitions, lambda page: page.definitions, limit, *_DEFINITIONS)

    def get(self, definition: str) -> Definition:
        """Return a definition by its id or slug; raise NotFound if there is none."""
        return self._get(Definition, *_DEFINITIONS, definition)

    @overload
    def update(
        self,
        definition: str,
        *,
        name: str | None = None,
        slug: str | None = None,
        schema: dict[str, Any] | None = None,
        model: type[Any] | None = None,
        scope: str | None = None,
        ttl: Duration | None = None,
        clear_ttl: bool = False,
        mode: Mode | None = None,
        stale: OnStale = "refuse",
        migrate: str | None = None,
        check: Literal[False] = False,
    ) -> Definition: ...

    @overload
    def update(
        self,
        definition: str,
        *,
        name: str | None = None,
        slug: str | None = None,
        schema: dict[str, Any] | None = None,
        model: type[Any] | None = None,
        scope: str | None = None,
        ttl: Duration | None = None,
        clear_ttl: bool = False,
        mode: Mode | None = None,
        stale: OnStale = "refuse",
        migrate: str | None = None,
        check: Literal[True],
    ) -> SchemaCheck: ...

    def update(
        self,
        definition: str,
        *,
        name: str | None = None,
        slug: str | None = None,
        schema: dict[str, Any] | None = None,
        model: type[Any] | None = None,
        scope: str | None = None,
        ttl: Duration | None = None,
        clear_ttl: bool = False,
        mode: Mode | None = None,
        stale: OnStale = "refuse",
        migrate: str | None = None,
        check: bool = False,
    ) -> Definition | SchemaCheck:
        """Change the given fields; `clear_ttl` makes future records permanent. A new slug renames the records.

        A schema that records would no longer fit is refused with StaleRecords, unless they are kept (`stale="keep"`) or
        migrated: `migrate` is a JSONata expression that makes the new value from its `$record`. `check=True` changes
        nothing and says which records these are. Of a `model`, the schema is taken.
        """
        _, _, schema = with_class(model, name=name, slug=slug, schema=schema)
        asked = without_none(name=name, slug=slug, schema=schema, scope=scope, mode=mode, migrate=migrate)
        if ttl is not None or clear_ttl:
            asked["ttl"] = seconds(ttl)
        if stale != "refuse":
            asked["stale"] = stale
        place = (*_DEFINITIONS, definition)
        if check:
            return self._call(SchemaCheck, "PATCH", *place, body=body(**asked), query=parameters(check=True))
        changed = self._call(Definition, "PATCH", *place, body=body(**asked))
        remember_class(changed.slug, model)
        return changed

    def stale(self, definition: str, *, after: str = "", limit: int | None = None) -> SchemaCheck:
        """Return the records that do not fit their definition; `after` is the scope of the last one seen."""
        return self._get(SchemaCheck, *_DEFINITIONS, definition, "stale", after=after or None, limit=limit)

    def delete(self, definition: str) -> None:
        """Delete a definition and its records; raise NotFound if there is none."""
        self._connection.send(Request(method="DELETE", path=path(*_DEFINITIONS, definition)))

    def records(self, definition: str, *, limit: int | None = None) -> builtins.list[Fact]:
        """Return the active records of a definition, of all owners."""
        return self._collect(Records, lambda page: page.records, limit, *_DEFINITIONS, definition, "records")


class CollectionCalls(Calls):
    """The entries of the API key's user, found by meaning.

    `scope` is whose memory: `shared` is what the tenant shares, `project:atlas` a project, where this is granted, and
    `agent:emails` a part of the user's own.
    """

    def remember(
        self,
        content: Any,
        *,
        collection: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        namespace: str = "",
        ttl: Duration | None = None,
        key: str | None = None,
        replaces: str | None = None,
        chunk: int | bool | None = None,
        source: str | None = None,
        derived_from: Sequence[str] = (),
        requires_confirmation: bool = False,
        scope: str | None = None,
    ) -> Remembered:
        """Store text or JSON so that `recall` finds it by meaning; the collection is created on first use.

        The same content with the same metadata is stored once in a namespace, so it can be sent again after a lost
        response: `duplicate` tells whether it existed. `replaces` is the ref of an entry that is no longer true; the
        new one takes its place, in its collection and namespace. With `chunk`, a long text is stored in parts of at
        most that many characters (1,200 for True), which are forgotten and replaced together. What is `derived_from`
        other memory, by refs, is trusted no more than it; with `requires_confirmation` it is `held` until someone else
        has approved it.
        """
        if replaces is not None:
            if collection is not None or namespace or key is not None or chunk:
                raise UsageError(
                    "what replaces an entry stays where that one is, as one entry",
                    hint="Leave out `collection`, `namespace`, `key` and `chunk`, or leave out `replaces`",
                    path="replaces",
                )
            done = self.supersede(replaces, content, metadata=metadata, ttl=ttl, source=source, scope=scope)
            return Remembered(
                id=done.ref.removeprefix("entry:"),
                collection=done.collection or "",
                namespace=done.namespace,
                stored=True,
                replaced=(done.replaced or "").removeprefix("entry:"),
                expires_at=done.expires_at,
                undo=done.undo,
            )
        asked = without_none(metadata=metadata, ttl=seconds(ttl), key=key, chunk=chunk, source=source)
        asked |= _lineage_options(derived_from, requires_confirmation)
        sent, query = body(content=content, namespace=namespace, **asked), parameters(scope=scope)
        place = NOTES if collection is None else collection
        return self._call(Remembered, "POST", "collections", place, "remember", query=query, body=sent)

    def remember_many(
        self,
        items: Iterable[Mapping[str, Any]],
        *,
        collection: str = NOTES,
        namespace: str = "",
        ttl: Duration | None = None,
        source: str | None = None,
        derived_from: Sequence[str] = (),
        scope: str | None = None,
    ) -> builtins.list[Remembered]:
        """Store several entries, all or none: mappings with `content`, and optionally `metadata` and `key`.

        `derived_from` are the refs of what all of them were made of; a mapping may name more of them.
        """
        asked = without_none(ttl=seconds(ttl), source=source)
        asked |= _lineage_options(derived_from)
        sent = [item_object(item, number) for number, item in enumerate(items)]
        if not sent:
            return []
        query, content = parameters(scope=scope), body(items=sent, namespace=namespace, **asked)
        segments = ("collections", collection, "entries")
        return (self._call(AllRemembered, "POST", *segments, query=query, body=content)).remembered

    def remember_text(
        self,
        text: str,
        *,
        collection: str = NOTES,
        chunk: int = 1_200,
        metadata: Mapping[str, Any] | None = None,
        namespace: str = "",
        ttl: Duration | None = None,
        source: str | None = None,
        scope: str | None = None,
    ) -> builtins.list[Remembered]:
        """Store a long text in chunks of at most `chunk` characters, split between paragraphs or sentences."""
        asked = without_none(metadata=metadata, ttl=seconds(ttl), source=source)
        query, content = parameters(scope=scope), body(text=text, chunk=chunk, namespace=namespace, **asked)
        segments = ("collections", collection, "texts")
        return (self._call(AllRemembered, "POST", *segments, query=query, body=content)).remembered

    def recall(
        self,
        query: str,
        *,
        collection: str | None = None,
        namespace: str | None = None,
        kinds: Sequence[Kind] | None = None,
        collections: Sequence[str] | None = None,
        scopes: Sequence[str] | None = None,
        limit: int = 5,
        threshold: float = 0.0,
        filter: Mapping[str, Any] | None = None,
        as_of: datetime | str | None = None,
        mode: SearchMode = "hybrid",
        expand: int = 0,
        min_trust: Trust = "untrusted",
        exact: bool = False,
        scope: str | None = None,
    ) -> Recalled:
        """Return what matches a query, best first, each with a score from 0 to 1 and an explanation.

        Without a `collection` everything that the scope sees is searched; `kinds`, `collections` and `scopes` narrow
        that. `min_trust` leaves out what is trusted less. `exact` compares everything, in very large collections too.
        """
        asked = without_none(namespace=namespace, filter=filter_object(filter), as_of=moment(as_of))
        named = {"kinds": kinds and check_kinds(kinds), "collections": collections, "scopes": scopes}
        narrowing = {name: builtins.list(names) for name, names in named.items() if names}
        segments = ("recall",)
        if collection is not None and not narrowing:
            segments = ("collections", collection, "recall")
        else:
            asked |= without_none(collection=collection, **narrowing)
        asked |= {"query": query, "limit": limit, "threshold": threshold, "mode": mode, "expand": expand}
        if min_trust != "untrusted":
            asked["min_trust"] = check_trust(min_trust)
        if exact:
            asked["exact"] = True
        results: builtins.list[Match] = []
        after: str | None = None
        while True:
            options = {"query": parameters(scope=scope, after=after), "body": body(**asked), "repeatable": True}
            found = self._call(Recalled, "POST", *segments, **options)
            results += found.results
            after = found.next
            if after is None:
                return Recalled(results=results, count=len(results), known=found.known, hint=found.hint)

    def supersede(
        self,
        ref: str | None = None,
        content: Any = None,
        *,
        about: str | None = None,
        collection: str = NOTES,
        metadata: Mapping[str, Any] | None = None,
        ttl: Duration | None = None,
        source: str | None = None,
        scope: str | None = None,
    ) -> Superseded:
        """Put something else in the place of what a ref names, or of what fits a description best.

        Raise Conflict if what a ref names was superseded already. If nothing fits a description, `replaced` is None,
        and the content is remembered in `collection`.
        """
        if about is None and not is_name(ref):
            ref, about = None, ref
        if (ref is None) == (about is None):
            raise UsageError(
                "what is superseded is named by its ref, or described", hint="Pass one of `ref` and `about`"
            )
        asked = without_none(metadata=metadata, ttl=seconds(ttl), source=source)
        query = parameters(scope=scope)
        if ref is None:
            sent = body(content=content, about=about, collection=collection, **asked)
            return self._call(Superseded, "POST", "memory", "supersede", query=query, body=sent)
        sent = body(content=content, **asked)
        return self._call(Superseded, "POST", "entries", ref, "supersede", query=query, body=sent)

    def entry(
        self,
        ref: str | None = None,
        *,
        collection: str | None = None,
        key: str | None = None,
        namespace: str = "",
        scope: str | None = None,
    ) -> Entry | None:
        """Return a current entry, by its ref or id, or by its key in a collection; None if there is none."""
        if (ref is None) == (key is None):
            raise UsageError("an entry is read by its ref or by its key", hint="Pass one of them")
        if ref is not None:
            found = self._find(Entry, "entries", ref, scope=scope)
            return found if found is None or collection in (None, found.collection) else None
        if collection is None:
            raise UsageError("no collection is named", hint="Name a `collection`", path="collection")
        query = parameters(key=key, namespace=namespace, scope=scope)
        page = self._call(Entries, "GET", "collections", collection, "entries", query=query, repeatable=True)
        return next(iter(page.entries), None)

    def entry_history(self, ref: str, *, limit: int | None = None, scope: str | None = None) -> builtins.list[Entry]:
        """Return the chain of an entry, oldest first: what it replaced, itself, and what replaced it."""
        segments, asked = ("entries", ref, "history"), parameters(scope=scope)
        return self._collect(Entries, lambda page: page.entries, limit, *segments, query=asked, missing=True)

    def entries(
        self,
        *,
        collection: str | None = None,
        namespace: str | None = None,
        filter: Mapping[str, Any] | None = None,
        newest: bool = False,
        limit: int | None = None,
        scope: str | None = None,
    ) -> builtins.list[Entry]:
        """Return entries in the order they came, of one collection or of all; with `newest` the newest first."""
        asked = parameters(namespace=namespace, filter=filter_text(filter), newest=newest or None, scope=scope)
        segments = ("entries",) if collection is None else ("collections", collection, "entries")
        return self._collect(Entries, lambda page: page.entries, limit, *segments, query=asked)

    def forget(
        self,
        id: str | None = None,
        *,
        collection: str | None = None,
        key: str | None = None,
        namespace: str | None = None,
        where: Mapping[str, Any] | None = None,
        identifier: str | None = None,
        inside: bool = False,
        about: str | None = None,
        dry_run: bool = False,
        scope: str | None = None,
    ) -> Forgotten:
        """Forget what an id or ref, a key, a filter, an identifier or a description names; false if nothing."""
        asked = without_none(id=id, collection=collection, key=key, namespace=namespace, identifier=identifier)
        asked |= without_none(where=filter_object(where), about=about)
        sent = body(**asked, inside=inside, dry_run=dry_run)
        return self._call(Forgotten, "POST", "memory", "forget", query=parameters(scope=scope), body=sent)

    def leak_probes(self, content: str, *, scope: str | None = None) -> LeakProbes:
        """Return where a text is left, place by place; None is a place that was not tested."""
        query, sent = parameters(scope=scope), body(content=content)
        return self._call(LeakProbes, "POST", "memory", "probe", query=query, body=sent)

    def undo(
        self, done: Forgotten | Superseded | Remembered | Learned | Rejection | str, *, scope: str | None = None
    ) -> Restored:
        """Bring back what a forget, a supersede or a learn ended, by its result or its `undo`; what it added goes."""
        if isinstance(done, Forgotten | Rejection) and done.undo is None:
            return Restored()
        if isinstance(done, Learned):
            refs: builtins.list[str] = []
            rejected: builtins.list[str] = []
            for step in reversed(done.undo):
                back = self.undo(step, scope=scope)
                refs += back.refs
                rejected += back.rejected
            return Restored(refs=tuple(refs), count=len(refs), rejected=tuple(rejected))
        token = done.undo if isinstance(done, Forgotten | Superseded | Remembered | Rejection) else done
        return self._call(Restored, "POST", "memory", "undo", query=parameters(scope=scope), body=body(token=token))

    def reject(self, value: Any, *, key: str | None = None, reason: str = "", scope: str | None = None) -> Rejection:
        """End a value, and keep it from coming back: by a ref, as a text, or under a key as any value."""
        sent = body(value=value, **without_none(key=key), reason=reason)
        return self._call(Rejection, "POST", "rejections", query=parameters(scope=scope), body=sent)

    def withdraw(self, rejection: Rejection | str, *, scope: str | None = None) -> Rejection:
        """Take a rejection back; what it ended stays ended until it is undone."""
        id = rejection.id if isinstance(rejection, Rejection) else rejection
        return self._call(Rejection, "DELETE", "rejections", id, query=parameters(scope=scope))

    def rejections(self, *, scope: str | None = None) -> builtins.list[Rejection]:
        """Return what was rejected at and below a scope, oldest first; never the values."""
        query = parameters(scope=scope)
        return (self._call(Rejections, "GET", "rejections", query=query, repeatable=True)).rejections

    def lineage(self, ref: str, *, scope: str | None = None) -> Lineage:
        """Return what something was derived from, and what was derived from it, each with how far it is trusted."""
        return self._call(Lineage, "GET", "memory", "lineage", query=parameters(ref=ref, scope=scope), repeatable=True)

    def copy(self, ref: str, *, to: str, scope: str | None = None) -> Copied:
        """Copy an entry or a fact to another scope: it is trusted no more there, and is forgotten with the original."""
        return self._call(Copied, "POST", "memory", "copy", query=parameters(scope=scope), body=body(ref=ref, to=to))

    def validate(self, ref: str, *, expect: int | None = None, reason: str = "", scope: str | None = None) -> Validated:
        """Trust an entry or a fact as far as the caller is trusted, who has to be a user and not its writer."""
        sent = body(ref=ref, reason=reason, **without_none(expect=expect))
        return self._call(Validated, "POST", "memory", "validate", query=parameters(scope=scope), body=sent)

    def namespaces(
        self, *, collection: str | None = None, prefix: str = "", scope: str | None = None
    ) -> builtins.list[str]:
        """Return the namespaces that have entries, by name, of one collection or of all."""
        query = parameters(collection=collection, prefix=prefix or None, scope=scope)
        return (self._call(Namespaces, "GET", "namespaces", query=query, repeatable=True)).namespaces

    def list(self, *, prefix: str = "", limit: int | None = None, scope: str | None = None) -> builtins.list[Holding]:
        """Return the collections with entries of the user, by name; for an administrator, those of the tenant.

        With a scope, those with entries in it.
        """
        query = parameters(prefix=prefix or None, scope=scope)
        return self._collect(Collections, lambda page: page.collections, limit, "collections", query=query)

    def delete(self, collection: str) -> int:
        """Delete a collection with the entries of all users of the tenant; return their number."""
        return (self._call(Removed, "DELETE", "collections", collection)).entries


def _lineage_options(derived_from: Sequence[str], requires_confirmation: bool = False) -> dict[str, Any]:
    """Return the fields of a write that differ from their defaults."""
    options: dict[str, Any] = {"derived_from": [*check_sources(derived_from)]} if derived_from else {}
    return options | ({"requires_confirmation": True} if requires_confirmation else {})
