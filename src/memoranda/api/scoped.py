"""The memory of one scope: what `memory.scope(user="ada")` returns."""

from __future__ import annotations

import builtins
import hashlib
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, cast

import msgspec

from memoranda.agent.prompt import estimate_tokens
from memoranda.api.arguments import (
    check_collection,
    check_metadata,
    check_namespace,
    check_own_namespace,
    check_query,
    check_recall_limit,
    check_says_something,
    make_item,
)
from memoranda.api.blocks import Blocks, history_effect
from memoranda.api.context import ContextPlan, blocks_above, build_context, mounted_records
from memoranda.engine.entries import Forget, Item, ListEntries, Remember
from memoranda.engine.facts import DeleteFact, GetFact, ListFacts, SetFact, WriteFacts
from memoranda.engine.recall import Recall, RecallAll
from memoranda.engine.sessions import EndScope, StartSession
from memoranda.errors import Conflict, Hint, InvalidValue, NotFound, UsageError
from memoranda.governance.gate import Caller, Gate
from memoranda.model.clock import Duration, parse_duration, parse_moment
from memoranda.model.context import Context
from memoranda.model.effect import Effect
from memoranda.model.entry import (
    NOTES,
    Entry,
    Kind,
    Mode,
    Recalled,
    Remembered,
    check_kinds,
    check_mode,
    check_threshold,
)
from memoranda.model.fact import Fact, Revision
from memoranda.model.internals import check_own_key
from memoranda.model.lesson import Learned
from memoranda.model.limits import Limits, check_count
from memoranda.model.names import check_key, check_label
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import encode_checked

_MISSING: Any = object()
_LONGEST_NAP = 0.02


class ScopedMemory:
    """One scope: facts by key (get, set, update, delete, list, history), entries by meaning (remember, recall).

    >>> import memoranda
    >>> with memoranda.open(":memory:") as memory:
    ...     ada = memory.scope(user="ada")
    ...     ada.set("kiln.cone", 6).version
    ...     ada.remember("The glaze of cone six is called celadon").stored
    ...     ada.recall("Which glaze?", kinds=["entry"]).count
    1
    True
    1
    """

    def __init__(self, gate: Gate, caller: Caller, scope: Scope) -> None:
        """Create the handle of a scope; `memory.scope(…)` does this."""
        self._gate = gate
        self._caller = caller
        self.scope = scope

    @property
    def blocks(self) -> Blocks:
        """The memory blocks of this user, or of this user and agent: texts that are replaced whole."""
        return Blocks(self._gate, self._caller, self.scope)

    def get(self, key: str, *, as_of: datetime | str | None = None) -> Fact | None:
        """Return the fact at a key, now or as of a moment; None if there is none.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     first = ada.set("kiln.cone", 6)
        ...     second = ada.set("kiln.cone", 8)
        ...     ada.get("kiln.cone").value, ada.get("kiln.cone", as_of=first.updated_at).value
        (8, 6)
        """
        check_key(key)
        moment = None if as_of is None else parse_moment(as_of)
        return self._gate.perform(GetFact(scope=self.scope, key=key, as_of=moment), self._caller)

    def value(self, key: str, default: Any = None, *, as_of: datetime | str | None = None) -> Any:
        """Return the value at a key, or the default.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     ada.value("kiln.cone", 6)
        6
        """
        fact = self.get(key, as_of=as_of)
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
    ) -> Fact:
        """Write a fact and return it. `expect` is the version it must be at; 0 means it must not exist.

        A write without a `ttl` is permanent, even over a fact that was not.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     fact = ada.set("profile.language", "en", ttl="90d")
        ...     ada.set("profile.language", "fr", expect=fact.version).version
        2
        """
        effect = set_effect(
            self.scope,
            key,
            value,
            self._gate.limits,
            expect=expect,
            ttl=ttl,
            domain=domain,
            source=source,
            idempotency_key=idempotency_key,
        )
        return self._gate.perform(effect, self._caller)

    def create(self, key: str, value: Any, *, ttl: Duration | None = None, domain: str | None = None) -> Fact:
        """Write a fact that must not exist yet; raise Conflict if it does.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     fact = ada.create("kiln.cone", 6)
        ...     try:
        ...         ada.create("kiln.cone", 8)
        ...     except memoranda.Conflict as conflict:
        ...         print(conflict.actual)
        1
        """
        return self.set(key, value, expect=0, ttl=ttl, domain=domain)

    def update(
        self,
        key: str,
        change: Callable[[Any], Any],
        *,
        default: Any = _MISSING,
        ttl: Duration | None = None,
        domain: str | None = None,
        attempts: int = 1_000,
    ) -> Fact:
        """Read a value, pass it to `change`, and write what that returns; start over if it was changed meanwhile.

        `change` gets the default if the fact does not exist. It may run several times, so it should only compute.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     ada.update("firings", lambda count: count + 1, default=0).value
        ...     ada.update("firings", lambda count: count + 1, default=0).value
        1
        2
        """
        for attempt in range(attempts):
            fact = self.get(key)
            if fact is None and default is _MISSING:
                raise NotFound(
                    f"unknown fact {quote(key)} in `{self.scope}`",
                    hint=Hint("python", "Pass default=… to begin one"),
                )
            value = change(default if fact is None else fact.value)
            tag = domain if domain is not None else fact.domain if fact else None
            try:
                return self.set(key, value, expect=fact.version if fact else 0, ttl=ttl, domain=tag)
            except Conflict:
                if attempt == attempts - 1:
                    raise
                time.sleep(random.uniform(0, min(_LONGEST_NAP, 0.0002 * 2 ** min(attempt, 8))))
        raise UsageError("`attempts` must be at least 1", hint="Leave it out")

    def delete(
        self,
        key: str,
        *,
        expect: int | None = None,
        source: str | None = None,
        idempotency_key: str | None = None,
    ) -> bool:
        """Delete a fact and return whether there was one. Its history stays; `memory.erase` removes that too.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     fact = ada.set("kiln.cone", 6)
        ...     ada.delete("kiln.cone", expect=fact.version), ada.delete("kiln.cone")
        (True, False)
        """
        effect = delete_effect(self.scope, key, expect=expect, source=source, idempotency_key=idempotency_key)
        return self._gate.perform(effect, self._caller)

    def list(
        self,
        prefix: str = "",
        *,
        domain: str | None = None,
        after: str = "",
        limit: int | None = None,
        max_bytes: int | None = None,
        as_of: datetime | str | None = None,
        internal: bool = False,
    ) -> list[Fact]:
        """Return the facts at and below a key, ordered by key: `profile.name` is below `profile`, `profiler` is not.

        `after` is the last key seen. With `max_bytes` the list ends with the fact whose value exceeds it. `internal`
        includes what the runtime keeps among the facts, such as memory blocks and the parts of conversations.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     for key in ("kiln.cone", "kiln.gas", "kilns"):
        ...         fact = ada.set(key, 1)
        ...     [fact.key for fact in ada.list("kiln")]
        ['kiln.cone', 'kiln.gas']
        """
        if prefix != "":
            check_key(prefix)
        if after != "":
            check_key(after)
        check_label("domain", domain)
        check_count("limit", limit)
        check_count("number of bytes", max_bytes, least=1)
        effect = ListFacts(
            scope=self.scope,
            prefix=prefix,
            domain=domain,
            after=after,
            limit=limit,
            max_bytes=max_bytes,
            as_of=None if as_of is None else parse_moment(as_of),
            internal=internal,
        )
        return self._gate.perform(effect, self._caller)

    def history(
        self,
        key: str,
        *,
        after: int = 0,
        before: int | None = None,
        newest: bool = False,
        limit: int | None = None,
        max_bytes: int | None = None,
    ) -> builtins.list[Revision]:
        """Return the revisions of a key, oldest first: what it was, since when, by whom.

        `after` is the last version seen. With `newest` the newest come first, and go on `before` the last one seen.
        With `max_bytes` the list ends with the revision whose value exceeds it.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     fact = ada.set("kiln.cone", 6)
        ...     gone = ada.delete("kiln.cone")
        ...     [(one.version, one.change) for one in ada.history("kiln.cone")]
        [(1, 'set'), (2, 'deleted')]
        """
        check_key(key)
        effect = history_effect(
            self.scope, key, after=after, before=before, newest=newest, limit=limit, max_bytes=max_bytes
        )
        return self._gate.perform(effect, self._caller)

    def remember(
        self,
        content: Any,
        *,
        collection: str = NOTES,
        metadata: Mapping[str, Any] | None = None,
        namespace: str = "",
        ttl: Duration | None = None,
        key: str | None = None,
        source: str | None = None,
    ) -> Remembered:
        """Store text or JSON so that `recall` finds it by meaning; a collection is made on first use.

        The same content with the same metadata is stored once in a namespace. Under a `key` there is one entry:
        other content replaces it. Recall makes use of some metadata: `thread` (entries of one thread are
        neighbours), `actor` (who said it) and `time` (when, ISO 8601).

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     ada.remember("The piano tuner comes on Thursday at nine").stored
        ...     ada.recall("When does the piano tuner come?")[0].content
        True
        'The piano tuner comes on Thursday at nine'
        """
        item = make_item(content, metadata, key, self._gate.limits)
        return self._remember((item,), collection, namespace, ttl, source)[0]

    def remember_many(
        self,
        items: Iterable[Mapping[str, Any]],
        *,
        collection: str = NOTES,
        namespace: str = "",
        ttl: Duration | None = None,
        source: str | None = None,
    ) -> builtins.list[Remembered]:
        """Store many things, all or nothing: maps with `content`, and `metadata` and `key` where there are any.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     notes = [{"content": "Bisque first"}, {"content": "Glaze second", "metadata": {"step": 2}}]
        ...     [one.stored for one in ada.remember_many(notes, collection="notes")]
        [True, True]
        """
        checked = tuple(_item_of(item, number, self._gate.limits) for number, item in enumerate(items))
        return self._remember(checked, collection, namespace, ttl, source) if checked else []

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
    ) -> builtins.list[Remembered]:
        r"""Store a long text in parts of at most `chunk` characters, cut between paragraphs or sentences.

        Each part has its place in the text as metadata `part`, and `thread`, where none is given, is the text's own,
        so that its parts are neighbours.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     text = "The clay dries for a week.\n\nThen it is fired slowly, for a day."
        ...     len(ada.remember_text(text, collection="notes", chunk=40))
        2
        """
        from memoranda.retrieval.chunks import split_text

        if not isinstance(cast(object, text), str):
            raise InvalidValue(f"{quote(text)} is {type(text).__name__}, not text", hint="Pass text", path="$")
        check_says_something(text)
        if cast(object, chunk) is None:
            raise UsageError("None is not a chunk", hint="Pass a whole number from 1 on, or leave it out")
        check_count("chunk", chunk, least=1)
        about = check_metadata(metadata)
        if not {"thread", "session"} & about.keys():
            about["thread"] = f"text:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
        items = [
            {"content": part, "metadata": {**about, "part": n}} for n, part in enumerate(split_text(text, chunk), 1)
        ]
        return self.remember_many(items, collection=collection, namespace=namespace, ttl=ttl, source=source)

    def recall(
        self,
        query: str,
        *,
        collection: str | None = None,
        namespace: str | None = None,
        kinds: Sequence[Kind] | None = None,
        collections: Sequence[str] | None = None,
        scopes: Sequence[str | Scope | ScopedMemory] | None = None,
        limit: int = 5,
        threshold: float = 0.0,
        filter: Mapping[str, Any] | None = None,
        as_of: datetime | str | None = None,
        mode: Mode = "hybrid",
        expand: int = 0,
        offset: int = 0,
        max_bytes: int | None = None,
    ) -> Recalled:
        """Return what was remembered that answers a query, best first, each with a score from 0 to 1 and why.

        Without a `collection` everything that this scope sees is searched: entries of all collections, facts, records,
        lines of memory blocks and messages of conversations. `kinds`, `collections` and `scopes` narrow that; each of
        the scopes is searched by itself, without those below it. Without a `namespace` all of them are looked through.

        A `filter` is on metadata: {"account": "acme"}, or with operators {"urgency": {"$gte": 3}}. `expand` adds this
        number of neighbours on either side of each match in a collection. An empty query gives the newest entries; an
        unknown collection has none, and `known` is False. `offset` leaves out the best ones, which an earlier answer
        had; with `max_bytes` the answer ends with the match whose content exceeds it.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     for cone, note in ((6, "Celadon turns green"), (10, "Tenmoku turns black")):
        ...         done = ada.remember(note, collection="glazes", metadata={"cone": cone})
        ...     found = ada.recall("What turns black?", collection="glazes", filter={"cone": {"$gte": 8}})
        ...     [match.content for match in found.results]
        ['Tenmoku turns black']
        """
        from memoranda.retrieval.filter import parse_filter

        narrowing = {"kinds": kinds, "collections": collections, "scopes": scopes}
        if collection is not None and (given := next((name for name, one in narrowing.items() if one is not None), "")):
            raise UsageError(
                f"`collection` searches one collection, so `{given}` has no meaning",
                hint="Pass `collections` to search several",
                path=given,
            )
        if collection is None and expand:
            raise UsageError(
                "`expand` adds neighbours in a collection, and none is named", hint="Pass a `collection`", path="expand"
            )

        check_query(query, self._gate.limits)
        check_recall_limit("limit", limit, self._gate.limits, path="limit")
        check_recall_limit("number of neighbours", expand, self._gate.limits, path="expand")
        check_count("offset", offset, path="offset")
        check_count("number of bytes", max_bytes, least=1)
        parse_filter(filter)
        options: dict[str, Any] = {
            "scope": self.scope,
            "query": query,
            "namespace": check_namespace(namespace),
            "limit": limit,
            "threshold": check_threshold(threshold),
            "filter": None if filter is None else dict(filter),
            "as_of": None if as_of is None else parse_moment(as_of),
            "mode": check_mode(mode),
            "offset": offset,
            "max_bytes": max_bytes,
        }
        if collection is not None:
            effect = Recall(collection=check_collection(collection), expand=expand, **options)
        else:
            effect = RecallAll(
                kinds=check_kinds(kinds or ()),
                collections=tuple(check_collection(name) for name in collections or ()),
                scopes=tuple(self._scope_of(scope) for scope in scopes or ()),
                **options,
            )
        return self._gate.perform(effect, self._caller)

    def context(
        self,
        query: str = "",
        *,
        budget: int = 1_500,
        definitions: Sequence[str] = (),
        kinds: Sequence[Kind] | None = None,
        collections: Sequence[str] | None = None,
        scopes: Sequence[str | Scope | ScopedMemory] = (),
        limit: int = 12,
        threshold: float | None = None,
        core: bool = True,
        count_tokens: Callable[[str], int] | None = None,
    ) -> Context:
        """Return what an agent should be told now, as text for its prompt and as items.

        First come the core blocks of this scope, then the records of the definitions that are named by their slugs,
        then the best matches for the query. The text never takes more tokens than the budget, by `count_tokens` or by
        an estimate that is rather too high. `left_out` says what was left out, and why.

        `kinds` and `collections` narrow what is searched; `scopes` are searched too, such as a knowledge base at
        `project:atlas`. Without a `threshold`, a match shares a word with the query or has a score of at least 0.5.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     block = ada.blocks.update("core", "- Prefers short answers", expected_updated_at=None)
        ...     done = ada.remember("The piano tuner comes on Thursday at nine", collection="notes")
        ...     told = ada.context("When does the piano tuner come?", budget=300)
        ...     [item.source for item in told.items], told.tokens < 300
        (['core', 'notes'], True)
        """
        check_query(query, self._gate.limits)
        check_count("budget", budget, path="budget")
        check_recall_limit("limit", limit, self._gate.limits, path="limit")
        options: dict[str, Any] = {
            "query": query,
            "kinds": check_kinds(kinds or ()),
            "collections": tuple(check_collection(name) for name in collections or ()),
            "block": "archival",
        }
        searches = [RecallAll(scope=scope, **options) for scope in (self.scope, *map(self._scope_of, scopes))]
        plan = ContextPlan(
            scope=self.scope,
            searches=tuple(searches) if query.strip() else (),
            core=blocks_above(self.scope) if core else (),
            records=mounted_records(self.scope, definitions, self._perform),
            limit=limit if query.strip() else 0,
            threshold=None if threshold is None else check_threshold(threshold),
            budget=budget,
        )
        return build_context(plan, self._perform, count_tokens or estimate_tokens)

    def learn(
        self,
        messages: object,
        *,
        conversation: str | None = None,
        agent: str | None = None,
        model: object = None,
        at: datetime | str | float | None = None,
        source: str | None = None,
    ) -> Learned:
        """Learn from a conversation: keep its messages, and bring what the user stated up to date.

        Messages are those of OpenAI, Anthropic or LangChain, or dictionaries with `role`, `content` and perhaps `name`
        and `at`. They are kept as they are and found by `recall`. What they state is extracted by rules, or by a
        `model`; it replaces what is no longer true, and leads back to its messages. The same messages again change
        nothing. `undo` takes it back.

        Without a `conversation` its id follows from how it begins. `at` is the time of messages that have none, and
        `agent` the agent that was spoken with.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     first = ada.learn([{"role": "user", "content": "I live in Porto."}])
        ...     then = ada.learn([{"role": "user", "content": "I moved to Faro."}])
        ...     [lesson.text for lesson in first.added], [lesson.text for lesson in then.replaced]
        (['Lives in Porto'], ['Lives in Faro'])
        """
        from memoranda.api.learn import learn_from

        return learn_from(
            self._gate,
            self._caller,
            self.scope,
            messages,
            conversation=conversation,
            agent=agent,
            model=model,
            at=at,
            source=source,
        )

    def _perform(self, effect: Effect) -> Any:
        return self._gate.perform(effect, self._caller)

    def _scope_of(self, scope: str | Scope | ScopedMemory) -> Scope:
        """Return a scope that a recall names, in the tenant of this one."""
        if isinstance(scope, ScopedMemory):
            scope = scope.scope
        found = scope if isinstance(scope, Scope) else Scope.parse(scope, tenant=self.scope.tenant)
        if found.tenant != self.scope.tenant:
            raise UsageError(f"`{found}` belongs to another tenant", hint="A recall stays within one tenant")
        return found

    def entries(
        self,
        *,
        collection: str,
        namespace: str | None = None,
        after: int = 0,
        limit: int | None = None,
        max_bytes: int | None = None,
    ) -> builtins.list[Entry]:
        """Return the entries of a collection in the order they came; `after` is the sequence of the last one seen.

        With `max_bytes` the list ends with the entry whose content exceeds it.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     done = ada.remember("Celadon turns green", collection="glazes", key="celadon")
        ...     [entry.key for entry in ada.entries(collection="glazes")]
        ['celadon']
        """
        check_count("limit", limit)
        check_count("sequence", after)
        check_count("number of bytes", max_bytes, least=1)
        effect = ListEntries(
            scope=self.scope,
            collection=check_collection(collection),
            namespace=check_namespace(namespace),
            after=after,
            limit=limit,
            max_bytes=max_bytes,
        )
        return self._gate.perform(effect, self._caller)

    def forget(self, id: str | None = None, *, collection: str, key: str | None = None, namespace: str = "") -> bool:
        """Forget one entry, by its id or by its key; return whether it was there.

        Recalls no longer find it, except as of an earlier moment; `memory.erase` removes that too.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     done = ada.remember("Celadon turns green", collection="glazes")
        ...     ada.forget(done.id, collection="glazes"), ada.forget(done.id, collection="glazes")
        (True, False)
        """
        if (id is None) == (key is None):
            raise UsageError("an entry is forgotten by its id or by its key", hint="Pass one of them")
        check_label("id", id)
        check_label("key", key)
        check_own_namespace(namespace)
        effect = Forget(scope=self.scope, collection=check_collection(collection), namespace=namespace, id=id, key=key)
        return self._gate.perform(effect, self._caller)

    def session(self, id: str) -> ScopedMemory:
        """Begin or resume a session that belongs to this scope; erasing this scope erases it too.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     firing = ada.session("firing-12")
        ...     firing.set("peak", 1222).scope.path
        'session:firing-12'
        """
        scope = Scope.of(tenant=self.scope.tenant, session=id)
        self._gate.perform(StartSession(scope=scope, owner=self.scope), self._caller)
        return ScopedMemory(self._gate, self._caller, scope)

    def end(self) -> dict[str, int]:
        """End this session, run or tree: its memory is removed, and nothing can be written to it again.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     firing = ada.session("firing-12")
        ...     fact = firing.set("peak", 1222)
        ...     firing.end()["facts"], firing.get("peak") is None
        (1, True)
        """
        return self._gate.perform(EndScope(scope=self.scope), self._caller)

    def _remember(
        self, items: tuple[Item, ...], collection: str, namespace: str, ttl: Duration | None, source: str | None
    ) -> builtins.list[Remembered]:
        check_label("source", source)
        check_own_namespace(namespace)
        effect = Remember(
            scope=self.scope,
            collection=check_collection(collection),
            namespace=namespace,
            items=items,
            ttl=None if ttl is None else parse_duration(ttl),
            source=source,
        )
        return self._gate.perform(effect, self._caller)

    def __repr__(self) -> str:
        """Show the scope."""
        return f"<memoranda.ScopedMemory {self.scope}>"


_ITEM_FIELDS = frozenset({"content", "metadata", "key"})


def _item_of(item: Mapping[str, Any], number: int, limits: Limits) -> Item:
    """Return one item of many, or raise what is wrong with it, with its number."""
    if not isinstance(cast(object, item), Mapping) or "content" not in item or not item.keys() <= _ITEM_FIELDS:
        raise UsageError(
            f"item {number} is {quote(item)}, not something to remember",
            hint='Pass maps such as {"content": "…", "metadata": {…}, "key": "…"}',
            item=number,
        )
    try:
        return make_item(item["content"], item.get("metadata"), item.get("key"), limits)
    except UsageError as error:
        error.message = f"item {number}: {error.message}"
        error.details["item"] = number
        raise


def set_effect(
    scope: Scope,
    key: str,
    value: Any,
    limits: Limits,
    *,
    expect: int | None = None,
    ttl: Duration | None = None,
    domain: str | None = None,
    source: str | None = None,
    idempotency_key: str | None = None,
) -> SetFact:
    """Return the effect of a set, or raise what is wrong with the arguments."""
    check_own_key(scope, key)
    _check_expect(expect)
    check_label("domain", domain)
    check_label("source", source)
    check_label("idempotency key", idempotency_key)
    return SetFact(
        scope=scope,
        key=key,
        payload=msgspec.Raw(encode_checked(value, limits)),
        expect=expect,
        ttl=None if ttl is None else parse_duration(ttl),
        domain=domain,
        source=source,
        idempotency_key=idempotency_key,
    )


def delete_effect(
    scope: Scope,
    key: str,
    *,
    expect: int | None = None,
    source: str | None = None,
    idempotency_key: str | None = None,
) -> DeleteFact:
    """Return the effect of a delete, or raise what is wrong with the arguments."""
    check_own_key(scope, key)
    _check_expect(expect)
    check_label("source", source)
    check_label("idempotency key", idempotency_key)
    return DeleteFact(scope=scope, key=key, expect=expect, source=source, idempotency_key=idempotency_key)


def _check_expect(expect: Any) -> None:
    if expect is not None and (type(expect) is not int or expect < 0):
        raise UsageError(
            f"{quote(expect)} is not a version to expect",
            hint="Pass the version of the fact, or 0 for one that must not exist",
        )


class Batch:
    """A batch: collects writes in a `with` block, and commits them together when it ends without an error.

    >>> import memoranda
    >>> with memoranda.open(":memory:") as memory:
    ...     ada = memory.scope(user="ada")
    ...     with memory.batch() as batch:
    ...         batch.set(ada, "name", "Ada")
    ...         batch.set(ada, "language", "en")
    ...         batch.delete(ada, "nickname")
    ...     [fact.key for fact in ada.list()], batch.results[2]
    (['language', 'name'], False)
    """

    def __init__(self, gate: Gate, caller: Caller, idempotency_key: str | None = None) -> None:
        """Start without writes; `memory.batch()` does this."""
        check_label("idempotency key", idempotency_key)
        self._gate = gate
        self._caller = caller
        self._idempotency_key = idempotency_key
        self._writes: list[SetFact | DeleteFact] = []
        self.results: list[Fact | bool] = []
        """After the block: for each write the new fact, for each delete whether there was one."""

    def set(
        self,
        place: ScopedMemory,
        key: str,
        value: Any,
        *,
        expect: int | None = None,
        ttl: Duration | None = None,
        domain: str | None = None,
    ) -> None:
        """Add a write of a fact."""
        effect = set_effect(place.scope, key, value, self._gate.limits, expect=expect, ttl=ttl, domain=domain)
        self._writes.append(effect)

    def delete(self, place: ScopedMemory, key: str, *, expect: int | None = None) -> None:
        """Add a delete of a fact."""
        self._writes.append(delete_effect(place.scope, key, expect=expect))

    def __enter__(self) -> Self:
        """Return this batch."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit the writes, unless the block failed or there are none."""
        if kind is None and self._writes:
            effect = WriteFacts(
                scope=self._writes[0].scope,
                writes=tuple(self._writes),
                idempotency_key=self._idempotency_key,
            )
            self.results = self._gate.perform(effect, self._caller)
