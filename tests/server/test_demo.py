"""`make serve`: what it prints works, and the calls of the document that blocks and chat are made after work on it."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from demo_server import PATIENCE, Demo, run_demo
from processes import run_process

import memoranda
from memoranda.server.auth.keys import create_key

ROOT = Path(__file__).parents[2]
ORIGINALS = ROOT.parent / "shared" / "seeds"
API = "/api/v1"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """One server for the tests of this file."""
    with run_demo(tmp_path_factory.mktemp("demo"), warm=False) as demo:
        yield demo


def in_shell(line: str) -> str:
    """Run a line as pasted into a shell, and return its output."""
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# what it prints


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_three_lines_that_it_prints_work_in_a_shell(demo: Demo) -> None:
    core, recalled, streamed = (in_shell(line) for line in demo.commands)
    assert "beans on plot twelve" in json.loads(core)["content"]
    assert "north gate" in json.loads(recalled)[0]["content"]
    assert "event: end" in streamed and "long ladder" in streamed
    wrong = demo.commands[0].replace(demo.key, "mk_of_nobody")
    assert json.loads(in_shell(wrong))["code"] == "unauthenticated"


def test_the_programs_that_it_brings_along_run(demo: Demo) -> None:
    with demo.client() as client:
        wrote = client.post(f"{API}/machines/diary/runs", json={"input": {"plant": "beans", "line": "picked a bowl"}})
        assert "beans: picked a bowl" in wrote.json()["output"]["lines"]
        asked = client.post(f"{API}/workflows/watering/runs", json={"input": {"plot": 12}}).json()
        assert (asked["status"], asked["messages"]) == ("waiting", ["When can you water plot 12?"])
        heard = client.post(f"{API}/runs/{asked['id']}/deliver", json={"payload": {"text": "Saturday"}}).json()
        assert heard["messages"][-1] == "Thank you. Noted: Saturday"


def test_what_is_there_stays_for_the_next_start_and_the_key_does_not(tmp_path: Path) -> None:
    with run_demo(tmp_path, warm=False) as first, first.client() as client:
        admin = first.after("shown only once: ")
        assert client.put(f"{API}/memory/facts/visits", json={"value": 1}).status_code == 200
    with run_demo(tmp_path, warm=False) as second, second.client() as client:
        assert not any("shown only once" in line for line in second.said)
        assert client.get(f"{API}/memory/facts/visits").json()["value"] == 1
        assert [one["id"] for one in client.get(f"{API}/conversations").json()["conversations"]] == ["welcome"]
        assert len(client.get(f"{API}/collections/diary/entries").json()["entries"]) == 3
        with second.client(first.key) as late, second.client(admin) as owner:
            assert late.get(f"{API}/conversations").status_code == 401
            assert owner.get(f"{API}/memory/definitions").json()["definitions"][0]["slug"] == "plot"


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    def run(*absent: str) -> subprocess.CompletedProcess[str]:
        lacking = f"import runpy, sys; sys.modules |= dict.fromkeys({absent}); sys.argv[1:] = ['--help']; "
        script = lacking + "runpy.run_module('memoranda.server.demo', run_name='__main__')"
        return subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)

    refused = run("litestar")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("error: the demo needs the package `litestar`. Install it with")
    assert 'pip install "memoranda[server]"' in refused.stderr
    assert run().returncode == 0


def test_the_settings_of_the_environment_apply(tmp_path: Path) -> None:
    with memoranda.open(tmp_path / "mine.db") as memory:
        memory.scope(user="ada").set("hat", "red")
        key = create_key(memory, tenant="default", user="ada", role="member").token
    variables = {"MEMORANDA_DB": str(tmp_path / "mine.db"), "MEMORANDA_PORT": "0", "MEMORANDA_HOST": "127.0.0.2"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMORANDA_")}
    command = [sys.executable, "-m", "memoranda.server.demo", "--folder", str(tmp_path / "demo")]
    with run_process(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=kept | variables) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        assert address.startswith("http://127.0.0.2:") and not address.endswith(":8765")
        with memoranda.Client(address, key) as client:
            assert client.facts.value("hat") == "red"
            assert client.agents.list() == []
        assert not (tmp_path / "demo").exists()


def test_make_serve_starts_the_demo() -> None:
    rules = (ROOT / "Makefile").read_text()
    rule = rules[rules.index("\nserve:") :].split("\n\n")[0]
    assert "$(BIN)/python -m memoranda.server.demo" in rule


# the calls of the original document, as they are written there


class Request(NamedTuple):
    """A request as the document writes it: a line such as `GET /path`, and below it a body."""

    method: str
    path: str
    body: Any = None


_REQUEST = re.compile(r"(GET|PUT|POST|PATCH|DELETE) (/\S+)")
_STATEMENT = re.compile(r"\w+ = await client\.|for \w+ in \w+:$")


def read_value(text: str) -> Any:
    """Return the JSON value that a text begins with."""
    return json.JSONDecoder().raw_decode(text)[0]


def requests_of(text: str) -> list[Request]:
    """Return the requests of a document in their order."""
    lines = text.splitlines()
    return [
        Request(found[1], found[2], _body("\n".join(lines[number:])))
        for number, line in enumerate(lines, start=1)
        if (found := _REQUEST.fullmatch(line.strip()))
    ]


def _body(rest: str) -> Any:
    return read_value(rest) if rest.startswith("{") else None


def statements_of(text: str) -> list[str]:
    """Return the Python statements of a document that use its client, in their order."""
    lines = text.splitlines()
    found: list[str] = []
    for number, line in enumerate(lines):
        if _STATEMENT.match(line):
            end = number + 1
            while not _is_whole("\n".join(lines[number:end])) or lines[end].startswith(" "):
                end += 1
            found.append("\n".join(lines[number:end]))
    return found


def _is_whole(code: str) -> bool:
    try:
        ast.parse(code)
    except SyntaxError:
        return False
    return True


def policy_of(text: str) -> dict[str, Any]:
    """Return the memory policy that the document shows as a body of chat and preview."""
    lines = text.splitlines()
    return next(
        value
        for number, line in enumerate(lines)
        if line == "{" and "memory_policy" in (value := read_value("\n".join(lines[number:])))
    )


@pytest.fixture(scope="module")
def document() -> str:
    found = sorted(ORIGINALS.glob("002_*.txt"))
    if not found:
        pytest.skip("the original document is not here")
    return found[0].read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def agents(demo: Demo) -> None:
    """Let the agents that the document speaks of know something."""
    with memoranda.Client(demo.address, demo.key) as client:
        client.memory.update("core", "- Signs with full name", expected_updated_at=None, agent_id="agent_emails")
        line = "- The Acme renewal is signed by the CFO"
        client.memory.update("archival", line, expected_updated_at=None, agent_id="agent_records")


@pytest.mark.usefixtures("agents")
def test_the_documents_calls_of_the_client_work_as_written(
    document: str, demo: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    statements = statements_of(document)
    assert [len(re.findall(r"await client\.memory\.(\w+)", code)) for code in statements].count(1) == 6

    async def run() -> dict[str, Any]:
        async with memoranda.AsyncClient(demo.address, demo.key) as client:
            names: dict[str, Any] = {"client": client}
            for code in statements:
                done = eval(compile(code, "document", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
                if inspect.iscoroutine(done):
                    await done
            return names

    names = asyncio.run(run())
    assert [(block.block_type, block.scope) for block in names["blocks"]] == [("core", "user"), ("archival", "user")]
    assert (names["agent_core"].content, names["agent_core"].agent_id) == ("- Signs with full name", "agent_emails")
    assert names["updated"].content.count("\n- ") == 1 and names["updated"].updated_at > names["core"].updated_at
    assert re.fullmatch(r"agent [\d.]+ - The Acme renewal is signed by the CFO\n", capsys.readouterr().out)


@pytest.mark.usefixtures("agents")
def test_the_documents_requests_work_as_written(document: str, demo: Demo) -> None:
    requests = requests_of(document)
    assert [request.method for request in requests] == ["GET", "GET", "GET", "GET", "PUT", "POST"]
    with demo.client() as client:
        answers = [client.request(one.method, one.path, json=one.body) for one in requests]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 409, 200]
        own, every, core, agents_core, stale, recalled = (answer.json() for answer in answers)
        assert [block["scope"] for block in own] == ["user", "user"]
        assert {block["agent_id"] for block in every} == {None, "agent_emails", "agent_records"}
        assert agents_core["content"] == "- Signs with full name"
        assert [match["scope"] for match in recalled] == ["agent"]
        # The document's stamp is of another day. What it says to do then: read again, and send the stamp of now.
        assert (stale["code"], stale["current_updated_at"]) == ("conflict", core["updated_at"])
        write = requests[4]
        now = write.body | {"expected_updated_at": stale["current_updated_at"]}
        written = client.request(write.method, write.path, json=now)
        assert (written.status_code, written.json()["content"]) == (200, write.body["content"])
        # A create-style write of what is there.
        again = client.request(write.method, write.path, json=write.body | {"expected_updated_at": None})
        assert again.status_code == 409
        assert client.get(write.path).json() == written.json()


def test_the_documents_policy_is_one_for_chat_and_for_the_preview(document: str, demo: Demo) -> None:
    policy = policy_of(document)
    assert len(policy["memory_policy"]) == 5
    with demo.client() as client:
        shown = client.post(f"{API}/agent/guide/prompts/preview", json={"message": "The tap?"} | policy)
        said = {"message": "The tap?", "conversation_id": "policies", "message_id": "m1", "stream": False}
        answered = client.post(f"{API}/agent/guide/chat", json=said | policy)
        assert (shown.status_code, answered.status_code) == (200, 200), (shown.text, answered.text)
        assert "system_reminders" not in shown.json()["system"] and not shown.json()["system_reminders"]
        policy["memory_policy"]["archival_mode"] = "auto"
        auto = client.post(f"{API}/agent/guide/prompts/preview", json={"message": "The tap?"} | policy)
        assert "north gate" in str(auto.json()["system_reminders"])


def test_requests_statements_and_bodies_are_found_in_a_text() -> None:
    text = (
        'Read it.\nGET /a/b?c=d\nPUT /a\n{\n  "x": [1]\n}\nGET the key\n'
        "x = await client.a.b(\n    1,\n)\nfor one in x:\n    print(one)\n    x\nfor each of them\n"
        '{\n  "memory_policy": {"y": 1}\n}\n'
    )
    assert requests_of(text) == [Request("GET", "/a/b?c=d"), Request("PUT", "/a", {"x": [1]})]
    assert statements_of(text) == ["x = await client.a.b(\n    1,\n)", "for one in x:\n    print(one)\n    x"]
    assert policy_of(text) == {"memory_policy": {"y": 1}}
