"""Compile the actions of a step: SET, CLEAR, TRANSFORM, RESPOND, CHECK and CALL."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cmp_to_key
from typing import Any, Protocol, cast

from memoranda.abl.document import PREFIXES, Assignment, Branch, Call, Check, Clear, Log, Respond, Set, Transform
from memoranda.abl.expression.semantics import number, number_in
from memoranda.abl.runtime.active_turn import ActiveTurn, StepError, field_at
from memoranda.abl.runtime.constraints import CallArguments, check_rules
from memoranda.abl.runtime.memory import recall
from memoranda.abl.runtime.plan import AGAIN, Block, BranchPlan, Do, Put, Signal, choose
from memoranda.abl.runtime.state import CallRecord
from memoranda.abl.tools.outcome import FailureKind, Outcome, ToolFailure
from memoranda.abl.variables import READ_ONLY, Declarations, Persistent, fits
from memoranda.errors import MemorandaError
from memoranda.lang.document import Raw
from memoranda.lang.expression.compiler import Expression, Layer
from memoranda.lang.expression.nodes import paths_read
from memoranda.lang.template import CompiledTemplate
from memoranda.model.text import quote
from memoranda.runs.outcome import details_of
from memoranda.runs.provenance import OWN, Provenance, provenance_of_matches


class ActionCompiler(Protocol):
    """The part of the compiler that actions use."""

    @property
    def declarations(self) -> Declarations:
        """The declared variables."""
        ...

    def expression(self, raw: Raw) -> Expression:
        """Compile an expression or condition."""
        ...

    def guard(self, raw: Raw) -> Expression:
        """Compile a condition, and record the variables that it reads."""
        ...

    def template(self, raw: Raw) -> CompiledTemplate:
        """Compile a template."""
        ...

    def agent_template(self, raw: Raw) -> CompiledTemplate | None:
        """Compile one of the agent's templates by its name."""
        ...

    def branches(self, branches: Iterable[Branch]) -> tuple[BranchPlan, ...]:
        """Compile branches, of which the first whose condition is true is taken."""
        ...

    def inside(self, item: str) -> ActionCompiler:
        """Return a compiler for expressions in which a name is one item of an array."""
        ...


def compile_target(to: ActionCompiler, path: str) -> Put:
    """Return a function that sets a path: a fact if one is declared or granted, else a session variable."""
    found = to.declarations.find(path) if path.partition(".")[0] not in to.declarations.session else None
    if found is not None:
        return lambda turn, value, provenance: _write_fact(turn, *found, value, provenance)
    name, *rest = path.split(".")
    below = tuple(rest)
    if name in READ_ONLY or name.startswith("_"):
        message = f"{quote(name)} belongs to the runtime and cannot be set"

        def refuse(turn: ActiveTurn, value: Any, provenance: Provenance) -> None:
            turn.note("refused", name, why=message)

        return refuse
    if name not in PREFIXES or not below:
        return lambda turn, value, provenance: turn.assign(name, value, below, provenance)

    def put(turn: ActiveTurn, value: Any, provenance: Provenance) -> None:
        granted = turn.frame.facts.find_grant(path)
        if granted is not None:
            _write_fact(turn, *granted, value, provenance)
        else:
            turn.assign(name, value, below, provenance)

    return put


def _write_fact(
    turn: ActiveTurn, variable: Persistent, below: tuple[str, ...], value: Any, provenance: Provenance
) -> None:
    turn.frame.facts.write(turn, variable, below, value, provenance)


def compile_set(to: ActionCompiler, node: Set) -> Do:
    """Compile SET: assignments that run from top to bottom."""
    parts = [_assignment(to, assignment) for assignment in node.assignments]

    def run(turn: ActiveTurn) -> Signal:
        for name, value, put, is_fact in parts:
            result, provenance = turn.derive(value)
            put(turn, result, provenance)
            if not is_fact and turn.frame.facts.find_grant(name) is None:
                # For a fact, the trace says whether it was remembered or refused.
                turn.note("set", name, to=result)
        return None

    return run


def _assignment(to: ActionCompiler, node: Assignment) -> tuple[str, Any, Put, bool]:
    path = node.target.text
    is_fact = path.partition(".")[0] not in to.declarations.session and to.declarations.find(path) is not None
    return path, to.expression(node.value), compile_target(to, path), is_fact


def compile_clear(to: ActionCompiler, node: Clear) -> Do:
    """Compile CLEAR, which makes names undefined."""
    parts: list[tuple[str, tuple[Persistent, tuple[str, ...]] | None]] = []
    for raw in node.names:
        head = raw.text.partition(".")[0]
        parts.append((raw.text, to.declarations.find(raw.text) if head not in to.declarations.session else None))

    def run(turn: ActiveTurn) -> Signal:
        for path, found in parts:
            name, *rest = path.split(".")
            fact = found or (turn.frame.facts.find_grant(path) if name in PREFIXES else None)
            if fact is not None:
                turn.frame.facts.clear(turn, *fact)
            turn.clear(name, tuple(rest))
        turn.note("cleared", ", ".join(path for path, _ in parts))
        return None

    return run


def compile_respond(to: ActionCompiler, node: Respond, *, prompts: bool = False) -> Do:
    """Compile RESPOND; one that `prompts` comes before a question of its step."""
    template = to.agent_template(node.text) if node.named else to.template(node.text)
    checkpoint = "prompt" if prompts else "reply"
    choices = [f"- {choice.label.text}" for choice in node.choices]

    def run(turn: ActiveTurn) -> Signal:
        signal = check_rules(turn, checkpoint)
        if signal is not None:
            return signal
        text = turn.render(template) if template is not None else ""
        turn.say("\n".join([*([text] if text else []), *choices]) if choices else text)
        return None

    return run


def compile_log(to: ActionCompiler, node: Log) -> Do:
    """Compile LOG, which adds a text or the values of variables to the trace."""
    template = to.template(node.text) if node.text is not None else None
    values = [(name.text, to.expression(name)) for name in node.names]

    def run(turn: ActiveTurn) -> Signal:
        detail = {name: turn.value(value) for name, value in values}
        turn.note("logged", turn.render(template) if template is not None else "", **turn.frame.redact(detail))
        return None

    return run


def compile_check(to: ActionCompiler, node: Check) -> Do:
    """Compile CHECK, which continues only if a condition is true."""
    condition, on_fail, text = to.guard(node.condition), to.branches(node.on_fail), node.condition.text

    def run(turn: ActiveTurn) -> Signal:
        holds = turn.test(condition)
        turn.note("checked", text, holds=holds)
        if holds:
            return None
        branch = choose(on_fail, turn)
        if branch is not None:
            return branch.block
        turn.note("blocked", text, why="the check failed and has no ON_FAIL")
        turn.wait("halted")
        return AGAIN

    return run


def compile_transform(to: ActionCompiler, node: Transform) -> Do:
    """Compile TRANSFORM, which makes a new array from another: filter, map, sort, limit."""
    item, into = node.item.text, node.into.text
    inner = to.inside(item)
    source, put = to.expression(node.source), compile_target(to, into)
    keep = inner.expression(node.filter) if node.filter else None
    fields = [(argument.name.text, inner.expression(argument.value)) for argument in node.map]
    order, descending = node.sort_by.text if node.sort_by else None, node.descending
    limit = to.expression(node.limit) if node.limit else None

    def run(turn: ActiveTurn) -> Signal:
        turn.frame.facts.session.reads.clear()
        given = turn.value(source)
        if type(given) is not list:
            if given is not None:
                turn.note("warning", f"`{node.source.text}` is not an array, so the result is empty")
            given = []
        most = _limit(turn.value(limit)) if limit else None
        names = turn.frame.names
        kept: list[tuple[Any, Any]] = []
        for one in cast("list[Any]", given):
            layer = Layer({item: one}, names)
            if keep is not None and not turn.test(keep, layer):
                continue
            kept.append((one, {name: turn.value(value, layer) for name, value in fields} if fields else one))
        if order is not None:
            kept = _sort(kept, order, item, descending=descending)
        result = [made for _, made in (kept if most is None else kept[:most])]
        put(turn, result, turn.provenance_of(source, keep, limit, *(value for _, value in fields)))
        turn.note("transformed", node.source.text, into=into, items=len(result), of=len(cast("list[Any]", given)))
        return None

    return run


def _limit(value: Any) -> int | None:
    if value is None:
        return None
    most = None if type(value) is bool else number(value)
    if most is not None and most >= 0:
        return int(most)
    raise StepError("validation_error", f"LIMIT cannot be {quote(value)}")


def _sort(kept: list[tuple[Any, Any]], order: str, item: str, *, descending: bool) -> list[tuple[Any, Any]]:
    """Sort by a field of the new items, or of the source items if the path begins with the item's name; null last.

    Items without fields are sorted by their own value.
    """
    path = tuple(order.split("."))
    of_source = path[0] == item and len(path) > 1
    place, path = (0, path[1:]) if of_source else (1, path)

    def field(pair: tuple[Any, Any]) -> Any:
        value = pair[place]
        return value if path == (item,) and type(value) is not dict else field_at(value, path)

    def compare(left: tuple[Any, Any], right: tuple[Any, Any]) -> int:
        one, two = field(left), field(right)
        if one is None or two is None:
            return (one is None) - (two is None)
        first, second = _sort_key(one), _sort_key(two)
        result = (first > second) - (first < second)
        return -result if descending else result

    return sorted(kept, key=cmp_to_key(compare))


def _sort_key(value: Any) -> tuple[int, Any]:
    if type(value) is bool:
        return 0, value
    if type(value) in (int, float):
        return 1, value
    if type(value) is str:
        # As with `<`, a price of "9.50" comes before one of "12.00".
        counted = number_in(value)
        return (2, value) if counted is None else (1, counted)
    return 3, len(value) if type(value) in (list, dict) else 0


# --- CALL ------------------------------------------------------------------------------------------------------------

MEMORY_TOOLS = ("memory.recall", "memory.remember")
"""Tools that every agent has: recall and remember entries."""


def compile_call(to: ActionCompiler, node: Call) -> Do:
    """Compile CALL, which calls a tool, binds its result, and branches by its outcome."""
    tool = node.tool.text
    positional = [to.expression(argument) for argument in node.positional]
    named = [(argument.name.text, to.expression(argument.value)) for argument in node.named]
    result = compile_target(to, node.result.text) if node.result else None
    on_success, on_fail = to.branches(node.on_success), to.branches(node.on_fail)
    on_result = to.branches(node.on_result)
    paths = [path for one in (*positional, *(value for _, value in named)) for path, _ in paths_read(one.node)]

    def run(turn: ActiveTurn) -> Signal:
        # Before the arguments are evaluated: a search may use what is recalled for it.
        recall_for_search(turn, tool)
        turn.frame.facts.session.reads.clear()
        arguments = [turn.value(argument) for argument in positional]
        options = {name: turn.value(argument) for name, argument in named}
        given = turn.provenance_of(*positional, *(argument for _, argument in named))
        if turn.frame.plan.rules:
            by_name = {**dict(zip(turn.frame.member.toolbox.parameters(tool), arguments, strict=False)), **options}
            signal = check_rules(turn, "call", CallArguments(tool, by_name, paths))
            if signal is not None:
                return signal
        outcome, provenance = call_tool(turn, tool, arguments, options, given)
        if outcome.failure is not None:
            branch = choose(on_fail, turn)
            if branch is None:
                raise StepError(outcome.failure.kind, outcome.failure.message, subtype=outcome.failure.subtype)
            return branch.block
        if result is not None:
            result(turn, outcome.value, provenance)
        return _result_blocks(turn, on_success, on_result)

    return run


def _result_blocks(turn: ActiveTurn, *outcomes: Any) -> tuple[Block, ...] | None:
    blocks = tuple(branch.block for branch in (choose(branches, turn) for branches in outcomes) if branch is not None)
    return blocks or None


def recall_for_search(turn: ActiveTurn, tool: str) -> None:
    """Run the `search:before` recalls if a tool is a search, by its name."""
    if "search:before" in turn.frame.plan.recalls and any(word in tool.casefold() for word in turn.behaviour.searches):
        recall(turn, "search:before")


def call_tool(
    turn: ActiveTurn, tool: str, positional: list[Any], named: dict[str, Any], given: Provenance
) -> tuple[Outcome, Provenance]:
    """Call a tool for the active agent, record the call, and bind its result; return where that comes from, too.

    `given` is where the arguments come from: what a tool makes of them is trusted no more, unless it is declared so.
    """
    outcome, provenance = _invoke(turn, tool, positional, named, given)
    names = turn.frame.names
    failure = outcome.failure
    if failure is not None:
        names["tool_failures"] = (names.get("tool_failures") or 0) + 1
        turn.record_call(CallRecord(tool, failure=[failure.kind, failure.message, failure.subtype]))
        turn.note("called", tool, failed=failure.message, details=failure.details or None)
        return outcome, provenance
    turn.record_call(CallRecord(tool, outcome.value))
    turn.given_results = True
    turn.note("called", tool, gave=outcome.value)
    bind_result(turn, tool, outcome.value, provenance)
    recall(turn, f"tool:{tool}:after", "tool:*:after")
    return outcome, provenance


def _invoke(
    turn: ActiveTurn, tool: str, positional: list[Any], named: dict[str, Any], given: Provenance
) -> tuple[Outcome, Provenance]:
    box = turn.frame.member.toolbox
    is_known = box.knows(tool)
    provenance = OWN if box.is_trusted(tool) else given | Provenance(box.kind(tool))
    if turn.replay is not None:
        return _from_record(turn), provenance
    if tool in MEMORY_TOOLS and not is_known:
        return _memory_tool(turn, tool, positional, named, given)
    return box.call(tool, positional, named), provenance


def _from_record(turn: ActiveTurn) -> Outcome:
    """Return the recorded result of the call."""
    assert turn.replay is not None
    place = len(turn.record.calls)
    if place >= len(turn.replay.calls):
        return Outcome(failure=ToolFailure("tool_error", "the record of the turn has no such call"))
    record = turn.replay.calls[place]
    if record.failure is None:
        return Outcome(record.value)
    kind, message, subtype = record.failure
    return Outcome(failure=ToolFailure(cast("FailureKind", kind), message, subtype))


def bind_result(turn: ActiveTurn, tool: str, value: Any, provenance: Provenance) -> None:
    """Bind a result to its names, and its fields to their own names where those are free.

    A field with the name of a declared session variable is assigned to it.
    """
    frame = turn.frame
    spreads = turn.behaviour.results_become_variables
    frame.reveal(value)
    frame.put_result(tool, value, spreads=spreads, provenance=provenance)
    frame.results_changed = True
    if not spreads or type(value) is not dict:
        return
    declared = frame.plan.declarations.session
    for name, item in cast("dict[str, Any]", value).items():
        if name in declared and fits(item, declared[name].type):
            turn.assign(name, item, provenance=provenance)


def _memory_tool(
    turn: ActiveTurn, tool: str, positional: list[Any], named: dict[str, Any], provenance: Provenance
) -> tuple[Outcome, Provenance]:
    """Recall or remember entries in a collection of the user; without a user, of the project."""
    order = ("query", "collection", "limit") if tool == "memory.recall" else ("content", "collection")
    given = {**dict(zip(order, positional, strict=False)), **named}
    place = turn.frame.facts.session.entries(provenance.kind)
    try:
        if tool == "memory.remember":
            kept = place.remember(given.get("content"), collection=given.get("collection") or "notes")
            return Outcome({"id": kept.id, "stored": kept.stored}), OWN
        found = place.recall(
            str(given.get("query") or ""), collection=given.get("collection") or "notes", limit=given.get("limit") or 5
        )
    except MemorandaError as error:
        return Outcome(failure=ToolFailure("tool_error", error.message, error.code, details_of(error))), provenance
    results = [{"content": one.content, "score": one.score, "metadata": one.metadata} for one in found.results]
    return Outcome({"results": results, "count": len(results)}), provenance | provenance_of_matches(found.results)
