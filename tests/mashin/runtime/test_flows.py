"""Flows, branches, attempts and failures: which steps are taken, in which order, and what comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoranda.api.memory import Memory
from memoranda.errors import MemorandaError, ModelFailed, RunFailed
from memoranda.mashin import Behaviour, Budget, Machine, Run

Load = Callable[..., Machine]


def taken(run: Run) -> list[str]:
    """Return the steps of a run in the order in which the ledger has them."""
    return [str(event.step) for event in run.events if event.kind == "step_record"]


# flows


def test_run_comes_back_and_goto_does_not(load: Load) -> None:
    text = """
    implements
      compute first
        { at: "gate" }
      {word} flow(harvest)
      compute last
        { at: "home", from: picked.fruit }
      flow harvest
        compute picked
          { fruit: "pears" }
    """
    back = load(text.replace("{word}", "run")).run().check()
    assert (taken(back), back.output) == (["first", "picked", "last"], {"at": "home", "from": "pears"})
    gone = load(text.replace("{word}", "goto")).run().check()
    assert (taken(gone), gone.output) == (["first", "picked"], {"fruit": "pears"})


def test_a_goto_inside_of_a_flow_replaces_that_flow_only(load: Load) -> None:
    run = load("""
    implements
      run flow(sort)
      compute last
        { crates: packed.crates, weighed: steps.weighed }
      flow sort
        compute sorted
          { good: 6 }
        goto flow(pack)
        compute weighed
          { kilos: 3 }
      flow pack
        compute packed
          { crates: sorted.good / 2 }
    """).run()
    assert run.check().output == {"crates": 3, "weighed": None}
    assert taken(run) == ["sorted", "packed", "last"]


def test_a_flow_gives_its_last_value(load: Load) -> None:
    run = load("""
    implements
      run flow(count)
      flow count
        compute trees
          { rows: 4 }
        { trees: trees.rows * 12 }
    """).run()
    assert run.check().output == {"trees": 48}


def test_a_machine_of_flows_begins_with_the_first(load: Load) -> None:
    run = load("""
    implements
      flows
        flow morning
          compute bell
            { rings: 1 }
          goto flow(evening)
        flow evening
          compute rest
            { rings: bell.rings + 1 }
    """).run()
    assert run.check().output == {"rings": 2}


def test_a_loop_by_goto_ends_where_its_condition_ends_it(load: Load) -> None:
    run = load("""
    accepts
      until as integer, is required
    implements
      goto flow(count)
      flow count
        compute counted
          { n: (steps.counted?.n ?? 0) + 1 }
        decide more
          when counted.n < input.until
            goto flow(count)
          otherwise
            { n: counted.n }
    """).run({"until": 500})
    assert run.check().output == {"n": 500}
    assert taken(run).count("counted") == 500
    assert run.verify().ok


# branches


def test_the_first_branch_that_holds_is_taken_and_on_record(load: Load) -> None:
    machine = load("""
    accepts
      degrees as number, is required
    implements
      decide frost
        when input.degrees < 0
          { light: "candles" }
        when input.degrees < 5
          { light: "lamp" }
        otherwise
          { light: "none" }
    """)
    expected = {-3: ("candles", "when 1"), 3: ("lamp", "when 2"), 12: ("none", "otherwise")}
    for degrees, (light, branch) in expected.items():
        run = machine.run({"degrees": degrees}).check()
        assert run.output == {"light": light}
        assert [event.detail["branch"] for event in run.events if event.step == "frost"] == [branch]


def test_no_branch_that_holds_gives_null(load: Load) -> None:
    text = """
    implements
      decide frost
        when {test}
          { light: "lamp" }
      compute last
        { light: frost }
    """
    assert load(text.replace("{test}", "1 > 2")).run().check().output == {"light": None}
    assert load(text.replace("{test}", "2 > 1")).run().check().output == {"light": {"light": "lamp"}}


def test_steps_inside_of_a_branch_are_taken_only_there(load: Load, memory: Memory) -> None:
    machine = load("""
    accepts
      keep as boolean, is required
    ensures
      allowed to memory
    implements
      decide way
        if input.keep
          remember note
            content: "pruned"
            collection: "trees"
          { kept: note.stored }
        else
          { kept: false }
    """)
    assert machine.run({"keep": False}).check().output == {"kept": False}
    assert memory.collections.list() == []
    assert machine.run({"keep": True}).check().output == {"kept": True}
    assert [one.entries for one in memory.collections.list()] == [1]


# failures

BROKEN = """
accepts
  tree as map
implements
  compute first
    { at: 1 }
  compute height
    { metres: input.tree.measures.height }
  compute last
    { at: 2 }
"""


def test_a_failure_halts_the_machine_and_says_where(load: Load) -> None:
    machine = load(BROKEN)
    run = machine.run({"tree": {}})
    assert run.status == "failed"
    assert run.error is not None
    assert (run.error.type, run.error.step) == ("runtime", "height")
    assert taken(run) == ["first", "height"]
    assert run.events[-1].detail["status"] == "failed"
    assert run.events[-1].detail["at"] == "height"
    with pytest.raises(RunFailed, match="height"):
        run.check()
    assert machine.run({"tree": {"measures": {"height": 3}}}).check().output == {"at": 2}


def test_on_failure_gives_the_output_instead(load: Load) -> None:
    handled = BROKEN + "  on failure\n    compute sorry\n      { type: error.type, step: error.step, had: first.at }\n"
    run = load(handled).run({"tree": {}}).check()
    assert run.output == {"type": "runtime", "step": "height", "had": 1}
    assert run.error is None
    assert taken(run) == ["first", "height", "sorry"]
    assert load(handled).run({"tree": {"measures": {"height": 3}}}).check().output == {"at": 2}


def test_on_failure_of_a_flow_lets_the_rest_go_on(load: Load) -> None:
    run = load("""
    accepts
      tree as map
    implements
      run flow(measure)
      compute last
        { tall: measured }
      flow measure
        compute measured
          input.tree.measures.height
        on failure
          compute measured_badly
            { message: error.message }
    """).run({"tree": {}})
    assert run.error is not None or run.output == {"tall": None}
    assert taken(run)[:2] == ["measured", "measured_badly"]


def test_a_failure_inside_of_on_failure_is_the_failure_of_the_run(load: Load) -> None:
    text = BROKEN + "  on failure\n    compute worse\n      { x: input.tree.roots.depth }\n"
    run = load(text).run({"tree": {}})
    assert run.error is not None
    assert run.error.step == "worse"
    fine = load(text).run({"tree": {"roots": {"depth": 2}}})
    assert fine.check().output == {"x": 2}


def test_the_nearest_on_failure_catches(load: Load) -> None:
    text = """
    accepts
      tree as map
    implements
      run flow(outer)
      flow outer
        run flow(inner)
        on failure
          compute from_outer
            { by: "outer" }
      flow inner
        compute deep
          input.tree.a.b
        {inner}
      on failure
        compute from_machine
          { by: "machine" }
    """
    caught = "on failure\n          compute from_inner\n            { by: 'inner' }"
    assert load(text.replace("{inner}", caught)).run({"tree": {}}).check().output == {"by": "inner"}
    assert load(text.replace("{inner}", "{ done: 1 }")).run({"tree": {}}).check().output == {"by": "outer"}


def test_each_on_failure_sees_its_own_error(load: Load) -> None:
    run = load("""
    implements
      compute first
        null.name
      flow inner
        compute second
          null.name
        on failure
          compute seen
            { step: error.step }
      on failure
        run flow(inner)
        compute after
          { inner: seen.step, outer: error.step }
    """).run()
    assert run.check().output == {"inner": "second", "outer": "first"}


def test_the_failure_of_a_model_can_be_caught_by_its_type(load: Load, scripted: Any) -> None:
    text = """
    ensures
      allowed to llm_call
    implements
      ask name, using: "openai:gpt"
        with task "Name a pear"
        returns
          pear as text
      on failure
        compute sorry
          { type: error.type, step: error.step }
    """
    reasons = {"timeout": "timeout", "rate_limited": "model", "refused": "model", "provider": "model"}
    for reason, type in reasons.items():
        failing = ModelFailed("no answer", hint="", reason=reason, retryable=False, model="m")
        run = load(text, model=scripted(failing)).run().check()
        assert run.output == {"type": type, "step": "name"}, reason
    assert load(text, model=scripted({"pear": "Conference"})).run().check().output == {"pear": "Conference"}


def test_an_answer_that_does_not_fit_is_asked_for_twice_more_and_then_fails(load: Load, scripted: Any) -> None:
    text = """
    ensures
      allowed to llm_call
    implements
      ask ripe, using: "openai:gpt"
        with task "How ripe is it?"
        returns
          stage as text, choices: ["green", "ripe"]
          days as integer, range: 0..30
    """
    bad = {"stage": "blue", "days": 90}
    model = scripted(bad, bad, bad, {"stage": "ripe", "days": 3})
    run = load(text, model=model).run()
    assert run.error is not None
    assert (run.error.type, run.error.step) == ("invalid_answer", "ripe")
    assert len(model.asked) == 3
    assert "stage" in run.error.message
    mended = scripted(bad, bad, {"stage": "ripe", "days": 3})
    assert load(text, model=mended).run().check().output == {"stage": "ripe", "days": 3}
    assert len(mended.asked) == 3


# attempts


def failing_model(scripted: Any, times: int) -> Any:
    error = ModelFailed("overloaded", hint="", reason="provider", retryable=True, model="m")
    return scripted(*[error] * times, {"pear": "Conference"})


RETRIED = """
ensures
  allowed to llm_call
implements
  ask name, using: "openai:gpt"
    with task "Name a pear"
    returns
      pear as text
    retry
      {config}
"""


@pytest.mark.parametrize(
    ("config", "slept"),
    [
        ("max: 4\n      delay: 100", [0.1, 0.2, 0.4]),
        ("max: 4\n      delay: 100\n      backoff: 'linear'", [0.1, 0.2, 0.3]),
        ("max: 4\n      delay: 100\n      backoff: 'fixed'", [0.1, 0.1, 0.1]),
        ("max: 4", [1.0, 2.0, 4.0]),
    ],
    ids=["exponential", "linear", "fixed", "by default"],
)
def test_each_attempt_waits_and_is_governed_by_itself(
    load: Load, scripted: Any, config: str, slept: list[float]
) -> None:
    waited: list[float] = []
    model = failing_model(scripted, 3)
    machine = load(RETRIED.replace("{config}", config), model=model, behaviour=Behaviour(sleep=waited.append))
    run = machine.run().check()
    assert run.output == {"pear": "Conference"}
    assert waited == pytest.approx(slept)
    assert len(model.asked) == 4
    decided = [event for event in run.events if event.kind == "policy_decision"]
    assert len(decided) == 4
    assert taken(run) == ["name"] * 4


def test_attempts_end_with_the_last_failure(load: Load, scripted: Any) -> None:
    for failures, status in ((3, "failed"), (2, "completed")):
        model = failing_model(scripted, failures)
        text = RETRIED.replace("{config}", "delay: 1")
        run = load(text, model=model, behaviour=Behaviour(sleep=lambda _: None)).run()
        assert (run.status, len(model.asked)) == (status, 3)


def test_a_denial_is_not_tried_again(load: Load, scripted: Any) -> None:
    waited: list[float] = []
    text = RETRIED.replace("{config}", "max: 5")
    model = scripted({"pear": "Conference"})
    behaviour = Behaviour(sleep=waited.append)
    run = load(text.replace("allowed to llm_call", "allowed to memory"), model=model, behaviour=behaviour).run()
    assert run.status == "failed"
    assert waited == []
    assert len([event for event in run.events if event.decision == "deny"]) == 1
    assert load(text, model=failing_model(scripted, 1), behaviour=behaviour).run().check().status == "completed"
    assert waited == [1.0]


def test_a_block_of_steps_is_tried_again_as_a_whole(load: Load, memory: Memory, scripted: Any) -> None:
    model = failing_model(scripted, 1)
    run = load(
        """
    ensures
      allowed to llm_call, memory
    implements
      retry
        max: 2
        delay: 1
        remember note
          content: "trying, " + UUID.generate()
          collection: "tries"
        ask name, using: "openai:gpt"
          with task "Name a pear"
          returns
            pear as text
    """,
        model=model,
        behaviour=Behaviour(sleep=lambda _: None),
    ).run()
    assert run.check().output == {"pear": "Conference"}
    assert taken(run) == ["note", "name", "note", "name"]
    assert len(memory.scope().entries(collection="tries")) == 2


# the end of runaways


def test_flows_that_never_end_are_stopped(load: Load) -> None:
    text = """
    implements
      goto flow(round)
      flow round
        compute turn
          { n: (steps.turn?.n ?? 0) + 1 }
        decide more
          when turn.n < {turns}
            goto flow(round)
          otherwise
            { n: turn.n }
    """
    run = load(text.replace("{turns}", "1000000")).run()
    assert run.error is not None
    assert run.error.type == "budget_exceeded"
    assert run.verify().ok
    assert load(text.replace("{turns}", "1000")).run().check().output == {"n": 1000}


def test_flows_inside_one_another_are_stopped(load: Load) -> None:
    text = """
    accepts
      depth as integer, is required
    implements
      run flow(down)
      flow down
        compute level
          { n: (steps.level?.n ?? 0) + 1 }
        decide deeper
          when level.n < input.depth
            run flow(down)
          otherwise
            { n: level.n }
    """
    machine = load(text)
    run = machine.run({"depth": 1_000_000})
    assert run.error is not None
    assert run.error.type == "runtime"
    assert "are nested" in run.error.message
    assert machine.run({"depth": 10}).check().output == {"n": 10}


def test_a_budget_that_is_used_up_cannot_be_caught_for_ever(load: Load) -> None:
    run = load("""
    implements
      run flow(a)
      flow a
        compute turn
          { n: 1 }
        goto flow(a)
        on failure
          goto flow(a)
    """).run(budget=Budget(steps=50))
    assert run.status == "failed"
    assert run.error is not None
    assert run.error.type in ("budget_exceeded", "runtime")


def test_lists_and_texts_that_grow_too_large_are_a_failure(load: Load) -> None:
    machine = load("""
    accepts
      many as integer, is required
    implements
      compute rows
        (1..input.many).map(n => "row " + n)
      compute text
        { size: rows.join("").length }
    """)
    for many in (10**6, 10**12):
        run = machine.run({"many": many})
        assert run.error is not None
        assert (run.error.type, run.error.step) == ("runtime", "rows")
        assert "limit" in run.error.message
    assert machine.run({"many": 3}).check().output == {"size": 15}


def test_recursion_in_an_expression_is_a_failure(load: Load) -> None:
    text = """
    accepts
      deep as integer, is required
    implements
      compute nested
        (1..input.deep).reduce((inner, n) => [inner], 0)
    """
    run = load(text).run({"deep": 50_000})
    assert run.status == "failed"
    assert run.error is not None
    assert run.error.step in ("nested", "")
    assert run.verify().ok
    assert load(text).run({"deep": 3}).check().output == [[[0]]]


def test_a_value_whose_text_is_shared_many_times_is_a_failure(load: Load) -> None:
    text = """
    accepts
      many as integer, is required
    implements
      compute copies
        let page = "x".repeat(90000)
        (1..input.many).map(n => page)
      compute done
        { copies: copies.length }
    """
    run = load(text).run({"many": 2_000})
    assert run.error is not None
    assert (run.error.type, run.error.step) == ("runtime", "copies")
    assert "limit" in run.error.message
    assert load(text).run({"many": 3}).check().output == {"copies": 3}


# what is outside fails in its own way


ASKING = """
ensures
  allowed to llm_call
implements
  ask name{using}
    with task "Name a pear"
    returns
      pear as text
"""


def test_a_missing_key_names_its_setting(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    run = load(ASKING.replace("{using}", ', using: "anthropic:claude-sonnet-4-6"')).run()
    assert run.error is not None
    assert (run.error.type, run.error.step) == ("model", "name")
    with pytest.raises(RunFailed) as caught:
        run.check()
    assert "ANTHROPIC_API_KEY" in str(caught.value)
    assert run.verify().ok


def test_a_model_that_is_not_named_is_the_one_that_was_given(load: Load, scripted: Any) -> None:
    text = ASKING.replace("{using}", "")
    run = load(text).run()
    assert run.error is not None
    assert run.error.type == "model"
    assert "using" in run.error.details["hint"]
    assert load(text, model=scripted({"pear": "Conference"})).run().check().output == {"pear": "Conference"}


def test_whatever_a_model_raises_the_run_ends_and_is_on_record(load: Load, memory: Memory, scripted: Any) -> None:
    text = ASKING.replace("{using}", ', using: "openai:gpt"')
    for error in (ValueError("boom"), KeyError("x"), RecursionError()):
        run = load(text, model=scripted(error)).run()
        assert run.status == "failed"
        assert run.error is not None
        assert run.error.step == "name"
        assert run.verify().ok
    assert [one.status for one in memory.runs.list()] == ["failed"] * 3
    assert load(text, model=scripted({"pear": "Conference"})).run().check().status == "completed"


def test_an_error_that_says_what_cannot_be_kept_is_a_failure_that_can(
    load: Load, memory: Memory, scripted: Any
) -> None:
    text = ASKING.replace("{using}", ', using: "openai:gpt"')
    said = ModelFailed("half \ud800 a word" + "!" * 9_000, reason="unreachable", model="gpt")
    run = load(text, model=scripted(said)).run()
    assert run.error is not None
    assert run.error.message.startswith("half ? a word!!")
    assert len(run.error.message) < 5_000
    guarded = text.replace("implements", "  guards\n    own\nimplements", 1)
    stopped = load(guarded, guards={"own": lambda data, when: "half \ud800 a reason"}).run()
    assert stopped.error is not None
    assert stopped.error.message.endswith("half ? a reason")
    assert [one.status for one in memory.runs.list()] == ["failed"] * 2
    assert run.replay().same and stopped.replay().same


def test_an_interrupt_is_not_swallowed(load: Load, scripted: Any) -> None:
    text = ASKING.replace("{using}", ', using: "openai:gpt"') + "  on failure\n    compute no\n      1\n"

    class Interrupted:
        name = "interrupted"

        def reply(self, ask: Any, *, timeout: float = 30.0) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(text, model=Interrupted()).run()
    assert load(text, model=scripted(ValueError("boom"))).run().check().output == 1


# where and with what a run works


def test_a_run_works_in_the_memory_of_its_user_or_scope(load: Load, memory: Memory) -> None:
    machine = load("""
    ensures
      allowed to memory
    implements
      remember keep
        content: "pears for " + context.who
        collection: "orders"
      recall find
        query: "pears"
        collection: "orders"
      compute done
        find.results.map(r => r.content)
    """)
    assert machine.run(user="ada", context={"who": "Ada"}).check().output == ["pears for Ada"]
    assert machine.run(user="bob", context={"who": "Bob"}).check().output == ["pears for Bob"]
    assert machine.run(scope="user:ada/agent:shop", context={"who": "shop"}).check().output == ["pears for shop"]
    assert [one.content for one in memory.scope(user="ada").entries(collection="orders")] == ["pears for Ada"]
    assert memory.scope().entries(collection="orders") == []


def test_calls_that_make_no_sense_are_refused(load: Load) -> None:
    machine = load("accepts\n  n as number\nimplements\n  compute x\n    input.n\n")
    wrong: list[dict[str, Any]] = [
        {"mode": "production"},
        {"user": "ada", "scope": "user:bob"},
        {"assuming": {"x": 1}},
        {"input": [1]},
        {"input": {"n": object()}},
        {"scope": "nonsense"},
    ]
    for options in wrong:
        with pytest.raises(MemorandaError):
            machine.run(**options)
    assert machine.memory.runs.list() == []
    assert machine.run({"n": 1}).check().output == 1
