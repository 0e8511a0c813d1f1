"""CALL: a node of the document in; a compiled action that calls a tool and binds its result, out."""

from __future__ import annotations

from typing import Any, cast

from memoranda.abl.document import Call
from memoranda.abl.runtime.actions import compile_target
from memoranda.abl.runtime.compiling import Compiling
from memoranda.abl.runtime.plan import Block, Do, Signal, choose
from memoranda.abl.runtime.recalling import recall
from memoranda.abl.runtime.rules import break_off, broken_rule
from memoranda.abl.runtime.state import CallRecord
from memoranda.abl.runtime.work import Fault, Work
from memoranda.abl.tools.outcome import Failure, FailureKind, Outcome
from memoranda.abl.variables import fits
from memoranda.errors import MemorandaError
from memoranda.runs.failures import details_of

MEMORY_TOOLS = ("memory.recall", "memory.remember")
"""Tools that every agent has: what other doors remembered by meaning, and a way to add to it."""


def compile_call(to: Compiling, node: Call) -> Do:
    """Return an action that calls a tool, binds what it gives, and goes where its outcome says."""
    tool = node.tool.text
    positional = [to.expression(argument) for argument in node.positional]
    named = [(argument.name.text, to.expression(argument.value)) for argument in node.named]
    result = compile_target(to, node.result.text) if node.result else None
    on_success, on_fail = to.branches(node.on_success), to.branches(node.on_fail)
    on_result = to.branches(node.on_result)
    checkpoint = f"calling {tool}"

    def run(work: Work) -> Signal:
        rule = broken_rule(work, checkpoint)
        signal = break_off(work, rule) if rule is not None else None
        if signal is not None:
            return signal
        # What is recalled for a search may be what it searches with.
        recall_for_search(work, tool)
        arguments = [work.value(argument) for argument in positional]
        options = {name: work.value(argument) for name, argument in named}
        outcome = call_tool(work, tool, arguments, options)
        if outcome.failure is not None:
            branch = choose(on_fail, work)
            if branch is None:
                raise Fault(outcome.failure.kind, outcome.failure.message, subtype=outcome.failure.subtype)
            return branch.block
        if result is not None:
            result(work, outcome.value)
        return _chosen(work, on_success, on_result)

    return run


def _chosen(work: Work, *outcomes: Any) -> tuple[Block, ...] | None:
    blocks = tuple(branch.block for branch in (choose(branches, work) for branches in outcomes) if branch is not None)
    return blocks or None


def recall_for_search(work: Work, tool: str) -> None:
    """Recall what is wanted before a search, if the tool is one."""
    if any(word in tool.casefold() for word in work.behaviour.searches):
        recall(work, "search:before")


def call_tool(work: Work, tool: str, positional: list[Any], named: dict[str, Any]) -> Outcome:
    """Call a tool for the active agent: the call, its record, its result among the names."""
    outcome = _invoke(work, tool, positional, named)
    names = work.frame.names
    failure = outcome.failure
    if failure is not None:
        names["tool_failures"] = (names.get("tool_failures") or 0) + 1
        work.called(CallRecord(tool, failure=[failure.kind, failure.message, failure.subtype]))
        work.note("called", tool, failed=failure.message, details=failure.details or None)
        return outcome
    work.called(CallRecord(tool, outcome.value))
    work.given_results = True
    work.note("called", tool, gave=outcome.value)
    bind(work, tool, outcome.value)
    recall(work, f"tool:{tool}:after", "tool:*:after")
    return outcome


def _invoke(work: Work, tool: str, positional: list[Any], named: dict[str, Any]) -> Outcome:
    if work.replay is not None:
        return _from_record(work)
    box = work.frame.member.toolbox
    if tool in MEMORY_TOOLS and not box.knows(tool):
        return _memory_tool(work, tool, positional, named)
    return box.call(tool, positional, named)


def _from_record(work: Work) -> Outcome:
    """Return what the tool gave when the turn first happened."""
    assert work.replay is not None
    place = len(work.record.calls)
    if place >= len(work.replay.calls):
        return Outcome(failure=Failure("tool_error", "the record of the turn has no such call"))
    record = work.replay.calls[place]
    if record.failure is None:
        return Outcome(record.value)
    kind, message, subtype = record.failure
    return Outcome(failure=Failure(cast("FailureKind", kind), message, subtype))


def bind(work: Work, tool: str, value: Any) -> None:
    """Put a result under the names by which it is read; its fields too, where nothing else has their names.

    A field that a session variable is declared for is assigned to it; the others only stand beside the result.
    """
    frame = work.frame
    spreads = work.behaviour.results_become_variables
    frame.reveal(value)
    frame.put_result(tool, value, spreads=spreads)
    frame.results_changed = True
    if not spreads or type(value) is not dict:
        return
    declared = frame.plan.declarations.session
    for name, item in cast("dict[str, Any]", value).items():
        if name in declared and fits(item, declared[name].type):
            work.assign(name, item)


def _memory_tool(work: Work, tool: str, positional: list[Any], named: dict[str, Any]) -> Outcome:
    """Recall from a collection of the user, or remember in it; without a user, of the project."""
    order = ("query", "collection", "limit") if tool == "memory.recall" else ("content", "collection")
    given = {**dict(zip(order, positional, strict=False)), **named}
    place = work.frame.facts.session.entries
    try:
        if tool == "memory.remember":
            kept = place.remember(given.get("content"), collection=given.get("collection") or "notes")
            return Outcome({"id": kept.id, "stored": kept.stored})
        found = place.recall(
            str(given.get("query") or ""), collection=given.get("collection") or "notes", limit=given.get("limit") or 5
        )
    except MemorandaError as error:
        return Outcome(failure=Failure("tool_error", error.message, error.code, details_of(error)))
    results = [{"content": one.content, "score": one.score, "metadata": one.metadata} for one in found.results]
    return Outcome({"results": results, "count": len(results)})
