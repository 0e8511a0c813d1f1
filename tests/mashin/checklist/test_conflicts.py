"""Where texts about mashin disagree: what is chosen here, and that both spellings work where both may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import memoranda
from memoranda.api.memory import Memory
from memoranda.errors import SourceError
from memoranda.mashin import Behaviour, Machine

Load = Callable[..., Machine]


def test_memory_is_content_in_a_collection_and_not_a_value_under_a_key(load: Load, memory: Memory) -> None:
    older = 'ensures\n  allowed to memory\nimplements\n  remember note\n    key: "sky"\n    value: "clear"\n'
    with pytest.raises(SourceError) as caught:
        load(older)
    shown = str(caught.value) + " ".join(one.hint or "" for one in caught.value.diagnostics)
    assert "content" in shown
    assert "collection" in shown
    load(older.replace("key: ", "content: ").replace("value: ", "collection: ")).run().check()
    assert [one.name for one in memory.collections.list()] == ["clear"]


def test_a_recall_gives_a_list_of_results_and_no_map_of_keys(load: Load, memory: Memory) -> None:
    memory.scope().remember("clear sky", collection="sky")
    text = 'ensures\n  allowed to memory\nimplements\n  recall find\n    {line}\n    collection: "sky"\n'
    with pytest.raises(SourceError):
        load(text.replace("{line}", 'key: "sky"'))
    output = load(text.replace("{line}", 'query: "sky"')).run().check().output
    assert isinstance(output["results"], list)
    assert output["count"] == 1


def test_without_ensures_memory_is_denied(load: Load, memory: Memory) -> None:
    steps = 'implements\n  remember note\n    content: "clear"\n    collection: "sky"\n'
    machine = load(steps)
    assert "not_allowed" in [one.code for one in machine.diagnostics], "the checker says so before it runs"
    run = machine.run()
    assert run.error is not None
    assert run.error.type == "permission_denied"
    assert memory.collections.list() == []
    fine = load("ensures\n  allowed to memory\n" + steps)
    assert "not_allowed" not in [one.code for one in fine.diagnostics]
    assert fine.run().check().output["stored"] is True


@pytest.mark.parametrize(
    "ensures",
    [
        "ensures\n  permissions\n    allowed to\n      llm_call",
        "ensures\n  permissions\n    allowed to llm_call",
        "ensures\n  allowed to llm_call",
        "ensures\n  allowed to reason",
        "ensures\n  allowed to\n    reason",
        "ensures\n  allowed to compute.llm.reason",
        "ensures\n  allowed to compute.llm_reason",
    ],
)
def test_permissions_are_read_with_and_without_a_block_and_under_every_name(
    load: Load, scripted: Any, ensures: str
) -> None:
    steps = 'implements\n  ask name using "openai:gpt"\n    with task "t"\n    returns\n      star as text\n'
    model = scripted({"star": "Vega"}, again=True)
    assert load(f"{ensures}\n{steps}", model=model).run().check().output == {"star": "Vega"}
    denied = load(f"{ensures.replace('allowed', 'not allowed')}\n{steps}", model=model).run()
    assert denied.status == "failed"
    assert len(model.asked) == 1


@pytest.mark.parametrize(
    "ask",
    [
        'ask name, using: "openai:gpt"\n    with role "r"\n    with task "t"',
        'ask name using "openai:gpt"\n    with task "t"\n    with role "r"',
        'ask name, using "openai:gpt"\n    with role\n      "r"\n    with task\n      "t"',
        'ask name using: "openai:gpt"\n    with task "t"\n    with role "r"',
    ],
)
def test_asks_are_read_in_every_spelling(load: Load, scripted: Any, ask: str) -> None:
    model = scripted({"star": "Vega"})
    text = f"ensures\n  allowed to llm_call\nimplements\n  {ask}\n    returns\n      star as text\n"
    assert load(text, model=model).run().check().output == {"star": "Vega"}
    assert (model.asked[0].instructions, model.tasks) == ("r", ["t"])


WAYS = {
    "when": "when input.n > 2\n      { size: 'large' }\n    when input.n > 1\n      { size: 'middle' }\n"
    "    otherwise\n      { size: 'small' }",
    "if": "if input.n > 2\n      { size: 'large' }\n    else if input.n > 1\n      { size: 'middle' }\n"
    "    else\n      { size: 'small' }",
}


@pytest.mark.parametrize("way", WAYS)
def test_branches_are_read_in_both_spellings(load: Load, way: str) -> None:
    machine = load(f"accepts\n  n as number\nimplements\n  decide size\n    {WAYS[way]}\n")
    assert [machine.run({"n": n}).check().output["size"] for n in (3, 2, 1)] == ["large", "middle", "small"]


def test_vectors_are_kept_in_the_one_database_file(path: str, tmp_path: Any, write: Any) -> None:
    text = 'ensures\n  allowed to memory\nimplements\n  remember note\n    content: "clear"\n    collection: "sky"\n'
    with memoranda.open(path, embedder="hashing:64") as memory:
        memoranda.mashin.load(write(text), memory=memory).run().check()
    assert {one.name.split("-")[0] for one in tmp_path.iterdir()} == {"memory.db"}
    with memoranda.open(path, embedder="hashing:64") as memory:
        assert memory.scope().recall("clear", collection="sky").count == 1


@pytest.mark.parametrize("name", ["anthropic:claude-sonnet-4-6", "anthropic:haiku-4", "haiku-4-5", "some/thing:else@7"])
def test_the_name_of_a_model_is_taken_as_it_is(load: Load, scripted: Any, name: str) -> None:
    text = f'ensures\n  allowed to llm_call\nimplements\n  ask star, using: "{name}"\n    with task "t"\n'
    machine = load(text, model=scripted("Vega"))
    assert [one for one in machine.diagnostics if one.severity == "error"] == []
    run = machine.run().check()
    assert run.output == {"text": "Vega"}


def test_a_denial_is_recorded_and_chained(load: Load, memory: Memory) -> None:
    run = load('implements\n  recall find\n    query: "x"\n    collection: "sky"\n').run()
    denial, record = run.events[1:3]
    assert (denial.kind, denial.decision) == ("policy_decision", "deny")
    assert denial.prev_hash == run.events[0].hash
    assert record.prev_hash == denial.hash
    assert run.verify().length == len(run.events) == 4
    assert memory.ledger.verify().ok


def test_a_capability_is_the_same_under_both_of_its_long_names(load: Load, scripted: Any) -> None:
    steps = 'implements\n  ask star, using: "openai:gpt"\n    with task "t"\n'
    for allowed, denied in (
        ("compute.llm.reason", "compute.llm_reason"),
        ("compute.llm_reason", "llm_call"),
        ("reason", "compute.llm.reason"),
    ):
        model = scripted("Vega", again=True)
        assert load(f"ensures\n  allowed to {allowed}\n{steps}", model=model).run().check()
        both = load(f"ensures\n  allowed to {allowed}\n  not allowed to {denied}\n{steps}", model=model).run()
        assert both.status == "failed"
        assert len(model.asked) == 1


# choices where the language is silent


def test_a_recall_without_a_namespace_looks_everywhere_unless_told_otherwise(load: Load, memory: Memory) -> None:
    memory.scope().remember("clear sky in the north", collection="sky", namespace="north")
    memory.scope().remember("clear sky somewhere", collection="sky")
    text = 'ensures\n  allowed to memory\nimplements\n  recall find\n    query: "clear sky"\n    collection: "sky"\n'
    assert load(text).run().check().output["count"] == 2
    narrow = load(text, behaviour=Behaviour(without_namespace="unnamed")).run().check()
    assert [one["content"] for one in narrow.output["results"]] == ["clear sky somewhere"]


def test_a_namespace_without_a_value_is_a_failure_and_not_everything(load: Load, memory: Memory) -> None:
    memory.scope().remember("clear sky in the north", collection="sky", namespace="north")
    machine = load("""
    accepts
      where as text
    ensures
      allowed to memory
    implements
      recall find
        query: "clear sky"
        collection: "sky"
        namespace: input.where
    """)
    run = machine.run({})
    assert run.status == "failed"
    assert run.error is not None
    assert "namespace" in run.error.message
    assert machine.run({"where": "north"}).check().output["count"] == 1


def test_a_filter_compares_values_as_they_are(load: Load, memory: Memory) -> None:
    entries: list[Any] = [1, "1", True, {"row": 1}, {"row": 1, "seat": 2}, None]
    for number, value in enumerate(entries):
        memory.scope().remember(f"star {number}", collection="sky", metadata={"value": value})
    memory.scope().remember("star without", collection="sky")
    machine = load("""
    accepts
      value as any
    ensures
      allowed to memory
    implements
      recall find
        query: "star"
        collection: "sky"
        limit: 20
        filter: { value: input.value }
    """)
    for number, value in enumerate(entries):
        found = [one["content"] for one in machine.run({"value": value}).check().output["results"]]
        assert found == [f"star {number}"], value
    assert machine.run({"value": "nothing like it"}).check().output["count"] == 0


def test_a_value_in_a_filter_is_no_operator(load: Load, memory: Memory) -> None:
    memory.scope().remember("the star of ada", collection="sky", metadata={"owner": "ada"})
    machine = load("""
    accepts
      owner as any
    ensures
      allowed to memory
    implements
      recall find
        query: "star"
        collection: "sky"
        filter: { owner: input.owner }
    """)
    for trick in ({"$ne": "bob"}, {"$exists": True}, {"$gte": ""}, {"$in": ["ada"]}):
        run = machine.run({"owner": trick})
        assert run.status == "failed" or run.output["count"] == 0, trick
    assert machine.run({"owner": "ada"}).check().output["count"] == 1


def test_an_unknown_collection_has_nothing_and_is_no_error(load: Load, memory: Memory) -> None:
    text = 'ensures\n  allowed to memory\nimplements\n  recall find\n    query: "x"\n    collection: "nowhere"\n'
    assert load(text).run().check().output == {"results": [], "count": 0}
    memory.scope().remember("x", collection="nowhere")
    assert load(text).run().check().output["count"] == 1


def test_null_in_a_text_is_nothing(load: Load) -> None:
    machine = load('accepts\n  star as text\nimplements\n  compute line\n    "[${input.star}]"\n')
    assert machine.run({}).check().output == "[]"
    assert machine.run({"star": "Vega"}).check().output == "[Vega]"


def test_a_field_that_is_missing_is_null_and_one_of_null_is_a_failure(load: Load) -> None:
    machine = load(
        "accepts\n  star as map\nimplements\n  compute seen\n    [input.star.name, {more}]\n".replace(
            "{more}", "input.star.place.row"
        )
    )
    run = machine.run({"star": {}})
    assert run.error is not None
    assert run.error.type == "runtime"
    assert machine.run({"star": {"place": {}}}).check().output == [None, None]
    safe = load("accepts\n  star as map\nimplements\n  compute seen\n    [input.star.place?.row]\n")
    assert safe.run({"star": {}}).check().output == [None]


def test_what_needs_approval_in_a_test_is_as_good_as_approved(load: Load, memory: Memory) -> None:
    text = """
    ensures
      requires approval for memory
    implements
      remember note
        content: "clear"
        collection: "sky"
    """
    tested = load(text).run(mode="test").check()
    assert tested.output["stored"] is False
    assert [event.decision for event in tested.events if event.kind == "policy_decision"] == ["pending", "approved"]
    assert load(text).run().status == "waiting"
    assert memory.collections.list() == []


def test_governance_holds_in_tests_too(load: Load) -> None:
    text = """
    ensures
      {level} memory
    implements
      recall find
        query: "x"
        collection: "sky"
    verifies
      test "one"
        given {}
        expect { count: 0 }
    """
    assert load(text.replace("{level}", "allowed to")).test().passed == 1
    report = load(text.replace("{level}", "not allowed to")).test()
    assert (report.passed, report.failed) == (0, 1)
    [case] = report.cases
    assert case.failure is not None
    assert case.failure.error is not None
    assert case.failure.error.type == "permission_denied"


def test_an_ask_without_an_answer_in_a_test_fails_and_asks_nobody(load: Load, scripted: Any) -> None:
    text = 'ensures\n  allowed to llm_call\nimplements\n  ask star, using: "openai:gpt"\n    with task "t"\n'
    model = scripted("Vega")
    run = load(text, model=model).run(mode="test")
    assert run.error is not None
    assert run.error.step == "star"
    assert "assuming" in run.error.details["hint"]
    assert model.asked == []
    assumed = load(text, model=model).run(mode="test", assuming={"star": {"text": "Deneb"}})
    assert assumed.check().output == {"text": "Deneb"}
    assert load(text, model=model).run().check().output == {"text": "Vega"}


def test_what_a_test_assumes_comes_before_what_the_step_assumes(load: Load) -> None:
    text = """
    ensures
      allowed to llm_call
    implements
      ask star, using: "openai:gpt"
        with task "t"
        returns
          name as text
        assuming
          name: "of the step"
    """
    machine = load(text)
    assert machine.run(mode="test").check().output == {"name": "of the step"}
    told = machine.run(mode="test", assuming={"star": {"name": "of the test"}}).check()
    assert told.output == {"name": "of the test"}
