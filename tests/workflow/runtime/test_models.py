"""Models inside runs: what their tools may do to a run, what cannot be done by one, and replies that come too late."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from memoranda import Policy, Rule
from memoranda.agent.models import Ask, Reply, ToolCall
from memoranda.api.memory import Memory
from memoranda.errors import ModelFailed
from memoranda.workflow.actions.base import Call
from memoranda.workflow.behaviour import Behaviour

PATIENCE = 60.0


class Scripted:
    """A model that replies with what it was given, one thing a request, and keeps what it was asked."""

    name = "made:up"

    def __init__(self, *replies: Reply | Exception | str | Callable[[], Reply]) -> None:
        self.replies = list(replies)
        self.asked: list[Ask] = []

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        self.asked.append(ask)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, str):
            return Reply(reply, tokens_in=1, tokens_out=1)
        return reply if isinstance(reply, Reply) else reply()

    def heard(self) -> str:
        """Return the results of tools that it was told last."""
        return " ".join(said.text for said in self.asked[-1].messages if said.role == "tool")


def wants(name: str, **arguments: Any) -> Reply:
    return Reply("", (ToolCall("c1", name, arguments),), tokens_in=1, tokens_out=1)


TEXT = """
defs:
  brain: {kind: model, settings: {provider: openai, model_id: gpt-5.2}}
  bell: {kind: tools, action: TOOL, description: Rings., settings: {}}
  think: {kind: task, action: ai_agent, inputs: {prompt: Go on}, bindings: {model: brain, tools: [bell]}SETTINGS}
  after: {kind: task, action: note, inputs: {said: "=$output.think.text"}}
flow: FLOW
"""


def thinking(tool: str, *, settings: str = "", flow: str = "[{do: think}, {do: after}]") -> str:
    text = TEXT.replace("TOOL", tool).replace("FLOW", flow)
    return text.replace("SETTINGS", f", settings: {settings}" if settings else "")


def test_a_tool_acts_in_the_run(load: Any, kitchen: Any) -> None:
    def ring(call: Call) -> Any:
        call.place.send("Ding")
        call.place.set_context({"rung": call.inputs["times"]})
        return {"rung": True}

    kitchen.add("ring", ring)
    model = Scripted(wants("bell", times=3), "It rang.")
    run = load(thinking("ring"), model=model).run(owner="mira").check()
    assert run.messages == ["Ding"]
    assert run.context["rung"] == 3
    assert kitchen.done == [{"said": "It rang."}]
    assert '"rung":true' in model.heard()
    [record] = [event for event in run.events if event.step == "bell"]
    assert record.detail["type"] == "ring"


@pytest.mark.parametrize("tool", ["ask", "wait_for_reply"])
def test_a_tool_cannot_suspend_the_run_and_the_model_is_told(load: Any, kitchen: Any, tool: str) -> None:
    model = Scripted(wants("bell"), "I could not.")
    run = load(thinking(tool), model=model).run(owner="mira").check()
    assert "wait" in model.heard()
    assert "error" in model.heard()
    assert run.outputs["think"]["text"] == "I could not."
    assert run.outputs["think"]["tool_calls"] == [{"name": "bell", "failed": True}]


def test_a_workflow_that_a_tool_calls_and_that_would_wait_is_given_up(load: Any, kitchen: Any, memory: Memory) -> None:
    other = load("defs: {ask: {kind: task, action: ask}}\nflow: [{do: ask}]", name="other")
    model = Scripted(wants("bell", workflow="other"), "I could not.")
    load(thinking("call_workflow"), model=model, workflows=[other]).run(owner="mira").check()
    assert "error" in model.heard()
    [child] = memory.runs.list(program="other")
    assert child.status == "cancelled"


@pytest.mark.parametrize(
    "error", [RuntimeError("broken"), KeyError("x"), ModelFailed("no", retryable=True, reason="x")]
)
def test_a_tool_that_fails_is_told_to_the_model(load: Any, kitchen: Any, error: Exception) -> None:
    def ring(call: Call) -> Any:
        raise error

    kitchen.add("ring", ring)
    model = Scripted(wants("bell"), "I see.")
    run = load(thinking("ring"), model=model).run(owner="mira").check()
    assert "error" in model.heard()
    assert run.outputs["think"]["text"] == "I see."


@pytest.mark.parametrize(
    "given", [{1, 2}, float("nan"), object(), "x" * 5_000_000], ids=["set", "nan", "object", "huge"]
)
def test_what_a_tool_gives_that_is_no_json_is_told_to_the_model(load: Any, kitchen: Any, given: Any) -> None:
    kitchen.add("ring", lambda call: given)
    model = Scripted(wants("bell"), "I see.")
    load(thinking("ring"), model=model).run(owner="mira").check()
    assert "error" in model.heard()


def test_an_interruption_in_a_tool_ends_the_run(load: Any, kitchen: Any, memory: Memory) -> None:
    def ring(call: Call) -> Any:
        raise KeyboardInterrupt

    kitchen.add("ring", ring)
    with pytest.raises(KeyboardInterrupt):
        load(thinking("ring"), model=Scripted(wants("bell"), "never")).run(owner="mira")
    assert [one.status for one in memory.runs.list()] == ["failed"]


def test_a_model_that_fails_is_asked_again_as_its_retries_say(load: Any, kitchen: Any) -> None:
    slept: list[float] = []
    retrying = thinking("note", settings="{retries: {enabled: true, backoff_ms: 10}}")
    busy = ModelFailed("busy", retryable=True, reason="rate")
    final = ModelFailed("no such model", retryable=False, reason="refused")
    behaviour = Behaviour(sleep=slept.append)
    run = load(retrying, model=Scripted(busy, busy, "At last."), behaviour=behaviour).run(owner="mira").check()
    assert (run.outputs["think"]["text"], slept) == ("At last.", [0.01, 0.01])
    failed = load(retrying, model=Scripted(final, "never"), behaviour=behaviour).run(owner="mira")
    assert (failed.status, failed.error.type, failed.error.step) == ("failed", "model_failed", "think")
    assert len(slept) == 2


@pytest.mark.parametrize("tool", ["ring", "send_text_message", "set_context"])
def test_a_model_that_replies_too_late_has_no_tools_any_more(
    load: Any, kitchen: Any, memory: Memory, tool: str
) -> None:
    kitchen.add("ring", lambda call: kitchen.tell("rung"))
    arguments: dict[str, Any] = {"send_text_message": {"text": "late"}, "set_context": {"values": {"late": 1}}}
    ended = threading.Event()

    def late() -> Reply:
        kitchen.bell("model").await_ring()
        return wants("bell", **arguments.get(tool, {}))

    def last() -> Reply:
        ended.set()
        return Reply("done")

    model = Scripted(late, last, last)
    others = set(threading.enumerate())  # of other tests, some of which never end
    flow = load(thinking(tool, settings="{timeout_ms: 700}"), model=model)
    run = flow.run(owner="mira", thread="t1")
    assert (run.status, run.error.type, run.error.step) == ("failed", "timeout", "think")
    length = memory.ledger.verify().length
    kitchen.bell("model").ring()
    for thread in set(threading.enumerate()) - others:
        if thread.name == "memoranda-workflow":
            thread.join(PATIENCE)
    found = flow.find(run.id)
    assert (found.messages, found.context) == ([], {"memory": {}})
    assert kitchen.done == []
    assert memory.ledger.verify().length == length
    in_time = load(thinking(tool), model=Scripted(wants("bell", **arguments.get(tool, {})), "done"))
    assert in_time.run(owner="mira", thread="t1").check()


def test_a_tool_counts_as_a_step(load: Any, kitchen: Any) -> None:
    def many() -> Scripted:
        return Scripted(*[wants("bell", n=number) for number in range(20)], *["done"] * 5)

    text = thinking("note", settings="{stop_step_count: 30}", flow="[{do: think}]")
    assert load(text, model=many(), behaviour=Behaviour(steps=21)).run(owner="mira").check()
    run = load(text, model=many(), behaviour=Behaviour(steps=5)).run(owner="mira")
    assert len(kitchen.done) == 20 + 4, "its own task is the fifth"
    assert run.verify().ok


def test_a_workflow_has_the_rights_of_whoever_called_it(load: Any, memory: Memory, define: Any) -> None:
    """It was loaded by an actor with more rights."""
    define("diary")
    other = load(
        "defs: {keep: {kind: task, action: update_memory, inputs: {memory: {diary: {n: 1}}}}}\nflow: [{do: keep}]",
        name="other",
    )
    calling = "defs: {call: {kind: task, action: call_workflow, inputs: {workflow: other}}}\nflow: [{do: call}]"
    allowed = [Rule("allow", one) for one in ("runs", "memory.read", "memory.write", "definitions.read")]
    narrowed = memory.narrowed(Policy(rules=(*allowed, Rule("deny", "memory.write", path="diary"))))
    run = load(calling, memory=narrowed, workflows=[other]).run(owner="mira")
    assert (run.status, run.error.step) == ("failed", "call")
    assert memory.scope(user="mira").value("diary") is None
    assert load(calling, workflows=[other]).run(owner="mira").check()
    assert memory.scope(user="mira").value("diary") == {"n": 1}
