"""Errors in the programs of a server are reported before it serves requests."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import memoranda
from memoranda.errors import NotFound, SourceError, UsageError
from memoranda.server.chat_agents import read_chat_agents
from memoranda.server.programs import load_programs
from memoranda.server.settings import Settings

MACHINE = 'machine bell\n  implements\n    compute ring\n      "ding"\n'


@pytest.fixture
def memory(tmp_path):
    with memoranda.open(tmp_path / "memory.db") as opened:
        yield opened


def folder_of(path, **files):
    path.mkdir()
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(text)
    return str(path)


def test_a_chat_file_gives_agents_and_says_what_it_does_not_know():
    text = '[agents.porter]\nmodel = "openai:gpt-5.2"\nmemory_policy = {archival_limit = 3}\n'
    [porter] = read_chat_agents(text)
    assert (porter.id, porter.model, porter.memory_policy.archival_limit) == ("porter", "openai:gpt-5.2", 3)
    assert read_chat_agents("") == []
    for wrong in (
        "[agents.porter]\nmodle = 1",
        "[porters.one]\n",
        "[agents",
        "[agents.porter]\nmemory_policy = {archival_mode = 'always'}",
        "[agents.porter]\nmax_rounds = 0",
    ):
        with pytest.raises(UsageError):
            read_chat_agents(wrong)
    with pytest.raises(UsageError, match=r"the agent `porter` in chat\.toml is not valid: `0` is not a number"):
        read_chat_agents("[agents.clerk]\nmax_rounds = 1\n[agents.porter]\nmax_rounds = 0")


def test_folders_that_are_missing_and_names_that_are_taken_twice_are_refused(memory, tmp_path):
    with pytest.raises(UsageError, match="not a folder"):
        load_programs(Settings(machines=str(tmp_path / "nowhere")), memory)
    twice = folder_of(tmp_path / "twice", one__mashin=MACHINE, two__mashin=MACHINE)
    with pytest.raises(UsageError, match="two machines"):
        load_programs(Settings(machines=twice, strict=True), memory)
    broken = folder_of(tmp_path / "broken", one__mashin="machine bell\n  implments\n")
    with pytest.raises(SourceError):
        load_programs(Settings(machines=broken, strict=True), memory)
    once = folder_of(tmp_path / "once", one__mashin=MACHINE, notes__txt="not a program")
    load_programs(Settings(machines=once), memory)


def test_what_is_wrong_with_an_agent_is_said_with_the_name_of_its_file(memory, tmp_path):
    broken = folder_of(tmp_path / "broken", porter__abl='AGENT: Porter\nGOAL: "Carry"\nFLWO:\n')
    with pytest.raises(SourceError, match=r"porter\.abl:3:1"):
        load_programs(Settings(agents=broken, strict=True), memory)
    for name in ("porter.abl", "chat.toml"):
        folder = tmp_path / f"latin-{name}"
        folder.mkdir()
        (folder / name).write_bytes("AGENT: Café\n[agents.café]".encode("latin-1"))
        with pytest.raises(UsageError, match="cannot be read"):
            load_programs(Settings(agents=str(folder), strict=True), memory)


def test_files_of_agents_may_come_from_an_editor_that_marks_them_and_ends_lines_its_own_way(memory, tmp_path):
    (tmp_path / "chat.toml").write_bytes(b'\xef\xbb\xbf[agents.porter]\r\nmodel = "demo:parrot"\r\n')
    (tmp_path / "bell.abl").write_bytes(b'\xef\xbb\xbfAGENT: Bell\r\nGOAL: "Ring"\r\n')
    assert load_programs(Settings(agents=str(tmp_path)), memory).chat_agent("porter").id == "porter"


def test_a_server_without_folders_runs_nothing(memory):
    with pytest.raises(NotFound):
        load_programs(Settings(), memory).chat_agent("porter")


def test_a_strict_server_whose_program_has_a_fault_does_not_stay_up(tmp_path):
    broken = folder_of(tmp_path / "broken", one__mashin="machine bell\n  implments\n")
    done = subprocess.run(
        [sys.executable, "-m", "memoranda.cli", "serve", "--db", str(tmp_path / "memory.db"), "--port", "0"],
        env={name: value for name, value in os.environ.items() if not name.startswith("MEMORANDA_")}
        | {"MEMORANDA_MACHINES": broken, "MEMORANDA_STRICT": "true"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert "one.mashin:1" in done.stderr
    assert "Traceback" not in done.stderr
