"""Assemble what an agent should be told now: core blocks, records, and the best matches of any kind.

Every prompt with memory in it is made of this: chat, prompt previews, AI actions of workflows, reasoning steps of ABL
agents, `ask` in machines, and the prompt of MCP. Memories are added in the order of their importance until the budget
is used up; what says the same as an item before it is left out, and no origin gets more than a third.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from memoranda.agent.prompt import MEMORY_NOTICE, estimate_tokens, tag, wrap
from memoranda.engine.blocks import RecallBlocks
from memoranda.engine.definitions import ReadDefinitions
from memoranda.engine.facts import GetFact, GetFacts
from memoranda.engine.recall import RecallAll, seen_scopes
from memoranda.engine.schemas import parts_of
from memoranda.errors import Denied, NotFound
from memoranda.lang.diagnostics import Suggestions
from memoranda.lang.expression.values import to_text
from memoranda.model.block import BlockMatch, has_blocks, key_of, owner_of
from memoranda.model.context import Context, ContextItem, Omitted, Why
from memoranda.model.definition import Definition, plain_text
from memoranda.model.effect import Effect
from memoranda.model.entry import Match, Recalled
from memoranda.model.fact import Fact
from memoranda.model.ref import Ref, line_digest
from memoranda.model.scope import Scope
from memoranda.model.text import escape_hidden, quote

if TYPE_CHECKING:
    from memoranda.api.memory import Memory

Perform: TypeAlias = Callable[[Effect], Any]
CountTokens: TypeAlias = Callable[[str], int]

_NEAR = 0.5
"""The score from which a match without a word of the query is taken, if no threshold is given."""
_PAGES = (1_000, 4_000)
"""Matches that are looked through if most of the best ones say the same."""
_ALIKE = 0.8
"""The share of words that two texts have in common if they say the same."""
_WORDS = re.compile(r"\w+")


class ContextPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What goes into a context."""

    scope: Scope
    lines: RecallBlocks | None = None
    """Which lines of archival blocks are looked for; they come before other matches."""
    searches: tuple[RecallAll, ...] = ()
    """What else is looked for; their matches are merged by score."""
    core: tuple[Scope, ...] = ()
    """The scopes whose core blocks are shown."""
    records: tuple[tuple[Definition, Scope], ...] = ()
    """The records that are shown, each with its scope."""
    limit: int = 12
    """Maximum number of matches."""
    threshold: float | None = None
    """Minimum score of a match; without it, one that shares a word with the query or has a score of 0.5."""
    budget: int | None = None
    """Maximum number of tokens."""


def build_context(plan: ContextPlan, perform: Perform, count_tokens: CountTokens = estimate_tokens) -> Context:
    """Return the context of a plan; `perform` passes effects to the gate."""
    draft = _Draft(plan, count_tokens)
    facts = _facts(plan, perform, draft)
    for scope in plan.core:
        fact = facts.get((scope, key_of("core")))
        if fact is not None and isinstance(fact.value, str) and fact.value.strip():
            draft.add_core(fact)
    for definition, scope in plan.records:
        fact = facts.get((scope, definition.slug))
        if fact is not None:
            draft.add(_record_item(fact, definition))
    if plan.limit and (plan.searches or plan.lines is not None):
        draft.add_matches(_pages(plan, perform))
    return draft.context()


_ANY_TEXT = ("entry", "line", "message")
"""What a program may be told of a user without declaring it; facts and records are declared."""
_BUDGET = 1_000


def remembered_text(memory: Memory, scope: Scope, query: str, *, core: bool = True) -> str:
    """Return what a program's model should be told of a user: core blocks, and what answers a query; may be empty.

    Facts and records are not among it: a program declares those that it uses. Nothing is told under a policy that
    does not allow it.
    """
    search = RecallAll(scope=scope, query=query, kinds=_ANY_TEXT, block="archival")
    plan = ContextPlan(
        scope=scope,
        searches=(search,) if query.strip() and memory.may(search) else (),
        core=blocks_above(scope) if core else (),
        budget=_BUDGET,
    )
    text = build_context(plan, memory.perform).text
    return f"{MEMORY_NOTICE}\n\n{text}" if text else ""


def blocks_above(scope: Scope) -> tuple[Scope, ...]:
    """Return the scopes with memory blocks at and above a scope, the user's first."""
    return tuple(reversed([one for one in seen_scopes(scope) if has_blocks(one)]))


def mounted_records(scope: Scope, slugs: Sequence[str], perform: Perform) -> tuple[tuple[Definition, Scope], ...]:
    """Return the definitions of these slugs, each with the scope of its record: the nearest that has one."""
    if not slugs:
        return ()
    every: list[Definition] = perform(ReadDefinitions(scope=Scope(scope.tenant)))
    known = {definition.slug: definition for definition in every}
    found: list[tuple[Definition, Scope]] = []
    for slug in dict.fromkeys(slugs):
        definition = known.get(slug)
        if definition is None:
            raise NotFound(
                f"unknown definition {quote(slug)}",
                hint=Suggestions().did_you_mean(slug, known, otherwise="Create it, or leave it out"),
                value=slug,
            )
        place = next((one for one in seen_scopes(scope) if definition.applies_to(one)), None)
        if place is not None:
            found.append((definition, place))
    return tuple(found)


def _facts(plan: ContextPlan, perform: Perform, draft: _Draft) -> dict[tuple[Scope, str], Fact]:
    """Return the facts that are shown whatever the query is, without those that the caller may not read."""
    wanted = [*((scope, key_of("core")) for scope in plan.core)]
    wanted += [(scope, definition.slug) for definition, scope in plan.records]
    if not wanted:
        return {}
    gets = tuple(GetFact(scope=scope, key=key) for scope, key in wanted)
    try:
        found: list[Fact | None] = perform(GetFacts(scope=plan.scope, gets=gets))
    except Denied:
        found = []
        for get in gets:
            try:
                found.append(perform(get))
            except Denied:
                found.append(None)
                draft.leave(_fact_ref(get.scope, get.key), "core" if get.key == key_of("core") else "record", "denied")
    return {place: fact for place, fact in zip(wanted, found, strict=True) if fact is not None}


def _pages(plan: ContextPlan, perform: Perform) -> Iterator[list[ContextItem]]:
    """Yield matches, best first, in pages that grow: most contexts need only the first."""
    lines: list[BlockMatch] = [] if plan.lines is None else perform(plan.lines)
    found = [_line_item(match, plan.lines) for match in lines if plan.lines is not None]
    offset = 0
    for size in (2 * plan.limit, *_PAGES):
        for search in plan.searches:
            recalled: Recalled = perform(msgspec.structs.replace(search, offset=offset, limit=size))
            found += [_match_item(match) for match in recalled if is_near(match, plan.threshold)]
        if len(plan.searches) + (plan.lines is not None) > 1:
            found.sort(key=lambda item: -(item.score or 0.0))
        if not found:
            return
        yield found
        if not plan.searches:
            return
        found, offset = [], offset + size


def is_near(match: Match, threshold: float | None) -> bool:
    """Return whether a match is good enough to be told."""
    if threshold is not None:
        return match.score >= threshold
    return bool(match.why.matched) or match.score >= _NEAR


class _Draft:
    """A context in the making."""

    def __init__(self, plan: ContextPlan, count_tokens: CountTokens) -> None:
        self._plan = plan
        self._count = count_tokens
        self._items: list[ContextItem] = []
        self._texts: list[str] = []
        """Each item for the prompt."""
        self._left_out: list[Omitted] = []
        self._said: list[frozenset[str]] = []
        """The words of each line so far."""
        self._used = 0

    def leave(self, ref: str, kind: Any, why: Why, tokens: int = 0) -> None:
        self._left_out.append(Omitted(ref=ref, kind=kind, why=why, tokens=tokens))

    def add_core(self, fact: Fact) -> None:
        """Add a core block: all of it, or the lines that fit."""
        item = _core_item(fact)
        lines = item.text.split("\n")
        while lines and not self._add(msgspec.structs.replace(item, text="\n".join(lines))):
            lines.pop()
        if "\n".join(lines) != item.text:
            self.leave(item.ref, "core", "budget")
        self._said += [_words(line) for line in lines if line.strip()]

    def add(self, item: ContextItem) -> bool:
        """Add an item, unless there is no room for it."""
        if self._add(item):
            self._said.append(_words(item.text))
            return True
        self.leave(item.ref, item.kind, "budget")
        return False

    def add_matches(self, pages: Iterable[list[ContextItem]]) -> None:
        """Add matches until there are enough, at most a third of the budget from one origin if there are several."""
        taken = 0
        by_origin: Counter[str] = Counter()
        matches_of: Counter[str] = Counter()
        waiting: list[ContextItem] = []
        most = self._plan.limit
        shown = {item.ref for item in self._items}
        for page in pages:
            passed_over = 0
            for item in page:
                if item.ref in shown:
                    continue
                origin = _origin_of(item)
                if taken == most or not self._has_room:
                    self.leave(item.ref, item.kind, "limit" if taken == most else "budget")
                elif self._is_said(item):
                    self.leave(item.ref, item.kind, "duplicate")
                    passed_over += 1
                elif origin and self._is_too_much(item, matches_of[origin], by_origin[origin]):
                    waiting.append(item)
                    passed_over += 1
                elif self.add(item):
                    taken += 1
                    by_origin[origin] += self._items[-1].tokens
                    matches_of[origin] += 1
            # Others may be hidden behind what one origin says again and again.
            if taken == most or not self._has_room or passed_over < len(page) // 2:
                break
        only_one = len(by_origin) == 1
        for item in waiting:
            if not only_one:
                self.leave(item.ref, item.kind, "origin")
            elif taken == most:
                self.leave(item.ref, item.kind, "limit")
            else:
                taken += self.add(item)

    def _is_too_much(self, item: ContextItem, matches: int, tokens: int) -> bool:
        """Return whether an origin has a third of the matches or of the budget already."""
        budget = self._plan.budget
        if budget is None:
            return False
        return matches >= max(1, self._plan.limit // 3) or tokens + self._cost(render_item(item)) > budget // 3

    @property
    def _has_room(self) -> bool:
        return self._plan.budget is None or self._used + _FRAME + _SMALLEST <= self._plan.budget

    def context(self) -> Context:
        items, budget = self._items, self._plan.budget
        text = render_items(items, self._texts)
        tokens = self._used + _FRAME if items else 0
        if budget is not None and self._count is not estimate_tokens:
            # Tokens of the parts need not add up to those of the whole.
            tokens = self._count(text) if items else 0
            while tokens > budget:
                dropped = items.pop()
                self._texts.pop()
                self.leave(dropped.ref, dropped.kind, "budget", dropped.tokens)
                text = render_items(items, self._texts)
                tokens = self._count(text) if items else 0
        return Context(text=text, items=tuple(items), left_out=tuple(self._left_out), tokens=tokens, budget=budget)

    def _add(self, item: ContextItem) -> bool:
        text = render_item(item)
        cost = self._cost(text)
        if self._plan.budget is not None and self._used + cost + _FRAME > self._plan.budget:
            return False
        self._used += cost
        self._items.append(msgspec.structs.replace(item, tokens=cost))
        self._texts.append(text)
        return True

    def _cost(self, text: str) -> int:
        """Return the tokens of an item for the prompt; nothing is counted where there is no budget."""
        return 0 if self._plan.budget is None else self._count(text) + 1

    def _is_said(self, item: ContextItem) -> bool:
        """Return whether an item so far says the same: the same words, or nearly all of them."""
        words = _words(item.text)
        for said in self._said:
            common = len(words & said)  # the size of the union follows from it, which is quicker than making one
            if words == said or common > _ALIKE * (len(words) + len(said) - common):
                return True
        return False


_FRAME = 40
"""Tokens for the tags around the items, and the blank lines between."""
_SMALLEST = 20
"""Tokens of the shortest match, with its tags."""


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORDS.findall(text.casefold()))


def _origin_of(item: ContextItem) -> str:
    """Return the source of a match, or its conversation; empty for what was written without one."""
    return item.origin.source or (item.source if item.kind == "message" else "")


def _fact_ref(scope: Scope, key: str) -> str:
    return str(Ref("fact", scope, key))


def _core_item(fact: Fact) -> ContextItem:
    return ContextItem(
        kind="core",
        ref=_fact_ref(fact.scope, fact.key),
        text=fact.value,
        scope=fact.scope,
        source="core",
        updated_at=fact.updated_at,
        origin=fact.origin,
    )


def _record_item(fact: Fact, definition: Definition) -> ContextItem:
    return ContextItem(
        kind="record",
        ref=_fact_ref(fact.scope, fact.key),
        text="\n".join(record_lines(definition.schema, fact.value)),
        scope=fact.scope,
        source=definition.slug,
        updated_at=fact.updated_at,
        origin=fact.origin,
    )


def _line_item(match: BlockMatch, lines: RecallBlocks) -> ContextItem:
    scope = lines.archives[-1 if match.scope == "agent" else 0]
    return ContextItem(
        kind="line",
        ref=str(Ref("line", scope, f"archival:{line_digest(match.content)}")),
        text=match.content,
        scope=scope,
        source="archival",
        score=match.score,
        updated_at=match.updated_at,
    )


def _match_item(match: Match) -> ContextItem:
    content = match.content if isinstance(match.content, str) else plain_text(match.content)
    return ContextItem(
        kind=match.kind,
        ref=match.ref,
        text=content,
        scope=match.scope,
        source=_source_of(match),
        score=match.score,
        updated_at=match.updated_at,
        valid_from=match.valid_from,
        valid_to=match.valid_to,
        origin=match.origin,
    )


def _source_of(match: Match) -> str:
    if match.kind == "message":
        return f"conversation {match.metadata.get('thread', '')}".strip()
    if match.kind == "line":
        return str(match.metadata.get("block", "block"))
    return match.collection or match.key or match.kind


# as text


def render_items(items: Sequence[ContextItem], texts: Sequence[str] | None = None) -> str:
    """Return items as text for a prompt: core blocks, records, then what else is remembered."""
    parts: dict[str, list[str]] = {"user_memory": [], "records": [], "memories": []}
    for item, text in zip(items, texts or [render_item(item) for item in items], strict=True):
        whole = "memories" if item.score is not None else "user_memory" if item.kind == "core" else "records"
        parts[whole].append(text)
    return "\n\n".join(wrap(name, texts) for name, texts in parts.items() if texts)


def render_item(item: ContextItem) -> str:
    """Return one item between tags, with where it comes from, how old it is, and until when it was true."""
    owner, agent = _owner_of(item.scope)
    if item.kind == "core":
        return tag("core", item.text, scope=owner, agent=agent)
    if item.kind == "record" and item.score is None:
        return tag("record", item.text, name=item.source, updated=item.updated_at.isoformat())
    source = None if item.kind == "line" else item.source
    since = item.valid_from if item.valid_from != item.updated_at else None
    return tag(
        "memory",
        item.text,
        scope=owner,
        agent=agent,
        source=source,
        updated=item.updated_at.isoformat(),
        since=None if since is None else since.date().isoformat(),
        until=None if item.valid_to is None else item.valid_to.date().isoformat(),
    )


def _owner_of(scope: Scope) -> tuple[str, str | None]:
    """Return `user` and the agent for the scopes of a user, which is who the prompt is about; else the scope."""
    if scope.shape in (("user",), ("user", "agent")):
        return owner_of(scope)
    ids = dict(scope.parts)
    return ("user", ids.get("agent")) if "user" in ids else (str(scope), None)


# records as text

_BREAKS = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_JOINTS = re.compile(r"[_\-\s]+")
_WHOLE = 2**31
"""More characters than any stored value has: values are not shortened."""


def record_lines(schema: dict[str, Any], value: Any) -> Iterator[str]:
    """Yield a line for each field: those of the schema in its order, then the others."""
    if not isinstance(value, dict):
        return
    fields = cast("dict[str, Any]", value)
    properties = _properties(schema)
    listed = [name for name in properties if name in fields]
    for name in (*listed, *(name for name in fields if name not in properties)):
        yield f"- {_label(name, properties.get(name), schema)}: {_field_text(fields[name])}"


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in parts_of(schema, schema):
        for name, below in cast("dict[str, Any]", part.get("properties", {})).items():
            found.setdefault(name, below)
    return found


def _label(name: str, schema: Any, root: dict[str, Any]) -> str:
    """Return the label of a field: its title, or its name in words."""
    for part in parts_of(schema, root):
        title = part.get("title")
        if isinstance(title, str) and title.strip():
            return one_line(title.strip())
    return in_words(name)


def in_words(name: str) -> str:
    """Return the name of a field or a block in words."""
    spaced = _JOINTS.sub(" ", name).strip() or name
    return one_line(spaced[:1].upper() + spaced[1:])


def _field_text(value: Any) -> str:
    return "null" if value is None else one_line(to_text(value, most=_WHOLE))


def one_line(text: str) -> str:
    """Return a text without line breaks and invisible characters."""
    return escape_hidden(_BREAKS.sub(" ", text))
