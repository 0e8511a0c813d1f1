"""The package as users get it: built once, installed into otherwise empty environments, and tried there.

Tests that do so are marked `package`. They take minutes and need an index of packages, so they run in `make package`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from certificates import as_before

ROOT = Path(__file__).parents[2]
PATIENCE = 900.0
"""Seconds after which a command counts as hung; an environment may have to be downloaded."""
_FOREIGN = "^MEMORANDA_|^PYTHON|^VIRTUAL_ENV$|_API_KEY$|_BASE_URL$"

Install = Callable[..., "Environment"]


class Built(NamedTuple):
    """The files that are published."""

    sdist: Path
    wheel: Path


class Environment:
    """A Python environment with the package and its dependencies, and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.work = folder.with_name(f"{folder.name}-work")
        self.work.mkdir()
        self.variables = {**clean_variables(), "NO_COLOR": "1", "COLUMNS": "120"}

    def run(self, *command: object, code: int = 0, **variables: str) -> str:
        """Run a command in an empty directory; return its stdout and stderr, and fail on an unexpected exit code."""
        done = subprocess.run(
            [str(word) for word in command],
            cwd=self.work,
            env={**self.variables, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == code, f"{command} left with {done.returncode}, not {code}:\n{done.stdout}"
        return done.stdout

    def python(self, script: str, *arguments: object, code: int = 0, **variables: str) -> str:
        """Run a script; return its output."""
        return self.run(self.bin / "python", "-W", "error", "-c", script, *arguments, code=code, **variables)

    def memoranda(self, *arguments: object, code: int = 0, **variables: str) -> str:
        """Run the command that the package installs; return its output."""
        return self.run(self.bin / "memoranda", *arguments, code=code, **variables)

    def add(self, *packages: str) -> None:
        """Install tools beside the package, without changing the version of anything installed."""
        held = self.folder / "held.txt"
        held.write_text(uv("pip", "freeze", "--exclude", "memoranda", "--python", self.bin / "python"))
        uv("pip", "install", "--quiet", "--python", self.bin / "python", "--constraints", held, *packages)

    @property
    def packages(self) -> Path:
        """The directory of the installed packages."""
        [found] = self.folder.glob("lib/python3*/site-packages")
        return found


def clean_variables() -> dict[str, str]:
    """Return the environment variables without those about a memory, a model or another Python."""
    return as_before({name: value for name, value in os.environ.items() if not re.search(_FOREIGN, name)})


def uv(*arguments: object) -> str:
    """Run uv; return its output, and fail with that if it failed."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    assert found, "these tests need uv: pip install uv"
    done = subprocess.run(
        [found, *map(str, arguments)],
        cwd=ROOT,
        env=clean_variables(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"uv {arguments}:\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def project() -> dict[str, Any]:
    """The `project` table of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The source distribution, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    uv("build", "--quiet", "--build-constraints", "constraints.txt", "--out-dir", folder, ".")
    [sdist], [wheel] = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return Built(sdist, wheel)


@pytest.fixture(scope="session")
def install(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Return a function that makes environments: `install("server")` has that extra, and versions of constraints.txt.

    `versions` are arguments of uv in place of these.
    """
    made: dict[tuple[object, ...], Environment] = {}

    def install(
        *extras: str,
        python: str = sys.executable,
        versions: tuple[str, ...] = ("--constraints", "constraints.txt"),
    ) -> Environment:
        named = (extras, python, versions)
        if named not in made:
            # On the disk, not in the memory that holds the files of tests: an environment is large.
            folder = ROOT / "build" / "package" / str(len(made))
            shutil.rmtree(folder, ignore_errors=True)
            shutil.rmtree(folder.with_name(f"{folder.name}-work"), ignore_errors=True)
            uv("venv", "--quiet", "--python", python, folder)
            wheel = f"memoranda[{','.join(extras)}] @ {built.wheel.as_uri()}" if extras else built.wheel
            to = ("--python", folder / "bin" / "python")
            uv("pip", "install", "--quiet", *to, *versions, wheel)
            made[named] = Environment(folder)
        return made[named]

    return install


@pytest.fixture(scope="session")
def bare(install: Install) -> Environment:
    """The package without any extra."""
    return install()


@pytest.fixture(scope="session")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the oldest version of every package that pyproject.toml allows, and their newest dependencies."""
    file = tmp_path_factory.mktemp("oldest") / "oldest.txt"
    how = ("--quiet", "--resolution", "lowest-direct", "--all-extras", "--python", sys.executable)
    uv("pip", "compile", *how, "--output-file", file, "pyproject.toml")
    return file
