"""The server that models are asked through; its file is loaded by its path, because tests are no package."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def _load() -> ModuleType:
    name = "openai_server"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("openai_server.py"))
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


openai_server = _load()


@pytest.fixture
def wire() -> ModuleType:
    """Return what makes answers: `wire.says("…")`, `wire.calls(…)`, `wire.refuses(429)`."""
    return openai_server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with openai_server.OpenAIServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-made-up-for-tests")
        yield server
