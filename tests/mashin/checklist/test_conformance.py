"""What the well-known machines have to do: storing, finding, answering, talking, filtering, and a pipeline of two."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import memoranda
from memoranda import SchemaViolation
from memoranda.api.memory import Memory
from memoranda.errors import SourceError
from memoranda.mashin import Machine
from memoranda.testing import FakeClock
from memoranda.testing.conformance.base import WatchedEmbedder

Load = Callable[..., Machine]
Sample = Callable[[str], str]

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


@pytest.fixture
def nearby(table: Any, clock: FakeClock) -> Iterator[Callable[..., Memory]]:
    """Return how to open a memory whose texts are as near to every query as it is told."""
    opened: list[Memory] = []

    def open(near: dict[str, float]) -> Memory:
        opened.append(memoranda.open(":memory:", clock=clock, embedder=table(near)))
        return opened[-1]

    yield open
    for memory in opened:
        memory.close()


def step(kind: str, lines: list[str]) -> str:
    return "ensures\n  allowed to memory\nimplements\n  " + kind + " one\n    " + "\n    ".join(lines) + "\n"


# --- the shapes of remember and recall ---------------------------------------------------------------------------

REMEMBER = {
    "content": 'content: "a" + "b"',
    "collection": 'collection: "exhibits"',
    "metadata": 'metadata: { room: "blue" }',
    "namespace": 'namespace: "west"',
    "ttl": 'ttl: "30d"',
}
RECALL = {
    "query": 'query: "a" + "b"',
    "collection": 'collection: "exhibits"',
    "limit": "limit: 3",
    "threshold": "threshold: 0.5",
    "filter": 'filter: { room: "blue" }',
    "namespace": 'namespace: "west"',
}


@pytest.mark.parametrize(("kind", "keys"), [("remember", REMEMBER), ("recall", RECALL)])
def test_every_key_of_a_memory_step_is_accepted(load: Load, kind: str, keys: dict[str, str]) -> None:
    machine = load(step(kind, list(keys.values())))
    assert [one for one in machine.diagnostics if one.severity == "error"] == []
    assert machine.run().check().status == "completed"


@pytest.mark.parametrize(
    ("kind", "keys", "missing"),
    [
        ("remember", REMEMBER, "content"),
        ("remember", REMEMBER, "collection"),
        ("recall", RECALL, "query"),
        ("recall", RECALL, "collection"),
    ],
)
def test_a_required_key_that_is_missing_is_refused(load: Load, kind: str, keys: dict[str, str], missing: str) -> None:
    with pytest.raises(SourceError, match=missing):
        load(step(kind, [line for name, line in keys.items() if name != missing]))
    required = {"content", "query", "collection"} & keys.keys()
    assert load(step(kind, [keys[name] for name in keys if name in required])).run().check()


@pytest.mark.parametrize(
    ("kind", "keys", "unknown"),
    [
        ("remember", REMEMBER, "contents: 1"),
        ("remember", REMEMBER, "limit: 1"),
        ("recall", RECALL, "ttl: '1d'"),
        ("recall", RECALL, "treshold: 0.4"),
    ],
)
def test_an_unknown_key_is_refused(load: Load, kind: str, keys: dict[str, str], unknown: str) -> None:
    name = unknown.split(":")[0]
    with pytest.raises(SourceError, match=name):
        load(step(kind, [*keys.values(), unknown]))
    assert load(step(kind, list(keys.values())))


# --- storing -----------------------------------------------------------------------------------------------------


def test_storing_makes_one_entry_with_its_metadata_that_survives_the_process(
    path: str, sample: Sample, run_child: Any
) -> None:
    script = """
    import json, sys, memoranda
    with memoranda.open(sys.argv[1], embedder="hashing:64") as memory:
        run = memoranda.mashin.load(sys.argv[2], memory=memory).run(json.loads(sys.argv[3])).check()
        print(json.dumps([run.output["stored"], [one.name for one in memory.collections.list()]]))
    """
    given = {"label": "A clay lamp", "link": "m/1", "room": "blue"}
    [said] = run_child(script, path, sample("store_label"), json.dumps(given)).finish()
    assert json.loads(said) == [True, ["exhibits"]]
    with memoranda.open(path, embedder="hashing:64") as memory:
        [entry] = memory.scope().entries(collection="exhibits")
        assert entry.content == "A clay lamp"
        assert sorted(entry.metadata) == ["hung_at", "link", "room"]
        assert (entry.metadata["link"], entry.metadata["room"]) == ("m/1", "blue")
        assert ISO.fullmatch(entry.metadata["hung_at"])


# --- finding -----------------------------------------------------------------------------------------------------


def test_finding_gives_at_most_five_near_ones_best_first(nearby: Any, load: Load, sample: Sample) -> None:
    texts = {f"label {chr(97 + number)}": 1.0 - number * 0.06 for number in range(12)}
    memory = nearby(texts)
    for text in texts:
        memory.scope().remember(text, collection="exhibits", metadata={"n": text[-1]})
    output = load(sample("find_labels"), memory=memory).run({"question": "Anything?"}).check().output
    scores = [one["score"] for one in output["results"]]
    assert output["count"] == len(scores) == 5
    assert all(score >= 0.7 for score in scores)
    assert scores == sorted(scores, reverse=True)
    assert all(sorted(one) == ["content", "metadata", "score"] for one in output["results"])
    # The control: without a limit and a threshold there are more, and some are far.
    every = memory.scope().recall("Anything?", collection="exhibits", limit=20)
    assert every.count == 12
    assert any(one.score < 0.7 for one in every.results)


def test_finding_leaves_out_what_is_far_even_below_the_limit(nearby: Any, load: Load, sample: Sample) -> None:
    memory = nearby({"near": 0.9, "far": 0.2})
    for text in ("near", "far"):
        memory.scope().remember(text, collection="exhibits")
    output = load(sample("find_labels"), memory=memory).run({"question": "Anything?"}).check().output
    assert [one["content"] for one in output["results"]] == ["near"]


# --- answering ---------------------------------------------------------------------------------------------------


def labels(nearby: Any, *entries: tuple[str, dict[str, Any]]) -> Memory:
    memory: Memory = nearby({text: 0.95 - number * 0.05 for number, (text, _) in enumerate(entries)})
    for text, metadata in entries:
        memory.scope().remember(text, collection="exhibits", metadata=metadata)
    return memory


def test_answering_without_a_label_asks_with_an_empty_context(load: Load, sample: Sample, scripted: Any) -> None:
    run = load(sample("guide")).run({"question": "q"}, mode="test").check()
    assert run.output == {"reply": "The labels tell us...", "links": []}
    assert run.steps["gather"] == {"text": "", "label_links": []}
    model = scripted({"reply": "They are silent."})
    assert load(sample("guide"), model=model).run({"question": "q"}).check().output["links"] == []
    assert model.tasks == ["A visitor asks: q\n\nLabels:\n"]


def test_answering_joins_what_is_assumed_and_shows_its_links(load: Load, sample: Sample) -> None:
    found = [
        {"content": "A", "metadata": {"link": "u1"}, "score": 0.9},
        {"content": "B", "metadata": {"link": "u2"}, "score": 0.8},
    ]
    run = load(sample("guide")).run({"question": "q"}, mode="test", assuming={"find_labels": {"results": found}})
    assert run.check().steps["gather"]["text"] == "A\n\n***\n\nB"
    assert run.output == {"reply": "The labels tell us...", "links": ["u1", "u2"]}


def test_answering_live_sends_the_labels_at_the_end_of_the_task(
    nearby: Any, load: Load, sample: Sample, scripted: Any
) -> None:
    memory = labels(nearby, ("A lamp", {"link": "u1"}), ("B vase", {"link": "u2"}))
    model = scripted({"reply": "Two things."})
    run = load(sample("guide"), memory=memory, model=model).run({"question": "q"}).check()
    context = run.steps["gather"]["text"]
    assert sorted(context.split("\n\n***\n\n")) == ["A lamp", "B vase"]
    assert model.tasks == [f"A visitor asks: q\n\nLabels:\n{context}"]
    assert model.asked[0].instructions.startswith("You are a museum guide.")
    assert sorted(run.output["links"]) == ["u1", "u2"]
    assert run.output["reply"] == "Two things."


def test_answering_from_a_label_without_a_link_gives_null(
    nearby: Any, load: Load, sample: Sample, scripted: Any
) -> None:
    memory = labels(nearby, ("A lamp", {"room": "blue"}), ("B vase", {"link": "u2"}))
    model = scripted({"reply": "x"})
    links = load(sample("guide"), memory=memory, model=model).run({"question": "q"}).check().output["links"]
    assert len(links) == 2
    assert set(links) == {None, "u2"}


def test_answering_without_permission_for_memory_reaches_nothing(
    load: Load, sample: Sample, scripted: Any, memory: Memory, embedder: WatchedEmbedder
) -> None:
    memory.scope().remember("A lamp", collection="exhibits")
    embedder.asked.clear()
    model = scripted({"reply": "x"})
    run = load(sample("guide").replace("llm_call, memory", "llm_call"), model=model).run({"question": "a lamp"})
    assert run.error is not None
    assert (run.error.type, run.error.step) == ("permission_denied", "find_labels")
    assert (embedder.asked, model.asked) == ([], [])
    denials = [event for event in run.events if event.decision == "deny"]
    assert [(event.step, event.detail["capability"]) for event in denials] == [("find_labels", "memory.read")]
    load(sample("guide"), model=model).run({"question": "a lamp"}).check()
    assert (len(embedder.asked), len(model.asked)) == (1, 1)


def test_answering_without_permission_for_a_model_recalls_and_stops(
    load: Load, sample: Sample, scripted: Any, memory: Memory, embedder: WatchedEmbedder
) -> None:
    memory.scope().remember("A lamp", collection="exhibits")
    embedder.asked.clear()
    model = scripted({"reply": "x"})
    run = load(sample("guide").replace("llm_call, memory", "memory"), model=model).run({"question": "a lamp"})
    assert run.error is not None
    assert (run.error.type, run.error.step) == ("permission_denied", "reply")
    assert (len(embedder.asked), model.asked) == (1, [])
    assert "find_labels" in run.steps
    load(sample("guide"), model=model).run({"question": "a lamp"}).check()
    assert len(model.asked) == 1


def test_answering_nothing_is_refused_with_no_event(load: Load, sample: Sample, memory: Memory) -> None:
    machine = load(sample("guide"))
    with pytest.raises(SchemaViolation, match="question"):
        machine.run({})
    assert memory.ledger.events() == []
    machine.run({"question": "q"}, mode="test").check()
    assert len(memory.ledger.events()) > 0


# --- talking -----------------------------------------------------------------------------------------------------


def test_talking_in_a_test_uses_what_is_assumed_and_keeps_nothing(load: Load, sample: Sample, memory: Memory) -> None:
    machine = load(sample("visitor_chat"))
    run = machine.run({"words": "hello", "ticket": "t1"}, mode="test").check()
    assert run.steps["respond"] == {"reply": "Let us look together."}
    saved = [event.kind for event in run.events if event.step == "save_talk"]
    assert saved == ["policy_decision", "step_record"]
    assert memory.collections.list() == []


def test_talking_remembers_each_visitor_apart_and_for_ninety_days(
    load: Load, sample: Sample, memory: Memory, clock: FakeClock, scripted: Any
) -> None:
    model = scripted({"reply": "By the door."}, {"reply": "Still there."}, {"reply": "Which one?"}, {"reply": "?"})
    machine = load(sample("visitor_chat"), model=model)

    def say(words: str, ticket: str) -> str:
        machine.run({"words": words, "ticket": ticket}).check()
        return model.tasks[-1]

    assert say("where is the lamp", "t1") == "Said before:\n\n\nVisitor: where is the lamp"
    turn = "Visitor: where is the lamp\nGuide: By the door."
    assert say("and the lamp", "t1") == f"Said before:\n{turn}\n\nVisitor: and the lamp"
    assert say("the lamp please", "t2") == "Said before:\n\n\nVisitor: the lamp please"
    assert len(memory.scope().entries(collection="visits", namespace="t1")) == 2
    clock.advance(90 * 86_400)
    assert say("the lamp again", "t1") == "Said before:\n\n\nVisitor: the lamp again"


# --- filtering ---------------------------------------------------------------------------------------------------


def test_filtering_searches_only_what_matches_every_pair(nearby: Any, load: Load, sample: Sample) -> None:
    reports = {
        "broken pane, east": (0.9, {"kind": "damage", "pressing": "yes"}),
        "wet ceiling": (0.65, {"kind": "damage", "pressing": "yes"}),
        "scratch on a frame": (0.99, {"kind": "damage", "pressing": "no"}),
        "visitor fainted": (0.98, {"kind": "health", "pressing": "yes"}),
        "lost glove": (0.97, {"kind": "lost"}),
        "crumbs": (0.1, {"kind": "damage", "pressing": "yes"}),
    }
    memory = nearby({text: near for text, (near, _) in reports.items()})
    for text, (_, metadata) in reports.items():
        memory.scope().remember(text, collection="reports", metadata=metadata)
    output = load(sample("find_damage"), memory=memory).run().check().output
    assert [one["content"] for one in output["results"]] == ["broken pane, east", "wet ceiling"]
    assert output["count"] == 2, "fewer than the limit, and none that matches only one pair"
    every = memory.scope().recall("cracks and stains in the galleries", collection="reports", limit=10)
    assert every.results[0].content not in {"broken pane, east", "wet ceiling"}


# --- a pipeline of two -------------------------------------------------------------------------------------------


def test_a_pipeline_of_two_machines_in_two_processes_keeps_categories_apart(
    path: str, sample: Sample, run_child: Any
) -> None:
    ingesting = """
    import json, sys, memoranda
    with memoranda.open(sys.argv[1], embedder="hashing:64") as memory:
        machine = memoranda.mashin.load(sys.argv[2], memory=memory)
        for text, address, wing in json.loads(sys.argv[3]):
            assert machine.run({"text": text, "address": address, "wing": wing}).check().output["stored"]
    """
    texts = [
        ("A clay oil lamp from the harbour", "c/1", "east"),
        ("A bronze oil lamp with two wicks", "c/2", "east"),
        ("A glass oil lamp for a chapel", "c/3", "west"),
    ]
    run_child(ingesting, path, sample("ingest"), json.dumps(texts)).finish()
    answering = """
    import json, sys, memoranda
    from memoranda.agent.models import Reply
    class Model:
        name = "child:model"
        tasks = []
        def reply(self, ask, *, timeout=30.0):
            self.tasks.append(ask.messages[0].text)
            return Reply(value={"reply": "as written"})
    with memoranda.open(sys.argv[1], embedder="hashing:64") as memory:
        machine = memoranda.mashin.load(sys.argv[2], memory=memory, model=Model())
        run = machine.run({"question": "Which oil lamps are there?", "wing": sys.argv[3]}).check()
        print(json.dumps([sorted(run.output["addresses"]), run.output["reply"], Model.tasks]))
    """
    seen: dict[str, list[str]] = {}
    for wing, other in (("east", "chapel"), ("west", "bronze"), ("north", "lamp from")):
        [said] = run_child(answering, path, sample("answer_by_wing"), wing).finish()
        addresses, reply, [task] = json.loads(said)
        seen[wing] = addresses
        assert reply == "as written"
        assert other not in task
    assert seen == {"east": ["c/1", "c/2"], "west": ["c/3"], "north": []}


@pytest.mark.parametrize(("name", "tests"), [("ingest", 1), ("answer_by_wing", 2)])
def test_the_tests_of_the_pipeline_pass(load: Load, sample: Sample, name: str, tests: int) -> None:
    report = load(sample(name)).test()
    assert (report.passed, report.failed) == (tests, 0)
