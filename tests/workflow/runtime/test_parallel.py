"""Steps at the same time: what branches see, what they leave behind, who wins, and who is stopped."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from memoranda.api.memory import Memory
from memoranda.workflow.actions.base import Call, Stopped
from memoranda.workflow.behaviour import Behaviour
from memoranda.workflow.threads import messages, open_thread

PATIENCE = 60.0


def both(first: str, second: str, *, strategy: str = "wait_all", defs: str = "", after: str = "") -> str:
    return f"""
context: {{who: nobody}}
defs:
  put_a: {{kind: task, action: set_context, inputs: {{values: {{who: a, a: 1}}}}}}
  put_b: {{kind: task, action: set_context, inputs: {{values: {{who: b, b: 2}}}}}}
  note: {{kind: task, action: note, inputs: {{who: "=$context.who", a: "=$exists($output.put_a)", b: "=$context.b"}}}}
  end_a: {{kind: task, action: stand, inputs: {{bell: a, value: end a}}}}
  end_b: {{kind: task, action: stand, inputs: {{bell: b, value: end b}}}}
  ring_a: {{kind: task, action: ring, inputs: {{bell: a}}}}
  ring_b: {{kind: task, action: ring, inputs: {{bell: b}}}}
  burn: {{kind: task, action: burn}}
  give_1: {{kind: task, action: give, inputs: {{value: 1}}}}
  give_2: {{kind: task, action: give, inputs: {{value: 2}}}}
  {defs}
flow:
  - parallel:
      strategy: {strategy}
      steps:
        - conditional: {{when: [{{steps: [{first}]}}]}}
        - conditional: {{when: [{{steps: [{second}]}}]}}
  {after}
"""


@pytest.fixture(autouse=True)
def ring(kitchen: Any) -> None:
    kitchen.add("ring", lambda call: kitchen.bell(call.inputs["bell"]).ring())


# at the same time


def test_branches_run_at_the_same_time(load: Any, kitchen: Any) -> None:
    met = threading.Barrier(3)
    kitchen.add("meet", lambda call: met.wait(PATIENCE) >= 0)
    run = load("""
    defs: {a: {kind: task, action: meet}, b: {kind: task, action: meet}, c: {kind: task, action: meet}}
    flow: [{parallel: {steps: [{do: a}, {do: b}, {do: c}]}}]
    """).run(owner="mira")
    assert run.check().outputs == {"a": True, "b": True, "c": True}
    assert list(run.outputs) == ["a", "b", "c"]


@pytest.mark.parametrize("strategy", ["wait_all", "wait_any"])
def test_a_block_without_branches_is_fine(load: Any, kitchen: Any, strategy: str) -> None:
    run = load(f"""
    defs: {{a: {{kind: task, action: note, inputs: {{n: 1}}}}}}
    flow: [{{parallel: {{strategy: {strategy}, steps: []}}}}, {{do: a}}]
    """).run(owner="mira")
    assert run.check().outputs == {"a": {"n": 1}}


def test_many_branches_take_about_as_long_as_one(load: Any, kitchen: Any) -> None:
    kitchen.add("nap", lambda call: time.sleep(0.25))
    tasks = ", ".join(f"n{number}: {{kind: task, action: nap}}" for number in range(50))
    steps = ", ".join(f"{{do: n{number}}}" for number in range(50))
    alone = load(f"defs: {{{tasks}}}\nflow: [{{do: n0}}]")
    together = load(f"defs: {{{tasks}}}\nflow: [{{parallel: {{steps: [{steps}]}}}}]")

    def took(flow: Any) -> float:
        begun = time.perf_counter()
        flow.run(owner="mira").check()
        return time.perf_counter() - begun

    took(alone)
    at_once = any((ratio := took(together) / took(alone)) < 5 for _ in range(3))
    assert at_once, f"fifty branches took {ratio:.1f} times as long as one"


@pytest.mark.parametrize(("behaviour", "most"), [(Behaviour(), 64), (Behaviour(branches=3), 3)])
def test_more_branches_than_threads_wait_their_turn(load: Any, kitchen: Any, behaviour: Behaviour, most: int) -> None:
    inside: list[int] = []
    lock = threading.Condition()
    seen = 0

    def act(call: Call) -> Any:
        nonlocal seen
        with lock:
            inside.append(call.inputs["n"])
            seen = max(seen, len(inside))
            lock.notify_all()
            lock.wait_for(lambda: seen >= most, timeout=PATIENCE)
        with lock:
            inside.remove(call.inputs["n"])
        return call.inputs["n"]

    kitchen.add("work", act)
    names = [f"n{number}" for number in range(200)]
    tasks = ", ".join(f"{name}: {{kind: task, action: work, inputs: {{n: {name[1:]}}}}}" for name in names)
    steps = ", ".join(f"{{do: {name}}}" for name in names)
    flow = load(f"defs: {{{tasks}}}\nflow: [{{parallel: {{steps: [{steps}]}}}}]", behaviour=behaviour)
    run = flow.run(owner="mira").check()
    assert seen == most
    assert run.outputs == {name: int(name[1:]) for name in names}
    assert list(run.outputs) == names
    assert sorted(event.step for event in run.events if event.step in run.outputs) == sorted(names)
    assert run.verify().ok


def test_blocks_inside_blocks_do_not_wait_for_one_anothers_threads(load: Any, kitchen: Any) -> None:
    step = "{do: leaf}"
    for _ in range(5):
        step = f"{{parallel: {{steps: [{step}, {step}]}}}}"
    text = f"defs: {{leaf: {{kind: task, action: note, inputs: {{n: 1}}}}}}\nflow: [{step}]"
    for most in (1, 2, 64):
        kitchen.done.clear()
        load(text, behaviour=Behaviour(branches=most)).run(owner="mira").check()
        assert len(kitchen.done) == 32


# what branches see and leave behind


def test_a_branch_sees_itself_and_not_the_others(load: Any, kitchen: Any) -> None:
    # Both have changed everything before either looks.
    first = "{do: put_a}, {do: ring_a}, {do: end_b}, {do: note}"
    second = "{do: put_b}, {do: ring_b}, {do: end_a}, {do: note}"
    run = load(both(first, second, after="- do: note")).run(owner="mira").check()
    *inside, after = kitchen.done
    assert sorted(inside, key=lambda one: one["who"]) == [
        {"who": "a", "a": True},
        {"who": "b", "a": False, "b": 2},
    ]
    assert after == {"who": "b", "a": True, "b": 2}
    assert {"who": "b", "a": 1, "b": 2}.items() <= run.context.items()


@pytest.mark.parametrize("last", ["a", "b"])
def test_changes_are_merged_in_the_order_of_the_branches_whoever_ends_last(load: Any, kitchen: Any, last: str) -> None:
    first = "{do: put_a}, {do: ring_a}" if last == "b" else "{do: end_b}, {do: put_a}"
    second = "{do: put_b}, {do: ring_b}" if last == "a" else "{do: end_a}, {do: put_b}"
    defs = "same: {kind: task, action: note, inputs: {who: '=$context.who'}}"
    run = load(both(f"{first}, {{do: same}}", f"{second}, {{do: same}}", defs=defs)).run(owner="mira").check()
    assert run.context["who"] == "b"
    assert run.outputs["same"] == {"who": "b"}
    assert (run.context["a"], run.context["b"]) == (1, 2)


def test_a_branch_that_changes_nothing_undoes_nothing(load: Any, kitchen: Any) -> None:
    run = load(both("{do: put_a}", "{do: give_1}")).run(owner="mira").check()
    assert run.context["who"] == "a"
    run = load(both("{do: give_1}, {do: give_2}", "{do: give_1}")).run(owner="mira").check()
    assert run.outputs == {"give_1": 1, "give_2": 2}


def test_branches_that_change_other_values_do_not_undo_one_another(load: Any) -> None:
    run = load("""
    context: {left: 0, right: 0, both: 0}
    defs:
      left: {kind: task, action: set_context, inputs: {values: {left: 1, both: 1}}}
      right: {kind: task, action: set_context, inputs: {values: {right: 2}}}
    flow: [{parallel: {steps: [{do: left}, {do: right}]}}]
    """).run(owner="mira")
    assert run.check().context == {"left": 1, "right": 2, "both": 1, "memory": {}}


def test_a_task_that_is_done_again_in_one_branch_is_not_undone_by_another(load: Any) -> None:
    run = load("""
    defs:
      count: {kind: task, action: give, inputs: {value: "=$exists($output.count) ? $output.count + 1 : 1"}}
      other: {kind: task, action: give, inputs: {value: other}}
    flow: [{do: count}, {parallel: {steps: [{do: count}, {do: other}]}}]
    """).run(owner="mira")
    assert run.check().outputs == {"count": 2, "other": "other"}


def test_a_branch_that_takes_too_long_fails_the_block(load: Any, kitchen: Any) -> None:
    text = """
    defs:
      slow: {kind: task, action: stand, inputs: {bell: never}, settings: {timeout_ms: 50}}
      other: {kind: task, action: stand, inputs: {bell: other}}
    flow: [{parallel: {steps: [{do: slow}, {do: other}]}}]
    """
    run = load(text).run(owner="mira")
    assert (run.status, run.error.type, run.error.step) == ("failed", "timeout", "slow")
    for name in ("never", "other"):
        kitchen.bell(name).ring()
    assert load(text).run(owner="mira").check()


def test_memory_of_the_others_is_seen_after_the_block(load: Any, kitchen: Any, define: Any, memory: Memory) -> None:
    for slug in ("mine", "yours"):
        define(slug)
    defs = """
  keep_mine: {kind: task, action: update_memory, inputs: {memory: {mine: {n: 1}}}}
  keep_yours: {kind: task, action: update_memory, inputs: {memory: {yours: {n: 2}}}}
  look: {kind: task, action: note, inputs: {seen: "=$context.memory"}}
"""
    first = "{do: keep_mine}, {do: ring_a}, {do: end_b}, {do: look}"
    second = "{do: keep_yours}, {do: ring_b}, {do: end_a}, {do: look}"
    run = load(both(first, second, defs=defs.strip(), after="- do: look")).run(owner="mira").check()
    *inside, after = kitchen.done
    assert sorted(inside, key=str) == [{"seen": {"mine": {"n": 1}}}, {"seen": {"yours": {"n": 2}}}]
    assert after == {"seen": {"mine": {"n": 1}, "yours": {"n": 2}}}
    assert run.context["memory"] == after["seen"]


def test_branches_may_write_one_record_and_the_last_write_stands(
    load: Any, kitchen: Any, define: Any, memory: Memory
) -> None:
    define("mine")
    defs = """
  one: {kind: task, action: update_memory, inputs: {memory: {mine: {n: 1}}}}
  two: {kind: task, action: update_memory, inputs: {memory: {mine: {n: 2}}}}
"""
    # The first branch writes last.
    run = load(both("{do: end_b}, {do: one}", "{do: two}, {do: ring_b}", defs=defs.strip())).run(owner="mira").check()
    assert memory.scope(user="mira").value("mine") == {"n": 1}
    assert run.context["memory"] == {"mine": {"n": 1}}


def test_merging_records_in_many_branches_lose_nothing(load: Any, kitchen: Any, memory: Memory) -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    memory.definitions.create(name="Shelf", slug="shelf", schema=schema, mode="merge")
    names = [f"n{number}" for number in range(40)]
    tasks = ", ".join(
        f"{one}: {{kind: task, action: update_memory, inputs: {{memory: {{shelf: {{{one}: 1}}}}}}}}" for one in names
    )
    steps = ", ".join(f"{{do: {one}}}" for one in names)
    run = load(f"defs: {{{tasks}}}\nflow: [{{parallel: {{steps: [{steps}]}}}}]").run(owner="mira").check()
    assert memory.scope(user="mira").value("shelf") == dict.fromkeys(names, 1)
    assert run.context["memory"] == {"shelf": dict.fromkeys(names, 1)}


def test_a_branch_knows_the_loop_around_it(load: Any, kitchen: Any) -> None:
    run = load("""
    defs:
      a: {kind: task, action: note, inputs: {a: "=$iteration.item", so_far: "=$accumulator"}}
      b: {kind: task, action: give, inputs: {value: "=$iteration.item * 10"}}
    flow:
      - loop:
          type: for_each
          name: all
          for_each: {in: [1, 2]}
          accumulate: {as: sum, initial: 0, merge: "=$accumulator + $output.b"}
          steps: [{parallel: {steps: [{do: a}, {do: b}]}}]
    """).run(owner="mira")
    assert run.check().outputs["all"] == {"sum": 30}
    assert kitchen.done == [{"a": 1, "so_far": 0}, {"a": 2, "so_far": 10}]


def test_a_loop_in_a_branch_is_that_branchs_alone(load: Any, kitchen: Any) -> None:
    run = load("""
    defs: {a: {kind: task, action: note, inputs: {it: "=$iteration.item"}}}
    flow:
      - parallel:
          steps:
            - loop: {type: for_each, name: x, for_each: {in: [1, 2, 3]}, accumulate: {as: n, initial: 0,
                merge: "=$accumulator + $iteration.item"}, steps: [{do: a}]}
            - loop: {type: for_each, name: y, for_each: {in: [10, 20]}, accumulate: {as: n, initial: 0,
                merge: "=$accumulator + $iteration.item"}, steps: [{do: a}]}
      - do: a
    """).run(owner="mira")
    assert run.check().outputs == {"a": {}, "x": {"n": 6}, "y": {"n": 30}}


# wait_all


def test_the_first_failure_stops_the_others_and_fails_the_run(load: Any, kitchen: Any) -> None:
    ended = threading.Event()
    met: list[Any] = []

    def stubborn(call: Call) -> Any:
        kitchen.bell("here").await_ring()
        try:
            call.place.send("still here")
        except Stopped as stopped:
            met.append(stopped)
        ended.set()
        return 1

    def burn(call: Call) -> Any:
        kitchen.bell("here").await_guests()
        raise RuntimeError("burnt")

    kitchen.add("stubborn", stubborn)
    kitchen.add("burn", burn)
    defs = "stay: {kind: task, action: stubborn}"
    flow = load(both("{do: stay}, {do: note}", "{do: burn}", defs=defs, after="- do: note"))
    run = flow.run(owner="mira")
    assert (run.status, run.error.type, run.error.step) == ("failed", "action_failed", "burn")
    assert not ended.is_set(), "nobody waits for one who was stopped"
    kitchen.bell("here").ring()
    assert ended.wait(PATIENCE)
    assert len(met) == 1
    assert kitchen.done == [], "neither the rest of the branch nor what comes after the block"
    found = flow.find(run.id)
    assert (found.messages, found.outputs) == ([], run.outputs)
    assert found.verify().ok


def test_a_failure_keeps_branches_that_have_not_begun_from_beginning(load: Any, kitchen: Any) -> None:
    text = """
    defs: {a: {kind: task, action: note, inputs: {n: 1}}, burn: {kind: task, action: burn}}
    flow: [{parallel: {steps: [{do: a}, {do: burn}, {do: a}, {do: a}]}}]
    """
    run = load(text, behaviour=Behaviour(branches=1)).run(owner="mira")
    assert (run.status, run.error.step) == ("failed", "burn")
    assert kitchen.done == [{"n": 1}, {"burnt": "burn"}]


def test_what_came_before_a_block_that_failed_is_on_record(load: Any) -> None:
    run = load("""
    defs:
      a: {kind: task, action: give, inputs: {value: 1}}
      burn: {kind: task, action: burn}
    flow: [{do: a}, {parallel: {steps: [{do: burn}]}}]
    """).run(owner="mira")
    assert (run.status, run.outputs) == ("failed", {"a": 1})


# wait_any


def test_the_first_that_succeeds_is_all_that_counts(load: Any, kitchen: Any) -> None:
    # The first branch has done two tasks and is in its third when the second branch wins.
    first = "{do: put_a}, {do: give_1}, {do: ring_b}, {do: end_a}, {do: note}"
    second = "{do: end_b}, {do: put_b}, {do: give_2}"
    flow = load(both(first, second, strategy="wait_any", after="- do: note"))
    run = flow.run(owner="mira").check()
    assert run.outputs == {
        "end_b": "end b",
        "put_b": {"who": "b", "b": 2},
        "give_2": 2,
        "note": {"who": "b", "a": False, "b": 2},
    }
    assert run.context["who"] == "b"
    assert "a" not in run.context
    kitchen.bell("a").ring()
    assert len(kitchen.done) == 1, "the loser does nothing more"
    assert run.verify().ok


def test_what_losers_wrote_and_said_stays(load: Any, kitchen: Any, define: Any, memory: Memory) -> None:
    define("mine")
    defs = """
  keep: {kind: task, action: update_memory, inputs: {memory: {mine: {n: 1}}}}
  say: {kind: task, action: send_text_message, inputs: {text: from the loser}}
  look: {kind: task, action: note, inputs: {seen: "=$context.memory"}}
"""
    first = "{do: keep}, {do: say}, {do: ring_b}, {do: end_a}"
    flow = load(both(first, "{do: end_b}", strategy="wait_any", defs=defs.strip(), after="- do: look"))
    run = flow.run(owner="mira", thread="t1").check()
    assert run.messages == ["from the loser"]
    assert kitchen.done == [{"seen": {"mine": {"n": 1}}}]
    assert memory.scope(user="mira").value("mine") == {"n": 1}
    assert [one.text for one in messages(memory, open_thread(memory, owner="mira", id="t1"), 9)] == ["from the loser"]
    assert "keep" not in run.outputs


def test_a_failure_before_any_success_fails_and_one_after_it_does_not(load: Any, kitchen: Any) -> None:
    early = load(both("{do: burn}", "{do: end_b}", strategy="wait_any")).run(owner="mira")
    assert (early.status, early.error.step) == ("failed", "burn")
    kitchen.bell("b").ring()
    late = load(both("{do: end_a}, {do: burn}", "{do: give_2}", strategy="wait_any")).run(owner="mira")
    assert (late.status, late.outputs) == ("completed", {"give_2": 2})
    kitchen.bell("a").ring()
    assert load(both("{do: give_1}", "{do: give_1}", strategy="wait_any")).run(owner="mira").outputs == {"give_1": 1}


def test_branches_that_have_not_begun_do_not_begin_after_somebody_has_won(load: Any, kitchen: Any) -> None:
    text = """
    defs: {a: {kind: task, action: note, inputs: {n: 1}}, b: {kind: task, action: note, inputs: {n: 2}}}
    flow: [{parallel: {strategy: wait_any, steps: [{do: a}, {do: b}, {do: b}]}}]
    """
    run = load(text, behaviour=Behaviour(branches=1)).run(owner="mira").check()
    assert (kitchen.done, run.outputs) == ([{"n": 1}], {"a": {"n": 1}})


def test_of_those_that_end_at_once_exactly_one_wins(load: Any, kitchen: Any) -> None:
    names = [f"n{number}" for number in range(8)]
    met = threading.Barrier(len(names))

    def act(call: Call) -> Any:
        met.wait(PATIENCE)
        call.place.set_context({call.task: True})
        return call.task

    kitchen.add("race", act)
    tasks = ", ".join(f"{one}: {{kind: task, action: race}}" for one in names)
    steps = ", ".join(f"{{do: {one}}}" for one in names)
    flow = load(f"defs: {{{tasks}}}\nflow: [{{parallel: {{strategy: wait_any, steps: [{steps}]}}}}]")
    for _ in range(20):
        run = flow.run(owner="mira").check()
        [winner] = run.outputs
        assert run.outputs == {winner: winner}
        assert set(run.context) == {"memory", winner}
        events = run.events
        assert events[-1].kind == "exec_end"
        assert [event.index for event in events] == list(range(1, len(events) + 1))
        assert run.verify().ok
        found = flow.find(run.id)
        assert found.outputs == run.outputs


def test_a_branch_that_has_nothing_to_do_wins(load: Any, kitchen: Any) -> None:
    text = """
    defs: {a: {kind: task, action: stand, inputs: {bell: a}}}
    flow:
      - parallel:
          strategy: wait_any
          steps: [{do: a}, {conditional: {when: [{condition: false, steps: [{do: a}]}]}}]
    """
    assert load(text).run(owner="mira").check().outputs == {}


def test_losers_of_an_inner_block_are_stopped_with_the_outer_one(load: Any, kitchen: Any) -> None:
    ended = threading.Event()
    tried: list[str] = []

    def act(call: Call) -> Any:
        kitchen.bell("deep").await_ring()
        try:
            call.place.set_context({"deep": True})
            tried.append("changed")
        except Stopped:
            tried.append("stopped")
        ended.set()

    kitchen.add("deep", act)
    flow = load(
        """
    defs: {deep: {kind: task, action: deep}, quick: {kind: task, action: quick}}
    flow:
      - parallel:
          strategy: wait_any
          steps:
            - parallel: {steps: [{parallel: {steps: [{do: deep}]}}]}
            - do: quick
    """.replace("action: quick", "action: guest"),
        actions=[*kitchen.actions.values(), kitchen.add("guest", lambda call: kitchen.bell("deep").await_guests())],
    )
    run = flow.run(owner="mira").check()
    kitchen.bell("deep").ring()
    assert ended.wait(PATIENCE)
    assert tried == ["stopped"]
    assert "deep" not in flow.find(run.id).context


# what cannot be done inside


@pytest.mark.parametrize("strategy", ["wait_all", "wait_any"])
def test_suspending_in_a_branch_is_an_error(load: Any, kitchen: Any, strategy: str) -> None:
    text = """
    defs: {ask: {kind: task, action: ask}, reply: {kind: task, action: wait_for_reply}}
    flow: [%s]
    """
    for task in ("ask", "reply"):
        inside = f"{{parallel: {{strategy: {strategy}, steps: [{{do: {task}}}]}}}}"
        run = load(text % inside).run(owner="mira")
        assert (run.status, run.error.step) == ("failed", task)
        assert "wait" in run.error.message
        deeper = f"{{loop: {{type: for_each, for_each: {{in: [1]}}, steps: [{inside}]}}}}"
        assert load(text % deeper).run(owner="mira").status == "failed"
        assert load(text % f"{{do: {task}}}").run(owner="mira").status == "waiting"


def test_the_limit_of_steps_counts_all_branches(load: Any, kitchen: Any) -> None:
    text = """
    defs: {a: {kind: task, action: note, inputs: {n: 1}}}
    flow: [{parallel: {steps: [{do: a}, {do: a}, {do: a}]}}, {do: a}]
    """
    assert load(text, behaviour=Behaviour(steps=4)).run(owner="mira").check()
    run = load(text, behaviour=Behaviour(steps=3)).run(owner="mira")
    assert (run.status, run.error.type) == ("failed", "limit_exceeded")
    assert run.error.details.get("limit") == 3
    assert load(text, behaviour=Behaviour(steps=1)).run(owner="mira").error.type == "limit_exceeded"
    assert 7 <= len(kitchen.done) <= 8


@pytest.mark.parametrize("ends", ["fails", "succeeds"])
def test_a_loser_that_ends_later_is_not_on_record(load: Any, kitchen: Any, ends: str) -> None:
    """It ends while the run goes on behind the block."""
    losers: list[threading.Thread] = []

    def lose(call: Call) -> Any:
        losers.append(threading.current_thread())
        kitchen.bell("lose").await_ring()
        if ends == "fails":
            raise RuntimeError("long after")

    kitchen.add("lose", lose)
    kitchen.add("win", lambda call: kitchen.bell("lose").await_guests())
    flow = load("""
    defs:
      lose: {kind: task, action: lose}
      win: {kind: task, action: win}
      end: {kind: task, action: stand, inputs: {bell: end}}
    flow: [{parallel: {strategy: wait_any, steps: [{do: lose}, {do: win}]}}, {do: end}, {do: end}]
    """)
    ended: list[Any] = []
    running = threading.Thread(target=lambda: ended.append(flow.run(owner="mira")))
    running.start()
    kitchen.bell("end").await_guests()
    kitchen.bell("lose").ring()
    losers[0].join(PATIENCE)
    kitchen.bell("end").ring()
    running.join(PATIENCE)
    [run] = ended
    steps = [event.step for event in run.check().events if event.kind == "step_record"]
    assert "win" in steps
    assert "lose" not in steps
    assert "lose" not in run.outputs
