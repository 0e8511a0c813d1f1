"""Every version of Python that is there, and the oldest and newest versions of the packages that are allowed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
QUICK = ("tests/model", "tests/engine", "tests/governance", "tests/store", "tests/chat/test_policy.py")
"""Tests that touch every package of the core and take seconds."""
WITH_EXTRAS = (
    "tests/agent/test_anthropic.py",
    "tests/agent/test_models.py",
    "tests/server/test_facts.py",
    "tests/client/test_requests.py",
)
"""Those of each extra that notice a package which does not fit."""
TOOLS = ("pytest", "hypothesis", "pytest-xdist", "onnx")

pytestmark = pytest.mark.package


def interpreter(version: str) -> str:
    """Return a Python of this version; skip the test where there is none."""
    named = f"python{version}"
    managed = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/{named}"))
    for candidate in [shutil.which(named), *map(str, managed)]:
        # Started, not only looked up: the shim of a version manager can be there and still refuse to run.
        if candidate and subprocess.run([candidate, "--version"], capture_output=True, check=False).returncode == 0:
            return candidate
    pytest.skip(f"there is no Python {version} here")


def run_tests(environment: Any, *paths: str) -> str:
    """Run tests of ours on the package as it is installed there; return the last line that is printed."""
    flags = ("-q", "-n0", "-p", "no:cacheprovider", "-m", "not slow", "-c", ROOT / "pyproject.toml", "--rootdir", ROOT)
    said = environment.run(environment.bin / "python", "-m", "pytest", *flags, *(ROOT / path for path in paths))
    last = said.strip().splitlines()[-1]
    assert re.search(r"\d+ passed", last)
    return last


@pytest.mark.parametrize("version", VERSIONS)
def test_it_runs_on_every_python(version: str, install: Any, capsys: pytest.CaptureFixture[str]) -> None:
    environment = install("server", "llm", python=interpreter(version))
    environment.add(*TOOLS)
    assert environment.run(environment.bin / "python", "--version").split()[1].startswith(version)
    environment.memoranda("tour", "--all")
    last = run_tests(environment, "tests/model", "tests/engine")
    with capsys.disabled():
        print(f"\nPython {version}: {last}")


def test_the_versions_of_python_are_those_that_are_named(project: dict[str, Any]) -> None:
    named = [line.rpartition(" ")[2] for line in project["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert named == list(VERSIONS[: len(named)])
    assert project["requires-python"] == f">={VERSIONS[0]}"
    assert f"{sys.version_info[0]}.{sys.version_info[1]}" in VERSIONS


@pytest.mark.parametrize("age", ["oldest", "newest"])
def test_it_runs_on_the_oldest_and_on_the_newest_packages(
    age: str, install: Any, oldest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    versions = ("--constraints", str(oldest)) if age == "oldest" else ("--resolution", "highest")
    environment = install("all", versions=versions)
    environment.add(*TOOLS)
    last = run_tests(environment, *QUICK, *WITH_EXTRAS)
    with capsys.disabled():
        print(f"\n{age} packages: {last}")
