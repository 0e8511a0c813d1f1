"""Waiting runs over HTTP: approved by another user, resumed by their owner, and given the events they wait for."""

from __future__ import annotations

import pytest

import memoranda

API = "/api/v1"


@pytest.fixture
def tenant(request):
    return request.node.name[:60]


@pytest.fixture
def ada(served, tenant):
    return served.client(served.key_for("ada", tenant=tenant))


@pytest.fixture
def head(served, tenant):
    return served.client(served.key_for("head", role="admin", tenant=tenant))


@pytest.fixture
def strangers(served, tenant):
    """Another member, a reader of the same user, the administrator of another tenant, and a client without a key."""
    return [
        served.client(served.key_for("ben", tenant=tenant)),
        served.client(served.key_for("ada", role="reader", tenant=tenant)),
        served.client(served.key_for("head", role="admin", tenant="elsewhere")),
        served.client("mk_nobody_at_all"),
    ]


def begun(client, machine="vault", **input):
    answer = client.post(f"{API}/machines/{machine}/runs", json={"input": input})
    assert answer.json()["status"] == "waiting", answer.text
    return answer.json()


def notes(client):
    return [one["content"] for one in client.get(f"{API}/collections/vault/entries").json()["entries"]]


def test_a_step_is_approved_by_an_administrator_and_resumed_by_its_owner(ada, head):
    made = begun(ada, note="the deed")
    assert (made["waiting"]["kind"], made["waiting"]["step"]) == ("approval", "kept")
    still = ada.post(f"{API}/runs/{made['id']}/resume")
    assert (still.status_code, still.json()["status"], notes(ada)) == (200, "waiting", [])
    agreed = head.post(f"{API}/runs/{made['id']}/approve", json={"step": "kept", "reason": "as agreed"})
    assert agreed.status_code == 200, agreed.text
    assert (agreed.json()["status"], agreed.json()["decided_by"]) == ("approved", "user:head")
    went = ada.post(f"{API}/runs/{made['id']}/resume").json()
    assert (went["status"], went["output"], notes(ada)) == ("completed", "kept", ["the deed"])
    late = ada.post(f"{API}/runs/{made['id']}/resume")
    assert (late.status_code, late.json()["actual"]) == (409, "completed")


def test_a_step_that_was_refused_is_not_taken(ada, head):
    made = begun(ada, note="the forgery")
    assert head.post(f"{API}/runs/{made['id']}/refuse", json={"reason": "not signed"}).json()["status"] == "refused"
    went = ada.post(f"{API}/runs/{made['id']}/resume").json()
    assert (went["status"], went["error"]["type"], notes(ada)) == ("failed", "permission_denied", [])


def test_the_same_can_be_decided_among_all_that_waits(ada, head):
    made = begun(ada, note="the letter")
    [asked] = head.get(f"{API}/approvals").json()["approvals"]
    assert (asked["actor"], asked["effect"]["run"], asked["effect"]["step"]) == ("user:ada", made["id"], "kept")
    assert head.post(f"{API}/approvals/{asked['id']}/approve", json={}).status_code == 200
    assert ada.post(f"{API}/runs/{made['id']}/resume").json()["status"] == "completed"


def test_who_asked_cannot_decide_and_neither_can_strangers(ada, head, strangers):
    made = begun(ada, note="the deed")
    for verb in ("approve", "refuse"):
        place = f"{API}/runs/{made['id']}/{verb}"
        assert ada.post(place, json={}).status_code == 403
        assert [one.post(place, json={}).status_code for one in strangers] == [403, 403, 404, 401]
    own = begun(head, note="mine")
    assert head.post(f"{API}/runs/{own['id']}/approve", json={}).status_code == 403
    assert [one["status"] for one in head.get(f"{API}/approvals").json()["approvals"]] == ["pending", "pending"]
    wrong = head.post(f"{API}/runs/{made['id']}/approve", json={"step": "done"})
    assert (wrong.status_code, wrong.json()["path"]) == (422, "$.step")
    assert head.post(f"{API}/runs/{made['id']}/approve", json={}).status_code == 200
    twice = head.post(f"{API}/runs/{made['id']}/approve", json={})
    assert (twice.status_code, twice.json()["actual"]) == (409, "approved")


def test_nobody_goes_on_with_the_run_of_somebody_else(ada, head, strangers):
    made = begun(ada, note="the deed")
    head.post(f"{API}/runs/{made['id']}/approve", json={})
    # Who only reads may look at the run, and not write what would come of it.
    for verb, body, reader in (("resume", None, 403), ("cancel", {}, 403), ("deliver", {"payload": 1}, 422)):
        place = f"{API}/runs/{made['id']}/{verb}"
        assert head.post(place, json=body).status_code == 404
        assert [one.post(place, json=body).status_code for one in strangers] == [404, reader, 404, 401]
    assert notes(ada) == []
    assert ada.post(f"{API}/runs/{made['id']}/resume").json()["status"] == "completed"


def test_a_run_that_waits_for_another_is_decided_and_goes_on_with_it(ada, head):
    made = begun(ada, machine="bank")
    assert made["waiting"]["kind"] == "run"
    assert head.post(f"{API}/runs/{made['id']}/approve", json={}).status_code == 200
    went = ada.post(f"{API}/runs/{made['id']}/resume").json()
    assert (went["status"], went["output"], notes(ada)) == ("completed", "kept", ["from the bank"])


def test_the_client_decides_resumes_verifies_and_ends_runs(served, tenant):
    tokens = [served.key_for(user, role=role, tenant=tenant) for user, role in (("ada", "member"), ("head", "admin"))]
    with memoranda.Client(served.address, tokens[0]) as ada, memoranda.Client(served.address, tokens[1]) as head:
        run = ada.machines.run("vault", {"note": "the deed"})
        with pytest.raises(memoranda.Denied):
            ada.runs.approve(run.id)
        assert head.runs.approve(run.id, step="kept", reason="as agreed").status == "approved"
        assert ada.runs.resume(run.id).output == "kept"
        assert ada.runs.verify(run.id).ok
        with pytest.raises(memoranda.Conflict):
            head.runs.refuse(run.id)
        other = ada.machines.run("vault", {"note": "the forgery"})
        assert head.runs.refuse(other.id).status == "refused"
        assert ada.runs.resume(other.id).status == "failed"
        third = ada.machines.run("gate")
        assert ada.runs.cancel(third.id, reason="nobody came").status == "cancelled"
        assert [one.id for one in ada.runs.list()] == [third.id, other.id, run.id]
        assert [one.id for one in ada.runs.list(status="completed", program="vault")] == [run.id]
        with pytest.raises(memoranda.NotFound):
            head.runs.resume(run.id)
        session = ada.agents.start("Usher")
        ada.sessions.end(session.id)
        with pytest.raises(memoranda.NotFound):
            ada.sessions.get(session.id)


def test_what_is_given_to_a_run_reaches_the_one_that_it_waits_for(ada):
    made = begun(ada, machine="hall")
    unfit = ada.post(f"{API}/runs/{made['id']}/deliver", json={"payload": {"name": 7}})
    assert unfit.status_code == 422
    went = ada.post(f"{API}/runs/{made['id']}/deliver", json={"payload": {"name": "Kim"}})
    assert went.status_code == 200, went.text
    assert (went.json()["id"], went.json()["status"], went.json()["output"]) == (
        made["id"],
        "completed",
        "Come in, Kim.",
    )
    assert {one["status"] for one in ada.get(f"{API}/runs").json()["runs"]} == {"completed"}


def test_runs_are_the_callers_own_by_status_and_program_and_errors_are_told_to_nobody_else(ada, head, strangers):
    failed = ada.post(f"{API}/workflows/brittle/runs", json={}).json()
    assert (failed["status"], "blue jar" in failed["error"]["message"]) == ("failed", True)
    begun(ada, note="the deed")
    begun(strangers[0], note="ben's own")
    listed = ada.get(f"{API}/runs")
    assert "blue jar" in listed.text
    assert [one["program"] for one in listed.json()["runs"]] == ["vault", "brittle"]
    assert [one["program"] for one in ada.get(f"{API}/runs", params={"status": "failed"}).json()["runs"]] == ["brittle"]
    assert ada.get(f"{API}/runs", params={"program": "vault", "status": "failed"}).json()["runs"] == []
    assert [one["program"] for one in strangers[0].get(f"{API}/runs").json()["runs"]] == ["vault"]
    assert "blue jar" in strangers[1].get(f"{API}/runs").text, "the same user, who only reads"
    for other in (strangers[0], head, strangers[2], strangers[3]):
        assert "blue jar" not in other.get(f"{API}/runs").text
        assert "blue jar" not in other.get(f"{API}/runs/{failed['id']}").text
        assert "blue jar" not in other.get(f"{API}/runs/{failed['id']}/events").text
    assert ada.get(f"{API}/runs", params={"after": "bm90IG9uZQ"}).status_code == 422
