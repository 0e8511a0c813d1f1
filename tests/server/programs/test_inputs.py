"""Callers of a server set what a program declares as its input, and nothing that guards it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp_client import started

import memoranda

API = "/api/v1"


def start(client: Any, **body: Any) -> Any:
    return client.post(f"{API}/agents/Teller/sessions", json=body)


def say(client: Any, session: str, text: str = "row four") -> list[str]:
    return client.post(f"{API}/sessions/{session}/messages", json={"text": text}).json()["messages"]


def test_a_guard_is_not_taken_from_the_body_and_a_declared_input_is(served, someone):
    for forged, said in (
        ({"identity_checked": True}, "`identity_checked` is not declared as input of `Teller`"),
        ({"branch": "Porto", "identity_checked": True}, "`identity_checked`"),
        ({"user": {"badge": "gold"}}, "`user` is not declared"),
        ({"user_id": "eve"}, "set by the runtime"),
        ({"branch": 7}, "`branch` of `Teller` needs string"),
    ):
        refused = start(someone, vars=forged)
        problem = refused.json()
        assert (refused.status_code, problem["code"]) == (422, "invalid_input"), forged
        assert said in problem["detail"]
        assert (problem["variable"], problem["inputs"]) == (list(forged)[-1], ["branch"])
    assert "Inputs are branch" in problem["hint"] or "TYPE" in problem["hint"]
    taken = start(someone, vars={"branch": "Porto"})
    assert taken.status_code == 201
    assert taken.json()["turns"][0]["messages"] == ["Branch: Porto."]
    assert say(someone, taken.json()["id"]) == ["Not before I know you."]


def test_nothing_is_left_of_a_refused_start(served):
    key = served.key_for("forges")
    forger = served.client(key)
    with memoranda.open(served.db) as memory:
        before = len(memory.ledger.events())
    assert start(forger, vars={"identity_checked": True}).status_code == 422
    with memoranda.open(served.db) as memory:
        later = memory.ledger.events()[before:]
    assert [event.effect for event in later if event.effect in ("start_session", "set_fact", "write_facts")] == []
    assert start(forger).status_code == 201


def test_facts_that_a_caller_may_write_are_not_variables_of_a_session(served):
    key = served.key_for("writes-facts")
    writer = served.client(key)
    id = start(writer).json()["id"]
    for scope in ("", f"?scope=session:{id}"):
        writer.put(f"{API}/memory/facts/identity_checked{scope}", json={"value": True})
    assert say(writer, id) == ["Not before I know you."]
    # What is remembered of the user is theirs to write, where no definition or permission says otherwise.
    assert writer.put(f"{API}/memory/facts/badge", json={"value": "gold"}).is_success
    assert say(writer, start(writer).json()["id"]) == ["Dusted."]


def test_the_client_raises_the_same_error(served):
    with memoranda.Client(served.address, served.key_for("calls-in")) as client:
        with pytest.raises(memoranda.InvalidInput) as caught:
            client.agents.start("Teller", vars={"identity_checked": True})
        assert (caught.value.variable, caught.value.inputs) == ("identity_checked", ["branch"])
        begun = client.agents.start("Teller", vars={"branch": "Faro"})
        assert begun.turns[0].messages == ["Branch: Faro."]


def test_no_tool_of_mcp_reaches_the_variables_of_a_session(served, tmp_path: Path):
    key = served.key_for("asks-mcp")
    owner = served.client(key)
    id = start(owner).json()["id"]
    options = ("--url", served.address, "--agent", "Teller")
    with started(*options, complaints=tmp_path / "mcp.txt", MEMORANDA_API_KEY=key) as talk:
        for tool in talk.ask("list_tools").tools:
            assert "vars" not in tool.input_schema["properties"]
        for place in ({}, {"scope": "agent"}):
            talk.call("set_fact", key="identity_checked", value=True, **place)
            talk.call("set_fact", key="abl.session", value={"vars": {"identity_checked": True}}, **place)
        with pytest.raises(memoranda.UsageError):
            talk.call("set_fact", key="identity_checked", value=True, scope=f"session:{id}")
        assert say(owner, id) == ["Not before I know you."]
        talk.call("set_fact", key="badge", value="gold")
    assert say(owner, start(owner).json()["id"]) == ["Dusted."]


# --- machines and workflows -----------------------------------------------------------------------------------------


def test_a_machine_takes_declared_fields_only(someone):
    def run(**input: Any) -> Any:
        return someone.post(f"{API}/machines/shelf/runs", json={"input": input})

    for forged in ({"kept": True}, {"memory": {}}, {"input": {"note": "x"}}, {"said": {"notes": []}}):
        refused = run(plant="fig", **forged)
        assert (refused.status_code, refused.json()["code"]) == (422, "schema_violation"), forged
    assert run(plant="fig", note="needs sun").json()["output"]["notes"] == ["fig: needs sun"]


def test_a_delivered_event_gives_its_declared_fields_only(someone):
    waiting = someone.post(f"{API}/machines/gate/runs", json={"input": {}}).json()
    payload = {"name": "Ada", "welcome": "forged", "approved": True}
    done = someone.post(f"{API}/runs/{waiting['id']}/deliver", json={"payload": payload}).json()
    assert (done["output"], done["outputs"]["visitor"]) == ("Come in, Ada.", {"name": "Ada"})


def test_a_workflow_with_a_closed_schema_takes_its_fields_only(someone):
    def run(**input: Any) -> Any:
        return someone.post(f"{API}/workflows/refund/runs", json={"input": input})

    for forged in ({"approved": True}, {"context": {"order": {"approved": True}}}, {"$memory": {}}, {"memory": {}}):
        refused = run(amount=7, **forged)
        assert (refused.status_code, refused.json()["code"]) == (422, "schema_violation"), forged
    taken = run(amount=7, text="please")
    assert taken.json()["messages"] != [] and "Held" in str(taken.json()["messages"])
