"""The vendor's reference page "Memory": one test for each of its statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import memoranda
from memoranda import Memory
from memoranda.errors import SchemaViolation, SourceError
from memoranda.mashin import Machine
from memoranda.mashin.formatter import format_text
from memoranda.testing import FakeClock

Load = Callable[..., Machine]

SHELVE = """
accepts
  leaf as any, is required
  shelf as text
  hall as text, default: "main"
ensures
  permissions
    allowed to
      memory
implements
  remember shelve
    content: input.leaf
    collection: "herbarium"
    metadata: { shelf: input.shelf }
    namespace: input.hall
"""
FIND = """
accepts
  about as text, is required
ensures
  permissions
    allowed to
      memory
implements
  recall find
    query: input.about
    collection: "herbarium"
"""
GUIDE = """
machine guide
  accepts
    question as text, is required
  responds with
    answer as text
    sheets as list
  ensures
    permissions
      allowed to
        llm_call, memory
  implements
    recall leaves
      query: input.question
      collection: "herbarium"
      limit: 5
      threshold: 0.1
    compute known
      let found = steps.leaves.results
      {
        text: found.map(leaf => leaf.content).join("\\n---\\n"),
        shelves: found.map(leaf => leaf.metadata.shelf)
      }
    ask answer, using: "anthropic:claude-sonnet-4-6"
      with role "Answer from the sheets alone."
      with task "Asked: ${input.question}\\n\\nSheets:\\n${known.text}"
      returns
        answer as text
      assuming
        answer: "It is in the sheets."
    compute told
      {
        answer: steps.answer.answer,
        sheets: known.shelves
      }
"""
DESK = """
machine desk
  accepts
    message as text, is required
    visit as text, is required
  ensures
    permissions
      allowed to
        llm_call, memory
  implements
    recall before
      query: input.message
      collection: "visits"
      namespace: input.visit
      limit: 5
    ask respond, using: "anthropic:claude-sonnet-4-6"
      with role "You sit at the desk of a herbarium."
      with task "So far:\\n${steps.before.results.map(turn => turn.content).join('\\n')}\\n\\nVisitor: ${input.message}"
      returns
        reply as text
      assuming
        reply: "Come in."
    remember turn
      content: "Visitor: " + input.message + "\\nDesk: " + steps.respond.reply
      collection: "visits"
      namespace: input.visit
      ttl: "90d"
"""


def remember(memory: Memory, *leaves: str, **metadata: Any) -> None:
    memory.at(memory.scope().scope).remember_many(
        [{"content": leaf, "metadata": metadata} for leaf in leaves], collection="herbarium"
    )


def contents(machine: Machine, **input: Any) -> list[Any]:
    return [one["content"] for one in machine.run(input).check().output["results"]]


def kinds(run: Any) -> list[tuple[str, str | None, str | None]]:
    return [(event.kind, event.step, event.decision) for event in run.events]


# --- what memory is -----------------------------------------------------------------------------------------------


def test_s3_01_remember_stores_and_recall_retrieves(load: Load) -> None:
    """A machine stores information in semantic memory with `remember` and retrieves it with `recall`."""
    assert load(SHELVE).run({"leaf": "The oak leaf has round lobes"}).output["stored"] is True
    assert contents(load(FIND), about="What lobes has the oak leaf?") == ["The oak leaf has round lobes"]


def test_s3_02_a_knowledge_base_is_built_by_one_machine_for_another(load: Load) -> None:
    """What one machine remembers is a knowledge base that others find things in."""
    for leaf in ("The oak leaf has round lobes", "The holly leaf has spines", "The ginkgo leaf is a fan"):
        load(SHELVE, name="archivist").run({"leaf": leaf}).check()
    assert contents(load(FIND, name="reader"), about="holly leaf spines")[0] == "The holly leaf has spines"


def test_s3_03_a_conversation_keeps_its_history(load: Load, scripted: Any) -> None:
    """Memory keeps the history of a conversation: a later turn is told what was said before."""
    model = scripted({"reply": "It is an oak."}, {"reply": "The oak again."})
    desk = load(DESK, model=model)
    desk.run({"message": "Which tree has round lobes?", "visit": "v1"}).check()
    desk.run({"message": "And which tree was that?", "visit": "v1"}).check()
    assert "Visitor: Which tree has round lobes?\nDesk: It is an oak." in model.tasks[1]
    assert "Visitor: Which tree" not in model.tasks[0].partition("So far:")[2].partition("\n\nVisitor:")[0]


def test_s3_04_what_is_retrieved_augments_what_is_generated(load: Load, memory: Memory, scripted: Any) -> None:
    """Retrieval-augmented generation: a model answers with what recall found in its prompt."""
    remember(memory, "The oak leaf has round lobes")
    model = scripted({"answer": "Round ones."})
    assert load(GUIDE, model=model).run({"question": "What lobes has the oak leaf?"}).output["answer"] == "Round ones."
    assert "The oak leaf has round lobes" in model.tasks[0]


def test_s3_05_the_runtime_checks_the_permission_of_each_operation(load: Load, memory: Memory) -> None:
    """Both operations are governed: the runtime checks the permission for memory before it does anything."""
    denied = load(SHELVE.replace("allowed to\n      memory", "not allowed to\n      memory")).run({"leaf": "oak"})
    assert denied.error is not None
    assert (denied.status, denied.error.type) == ("failed", "permission_denied")
    assert memory.scope().entries(collection="herbarium") == []
    load(SHELVE).run({"leaf": "oak"}).check()
    assert len(memory.scope().entries(collection="herbarium")) == 1


def test_s3_06_the_runtime_mediates_the_operation(load: Load, memory: Memory, embedder: Any) -> None:
    """An operation that is not permitted reaches neither the embedder nor the store."""
    refused = load(FIND.replace("allowed to\n      memory", "not allowed to\n      memory"))
    failure = refused.run({"about": "oak"}).error
    assert failure is not None and failure.type == "permission_denied"
    assert embedder.asked == []
    load(SHELVE).run({"leaf": "oak"}).check()
    assert embedder.asked != []


def test_s3_07_operations_are_recorded_in_the_ledger(load: Load, memory: Memory) -> None:
    """Each operation is in the behavioural ledger, allowed or denied, and the chain of the run verifies."""
    run = load(SHELVE).run({"leaf": "oak"})
    assert ("policy_decision", "shelve", "allow") in kinds(run)
    assert any(kind == "step_record" and step == "shelve" for kind, step, _ in kinds(run))
    denied = load(FIND.replace("allowed to\n      memory", "not allowed to\n      memory")).run({"about": "oak"})
    assert ("policy_decision", "find", "deny") in kinds(denied)
    assert memory.ledger.verify().ok


# --- remember -----------------------------------------------------------------------------------------------------


def test_s3_08_remember_has_a_name_and_five_settings(load: Load, memory: Memory) -> None:
    """A `remember` step has a name, `content`, `collection`, `metadata`, `namespace` and `ttl`."""
    text = """
    ensures
      allowed to memory
    implements
      remember press
        content: "The fern is pressed"
        collection: "herbarium"
        metadata: { sheet: 12 }
        namespace: "ferns"
        ttl: "30d"
    """
    run = load(text).run().check()
    [entry] = memory.scope().entries(collection="herbarium")
    assert (entry.content, entry.metadata, entry.namespace) == ("The fern is pressed", {"sheet": 12}, "ferns")
    assert entry.expires_at is not None and list(run.steps) == ["press"]


def test_s3_09_content_is_embedded_by_itself(load: Load, memory: Memory, embedder: Any) -> None:
    """The content is embedded automatically, by the embedder of its collection."""
    load(SHELVE).run({"leaf": "The oak leaf has round lobes"}).check()
    assert embedder.asked == ["The oak leaf has round lobes"]
    assert [one.embedder for one in memory.collections.list()] == [embedder.id]


def test_s3_10_content_is_stored_with_its_vector(load: Load, memory: Memory, table: Any) -> None:
    """The embedded content is stored with its vector: a recall by meaning alone finds it."""
    with memoranda.open(":memory:", embedder=table({"oak": 0.9, "fern": 0.2})) as other:
        for leaf in ("fern", "oak"):
            memoranda.mashin.load(f"machine m\n{SHELVE}", memory=other).run({"leaf": leaf}).check()
        found = other.scope().recall("something else entirely", collection="herbarium", mode="semantic", limit=1)
        assert [one.content for one in found] == ["oak"]


def test_s3_11_a_document_is_stored_with_what_describes_it(load: Load, memory: Memory, clock: FakeClock) -> None:
    """A step can store a document of the input with a map of metadata over several lines, such as `now()`."""
    text = """
    accepts
      page as text, is required
      address as text
      kind as text
    ensures
      allowed to memory
    implements
      remember keep
        content: input.page
        collection: "herbarium"
        metadata: {
          address: input.address,
          kind: input.kind,
          kept_at: now()
        }
    """
    load(text).run({"page": "Ferns have no flowers", "address": "https://fern.example", "kind": "ferns"}).check()
    [entry] = memory.scope().entries(collection="herbarium")
    assert (entry.content, entry.metadata["address"], entry.metadata["kind"]) == (
        "Ferns have no flowers",
        "https://fern.example",
        "ferns",
    )
    assert entry.metadata["kept_at"].startswith(clock.now().date().isoformat())


def test_s3_12_content_and_collection_are_required(load: Load) -> None:
    """`content` and `collection` are required."""
    for lacking in ("content", "collection"):
        lines = [line for line in SHELVE.splitlines() if not line.strip().startswith(f"{lacking}:")]
        with pytest.raises(SourceError, match=lacking):
            load("\n".join(lines))
    assert load(SHELVE).name


def test_s3_13_content_is_text_or_data(load: Load) -> None:
    """`content` is text, or data, which comes back as data."""
    shelve = load(SHELVE)
    for leaf in ("The oak leaf has round lobes", {"tree": "oak", "lobes": [7, 9]}):
        shelve.run({"leaf": leaf}).check()
    assert {"tree": "oak", "lobes": [7, 9]} in contents(load(FIND), about="oak lobes")
    assert "The oak leaf has round lobes" in contents(load(FIND), about="oak lobes")


def test_s3_14_a_collection_is_created_when_it_does_not_exist(load: Load, memory: Memory) -> None:
    """The target collection is created automatically if it does not exist."""
    assert memory.collections.list() == []
    load(SHELVE).run({"leaf": "oak"}).check()
    load(SHELVE).run({"leaf": "fern"}).check()
    assert [(one.name, one.entries) for one in memory.collections.list()] == [("herbarium", 2)]


def test_s3_15_metadata_are_optional_pairs_to_filter_by(load: Load, memory: Memory) -> None:
    """`metadata` is optional: pairs of names and values that recalls can filter by."""
    load(SHELVE).run({"leaf": "The oak leaf has round lobes", "shelf": "trees"}).check()
    load(SHELVE.replace("    metadata: { shelf: input.shelf }\n", "")).run({"leaf": "The fern leaf is a frond"}).check()
    filtered = FIND + '    filter: { shelf: "trees" }\n'
    assert contents(load(filtered), about="leaf") == ["The oak leaf has round lobes"]
    assert len(contents(load(FIND), about="leaf")) == 2


def test_s3_16_a_namespace_is_an_optional_partition(load: Load, memory: Memory) -> None:
    """`namespace` is optional: a part of a collection, such as that of a user or of a session."""
    for hall in ("north", "south"):
        load(SHELVE).run({"leaf": f"The {hall} hall shows ferns", "hall": hall}).check()
    inside = FIND + '    namespace: "north"\n'
    assert contents(load(inside), about="ferns") == ["The north hall shows ferns"]
    assert len(contents(load(FIND), about="ferns")) == 2
    assert memory.scope().namespaces(collection="herbarium") == ["north", "south"]


def test_s3_17_an_entry_is_removed_after_its_ttl(load: Load, clock: FakeClock) -> None:
    """`ttl` is optional: the entry is removed after this duration, such as 30d or 24h, and not before."""
    load(SHELVE).run({"leaf": "The oak leaf stays"}).check()
    for ttl, seconds in (("24h", 86_400), ("30d", 30 * 86_400)):
        load(SHELVE + f'    ttl: "{ttl}"\n').run({"leaf": "The fern leaf fades"}).check()
        clock.advance(seconds - 1)
        assert sorted(contents(load(FIND), about="leaf")) == ["The fern leaf fades", "The oak leaf stays"]
        clock.advance(1)
        assert contents(load(FIND), about="leaf") == ["The oak leaf stays"]


# --- recall -------------------------------------------------------------------------------------------------------


def test_s3_18_recall_has_a_name_and_its_settings(load: Load, memory: Memory) -> None:
    """A `recall` step has a name, `query`, `collection`, `limit`, `threshold` and `filter`, and no other setting."""
    remember(memory, "The oak leaf has round lobes", shelf="trees")
    text = FIND + '    limit: 3\n    threshold: 0.0\n    filter: { shelf: "trees" }\n'
    run = load(text).run({"about": "oak"}).check()
    assert (list(run.steps), run.output["count"]) == (["find"], 1)
    with pytest.raises(SourceError, match="treshold"):
        load(FIND + "    treshold: 0.5\n")


def test_s3_19_the_query_is_embedded_at_runtime(load: Load, embedder: Any) -> None:
    """The query is an expression that is evaluated and embedded when the machine runs."""
    load(SHELVE).run({"leaf": "oak"}).check()
    find = load(FIND.replace("query: input.about", "query: input.about.trim()"))
    before = list(embedder.asked)
    find.run({"about": "  Which leaf is a fan?  "}).check()
    assert embedder.asked[len(before) :] == ["Which leaf is a fan?"]


def test_s3_20_the_query_is_compared_with_stored_vectors(table: Any) -> None:
    """The query is compared with the stored vectors, and the nearest come first."""
    with memoranda.open(":memory:", embedder=table({"far": 0.3, "near": 0.9, "between": 0.6})) as memory:
        remember(memory, "far", "near", "between")
        behaviour = memoranda.mashin.Behaviour(recall="semantic")
        find = memoranda.mashin.load(f"machine m\n{FIND}", memory=memory, behaviour=behaviour)
        run = find.run({"about": "a question"}).check()
        assert [one["content"] for one in run.output["results"]] == ["near", "between", "far"]
        scores = [one["score"] for one in run.output["results"]]
        assert scores == sorted(scores, reverse=True)


def test_s3_21_a_recall_can_be_limited_and_have_a_threshold(table: Any) -> None:
    """`limit` is the most results, and `threshold` the lowest score of one."""
    near = {f"leaf {number}": 0.9 for number in range(7)} | {"stone": 0.1}
    with memoranda.open(":memory:", embedder=table(near)) as memory:
        remember(memory, *near)
        behaviour = memoranda.mashin.Behaviour(recall="semantic")

        def results(settings: str) -> list[dict[str, Any]]:
            find = memoranda.mashin.load(f"machine m\n{FIND}{settings}", memory=memory, behaviour=behaviour)
            return find.run({"about": "a question"}).check().output["results"]

        assert len(results("    limit: 5\n    threshold: 0.7\n")) == 5
        above = results("    limit: 100\n    threshold: 0.7\n")
        assert len(above) == 7 and all(one["score"] >= 0.7 for one in above)
        assert len(results("    limit: 100\n")) == 8


def test_s3_22_a_recall_gives_results_and_a_count(load: Load, memory: Memory) -> None:
    """A recall step gives a list `results` of matching entries and their number `count`, and nothing else."""
    remember(memory, "The oak leaf has round lobes", "The holly leaf has spines")
    output = load(FIND).run({"about": "leaf"}).check().output
    assert sorted(output) == ["count", "results"]
    assert output["count"] == len(output["results"]) == 2
    assert load(FIND.replace("herbarium", "nothing")).run({"about": "leaf"}).output == {"results": [], "count": 0}


def test_s3_23_a_result_has_content_metadata_and_score(load: Load, memory: Memory) -> None:
    """Each result has the stored `content`, the `metadata` of its remember, and a `score` from 0.0 to 1.0."""
    remember(memory, "The oak leaf has round lobes", shelf="trees", sheet=4)
    [result] = load(FIND).run({"about": "oak leaf"}).check().output["results"]
    assert sorted(result) == ["content", "metadata", "score"]
    assert (result["content"], result["metadata"]) == ("The oak leaf has round lobes", {"shelf": "trees", "sheet": 4})
    assert 0.0 < result["score"] <= 1.0


# --- retrieval and generation -------------------------------------------------------------------------------------


def test_s3_24_the_pattern_has_three_steps(load: Load, memory: Memory, scripted: Any) -> None:
    """The pattern has three steps in order: recall documents, build a context, pass it to the model."""
    remember(memory, "The oak leaf has round lobes", shelf="trees")
    run = load(GUIDE, model=scripted({"answer": "Round."})).run({"question": "Which lobes has the oak?"}).check()
    ran = [step for kind, step, _ in kinds(run) if kind == "step_record"]
    assert ran == ["leaves", "known", "answer", "told"]


def test_s3_25_a_required_input_is_checked_before_anything_runs(load: Load, memory: Memory, scripted: Any) -> None:
    """`accepts` declares the input; without a required field nothing runs."""
    model = scripted({"answer": "Round."})
    guide = load(GUIDE, model=model)
    with pytest.raises(SchemaViolation, match="question"):
        guide.run({})
    assert model.asked == [] and memory.runs.list() == []
    assert guide.run({"question": "Which?"}).status == "completed"


def test_s3_26_responds_with_declares_the_output(load: Load, scripted: Any) -> None:
    """`responds with` declares the output: those fields of the last step, and no others."""
    told = GUIDE.replace("sheets: known.shelves\n", "sheets: known.shelves,\n        secret: 1\n")
    run = load(told, model=scripted({"answer": "Round."})).run({"question": "Which?"})
    assert run.output == {"answer": "Round.", "sheets": []}
    assert run.steps["told"]["secret"] == 1


def test_s3_27_permissions_list_what_a_machine_may_do(load: Load, scripted: Any) -> None:
    """`ensures` lists the capabilities: without `llm_call` the recall runs and the model is not asked."""
    model = scripted({"answer": "Round."}, again=True)
    run = load(GUIDE.replace("llm_call, memory", "memory"), model=model).run({"question": "Which?"})
    assert run.error is not None
    assert (run.status, run.error.type, run.error.step) == ("failed", "permission_denied", "answer")
    assert ("policy_decision", "leaves", "allow") in kinds(run) and model.asked == []
    assert load(GUIDE, model=model).run({"question": "Which?"}).status == "completed"


def test_s3_28_a_computation_reads_the_results_of_a_recall(load: Load, memory: Memory, scripted: Any) -> None:
    """A computation reads `steps.<recall>.results`, and maps and joins them to a context."""
    remember(memory, "The oak leaf has round lobes", "The oak bears acorns", shelf="trees")
    run = load(GUIDE, model=scripted({"answer": "Round."})).run({"question": "What of the oak leaf?"}).check()
    known = run.steps["known"]
    assert sorted(known["text"].split("\n---\n")) == ["The oak bears acorns", "The oak leaf has round lobes"]
    assert run.output["sheets"] == ["trees", "trees"]


def test_s3_29_role_and_task_are_what_the_model_is_told(load: Load, scripted: Any) -> None:
    """`with role` is the instruction and `with task` the message; `${}` takes inputs and steps by their bare names."""
    model = scripted({"answer": "Round."})
    load(GUIDE, model=model).run({"question": "Which lobes?"}).check()
    assert model.asked[0].instructions == "Answer from the sheets alone."
    assert model.tasks == ["Asked: Which lobes?\n\nSheets:\n"]


def test_s3_30_a_model_has_to_return_the_declared_fields(load: Load, scripted: Any) -> None:
    """`returns` declares the fields of the answer, which is corrected by the model until it has them."""
    model = scripted({"anser": "Round."}, {"answer": "Round."})
    assert load(GUIDE, model=model).run({"question": "Which?"}).output["answer"] == "Round."
    assert len(model.asked) == 2
    assert model.asked[0].schema["required"] == ["answer"]


def test_s3_31_assuming_takes_the_place_of_the_model_in_tests(load: Load, scripted: Any) -> None:
    """`assuming` of an `ask` is its answer in test mode; no model is asked."""
    model = scripted({"answer": "Round."})
    run = load(GUIDE, model=model).run({"question": "Which?"}, mode="test")
    assert (run.output["answer"], model.asked) == ("It is in the sheets.", [])
    assert load(GUIDE, model=model).run({"question": "Which?"}).output["answer"] == "Round."


def test_s3_32_the_last_step_gives_answer_and_sources(load: Load, memory: Memory, scripted: Any) -> None:
    """The last computation puts the answer and its sources together; a document without a source gives null."""
    remember(memory, "The oak leaf has round lobes", shelf="trees")
    remember(memory, "The oak leaf falls late")
    output = load(GUIDE, model=scripted({"answer": "Round."})).run({"question": "What of the oak leaf?"}).output
    assert output["answer"] == "Round." and sorted(map(str, output["sheets"])) == ["None", "trees"]


# --- conversations ------------------------------------------------------------------------------------------------


def test_s3_33_a_conversation_is_stored_turn_by_turn(load: Load, memory: Memory, scripted: Any) -> None:
    """Each turn is remembered as what the user said and what the assistant replied."""
    load(DESK, model=scripted({"reply": "An oak."})).run({"message": "Round lobes?", "visit": "v1"}).check()
    [entry] = memory.scope().entries(collection="visits")
    assert (entry.content, entry.namespace) == ("Visitor: Round lobes?\nDesk: An oak.", "v1")


def test_s3_34_the_agent_replies_with_the_reply_of_its_model(load: Load, scripted: Any) -> None:
    """A machine that asks and then remembers the turn replies with the answer, without `responds with`."""
    run = load(DESK, model=scripted({"reply": "An oak."})).run({"message": "Round lobes?", "visit": "v1"})
    assert run.output == {"reply": "An oak."}
    assert run.steps["turn"]["stored"] is True


def test_s3_35_a_namespace_isolates_each_session(load: Load, scripted: Any) -> None:
    """The namespace isolates the history of each session from the others, in both directions."""
    model = scripted({"reply": "One."}, {"reply": "Two."}, {"reply": "Three."})
    desk = load(DESK, model=model)
    for visit, message in (("v1", "Where are the ferns?"), ("v2", "Where are the oaks?"), ("v1", "Where was that?")):
        desk.run({"message": message, "visit": visit}).check()
    assert "ferns" not in model.tasks[1]
    assert "ferns" in model.tasks[2] and "oaks" not in model.tasks[2]


def test_s3_36_a_ttl_cleans_up_old_conversations(load: Load, clock: FakeClock, scripted: Any) -> None:
    """The TTL lets old conversations go: after 90 days a session has no history."""
    model = scripted({"reply": "One."}, again=True)
    desk = load(DESK, model=model)
    desk.run({"message": "Where are the ferns?", "visit": "v1"}).check()
    clock.advance(89 * 86_400)
    desk.run({"message": "Where was that?", "visit": "v1"}).check()
    clock.advance(90 * 86_400)
    desk.run({"message": "Where was that?", "visit": "v1"}).check()
    assert "ferns" in model.tasks[1]
    assert "ferns" not in model.tasks[2]


# --- filters ------------------------------------------------------------------------------------------------------


def test_s3_37_a_filter_narrows_results_by_metadata(load: Load, memory: Memory) -> None:
    """`filter` narrows the results by metadata."""
    remember(memory, "The sheet is torn", kind="damage", urgency="high")
    remember(memory, "The sheet is fine", kind="praise", urgency="high")
    damaged = load(FIND + '    filter: {kind: "damage", urgency: "high"}\n    limit: 10\n')
    assert contents(damaged, about="sheet") == ["The sheet is torn"]
    assert len(contents(load(FIND), about="sheet")) == 2


def test_s3_38_all_pairs_of_a_filter_have_to_match(load: Load, memory: Memory) -> None:
    """Only entries whose metadata match all pairs are found, however near others are."""
    remember(memory, "The sheet is torn", kind="damage", urgency="low")
    remember(memory, "The sheet is torn at the edge", kind="damage", urgency="high")
    remember(memory, "The sheet is torn in two", kind="note", urgency="high")
    damaged = load(FIND + '    filter: {kind: "damage", urgency: "high"}\n')
    assert contents(damaged, about="The sheet is torn in two") == ["The sheet is torn at the edge"]


def test_s3_39_a_filter_applies_before_the_search(load: Load, memory: Memory) -> None:
    """Only matching entries are searched: the limit counts them alone."""
    remember(memory, *(f"The oak leaf number {number}" for number in range(20)), shelf="trees")
    remember(memory, "A fern", shelf="ferns")
    ferns = load(FIND + '    filter: { shelf: "ferns" }\n    limit: 1\n')
    assert contents(ferns, about="The oak leaf number 7") == ["A fern"]


# --- governance and tests -----------------------------------------------------------------------------------------


def test_s3_40_both_steps_need_the_capability(load: Load) -> None:
    """Both `remember` and `recall` need the capability `memory` in `ensures`: without it they are denied."""
    for text, input, step in ((SHELVE, {"leaf": "oak"}, "shelve"), (FIND, {"about": "oak"}, "find")):
        run = load(text.replace("ensures\n  permissions\n    allowed to\n      memory\n", "")).run(input)
        assert run.error is not None
        assert (run.error.type, run.error.step) == ("permission_denied", step)
        assert load(text).run(input).status == "completed"


def test_s3_41_in_test_mode_remember_is_recorded_and_not_written(load: Load, memory: Memory) -> None:
    """In test mode `remember` is recorded but does not write to the store."""
    run = load(SHELVE).run({"leaf": "oak"}, mode="test")
    assert run.output["stored"] is False
    assert ("policy_decision", "shelve", "allow") in kinds(run)
    assert memory.scope().entries(collection="herbarium") == []
    assert load(SHELVE).run({"leaf": "oak"}).output["stored"] is True


def test_s3_42_in_test_mode_recall_is_empty(load: Load, memory: Memory) -> None:
    """In test mode `recall` gives empty results by default, even of what is stored."""
    remember(memory, "The oak leaf has round lobes")
    assert load(FIND).run({"about": "oak"}, mode="test").output == {"results": [], "count": 0}
    assert load(FIND).run({"about": "oak"}).output["count"] == 1


def test_s3_43_assuming_in_verifies_mocks_the_results(load: Load) -> None:
    """`assuming` in a test of `verifies` mocks the results of a recall."""
    text = (
        GUIDE
        + """
  verifies
    test "two sheets"
      given { question: "Which?" }
      assuming leaves { results: [{ content: "A", metadata: { shelf: "x" } }, { content: "B", metadata: {} }] }
      expect { sheets: ["x", null] }
    test "none"
      given { question: "Which?" }
      expect { sheets: [] }
    test "wrong"
      given { question: "Which?" }
      expect { sheets: ["y"] }
"""
    )
    report = load(text).test()
    assert (report.passed, [case.name for case in report.cases if case.failure]) == (2, ["wrong"])


# --- the exercise -------------------------------------------------------------------------------------------------


def test_s3_44_a_pipeline_of_two_machines(load: Load, scripted: Any) -> None:
    """One machine ingests documents and another answers questions about them, filtered by category."""
    ingest = load(
        """
        accepts
          page as text, is required
          address as text, is required
          category as text, is required
        ensures
          allowed to memory
        implements
          remember keep
            content: input.page
            collection: "herbarium"
            metadata: { shelf: input.address, category: input.category }
        """,
        name="ingest",
    )
    for page, address, category in (
        ("The oak leaf has round lobes", "https://oak.example", "trees"),
        ("The fern leaf is a frond", "https://fern.example", "ferns"),
    ):
        ingest.run({"page": page, "address": address, "category": category}).check()
    asked = GUIDE.replace(
        "question as text, is required", "question as text, is required\n    category as text"
    ).replace("threshold: 0.1", "filter: { category: input.category }")
    model = scripted({"answer": "A leaf."}, again=True)
    guide = load(asked, model=model)
    for category, address in (("trees", "https://oak.example"), ("ferns", "https://fern.example")):
        run = guide.run({"question": "What is the leaf like?", "category": category}).check()
        assert run.output == {"answer": "A leaf.", "sheets": [address]}


def test_s3_45_samples_run_as_they_are_pasted(load: Load, memory: Memory, scripted: Any) -> None:
    """A sample that was pasted without its indentation has one diagnostic, and runs once it is formatted."""
    for sample, input in ((GUIDE, {"question": "Which?"}), (DESK, {"message": "Which?", "visit": "v1"})):
        flat = "\n".join(line.strip() for line in sample.strip().splitlines()) + "\n"
        with pytest.raises(SourceError) as refused:
            memoranda.mashin.load(flat, memory=memory)
        assert [one.code for one in refused.value.diagnostics] == ["no_indentation"]
        model = scripted({"answer": "An oak.", "reply": "An oak."})
        run = memoranda.mashin.load(format_text(flat), memory=memory, model=model).run(input)
        assert run.status == "completed" and "An oak." in run.output.values()
