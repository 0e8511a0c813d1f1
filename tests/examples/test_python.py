"""The examples in plain Python run and print what their readers should see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"
PRINTED = {
    "first_steps": """
conflict: conflict
city: Porto
recalled: The piano tuner comes on Friday at nine
version 1: Lisbon, by owner
version 2: Porto, by owner
ledger: ok
""",
    "agent_loop": """
I know 1 things about you: name is Ada
I know 2 things about you: name is Ada; earlier you said: I am allergic to peanuts
""",
    "many_users": """
ada sees: ['Lisbon']
desk-agent reads: Lisbon
desk-agent is refused: denied
erased: 1 fact of bob
bob's city: None
refused so far: 1
""",
}


@pytest.mark.parametrize("name", PRINTED)
def test_it_prints_what_it_should(name: str, tmp_path: Path) -> None:
    program = [sys.executable, EXAMPLES / f"{name}.py"]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == PRINTED[name].lstrip("\n")


def test_every_example_is_run_and_described() -> None:
    names = {file.stem for file in EXAMPLES.glob("*.py")}
    assert names == set(PRINTED)
    described = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}.py`" in described for name in names)
