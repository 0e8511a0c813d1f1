"""Questions to models and to other machines in, their answers out."""

from __future__ import annotations

from typing import Any, cast

from memoranda.agent.conversing import ToolFailed
from memoranda.agent.models import ToolSpec
from memoranda.errors import MemorandaError, NotFound, UsageError
from memoranda.lang.expression.dialect import Run
from memoranda.mashin.expression.semantics import is_number, shown
from memoranda.mashin.permissions import MODEL, Need
from memoranda.mashin.runtime.asking import Question
from memoranda.mashin.runtime.asking import ask_model as converse
from memoranda.mashin.runtime.failures import Failed, failed
from memoranda.mashin.runtime.governing import (
    Act,
    Given,
    governed,
    guarded,
    not_callable,
    note_call,
    values_of,
    whole,
)
from memoranda.mashin.runtime.plan import AskModel, CallMachine
from memoranda.mashin.runtime.work import Called, Callee, Outside, Taking
from memoranda.model.text import quote
from memoranda.runs.waiting import Paused, Waiting

_ASKING = Need(MODEL)


def ask_model(taking: Taking, step: AskModel) -> Any:
    """Ask a model."""
    words = values_of(taking, step.words)
    sends = {"role": shown(words["role"]) if "role" in words else "", "task": shown(words.get("task"))}
    names = _tools(words.get("tools"))
    temperature, max_tokens = words.get("temperature"), whole(words.get("max_tokens"))
    if temperature is not None and not (is_number(temperature) and temperature >= 0):
        raise UsageError(f"the temperature {quote(temperature)} is no number from 0 on", hint="Such as 0.2")
    if max_tokens is not None and not (type(max_tokens) is int and max_tokens >= 1):
        raise UsageError(f"max_tokens {quote(max_tokens)} is no whole number from 1 on", hint="Such as 1000")
    spending = taking.work.spending

    def perform(outside: Outside, sent: dict[str, Any]) -> Given:
        model = outside.model(step.model)
        question = Question(
            role=sent["role"],
            task=sent["task"],
            contract=step.returns,
            tools=tuple(_tool(outside, name) for name in names),
            temperature=temperature,
            max_tokens=max_tokens,
        )
        answer = converse(
            model,
            question,
            timeout=taking.work.behaviour.model_seconds,
            attempt=lambda number: _asked_again(taking, number),
            used=lambda read, written: spending.add({"tokens": read + written}),
            # Of its own: what it draws goes into the answer, which is kept as a whole.
            run=Run(clock=taking.work.clock, ids=taking.work.ids),
            call_tool=(lambda name, arguments: _use_tool(taking, outside, name, arguments)) if names else None,
        )
        tokens = answer.tokens_in + answer.tokens_out
        return Given(answer.value, {"model": model.name, "requests": answer.requests, "tokens": tokens})

    about = {"effect": "ask"} if step.model is None else {"effect": "ask", "model": step.model}
    act = Act(
        need=_ASKING,
        spends="model_calls",
        sends=sends,
        about=about,
        shows={"tools": names or None},
        perform=perform,
        in_tests=lambda _: _assumed(taking, step),
        returns=step.returns,
    )
    return governed(taking, act)


def _asked_again(taking: Taking, number: int) -> None:
    """Count each request after the first, which was counted when it was permitted."""
    spending = taking.work.spending
    refusal = None if number == 1 else spending.over("model_calls", taking.step)
    if refusal is not None:
        raise refusal


def _assumed(taking: Taking, step: AskModel | CallMachine) -> Any:
    if not step.assuming:
        raise failed(
            "runtime",
            f"the step {quote(step.name)} has nothing to give in a test",
            step.name,
            hint=f"Add `assuming` to it, or `assuming {step.name} {{ … }}` to the test",
        )
    return values_of(taking, step.assuming)


def _tools(value: Any) -> list[str]:
    if value is None:
        return []
    names = cast("list[Any]", value if isinstance(value, list) else [value])
    if not all(isinstance(name, str) for name in names):
        raise UsageError(f"the tools {quote(names)} are no names of machines", hint='Write them as `["lookup"]`')
    # No provider takes a tool twice.
    return list(dict.fromkeys(names))


def _tool(outside: Outside, name: str) -> ToolSpec:
    machine = _machine(outside, name)
    plan = machine.plan
    return ToolSpec(name, plan.title or f"The machine {name}.", plan.accepts.schema)


def _use_tool(taking: Taking, outside: Outside, name: str, arguments: dict[str, Any]) -> Any:
    """Call a machine because the model wants it: governed as any other call is."""
    work = taking.work
    verdict = work.permissions.verdict(Need("machine.call", name))
    refusal = work.spending.over("machine_calls", taking.step)
    reason = "" if verdict.level == "allow" else verdict.reason
    reason = reason if refusal is None else refusal.failure.message
    call = {"machine": name, **({"reason": reason} if reason else {})}
    taking.calls.append(call)
    note_call(taking, call)
    if reason:
        raise refusal or not_callable(name, reason, taking.step)
    sent = guarded(taking, call, arguments, "before")
    work.recorder.flush()
    try:
        output = _output(_machine(outside, name).called(sent, work), name, taking.step)
    except (Failed, MemorandaError) as error:
        raise ToolFailed(f"{quote(name)} failed: {error}") from error
    return guarded(taking, call, output, "after")


def _machine(outside: Outside, name: str) -> Callee:
    machine = outside.machines.get(name)
    if machine is None:
        known = ", ".join(sorted(outside.machines)) or "none"
        raise NotFound(f"there is no machine {quote(name)} here", hint=f"Pass it as load(machines=[…]); known: {known}")
    return machine


def call_machine(taking: Taking, step: CallMachine) -> Any:
    """Call another machine, which has permissions of its own."""
    inputs = values_of(taking, step.inputs)
    work = taking.work

    def given_by(called: Called) -> Any:
        output = _output(called, step.machine, step.name)
        return output if step.returns is None else step.returns.answer(output)

    def perform(outside: Outside, sent: dict[str, Any]) -> Given:
        waited = work.waited
        if waited is not None and waited.run and (waited.step, waited.time) == (step.name, taking.time):
            called = outside.take_up(waited.run, work)
        else:
            called = _machine(outside, step.machine).called(sent, work)
        if called.status == "waiting":
            raise Paused(Waiting(kind="run", step=step.name, time=taking.time, run=called.run, about=dict(about)))
        return Given(given_by(called), {"run": called.run})

    about = {"effect": "call", "machine": step.machine, **({"purpose": step.purpose} if step.purpose else {})}

    def in_tests(sent: dict[str, Any]) -> Any:
        if step.assuming or work.outside is None or step.machine not in work.outside.machines:
            return _assumed(taking, step)
        return given_by(work.outside.machines[step.machine].called(sent, work))

    act = Act(
        need=Need("machine.call", step.machine),
        spends="machine_calls",
        sends=inputs,
        about=about,
        perform=perform,
        in_tests=in_tests,
        returns=step.returns,
    )
    return governed(taking, act)


def _output(called: Called, machine: str, step: str) -> Any:
    if called.status == "completed":
        return called.output
    why = "it waits for somebody" if called.status == "waiting" else called.message
    raise failed("machine", f"the machine {quote(machine)} gave no output: {why}", step, run=called.run)
