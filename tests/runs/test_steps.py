"""Step records: what each step was given, said, read, wrote and returned, in all three languages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from loopback_server import Answer, LoopbackServer

import memoranda
from memoranda import Policy, Recording
from memoranda.agent.models import Ask, Reply, ToolCall
from memoranda.errors import Denied, NotFound, UsageError
from memoranda.runs.redaction import REDACTED
from memoranda.testing.fakes import FakeClock

WORKFLOW = """
defs:
  clerk: {kind: model, settings: {provider: openai, model_id: gpt-5-mini}}
  tell: {kind: tools, action: send_text_message, description: Say it, settings: {}}
  greet: {kind: task, action: send_text_message, inputs: {text: "='Hello ' & $input.name"}}
  think:
    kind: task
    action: ai_agent
    inputs: {prompt: "='Write to ' & $input.name"}
    bindings: {tools: [tell], model: clerk}
  hear: {kind: task, action: wait_for_reply, inputs: {}}
flow:
  - do: greet
  - do: think
  - do: hear
"""
MACHINE = """
machine shelf "Keep a note"
  accepts
    plant as text, is required
  ensures
    permissions
      allowed to memory
  implements
    remember kept
      content: input.plant
      collection: "plants"
    recall found
      query: input.plant
      collection: "plants"
    wait for visitor
      event: "bell"
    compute said
      { count: found.count }
"""
AGENT = """
AGENT: Usher
GOAL: "Know who sits where"
MEMORY:
  persistent:
    - user.seat
  remember:
    - WHEN: seat IS SET
      STORE: seat -> user.seat
FLOW:
  ask:
    REASONING: false
    GATHER:
      - seat:
        prompt: "Which seat?"
    RESPOND: "Enjoy {{seat}}."
    THEN: COMPLETE
"""


class Clerk:
    """A model that calls its first tool once, and then answers."""

    name = "fake:clerk"

    def __init__(self, answer: str = "done") -> None:
        self.asked: list[Ask] = []
        self.answer = answer

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        self.asked.append(ask)
        if len(self.asked) == 1 and ask.tools:
            return Reply("One moment", (ToolCall("c1", ask.tools[0].name, {"text": "hi"}),), tokens_in=3, tokens_out=4)
        return Reply(self.answer, tokens_in=5, tokens_out=6)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memory(clock: FakeClock) -> Iterator[memoranda.Memory]:
    with memoranda.open(":memory:", clock=clock) as opened:
        yield opened


def flow(memory: memoranda.Memory, text: str = WORKFLOW, *, model: Any = None, **options: Any) -> Any:
    recording = Recording(**{"values": "full", **options})
    behaviour = memoranda.workflow.Behaviour(recording=recording)
    return memoranda.workflow.load(text, memory=memory, name="letters", model=model or Clerk(), behaviour=behaviour)


def test_a_workflow_records_inputs_outputs_messages_and_what_it_waits_for(memory):
    run = flow(memory).run({"name": "Ada"}, owner="ada")
    greet, think, tell, hear = memory.runs.steps(run.id)
    assert [one.number for one in (greet, think, tell, hear)] == [1, 2, 3, 4]
    assert (greet.step, greet.type, greet.status) == ("greet", "send_text_message", "completed")
    assert (greet.inputs, greet.output, greet.error) == ({"text": "Hello Ada"}, {"text": "Hello Ada"}, None)
    assert greet.started_at == memory.clock.now() and greet.seconds >= 0
    said = [(one["role"], one["text"]) for one in think.messages]
    assert said[1:3] == [("user", "Write to Ada"), ("assistant", "One moment")]
    assert said[3:] == [("tool", '{"text":"hi"}'), ("assistant", "done")]
    assert think.messages[2]["calls"] == [{"id": "c1", "name": "tell", "arguments": {"text": "hi"}}]
    assert (think.messages[-1]["model"], think.messages[-1]["tokens_out"]) == ("fake:clerk", 6)
    # The tool that the model called is a part of its task.
    assert (tell.step, tell.parent, tell.inputs) == ("tell", 2, {"text": "hi"})
    assert (hear.step, hear.status) == ("hear", "waiting")
    done = run.deliver("Thank you")
    assert [(one.step, one.status) for one in done.step_records[4:]] == [("hear", "completed")]
    assert done.step_records[4].output == {"text": "Thank you"}
    assert done.summary.recorded == 5 and done.verify().ok
    assert all(finding.ok for finding in memory.inspect())


def test_a_failed_step_says_why_and_how_often_it_was_tried(memory):
    text = """
defs:
  call:
    kind: task
    action: http_request
    inputs: {method: GET, url: "http://127.0.0.1:9/"}
    settings: {retries: {enabled: true, max_attempts: 2, backoff_ms: 0}}
flow:
  - do: call
"""
    run = flow(memory, text).run({}, owner="ada")
    [step] = run.step_records
    assert (run.status, step.status, step.attempts) == ("failed", "failed", 2)
    assert step.error is not None and step.error["message"] == run.error.message


def test_nothing_is_recorded_unless_it_is_asked_for(memory):
    load = memoranda.workflow.load
    run = load(WORKFLOW, memory=memory, name="letters", model=Clerk()).run({"name": "Ada"}, owner="ada")
    assert (run.step_records, run.summary.recorded) == ([], 0)
    assert [fact.key for fact in memory.scope(run=run.id).list(internal=True) if fact.key.startswith("steps")] == []
    with pytest.raises(NotFound):
        memory.runs.steps("nowhere")


def test_a_machine_records_each_step_once_and_the_memory_that_it_reads_and_writes(memory):
    behaviour = memoranda.mashin.Behaviour(recording=Recording(values="full"))
    run = memoranda.mashin.load(MACHINE, memory=memory, behaviour=behaviour).run({"plant": "fern"}, user="ada")
    kept, found, visitor = run.step_records
    assert (kept.inputs["content"], kept.writes) == ("fern", (f"entry:{kept.output['id']}",))
    assert (found.inputs, found.reads) == ({"query": "fern"}, kept.writes)
    assert (visitor.step, visitor.status) == ("visitor", "waiting")
    # Resuming executes the steps again from the first one, but they have been recorded.
    done = run.deliver({"name": "Ada"})
    steps = [(one.step, one.status) for one in done.step_records]
    assert steps[:3] == [("kept", "completed"), ("found", "completed"), ("visitor", "waiting")]
    assert steps[3:] == [("visitor", "completed"), ("said", "completed")]
    assert done.step_records[-1].output == {"count": 1}
    assert done.replay().same and done.verify().ok


def test_a_turn_of_an_agent_is_recorded_with_what_happened_in_it(memory):
    behaviour = memoranda.abl.Behaviour(recording=Recording(values="full"))
    session = memoranda.abl.load(AGENT, memory=memory, behaviour=behaviour).start(user="ada")
    session.say("row seven")
    steps = session.step_records()
    opening, turn = (one for one in steps if one.type == "turn")
    assert opening.output == {"messages": ["Which seat?"], "status": "waiting"}
    assert (turn.inputs, turn.output["messages"]) == ({"input": "row seven"}, ["Enjoy row seven."])
    assert turn.writes == ("fact:user:ada#seat",)
    parts = {one.type: one for one in steps if one.parent == turn.number}
    assert parts["gathered"].output == {"value": "row seven"} and parts["remembered"].step == "user.seat"
    assert [one.number for one in session.step_records(after=turn.number, limit=2)] == [
        turn.number + 1,
        turn.number + 2,
    ]


def test_what_an_agent_masks_is_not_recorded(memory):
    class Model:
        name = "fake:one"

        def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
            return Reply("I noted 4111 1111 1111 1111")

    text = """
AGENT: Till
GOAL: "Take a card"
FLOW:
  ask:
    REASONING: false
    GATHER:
      - card:
        prompt: "Card?"
        type: string
        sensitive: true
      - name:
        prompt: "Name?"
    THEN: COMPLETE
"""
    behaviour = memoranda.abl.Behaviour(recording=Recording(values="full"))
    session = memoranda.abl.load(text, memory=memory, model=Model(), behaviour=behaviour).start(user="ada")
    session.say("4111 1111 1111 1111")
    session.say("Ada")
    assert session.vars["card"] is not None
    recorded = json.dumps([one.to_dict() for one in session.step_records()])
    assert "Ada" in recorded
    assert "4111" not in recorded


def test_long_values_are_cut_and_say_so(memory):
    run = flow(memory, model=Clerk("x" * 900), value_bytes=200).run({"name": "Ada" * 200}, owner="ada")
    greet, think, *_ = run.step_records
    assert greet.truncated == ("inputs", "output")
    assert greet.inputs["truncated"] is True and greet.inputs["bytes"] > 600
    assert greet.inputs["start"].startswith('{"text":"Hello AdaAda') and len(greet.inputs["start"]) <= 200
    assert "messages" in think.truncated and any(one.get("truncated") for one in think.messages)
    assert memory.runs.get(run.id).status == "waiting"


def test_the_number_of_steps_is_bounded_and_the_rest_is_counted(memory):
    text = """
defs:
  note: {kind: task, action: set_context, inputs: {values: {n: "=$iteration.index"}}}
flow:
  - loop: {type: for_each, for_each: {in: "=[1..20]"}, steps: [{do: note}]}
"""
    run = flow(memory, text, steps=5).run({}, owner="ada")
    steps = run.step_records
    assert [one.step for one in steps[:5]] == ["note"] * 5
    assert (len(steps), steps[5].type, steps[5].output) == (6, "left_out", {"steps": 15})


def test_hashes_are_kept_in_place_of_values(memory):
    run = flow(memory, values="hashes").run({"name": "Ada"}, owner="ada")
    greet, think, *_ = run.step_records
    assert greet.inputs.keys() == {"hash", "bytes"} and greet.inputs == greet.output
    assert {one["role"] for one in think.messages} == {"system", "user", "assistant", "tool"}
    assert "Ada" not in json.dumps([one.to_dict() for one in run.step_records])


def test_redacted_fields_are_not_recorded_anywhere(memory):
    run = flow(memory, redact=("name",), model=Clerk("Dear Ada Lovelace")).run({"name": "Ada Lovelace"}, owner="ada")
    greet, think, *_ = run.step_records
    assert greet.inputs == {"text": f"Hello {REDACTED}"}
    assert think.messages[1]["text"] == f"Write to {REDACTED}"
    assert "Lovelace" not in json.dumps([one.to_dict() for one in run.step_records])


REQUEST = """
defs:
  clerk: {kind: model, settings: {provider: openai, model_id: gpt-5-mini}}
  call:
    kind: task
    action: http_request
    inputs:
      method: POST
      url: "=$input.address & '/v1/orders?key=q-4b1f&city=Bern'"
      headers: {Authorization: Bearer h-9f2ac41d, X-Api-Key: k-77aa31, Cookie: sid=c-51e0; a=b, Accept: text/html}
      json: {client-secret: s-83bb12, quantity: 3}
  tell: {kind: task, action: send_text_message, inputs: {text: "='It said ' & $output.call.body.echo"}}
flow:
  - do: call
  - do: tell
"""
CREDENTIALS = ("q-4b1f", "h-9f2ac41d", "k-77aa31", "c-51e0", "s-83bb12", "r-40dd19", "t-20ce77", "b-66fe01")


@pytest.mark.parametrize("values", ["full", "hashes"])
def test_credentials_of_a_request_are_not_recorded(memory, values):
    body = {
        "echo": "you are h-9f2ac41d with k-77aa31",
        "access_token": "t-20ce77",
        "page": "client_secret=b-66fe01&n=7",
    }
    headers = {"set-cookie": "sid=r-40dd19; Path=/", "x-rate": "12"}
    with LoopbackServer(lambda asked: Answer(200, json.dumps(body).encode(), headers)) as server:
        run = flow(memory, REQUEST, values=values).run({"address": server.address}, owner="ada")
        assert run.status == "completed" and server.asked[0].headers["x-api-key"] == "k-77aa31"
    recorded = json.dumps([one.to_dict() for one in run.step_records])
    assert [one for one in CREDENTIALS if one in recorded] == []
    if values == "full":
        call, tell = run.step_records
        assert call.inputs["url"] == f"{server.address}/v1/orders?…"
        assert call.inputs["headers"]["Accept"] == "text/html" and call.inputs["json"]["quantity"] == 3
        assert call.output["headers"]["x-rate"] == "12" and call.output["body"]["page"].endswith("&n=7")
        assert tell.inputs == {"text": f"It said you are {REDACTED} with {REDACTED}"}


def test_the_error_of_a_request_does_not_give_its_credentials(memory):
    run = flow(memory, REQUEST).run({"address": "ftp://ada:p-31cc90@localhost"}, owner="ada")
    [call] = run.step_records
    assert call.status == "failed" and call.inputs["url"] == f"ftp://{REDACTED}@localhost/v1/orders?…"
    recorded = json.dumps(call.to_dict())
    assert [one for one in (*CREDENTIALS, "p-31cc90") if one in recorded] == []


def test_a_machine_and_a_turn_record_no_credentials_either(memory):
    recording = Recording(values="full")
    text = MACHINE.replace("content: input.plant", 'content: "fern, API-Key=k-77aa31, light=low"')
    machine = memoranda.mashin.load(text, memory=memory, behaviour=memoranda.mashin.Behaviour(recording=recording))
    kept = machine.run({"plant": "fern"}, user="ada").step_records[0]
    assert kept.inputs["content"] == f"fern, API-Key={REDACTED}, light=low"
    agent = memoranda.abl.load(AGENT, memory=memory, behaviour=memoranda.abl.Behaviour(recording=recording))
    session = agent.start(user="ada")
    session.say('{"row": 7, "password": "p-31cc90"}')
    recorded = json.dumps([one.to_dict() for one in session.step_records()])
    assert "row" in recorded and "p-31cc90" not in recorded


@memoranda.workflow.action
def unlock() -> dict[str, Any]:
    """Return a secret under the name that is redacted."""
    return {"door": "north", "Pin-Code": 'k9"\\north-4417', "alarm": {"PIN_CODE": 48151623}}


@memoranda.workflow.action
def repeat() -> dict[str, Any]:
    """Return the same in other places and forms."""
    secret = 'k9"\\north-4417'
    inside = json.dumps({"pin_code": "x7-other-secret", "floor": 2})
    return {"copy": 48151623, "floor": 2, "by": {secret: 1}, "json": json.dumps([secret]), "inside": inside}


@memoranda.workflow.action
def guess() -> dict[str, Any]:
    """Return the secret within a sentence."""
    return {"text": 'A line that is longer than forty letters, k9"\\north-4417 is tried.'}


SECRETS = ("north-4417", "48151623", "x7-other-secret")


def steps_of(memory: memoranda.Memory, tasks: str, *, deliver: str | None = None, **options: Any) -> list[Any]:
    """Run tasks of these names in order; `say` repeats the secret, `hear` waits."""
    text = """
defs:
  unlock: {kind: task, action: unlock, inputs: {}}
  repeat: {kind: task, action: repeat, inputs: {}}
  guess: {kind: task, action: guess, inputs: {}}
  hear: {kind: task, action: wait_for_reply, inputs: {}}
  say: {kind: task, action: send_text_message, inputs: {text: "='Got ' & $output.unlock.`Pin-Code`"}}
flow:
""" + "".join(f"  - do: {one}\n" for one in tasks.split())
    behaviour = memoranda.workflow.Behaviour(recording=Recording(values="full", redact=("pin_code",), **options))
    load = memoranda.workflow.load
    run = load(text, memory=memory, name="doors", actions=(unlock, repeat, guess), behaviour=behaviour).run(
        {}, owner="ada"
    )
    done = run if deliver is None else run.deliver(deliver)
    assert done.status == "completed", done.error
    recorded = json.dumps([one.to_dict() for one in done.step_records])
    assert [one for one in SECRETS if one in recorded] == []
    return done.step_records


def test_redacted_values_are_found_as_numbers_as_names_and_inside_json(memory):
    unlocked, repeated = steps_of(memory, "unlock repeat")
    assert unlocked.output == {"door": "north", "Pin-Code": REDACTED, "alarm": {"PIN_CODE": REDACTED}}
    assert (repeated.output["copy"], repeated.output["floor"], repeated.output["by"]) == (REDACTED, 2, {REDACTED: 1})
    assert json.loads(repeated.output["json"]) == [REDACTED]
    assert json.loads(repeated.output["inside"]) == {"pin_code": REDACTED, "floor": 2}


def test_a_run_that_resumes_still_redacts_what_it_had_seen(memory):
    *_, heard, said = steps_of(memory, "unlock hear say", deliver="go on")
    assert (heard.output, said.inputs) == ({"text": "go on"}, {"text": f"Got {REDACTED}"})


def test_steps_before_the_redacted_field_was_seen_are_redacted_too(memory):
    guessed, *_ = steps_of(memory, "guess unlock")
    assert guessed.output == {"text": f"A line that is longer than forty letters, {REDACTED} is tried."}


def test_the_beginning_of_a_redacted_text_is_not_left_where_a_value_is_cut(memory):
    guessed, *_ = steps_of(memory, "guess unlock", value_bytes=64)
    assert guessed.output["start"] == '{"text":"A line that is longer than forty letters, ' + REDACTED


def test_a_gathered_credential_is_not_recorded_in_any_turn(memory):
    text = AGENT.replace("seat", "password").replace("row", "way")
    behaviour = memoranda.abl.Behaviour(recording=Recording(values="full"))
    session = memoranda.abl.load(text, memory=memory, behaviour=behaviour).start(user="ada")
    session.say("hunter2-and-more")
    assert session.vars["password"] == "hunter2-and-more"
    recorded = json.dumps([one.to_dict() for one in session.step_records()])
    assert f"Enjoy {REDACTED}." in recorded and "hunter2" not in recorded


def test_step_records_expire_and_are_erased_with_the_owner(memory, clock):
    run = flow(memory, ttl="1d").run({"name": "Ada"}, owner="ada")
    other = flow(memory).run({"name": "Bo"}, owner="bo")
    clock.advance(2 * 86_400)
    assert (memory.runs.steps(run.id), len(memory.runs.steps(other.id))) == ([], 4)
    memory.erase(user="bo")
    with pytest.raises(NotFound):
        memory.runs.steps(other.id)
    assert memory.scope(run=other.id).history("steps.000000000004") == []


def test_they_are_read_with_the_permissions_of_the_run(memory):
    run = flow(memory).run({"name": "Ada"}, owner="ada")
    stranger = memory.acting_as("user:bo", policy=Policy.of(allow=("runs.read",)))
    assert stranger.runs.get(run.id).status == "waiting"
    with pytest.raises(Denied):
        stranger.runs.steps(run.id)
    reader = memory.acting_as("user:cy", policy=Policy.of(allow=("runs.read", "memory.read")))
    assert len(reader.runs.steps(run.id)) == 4
    with pytest.raises(Denied):
        memory.acting_as("user:di", policy=Policy.of(allow=("memory.read",))).runs.steps(run.id)


def test_pages_of_steps_follow_each_other(memory):
    run = flow(memory).run({"name": "Ada"}, owner="ada").deliver("yes")
    whole = run.step_records
    assert [one.number for one in memory.runs.steps(run.id, limit=2)] == [1, 2]
    rest = memory.runs.steps(run.id, after=2)
    assert [*memory.runs.steps(run.id, limit=2), *rest] == whole
    # One more than fits, so that a caller knows that there are more.
    assert len(memory.runs.steps(run.id, max_bytes=300)) == 2


@pytest.mark.parametrize("wrong", [{"values": "some"}, {"steps": 0}, {"value_bytes": 1}, {"ttl": "soon"}])
def test_options_that_make_no_sense_are_refused(wrong):
    with pytest.raises(UsageError):
        Recording(**wrong)
