"""What each kind of step does: ask a model, call a machine, remember, recall, and wait for an event."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, cast

import msgspec

from memoranda.agent import models
from memoranda.agent.conversation import CallTool, Conversation, ToolFailed
from memoranda.agent.models import Model, Said, ToolSpec
from memoranda.api.context import remembered_context, told_text
from memoranda.engine import entries
from memoranda.engine import recall as engine_recall
from memoranda.errors import Denied, Hint, MemorandaError, ModelFailed, NotFound, UsageError
from memoranda.lang.expression.dialect import ExpressionRun
from memoranda.mashin.contracts import Contract
from memoranda.mashin.document import Ask, AskMemory, Recall, Remember, WaitFor, flow_named, value_of
from memoranda.mashin.expression.operators import is_number, text_of
from memoranda.mashin.permissions import CALL, MODEL, READ, WRITE, Need
from memoranda.mashin.runtime.effects import (
    EffectResult,
    StepEffect,
    as_integer,
    call_denial,
    carry_out,
    fit_assumption,
    guard_call,
    note_call,
    values_of,
)
from memoranda.mashin.runtime.execution import Callee, Jumped, Resources, Visit, failure_of, step_failed
from memoranda.model.clock import not_a_duration, parse_duration
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.runs.outcome import CallResult, Paused, StepFailed, Waiting
from memoranda.runs.provenance import OWN, Provenance, provenance_of_context, provenance_of_matches

ROUNDS = 8
"""Maximum number of rounds of tool calls before a model has to answer."""
_WORDS = ("role", "task", "tools", "temperature", "max_tokens")


# asking a model


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question to a model, in the author's words: the answer it wants, and the tools it offers."""

    role: str
    """The system instruction; empty where the author gave none."""
    task: str
    contract: Contract | None = None
    """The fields of the answer; without them it is any text."""
    tools: tuple[ToolSpec, ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a model, with the tokens and requests of the whole conversation."""

    value: dict[str, Any]
    """The fields of the contract, or the one field `text`."""
    tokens_in: int
    tokens_out: int
    requests: int


def converse(
    model: Model,
    question: Question,
    *,
    timeout: float,
    attempt: Callable[[int], None],
    call_tool: CallTool | None = None,
    used: Callable[[int, int], None] | None = None,
    run: ExpressionRun | None = None,
) -> Answer:
    """Return a model's answer to a question, or raise what ended the conversation.

    A model that wants more rounds of tools than it may have is a ModelFailed whose `reason` is `silent`. Corrections,
    `timeout`, `attempt`, `call_tool` and `used` are as in `Conversation`; `run` gives the clock and the ids for
    defaults of the answer's fields.
    """
    contract = question.contract
    ask = models.Ask(
        question.role,
        (Said("user", question.task),),
        tools=question.tools,
        schema=None if contract is None else contract.schema,
        temperature=question.temperature,
        max_tokens=question.max_tokens,
        # A request that the client repeats on its own would not be governed.
        once=True,
    )
    fit = None if contract is None else partial(contract.answer, run=run)
    talk = Conversation(model, ask, timeout=timeout, fit=fit, call_tool=call_tool, attempt=attempt, used=used)
    rounds = 0
    while (heard := talk.hear()).calls:
        rounds += 1
        if rounds > ROUNDS:
            raise ModelFailed(
                f"the model {quote(model.name)} asked for tools {ROUNDS + 1} times and gave no answer",
                hint="Say in the task when it is done",
                reason="silent",
                retryable=True,
                model=model.name,
            )
        talk.call_tools(heard)
    return Answer(
        value={"text": heard.answer} if contract is None else heard.answer,
        tokens_in=talk.tokens_in,
        tokens_out=talk.tokens_out,
        requests=talk.requests,
    )


def ask(visit: Visit, step: Ask, told: str = "") -> Any:
    """Ask a model, which may be told what is remembered, or another machine."""
    return _ask_model(visit, step, told) if step.machine is None else _call_machine(visit, step, step.machine.text)


def _ask_model(visit: Visit, step: Ask, told: str) -> Any:
    words = {word: visit.value(raw) for word in _WORDS if (raw := getattr(step, word)) is not None}
    sends = {"role": text_of(words["role"]) if "role" in words else "", "task": text_of(words.get("task"))}
    if told:
        sends["memory"] = told
    names = _tool_names(words.get("tools"))
    temperature, max_tokens = words.get("temperature"), as_integer(words.get("max_tokens"))
    if temperature is not None and not (is_number(temperature) and temperature >= 0):
        raise UsageError(f"the temperature {quote(temperature)} is not a number from 0", hint="Such as 0.2")
    if max_tokens is not None and not (type(max_tokens) is int and max_tokens >= 1):
        raise UsageError(f"max_tokens {quote(max_tokens)} is not a whole number from 1", hint="Such as 1000")
    execution = visit.execution
    spending, contract = execution.spending, visit.contract
    named = None if step.using is None else step.using.text

    def count_request(number: int) -> None:
        # The first was counted when it was permitted.
        refusal = None if number == 1 else spending.spend("model_calls", visit.step)
        if refusal is not None:
            raise refusal

    def perform(resources: Resources, sent: dict[str, Any]) -> EffectResult:
        model = resources.model(named)
        _tell_model(visit, resources, OWN)
        question = Question(
            role="\n\n".join(filter(None, (sent["role"], sent.get("memory")))),
            task=sent["task"],
            contract=contract,
            tools=tuple(_tool(resources, name) for name in names),
            temperature=temperature,
            max_tokens=max_tokens,
        )
        answer = converse(
            model,
            question,
            timeout=execution.behaviour.model_seconds,
            attempt=count_request,
            used=lambda read, written: spending.add({"tokens": read + written}),
            # A run of its own: what it draws goes into the answer, which is stored as a whole.
            run=ExpressionRun(clock=execution.clock, ids=execution.ids),
            call_tool=(lambda name, arguments: _call_tool(visit, resources, name, arguments)) if names else None,
        )
        tokens = answer.tokens_in + answer.tokens_out
        about = {"model": model.name, "requests": answer.requests, "tokens": tokens}
        return EffectResult(answer.value, about, visit.provenance)

    return carry_out(
        visit,
        StepEffect(
            need=Need(MODEL),
            spends="model_calls",
            sends=sends,
            about={"effect": "ask"} if named is None else {"effect": "ask", "model": named},
            shows={"tools": names or None},
            perform=perform,
            in_tests=lambda _: _default_assumption(visit, step),
            returns=contract,
        ),
    )


def _tell_model(visit: Visit, resources: Resources, made_of: Provenance) -> None:
    """Note what a model is told of memory, here and in the ledger: its answer is made of it, too."""
    visit.provenance |= made_of
    resources.memory.record_prompt(resources.scope, visit.provenance.refs, to=f"run:{visit.execution.id}")


def read_memory(visit: Visit, step: AskMemory) -> Any:
    """Return what a model should be told of what is remembered, as text for its prompt."""
    query = "" if step.query is None else text_of(visit.value(step.query))

    def perform(resources: Resources, sent: dict[str, Any]) -> EffectResult:
        _require_no_other_approval(resources, engine_recall.RecallAll(scope=resources.scope, query=""))
        context = remembered_context(resources.memory, resources.scope, sent["query"], must=True)
        refs = [item.ref for item in context.items]
        about = {"ids": refs, "count": len(refs)}
        return EffectResult({"text": told_text(context), "count": len(refs)}, about, provenance_of_context(context))

    return carry_out(
        visit,
        StepEffect(
            need=Need(READ),
            spends=None,
            sends={"query": query},
            about={"effect": "context"},
            perform=perform,
            in_tests=lambda _: {"text": "", "count": 0},
        ),
    )


def _default_assumption(visit: Visit, step: Ask) -> Any:
    if not step.assuming:
        raise step_failed(
            "runtime",
            f"the step {quote(visit.step)} has nothing to give in a test",
            visit.step,
            hint=f"Add `assuming` to it, or `assuming {visit.step} {{ … }}` to the test",
        )
    return values_of(visit, step.assuming)


def _tool_names(value: Any) -> list[str]:
    if value is None:
        return []
    names = cast("list[Any]", value if isinstance(value, list) else [value])
    if not all(isinstance(name, str) for name in names):
        raise UsageError(f"the tools {quote(names)} are not names of machines", hint='Write them as `["lookup"]`')
    # Providers refuse a tool that is listed twice.
    return list(dict.fromkeys(names))


def _tool(resources: Resources, name: str) -> ToolSpec:
    plan = _machine(resources, name).plan
    return ToolSpec(name, plan.title or f"The machine {name}.", plan.accepts.schema)


def _call_tool(visit: Visit, resources: Resources, name: str, arguments: dict[str, Any]) -> Any:
    """Call a machine for the model, governed like any other call."""
    execution = visit.execution
    verdict = execution.permissions.verdict(Need(CALL, name))
    refusal = execution.spending.spend("machine_calls", visit.step)
    reason = "" if verdict.level == "allow" else verdict.reason
    reason = reason if refusal is None else refusal.failure.message
    call = {"machine": name, **({"reason": reason} if reason else {})}
    visit.calls.append(call)
    note_call(visit, call)
    if reason:
        raise refusal or call_denial(name, reason, visit.step)
    sent = guard_call(visit, call, arguments, "before")
    execution.recorder.flush()
    with execution.recorder.step(name, "call") as record:
        record.inputs = sent
        try:
            called = _machine(resources, name).run_for(sent, execution, visit.provenance)
            record.run = called.run
            _tell_model(visit, resources, called.provenance)
            output = _output(called, name, visit.step)
        except StepFailed as caught:
            record.fail(caught.failure)
            raise ToolFailed(f"{quote(name)} failed: {caught}") from caught
        except MemorandaError as error:
            record.fail(failure_of(error, name))
            raise ToolFailed(f"{quote(name)} failed: {error}") from error
        output = guard_call(visit, call, output, "after")
        record.output = output
    return output


# calling a machine


def _machine(resources: Resources, name: str) -> Callee:
    machine = resources.machines.get(name)
    if machine is None:
        known = ", ".join(sorted(resources.machines)) or "none"
        raise NotFound(f"unknown machine {quote(name)} here", hint=(Hint("load", "machines"), f"Call one of {known}"))
    return machine


def _call_machine(visit: Visit, step: Ask, machine: str) -> Any:
    """Call another machine, which has permissions of its own."""
    execution, contract = visit.execution, visit.contract
    about = {"effect": "call", "machine": machine, **({"purpose": step.to.text} if step.to else {})}

    def answer(called: CallResult) -> Any:
        output = _output(called, machine, visit.step)
        return output if contract is None else contract.answer(output)

    def perform(resources: Resources, sent: dict[str, Any]) -> EffectResult:
        waited = execution.waited
        if waited is not None and waited.run and (waited.step, waited.time) == (visit.step, visit.time):
            called = resources.resume(waited.run, execution)
        else:
            called = _machine(resources, machine).run_for(sent, execution, visit.provenance)
        if called.status == "waiting":
            raise Paused(Waiting(kind="run", step=visit.step, time=visit.time, run=called.run, about=dict(about)))
        return EffectResult(answer(called), {"run": called.run}, called.provenance)

    def in_tests(sent: dict[str, Any]) -> Any:
        resources = execution.resources
        if step.assuming or resources is None or machine not in resources.machines:
            return _default_assumption(visit, step)
        return answer(resources.machines[machine].run_for(sent, execution, visit.provenance))

    return carry_out(
        visit,
        StepEffect(
            need=Need(CALL, machine),
            spends="machine_calls",
            sends=values_of(visit, step.inputs),
            about=about,
            perform=perform,
            in_tests=in_tests,
            returns=contract,
        ),
    )


def _output(called: CallResult, machine: str, step: str) -> Any:
    if called.status == "completed":
        return called.output
    why = "it is waiting" if called.status == "waiting" else called.message
    raise step_failed("machine", f"the machine {quote(machine)} gave no output: {why}", step, run=called.run)


# memory


def remember(visit: Visit, step: Remember) -> Any:
    """Add content to a collection."""
    given = values_of(visit, step.config)
    collection, namespace = _name(given, "collection"), _namespace(given)
    ttl = given.get("ttl")
    if ttl is not None and not isinstance(ttl, str):
        raise not_a_duration(ttl)
    seconds = None if ttl is None else parse_duration(ttl)
    chunk = as_integer(given.get("chunk"))

    def perform(resources: Resources, sent: dict[str, Any]) -> EffectResult:
        _require_no_other_approval(
            resources,
            entries.Remember(
                scope=_place(resources, given), collection=collection, namespace=namespace or "", items=()
            ),
        )
        memory = resources.memory.passing_on(visit.provenance.kind)
        entry = memory.at(_place(resources, given)).remember(
            sent["content"],
            collection=collection,
            metadata=sent["metadata"],
            namespace=namespace or "",
            ttl=seconds,
            chunk=chunk,
            source=visit.execution.id,
        )
        remembered = value(entry.id or None, entry.expires_at, entry.parts)
        if entry.held is not None:
            return EffectResult({**remembered, "held": entry.held}, {"held": entry.held})
        return EffectResult(remembered, {"id": entry.id})

    def value(id: str | None, expires_at: datetime | None, parts: int) -> dict[str, Any]:
        return {
            "id": id,
            "collection": collection,
            "namespace": namespace,
            "stored": id is not None,
            "expires_at": msgspec.to_builtins(expires_at),
            # Only where it was asked for, so that other machines give what they always gave.
            **({} if chunk is None else {"parts": parts}),
        }

    return carry_out(
        visit,
        StepEffect(
            need=Need(WRITE),
            spends="writes",
            sends={"content": given["content"], "metadata": given.get("metadata")},
            about={"effect": "remember", "collection": collection, **_scope_named(given)},
            shows={"namespace": namespace, "ttl": ttl},
            perform=perform,
            in_tests=lambda _: value(None, None, 0),
        ),
    )


def recall(visit: Visit, step: Recall) -> Any:
    """Search a collection by meaning."""
    given = values_of(visit, step.config)
    behaviour = visit.execution.behaviour
    collection, namespace = _name(given, "collection"), _namespace(given)
    if namespace is None and behaviour.without_namespace == "unnamed":
        namespace = ""
    query = given["query"]
    if not isinstance(query, str) or not query.strip():
        raise UsageError(f"the query {quote(query)} is not a text with words", hint="Pass text", value=query)
    limit, threshold = as_integer(given.get("limit", 5)), given.get("threshold", 0.0)
    filter = _filter(given["filter"]) if "filter" in given else None

    def perform(resources: Resources, sent: dict[str, Any]) -> EffectResult:
        _require_no_other_approval(
            resources, engine_recall.Recall(scope=_place(resources, given), collection=collection, query="")
        )
        found = resources.memory.at(_place(resources, given)).recall(
            sent["query"],
            collection=collection,
            namespace=namespace,
            limit=limit,
            threshold=threshold,
            filter=filter,
            mode=behaviour.recall,
        )
        # A program reads them by their scores; recall ranks by more than that.
        best = sorted(found.results, key=lambda one: -one.score)
        results = [{"content": one.content, "metadata": one.metadata, "score": one.score} for one in best]
        made_of = provenance_of_matches(best)
        return EffectResult({"results": results, "count": found.count}, {"ids": [one.id for one in best]}, made_of)

    value = carry_out(
        visit,
        StepEffect(
            need=Need(READ),
            spends=None,
            sends={"query": query},
            about={"effect": "recall", "collection": collection, **_scope_named(given)},
            shows={"namespace": namespace or None, "filter": given.get("filter"), "limit": limit},
            perform=perform,
            in_tests=lambda _: {"results": [], "count": 0},
        ),
    )
    found = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    results: Any = found.get("results")
    if isinstance(results, list):
        # A test may assume, and a guard may leave, another number of results.
        visit.about["count"] = len(cast("list[Any]", results))
        return {**found, "count": visit.about["count"]}
    return cast("Any", value)


def _scope_named(given: dict[str, Any]) -> dict[str, Any]:
    return {"scope": given["scope"]} if "scope" in given else {}


def _place(resources: Resources, given: dict[str, Any]) -> Scope:
    """Return the scope that a step names, by default that of the run."""
    return Scope.named(given["scope"], tenant=resources.scope.tenant) if "scope" in given else resources.scope


def _require_no_other_approval(
    resources: Resources, wanted: entries.Remember | engine_recall.Recall | engine_recall.RecallAll
) -> None:
    """Refuse what another policy holds for approval: it would happen after this run has ended."""
    if resources.memory.level(wanted) == "approve":
        raise Denied(
            f"{wanted.capability} needs approval for `{resources.memory.actor}`, whatever the machine allows",
            hint=f"Allow it, and write `requires approval for {wanted.capability}` in the machine: then the run waits",
            capability=wanted.capability,
        )


def _filter(given: Any) -> dict[str, Any]:
    """Return a filter that compares each value literally: data from outside must not become an operator."""
    if not isinstance(given, dict):
        raise UsageError(f"the filter {quote(given)} is not a map", hint="Write it as `{ name: value }`", value=given)
    names = cast("dict[str, Any]", given)
    for name in names:
        if name.startswith("$"):
            message = f"{quote(name)} is not a name of metadata, as a filter needs"
            raise UsageError(message, hint="Leave it out", value=name)
    return {name: {"$eq": value} if isinstance(value, dict) else value for name, value in names.items()}


def _name(given: dict[str, Any], key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{quote(value)} is not a valid {key}", hint=f"Give the {key} as text", value=value)
    return value


def _namespace(given: dict[str, Any]) -> str | None:
    # A namespace that is written but has no value would search what belongs to others.
    return _name(given, "namespace") if "namespace" in given else None


# waiting


def wait_for(visit: Visit, step: WaitFor) -> Any:
    """Pause until an event arrives; after a timeout, jump to the flow for that."""
    execution, name = visit.execution, visit.step
    given = values_of(visit, [one for one in step.config if one.key.text != "on_timeout"])
    event = visit.find("event")
    if event is None and execution.mode == "test":
        if name not in execution.assumed:
            hint = f"Add `assuming {name} {{ … }}` to the test"
            raise step_failed("runtime", f"nothing is assumed of the event {quote(name)}", name, hint=hint)
        assumed, contract = execution.assumed[name], visit.contract
        return visit.record("event", assumed if contract is None else fit_assumption(visit, contract, assumed)).value
    if event is None:
        timeout = given.get("timeout")
        deadline = None if timeout is None else execution.clock.now() + timedelta(seconds=parse_duration(timeout))
        about = {key: given[key] for key in ("channel", "callback") if key in given}
        waiting = Waiting(
            kind="event", step=name, time=visit.time, event=given.get("event"), deadline=deadline, about=about
        )
        raise Paused(waiting)
    if event.value is not None or not event.about.get("timeout"):
        return event.value
    visit.about["timeout"] = True
    target = value_of(step.config, "on_timeout")
    flow = flow_named(target) if target else None
    if flow is not None:
        raise Jumped(flow.text)
    raise step_failed("timeout", f"nothing came for {quote(name)} in time", name)
