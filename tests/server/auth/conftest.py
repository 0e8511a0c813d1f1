"""Servers for the auth tests: each a separate process on a real file, called over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import warm_memoranda

import memoranda
from memoranda.server.auth.keys import create_key

_SCRIPT = """
import json, socket, sys
import uvicorn
from memoranda.server.app import create_app
from memoranda.server.logs import log_configuration
from memoranda.server.settings import Settings

listening = socket.create_server(("127.0.0.1", 0))
app = create_app(Settings(**json.loads(sys.argv[1])))
print(listening.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_config=log_configuration("debug"), access_log=False)).run(sockets=[listening])
"""


class Site:
    """A server in a separate process, and its database file."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.db = folder / "site.db"
        self._log = folder / "site.log"
        with ExitStack() as starting:
            self.memory = starting.enter_context(memoranda.open(self.db))
            with self._log.open("wb") as log:
                given = json.dumps({"db": str(self.db), **settings})
                self._process = starting.enter_context(
                    warm_memoranda.run_fork(given, program=_SCRIPT, warmth="server", stderr=log)
                )
            port = self._process.stdout.readline().strip()
            assert port, self.log
            self.url = f"http://127.0.0.1:{port}"
            self.http = starting.enter_context(httpx.Client(base_url=self.url, timeout=30))
            self._closing = starting.pop_all()

    @property
    def log(self) -> str:
        """The log of the server."""
        return self._log.read_text()

    def token(self, user: str, role: str = "member", *, tenant: str = "orchard", **options: Any) -> str:
        """Return the token of a new key."""
        return create_key(self.memory, tenant=tenant, user=user, role=role, **options).token

    def call(self, token: str | None, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request with a token, and return the response."""
        headers = [*dict(more.pop("headers", {})).items()]
        if token is not None:
            headers.append(("Authorization", f"Bearer {token}"))
        return self.http.request(method, f"/api/v1{path}", headers=headers, **more)

    def stop(self) -> None:
        """Stop the process by its id."""
        with self._closing:
            self._process.terminate()
            self._process.wait(30)


@pytest.fixture(scope="module")
def start_site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Callable[..., Site]]:
    """Start servers that stop with the module."""
    sites: list[Site] = []

    def start(**settings: Any) -> Site:
        sites.append(Site(tmp_path_factory.mktemp("site"), **settings))
        return sites[-1]

    yield start
    for site in sites:
        site.stop()


@pytest.fixture(scope="module")
def site(start_site: Callable[..., Site]) -> Site:
    """A server with default settings."""
    return start_site()
