"""A server runs the programs of its folders and nothing else, whatever a tenant writes, imports or kept before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import memoranda
from memoranda.model.event import GENESIS

API = "/api/v1"
EVIL_WORKFLOW = """
defs:
  wait: {kind: task, action: wait_for_reply, inputs: {}}
  shout: {kind: task, action: louder, inputs: {text: "='stolen'"}}
flow:
  - do: wait
  - do: shout
outputs:
  text: "=$output.shout"
"""
EVIL_MACHINE = """
machine gate "Not what the operator installed"
  implements
    wait for visitor
      event: "bell.rung"
    compute welcome
      "stolen"
"""


@pytest.fixture
def tenant(request: pytest.FixtureRequest) -> str:
    return f"t{hashlib.sha256(request.node.name.encode()).hexdigest()[:12]}"


@pytest.fixture
def head(served: Any, tenant: str) -> httpx.Client:
    """An administrator of the tenant, who is not the operator of the server."""
    return served.client(served.key_for("head", role="admin", tenant=tenant))


def exported(client: httpx.Client) -> list[dict[str, Any]]:
    return [json.loads(line) for line in client.get(f"{API}/export").text.splitlines()]


def imported(client: httpx.Client, lines: list[dict[str, Any]]) -> dict[str, Any]:
    answer = client.post(f"{API}/import", content="\n".join(json.dumps(line) for line in lines))
    assert answer.status_code == 200, answer.text
    return answer.json()


def facts(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return (line["fact"] for line in lines if "fact" in line)


def forged(lines: list[dict[str, Any]], run: str, source: str) -> list[dict[str, Any]]:
    """Return an export in which a run waits under another id, as one of another text of its program."""
    digest = hashlib.sha256(source.encode()).hexdigest()
    lines = json.loads(json.dumps(lines).replace(run, "forged"))
    for fact in facts(lines):
        fact["updated_at"] = "2999-01-01T00:00:00Z"
        if fact["key"] == "runs.run":
            fact["payload"] |= {"digest": digest, "events": 0, "head": GENESIS}
        if fact["key"].startswith("runs.sources."):
            fact["key"] = f"runs.sources.{digest}"
            fact["payload"]["source"] = source
    return lines


def waiting(client: httpx.Client, kind: str, program: str) -> str:
    run = client.post(f"{API}/{kind}/{program}/runs", json={}).json()
    assert run["status"] == "waiting", run
    return run["id"]


ATTACKS = [
    pytest.param("workflows", "ask_name", EVIL_WORKFLOW, "go", id="workflow"),
    pytest.param("machines", "gate", EVIL_MACHINE, {"name": "Eve"}, id="machine"),
]


@pytest.mark.parametrize(("kind", "program", "source", "payload"), ATTACKS)
def test_a_run_that_was_exported_edited_and_imported_does_not_run(head, kind, program, source, payload):
    real = waiting(head, kind, program)
    told = imported(head, forged(exported(head), real, source))
    refused = {(one["scope"], one["key"]) for one in told["refusals"]}
    assert told["refused"] == len(told["refusals"])
    assert {("run:forged", "runs.run"), ("run:forged", "runs.begun")} <= refused
    assert any(key is not None and key.startswith("runs.sources.") for _, key in refused)
    answer = head.post(f"{API}/runs/forged/deliver", json={"payload": payload})
    assert answer.status_code == 404, answer.text
    # The run that the server itself began is as it was, and goes on.
    went = head.post(f"{API}/runs/{real}/deliver", json={"payload": payload}).json()
    assert went["status"] == "completed", went
    assert "stolen" not in json.dumps(went).lower()


def test_an_import_cannot_change_the_state_of_a_run_or_a_session(head):
    run = waiting(head, "workflows", "ask_name")
    session = head.post(f"{API}/agents/Usher/sessions", json={}).json()["id"]
    lines = exported(head)
    for fact in facts(lines):
        fact["updated_at"] = "2999-01-01T00:00:00Z"
        if fact["key"] == "abl.session":
            fact["payload"]["vars"] = {"seat": "the throne", "identity_checked": True}
    ordinary = {"scope": "user:head", "key": "hat", "payload": "red", "updated_at": "2999-01-01T00:00:00Z"}
    # A fact of a session's scope was once taken for a variable of its agent.
    variable = ordinary | {"scope": f"session:{session}", "key": "seat", "payload": "the throne"}
    told = imported(head, [*lines, {"fact": ordinary}, {"fact": variable}])
    assert {(f"session:{session}", "abl.session"), (f"run:{run}", "runs.run")} <= {
        (one["scope"], one["key"]) for one in told["refusals"]
    }
    assert head.get(f"{API}/memory/facts/hat").json()["value"] == "red"  # the rest was imported
    said = head.post(f"{API}/sessions/{session}/messages", json={"text": "seat 7"}).json()
    assert said["messages"] == ["Enjoy the play on 7."]


@pytest.mark.parametrize(
    "key", ["abl.session", "abl.sources.0123", "abl.results", "runs.run", "runs.journal.000000", "runs.sources.01"]
)
def test_no_request_reaches_the_facts_of_the_runtime(head, key):
    place, run = f"{API}/memory/facts", waiting(head, "workflows", "ask_name")
    before = head.get(f"{API}/runs/{run}").json(), head.get(f"{API}/runs").json()
    for scope in ({}, {"scope": f"run:{run}"}, {"scope": f"session:{run}"}, {"scope": "workflow:ask_name"}):
        assert head.put(f"{place}/{key}", json={"value": 1}, params=scope).status_code == 200  # one of their own
        assert head.get(f"{place}/{key}", params=scope).json()["scope"].startswith("user:")
    for outside in (f"../run:{run}", f"/run:{run}", f"user:x/run:{run}"):
        assert head.put(f"{place}/{key}", json={"value": 1}, params={"scope": outside}).status_code == 422
    assert (head.get(f"{API}/runs/{run}").json(), head.get(f"{API}/runs").json()) == before
    assert head.get(f"{API}/runs/{run}/verify").json()["ok"]
    assert head.post(f"{API}/runs/{run}/cancel", json={}).status_code == 200


EDITED = {
    "workflows": ("ask_name", "ask_name.yaml", "Thank you", "Thanks", "go"),
    "machines": ("gate", "gate.mashin", "Come in", "Welcome", {"name": "Ada"}),
}


@pytest.mark.parametrize("kind", EDITED)
def test_a_run_of_another_text_is_refused_shown_and_cancelled(tmp_path, programs_in, serving, kind):
    program, file, old, new, payload = EDITED[kind]
    folders = programs_in(tmp_path)
    db = tmp_path / "memory.db"
    with serving(db, **folders) as one:
        key = one.key_for("ada")
        runs = [waiting(one.client(key), kind, program) for _ in range(3)]
    changed = tmp_path / kind / file
    text = changed.read_text()
    changed.write_text(text.replace(old, new))
    with serving(db, **folders) as one:
        ada = one.client(key)
        refused = ada.post(f"{API}/runs/{runs[0]}/deliver", json={"payload": payload})
        problem = refused.json()
        assert (refused.status_code, problem["code"]) == (409, "not_installed")
        digests = [hashlib.sha256(one.encode()).hexdigest() for one in (text, changed.read_text())]
        assert [problem["expected"], problem["actual"]] == digests
        assert all(digest in problem["detail"] for digest in digests)
        assert ada.post(f"{API}/runs/{runs[0]}/resume").json()["code"] == "not_installed"
        assert ada.get(f"{API}/runs/{runs[0]}").json()["status"] == "waiting"
        assert ada.post(f"{API}/runs/{runs[0]}/cancel", json={}).json()["status"] == "cancelled"
    changed.unlink()
    with serving(db, **folders) as one:
        gone = one.client(key).post(f"{API}/runs/{runs[1]}/deliver", json={"payload": payload}).json()
        assert (gone["code"], gone["actual"]) == ("not_installed", None)
    changed.write_text(text)
    with serving(db, **folders) as one:
        went = one.client(key).post(f"{API}/runs/{runs[1]}/deliver", json={"payload": payload}).json()
        assert went["status"] == "completed", went
    # The program that opened the store may go on with what it kept; who it hands a handle to may not.
    language = memoranda.workflow if kind == "workflows" else memoranda.mashin
    with memoranda.open(db) as memory:
        guest = memory.acting_as("user:ada", policy=memoranda.Policy.of(allow=("runs", "memory", "definitions.read")))
        with pytest.raises(memoranda.NotInstalled):
            language.find(guest, runs[2]).deliver(payload)
        assert language.find(guest, runs[2], kept_text=True).deliver(payload).status == "completed"


def test_a_called_run_of_another_text_keeps_its_caller_waiting(tmp_path, programs_in, serving):
    folders = programs_in(tmp_path)
    db, gate = tmp_path / "memory.db", tmp_path / "machines" / "gate.mashin"
    with serving(db, **folders) as one:
        key = one.key_for("ada")
        hall = waiting(one.client(key), "machines", "hall")
    gate.write_text(gate.read_text().replace("Come in", "Welcome"))
    with serving(db, **folders) as one:
        ada = one.client(key)
        answer = ada.post(f"{API}/runs/{hall}/deliver", json={"payload": {"name": "Ada"}})
        assert answer.json()["code"] == "not_installed"
        assert ada.post(f"{API}/runs/{hall}/resume").json()["code"] == "not_installed"
        assert ada.get(f"{API}/runs/{hall}").json()["status"] == "waiting"
        assert ada.post(f"{API}/runs/{hall}/cancel", json={}).json()["status"] == "cancelled"
