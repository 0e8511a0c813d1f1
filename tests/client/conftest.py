"""Fixtures for the client: a scripted server, and a client that is the sync and the async one in turn."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
import struct
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from inspect import isasyncgen, iscoroutine
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from clocked_server import Served

import memoranda
from memoranda.client import retry

KEY = "mk_loopback_5ecret"


def _load(name: str) -> ModuleType:
    """Import a file of this directory under its name, because the tests are not a package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


scripted_server = _load("scripted_server")
_load("remote_memory")


@pytest.fixture
def loopback() -> Iterator[Any]:
    server = scripted_server.LoopbackServer()
    yield server
    server.close()


@pytest.fixture
def nobody() -> Iterator[str]:
    """Return an address without a listener, reserved so that none can appear."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the waits between attempts; their length has its own test."""
    monkeypatch.setattr(retry, "_FIRST_WAIT", 0.001)


class Awaited:
    """An async object whose calls are awaited here, so that one test covers both clients."""

    def __init__(self, target: Any, runner: asyncio.Runner) -> None:
        self._target = target
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._target, "aclose" if name == "close" else name)
        if callable(attribute):
            return lambda *given, **named: self._result(attribute(*given, **named))
        return attribute if isinstance(attribute, str) else Awaited(attribute, self._runner)

    def __repr__(self) -> str:
        return repr(self._target)

    def _result(self, result: Any) -> Any:
        if iscoroutine(result):
            return self._runner.run(result)
        if isinstance(result, memoranda.AsyncClient):  # such as `at_epoch` returns
            return Awaited(result, self._runner)
        return self._each(result) if isasyncgen(result) else result

    def _each(self, found: AsyncIterator[Any]) -> Iterator[Any]:
        while True:
            try:
                yield self._runner.run(anext(found))  # pyright: ignore[reportArgumentType]
            except StopAsyncIteration:
                return


@pytest.fixture(params=["sync", "async"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Return a function that makes a client; each test runs with the sync and with the async one."""
    made: list[Any] = []
    with asyncio.Runner() as runner:

        def connect(url: str, key: str | None = KEY, **options: Any) -> Any:
            if request.param == "sync":
                made.append(memoranda.Client(url, key, **options))
            else:
                made.append(Awaited(memoranda.AsyncClient(url, key, **options), runner))
            return made[-1]

        yield connect
        for client in made:
            client.close()


@pytest.fixture
def client(connect: Callable[..., Any], loopback: Any, hurried: None) -> Any:
    """Return a client of the scripted server."""
    return connect(loopback.url)


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Served]]:
    """Return a function that starts a server process on a new database, with these settings."""
    started: list[Served] = []

    def serve(**settings: Any) -> Served:
        started.append(Served(tmp_path_factory.mktemp("served") / "memory.db", **settings))
        return started[-1]

    yield serve
    for server in started:
        server.close()


@pytest.fixture(scope="module")
def served(serve: Callable[..., Served]) -> Served:
    """Return a server process on a new database."""
    return serve()
