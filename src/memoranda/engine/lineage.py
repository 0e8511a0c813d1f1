"""Lineage: what was derived from what, as a graph whose nodes are versions of facts, entries, lines and messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, NamedTuple

from memoranda.engine.blocks import read_book
from memoranda.engine.derivation import fact_ref, find_source, source_of
from memoranda.engine.entries import entry_of_key
from memoranda.engine.refs import Lines, Target, demand_of, find_target, unknown
from memoranda.engine.verbs import Call, Outcome, verb
from memoranda.model.block import BLOCK_TYPES, canonical_digest, canonical_line, has_blocks, key_of, lines_of
from memoranda.model.effect import Demand, ReadEffect
from memoranda.model.entry import STATEMENTS, Entry, Shelf
from memoranda.model.fact import Fact
from memoranda.model.lineage import Lineage, Relative
from memoranda.model.names import collection_key, is_block
from memoranda.model.ref import Ref, as_ref, line_digest
from memoranda.model.trust import Origin
from memoranda.store.base import EntryQuery, Link, Reader


class Node(NamedTuple):
    """A memory in the graph of derivations."""

    ref: str
    version: int = 0


# the graph


def descendants(
    rows: Reader, tenant: str, roots: Iterable[Node], *, every_version: bool = False, but_statements: bool = False
) -> dict[Node, set[str]]:
    """Return what was derived from these, directly or not, each with the refs of its own sources, nearest first.

    With `every_version` also what was derived from other versions of the facts among the roots; with `but_statements`
    without what was learned from messages.
    """
    waiting, found = list(roots), dict[Node, set[str]]()
    known, any_version = set(waiting), {node.ref for node in waiting} if every_version else set[str]()
    for node in waiting:  # which grows meanwhile
        for child in _children(rows, tenant, node, any_version=node.ref in any_version):
            if but_statements and child not in known and _is_statement(rows, tenant, child):
                continue
            found.setdefault(child, set()).add(node.ref)
            if child not in known:
                known.add(child)
                waiting.append(child)
    return {node: of for node, of in found.items() if node.ref not in any_version}


def ancestors(rows: Reader, tenant: str, node: Node) -> dict[Node, set[str]]:
    """Return what this was derived from, directly or not, each with the refs of what was derived from it."""
    waiting, found = [node], dict[Node, set[str]]()
    known = {node}
    for one in waiting:  # which grows meanwhile
        for parent in _parents(rows, tenant, one):
            found.setdefault(parent, set()).add(one.ref)
            if parent not in known:
                known.add(parent)
                waiting.append(parent)
    return found


def _children(rows: Reader, tenant: str, node: Node, *, any_version: bool) -> Iterator[Node]:
    for one in _links_from(rows, tenant, node, any_version=any_version):
        yield Node(one.child, one.version)
    if node.ref.startswith("entry:"):
        entry = newest_entry(rows, tenant, node.ref)
        for line in () if entry is None else _lines_of_statement(rows, entry):
            yield Node(line)


def _links_from(rows: Reader, tenant: str, node: Node, *, any_version: bool) -> Iterator[Link]:
    is_line = node.ref.startswith("line:")
    for one in rows.links(tenant, parent=node.ref):
        if any_version or is_line or one.parent_version == node.version:
            yield one


def _parents(rows: Reader, tenant: str, node: Node) -> Iterator[Node]:
    for one in rows.links(tenant, child=node.ref):
        if one.version == node.version:
            yield Node(one.parent, 0 if one.parent.startswith("line:") else one.parent_version)
    if node.ref.startswith("line:"):
        statement = _statement_of(rows, as_ref(node.ref, tenant=tenant))
        if statement is not None:
            yield Node(statement)


def _is_statement(rows: Reader, tenant: str, node: Node) -> bool:
    entry = newest_entry(rows, tenant, node.ref) if node.ref.startswith("entry:") else None
    return entry is not None and entry.collection == STATEMENTS


def newest_entry(rows: Reader, tenant: str, ref: str) -> Entry | None:
    """Return the newest entry of a ref, live or ended."""
    return next(rows.entries(EntryQuery(tenant=tenant, id=ref.removeprefix("entry:"))), None)


def _lines_of_statement(rows: Reader, entry: Entry) -> Iterator[str]:
    """Yield the refs of the lines of blocks that say a statement."""
    if entry.collection != STATEMENTS or entry.key is None or not has_blocks(entry.scope):
        return
    book = read_book(rows, entry.scope)
    for block in BLOCK_TYPES if any(one.key == entry.key for one in book.values()) else ():
        fact = rows.fact(entry.scope, key_of(block))
        for _, line in () if fact is None else lines_of(fact.value):
            known = book.get(canonical_digest(line))
            if known is not None and known.key == entry.key and _says(line, entry):
                yield str(Ref("line", entry.scope, f"{block}:{line_digest(line)}"))


def _statement_of(rows: Reader, ref: Ref) -> str | None:
    """Return the ref of the statement that a learned line says."""
    if ref.scope is None or not has_blocks(ref.scope):
        return None
    block, _, digest = ref.name.partition(":")
    fact = rows.fact(ref.scope, f"blocks.{block}")
    line = next((line for _, line in lines_of(fact.value) if line_digest(line) == digest), None) if fact else None
    known = None if line is None else read_book(rows, ref.scope).get(canonical_digest(line))
    if line is None or known is None or not known.key:
        return None
    entry = entry_of_key(rows, Shelf(ref.scope, STATEMENTS, ""), known.key)
    return entry.ref if entry is not None and _says(line, entry) else None


def _says(line: str, entry: Entry) -> bool:
    return canonical_line(line) == canonical_line(str(entry.content))


def current_target(rows: Reader, tenant: str, node: Node, call: Call) -> Target | None:
    """Return what a node is now, if it is still what its ref names."""
    ref = as_ref(node.ref, tenant=tenant)
    if ref.kind == "message":
        return None
    if ref.kind == "fact" and ref.scope is not None and is_block(ref.scope, ref.name):
        fact = rows.fact(ref.scope, ref.name)
        return fact if fact is not None and fact.version == node.version else None
    target = find_source(rows, tenant, node.ref, call)
    return None if isinstance(target, Fact) and node.version not in (0, target.version) else target


def nodes_of(target: Target) -> list[Node]:
    """Return the nodes that a target is made of: a block also for its lines."""
    if isinstance(target, Entry):
        return [Node(target.ref)]
    if isinstance(target, Lines):
        return [Node(ref) for ref in target.refs]
    own = Node(fact_ref(target.scope, target.key), target.version)
    if not is_block(target.scope, target.key) or not isinstance(target.value, str):
        return [own]
    numbers = tuple(number for number, _ in lines_of(target.value))
    return [own, *(Node(ref) for ref in Lines(target, numbers).refs)]


# reading it


class ReadLineage(ReadEffect, frozen=True, kw_only=True, tag="read_lineage"):
    """Read what something was derived from, and what was derived from it."""

    in_one_scope: ClassVar[bool] = True
    ref: str


@verb(ReadLineage)
def read_lineage(rows: Reader, effect: ReadLineage, call: Call) -> Outcome[Lineage]:
    """Return the lineage of something that is current in a scope, as far as the caller may read it."""
    tenant = effect.scope.tenant
    target = find_target(rows, effect.scope, effect.ref, call.now)
    if target is None or not call.may(rows, demand_of(target, effect.capability)):
        raise unknown(effect.ref, effect.scope)
    ref = str(as_ref(effect.ref, tenant=tenant))
    own = source_of(ref, target)
    node = Node(ref, 0 if ref.startswith("line:") else own.version)
    origin = target.block.origin if isinstance(target, Lines) else target.origin
    sources = [_relative(rows, tenant, one, of, call) for one, of in ancestors(rows, tenant, node).items()]
    below = [_relative(rows, tenant, one, of, call) for one, of in descendants(rows, tenant, [node]).items()]
    shown, shown_below = [one for one in sources if one is not None], [one for one in below if one is not None]
    return Outcome(
        Lineage(
            ref=ref,
            trust=own.trust,
            origin=origin,
            sources=tuple(shown),
            descendants=tuple(shown_below),
            hidden=len(sources) + len(below) - len(shown) - len(shown_below),
        )
    )


def _relative(rows: Reader, tenant: str, node: Node, of: set[str], call: Call) -> Relative | None:
    """Return a relative; None if the caller may not read it."""
    ref = as_ref(node.ref, tenant=tenant)
    current = current_target(rows, tenant, node, call)
    origin: Origin | None = None
    demand: Demand = ("memory.read", ref.scope, ref.name)
    if ref.scope is None:
        entry = newest_entry(rows, tenant, node.ref)
        if entry is not None:
            origin, demand = entry.origin, ("memory.read", entry.scope, collection_key(entry.collection))
        else:
            demand = ("memory.read", None, None)
    elif ref.kind == "fact":
        revision = rows.revision(ref.scope, ref.name, version=node.version)
        origin = None if revision is None else revision.origin
    elif ref.kind == "line":
        demand = ("memory.read", ref.scope, f"blocks.{ref.name.partition(':')[0]}")
    if origin is None:
        found = find_source(rows, tenant, node.ref, call) if current is None else current
        origin = None if found is None else found.block.origin if isinstance(found, Lines) else found.origin
    if not call.may(rows, demand):
        return None
    return Relative(
        ref=node.ref,
        version=node.version,
        of=tuple(sorted(of)),
        trust=None if origin is None else origin.trust,
        origin=origin,
        current=current is not None or (ref.kind == "message" and origin is not None),
    )
