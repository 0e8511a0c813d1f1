"""The servers that models are asked through; their files are loaded by path, because tests are no package."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The other two import it by its name.
_load("loopback_server")
openai_server = _load("openai_server")
anthropic_server = _load("anthropic_server")


@pytest.fixture
def wire() -> ModuleType:
    """Return what makes answers of OpenAI: `wire.says("…")`, `wire.calls(…)`, `wire.refuses(429)`."""
    return openai_server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with openai_server.OpenAIServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-made-up-for-tests")
        yield server


@pytest.fixture
def claude() -> ModuleType:
    """Return what makes answers of Anthropic: `claude.says("…")`, `claude.calls(…)`, `claude.refuses(529)`."""
    return anthropic_server


@pytest.fixture
def anthropic(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with anthropic_server.AnthropicServer() as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-made-up-for-tests")
        yield server
