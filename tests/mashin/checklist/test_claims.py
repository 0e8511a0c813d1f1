"""What machines promise about memory, their language, governance, test mode and ledger: C1 to C37, one by one."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import memoranda
from memoranda import SchemaViolation
from memoranda.api.memory import Memory
from memoranda.errors import SourceError
from memoranda.mashin import Machine, Run
from memoranda.mashin.expression.functions import FUNCTIONS, NAMESPACES
from memoranda.model.event import GENESIS
from memoranda.testing import FakeClock
from memoranda.testing.conformance.base import WatchedEmbedder

Load = Callable[..., Machine]

LOG = """
machine log
  accepts
    entry as any, is required
    place as text
    watch as text
  ensures
    allowed to memory
  implements
    remember write
      content: input.entry
      collection: "log"
      metadata: { place: input.place, watch: input.watch }
"""
LOOK = """
machine look
  accepts
    words as text, is required
  ensures
    allowed to memory
  implements
    recall find
      query: input.words
      collection: "log"
      {more}
"""


def look(*more: str) -> str:
    return LOOK.replace("{more}", "\n      ".join(more))


def contents(run: Run) -> list[Any]:
    return [one["content"] for one in run.check().output["results"]]


@pytest.fixture
def log(load: Load) -> Callable[..., Run]:
    """Return how to write an entry into the log."""
    machine = load(LOG)
    return lambda entry, **about: machine.run({"entry": entry, **about}).check()


@pytest.fixture
def near(table: Any, clock: FakeClock) -> Iterator[Callable[..., Memory]]:
    """Return how to open a memory whose texts are as near to every query as it is told."""
    opened: list[Memory] = []

    def open(**entries: float) -> Memory:
        memory = memoranda.open(":memory:", clock=clock, embedder=table(entries))
        opened.append(memory)
        for entry in entries:
            memory.scope().remember(entry, collection="log", namespace="one by one", metadata={"kind": entry[0]})
        return memory

    yield open
    for memory in opened:
        memory.close()


# --- C1 to C14: memory --------------------------------------------------------------------------------------------


def test_c1_what_was_remembered_is_found_by_recall(load: Load, log: Any) -> None:
    machine = load(look())
    assert contents(machine.run({"words": "Where is the lamp oil?"})) == []
    log("The lamp oil is in the cellar")
    assert contents(machine.run({"words": "Where is the lamp oil?"})) == ["The lamp oil is in the cellar"]


def test_c2_content_is_embedded_without_being_told_to(log: Any, embedder: WatchedEmbedder) -> None:
    assert embedder.asked == []
    log("The lamp oil is in the cellar")
    assert embedder.asked == ["The lamp oil is in the cellar"]


def test_c2_data_is_embedded_too_and_comes_back_as_data(load: Load, log: Any, embedder: WatchedEmbedder) -> None:
    log({"lamp": "oil", "litres": 40})
    assert len(embedder.asked) == 1
    assert contents(load(look()).run({"words": "lamp oil litres"})) == [{"lamp": "oil", "litres": 40}]


def test_c3_a_collection_is_made_when_it_is_first_used(memory: Memory, log: Any) -> None:
    assert memory.collections.list() == []
    log("calm")
    assert [(one.name, one.entries, one.embedder) for one in memory.collections.list()] == [("log", 1, "watched")]
    log("storm")
    assert [(one.name, one.entries) for one in memory.collections.list()] == [("log", 2)]


@pytest.mark.parametrize("missing", ["content", "collection"])
def test_c4_content_and_collection_are_required(load: Load, missing: str) -> None:
    lines = {"content": 'content: "calm"', "collection": 'collection: "log"'}
    text = "ensures\n  allowed to memory\nimplements\n  remember write\n    {lines}\n"
    every = text.replace("{lines}", "\n    ".join(lines.values()))
    assert load(every).run().check().output["stored"] is True
    with pytest.raises(SourceError, match=missing):
        load(text.replace("{lines}", "\n    ".join(line for name, line in lines.items() if name != missing)))


def test_c4_the_rest_is_optional(load: Load, memory: Memory) -> None:
    run = load("""
    ensures
      allowed to memory
    implements
      remember write
        content: "calm"
        collection: "log"
        metadata: { place: "pier" }
        namespace: "night"
        ttl: "1d"
    """).run()
    assert run.check().output["namespace"] == "night"
    assert run.output["expires_at"] is not None
    [entry] = memory.scope().entries(collection="log")
    assert (entry.metadata, entry.namespace) == ({"place": "pier"}, "night")
    bare = load(LOG).run({"entry": "storm"}).check()
    assert (bare.output["namespace"], bare.output["expires_at"]) == (None, None)


def test_c4_content_that_is_null_at_run_time_is_a_failure_before_any_write(load: Load, memory: Memory) -> None:
    machine = load(LOG.replace("entry as any, is required", "entry as any"))
    run = machine.run({})
    assert run.error is not None
    assert run.error.step == "write"
    assert memory.collections.list() == []
    assert machine.run({"entry": "calm"}).check().output["stored"] is True


@pytest.mark.parametrize(("ttl", "seconds"), [("24h", 86_400), ("30d", 2_592_000), ("90s", 90), ("2w", 1_209_600)])
def test_c5_an_entry_ends_after_its_ttl_and_not_before(
    load: Load, memory: Memory, clock: FakeClock, ttl: str, seconds: int
) -> None:
    machine = load(LOG.replace('collection: "log"', f'collection: "log"\n      ttl: "{ttl}"'))
    machine.run({"entry": "The tide is high"}).check()
    looking = load(look())
    clock.advance(seconds - 1)
    assert contents(looking.run({"words": "tide"})) == ["The tide is high"]
    clock.advance(1)
    assert contents(looking.run({"words": "tide"})) == []
    memory.sweep()
    assert memory.scope().entries(collection="log") == []


def test_c6_the_query_is_embedded_when_the_machine_runs(load: Load, log: Any, embedder: WatchedEmbedder) -> None:
    log("The tide is high")
    embedder.asked.clear()
    machine = load(look())
    assert embedder.asked == [], "loading embeds nothing"
    machine.run({"words": "tide"}).check()
    assert embedder.asked == ["tide"]
    machine.run({"words": "high water"}).check()
    assert len(embedder.asked) == 2


def test_c7_results_are_ranked_by_similarity(near: Any, load: Load) -> None:
    memory = near(weak=0.35, best=0.95, middling=0.65)
    run = load(look(), memory=memory).run({"words": "anything"}).check()
    assert contents(run) == ["best", "middling", "weak"]
    scores = [one["score"] for one in run.output["results"]]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 3


def test_c8_a_recall_gives_results_and_their_count(load: Load, log: Any) -> None:
    machine = load(look())
    assert machine.run({"words": "tide"}).check().output == {"results": [], "count": 0}
    for number in range(3):
        log(f"The tide of day {number}")
    output = machine.run({"words": "tide"}).check().output
    assert sorted(output) == ["count", "results"]
    assert output["count"] == len(output["results"]) == 3


def test_c9_a_result_is_content_metadata_and_a_score_from_0_to_1(load: Load, log: Any) -> None:
    log("The tide is high", place="pier", watch="night")
    [result] = load(look()).run({"words": "Is the tide high?"}).check().output["results"]
    assert sorted(result) == ["content", "metadata", "score"]
    assert result["content"] == "The tide is high"
    assert result["metadata"] == {"place": "pier", "watch": "night"}
    assert 0.0 < result["score"] <= 1.0


def test_c10_a_limit_is_kept_and_is_five_by_default(load: Load, log: Any) -> None:
    for number in range(8):
        log(f"The tide of day {number}")
    for more, count in ((), 5), (("limit: 2",), 2), (("limit: 8",), 8), (("limit: 20",), 8):
        assert load(look(*more)).run({"words": "tide"}).check().output["count"] == count


def test_c11_a_threshold_keeps_what_is_equal_to_it(near: Any, load: Load) -> None:
    memory = near(good=0.75, poor=0.3)
    every = load(look(), memory=memory).run({"words": "anything"}).check().output["results"]
    good, poor = (one["score"] for one in every)
    assert good > poor
    equal = load(look(f"threshold: {good!r}"), memory=memory).run({"words": "anything"})
    assert contents(equal) == ["good"]
    above = load(look(f"threshold: {good + 1e-6!r}"), memory=memory).run({"words": "anything"})
    assert contents(above) == []


def test_c11_without_a_threshold_everything_is_kept(near: Any, load: Load) -> None:
    memory = near(good=0.75, far=0.0)
    assert contents(load(look(), memory=memory).run({"words": "anything"})) == ["good", "far"]
    assert contents(load(look("threshold: 0.5"), memory=memory).run({"words": "anything"})) == ["good"]


def test_c12_a_filter_narrows_before_the_limit_counts(near: Any, load: Load) -> None:
    memory = near(a1=0.95, a2=0.9, a3=0.85, b1=0.5, b2=0.45)
    machine = load(look("limit: 2", 'filter: { kind: "b" }'), memory=memory)
    assert contents(machine.run({"words": "anything"})) == ["b1", "b2"]
    assert {one[0] for one in contents(load(look("limit: 2"), memory=memory).run({"words": "anything"}))} == {"a"}


def test_c12_all_pairs_of_a_filter_have_to_match(load: Load, log: Any) -> None:
    log("Fog at the pier", place="pier", watch="night")
    log("Fog on the rocks", place="rocks", watch="night")
    log("Fog at the pier again", place="pier", watch="day")
    both = load(look('filter: { place: "pier", watch: "night" }'))
    assert contents(both.run({"words": "fog"})) == ["Fog at the pier"]
    one = load(look('filter: { place: "pier" }'))
    assert sorted(contents(one.run({"words": "fog"}))) == ["Fog at the pier", "Fog at the pier again"]


CHAT = """
accepts
  who as text, is required
  words as text, is required
ensures
  allowed to memory
implements
  recall before
    query: input.words
    collection: "talk"
    namespace: input.who
  remember save
    content: input.words
    collection: "talk"
    namespace: input.who
  compute done
    { before: before.results.map(r => r.content) }
"""


def test_c13_a_namespace_keeps_sessions_apart_in_both_directions(load: Load) -> None:
    machine = load(CHAT)

    def say(who: str, words: str) -> list[str]:
        return machine.run({"who": who, "words": words}).check().output["before"]

    assert say("ada", "the ship is late") == []
    assert say("bob", "the ship is early") == []
    assert say("ada", "where is the ship") == ["the ship is late"]
    assert say("bob", "where is the ship") == ["the ship is early"]


def test_c14_what_is_remembered_persists_across_runs_and_processes(path: str, run_child: Any) -> None:
    with memoranda.open(path, embedder="hashing:64") as memory:
        memoranda.mashin.load(LOG, memory=memory).run({"entry": "The tide is high"}).check()
    script = """
    import sys, memoranda
    with memoranda.open(sys.argv[1], embedder="hashing:64") as memory:
        run = memoranda.mashin.load(sys.argv[2], memory=memory).run({"words": "tide"}).check()
        print([one["content"] for one in run.output["results"]])
    """
    assert run_child(script, path, look()).finish() == ["['The tide is high']"]
    assert run_child(script, path + ".other", look()).finish() == ["[]"]


# --- C15 to C21: language ----------------------------------------------------------------------------------------

ANSWER = """
accepts
  question as text, is required
responds with
  reply as text
  places as list
ensures
  allowed to llm_call, memory
implements
  recall notes
    query: input.question
    collection: "log"
    limit: 3
  compute gathered
    let found = steps.notes.results
    {
      text: found.map(n => n.content).join("\\n--\\n"),
      places: found.map(n => n.metadata.place)
    }
  ask reply, using: "anthropic:claude-sonnet-4-6"
    with role "Answer from the log."
    with task "Log:\\n${gathered.text}\\nQuestion: ${input.question}"
    returns
      reply as text
    assuming
      reply: "The log does not say."
  compute shown
    { reply: steps.reply.reply, places: gathered.places }
"""


def test_c15_recall_then_build_then_ask(load: Load, log: Any, scripted: Any) -> None:
    log("The tide is high", place="pier")
    model = scripted({"reply": "It is high."})
    run = load(ANSWER, model=model).run({"question": "Is the tide high?"}).check()
    steps = [event.step for event in run.events if event.kind == "step_record"]
    assert steps == ["notes", "gathered", "reply", "shown"]
    assert model.tasks == ["Log:\nThe tide is high\nQuestion: Is the tide high?"]
    assert model.asked[0].instructions == "Answer from the log."
    assert run.output == {"reply": "It is high.", "places": ["pier"]}


def test_c16_a_step_is_the_same_by_its_path_and_by_its_bare_name(load: Load) -> None:
    run = load("""
    implements
      compute tide
        { metres: 4.2, ships: [{ name: "Ida" }] }
      compute both
        {
          paths: [steps.tide.metres, steps.tide.ships[0].name],
          bare: [tide.metres, tide.ships[0].name],
          same: steps.tide == tide
        }
    """).run()
    assert run.check().output["paths"] == run.output["bare"] == [4.2, "Ida"]
    assert run.output["same"] is True


def test_c17_quotes_may_stand_inside_of_an_interpolation(load: Load) -> None:
    run = load("""
    accepts
      ships as list
    implements
      compute line
        { text: "In port: ${input.ships.map(s => s.name + " {" + s.flag + "}").join('\\n')}, \\"${'so' + "on"}\\"" }
    """).run({"ships": [{"name": "Ida", "flag": "DK"}, {"name": "Max", "flag": "NO"}]})
    assert run.check().output == {"text": 'In port: Ida {DK}\nMax {NO}, "soon"'}


def test_c18_a_map_may_stand_on_several_lines(load: Load, memory: Memory) -> None:
    run = load("""
    ensures
      allowed to memory
    implements
      remember write
        content: "calm"
        collection: "log"
        metadata: {
          place: "pier",
            depth: {
          metres: 4
          },
          ships: [
            "Ida",
            "Max"
          ]
        }
    """).run()
    run.check()
    [entry] = memory.scope().entries(collection="log")
    assert entry.metadata == {"place": "pier", "depth": {"metres": 4}, "ships": ["Ida", "Max"]}


def test_c19_now_can_stand_in_metadata(load: Load, memory: Memory, clock: FakeClock) -> None:
    machine = load(LOG.replace("watch: input.watch", "at: now()"))
    machine.run({"entry": "calm"}).check()
    clock.advance(60)
    machine.run({"entry": "storm"}).check()
    times = [entry.metadata["at"] for entry in memory.scope().entries(collection="log")]
    assert times == ["2026-01-01T00:00:00.000Z", "2026-01-01T00:01:00.000Z"]


PAIRS = {
    "a is b": "a == b",
    "a is not b": "a != b",
    "a is greater than b": "a > b",
    "a is less than b": "a < b",
    "a is at least b": "a >= b",
    "a is at most b": "a <= b",
    "a > 1 and b > 1": "a > 1 && b > 1",
    "a > 5 or b > 1": "a > 5 || b > 1",
    "not (a > b)": "!(a > b)",
}


@pytest.mark.parametrize(("words", "symbols"), PAIRS.items(), ids=PAIRS)
def test_c20_operators_in_words_and_in_symbols_are_the_same(load: Load, words: str, symbols: str) -> None:
    machine = load(f"""
    accepts
      a as number
      b as number
    implements
      compute both
        {{ words: {words}, symbols: {symbols} }}
    """)
    seen = set[bool]()
    for a, b in ((1, 2), (2, 1), (2, 2), (0, 0), (9, 1)):
        output = machine.run({"a": a, "b": b}).check().output
        assert output["words"] is output["symbols"]
        seen.add(output["words"])
    assert seen == {True, False}


def test_c21_a_computation_cannot_reach_files_sockets_or_memory(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("open", "read", "fetch", "require", "import", "remember", "recall", "eval", "exec", "ask", "http"):
        assert name not in FUNCTIONS
        assert name not in NAMESPACES
        with pytest.raises(SourceError):
            load(f'implements\n  compute x\n    {name}("x")\n')

    def refuse(*args: Any, **options: Any) -> None:
        raise AssertionError("a computation reached out")

    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr(socket, "socket", refuse)
    run = load('implements\n  compute x\n    { a: JSON.parse("[1]"), b: Math.max(1, 2), c: now() }\n').run()
    assert run.check().output["b"] == 2


# --- C22 to C28: governance --------------------------------------------------------------------------------------

TWO = """
ensures
  allowed to {allowed}
implements
  remember write
    content: "calm"
    collection: "log"
  recall find
    query: "calm"
    collection: "log"
"""


def test_c22_permission_is_looked_at_before_each_memory_step(load: Load) -> None:
    run = load(TWO.replace("{allowed}", "memory")).run().check()
    kinds = [(event.kind, event.step) for event in run.events][1:-1]
    assert kinds == [
        ("policy_decision", "write"),
        ("step_record", "write"),
        ("policy_decision", "find"),
        ("step_record", "find"),
    ]
    half = load(TWO.replace("{allowed}", "memory.write")).run()
    assert half.error is not None
    assert half.error.step == "find"


class WatchedGate:
    """What the gate is asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, memory: Memory) -> None:
        self.effects: list[str] = []
        gate = memory.root
        perform = gate.perform  # type: ignore[attr-defined]

        def watch(effect: Any, caller: Any) -> Any:
            self.effects.append(type(effect).__name__)
            return perform(effect, caller)

        monkeypatch.setattr(gate, "perform", watch)


def test_c23_there_is_no_way_to_the_store_but_through_the_gate(
    load: Load, memory: Memory, embedder: WatchedEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = WatchedGate(monkeypatch, memory)
    run = load(TWO.replace("{allowed}", "llm_call")).run()
    assert run.status == "failed"
    assert not {"Remember", "Recall"} & set(seen.effects)
    assert memory.collections.list() == []
    assert embedder.asked == []
    load(TWO.replace("{allowed}", "memory")).run().check()
    assert (seen.effects.count("Remember"), seen.effects.count("Recall")) == (1, 1)


def test_c24_effects_are_in_the_ledger_whether_allowed_or_denied(load: Load, memory: Memory) -> None:
    for allowed, decisions in {
        "memory": [("write", "allow"), ("find", "allow")],
        "memory.write": [("write", "allow"), ("find", "deny")],
        "llm_call": [("write", "deny")],
    }.items():
        run = load(TWO.replace("{allowed}", allowed)).run()
        said = [(event.step, event.decision) for event in run.events if event.kind == "policy_decision"]
        assert said == decisions
        assert run.verify().ok
    assert memory.ledger.verify().ok


def test_c25_not_allowed_beats_allowed(load: Load, memory: Memory) -> None:
    text = TWO.replace("allowed to {allowed}", "allowed to memory{no}")
    for no in ("\n  not allowed to memory", "\n  not allowed to memory.write"):
        run = load(text.replace("{no}", no)).run()
        assert run.error is not None
        assert run.error.type == "permission_denied"
    assert memory.collections.list() == []
    assert load(text.replace("{no}", "")).run().check().output["count"] == 1


def test_c26_an_approval_pauses_and_resumes_and_a_refusal_halts(load: Load, memory: Memory) -> None:
    text = TWO.replace("allowed to {allowed}", "allowed to memory.read\n  requires approval for memory.write")
    paused = load(text).run()
    assert (paused.status, memory.collections.list()) == ("waiting", [])
    assert paused.refuse().status == "failed"
    assert memory.collections.list() == []
    assert load(text).run().approve().check().output["count"] == 1
    assert [one.entries for one in memory.collections.list()] == [1]


def test_c27_compute_and_decide_need_no_capability(load: Load) -> None:
    text = """
    ensures
      not allowed to memory, llm_call, machine.call, http
    implements
      compute metres
        { high: 4 }
      decide tide
        when metres.high > 3
          { tide: "high" }
      {more}
    """
    run = load(text.replace("{more}", "")).run()
    assert run.check().output == {"tide": "high"}
    assert [event for event in run.events if event.kind == "policy_decision"] == []
    denied = load(text.replace("{more}", 'recall find\n        query: "x"\n        collection: "log"')).run()
    assert denied.status == "failed"


def test_c28_on_failure_catches_a_denial(load: Load) -> None:
    text = TWO + "  on failure\n    compute sorry\n      { type: error.type, step: error.step }\n"
    run = load(text.replace("{allowed}", "memory.write")).run()
    assert run.check().output == {"type": "permission_denied", "step": "find"}
    assert load(text.replace("{allowed}", "memory")).run().check().output["count"] == 1


# --- C29 to C32: test mode ---------------------------------------------------------------------------------------


def test_c29_in_test_mode_remember_is_recorded_and_not_written(
    load: Load, memory: Memory, embedder: WatchedEmbedder
) -> None:
    machine = load(TWO.replace("{allowed}", "memory"))
    run = machine.run(mode="test").check()
    recorded = [event for event in run.events if event.step == "write"]
    assert [event.kind for event in recorded] == ["policy_decision", "step_record"]
    assert run.steps["write"]["stored"] is False
    assert (memory.collections.list(), embedder.asked) == ([], [])
    machine.run().check()
    assert [one.entries for one in memory.collections.list()] == [1]


def test_c30_in_test_mode_recall_gives_nothing_even_of_what_is_there(load: Load, memory: Memory, log: Any) -> None:
    log("calm")
    machine = load(TWO.replace("{allowed}", "memory"))
    assert machine.run(mode="test").check().output == {"results": [], "count": 0}
    assert machine.run().check().output["count"] >= 1


VERIFIED = (
    ANSWER
    + """
verifies
  test "what is assumed of the log is shown"
    given { question: "Where?" }
    assuming notes { results: [{ content: "Fog", metadata: { place: "pier" }, score: 0.9 }] }
    assuming reply { reply: "At the pier." }
    expect { reply: "At the pier.", places: ["pier"] }
  test "nothing assumed"
    given { question: "Where?" }
    expect { reply: "The log does not say.", places: [] }
  test "wrong on purpose"
    given { question: "Where?" }
    expect { reply: "Nowhere." }
"""
)


def test_c31_assuming_in_verifies_stands_for_a_recall(load: Load) -> None:
    report = load(VERIFIED).test()
    assert [(case.name, case.passed) for case in report.cases] == [
        ("what is assumed of the log is shown", True),
        ("nothing assumed", True),
        ("wrong on purpose", False),
    ]
    assert (report.passed, report.failed) == (2, 1)


def test_c31_a_mock_of_results_gets_its_count(load: Load) -> None:
    machine = load(look())
    run = machine.run({"words": "x"}, mode="test", assuming={"find": {"results": [{"content": "a"}, {"content": "b"}]}})
    assert run.check().output["count"] == 2
    assert machine.run({"words": "x"}, mode="test").check().output["count"] == 0


def test_c32_tests_need_no_network_no_key_and_cost_nothing(
    load: Load, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    reached: list[Any] = []

    def refuse(*args: Any, **options: Any) -> None:
        reached.append(args)
        raise OSError("no network here")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    machine = load(VERIFIED)
    before = len(memory.ledger.events())
    assert machine.test().passed == 2
    assert machine.run({"question": "Where?"}, mode="test").check().output["reply"] == "The log does not say."
    assert reached == []
    assert memory.collections.list() == []
    # The tests of `verifies` are kept nowhere; a test run that is asked for is on record.
    assert len(memory.runs.list()) == 1
    assert len(memory.ledger.events()) > before
    live = machine.run({"question": "Where?"})
    assert live.error is not None
    assert live.error.type == "model"


# --- C33 to C37: ledger and contracts ----------------------------------------------------------------------------


def test_c33_a_run_begins_and_ends_on_record_with_contiguous_indexes(load: Load) -> None:
    for allowed, status in (("memory", "completed"), ("llm_call", "failed")):
        run = load(TWO.replace("{allowed}", allowed)).run()
        events = run.events
        assert run.status == status
        assert (events[0].kind, events[-1].kind) == ("exec_start", "exec_end")
        assert [event.index for event in events] == list(range(1, len(events) + 1))
        assert {event.kind for event in events[1:-1]} == {"policy_decision", "step_record"}
        assert events[-1].detail["status"] == status


def test_c34_the_first_event_follows_genesis_and_each_the_one_before(load: Load) -> None:
    machine = load(TWO.replace("{allowed}", "memory"))
    for run in (machine.run(), machine.run()):
        events = run.events
        assert events[0].prev_hash == GENESIS
        assert [event.prev_hash for event in events][1:] == [event.hash for event in events][:-1]
        assert run.verify().head == events[-1].hash


@pytest.mark.parametrize("damage", ["edit", "drop", "reorder"])
def test_c35_damage_to_any_event_is_found_and_named(path: str, write: Any, damage: str) -> None:
    import apsw

    with memoranda.open(path, embedder="hashing:64") as memory:
        run = memoranda.mashin.load(write(TWO.replace("{allowed}", "memory")), memory=memory).run().check()
        assert run.verify().ok
    connection = apsw.Connection(path)
    found = list(connection.execute("SELECT position, hash, body FROM events WHERE run = ? ORDER BY 1", (run.id,)))
    (third, *one), (fourth, *two) = found[2:4]
    if damage == "edit":
        connection.execute("UPDATE events SET body = ? WHERE position = ?", (bytes(one[1]) + b" ", third))
    elif damage == "drop":
        connection.execute("DELETE FROM events WHERE position = ?", (third,))
    else:
        connection.execute("UPDATE events SET hash = ?, body = ? WHERE position = ?", (*two, third))
        connection.execute("UPDATE events SET hash = ?, body = ? WHERE position = ?", (*one, fourth))
    connection.close()
    with memoranda.open(path, embedder="hashing:64") as memory:
        seen = memory.runs.verify(run.id)
    assert (seen.ok, seen.index) == (False, 3)
    assert seen.reason


def test_c36_input_that_does_not_fit_leaves_no_events(load: Load, memory: Memory, scripted: Any) -> None:
    model = scripted({"reply": "yes"})
    machine = load(ANSWER, model=model)
    for wrong in ({}, {"question": None}, {"question": 7}, {"question": "x", "other": 1}):
        with pytest.raises(SchemaViolation, match=r"question|other"):
            machine.run(wrong)
    assert memory.ledger.events() == []
    assert model.asked == []
    machine.run({"question": "x"}).check()
    assert memory.ledger.events() != []
    assert len(model.asked) == 1


def test_c37_extra_output_is_stripped_and_missing_output_fails(load: Load) -> None:
    text = """
    responds with
      tide as text
      metres as number, default: 0
    implements
      compute shown
        { {fields} }
    """
    run = load(text.replace("{fields}", 'tide: "high", metres: 4, moon: "full"')).run()
    assert run.check().output == {"tide": "high", "metres": 4}
    assert run.steps["shown"]["moon"] == "full"
    filled = load(text.replace("{fields}", 'tide: "high", metres: null')).run()
    assert filled.check().output == {"tide": "high", "metres": 0}
    missing = load(text.replace("{fields}", 'metres: 4, moon: "full"')).run()
    assert missing.error is not None
    assert missing.error.type == "contract"
    assert "tide" in missing.error.message
    assert missing.output is None
