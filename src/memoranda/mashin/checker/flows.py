"""The flows of a document in; those that are named and do not exist, or exist and are never reached, out."""

from __future__ import annotations

from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.hints import few
from memoranda.mashin.checker.outline import Call, Outline
from memoranda.mashin.document import WaitFor, flow_named, value_of
from memoranda.model.text import quote


def check_flows(whole: Outline, said: Diagnostics) -> None:
    """Check the flows that are run, jumped to, or wait for the end of a time."""
    flows = whole.flows
    calls = [*whole.calls, *_timeouts(whole, said)]
    for call in calls:
        name = call.flow.text
        if name not in flows and whole.whole:
            listed = f"The flows are {few(flows)}" if flows else f"Add `flow {name}` with its steps"
            hint = whole.hints.meant(name, flows, otherwise=listed)
            said.error("unknown_flow", f"there is no flow {quote(name)}", call.flow.span, hint=hint)
    if not whole.whole:
        return
    reached = _reached(calls)
    # Without a step of its own, a machine begins with its first flow.
    implements = whole.document.implements
    if implements is not None and not implements.body and flows:
        reached = _reached([*calls, Call(next(iter(flows.values())).name, "")])
    for name, flow in flows.items():
        if name not in reached:
            hint = f"Run it with `run flow({name})`, or remove it"
            said.warning("unreachable_flow", f"nothing leads to the flow {quote(name)}", flow.name.span, hint=hint)


def _timeouts(whole: Outline, said: Diagnostics) -> list[Call]:
    """Return the flows that waits lead to; which flow a wait stands in does not matter for what they reach."""
    calls: list[Call] = []
    for part in whole.parts:
        raw = value_of(part.config, "on_timeout") if isinstance(part, WaitFor) else None
        if raw is None:
            continue
        flow = flow_named(raw)
        if flow is None:
            message = f"`on_timeout` needs a flow, not {quote(raw.text, longest=40)}"
            said.error("wrong_value", message, raw.span, hint="Write it as `on_timeout: flow(name)`")
        else:
            calls.append(Call(flow, ""))
    return calls


def _reached(calls: list[Call]) -> set[str]:
    leads: dict[str, list[str]] = {}
    for call in calls:
        leads.setdefault(call.region, []).append(call.flow.text)
    reached: set[str] = {""}
    waiting = [""]
    while waiting:
        for name in leads.get(waiting.pop(), ()):
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return reached
