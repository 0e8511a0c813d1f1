"""`memoranda serve` as its own process: the first key is shown once, and what is unsafe does not start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from processes import run_process

FACTS = "/api/v1/memory/facts"


class Serving:
    """One `memoranda serve`, what it announced, and what it logged."""

    def __init__(self, folder: Path, environment: dict[str, str], *, workers: int) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MEMORANDA_")}
        self._log = folder / "serve.log"
        arguments = ("serve", "--port", "0", "--db", str(folder / "memory.db"), "--workers", str(workers), "--json")
        self._closing = ExitStack()
        with self._log.open("ab") as log:
            self._process = self._closing.enter_context(
                run_process(
                    [sys.executable, "-m", "memoranda.cli", *arguments],
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env={**clean, **environment},
                )
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.said: dict[str, Any] = json.loads(line) if line else {}

    @property
    def log(self) -> str:
        return self._log.read_text()

    def get(self, path: str, token: str | None = None) -> httpx.Response:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        transport = httpx.HTTPTransport(retries=5)
        with httpx.Client(base_url=self.said["address"], timeout=30, transport=transport) as http:
            return http.get(path, headers=headers)

    def stop(self) -> int:
        """End it by its process id and return how it left."""
        with self._closing:
            self._process.terminate()
            return self._process.wait(30)


@pytest.fixture
def serve(tmp_path: Path) -> Generator[Callable[..., Serving]]:
    running: list[Serving] = []

    def start(*, workers: int = 1, **environment: str) -> Serving:
        running.append(Serving(tmp_path, environment, workers=workers))
        return running[-1]

    yield start
    for one in running:
        one.stop()


def test_the_first_start_shows_an_admin_key_that_works_and_the_next_shows_none(serve):
    first = serve()
    key = first.said["admin_key"]
    assert first.get(FACTS).status_code == 401
    assert first.get(FACTS, key).status_code == 200
    assert first.get("/api/v1/ledger", key).status_code == 200
    first.stop()
    assert "request" in first.log and key.split("_", 2)[2] not in first.log
    second = serve()
    assert second.said["admin_key"] is None
    assert second.get(FACTS, key).status_code == 200


def test_several_workers_show_one_key_that_each_of_them_takes(serve):
    serving = serve(workers=2)
    key = serving.said["admin_key"]
    assert {serving.get(FACTS, key).status_code for _ in range(12)} == {200}
    assert {serving.get(FACTS, f"{key}x").status_code for _ in range(12)} == {401}


def test_an_admin_key_from_the_environment_works_and_is_not_shown(serve):
    serving = serve(MEMORANDA_ADMIN_KEY="plum-and-damson-jam")
    assert serving.said["admin_key"] is None
    assert serving.get(FACTS, "plum-and-damson-jam").status_code == 200
    assert serving.get(FACTS, "plum-and-damson").status_code == 401
    serving.stop()
    assert "request" in serving.log and "plum-and-damson" not in serving.log


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"MEMORANDA_JWT": "true"}, "no secret"),
        ({"MEMORANDA_JWT": "true", "MEMORANDA_JWT_SECRET": "too-short-a-secret"}, "at least 32 are required"),
        ({"MEMORANDA_JWT": "true", "MEMORANDA_JWT_ALGORITHM": "RS256"}, "no public keys"),
        ({"MEMORANDA_JWT_ALGORITHM": "RS256", "MEMORANDA_JWKS": "nowhere.json"}, "cannot be read"),
        ({"MEMORANDA_ADMIN_KEY": "hunter2"}, "MEMORANDA_ADMIN_KEY"),
    ],
)
def test_what_is_unsafe_does_not_start(serve, environment, said):
    refused = serve(**environment)
    assert refused.said == {}
    assert refused.stop() == 2
    assert said in refused.log
    assert "Traceback" not in refused.log and "too-short-a-secret" not in refused.log and "hunter2" not in refused.log


def test_the_configuration_is_shown_without_its_secrets(tmp_path):
    hidden = {"MEMORANDA_ADMIN_KEY": "plum-and-damson-jam", "MEMORANDA_JWT_SECRET": "medlar" * 6}
    for more in ((), ("--json",)):
        shown = subprocess.run(
            [sys.executable, "-m", "memoranda.cli", "config", "show", *more],
            capture_output=True,
            text=True,
            env={**os.environ, **hidden, "MEMORANDA_RATE": "77"},
            cwd=tmp_path,
        )
        assert shown.returncode == 0 and "77" in shown.stdout
        assert "plum" not in shown.stdout and "medlar" not in shown.stdout
