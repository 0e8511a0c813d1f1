"""Sessions with agents over HTTP: each belongs to its caller, and resumes where it left off."""

from __future__ import annotations

API = "/api/v1"


def start(client, agent="Usher", **body):
    answer = client.post(f"{API}/agents/{agent}/sessions", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def say(client, session, text):
    answer = client.post(f"{API}/sessions/{session}/messages", json={"text": text})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_session_is_started_spoken_in_and_looked_at(someone):
    begun = start(someone)
    assert (begun["agent"], begun["status"], begun["step"]) == ("Usher", "waiting", "ask")
    assert begun["turns"][0]["messages"] == ["Last time: nowhere.", "Which seat?"]
    turn = say(someone, begun["id"], "row four")
    assert (turn["number"], turn["status"]) == (1, "completed")
    assert turn["messages"] == ["Enjoy the play on row four."]
    found = someone.get(f"{API}/sessions/{begun['id']}").json()
    assert [(one["number"], one["input"]) for one in found["turns"]] == [(0, None), (1, "row four")]
    assert found["status"] == "completed"


def test_what_an_agent_remembers_is_the_callers_own_and_there_the_next_time(served):
    ada, ben = served.client(served.key_for("ada-sits")), served.client(served.key_for("ben-sits"))
    say(ada, start(ada)["id"], "row two")
    assert start(ada)["turns"][0]["messages"][0] == "Last time: row two."
    assert start(ben)["turns"][0]["messages"][0] == "Last time: nowhere."
    assert ada.get(f"{API}/memory/facts/seat").json()["value"] == "row two"


def test_somebody_elses_session_is_not_found(served):
    ada, ben = served.client(served.key_for("ada-hides")), served.client(served.key_for("ben-hides"))
    elsewhere = served.client(served.key_for("ada-hides", tenant="other"))
    id = start(ada)["id"]
    for stranger in (ben, served.client(), elsewhere):
        looked = stranger.get(f"{API}/sessions/{id}")
        spoke = stranger.post(f"{API}/sessions/{id}/messages", json={"text": "row one"})
        assert (looked.status_code, spoke.status_code) == (404, 404)
        missing = stranger.get(f"{API}/sessions/session_never_begun").json()
        assert looked.json()["detail"].replace(id, "…") == missing["detail"].replace("session_never_begun", "…")
    assert len(ada.get(f"{API}/sessions/{id}").json()["turns"]) == 1


def test_a_reader_looks_at_sessions_and_starts_none(served):
    member, reader = (served.client(served.key_for("sits-still", role=role)) for role in ("member", "reader"))
    refused = reader.post(f"{API}/agents/Usher/sessions", json={})
    assert (refused.status_code, refused.json()["code"]) == (403, "denied")
    id = start(member)["id"]
    assert reader.get(f"{API}/sessions/{id}").status_code == 200
    assert reader.post(f"{API}/sessions/{id}/messages", json={"text": "row one"}).status_code == 403


def test_agents_that_are_not_there_and_bodies_that_do_not_fit_are_refused(someone):
    missing = someone.post(f"{API}/agents/Ushr/sessions", json={})
    assert (missing.status_code, missing.json()["hint"]) == (404, "Did you mean `Usher`?")
    for body in ({"user": "ada"}, {"vars": []}, {"project": ""}):
        assert someone.post(f"{API}/agents/Usher/sessions", json=body).status_code == 422, body
    id = start(someone)["id"]
    assert someone.post(f"{API}/sessions/{id}/messages", json={"text": 7}).status_code == 422
    assert say(someone, id, "row nine")["status"] == "completed"


def test_a_session_that_was_ended_is_gone_and_what_it_remembered_stays(served, someone):
    id = someone.post(f"{API}/agents/Usher/sessions", json={}).json()["id"]
    someone.post(f"{API}/sessions/{id}/messages", json={"text": "seat 4B"})
    stranger = served.client(served.key_for("not-seated"))
    assert stranger.post(f"{API}/sessions/{id}/end").status_code == 404
    ended = someone.post(f"{API}/sessions/{id}/end")
    assert ended.status_code == 200, ended.text
    assert someone.get(f"{API}/sessions/{id}").status_code == 404
    assert someone.post(f"{API}/sessions/{id}/end").status_code == 404
    again = someone.post(f"{API}/agents/Usher/sessions", json={}).json()
    assert "4B" in again["turns"][0]["messages"][0]
