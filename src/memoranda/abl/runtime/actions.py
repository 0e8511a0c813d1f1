"""SET, CLEAR, TRANSFORM, RESPOND and CHECK: nodes of the document in, compiled actions out."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any, cast

from memoranda.abl.document import PREFIXES, Assignment, Check, Clear, Respond, Set, Transform
from memoranda.abl.expression.semantics import number, number_in
from memoranda.abl.runtime.compiling import Compiling
from memoranda.abl.runtime.plan import AGAIN, Do, Put, Signal, choose
from memoranda.abl.runtime.work import Fault, Work, value_below
from memoranda.abl.variables import READ_ONLY, Persistent
from memoranda.lang.expression.compiler import Layer
from memoranda.model.text import quote


def compile_target(to: Compiling, path: str) -> Put:
    """Return how to write a path: a fact where one is declared or granted, else a variable of the session."""
    found = to.declarations.find(path) if path.partition(".")[0] not in to.declarations.session else None
    if found is not None:
        return lambda work, value: _write_fact(work, *found, value)
    name, *rest = path.split(".")
    below = tuple(rest)
    if name in READ_ONLY or name.startswith("_"):
        message = f"{quote(name)} belongs to the runtime and cannot be set"

        def refuse(work: Work, value: Any) -> None:
            work.note("refused", name, why=message)

        return refuse
    if name not in PREFIXES or not below:
        return lambda work, value: work.assign(name, value, below)

    def put(work: Work, value: Any) -> None:
        granted = work.frame.facts.granted(path)
        if granted is not None:
            _write_fact(work, *granted, value)
        else:
            work.assign(name, value, below)

    return put


def _write_fact(work: Work, variable: Persistent, below: tuple[str, ...], value: Any) -> None:
    work.frame.facts.write(work, variable, below, value)


def compile_set(to: Compiling, node: Set) -> Do:
    """Return assignments that run from top to bottom."""
    parts = [_assignment(to, assignment) for assignment in node.assignments]

    def run(work: Work) -> Signal:
        for name, value, put, is_fact in parts:
            result = work.value(value)
            put(work, result)
            if not is_fact and work.frame.facts.granted(name) is None:
                # Of a fact the trace says whether it was remembered or refused.
                work.note("set", name, to=result)
        return None

    return run


def _assignment(to: Compiling, node: Assignment) -> tuple[str, Any, Put, bool]:
    path = node.target.text
    is_fact = path.partition(".")[0] not in to.declarations.session and to.declarations.find(path) is not None
    return path, to.expression(node.value), compile_target(to, path), is_fact


def compile_clear(to: Compiling, node: Clear) -> Do:
    """Return an action that makes names undefined."""
    parts: list[tuple[str, tuple[Persistent, tuple[str, ...]] | None]] = []
    for raw in node.names:
        head = raw.text.partition(".")[0]
        parts.append((raw.text, to.declarations.find(raw.text) if head not in to.declarations.session else None))

    def run(work: Work) -> Signal:
        for path, found in parts:
            name, *rest = path.split(".")
            fact = found or (work.frame.facts.granted(path) if name in PREFIXES else None)
            if fact is not None:
                work.frame.facts.clear(work, *fact)
            work.clear(name, tuple(rest))
        work.note("cleared", ", ".join(path for path, _ in parts))
        return None

    return run


def compile_respond(to: Compiling, node: Respond) -> Do:
    """Return an action that says something."""
    template = to.named_template(node.text) if node.named else to.template(node.text)

    def run(work: Work) -> Signal:
        if template is not None:
            work.say(work.render(template))
        return None

    return run


def compile_check(to: Compiling, node: Check) -> Do:
    """Return an action that goes on only if a condition holds."""
    condition, on_fail, text = to.guard(node.condition), to.branches(node.on_fail), node.condition.text

    def run(work: Work) -> Signal:
        holds = work.test(condition)
        work.note("checked", text, holds=holds)
        if holds:
            return None
        branch = choose(on_fail, work)
        if branch is not None:
            return branch.block
        work.note("blocked", text, why="the check failed, and nothing is said to follow")
        work.wait("halted")
        return AGAIN

    return run


def compile_transform(to: Compiling, node: Transform) -> Do:
    """Return a pipeline from one array into a new one: filter, map, sort, limit."""
    item, into = node.item.text, node.into.text
    inner = to.inside(item)
    source, put = to.expression(node.source), compile_target(to, into)
    keep = inner.expression(node.filter) if node.filter else None
    fields = [(argument.name.text, inner.expression(argument.value)) for argument in node.map]
    order, descending = node.sort_by.text if node.sort_by else None, node.descending
    limit = to.expression(node.limit) if node.limit else None

    def run(work: Work) -> Signal:
        given = work.value(source)
        if type(given) is not list:
            if given is not None:
                work.note("warning", f"`{node.source.text}` is no array, so nothing came of it")
            given = []
        most = _limit(work.value(limit)) if limit else None
        names = work.frame.names
        kept: list[tuple[Any, Any]] = []
        for one in cast("list[Any]", given):
            layer = Layer({item: one}, names)
            if keep is not None and not work.test(keep, layer):
                continue
            kept.append((one, {name: work.value(value, layer) for name, value in fields} if fields else one))
        if order is not None:
            kept = _sorted(kept, order, item, descending=descending)
        result = [made for _, made in (kept if most is None else kept[:most])]
        put(work, result)
        work.note("transformed", node.source.text, into=into, items=len(result), of=len(cast("list[Any]", given)))
        return None

    return run


def _limit(value: Any) -> int | None:
    if value is None:
        return None
    most = None if type(value) is bool else number(value)
    if most is not None and most >= 0:
        return int(most)
    raise Fault("validation_error", f"LIMIT cannot be {quote(value)}")


def _sorted(kept: list[tuple[Any, Any]], order: str, item: str, *, descending: bool) -> list[tuple[Any, Any]]:
    """Sort by a field of the new items, or of the source's where the path begins with the item's name; null last.

    Items that have no fields are sorted by themselves.
    """
    path = tuple(order.split("."))
    of_source = path[0] == item and len(path) > 1
    place, path = (0, path[1:]) if of_source else (1, path)

    def field(pair: tuple[Any, Any]) -> Any:
        value = pair[place]
        return value if path == (item,) and type(value) is not dict else value_below(value, path)

    def compare(left: tuple[Any, Any], right: tuple[Any, Any]) -> int:
        one, two = field(left), field(right)
        if one is None or two is None:
            return (one is None) - (two is None)
        first, second = _rank(one), _rank(two)
        result = (first > second) - (first < second)
        return -result if descending else result

    return sorted(kept, key=cmp_to_key(compare))


def _rank(value: Any) -> tuple[int, Any]:
    if type(value) is bool:
        return 0, value
    if type(value) in (int, float):
        return 1, value
    if type(value) is str:
        # As `<` does: a price of "9.50" comes before one of "12.00".
        counted = number_in(value)
        return (2, value) if counted is None else (1, counted)
    return 3, len(value) if type(value) in (list, dict) else 0
