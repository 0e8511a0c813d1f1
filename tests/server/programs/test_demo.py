"""`make serve`: what it prints is read, and the lines that it gives for a shell are run."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[3]
LIFETIME = 300.0
API = "/api/v1"


@contextmanager
def demo(folder: Path) -> Generator[list[str]]:
    """Run the demo as the Makefile does; give the lines that it printed once it listens."""
    process = subprocess.Popen(
        [sys.executable, "-m", "recollect.server.demo", "--folder", str(folder), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT_")},
    )
    watchdog = threading.Timer(LIFETIME, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            said.append(line.rstrip("\n"))
            if line.startswith("All routes"):
                break
        yield said
    finally:
        os.kill(process.pid, signal.SIGTERM)
        code = process.wait(LIFETIME)
        watchdog.cancel()
        process.stdout.close()
    assert code == 0


def after(said: list[str], words: str) -> str:
    """Return what a line says after some words."""
    return next(line.rpartition(words)[2] for line in said if words in line)


def run_line(line: str) -> str:
    """Run a line of a shell and return what it printed."""
    done = subprocess.run(shlex.split(line), capture_output=True, text=True, timeout=LIFETIME, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_lines_that_it_prints_work_and_what_is_there_stays_for_the_next_start(tmp_path):
    with demo(tmp_path) as said:
        lines = [line.strip() for line in said if line.startswith("  curl ")]
        assert len(lines) == 3
        core, recalled, streamed = (run_line(line) for line in lines)
        assert "beans on plot twelve" in json.loads(core)["content"]
        assert "north gate" in json.loads(recalled)[0]["content"]
        assert "event: end" in streamed and "long ladder" in streamed
        old, admin = after(said, "until the next start: "), after(said, "shown only now: ")
    with demo(tmp_path) as said:
        address, key = after(said, "listens on "), after(said, "until the next start: ")
        assert not any("shown only now" in line for line in said)
        with httpx.Client(base_url=address, timeout=LIFETIME) as client:

            def ask(token, path, **body):
                headers = {"Authorization": f"Bearer {token}"}
                method = "POST" if body else "GET"
                return client.request(method, f"{API}{path}", headers=headers, json=body or None)

            assert ask(old, "/conversations").status_code == 401
            talks = ask(key, "/conversations").json()["conversations"]
            assert [(one["id"], one["last_seq"] > 4) for one in talks] == [("welcome", True)]
            assert len(ask(key, "/collections/diary/entries").json()["entries"]) == 3
            assert ask(admin, "/memory/definitions").json()["definitions"][0]["slug"] == "plot"
            wrote = ask(key, "/machines/diary/runs", input={"plant": "beans", "line": "picked a bowl"})
            assert "beans: picked a bowl" in wrote.json()["output"]["lines"]
            asked = ask(key, "/workflows/watering/runs", input={"plot": 12}).json()
            assert (asked["status"], asked["messages"]) == ("waiting", ["When can you water plot 12?"])
            heard = ask(key, f"/runs/{asked['id']}/deliver", payload={"text": "Saturday"}).json()
            assert heard["messages"][-1] == "Thank you. Noted: Saturday"


def test_make_serve_starts_the_demo():
    rules = (ROOT / "Makefile").read_text()
    rule = rules[rules.index("\nserve:") :].split("\n\n")[0]
    assert "$(BIN)/python -m recollect.server.demo" in rule
