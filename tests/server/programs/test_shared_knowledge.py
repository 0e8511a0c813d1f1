"""One machine ingests, another answers, each run by another user of one server (seed 003, "Try it")."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai_server
import pytest

API = "/api/v1"
PLACE = "project:atlas"
INGEST = """
machine ingest "Take a document into the knowledge base"
  accepts
    document as text, is required
    url as text, is required
    category as text, is required
  responds with
    stored as boolean
  ensures
    permissions
      allowed to
        memory.write
  implements
    remember store_document
      content: input.document
      collection: "knowledge_base"
      scope: "project:atlas"
      metadata: { source: input.url, category: input.category }
    compute receipt
      { stored: store_document.stored }
"""
ANSWER = """
machine answer "Answer from the knowledge base"
  accepts
    question as text, is required
    category as text, is required
  responds with
    answer as text
    sources as list
  ensures
    permissions
      allowed to
        llm_call, memory.read
  implements
    recall find_docs
      query: input.question
      collection: "knowledge_base"
      scope: "project:atlas"
      filter: { category: input.category }
    compute build_context
      let docs = steps.find_docs.results
      { context: docs.map(d => d.content).join(" --- "), sources: docs.map(d => d.metadata.source) }
    ask reply, using: "openai:gpt-5.2"
      with task "Question: ${input.question} Context: ${build_context.context}"
      returns
        answer as text
    compute format
      { answer: steps.reply.answer, sources: build_context.sources }
"""
DIARY = """
machine diary "Keep a note of one's own"
  accepts
    note as text, is required
  ensures
    permissions
      allowed to
        memory
  implements
    remember keep
      content: input.note
      collection: "knowledge_base"
    recall found
      query: input.note
      collection: "knowledge_base"
    compute done
      found.results.map(one => one.content)
"""
GATE = {"document": "The north gate closes at six", "url": "docs/gate", "category": "doors"}
ROOF = {"document": "The roof gate is painted in May", "url": "docs/roof", "category": "paint"}
QUESTION = {"question": "When does the gate close?", "category": "doors"}


@pytest.fixture(scope="module")
def provider() -> Iterator[Any]:
    with openai_server.OpenAIServer() as one:
        yield one


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, provider: Any, serving: Any) -> Iterator[Any]:
    folder: Path = tmp_path_factory.mktemp("shared")
    for name, text in {"ingest": INGEST, "answer": ANSWER, "diary": DIARY}.items():
        (folder / f"{name}.mashin").write_text(text)
    with serving(
        folder / "memory.db",
        MEMORANDA_MACHINES=str(folder),
        OPENAI_BASE_URL=provider.url,
        OPENAI_API_KEY="sk-made-up-for-tests",
    ) as one:
        yield one


def run(client: httpx.Client, machine: str, **input: str) -> dict[str, Any]:
    answer = client.post(f"{API}/machines/{machine}/runs", json={"input": input})
    assert answer.status_code == 201, answer.text
    return answer.json()


def grant(admin: httpx.Client, actor: str, capability: str) -> str:
    body = {"actor": actor, "capability": capability, "scope": PLACE}
    return admin.post(f"{API}/permissions", json=body).json()["id"]


def test_one_user_ingests_another_asks_and_does_not_write(served, provider):
    admin, member = served.client(), served.client(served.key_for("mo"))
    for document in (GATE, ROOF):
        assert run(admin, "ingest", **document)["output"] == {"stored": True}
    refused = run(member, "answer", **QUESTION)
    assert (refused["status"], refused["error"]["type"]) == ("failed", "permission_denied")
    assert f"memory.read for `collections.knowledge_base` in `{PLACE}`" in refused["error"]["message"]
    reading = grant(admin, "*", "memory.read")
    provider.waiting = [openai_server.calls(("give_answer", {"answer": "At six"}))]
    done = run(member, "answer", **QUESTION)
    assert done["output"] == {"answer": "At six", "sources": ["docs/gate"]}, done
    sent = str(provider.asked[-1].body)
    assert GATE["document"] in sent and ROOF["document"] not in sent

    forged = run(member, "ingest", document="The gate never closes", url="evil", category="doors")
    assert (forged["status"], forged["error"]["type"]) == ("failed", "permission_denied")
    assert f"memory.write for `collections.knowledge_base` in `{PLACE}`" in forged["error"]["message"]
    events = admin.get(f"{API}/ledger", params={"limit": 1000}).json()["events"]
    assert ("user:mo", "mashin", "remember") in {
        (one["actor"], one["door"], one["effect"])
        for one in events
        if one["scope"] == PLACE and one["decision"] == "deny"
    }
    entries = admin.get(f"{API}/collections/knowledge_base/entries", params={"scope": PLACE}).json()["entries"]
    assert {one["content"] for one in entries} == {GATE["document"], ROOF["document"]}
    assert run(admin, "ingest", **{**GATE, "document": "The south gate closes at seven"})["output"] == {"stored": True}

    admin.delete(f"{API}/permissions/{reading}")
    assert run(member, "answer", **QUESTION)["error"]["type"] == "permission_denied"
    writing = grant(admin, "user:mo", "memory")
    assert run(member, "ingest", **{**GATE, "document": "The east gate is new"})["output"] == {"stored": True}
    admin.delete(f"{API}/permissions/{writing}")


def test_a_step_without_a_scope_keeps_to_the_memory_of_its_user(served):
    admin, member = served.client(), served.client(served.key_for("dee"))
    grant(admin, "user:dee", "memory")
    run(admin, "ingest", **GATE)
    assert run(member, "diary", note="My gate squeaks")["output"] == ["My gate squeaks"]
    held = member.get(f"{API}/collections/knowledge_base/entries").json()["entries"]
    assert [(one["content"], one["scope"]) for one in held] == [("My gate squeaks", "user:dee")]


def test_a_reader_runs_nothing_and_asks_the_knowledge_base_itself(served):
    admin, reader = served.client(), served.client(served.key_for("rea", role="reader"))
    run(admin, "ingest", **GATE)
    grant(admin, "user:rea", "memory")
    assert reader.post(f"{API}/machines/answer/runs", json={"input": QUESTION}).status_code == 403
    ask = {"params": {"scope": PLACE}, "json": {"query": "gate", "filter": {"source": "docs/gate"}}}
    found = reader.post(f"{API}/collections/knowledge_base/recall", **ask).json()["results"]
    assert GATE["document"] in [one["content"] for one in found]
