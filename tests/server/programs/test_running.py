"""Machines and workflows over HTTP run for their caller, with the caller's memory only."""

from __future__ import annotations

API = "/api/v1"


def run(client, kind, name, *, status=201, **body):
    answer = client.post(f"{API}/{kind}/{name}/runs", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_a_workflow_runs_for_the_caller_and_is_found_again(someone):
    made = run(someone, "workflows", "hello", input={"name": "Kim"})
    assert (made["status"], made["program"]) == ("completed", "hello")
    assert made["messages"] == ["Good morning, Kim"]
    assert someone.get(f"{API}/runs/{made['id']}").json() == made


def test_a_machine_runs_for_the_caller_and_is_found_again(someone):
    made = run(someone, "machines", "shelf", input={"plant": "fern", "note": "likes shade"})
    assert (made["status"], made["output"]) == ("completed", {"notes": ["fern: likes shade"]})
    assert someone.get(f"{API}/runs/{made['id']}").json() == made


def test_what_a_machine_remembers_is_the_callers_own(served):
    ada, ben = served.client(served.key_for("ada-owns")), served.client(served.key_for("ben-owns"))
    run(ada, "machines", "shelf", input={"plant": "moss", "note": "under the bench"})
    assert run(ben, "machines", "shelf", input={"plant": "moss"})["output"] == {"notes": ["moss: no note"]}
    again = run(ada, "machines", "shelf", input={"plant": "moss"})["output"]["notes"]
    assert sorted(again) == ["moss: no note", "moss: under the bench"]
    held = ada.get(f"{API}/collections/plants/entries").json()["entries"]
    assert {one["scope"] for one in held} == {"user:ada-owns"}


def test_a_machine_that_is_called_has_no_more_rights_than_who_calls(served):
    ada = served.client(served.key_for("ada-porch"))
    made = run(ada, "machines", "porch", input={"plant": "ivy"})
    assert (made["status"], made["output"]) == ("completed", ["ivy: seen from the porch"])
    runs = ada.get(f"{API}/runs").json()["runs"]
    assert {(one["program"], one["actor"]) for one in runs} == {
        ("porch", "user:ada-porch"),
        ("shelf", "user:ada-porch"),
    }


def test_somebody_elses_run_is_not_found(served):
    ada, ben = served.client(served.key_for("ada-private")), served.client(served.key_for("ben-private"))
    admin = served.client()
    elsewhere = served.client(served.key_for("ada-private", tenant="other"))
    id = run(ada, "workflows", "ask_name")["id"]
    for stranger in (ben, admin, elsewhere):
        assert stranger.get(f"{API}/runs/{id}").status_code == 404
        assert stranger.get(f"{API}/runs/{id}/events").status_code == 404
        assert stranger.post(f"{API}/runs/{id}/deliver", json={"payload": {"text": "Eve"}}).status_code == 404
        assert stranger.post(f"{API}/runs/{id}/cancel", json={}).status_code == 404
        assert stranger.get(f"{API}/runs").json()["runs"] == []
    assert ada.get(f"{API}/runs/{id}").json()["status"] == "waiting"
    assert [one["id"] for one in ada.get(f"{API}/runs").json()["runs"]] == [id]


def test_a_workflow_that_waits_goes_on_with_what_it_is_given(someone):
    made = run(someone, "workflows", "ask_name")
    assert (made["status"], made["waiting"]["kind"]) == ("waiting", "event")
    went = someone.post(f"{API}/runs/{made['id']}/deliver", json={"payload": {"text": "Kim"}})
    assert went.status_code == 200, went.text
    assert (went.json()["status"], went.json()["messages"]) == ("completed", ["Thank you"])
    again = someone.post(f"{API}/runs/{made['id']}/deliver", json={"payload": {"text": "Kim"}})
    assert (again.status_code, again.json()["code"]) == (409, "conflict")


def test_a_machine_that_waits_goes_on_with_what_it_is_given(someone):
    made = run(someone, "machines", "gate")
    assert made["status"] == "waiting"
    unfit = someone.post(f"{API}/runs/{made['id']}/deliver", json={"payload": {"name": 7}})
    assert unfit.status_code == 422
    went = someone.post(f"{API}/runs/{made['id']}/deliver", json={"payload": {"name": "Kim"}})
    assert (went.json()["status"], went.json()["output"]) == ("completed", "Come in, Kim.")


def test_a_run_that_waits_can_be_cancelled_whatever_it_is_written_in(someone):
    for kind, name in (("workflows", "ask_name"), ("machines", "gate"), ("machines", "hall")):
        made = run(someone, kind, name)
        assert made["status"] == "waiting"
        ended = someone.post(f"{API}/runs/{made['id']}/cancel", json={"reason": "no longer needed"})
        assert ended.status_code == 200, ended.text
        assert (ended.json()["status"], ended.json()["error"]["message"]) == ("cancelled", "no longer needed")
        again = someone.post(f"{API}/runs/{made['id']}/cancel", json={})
        assert (again.status_code, again.json()["actual"]) == (409, "cancelled")
        assert someone.get(f"{API}/runs/{made['id']}/verify").json()["ok"]
        assert someone.get(f"{API}/runs/{made['id']}").json() == ended.json()
    assert someone.get(f"{API}/runs", params={"status": "waiting"}).json()["runs"] == []
    assert len(someone.get(f"{API}/runs", params={"status": "cancelled"}).json()["runs"]) == 4


def test_the_events_of_a_run_are_told_in_order(someone):
    made = run(someone, "workflows", "hello", input={"name": "Kim"})
    events = someone.get(f"{API}/runs/{made['id']}/events").json()["events"]
    assert [one["index"] for one in events] == list(range(1, len(events) + 1))
    assert (events[0]["kind"], events[-1]["kind"]) == ("exec_start", "exec_end")


def test_a_reader_sees_runs_and_starts_none(served):
    reader = served.client(served.key_for("reading", role="reader"))
    member = served.client(served.key_for("reading"))
    made = run(member, "workflows", "hello", input={"name": "Kim"})
    refused = reader.post(f"{API}/workflows/hello/runs", json={"input": {"name": "Kim"}})
    assert (refused.status_code, refused.json()["code"]) == (403, "denied")
    assert reader.get(f"{API}/runs/{made['id']}").json()["messages"] == ["Good morning, Kim"]


def test_a_key_that_is_narrowed_runs_nothing(served):
    narrow = served.client(served.key_for("narrowed", allow=("memory.read",)))
    assert narrow.post(f"{API}/workflows/hello/runs", json={"input": {"name": "Kim"}}).status_code == 403
    assert run(served.client(served.key_for("narrowed")), "workflows", "hello", input={"name": "Kim"})


def test_actions_beside_the_workflows_can_be_called(someone):
    assert run(someone, "workflows", "shout", input={"text": "quiet"})["output"] == {"text": "QUIET"}


def test_programs_that_are_not_there_and_bodies_that_do_not_fit_are_refused(someone):
    missing = someone.post(f"{API}/workflows/helo/runs", json={})
    assert (missing.status_code, missing.json()["hint"]) == (404, "Did you mean `hello`?")
    assert someone.post(f"{API}/machines/nobody/runs", json={}).status_code == 404
    unfit = someone.post(f"{API}/machines/shelf/runs", json={"input": {}})
    assert (unfit.status_code, unfit.json()["code"]) == (422, "schema_violation")
    for body in ({"owner": "ada"}, {"input": []}, {"mode": "dream"}):
        answer = someone.post(f"{API}/workflows/hello/runs", json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "usage_error"), body
    assert run(someone, "workflows", "hello", input={"name": "Kim"})


def test_a_test_run_of_a_machine_keeps_no_memory(someone):
    made = run(someone, "machines", "shelf", mode="test", input={"plant": "fern"})
    assert made["status"] == "completed"
    assert someone.get(f"{API}/collections/plants/entries").json()["entries"] == []
    run(someone, "machines", "shelf", input={"plant": "fern"})
    assert len(someone.get(f"{API}/collections/plants/entries").json()["entries"]) == 1


def test_runs_come_in_pages(someone):
    ids = [run(someone, "workflows", "hello", input={"name": str(number)})["id"] for number in range(3)]
    first = someone.get(f"{API}/runs", params={"limit": 2}).json()
    rest = someone.get(f"{API}/runs", params={"limit": 2, "after": first["next"]}).json()
    assert [one["id"] for one in first["runs"] + rest["runs"]] == ids[::-1]
    assert rest["next"] is None
