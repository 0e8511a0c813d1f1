"""Ten mistakes of users in a hurry: each is reported in one line, and another line says what to do next."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import httpx
import pytest
import warm_memoranda

import memoranda
from memoranda.errors import Unauthenticated, Unavailable
from memoranda.store.sqlite.connection import APPLICATION_ID, MIGRATIONS, VERSION

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")


class Done(NamedTuple):
    """What a process left with, and all that it said."""

    code: int
    out: str
    err: str

    def says(self, code: str, *words: str) -> None:
        """Fail unless it ended with one error: one line that says what happened, one that says what to do."""
        lines = self.err.splitlines()
        heads = [line for line in lines if line.startswith("error[")]
        assert len(heads) == 1, self
        assert heads[0].startswith(f"error[{code}]: "), self
        assert lines[-1].startswith("hint: "), self
        assert lines[-2] == heads[0], self
        for word in words:
            assert word in f"{lines[-2]}\n{lines[-1]}", (word, self)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, no settings and no keys."""
    for name in [name for name in os.environ if name.startswith("MEMORANDA_") or name in KEYS]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*command: str, out: Any = subprocess.PIPE, begin: Callable[[], None] | None = None, **variables: str) -> Done:
    """Run a program to its end."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        timeout=PATIENCE,
        preexec_fn=begin,
        env={**os.environ, **variables},
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Done(done.returncode, done.stdout or "", done.stderr)


def call(*arguments: str, out: Any = subprocess.PIPE, warmth: Any = "commands") -> Done:
    """Call a command, as a process of its own, which has imported what it needs."""
    return run(str(warm_memoranda.folder(warmth) / "memoranda"), *arguments, out=out)


def start(*arguments: str, begin: Callable[[], None] | None = None) -> Done:
    """Call a command as a shell starts it."""
    return run(sys.executable, "-m", "memoranda.cli", *arguments, begin=begin)


# 1: another Python, 3: no make


@pytest.fixture
def clone(folder: Path) -> Path:
    """What `make` reads of a fresh clone, and a PATH in which Python is not what is needed."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    (folder / "bin").mkdir()
    return folder / "bin"


@pytest.mark.parametrize("python", ["too old", "none"])
def test_make_names_the_python_it_needs(python: str, clone: Path):
    make = shutil.which("make")
    if make is None:
        pytest.skip("there is no make here")
    if python == "too old":
        (clone / "python3").write_text(f'#!{shutil.which("sh")}\n[ "$1" = --version ] && echo Python 3.9.18\n')
        (clone / "python3").chmod(0o755)
    done = run(make, "test", PATH=str(clone))
    assert done.code == 2
    assert "error: no Python 3.11 or newer" in done.err
    assert "tried: python3.13 python3.12 python3.11 python3" in done.err
    assert "make PYTHON=/path/to/python3" in done.err
    assert not Path(".venv").exists()
    # The right one is told from the wrong one by starting it: this is the question that make asks.
    question = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"
    assert question in Path("Makefile").read_text()
    assert run(sys.executable, "-c", question).code == 0


def test_without_make_the_same_can_be_typed():
    told = (ROOT / "docs" / "installing.md").read_text()
    section = told[told.index("## When something goes wrong") :]
    for command in ('pip install -e ".[server]"', "python -m memoranda.server.demo"):
        assert command in section
    assert "--port" in run(sys.executable, "-m", "memoranda.server.demo", "--help").out


# 2: the port is taken


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        start("serve", "--port", port).says(
            "unavailable", f"127.0.0.1:{port}", "already in use", "Choose another --port, or end what listens there"
        )
        demo = run(sys.executable, "-m", "memoranda.server.demo", "--folder", "demo", "--port", port)
        assert demo.code == 1
        assert demo.err.startswith(f"error: cannot listen on 127.0.0.1:{port}: ")
        assert "Choose another --port" in demo.err
    start("serve", "--host", "192.0.2.1", "--port", "0").says("unavailable", "192.0.2.1", "Choose another --host")


# 4: the folder is read-only


def obey_permissions() -> None:
    """Drop root's capability to override file permissions; other users never had it."""
    libc = ctypes.CDLL(None)
    for right in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        libc.prctl(24, right, 0, 0, 0)  # PR_CAPBSET_DROP


@pytest.mark.skipif(sys.platform != "linux", reason="rights of root are taken away as Linux does it")
def test_a_folder_that_cannot_be_written_is_named(folder: Path):
    Path("closed").mkdir()
    assert start("facts", "set", "k", "v", "--db", "closed/memory.db").code == 0
    Path("closed/memory.db").chmod(0o444)
    Path("closed").chmod(0o555)
    try:
        new = start("facts", "set", "k", "v", "--db", "closed/new.db", begin=obey_permissions)
        new.says("unavailable", "`closed/new.db`", "may not write in its folder", "Make the folder writable")
        for arguments in (("facts", "set", "k", "w"), ("facts", "get", "k")):
            done = start(*arguments, "--db", "closed/memory.db", begin=obey_permissions)
            done.says("read_only", "`closed/memory.db`", "Make the file and its folder writable")
        demo = run(sys.executable, "-m", "memoranda.server.demo", "--folder", "closed/demo", begin=obey_permissions)
        assert (demo.code, demo.err) == (
            1,
            "error: closed/demo cannot be written. Make it writable, or choose another --folder\n",
        )
    finally:
        Path("closed").chmod(0o755)
        Path("closed/memory.db").chmod(0o644)
    assert start("facts", "get", "k", "--db", "closed/memory.db", begin=obey_permissions).out == "v\n"


# 5: the database is an older or a newer one, or none


def make_database(name: str, *, version: int, script: str, ours: bool = True) -> None:
    connection = apsw.Connection(name)
    connection.execute(script)
    connection.pragma("user_version", version)
    if ours:
        connection.pragma("application_id", APPLICATION_ID)
    connection.close()


def test_an_older_database_is_taken_over_in_silence():
    make_database("old.db", version=1, script=MIGRATIONS[0])
    assert VERSION > 1
    done = call("facts", "set", "k", "v", "--db", "old.db")
    assert (done.code, done.err) == (0, "")
    assert call("facts", "get", "k", "--db", "old.db").out == "v\n"


@pytest.mark.parametrize(
    ("database", "code", "words"),
    [
        ("newer", "migration_needed", ("schema 99", f"knows schema {VERSION}", "Upgrade Memoranda here")),
        ("foreign", "foreign_database", ("a database of another program", "Give Memoranda a file of its own")),
        ("text", "corrupt", ("not a database", "Name another file")),
        ("folder", "unavailable", ("it is a folder", "such as `named/memory.db`")),
    ],
)
def test_what_is_no_database_of_this_version_is_refused_and_left_as_it_is(
    database: str, code: str, words: tuple[str, ...]
):
    named = Path("named")
    if database == "newer":
        make_database("named", version=99, script=MIGRATIONS[0])
    elif database == "foreign":
        make_database("named", version=0, script="CREATE TABLE recipes (title)", ours=False)
    elif database == "text":
        named.write_text("Flour, two eggs, a pinch of salt.\n" * 100)
    else:
        named.mkdir()
    before = None if named.is_dir() else named.read_bytes()
    for arguments in (("facts", "set", "k", "v"), ("facts", "list")):
        done = call(*arguments, "--db", "named")
        assert done.code == 1
        done.says(code, "`named`", *words)
    assert before is None or named.read_bytes() == before


def test_a_server_refuses_a_newer_database_too():
    make_database("newer.db", version=99, script=MIGRATIONS[0])
    start("serve", "--port", "0", "--db", "newer.db").says("migration_needed", "schema 99", "Upgrade Memoranda here")


def test_a_database_in_a_folder_that_does_not_exist():
    done = call("facts", "set", "k", "v", "--db", "nowhere/memory.db")
    done.says("unavailable", "the folder `nowhere` does not exist", "Make the folder first")
    call("facts", "list", "--db", "nowhere/memory.db").says("not_found", "no database exists at `nowhere/memory.db`")
    call("facts", "list", "--db", "").says("usage_error", "--db is empty", "such as --db memory.db")


# 6: the wrong key, and 7: no key of a model


class Served(NamedTuple):
    address: str
    key: str


AGENTS = '[agents.guide]\nmodel = "openai:gpt-5.2"\ninstructions = "You know the museum."\n'


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for the tests of this file, which has the key of no provider."""
    place = tmp_path_factory.mktemp("served")
    (place / "agents").mkdir()
    (place / "agents" / "chat.toml").write_text(AGENTS)
    kept = {name: value for name, value in os.environ.items() if name not in KEYS and not name.startswith("MEMORANDA_")}
    with warm_memoranda.run_fork(
        *("serve", "--port", 0, "--db", place / "memory.db", "--json"),
        warmth="models",
        stderr=subprocess.DEVNULL,
        env={**kept, "MEMORANDA_AGENTS": str(place / "agents")},
    ) as process:
        said = json.loads(process.stdout.readline())
        yield Served(said["address"], said["admin_key"])
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def test_a_wrong_key_is_told_where_keys_come_from(served: Served):
    facts = f"{served.address}/api/v1/memory/facts"
    assert httpx.get(facts, headers={"Authorization": f"Bearer {served.key}"}).status_code == 200
    wrong = httpx.get(facts, headers={"Authorization": "Bearer mk_of_yesterday"})
    assert (wrong.status_code, wrong.json()["code"]) == (401, "unauthenticated")
    assert "memoranda keys create" in wrong.json()["hint"]
    none = httpx.get(facts)
    assert none.status_code == 401
    assert "Authorization: Bearer" in none.json()["hint"]
    with memoranda.Client(served.address, "mk_of_yesterday") as client, pytest.raises(Unauthenticated) as caught:
        client.facts.list()
    assert "memoranda keys create" in caught.value.hint
    assert "mk_of_yesterday" not in str(caught.value)


def test_a_client_without_a_server_is_told_how_to_start_one():
    with socket.create_server(("127.0.0.1", 0)) as held:
        address = f"http://127.0.0.1:{held.getsockname()[1]}"
    with memoranda.Client(address, "mk_any", retries=0) as client, pytest.raises(Unavailable) as caught:
        client.facts.list()
    assert address in str(caught.value)
    assert "`memoranda serve` starts one" in caught.value.hint


def test_a_wrong_key_on_the_command_line():
    assert call("keys", "create", "--user", "ada").code == 0
    call("keys", "revoke", "mk_of_yesterday").says("not_found", "no key has that id", "`memoranda keys list`")
    done = run(sys.executable, "-m", "memoranda.cli", "serve", "--port", "0", MEMORANDA_ADMIN_KEY="short")
    done.says("usage_error", "MEMORANDA_ADMIN_KEY", "at least 12")


MACHINE = """\
machine curator "Answer"
  accepts
    question as text, is required

  ensures
    permissions
      allowed to llm_call

  implements
    ask answer, using: "openai:gpt-5.2"
      with task "Answer: ${input.question}"
"""
WORKFLOW = """\
defs:
  curator: {kind: model, settings: {provider: anthropic, model_id: claude-sonnet-4-6}}
  answer:
    kind: task
    action: ai_generate_reply
    inputs: {input_mode: history, system: Answer briefly.}
    bindings: {model: curator}
flow:
  - do: answer
"""


def test_programs_without_the_key_of_their_model_say_which_variable_is_missing():
    Path("curator.mashin").write_text(MACHINE)
    Path("curator.yaml").write_text(WORKFLOW)
    machine = call("run", "curator.mashin", "--input", '{"question": "Who painted this?"}', warmth="models")
    assert machine.code == 1
    machine.says("run_failed", "`openai:gpt-5.2` cannot be used", "Set the `OPENAI_API_KEY` environment variable")
    said = ("--user", "ada", "--thread", "t1", "-m", "Who painted this?")
    workflow = call("run", "curator.yaml", *said, warmth="models")
    assert workflow.code == 1
    workflow.says("run_failed", "claude-sonnet-4-6", "Set the `ANTHROPIC_API_KEY` environment variable")
    for done in (machine, workflow):
        assert "Provider(" not in done.err


def test_a_chat_without_the_key_of_its_model_says_so(served: Served):
    said = {"message": "Who painted this?", "conversation_id": "c1", "message_id": "m1", "stream": False}
    headers = {"Authorization": f"Bearer {served.key}", "Accept": "application/json"}
    answer = httpx.post(f"{served.address}/api/v1/agent/guide/chat", json=said, headers=headers, timeout=PATIENCE)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (503, "model_unavailable"), problem
    assert "OPENAI_API_KEY" in problem["hint"]


# 8: a tab in YAML, and 9: a misspelt word

PROGRAMS = {
    "desk.yaml": ("    kind: task", "\tkind: task", "mixed_indentation", "a tab", "Indent every line with spaces"),
    "porter.abl": ("FLOW:", "FLWO:", "unknown_keyword", "`FLWO`", "Did you mean `FLOW`?"),
    "one.mashin": ("implements", "implments", "unknown_keyword", "`implments`", "Did you mean `implements`?"),
    "say.yaml": ("action:", "acton:", "unknown_key", "`acton`", "Did you mean `action`?"),
}
TEXTS = {
    "desk.yaml": (
        "defs:\n  say:\n    kind: task\n    action: send_text_message\n    inputs: {text: Hi.}\nflow:\n  - do: say\n"
    ),
    "porter.abl": 'AGENT: Porter\nGOAL: "Carry bags"\nFLOW:\n  a:\n    REASONING: false\n    RESPOND: "Hi."\n',
    "one.mashin": "machine one\n  implements\n    compute a\n      1\n",
    "say.yaml": "defs:\n  say: {kind: task, action: send_text_message, inputs: {text: Hi.}}\nflow:\n  - do: say\n",
}
RUNS = {"desk.yaml": ("--user", "ada"), "porter.abl": ("-m", "Hello"), "one.mashin": (), "say.yaml": ("--user", "ada")}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_slip_in_a_program_is_shown_where_it_is_with_what_was_meant(name: str):
    right, wrong, code, fault, way_out = PROGRAMS[name]
    Path(name).write_text(TEXTS[name])
    assert call("check", name).code == 0
    assert call("run", name, *RUNS[name]).code == 0
    text = TEXTS[name].replace(right, wrong, 1)
    assert text != TEXTS[name]
    Path(name).write_text(text)
    line = text[: text.index(wrong.lstrip())].count("\n") + 1
    checked = call("check", name)
    ran = call("run", name, *RUNS[name])
    assert (checked.code, ran.code) == (1, 1)
    for shown in (checked.out, ran.err):
        assert f"{name}:{line}:" in shown
        assert f"error[{code}]" in shown
        assert fault in shown
        assert way_out in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("facts", "set", "k", "v", "--usr", "ada"), ("--usr", "--user", "`memoranda facts set --help`")),
        (("facts", "set", "k", "v", "--user"), ("'--user' requires an argument", "--help`")),
        (("fatcs", "list"), ("'fatcs'", "Did you mean 'facts'?", "`memoranda --help`")),
        (("--db", "memory.db", "facts", "list"), ("--db", "Options come after the command")),
        (("facts", "--db", "memory.db", "list"), ("--db", "Options come after the command")),
        (("facts", "lsit"), ("'lsit'", "Did you mean 'list'", "`memoranda facts --help`")),
        (("recall", "tea", "-c", "notes", "--mode", "hybird"), ("'hybird'", "hybrid", "`memoranda recall --help`")),
        (("check", "notes.txt"), ("`notes.txt`", ".abl", ".mashin", ".yaml")),
        (("check", "nowhere.abl"), ("`nowhere.abl`", "No such file")),
    ],
)
def test_a_slip_on_the_command_line_is_told_what_was_meant(arguments: tuple[str, ...], words: tuple[str, ...]):
    done = call(*arguments)
    assert done.code == 2
    done.says("usage_error", *words)
    assert not Path("memory.db").exists()


# 10: the disk is full

FULL_AFTER_PAGES = """
import sys
import apsw

pages = int(sys.argv.pop(1))
apsw.connection_hooks.append(lambda connection: connection.pragma("max_page_count", pages))
from memoranda.cli import main

main()
"""


def test_a_full_disk_is_named_and_keeps_what_was_there():
    assert call("facts", "set", "first", "1").code == 0
    pages = Path("memory.db").stat().st_size // 4096 + 1
    Path("long.txt").write_text("x" * 60_000)
    with Path("long.txt").open() as text:
        done = subprocess.run(
            [sys.executable, "-c", FULL_AFTER_PAGES, str(pages), "facts", "set", "second", "-"],
            stdin=text,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    Done(done.returncode, done.stdout, done.stderr).says("full", "`memory.db`", "Make room on the disk", "nothing of")
    assert done.returncode == 1
    assert call("facts", "get", "first").out == "1\n"
    assert call("facts", "get", "second").code == 1
    assert call("ledger", "verify").code == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only some systems have a device that is always full")
def test_output_that_finds_no_room_is_said_in_words():
    assert call("facts", "set", "k", "v").code == 0
    for arguments in (("facts", "list"), ("facts", "get", "k"), ("ledger", "tail"), ("--help",)):
        with open("/dev/full", "w") as full:
            done = call(*arguments, out=full)
        assert done.code == 1, arguments
        done.says("full", "the output cannot be written", "No space left", "Free some space")
    export = call("export", "/dev/full")
    assert export.code == 1
    export.says("unavailable", "`/dev/full` cannot be written", "No space left")
