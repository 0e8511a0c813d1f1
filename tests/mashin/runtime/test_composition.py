"""Machines that call machines: each with its own permissions, one budget for all, and pauses that reach the caller."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import memoranda
from memoranda.agent.models import Reply, ToolCall
from memoranda.api.memory import Memory
from memoranda.errors import Conflict, UsageError
from memoranda.mashin import Behaviour, Machine, Run

Load = Callable[..., Machine]

ARCHIVE = """
machine archive
  accepts
    page as text, is required
    shelf as text, default: "north"
  responds with
    kept as boolean
    shelf as text
  ensures
    {level} memory
  implements
    remember keep
      content: input.page
      collection: "pages"
      metadata: { shelf: input.shelf }
    compute done
      { kept: keep.stored, shelf: input.shelf, secret: "not for the caller" }
"""
CLERK = """
machine clerk
  accepts
    page as text, is required
  ensures
    {level} machine.call
  implements
    ask filed, from: "archive"
      page: input.page
      shelf: "south"
    compute done
      { filed: filed }
"""


def archive(level: str = "allowed to") -> str:
    return ARCHIVE.replace("{level}", level)


def clerk(level: str = "allowed to") -> str:
    return CLERK.replace("{level}", level)


def pages(memory: Memory) -> list[str]:
    held = {one.name for one in memory.collections.list()}
    return [one.content for one in memory.scope().entries(collection="pages")] if "pages" in held else []


def test_a_machine_that_is_called_has_its_own_permissions(load: Load, memory: Memory) -> None:
    run = load(clerk(), machines=[load(archive())]).run({"page": "a map"}).check()
    assert run.output == {"filed": {"kept": True, "shelf": "south"}}
    assert pages(memory) == ["a map"]
    assert {event.detail["capability"] for event in run.events if event.kind == "policy_decision"} == {"machine.call"}
    [inner] = memory.runs.list(program="archive")
    assert inner.parent == run.id
    assert inner.status == "completed"
    assert memory.runs.verify(inner.id).ok
    said = {event.detail["capability"] for event in memory.runs.events(inner.id) if event.kind == "policy_decision"}
    assert said == {"memory.write"}


def test_the_permissions_of_the_caller_do_not_help_the_one_that_is_called(load: Load, memory: Memory) -> None:
    generous = clerk().replace("allowed to machine.call", "allowed to machine.call, memory, llm_call")
    run = load(generous, machines=[load(archive("not allowed to"))]).run({"page": "a map"})
    assert run.error is not None
    assert (run.error.type, run.error.step) == ("machine", "filed")
    assert "archive" in run.error.message
    assert pages(memory) == []
    [inner] = memory.runs.list(program="archive")
    assert inner.error is not None
    assert inner.error["type"] == "permission_denied"
    assert load(generous, machines=[load(archive())]).run({"page": "a map"}).check()
    assert pages(memory) == ["a map"]


def test_a_call_that_is_denied_begins_no_run(load: Load, memory: Memory) -> None:
    run = load(clerk("not allowed to"), machines=[load(archive())]).run({"page": "a map"})
    assert run.error is not None
    assert run.error.type == "permission_denied"
    assert memory.runs.list(program="archive") == []
    assert load(clerk(), machines=[load(archive())]).run({"page": "a map"}).check()
    assert len(memory.runs.list(program="archive")) == 1


def test_input_that_the_other_machine_refuses_is_a_failure_of_the_step(load: Load, memory: Memory) -> None:
    machine = load(clerk().replace("page as text, is required", "page as any"), machines=[load(archive())])
    run = machine.run({"page": 7})
    assert run.error is not None
    assert (run.error.type, run.error.step) == ("contract", "filed")
    assert memory.runs.list(program="archive") == []
    assert machine.run({"page": "seven"}).check()


def test_a_machine_that_is_not_there_is_named(load: Load) -> None:
    run = load(clerk()).run({"page": "a map"})
    assert run.error is not None
    assert "archive" in run.error.message
    assert "machines" in run.error.details["hint"]
    assert load(clerk(), machines=[archive()]).run({"page": "a map"}).check()


def test_returns_says_what_the_caller_takes(load: Load) -> None:
    text = clerk().replace(
        'shelf: "south"\n', 'shelf: "south"\n      returns\n        shelf as text, choices: {choices}\n'
    )
    fine = load(text.replace("{choices}", '["south"]'), machines=[load(archive())])
    assert fine.run({"page": "a map"}).check().output == {"filed": {"shelf": "south"}}
    run = load(text.replace("{choices}", '["east"]'), machines=[load(archive())]).run({"page": "a map"})
    assert run.error is not None
    assert (run.error.type, run.error.step) == ("contract", "filed")


def test_the_failure_of_a_called_machine_can_be_caught(load: Load) -> None:
    text = clerk() + "    on failure\n      compute sorry\n        { type: error.type, step: error.step }\n"
    run = load(text, machines=[load(archive("not allowed to"))]).run({"page": "a map"})
    assert run.check().output == {"type": "machine", "step": "filed"}
    assert load(text, machines=[load(archive())]).run({"page": "a map"}).check().output["filed"]["kept"] is True


def test_machines_that_are_given_together_know_one_another(load: Load) -> None:
    porter = """
    machine porter
      accepts
        page as text, is required
      ensures
        allowed to machine.call
      implements
        ask carried, from: "clerk"
          page: input.page
    """
    assert load(porter, machines=[clerk(), archive()]).run({"page": "a map"}).check().output["filed"]["kept"] is True
    clerk_alone = load(clerk(), machines=[archive()])
    assert load(porter, machines=[clerk_alone]).run({"page": "a map"}).check()


def test_two_machines_of_one_name_are_refused(load: Load) -> None:
    with pytest.raises(UsageError, match="archive"):
        load(clerk(), machines=[archive(), archive("not allowed to")])
    assert load(clerk(), machines=[archive()]).run({"page": "a map"}).check()


def test_a_machine_that_calls_itself_for_ever_is_stopped(load: Load, memory: Memory) -> None:
    text = """
    machine echo
      accepts
        left as integer, is required
      ensures
        allowed to machine.call
      implements
        decide way
          when input.left > 0
            ask deeper, from: "echo"
              left: input.left - 1
            { depth: deeper.depth + 1 }
          otherwise
            { depth: 0 }
    """
    machine = load(text)
    run = machine.run({"left": 1_000})
    assert run.status == "failed"
    assert run.verify().ok
    assert all(memory.runs.verify(one.id).ok for one in memory.runs.list())
    assert machine.run({"left": 3}).check().output == {"depth": 3}


def test_more_machines_inside_one_another_than_may_be_are_a_typed_failure(load: Load) -> None:
    def link(number: int) -> str:
        return f"""
        machine link{number}
          ensures
            allowed to machine.call
          implements
            ask next, from: "link{number + 1}"
            compute done
              {{ depth: next.depth + 1 }}
        """

    last = "machine link9\n  implements\n    compute done\n      { depth: 0 }\n"
    made = load(last)
    for number in range(8, 0, -1):
        made = load(link(number), machines=[made], behaviour=Behaviour(machines=20))
    assert made.run().check().output == {"depth": 8}
    made = load(last)
    for number in range(8, 0, -1):
        made = load(link(number), machines=[made], behaviour=Behaviour(machines=4))
    run = made.run()
    assert run.error is not None
    assert "machines call one another" in run.error.message


# nested waiting


def test_a_pause_reaches_the_caller_and_approving_inside_lets_both_go_on(load: Load, memory: Memory) -> None:
    inner_machine = load(archive("requires approval for"))
    outer = load(clerk(), machines=[inner_machine]).run({"page": "a map"})
    assert outer.status == "waiting"
    assert outer.waiting is not None
    assert (outer.waiting.kind, outer.waiting.step) == ("run", "filed")
    assert outer.waiting.run is not None
    inner = inner_machine.find(outer.waiting.run)
    assert inner.waiting is not None
    assert (inner.waiting.kind, inner.waiting.capability) == ("approval", "memory.write")
    assert pages(memory) == []
    assert outer.resume().status == "waiting", "nobody has decided yet"
    assert inner.approve().check().status == "completed"
    assert pages(memory) == ["a map"]
    done = outer.resume().check()
    assert done.output == {"filed": {"kept": True, "shelf": "south"}}
    assert pages(memory) == ["a map"]
    assert len(memory.runs.list(program="archive")) == 1
    for run in (done, inner):
        assert run.verify().ok
    assert done.replay().same, done.replay().differences


def test_a_decision_alone_lets_both_go_on_from_the_outside(load: Load, memory: Memory) -> None:
    outer = load(clerk(), machines=[load(archive("requires approval for"))]).run({"page": "a map"})
    [asked] = memory.approvals.list()
    memory.approvals.approve(asked.id)
    assert outer.resume().check().output["filed"]["kept"] is True
    assert pages(memory) == ["a map"]
    assert memory.runs.list(program="archive")[0].status == "completed"


def test_a_refusal_inside_is_a_failure_outside(load: Load, memory: Memory) -> None:
    outer = load(clerk(), machines=[load(archive("requires approval for"))]).run({"page": "a map"})
    [asked] = memory.approvals.list()
    memory.approvals.refuse(asked.id, reason="torn")
    done = outer.resume()
    assert done.error is not None
    assert (done.error.type, done.error.step) == ("machine", "filed")
    assert "torn" in done.error.message
    assert pages(memory) == []


def test_a_wait_two_machines_down_is_delivered_there(load: Load, memory: Memory) -> None:
    bell = load("""
    machine bell
      implements
        wait for ring
          event: "ring"
          schema
            tone as text, is required
        compute done
          { tone: ring.tone }
    """)
    middle = load(
        """
    machine middle
      ensures
        allowed to machine.call, memory
      implements
        remember before
          content: "before the bell"
          collection: "pages"
        ask heard, from: "bell"
        compute done
          { tone: heard.tone }
    """,
        machines=[bell],
    )
    top = load(
        """
    machine top
      ensures
        allowed to machine.call
      implements
        ask below, from: "middle"
        compute done
          { tone: below.tone }
    """,
        machines=[middle],
    )
    outer = top.run()
    assert outer.waiting is not None
    assert outer.waiting.run is not None
    between = middle.find(outer.waiting.run)
    assert between.waiting is not None
    assert between.waiting.run is not None
    inner = bell.find(between.waiting.run)
    inner.deliver({"tone": "g"}).check()
    assert outer.resume().check().output == {"tone": "g"}
    assert pages(memory) == ["before the bell"]
    assert {one.status for one in memory.runs.list()} == {"completed"}
    assert all(memory.runs.verify(one.id).ok for one in memory.runs.list())


def test_nested_waiting_goes_on_in_another_process(path: str, run_child: Any) -> None:
    with memoranda.open(path, embedder="hashing:64") as memory:
        inner = memoranda.mashin.load(archive("requires approval for"), memory=memory)
        id = memoranda.mashin.load(clerk(), memory=memory, machines=[inner]).run({"page": "a map"}).id
    script = """
    import json, sys, memoranda
    path, id, text = sys.argv[1:]
    with memoranda.open(path, embedder="hashing:64") as memory:
        [asked] = memory.approvals.list()
        memory.approvals.approve(asked.id)
        run = memoranda.mashin.resume(memory, id, machines=[text])
        print(json.dumps([run.status, run.output]))
    """
    [said] = run_child(script, path, id, archive("requires approval for")).finish()
    import json

    assert json.loads(said) == ["completed", {"filed": {"kept": True, "shelf": "south"}}]
    with memoranda.open(path, embedder="hashing:64") as memory:
        assert pages(memory) == ["a map"]


def test_of_two_that_go_on_with_a_caller_one_wins_and_the_record_is_right(path: str) -> None:
    def dawdle(data: Any, when: str) -> None:
        if when == "before":
            time.sleep(0.2)

    text = archive("requires approval for").replace("memory\n", "memory\n    guards\n      dawdle\n", 1)
    with memoranda.open(path, embedder="hashing:64") as memory:
        inner = memoranda.mashin.load(text, memory=memory, guards={"dawdle": dawdle})
        machine = memoranda.mashin.load(clerk(), memory=memory, machines=[inner])
        outer = machine.run({"page": "a map"})
        memory.approvals.approve(memory.approvals.list()[0].id)
        ended: list[str] = []
        together = threading.Barrier(2)

        def go() -> None:
            found = machine.find(outer.id)
            together.wait()
            try:
                ended.append(found.resume().status)
            except Conflict:
                ended.append("conflict")

        threads = [threading.Thread(target=go) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(ended) == ["completed", "conflict"]
        assert machine.find(outer.id).check().output == {"filed": {"kept": True, "shelf": "south"}}
        assert pages(memory) == ["a map"]
        assert memory.runs.verify(outer.id).ok


# who owns what


def test_what_is_called_works_for_the_same_user(load: Load, memory: Memory) -> None:
    run = load(clerk(), machines=[load(archive())]).run({"page": "a map"}, user="ada").check()
    [inner] = memory.runs.list(program="archive")
    assert [one.content for one in memory.scope(user="ada").entries(collection="pages")] == ["a map"]
    assert memory.scope().entries(collection="pages") == []
    memory.erase(user="ada")
    left = {one.id for one in memory.runs.list()}
    assert not left & {run.id, inner.id}
    load(clerk(), machines=[load(archive())]).run({"page": "a map"}, user="bob").check()
    assert len(memory.runs.list()) == 2


def test_a_test_of_the_caller_writes_nothing_further_down(load: Load, memory: Memory) -> None:
    machine = load(clerk(), machines=[load(archive())])
    run = machine.run({"page": "a map"}, mode="test").check()
    assert run.output["filed"]["shelf"] == "south"
    assert run.output["filed"]["kept"] is False
    assert pages(memory) == []
    assumed = machine.run({"page": "a map"}, mode="test", assuming={"filed": {"kept": True, "shelf": "x"}}).check()
    assert assumed.output == {"filed": {"kept": True, "shelf": "x"}}
    machine.run({"page": "a map"}).check()
    assert pages(memory) == ["a map"]


# machines as tools of a model


TOOLED = """
ensures
  allowed to llm_call
  {level} machine.call
implements
  ask answer, using: "openai:gpt"
    with task "File the page"
    with tools ["archive"]
    returns
      said as text
"""


def calling(scripted: Any, **arguments: Any) -> Any:
    call = Reply(calls=(ToolCall("c1", "archive", arguments),), tokens_in=1, tokens_out=1)
    return scripted(call, {"said": "filed"})


def tool_words(model: Any) -> str:
    return " ".join(said.text for said in model.asked[-1].messages if said.role == "tool")


def test_a_model_calls_a_machine_through_the_same_permission(load: Load, memory: Memory, scripted: Any) -> None:
    model = calling(scripted, page="a map")
    run = load(TOOLED.replace("{level}", "allowed to"), model=model, machines=[load(archive())]).run()
    assert run.check().output == {"said": "filed"}
    assert pages(memory) == ["a map"]
    assert "north" in tool_words(model)
    called = [event for event in run.events if event.detail.get("machine") == "archive"]
    assert [event.decision for event in called] == ["allow"]
    assert run.replay().same, run.replay().differences


@pytest.mark.parametrize("level", ["not allowed to", "requires approval for"])
def test_a_model_calls_no_machine_that_is_not_allowed(load: Load, memory: Memory, scripted: Any, level: str) -> None:
    model = calling(scripted, page="a map")
    run = load(TOOLED.replace("{level}", level), model=model, machines=[load(archive())]).run()
    assert pages(memory) == []
    assert memory.runs.list(program="archive") == []
    assert run.status in ("failed", "waiting")
    fine = load(
        TOOLED.replace("{level}", "allowed to"), model=calling(scripted, page="a map"), machines=[load(archive())]
    )
    fine.run().check()
    assert pages(memory) == ["a map"]


def test_a_model_is_told_what_was_wrong_with_its_call(load: Load, memory: Memory, scripted: Any) -> None:
    model = calling(scripted, pages="a map")
    run: Run = load(TOOLED.replace("{level}", "allowed to"), model=model, machines=[load(archive())]).run()
    assert run.check().output == {"said": "filed"}
    assert "page" in tool_words(model)
    assert "failed" in tool_words(model)
    assert pages(memory) == []


def test_a_machine_that_waited_is_known_to_its_caller_from_then_on(load: Load, memory: Memory) -> None:
    again = clerk().replace(
        "    compute done", '    ask copied, from: "archive"\n      page: "a copy"\n    compute done'
    )
    text = again.replace("{ filed: filed }", "{ shelves: [filed.shelf, copied.shelf] }")
    run = load(text, machines=[load(archive("requires approval for"))]).run({"page": "a map"})
    for _ in ("filed", "copied"):
        memory.approvals.approve(memory.approvals.list()[0].id)
        run = memoranda.mashin.resume(memory, run.id)  # It resumes without being given the machine that it calls.
    assert run.check().output == {"shelves": ["south", "north"]}
    assert pages(memory) == ["a map", "a copy"]
    stranger = load(text).run({"page": "a map"})
    assert stranger.error is not None and "unknown machine `archive`" in stranger.error.message


def guarded(action: str) -> str:
    guards = f'  guards\n    no_personal_data\n      on_violation: "{action}"\n'
    return TOOLED.replace("{level}", "allowed to").replace("implements", f"{guards}implements")


def test_guards_look_at_what_a_model_hands_to_a_machine(load: Load, memory: Memory, scripted: Any) -> None:
    def filing(action: str, page: str) -> Run:
        model = calling(scripted, page=page)
        run = load(guarded(action), model=model, machines=[load(archive())]).run()
        assert run.replay().same, run.replay().differences
        return run

    assert filing("redact", "a map for kim@example.org").check().output == {"said": "filed"}
    assert filing("warn", "a chart for kim@example.org").check().output == {"said": "filed"}
    stopped = filing("block", "a plan for kim@example.org")
    assert stopped.error is not None
    assert (stopped.error.type, stopped.error.step) == ("guard", "answer")
    assert filing("block", "a plan").check().output == {"said": "filed"}
    assert pages(memory) == ["a map for [redacted]", "a chart for kim@example.org", "a plan"]
    found = [one.decision for one in stopped.events if one.detail.get("guard") == "no_personal_data"]
    assert found == ["deny"]


@pytest.mark.parametrize(("action", "told"), [("redact", "[redacted]"), ("warn", "ida@example.org")])
def test_guards_look_at_what_a_machine_gives_to_a_model(load: Load, scripted: Any, action: str, told: str) -> None:
    model = calling(scripted, page="a map")
    machine = archive().replace("shelf: input.shelf,", 'shelf: "ida@example.org",')
    run = load(guarded(action), model=model, machines=[load(machine)]).run().check()
    assert f'"shelf":"{told}"' in tool_words(model)
    assert [one.detail["action"] for one in run.events if "guard" in one.detail] == [action]
    assert run.replay().same
    blocking = calling(scripted, page="a map")
    blocked = load(guarded("block"), model=blocking, machines=[load(machine)]).run()
    assert blocked.error is not None and blocked.error.type == "guard"
    assert (len(model.asked), len(blocking.asked)) == (2, 1)


def test_a_machine_that_takes_nothing_is_called_where_nothing_may_be_empty(load: Load) -> None:
    text = """
    ensures
      allowed to machine.call
      guards
        no_empty
    implements
      ask rung, from: "bell"
        {}
    """
    bell = load("accepts\n  times as integer\nimplements\n  compute rung\n    'ding'\n", name="bell")
    assert load(text.format(""), machines=[bell]).run().check().output == "ding"
    silent = load(text.format("times: null"), machines=[bell]).run()
    assert silent.error is not None and silent.error.type == "guard"


def test_a_tool_that_is_named_twice_is_offered_once(load: Load, scripted: Any) -> None:
    text = TOOLED.replace("{level}", "allowed to").replace('["archive"]', '["archive", "bell", "archive"]')
    model = scripted({"said": "nothing"})
    bell = load("implements\n  compute rung\n    'ding'\n", name="bell")
    load(text, model=model, machines=[load(archive()), bell]).run().check()
    assert [tool.name for tool in model.asked[0].tools] == ["archive", "bell"]


def test_a_machine_that_fails_as_a_tool_is_an_error_on_the_wire(load: Any, memory: Memory, anthropic: Any, claude: Any):
    tool = load("accepts\n  n as number\nimplements\n  compute half\n    input.n.missing.more\n", name="half")
    text = """
    ensures
      allowed to llm_call, machine.call
    implements
      ask answer, using: "anthropic:claude-sonnet-4-6"
        with task "Halve it"
        with tools ["half"]
        with max_tokens 100
    """
    anthropic.waiting += [claude.calls(("half", {"n": 4})), claude.says("I could not.")]
    assert load(text, machines=[tool]).run().check().output == {"text": "I could not."}
    [result] = anthropic.asked[1].body["messages"][-1]["content"]
    assert (result["type"], result["is_error"]) == ("tool_result", True)
    assert "failed" in result["content"][0]["text"]
