"""What a machine may do: every level and every spelling, and that nothing happens before it is allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import memoranda
from memoranda import Policy
from memoranda.api.memory import Memory
from memoranda.errors import Conflict, Denied, RunFailed, UsageError
from memoranda.mashin import Machine, Run
from memoranda.mashin.permissions import Permissions, Verdict
from memoranda.testing.conformance.base import WatchedEmbedder

Load = Callable[..., Machine]

KEEP = """
implements
  remember keep
    content: "The queen of hive four is marked blue"
    collection: "hives"
  compute done
    { kept: keep.stored }
"""
FIND = """
implements
  recall find
    query: "Which queen is blue?"
    collection: "hives"
  compute done
    { found: find.count }
"""
ASK = """
implements
  ask answer, using: "anthropic:claude-sonnet-4-6"
    with task "Name a flower"
    returns
      flower as text
  compute done
    { flower: answer.flower }
"""
CALL = """
implements
  ask weather, from: "weather"
    place: "the orchard"
  compute done
    { sky: weather.sky }
"""
WEATHER = """
machine weather
  accepts
    place as text, is required
  responds with
    sky as text
  implements
    compute look
      { sky: "clear over " + input.place }
"""
STEPS = {"remember": (KEEP, "keep"), "recall": (FIND, "find"), "ask": (ASK, "answer"), "call": (CALL, "weather")}
OUTPUTS = {
    "remember": {"kept": True},
    "recall": {"found": 0},
    "ask": {"flower": "borage"},
    "call": {"sky": "clear over the orchard"},
}

ALLOWED = {
    "a block of permissions": ("remember", "ensures\n  permissions\n    allowed to\n      memory"),
    "a line in a block": ("remember", "ensures\n  permissions\n    allowed to memory"),
    "a line without a block": ("remember", "ensures\n  allowed to memory"),
    "several in a line": ("recall", "ensures\n  allowed to llm_call, memory"),
    "several lines": ("recall", "ensures\n  allowed to\n    llm_call\n    memory"),
    "writing alone": ("remember", "ensures\n  allowed to memory.write"),
    "reading alone": ("recall", "ensures\n  allowed to memory.read"),
    "reading, where writing is denied": ("recall", "ensures\n  allowed to memory\n  not allowed to memory.write"),
    "llm_call": ("ask", "ensures\n  allowed to llm_call"),
    "reason": ("ask", "ensures\n  allowed to reason"),
    "compute.llm.reason": ("ask", "ensures\n  allowed to compute.llm.reason"),
    "compute.llm_reason": ("ask", "ensures\n  allowed to compute.llm_reason"),
    "any machine": ("call", "ensures\n  allowed to machine.call"),
    "one machine": ("call", 'ensures\n  allowed to call "weather"'),
}
DENIED = {
    "remember without a word": ("remember", ""),
    "recall without a word": ("recall", ""),
    "ask without a word": ("ask", ""),
    "call without a word": ("call", ""),
    "another capability": ("remember", "ensures\n  allowed to llm_call"),
    "reading is not writing": ("remember", "ensures\n  allowed to memory.read"),
    "writing is not reading": ("recall", "ensures\n  allowed to memory.write"),
    "memory is no model": ("ask", "ensures\n  allowed to memory"),
    "another machine": ("call", 'ensures\n  allowed to call "tide"'),
    "said no": ("remember", "ensures\n  not allowed to memory"),
    "no after yes": ("remember", "ensures\n  allowed to memory\n  not allowed to memory"),
    "no before yes": ("recall", "ensures\n  not allowed to memory\n  allowed to memory"),
    "no to the part": ("remember", "ensures\n  allowed to memory\n  not allowed to memory.write"),
    "no to the whole": ("recall", "ensures\n  allowed to memory.read\n  not allowed to memory"),
    "no beats approval": ("ask", "ensures\n  requires approval for llm_call\n  not allowed to reason"),
    "no under another name": ("ask", "ensures\n  allowed to llm_call\n  not allowed to compute.llm.reason"),
    "no to one machine": ("call", 'ensures\n  allowed to machine.call\n  not allowed to call "weather"'),
    "no to all machines": ("call", 'ensures\n  allowed to call "weather"\n  not allowed to machine.call'),
}


class Watched:
    """A machine with everything it could reach, counted."""

    def __init__(self, load: Load, memory: Memory, embedder: WatchedEmbedder, model: Any) -> None:
        self._load, self._memory, self.embedder, self.model = load, memory, embedder, model

    def run(self, ensures: str, kind: str, **options: Any) -> Run:
        steps, _ = STEPS[kind]
        weather = self._load(WEATHER)
        machine = self._load(f"{ensures}\n{steps}", model=self.model, machines=[weather], **options)
        return machine.run()

    @property
    def entries(self) -> list[Any]:
        held = {one.name for one in self._memory.collections.list()}
        return self._memory.scope().entries(collection="hives") if "hives" in held else []

    @property
    def touched(self) -> dict[str, int]:
        """How often each thing outside was reached."""
        calls = self._memory.runs.list(program="weather")
        reached = {
            "embedder": len(self.embedder.asked),
            "model": len(self.model.asked),
            "store": len(self.entries),
            "machine": len(calls),
        }
        return {name: count for name, count in reached.items() if count}


@pytest.fixture
def watched(load: Load, memory: Memory, embedder: WatchedEmbedder, scripted: Any) -> Watched:
    return Watched(load, memory, embedder, scripted({"flower": "borage"}, again=True))


def decisions(run: Run) -> list[tuple[str | None, str, str]]:
    """Return the decisions of a run: the step, what was decided, and on which capability."""
    return [
        (event.step, event.decision, event.detail["capability"])
        for event in run.events
        if event.kind == "policy_decision"
    ]


NEEDS = {"remember": "memory.write", "recall": "memory.read", "ask": "llm_call", "call": "machine.call"}
REACHES = {"remember": {"embedder", "store"}, "recall": set[str](), "ask": {"model"}, "call": {"machine"}}


@pytest.mark.parametrize(("kind", "ensures"), ALLOWED.values(), ids=ALLOWED)
def test_what_is_allowed_happens_and_is_on_record(watched: Watched, kind: str, ensures: str) -> None:
    run = watched.run(ensures, kind).check()
    assert run.output == OUTPUTS[kind]
    assert set(watched.touched) == REACHES[kind]
    assert decisions(run) == [(STEPS[kind][1], "allow", NEEDS[kind])]


@pytest.mark.parametrize(("kind", "ensures"), DENIED.values(), ids=DENIED)
def test_what_is_not_allowed_reaches_nothing_and_is_on_record(watched: Watched, kind: str, ensures: str) -> None:
    run = watched.run(ensures, kind)
    step = STEPS[kind][1]
    assert run.status == "failed"
    assert run.error is not None
    assert (run.error.type, run.error.step) == ("permission_denied", step)
    assert run.output is None
    assert watched.touched == {}
    assert decisions(run) == [(step, "deny", NEEDS[kind])]
    assert run.verify().ok
    # The control: with the word that is missing, the same steps reach what they wanted.
    fine = "ensures\n  allowed to memory, llm_call, machine.call"
    assert watched.run(fine, kind).check().output == OUTPUTS[kind]
    assert set(watched.touched) == REACHES[kind]


def test_a_recall_that_is_denied_does_not_embed_its_query(watched: Watched, memory: Memory) -> None:
    memory.scope().remember("Hive two has a red queen", collection="hives")
    watched.embedder.asked.clear()
    assert watched.run("ensures\n  allowed to llm_call", "recall").status == "failed"
    assert watched.embedder.asked == []
    assert watched.run("ensures\n  allowed to memory", "recall").output == {"found": 1}
    assert len(watched.embedder.asked) == 1


def test_a_denial_says_which_word_is_missing(watched: Watched) -> None:
    with pytest.raises(RunFailed, match="keep") as caught:
        watched.run("", "remember").check()
    assert "memory.write" in caught.value.hint
    assert caught.value.details["type"] == "permission_denied"
    assert watched.run("ensures\n  allowed to memory.write", "remember").check().output == {"kept": True}


def test_steps_after_a_denial_are_not_taken(load: Load, memory: Memory) -> None:
    text = """
    ensures
      allowed to memory.write{extra}
    implements
      remember first
        content: "one"
        collection: "hives"
      recall second
        query: "one"
        collection: "hives"
      remember third
        content: "three"
        collection: "hives"
    """
    run = load(text.replace("{extra}", "")).run()
    assert [event.step for event in run.events if event.kind == "step_record"] == ["first", "second"]
    assert run.events[-1].kind == "exec_end"
    assert [entry.content for entry in memory.scope().entries(collection="hives")] == ["one"]
    load(text.replace("{extra}", ", memory.read")).run().check()
    assert [entry.content for entry in memory.scope().entries(collection="hives")].count("three") == 1


def test_computing_and_deciding_need_no_permission(load: Load) -> None:
    run = load("""
    implements
      compute weight
        { kilos: 12 }
      decide heavy
        when weight.kilos > 10
          { heavy: true }
        otherwise
          { heavy: false }
    """).run()
    assert run.check().output == {"heavy": True}
    assert decisions(run) == []
    assert [event.detail["type"] for event in run.events if event.kind == "step_record"] == ["compute", "decide"]


def test_on_failure_catches_a_denial_and_sees_what_was_denied(watched: Watched, load: Load) -> None:
    text = (
        KEEP
        + """
  on failure
    compute sorry
      { kept: false, type: error.type, step: error.step, capability: error.details.capability }
"""
    )
    run = load(text).run().check()
    assert run.output == {"kept": False, "type": "permission_denied", "step": "keep", "capability": "memory.write"}
    assert watched.touched == {}
    assert decisions(run) == [("keep", "deny", "memory.write")]
    assert load(f"ensures\n  allowed to memory\n{text}").run().check().output == {"kept": True}


# approval


HELD = """
ensures
  allowed to memory.read, llm_call
  requires approval for memory.write
implements
  ask draft, using: "anthropic:claude-sonnet-4-6"
    with task "Write a label for the jar"
    returns
      label as text
  remember keep
    content: draft.label
    collection: "jars"
  ask second, using: "anthropic:claude-sonnet-4-6"
    with task "And one for ${draft.label}"
    returns
      label as text
  compute done
    { kept: keep.stored, labels: [draft.label, second.label] }
"""


@pytest.fixture
def jars(scripted: Any) -> Any:
    return scripted({"label": "Linden, June"}, {"label": "Chestnut, July"})


def jar_entries(memory: Memory) -> list[Any]:
    held = {one.name for one in memory.collections.list()}
    return [one.content for one in memory.scope().entries(collection="jars")] if "jars" in held else []


def test_a_step_that_requires_approval_waits_and_shows_what_it_wants(load: Load, memory: Memory, jars: Any) -> None:
    run = load(HELD, model=jars).run()
    assert run.status == "waiting"
    assert run.output is None
    assert run.waiting is not None
    assert (run.waiting.kind, run.waiting.step, run.waiting.capability) == ("approval", "keep", "memory.write")
    [asked] = memory.approvals.list()
    assert asked.id == run.waiting.approval
    assert asked.capability == "memory.write"
    assert asked.actor == "machine:desk"
    assert asked.effect is not None
    assert "Linden, June" in str(msgspec.to_builtins(asked.effect)["about"])
    assert jar_entries(memory) == []
    assert len(jars.asked) == 1
    assert decisions(run)[-1] == ("keep", "pending", "memory.write")
    assert run.verify().ok
    # The control: once it is approved, the same text is there.
    assert run.approve().check().status == "completed"
    assert jar_entries(memory) == ["Linden, June"]


def test_whoever_approves_sees_where_it_goes_and_for_how_long(load: Load) -> None:
    text = """
    ensures
      requires approval for memory, llm_call
    implements
      remember keep
        content: "Linden, June"
        collection: "jars"
        namespace: "shelf 7"
        ttl: "30d"
      recall find
        query: "linden"
        collection: "jars"
        namespace: "shelf 7"
        filter: { sold: false }
      ask more, using: "openai:gpt"
        with task "Which jars?"
        with tools ["cellar"]
    """
    run = load(text).run()
    shown: list[dict[str, str]] = []
    while run.waiting is not None:
        shown.append(run.waiting.about)
        run = run.approve()
    assert shown == [
        {"effect": "remember", "collection": "jars", "namespace": "shelf 7", "ttl": "30d", "content": "Linden, June"},
        {
            "effect": "recall",
            "collection": "jars",
            "namespace": "shelf 7",
            "filter": '{"sold":false}',
            "limit": "5",
            "query": "linden",
        },
        {"effect": "ask", "model": "openai:gpt", "tools": '["cellar"]', "role": "", "task": "Which jars?"},
    ]
    assert not any("shelf 7" in str(event.detail) for event in run.events)


def test_approving_goes_on_exactly_where_the_run_stood(load: Load, memory: Memory, jars: Any) -> None:
    run = load(HELD, model=jars).run()
    before = [event.hash for event in run.events]
    done = run.approve(reason="looks good").check()
    assert done.id == run.id
    assert done.output == {"kept": True, "labels": ["Linden, June", "Chestnut, July"]}
    assert len(jars.asked) == 2, "the first question was not asked a second time"
    assert jar_entries(memory) == ["Linden, June"]
    events = done.events
    assert [event.hash for event in events][: len(before)] == before
    assert [event.index for event in events] == list(range(1, len(events) + 1))
    assert [(one.kind, one.step) for one in events].count(("step_record", "draft")) == 1
    assert decisions(done) == [
        ("draft", "allow", "llm_call"),
        ("keep", "pending", "memory.write"),
        ("keep", "approved", "memory.write"),
        ("second", "allow", "llm_call"),
    ]
    assert memory.approvals.list() == []
    assert done.verify().ok
    assert memory.ledger.verify().ok


def test_refusing_halts_with_nothing_done(load: Load, memory: Memory, jars: Any) -> None:
    done = load(HELD, model=jars).run().refuse(reason="wrong year")
    assert done.status == "failed"
    assert done.error is not None
    assert (done.error.type, done.error.step) == ("permission_denied", "keep")
    assert "wrong year" in done.error.message
    assert jar_entries(memory) == []
    assert len(jars.asked) == 1
    assert decisions(done)[-1] == ("keep", "refused", "memory.write")
    assert done.verify().ok
    # The control: had it been approved, there would be a jar.
    jars.replies = [{"label": "Linden, June"}, {"label": "Chestnut, July"}]
    load(HELD, model=jars).run().approve().check()
    assert jar_entries(memory) == ["Linden, June"]


def test_on_failure_catches_a_refusal(load: Load, memory: Memory, jars: Any) -> None:
    text = HELD + "  on failure\n    compute sorry\n      { kept: false, why: error.type, step: error.step }\n"
    assert load(text, model=jars).run().refuse().check().output == {
        "kept": False,
        "why": "permission_denied",
        "step": "keep",
    }
    assert jar_entries(memory) == []
    jars.replies = [{"label": "Linden, June"}, {"label": "Chestnut, July"}]
    assert load(text, model=jars).run().approve().check().output["kept"] is True


def test_every_run_has_to_be_approved_anew(load: Load, memory: Memory) -> None:
    machine = load("""
    accepts
      number as integer, is required
    ensures
      requires approval for memory
    implements
      remember keep
        content: "Hive " + input.number
        collection: "hives"
    """)
    machine.run({"number": 1}).approve().check()
    again = machine.run({"number": 2})
    assert again.status == "waiting"
    assert [one.content for one in memory.scope().entries(collection="hives")] == ["Hive 1"]
    again.approve().check()
    assert [one.content for one in memory.scope().entries(collection="hives")] == ["Hive 1", "Hive 2"]


def test_every_round_of_a_loop_has_to_be_approved_anew(load: Load, memory: Memory) -> None:
    run = load("""
    ensures
      requires approval for memory
    implements
      compute rounds
        { left: 3 }
      run flow(each)
      flow each
        compute rounds_before
          { left: (steps.counted?.left ?? 3) }
        remember keep
          content: "Frame " + rounds_before.left
          collection: "hives"
        compute counted
          { left: rounds_before.left - 1 }
        decide more
          when counted.left > 0
            goto flow(each)
          otherwise
            { done: true }
    """).run()
    asked: list[str | None] = []
    while run.status == "waiting":
        assert run.waiting is not None
        asked.append(run.waiting.about.get("content"))
        run = run.approve()
    assert run.check().output == {"done": True}
    assert asked == ["Frame 3", "Frame 2", "Frame 1"]
    assert [one.content for one in memory.scope().entries(collection="hives")] == asked


def test_two_steps_that_require_approval_wait_one_after_the_other(load: Load, memory: Memory) -> None:
    run = load("""
    ensures
      requires approval for memory.write
      allowed to memory.read
    implements
      remember first
        content: "one"
        collection: "hives"
      remember second
        content: "two"
        collection: "hives"
    """).run()
    contents: list[list[Any]] = []
    while run.status == "waiting":
        held = {one.name for one in memory.collections.list()}
        contents.append([e.content for e in memory.scope().entries(collection="hives")] if held else [])
        run = run.approve()
    assert contents == [[], ["one"]]
    assert [e.content for e in memory.scope().entries(collection="hives")] == ["one", "two"]
    assert run.check().verify().ok


@pytest.mark.parametrize("kind", NEEDS)
def test_every_effect_can_wait_for_approval(watched: Watched, kind: str) -> None:
    run = watched.run(f"ensures\n  requires approval for {NEEDS[kind]}", kind)
    assert run.status == "waiting"
    assert watched.touched == {}
    assert run.approve().check().output == OUTPUTS[kind]
    assert set(watched.touched) == REACHES[kind]


def test_a_verdict_is_given_once_and_by_somebody_else(load: Load, memory: Memory, jars: Any) -> None:
    run = load(HELD, model=jars).run()
    assert run.waiting is not None
    assert run.waiting.approval is not None
    machine = memory.acting_as("machine:desk", policy=Policy.of(allow=("approvals",)))
    with pytest.raises(Denied, match="asked for this"):
        machine.approvals.approve(run.waiting.approval)
    done = run.approve()
    assert done.status == "completed"
    with pytest.raises(Conflict):
        run.approve()
    with pytest.raises(UsageError, match="completed"):
        done.approve()
    assert jar_entries(memory) == ["Linden, June"]


def test_a_run_that_still_waits_stays_as_it_is_when_it_is_resumed(load: Load, memory: Memory, jars: Any) -> None:
    run = load(HELD, model=jars).run()
    again = run.resume()
    assert (again.status, again.id) == ("waiting", run.id)
    assert len(again.events) == len(run.events)
    assert len(memory.approvals.list()) == 1
    assert run.waiting is not None
    assert run.waiting.approval is not None
    memory.approvals.approve(run.waiting.approval)
    assert run.resume().check().status == "completed"
    assert len(jars.asked) == 2


def test_what_is_held_is_not_written_to_the_ledger(path: str, jars: Any, write: Any) -> None:
    with memoranda.open(path, embedder="hashing:64") as memory:
        run = memoranda.mashin.load(write(HELD), memory=memory, model=jars).run(user="ada")
        bodies = [bytes(body) for _, body in _events(path)]
        assert not [body for body in bodies if b"Linden" in body]
        assert any(run.id.encode() in body for body in bodies)
        run.approve().check()
        assert not [body for _, body in _events(path) if b"Linden" in bytes(body)]
        assert memory.scope(user="ada").entries(collection="jars")[0].content == "Linden, June"


def _events(path: str) -> list[tuple[int, bytes]]:
    import apsw

    connection = apsw.Connection(path)
    try:
        return list(connection.execute("SELECT position, body FROM events ORDER BY position"))
    finally:
        connection.close()


# the gate below the machine


def test_the_gate_holds_even_where_the_runtime_would_not(load: Load, memory: Memory, monkeypatch: Any) -> None:
    """A machine's handle is narrowed too, so that a fault of the runtime is no way to the store."""
    monkeypatch.setattr(Permissions, "verdict", lambda self, need: Verdict("allow", need.capability))
    run = load(f"ensures\n  allowed to memory.read\n{KEEP}").run()
    assert run.status == "failed"
    assert run.error is not None
    assert run.error.type == "permission_denied"
    assert memory.collections.list() == []
    assert load(f"ensures\n  allowed to memory\n{KEEP}").run().check().output == {"kept": True}


def test_a_machine_has_no_more_than_whoever_runs_it(load: Load, memory: Memory) -> None:
    text = f"ensures\n  allowed to memory\n{KEEP}"
    guest = memory.acting_as("guest", policy=Policy.of(allow=("runs", "memory.read")))
    run = load(text, memory=guest).run()
    assert run.error is not None
    assert run.error.type == "permission_denied"
    assert memory.collections.list() == []
    host = memory.acting_as("host", policy=Policy.of(allow=("runs", "memory")))
    assert load(text, memory=host).run().check().output == {"kept": True}


def test_whoever_may_not_run_machines_runs_none(load: Load, memory: Memory) -> None:
    text = f"ensures\n  allowed to memory\n{KEEP}"
    with pytest.raises(Denied, match=r"runs\.write"):
        load(text, memory=memory.acting_as("reader", policy=Policy.of(allow=("memory", "runs.read")))).run()
    assert memory.collections.list() == []
    host = memory.acting_as("host", policy=Policy.of(allow=("runs", "memory")))
    assert load(text, memory=host).run().check().output == {"kept": True}


def test_a_run_goes_on_with_the_rights_of_whoever_began_it(load: Load, memory: Memory, scripted: Any) -> None:
    text = """
    ensures
      allowed to memory
      requires approval for llm_call
    implements
      ask label, using: "anthropic:claude-sonnet-4-6"
        with task "A label"
        returns
          text as text
      remember keep
        content: label.text
        collection: "jars"
    """
    model = scripted({"text": "Linden"}, again=True)

    def begun(*allowed: str) -> Run:
        guest = memory.acting_as("guest", policy=Policy.of(allow=allowed))
        run = load(text, memory=guest, model=model).run()
        assert run.waiting is not None
        assert run.waiting.approval is not None
        memory.approvals.approve(run.waiting.approval)
        return run

    reader = begun("runs", "memory.read")
    with pytest.raises(Denied, match="guest"):
        load(text, model=model).find(reader.id).resume()
    assert model.asked == []
    done = reader.resume()
    assert done.error is not None
    assert (done.error.type, done.error.step) == ("permission_denied", "keep")
    assert memory.collections.list() == []
    assert begun("runs", "memory").resume().check().status == "completed"
    assert jar_entries(memory) == ["Linden"]


def test_the_owner_decides_about_a_run_of_somebody_else_who_then_goes_on(load: Load, memory: Memory) -> None:
    text = f"ensures\n  requires approval for memory\n{FIND}"
    guest = memory.acting_as("guest", policy=Policy.of(allow=("runs", "memory.read")))
    run = load(text, memory=guest).run()
    decided = memoranda.mashin.find(memory, run.id).approve()
    assert decided.status == "waiting", "the owner decides, and does not go on with the owner's rights"
    assert run.resume().check().output == {"found": 0}
    own = load(text).run()
    assert memoranda.mashin.find(memory, own.id).approve().check().output == {"found": 0}


def test_what_its_caller_would_have_to_ask_for_leaves_no_request_behind(load: Load, memory: Memory) -> None:
    text = f"ensures\n  allowed to memory\n{KEEP}"
    careful = memory.acting_as("careful", policy=Policy.of(allow=("runs", "memory.read"), approve=("memory.write",)))
    run = load(text, memory=careful).run()
    assert run.error is not None
    assert (run.error.type, run.error.step) == ("permission_denied", "keep")
    assert memory.approvals.list() == []
    assert memory.collections.list() == []
    assert load(text).run().check().output == {"kept": True}


# guards


def test_a_guard_stops_what_goes_out(load: Load, memory: Memory, embedder: WatchedEmbedder) -> None:
    machine = load("""
    accepts
      note as text, is required
    ensures
      allowed to memory
      guards
        no_secrets
    implements
      remember keep
        content: input.note
        collection: "hives"
    """)
    run = machine.run({"note": "the key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"})
    assert run.error is not None
    assert (run.error.type, run.error.step) == ("guard", "keep")
    assert embedder.asked == []
    assert memory.collections.list() == []
    denied = [event for event in run.events if event.decision == "deny"]
    assert [event.detail["guard"] for event in denied] == ["no_secrets"]
    assert "sk-proj" not in str([msgspec.to_builtins(event) for event in run.events])
    assert machine.run({"note": "nine frames of brood"}).check().status == "completed"
    assert embedder.asked == ["nine frames of brood"]


def test_a_guard_after_a_recall_withholds_what_came_back(load: Load, memory: Memory, scripted: Any) -> None:
    memory.scope().remember("Call the beekeeper: anna.keeper@example.org", collection="hives")
    model = scripted({"flower": "none"}, again=True)
    text = """
    ensures
      allowed to memory, llm_call
      {guards}
    implements
      recall find
        query: "Whom do I call about bees?"
        collection: "hives"
      ask answer, using: "anthropic:claude-sonnet-4-6"
        with task "${find.results.map(r => r.content).join()}"
        returns
          flower as text
    """
    blocked = load(text.replace("{guards}", "guards\n        no_personal_data"), model=model).run()
    assert blocked.error is not None
    assert (blocked.error.type, blocked.error.step) == ("guard", "find")
    assert model.asked == []
    assert "find" not in blocked.steps
    redacting = 'guards\n        no_personal_data\n          on_violation: "redact"'
    load(text.replace("{guards}", redacting), model=model).run().check()
    assert model.tasks == ["Call the beekeeper: [redacted]"]
    load(text.replace("{guards}", ""), model=model).run().check()
    assert "anna.keeper@example.org" in model.tasks[-1]


def test_a_guard_of_ones_own_is_asked_before_and_after(load: Load) -> None:
    seen: list[tuple[str, Any]] = []

    def watch(data: Any, when: str) -> str | None:
        seen.append((when, data))
        return "too many hives" if when == "before" and "hundred" in str(data) else None

    machine = load(
        """
    accepts
      note as text, is required
    ensures
      allowed to memory
      guards
        few_hives
    implements
      remember keep
        content: input.note
        collection: "hives"
    """,
        guards={"few_hives": watch},
    )
    assert machine.run({"note": "three hives"}).check().status == "completed"
    assert [when for when, _ in seen] == ["before", "after"]
    stopped = machine.run({"note": "a hundred hives"})
    assert stopped.error is not None
    assert stopped.error.type == "guard"
    assert "too many hives" in stopped.error.message
    assert [when for when, _ in seen] == ["before", "after", "before"]
