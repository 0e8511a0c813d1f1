"""The samples of the original document, where it lies beside the checkout: each is checked and runs as written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda.api.memory import Memory
from memoranda.model.definition import Definition

BESIDE = Path(__file__).parents[4] / "shared"
TEXT = "".join(document.read_text() for document in sorted(BESIDE.glob("*/004_*.txt")))
FENCES = re.findall(r"^```(\w*)\n(.*?)\n```", TEXT, re.DOTALL | re.M)
FLOWS = [text for kind, text in FENCES if kind == "yaml"]
OBJECTS = [json.loads(text) for kind, text in FENCES if kind == "json"]
WORDS = [text for kind, text in FENCES if not kind]

pytestmark = pytest.mark.skipif(not FLOWS, reason="the original document is not here")


def flow_with(action: str) -> str:
    """Return the one sample whose task does this."""
    [found] = [text for text in FLOWS if f"action: {action}" in text]
    return found


def shown() -> tuple[str, dict[str, Any]]:
    """Return the prompt that the document shows, and the record that it is the prompt of."""
    [prompt] = [text for text in WORDS if text.startswith("# ")]
    values = [line.split(": ", 1)[1] for line in prompt.split("\n")[2:]]
    [schema] = [one for one in OBJECTS if "properties" in one]
    record = dict(zip(schema["properties"], [*values[:-1], json.loads(values[-1])], strict=True))
    return prompt, record


@pytest.fixture
def profile(memory: Memory) -> Definition:
    """The definition of the document, under the id that its samples name."""
    [schema] = [one for one in OBJECTS if "properties" in one]
    [update] = [one for one in OBJECTS if "memory" in one]
    [slug] = update["memory"]
    [id] = set(re.findall(r"definition_id: (\S+)", TEXT))
    return memory.definitions.create(id=id, name=schema["title"], slug=slug, schema=schema)


def test_there_are_as_many_samples_as_the_document_shows() -> None:
    assert (len(FLOWS), len(OBJECTS), len(WORDS)) == (3, 2, 3)


@pytest.mark.parametrize("text", FLOWS, ids=range(len(FLOWS)))
def test_t1_a_sample_has_no_fault(text: str) -> None:
    assert [one.message for one in memoranda.workflow.check(text) if one.severity in ("error", "warning")] == []


def test_t1_t2_the_sample_that_replies_shows_the_model_what_the_document_prints(
    memory: Memory, profile: Definition, scripted: Any
) -> None:
    prompt, record = shown()
    memory.scope(user="u1").set(profile.slug, record)
    model = scripted("Gladly.", "Of course.")
    text = flow_with("ai_generate_reply")
    flow = memoranda.workflow.load(text, memory=memory, model=model)
    for said, answer in (("first words", "Gladly."), ("second words", "Of course.")):
        run = flow.run({"text": said}, owner="u1", thread="t1").check()
        assert [task["text"] for task in run.outputs.values()] == [answer]
    [system] = re.findall(r'system: "(.*)"', text)
    assert [one.instructions for one in model.asked] == [f"{system}\n\n{prompt}"] * 2
    assert [said.text for said in model.asked[1].messages] == ["first words", "second words"]
    assert [spec.name for spec in model.asked[0].tools] == ["update_memory"]


def test_t2_the_tool_of_that_sample_takes_the_update_that_the_document_prints(
    memory: Memory, profile: Definition, scripted: Any, wants: Any
) -> None:
    [update] = [one for one in OBJECTS if "memory" in one]
    model = scripted(wants(("update_memory", update)), "Noted.")
    flow = memoranda.workflow.load(flow_with("ai_generate_reply"), memory=memory, model=model)
    run = flow.run({"text": "first words"}, owner="u1", thread="t1").check()
    assert "# " not in model.asked[0].instructions, "nothing is shown before there is a record"
    assert run.context["memory"] == update["memory"]
    assert memory.scope(user="u1").value(profile.slug) == update["memory"][profile.slug]
    assert memory.scope(user="u2").value(profile.slug) is None


def test_t1_the_sample_that_greets_does_it_by_name_or_without(memory: Memory, profile: Definition) -> None:
    text = flow_with("send_text_message")
    flow = memoranda.workflow.load(text, memory=memory)
    [(hello, without)] = re.findall(r"'([^']*)' & .* : '([^']*)'\)", text)
    assert flow.run(owner="u1").check().messages == [hello + without]
    _, record = shown()
    memory.scope(user="u1").set(profile.slug, record)
    assert flow.run(owner="u1").check().messages == [hello + next(iter(record.values()))]
    assert flow.run(owner="u2").check().messages == [hello + without]


def test_t1_the_sample_that_writes_directly_replaces_the_record(memory: Memory, profile: Definition) -> None:
    _, record = shown()
    memory.scope(user="u1").set(profile.slug, record)
    flow = memoranda.workflow.load(flow_with("update_memory"), memory=memory)
    run = flow.run({"name": "Grace", "language": "fr"}, owner="u1").check()
    kept = memory.scope(user="u1").value(profile.slug)
    assert list(kept.values()) == ["Grace", "fr"]
    assert kept.keys() < record.keys(), "what was not sent is gone"
    assert run.context["memory"] == {profile.slug: kept}
    bad = flow.run({"name": 5}, owner="u1")
    assert bad.error is not None and bad.error.type == "schema_violation"
    assert memory.scope(user="u1").value(profile.slug) == kept
