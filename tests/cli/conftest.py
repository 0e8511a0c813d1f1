"""Run the command line: in this process for the many small cases, as a real process for the main paths."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import openai_server
import pytest
import warm_memoranda
from typer.testing import CliRunner

from memoranda.cli.app import app


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        assert self.out == ""
        return json.loads(self.err)["error"]


Call = Callable[..., Result]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and an environment without our variables."""
    for name in [name for name in os.environ if name.startswith("MEMORANDA_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cli() -> Call:
    """Run a command in this process."""
    runner = CliRunner()

    def call(*arguments: str, input: str | bytes | None = None) -> Result:
        done = runner.invoke(app, list(arguments), input=input)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Result(done.exit_code, done.stdout, done.stderr)

    return call


def _calling(*command: str) -> Call:
    def call(*arguments: str, input: str | None = None, env: dict[str, str] | None = None) -> Result:
        done = subprocess.run(
            [*command, *arguments],
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            env={**os.environ, **(env or {})},
        )
        return Result(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def process() -> Call:
    """Run a command in a process forked from one that has imported everything commands need."""
    return _calling(str(warm_memoranda.folder() / "memoranda"))


@pytest.fixture
def started() -> Call:
    """Run a command in a new process, as a shell does."""
    return _calling(sys.executable, "-m", "memoranda.cli")


def change_a_byte(file: str | Path, position: int, *, old: bytes = b'"owner"', new: bytes = b'"ownex"') -> None:
    """Tamper with an event of the ledger, directly in the file."""
    connection = apsw.Connection(str(file))
    [(body,)] = connection.execute("SELECT body FROM events WHERE position = ?", (position,)).fetchall()
    assert isinstance(body, bytes) and old in body
    connection.execute("UPDATE events SET body = ? WHERE position = ?", (body.replace(old, new), position))
    connection.close()


@pytest.fixture
def tamper() -> Callable[..., None]:
    return change_a_byte


@pytest.fixture
def server() -> Iterator[Any]:
    """A provider with OpenAI's API that no environment variable points to."""
    with openai_server.OpenAIServer() as server:
        yield server
