"""Memory blocks in workflows: bound by name, shown to models, read in expressions, written only where they may be."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any, cast

import pytest

import memoranda
from memoranda import Policy
from memoranda.agent.models import Ask, Reply, ToolCall
from memoranda.api.memory import Memory
from memoranda.model.definition import Definition
from memoranda.runs.records import BlockBinding, load_memory, update_tool, working_memory

Define = Callable[..., Definition]

CORE = "- Sings alto\nKnows the Requiem"
ASK = """
defs:
  core: {{kind: memory, settings: {{block: core{settings}}}}}
  singer: {{kind: memory, settings: {{definition_id: {singer}}}}}
  primary: {{kind: model, settings: {{provider: openai}}}}
  answer:
    kind: task
    action: ai_agent
    inputs: {{prompt: "What do I sing?", system: "Be kind."}}
    bindings: {{model: primary, memory: [singer, core]}}
flow: [{{do: answer}}]
outputs: {{core: "=$context.memory.core", text: "=$output.answer.text"}}
"""


class Scripted:
    """A model that replies with what it was given; a function among the replies is called first."""

    name = "made:up"

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.asked: list[Ask] = []

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        self.asked.append(ask)
        reply: Any = self.replies.pop(0)
        reply = cast("Any", reply()) if callable(reply) else reply
        return Reply(reply) if isinstance(reply, str) else reply


def sends(**values: Any) -> Reply:
    return Reply("", (ToolCall("c0", "update_memory", {"memory": values}),))


@pytest.fixture
def singer(define: Define, memory: Memory) -> Definition:
    made = define("singer", schema={"type": "object", "properties": {"voice": {"type": "string"}}})
    memory.scope(user="ada").set("singer", {"voice": "alto"})
    return made


@pytest.fixture
def blocks(memory: Memory) -> Any:
    found = memory.scope(user="ada").blocks
    found.update("core", CORE, expected_updated_at=None)
    return found


def ask(memory: Memory, singer: Definition, *replies: Any, settings: str = "", text: str = ASK) -> tuple[Any, Scripted]:
    model = Scripted(*replies)
    flow = memoranda.workflow.load(text.format(singer=singer.id, settings=settings), memory=memory, model=model)
    return flow.run(owner="ada"), model


def test_a_block_is_shown_under_its_name_and_read_in_expressions(memory: Memory, singer: Any, blocks: Any) -> None:
    run, model = ask(memory, singer, "Alto.")
    assert run.check().output == {"core": CORE, "text": "Alto."}
    shown = "# Working Memory\n## Singer\n- Voice: alto\n\n## Core\n- Sings alto\n- Knows the Requiem"
    assert model.asked[0].instructions == f"Be kind.\n\n{shown}"
    [tool] = model.asked[0].tools
    assert list(tool.parameters["properties"]["memory"]["properties"]) == ["singer"], "it is not writable"
    run, _ = ask(memory, singer, sends(core="- Sings bass"), "Sorry.", settings=", writable: false")
    assert run.check().outputs["answer"]["tool_calls"] == [{"name": "update_memory", "failed": True}]
    assert blocks.get("core").content == CORE


def test_a_block_that_does_not_exist_is_undefined_and_not_shown(memory: Memory, singer: Any) -> None:
    run, model = ask(memory, singer, "Nothing.")
    assert run.check().output == {"text": "Nothing."}
    assert "## Core" not in model.asked[0].instructions


def test_no_line_of_a_block_becomes_a_heading(memory: Memory) -> None:
    text = "## Admin\r- Sings\u2028## Root\n\n  - indented\n# Working Memory"
    shown = working_memory([BlockBinding(slug="team_notes", block="core")], {"team_notes": text})
    assert shown.split("\n")[:2] == ["# Working Memory", "## Team notes"]
    assert all(line.lstrip().startswith("- ") for line in shown.split("\n")[2:])
    assert not any(one in shown for one in "\r\u2028") and "  - indented" in shown


def test_a_model_writes_a_writable_block(memory: Memory, singer: Any, blocks: Any) -> None:
    replies = (sends(core="- Sings bass", singer={"voice": "bass"}), sends(core="- Sings bass\n- Daily"), "Noted.")
    run, model = ask(memory, singer, *replies, settings=", writable: true")
    assert run.check().output["core"] == "- Sings bass\n- Daily"
    assert memory.scope(user="ada").value("singer") == {"voice": "bass"}
    rule = "`core` is a text that is replaced by what you send: repeat every line that should stay"
    assert rule in model.asked[0].tools[-1].description
    doors = [one.origin.door for one in memory.scope(user="ada").history("blocks.core")]
    assert doors == ["python", "workflow", "workflow"]


def test_an_edit_of_the_user_is_never_overwritten(memory: Memory, singer: Any, blocks: Any) -> None:
    def edit() -> Reply:
        blocks.update("core", "- Sings tenor", expected_updated_at=blocks.get("core").updated_at)
        return sends(core="- Sings bass", singer={"voice": "bass"})

    seen: list[str] = []

    def again() -> Reply:
        seen.append(blocks.get("core").content)
        return sends(core="- Sings tenor\n- Or bass")

    run, model = ask(memory, singer, edit, again, "Noted.", settings=", writable: true")
    assert run.check().output["core"] == "- Sings tenor\n- Or bass"
    assert seen == ["- Sings tenor"]
    told = str(model.asked[1].messages[-1])
    assert "nothing was written" in told and "`core` is now" in told and "Sings tenor" in told
    assert memory.scope(user="ada").value("singer") == {"voice": "alto"}, "all or nothing"


def test_a_block_that_is_deleted_meanwhile_is_a_conflict_too(memory: Memory, singer: Any, blocks: Any) -> None:
    def delete() -> Reply:
        blocks.delete("core")
        return sends(core="- Sings bass")

    run, _ = ask(memory, singer, delete, sends(core="- Anew"), "Noted.", settings=", writable: true")
    assert run.check().outputs["answer"]["tool_calls"][0]["failed"]
    assert blocks.get("core").content == "- Anew"


@pytest.mark.parametrize("content", ["\n".join(f"- {number}" for number in range(21)), "x" * 4_001, 7, None])
def test_the_limits_of_a_block_hold(memory: Memory, singer: Any, blocks: Any, content: Any) -> None:
    run, _ = ask(memory, singer, sends(core=content), sends(core="- Fits"), "Ok.", settings=", writable: true")
    assert [one["failed"] for one in run.check().outputs["answer"]["tool_calls"]] == [True, False]
    assert blocks.get("core").content == "- Fits"


UPDATE = """
defs:
  notes: {kind: memory, settings: {block: archival, agent: desk, writable: true}}
  shown: {kind: memory, settings: {block: core}}
  wait: {kind: task, action: wait_for_reply}
  keep: {kind: task, action: update_memory, inputs: {memory: "=$input.memory"}}
flow:
  - conditional: {when: [{condition: "=$input.wait", steps: [{do: wait}]}]}
  - do: keep
outputs: {seen: "=$context.memory"}
"""


def test_the_action_writes_what_it_has_read(memory: Memory, blocks: Any) -> None:
    flow = memoranda.workflow.load(UPDATE, memory=memory, name="desk")
    desk = memory.scope(user="ada", agent="desk").blocks
    run = flow.run({"memory": {"notes": "- One\r\n- Two"}}, owner="ada").check()
    assert run.output == {"seen": {"notes": "- One\n- Two", "shown": CORE}}
    archival = desk.get("archival")
    assert archival is not None and archival.content == "- One\n- Two"
    refused = flow.run({"memory": {"shown": "- No"}}, owner="ada")
    assert refused.error is not None
    assert (refused.error.type, "can be read here, not written" in refused.error.message) == ("usage_error", True)
    assert blocks.get("core").content == CORE
    other = flow.run({"memory": {}}, owner="bea").check()
    assert other.output == {"seen": {}}, "the blocks of another owner"


def test_a_resumed_run_reads_blocks_again(memory: Memory, blocks: Any) -> None:
    flow = memoranda.workflow.load(UPDATE, memory=memory, name="desk")
    run = flow.run({"wait": True, "memory": {"notes": "- Mine"}}, owner="ada", thread="t1")
    memory.scope(user="ada", agent="desk").blocks.update("archival", "- Ada's", expected_updated_at=None)
    done = run.deliver("on").check()
    assert done.output["seen"]["notes"] == "- Mine", "a run that resumes has read what is there now"


def test_branches_that_write_one_block_conflict_instead_of_losing(memory: Memory) -> None:
    text = """
    defs:
      core: {kind: memory, settings: {block: core, writable: true}}
      one: {kind: task, action: update_memory, inputs: {memory: {core: "- One"}}}
      two: {kind: task, action: update_memory, inputs: {memory: {core: "- Two"}}}
    flow: [{parallel: {steps: [{do: one}, {do: two}]}}]
    """
    run = memoranda.workflow.load(dedent(text), memory=memory).run(owner="ada")
    assert run.error is not None
    assert run.error.type == "conflict"
    assert len(memory.scope(user="ada").history("blocks.core")) == 1


def test_a_name_that_is_also_a_slug_is_refused(memory: Memory, define: Define) -> None:
    define("core")
    with pytest.raises(memoranda.UsageError, match="the slug of a memory definition"):
        load_memory(memory, owner="ada", blocks=[BlockBinding(slug="core", block="core")])


def test_a_block_that_may_not_be_read_stops_the_run(memory: Memory, blocks: Any) -> None:
    binding = BlockBinding(slug="core", block="core")
    assert load_memory(memory, owner="ada", blocks=[binding]).values == {"core": CORE}
    narrow = memory.narrowed(Policy.of(allow=("*",), access={"blocks": "none", "*": "readwrite"}))
    with pytest.raises(memoranda.Refused):
        load_memory(narrow, owner="ada", blocks=[binding])


def test_there_is_no_tool_for_blocks_that_are_only_read() -> None:
    assert update_tool([BlockBinding(slug="core", block="core")]) is None
    tool = update_tool([BlockBinding(slug="core", block="core", writable=True)])
    assert tool is not None
    [schema] = tool.parameters["properties"]["memory"]["properties"].values()
    assert "at most 4,000 characters, 20 entries" in schema["description"]


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ("{block: coer}", "unknown_word"),
        ("{block: core, definition_id: 5c2e7f0a-9d41-4b7e-8a36-1f0c9b6d2e48}", "wrong_setting"),
        ("{definition_id: 5c2e7f0a-9d41-4b7e-8a36-1f0c9b6d2e48, writable: true}", "wrong_setting"),
        ("{block: core, agent: ''}", "wrong_value"),
        ("{block: core, agent: '=$input.agent'}", "wrong_value"),
        ("{block: core, agent: 7}", "wrong_value"),
        ("{block: core, writable: 'yes'}", "wrong_type"),
        ("{block: core, writeable: true}", "unknown_setting"),
        ("{block: archival}", "same_memory"),
        ("{}", "missing"),
        ("{block: core, agent: desk, writable: true}", None),
    ],
)
def test_the_settings_of_a_block_are_checked(memory: Memory, settings: str, code: str | None) -> None:
    text = f"""
    defs:
      first: {{kind: memory, settings: {{block: archival}}}}
      second: {{kind: memory, settings: {settings}}}
      keep: {{kind: task, action: update_memory, inputs: {{memory: {{}}}}}}
    flow: [{{do: keep}}]
    """
    if code is None:
        assert memoranda.workflow.load(dedent(text), memory=memory).diagnostics == ()
        return
    with pytest.raises(memoranda.SourceError) as raised:
        memoranda.workflow.load(dedent(text), memory=memory)
    assert [one.code for one in raised.value.diagnostics] == [code]
