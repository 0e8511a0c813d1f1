"""One memory in a file, and every door to it: Python, the command line, agents, machines and workflows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from typer.testing import CliRunner
from ways import KITE, Scripted

import memoranda
from memoranda.agent.models import Reply, ToolCall
from memoranda.api.memory import Memory
from memoranda.cli.app import app
from memoranda.model.clock import SystemClock
from memoranda.model.definition import Definition
from memoranda.testing import FakeClock


@pytest.fixture
def scripted() -> type[Scripted]:
    return Scripted


@pytest.fixture
def wants() -> Callable[..., Reply]:
    """Return a function that makes a reply with a tool call."""
    return lambda name, arguments: Reply("", (ToolCall("c0", name, arguments),))


@pytest.fixture
def clock() -> FakeClock:
    """A fake clock that shows the real time: commands use the real clock, and see the same records."""
    return FakeClock(SystemClock().now())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def memory(path: Path, clock: FakeClock) -> Iterator[Memory]:
    with memoranda.open(path, clock=clock, embedder="hashing:64") as memory:
        yield memory


@pytest.fixture
def kite(memory: Memory) -> Definition:
    """A definition that every door knows: the kite of a person."""
    return memory.definitions.create(name="Kite", slug="kite", schema=KITE, ttl=3600)


@pytest.fixture
def cli(path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that runs a command on the same file and returns its JSON output."""
    for name in [name for name in os.environ if name.startswith("MEMORANDA_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MEMORANDA_DB", str(path))

    def call(*arguments: str, fails: bool = False) -> Any:
        done = CliRunner().invoke(app, [*arguments, "--json"])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert (done.exit_code != 0) == fails, done.stderr or done.stdout
        return json.loads(done.stderr if fails else done.stdout)

    return call


class Doors:
    """Every way to write Nora's kite."""

    def __init__(self, memory: Memory, cli: Callable[..., Any], model: type[Scripted]) -> None:
        self.memory = memory
        self.cli = cli
        self._model = model

    # writing

    def write(self, door: str, value: Any) -> None:
        """Write the kite through a door; raise a refusal as the error that the door makes of it."""
        getattr(self, f"_write_{door}")(value)

    def _write_python(self, value: Any) -> None:
        self.memory.scope(user="nora").set("kite", value)

    def _write_cli(self, value: Any) -> None:
        self.cli("facts", "set", "kite", json.dumps(value), "--as-json", "--user", "nora")

    def _write_workflow(self, value: Any) -> None:
        text = """
        defs:
          keep: {kind: task, action: update_memory, inputs: {memory: {kite: "=$input.kite"}}}
        flow:
          - do: keep
        """
        self.workflow(text).run({"kite": value}, owner="nora").check()

    def _write_model(self, value: Any) -> None:
        definition = self.memory.definitions.get("kite")
        text = f"""
        defs:
          kite: {{kind: memory, settings: {{definition_id: {definition.id}}}}}
          primary: {{kind: model, settings: {{provider: openai}}}}
          answer:
            kind: task
            action: ai_agent
            inputs: {{prompt: "Remember my kite."}}
            bindings: {{model: primary, memory: [kite]}}
        flow:
          - do: answer
        """
        calls = Reply("", (ToolCall("c0", "update_memory", {"memory": {"kite": value}}),))
        run = self.workflow(text, model=self._model(calls, "Noted.")).run(owner="nora").check()
        if run.outputs["answer"]["tool_calls"] != [{"name": "update_memory", "failed": False}]:
            raise memoranda.MemorandaError("the tool failed")

    def _write_abl(self, value: Any) -> None:
        text = """
        AGENT: Flyer
        GOAL: "Fly kites"
        MEMORY:
          session:
            - given
              INPUT: true
          persistent:
            - user.kite
              TYPE: object
        FLOW:
          field:
            REASONING: false
            SET:
              - user.kite = given
            THEN: COMPLETE
        """
        memoranda.abl.load(dedent(text), memory=self.memory).start(user="nora", vars={"given": value})

    # workflows

    def workflow(self, text: str, **options: Any) -> Any:
        return memoranda.workflow.load(dedent(text), **{"memory": self.memory, "name": "kites", **options})


@pytest.fixture
def doors(memory: Memory, kite: Definition, cli: Callable[..., Any], scripted: type[Scripted]) -> Doors:
    return Doors(memory, cli, scripted)
