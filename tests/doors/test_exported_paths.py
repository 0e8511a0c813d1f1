"""What programs store in a database does not reveal the paths of their files."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import memoranda

AGENT = """
AGENT: Desk
GOAL: "Take orders"
FLOW:
  start:
    REASONING: false
    GATHER:
      - crates:
        type: number
    THEN: COMPLETE
"""
MACHINE = """
machine counter
  accepts
    n as number, is required
  ensures
    permissions
      allowed to
        memory
  implements
    remember note
      content: "counted"
      collection: "counter"
"""
WORKFLOW = """
defs:
  ask: {kind: task, action: wait_for_reply}
flow: [{do: ask}]
"""


def start_agent(file: Path, memory: memoranda.Memory) -> Any:
    return memoranda.abl.load(file, memory=memory).start(user="ida")


def run_machine(file: Path, memory: memoranda.Memory) -> Any:
    return memoranda.mashin.load(file, memory=memory).run({"n": 2}, user="ida")


def run_workflow(file: Path, memory: memoranda.Memory) -> Any:
    return memoranda.workflow.load(file, memory=memory).run(owner="ida", thread="t1")


@pytest.mark.parametrize(
    ("name", "text", "begin"),
    [
        ("desk.abl", AGENT, start_agent),
        ("counter.mashin", MACHINE, run_machine),
        ("stock.yaml", WORKFLOW, run_workflow),
    ],
)
def test_an_export_names_the_file_of_a_program_and_not_its_folder(tmp_path: Path, name: str, text: str, begin: Any):
    folder = tmp_path / "home-of-ida"
    folder.mkdir()
    file = folder / name
    file.write_text(dedent(text).lstrip())
    with memoranda.open(tmp_path / "memory.db") as memory:
        begin(file, memory)
        memory.export(tmp_path / "all.jsonl")
    exported = (tmp_path / "all.jsonl").read_text()
    assert f'"{name}"' in exported
    assert "home-of-ida" not in exported and str(tmp_path) not in exported
