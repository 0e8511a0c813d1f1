"""G55: `taint` lists every prompt that showed tainted memory, at each door that makes one, and no other prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import memoranda
from memoranda import Memory, chat
from memoranda.agent.models import Reply, ToolCall
from memoranda.chat import Agent
from memoranda.model.lineage import Tainted
from memoranda.testing import FakeClock

BLOCK = "fact:user:ada#blocks.core"
Door = Callable[[Memory, Any], str]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memory(clock: FakeClock) -> Iterator[Memory]:
    with memoranda.open(":memory:", clock=clock) as memory:
        yield memory


def prompts(memory: Memory, ref: str, **options: Any) -> tuple[list[str], Tainted]:
    """Return who was given something by a prompt, and what the taint found."""
    memory.settle()
    done = memory.taint(ref=ref, **options)
    return [one.to for one in done.served if one.effect == "context"], done


def by_chat(memory: Memory, model: Any) -> str:
    turn = chat.chat(memory, Agent(id="desk"), "What now?", user="ada", model=model)
    return f"conversation:{turn.conversation_id}"


def by_abl(memory: Memory, model: Any) -> str:
    text = 'AGENT: Desk\nGOAL: "Help"\n'
    session = memoranda.abl.load(text, memory=memory, model=model).start(user="ada")
    session.say("What now?")
    return f"session:{session.id}"


MACHINE = """
machine desk
ensures
  allowed to llm_call, memory
implements
  ask answer, using: "scripted:model"
    with task "What now?"
    with memory
"""


def by_machine(memory: Memory, model: Any) -> str:
    return f"run:{memoranda.mashin.load(MACHINE, memory=memory, model=model).run(user='ada').check().id}"


WORKFLOW = """
defs:
  brain: {kind: model, settings: {provider: openai, model_id: gpt-5.2}}
MEMORY
  think: {kind: task, action: ai_generate_text, inputs: {prompt: "What now?"}, bindings: {model: brainBOUND}}
flow:
  - do: think
"""


def by_workflow(memory: Memory, model: Any, definition: str = "") -> str:
    text = WORKFLOW.replace("BOUND", ", memory: [notes]" if definition else "")
    text = text.replace("MEMORY", f"  notes: {{kind: memory, settings: {definition}}}" if definition else "")
    return f"run:{memoranda.workflow.load(text, memory=memory, model=model).run(owner='ada').check().id}"


@pytest.mark.parametrize("door", [by_chat, by_abl, by_machine, by_workflow])
def test_g55_a_prompt_that_showed_a_block_is_listed(
    memory: Memory, clock: FakeClock, scripted: Any, door: Door
) -> None:
    ada = memory.scope(user="ada")
    ada.set("unseen", "a tainted fact that no prompt shows")
    ada.blocks.update("core", "- Likes trains", expected_updated_at=None)
    clock.advance(1)
    model = scripted("Take a train.")
    to = door(memory, model)
    assert any("Likes trains" in ask.instructions for ask in model.asked)
    assert prompts(memory, "fact:user:ada#unseen", dry_run=True)[0] == []
    found, done = prompts(memory, BLOCK)
    assert found and set(found) == {to}
    assert all(one.refs == (BLOCK,) for one in done.served if one.to)
    told = [event for event in memory.ledger.events() if event.effect == "context"]
    assert BLOCK in told[0].detail["versions"] and "trains" not in str([event.detail for event in told])
    # What is gone is told to no one; what was brought back is told, and listed, again.
    clock.advance(1)
    other = scripted("Walk.")
    door(memory, other)
    assert not any("Likes trains" in ask.instructions for ask in other.asked)
    memory.settle()
    memory.undo(done)
    (rollback,) = memory.ledger.rollbacks()
    assert BLOCK in rollback.refs
    clock.advance(1)
    third = scripted("Take a train.")
    to = door(memory, third)
    assert any("Likes trains" in ask.instructions for ask in third.asked)
    assert set(prompts(memory, BLOCK, dry_run=True)[0]) == {to}


def test_g55_a_workflow_record_that_a_prompt_showed_is_listed_with_its_version(
    memory: Memory, clock: FakeClock, scripted: Any
) -> None:
    ada = memory.scope(user="ada")
    made = [memory.definitions.create(name=slug, slug=slug, schema={"type": "object"}) for slug in ("tastes", "shoes")]
    ada.set("tastes", {"likes": "trains"})
    ada.set("shoes", {"size": 38})
    clock.advance(1)
    model = scripted("Take a train.")
    to = by_workflow(memory, model, f"{{definition_id: {made[0].id}}}")
    assert "trains" in model.asked[0].instructions and "38" not in model.asked[0].instructions
    assert prompts(memory, "fact:user:ada#shoes", dry_run=True)[0] == []
    assert prompts(memory, "fact:user:ada#tastes", dry_run=True)[0] == [to]
    clock.advance(1)
    ada.set("tastes", {"likes": "boats"})
    assert prompts(memory, "fact:user:ada#tastes", dry_run=True)[0] == [], "another version was shown"


def test_g55_a_workflow_block_that_is_bound_is_listed(memory: Memory, clock: FakeClock, scripted: Any) -> None:
    memory.scope(user="ada").blocks.update("core", "- Likes trains", expected_updated_at=None)
    clock.advance(1)
    to = by_workflow(memory, scripted("Take a train."), "{block: core}")
    assert prompts(memory, BLOCK)[0] == [to]


def test_g55_a_prompt_made_of_what_was_recalled_steps_before_is_listed(
    memory: Memory, clock: FakeClock, scripted: Any
) -> None:
    ada = memory.scope(user="ada")
    page = ada.remember("The train leaves at nine", collection="pages")
    other = ada.remember("The boat leaves at ten", collection="boats")
    clock.advance(1)
    text = """
machine desk
ensures
  allowed to llm_call, memory
implements
  recall found
    query: "When does the train leave?"
    collection: "pages"
  compute said
    { text: "They say: ${found.results[0].content}" }
  ask answer, using: "scripted:model"
    with task "Is this true? ${said.text}"
"""
    model = scripted("Yes.")
    run = memoranda.mashin.load(text, memory=memory, model=model).run(user="ada").check()
    assert "at nine" in model.asked[0].messages[0].text
    assert prompts(memory, other.ref, dry_run=True)[0] == []
    assert prompts(memory, page.ref)[0] == [f"run:{run.id}"]


AGENT = """
AGENT: Desk
GOAL: "Help"
MEMORY:
  session:
    - copied
  persistent:
    - PATH: user.city
      SCOPE: user
      ACCESS: readwrite
FLOW:
  begin:
    REASONING: false
    SET:
      copied = user.city
    THEN: wait
  wait:
    REASONING: false
    GATHER:
      - day:
          prompt: "Which day?"
    THEN: talk
  talk:
    REASONING: true
    GOAL: "Help with {{copied}}"
"""


def test_g55_a_fact_that_a_session_copied_turns_before_is_listed(
    memory: Memory, clock: FakeClock, scripted: Any
) -> None:
    ada = memory.scope(user="ada")
    ada.set("city", "Trondheim")
    ada.set("unseen", "Bergen")
    clock.advance(1)
    model = scripted("Go.")
    agent = memoranda.abl.load(AGENT, memory=memory, model=model)
    session = agent.start(user="ada")
    assert [ask for ask in model.asked if "Trondheim" in ask.instructions] == []
    agent.resume(session.id).say("Monday")
    assert any("Trondheim" in ask.instructions for ask in model.asked)
    assert f"session:{session.id}" in prompts(memory, "fact:user:ada#city")[0]
    assert prompts(memory, "fact:user:ada#unseen", dry_run=True)[0] == []


def test_g55_a_model_that_searches_is_given_what_it_finds(memory: Memory, clock: FakeClock, scripted: Any) -> None:
    page = memory.scope(user="ada").remember("The train leaves at nine", collection="notes")
    other = memory.scope(user="ada").remember("The boat leaves at ten", collection="boats")
    clock.advance(1)
    text = 'AGENT: Desk\nGOAL: "Help"\nTOOLS:\n  memory.recall(query: string) -> object\n'
    search = Reply(calls=(ToolCall("1", "memory.recall", {"query": "train"}),))
    session = memoranda.abl.load(text, memory=memory, model=scripted(search, "At nine.")).start(user="ada")
    session.say("Hello")
    assert f"session:{session.id}" in prompts(memory, page.ref, dry_run=True)[0]
    assert f"session:{session.id}" not in prompts(memory, other.ref)[0]
