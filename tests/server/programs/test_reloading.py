"""What is loaded is listed, loaded again without a restart, and looked into while and after it runs."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from typing import Any

import httpx
import pytest

import memoranda
from memoranda.errors import Conflict
from memoranda.server.programs import load_programs
from memoranda.server.settings import Settings

API = "/api/v1"
BAD = "defs:\n  name: {kind: task, action: wait_for_replies, inputs: {}}\nflow:\n  - do: name\n"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def until(look: Any, *, seconds: float = 60.0) -> None:
    """Wait until something holds."""
    ends = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < ends, "it never came true"
        time.sleep(0.05)


# what is loaded


def test_programs_are_listed_with_digest_bindings_inputs_and_the_name_of_their_file(served):
    reader = served.client(served.key_for("lister", role="reader"))
    listed = {one["name"]: one for one in reader.get(f"{API}/workflows").json()["programs"]}
    assert {"hello", "ask_name", "refund"} <= listed.keys() and "hello.tests" not in listed
    refund = listed["refund"]
    assert (refund["kind"], refund["file"], refund["errors"]) == ("workflow", "refund.yaml", [])
    assert refund["inputs"]["properties"].keys() == {"text", "amount"}
    assert [(one["name"], one["type"]) for one in refund["bindings"]["steps"]] == [
        ("pass_on", "set_context"),
        ("say", "send_text_message"),
    ]
    assert len(refund["digest"]) == 64 and refund["loaded_at"]
    machines = {one["name"]: one for one in reader.get(f"{API}/machines").json()["programs"]}
    assert machines["shelf"]["bindings"]["collections"] == ["plants"]
    assert machines["shelf"]["title"] == "Keep a note about a plant, and say what is kept"
    assert machines["hall"]["bindings"]["steps"][0]["program"] == "gate"
    agents = {one["name"]: one for one in reader.get(f"{API}/agents").json()["programs"]}
    assert agents["Usher"]["bindings"]["facts"] == ["user.seat"] and agents["Usher"]["bindings"]["tools"] == ["tidy"]
    assert agents["Teller"]["inputs"]["properties"] == {"branch": {"type": "string"}}
    assert str(served.db.parent) not in reader.get(f"{API}/workflows").text


@pytest.mark.parametrize(
    ("actions", "told"),
    [
        ("def plain():\n    pass\n", "`actions.py` is not an action"),
        ("open('/srv/keys of ops/mail.pem')\n", "cannot be loaded: FileNotFoundError"),
        ("raise ValueError('the mail is not configured')\n", "ValueError: the mail is not configured"),
    ],
)
def test_errors_of_programs_do_not_show_folders_even_with_spaces(tmp_path, actions, told):
    folder = tmp_path / "our own flows"
    folder.mkdir()
    (folder / "hello.yaml").write_text(BAD.replace("wait_for_replies", "wait_for_reply"))
    with memoranda.open(":memory:") as memory:
        programs = load_programs(Settings(workflows=str(folder)), memory)
        (folder / "actions.py").write_text(actions)
        with pytest.raises(Conflict) as refused:
            programs.reload()
        said = f"{refused.value.message} {refused.value.details}"
        assert told in said and "actions.py" in said
        assert [one for one in ("our own", str(tmp_path), "keys of ops") if one in said] == []


def test_lists_of_programs_are_pages(served):
    with memoranda.Client(served.address, served.key_for("pager")) as client:
        every = client.machines.list()
        assert [one.name for one in every] == sorted(one.name for one in every)
        assert [one.name for one in client.machines.list(limit=2)] == [one.name for one in every[:2]]


@pytest.fixture
def memory(tmp_path):
    with memoranda.open(tmp_path / "memory.db") as opened:
        yield opened


def test_a_file_with_an_error_is_listed_with_it_and_stops_no_other(memory, tmp_path, programs_in):
    programs_in(tmp_path)
    (tmp_path / "workflows" / "bad.yaml").write_text(BAD)
    (tmp_path / "machines" / "twin.mashin").write_text((tmp_path / "machines" / "gate.mashin").read_text())
    folders: Any = {place: str(tmp_path / place) for place in ("agents", "machines", "workflows")}
    programs = load_programs(Settings(**folders), memory)
    flows = {one.name: one for one in programs.summaries("workflow")}
    [error] = flows["bad"].errors
    assert (flows["bad"].digest, error.severity, error.line) == (None, "error", 2)
    assert "wait_for_replies" in error.message and flows["hello"].errors == []
    twin = next(one for one in programs.summaries("machine") if one.errors)
    assert "two machines `gate`" in twin.errors[0].message and twin.file == "twin.mashin"
    with pytest.raises(memoranda.UsageError):
        load_programs(Settings(**folders, strict=True), memory)


def test_watched_files_are_loaded_when_they_change_and_kept_when_they_are_wrong(memory, tmp_path, programs_in):
    programs_in(tmp_path)
    file = tmp_path / "workflows" / "hello.yaml"
    programs = load_programs(Settings(workflows=str(tmp_path / "workflows"), reload=True), memory)

    def hello() -> Any:
        return next(one for one in programs.summaries("workflow") if one.name == "hello")

    before, text = hello(), file.read_text()
    file.write_text(BAD)
    assert hello() == before
    file.write_text(text.replace("Good morning", "Good evening"))
    assert hello().digest == digest(file.read_text()) != before.digest
    file.unlink()
    assert "hello" not in [one.name for one in programs.summaries("workflow")]


# loading again


def test_all_processes_reload_and_runs_continue_with_the_text_they_began_with(tmp_path, programs_in, serving):
    folders = programs_in(tmp_path)
    file, caller = tmp_path / "workflows" / "ask_name.yaml", tmp_path / "machines" / "gate.mashin"
    old = file.read_text()
    stale = tmp_path / "export.jsonl.0123abcd.part"
    stale.write_text("half")
    os.utime(stale, (1, 1))
    with memoranda.open(tmp_path / "memory.db") as memory:
        memory.scope(user="ada").set("otp", 4711, ttl=1)
        memory.scope(user="ada").set("name", "Ada")
    with serving(tmp_path / "memory.db", "--workers", "2", MEMORANDA_SWEEP_EVERY="0.5", **folders) as one:
        headers = {"Authorization": f"Bearer {one.key_for('ada')}"}
        admin = {"Authorization": f"Bearer {one.key}"}

        def ask(method: str, path: str, keys: dict[str, str] = headers, status: int = 0, **body: Any) -> Any:
            # A connection of its own each time: it may reach either process.
            answer = httpx.request(method, f"{one.address}{API}{path}", headers=keys, json=body or None, timeout=120)
            assert answer.status_code == status if status else answer.is_success, answer.text
            return answer.json()

        def digests() -> set[str]:
            every = (ask("GET", "/workflows")["programs"] for _ in range(8))
            return {found["digest"] for listed in every for found in listed if found["name"] == "ask_name"}

        began = [ask("POST", "/workflows/ask_name/runs", input={})["id"] for _ in range(4)]
        hall = ask("POST", "/machines/hall/runs", input={})["id"]
        file.write_text(new := old.replace("Thank you", "Thanks"))
        caller.write_text(caller.read_text().replace("Come in", "Welcome"))
        assert ask("POST", "/programs/reload", status=403)["code"] == "denied"
        assert digests() == {digest(old)}
        told = ask("POST", "/programs/reload", admin)
        assert (told["changed"], told["added"], told["removed"]) == (["machine gate", "workflow ask_name"], [], [])
        assert digests() == {digest(new)}
        # What had begun continues with the old text in either process, and what begins has the new one.
        for run in began:
            went = ask("POST", f"/runs/{run}/deliver", payload={"text": "Kim"})
            assert (went["messages"], went["digest"]) == (["Thank you"], digest(old))
        met = ask("POST", f"/runs/{hall}/deliver", payload={"name": "Kim"})
        assert (met["status"], met["output"]) == ("completed", "Come in, Kim.")
        fresh = ask("POST", "/workflows/ask_name/runs", input={})["id"]
        assert ask("POST", f"/runs/{fresh}/deliver", payload={"text": "Kim"})["messages"] == ["Thanks"]
        versions = ask("GET", "/workflows/ask_name/versions")["versions"]
        assert [(v["digest"], v["current"], v["runs"]) for v in versions] == [
            (digest(new), True, 1),
            (digest(old), False, 4),
        ]
        # A reload that fails changes nothing, and says why.
        file.write_text(BAD)
        refused = ask("POST", "/programs/reload", admin, status=409)
        assert "ask_name.yaml" in refused["detail"] and "wait_for_replies" in refused["detail"]
        assert refused["diagnostics"][0]["line"] == 2 and str(tmp_path) not in str(refused)
        assert digests() == {digest(new)}
        # The signal reaches every process.
        file.write_text(old.replace("Thank you", "Merci"))
        one.process.send_signal(signal.SIGHUP)
        until(lambda: digests() == {digest(file.read_text())})
        # Meanwhile expired rows and leftovers went, by one of the two processes.
        until(lambda: not stale.exists())
    with memoranda.open(tmp_path / "memory.db") as memory:
        assert [fact.key for fact in memory.scope(user="ada").list()] == ["name"]
        assert memory.scope(user="ada").history("otp")[0].forgotten
        assert all(finding.ok for finding in memory.inspect())


# what ran


def test_steps_of_runs_and_sessions_are_read_over_http(served):
    key, other = served.key_for("looker"), served.key_for("stranger")
    with memoranda.Client(served.address, key) as client, memoranda.Client(served.address, other) as stranger:
        run = client.machines.run("shelf", {"plant": "fern", "note": "in the shade"})
        kept, found, said = client.runs.steps(run.id)
        assert (kept.step, kept.inputs["content"], kept.status) == ("kept", "fern: in the shade", "completed")
        assert found.reads == kept.writes and said.output == run.output
        assert client.runs.get(run.id).recorded == 3
        with pytest.raises(memoranda.NotFound):
            stranger.runs.steps(run.id)
        session = client.agents.start("Usher")
        client.sessions.say(session.id, "row 7")
        steps = client.sessions.steps(session.id)
        assert [one.inputs for one in steps if one.type == "turn"] == [{"input": None}, {"input": "row 7"}]
        with pytest.raises(memoranda.NotFound):
            stranger.sessions.steps(session.id)
    looker = served.client(key)
    first = looker.get(f"{API}/runs/{run.id}/steps?limit=2").json()
    rest = looker.get(f"{API}/runs/{run.id}/steps", params={"after": first["next"]}).json()
    assert [one["number"] for page in (first, rest) for one in page["steps"]] == [1, 2, 3] and rest["next"] is None


def test_a_server_keeps_what_its_settings_say(tmp_path, programs_in, serving):
    folders = programs_in(tmp_path)
    variables = {"MEMORANDA_STEP_RECORDS": "hashes", "MEMORANDA_STEP_REDACT": "plant", "MEMORANDA_KEEP_RUNS": "1s"}
    with serving(tmp_path / "memory.db", MEMORANDA_SWEEP_EVERY="0.2", **folders, **variables) as one:
        ada = one.client(one.key_for("ada"))
        run = ada.post(f"{API}/machines/shelf/runs", json={"input": {"plant": "fern"}}).json()["id"]
        steps = ada.get(f"{API}/runs/{run}/steps").json()["steps"]
        assert steps[0]["inputs"].keys() == {"hash", "bytes"} and "fern" not in str(steps)
        # Its time is over after a second; then nothing is left of it but its events.
        until(lambda: ada.get(f"{API}/runs/{run}").status_code == 404)
        until(lambda: 'memoranda_swept_total{kind="runs"} 1' in ada.get("/metrics").text)
        assert any(line["message"] == "expired data was swept" for line in one.lines())


# conversations


def test_conversations_with_workflows_are_among_the_others(served):
    with memoranda.Client(served.address, served.key_for("talker")) as client:
        client.workflows.run("hello", {"text": "Is the piano tuned?", "name": "Kim"}, thread="t1")
        [listed] = client.conversations.list()
        assert (listed.id, listed.kind, listed.workflow, listed.last_seq) == ("t1", "workflow", "hello", 2)
        assert client.conversations.list(kind="chat") == []
        said = client.conversations.get("t1")
        assert said is not None
        assert [(part.kind, part.text) for part in said.parts] == [
            ("user", "Is the piano tuned?"),
            ("agent_text", "Good morning, Kim"),
        ]
        rest = client.conversations.get("t1", after=1)
        assert rest is not None and [part.seq for part in rest.parts] == [2]
        assert client.conversations.get("t1", kind="chat") is None
        assert "Is the piano tuned?" in [one.content for one in client.collections.recall("piano").results]
    with memoranda.Client(served.address, served.key_for("eavesdropper")) as other:
        assert other.conversations.list() == [] and other.conversations.get("t1") is None
    with memoranda.Client(served.address, served.key_for("talker")) as client:
        client.sleep.forget("t1")
        assert client.conversations.list() == [] and client.conversations.get("t1") is None
