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

from memoranda.api.arguments import (
    CHUNK,
    check_collection,
    check_namespace,
    check_own_namespace,
    check_prefix,
    check_query,
    check_recall_limit,
    make_item,
    split_items,
)
from memoranda.api.blocks import Blocks, history_effect
from memoranda.engine.batch import Result, Write, WriteBatch
from memoranda.engine.collections import ListCollections
from memoranda.engine.copies import Copy
from memoranda.engine.entries import GetEntry, Item, ListEntries, ListNamespaces, ReadChain, Remember, part_key
from memoranda.engine.facts import DeleteFact, GetFact, ListFacts, SetFact, WriteFacts
from memoranda.engine.forget import Forget
from memoranda.engine.lineage import ReadLineage
from memoranda.engine.probes import ProbeLeaks
from memoranda.engine.recall import Recall, RecallAll
from memoranda.engine.rejections import ListRejections, Reject, Withdraw
from memoranda.engine.sessions import EndScope, StartSession
from memoranda.engine.supersede import SAME_METADATA, Supersede
from memoranda.engine.undo import Undo, check_token
from memoranda.engine.validation import Validate
from memoranda.errors import Conflict, Hint, InvalidFilter, NotFound, UsageError
from memoranda.governance.gate import Caller, Gate
from memoranda.model.clock import Duration, parse_duration, parse_moment
from memoranda.model.context import Context
from memoranda.model.effect import Effect
from memoranda.model.entry import (
    NOTES,
    Entry,
    Forgotten,
    Holding,
    Kind,
    Mode,
    Recalled,
    Remembered,
    Restored,
    Superseded,
    check_kinds,
    check_mode,
    check_threshold,
)
from memoranda.model.fact import Fact, Revision
from memoranda.model.identifier import Identifier
from memoranda.model.lesson import Learned
from memoranda.model.limits import Limits, check_count
from memoranda.model.lineage import Lineage, Tainted, Validated
from memoranda.model.names import LONGEST_LABEL, check_key, check_label, check_own_key, require_label
from memoranda.model.probes import LeakProbes
from memoranda.model.ref import as_ref, check_sources, is_name, is_ref
from memoranda.model.rejection import Rejection
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.trust import Trust, check_trust
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
        derived_from: Sequence[str] = (),
        requires_confirmation: bool = False,
    ) -> Fact:
        """Write a fact and return it. `expect` is the version it must be at; 0 means it must not exist.

        A write without a `ttl` is permanent, even over a fact that was not. What is `derived_from` other memory, by
        refs, is trusted no more than the least trusted of it. With `requires_confirmation` the write waits, and raises
        Held: it is visible once someone else has approved it.

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
            derived_from=derived_from,
            requires_confirmation=requires_confirmation,
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
        derived_from: Sequence[str] = (),
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
                expect = fact.version if fact else 0
                return self.set(key, value, expect=expect, ttl=ttl, domain=tag, derived_from=derived_from)
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
    ) -> Remembered:
        """Store text or JSON so that `recall` finds it by meaning; a collection is made on first use.

        The same content with the same metadata is stored once in a namespace. Under a `key` there is one entry:
        other content replaces it. `replaces` is the ref of an entry that is no longer true: it ends, and the new one
        takes its place, in its collection and namespace (see `supersede`).

        With `chunk`, a long text is stored in parts of at most that many characters (1,200 for True), cut between
        paragraphs or sentences, with `part` and `parts` as metadata. They are found one by one, and forgotten and
        replaced together: by their key, or by the ref of any of them.

        Recall makes use of some metadata: `thread` (entries of one thread are
        neighbours), `actor` (who said it) and `time` (when, ISO 8601).

        What is `derived_from` other memory, by refs, is trusted no more than the least trusted of it. With
        `requires_confirmation` it is not visible until someone else has approved it: the result says that it is
        `held`.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     ada.remember("The piano tuner comes on Thursday at nine").stored
        ...     ada.recall("When does the piano tuner come?")[0].content
        True
        'The piano tuner comes on Thursday at nine'
        """
        if replaces is not None:
            if collection is not None or namespace != "" or key is not None or chunk:
                raise UsageError(
                    "what replaces an entry stays where that one is, as one entry",
                    hint="Leave out `collection`, `namespace`, `key` and `chunk`, or leave out `replaces`",
                    path="replaces",
                )
            if derived_from or requires_confirmation:
                raise UsageError(
                    "what replaces an entry is not derived or confirmed in the same call",
                    hint="Leave out `replaces`, and remember under the key of the entry",
                    path="replaces",
                )
            effect = self._supersede_effect(replaces, content, metadata, ttl, source, only_entries=True)
            done: Superseded = self._gate.perform(effect, self._caller)
            return Remembered(
                id=as_ref(done.ref).name,
                collection=done.collection or "",
                namespace=done.namespace,
                stored=True,
                replaced=as_ref(done.replaced or "").name,
                expires_at=done.expires_at,
                undo=done.undo,
            )
        place = NOTES if collection is None else collection
        if chunk is not None and chunk is not False:
            if derived_from or requires_confirmation:
                raise UsageError("a text in parts is not derived or confirmed", hint="Leave out `chunk`", path="chunk")
            return self._remember_parts(content, chunk, metadata, key, place, namespace, ttl, source)
        item = make_item(content, metadata, key, self._gate.limits)
        if derived_from:
            item = msgspec.structs.replace(item, derived_from=check_sources(derived_from, tenant=self.scope.tenant))
        return self._remember((item,), place, namespace, ttl, source, requires_confirmation=requires_confirmation)[0]

    def _remember_parts(
        self,
        content: Any,
        chunk: int | bool,
        metadata: Mapping[str, Any] | None,
        key: str | None,
        collection: str,
        namespace: str,
        ttl: Duration | None,
        source: str | None,
    ) -> Remembered:
        check_label("key", key)
        parts = split_items(content, chunk, metadata, self._gate.limits)
        if len(parts) == 1:
            item = make_item(content, metadata, key, self._gate.limits)
            return self._remember((item,), collection, namespace, ttl, source)[0]
        if key is None:
            # The parts belong together all the same, and the same text with the same metadata is stored once.
            said = b"".join(bytes(raw) for part in parts for raw in (part.payload, part.metadata))
            key = f"text:{hashlib.sha256(said).hexdigest()[:24]}"
        items = [msgspec.structs.replace(part, key=part_key(key, number)) for number, part in enumerate(parts, 1)]
        done = self._remember(tuple(items), collection, namespace, ttl, source, document=key)
        return msgspec.structs.replace(
            done[0],
            stored=any(one.stored for one in done),
            duplicate=all(one.duplicate for one in done),
            replaced=next((one.replaced for one in done if one.replaced), None),
            parts=len(done),
        )

    def remember_many(
        self,
        items: Iterable[Mapping[str, Any]],
        *,
        collection: str = NOTES,
        namespace: str = "",
        ttl: Duration | None = None,
        source: str | None = None,
        derived_from: Sequence[str] = (),
    ) -> builtins.list[Remembered]:
        """Store many things, all or nothing: maps with `content`, and `metadata` and `key` where there are any.

        `derived_from` are the refs of what all of them were made of; a map may name more of them.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     notes = [{"content": "Bisque first"}, {"content": "Glaze second", "metadata": {"step": 2}}]
        ...     [one.stored for one in ada.remember_many(notes, collection="notes")]
        [True, True]
        """
        checked = tuple(_item_of(item, number, self._gate.limits) for number, item in enumerate(items))
        if derived_from:
            refs = check_sources(derived_from, tenant=self.scope.tenant)
            checked = tuple(
                msgspec.structs.replace(item, derived_from=tuple(dict.fromkeys((*item.derived_from, *refs))))
                for item in checked
            )
        return self._remember(checked, collection, namespace, ttl, source) if checked else []

    def remember_text(
        self,
        text: str,
        *,
        collection: str = NOTES,
        chunk: int = CHUNK,
        metadata: Mapping[str, Any] | None = None,
        namespace: str = "",
        ttl: Duration | None = None,
        source: str | None = None,
    ) -> builtins.list[Remembered]:
        r"""Store a long text in parts of at most `chunk` characters, cut between paragraphs or sentences.

        Each part has its place in the text as metadata `part` of `parts`, and `thread`, where none is given, is the
        text's own, so that its parts are neighbours.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     text = "The clay dries for a week.\n\nThen it is fired slowly, for a day."
        ...     len(ada.remember_text(text, collection="notes", chunk=40))
        2
        """
        items = split_items(text, chunk, metadata, self._gate.limits)
        return self._remember(items, collection, namespace, ttl, source)

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
        min_trust: Trust = "untrusted",
        exact: bool = False,
    ) -> Recalled:
        """Return what was remembered that answers a query, best first, each with a score from 0 to 1 and why.

        Without a `collection` everything that this scope sees is searched: entries of all collections, facts, records,
        lines of memory blocks and messages of conversations. `kinds`, `collections` and `scopes` narrow that; each of
        the scopes is searched by itself, without those below it. Without a `namespace` all of them are looked through.

        A `filter` is on metadata: {"account": "acme"}, or with operators {"urgency": {"$gte": 3}}. `expand` adds this
        number of neighbours on either side of each match in a collection. An empty query gives the newest entries; an
        unknown collection has none, and `known` is False. `offset` leaves out the best ones, which an earlier answer
        had; with `max_bytes` the answer ends with the match whose content exceeds it. `min_trust` leaves out what is
        trusted less, such as what tools wrote. In very large collections, candidates are chosen before they are ranked;
        `exact=True` compares everything, which takes a few times as long.

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
            "min_trust": check_trust(min_trust),
            "exact": exact,
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
        min_trust: Trust = "untrusted",
    ) -> Context:
        """Return what an agent should be told now, as text for its prompt and as items.

        First come the core blocks of this scope, then the records of the definitions that are named by their slugs,
        then the best matches for the query. The text never takes more tokens than the budget, by `count_tokens` or by
        an estimate that is rather too high. `left_out` says what was left out, and why.

        `kinds` and `collections` narrow what is searched; `scopes` are searched too, such as a knowledge base at
        `project:atlas`. Without a `threshold`, a match shares a word with the query or has a score of at least 0.5.
        `min_trust` leaves out what is trusted less.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     block = ada.blocks.update("core", "- Prefers short answers", expected_updated_at=None)
        ...     done = ada.remember("The piano tuner comes on Thursday at nine", collection="notes")
        ...     told = ada.context("When does the piano tuner come?", budget=300)
        ...     [item.source for item in told.items], told.tokens < 300
        (['core', 'notes'], True)
        """
        from memoranda.agent.prompt import estimate_tokens
        from memoranda.api.context import ContextPlan, blocks_above, build_context, mounted_records

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
            min_trust=check_trust(min_trust),
        )
        found = build_context(plan, self._perform, count_tokens or estimate_tokens)
        if found.items:
            self._gate.record_prompt(self.scope, found.refs, "", self._caller)
        return found

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
        nothing. If the model fails, the messages are kept, `pending` says why and until when, and they are read by the
        next call with them, or by the sleep-time worker. `undo` takes it back.

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
            self._perform,
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
    ) -> Superseded:
        """Put something else in the place of what a ref names; raise Conflict if that was superseded already.

        With `about`, or words in place of a ref, the entry or line that fits this description best ends; of a sentence
        that says other things too, those stay, and are `kept`. If nothing fits, the content is only remembered, in
        `collection`, and `replaced` is None.

        An entry ends, and the new one begins in its collection and namespace, with its metadata unless others are
        given. A fact gets a new value, and a block another line. `undo` brings back what was there.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     old = ada.remember("Acme pays within 30 days", collection="terms")
        ...     new = ada.supersede(old.ref, "Acme pays within 14 days")
        ...     [entry.content for entry in ada.entry_history(new.ref)], ada.recall("Acme pays").results[0].content
        (['Acme pays within 30 days', 'Acme pays within 14 days'], 'Acme pays within 14 days')
        """
        if about is None and not is_name(ref):
            ref, about = None, ref
        if (ref is None) == (about is None):
            raise UsageError(
                "what is superseded is named by its ref, or described", hint="Pass one of `ref` and `about`"
            )
        if about is None:
            effect = self._supersede_effect(ref or "", content, metadata, ttl, source)
            return self._gate.perform(effect, self._caller)
        check_label("source", source)
        item = make_item(content, metadata, None, self._gate.limits)
        effect = Supersede(
            scope=self.scope,
            about=_check_about(about),
            ranking=self._ranking(about),
            collection=_require_collection(check_collection(collection)),
            payload=item.payload,
            metadata=SAME_METADATA if metadata is None else item.metadata,
            ttl=None if ttl is None else parse_duration(ttl),
            source=source,
        )
        return self._gate.perform(effect, self._caller)

    def _ranking(self, about: str, **options: Any) -> dict[str, float]:
        """Return the scores of what a description brings to mind, by ref."""
        found = self.recall(about, limit=min(_MOST_RANKED, self._gate.limits.recall), **options)
        return {match.ref: round(match.score, 4) for match in found}

    def _supersede_effect(
        self,
        named: str,
        content: Any,
        metadata: Mapping[str, Any] | None,
        ttl: Duration | None,
        source: str | None,
        *,
        only_entries: bool = False,
    ) -> Supersede:
        ref = as_ref(named, tenant=self.scope.tenant)
        check_label("source", source)
        if ref.kind == "entry":
            item = make_item(content, metadata, None, self._gate.limits)
            payload, about = item.payload, None if metadata is None else item.metadata
        elif metadata is not None:
            raise UsageError(f"a {ref.kind} has no metadata", hint="Leave it out", path="metadata")
        else:
            payload, about = msgspec.Raw(encode_checked(content, self._gate.limits)), None
        seconds = None if ttl is None else parse_duration(ttl)
        return Supersede(
            scope=self.scope,
            ref=str(ref),
            payload=payload,
            metadata=SAME_METADATA if about is None else about,
            ttl=seconds,
            source=source,
            only_entries=only_entries,
        )

    def entry(
        self, ref: str | None = None, *, collection: str | None = None, key: str | None = None, namespace: str = ""
    ) -> Entry | None:
        """Return a current entry, by its ref or id, or by its key in a collection; None if there is none.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     done = ada.remember("Celadon turns green", collection="glazes", key="celadon")
        ...     ada.entry(done.ref).content, ada.entry(key="tenmoku", collection="glazes")
        ('Celadon turns green', None)
        """
        if (ref is None) == (key is None):
            raise UsageError("an entry is read by its ref or by its key", hint="Pass one of them")
        place = None if collection is None else check_collection(collection)
        if ref is not None:
            return self._gate.perform(GetEntry(scope=self.scope, id=_entry_id(ref), collection=place), self._caller)
        require_label("key", key)
        effect = GetEntry(
            scope=self.scope,
            collection=_require_collection(place),
            namespace=check_own_namespace(namespace),
            key=key,
        )
        return self._gate.perform(effect, self._caller)

    def entry_history(
        self, ref: str, *, limit: int | None = None, max_bytes: int | None = None
    ) -> builtins.list[Entry]:
        """Return the chain of an entry, oldest first: what it replaced, itself, and what replaced it.

        `valid_from` and `valid_to` say when each was true, `origin` who wrote it. An unknown entry has none.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     old = ada.remember("Fires at cone 10", collection="notes")
        ...     new = ada.remember("Fires at cone 6", replaces=old.ref)
        ...     [(entry.content, entry.valid_to is None) for entry in ada.entry_history(old.ref)]
        [('Fires at cone 10', False), ('Fires at cone 6', True)]
        """
        check_count("limit", limit)
        check_count("number of bytes", max_bytes, least=1)
        effect = ReadChain(scope=self.scope, id=_entry_id(ref), limit=limit, max_bytes=max_bytes)
        return self._gate.perform(effect, self._caller)

    def entries(
        self,
        *,
        collection: str | None = None,
        namespace: str | None = None,
        filter: Mapping[str, Any] | None = None,
        newest: bool = False,
        after: int = 0,
        limit: int | None = None,
        max_bytes: int | None = None,
    ) -> builtins.list[Entry]:
        """Return entries in the order they came, of one collection or of all; with `newest` the newest first.

        A `filter` is on metadata, as for recall. `after` is the sequence of the last one seen: what is written
        meanwhile moves no entry to another page. With `max_bytes` the list ends with the entry whose content exceeds
        it.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     for cone, name in ((6, "celadon"), (10, "tenmoku"), (6, "shino")):
        ...         done = ada.remember(f"The glaze {name}", collection="glazes", key=name, metadata={"cone": cone})
        ...     [entry.key for entry in ada.entries(collection="glazes", filter={"cone": 6}, newest=True)]
        ['shino', 'celadon']
        """
        from memoranda.retrieval.filter import parse_filter

        check_count("limit", limit)
        check_count("sequence", after)
        check_count("number of bytes", max_bytes, least=1)
        parse_filter(filter)
        effect = ListEntries(
            scope=self.scope,
            collection=None if collection is None else check_collection(collection),
            namespace=check_namespace(namespace),
            filter=None if filter is None else dict(filter),
            newest=newest,
            after=after,
            limit=limit,
            max_bytes=max_bytes,
        )
        return self._gate.perform(effect, self._caller)

    def collections(self, *, prefix: str = "") -> builtins.list[Holding]:
        """Return the collections in which this scope has entries, by name, with the number of these.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     done = ada.remember("Celadon turns green", collection="glazes")
        ...     [(one.name, one.entries) for one in ada.collections()], memory.scope(user="bo").collections()
        ([('glazes', 1)], [])
        """
        return self._perform(ListCollections(scope=self.scope, prefix=check_prefix(prefix)))

    def namespaces(self, *, collection: str | None = None, prefix: str = "") -> builtins.list[str]:
        """Return the namespaces that have entries, by name, of one collection or of all.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     for name in ("kiln", "kitchen", "wheel"):
        ...         done = ada.remember("It needs cleaning", collection="notes", namespace=name)
        ...     ada.namespaces(collection="notes", prefix="ki")
        ['kiln', 'kitchen']
        """
        place = None if collection is None else check_collection(collection)
        effect = ListNamespaces(scope=self.scope, collection=place, prefix=check_prefix(prefix))
        return self._gate.perform(effect, self._caller)

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
    ) -> Forgotten:
        """Forget what one of these names, all of it or nothing; the result is false if there was nothing.

        An `id` is that of an entry, or the ref of an entry, fact or line at or below this scope; other texts are taken
        as `about`. A `key` is that of an entry in a collection. `where` is a filter on the metadata of entries. An
        `identifier` is an address, number or name in any spelling: every entry, fact and line of a block of this scope
        that contains it goes, with `inside` also where it is a part of a longer one. `about` says in words what is
        meant, "everything about Frank" or "my old address"; if that is not clear nothing goes, and the result lists
        `candidates`. Of a sentence that says other things too, those stay, and are `kept`. `dry_run` changes nothing,
        and returns what would go.

        Recalls no longer find it, except as of an earlier moment, and `undo` brings it back; `memory.erase` removes
        it permanently.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     done = ada.remember("Write to bo@example.org", collection="notes")
        ...     fact = ada.set("contact", {"mail": "Bo@Example.org"})
        ...     gone = ada.forget(identifier="mailto:bo@example.org")
        ...     gone.entries, gone.facts, bool(ada.forget(done.ref))
        (1, 1, False)
        """
        if about is None and not is_name(id):
            id, about = None, id
        effect = forget_effect(
            self.scope, id, collection, key, namespace, where, identifier, inside=inside, about=about, dry_run=dry_run
        )
        if about is not None:
            narrowing = {} if collection is None else {"collection": collection}
            ranking = self._ranking(about, namespace=namespace, **narrowing)
            effect = msgspec.structs.replace(effect, ranking=ranking)
        return self._gate.perform(effect, self._caller)

    def leak_probes(self, content: str) -> LeakProbes:
        """Return where a text is left, place by place; None is a place that was not tested.

        Pass what has to be gone, or the ref of an entry, fact or line. After a forget it is still in the history;
        after an erasure it is nowhere. It takes the rights to read memory, approvals and the ledger.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     done = ada.remember("The vault code is 4711-KILN", collection="notes")
        ...     before, gone = ada.leak_probes("4711-KILN").found, ada.forget(identifier="4711-KILN")
        ...     before, ada.leak_probes("4711-KILN").entries, ada.leak_probes("4711-KILN").history
        (('entries', 'words', 'vectors', 'prompts', 'database_bytes'), False, True)
        """
        if not isinstance(cast(object, content), str) or sum(map(str.isalnum, content)) < 2:
            hint = "Pass the text that has to be gone, or the ref of what has it"
            raise UsageError(f"{quote(content)} cannot be looked for", hint=hint, value=content, path="content")
        return self._gate.perform(ProbeLeaks(scope=self.scope, content=content), self._caller)

    def undo(self, done: Forgotten | Superseded | Remembered | Learned | Rejection | Tainted | str) -> Restored:
        """Bring back what a forget, a supersede or a learn ended, all of it or nothing, by its result or its `undo`.

        What was added goes, too: the messages and statements of a learn. What was rejected since stays away, and is
        named in the result. It holds from now on: as of the moments between, it is gone.
        Raise Conflict if something newer took its place, and NotFound if it has expired or was
        erased.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     done = ada.remember("Celadon turns green", collection="glazes")
        ...     gone = ada.forget(done.ref)
        ...     ada.undo(gone).count, ada.entry(done.ref).content
        (1, 'Celadon turns green')
        """
        if isinstance(done, Forgotten | Rejection | Tainted) and done.undo is None:
            return Restored()  # nothing was ended
        if isinstance(done, Learned):
            each = [self.undo(token) for token in reversed(done.undo)]
            refs = tuple(ref for one in each for ref in one.refs)
            rejected = tuple(ref for one in each for ref in one.rejected)
            return Restored(refs=refs, count=len(refs), rejected=rejected)
        token = done.undo if isinstance(done, Forgotten | Superseded | Remembered | Rejection | Tainted) else done
        return self._gate.perform(Undo(scope=self.scope, token=check_token(token)), self._caller)

    def reject(self, value: Any, *, key: str | None = None, reason: str = "") -> Rejection:
        """End a value here and below, and keep it from coming back until the rejection is withdrawn.

        `value` is the ref of a fact, an entry or a line; or a text, which is then refused wherever it is written; or
        with a `key` any JSON value, which is refused under that key. Another spelling is the same value: case,
        diacritics, spaces, punctuation, invisible characters and look-alikes do not count. Other words are another
        value.

        Only hashes of the value are stored. They outlive every TTL and sweep, go with an export, and end with an
        erasure.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     done = ada.remember("The kiln fires at cone 12", collection="notes")
        ...     rejection = ada.reject(done.ref, reason="it melts at cone 11")
        ...     again = ada.remember("the KILN fires at cone 12.", collection="notes")
        ...     again.stored, again.rejected == rejection.id, ada.recall("kiln").count
        (False, True, 0)
        """
        if not isinstance(cast(object, reason), str) or len(reason) > LONGEST_LABEL:
            raise UsageError(
                f"a reason is a text of at most {LONGEST_LABEL} characters", hint="Pass a short text", path="reason"
            )
        if key is None and is_ref(value, tenant=self.scope.tenant):
            return self._perform(Reject(scope=self.scope, ref=value, reason=reason))
        payload = msgspec.Raw(encode_checked(value, self._gate.limits))
        place = None if key is None else check_key(key)
        return self._perform(Reject(scope=self.scope, payload=payload, key=place, reason=reason))

    def withdraw(self, rejection: Rejection | str) -> Rejection:
        """Take a rejection of this scope back; what it ended stays ended until it is undone.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     fact = ada.set("kiln.cone", 6)
        ...     rejection = ada.reject(6, key="kiln.cone")
        ...     done = ada.withdraw(rejection)
        ...     ada.undo(rejection).count, ada.value("kiln.cone")
        (1, 6)
        """
        id = rejection.id if isinstance(rejection, Rejection) else rejection
        return self._perform(Withdraw(scope=self.scope, rejection=id))

    def rejections(self) -> builtins.list[Rejection]:
        """Return what was rejected here and below, oldest first: who did it, when and why, and never the value.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     rejection = ada.reject(12, key="kiln.cone", reason="it melts at cone 11")
        ...     [(one.key, one.actor, one.reason) for one in ada.rejections()]
        [('kiln.cone', 'owner', 'it melts at cone 11')]
        """
        return self._perform(ListRejections(scope=self.scope))

    def lineage(self, ref: str) -> Lineage:
        """Return what something was derived from, and what was derived from it, each with how far it is trusted.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     page = memory.from_origin("tool_external").scope(user="ada").remember("Cone 6 is 1222 degrees")
        ...     note = ada.remember("The kiln has to reach 1222 degrees", derived_from=[page.ref])
        ...     [(one.ref == page.ref, one.trust) for one in ada.lineage(note.ref).sources]
        [(True, 'low')]
        """
        return self._perform(ReadLineage(scope=self.scope, ref=str(as_ref(ref, tenant=self.scope.tenant))))

    def copy(self, ref: str, *, to: Scope | str | ScopedMemory) -> Remembered | Fact:
        """Copy an entry or a fact to another scope: it is trusted no more there, and is forgotten with the original.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada, atlas = memory.scope(user="ada"), memory.at("project:atlas")
        ...     note = ada.remember("Bisque firing on Monday")
        ...     copied = ada.copy(note.ref, to=atlas)
        ...     gone = ada.forget(note.ref)
        ...     gone.count, atlas.entries()
        (2, [])
        """
        named = str(as_ref(ref, tenant=self.scope.tenant))
        return self._perform(Copy(scope=self._scope_of(to), ref=named, within=self.scope))

    def validate(self, ref: str, *, expect: int | None = None, reason: str = "") -> Validated:
        """Trust an entry or a fact as far as this principal is trusted, who has to be a user and not its writer.

        A fact may change while it is checked: pass the version that was checked as `expect`, and another one raises
        Conflict.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     fact = memory.acting_as("tool:web", policy=memoranda.Policy.of(allow=("memory",))).scope(
        ...         user="ada"
        ...     ).set("opening", "nine")
        ...     ada = memory.scope(user="ada")
        ...     done = ada.validate("fact:user:ada#opening", reason="I asked at the door")
        ...     done.before, ada.get("opening").origin.trust
        ('low', 'high')
        """
        check_label("reason", reason or None)
        named = str(as_ref(ref, tenant=self.scope.tenant))
        return self._perform(Validate(scope=self.scope, ref=named, expect=expect, reason=reason))

    def batch(self, *, idempotency_key: str | None = None) -> ScopedBatch:
        """Return a batch of writes of this scope, committed together when its `with` block ends, all or nothing.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     with ada.batch() as batch:
        ...         batch.set("kiln.cone", 6)
        ...         batch.remember("The kiln fires at cone six now", collection="notes")
        ...     ada.value("kiln.cone"), batch.results[1].stored
        (6, True)
        """
        return ScopedBatch(Batch(self._gate, self._caller, idempotency_key), self)

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
        self,
        items: tuple[Item, ...],
        collection: str,
        namespace: str,
        ttl: Duration | None,
        source: str | None,
        *,
        document: str | None = None,
        requires_confirmation: bool = False,
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
            document=document,
            requires_confirmation=requires_confirmation,
        )
        return self._gate.perform(effect, self._caller)

    def __repr__(self) -> str:
        """Show the scope."""
        return f"<memoranda.ScopedMemory {self.scope}>"


def _entry_id(named: str) -> str:
    """Return the id of the entry that a ref or an id names, or raise UsageError."""
    ref = as_ref(named)
    if ref.kind != "entry":
        raise UsageError(f"{quote(named)} is not an entry", hint="Pass the ref of an entry", value=named, path="ref")
    return ref.name


def _require_collection(collection: str | None) -> str:
    if collection is None:
        raise UsageError("no collection is named", hint="Name a `collection`", path="collection")
    return check_collection(collection)


def forget_effect(
    scope: Scope,
    id: str | None,
    collection: str | None,
    key: str | None,
    namespace: str | None,
    where: Mapping[str, Any] | None,
    identifier: str | None,
    *,
    inside: bool = False,
    about: str | None = None,
    dry_run: bool = False,
) -> Forget:
    """Return the effect of a forget, or raise what is wrong with the arguments."""
    from memoranda.retrieval.filter import parse_filter

    if sum(one is not None for one in (id, key, where, identifier, about)) != 1:
        raise UsageError(
            "something is forgotten by its id or ref, by its key, by a filter, by an identifier, or by a description",
            hint="Pass one of `id`, `key`, `where`, `identifier` and `about`",
        )
    if identifier is not None:
        Identifier(identifier)
    elif inside:
        raise UsageError("`inside` is about an identifier", hint="Pass an `identifier`, or leave it out", path="inside")
    if about is not None:
        _check_about(about)
    if where is not None and parse_filter(where) is None:
        raise InvalidFilter("an empty filter would forget everything", hint="Name metadata to forget by", path="where")
    check_label("key", key)
    check_namespace(namespace)
    place = None if collection is None else check_collection(collection)
    return Forget(
        scope=scope,
        collection=place if key is None else _require_collection(place),
        namespace=(namespace or "") if key is not None else namespace,
        id=None if id is None else str(as_ref(id, tenant=scope.tenant)),
        key=key,
        filter=None if where is None else dict(where),
        identifier=identifier,
        inside=inside,
        about=about,
        dry_run=dry_run,
    )


_MOST_RANKED = 20
"""Memories that recall ranks for a description."""


def _check_about(about: Any) -> str:
    """Return a description, or raise UsageError."""
    if not isinstance(about, str) or not any(map(str.isalnum, about)):
        hint = "Say in words what is meant, such as `everything about Frank`"
        raise UsageError(f"{quote(about)} describes nothing", hint=hint, value=about, path="about")
    return about


_ITEM_FIELDS = frozenset({"content", "metadata", "key", "derived_from"})


def _item_of(item: Mapping[str, Any], number: int, limits: Limits) -> Item:
    """Return one item of many, or raise what is wrong with it, with its number."""
    if not isinstance(cast(object, item), Mapping) or "content" not in item or not item.keys() <= _ITEM_FIELDS:
        raise UsageError(
            f"item {number} is {quote(item)}, not something to remember",
            hint='Pass maps such as {"content": "…", "metadata": {…}, "key": "…"}',
            item=number,
        )
    try:
        made = make_item(item["content"], item.get("metadata"), item.get("key"), limits)
        refs = item.get("derived_from")
        return msgspec.structs.replace(made, derived_from=tuple(map(str, map(as_ref, refs)))) if refs else made
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
    derived_from: Sequence[str] = (),
    requires_confirmation: bool = False,
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
        derived_from=check_sources(derived_from, tenant=scope.tenant) if derived_from else (),
        requires_confirmation=requires_confirmation,
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
    ...         batch.remember(ada, "Ada throws on Tuesdays", collection="notes")
    ...         batch.delete(ada, "nickname")
    ...         batch.forget(ada, where={"year": 2019})
    ...     ada.value("name"), batch.results[1].stored, batch.results[2], batch.results[3].count
    ('Ada', True, False, 0)
    """

    def __init__(self, gate: Gate, caller: Caller, idempotency_key: str | None = None) -> None:
        """Start without writes; `memory.batch()` does this."""
        check_label("idempotency key", idempotency_key)
        self._gate = gate
        self._caller = caller
        self._idempotency_key = idempotency_key
        self._writes: list[Write] = []
        self.results: list[Result] = []
        """After the block, for each write: the new fact, whether there was one to delete, what became of an entry, or
        what was forgotten."""

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

    def remember(
        self,
        place: ScopedMemory,
        content: Any,
        *,
        collection: str,
        metadata: Mapping[str, Any] | None = None,
        namespace: str = "",
        ttl: Duration | None = None,
        key: str | None = None,
    ) -> None:
        """Add an entry to remember."""
        item = make_item(content, metadata, key, self._gate.limits)
        effect = Remember(
            scope=place.scope,
            collection=check_collection(collection),
            namespace=check_own_namespace(namespace),
            items=(item,),
            ttl=None if ttl is None else parse_duration(ttl),
        )
        self._writes.append(effect)

    def forget(
        self,
        place: ScopedMemory,
        id: str | None = None,
        *,
        collection: str | None = None,
        key: str | None = None,
        namespace: str | None = None,
        where: Mapping[str, Any] | None = None,
        identifier: str | None = None,
    ) -> None:
        """Add something to forget."""
        self._writes.append(forget_effect(place.scope, id, collection, key, namespace, where, identifier))

    def __enter__(self) -> Self:
        """Return this batch."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit the writes, unless the block failed or there are none."""
        if kind is not None or not self._writes:
            return
        scope, key = self._writes[0].scope, self._idempotency_key
        facts = [write for write in self._writes if isinstance(write, SetFact | DeleteFact)]
        if len(facts) == len(self._writes):
            effect = WriteFacts(scope=scope, writes=tuple(facts), idempotency_key=key)
        else:
            effect = WriteBatch(scope=scope, writes=tuple(self._writes), idempotency_key=key)
        self.results = self._gate.perform(effect, self._caller)


class ScopedBatch:
    """A batch of writes of one scope: what `memory.scope(user="ada").batch()` returns.

    >>> import memoranda
    >>> with memoranda.open(":memory:") as memory:
    ...     ada = memory.scope(user="ada")
    ...     old = ada.remember("Fires at cone 10", collection="notes")
    ...     with ada.batch() as batch:
    ...         batch.forget(old.ref)
    ...         batch.remember("Fires at cone 6", collection="notes")
    ...     [entry.content for entry in ada.entries()]
    ['Fires at cone 6']
    """

    def __init__(self, batch: Batch, place: ScopedMemory) -> None:
        """Collect the writes of a place; `batch()` of its handle does this."""
        self._batch = batch
        self._place = place

    @property
    def results(self) -> list[Result]:
        """After the block, the result of each write."""
        return self._batch.results

    def set(
        self,
        key: str,
        value: Any,
        *,
        expect: int | None = None,
        ttl: Duration | None = None,
        domain: str | None = None,
    ) -> None:
        """Add a write of a fact."""
        self._batch.set(self._place, key, value, expect=expect, ttl=ttl, domain=domain)

    def delete(self, key: str, *, expect: int | None = None) -> None:
        """Add a delete of a fact."""
        self._batch.delete(self._place, key, expect=expect)

    def remember(
        self,
        content: Any,
        *,
        collection: str,
        metadata: Mapping[str, Any] | None = None,
        namespace: str = "",
        ttl: Duration | None = None,
        key: str | None = None,
    ) -> None:
        """Add an entry to remember."""
        self._batch.remember(
            self._place, content, collection=collection, metadata=metadata, namespace=namespace, ttl=ttl, key=key
        )

    def forget(
        self,
        id: str | None = None,
        *,
        collection: str | None = None,
        key: str | None = None,
        namespace: str | None = None,
        where: Mapping[str, Any] | None = None,
        identifier: str | None = None,
    ) -> None:
        """Add something to forget."""
        self._batch.forget(
            self._place, id, collection=collection, key=key, namespace=namespace, where=where, identifier=identifier
        )

    def __enter__(self) -> Self:
        """Return this batch."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit the writes, unless the block failed or there are none."""
        self._batch.__exit__(kind, error, traceback)
